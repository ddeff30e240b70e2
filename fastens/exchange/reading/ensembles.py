"""Conversion of flat trees to the engine's ensemble, with renumbered nodes and with splits on bin codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.linear.linear_leaves import LinearEnsemble, LinearLeaves
from fastens.engine.trees.packing import MAX_CODES, check_structure
from fastens.engine.trees.tree_store import set_of
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble
from fastens.exchange.reading.records import Columns, FlatTrees, refuse, single

Ints = NDArray[np.int64]
# Code 0 and the largest code are not available for thresholds.
_MAX_THRESHOLDS = MAX_CODES - 2
# A damaged file may claim any number of columns.
_MAX_FEATURES = 1 << 21
# The relative weight of a leaf without rows; explanations need positive weights.
_NO_WEIGHT = 1e-15


def to_ensemble(trees: FlatTrees, columns: Columns, baseline: Any) -> TreeEnsemble:
    """Convert trees to an ensemble of the engine.

    Parameters
    ----------
    trees : FlatTrees
        The trees.
    columns : Columns
        The columns of the model.
    baseline : sequence of float
        Raw predictions before the first tree.

    Raises
    ------
    ModelFileError
        If the nodes do not form trees, or a node splits on a column that does not exist.
    """
    if columns.n_features > _MAX_FEATURES:
        raise refuse(f"the model has {columns.n_features} columns, and {_MAX_FEATURES} can be read")
    order = _Order(trees)
    source, inner = order.source, order.left_child > 0
    feature = np.where(inner, trees.feature[source], -1)
    if ((feature[inner] < 0) | (feature[inner] >= columns.n_features)).any():
        raise refuse(f"a split is on a column that is none of the {columns.n_features}")
    has_set = _nodes_with_sets(trees, source, inner)
    is_categorical = _kinds(columns, feature[inner & has_set], feature[inner & ~has_set])
    threshold = trees.threshold[source]
    if np.isnan(threshold[inner & ~has_set]).any():
        raise refuse("a threshold is not a number")
    thresholds, bin_threshold = _thresholds(feature, threshold, inner & ~has_set, columns)
    binning = _binning(thresholds, columns, is_categorical)
    missing_left = np.where(inner, trees.missing_left[source], False)
    first_word, words = _words(trees, source, np.flatnonzero(inner & has_set), binning, missing_left)
    value = np.where(inner[:, None], 0.0, trees.value[source])
    if not np.isfinite(value).all() or not np.isfinite(baseline).all():
        raise refuse("a leaf's value is not a finite number")
    weight = order.sums(None if trees.weight is None else trees.weight[source])
    n_samples = np.rint(np.minimum(order.sums(None if trees.n_samples is None else trees.n_samples[source]), 2.0**62))
    gain = np.zeros(len(source)) if trees.gain is None else np.nan_to_num(trees.gain[source])
    ensemble = TreeEnsemble(
        binning,
        feature=feature.astype(np.int32),
        bin_threshold=bin_threshold,
        missing_left=(missing_left & ~has_set).astype(np.uint8),
        category_set=first_word,
        category_words=words,
        left_child=order.left_child.astype(np.int32),
        value=order.with_means(value, weight),
        gain=np.where(inner, np.maximum(gain, 0.0), 0.0),
        n_samples=n_samples.astype(np.int64),
        weight=weight,
        node_offsets=order.offsets,
        tree_output=trees.output.astype(np.int32),
        baseline=np.asarray(baseline, dtype=np.float64),
    )
    try:
        check_structure(ensemble)
    except ValueError as error:
        raise refuse(f"the trees do not fit together: {error}") from error
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
    """Return the ensemble with values in float32 if this leaves all leaf values unchanged."""
    value = single(ensemble.value)
    is_leaf = ensemble.left_child == 0
    return ensemble.with_values(value) if (value[is_leaf] == ensemble.value[is_leaf]).all() else ensemble


class _Order:
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
            raise refuse("a node has one child, or one that is not there")
        n_trees = len(trees.roots)
        sizes = np.ones(n_trees, dtype=np.int64)
        tree, nodes = np.arange(n_trees), trees.roots.astype(np.int64)
        place = np.zeros(n_trees, dtype=np.int64)
        self._levels: list[tuple[Ints, Ints]] = []
        found, n_seen = [], n_trees
        while len(nodes):
            is_inner = left[nodes] >= 0
            # Within each tree, the children of a level follow all nodes of earlier levels.
            inner_tree = tree[is_inner]
            counts = np.bincount(inner_tree, minlength=n_trees)
            rank = np.arange(len(inner_tree)) - (np.cumsum(counts) - counts)[inner_tree]
            children = np.zeros(len(nodes), dtype=np.int64)
            children[is_inner] = sizes[inner_tree] + 2 * rank
            self._levels.append((tree, place))
            found.append((nodes, children))
            sizes = sizes + 2 * counts
            n_seen += 2 * len(inner_tree)
            if n_seen > n_nodes:
                raise refuse("a node is below itself, or the child of two")
            parents = nodes[is_inner]
            place = (children[is_inner, None] + np.arange(2)).ravel()
            nodes = np.stack([left[parents], right[parents]], axis=1).ravel()
            tree = np.repeat(inner_tree, 2)
        self.offsets = np.append(0, np.cumsum(sizes))
        self.source = np.empty(self.offsets[-1], dtype=np.int64)
        self.left_child = np.empty(self.offsets[-1], dtype=np.int64)
        for (tree, place), (nodes, children) in zip(self._levels, found, strict=True):
            at = self.offsets[tree] + place
            self.source[at], self.left_child[at] = nodes, children
        if len(np.unique(self.source)) != len(self.source):
            raise refuse("a node is the child of two")

    def _by_level(self) -> Any:
        """Yield the inner nodes of each level and their left children, deepest level first."""
        for tree, place in reversed(self._levels):
            root = self.offsets[tree]
            child = self.left_child[root + place]
            yield (root + place)[child > 0], (root + child)[child > 0]

    def sums(self, given: NDArray[Any] | None) -> NDArray[np.float64]:
        """Sum leaf weights up to the root: leaves without rows get a tiny weight, and 1 if no leaf has rows."""
        is_leaf = self.left_child == 0
        weight = is_leaf.astype(np.float64)
        if given is not None:
            found = np.where(is_leaf & (given > 0) & (given < np.inf), given, 0.0)
            sums = np.repeat(np.add.reduceat(found, self.offsets[:-1]), np.diff(self.offsets))
            weight = np.where(sums > 0, np.where(is_leaf, np.maximum(found, _NO_WEIGHT * sums), 0.0), weight)
        for inner, child in self._by_level():
            weight[inner] = weight[child] + weight[child + 1]
        return weight

    def with_means(self, value: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values, where each inner node has the weighted mean of the leaves below."""
        value = value.copy()
        for inner, child in self._by_level():
            left, right = weight[child, None], weight[child + 1, None]
            share = left / (left + right)
            value[inner] = share * value[child] + (1 - share) * value[child + 1]
        return value


def _nodes_with_sets(trees: FlatTrees, source: Ints, inner: NDArray[np.bool_]) -> NDArray[np.bool_]:
    has_set = np.zeros(len(trees.left), dtype=bool)
    has_set[list(trees.sets)] = True
    return has_set[source] & inner


def _kinds(columns: Columns, in_sets: Ints, in_thresholds: Ints) -> NDArray[np.bool_]:
    """Return True for each categorical column, after a check against the splits."""
    is_categorical = np.zeros(columns.n_features, dtype=bool)
    is_categorical[[*columns.categories, *columns.n_codes]] = True
    if not is_categorical[in_sets].all():
        raise refuse("a split by categories is on a column of numbers")
    if is_categorical[in_thresholds].any():
        raise refuse("a split by a threshold is on a column of categories")
    return is_categorical


def _thresholds(
    feature: Ints, threshold: NDArray[np.float64], chosen: NDArray[np.bool_], columns: Columns
) -> tuple[list[NDArray[np.float64]], NDArray[np.uint16]]:
    """Return the thresholds of each column and the code of each node; `feature` may change to a copied column."""
    code = np.zeros(len(feature), dtype=np.uint16)
    found = [np.zeros(0)] * columns.n_features
    nodes = np.flatnonzero(chosen)
    nodes = nodes[np.argsort(feature[nodes], kind="stable")]
    bounds = np.searchsorted(feature[nodes], np.arange(columns.n_features + 1))
    for column in np.unique(feature[nodes]).tolist():
        own = nodes[bounds[column] : bounds[column + 1]]
        # -0.0 becomes 0.0. A threshold of -inf becomes the lowest finite number.
        values = np.maximum(threshold[own], -np.finfo(np.float64).max) + 0.0
        distinct = np.unique(values)
        finite = distinct[np.isfinite(distinct)]
        place = np.searchsorted(finite, values)
        found[column] = finite[:_MAX_THRESHOLDS]
        # Thresholds beyond the maximum number are moved to copies of the column.
        for first in range(_MAX_THRESHOLDS, len(finite), _MAX_THRESHOLDS):
            part = (place >= first) & (place < first + _MAX_THRESHOLDS) & np.isfinite(values)
            feature[own[part]] = len(found)
            found.append(finite[first : first + _MAX_THRESHOLDS])
            columns.repeated.append(column)
        code[own] = np.where(np.isposinf(values), len(found[column]), place % _MAX_THRESHOLDS) + 1
    return found, code


def _binning(thresholds: list[NDArray[np.float64]], columns: Columns, is_categorical: NDArray[np.bool_]) -> Binning:
    codes: list[NDArray[np.uint16] | None] = []
    lookup = np.zeros((len(thresholds), 2), dtype=np.int32)
    for column in range(columns.n_features):
        if not is_categorical[column]:
            codes.append(None)
            continue
        known = columns.categories.get(column)
        n = columns.n_codes[column] if known is None else len(known) + columns.missing_is_category
        if n > MAX_CODES - 2:
            raise refuse(f"column {column} has {n} categories, and fastens holds {MAX_CODES - 2}")
        codes.append(np.arange(1, n + 1, dtype=np.uint16))
        if known is None:
            lookup[column] = n + 1 if column in columns.has_others else 0, columns.code_rule
    return Binning(thresholds, codes + [None] * len(columns.repeated), lookup)


def _words(
    trees: FlatTrees, source: Ints, nodes: Ints, binning: Binning, missing_left: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Return the offset of each node's set of codes that go left, and the words of all sets."""
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
    """Return the ensemble with linear models in its leaves."""
    starts = np.zeros(len(source) + 1, dtype=np.int64)
    features: list[int] = []
    slopes: list[float] = []
    at_means: list[float] = []
    value = ensemble.value[:, 0]
    intercepts = value.copy()
    for place, node in enumerate(source.tolist()):
        line = trees.lines.get(node)
        if line is not None and len(line.features) and ensemble.left_child[place] == 0:
            features += line.features
            slopes += line.slopes
            at_means += [float(value[place]) - line.constant, *[0.0] * (len(line.features) - 1)]
            intercepts[place] = line.constant
        starts[place + 1] = len(features)
    if any(not 0 <= f < ensemble.binning.n_features or ensemble.binning.is_categorical[f] for f in features):
        raise refuse("a linear model is of a column that is no number")
    if any(len(set(line.features)) < len(line.features) for line in trees.lines.values()):
        raise refuse("a linear model has a column twice")
    if not np.isfinite(slopes).all() or not np.isfinite(at_means).all():
        raise refuse("a coefficient of a linear model is not a finite number")
    everywhere = np.full(len(features), np.inf)
    linear = LinearLeaves(
        starts, np.array(features, np.int32), np.array(slopes, float), -everywhere, everywhere, np.array(at_means)
    )
    return LinearEnsemble(ensemble, linear.with_intercepts(value, intercepts))
