"""Trees whose leaves predict the average over all prunings, with the sums that another prior needs beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.binned import BinnedMatrix
from fastens.engine.kernels.packing import sum_up
from fastens.engine.kernels.prunings import average_shares, count_classes
from fastens.engine.leaf_priors import ClassPrior, LeafPrior, RatePrior
from fastens.engine.leaf_sums import leaf_sums, leaves_of_rows
from fastens.engine.prunings import Prunings
from fastens.engine.split_priors import SearchCost, split_probability
from fastens.engine.trees import Tree

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PruningPrior:
    """The prior over prunings, and how the rows' evidence counts.

    Attributes
    ----------
    leaves : LeafPrior
        Of what leaves predict.
    split : float, pair or str
        Of splits: see `split_probability`.
    cost : SearchCost
        How many splits a node chose from.
    temperature : float
        The likelihood is raised to the power of 1 / temperature.
    """

    leaves: LeafPrior
    split: Any
    cost: SearchCost
    temperature: float = 1.0

    def posterior(self, tree: Tree, statistics: Array, before: Array | None = None) -> Prunings:
        """The posterior over the prunings of a tree.

        Parameters
        ----------
        tree : Tree
            The tree.
        statistics : float64 array of shape (n_statistics, n_nodes)
            Of all rows that leaves learn from.
        before : float64 array of shape (n_statistics, n_nodes), optional
            Of those among them that are no evidence, for the tree was grown on them: the evidence is that of the
            others, given these.
        """
        log_evidence = self.leaves.log_evidence(statistics)
        if before is not None:
            log_evidence -= self.leaves.log_evidence(before)
        if self.temperature != 1:
            log_evidence /= self.temperature
        split = split_probability(self.split, tree.left_child, tree.feature, tree.weight, self.cost)
        return Prunings(tree.left_child, log_evidence, split)

    def values(self, tree: Tree, statistics: Array, before: Array | None = None) -> NDArray[np.floating]:
        """The tree's values, averaged over all prunings, in its own type."""
        averaged = self.posterior(tree, statistics, before).average(self.leaves.values(statistics))
        return np.ascontiguousarray(averaged.T, dtype=tree.value.dtype)


@dataclass(frozen=True)
class TreeRows:
    """The rows that trees are grown on, for statistics that nodes do not have.

    Attributes
    ----------
    matrix : BinnedMatrix
        The rows.
    columns : float64 array of shape (n_statistics, n_rows)
        What each row adds to its leaf, for a weight of 1.
    """

    matrix: BinnedMatrix
    columns: Array

    def statistics(self, tree: Tree, *weights: Array | None) -> list[Array]:
        """The statistics of all nodes, by each of some weights of the rows, (n_statistics, n_nodes)."""
        leaf = leaves_of_rows(self.matrix.columns, tree)
        found = []
        for weight in weights:
            sums = [leaf_sums(leaf, column, weight, tree.n_nodes) for column in self.columns]
            found.append(of_all_nodes(tree, np.stack(sums)[:, tree.left_child == 0]))
        return found


def class_statistics(tree: Tree, prior: ClassPrior) -> Array:
    """The classes' weights in all nodes, from the shares that a tree holds, (n_statistics, n_nodes).

    Whole weights come back exactly.
    """
    weight = np.ascontiguousarray(tree.weight, dtype=np.float32)
    left_child = np.ascontiguousarray(tree.left_child)
    counts = np.empty((sum(prior.n_classes), tree.n_nodes))
    row = column = 0
    for n in prior.n_classes:
        width = 1 if n == 2 else n
        count_classes(
            left_child, tree.value[:, column : column + width], weight, is_whole(weight), counts[row : row + n]
        )
        row, column = row + n, column + width
    return counts


def is_whole(weight: NDArray[Any]) -> bool:
    """Whether all weights are whole numbers."""
    return bool((weight == np.rint(weight)).all())


def rate_statistics(tree: Tree) -> Array:
    """Weights and sums of the counts in all nodes, from the means that a tree holds; those of log y! are left out."""
    is_leaf = tree.left_child == 0
    weight = tree.weight[is_leaf].astype(np.float64)
    sums = np.concatenate([weight[None], tree.value[is_leaf].T * weight, np.zeros((1, len(weight)))])
    return of_all_nodes(tree, sums)


def compact(statistics: Array) -> NDArray[Any]:
    """The same in few bytes: whole numbers in the smallest type that holds them, others as float32."""
    if (statistics == np.rint(statistics)).all() and statistics.min(initial=0) >= 0:
        largest = statistics.max(initial=0)
        return statistics.astype(np.min_scalar_type(int(largest)) if largest < 2**53 else np.float64)
    return statistics.astype(np.float32)


def of_all_nodes(tree: Tree, of_leaves: NDArray[Any]) -> Array:
    """The statistics of all nodes from those of the leaves, (n_statistics, n_nodes)."""
    found = np.zeros((len(of_leaves), tree.n_nodes))
    found[:, tree.left_child == 0] = of_leaves
    left_child, offsets = np.ascontiguousarray(tree.left_child), np.array([0, tree.n_nodes])
    for row in found:
        sum_up(offsets, left_child, row)
    return found


class TreeAverager:
    """Averages trees as they are grown, and keeps their leaves' statistics; for several threads at once.

    Parameters
    ----------
    prior : PruningPrior
        The prior.
    rows : TreeRows or None
        Where trees do not hold what the prior needs, or rows are evidence that the trees were not grown on.
    """

    def __init__(self, prior: PruningPrior, rows: TreeRows | None) -> None:
        self.prior, self._rows = prior, rows
        self.needs_rows = rows is not None
        self._of_trees: dict[int, list[NDArray[Any]]] = {}

    def average(
        self, number: int, tree: Tree, scale: float, grown: Array | None, left_out: Array | None = None
    ) -> Tree:
        """Return the tree with other values.

        Parameters
        ----------
        number : int
            The tree's.
        tree : Tree
            As it was grown.
        scale : float
            What turns its weights into numbers of rows.
        grown : float64 array of shape (n_rows,) or None
            The rows' weights that it was grown with; of no matter where the tree holds all that is needed.
        left_out : float64 array of shape (n_rows,), optional
            Weights of the rows that are the evidence, if they are not those.
        """
        if scale == 1 and self._is_simple(tree):
            return self._average_shares(number, tree)
        is_leaf = tree.left_child == 0
        found = self._statistics(tree, grown, left_out)
        if scale != 1:
            found[0] *= scale
        kept = [compact(part[:, is_leaf]) for part in found]
        # What is kept is all that another prior would know; whole numbers it knows as they are.
        nodes = [
            part if leaves.dtype.kind == "u" else of_all_nodes(tree, leaves)
            for part, leaves in zip(found, kept, strict=True)
        ]
        self._of_trees[number] = kept
        return replace(tree, value=self.prior.values(tree, *together(nodes)))

    def _is_simple(self, tree: Tree) -> bool:
        """Whether two passes over the nodes do, as they do for the defaults."""
        prior = self.prior
        simple = isinstance(prior.leaves, ClassPrior) and len(prior.leaves.n_classes) == 1 and self._rows is None
        return simple and prior.temperature == 1 and isinstance(prior.split, float) and is_whole(tree.weight)

    def _average_shares(self, number: int, tree: Tree) -> Tree:
        prior = self.prior.leaves
        assert isinstance(prior, ClassPrior)
        averaged, leaves = np.empty_like(tree.value), np.empty((prior.n_classes[0], tree.n_leaves))
        logs = float(np.log1p(-self.prior.split)), float(np.log(self.prior.split))
        average_shares(
            tree.left_child, tree.value, tree.weight, prior.alpha, *prior.log_gammas, *logs, averaged, leaves
        )
        self._of_trees[number] = [compact(leaves)]
        return replace(tree, value=averaged)

    def _statistics(self, tree: Tree, grown: Array | None, left_out: Array | None) -> list[Array]:
        leaves = self.prior.leaves
        if self._rows is not None:
            weights = (grown,) if left_out is None else (grown, left_out)
            return self._rows.statistics(tree, *weights)
        if isinstance(leaves, RatePrior):
            return [rate_statistics(tree)]
        assert isinstance(leaves, ClassPrior)
        return [class_statistics(tree, leaves)]

    def statistics(self, first: int, last: int) -> list[NDArray[Any]]:
        """Those of the leaves of some trees, one after another: of all, and of the rows left out where there are."""
        parts = [self._of_trees[number] for number in range(first, last)]
        return [np.concatenate(part, axis=1) for part in zip(*parts, strict=True)]


def together(statistics: list[Array]) -> tuple[Array, Array | None]:
    """What leaves learn from, and what of it is no evidence: of (all), or of (grown on, left out)."""
    if len(statistics) == 1:
        return statistics[0], None
    grown, left_out = statistics
    return grown + left_out, grown
