"""`fastens predict`: a model's predictions for the rows of a table."""

from __future__ import annotations

import argparse
import time
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.cli.models.model_files import load_model, model_features, predicted_values, text_columns
from fastens.cli.report.report import Report
from fastens.cli.table.outputs import add_overwrite, check_output
from fastens.cli.table.tables import read_table, table_format, write_table


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    text = "Predict every row of a table, in order: the class and the probability of each class, or the value."
    parser = commands.add_parser("predict", help="predict the rows of a table", description=text)
    parser.add_argument("model", metavar="MODEL", help="a file that fastens train saved")
    parser.add_argument("table", metavar="TABLE", help="CSV or Parquet file with the columns of training")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="CSV or Parquet file to write")
    add_overwrite(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read, predict, write."""
    table_format(options.output)
    check_output(options.output, None, [options.model, options.table], options.overwrite)
    model, card = load_model(options.model)
    X = model_features(model, card, read_table(options.table, text_columns(card)))
    start = time.perf_counter()
    predictions = predicted_table(model, predicted_values(model, X))
    seconds = time.perf_counter() - start
    write_table(predictions, options.output)
    Report().line(f"{predictions.num_rows:,} rows predicted in {seconds:.2f} s, written to {options.output}")


def predicted_table(model: Any, values: NDArray) -> pa.Table:
    """One row per row: `prediction`, and for classes `probability CLASS` for each.

    Several quantiles or expectiles have columns of their names; of several targets, all end in the target's number.
    """
    if isinstance(values, list):
        parts = zip(values, model.classes_, strict=True)
        return pa.table(
            {
                f"{name} of target {target}": column
                for target, (own, classes) in enumerate(parts)
                for name, column in _class_columns(own, classes).items()
            }
        )
    if is_classifier(model):
        return pa.table(_class_columns(values, model.classes_))
    levels = getattr(model, "_predicted_levels", None)
    names = ["prediction"] if levels is None else [f"{model._loss.name} {level:g}" for level in levels]
    by_target = values.reshape(len(values), -1, len(names))
    ends = [f" of target {target}" for target in range(by_target.shape[1])] if by_target.shape[1] > 1 else [""]
    return pa.table({f"{name}{end}": by_target[:, t, k] for t, end in enumerate(ends) for k, name in enumerate(names)})


def _class_columns(probabilities: NDArray, classes: NDArray) -> dict[str, NDArray]:
    columns = {f"probability {label}": probabilities[:, k] for k, label in enumerate(classes)}
    return {"prediction": classes[probabilities.argmax(axis=1)], **columns}
