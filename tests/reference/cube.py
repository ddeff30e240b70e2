"""The count cube, the plain way: the specification of fastens.bayes.counts.cube."""

from __future__ import annotations

import itertools

import numpy as np


def cells(sizes):
    """Every cell as a tuple of digits; sizes[j] stands for any value of attribute j."""
    return list(itertools.product(*(range(size + 1) for size in sizes)))


def lies_within(inner, outer, sizes) -> bool:
    """Whether a cell is part of another one."""
    return all(b in (size, a) for a, b, size in zip(inner, outer, sizes, strict=True))


def counts(rows, classes, weight, sizes, n_classes):
    """The weight of each class in each cell."""
    found = np.zeros((len(cells(sizes)), n_classes))
    for place, cell in enumerate(cells(sizes)):
        for row, label, w in zip(rows, classes, weight, strict=True):
            digits = tuple(size if code < 0 else code for code, size in zip(row, sizes, strict=True))
            found[place, label] += w * lies_within(digits, cell, sizes)
    return found


def spread(values, sizes):
    """For each cell the sum of the values of all cells it lies within."""
    every = cells(sizes)
    return np.array(
        [sum(v for v, outer in zip(values, every, strict=True) if lies_within(cell, outer, sizes)) for cell in every]
    )
