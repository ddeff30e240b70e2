"""Frames whose columns of dates have become their parts, which are features of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.table.columns.dates import date_parts, dates_of_texts, part_name, parts_to_learn, times_of


def with_parts(frame: Any, parts: Mapping[str, Collection[str]]) -> nw.DataFrame:
    """A frame in which parts stand in the place of each column that has any.

    Parameters
    ----------
    frame : frame of pandas or of narwhals
        Its columns have distinct names.
    parts : dict of column names to parts
        Which parts of which columns.
    """
    frame = nw.from_native(frame, eager_only=True, pass_through=False)
    names = list(frame.columns)
    order, made = [], []
    for name in names:
        own = date_parts(_dates_of(frame.get_column(name), repr(name)), parts[name]) if name in parts else {}
        for part, values in own.items():
            if part_name(name, part) in names:
                raise ValueError(f"Column {part_name(name, part)!r} has the name of a part of the dates {name!r}.")
            made.append(nw.new_series(part_name(name, part), values, nw.Float64, backend=frame.implementation))
        order += [part_name(name, part) for part in own] if name in parts else [name]
    return frame.with_columns(*made).select(order)


def _dates_of(column: nw.Series, name: str) -> NDArray[np.datetime64]:
    """The dates of a column that must hold dates, or texts that are dates as ISO 8601 writes them."""
    native = column.to_native()
    if parts_to_learn(native):
        return times_of(native, name)
    if column.null_count() == len(column):
        return np.full(len(column), "NaT", dtype="M8[s]")
    values = column.to_list() if column.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object) else None
    if values is None:
        raise ValueError(f"Column {name} must hold dates, as in fit; it holds {column.dtype}.")
    return dates_of_texts(values, name)
