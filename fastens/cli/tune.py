"""`fastens tune`: hyperparameter search within a time limit."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from rich.table import Table

import fastens
from fastens.cli.inspecting.checks import score_warnings, show_task
from fastens.cli.report.progress import waiting
from fastens.cli.report.report import Report, score_with_error
from fastens.cli.table.columns import CommandError, first_line
from fastens.cli.table.tables import add_overwrite, check_distinct_outputs, check_output, output_format, write_tables
from fastens.cli.table.task import Task, add_task_options, add_test_fraction, read_task
from fastens.cli.train import DEFAULT_OUTPUT, gain_shares, save_trained, score_on_held_out

FAMILIES = ", ".join(fastens.TuningConfig().families)
N_SHOWN = 12
DESCRIPTION = """Search for the best model within a time limit. The command samples boosting, forests and extra trees
from published search spaces and cross-validates all models on the same folds, boosting with early stopping. The best
model is refitted on all rows, scored on held-out rows and saved. Ctrl-C stops the search and keeps its results; run the
same command again to resume it."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens tune` with its options to `commands`."""
    usage = "fastens tune [TABLE] [--target COL] [--time-limit SECONDS] [options]"
    parser = commands.add_parser("tune", description=DESCRIPTION, usage=usage)
    add_task_options(parser)
    add_test_fraction(parser)
    add = parser.add_argument
    text = "time limit in seconds for the whole command (default: 600)"
    add("--time-limit", type=float, default=600.0, metavar="SECONDS", help=text)
    text = "maximum number of models, including those of the checkpoint file (default: no limit)"
    add("--trials", type=int, metavar="N", help=text)
    text = f"model families to search, separated by commas: some of {FAMILIES} (default: all)"
    add("--models", default=FAMILIES.replace(" ", ""), metavar="NAMES", help=text)
    text = "loss (default) or a scorer of scikit-learn, such as roc_auc"
    add("--eval-metric", default="loss", metavar="NAME", help=text)
    add("--folds", type=int, default=5, metavar="N", help="number of cross-validation folds (default: 5)")
    add("--n-jobs", type=int, metavar="N", help="number of threads (default: all)")
    text = "file to save the model to (default: %(default)s)"
    add("-o", "--output", metavar="FILE", default=DEFAULT_OUTPUT, help=text)
    text = "file with the models tried, from which a search resumes (default: NAME-search.jsonl next to the model)"
    add("--checkpoint", metavar="FILE", help=text)
    text = "CSV or Parquet file with all models (default: NAME-leaderboard.csv next to the model)"
    add("--leaderboard", metavar="FILE", help=text)
    add_overwrite(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the table, run the search, and score and save the best model."""
    start = time.monotonic()
    name = os.path.splitext(options.output)[0]
    leaderboard = options.leaderboard or f"{name}-leaderboard.csv"
    checkpoint = options.checkpoint or f"{name}-search.jsonl"
    _check_options(options, leaderboard, checkpoint)
    report = Report()
    options.reads_words = True
    task = read_task(options)
    show_task(report, task, has_folds=True)
    with _show_progress(report) as callback:
        search = _tuning_config(options, checkpoint, task, callback)
        result = _run_search(task, search, options.time_limit - (time.monotonic() - start))
    trained = score_on_held_out(result.best_estimator_, task, result.seconds)
    save_trained(trained, options.output, task)
    written = [options.output]
    if result.leaderboard:
        write_tables([_leaderboard_table(result, options.eval_metric)], leaderboard)
        written.append(leaderboard)
    _print_leaderboard(report, result, options.eval_metric)
    if trained.scores:
        report.scores(f"Scores on {task.held_out.sum():,} held-out rows", trained.scores, trained.constant_scores)
        report.notes(trained.notes)
    report.warnings(score_warnings(trained.scores, gain_shares(trained.model, task)))
    report.facts([("", ""), *_outcome_facts(result, options, checkpoint), ("saved", ", ".join(written))])


def _check_options(options: argparse.Namespace, leaderboard: str, checkpoint: str) -> None:
    """Raise CommandError if the options are invalid or an output cannot be written."""
    if not 0 < options.time_limit < float("inf"):
        raise CommandError(f"--time-limit must be positive and finite; got {options.time_limit:g}")
    output_format(leaderboard)
    check_distinct_outputs({"--output": options.output, "--leaderboard": leaderboard, "--checkpoint": checkpoint})
    inputs = [options.table]
    check_output(options.output, "a model", inputs, options.overwrite)
    for path in (leaderboard, checkpoint):
        check_output(path, None, inputs, options.overwrite)


def _tuning_config(
    options: argparse.Namespace, checkpoint: str, task: Task, callback: Callable[[list[Any]], None]
) -> fastens.TuningConfig:
    """Return the search configuration of the options; `callback` gets all trials after each one."""
    order = None if task.order is None else task.order.take(~task.held_out)
    try:
        return fastens.TuningConfig(
            families=tuple(options.models.split(",")),
            eval_metric=options.eval_metric,
            n_folds=options.folds,
            folds=None if order is None else order.folds(options.folds, options.random_state),
            n_trials=options.trials,
            checkpoint=checkpoint,
            random_state=options.random_state,
            n_jobs=options.n_jobs,
            weight_type=options.weight_type,
            text_features=task.card.texts or None,
            callback=callback,
        )
    except ValueError as error:
        raise CommandError(_parameters_to_options(first_line(error))) from error


def _parameters_to_options(message: str) -> str:
    """Replace names of parameters in a message by the options of the command line."""
    options = {"families": "models", "n_folds": "folds", "n_trials": "trials"}
    for name in (*options, "n_jobs", "eval_metric", "checkpoint"):
        message = message.replace(f"{name} must", f"--{options.get(name, name).replace('_', '-')} must")
    return message


def _run_search(task: Task, search: fastens.TuningConfig, seconds: float) -> fastens.TuningResult:
    """Search on the training rows for `seconds`, refit the best model; raise errors as CommandError."""
    rows = task.rows.take(~task.held_out)
    try:
        options: dict[str, Any] = {"time_limit": max(seconds, 0.01), "search": search, "verbose": 0}
        return fastens.tune(rows.X, rows.y, task.card.task, sample_weight=rows.weight, **options)
    except (ValueError, ImportError) as error:
        raise CommandError(_parameters_to_options(first_line(error))) from error
    except OSError as error:
        raise CommandError(f"cannot write {search.checkpoint}: {error.strerror or error}") from error


@contextmanager
def _show_progress(report: Report) -> Iterator[Callable[[list[Any]], None]]:
    """Show elapsed time, trials and best loss on a terminal; yield a function to call with the list of trials."""
    with waiting(report.err, "searching") as progress:

        def callback(trials: list[Any]) -> None:
            done = [trial.loss for trial in trials if trial.is_complete]
            best = f", best loss {min(done):.5g}" if done else ""
            progress.update(progress.task_ids[0], description=f"searching: {len(trials)} models{best}")

        yield callback


def _print_leaderboard(report: Report, result: fastens.TuningResult, metric: str) -> None:
    """Print the best models with their parameters."""
    if not result.leaderboard:
        model = "The model is boosting with its defaults, with as many rounds as the time allowed."
        report.notes([f"No model finished in time. {model}"])
        return
    n_folds = len(result.leaderboard[0].losses)
    report.title(f"Leaderboard ({n_folds} folds, {metric}, mean ± standard error)")
    table = Table(box=None, padding=(0, 1), pad_edge=True, show_edge=False)
    for name, justify in (("", "right"), ("model", "left"), (metric, "right"), ("fits", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("parameters")
    for row, trial in enumerate(result.leaderboard[:N_SHOWN]):
        cells = [
            trial.family,
            score_with_error("", _score(trial, metric), trial.standard_error),
            f"{trial.seconds:.3g} s",
        ]
        table.add_row(str(row + 1), *cells, parameters_text(trial))
    report.out.print(table)


def parameters_text(trial: fastens.Trial) -> str:
    """Return the parameters of a trial as text, with the mean number of boosting rounds."""
    values = {name: f"{value:.3g}" if isinstance(value, float) else str(value) for name, value in trial.params.items()}
    if trial.family == "boosting":
        values["n_estimators"] = str(round(float(np.mean(trial.n_estimators))))
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "defaults"


def _score(trial: fastens.Trial, metric: str) -> float:
    """Return the loss of a trial or, for a metric of scikit-learn, the metric, which is the negative loss."""
    return trial.loss if metric == "loss" else -trial.loss


def _leaderboard_table(result: fastens.TuningResult, metric: str) -> pa.Table:
    """Return a table with one row per model: its scores, times and one column per parameter."""
    trials = result.leaderboard
    names = list(dict.fromkeys(name for trial in trials for name in trial.params))
    return pa.table(
        {
            "model": [trial.family for trial in trials],
            metric: [_score(trial, metric) for trial in trials],
            "standard error": [trial.standard_error for trial in trials],
            "seconds": [trial.seconds for trial in trials],
            "rounds": [float(np.mean(trial.n_estimators)) for trial in trials],
            **{name: [trial.params.get(name) for trial in trials] for name in names},
        }
    )


def _outcome_facts(result: fastens.TuningResult, options: argparse.Namespace, checkpoint: str) -> list[tuple[str, str]]:
    """Return the models tried, why the search ended and how to resume it, as (name, text) pairs to print."""
    n_done = len(result.leaderboard)
    ends = {
        "time": "the time limit was reached",
        "trials": "the maximum number of trials was reached",
        "interrupt": "interrupted",
    }
    tried = f"{len(result.trials):,} models in {result.seconds:.1f} s: {ends[result.stopped_by]}"
    given_up = len(result.trials) - n_done
    if given_up:
        tried += f"; {given_up:,} of them stopped early because they were worse than most"
    again = f"to resume, run the same command again: {checkpoint} keeps the models tried"
    return [("searched", tried), ("go on", again)]
