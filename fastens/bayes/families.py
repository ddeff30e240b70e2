"""Families, variables and their parents: counts of their values in one pass over the rows, and sums of log tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counting import GRAIN, Counts, offsets_of
from fastens.bayes.kernels.families import add_family_entries, count_families
from fastens.engine.threads import threads_for

Array = NDArray[np.float64]
Family = tuple[int, ...]
MOST_CELLS = 1 << 27  # of one table: a gigabyte


def n_cells(family: Sequence[int], sizes: Sequence[int]) -> int:
    """Combinations of the values of a family's variables."""
    return math.prod(sizes[column] for column in family)


def _layout(families: Sequence[Family], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Where each family begins in the lists of columns and strides, those, and where its cells begin."""
    starts = offsets_of(np.array([len(family) for family in families], dtype=np.int64))
    columns = np.array([column for family in families for column in family], dtype=np.int64)
    strides = [math.prod(sizes[family[k + 1 :]].tolist()) for family in map(list, families) for k in range(len(family))]
    cells = np.array([n_cells(family, sizes.tolist()) for family in families], dtype=np.int64)
    return starts, columns, np.array(strides, dtype=np.int64), offsets_of(cells)


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
    starts, columns, strides, offsets = _layout(families, sizes)
    out = np.zeros(offsets[-1], dtype=np.int64 if weights is None else np.float64)
    if codes.size and out.size:
        n_threads = min(threads_for(columns.size * codes.shape[1], n_threads, GRAIN), len(families))
        is_complete = np.zeros(len(codes), dtype=np.uint8)
        count_families(codes, sizes, starts, columns, strides, offsets, weights, is_complete, out, n_threads)
    parts = zip(families, offsets[:-1], offsets[1:], strict=True)
    return [out[first:last].reshape(sizes[list(family)]) for family, first, last in parts]


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
    starts, columns, strides, offsets = _layout(families, sizes)
    if not out.size or not families:
        return
    joined = np.ascontiguousarray(np.concatenate([table.reshape(-1, out.shape[1]) for table in tables]))
    n_threads = threads_for((columns.size + len(families) * out.shape[1]) * len(out), n_threads, GRAIN)
    # No column at all still needs an address.
    columns, strides = (found if found.size else np.zeros(1, dtype=np.int64) for found in (columns, strides))
    add_family_entries(codes, sizes, starts, columns, strides, offsets, joined, out, n_threads)
