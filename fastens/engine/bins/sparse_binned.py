"""Binned rows of sparse tables: the codes of zeros are not stored, and nothing becomes dense.

Rows are stored twice. Trees count a node's rows in the copy by row, which names for each stored code its cell in a
histogram; a split looks the node's rows up in its column. A stored value costs 9 bytes (10 with codes of two bytes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fastens.engine.bins.binned import BinnedMatrix, Bundles, no_bundles
from fastens.engine.bins.binning import Binning, learn_and_bin, learn_binning
from fastens.engine.bins.sparse_codes import cells_by_row, code_stored, spread_codes
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.limits import MAX_INT32, check_count
from fastens.engine.rows.sparse_rows import columns_of
from fastens.engine.sharing import shared
from fastens.engine.threads import threads_for

_PAYLOAD_BYTES = 4
# Where more of the values are stored than this share, codes of all values take less memory. 20 trees on real numbers in
# 5000 x 1000 and 40 000 x 100 values, of which shares of 0.02 to 0.3 are stored, take 2.3 to 1.1 times as long with all
# codes, on ones in 5000 x 1000 values 2.4 to 0.9 times, and in 40 000 x 100, which are bundled, 1.1 to 0.5 times.
MOST_STORED = 0.125
# Values that keep a thread busy for some tens of microseconds.
_GRAIN = 20_000
# Codes that are made dense at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """The codes of rows by column, but for those of zeros.

    Attributes
    ----------
    rows : int32 array of shape (n_stored,)
        The rows with another code than that of zeros, ascending in each column, one column after another.
    starts : int64 array of shape (n_features + 1,)
        Where each column begins.
    codes : uint8 or uint16 array of shape (n_stored,)
        Their codes.
    of_zero : array of shape (n_features,)
        The code of zeros in each column.
    n_rows : int
        Number of rows.
    """

    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    codes: NDArray[np.unsignedinteger]
    of_zero: NDArray[np.unsignedinteger]
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Features and rows, as an array of all codes has them."""
        return len(self.of_zero), self.n_rows

    @property
    def itemsize(self) -> int:
        """Bytes of a code."""
        return self.codes.itemsize

    @property
    def n_stored(self) -> int:
        """How many codes are stored."""
        return int(self.starts[-1])

    def __getitem__(self, feature: int) -> NDArray[np.unsignedinteger]:
        """Return all codes of a feature; IndexError for one that is not there, which ends a loop."""
        if feature >= len(self.of_zero):
            raise IndexError(feature)
        found = np.full(self.n_rows, self.of_zero[feature])
        stored = slice(*self.starts[feature : feature + 2])
        found[self.rows[stored]] = self.codes[stored]
        return found

    def of_features(
        self, features: NDArray[np.int32], n_threads: int = 1
    ) -> Iterator[tuple[int, NDArray[np.unsignedinteger]]]:
        """Yield all codes of some features, for some rows at a time, with the number of the first.

        Parameters
        ----------
        features : int32 array
            Which.
        n_threads : int
            How many threads there may be.
        """
        step = max(1, _BLOCK // max(1, len(features)))
        for first in range(0, self.n_rows, step):
            out = np.empty((len(features), min(step, self.n_rows - first)), dtype=self.codes.dtype)
            spread_codes(self, features, first, out, threads_for(out.size, n_threads, _GRAIN))
            yield first, out


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Binned rows as `BinnedMatrix` has them, of which the codes of zeros are not stored.

    Attributes
    ----------
    columns : SparseCodes
        The codes by column.
    cells : uint32 array of shape (n_stored,)
        Row by row, for each stored code its cell in a histogram of all features, ascending.
    first_cell : int64 array of shape (n_rows + 1,)
        Where those of each row begin.
    payloads : uint8 array of shape (n_rows, 4 * n_payloads)
        Belongs to the histogram kernels.
    """

    columns: SparseCodes
    cells: NDArray[np.uint32]
    first_cell: NDArray[np.int64]
    payloads: NDArray[np.uint8]
    n_codes: NDArray[np.int32]
    is_categorical: NDArray[np.bool_]
    thresholds: list[NDArray[np.float64]]
    bundles: Bundles
    n_payloads: int = 1
    comm: Comm = LOCAL

    is_sparse = True
    pages = None  # in memory

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.n_rows

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.n_codes)

    @property
    def codes_per_row(self) -> int:
        """How many codes a histogram counts in a row, on average."""
        return 1 + self.columns.n_stored // self.n_rows

    def features_by_row(self) -> NDArray[np.int32]:
        """Return for each cell the feature that it is of."""
        of_cell = np.repeat(np.arange(self.n_features, dtype=np.int32), self.n_codes)
        return of_cell[self.cells] if self.columns.n_stored else np.zeros(1, np.int32)

    def beside(self) -> SparseMatrix:
        """Return the same rows for another grower at the same time."""
        return self.with_payloads(self.n_payloads)

    def with_payloads(self, n: int) -> SparseMatrix:
        """Return the same rows with room for so many payloads."""
        return replace(self, payloads=np.empty((self.n_rows, n * _PAYLOAD_BYTES), dtype=np.uint8), n_payloads=n)


def binned(binning: Binning, X: Any, n_threads: int = 1, comm: Comm = LOCAL) -> AnyMatrix:
    """Return rows binned for trees: codes of zeros are stored only where most values are others.

    Parameters
    ----------
    binning : Binning
        The bins.
    X : float32 or float64 array, sparse matrix or row source of shape (n_rows, n_features)
        The rows.
    n_threads : int
        Most threads to use.
    comm : Comm
        The ranks that the rows of the table are divided among; of several, all codes are stored.
    """
    if comm.size == 1 and stays_sparse(X):
        return sparse_matrix(binning, X, n_threads)
    return replace(binning.transform(X, n_threads), comm=comm)


def codes_of(binning: Binning, X: Any, n_threads: int = 1) -> AnyCodes:
    """Return the codes of rows by column, in the same way; the parameters are those of `binned`."""
    return sparse_codes(binning, X, n_threads) if stays_sparse(X) else binning.codes(X, n_threads)


def learned_and_binned(
    X: Any,
    sample_weight: NDArray[np.float64] | None = None,
    max_bins: int = 255,
    is_categorical: NDArray[np.bool_] | None = None,
    n_threads: int = 1,
    comm: Comm = LOCAL,
) -> tuple[Binning, AnyMatrix]:
    """Return `learn_binning` and what `binned` makes of the same rows; the parameters are those of the two.

    Examples
    --------
    >>> from scipy.sparse import eye_array
    >>> from fastens.engine.bins.sparse_binned import learned_and_binned
    >>> learned_and_binned(eye_array(10, format="csr"))[1].columns.rows
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], dtype=int32)
    """
    if comm.size == 1 and stays_sparse(X):
        binning = learn_binning(X, sample_weight, max_bins, is_categorical, n_threads)
        return binning, sparse_matrix(binning, X, n_threads)
    return learn_and_bin(X, sample_weight, max_bins, is_categorical, n_threads, comm)


AnyCodes = NDArray[np.unsignedinteger] | SparseCodes
AnyMatrix = BinnedMatrix | SparseMatrix


def stays_sparse(X: Any) -> bool:
    """Whether the codes of a table are better stored without those of zeros."""
    return scipy.sparse.issparse(X) and X.nnz <= MOST_STORED * X.shape[0] * X.shape[1]


def sparse_codes(binning: Binning, X: Any, n_threads: int = 1) -> SparseCodes:
    """Return the codes of a sparse matrix but for those of zeros.

    Parameters
    ----------
    binning : Binning
        The bins.
    X : sparse matrix of floats of shape (n_rows, n_features)
        The rows; NaN is missing, also where it is stored.
    n_threads : int
        How many threads there may be.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.bins.sparse_binned import sparse_codes
    >>> X = csr_matrix(np.array([[0.0, 1.0], [0.0, 0.0], [2.0, np.nan]]))
    >>> found = sparse_codes(learn_binning(X), X)
    >>> found.rows, found.codes, found.of_zero
    (array([2, 0, 2], dtype=int32), array([2, 2, 0], dtype=uint8), array([1, 1], dtype=uint8))
    """
    values, rows, starts = columns_of(X)
    codes, of_zero = np.empty(len(values), binning.code_dtype), np.empty(X.shape[1], binning.code_dtype)
    code_stored(binning.table, values, starts, codes, of_zero, threads_for(len(values), n_threads, _GRAIN))
    del values
    is_kept = codes != np.repeat(of_zero, np.diff(starts))
    starts = np.append(0, np.cumsum(is_kept))[starts]
    return SparseCodes(_never_empty(rows[is_kept]), starts, _never_empty(codes[is_kept]), of_zero, X.shape[0])


@shared
def sparse_matrix(binning: Binning, X: Any, n_threads: int = 1) -> SparseMatrix:
    """Return a sparse matrix binned for training; the parameters are those of `sparse_codes`."""
    n_cells = int(np.sum(binning.n_codes, dtype=np.int64))
    advice = "Lower max_bins, or hash the columns to fewer."
    check_count("A histogram", "bins of all columns together", n_cells, 2 * MAX_INT32 + 1, advice=advice)
    columns = sparse_codes(binning, X, n_threads)
    stored = columns.rows[: columns.n_stored]
    first_cell = np.append(0, np.cumsum(np.bincount(stored, minlength=columns.n_rows)))
    cells = np.empty(len(columns.rows), dtype=np.uint32)
    of_feature = np.cumsum(binning.n_codes, dtype=np.int64) - binning.n_codes
    cells_by_row(columns.rows, columns.starts, columns.codes, of_feature, first_cell[:-1].copy(), cells)
    bundles = replace(no_bundles(binning.n_codes), most_frequent_bin=columns.of_zero.astype(np.int32))
    payloads = np.empty((columns.n_rows, _PAYLOAD_BYTES), dtype=np.uint8)
    described = binning.n_codes, binning.is_categorical, binning.thresholds, bundles
    return SparseMatrix(columns, cells, first_cell, payloads, *described)


def _never_empty(array: np.ndarray) -> np.ndarray:
    """Kernels have no pointer to an array without items."""
    return array if len(array) else np.zeros(1, array.dtype)
