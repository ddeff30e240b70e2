"""Targets and weights: one value for each row, none of them masked."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.table.columns.factorize import is_missing
from fastens.table.columns.faults import shown

_NO_NUMBERS = (str, bytes, complex, np.complexfloating)


def array_of(values: Any) -> NDArray[Any]:
    """Values, or a column of a frame of narwhals, as an array.

    Dictionaries of Arrow give their values: as an array, chunks of them would have any value where none is.
    """
    native = nw.to_native(values, pass_through=True)
    if hasattr(getattr(native, "type", None), "index_type"):
        return np.asarray(native.cast(native.type.value_type))
    return values.to_numpy() if isinstance(values, nw.Series) else np.asarray(values)


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
    if array.dtype.kind == "f" and isinstance(values, list | tuple) and array.size and array.max() >= 2**63:
        objects = np.array(values, dtype=object)
        if all(type(value) is int for value in objects.ravel().tolist()):
            return objects  # of which NumPy makes floats, where some have 64 bits without a sign
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
