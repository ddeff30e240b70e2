"""Tables of any kind behind one face: columns by number, each with a name, a type and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.grow.constraints import Columns
from fastens.engine.parts import RowSource, parts_of
from fastens.engine.rows.sparse_rows import canonical
from fastens.engine.threads import in_threads
from fastens.table.columns.arrays import checked_array
from fastens.table.columns.city_hash import category_hash
from fastens.table.columns.dates import parts_to_learn, with_parts
from fastens.table.columns.factorize import (
    Categories,
    Factorized,
    factorize,
    factorize_array,
    is_missing,
    sorted_categories,
)
from fastens.table.columns.faults import type_fault
from fastens.table.columns.frames import (
    arrays_of,
    block_of,
    common_kind,
    floats_of,
    is_pandas,
    names_of,
    numbers_of_array,
    opened,
)
from fastens.table.columns.numbers import FLOATS, Column, Floats
from fastens.table.columns.parse_numbers import map_codes
from fastens.table.columns.spellings import match_spellings

# What pandas calls types of strings.
_TEXTS = ("str", "string", "string[pyarrow]", "large_string[pyarrow]")
_FLOAT64, _FLOAT32 = FLOATS
GRAIN = 1_000_000  # values: one or two milliseconds; two threads that read fewer wait for each other's Python

BLOCK_GRAIN = 500_000  # numbers of a block: some 300 microseconds


@dataclass
class Table:
    """Columns of a 2-D NumPy array, of a pandas frame, or of another frame as narwhals has it."""

    source: Any
    names: list[str] | None = None  # of the columns, where all of them are strings
    array: Any = None  # the whole table where it is a row source already: an array or a CSR matrix of floats
    block: NDArray[Any] | None = None  # the same of whole numbers, or of booleans
    _factorized: dict[int, Factorized] = field(default_factory=dict, repr=False)
    _columns: dict[int, Column] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.source.shape[0]

    def __len__(self) -> int:
        return self.source.shape[1]

    @property
    def native(self) -> Any:
        """The table as its library has it."""
        return self.source.to_native() if isinstance(self.source, nw.DataFrame) else self.source

    @cached_property
    def natives(self) -> list[Any]:
        """The columns as objects of their library; in a wide frame one by one would be much slower."""
        if self.block is not None or isinstance(self.source, np.ndarray):
            return list((self.source if self.block is None else self.block).T)
        if isinstance(self.source, nw.DataFrame):
            return [column.to_native() for column in self._series]
        return [column for _, column in self.source.items()]

    @cached_property
    def arrays(self) -> list[Any]:
        """The same, but those of a pandas frame as arrays."""
        return arrays_of(self.source) if self._has_series else self.natives

    @cached_property
    def _series(self) -> list[nw.Series]:
        """Those of a narwhals frame."""
        return list(self.source.iter_columns())

    @cached_property
    def _has_series(self) -> bool:
        return self.block is None and is_pandas(self.source)

    def column(self, index: int) -> Column:
        """A column as a NumPy vector, a narwhals Series, or categories that have been read."""
        if isinstance(self.source, nw.DataFrame):
            return self._series[index]
        if not self._has_series:
            return self.natives[index]
        if index not in self._columns:
            numbers = numbers_of_array(self.arrays[index])
            is_other = numbers is None
            self._columns[index] = nw.from_native(self.natives[index], series_only=True) if is_other else numbers
        return self._columns[index]

    def is_categorical(self, index: int) -> bool:
        """Whether the column is categorical by its type.

        In a frame: categories, enums, strings and booleans. In a NumPy array: strings, and objects that are strings or
        booleans.
        """
        found = self.arrays[index]
        if isinstance(found, Categories):
            return found.is_typed or not all(map(is_missing, self.read(index).present()))
        dtype = getattr(found, "dtype", None)
        if isinstance(dtype, np.dtype):  # of NumPy, or of pandas, which narwhals takes longer to name
            if dtype.kind == "O":
                return self._is_of_words(index)
            return dtype.kind in "UT" if isinstance(self.source, np.ndarray) else dtype.kind == "b"
        kind = getattr(dtype, "name", None)
        if kind in _TEXTS and self._has_series:
            return not found.isna().all()
        return kind == "category" or self._is_declared(index)

    def categorical_columns(self) -> list[bool]:
        """Return `is_categorical` of all columns."""
        return list(map(self.is_categorical, range(len(self))))

    def _is_declared(self, index: int) -> bool:
        """The same for a column that only narwhals knows."""
        column = self.column(index)
        if column.dtype == nw.String:
            return column.null_count() < len(column)
        if column.dtype == nw.Object:
            return self._is_of_words(index)
        return column.dtype in (nw.Categorical, nw.Enum, nw.Boolean)

    def _is_of_words(self, index: int) -> bool:
        """Whether the objects of a column are strings or booleans, not numbers."""
        try:
            values = self.read(index).values
        except TypeError:  # an object without a hash
            values = list(self.arrays[index])
        kinds = {type(value) for value in values if not is_missing(value)}
        return bool(kinds) and (any(issubclass(kind, str) for kind in kinds) or kinds <= {bool, np.bool_})

    def chosen_columns(self, categorical_features: Any) -> NDArray[np.bool_]:
        """Return which columns are categorical, from the estimator's parameter of that name."""
        n_features = len(self)
        chosen = np.zeros(n_features, dtype=bool)
        if categorical_features is None:
            return chosen
        if isinstance(categorical_features, str) and categorical_features == "from_dtype":
            if self.array is None:
                chosen[:] = self.categorical_columns()
            return chosen
        if isinstance(categorical_features, str) and categorical_features == "all":
            return ~chosen
        chosen[column_positions("categorical_features", categorical_features, self.names, n_features)] = True
        return chosen

    def chosen_names(self, categorical_features: Any) -> Any:
        """Return the same choice of columns by their names, which stay when columns of dates become several."""
        if categorical_features is None or isinstance(categorical_features, str):
            return categorical_features
        chosen = np.flatnonzero(self.chosen_columns(categorical_features)).tolist()
        for index in chosen:
            if parts_to_learn(self.arrays[index]):
                raise ValueError(f"categorical_features must not name columns of dates; got {self.name(index)}.")
        return [(self.names or [])[index] for index in chosen]

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """For each column its sorted categories, None for columns not requested."""
        found: list[list[Any] | None] = [None] * len(self)

        def learn(index: int) -> None:
            found[index] = sorted_categories(self._categories_of(index).present(), self.name(index))

        in_threads(learn, columns, self.threads_to_read(columns, n_threads))
        return found

    def joined_categories(self, parts: list[list[list[Any] | None]]) -> list[list[Any] | None]:
        """Return for each column its sorted categories in any part of the table, from those of all parts."""

        def joined(index: int) -> list[Any]:
            return sorted_categories([value for part in parts for value in part[index] or []], self.name(index))

        return [None if found is None else joined(index) for index, found in enumerate(parts[0])]

    def threads_to_read(self, columns: Sequence[int], n_threads: int) -> int:
        """Number of threads to read columns with; columns that are codes already need none."""
        if self.n_rows * len(columns) <= GRAIN:
            return 1
        n_columns = sum(not self.has_codes(index) for index in columns)
        return n_threads if self.n_rows * n_columns > GRAIN else 1

    def has_codes(self, index: int) -> bool:
        """Whether a column is codes of categories already, or has been read."""
        found = self.arrays[index]
        is_declared = getattr(getattr(found, "dtype", None), "name", None) == "category"
        return is_declared or index in self._factorized or isinstance(found, Categories)

    def find_positions(self, index: int, categories: list[Any], marks: tuple[float, float, int], out: Any) -> None:
        """Write to `out` each row's position among the categories.

        `marks` are the codes of missing values, of unseen ones and of the first category.
        """
        missing, unseen, first = marks
        column = self._categories_of(index)
        codes, values, _ = column
        self._factorized.pop(index, None)
        position: dict[Any, float | None] = {category: place for place, category in enumerate(categories, first)}
        places = [missing if is_missing(value) else position.get(value) for value in values]
        if None in places:
            same = match_spellings(column.present(), categories, self.name(index))
            position |= {value: position[category] for value, category in same.items()}
            others = (position.get(value, unseen) for value in values)
            places = [other if place is None else place for place, other in zip(places, others, strict=True)]
        # Negative codes are -1.
        map_codes(codes, np.array([missing, *places], dtype=out.dtype), out)

    def named_by_hash(self, index: int, categories: list[Any]) -> list[Any]:
        """Return categories that are known by their hashes as the column has them; others stay as they are."""
        found = {category_hash(value): value for value in self._categories_of(index).present()}
        hashes = (known if isinstance(known, int) else category_hash(known) for known in categories)
        return [found.get(own, known) for own, known in zip(hashes, categories, strict=True)]

    def read(self, index: int) -> Factorized:
        """A column factorized, once."""
        found = self._factorized.get(index)
        if found is None:
            array = self.arrays[index]
            if isinstance(array, Categories):
                found = Factorized(array.codes, array.values, may_be_absent=True)
            elif self._has_series:
                found = factorize_array(array, lambda: self.natives[index])
            else:
                found = factorize(array)
            self._factorized[index] = found
        return found

    def _categories_of(self, index: int) -> Factorized:
        """The same for a column that must hold categories."""
        try:
            return self.read(index)
        except TypeError as error:
            for row, value in enumerate(self.arrays[index]):
                if getattr(type(value), "__hash__", None) is None:
                    raise type_fault(self.name(index), "categories", row, value) from error
            raise

    def with_date_parts(self) -> Table:
        """The table with parts in the place of each column of dates; itself where there are none, or no names."""
        if self.names is None or self.array is not None or self.block is not None:
            return self
        pairs = zip(self.names, map(parts_to_learn, self.arrays), strict=True)
        parts = {name: found for name, found in pairs if found}
        return table_from_frame(with_parts(self.source, parts)) if parts else self

    def name(self, index: int) -> str:
        """The name of a column in errors."""
        return repr(self.names[index]) if self.names else str(index)


def column_positions(parameter: str, given: Any, names: list[str] | None, n_features: int) -> list[int]:
    """Return where the columns stand that a parameter gives by names, positions or a mask."""
    given = np.atleast_1d(np.asarray(given))
    if given.dtype.kind == "b":
        if given.shape != (n_features,):
            raise ValueError(f"{parameter} must have {n_features} entries as a mask; got shape {given.shape}.")
        return np.flatnonzero(given).tolist()
    columns = Columns(n_features, names)
    return [columns.position(parameter, item) for item in given.tolist()]


def table_from_array(array: NDArray[Any]) -> Table:
    """A table over a 2-D NumPy array."""
    return Table(array, array=array if _is_ready(array) else None)


def table_from_frame(frame: Any) -> Table:
    """A table over a pandas, polars or Arrow table, or anything else narwhals reads; a table as it is."""
    if isinstance(frame, Table):
        return frame
    return table_of_opened(opened(frame))


def table_of_opened(frame: Any) -> Table:
    """A table over a frame of pandas or narwhals."""
    names = names_of(frame)
    array = block = None
    kind = common_kind(frame)
    if kind == "f":
        array = floats_of(frame)
        array = array if _is_ready(array) else None
    elif kind is not None and kind in "biu":
        block = block_of(frame)
    return Table(frame, names if all(isinstance(name, str) for name in names) else None, array, block)


def _is_ready(array: NDArray[Any]) -> bool:
    return array.dtype in FLOATS and array.flags.aligned


def is_frame(X: Any) -> bool:
    """Whether `X` is a table of named columns."""
    return isinstance(X, Table) or is_pandas(X) or nw.dependencies.is_into_dataframe(X)


def is_plain(X: Any) -> bool:
    """Whether `X` is already what the engine reads: a NumPy matrix of native floats that is not empty."""
    return (
        type(X) is np.ndarray
        and (X.dtype is _FLOAT64 or X.dtype is _FLOAT32)
        and X.ndim == 2
        and X.size > 0
        and X.flags.aligned
    )


class PartedTable(Table):
    """A table that is read part by part: frames or arrays with the same columns.

    A column is categorical if it is in any part; its categories are those of all parts.
    """

    def __init__(self, source: RowSource, names: list[str] | None = None, *, has_date_parts: bool = False) -> None:
        super().__init__(source, names, array=None if source.dtype is None else source)
        self._has_date_parts = has_date_parts
        if names is None and self.array is None:
            self.names = next((table.names for table in self.tables()), None)

    def __len__(self) -> int:
        return self.source.shape[1] if self.names is None else len(self.names)

    def tables(self) -> Iterator[Table]:
        """Yield the parts as tables."""
        for _, part in parts_of(self.source):
            yield self._as_table(part)

    def _as_table(self, part: Any) -> Table:
        table = table_from_frame(part) if is_frame(part) else table_from_array(part)
        return table.with_date_parts() if self._has_date_parts else table

    def with_date_parts(self) -> Table:
        """Return the table with parts in the place of each column of dates; itself where there are none."""
        if self.names is None:
            return self
        names = [table.with_date_parts().names for table in self.tables()]
        if any(each != names[0] for each in names):
            raise ValueError(f"X must have the same columns in all its parts; got {names[0]} and others.")
        return self if names[0] == self.names else PartedTable(self.source, names[0], has_date_parts=True)

    def chosen_names(self, categorical_features: Any) -> Any:
        """Return the choice by names, which the first part has as all others have them."""
        return next(self.tables()).chosen_names(categorical_features)

    def categorical_columns(self) -> list[bool]:
        """Return which columns are categorical in any part."""
        return np.any([table.categorical_columns() for table in self.tables()], axis=0).tolist()

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return for each column its sorted categories, None for columns not requested."""
        if not columns:
            return [None] * len(self)
        return self.joined_categories([table.learn_categories(columns, n_threads) for table in self.tables()])


def table_of(X: Any, owner: str, fewest: int = 1) -> Table:
    """Return a table over an array, a frame, a sparse matrix or a row source; ValueError for one of fewer rows."""
    if is_plain(X):
        return Table(X, array=X)
    if is_frame(X):
        return with_rows(table_from_frame(X), fewest)
    if isinstance(X, RowSource):
        return with_rows(PartedTable(X), fewest)
    array = checked_array(X, owner, fewest)
    if isinstance(array, np.ndarray):
        return with_rows(table_from_array(array), fewest)
    array = canonical(array if array.dtype in FLOATS else array.astype(np.float64))
    return Table(array, array=array)


def with_rows(table: Table, fewest: int = 1) -> Table:
    """Return the table; ValueError for one of fewer rows or without columns, as scikit-learn words it."""
    shape = table.n_rows, len(table)
    for count, needed, what in zip(shape, (fewest, 1), ("sample(s)", "feature(s)"), strict=True):
        if count < needed:
            raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required.")
    return table


def dense_blocks(X: Any, block_rows: int = 4096) -> Iterator[tuple[int, Floats]]:
    """Blocks of as many rows of a table as arrays, each with the number of its first row; the last may have fewer."""
    if isinstance(X, RowSource):
        yield from _regrouped(X, block_rows)
        return
    for first in range(0, X.shape[0], block_rows):
        block = X[first : first + block_rows]
        yield first, block if isinstance(block, np.ndarray) else block.toarray()


def _regrouped(X: RowSource, block_rows: int) -> Iterator[tuple[int, Floats]]:
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
