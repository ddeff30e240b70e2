"""`fastens compare`: a leaderboard of model families, cross-validated on the same folds of one table."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fastens.cli.inspecting.checks import score_warnings, show_task
from fastens.cli.models.models import FAMILIES, TEXT, estimator_class, families, quick_families
from fastens.cli.report.progress import comparison_progress
from fastens.cli.report.report import (
    Entry,
    Report,
    best_scores,
    check_picture,
    constant_entry,
    cross_validate,
    draw_leaderboard,
    fold_rows,
    rank_entries,
)
from fastens.cli.table.columns import CommandError
from fastens.cli.table.tables import add_overwrite, check_output, output_format, write_tables, writing
from fastens.cli.table.task import Task, add_task_options, read_task

STACK, MIN_MEMBERS = "stack of these models", 2
DESCRIPTION = """Cross-validate several kinds of models on the same folds of a table, and rank them.
Without a table, the command uses an example table of scikit-learn."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens compare` with its options to `commands`."""
    usage = "fastens compare [TABLE] [--target COL] [options]"
    parser = commands.add_parser("compare", description=DESCRIPTION, usage=usage)
    add_task_options(parser)
    add = parser.add_argument
    names = ", ".join(name for name in FAMILIES if name != TEXT)
    composed = ", ".join(name for name, family in FAMILIES.items() if family.is_composed)
    special = ", ".join(name for name, family in FAMILIES.items() if family.is_special)
    text = (
        f"models to compare, separated by commas: {names} (default: all that support the task, except "
        f"{composed}, which are slow, and {special}, which need a special kind of table)"
    )
    add("--models", metavar="NAMES", help=text)
    add("--stack", action="store_true", help="add a row for a stack of the models of the leaderboard")
    add("--folds", type=int, default=5, metavar="N", help="number of cross-validation folds (default: 5)")
    add("--n-jobs", type=int, metavar="N", help="number of threads (default: all)")
    add("-o", "--output", metavar="FILE", help="CSV or Parquet file to write the leaderboard to")
    add("--picture", metavar="FILE", help="PNG, SVG or PDF file to plot the leaderboard to")
    add_overwrite(parser)
    parser.set_defaults(run=run, test_fraction=0.0)


def run(options: argparse.Namespace) -> None:
    """Read, cross-validate each model, print and write the leaderboard."""
    _check_options(options)
    report = Report()
    options.reads_words = True
    task = read_task(options)
    models = _create_models(task, options)
    _check_folds(task, options.folds)
    folds = fold_rows(task, options.folds, options.random_state)
    show_task(report, task, has_folds=True)
    entries = [constant_entry(task, folds)]
    try:
        _cross_validate_models(models, task, folds, entries, report, options)
    except KeyboardInterrupt:
        if any(entry.scores for entry in entries[1:]):  # after an interrupt, partial results are shown but not written
            report.leaderboard(f"Leaderboard of the finished models ({_folds_text(options)})", rank_entries(entries))
        raise
    if not any(entry.scores for entry in entries[1:]):
        reasons = [f"{entry.name}: {entry.failure}" for entry in entries[1:]]
        raise CommandError(f"no model supports the table: {'; '.join(reasons)}")
    entries = rank_entries(entries)
    if options.output:
        write_tables([leaderboard_table(entries)], options.output)
    if options.picture:
        with writing(options.picture) as unfinished:
            draw_leaderboard(entries, task.title, unfinished)
    report.leaderboard(f"Leaderboard ({_folds_text(options)})", entries)
    best = best_scores(entries)
    report.notes(
        [
            f"{name} is undefined, because no fold has test rows of two classes."
            for name in best
            if best[name] != best[name]
        ]
    )
    report.warnings(score_warnings(best, what="The best"))
    if written := [path for path in (options.output, options.picture) if path]:
        report.facts([("", ""), ("written", ", ".join(written))])


def _cross_validate_models(
    models: Mapping[str, Any],
    task: Task,
    folds: list[Any],
    entries: list[Entry],
    report: Report,
    options: argparse.Namespace,
) -> None:
    """Append an entry to `entries` for each model, also if it fails, and with --stack for a stack of the others."""
    with comparison_progress(report.err, (len(models) + options.stack) * len(folds)) as advance:
        for name, model in models.items():
            model_task = task if hasattr(model, "text_features") else task.without_texts()
            if model_task.rows.names:
                entries.append(cross_validate(name, model, model_task, folds, partial(advance, name)))
            else:
                entries.append(Entry(name, failure="it cannot use texts, and the table has no other columns"))
        if not options.stack:
            return
        members = {entry.name: models[entry.name] for entry in entries[1:] if entry.scores}
        if len(members) < MIN_MEMBERS:
            entries.append(
                Entry(STACK, failure=f"it needs two models that support the table, and there are {len(members)}")
            )
        else:
            stack = _make_stack(members, task, options)
            entries.append(cross_validate(STACK, stack, task, folds, partial(advance, STACK)))


def _folds_text(options: argparse.Namespace) -> str:
    """Return the number of folds and the column that forms them, for the title of the leaderboard."""
    by = f" by {options.time_column or options.group!r}" if options.time_column or options.group else ""
    return f"{options.folds} folds{by}, mean ± standard error"


def leaderboard_table(entries: list[Entry]) -> pa.Table:
    """Return a table with a row per model that did not fail: scores, standard errors, times and size in bytes."""
    done = [entry for entry in entries if entry.scores]
    names = list(done[0].scores[0])
    columns: dict[str, list[Any]] = {"model": [entry.name for entry in done]}
    for name in names:
        columns[name] = [entry.mean(name) for entry in done]
        columns[f"{name} standard error"] = [entry.error(name) for entry in done]
    columns["fit seconds"] = [entry.fit_time for entry in done]
    columns["prediction microseconds per row"] = [entry.microseconds_per_row for entry in done]
    columns["bytes"] = [entry.n_bytes for entry in done]
    return pa.table(columns)


def _check_options(options: argparse.Namespace) -> None:
    """Raise CommandError if an option is invalid or an output cannot be written."""
    if options.n_jobs == 0:
        raise CommandError("--n-jobs must be an integer other than 0; got 0")
    if options.output:
        output_format(options.output)
    if options.picture:
        check_picture(options.picture)
    for path in filter(None, (options.output, options.picture)):
        check_output(path, None, [options.table], options.overwrite)


def _check_folds(task: Task, n_folds: int) -> None:
    """Raise CommandError unless n_folds is 2 to the number of rows or, if stratified, of rows of the largest class."""
    max_folds, what = len(task.rows.y), "number of rows"
    if task.is_classification and task.order is None:
        counts = np.unique(task.rows.y, return_counts=True)[1]
        max_folds, what = int(counts.max()), "number of rows of the most frequent class"
    if not 2 <= n_folds <= max_folds:
        raise CommandError(f"--folds must be at least 2 and at most {max_folds:,}, the {what}; got {n_folds}")


def _create_models(task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """Return {family: unfitted estimator} for --models or all quick families; raise CommandError for unknown ones."""
    by_name = families(task.card.task)
    wanted = (
        quick_families(task.card.task) if options.models is None else list(dict.fromkeys(options.models.split(",")))
    )
    for name in wanted:
        if name not in by_name:
            raise CommandError(f"--models must be among {', '.join(by_name)} for {task.card.task}; got {name!r}")
    if options.stack and len(wanted) < MIN_MEMBERS:
        raise CommandError(f"--stack needs at least two models; got {', '.join(wanted)}")
    return {name: _create_estimator(by_name[name], task, options) for name in wanted}


def _make_stack(members: Mapping[str, Any], task: Task, options: argparse.Namespace) -> Any:
    """Return an unfitted stacking estimator whose members are the unfitted estimators in `members`, by name."""
    return _create_estimator(partial(estimator_class("stacking", task.card.task), list(members.items())), task, options)


def _create_estimator(estimator: Callable[..., Any], task: Task, options: argparse.Namespace) -> Any:
    """Call `estimator` with the options for seed, threads, weight type and text columns that it has as parameters."""
    common = {"random_state": options.random_state, "n_jobs": options.n_jobs, "weight_type": options.weight_type}
    common |= {"text_features": task.card.texts} if task.card.texts else {}
    parameters = inspect.signature(estimator).parameters
    return estimator(**{name: value for name, value in common.items() if name in parameters})
