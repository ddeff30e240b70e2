"""Tables in files: read with what is known of them, and written; errors are one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fastens.cli.table.errors import CommandError, first_line
from fastens.cli.table.outputs import writing
from fastens.files import TableFileError, TableSchema
from fastens.files.formats import COMPRESSIONS, CSV, PARQUET, format_of
from fastens.files.read import ReadTable, read
from fastens.table.read_ahead import ahead

UNWRITTEN_COMPRESSIONS = (".xz", ".zip")


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


def write_table(table: pa.Table, path: str) -> None:
    """Write a table as CSV or Parquet, by the suffix of `path`."""
    write_tables([table], path)


def write_tables(tables: Iterable[pa.Table], path: str) -> None:
    """Write tables of the same columns, one below the other, each while the next is made."""
    coming = ahead(tables)
    first = next(coming)
    with writing(path) as unfinished, _writer(unfinished, first.schema) as writer:
        for table in chain([first], coming):
            writer.write_table(table)


@contextmanager
def _writer(path: str, schema: pa.Schema) -> Iterator[pa.csv.CSVWriter | pa.parquet.ParquetWriter]:
    if output_format(path) == PARQUET:
        # Numbers with fractions seldom repeat, and looking for it takes longer than all else.
        repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
        with pa.parquet.ParquetWriter(path, schema, use_dictionary=repeated) as writer:
            yield writer
        return
    options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in Path(path).suffixes else ",", quoting_style="needed")
    with (
        pa.output_stream(path, compression="detect") as stream,
        pa.csv.CSVWriter(stream, schema, write_options=options) as writer,
    ):
        yield writer


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
