"""An inspection as it is printed: facts, a line for each column, and what stands out."""

from __future__ import annotations

import numpy as np
from rich.table import Table

from fastens.cli.inspecting.checks import score_name
from fastens.cli.inspecting.columns import ColumnFacts, share_text
from fastens.cli.inspecting.inspection import Inspection
from fastens.cli.report.report import NARROW_NAME, NO_VALUE, Report, n_columns_shown, one_line, shown
from fastens.cli.table.columns import DESCRIPTIONS, TEXT, missing_cells
from fastens.cli.table.notes import range_text
from fastens.cli.table.target import CLASSIFICATION

MOST_COLUMNS, N_TYPICAL, LONGEST, CONTENTS_WIDTH = 60, 3, 24, 44
CONTENTS = "range, or what is frequent"
WIDE = 62  # characters of a terminal with room for what a column holds
KINDS = {**DESCRIPTIONS, TEXT: "categories"}


def print_inspection(report: Report, found: Inspection, title: str) -> None:
    """Print all of it."""
    report.facts(table_facts(found, title))
    report.title("Columns")
    headers = ["holds", "missing", "different", *([f"{score_name(found.target)} alone"] if found.alone else [])]
    columns = found.columns[:MOST_COLUMNS]
    rows = [_cells(found, facts) for facts in columns]
    of_names = min(NARROW_NAME, 2 + max((len(facts.name) for facts in columns), default=0))
    n_shown = n_columns_shown(headers, rows, report.out.width - of_names)
    is_wide = report.out.width >= WIDE + (len(score_name(found.target)) + 8 if found.alone else 0)
    table = Table(box=None, padding=(0, 1), pad_edge=True, show_edge=False)
    table.add_column("", max_width=24)
    for i, name in enumerate(headers[:n_shown]):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    if is_wide:
        table.add_column(one_line(CONTENTS), max_width=CONTENTS_WIDTH)
    for facts, row in zip(columns, rows, strict=True):
        table.add_row(one_line(facts.name), *row[:n_shown], *([one_line(contents(facts))] if is_wide else []))
    report.out.print(table)
    if left_out := [*headers[n_shown:], *([] if is_wide else [CONTENTS])]:
        report.out.print(f" a wider terminal also shows: {'; '.join(left_out)}", style="dim")
    if len(found.columns) > MOST_COLUMNS:
        report.out.print(f" and {len(found.columns) - MOST_COLUMNS:,} more columns: -o page.html shows all of them")
    report.title("What to look at" if found.findings else "Nothing stands out")
    grid = Table.grid(padding=(0, 2))
    for finding in sorted(found.findings, key=lambda finding: not finding.is_warning):
        grid.add_row(finding.kind, finding.text, style="bold red" if finding.is_warning else "")
    report.out.print(grid)


def _cells(found: Inspection, facts: ColumnFacts) -> list[str]:
    """What a column holds, how much of it is missing, how many values it has, and what it says alone."""
    alone = [_alone(found, facts.name)] if found.alone else []
    return [KINDS.get(facts.kind, facts.kind), missing_share(facts), f"{facts.n_distinct:,}", *alone]


def table_facts(found: Inspection, title: str) -> list[tuple[str, str]]:
    """The size of the table and its target, each as a name and a text."""
    kinds = [KINDS.get(facts.kind, facts.kind) for facts in found.columns]
    counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))
    facts = [
        ("table", title),
        ("rows", f"{found.n_rows:,}"),
        ("columns", f"{len(kinds)} ({counts})"),
        ("missing", missing_cells([facts.n_missing for facts in found.columns])),
    ]
    if found.target is not None:
        n = len(np.unique(found.target.y))
        what = f"{n:,} classes" if found.target.task == CLASSIFICATION else f"{n:,} different numbers"
        facts.append(("target", f"{found.target.name}: {found.target.task}, {what}"))
    return facts


def missing_share(facts: ColumnFacts) -> str:
    """The share of missing cells."""
    if facts.n_missing == 0:
        return NO_VALUE
    return share_text(facts.n_missing, facts.n_rows)


def contents(facts: ColumnFacts) -> str:
    """The range of numbers and dates with the median, the most frequent ones of other values."""
    if facts.quartiles is not None:
        low, _, middle, _, high = facts.quartiles
        return range_text(low, high, "median", middle)
    if facts.limits is not None:
        return " to ".join(facts.limits)
    n_present = facts.n_rows - facts.n_missing
    if not facts.frequent or facts.frequent[0][1] == 1:
        return ", ".join(_short(value) for value, _ in facts.frequent[:N_TYPICAL])
    return ", ".join(f"{_short(value)} {share_text(n, n_present)}" for value, n in facts.frequent[:N_TYPICAL])


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _alone(found: Inspection, name: str) -> str:
    return shown(score_name(found.target), found.alone[name]) if name in found.alone else NO_VALUE
