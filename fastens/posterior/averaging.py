"""Posterior averages of trees over all their prunings, and priors on splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import AnyMatrix
from fastens.engine.elementary import log, log1p
from fastens.engine.threads import cached_property
from fastens.engine.trees.leaf_values import leaf_sums, leaves_of_rows
from fastens.engine.trees.neighbours import sum_up
from fastens.engine.trees.trees import MeasuredTree, Tree
from fastens.engine.whole import are_whole
from fastens.posterior import averages as kernel
from fastens.posterior.averages import average_over_prunings, count_classes, sum_number_statistics
from fastens.posterior.leaf_priors import ClassPrior, LeafPrior, Nodes, NumberPrior, RatePrior

if TYPE_CHECKING:
    from fastens.engine.trees.trees import SearchedTree, Tree


Array = NDArray[np.float64]


class Prunings:
    """Posterior over the prunings of one tree.

    Parameters
    ----------
    left_child : int32 array of shape (n_nodes,)
        Left child of each node, 0 at a leaf.
    log_evidence : float64 array of shape (n_nodes,)
        Log marginal likelihood of each node's rows if the node is a leaf.
    split_prior : float64 array of shape (n_nodes,), or float
        Prior probability that a node splits, between 0 and 1; ignored at leaves.

    Attributes
    ----------
    log_evidence : float64 array of shape (n_nodes,)
        Log marginal likelihood of each node's rows over all prunings below the node; at the root, of all rows.
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
        self.log_evidence, self.split = kernel.sum_over_prunings(self.left_child, *self._terms)

    @cached_property
    def reach(self) -> Array:
        """Posterior probability that all ancestors of a node split."""
        return kernel.reach_probabilities(self.left_child, self.split)

    @property
    def stop(self) -> Array:
        """Posterior probability that a node is a leaf."""
        return self.reach * (1.0 - self.split)

    def average(self, values: Array) -> Array:
        """Return the posterior mean of the values, (n_values, n_nodes), that each node predicts as a leaf.

        At inner nodes, it is the mean as if the tree ended there.
        """
        means = kernel.mean_over_prunings(self.left_child, self.split, self.reach, np.ascontiguousarray(values))
        # Clipped so that rounding cannot exceed the range of the values: probabilities stay within [0, 1].
        return np.clip(means, values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True))

    def map_leaves(self) -> NDArray[np.bool_]:
        """Return a mask of the leaves of the most probable pruning, shape (n_nodes,); ties favour the smaller one."""
        return kernel.find_best_pruning(self.left_child, *self._terms)[1].astype(bool)

    @property
    def map_log_joint(self) -> float:
        """Log of the joint probability of the most probable pruning and the rows."""
        return float(kernel.find_best_pruning(self.left_child, *self._terms)[0][0])

    def draw_leaves(self, random: np.random.Generator) -> NDArray[np.bool_]:
        """Draw a pruning from the posterior; return a mask of nodes that are leaves if they are reached."""
        return random.random(len(self.split)) >= self.split

    def expected_leaves(self) -> float:
        """Return the posterior mean of the number of leaves."""
        return float(kernel.expected_leaves_and_entropy(self.left_child, self.split)[0][0])

    def entropy(self) -> float:
        """Return the entropy of the posterior in nats."""
        return float(kernel.expected_leaves_and_entropy(self.left_child, self.split)[1][0])

    def use_of_features(self, feature: NDArray[np.int32], n_features: int) -> Array:
        """Return the posterior probability that a pruning splits on each feature, (n_features,)."""
        probabilities = np.zeros(n_features)
        for used_feature in np.unique(feature[feature >= 0]).tolist():
            probabilities[used_feature] = 1.0 - kernel.unused_probability(
                self.left_child, feature, self.split, used_feature
            )
        return probabilities

    def nodes_of(self, is_leaf: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return the leaf that the rows of each node fall into, shape (n_nodes,), if `is_leaf` masks the leaves."""
        return kernel.leaf_above(self.left_child, np.ascontiguousarray(is_leaf).view(np.uint8))

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Parent of each node, -1 at the root."""
        return kernel.parents_and_depths(self.left_child)[0]

    def draw_nodes(self, leaf: NDArray[np.integer], random: np.random.Generator) -> NDArray[np.integer]:
        """Draw a pruning for each row and return the node where the row ends, given its leaf in the unpruned tree."""
        # The probability of reaching a node decreases along the path, so one uniform number decides where it ends.
        uniform = 1.0 - random.random(len(leaf))
        node = np.array(leaf)
        while len(beyond := np.flatnonzero(uniform > self.reach[node])):
            node[beyond] = self.parent[node[beyond]]
        return node


def depths(left_child: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the depth of each node, shape (n_nodes,)."""
    return kernel.parents_and_depths(np.ascontiguousarray(left_child))[1]


SEARCH, STRICT, FEATURES = "search", "strict", "features"
# Exponent limit of the number of category subsets, to avoid overflow.
_MAX_BITS = 1000.0


@dataclass(frozen=True)
class NodeSearch:
    """Number of candidate splits of each node, counted during growth."""

    of_node: Array
    n_features: int  # number of features with at least one possible split, at least 1
    # Prior odds of a split with the prior "search", relative to the number of candidate splits. Chosen on the 67
    # development tables: see docs/measured/posterior.md.
    odds: ClassVar[float] = 5.0

    def n_splits(self, tree: Tree) -> Array:
        """Return the number of candidate splits of each node of `tree`, shape (n_nodes,); ignore leaves."""
        return self.of_node


def count_candidate_splits(
    tree: SearchedTree, n_features: int, features_per_split: int | None, *, random_thresholds: bool
) -> Array:
    """Return the number of candidate splits of each node of a tree, (n_nodes,); 1 at leaves.

    A feature with g distinct values in a node has g - 1 thresholds, or 2^(g - 1) - 1 partitions if it is categorical.
    """
    n_evaluated = n_features if features_per_split is None else min(features_per_split, n_features)
    n_usable = np.clip(tree.n_usable, 1, n_evaluated).astype(np.float64)
    if random_thresholds:
        return n_usable
    n_cuts = np.maximum(tree.n_groups - 1.0, 1.0)
    return n_usable * _count_feature_splits(n_cuts, tree)


def _count_feature_splits(n_cuts: Array, tree: Tree) -> Array:
    """Return the number of splits of the feature of each node, shape (n_nodes,).

    `n_cuts` is its number of thresholds, or of categories minus 1, whose partitions are counted.
    """
    n_partitions = np.exp2(np.minimum(n_cuts, _MAX_BITS)) - 1.0
    return np.where(tree.category_set >= 0, n_partitions, n_cuts)


@dataclass(frozen=True)
class TableSearch:
    """Number of candidate splits of nodes, estimated from the thresholds of the table."""

    # For a numeric feature, the number of thresholds; for a categorical feature, the number of categories minus 1
    n_thresholds: Array
    features_per_split: int | None  # if None, all features are evaluated
    random_thresholds: bool  # if True, one random threshold is evaluated for each feature
    odds: ClassVar[float] = 6.0

    @property
    def n_features(self) -> int:
        """Number of features with at least one possible split, at least 1."""
        return count_splittable_features(self.n_thresholds)

    def n_splits(self, tree: Tree) -> Array:
        """Return the number of candidate splits; n rows have at most n - 1 thresholds and at most n categories."""
        n_evaluated = self.n_features if self.features_per_split is None else self.features_per_split
        max_evaluated = min(n_evaluated, self.n_features)
        if self.random_thresholds:
            return np.full(tree.n_nodes, float(max_evaluated))
        n_cuts = np.maximum(np.minimum(self.n_thresholds[tree.feature], tree.weight - 1.0), 1.0)
        return max_evaluated * _count_feature_splits(n_cuts, tree)


SearchCost = NodeSearch | TableSearch


def thresholds_of_features(n_codes: NDArray[Any]) -> Array:
    """Return the number of thresholds of each feature from its number of codes, including the missing-value code."""
    return np.maximum(np.asarray(n_codes, dtype=np.float64) - 2, 0.0)


def count_splittable_features(n_thresholds: Array) -> int:
    """Return the number of features with at least one threshold, at least 1."""
    return max(1, int(np.count_nonzero(n_thresholds > 0)))


def split_probability(prior: Any, tree: Tree, cost: SearchCost) -> Array | float:
    """Return the prior probability that nodes split.

    Parameters
    ----------
    prior : float, pair or str
        A number is the probability for all nodes. A pair (a, b) means a (1 + depth)^-b (Chipman, George & McCulloch
        1998). "features" means 1 / (2 F) for F features. "strict" means 1 / (2 M) for M candidate splits, so that each
        of them is equally likely a priori. "search" has odds of 5 to M, or 6 to M if M is estimated from the table,
        because many candidate splits are nearly identical.
    tree : Tree
        The tree.
    cost : SearchCost
        Provides the number M of candidate splits.

    Returns
    -------
    float64 array of shape (n_nodes,), or a float if it is equal for all nodes

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target
    >>> from fastens.posterior.averaging import TableSearch, split_probability, thresholds_of_features
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> grower = ForestGrower(learn_binning(X).transform(X), class_target([0, 0, 1, 1, 1], [2]), ForestParameters())
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


# Maximum weight of a tree whose class counts can be recovered from float32 probabilities.
MAX_COUNTED = 2.0**23


@dataclass(frozen=True)
class PruningPrior:
    """Prior over prunings, and the temperature of the likelihood."""

    leaves: LeafPrior
    split: Any  # see `split_probability`
    cost: SearchCost  # number of candidate splits of nodes
    temperature: float = 1.0  # the likelihood is raised to the power of 1 / temperature

    def posterior(self, tree: Tree, statistics: Array, before: Array | None = None) -> Prunings:
        """Return the posterior over the prunings of a tree, given the statistics of nodes, (n_statistics, n_nodes).

        If `before` holds the statistics of the rows that the tree was grown on, the evidence is the conditional
        probability of the other rows given these.
        """
        log_evidence = self.leaves.log_evidence(statistics)
        if before is not None:
            log_evidence -= self.leaves.log_evidence(before)
        if self.temperature != 1:
            # At temperatures near 0, the best pruning has all the weight. The limit keeps sums of logarithms finite.
            log_evidence /= max(self.temperature, 1e-290 * np.abs(log_evidence).max())
        split = split_probability(self.split, tree, self.cost)
        return Prunings(tree.left_child, log_evidence, split)

    def averaged(self, tree: Tree, nodes: Nodes, leaves: Sequence[NDArray[Any]]) -> NDArray[np.floating]:
        """Return the values of a tree averaged over all prunings, in the shape and dtype of its values.

        `leaves` holds statistics of the leaves, (n_statistics, n_leaves): either of all rows, or first of the rows that
        the tree was grown on and then of the rows used as evidence.
        """
        quick = (
            self._average_with_tables(tree, nodes, leaves[0]) if len(leaves) == 1 and self.temperature == 1 else None
        )
        if quick is not None:
            return quick
        statistics, before = together([of_all_nodes(tree, part) for part in leaves])
        averaged = self.posterior(tree, statistics, before).average(self.leaves.values(statistics))
        return np.ascontiguousarray(averaged.T, dtype=tree.value.dtype)

    def _average_with_tables(self, tree: Tree, nodes: Nodes, leaves: NDArray[Any]) -> NDArray[np.floating] | None:
        """Return the values averaged over all prunings by the fast path of the leaf prior, or None without one."""
        split = np.broadcast_to(split_probability(self.split, tree, self.cost), tree.n_nodes)
        posterior = self.leaves.posterior(nodes, leaves, split)
        if posterior is None:
            return None
        averaged = np.empty(tree.value.shape, tree.value.dtype)
        average_over_prunings(nodes.inner, nodes.left_child, *posterior, averaged)
        return averaged


@dataclass(frozen=True)
class TreeRows:
    """Training rows, for statistics that cannot be derived from the nodes."""

    matrix: AnyMatrix
    columns: Array  # statistics of each row for a weight of 1, float64 (n_statistics, n_rows)

    def statistics(self, tree: Tree, *weights: Array | None) -> list[Array]:
        """Return the statistics of the leaves, (n_statistics, n_leaves), for each of the given row weights."""
        leaf, is_leaf = leaves_of_rows(self.matrix.columns, tree, pages=self.matrix.pages), tree.left_child == 0
        return [
            np.stack([leaf_sums(leaf, column, weight, tree.n_nodes)[is_leaf] for column in self.columns])
            for weight in weights
        ]


def nodes_of(tree: Tree) -> Nodes:
    """Return the indices of the inner nodes, of their left children, and of the leaves of a tree."""
    inner = np.flatnonzero(tree.left_child).astype(np.int32)
    return Nodes(inner, tree.left_child[inner], np.flatnonzero(tree.left_child == 0).astype(np.int32))


def class_statistics(tree: Tree, leaf: NDArray[np.int32], prior: ClassPrior) -> NDArray[Any]:
    """Recover the weights of the classes in the leaves from their probabilities, (n_statistics, n_leaves).

    Integer weights are recovered exactly if they sum to at most `MAX_COUNTED`, and have the smallest integer type that
    holds the weight of every leaf.
    """
    weight = np.ascontiguousarray(tree.weight, dtype=np.float32)
    of_leaves = weight[leaf]
    largest = int(of_leaves.max())
    dtype_of_counts = np.min_scalar_type(largest) if largest < 2**32 and are_whole(of_leaves) else np.dtype(np.float64)
    counts = np.empty((sum(prior.n_classes), tree.n_leaves), dtype=dtype_of_counts)
    row = column = 0
    for n in prior.n_classes:
        width = 1 if n == 2 else n
        count_classes(leaf, tree.value[:, column : column + width], weight, counts[row : row + n])
        row, column = row + n, column + width
    return counts


def rate_statistics(tree: Tree, leaf: NDArray[np.int32]) -> Array:
    """Return the statistics (1, y, log y!) of the leaves, (n_statistics, n_leaves), with sums of log y! omitted (0)."""
    weight = tree.weight[leaf].astype(np.float64)
    return np.concatenate([weight[None], tree.value[leaf].T * weight, np.zeros((1, len(weight)))])


def number_statistics(tree: MeasuredTree, leaf: NDArray[np.int32], prior: NumberPrior) -> NDArray[np.floating]:
    """Return the sums of 1, z and z^2 in the leaves, (n_statistics, n_leaves), as float32 if its range suffices."""
    weight, value = np.ascontiguousarray(tree.weight, dtype=np.float32), np.ascontiguousarray(tree.value)
    for kind in (np.float32, np.float64):
        sums = np.empty((1 + 2 * len(prior.location), tree.n_leaves), dtype=kind)
        sizes = sum_number_statistics(leaf, value, tree.squares, weight, prior.location, sums)
        if _fits_float32(sizes):
            break
    return sums


def compact(statistics: NDArray[Any]) -> NDArray[Any]:
    """Return statistics in the smallest type that holds them: an unsigned integer, else float32, else float64."""
    if statistics.dtype != np.float64:
        return statistics
    largest = statistics.max(initial=0)
    if largest < 2**53 and statistics.min(initial=0) >= 0:
        whole = statistics.astype(np.min_scalar_type(int(largest)))
        if (whole == statistics).all():
            return whole
    fits = _fits_float32(np.abs(statistics).max(axis=1, initial=0))
    return statistics.astype(np.float32 if fits else np.float64)


def _fits_float32(sizes: Array) -> bool:
    """Return True if numbers of these magnitudes are in the range of float32."""
    return bool(((sizes == 0) | ((sizes > 1e-30) & (sizes < 1e38))).all())


def of_all_nodes(tree: Tree, of_leaves: NDArray[Any]) -> Array:
    """Return the statistics of all nodes, (n_statistics, n_nodes), from the statistics of the leaves."""
    statistics = np.zeros((len(of_leaves), tree.n_nodes))
    statistics[:, tree.left_child == 0] = of_leaves
    left_child, offsets = np.ascontiguousarray(tree.left_child), np.array([0, tree.n_nodes], dtype=np.int64)
    for row in statistics:
        sum_up(offsets, left_child, row)
    return statistics


class TreeAverager:
    """Averages trees as they are grown, and stores the statistics of their leaves; thread-safe.

    `rows` is given if the evidence comes from rows that the trees were not grown on.
    """

    def __init__(self, prior: PruningPrior, rows: TreeRows | None) -> None:
        self.prior, self._rows = prior, rows
        self.needs_rows = rows is not None
        self.needs_squares = rows is None and isinstance(prior.leaves, NumberPrior)
        self._of_trees: dict[int, list[NDArray[Any]]] = {}

    def average(
        self, number: int, tree: Tree, scale: float, grown: Array | None, left_out: Array | None = None
    ) -> Tree:
        """Return tree `number` with averaged values; `scale` converts its weights to numbers of rows.

        `grown` holds the row weights that the tree was grown with, which are ignored if the tree holds all statistics.
        `left_out` holds the weights of the rows used as evidence if they are different rows.
        """
        nodes = nodes_of(tree)
        statistics = self._statistics(tree, nodes.leaf, grown, left_out)
        if scale != 1:
            statistics[0] = statistics[0] * scale
        # The statistics are stored so that `reweight` can evaluate another prior later.
        self._of_trees[number] = compact_leaves = [compact(part) for part in statistics]
        plain = {field.name: getattr(tree, field.name) for field in fields(Tree)}
        return Tree(**plain | {"value": self.prior.averaged(tree, nodes, compact_leaves)})

    def _statistics(
        self, tree: Tree, leaf: NDArray[np.int32], grown: Array | None, left_out: Array | None
    ) -> list[NDArray[Any]]:
        """Return the statistics of the leaves, (n_statistics, n_leaves), for each set of rows.

        They are derived from the tree's nodes, or computed from rows with the weights `grown` and `left_out`.
        """
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
        """Return the leaf statistics of trees `first` to `last` - 1, concatenated: an array for each set of rows."""
        parts = [self._of_trees[number] for number in range(first, last)]
        return [np.concatenate(part, axis=1) for part in zip(*parts, strict=True)]


def together(statistics: list[Array]) -> tuple[Array, Array | None]:
    """Return the statistics of all rows, and of growing rows or None, from [all] or [growing rows, evidence rows]."""
    if len(statistics) == 1:
        return statistics[0], None
    growing, evidence = statistics
    return growing + evidence, growing
