"""Trees whose leaves predict the average over all prunings, and the sums that allow another prior later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.sparse_binned import AnyMatrix
from fastens.engine.trees.leaf_sums import leaf_sums, leaves_of_rows
from fastens.engine.trees.trees import MeasuredTree, Tree
from fastens.engine.trees.unpack import sum_up
from fastens.posterior.averages import (
    add_up_numbers,
    average_over_prunings,
    count_classes,
    kinds_of_nodes,
    largest_whole,
)
from fastens.posterior.leaf_priors import ClassPrior, LeafPrior, Nodes, NumberPrior, RatePrior
from fastens.posterior.prunings import Prunings
from fastens.posterior.split_priors import SearchCost, split_probability

Array = NDArray[np.float64]
# Largest weight of a tree whose class counts can be recovered from float32 probabilities.
MOST_COUNTED = 2.0**23


@dataclass(frozen=True)
class PruningPrior:
    """The prior over prunings, and how the rows' evidence counts."""

    leaves: LeafPrior
    split: Any  # see `split_probability`
    cost: SearchCost  # how many splits a node chose from
    temperature: float = 1.0  # the likelihood is raised to the power of one over this

    def posterior(self, tree: Tree, statistics: Array, before: Array | None = None) -> Prunings:
        """The posterior over the prunings of a tree, from the nodes' statistics, (n_statistics, n_nodes).

        `before` are the statistics of the rows that the tree was grown on: the evidence is then that of the others,
        given these.
        """
        log_evidence = self.leaves.log_evidence(statistics)
        if before is not None:
            log_evidence -= self.leaves.log_evidence(before)
        if self.temperature != 1:
            # Next to 0 the best pruning has all weight; logarithms stay numbers, also of trees of many nodes.
            log_evidence /= max(self.temperature, 1e-290 * np.abs(log_evidence).max())
        split = split_probability(self.split, tree, self.cost)
        return Prunings(tree.left_child, log_evidence, split)

    def averaged(self, tree: Tree, nodes: Nodes, leaves: Sequence[NDArray[Any]]) -> NDArray[np.floating]:
        """The tree's values, averaged over all prunings, in its own type.

        `leaves` are statistics, (n_statistics, n_leaves): of the rows of the leaves, or first of those that the tree
        was grown on, then of those that are evidence.
        """
        quick = self._averaged_quickly(tree, nodes, leaves[0]) if len(leaves) == 1 and self.temperature == 1 else None
        if quick is not None:
            return quick
        statistics, before = together([of_all_nodes(tree, part) for part in leaves])
        averaged = self.posterior(tree, statistics, before).average(self.leaves.values(statistics))
        return np.ascontiguousarray(averaged.T, dtype=tree.value.dtype)

    def _averaged_quickly(self, tree: Tree, nodes: Nodes, leaves: NDArray[Any]) -> NDArray[np.floating] | None:
        split = np.broadcast_to(split_probability(self.split, tree, self.cost), tree.n_nodes)
        found = self.leaves.posterior(nodes, leaves, split)
        if found is None:
            return None
        averaged = np.empty(tree.value.shape, tree.value.dtype)
        average_over_prunings(nodes.inner, nodes.left_child, *found, averaged)
        return averaged


@dataclass(frozen=True)
class TreeRows:
    """The rows that trees are grown on, for statistics that nodes do not have."""

    matrix: AnyMatrix
    columns: Array  # float64 (n_statistics, n_rows): each row's statistics for a weight of 1

    def statistics(self, tree: Tree, *weights: Array | None) -> list[Array]:
        """The statistics of the leaves, by each of some weights of the rows, (n_statistics, n_leaves)."""
        leaf, is_leaf = leaves_of_rows(self.matrix.columns, tree, pages=self.matrix.pages), tree.left_child == 0
        return [
            np.stack([leaf_sums(leaf, column, weight, tree.n_nodes)[is_leaf] for column in self.columns])
            for weight in weights
        ]


def nodes_of(tree: Tree) -> Nodes:
    """The inner nodes and the leaves of a tree."""
    return Nodes(*kinds_of_nodes(np.ascontiguousarray(tree.left_child)))


def class_statistics(tree: Tree, leaf: NDArray[np.int32], prior: ClassPrior) -> NDArray[Any]:
    """The classes' weights in the leaves, from the shares that a tree holds, (n_statistics, n_leaves).

    Whole weights come back exactly, up to `MOST_COUNTED` in a tree, and in the smallest type that holds all of a leaf.
    """
    weight = np.ascontiguousarray(tree.weight, dtype=np.float32)
    largest = largest_whole(leaf, weight)
    kind = np.min_scalar_type(largest) if 0 <= largest < 2**32 else np.dtype(np.float64)
    counts = np.empty((sum(prior.n_classes), tree.n_leaves), dtype=kind)
    row = column = 0
    for n in prior.n_classes:
        width = 1 if n == 2 else n
        count_classes(leaf, tree.value[:, column : column + width], weight, counts[row : row + n])
        row, column = row + n, column + width
    return counts


def rate_statistics(tree: Tree, leaf: NDArray[np.int32]) -> Array:
    """Weights and sums of the counts in the leaves, from the means that a tree holds; those of log y! are left out."""
    weight = tree.weight[leaf].astype(np.float64)
    return np.concatenate([weight[None], tree.value[leaf].T * weight, np.zeros((1, len(weight)))])


def number_statistics(tree: MeasuredTree, leaf: NDArray[np.int32], prior: NumberPrior) -> NDArray[np.floating]:
    """The sums of 1, z and z^2 in the leaves, (n_statistics, n_leaves), as float32 where that does."""
    weight, value = np.ascontiguousarray(tree.weight, dtype=np.float32), np.ascontiguousarray(tree.value)
    for kind in (np.float32, np.float64):
        sums = np.empty((1 + 2 * len(prior.location), tree.n_leaves), dtype=kind)
        sizes = add_up_numbers(leaf, value, tree.squares, weight, prior.location, sums)
        if _fit_float32(sizes):
            break
    return sums


def compact(statistics: NDArray[Any]) -> NDArray[Any]:
    """The same in few bytes: whole numbers in the smallest type that holds them, others as float32 where that does."""
    if statistics.dtype != np.float64:
        return statistics
    largest = statistics.max(initial=0)
    if largest < 2**53 and statistics.min(initial=0) >= 0:
        whole = statistics.astype(np.min_scalar_type(int(largest)))
        if (whole == statistics).all():
            return whole
    fits = _fit_float32(np.abs(statistics).max(axis=1, initial=0))
    return statistics.astype(np.float32 if fits else np.float64)


def _fit_float32(sizes: Array) -> bool:
    return bool(((sizes == 0) | ((sizes > 1e-30) & (sizes < 1e38))).all())


def of_all_nodes(tree: Tree, of_leaves: NDArray[Any]) -> Array:
    """The statistics of all nodes from those of the leaves, (n_statistics, n_nodes)."""
    found = np.zeros((len(of_leaves), tree.n_nodes))
    found[:, tree.left_child == 0] = of_leaves
    left_child, offsets = np.ascontiguousarray(tree.left_child), np.array([0, tree.n_nodes], dtype=np.int64)
    for row in found:
        sum_up(offsets, left_child, row)
    return found


class TreeAverager:
    """Averages trees as they are grown, and keeps their leaves' statistics; for several threads at once.

    `rows` are given where rows are evidence that the trees were not grown on.
    """

    def __init__(self, prior: PruningPrior, rows: TreeRows | None) -> None:
        self.prior, self._rows = prior, rows
        self.needs_rows = rows is not None
        self.needs_squares = rows is None and isinstance(prior.leaves, NumberPrior)
        self._of_trees: dict[int, list[NDArray[Any]]] = {}

    def average(
        self, number: int, tree: Tree, scale: float, grown: Array | None, left_out: Array | None = None
    ) -> Tree:
        """Return tree `number` with averaged values; `scale` is the factor from its weights to numbers of rows.

        `grown` are the rows' weights that it was grown with, ignored where the tree holds all that is needed;
        `left_out` those of the rows that are the evidence, if they are others.
        """
        nodes = nodes_of(tree)
        found = self._statistics(tree, nodes.leaf, grown, left_out)
        if scale != 1:
            found[0] = found[0] * scale
        # From these another prior can be evaluated later.
        self._of_trees[number] = kept = [compact(part) for part in found]
        plain = {field.name: getattr(tree, field.name) for field in fields(Tree)}
        return Tree(**plain | {"value": self.prior.averaged(tree, nodes, kept)})

    def _statistics(
        self, tree: Tree, leaf: NDArray[np.int32], grown: Array | None, left_out: Array | None
    ) -> list[NDArray[Any]]:
        leaves = self.prior.leaves
        if self._rows is not None:
            weights = (grown,) if left_out is None else (grown, left_out)
            return self._rows.statistics(tree, *weights)
        if isinstance(leaves, ClassPrior):
            return [class_statistics(tree, leaf, leaves)]
        if isinstance(leaves, RatePrior):
            return [rate_statistics(tree, leaf)]
        assert isinstance(leaves, NumberPrior)
        assert isinstance(tree, MeasuredTree)
        return [number_statistics(tree, leaf, leaves)]

    def statistics(self, first: int, last: int) -> list[NDArray[Any]]:
        """Those of the leaves of some trees, one after another: of all, and of the rows left out where there are."""
        parts = [self._of_trees[number] for number in range(first, last)]
        return [np.concatenate(part, axis=1) for part in zip(*parts, strict=True)]


def together(statistics: list[Array]) -> tuple[Array, Array | None]:
    """Statistics of all rows, and of those that are no evidence, from (all,) or from (grown on, left out)."""
    if len(statistics) == 1:
        return statistics[0], None
    grown, left_out = statistics
    return grown + left_out, grown
