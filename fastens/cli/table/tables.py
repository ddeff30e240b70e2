"""Reading and writing of tables, and checks of the output files of commands."""

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

# The first bytes of binary files, and the kinds of these files.
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
MARKUP = {b"<!doctype html": "a web page", b"<html": "a web page", b"<svg": "an SVG picture"}
# Suffixes of text files that are tables rather than models or code.
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
TEXT, OTHER = "text", "binary data"
# The path that means standard output.
STANDARD = "-"
HEAD_BYTES = 4096
# The name of an unfinished file, as it appears in error messages of libraries.
HIDDEN = re.compile(rf"\.[0-9a-f]{{16}}\.[^/'\"\s]{{0,{ENDING}}}")


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add the option that allows outputs to replace inputs and files of other kinds."""
    text = "allow an output to replace an input or a file of another type"
    parser.add_argument("--overwrite", action="store_true", help=text)


def check_output(
    path: str, kind: str | None, inputs: Sequence[str | None], overwrite: bool, *, may_be_standard: bool = False
) -> None:
    """Raise CommandError early if an output file cannot be written, or if writing it would lose another file.

    Parameters
    ----------
    path : str
        The file to write.
    kind : str or None
        The kind of the output. If None, the suffix determines the kind, or it is text.
    inputs : sequence of str or None
        The input files.
    overwrite : bool
        If True, the output may replace an input or a file of another kind.
    may_be_standard : bool
        If True, "-" means standard output.
    """
    if path == STANDARD:
        if may_be_standard:
            return
        raise CommandError("an output must be a file; - means standard output only in fastens predict")
    _check_writable(path)
    if not overwrite and os.path.isfile(path):
        _check_loss(path, kind, inputs)


def _check_writable(path: str) -> None:
    """Raise CommandError if a file cannot be written, because of its folder or missing permissions."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise CommandError(f"cannot write {path}: it is a folder")
    if not os.path.isdir(folder):
        raise CommandError(f"cannot write {path}: the folder {folder} does not exist")
    # The new file is written next to the old one, so the folder must be writable; read-only files are kept.
    if not os.access(folder, os.W_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise CommandError(f"cannot write {path}: permission denied")


def _check_loss(path: str, kind: str | None, inputs: Sequence[str | None]) -> None:
    """Raise CommandError if writing `path` would replace an input or a file of another kind."""
    for source in inputs:
        if source is not None and os.path.exists(source) and os.path.samefile(path, source):
            raise CommandError(
                f"will not overwrite {path}, which is an input. Choose another file, or add --overwrite."
            )
    present_kind = _kind_of_file(path)
    if kind == TEXT and present_kind == TEXT and os.path.splitext(path)[1].lower() in TABLE_SUFFIXES:
        raise CommandError(
            f"will not overwrite {path}, which has the file name of a table. Choose another file, or add --overwrite."
        )
    expected = kind or BY_SUFFIX.get(os.path.splitext(path)[1].lower(), TEXT)
    if present_kind not in (None, expected):
        raise CommandError(
            f"will not overwrite {path}, which holds {_kind_text(present_kind)}, with {_kind_text(expected)}. Choose "
            "another file, or add --overwrite."
        )


def check_distinct_outputs(outputs: Mapping[str, str | None]) -> None:
    """Raise CommandError if two paths are the same file; `outputs` maps options to paths."""
    options: dict[str, str] = {}
    for option, path in outputs.items():
        if path is not None and (other := options.setdefault(os.path.realpath(path), option)) != option:
            raise CommandError(f"{other} and {option} must be different files; got {path} for both")


@contextmanager
def writing(path: str) -> Iterator[str]:
    """Yield the name of a temporary file, which replaces `path` at the end of the context without an error."""
    try:
        with replacing(path) as unfinished:
            yield unfinished
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
        raise CommandError(f"cannot write {path}: {HIDDEN.sub(os.path.basename(path), reason)}") from error


def _kind_of_file(path: str) -> str | None:
    """Return the kind of a file by its first bytes, as in BEGINNINGS, MARKUP, TEXT or OTHER; None if it is empty."""
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


def _kind_text(kind: str) -> str:
    """Return the kind of a file as words for a message."""
    return "a table of text" if kind == TEXT else kind


UNWRITTEN_COMPRESSIONS = (".xz", ".zip")
# The beginnings of texts that a spreadsheet would run as formulas, and the exceptions: numbers, dates and single signs.
FORMULA = r"^\s*[=+\-@\t\r\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]|^[\t\r]"
SIGNED = r"^\s*[-+](?:[\s\d.,'_:/()%$€£¥]*(?:[eE][-+]?\d+)?)\s*(?:%|[A-Z]{3}|[$€£¥])?\s*$"


def read_table(
    path: str | Sequence[str],
    schema: TableSchema | None = None,
    types: Mapping[str, str] | None = None,
    sheet: str | None = None,
) -> ReadTable:
    """Read a table with a schema, with types by column name and from a sheet; raise CommandError if this fails."""
    try:
        return read(path, schema or TableSchema(), types or {}, sheet)
    except TableFileError as error:
        raise CommandError(first_line(error)) from error


def add_escape(parser: argparse.ArgumentParser) -> None:
    """Add the option to escape cells that a spreadsheet would run as formulas."""
    text = "in CSV files, write ' before texts and names that a spreadsheet would execute, such as =1+1 (default: yes)"
    parser.add_argument("--escape-formulas", action=argparse.BooleanOptionalAction, default=True, help=text)


def escape_note(n_cells: int) -> str:
    """Return a note on the number of escaped cells, with the option that disables escaping."""
    cells = "1 cell" if n_cells == 1 else f"{n_cells:,} cells"
    return f"{cells} that a spreadsheet would execute are written with a leading '; use --no-escape-formulas to omit it"


def write_tables(tables: Iterable[pa.Table], path: str, *, escape: bool = True) -> int:
    """Concatenate tables with the same columns in one file, and compute each while the previous one is written.

    Return the number of texts and names that were escaped for spreadsheets, which happens only in CSV files.
    """
    coming = ahead(tables)
    first = next(coming)
    n_escaped = 0
    is_escaped = escape and output_format(path) == CSV
    names, n_names = _escape_formulas(pa.chunked_array([pa.array(first.column_names, pa.string())]), is_escaped)

    def made(table: pa.Table) -> pa.Table:
        nonlocal n_escaped
        columns = []
        for column in table.columns:
            escaped, n = _escape_formulas(column, is_escaped)
            columns.append(escaped)
            n_escaped += n
        return pa.table(columns, names=names.to_pylist())

    first = made(first)
    with _open_sink(path) as unfinished, _open_writer(path, unfinished, first.schema) as writer:
        writer.write_table(first)
        for table in coming:
            writer.write_table(made(table))
    return n_names + n_escaped


def _escape_formulas(values: pa.ChunkedArray, is_escaped: bool) -> tuple[pa.ChunkedArray, int]:
    """Put ' before texts that a spreadsheet would run, if `is_escaped`; return the column and how many changed."""
    if not is_escaped or not _is_text_type(values.type):
        return values, 0
    if pa.types.is_dictionary(values.type):
        values = values.cast(pa.string())
    is_formula = pc.fill_null(pc.match_substring_regex(values, pattern=FORMULA), False)
    n = pc.sum(is_formula).as_py() or 0
    if not n:
        return values, 0
    is_formula = pc.and_(is_formula, pc.invert(pc.fill_null(pc.match_substring_regex(values, pattern=SIGNED), False)))
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", values, ""), values), pc.sum(is_formula).as_py() or 0


def _is_text_type(type_: pa.DataType) -> bool:
    """Return True if an Arrow type is a string or a dictionary of strings."""
    if pa.types.is_dictionary(type_):
        return _is_text_type(type_.value_type)
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


@contextmanager
def _open_sink(path: str) -> Iterator[Any]:
    """Yield a target to write to: the name of a temporary file that will replace `path`, or standard output."""
    if path != STANDARD:
        with writing(path) as unfinished:
            yield unfinished
        return
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


@contextmanager
def _open_writer(path: str, sink: Any, schema: pa.Schema) -> Iterator[pa.csv.CSVWriter | pa.parquet.ParquetWriter]:
    """Yield an Arrow writer of CSV or Parquet to `sink`; the suffix of `path` gives format and compression."""
    if output_format(path) == PARQUET:
        # Floats seldom repeat, and dictionary encoding would take most of the time.
        repeated = [field.name for field in schema if not pa.types.is_floating(field.type)]
        with pa.parquet.ParquetWriter(sink, schema, use_dictionary=repeated) as writer:
            yield writer
        return
    options = pa.csv.WriteOptions(delimiter="\t" if ".tsv" in Path(path).suffixes else ",", quoting_style="needed")
    with contextlib.ExitStack() as stack:
        stream = sink if path == STANDARD else stack.enter_context(pa.output_stream(sink, compression="detect"))
        yield stack.enter_context(pa.csv.CSVWriter(stream, schema, write_options=options))


def output_format(path: str) -> str:
    """Return the format, CSV or PARQUET, by the suffix of a file to write; raise CommandError for other formats."""
    try:
        format_ = format_of(path)
    except TableFileError as error:
        raise CommandError(first_line(error)) from error
    suffix = Path(path).suffix.lower()
    is_packed = suffix in (UNWRITTEN_COMPRESSIONS if format_ == CSV else COMPRESSIONS)
    if format_ not in (CSV, PARQUET) or is_packed:
        raise CommandError(f"cannot write {path}: tables are written as CSV (.csv, .csv.gz ...) or Parquet (.parquet)")
    return format_
