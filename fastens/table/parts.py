"""Selection of rows and columns from tables of any kind, and removal of rows with zero weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.engine.parts import FLOATS, MappedRows, RowSource, SelectedRows, is_coded, parts_of
from fastens.table.columns.dates import parts_to_learn
from fastens.table.columns.factorize import FOUND, PLAIN, Categories, Factorized, listed_values
from fastens.table.columns.numbers import (
    Column,
    Floats,
    has_large_integers,
    numbers_of,
    plain_column,
    plain_table,
    unmasked,
)
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.opening import in_parts
from fastens.table.sources import Batches
from fastens.table.tables import Table, check_places, is_frame, table_from_frame
from fastens.table.training_data import TrainingData, check_weights

# Values that are copied at a time, which takes a few milliseconds.
_BLOCK = 1 << 20
_WIDE = (nw.Int64, nw.UInt64)


class ReadTable(Table):
    """Frame whose columns have already been read, so that selecting rows is cheap.

    Estimators learn the same model from it as from the original frame.
    """

    def __init__(self, columns: list[Column], names: list[str] | None, array: Floats | None) -> None:
        super().__init__(None, names)
        self.arrays, self.array = columns, array

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def __len__(self) -> int:
        return len(self.arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        first = self.arrays[0]
        return len(first.codes if isinstance(first, Categories) else first), len(self.arrays)

    def is_categorical(self, index: int) -> bool:
        """Return True if the column is categorical."""
        return isinstance(self.arrays[index], Categories)

    def has_codes(self, index: int) -> bool:
        """Return True if a column is stored as codes of categories, or has already been read."""
        return isinstance(self.arrays[index], Categories) or super().has_codes(index)

    def _factorize(self, index: int) -> Factorized:
        found = self.arrays[index]
        if not isinstance(found, Categories):
            return super()._factorize(index)
        return Factorized(found.codes, found.values, may_be_absent=True)

    def take(self, rows: NDArray[np.intp]) -> ReadTable:
        """Return a selection of rows."""
        if self.array is None:
            return ReadTable([_taken_column(column, rows) for column in self.arrays], self.names, None)
        part = np.empty((self.array.shape[1], len(rows)), dtype=narrow_dtype(self.array))
        for column, taken in zip(self.array.T, part, strict=True):  # one by one, so that Ctrl-C is handled promptly
            taken[:] = column[rows]
        return ReadTable(list(part), self.names, part.T)

    def select(self, columns: list[int]) -> ReadTable:
        """Return a selection of columns."""
        array = None if self.array is None else self.array[:, columns]
        names = None if self.names is None else [self.names[index] for index in columns]
        return ReadTable([self.arrays[index] for index in columns], names, array)


def _taken_column(column: Column, rows: NDArray[np.intp]) -> Column:
    found = column.take(rows)
    return found.astype(narrow_dtype(column), copy=False) if isinstance(column, np.ndarray) else found


def narrow_dtype(values: NDArray[Any]) -> np.dtype[Any]:
    """Return int32 for integers of 64 bits that fit it, so that a copy is no larger than one of float32.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.parts import narrow_dtype
    >>> narrow_dtype(np.array([1, 2**31])), narrow_dtype(np.array([1, 2], dtype=np.uint64))
    (dtype('int64'), dtype('int32'))
    """
    narrow, dtype = np.dtype(np.int32), values.dtype
    if dtype.kind not in "iu" or dtype.itemsize <= narrow.itemsize:
        return dtype
    limits = np.iinfo(narrow)
    fits = limits.min <= int(values.min(initial=0)) and int(values.max(initial=0)) <= limits.max
    return narrow if fits else dtype


def read_table(frame: Any) -> ReadTable | None:
    """Read a frame; return None if a selection of its rows might be read differently from the whole frame."""
    table = table_from_frame(frame)
    if isinstance(table.array, np.ndarray):
        return ReadTable(list(table.array.T), table.names, table.array)
    try:
        columns = [_read_column(table, index) for index in range(len(table))]
    except ValueError:  # fitting on the frame raises the same error
        return None
    return None if any(column is None for column in columns) else ReadTable(columns, table.names, None)


def _read_column(table: Table, index: int) -> Column | None:
    """Return a column as numbers or categories.

    Returns None for dates, integers that floats cannot represent, and objects, whose type may depend on the rows.
    """
    if parts_to_learn(table.arrays[index]) or has_large_integers(table.arrays[index]):
        return None
    if table.is_converted(index) and table.is_categorical(index) is False:
        return _converted_column(table, index)
    column = table.column(index)
    if column.dtype in (nw.Object, nw.Unknown) and column.null_count() < len(column):
        return None
    if table.is_categorical(index) is False:
        return numbers_of(column, table.name(index))
    codes, values, _ = table.read(index)
    declared = listed_values(getattr(table.arrays[index], "dtype", None))
    return Categories(codes, values, declared=declared)


def _converted_column(table: Table, index: int) -> NDArray[Any]:
    """Return a column of integers, or of half-precision floats, in no more memory than float32 if that is exact."""
    native = table.arrays[index]
    if isinstance(native, np.ndarray):
        return native
    dtype = getattr(getattr(native, "dtype", None), "numpy_dtype", None)  # of extension arrays of pandas
    if dtype is not None and not native.isna().any():
        found = native.to_numpy(dtype)
    elif dtype is None and not table.column(index).null_count():
        found = table.column(index).to_numpy()
    else:
        found = table.numbers(index, slice(None))
        narrow = found.astype(np.float32)
        return narrow if np.array_equal(narrow, found, equal_nan=True) else found
    # A view of the frame's memory costs nothing.
    return found.astype(narrow_dtype(found), copy=False) if found.flags.owndata else found


def settled(X: Any) -> Any:
    """Return a table of which any selection of rows is read with the same column types as the whole table.

    Object columns of pandas that mix strings with missing values or numbers get a categorical dtype. Otherwise, a
    selection without strings might be read as numbers. The dtype is marked so that a selection does not learn
    categories that occur only in other rows.
    """
    frame = nw.to_native(X, pass_through=True)
    if not nw.dependencies.is_pandas_dataframe(frame):
        return X
    table, found = table_from_frame(frame), frame
    for index, column in enumerate(table.arrays):
        if _may_lack_words(table, index, column):
            found = frame.copy(deep=False) if found is frame else found
            words = frame.iloc[:, index]
            kind = words.astype("category").dtype
            found.isetitem(index, words.astype(type(kind)(kind.categories.rename(FOUND))))
    return found


def _may_lack_words(table: Table, index: int, column: Any) -> bool:
    """Return True if some rows of a pandas column might not show that it holds strings."""
    of_categories = "category", "dictionary"  # names in pandas and in Arrow
    if getattr(column.dtype, "kind", "") != "O" or column.dtype.name.startswith(of_categories):
        return False
    if not table.is_categorical(index):
        return False
    kinds = table.kinds(index)
    is_plain = all(issubclass(kind, PLAIN) for kind in kinds)  # other types cannot be categories
    return is_plain and (len(kinds) > 1 or bool(table.column(index).is_null().any()))


class _SelectedTables(SelectedRows):
    """Selected rows of a source whose parts are tables of any kind."""

    def parts(self) -> Iterator[Any]:
        """Yield the selected rows of each part, or one empty table if no rows are selected."""
        if len(self):
            yield from super().parts()
            return
        for part in self._source.parts():
            yield take_rows(part, self._rows)
            return

    def _take(self, part: Any, rows: NDArray[np.intp]) -> Any:
        return take_rows(part, rows)


def take_rows(X: Any, rows: NDArray[np.intp], *, narrows: bool = False) -> Any:
    """Return selected rows of a frame, an array, a CSR matrix or a row source, as the same kind of table.

    If `narrows` is True, arrays are copied as `narrow_dtype`. Models of other libraries need the original type, because
    their arithmetic may overflow.
    """
    if is_coded(X):
        return X[rows]
    if isinstance(X, RowSource):
        return X[rows] if isinstance(X, Batches) else _SelectedTables(X, rows)
    if isinstance(X, ReadTable):
        return X.take(rows)
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return _rows_of_array(X, rows, narrow_dtype(X) if narrows else X.dtype)
    return _rows_of_frame(X, rows, narrows) if is_frame(X) else X[rows]


def _rows_of_frame(X: Any, rows: NDArray[np.intp], narrows: bool) -> Any:
    """Return selected rows of a frame; narrowing goes column by column."""
    frame = nw.from_native(with_rows_to_take(X), eager_only=True)
    if not narrows or not any(frame[:, place].dtype in _WIDE for place in range(frame.shape[1])):
        return frame[rows].to_native()
    columns = [_narrow_series(frame[:, place], rows) for place in range(frame.shape[1])]
    native = frame.to_native()
    if not nw.dependencies.is_pandas_dataframe(native):
        return nw.from_dict(dict(zip(frame.columns, columns, strict=True)), backend=frame.implementation).to_native()
    arrays = {place: column.to_native().array for place, column in enumerate(columns)}
    # The constructor would otherwise copy all columns once more.
    found = type(native)(arrays, index=native.index[rows], copy=False)
    found.columns = native.columns
    return found


def _narrow_series(column: nw.Series[Any], rows: NDArray[np.intp]) -> nw.Series[Any]:
    if column.dtype not in _WIDE or column.null_count() == len(column):
        return column[rows]
    extremes = np.array([int(column.min()), int(column.max())])
    return column[rows].cast(nw.Int32) if narrow_dtype(extremes) == np.int32 else column[rows]


def with_rows_to_take(X: Any) -> Any:
    """Return a frame or an Arrow column in a form that supports row selection.

    pandas cannot select rows of numbers with non-native byte order. Arrow cannot select rows of string views, which
    polars exports, or of run-end encoded columns.
    """
    found = nw.to_native(X, pass_through=True)
    if nw.dependencies.is_pandas_dataframe(found):
        return _in_native_order(found)
    if nw.dependencies.is_pyarrow_table(found):
        return plain_table(found)
    return plain_column(found) if nw.dependencies.is_pyarrow_chunked_array(found) else X


def _in_native_order(frame: Any) -> Any:
    found = frame
    for index, dtype in enumerate(frame.dtypes):
        if isinstance(dtype, np.dtype) and not dtype.isnative:
            found = frame.copy(deep=False) if found is frame else found
            found.isetitem(index, frame.iloc[:, index].to_numpy().astype(dtype.newbyteorder("=")))
    return found


def _rows_of_array(X: NDArray[Any], rows: NDArray[np.intp], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return selected rows in C order, copied block by block so that Ctrl-C is handled promptly."""
    out = np.empty((len(rows), X.shape[1]), dtype=dtype)
    for block in row_blocks(*out.shape):
        out[block] = X[rows[block]]
    return out


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return slices of rows that are copied at a time."""
    step = max(1, _BLOCK // max(1, n_columns))
    return (slice(start, start + step) for start in range(0, n_rows, step))


def take_columns(X: Any, columns: list[int] | None) -> Any:
    """Return columns by their positions, as the same kind of table; None selects all columns."""
    if columns is None:
        return X
    if is_coded(X):
        raise ValueError(
            "X must be the table itself, not a BinnedTable, for models that see some of its columns (max_features of "
            "bags, columns of members)."
        )
    if isinstance(X, ReadTable):
        return X.select(columns)
    if isinstance(X, RowSource):
        selected = MappedRows(X, lambda _, part: take_columns(part, columns), len(columns))
        selected.dtype = X.dtype
        return selected
    return nw.from_native(X, eager_only=True)[:, columns].to_native() if is_frame(X) else X[:, columns]


def free_names(names: Iterable[str], taken: Iterable[Any] = ()) -> list[str]:
    """Return the names, with "_" appended to names that are taken or repeated.

    Examples
    --------
    >>> from fastens.table.parts import free_names
    >>> free_names(["age", "size", "size"], taken=["age"])
    ['age_', 'size', 'size_']
    """
    known, found = set(taken), []
    for name in names:
        free = name
        while free in known:
            free += "_"
        known.add(free)
        found.append(free)
    return found


def beside(values: NDArray[np.float64], names: list[str], X: Any) -> Any:
    """Return a table of the same kind, or a CSR matrix, with numeric columns inserted before its columns."""
    if is_coded(X):
        raise ValueError(
            "X must be the table itself, not a BinnedTable, for models that see columns beside those of X (passthrough "
            "of stacks, models of local errors)."
        )
    if isinstance(X, RowSource):

        def widen(start: int, part: Any) -> Any:
            return beside(values[start : start + part.shape[0]], names, part)

        widened = MappedRows(X, widen, values.shape[1] + X.shape[1])
        widened.dtype = None if X.dtype is None else np.result_type(values, X.dtype)
        return widened
    if is_frame(X):
        frame = nw.from_native(X, eager_only=True)
        if not all(isinstance(name, str) for name in frame.columns):  # only pandas allows other types of names
            # All names must have one type, because other libraries reject a mixture.
            frame = nw.from_native(frame.to_native().set_axis(map(str, frame.columns), axis=1), eager_only=True)
        names = free_names(names, frame.columns)
        series = [
            nw.new_series(name, np.ascontiguousarray(column), backend=frame.implementation)
            for name, column in zip(names, values.T, strict=True)
        ]
        return frame.with_columns(*series).select([*names, *frame.columns]).to_native()
    if sparse.issparse(X):
        return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(values), X]))
    out = np.empty((len(X), values.shape[1] + X.shape[1]), np.result_type(values, X))
    for rows in row_blocks(*out.shape):
        out[rows] = np.hstack([values[rows], X[rows]])
    return out


def in_one(X: Any) -> Any:
    """Return a table that is read in parts as one array, and any other table unchanged."""
    return np.concatenate([_array_of(part) for _, part in parts_of(X)]) if isinstance(X, RowSource) else X


def _array_of(part: Any) -> NDArray[Any]:
    """Return a frame as an array, with dtype object unless it holds only numbers; return an array unchanged."""
    if not is_frame(part):
        return np.asarray(part)
    columns = list(nw.from_native(part, eager_only=True).iter_columns())
    is_time = [column.to_numpy().dtype.kind in "mM" for column in columns]  # NumPy casts times to integer objects
    pairs = zip(columns, is_time, strict=True)
    return np.column_stack([np.array(own.to_list(), object) if time else own.to_numpy() for own, time in pairs])


def as_numbers(X: Any) -> Any:
    """Return a table as numbers for comparing rows."""
    if not is_frame(X) and X.dtype is not None and X.dtype in FLOATS:  # None would be equal to float64
        return X
    return InputEncoder.learn(X, Reading(), "the estimator")[1]


def drop_zero_weight_rows(X: Any, y: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any, Any]:
    """Return a table, labels and weights without the rows of weight 0.

    They are returned unchanged if no weight is 0, or if their numbers of rows differ, which a later check rejects.
    """
    X = X if sample_weight is None else _known(X)
    n_rows = _n_rows(X)
    if sample_weight is None or y is None or sparse.issparse(y) or n_rows is None:
        return X, y, sample_weight
    weight, labels = check_weights(sample_weight, n_rows, comm), unmasked(y, "y")
    if weight is None or weight.all() or labels.shape[:1] != weight.shape:
        return X, y, sample_weight
    rows = np.flatnonzero(weight)
    return _taken(X, rows), labels[rows], weight[rows]


def present_table(X: Any, data: TrainingData) -> tuple[Any, TrainingData]:
    """Return an unread table without the rows of weight 0, and the training data marked accordingly.

    Both are returned unchanged if no row is left out, or if the numbers of rows differ, which a later check rejects.
    """
    if data.rows is None:
        return X, data
    X = _known(X)
    return (_taken(X, data.rows), data._replace(is_cut=True)) if _n_rows(X) == data.n_given else (X, data)


def present_part(X: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any]:
    """Return a table and weights without the rows of weight 0, for fits without targets."""
    X = X if sample_weight is None else _known(X)
    n_rows = _n_rows(X)
    weight = None if n_rows is None else check_weights(sample_weight, n_rows, comm)
    if weight is None or weight.all():
        return X, sample_weight
    rows = np.flatnonzero(weight)
    return _taken(X, rows), weight[rows]


def _known(X: Any) -> Any:
    """Return a table as a kind that supports row selection; other objects are returned unchanged."""
    X = in_parts(X)
    check_places(X)
    is_known = isinstance(X, list | tuple | np.ndarray | RowSource) or sparse.issparse(X) or is_frame(X)
    if is_known or nw.dependencies.is_into_series(X):
        return X
    array = np.asarray(X)
    return array if array.ndim else X


def _n_rows(X: Any) -> int | None:
    """Return the number of rows of a table, or None if the object is not a table."""
    if isinstance(X, list | tuple):
        return len(X)
    shape = getattr(X, "shape", None)
    return shape[0] if isinstance(shape, tuple) and shape else None


def _taken(X: Any, rows: NDArray[np.intp]) -> Any:
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    if nw.dependencies.is_into_series(X):
        return nw.from_native(with_rows_to_take(X), series_only=True)[rows].to_native()
    if not sparse.issparse(X):
        return X[rows] if isinstance(X, np.ma.MaskedArray) else take_rows(X, rows)
    taken = X.tocsr()[rows]
    if (limits := getattr(X, "limits", None)) is not None:
        taken.limits = limits
    return taken
