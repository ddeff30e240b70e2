"""The input of estimators: a table of any kind, and the columns of it that are targets and weights."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fastens.engine.parts import RowSource
from fastens.table.columns.arrays import checked_array
from fastens.table.sources import Batches, is_source, is_stream, open_batches
from fastens.table.streamed import StreamedTable
from fastens.table.tables import PartedTable, Table, is_frame, is_plain, table_from_array, table_from_frame


def open_table(X: Any, owner: str, fewest: int = 1) -> Table:
    """Return a table over an array, a frame, a sparse matrix, a row source or what `open_batches` takes.

    ValueError for one of fewer rows.
    """
    return Table(X, array=X) if is_plain(X) else with_rows(_opened(X, owner, fewest), fewest)


def _opened(X: Any, owner: str, fewest: int) -> Table:
    if is_frame(X):
        return table_from_frame(X)
    if is_source(X):
        X = open_batches(X)
    if isinstance(X, RowSource):
        return StreamedTable(X) if isinstance(X, Batches) else PartedTable(X)
    array = checked_array(X, owner, fewest)
    return table_from_array(array) if isinstance(array, np.ndarray) else Table(array, array=array)


def with_rows(table: Table, fewest: int = 1) -> Table:
    """Return the table; ValueError for one of fewer rows or without columns, as scikit-learn words it."""
    shape = table.n_rows, len(table)
    for count, needed, what in zip(shape, (fewest, 1), ("sample(s)", "feature(s)"), strict=True):
        if count < needed:
            raise ValueError(f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required.")
    return table


def split_columns(X: Any, **given: Any) -> list[Any]:
    """Return a table without the columns that arguments name, and the arguments: the columns, or what was given.

    Examples
    --------
    >>> import pandas as pd
    >>> from fastens.table.opening import split_columns
    >>> X, y, sample_weight = split_columns(pd.DataFrame({"a": [1, 2], "b": [0, 1]}), y="b", sample_weight=None)
    >>> list(X), y, sample_weight
    (['a'], array([0, 1]), None)
    """
    names = {what: name for what, name in given.items() if isinstance(name, str)}
    if not names:
        return [open_batches(X) if is_stream(X) else X, *given.values()]
    if is_source(X):
        X = open_batches(X)
    frame: Any = X if isinstance(X, Batches) else nw.from_native(X, eager_only=True) if is_frame(X) else None
    for what, name in names.items():
        if frame is None:
            raise ValueError(f"{what} must be an array where X has no names of columns; got {name!r}.")
        if name not in frame.columns:
            raise ValueError(f"{what} must name a column of X; got {name!r}, and the columns are {frame.columns}.")
    rest = frame.select([name for name in frame.columns if name not in names.values()])
    chosen = list(dict.fromkeys(names.values()))
    columns = frame.values_of(chosen) if isinstance(frame, Batches) else [frame[name].to_numpy() for name in chosen]
    values = dict(zip(chosen, columns, strict=True))
    found = [values[names[what]] if what in names else value for what, value in given.items()]
    return [rest if isinstance(frame, Batches) else rest.to_native(), *found]
