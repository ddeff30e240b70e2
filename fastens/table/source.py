"""Table sources with a memory limit, and the estimate of a fit's peak memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import issparse
from sklearn.base import is_classifier

from fastens.engine.bins.binned import MEMORY, WINDOW, Place, TemporaryFiles, record_stride
from fastens.engine.bins.binning import BYTE_BINS, MAX_STORED
from fastens.engine.bins.row_sketch import default_sample
from fastens.engine.names import plain_name, plain_names
from fastens.engine.parts import RowSource
from fastens.engine.threads import resolve_n_jobs
from fastens.params.rules import FLAG, NONE, one_of, real
from fastens.table.columns.factorize import is_missing
from fastens.table.columns.numbers import array_of
from fastens.table.sources import BATCH_ROWS, BATCH_VALUES, Batches, is_source, open_batches
from fastens.table.spread import in_memory_only
from fastens.table.tables import is_frame, plain_array

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_UNITS = ("B", "KB", "MB", "GB", "TB")
# Copies of each value of a batch that are in memory at once: three in Arrow's buffers and one as a float for files; two
# floats for frames.
_BATCHES = {"files": 4, "frame": 2, "array": 0}
# Bytes of the Parquet pages that are decoded at a time, per column and per row of a column; and Arrow's fixed overhead.
_PAGES = 4 << 20
_PAGE_ROW = 16
_ARROW = 24 << 20
# Fixed overhead of threads and allocators, which does not depend on the table.
_BESIDES = 12 << 20
_MAX_GAPS = 32 << 20
# Bytes of a validation row: its target and weight, and the raw prediction of each output.
_VALIDATED = 24
_OF_OUTPUT = 16
# Bytes for sparse tables: the overhead of a stored code, by column and by row; a row; the bins of a column; and a value
# with its index while it is coded.
_STORED = 12
_OF_ROW = 24
_OF_COLUMN = 500
_CODING = 48
# Bytes of a value of a sparse table while values are counted: its derived value and its index in another order.
_COUNTED = 32
# Copies of the sample from which bins are learned: 1.5 times the rows that are needed, and once more for tables in
# batches while rows are dropped; and the overhead in bytes of a sampled row.
_SAMPLE_COPIES = {"files": 2.6, "frame": 2.6, "array": 1.6}
_SAMPLED = 24
# Sorting the columns of the sample: bytes per row and thread, and how many values are copied to contiguous columns at a
# time.
_SORTED = 32
_SORTED_VALUES = 1 << 20
# Bytes of a row's target (as passed, encoded and as a number) and of its weight.
_TARGET = 24
WEIGHT = 8
# The minimum resident size of small files is their size divided by this number.
_WINDOWS = 4


class MemoryLimits(NamedTuple):
    """Memory limit of a fit, and the folder for bin codes that exceed it."""

    max_memory: int
    spill_dir: str | None = None

    def place(self, needs: MemoryNeeds, owner: str) -> Place:
        """Return the place of the bin codes: memory or temporary files.

        Raises
        ------
        ValueError
            If the fit would exceed the limit even with its codes in files.
        """
        if needs.in_memory <= self.max_memory:
            return MEMORY
        if needs.least <= self.max_memory:
            return TemporaryFiles(self.spill_dir, self.max_memory - needs.least + needs.window)
        least, in_memory, given = map(shown_bytes, (needs.least, needs.in_memory, self.max_memory))
        if needs.in_memory <= needs.least:
            raise ValueError(f"max_memory must be at least {in_memory} for {owner} on this table; got {given}.")
        raise ValueError(
            f"max_memory must be at least {least} for {owner} on this table, with its codes in files ({in_memory} with "
            f"them in memory); got {given}."
        )


def _with_gaps(n_bytes: int) -> int:
    """Add the fragmentation of blocks that threads allocate and free; large blocks do not fragment."""
    return n_bytes + min(n_bytes // 10, _MAX_GAPS)


class TableShape(NamedTuple):
    """Properties of a table and its targets that determine the memory of a fit, in addition to the parameters."""

    n_rows: int
    n_columns: int
    n_outputs: int = 1  # raw predictions per row
    n_targets: int = 1
    is_weighted: bool = False
    n_validation: int = 0  # rows of the validation set
    n_stored: int | None = None  # stored values of a sparse table; None for a dense table
    kind: str = "files"  # or "frame" or "array"
    value_bytes: int = 8  # bytes of a value as a float
    # The number of categories of every column, or a list with one number per column, which is None for numeric columns.
    # If None, all columns are numeric.
    n_values: int | Sequence[int | None] | None = None

    def values(self, of_numbers: float) -> NDArray[np.float64]:
        """Return the maximum number of distinct values of each column, which is `of_numbers` for numeric columns."""
        given = self.n_values if isinstance(self.n_values, Sequence) else [self.n_values] * self.n_columns
        return np.array([of_numbers if found is None else found for found in given], dtype=np.float64)

    def stored_codes(self) -> int | None:
        """Return the number of stored codes, or None if the codes of all values are stored."""
        if self.n_stored is None or self.n_stored > MAX_STORED * self.n_rows * self.n_columns:
            return None
        return self.n_stored


@dataclass(frozen=True)
class MemoryNeeds:
    """Peak memory of a fit in bytes, in addition to what the process used before.

    Attributes
    ----------
    codes : int
        Bin codes of all rows if they are in memory: by column and by row, or only by row.
    disk : int
        Bin codes of all rows if they are in files.
    held : int
        Other data of the rows and workspace while trees grow, which always stay in memory.
    given : int
        Targets and weights while codes are computed.
    learning : int
        Targets, weights and the sample of rows while bins are learned.
    reading : int
        A batch of rows while bins are learned and codes are computed.
    column : int
        Bin codes of one column, which a split reads in one go.
    kept : int
        The part of `held` that is the model.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, estimate_memory
    >>> needs = estimate_memory(GradientBoostingRegressor(), n_rows=10**8, n_columns=28)
    >>> needs.in_memory > needs.disk
    True
    """

    codes: int
    disk: int
    held: int
    given: int
    learning: int
    reading: int
    column: int
    kept: int = 0

    @property
    def in_memory(self) -> int:
        """Peak memory in bytes with the bin codes in memory."""
        return _with_gaps(max(self.held + self.codes, self.reading + max(self.given + self.codes, self.learning)))

    @property
    def least(self) -> int:
        """Peak memory in bytes with the bin codes in files, of which only the pages in use are resident."""
        in_files = self.column + self.window
        return _with_gaps(max(self.held + in_files, self.reading + max(self.given + in_files, self.learning)))

    @property
    def window(self) -> int:
        """Minimum resident size in bytes of bin codes in files."""
        return min(WINDOW, self.disk // _WINDOWS)

    def __str__(self) -> str:
        """Return a readable one-line summary."""
        in_memory, least, disk = map(shown_bytes, (self.in_memory, self.least, self.disk))
        return f"{in_memory} in memory, or {least} and {disk} of disk"


class FitNeeds(NamedTuple):
    """Properties of a model and its targets that determine the memory of a fit, whatever the size of the table."""

    model: Any
    n_outputs: int = 1  # raw predictions per row
    n_targets: int = 1
    is_weighted: bool = False
    n_validation: int = 0

    @classmethod
    def of(cls, model: Any, y: NDArray[Any] | None = None, *, weighted: bool, n_validation: int = 0) -> FitNeeds:
        """Return the needs of a fit on targets that the model has already encoded."""
        n_targets = 1 if y is None or y.ndim == 1 else y.shape[1]
        classes, quantile = vars(model).get("classes_"), getattr(model, "quantile", None)
        n_outputs = n_targets * (len(classes) if isinstance(classes, np.ndarray) and len(classes) > 2 else 1)
        n_outputs *= len(quantile) if isinstance(quantile, list | tuple) else 1
        return cls(model, n_outputs, n_targets, weighted, n_validation)

    @classmethod
    def of_labels(cls, model: Any, y: Any, *, weighted: bool) -> FitNeeds:
        """Return the needs of a fit on targets as the user passed them."""
        given = np.asarray(y)
        n_targets = given.shape[1] if given.ndim == 2 else 1
        n_classes = len(set(given.ravel().tolist())) if is_classifier(model) else 1
        return cls(model, n_targets * (n_classes if n_classes > 2 else 1), n_targets, weighted)

    def place(self, limits: MemoryLimits, X: Any, categories: Sequence[Any] = ()) -> Place:
        """Return the place of a table's bin codes, given the categories of its columns as far as they are known.

        Parts of dates are further columns. Raises ValueError if the fit would exceed the memory limit.
        """
        sizes = [None if found is None else len(found) for found in categories]
        shape = self.shape(X)
        shape = shape._replace(n_columns=max(shape.n_columns, len(sizes)), n_values=sizes or None)
        needs = self.model._memory_needs(shape)
        return limits.place(needs, type(self.model).__name__)

    def shape(self, X: Any) -> TableShape:
        """Return the shape of a fit on a table."""
        n_rows, n_columns = X.shape
        given = self.n_outputs, self.n_targets, self.is_weighted, self.n_validation
        if issparse(X):
            return TableShape(n_rows, n_columns, *given, X.nnz)
        kind = "frame" if is_frame(X) else getattr(X, "kind", "array")
        return TableShape(n_rows, n_columns, *given, None, kind, getattr(X, "value_bytes", 8))


def bytes_of_codes(shape: TableShape, max_bins: int) -> int:
    """Return the bytes of the bin codes that are stored by column and by row."""
    code = 1 if max_bins <= BYTE_BINS else 2
    return shape.n_rows * (shape.n_columns * code + record_stride(shape.n_columns * code + 4))


def needs_of(shape: TableShape, model: Any, held: int, codes: tuple[int, int], kept: int) -> MemoryNeeds:
    """Return the memory needs of a fit from its parts in bytes.

    `held` is everything but codes and model, `codes` holds the bytes of codes in memory and in files, and `kept` is the
    size of the model.
    """
    code = 1 if bins_of(model) <= BYTE_BINS else 2
    held += shape.n_validation * (shape.n_columns * code + _VALIDATED + _OF_OUTPUT * shape.n_outputs) + _BESIDES
    held += kept
    if shape.n_stored is None:
        return MemoryNeeds(*codes, held, **bytes_to_read(shape, model), kept=kept)
    in_memory, of_bins = codes[0], _OF_COLUMN * shape.n_columns + _BESIDES
    if (n_codes := shape.stored_codes()) is not None:
        in_memory = n_codes * (_STORED + code) + _OF_ROW * shape.n_rows
    # The intermediate arrays of the values are freed as soon as the codes exist.
    return MemoryNeeds(0, 0, held + in_memory, 0, _CODING * shape.n_stored, of_bins, 0, kept)


def needs_without_files(shape: TableShape, model: Any, held: float, kept: float, learning: float = 0) -> MemoryNeeds:
    """Return the memory needs of a fit that stores nothing in files.

    `held` is everything but the model during and after the reading of rows, `kept` is the size of the model, and
    `learning` is the peak while bins are learned.
    """
    found, kept = bytes_to_read(shape, model), int(kept)
    if shape.n_stored is not None:
        found["reading"] = _COUNTED * shape.n_stored + _BESIDES
    learning = max(learning, found["given"] + int(held) + kept)
    return MemoryNeeds(0, 0, kept, found["given"], int(learning), found["reading"], 0, kept)


def bins_of(model: Any) -> int:
    """Return the maximum number of bins of a column."""
    return getattr(model, "max_bins", None) or BYTE_BINS


def bytes_to_read(shape: TableShape, model: Any) -> dict[str, int]:
    """Return the bytes of targets and weights, of the sample that bins are learned from, of a batch and of a column."""
    n_rows, n_columns, size = shape.n_rows, max(1, shape.n_columns), shape.value_bytes
    given = n_rows * (_TARGET * shape.n_targets + WEIGHT * shape.is_weighted)
    sample = default_sample(n_columns, bins_of(model))
    n_held = min(n_rows, sample)
    if n_rows <= sample:
        kept = 0 if shape.kind == "array" else n_rows * n_columns * size
    else:
        kept = int(_SAMPLE_COPIES[shape.kind] * sample * (n_columns * size + _SAMPLED))
    n_threads = min(resolve_n_jobs(getattr(model, "n_jobs", None)), n_columns)
    sorting = _SORTED * n_held * n_threads + size * min(n_held * n_columns, max(_SORTED_VALUES, n_held))
    batch = min(n_rows, BATCH_ROWS, max(1, BATCH_VALUES // n_columns)) * n_columns
    reading = _BATCHES[shape.kind] * size * batch + _BESIDES
    if shape.kind == "files":
        reading += n_columns * min(_PAGES, _PAGE_ROW * n_rows) + _ARROW
    column = n_rows * (1 if bins_of(model) <= BYTE_BINS else 2)
    return {"given": given, "learning": given + kept + sorting, "reading": reading, "column": column}


def in_bytes(value: Any, name: str = "max_memory") -> int:
    """Return a size in bytes from an integer or a string such as "8GB" (powers of 1000) or "8GiB" (powers of 1024).

    Examples
    --------
    >>> from fastens.table.source import in_bytes
    >>> in_bytes("8GB"), in_bytes("1.5 KiB"), in_bytes(100)
    (8000000000, 1536, 100)
    """
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is not None:
        number, unit, binary = found.groups()
        size = int(float(number) * (1024 if binary else 1000) ** _POWER[unit.lower()])
    else:
        size = value if isinstance(value, int) and not isinstance(value, bool) else 0
    if size <= 0:
        raise ValueError(f"{name} must be a number of bytes above 0, such as '8GB' or '500MiB'; got {value!r}.")
    return size


def shown_bytes(n_bytes: int) -> str:
    """Return a number of bytes as readable text, rounded up.

    Examples
    --------
    >>> from fastens.table.source import shown_bytes
    >>> shown_bytes(999), shown_bytes(1_234_567)
    ('999B', '1.24MB')
    """
    power, scale = 0, 1
    while n_bytes >= 1000 * scale and power + 1 < len(_UNITS):
        power, scale = power + 1, scale * 1000
    return f"{-(-n_bytes * 100 // scale) / 100:g}{_UNITS[power]}"


def checked_folder(folder: Any) -> str | None:
    """Return the path of an existing folder as a string, or None for the system's temporary folder."""
    if folder is None:
        return None
    path = os.fspath(folder)
    if not os.path.isdir(path):
        raise ValueError(f"spill_dir must be a folder that exists; got {path!r}.")
    return path


_OF_SHAPES = {
    **dict.fromkeys(("n_rows", "n_columns", "n_outputs", "n_targets"), real(1)),
    "weighted": FLAG,
    "n_validation": real(0),
    "n_stored": real(0) | NONE,
    "kind": one_of("array", "frame", "files"),
    "value_bytes": real(0, open_low=True),
}
_COUNT = real(0) | NONE


def _check_values(n_values: Any, n_columns: int) -> None:
    """Raise ValueError unless `n_values` is one number for all columns or a list with one number per column."""
    each = list(n_values) if isinstance(n_values, list | tuple) else [n_values] * int(n_columns)
    if len(each) != n_columns or not all(map(_COUNT.holds, each)):
        raise ValueError(
            f"n_values must be {_COUNT.text}, or a list of that for each of the {n_columns} columns; got {n_values!r}."
        )


def estimate_memory(
    estimator: Any,
    n_rows: Any,
    n_columns: int | None = None,
    *,
    n_outputs: int = 1,
    n_targets: int = 1,
    weighted: bool = False,
    **of_table: Any,
) -> MemoryNeeds:
    """Estimate the peak memory of a fit without reading any data.

    The estimate adds up the arrays that a fit holds at the same time.

    Parameters
    ----------
    estimator : estimator
        The unfitted fastens estimator, whose parameters determine the estimate.
    n_rows : int or table
        Number of rows, or a table in memory without the columns of targets and weights, whose shape is used.
    n_columns : int, optional
        Number of columns; None for a table.
    n_outputs : int, default=1
        Number of raw predictions per row: the number of classes for multiclass classification, otherwise the number of
        targets or quantiles.
    n_targets : int, default=1
        Number of targets.
    weighted : bool, default=False
        If True, the fit uses sample weights.
    **of_table : int or str
        Further properties of the table:

        - ``n_validation`` is the number of rows of a separate validation set (default 0).
        - ``n_stored`` is the number of stored values of a sparse table. If None, the table is dense.
        - ``kind`` is "array", "frame" or "files", which includes streams (default "files").
        - ``value_bytes`` is 4 if all columns are float32 (default 8).
        - ``n_values`` is the number of categories per column, or a list with one number per column that is None for
          numeric columns. Only models that count categories use it. If None, all columns are numeric.

    Returns
    -------
    MemoryNeeds
        Bytes in addition to what the process already uses: ``in_memory`` with the bin codes in memory, ``least`` with
        the bin codes in files of ``disk`` bytes. A frame that is not passed as a `TableSource` is also copied to an
        array, which the estimate does not include.

    Raises
    ------
    ValueError
        If `estimator` or one of its members comes from another library, because its memory is unknown.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, estimate_memory
    >>> needs = estimate_memory(GradientBoostingRegressor(early_stopping=False), 100_000_000, 28)
    >>> needs.disk
    6000000000
    """
    if not hasattr(estimator, "_memory_needs") or isinstance(estimator, type):
        raise ValueError(f"estimator must be one of fastens, whose memory is known; got {estimator!r}.")
    if n_columns is None:
        if len(getattr(n_rows, "shape", ())) != 2:
            raise ValueError(
                f"n_columns must be given unless n_rows is a table in memory; got {type(n_rows).__name__}."
            )
        stored = {"n_stored": n_rows.nnz} if issparse(n_rows) else {}
        is_array = isinstance(n_rows, np.ndarray) or issparse(n_rows)
        of_table = {"kind": "array" if is_array else "frame", **stored, **of_table}
        n_rows, n_columns = n_rows.shape
    given = {"n_rows": n_rows, "n_columns": n_columns, "n_outputs": n_outputs, "n_targets": n_targets}
    for name, value in {**given, "weighted": weighted, **of_table}.items():
        if name in _OF_SHAPES:
            _OF_SHAPES[name].check(name, value)
    if "n_values" in of_table:
        _check_values(of_table["n_values"], n_columns)
    estimator._check_parameters()
    shape = TableShape(n_rows, n_columns, n_outputs, n_targets, weighted, **of_table)
    needs: MemoryNeeds = estimator._memory_needs(shape)
    return needs


class TableSource:
    """Table to fit on, of any kind, with an optional memory limit.

    The memory limit belongs to the table, not to the model: searches and pipelines do not vary it, saved and cloned
    models do not carry it along, and it differs between machines.

    Parameters
    ----------
    table : path, list of paths, stream, lazy frame, function, frame, array or list of texts
        The table, in any form that `fit` accepts as X.
    columns : sequence of str, optional
        Names of the columns to read, including the columns of targets and weights. If None, all columns are read.
    max_memory : int or str, optional
        Maximum number of bytes that `fit` may use in addition to what the process already uses, such as ``"8GB"``. Bin
        codes that exceed the limit are written to temporary files. If even this is not enough, `fit` raises
        ValueError before it starts and names the smallest limit that suffices. If None, memory is not limited.
    spill_dir : path, optional
        Folder for these files and for the copies of streams that can be read only once. The files of codes have no
        name and disappear when the process ends. If None, the system's temporary folder is used, which may itself be
        in memory.

    Raises
    ------
    ValueError
        If `table` is a list of tables, `max_memory` is not a valid size, `spill_dir` does not exist, or `columns` is
        set for a sparse matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens import GradientBoostingRegressor, TableSource
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = GradientBoostingRegressor(n_estimators=3).fit(TableSource(X, max_memory="200MB"), X[:, 0])
    >>> GradientBoostingRegressor(n_estimators=3).fit(TableSource(X, max_memory="1MB"), X[:, 0])
    Traceback (most recent call last):
        ...
    ValueError: max_memory must be at least ...
    """

    @in_memory_only
    def __init__(
        self,
        table: Any,
        *,
        columns: Sequence[str] | None = None,
        max_memory: int | str | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        if isinstance(table, list | tuple) and table and (is_frame(table[0]) or hasattr(table[0], "schema")):
            raise ValueError("table must be one table, not a list of them: join them first, such as by pandas.concat.")
        self.table = table
        self.columns = None if columns is None else list(columns)
        self.max_memory, self.spill_dir = max_memory, spill_dir
        self._folder = checked_folder(spill_dir)
        self._limits = None if max_memory is None else MemoryLimits(in_bytes(max_memory), self._folder)

    def __repr__(self) -> str:
        """Return the type of the table and the memory limit."""
        return f"TableSource({type(self.table).__name__}, max_memory={self.max_memory!r})"

    def opened(self) -> Any:
        """Return the table as a row source or sparse matrix that carries the memory limit."""
        opened: Any
        if sparse.issparse(self.table):
            if self.columns is not None:
                raise ValueError("columns must be None for a sparse matrix, which has no names of columns.")
            opened = copy(self.table)  # a shallow copy, which shares the arrays
            opened.limits = self._limits
            return opened
        if isinstance(self.table, Batches):
            opened = self.table[:]
        else:
            opened = open_batches(self.table, self._folder) if is_source(self.table) else TableParts(self.table)
        if self.columns is not None:
            if opened.columns:  # arrays have no column names; `select` raises the error
                _check_names(self.columns, opened.columns)
            opened = opened.select(map(plain_name, self.columns))
        opened.limits = self._limits
        return opened

    def in_memory(self) -> tuple[Any, MemoryLimits | None]:
        """Return a table that is already in memory, with only the selected columns, and the memory limit."""
        if self.columns is None:
            is_table = is_frame(self.table) or sparse.issparse(self.table)
            return self.table if is_table else plain_array(self.table), self._limits
        if not is_frame(self.table):
            raise ValueError("columns must be None for a table without names of columns.")
        frame = nw.from_native(self.table, eager_only=True)
        known = plain_names(frame.columns)
        _check_names(self.columns, known)
        return frame[:, [known.index(plain_name(name)) for name in self.columns]].to_native(), self._limits


def _check_names(columns: list[Any], known: list[Any]) -> None:
    """Raise ValueError if a column to read does not exist or is named twice."""
    columns = list(map(plain_name, columns))
    for place, name in enumerate(columns):
        if name not in known:
            raise ValueError(f"columns must name columns of X; got {name!r}, and the columns are {known}.")
        if name in columns[:place]:
            raise ValueError(f"columns must name each column once; got {name!r} twice.")


class TableParts(RowSource):
    """Tables in memory that are read in parts, so that only bin codes are held for all rows at once.

    Parameters
    ----------
    *tables : frames or arrays
        Tables with the same columns. Their rows are concatenated in this order.

    Attributes
    ----------
    columns : list
        Names of the columns; empty for arrays.

    Raises
    ------
    ValueError
        If a table has other columns than the first one.
    """

    def __init__(self, *tables: Any) -> None:
        self._is_frame = is_frame(tables[0])
        self._tables: list[Any] = list(map(self._opened, tables))
        first = self._tables[0]
        self.columns: list[Any] = plain_names(first.columns) if self._is_frame else []
        self._known = self.columns
        self._chosen: list[int] | None = None
        for table in self._tables:
            found = plain_names(table.columns) if self._is_frame else table.shape[1]
            if found != (self.columns or first.shape[1]):
                raise ValueError(f"X must have the same columns in all its parts; got {self.columns} and {found}.")
        self.shape = sum(len(table) for table in self._tables), first.shape[1]
        kinds = {None if self._is_frame else table.dtype for table in self._tables}
        self.dtype = kinds.pop() if kinds in ({np.dtype(np.float32)}, {np.dtype(np.float64)}) else None
        if self.dtype is not None:
            self.kind, self.value_bytes, self.stays = "array", self.dtype.itemsize, True

    def _opened(self, table: Any) -> Any:
        opened: Any = nw.from_native(table, eager_only=True) if self._is_frame else plain_array(table)
        if not self._is_frame and _are_texts(opened):
            opened = opened.astype(object)[:, None]
        if not self._is_frame and opened.ndim != 2:
            raise ValueError(f"X must be a table of two dimensions; got {opened.ndim}.")
        return opened

    def parts(self) -> Iterator[Any]:
        """Yield the rows as tables of the same kind; yield one empty table if there are no rows."""
        for table in self._read() if len(self) else self._tables[:1]:
            for start in range(0, max(len(table), not len(self)), BATCH_ROWS):
                part = table[start : start + BATCH_ROWS]
                if self._chosen is not None:
                    part = part[:, self._chosen]
                yield part.to_native() if self._is_frame else part

    def _read(self) -> Iterator[Any]:
        """Yield the tables one by one."""
        yield from self._tables

    def select(self, columns: Iterable[Any]) -> TableParts:
        """Return the table with only these columns, in this order, without copying them."""
        if not self._is_frame:
            raise ValueError("columns must be None for an array, which has no names of columns.")
        selected = copy(self)
        selected.columns = list(columns)
        selected._chosen = list(map(self._known.index, selected.columns))
        selected.shape = len(self), len(selected.columns)
        return selected

    def values_of(self, columns: list[Any]) -> list[NDArray[Any]]:
        """Return columns as NumPy arrays."""
        places = list(map(self._known.index, columns))
        return [np.concatenate([array_of(table[:, place]) for table in self._tables]) for place in places]


def _are_texts(values: NDArray[Any]) -> bool:
    """Return True if an array is a list of texts, some of them possibly missing, which is a table of one column."""
    if values.ndim != 1 or values.dtype.kind not in "OUT":
        return False
    return all(isinstance(value, str) or is_missing(value) for value in values)
