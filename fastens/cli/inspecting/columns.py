"""Unusual content of columns: missing-value codes, outliers and duplicates."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.cli.table.columns import DATE, NUMBER, TEXT, TIMESTAMP, column_codes, kind_of, listed
from fastens.files.formats import python_value, python_values
from fastens.table.columns.dates import elapsed_days, times_of

Array = NDArray[np.float64]
MIDNIGHT = " 00:00:00"
N_FREQUENT = 8
# A value is reported as a missing-value code if it occurs in at least this many cells and its distance from all other
# values is at least this many times their spread. The limits are lower for common codes, and for a single negative
# number that occurs in this share of the cells.
CODE_COUNT, CODE_DISTANCE = 5, 3.0
USUAL_COUNT, USUAL_DISTANCE = 3, 0.5
NEGATIVE_SHARE, NEGATIVE_DISTANCE = 0.01, 0.1
# Common codes other than repeated sevens, eights or nines. Numbers of at least FILL_VALUE are always codes.
USUAL_CODES = (96, 97, 98, 996, 997, 998, 9996, 9997, 9998, 32767, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1, 1e20)
FILL_VALUE = 1e30
# The maximum number of codes at one end, the minimum number of other values, and the limits below and above which
# distinct values count as few and many.
MAX_CODES, MIN_OTHER_VALUES, FEW_DISTINCT, MANY_DISTINCT = 4, 2, 8, 20
# Outliers are at least this many interquartile ranges beyond the quartiles.
FAR = 10.0
MAX_NAMED = 8
MOSTLY_MISSING = 0.95
MAX_DISTINCT_FOR_SPELLINGS = 100_000


@dataclass(frozen=True)
class Remark:
    """A remark on a column, as a phrase for one column and for several, with a detail for each of several."""

    one: str
    many: str
    detail: str = ""
    is_code: bool = False


def remark_lines(remarks: Sequence[tuple[str, Remark]]) -> list[str]:
    """Return sentences for (column name, remark) pairs; columns with the same remark share a sentence."""
    alike: dict[str, list[tuple[str, Remark]]] = {}
    for name, remark in remarks:
        alike.setdefault(remark.many, []).append((name, remark))
    lines = []
    for many, pairs in alike.items():
        if len(pairs) == 1:
            lines.append(f"{pairs[0][0]!r} {pairs[0][1].one}.")
            continue
        named = [f"{name!r} ({remark.detail})" if remark.detail else repr(name) for name, remark in pairs[:MAX_NAMED]]
        more = f" and {len(pairs) - MAX_NAMED} more" if len(pairs) > MAX_NAMED else ""
        lines.append(f"{len(pairs)} columns {many}: {', '.join(named)}{more}.")
    return lines


def share_text(n: float, n_rows: float, n_decimals: int = 1) -> str:
    """Format n / n_rows in percent; it is shown as 0 or 100 % only if it is exact."""
    share, least = n / n_rows, 10.0 ** -(n_decimals + 2)
    if 0 < share < least:
        return f"<{least:.{n_decimals}%}"
    return f">{1 - least:.{n_decimals}%}" if 1 - least < share < 1 else f"{share:.{n_decimals}%}"


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about a column: its kind, missing and distinct values, and quartiles or frequent values.

    `quartiles` are the minimum, the three quartiles and the maximum. `frequent` contains pairs of a value and its
    count, most frequent first. `values` are numbers and `days` are dates as days since 1970, both without missing
    values.
    """

    name: str
    kind: str
    n_rows: int
    n_missing: int
    n_distinct: int
    quartiles: Array | None
    frequent: list[tuple[str, int]]
    values: Array | None
    days: Array | None
    limits: tuple[str, str] | None
    remarks: list[Remark]


def column_facts(table: pa.Table, name: str) -> ColumnFacts:
    """Compute the facts about one column of a table."""
    column = table[name]
    kind = kind_of(column.type)
    is_nan = pa.types.is_floating(column.type)
    present = column.drop_null()
    if is_nan:
        present = present.filter(pc.invert(pc.is_nan(present)))
    n_missing = len(column) - len(present)
    n_distinct = len(present.unique()) if _is_countable(column.type) else 0
    values = np.asarray(present.cast(pa.float64(), safe=False).to_numpy()) if kind == NUMBER else None
    quartiles = limits = days = None
    if values is not None and len(values):
        method: Any = "nearest" if np.isinf(values).any() else "linear"
        quartiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1], method=method)
    elif kind in (DATE, TIMESTAMP) and len(present):
        extremes = pc.min_max(present)
        limits = str(python_value(extremes["min"])), str(python_value(extremes["max"]))
        if all(text.endswith(MIDNIGHT) for text in limits):
            limits = limits[0].removesuffix(MIDNIGHT), limits[1].removesuffix(MIDNIGHT)
        days = elapsed_days(times_of(present, repr(name)))
    frequent = _frequent_values(present) if n_distinct and kind not in (DATE, TIMESTAMP) else []
    remarks = _emptiness_remarks(len(column), n_missing, n_distinct)
    if values is not None and len(values):
        remarks += _number_remarks(values)
    if kind == TEXT and 1 < n_distinct <= MAX_DISTINCT_FOR_SPELLINGS:
        remarks += _spelling_remarks(present)
    return ColumnFacts(
        name, kind, len(column), n_missing, n_distinct, quartiles, frequent, values, days, limits, remarks
    )  # fmt: skip


def _is_countable(type_: pa.DataType) -> bool:
    """Return True if distinct values of an Arrow type can be counted: not for nested types and null."""
    return not pa.types.is_nested(type_) and not pa.types.is_null(type_)


def _frequent_values(present: pa.ChunkedArray) -> list[tuple[str, int]]:
    """Return the most frequent values with their counts; ties are ordered by first occurrence."""
    counted = present.value_counts()
    if isinstance(counted, pa.ChunkedArray):
        counted = counted.combine_chunks()
    counts = np.asarray(counted.field("counts").to_numpy())
    top = np.argsort(-counts, kind="stable")[:N_FREQUENT]
    names = python_values(counted.field("values").take(pa.array(top)))
    return [(str(name), int(counts[k])) for name, k in zip(names, top.tolist(), strict=True)]


def _emptiness_remarks(n_rows: int, n_missing: int, n_distinct: int) -> list[Remark]:
    """Return at most one remark, on a column that is empty, constant or mostly missing."""
    if n_missing == n_rows:
        return [Remark("holds nothing", "hold nothing")]
    if n_distinct == 1 and n_missing == 0:
        return [Remark("is the same in every row", "are the same in every row")]
    if n_distinct == 1:
        return [
            Remark("has only one value apart from missing values", "have only one value each apart from missing values")
        ]
    if n_missing >= MOSTLY_MISSING * n_rows:
        share = share_text(n_missing, n_rows)
        return [Remark(f"is missing in {share} of the rows", "are missing in nearly all rows", share)]
    return []


def _number_remarks(values: Array) -> list[Remark]:
    """Return remarks on infinite values, missing-value codes and outliers."""
    remarks = []
    if not np.isfinite(values).all():
        cells = f"{np.count_nonzero(~np.isfinite(values)):,} cells"
        remarks.append(Remark(f"is infinite in {cells}", "are infinite in some cells", cells))
        values = values[np.isfinite(values)]
    for code in missing_codes(values):
        remarks.append(code_remark(code, int(np.count_nonzero(values == code))))
        values = values[values != code]
    return [*remarks, *_outlier_remarks(values)]


def code_remark(code: float, n_cells: int) -> Remark:
    """Return a remark on a missing-value code, with the option that reads it as missing."""
    advice = f"far from all other values: is it a missing-value code? If so, use --missing={code:.15g}"
    return Remark(
        f"is {code:.15g} in {n_cells:,} cells, {advice}",
        f"hold {code:.15g}, {advice}",
        f"{n_cells:,} cells",
        is_code=True,
    )


def _outlier_remarks(values: Array) -> list[Remark]:
    """Return at most one remark, on outliers if there are few."""
    low, high = np.quantile(values, [0.25, 0.75]) if len(values) else (0.0, 0.0)
    far = (values < low - FAR * (high - low)) | (values > high + FAR * (high - low))
    if not (high > low and 0 < far.sum() <= max(1, 0.01 * len(values))):
        return []
    example = f"such as {values[far][np.abs(values[far] - low).argmax()]:g}"
    cells, are = ("1 cell", "is") if far.sum() == 1 else (f"{far.sum():,} cells", "are")
    where = f"more than {FAR:g} interquartile ranges from the quartiles"
    return [Remark(f"has outliers: {cells} {are} {where}, {example}", f"have outliers, {where}", f"{cells} {example}")]


def missing_codes(values: Array) -> list[float]:
    """Return likely missing-value codes: numbers that are repeated, extreme and far from all other numbers."""
    distinct, counts = np.unique(values, return_counts=True)
    codes: list[float] = []
    while n := _n_codes(distinct, counts) or -_n_codes(distinct[::-1], counts[::-1]):
        outer = slice(None, n) if n > 0 else slice(n, None)
        codes += distinct[outer].tolist()
        distinct, counts = np.delete(distinct, outer), np.delete(counts, outer)
    return codes


def _n_codes(distinct: Array, counts: NDArray[np.intp]) -> int:
    """Return how many numbers at the start of `distinct`, sorted either way and with their counts, are codes."""
    n_usual = 0
    while n_usual < min(MAX_CODES, len(distinct)) and is_usual_code(distinct[n_usual]):
        n_usual += 1
    for n in range(n_usual, 0, -1):
        gap, spread, n_others = _gap_to_others(distinct, n)
        spread = spread if n_others <= MANY_DISTINCT else _central_spread(distinct[n:], counts[n:])
        distance = USUAL_DISTANCE if n_others >= FEW_DISTINCT else 1.0
        if counts[:n].min() >= USUAL_COUNT and n_others >= MIN_OTHER_VALUES and gap > distance * spread:
            return n
    gap, spread, n_others = _gap_to_others(distinct, 1)
    if n_others < FEW_DISTINCT or counts[0] < CODE_COUNT:
        return 0
    is_only_negative = distinct[0] < 0 <= distinct[1] and counts[0] >= NEGATIVE_SHARE * counts.sum()
    return int(gap > (NEGATIVE_DISTANCE if is_only_negative else CODE_DISTANCE) * spread)


def _gap_to_others(distinct: Array, n: int) -> tuple[float, float, int]:
    """Return the gap after the first n of the sorted numbers, and the range and number of the rest; 0s if empty."""
    others = distinct[n:]
    return (abs(others[0] - distinct[n - 1]), float(np.ptp(others)), len(others)) if len(others) else (0.0, 0.0, 0)


def _central_spread(distinct: Array, counts: NDArray[np.intp]) -> float:
    """Return the range of sorted distinct numbers, weighted by `counts`, without the extreme 1 % at each end."""
    positions = np.searchsorted(np.cumsum(counts) / counts.sum(), [0.01, 0.99]).clip(max=len(distinct) - 1)
    return float(abs(distinct[positions[1]] - distinct[positions[0]]))


def is_usual_code(value: float) -> bool:
    """Return True if a number is a common missing-value code, such as 99, -77, 8888, -9, -32768 or 1e20."""
    size = abs(float(value))
    digits = f"{size:.12e}".partition("e")[0].replace(".", "").rstrip("0")
    is_repeated = len(digits) > 1 and digits in (digits[0] * len(digits)) and digits[0] in "789"
    return is_repeated or size in USUAL_CODES or size >= FILL_VALUE or value in (-1, -7, -8, -9)


def _spelling_remarks(present: pa.ChunkedArray) -> list[Remark]:
    """Return at most one remark, on categories that differ only by case or whitespace."""
    distinct = [str(value) for value in present.unique().to_pylist()]
    by_spelling: dict[str, list[str]] = {}
    for value in distinct:
        by_spelling.setdefault(" ".join(value.casefold().split()), []).append(value)
    same = [values for values in by_spelling.values() if len(values) > 1]
    # In a column of names, values may legitimately differ only by case; among categories, this is a mistake.
    if not same or len(distinct) > len(present) // 2:
        return []
    more = f", and {len(same) - 1:,} more such groups" if len(same) > 1 else ""
    text = "categories that differ only in case or whitespace"
    return [Remark(f"has {text}: {listed(same[0])}{more}", f"have {text}", listed(same[0]))]


# Group numbers are compacted above this limit, before they can overflow.
MAX_GROUPS = 2**62
# This many distinct values have the same order by chance in less than one of ten thousand pairs of columns.
MIN_ROWS_IN_ORDER = 8
# The number of columns whose hashes select rows if not all rows are compared.
HASHED = 4


def row_groups(codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return a group number for each row; rows have equal numbers if and only if their codes agree in all columns."""
    groups, n_groups = codes[0], int(codes[0].max(initial=0)) + 1
    for column in codes[1:]:
        n_values = int(column.max(initial=0)) + 1
        if n_groups > MAX_GROUPS // n_values:
            groups = np.unique(groups, return_inverse=True)[1]
            n_groups = int(groups.max(initial=0)) + 1
        groups, n_groups = groups * n_values + column, n_groups * n_values
    return np.unique(groups, return_inverse=True)[1]


def rows_to_compare(columns: Sequence[pa.ChunkedArray], max_rows: int) -> NDArray[np.intp]:
    """Return all row indices or, above `max_rows`, about as many, selected by a hash that keeps duplicates together.

    The hash is computed from the first HASHED columns. The result is empty if they have too few distinct values.
    """
    n_rows = len(columns[0])
    if n_rows <= max_rows:
        return np.arange(n_rows)
    hashes = np.zeros(n_rows, dtype=np.uint64)
    for column in columns[:HASHED]:
        hashes = (hashes ^ column_codes(column).astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        hashes ^= hashes >> np.uint64(29)
    rows = np.flatnonzero(hashes % np.uint64(-(-n_rows // max_rows)) == 0)
    return rows if len(rows) <= 2 * max_rows else rows[:0]


def n_repeated(groups: NDArray[np.int64]) -> int:
    """Return the number of rows whose group already occurs in an earlier row."""
    return len(groups) - len(np.unique(groups))


def n_contradicting(groups: NDArray[np.int64], target: NDArray[np.int64]) -> int:
    """Return the number of rows in groups (such as equal features) whose rows have different target codes."""
    pairs = np.unique(np.column_stack([groups, target]), axis=0)
    several = np.bincount(pairs[:, 0]) > 1
    return int(np.count_nonzero(several[groups]))


def equal_columns(table: pa.Table, codes: list[NDArray[np.int64]]) -> list[tuple[str, str]]:
    """Return pairs of columns that are equal up to a renaming of values, the earlier column first.

    `codes` are the codes of all columns. If most values are distinct, any two columns map to each other one to one, so
    such columns must also have the same or the reverse order.
    """
    rows = np.unique(row_groups(codes), return_index=True)[1]
    name_by_digest: dict[bytes, str] = {}
    pairs = []
    for name, every in zip(table.column_names, codes, strict=True):
        distinct_codes = every[rows]
        values, first, numbers = np.unique(distinct_codes, return_index=True, return_inverse=True)
        if len(values) < 2:
            continue
        rank = np.empty(len(values), dtype=np.int32)
        rank[np.argsort(first)] = np.arange(len(values))
        key = rank[numbers]
        if 2 * np.count_nonzero(values) > np.count_nonzero(distinct_codes):
            order = _value_ranks(table[name].take(rows), distinct_codes == 0)
            if order is None:
                continue
            key = np.append(key, order)
        digest = hashlib.blake2b(key.tobytes()).digest()
        if (earlier := name_by_digest.setdefault(digest, name)) != name:
            pairs.append((earlier, name))
    return pairs


def _value_ranks(column: pa.ChunkedArray, is_missing: NDArray[np.bool_]) -> NDArray[np.int32] | None:
    """Return dense ranks, reversed if that starts lower, 0 if missing; None for too few values or unsortable types."""
    if np.count_nonzero(~is_missing) < MIN_ROWS_IN_ORDER:
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
