"""Families, variables and their parents: counts of their values in one pass over the rows, and sums of log tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counting import GRAIN, Counts
from fastens.bayes.kernels.families import add_family_entries, count_families
from fastens.engine.threads import threads_for

Array = NDArray[np.float64]
Family = tuple[int, ...]
MOST_CELLS = 1 << 27  # of one table: a gigabyte
COUNT_GRAIN = 1_000_000  # codes that are counted: some 300 microseconds


def n_cells(family: Sequence[int], sizes: Sequence[int]) -> int:
    """Combinations of the values of a family's variables."""
    return math.prod(sizes[column] for column in family)


class FamilyLayout:
    """The columns of families, and where their cells stand, those of one family after those of another.

    Parameters
    ----------
    families : sequence of tuples of int
        The variables of each family.
    sizes : array of int64, shape (n_variables,)
        Number of values of each variable.
    """

    def __init__(self, families: Sequence[Family], sizes: NDArray[np.int64]) -> None:
        known = sizes.tolist()
        self.shapes = [tuple([known[column] for column in family]) for family in families]
        self.starts = _running([len(family) for family in families])
        self.columns = np.array([column for family in families for column in family], dtype=np.int64)
        strides = [math.prod(shape[place + 1 :]) for shape in self.shapes for place in range(len(shape))]
        self.strides = np.array(strides, dtype=np.int64)
        self.offsets = _running(map(math.prod, self.shapes))

    def count(self, codes: NDArray[Any], sizes: NDArray[np.int64], weights: Array | None, n_threads: int) -> Counts:
        """The counts of `family_counts`, in one array."""
        out = np.zeros(self.offsets[-1], dtype=np.int64 if weights is None else np.float64)
        if codes.size and out.size:
            n_threads = min(threads_for(self.columns.size * codes.shape[1], n_threads, COUNT_GRAIN), len(self.shapes))
            is_complete = np.zeros(len(codes), dtype=np.uint8)
            where = self.starts, self.columns, self.strides, self.offsets
            count_families(codes, sizes, *where, weights, is_complete, out, n_threads)
        return out

    def split(self, cells: NDArray[Any]) -> list[NDArray[Any]]:
        """The part of each family, with an axis for each of its variables."""
        parts = zip(self.shapes, pairwise(self.offsets.tolist()), strict=True)
        return [cells[first:last].reshape(shape) for shape, (first, last) in parts]


def _running(numbers: Iterable[int]) -> NDArray[np.int64]:
    """Sums of the first 0, 1, 2, ... numbers."""
    return np.array(list(accumulate(numbers, initial=0)), dtype=np.int64)


def family_counts(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    families: Sequence[Family],
    weights: Array | None = None,
    n_threads: int = 1,
) -> list[Counts]:
    """Count the rows, or sum their weights, by the values of the variables of each family.

    Parameters
    ----------
    codes : array of uint8, uint16 or uint32, shape (n_variables, n_rows)
        0 for a missing value, p + 1 for position p; other codes count as missing.
    sizes : array of int64, shape (n_variables,)
        Number of values of each variable.
    families : sequence of tuples of int
        The variables of each family, at least one.
    weights : array of float64, shape (n_rows,), optional
        Weights of the rows.
    n_threads : int, default=1
        Threads; the counts do not depend on it.

    Returns
    -------
    list of arrays
        For each family an array with an axis for each of its variables; int64 without weights, float64 with them. Rows
        with a missing value in the family are left out.
    """
    layout = FamilyLayout(families, sizes)
    return layout.split(layout.count(codes, sizes, weights, n_threads))


def add_family_logs(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    families: Sequence[Family],
    tables: Sequence[Array],
    out: Array,
    n_threads: int = 1,
) -> None:
    """Add to out[row] the entry of each family's table that the row's values choose, none where a value is missing.

    Parameters
    ----------
    codes, sizes, families
        As in `family_counts`; a family may be empty here.
    tables : list of arrays
        For each family, an axis for each of its variables and a last one as long as that of `out`.
    out : array of shape (n_rows, n_entries)
        Added to in place.
    n_threads : int, default=1
        Threads; the sums do not depend on it.
    """
    if not out.size or not families:
        return
    layout = FamilyLayout(families, sizes)
    joined = np.ascontiguousarray(np.concatenate([table.reshape(-1, out.shape[1]) for table in tables]))
    n_threads = threads_for((layout.columns.size + len(families) * out.shape[1]) * len(out), n_threads, GRAIN)
    # No column at all still needs an address.
    columns, strides = (
        found if found.size else np.zeros(1, dtype=np.int64) for found in (layout.columns, layout.strides)
    )
    add_family_entries(codes, sizes, layout.starts, columns, strides, layout.offsets, joined, out, n_threads)
