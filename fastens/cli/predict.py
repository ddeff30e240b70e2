"""`fastens predict`: a model's predictions for the rows of a table."""

from __future__ import annotations

import argparse
import time
from typing import Any

import pyarrow as pa
from sklearn.base import is_classifier

from fastens.cli.card import load_model, model_features, text_columns
from fastens.cli.errors import CommandError, first_line
from fastens.cli.report import Report
from fastens.cli.tables import check_writable, read_table, table_format, write_table


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    text = "Predict every row of a table, in order: the class and the probability of each class, or the value."
    parser = commands.add_parser("predict", help="predict the rows of a table", description=text)
    parser.add_argument("model", metavar="MODEL", help="a file that fastens train saved")
    parser.add_argument("table", metavar="TABLE", help="CSV or Parquet file with the columns of training")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="CSV or Parquet file to write")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, report: Report) -> None:
    """Read, predict, write."""
    table_format(options.output)
    check_writable(options.output)
    model, card = load_model(options.model)
    X = model_features(model, card, read_table(options.table, text_columns(card)))
    start = time.perf_counter()
    try:
        predictions = predicted_table(model, X)
    except ValueError as error:
        raise CommandError(first_line(error)) from error
    seconds = time.perf_counter() - start
    write_table(predictions, options.output)
    report.line(f"{predictions.num_rows:,} rows predicted in {seconds:.2f} s, written to {options.output}")


def predicted_table(model: Any, X: pa.Table) -> pa.Table:
    """One row per row of X: `prediction`, and for classes `probability CLASS` for each."""
    if not is_classifier(model):
        return pa.table({"prediction": model.predict(X)})
    probabilities = model.predict_proba(X)
    columns = {f"probability {label}": probabilities[:, k] for k, label in enumerate(model.classes_)}
    return pa.table({"prediction": model.classes_[probabilities.argmax(axis=1)], **columns})
