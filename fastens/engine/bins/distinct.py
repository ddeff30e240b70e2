"""The distinct values of columns, as long as they are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from fastens.engine.bins.sketch import note_values
from fastens.engine.bins.sparse_columns import cut_sparse_columns
from fastens.engine.rows.sparse_rows import columns_of

# Slots that are looked through at a time.
_BLOCK = 1 << 20


class DistinctValues:
    """The distinct values of each feature in all rows so far, until there are more than a limit.

    Parameters
    ----------
    is_left_out : bool array of shape (n_features,)
        Features that nothing is noted of.
    limit : int
        How many values a feature may have.

    Attributes
    ----------
    is_over : bool array of shape (n_features,)
        Whether a feature is left out, or has more values.
    values : float64 array
        Those of the other features, ascending, one feature after another.
    starts : int64 array of shape (n_features + 1,)
        Where each feature begins.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.distinct import DistinctValues
    >>> found = DistinctValues(np.array([False, False]), limit=2)
    >>> found.note(np.array([[1.0, 2.0], [1.0, 3.0], [np.nan, 4.0]]))
    >>> found.values, found.is_over
    (array([1.]), array([False,  True]))
    """

    def __init__(self, is_left_out: np.ndarray, limit: int) -> None:
        self.is_over, self.limit = is_left_out.copy(), limit
        self.values, self.starts = np.zeros(0), np.zeros(len(is_left_out) + 1, dtype=np.int64)

    def note(self, X: Any, n_threads: int = 1) -> None:
        """Add the values of rows, an array or a sparse matrix."""
        if self.is_over.all():
            return
        if scipy.sparse.issparse(X):
            found, counts = cut_sparse_columns(*columns_of(X), None, X.shape[0], self.limit, True, n_threads)
            self.is_over |= counts < 0
            if len(self.values) == 0 and not self.is_over[counts > 0].any():
                self.values, self.starts = found, np.append(0, np.cumsum(np.maximum(counts, 0), dtype=np.int64))
            else:
                self._add(np.repeat(np.arange(X.shape[1]), np.maximum(counts, 0)), found)
            return
        n_slots = 1 << (self.limit + 1).bit_length()
        block = max(1, _BLOCK // n_slots)
        for start in range(0, X.shape[1], block):
            self._note_block(X[:, start : start + block], start, n_slots, n_threads)

    def _note_block(self, X: np.ndarray, start: int, n_slots: int, n_threads: int) -> None:
        is_over = self.is_over[start : start + X.shape[1]]
        if is_over.all():
            return
        n_distinct = np.zeros((n_threads, X.shape[1]), dtype=np.int32)
        n_distinct[:, is_over] = self.limit + 1
        slots = np.full((n_threads, X.shape[1], n_slots), np.nan)
        note_values(X, slots.view(np.uint64), n_distinct, self.limit)
        is_over |= n_distinct.max(axis=0) > self.limit
        slots[:, is_over] = np.nan
        _, features, _ = places = np.nonzero(~np.isnan(slots))
        self._add(start + features, slots[places])

    def merge(self, other: DistinctValues) -> None:
        """Add the values of other rows."""
        self.is_over |= other.is_over
        self._add(np.repeat(np.arange(len(other.is_over)), np.diff(other.starts)), other.values)

    def of_columns(self, first: int, end: int) -> DistinctValues:
        """Return those of some features."""
        part = DistinctValues(self.is_over[first:end], self.limit)
        begin, last = self.starts[first], self.starts[end]
        part.values, part.starts = self.values[begin:last], self.starts[first : end + 1] - begin
        return part

    def _add(self, features: np.ndarray, values: np.ndarray) -> None:
        features = np.concatenate([np.repeat(np.arange(len(self.is_over)), np.diff(self.starts)), features])
        values = np.concatenate([self.values, values])
        order = np.lexsort((values, features))
        features, values = features[order], values[order]
        is_new = np.ones(len(values), dtype=bool)
        is_new[1:] = (features[1:] != features[:-1]) | (values[1:] != values[:-1])
        counts = np.bincount(features[is_new], minlength=len(self.is_over))
        self.is_over |= counts > self.limit
        is_new &= ~self.is_over[features]
        self.values = values[is_new]
        self.starts = np.append(0, np.cumsum(np.bincount(features[is_new], minlength=len(self.is_over))))
