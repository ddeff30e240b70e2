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
    """Add the options for the format of the table, in a help group whose title ends with (`default`)."""
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


def schema_for_model(options: argparse.Namespace, saved: TableSchema, paths: str | Sequence[str]) -> TableSchema:
    """Return the schema for reading files for a saved model: the `saved` one, changed by the reading options."""
    _check_formats(_format_options(options), paths)
    of_options = _read_schema(options)
    changed = {name: value for name in READING_OPTIONS if (value := getattr(of_options, name)) not in (None, ())}
    columns = {**saved.columns, **of_options.columns}
    for name, type_ in _parse_column_types(options).items():
        # Cells that do not fit become missing values, as in training with this option.
        is_alike = name in columns and columns[name].type == type_
        columns[name] = replace(columns[name], lenient=True) if is_alike else Column.given(type_)
    return replace(saved, **changed, columns=columns)


def read_with_options(options: argparse.Namespace) -> ReadTable:
    """Read the training table as the reading options say; raise CommandError if they do not fit it."""
    _check_formats(_format_options(options), options.table)
    source = read_table(options.table, _read_schema(options), types_from_options(options), options.sheet)
    check_typed_columns(options, source.table.column_names)
    check_target_column(options, source.table.column_names, source.notes)
    return source


def check_target_column(options: argparse.Namespace, names: list[str], notes: Sequence[str]) -> None:
    """Raise CommandError if the column `--target` is not in `names` and a note says that the encoding was guessed."""
    target = options.target
    guessed = [note for note in notes if "--encoding" in note]
    if target is not None and target not in names and guessed:
        raise CommandError(
            f"--target must name a column of the table; got {target!r}, and the columns are "
            f"{listed(names)}. {guessed[0]}"
        )


def schema_from_options(options: argparse.Namespace) -> tuple[TableSchema, dict[str, Column]]:
    """Return the schema, and the column types by name, that the options request for a table read in parts."""
    _check_formats(_format_options(options), options.table)
    return _read_schema(options), {name: Column.given(type_) for name, type_ in types_from_options(options).items()}


def check_typed_columns(options: argparse.Namespace, names: list[str]) -> None:
    """Raise CommandError if `--column` gives the type of a column that is not in `names`."""
    for name in _parse_column_types(options):
        if name not in names:
            raise CommandError(f"--column must name a column of the table; got {name!r}, and the columns are {names}")


def _format_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the options that apply only to some file formats, by option such as `--sheet`."""
    names = ("separator", "encoding", "sheet", *_LINES)
    return {"--" + name.replace("_", "-"): getattr(options, name) for name in names}


def _check_formats(options: Mapping[str, Any], paths: str | Sequence[str]) -> None:
    """Raise CommandError if an option, by name, is set (not None) but none of the files has a format for it."""
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


def _read_schema(options: argparse.Namespace) -> TableSchema:
    """Return the schema of --schema, or an empty one, changed by the other options; raise CommandError if invalid."""
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


def types_from_options(options: argparse.Namespace) -> Mapping[str, str]:
    """Map column names to types: TEXT from --categorical and --text, and the types from --column."""
    as_text = [name for value in options.categorical for name in (value, *value.split(","))]
    if options.text is not None:
        as_text += [options.text, *options.text.split(",")]
    return {**dict.fromkeys(as_text, TEXT), **_parse_column_types(options)}


def _parse_column_types(options: argparse.Namespace) -> dict[str, str]:
    """Parse the values COL:TYPE of `--column` to types by column; raise CommandError if one is invalid."""
    types = {}
    for value in options.column:
        name, _, type_ = value.rpartition(":")
        if not name or type_ not in COLUMN_TYPES:
            raise CommandError(f"--column must be COL:TYPE with a type of {', '.join(COLUMN_TYPES)}; got {value!r}")
        types[name] = COLUMN_TYPES[type_]
    return types
