"""Notes on the columns of a table: what was left out or converted, and what looks wrong."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pyarrow as pa

from fastens.cli.table.columns import DATE, ITEMS, TEXT, TIMESTAMP, UNUSABLE
from fastens.cli.table.errors import listed
from fastens.cli.table.identifiers import COUNTER, NAMES, words_per_cell


def range_text(low: float, high: float, name: str, middle: float) -> str:
    """The ends and the middle of numbers, by six digits, or where the ends do not differ in these by all of them."""
    digits = 6 if low == high or f"{low:.6g}" != f"{high:.6g}" else 15
    return f"{low:.{digits}g} to {high:.{digits}g}, {name} {middle:.{digits}g}"


def column_notes(table: pa.Table, all_kinds: Mapping[str, str]) -> list[str]:
    """Notes on what was left out or converted."""
    found = []
    left_out = [name for name, kind in all_kinds.items() if kind == UNUSABLE]
    if left_out:
        found.append(f"Left out, as they hold nothing or no plain values: {listed(left_out)}.")
    dates = [name for name, kind in all_kinds.items() if kind in (DATE, TIMESTAMP)]
    if dates:
        found.append(f"Dates, used as day, month, day of month, weekday and hour: {listed(dates)}.")
    lists = [name for name, kind in all_kinds.items() if kind.startswith(ITEMS)]
    if lists:
        option = "--column " + shlex.quote(f"{lists[0]}:category")
        found.append(f"Lists of items, used as one column for each item: {listed(lists)}. As categories: {option}")
    return found + text_notes(table, all_kinds)


def text_notes(table: pa.Table, kinds: Mapping[str, str]) -> list[str]:
    """A hint at `--text` for each column of free text."""
    found = []
    for name, kind in kinds.items():
        n_words = words_per_cell(table[name]) if kind == TEXT else 0.0
        if n_words:
            option = f"--text {shlex.quote(name)}"
            found.append(f"{name!r} is free text, {n_words:.0f} words in a cell. To learn from its words: {option}")
    return found


def identifier_notes(left_out: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """Notes on columns that only tell rows apart, by the reason: those left out, and those that are not."""
    found = []
    for reason in dict.fromkeys(left_out.values()):
        names = [name for name, own in left_out.items() if own == reason]
        option = "--column " + shlex.quote(f"{names[0]}:{'category' if reason == NAMES else 'number'}")
        found.append(f"Left out as identifiers, {reason}: {listed(names)}. To learn from one all the same: {option}")
    for reason in dict.fromkeys(others.values()):
        names = [name for name, own in others.items() if own == reason]
        what = "as they count the rows" if reason == COUNTER else reason
        option = "--drop " + shlex.quote(",".join(names))
        found.append(f"These look like identifiers, {what}: {listed(names)}. To leave them out: {option}")
    return found
