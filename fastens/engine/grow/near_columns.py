"""Column-major copies of the bin codes of a few features, for tables that only have row-major codes."""

from __future__ import annotations

import numpy as np

from fastens.engine.bins.binned import MEMORY, BinnedMatrix
from fastens.engine.trees.trees import Tree

# The copied columns use at most one byte for this many bytes of records.
_SHARE = 8
# Decay factor of the usage counts of features per tree.
_KEPT = 0.5


def near_bytes(record_bytes: int) -> int:
    """Return the maximum number of bytes per row in all copied columns, given the bytes of a record."""
    return record_bytes // _SHARE


class NearColumns:
    """Column-major copies of the features that recent trees split most rows on, because the next trees do so as well.

    A split that reads records loads a cache line for every row or two. For each row that recent trees split on a
    feature, a copied column saves about twice the cost of copying one row. Counts of older trees decay exponentially.

    Parameters
    ----------
    matrix : BinnedMatrix
        The rows; `columns` must be a view of the records.

    Attributes
    ----------
    places : uintp array of shape (n_features,)
        Addresses of the columns, or 0 for features without a copy.
    """

    def __init__(self, matrix: BinnedMatrix) -> None:
        n_slots = min(matrix.n_features, near_bytes(matrix.records.shape[1]) // matrix.columns.itemsize)
        self._matrix = matrix
        self._columns = MEMORY.zeros((n_slots, matrix.n_rows), matrix.columns.dtype)
        self._features = np.full(n_slots, -1)
        self._n_divided = np.zeros(matrix.n_features)
        self.places = np.zeros(matrix.n_features, dtype=np.uintp)

    def choose(self, tree: Tree) -> None:
        """Copy the columns of other features if the tree that was just grown shows that they are more useful."""
        inner = tree.left_child != 0
        divided = np.bincount(tree.feature[inner], tree.n_samples[inner], minlength=len(self._n_divided))
        self._n_divided = _KEPT * self._n_divided + divided
        for feature in np.argsort(-self._n_divided, kind="stable")[: len(self._features)]:
            if self.places[feature] == 0:
                self._copy_if_useful(int(feature))

    def _copy_if_useful(self, feature: int) -> None:
        """Copy this feature over the least useful copied column, if the benefit exceeds the cost of copying."""
        worth = np.where(self._features < 0, 0.0, self._n_divided[self._features])
        slot = int(np.argmin(worth))
        if self._n_divided[feature] - worth[slot] < self._matrix.n_rows:
            return
        if self._features[slot] >= 0:
            self.places[self._features[slot]] = 0
        self._columns[slot] = self._matrix.columns[feature]
        self._features[slot] = feature
        self.places[feature] = self._columns[slot].ctypes.data
