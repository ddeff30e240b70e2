"""Formats of tables in files, and how their bytes are read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from fastens.files.errors import TableFileError, listed
from fastens.files.json_lines import read_json_lines

STANDARD_INPUT = "-"
CSV, PARQUET, JSON_LINES, ARROW, SQLITE, EXCEL = "CSV", "Parquet", "JSON lines", "Arrow", "SQLite", "Excel"
SUFFIXES = {
    CSV: (".csv", ".tsv", ".txt", ".data"),
    PARQUET: (".parquet", ".pq"),
    JSON_LINES: (".jsonl", ".ndjson"),
    ARROW: (".arrow", ".feather", ".ipc"),
    SQLITE: (".sqlite", ".sqlite3", ".db"),
    EXCEL: (".xlsx",),
}
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".xz", ".zip")
# Bytes of a text that its view holds.
_INLINE = 12
# What may be compressed, and come from standard input.
STREAMS = (CSV, JSON_LINES)
# What has types of its own: a text is one on purpose.
TYPED = (PARQUET, JSON_LINES, ARROW, SQLITE)
# What reading a damaged file raises, by its format and compression.
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException)


def format_of(path: str) -> str:
    """The format of a table, by the suffix of its file; standard input is CSV."""
    if path == STANDARD_INPUT:
        return CSV
    name = Path(path)
    compressed = name.suffix.lower() in COMPRESSIONS
    suffix = (name.with_suffix("") if compressed else name).suffix.lower()
    if compressed and suffix == "" and name.suffix.lower() == ".zip":
        return CSV  # an archive is called after what it is about
    for format_, suffixes in SUFFIXES.items():
        if suffix in suffixes and (format_ in STREAMS or not compressed):
            return format_
    endings = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
    raise TableFileError(f"cannot tell the format of {path!r}: its name must end in one of {endings}")


@lru_cache(maxsize=1)
def _standard_input(stream: Any) -> bytes:
    """All of standard input, which can be read only once."""
    return stream.buffer.read()


def opener(path: str) -> Callable[[], Any]:
    """A function that opens the file anew, without its compression."""
    if path == STANDARD_INPUT:
        content = _standard_input(sys.stdin)
        return lambda: pa.BufferReader(content)
    if not os.path.exists(path):
        raise TableFileError(f"no such file: {path}")
    if os.path.isdir(path):
        raise TableFileError(f"{path} is a folder, not a table")
    suffix = Path(path).suffix.lower()
    if suffix == ".zip":
        return lambda: _only_member(path)
    libraries: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
    if suffix in libraries:
        return lambda: libraries[suffix].open(path, "rb")
    return lambda: pa.input_stream(path, compression="detect")


def read_other(path: str, format_: str, table: str | None = None) -> pa.Table:
    """A table in a format that has types of its own."""
    found = _read_other(path, format_, table)
    # Or places that a damaged file gives for texts are read, wherever they are, and texts that are no UTF-8.
    found.validate(full=True)
    for column in found.columns:
        _check_views(column)
    return found


def _read_other(path: str, format_: str, table: str | None) -> pa.Table:
    if format_ == PARQUET:
        return pa.parquet.read_table(path, partitioning=None)
    if format_ == ARROW:
        return pa.feather.read_table(path)
    if format_ == JSON_LINES:
        with opener(path)() as stream:
            return read_json_lines(stream)
    return _read_sqlite(path, table) if format_ == SQLITE else _read_excel(path, table)


def _check_views(column: pa.ChunkedArray) -> None:
    """Places of texts that `validate` leaves out: those of views, also of missing ones, which a cast reads."""
    if not pa.types.is_string_view(column.type):
        return
    for chunk in filter(len, column.chunks):
        _, views, *texts = chunk.buffers()
        used = slice(chunk.offset, chunk.offset + len(chunk))
        length, _, text, place = np.frombuffer(views, np.int32).reshape(-1, 4)[used].T.astype(np.int64)
        sizes = np.array([buffer.size for buffer in texts] + [0])
        is_far = length > _INLINE
        is_known = (text >= 0) & (text < len(texts)) & (place >= 0)
        held = sizes[np.where(is_known, text, len(texts))]
        if (length < 0).any() or (is_far & ~(is_known & (place + length <= held))).any():
            raise ValueError("a text lies outside of the file")


def _only_member(path: str) -> Any:
    with zipfile.ZipFile(path) as archive:  # whose file stays open until the member is closed
        members = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
        if len(members) != 1:
            raise TableFileError(f"{path} must hold one file; it holds {len(members)}: {listed(members)}")
        try:
            return archive.open(members[0])
        except RuntimeError as error:  # it is encrypted, or compressed in a way that Python does not know
            raise TableFileError(f"cannot read {path}: {error}") from error


def _read_sqlite(path: str, table: str | None) -> pa.Table:
    import sqlite3

    name = Path(path).absolute().as_posix()
    address = f"file://{'' if name.startswith('/') else '/'}{quote(name)}?mode=ro"  # of a share, four strokes
    try:
        with closing(sqlite3.connect(address, uri=True)) as database:
            query = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
            tables = [name for (name,) in database.execute(query)]
            name = _chosen(path, "table", tables, table)
            quoted = name.replace('"', '""')
            rows = database.execute(f'select * from "{quoted}"')
            names = [column[0] for column in rows.description]
            columns = list(zip(*rows.fetchall(), strict=True)) or [()] * len(names)
    except sqlite3.Error as error:
        raise TableFileError(f"cannot read {path} as {SQLITE}: {error}") from error
    return pa.Table.from_arrays([_array(column) for column in columns], names=names)


def _read_excel(path: str, sheet: str | None) -> pa.Table:
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise TableFileError(f"{path}: reading Excel files needs openpyxl: pip install openpyxl") from error
    try:
        loaded = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except KeyError as error:  # an archive of something else
        raise TableFileError(f"cannot read {path} as {EXCEL}: {error.args[0]}") from error
    with closing(loaded) as book:
        tables = [sheet.title for sheet in book.worksheets]  # there may be sheets of charts besides
        rows = book[_chosen(path, "sheet", tables, sheet)].iter_rows(values_only=True)
        names = ["" if name is None else str(name) for name in next(rows, ())]
        columns = list(zip(*(row for row in rows if any(cell is not None for cell in row)), strict=True))
    return pa.Table.from_arrays([_array(column) for column in columns or [()] * len(names)], names=names)


def _chosen(path: str, what: str, names: list[str], given: str | None) -> str:
    if not names:
        raise TableFileError(f"{path} has no {what}s")
    if given is not None and given not in names:
        raise TableFileError(f"{path} has no {what} {given!r}; it has {listed(names)}")
    if given is None and len(names) != 1:
        raise TableFileError(f"{path} has {len(names)} {what}s, of which one must be named: {listed(names)}")
    return names[0] if given is None else given


def _array(values: tuple[Any, ...]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, or of numbers beyond 64 bits
        return pa.array([None if value is None else str(value) for value in values])
