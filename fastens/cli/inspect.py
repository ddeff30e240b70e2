"""`fastens inspect`: summarise a table and find likely problems before training."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pyarrow as pa

from fastens.cli.inspecting.checks import TargetColumn
from fastens.cli.inspecting.inspection import Inspection, inspect_table, print_inspection
from fastens.cli.page.contents import table_page
from fastens.cli.report.progress import waiting
from fastens.cli.report.report import Report
from fastens.cli.table.columns import CommandError, kind_of
from fastens.cli.table.reading import add_reading_options, read_with_options
from fastens.cli.table.tables import add_overwrite, check_output, writing
from fastens.cli.table.target import CLASSIFICATION, REGRESSION, check_target, recognised_task, target_values
from fastens.cli.table.task import DROP, drop_missing_targets, named_columns, word_notes

DESCRIPTION = """Check a table before training. The command reports the content of each column, its range, missing
and unusual cells, likely target leakage, identifiers, time columns, duplicate rows and rare classes. With a target it
also reports how well each column alone predicts it."""


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens inspect` with its options to `commands`."""
    parser = commands.add_parser("inspect", description=DESCRIPTION)
    add = parser.add_argument
    add("table", metavar="TABLE", help="a table in a file")
    add("--target", metavar="COL", help="the column to predict, if any")
    add("--task", choices=("auto", CLASSIFICATION, REGRESSION), default="auto", help="the task (default: auto)")
    columns: dict[str, Any] = {"action": "append", "default": [], "metavar": "COLUMNS"}
    add("--drop", "--ignore", help="columns to ignore, separated by commas", **columns)
    add("-o", "--output", metavar="FILE", help="HTML file for a report with a plot of every column")
    add_overwrite(parser)
    add_reading_options(parser)
    parser.set_defaults(run=run, categorical=[], text=None)


def run(options: argparse.Namespace) -> None:
    """Read and inspect the table, print the findings and write the report."""
    if options.output is not None:
        if Path(options.output).suffix.lower() not in (".html", ".htm"):
            raise CommandError(f"--output must end in .html; got {options.output}")
        check_output(options.output, None, [options.table], options.overwrite)
    report = Report()
    with waiting(report.err, "inspecting"):
        inspection = _inspect_table(options)
    if options.output is not None:
        page = table_page(inspection, options.table)
        with writing(options.output) as unfinished:
            Path(unfinished).write_text(page, encoding="utf-8")
    print_inspection(report, inspection, options.table)
    if options.output is not None:
        report.facts([("", ""), ("page", f"{options.output} ({len(page.encode()) / 1024:,.0f} KiB)")])


def _inspect_table(options: argparse.Namespace) -> Inspection:
    """Read the table of `options` and return the facts and findings about it."""
    source = read_with_options(options)
    table, notes = source.table, source.notes
    target = None
    if options.target is not None:
        table, of_target = drop_missing_targets(table, options.target, DROP)
        words = word_notes(source.table[options.target], options.target, options)
        target, notes = _target_column(table, options), [*notes, *of_target, *words]
    dropped = named_columns(options.drop, table, "--drop")
    if target is not None and target.name in dropped:
        raise CommandError(f"--drop must not name the target, {target.name!r}")
    return inspect_table(table.drop_columns(dropped), target, source.schema, notes)


def _target_column(table: pa.Table, options: argparse.Namespace) -> TargetColumn:
    """Return the values and the task of the target; raise CommandError if it cannot be learned."""
    column = table[options.target]
    task = recognised_task(column) if options.task == "auto" else options.task
    check_target(column, options.target, task, is_typed=True)
    return TargetColumn(options.target, task, target_values(column, options.target, kind_of(column.type), task))
