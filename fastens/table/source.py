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
from fastens.engine.bins.binning import BYTE_BINS
from fastens.engine.bins.row_sketch import default_sample
from fastens.engine.bins.sparse_binned import MOST_STORED
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
# How often there is a value of a batch: three times as Arrow reads it, and as a float; of a frame, as two floats.
_BATCHES = {"files": 4, "frame": 2, "array": 0}
# Bytes for each column of the pages of a Parquet file that are decoded at a time, and of a row there; and what Arrow
# takes besides.
_PAGES = 4 << 20
_PAGE_ROW = 16
_ARROW = 24 << 20
# What threads and allocators take besides, whatever the table.
_BESIDES = 12 << 20
_MOST_GAPS = 32 << 20
# Bytes of a row to validate on: its target and weight, and for each output its raw prediction.
_VALIDATED = 24
_OF_OUTPUT = 16
# Of a sparse table: bytes of a stored code besides itself, by column and by row; of a row, and of a column's bins; and
# of a value while it is coded, with its place.
_STORED = 12
_OF_ROW = 24
_OF_COLUMN = 500
_CODING = 48
# Of a value of a sparse table that is counted: what is made of it, and a place in another order.
_COUNTED = 32
# How often there are rows of the sample for bins: half as many again as needed, of batches once more while some are
# dropped; and bytes of such a row besides its values.
_SAMPLE_COPIES = {"files": 2.6, "frame": 2.6, "array": 1.6}
_SAMPLED = 24
# To sort columns of the sample: bytes of a row for each thread, and the values that are side by side.
_SORTED = 32
_SORTED_VALUES = 1 << 20
# Bytes of a row's target, as it was given, coded and as a number, and of its weight.
_TARGET = 24
WEIGHT = 8
# Of small files, this share is held at the least.
_WINDOWS = 4


class MemoryLimits(NamedTuple):
    """A ceiling for the memory that a fit takes, and where codes go that do not fit."""

    max_memory: int
    spill_dir: str | None = None

    def place(self, needs: MemoryNeeds, owner: str) -> Place:
        """Return where codes go.

        Raises
        ------
        ValueError
            Where the fit takes more than the ceiling even with its codes in files.
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
    """With what allocators lose between blocks that threads take and give back; large blocks leave no gaps."""
    return n_bytes + min(n_bytes // 10, _MOST_GAPS)


class TableShape(NamedTuple):
    """What the memory of a fit depends on, besides parameters."""

    n_rows: int
    n_columns: int
    n_outputs: int = 1  # raw predictions of a row
    n_targets: int = 1
    is_weighted: bool = False
    n_validation: int = 0  # rows of another table to validate on
    n_stored: int | None = None  # values of a sparse table; None: all are stored
    kind: str = "files"  # or "frame" or "array"
    value_bytes: int = 8  # of a value as a float
    # How many categories a column has, or each of them, None for numbers; None: all are numbers.
    n_values: int | Sequence[int | None] | None = None

    def values(self, of_numbers: float) -> NDArray[np.float64]:
        """How many values each column may have, columns of numbers so many."""
        given = self.n_values if isinstance(self.n_values, Sequence) else [self.n_values] * self.n_columns
        return np.array([of_numbers if found is None else found for found in given], dtype=np.float64)

    def stored_codes(self) -> int | None:
        """How many codes are stored; None for those of all values."""
        if self.n_stored is None or self.n_stored > MOST_STORED * self.n_rows * self.n_columns:
            return None
        return self.n_stored


@dataclass(frozen=True)
class MemoryNeeds:
    """The bytes that a fit takes at most, above what the process held before.

    Attributes
    ----------
    codes : int
        The codes of all rows, by column and by row or only by row, where they are in memory.
    disk : int
        The same where they are in files.
    held : int
        What is held for each row besides, while trees grow, and working memory: it is never in files.
    given : int
        Targets and weights, while codes are made.
    learning : int
        The same and a sample of rows, while bins are learned.
    reading : int
        A batch of rows, while bins are learned and codes are made.
    column : int
        The codes of a column, which a split reads in one go.
    kept : int
        What of `held` is the model.

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
        """With the codes in memory."""
        return _with_gaps(max(self.held + self.codes, self.reading + max(self.given + self.codes, self.learning)))

    @property
    def least(self) -> int:
        """With the codes in files, of which the fit holds what it is reading, and some more."""
        in_files = self.column + self.window
        return _with_gaps(max(self.held + in_files, self.reading + max(self.given + in_files, self.learning)))

    @property
    def window(self) -> int:
        """What is held of codes in files at the least."""
        return min(WINDOW, self.disk // _WINDOWS)

    def __str__(self) -> str:
        """A line to read."""
        in_memory, least, disk = map(shown_bytes, (self.in_memory, self.least, self.disk))
        return f"{in_memory} in memory, or {least} and {disk} of disk"


class FitNeeds(NamedTuple):
    """What the fit of a model takes, as far as it does not follow from the size of the table."""

    model: Any
    n_outputs: int = 1  # raw predictions of a row
    n_targets: int = 1
    is_weighted: bool = False
    n_validation: int = 0

    @classmethod
    def of(cls, model: Any, y: NDArray[Any] | None = None, *, weighted: bool, n_validation: int = 0) -> FitNeeds:
        """Return what it takes with these targets, as the model has encoded them."""
        n_targets = 1 if y is None or y.ndim == 1 else y.shape[1]
        classes, quantile = vars(model).get("classes_"), getattr(model, "quantile", None)
        n_outputs = n_targets * (len(classes) if isinstance(classes, np.ndarray) and len(classes) > 2 else 1)
        n_outputs *= len(quantile) if isinstance(quantile, list | tuple) else 1
        return cls(model, n_outputs, n_targets, weighted, n_validation)

    @classmethod
    def of_labels(cls, model: Any, y: Any, *, weighted: bool) -> FitNeeds:
        """Return what it takes with these targets, as they were given."""
        given = np.asarray(y)
        n_targets = given.shape[1] if given.ndim == 2 else 1
        n_classes = len(set(given.ravel().tolist())) if is_classifier(model) else 1
        return cls(model, n_targets * (n_classes if n_classes > 2 else 1), n_targets, weighted)

    def place(self, limits: MemoryLimits, X: Any, categories: Sequence[Any] = ()) -> Place:
        """Return where the codes of a table go, by the categories of its columns as far as they are known.

        ValueError where the fit takes more memory than it may.
        """
        sizes = [None if found is None else len(found) for found in categories]
        needs = self.model._memory_needs(self.shape(X)._replace(n_values=sizes or None))
        return limits.place(needs, type(self.model).__name__)

    def shape(self, X: Any) -> TableShape:
        """Return what is known of a fit on a table."""
        n_rows, n_columns = X.shape
        given = self.n_outputs, self.n_targets, self.is_weighted, self.n_validation
        if issparse(X):
            return TableShape(n_rows, n_columns, *given, X.nnz)
        kind = "frame" if is_frame(X) else getattr(X, "kind", "array")
        return TableShape(n_rows, n_columns, *given, None, kind, getattr(X, "value_bytes", 8))


def bytes_of_codes(shape: TableShape, max_bins: int) -> int:
    """Return the bytes of codes by column and by row."""
    code = 1 if max_bins <= BYTE_BINS else 2
    return shape.n_rows * (shape.n_columns * code + record_stride(shape.n_columns * code + 4))


def needs_of(shape: TableShape, model: Any, held: int, codes: tuple[int, int], kept: int) -> MemoryNeeds:
    """Return what a fit takes, given what it holds besides codes, the codes in memory and in files, and the model."""
    code = 1 if bins_of(model) <= BYTE_BINS else 2
    held += shape.n_validation * (shape.n_columns * code + _VALIDATED + _OF_OUTPUT * shape.n_outputs) + _BESIDES
    held += kept
    if shape.n_stored is None:
        return MemoryNeeds(*codes, held, **bytes_to_read(shape, model), kept=kept)
    in_memory, of_bins = codes[0], _OF_COLUMN * shape.n_columns + _BESIDES
    if (n_codes := shape.stored_codes()) is not None:
        in_memory = n_codes * (_STORED + code) + _OF_ROW * shape.n_rows
    # What is made of the values stays no longer than until they are codes.
    return MemoryNeeds(0, 0, held + in_memory, 0, _CODING * shape.n_stored, of_bins, 0, kept)


def needs_without_files(shape: TableShape, model: Any, held: float, kept: float, learning: float = 0) -> MemoryNeeds:
    """Return what a fit takes of which nothing goes to files.

    Given are what it holds besides its model while rows are read or read already, and what it held to learn bins.
    """
    found, kept = bytes_to_read(shape, model), int(kept)
    if shape.n_stored is not None:
        found["reading"] = _COUNTED * shape.n_stored + _BESIDES
    learning = max(learning, found["given"] + int(held) + kept)
    return MemoryNeeds(0, 0, kept, found["given"], int(learning), found["reading"], 0, kept)


def bins_of(model: Any) -> int:
    """Return the most bins of a column."""
    return getattr(model, "max_bins", None) or BYTE_BINS


def bytes_to_read(shape: TableShape, model: Any) -> dict[str, int]:
    """Return the bytes of targets, of what bins are learned from, and of a batch."""
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
    """Return a number of bytes: a whole number, or a text such as "8GB" (powers of 1000) or "8GiB" (of 1024).

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
    """Return a number of bytes to read, rounded up.

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
    """Return a folder that is there, as text; None for the system's."""
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
    """Refuse numbers of categories that are neither those of all columns nor one for each."""
    each = list(n_values) if isinstance(n_values, list | tuple) else [n_values] * int(n_columns)
    if len(each) != n_columns or not all(map(_COUNT.holds, each)):
        raise ValueError(
            f"n_values must be {_COUNT.text}, or a list of that for each of the {n_columns} columns; got {n_values!r}."
        )


def estimate_memory(
    estimator: Any,
    n_rows: int,
    n_columns: int,
    *,
    n_outputs: int = 1,
    n_targets: int = 1,
    weighted: bool = False,
    **of_table: Any,
) -> MemoryNeeds:
    """Estimate what a fit will take, by the arrays that it holds at the same time; nothing is read.

    Parameters
    ----------
    estimator : estimator
        With its parameters.
    n_rows, n_columns : int
        Of the table, without targets and weights.
    n_outputs : int, default=1
        Raw predictions of a row: the number of classes where it is above two, of targets, of quantiles.
    n_targets : int, default=1
        How many targets there are.
    weighted : bool, default=False
        Whether there are weights.
    **of_table : int or str
        ``n_validation``: rows of another table to validate on; ``n_stored``: how many values a sparse table stores;
        ``kind``: "array", "frame", or by default "files" (and streams); ``value_bytes``: 4 where all columns are of
        float32, by default 8; ``n_values``: how many categories a column has, or a list of that for each of them, None
        for numbers, for models that count them (by default all columns are of numbers).

    Returns
    -------
    MemoryNeeds
        Bytes above what the process holds before: ``in_memory`` with the codes of the rows in memory, ``least`` with
        these in files of ``disk`` bytes. A frame that is not given as a `Source` is besides copied to an array.

    Raises
    ------
    ValueError
        For members of other libraries, whose memory is not known.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, estimate_memory
    >>> needs = estimate_memory(GradientBoostingRegressor(early_stopping=False), 100_000_000, 28)
    >>> needs.disk
    6000000000
    """
    if not hasattr(estimator, "_memory_needs") or isinstance(estimator, type):
        raise ValueError(f"estimator must be one of fastens, whose memory is known; got {estimator!r}.")
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


class Source:
    """A table of any kind to fit on, with a ceiling for the memory that the fit takes.

    A ceiling is no property of a model: a search or a pipeline does not vary it, a model that is saved or cloned does
    not take it along, and one machine has another than the next. So it stands with the table.

    Parameters
    ----------
    table : path, list of paths, stream, lazy frame, function, frame, array or list of texts
        What `fit` takes as X.
    columns : sequence of str, optional
        The columns to read, those of targets and weights among them; default: all.
    max_memory : int or str, optional
        The most bytes that `fit` may take above what the process holds before, such as ``"8GB"``. Codes that do not
        fit go to files; where the rest does not fit either, `fit` raises an error that names the least that would do,
        before it starts. Default: no ceiling.
    spill_dir : path, optional
        The folder of these files, which have no name and vanish with the process, and of the copy of a stream that can
        be read only once; default: the system's folder of temporary files, which may itself be in memory.

    Raises
    ------
    ValueError
        For a list of tables, a ceiling that is no size, a folder that is not there, and columns of a sparse matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens import GradientBoostingRegressor, Source
    >>> X = np.arange(200.0).reshape(100, 2)
    >>> model = GradientBoostingRegressor(n_estimators=3).fit(Source(X, max_memory="200MB"), X[:, 0])
    >>> GradientBoostingRegressor(n_estimators=3).fit(Source(X, max_memory="1MB"), X[:, 0])
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
        """The table's type, and the ceiling."""
        return f"Source({type(self.table).__name__}, max_memory={self.max_memory!r})"

    def opened(self) -> Any:
        """Return the table as a row source, or a sparse matrix, that knows the ceiling."""
        opened: Any
        if sparse.issparse(self.table):
            if self.columns is not None:
                raise ValueError("columns must be None for a sparse matrix, which has no names of columns.")
            opened = copy(self.table)  # of the same arrays
            opened.limits = self._limits
            return opened
        if isinstance(self.table, Batches):
            opened = self.table[:]
        else:
            opened = open_batches(self.table, self._folder) if is_source(self.table) else TableParts(self.table)
        if self.columns is not None:
            if opened.columns:  # an array has none, and says so
                _check_names(self.columns, opened.columns)
            opened = opened.select(map(plain_name, self.columns))
        opened.limits = self._limits
        return opened

    def in_memory(self) -> tuple[Any, MemoryLimits | None]:
        """Return a table that is no source as it is, with only its columns, and the ceiling."""
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
    """Raise ValueError where columns to read are not there, or are named twice."""
    columns = list(map(plain_name, columns))
    for place, name in enumerate(columns):
        if name not in known:
            raise ValueError(f"columns must name columns of X; got {name!r}, and the columns are {known}.")
        if name in columns[:place]:
            raise ValueError(f"columns must name each column once; got {name!r} twice.")


class TableParts(RowSource):
    """Tables in memory that are read in parts, so that nothing is made of all their rows but codes.

    Parameters
    ----------
    *tables : frames or arrays
        With the same columns; the rows of the first come first.

    Attributes
    ----------
    columns : list
        Names of the columns; none for an array.

    Raises
    ------
    ValueError
        For tables with other columns than the first.
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
        """Yield rows, as tables of the same kind; where there are none, a table without rows."""
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
        """Return the table with only these columns, in this order; none of them is copied."""
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
    """Whether an array is a list of texts, of which any may be missing: a table of one column."""
    if values.ndim != 1 or values.dtype.kind not in "OUT":
        return False
    return all(isinstance(value, str) or is_missing(value) for value in values)
