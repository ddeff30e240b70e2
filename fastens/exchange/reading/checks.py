"""Parts of a foreign file, each checked as it is taken out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.reading.records import refuse

# Kinds of numbers that may stand for others.
_FITS = {"i": "iub", "f": "fiub", "b": "b"}


def array_of(value: Any, name: str, kind: Any, size: int | None = None) -> NDArray[Any]:
    """Return numbers of a file as an array of one dimension.

    Parameters
    ----------
    value : list or array
        What the file has.
    name : str
        What an error calls it.
    kind : type
        ``float``, ``bool`` or ``np.int64``; whole numbers are not made of others.
    size : int, optional
        How many there must be.
    """
    dtype = np.dtype(kind)
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise refuse(f"{name} must hold numbers") from error
    if found.size == 0:
        found = found.astype(dtype)
    if found.ndim != 1 or found.dtype.kind not in ("iub" if dtype.kind == "b" else _FITS[dtype.kind]):
        raise refuse(f"{name} must be a list of {'whole ' if dtype.kind == 'i' else ''}numbers")
    if size is not None and len(found) != size:
        raise refuse(f"{name} must have {size} entries; got {len(found)}")
    return found.astype(dtype)


def single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """Numbers as float32; those that are too large are infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def part(holder: Any, name: str, kind: type | tuple[type, ...]) -> Any:
    """A part of a record in a file, which must be there, and of one kind."""
    if not isinstance(holder, dict) or name not in holder:
        raise refuse(f"{name!r} must be there; the file is not of this kind, or damaged")
    if not isinstance(holder[name], kind):
        raise refuse(f"{name!r} must be another kind of value; got {str(holder[name])[:40]!r}")
    return holder[name]


def number(value: Any, name: str) -> float:
    """A finite number, or the text of one."""
    try:
        found = float(value)
    except (ValueError, TypeError) as error:
        raise refuse(f"{name} must be a number; got {str(value)[:40]!r}") from error
    if not np.isfinite(found):
        raise refuse(f"{name} must be a finite number; got {found}")
    return found


def whole_number(value: Any, name: str, least: int = 0, most: int = 2**31) -> int:
    """A whole number, or the text of one."""
    found = number(value, name)
    if found != int(found) or not least <= found <= most:
        raise refuse(f"{name} must be a whole number from {least} to {most}; got {value!r}")
    return int(found)


def names_of(value: Any, n_features: int) -> list[str] | None:
    """Names of columns; None where there are none."""
    if not value:
        return None
    if not isinstance(value, list) or len(value) != n_features or not all(isinstance(name, str) for name in value):
        raise refuse(f"the names of the columns must be {n_features} texts")
    return value
