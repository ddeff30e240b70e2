"""Times that may be censored, from any way to give them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from fastens.table.columns.vectors import unmasked
from fastens.table.frames import is_frame, table_from_frame
from fastens.warn import warn

Array = NDArray[np.float64]

# The one way to give events that both losses read.
_EVENTS = "Give events and times by name: a structured array or a table with the columns 'event' and 'time'."


def read_times(y: Any) -> Array:
    """Bounds of times, from any way to give them, (n_rows, 2); equal where the time was observed.

    Of rows that have a weight `checked_times` looks at what they are.

    Parameters
    ----------
    y : structured array, table or array
        A structured array or a table with columns "event" and "time", or with a boolean column for events and one for
        times; or with columns "lower" and "upper"; an array of two columns, the bounds; or a vector of times that were
        all observed.
    """
    if str(getattr(y, "dtype", "")).startswith("Struct"):  # a column of polars
        y = y.struct.unnest()
    if is_frame(y):
        names = table_from_frame(y).names
        return _from_columns({str(name): np.asarray(y[name]) for name in (y.columns if names is None else names)})
    if type(y).__name__ == "RecordBatch":
        return _from_columns({name: np.asarray(y.column(name)) for name in y.schema.names})
    array = unmasked(y, "y")
    if array.dtype.names:
        return _from_columns({name: array[name] for name in array.dtype.names})
    if array.ndim == 2 and array.shape[1] == 2:
        _check_no_flags(y, array)
        return _checked_bounds(_floats(array))
    if array.ndim == 2 and array.shape[1] > 2:
        raise ValueError(f"y must have one column, or two for bounds; got {array.shape[1]}.")
    given = column_or_1d(array, warn=True)
    if given.dtype == bool or (given.dtype == object and any(isinstance(each, bool | np.bool_) for each in given)):
        raise ValueError(
            f"y must hold times, and may hold events in a column of their own; got only True or False. {_EVENTS}"
        )
    time = _floats(given)
    return np.column_stack([time, time])


def _check_no_flags(y: Any, bounds: NDArray[Any]) -> None:
    """Raise ValueError for pairs of which one is True or False, which NumPy makes the bounds 1 and 0."""
    if isinstance(y, np.ndarray) and bounds.dtype != object:
        return
    pairs = np.asarray(y, dtype=object)
    if pairs.ndim == 2 and any(isinstance(value, bool | np.bool_) for value in pairs.ravel()):
        raise ValueError(
            f"y must hold lower and upper bounds where its columns have no names; got True or False. {_EVENTS}"
        )


def _checked_bounds(bounds: Array) -> Array:
    """The bounds; ValueError where one of the columns without names may hold events.

    Bounds with an infinite end, or with two equal columns, cannot be an event and a time.
    """
    flags = np.isin(bounds, (0, 1)).all(axis=0)
    if not flags.any() or np.isinf(bounds).any() or np.array_equal(bounds[:, 0], bounds[:, 1]):
        return bounds
    raise ValueError(
        "y must hold lower and upper bounds where its columns have no names; got only 0 and 1 in column "
        f"{int(flags.argmax())}, which reads like events. {_EVENTS} If these are bounds, name them 'lower' and 'upper'."
    )


def _from_columns(columns: dict[str, NDArray[Any]]) -> Array:
    names = sorted(columns)
    if names == ["lower", "upper"]:
        return np.column_stack([_floats(columns["lower"]), _floats(columns["upper"])])
    flags = [name for name, values in columns.items() if values.dtype == bool]
    event = "event" if names == ["event", "time"] else flags[0] if len(flags) == 1 else None
    if len(names) != 2 or event is None:
        raise ValueError(
            "y must have a boolean column for events and one of times, or columns 'event' and 'time', or 'lower' and "
            f"'upper'; got the columns {list(columns)}."
        )
    happened, time = _floats(columns[event]), _floats(columns[next(name for name in names if name != event)])
    wrong = np.flatnonzero(~np.isin(happened, (0, 1)) & ~np.isnan(happened))
    if len(wrong):
        raise ValueError(
            f"y must hold 0 or 1, or True or False, in its column {event!r} of events; got {happened[wrong[0]]:g} in "
            f"row {wrong[0]}."
        )
    return np.column_stack([time, np.where(happened == 0, np.inf, np.where(happened == 1, time, np.nan))])


def _floats(values: NDArray[Any]) -> Array:
    if values.dtype.kind in "cUSmM":
        raise ValueError(f"y must hold real numbers; it holds {values.dtype}.")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold real numbers: {error}") from error


def check_no_events(y: Any, sample_weight: Any) -> None:
    """Raise ValueError, or warn for numbers, where the events of a vector of times are given as weights."""
    if sample_weight is None or y is None or is_frame(y):
        return
    weight, times = unmasked(sample_weight, "sample_weight"), unmasked(y, "y")
    if times.dtype.names or times.shape[1:] not in ((), (1,)):
        return
    if weight.dtype == bool:
        raise ValueError(f"sample_weight must hold numbers where y holds only times; got booleans. {_EVENTS}")
    if weight.shape == times.shape[:1] and np.isin(weight, (0, 1)).all() and np.ptp(weight) == 1:
        warn(f"sample_weight holds only 0 and 1; rows of weight 0 are left out. If these are events: {_EVENTS}")


def checked_times(bounds: Array, rows: Array) -> Array:
    """Bounds that make sense, of rows of these numbers; a lower one below 0 is 0."""
    low, high = np.maximum(bounds[:, 0], 0.0), bounds[:, 1]
    if np.isnan(bounds).any() or np.isinf(low).any():
        raise ValueError("Input y contains " + ("NaN." if np.isnan(bounds).any() else "infinity."))
    wrong = np.flatnonzero((high < low) | (high < 0))
    if len(wrong):
        found, row = bounds[wrong[0]].tolist(), int(rows[wrong[0]])
        raise ValueError(
            f"y must hold times that are not negative, lower bounds first; got {found} in row {row}. {_EVENTS}"
        )
    return np.column_stack([low, high])
