"""`fastens export`: export a model to the format of another library or to source code."""

from __future__ import annotations

import argparse
from typing import Any

from fastens.cli.models.model_files import load_model
from fastens.cli.report.report import Report
from fastens.cli.table.columns import CommandError, first_line
from fastens.cli.table.tables import OTHER, TEXT, add_overwrite, check_output
from fastens.exchange.export import BINARY, FORMATS


def add_parser(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the parser of `fastens export` with its options to `commands`."""
    text = "Export a tree model for another library, a database or a C program."
    parser = commands.add_parser("export", description=text)
    parser.add_argument("model", metavar="MODEL", help="a model file written by fastens train")
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the file to write")
    parser.add_argument("--format", required=True, choices=list(FORMATS), help="the format to write")
    add_overwrite(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Read the model and export it."""
    kind = OTHER if options.format in BINARY else TEXT
    check_output(options.output, kind, [options.model], options.overwrite)
    model, _ = load_model(options.model)
    if not hasattr(model, "export"):
        raise CommandError(f"{type(model).__name__} is not a tree model and cannot be exported")
    try:
        model.export(options.output, format=options.format)
    except OSError as error:
        raise CommandError(f"cannot write {options.output}: {error.strerror or error}") from error
    except (ValueError, ModuleNotFoundError) as error:
        raise CommandError(first_line(error)) from error
    Report().line(f"{type(model).__name__} written to {options.output} as {options.format}")
