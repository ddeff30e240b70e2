"""A reader of protocol buffers without a schema: the fields of a message by their numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.reading.records import refuse

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MOST_BYTES = 10


class Message:
    """A message: for each number of a field what it holds, in the order of the file.

    Parameters
    ----------
    content : bytes
        The message.

    Raises
    ------
    ModelFileError
        If it is malformed, or ends early.
    """

    def __init__(self, content: bytes) -> None:
        self._fields: dict[int, list[tuple[int, int | bytes]]] = {}
        at = 0
        while at < len(content):
            key, at = _varint(content, at)
            kind, number = key & 7, key >> 3
            value: int | bytes
            if kind == _VARINT:
                value, at = _varint(content, at)
            else:
                size, at = _varint(content, at) if kind == _BYTES else ({_FIXED64: 8, _FIXED32: 4}.get(kind, -1), at)
                if size < 0 or at + size > len(content) or number == 0:
                    raise refuse("a protocol buffer has a field that ends after it; the file is truncated or damaged")
                value, at = content[at : at + size], at + size
            self._fields.setdefault(number, []).append((kind, value))

    def bytes(self, number: int) -> list[bytes]:
        """What a field of bytes holds, each time it is there."""
        return [value for _, value in self._fields.get(number, []) if isinstance(value, bytes)]

    def messages(self, number: int) -> list[Message]:
        """The messages of a field."""
        return [Message(content) for content in self.bytes(number)]

    def texts(self, number: int) -> list[str]:
        """The texts of a field."""
        try:
            return [content.decode("utf-8") for content in self.bytes(number)]
        except UnicodeDecodeError as error:
            raise refuse("a text must be in UTF-8; the file is damaged") from error

    def text(self, number: int) -> str:
        """The last text of a field; "" where there is none."""
        return (self.texts(number) or [""])[-1]

    def integers(self, number: int) -> NDArray[np.int64]:
        """Whole numbers of a field, packed or not."""
        found: list[int] = []
        for _, value in self._fields.get(number, []):
            if isinstance(value, bytes):
                at = 0
                while at < len(value):
                    one, at = _varint(value, at)
                    found.append(one)
            else:
                found.append(value)
        return np.array(found, dtype=np.uint64).astype(np.int64)

    def integer(self, number: int, default: int = 0) -> int:
        """The last whole number of a field."""
        found = self.integers(number)
        return int(found[-1]) if len(found) else default

    def floats(self, number: int, kind: str = "<f4") -> NDArray[np.floating]:
        """Floats of a field, packed or not."""
        content = b"".join(self.bytes(number))
        size = np.dtype(kind).itemsize
        if len(content) % size:
            raise refuse("a field of floats must have whole ones; the file is damaged")
        return np.frombuffer(content, dtype=kind).astype(np.dtype(kind).newbyteorder("="))


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MOST_BYTES):
        if at >= len(content):
            raise refuse("a protocol buffer must not end within a number; the file is truncated")
        byte = content[at]
        value |= (byte & 127) << (7 * shift)
        at += 1
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise refuse("a protocol buffer has a number that is too long; the file is damaged")
