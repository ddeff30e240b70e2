"""Model file format: arrays and JSON with a checksum, without code."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import pickle
import re
import secrets
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from fastens.params.rules import FLAG

MAGIC = b"\x93FASTENS"
VERSION = 1
PREFIX = struct.Struct("<8sIQ")
CHECKSUM_BYTES = hashlib.sha256().digest_size
HEADER_START = PREFIX.size + CHECKSUM_BYTES
ALIGNMENT = 64
# Booleans, integers, floats and fixed-width strings, which can be read without running code.
DTYPE = re.compile(r"\|[biu]1|<[iu][248]|<f[48]|<U[1-9][0-9]{0,8}")
MAX_DIMENSIONS = 8
# The number of values of an array is at most the larger of these two limits, the first of which is multiplied by the
# size of the file in bytes. If allocating a larger array fails, the file is damaged.
_MAX_PER_BYTE, _MIN_CLAIMED = 64, 1 << 24
MAX_DEPTH = 200  # maximum nesting of lists and objects in the header; each nested estimator adds four levels
_MARKS = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)  # delimiters of lists, objects and strings, and escaped characters
ENDING = 50  # characters of the name that a temporary file keeps: systems allow 255 bytes, up to 4 per character


class ModelFileError(ValueError):
    """Error for a file that this version of fastens cannot read as a model.

    Examples
    --------
    >>> import fastens, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.fastens")
    >>> _ = path.write_text("no model")
    >>> try:
    ...     fastens.load(path)
    ... except fastens.ModelFileError:
    ...     print("no model")
    no model
    """


class Storable(Protocol):
    """Protocol of models that convert to and from arrays and JSON."""

    def _to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the state of the model as arrays by name and as JSON-serialisable values by name."""

    @classmethod
    def _from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Any:
        """Return the model from the values of `_to_state`; raise ValueError if they form no valid model."""


# Pickles --------------------------------------------------

# A composed model may hold estimators of other libraries, which can only be pickled; loading a pickle can run code.
_pickles_allowed: ContextVar[bool] = ContextVar("pickles_allowed", default=False)


@contextmanager
def pickles_allowed(allowed: bool) -> Iterator[None]:
    """Allow or forbid pickling and unpickling parts of a model within the context."""
    FLAG.check("allow_pickle", allowed)
    token = _pickles_allowed.set(bool(allowed))
    try:
        yield
    finally:
        _pickles_allowed.reset(token)


def to_pickle(value: Any, what: str) -> np.ndarray:
    """Return a pickled object as a uint8 array; raise TypeError, which calls it `what`, if pickles are not allowed."""
    if not _pickles_allowed.get():
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(
            f"{what} is a {kind}, which fastens can save only as a pickle. Save with allow_pickle=True if "
            "those who load the file can trust it: loading a pickle can run any code."
        )
    return np.frombuffer(pickle.dumps(value), dtype=np.uint8)


def from_pickle(content: np.ndarray, what: str) -> Any:
    """Return the unpickled object; raise ModelFileError, which calls it `what`, if pickles are not allowed."""
    if not _pickles_allowed.get():
        raise ModelFileError(
            f"{what} is stored as a pickle, and loading a pickle can run any code. Load with allow_pickle=True "
            "if you trust the file."
        )
    return pickle.loads(content.tobytes())


# Models --------------------------------------------------

Find = Callable[[str], type[Storable] | None]
_find: ContextVar[Find] = ContextVar("find", default=lambda name: None)


def class_of_part(name: str) -> Any:
    """Return the class, by name, of a model within the file that is being read; None if files cannot hold it."""
    return _find.get()(name)


def save_model(path: str | os.PathLike[str], model: Storable) -> None:
    """Write a model to a file, with the name of its class.

    Parameters
    ----------
    path : str or path
        File to write. An existing file is replaced atomically.
    model : object with _to_state
        Model to save.
    """
    arrays, meta = model._to_state()
    save(path, type(model).__name__, arrays, meta)


def load_model(path: str | os.PathLike[str], find: Find, wanted: str) -> Any:
    """Return the model that `save_model` has written to a file.

    Parameters
    ----------
    path : str or path
        File to read.
    find : callable
        Function that returns the class with a given name, or None if files cannot hold it.
    wanted : str
        Description of the classes that `find` accepts, for error messages.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a fastens model, or holds a class that `find` does not accept.
    """
    kind, arrays, meta = load(path)
    model_class = find(kind)
    if model_class is None:
        raise ModelFileError(f"{os.fspath(path)} holds a {kind!r}, not one of {wanted}")
    token = _find.set(find)
    try:
        return model_class._from_state(arrays, meta)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except Exception as error:
        if isinstance(error, MemoryError) and not _is_implausible_size(error, os.path.getsize(path)):
            raise
        raise ModelFileError(f"{os.fspath(path)} does not describe a {kind}: {error}") from error
    finally:
        _find.reset(token)


def _is_implausible_size(error: MemoryError, size: int) -> bool:
    """Return True if the array that NumPy could not allocate is too large for a file of `size` bytes."""
    shape = getattr(error, "shape", None)
    return shape is not None and math.prod(shape) > max(_MAX_PER_BYTE * size, _MIN_CLAIMED)


def save(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON-serialisable values to a model file; an existing file is replaced atomically.

    Parameters
    ----------
    path : str or path
        File to write.
    kind : str
        Kind of the content, such as the name of a class.
    arrays : dict of str to array
        Arrays of booleans, integers, floats or strings.
    meta : dict
        JSON-serialisable values.
    """
    plain = {name: _to_little_endian(name, array) for name, array in arrays.items()}
    entries = [{"name": name, "dtype": a.dtype.str, "shape": list(a.shape)} for name, a in plain.items()]
    header = json.dumps({"kind": kind, "meta": dict(meta), "arrays": entries}, separators=(",", ":")).encode()
    body = bytearray(header)
    for array in plain.values():
        body += bytes(-(HEADER_START + len(body)) % ALIGNMENT)
        body += array.tobytes()
    prefix = PREFIX.pack(MAGIC, VERSION, len(header))
    with replacing(path) as unfinished, open(unfinished, "wb") as file:
        file.writelines([prefix, _checksum(prefix, body), body])


def load(path: str | os.PathLike[str]) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
    """Read a file that was written by `save`.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    kind, arrays, meta
        Values that were passed to `save`. The arrays are read-only and share one buffer.

    Raises
    ------
    ModelFileError
        If the file is truncated, damaged, written by another program or by a later version of fastens.
    """
    with open(os.fspath(path), "rb") as file:  # `open` would take an integer as a file descriptor, and close it
        content = memoryview(file.read())
    try:
        header, end = _read_header(content)
        kind, meta, entries = header["kind"], header["meta"], header["arrays"]
        if not isinstance(kind, str) or not isinstance(meta, dict) or not isinstance(entries, list):
            raise ModelFileError("its header is not the header of a model")
        return kind, _read_arrays(content, end, entries), meta
    except ModelFileError as error:
        raise ModelFileError(f"cannot read {os.fspath(path)}: {error}") from None
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise ModelFileError(f"cannot read {os.fspath(path)}: its header is malformed") from error


def _to_little_endian(name: str, array: np.ndarray) -> np.ndarray:
    """Return an array in C order and little-endian; raise TypeError, which names it, if files cannot hold it."""
    array = np.asarray(array)
    little_endian = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    if not DTYPE.fullmatch(little_endian.dtype.str) or array.ndim > MAX_DIMENSIONS:
        raise TypeError(f"array {name!r} must hold booleans, integers, floats or text; got {array.dtype}")
    return little_endian


def _checksum(prefix: bytes | memoryview, body: bytes | bytearray | memoryview) -> bytes:
    """Return the SHA-256 digest of a file's prefix and body."""
    try:
        checksum = hashlib.sha256(prefix)
        checksum.update(body)
        return checksum.digest()
    except ValueError as error:  # OpenSSL reports exhausted memory as ValueError
        raise MemoryError("there is not enough memory for the checksum of the model") from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a temporary file next to `path`, which replaces `path` when the block ends.

    Readers see either the old or the new file, even if this process is killed in between. If an error occurs, the old
    file is unchanged and the temporary file is removed. Pipes and devices are written to directly. Symbolic links are
    preserved.

    Parameters
    ----------
    path : str or path
        File to write.

    Raises
    ------
    FileNotFoundError
        If the folder of the file does not exist.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist", folder)
    if os.path.exists(path) and not os.path.isfile(path):
        yield path
        return
    # The temporary name keeps the suffix of the file, by which writers choose the format.
    unfinished = os.path.join(folder, f".{secrets.token_hex(8)}.{name[-ENDING:]}")
    try:
        yield unfinished
        with open(unfinished, "rb+") as file:
            os.fsync(file.fileno())
        if os.path.exists(path):
            shutil.copymode(path, unfinished)
        os.replace(unfinished, path)
    except BaseException as error:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        if isinstance(error, OSError) and error.filename in (None, unfinished) and error.errno is not None:
            raise OSError(error.errno, error.strerror, path) from error  # shows the path that the caller passed
        raise


def _read_header(content: memoryview) -> tuple[dict[str, Any], int]:
    """Return a file's header and the position of its end; raise ModelFileError if it is damaged or truncated."""
    if len(content) < len(MAGIC) or content[: len(MAGIC)] != MAGIC:
        raise ModelFileError("it is not a fastens model; use fastens.from_model for models of other libraries")
    if len(content) < HEADER_START:
        raise ModelFileError("it is truncated")
    _, version, length = PREFIX.unpack_from(content)
    if version != VERSION:
        raise ModelFileError(f"its format has version {version}, but this version of fastens reads version {VERSION}")
    if _checksum(content[: PREFIX.size], content[HEADER_START:]) != content[PREFIX.size : HEADER_START]:
        raise ModelFileError("it is damaged or truncated (the checksum differs)")
    end = HEADER_START + length
    if end > len(content):
        raise ModelFileError("its header is longer than the file")
    header = parse_json(bytes(content[HEADER_START:end]))
    if not isinstance(header, dict):
        raise ModelFileError("its header is not the header of a model")
    return header, end


def parse_json(content: bytes) -> Any:
    """Return the value of JSON bytes; raise ModelFileError if it is nested more deeply than MAX_DEPTH levels."""
    depth, is_text = 0, False
    for mark in _MARKS.finditer(content):
        if mark[0] == b'"':
            is_text = not is_text
        elif not is_text and len(mark[0]) == 1:
            depth += 1 if mark[0] in b"[{" else -1
            if depth > MAX_DEPTH:
                raise ModelFileError(f"its header is nested deeper than {MAX_DEPTH} levels")
    return json.loads(content.decode())


def _read_arrays(content: memoryview, end: int, entries: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return, by name, the arrays in a file after its header's `end`, listed in `entries`; check their validity."""
    arrays: dict[str, np.ndarray] = {}
    for entry in entries:
        name, dtype, shape = entry["name"], entry["dtype"], entry["shape"]
        if not isinstance(name, str) or name in arrays:
            raise ModelFileError("its arrays do not have unique names")
        if not isinstance(dtype, str) or not DTYPE.fullmatch(dtype):
            raise ModelFileError(f"array {name!r} has a type that is not allowed")
        is_short = isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS
        if not is_short or not all(type(n) is int and 0 <= n <= len(content) for n in shape):
            raise ModelFileError(f"array {name!r} has a malformed shape")
        start = end + -end % ALIGNMENT
        end = start + math.prod(shape) * np.dtype(dtype).itemsize
        if end > len(content):
            raise ModelFileError(f"array {name!r} extends beyond the file")
        arrays[name] = _read_array(name, content[start:end], dtype).reshape(shape)
    if end != len(content):
        raise ModelFileError("it has extra bytes after its last array")
    return arrays


def _read_array(name: str, content: memoryview, dtype: str) -> np.ndarray:
    """Return bytes as a 1-D array without a copy; raise ModelFileError, with the name, for invalid bool or text."""
    array = np.frombuffer(content, dtype=dtype)
    if array.dtype.kind == "b" and np.any(array.view(np.uint8) > 1):
        raise ModelFileError(f"array {name!r} has an invalid boolean")
    if array.dtype.kind == "U" and np.any(np.frombuffer(content, dtype="<u4") > 0x10FFFF):
        raise ModelFileError(f"array {name!r} has an invalid character")
    return array
