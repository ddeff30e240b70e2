"""Tables that are not in memory: tables that are read in batches, and detection of tables of a cluster."""

from __future__ import annotations

import glob
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial, wraps
from importlib import import_module
from inspect import getattr_static, isfunction, signature
from pathlib import Path
from queue import Queue
from shutil import rmtree
from typing import Any, TypeVar, cast

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from fastens.engine.parts import RowSource, parts_of
from fastens.engine.threads import ThreadPool, limited_threads, thread_limit
from fastens.files.schema import TableSchema
from fastens.table.columns.numbers import plain_column
from fastens.table.tables import is_frame
from fastens.warn import warn

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield the items while another thread produces the next item; at most one item is produced ahead.

    Items must not be None. This helps if producing an item is I/O or releases the GIL most of the time. The thread ends
    after the last item, after an error, and when the iterator is closed.
    """
    rest, limit = iter(items), thread_limit()

    def following() -> T | None:
        with limited_threads(limit):
            return next(rest, None)

    with ThreadPool(1) as thread:
        coming = thread.submit(following)
        while (item := coming.result()) is not None:
            coming = thread.submit(following)
            yield item


class _QueueSource(RowSource):
    """Row source that another thread fills through a queue, and that can be read once."""

    def __init__(self, source: RowSource, parts: Queue[Any]) -> None:
        self.shape, self.dtype = source.shape, source.dtype
        self.queue, self._is_over = parts, False

    def parts(self) -> Iterator[Any]:
        """Yield the remaining parts, waiting for the thread that fills the queue."""
        while not self._is_over:
            part = self.queue.get()
            self._is_over = part is None
            if part is not None:
                yield part


def read_together(source: RowSource, readers: list[Callable[[RowSource], None]]) -> None:
    """Run several functions that each read a table once on a single pass over it, each in its own thread.

    Every function receives a part before any function receives the next one. The first error is raised after all
    functions have ended.
    """
    if len(readers) == 1:
        readers[0](source)
        return
    limit = thread_limit()
    handed = [_QueueSource(source, Queue(1)) for _ in readers]

    def run(reader: Callable[[RowSource], None], rows: _QueueSource) -> None:
        try:
            with limited_threads(limit):
                reader(rows)
        finally:
            for _ in rows.parts():  # drain the queue, so that the reading thread does not block
                pass

    with ThreadPool(len(readers), is_concurrent=True) as threads:
        ended = [threads.submit(run, *pair) for pair in zip(readers, handed, strict=True)]
        try:
            for _, part in parts_of(source):
                for rows in handed:
                    rows.queue.put(part)
        finally:
            for rows in handed:
                rows.queue.put(None)
        for each in ended:
            each.result()


# All of the first rows are hashed, and then every `_STEP`-th row; in wide tables, at most `_MAX_COLUMNS` columns.
_FIRST_ROWS = 1 << 16
_STEP = 16
_MAX_COLUMNS = 64
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


class SameRows:
    """Check that all passes over a table see the same rows, by sums of hashes of each column.

    Each row has its own factor in the sums, so that they depend on the order of the rows but not on the batches.
    """

    def __init__(self) -> None:
        self._passes: dict[str, tuple[int, int]] = {}  # rows and sum of the first whole pass, by column

    def check_pass(self, batches: Iterable[Any], columns: list[str]) -> Iterator[Any]:
        """Yield the batches of a pass; raise ValueError at its end if a column differs from its first pass."""
        chosen = range(0, len(columns), -(-len(columns) // _MAX_COLUMNS) or 1)
        sums, n_rows = dict.fromkeys(chosen, 0), 0
        for batch in batches:
            rows = _hashed_rows(n_rows, batch.num_rows)
            factors = (rows.astype(np.uint64) + np.uint64(n_rows)) * _MIXER | np.uint64(1)
            for index in chosen if len(rows) else ():
                sums[index] += int(np.dot(_hash_values(batch.column(index), rows), factors))
            n_rows += batch.num_rows
            yield batch
        for index, total in sums.items():
            checksum = n_rows, total & _MASK
            first = self._passes.setdefault(columns[index], checksum)
            if first[0] == n_rows and first != checksum:  # a different number of rows raises its own error elsewhere
                raise ValueError(
                    f"X must yield the same rows in every pass; column {columns[index]!r} has other values or "
                    "another order than before."
                )


def _hashed_rows(start: int, n_rows: int) -> NDArray[np.int64]:
    """Return which rows of a batch are hashed, as indices within the batch.

    `start` is the index of the first row of the batch in the table, and `n_rows` the number of rows of the batch.
    """
    n_all = min(max(_FIRST_ROWS - start, 0), n_rows)
    return np.concatenate([np.arange(n_all), np.arange(n_all + -(start + n_all) % _STEP, n_rows, _STEP)])


def _hash_values(column: Any, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the hashes of the values of an Arrow array at these row indices; 0 if Arrow lacks support for its type."""
    import pyarrow as pa

    try:
        taken = column if len(rows) == len(column) else column.take(pa.array(rows))
        # Numbers and times that take whole bytes are hashed by their bits.
        has_bits = pa.types.is_primitive(taken.type) and taken.type.bit_width in (8, 16, 32, 64)
        hashes = _bits_of_numbers(taken) if has_bits else _hash_objects(taken)
    except pa.ArrowNotImplementedError:  # Arrow lacks kernels for some types
        return np.zeros(len(rows), np.uint64)
    if taken.null_count:  # the buffer content of missing values is undefined
        hashes[taken.is_null().to_numpy(zero_copy_only=False)] = _MIXER
    return hashes


def _bits_of_numbers(values: Any) -> NDArray[np.uint64]:
    """Return the bits of each value of an Arrow array of types of 8, 16, 32 or 64 bits as uint64."""
    size = values.type.bit_width // 8
    return np.frombuffer(values.buffers()[1], f"u{size}", len(values), values.offset * size).astype(np.uint64)


def _hash_objects(values: Any) -> NDArray[np.uint64]:
    """Return the hash of each value of an Arrow array of any type, with 0 for NaN."""
    encoded = values if hasattr(values, "dictionary") else values.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    # Python hashes each NaN object differently, so NaN becomes 0.
    hashes = np.array([hash(value) & _MASK if value == value else 0 for value in values] or [0], np.uint64)  # noqa: PLR0124
    return hashes[encoded.indices.fill_null(0).to_numpy()]


# Maximum rows and values of a batch, which is decoded at a time.
BATCH_ROWS = 1 << 17
BATCH_VALUES = 1 << 22
# Row groups with more rows, or more bytes per column, are read page by page, with a buffer of `_READ` bytes.
_GROUP_ROWS = 1 << 18
_GROUP_BYTES = 1 << 21
_READ = 1 << 16
_CSV = re.compile(r"\.(csv|txt)(\.(gz|bz2|zst|lz4))?", re.IGNORECASE)
_PARQUET = re.compile(r"\.(parquet|pq)", re.IGNORECASE)
_INDEX = re.compile(r"__index_level_\d+__")  # index columns that pandas writes next to the columns
_STREAMS = ("RecordBatchReader", "ArrayStream", "CArrayStream")  # classes of pyarrow, arro3, DuckDB and nanoarrow


@dataclass
class Reader:
    """Reader of a table: the schema, a function that yields batches of chosen columns, and the number of rows."""

    schema: Any
    read: Callable[[list[str]], Iterable[Any]]
    n_rows: int | None = None  # None until the rows have been counted
    on_rows: Callable[[int | None], None] | None = None  # called with None when a pass begins, then with batch sizes
    same_rows: SameRows | None = None  # compares passes
    reads_ahead: bool = False  # if True, another thread reads one batch ahead

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield the batches of a new pass over these columns, checked by `same_rows`, and call `on_rows` for each."""
        tell = self.on_rows or (lambda _: None)
        tell(None)
        batches = ahead(self.read(columns)) if self.reads_ahead else self.read(columns)
        for batch in batches if self.same_rows is None else self.same_rows.check_pass(batches, columns):
            yield batch
            tell(batch.num_rows)
        _import_arrow().default_memory_pool().release_unused()  # otherwise Arrow keeps most of the memory


class Batches(RowSource):
    """Table that is read in Arrow batches, with only the selected columns.

    Attributes
    ----------
    columns : list of str
        Names of the selected columns.
    """

    dtype = None
    kind = "files"
    selects_tables = True

    def __init__(self, reader: Reader, columns: list[str] | None = None) -> None:
        self._reader = reader
        names = [name for name in reader.schema.names if not _INDEX.fullmatch(name)]
        self.columns = names if columns is None else columns

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Numbers of rows and columns; the rows of a stream are counted by reading one column."""
        if self._reader.n_rows is None:
            self._reader.n_rows = sum(batch.num_rows for batch in self._reader.read(self.columns[:1]))
        return self._reader.n_rows, len(self.columns)

    @property
    def value_bytes(self) -> int:  # type: ignore[override]
        """Bytes of a value as a float: 4 if all numbers are float32, otherwise 8."""
        types = _import_arrow().types
        kinds = (types.is_float32, types.is_dictionary, types.is_string, types.is_large_string, types.is_boolean)
        fields = map(self._reader.schema.field, self.columns)
        return 4 if all(any(is_kind(field.type) for is_kind in kinds) for field in fields) else 8

    @property
    def on_rows(self) -> Callable[[int | None], None] | None:
        """Callback with None when a pass over the table begins, and with the number of rows after each batch."""
        return self._reader.on_rows

    @on_rows.setter
    def on_rows(self, function: Callable[[int | None], None] | None) -> None:
        """Set the function that is called with None when a pass begins, and with the row count after each batch."""
        self._reader.on_rows = function

    def compared(self) -> Batches:
        """Return this table, which from now on raises ValueError if a pass yields other rows than an earlier pass."""
        self._reader.same_rows = self._reader.same_rows or SameRows()
        return self

    def __getitem__(self, rows: Any) -> Batches:
        """Return a selection of rows: ascending row numbers, a mask or a slice."""
        if isinstance(rows, slice) or np.asarray(rows).dtype.kind == "b":
            rows = np.arange(len(self))[rows]
        chosen = np.asarray(rows, dtype=np.intp)
        read = partial(_iter_selected_rows, self._reader, chosen)
        selected = Batches(Reader(self._reader.schema, read, len(chosen)), self.columns)
        selected.limits = self.limits
        return selected

    def parts(self) -> Iterator[Any]:
        """Yield the rows as Arrow tables of limited size."""
        arrow = _import_arrow()
        n_most = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, len(self.columns))))
        for batch in self._reader.batches(self.columns):
            for first in range(0, batch.num_rows, n_most):
                yield arrow.Table.from_batches([batch.slice(first, n_most)])

    def select(self, columns: Iterable[str]) -> Batches:
        """Return the table with only the named columns, in this order."""
        selected = Batches(self._reader, list(columns))
        selected.limits = self.limits
        return selected

    def typed(self) -> Any:
        """Return an empty Arrow table with the selected columns."""
        schema, has_runs = self._reader.schema, _import_arrow().types.is_run_end_encoded
        kinds = [kind.value_type if has_runs(kind) else kind for kind in schema.types]  # Arrow has no empty run arrays
        return _import_arrow().schema(zip(schema.names, kinds, strict=True)).empty_table().select(self.columns)

    def values_of(self, columns: list[str]) -> list[NDArray[Any]]:
        """Return named columns as NumPy arrays; strings become object arrays that share equal objects."""
        arrow = _import_arrow()
        parts: list[list[Any]] = [[] for _ in columns]
        for batch in self._reader.batches(columns):
            for column_parts, column in zip(parts, batch.columns, strict=True):
                # Arrow cannot unify dictionaries that contain missing values.
                values = plain_column(column)
                values = values.dictionary_decode() if arrow.types.is_dictionary(values.type) else values
                is_text = values.type in (arrow.string(), arrow.large_string(), arrow.string_view())
                column_parts.append(values.dictionary_encode() if is_text else values)
        self._reader.n_rows = sum(map(len, parts[0]))
        return [
            _join_column(column_parts, self._reader.schema.field(name).type)
            for column_parts, name in zip(parts, columns, strict=True)
        ]


def _iter_selected_rows(reader: Reader, rows: NDArray[np.intp], columns: list[str]) -> Iterator[Any]:
    """Yield the batches of a reader with only the rows at these ascending indices of the table, and these columns."""
    start = 0
    for batch in reader.batches(columns):
        first, last = np.searchsorted(rows, [start, start + batch.num_rows])
        if last - first == batch.num_rows:
            yield batch
        elif first < last:
            yield batch.take(_import_arrow().array(rows[first:last] - start))
        start += batch.num_rows


def _join_column(parts: list[Any], arrow_type: Any) -> NDArray[Any]:
    """Return the parts of a column, which are Arrow arrays, as one NumPy array; dictionaries are decoded to objects.

    `arrow_type` is the type of the column, which is used without parts.
    """
    arrow = _import_arrow()
    if not parts or not arrow.types.is_dictionary(parts[0].type):
        return np.asarray(arrow.chunked_array(parts, arrow_type if not parts else parts[0].type).to_numpy())
    column = arrow.chunked_array(parts).unify_dictionaries()
    values = np.array([*column.chunk(0).dictionary.to_pylist(), None], dtype=object)
    return np.concatenate([values[chunk.indices.fill_null(len(values) - 1).to_numpy()] for chunk in column.chunks])


def is_source(X: Any) -> bool:
    """Return True if `open_batches` opens `X`: paths, streams, lazy frames, or a function that returns one of them."""
    if X is None or isinstance(X, np.ndarray):
        return False
    if isinstance(X, str | os.PathLike):
        return True
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(item, str | os.PathLike) and _format_of(item) for item in X)
    X = nw.to_native(X, pass_through=True)
    if is_frame(X) or nw.dependencies.is_into_series(X):
        return False
    return (
        hasattr(X, "__arrow_c_stream__")
        or nw.dependencies.is_polars_lazyframe(X)
        or _is_dataset(X)
        or (callable(X) and not isinstance(X, type) and not hasattr(X, "__array__"))
    )


def is_stream(X: Any) -> bool:
    """Return True if `X` is an Arrow stream, which can be read once: a ``RecordBatchReader`` of any library."""
    return _is_stream_type(type(X)) and hasattr(X, "__arrow_c_stream__")  # type: ignore[arg-type]


@cache
def _is_stream_type(cls: type) -> bool:
    """Return True if a type is an Arrow stream of a supported library."""
    return any(base.__name__ in _STREAMS for base in cls.__mro__)


def open_stream(stream: Any) -> Batches:
    """Return an Arrow stream as a table whose rows can be read only once."""
    opened = _arrow_reader(stream)
    return Batches(Reader(opened.schema, partial(_select_columns, opened)))


def open_batches(source: Any, folder: str | None = None) -> Batches:
    """Return a source (see `is_source`) as a table that is read in batches; open tables are returned unchanged.

    A stream that can be read only once is copied to a temporary file in `folder`. If `folder` is None, the system's
    temporary folder is used.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If files have an unsupported format, or their columns have incompatible types.
    """
    return source if isinstance(source, Batches) else Batches(_make_reader(source, folder))


def _import_arrow() -> Any:
    """Return the module pyarrow with the submodules in use; raise ImportError with advice if it is not installed."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            "Tables in files and Arrow streams need pyarrow, which is not installed: pip install fastens[arrow]"
        ) from error
    return pyarrow


def _arrow_reader(stream: Any) -> Any:
    """Return a stream as a pyarrow RecordBatchReader.

    A pyarrow reader is returned unchanged, because an import through the C interface reduces its errors to text.
    """
    kind = _import_arrow().RecordBatchReader
    return stream if isinstance(stream, kind) else kind.from_stream(stream)


def _is_dataset(X: Any) -> bool:
    """Return True for a pyarrow dataset."""
    return type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "scanner")


def _make_reader(source: Any, folder: str | None = None) -> Reader:
    """Return the Reader of a source: paths, a stream, a lazy frame, a dataset, or a function that returns one.

    A stream is copied to a file in `folder` (see `open_batches`). Raises ValueError for other objects.
    """
    _import_arrow()  # raises ImportError if pyarrow is not installed
    source = nw.to_native(source, pass_through=True)
    if isinstance(source, str | os.PathLike | list | tuple):
        return _files_reader(_paths_of(source))
    if _is_dataset(source):
        return _dataset_reader(source)
    if nw.dependencies.is_polars_lazyframe(source):
        return _lazy_frame_reader(source)
    if is_stream(source):
        return _stream_copy_reader(_arrow_reader(source), folder)
    if hasattr(source, "__arrow_c_stream__"):
        # A stream can be read only once, so each pass opens a new one.
        return Reader(_arrow_reader(source).schema, lambda columns: _select_columns(_arrow_reader(source), columns))
    if callable(source):
        return _function_reader(source)
    raise ValueError(f"X must be a table or a source of one; got {type(source).__name__}.")


def _function_reader(source: Callable[[], Any]) -> Reader:
    """Return a Reader that calls `source` in each pass, which returns a table or a source."""

    def opened() -> Reader:
        table = source()
        return open_stream(table)._reader if is_stream(table) else _make_reader(table)

    return Reader(opened().schema, lambda columns: opened().batches(columns))


def _select_columns(batches: Iterable[Any], columns: list[str]) -> Iterator[Any]:
    """Yield Arrow batches with only the named columns, in this order."""
    for batch in batches:
        yield batch.select(columns)


def _dataset_reader(dataset: Any) -> Reader:
    """Return a Reader of a pyarrow dataset."""
    return Reader(dataset.schema, partial(_iter_row_groups, dataset), dataset.count_rows(), reads_ahead=True)


def _iter_row_groups(dataset: Any, columns: list[str]) -> Iterator[Any]:
    """Yield batches with these columns of a dataset, whose Parquet files are read by row group or by page.

    A dataset scan would read whole files ahead, which uses more memory.
    """
    module = _import_arrow().dataset
    options = module.ParquetFragmentScanOptions(pre_buffer=False, use_buffered_stream=True)
    frugal = {"batch_size": BATCH_ROWS, "batch_readahead": 0}
    try:
        fragments = dataset.get_fragments()
    except ValueError:  # the dataset is filtered
        yield from dataset.to_batches(columns=columns, fragment_readahead=0, **frugal)
        return
    for fragment in fragments:
        with _add_path_to_errors(getattr(fragment, "path", "")):  # fragments of tables in memory have no path
            if isinstance(fragment, module.ParquetFileFragment):
                by_page = set(columns) <= set(fragment.physical_schema.names)  # other columns come from the path
                for part in fragment.split_by_row_group():
                    if by_page and _is_large(part.row_groups[0], part.metadata.num_columns):
                        yield from _iter_pages(part, dataset.schema, columns)
                    else:
                        yield from part.to_batches(dataset.schema, columns, fragment_scan_options=options, **frugal)
            else:
                yield from fragment.to_batches(dataset.schema, columns, **frugal)


def _is_large(group: Any, n_columns: int) -> bool:
    """Return True if a Parquet row group is so large that holding one page of each column uses less memory.

    Two row groups may be loaded at once.
    """
    return group.num_rows > _GROUP_ROWS or group.total_byte_size > _GROUP_BYTES * n_columns


def _iter_pages(part: Any, schema: Any, columns: list[str]) -> Iterator[Any]:
    """Yield batches of `part`, a row group of a Parquet file, cast to `schema`; only one page a column is in memory."""
    arrow = _import_arrow()
    chosen = arrow.schema([schema.field(name) for name in columns])
    with part.open() as opened:
        file = arrow.parquet.ParquetFile(opened, metadata=part.metadata, buffer_size=_READ, pre_buffer=False)
        for batch in file.iter_batches(BATCH_ROWS, [part.row_groups[0].id], columns):
            table = arrow.Table.from_batches([batch]).select(columns)
            yield from table.cast(chosen).to_batches()


@contextmanager
def _add_path_to_errors(path: str) -> Iterator[None]:
    """Return a context that adds `path` to the messages of the OSError and ValueError that are raised in it."""
    try:
        yield
    except (OSError, ValueError) as error:
        if not path or path in str(error):
            raise
        raise OSError(f"cannot read {path}: {error}") from error


def _lazy_frame_reader(frame: Any) -> Reader:
    """Return a Reader of a polars LazyFrame."""
    if not hasattr(frame, "collect_batches"):
        raise ImportError("reading a LazyFrame in batches needs polars 1.34 or newer: pip install 'polars>=1.34'")

    def read(columns: list[str]) -> Iterator[Any]:
        chosen = frame.select(columns)
        for part in chosen.collect_batches(chunk_size=BATCH_ROWS, maintain_order=True, lazy=True):
            yield from part.to_arrow().to_batches()

    return Reader(frame.limit(0).collect().to_arrow().schema, read)


def _stream_copy_reader(stream: Any, directory: str | None) -> Reader:
    """Return a Reader of a stream that can be read only once, which is copied to a temporary file.

    The file is in a new folder within `directory`, or within the system's temporary folder if that is None.
    """
    arrow = _import_arrow()
    folder = tempfile.mkdtemp(prefix="fastens-", dir=directory)
    path = os.path.join(folder, "table.arrow")
    try:
        n_rows = _copy_stream(stream, path, tempfile.gettempdir() if directory is None else directory)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise

    def read(columns: list[str]) -> Iterator[Any]:
        with arrow.memory_map(path) as file:
            yield from _select_columns(arrow.ipc.open_stream(file), columns)

    reader = Reader(stream.schema, read, n_rows)
    weakref.finalize(reader, rmtree, folder, ignore_errors=True)  # a TemporaryDirectory that is not closed would warn
    return reader


def _copy_stream(stream: Any, path: str, folder: str) -> int:
    """Write all batches of a stream to the file `path`, and return the number of rows.

    Raises OSError that names `folder` and the option `spill_dir` if writing fails, for example because the disk is
    full.
    """
    arrow, n_rows, of_stream = _import_arrow(), 0, list[OSError]()

    def batches() -> Iterator[Any]:
        try:
            yield from stream
        except OSError as error:
            of_stream.append(error)
            raise

    try:
        with arrow.OSFile(path, "wb") as file, arrow.ipc.new_stream(file, stream.schema) as writer:
            for batch in batches():
                writer.write_batch(batch)
                n_rows += batch.num_rows
    except OSError as error:
        if error in of_stream:
            raise
        raise OSError(
            f"spill_dir must have space for a copy of X, because X is a stream; got {folder!r}: {error}"
        ) from error
    return n_rows


# Files --------------------------------------------------


def is_file_name(text: str) -> bool:
    """Return True if a text ends in the suffix of a Parquet or CSV file, which may be compressed."""
    return _format_of(text) is not None


def _format_of(path: Any) -> str | None:
    """Return "parquet" or "csv" by the suffix of a path, or None for other suffixes."""
    name = Path(path).name
    kinds = {"parquet": _PARQUET, "csv": _CSV}
    return next((kind for kind, suffix in kinds.items() if suffix.fullmatch("".join(_format_suffixes(name)))), None)


def _format_suffixes(name: str) -> list[str]:
    """Return the suffix of a file name as a list, preceded by the suffix before it if it is a compression suffix."""
    suffixes = Path(name).suffixes
    return suffixes[-2:] if suffixes and suffixes[-1].lower() in (".gz", ".bz2", ".zst", ".lz4") else suffixes[-1:]


def _paths_of(source: Any) -> list[str]:
    """Return the files named by paths, folders and glob patterns; the files of a pattern are sorted by name.

    Raises FileNotFoundError if nothing matches.
    """
    paths = []
    for item in source if isinstance(source, list | tuple) else [source]:
        path = os.fspath(item)
        files = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        if os.path.isdir(path):  # all files, but for those that hold no rows, such as _SUCCESS
            inside = sorted(glob.glob(os.path.join(glob.escape(path), "**", "*"), recursive=True))
            files = [each for each in inside if os.path.isfile(each) and not os.path.basename(each).startswith("_")]
        if not files:
            raise FileNotFoundError(f"X must name existing files or a folder; there is nothing at {path!r}.")
        paths += files
    return paths


def _files_reader(paths: list[str]) -> Reader:
    """Return a Reader of Parquet files or of CSV files; raise ValueError for other formats and for mixtures."""
    formats = set(map(_format_of, paths))
    if formats == {"csv"}:
        return _csv_reader(paths)
    if formats == {"parquet"}:
        return _parquet_reader(paths)
    raise ValueError(f"X must name either Parquet files or CSV files (optionally compressed); got {paths[:5]}.")


def _parquet_reader(paths: list[str]) -> Reader:
    """Return a Reader of Parquet files; raise ValueError if their columns have incompatible types."""
    arrow = _import_arrow()
    dataset = arrow.dataset.dataset(paths, format="parquet", partitioning=None)
    schema = None
    for fragment in dataset.get_fragments():
        physical = fragment.physical_schema
        try:
            schema = (
                physical if schema is None else arrow.unify_schemas([schema, physical], promote_options="permissive")
            )
        except (arrow.ArrowTypeError, arrow.ArrowInvalid) as error:
            raise ValueError(f"X must have columns of the same types in all files; {fragment.path}: {error}") from error
    return _dataset_reader(arrow.dataset.dataset(paths, format="parquet", partitioning=None, schema=schema))


def _csv_reader(paths: list[str]) -> Reader:
    """Return a Reader of CSV files, and issue the notes of their parser as warnings."""
    from fastens.files.csv_streams import CsvStream

    stream = CsvStream(paths, TableSchema())
    for note in stream.notes:
        warn(note)
    return Reader(stream.arrow_schema, stream.batches, stream.n_rows, reads_ahead=True)


# Tables of a cluster --------------------------------------------------

# `fastens.distributed` registers a handler for each kind of cluster. It is imported on the first use of such a table,
# so users of tables in memory never pay for the import.

# Handler of a call of `fit`, `score` or a prediction method, with the method, the model, X and the other arguments.
Handler = Callable[[Callable[..., Any], Any, Any, dict[str, Any]], Any]
_HANDLERS: dict[str, Handler] = {}
# The module that registers the handlers.
_WING = "fastens.distributed.clusters"
# Classes whose methods already reject such tables.
_GUARDED: weakref.WeakSet[type] = weakref.WeakSet()
# Parameters of public methods and functions that take tables.
_TABLES = ("X", "X_val", "X_test", "background", "others", "outcomes", "table", "source")
_REMEDIES = {
    "dask": "Pass {name}.compute(), or a sample of its rows; {name}.map_partitions calls a function for each "
    "partition.",
    "ray": "Pass {name}.to_pandas(), or call it for batches, such as with {name}.map_batches(lambda batch: ..., "
    "batch_format='pyarrow').",
    "references": "Call it for one partition at a time, such as ray.get({name}[0]).",
}


def register_cluster(kind: str, handler: Handler) -> None:
    """Register `handler` for method calls on tables of a kind of cluster, "dask" or "ray" (see `Handler`)."""
    _HANDLERS[kind] = handler


def cluster_of(X: Any) -> str | None:
    """Return the kind of cluster that a table is distributed over, "dask" or "ray", or None for any other table.

    The check does not import anything, because a Dask table can exist only if Dask has been imported.

    Examples
    --------
    >>> from fastens.table.sources import cluster_of
    >>> cluster_of([[1.0], [2.0]]) is None
    True
    """
    kind: Any = type(X)
    if kind is np.ndarray:
        return None
    if issubclass(kind, list | tuple):
        cluster = cluster_of(X[0]) if X else None
        return cluster if cluster and all(cluster_of(part) == cluster for part in X) else None
    if hasattr(kind, "__dask_graph__") or kind.__module__ == "distributed.client":
        return "dask"
    # Ray assigns references to the module "ray" or "ray._raylet", which depends on its version.
    is_reference = kind.__name__ in ("ObjectRef", "ClientObjectRef") and kind.__module__.split(".")[0] == "ray"
    if is_reference or kind.__module__ == "ray.data.dataset":
        return "ray"
    return getattr(kind, "_fastens_cluster", None)


def call_on_cluster(method: Callable[..., Any], model: Any, X: Any, arguments: dict[str, Any]) -> Any:
    """Return the result of a method of `model` for a distributed table X; `arguments` holds all others by name."""
    if not _HANDLERS:
        import_module(_WING)
    return _HANDLERS[cluster_of(X) or ""](method, model, X, arguments)


def refuse(name: str, X: Any, owner: str) -> TypeError:
    """Return the TypeError that the parameter `name` of `owner` must not be X, a table of a cluster, with advice."""
    kind = cluster_of(X) or ""
    is_list = isinstance(X, list | tuple)
    remedy = _REMEDIES["references" if is_list and kind == "ray" else kind].format(name=name)
    got = f"a list of {kind.title()} {type(X[0]).__name__}" if is_list else f"a {kind.title()} {type(X).__name__}"
    return TypeError(f"{name} must be a table in memory for {owner}; got {got}. {remedy}")


def other_arguments(
    method: Callable[..., Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a method call, except X, by name; raise TypeError for missing or unknown names."""
    model._check_names(method, kwargs)
    signature(method).bind(model, *args, **kwargs)  # raises TypeError for missing or repeated arguments
    names = [*signature(method).parameters][1:]
    return {name: value for name, value in (dict(zip(names, args, strict=False)) | kwargs).items() if name != "X"}


def in_memory_only(function: Function) -> Function:
    """Decorate a public function to reject tables of a cluster; return it unchanged if it does not take tables."""
    tables = tables_among([*signature(function).parameters])
    if not tables:
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_in_memory_only(function, tables, args, kwargs)
        return function(*args, **kwargs)

    return cast("Function", call)


def refuse_clusters(cls: type, answered: Collection[str]) -> None:
    """Make all public methods of a class reject tables of a cluster, except the methods named in `answered`."""
    for owner in cls.__mro__:
        if owner in _GUARDED or not owner.__module__.startswith("fastens."):
            continue
        _GUARDED.add(owner)
        for name in [name for name in vars(owner) if not name.startswith("_") and name not in answered]:
            wrap_method(owner, name, in_memory_only)


def wrap_method(owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
    """Replace a method of a class by the result of `wrap` for its function; leave other attributes unchanged."""
    method = getattr_static(owner, name, None)
    function = getattr(method, "fn", method)  # the function inside scikit-learn's `available_if`
    wrapped = wrap(function) if isfunction(function) else function
    if wrapped is not function and function is method:
        setattr(owner, name, wrapped)
    elif wrapped is not function:
        method.fn = wrapped


def tables_among(parameters: list[str]) -> list[tuple[int, str]]:
    """Return (position, name) of each parameter that takes a table, from the names of all parameters."""
    return [(index, name) for index, name in enumerate(parameters) if name in _TABLES]


def check_in_memory_only(
    function: Callable[..., Any], tables: list[tuple[int, str]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise TypeError if one of the arguments of a function that take a table is a table of a cluster.

    `tables` are the positions and names of these arguments, as `tables_among` returns them.
    """
    for index, name in tables:
        table = args[index] if index < len(args) else kwargs.get(name)
        if table is not None and cluster_of(table) is not None:
            method, has_owner = function.__name__, bool(args) and hasattr(args[0], function.__name__)
            kind = "" if not has_owner else args[0].__name__ if isinstance(args[0], type) else type(args[0]).__name__
            raise refuse(name, table, kind if method == "__init__" else f"{kind}.{method}".lstrip("."))
