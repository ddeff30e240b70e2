"""Inspection of a table, and its output as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.table import Table
from scipy import stats

from fastens.cli.inspecting.checks import (
    BALANCE,
    CELLS,
    DUPLICATES,
    IDENTIFIER,
    MAX_ROWS,
    TEXTS,
    WRITING,
    Finding,
    TargetColumn,
    code_findings,
    group_findings,
    leak_findings,
    score_name,
    time_findings,
)
from fastens.cli.inspecting.columns import (
    ColumnFacts,
    column_facts,
    equal_columns,
    n_contradicting,
    n_repeated,
    remark_lines,
    row_groups,
    share_text,
)
from fastens.cli.report.report import NARROW_NAME, NO_VALUE, Report, n_fitting_columns, one_line, score_text
from fastens.cli.table.columns import (
    DESCRIPTIONS,
    TEXT,
    UNUSABLE,
    WORDS,
    column_codes,
    column_kinds,
    counted_rows,
    missing_cells_text,
)
from fastens.cli.table.notes import identifier_reason, range_text, text_notes
from fastens.cli.table.target import CLASSIFICATION
from fastens.files import TableSchema

# A class is rare if it has fewer rows than this share of the mean class size, or fewer than this number.
RARE_SHARE, RARE_ROWS = 0.2, 10
SKEWED = 5.0
# If more pairs of columns than this are equal, they are reported as one finding.
MAX_PAIRS = 5


@dataclass(frozen=True)
class Inspection:
    """All facts about a table and all findings; `alone` contains the individual score of each column."""

    n_rows: int
    columns: list[ColumnFacts]
    target: TargetColumn | None
    alone: dict[str, float]
    findings: list[Finding]


def inspect_table(table: pa.Table, target: TargetColumn | None, schema: TableSchema, notes: list[str]) -> Inspection:
    """Compute all facts and findings about a table; without a target, some are left out.

    `schema` says which columns hold free text, and `notes` are remarks from reading the table, which become findings.
    """
    columns = [column_facts(table, name) for name in table.column_names]
    others = table if target is None else table.drop_columns([target.name])
    kinds = {name: kind for name, kind in column_kinds(others, []).items() if kind != UNUSABLE}
    with_words = kinds | {name: WORDS for name, how in schema.text_features.items() if how == "word" and name in kinds}
    alone, leaks = ({}, []) if target is None else leak_findings(others, kinds, target, MAX_ROWS)
    remarks = [
        (facts.name, remark)
        for facts in columns
        for remark in facts.remarks
        if target is None or facts.name != target.name or not remark.is_code
    ]
    findings = [
        *([] if target is None else code_findings(table[target.name], target)),
        *leaks,
        *_identifier_findings(others, with_words),
        *(Finding(TEXTS, note) for note in text_notes(schema, with_words)),
        *time_findings(others, kinds),
        *group_findings(others, kinds),
        *_duplicate_findings(table, others, target),
        *_balance_findings(target),
        *(Finding(CELLS, line) for line in remark_lines(remarks)),
        *(Finding(WRITING, note) for note in notes),
    ]
    return Inspection(len(table), columns, target, alone, findings)


def _identifier_findings(table: pa.Table, kinds: dict[str, str]) -> list[Finding]:
    """Return a finding for each column that appears to be an identifier."""
    reasons = {name: identifier_reason(table[name], kind, name) for name, kind in kinds.items()}
    return [Finding(IDENTIFIER, f"{name!r}: {reason}.") for name, reason in reasons.items() if reason]


def _duplicate_findings(table: pa.Table, others: pa.Table, target: TargetColumn | None) -> list[Finding]:
    """Return findings on rows that are duplicate or contradict each other, and on equivalent columns of `others`."""
    codes = [column_codes(column) for column in others.columns]
    if not codes:
        return []
    groups = row_groups(codes)
    of_target = np.zeros(len(table), dtype=np.int64) if target is None else column_codes(table[target.name])
    texts = []
    if n := n_repeated(row_groups([groups, of_target])):
        rows = f"{counted_rows(n)} ({share_text(n, len(table))}) {'is a duplicate' if n == 1 else 'are duplicates'}"
        texts.append(f"{rows} of earlier rows, so that the same row may be both held out and trained on.")
    if target is not None and (n := n_contradicting(groups, of_target)):
        texts.append(f"{n:,} rows are equal in all columns but the target {target.name!r}.")
    pairs = equal_columns(others, codes)
    if len(pairs) > MAX_PAIRS:
        shown = ", ".join(f"{name!r} ({earlier!r})" for earlier, name in pairs[:MAX_PAIRS])
        texts.append(
            f"{len(pairs)} columns hold the same information as another: {shown} and {len(pairs) - MAX_PAIRS} more."
        )
    else:
        texts += [f"{name!r} holds the same information as {earlier!r}." for earlier, name in pairs]
    return [Finding(DUPLICATES, text) for text in texts]


def _balance_findings(target: TargetColumn | None) -> list[Finding]:
    """Return at most one finding, on rare classes or on a target with a long tail."""
    if target is None:
        return []
    if target.task != CLASSIFICATION:
        skewness = float(stats.skew(target.y)) if np.ptp(target.y) > 0 else 0.0
        if skewness < SKEWED:
            return []
        text = f"{target.name!r} has a long tail (skewness {skewness:.1f}): a few rows dominate the squared error."
        return [Finding(BALANCE, text)]
    labels, counts = np.unique(target.y, return_counts=True)
    fewest = max(RARE_ROWS, RARE_SHARE * len(target.y) / len(labels))
    rare = [(str(label), int(n)) for label, n in zip(labels, counts, strict=True) if n < fewest]
    if not rare:
        return []
    rare.sort(key=lambda pair: pair[1])
    shown = ", ".join(f"{label!r} {counted_rows(n)} ({share_text(n, len(target.y), 2)})" for label, n in rare[:5])
    more = f" and {len(rare) - 5} more" if len(rare) > 5 else ""
    return [Finding(BALANCE, f"Rare classes of {target.name!r}: {shown}{more}. Accuracy hardly reflects them.")]


MAX_COLUMNS, N_TYPICAL, LONGEST, CONTENTS_WIDTH = 60, 3, 24, 44
CONTENTS = "range or frequent values"
WIDE = 62  # minimum terminal width for a column with the contents
KINDS = {**DESCRIPTIONS, TEXT: "categories"}


def print_inspection(report: Report, inspection: Inspection, title: str) -> None:
    """Print the facts on the table, a line for each column, and the findings."""
    report.facts(table_facts(inspection, title))
    report.title("Columns")
    headers = [
        "holds",
        "missing",
        "different",
        *([f"{score_name(inspection.target)} alone"] if inspection.alone else []),
    ]
    columns = inspection.columns[:MAX_COLUMNS]
    rows = [_column_cells(inspection, facts) for facts in columns]
    of_names = min(NARROW_NAME, 2 + max((len(facts.name) for facts in columns), default=0))
    n_shown = n_fitting_columns(headers, rows, report.out.width - of_names)
    is_wide = report.out.width >= WIDE + (len(score_name(inspection.target)) + 8 if inspection.alone else 0)
    table = Table(box=None, padding=(0, 1), pad_edge=True, show_edge=False)
    table.add_column("", max_width=24)
    for i, name in enumerate(headers[:n_shown]):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    if is_wide:
        table.add_column(one_line(CONTENTS), max_width=CONTENTS_WIDTH)
    for facts, row in zip(columns, rows, strict=True):
        table.add_row(one_line(facts.name), *row[:n_shown], *([one_line(describe_contents(facts))] if is_wide else []))
    report.out.print(table)
    if left_out := [*headers[n_shown:], *([] if is_wide else [CONTENTS])]:
        report.out.print(f" a wider terminal also shows: {'; '.join(left_out)}", style="dim")
    if len(inspection.columns) > MAX_COLUMNS:
        report.out.print(
            f" and {len(inspection.columns) - MAX_COLUMNS:,} more columns; use -o page.html to see all of them"
        )
    report.title("What to check" if inspection.findings else "Nothing stands out")
    grid = Table.grid(padding=(0, 2))
    for finding in sorted(inspection.findings, key=lambda finding: not finding.is_warning):
        grid.add_row(finding.kind, finding.text, style="bold red" if finding.is_warning else "")
    report.out.print(grid)


def _column_cells(inspection: Inspection, facts: ColumnFacts) -> list[str]:
    """Return a column's cells in the printed table: kind, missing share, number of values, individual score."""
    alone = [_individual_score_text(inspection, facts.name)] if inspection.alone else []
    return [KINDS.get(facts.kind, facts.kind), missing_share(facts), f"{facts.n_distinct:,}", *alone]


def table_facts(inspection: Inspection, title: str) -> list[tuple[str, str]]:
    """Return facts about the size of the table and its target as pairs of name and text."""
    kinds = [KINDS.get(facts.kind, facts.kind) for facts in inspection.columns]
    counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))
    facts = [
        ("table", title),
        ("rows", f"{inspection.n_rows:,}"),
        ("columns", f"{len(kinds)} ({counts})"),
        ("missing", missing_cells_text([facts.n_missing for facts in inspection.columns])),
    ]
    if inspection.target is not None:
        n = len(np.unique(inspection.target.y))
        what = f"{n:,} classes" if inspection.target.task == CLASSIFICATION else f"{n:,} distinct numbers"
        facts.append(("target", f"{inspection.target.name}: {inspection.target.task}, {what}"))
    return facts


def missing_share(facts: ColumnFacts) -> str:
    """Format the share of missing cells of a column in percent, or NO_VALUE if none is missing."""
    if facts.n_missing == 0:
        return NO_VALUE
    return share_text(facts.n_missing, facts.n_rows)


def describe_contents(facts: ColumnFacts) -> str:
    """Describe the contents of a column: a range, with the median of numbers, or the most frequent values."""
    if facts.quartiles is not None:
        low, _, middle, _, high = facts.quartiles
        return range_text(low, high, "median", middle)
    if facts.limits is not None:
        return " to ".join(facts.limits)
    n_present = facts.n_rows - facts.n_missing
    if not facts.frequent or facts.frequent[0][1] == 1:
        return ", ".join(_shorten(value) for value, _ in facts.frequent[:N_TYPICAL])
    return ", ".join(f"{_shorten(value)} {share_text(n, n_present)}" for value, n in facts.frequent[:N_TYPICAL])


def _shorten(text: str) -> str:
    """Return a text on one line, cut to LONGEST characters."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _individual_score_text(inspection: Inspection, name: str) -> str:
    """Format the score with which column `name` alone predicts the target; NO_VALUE if it has none."""
    return score_text(score_name(inspection.target), inspection.alone[name]) if name in inspection.alone else NO_VALUE
