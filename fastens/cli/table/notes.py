"""Notes on the columns of a table: what was left out or converted, and what looks wrong."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from fastens.cli.table.columns import DATE, NUMBER, TEXT, TIMESTAMP, UNUSABLE, n_distinct
from fastens.cli.table.errors import listed

# A text column is an identifier when at least this share of its values is distinct, of this many or more.
IDENTIFIER_SHARE = 0.95
IDENTIFIER_MINIMUM = 50


def column_notes(table: pa.Table, all_kinds: Mapping[str, str]) -> list[str]:
    """Notes on what was left out or converted, and what looks wrong."""
    found = []
    kinds = {name: kind for name, kind in all_kinds.items() if kind != UNUSABLE}
    left_out = [name for name, kind in all_kinds.items() if kind == UNUSABLE]
    if left_out:
        found.append(f"Left out, as they hold nothing or no plain values: {listed(left_out)}.")
    dates = [name for name, kind in kinds.items() if kind in (DATE, TIMESTAMP)]
    if dates:
        found.append(f"Dates, used as day, month, day of month, weekday and hour: {listed(dates)}.")
    identifiers = [name for name, kind in kinds.items() if _looks_like_identifier(table[name], kind)]
    if identifiers:
        option = "--drop " + shlex.quote(",".join(identifiers))
        found.append(f"These look like identifiers: {listed(identifiers)}. To leave them out: {option}")
    return found


def _looks_like_identifier(column: pa.ChunkedArray, kind: str) -> bool:
    """A text with a value of its own in nearly every row, or whole numbers that count the rows."""
    n_values = len(column) - column.null_count
    if n_values < IDENTIFIER_MINIMUM:
        return False
    if kind == TEXT:
        return n_distinct(column) >= IDENTIFIER_SHARE * n_values
    if kind != NUMBER or not pa.types.is_integer(column.type) or column.null_count:
        return False
    limits = pc.min_max(column).as_py()
    return limits["max"] - limits["min"] == n_values - 1 and n_distinct(column) == n_values
