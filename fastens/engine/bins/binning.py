"""Learn the bins of each feature from data (at once, or merged from parts) and convert values to bin codes.

Code 0 stands for missing values and unseen categories. The code of a numeric value is 1 plus the number of thresholds
below the value, so ``x <= thresholds[c - 1]`` is equivalent to ``code <= c``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from fastens.cached import cached_property
from fastens.engine.bins.binned import MEMORY, BinnedMatrix, make_matrix, make_records, place_of, record_stride
from fastens.engine.bins.bins import BinTable, bin_matrix, copy_to_records
from fastens.engine.bins.pages import MappedPages
from fastens.engine.bins.row_sketch import RowSketch
from fastens.engine.comm import LOCAL, Comm, max_floats, shared
from fastens.engine.limits import check_shape
from fastens.engine.parts import is_coded, parts_of
from fastens.engine.threads import threads_for

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
        self.thresholds = thresholds
        self.category_codes = category_codes
        if lookup is not None and lookup.any():
            self.lookup = np.ascontiguousarray(lookup, dtype=np.int32)
        self.is_categorical = np.array([codes is not None for codes in category_codes], dtype=bool)
        self.n_codes = np.array(
            [
                len(limits) + 2 if codes is None else int(codes.max(initial=1)) + 1
                for limits, codes in zip(thresholds, category_codes, strict=True)
            ],
            dtype=np.int32,
        )
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
        """Return a binning with the same categories and other thresholds."""
        return Binning(thresholds, self.category_codes, self.lookup)

    def of_features(self, features: list[int]) -> Binning:
        """Return the binning of a subset of the features."""
        thresholds, codes = [self.thresholds[f] for f in features], [self.category_codes[f] for f in features]
        return Binning(thresholds, codes, None if self.lookup is None else self.lookup[features])

    def codes(self, X: Any, n_threads: int = 1) -> np.ndarray:
        """Return the bin codes of X, shape (n_features, n_rows), in C order."""
        if is_coded(X) and X.has_codes_of(self):
            return X.codes()
        place = place_of(X)
        columns = place.zeros((self.n_features, X.shape[0]), self.code_dtype)
        self.fill(X, columns, None, 0, n_threads, place.pages(columns))
        return columns

    @shared
    def transform(self, X: Any, n_threads: int = 1, most_columns: int | None = None) -> BinnedMatrix:
        """Return X binned for training: row-major and column-major bin codes.

        If the column-major codes would use more than `most_columns` bytes of memory, only row-major codes are created.
        """
        check_shape(X)
        if is_coded(X) and X.has_codes_of(self):
            records = X.records()
            return self.matrix_of(X.codes(), records) if records is not None else self._filled(X, n_threads)
        place, n_rows, n_bytes = place_of(X), X.shape[0], self.n_features * self.code_dtype.itemsize
        if most_columns is not None and not place.is_file and n_rows * n_bytes > most_columns:
            matrix = make_records(n_rows, self.code_dtype, self.n_codes, self.is_categorical, self.thresholds)
        else:
            columns = place.zeros((self.n_features, n_rows), self.code_dtype)
            records = place.zeros((n_rows, record_stride(n_bytes)), np.uint8) if place.is_file else None
            matrix = self.matrix_of(columns, records)
        pages = place.pages(matrix.columns, matrix.records)
        self.fill(X, matrix.columns, matrix.records, 0, n_threads, pages)
        return replace(matrix, pages=pages)

    def matrix_of(self, columns: np.ndarray, records: np.ndarray | None = None) -> BinnedMatrix:
        """Return a matrix with these column-major codes; row-major codes may be filled in later."""
        return make_matrix(columns, self.n_codes, self.is_categorical, self.thresholds, records)

    def _filled(self, X: Any, n_threads: int) -> BinnedMatrix:
        """Return the matrix of column-major codes with row-major codes filled in."""
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
        """Write the codes of X, whose rows start at `first_row`, in column-major and, unless None, row-major order."""
        if X.shape[1] != self.n_features:  # another thread may refit the model during prediction
            raise ValueError(f"X must have {self.n_features} columns, got {X.shape[1]}")
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
        """Return the binning of all rows added so far; see `bins` for `codes`."""
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
    max_bins: int = 255,
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
    max_bins : int
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
    if is_coded(X):
        return X.learned(max_bins)
    sketch = _sketch_of(X, sample_weight, max_bins, is_categorical, n_threads, comm)
    return sketch.finish() if comm.size == 1 else _binning_of_ranks(sketch, comm)


@shared
def learn_and_bin(
    X: Any,
    sample_weight: np.ndarray | None = None,
    max_bins: int = 255,
    is_categorical: np.ndarray | None = None,
    n_threads: int = 1,
    comm: Comm = LOCAL,
) -> tuple[Binning, BinnedMatrix]:
    """Return the binning and the binned matrix; with many bins, both come from a single sort.

    The matrix stores the communicator.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_and_bin
    >>> binning, matrix = learn_and_bin(np.array([[1.0], [2.0], [2.0], [4.0]]), max_bins=1000)
    >>> matrix.columns
    array([[1, 2, 2, 3]], dtype=uint8)
    """
    check_shape(X)
    if max_bins <= BYTE_BINS or is_coded(X) or comm.size > 1:
        binning = learn_binning(X, sample_weight, max_bins, is_categorical, n_threads, comm)
        return binning, replace(binning.transform(X, n_threads), comm=comm)
    sketch = _sketch_of(X, sample_weight, max_bins, is_categorical, n_threads)
    if not sketch.holds_all() or place_of(X).is_file:
        binning = sketch.finish()
        return binning, binning.transform(X, n_threads)
    codes = MEMORY.zeros((X.shape[1], X.shape[0]), np.uint16)
    binning = sketch.finish(codes)
    if binning.code_dtype != codes.dtype:
        return binning, binning.transform(X, n_threads)
    matrix = binning.matrix_of(codes)
    copy_to_records(codes, matrix.records, threads_for(codes.size, n_threads, _BIN_GRAIN))
    return binning, matrix


def _sketch_of(
    X: Any, sample_weight: Any, max_bins: int, is_categorical: Any, n_threads: int, comm: Comm = LOCAL
) -> BinningSketch:
    unit = 1.0
    if sample_weight is not None:
        # The unit is as fine as possible for sums of all weights in 63 bits, so that integer weights remain exact.
        (largest,) = max_floats(comm, float(np.max(sample_weight, initial=0.0)))
        bits = math.frexp(largest)[1] + sum(comm.allgather(X.shape[0])).bit_length()
        unit = math.ldexp(1.0, bits - 62)
    sketch = BinningSketch(X.shape[1], max_bins, is_categorical, weight_unit=unit, n_threads=n_threads)
    sketch.add(X, sample_weight)
    return sketch


def _binning_of_ranks(sketch: BinningSketch, comm: Comm) -> Binning:
    """Return the binning of the rows of all ranks; each rank gathers a share of the columns and computes their bins."""
    sketch.keep_as_whole(comm)
    ends = [sketch.n_features * rank // comm.size for rank in range(comm.size + 1)]
    own, *others = comm.alltoall([sketch.of_columns(*bounds) for bounds in pairwise(ends)])
    for part in others:
        own.merge(part)
    found = comm.allgather(own.bins())
    parts: list[Any] = [[one for of_rank in part for one in of_rank] for part in zip(*found, strict=True)]
    return Binning(*parts)
