"""CSV files: what separates the values, where the header is, in which encoding; then pyarrow reads them."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv

from fastens.files.errors import TableFileError, listed
from fastens.files.schema import TableSchema

SEPARATORS = ",;\t|"
HEAD_BYTES = 1 << 16
HEAD_ROWS = 50
# Strings that mean "no value": Arrow's own list and those of R, SQL, Python, spreadsheets and the UCI archive.
_MISSING = (
    *pa.csv.ConvertOptions().null_values,
    *("?", "<NA>", "None", "none", "Null", "NAN", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!"),
)
# Files written with ", " between the values have a blank before each.
MISSING_CODES = [*_MISSING, *(" " + text for text in _MISSING if text), " "]
# The first that fits. Latin-1 gives every byte a letter, so that equal values stay equal whatever the encoding was.
ENCODINGS = ("utf-8-sig", "cp1252", "latin-1")


@dataclass(frozen=True)
class Dialect:
    """How one CSV file is written: its encoding, separator, the names in its header, and the lines up to the data."""

    encoding: str
    separator: str
    names: list[str]
    n_header_lines: int
    prefers_comma: bool


def read_csv(
    open_file: Callable[[], Any], schema: TableSchema, text_columns: Sequence[str]
) -> tuple[pa.Table, Dialect, list[str]]:
    """The table, how it was written, and notes on the header. `text_columns` are read as text."""
    for encoding in ENCODINGS if schema.encoding is None else [schema.encoding]:
        try:
            dialect = dialect_of(open_file, schema, encoding)
            table = _read(open_file, dialect, schema, text_columns)
        except (UnicodeDecodeError, pa.ArrowInvalid) as error:
            if schema.encoding is not None or encoding == ENCODINGS[-1] or not is_about_encoding(error):
                raise
            continue
        if not any(pa.types.is_binary(field.type) for field in table.schema):
            break
    names, notes = unique_names(dialect.names)
    return table.rename_columns(names), dialect, notes


def unique_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names without blanks around them, those that are there already with a suffix; notes on what was changed."""
    found: list[str] = []
    repeated: list[str] = []
    for position, name in enumerate(names):
        clean = name.strip() or f"column {position + 1}"
        unique, n = clean, 0
        while unique in found:
            n += 1
            unique = f"{clean}.{n}"
        if unique != clean:
            repeated.append(unique)
        found.append(unique)
    note = f"Columns of a name that was there already are called: {listed(repeated)}."
    return found, [note] if repeated else []


def is_about_encoding(error: Exception) -> bool:
    """Whether a file could not be read for bytes that are no letters of an encoding."""
    return isinstance(error, UnicodeDecodeError) or "UTF" in str(error) or "decode" in str(error)


def dialect_of(open_file: Callable[[], Any], schema: TableSchema, encoding: str) -> Dialect:
    """Find out from the head of a file how it is written."""
    with open_file() as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    elif b"\0" in head and "16" not in encoding and "32" not in encoding:
        raise TableFileError("it holds binary data, not text")
    # The head may end inside a character.
    errors = "strict" if schema.encoding is None else "replace"
    text = codecs.getincrementaldecoder(encoding)(errors).decode(head)
    lines = re.split("\r\n|\r|\n", text)
    text = "\n".join(lines[schema.skip_lines :])
    separators = SEPARATORS if schema.separator is None else [schema.separator]
    by_separator = {separator: _rows(text, separator) for separator in separators}
    separator = max(by_separator, key=lambda key: _consistency(by_separator[key][0]))
    rows, n_lines = by_separator[separator]
    if not rows:
        raise TableFileError("it is empty")
    names = rows[0]
    if len(rows) > 1 and all(len(row) == len(names) + 1 for row in rows[1:]):
        # A separator at the end of every line; or names of rows in a first column without a name, as R writes them.
        if not any(row[-1] for row in rows[1:]):
            names = [*names, ""]
        elif len({row[0] for row in rows[1:]}) == len(rows) - 1 > 1:
            names = ["", *names]
    comma = separator != "," and re.search(rf"(^|[{separator}])-?\d+,\d+($|[{separator}])", text, re.MULTILINE)
    return Dialect(encoding, separator, names, schema.skip_lines + n_lines, bool(comma))


def _rows(text: str, separator: str) -> tuple[list[list[str]], int]:
    """The first rows that are not empty, and the number of lines up to the end of the header."""
    rows: list[list[str]] = []
    n_header_lines = 0
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    try:
        for row in reader:
            if row and not rows:
                n_header_lines = reader.line_num
            if row:
                rows.append(row)
            if len(rows) == HEAD_ROWS:
                break
    except csv.Error:
        pass  # a quote that is not closed in what was read so far
    return rows, n_header_lines


def _consistency(rows: list[list[str]]) -> tuple[int, int]:
    """How many rows have as many values as the first, if it has several; and that number."""
    n_values = len(rows[0]) if rows else 0
    return (sum(len(row) == n_values for row in rows) if n_values > 1 else 0), n_values


def _read(open_file: Callable[[], Any], dialect: Dialect, schema: TableSchema, text_columns: Sequence[str]) -> pa.Table:
    names, _ = unique_names(dialect.names)
    types = dict.fromkeys(set(text_columns) & set(names), pa.string())
    table, ragged = _read_rows(open_file, dialect, names, convert_options(dialect, schema, types))
    if ragged:
        # Only one thread knows the numbers of the lines.
        convert = convert_options(dialect, schema, types)
        raise ragged_error(_read_rows(open_file, dialect, names, convert, use_threads=False)[1])
    return table


def ragged_error(rows: Sequence[Any]) -> TableFileError:
    """The error of rows with more or fewer values than there are columns."""
    first, *others = rows
    more = f"; so has not line {listed([row.number for row in others], 8)}" if others else ""
    return TableFileError(
        f"every line must have {first.expected_columns} values, as the header; line {first.number} has "
        f"{first.actual_columns}: {first.text[:80]!r}{more}"
    )


def convert_options(dialect: Dialect, schema: TableSchema, types: Mapping[str, pa.DataType]) -> pa.csv.ConvertOptions:
    """How values become those of columns; those of `types` have a type already."""
    return pa.csv.ConvertOptions(
        null_values=[*MISSING_CODES, *schema.missing],
        strings_can_be_null=True,
        decimal_point="," if dialect.prefers_comma else ".",
        column_types=dict(types),
    )


def parse_options(dialect: Dialect, ragged: list[Any]) -> pa.csv.ParseOptions:
    """How lines become values; `ragged` is where rows go that have more or fewer than there are columns."""

    def skip(row: Any) -> str:
        ragged.append(row)
        return "skip"

    return pa.csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True, invalid_row_handler=skip)


def read_options(dialect: Dialect, names: list[str], **options: Any) -> pa.csv.ReadOptions:
    """Where the rows begin, and what the columns are called."""
    encoding = dialect.encoding.removesuffix("-sig")
    return pa.csv.ReadOptions(encoding=encoding, column_names=names, skip_rows=dialect.n_header_lines, **options)


def _read_rows(
    open_file: Callable[[], Any],
    dialect: Dialect,
    names: list[str],
    convert: pa.csv.ConvertOptions,
    use_threads: bool = True,
) -> tuple[pa.Table, list[Any]]:
    """The rows with as many values as there are names, and the others."""
    ragged: list[Any] = []
    with open_file() as stream:
        table = pa.csv.read_csv(
            stream,
            read_options=read_options(dialect, names, use_threads=use_threads),
            parse_options=parse_options(dialect, ragged),
            convert_options=convert,
        )
    return table, ragged
