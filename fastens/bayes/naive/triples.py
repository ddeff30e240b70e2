"""How often the categories of three columns come together with each class."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import GRAIN, Counts, LabelledCodes, offsets_of
from fastens.bayes.counts.counts import count_triples
from fastens.engine.comm import counted
from fastens.engine.threads import threads_for

MOST_TRIPLES = 1 << 28  # cells of a table of all columns by pairs of columns: 2 GiB
LARGEST = 3  # columns that an error names


class Pair(NamedTuple):
    """Two columns, and where the block of their counts with later columns is."""

    one: int
    other: int
    cells: slice


class TripleLayout:
    """Where counts of triples stand: a block for each pair of columns i < j, one after another.

    A block's rows are the cells of i and j, that of j counting fast; its columns the cells of all columns after j. A
    cell is a category of a column.
    """

    def __init__(self, sizes: NDArray[np.int64]) -> None:
        self.sizes = sizes
        self.offsets = offsets_of(sizes)
        columns = list(combinations(range(len(sizes)), 2))
        heights = [int(sizes[one] * sizes[other]) for one, other in columns]
        starts = offsets_of(np.array([h * self.width(j) for h, (_, j) in zip(heights, columns, strict=True)], np.int64))
        self.pairs = [
            Pair(*both, slice(*cells)) for both, cells in zip(columns, pairwise(starts.tolist()), strict=True)
        ]
        self._pairs_of = {pair[:2]: pair for pair in self.pairs}
        self.heights = np.array(heights, dtype=np.int64)
        self.n_cells = int(starts[-1])

    def width(self, column: int) -> int:
        """Cells of the columns after one."""
        return int(self.offsets[-1] - self.offsets[column + 1])

    def block(self, counts: Counts, pair: Pair) -> Counts:
        """A pair's block, (n_classes, categories of one, categories of the other, cells of the columns after)."""
        one, other = self.sizes[pair.one], self.sizes[pair.other]
        return counts[:, pair.cells].reshape(len(counts), one, other, self.width(pair.other))

    def expanded(self, counts: Counts, pair: Pair) -> Counts:
        """A pair's counts with the cells of all columns, 0 in those of the two.

        They have the shape (n_classes, cells of the pair, cells of all columns).
        """
        one, other, _ = pair
        shape = len(counts), self.sizes[one], self.sizes[other], self.offsets[-1]
        out: Any = np.zeros(shape, dtype=counts.dtype)
        out[..., self.offsets[other + 1] :] = self.block(counts, pair)
        for third in range(other):
            if third != one:
                first = self._pairs_of[min(third, one), max(third, one)]
                part = self.block(counts, first)[..., self._after(first.other, other)]
                axes = (0, 2, 3, 1) if third < one else (0, 1, 3, 2)
                out[..., self.offsets[third] : self.offsets[third + 1]] = part.transpose(axes)
        return out.reshape(len(counts), -1, self.offsets[-1])

    def _after(self, column: int, later: int) -> slice:
        """The cells of a later column among those of the columns after one."""
        start = self.offsets[column + 1]
        return slice(self.offsets[later] - start, self.offsets[later + 1] - start)

    def moved(self, counts: Counts, places: list[NDArray[np.intp]], wider: TripleLayout) -> Counts:
        """The counts in a layout with more categories: those of column j go to places[j]."""
        out: Any = np.zeros((len(counts), wider.n_cells), dtype=counts.dtype)
        for old, new in zip(self.pairs, wider.pairs, strict=True):
            start = wider.offsets[old.other + 1]
            later = [found + wider.offsets[j] - start for j, found in enumerate(places) if j > old.other]
            columns = np.concatenate([np.zeros(0, dtype=np.intp), *later])
            target = np.ix_(np.arange(len(counts)), places[old.one], places[old.other], columns)
            wider.block(out, new)[target] = self.block(counts, old)
        return out


def triple_counts(rows: LabelledCodes, sizes: NDArray[np.int64], n_classes: int) -> Counts:
    """Count the rows, or sum their weights, by class and the categories of every three columns, where all are known.

    As `class_counts`, but `sizes` are numbers of categories, and cells are in the order of `TripleLayout`.
    """
    layout = TripleLayout(sizes)

    def add(sums: Counts) -> None:
        if rows.codes.size and sums.size:
            pairs = np.array([(pair.one, pair.other, pair.cells.start) for pair in layout.pairs], dtype=np.int64)
            n_threads = threads_for(rows.codes.size * len(rows.codes) ** 2 / 6, rows.n_threads, GRAIN)
            count_triples(rows.codes, rows.y, rows.weights, layout.offsets, pairs, sums, n_threads)

    out = np.zeros((n_classes, layout.n_cells), dtype=np.int64 if rows.weights is None else np.float64)
    found: Counts = counted(rows.comm, out, add)
    return found


def check_triples(sizes: NDArray[np.int64], n_classes: int, names: list[str] | None) -> None:
    """Raise ValueError where probabilities given pairs of columns would take too much memory; it names the largest."""
    n_cells, squares = int(sizes.sum()), int((sizes**2).sum())
    n_triples = n_classes * (n_cells**2 - squares) // 2 * n_cells
    if n_triples > MOST_TRIPLES:
        largest = np.argsort(-sizes, kind="stable")[:LARGEST].tolist()
        top = ", ".join(f"{names[column] if names else column!r} ({sizes[column]})" for column in largest)
        raise ValueError(
            f"order=2 must have at most {MOST_TRIPLES} probabilities, categories of all pairs of columns x categories "
            f"of all columns x classes; here it has {n_triples}. The columns with the most categories are {top}: join "
            "rare ones, leave such columns out, take fewer max_bins, or order=1."
        )
