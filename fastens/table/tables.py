"""Tables of any kind to the float array the engine reads: columns by name, categories by value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.threads import in_threads, threads_for
from fastens.table.columns.blocks import code_categories, code_whole_numbers
from fastens.table.columns.date_columns import with_parts
from fastens.table.columns.dates import parts_in, parts_to_learn
from fastens.table.columns.factorize import (
    NARROW_TYPES,
    Categories,
    Factorized,
    factorize,
    factorize_array,
    is_missing,
    sorted_categories,
)
from fastens.table.columns.faults import type_fault
from fastens.table.columns.frames import arrays_of, block_of, common_kind, is_pandas, names_of, numbers_of_array, opened
from fastens.table.columns.numbers import FLOATS, Column, Floats, numbers_of
from fastens.table.columns.parse_numbers import map_codes
from fastens.table.columns.spellings import recognised, without_same

# What pandas calls types of strings.
_TEXTS = ("str", "string", "string[pyarrow]", "large_string[pyarrow]")
# Larger category positions are not exact in float32.
_FLOAT32_WHOLE = 1 << 24
GRAIN = 1_000_000  # values: one or two milliseconds; two threads that read fewer wait for each other's Python

BLOCK_GRAIN = 500_000  # numbers of a block: some 300 microseconds


@dataclass
class Table:
    """Columns of a 2-D NumPy array, of a pandas frame, or of another frame as narwhals has it."""

    source: Any
    names: list[str] | None = None  # of the columns, where all of them are strings
    array: Floats | None = None  # the whole table, where it is one array of floats already
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
        """The columns as their library has them; taken one by one they would cost much more in a wide frame."""
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
        """Whether the column's type says categories.

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

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """For each column its sorted categories, None for those that are not asked for."""
        found: list[list[Any] | None] = [None] * len(self)

        def learn(index: int) -> None:
            found[index] = sorted_categories(self._categories_of(index).present(), self.name(index))

        in_threads(learn, columns, self.threads_to_read(columns, n_threads))
        return found

    def threads_to_read(self, columns: Sequence[int], n_threads: int) -> int:
        """Threads that are worth starting to read columns; codes that are there already are not worth any."""
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

        `marks` are what stands for missing values, for unseen ones, and for the first category.
        """
        missing, unseen, first = marks
        column = self._categories_of(index)
        codes, values, _ = column
        self._factorized.pop(index, None)
        position: dict[Any, float | None] = {category: place for place, category in enumerate(categories, first)}
        places = [missing if is_missing(value) else position.get(value) for value in values]
        if None in places:
            same = recognised(column.present(), categories, self.name(index))
            position |= {value: position[category] for value, category in same.items()}
            others = (position.get(value, unseen) for value in values)
            places = [other if place is None else place for place, other in zip(places, others, strict=True)]
        # Negative codes are -1.
        map_codes(codes, np.array([missing, *places], dtype=out.dtype), out)

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
        """What an error calls a column."""
        return repr(self.names[index]) if self.names else str(index)


def table_from_array(array: NDArray[Any]) -> Table:
    """A table over a 2-D NumPy array."""
    return Table(array, array=array if _is_ready(array) else None)


def table_from_frame(frame: Any) -> Table:
    """A table over a pandas, polars or Arrow table, or anything else narwhals reads; a table as it is."""
    if isinstance(frame, Table):
        return frame
    return _table_of(opened(frame))


def _table_of(frame: Any) -> Table:
    names = names_of(frame)
    array = block = None
    kind = common_kind(frame)
    if kind == "f":
        array = frame.to_numpy()
        array = array if _is_ready(array) else None
    elif kind is not None and kind in "biu":
        block = block_of(frame)
    return Table(frame, names if all(isinstance(name, str) for name in names) else None, array, block)


def _is_ready(array: NDArray[Any]) -> bool:
    return array.dtype in FLOATS and array.flags.aligned


def is_frame(X: Any) -> bool:
    """Whether `X` is a table of named columns."""
    return isinstance(X, Table) or is_pandas(X) or nw.dependencies.is_into_dataframe(X)


# Categories --------------------------------------------------


def _chosen_columns(table: Table, categorical_features: Any) -> NDArray[np.bool_]:
    """Which columns are categorical, from the estimator's parameter of that name."""
    n_features = len(table)
    chosen = np.zeros(n_features, dtype=bool)
    if categorical_features is None:
        return chosen
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        if table.array is None:
            chosen[:] = [table.is_categorical(index) for index in range(n_features)]
        return chosen
    if isinstance(categorical_features, str) and categorical_features == "all":
        return ~chosen
    given = np.atleast_1d(np.asarray(categorical_features))
    if given.dtype.kind == "b":
        if given.shape != (n_features,):
            raise ValueError(f"categorical_features must have {n_features} entries as a mask; got shape {given.shape}.")
        return given.copy()
    chosen[[_column_index(table, item) for item in given.tolist()]] = True
    return chosen


def named_columns(table: Table, categorical_features: Any) -> Any:
    """The same choice of columns by their names, which stay when columns of dates become several."""
    if categorical_features is None or isinstance(categorical_features, str):
        return categorical_features
    chosen = np.flatnonzero(_chosen_columns(table, categorical_features)).tolist()
    for index in chosen:
        if parts_to_learn(table.arrays[index]):
            raise ValueError(f"categorical_features must not name columns of dates; got {table.name(index)}.")
    return [(table.names or [])[index] for index in chosen]


def _column_index(table: Table, item: Any) -> int:
    if isinstance(item, str):
        if table.names is None or item not in table.names:
            known = f"the columns are {table.names}" if table.names else "X has no column names"
            raise ValueError(f"categorical_features must name columns of X; got {item!r}, and {known}.")
        return table.names.index(item)
    if not isinstance(item, int) or not 0 <= item < len(table):
        raise ValueError(f"categorical_features must hold column indices from 0 to {len(table) - 1}; got {item!r}.")
    return item


def _is_float32(column: Column) -> bool:
    return not isinstance(column, Categories) and column.dtype == (
        nw.Float32 if isinstance(column, nw.Series) else np.float32
    )


# The encoder --------------------------------------------------


class TableEncoder:
    """Remember a table's columns and categories; turn tables like it into one array of floats.

    A categorical column becomes the positions of its values in the sorted list of its categories. NaN stands for
    missing values; `unseen`, NaN unless it is set, for categories that were not there in `fit`.

    Attributes
    ----------
    names : list of str or None
        Names of the columns.
    categories : list
        For each column, its categories, or None where it holds numbers.
    unseen : float
        What stands for a category that is not among them.
    missing_is_category : bool
        In categorical columns, missing values have the position after the last category instead of NaN.
    """

    unseen: float = np.nan
    has_date_parts: bool = False  # the table of fit had dates, in whose place there are several columns

    def __init__(
        self, names: list[str] | None, categories: list[list[Any] | None], *, missing_is_category: bool = False
    ) -> None:
        self.names = names
        self.categories = categories
        self.missing_is_category = missing_is_category

    @classmethod
    def fit(
        cls,
        table: Table,
        categorical_features: Any = "from_dtype",
        *,
        missing_is_category: bool = False,
        n_threads: int = 1,
    ) -> TableEncoder:
        """Learn the columns and categories of a table."""
        chosen = _chosen_columns(table, categorical_features)
        categories = table.learn_categories(np.flatnonzero(chosen).tolist(), n_threads)
        return cls(table.names, categories, missing_is_category=missing_is_category)

    @classmethod
    def fit_codes(cls, table: Table, n_threads: int = 1) -> tuple[TableEncoder, NDArray[np.unsignedinteger]]:
        """An encoder that takes every column for categories, and the `codes` of the table."""
        n_near = threads_for(table.n_rows * len(table), n_threads, BLOCK_GRAIN)
        found = code_whole_numbers(table.arrays if table.block is None else table.block, n_near)
        if found is None and all(map(table.has_codes, range(len(table)))):
            columns = range(len(table))
            found = code_categories([table.read(index) for index in columns], list(map(table.name, columns)), n_near)
        if found is not None:
            return cls(table.names, found.categories), found.codes.T
        encoder = cls.fit(table, "all", n_threads=n_threads)
        return encoder, encoder.codes(table, n_threads)

    def extended(self, table: Table) -> TableEncoder:
        """An encoder that also knows the categories of a table, after its own."""
        known = [index for index, found in enumerate(self.categories) if found is not None]
        found = table.learn_categories(known)
        pairs = zip(found, self.categories, strict=True)
        return self.with_categories([None if new is None else without_same(new, own or []) for new, own in pairs])

    def with_categories(self, more: list[list[Any] | None]) -> TableEncoder:
        """An encoder that knows more categories of its categorical columns, after its own."""
        pairs = zip(self.categories, more, strict=True)
        encoder = TableEncoder(
            self.names,
            [None if own is None else list(dict.fromkeys([*own, *(new or [])])) for own, new in pairs],
            missing_is_category=self.missing_is_category,
        )
        encoder.unseen = self.unseen
        return encoder

    @property
    def is_categorical(self) -> NDArray[np.bool_]:
        """Which columns hold categories."""
        return np.array([found is not None for found in self.categories], dtype=bool)

    def transform(self, table: Table, n_threads: int = 1) -> Floats:
        """The table as floats, float32 where that loses nothing; columns are taken in their order: see `match`."""
        if table.array is not None and not self.is_categorical.any():
            return table.array
        dtype = np.float32 if self._fits_float32(table) else np.float64
        out = np.empty((table.n_rows, len(table)), dtype=dtype, order="F")

        def write(index: int) -> None:
            categories = self.categories[index]
            if categories is None:
                takes_dates = table.names is None or self.names is None  # else they have become their parts
                out[:, index] = numbers_of(table.column(index), table.name(index), takes_dates=takes_dates)
            else:
                missing = float(len(categories)) if self.missing_is_category else np.nan
                table.find_positions(index, categories, (missing, self.unseen, 0), out[:, index])

        in_threads(write, range(len(table)), table.threads_to_read(range(len(table)), n_threads))
        return out

    def codes(self, table: Table, n_threads: int = 1) -> NDArray[np.unsignedinteger]:
        """The same where all columns are categorical, in the smallest type: 0 is missing, p + 1 stands for position p.

        A category that was not there in `fit` is missing, or where `unseen` is a number has the code after the last.
        """
        sizes = [len(found or ()) for found in self.categories]
        dtype = next(dtype for dtype in NARROW_TYPES if max(sizes) + 1 <= np.iinfo(dtype).max)
        out = np.empty((table.n_rows, len(table)), dtype=dtype, order="F")

        def write(index: int) -> None:
            unseen = 0 if np.isnan(self.unseen) else sizes[index] + 1
            table.find_positions(index, self.categories[index] or [], (0, unseen, 1), out[:, index])

        in_threads(write, range(len(table)), table.threads_to_read(range(len(table)), n_threads))
        return out

    def _fits_float32(self, table: Table) -> bool:
        return all(
            _is_float32(table.column(index)) if categories is None else len(categories) < _FLOAT32_WHOLE
            for index, categories in enumerate(self.categories)
        )

    def match(self, frame: Any) -> Table:
        """Read a frame, its columns put in the order of those of `fit`, by their names where both have any.

        Columns that were not there in `fit` are left out; parts of dates are taken from the column of dates.
        """
        if isinstance(frame, Table):
            return frame
        frame = opened(frame)
        columns = names_of(frame)
        if self.names is None or columns == self.names or not all(isinstance(name, str) for name in columns):
            return _table_of(frame)
        missing = set(self.names) - set(columns)
        parts = {name: own for name, own in parts_in(missing).items() if name in columns}
        if parts:
            frame = with_parts(frame, parts)
            columns = names_of(frame)
            missing.difference_update(columns)
        if missing:
            unseen = sorted(str(name) for name in set(columns) - set(self.names))
            message = "The feature names should match those that were passed during fit.\n"
            message += _listed("Feature names unseen at fit time:", unseen)
            raise ValueError(message + _listed("Feature names seen at fit time, yet now missing:", sorted(missing)))
        return _table_of(frame[self.names])

    def to_state(self) -> dict[str, Any]:
        """Plain lists, for saving."""
        state = {"names": self.names, "categories": self.categories}
        return state | {"missing_is_category": True} if self.missing_is_category else state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TableEncoder:
        """From what `to_state` gave; ValueError for anything else."""
        names, categories = state["names"], state["categories"]
        is_named = names is None or (_are_distinct(names, str) and len(names) == len(categories))
        if not is_named or not all(
            found is None or _are_distinct(found, str | bool | int | float) for found in categories
        ):
            raise ValueError("the state of the columns is malformed")
        return cls(names, categories, missing_is_category=state.get("missing_is_category", False) is True)


def _are_distinct(values: Any, kind: Any) -> bool:
    return (
        isinstance(values, list)
        and all(isinstance(value, kind) and not is_missing(value) for value in values)
        and len(set(values)) == len(values)
    )


def _listed(title: str, names: list[str], most: int = 5) -> str:
    if not names:
        return ""
    return "\n- ".join([title, *names[:most], *(["..."] if len(names) > most else [])]) + "\n"


def dense_blocks(X: Any, block_rows: int = 4096) -> Iterator[tuple[int, Floats]]:
    """Blocks of rows of an array or a CSR matrix as arrays, each with the number of its first row."""
    for first in range(0, X.shape[0], block_rows):
        block = X[first : first + block_rows]
        yield first, block if isinstance(block, np.ndarray) else block.toarray()
