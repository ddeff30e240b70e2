"""The model file: arrays and JSON with checksums, and no code."""

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
# Booleans, integers, floats and fixed-width text: what can be read without running anything.
DTYPE = re.compile(r"\|[biu]1|<[iu][248]|<f[48]|<U[1-9][0-9]{0,8}")
MAX_DIMENSIONS = 8
# Values of an array made in loading that no model needs: for each byte of its file, and at least.
_MOST_PER_BYTE, _FEWEST_CLAIMED = 64, 1 << 24
MAX_DEPTH = 200  # levels of lists and objects in the header; parameters of an estimator in another one add four
_MARKS = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)  # what opens and closes them, and characters that are escaped
ENDING = 50  # letters that unfinished files keep of their names: systems allow 255 bytes, 4 for a letter


class ModelFileError(ValueError):
    """The file is not a model that this version of fastens can read.

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
    """A model that can be taken apart into arrays and JSON, and put together again."""

    def _to_state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]: ...

    @classmethod
    def _from_state(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Any: ...


# Pickles --------------------------------------------------

# A composed model may hold estimators of other libraries, which only pickle can write, and whose reading runs code.
_pickles_allowed: ContextVar[bool] = ContextVar("pickles_allowed", default=False)


@contextmanager
def pickles_allowed(allowed: bool) -> Iterator[None]:
    """Within it, parts of a model may be pickled or unpickled, if `allowed`."""
    FLAG.check("allow_pickle", allowed)
    token = _pickles_allowed.set(bool(allowed))
    try:
        yield
    finally:
        _pickles_allowed.reset(token)


def to_pickle(value: Any, what: str) -> np.ndarray:
    """An object as bytes; TypeError where pickles are not allowed."""
    if not _pickles_allowed.get():
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(
            f"{what} is a {kind}, which fastens can only write as a pickle. Save with allow_pickle=True if those who "
            "load the file trust it: reading a pickle can run any code."
        )
    return np.frombuffer(pickle.dumps(value), dtype=np.uint8)


def from_pickle(content: np.ndarray, what: str) -> Any:
    """The object again; ModelFileError where pickles are not allowed."""
    if not _pickles_allowed.get():
        raise ModelFileError(
            f"{what} is stored as a pickle, and reading a pickle can run any code. Load with allow_pickle=True if you "
            "trust the file."
        )
    return pickle.loads(content.tobytes())


# Models --------------------------------------------------

Find = Callable[[str], type[Storable] | None]
_find: ContextVar[Find] = ContextVar("find", default=lambda name: None)


def class_of_part(name: str) -> Any:
    """The class of a model within the model that is being read, None where no file may ask for it."""
    return _find.get()(name)


def save_model(path: str | os.PathLike[str], model: Storable) -> None:
    """Write a model; its kind is the name of its class.

    Parameters
    ----------
    path : str or path
        The file; one that is there is replaced as a whole, or not at all.
    model : object with _to_state
        The model.
    """
    arrays, meta = model._to_state()
    save(path, type(model).__name__, arrays, meta)


def load_model(path: str | os.PathLike[str], find: Find, wanted: str) -> Any:
    """Read a model.

    Parameters
    ----------
    path : str or path
        The file.
    find : callable
        The class of a name, or None where no file may ask for it.
    wanted : str
        What it knows, for the error.

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or of a class that is not found.
    """
    kind, arrays, meta = load(path)
    found = find(kind)
    if found is None:
        raise ModelFileError(f"{os.fspath(path)} holds a {kind!r}, not one of {wanted}")
    token = _find.set(find)
    try:
        return found._from_state(arrays, meta)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}") from None
    except Exception as error:
        if isinstance(error, MemoryError) and not _is_claim(error, os.path.getsize(path)):
            raise
        raise ModelFileError(f"{os.fspath(path)} does not describe a {kind}: {error}") from error
    finally:
        _find.reset(token)


def _is_claim(error: MemoryError, size: int) -> bool:
    """Whether NumPy was asked for an array much larger than the file: the file claims it, memory has not run out."""
    shape = getattr(error, "shape", None)
    return shape is not None and math.prod(shape) > max(_MOST_PER_BYTE * size, _FEWEST_CLAIMED)


def save(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and what JSON can hold; a file that is there is replaced as a whole, or not at all.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        What the file holds.
    arrays : dict of str to array
        Arrays of booleans, integers, floats or text.
    meta : dict
        Anything JSON can hold.
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
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
    """Read what `save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    kind, arrays, meta
        As given to `save`. The arrays are read-only and share their memory.

    Raises
    ------
    ModelFileError
        If the file is truncated, changed, from another program or from a later version of fastens.
    """
    with open(os.fspath(path), "rb") as file:  # a number would be that of an open file, and close it
        content = memoryview(file.read())
    try:
        header, end = _read_header(content)
        kind, meta, entries = header["kind"], header["meta"], header["arrays"]
        if not isinstance(kind, str) or not isinstance(meta, dict) or not isinstance(entries, list):
            raise ModelFileError("its header is not that of a model")
        return kind, _read_arrays(content, end, entries), meta
    except ModelFileError as error:
        raise ModelFileError(f"cannot read {os.fspath(path)}: {error}") from None
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise ModelFileError(f"cannot read {os.fspath(path)}: its header is malformed") from error


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    little_endian = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    if not DTYPE.fullmatch(little_endian.dtype.str) or array.ndim > MAX_DIMENSIONS:
        raise TypeError(f"array {name!r} must hold booleans, integers, floats or text, got {array.dtype}")
    return little_endian


def _checksum(prefix: bytes | memoryview, body: bytes | bytearray | memoryview) -> bytes:
    try:
        checksum = hashlib.sha256(prefix)
        checksum.update(body)
        return checksum.digest()
    except ValueError as error:  # so OpenSSL says it
        raise MemoryError("no memory is left for the checksum of a model") from error


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a new file beside `path`, which takes its place when the block ends.

    A reader sees the old file or the new one, also if this process dies on the way. After an error the old file is
    there as it was, and the new one is removed. Pipes and devices are written to directly; links stay links.

    Parameters
    ----------
    path : str or path
        The file to write.

    Raises
    ------
    FileNotFoundError
        If its folder does not exist.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to save in", folder)
    if os.path.exists(path) and not os.path.isfile(path):
        yield path
        return
    # The name ends as that of the file does: writers choose the format by the suffix.
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
            raise OSError(error.errno, error.strerror, path) from error  # the name that the caller knows
        raise


def _read_header(content: memoryview) -> tuple[dict[str, Any], int]:
    # The header, and where it ends.
    if len(content) < len(MAGIC) or content[: len(MAGIC)] != MAGIC:
        raise ModelFileError("it is not a fastens model")
    if len(content) < HEADER_START:
        raise ModelFileError("it is truncated")
    _, version, length = PREFIX.unpack_from(content)
    if version != VERSION:
        raise ModelFileError(f"its format has version {version}, this fastens reads version {VERSION}")
    if _checksum(content[: PREFIX.size], content[HEADER_START:]) != content[PREFIX.size : HEADER_START]:
        raise ModelFileError("it is damaged or truncated (the checksum differs)")
    end = HEADER_START + length
    if end > len(content):
        raise ModelFileError("its header is longer than the file")
    header = parsed(bytes(content[HEADER_START:end]))
    if not isinstance(header, dict):
        raise ModelFileError("its header is not that of a model")
    return header, end


def parsed(content: bytes) -> Any:
    """Return what JSON describes; ValueError if its lists and objects are nested deeper than those of any model."""
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
    arrays: dict[str, np.ndarray] = {}
    for entry in entries:
        name, dtype, shape = entry["name"], entry["dtype"], entry["shape"]
        if not isinstance(name, str) or name in arrays:
            raise ModelFileError("its arrays have no names of their own")
        if not isinstance(dtype, str) or not DTYPE.fullmatch(dtype):
            raise ModelFileError(f"array {name!r} has a type that is not allowed")
        if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            raise ModelFileError(f"array {name!r} has a malformed shape")
        if not all(type(n) is int and 0 <= n <= len(content) for n in shape):
            raise ModelFileError(f"array {name!r} has a malformed shape")
        start = end + -end % ALIGNMENT
        end = start + math.prod(shape) * np.dtype(dtype).itemsize
        if end > len(content):
            raise ModelFileError(f"array {name!r} ends after the file")
        arrays[name] = _read_array(name, content[start:end], dtype).reshape(shape)
    if end != len(content):
        raise ModelFileError("it does not end with its last array")
    return arrays


def _read_array(name: str, content: memoryview, dtype: str) -> np.ndarray:
    array = np.frombuffer(content, dtype=dtype)
    if array.dtype.kind == "b" and np.any(array.view(np.uint8) > 1):
        raise ModelFileError(f"array {name!r} has a truth value that is none")
    if array.dtype.kind == "U" and np.any(np.frombuffer(content, dtype="<u4") > 0x10FFFF):
        raise ModelFileError(f"array {name!r} has a character that is none")
    return array
