"""Row sources made of parts of tables, without rows of zero weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.engine.parts import MappedRows, RowSource, SelectedRows, is_coded, parts_of
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
from fastens.table.tables import Table, check_places, is_converted, is_frame, table_from_frame
from fastens.table.training_data import TrainingData, check_weights

# Values that are copied at a time, in some milliseconds.
_BLOCK = 1 << 20


class ReadTable(Table):
    """A frame whose columns have been read, so that parts of it cost little.

    An estimator learns the same from it as from the frame. Parts of its rows have the columns in the order of `fit`.
    """

    def __init__(self, columns: list[Column], names: list[str] | None, array: Floats | None) -> None:
        super().__init__(None, names)
        self.arrays, self.array = columns, array

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.shape[0]

    def __len__(self) -> int:
        return len(self.arrays)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        first = self.arrays[0]
        return len(first.codes if isinstance(first, Categories) else first), len(self.arrays)

    def is_categorical(self, index: int) -> bool:
        """Whether the column is categorical by its type."""
        return isinstance(self.arrays[index], Categories)

    def has_codes(self, index: int) -> bool:
        """Whether a column is codes of categories, or has been read."""
        return isinstance(self.arrays[index], Categories) or super().has_codes(index)

    def _factorize(self, index: int) -> Factorized:
        found = self.arrays[index]
        if not isinstance(found, Categories):
            return super()._factorize(index)
        return Factorized(found.codes, found.values, may_be_absent=True)

    def take(self, rows: NDArray[np.intp]) -> ReadTable:
        """Some of the rows."""
        if self.array is None:
            return ReadTable([column.take(rows) for column in self.arrays], self.names, None)
        part = np.empty((self.array.shape[1], len(rows)), dtype=self.array.dtype)
        for column, taken in zip(self.array.T, part, strict=True):  # one by one, so that Ctrl-C is seen between them
            taken[:] = column[rows]
        return ReadTable(list(part), self.names, part.T)

    def select(self, columns: list[int]) -> ReadTable:
        """Some of the columns."""
        array = None if self.array is None else self.array[:, columns]
        names = None if self.names is None else [self.names[index] for index in columns]
        return ReadTable([self.arrays[index] for index in columns], names, array)


def read_table(frame: Any) -> ReadTable | None:
    """Read a frame; None where a part of its rows may be read differently from the whole."""
    table = table_from_frame(frame)
    if isinstance(table.array, np.ndarray):
        return ReadTable(list(table.array.T), table.names, table.array)
    try:
        columns = [_read_column(table, index) for index in range(len(table))]
    except ValueError:  # fitting on the frame raises the same error
        return None
    return None if any(column is None for column in columns) else ReadTable(columns, table.names, None)


def _read_column(table: Table, index: int) -> Column | None:
    """Numbers or categories; None for dates, integers beyond floats, and objects, which may be either in some rows."""
    column = table.column(index)
    if column.dtype in (nw.Object, nw.Unknown) and column.null_count() < len(column):
        return None
    if parts_to_learn(table.arrays[index]) or has_large_integers(table.arrays[index]):
        return None
    if table.is_categorical(index) is False:
        return column if is_converted(column) else numbers_of(column, table.name(index))
    codes, values, _ = table.read(index)
    declared = listed_values(getattr(table.arrays[index], "dtype", None))
    return Categories(codes, values, declared=declared)


def settled(X: Any) -> Any:
    """A table, of whose rows any part is read like the whole by our own estimators.

    In a frame of pandas, columns of words and of missing values or numbers become categories by their type: without it,
    a part that has none of the words may be numbers. The words that other rows have are not known of a part.
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
    """Whether some rows of a column of pandas would not show that it is of words."""
    of_categories = "category", "dictionary"  # of pandas and of Arrow
    if getattr(column.dtype, "kind", "") != "O" or column.dtype.name.startswith(of_categories):
        return False
    if not table.is_categorical(index):
        return False
    kinds = table.kinds(index)
    is_plain = all(issubclass(kind, PLAIN) for kind in kinds)  # others are no categories
    return is_plain and (len(kinds) > 1 or bool(table.column(index).is_null().any()))


class _SelectedTables(SelectedRows):
    """Some of the rows of a source whose parts are tables of any kind."""

    def parts(self) -> Iterator[Any]:
        """Yield what is left of each part; where there are no rows, a table without rows."""
        if len(self):
            yield from super().parts()
            return
        for part in self._source.parts():
            yield take_rows(part, self._rows)
            return

    def _take(self, part: Any, rows: NDArray[np.intp]) -> Any:
        return take_rows(part, rows)


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a frame, an array, a CSR matrix or a row source, as the same kind of table."""
    if is_coded(X):
        return X[rows]
    if isinstance(X, RowSource):
        return X[rows] if isinstance(X, Batches) else _SelectedTables(X, rows)
    if isinstance(X, ReadTable):
        return X.take(rows)
    if isinstance(X, np.ndarray) and X.ndim == 2:
        return _rows_of_array(X, rows)
    return nw.from_native(with_rows_to_take(X), eager_only=True)[rows].to_native() if is_frame(X) else X[rows]


def with_rows_to_take(X: Any) -> Any:
    """A frame, or a column of Arrow, whose rows can be taken.

    pandas takes no rows of numbers in the other order of bytes, and Arrow none of views and of runs: the Arrow tables
    that are made of polars' frames have views of texts.
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


def _rows_of_array(X: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """Some rows, in C order; block by block, so that Ctrl-C is seen between them."""
    out = np.empty((len(rows), X.shape[1]), dtype=X.dtype)
    for block in row_blocks(*out.shape):
        out[block] = X[rows[block]]
    return out


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Rows that are copied at a time."""
    step = max(1, _BLOCK // max(1, n_columns))
    return (slice(start, start + step) for start in range(0, n_rows, step))


def take_columns(X: Any, columns: list[int] | None) -> Any:
    """Some columns, by their numbers, as the same kind of table; None for all."""
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
    """The names, with "_" behind those that are taken, or come before among them.

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
    """Columns of numbers put before those of a table: a table of the same kind, or a CSR matrix."""
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
        if not all(isinstance(name, str) for name in frame.columns):  # as only pandas has them
            # Names of one kind: other libraries refuse a mixture.
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
    """A table that is read in parts as one array; any other as it is."""
    return np.concatenate([_array_of(part) for _, part in parts_of(X)]) if isinstance(X, RowSource) else X


def _array_of(part: Any) -> NDArray[Any]:
    """A frame as an array, of objects where it does not hold numbers alone; an array as it is."""
    if not is_frame(part):
        return np.asarray(part)
    columns = list(nw.from_native(part, eager_only=True).iter_columns())
    is_time = [column.to_numpy().dtype.kind in "mM" for column in columns]  # as objects they would be whole numbers
    pairs = zip(columns, is_time, strict=True)
    return np.column_stack([np.array(own.to_list(), object) if time else own.to_numpy() for own, time in pairs])


def as_numbers(X: Any) -> Any:
    """A table as numbers, to compare rows."""
    if not is_frame(X) and X.dtype is not None and X.dtype.kind == "f":
        return X
    return InputEncoder.learn(X, Reading(), "the estimator")[1]


def present_rows(X: Any, y: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any, Any]:
    """A table, labels and weights without the rows of weight 0.

    They stay as they are where no weight is 0, and where their numbers of rows differ, which a later check refuses.
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
    """A table that has not been read, without the rows that data leave out, and the data, which know that.

    Both stay as they are where none are left out, and where the numbers of rows differ, which a later check refuses.
    """
    if data.rows is None:
        return X, data
    X = _known(X)
    return (_taken(X, data.rows), data._replace(is_cut=True)) if _n_rows(X) == data.n_given else (X, data)


def present_part(X: Any, sample_weight: Any, comm: Comm = LOCAL) -> tuple[Any, Any]:
    """A table and weights, where there are no targets, without the rows of weight 0."""
    X = X if sample_weight is None else _known(X)
    n_rows = _n_rows(X)
    weight = None if n_rows is None else check_weights(sample_weight, n_rows, comm)
    if weight is None or weight.all():
        return X, sample_weight
    rows = np.flatnonzero(weight)
    return _taken(X, rows), weight[rows]


def _known(X: Any) -> Any:
    """A table of a kind that rows can be taken of; what is none stays as it is."""
    X = in_parts(X)
    check_places(X)
    is_known = isinstance(X, list | tuple | np.ndarray | RowSource) or sparse.issparse(X) or is_frame(X)
    if is_known or nw.dependencies.is_into_series(X):
        return X
    array = np.asarray(X)
    return array if array.ndim else X


def _n_rows(X: Any) -> int | None:
    """How many rows a table has; None of what is none."""
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
