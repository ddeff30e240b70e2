"""File formats: detection by suffix, opening of compressed and remote files, and readers for non-CSV formats."""

from __future__ import annotations

import bz2
import csv
import datetime
import gzip
import io
import json
import lzma
import os
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.json
import pyarrow.parquet

from fastens.files.numbers import whole_numbers
from fastens.files.schema import TableFileError, listed

_ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S+)\s+(.*)", re.IGNORECASE)
_NUMERIC = ("numeric", "real", "integer")


def rows_of_arff(content: bytes) -> tuple[list[list[Any]], list[str]]:
    """Return the rows of an ARFF file, the first of which holds the column names, and the names of its text columns."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("latin-1")
    lines = iter(line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("%"))
    names: list[str] = []
    texts: list[str] = []
    for line in lines:
        if line.strip().lower() == "@data":
            break
        if (match := _ATTRIBUTE.match(line.strip())) is not None:
            names.append(_unquote(match[1]))
            if not match[2].lower().startswith((*_NUMERIC, "date")):
                texts.append(names[-1])
    if not names:
        raise TableFileError("it has no @attribute")
    data = list(lines)
    if data and data[0].lstrip().startswith("{"):
        return [names, *(_parse_sparse_line(line, names, texts) for line in data)], texts
    quote = "'" if any("'" in line for line in data) else '"'
    rows = csv.reader(data, quotechar=quote, escapechar="\\", skipinitialspace=True)
    return [names, *([cell.strip() for cell in row] for row in rows)], texts


def _unquote(text: str) -> str:
    """Return a text without the quotes around it; a text in quotes also loses its backslashes."""
    return text[1:-1].replace("\\", "") if text[:1] in ("'", '"') else text


def _parse_sparse_line(line: str, names: list[str], texts: list[str]) -> list[Any]:
    """Return the cells of a sparse ARFF line; cells that it does not list are 0, or empty in the columns `texts`."""
    row: list[Any] = ["" if name in texts else 0 for name in names]
    for pair in next(csv.reader([line.strip().strip("{}")], quotechar="'", skipinitialspace=True)):
        index, _, value = pair.strip().partition(" ")
        row[int(index)] = value.strip()
    return row


# Missing-value codes among the numbers of a database or JSON file.
_MISSING = {"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "?", "#N/A"}


def array_of(values: Sequence[Any]) -> pa.Array:
    """Return Python values as an Arrow array, as texts if they have several types or exceed 64 bits.

    Texts such as "NA" among values of another type become missing.
    """
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        is_mixed = not all(isinstance(value, str | None) for value in values)
        if is_mixed and any(isinstance(value, str) and value in _MISSING for value in values):
            return array_of([None if isinstance(value, str) and value in _MISSING else value for value in values])
        return pa.array([None if value is None else str(value) for value in values])


def python_value(cell: pa.Scalar) -> Any:
    """Return the value of a cell, as text if Python cannot represent it: out-of-range times and nanoseconds.

    Examples
    --------
    >>> python_value(pa.scalar(5, pa.int8()))
    5
    >>> python_value(pa.scalar(2**62, pa.duration("s")))
    '4611686018427387904 seconds'
    """
    try:
        return cell.as_py()
    except (OverflowError, ValueError):
        alone = pa.array([cell])
        return alone.to_string() if pa.types.is_nested(cell.type) else str(alone.to_numpy(zero_copy_only=False)[0])


def python_values(cells: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Return a list of the `python_value` of each cell."""
    try:
        return list(cells.to_pylist())
    except (OverflowError, ValueError):
        return [python_value(cell) for cell in cells]


def example_of(column: pa.ChunkedArray) -> Any:
    """Return the first value of a column that is not missing, as `python_value`, or None if all are missing."""
    return next(iter(python_values(column.drop_null().slice(0, 1))), None)


# A line that begins with "null": Arrow dereferences a null pointer if a block begins with it (apache/arrow#47409).
_NULL = re.compile(rb"[\r\n][ \t]*null")
_LONGEST = len(b"null")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_json(open_file: Callable[[], Any]) -> pa.Table:
    """Read a table from a JSON value or from JSON lines; raise ValueError if the file does not hold a table."""
    with open_file() as stream:
        begun = stream.read(1 << 12).removeprefix(_BYTE_ORDER_MARK).lstrip()
    first_line = begun.partition(b"\n")[0].rstrip()
    is_columns = first_line.startswith(b"{") and first_line.endswith(b"}") and b"\n" not in begun.strip()
    if not begun.startswith(b"[") and not is_columns and not (begun.startswith(b"{") and not first_line.endswith(b"}")):
        with open_file() as stream:
            return read_json_lines(stream)
    with open_file() as stream:
        content = stream.read()
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        if begun.startswith(b"["):
            raise
        return read_json_lines(pa.BufferReader(content))  # objects that span several lines
    return _table_of_json(parsed)


def _table_of_json(parsed: Any) -> pa.Table:
    """Return the table of a parsed JSON value: records, rows, an object that holds records, or columns.

    Raises ValueError for arrays of other values, and for columns of different lengths.
    """
    if isinstance(parsed, dict):
        records = [
            value for value in parsed.values() if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        if len(records) == 1:
            parsed = records[0]
        elif parsed and all(isinstance(value, list) for value in parsed.values()):
            return _table_of_columns(parsed)
        elif parsed and all(isinstance(value, dict) for value in parsed.values()):
            rows = list(dict.fromkeys(key for values in parsed.values() for key in values))
            return _table_of_columns({name: [values.get(row) for row in rows] for name, values in parsed.items()})
        else:
            parsed = [parsed]
    if parsed and isinstance(parsed[0], list):  # rows, the first of which holds the names
        parsed = [dict(zip(map(str, parsed[0]), row, strict=False)) for row in parsed[1:]]
    if not all(isinstance(row, dict) for row in parsed):
        raise ValueError("each element of the array must be an object")
    names = list(dict.fromkeys(name for row in parsed for name in row))
    return _table_of_columns({name: [row.get(name) for row in parsed] for name in names})


def _table_of_columns(columns: dict[str, list[Any]]) -> pa.Table:
    """Return a table of columns by name; raise ValueError if they differ in length."""
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError("all columns must have the same number of values")
    return pa.Table.from_arrays([array_of(values) for values in columns.values()], names=list(columns))


def read_json_lines(stream: Any) -> pa.Table:
    """Read a table from a binary stream of JSON lines; raise ValueError if a line is `null`."""
    return pa.json.read_json(_CheckedLines(stream))


class _CheckedLines:
    """Binary stream that raises ValueError if a line is `null`."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._begun: bytes | None = None  # a line end and the beginning of the current line

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes of the stream, or all if negative; raise ValueError if a line is `null`."""
        content: bytes = self._stream.read(size)
        begun = b"\n" + content.removeprefix(_BYTE_ORDER_MARK) if self._begun is None else self._begun + content
        if _NULL.search(begun):
            raise ValueError("each line must be an object; one is null")
        last = begun[max(begun.rfind(b"\n"), begun.rfind(b"\r")) + 1 :].lstrip(b" \t")
        self._begun = b"\n" + last[:_LONGEST]
        return content


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
# Maximum bytes of a text that Arrow stores inside its view.
_INLINE = 12
# Formats that are converted to CSV text first, so that headers, numbers and dates are recognised in the same way.
AS_TEXT = (EXCEL, ARFF)
# Formats with typed columns, in which text columns are text on purpose.
TYPED = (PARQUET, JSON, ARROW, SQLITE, STATISTICS)
# Exceptions that reading a damaged file may raise, depending on its format and compression.
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException)


def format_of(path: str) -> str:
    """Return the format of a table file by its suffix, CSV for standard input; raise TableFileError if unknown."""
    if path == STANDARD_INPUT:
        return CSV
    suffix = table_suffix(path)
    for format_, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return format_
    endings = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
    raise TableFileError(f"cannot infer the format of {path!r}: its name must end in one of {endings}")


@lru_cache(maxsize=1)
def _standard_input(stream: Any) -> bytes:
    """Return all bytes of `stream`, the standard input, cached because it can be read only once."""
    return stream.buffer.read()


def table_suffix(path: str) -> str:
    """Return the suffix of a file name in lower case, without the suffix of its compression.

    For a local zip archive without such a suffix, the suffix of the first file in it is returned.
    """
    name = _path_of(path)
    compressed = name.suffix.lower() in COMPRESSIONS
    suffix = (name.with_suffix("") if compressed else name).suffix.lower()
    if (
        name.suffix.lower() == ".zip"
        and is_local_file(path, compressed=True)
        and suffix not in sum(SUFFIXES.values(), ())
    ):
        suffix = _suffix_in_archive(path)
    return suffix


def _suffix_in_archive(path: str) -> str:
    """Return the suffix of the first file in a zip archive, or ".csv" if it is not the suffix of a table format."""
    try:
        with zipfile.ZipFile(path) as archive:
            suffix = Path(_file_names(archive)[0]).suffix.lower()
    except (OSError, zipfile.BadZipFile, IndexError):
        suffix = ""
    return suffix if suffix in sum(SUFFIXES.values(), ()) else ".csv"


def _path_of(path: str) -> Path:
    """Return a file name as a Path; for a URL, only its path without the host and the query."""
    return Path(urlsplit(path).path if is_remote(path) else path)


def is_local_file(path: str, *, compressed: bool) -> bool:
    """Return True if a path is not a URL and is compressed, by its suffix, or not compressed, as `compressed` says."""
    return not is_remote(path) and (Path(path).suffix.lower() in COMPRESSIONS) == compressed


def is_remote(path: str) -> bool:
    """Return True if a path is a URL such as https:// or s3://."""
    return "://" in path


def fsspec_for(path: str) -> Any:
    """Return the module fsspec, which opens URLs; raise TableFileError if it is not installed."""
    try:
        import fsspec
    except ModuleNotFoundError as error:
        raise _missing_library("fsspec", f"URLs such as {path}", "save it as a file") from error
    return fsspec


def _missing_library(library: str, what: str, alternative: str) -> TableFileError:
    """Return the error that reading `what` needs a library.

    The message tells how to install it, or to do the `alternative`, such as "save it as a file".
    """
    return TableFileError(f"reading {what} needs {library}: run pip install 'fastens[files]', or {alternative}")


def opener(path: str) -> Callable[[], Any]:
    """Return a function that opens the decompressed file from its beginning as a binary stream.

    Raises TableFileError if the file does not exist or the URL cannot be read.
    """
    if path == STANDARD_INPUT:
        content = _standard_input(sys.stdin)
        return lambda: pa.BufferReader(content)
    suffix = _path_of(path).suffix.lower()
    if is_remote(path):
        return _remote_opener(path, suffix)
    if not os.path.exists(path):
        raise TableFileError(f"no such file: {path}")
    if os.path.isdir(path):
        raise TableFileError(f"{path} is a folder, not a table")
    if suffix == ".zip":
        return lambda: _open_only_file(path, path)
    libraries: dict[str, Any] = {".gz": gzip, ".bz2": bz2, ".xz": lzma}
    if suffix in libraries:
        return lambda: libraries[suffix].open(path, "rb")
    return lambda: pa.input_stream(path, compression="detect")


def _remote_opener(path: str, suffix: str) -> Callable[[], Any]:
    """Return a function that opens the decompressed content of a URL, which is downloaded once.

    `suffix` is the last suffix of the URL, which tells its compression. Raises TableFileError if the download fails.
    """
    try:
        with fsspec_for(path).open(path, "rb") as stream:
            content = stream.read()
    except (OSError, ValueError, ImportError) as error:
        raise TableFileError(f"cannot read {path}: {type(error).__name__}: {error}") from error
    if suffix == ".zip":
        return lambda: _open_only_file(path, io.BytesIO(content))
    names = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
    if suffix == ".xz":
        content = lzma.decompress(content)
    return lambda: pa.input_stream(pa.BufferReader(content), compression=names.get(suffix))


def read_typed_file(path: str, format_: str, table: str | None = None, is_named: bool = True) -> pa.Table:
    """Return the table of a Parquet, Arrow, JSON, SQLite or statistics file, checked for damage.

    `table` selects the table of a database; if `is_named` is False, it is only a preference from an earlier file.
    Raises ValueError or errors of Arrow for damaged files.
    """
    loaded = _read_typed(path, format_, table, is_named)
    # A damaged file may hold invalid offsets of texts, which would be read out of bounds, or texts that are not UTF-8.
    loaded.validate(full=True)
    for column in loaded.columns:
        _check_views(column)
    return loaded


def _read_typed(path: str, format_: str, table: str | None, is_named: bool) -> pa.Table:
    """Return the table of a file as `read_typed_file` does, without the checks for damage."""
    is_plain = is_local_file(path, compressed=False)
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
    """Return the decompressed bytes of a file."""
    with opener(path)() as stream:
        return bytes(stream.read())


def read_as_text(path: str, format_: str, sheet: str | None, is_named: bool) -> tuple[bytes, list[str] | None]:
    """Return a workbook or ARFF file as CSV text, and the names of its text columns, None for workbooks.

    `sheet` selects the sheet of a workbook; if `is_named` is False, it is only a preference from an earlier file.
    """
    rows, texts = _rows_of_excel(path, sheet, is_named) if format_ == EXCEL else rows_of_arff(content_of(path))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode(), texts


def _check_views(column: pa.ChunkedArray) -> None:
    """Raise ValueError if string views of a column lie out of bounds, which `validate` does not check.

    A cast also reads the views of missing values.
    """
    if not pa.types.is_string_view(column.type):
        return
    for chunk in filter(len, column.chunks):
        _, views, *texts = chunk.buffers()
        used = slice(chunk.offset, chunk.offset + len(chunk))
        length, _, text, start = np.frombuffer(views, np.int32).reshape(-1, 4)[used].T.astype(np.int64)
        sizes = np.array([buffer.size for buffer in texts] + [0])
        is_far = length > _INLINE
        is_known = (text >= 0) & (text < len(texts)) & (start >= 0)
        held = sizes[np.where(is_known, text, len(texts))]
        if (length < 0).any() or (is_far & ~(is_known & (start + length <= held))).any():
            raise ValueError("a string lies outside of the file")


def _file_names(archive: zipfile.ZipFile) -> list[str]:
    """Return the names of the files in a zip archive, without folders and the metadata of macOS."""
    return [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]


def _open_only_file(path: str, file: Any) -> Any:
    """Return a stream of the only file in `file`, a zip archive that messages call `path`.

    Raises TableFileError unless there is exactly one, or if it is encrypted.
    """
    with zipfile.ZipFile(file) as archive:  # the file stays open until the member is closed
        names = _file_names(archive)
        if len(names) != 1:
            raise TableFileError(f"{path} must hold one file; it holds {len(names)}: {listed(names)}")
        try:
            return archive.open(names[0])
        except RuntimeError as error:  # the member is encrypted or uses an unsupported compression
            raise TableFileError(f"cannot read {path}: {error}") from error


def _read_sqlite(path: str, table: str | None, is_named: bool, content: bytes | None) -> pa.Table:
    """Return a table of the SQLite database at `path`, which is read from `content` if that is not None.

    `table` and `is_named` are as in `read_typed_file`. Raises TableFileError if the table cannot be read.
    """
    import sqlite3

    name = Path(path).absolute().as_posix()
    address = f"file://{'' if name.startswith('/') else '/'}{quote(name)}?mode=ro"  # a network share has four slashes
    try:
        with closing(sqlite3.connect(address if content is None else ":memory:", uri=content is None)) as database:
            if content is not None:
                database.deserialize(content)
            query = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
            tables = [name for (name,) in database.execute(query)]
            name = _choose_name(path, "table", tables, table, is_named)
            quoted = name.replace('"', '""')
            rows = database.execute(f'select * from "{quoted}"')
            names = [column[0] for column in rows.description]
            columns = list(zip(*rows.fetchall(), strict=True)) or [()] * len(names)
    except sqlite3.Error as error:
        raise TableFileError(f"cannot read {path} as {SQLITE}: {error}") from error
    return pa.Table.from_arrays([array_of(column) for column in columns], names=names)


def _rows_of_excel(path: str, sheet: str | None, is_named: bool) -> tuple[list[list[Any]], None]:
    """Return the cells of a workbook sheet as rows of CSV values, and None, because no types are declared.

    `sheet` and `is_named` are as in `read_as_text`. Raises TableFileError if the sheet cannot be read.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ModuleNotFoundError as error:
        raise _missing_library("python-calamine", path, "save the sheet as CSV") from error
    try:
        with closing(CalamineWorkbook.from_filelike(io.BytesIO(content_of(path)))) as book:
            names = [one.name for one in book.sheets_metadata if str(one.typ).endswith("WorkSheet")]
            rows = book.get_sheet_by_name(_choose_name(path, "sheet", names, sheet, is_named)).to_python()
    except PasswordError as error:
        raise TableFileError(f"{path} is encrypted. Save it without a password") from error
    except CalamineError as error:
        raise TableFileError(f"cannot read {path} as {EXCEL}: {error}") from error
    # An empty row becomes an empty line, which is skipped, rather than a row of missing values.
    return [[_csv_value(cell) for cell in row] if any(str(cell).strip() for cell in row) else [] for row in rows], None


def _csv_value(cell: Any) -> Any:
    """Return a cell as a CSV value: integers without fraction, dates without midnight time, durations in seconds."""
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
    """Return the table of a file of SPSS, Stata or SAS, whose bytes are `content`; `path` tells its suffix.

    Columns whose values all have labels become their labels, and missing-value codes become missing. Raises
    TableFileError if the file cannot be read.
    """
    try:
        import pyreadstat
    except ModuleNotFoundError as error:
        raise _missing_library("pyreadstat", path, "save it as CSV or Parquet") from error
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
    # NaN and empty texts stand for missing values.
    plain = {name: [None if v is None or v == "" or v != v else v for v in values] for name, values in columns.items()}  # noqa: PLR0124
    arrays = [_apply_labels(array_of(values), labels.get(name, {})) for name, values in plain.items()]
    return pa.Table.from_arrays(arrays, names=list(columns))


def _apply_labels(values: pa.Array, labels: Mapping[Any, str]) -> pa.Array:
    """Return the labels of the values if all values have one; otherwise the values, as integers if possible."""
    if pa.types.is_floating(values.type) and whole_numbers([values]):
        values = values.cast(pa.int64())
    label_of = {value: str(label) for value, label in labels.items()}
    cells = values.to_pylist()
    if label_of and all(value is None or value in label_of for value in cells):
        return pa.array([None if value is None else label_of[value] for value in cells], pa.string())
    return values


def _choose_name(path: str, what: str, names: list[str], wanted: str | None, is_named: bool) -> str:
    """Return the name of the table or sheet to read, or raise TableFileError; `what` is "table" or "sheet".

    If `is_named` is False, `wanted` is only a preference from an earlier file.
    """
    if not names:
        raise TableFileError(f"{path} has no {what}s")
    if not is_named and wanted not in names and len(names) == 1:
        wanted = None  # the name comes from an earlier file
    if wanted is not None and wanted not in names:
        raise TableFileError(f"{path} has no {what} {wanted!r}; it has {listed(names)}")
    if wanted is None and len(names) != 1:
        raise TableFileError(f"{path} has {len(names)} {what}s. Select one of {listed(names)}")
    return names[0] if wanted is None else wanted
