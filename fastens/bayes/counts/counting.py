"""Counts of codes, of pairs and of families of columns by class, and the memory that they need."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counts import count_columns, count_pairs, encode_positions
from fastens.bayes.counts.cube import (
    add_family_entries,
    add_margins,
    count_families,
    fill,
    find_complete,
    log_weights,
    spread,
    sum_out,
)
from fastens.engine.comm import LOCAL, Comm, counted, gathered
from fastens.engine.parts import dense_blocks
from fastens.engine.threads import threads_for
from fastens.table.columns.numbers import FLOATS
from fastens.table.source import MemoryNeeds, TableShape, bytes_to_read, needs_without_files
from fastens.table.sources import BATCH_ROWS, BATCH_VALUES

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


MAX_NUMBERS = 1 << 27  # a gigabyte of float64


class CountCube:
    """The weight of each class in every cell of a table of attributes, in which an attribute may also be "any value".

    `codes` hold the attributes' values, 0, 1, ..., in each row, -1 where missing: such a row is only in cells of "any
    value". `counts` has the shape (n_cells, n_classes). The number of a cell is the sum of its digits times `strides`;
    the digit sizes[j] is "any value" of attribute j, so that the last cell holds all rows. ValueError if the cube would
    take more than a gigabyte.
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
        self.counts = np.zeros((math.prod(n + 1 for n in sizes), n_classes))
        fill(self.cells_of(codes), classes, weight, self.counts)
        sum_out(self.counts.reshape(-1), self.sizes, n_classes)

    def __len__(self) -> int:
        return math.prod((self.sizes + 1).tolist())

    def cells_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cell of each row of codes."""
        return np.where(codes < 0, self.sizes, codes) @ self.strides

    def digits_of(self, cell: int) -> NDArray[np.int64]:
        """A cell's value of each attribute, -1 for any."""
        digits = cell // self.strides % (self.sizes + 1)
        return np.where(digits == self.sizes, -1, digits)

    def n_fixed(self) -> NDArray[np.int64]:
        """For each cell the number of attributes that are not "any value"."""
        fixed = np.zeros(1, dtype=np.int64)
        for size in self.sizes.tolist():
            fixed = np.add.outer(fixed, [1] * size + [0]).ravel()
        return fixed

    def log_weights(
        self, per_error: float, per_constraint: float, most_errors: float, out: NDArray[np.float64]
    ) -> tuple[float, int]:
        """Write to each cell, as a conjunction, the log of a weight that falls with errors and constraints.

        Errors are the first class's weight inside and the second's outside; -inf where they are more than
        `most_errors`. Returns the least errors, and the first cell that has them.
        """
        # The kernel has room for attributes with values alone: of others there may be any number.
        known = np.flatnonzero(self.sizes) if self.sizes.any() else np.zeros(1, np.intp)
        layout = np.stack([self.sizes[known], self.strides[known]])
        return log_weights(self.counts, layout, per_error, per_constraint, most_errors, out)

    def spread(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each cell the sum of `values` over all cells it lies within, itself included.

        Entries of rows with missing values sum over the cells of "any value" there.
        """
        spread_values = np.array(values, dtype=np.float64, order="C")
        spread(spread_values.reshape(-1), self.sizes, spread_values.size // len(self))
        return spread_values


def check_cube_size(sizes: Sequence[int], n_classes: int) -> None:
    """Raise ValueError for a cube that would not fit the memory."""
    n_cells = math.prod(n + 1 for n in sizes)
    if n_cells * n_classes > MAX_NUMBERS:
        raise ValueError(
            f"X must have few enough attributes and values that all conjunctions can be counted; they are {n_cells}, "
            f"and at most {MAX_NUMBERS // n_classes} fit."
        )


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


# Bytes of a count: in the model with its logarithm; with what these are made of.
_KEPT = 16
_COUNTED = 24
# Of a category: as an object, in a list, and in a dictionary, twice.
_CATEGORY = 200
# Of a value of a batch, as a position and a code; of moments of a block of rows for each class and column.
_CODED = 24
_MOMENTS = 24
_MOMENT_ROWS, _MOMENT_VALUES = 1 << 14, 1 << 22
# Of a row: its class as a whole number.
_LABEL = 4
# Of a cell of pairs, what its count and logarithm are made of; of a cell of three columns.
_PAIRS = 16
_TRIPLES = 12
# Of a row's value among the codes of all rows: those of batches, and put together.
_CODES = 2
# Of a row's value while attributes are compared: as a float, a whole number, and sorted.
_COMPARED = 40
# Of a text whose words are counted, and of each of its letters.
_TEXT = 400
_OF_TEXT = 30
TEXTS_AT_ONCE = 1 << 12
# Questions about a column of categories.
MOST_QUESTIONS = 64
# Of an answer of each row, and of a row of a batch; of a cell of a cube, and its class; of sets of attributes.
_ANSWER, _NEW_ANSWER = 3, 10
_CUBE = 40
_SETS, _MOST_SETS = 4, 1 << 27
# Of a network's families that are counted at a time, for each cell; the most of them, and of a family, as
# `family_scores` has them. Of a row of which a variable is missing.
_FAMILY = 56
_MOST_FAMILIES, _DENSE = 1 << 22, 1 << 16
_HIDDEN = 24


def naive_bayes_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit of naive Bayes takes."""
    counts = classes_of(shape) * (shape.values(2) + 1).sum()
    kept = _KEPT * counts + _categories(shape)
    held = _COUNTED * counts + _LABEL * shape.n_rows + _CODED * _block_values(shape)
    if hasattr(model, "var_smoothing"):
        block_rows = max(1, min(_MOMENT_ROWS, _MOMENT_VALUES // shape.n_columns))
        held += _MOMENTS * classes_of(shape) * shape.n_columns * math.ceil(shape.n_rows / block_rows)
    return needs_without_files(shape, model, held, kept)


def pairs_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit takes that counts every two columns, of some models every three."""
    values = shape.values(model.max_bins) + 2
    pairs = classes_of(shape) * values.sum() ** 2
    triples = pairs * values.sum() / 2 if getattr(model, "order", 1) == 2 else 0
    kept = _KEPT * pairs + _TRIPLES * triples + _categories(shape)
    held = _PAIRS * pairs + shape.n_rows * (_LABEL + _CODES * _code(values) * shape.n_columns)
    held += _CODED * _block_values(shape)
    return needs_without_files(shape, model, held, kept, _binning(shape, model))


def network_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit of a Bayesian network takes."""
    values = np.append(shape.values(model.max_bins or 2), max(2, shape.n_outputs))
    largest = np.sort(values)[::-1]
    cells = min(float(MOST_CELLS), largest[: _most_parents(model) + 1].prod()) * len(values)
    counted = min(_MOST_FAMILIES, max(min(cells, _DENSE * len(values)), len(values) ** 2 * largest[:2].prod()))
    pairs = classes_of(shape) * (values + 1).sum() ** 2 if model.structure in ("chow-liu", "tan", "kdb") else 0
    kept = _KEPT * cells + _categories(shape)
    held = _FAMILY * counted + (_PAIRS + _KEPT) * pairs
    floats = 3 * shape.value_bytes if model.max_bins else 0
    held += shape.n_rows * (_HIDDEN + len(values) * (2 * _code(values) + floats)) + _CODED * _block_values(shape)
    return needs_without_files(shape, model, held, kept, _binning(shape, model) if floats else 0)


def _most_parents(model: Any) -> int:
    """How many parents a variable of a network has at most."""
    given = model.structure
    if isinstance(given, str):
        return {"chow-liu": 1, "tan": 2}.get(given, model.max_parents)
    if isinstance(given, Mapping):
        return max((1 if isinstance(own, str | int) else len(own) for own in given.values()), default=0)
    return max(Counter(child for _, child in given).values(), default=0)


def texts_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit to texts takes; a value is a term, and its bytes are those of a text."""
    n_terms = shape.values(1).sum()
    kept = (_KEPT * classes_of(shape) + _CATEGORY) * n_terms
    held = (_COUNTED * classes_of(shape) + _CATEGORY) * n_terms + _LABEL * shape.n_rows
    held += min(shape.n_rows, TEXTS_AT_ONCE) * (_TEXT + _OF_TEXT * shape.value_bytes)
    return needs_without_files(shape, model, held, kept)


def version_space_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit of a version space takes: that of all conjunctions has a cube."""
    values = shape.values(2)
    if model.noise > 0 or model.on_collapse in ("noise", "max-consistent"):
        space = _CUBE * 2 * min((values + 1).prod(), MAX_NUMBERS)
    else:
        space = _SETS * min(_MOST_SETS, 2.0 ** (min(shape.n_columns, 60) - 3))
    return needs_without_files(shape, model, _COMPARED * shape.n_rows * shape.n_columns + space, _categories(shape))


def tree_average_needs(model: Any, shape: TableShape) -> MemoryNeeds:
    """Return what a fit takes that answers questions for all rows, and has a cube of some of them."""
    values = shape.values(np.nan)
    asked = 1 + np.where(np.isnan(values), model.n_thresholds, np.minimum(values, MOST_QUESTIONS)).sum()
    cube = _CUBE * classes_of(shape) * 3.0 ** min(model.max_questions, asked)
    held = shape.n_rows * (_ANSWER * asked + _COMPARED * shape.n_columns) + _CODED * _block_values(shape)
    held += _NEW_ANSWER * asked * _block_values(shape) / shape.n_columns
    return needs_without_files(shape, model, held, cube + _categories(shape))


def classes_of(shape: TableShape) -> int:
    """How many classes there are: two have one raw prediction."""
    return max(2, shape.n_outputs)


def _binning(shape: TableShape, model: Any) -> float:
    """What bins are learned from, where there are columns of numbers."""
    return bytes_to_read(shape, model)["learning"] if np.isnan(shape.values(np.nan)).any() else 0


def _code(values: Any) -> int:
    return 1 if values.max(initial=0) < 1 << 8 else 2 if values.max() < 1 << 16 else 4


def _block_values(shape: TableShape) -> int:
    if shape.n_stored is not None:
        return 0
    return min(shape.n_rows, BATCH_ROWS, max(1, BATCH_VALUES // shape.n_columns)) * shape.n_columns


def _categories(shape: TableShape) -> float:
    return _CATEGORY * float(shape.values(0).sum())
