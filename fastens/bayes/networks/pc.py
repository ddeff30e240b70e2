"""PC structure search: conditional independence tests, separating sets and the orientation of edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from fastens.bayes.counts.counting import CodedRows, family_counts, n_cells
from fastens.bayes.counts.regressions import family_moments, gaussian_fit
from fastens.bayes.networks.structures import (
    BATCH_CELLS,
    DENSE_CELLS,
    EdgeRules,
    Parents,
    ancestors,
    number_combinations,
)
from fastens.engine.elementary import log
from fastens.warn import warn

INDEPENDENCE_TESTS = ("g2", "chi2")
MAX_TESTS = 1 << 12  # tests of a batch, so that the tests of a level are never listed all at once

Array = NDArray[np.float64]
Test = tuple[int, int, tuple[int, ...]]  # two variables and the variables of the condition
Separators = dict[tuple[int, int], tuple[float, tuple[int, ...]]]  # by pair in ascending order: p-value and condition


def pc(rows: CodedRows, names: Sequence[str], rules: EdgeRules, statistic: str, significance_level: float) -> Parents:
    """Run the PC algorithm and return the parents of each variable in one graph of the equivalence class.

    An edge is removed if its variables are independent given at most `rules.max_parents` neighbours of one of them. All
    conditions of a size are tested before edges are removed (PC-stable, Colombo & Maathuis 2014), and the condition
    with the highest p-value separates a pair (PC-Max, Ramsey 2016). Variables are visited in the order of their names.
    The graph therefore does not depend on the order of the columns.

    References
    ----------
    Spirtes, Glymour & Scheines (2000), "Causation, prediction, and search", section 5.4.2; Meek (1995), "Causal
    inference and causal explanation with background knowledge", UAI.
    """
    order = sorted(range(len(names)), key=names.__getitem__)
    position = {old: new for new, old in enumerate(order)}
    required, forbidden = (
        {(position[parent], position[child]) for child, parents in enumerate(listed) for parent in parents}
        for listed in (rules.required, rules.forbidden)
    )
    values = None if rows.values is None else rows.values[order]
    continuous = frozenset(position[old] for old in rows.continuous)
    rows = replace(rows, codes=rows.codes[order], sizes=rows.sizes[order], values=values, continuous=continuous)
    graph = PartlyDirected(len(order), combinations(range(len(order)), 2))
    separators = find_separators(rows, graph, required, rules.max_parents, statistic, significance_level)
    for parent, child in sorted(required):
        graph.orient(parent, child)
    for child, parent in sorted(forbidden):
        if (parent, child) in forbidden:
            graph.remove(parent, child)
        elif child in graph.adjacent[parent] and not graph.orient(parent, child):
            graph.remove(parent, child)
            edge = " and ".join(repr(names[order[node]]) for node in (parent, child))
            warn(
                f"forbidden_edges and required_edges allow only an edge that closes a cycle between {edge}, so PC "
                "leaves it out. Allow the opposite direction."
            )
    graph.orient_colliders(separators)
    graph.orient_all()
    parents = [sorted(order[parent] for parent in graph.parents[position[old]]) for old in range(len(order))]
    return tuple(map(tuple, parents))


def compelled_edges(parents: Parents, fixed: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return the edges that have the same direction in all graphs with the same independences and `fixed` edges."""
    edges = [(parent, child) for child, child_parents in enumerate(parents) for parent in child_parents]
    graph = PartlyDirected(len(parents), edges)
    for parent, child in fixed:
        graph.orient(parent, child)
    for child, child_parents in enumerate(parents):
        for pair in combinations(child_parents, 2):
            if pair[1] not in graph.adjacent[pair[0]]:
                for parent in pair:
                    graph.orient(parent, child)
    graph.orient_implied()
    return [(parent, child) for parent, child in edges if parent in graph.parents[child]]


def find_separators(
    rows: CodedRows,
    graph: PartlyDirected,
    required: set[tuple[int, int]],
    max_size: int,
    statistic: str,
    significance_level: float,
) -> Separators:
    """Remove the edges between conditionally independent variables from `graph`, in place; return the separators.

    `required` edges stay. A separator is the condition with the highest p-value; it has at most `max_size` variables.
    """
    separators: Separators = {}
    for size in range(max_size + 1):
        best: Separators = {}
        tests = _independence_tests(graph.adjacent, required, size, rows.continuous)
        is_last = True
        while batch := list(islice(tests, MAX_TESTS)):
            is_last = False
            for (one, other, condition), p_value in zip(batch, p_values(rows, batch, statistic), strict=True):
                if p_value > max(significance_level, best.get((one, other), (0.0,))[0]):
                    best[one, other] = p_value, condition
        for pair in best:
            graph.remove(*pair)
        separators |= best
        if is_last:
            break
    return separators


def _independence_tests(
    adjacent: Sequence[set[int]], required: set[tuple[int, int]], size: int, continuous: frozenset[int]
) -> Iterator[Test]:
    """Yield the tests of all edges that are not `required`, given each set of `size` neighbours of either variable.

    `adjacent` holds the neighbours of each variable. Two discrete variables are only tested given discrete variables,
    because a continuous variable cannot be their parent.
    """
    for one, other in combinations(range(len(adjacent)), 2):
        if other in adjacent[one] and not {(one, other), (other, one)} & required:
            excluded = {one, other} | (set() if continuous & {one, other} else continuous)
            around = (sorted(adjacent[one] - excluded), sorted(adjacent[other] - excluded))
            for condition in dict.fromkeys(
                subset for neighbours in around for subset in combinations(neighbours, size)
            ):
                yield one, other, condition


def p_values(rows: CodedRows, tests: Sequence[Test], statistic: str) -> list[float]:
    """Return the p-values of conditional independence tests on the rows in which their variables are known.

    "g2" is the likelihood ratio and "chi2" is Pearson's statistic. In each stratum of the condition, values without
    rows do not count as degrees of freedom (bnlearn's "adjusted" tests). Without degrees of freedom, the p-value is 1.
    Continuous variables are tested by the likelihood ratio of their regressions.
    """
    sizes = rows.sizes.tolist()
    families = [(*condition, one, other) for one, other, condition in tests]
    by_shape: dict[tuple[int, ...], list[int]] = {}
    test_results = np.ones((2, len(tests)))
    for number, family in enumerate(families):
        if rows.continuous.intersection(family):
            test_results[:, number] = _gaussian_statistic(rows, tests[number])
        elif n_cells(family, sizes) > DENSE_CELLS:
            test_results[:, number] = _sparse_statistic(rows, family, statistic)
        else:
            cells = n_cells(family[:-2], sizes), sizes[family[-2]], sizes[family[-1]]
            by_shape.setdefault(cells, []).append(number)
    for shape, numbers in by_shape.items():
        step = max(1, BATCH_CELLS // n_cells(range(3), shape))
        for first in range(0, len(numbers), step):
            batch = numbers[first : first + step]
            counts = family_counts(rows, [families[number] for number in batch])
            test_results[:, batch] = _table_statistics(
                np.stack([table.reshape(shape) for table in counts]).astype(np.float64), statistic
            )
    statistics, freedom = test_results
    return np.where(freedom > 0, chdtrc(np.maximum(freedom, 1), statistics), 1.0).tolist()


def _gaussian_statistic(rows: CodedRows, test: Test) -> tuple[float, float]:
    """Return the likelihood ratio of the regressions with and without the tested edge, and its degrees of freedom."""
    rows = rows.of_all_ranks()
    one, other, condition = test
    child, parent = (one, other) if one in rows.continuous else (other, one)
    fits, n_parameters = [], []
    for parents, also_known in (((*condition, parent), ()), (condition, (parent,))):
        moments = family_moments(rows, child, parents, also_known)
        fit, n_used = gaussian_fit(moments)
        fits.append(fit)
        n_parameters.append(n_used * moments.shape[-1])
    return max(2 * (fits[0] - fits[1]), 0.0), n_parameters[0] - n_parameters[1]


def _table_statistics(counts: Array, statistic: str) -> tuple[Array, Array]:
    """Return the statistics and degrees of freedom of tests, from counts (n_tests, n_strata, n_values, n_values)."""
    of_one, of_other = counts.sum(axis=3, keepdims=True), counts.sum(axis=2, keepdims=True)
    expected = of_one * of_other / np.maximum(of_one.sum(axis=2, keepdims=True), np.finfo(np.float64).tiny)
    freedom = np.maximum((of_one > 0).sum(axis=2) - 1, 0) * np.maximum((of_other > 0).sum(axis=3) - 1, 0)
    terms = _statistic_terms(counts, np.where(counts > 0, expected, 1.0), statistic)
    return terms.sum(axis=(1, 2, 3)), freedom.sum(axis=(1, 2)).astype(np.float64)


def _statistic_terms(counts: Array, expected: Array, statistic: str) -> Array:
    """Return the contribution of each cell to the statistic "g2" or "chi2"."""
    ratio = counts / expected
    return 2 * counts * log(np.where(counts > 0, ratio, 1.0)) if statistic == "g2" else counts * (ratio - 1)


def _sparse_statistic(rows: CodedRows, family: tuple[int, ...], statistic: str) -> tuple[float, float]:
    """Return the statistic and its degrees of freedom from the observed combinations of values only.

    `family` holds the variables of the condition, followed by the two variables that are tested.
    """
    rows = rows.of_all_ranks()  # combinations are numbered globally
    is_known = (rows.codes[list(family)] > 0).all(axis=0)
    weights = None if rows.weights is None else rows.weights[is_known]
    *condition, one, other = family
    numbers, counts = [], []
    for subset in (condition, (*condition, one), (*condition, other), family):
        numbers.append(number_combinations(rows.codes[list(subset)][:, is_known], rows.sizes[list(subset)]))
        counts.append(np.bincount(numbers[-1], weights).astype(np.float64))
    first = np.unique(numbers[3], return_index=True)[1]  # a row of each cell
    total, of_one, of_other = (count[number[first]] for count, number in zip(counts[:3], numbers[:3], strict=True))
    n_values = [
        np.bincount(numbers[0][np.unique(number, return_index=True)[1]], minlength=len(counts[0]))
        for number in numbers[1:3]
    ]
    freedom = ((n_values[0] - 1) * (n_values[1] - 1)).sum()
    return float(_statistic_terms(counts[3], of_one * of_other / total, statistic).sum()), float(freedom)


class PartlyDirected:
    """Graph with directed and undirected edges; the directed edges never form a cycle."""

    def __init__(self, n_nodes: int, edges: Iterable[tuple[int, int]]) -> None:
        self.adjacent: list[set[int]] = [set() for _ in range(n_nodes)]
        self.parents: list[set[int]] = [set() for _ in range(n_nodes)]
        for one, other in edges:
            self.adjacent[one].add(other)
            self.adjacent[other].add(one)

    def remove(self, one: int, other: int) -> None:
        """Remove the edge between two nodes, in either direction."""
        for node, neighbour in ((one, other), (other, one)):
            self.adjacent[node].discard(neighbour)
            self.parents[node].discard(neighbour)

    def can_orient(self, parent: int, child: int) -> bool:
        """Return True if the edge points to `child` already, or can do so without a directed cycle."""
        return parent in self.parents[child] or child not in ancestors([*map(tuple, self.parents)], [parent])

    def orient(self, parent: int, child: int) -> bool:
        """Direct the edge to `child`; return False, without a change, if it is reversed or would close a cycle."""
        is_allowed = self.can_orient(parent, child)
        if is_allowed:
            self.parents[child].add(parent)
        return is_allowed

    def undirected(self) -> list[tuple[int, int]]:
        """Return each undirected edge twice, as pairs of nodes in both directions."""
        return [
            (node, other)
            for node, around in enumerate(self.adjacent)
            for other in sorted(around - self.parents[node])
            if node not in self.parents[other]
        ]

    def orient_colliders(self, separators: Mapping[tuple[int, int], tuple[float, tuple[int, ...]]]) -> None:
        """Direct the edges of each separated pair to a common neighbour that is not in the separator.

        `separators` maps pairs of nodes to the p-value and the condition that separates them. If colliders contradict
        each other, the pair with the higher p-value has priority.
        """
        colliders = [
            (-p_value, pair, middle)
            for pair, (p_value, condition) in separators.items()
            for middle in self.adjacent[pair[0]] & self.adjacent[pair[1]] - set(condition)
        ]
        for _, pair, middle in sorted(colliders):
            if all(self.can_orient(parent, middle) for parent in pair):
                self.parents[middle].update(pair)

    def orient_implied(self) -> None:
        """Direct the edges whose opposite direction would close a cycle or make a new collider (Meek 1995)."""
        while any(self._is_implied(*edge) and self.orient(*edge) for edge in self.undirected()):
            pass

    def _is_implied(self, parent: int, child: int) -> bool:
        """Return True if one of Meek's four rules directs the undirected edge from `parent` to `child`."""
        before, after, around = self.parents[parent], self.parents[child], self.adjacent[parent]
        if child in before or parent in after:
            return False
        if before - self.adjacent[child] or any(parent in self.parents[middle] for middle in after):
            return True
        free = {node for node in around - before if parent not in self.parents[node]}
        third = any(other not in self.adjacent[one] for one, other in combinations(sorted(free & after), 2))
        return third or any(self.parents[middle] & free - self.adjacent[child] - {child} for middle in around & after)

    def orient_all(self) -> None:
        """Direct all edges: first the implied edges, then repeatedly the first undirected edge and what it implies."""
        self.orient_implied()
        while edges := self.undirected():
            any(self.orient(*edge) for edge in (edges[0], edges[0][::-1]))
            self.orient_implied()
