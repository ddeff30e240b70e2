"""Tables that are read in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.parts import RowSource, parts_of
from fastens.engine.threads import cached_property
from fastens.table.columns.factorize import distinct_lists, sorted_categories
from fastens.table.columns.numbers import is_wide_integer
from fastens.table.sources import Batches
from fastens.table.tables import Table, join_categorical_flags, join_dates, table_over


class PartedTable(Table):
    """Table whose parts are frames or arrays with the same columns.

    A column is categorical if it is categorical in any part, and its categories are the union over all parts.
    """

    is_read_in_parts = True

    def __init__(self, source: RowSource, names: list[Any] | None = None) -> None:
        super().__init__(source, source.encoder.names if source.is_coded else names)
        self.array = None if source.dtype is None else source
        if self.names is None and self.array is None:
            self.names = next((table.names for table in self.tables()), None)

    def __len__(self) -> int:
        if self.source.is_coded:  # the codes may include derived columns
            return len(self.source.encoder.categories)
        return self.source.shape[1] if self.names is None else len(self.names)

    def parts(self) -> Iterator[tuple[int, Table]]:
        """Yield the parts as tables, each with the index of its first row."""
        for start, part in parts_of(self.source):
            yield start, table_over(part)

    def tables(self) -> Iterator[Table]:
        """Yield the parts as tables, without the indices of their first rows."""
        return (table for _, table in self.parts())

    def typed_tables(self) -> Iterable[Table]:
        """Return the parts as tables, all of which are needed to show the types of the columns."""
        return self.tables()

    def dates(self) -> dict[int, tuple[str, ...]]:
        """Return the indices of date columns, each with the date parts that may be informative in any part."""
        return {} if self.names is None else join_dates([table.dates() for table in self.typed_tables()])

    def lists(self) -> set[int]:
        """Return the indices of the columns that hold lists in any part of the table."""
        return set() if self.names is None else set().union(*(table.lists() for table in self.typed_tables()))

    def categorical_by_type(self) -> list[bool | None]:
        """Return a flag for each column: True if it is categorical in any part, None if no part shows its type."""
        return join_categorical_flags([table.categorical_by_type() for table in self.typed_tables()])

    def large_integers(self) -> list[bool]:
        """Return a flag for each column: True if a part holds integers that floats cannot represent exactly."""
        return np.any([table.large_integers() for table in self.tables()], axis=0).tolist()

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return the sorted categories of each of the columns at these indices, and None for all other columns."""
        if not columns:
            return [None] * len(self)
        return self.joined_categories([table.learn_categories(columns, n_threads) for table in self.tables()])

    def category_orders(self, index: int) -> list[list[Any]]:
        """Return the distinct category orders that the column at `index` declares in any part of the table."""
        return distinct_lists(order for table in self.tables() for order in table.category_orders(index))


class StreamedTable(PartedTable):
    """Table whose columns have the same types in all batches, so that few properties require a pass over the rows."""

    source: Batches

    def __init__(self, source: Batches) -> None:
        super().__init__(source, source.columns)
        self._learned: dict[int, list[Any]] = {}

    @cached_property
    def _typed(self) -> Table:
        """Return a table without rows that has the column types of all batches."""
        return table_over(self.source.typed())

    def typed_tables(self) -> Iterable[Table]:
        """Return a list of one table without rows, which shows the types of the columns in all batches."""
        return [self._typed]

    def large_integers(self) -> list[bool]:
        """Return a flag for each column: True if it holds integers that floats cannot represent exactly.

        Only columns of 64-bit integers are read.
        """
        wide = [index for index, column in enumerate(self._typed.arrays) if is_wide_integer(column)]
        is_large = [False] * len(self)
        for _, part in parts_of(self.source.select(self.source.columns[index] for index in wide)) if wide else ():
            for index, flag in zip(wide, table_over(part).large_integers(), strict=True):
                is_large[index] |= flag
        return is_large

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return the sorted categories of the columns at these indices, which are cached; None for other columns."""
        needed = [index for index in columns if index not in self._learned]
        if needed:
            categories: dict[int, set[Any]] = {index: set() for index in needed}
            for _, part in parts_of(self.source.select(self.source.columns[index] for index in needed)):
                learned = table_over(part).learn_categories(list(range(len(needed))), n_threads)
                for index, values in zip(needed, learned, strict=True):
                    categories[index].update(values or ())
            self._learned |= {
                index: sorted_categories(list(values), self.name(index)) for index, values in categories.items()
            }
        return [self._learned[index] if index in columns else None for index in range(len(self))]

    def matched(self, names: list[Any] | None) -> StreamedTable:
        """Return a table that reads only the named columns, in this order; raise ValueError if one is missing."""
        if names is None:
            return self
        self._typed.matched(names)  # raises an error that names missing columns
        return StreamedTable(self.source.select(names))


def move_positions(column: NDArray[Any], old: list[Any], new: list[Any], first: int = 0) -> None:
    """Map category positions in the list `old` to positions in the list `new`, which contains `old`, in place.

    Positions start at `first`; smaller values stand for missing values and stay unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> column = np.array([0, 1, np.nan])
    >>> move_positions(column, ["b", "a"], ["a", "b", "c"])
    >>> column
    array([ 1.,  0., nan])
    """
    new_position = {value: position for position, value in enumerate(new, first)}
    moved = np.array([new_position[value] for value in old], dtype=column.dtype)
    is_there = column >= first
    column[is_there] = moved[column[is_there].astype(np.intp) - first]
