"""Reading of whole CSV files with pyarrow."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from fastens.files.dialects import ENCODINGS, MISSING_CODES, Dialect, infer_dialect, is_about_encoding
from fastens.files.layout import is_number
from fastens.files.numbers import has_leading_zeros
from fastens.files.schema import TableFileError, TableSchema, listed

REPEATED = "Lines that repeat the header are skipped."
SURPLUS = "Some lines have more separators than the header; the empty cells at their end are skipped."
# Number of bytes searched for leading zeros at a time.
_SCANNED = 1 << 16


class _TrimmedStream:
    """Binary stream that ends at a given size and drops lines that repeat the header, and surplus empty cells."""

    closed = False

    def __init__(self, stream: Any, size: int, repeated: bytes, width: int | None, separator: str) -> None:
        self._stream, self._left, self._repeated = stream, size, repeated
        self._width, self._separator = width, separator
        self._part, self._is_first = b"", True

    def __enter__(self) -> _TrimmedStream:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Close this stream and the stream that it reads."""
        self.closed = True
        self._stream.close()

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes of the stream, all if negative; empty at its end.

        The footer is left out, and so are lines that repeat the header and surplus empty cells if this was requested.
        """
        content: bytes = self._stream.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(content)
        if not self._repeated and self._width is None:
            return content
        lines = (self._part + content).splitlines(keepends=True)
        self._part = lines.pop() if content and lines and not lines[-1].endswith(b"\n") else b""
        kept = []
        for line in lines:
            if self._is_first or line.rstrip(b"\r\n") != self._repeated:
                kept.append(line if self._width is None else self._without_surplus(line, self._width))
            self._is_first &= line.rstrip(b"\r\n") != self._repeated
        return b"".join(kept) or (self.read(size) if content else b"")

    def _without_surplus(self, line: bytes, width: int) -> bytes:
        """Return a line without the empty cells beyond the number of columns, `width`."""
        separator, text = self._separator.encode(), line.rstrip(b"\r\n")
        if text.count(separator) < width or (n := n_surplus(text.decode("latin-1"), self._separator, width)) < 1:
            return line
        return text.rsplit(separator, n)[0] + line[len(text) :]


def n_surplus(line: str, separator: str, width: int) -> int:
    """Return the number of cells of a line beyond `width`, or 0 if one of these cells has a value.

    The number is negative if the line has fewer than `width` cells.
    """
    cells = next(csv.reader([line], delimiter=separator), [])
    return 0 if any(cell.strip() for cell in cells[width:]) else len(cells) - width


def has_surplus(ragged: Sequence[Any], dialect: Dialect) -> bool:
    """Return True if any of these rows, as pyarrow reports them, is too long only because of empty cells at its end."""
    width = len(dialect.names)
    return "16" not in dialect.encoding and any(n_surplus(row.text, dialect.separator, width) > 0 for row in ragged)


def opener_without_footer(
    open_file: Callable[[], Any], dialect: Dialect, repeats: bool = False, trims: bool = False
) -> Callable[[], Any]:
    """Return a function that opens the file without its footer, which starts at `dialect.end`.

    If `repeats` is True, lines that repeat the header are also left out. If `trims` is True, empty cells beyond the
    columns at the ends of lines are also left out.
    """
    if dialect.end is None and not repeats and not trims:
        return open_file
    end = 1 << 62 if dialect.end is None else dialect.end
    line = dialect.header.encode(dialect.encoding.removesuffix("-sig")) if repeats else b""
    width = len(dialect.names) if trims else None
    return lambda: _TrimmedStream(open_file(), end, line, width, dialect.separator)


def read_csv(
    open_file: Callable[[], Any], schema: TableSchema, text_columns: Sequence[str], word_columns: Sequence[str] = ()
) -> tuple[pa.Table, Dialect]:
    """Return the table of a CSV file and its dialect, with the first encoding that can decode it.

    `text_columns` are read as text. In `word_columns`, only empty cells are missing. Raises TableFileError if the file
    is not a table.
    """
    for encoding in ENCODINGS if schema.encoding is None else [schema.encoding]:
        try:
            dialect = infer_dialect(open_file, schema, encoding)
            table = _read_table(open_file, dialect, schema, text_columns, word_columns)
        except (UnicodeDecodeError, pa.ArrowInvalid) as error:
            if schema.encoding is not None or encoding == ENCODINGS[-1] or not is_about_encoding(error):
                raise
            continue
        if not any(pa.types.is_binary(field.type) for field in table.schema):
            break
    dialect.notes.extend(encoding_notes(dialect, schema))
    return table, dialect


def encoding_notes(dialect: Dialect, schema: TableSchema) -> list[str]:
    """Return a list with a note about a guessed encoding; empty if the user passed it or it is a UTF encoding."""
    if schema.encoding is not None or dialect.encoding.startswith("utf"):
        return []
    return [
        f"The file is not UTF-8 and is read as {dialect.encoding}. If letters look wrong, set --encoding NAME "
        "(such as cp1250, gb18030 or shift_jis) or `encoding` of the schema."
    ]


def _read_table(
    open_file: Callable[[], Any],
    dialect: Dialect,
    schema: TableSchema,
    text_columns: Sequence[str],
    word_columns: Sequence[str],
) -> pa.Table:
    """Return the table of a file with this dialect, and add notes to the dialect; the arguments are as in `read_csv`.

    Raises TableFileError for lines with too many or too few values.
    """
    types = dict.fromkeys(set(text_columns) & set(dialect.names), pa.string())
    convert = convert_options(dialect, schema, types)
    trimmed = opener_without_footer(open_file, dialect)
    table, ragged = _read_rows(trimmed, dialect, convert)
    if trims := has_surplus(ragged, dialect):
        dialect.notes.append(SURPLUS)
        trimmed = opener_without_footer(open_file, dialect, trims=True)
        table, ragged = _read_rows(trimmed, dialect, convert)
    if ragged:
        # Line numbers are available only with a single thread.
        raise ragged_error(_read_rows(trimmed, dialect, convert, use_threads=False)[1])
    if repeats_header(table, dialect):
        dialect.notes.append(REPEATED)
        trimmed = opener_without_footer(open_file, dialect, repeats=True, trims=trims)
        table, _ = _read_rows(trimmed, dialect, convert)
    if numbers := columns_of_codes(trimmed, dialect, table, schema):
        convert = convert_options(dialect, schema, dict.fromkeys(numbers, pa.string()))
        convert.include_columns = numbers
        texts, _ = _read_rows(trimmed, dialect, convert)
        table = with_codes(table, texts)
    if word_columns := [name for name in word_columns if name in table.column_names]:
        convert = convert_options(dialect, schema, dict.fromkeys(word_columns, pa.string()))
        convert.include_columns, convert.strings_can_be_null = word_columns, False
        texts, _ = _read_rows(trimmed, dialect, convert)
        for name in word_columns:
            values = with_missing(texts[name], [""])
            table = table.set_column(table.column_names.index(name), name, values)
    return table


def with_missing(values: Any, codes: Sequence[str]) -> Any:
    """Return texts with missing-value codes set to missing; spaces around the codes are ignored."""
    return pc.if_else(pc.is_in(pc.utf8_trim_whitespace(values), pa.array(codes)), None, values)


def with_codes(table: pa.Table, texts: pa.Table) -> pa.Table:
    """Return the table with its columns replaced by the columns of the same name in `texts` that have leading zeros."""
    for name in filter(lambda name: has_leading_zeros(texts[name]), texts.column_names):
        table = table.set_column(table.column_names.index(name), name, texts[name])
    return table


def repeats_header(table: pa.Table, dialect: Dialect) -> bool:
    """Return True if a row of `table` repeats the header of the file.

    This is possible only if all columns, except columns whose name is a number, were read as texts.
    """
    if not dialect.header or not table.num_columns:
        return False
    if not all(pa.types.is_string(field.type) or is_number(field.name) for field in table.schema):
        return False
    return any(
        pa.types.is_string(field.type) and pc.index(table[field.name], field.name).as_py() >= 0
        for field in list(table.schema)[:2]
    ) and _repeats_names(table)


def _repeats_names(table: pa.Table) -> bool:
    """Return True if a row holds the name of each text column in that column; missing values match any name."""
    texts = [field.name for field in table.schema if pa.types.is_string(field.type)]
    mask = pc.equal(pc.utf8_trim_whitespace(table[texts[0]]), texts[0])
    rows = table.select(texts).filter(pc.fill_null(mask, False)).slice(0, 1).to_pylist()
    return bool(rows) and all(value is None or value.strip() == name for name, value in rows[0].items())


def columns_of_codes(open_file: Callable[[], Any], dialect: Dialect, table: pa.Table, schema: TableSchema) -> list[str]:
    """Return the names of the integer columns that may be codes, because a cell of the file has leading zeros.

    Columns of the schema are left out. The result is empty if no cell of the file has leading zeros.
    """
    is_known = schema.columns.__contains__
    numbers = [field.name for field in table.schema if field.type == pa.int64() and not is_known(field.name)]
    return numbers if numbers and _has_leading_zeros(open_file, dialect.separator) else []


def _has_leading_zeros(open_file: Callable[[], Any], separator: str) -> bool:
    """Return True if a cell of the file begins with a zero and another digit, as in the code 0123, in any column."""
    starts = (ord(separator), 10, 13, 34)
    with open_file() as stream:
        last = b"\n"
        while block := stream.read(_SCANNED):
            signs = np.frombuffer(last + block, np.uint8)
            if len(signs) > 3 and _has_zero_prefix(signs, starts):
                return True
            last = bytes(signs[-3:])
    return False


def _has_zero_prefix(block: NDArray[np.uint8], starts: tuple[int, ...]) -> bool:
    """Return True if a cell in these bytes begins with a zero and another digit.

    `starts` are the bytes that may precede a cell: the separator, line ends and quotes.
    """
    before = block[:-3]
    matches = before - np.uint8(9) < 36  # tabs, line ends, quotes and commas; all conditions are vectorised
    if starts[0] > 44:
        matches |= before == starts[0]
    matches &= block[1:-2] == ord("0")
    matches &= block[2:-1] - np.uint8(48) < 10
    if not matches.any():
        return False
    third = block[3:][matches]
    return bool((np.isin(before[matches], starts) & ((third - np.uint8(48) < 10) | np.isin(third, starts))).any())


def ragged_error(ragged_rows: Sequence[Any]) -> TableFileError:
    """Return the error that these rows, as pyarrow reports them, have more or fewer values than the header."""
    first, *others = ragged_rows
    more = f"; the same holds for line {listed([row.number for row in others], 8)}" if others else ""
    return TableFileError(
        f"every line must have {first.expected_columns} values, like the header; line {first.number} has "
        f"{first.actual_columns}: {first.text[:80]!r}{more}"
    )


def convert_options(dialect: Dialect, schema: TableSchema, types: Mapping[str, pa.DataType]) -> pa.csv.ConvertOptions:
    """Return the pyarrow options for converting values; `types` maps column names to types that are not inferred."""
    return pa.csv.ConvertOptions(
        null_values=[*MISSING_CODES, *schema.missing],
        strings_can_be_null=True,
        decimal_point="," if dialect.prefers_comma else ".",
        column_types=dict(types),
    )


def parse_options(dialect: Dialect, ragged: list[Any]) -> pa.csv.ParseOptions:
    """Return the pyarrow options for parsing lines, which append rows of the wrong length to the list `ragged`."""

    def skip(row: Any) -> str:
        ragged.append(row)
        return "skip"

    return pa.csv.ParseOptions(delimiter=dialect.separator, newlines_in_values=True, invalid_row_handler=skip)


def read_options(dialect: Dialect, **options: Any) -> pa.csv.ReadOptions:
    """Return the pyarrow options for reading: `options`, the encoding, the column names and the lines to skip."""
    options |= {"column_names": dialect.names, "skip_rows": dialect.n_header_lines}
    return pa.csv.ReadOptions(encoding=dialect.encoding.removesuffix("-sig"), **options)


def _read_rows(
    open_file: Callable[[], Any],
    dialect: Dialect,
    convert: pa.csv.ConvertOptions,
    use_threads: bool = True,
) -> tuple[pa.Table, list[Any]]:
    """Return the table of the complete rows, and a list of the rows with too many or too few values."""
    ragged: list[Any] = []
    with open_file() as stream:
        table = pa.csv.read_csv(
            stream,
            read_options=read_options(dialect, use_threads=use_threads),
            parse_options=parse_options(dialect, ragged),
            convert_options=convert,
        )
    return table, ragged
