"""Files that are read part by part, so that tables may be larger than memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fastens.cli.table.columns import CommandError, first_line
from fastens.cli.table.tables import read_table
from fastens.files import TableFileError, TableSchema
from fastens.files.csv_streams import CsvStream
from fastens.files.dialects import unique_names
from fastens.files.formats import CSV, PARQUET, format_of
from fastens.files.read import Typing, as_known, columns_in_file, files_of, plain_text, style_of, without_codes
from fastens.files.schema import BOOLEAN, DATE, NUMBER, OTHER, TEXT, Column
from fastens.table.sources import BATCH_ROWS, open_batches


@dataclass(frozen=True)
class FileRows:
    """The rows and columns of a task in files, for processes that read them elsewhere.

    Attributes
    ----------
    paths : list of str
        The names or patterns of the files.
    schema : TableSchema
        The schema of the files.
    kinds : dict
        The kinds of the columns to learn from.
    numbers : int array
        The row numbers across all files, in ascending order.
    """

    paths: Sequence[str]
    schema: TableSchema
    kinds: dict[str, str]
    numbers: NDArray[np.int64]


# The column with the reason why a row does not fit; column names in files cannot contain NUL.
UNFIT = "\0unfit"
# The requirement for cells of each type, as it is named in messages.
RULES = {NUMBER: "a number", DATE: "a date", BOOLEAN: "true or false"}


@dataclass(frozen=True)
class FileParts:
    """A table that is read part by part.

    Attributes
    ----------
    empty : pyarrow.Table
        The columns of the table, without rows.
    n_rows : int
        The number of rows.
    schema : TableSchema
        The schema of the table.
    notes : list of str
        Notes for the user.
    is_lenient : bool
        If True, cells that do not fit the schema are read as missing, and the column UNFIT contains the reasons.
    """

    empty: pa.Table
    n_rows: int
    schema: TableSchema
    notes: list[str]
    _read: Callable[[Sequence[str]], Iterator[pa.Table]]
    _read_original: Callable[[Sequence[str]], Iterator[pa.Table]]
    is_lenient: bool = False

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield tables of consecutive rows with these columns, typed; if `is_lenient`, UNFIT has reasons or null."""
        first = 0
        with _as_command_errors():
            for part in self._read(columns):
                made, reasons = {}, pa.nulls(part.num_rows, pa.string())
                for name in columns:
                    column = self.schema.columns.get(name)
                    if column is not None and self.is_lenient:
                        made[name], reasons = _convert(name, part[name], column, reasons)
                    else:
                        made[name] = part[name] if column is None else _to_schema(name, part[name], column, first)
                yield pa.table({**made, UNFIT: reasons} if self.is_lenient else made)
                first += part.num_rows

    def read_original(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield tables of consecutive rows with these columns and the original text of their cells."""
        with _as_command_errors():
            yield from self._read_original(columns)


def open_parts(
    paths: Sequence[str],
    schema: TableSchema,
    requested: Mapping[str, Column] | None = None,
    sheet: str | None = None,
    *,
    is_lenient: bool = False,
) -> FileParts:
    """Open files of one format by names or patterns; formats other than CSV and Parquet are loaded completely.

    `requested` maps columns of a training table to types. If it is not None, strings in Parquet files that look like
    numbers or dates are converted. If it is None, columns that are not in the schema are read unchanged.
    """
    with _as_command_errors():
        files = [file for path in paths for file in files_of(path)]
        formats = set(map(format_of, files))
        if formats == {CSV}:
            return _csv_parts(files, schema, requested or {}, is_lenient)
        if formats == {PARQUET}:
            try:
                batches = open_batches(files)
            except (OSError, ValueError) as error:
                raise TableFileError(f"cannot read {', '.join(files)} as Parquet: {error}") from error
            if not batches.shape[0]:
                raise TableFileError(f"{files[0]} has no rows")
            return replace(_parquet_parts(batches, schema, requested), is_lenient=is_lenient)
    path = paths[0] if len(paths) == 1 else list(paths)

    def read_original(names: Sequence[str]) -> Iterator[pa.Table]:
        as_stored = replace(schema, columns=dict.fromkeys(names, Column(OTHER)), missing=())
        return _row_slices(read_table(path, as_stored, sheet=sheet).table.select(list(names)))

    if is_lenient:
        as_text = replace(schema, columns=dict.fromkeys(schema.columns, Column(OTHER)))
        loaded = read_table(path, as_text, sheet=sheet)
        columns = columns_in_file(schema.columns, loaded.table, False, loaded.notes)
        loaded = replace(loaded, schema=replace(schema, columns=columns))
    else:
        loaded = read_table(path, schema, sheet=sheet)
    table = loaded.table
    empty = _typed_empty(table.slice(0, 0), loaded.schema) if is_lenient else table.slice(0, 0)
    return FileParts(
        empty, table.num_rows, loaded.schema, loaded.notes, lambda names: _row_slices(table.select(list(names))),
        read_original, is_lenient,
    )  # fmt: skip


def open_strict_or_lenient(paths: Sequence[str], schema: TableSchema, sheet: str | None = None) -> FileParts:
    """Open files strictly; if cells do not fit the schema, open them leniently, with the column UNFIT."""
    try:
        return open_parts(paths, schema, sheet=sheet)
    except CommandError:
        if not schema.columns:
            raise
        return open_parts(paths, schema, sheet=sheet, is_lenient=True)


def read_fitting_rows(path: str, schema: TableSchema, sheet: str | None = None) -> tuple[pa.Table, list[str]]:
    """Return the rows that fit the schema, and a note if rows were skipped; raise CommandError if none fits."""
    try:
        return read_table(path, schema, sheet=sheet).table, []
    except CommandError:
        parts = open_strict_or_lenient([path], schema, sheet)
        if not parts.is_lenient:
            raise
        table = pa.concat_tables(parts.read(parts.empty.column_names))
        unfit = unfit_rows([table])
        if not unfit or len(unfit) == len(table):
            raise
    table = table.filter(pc.is_null(table[UNFIT])).drop_columns([UNFIT])
    n_rows = f"{len(unfit):,} of {parts.n_rows:,} rows"
    return table, [f"Skipped {n_rows}, because cells do not match the training columns: {unfit_text(unfit)}."]


def unfit_rows(parts: Iterable[pa.Table]) -> dict[int, str]:
    """Return {row number from 1: reason} for unfit rows; raise CommandError if no cell of a column fits."""
    reason_of_row: dict[int, str] = {}
    n_fitting: Counter[str] = Counter()
    first = 1
    for part in parts:
        reasons = part[UNFIT]
        for index in np.flatnonzero(np.asarray(reasons.is_valid().to_numpy())).tolist():
            reason_of_row[first + index] = reasons[index].as_py()
        first += part.num_rows
        n_fitting.update({name: part.num_rows - part[name].null_count for name in part.column_names if name != UNFIT})
    for name in (name for name, n in n_fitting.items() if n == 0):
        start = f"column {name!r}"
        of_column = [(row, reason) for row, reason in reason_of_row.items() if reason.startswith(f"{start}:")]
        if len(of_column) > 1 or len(reason_of_row) == first - 1:
            raise CommandError(
                f"{start}, row {of_column[0][0]}{of_column[0][1].removeprefix(start)}; the cells of all "
                "other rows do not match either"
            )
    return reason_of_row


def unfit_text(unfit: Mapping[int, str], max_rows: int = 5) -> str:
    """Describe the first `max_rows` rows that do not fit, each with its reason, and count the others."""
    shown = "; ".join(f"row {row}, {reason}" for row, reason in list(unfit.items())[:max_rows])
    return f"{shown}; and {len(unfit) - max_rows:,} more" if len(unfit) > max_rows else shown


def _csv_parts(files: list[str], schema: TableSchema, requested: Mapping[str, Column], is_lenient: bool) -> FileParts:
    """Open CSV files as FileParts; if `is_lenient` is True, all cells are read as text first."""
    reading_schema = replace(schema, columns={}) if is_lenient else schema
    stream = CsvStream(files, reading_schema, requested=requested, as_text=is_lenient)
    empty, stored_schema = stream.arrow_schema.empty_table(), stream.schema
    if is_lenient:
        head = next(_read_stream(stream, empty.column_names))
        stored_schema = replace(
            schema, columns=columns_in_file(schema.columns, head, stream.prefers_comma, stream.notes)
        )
        empty = _typed_empty(empty, stored_schema)
    written = stream.as_written()
    return FileParts(
        empty, stream.n_rows, stored_schema, stream.notes, lambda names: _read_stream(stream, names),
        lambda names: map(_blanks_to_missing, _read_stream(written, names)), is_lenient,
    )  # fmt: skip


def _blanks_to_missing(part: pa.Table) -> pa.Table:
    """Replace empty texts by missing values, which a CSV writer writes without quotes."""
    return pa.table(
        [pc.if_else(pc.equal(column, ""), None, column) for column in part.columns], names=part.column_names
    )


def _typed_empty(empty: pa.Table, schema: TableSchema) -> pa.Table:
    """Return a table without rows, its columns converted to the types in the schema."""
    none = pa.nulls(0, pa.string())
    return pa.table(
        {
            name: _convert(name, empty[name], schema.columns[name], none)[0] if name in schema.columns else empty[name]
            for name in empty.column_names
        }
    )


def _convert(name: str, values: pa.ChunkedArray, column: Column, reasons: pa.Array) -> tuple[pa.ChunkedArray, pa.Array]:
    """Convert the values of column `name`; values that do not fit become missing.

    Return the values and `reasons`, to which the reasons of unfit rows are added unless a row already has one.
    """
    if not pa.types.is_string(values.type) and not pa.types.is_large_string(values.type):
        return _to_schema(name, values, column, 0), reasons
    distinct = values.unique().drop_null()
    is_odd = [not _fits_column(name, value, column) for value in distinct]
    if column.type == NUMBER:
        is_odd = [] if column.lenient else pc.invert(style_of(column).fits(distinct)).to_pylist()
    odd = distinct.filter(pa.array(is_odd, pa.bool_())) if is_odd else distinct.slice(0, 0)
    if len(odd):
        mask = pc.is_in(values, odd)
        rule = f"{RULES.get(column.type, 'a time')}{_format_hint(column)}"
        texts = [f"column {name!r}: {value!r} is not {rule}" for value in odd.to_pylist()]
        odd_reasons = pa.array(texts, pa.string()).take(pc.index_in(values, odd).combine_chunks())
        reasons = pc.coalesce(reasons, odd_reasons)
        values = pc.if_else(mask, None, values)
    made = _parse_times(values) if column.type == OTHER else _to_schema(name, values, column, 0)
    return made, reasons


def _parse_times(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert texts to times of day, for columns that have the schema type OTHER."""
    moments = pc.binary_join_element_wise("1970-01-01", values, " ")
    return moments.cast(pa.timestamp("s")).cast(pa.time32("s"))


def _fits_column(name: str, value: pa.Scalar, column: Column) -> bool:
    """Return True if a text can be converted to the type of a column; always True for numbers and texts."""
    if column.type in (NUMBER, TEXT):
        return True
    values = pa.chunked_array([pa.array([value.as_py()])])
    try:
        _parse_times(values) if column.type == OTHER else as_known(name, values, column)
    except (TableFileError, pa.ArrowException):
        return False
    return True


def _format_hint(column: Column) -> str:
    """Return the format of a numeric or date column as the end of a message, or "" if it is unknown."""
    if column.type == NUMBER:
        return f" written like {str(style_of(column))!r}"
    return f" written as {column.format}" if column.format else ""


def _parquet_parts(batches: Any, schema: TableSchema, requested: Mapping[str, Column] | None) -> FileParts:
    """Return the FileParts of opened Parquet files, with unique column names and the types of the schema."""
    names, notes = unique_names(batches.columns)
    stored_names = dict(zip(names, batches.columns, strict=True))
    empty = _with_plain_text(batches.typed(), names)
    if requested is not None:
        head = _with_plain_text(next(batches.parts()), names)
        typing = Typing(schema.columns, requested, False, True, notes, schema.missing)
        schema = replace(schema, columns={name: typing.read(name, head[name])[1] for name in head.column_names})
    declared = {name: schema.columns.get(name) for name in empty.column_names}
    typed = {
        name: empty[name] if declaration is None else _to_schema(name, empty[name], declaration, 0)
        for name, declaration in declared.items()
    }

    def read(columns: Sequence[str], codes: Sequence[str] = schema.missing) -> Iterator[pa.Table]:
        for part in batches.select([stored_names[name] for name in columns]).parts():
            plain = _with_plain_text(part, columns)
            if codes:
                made = [without_codes(column, codes) for column in plain.columns]
                plain = pa.Table.from_arrays(made, names=list(columns))
            yield plain

    return FileParts(pa.table(typed), batches.shape[0], schema, notes, read, lambda names: read(names, ()))


def _with_plain_text(part: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return a part with its columns renamed to `names` and strings in the Arrow type that all functions support."""
    return pa.Table.from_arrays([plain_text(column) for column in part.columns], names=list(names))


@contextmanager
def _as_command_errors() -> Iterator[None]:
    """Raise OSError, ValueError and Arrow errors of the context as CommandError with their first line."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CommandError(first_line(error)) from error


def _read_stream(stream: CsvStream, names: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the columns of CSV files in tables of consecutive rows, one for each batch."""
    for batch in stream.batches(names):
        yield pa.Table.from_batches([batch])


def _row_slices(table: pa.Table) -> Iterator[pa.Table]:
    """Yield slices of a table of at most BATCH_ROWS rows."""
    for first in range(0, table.num_rows, BATCH_ROWS):
        yield table.slice(first, BATCH_ROWS)


def _to_schema(name: str, values: pa.ChunkedArray, column: Column, first_row: int) -> pa.ChunkedArray:
    """Convert the values of column `name` to its type; errors count rows from `first_row` for the first value."""
    converted = as_known(name, values, column, first_row)
    return converted.cast(pa.float64()) if column.type == NUMBER and converted.type != values.type else converted
