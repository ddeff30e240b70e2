"""Selection of rows and columns from tables of any kind, and removal of rows with zero weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.engine.parts import FLOATS, MappedRows, RowSource, SelectedRows, parts_of
from fastens.table.arrays import narrow_dtype, with_rows_to_take
from fastens.table.columns.dates import parts_to_learn
from fastens.table.columns.factorize import FOUND, PLAIN, FactorizedColumn, listed_values, ordered_values
from fastens.table.columns.numbers import (
    AnyColumn,
    Floats,
    has_large_integers,
    numbers_of,
    unmasked,
)
from fastens.table.encoder import InputEncoder, Reading
from fastens.table.opening import selectable
from fastens.table.tables import Table, table_from_frame, table_over
from fastens.table.training_data import TrainingData, check_weights


class ExtractedTable(Table):
    """Frame whose columns have already been read, so that selecting rows is cheap.

    Estimators learn the same model from it as from the original frame.
    """

    def __init__(self, columns: list[AnyColumn], names: list[str] | None, array: Floats | None) -> None:
        super().__init__(None, names)
        self.arrays, self.array = columns, array

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        first = self.arrays[0]
        return len(first.codes if isinstance(first, FactorizedColumn) else first), len(self.arrays)

    def is_categorical(self, index: int) -> bool:
        """Return True if the column is categorical."""
        return isinstance(self.arrays[index], FactorizedColumn)

    def take(self, rows: NDArray[np.intp], *, narrows: bool = True) -> ExtractedTable:
        """Return the table with the rows at these indices; arrays are always copied as `narrow_dtype`.

        Narrowing is safe because only fastens reads these tables.
        """
        if self.array is None:
            return ExtractedTable([_take_from_column(column, rows) for column in self.arrays], self.names, None)
        part = np.empty((self.array.shape[1], len(rows)), dtype=narrow_dtype(self.array))
        for column, taken in zip(self.array.T, part, strict=True):  # one by one, so that Ctrl-C is handled promptly
            taken[:] = column[rows]
        return ExtractedTable(list(part), self.names, part.T)

    def select(self, columns: list[int]) -> ExtractedTable:
        """Return the table with the columns at these indices."""
        array = None if self.array is None else self.array[:, columns]
        names = None if self.names is None else [self.names[index] for index in columns]
        return ExtractedTable([self.arrays[index] for index in columns], names, array)


def _take_from_column(column: AnyColumn, rows: NDArray[np.intp]) -> AnyColumn:
    """Return the rows at these indices of a column; NumPy columns are stored as `narrow_dtype`."""
    taken = column.take(rows)
    return taken.astype(narrow_dtype(column), copy=False) if isinstance(column, np.ndarray) else taken


def read_table(frame: Any) -> ExtractedTable | None:
    """Return a frame as an `ExtractedTable`, with all columns converted to numbers or categories.

    Returns None if X is not a frame, or has columns, such as dates or objects, that might be read differently in a
    selection of rows than in the whole frame.
    """
    table = table_over(frame)
    if table.names is None:
        return None
    if isinstance(table.array, np.ndarray):
        return ExtractedTable(list(table.array.T), table.names, table.array)
    try:
        columns = [_read_column(table, index) for index in range(len(table))]
    except ValueError:  # fitting on the frame raises the same error
        return None
    return None if any(column is None for column in columns) else ExtractedTable(columns, table.names, None)


def _read_column(table: Table, index: int) -> AnyColumn | None:
    """Return a column as numbers, or as a FactorizedColumn if it is categorical.

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
    native = table.arrays[index]
    declared = listed_values(getattr(native, "dtype", None))
    if (order := ordered_values(native)) is not None:
        return FactorizedColumn(codes, values, declared=order, is_ordered=True)
    return FactorizedColumn(codes, values, declared=declared)


def _converted_column(table: Table, index: int) -> NDArray[Any]:
    """Return a column of integers, booleans or half-precision floats as a small array: int32 or float32 if exact."""
    native = table.arrays[index]
    if isinstance(native, np.ndarray):
        return native
    dtype = getattr(getattr(native, "dtype", None), "numpy_dtype", None)  # pandas extension arrays
    if dtype is not None and not native.isna().any():
        values = native.to_numpy(dtype)
    elif dtype is None and not table.column(index).null_count():
        values = table.column(index).to_numpy()
    else:
        values = table.numbers(index, slice(None))
        narrow = values.astype(np.float32)
        return narrow if np.array_equal(narrow, values, equal_nan=True) else values
    # A view of the frame's memory costs nothing.
    return values.astype(narrow_dtype(values), copy=False) if values.flags.owndata else values


def with_fixed_dtypes(X: Any) -> Any:
    """Return a table in which any selection of rows is read with the column types of the whole table.

    Object columns of pandas that mix strings with missing values or numbers get a categorical dtype. Otherwise, a
    selection without strings might be read as numbers. The dtype is marked so that a selection does not learn
    categories that occur only in other rows.
    """
    frame = nw.to_native(X, pass_through=True)
    if not nw.dependencies.is_pandas_dataframe(frame):
        return X
    table, fixed = table_from_frame(frame), frame
    for index, column in enumerate(table.arrays):
        if _may_hide_strings(table, index, column):
            fixed = frame.copy(deep=False) if fixed is frame else fixed
            words = frame.iloc[:, index]
            kind = words.astype("category").dtype
            fixed.isetitem(index, words.astype(type(kind)(kind.categories.rename(FOUND))))
    return fixed


def _may_hide_strings(table: Table, index: int, column: Any) -> bool:
    """Return True if a selection of rows of a pandas column might not show that it holds strings."""
    of_categories = "category", "dictionary"  # names in pandas and in Arrow
    if getattr(column.dtype, "kind", "") != "O" or column.dtype.name.startswith(of_categories):
        return False
    if not table.is_categorical(index):
        return False
    types = table.value_types(index)
    is_plain = all(issubclass(kind, PLAIN) for kind in types)  # other types cannot be categories
    return is_plain and (len(types) > 1 or bool(table.column(index).is_null().any()))


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
        """Return the rows at these indices of a part, as the same kind of table."""
        return take_rows(part, rows)


def take_rows(X: Any, rows: NDArray[np.intp], *, narrows: bool = False) -> Any:
    """Return selected rows of a frame, an array, a CSR matrix or a row source, as the same kind of table.

    If `narrows` is True, arrays are copied as `narrow_dtype`. Models of other libraries need the original type, because
    their arithmetic may overflow.
    """
    if isinstance(X, RowSource):
        return X[rows] if X.selects_tables else _SelectedTables(X, rows)
    return table_over(X).take(rows, narrows=narrows)


def take_columns(X: Any, columns: list[int] | None) -> Any:
    """Return the columns of a table at these indices as the same kind of table; None selects all columns.

    Raises ValueError for a BinnedTable.
    """
    if columns is None:
        return X
    if isinstance(X, RowSource):
        X._check_values("models that see some of its columns (max_features of bags, columns of members)")
        selected = MappedRows(X, lambda _, part: take_columns(part, columns), len(columns))
        selected.dtype = X.dtype
        return selected
    return table_over(X).select(columns)


def hstack(values: NDArray[np.float64], names: list[str], X: Any) -> Any:
    """Return a table of the kind of X, or a CSR matrix, with numeric columns inserted before the columns of X.

    `values` has shape (n_rows, n_columns), and `names` holds the column names for frames.
    """
    if isinstance(X, RowSource):
        X._check_values("models that see columns beside those of X (passthrough of stacks, models of local errors)")

        def widen(start: int, part: Any) -> Any:
            return hstack(values[start : start + part.shape[0]], names, part)

        widened = MappedRows(X, widen, values.shape[1] + X.shape[1])
        widened.dtype = None if X.dtype is None else np.result_type(values, X.dtype)
        return widened
    return table_over(X).with_numbers(values, names)


def in_one_array(X: Any) -> Any:
    """Return a table that is read in parts as a single NumPy array, and any other table unchanged."""
    parts = [table_over(part).as_array() for _, part in parts_of(X)] if isinstance(X, RowSource) else []
    return np.concatenate(parts) if parts else X


def as_numbers(X: Any) -> Any:
    """Return a table as encoded floats, in which equal rows are equal; an array of floats is returned unchanged.

    The result is an array or a row source.
    """
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype in FLOATS:
        return X
    return InputEncoder.learn(X, Reading(splits_lists=True), "the estimator")[1]


def drop_zero_weight_rows(X: Any, y: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any, Any]:
    """Return a table, labels and checked weights without the rows of weight 0.

    They are returned unchanged if no weight is 0, or if their numbers of rows differ, which a later check rejects.
    """
    X, weight, rows = _weighted_rows(X, sample_weight, comm)
    labels = None if y is None or weight is None or sparse.issparse(y) else unmasked(y, "y")
    if weight is None or rows is None or labels is None or labels.shape[:1] != weight.shape:
        return X, y, sample_weight
    return rows_of_any(X, rows), labels[rows], weight[rows]


def present_table(X: Any, data: TrainingData) -> tuple[Any, TrainingData]:
    """Return X without the rows of weight 0, by `data.rows`, and the training data with `is_cut` set, which records it.

    Both are returned unchanged if no row is left out, or if the numbers of rows differ, which a later check rejects.
    """
    if data.rows is None:
        return X, data
    X = selectable(X)
    return (rows_of_any(X, data.rows), data._replace(is_cut=True)) if _n_rows(X) == data.n_given else (X, data)


def present_part(X: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any]:
    """Return a table and its weights without the rows of weight 0, for fits without targets; checks the weights."""
    X, weight, rows = _weighted_rows(X, sample_weight, comm)
    return (X, sample_weight) if weight is None or rows is None else (rows_of_any(X, rows), weight[rows])


def _weighted_rows(X: Any, sample_weight: Any, comm: Comm) -> tuple[Any, Any, NDArray[np.intp] | None]:
    """Return a table, its checked weights, and the indices of the rows with a positive weight.

    The weights are None if there are none or X is not a table, and the indices are None if all rows are used.
    """
    X = X if sample_weight is None else selectable(X)
    n_rows = _n_rows(X)
    weight = None if n_rows is None else check_weights(sample_weight, n_rows, comm)
    return X, weight, None if weight is None or weight.all() else np.flatnonzero(weight)


def _n_rows(X: Any) -> int | None:
    """Return the number of rows of a table, or None if the object is not a table."""
    if isinstance(X, list | tuple):
        return len(X)
    shape = getattr(X, "shape", None)
    return shape[0] if isinstance(shape, tuple) and shape else None


def rows_of_any(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return the rows at these indices of a table, a list or a Series, as an object of the same kind."""
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    if nw.dependencies.is_into_series(X):
        return nw.from_native(with_rows_to_take(X), series_only=True)[rows].to_native()
    return X[rows] if isinstance(X, np.ma.MaskedArray) else take_rows(X, rows)
