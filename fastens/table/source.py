"""Tables with a memory limit, the estimate of a fit's memory, and tables in memory that are read in parts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_classifier

from fastens.engine.bins.binned import MEMORY, WINDOW, ArrayAllocator, TemporaryFiles
from fastens.engine.names import plain_names
from fastens.engine.parts import RowSource, stored_values
from fastens.params.rules import FLAG, NONE, one_of, real
from fastens.table.arrays import plain_array
from fastens.table.columns.factorize import is_missing
from fastens.table.columns.numbers import array_of
from fastens.table.memory import COPIES, ENGINES, FitShape, MemoryNeeds, held_in_addition, needs_of, shown_bytes
from fastens.table.sources import BATCH_ROWS, in_memory_only
from fastens.table.tables import is_frame, table_over

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


class MemoryLimits(NamedTuple):
    """Memory limit of a fit, and the folder for bin codes that exceed it."""

    max_memory: int
    spill_dir: str | None = None

    def allocator(self, needs: MemoryNeeds, owner: str) -> ArrayAllocator:
        """Return the allocator of bin codes for a fit with these needs: in memory, or in temporary files if necessary.

        Raises ValueError, which names `owner`, if both would exceed the limit.
        """
        if needs.in_memory <= self.max_memory:
            return MEMORY
        if needs.in_files <= self.max_memory:
            return TemporaryFiles(self.spill_dir, self.max_memory - needs.in_files + min(WINDOW, needs.disk // 4))
        in_files, in_memory, limit = map(shown_bytes, (needs.in_files, needs.in_memory, self.max_memory))
        codes = f", with the codes in files ({in_memory} with the codes in memory)" if needs.disk else ""
        raise ValueError(f"max_memory must be at least {in_files} for {owner} on this table{codes}; got {limit}.")


def shape_of_fit(model: Any, X: Any, y: Any, n_classes: int, *, weighted: bool, n_validation: int = 0) -> FitShape:
    """Return the sizes of fitting a model on a row source or array `X` with targets `y`, which may be None.

    `n_classes` is 1 for regression, and `n_validation` the number of validation rows.
    """
    n_targets = 1 if y is None or np.ndim(y) == 1 else np.shape(y)[1]
    n_outputs = n_targets * (n_classes if n_classes > 2 else 1)
    (n_rows, n_columns), n_stored = X.shape, stored_values(X)
    kind, size = (X.kind, X.value_bytes) if isinstance(X, RowSource) else ("array", 8)
    return FitShape(n_rows, n_columns, n_outputs, n_targets, weighted, n_validation, n_stored, kind, size)


def within_limit(model: Any, shape: FitShape, X: Any, read: Callable[[Any], Any]) -> Any:
    """Return read(X) for a table X with a memory limit, with the allocator that keeps its bin codes within the limit.

    Rows for base estimators get a limit for each base fit instead. Raises ValueError if the fit would exceed the limit,
    if possible before the table is read.
    """
    limits = X.limits
    limits.allocator(needs_of(model, shape), type(model).__name__)
    rows = read(X)
    if model._base_estimators():
        held, _, n_parallel = held_in_addition(model, shape)
        rows = copy(rows)  # with the limit of the fit of each base estimator
        rows.limits = limits._replace(max_memory=max(1, (limits.max_memory - held) // n_parallel))
    elif isinstance(rows, RowSource):  # which may have more columns, such as parts of dates
        rows.allocator = limits.allocator(
            needs_of(model, shape._replace(n_columns=rows.shape[1])), type(model).__name__
        )
    return rows


def in_bytes(value: Any, name: str = "max_memory") -> int:
    """Return a size in bytes from an integer or a string such as "8GB" (powers of 1000) or "8GiB" (powers of 1024).

    Examples
    --------
    >>> from fastens.table.source import in_bytes
    >>> in_bytes("8GB"), in_bytes("1.5 KiB"), in_bytes(100)
    (8000000000, 1536, 100)
    """
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is not None:
        number, unit, binary = match.groups()
        size = int(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit.lower() or " "))
    else:
        size = value if isinstance(value, int) and not isinstance(value, bool) else 0
    if size <= 0:
        raise ValueError(f"{name} must be a positive number of bytes, such as '8GB' or '500MiB'; got {value!r}.")
    return size


def checked_folder(folder: Any) -> str | None:
    """Return `spill_dir` as a string, or None for None; raise ValueError if it is not an existing folder."""
    if folder is None:
        return None
    path = os.fspath(folder)
    if not os.path.isdir(path):
        raise ValueError(f"spill_dir must be a folder that exists; got {path!r}.")
    return path


_RULES = {
    **dict.fromkeys(("n_rows", "n_columns", "n_outputs", "n_targets"), real(1)),
    "weighted": FLAG,
    "n_validation": real(0),
    "n_stored": real(0) | NONE,
    "kind": one_of(*COPIES),
    "value_bytes": real(0, open_low=True),
}


def estimate_memory(
    estimator: BaseEstimator, n_rows: Any, n_columns: int | None = None, **of_table: Any
) -> MemoryNeeds:
    """Estimate the peak memory of a fit of trees without reading any data.

    For fits that use more than 200 MB, the estimate differs from the peak by less than half of the peak.

    Parameters
    ----------
    estimator : estimator
        The unfitted fastens estimator, which grows trees or has base estimators that do.
    n_rows : int or table
        Number of rows, or an in-memory table without target and weight columns; only its shape is used.
    n_columns : int, optional
        Number of columns; None for a table.
    **of_table : int or str
        ``n_outputs=1``, the number of targets, or classes if there are more than two (parameters of distributions and
        quantiles are counted from the loss); ``n_targets=1``; ``weighted=False``; ``n_validation=0``, the number of
        validation rows; ``n_stored=None``, the number of stored values of a sparse table; ``kind="files"``, which
        includes streams, or "frame" or "array"; ``value_bytes=8``, which is 4 if all columns are float32.

    Returns
    -------
    MemoryNeeds
        Bytes in addition to what the process already uses. A frame that is not passed as a `TableSource` is also copied
        to an array, which the estimate does not include.

    Raises
    ------
    ValueError
        If a property is invalid, if the estimator or a base estimator does not grow trees, or if it grows
        classification trees of unlimited size, because their number of nodes depends on how well the classes separate.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, estimate_memory
    >>> needs = estimate_memory(GradientBoostingRegressor(early_stopping=False), 100_000_000, 28)
    >>> needs.disk
    6000000000
    """
    if n_columns is None:
        if len(getattr(n_rows, "shape", ())) != 2:
            raise ValueError(
                f"n_columns must be passed unless n_rows is a table in memory; got {type(n_rows).__name__}."
            )
        kind = "array" if table_over(n_rows).names is None else "frame"
        of_table = {"kind": kind, "n_stored": stored_values(n_rows), **of_table}
        n_rows, n_columns = n_rows.shape
    shape = FitShape(n_rows, n_columns, **of_table)
    for name, value in shape._asdict().items():
        _RULES[name].check(name, value)
    _check_grows_trees(estimator)
    estimator._check_parameters()
    return needs_of(estimator, shape)


def _check_grows_trees(model: Any) -> None:
    """Raise ValueError unless the memory of an estimator and of its base estimators can be estimated.

    All of them must grow trees, and classification forests must limit the size of their trees.
    """
    is_known = hasattr(model, "_memory_model") and not isinstance(model, type)
    members = model._base_estimators() if is_known else []
    for member in members:
        _check_grows_trees(member)
    if not members and (not is_known or model._holds not in ENGINES):
        raise ValueError(f"estimator must be a tree model of fastens; got {model!r}.")
    params = model._memory_model().get_params(deep=False)
    is_limited = params.get("max_depth") or params.get("max_leaf_nodes")
    if is_classifier(model) and model._memory_model()._holds == "forest" and not is_limited:
        rule = "limit its trees by max_depth or max_leaf_nodes for classification"
        raise ValueError(f"estimator must {rule}; got {model!r}.")


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
        if isinstance(table, list | tuple) and table and (hasattr(table[0], "schema") or hasattr(table[0], "columns")):
            raise ValueError(
                "table must be a single table, not a list of tables. Concatenate them first, for "
                "example with pandas.concat."
            )
        self.table = table
        self.columns = None if columns is None else list(columns)
        self.max_memory, self.spill_dir = max_memory, spill_dir
        self.folder = checked_folder(spill_dir)
        self.limits = None if max_memory is None else MemoryLimits(in_bytes(max_memory), self.folder)

    def __repr__(self) -> str:
        """Return the type of the table and the memory limit."""
        return f"TableSource({type(self.table).__name__}, max_memory={self.max_memory!r})"


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
        self._tables: list[Any] = list(map(self._open_one, tables))
        first = self._tables[0]
        self.columns: list[Any] = plain_names(first.columns) if self._is_frame else []
        self._all_columns = self.columns
        self._chosen: list[int] | None = None
        for table in self._tables:
            columns = plain_names(table.columns) if self._is_frame else table.shape[1]
            if columns != (self.columns or first.shape[1]):
                raise ValueError(f"X must have the same columns in all batches; got {self.columns} and {columns}.")
        self.shape = sum(len(table) for table in self._tables), first.shape[1]
        kinds = {None if self._is_frame else table.dtype for table in self._tables}
        self.dtype = kinds.pop() if kinds in ({np.dtype(np.float32)}, {np.dtype(np.float64)}) else None
        if self.dtype is not None:
            self.kind, self.value_bytes, self.stays = "array", self.dtype.itemsize, True

    def _open_one(self, table: Any) -> Any:
        """Return a frame opened by narwhals, or an array or list of texts as a two-dimensional array."""
        opened: Any = nw.from_native(table, eager_only=True) if self._is_frame else plain_array(table)
        if not self._is_frame and _are_texts(opened):
            opened = opened.astype(object)[:, None]
        if not self._is_frame and opened.ndim != 2:
            raise ValueError(f"X must be a two-dimensional table; got {opened.ndim}.")
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
        """Yield the opened tables one by one; subclasses override this to drop tables after reading."""
        yield from self._tables

    def select(self, columns: Iterable[Any]) -> TableParts:
        """Return the table with only the named columns, in this order, without copying them."""
        if not self._is_frame:
            raise ValueError("columns must be None for an array, because it has no column names.")
        selected = copy(self)
        selected.columns = list(columns)
        selected._chosen = list(map(self._all_columns.index, selected.columns))
        selected.shape = len(self), len(selected.columns)
        return selected

    def values_of(self, columns: list[Any]) -> list[NDArray[Any]]:
        """Return the values of the named columns in all rows as NumPy arrays."""
        indices = list(map(self._all_columns.index, columns))
        return [np.concatenate([array_of(table[:, index]) for table in self._tables]) for index in indices]


def _are_texts(values: NDArray[Any]) -> bool:
    """Return True if an array is a list of texts, some of them possibly missing, which is a table of one column."""
    if values.ndim != 1 or values.dtype.kind not in "OUT":
        return False
    return all(isinstance(value, str) or is_missing(value) for value in values)
