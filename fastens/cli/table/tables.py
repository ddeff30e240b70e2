"""Tables in files: read with what is known of them, and written; errors are one line."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from fastens.cli.table.errors import CommandError, first_line
from fastens.cli.table.outputs import STANDARD, writing
from fastens.files import TableFileError, TableSchema
from fastens.files.formats import COMPRESSIONS, CSV, PARQUET, format_of
from fastens.files.read import ReadTable, read
from fastens.table.read_ahead import ahead

UNWRITTEN_COMPRESSIONS = (".xz", ".zip")
# How texts begin that a spreadsheet runs, and those of them that are numbers, dates or a lone sign.
FORMULA = r"^\s*[=+\-@\t\r\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]|^[\t\r]"
SIGNED = r"^\s*[-+](?:[\s\d.,'_:/()%$€£¥]*(?:[eE][-+]?\d+)?)\s*(?:%|[A-Z]{3}|[$€£¥])?\s*$"


def read_table(
    path: str | Sequence[str],
    schema: TableSchema | None = None,
    types: Mapping[str, str] | None = None,
    sheet: str | None = None,
) -> ReadTable:
    """Read a table, with the schema of the table of training, or types that were given."""
    try:
        return read(path, schema or TableSchema(), types or {}, sheet)
    except TableFileError as error:
        raise CommandError(first_line(error)) from error


def add_escape(parser: argparse.ArgumentParser) -> None:
    """Add the option of cells that a spreadsheet would run."""
    text = "in CSV files, put ' before texts and names that a spreadsheet would run, such as =1+1 (default: yes)"
    parser.add_argument("--escape-formulas", action=argparse.BooleanOptionalAction, default=True, help=text)


def escape_note(n_cells: int) -> str:
    """How many cells were escaped, and how to have them as they are."""
    cells = "1 cell" if n_cells == 1 else f"{n_cells:,} cells"
    return f"{cells} that a spreadsheet would run are written with ' before them; --no-escape-formulas leaves it out"


def write_table(table: pa.Table, path: str) -> None:
    """Write a table as CSV or Parquet, by the suffix of `path`."""
    write_tables([table], path)


def write_tables(tables: Iterable[pa.Table], path: str, *, escape: bool = True) -> int:
    """Write tables of the same columns, one below the other, each while the next is made.

    Return the number of texts and names that were escaped for spreadsheets, which may be those of CSV files.
    """
    coming = ahead(tables)
    first = next(coming)
    n_escaped = 0
    is_escaped = escape and output_format(path) == CSV
    names, n_names = _without_formulas(pa.chunked_array([pa.array(first.column_names, pa.string())]), is_escaped)

    def made(table: pa.Table) -> pa.Table:
        nonlocal n_escaped
        columns = []
        for column in table.columns:
            escaped, n = _without_formulas(column, is_escaped)
            columns.append(escaped)
            n_escaped += n
        return pa.table(columns, names=names.to_pylist())

    first = made(first)
    with _written(path) as unfinished, _writer(path, unfinished, first.schema) as writer:
        writer.write_table(first)
        for table in coming:
            writer.write_table(made(table))
    return n_names + n_escaped


def _without_formulas(values: pa.ChunkedArray, is_escaped: bool) -> tuple[pa.ChunkedArray, int]:
    """Texts with ' before those that a spreadsheet would run, and their number; numbers with a sign stay."""
    if not is_escaped or not _is_text(values.type):
        return values, 0
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    is_formula = pc.fill_null(pc.match_substring_regex(values, pattern=FORMULA), False)
    n = pc.sum(is_formula).as_py() or 0
    if not n:
        return values, 0
    is_formula = pc.and_(is_formula, pc.invert(pc.fill_null(pc.match_substring_regex(values, pattern=SIGNED), False)))
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", values, ""), values), pc.sum(is_formula).as_py() or 0


def _is_text(type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        return _is_text(type_.value_type)
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


@contextmanager
def _written(path: str) -> Iterator[Any]:
    """What is written to: a file that takes the place of the one there, or standard output."""
    if path != STANDARD:
        with writing(path) as unfinished:
            yield unfinished
        return
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextmanager
def _writer(path: str, sink: Any, schema: pa.Schema) -> Iterator[pa.csv.CSVWriter | pa.parquet.ParquetWriter]:
    if output_format(path) == PARQUET:
        # Numbers with fractions seldom repeat, and looking for it takes longer than all else.
        repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
        with pa.parquet.ParquetWriter(sink, schema, use_dictionary=repeated) as writer:
            yield writer
        return
    options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in Path(path).suffixes else ",", quoting_style="needed")
    with contextlib.ExitStack() as stack:
        stream = sink if path == STANDARD else stack.enter_context(pa.output_stream(sink, compression="detect"))
        yield stack.enter_context(pa.csv.CSVWriter(stream, schema, write_options=options))


def output_format(path: str) -> str:
    """CSV or Parquet, by the suffix of a file to write."""
    try:
        format_ = format_of(path)
    except TableFileError as error:
        raise CommandError(first_line(error)) from error
    suffix = Path(path).suffix.lower()
    is_packed = suffix in (UNWRITTEN_COMPRESSIONS if format_ == CSV else COMPRESSIONS)
    if format_ not in (CSV, PARQUET) or is_packed:
        raise CommandError(f"cannot write {path}: tables are written as CSV (.csv, .csv.gz ...) or Parquet (.parquet)")
    return format_
