"""CSV files that are read whole, by pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from fastens.files.dialects import ENCODINGS, MISSING_CODES, Dialect, dialect_of, is_about_encoding
from fastens.files.errors import TableFileError, listed
from fastens.files.schema import TableSchema


def read_csv(
    open_file: Callable[[], Any], schema: TableSchema, text_columns: Sequence[str]
) -> tuple[pa.Table, Dialect]:
    """The table, and how it was written. `text_columns` are read as text."""
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
    return table, dialect


def _read(open_file: Callable[[], Any], dialect: Dialect, schema: TableSchema, text_columns: Sequence[str]) -> pa.Table:
    types = dict.fromkeys(set(text_columns) & set(dialect.names), pa.string())
    table, ragged = _read_rows(open_file, dialect, convert_options(dialect, schema, types))
    if ragged:
        # Only one thread knows the numbers of the lines.
        convert = convert_options(dialect, schema, types)
        raise ragged_error(_read_rows(open_file, dialect, convert, use_threads=False)[1])
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


def read_options(dialect: Dialect, **options: Any) -> pa.csv.ReadOptions:
    """Where the rows begin, and what the columns are called."""
    options |= {"column_names": dialect.names, "skip_rows": dialect.n_header_lines}
    return pa.csv.ReadOptions(encoding=dialect.encoding.removesuffix("-sig"), **options)


def _read_rows(
    open_file: Callable[[], Any],
    dialect: Dialect,
    convert: pa.csv.ConvertOptions,
    use_threads: bool = True,
) -> tuple[pa.Table, list[Any]]:
    """The rows with as many values as there are names, and the others."""
    ragged: list[Any] = []
    with open_file() as stream:
        table = pa.csv.read_csv(
            stream,
            read_options=read_options(dialect, use_threads=use_threads),
            parse_options=parse_options(dialect, ragged),
            convert_options=convert,
        )
    return table, ragged
