"""Trees with linear models of the features on their paths in the leaves (Shi, Li & Li 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, widest_ranges
from fastens.engine.linear.normal_equations import N_SUM_BITS, add_linear, fit_leaves
from fastens.engine.parts import as_array
from fastens.engine.predict.predict import add_to_raw
from fastens.engine.threads import cached_property, threads_for
from fastens.engine.trees.leaf_values import leaves_of_rows
from fastens.engine.trees.packing import require
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, Tree, TreeEnsemble

if TYPE_CHECKING:
    from fastens.engine.grow.growth import RowWeights
    from fastens.engine.trees.trees import Tree


Array = NDArray[np.float64]
# Share of the allowed range that models may use, so that rounding cannot violate the bounds.
_SAFE = 1 - 2.0**-30


def lines_within_limits(
    tree: Tree, linear: LinearLeafTerms, monotone: NDArray[np.int8] | None, max_value: float
) -> LinearLeafTerms:
    """Return models whose slopes are shrunk leaf by leaf until their predictions respect the bounds of the leaf.

    If the slopes have the right signs, predictions are then monotone: for each split on a constrained feature, one
    number separates the predictions of all leaves on both sides, whatever the values of the other features are.

    Parameters
    ----------
    tree : Tree
        The tree, whose leaf values must be within their limits.
    linear : LinearLeafTerms
        Linear models of its leaves, whose slopes must have the signs of `monotone`.
    monotone : int8 array of shape (n_features,) or None
        1, -1 or 0 for each feature. If None, there are no constraints.
    max_value : float
        Maximum absolute value of a prediction.
    """
    lower, upper = bounds_of_nodes(tree, monotone, max_value)
    value, n_nodes = tree.value[:, 0], linear.n_nodes
    ends = np.stack([linear.slopes * linear.lower, linear.slopes * linear.upper]) - linear.at_means
    rise, fall = (np.bincount(linear.nodes, way, n_nodes) for way in (ends.max(axis=0), -ends.min(axis=0)))
    factor = np.ones(n_nodes)
    for way, apart in ((rise, upper - value), (fall, value - lower)):
        room = _SAFE * np.maximum(apart, 0.0)
        np.minimum(factor, np.divide(room, way, out=np.ones(n_nodes), where=way > room), out=factor)
    flatter = linear.times(factor)
    terms = np.stack([flatter.slopes, flatter.lower, flatter.upper, flatter.at_means])
    return linear.of_terms(flatter.nodes, flatter.features, terms, n_nodes)


def bounds_of_nodes(tree: Tree, monotone: NDArray[np.int8] | None, max_value: float) -> tuple[Array, Array]:
    """Return the lower and upper bounds of each node's predictions, both of shape (n_nodes,).

    The bounds at a split on a constrained feature are the midpoint between the leaf values of both sides.

    Parameters
    ----------
    tree, monotone, max_value
        See `lines_within_limits`.
    """
    smallest, largest = tree.value[:, 0].copy(), tree.value[:, 0].copy()
    lower, upper = np.full(tree.n_nodes, -max_value), np.full(tree.n_nodes, max_value)
    if monotone is None:
        return lower, upper
    inner = np.flatnonzero(tree.left_child).tolist()
    for node in reversed(inner):
        children = slice(tree.left_child[node], tree.left_child[node] + 2)
        smallest[node], largest[node] = smallest[children].min(), largest[children].max()
    for node in inner:
        left, sign = tree.left_child[node], monotone[tree.feature[node]]
        lower[left : left + 2], upper[left : left + 2] = lower[node], upper[node]
        if sign:
            below, above = (left, left + 1) if sign > 0 else (left + 1, left)
            cut = (largest[below] + smallest[above]) / 2
            upper[below], lower[above] = min(upper[node], cut), max(lower[node], cut)
    return lower, upper


def reduce_sums(comm: Comm, sums: Array, n_features: NDArray[np.int64], stage: int) -> None:
    """Replace `LeafPaths.sums` by the values for the rows of all ranks, in place, after a stage of `fit_leaves`.

    `n_features` is the number of features of each leaf. Stage 0 has measured ranges and weights, and stage 1 has summed
    the normal equations.
    """
    n_columns = int(n_features.max(initial=0)) + 2  # features, gradients and hessians
    ranges, weight, equations = np.split(sums, [2 * n_columns, 2 * n_columns + 1], axis=1)
    if comm.size > 1 and stage == 0:
        ranges[:] = np.hstack([*widest_ranges(comm, ranges[:, :n_columns], ranges[:, n_columns:])])
        total = weight.astype(np.int64)
        comm.allreduce_sum(total)
        weight[:] = total
    elif comm.size > 1 and stage == 1:
        leaf = np.arange(len(ranges))
        low, high, hessian = (ranges[leaf, n_features + offset] for offset in (0, n_columns, n_columns + 1))
        bounds = (np.maximum(np.abs(low), np.abs(high)), hessian)
        parts = np.split(equations, [n_columns - 1], axis=1)
        for part, bound in zip(parts, bounds, strict=True):
            _sum_over_ranks(comm, part, weight[:, 0], bound)


def _sum_over_ranks(comm: Comm, sums: Array, weight: Array, bound: Array) -> None:
    """Replace `sums`, one row per leaf, by their exact sums over all ranks, in place.

    `weight` is each leaf's total weight, and `bound` is its largest absolute term. They determine the power of two that
    the kernel has rounded terms to multiples of, so integers are summed.
    """
    largest = np.where(np.isfinite(bound), bound, 0.0) * weight
    exponent = (N_SUM_BITS - np.frexp(largest)[1])[:, None]
    whole = np.rint(np.ldexp(sums, exponent)).astype(np.int64)
    comm.allreduce_sum(whole)
    sums[:] = np.ldexp(whole.astype(np.float64), -exponent)


PREFIX = "linear."
DTYPES: dict[str, type[np.generic]] = {
    "starts": np.int64,
    "features": np.int32,
    "slopes": np.float64,
    "lower": np.float64,
    "upper": np.float64,
    "at_means": np.float64,
}
_OF_TERMS = list(DTYPES)[1:]
_RESTS = f"{PREFIX}rests"
# Number of rows whose leaves are in memory at a time.
_BLOCK = 1 << 12
# Minimum work for a thread, and the cost of a row and tree, in nanoseconds.
_GRAIN = 20_000
_PER_LEAF = 20


@dataclass(frozen=True, eq=False)
class LinearLeafTerms:
    """The linear models of the leaves of one tree, or of all trees concatenated.

    The prediction for a row is the leaf value plus, for each term, the slope times the difference between the row's
    value and the feature's mean. If one of these values is missing or infinite, it is the leaf value. Feature values
    are clipped to their range among the training rows of the leaf, because lines are not extrapolated.

    Attributes
    ----------
    starts : int64 array of shape (n_nodes + 1,)
        Node i has the terms ``starts[i]:starts[i + 1]``; inner nodes do not have terms.
    features : int32 array of shape (n_terms,)
        Feature of each term.
    slopes : float64 array of shape (n_terms,)
        Slope of each term.
    lower, upper : float64 arrays of shape (n_terms,)
        Range of the feature in the leaf.
    at_means : float64 array of shape (n_terms,)
        Slope times the mean of the feature in the leaf.
    rests : float64 array of shape (n_nodes,) or None
        For imported models, the difference between the intercept in the file and the intercept computed from value and
        means, so that intercepts are reproduced exactly. If None, all differences are 0.
    """

    starts: NDArray[np.int64]
    features: NDArray[np.int32]
    slopes: Array
    lower: Array
    upper: Array
    at_means: Array
    rests: Array | None = None

    @classmethod
    def of_terms(
        cls, node: NDArray[np.intp], features: NDArray[np.int32], terms: Array, n_nodes: int
    ) -> LinearLeafTerms:
        """Create models from terms in any order; `terms` holds slopes, lower, upper and at_means, (4, n_terms).

        `node` and `features` hold the node and the feature of each term. Terms with slope 0 are dropped.
        """
        chosen = np.flatnonzero(terms[0])
        chosen = chosen[np.argsort(node[chosen], kind="stable")]
        starts = np.append(0, np.cumsum(np.bincount(node[chosen], minlength=n_nodes))).astype(np.int64)
        return cls(starts, features[chosen], *np.ascontiguousarray(terms[:, chosen]))

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.starts) - 1

    @property
    def nodes(self) -> NDArray[np.intp]:
        """Node of each term."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.starts))

    @classmethod
    def join(cls, parts: Sequence[LinearLeafTerms]) -> LinearLeafTerms:
        """Concatenate the models of several trees."""
        empty = np.zeros(0)
        none = cls(np.zeros(1, np.int64), np.zeros(0, np.int32), empty, empty, empty, empty)
        parts = [none, *parts]
        counts = np.concatenate([np.diff(part.starts) for part in parts])
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _OF_TERMS}
        if any(part.rests is not None for part in parts):
            rests = [np.zeros(part.n_nodes) if part.rests is None else part.rests for part in parts]
            joined["rests"] = np.concatenate(rests)
        return cls(np.append(0, np.cumsum(counts)).astype(np.int64), **joined)

    def part(self, first: int, last: int) -> LinearLeafTerms:
        """Return the models of the nodes first to last - 1."""
        terms = slice(self.starts[first], self.starts[last])
        starts = self.starts[first : last + 1] - self.starts[first]
        rests = None if self.rests is None else self.rests[first:last]
        return LinearLeafTerms(starts, **{name: getattr(self, name)[terms] for name in _OF_TERMS}, rests=rests)

    def times(self, factor: Array) -> LinearLeafTerms:
        """Return the models with the terms of each node multiplied by its factor, shape (n_nodes,)."""
        of_terms = factor[self.nodes]
        rests = None if self.rests is None else self.rests * factor
        return replace(self, slopes=self.slopes * of_terms, at_means=self.at_means * of_terms, rests=rests)

    def plus(self, other: LinearLeafTerms) -> LinearLeafTerms:
        """Return the sum of the models of each node; the range of a feature is the union of both ranges."""
        node, features, slopes, lower, upper, at_means = (
            np.concatenate([getattr(part, name) for part in (self, other)]) for name in ("nodes", *_OF_TERMS)
        )
        pairs, pair_index = np.unique(np.stack([node, features]), axis=1, return_inverse=True)
        terms = np.tile([[0.0], [np.inf], [-np.inf], [0.0]], (1, pairs.shape[1]))
        np.add.at(terms[0], pair_index, slopes)
        np.add.at(terms[3], pair_index, at_means)
        counts = slopes != 0
        np.minimum.at(terms[1], pair_index[counts], lower[counts])
        np.maximum.at(terms[2], pair_index[counts], upper[counts])
        return self.of_terms(pairs[0], pairs[1].astype(np.int32), terms, self.n_nodes)

    def intercepts(self, value: Array) -> Array:
        """Return the predictions of nodes, with the values `value`, at features of 0; both have shape (n_nodes,)."""
        reckoned = value - np.bincount(self.nodes, self.at_means, self.n_nodes)
        return reckoned if self.rests is None else reckoned + self.rests

    def with_intercepts(self, value: Array, intercepts: Array) -> LinearLeafTerms:
        """Return the models with exactly these intercepts for nodes with the values `value`, both (n_nodes,)."""
        rests = intercepts - self.intercepts(value)
        return replace(self, rests=rests) if rests.any() else self

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the fields as a dict of arrays; keys are the field names with `PREFIX`."""
        arrays = {PREFIX + name: getattr(self, name) for name in DTYPES}
        return arrays if self.rests is None else arrays | {_RESTS: self.rests}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], n_nodes: int, is_categorical: np.ndarray) -> LinearLeafTerms:
        """Create the models from the output of `to_arrays`; raise ValueError if it is invalid."""
        for name in DTYPES:
            require(PREFIX + name in arrays, PREFIX + name)
        fields = {name: arrays[PREFIX + name] for name in DTYPES}
        for name, dtype in DTYPES.items():
            require(fields[name].dtype == dtype and fields[name].ndim == 1, PREFIX + name)
        rests = arrays.get(_RESTS)
        require(rests is None or (rests.dtype == np.float64 and rests.shape == (n_nodes,)), _RESTS)
        linear = cls(**fields, rests=rests)
        n_terms = len(linear.features)
        require(len(linear.starts) == n_nodes + 1 and linear.starts[0] == 0, PREFIX + "starts")
        is_ascending = bool(np.all(linear.starts[1:] >= linear.starts[:-1]))  # differences of large numbers overflow
        require(linear.starts[-1] == n_terms and is_ascending, PREFIX + "starts")
        is_known = (linear.features >= 0) & (linear.features < len(is_categorical))
        require(bool(is_known.all()) and not is_categorical[linear.features].any(), PREFIX + "features")
        # Each feature may occur only once in a leaf.
        keys = np.sort(linear.nodes * len(is_categorical) + linear.features)
        require(bool(np.all(keys[1:] > keys[:-1])), PREFIX + "features")
        for name in ("slopes", "lower", "upper", "at_means"):
            require(len(fields[name]) == n_terms, PREFIX + name)
        return linear


@dataclass(frozen=True, eq=False)
class LinearTree(Tree):
    """A tree with linear models in its leaves.

    Attributes
    ----------
    linear : LinearLeafTerms
        Linear models of the leaves.
    """

    linear: LinearLeafTerms

    def add(self, X: np.ndarray, leaf: NDArray[np.intp], raw_column: Array, n_threads: int = 1) -> None:
        """Add the predictions of the tree to a raw prediction column in place.

        Parameters
        ----------
        X : float32 or float64 array of shape (n_rows, n_features)
            The rows.
        leaf : integer array of shape (n_rows,)
            Leaf index of each row.
        raw_column : float64 array of shape (n_rows,)
            Raw predictions to update.
        n_threads : int
            Maximum number of threads.
        """
        first, output = np.zeros(1, np.int64), np.zeros(1, np.int32)
        n_threads = threads_for(len(leaf) * _PER_LEAF, n_threads, _GRAIN)
        add_linear(self, X, leaf.astype(np.int32)[None], (first, output), raw_column[:, None], n_threads)


class LinearEnsemble(TreeEnsemble):
    """Trees with linear models in their leaves.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees; their leaf values are the predictions for rows with missing values.
    linear : LinearLeafTerms
        The models of all nodes of all trees.
    """

    has_constant_leaves: ClassVar[bool] = False
    linear: LinearLeafTerms

    def __init__(self, trees: TreeEnsemble, linear: LinearLeafTerms) -> None:
        self.__dict__.update(trees.__dict__)
        self.linear = linear

    @classmethod
    def from_trees(cls, trees: Sequence[Any], *others: Any) -> LinearEnsemble:
        """Concatenate trees; see `TreeEnsemble.from_trees`."""
        return cls(TreeEnsemble.from_trees(trees, *others), LinearLeafTerms.join([tree.linear for tree in trees]))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the packed trees, the binning and the linear models as arrays by name."""
        return super().to_arrays() | self.linear.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> LinearEnsemble:
        """Create an ensemble from the output of `to_arrays`; see `TreeEnsemble.from_arrays`."""
        trees = TreeEnsemble.from_arrays(arrays)
        require(trees.value.dtype == np.float64 and trees.value.shape[1] == 1, "value")
        return cls(trees, LinearLeafTerms.from_arrays(arrays, len(trees.value), trees.binning.is_categorical))

    def with_values(self, value: np.ndarray) -> LinearEnsemble:
        """Return these trees with other node values, shape (n_nodes, 1)."""
        return LinearEnsemble(super().with_values(value), self.linear)

    def with_unseen_on_average(self) -> LinearEnsemble:
        """Return these trees with unseen categories routed so that they get the average of both sides."""
        trees = super().with_unseen_on_average()
        return self if trees is self else LinearEnsemble(trees, self.linear)

    def separate_trees(self) -> list[LinearTree]:  # type: ignore[override]
        """Return all trees, each with its own linear models."""
        bounds = zip(self.node_offsets[:-1], self.node_offsets[1:], strict=True)
        trees = zip(super().separate_trees(), bounds, strict=True)
        return [LinearTree(**vars(tree), linear=self.linear.part(*map(int, nodes))) for tree, nodes in trees]

    def predict_raw(self, X: np.ndarray, n_threads: int = 1, n_trees: int | None = None) -> np.ndarray:
        """Return the raw predictions of the first n_trees trees (default: all), shape (n_rows, n_outputs)."""
        n_trees = self.n_trees if n_trees is None else min(n_trees, self.n_trees)
        raw = np.tile(self.baseline, (X.shape[0], 1))
        for first in range(0, X.shape[0], _BLOCK):
            block = slice(first, first + _BLOCK)
            leaves = self._leaf_nodes(X[block], n_threads, n_trees)
            offsets_and_outputs = self.node_offsets[:n_trees], self.tree_output[:n_trees]
            n_enough = threads_for(leaves.size * _PER_LEAF, n_threads, _GRAIN)
            add_linear(self, X[block], leaves, offsets_and_outputs, raw[block], n_enough)
        return raw

    @cached_property
    def _node_number_trees(self) -> TreeEnsemble:
        """Trees with node indices as values and one output per tree, which is the fastest way to find leaves."""
        n_nodes = np.diff(self.node_offsets)
        number = np.arange(len(self.value)) - np.repeat(self.node_offsets[:-1], n_nodes)
        arrays = {name: getattr(self, name) for name in ENSEMBLE_DTYPES}
        arrays |= {"value": number[:, None], "tree_output": np.arange(self.n_trees), "baseline": np.zeros(self.n_trees)}
        return TreeEnsemble(self.binning, **arrays)

    def _leaf_nodes(self, X: np.ndarray, n_threads: int, n_trees: int) -> NDArray[np.int32]:
        """Return the leaf indices of rows in the first `n_trees` trees, shape (n_trees, n_rows)."""
        trees = self._node_number_trees
        n_threads = threads_for(X.shape[0] * self.n_trees, n_threads, _GRAIN)
        codes = trees.lean.binning.codes(X, n_threads)
        leaves = np.zeros((self.n_trees, X.shape[0]))
        add_to_raw(trees.compiled, codes, leaves, 0, n_trees, n_threads)
        return leaves[:n_trees].astype(np.int32)

    def staged_raw(self, X: Any, n_threads: int = 1) -> Iterator[np.ndarray]:
        """Yield the raw predictions for a row source after each round; see `TreeEnsemble.staged_raw`."""
        X = as_array(X)
        codes = self.binning.codes(X, n_threads)
        raw = np.tile(self.baseline[:, None], (1, X.shape[0]))
        for index, tree in enumerate(self.separate_trees()):
            tree.add(X, leaves_of_rows(codes, tree, n_threads), raw[self.tree_output[index]], n_threads)
            if (index + 1) % self.trees_per_round == 0:
                yield raw.T.copy()


@dataclass(frozen=True, eq=False)
class LeafPaths:
    """The leaves of a tree with their rows and the features on their paths, leaf by leaf.

    Attributes
    ----------
    rows, row_starts : uint32 and int64 arrays
        Row indices, and the offset of each leaf.
    features, starts : int32 and int64 arrays
        Feature indices, and the offset of each leaf.
    value, factor : float64 arrays of shape (n_leaves,)
        Value of each leaf without a model, and the factor of its slopes.
    """

    rows: NDArray[np.uint32]
    row_starts: NDArray[np.int64]
    features: NDArray[np.int32]
    starts: NDArray[np.int64]
    value: Array
    factor: Array

    @cached_property
    def max_features(self) -> int:
        """Maximum number of features of a leaf."""
        return int(np.diff(self.starts).max(initial=0))

    @cached_property
    def sums(self) -> Array:
        """Ranges and sums computed by the kernel, shape (n_leaves, n_sums).

        The columns are the minima and then the maxima of features, gradients and hessians; the weight; and the sums of
        the normal equations, first with gradients, then with hessians.
        """
        n_columns = self.max_features + 1
        return np.zeros((len(self.value), 2 * (n_columns + 1) + 1 + n_columns * (n_columns + 1)))


@dataclass(frozen=True, eq=False)
class LeafStatistics:
    """Derivatives and weights of all rows.

    Attributes
    ----------
    gradients, hessians : float32 arrays of shape (n_rows,)
        Unweighted derivatives of the loss.
    copies, factors : float64 arrays of shape (n_rows,) or None
        Weights of the rows; see `RowWeights`.
    """

    gradients: NDArray[np.float32]
    hessians: NDArray[np.float32]
    copies: Array | None
    factors: Array | None


class LeafModels:
    """Fits linear models to the leaves of trees.

    Parameters
    ----------
    X : float32 or float64 array of shape (n_rows, n_features)
        The rows.
    is_categorical : bool array of shape (n_features,)
        True for categorical features, which do not get slopes.
    weights : RowWeights or None
        Weights of the rows of all ranks; copies are bit-identical to repeated rows. If None, all weights are 1.
    l2 : float
        Added to a leaf's sum of hessians when slopes are fitted to features standardized within the leaf. A slope is
        shrunk by H / (H + l2), as leaf values are by `l2_regularization`.
    n_threads : int
        Maximum number of threads. The result does not depend on it.
    monotone : int8 array of shape (n_features,) or None
        Required signs of the slopes, 0 if unconstrained. Features whose slopes would have the wrong sign are dropped
        from the model of the leaf.

    Attributes
    ----------
    fitted : float64 array of shape (n_rows,)
        Predictions of the last tree's leaves for the rows that they were fitted to.
    """

    def __init__(
        self,
        X: np.ndarray,
        is_categorical: np.ndarray,
        weights: RowWeights | None,
        l2: float,
        n_threads: int,
        monotone: NDArray[np.int8] | None = None,
    ) -> None:
        self.X, self._is_categorical, self._l2 = X, is_categorical, l2
        self._weights = (None, None) if weights is None else (weights.copies, weights.factors)
        self._comm = LOCAL if weights is None else weights.comm
        self._n_threads, self.monotone = n_threads, monotone
        self.fitted = np.zeros(X.shape[0])

    def fit(
        self,
        tree: Tree,
        leaves: tuple[NDArray[np.intp], NDArray[np.uint32], NDArray[np.int64]],
        gradients: NDArray[np.float32],
        hessians: NDArray[np.float32],
        factor: Array,
    ) -> LinearLeafTerms:
        """Return the linear models of a tree's leaves, which are added to the leaf values.

        Parameters
        ----------
        tree : Tree
            The tree.
        leaves : tuple of arrays
            Leaf nodes, the row indices leaf by leaf, and the offset of each leaf.
        gradients, hessians : float32 arrays of shape (n_rows,)
            Unweighted derivatives of the loss.
        factor : float64 array of shape (n_nodes,)
            Factor of the models of each node.
        """
        nodes, rows, row_starts = leaves
        paths = self._path_features(tree)
        leaf = np.array([number for number, node in enumerate(nodes) for _ in paths[node]], dtype=np.intp)
        features = np.array([feature for node in nodes for feature in paths[node]], dtype=np.int32)
        statistics = LeafStatistics(gradients, hessians, *self._weights)
        n_threads = threads_for(len(rows) * _PER_LEAF, self._n_threads, _GRAIN)
        while True:
            starts = np.append(0, np.cumsum(np.bincount(leaf, minlength=len(nodes)))).astype(np.int64)
            terms = np.empty((len(DTYPES) - 2, len(features)))
            leaf_rows = LeafPaths(rows, row_starts, features, starts, tree.value[nodes, 0], factor[nodes])
            for stages in ((0, 2),) if self._comm.size == 1 else ((0, 0), (1, 1), (2, 2)):
                fit_leaves(self.X, leaf_rows, statistics, self._l2, stages, n_threads, terms, self.fitted)
                reduce_sums(self._comm, leaf_rows.sums, np.diff(starts), stages[1])
            wrong = np.zeros(1, bool) if self.monotone is None else self.monotone[features] * terms[0] < 0
            if not wrong.any():
                # Adding 0.0 turns -0.0 into 0.0, because sums over several ranks lose the sign of zeros.
                return LinearLeafTerms.of_terms(nodes[leaf], features, terms + 0.0, tree.n_nodes)
            leaf, features = leaf[~wrong], features[~wrong]

    def _path_features(self, tree: Tree) -> list[tuple[int, ...]]:
        """Return, for each node, the numeric features of the splits above it, in order of their first occurrence."""
        paths: list[tuple[int, ...]] = [()] * tree.n_nodes
        for node, (feature, left) in enumerate(zip(tree.feature.tolist(), tree.left_child.tolist(), strict=True)):
            if left:
                path = paths[node]
                is_new = feature not in path and not self._is_categorical[feature]
                paths[left] = paths[left + 1] = (*path, feature) if is_new else path
        return paths


def read_trees(arrays: Mapping[str, np.ndarray]) -> TreeEnsemble:
    """Create an ensemble from the arrays of a model by name, with linear models in the leaves if there are any."""
    kind = LinearEnsemble if PREFIX + "starts" in arrays else TreeEnsemble
    return kind.from_arrays(arrays)
