"""Rows that are there twice, and columns that say the same."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.files.python_values import python_values

# Beyond this the numbers of groups are numbered anew, long before they overflow.
MOST_GROUPS = 2**62
# So many different values are in the same order by chance less than once in ten thousand pairs of columns.
FEWEST_IN_ORDER = 8
# The columns that rows are chosen by where not all are compared.
HASHED = 4


def column_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each different value, 0 for a missing one; nested values by what they show."""
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([pa.array([str(value) for value in python_values(column)])])
    if pa.types.is_null(column.type):
        return np.zeros(len(column), dtype=np.int64)
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = pa.concat_arrays(combined.chunks) if combined.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(combined.type):
        combined = combined.dictionary_encode()
    return np.asarray(combined.indices.fill_null(-1).cast(pa.int64()).to_numpy()) + 1


def row_groups(codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The same number for rows that are equal in every column."""
    groups, n_groups = codes[0], int(codes[0].max(initial=0)) + 1
    for own in codes[1:]:
        n_values = int(own.max(initial=0)) + 1
        if n_groups > MOST_GROUPS // n_values:
            groups = np.unique(groups, return_inverse=True)[1]
            n_groups = int(groups.max(initial=0)) + 1
        groups, n_groups = groups * n_values + own, n_groups * n_values
    return np.unique(groups, return_inverse=True)[1]


def rows_to_compare(columns: Sequence[pa.ChunkedArray], most: int) -> NDArray[np.intp]:
    """All rows, or about `most` of them, equal rows together: rows whose first values have certain hashes.

    None of them where the first columns have too few values to choose by.
    """
    n_rows = len(columns[0])
    if n_rows <= most:
        return np.arange(n_rows)
    hashes = np.zeros(n_rows, dtype=np.uint64)
    for column in columns[:HASHED]:
        hashes = (hashes ^ column_codes(column).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    rows = np.flatnonzero(hashes % np.uint64(-(-n_rows // most)) == 0)
    return rows if len(rows) <= 2 * most else rows[:0]


def n_repeated(groups: NDArray[np.int64]) -> int:
    """How many rows are equal to an earlier one."""
    return len(groups) - len(np.unique(groups))


def n_contradicting(groups: NDArray[np.int64], target: NDArray[np.int64]) -> int:
    """How many rows are equal to others but for the target."""
    pairs = np.unique(np.column_stack([groups, target]), axis=0)
    several = np.bincount(pairs[:, 0]) > 1
    return int(np.count_nonzero(several[groups]))


def equal_columns(table: pa.Table, codes: list[NDArray[np.int64]]) -> list[tuple[str, str]]:
    """Columns that say the same as an earlier one, in other words perhaps: pairs of names, the earlier one first.

    `codes` are those of all columns. Where most values are different, any two columns have a value of the one for each
    of the other; so these must also be in the same order, or in the reverse one.
    """
    rows = np.unique(row_groups(codes), return_index=True)[1]
    found: dict[bytes, str] = {}
    pairs = []
    for name, every in zip(table.column_names, codes, strict=True):
        own = every[rows]
        values, first, numbers = np.unique(own, return_index=True, return_inverse=True)
        if len(values) < 2:
            continue
        rank = np.empty(len(values), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(values))
        key = rank[numbers]
        if 2 * np.count_nonzero(values) > np.count_nonzero(own):
            order = _order(table[name].take(rows), own == 0)
            if order is None:
                continue
            key = np.append(key, order)
        digest = hashlib.blake2b(key.tobytes()).digest()
        if (earlier := found.setdefault(digest, name)) != name:
            pairs.append((earlier, name))
    return pairs


def _order(column: pa.ChunkedArray, is_missing: NDArray[np.bool_]) -> NDArray[np.int32] | None:
    """The ranks of different values, up or down; none of few values, whose order may be chance, or of lists."""
    if np.count_nonzero(~is_missing) < FEWEST_IN_ORDER:
        return None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        ranks = pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int32)
    except pa.ArrowNotImplementedError:
        return None
    ranks[is_missing] = 0
    falling = np.where(is_missing, 0, ranks.max() + 1 - ranks)
    other = np.flatnonzero(ranks != falling)
    return falling if len(other) and falling[other[0]] < ranks[other[0]] else ranks
