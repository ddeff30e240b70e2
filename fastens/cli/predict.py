"""`fastens predict`: predict the rows of a table with a model."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.cli.explaining.subject import contribution_columns, has_contributions, rows_at_once
from fastens.cli.models.model_files import (
    columns_used_by_model,
    feature_kinds,
    load_model,
    placeholders,
    predict_values,
    table_schema,
)
from fastens.cli.report.progress import OnRows, rows_progress
from fastens.cli.report.report import Report
from fastens.cli.table.columns import CommandError, first_line, make_features
from fastens.cli.table.parts import UNFIT, FileParts, open_parts, open_strict_or_lenient, unfit_rows, unfit_text
from fastens.cli.table.reading import add_reading_options, schema_for_model
from fastens.cli.table.tables import (
    STANDARD,
    add_escape,
    add_overwrite,
    check_output,
    escape_note,
    output_format,
    write_tables,
)
from fastens.cli.table.task import named_columns
from fastens.files.dialects import unique_names
from fastens.files.formats import CSV
from fastens.table.answers import level_names
from fastens.table.sources import ahead

# The column with the reason why a row was not predicted.
NOT_PREDICTED = "not predicted"


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens predict` with its options to `commands`."""
    text = "Predict every row of a table, in order: the class and class probabilities, or the value."
    parser = commands.add_parser("predict", description=text)
    parser.add_argument("model", metavar="MODEL", help="a model file written by fastens train")
    text = "CSV or Parquet files with the columns of training, by name or as a pattern such as 'new/*.parquet'"
    parser.add_argument("tables", metavar="TABLE", nargs="+", help=text)
    text = "CSV or Parquet file to write; - for CSV on standard output"
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=text)
    keep = (
        "columns of TABLE to write before the predictions, separated by commas; values of CSV files are "
        "copied unchanged"
    )
    parser.add_argument("--keep", action="append", default=[], metavar="COLUMNS", help=keep)
    parser.add_argument("--keep-all", action="store_true", help="write all columns of TABLE before the predictions")
    coverage = "also prediction intervals, or prediction sets for classification, with this coverage, such as 0.9"
    parser.add_argument("--coverage", type=float, metavar="P", help=coverage)
    text = "also the contribution of each column to the raw prediction of each row, for tree models"
    parser.add_argument("--contributions", action="store_true", help=text)
    text = "stop at the first cell that does not match the training columns, instead of skipping its row"
    parser.add_argument("--strict", action="store_true", help=text)
    add_escape(parser)
    add_reading_options(parser, "default: as in training")
    add_overwrite(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the table, predict and write the predictions."""
    output_format(options.output)
    check_output(options.output, None, [options.model, *options.tables], options.overwrite, may_be_standard=True)
    start = time.perf_counter()
    model, card = load_model(options.model)
    opened = open_parts if options.strict else open_strict_or_lenient
    table = opened(options.tables, schema_for_model(options, table_schema(card), options.tables), sheet=options.sheet)
    kept = table.empty.column_names if options.keep_all else named_columns(options.keep, table.empty, "--keep")
    kinds = feature_kinds(model, card, table.empty)
    if options.contributions and not has_contributions(model):
        raise CommandError(f"--contributions requires a model that predicts a sum of trees; got {type(model).__name__}")
    unfit = unfit_rows(table.read(_columns_to_read(model, kinds, table.empty, options))) if table.is_lenient else {}
    if len(unfit) == table.n_rows:
        raise CommandError(f"all rows have cells that do not match the training columns: {unfit_text(unfit)}")
    # Standard output is reserved for the predictions.
    report = Report(sys.stderr)
    report.notes(table.notes)
    with rows_progress(report.err, "predicting", table.n_rows) as on_rows:
        parts = _predict_parts(model, kinds, table, kept, options)
        n_escaped = write_tables(_report_rows(parts, on_rows), options.output, escape=options.escape_formulas)
    seconds = time.perf_counter() - start
    where = "standard output" if options.output == STANDARD else options.output
    report.line(f"{table.n_rows - len(unfit):,} rows predicted in {seconds:.2f} s, written to {where}")
    if unfit:
        report.line(
            f"{len(unfit):,} of {table.n_rows:,} rows were not predicted, because cells do not match the "
            f"training columns: {unfit_text(unfit)}. The column {NOT_PREDICTED!r} gives the reason; use "
            "--strict to stop instead."
        )
    if n_escaped:
        report.line(escape_note(n_escaped))


def _report_rows(parts: Iterable[pa.Table], on_rows: OnRows) -> Iterator[pa.Table]:
    """Yield the tables unchanged; when the next one is requested, call `on_rows` with the row count of the last."""
    for part in parts:
        yield part
        on_rows(part.num_rows)


def _predict_parts(
    model: Any, kinds: Mapping[str, str], table: FileParts, kept: list[str], options: argparse.Namespace
) -> Iterator[pa.Table]:
    """Yield tables of consecutive rows with the columns `kept`, the predictions and requested extra columns."""
    needed = _columns_to_read(model, kinds, table.empty, options)
    # Parquet output keeps typed columns; CSV output keeps the original text of cells.
    as_written = output_format(options.output) == CSV
    typed_too = [] if as_written else kept
    written = _RowReader(table.read_original(kept)) if as_written and kept else None
    parts = table.read(list(dict.fromkeys([*typed_too, *needed])))
    for part in _split_parts(ahead(parts), model, options):
        X = make_features(_add_unread_columns(part, kinds, table.empty), kinds)
        predictions = predicted_table(model, predict_values(model, X))
        if options.coverage is not None:
            predictions = _append_columns(predictions, _coverage_columns(model, X, options.coverage))
        if options.contributions:
            predictions = _append_columns(predictions, contribution_columns(model, X))
        columns = _columns_by_name(predictions)
        if table.is_lenient:
            reasons = part[UNFIT]
            missing = {name: pc.if_else(pc.is_null(reasons), values, None) for name, values in columns.items()}
            columns = {**missing, NOT_PREDICTED: reasons}
        yield _append_columns(part.select(kept) if written is None else written.take(part.num_rows), columns)


class _RowReader:
    """A reader that takes numbers of rows from consecutive tables."""

    def __init__(self, tables: Iterator[pa.Table]) -> None:
        self._tables, self._rest = tables, next(tables)

    def take(self, n_rows: int) -> pa.Table:
        """Return the next n_rows rows; raise CommandError if there are fewer."""
        parts = [self._rest.slice(0, n_rows)]
        while (lacking := n_rows - sum(part.num_rows for part in parts)) > 0:
            self._rest = next(self._tables, None)
            if self._rest is None:
                raise CommandError(
                    "the columns to keep have fewer rows than the other columns, because the files have changed"
                )
            parts.append(self._rest.slice(0, lacking))
        self._rest = self._rest.slice(parts[-1].num_rows)
        return pa.concat_tables(parts)


def _columns_to_read(model: Any, kinds: Mapping[str, str], empty: pa.Table, options: argparse.Namespace) -> list[str]:
    """Return the columns in `kinds` that the requested predictions need; `empty` is the table without rows."""
    if options.contributions or options.coverage is not None:
        return list(kinds)
    return columns_used_by_model(model, kinds, empty)


def _add_unread_columns(part: pa.Table, kinds: Mapping[str, str], empty: pa.Table) -> pa.Table:
    """Append placeholders for columns in `kinds` that `part` lacks, with their types in the table `empty`."""
    for name in kinds.keys() - set(part.column_names):
        part = part.append_column(empty.schema.field(name), placeholders(empty.schema.field(name).type, part.num_rows))
    return part


def _split_parts(parts: Iterable[pa.Table], model: Any, options: argparse.Namespace) -> Iterator[pa.Table]:
    """Yield the tables; with --contributions, in slices small enough for the memory of their contributions."""
    for part in parts:
        n_rows = rows_at_once(model, part.num_columns) if options.contributions else max(part.num_rows, 1)
        for start in range(0, part.num_rows, n_rows):
            yield part.slice(start, n_rows)


def predicted_table(model: Any, values: NDArray) -> pa.Table:
    """Return one row per input row, with `prediction` and, for classifiers, `probability CLASS` for each class.

    Several quantiles or expectiles have one column each, named after the level. If there are several targets, column
    names end in the number of the target.
    """
    if isinstance(values, list):
        parts = zip(values, model.classes_, strict=True)
        return pa.table(
            {
                f"{name} of target {target}": column
                for target, (probabilities, classes) in enumerate(parts)
                for name, column in _class_columns(probabilities, classes).items()
            }
        )
    if is_classifier(model):
        return pa.table(_class_columns(values, model.classes_))
    levels = getattr(model, "_predicted_levels", None)
    names = ["prediction"] if levels is None else [f"{model._loss.name} {level}" for level in level_names(levels)]
    by_target = values.reshape(len(values), -1, len(names))
    ends = [f" of target {target}" for target in range(by_target.shape[1])] if by_target.shape[1] > 1 else [""]
    return pa.table({f"{name}{end}": by_target[:, t, k] for t, end in enumerate(ends) for k, name in enumerate(names)})


def _coverage_columns(model: Any, X: pa.Table, coverage: float) -> dict[str, Any]:
    """Return interval bounds, or whether each class is in the set, by name; raise CommandError if unsupported."""
    method = getattr(model, "predict_set" if is_classifier(model) else "predict_interval", None)
    if not 0 < coverage < 1:
        raise CommandError(f"--coverage must be above 0 and below 1; got {coverage:g}")
    if method is None:
        raise CommandError(
            f"--coverage needs a model with intervals; got {type(model).__name__}. Train with --model "
            "conformal or a forest."
        )
    try:
        covered = method(X, coverage)
    except (ValueError, AttributeError) as error:
        raise CommandError(f"--coverage: {first_line(error)}") from error
    if isinstance(covered, list) or covered.ndim != 2:
        raise CommandError(f"--coverage needs a model with one output; {type(model).__name__} has several")
    if is_classifier(model):
        return {f"set has {label}": covered[:, k] for k, label in enumerate(model.classes_)}
    return {f"{end} of {coverage:g}": covered[:, k] for k, end in enumerate(("lower", "upper"))}


def _columns_by_name(table: pa.Table) -> dict[str, Any]:
    """Return the columns of a table as a dict."""
    return dict(zip(table.column_names, table.columns, strict=True))


def _append_columns(table: pa.Table, columns: dict[str, Any]) -> pa.Table:
    """Return the table with these columns appended; names that exist already get a suffix."""
    names, _ = unique_names([*table.column_names, *columns])
    added = [values if isinstance(values, pa.ChunkedArray) else pa.array(values) for values in columns.values()]
    arrays = [*table.columns, *added]
    return pa.Table.from_arrays(arrays, names=names)


def _class_columns(probabilities: NDArray, classes: NDArray) -> dict[str, Any]:
    """Return the predicted class and the probability of each class, as columns by name."""
    columns = {f"probability {label}": probabilities[:, k] for k, label in enumerate(classes)}
    best = probabilities[:, 1] > probabilities[:, 0] if len(classes) == 2 else probabilities.argmax(axis=1)
    # Arrow converts Python strings much faster than NumPy strings.
    return {"prediction": pa.array(classes).take(pa.array(best.astype(np.intp))), **columns}
