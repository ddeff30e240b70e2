"""`fastens evaluate`: score a model on a table with known target values."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_regressor

from fastens.cli.inspecting.checks import score_warnings
from fastens.cli.models.model_files import load_model, model_features, predict_one_output, table_schema
from fastens.cli.report.report import Report, Truth, area_notes, score, score_constant
from fastens.cli.table.columns import NUMBER, CommandError, kind_of, listed
from fastens.cli.table.parts import read_fitting_rows
from fastens.cli.table.reading import add_reading_options, schema_for_model
from fastens.cli.table.split import ModelCard, Order
from fastens.cli.table.target import CLASSIFICATION, required_column, target_values, weight_values
from fastens.cli.table.task import DROP, drop_missing_targets, drop_zero_weights

# The maximum numbers of groups and of time periods whose scores are shown.
MAX_PARTS = (10, 5)


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens evaluate` with its options to `commands`."""
    text = (
        "Score a model on a table with the true target, and compare it with a constant prediction from the "
        "training rows."
    )
    parser = commands.add_parser("evaluate", description=text)
    parser.add_argument("model", metavar="MODEL", help="a model file written by fastens train")
    text = "CSV or Parquet file with the columns of training and the target"
    parser.add_argument("table", metavar="TABLE", help=text)
    text = "the column with the true values (default: the target in training)"
    parser.add_argument("--target", metavar="COL", help=text)
    parser.add_argument("--weight", metavar="COL", help="a column with the weight of each row")
    text = "also report scores for consecutive periods of this date or numeric column"
    parser.add_argument("--time-column", metavar="COL", help=text)
    parser.add_argument("--group", metavar="COL", help="also report scores for the largest groups of this column")
    add_reading_options(parser, "default: as in training")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the table, predict and print the scores, also by training rows, group and time."""
    model, card = load_model(options.model)
    schema = schema_for_model(options, table_schema(card), options.table)
    table, unfit = read_fitting_rows(options.table, schema, options.sheet)
    table, notes = drop_unlabelled_rows(table, options.target or card.target, options.weight)
    order = Order.from_options(table, options)
    predicted = predict_one_output(model, model_features(model, card, table))
    truth = read_truth(model, card, table, options)
    scores = score(predicted, truth)
    constant = None if card.constant is None else score_constant(np.array(card.constant), truth)
    report = Report()
    report.scores(f"Scores on {len(truth.y):,} rows of {options.table}", scores, constant)
    trained_on = card.trained_on(truth.y, table)
    if trained_on is not None:
        notes.append(f"The model was trained on {trained_on.sum():,} of these rows, so the scores are too optimistic.")
        parts = [("training rows", np.flatnonzero(trained_on)), ("held-out rows", np.flatnonzero(~trained_on))]
        _print_parts(report, "Scores by rows", parts, predicted, truth)
    if order is not None:
        _print_parts(report, f"Scores by {order.name!r}", order.parts(MAX_PARTS[order.is_time]), predicted, truth)
    report.notes([*unfit, *notes, *area_notes(truth)])
    report.warnings(score_warnings(scores))


def _print_parts(
    report: Report, title: str, parts: list[tuple[str, NDArray[np.intp]]], predicted: NDArray, truth: Truth
) -> None:
    """Print scores for each (name, row indices) in `parts`, such as groups or periods; empty parts are left out."""
    scored = [(name, len(rows), score(predicted[rows], truth.take(rows))) for name, rows in parts if len(rows)]
    report.scores_of_parts(title, scored)


def drop_unlabelled_rows(table: pa.Table, target: str | None, weight: str | None) -> tuple[pa.Table, list[str]]:
    """Return rows with a target and a positive weight, all without a target column, and a note on the others."""
    if target not in table.column_names:
        return table, []
    with_targets, notes = drop_missing_targets(table, str(target), DROP)
    return drop_zero_weights(with_targets, weight)[0], notes


def read_truth(model: Any, card: ModelCard, table: pa.Table, options: argparse.Namespace) -> Truth:
    """Return the true values and weights in a table, with the classes or the loss of the model."""
    y = true_values(model, card, table, options.target)
    classes = model.classes_ if card.task == CLASSIFICATION else None
    return Truth(y, weight_values(table, options.weight), classes, getattr(model, "loss", None))


def true_values(model: Any, card: ModelCard, table: pa.Table, name: str | None) -> NDArray:
    """Return the target values in column `name`, if None as in training; raise CommandError if they are unsuitable."""
    if card.task != CLASSIFICATION and not is_regressor(model):
        raise CommandError(f"{type(model).__name__} does not predict a target column. Score it in Python.")
    name = name or card.target
    if name is None:
        raise CommandError(f"--target must name the column that holds the true values: {listed(table.column_names)}")
    column = required_column(table, name, "--target")
    kind = card.target_kind or (kind_of(column.type) if card.task == CLASSIFICATION else NUMBER)
    y = target_values(column, name, kind, card.task)
    unknown = [] if card.task != CLASSIFICATION else sorted({str(label) for label in np.setdiff1d(y, model.classes_)})
    if unknown:
        raise CommandError(f"the target {name!r} has classes that the model was not trained on: {listed(unknown)}")
    return y
