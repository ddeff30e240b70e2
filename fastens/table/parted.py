"""Tables that are read part by part, as the input encoder reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fastens.cached import cached_property
from fastens.engine.parts import RowSource, parts_of
from fastens.table.arrays import ArrayTable
from fastens.table.columns.factorize import sorted_categories
from fastens.table.columns.numbers import is_wide_integer
from fastens.table.frames import is_frame, table_from_frame
from fastens.table.sources import Batches
from fastens.table.tables import Table, joined_dates, joined_kinds


def table_of_part(part: Any) -> Table:
    """Return a table over a part of a row source: a frame or an array."""
    return table_from_frame(part) if is_frame(part) else ArrayTable(part)


class PartedTable(Table):
    """A table whose parts are frames or arrays with the same columns.

    A column is categorical if it is in any part; its categories are those of all parts.
    """

    def __init__(self, source: RowSource, names: list[Any] | None = None) -> None:
        super().__init__(source, names)
        self.array = None if source.dtype is None else source
        if names is None and self.array is None:
            self.names = next((table.names for table in self.tables()), None)

    def __len__(self) -> int:
        if self.source.is_coded:  # whose codes may be of more columns than were given
            return len(self.source.encoder.categories)
        return self.source.shape[1] if self.names is None else len(self.names)

    @property
    def limits(self) -> Any:
        """How much memory a fit may take."""
        return self.source.limits

    def tables(self) -> Iterator[Table]:
        """Yield the parts as tables."""
        for _, part in parts_of(self.source):
            yield table_of_part(part)

    def dates(self) -> dict[int, tuple[str, ...]]:
        """Return the columns of dates, each with the parts that may be informative in any part of the table."""
        return {} if self.names is None else joined_dates([table.dates() for table in self.tables()])

    def categorical_by_type(self) -> list[bool | None]:
        """Return which columns are categorical in any part."""
        return joined_kinds([table.categorical_by_type() for table in self.tables()])

    def large_integers(self) -> list[bool]:
        """Return which columns hold integers that are not exact as floats in any part."""
        return np.any([table.large_integers() for table in self.tables()], axis=0).tolist()

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return for each column its sorted categories, None for columns not requested."""
        if not columns:
            return [None] * len(self)
        return self.joined_categories([table.learn_categories(columns, n_threads) for table in self.tables()])


class StreamedTable(PartedTable):
    """A table whose columns have the same types in all batches, so that few questions need a pass over the rows."""

    source: Batches

    def __init__(self, source: Batches) -> None:
        super().__init__(source, source.columns)
        self._learned: dict[int, list[Any]] = {}

    @cached_property
    def _typed(self) -> Table:
        return table_of_part(self.source.typed())

    def dates(self) -> dict[int, tuple[str, ...]]:
        """Return the columns of dates, each with the parts that may be informative."""
        return self._typed.dates()

    def categorical_by_type(self) -> list[bool | None]:
        """Return which columns are categorical by their type."""
        return self._typed.categorical_by_type()

    def large_integers(self) -> list[bool]:
        """Return which columns hold integers that are not exact as floats; only 64-bit integers are read for it."""
        wide = [index for index, column in enumerate(self._typed.arrays) if is_wide_integer(column)]
        found = [False] * len(self)
        for _, part in parts_of(self.source.select(self.source.columns[index] for index in wide)) if wide else ():
            for index, flag in zip(wide, table_of_part(part).large_integers(), strict=True):
                found[index] |= flag
        return found

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return for each column its sorted categories, None for columns not requested."""
        needed = [index for index in columns if index not in self._learned]
        if needed:
            found: dict[int, set[Any]] = {index: set() for index in needed}
            for _, part in parts_of(self.source.select(self.source.columns[index] for index in needed)):
                learned = table_of_part(part).learn_categories(list(range(len(needed))), n_threads)
                for index, own in zip(needed, learned, strict=True):
                    found[index].update(own or ())
            self._learned |= {index: sorted_categories(list(own), self.name(index)) for index, own in found.items()}
        return [self._learned[index] if index in columns else None for index in range(len(self))]

    def matched(self, names: list[Any] | None) -> StreamedTable:
        """Return the table with these columns, which alone are read."""
        if names is None:
            return self
        self._typed.matched(names)  # or an error says which are missing
        return StreamedTable(self.source.select(names))
