"""Row sources: what is behind the input encoder, whichever kind of table came in.

A row source has `shape` and `dtype`, gives some of its rows for ascending row numbers (``X[rows]``), and is read in
parts with `parts_of`, any number of times. Float arrays and CSR matrices are row sources as they are; others derive
from `RowSource` and never become one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

# What kernels read; other types of numbers are converted to float64.
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
MAX_FLOAT32_INTEGER = 1 << 24  # all integers up to here are exact in float32
# Values of a sparse table that are made dense at a time.
_BLOCK = 1 << 20
# Values that `ConvertedRows` converts at a time, 1 MB as floats. Smaller tables are converted as a whole.
CONVERTED_BLOCK = 1 << 17


class RowSource:
    """Rows that are read in parts.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    dtype : dtype or None
        Of the parts; None where they are tables of any kind, which only the input encoder reads.
    place : Place or None
        Where their codes go (see `fastens.engine.bins.binned`); None for memory.
    limits : MemoryLimits or None
        How much memory a fit may take.
    kind : {"files", "frame", "array"}
        What the parts are made of: batches of Arrow, parts of a frame, or of an array.
    value_bytes : int
        Bytes of a value as a float, as far as that is known before it is read.
    is_coded : bool
        Whether there are codes in the place of values: see `fastens.table.binned_table`.
    stays : bool
        Whether the parts are arrays that are held while the source is.
    """

    shape: tuple[int, int]
    dtype: np.dtype | None = np.dtype(np.float64)
    ndim = 2
    place: Any = None
    limits: Any = None
    kind: str = "frame"
    value_bytes: int = 8
    is_coded: bool = False
    stays: bool = False

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Not given: other libraries, which read tables whole, get an error that says so."""
        raise ValueError(
            "X must be a table in memory for models of other libraries; got one that is read in parts. Give the table "
            "itself, not a Source of it."
        )

    def _like(self, source: Any) -> None:
        """Take over what is known of another table that this one is made of."""
        for name in ("place", "limits", "kind", "value_bytes"):
            setattr(self, name, getattr(source, name, getattr(self, name)))

    def parts(self) -> Iterator[Any]:
        """Yield the rows part by part, the same at every call."""
        raise NotImplementedError

    def let_go(self, n_passes: int) -> None:
        """See the function of this name."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> RowSource:
        """Return some of the rows: ascending row numbers, a mask or a slice."""
        if isinstance(rows, slice) or np.asarray(rows).dtype.kind == "b":
            rows = np.arange(len(self))[rows]
        return SelectedRows(self, np.asarray(rows, dtype=np.intp))


class SelectedRows(RowSource):
    """Some of the rows of a source, in their order there."""

    def __init__(self, source: RowSource, rows: NDArray[np.intp]) -> None:
        if len(rows) and (np.diff(rows) < 0).any():
            raise ValueError("rows of a table that is read in parts must be taken in ascending order.")
        self._source, self._rows = source, rows
        self.shape, self.dtype = (len(rows), source.shape[1]), source.dtype
        self._like(source)

    def parts(self) -> Iterator[Any]:
        """Yield what is left of each part."""
        for start, part in parts_of(self._source):
            first, last = np.searchsorted(self._rows, [start, start + part.shape[0]])
            if first < last:
                yield self._take(part, self._rows[first:last] - start)

    def _take(self, part: Any, rows: NDArray[np.intp]) -> Any:
        return part[rows]

    def let_go(self, n_passes: int) -> None:
        """Drop the rows of the source, the others among them."""
        self._source.let_go(n_passes)


class MappedRows(RowSource):
    """The rows of a source after a function of its parts, and of the number of their first row."""

    def __init__(self, source: Any, function: Callable[[int, Any], NDArray[np.floating]], n_columns: int) -> None:
        self._source, self._function = source, function
        self.shape = (source.shape[0], n_columns)
        self._like(source)

    def parts(self) -> Iterator[NDArray[np.floating]]:
        """Yield the function of each part."""
        for start, part in parts_of(self._source):
            yield self._function(start, part)

    def let_go(self, n_passes: int) -> None:
        """Drop the rows of the source."""
        let_go(self._source, n_passes)


class ConvertedRows(RowSource):
    """Rows in memory whose values are converted to floats block by block, so that no copy of the table is held.

    Rows may be taken in any order and more than once.

    Parameters
    ----------
    read : callable
        Returns a float array of some rows and columns, each given by a slice or an array of positions.
    shape : tuple of int
        Rows and columns.
    rows : int array, optional
        The rows of `read` that these are; by default all of them.

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
        """Return the rows of an array of numbers of any type."""
        return cls(lambda rows, columns: array[:, columns][rows].astype(np.float64), array.shape)

    def parts(self) -> Iterator[NDArray[np.floating]]:
        """Yield blocks of rows as floats."""
        for _, block in self.blocks(max(1, CONVERTED_BLOCK // max(1, self.shape[1]))):
            yield block

    def blocks(self, n_rows: int) -> Iterator[tuple[int, NDArray[np.floating]]]:
        """Yield blocks of as many rows, each with the number of its first row."""
        for start in range(0, len(self), n_rows):
            yield start, self._read(self._places(slice(start, min(start + n_rows, len(self)))), slice(None))

    def whole(self) -> NDArray[np.floating]:
        """Return all rows as one array, float32 where that loses nothing."""
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

    def columns(self, chosen: Any) -> NDArray[np.floating]:
        """Return some columns as an array of shape (n_columns, n_rows)."""
        return self._read(self._places(slice(0, len(self))), chosen).T

    def __getitem__(self, rows: Any) -> ConvertedRows:
        """Return some of the rows: row numbers, a mask or a slice."""
        if isinstance(rows, slice) or np.asarray(rows).dtype.kind == "b":
            rows = np.arange(len(self))[rows]
        found = ConvertedRows(self._read, self.shape, self._places(np.asarray(rows, dtype=np.intp)))
        found._like(self)
        return found

    def _places(self, rows: Any) -> Any:
        return rows if self._rows is None else self._rows[rows]


def in_blocks(rows: ConvertedRows) -> Any:
    """Return rows that are converted block by block, a small table as one array."""
    return rows if rows.shape[0] * rows.shape[1] > CONVERTED_BLOCK else in_memory(rows)


def parts_of(X: Any) -> Iterator[tuple[int, Any]]:
    """Yield the parts of a row source, each with the number of its first row; an array is one part."""
    if isinstance(X, np.ndarray):
        if len(X):
            yield 0, X
        return
    start = 0
    for part in X.parts() if isinstance(X, RowSource) else _dense_parts(X.tocsr()):
        if start + part.shape[0] > X.shape[0]:
            raise ValueError(f"X must give the same rows at every pass; it gave more than {X.shape[0]}.")
        yield start, part
        start += part.shape[0]
    if start != X.shape[0]:
        raise ValueError(f"X must give the same rows at every pass; it gave {start} of {X.shape[0]}.")


def origin(X: Any) -> Any:
    """Return the source whose rows a row source selects or maps; any other is its own."""
    return origin(X._source) if isinstance(X, SelectedRows | MappedRows) else X


def let_go(X: Any, n_passes: int = 1) -> None:
    """Drop rows that a row source alone holds, as they are read in the last of so many passes."""
    if isinstance(X, RowSource):
        X.let_go(n_passes)


def _dense_parts(X: scipy.sparse.csr_matrix) -> Iterator[np.ndarray]:
    is_float = X.dtype in FLOATS
    step = max(1, (_BLOCK if is_float else CONVERTED_BLOCK) // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        yield _as_array(X[start : start + step])


def _as_array(rows: Any) -> NDArray[np.floating]:
    """Return some rows of an array or a CSR matrix as an array of floats."""
    if isinstance(rows, np.ndarray):
        return as_floats(rows)
    return type(rows)((as_floats(rows.data), rows.indices, rows.indptr), shape=rows.shape).toarray()


def as_floats(values: NDArray[Any]) -> NDArray[np.floating]:
    """Return numbers of any type as floats, float32 if that loses nothing."""
    if values.dtype in FLOATS:
        return values
    is_exact = np.can_cast(values.dtype, np.float32)
    if not is_exact and values.dtype.kind in "iu":
        is_exact = values.min(initial=0) >= -MAX_FLOAT32_INTEGER and values.max(initial=0) <= MAX_FLOAT32_INTEGER
    return values.astype(np.float32 if is_exact else np.float64)


def is_coded(X: Any) -> bool:
    """Whether a row source has codes in the place of values."""
    return isinstance(X, RowSource) and X.is_coded


def map_parts(function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """Return a function of the rows, called with one part after the other; of an array it is called once."""
    if isinstance(X, np.ndarray):
        return function(X)
    return np.concatenate([function(part) for _, part in parts_of(X)] or [function(np.empty(X.shape))])


def dense_blocks(X: Any, block_rows: int = 4096) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Blocks of as many rows of a table as arrays, each with the number of its first row; the last may have fewer."""
    if isinstance(X, RowSource):
        yield from X.blocks(block_rows) if isinstance(X, ConvertedRows) else _regrouped(X, block_rows)
        return
    for first in range(0, X.shape[0], block_rows):
        yield first, _as_array(X[first : first + block_rows])


def _regrouped(X: RowSource, block_rows: int) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """The same blocks of rows that are read in parts of any size."""
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
    """Return one column of a row source, in C order."""
    return np.ascontiguousarray(map_parts(lambda part: part[:, index], X))


def with_column(X: Any, index: int, values: NDArray[np.floating]) -> RowSource:
    """Return a row source with other values in one column."""

    def change(start: int, part: NDArray[np.floating]) -> NDArray[np.floating]:
        changed = part.copy()
        changed[:, index] = values[start : start + len(part)]
        return changed

    return MappedRows(X, change, X.shape[1])


def as_array(X: Any) -> NDArray[np.floating]:
    """Return all rows as one array: linear leaves read rows in any order."""
    if is_coded(X):
        return X.values()
    if isinstance(X, ConvertedRows):
        return X.whole()
    return X if isinstance(X, np.ndarray) else np.concatenate([part for _, part in parts_of(X)] or [np.empty(X.shape)])


def in_memory(X: Any) -> Any:
    """Return a row source as estimators of other libraries take it: an array, or a CSR matrix."""
    if isinstance(X, ConvertedRows):
        return X.columns(slice(None)).T  # float64: their results may depend on the type
    return as_array(X) if isinstance(X, RowSource) else X
