"""What stands out in a table: leaks, identifiers, texts, times, duplicates, rare classes, odd cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy import stats

from fastens.cli.inspecting.checks import (
    BALANCE,
    CELLS,
    DUPLICATES,
    IDENTIFIER,
    TEXTS,
    WRITING,
    Finding,
    Target,
    code_findings,
    group_findings,
    leak_findings,
    time_findings,
)
from fastens.cli.inspecting.columns import ColumnFacts, column_facts, remark_lines, share_text
from fastens.cli.inspecting.duplicates import column_codes, equal_columns, n_contradicting, n_repeated, row_groups
from fastens.cli.inspecting.leaks import MOST_ROWS
from fastens.cli.table.columns import UNUSABLE, column_kinds
from fastens.cli.table.identifiers import identifier
from fastens.cli.table.notes import text_notes
from fastens.cli.table.target import CLASSIFICATION

# A class is rare with fewer rows than this share of what it had were all classes equal, or than this number.
RARE_SHARE, RARE_ROWS = 0.2, 10
SKEWED = 5.0


@dataclass(frozen=True)
class Inspection:
    """All facts about a table, and what stands out; `alone` is the score of each column alone."""

    n_rows: int
    columns: list[ColumnFacts]
    target: Target | None
    alone: dict[str, float]
    findings: list[Finding]


def inspected(table: pa.Table, target: Target | None, notes: list[str]) -> Inspection:
    """Look at every column, and at all of them together; notes are those of the reading."""
    columns = [column_facts(table, name) for name in table.column_names]
    others = table if target is None else table.drop_columns([target.name])
    kinds = {name: kind for name, kind in column_kinds(others, []).items() if kind != UNUSABLE}
    alone, leaks = ({}, []) if target is None else leak_findings(others, kinds, target, MOST_ROWS)
    remarks = [
        (facts.name, remark)
        for facts in columns
        for remark in facts.remarks
        if target is None or facts.name != target.name or not remark.is_code
    ]
    findings = [
        *([] if target is None else code_findings(table[target.name], target)),
        *leaks,
        *_identifiers(others, kinds),
        *(Finding(TEXTS, note) for note in text_notes(others, kinds)),
        *time_findings(others, kinds),
        *group_findings(others, kinds),
        *_duplicates(table, others, target),
        *_balance(target),
        *(Finding(CELLS, line) for line in remark_lines(remarks)),
        *(Finding(WRITING, note) for note in notes),
    ]
    return Inspection(len(table), columns, target, alone, findings)


def _identifiers(table: pa.Table, kinds: dict[str, str]) -> list[Finding]:
    reasons = {name: identifier(table[name], kind, name) for name, kind in kinds.items()}
    return [Finding(IDENTIFIER, f"{name!r}: {reason}.") for name, reason in reasons.items() if reason]


def _duplicates(table: pa.Table, others: pa.Table, target: Target | None) -> list[Finding]:
    """Rows that are there twice, rows that contradict each other, columns that say the same."""
    codes = [column_codes(column) for column in others.columns]
    if not codes:
        return []
    groups = row_groups(codes)
    of_target = np.zeros(len(table), dtype=np.int64) if target is None else column_codes(table[target.name])
    found = []
    if n := n_repeated(row_groups([groups, of_target])):
        rows = f"{n:,} rows ({share_text(n, len(table))})"
        found.append(f"{rows} are equal to an earlier one: some may be both held out and trained on")
    if target is not None and (n := n_contradicting(groups, of_target)):
        found.append(f"{n:,} rows are equal in all columns but the target {target.name!r}.")
    found += [f"{name!r} says the same as {earlier!r}." for earlier, name in equal_columns(others, codes)]
    return [Finding(DUPLICATES, text) for text in found]


def _balance(target: Target | None) -> list[Finding]:
    """Rare classes, or a target with a long tail."""
    if target is None:
        return []
    if target.task != CLASSIFICATION:
        skewness = float(stats.skew(target.y)) if np.ptp(target.y) > 0 else 0.0
        if skewness < SKEWED:
            return []
        text = f"{target.name!r} has a long tail (skewness {skewness:.1f}): a few rows make most of the squared error."
        return [Finding(BALANCE, text)]
    labels, counts = np.unique(target.y, return_counts=True)
    fewest = max(RARE_ROWS, RARE_SHARE * len(target.y) / len(labels))
    rare = [(str(label), int(n)) for label, n in zip(labels, counts, strict=True) if n < fewest]
    if not rare:
        return []
    rare.sort(key=lambda pair: pair[1])
    shown = ", ".join(f"{label!r} {n:,} rows ({share_text(n, len(target.y), 2)})" for label, n in rare[:5])
    more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
    return [Finding(BALANCE, f"Rare classes of {target.name!r}: {shown}{more}. Accuracy says little about them.")]
