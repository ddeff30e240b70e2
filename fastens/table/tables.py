"""Tables in memory: arrays, sparse matrices and data frames with named columns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import narwhals
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.comm import LOCAL, Comm
from fastens.engine.grow.growth import ColumnLookup
from fastens.engine.names import index_values, plain_names, repeated_name_error
from fastens.engine.parts import FLOATS, ConvertedRows, in_blocks, with_limits
from fastens.engine.rows.sampling import canonical
from fastens.engine.threads import cached_property, in_threads
from fastens.table.arrays import checked_array, dense, free_names, narrow_dtype, rows_of_frame
from fastens.table.columns.copy_blocks import map_codes
from fastens.table.columns.dates import days_of_series, elapsed_days, factorize_dates, parts_to_learn, times_of
from fastens.table.columns.expanded import cells_of, holds_lists
from fastens.table.columns.factorize import (
    Factorized,
    FactorizedColumn,
    factorize,
    factorize_array,
    is_missing,
    listed_values,
    match_spellings,
    ordered_values,
    sorted_categories,
    type_fault,
)
from fastens.table.columns.numbers import (
    WIDE,
    AnyColumn,
    Floats,
    has_large_integers,
    has_large_numbers,
    numbers_of,
    plain_table,
)  # fmt: skip

GRAIN = 1_000_000  # values, 1 to 2 ms of work; with fewer values, two threads would mostly wait for the GIL
FEW = 16  # if there are this many times more categories than values, values are looked up one by one
_COPIED = 1 << 20  # values that are copied at a time, which takes a few milliseconds
_AT_ONCE = 1 << 16  # positions that are converted to an array at a time, in about 5 ms
BLOCK_GRAIN = 500_000  # numbers of a block, about 300 microseconds of work


class Table:
    """Table of columns; subclasses define how the columns are read.

    Attributes
    ----------
    is_sparse : bool
        True if the source is a sparse matrix.
    is_read_in_parts : bool
        True if the source is read in parts, so that its columns are not in memory.
    array : object or None
        The whole table if it is already a row source (an array or CSR matrix of floats).
    block : array or None
        The whole table if it is a single array of integers or booleans.
    """

    is_sparse = False
    is_read_in_parts = False
    array: Any = None
    block: Any = None

    def __init__(self, source: Any, names: list[Any] | None = None) -> None:
        self.source = source
        self.names = names  # normalised by `plain_name`
        self._factorized: dict[int, Factorized] = {}

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.source.shape

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.shape[0]

    def __len__(self) -> int:
        return self.shape[1]

    @property
    def native(self) -> Any:
        """The table as an object of its own library."""
        return nw.to_native(self.source, pass_through=True)

    @cached_property
    def arrays(self) -> list[Any]:
        """The columns as arrays of their library, or as numbers and categories if they have been read."""
        raise NotImplementedError

    def column(self, index: int) -> AnyColumn:
        """Return a column as a NumPy vector, a narwhals Series or a FactorizedColumn."""
        return self.arrays[index]

    def is_converted(self, index: int) -> bool:
        """Return True if the column holds integers, booleans or half-precision floats, which `numbers` must convert."""
        return is_converted(self.arrays[index])

    def numbers(self, index: int, rows: Any) -> Floats:
        """Return the rows `rows`, a slice or array of indices, of the column at `index` as floats, NaN if missing."""
        return numbers_of(self.column(index)[rows], self.name(index))

    def is_categorical(self, index: int) -> bool | None:
        """Return True if the column is categorical by its type, or None if it has no value that shows its type.

        In frames, categories, enums, strings and booleans are categorical. In NumPy arrays, strings are categorical,
        and so are objects that are strings or booleans.
        """
        raise NotImplementedError

    def categorical_by_type(self) -> list[bool | None]:
        """Return a list with the result of `is_categorical` for each column."""
        return [self.array is None and self.is_categorical(index) for index in range(len(self))]

    def categorical_columns(self, comm: Comm = LOCAL) -> list[bool]:
        """Return a flag for each column: True if it is categorical on any rank, or empty on all ranks."""
        return [kind is not False for kind in join_categorical_flags(comm.allgather(self.categorical_by_type()))]

    def value_types(self, index: int) -> set[type]:
        """Return the set of Python types of the values of a column that are not missing."""
        try:
            values = self.read(index).values
        except TypeError:  # an object without a hash
            values = list(self.arrays[index])
        return {type(value) for value in values if not is_missing(value)}

    def holds_words(self, index: int) -> bool | None:
        """Return True if any value of an object column is a string, or all are booleans, so that it is categorical.

        Returns False for dates, and None if all values are missing.
        """
        if parts_to_learn(self.arrays[index]):
            return False
        types = self.value_types(index)
        return any(issubclass(kind, str) for kind in types) or types <= {bool, np.bool_} if types else None

    def matched(self, names: list[Any] | None) -> Table:
        """Return the table with its columns in the order of these names; unchanged if either has no names."""
        return self

    def parts(self) -> Iterator[tuple[int, Table]]:
        """Yield the parts as tables, each with the index of its first row."""
        yield 0, self

    def declared_values(self) -> list[Any]:
        """Return the list of values that the dtype of each column declares, or None for a column that declares none.

        The result is empty for arrays and for tables that are read in parts.
        """
        if self.names is None or self.is_read_in_parts:
            return []
        return [
            column.declared if isinstance(column, FactorizedColumn) else listed_values(getattr(column, "dtype", None))
            for column in self.arrays
        ]

    def value_at(self, row: int, index: int) -> Any:
        """Return the value in a row of the column at `index` as a Python object."""
        return cells_of(self.column(index))[row]

    def as_given(self, X: Any) -> Any:
        """Return the table in the library and format of `X`, the object it was opened from, for other estimators."""
        return self.native

    @property
    def holds_objects(self) -> bool:
        """True if the values are Python objects without column types."""
        return False

    def dates(self) -> dict[int, tuple[str, ...]]:
        """Return the indices of date columns, each with the date parts that may be informative; empty without names."""
        parts = map(parts_to_learn, self._columns_unless_numbers())
        return {index: part_names for index, part_names in enumerate(parts) if part_names}

    def lists(self) -> set[int]:
        """Return the indices of columns of lists, such as embeddings; empty for tables without names."""
        return {index for index, column in enumerate(self._columns_unless_numbers()) if holds_lists(column)}

    def _columns_unless_numbers(self) -> list[Any]:
        """Return the columns, or an empty list if the table has no names or holds only numbers."""
        return [] if self.names is None or self.array is not None or self.block is not None else self.arrays

    def days(self, index: int) -> Floats:
        """Return a column that held dates in `fit` as days since 1970; an array may already hold the days."""
        return numbers_of(self.column(index), self.name(index))

    def require_rows(self, min_rows: int = 1) -> Table:
        """Return the table; raise scikit-learn's ValueError if it has fewer than `min_rows` rows or no columns."""
        shape = self.n_rows, len(self)
        for count, needed, what in zip(shape, (min_rows, 1), ("sample(s)", "feature(s)"), strict=True):
            if count < needed:
                raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required.")
        return self

    def large_integers(self) -> list[bool]:
        """Return a flag for each column: True if it holds integers that floats cannot represent exactly."""
        if self.array is not None and (self.block is None or not has_large_numbers(self.block)):
            return [False] * len(self)
        return [has_large_integers(column) for column in self.arrays]

    def chosen_columns(
        self, categorical_features: Any, comm: Comm = LOCAL, *, exact_integers: bool = False
    ) -> NDArray[np.bool_]:
        """Return a mask of the columns that the parameter `categorical_features` makes categorical, on any rank.

        With `exact_integers`, "from_dtype" also selects integer columns that floats cannot represent exactly. Raises
        ValueError for unknown columns.
        """
        n_features = len(self)
        chosen = np.zeros(n_features, dtype=bool)
        if categorical_features is None:
            return chosen
        if isinstance(categorical_features, str) and categorical_features == "from_dtype":
            chosen[:] = self.categorical_columns(comm)
            if exact_integers:
                chosen |= np.any(comm.allgather(self.large_integers()), axis=0)
            return chosen
        if isinstance(categorical_features, str) and categorical_features == "all":
            return ~chosen
        chosen[column_positions("categorical_features", categorical_features, self.names, n_features)] = True
        return chosen

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return the sorted categories of each of the columns at these indices, and None for all other columns."""
        categories: list[list[Any] | None] = [None] * len(self)

        def learn(index: int) -> None:
            categories[index] = sorted_categories(self.categories_of(index).present(), self.name(index))

        in_threads(learn, columns, self.threads_to_read(columns, n_threads))
        return categories

    def category_orders(self, index: int) -> list[list[Any]]:
        """Return the distinct category orders that the column, or parts of it, declare; empty if none is declared."""
        return [order for order in [ordered_values(self.arrays[index])] if order is not None]

    def joined_categories(self, parts: list[list[list[Any] | None]]) -> list[list[Any] | None]:
        """Return the sorted union of the categories of each column, given `learn_categories` of each part."""

        def joined(index: int) -> list[Any]:
            return sorted_categories([value for part in parts for value in part[index] or []], self.name(index))

        return [None if categories is None else joined(index) for index, categories in enumerate(parts[0])]

    def threads_to_read(self, columns: Sequence[int], n_threads: int) -> int:
        """Return the number of threads, at most `n_threads`, for reading columns; codes and few rows need only one."""
        if self.n_rows * len(columns) <= GRAIN:
            return 1
        n_columns = sum(not self.has_codes(index) for index in columns)
        return n_threads if self.n_rows * n_columns > GRAIN else 1

    def has_codes(self, index: int) -> bool:
        """Return True if the column is stored as codes of categories, or has been factorized and cached by `read`."""
        column = self.arrays[index]
        is_coded = (
            isinstance(column, FactorizedColumn) or getattr(getattr(column, "dtype", None), "name", "") == "category"
        )
        return is_coded or index in self._factorized

    def find_positions(self, index: int, categories: list[Any], marks: tuple[float, float, int], out: Any) -> None:
        """Write the position of the value of each row of the column at `index` among the categories to `out`.

        `marks` holds the codes of missing values, of unseen categories and of the first category.
        """
        missing, unseen, first = marks
        column = self.categories_of(index)
        codes, values, _ = column
        self._factorized.pop(index, None)
        new_codes = (
            _search_positions(values, categories, missing, first) if FEW * len(values) < len(categories) else [None]
        )
        if None in new_codes:
            position: dict[Any, float | None] = {category: code for code, category in enumerate(categories, first)}
            new_codes = [missing if is_missing(value) else position.get(value) for value in values]
        if None in new_codes:
            same = match_spellings(column.present(), categories, self.name(index))
            position |= {value: position[category] for value, category in same.items()}
            others = (position.get(value, unseen) for value in values)
            new_codes = [other if code is None else code for code, other in zip(new_codes, others, strict=True)]
        table = np.empty(1 + len(new_codes), dtype=out.dtype)
        table[0] = missing  # all negative codes become -1
        for start in range(0, len(new_codes), _AT_ONCE):  # in chunks, so that Ctrl-C is handled promptly
            table[1 + start : 1 + start + _AT_ONCE] = new_codes[start : start + _AT_ONCE]
        map_codes(codes, table, out)

    def read(self, index: int) -> Factorized:
        """Return a column as codes and distinct values; the result is cached."""
        if index not in self._factorized:
            column = self.arrays[index]
            is_date = bool(parts_to_learn(column))
            self._factorized[index] = factorize_dates(column, self.name(index)) if is_date else self._factorize(index)
        return self._factorized[index]

    def _factorize(self, index: int) -> Factorized:
        """Return a column that does not hold dates as codes and distinct values."""
        return factorize(self.arrays[index])

    def categories_of(self, index: int) -> Factorized:
        """Return a column as codes and distinct values; raise TypeError that names the row of an unhashable value."""
        try:
            return self.read(index)
        except TypeError as error:
            for row, value in enumerate(self.arrays[index]):
                if getattr(type(value), "__hash__", None) is None:
                    raise type_fault(self.name(index), "categories", row, value) from error
            raise

    def name(self, index: int) -> str:
        """Return the name of a column for error messages."""
        return repr(self.names[index]) if self.names else str(index)


def _search_positions(values: list[Any], categories: list[Any], missing: float, first: int) -> list[float | None]:
    """Return first + index of each value in sorted categories, or `missing`, or None if new; [None] if types differ."""
    positions: list[float | None] = []
    for value in values:
        if is_missing(value):
            positions.append(missing)
            continue
        try:
            index = bisect_left(categories, value)
        except TypeError:  # values of several types cannot be compared
            return [None]
        is_there = index < len(categories) and categories[index] == value
        positions.append(first + index if is_there else None)
    return positions


def is_converted(column: Any) -> bool:
    """Return True if a NumPy vector holds integers, booleans or half-precision floats."""
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, np.dtype) and (dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize < 4))


def column_positions(parameter: str, selection: Any, names: list[Any] | None, n_features: int) -> list[int]:
    """Return the indices of columns that `parameter` selects by names, indices or a mask; ValueError if unknown."""
    columns = ColumnLookup(n_features, names)
    if columns.is_name(selection) or isinstance(selection, str) or not hasattr(selection, "__iter__"):
        return [columns.position(parameter, selection)]
    items = list(selection)
    if items and all(isinstance(item, bool | np.bool_) for item in items):
        if len(items) != n_features:
            raise ValueError(f"{parameter} must have {n_features} entries if it is a mask; got shape {(len(items),)}.")
        return [index for index, flag in enumerate(items) if flag]
    if any(isinstance(item, tuple) or not isinstance(item, Hashable) for item in items if not columns.is_name(item)):
        raise ValueError(f"{parameter} must be column names, column indices or a mask; got {selection!r}.")
    return [columns.position(parameter, item) for item in items]


def join_categorical_flags(parts: Sequence[Sequence[bool | None]]) -> list[bool | None]:
    """Return the `is_categorical` flag of each column from its flags in parts: True if any is True, None if all are."""
    several = zip(*parts, strict=True) if len(parts) > 1 else ()
    return [None if set(kinds) == {None} else any(kinds) for kinds in several] or [*parts[0]]


def join_dates(parts: Sequence[dict[int, tuple[str, ...]]]) -> dict[int, tuple[str, ...]]:
    """Return the date columns of all parts by index, each with the longest list of date parts in any part."""
    longest: dict[int, tuple[str, ...]] = {}
    for part in parts:
        longest |= {index: names for index, names in part.items() if len(names) > len(longest.get(index, ()))}
    return dict(sorted(longest.items()))


_FLOAT64, _FLOAT32 = FLOATS


class ArrayTable(Table):
    """Table over a 2-D NumPy array."""

    @cached_property
    def array(self) -> Any:
        """The table as a row source if it holds numbers, or None."""
        if self.source.dtype.kind not in "biuf":
            return None
        ready = ready_array(self.source)
        return converted(self.source) if ready is None else ready

    @cached_property
    def block(self) -> NDArray[Any] | None:
        """The table if it is a dense array of integers or booleans, or None."""
        return self.source if self.source.dtype.kind in "biu" else None

    @cached_property
    def arrays(self) -> list[NDArray[Any]]:
        """The columns as vectors."""
        return list(self.source.T)

    def is_categorical(self, index: int) -> bool | None:
        """Return True if the column holds strings, or objects that `holds_words` accepts; None if all are missing."""
        kind = self.source.dtype.kind
        return self.holds_words(index) if kind == "O" else kind in "UT"

    @property
    def holds_objects(self) -> bool:
        """True if the array has dtype object."""
        return self.source.dtype.kind == "O"

    def as_array(self) -> NDArray[Any]:
        """Return the array."""
        return self.source

    def take(self, rows: NDArray[np.intp], *, narrows: bool = False) -> Any:
        """Return the rows at these indices as an array in C order, copied in blocks so that Ctrl-C is handled promptly.

        If `narrows` is True, the copy has the type that `narrow_dtype` returns. Rows of row sources are selected by
        indexing.
        """
        X = self.source
        if not isinstance(X, np.ndarray) or X.ndim != 2:
            return X[rows]
        out = np.empty((len(rows), X.shape[1]), dtype=narrow_dtype(X) if narrows else X.dtype)
        for block in row_blocks(*out.shape):
            out[block] = X[rows[block]]
        return out

    def select(self, columns: list[int]) -> Any:
        """Return the columns at these indices as an array."""
        return self.source[:, columns]

    def with_numbers(self, values: NDArray[np.float64], names: list[str]) -> Any:
        """Return an array with numeric columns, of shape (n_rows, n), inserted before the columns of the table."""
        X = self.source
        out = np.empty((len(X), values.shape[1] + X.shape[1]), np.result_type(values, X))
        for rows in row_blocks(*out.shape):
            out[rows] = np.hstack([values[rows], X[rows]])
        return out


class SparseTable(ArrayTable):
    """Table over a CSR matrix of numbers."""

    is_sparse = True
    block: Any = None

    def take(self, rows: NDArray[np.intp], *, narrows: bool = False) -> Any:
        """Return the rows at these indices as a sparse matrix that carries the memory limits of the table."""
        rows_of = self.source if hasattr(self.source, "__getitem__") else self.source.tocsr()
        return with_limits(rows_of[rows], self.source)

    def with_numbers(self, values: NDArray[np.float64], names: list[str]) -> Any:
        """Return the rows as a CSR matrix with numeric columns inserted before their columns."""
        return sparse.csr_matrix(sparse.hstack([sparse.csr_matrix(values), self.source]))

    def as_given(self, X: Any) -> Any:
        """Return the matrix as CSC if it was passed as such, otherwise as CSR."""
        return self.source.tocsc() if X.format == "csc" else self.source

    @cached_property
    def array(self) -> Any:
        """The matrix."""
        return self.source

    @cached_property
    def arrays(self) -> list[NDArray[Any]]:
        """The columns as dense vectors."""
        return list(dense(self.source).T)


def table_over(X: Any) -> Any:
    """Return a Table over a frame, an array or a sparse matrix, without checks."""
    if is_frame(X):
        return table_from_frame(X)
    return SparseTable(X) if sparse.issparse(X) else ArrayTable(X)


def concatenated(parts: Sequence[Any]) -> Any:
    """Return the rows of several arrays as one array, or of sparse matrices as one CSR matrix."""
    if table_over(parts[0]).is_sparse:
        return sparse.vstack(parts, format="csr")
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        return np.ma.concatenate(parts)
    return np.concatenate([np.asarray(part) for part in parts])


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Return consecutive slices of rows, each with about 2**20 values, to copy at a time."""
    step = max(1, _COPIED // max(1, n_columns))
    return (slice(start, start + step) for start in range(0, n_rows, step))


def is_plain(X: Any) -> bool:
    """Return True if the engine can read `X` directly: a non-empty 2-D NumPy array of native floats."""
    return (
        type(X) is np.ndarray
        and (X.dtype is _FLOAT64 or X.dtype is _FLOAT32)
        and X.ndim == 2
        and X.size > 0
        and X.flags.aligned
    )


def ready_array(array: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return an array if the engine can read it without conversion, otherwise None."""
    return array if array is not None and array.dtype in FLOATS and array.flags.aligned else None


def converted(array: NDArray[Any]) -> Any:
    """Return a numeric array as rows that are converted to floats when read; a large array is converted by blocks."""
    return in_blocks(ConvertedRows.of_array(array))


def table_from_array(X: Any, owner: str, min_rows: int = 1) -> ArrayTable:
    """Return a table over an array, a sequence or a sparse matrix; raise ValueError if it has too few rows."""
    if is_plain(X):
        return ArrayTable(X)
    array = checked_array(X, owner, min_rows)
    return SparseTable(canonical(array)) if sparse.issparse(array) else ArrayTable(np.asarray(array))


_MANY = 100  # number of columns above which listing all dtypes is faster than looking at each column
_HALVES = ("halffloat", "float16")  # types that narwhals does not know
# Names of the string types of pandas.
_TEXTS = ("str", "string", "string[pyarrow]", "large_string[pyarrow]")
_CATEGORICAL = (nw.String, nw.Categorical, nw.Enum, nw.Boolean)
_FLOATS = ({nw.Float64}, {nw.Float32})


def is_frame(X: Any) -> bool:
    """Return True if `X` is a table in memory with named columns, such as a pandas, polars or Arrow table."""
    # This runs for each table of each call, and the check of narwhals is slow. Older releases of narwhals warn about
    # lazy frames.
    if X is None or isinstance(X, np.ndarray | narwhals.LazyFrame):
        return False
    kinds = Table, narwhals.DataFrame  # covers all APIs of narwhals; its own check covers only one
    return isinstance(X, kinds) or _is_pandas(X) or nw.dependencies.is_into_dataframe(X)


def _has_null_type(column: Any) -> bool:
    """Return True if a column has the null type, which narwhals does not support."""
    if column.dtype != nw.Unknown:
        return False
    native = column.to_native()
    return str(native.type if hasattr(native, "type") else native.dtype).lower().startswith("null")


def _is_pandas(frame: Any) -> bool:
    """Return True for a pandas DataFrame."""
    pandas = nw.dependencies.get_pandas()
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def table_from_frame(frame: Any) -> Table:
    """Return a table over any frame that narwhals supports; raise ValueError for duplicate column names."""
    if isinstance(frame, Table):
        return frame
    is_wrapped = not _is_pandas(frame)
    native = nw.to_native(frame, pass_through=True) if is_wrapped else frame
    if is_wrapped and not _is_pandas(native):
        return _open_other_frame(native)
    if not native.columns.is_unique:
        raise repeated_name_error(native.columns[native.columns.duplicated()][0])
    return PandasTable(native, index_values(native.columns))


def _open_other_frame(frame: Any) -> FrameTable:
    """Return a FrameTable over a frame that is not from pandas; raise ValueError for duplicate names."""
    try:
        opened = nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError:
        names = list(frame.column_names)  # only Arrow allows duplicate names here
        raise repeated_name_error(next(name for name in names if names.count(name) > 1)) from None
    if opened.implementation.is_pyarrow() and (plain := plain_table(frame)) is not frame:
        opened = nw.from_native(plain, eager_only=True)
    return FrameTable(opened, opened.columns)


class FrameTable(Table):
    """Table over a frame that narwhals has opened."""

    def __init__(self, source: Any, names: list[Any]) -> None:
        super().__init__(source, plain_names(names))

    def as_given(self, X: Any) -> Any:
        """Return `X`, the frame that this table was opened from."""
        return X

    def as_array(self) -> NDArray[Any]:
        """Return the frame as an array, with dtype object unless it holds only numbers."""
        columns = list(nw.from_native(self.native, eager_only=True).iter_columns())
        is_time = [column.to_numpy().dtype.kind in "mM" for column in columns]  # NumPy casts times to integer objects
        pairs = zip(columns, is_time, strict=True)
        return np.column_stack(
            [np.array(column.to_list(), object) if time else column.to_numpy() for column, time in pairs]
        )

    def with_numbers(self, values: NDArray[np.float64], names: list[str]) -> Any:
        """Return the frame with numeric columns, of these names or variants of them, inserted before its columns."""
        frame = nw.from_native(self.native, eager_only=True)
        if not all(isinstance(name, str) for name in frame.columns):  # only pandas allows other types of names
            # All names must have one type, because other libraries reject a mixture.
            frame = nw.from_native(frame.to_native().set_axis(map(str, frame.columns), axis=1), eager_only=True)
        series = [
            nw.new_series(name, np.ascontiguousarray(column), backend=frame.implementation)
            for name, column in zip(free_names(names, frame.columns), values.T, strict=True)
        ]
        return frame.with_columns(*series).select([*(one.name for one in series), *frame.columns]).to_native()

    def take(self, rows: NDArray[np.intp], *, narrows: bool = False) -> Any:
        """Return the rows at these indices as a frame of the same library; `narrows` is as in `rows_of_frame`."""
        return rows_of_frame(self.native, rows, narrows)

    def select(self, columns: list[int]) -> Any:
        """Return the columns at these indices as a frame of the same library."""
        return nw.from_native(self.native, eager_only=True)[:, columns].to_native()

    @cached_property
    def array(self) -> NDArray[Any] | None:
        """The whole table if all columns are floats of one size, or None; only Arrow tables are copied."""
        if set(self.source.schema.values()) not in _FLOATS:
            return None
        if not self.source.implementation.is_pyarrow():
            return ready_array(self.source.to_numpy())
        # Arrow stores columns separately, and its own conversion writes a row-major array, which is much slower.
        out = np.empty(self.source.shape, np.float32 if nw.Float32 in self.source.schema.values() else float, order="F")
        for out_column, column in zip(out.T, self.native.columns, strict=True):
            out_column[:] = column.to_numpy()
        return out

    @cached_property
    def arrays(self) -> list[Any]:
        """The columns as objects of their own library."""
        return [column.to_native() for column in self._series]

    @cached_property
    def _series(self) -> list[nw.Series]:
        return list(self.source.iter_columns())

    def column(self, index: int) -> AnyColumn:
        """Return a column as a narwhals Series."""
        return self._series[index]

    def is_converted(self, index: int) -> bool:
        """Return True if the column holds integers, booleans or half-precision floats."""
        column = self.column(index)
        native = column.to_native()
        is_half = str(native.type if hasattr(native, "type") else native.dtype).lower() in _HALVES
        return is_half or (column.dtype.is_integer() and column.dtype not in WIDE)

    def is_categorical(self, index: int) -> bool | None:
        """Return True if the column is categorical by its type, or None if its type does not show it."""
        column = self.column(index)
        if column.dtype == nw.Object:
            return self.holds_words(index)
        return None if _has_null_type(column) else column.dtype in _CATEGORICAL

    def days(self, index: int) -> Floats:
        """Return a column of dates, or of texts in ISO 8601, as days since 1970; raise ValueError for other columns."""
        native = self.arrays[index]
        if parts_to_learn(native):
            return elapsed_days(times_of(native, self.name(index)))
        return days_of_series(nw.from_native(self._series[index], series_only=True), self.name(index))

    def matched(self, names: list[Any] | None) -> Table:
        """Return the table with its columns in the order of these names; other columns are dropped.

        Raises ValueError if a name is missing.
        """
        if names is None or self.names is None or self.names == names:
            return self
        position = {name: index for index, name in enumerate(self.names)}
        if missing := [name for name in names if name not in position]:
            fit_names = set(names)
            message = "The feature names should match those that were passed during fit.\n"
            message += _format_names(
                "Feature names unseen at fit time:", [name for name in position if name not in fit_names]
            )
            raise ValueError(message + _format_names("Feature names seen at fit time, yet now missing:", missing))
        return table_from_frame(self.select([position[name] for name in names]))


def _format_names(title: str, names: list[Any], max_shown: int = 5) -> str:
    """Return a title and the first `max_shown` sorted names, a line each, for an error message; "" without names."""
    if not names:
        return ""
    shown = sorted(name if isinstance(name, str) else repr(name) for name in names)
    return "\n- ".join([title, *shown[:max_shown], *(["..."] if len(shown) > max_shown else [])]) + "\n"


class PandasTable(FrameTable):
    """Table over a pandas frame, whose columns are NumPy arrays or extension arrays of pandas."""

    def __init__(self, source: Any, names: list[Any]) -> None:
        super().__init__(source, names)
        # Creating a Series takes 10 microseconds, more than reading the values of a small table. The private method of
        # pandas avoids it; if a release of pandas lacks the method, Series are created.
        self._take: Callable[[int], Any] = getattr(source, "_get_column_array", self._column_array)
        self._numbers: dict[int, AnyColumn] = {}

    @cached_property
    def array(self) -> NDArray[Any] | None:
        """The whole table if all columns are floats of one size or integers in a single array, or None."""
        if self._kind in ("i", "u") and self.block is not None:
            return converted(self.block)
        return ready_array(self.source.to_numpy()) if self._kind == "f" else None

    @cached_property
    def block(self) -> NDArray[Any] | None:
        """The whole table if pandas stores it as a single array of integers or booleans, or None."""
        if self._kind not in ("b", "i", "u"):
            return None
        first, last = self._take(0), self._take(len(self) - 1)
        if first.base is None or first.base is not last.base:
            return None
        block = self.source.to_numpy()
        return block if np.may_share_memory(block, first) else None

    @cached_property
    def _kind(self) -> str | None:
        """Return the kind of the NumPy dtype of all columns, "f", "b", "i" or "u"; None if it differs or is another."""
        n_columns = len(self)
        first = self._take(0).dtype if n_columns else None
        if not isinstance(first, np.dtype) or first.kind not in "fbiu":
            return None
        # Listing the dtypes of a frame is slower than looking at the columns, unless there are many columns.
        types = self.source.dtypes.tolist() if n_columns > _MANY else [column.dtype for column in self._columns]
        return first.kind if all(dtype == first for dtype in types) else None

    def _column_array(self, index: int) -> Any:
        """Return a column of the frame as a NumPy array or an extension array."""
        column = self.source.iloc[:, index]
        return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array

    @cached_property
    def _columns(self) -> list[Any]:
        """Return the columns as NumPy arrays or extension arrays."""
        return list(map(self._take, range(len(self))))

    @cached_property
    def arrays(self) -> list[Any]:
        """The columns as arrays."""
        return self._columns if self.block is None else list(self.block.T)

    @cached_property
    def _series(self) -> list[Any]:
        """The columns as pandas Series, created together because one by one is much slower in a wide frame."""
        return [column for _, column in self.source.items()]

    def column(self, index: int) -> AnyColumn:
        """Return a column as a NumPy vector, or as a narwhals Series if it is not numeric."""
        if self.block is not None:
            return self.arrays[index]
        if index not in self._numbers:
            numbers = _numbers_of_array(self.arrays[index])
            is_other = numbers is None
            self._numbers[index] = nw.from_native(self._series[index], series_only=True) if is_other else numbers
        return self._numbers[index]

    def is_categorical(self, index: int) -> bool | None:
        """Return True if the column is categorical by its type, or None if its type does not show it."""
        array = self.arrays[index]
        if isinstance(array.dtype, np.dtype):  # faster than asking narwhals
            return self.holds_words(index) if array.dtype.kind == "O" else array.dtype.kind == "b"
        if _numpy_type(array) is not None:
            return False
        return array.dtype.name in _TEXTS or array.dtype.name == "category" or super().is_categorical(index)

    def is_converted(self, index: int) -> bool:
        """Return True if the column holds integers, booleans or half-precision floats."""
        dtype = _numpy_type(self.arrays[index])
        return dtype is not None and dtype not in FLOATS

    def numbers(self, index: int, rows: Any) -> Any:
        """Return the rows `rows`, a slice or array of indices, of the column at `index` as floats, NaN if missing."""
        part = self.arrays[index][rows]
        numbers = _numbers_of_array(part) if _numpy_type(part) is not None else None
        return super().numbers(index, rows) if numbers is None else numbers_of(numbers, self.name(index))

    def _factorize(self, index: int) -> Factorized:
        """Return a column that does not hold dates as codes and distinct values."""
        return factorize_array(self.arrays[index], lambda: self._series[index])


def _numpy_type(array: Any) -> np.dtype | None:
    """Return the NumPy dtype of an integer or float array of pandas or NumPy, or None for other dtypes."""
    dtype = getattr(array.dtype, "numpy_dtype", array.dtype)
    return dtype if isinstance(dtype, np.dtype) and dtype.kind in "iuf" else None


def _numbers_of_array(array: Any) -> NDArray[Any] | None:
    """Return a numeric pandas column as a NumPy array with NaN for missing values, or None for other types."""
    dtype = _numpy_type(array)
    if dtype is None:
        return None
    if isinstance(array, np.ndarray):
        return array
    return array.to_numpy(np.float32 if dtype == np.float32 else np.float64, na_value=np.nan)
