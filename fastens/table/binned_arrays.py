"""The arrays of a table that is binned once: how they are filled, joined and checked, and the files they are in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.bins.binned import record_stride
from fastens.engine.bins.binning import Binning
from fastens.engine.bins.places import Place
from fastens.engine.parts import MappedRows, RowSource, parts_of
from fastens.engine.rows.gather import hash_rows
from fastens.table.training_data import TrainingData

try:
    import fcntl
except ModuleNotFoundError:  # of Windows
    fcntl = None  # type: ignore[assignment]

# Rows whose codes are compared at a time.
_BLOCK = 1 << 16


class TableArrays(NamedTuple):
    """The arrays of a binned table, in files or in memory."""

    columns: NDArray[np.unsignedinteger]  # (n_features, n_rows)
    records: NDArray[np.uint8]  # (n_rows, stride)
    hashes: NDArray[np.uint64]  # of the values of each row, by which rows are drawn
    y: NDArray[Any] | None
    sample_weight: NDArray[np.float64] | None
    values: NDArray[np.floating] | None  # (n_rows, n_features)

    @classmethod
    def empty(
        cls, binning: Binning, data: TrainingData, kind_of_values: np.dtype | None, *, has_y: bool
    ) -> TableArrays:
        """Return the arrays of no rows, of the types that those of the data will have."""
        n_bytes = binning.n_features * binning.code_dtype.itemsize
        return cls(
            np.zeros((binning.n_features, 0), binning.code_dtype),
            np.zeros((0, record_stride(n_bytes)), np.uint8),
            np.zeros(0, np.uint64),
            data.y[:0] if has_y else None,
            None if data.sample_weight is None else data.sample_weight[:0],
            None if kind_of_values is None else np.zeros((0, binning.n_features), kind_of_values),
        )

    @classmethod
    def mapped(cls, folder: Path, names: dict[str, str]) -> TableArrays:
        """Return the arrays in the files of these names."""
        found: Any = {name: np.asarray(np.load(folder / file, mmap_mode="r")) for name, file in names.items()}
        return cls(*(found.get(name) for name in cls._fields))

    def joined(self, data: TrainingData, binning: Binning, place: Place, n_threads: int) -> TableArrays:
        """Return these arrays with more rows after their own, in a new place."""
        n_old, n_rows = len(self.hashes), len(self.hashes) + len(data.y)
        columns = place.named("columns").zeros((binning.n_features, n_rows), binning.code_dtype)
        records = place.named("records").zeros((n_rows, self.records.shape[1]), np.uint8)
        hashes = place.named("hashes").zeros((n_rows,), np.uint64)
        columns[:, :n_old], records[:n_old], hashes[:n_old] = self.columns, self.records, self.hashes
        values = None
        if self.values is not None:
            kind = np.promote_types(self.values.dtype, _type_of_first(data.X)) if n_old else self.values.dtype
            values = place.named("values").zeros((n_rows, binning.n_features), kind)
            values[:n_old] = self.values

        def noted(start: int, part: NDArray[np.floating]) -> NDArray[np.floating]:
            first, end = n_old + start, n_old + start + len(part)
            hash_rows(part, hashes[first:end], n_threads)
            if values is not None:
                _copy_values(part, values[first:end])
            return part

        rows, pages = MappedRows(data.X, noted, binning.n_features), place.pages(columns, records, hashes)
        binning.fill(rows, columns, records, n_old, n_threads, pages)
        y = _stacked(self.y, data.y, place.named("y"))
        given = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        weight = _stacked(self.sample_weight, given, place.named("sample_weight"))
        return TableArrays(columns, records, hashes, y, weight, values)

    def check(self, binning: Binning, *, has_values: bool, reads_all: bool) -> None:
        """Raise ValueError where arrays do not belong together."""
        columns, records, hashes, y, weight, values = self
        n_features, n_rows = binning.n_features, len(hashes)
        n_bytes = n_features * binning.code_dtype.itemsize
        if columns.dtype != binning.code_dtype or columns.shape != (n_features, n_rows):
            raise ValueError("its codes by column have another shape or type than its bins")
        if records.dtype != np.uint8 or records.shape != (n_rows, record_stride(n_bytes)):
            raise ValueError("its codes by row have another shape or type than its bins")
        if any(each is not None and len(each) != n_rows for each in (y, weight)) or hashes.dtype != np.uint64:
            raise ValueError("its targets, weights or hashes are not those of its rows")
        if (values is not None) != has_values or not _are_values(values, (n_rows, n_features)):
            raise ValueError("its values have another shape or type than its codes")
        for start in range(0, n_rows if reads_all else 0, _BLOCK):
            by_column = columns[:, start : start + _BLOCK]
            by_row = np.ascontiguousarray(records[start : start + _BLOCK, :n_bytes]).view(columns.dtype)
            if not (by_column == by_row.T).all() or (by_column.max(axis=1) >= binning.n_codes).any():
                raise ValueError(f"codes of rows {start} and on are damaged")


def noting_types(X: Any) -> tuple[Any, set[np.dtype]]:
    """Return rows, and the types of their parts, which are known once the rows have been read."""
    if not isinstance(X, RowSource):
        return X, {X.dtype}
    types: set[np.dtype] = set()

    def noted(_: int, part: NDArray[np.floating]) -> NDArray[np.floating]:
        types.add(part.dtype)
        return part

    return MappedRows(X, noted, X.shape[1]), types


def _type_of_first(X: Any) -> np.dtype:
    """The type of the first part of rows."""
    return next((part.dtype for _, part in parts_of(X)), np.dtype(np.float32))


def _copy_values(part: NDArray[np.floating], to: NDArray[np.floating]) -> None:
    if not np.can_cast(part.dtype, to.dtype):
        raise ValueError(
            f"X must have numbers of one type in all its parts to keep them; got {to.dtype} and {part.dtype}."
        )
    to[:] = part


def _are_values(values: Any, shape: tuple[int, int]) -> bool:
    return values is None or (values.dtype in (np.float32, np.float64) and values.shape == shape)


def _stacked(old: Any, new: Any, place: Place) -> Any:
    """Values after others, in a place of their own."""
    if old is None:
        return None
    both = place.zeros((len(old) + len(new), *new.shape[1:]), np.promote_types(old.dtype, new.dtype))
    both[: len(old)], both[len(old) :] = old, new
    return both


# Files --------------------------------------------------

_FILE = re.compile(rf"(?:table|binning|{'|'.join(TableArrays._fields)})-([0-9]+)\.(?:json|np[yz])")


def generations(folder: Path) -> dict[Path, int]:
    """The files of arrays and bins in a folder, and of which of its tables, one after another, each is."""
    found = [(file, _FILE.fullmatch(file.name)) for file in folder.iterdir()]
    return {file: int(name[1]) for file, name in found if name is not None}


def claimed_generation(folder: Path, last: int) -> int:
    """The number of the table after the last one, which nothing else that writes into the folder has."""
    # A process that was killed, or Windows, may have left files of a later table.
    number = 1 + max([last, *generations(folder).values()])
    while True:
        try:
            (folder / f"binning-{number}.npz").touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return number


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Within it, no other process of this system has the folder so, nor another thread; on Windows it is not locked."""
    if fcntl is None:
        yield
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # of file systems without locks
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def remove(files: Iterable[Path]) -> None:
    """Remove files; Windows keeps those that somebody has mapped, until the next time."""
    for file in files:
        with suppress(PermissionError):
            file.unlink(missing_ok=True)
