"""Thresholds half-way between the values of a node's rows, as CART has them, in place of those of the bins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.bins.sparse_binned import AnyMatrix, SparseMatrix
from fastens.engine.comm import floats_of_bits, ordered_bits
from fastens.engine.parts import parts_of
from fastens.engine.threads import threads_for
from fastens.engine.trees.node_midpoints import note_sides
from fastens.engine.trees.structure import MAX_CODES
from fastens.engine.trees.trees import Tree, renumbered

# Rows whose ways through a deep tree take some tens of microseconds.
_ROW_GRAIN = 500


def cut_half_way(tree: Tree, matrix: AnyMatrix, X: Any, binning: Binning, n_threads: int = 1) -> tuple[Tree, Binning]:
    """Return the tree with other thresholds, and the binning that has these and no others.

    A threshold becomes the middle between the largest of the node's values that go left and the smallest of those that
    go right. The rows of the tree go the same ways. A feature with more thresholds than there are codes keeps those of
    its bins.

    Parameters
    ----------
    tree : Tree
        The tree.
    matrix : BinnedMatrix or SparseMatrix
        The rows that it was grown on, all of them, or those of one of its ranks.
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        Their values.
    binning : Binning
        What made one of the other.
    n_threads : int
        How many threads there may be; no matter to the result.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.forest.forests import ForestGrower, TreeRules, TreeSample, class_target
    >>> from fastens.engine.trees.midpoints import cut_half_way
    >>> X = np.array([[1.0], [2.0], [7.0], [8.0]])
    >>> binning = learn_binning(X)
    >>> matrix = binning.transform(X)
    >>> [tree] = ForestGrower(matrix, class_target([0, 0, 1, 1], [2]), TreeRules()).grow([TreeSample(None, None, 0)])
    >>> cut_half_way(tree, matrix, X, binning)[1].thresholds
    [array([4.5])]
    """
    nodes = np.flatnonzero((tree.feature >= 0) & (tree.category_set < 0))
    feature, code = tree.feature[nodes], tree.bin_threshold[nodes].astype(np.int64)
    last_code = binning.n_codes[feature] - 1
    is_cut = code < last_code
    middle = _middles(tree, matrix, X, n_threads)[nodes]
    n_used, used, place = _distinct(feature[is_cut], middle[is_cut], len(binning.thresholds))
    if (n_used > MAX_CODES - 2).any():
        for i in np.flatnonzero(is_cut & (n_used > MAX_CODES - 2)[feature]):
            middle[i] = binning.thresholds[feature[i]][code[i] - 1]
        n_used, used, place = _distinct(feature[is_cut], middle[is_cut], len(binning.thresholds))
    ends = np.cumsum(n_used).tolist()
    thresholds = [used[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    new_code = n_used[feature] + 1
    new_code[is_cut] = place + 1
    bin_threshold = tree.bin_threshold.copy()
    bin_threshold[nodes] = new_code
    return replace(tree, bin_threshold=bin_threshold), binning.with_thresholds(thresholds)


def _distinct(
    feature: NDArray[np.integer], value: NDArray[np.float64], n_features: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """How many different values each feature has; these, ascending within each; and which of its own each value is."""
    order = np.lexsort((value, feature))
    of_feature, ascending = feature[order], value[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (of_feature[1:] != of_feature[:-1]) | (ascending[1:] != ascending[:-1])
    counts = np.bincount(of_feature[is_new], minlength=n_features)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(is_new) - 1 - (np.cumsum(counts) - counts)[of_feature]
    return counts, ascending[is_new], place


def _middles(tree: Tree, matrix: AnyMatrix, X: Any, n_threads: int) -> np.ndarray:
    """Of each node, the number half-way between the values on its two sides, or the lower one if there is none."""
    n_threads = threads_for(matrix.n_rows, n_threads, _ROW_GRAIN)
    low = np.full((n_threads, tree.n_nodes), -np.inf)
    high = np.full((n_threads, tree.n_nodes), np.inf)
    if isinstance(matrix, SparseMatrix):
        columns, feature = renumbered(tree.feature)
        of_columns, tree = X.tocsc()[:, columns].tocsr(), replace(tree, feature=feature)
        for start, codes in matrix.columns.of_features(columns, n_threads):
            part = of_columns[start : start + codes.shape[1]].toarray()
            note_sides(tree, np.ascontiguousarray(codes.T).view(np.uint8), codes.itemsize, part, low, high)
    else:
        for start, part in parts_of(X):
            records = matrix.records[start : start + len(part)]
            note_sides(tree, records, matrix.columns.itemsize, part, low, high)
    left, right = low.max(axis=0), high.min(axis=0)
    if matrix.comm.size > 1:
        keys = ordered_bits(np.concatenate([left, -right]))
        matrix.comm.max(keys)
        left, right = np.split(floats_of_bits(keys), 2)
        right = -right
    # An infinity is cut off from all finite values, as by the thresholds of bins.
    largest = np.finfo(np.float64).max
    middle = np.where(np.isneginf(left), -largest, left) / 2 + np.where(np.isposinf(right), largest, right) / 2
    middle[np.isneginf(left) & ~np.isposinf(right)] = -np.inf
    middle[np.isposinf(right) & ~np.isneginf(left)] = largest
    return np.where((left <= middle) & (middle < right), middle, left)
