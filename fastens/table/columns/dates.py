"""Dates, durations and times of day as numbers, consistently for all table libraries.

Dates with a time zone are converted to UTC; dates without one count as UTC.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.table.columns.factorize import Factorized, category_of, fault, is_missing

DAY, MONTH, DAY_OF_MONTH, WEEKDAY, HOUR = PARTS = ("day", "month", "day of month", "weekday", "hour")
CALENDAR = PARTS[:-1]  # parts of dates without a time of day
SECONDS_PER_DAY = 86400
_MAX_SECONDS = 2.0**62
_NAT = np.iinfo(np.int64).min
_THURSDAY = 3  # the weekday of 1970-01-01
_PERIOD = "Period"  # type name in pandas
_PERIODS_OF_ARROW = "extension<pandas.period"
_NO_DATES = ("StringDtype", "CategoricalDtype")  # pandas types whose text form is slow to build

Floats = NDArray[np.float64]


# Names of parts --------------------------------------------------


def part_name(column: str, part: str) -> str:
    """Return the name of the feature that holds a part of a date column."""
    return f"{column}: {part}"


# Numbers --------------------------------------------------


def date_parts(dates: NDArray[np.datetime64], parts: Collection[str]) -> dict[str, Floats]:
    """Return parts of dates as numbers that a tree can split, by the name of the part.

    The day since 1970, including its fraction, captures trends. The month (1 to 12), the day of the month, the weekday
    (0 is Monday) and the hour capture seasonality. Parts of missing dates are NaN.
    """
    instants = dates.astype("M8[s]")
    seconds, days, months = instants.astype(np.int64), instants.astype("M8[D]"), instants.astype("M8[M]")
    whole = {
        MONTH: lambda: months.astype(np.int64) % 12 + 1,
        DAY_OF_MONTH: lambda: (days - months.astype("M8[D]")).astype(np.int64) + 1,
        WEEKDAY: lambda: (days.astype(np.int64) + _THURSDAY) % 7,
        HOUR: lambda: seconds % SECONDS_PER_DAY // 3600,
    }
    is_known = ~np.isnat(dates)
    features = {part: np.where(is_known, make(), np.nan) for part, make in whole.items() if part in parts}
    return {part: elapsed_days(dates) if part == DAY else features[part] for part in PARTS if part in parts}


def elapsed_days(dates: NDArray[np.datetime64]) -> Floats:
    """Return days since 1970 with their fraction, or NaN for missing dates."""
    instants = dates.astype("M8[s]")
    if dates.dtype == instants.dtype or np.datetime_data(dates.dtype)[0] in "YMWDhm":
        seconds = instants.astype(np.float64)
    else:
        seconds = instants.astype(np.float64) + (dates - instants) / np.timedelta64(1, "s")
    return np.where(np.isnat(dates), np.nan, seconds / SECONDS_PER_DAY)


def seconds_of(durations: NDArray[np.timedelta64]) -> Floats:
    """Return durations in seconds, or NaN for missing values."""
    return durations / np.timedelta64(1, "s")


# Columns --------------------------------------------------


def is_temporal(dtype: Any) -> bool:
    """Return True if a dtype of NumPy, pandas, polars or Arrow represents dates, durations or times of day."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in "mM"
    return re.match(f"(date|time|duration|period|{_PERIODS_OF_ARROW})", str(dtype).lower()) is not None


def parts_to_learn(column: Any) -> tuple[str, ...]:
    """Return the names of the date parts that a column's type or objects can have; empty if it holds no dates."""
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype):
        return PARTS if dtype.kind == "M" else _parts_of_objects(column) if dtype.kind == "O" else ()
    if type(dtype).__name__ in _NO_DATES:
        return ()
    name = str(getattr(column, "type", None) if dtype is None else dtype).lower()
    if name == "object":
        return _parts_of_objects(column)
    if re.match(f"(datetime|timestamp|period|{_PERIODS_OF_ARROW})", name):
        return PARTS
    return CALENDAR if name.startswith("date") else ()


def _parts_of_objects(values: Iterable[Any]) -> tuple[str, ...]:
    """Return the names of the date parts of objects; empty unless the first object that is not missing is a date.

    The hour is included unless all objects are dates without a time.
    """
    if not _is_date(_first_present(values)):
        return ()
    return CALENDAR if all(type(value) is datetime.date or is_missing(value) for value in values) else PARTS


def holds_objects_of_time(values: Iterable[Any]) -> bool:
    """Return True if the first object that is not missing is a date, a duration or a time of day."""
    first = _first_present(values)
    return _is_date(first) or _is_duration(first)


def _first_present(values: Iterable[Any]) -> Any:
    """Return the first value that is not missing, or None."""
    return next((value for value in values if not is_missing(value)), None)


def times_of(column: Any, name: str) -> NDArray[Any]:
    """Return a date column as datetime64, or a column of durations or times of day as timedelta64.

    Parameters
    ----------
    column : object
        Column of any table library, of objects or of a type for which `is_temporal` is True.
    name : str
        Name of the column in error messages.
    """
    values = _as_numpy(column)
    if values.dtype.kind == "O":
        values = _objects_as_times(values, name)
    unit = np.datetime_data(values.dtype)[0]
    if values.dtype.kind == "m" and unit in ("Y", "M", "generic"):
        raise ValueError(f"Column {name} must hold durations in days or other units of fixed length; got {unit!r}.")
    if unit in "YMWDhm" and not np.array_equal(
        values.astype(f"{values.dtype.kind}8[s]").astype(values.dtype), values, equal_nan=True
    ):
        raise ValueError(f"Column {name} must hold dates and durations that fit into 64-bit seconds.")
    return values


def _as_numpy(column: Any) -> NDArray[Any]:
    """Return a column of dates, durations or times of any library as a NumPy array."""
    if isinstance(column, np.ndarray):
        return column
    dtype = column.dtype if hasattr(column, "dtype") else column.type
    if str(dtype).startswith(_PERIODS_OF_ARROW):
        column = column.to_pandas()
        dtype = column.dtype
    if type(dtype).__name__ == "PeriodDtype":
        column = getattr(column, "array", column).to_timestamp()
        dtype = column.dtype
    if type(dtype).__name__ == "DatetimeTZDtype":
        return np.asarray(column, dtype=f"M8[{dtype.unit}]")
    if hasattr(dtype, "pyarrow_dtype"):
        column = getattr(column, "array", column).__arrow_array__()
    if hasattr(column, "type"):  # an Arrow column
        return _arrow_as_numpy(column)
    return column.to_numpy()


def _arrow_as_numpy(column: Any) -> NDArray[Any]:
    """Return an Arrow column of dates, durations or times of day as a NumPy array."""
    of_day = re.match(r"time(32|64)\[(\w+)\]", str(column.type))
    if of_day is not None:
        column = column.cast(f"int{of_day[1]}").cast("int64").cast(f"duration[{of_day[2]}]")
    return column.to_numpy(zero_copy_only=False) if hasattr(column, "buffers") else column.to_numpy()


def _objects_as_times(values: NDArray[np.object_], name: str) -> NDArray[Any]:
    """Return objects that are all dates, or all durations and times of day, as an array; others raise ValueError."""
    objects = values.tolist()
    are_dates = _is_date(_first_present(objects))
    kind, what, is_one, as_number = (
        ("M8[us]", "dates", _is_date, _as_instant) if are_dates else ("m8[us]", "durations", _is_duration, _as_duration)
    )
    out = np.full(len(objects), "NaT", dtype=kind)
    for row, value in enumerate(objects):
        if not is_missing(value):
            if not is_one(value):
                raise fault(name, what, row, value)
            try:
                out[row] = as_number(value)
            except (OverflowError, ValueError) as error:
                raise fault(name, f"{what} that fit into 64 bits", row, value) from error
    return out


def _is_date(value: Any) -> bool:
    """Return True for a date, a datetime or a pandas Period."""
    return isinstance(value, datetime.date | np.datetime64) or type(value).__name__ == _PERIOD


def _is_duration(value: Any) -> bool:
    """Return True for a duration or a time of day."""
    return isinstance(value, datetime.timedelta | np.timedelta64 | datetime.time)


def _as_instant(value: Any) -> np.datetime64:
    """Return a date, a datetime (converted to UTC) or the start of a period as datetime64 in microseconds."""
    value = getattr(value, "start_time", value)  # a period is represented by its start
    if getattr(value, "tzinfo", None) is None:
        return np.datetime64(value, "us")
    instant: Any = np.datetime64(value.replace(tzinfo=None), "us") - np.timedelta64(value.utcoffset(), "us")
    return instant


def date_of(value: Any) -> NDArray[np.datetime64]:
    """Return a date, or a text in ISO 8601, as a datetime64 array without dimensions.

    Raises TypeError or ValueError for other values.
    """
    return np.array(_as_instant(value if _is_date(value) else datetime.datetime.fromisoformat(value)))


def _as_duration(value: Any) -> np.timedelta64:
    """Return a duration, or the time of day since midnight, as timedelta64 in microseconds."""
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(datetime.date.min, value.replace(tzinfo=None)) - datetime.datetime.min
    if isinstance(value, np.timedelta64):
        return np.timedelta64(value, "us")
    # The conversion of NumPy wraps around beyond 64 bits.
    return np.timedelta64(value // datetime.timedelta(microseconds=1), "us")


def dates_of_texts(values: Iterable[Any], name: str) -> NDArray[np.datetime64]:
    """Return the dates of texts in ISO 8601, such as 2024-02-29 or 2024-02-29T18:30:00+01:00.

    Raises ValueError that names the column and the row for other texts.
    """
    out = []
    for row, value in enumerate(values):
        try:
            out.append(np.datetime64("NaT") if is_missing(value) else date_of(value))
        except (TypeError, ValueError) as error:
            raise fault(name, "dates", row, value) from error
    return np.array(out, dtype="M8[us]")


# Columns of dates in fit --------------------------------------------------


def days_of_series(column: nw.Series, name: str) -> Floats:
    """Return a column of a frame that held dates in `fit` as days since 1970, including fractions of a day.

    Raises ValueError, which names the column by `name`, unless it holds dates or texts in ISO 8601.
    """
    native = column.to_native()
    if parts_to_learn(native):
        return elapsed_days(times_of(native, name))
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    values = column.to_list() if column.dtype in (nw.String, nw.Categorical, nw.Enum, nw.Object) else None
    if values is None:
        raise ValueError(f"Column {name} must hold dates, as in fit; it holds {column.dtype}.")
    if _is_date(_first_present(values)):  # the categories are dates
        return elapsed_days(times_of(np.array(values, dtype=object), name))
    return elapsed_days(dates_of_texts(values, name))


def append_date_parts(rows: NDArray[Any], parts: Sequence[tuple[int, str]]) -> NDArray[Any]:
    """Return numeric rows with a column appended for each pair of a column index and a date part, such as "month".

    The columns at these indices hold days since 1970.
    """
    out = np.empty((len(rows), rows.shape[1] + len(parts)), dtype=rows.dtype, order="F")
    out[:, : rows.shape[1]] = rows
    of_columns: dict[int, list[str]] = {}
    for column, part in parts:
        of_columns.setdefault(column, []).append(part)
    for column, part_names in of_columns.items():
        made = date_parts(instants_of(rows[:, column]), part_names)
        for position, pair in enumerate(parts, rows.shape[1]):
            if pair[0] == column:
                out[:, position] = made[pair[1]]
    return out


def instants_of(days: NDArray[Any]) -> NDArray[np.datetime64]:
    """Return days since 1970 as datetime64 in seconds; NaN and days that are out of range become NaT."""
    seconds = days.astype(np.float64) * SECONDS_PER_DAY
    whole = np.rint(seconds)
    # Rounding errors of the fraction of a day must not turn a full hour into the hour before.
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        is_whole = np.abs(seconds - whole) <= 4 * np.spacing(np.abs(seconds))
    seconds = np.where(is_whole, whole, np.floor(seconds))
    is_known = np.abs(seconds) < _MAX_SECONDS  # excludes NaN
    return np.where(is_known, np.where(is_known, seconds, 0).astype(np.int64), _NAT).astype("M8[s]")


def factorize_dates(column: Any, name: str) -> Factorized:
    """Return a date column as codes and sorted texts, in the format in which pandas prints dates as categories."""
    times = times_of(column, name)
    distinct, codes = np.unique(times, return_inverse=True)
    return Factorized(codes, [None if np.isnat(value) else category_of(value) for value in distinct])
