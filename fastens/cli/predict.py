"""`fastens predict`: a model's predictions for the rows of a table."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.cli.explaining.contributions import contribution_columns, explains, rows_at_once
from fastens.cli.models.model_files import (
    feature_kinds,
    load_model,
    predicted_values,
    read_columns,
    table_schema,
    unread,
)
from fastens.cli.report.progress import OnRows, rows_progress
from fastens.cli.report.report import Report
from fastens.cli.table.card import ModelCard
from fastens.cli.table.columns import features
from fastens.cli.table.errors import CommandError, first_line
from fastens.cli.table.outputs import add_overwrite, check_output
from fastens.cli.table.parts import TableParts, open_parts
from fastens.cli.table.reading import add_reading_options, later_schema
from fastens.cli.table.tables import output_format, write_tables
from fastens.cli.table.task import named_columns
from fastens.combining.voting import VotingRegressor
from fastens.files.dialects import unique_names
from fastens.table.answers import level_names
from fastens.table.read_ahead import ahead


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command and its options."""
    text = "Predict every row of a table, in order: the class and the probability of each class, or the value."
    parser = commands.add_parser("predict", description=text)
    parser.add_argument("model", metavar="MODEL", help="a file that fastens train saved")
    text = "CSV or Parquet files with the columns of training, by name or as a pattern such as 'new/*.parquet'"
    parser.add_argument("tables", metavar="TABLE", nargs="+", help=text)
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="CSV or Parquet file to write")
    keep = "columns of TABLE to write before the predictions, separated by commas"
    parser.add_argument("--keep", action="append", default=[], metavar="COLUMNS", help=keep)
    parser.add_argument("--keep-all", action="store_true", help="write all columns of TABLE before the predictions")
    coverage = "also intervals, or for classes sets, that hold the true value with this chance, as 0.9"
    parser.add_argument("--coverage", type=float, metavar="P", help=coverage)
    text = "also what each column contributes to the raw prediction of each row, for models made of trees"
    parser.add_argument("--contributions", action="store_true", help=text)
    add_reading_options(parser, "as in training unless given")
    add_overwrite(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read, predict, write."""
    output_format(options.output)
    check_output(options.output, None, [options.model, *options.tables], options.overwrite)
    start = time.perf_counter()
    model, card = load_model(options.model)
    table = open_parts(options.tables, later_schema(options, table_schema(card), options.tables), sheet=options.sheet)
    kept = table.empty.column_names if options.keep_all else named_columns(options.keep, table.empty, "--keep")
    report = Report()
    report.notes(table.notes)
    with rows_progress(report.err, "predicting", table.n_rows) as on_rows:
        write_tables(_predicted_parts(model, card, table, kept, options, on_rows), options.output)
    seconds = time.perf_counter() - start
    report.line(f"{table.n_rows:,} rows predicted in {seconds:.2f} s, written to {options.output}")


def _predicted_parts(
    model: Any, card: ModelCard, table: TableParts, kept: list[str], options: argparse.Namespace, on_rows: OnRows
) -> Iterator[pa.Table]:
    """The predictions part by part, behind the columns that are kept."""
    kinds = feature_kinds(model, card, table.empty)
    if options.contributions and not explains(model):
        raise CommandError(f"--contributions: {type(model).__name__} has none: its predictions are no sums of trees")
    parts = table.read(list(dict.fromkeys([*kept, *_needed(model, kinds, table.empty, options)])))
    for part in _pieces(ahead(parts), model, options):
        X = features(_with_unread(part, kinds, table.empty), kinds)
        predictions = predicted_table(model, predicted_values(model, X))
        if options.coverage is not None:
            predictions = _with_columns(predictions, _covering(model, X, options.coverage))
        if options.contributions:
            predictions = _with_columns(predictions, contribution_columns(model, X))
        yield _with_columns(part.select(kept), _columns_of(predictions))
        on_rows(part.num_rows)


def _needed(model: Any, kinds: Mapping[str, str], empty: pa.Table, options: argparse.Namespace) -> list[str]:
    """The columns to read for the predictions."""
    if options.contributions or options.coverage is not None:
        return list(kinds)
    return read_columns(model, kinds, empty)


def _with_unread(part: pa.Table, kinds: Mapping[str, str], empty: pa.Table) -> pa.Table:
    """The part with a column for each that was not read."""
    for name in kinds.keys() - set(part.column_names):
        part = part.append_column(empty.schema.field(name), unread(empty.schema.field(name).type, part.num_rows))
    return part


def _pieces(parts: Iterable[pa.Table], model: Any, options: argparse.Namespace) -> Iterator[pa.Table]:
    """The parts of the table, cut further where contributions of all of their rows would be too much at once."""
    for part in parts:
        n_rows = rows_at_once(model, part.num_columns) if options.contributions else max(part.num_rows, 1)
        for start in range(0, part.num_rows, n_rows):
            yield part.slice(start, n_rows)


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
    names = ["prediction"] if levels is None else [f"{model._loss.name} {level}" for level in level_names(levels)]
    by_target = values.reshape(len(values), -1, len(names))
    ends = [f" of target {target}" for target in range(by_target.shape[1])] if by_target.shape[1] > 1 else [""]
    return pa.table({f"{name}{end}": by_target[:, t, k] for t, end in enumerate(ends) for k, name in enumerate(names)})


def _covering(model: Any, X: pa.Table, coverage: float) -> dict[str, Any]:
    """The ends of the interval of each row, or for each class whether it is in the set of the row."""
    method = getattr(model, "predict_set" if is_classifier(model) else "predict_interval", None)
    if isinstance(model, VotingRegressor):
        method = None  # the range of its members says nothing of the target
    if not 0 < coverage < 1:
        raise CommandError(f"--coverage must be above 0 and below 1, got {coverage:g}")
    if method is None:
        raise CommandError(
            f"--coverage: {type(model).__name__} has no intervals; train with --model conformal, or a forest"
        )
    try:
        found = method(X, coverage)
    except (ValueError, AttributeError) as error:
        raise CommandError(f"--coverage: {first_line(error)}") from error
    if isinstance(found, list) or found.ndim != 2:
        raise CommandError(f"--coverage is for models of one output; {type(model).__name__} has several")
    if is_classifier(model):
        return {f"set has {label}": found[:, k] for k, label in enumerate(model.classes_)}
    return {f"{end} of {coverage:g}": found[:, k] for k, end in enumerate(("lower", "upper"))}


def _columns_of(table: pa.Table) -> dict[str, Any]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _with_columns(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """The table with more columns; those of a name that it has already are called by it with a suffix."""
    names, _ = unique_names([*table.column_names, *columns])
    added = [values if isinstance(values, pa.ChunkedArray) else pa.array(values) for values in columns.values()]
    arrays = [*table.columns, *added]
    return pa.Table.from_arrays(arrays, names=names)


def _class_columns(probabilities: NDArray, classes: NDArray) -> dict[str, Any]:
    columns = {f"probability {label}": probabilities[:, k] for k, label in enumerate(classes)}
    best = probabilities[:, 1] > probabilities[:, 0] if len(classes) == 2 else probabilities.argmax(axis=1)
    # Arrow takes texts much faster than it reads those of NumPy.
    return {"prediction": pa.array(classes).take(pa.array(best.astype(np.intp))), **columns}
