"""Conversion of columns and vectors of any type to numbers."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.parts import FLOATS
from fastens.table.columns.dates import elapsed_days, holds_objects_of_time, is_temporal, seconds_of, times_of
from fastens.table.columns.factorize import FactorizedColumn, factorize, fault, is_missing, shown, type_fault

Floats = NDArray[np.floating]
AnyColumn = Any  # a NumPy vector, a narwhals Series or a FactorizedColumn

EXACT = 1 << 53  # integers up to this absolute value are exact as floats
# Types that NumPy converts to floats element by element, with None as NaN.
_NUMBERS = (float, int, np.floating, np.integer, np.bool_, Decimal, Fraction, type(None))
_AS_NUMPY = (nw.Float64, nw.Float32, nw.Object)
WIDE = (nw.Int128, nw.UInt128)  # integer types that NumPy does not have
_NUMBER_TEXT = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)
# Arrow types that narwhals does not know.
_NESTED_OF_ARROW = re.compile(r"(large_)?list_view|(dense|sparse)_union|month_day_nano_interval")
_NO_NUMBERS = (bytes, bytearray, complex, np.complexfloating, np.ndarray)
ADVICE = "Encode it first, or add it to categorical_features if the estimator has that parameter."


def numbers_of(column: AnyColumn, name: str, *, takes_dates: bool = True) -> Floats:
    """Return a numeric column as floats with NaN for missing values.

    Integers beyond 2**53 are rounded to the nearest float. Dates become days since 1970; durations and times of day
    become seconds.

    Parameters
    ----------
    column : array, narwhals Series or FactorizedColumn
        Column to convert.
    name : str
        Name of the column in error messages.
    takes_dates : bool, default=True
        If True, dates become days. Otherwise dates raise an error.

    Raises
    ------
    ValueError, TypeError
        If a value is not a number. The message names the column, the row and the value.
    """
    if isinstance(column, FactorizedColumn):  # a string column in which all values are missing
        return np.full(len(column.codes), np.nan)
    if isinstance(column, nw.Series):
        return _series_as_numbers(column, name, takes_dates)
    if column.dtype.kind in "biuf":
        return column if column.dtype in FLOATS else column.astype(np.float64)
    if column.dtype.kind == "O":
        return _objects_as_numbers(column, name, takes_dates)
    if column.dtype.kind in "mM":
        return _times_as_numbers(column, name, takes_dates)
    if column.dtype.kind in "UT":
        return _texts_as_numbers(column, name)
    raise _not_numbers(name, column.dtype)


def _series_as_numbers(column: nw.Series, name: str, takes_dates: bool) -> Floats:
    """Return a narwhals column as floats, as in `numbers_of`."""
    dtype, native = column.dtype, column.to_native()
    native_dtype = getattr(native, "dtype", None)
    if _NESTED_OF_ARROW.match(str(getattr(native, "type", ""))):
        raise _not_numbers(name, native.type)
    is_object = native_dtype == np.object_  # narwhals infers the type from the first values only
    if is_object or dtype in _AS_NUMPY or (dtype.is_integer() and dtype not in WIDE):
        return numbers_of(column.to_numpy(), name, takes_dates=takes_dates)  # the cast of Arrow rejects large integers
    if dtype.is_numeric() or dtype == nw.Boolean:
        return column.cast(nw.Float64).to_numpy()
    if column.null_count() == len(column):
        return np.full(len(column), np.nan)
    if dtype.is_temporal() or is_temporal(native_dtype if native_dtype is not None else native.type):
        return _times_as_numbers(native, name, takes_dates)
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return _texts_as_numbers(native, name)
    if dtype == nw.Unknown and "binary" in str(getattr(native, "type", "")):  # narwhals knows only one binary type
        raise _not_numbers(name, native.type)
    if dtype == nw.Unknown:
        return numbers_of(column.to_numpy(), name, takes_dates=takes_dates)
    raise _not_numbers(name, dtype)


def has_large_numbers(X: NDArray[Any]) -> bool:
    """Return True if an array holds integers that float64 cannot represent exactly."""
    if X.dtype.kind not in "iu" or X.itemsize < 8 or not X.size:
        return False
    return int(X.max()) > EXACT or int(X.min()) < -EXACT


def is_wide_integer(column: Any) -> bool:
    """Return True if the type of a column is an integer of 64 bits or more."""
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "iu" and dtype.itemsize >= 8
    name = str(getattr(column, "type", None) if dtype is None else dtype).lower()
    return re.match(r"u?int(64|128)\b", name) is not None


def has_large_integers(column: Any) -> bool:
    """Return True if a column of a table holds integers that float64 cannot represent exactly."""
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O":
            return any(isinstance(value, int) and abs(value) > EXACT for value in column)
        return has_large_numbers(column)
    if isinstance(column, FactorizedColumn) or not is_wide_integer(column):
        return False
    is_series = hasattr(column, "__arrow_c_stream__")  # otherwise it is an extension array of pandas
    native = column if is_series else nw.dependencies.get_pandas().Series(column)
    series = nw.from_native(native, series_only=True)
    extremes = series.min(), series.max()
    return any(value is not None and abs(int(value)) > EXACT for value in extremes if not is_missing(value))


def _times_as_numbers(column: Any, name: str, takes_dates: bool) -> Floats:
    """Return durations and times of day as seconds, and dates as days since 1970.

    Raises ValueError, which names the column by `name`, for dates unless `takes_dates` is True.
    """
    times = times_of(column, name)
    if times.dtype.kind == "m":
        return seconds_of(times)
    if not takes_dates:
        raise ValueError(f"Column {name} must hold numbers, as in fit; it holds dates.")
    return elapsed_days(times)


def _texts_as_numbers(column: Any, name: str) -> Floats:
    """Return texts or categories that all spell numbers as floats; raise ValueError that names column `name` if not."""
    codes, values, _ = factorize(column)
    numbers = [float(value) if _is_number(value) else np.nan for value in values]
    wrong = [code for code, value in enumerate(values) if not (is_missing(value) or _is_number(value))]
    rows = np.flatnonzero(np.isin(codes, wrong)).tolist() if wrong else []
    if rows:  # unused categories may have any value
        raise _not_a_number(name, rows[0], values[codes[rows[0]]])
    return np.array([*numbers, np.nan])[codes]  # the code of missing values is -1


def _is_number(value: Any) -> bool:
    """Return True for integers, floats, and texts that spell a number."""
    return _NUMBER_TEXT.fullmatch(value) is not None if isinstance(value, str) else isinstance(value, int | float)


def _objects_as_numbers(values: NDArray[np.object_], name: str, takes_dates: bool) -> Floats:
    """Return a vector of Python objects as floats, as in `numbers_of`."""
    objects = values.tolist()
    if all(issubclass(kind, _NUMBERS) for kind in set(map(type, objects))):
        try:
            return values.astype(np.float64)
        except OverflowError:  # the element-wise conversion below names the row
            pass
    if holds_objects_of_time(objects):
        return _times_as_numbers(values, name, takes_dates)
    return np.array([_as_float(value, row, name) for row, value in enumerate(objects)])


def _as_float(value: Any, row: int, name: str) -> float:
    """Return an object as a float, NaN if it is missing; raise an error that names the column and row for others."""
    if is_missing(value):
        return np.nan
    if isinstance(value, str) and not _NUMBER_TEXT.fullmatch(value):
        raise _not_a_number(name, row, value)
    if isinstance(value, _NO_NUMBERS):
        raise type_fault(name, "numbers", row, value)
    try:
        return float(value)
    except OverflowError as error:
        raise fault(name, "numbers that a 64-bit float can hold", row, value) from error
    except (TypeError, ValueError) as error:
        raise type_fault(name, "numbers", row, value) from error


def _not_a_number(name: str, row: int, value: Any) -> ValueError:
    """Return the ValueError that `value`, in row `row` of column `name`, is not a number, with advice."""
    value = str(value) if isinstance(value, str) else value
    return ValueError(f"{fault(name, 'numbers', row, value)} {ADVICE}")


def _not_numbers(name: str, column_type: Any) -> ValueError:
    """Return the ValueError that the type of column `name`, `column_type`, is not numeric, with advice."""
    return ValueError(f"Column {name} must hold numbers; it holds {column_type}. {ADVICE}")


# Arrow types that few kernels support.
_NOT_PLAIN = ("run_end_encoded", "string_view", "binary_view", "extension")
_NO_NUMBER_VECTORS = (str, bytes, complex, np.complexfloating)


def array_of(values: Any) -> NDArray[Any]:
    """Return a vector, a sequence or a narwhals column as a NumPy array.

    Arrow dictionaries are decoded first, because the conversion of dictionary chunks fills missing values arbitrarily.
    """
    native = nw.to_native(values, pass_through=True)
    kind = getattr(native, "type", None)
    if kind is not None and str(kind).startswith(_NOT_PLAIN):
        return array_of(plain_column(native))
    if hasattr(kind, "index_type"):
        return np.asarray(native.cast(native.type.value_type))
    array = values.to_numpy() if isinstance(values, nw.Series) else np.asarray(values)
    if array.ndim == 2 and array.dtype.kind == "f" and hasattr(native, "dtypes"):  # such as int64 with uint64
        columns = [np.asarray(native[name]) for name in native.columns]
        if any(map(has_large_numbers, columns)):
            return np.column_stack([column.astype(object) for column in columns])
    return array


def plain_column(column: Any) -> Any:
    """Return an Arrow column as a type that the usual kernels of Arrow support.

    Run-end encoded columns are decoded, views are copied, and extension types become their storage, except that UUIDs
    become texts. Periods of pandas are returned unchanged.
    """
    import pyarrow as pa

    kind = column.type
    if not str(kind).startswith(_NOT_PLAIN):
        return column
    if isinstance(column, pa.ChunkedArray):
        chunks = list(map(plain_column, column.chunks)) or [plain_column(pa.array([], kind))]
        return pa.chunked_array(chunks)
    if pa.types.is_run_end_encoded(kind):
        rows = np.arange(column.offset, column.offset + len(column))
        return plain_column(column.values).take(pa.array(np.searchsorted(np.asarray(column.run_ends), rows, "right")))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.large_binary())
    return _extension_storage(column)


def _extension_storage(column: Any) -> Any:
    """Return the storage of an Arrow column of an extension type; UUIDs become texts, periods are unchanged."""
    import pyarrow as pa

    name = column.type.extension_name
    if name == "arrow.uuid":
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    if name == "arrow.bool8":
        return column.storage.cast(pa.bool_())
    return column if name.startswith("pandas.") else plain_column(column.storage)


def plain_table(table: Any) -> Any:
    """Return an Arrow table with `plain_column` applied to each column, or the table itself if none changes."""
    for index, field in enumerate(table.schema):
        if str(field.type).startswith(_NOT_PLAIN):
            column = table.column(index)
            if (plain := plain_column(column)) is not column:
                table = table.set_column(index, field.name, plain)
    return table


def unmasked(values: Any, name: str) -> NDArray[Any]:
    """Return targets or weights as an array; raise ValueError for masked values or ragged rows."""
    if isinstance(values, np.ma.MaskedArray) and (rows := np.argwhere(np.ma.getmaskarray(values))).size:
        raise ValueError(f"{name} must not have masked values; row {rows[0, 0]} has one.")
    try:
        array = array_of(values)
    except ValueError as error:  # nested lists of different lengths
        raise ValueError(f"{name} must have one value, or the same number of values, for each row: {error}") from error
    if array.dtype.kind in "SU" and isinstance(values, list | tuple):
        return np.array(values, dtype=object)  # NumPy would convert numbers and NaN among strings to strings
    if array.dtype.kind == "f" and isinstance(values, list | tuple) and array.size and np.abs(array).max() > EXACT:
        objects = np.array(values, dtype=object)
        if any(type(value) is int and abs(value) > EXACT for value in objects.ravel().tolist()):
            return objects  # NumPy would convert large integers to floats in mixed columns
    # Variable-width strings may be missing, and scikit-learn does not support them.
    return array.astype(object) if array.dtype.kind == "T" else array


def numbers_in(values: Any, name: str, what: str = "numbers") -> NDArray[np.float64]:
    """Return numbers as a new float64 array, NaN if missing; raise ValueError that `name` must hold `what` if not."""
    array = unmasked(values, name)
    if array.dtype.kind in "biuf":
        return np.array(array, dtype=np.float64)
    if array.dtype.kind != "O":
        raise ValueError(f"{name} must hold {what}; it holds {array.dtype}.")
    numbers = [_element_as_float(value, row, name, what) for row, value in enumerate(array.ravel().tolist())]
    return np.array(numbers, dtype=np.float64).reshape(array.shape)


def _element_as_float(value: Any, row: int, name: str, what: str) -> float:
    """Return a value as a float, with NaN for a missing value; raise ValueError that `name` must hold `what`."""
    if is_missing(value):
        return np.nan
    try:
        if not isinstance(value, _NO_NUMBER_VECTORS):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{name} must hold {what}; row {row} holds {shown(value)}.")
