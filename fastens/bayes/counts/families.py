"""Families, variables and their parents: counts of their values in one pass over the rows, and sums of log tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import GRAIN, Counts
from fastens.bayes.counts.family_counts import add_family_entries, add_margins, count_families, find_complete
from fastens.engine.comm import LOCAL, Comm, counted, gathered
from fastens.engine.threads import threads_for

Array = NDArray[np.float64]
Family = tuple[int, ...]
MOST_CELLS = 1 << 27  # of one table: a gigabyte
JOIN_GRAIN = 2_000_000  # families times rows from which on it pays to look for families to count together
JOINT_CELLS = 1 << 10  # that the kernel counts side by side
NEAR_FAMILIES = 4  # the last ones, which a family may be put together with
LOOK_GRAIN = 10_000_000  # codes that are looked at, in some 300 microseconds
COUNT_GRAIN = 1_000_000  # codes that are counted: some 300 microseconds
CODES_BETWEEN_SIGNALS = 1 << 26  # that are counted before Python looks for Ctrl-C: some 20 ms


def n_cells(family: Sequence[int], sizes: Sequence[int]) -> int:
    """Combinations of the values of a family's variables."""
    return math.prod([sizes[column] for column in family])


@dataclass(frozen=True)
class CodedRows:
    """Rows as codes, those of one rank: 0 for a missing value, p + 1 for position p."""

    codes: NDArray[Any]  # (n_variables, n_rows)
    sizes: NDArray[np.int64]  # number of values of each variable
    weights: Array | None
    n_threads: int = 1
    comm: Comm = LOCAL

    def of_all_ranks(self) -> CodedRows:
        """Return the rows of all ranks, on each of them."""
        if self.comm.size == 1:
            return self
        (codes,), (weights,) = gathered(self.comm, [self.codes], axis=1), gathered(self.comm, [self.weights])
        return replace(self, codes=np.ascontiguousarray(codes), weights=weights, comm=LOCAL)

    def n_copies(self) -> float:
        """Return the number of the rows of all ranks, or the sum of their weights."""
        if self.weights is None:
            return float(sum(self.comm.gather(self.codes.shape[1])))
        (weights,) = gathered(self.comm, [self.weights])
        return float(weights.sum())


class FamilyLayout:
    """The columns of families (tuples of variables), and where the cells of their tables start in one flat array."""

    def __init__(self, families: Sequence[Family], sizes: NDArray[np.int64]) -> None:
        known = sizes.tolist()
        self.families, self.sizes = families, sizes
        self.shapes = [tuple([known[column] for column in family]) for family in families]
        self.starts = _running([len(family) for family in families])
        self.columns = np.array([column for family in families for column in family], dtype=np.int64)
        strides = [math.prod(shape[place + 1 :]) for shape in self.shapes for place in range(len(shape))]
        self.strides = np.array(strides, dtype=np.int64)
        self.offsets = _running(map(math.prod, self.shapes))

    def count(self, rows: CodedRows, is_complete: NDArray[np.uint8]) -> Counts:
        """The counts of `family_counts`, in one array; `is_complete` is that of `complete_columns`."""
        out = np.zeros(self.offsets[-1], dtype=np.int64 if rows.weights is None else np.float64)
        found: Counts = counted(rows.comm, out, lambda sums: self._add_rows(rows, is_complete, sums))
        return found

    def _add_rows(self, rows: CodedRows, is_complete: NDArray[np.uint8], out: Counts) -> None:
        """Add the rows of this rank."""
        codes, weights, n_threads = rows.codes, rows.weights, rows.n_threads
        if not codes.size or not out.size:
            return
        n_rows = codes.shape[1]
        is_large = len(self.families) * n_rows >= JOIN_GRAIN and out.size <= n_rows
        if is_large and weights is None and is_complete[self.columns].all():
            families, places = _joined_families(self.families, self.sizes.tolist())
            joint = FamilyLayout(families, self.sizes)
            found = np.zeros(joint.offsets[-1], dtype=np.int64)
            joint._count_rows(codes, None, is_complete, found, n_threads)
            self._add_margins(joint, places, found, out)
        else:
            self._count_rows(codes, weights, is_complete, out, n_threads)

    def _count_rows(
        self, codes: NDArray[Any], weights: Array | None, is_complete: NDArray[np.uint8], out: Counts, n_threads: int
    ) -> None:
        """Count each family by itself."""
        n_codes, n_families = self.columns.size * codes.shape[1], len(self.shapes)
        n_threads = min(threads_for(n_codes, n_threads, COUNT_GRAIN), n_families)
        at_once = max(CODES_BETWEEN_SIGNALS * n_families // max(n_codes, 1), n_threads)
        for first in range(0, n_families, at_once):
            ends = slice(first, first + at_once + 1)
            where = self.starts[ends], self.columns, self.strides, self.offsets[ends]
            count_families(codes, self.sizes, *where, weights, is_complete, out, n_threads)

    def _add_margins(self, joint: FamilyLayout, places: list[int], counts: Counts, out: Counts) -> None:
        """Add the counts of joint families to those of the families at `places` in them."""
        axes = [joint.families[place] for place in places]
        known, strides = self.sizes.tolist(), self.strides.tolist()
        own = [
            dict(zip(family, strides[first:last], strict=True))
            for family, (first, last) in zip(self.families, pairwise(self.starts.tolist()), strict=True)
        ]
        add_margins(
            counts,
            joint.offsets[places],
            _running(map(len, axes)),
            np.array([known[column] for found in axes for column in found], dtype=np.int64),
            np.array([own[f].get(column, 0) for f, found in enumerate(axes) for column in found], dtype=np.int64),
            self.offsets,
            np.zeros(max(map(len, axes)), dtype=np.int64),
            out,
        )

    def split(self, cells: NDArray[Any]) -> list[NDArray[Any]]:
        """The part of each family, with an axis for each of its variables."""
        parts = zip(self.shapes, pairwise(self.offsets.tolist()), strict=True)
        return [cells[first:last].reshape(shape) for shape, (first, last) in parts]


def _joined_families(families: Sequence[Family], sizes: list[int]) -> tuple[list[Family], list[int]]:
    """Families put together where the values of all their variables have few combinations, and the place of each."""
    joined: list[set[int]] = []
    cells: list[int] = []
    places: list[int] = []
    for family in families:
        best, fewest = len(joined), math.inf
        for place in range(max(0, len(joined) - NEAR_FAMILIES), len(joined)):
            n_more = math.prod([sizes[column] for column in family if column not in joined[place]])
            if n_more < fewest and n_more * cells[place] <= JOINT_CELLS:
                best, fewest = place, n_more
        if best == len(joined):
            joined.append(set(family))
            cells.append(n_cells(family, sizes))
        else:
            joined[best].update(family)
            cells[best] *= int(fewest)
        places.append(best)
    return [tuple(sorted(found)) for found in joined], places


def _running(numbers: Iterable[int]) -> NDArray[np.int64]:
    """Sums of the first 0, 1, 2, ... numbers."""
    return np.array(list(accumulate(numbers, initial=0)), dtype=np.int64)


def family_counts(rows: CodedRows, families: Sequence[Family]) -> list[Counts]:
    """Count the rows of all ranks, or sum their weights, by the values of the variables of each family.

    Returns an array for each family, with an axis for each of its variables. Rows with a missing value in the family
    are left out.
    """
    layout = FamilyLayout(families, rows.sizes)
    return layout.split(layout.count(rows, complete_columns(rows.codes, rows.sizes, rows.n_threads)))


def complete_columns(codes: NDArray[Any], sizes: NDArray[np.int64], n_threads: int = 1) -> NDArray[np.uint8]:
    """For each column 1 where every code is that of a position."""
    out = np.ones(len(codes), dtype=np.uint8)
    if codes.size:
        find_complete(codes, sizes, out, threads_for(codes.size, n_threads, LOOK_GRAIN))
    return out


def add_family_logs(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    families: Sequence[Family],
    tables: Sequence[Array],
    out: Array,
    n_threads: int = 1,
) -> None:
    """Add to out[row] the entry of each family's table at the row's values; families with a missing value add nothing.

    Tables have an axis for each variable of the family, which may be empty, and a last one as long as that of `out`.
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
