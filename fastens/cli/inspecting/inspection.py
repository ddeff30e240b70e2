"""What stands out in a table: leaks, identifiers, texts, times, duplicates, rare classes, odd cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import stats

from fastens.cli.inspecting.alone import GIVES_AWAY, classes_to_score, sampled, scores_alone
from fastens.cli.inspecting.columns import ColumnFacts, column_facts
from fastens.cli.inspecting.duplicates import column_codes, equal_columns, n_contradicting, n_repeated, row_groups
from fastens.cli.table.columns import DATE, TIMESTAMP, UNUSABLE, column_kinds, features
from fastens.cli.table.errors import listed
from fastens.cli.table.identifiers import identifier
from fastens.cli.table.notes import text_notes
from fastens.cli.table.target import CLASSIFICATION

LEAK, IDENTIFIER, TEXTS, TIME = "likely leak", "likely identifier", "free text", "time"
DUPLICATES, BALANCE, CELLS, WRITING = "duplicates", "target", "odd cells", "writing"
# A class is rare with fewer rows than this share of what it had were all classes equal, or than this number.
RARE_SHARE, RARE_ROWS = 0.2, 10
SKEWED = 5.0


@dataclass(frozen=True)
class Target:
    """The column to predict in the rows that have it."""

    name: str
    task: str
    y: NDArray


@dataclass(frozen=True)
class Finding:
    """Something to look at: what kind it is of, and a sentence."""

    kind: str
    text: str


@dataclass(frozen=True)
class Inspection:
    """All facts about a table, and what stands out; `alone` is the score of each column alone."""

    n_rows: int
    columns: list[ColumnFacts]
    target: Target | None
    alone: dict[str, float]
    findings: list[Finding]


def score_name(target: Target | None) -> str:
    """What a column alone is measured by."""
    return "AUC" if target is not None and target.task == CLASSIFICATION else "rank R²"


def inspected(table: pa.Table, target: Target | None, notes: list[str]) -> Inspection:
    """Look at every column, and at all of them together; notes are those of the reading."""
    columns = [column_facts(table, name) for name in table.column_names]
    of_columns = [Finding(CELLS, f"{facts.name!r} {remark}.") for facts in columns for remark in facts.remarks]
    others = table if target is None else table.drop_columns([target.name])
    kinds = {name: kind for name, kind in column_kinds(others, []).items() if kind != UNUSABLE}
    alone = {} if target is None else _scores(others, kinds, target)
    findings = [
        *_leaks(alone, target),
        *_identifiers(others, kinds),
        *(Finding(TEXTS, note) for note in text_notes(others, kinds)),
        *_times(others, kinds),
        *_duplicates(table, others, target),
        *_balance(target),
        *of_columns,
        *(Finding(WRITING, note) for note in notes),
    ]
    return Inspection(len(table), columns, target, alone, findings)


def _scores(table: pa.Table, kinds: dict[str, str], target: Target) -> dict[str, float]:
    rows = sampled(len(table))
    some, y = table.take(rows), target.y[rows]
    if target.task == CLASSIFICATION:
        y = classes_to_score(y)
    made = {name: features(some.select([name]), {name: kind}) for name, kind in kinds.items()}
    return scores_alone(made, y, target.task)


def _leaks(alone: dict[str, float], target: Target | None) -> list[Finding]:
    """Columns that say nearly all there is to say about the target."""
    near = {name: value for name, value in alone.items() if value >= GIVES_AWAY}
    return [
        Finding(
            LEAK,
            f"{name!r} alone gives the target away: {score_name(target)} {_rounded(value)}. If it is not known when "
            "predictions are made, drop it.",
        )
        for name, value in sorted(near.items(), key=lambda pair: -pair[1])
    ]


def _rounded(value: float) -> str:
    return f"{value:.4f}" if value < 0.99995 else "1"


def _identifiers(table: pa.Table, kinds: dict[str, str]) -> list[Finding]:
    reasons = {name: identifier(table[name], kind) for name, kind in kinds.items()}
    return [Finding(IDENTIFIER, f"{name!r}: {reason}.") for name, reason in reasons.items() if reason]


def _times(table: pa.Table, kinds: dict[str, str]) -> list[Finding]:
    """Columns of dates, and what that means for held-out rows."""
    names = [name for name, kind in kinds.items() if kind in (DATE, TIMESTAMP)]
    if not names:
        return []
    rising = [name for name in names if _is_sorted(table[name])]
    order = f"; the rows are in the order of {listed(rising)}" if rising else ""
    advice = "If later rows are to be predicted from earlier ones, hold out the last rows, not random ones."
    return [Finding(TIME, f"Times: {listed(names)}{order}. {advice}")]


def _is_sorted(column: pa.ChunkedArray) -> bool:
    present = column.drop_null().combine_chunks()
    return len(present) > 1 and bool(pc.all(pc.less_equal(present[:-1], present[1:])).as_py())


def _duplicates(table: pa.Table, others: pa.Table, target: Target | None) -> list[Finding]:
    """Rows that are there twice, rows that contradict each other, columns that say the same."""
    codes = [column_codes(column) for column in others.columns]
    if not codes:
        return []
    groups = row_groups(codes)
    of_target = np.zeros(len(table), dtype=np.int64) if target is None else column_codes(table[target.name])
    found = []
    if n := n_repeated(row_groups([groups, of_target])):
        found.append(
            f"{n:,} rows ({n / len(table):.1%}) are equal to an earlier one: some may be both held out and trained on"
        )
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
    shown = ", ".join(f"{label!r} {n:,} rows ({n / len(target.y):.2%})" for label, n in rare[:5])
    more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
    return [Finding(BALANCE, f"Rare classes of {target.name!r}: {shown}{more}. Accuracy says little about them.")]
