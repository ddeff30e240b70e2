"""Codes by column of a few features, where a table has only those by row."""

from __future__ import annotations

import numpy as np

from fastens.engine.bins.binned import MEMORY, BinnedMatrix
from fastens.engine.trees.trees import Tree

# Bytes of records for each byte of these columns.
_SHARE = 8
# How much of what a feature was worth is left a tree later.
_KEPT = 0.5


def near_bytes(record_bytes: int) -> int:
    """Return how many bytes a row takes in these columns at most."""
    return record_bytes // _SHARE


class NearColumns:
    """The columns of the features by which the latest trees divided most rows: the next ones do so again.

    A split that reads records fetches a cache line for every row or two. For each row that the last trees divided by a
    feature, the last one counting once and those before less and less, having its column saves about twice what it
    costs a row to write it.

    Parameters
    ----------
    matrix : BinnedMatrix
        The rows; `columns` is a view of the records.

    Attributes
    ----------
    places : uintp array of shape (n_features,)
        The addresses of the columns, 0 for features without.
    """

    def __init__(self, matrix: BinnedMatrix) -> None:
        n_slots = min(matrix.n_features, near_bytes(matrix.records.shape[1]) // matrix.columns.itemsize)
        self._matrix = matrix
        self._columns = MEMORY.zeros((n_slots, matrix.n_rows), matrix.columns.dtype)
        self._features = np.full(n_slots, -1)
        self._n_divided = np.zeros(matrix.n_features)
        self.places = np.zeros(matrix.n_features, dtype=np.uintp)

    def choose(self, tree: Tree) -> None:
        """Read the columns of other features where the tree just grown shows that these are worth more."""
        inner = tree.left_child != 0
        divided = np.bincount(tree.feature[inner], tree.n_samples[inner], minlength=len(self._n_divided))
        self._n_divided = _KEPT * self._n_divided + divided
        for feature in np.argsort(-self._n_divided, kind="stable")[: len(self._features)]:
            if self.places[feature] == 0:
                self._read(int(feature))

    def _read(self, feature: int) -> None:
        """Put a feature in the place of that which is worth least, if the difference is worth the reading."""
        worth = np.where(self._features < 0, 0.0, self._n_divided[self._features])
        slot = int(np.argmin(worth))
        if self._n_divided[feature] - worth[slot] < self._matrix.n_rows:
            return
        if self._features[slot] >= 0:
            self.places[self._features[slot]] = 0
        self._columns[slot] = self._matrix.columns[feature]
        self._features[slot] = feature
        self.places[feature] = self._columns[slot].ctypes.data
