"""Trees that predict the posterior average over all their prunings, and priors on splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from fastens.cached import cached_property
from fastens.engine.bins.sparse_binned import AnyMatrix
from fastens.engine.elementary import log, log1p
from fastens.engine.trees.leaf_values import leaf_sums, leaves_of_rows
from fastens.engine.trees.neighbours import sum_up
from fastens.engine.trees.trees import MeasuredTree, Tree
from fastens.posterior import averages as kernel
from fastens.posterior.averages import (
    add_up_numbers,
    average_over_prunings,
    count_classes,
    kinds_of_nodes,
    largest_whole,
)
from fastens.posterior.leaf_priors import ClassPrior, LeafPrior, Nodes, NumberPrior, RatePrior

if TYPE_CHECKING:
    from fastens.engine.trees.trees import SearchedTree, Tree


Array = NDArray[np.float64]


class Prunings:
    """The posterior over the prunings of one tree.

    Parameters
    ----------
    left_child : int32 array of shape (n_nodes,)
        Of the tree; 0 at a leaf.
    log_evidence : float64 array of shape (n_nodes,)
        Log of the probability of each node's rows, if it is a leaf.
    split_prior : float64 array of shape (n_nodes,), or float
        Prior probability that a node splits, between 0 and 1; ignored at leaves.

    Attributes
    ----------
    log_evidence : float64 array of shape (n_nodes,)
        Log of the probability of each node's rows, over all prunings below it; the root's is that of all rows.
    split : float64 array of shape (n_nodes,)
        Posterior probability that a node splits, if it is reached.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.posterior.averaging import Prunings
    >>> tree = np.array([1, 0, 0], dtype=np.int32)
    >>> prunings = Prunings(tree, np.log([0.01, 0.3, 0.3]), np.full(3, 0.5))
    >>> float(prunings.split[0].round(3)), prunings.map_leaves().tolist()
    (0.9, [False, True, True])
    """

    def __init__(self, left_child: NDArray[np.int32], log_evidence: Array, split_prior: Array | float) -> None:
        self.left_child = np.ascontiguousarray(left_child)
        stops, splits = log1p(-np.asarray(split_prior)), log(split_prior)
        n_nodes = len(log_evidence)
        self._terms = (log_evidence, *(np.full(n_nodes, term) if term.ndim == 0 else term for term in (stops, splits)))
        self.log_evidence, self.split = kernel.average(self.left_child, *self._terms)

    @cached_property
    def reach(self) -> Array:
        """Posterior probability that all ancestors of a node split."""
        return kernel.reach(self.left_child, self.split)

    @property
    def stop(self) -> Array:
        """Posterior probability that a node is a leaf."""
        return self.reach * (1.0 - self.split)

    def average(self, values: Array) -> Array:
        """The mean prediction over all prunings, from what each node predicts as a leaf, (n_values, n_nodes).

        At inner nodes, the mean if the tree stopped there.
        """
        found = kernel.spread(self.left_child, self.split, self.reach, np.ascontiguousarray(values))
        # Rounding does not lead beyond the values: shares stay shares.
        return np.clip(found, values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True))

    def map_leaves(self) -> NDArray[np.bool_]:
        """Whether nodes are leaves of the most probable pruning, if they are reached; of equal ones the smaller."""
        return kernel.best(self.left_child, *self._terms)[1].astype(bool)

    @property
    def map_log_joint(self) -> float:
        """Log of the joint probability of the most probable pruning and the rows."""
        return float(kernel.best(self.left_child, *self._terms)[0][0])

    def draw_leaves(self, random: np.random.Generator) -> NDArray[np.bool_]:
        """Whether nodes are leaves, if they are reached, of a pruning drawn from the posterior."""
        return random.random(len(self.split)) >= self.split

    def expected_leaves(self) -> float:
        """The expected number of leaves."""
        return float(kernel.expected_shape(self.left_child, self.split)[0][0])

    def entropy(self) -> float:
        """The entropy of the posterior, in nats."""
        return float(kernel.expected_shape(self.left_child, self.split)[1][0])

    def use_of_features(self, feature: NDArray[np.int32], n_features: int) -> Array:
        """The posterior probability that a pruning splits on each feature, (n_features,)."""
        found = np.zeros(n_features)
        for wanted in np.unique(feature[feature >= 0]).tolist():
            found[wanted] = 1.0 - kernel.unused(self.left_child, feature, self.split, wanted)
        return found

    def nodes_of(self, is_leaf: NDArray[np.bool_]) -> NDArray[np.int32]:
        """For each node, the node that is the leaf of its rows in a pruning."""
        return kernel.leaf_above(self.left_child, np.ascontiguousarray(is_leaf).view(np.uint8))

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Each node's parent, -1 at the root."""
        return kernel.parents(self.left_child)[0]

    def draw_nodes(self, leaf: NDArray[np.integer], random: np.random.Generator) -> NDArray[np.integer]:
        """For each row, by its leaf in the whole tree, its leaf in a pruning of its own, drawn from the posterior."""
        # The probability to reach a node falls along the path: one uniform number decides where it ends.
        place = 1.0 - random.random(len(leaf))
        node = np.array(leaf)
        while len(beyond := np.flatnonzero(place > self.reach[node])):
            node[beyond] = self.parent[node[beyond]]
        return node


def depths(left_child: NDArray[np.int32]) -> NDArray[np.int32]:
    """The number of splits above each node."""
    return kernel.parents(np.ascontiguousarray(left_child))[1]


SEARCH, STRICT, FEATURES = "search", "strict", "features"
# Sets of more categories than this and one are as good as infinitely many.
_MOST_BITS = 1000.0


class SearchCost(Protocol):
    """How many splits nodes chose from."""

    @property
    def odds(self) -> float:
        """The odds of "search" are these to the number of splits."""
        ...

    @property
    def n_features(self) -> int:
        """How many features can be split at all, at least 1."""
        ...

    def n_splits(self, tree: Tree) -> Array:
        """One over the prior probability of the split of each node, (n_nodes,), any of those looked at being as likely.

        Values at leaves are ignored.
        """
        ...


@dataclass(frozen=True)
class NodeSearch:
    """The number of splits that each node chose from, counted as the tree grew."""

    of_node: Array
    n_features: int  # that can be split at all, at least 1
    # Chosen on the 67 tables of choice: see docs/measured/posterior.md.
    odds: ClassVar[float] = 5.0

    def n_splits(self, tree: Tree) -> Array:
        """As for `SearchCost`."""
        return self.of_node


def n_splits_of(
    tree: SearchedTree, n_features: int, features_per_split: int | None, *, random_thresholds: bool
) -> Array:
    """How many splits the nodes of a tree chose from, (n_nodes,); 1 at leaves.

    g different values in a node have g - 1 thresholds between them; g categories can be parted in 2^(g - 1) - 1 ways.
    """
    looked_at = n_features if features_per_split is None else min(features_per_split, n_features)
    n_usable = np.clip(tree.n_usable, 1, looked_at).astype(np.float64)
    if random_thresholds:
        return n_usable
    n_places = np.maximum(tree.n_groups - 1.0, 1.0)
    return n_usable * _n_ways(n_places, tree)


def _n_ways(n_places: Array, tree: Tree) -> Array:
    """How many splits a feature has, by its thresholds; of categories, one less than there are."""
    n_sets = np.exp2(np.minimum(n_places, _MOST_BITS)) - 1.0
    return np.where(tree.category_set >= 0, n_sets, n_places)


@dataclass(frozen=True)
class TableSearch:
    """The number of splits that nodes choose from, by the thresholds of the table."""

    n_thresholds: Array  # of each feature; of categories, one less than there are
    features_per_split: int | None  # None for all
    random_thresholds: bool  # one of each feature, drawn at random
    odds: ClassVar[float] = 6.0

    @property
    def n_features(self) -> int:
        """How many features can be split at all, at least 1."""
        return n_splittable(self.n_thresholds)

    def n_splits(self, tree: Tree) -> Array:
        """As for `SearchCost`: n rows have at most n - 1 thresholds between them, and are of at most n categories."""
        looked_at = self.n_features if self.features_per_split is None else self.features_per_split
        most = min(looked_at, self.n_features)
        if self.random_thresholds:
            return np.full(tree.n_nodes, float(most))
        n_places = np.maximum(np.minimum(self.n_thresholds[tree.feature], tree.weight - 1.0), 1.0)
        return most * _n_ways(n_places, tree)


def thresholds_of_features(n_codes: NDArray[Any]) -> Array:
    """The numbers of thresholds of features: these have a code for missing values and one for each part or category."""
    return np.maximum(np.asarray(n_codes, dtype=np.float64) - 2, 0.0)


def n_splittable(n_thresholds: Array) -> int:
    """How many features can be split at all, at least 1."""
    return max(1, int(np.count_nonzero(n_thresholds > 0)))


def split_probability(prior: Any, tree: Tree, cost: SearchCost) -> Array | float:
    """The prior probability that nodes split.

    Parameters
    ----------
    prior : float, pair or str
        A number g: g for all. A pair (a, b): a (1 + depth)^-b (Chipman, George & McCulloch 1998). "features": 1 / (2 F)
        for F features. "strict": 1 / (2 M) where a node chose from M splits, which is the prior probability of the one
        it has; "search": its odds are 5 to M (6 where M is of the table), as many of them are nearly the same.
    tree : Tree
        The tree.
    cost : SearchCost
        What M is.

    Returns
    -------
    float64 array of shape (n_nodes,), or a number where it is the same for all

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.forest.forests import ForestGrower, TreeRules, TreeSample, class_target
    >>> from fastens.posterior.averaging import TableSearch, split_probability, thresholds_of_features
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> grower = ForestGrower(learn_binning(X).transform(X), class_target([0, 0, 1, 1, 1], [2]), TreeRules())
    >>> [tree] = grower.grow([TreeSample(None, None, 0)])
    >>> cost = TableSearch(thresholds_of_features(np.array([6])), None, random_thresholds=False)
    >>> float(split_probability("strict", tree, cost)[0])
    0.125
    """
    if prior == FEATURES:
        return 0.5 / cost.n_features
    if prior in (SEARCH, STRICT):
        n_splits = cost.n_splits(tree)
        return 0.5 / n_splits if prior == STRICT else cost.odds / (cost.odds + n_splits)
    if isinstance(prior, tuple | list):
        return prior[0] * (1.0 + depths(tree.left_child)) ** -prior[1]
    return float(prior)


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
