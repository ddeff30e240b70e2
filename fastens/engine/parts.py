"""Row sources: the common interface of all kinds of tables behind the input encoder.

A row source has `shape` and `dtype`, supports row selection with ascending indices (``X[rows]``), and can be read in
parts with `parts_of` any number of times. Float arrays and CSR matrices already are row sources. All others derive
from `RowSource` and are never held as one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

# Dtypes that kernels read; other numeric dtypes are converted.
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
MAX_FLOAT32_INTEGER = 1 << 24  # all integers up to here are exact in float32
# Number of values of a sparse table that are converted to dense at a time.
_BLOCK = 1 << 20
# Number of values that `ConvertedRows` converts at a time, 1 MB in float64. Smaller tables are converted at once.
CONVERTED_BLOCK = 1 << 17


class RowSource:
    """A table whose rows are read in parts.

    Attributes
    ----------
    shape : tuple of int
        Number of rows and columns.
    dtype : dtype or None
        Dtype of the parts. If None, the parts are tables of any kind that only the input encoder can read.
    allocator : ArrayAllocator or None
        Storage for the bin codes (see `fastens.engine.bins.binned`). If None, they are stored in memory.
    limits : MemoryLimits or None
        Memory limits of a fit.
    kind : {"files", "frame", "array"}
        Kind of the parts: Arrow batches, slices of a dataframe, or slices of an array.
    value_bytes : int
        Bytes per value as a float, as far as this is known before the values are read.
    selects_tables : bool
        True if ``X[rows]`` can select rows of parts that are tables.
    encoder : InputEncoder
        The encoder of a table of bin codes.
    is_coded : bool
        True if the parts contain bin codes instead of values; see `fastens.table.binned_table`.
    stays : bool
        True if the parts are arrays that stay in memory as long as the source.
    """

    shape: tuple[int, int]
    dtype: np.dtype | None = np.dtype(np.float64)
    ndim = 2
    allocator: Any = None
    limits: Any = None
    kind: str = "frame"
    value_bytes: int = 8
    selects_tables: bool = False
    encoder: Any
    is_coded: bool = False
    stays: bool = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Raise ValueError: other libraries would read the whole table into memory."""
        raise ValueError(
            "X must be a table in memory for models of other libraries; got one that is read in batches. Pass "
            "the table itself instead of a TableSource."
        )

    def _like(self, source: Any) -> None:
        """Copy the allocator, memory limits, kind of parts and bytes per value from `source`, if it has them."""
        for name in ("allocator", "limits", "kind", "value_bytes"):
            setattr(self, name, getattr(source, name, getattr(self, name)))

    def parts(self) -> Iterator[Any]:
        """Yield consecutive blocks of rows of any size, as arrays or tables; every call yields the same blocks."""
        raise NotImplementedError

    def has_codes_of(self, binning: Any) -> bool:
        """Return True if the table stores bin codes of `binning`, so that its rows need not be binned.

        Raises ValueError if the table stores codes of another binning and no values.
        """
        return False

    def learned(self, max_bins: int | NDArray[Any]) -> Any:
        """Return the binning of stored bin codes, or None for values; raise ValueError if it has other `max_bins`."""
        return None

    def hashes(self) -> Any:
        """Return the hash of each row's values, shape (n_rows,), if hashes are stored, or None."""
        return None

    def _check_values(self, what: str) -> None:
        """Raise ValueError if the rows are bin codes; `what`, in the message, describes the models that need values."""

    def values(self) -> NDArray[np.floating]:
        """Return all rows as one array."""
        return _joined_parts(self)

    def release(self, n_passes: int) -> None:
        """Announce that the rows will be read `n_passes` more times; the last pass frees rows after reading them.

        Only rows whose memory nothing else refers to are freed.
        """

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> RowSource:
        """Return a subset of the rows, selected by ascending indices, a mask or a slice."""
        if isinstance(rows, slice) or np.asarray(rows).dtype.kind == "b":
            rows = np.arange(len(self))[rows]
        return SelectedRows(self, np.asarray(rows, dtype=np.intp))


class SelectedRows(RowSource):
    """A subset of the rows of a source, in their original order."""

    def __init__(self, source: RowSource, rows: NDArray[np.intp]) -> None:
        if len(rows) and (np.diff(rows) < 0).any():
            raise ValueError("rows of a table that is read in batches must be selected in ascending order.")
        self._source, self._rows = source, rows
        self.shape, self.dtype = (len(rows), source.shape[1]), source.dtype
        self._like(source)

    def parts(self) -> Iterator[Any]:
        """Yield the selected rows of each part."""
        for start, part in parts_of(self._source):
            first, last = np.searchsorted(self._rows, [start, start + part.shape[0]])
            if first < last:
                yield self._take(part, self._rows[first:last] - start)

    def _take(self, part: Any, rows: NDArray[np.intp]) -> Any:
        """Return the rows of a part with these indices, which are relative to the part."""
        return part[rows]

    def release(self, n_passes: int) -> None:
        """Announce `n_passes` more passes; the last one frees all rows of the source, selected or not."""
        self._source.release(n_passes)


class MappedRows(RowSource):
    """The rows of a source, transformed by a function of each part and the index of its first row.

    The function may return any row source for a part, which is then read in parts itself.
    """

    def __init__(self, source: Any, function: Callable[[int, Any], Any], n_columns: int) -> None:
        self._source, self._function = source, function
        self.shape = (source.shape[0], n_columns)
        self._like(source)

    def parts(self) -> Iterator[NDArray[np.floating]]:
        """Yield the function's result for each part; results that are row sources or sparse are yielded in parts."""
        for start, part in parts_of(self._source):
            transformed = self._function(start, part)
            is_read = isinstance(transformed, RowSource) or scipy.sparse.issparse(transformed)
            yield from (block for _, block in parts_of(transformed)) if is_read else (transformed,)

    def release(self, n_passes: int) -> None:
        """Announce `n_passes` more passes; the last one frees rows of the source after reading them."""
        release(self._source, n_passes)


class ConvertedRows(RowSource):
    """In-memory rows whose values are converted to floats block by block, so that no copy of the table is held.

    Rows may be selected in any order and more than once.

    Parameters
    ----------
    read : callable
        Function that returns a float array of the rows and columns selected by two slices or index arrays.
    shape : tuple of int
        Number of rows and columns.
    rows : int array, optional
        Indices of the rows to select from `read`. By default, all rows are selected.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.parts import ConvertedRows, parts_of
    >>> rows = ConvertedRows.of_array(np.array([[1, 2], [3, 4]], dtype=np.int8))
    >>> [part.tolist() for _, part in parts_of(rows[[1, 0]])]
    [[[3.0, 4.0], [1.0, 2.0]]]
    """

    kind = "array"

    def __init__(
        self,
        read: Callable[[Any, Any], NDArray[np.floating]],
        shape: tuple[int, int],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        self._read, self._rows = read, rows
        self.shape = (shape[0] if rows is None else len(rows), shape[1])

    @classmethod
    def of_array(cls, array: NDArray[Any]) -> ConvertedRows:
        """Create a source of the rows of a numeric array of any dtype."""
        return cls(lambda rows, columns: array[:, columns][rows].astype(np.float64), array.shape)

    def parts(self) -> Iterator[NDArray[np.floating]]:
        """Yield blocks of rows as floats."""
        for _, block in self.blocks(max(1, CONVERTED_BLOCK // max(1, self.shape[1]))):
            yield block

    def blocks(self, n_rows: int) -> Iterator[tuple[int, NDArray[np.floating]]]:
        """Yield blocks of `n_rows` rows, each with the index of its first row."""
        for start in range(0, len(self), n_rows):
            yield start, self._read(self._source_rows(slice(start, min(start + n_rows, len(self)))), slice(None))

    def whole(self) -> NDArray[np.floating]:
        """Return all rows as one array, in float32 if the conversion is lossless."""
        out = np.empty(self.shape, np.float32)
        start = 0
        for part in self.parts():
            with np.errstate(over="ignore"):
                out[start : start + len(part)] = part
            if out.dtype == np.float32 and not np.array_equal(out[start : start + len(part)], part, equal_nan=True):
                out = out.astype(np.float64)
                out[start : start + len(part)] = part
            start += len(part)
        return out

    def values(self) -> NDArray[np.floating]:
        """Return all rows as one array."""
        return self.whole()

    def columns(self, indices: Any) -> NDArray[np.floating]:
        """Return the columns with these indices as an array of shape (n_columns, n_rows)."""
        return self._read(self._source_rows(slice(0, len(self))), indices).T

    def __getitem__(self, rows: Any) -> ConvertedRows:
        """Return a subset of the rows, selected by indices, a mask or a slice."""
        if isinstance(rows, slice) or np.asarray(rows).dtype.kind == "b":
            rows = np.arange(len(self))[rows]
        selected = ConvertedRows(self._read, self.shape, self._source_rows(np.asarray(rows, dtype=np.intp)))
        selected._like(self)
        return selected

    def _source_rows(self, rows: Any) -> Any:
        """Return row indices, or a slice, of this source as indices into the underlying table, for `read`."""
        return rows if self._rows is None else self._rows[rows]


def in_blocks(rows: ConvertedRows) -> Any:
    """Return a table of up to CONVERTED_BLOCK values as one float array; larger tables are returned unchanged."""
    return rows if rows.shape[0] * rows.shape[1] > CONVERTED_BLOCK else in_memory(rows)


def parts_of(X: Any) -> Iterator[tuple[int, Any]]:
    """Yield the parts of a row source, each with the index of its first row; an array is one part."""
    if isinstance(X, np.ndarray):
        if len(X):
            yield 0, X
        return
    start = 0
    for part in X.parts() if isinstance(X, RowSource) else _dense_parts(X.tocsr()):
        if start + part.shape[0] > X.shape[0]:
            raise ValueError(f"X must yield the same rows in every pass; it yielded more than {X.shape[0]}.")
        yield start, part
        start += part.shape[0]
    if start != X.shape[0]:
        raise ValueError(f"X must yield the same rows in every pass; it yielded {start} of {X.shape[0]}.")


def origin(X: Any) -> Any:
    """Return the source that selections and transformations of rows start from; other tables are returned unchanged."""
    return origin(X._source) if isinstance(X, SelectedRows | MappedRows) else X


def release(X: Any, n_passes: int = 1) -> None:
    """Announce that X will be read `n_passes` more times; in the last one, a row source frees rows as they are read."""
    if isinstance(X, RowSource):
        X.release(n_passes)


def _dense_parts(X: scipy.sparse.csr_matrix) -> Iterator[np.ndarray]:
    """Yield dense float blocks of a CSR matrix."""
    is_float = X.dtype in FLOATS
    step = max(1, (_BLOCK if is_float else CONVERTED_BLOCK) // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        yield _as_array(X[start : start + step])


def _as_array(rows: Any) -> NDArray[np.floating]:
    """Return rows of a float array or a CSR matrix as a dense float array."""
    if isinstance(rows, np.ndarray):
        return as_floats(rows)
    return type(rows)((as_floats(rows.data), rows.indices, rows.indptr), shape=rows.shape).toarray()


def as_floats(values: NDArray[Any]) -> NDArray[np.floating]:
    """Convert numbers of any dtype to floats, to float32 if the conversion is lossless."""
    if values.dtype in FLOATS:
        return values
    is_exact = np.can_cast(values.dtype, np.float32)
    if not is_exact and values.dtype.kind in "iu":
        is_exact = values.min(initial=0) >= -MAX_FLOAT32_INTEGER and values.max(initial=0) <= MAX_FLOAT32_INTEGER
    return values.astype(np.float32 if is_exact else np.float64)


def is_coded(X: Any) -> bool:
    """Return True if a row source contains bin codes instead of values."""
    return getattr(X, "is_coded", False) is True


def with_codes_of(X: Any, binning: Any) -> Any:
    """Return X if it holds the bin codes of this binning, or None if its rows have to be binned."""
    return X if isinstance(X, RowSource) and X.has_codes_of(binning) else None


def stored_binning(X: Any, max_bins: int | NDArray[Any]) -> Any:
    """Return the binning of X if it stores bin codes, otherwise None; raise ValueError if it has other `max_bins`."""
    return X.learned(max_bins) if isinstance(X, RowSource) else None


def with_limits(rows: Any, X: Any) -> Any:
    """Set the memory limits of `rows` to the limits of the table X, if it has any, and return `rows`."""
    if (limits := getattr(X, "limits", None)) is not None:
        rows.limits = limits
    return rows


def own_parts(X: Any) -> Iterator[tuple[int, Any]]:
    """Yield the parts of a row source, each with the index of its first row; a sparse matrix is one sparse part."""
    return iter([(0, X)]) if stored_values(X) is not None else parts_of(X)


def holds_dense_values(X: Any) -> bool:
    """Return True if all values of a row source can be read as a dense array, rather than as codes or stored values."""
    return stored_values(X) is None and not is_coded(X)


def stored_values(X: Any) -> int | None:
    """Return the number of stored values of a sparse matrix; None for tables of other kinds, which store all values."""
    return X.nnz if scipy.sparse.issparse(X) else None


def map_parts(function: Callable[[Any], np.ndarray], X: Any, *, is_dense: bool = True) -> np.ndarray:
    """Apply a function to each part of a row source and concatenate the results; arrays are passed in one call.

    If `is_dense` is False, a sparse matrix is passed in one call as well, with floats as values.
    """
    if isinstance(X, np.ndarray):
        return function(X)
    if not is_dense and stored_values(X) is not None:
        return function(type(X)((as_floats(X.data), X.indices, X.indptr), shape=X.shape))
    return np.concatenate([function(part) for _, part in parts_of(X)] or [function(np.empty(X.shape))])


def dense_blocks(X: Any, block_rows: int = 4096) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield dense blocks of `block_rows` rows, each with the index of its first row; the last may be shorter."""
    if isinstance(X, RowSource):
        yield from X.blocks(block_rows) if isinstance(X, ConvertedRows) else _regrouped(X, block_rows)
        return
    for first in range(0, X.shape[0], block_rows):
        yield first, _as_array(X[first : first + block_rows])


def _regrouped(X: RowSource, block_rows: int) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Yield blocks of equal size from a row source whose parts have any size."""
    first, rest = 0, None
    for _, part in parts_of(X):
        rows = part if rest is None else np.concatenate([rest, part])
        n_whole = len(rows) // block_rows * block_rows
        for start in range(0, n_whole, block_rows):
            yield first + start, rows[start : start + block_rows]
        first, rest = first + n_whole, rows[n_whole:].copy()
    if rest is not None and len(rest):
        yield first, rest


def column_of(X: Any, index: int) -> NDArray[np.floating]:
    """Return column `index` of a row source as a contiguous array, shape (n_rows,)."""
    return np.ascontiguousarray(map_parts(lambda part: part[:, index], X))


def with_column(X: Any, index: int, values: NDArray[np.floating]) -> RowSource:
    """Return a row source in which column `index` is replaced by `values`, shape (n_rows,)."""

    def change(start: int, part: NDArray[np.floating]) -> NDArray[np.floating]:
        changed = part.copy()
        changed[:, index] = values[start : start + len(part)]
        return changed

    return MappedRows(X, change, X.shape[1])


def as_array(X: Any) -> NDArray[np.floating]:
    """Return all rows of a row source, array or sparse matrix as one dense float array, for random access."""
    return X.values() if isinstance(X, RowSource) else X if isinstance(X, np.ndarray) else _joined_parts(X)


def _joined_parts(X: Any) -> NDArray[np.floating]:
    """Return the concatenated dense parts of a row source or sparse matrix, shape (n_rows, n_columns)."""
    return np.concatenate([part for _, part in parts_of(X)] or [np.empty(X.shape)])


def in_memory(X: Any) -> Any:
    """Return a row source as the array or CSR matrix that estimators of other libraries expect."""
    if isinstance(X, ConvertedRows):
        return X.columns(slice(None)).T  # float64, because the results of other libraries may depend on the dtype
    return as_array(X) if isinstance(X, RowSource) else X
