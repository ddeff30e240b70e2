"""Where large arrays are: in memory, or in files that are mapped into it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from fastens.engine.bins.pages import MappedPages

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
    >>> from fastens.engine.bins.places import TemporaryFiles
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
