"""The records of trees and models for import and export, and the conversion of trees to the engine's ensemble."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.linear.linear_leaves import LinearEnsemble, LinearLeafTerms
from fastens.engine.trees.packing import MAX_CODES, check_structure
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble, set_of
from fastens.exchange.records import ModelColumns, Objective, refuse, single

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
# The largest category code that a model may use.
_MAX_CODE = 60_000
# Code 0 and the largest code are not available for thresholds.
_MAX_THRESHOLDS = MAX_CODES - 2
# The relative weight of a leaf without rows; explanations need positive weights.
_NO_WEIGHT = 1e-15
_NONE = np.full(1, -1)


@dataclass
class Line:
    """Linear model of a leaf: a constant, columns and slopes."""

    constant: float
    features: Sequence[int] = ()
    slopes: Sequence[float] = ()

    def times(self, factor: float) -> Line:
        """Return the linear model with its constant and slopes multiplied by a factor."""
        return Line(self.constant * factor, self.features, [slope * factor for slope in self.slopes])


@dataclass
class FlatTrees:
    """Trees with one entry per node, in any order; node indices count across all trees.

    Attributes
    ----------
    left, right : int64 arrays of shape (n_nodes,)
        The children; -1 at a leaf.
    feature : int64 array of shape (n_nodes,)
        The column of a split; ignored at leaves.
    threshold : float64 array of shape (n_nodes,)
        The threshold of a numeric split, which sends ``x <= threshold`` to the left; ignored at other nodes.
    missing_left : bool array of shape (n_nodes,)
        True if missing values and categories that are unknown to the model go left.
    value : float64 array of shape (n_nodes, n_values)
        The leaf values; values of inner nodes are ignored.
    weight : float64 array of shape (n_nodes,), optional
        The weight of the training rows in each node. If it is 0 in all leaves of a tree, each leaf counts as 1.
    gain : float64 array of shape (n_nodes,), optional
        The gain of each split.
    n_samples : int64 array of shape (n_nodes,), optional
        The number of training rows in each node.
    sets : dict of int to int64 array
        The positions of the categories that go left, for each node with a categorical split.
    lines : dict of int to Line
        The linear models of leaves, which apply to rows without missing values in their columns.
    roots : int64 array of shape (n_trees,), default=[0]
        The root of each tree.
    output : int64 array of shape (n_trees,), default=[0]
        The raw prediction that a tree with one value adds to; 0 if trees have one value per raw prediction.

    Raises
    ------
    ModelFileError
        If there is no node, or an array does not have an entry for each node.
    """

    left: Ints
    right: Ints
    feature: Ints
    threshold: Floats
    missing_left: Bools
    value: Floats
    weight: Floats = field(default_factory=lambda: np.zeros(0))
    gain: Floats = field(default_factory=lambda: np.zeros(0))
    n_samples: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    sets: dict[int, Ints] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)
    roots: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    output: Ints = field(default_factory=lambda: np.zeros(1, np.int64))

    def __post_init__(self) -> None:
        self.value = np.asarray(self.value, dtype=np.float64)
        self.value = self.value[:, None] if self.value.ndim == 1 else self.value
        if not len(self.left):
            raise refuse("a tree has no nodes")
        for name, kind in _ARRAYS.items():
            array: NDArray[Any] = np.asarray(getattr(self, name), dtype=kind)
            array = np.zeros(len(self.left), kind) if name in _STATISTICS and not len(array) else array
            if len(array) != len(self.left):
                raise refuse(f"a tree's array of {name} does not have an entry for each node")
            setattr(self, name, array)

    @property
    def is_leaf(self) -> Bools:
        """True for each node that is a leaf."""
        return self.left < 0

    def take(self, nodes: Ints, roots: Ints, output: Ints) -> FlatTrees:
        """Return the trees that consist of some nodes, in this order.

        Parameters
        ----------
        nodes : int64 array
            The nodes, with the children of all inner nodes among them.
        roots : int64 array of shape (n_trees,)
            The positions of the roots in `nodes`.
        output : int64 array of shape (n_trees,)
            The raw prediction that each tree adds to.
        """
        new_index = np.full(len(self.left), -1)
        new_index[nodes] = np.arange(len(nodes))
        arrays: dict[str, Any] = {name: getattr(self, name)[nodes] for name in (*_ARRAYS, "value")}
        for name in ("left", "right"):
            arrays[name] = np.where(arrays[name] < 0, -1, new_index[arrays[name]])
        items: dict[str, Any] = {
            name: {int(new_index[node]): item for node, item in getattr(self, name).items() if new_index[node] >= 0}
            for name in ("sets", "lines")
        }
        return FlatTrees(**arrays, **items, roots=roots, output=output)

    def each(self) -> Iterator[FlatTrees]:
        """Yield each tree with node indices that start at 0; the nodes of a tree must be adjacent, the root first."""
        by_tree: dict[str, list[dict[int, Any]]] = {}
        for name in ("sets", "lines"):
            by_tree[name] = [{} for _ in self.roots]
            items = getattr(self, name)
            owners = np.searchsorted(self.roots, np.array([*items], dtype=np.int64), side="right") - 1
            for owner, (node, item) in zip(owners.tolist(), items.items(), strict=True):
                by_tree[name][owner][node - int(self.roots[owner])] = item
        ends = [*self.roots[1:].tolist(), len(self.left)]
        for tree, (first, last) in enumerate(zip(self.roots.tolist(), ends, strict=True)):
            arrays: dict[str, Any] = {name: getattr(self, name)[first:last] for name in (*_ARRAYS, "value")}
            for name in ("left", "right"):
                arrays[name] = np.where(arrays[name] < 0, -1, arrays[name] - first)
            by_node: dict[str, Any] = {name: items[tree] for name, items in by_tree.items()}
            yield FlatTrees(**arrays, **by_node, output=self.output[tree : tree + 1])

    def of_output(self, output: int, baseline: float = 0.0) -> FlatTrees:
        """Return the trees with only column `output` of their values, to which `baseline` is added."""
        lines = {node: replace(line, constant=line.constant + baseline) for node, line in self.lines.items()}
        return replace(self, value=self.value[:, output : output + 1] + baseline, lines=lines)

    def scale(self, factor: Any) -> None:
        """Multiply the leaf values and linear models by a factor, in place."""
        self.value = self.value * factor
        self.lines = {node: line.times(factor) for node, line in self.lines.items()}

    def by_round(self, n_outputs: int) -> FlatTrees:
        """Return the trees reordered so that each round has one tree for each output, in order of outputs."""
        rank = np.zeros(len(self.output), dtype=np.int64)
        for k in range(n_outputs):
            indices = np.flatnonzero(self.output == k)
            rank[indices] = np.arange(len(indices))
        order = np.lexsort((self.output, rank))
        return replace(self, roots=self.roots[order], output=self.output[order])


_STATISTICS = ("weight", "gain", "n_samples")
_ARRAYS = {
    "left": np.int64,
    "right": np.int64,
    "feature": np.int64,
    "threshold": np.float64,
    "missing_left": np.bool_,
    "weight": np.float64,
    "gain": np.float64,
    "n_samples": np.int64,
}


@dataclass
class ForeignModel:
    """A model of another library, with raw predictions before the first tree as baseline, and the note of `export`."""

    objective: Objective
    trees: FlatTrees
    columns: ModelColumns
    baseline: Floats
    note: dict[str, Any] | None = None


def leaf(value: float) -> FlatTrees:
    """Return a tree with a single leaf."""
    one = np.ones(1)
    return FlatTrees(_NONE, _NONE, _NONE, np.nan * one, one < 0, value * one, one, n_samples=one.astype(np.int64))


def join_trees(parts: Sequence[FlatTrees], output: Any) -> FlatTrees:
    """Concatenate single trees; `output` has the raw prediction that each adds to. Raises ModelFileError if empty."""
    if not parts:
        raise refuse("the model has no trees")
    sizes = np.array([len(part.left) for part in parts], dtype=np.int64)
    roots = np.cumsum(sizes) - sizes
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    for name in ("left", "right"):
        if (joined[name] >= np.repeat(sizes, sizes)).any():
            raise refuse("a tree has children outside of the tree")
        joined[name] = np.where(joined[name] < 0, -1, joined[name] + np.repeat(roots, sizes))
    for name in ("sets", "lines"):
        pairs = zip(parts, roots.tolist(), strict=True)
        joined[name] = {root + node: item for part, root in pairs for node, item in getattr(part, name).items()}
    value = np.concatenate([part.value for part in parts])
    return FlatTrees(value=value, roots=roots, output=np.asarray(output, dtype=np.int64), **joined)


def with_vectors(trees: FlatTrees, n_outputs: int) -> FlatTrees | None:
    """Merge the trees of each round, which have the same splits, into one tree with a value per output.

    Parameters
    ----------
    trees : FlatTrees
        Trees with one value per leaf; each round has one tree per output, in order.
    n_outputs : int
        The number of outputs.

    Returns
    -------
    FlatTrees, or None if the trees of a round have different splits.
    """
    numbers = np.arange(len(trees.roots)) % n_outputs
    if len(numbers) % n_outputs or (trees.output != numbers).any() or trees.lines:
        return None
    order = _LevelOrder(trees)
    sizes = np.diff(order.offsets).reshape(-1, n_outputs)
    if (sizes != sizes[:, :1]).any():
        return None
    output = np.repeat(numbers, sizes.ravel())
    first, *others = (order.source[output == k] for k in range(n_outputs))
    children = [order.left_child[output == k] for k in range(n_outputs)]
    if not all(np.array_equal(children[0], other) for other in children[1:]) or not all(
        _have_equal_splits(trees, first, nodes) for nodes in others
    ):
        return None
    joined = trees.take(first, np.cumsum(sizes[:, 0]) - sizes[:, 0], np.zeros(len(sizes), dtype=np.int64))
    return replace(joined, value=np.column_stack([trees.value[nodes, 0] for nodes in (first, *others)]))


def _have_equal_splits(trees: FlatTrees, nodes_a: Ints, nodes_b: Ints) -> bool:
    """Return True if each node in `nodes_a` splits like the node at its position in `nodes_b`."""
    arrays = (trees.feature, trees.threshold, trees.missing_left)
    pairs = zip(nodes_a.tolist(), nodes_b.tolist(), strict=True) if trees.sets else ()
    return all(np.array_equal(each[nodes_a], each[nodes_b]) for each in arrays) and all(
        np.array_equal(trees.sets.get(a, _NONE), trees.sets.get(b, _NONE)) for a, b in pairs
    )


def tree_of_nodes(trees: FlatTrees) -> Ints:
    """Return the index of the tree of each node; -1 for nodes that are not below a root."""
    order, tree = _LevelOrder(trees), np.full(len(trees.left), -1)
    tree[order.source] = np.repeat(np.arange(len(trees.roots)), np.diff(order.offsets))
    return tree


def set_codes(trees: FlatTrees, columns: ModelColumns, *, is_left: bool) -> None:
    """Set the positions that go left at each node with codes in `sets`, and the number of codes of each column.

    Parameters
    ----------
    trees : FlatTrees
        The trees, with the codes of each categorical split in `sets`.
    columns : ModelColumns
        The columns. Columns without categories become columns of codes.
    is_left : bool
        True if rows with the codes go left and all other rows go right; False for the other way round.
    """
    largest: dict[int, int] = {}
    for node, codes in trees.sets.items():
        index = int(trees.feature[node])
        if not 0 <= index < len(columns):
            raise refuse(f"a split uses a column beyond the {len(columns)} of the model")
        largest[index] = max(largest.get(index, 0), int(codes.max(initial=0)))
        column = columns[index]
        column.has_others |= bool(trees.missing_left[node]) == is_left and column.categories is None
    for index, code in largest.items():
        column = columns[index]
        if code > _MAX_CODE or (column.categories is not None and code >= len(column.categories)):
            raise refuse(f"column {index} is split by the category code {code}, but it has fewer categories")
        if column.categories is None:
            column.categories, column.is_coded = list(range(code + 1)), True
    if not is_left:
        sizes = {index: len(columns[index].categories or ()) + columns[index].has_others for index in largest}
        for node, codes in trees.sets.items():
            trees.sets[node] = np.setdiff1d(np.arange(sizes[int(trees.feature[node])]), codes)


# Conversion to the engine ---------------------------------------------------


def to_ensemble(trees: FlatTrees, columns: ModelColumns, baseline: Any) -> TreeEnsemble:
    """Convert trees to an ensemble of the engine.

    Parameters
    ----------
    trees : FlatTrees
        The trees.
    columns : ModelColumns
        The columns of the model.
    baseline : sequence of float
        Raw predictions before the first tree.

    Raises
    ------
    ModelFileError
        If the nodes do not form trees, or a node splits on a column that does not exist.
    """
    order = _LevelOrder(trees)
    source, inner = order.source, order.left_child > 0
    feature = np.where(inner, trees.feature[source], -1)
    if ((feature[inner] < 0) | (feature[inner] >= len(columns))).any():
        raise refuse(f"a split uses a column beyond the {len(columns)} of the model")
    has_set = np.zeros(len(trees.left), dtype=bool)
    has_set[list(trees.sets)] = True
    has_set = has_set[source] & inner
    is_categorical = _kinds(columns, feature[has_set], feature[inner & ~has_set])
    threshold = trees.threshold[source]
    if np.isnan(threshold[inner & ~has_set]).any():
        raise refuse("a threshold is not a number")
    thresholds, bin_threshold = _thresholds(feature, threshold, inner & ~has_set, columns)
    binning = _binning(thresholds, columns, is_categorical)
    missing_left = inner & trees.missing_left[source]
    first_word, words = _words(trees, source, np.flatnonzero(has_set), binning, missing_left)
    value = np.where(inner[:, None], 0.0, trees.value[source])
    if not np.isfinite(value).all() or not np.isfinite(baseline).all():
        raise refuse("a leaf's value is not a finite number")
    weight = order.sums(trees.weight[source])
    is_count = np.array_equal(trees.weight, trees.n_samples)
    n_samples = weight if is_count else order.sums(trees.n_samples[source])
    ensemble = TreeEnsemble(
        binning,
        feature=feature.astype(np.int32),
        bin_threshold=bin_threshold,
        missing_left=(missing_left & ~has_set).astype(np.uint8),
        category_set=first_word,
        category_words=words,
        left_child=order.left_child.astype(np.int32),
        value=order.with_means(value, weight),
        gain=np.where(inner, np.maximum(np.nan_to_num(trees.gain[source]), 0.0), 0.0),
        n_samples=np.rint(np.minimum(n_samples, 2.0**62)).astype(np.int64),
        weight=weight,
        node_offsets=order.offsets,
        tree_output=trees.output.astype(np.int32),
        baseline=np.asarray(baseline, dtype=np.float64),
    )
    try:
        check_structure(ensemble)
    except ValueError as error:
        raise refuse(f"the trees do not match: {error}") from error
    return _with_lines(ensemble, trees, source) if trees.lines else ensemble


def of_second_class(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Convert raw predictions of two classes to the log odds of the second class, which are their difference."""
    arrays = {name: getattr(ensemble, name) for name in ENSEMBLE_DTYPES}
    sign = np.repeat(np.where(ensemble.tree_output == 0, -1.0, 1.0), np.diff(ensemble.node_offsets))
    value = ensemble.value
    arrays["value"] = value[:, 1:] - value[:, :1] if value.shape[1] == 2 else value * sign[:, None]
    arrays["tree_output"] = np.zeros(ensemble.n_trees, dtype=np.int32)
    arrays["baseline"] = np.diff(ensemble.baseline)
    out = TreeEnsemble(ensemble.binning, **arrays)
    return LinearEnsemble(out, ensemble.linear.times(sign)) if isinstance(ensemble, LinearEnsemble) else out


def in_single_precision(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Return the ensemble with float32 values, or unchanged if this would change any leaf value."""
    value = single(ensemble.value)
    is_leaf = ensemble.left_child == 0
    return ensemble.with_values(value) if (value[is_leaf] == ensemble.value[is_leaf]).all() else ensemble


class _LevelOrder:
    """The nodes of trees in level order with siblings next to each other; unreachable nodes are dropped.

    Attributes
    ----------
    source : int64 array of shape (n_nodes,)
        The original index of the node at each position.
    left_child : int64 array of shape (n_nodes,)
        The index of the left child within its tree; 0 at a leaf.
    offsets : int64 array of shape (n_trees + 1,)
        The position of the first node of each tree.
    """

    def __init__(self, trees: FlatTrees) -> None:
        n_nodes = len(trees.left)
        left, right = trees.left, trees.right
        if ((left < 0) != (right < 0)).any() or max(left.max(initial=-1), right.max(initial=-1)) >= n_nodes:
            raise refuse("a node has only one child, or one that does not exist")
        n_trees = len(trees.roots)
        sizes = np.ones(n_trees, dtype=np.int64)
        tree, nodes = np.arange(n_trees), trees.roots.astype(np.int64)
        position = np.zeros(n_trees, dtype=np.int64)
        levels = []
        n_seen = n_trees
        while len(nodes):
            is_inner = left[nodes] >= 0
            # Within each tree, the children of a level follow all nodes of earlier levels.
            inner_tree, parents = tree[is_inner], nodes[is_inner]
            counts = np.bincount(inner_tree, minlength=n_trees)
            rank = np.arange(len(inner_tree)) - (np.cumsum(counts) - counts)[inner_tree]
            children = np.zeros(len(nodes), dtype=np.int64)
            children[is_inner] = sizes[inner_tree] + 2 * rank
            levels.append((tree, position, nodes, children))
            sizes = sizes + 2 * counts
            n_seen += 2 * len(inner_tree)
            if n_seen > n_nodes:
                raise refuse("a node is its own descendant, or has two parents")
            position = (children[is_inner, None] + np.arange(2)).ravel()
            nodes = np.stack([left[parents], right[parents]], axis=1).ravel()
            tree = np.repeat(inner_tree, 2)
        self.offsets = np.append(0, np.cumsum(sizes))
        self.source = np.empty(self.offsets[-1], dtype=np.int64)
        self.left_child = np.empty(self.offsets[-1], dtype=np.int64)
        # The inner nodes of each level and their left children, deepest level first.
        self._by_level: list[tuple[Ints, Ints]] = []
        for tree, position, nodes, children in reversed(levels):
            root = self.offsets[tree]
            self.source[root + position], self.left_child[root + position] = nodes, children
            is_inner = children > 0
            self._by_level.append(((root + position)[is_inner], (root + children)[is_inner]))
        if np.bincount(self.source, minlength=1).max() > 1:
            raise refuse("a node has two parents")

    def sums(self, leaf_weights: NDArray[Any]) -> Floats:
        """Return node weights, summed from `leaf_weights` up to the root.

        Leaves without rows get a tiny weight, or 1 if no leaf of the tree has rows.
        """
        is_leaf = self.left_child == 0
        present = np.where(is_leaf & (leaf_weights > 0) & (leaf_weights < np.inf), leaf_weights, 0.0)
        sums = np.repeat(np.add.reduceat(present, self.offsets[:-1]), np.diff(self.offsets))
        weight = np.where(is_leaf, np.where(sums > 0, np.maximum(present, _NO_WEIGHT * sums), 1.0), 0.0)
        for inner, child in self._by_level:
            weight[inner] = weight[child] + weight[child + 1]
        return weight

    def with_means(self, value: Floats, weight: Floats) -> Floats:
        """Return a copy of `value` in which each inner node has the weighted mean of the leaves below it."""
        value = value.copy()
        for inner, child in self._by_level:
            left, right = weight[child, None], weight[child + 1, None]
            share = left / (left + right)
            value[inner] = share * value[child] + (1 - share) * value[child + 1]
        return value


def _kinds(columns: ModelColumns, in_sets: Ints, in_thresholds: Ints) -> Bools:
    """Return True for each categorical column; raise ModelFileError if a split does not match its column.

    `in_sets` and `in_thresholds` are the columns of categorical and numeric splits.
    """
    is_categorical = np.array([column.categories is not None for column in columns], dtype=bool)
    if not is_categorical[in_sets].all():
        raise refuse("a categorical split uses a numerical column")
    if is_categorical[in_thresholds].any():
        raise refuse("a threshold split uses a categorical column")
    return is_categorical


def _thresholds(
    feature: Ints, threshold: Floats, chosen: Bools, columns: ModelColumns
) -> tuple[list[Floats], NDArray[np.uint16]]:
    """Return the sorted thresholds of each column, and each node's threshold code: its rank from 1, else 0.

    `chosen` masks the nodes with thresholds. If a column has too many, copies are appended to `columns.repeated`, and
    `feature` is changed in place to the copies.
    """
    code = np.zeros(len(feature), dtype=np.uint16)
    thresholds = [np.zeros(0)] * len(columns)
    nodes = np.flatnonzero(chosen)
    # -0.0 becomes 0.0. A threshold of -inf becomes the lowest finite number.
    values = np.maximum(threshold[nodes], -np.finfo(np.float64).max) + 0.0
    order = np.lexsort((values, feature[nodes]))
    nodes, values = nodes[order], values[order]
    bounds = np.searchsorted(feature[nodes], np.arange(len(columns) + 1))
    for column in np.flatnonzero(np.diff(bounds)).tolist():
        part = slice(bounds[column], bounds[column + 1])
        column_nodes, ascending = nodes[part], values[part]
        is_new = np.append(True, ascending[1:] != ascending[:-1])
        finite = ascending[is_new & np.isfinite(ascending)]
        rank = np.cumsum(is_new) - 1
        thresholds[column] = finite[:_MAX_THRESHOLDS]
        # Thresholds beyond the maximum number are moved to copies of the column.
        for first in range(_MAX_THRESHOLDS, len(finite), _MAX_THRESHOLDS):
            moved = (rank >= first) & (rank < first + _MAX_THRESHOLDS) & np.isfinite(ascending)
            feature[column_nodes[moved]] = len(thresholds)
            thresholds.append(finite[first : first + _MAX_THRESHOLDS])
            columns.repeated.append(column)
        code[column_nodes] = np.where(np.isposinf(ascending), len(thresholds[column]), rank % _MAX_THRESHOLDS) + 1
    return thresholds, code


def _binning(thresholds: list[Floats], columns: ModelColumns, is_categorical: Bools) -> Binning:
    """Return the binning with these thresholds, and with a code per category for categorical columns.

    Raises ModelFileError if a column has too many categories.
    """
    codes: list[NDArray[np.uint16] | None] = [None] * len(thresholds)
    lookup = np.zeros((len(thresholds), 2), dtype=np.int32)
    for index in np.flatnonzero(is_categorical).tolist():
        column = columns[index]
        n = len(column.categories or ()) + (columns.missing_is_category and not column.is_coded)
        if n > MAX_CODES - 2:
            raise refuse(f"column {index} has {n} categories; fastens supports at most {MAX_CODES - 2}")
        codes[index] = np.arange(1, n + 1, dtype=np.uint16)
        if column.is_coded:
            lookup[index] = n + 1 if column.has_others else 0, columns.code_rule
    return Binning(thresholds, codes, lookup)


def _words(
    trees: FlatTrees, source: Ints, nodes: Ints, binning: Binning, missing_left: Bools
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Return each node's offset in the words of all category sets, -1 without a set, and these words.

    The words are bitmaps of the codes that go left. `nodes` are the categorical splits, and `source` has the index in
    `trees` of each node.
    """
    first_word = np.full(len(source), -1, dtype=np.int32)
    parts, at = [np.zeros(0, np.uint32)], 0
    for node in nodes.tolist():
        original = int(source[node])
        n_codes = int(binning.n_codes[trees.feature[original]])
        positions = np.asarray(trees.sets[original], dtype=np.int64)
        codes = positions[(positions >= 0) & (positions < n_codes - 1)] + 1
        words = set_of(np.append(codes, 0) if missing_left[node] else codes, n_codes)
        first_word[node] = at
        parts.append(words)
        at += len(words)
    return first_word, np.concatenate(parts)


def _with_lines(ensemble: TreeEnsemble, trees: FlatTrees, source: Ints) -> LinearEnsemble:
    """Return the ensemble with linear models in its leaves; `source` has the index in `trees` of each node.

    Raises ModelFileError for terms of categorical or repeated columns and for coefficients that are not finite.
    """
    starts = np.zeros(len(source) + 1, dtype=np.int64)
    features: list[int] = []
    slopes: list[float] = []
    at_means: list[float] = []
    value = ensemble.value[:, 0]
    intercepts = value.copy()
    for index, node in enumerate(source.tolist()):
        line = trees.lines.get(node)
        if line is not None and len(line.features) and ensemble.left_child[index] == 0:
            features += line.features
            slopes += line.slopes
            at_means += [float(value[index]) - line.constant, *[0.0] * (len(line.features) - 1)]
            intercepts[index] = line.constant
        starts[index + 1] = len(features)
    if any(not 0 <= f < ensemble.binning.n_features or ensemble.binning.is_categorical[f] for f in features):
        raise refuse("a linear leaf uses a column that is not numerical")
    if any(len(set(line.features)) < len(line.features) for line in trees.lines.values()):
        raise refuse("a linear leaf uses a column twice")
    if not np.isfinite(slopes).all() or not np.isfinite(at_means).all():
        raise refuse("a coefficient of a linear leaf is not a finite number")
    everywhere = np.full(len(features), np.inf)
    linear = LinearLeafTerms(
        starts, np.array(features, np.int32), np.array(slopes, float), -everywhere, everywhere, np.array(at_means)
    )
    return LinearEnsemble(ensemble, linear.with_intercepts(value, intercepts))
