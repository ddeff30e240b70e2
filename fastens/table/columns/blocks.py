"""Coding of tables of integers or categories, with all columns in one pass over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.table.columns.copy_blocks import code_block, code_columns
from fastens.table.columns.factorize import NARROW_TYPES, Factorized, sorted_categories

FIRST_ROWS = 1 << 10  # the minimum of these rows is likely to be the minimum of all rows
NARROW, MAX_TWO_BYTE_CODES = (1 << 8) - 1, (1 << 16) - 1  # maximum number of positions in one-byte and two-byte codes
PARTS = 4  # parts of the rows per thread, so that other threads can take over the work of a slow one


class CodedBlock(NamedTuple):
    """Codes of a table with their categories."""

    codes: NDArray[np.unsignedinteger]  # (n_columns, n_rows), p + 1 for the category at position p
    categories: list[list[Any] | None]  # sorted categories of each column


def code_whole_numbers(X: NDArray[Any] | list[Any], n_threads: int = 1) -> CodedBlock | None:
    """Return the codes of a table in which every distinct number of a column is a category.

    Parameters
    ----------
    X : array of integers or booleans, shape (n_rows, n_columns), or list of columns
        Numbers in any memory layout.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    CodedBlock or None
        None if the range of a column is too wide, or its type is not supported.
    """
    columns = [X] if isinstance(X, np.ndarray) else X
    if any(not isinstance(column, np.ndarray) or column.dtype != columns[0].dtype for column in columns):
        return None
    dtype = columns[0].dtype
    if (
        dtype.kind not in "biu"
        or columns[0].size == 0
        or not dtype.isnative
        or not all(c.flags.aligned for c in columns)
    ):
        return None
    coded = _code_range(X, _column_extremes(X, np.min, FIRST_ROWS), NARROW, n_threads)
    if coded is not None:
        return coded
    low, high = _column_extremes(X, np.min), _column_extremes(X, np.max)
    n_values = max(int(last) - int(first) + 1 for first, last in zip(low, high, strict=True))
    return (
        _code_range(X, low, n_values, n_threads) if n_values <= min(2 * len(columns[0]), MAX_TWO_BYTE_CODES) else None
    )


def _column_extremes(X: NDArray[Any] | list[Any], reduce: Any, n_rows: int | None = None) -> NDArray[Any]:
    """Return reduce (np.min or np.max) of the first `n_rows` numbers of each column, or of all if `n_rows` is None."""
    if isinstance(X, np.ndarray):
        return reduce(X[:n_rows], axis=0)
    return np.array([reduce(column[:n_rows]) for column in X], dtype=X[0].dtype)


def _code_range(X: NDArray[Any] | list[Any], low: NDArray[Any], n_values: int, n_threads: int) -> CodedBlock | None:
    """Return the codes value - low + 1 of a table and the categories of each column; `low` has an entry by column.

    Returns None if a value is below its `low`, exceeds it by `n_values` (rounded up to a power of two) or more, or does
    not fit into the code type.
    """
    dtype = NARROW_TYPES[n_values > NARROW]
    unsigned = np.dtype(f"u{low.itemsize}")
    n_parts = 1 if n_threads == 1 else PARTS * n_threads
    capacity = 1 << (n_values - 1).bit_length()
    codes = np.empty((len(low), len(X) if isinstance(X, np.ndarray) else len(X[0])), dtype=dtype)
    present = np.zeros((n_parts, len(low), capacity + 1), dtype=np.uint8)
    n_first = np.zeros((n_parts, len(low)), dtype=np.int64)
    state = low.view(unsigned), codes, present, n_first, n_threads
    if isinstance(X, np.ndarray):
        is_done = code_block(X.view(unsigned), *state)
    else:
        is_done = code_columns([column.view(unsigned) for column in X], *state)
    if not is_done:
        return None
    used = np.asarray(present.any(axis=0))
    lows, lasts = low.tolist(), (capacity - used[:, ::-1].argmax(axis=1)).tolist()
    max_codes = NARROW if dtype.itemsize == 1 else MAX_TWO_BYTE_CODES
    max_value = 1 if low.dtype.kind == "b" else int(np.iinfo(low.dtype).max)
    if max(lasts) == max_codes or any(first + last > max_value for first, last in zip(lows, lasts, strict=True)):
        return None  # a position exceeds the code type, or differences have wrapped around
    as_value = bool if low.dtype.kind == "b" else int
    categories: list[list[Any] | None] = [
        [as_value(first + offset) for offset in (range(last + 1) if n == last + 1 else _close_gaps(column, is_used))]
        for first, last, n, column, is_used in zip(lows, lasts, used.sum(axis=1).tolist(), codes, used, strict=True)
    ]
    return CodedBlock(codes, categories)


def code_categories(columns: Sequence[Factorized], names: Sequence[str], n_threads: int = 1) -> CodedBlock | None:
    """Return the codes and the sorted categories of factorized columns, without categories that do not occur.

    Returns None unless all columns have codes of type int8, where -1 stands for a missing value. `names` holds the
    column names for error messages.
    """
    signed_codes = [column.codes for column in columns]
    if any(codes.dtype != np.int8 for codes in signed_codes) or signed_codes[0].size == 0:
        return None
    missing = NARROW
    n_parts = 1 if n_threads == 1 else PARTS * n_threads
    codes = np.empty((len(signed_codes), signed_codes[0].size), dtype=np.uint8)
    present = np.zeros((n_parts, len(signed_codes), missing + 2), dtype=np.uint8)
    n_first = np.zeros((n_parts, len(signed_codes)), dtype=np.int64)
    lows = np.zeros(len(signed_codes), dtype=np.uint8)
    code_columns([each.view(np.uint8) for each in signed_codes], lows, codes, present, n_first, n_threads)
    used = np.asarray(present.any(axis=0))[:, :missing]
    categories: list[list[Any] | None] = []
    for column, name, column_codes, flags in zip(columns, names, codes, used, strict=True):
        is_used = flags[: len(column.values)]
        values = column.values if is_used.all() else list(compress(column.values, is_used.tolist()))
        sorted_values = sorted_categories(values, name)
        if sorted_values != column.values:
            position = {category: code for code, category in enumerate(sorted_values, 1)}
            table = np.zeros(missing + 1, dtype=np.uint8)
            table[1 : len(column.values) + 1] = [position.get(value, 0) for value in column.values]
            column_codes[:] = table[column_codes]
        categories.append(sorted_values)
    return CodedBlock(codes, categories)


def _close_gaps(codes: NDArray[Any], used: NDArray[np.bool_]) -> list[int]:
    """Renumber codes 1 + offset in place, without the offsets whose flag in `used` is False; return the used ones."""
    positions = used.nonzero()[0]
    table = np.zeros(used.size + 1, dtype=codes.dtype)
    table[positions + 1] = np.arange(1, positions.size + 1)
    codes[:] = table[codes]
    return positions.tolist()
