"""The cheap checks that every command shares: what makes scores too good to be true, or a model useless.

`inspect` makes all of them, `train`, `compare` and `tune` those of `training_findings`, on a sample of large tables.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.cli.inspecting.columns import code_remark, is_usual_code, missing_codes, remark_lines, share_text
from fastens.cli.inspecting.duplicates import column_codes, n_repeated, row_groups, rows_to_compare
from fastens.cli.inspecting.leaks import GIVES_AWAY, formulas, perfect, sampled, scores_alone
from fastens.cli.report.report import Report, shown
from fastens.cli.report.scores import Scores
from fastens.cli.table.columns import DATE, NUMBER, TIMESTAMP, WORDS, kind_of, n_distinct
from fastens.cli.table.errors import listed
from fastens.cli.table.identifiers import is_group, words_of
from fastens.cli.table.target import CLASSIFICATION
from fastens.cli.table.task import Task
from fastens.files.read import USUAL_CODES

LEAK, IDENTIFIER, TEXTS, TIME, GROUP = "likely leak", "likely identifier", "free text", "time", "groups"
DUPLICATES, BALANCE, CELLS, WRITING = "duplicates", "target", "odd cells", "writing"
# Rows that are looked at before a training; `inspect` looks at more.
TRAINING_ROWS, COMPARED_ROWS = 5000, 20_000
# The share of the gain of one column from which on it is named.
ALL_GAIN = 0.99
# Among classes that are texts, smaller numbers are seldom codes for missing.
SMALLEST_CODE = 77
# Words of the names of numbers that are times, if they never fall from row to row.
TIME_WORD = re.compile("date|datum|time|timestamp|zeit|year|jahr|annee|ano|day|tag|week|epoch")
FEWEST_TIMES = 10


@dataclass(frozen=True)
class Target:
    """The column to predict in the rows that have it."""

    name: str
    task: str
    y: NDArray


@dataclass(frozen=True)
class Finding:
    """Something to look at: what kind it is of, and a sentence; a warning where scores mean nothing if it is true."""

    kind: str
    text: str
    is_warning: bool = False


def score_name(target: Target | None) -> str:
    """What a column alone is measured by."""
    return "AUC" if target is not None and target.task == CLASSIFICATION else "rank R²"


# Before a training --------------------------------------------------


def show_task(report: Report, task: Task, *, has_folds: bool = False) -> None:
    """Print the facts about a task, and what the cheap checks find."""
    findings = training_findings(task, holds_out=has_folds or bool(task.held_out.any()))
    report.facts(task.facts())
    report.warnings([finding.text for finding in findings if finding.is_warning])
    report.notes([*task.notes, *(finding.text for finding in findings if not finding.is_warning)])


def training_findings(task: Task, *, holds_out: bool) -> list[Finding]:
    """What the cheap checks find in the columns that a model is about to learn from."""
    card, table = task.card, task.columns
    name = str(card.target)
    target = Target(name, card.task, task.rows.y[: len(table)])
    others = table.drop_columns([name])
    kinds = {column: kind for column, kind in card.kinds.items() if kind != WORDS}
    rows = sampled(len(table), TRAINING_ROWS)
    return [
        *code_findings(table[name], target),
        *leak_findings(others, kinds, target, TRAINING_ROWS)[1],
        *(time_findings(others, kinds) if holds_out and task.order is None else []),
        *(group_findings(others, kinds) if holds_out and task.order is None else []),
        *(_repeated_rows(table) if holds_out else []),
        *_codes_of_columns(others, kinds, rows),
    ]


def leak_findings(
    table: pa.Table, kinds: Mapping[str, str], target: Target, most_rows: int
) -> tuple[dict[str, float], list[Finding]]:
    """The score of each column alone, and the columns and formulas that give the target away."""
    rows = sampled(len(table), most_rows)
    some, y = table.take(rows), target.y[rows]
    alone = scores_alone(some, kinds, y, target.task)
    near = {name: value for name, value in alone.items() if value >= GIVES_AWAY}
    texts = [
        f"{name!r} alone gives the target away: {score_name(target)} {_rounded(value)}. If it is not known when "
        f"predictions are made, drop it: --drop {shlex.quote(name)}"
        for name, value in sorted(near.items(), key=lambda pair: -pair[1])
    ]
    for found in formulas(some, kinds, y, target.task, alone):
        score = "R²" if target.task != CLASSIFICATION else "AUC"
        option = "--drop " + shlex.quote(",".join(found.names))
        texts.append(
            f"{found.text} gives the target away: {score} {_rounded(found.score)}. If these columns are not known when "
            f"predictions are made, drop them: {option}"
        )
    return alone, [Finding(LEAK, text, is_warning=True) for text in texts]


def _rounded(value: float) -> str:
    return f"{value:.4f}" if value < 0.99995 else "1"


def code_findings(column: pa.ChunkedArray, target: Target) -> list[Finding]:
    """Values of the target that look like codes for missing."""
    n_rows = len(column)
    if kind_of(column.type) == NUMBER:
        values = _numbers(column)
        counts = {f"{code:.15g}": int(np.count_nonzero(values == code)) for code in missing_codes(values)}
    elif target.task == CLASSIFICATION:
        labels, numbers = np.unique(target.y.astype(str), return_counts=True)
        counts = {str(label): int(n) for label, n in zip(labels, numbers, strict=True) if _is_code(str(label))}
    else:
        counts = {}
    return [
        Finding(
            BALANCE,
            f"The target {target.name!r} is {code} in {n:,} of {n_rows:,} rows ({share_text(n, n_rows)}): a code for "
            f"missing? If so, the model learns it and every score is wrong. --missing={shlex.quote(code)} leaves "
            "these rows out.",
            is_warning=True,
        )
        for code, n in counts.items()
    ]


def _is_code(label: str) -> bool:
    """If a class is written as people write a missing value."""
    text = label.strip().lower()
    try:
        return is_usual_code(float(text)) and abs(float(text)) >= SMALLEST_CODE
    except ValueError:
        return text in USUAL_CODES and not (len(text) == 1 and text.isalnum())  # "x" is a class of its own right


def time_findings(table: pa.Table, kinds: Mapping[str, str]) -> list[Finding]:
    """Columns of dates, and what that means for held-out rows."""
    names = [name for name, kind in kinds.items() if kind in (DATE, TIMESTAMP)]
    rising = [name for name in names if _is_sorted(table[name])]
    numbers = [name for name, kind in kinds.items() if kind == NUMBER and any(map(TIME_WORD.fullmatch, words_of(name)))]
    numbers = [name for name in numbers if _is_sorted(table[name]) and n_distinct(table[name]) >= FEWEST_TIMES]
    names, rising = [*names, *numbers], [*rising, *numbers]
    if not names:
        return []
    order = f"; the rows are in the order of {listed(rising)}" if rising else ""
    option = "--time-column " + shlex.quote((rising or names)[0])
    advice = f"Rows are held out at random. If later rows are to be predicted from earlier ones: {option}"
    return [Finding(TIME, f"Times: {listed(names)}{order}. {advice}")]


def _is_sorted(column: pa.ChunkedArray) -> bool:
    present = column.drop_null().combine_chunks()
    return len(present) > 1 and bool(pc.all(pc.less_equal(present[:-1], present[1:])).as_py())


def group_findings(table: pa.Table, kinds: Mapping[str, str]) -> list[Finding]:
    """Identifiers of people or things that have several rows each."""
    names = [name for name, kind in kinds.items() if is_group(table[name], kind, name)]
    if not names:
        return []
    return [
        Finding(
            GROUP,
            f"{listed(names)}: several rows of each value, some of which may be held out and others trained on. If the "
            f"model is for new values: --group {shlex.quote(names[0])}",
        )
    ]


def _repeated_rows(table: pa.Table) -> list[Finding]:
    """Rows that are there twice, of the columns that are learned from."""
    rows = rows_to_compare(table.columns, COMPARED_ROWS)
    some = table if len(rows) == len(table) else table.take(rows)
    if not len(rows) or not (n := n_repeated(row_groups([column_codes(column) for column in some.columns]))):
        return []
    share = share_text(n, len(rows))
    many = f"{n:,} rows ({share})" if len(rows) == len(table) else f"About {share} of the rows"
    text = f"{many} are equal to an earlier one in all columns used: some may be both held out and trained on."
    return [Finding(DUPLICATES, text)]


def _codes_of_columns(table: pa.Table, kinds: Mapping[str, str], rows: NDArray[np.intp]) -> list[Finding]:
    """Numbers that look like codes for missing, found in some rows and counted in all."""
    remarks = [
        (name, code_remark(code, int(np.count_nonzero(_numbers(table[name]) == code))))
        for name, kind in kinds.items()
        if kind == NUMBER and kind_of(table[name].type) == NUMBER
        for code in missing_codes(_numbers(table[name].take(rows)))
    ]
    return [Finding(CELLS, line) for line in remark_lines(remarks)]


def _numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    """The finite numbers of a column."""
    values = np.asarray(column.cast(pa.float64(), safe=False).to_numpy())
    return values[np.isfinite(values)]


# After a training --------------------------------------------------


def score_warnings(scores: Scores, shares: Sequence[tuple[str, float]] = (), what: str = "The") -> list[str]:
    """What to ask where a score is perfect, and where one column has nearly all of the gain."""
    found = []
    total = sum(share for _, share in shares)
    largest = max(shares, key=lambda pair: pair[1], default=("", 0.0))
    one = len(shares) > 1 and total > 0 and largest[1] >= ALL_GAIN * total
    if (name := perfect(scores)) is not None:
        first = f" The column to look at first is {largest[0]!r}." if one else ""
        found.append(
            f"{what} {name} of {shown(name, scores[name])} is seldom real. Look for columns that follow from the "
            f"target or are known only after it, and for rows that are there twice: fastens inspect.{first}"
        )
    if one:
        share = share_text(largest[1], total)
        found.append(
            f"{largest[0]!r} has {share} of what the splits gain: the model is nearly this column alone. If it is not "
            f"known when predictions are made: --drop {shlex.quote(largest[0])}"
        )
    return found
