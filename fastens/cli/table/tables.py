"""Reading and writing tables, and the output files of a command."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from fastens.cli.table.columns import CommandError, first_line
from fastens.files import TableFileError, TableSchema
from fastens.files.formats import COMPRESSIONS, CSV, PARQUET, format_of
from fastens.files.read import ReadTable, read
from fastens.modelfile.storage import ENDING, MAGIC, replacing
from fastens.table.sources import ahead

# How files begin that are no text, and what they are.
BEGINNINGS = {
    MAGIC: "a model",
    b"PAR1": "a Parquet table",
    b"\x89PNG": "a PNG picture",
    b"%PDF": "a PDF document",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"\x04\x22\x4d\x18": "an lz4 archive",
}
BY_SUFFIX = {
    ".parquet": "a Parquet table",
    ".pq": "a Parquet table",
    ".png": "a PNG picture",
    ".pdf": "a PDF document",
    ".gz": "a gzip archive",
    ".bz2": "a bzip2 archive",
    ".zst": "a zstd archive",
    ".lz4": "an lz4 archive",
    ".html": "a web page",
    ".htm": "a web page",
    ".svg": "an SVG picture",
}
MARKUP = {
    b"<!doctype html": "a web page",
    b"<html": "a web page",
    b"<svg": "an SVG picture",
}
# Of texts that are tables by their names, and no models or code.
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
TEXT, OTHER = "text", "binary data"
# The output that is standard output.
STANDARD = "-"
HEAD_BYTES = 4096
# A file that is not yet whole, as messages of libraries name it.
HIDDEN = re.compile(rf"\.[0-9a-f]{{16}}\.[^/'\"\s]{{0,{ENDING}}}")


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the option that lets outputs replace inputs and files of other kinds."""
    text = "let an output replace an input, or a file of another kind"
    parser.add_argument("--overwrite", action="store_true", help=text)


def check_output(
    path: str, kind: str | None, inputs: Sequence[str | None], overwrite: bool, *, may_be_standard: bool = False
) -> None:
    """Refuse a file that cannot be written, or that would be lost, before the work is done whose result it is to hold.

    Parameters
    ----------
    path : str
        The file to write.
    kind : str or None
        What it will hold; None: what its suffix says, else text.
    inputs : sequence of str or None
        The files that are read.
    overwrite : bool
        Whether it may replace an input or a file of another kind.
    may_be_standard : bool
        Whether "-" may stand for standard output.
    """
    if path == STANDARD:
        if may_be_standard:
            return
        raise CommandError("an output must be a file; - stands for standard output in fastens predict only")
    _check_place(path)
    if not overwrite and os.path.isfile(path):
        _check_loss(path, kind, inputs)


def _check_place(path: str) -> None:
    """Refuse a file in a folder that is not there, or that must not be written."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise CommandError(f"cannot write {path}: it is a folder")
    if not os.path.isdir(folder):
        raise CommandError(f"cannot write {path}: there is no folder {folder}")
    # The new file is written beside the old one: its folder must be writable, and a file that is protected stays.
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise CommandError(f"cannot write {path}: permission denied")


def _check_loss(path: str, kind: str | None, inputs: Sequence[str | None]) -> None:
    """Refuse to replace a file that is read, or one of another kind."""
    for given in inputs:
        if given is not None and os.path.exists(given) and os.path.samefile(path, given):
            raise CommandError(f"will not write over {path}, which is read; choose another file, or add --overwrite")
    found = _kind_of_file(path)
    if kind == TEXT and found == TEXT and os.path.splitext(path)[1].lower() in TABLE_SUFFIXES:
        raise CommandError(
            f"will not write over {path}, whose name is that of a table; choose another file, or add --overwrite"
        )
    expected = kind or BY_SUFFIX.get(os.path.splitext(path)[1].lower(), TEXT)
    if found not in (None, expected):
        raise CommandError(
            f"will not write {_named(expected)} over {path}, which holds {_named(found)}; "
            "choose another file, or add --overwrite"
        )


def check_different(outputs: Mapping[str, str | None]) -> None:
    """Refuse outputs, by the names of their options, that would be written over each other."""
    options: dict[str, str] = {}
    for option, path in outputs.items():
        if path is not None and (other := options.setdefault(os.path.realpath(path), option)) != option:
            raise CommandError(f"{other} and {option} must be different files; got {path} for both")


@contextmanager
def writing(path: str) -> Iterator[str]:
    """Yield the name of a file to write, which takes the place of `path` once it is whole."""
    try:
        with replacing(path) as unfinished:
            yield unfinished
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
        raise CommandError(f"cannot write {path}: {HIDDEN.sub(os.path.basename(path), reason)}") from error


def _kind_of_file(path: str) -> str | None:
    """What a file holds, by how it begins; None for an empty one."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        return None
    for beginning, kind in BEGINNINGS.items():
        if head.startswith(beginning):
            return kind
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<?xml"):
        return MARKUP[b"<svg"] if b"<svg" in start else TEXT
    for beginning, kind in MARKUP.items():
        if start.startswith(beginning):
            return kind
    is_utf16 = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    return OTHER if b"\0" in head and not is_utf16 else TEXT


def _named(kind: str) -> str:
    return "a table of text" if kind == TEXT else kind


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
