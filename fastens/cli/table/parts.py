"""Tables in files that are read part by part, so that they may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.table.errors import CommandError, first_line
from fastens.cli.table.tables import read_table
from fastens.files import TableFileError, TableSchema
from fastens.files.csv_streams import CsvStream
from fastens.files.dialects import unique_names
from fastens.files.formats import CSV, PARQUET, format_of
from fastens.files.read import Typing, as_known, files_of, plain_text, without_codes
from fastens.files.schema import NUMBER, Column
from fastens.table.sources import BATCH_ROWS, open_batches


@dataclass(frozen=True)
class FileRows:
    """Which rows and columns of files a task has, for those who read them elsewhere.

    Attributes
    ----------
    paths : list of str
        The files, by their names or patterns.
    schema : TableSchema
        What is known of their columns.
    kinds : dict
        What the columns to learn from hold.
    numbers : int array
        The rows, ascending, as the files have them one after another.
    """

    paths: Sequence[str]
    schema: TableSchema
    kinds: dict[str, str]
    numbers: NDArray[np.int64]


@dataclass(frozen=True)
class TableParts:
    """A table that is read part by part.

    Attributes
    ----------
    empty : pyarrow.Table
        Its columns, without rows.
    n_rows : int
        Its rows.
    schema : TableSchema
        What is known of its columns.
    notes : list of str
        For the person who reads the table.
    """

    empty: pa.Table
    n_rows: int
    schema: TableSchema
    notes: list[str]
    _read: Callable[[Sequence[str]], Iterator[pa.Table]]

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some of the columns, part by part."""
        first = 0
        with _faults():
            for part in self._read(columns):
                known = {name: self.schema.columns.get(name) for name in columns}
                made = [
                    part[name] if column is None else _as_known(name, part[name], column, first)
                    for name, column in known.items()
                ]
                yield pa.Table.from_arrays(made, names=list(columns))
                first += part.num_rows


def open_parts(
    paths: Sequence[str], schema: TableSchema, given: Mapping[str, Column] | None = None, sheet: str | None = None
) -> TableParts:
    """Open files of one kind, by their names or patterns; formats other than CSV and Parquet are read as a whole.

    With `given`, types by the name of their columns, the files are those of training: texts of a Parquet file that are
    numbers or dates become such. Else columns that the schema lacks stay as they are there.
    """
    with _faults():
        files = [file for path in paths for file in files_of(path)]
        formats = set(map(format_of, files))
        if formats == {CSV}:
            stream = CsvStream(files, schema, given=given or {})
            empty = stream.arrow_schema.empty_table()
            return TableParts(empty, stream.n_rows, stream.schema, stream.notes, lambda names: _tables(stream, names))
        if formats == {PARQUET}:
            batches = open_batches(files)
            if not batches.shape[0]:
                raise TableFileError(f"{files[0]} has no rows")
            return _parquet_parts(batches, schema, given)
    found = read_table(paths[0] if len(paths) == 1 else list(paths), schema, sheet=sheet)
    table = found.table
    return TableParts(
        table.slice(0, 0), table.num_rows, found.schema, found.notes, lambda names: _slices(table.select(names))
    )


def _parquet_parts(batches: Any, schema: TableSchema, given: Mapping[str, Column] | None) -> TableParts:
    """Parts of Parquet files, with the names and types of columns as they are read."""
    names, notes = unique_names(batches.columns)
    places = dict(zip(names, batches.columns, strict=True))
    empty = _plain(batches.typed(), names)
    if given is not None:
        head = _plain(next(batches.parts()), names)
        typing = Typing(schema.columns, given, False, True, notes, schema.missing)
        schema = replace(schema, columns={name: typing.read(name, head[name])[1] for name in head.column_names})
    known = {name: schema.columns.get(name) for name in empty.column_names}
    typed = {name: empty[name] if own is None else _as_known(name, empty[name], own, 0) for name, own in known.items()}

    def read(columns: Sequence[str]) -> Iterator[pa.Table]:
        for part in batches.select([places[name] for name in columns]).parts():
            plain = _plain(part, columns)
            if schema.missing:
                made = [without_codes(column, schema.missing) for column in plain.columns]
                plain = pa.Table.from_arrays(made, names=list(columns))
            yield plain

    return TableParts(pa.table(typed), batches.shape[0], schema, notes, read)


def _plain(part: pa.Table, names: Sequence[str]) -> pa.Table:
    """The columns by other names, and texts in the form that has all functions."""
    return pa.Table.from_arrays([plain_text(column) for column in part.columns], names=list(names))


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CommandError(first_line(error)) from error


def _tables(stream: CsvStream, names: Sequence[str]) -> Iterator[pa.Table]:
    for batch in stream.batches(names):
        yield pa.Table.from_batches([batch])


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    for first in range(0, table.num_rows, BATCH_ROWS):
        yield table.slice(first, BATCH_ROWS)


def _as_known(name: str, values: pa.ChunkedArray, column: Column, first: int) -> pa.ChunkedArray:
    """The values as the schema has them; numbers that were texts are floats in every part."""
    found = as_known(name, values, column, first)
    return found.cast(pa.float64()) if column.type == NUMBER and found.type != values.type else found
