"""`fastens train`: from a table to a model that was tried on rows it had not seen."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.bundled import bundled_table
from fastens.cli.card import ModelCard
from fastens.cli.columns import UNUSABLE, column_kinds, features, kind_of, n_distinct
from fastens.cli.errors import CommandError, listed
from fastens.cli.notes import column_notes
from fastens.cli.parameters import add_parameters, fit, make_model
from fastens.cli.progress import training_progress
from fastens.cli.report import Report
from fastens.cli.scores import Scores, constant_prediction, held_out_rows, score, score_constant
from fastens.cli.tables import check_writable, read_table
from fastens.cli.target import (
    CLASSIFICATION,
    REGRESSION,
    check_target,
    recognised_task,
    required,
    target_values,
    weight_values,
)

DEFAULT_OUTPUT = "model.fastens"
DESCRIPTION = """Train gradient boosting on a table and report how good it is on rows held out from training.
Without a table it trains on a real one that comes with scikit-learn."""


@dataclass(frozen=True)
class Task:
    """A table, ready to be learned: features, target and weights of the same rows, and what the columns are."""

    title: str
    columns: pa.Table
    y: NDArray
    weight: NDArray | None
    card: ModelCard
    notes: list[str]

    @property
    def is_classification(self) -> bool:
        """Whether the target holds classes."""
        return self.card.task == CLASSIFICATION

    def rows(self, mask: NDArray[np.bool_]) -> tuple[pa.Table, NDArray, NDArray | None]:
        """Features, target and weights of the marked rows."""
        return self.columns.filter(pa.array(mask)), self.y[mask], None if self.weight is None else self.weight[mask]


@dataclass(frozen=True)
class Trained:
    """A model and how it did."""

    model: Any
    constant: NDArray[np.float64]
    seconds: float
    scores: Scores | None
    constant_scores: Scores | None


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    parser = commands.add_parser("train", help="train a model on a table", description=DESCRIPTION)
    parser.add_argument("table", nargs="?", metavar="TABLE", help="CSV or Parquet file; left out: a bundled real table")
    parser.add_argument("--target", metavar="COL", help="the column to predict")
    parser.add_argument("--task", choices=("auto", CLASSIFICATION, REGRESSION), default="auto", help="(default: auto)")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"where to save the model (default: {DEFAULT_OUTPUT}, for a bundled table nowhere)",
    )
    parser.add_argument(
        "--drop",
        "--ignore",
        action="append",
        default=[],
        metavar="COLUMNS",
        help="columns to leave out, separated by commas",
    )
    parser.add_argument(
        "--categorical",
        action="append",
        default=[],
        metavar="COLUMNS",
        help="columns of numbers that stand for categories",
    )
    parser.add_argument("--weight", metavar="COL", help="a column with the weight of each row")
    parser.add_argument(
        "--test-fraction", type=float, default=0.2, metavar="SHARE", help="share of the rows held out (default: 0.2)"
    )
    parser.add_argument(
        "--random-state", type=int, default=0, metavar="SEED", help="seed of all random choices (default: 0)"
    )
    add_parameters(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, report: Report) -> None:
    """Read, train, evaluate, save; print what was found."""
    output = options.output or (DEFAULT_OUTPUT if options.table else None)
    if output is not None:
        check_writable(output)
    if not 0 <= options.test_fraction < 1:
        raise CommandError(f"--test-fraction must be at least 0 and less than 1, got {options.test_fraction:g}")
    task = read_task(options)
    held_out = _held_out(task, options)
    report.facts(_facts(task, held_out))
    report.notes(task.notes)
    trained = _train(task, held_out, options, report)
    if trained.scores is not None:
        report.scores(f"Scores on {held_out.sum():,} held-out rows", trained.scores, trained.constant_scores)
    report.importances(zip(task.columns.column_names, trained.model.feature_importances_, strict=True))
    report.title(_summary(trained))
    if output is not None:
        _save(trained.model, output, task.card, trained.constant)
    report.facts(_next_steps(options, output))


def read_task(options: argparse.Namespace) -> Task:
    """The table with its columns, target and weights sorted out."""
    table, target, title = _read(options)
    column = required(table, target, "--target")
    weight = weight_values(table, options.weight)
    if weight is not None:
        counted = pa.array(weight > 0)
        table, column, weight = table.filter(counted), column.filter(counted), weight[weight > 0]
    task = recognised_task(column) if options.task == "auto" else options.task
    check_target(column, target, task)
    dropped = {target, options.weight, *_named(options.drop, table, "--drop")}
    candidates = table.select([name for name in table.column_names if name not in dropped])
    all_kinds = column_kinds(candidates, _named(options.categorical, table, "--categorical"))
    kinds = {name: kind for name, kind in all_kinds.items() if kind != UNUSABLE}
    if not kinds:
        raise CommandError("no columns are left to learn from")
    target_kind = kind_of(column.type)
    y = target_values(column, target, target_kind, task)
    return Task(
        title=title,
        columns=features(candidates, kinds),
        y=y,
        weight=weight,
        card=ModelCard(target, target_kind, task, kinds, options.weight, None),
        notes=[*_task_notes(column, target, options.task, task), *column_notes(candidates, all_kinds)],
    )


def _read(options: argparse.Namespace) -> tuple[pa.Table, str, str]:
    """The table, its target and its title."""
    if options.table is None:
        bundled = bundled_table(options.task)
        return bundled.table, options.target or bundled.target, bundled.title
    table = read_table(options.table, _split(options.categorical))
    if options.target is None:
        raise CommandError(f"say with --target which column to predict: {listed(table.column_names)}")
    return table, options.target, options.table


def _split(values: list[str]) -> list[str]:
    return [name for value in values for name in (value, *value.split(","))]


def _named(values: list[str], table: pa.Table, option: str) -> list[str]:
    """The columns that an option names; a column may have a comma in its own name."""
    names = []
    for value in values:
        names += [value] if value in table.column_names else value.split(",")
    for name in names:
        required(table, name, option)
    return names


def _task_notes(column: pa.ChunkedArray, target: str, asked: str, task: str) -> list[str]:
    """How the task was recognised, where it could have been the other one."""
    if asked != "auto" or not pa.types.is_integer(column.type):
        return []
    other = REGRESSION if task == CLASSIFICATION else CLASSIFICATION
    found = f"{target!r} has {n_distinct(column):,} distinct whole numbers"
    return [f"{found}: taken as {task}. For {other}: --task {other}"]


def _held_out(task: Task, options: argparse.Namespace) -> NDArray[np.bool_]:
    strata = np.unique(task.y, return_inverse=True)[1] if task.is_classification else np.zeros(len(task.y), dtype=int)
    held_out = held_out_rows(strata, options.test_fraction, options.random_state)
    if options.test_fraction > 0 and not 0 < held_out.sum() < len(task.y):
        raise CommandError(
            f"{len(task.y):,} rows are too few to hold some out; --test-fraction 0 trains on all of them"
        )
    return held_out


def _train(task: Task, held_out: NDArray[np.bool_], options: argparse.Namespace, report: Report) -> Trained:
    """Fit on the rows that are not held out, score on those that are."""
    X, y, weight = task.rows(~held_out)
    model = make_model(task.card.task, options)
    start = time.perf_counter()
    with training_progress(report.err) as on_round:
        model._on_round = on_round
        fit(model, X, y, sample_weight=weight)
    seconds = time.perf_counter() - start
    del model._on_round
    classes = model.classes_ if task.is_classification else None
    constant = constant_prediction(y, weight, classes)
    if not held_out.any():
        return Trained(model, constant, seconds, None, None)
    X, y, weight = task.rows(held_out)
    predicted = model.predict_proba(X) if task.is_classification else model.predict(X)
    loss = getattr(model, "loss", "log_loss")
    return Trained(
        model=model,
        constant=constant,
        seconds=seconds,
        scores=score(predicted, y, weight, classes, loss),
        constant_scores=score_constant(constant, y, weight, classes, loss),
    )


def _facts(task: Task, held_out: NDArray[np.bool_]) -> list[tuple[str, str]]:
    n_test = int(held_out.sum())
    split = f" ({len(task.y) - n_test:,} to train on, {n_test:,} held out)" if n_test else ""
    kinds = list(task.card.kinds.values())
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    n_missing = sum(column.null_count for column in task.columns.columns)
    incomplete = sum(column.null_count > 0 for column in task.columns.columns)
    return [
        ("table", task.title),
        ("rows", f"{len(task.y):,}{split}"),
        ("columns", f"{len(kinds)} ({counts})"),
        ("missing", f"{n_missing:,} cells in {incomplete} columns" if n_missing else "no cells"),
        ("target", f"{task.card.target}: {_target_facts(task)}"),
    ]


def _target_facts(task: Task) -> str:
    if not task.is_classification:
        return f"regression, {task.y.min():.6g} to {task.y.max():.6g}, mean {task.y.mean():.6g}"
    labels, counts = np.unique(task.y, return_counts=True)
    largest = np.argsort(-counts, kind="stable")[:4]
    shares = ", ".join(f"{labels[i]} {counts[i] / len(task.y):.1%}" for i in largest)
    return f"classification, {len(labels)} classes ({shares}{', …' if len(labels) > 4 else ''})"


def _summary(trained: Trained) -> str:
    n_trees = getattr(trained.model, "n_estimators_", None)
    rounds = f"{n_trees} rounds" if n_trees else "Model"
    return f"{rounds} trained in {trained.seconds:.2f} s"


def _save(model: Any, output: str, card: ModelCard, constant: NDArray[np.float64]) -> None:
    try:
        model.save(output, metadata=replace(card, constant=constant.tolist()).to_metadata())
    except OSError as error:
        raise CommandError(f"cannot write {output}: {error.strerror or error}") from error


def _next_steps(options: argparse.Namespace, output: str | None) -> list[tuple[str, str]]:
    """Where the model is and what to do with it."""
    if options.table is None:
        steps = [("your own table", "fastens train TABLE --target COLUMN   (CSV or Parquet)")]
    else:
        steps = []
    if output is not None:
        size = os.path.getsize(output) / 1024
        steps = [
            ("saved", f"{output} ({size:,.0f} KiB)"),
            ("predict", f"fastens predict {output} TABLE -o predictions.csv"),
            *steps,
        ]
    return steps
