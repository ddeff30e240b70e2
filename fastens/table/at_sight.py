"""Categories that become known while rows are counted, so that a table in batches need be read but once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.parts import RowSource, parts_of
from fastens.table.columns.factorize import is_missing, sorted_categories
from fastens.table.parted import StreamedTable, table_of_part
from fastens.table.tables import Table


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
