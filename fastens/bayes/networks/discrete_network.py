"""Bayesian network over discrete variables as plain data: names, values, parents and probability tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.networks.structures import Parents, check_acyclic, children_of, topological_order
from fastens.engine.threads import cached_property

Array = NDArray[np.float64]
NEAR_ONE = 0.01  # tolerance for sums, because published tables are rounded


@dataclass(frozen=True)
class DiscreteNetwork:
    """Bayesian network whose variables are indexed in the order of `names`."""

    names: tuple[str, ...]
    states: tuple[tuple[Any, ...], ...]  # values of each variable
    parents: Parents
    tables: tuple[Array, ...]  # P(variable | parents): one axis per parent, in order, then the variable

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of values of each variable."""
        return np.array([len(values) for values in self.states], dtype=np.int64)

    @cached_property
    def families(self) -> list[tuple[int, ...]]:
        """Variables of each table, in the order of its axes."""
        return families_of(self.parents)

    @cached_property
    def children(self) -> list[list[int]]:
        """Children of each variable."""
        return children_of(self.parents)

    @cached_property
    def order(self) -> list[int]:
        """Topological order of the variables, with parents before children."""
        return topological_order(self.parents)

    @cached_property
    def n_parameters(self) -> int:
        """Number of free parameters: the number of cells minus one for each distribution."""
        return sum(table.size - table[..., 0].size for table in self.tables)

    @cached_property
    def edges(self) -> list[tuple[str, str]]:
        """Edges as pairs (parent, child), grouped by child."""
        return [(self.names[p], self.names[node]) for node, found in enumerate(self.parents) for p in found]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def with_tables(self, tables: Sequence[Array]) -> DiscreteNetwork:
        """Return a network with this structure and other probability tables."""
        return replace(self, tables=tuple(tables))

    def ordered(self, order: Sequence[int]) -> DiscreteNetwork:
        """Return the network with its variables in another order."""
        place = {old: new for new, old in enumerate(order)}
        return DiscreteNetwork(
            tuple(self.names[old] for old in order),
            tuple(self.states[old] for old in order),
            tuple(tuple(place[parent] for parent in self.parents[old]) for old in order),
            tuple(self.tables[old] for old in order),
        )

    def fixed(self, values: Mapping[int, int]) -> DiscreteNetwork:
        """Return the network after an intervention: variables without parents that have a value with certainty."""
        parents = tuple(() if v in values else found for v, found in enumerate(self.parents))
        tables = [np.eye(self.sizes[v])[values[v]] if v in values else table for v, table in enumerate(self.tables)]
        return replace(self, parents=parents, tables=tuple(tables))

    def with_sorted_states(self, variable: int) -> DiscreteNetwork:
        """Return the network with the values of one variable sorted in ascending order."""
        values = self.states[variable]
        order = sorted(range(len(values)), key=values.__getitem__)
        tables = [
            np.take(table, order, axis=family.index(variable)) if variable in family else table
            for table, family in zip(self.tables, self.families, strict=True)
        ]
        states = [tuple(values[i] for i in order) if v == variable else found for v, found in enumerate(self.states)]
        return replace(self, states=tuple(states), tables=tuple(tables))

    def check(self) -> None:
        """Raise ValueError unless all parts are consistent and the tables hold probabilities."""
        n = len(self.names)
        if len({len(self.names), len(self.states), len(self.parents), len(self.tables)}) != 1 or n == 0:
            raise ValueError(
                "a network must have one or more variables, each with a list of values, a set of parents and a table."
            )
        if len(set(self.names)) != n:
            raise ValueError(f"the variables of a network must have different names; got {list(self.names)}.")
        for node, found in enumerate(self.parents):
            if len(set(found)) != len(found) or not all(0 <= parent < n for parent in found):
                raise ValueError(f"the parents of {self.names[node]!r} must be different variables of the network.")
        check_acyclic(self.parents, self.names)
        for name, values, family, table in zip(self.names, self.states, self.families, self.tables, strict=True):
            if not values or len(set(values)) != len(values):
                raise ValueError(f"{name!r} must have at least one value and no duplicates; got {list(values)}.")
            check_table(name, table, tuple(self.sizes[list(family)].tolist()))


def families_of(parents: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the parents of each variable followed by the variable itself."""
    return [(*found, node) for node, found in enumerate(parents)]


def joined(tables: Sequence[Array]) -> Array:
    """Return the concatenated cells of all tables."""
    return np.concatenate([table.ravel() for table in tables])


def as_table(name: str, given: Any) -> Array:
    """Convert a table passed by the user to an array; raise ValueError if it is not numeric."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers: {error}") from error


def check_table(name: str, table: Array, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless a table holds distributions along its last axis, up to rounding errors."""
    if table.shape != shape:
        raise ValueError(f"the table of {name!r} must have the shape {shape}, parents first; got {table.shape}.")
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError(f"the table of {name!r} must hold probabilities; it holds {table.min()}.")
    sums = table.sum(axis=-1)
    if np.abs(sums - 1).max() > NEAR_ONE:
        worst = float(sums.flat[np.abs(sums - 1).argmax()])
        raise ValueError(f"the distributions of {name!r} must each sum to 1; one sums to {worst:.6g}.")
