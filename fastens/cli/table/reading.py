"""Options that describe the format of a table, and reading of the training table with them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastens.cli.table.columns import CommandError, first_line, listed
from fastens.cli.table.tables import read_table
from fastens.files import TableFileError, TableSchema
from fastens.files.formats import CSV, EXCEL, SQLITE, format_of
from fastens.files.read import ReadTable, files_of
from fastens.files.schema import BOOLEAN, DATE, NUMBER, READING_OPTIONS, TEXT, Column

CATEGORY = "category"
# Options that are numbers of lines.
_LINES = ("skip_lines", "header_rows", "skip_footer")
COLUMN_TYPES = {NUMBER: NUMBER, TEXT: TEXT, CATEGORY: TEXT, DATE: DATE, BOOLEAN: BOOLEAN}


def add_reading_options(parser: argparse.ArgumentParser, default: str = "default: detected") -> None:
    """Add the options that describe the format of the table."""
    group = parser.add_argument_group(f"how to read the table ({default})")
    add = group.add_argument
    many: dict[str, Any] = {"action": "append", "default": []}
    add("--column", metavar="COL:TYPE", help=f"type of a column: {', '.join(COLUMN_TYPES)}; repeatable", **many)
    add("--missing", metavar="CODE", help="a missing-value code, such as --missing=-; repeatable", **many)
    add("--separator", metavar="SIGN", help="separator of a CSV file")
    add("--encoding", metavar="NAME", help="encoding of a CSV file")
    add("--skip-lines", type=int, metavar="N", help="number of lines above the header of a CSV file or sheet")
    add("--header-rows", type=int, metavar="N", help="number of header lines; 0 if there is no header")
    add("--skip-footer", type=int, metavar="N", help="number of lines below the table, such as totals and sources")
    add("--sheet", metavar="NAME", help="sheet of a workbook, or table of a database")
    add("--schema", metavar="FILE", help="TOML file with these settings, as written by fastens.TableSchema.save")


def later_schema(options: argparse.Namespace, saved: TableSchema, paths: str | Sequence[str]) -> TableSchema:
    """Return the schema for reading a later table: the training schema, changed by the options."""
    _check_formats(_of_formats(options), paths)
    of_options = _known_schema(options)
    changed = {name: value for name in READING_OPTIONS if (value := getattr(of_options, name)) not in (None, ())}
    columns = {**saved.columns, **of_options.columns}
    for name, type_ in _column_option(options).items():
        # Cells that do not fit become missing values, as in training with this option.
        is_alike = name in columns and columns[name].type == type_
        columns[name] = replace(columns[name], lenient=True) if is_alike else Column.given(type_)
    return replace(saved, **changed, columns=columns)


def read_with_options(options: argparse.Namespace) -> ReadTable:
    """Read the training table."""
    _check_formats(_of_formats(options), options.table)
    source = read_table(options.table, _known_schema(options), given_types(options), options.sheet)
    check_given_columns(options, source.table.column_names)
    check_target_column(options, source.table.column_names, source.notes)
    return source


def check_target_column(options: argparse.Namespace, names: list[str], notes: Sequence[str]) -> None:
    """Raise CommandError if the table lacks the target and its encoding was guessed."""
    target = options.target
    guessed = [note for note in notes if "--encoding" in note]
    if target is not None and target not in names and guessed:
        raise CommandError(
            f"--target must name a column of the table; got {target!r}, and the columns are "
            f"{listed(names)}. {guessed[0]}"
        )


def given_schema(options: argparse.Namespace) -> tuple[TableSchema, dict[str, Column]]:
    """Return the schema and the column types that options give for a table that is read in parts.

    Use `check_given_columns` to check for columns that the table lacks.
    """
    _check_formats(_of_formats(options), options.table)
    return _known_schema(options), {name: Column.given(type_) for name, type_ in given_types(options).items()}


def check_given_columns(options: argparse.Namespace, names: list[str]) -> None:
    """Raise CommandError if options give types of columns that the table lacks."""
    for name in _column_option(options):
        if name not in names:
            raise CommandError(f"--column must name a column of the table; got {name!r}, and the columns are {names}")


def _of_formats(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options that apply only to some file formats."""
    names = ("separator", "encoding", "sheet", *_LINES)
    return {"--" + name.replace("_", "-"): getattr(options, name) for name in names}


def _check_formats(options: Mapping[str, Any], paths: str | Sequence[str]) -> None:
    """Raise CommandError if an option does not apply to the formats of the files."""
    try:
        formats = {format_of(file) for file in files_of(paths)}
    except TableFileError as error:
        raise CommandError(first_line(error)) from error
    for option, value in options.items():
        read_by, kinds = {CSV}, "CSV files"
        if option == "--sheet":
            read_by, kinds = {EXCEL, SQLITE}, "workbooks and databases"
        elif option[2:].replace("-", "_") in _LINES:
            read_by, kinds = {CSV, EXCEL}, "CSV files and workbooks"
        if value is not None and not formats & read_by:
            raise CommandError(f"{option} applies only to {kinds}; got {' and '.join(sorted(formats))}")


def _known_schema(options: argparse.Namespace) -> TableSchema:
    lines = {name: getattr(options, name) for name in _LINES}
    for name, value in lines.items():
        if value is not None and value < 0:
            raise CommandError(f"--{name.replace('_', '-')} must be at least 0; got {value}")
    separator = "\t" if options.separator == r"\t" else options.separator
    of_options = {"separator": separator, "encoding": options.encoding, "sheet": options.sheet, **lines}
    try:
        schema = TableSchema() if options.schema is None else TableSchema.load(options.schema)
        entries = {**schema.to_dict(), **{name: value for name, value in of_options.items() if value is not None}}
        entries["missing"] = [*schema.missing, *options.missing]
        return TableSchema.from_dict(entries)
    except TableFileError as error:
        raise CommandError(first_line(error)) from error


def given_types(options: argparse.Namespace) -> Mapping[str, str]:
    """Return the column types that options give."""
    as_text = [name for value in options.categorical for name in (value, *value.split(","))]
    if options.text is not None:
        as_text += [options.text, *options.text.split(",")]
    return {**dict.fromkeys(as_text, TEXT), **_column_option(options)}


def _column_option(options: argparse.Namespace) -> dict[str, str]:
    types = {}
    for value in options.column:
        name, _, type_ = value.rpartition(":")
        if not name or type_ not in COLUMN_TYPES:
            raise CommandError(f"--column must be COL:TYPE with a type of {', '.join(COLUMN_TYPES)}; got {value!r}")
        types[name] = COLUMN_TYPES[type_]
    return types
