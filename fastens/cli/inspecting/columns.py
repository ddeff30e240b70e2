"""What each column of a table holds: range, spread, typical values, and what looks odd in its cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.cli.table.columns import DATE, NUMBER, TEXT, TIMESTAMP, kind_of
from fastens.cli.table.errors import listed
from fastens.files.python_values import python_value, python_values
from fastens.table.columns.dates import elapsed_days, times_of

Array = NDArray[np.float64]
MIDNIGHT = " 00:00:00"
N_FREQUENT = 8
# A value that stands alone: so often, and so far from the others, in units of their whole spread.
CODE_COUNT, CODE_DISTANCE = 5, 1.0
# Cells so many times the width of the middle half away from it are far out.
FAR = 10.0
MOSTLY_MISSING = 0.95
MOST_DISTINCT_FOR_SPELLINGS = 100_000


@dataclass(frozen=True)
class ColumnFacts:
    """One column: its kind, missing and different values; of numbers the quartiles, of others the frequent values.

    `quartiles` are the least value, the three quartiles and the largest one; `frequent` pairs of a value and how often
    it is there, most frequent first; `values` are numbers, and `days` dates as days since 1970, without the missing
    ones.
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
    remarks: list[str]


def column_facts(table: pa.Table, name: str) -> ColumnFacts:
    """The facts about one column."""
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
        found = pc.min_max(present)
        limits = str(python_value(found["min"])), str(python_value(found["max"]))
        if all(text.endswith(MIDNIGHT) for text in limits):
            limits = limits[0].removesuffix(MIDNIGHT), limits[1].removesuffix(MIDNIGHT)
        days = elapsed_days(times_of(present, repr(name)))
    frequent = _frequent(present) if n_distinct and kind not in (DATE, TIMESTAMP) else []
    remarks = _remarks(kind, len(column), n_missing, n_distinct)
    if values is not None and len(values):
        remarks += _odd_numbers(values)
    if kind == TEXT and 1 < n_distinct <= MOST_DISTINCT_FOR_SPELLINGS:
        remarks += _odd_spellings(present)
    return ColumnFacts(
        name, kind, len(column), n_missing, n_distinct, quartiles, frequent, values, days, limits, remarks
    )  # fmt: skip


def _is_countable(type_: pa.DataType) -> bool:
    return not pa.types.is_nested(type_) and not pa.types.is_null(type_)


def _frequent(present: pa.ChunkedArray) -> list[tuple[str, int]]:
    """The most frequent values and how often they are there; of equally many the first in the table."""
    counted = present.value_counts()
    if isinstance(counted, pa.ChunkedArray):
        counted = counted.combine_chunks()
    counts = np.asarray(counted.field("counts").to_numpy())
    top = np.argsort(-counts, kind="stable")[:N_FREQUENT]
    names = python_values(counted.field("values").take(pa.array(top)))
    return [(str(name), int(counts[place])) for name, place in zip(names, top.tolist(), strict=True)]


def _remarks(kind: str, n_rows: int, n_missing: int, n_distinct: int) -> list[str]:
    """What the counts say."""
    if n_missing == n_rows:
        return ["holds nothing"]
    if n_distinct == 1:
        return ["is the same in every row" if n_missing == 0 else "has one value, or is missing"]
    if n_missing >= MOSTLY_MISSING * n_rows:
        return [f"is missing in {n_missing / n_rows:.1%} of the rows"]
    return []


def _odd_numbers(values: Array) -> list[str]:
    """Values that stand for something else, and values far from the others."""
    found = []
    if not np.isfinite(values).all():
        found.append(f"is infinite in {np.count_nonzero(~np.isfinite(values)):,} cells")
        values = values[np.isfinite(values)]
    for code in _codes(values):
        cells = np.count_nonzero(values == code)
        found.append(
            f"is {code:.15g} in {cells:,} cells, far from all other values: a code for missing? --missing={code:.15g}"
        )
        values = values[values != code]
    return [*found, *_outliers(values)]


def _outliers(values: Array) -> list[str]:
    """Few cells far from the others."""
    low, high = np.quantile(values, [0.25, 0.75]) if len(values) else (0.0, 0.0)
    far = (values < low - FAR * (high - low)) | (values > high + FAR * (high - low))
    if high > low and 0 < far.sum() <= max(1, 0.01 * len(values)):
        farthest = values[far][np.abs(values[far] - low).argmax()]
        n_far = "1 cell is" if far.sum() == 1 else f"{far.sum():,} cells are"
        return [f"has outliers: {n_far} more than {FAR:g} quartile ranges out, such as {farthest:g}"]
    return []


def _codes(values: Array) -> list[float]:
    """The ends of the range that are there again and again, with nothing near them."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 8:
        return []
    found = []
    inner = distinct[-2] - distinct[1]
    for end, next_, count in ((distinct[-1], distinct[-2], counts[-1]), (distinct[0], distinct[1], counts[0])):
        if count >= CODE_COUNT and abs(end - next_) > CODE_DISTANCE * inner and _looks_like_code(end):
            found.append(float(end))
    return found


def _looks_like_code(value: float) -> bool:
    """Whether a number is written with nines alone, or -1: what people write for a missing value."""
    digits = f"{abs(value):.15g}".replace(".", "")
    return value == -1 or (len(digits) > 1 and set(digits) == {"9"})


def _odd_spellings(present: pa.ChunkedArray) -> list[str]:
    """Categories that differ only by case or blanks."""
    distinct = [str(value) for value in present.unique().to_pylist()]
    by_spelling: dict[str, list[str]] = {}
    for value in distinct:
        by_spelling.setdefault(" ".join(value.casefold().split()), []).append(value)
    same = [values for values in by_spelling.values() if len(values) > 1]
    # Names may differ by case; of categories it is a mistake.
    if not same or len(distinct) > len(present) // 2:
        return []
    more = f", and {len(same) - 1:,} more such groups" if len(same) > 1 else ""
    return [f"has categories that differ only by case or blanks: {listed(same[0])}{more}"]
