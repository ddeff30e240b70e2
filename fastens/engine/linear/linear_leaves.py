"""Trees whose leaves are linear models of the features on their paths (Shi, Li & Li 2019)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.cached import cached_property
from fastens.engine.comm import LOCAL, Comm, floats_of_bits, ordered_bits
from fastens.engine.linear.normal_equations import N_SUM_BITS, add_linear, fit_leaves
from fastens.engine.parts import as_array
from fastens.engine.predict.predict import add_to_raw
from fastens.engine.threads import threads_for
from fastens.engine.trees.leaf_values import leaves_of_rows
from fastens.engine.trees.packing import require
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, Tree, TreeEnsemble

if TYPE_CHECKING:
    from fastens.engine.grow.growth import RowWeights
    from fastens.engine.trees.trees import Tree


Array = NDArray[np.float64]
# Of the room that lines have, what rounding cannot make them leave.
_SAFE = 1 - 2.0**-30


def lines_within_limits(
    tree: Tree, linear: LinearLeaves, monotone: NDArray[np.int8] | None, most: float
) -> LinearLeaves:
    """Return models made flatter, leaf by leaf, until their predictions keep within the bounds of the leaf.

    With slopes of the right signs predictions are monotone then: on both sides of a split on a constrained feature all
    leaves keep to their side of one number, whatever the row has in other features.

    Parameters
    ----------
    tree : Tree
        The tree; the values of its leaves are within their limits.
    linear : LinearLeaves
        Its models, whose slopes have the signs of `monotone`.
    monotone : int8 array of shape (n_features,) or None
        1, -1 or 0.
    most : float
        Largest absolute value.
    """
    lower, upper = bounds_of_nodes(tree, monotone, most)
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


def bounds_of_nodes(tree: Tree, monotone: NDArray[np.int8] | None, most: float) -> tuple[Array, Array]:
    """Return the bounds of each node's predictions.

    A split on a constrained feature has a number halfway between the leaves of its sides, which none of them passes.

    Parameters
    ----------
    tree, monotone, most
        As for `lines_within_limits`.
    """
    smallest, largest = tree.value[:, 0].copy(), tree.value[:, 0].copy()
    lower, upper = np.full(tree.n_nodes, -most), np.full(tree.n_nodes, most)
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
    """Replace `LeafRows.sums`, which a stage of `fit_leaves` wrote, by what it would write for the rows of all ranks.

    `n_features` are those of each leaf.
    """
    n_columns = int(n_features.max(initial=0)) + 2  # with gradients and hessians
    ranges, weight, equations = np.split(sums, [2 * n_columns, 2 * n_columns + 1], axis=1)
    if comm.size > 1 and stage == 0:
        _reduce_ranges(comm, ranges[:, :n_columns], ranges[:, n_columns:])
        total = weight.astype(np.int64)
        comm.sum(total)
        weight[:] = total
    elif comm.size > 1 and stage == 1:
        leaf = np.arange(len(ranges))
        low, high, hessian = (ranges[leaf, n_features + place] for place in (0, n_columns, n_columns + 1))
        bounds = (np.maximum(np.abs(low), np.abs(high)), hessian)
        parts = np.split(equations, [n_columns - 1], axis=1)
        for part, bound in zip(parts, bounds, strict=True):
            _reduce_exactly(comm, part, weight[:, 0], bound)


def _reduce_ranges(comm: Comm, lower: Array, upper: Array) -> None:
    keys = ordered_bits(np.stack([-lower, upper]))
    comm.max(keys)
    found = floats_of_bits(keys)
    lower[:], upper[:] = -found[0], found[1]


def _reduce_exactly(comm: Comm, sums: Array, weight: Array, bound: Array) -> None:
    """Add up sums of numbers that the kernel has rounded, for this weight and bound, to multiples of a power of two."""
    largest = np.where(np.isfinite(bound), bound, 0.0) * weight
    exponent = (N_SUM_BITS - np.frexp(largest)[1])[:, None]
    whole = np.rint(np.ldexp(sums, exponent)).astype(np.int64)
    comm.sum(whole)
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
# Rows whose leaves are in memory at a time.
_BLOCK = 1 << 12
# Nanoseconds that a thread should have to do, and what a row and tree take.
_GRAIN = 20_000
_PER_LEAF = 20


@dataclass(frozen=True, eq=False)
class LinearLeaves:
    """The linear models of a tree's leaves, or of all trees one after another.

    A row's prediction is its leaf's value, plus for each term the slope times what the row's value is above the mean.
    It is the leaf's value where one of these values is missing or infinite. Values beyond those of the leaf's training
    rows count as the nearest of them: a line is not trusted where it was not seen.

    Attributes
    ----------
    starts : int64 array of shape (n_nodes + 1,)
        Node i has the terms ``starts[i]:starts[i + 1]``; inner nodes have none.
    features : int32 array of shape (n_terms,)
        The feature of each term.
    slopes : float64 array of shape (n_terms,)
        Its slope.
    lower, upper : float64 arrays of shape (n_terms,)
        The range of its values.
    at_means : float64 array of shape (n_terms,)
        The slope times the feature's mean in the leaf.
    rests : float64 array of shape (n_nodes,) or None
        Of models that were read, what is missing from the intercept when it is reckoned from value and means, so that
        it is what the file has, to the bit. None for nothing.
    """

    starts: NDArray[np.int64]
    features: NDArray[np.int32]
    slopes: Array
    lower: Array
    upper: Array
    at_means: Array
    rests: Array | None = None

    @classmethod
    def of_terms(cls, node: NDArray[np.intp], features: NDArray[np.int32], terms: Array, n_nodes: int) -> LinearLeaves:
        """Make models from terms in any order: their nodes, features, and the four rows of the other arrays.

        Terms without slope are left out.
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
        """The node of each term."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.starts))

    @classmethod
    def join(cls, parts: Sequence[LinearLeaves]) -> LinearLeaves:
        """Put the models of trees one after another."""
        empty = np.zeros(0)
        none = cls(np.zeros(1, np.int64), np.zeros(0, np.int32), empty, empty, empty, empty)
        parts = [none, *parts]
        counts = np.concatenate([np.diff(part.starts) for part in parts])
        joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _OF_TERMS}
        if any(part.rests is not None for part in parts):
            found = [np.zeros(part.n_nodes) if part.rests is None else part.rests for part in parts]
            joined["rests"] = np.concatenate(found)
        return cls(np.append(0, np.cumsum(counts)).astype(np.int64), **joined)

    def part(self, first: int, last: int) -> LinearLeaves:
        """The models of some nodes."""
        terms = slice(self.starts[first], self.starts[last])
        starts = self.starts[first : last + 1] - self.starts[first]
        rests = None if self.rests is None else self.rests[first:last]
        return LinearLeaves(starts, **{name: getattr(self, name)[terms] for name in _OF_TERMS}, rests=rests)

    def times(self, factor: Array) -> LinearLeaves:
        """The same with the models of each node multiplied by a factor."""
        of_terms = factor[self.nodes]
        rests = None if self.rests is None else self.rests * factor
        return replace(self, slopes=self.slopes * of_terms, at_means=self.at_means * of_terms, rests=rests)

    def plus(self, other: LinearLeaves) -> LinearLeaves:
        """The sum of the models of each node; the ranges of a feature's terms are joined."""
        node, features, slopes, lower, upper, at_means = (
            np.concatenate([getattr(part, name) for part in (self, other)]) for name in ("nodes", *_OF_TERMS)
        )
        pairs, place = np.unique(np.stack([node, features]), axis=1, return_inverse=True)
        terms = np.tile([[0.0], [np.inf], [-np.inf], [0.0]], (1, pairs.shape[1]))
        np.add.at(terms[0], place, slopes)
        np.add.at(terms[3], place, at_means)
        counts = slopes != 0
        np.minimum.at(terms[1], place[counts], lower[counts])
        np.maximum.at(terms[2], place[counts], upper[counts])
        return self.of_terms(pairs[0], pairs[1].astype(np.int32), terms, self.n_nodes)

    def intercepts(self, value: Array) -> Array:
        """What nodes with such values add besides the slopes times what a row has there."""
        reckoned = value - np.bincount(self.nodes, self.at_means, self.n_nodes)
        return reckoned if self.rests is None else reckoned + self.rests

    def with_intercepts(self, value: Array, intercepts: Array) -> LinearLeaves:
        """The same with the intercepts that are given, to the bit, for nodes with such values."""
        rests = intercepts - self.intercepts(value)
        return replace(self, rests=rests) if rests.any() else self

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the state as arrays under names with a prefix."""
        arrays = {PREFIX + name: getattr(self, name) for name in DTYPES}
        return arrays if self.rests is None else arrays | {_RESTS: self.rests}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], n_nodes: int, is_categorical: np.ndarray) -> LinearLeaves:
        """Make the models again; ValueError for arrays that are not such a state."""
        for name in DTYPES:
            require(PREFIX + name in arrays, PREFIX + name)
        found = {name: arrays[PREFIX + name] for name in DTYPES}
        for name, dtype in DTYPES.items():
            require(found[name].dtype == dtype and found[name].ndim == 1, PREFIX + name)
        rests = arrays.get(_RESTS)
        require(rests is None or (rests.dtype == np.float64 and rests.shape == (n_nodes,)), _RESTS)
        linear = cls(**found, rests=rests)
        n_terms = len(linear.features)
        require(len(linear.starts) == n_nodes + 1 and linear.starts[0] == 0, PREFIX + "starts")
        is_ascending = bool(np.all(linear.starts[1:] >= linear.starts[:-1]))  # differences of large numbers overflow
        require(linear.starts[-1] == n_terms and is_ascending, PREFIX + "starts")
        is_known = (linear.features >= 0) & (linear.features < len(is_categorical))
        require(bool(is_known.all()) and not is_categorical[linear.features].any(), PREFIX + "features")
        # A leaf has room for each feature once.
        places = np.sort(linear.nodes * len(is_categorical) + linear.features)
        require(bool(np.all(places[1:] > places[:-1])), PREFIX + "features")
        for name in ("slopes", "lower", "upper", "at_means"):
            require(len(found[name]) == n_terms, PREFIX + name)
        return linear


@dataclass(frozen=True, eq=False)
class LinearTree(Tree):
    """A tree with linear models in its leaves.

    Attributes
    ----------
    linear : LinearLeaves
        The models.
    """

    linear: LinearLeaves

    def add(self, X: np.ndarray, leaf: NDArray[np.intp], raw_column: Array, n_threads: int = 1) -> None:
        """Add the tree's predictions to a raw column, in place.

        Parameters
        ----------
        X : float32 or float64 array of shape (n_rows, n_features)
            The rows.
        leaf : integer array of shape (n_rows,)
            Their leaves.
        raw_column : float64 array of shape (n_rows,)
            Raw predictions.
        n_threads : int
            How many threads there may be.
        """
        first, output = np.zeros(1, np.int64), np.zeros(1, np.int32)
        n_threads = threads_for(len(leaf) * _PER_LEAF, n_threads, _GRAIN)
        add_linear(self, X, leaf.astype(np.int32)[None], (first, output), raw_column[:, None], n_threads)


class LinearEnsemble(TreeEnsemble):
    """Trees with linear models in their leaves.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees; their values are what leaves add to rows with something missing.
    linear : LinearLeaves
        The models, for all nodes of all trees.
    """

    has_constant_leaves: ClassVar[bool] = False
    linear: LinearLeaves

    def __init__(self, trees: TreeEnsemble, linear: LinearLeaves) -> None:
        self.__dict__.update(trees.__dict__)
        self.linear = linear

    @classmethod
    def from_trees(cls, trees: Sequence[Any], *others: Any) -> LinearEnsemble:
        """Put trees one after another; see `TreeEnsemble.from_trees`."""
        return cls(TreeEnsemble.from_trees(trees, *others), LinearLeaves.join([tree.linear for tree in trees]))

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the whole state as a few arrays."""
        return super().to_arrays() | self.linear.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> LinearEnsemble:
        """Make an ensemble from what `to_arrays` returned; see `TreeEnsemble.from_arrays`."""
        trees = TreeEnsemble.from_arrays(arrays)
        require(trees.value.dtype == np.float64 and trees.value.shape[1] == 1, "value")
        return cls(trees, LinearLeaves.from_arrays(arrays, len(trees.value), trees.binning.is_categorical))

    def with_values(self, value: np.ndarray) -> LinearEnsemble:
        """Return the same trees with other values of the nodes."""
        return LinearEnsemble(super().with_values(value), self.linear)

    def with_unseen_on_average(self) -> LinearEnsemble:
        """Return the same trees where categories never seen get the mean of both sides."""
        trees = super().with_unseen_on_average()
        return self if trees is self else LinearEnsemble(trees, self.linear)

    def separate_trees(self) -> list[LinearTree]:  # type: ignore[override]
        """Return all trees, each with its own models."""
        bounds = zip(self.node_offsets[:-1], self.node_offsets[1:], strict=True)
        trees = zip(super().separate_trees(), bounds, strict=True)
        return [LinearTree(**vars(tree), linear=self.linear.part(*map(int, nodes))) for tree, nodes in trees]

    def predict_raw(self, X: np.ndarray, n_threads: int = 1, n_trees: int | None = None) -> np.ndarray:
        """Return the raw predictions; see `TreeEnsemble.predict_raw`."""
        n_trees = self.n_trees if n_trees is None else min(n_trees, self.n_trees)
        raw = np.tile(self.baseline, (X.shape[0], 1))
        for first in range(0, X.shape[0], _BLOCK):
            block = slice(first, first + _BLOCK)
            leaves = self._leaves(X[block], n_threads, n_trees)
            places = self.node_offsets[:n_trees], self.tree_output[:n_trees]
            n_enough = threads_for(leaves.size * _PER_LEAF, n_threads, _GRAIN)
            add_linear(self, X[block], leaves, places, raw[block], n_enough)
        return raw

    @cached_property
    def _numbered(self) -> TreeEnsemble:
        """The trees with the number of each node as its value, and an output for each tree: finds leaves fastest."""
        n_nodes = np.diff(self.node_offsets)
        number = np.arange(len(self.value)) - np.repeat(self.node_offsets[:-1], n_nodes)
        arrays = {name: getattr(self, name) for name in ENSEMBLE_DTYPES}
        arrays |= {"value": number[:, None], "tree_output": np.arange(self.n_trees), "baseline": np.zeros(self.n_trees)}
        return TreeEnsemble(self.binning, **arrays)

    def _leaves(self, X: np.ndarray, n_threads: int, n_trees: int) -> NDArray[np.int32]:
        """The leaves of rows in the first trees, (n_trees, n_rows)."""
        trees = self._numbered
        n_threads = threads_for(X.shape[0] * self.n_trees, n_threads, _GRAIN)
        codes = trees.lean.binning.codes(X, n_threads)
        leaves = np.zeros((self.n_trees, X.shape[0]))
        add_to_raw(trees.compiled, codes, leaves, 0, n_trees, n_threads)
        return leaves[:n_trees].astype(np.int32)

    def staged_raw(self, X: Any, n_threads: int = 1) -> Iterator[np.ndarray]:
        """Yield the raw predictions of a row source after each round; see `TreeEnsemble.staged_raw`."""
        X = as_array(X)
        codes = self.binning.codes(X, n_threads)
        raw = np.tile(self.baseline[:, None], (1, X.shape[0]))
        for index, tree in enumerate(self.separate_trees()):
            tree.add(X, leaves_of_rows(codes, tree, n_threads), raw[self.tree_output[index]], n_threads)
            if (index + 1) % self.trees_per_round == 0:
                yield raw.T.copy()


@dataclass(frozen=True, eq=False)
class LeafRows:
    """The leaves of a tree, their rows and the features on their paths, leaf after leaf.

    Attributes
    ----------
    rows, row_starts : uint32 and int64 arrays
        Rows, and where each leaf begins.
    features, starts : int32 and int64 arrays
        Features, and where each leaf begins.
    value, factor : float64 arrays of shape (n_leaves,)
        The value of a leaf without a model, and what slopes are multiplied by.
    """

    rows: NDArray[np.uint32]
    row_starts: NDArray[np.int64]
    features: NDArray[np.int32]
    starts: NDArray[np.int64]
    value: Array
    factor: Array

    @cached_property
    def most_features(self) -> int:
        """The most features of a leaf."""
        return int(np.diff(self.starts).max(initial=0))

    @cached_property
    def sums(self) -> Array:
        """What the kernel measures and sums up, (n_leaves, n_sums).

        The lowest, then the highest value of each feature, of gradients and of hessians; the weight; the sums of the
        normal equations, first those with gradients, then those with hessians.
        """
        n_columns = self.most_features + 1
        return np.zeros((len(self.value), 2 * (n_columns + 1) + 1 + n_columns * (n_columns + 1)))


@dataclass(frozen=True, eq=False)
class LeafStatistics:
    """What is known of all rows.

    Attributes
    ----------
    gradients, hessians : float32 arrays of shape (n_rows,)
        Unweighted derivatives of the loss.
    copies, factors : float64 arrays of shape (n_rows,) or None
        The weights: see `RowWeights`.
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
        Features that have no slopes.
    weights : RowWeights or None
        Those of the rows, of all ranks: copies are, to the bit, so many rows. None for ones.
    l2 : float
        Added to a leaf's sum of hessians where slopes are found, by features of mean 0 and variance 1 in the leaf: a
        slope shrinks by H / (H + l2), as a leaf's value does with `l2_regularization`.
    n_threads : int
        Most threads to use; the result does not depend on it.
    monotone : int8 array of shape (n_features,) or None
        The signs that slopes must not differ from, where they are not 0. A feature whose slope would is left out of the
        leaf's model.

    Attributes
    ----------
    fitted : float64 array of shape (n_rows,)
        Predictions of the leaves of the last tree for the rows that they were fitted on.
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
        self._n_threads, self._monotone = n_threads, monotone
        self.fitted = np.zeros(X.shape[0])

    def fit(
        self,
        tree: Tree,
        leaves: tuple[NDArray[np.intp], NDArray[np.uint32], NDArray[np.int64]],
        gradients: NDArray[np.float32],
        hessians: NDArray[np.float32],
        factor: Array,
    ) -> LinearLeaves:
        """Return the models of a tree's leaves beside its values.

        Parameters
        ----------
        tree : Tree
            The tree.
        leaves : tuple of arrays
            Leaves, their rows one leaf after the other, and where each leaf begins.
        gradients, hessians : float32 arrays of shape (n_rows,)
            Unweighted derivatives of the loss.
        factor : float64 array of shape (n_nodes,)
            What the models of each node are multiplied by.
        """
        nodes, rows, row_starts = leaves
        paths = self._features_of(tree)
        leaf = np.array([number for number, node in enumerate(nodes) for _ in paths[node]], dtype=np.intp)
        features = np.array([feature for node in nodes for feature in paths[node]], dtype=np.int32)
        statistics = LeafStatistics(gradients, hessians, *self._weights)
        n_threads = threads_for(len(rows) * _PER_LEAF, self._n_threads, _GRAIN)
        while True:
            starts = np.append(0, np.cumsum(np.bincount(leaf, minlength=len(nodes)))).astype(np.int64)
            terms = np.empty((len(DTYPES) - 2, len(features)))
            leaf_rows = LeafRows(rows, row_starts, features, starts, tree.value[nodes, 0], factor[nodes])
            for stages in ((0, 2),) if self._comm.size == 1 else ((0, 0), (1, 1), (2, 2)):
                fit_leaves(self.X, leaf_rows, statistics, self._l2, stages, n_threads, terms, self.fitted)
                reduce_sums(self._comm, leaf_rows.sums, np.diff(starts), stages[1])
            wrong = np.zeros(1, bool) if self._monotone is None else self._monotone[features] * terms[0] < 0
            if not wrong.any():
                # No zero has a sign, which several ranks would lose.
                return LinearLeaves.of_terms(nodes[leaf], features, terms + 0.0, tree.n_nodes)
            leaf, features = leaf[~wrong], features[~wrong]

    def _features_of(self, tree: Tree) -> list[tuple[int, ...]]:
        """The numeric features on the way to each node, in the order in which they first come."""
        paths: list[tuple[int, ...]] = [()] * tree.n_nodes
        for node, (feature, left) in enumerate(zip(tree.feature.tolist(), tree.left_child.tolist(), strict=True)):
            if left:
                path = paths[node]
                is_new = feature not in path and not self._is_categorical[feature]
                paths[left] = paths[left + 1] = (*path, feature) if is_new else path
        return paths


def read_trees(arrays: Mapping[str, np.ndarray]) -> TreeEnsemble:
    """Make the ensemble that arrays describe, with linear models in its leaves or without."""
    kind = LinearEnsemble if PREFIX + "starts" in arrays else TreeEnsemble
    return kind.from_arrays(arrays)
