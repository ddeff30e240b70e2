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
        """Return the posterior mean of `values` over all prunings for the rows of each node, (n_values, n_nodes).

        `values` holds what each node predicts as a leaf, (n_values, n_nodes). The mean of an inner node is computed as
        if the unpruned tree ended there.
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
        """Draw a pruning from the posterior; return a mask, (n_nodes,), of nodes that are leaves if reached."""
        return random.random(len(self.split)) >= self.split

    def expected_leaves(self) -> float:
        """Return the posterior mean of the number of leaves of the pruning."""
        return float(kernel.expected_leaves_and_entropy(self.left_child, self.split)[0][0])

    def entropy(self) -> float:
        """Return the entropy of the posterior over prunings in nats."""
        return float(kernel.expected_leaves_and_entropy(self.left_child, self.split)[1][0])

    def use_of_features(self, feature: NDArray[np.int32], n_features: int) -> Array:
        """Return the posterior probability that at least one node of the pruning splits on a feature, (n_features,).

        `feature` holds the split feature of each node, negative at leaves.
        """
        probabilities = np.zeros(n_features)
        for used_feature in np.unique(feature[feature >= 0]).tolist():
            probabilities[used_feature] = 1.0 - kernel.unused_probability(
                self.left_child, feature, self.split, used_feature
            )
        return probabilities

    def nodes_of(self, is_leaf: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Return for each node the leaf that its rows reach in the pruning with the leaves `is_leaf`, shape (n_nodes,).

        `is_leaf` is a mask, such as the result of `map_leaves`. Nodes above the leaves are returned unchanged.
        """
        return kernel.leaf_above(self.left_child, np.ascontiguousarray(is_leaf).view(np.uint8))

    @cached_property
    def parent(self) -> NDArray[np.int32]:
        """Parent of each node, -1 at the root."""
        return kernel.parents_and_depths(self.left_child)[0]

    def draw_nodes(self, leaf: NDArray[np.integer], random: np.random.Generator) -> NDArray[np.integer]:
        """Draw a pruning for each row independently, and return the leaf that the row reaches in it, (n_rows,).

        `leaf` holds the leaf of each row in the unpruned tree.
        """
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
        """Return `of_node`, the numbers counted during growth, shape (n_nodes,); `tree` is ignored."""
        return self.of_node


def count_candidate_splits(
    tree: SearchedTree, n_features: int, features_per_split: int | None, *, random_thresholds: bool
) -> Array:
    """Return the number of candidate splits of each node of a tree, (n_nodes,); 1 at leaves.

    A feature with g distinct values in a node has g - 1 thresholds, or 2^(g - 1) - 1 partitions if it is categorical;
    if `random_thresholds` is True, it has one split. At most `features_per_split` features count, or all if it is None.
    """
    n_evaluated = n_features if features_per_split is None else min(features_per_split, n_features)
    n_usable = np.clip(tree.n_usable, 1, n_evaluated).astype(np.float64)
    if random_thresholds:
        return n_usable
    n_cuts = np.maximum(tree.n_groups - 1.0, 1.0)
    return n_usable * _count_feature_splits(n_cuts, tree)


def _count_feature_splits(n_cuts: Array, tree: Tree) -> Array:
    """Return the number of candidate splits of the split feature of each node, shape (n_nodes,).

    `n_cuts` is the number of thresholds of this feature, which is returned, or of categories minus 1 if it is
    categorical; in that case, the number of partitions of the categories is returned.
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
        """Return an estimate of the number of candidate splits of each node of `tree`, shape (n_nodes,).

        A node with n rows has at most n - 1 thresholds, and at most n categories.
        """
        n_evaluated = self.n_features if self.features_per_split is None else self.features_per_split
        max_evaluated = min(n_evaluated, self.n_features)
        if self.random_thresholds:
            return np.full(tree.n_nodes, float(max_evaluated))
        n_cuts = np.maximum(np.minimum(self.n_thresholds[tree.feature], tree.weight - 1.0), 1.0)
        return max_evaluated * _count_feature_splits(n_cuts, tree)


SearchCost = NodeSearch | TableSearch


def thresholds_of_features(n_codes: NDArray[Any]) -> Array:
    """Return the number of thresholds of each feature; `n_codes` counts its bins and the missing-value code."""
    return np.maximum(np.asarray(n_codes, dtype=np.float64) - 2, 0.0)


def count_splittable_features(n_thresholds: Array) -> int:
    """Return the number of features with at least one threshold, or 1 if there are none."""
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
        """Return the posterior over the prunings of a tree; `statistics` has the shape (n_statistics, n_nodes).

        If `before` is None, the evidence is the probability of all rows. Otherwise, `before` holds the part of the
        statistics that comes from the rows that the tree was grown on, and the evidence is the conditional probability
        of the other rows given these.
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
        statistics, before = combine_row_sets([node_statistics(tree, part) for part in leaves])
        averaged = self.posterior(tree, statistics, before).average(self.leaves.values(statistics))
        return np.ascontiguousarray(averaged.T, dtype=tree.value.dtype)

    def _average_with_tables(self, tree: Tree, nodes: Nodes, leaves: NDArray[Any]) -> NDArray[np.floating] | None:
        """Return the values averaged over all prunings by the leaf prior's fast path, or None if it is unavailable.

        `leaves` holds the statistics of the leaves, (n_statistics, n_leaves). The temperature must be 1.
        """
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
        """Return the statistics of the leaves of `tree`, (n_statistics, n_leaves), for each array of row weights."""
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

    `leaf` holds the indices of the leaves. Integer weights are recovered exactly if they sum to at most `MAX_COUNTED`,
    and have the smallest integer type that holds the weight of every leaf.
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
    """Return the sums of weights times 1, y and log y! in the leaves with indices `leaf`, (n_statistics, n_leaves).

    The sums of log y! are 0, because they are equal for all prunings and cannot be recovered from the tree.
    """
    weight = tree.weight[leaf].astype(np.float64)
    return np.concatenate([weight[None], tree.value[leaf].T * weight, np.zeros((1, len(weight)))])


def number_statistics(tree: MeasuredTree, leaf: NDArray[np.int32], prior: NumberPrior) -> NDArray[np.floating]:
    """Return the sums of weights times 1, z and z^2 in the leaves with indices `leaf`, (n_statistics, n_leaves).

    z is the target minus `prior.location`. The type is float32 if its range suffices, otherwise float64.
    """
    weight, value = np.ascontiguousarray(tree.weight, dtype=np.float32), np.ascontiguousarray(tree.value)
    for kind in (np.float32, np.float64):
        sums = np.empty((1 + 2 * len(prior.location), tree.n_leaves), dtype=kind)
        sizes = sum_number_statistics(leaf, value, tree.squares, weight, prior.location, sums)
        if _fits_float32(sizes):
            break
    return sums


def compact(statistics: NDArray[Any]) -> NDArray[Any]:
    """Return float64 statistics as the smallest exact unsigned integers, or float32 if in its range; else unchanged."""
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
    """Return True if all `sizes`, which are absolute values, are 0 or well inside the range of float32."""
    return bool(((sizes == 0) | ((sizes > 1e-30) & (sizes < 1e38))).all())


def node_statistics(tree: Tree, leaf_statistics: NDArray[Any]) -> Array:
    """Return the statistics of all nodes, (n_statistics, n_nodes), which are sums over the leaves below each node."""
    statistics = np.zeros((len(leaf_statistics), tree.n_nodes))
    statistics[:, tree.left_child == 0] = leaf_statistics
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
        """Return a copy of a tree with averaged values, and store the statistics of its leaves under `number`.

        `scale` converts the weights of the tree to numbers of rows. `grown` holds the row weights that the tree was
        grown with; it is ignored if the statistics can be derived from the nodes. `left_out` holds the weights of the
        rows used as evidence if these are different rows.
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
        """Return the statistics of the leaves with indices `leaf`, (n_statistics, n_leaves), for each set of rows.

        They are derived from the tree's nodes, or computed from rows with the weights `grown` and, if not None,
        `left_out`.
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
        """Return the stored leaf statistics of trees `first` to `last` - 1, concatenated along the leaves.

        There is one array for each set of rows: all rows, or growing rows and evidence rows.
        """
        parts = [self._of_trees[number] for number in range(first, last)]
        return [np.concatenate(part, axis=1) for part in zip(*parts, strict=True)]


def combine_row_sets(statistics: list[Array]) -> tuple[Array, Array | None]:
    """Return the statistics of all rows, and the statistics of the growing rows or None.

    `statistics` is either [all rows], which gives None, or [growing rows, evidence rows], which are added.
    """
    if len(statistics) == 1:
        return statistics[0], None
    growing, evidence = statistics
    return growing + evidence, growing
