"""Cells of Arrow as values of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

# Texts among numbers of a database or JSON file that mean no value.
_MISSING = {"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?", "#N/A"}


def array_of(values: Sequence[Any]) -> pa.Array:
    """Return values of Python as an array: texts where they have several types, or are beyond 64 bits."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        is_mixed = not all(isinstance(value, str | None) for value in values)
        if is_mixed and any(isinstance(value, str) and value in _MISSING for value in values):
            return array_of([None if isinstance(value, str) and value in _MISSING else value for value in values])
        return pa.array([None if value is None else str(value) for value in values])


def python_value(cell: pa.Scalar) -> Any:
    """Return what a cell holds, as text where Python has no such value: times and spans beyond its own, nanoseconds.

    Examples
    --------
    >>> python_value(pa.scalar(5, pa.int8()))
    5
    >>> python_value(pa.scalar(2**62, pa.duration("s")))
    '4611686018427387904 seconds'
    """
    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        alone = pa.array([cell])
        return alone.to_string() if pa.types.is_nested(cell.type) else str(alone.to_numpy(zero_copy_only=False)[0])


def python_values(cells: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return what each cell holds, as `python_value` does."""
    try:
        return list(cells.to_pylist())
    except (OverflowError, ValueError):
        return [python_value(cell) for cell in cells]


def example_of(column: pa.ChunkedArray) -> Any:
    """Return the first value that is not missing, None where all are."""
    return next(iter(python_values(column.drop_null().slice(0, 1))), None)
