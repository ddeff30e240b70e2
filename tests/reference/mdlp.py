"""Cuts of a column of numbers by minimum description length (Fayyad & Irani 1993), as the library FImdlp makes them.

Rows are sorted by value, and by class among equal values: which class is the first matters, and there it is the one of
the table's first row. A cut is sought where the class changes, among equal values too, and is then moved to where the
value changes. Numbers are of 32 bits.
"""

from __future__ import annotations

import numpy as np

MIN_ROWS = 3


def cut_points(x, y):
    """The cuts of a column, ascending; a value equal to a cut belongs above it."""
    order = np.lexsort((y, x))
    found = []
    _split(x[order], y[order], 0, len(x), found)
    return sorted(found)


def _split(x, y, start, end, found):
    if end - start < MIN_ROWS or x[start] == x[end - 1]:
        return
    place = _best_place(y[start:end])
    if place is None:
        return
    value = x[start + place]
    if value > x[start]:
        cut = int(np.searchsorted(x[start:end], value)) + start
    else:
        cut = int(np.searchsorted(x[start:end], value, side="right")) + start
    found.append((x[cut] + x[cut - 1]) / 2)
    _split(x, y, start, cut, found)
    _split(x, y, cut, end, found)


def _best_place(y):
    """Where the entropy of two parts is least, if that is worth its description."""
    n, whole = len(y), _entropy(y)
    places = np.flatnonzero(y[1:] != y[:-1]) + 1
    if not places.size:
        return None
    after = [(i * _entropy(y[:i]) + (n - i) * _entropy(y[i:])) / n for i in places]
    best = int(np.argmin(after))
    left, right = y[: places[best]], y[places[best] :]
    kinds = [len(np.unique(part)) for part in (y, left, right)]
    price = np.log2(3 ** kinds[0] - 2) - (kinds[0] * whole - kinds[1] * _entropy(left) - kinds[2] * _entropy(right))
    return places[best] if whole - after[best] > (np.log2(n - 1) + price) / n else None


def _entropy(y):
    share = np.unique(y, return_counts=True)[1] / len(y)
    return -(share * np.log2(share)).sum()
