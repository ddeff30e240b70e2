"""Directed graphs of variables as tuples of parents: orders, ancestors, and what users may write for one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

Parents = tuple[tuple[int, ...], ...]


class CycleError(ValueError):
    """The graph has a directed cycle."""


def topological_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """The variables, every one after its parents, otherwise in the order of their numbers.

    CycleError, with the variables that cannot be ordered in its args, if there is a cycle.
    """
    waiting = [len(set(found)) for found in parents]
    children = children_of(parents)
    order = [node for node, count in enumerate(waiting) if count == 0]
    for node in order:
        for child in children[node]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    if len(order) < len(parents):
        raise CycleError([node for node, count in enumerate(waiting) if count])
    return order


def children_of(parents: Sequence[Sequence[int]]) -> list[list[int]]:
    """The children of each variable."""
    children: list[list[int]] = [[] for _ in parents]
    for node, found in enumerate(parents):
        for parent in dict.fromkeys(found):
            children[parent].append(node)
    return children


def ancestors(parents: Sequence[Sequence[int]], nodes: Iterable[int]) -> set[int]:
    """The variables given and all from which a directed path leads to one of them."""
    found = set(nodes)
    waiting = list(found)
    while waiting:
        new = set(parents[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def check_acyclic(parents: Sequence[Sequence[int]], names: Sequence[Any]) -> None:
    """Raise ValueError, with the names of the variables, where there is a directed cycle."""
    try:
        topological_order(parents)
    except CycleError as error:
        among = [names[node] for node in error.args[0]]
        raise ValueError(f"the structure must have no directed cycle; there is one among {among}.") from None


def parents_from(structure: Any, names: Sequence[Any]) -> Parents:
    """Read a structure: a dict of parents by child, or edges (parent, child); variables by name or number.

    ValueError if a variable is unknown, its own parent or a parent twice, or there is a cycle.
    """
    if isinstance(structure, Mapping):
        edges = [(parent, child) for child, found in structure.items() for parent in _as_list(found)]
        variables = [*structure, *(parent for parent, _ in edges)]
    else:
        edges = [_pair(edge) for edge in structure]
        variables = [node for edge in edges for node in edge]
    numbers = {name: number for number, name in enumerate(names)}
    place = {variable: _number_of(variable, numbers) for variable in map(_hashable, variables)}
    parents: list[list[int]] = [[] for _ in names]
    for parent, child in edges:
        if place[parent] == place[child] or place[parent] in parents[place[child]]:
            raise ValueError(f"structure must name each edge between two variables once; got {parent!r} -> {child!r}.")
        parents[place[child]].append(place[parent])
    check_acyclic(parents, names)
    return tuple(map(tuple, parents))


def _as_list(parents: Any) -> list[Any]:
    return list(parents) if isinstance(parents, list | tuple | set | frozenset) else [parents]


def _pair(edge: Any) -> tuple[Any, Any]:
    if not isinstance(edge, list | tuple) or len(edge) != 2:
        raise ValueError(f"structure must be a dict of parents by child, or pairs (parent, child); got {edge!r}.")
    return tuple(edge)


def _hashable(variable: Any) -> Any:
    if not isinstance(variable, Hashable):
        raise ValueError(f"structure must name variables of the network; got {variable!r}.")
    return variable


def _number_of(variable: Any, numbers: Mapping[Any, int]) -> int:
    if variable in numbers:
        return numbers[variable]
    if isinstance(variable, int) and not isinstance(variable, bool) and 0 <= variable < len(numbers):
        return variable
    raise ValueError(f"structure must name variables of the network, {list(numbers)}; got {variable!r}.")
