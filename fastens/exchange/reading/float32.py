"""Thresholds of libraries that compare float32: the doubles that divide all numbers as they do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def at_most(threshold: Any) -> Floats:
    """Return t such that ``x <= t`` is ``float32(x) <= threshold`` for every double x."""
    with np.errstate(over="ignore"):
        given = np.asarray(threshold, dtype=np.float64)
        rounded = given.astype(np.float32)
        below = np.where(rounded.astype(np.float64) > given, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return _last_rounded_to(below.astype(np.float32))


def less_than(threshold: Any) -> Floats:
    """Return t such that ``x <= t`` is ``float32(x) < threshold``, threshold being a float32."""
    with np.errstate(over="ignore"):
        given = np.asarray(threshold).astype(np.float32)
    return _last_rounded_to(np.nextafter(given, np.float32(-np.inf)))


def _last_rounded_to(low: NDArray[np.float32]) -> Floats:
    """The largest double that is rounded to `low` or less; ties go to the even of two float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        high = np.nextafter(low, np.float32(np.inf))
        wide, above = low.astype(np.float64), high.astype(np.float64)
        above = np.where(np.isposinf(above) & np.isfinite(wide), 2.0**128, above)
        wide = np.where(np.isneginf(wide), -(2.0**128), wide)
        is_even = (np.asarray(low, dtype=np.float32).view(np.uint32) & 1) == 0
        middle = wide + (above - wide) / 2
        # -inf takes the tie with the largest number, whose last bit is odd.
        found = np.where(is_even, middle, np.nextafter(middle, -np.inf))
        return np.where(np.isposinf(low), np.inf, np.where(np.isnan(low), np.nan, found))
