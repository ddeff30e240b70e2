"""`fastens predict`: a model's predictions for the rows of a table."""

from __future__ import annotations

import argparse
import time
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.cli.card import load_model, model_features, predicted_values, text_columns
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


def run(options: argparse.Namespace) -> None:
    """Read, predict, write."""
    table_format(options.output)
    check_writable(options.output)
    model, card = load_model(options.model)
    X = model_features(model, card, read_table(options.table, text_columns(card)))
    start = time.perf_counter()
    predictions = predicted_table(model, predicted_values(model, X))
    seconds = time.perf_counter() - start
    write_table(predictions, options.output)
    Report().line(f"{predictions.num_rows:,} rows predicted in {seconds:.2f} s, written to {options.output}")


def predicted_table(model: Any, values: NDArray) -> pa.Table:
    """One row per row: `prediction`, and for classes `probability CLASS` for each."""
    if not is_classifier(model):
        return pa.table({"prediction": values})
    columns = {f"probability {label}": values[:, k] for k, label in enumerate(model.classes_)}
    return pa.table({"prediction": model.classes_[values.argmax(axis=1)], **columns})
