"""Formats of tables in files, and how their bytes are read."""

from __future__ import annotations

import bz2
import csv
import datetime
import gzip
import io
import lzma
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from fastens.files.arff import rows_of_arff
from fastens.files.errors import TableFileError, listed
from fastens.files.json_tables import read_json
from fastens.files.numbers import whole_numbers
from fastens.files.python_values import array_of

STANDARD_INPUT = "-"
CSV, PARQUET, JSON, ARROW, SQLITE, EXCEL = "CSV", "Parquet", "JSON", "Arrow", "SQLite", "Excel"
ARFF, STATISTICS = "ARFF", "SPSS, Stata or SAS"
SUFFIXES = {
    CSV: (".csv", ".tsv", ".txt", ".data", ".tab"),
    PARQUET: (".parquet", ".pq"),
    JSON: (".jsonl", ".ndjson", ".json"),
    ARROW: (".arrow", ".feather", ".ipc"),
    SQLITE: (".sqlite", ".sqlite3", ".db"),
    EXCEL: (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods"),
    ARFF: (".arff",),
    STATISTICS: (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"),
}
COMPRESSIONS = (".gz", ".bz2", ".zst", ".lz4", ".xz", ".zip")
# Bytes of a text that its view holds.
_INLINE = 12
# What becomes the text of a CSV file first, so that headers, numbers and dates in it are read in the same way.
AS_TEXT = (EXCEL, ARFF)
# What has types of its own: a text is one on purpose.
TYPED = (PARQUET, JSON, ARROW, SQLITE, STATISTICS)
# What reading a damaged file raises, by its format and compression.
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException)


def format_of(path: str) -> str:
    """The format of a table, by the suffix of its file; standard input is CSV."""
    if path == STANDARD_INPUT:
        return CSV
    suffix = table_suffix(path)
    for format_, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return format_
    endings = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
    raise TableFileError(f"cannot tell the format of {path!r}: its name must end in one of {endings}")


@lru_cache(maxsize=1)
def _standard_input(stream: Any) -> bytes:
    """All of standard input, which can be read only once."""
    return stream.buffer.read()


def table_suffix(path: str) -> str:
    """The ending of the name of a table, without that of a compression."""
    name = Path(urlsplit(path).path if is_remote(path) else path)
    compressed = name.suffix.lower() in COMPRESSIONS
    suffix = (name.with_suffix("") if compressed else name).suffix.lower()
    if (
        compressed
        and name.suffix.lower() == ".zip"
        and not is_remote(path)
        and suffix not in sum(SUFFIXES.values(), ())
    ):
        suffix = _suffix_within(path)
    return suffix


def _suffix_within(path: str) -> str:
    """What the file in an archive is, which may be called after what it is about; CSV where that cannot be told."""
    try:
        with zipfile.ZipFile(path) as archive:
            suffix = Path(_members(archive)[0]).suffix.lower()
    except (OSError, zipfile.BadZipFile, IndexError):
        suffix = ""
    return suffix if suffix in sum(SUFFIXES.values(), ()) else ".csv"


def is_remote(path: str) -> bool:
    """Whether a path is an address such as https:// or s3://."""
    return "://" in path


def fsspec_for(path: str) -> Any:
    """The library that opens an address, or an error that says how to install it."""
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise _needs("fsspec", f"addresses such as {path}", "save it as a file") from error
    return fsspec


def _needs(library: str, what: str, otherwise: str) -> TableFileError:
    return TableFileError(f"reading {what} needs {library}: pip install 'fastens[files]', or {otherwise}")


def opener(path: str) -> Callable[[], Any]:
    """A function that opens the file anew, without its compression."""
    if path == STANDARD_INPUT:
        content = _standard_input(sys.stdin)
        return lambda: pa.BufferReader(content)
    suffix = Path(urlsplit(path).path if is_remote(path) else path).suffix.lower()
    if is_remote(path):
        return _remote(path, suffix)
    if not os.path.exists(path):
        raise TableFileError(f"no such file: {path}")
    if os.path.isdir(path):
        raise TableFileError(f"{path} is a folder, not a table")
    if suffix == ".zip":
        return lambda: _only_member(path, path)
    libraries: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
    if suffix in libraries:
        return lambda: libraries[suffix].open(path, "rb")
    return lambda: pa.input_stream(path, compression="detect")


def _remote(path: str, suffix: str) -> Callable[[], Any]:
    """The content of an address, which is fetched once."""
    try:
        with fsspec_for(path).open(path, "rb") as stream:
            content = stream.read()
    except (OSError, ValueError, ImportError) as error:
        raise TableFileError(f"cannot read {path}: {type(error).__name__}: {error}") from error
    if suffix == ".zip":
        return lambda: _only_member(path, io.BytesIO(content))
    names = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
    if suffix == ".xz":
        content = lzma.decompress(content)
    return lambda: pa.input_stream(pa.BufferReader(content), compression=names.get(suffix))


def read_other(path: str, format_: str, table: str | None = None, is_named: bool = True) -> pa.Table:
    """A table in a format that has types of its own. A `table` that is not named now is only a preference."""
    found = _read_other(path, format_, table, is_named)
    # Or places that a damaged file gives for texts are read, wherever they are, and texts that are no UTF-8.
    found.validate(full=True)
    for column in found.columns:
        _check_views(column)
    return found


def _read_other(path: str, format_: str, table: str | None, is_named: bool) -> pa.Table:
    is_plain = not is_remote(path) and Path(path).suffix.lower() not in COMPRESSIONS
    if format_ == PARQUET:
        return pa.parquet.read_table(path if is_plain else pa.BufferReader(content_of(path)), partitioning=None)
    if format_ == ARROW:
        return pa.feather.read_table(path if is_plain else pa.BufferReader(content_of(path)))
    if format_ == JSON:
        return read_json(opener(path))
    if format_ == STATISTICS:
        return _read_statistics(path, content_of(path))
    return _read_sqlite(path, table, is_named, None if is_plain else content_of(path))


def content_of(path: str) -> bytes:
    """The bytes of a file, without its compression."""
    with opener(path)() as stream:
        return bytes(stream.read())


def read_as_text(path: str, format_: str, sheet: str | None, is_named: bool) -> tuple[bytes, list[str] | None]:
    """A workbook or ARFF file as the text of a CSV file, and the columns that hold texts, where the file says so."""
    rows, texts = _rows_of_excel(path, sheet, is_named) if format_ == EXCEL else rows_of_arff(content_of(path))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(), texts


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


def _members(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]


def _only_member(path: str, file: Any) -> Any:
    with zipfile.ZipFile(file) as archive:  # whose file stays open until the member is closed
        members = _members(archive)
        if len(members) != 1:
            raise TableFileError(f"{path} must hold one file; it holds {len(members)}: {listed(members)}")
        try:
            return archive.open(members[0])
        except RuntimeError as error:  # it is encrypted, or compressed in a way that Python does not know
            raise TableFileError(f"cannot read {path}: {error}") from error


def _read_sqlite(path: str, table: str | None, is_named: bool, content: bytes | None) -> pa.Table:
    import sqlite3

    name = Path(path).absolute().as_posix()
    address = f"file://{'' if name.startswith('/') else '/'}{quote(name)}?mode=ro"  # of a share, four strokes
    try:
        with closing(sqlite3.connect(address if content is None else ":memory:", uri=content is None)) as database:
            if content is not None:
                database.deserialize(content)
            query = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
            tables = [name for (name,) in database.execute(query)]
            name = _chosen(path, "table", tables, table, is_named)
            quoted = name.replace('"', '""')
            rows = database.execute(f'select * from "{quoted}"')
            names = [column[0] for column in rows.description]
            columns = list(zip(*rows.fetchall(), strict=True)) or [()] * len(names)
    except sqlite3.Error as error:
        raise TableFileError(f"cannot read {path} as {SQLITE}: {error}") from error
    return pa.Table.from_arrays([array_of(column) for column in columns], names=names)


def _rows_of_excel(path: str, sheet: str | None, is_named: bool) -> tuple[list[list[Any]], None]:
    """The cells of a sheet as the texts of a CSV file."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ModuleNotFoundError as error:
        raise _needs("python-calamine", path, "save the sheet as CSV") from error
    try:
        with closing(CalamineWorkbook.from_filelike(io.BytesIO(content_of(path)))) as book:
            names = [one.name for one in book.sheets_metadata if str(one.typ).endswith("WorkSheet")]
            rows = book.get_sheet_by_name(_chosen(path, "sheet", names, sheet, is_named)).to_python()
    except PasswordError as error:
        raise TableFileError(f"{path} is encrypted: save it without a password") from error
    except CalamineError as error:
        raise TableFileError(f"cannot read {path} as {EXCEL}: {error}") from error
    # An empty row is an empty line, which is left out, and not a row of missing values.
    return [[_text_of(cell) for cell in row] if any(str(cell).strip() for cell in row) else [] for row in rows], None


def _text_of(cell: Any) -> Any:
    """A cell of a sheet as CSV files have it: whole numbers without a fraction, days without an hour."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return int(cell)
    if isinstance(cell, datetime.datetime):
        return cell.date().isoformat() if cell.time() == datetime.time() else cell.isoformat(" ", "seconds")
    if isinstance(cell, datetime.timedelta):
        return cell.total_seconds()
    return cell


def _read_statistics(path: str, content: bytes) -> pa.Table:
    """A file of SPSS, Stata or SAS: numbers whose values all have labels become these; missing codes are missing."""
    try:
        import pyreadstat
    except ModuleNotFoundError as error:
        raise _needs("pyreadstat", path, "save it as CSV or Parquet") from error
    suffix = table_suffix(path)
    name = {".zsav": "sav", ".xpt": "xport"}.get(suffix, suffix[1:])
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "table" + suffix)
        copy.write_bytes(content)
        try:
            columns, facts = getattr(pyreadstat, f"read_{name}")(str(copy), output_format="dict")
        except pyreadstat.ReadstatError as error:
            raise TableFileError(f"cannot read {path} as {STATISTICS}: {error}") from error
    labels = facts.variable_value_labels
    arrays = [_labelled(array_of(_plain_values(values)), labels.get(name, {})) for name, values in columns.items()]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _plain_values(values: Any) -> list[Any]:
    """Values without NaN, and without the empty texts that stand for missing ones."""
    return [None if value is None or value == "" or value != value else value for value in list(values)]  # noqa: PLR0124


def _labelled(values: pa.Array, labels: Mapping[Any, str]) -> pa.Array:
    """The labels of values where all have one; whole numbers as such."""
    if pa.types.is_floating(values.type) and whole_numbers([values]):
        values = values.cast(pa.int64())
    known = {value: str(label) for value, label in labels.items()}
    found = values.to_pylist()
    if known and all(value is None or value in known for value in found):
        return pa.array([None if value is None else known[value] for value in found], pa.string())
    return values


def _chosen(path: str, what: str, names: list[str], given: str | None, is_named: bool) -> str:
    if not names:
        raise TableFileError(f"{path} has no {what}s")
    if not is_named and given not in names and len(names) == 1:
        given = None  # the name of an earlier file's
    if given is not None and given not in names:
        raise TableFileError(f"{path} has no {what} {given!r}; it has {listed(names)}")
    if given is None and len(names) != 1:
        raise TableFileError(f"{path} has {len(names)} {what}s, of which one must be named: {listed(names)}")
    return names[0] if given is None else given
