"""Families of columns, the plain way: the specification of fastens.bayes.counts.cube."""

from __future__ import annotations

import numpy as np


def family_counts(codes, sizes, families, weights):
    """Sum of weights by the positions of each family's columns; rows with a missing one are left out."""
    out = [np.zeros([sizes[column] for column in family]) for family in families]
    for counts, family in zip(out, families, strict=True):
        for row, weight in enumerate(weights):
            cell = tuple(int(codes[column, row]) - 1 for column in family)
            if all(0 <= place < sizes[column] for place, column in zip(cell, family, strict=True)):
                counts[cell] += weight
    return out


def family_logs(codes, sizes, families, tables, n_entries):
    """Sum of the tables' entries that each row's positions choose."""
    out = np.zeros((codes.shape[1], n_entries))
    for table, family in zip(tables, families, strict=True):
        for row in range(codes.shape[1]):
            cell = tuple(int(codes[column, row]) - 1 for column in family)
            if all(0 <= place < sizes[column] for place, column in zip(cell, family, strict=True)):
                out[row] += table[cell]
    return out
