"""The matrix of bin codes that trees are grown on, in memory or in mapped files."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from fastens.cached import cached_property
from fastens.engine.bins.pages import MappedPages
from fastens.engine.comm import LOCAL, Comm

_ALIGNMENT = 64
# Bytes of files that are held at the least: a fit has room for so many.
WINDOW = 1 << 25
# What is written at a time where the system cannot set the room of a file aside.
_BLOCK = 1 << 24
# The same of what is read in one go, row by row.
_READ = 1 << 23
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Place:
    """Memory: arrays of zeros that start at a multiple of 64 bytes.

    Attributes
    ----------
    is_file : bool
        Whether arrays are pages of a file, which the system may drop from memory and read again: what changes all the
        time belongs elsewhere.
    most_held : int
        How many bytes of its files a process may hold, besides what it is reading.
    """

    is_file = False
    most_held = WINDOW

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array of zeros.

        Parameters
        ----------
        shape : tuple of int
            Its shape.
        dtype : dtype
            Of its items.
        """
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = np.zeros(n_bytes + _ALIGNMENT, dtype=np.uint8)
        start = -buffer.__array_interface__["data"][0] % _ALIGNMENT
        return buffer[start : start + n_bytes].view(dtype).reshape(shape)

    def named(self, name: str) -> Place:
        """Return the place of the array of this name."""
        return self

    def pages(self, *arrays: np.ndarray) -> MappedPages | None:
        """Return what the process may hold of arrays of this place; None for memory."""
        return MappedPages(list(arrays), self.most_held) if self.is_file else None


class TemporaryFiles(Place):
    """Files without a name in a folder: nothing of them is left when the arrays are gone, however the process ends.

    Parameters
    ----------
    folder : str or None
        Where; None for the system's folder of temporary files.
    most_held : int
        How many bytes of the files the process may hold.

    Examples
    --------
    >>> from fastens.engine.bins.binned import TemporaryFiles
    >>> TemporaryFiles(None).zeros((2, 3), "uint8")[1].tolist()
    [0, 0, 0]
    """

    is_file = True

    def __init__(self, folder: str | None, most_held: int = WINDOW) -> None:
        self.folder = tempfile.gettempdir() if folder is None else folder
        self.most_held = most_held

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array of zeros, the pages of a file."""
        n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if n_bytes == 0:
            return np.zeros(shape, dtype)
        with _full_disk_named(self.folder, n_bytes), tempfile.TemporaryFile(dir=self.folder) as file:
            set_aside(file, n_bytes)
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))


class NamedFiles(Place):
    """NumPy files in a folder.

    Parameters
    ----------
    folder : path
        Where.
    ending : str
        The end of their names.
    name : str
        The beginning of the name of the next.
    """

    is_file = True

    def __init__(self, folder: Path, ending: str, name: str = "") -> None:
        self.folder, self.ending, self.name = folder, ending, name

    def named(self, name: str) -> Place:
        """Return the place of the array of this name."""
        return NamedFiles(self.folder, self.ending, name)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array of zeros, the pages of a new file."""
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with _full_disk_named(str(self.folder), n_bytes), open(self.folder / (self.name + self.ending), "x+b") as file:
            described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, described)
            start = file.tell()
            set_aside(file, n_bytes)
            return np.asarray(np.memmap(file, dtype, "r+", offset=start, shape=shape))


MEMORY = Place()


def place_of(X: Any) -> Place:
    """Return where what is made of a table goes: memory, unless its row source says otherwise."""
    return getattr(X, "place", None) or MEMORY


def pages_held(codes: Any, X: Any) -> MappedPages | None:
    """Return what the process may hold of the codes of a table that are read in one go; None for those in memory."""
    place = place_of(X)
    return MappedPages([codes], min(_READ, place.most_held)) if place.is_file else None


def set_aside(file: IO[bytes], n_bytes: int) -> None:
    """Make a file so long, with room on the disk for all of it: a page without room would end the process."""
    file.flush()
    start = file.tell()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), start, n_bytes)
        return
    for first in range(0, n_bytes, _BLOCK):
        file.write(bytes(min(_BLOCK, n_bytes - first)))
    file.flush()


@contextmanager
def _full_disk_named(folder: str, n_bytes: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            rule = f"spill_dir or path must be on a disk with room for {n_bytes} more bytes"
            raise OSError(error.errno, f"{rule}; got {folder!r}: {error.strerror}") from error
        raise


_PAYLOAD_BYTES = 4
# Bytes of codes by column that boosting holds besides those by row.
MOST_COLUMNS = 1 << 26


@dataclass(frozen=True, eq=False)
class Bundles:
    """Which columns the records have: one for each feature, or one for several, numbering their combinations of codes.

    Attributes
    ----------
    column_of : int32 array of shape (n_features,)
        The column of a feature.
    n_codes : int32 array of shape (n_columns,)
        How many codes a column has: those of its feature, or the combinations of its bundle.
    members : uint8 array
        Of the features in bundles, one after another: for each code how many combinations have it, and which; none for
        the most frequent bin. There is at least one byte.
    first_member : int32 array of shape (n_features,)
        Where those of each feature begin.
    most_frequent_bin : int32 array of shape (n_features,)
        The code that a feature in a bundle has in most of the combinations.
    """

    column_of: np.ndarray
    n_codes: np.ndarray
    members: np.ndarray
    first_member: np.ndarray
    most_frequent_bin: np.ndarray

    @cached_property
    def features(self) -> np.ndarray:
        """The features of the first column, of the next, and so on."""
        return np.argsort(self.column_of, kind="stable").astype(np.int32)

    @cached_property
    def first_feature(self) -> np.ndarray:
        """Where the features of each column begin."""
        return np.append(0, np.cumsum(np.bincount(self.column_of))).astype(np.int32)


def no_bundles(n_codes: np.ndarray) -> Bundles:
    """Return that each feature has a column for itself."""
    n = len(n_codes)
    none = np.zeros(n, dtype=np.int32)
    codes = np.ascontiguousarray(n_codes, dtype=np.int32)
    return Bundles(np.arange(n, dtype=np.int32), codes, np.zeros(1, np.uint8), none, none)


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """Binned rows, twice: by column for partitioning, by row for histograms; or only by row.

    A split reads one code of many rows, a histogram all codes of a row, and each finds them in few cache lines. Where
    the codes by column are too large, `columns` is a view of the records. With splits read from those a boosted tree
    takes 1.05 to 1.1 times as long on 100 000 rows of 28 features, 1.35 to 1.45 times on a million and more (31 leaves,
    one thread); copies of some columns (`engine/grow/near_columns.py`) win most of it back.

    A record is the codes of a row in the order of the features (or columns of bundles), padding, and at
    `payload_offset` four bytes that belong to the histogram kernels, or so many payloads. Both arrays start at a
    multiple of 64 bytes. Where they are files, the payloads, which every tree changes, are in memory, apart from the
    records; `pages` are what a process may hold of them, and nothing else of the rows' size is to be made of them.
    `comm` are the ranks that the rows of the table are divided among.
    """

    columns: np.ndarray
    records: np.ndarray
    payload_offset: int
    n_codes: np.ndarray
    is_categorical: np.ndarray
    thresholds: list[np.ndarray]
    bundles: Bundles
    n_payloads: int = 1
    payloads_apart: np.ndarray | None = None
    pages: MappedPages | None = None
    comm: Comm = LOCAL

    is_sparse = False

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.columns.shape[1]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.columns.shape[0]

    @property
    def codes_per_row(self) -> int:
        """How many codes a histogram counts in a row."""
        return len(self.bundles.n_codes)

    @property
    def payloads(self) -> np.ndarray:
        """The bytes of the payloads, a row for each record."""
        return self.records[:, self.payload_offset :] if self.payloads_apart is None else self.payloads_apart

    @property
    def has_columns(self) -> bool:
        """Whether there are codes by column besides those of the records."""
        return self.columns.strides[1] == self.columns.itemsize

    def beside(self) -> BinnedMatrix:
        """Return the same rows for another grower at the same time: its payload is apart from the records."""
        return replace(self, payloads_apart=_payloads(self.n_rows, self.n_payloads))

    def with_payloads(self, n: int) -> BinnedMatrix:
        """Return the same rows with room for so many payloads in every record, one after another."""
        if self.payloads_apart is not None:
            return replace(self, payloads_apart=_payloads(self.n_rows, n), n_payloads=n)
        stride = record_stride(self.payload_offset + n * _PAYLOAD_BYTES)
        records = MEMORY.zeros((self.n_rows, stride), self.records.dtype)
        records[:, : self.payload_offset] = self.records[:, : self.payload_offset]
        columns = self.columns if self.has_columns else columns_of(records, self.n_features, self.columns.dtype)
        return replace(self, columns=columns, records=records, n_payloads=n)


def record_stride(n_bytes: int) -> int:
    """Bytes from one record to the next: no record of up to 32 bytes crosses a cache line."""
    return next((size for size in (8, 16, 32) if n_bytes <= size), -(-n_bytes // 16) * 16)


def columns_of(records: np.ndarray, n_features: int, dtype: np.dtype) -> np.ndarray:
    """Return the codes of records, seen as an array of shape (n_features, n_rows)."""
    return records[:, : n_features * dtype.itemsize].view(dtype).T


def _payloads(n_rows: int, n: int) -> np.ndarray:
    return np.empty((n_rows, n * _PAYLOAD_BYTES), dtype=np.uint8)


def make_matrix(
    columns: np.ndarray,
    n_codes: np.ndarray,
    is_categorical: np.ndarray,
    thresholds: list[np.ndarray],
    records: np.ndarray | None = None,
) -> BinnedMatrix:
    """Return a matrix of these codes by column, with room for those by row; or with records that have no payload."""
    if records is None:
        (records, payload_offset), apart = empty_records(columns.shape, columns.itemsize), None
    else:
        payload_offset, apart = len(columns) * columns.itemsize, _payloads(len(records), 1)
    bundles = no_bundles(n_codes)
    return BinnedMatrix(
        columns, records, payload_offset, n_codes, is_categorical, thresholds, bundles, payloads_apart=apart
    )


def make_records(
    n_rows: int, code_dtype: np.dtype, n_codes: np.ndarray, is_categorical: np.ndarray, thresholds: list[np.ndarray]
) -> BinnedMatrix:
    """Return a matrix with room for codes by row alone."""
    records, payload_offset = empty_records((len(n_codes), n_rows), code_dtype.itemsize)
    columns, bundles = columns_of(records, len(n_codes), code_dtype), no_bundles(n_codes)
    return BinnedMatrix(columns, records, payload_offset, n_codes, is_categorical, thresholds, bundles)


def empty_records(shape: tuple[int, ...], code_size: int) -> tuple[np.ndarray, int]:
    """Return records of codes of shape (n_columns, n_rows), to be filled in, and the place of the payload."""
    n_columns, n_rows = shape
    payload_offset = -(-n_columns * code_size // _PAYLOAD_BYTES) * _PAYLOAD_BYTES
    return MEMORY.zeros((n_rows, record_stride(payload_offset + _PAYLOAD_BYTES)), np.uint8), payload_offset
