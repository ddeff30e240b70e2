"""Learn the bins of each feature from data (at once, or merged from parts) and convert values to bin codes.

Code 0 stands for missing values and unseen categories. The code of a numeric value is 1 plus the number of thresholds
below the value, so ``x <= thresholds[c - 1]`` is equivalent to ``code <= c``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from fastens.engine.bins.binned import (
    MEMORY,
    BinnedMatrix,
    Bundles,
    allocator_of,
    empty_records,
    make_matrix,
    make_records,
    no_bundles,
    record_stride,
)
from fastens.engine.bins.bins import BinTable, bin_matrix, code_stored, copy_to_records, spread_codes
from fastens.engine.bins.bundling import MAX_CODES, join
from fastens.engine.bins.pages import MappedPages
from fastens.engine.bins.row_sketch import RowSketch
from fastens.engine.comm import LOCAL, Comm, max_floats, shared
from fastens.engine.limits import MAX_INT32, check_count, check_shape
from fastens.engine.parts import parts_of, stored_binning, stored_values, with_codes_of
from fastens.engine.rows.sampling import columns_of
from fastens.engine.threads import cached_property, threads_for

# How numbers are converted to category positions, instead of rounding down: truncate toward zero, accept only integers,
# or round to float32 first.
TOWARD_ZERO, WHOLE, SINGLE = 1, 2, 4


class Binning:
    """Thresholds and category codes of all features as plain arrays.

    Parameters
    ----------
    thresholds : list of float64 arrays
        Ascending thresholds of each feature; empty for categorical features.
    category_codes : list of uint16 arrays or None
        Code of each category by its position, 0 for unseen categories; None for numeric features.
    lookup : int32 array of shape (n_features, 2) or None
        For each feature, the code of numbers that are not category positions, and a sum of `TOWARD_ZERO`, `WHOLE` and
        `SINGLE`. If None, all entries are 0.
    """

    thresholds: list[np.ndarray]
    category_codes: list[np.ndarray | None]
    is_categorical: np.ndarray
    n_codes: np.ndarray
    code_dtype: np.dtype
    lookup: np.ndarray | None = None

    def __init__(
        self,
        thresholds: list[np.ndarray],
        category_codes: list[np.ndarray | None],
        lookup: np.ndarray | None = None,
    ) -> None:
        if len(thresholds) != len(category_codes):
            raise ValueError("thresholds and category_codes must have an entry for each feature")
        self.thresholds = thresholds
        self.category_codes = category_codes
        if lookup is not None and lookup.any():
            self.lookup = np.ascontiguousarray(lookup, dtype=np.int32)
        self.is_categorical = np.array([codes is not None for codes in category_codes], dtype=bool)
        self.n_codes = np.fromiter(map(len, thresholds), np.int32, len(thresholds)) + np.int32(2)
        for feature in np.flatnonzero(self.is_categorical).tolist():
            codes = category_codes[feature]
            self.n_codes[feature] = 2 if codes is None else int(codes.max(initial=1)) + 1
        if self.lookup is not None:
            self.n_codes = np.maximum(self.n_codes, self.lookup[:, 0] + 1)
        self.code_dtype = np.dtype(np.uint8 if self.n_codes.max(initial=0) <= 256 else np.uint16)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.thresholds)

    @cached_property
    def table(self) -> BinTable:
        """Lookup tables for the kernels."""
        return BinTable(self.thresholds, self.category_codes, self.lookup)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.copy().items() if name != "table"}

    def with_thresholds(self, thresholds: list[np.ndarray]) -> Binning:
        """Return a binning with the same categories and lookup, and these thresholds for all features."""
        return Binning(thresholds, self.category_codes, self.lookup)

    def of_features(self, features: list[int]) -> Binning:
        """Return the binning of the features at these indices, in this order."""
        thresholds, codes = [self.thresholds[f] for f in features], [self.category_codes[f] for f in features]
        return Binning(thresholds, codes, None if self.lookup is None else self.lookup[features])

    def codes(self, X: Any, n_threads: int = 1) -> np.ndarray:
        """Return the bin codes of X, shape (n_features, n_rows), in C order."""
        if (coded := with_codes_of(X, self)) is not None:
            return coded.codes()
        allocator = allocator_of(X)
        columns = allocator.zeros((self.n_features, X.shape[0]), self.code_dtype)
        self.fill(X, columns, None, 0, n_threads, allocator.pages(columns))
        return columns

    @shared
    def transform(self, X: Any, n_threads: int = 1, max_column_bytes: int | None = None) -> BinnedMatrix:
        """Return X binned for training: row-major and column-major bin codes.

        If the column-major codes would use more than `max_column_bytes` of memory, only row-major codes are created.
        """
        check_shape(X)
        if (coded := with_codes_of(X, self)) is not None:
            records = coded.records()
            return self.matrix_of(coded.codes(), records) if records is not None else self._add_records(X, n_threads)
        allocator, n_rows, n_bytes = allocator_of(X), X.shape[0], self.n_features * self.code_dtype.itemsize
        if max_column_bytes is not None and not allocator.is_file and n_rows * n_bytes > max_column_bytes:
            matrix = make_records(n_rows, self.code_dtype, self.n_codes, self.is_categorical, self.thresholds)
        else:
            columns = allocator.zeros((self.n_features, n_rows), self.code_dtype)
            records = allocator.zeros((n_rows, record_stride(n_bytes)), np.uint8) if allocator.is_file else None
            matrix = self.matrix_of(columns, records)
        pages = allocator.pages(matrix.columns, matrix.records)
        self.fill(X, matrix.columns, matrix.records, 0, n_threads, pages)
        return replace(matrix, pages=pages)

    def matrix_of(self, columns: np.ndarray, records: np.ndarray | None = None) -> BinnedMatrix:
        """Return a BinnedMatrix of column-major codes by this binning, with these records.

        If `records` is None, the matrix has zeroed records to be filled.
        """
        return make_matrix(columns, self.n_codes, self.is_categorical, self.thresholds, records)

    def _add_records(self, X: Any, n_threads: int) -> BinnedMatrix:
        """Return the matrix of X, a row source of column-major codes, with records that are derived from the codes."""
        matrix = self.matrix_of(X.codes())
        copy_to_records(matrix.columns, matrix.records, threads_for(matrix.columns.size, n_threads, _BIN_GRAIN))
        return matrix

    def fill(
        self,
        X: Any,
        columns: np.ndarray,
        records: np.ndarray | None,
        first_row: int,
        n_threads: int,
        pages: MappedPages | None = None,
    ) -> None:
        """Write the codes of X to the rows from first_row on of `columns` and, unless None, of `records`.

        `columns` has shape (n_features, n_rows). `pages` limits resident pages of the outputs if they are mapped. Raise
        ValueError if X has another number of columns.
        """
        if X.shape[1] != self.n_features:  # another thread may refit the model during prediction
            raise ValueError(f"X must have {self.n_features} columns; got {X.shape[1]}.")
        of_row = columns.shape[0] * columns.itemsize + (0 if records is None else records.shape[1])
        for start, part in parts_of(X):
            n_near = threads_for(part.size, n_threads, _BIN_GRAIN)
            if pages is not None:
                pages.note(part.shape[0] * of_row + columns.shape[0] * _PAGE)
            bin_matrix(self.table, part, columns, records, first_row + start, n_near)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the state as a few arrays for serialization."""
        codes = [np.zeros(0, np.uint16) if codes is None else codes for codes in self.category_codes]
        return {
            "thresholds": np.concatenate([np.zeros(0), *self.thresholds]),
            "n_thresholds": np.array([len(limits) for limits in self.thresholds], dtype=np.int64),
            "category_codes": np.concatenate([np.zeros(0, np.uint16), *codes]),
            "n_categories": np.array([len(part) for part in codes], dtype=np.int64),
            "is_categorical": self.is_categorical,
        } | ({} if self.lookup is None else {"lookup": self.lookup.ravel()})

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Binning:
        """Create a binning from the output of `to_arrays`."""
        thresholds = np.split(arrays["thresholds"], np.cumsum(arrays["n_thresholds"])[:-1])
        codes = np.split(arrays["category_codes"], np.cumsum(arrays["n_categories"])[:-1])
        kinds = arrays["is_categorical"]
        lookup = arrays.get("lookup")
        return cls(
            list(thresholds),
            [part if kind else None for part, kind in zip(codes, kinds, strict=True)],
            None if lookup is None else lookup.reshape(len(kinds), 2),
        )


class BinningSketch(RowSketch):
    """Mergeable summary of rows for learning bins; see RowSketch."""

    def finish(self, codes: np.ndarray | None = None) -> Binning:
        """Return the binning of all rows added so far, and write their codes to `codes` as `bins` does, unless None."""
        return Binning(*self.bins(codes))


# Number of values that keep a thread busy for some tens of microseconds.
_BIN_GRAIN = 20_000
# Bytes of a page: in each column of a file, the last page that was written may be almost empty.
_PAGE = 1 << 16
# Maximum number of bins for which codes fit into one byte.
BYTE_BINS = 255


@shared
def learn_binning(
    X: Any,
    sample_weight: np.ndarray | None = None,
    max_bins: int | np.ndarray = 255,
    is_categorical: np.ndarray | None = None,
    n_threads: int = 1,
    comm: Comm = LOCAL,
) -> Binning:
    """Learn the binning of X.

    Parameters
    ----------
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        The rows. NaN is a missing value; categorical columns hold category positions.
    sample_weight : array of shape (n_rows,) or None
        Positive weights; integer weights count as copies of the row. If None, all weights are 1.
    max_bins : int or int array of shape (n_features,)
        Maximum number of bins per feature, at most 65,535, without the code of missing values.
    is_categorical : bool array of shape (n_features,) or None
        True for categorical columns. If None, all columns are numeric.
    n_threads : int
        Maximum number of threads. The result does not depend on it.
    comm : Comm
        Ranks that share the rows of X; all of them get the bins of the whole table.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> binning = learn_binning(np.array([[1.0], [2.0], [2.0], [4.0]]))
    >>> binning.thresholds[0]
    array([1.5, 3. ])
    >>> binning.codes(np.array([[0.0], [3.5], [np.nan]]))
    array([[1, 3, 0]], dtype=uint8)
    """
    check_shape(X, comm)
    if (stored := stored_binning(X, max_bins)) is not None:
        return stored
    sketch = _make_sketch(X, sample_weight, max_bins, is_categorical, n_threads, comm)
    return sketch.finish() if comm.size == 1 else _binning_of_ranks(sketch, comm)


@shared
def learn_and_bin(
    X: Any,
    sample_weight: np.ndarray | None = None,
    max_bins: int | np.ndarray = 255,
    is_categorical: np.ndarray | None = None,
    n_threads: int = 1,
    comm: Comm = LOCAL,
) -> tuple[Binning, AnyMatrix]:
    """Return the binning and the binned rows; with many bins, both come from a single sort of dense rows.

    See `learn_binning` for the parameters and `binned` for the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_and_bin
    >>> binning, matrix = learn_and_bin(np.array([[1.0], [2.0], [2.0], [4.0]]), max_bins=1000)
    >>> matrix.columns
    array([[1, 2, 2, 3]], dtype=uint8)
    """
    check_shape(X)
    is_plain = isinstance(max_bins, np.ndarray) or max_bins <= BYTE_BINS or stays_sparse(X)
    if is_plain or stored_binning(X, max_bins) is not None or comm.size > 1:
        binning = learn_binning(X, sample_weight, max_bins, is_categorical, n_threads, comm)
        return binning, binned(binning, X, n_threads, comm)
    sketch = _make_sketch(X, sample_weight, max_bins, is_categorical, n_threads)
    if not sketch.holds_all() or allocator_of(X).is_file:
        binning = sketch.finish()
        return binning, binning.transform(X, n_threads)
    codes = MEMORY.zeros((X.shape[1], X.shape[0]), np.uint16)
    binning = sketch.finish(codes)
    if binning.code_dtype != codes.dtype:
        return binning, binning.transform(X, n_threads)
    matrix = binning.matrix_of(codes)
    copy_to_records(codes, matrix.records, threads_for(codes.size, n_threads, _BIN_GRAIN))
    return binning, matrix


def _make_sketch(
    X: Any, sample_weight: Any, max_bins: int | np.ndarray, is_categorical: Any, n_threads: int, comm: Comm = LOCAL
) -> BinningSketch:
    """Return a sketch of this rank's rows X, with a unit of rounded weights that is equal on all ranks."""
    unit = 1.0
    if sample_weight is not None:
        # The unit is as small as possible while the sum of all weights fits in 63 bits, so that integer weights remain
        # exact.
        (largest,) = max_floats(comm, float(np.max(sample_weight, initial=0.0)))
        bits = math.frexp(largest)[1] + sum(comm.allgather(X.shape[0])).bit_length()
        unit = math.ldexp(1.0, bits - 62)
    sketch = BinningSketch(X.shape[1], max_bins, is_categorical, weight_unit=unit, n_threads=n_threads)
    sketch.add(X, sample_weight)
    return sketch


def _binning_of_ranks(sketch: BinningSketch, comm: Comm) -> Binning:
    """Return the binning of the rows of all ranks, each of which computes the bins of a share of the columns.

    `sketch` summarises this rank's rows and is reduced to the rows that a common sketch would keep.
    """
    sketch.keep_as_whole(comm)
    ends = [sketch.n_features * rank // comm.size for rank in range(comm.size + 1)]
    merged, *others = comm.alltoall([sketch.of_columns(*bounds) for bounds in pairwise(ends)])
    for part in others:
        merged.merge(part)
    of_ranks = comm.allgather(merged.bins())
    parts: list[Any] = [[one for of_rank in part for one in of_rank] for part in zip(*of_ranks, strict=True)]
    return Binning(*parts)


_PAYLOAD_BYTES = 4
# If more than this share of the values is stored, dense codes use less memory. With stored shares of 0.02 to 0.3, 20
# trees take 2.3 to 1.1 times as long with dense codes on tables of real numbers (5000 x 1000 and 40 000 x 100). On
# tables of zeros and ones, they take 2.4 to 0.9 times as long for 5000 x 1000 values, and 1.1 to 0.5 times for 40 000 x
# 100 values, whose columns are bundled.
MAX_STORED = 0.125
# Number of values that keep a thread busy for some tens of microseconds.
_GRAIN = 20_000
# Number of codes that are converted to dense at a time.
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """Column-major bin codes without the codes of zeros.

    Attributes
    ----------
    rows : int32 array of shape (n_stored,)
        Row indices of the stored codes, ascending within each column, one column after another.
    starts : int64 array of shape (n_features + 1,)
        Offset of each column.
    codes : uint8 or uint16 array of shape (n_stored,)
        The stored codes.
    of_zero : array of shape (n_features,)
        Code of zeros in each column.
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
        """Number of features and rows, as for a dense array of codes."""
        return len(self.of_zero), self.n_rows

    @property
    def itemsize(self) -> int:
        """Bytes per code."""
        return self.codes.itemsize

    @property
    def n_stored(self) -> int:
        """Number of stored codes."""
        return int(self.starts[-1])

    def __getitem__(self, feature: int) -> NDArray[np.unsignedinteger]:
        """Return all codes of a feature; raise IndexError if it does not exist, which ends iteration."""
        if feature >= len(self.of_zero):
            raise IndexError(feature)
        codes = np.full(self.n_rows, self.of_zero[feature])
        stored = slice(*self.starts[feature : feature + 2])
        codes[self.rows[stored]] = self.codes[stored]
        return codes

    def of_features(
        self, features: NDArray[np.int32], n_threads: int = 1
    ) -> Iterator[tuple[int, NDArray[np.unsignedinteger]]]:
        """Yield all codes of some features for blocks of rows, each with the index of its first row.

        Parameters
        ----------
        features : int32 array
            Feature indices.
        n_threads : int
            Maximum number of threads.
        """
        step = max(1, _BLOCK // max(1, len(features)))
        for first in range(0, self.n_rows, step):
            out = np.empty((len(features), min(step, self.n_rows - first)), dtype=self.codes.dtype)
            spread_codes(self, features, first, out, threads_for(out.size, n_threads, _GRAIN))
            yield first, out


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Binned rows like `BinnedMatrix`, but without storing the codes of zeros.

    Attributes
    ----------
    columns : SparseCodes
        The column-major codes.
    cells : uint32 array of shape (n_stored,)
        Row-major stored codes, each as the index of its cell in a histogram of all features; ascending in each row.
    first_cell : int64 array of shape (n_rows + 1,)
        Offset of each row in `cells`.
    payloads : uint8 array of shape (n_rows, 4 * n_payloads)
        Reserved for the histogram kernels.
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
    pages = None  # sparse matrices are always in memory

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.n_codes)

    @property
    def codes_per_row(self) -> int:
        """Mean number of codes of a row that a histogram counts."""
        return 1 + self.columns.n_stored // self.n_rows

    def features_by_row(self) -> NDArray[np.int32]:
        """Return the feature index of each stored code in the order of `cells`; [0] if none is stored."""
        of_cell = np.repeat(np.arange(self.n_features, dtype=np.int32), self.n_codes)
        return of_cell[self.cells] if self.columns.n_stored else np.zeros(1, np.int32)

    def with_own_payloads(self) -> SparseMatrix:
        """Return a matrix that shares the codes but not the payloads, for a concurrent grower."""
        return self.with_payloads(self.n_payloads)

    def with_payloads(self, n: int) -> SparseMatrix:
        """Return a matrix that shares the codes, with space for `n` payloads of four bytes per row."""
        return replace(self, payloads=np.empty((self.n_rows, n * _PAYLOAD_BYTES), dtype=np.uint8), n_payloads=n)


def binned(binning: Binning, X: Any, n_threads: int = 1, comm: Comm = LOCAL) -> AnyMatrix:
    """Return rows binned for growing trees; codes of zeros are omitted if most values are zeros.

    Parameters
    ----------
    binning : Binning
        The binning.
    X : float32 or float64 array, sparse matrix or row source of shape (n_rows, n_features)
        The rows.
    n_threads : int
        Maximum number of threads.
    comm : Comm
        Ranks that share the rows of the table. With several ranks, all codes are stored.
    """
    if comm.size == 1 and stays_sparse(X):
        return sparse_matrix(binning, X, n_threads)
    return replace(binning.transform(X, n_threads), comm=comm)


def codes_of(binning: Binning, X: Any, n_threads: int = 1) -> AnyCodes:
    """Return column-major codes, sparse under the same condition as `binned`; see there for the parameters."""
    return sparse_codes(binning, X, n_threads) if stays_sparse(X) else binning.codes(X, n_threads)


AnyCodes = NDArray[np.unsignedinteger] | SparseCodes
AnyMatrix = BinnedMatrix | SparseMatrix


def stays_sparse(X: Any) -> bool:
    """Return True if X is a sparse table that stores at most the share MAX_STORED of its values."""
    n_stored = stored_values(X)
    return n_stored is not None and n_stored <= MAX_STORED * X.shape[0] * X.shape[1]


def sparse_codes(binning: Binning, X: Any, n_threads: int = 1) -> SparseCodes:
    """Return the bin codes of a sparse matrix without the codes of zeros.

    Parameters
    ----------
    binning : Binning
        The binning.
    X : sparse matrix of floats of shape (n_rows, n_features)
        The rows. Stored NaN values are missing values.
    n_threads : int
        Maximum number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_matrix
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.bins.binning import sparse_codes
    >>> X = csr_matrix(np.array([[0.0, 1.0], [0.0, 0.0], [2.0, np.nan]]))
    >>> sparse = sparse_codes(learn_binning(X), X)
    >>> sparse.rows, sparse.codes, sparse.of_zero
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
    """Return a sparse matrix binned for training; see `sparse_codes` for the parameters."""
    n_cells = int(np.sum(binning.n_codes, dtype=np.int64))
    advice = "Lower max_bins, or hash the columns to fewer columns."
    check_count("A histogram", "bins in all columns together", n_cells, 2 * MAX_INT32 + 1, advice=advice)
    columns = sparse_codes(binning, X, n_threads)
    stored = slice(columns.n_stored)
    first_of_feature = (np.cumsum(binning.n_codes, dtype=np.int64) - binning.n_codes).astype(np.uint32)
    cells = np.repeat(first_of_feature, np.diff(columns.starts)) + columns.codes[stored]
    by_row = csc_matrix((cells, columns.rows[stored], columns.starts), shape=columns.shape[::-1]).tocsr()
    bundles = replace(no_bundles(binning.n_codes), most_frequent_bin=columns.of_zero.astype(np.int32))
    payloads = np.empty((columns.n_rows, _PAYLOAD_BYTES), dtype=np.uint8)
    described = binning.n_codes, binning.is_categorical, binning.thresholds, bundles
    first_cell = by_row.indptr.astype(np.int64)
    return SparseMatrix(columns, _never_empty(by_row.data), first_cell, payloads, *described)


def _never_empty(array: np.ndarray) -> np.ndarray:
    """Return the array, or a single zero if it is empty, because kernels cannot take pointers to empty arrays."""
    return array if len(array) else np.zeros(1, array.dtype)


# Bundles are chosen on at least this many rows.
_SAMPLE_ROWS = 16384
# Records are not rewritten for tables with fewer rows, or if bundling saves a smaller fraction of the columns.
_MIN_ROWS = 400
_MIN_SAVED = 0.1
# In every node, the feature histograms are computed from the bundle histograms, whereas a tree reads each row only a
# few times. The number of members or codes that a feature may add is therefore limited to the number of rows divided by
# this factor times the number of leaves; leaves beyond the maximum do not count.
_ROWS_PER_LEAF = 0.7
_MAX_LEAVES = 255
_ROW_GRAIN = 50_000
# Number of rows whose records are written at a time.
_BLOCK_ROWS = 1 << 16

_IS_ON = ContextVar("bundles", default=True)


@contextmanager
def without_bundles() -> Iterator[None]:
    """Fit without bundles inside the context to measure their benefit; the models are bit-identical.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.bins.binning import bundled, without_bundles
    >>> X = np.eye(10)[np.arange(5000) % 10]
    >>> with without_bundles():
    ...     len(bundled(learn_binning(X).transform(X)).bundles.n_codes)
    10
    """
    token = _IS_ON.set(False)
    try:
        yield
    finally:
        _IS_ON.reset(token)


@dataclass
class _Joined:
    """Features of a matrix, some of them in bundles; the arrays are the output of `join`."""

    features: np.ndarray
    numbers: np.ndarray
    bundle_of: np.ndarray
    n_combinations: np.ndarray
    most_frequent_bin: np.ndarray
    first_member: np.ndarray
    members: np.ndarray

    @property
    def in_bundle(self) -> np.ndarray:
        """True for features that share a column with others."""
        return self.bundle_of >= 0

    @property
    def n_saved(self) -> int:
        """Number of columns that the records save."""
        return int(self.in_bundle.sum()) - len(np.unique(self.bundle_of[self.in_bundle]))


def bundled(matrix: BinnedMatrix, max_leaves: int | None = 31, n_threads: int = 1) -> BinnedMatrix:
    """Return the matrix with shorter records if features with few codes can share bytes.

    Parameters
    ----------
    matrix : BinnedMatrix
        The rows, without bundles.
    max_leaves : int or None
        Maximum number of leaves of a tree. If None, it is unlimited.
    n_threads : int
        Maximum number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> from fastens.engine.bins.binning import bundled
    >>> X = np.eye(10)[np.arange(5000) % 10]
    >>> matrix = bundled(learn_binning(X).transform(X))
    >>> matrix.bundles.n_codes
    array([10], dtype=int32)
    """
    candidates = np.flatnonzero(matrix.n_codes <= MAX_CODES)
    least_saved = max(1, _MIN_SAVED * matrix.n_features)
    has_room = matrix.columns.itemsize == 1 and matrix.n_rows >= _MIN_ROWS and len(candidates) - 1 >= least_saved
    # Ranks would choose different bundles, and records are not rewritten if memory is limited.
    if not has_room or not _IS_ON.get() or matrix.comm.size > 1 or matrix.pages is not None:
        return matrix
    step = max(1, matrix.n_rows // _SAMPLE_ROWS)
    max_cost = int(matrix.n_rows / (_ROWS_PER_LEAF * min(max_leaves or _MAX_LEAVES, _MAX_LEAVES)))
    joined = _plan_bundles(matrix, candidates, max_cost, step)
    if step > 1 and joined.n_saved >= least_saved:
        joined = _apply_plan(matrix, joined, max_cost, n_threads)
    return matrix if joined.n_saved < least_saved else _rewrite_records(matrix, joined, n_threads)


def _plan_bundles(matrix: BinnedMatrix, features: np.ndarray, max_cost: int, step: int) -> _Joined:
    """Bundle the features at these indices at costs up to `max_cost` (see `join`), by every `step`-th row."""
    columns, column_indices = matrix.columns, features
    if step > 1:
        columns, column_indices = np.ascontiguousarray(columns[features, ::step]), np.arange(len(features))
    return _Joined(features, *join(columns, column_indices, _n_codes(matrix, features), max_cost, None, 1))


def _apply_plan(matrix: BinnedMatrix, plan: _Joined, max_cost: int, n_threads: int) -> _Joined:
    """Bundle features by all rows as in `plan`, which used a sample; leave out those that cost over `max_cost`."""
    features = plan.features[plan.in_bundle]
    planned = np.unique(plan.bundle_of[plan.in_bundle], return_inverse=True)[1].astype(np.int32)
    n_threads = threads_for(matrix.n_rows, n_threads, _ROW_GRAIN)
    return _Joined(features, *join(matrix.columns, features, _n_codes(matrix, features), max_cost, planned, n_threads))


def _n_codes(matrix: BinnedMatrix, features: np.ndarray) -> np.ndarray:
    """Return the number of codes of each of the features at these indices, int32."""
    return np.ascontiguousarray(matrix.n_codes[features], dtype=np.int32)


def _rewrite_records(matrix: BinnedMatrix, joined: _Joined, n_threads: int) -> BinnedMatrix:
    """Return the matrix with new records: columns of unbundled features, then one column per bundle of `joined`."""
    features = joined.features[joined.in_bundle]
    bundles, bundle_of = np.unique(joined.bundle_of[joined.in_bundle], return_inverse=True)
    alone = np.setdiff1d(np.arange(matrix.n_features), features, assume_unique=True)
    shape = len(alone) + len(bundles), matrix.n_rows
    records, payload_offset = empty_records(shape, 1)
    for first in range(0, matrix.n_rows, _BLOCK_ROWS):
        block = slice(first, first + _BLOCK_ROWS)
        codes = np.concatenate([matrix.columns[alone, block], joined.numbers[bundles, block]])
        copy_to_records(codes, records[block], threads_for(codes.size, n_threads, _ROW_GRAIN))
    column_of, most_frequent_bin, first_member = np.zeros((3, matrix.n_features), dtype=np.int32)
    column_of[alone] = np.arange(len(alone))
    column_of[features] = len(alone) + bundle_of
    most_frequent_bin[joined.features], first_member[joined.features] = joined.most_frequent_bin, joined.first_member
    n_codes = np.append(matrix.n_codes[alone], joined.n_combinations[bundles]).astype(np.int32)
    described = Bundles(column_of, n_codes, joined.members, first_member, most_frequent_bin)
    return replace(matrix, records=records, payload_offset=payload_offset, bundles=described, payloads_apart=None)
