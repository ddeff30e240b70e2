"""Counts of codes, of pairs and of families of columns by class, and memory estimates of Bayesian models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counts import count_cells, encode_positions
from fastens.bayes.counts.cube import add_family_entries, add_margins, count_families, spread, sum_out
from fastens.engine.comm import LOCAL, Comm, counted, gathered
from fastens.engine.parts import dense_blocks
from fastens.engine.threads import threads_for
from fastens.table.columns.numbers import FLOATS

Counts = NDArray[np.int64] | NDArray[np.float64]
CODE_DTYPES = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))
MAX_CATEGORIES = 1 << 24
MAX_PAIRS = 1 << 28  # maximum number of cells of a table of pairs: 2 GiB
GRAIN = 100_000  # codes per thread: about 100 microseconds


class Codes(NamedTuple):
    """Codes of a table, with the maximum position and the faults of each column."""

    codes: NDArray[Any]  # (n_features, n_rows)
    largest: NDArray[np.int64]  # maximum position in each column, -1 if there is none
    faults: NDArray[np.uint8]  # for each column: 1 for a negative value, 2 for a non-integer value


class LabelledCodes(NamedTuple):
    """Rows of one process to count."""

    codes: NDArray[Any]  # (n_features, n_rows)
    y: NDArray[np.int32]
    weights: NDArray[np.float64] | None = None
    n_threads: int = 1
    comm: Comm = LOCAL


def offsets_of(n_codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offset of each column's cells if all columns are concatenated, followed by the total number."""
    return np.concatenate([[0], np.cumsum(n_codes)]).astype(np.int64)


def class_counts(rows: LabelledCodes, n_codes: NDArray[np.int64], n_classes: int) -> Counts:
    """Count the rows of all processes, or sum their weights, by class and code: (n_classes, n_codes.sum()).

    Code c of column j is at ``offsets_of(n_codes)[j] + c``. Counts are int64, sums of weights float64. Codes must be
    less than the `n_codes` of their column, which is not checked.
    """
    out = empty_counts(n_codes, n_classes, rows.weights)
    counts: Counts = counted(rows.comm, out, lambda sums: add_class_counts(rows, n_codes, sums))
    return counts


def empty_counts(n_codes: NDArray[np.int64], n_classes: int, weights: NDArray[np.float64] | None) -> Counts:
    """Return zeros of shape (n_classes, n_codes.sum()): integers, or floats if rows have weights."""
    out: Any = np.zeros((n_classes, int(n_codes.sum())), dtype=np.int64 if weights is None else np.float64)
    return out


def add_class_counts(rows: LabelledCodes, n_codes: NDArray[np.int64], out: Counts) -> None:
    """Add the rows of this process, or their weights, in row order to the counts of `class_counts`."""
    if rows.codes.size and out.size:
        n_threads = threads_for(rows.codes.size, rows.n_threads, GRAIN)
        count_cells(rows.codes, rows.y, rows.weights, offsets_of(n_codes), None, out, 1, n_threads)


def pair_counts(rows: LabelledCodes, n_codes: NDArray[np.int64], n_classes: int) -> Counts:
    """Count rows by class and the codes of all pairs of columns: (n_classes, n_codes.sum(), n_codes.sum()).

    The result is symmetric, with the counts of single columns on the diagonal. Raises ValueError if there are more than
    2^28 cells, of 8 bytes each.
    """
    check_pairs(n_codes, n_classes)
    singles = class_counts(rows, n_codes, n_classes)
    offsets = offsets_of(n_codes)

    def add(sums: Counts) -> None:
        if rows.codes.size and sums.size:
            n_threads = threads_for(rows.codes.size * len(rows.codes) / 2, rows.n_threads, GRAIN)
            flat = sums.reshape(n_classes, -1)
            count_cells(rows.codes, rows.y, rows.weights, offsets, None, flat, 2, n_threads)

    out = counted(rows.comm, np.zeros((n_classes, offsets[-1], offsets[-1]), dtype=singles.dtype), add)
    diagonal = np.arange(offsets[-1])
    for index, single in enumerate(singles):
        out[index] += out[index].T
        out[index, diagonal, diagonal] = single
    return out


def check_pairs(n_codes: NDArray[np.int64], n_classes: int) -> None:
    """Raise ValueError if the pair counts of columns with `n_codes` codes exceed the maximum number of cells."""
    n_cells = n_classes * int(n_codes.sum()) ** 2
    if n_cells > MAX_PAIRS:
        raise ValueError(
            f"X must have at most {MAX_PAIRS} pair counts, (categories of all columns)^2 x classes; got "
            f"{n_cells}. Merge rare categories, or leave out columns with many of them."
        )


def without_missing(counts: Counts, n_codes: NDArray[np.int64]) -> Counts:
    """Return class or pair counts without the cells of code 0: ``n_codes - 1`` cells for each column."""
    cells = np.delete(np.arange(counts.shape[1]), offsets_of(n_codes)[:-1])
    return counts[:, cells] if counts.ndim == 2 else counts[:, cells[:, None], cells]


# Codes --------------------------------------------------


def encode(X: Any, n_categories: NDArray[np.int64], n_threads: int = 1) -> Codes:
    """Return the codes of a table, or CSR matrix, of category positions, with the largest position of each column.

    NaN becomes 0, positions p below `n_categories` of the column p + 1, and all other values n_categories + 1. The
    faults of a column are flags for negative values and fractions.
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
    """Return the result of `encode` for a table in which every position is a category.

    If a position is at least `MAX_CATEGORIES`, codes are cut off at 255; callers check the largest positions.
    """
    narrow = np.iinfo(np.uint8).max - 1
    coded = encode(X, np.full(X.shape[1], narrow, dtype=np.int64), n_threads)
    if coded.largest.max(initial=0) < narrow or coded.largest.max() >= MAX_CATEGORIES:
        return coded
    return encode(X, coded.largest + 1, n_threads)


MAX_NUMBERS = 1 << 27  # a gigabyte of float64


class CountCube:
    """Weight of each class in every cell of a table of attributes, where an attribute may also be "any value".

    `codes` holds the attribute values 0, 1, ... of each row, or -1 if missing; such a row only counts in cells with
    "any value" for this attribute. `counts` has the shape (n_cells, n_classes). The index of a cell is the sum of its
    digits times `strides`. The digit sizes[j] means "any value" of attribute j, so the last cell contains all rows.
    Raises ValueError if the cube would use more than a gigabyte.
    """

    def __init__(
        self,
        codes: NDArray[np.int64],
        classes: NDArray[np.int64],
        weight: NDArray[np.float64],
        sizes: Sequence[int],
        n_classes: int,
    ) -> None:
        check_cube_size(sizes, n_classes)
        self.sizes = np.array(sizes, dtype=np.int64)
        self.strides = np.concatenate([np.cumprod(self.sizes[:0:-1] + 1)[::-1], [1]]).astype(np.int64)
        cells = self.cells_of(codes) * n_classes + classes
        self.counts = np.bincount(cells, weight, minlength=len(self) * n_classes).reshape(-1, n_classes)
        sum_out(self.counts.reshape(-1), self.sizes, n_classes)

    def __len__(self) -> int:
        return math.prod((self.sizes + 1).tolist())

    def cells_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the index of the smallest cell that contains each row of codes; codes below 0 become "any value"."""
        return np.where(codes < 0, self.sizes, codes) @ self.strides

    def digits_of(self, cell: int) -> NDArray[np.int64]:
        """Return the attribute values of a cell, -1 for "any value"."""
        digits = cell // self.strides % (self.sizes + 1)
        return np.where(digits == self.sizes, -1, digits)

    def n_fixed(self) -> NDArray[np.int8]:
        """Return the number of attributes of each cell that are not "any value", shape (n_cells,)."""
        fixed = np.zeros(1, dtype=np.int8)
        for size in self.sizes.tolist():
            fixed = np.add.outer(fixed, np.array([1] * size + [0], dtype=np.int8)).ravel()
        return fixed

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return, for each cell, the sum of `values` over all cells that contain it, including itself.

        Rows with missing values are in cells with "any value" for these attributes.
        """
        spread_values = np.array(values, dtype=np.float64, order="C")
        spread(spread_values.reshape(-1), self.sizes, spread_values.size // len(self))
        return spread_values


def check_cube_size(sizes: Sequence[int], n_classes: int) -> None:
    """Raise ValueError if a cube over attributes with these numbers of values exceeds the maximum number of counts."""
    n_cells = math.prod(n + 1 for n in sizes)
    if n_cells * n_classes > MAX_NUMBERS:
        raise ValueError(
            f"X must have at most {MAX_NUMBERS // n_classes} conjunctions of attribute values; got {n_cells}. "
            "Use fewer attributes or values."
        )


Array = NDArray[np.float64]
Family = tuple[int, ...]
MAX_CELLS = 1 << 27  # maximum number of cells of one table: a gigabyte
JOIN_GRAIN = 2_000_000  # minimum of families times rows for which counting families jointly is worthwhile
JOINT_CELLS = 1 << 10  # maximum number of cells for which the kernel keeps separate counters
NEAR_FAMILIES = 4  # number of previous families that a family may be joined with
COUNT_GRAIN = 1_000_000  # codes that a thread counts in about 300 microseconds
CODES_BETWEEN_SIGNALS = 1 << 26  # codes counted between checks for KeyboardInterrupt: about 20 ms


def n_cells(family: Sequence[int], sizes: Sequence[int]) -> int:
    """Return the number of combinations of the values of the variables with the indices `family`."""
    return math.prod([sizes[column] for column in family])


@dataclass(frozen=True)
class CodedRows:
    """Rows of one process as codes: 0 for a missing value, p + 1 for position p."""

    codes: NDArray[Any]  # (n_variables, n_rows)
    sizes: NDArray[np.int64]  # number of values of each variable
    weights: Array | None
    n_threads: int = 1
    comm: Comm = LOCAL
    values: Array | None = None  # (n_variables, n_rows): numbers of continuous variables, whose only position is 0
    continuous: frozenset[int] = frozenset()

    def of_values(self, variable: int) -> Array:
        """Return the numbers of a continuous variable, shape (n_rows,); entries of missing values are undefined."""
        assert self.values is not None
        return self.values[variable]

    def of_all_ranks(self) -> CodedRows:
        """Return the rows of all processes, gathered on each process."""
        if self.comm.size == 1:
            return self
        (codes,), (weights,) = gathered(self.comm, [self.codes], axis=1), gathered(self.comm, [self.weights])
        (values,) = gathered(self.comm, [self.values], axis=1)
        return replace(self, codes=np.ascontiguousarray(codes), weights=weights, values=values, comm=LOCAL)

    def n_copies(self) -> float:
        """Return the number of rows of all processes, or the sum of their weights."""
        if self.weights is None:
            return float(sum(self.comm.allgather(self.codes.shape[1])))
        (weights,) = gathered(self.comm, [self.weights])
        return float(weights.sum())


class FamilyLayout:
    """Columns of families (tuples of variables) and the offsets of their tables in one flat array."""

    def __init__(self, families: Sequence[Family], sizes: NDArray[np.int64]) -> None:
        n_values = sizes.tolist()
        self.families, self.sizes = families, sizes
        self.shapes = [tuple([n_values[column] for column in family]) for family in families]
        self.starts = _cumulative_offsets([len(family) for family in families])
        self.columns = np.array([column for family in families for column in family], dtype=np.int64)
        strides = [math.prod(shape[axis + 1 :]) for shape in self.shapes for axis in range(len(shape))]
        self.strides = np.array(strides, dtype=np.int64)
        self.offsets = _cumulative_offsets(map(math.prod, self.shapes))

    def count(self, rows: CodedRows, is_complete: NDArray[np.uint8]) -> Counts:
        """Return the counts of `family_counts` as one array; `is_complete` is the result of `complete_columns`."""
        out = np.zeros(self.offsets[-1], dtype=np.int64 if rows.weights is None else np.float64)
        counts: Counts = counted(rows.comm, out, lambda sums: self._add_rows(rows, is_complete, sums))
        return counts

    def _add_rows(self, rows: CodedRows, is_complete: NDArray[np.uint8], out: Counts) -> None:
        """Add the rows of this process, or their weights, to the counts `out`, by joint families if that is faster."""
        codes, weights, n_threads = rows.codes, rows.weights, rows.n_threads
        if not codes.size or not out.size:
            return
        n_rows = codes.shape[1]
        is_large = len(self.families) * n_rows >= JOIN_GRAIN and out.size <= n_rows
        if is_large and weights is None and is_complete[self.columns].all():
            families, joint_indices = _join_families(self.families, self.sizes.tolist())
            joint = FamilyLayout(families, self.sizes)
            joint_counts = np.zeros(joint.offsets[-1], dtype=np.int64)
            joint._count_rows(codes, None, is_complete, joint_counts, n_threads)
            self._add_margins(joint, joint_indices, joint_counts, out)
        else:
            self._count_rows(codes, weights, is_complete, out, n_threads)

    def _count_rows(
        self, codes: NDArray[Any], weights: Array | None, is_complete: NDArray[np.uint8], out: Counts, n_threads: int
    ) -> None:
        """Add the rows, or their weights, to the counts `out` of all families, each counted from the codes."""
        n_codes, n_families = self.columns.size * codes.shape[1], len(self.shapes)
        n_threads = min(threads_for(n_codes, n_threads, COUNT_GRAIN), n_families)
        at_once = max(CODES_BETWEEN_SIGNALS * n_families // max(n_codes, 1), n_threads)
        for first in range(0, n_families, at_once):
            ends = slice(first, first + at_once + 1)
            where = self.starts[ends], self.columns, self.strides, self.offsets[ends]
            count_families(codes, self.sizes, *where, weights, is_complete, out, n_threads)

    def _add_margins(self, joint: FamilyLayout, joint_indices: list[int], counts: Counts, out: Counts) -> None:
        """Add the margins of the joint counts to `out`; family f is part of joint family `joint_indices[f]`."""
        axes = [joint.families[index] for index in joint_indices]
        n_values, strides = self.sizes.tolist(), self.strides.tolist()
        stride_of = [
            dict(zip(family, strides[first:last], strict=True))
            for family, (first, last) in zip(self.families, pairwise(self.starts.tolist()), strict=True)
        ]
        add_margins(
            counts,
            joint.offsets[joint_indices],
            _cumulative_offsets(map(len, axes)),
            np.array([n_values[column] for family in axes for column in family], dtype=np.int64),
            np.array(
                [stride_of[f].get(column, 0) for f, family in enumerate(axes) for column in family], dtype=np.int64
            ),
            self.offsets,
            np.zeros(max(map(len, axes)), dtype=np.int64),
            out,
        )

    def split(self, cells: NDArray[Any]) -> list[NDArray[Any]]:
        """Split one array of the cells of all families into a table for each family, with an axis per variable."""
        parts = zip(self.shapes, pairwise(self.offsets.tolist()), strict=True)
        return [cells[first:last].reshape(shape) for shape, (first, last) in parts]


def _join_families(families: Sequence[Family], sizes: list[int]) -> tuple[list[Family], list[int]]:
    """Join families whose variables have few combinations; return joint families and the joint index of each family."""
    joined: list[set[int]] = []
    cells: list[int] = []
    indices: list[int] = []
    for family in families:
        best, min_more = len(joined), math.inf
        for k in range(max(0, len(joined) - NEAR_FAMILIES), len(joined)):
            n_more = math.prod([sizes[column] for column in family if column not in joined[k]])
            if n_more < min_more and n_more * cells[k] <= JOINT_CELLS:
                best, min_more = k, n_more
        if best == len(joined):
            joined.append(set(family))
            cells.append(n_cells(family, sizes))
        else:
            joined[best].update(family)
            cells[best] *= int(min_more)
        indices.append(best)
    return [tuple(sorted(columns)) for columns in joined], indices


def _cumulative_offsets(numbers: Iterable[int]) -> NDArray[np.int64]:
    """Return the cumulative sums of numbers, starting with 0."""
    return np.array(list(accumulate(numbers, initial=0)), dtype=np.int64)


def family_counts(rows: CodedRows, families: Sequence[Family]) -> list[Counts]:
    """Count the rows of all processes, or sum their weights, by the values of the variables of each family.

    Returns an array for each family, with an axis for each of its variables. Rows with a missing value in the family
    are skipped.
    """
    layout = FamilyLayout(families, rows.sizes)
    return layout.split(layout.count(rows, complete_columns(rows.codes, rows.sizes)))


def complete_columns(codes: NDArray[Any], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return 1 for each column whose codes are all from 1 to its size, so that no value is missing, otherwise 0."""
    is_complete = (codes.min(axis=1, initial=1) == 1) & (codes.max(axis=1, initial=1) <= sizes)
    return is_complete.astype(np.uint8)


def add_family_logs(
    codes: NDArray[Any],
    sizes: NDArray[np.int64],
    families: Sequence[Family],
    tables: Sequence[Array],
    out: Array,
    n_threads: int = 1,
) -> None:
    """Add the table entries of each family at the values of each row to out[row]; missing values add nothing.

    Tables have an axis for each variable of the family, which may be empty, and a last axis that matches `out`.
    """
    if not out.size or not families:
        return
    layout = FamilyLayout(families, sizes)
    joined = np.ascontiguousarray(np.concatenate([table.reshape(-1, out.shape[1]) for table in tables]))
    n_threads = threads_for((layout.columns.size + len(families) * out.shape[1]) * len(out), n_threads, GRAIN)
    # An empty array has no address, so pad it.
    columns, strides = (
        array if array.size else np.zeros(1, dtype=np.int64) for array in (layout.columns, layout.strides)
    )
    add_family_entries(codes, sizes, layout.starts, columns, strides, layout.offsets, joined, out, n_threads)
