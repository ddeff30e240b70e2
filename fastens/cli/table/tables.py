"""Tables in files: CSV and Parquet, read and written, with errors of one line."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fastens.cli.table.errors import CommandError, first_line, listed
from fastens.cli.table.outputs import writing

CSV_SUFFIXES = (".csv", ".tsv", ".txt", ".data")
PARQUET_SUFFIXES = (".parquet", ".pq")
COMPRESSION_SUFFIXES = (".gz", ".bz2", ".zst", ".lz4")
DELIMITERS = ",;\t|"
HEAD_BYTES = 1 << 16

# Strings that mean "no value" in a CSV file: Arrow's own list and those of R, SQL, Python and the UCI archive.
_MISSING = (
    *pa.csv.ConvertOptions().null_values,
    "?",
    "<NA>",
    "None",
    "none",
    "Null",
    "NAN",
    "#DIV/0!",
    "#VALUE!",
    "#REF!",
)
# Files written with ", " between the values have a blank before each.
MISSING_STRINGS = [*_MISSING, *(" " + text for text in _MISSING if text), " "]


@dataclass(frozen=True)
class CsvDialect:
    """How one CSV file is written, and the names in its first line."""

    delimiter: str
    decimal_point: str
    encoding: str
    header: list[str]


def read_table(path: str, text_columns: Collection[str] = ()) -> pa.Table:
    """Read a CSV (also compressed) or Parquet file; `text_columns` are read as text even if they hold numbers."""
    format_ = table_format(path)
    if not os.path.exists(path):
        raise CommandError(f"no such file: {path}")
    if os.path.isdir(path):
        raise CommandError(f"{path} is a folder, not a table")
    try:
        table = _read_csv(path, text_columns) if format_ == "csv" else pa.parquet.read_table(path, partitioning=None)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CommandError(f"cannot read {path} as {format_.upper()}: {first_line(error)}") from error
    return _checked(table, path)


def write_table(table: pa.Table, path: str) -> None:
    """Write a table as CSV or Parquet, by the suffix of `path`."""
    write_tables([table], path)


def write_tables(tables: Iterable[pa.Table], path: str) -> None:
    """Write tables of the same columns, one below the other, each before the next is made."""
    tables = iter(tables)
    first = next(tables)
    with writing(path) as unfinished, _writer(unfinished, first.schema) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


@contextmanager
def _writer(path: str, schema: pa.Schema) -> Iterator[pa.csv.CSVWriter | pa.parquet.ParquetWriter]:
    if table_format(path) == "parquet":
        with pa.parquet.ParquetWriter(path, schema) as writer:
            yield writer
        return
    options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in Path(path).suffixes else ",", quoting_style="needed")
    with (
        pa.output_stream(path, compression="detect") as stream,
        pa.csv.CSVWriter(stream, schema, write_options=options) as writer,
    ):
        yield writer


def table_format(path: str) -> str:
    """'csv' or 'parquet', by the suffix of the file."""
    name = Path(path)
    compressed = name.suffix.lower() in COMPRESSION_SUFFIXES
    suffix = (name.with_suffix("") if compressed else name).suffix.lower()
    if suffix in CSV_SUFFIXES:
        return "csv"
    if suffix in PARQUET_SUFFIXES and not compressed:
        return "parquet"
    endings = ", ".join((*CSV_SUFFIXES, *PARQUET_SUFFIXES))
    raise CommandError(f"cannot tell the format of {path!r}: its name must end in one of {endings}")


def _checked(table: pa.Table, path: str) -> pa.Table:
    """The table without the index that pandas leaves in Parquet files; empty tables and equal names are refused."""
    kept = [i for i, name in enumerate(table.column_names) if not re.fullmatch(r"__index_level_\d+__", name)]
    table = table.select(kept)
    names = [clean_name(name, position) for position, name in enumerate(table.column_names)]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise CommandError(f"{path} has more than one column named {listed(repeated)}")
    if table.num_rows == 0 or not names:
        raise CommandError(f"{path} has no rows")
    return table.rename_columns(names)


def clean_name(name: str, position: int) -> str:
    """A column's name without blanks around it; a column without a name is called by its position."""
    return name.strip() or f"column {position + 1}"


def _read_csv(path: str, text_columns: Collection[str]) -> pa.Table:
    try:
        table = _read_csv_as(path, _dialect(path), text_columns)
    except (UnicodeDecodeError, pa.ArrowInvalid):
        table = None
    if table is None or any(pa.types.is_binary(field.type) for field in table.schema):
        # Not UTF-8. Latin-1 gives every byte a letter, so that equal values stay equal whatever the encoding was.
        table = _read_csv_as(path, _dialect(path, "latin-1"), text_columns)
    return table


def _read_csv_as(path: str, dialect: CsvDialect, text_columns: Collection[str]) -> pa.Table:
    as_text = [name for i, name in enumerate(dialect.header) if clean_name(name, i) in text_columns]
    return pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(encoding=dialect.encoding.removesuffix("-sig")),
        parse_options=pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            null_values=MISSING_STRINGS,
            strings_can_be_null=True,
            decimal_point=dialect.decimal_point,
            column_types=dict.fromkeys(as_text, pa.string()),
        ),
    )


def _dialect(path: str, encoding: str = "utf-8-sig") -> CsvDialect:
    """Delimiter, decimal point, encoding and names, from the first lines."""
    with pa.input_stream(path, compression="detect") as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    text = head.decode(encoding, errors="replace")
    headers = [next(csv.reader([text.split("\n", 1)[0]], delimiter=delimiter), []) for delimiter in DELIMITERS]
    header = max(headers, key=len)
    delimiter = DELIMITERS[headers.index(header)]
    comma_decimals = delimiter != "," and re.search(r"(^|[;\t|])-?\d+,\d+($|[;\t|])", text, re.MULTILINE)
    return CsvDialect(delimiter, "," if comma_decimals else ".", encoding, header)
