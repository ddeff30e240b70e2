"""The matrix of bin codes that trees are grown on, in memory or in memory-mapped files."""

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

from fastens.engine.bins.pages import MappedPages
from fastens.engine.comm import LOCAL, Comm
from fastens.engine.threads import cached_property

_ALIGNMENT = 64
# Minimum number of resident bytes of mapped files; every fit must have room for them.
WINDOW = 1 << 25
# Number of bytes written at a time if the system cannot preallocate files.
_BLOCK = 1 << 24
# Limit on the resident bytes of codes that are read once, row by row.
_READ = 1 << 23
_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


class ArrayAllocator:
    """Storage of arrays in memory, aligned to 64 bytes.

    Attributes
    ----------
    is_file : bool
        True if arrays are pages of memory-mapped files, which the system may evict and read again. Data that changes
        all the time should not be stored there.
    most_held : int
        Maximum number of resident bytes of its files, in addition to the pages that are being read.
    """

    is_file = False
    most_held = WINDOW

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array of zeros.

        Parameters
        ----------
        shape : tuple of int
            Shape of the array.
        dtype : dtype
            Data type of the array.
        """
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = np.zeros(n_bytes + _ALIGNMENT, dtype=np.uint8)
        start = -buffer.__array_interface__["data"][0] % _ALIGNMENT
        return buffer[start : start + n_bytes].view(dtype).reshape(shape)

    def named(self, name: str) -> ArrayAllocator:
        """Return an allocator that stores its next array under this name; arrays in memory have no name."""
        return self

    def pages(self, *arrays: np.ndarray) -> MappedPages | None:
        """Return an object that limits the resident pages of these arrays, or None if they are in memory."""
        return MappedPages(list(arrays), self.most_held) if self.is_file else None


class TemporaryFiles(ArrayAllocator):
    """Storage in unnamed files, which are removed with the arrays, however the process ends.

    Parameters
    ----------
    folder : str or None
        Folder of the files. If None, the system's folder for temporary files is used.
    most_held : int
        Maximum number of resident bytes of the files.

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
        """Return a new array of zeros that is mapped from a file."""
        n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if n_bytes == 0:
            return np.zeros(shape, dtype)
        with _name_full_disk(self.folder, n_bytes), tempfile.TemporaryFile(dir=self.folder) as file:
            set_aside(file, n_bytes)
            return np.asarray(np.memmap(file, dtype, "r+", shape=shape))


class NamedFiles(ArrayAllocator):
    """Storage in NumPy files in a folder.

    Parameters
    ----------
    folder : path
        Folder of the files.
    ending : str
        Suffix of the file names.
    name : str
        Prefix of the next file name.
    """

    is_file = True

    def __init__(self, folder: Path, ending: str, name: str = "") -> None:
        self.folder, self.ending, self.name = folder, ending, name

    def named(self, name: str) -> ArrayAllocator:
        """Return an allocator that stores its next array in a file of this name."""
        return NamedFiles(self.folder, self.ending, name)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array of zeros that is mapped from a new file."""
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with _name_full_disk(str(self.folder), n_bytes), open(self.folder / (self.name + self.ending), "x+b") as file:
            described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, described)
            start = file.tell()
            set_aside(file, n_bytes)
            return np.asarray(np.memmap(file, dtype, "r+", offset=start, shape=shape))


MEMORY = ArrayAllocator()


def allocator_of(X: Any) -> ArrayAllocator:
    """Return the allocator for arrays derived from X: the one of a row source, or otherwise the memory."""
    return getattr(X, "allocator", None) or MEMORY


def pages_held(codes: Any, X: Any) -> MappedPages | None:
    """Return an object that limits the resident pages of `codes`, mapped from files of X's allocator.

    The codes are read once in order. Return None if the allocator of X stores arrays in memory.
    """
    allocator = allocator_of(X)
    return MappedPages([codes], min(_READ, allocator.most_held)) if allocator.is_file else None


def set_aside(file: IO[bytes], n_bytes: int) -> None:
    """Allocate n_bytes bytes of disk space from the file's position on; raise OSError if the disk is full.

    Writing to a mapped page of a full disk would kill the process.
    """
    file.flush()
    start = file.tell()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), start, n_bytes)
        return
    for first in range(0, n_bytes, _BLOCK):
        file.write(bytes(min(_BLOCK, n_bytes - first)))
    file.flush()


@contextmanager
def _name_full_disk(folder: str, n_bytes: int) -> Iterator[None]:
    """Make the OSError of a full disk in this context name the folder and the number of bytes needed."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            rule = f"spill_dir or path must be on a disk with {n_bytes} free bytes"
            raise OSError(error.errno, f"{rule}; got {folder!r}: {error.strerror}") from error
        raise


_PAYLOAD_BYTES = 4
# Maximum bytes of column-major codes that boosting keeps in addition to the row-major codes.
MAX_COLUMNS = 1 << 26


@dataclass(frozen=True, eq=False)
class Bundles:
    """Columns of the records: one per feature, or one per bundle of features, which enumerates combinations of codes.

    Attributes
    ----------
    column_of : int32 array of shape (n_features,)
        Column of each feature.
    n_codes : int32 array of shape (n_columns,)
        Number of codes of each column: the codes of its feature, or the combinations of its bundle.
    members : uint8 array
        For the features in bundles, one after another: for each code, the number of combinations that contain it, and
        these combinations; the most frequent bin has none. The array has at least one byte.
    first_member : int32 array of shape (n_features,)
        Offset of each feature in `members`.
    most_frequent_bin : int32 array of shape (n_features,)
        Code that a feature in a bundle has in most combinations.
    """

    column_of: np.ndarray
    n_codes: np.ndarray
    members: np.ndarray
    first_member: np.ndarray
    most_frequent_bin: np.ndarray

    @cached_property
    def features(self) -> np.ndarray:
        """Features of the first column, then features of the second column, and so on."""
        return np.argsort(self.column_of, kind="stable").astype(np.int32)

    @cached_property
    def first_feature(self) -> np.ndarray:
        """Offset of each column in `features`."""
        return np.append(0, np.cumsum(np.bincount(self.column_of))).astype(np.int32)


def no_bundles(n_codes: np.ndarray) -> Bundles:
    """Return bundles in which each feature has its own column, given the features' numbers of codes."""
    n = len(n_codes)
    none = np.zeros(n, dtype=np.int32)
    codes = np.ascontiguousarray(n_codes, dtype=np.int32)
    return Bundles(np.arange(n, dtype=np.int32), codes, np.zeros(1, np.uint8), none, none)


@dataclass(frozen=True, eq=False)
class BinnedMatrix:
    """Binned rows in column-major order for partitioning and in row-major order for histograms, or only row-major.

    A split reads one code of many rows, and a histogram reads all codes of a row; each layout minimizes the number of
    cache lines. If column-major codes would be too large, `columns` is a view of the records. With splits that read the
    records, a boosted tree takes 1.05 to 1.1 times as long on 100 000 rows of 28 features, and 1.35 to 1.45 times as
    long on a million rows and more (31 leaves, one thread); copies of some columns (`engine/grow/near_columns.py`)
    recover most of this.

    A record contains the codes of a row in the order of the features (or columns of bundles), padding, and, starting at
    `payload_offset`, one or several payloads of four bytes for the histogram kernels. Both arrays are aligned to 64
    bytes. If they are memory-mapped, the payloads, which change with every tree, are in memory, apart from the records;
    `pages` limits the resident pages, and no other array of the size of the rows should be created from them. `comm`
    connects the ranks that share the rows of the table.
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
        """Number of features."""
        return self.columns.shape[0]

    @property
    def codes_per_row(self) -> int:
        """Number of codes of a row that a histogram counts."""
        return len(self.bundles.n_codes)

    @property
    def payloads(self) -> np.ndarray:
        """Bytes of the payloads, one row per record."""
        return self.records[:, self.payload_offset :] if self.payloads_apart is None else self.payloads_apart

    @property
    def has_columns(self) -> bool:
        """True if there are column-major codes in addition to the records."""
        return self.columns.strides[1] == self.columns.itemsize

    def with_own_payloads(self) -> BinnedMatrix:
        """Return a matrix that shares the codes but not the payloads, for another concurrent grower."""
        return replace(self, payloads_apart=_new_payloads(self.n_rows, self.n_payloads))

    def with_payloads(self, n: int) -> BinnedMatrix:
        """Return a matrix with the same codes and space for `n` payloads of four bytes per row."""
        if self.payloads_apart is not None:
            return replace(self, payloads_apart=_new_payloads(self.n_rows, n), n_payloads=n)
        stride = record_stride(self.payload_offset + n * _PAYLOAD_BYTES)
        records = MEMORY.zeros((self.n_rows, stride), self.records.dtype)
        records[:, : self.payload_offset] = self.records[:, : self.payload_offset]
        columns = self.columns if self.has_columns else columns_of(records, self.n_features, self.columns.dtype)
        return replace(self, columns=columns, records=records, n_payloads=n)


def record_stride(n_bytes: int) -> int:
    """Return the distance in bytes between records; records of up to 32 bytes never cross a cache line."""
    return next((size for size in (8, 16, 32) if n_bytes <= size), -(-n_bytes // 16) * 16)


def columns_of(records: np.ndarray, n_features: int, dtype: np.dtype) -> np.ndarray:
    """Return the codes in `records`, a byte array with a row per record, as a view of shape (n_features, n_rows)."""
    return records[:, : n_features * dtype.itemsize].view(dtype).T


def _new_payloads(n_rows: int, n: int) -> np.ndarray:
    """Return an uninitialised byte array of shape (n_rows, 4 * n) for `n` payloads of four bytes per row."""
    return np.empty((n_rows, n * _PAYLOAD_BYTES), dtype=np.uint8)


def make_matrix(
    columns: np.ndarray,
    n_codes: np.ndarray,
    is_categorical: np.ndarray,
    thresholds: list[np.ndarray],
    records: np.ndarray | None = None,
) -> BinnedMatrix:
    """Return a matrix of column-major codes with these records or, if None, with zeroed records to be filled.

    Payloads are in new records, but separate from given ones.
    """
    if records is None:
        (records, payload_offset), apart = empty_records(columns.shape, columns.itemsize), None
    else:
        payload_offset, apart = len(columns) * columns.itemsize, _new_payloads(len(records), 1)
    bundles = no_bundles(n_codes)
    return BinnedMatrix(
        columns, records, payload_offset, n_codes, is_categorical, thresholds, bundles, payloads_apart=apart
    )


def make_records(
    n_rows: int, code_dtype: np.dtype, n_codes: np.ndarray, is_categorical: np.ndarray, thresholds: list[np.ndarray]
) -> BinnedMatrix:
    """Return a matrix without column-major codes: zeroed records to be filled, of which `columns` is a view."""
    records, payload_offset = empty_records((len(n_codes), n_rows), code_dtype.itemsize)
    columns, bundles = columns_of(records, len(n_codes), code_dtype), no_bundles(n_codes)
    return BinnedMatrix(columns, records, payload_offset, n_codes, is_categorical, thresholds, bundles)


def empty_records(shape: tuple[int, ...], code_size: int) -> tuple[np.ndarray, int]:
    """Return zeroed records for codes of shape (n_columns, n_rows), and the payload's byte offset in a record."""
    n_columns, n_rows = shape
    payload_offset = -(-n_columns * code_size // _PAYLOAD_BYTES) * _PAYLOAD_BYTES
    return MEMORY.zeros((n_rows, record_stride(payload_offset + _PAYLOAD_BYTES)), np.uint8), payload_offset
