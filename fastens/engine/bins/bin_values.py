"""Representative values of bins, and bin codes shared by several fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import AnyMatrix, Binning, SparseMatrix
from fastens.engine.bins.bins import BinTable, code_stored, note_extremes
from fastens.engine.comm import widest_ranges
from fastens.engine.parts import RowSource, parts_of
from fastens.engine.rows.sampling import columns_of as sparse_columns
from fastens.engine.threads import threads_for

# Number of values that keep a thread busy for some tens of microseconds.
_GRAIN = 20_000
_LARGEST = np.finfo(np.float64).max


def values_of_bins(matrix: AnyMatrix, X: Any, n_threads: int = 1) -> list[NDArray[np.float64]]:
    """Return the representative value of each bin of every feature, indexed by code; the first is NaN (missing).

    If all rows of a bin have the same value, this is the representative; otherwise it is the midpoint of minimum and
    maximum. An empty bin takes the value of the previous bin, or the smallest float if there is none. Infinite values
    count as the largest finite number of the same sign.

    Parameters
    ----------
    matrix : BinnedMatrix or SparseMatrix
        The rows. With several ranks, the rows of all ranks are used.
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        Values of the rows.
    n_threads : int
        Maximum number of threads. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.bin_values import values_of_bins
    >>> from fastens.engine.bins.binning import learn_binning
    >>> X = np.array([[0.0], [1.0], [1000.0], [np.inf]])
    >>> values_of_bins(learn_binning(X).transform(X), X)
    [array([            nan, 0.00000000e+000, 1.00000000e+000, 1.00000000e+003,
           1.79769313e+308])]
    """
    ends = np.cumsum(matrix.n_codes, dtype=np.int64)
    first = ends - matrix.n_codes
    low, high = np.full(ends[-1], np.inf), np.full(ends[-1], -np.inf)
    if isinstance(matrix, SparseMatrix):
        _note_sparse_extremes(matrix, X, first, low, high)
    else:
        for start, part in parts_of(X):
            columns = matrix.columns[:, start : start + len(part)]
            note_extremes(columns, part, first, low, high, threads_for(part.size, n_threads, _GRAIN))
    low, high = widest_ranges(matrix.comm, low, high)
    is_empty = low > high
    low, high = np.clip(low, -_LARGEST, _LARGEST), np.clip(high, -_LARGEST, _LARGEST)
    middle = np.where(low == high, low, low / 2 + high / 2)
    middle[is_empty] = np.nan
    middle[first] = np.nan
    middle[(first + 1)[is_empty[first + 1]]] = -_LARGEST
    return [np.fmax.accumulate(of_feature) for of_feature in np.split(middle, ends[:-1])]


def _note_sparse_extremes(
    matrix: SparseMatrix, X: Any, first: NDArray[np.int64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    """Widen `low` and `high` to each bin's minimum and maximum in X, whose implicit zeros count as values.

    `first` holds the offset of each feature's codes in both arrays.
    """
    values, _, starts = sparse_columns(X)
    n_stored = np.diff(starts)
    codes = np.empty(len(values), matrix.columns.codes.dtype)
    table = BinTable(matrix.thresholds, [None] * matrix.n_features)
    code_stored(table, values, starts, codes, matrix.columns.of_zero.copy(), 1)
    cells = np.repeat(first, n_stored) + codes
    np.fmin.at(low, cells, values)
    np.fmax.at(high, cells, values)
    of_zeros = (first + matrix.columns.of_zero)[n_stored < matrix.n_rows]
    low[of_zeros], high[of_zeros] = np.minimum(low[of_zeros], 0.0), np.maximum(high[of_zeros], 0.0)


class BinnedSource(RowSource):
    """Column-major bin codes of rows with their binning.

    Parameters
    ----------
    binning : Binning
        The binning.
    columns : array of shape (n_features, n_rows)
        The bin codes.
    """

    is_coded = True
    dtype = None

    def __init__(self, binning: Binning, columns: NDArray[np.unsignedinteger]) -> None:
        self._binning, self._columns = binning, columns
        self.shape = (columns.shape[1], columns.shape[0])

    def parts(self) -> Iterator[Any]:
        """Raise ValueError, because there are only bin codes and no values."""
        raise ValueError("the table has only bin codes of these rows, not their values.")

    def __getitem__(self, rows: Any) -> BinnedSource:
        """Return a subset of the rows in any order."""
        return BinnedSource(self._binning, np.ascontiguousarray(self._columns[:, rows]))

    def learned(self, max_bins: int | NDArray[Any]) -> Binning:
        """Return the binning that produced the codes; `max_bins` is ignored."""
        return self._binning

    def has_codes_of(self, binning: Binning) -> bool:
        """Return True if `binning` is this binning object, which all models fitted to the rows share."""
        return binning is self._binning

    def codes(self) -> NDArray[np.unsignedinteger]:
        """Return the bin codes without a copy, shape (n_features, n_rows)."""
        return self._columns

    def records(self) -> None:
        """Return None, because row-major codes are derived from the column-major ones."""
        return
