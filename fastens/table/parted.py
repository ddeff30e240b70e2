"""Tables in parts, and encoders that learn categories while a table is read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.cached import cached_property
from fastens.engine.parts import RowSource, parts_of
from fastens.table.columns.factorize import is_missing, sorted_categories
from fastens.table.columns.numbers import is_wide_integer
from fastens.table.sources import Batches
from fastens.table.tables import ArrayTable, Table, is_frame, joined_dates, joined_kinds, table_from_frame


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


class AtSight(RowSource):
    """The rows of a table in batches; in the first pass a category's position is that of its first sight.

    When all rows have been read, the categories of the encoder are sorted, and so are positions in later passes. What
    was counted in the first pass is moved from the order `given` to that of the encoder.

    Parameters
    ----------
    table : StreamedTable
        With parts in the place of dates.
    encoder : InputEncoder
        Its lists of categories are empty, and filled here.

    Attributes
    ----------
    given : list
        For each column its categories in the order of the positions of the last pass; None for numbers.
    is_known : bool
        Whether all rows have been read.
    on_categories : function of lists of categories
        Called with those of all columns where there are new ones in the first pass.
    """

    def __init__(self, table: StreamedTable, encoder: Any) -> None:
        self.table, self.encoder = table, encoder
        self.shape = table.n_rows, len(table)
        self.given = encoder.categories
        self.is_known = False
        self.kind, self.value_bytes = table.source.kind, table.source.value_bytes
        self.on_categories: Callable[[list[Any]], Any] = lambda _: None

    def parts(self) -> Iterator[Any]:
        """Yield the rows of each batch as floats."""
        return self._encoded(self.encoder.transform)

    def codes(self, n_threads: int = 1) -> NDArray[np.unsignedinteger]:
        """Return the codes of `InputEncoder.codes` of all rows, which are read once."""
        out = np.zeros(self.shape, np.uint8, order="F")
        start = 0
        for part in self._encoded(lambda table: self.encoder.codes(table, n_threads)):
            out = out.astype(np.promote_types(out.dtype, part.dtype), order="F", copy=False)
            out[start : start + len(part)] = part
            start += len(part)
        return self._in_order(out, 1)

    def whole(self) -> NDArray[np.floating]:
        """Return all rows as one array, read once."""
        parts = list(self.parts())
        return self._in_order(np.concatenate(parts), 0)

    def read(self) -> None:
        """Read all rows, so that the categories are known."""
        for _ in self.parts():
            pass

    def _encoded(self, encode: Callable[[Table], Any]) -> Iterator[Any]:
        encoder, known = self.encoder, self.is_known
        if not known:
            growing = {index: dict[Any, None]() for index in np.flatnonzero(encoder.is_categorical).tolist()}
            encoder.categories = [None if found is None else [] for found in encoder.categories]
        self.given = encoder.categories
        for _, part in parts_of(self.table.source):
            table = table_of_part(part).matched(encoder.names)
            if not known and self._see(table, growing):
                self.on_categories(encoder.categories)
            yield encode(table)
        if not known:
            self._sort()

    def _see(self, table: Table, growing: dict[int, dict[Any, None]]) -> bool:
        """Add the categories of a part to those seen so far; whether there are new ones."""
        is_any_new = False
        for index, own in growing.items():
            n_before = len(own)
            own.update((value, None) for value in table.read(index).present() if not is_missing(value))
            if len(own) > n_before:
                self.encoder.categories[index], is_any_new = list(own), True
        return is_any_new

    def _sort(self) -> None:
        """Put the categories of the encoder in order."""
        self.is_known = True
        pairs = enumerate(self.given)
        found = [None if own is None else sorted_categories(own, self.table.name(index)) for index, own in pairs]
        self.encoder.categories = found

    def _in_order(self, rows: NDArray[Any], first: int) -> NDArray[Any]:
        """Put positions of the last pass, counted from `first`, in the order of the categories."""
        for index, (old, new) in enumerate(zip(self.given, self.encoder.categories, strict=True)):
            if old and new and old != new:
                move_positions(rows[:, index], old, new, first)
        return rows


def move_positions(column: NDArray[Any], old: list[Any], new: list[Any], first: int = 0) -> None:
    """Put positions among categories in the order of another list that has them all; less than `first` is missing.

    Examples
    --------
    >>> import numpy as np
    >>> column = np.array([0, 1, np.nan])
    >>> move_positions(column, ["b", "a"], ["a", "b", "c"])
    >>> column
    array([ 1.,  0., nan])
    """
    place = {value: position for position, value in enumerate(new, first)}
    moved = np.array([place[value] for value in old], dtype=column.dtype)
    is_there = column >= first
    column[is_there] = moved[column[is_there].astype(np.intp) - first]
