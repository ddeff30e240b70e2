"""A table to fit on, with how much memory that may take: the ceiling belongs to the table, not to the model."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fastens.engine.names import plain_name, plain_names
from fastens.engine.parts import RowSource
from fastens.table.arrays import plain_array
from fastens.table.columns.factorize import is_missing
from fastens.table.columns.vectors import array_of
from fastens.table.frames import is_frame
from fastens.table.memory_limits import MemoryLimits, checked_folder, in_bytes
from fastens.table.sources import BATCH_ROWS, Batches, is_source, open_batches
from fastens.table.spread import in_memory_only


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
