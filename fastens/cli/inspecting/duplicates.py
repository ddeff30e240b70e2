"""Rows that are there twice, and columns that say the same."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Beyond this the numbers of groups are numbered anew, long before they overflow.
MOST_GROUPS = 2**62


def column_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """A number for each different value, 0 for a missing one; nested values by what they show."""
    if pa.types.is_nested(column.type):
        column = pa.chunked_array([pa.array([str(value) for value in column.to_pylist()])])
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


def n_repeated(groups: NDArray[np.int64]) -> int:
    """How many rows are equal to an earlier one."""
    return len(groups) - len(np.unique(groups))


def n_contradicting(groups: NDArray[np.int64], target: NDArray[np.int64]) -> int:
    """How many rows are equal to others but for the target."""
    pairs = np.unique(np.column_stack([groups, target]), axis=0)
    several = np.bincount(pairs[:, 0]) > 1
    return int(np.count_nonzero(several[groups]))


def equal_columns(names: list[str], codes: list[NDArray[np.int64]]) -> list[tuple[str, str]]:
    """Columns that say the same as an earlier one, in other words perhaps: pairs of names, the earlier one first."""
    found: dict[bytes, str] = {}
    pairs = []
    for name, own in zip(names, codes, strict=True):
        values, first, numbers = np.unique(own, return_index=True, return_inverse=True)
        if len(values) < 2:
            continue
        rank = np.empty(len(values), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(values))
        key = hashlib.blake2b(rank[numbers].tobytes()).digest()
        if (earlier := found.setdefault(key, name)) != name:
            pairs.append((earlier, name))
    return pairs
