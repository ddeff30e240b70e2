"""Families of sets as bit arrays, the plain way: the specification of fastens.bayes.concepts.hitting."""

from __future__ import annotations

import numpy as np


def marked(bits: np.ndarray, place: int) -> bool:
    """Whether the bit of a set is there."""
    return bool(int(bits[place >> 6]) >> (place & 63) & 1)


def mark_subsets(bits: np.ndarray, n: int) -> set[int]:
    """All parts of marked sets."""
    tops = [top for top in range(1 << n) if marked(bits, top)]
    return {part for part in range(1 << n) if any(part & top == part for top in tops)}


def passing(bits: np.ndarray, n: int) -> list[int]:
    """The sets that are not marked, in their order."""
    return [place for place in range(1 << n) if not marked(bits, place)]


def draw(bits: np.ndarray, n: int, size_weight, target: float) -> int:
    """The set at a place of the cumulated weight."""
    total = 0.0
    for place in passing(bits, n):
        total += size_weight[place.bit_count()]
        if target < total:
            return place
    raise ValueError(target)
