"""Rows with missing values: which missing variables of a row depend on each other, the known ones being given.

Variables of one family are connected. Those connected through missing ones are a component; its posterior
depends on the families that it touches alone, whose other variables are known. The same few components come in many
rows, and all of these are worked on at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.networks.discrete_network import DiscreteNetwork
from fastens.bayes.networks.factors import Array, Factor, marginal
from fastens.bayes.networks.graphs import ancestors

BLOCK_CELLS = 1 << 20  # of the joint table of a block of rows: 8 MB
JOINT_CELLS = 1 << 12  # of a small joint table


class Component(NamedTuple):
    """Connected missing variables, the variables whose tables they touch, and the rows they are missing in."""

    variables: tuple[int, ...]
    touched: tuple[int, ...]
    rows: NDArray[np.intp]


def find_components(
    network: DiscreteNetwork, is_missing: NDArray[np.bool_], wanted: int | None = None, *, prune: bool = True
) -> list[Component]:
    """The components of all rows, or those with the variable `wanted`.

    With `prune`, missing variables without a known or wanted descendant are left out: their tables sum to 1.
    """
    packed = np.packbits(is_missing, axis=0)
    patterns, first, pattern_of_row = np.unique(packed, axis=1, return_index=True, return_inverse=True)
    by_pattern = np.argsort(pattern_of_row.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(pattern_of_row.ravel(), minlength=patterns.shape[1]))
    rows_of: dict[tuple[tuple[int, ...], tuple[int, ...]], list[NDArray[np.intp]]] = {}
    for index, row in enumerate(first):
        missing = np.flatnonzero(is_missing[:, row]).tolist()
        rows = by_pattern[ends[index - 1] if index else 0 : ends[index]]
        for found in _components_of(network, missing, wanted, prune):
            if wanted is None or wanted in found[0]:
                rows_of.setdefault(found, []).append(rows)
    return [Component(*found, np.sort(np.concatenate(rows))) for found, rows in sorted(rows_of.items())]


def _components_of(
    network: DiscreteNetwork, missing: list[int], wanted: int | None, prune: bool
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    unknown = set(missing)
    needed = set(range(len(network.names)))
    if prune:
        roots = needed - unknown if wanted is None else (needed - unknown) | {wanted}
        needed = ancestors(network.parents, roots)
    waiting = unknown & needed
    while waiting:
        component, touched, new = set(), set(), [min(waiting)]
        while new:
            variable = new.pop()
            component.add(variable)
            families = {variable, *network.children[variable]} & needed
            around = {other for family in families for other in network.families[family]} & unknown
            new += [other for other in around if other not in component and other not in new]
            touched |= families
        waiting -= component
        yield tuple(sorted(component)), tuple(sorted(touched))


def evidence_factors(
    network: DiscreteNetwork, component: Component, codes: NDArray[Any], rows: NDArray[np.intp]
) -> list[Factor]:
    """The tables that a component touches, at the known values of the rows."""
    return [
        evidence_factor(network, variable, set(component.variables), codes[:, rows]) for variable in component.touched
    ]


def evidence_factor(network: DiscreteNetwork, variable: int, unknown: set[int], codes: NDArray[Any]) -> Factor:
    """A variable's table at the known values of rows: a factor of the unknown ones in its family."""
    family = network.families[variable]
    table, scope, known = split_axes(network.tables[variable], family, unknown)
    if not known:
        return Factor(scope, table[None])
    return Factor(scope, table[tuple(codes[other].astype(np.intp) - 1 for other in known)])


def split_axes(table: Array, family: tuple[int, ...], unknown: set[int]) -> tuple[Array, tuple[int, ...], list[int]]:
    """A view with the axes of the known variables first, then the unknown ones in ascending order; and both."""
    known = [variable for variable in family if variable not in unknown]
    scope = tuple(sorted(variable for variable in family if variable in unknown))
    return table.transpose([family.index(variable) for variable in (*known, *scope)]), scope, known


def blocks_of(network: DiscreteNetwork, component: Component) -> Iterator[NDArray[np.intp]]:
    """The rows of a component in blocks whose tables fit the cache."""
    n_cells = min(np.prod(network.sizes[list(component.variables)], dtype=np.float64), JOINT_CELLS)
    step = BLOCK_CELLS // max(int(n_cells), 1)
    for first in range(0, len(component.rows), step):
        yield component.rows[first : first + step]


def posterior_of(
    network: DiscreteNetwork, component: Component, keep: tuple[int, ...], factors: list[Factor], n_rows: int
) -> tuple[Array, Array]:
    """P(keep | what is known of each row), zeros where that is impossible; and the log of the touched tables' sum."""
    found, log_total = marginal(factors, keep, network.sizes.tolist())
    shape = tuple(network.sizes[sorted(keep)])
    return np.broadcast_to(found.values, (n_rows, *shape)), np.broadcast_to(log_total, n_rows)


def expected_counts(
    network: DiscreteNetwork, components: list[Component], codes: NDArray[Any], weights: Array | None
) -> tuple[list[Array], float]:
    """What the missing values add to each family's counts in expectation, and the sum of log probabilities of the rest.

    The log probabilities are those of the tables that components touch; rows in which a family is known are counted
    elsewhere. Impossible rows add nothing, and make the sum -inf.
    """
    counts = [np.zeros(table.shape) for table in network.tables]
    total = 0.0
    for component in components:
        joint_size = np.prod(network.sizes[list(component.variables)], dtype=np.float64)
        # A small joint table is made once, and summed for each family.
        keep = component.variables if joint_size <= JOINT_CELLS else ()
        for rows in blocks_of(network, component):
            weight = np.ones(len(rows)) if weights is None else weights[rows]
            factors = evidence_factors(network, component, codes, rows)
            joint, log_total = posterior_of(network, component, keep, factors, len(rows))
            total += float((weight * log_total).sum())
            for variable in component.touched:
                family = network.families[variable]
                view, scope, known = split_axes(counts[variable], family, set(component.variables))
                if keep:
                    others = [1 + axis for axis, other in enumerate(keep) if other not in scope]
                    share = joint.sum(axis=tuple(others))
                else:
                    share = posterior_of(network, component, scope, factors, len(rows))[0]
                _add_shares(view, [codes[other][rows] for other in known], share, weight)
    return counts, total


def _add_shares(view: Array, known: list[NDArray[Any]], share: Array, weight: Array) -> None:
    """Add each row's weighted share to the cells of the known values."""
    n_known = view.shape[: len(known)]
    cells = np.zeros(len(weight), dtype=np.intp)
    for size, code in zip(n_known, known, strict=True):
        cells = cells * size + (code.astype(np.intp) - 1)
    n_cells = int(np.prod(n_known))
    flat = share.reshape(len(weight), -1)
    sums = [np.bincount(cells, weights=flat[:, k] * weight, minlength=n_cells) for k in range(flat.shape[1])]
    view += np.stack(sums, axis=1).reshape(view.shape)
