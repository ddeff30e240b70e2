"""Targets and weights: one value for each row, none of them masked."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.table.columns.factorize import is_missing
from fastens.table.columns.faults import shown
from fastens.table.columns.numbers import EXACT, has_large_numbers

# Types of Arrow that have few kernels.
_NOT_PLAIN = ("run_end_encoded", "string_view", "binary_view", "extension")
_NO_NUMBERS = (str, bytes, complex, np.complexfloating)


def array_of(values: Any) -> NDArray[Any]:
    """Values, or a column of a frame of narwhals, as an array.

    Dictionaries of Arrow give their values: as an array, chunks of them would have any value where none is.
    """
    native = nw.to_native(values, pass_through=True)
    kind = getattr(native, "type", None)
    if kind is not None and str(kind).startswith(_NOT_PLAIN):
        return array_of(plain_column(native))
    if hasattr(kind, "index_type"):
        return np.asarray(native.cast(native.type.value_type))
    array = values.to_numpy() if isinstance(values, nw.Series) else np.asarray(values)
    if array.ndim == 2 and array.dtype.kind == "f" and hasattr(native, "dtypes"):  # signed and unsigned integers
        columns = [np.asarray(native[name]) for name in native.columns]
        if any(map(has_large_numbers, columns)):
            return np.column_stack([column.astype(object) for column in columns])
    return array


def plain_column(column: Any) -> Any:
    """Return a column of Arrow whose type has the usual kernels: without runs, views and types of other libraries.

    Runs are decoded, views are copied, and extension types give what they are stored as, UUIDs their texts. Periods of
    pandas stay as they are.
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
    return _stored(column)


def _stored(column: Any) -> Any:
    """What a column of an extension type is stored as."""
    import pyarrow as pa

    name = column.type.extension_name
    if name == "arrow.uuid":
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    if name == "arrow.bool8":
        return column.storage.cast(pa.bool_())
    return column if name.startswith("pandas.") else plain_column(column.storage)


def plain_table(table: Any) -> Any:
    """Return a table of Arrow with `plain_column` of each column; the table itself where all are plain."""
    for index, field in enumerate(table.schema):
        if str(field.type).startswith(_NOT_PLAIN):
            column = table.column(index)
            if (plain := plain_column(column)) is not column:
                table = table.set_column(index, field.name, plain)
    return table


def unmasked(values: Any, name: str) -> NDArray[Any]:
    """Values as an array; ValueError where one is masked, as a target or a weight cannot be missing."""
    if isinstance(values, np.ma.MaskedArray) and (rows := np.argwhere(np.ma.getmaskarray(values))).size:
        raise ValueError(f"{name} must have no masked values; that of row {rows[0, 0]} is masked.")
    try:
        array = array_of(values)
    except ValueError as error:  # lists of other lengths
        raise ValueError(f"{name} must have one value for each row, or as many: {error}") from error
    if array.dtype.kind in "SU" and isinstance(values, list | tuple):
        return np.array(values, dtype=object)  # NumPy makes a word of a number, and of NaN, among words
    if array.dtype.kind == "f" and isinstance(values, list | tuple) and array.size and np.abs(array).max() > EXACT:
        objects = np.array(values, dtype=object)
        if any(type(value) is int and abs(value) > EXACT for value in objects.ravel().tolist()):
            return objects  # of which NumPy makes floats, where some have no sign, or stand next to floats
    # Strings of any length may be missing, and scikit-learn does not take them.
    return array.astype(object) if array.dtype.kind == "T" else array


def numbers_in(values: Any, name: str, what: str = "numbers") -> NDArray[np.float64]:
    """Values that are all numbers as a new array of floats, missing ones as NaN; errors require `what`."""
    array = unmasked(values, name)
    if array.dtype.kind in "biuf":
        return np.array(array, dtype=np.float64)
    if array.dtype.kind != "O":
        raise ValueError(f"{name} must hold {what}; it holds {array.dtype}.")
    numbers = [_number(value, row, name, what) for row, value in enumerate(array.ravel().tolist())]
    return np.array(numbers, dtype=np.float64).reshape(array.shape)


def _number(value: Any, row: int, name: str, what: str) -> float:
    if is_missing(value):
        return np.nan
    try:
        if not isinstance(value, _NO_NUMBERS):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{name} must hold {what}; row {row} holds {shown(value)}.")
