"""Tables of any kind behind one face: columns by number, each with a name, a type and values."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.cached import cached_property
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.grow.constraints import Columns
from fastens.engine.threads import in_threads
from fastens.table.columns.city_hash import category_hash
from fastens.table.columns.dates import factorize_dates, parts_to_learn
from fastens.table.columns.factorize import Factorized, factorize, is_missing, sorted_categories
from fastens.table.columns.faults import type_fault
from fastens.table.columns.numbers import Column, Floats, has_large_integers, has_large_numbers, numbers_of
from fastens.table.columns.parse_numbers import map_codes
from fastens.table.columns.spellings import match_spellings

GRAIN = 1_000_000  # values: one or two milliseconds; two threads that read fewer wait for each other's Python
FEW = 16  # times as many categories as values: these are looked up one by one
_AT_ONCE = 1 << 16  # places that are made an array, in some five milliseconds

BLOCK_GRAIN = 500_000  # numbers of a block: some 300 microseconds


class Table:
    """The columns of a table; a kind of table says how they are read."""

    def __init__(self, source: Any, names: list[Any] | None = None) -> None:
        self.source = source
        self.names = names  # as `plain_name` has them
        self._factorized: dict[int, Factorized] = {}

    @property
    def n_rows(self) -> int:
        """Rows."""
        return self.source.shape[0]

    def __len__(self) -> int:
        return self.source.shape[1]

    @property
    def native(self) -> Any:
        """The table as its library has it."""
        return self.source

    @cached_property
    def array(self) -> Any:
        """The whole table where it is a row source already: an array or a CSR matrix of floats."""
        return None

    @cached_property
    def block(self) -> NDArray[Any] | None:
        """The same of whole numbers, or of booleans."""
        return None

    @cached_property
    def arrays(self) -> list[Any]:
        """The columns as arrays of their library; those of a table that has been read as numbers or categories."""
        raise NotImplementedError

    def column(self, index: int) -> Column:
        """A column as a NumPy vector, a narwhals Series, or categories that have been read."""
        return self.arrays[index]

    def is_converted(self, index: int) -> bool:
        """True if the column holds whole numbers, booleans or half-precision floats; `numbers` converts them."""
        return is_converted(self.arrays[index])

    def numbers(self, index: int, rows: Any) -> Floats:
        """Return some rows of a column as floats; `rows` is a slice or an array of positions."""
        return numbers_of(self.column(index)[rows], self.name(index))

    def is_categorical(self, index: int) -> bool | None:
        """Whether the column is categorical by its type; None where that has no value to tell by.

        In a frame: categories, enums, strings and booleans. In a NumPy array: strings, and objects that are strings or
        booleans.
        """
        raise NotImplementedError

    def categorical_by_type(self) -> list[bool | None]:
        """Return `is_categorical` of all columns."""
        if self.array is not None:
            return [False] * len(self)
        return list(map(self.is_categorical, range(len(self))))

    def categorical_columns(self, comm: Comm = LOCAL) -> list[bool]:
        """Return which columns are categorical: by their type on any rank, or without a value on all."""
        return [found is not False for found in joined_kinds(comm.gather(self.categorical_by_type()))]

    def kinds(self, index: int) -> set[type]:
        """The types of a column's objects that are not missing."""
        try:
            values = self.read(index).values
        except TypeError:  # an object without a hash
            values = list(self.arrays[index])
        return {type(value) for value in values if not is_missing(value)}

    def is_of_words(self, index: int) -> bool | None:
        """Whether the objects of a column are strings or booleans, not numbers; None where there are none."""
        if parts_to_learn(self.arrays[index]):
            return False
        kinds = self.kinds(index)
        return any(issubclass(kind, str) for kind in kinds) or kinds <= {bool, np.bool_} if kinds else None

    def matched(self, names: list[Any] | None) -> Table:
        """Return the columns in the order of these names, where both have any."""
        return self

    def dates(self) -> dict[int, tuple[str, ...]]:
        """Return the columns of dates in a table with names, each with the parts that may be informative."""
        return {}

    def days(self, index: int) -> Floats:
        """Return a column that held dates in fit as days since 1970; an array may hold the days themselves."""
        return numbers_of(self.column(index), self.name(index))

    def with_rows(self, fewest: int = 1) -> Table:
        """Return the table; ValueError for one of fewer rows or without columns, as scikit-learn words it."""
        shape = self.n_rows, len(self)
        for count, needed, what in zip(shape, (fewest, 1), ("sample(s)", "feature(s)"), strict=True):
            if count < needed:
                raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required.")
        return self

    def large_integers(self) -> list[bool]:
        """Return which columns hold integers that are not exact as floats."""
        if self.array is not None and (self.block is None or not has_large_numbers(self.block)):
            return [False] * len(self)
        return [has_large_integers(column) for column in self.arrays]

    def chosen_columns(
        self, categorical_features: Any, comm: Comm = LOCAL, *, exact_integers: bool = False
    ) -> NDArray[np.bool_]:
        """Return which columns are categorical, from the estimator's parameter of that name, on any rank.

        With `exact_integers`, "from_dtype" also chooses columns of integers that are not exact as floats.
        """
        n_features = len(self)
        chosen = np.zeros(n_features, dtype=bool)
        if categorical_features is None:
            return chosen
        if isinstance(categorical_features, str) and categorical_features == "from_dtype":
            chosen[:] = self.categorical_columns(comm)
            if exact_integers:
                chosen |= np.any(comm.gather(self.large_integers()), axis=0)
            return chosen
        if isinstance(categorical_features, str) and categorical_features == "all":
            return ~chosen
        chosen[column_positions("categorical_features", categorical_features, self.names, n_features)] = True
        return chosen

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
        dtype = getattr(self.arrays[index], "dtype", None)
        return getattr(dtype, "name", None) == "category" or index in self._factorized

    def find_positions(self, index: int, categories: list[Any], marks: tuple[float, float, int], out: Any) -> None:
        """Write to `out` each row's position among the categories.

        `marks` are the codes of missing values, of unseen ones and of the first category.
        """
        missing, unseen, first = marks
        column = self._categories_of(index)
        codes, values, _ = column
        self._factorized.pop(index, None)
        places = _places_in_order(values, categories, missing, first) if FEW * len(values) < len(categories) else [None]
        if None in places:
            position: dict[Any, float | None] = {category: place for place, category in enumerate(categories, first)}
            places = [missing if is_missing(value) else position.get(value) for value in values]
        if None in places:
            same = match_spellings(column.present(), categories, self.name(index))
            position |= {value: position[category] for value, category in same.items()}
            others = (position.get(value, unseen) for value in values)
            places = [other if place is None else place for place, other in zip(places, others, strict=True)]
        table = np.empty(1 + len(places), dtype=out.dtype)
        table[0] = missing  # negative codes are -1
        for start in range(0, len(places), _AT_ONCE):  # of a million places, Ctrl-C would have to wait
            table[1 + start : 1 + start + _AT_ONCE] = places[start : start + _AT_ONCE]
        map_codes(codes, table, out)

    def named_by_hash(self, index: int, categories: list[Any]) -> list[Any]:
        """Return categories that are known by their hashes as the column has them; others stay as they are."""
        found = {category_hash(value): value for value in self._categories_of(index).present()}
        hashes = (known if isinstance(known, int) else category_hash(known) for known in categories)
        return [found.get(own, known) for own, known in zip(hashes, categories, strict=True)]

    def read(self, index: int) -> Factorized:
        """A column factorized, once."""
        if index not in self._factorized:
            column = self.arrays[index]
            is_of_dates = bool(parts_to_learn(column))
            self._factorized[index] = (
                factorize_dates(column, self.name(index)) if is_of_dates else self._factorize(index)
            )
        return self._factorized[index]

    def _factorize(self, index: int) -> Factorized:
        return factorize(self.arrays[index])

    def _categories_of(self, index: int) -> Factorized:
        """The same for a column that must hold categories."""
        try:
            return self.read(index)
        except TypeError as error:
            for row, value in enumerate(self.arrays[index]):
                if getattr(type(value), "__hash__", None) is None:
                    raise type_fault(self.name(index), "categories", row, value) from error
            raise

    def name(self, index: int) -> str:
        """The name of a column in errors."""
        return repr(self.names[index]) if self.names else str(index)


def _places_in_order(values: list[Any], categories: list[Any], missing: float, first: int) -> list[float | None]:
    """Where a few values stand among many categories, as those of `fit` are in order; None for what is not found."""
    places: list[float | None] = []
    for value in values:
        if is_missing(value):
            places.append(missing)
            continue
        try:
            place = bisect_left(categories, value)
        except TypeError:  # of several types
            return [None]
        is_there = place < len(categories) and categories[place] == value
        places.append(first + place if is_there else None)
    return places


def is_converted(column: Any) -> bool:
    """True if a NumPy vector holds whole numbers, booleans or half-precision floats."""
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, np.dtype) and (dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize < 4))


def column_positions(parameter: str, given: Any, names: list[Any] | None, n_features: int) -> list[int]:
    """Return where the columns stand that a parameter gives by names, positions or a mask."""
    columns = Columns(n_features, names)
    if columns.is_name(given) or isinstance(given, str) or not hasattr(given, "__iter__"):
        return [columns.position(parameter, given)]
    items = list(given)
    if items and all(isinstance(item, bool | np.bool_) for item in items):
        if len(items) != n_features:
            raise ValueError(f"{parameter} must have {n_features} entries as a mask; got shape {(len(items),)}.")
        return [index for index, flag in enumerate(items) if flag]
    if any(isinstance(item, tuple) or not isinstance(item, Hashable) for item in items if not columns.is_name(item)):
        raise ValueError(f"{parameter} must be names or positions of columns, or a mask; got {given!r}.")
    return [columns.position(parameter, item) for item in items]


def joined_kinds(parts: Sequence[Sequence[bool | None]]) -> list[bool | None]:
    """Whether columns are categorical, from what parts of a table know: where one is, all are."""
    return [None if set(found) == {None} else any(found) for found in zip(*parts, strict=True)]


def joined_dates(parts: Sequence[dict[int, tuple[str, ...]]]) -> dict[int, tuple[str, ...]]:
    """Columns of dates in any part of a table, each with all the parts of its dates that are known of."""
    found: dict[int, tuple[str, ...]] = {}
    for part in parts:
        found |= {index: own for index, own in part.items() if len(own) > len(found.get(index, ()))}
    return dict(sorted(found.items()))
