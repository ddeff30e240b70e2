"""`fastens explain`: an HTML report on a model and a table of contributions."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.evaluate import drop_unlabelled_rows, read_truth
from fastens.cli.explaining.subject import Subject, affordable_rows, contribution_batches, has_contributions
from fastens.cli.models.model_files import load_model, model_features, predict_one_output, table_schema
from fastens.cli.page.contents import report_page
from fastens.cli.report.progress import waiting
from fastens.cli.report.report import Report
from fastens.cli.table.columns import CommandError
from fastens.cli.table.parts import read_fitting_rows
from fastens.cli.table.reading import add_reading_options, schema_for_model
from fastens.cli.table.split import ModelCard
from fastens.cli.table.tables import add_overwrite, check_output, output_format, write_tables, writing

DEFAULT_OUTPUT = "report.html"
# The time budget in seconds for the table of contributions, and the minimum number of its rows.
SECONDS, MIN_ROWS = 15.0, 20
# Name of a temporary column that holds the row numbers while rows are left out. NUL cannot occur in column names of
# files.
_ROW = "\0row"
DESCRIPTION = """Explain a model on the rows of a table. The command writes a self-contained HTML report (scores,
calibration or errors, importances, contributions, dependence on the top columns, training curve, single rows) and a
table with the contribution of each column to the prediction of each row."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens explain` with its options to `commands`."""
    parser = commands.add_parser("explain", description=DESCRIPTION)
    add = parser.add_argument
    add("model", metavar="MODEL", help="a model file written by fastens train")
    add("table", metavar="TABLE", help="CSV or Parquet file with the columns of training, preferably with the target")
    add("-o", "--output", metavar="FILE", default=DEFAULT_OUTPUT, help="HTML file to write (default: %(default)s)")
    text = "CSV or Parquet file for the contributions (default: NAME-contributions.parquet next to the report)"
    add("--contributions", metavar="FILE", help=text)
    text = "maximum number of rows in the contributions, evenly spaced (default: as many as about 15 seconds allow)"
    add("--rows", type=int, metavar="N", help=text)
    add("--target", metavar="COL", help="the column with the true values (default: the target in training)")
    add("--weight", metavar="COL", help="a column with the weight of each row in the scores")
    add_reading_options(parser, "default: as in training")
    add_overwrite(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the table, explain the model and write the report."""
    contributions_path = _check_outputs(options)
    model, card = load_model(options.model)
    schema = schema_for_model(options, table_schema(card), options.table)
    table, unfit = read_fitting_rows(options.table, schema, options.sheet)
    X = model_features(model, card, table).unify_dictionaries().combine_chunks()
    subject, notes = _explained_subject(model, card, (table, X), options)
    report = Report()
    with waiting(report.err, "explaining"):
        page = report_page(subject, options.model, options.table)
        with writing(options.output) as unfinished:
            Path(unfinished).write_text(page, encoding="utf-8")
    facts = [("report", f"{options.output} ({len(page.encode()) / 1024:,.0f} KiB)")]
    if has_contributions(model):
        rows = _select_rows(model, X, options.rows)
        with waiting(report.err, f"contributions of {len(rows):,} rows"):
            write_tables(contribution_batches(model, X, rows), contributions_path)
        facts.append(("contributions", f"{contributions_path} ({len(rows):,} of {len(table):,} rows)"))
    report.notes([*unfit, *notes])
    report.facts(facts)
    if options.contributions and not has_contributions(model):
        report.line(f"{contributions_path} is not written, because {type(model).__name__} has no contributions")


def _select_rows(model: Any, X: pa.Table, max_rows: int | None) -> NDArray[np.intp]:
    """Return evenly spaced row indices: at most `max_rows`, or as many as can be explained in SECONDS if None."""
    max_rows = max(MIN_ROWS, affordable_rows(model, X, SECONDS)) if max_rows is None else max_rows
    return np.arange(0, X.num_rows, -(-X.num_rows // max_rows))


def _check_outputs(options: argparse.Namespace) -> str:
    """Check --output, --contributions and --rows, raising CommandError; return the path for the contributions."""
    if Path(options.output).suffix.lower() not in (".html", ".htm"):
        raise CommandError(f"--output must end in .html; got {options.output}")
    if options.rows is not None and options.rows < 1:
        raise CommandError(f"--rows must be at least 1; got {options.rows}")
    path = options.contributions or str(Path(options.output).with_suffix("")) + "-contributions.parquet"
    output_format(path)
    for file in (options.output, path):
        check_output(file, None, [options.model, options.table], options.overwrite)
    return path


def _explained_subject(
    model: Any, card: ModelCard, tables: tuple[pa.Table, pa.Table], options: argparse.Namespace
) -> tuple[Subject, list[str]]:
    """Return the rows to explain as a subject, and a note on rows that are left out because they lack a target.

    `tables` are the table and its features. If the table has no targets and --target is not set, all rows are explained
    without true values.
    """
    table, X = tables
    target = options.target or card.target
    rows = np.arange(len(table))
    if options.target is None and (target not in table.column_names or table[target].null_count == len(table)):
        return Subject(model, card, X, predict_one_output(model, X), None, rows), []
    with_targets, notes = drop_unlabelled_rows(table.append_column(_ROW, pa.array(rows)), target, options.weight)
    rows = np.asarray(with_targets[_ROW].to_numpy())
    X = X.take(rows)
    predicted = predict_one_output(model, X)
    truth = read_truth(model, card, with_targets, options)
    return Subject(model, card, X, predicted, truth, rows, card.trained_on(truth.y, with_targets)), notes
