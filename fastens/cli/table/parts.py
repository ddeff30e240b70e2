"""Tables in files that are read part by part, so that they may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fastens.cli.table.errors import CommandError, first_line
from fastens.cli.table.tables import read_table
from fastens.files import TableFileError, TableSchema
from fastens.files.csv_streams import CsvStream
from fastens.files.formats import CSV, PARQUET, format_of
from fastens.files.read import as_known, files_of
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


def open_parts(paths: Sequence[str], schema: TableSchema) -> TableParts:
    """Open files of one kind, by their names or patterns; formats other than CSV and Parquet are read as a whole."""
    with _faults():
        files = [file for path in paths for file in files_of(path)]
        formats = set(map(format_of, files))
        if formats == {CSV}:
            stream = CsvStream(files, schema)
            empty = stream.arrow_schema.empty_table()
            return TableParts(empty, stream.n_rows, stream.schema, stream.notes, lambda names: _tables(stream, names))
        if formats == {PARQUET}:
            batches = open_batches(files)
            if not batches.shape[0]:
                raise TableFileError(f"{files[0]} has no rows")
            return TableParts(
                batches.typed(), batches.shape[0], schema, [], lambda names: batches.select(names).parts()
            )
    found = read_table(paths[0] if len(paths) == 1 else list(paths), schema)
    table = found.table
    return TableParts(
        table.slice(0, 0), table.num_rows, found.schema, found.notes, lambda names: _slices(table.select(names))
    )


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
