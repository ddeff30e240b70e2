"""A representative value for every bin, and codes that several fits share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binning import Binning
from fastens.engine.bins.bins import BinTable, code_stored, note_extremes
from fastens.engine.bins.sparse_binned import AnyMatrix, SparseMatrix
from fastens.engine.comm import floats_of_bits, ordered_bits
from fastens.engine.parts import RowSource, parts_of
from fastens.engine.rows.sampling import columns_of as sparse_columns
from fastens.engine.threads import threads_for

# Values that keep a thread busy for some tens of microseconds.
_GRAIN = 20_000
_LARGEST = np.finfo(np.float64).max


def values_of_bins(matrix: AnyMatrix, X: Any, n_threads: int = 1) -> list[NDArray[np.float64]]:
    """Return the value of each bin by its code, of every feature; the first, of missing values, is NaN.

    A bin of one value has that, others the middle between their smallest and their largest; one that no row is in has
    that of the bin before it, or the smallest there is. Infinite values count as the largest finite number with
    their sign.

    Parameters
    ----------
    matrix : BinnedMatrix or SparseMatrix
        The rows; those of all its ranks count.
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        Their values.
    n_threads : int
        Most threads to use; the result does not depend on it.

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
        _note_stored(matrix, X, first, low, high)
    else:
        for start, part in parts_of(X):
            columns = matrix.columns[:, start : start + len(part)]
            note_extremes(columns, part, first, low, high, threads_for(part.size, n_threads, _GRAIN))
    if matrix.comm.size > 1:
        keys = ordered_bits(np.concatenate([-low, high]))
        matrix.comm.max(keys)
        low, high = np.split(floats_of_bits(keys), 2)
        low = -low
    is_empty = low > high
    low, high = np.clip(low, -_LARGEST, _LARGEST), np.clip(high, -_LARGEST, _LARGEST)
    middle = np.where(low == high, low, low / 2 + high / 2)
    middle[is_empty] = np.nan
    middle[first] = np.nan
    middle[(first + 1)[is_empty[first + 1]]] = -_LARGEST
    return [np.fmax.accumulate(of_feature) for of_feature in np.split(middle, ends[:-1])]


def _note_stored(
    matrix: SparseMatrix, X: Any, first: NDArray[np.int64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    """What `note_extremes` does, of a sparse matrix."""
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


class CodedRows(RowSource):
    """The codes of rows, by column, and the binning that they are of.

    Parameters
    ----------
    binning : Binning
        The bins.
    columns : array of shape (n_features, n_rows)
        The codes.
    """

    is_coded = True
    dtype = None

    def __init__(self, binning: Binning, columns: NDArray[np.unsignedinteger]) -> None:
        self._binning, self._columns = binning, columns
        self.shape = (columns.shape[1], columns.shape[0])

    def parts(self) -> Iterator[Any]:
        """Raise ValueError: there are codes and no values."""
        raise ValueError("there are codes of these rows and no values.")

    def __getitem__(self, rows: Any) -> CodedRows:
        """Return some of the rows, in any order."""
        return CodedRows(self._binning, np.ascontiguousarray(self._columns[:, rows]))

    def learned(self, max_bins: int) -> Binning:
        """Return the bins."""
        return self._binning

    def has_codes_of(self, binning: Binning) -> bool:
        """Return whether these are the bins: always, since all that is fitted on the rows takes theirs."""
        return binning is self._binning

    def codes(self) -> NDArray[np.unsignedinteger]:
        """Return the codes by column."""
        return self._columns

    def records(self) -> None:
        """Return None: those by row are made of the others."""
        return
