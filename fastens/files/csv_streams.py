"""CSV files that are read in batches, with the same results as `fastens.read_table`.

The dialect and the column types are inferred from the head of the first file. A first pass over all rows counts them
and checks that every value matches.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.csv

from fastens.files.csv_files import (
    REPEATED,
    SURPLUS,
    columns_of_codes,
    convert_options,
    encoding_notes,
    has_surplus,
    opener_without_footer,
    parse_options,
    ragged_error,
    read_options,
    repeats_header,
    with_codes,
    with_missing,
)
from fastens.files.dialects import ENCODINGS, MISSING_CODES, Dialect, infer_dialect, is_about_encoding
from fastens.files.formats import DAMAGE, opener
from fastens.files.read import (
    Typing,
    as_known,
    columns_in_file,
    has_decimal_commas,
    has_notation,
    style_of,
    without_codes,
    words_of,
)
from fastens.files.schema import NUMBER, TEXT, Column, TableFileError, TableSchema, listed

# Number of bytes decoded at a time; the column types are inferred from the first block.
BLOCK_BYTES = 1 << 20
_FAULT = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?.*invalid value '(.*)'", re.DOTALL)
# The wider type that a column gets if a later value does not fit its type.
_WIDER = {pa.int64(): pa.float64(), pa.date32(): pa.timestamp("s"), pa.timestamp("s"): pa.timestamp("ns")}
_RULES = {pa.int64(): "a number", pa.float64(): "a number", pa.bool_(): "true or false", pa.date32(): "a date"}
T = TypeVar("T")


class _Again(Exception):  # noqa: N818
    """Raised to read a file again after more has been learnt about it."""


@dataclass
class CsvStream:
    """CSV files with the same columns, which are read in batches.

    Attributes
    ----------
    schema : TableSchema
        Known properties of the columns. After the head has been read, it also holds the inferred properties, which can
        be reused for other files of the same kind.
    notes : list of str
        Notes for the user about how the files are read.
    n_rows : int
        Total number of rows of all files.
    requested : dict of str to Column
        Column types that the user passed, which take precedence over the schema.
    as_text : bool
        If True, all values stay texts.
    """

    paths: list[str]
    schema: TableSchema
    notes: list[str] = field(default_factory=list)
    n_rows: int = 0
    requested: Mapping[str, Column] = field(default_factory=dict)
    as_text: bool = False
    prefers_comma: bool = field(default=False, init=False)
    _keeps_codes: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._openers = [opener(path) for path in self.paths]
        self._encodings = [self.schema.encoding] * len(self.paths)
        self._repeats = [False] * len(self.paths)
        self._trims = [False] * len(self.paths)
        # Text columns in which only empty cells are missing.
        self._words = words_of({**self.schema.columns, **self.requested})
        self._names: list[str] = []
        self._stored: dict[str, Any] = {}  # types as parsed by Arrow; values with a special notation are parsed as text
        self._types: dict[str, Any] = {}
        self._learn_head()
        if self.as_text:
            self._stored = self._types = dict.fromkeys(self._names, pa.string())
        while not self._count_rows():
            pass

    @property
    def arrow_schema(self) -> pa.Schema:
        """Arrow schema of the batches."""
        return pa.schema([(name, self._types[name]) for name in self._names])

    def as_written(self) -> CsvStream:
        """Return a stream that reads all values as texts, as they are in the files, including missing-value codes."""
        stream = copy(self)
        stream._stored = stream._types = dict.fromkeys(self._names, pa.string())
        stream._keeps_codes = True
        return stream

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches with these columns from all files in order."""
        for file_index in range(len(self.paths)):
            with self._add_path_to_errors(file_index):
                yield from self._read_batches(self._dialect(file_index), file_index, columns)

    # One file --------------------------------------------------

    @contextmanager
    def _add_path_to_errors(self, file_index: int) -> Iterator[None]:
        """Return a context that turns read errors into TableFileError with the path of the file at `file_index`."""
        path = self.paths[file_index]
        try:
            yield
        except TableFileError as error:
            raise error if path in str(error) else TableFileError(f"{path}: {error}") from error
        except (*DAMAGE, UnicodeDecodeError) as error:
            raise TableFileError(f"cannot read {path}: {error}") from error

    def _dialect(self, file_index: int) -> Dialect:
        """Return the dialect of the file at `file_index` with its encoding, or the default encoding if unknown."""
        return infer_dialect(self._openers[file_index], self.schema, self._encodings[file_index] or ENCODINGS[0])

    def _read_batches(self, dialect: Dialect, file_index: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the converted batches of the file at `file_index`, with these columns.

        Raises TableFileError or `_Again` for ragged rows (see `_raise_ragged`), and errors of Arrow unchanged.
        """
        ragged: list[Any] = []
        first = 0
        with self._open_reader(dialect, file_index, self._stored, columns, ragged) as reader:
            for batch in reader:
                if ragged:
                    break
                yield self._convert_batch(batch, columns, first)
                first += batch.num_rows
        if ragged:
            self._raise_ragged(ragged, dialect, file_index)

    def _raise_ragged(self, ragged: list[Any], dialect: Dialect, file_index: int) -> None:
        """Raise the TableFileError for ragged rows, as pyarrow reports them.

        If their extra cells are all empty, `_Again` is raised instead, and the next pass over the file trims them.
        """
        if not self._trims[file_index] and has_surplus(ragged, dialect):
            self._trims[file_index] = True
            self._add_notes(SURPLUS)
            raise _Again
        raise ragged_error(ragged)

    @contextmanager
    def _open_reader(
        self,
        dialect: Dialect,
        file_index: int,
        types: Mapping[str, Any],
        columns: Sequence[str],
        ragged: list[Any],
    ) -> Iterator[Any]:
        """Return a context with the pyarrow reader of the file at `file_index`, which appends ragged rows to `ragged`.

        `types` maps columns to the types to read them as. Raises TableFileError if the file has other columns.
        """
        self._add_notes(*dialect.notes)
        if self._names and set(dialect.names) != set(self._names):
            raise TableFileError(
                f"{self.paths[file_index]} must have the columns of {self.paths[0]}, {listed(self._names)}; "
                f"it has {listed(dialect.names)}"
            )
        # Line numbers are available only with a single thread, and more threads would not be faster.
        read = read_options(dialect, use_threads=False, block_size=BLOCK_BYTES)
        convert = convert_options(dialect, self.schema, types)
        convert.include_columns = list(columns)
        convert.strings_can_be_null = not self._keeps_codes and not self._words
        with (
            opener_without_footer(
                self._openers[file_index], dialect, self._repeats[file_index], self._trims[file_index]
            )() as stream,
            pa.csv.open_csv(stream, read, parse_options(dialect, ragged), convert) as reader,
        ):
            yield reader

    def _convert_batch(self, batch: pa.RecordBatch, columns: Sequence[str], first: int) -> pa.RecordBatch:
        """Return a batch with texts converted to the column types; `first` is its first row number in the file."""
        codes = () if self._keeps_codes else self.schema.missing

        def typed(name: str, values: pa.Array) -> pa.Array:
            if self._stored[name] == self._types[name] and not codes:
                return values
            read = pa.chunked_array([values])
            read = without_codes(read, codes) if codes else read
            if self._stored[name] != self._types[name]:
                read = as_known(name, read, self.schema.columns[name], first).cast(self._types[name])
                read = without_codes(read, codes) if codes else read
            return read.combine_chunks()

        texts = batch.columns if self._keeps_codes else map(self._mark_missing, columns, batch.columns)
        arrays = [typed(name, values) for name, values in zip(columns, texts, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _mark_missing(self, name: str, values: Any) -> Any:
        """Return the values of column `name` with missing-value codes set to missing, if Arrow has not done so."""
        if not self._words or not pa.types.is_string(values.type):
            return values
        return with_missing(values, [""] if name in self._words else MISSING_CODES)

    def _read_with_encoding(self, file_index: int, read: Callable[[Dialect, int], T]) -> T:
        """Return read(dialect, file_index) with the first encoding that can decode the file.

        The encoding is remembered unless only the head was read, and a guessed encoding is noted.
        """
        last_encoding = self._encodings[file_index]
        tried = ENCODINGS if last_encoding is None else [last_encoding]
        for encoding in tried:
            try:
                dialect = infer_dialect(self._openers[file_index], self.schema, encoding)
                result = read(dialect, file_index)
            except (UnicodeDecodeError, pa.ArrowInvalid) as error:
                if encoding == tried[-1] or not is_about_encoding(error):
                    raise
            else:
                break
        if read != self._read_head:
            self._encodings[file_index] = dialect.encoding
        self._add_notes(*encoding_notes(dialect, self.schema))
        return result

    def _add_notes(self, *notes: str) -> None:
        """Append the notes that are not in `notes` yet."""
        self.notes += [note for note in notes if note not in self.notes]

    # The head --------------------------------------------------

    def _learn_head(self) -> None:
        """Set the names, types and notations of the columns from the first rows of the first file.

        Raises TableFileError if the file cannot be read or has no rows.
        """
        with self._add_path_to_errors(0):
            try:
                head, dialect = self._read_with_encoding(0, self._read_head)
            except _Again:
                head, dialect = self._read_with_encoding(0, self._read_head)
            if head.num_rows == 0:
                raise TableFileError("the file has no rows")
        # If all values remain text, notes on their interpretation would be misleading.
        notes = [] if self.as_text else self.notes
        declared = columns_in_file(self.schema.columns, head, dialect.prefers_comma, notes)
        self._names, self.prefers_comma = head.column_names, dialect.prefers_comma or has_decimal_commas(head)
        typing = Typing(declared, self.requested, self.prefers_comma, False, notes, self.schema.missing)
        typed = {name: typing.read(name, head[name]) for name in head.column_names}
        self.schema = replace(self.schema, columns={name: column for name, (_, column) in typed.items()})
        for name, (values, column) in typed.items():
            self._set_types(name, head[name].type, values.type, column)

    def _read_head(self, dialect: Dialect, file_index: int) -> tuple[pa.Table, Dialect]:
        """Return the first rows of a file as a table, and the dialect.

        Columns of codes with leading zeros, and columns whose notation is known, are texts.
        """
        declared = {**self.schema.columns, **self.requested}
        as_text = [name for name, column in declared.items() if column.type == TEXT or has_notation(column)]
        head = self._read_first_rows(dialect, file_index, as_text)
        if repeats_header(head, dialect):
            self._skip_repeated_headers(file_index)
            head = self._read_first_rows(dialect, file_index, as_text)
        with self._openers[file_index]() as stream:
            block = partial(pa.BufferReader, stream.read(BLOCK_BYTES))
        known_schema = replace(self.schema, columns=declared)
        if numbers := columns_of_codes(block, dialect, head, known_schema):
            head = with_codes(head, self._read_first_rows(dialect, file_index, numbers).select(numbers))
        return head, dialect

    def _read_first_rows(self, dialect: Dialect, file_index: int, as_text: Sequence[str]) -> pa.Table:
        """Return the first block of a file as a table, in which the columns named in `as_text` are texts."""
        ragged: list[Any] = []
        with self._open_reader(dialect, file_index, dict.fromkeys(as_text, pa.string()), [], ragged) as reader:
            batch = next(iter(reader), None)
            head = pa.Table.from_batches([] if batch is None else [batch], reader.schema)
        head = pa.table(list(map(self._mark_missing, head.column_names, head.columns)), names=head.column_names)
        if ragged:
            self._raise_ragged(ragged, dialect, file_index)
        if any(pa.types.is_binary(field.type) for field in head.schema):
            raise pa.ArrowInvalid("invalid UTF8 data")
        return head

    def _skip_repeated_headers(self, file_index: int) -> None:
        """Make later passes skip lines that repeat the header in the file at `file_index`, and add a note."""
        self._repeats[file_index] = True
        self._add_notes(REPEATED)

    def _set_types(self, name: str, parsed: pa.DataType, type_: pa.DataType, column: Column) -> None:
        """Set the types of a column as read by Arrow and as returned.

        `parsed` is its type in the head as parsed by Arrow, and `type_` its type after the conversion to `column`.
        """
        # Arrow cannot parse negative numbers in parentheses, and `has_notation` does not cover them, so these columns
        # are read as text.
        is_text = column.type == TEXT or has_notation(column) or parsed == pa.string()
        self._stored[name] = pa.string() if is_text else parsed if pa.types.is_boolean(parsed) else type_
        # Numbers that are converted from texts are floats, because later values may not be integers.
        self._types[name] = pa.float64() if is_text and pa.types.is_integer(type_) else type_

    # The first pass --------------------------------------------------

    def _count_rows(self) -> bool:
        """Set `n_rows` by reading all files; return False if they must be read again.

        This is necessary after a column got a wider type, or after a way to read a file was changed. Raises
        TableFileError for values that do not fit the type of their column.
        """
        self.n_rows = 0
        for file_index in range(len(self.paths)):
            with self._add_path_to_errors(file_index):
                try:
                    self.n_rows += self._read_with_encoding(file_index, self._count_file_rows)
                except _Again:
                    return False
                except pa.ArrowInvalid as error:
                    self._widen_column(file_index, error)
                    return False
        return True

    def _count_file_rows(self, dialect: Dialect, file_index: int) -> int:
        """Return the number of rows of the file at `file_index`, all of whose values are converted."""
        return sum(batch.num_rows for batch in self._read_batches(dialect, file_index, self._names))

    def _widen_column(self, file_index: int, error: Exception) -> None:
        """Widen the type of the column for the value that Arrow could not convert, according to its error.

        Raises TableFileError that names the value if no wider type fits, and other errors unchanged.
        """
        fault = _FAULT.search(str(error))
        if fault is None:
            raise error
        name, row, value = self._names[int(fault[1])], int(fault[2]), fault[3]
        dialect, type_ = self._dialect(file_index), self._stored[name]
        if dialect.header and not self._repeats[file_index] and value.strip() == name:
            self._skip_repeated_headers(file_index)
            return
        values = pa.chunked_array([[value.replace(",", ".") if dialect.prefers_comma else value]])
        if type_ == pa.null():
            self._set_types_from_value(name, value)
        elif type_ in _WIDER and _can_cast(values, _WIDER[type_]):
            self._stored[name] = self._types[name] = _WIDER[type_]
        elif self._accepts_number(name, value, dialect):
            self._stored[name], self._types[name] = pa.string(), pa.float64()
        else:
            row -= dialect.n_header_lines
            raise TableFileError(
                f"column {name!r}, row {row}: {value!r} is not {_RULES.get(type_, type_)}, unlike the first "
                f"values. If the column holds text, use --column {shlex.quote(name)}:text, or "
                f"schema={{'columns': {{{name!r}: 'text'}}}}"
            ) from error

    def _accepts_number(self, name: str, value: str, dialect: Dialect) -> bool:
        """Return True if the number column `name` accepts a value that Arrow cannot parse, such as (5).

        Lenient columns accept any value, which then becomes missing. All values of the column are then converted from
        text, with the decimal comma of the file.
        """
        column = self.schema.columns[name]
        if dialect.prefers_comma and column.decimal == "." and not column.thousands:
            column = replace(column, decimal=",")
        is_one = column.type == NUMBER and (column.lenient or style_of(column).fits(pa.array([value]))[0].as_py())
        if is_one:
            self.schema.columns[name] = column
        return is_one

    def _set_types_from_value(self, name: str, value: str) -> None:
        """Set the types of a column without values in the head from `value`, its first value in later rows."""
        content = pa.BufferReader(b'c\n"' + value.replace('"', '""').encode() + b'"\n')
        values = pa.csv.read_csv(content, parse_options=pa.csv.ParseOptions(newlines_in_values=True))["c"]
        read, column = Typing({}, {}, False, False, self.notes).read(name, values)
        self.schema.columns[name] = column
        self._set_types(name, values.type, read.type, column)


def _can_cast(values: pa.ChunkedArray, type_: pa.DataType) -> bool:
    """Return True if all values can be cast to an Arrow type."""
    try:
        values.cast(type_)
    except pa.ArrowException:
        return False
    return True
