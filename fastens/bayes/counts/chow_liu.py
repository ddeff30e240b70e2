"""Mutual information of columns, given the class if there is more than one, and the Chow-Liu tree (1968)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import offsets_of
from fastens.engine.elementary import xlogy

Array = NDArray[np.float64]
ROOT = -1  # parent of a column that has none


def mutual_information(pairs: NDArray[Any], sizes: NDArray[np.int64]) -> Array:
    """Mutual information of every two columns given the class, in nats: (n_features, n_features).

    I(X; Z | C) = sum over c, x, z of p(c, x, z) log[ p(x, z | c) / (p(x | c) p(z | c)) ], for each pair over the rows
    in which both are known (FGG 1997, section 4.1). The diagonal is the entropy of the column given the class. `pairs`
    are `pair_counts` without missing values.
    """
    total, gain = np.zeros((len(sizes), len(sizes))), np.zeros((len(sizes), len(sizes)))
    for counts in pairs:
        by_row, by_column = _block_sums(counts, sizes, axis=1), _block_sums(counts, sizes, axis=0)
        joint = _block_sums(by_row, sizes, axis=0)
        gain = gain + (
            _block_sums(_block_sums(xlogy(counts, counts), sizes, axis=0), sizes, axis=1)
            - _block_sums(xlogy(by_row, by_row), sizes, axis=0)
            - _block_sums(xlogy(by_column, by_column), sizes, axis=1)
            + xlogy(joint, joint)
        )
        total = total + joint
    information = np.divide(gain, total, out=np.zeros(total.shape), where=total > 0)
    lower = np.tril(np.maximum(information, 0))
    return lower + np.tril(lower, -1).T


def class_information(singles: NDArray[Any], sizes: NDArray[np.int64]) -> Array:
    """Mutual information of each column and the class, in nats, over the rows in which the column is known.

    `singles` are `class_counts` without missing values.
    """
    of_cells = singles.sum(axis=0)
    of_classes = _block_sums(singles, sizes, axis=1)
    total = of_classes.sum(axis=0)
    gain = (
        _block_sums(xlogy(singles, singles).sum(axis=0), sizes, axis=0)
        - _block_sums(xlogy(of_cells, of_cells), sizes, axis=0)
        - xlogy(of_classes, of_classes).sum(axis=0)
        + xlogy(total, total)
    )
    return np.maximum(np.divide(gain, total, out=np.zeros(len(sizes)), where=total > 0), 0)


def _block_sums(values: NDArray[Any], sizes: NDArray[np.int64], axis: int) -> NDArray[Any]:
    """Sums over the cells of each column along an axis; 0 for a column without cells."""
    shape = (*values.shape[:axis], len(sizes), *values.shape[axis + 1 :])
    sums = np.zeros(shape, dtype=values.dtype)
    filled = np.flatnonzero(sizes)
    if filled.size:
        part = np.add.reduceat(values, offsets_of(sizes)[filled], axis=axis)
        sums[(slice(None),) * axis + (filled,)] = part
    return sums


def maximum_spanning_tree(weights: Array, root: int = 0) -> NDArray[np.int64]:
    """The tree over all columns with the greatest sum of weights: the parent of each column, -1 for the root.

    Prim's algorithm, O(n_features^2). Of equal edges it takes the one to the first column, from the one reached first.
    Edges of weight 0 are taken too, so that there is one tree.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.bayes.counts.chow_liu import maximum_spanning_tree
    >>> maximum_spanning_tree(np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0.0]]), root=2).tolist()
    [1, 2, -1]
    """
    n_features = len(weights)
    parents = np.full(n_features, ROOT, dtype=np.int64)
    best, nearest = np.full(n_features, -np.inf), np.full(n_features, root, dtype=np.int64)
    is_out = np.ones(n_features, dtype=bool)
    newest = root
    for _ in range(n_features - 1):
        is_out[newest] = False
        is_better = is_out & (weights[newest] > best)
        best[is_better], nearest[is_better] = weights[newest, is_better], newest
        newest = int(np.where(is_out, best, -np.inf).argmax())
        parents[newest] = nearest[newest]
    return parents
