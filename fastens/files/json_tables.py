"""JSON as a table: lines of objects, an array of objects, or columns by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.json

from fastens.files.python_values import array_of

# In a line of its own, where Arrow follows a null pointer if a block begins with it (apache/arrow#47409).
_NULL = re.compile(rb"[\r\n][ \t]*null")
_LONGEST = len(b"null")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_json(open_file: Callable[[], Any]) -> pa.Table:
    """Read a table; ValueError where it is none."""
    with open_file() as stream:
        begun = stream.read(1 << 12).removeprefix(_BYTE_ORDER_MARK).lstrip()
    first_line = begun.partition(b"\n")[0].rstrip()
    is_columns = first_line.startswith(b"{") and first_line.endswith(b"}") and b"\n" not in begun.strip()
    if not begun.startswith(b"[") and not is_columns and not (begun.startswith(b"{") and not first_line.endswith(b"}")):
        with open_file() as stream:
            return read_json_lines(stream)
    with open_file() as stream:
        content = stream.read()
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        if begun.startswith(b"["):
            raise
        return read_json_lines(pa.BufferReader(content))  # objects that go over several lines
    return _table_of(found)


def _table_of(found: Any) -> pa.Table:
    """Records, an object that holds them, or columns."""
    if isinstance(found, dict):
        records = [
            value for value in found.values() if isinstance(value, list) and value and isinstance(value[0], dict)
        ]
        if len(records) == 1:
            found = records[0]
        elif found and all(isinstance(value, list) for value in found.values()):
            return _of_columns(found)
        elif found and all(isinstance(value, dict) for value in found.values()):
            rows = list(dict.fromkeys(key for values in found.values() for key in values))
            return _of_columns({name: [values.get(row) for row in rows] for name, values in found.items()})
        else:
            found = [found]
    if found and isinstance(found[0], list):  # rows, the first of which has the names
        found = [dict(zip(map(str, found[0]), row, strict=False)) for row in found[1:]]
    if not all(isinstance(row, dict) for row in found):
        raise ValueError("each element of the array must be an object")
    names = list(dict.fromkeys(name for row in found for name in row))
    return _of_columns({name: [row.get(name) for row in found] for name in names})


def _of_columns(columns: dict[str, list[Any]]) -> pa.Table:
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError("all columns must have the same number of values")
    return pa.Table.from_arrays([array_of(values) for values in columns.values()], names=list(columns))


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
