"""Sums of a few floats that are the same on every release of Python."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce


def sum_in_order(values: Iterable[float]) -> float:
    """Return the sum, rounded after each value; `sum` makes up for the rounding since Python 3.12.

    Examples
    --------
    >>> sum_in_order([0.1] * 10)
    0.9999999999999999
    """
    return float(reduce(operator.add, values, 0.0))
