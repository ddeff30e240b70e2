"""Options of how a table is written, and the reading of the table of training with them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from fastens.cli.table.errors import CommandError, first_line
from fastens.cli.table.tables import read_table
from fastens.files import TableFileError, TableSchema
from fastens.files.formats import CSV, EXCEL, SQLITE, format_of
from fastens.files.read import ReadTable, files_of
from fastens.files.schema import BOOLEAN, DATE, NUMBER, TEXT, Column

CATEGORY = "category"
COLUMN_TYPES = {NUMBER: NUMBER, TEXT: TEXT, CATEGORY: TEXT, DATE: DATE, BOOLEAN: BOOLEAN}


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of how the table is written."""
    group = parser.add_argument_group("how the table is written (found out unless given)")
    add = group.add_argument
    many: dict[str, Any] = {"action": "append", "default": []}
    add("--column", metavar="COL:TYPE", help=f"type of a column: {', '.join(COLUMN_TYPES)}; repeatable", **many)
    add("--missing", metavar="CODE", help="a code of missing values, as --missing=-; repeatable", **many)
    add("--separator", metavar="SIGN", help="what stands between the values of a CSV file")
    add("--encoding", metavar="NAME", help="encoding of a CSV file")
    add("--skip-lines", type=int, default=0, metavar="N", help="lines above the header of a CSV file")
    add_sheet(group)
    add("--schema", metavar="FILE", help="TOML file of all this, as fastens.TableSchema.save writes it")


def add_sheet(parser: argparse._ActionsContainer) -> None:
    """Add the option that names one of several tables in a file."""
    parser.add_argument("--sheet", metavar="NAME", help="sheet of a workbook, or table of a database")


def read_with_options(options: argparse.Namespace) -> ReadTable:
    """Read the table of training."""
    _check_formats(_of_formats(options), options.table)
    found = read_table(options.table, _known_schema(options), given_types(options), options.sheet)
    check_given_columns(options, found.table.column_names)
    return found


def given_schema(options: argparse.Namespace) -> tuple[TableSchema, dict[str, Column]]:
    """What options say of a table that is read in parts: of all of it, and of its columns.

    `check_given_columns` is for columns that it lacks.
    """
    _check_formats(_of_formats(options), options.table)
    return _known_schema(options), {name: Column.given(type_) for name, type_ in given_types(options).items()}


def check_given_columns(options: argparse.Namespace, names: list[str]) -> None:
    """Refuse types of columns that the table lacks."""
    for name in _column_option(options):
        if name not in names:
            raise CommandError(f"--column: the table has no column {name!r}; it has {names}")


def _of_formats(options: argparse.Namespace) -> dict[str, Any]:
    """The options that are for files of some formats alone."""
    names = {"--separator": "separator", "--encoding": "encoding", "--skip-lines": "skip_lines", "--sheet": "sheet"}
    return {option: getattr(options, name) for option, name in names.items()}


def check_sheet(sheet: str | None, paths: str | Sequence[str]) -> None:
    """Refuse the name of a sheet where files have none."""
    _check_formats({"--sheet": sheet}, paths)


def _check_formats(given: Mapping[str, Any], paths: str | Sequence[str]) -> None:
    """Refuse options that say nothing of files in the formats of these."""
    try:
        formats = {format_of(file) for file in files_of(paths)}
    except TableFileError as error:
        raise CommandError(first_line(error)) from error
    for option, value in given.items():
        read_by, kinds = ({EXCEL, SQLITE}, "workbooks and databases") if option == "--sheet" else ({CSV}, "CSV files")
        if value and not formats & read_by:
            raise CommandError(f"{option} is for {kinds}; got {' and '.join(sorted(formats))}")


def _known_schema(options: argparse.Namespace) -> TableSchema:
    if options.skip_lines < 0:
        raise CommandError(f"--skip-lines must be at least 0, got {options.skip_lines}")
    separator = "\t" if options.separator == r"\t" else options.separator
    given = {"separator": separator, "encoding": options.encoding, "skip_lines": options.skip_lines}
    try:
        schema = TableSchema() if options.schema is None else TableSchema.load(options.schema)
        known = {**schema.to_dict(), **{name: value for name, value in given.items() if value}}
        known["missing"] = [*schema.missing, *options.missing]
        return TableSchema.from_dict(known)
    except TableFileError as error:
        raise CommandError(first_line(error)) from error


def given_types(options: argparse.Namespace) -> Mapping[str, str]:
    """The types of columns that options name."""
    as_text = [name for value in options.categorical for name in (value, *value.split(","))]
    if options.text is not None:
        as_text.append(options.text)
    return {**dict.fromkeys(as_text, TEXT), **_column_option(options)}


def _column_option(options: argparse.Namespace) -> dict[str, str]:
    found = {}
    for value in options.column:
        name, _, type_ = value.rpartition(":")
        if not name or type_ not in COLUMN_TYPES:
            raise CommandError(f"--column must be COL:TYPE with a type of {', '.join(COLUMN_TYPES)}; got {value!r}")
        found[name] = COLUMN_TYPES[type_]
    return found
