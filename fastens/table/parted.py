"""Tables that are read part by part, as the input encoder reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastens.cached import cached_property
from fastens.engine.parts import RowSource, parts_of
from fastens.table.arrays import ArrayTable
from fastens.table.columns.dates import column_and_part
from fastens.table.columns.factorize import sorted_categories
from fastens.table.frames import is_frame, table_from_frame
from fastens.table.sources import Batches
from fastens.table.tables import Table, joined_kinds


def table_of_part(part: Any) -> Table:
    """Return a table over a part of a row source: a frame or an array."""
    return table_from_frame(part) if is_frame(part) else ArrayTable(part)


class PartedTable(Table):
    """A table whose parts are frames or arrays with the same columns.

    A column is categorical if it is in any part; its categories are those of all parts.
    """

    def __init__(self, source: RowSource, names: list[str] | None = None, *, has_date_parts: bool = False) -> None:
        super().__init__(source, names)
        self.array = None if source.dtype is None else source
        self._has_date_parts = has_date_parts
        if names is None and self.array is None:
            self.names = next((table.names for table in self.tables()), None)

    def __len__(self) -> int:
        return self.source.shape[1] if self.names is None else len(self.names)

    @property
    def limits(self) -> Any:
        """How much memory a fit may take."""
        return self.source.limits

    def tables(self) -> Iterator[Table]:
        """Yield the parts as tables."""
        for _, part in parts_of(self.source):
            yield self._as_table(part)

    def _as_table(self, part: Any) -> Table:
        table = table_of_part(part)
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

    def categorical_by_type(self) -> list[bool | None]:
        """Return which columns are categorical in any part."""
        return joined_kinds([table.categorical_by_type() for table in self.tables()])

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return for each column its sorted categories, None for columns not requested."""
        if not columns:
            return [None] * len(self)
        return self.joined_categories([table.learn_categories(columns, n_threads) for table in self.tables()])


class StreamedTable(PartedTable):
    """A table whose columns have the same types in all batches, so that few questions need a pass over the rows."""

    source: Batches

    def __init__(self, source: Batches, names: list[str] | None = None, *, has_date_parts: bool = False) -> None:
        super().__init__(source, source.columns if names is None else names, has_date_parts=has_date_parts)
        self._learned: dict[int, list[Any]] = {}

    @cached_property
    def _typed(self) -> Table:
        return self._as_table(self.source.typed())

    def with_date_parts(self) -> StreamedTable:
        """Return the table with parts in the place of each column of dates; itself where there are none."""
        names = self._typed.with_date_parts().names
        return self if names == self.names else StreamedTable(self.source, names, has_date_parts=True)

    def chosen_names(self, categorical_features: Any) -> Any:
        """Return the choice by names."""
        return self._typed.chosen_names(categorical_features)

    def categorical_by_type(self) -> list[bool | None]:
        """Return which columns are categorical by their type."""
        return self._typed.categorical_by_type()

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return for each column its sorted categories, None for columns not requested."""
        names = {index: self.name_of(index) for index in columns if index not in self._learned}
        if names:
            found: dict[int, set[Any]] = {index: set() for index in names}
            needed = dict.fromkeys(self._column_behind(name) for name in names.values())
            for _, part in parts_of(self.source.select(needed)):
                table = self._as_table(part)
                places = [(table.names or []).index(name) for name in names.values()]
                learned = table.learn_categories(places, n_threads)
                for index, place in zip(names, places, strict=True):
                    found[index].update(learned[place] or ())
            self._learned |= {index: sorted_categories(list(own), self.name(index)) for index, own in found.items()}
        return [self._learned[index] if index in columns else None for index in range(len(self))]

    def name_of(self, index: int) -> str:
        """Return the name of a column, or of a part of dates."""
        assert self.names is not None
        return self.names[index]

    def _column_behind(self, name: str) -> str:
        return name if name in self.source.columns else (column_and_part(name) or (name,))[0]

    def matched(self, names: list[str] | None) -> StreamedTable:
        """Return the table with these features, of which the columns behind them are read."""
        if names is None:
            return self
        needed = {self._column_behind(name) for name in names}
        source = self.source.select(name for name in self.source.columns if name in needed)
        return StreamedTable(source, names, has_date_parts=not set(names) <= needed)
