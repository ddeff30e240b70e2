"""Lines of JSON objects as a table."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.json

# In a line of its own, where Arrow follows a null pointer if a block begins with it (apache/arrow#47409).
_NULL = re.compile(rb"[\r\n][ \t]*null")
_LONGEST = len(b"null")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_json_lines(stream: Any) -> pa.Table:
    """Read a table; ValueError where a line is `null`."""
    return pa.json.read_json(_Lines(stream))


class _Lines:
    """A binary stream whose lines are not `null`."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._begun: bytes | None = None  # the end of a line, and what the next begins with

    def read(self, size: int = -1) -> bytes:
        """What the stream reads; ValueError where a line is `null`."""
        content: bytes = self._stream.read(size)
        begun = b"\n" + content.removeprefix(_BYTE_ORDER_MARK) if self._begun is None else self._begun + content
        if _NULL.search(begun):
            raise ValueError("each line must be an object; one is null")
        last = begun[max(begun.rfind(b"\n"), begun.rfind(b"\r")) + 1 :].lstrip(b" \t")
        self._begun = b"\n" + last[:_LONGEST]
        return content
