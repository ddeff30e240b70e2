"""Columns as codes, and how often each code, or pair of codes, comes with each class.

A code is a small whole number: 0 where the value is missing, p + 1 for the category at position p, and one more than
that of the last category for anything else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.codes import encode_positions
from fastens.bayes.counts.counts import count_columns, count_pairs
from fastens.engine.comm import LOCAL, Comm, counted
from fastens.engine.parts import dense_blocks
from fastens.engine.threads import threads_for
from fastens.table.columns.numbers import FLOATS

Counts = NDArray[np.int64] | NDArray[np.float64]
CODE_DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))
MOST_CATEGORIES = 1 << 24
MOST_PAIRS = 1 << 28  # cells of a table of pairs: 2 GiB
GRAIN = 100_000  # codes: some 100 microseconds


class Codes(NamedTuple):
    """The codes of a table, and what was found on the way."""

    codes: NDArray[Any]  # (n_features, n_rows)
    largest: NDArray[np.int64]  # the largest position in each column, -1 where there is none
    faults: NDArray[np.uint8]  # of each column: 1 a negative value, 2 one that is not whole


class LabelledCodes(NamedTuple):
    """Rows to count, those of one rank."""

    codes: NDArray[Any]  # (n_features, n_rows)
    y: NDArray[np.int32]
    weights: NDArray[np.float64] | None = None
    n_threads: int = 1
    comm: Comm = LOCAL


def offsets_of(n_codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each column's cells begin when those of all columns stand one after another, and where the last end."""
    return np.concatenate([[0], np.cumsum(n_codes)]).astype(np.int64)


def class_counts(rows: LabelledCodes, n_codes: NDArray[np.int64], n_classes: int) -> Counts:
    """Count the rows of all ranks, or sum their weights, by class and code: (n_classes, n_codes.sum()).

    Code c of column j is at ``offsets_of(n_codes)[j] + c``. Counts are int64, sums of weights float64. That each code
    is less than the column's `n_codes` is not checked.
    """
    out = empty_counts(n_codes, n_classes, rows.weights)
    found: Counts = counted(rows.comm, out, lambda sums: add_class_counts(rows, n_codes, sums))
    return found


def empty_counts(n_codes: NDArray[np.int64], n_classes: int, weights: NDArray[np.float64] | None) -> Counts:
    """The counts of no rows, to add to."""
    out: Any = np.zeros((n_classes, int(n_codes.sum())), dtype=np.int64 if weights is None else np.float64)
    return out


def add_class_counts(rows: LabelledCodes, n_codes: NDArray[np.int64], out: Counts) -> None:
    """Add the rows of this rank, or their weights, to the counts of `class_counts`, in their order."""
    if rows.codes.size and out.size:
        n_threads = threads_for(rows.codes.size, rows.n_threads, GRAIN)
        count_columns(rows.codes, rows.y, rows.weights, offsets_of(n_codes), out, n_threads)


def pair_counts(rows: LabelledCodes, n_codes: NDArray[np.int64], n_classes: int) -> Counts:
    """The same by class and the codes of every two columns: (n_classes, n_codes.sum(), n_codes.sum()), symmetric.

    The counts of a single column are on the diagonal. ValueError if there are more than 2^28 cells, of 8 bytes each.
    """
    check_pairs(n_codes, n_classes)
    singles = class_counts(rows, n_codes, n_classes)
    offsets = offsets_of(n_codes)

    def add(sums: Counts) -> None:
        if rows.codes.size and sums.size:
            n_threads = threads_for(rows.codes.size * len(rows.codes) / 2, rows.n_threads, GRAIN)
            count_pairs(rows.codes, rows.y, rows.weights, offsets, sums, n_threads)

    out = counted(rows.comm, np.zeros((n_classes, offsets[-1], offsets[-1]), dtype=singles.dtype), add)
    diagonal = np.arange(offsets[-1])
    for index, single in enumerate(singles):
        out[index] += out[index].T
        out[index, diagonal, diagonal] = single
    return out


def check_pairs(n_codes: NDArray[np.int64], n_classes: int) -> None:
    """Raise ValueError where the counts of pairs would take too much memory."""
    n_cells = n_classes * int(n_codes.sum()) ** 2
    if n_cells > MOST_PAIRS:
        raise ValueError(
            f"Pairs of columns must have at most {MOST_PAIRS} counts, (categories of all columns)^2 x classes; here "
            f"they have {n_cells}. Join rare categories, or leave out columns with many."
        )


def without_missing(counts: Counts, n_codes: NDArray[np.int64]) -> Counts:
    """The counts of `class_counts` or `pair_counts` without those of code 0: of ``n_codes - 1`` cells a column."""
    cells = np.delete(np.arange(counts.shape[1]), offsets_of(n_codes)[:-1])
    return counts[:, cells] if counts.ndim == 2 else counts[:, cells[:, None], cells]


# Codes --------------------------------------------------


def encode(X: Any, n_categories: NDArray[np.int64], n_threads: int = 1) -> Codes:
    """Codes of a table, or CSR matrix, of category positions: whole numbers from 0, NaN where missing.

    Positions from `n_categories` on get the code n_categories + 1.
    """
    n_rows, n_features = X.shape
    dtype = next(dtype for dtype in CODE_DTYPES if n_categories.max(initial=0) + 1 <= np.iinfo(dtype).max)
    codes = np.empty((n_features, n_rows), dtype=dtype)
    n_threads = threads_for(codes.size, n_threads, GRAIN)
    largest = np.full((n_threads, n_features), -1, dtype=np.int64)
    faults = np.zeros((n_threads, n_features), dtype=np.uint8)
    if isinstance(X, np.ndarray) and (X.dtype in FLOATS or X.dtype == np.int64):
        encode_positions(X, n_categories, codes, largest, faults, n_threads)
    else:
        for first, block in dense_blocks(X):
            part = np.empty((n_features, len(block)), dtype=dtype)
            encode_positions(block, n_categories, part, largest, faults, 1)
            codes[:, first : first + len(block)] = part
    return Codes(codes, largest.max(axis=0), np.bitwise_or.reduce(faults, axis=0))


def encode_all(X: Any, n_threads: int = 1) -> Codes:
    """Codes of a table of category positions in which every position up to the largest is a category."""
    narrow = np.iinfo(np.uint8).max - 1
    found = encode(X, np.full(X.shape[1], narrow, dtype=np.int64), n_threads)
    if found.largest.max(initial=0) < narrow or found.largest.max() >= MOST_CATEGORIES:
        return found
    return encode(X, found.largest + 1, n_threads)
