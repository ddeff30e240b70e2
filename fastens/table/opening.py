"""Anything that an estimator takes, opened as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fastens.engine.parts import RowSource, parts_of
from fastens.table.columns.arrays import checked_array
from fastens.table.columns.factorize import sorted_categories
from fastens.table.columns.numbers import FLOATS
from fastens.table.tables import Table, is_frame, table_from_array, table_from_frame

_FLOAT64, _FLOAT32 = FLOATS


def is_plain(X: Any) -> bool:
    """Whether `X` is already what the engine reads: a NumPy matrix of native floats that is not empty."""
    return (
        type(X) is np.ndarray
        and (X.dtype is _FLOAT64 or X.dtype is _FLOAT32)
        and X.ndim == 2
        and X.size > 0
        and X.flags.aligned
    )


def open_table(X: Any, owner: str) -> Table:
    """Return a table over an array, a frame, a sparse matrix or a row source; errors name the estimator `owner`."""
    if is_plain(X):
        return Table(X, array=X)
    if is_frame(X):
        return with_rows(table_from_frame(X))
    if isinstance(X, RowSource):
        return with_rows(PartedTable(X))
    array = checked_array(X, owner)
    return table_from_array(array) if isinstance(array, np.ndarray) else Table(array, array=array)


def with_rows(table: Table) -> Table:
    """Return the table; ValueError for one without rows or columns, as scikit-learn words it."""
    shape = table.n_rows, len(table)
    for count, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required.")
    return table


class PartedTable(Table):
    """A table that is read part by part: frames or arrays with the same columns.

    A column is categorical where its type says so in any part; its categories are those of all parts.
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
            table = table_from_frame(part) if is_frame(part) else table_from_array(part)
            yield table.with_date_parts() if self._has_date_parts else table

    def with_date_parts(self) -> Table:
        """Return the table with parts in the place of each column of dates; itself where there are none."""
        if self.names is None:
            return self
        names = [table.with_date_parts().names for table in self.tables()]
        if any(each != names[0] for each in names):
            raise ValueError(f"X must have the same columns in all its parts; got {names[0]} and others.")
        return self if names[0] == self.names else PartedTable(self.source, names[0], has_date_parts=True)

    def categorical_columns(self) -> list[bool]:
        """Return which columns are categorical in any part."""
        return np.any([table.categorical_columns() for table in self.tables()], axis=0).tolist()

    def learn_categories(self, columns: list[int], n_threads: int = 1) -> list[list[Any] | None]:
        """Return for each column its sorted categories, None for those that are not asked for."""
        found: list[list[Any] | None] = [None] * len(self)
        if columns:
            parts = [table.learn_categories(columns, n_threads) for table in self.tables()]
            for index in columns:
                values = [value for part in parts for value in part[index] or []]
                found[index] = sorted_categories(values, self.name(index))
        return found
