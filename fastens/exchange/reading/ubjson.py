"""A reader of UBJSON, as XGBoost writes it (https://ubjson.org): big-endian, keys without mark."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastens.exchange.reading.records import refuse

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"Z": None, "T": True, "F": False}
_MOST_LEVELS = 100


def read_ubjson(content: bytes) -> Any:
    """Return what UBJSON describes, typed arrays as NumPy's.

    Raises
    ------
    ModelFileError
        If it is malformed, or ends early.
    """
    reader = _Reader(content)
    found = reader.value(reader.mark(), 0)
    if reader.at != len(content):
        raise refuse("UBJSON must end with its value; the file goes on")
    return found


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, n: int) -> bytes:
        if n < 0 or self.at + n > len(self.content):
            raise refuse("UBJSON must not end within a value; the file is truncated or damaged")
        self.at += n
        return self.content[self.at - n : self.at]

    def mark(self) -> str:
        mark = self.take(1)
        while mark == b"N":
            mark = self.take(1)
        return mark.decode("latin-1")

    def peek(self) -> str:
        return self.content[self.at : self.at + 1].decode("latin-1")

    def value(self, mark: str, level: int) -> Any:
        if level > _MOST_LEVELS:
            raise refuse("UBJSON must not be nested so deeply")
        if mark in _NUMBERS:
            return self.numbers(mark, 1)[0].item()
        if mark in _CONSTANTS:
            return _CONSTANTS[mark]
        if mark in "SH":
            return self.text()
        if mark == "C":
            return self.take(1).decode("latin-1")
        if mark == "{":
            return self.members(level)
        if mark == "[":
            return self.items(level)
        raise refuse(f"UBJSON must not have a value of the kind {mark!r}; the file is damaged")

    def numbers(self, mark: str, n: int) -> np.ndarray:
        kind = np.dtype(_NUMBERS[mark])
        return np.frombuffer(self.take(n * kind.itemsize), dtype=kind).astype(kind.newbyteorder("="))

    def size(self) -> int:
        mark = self.mark()
        if mark not in "iUIlL":
            raise refuse("the size of a UBJSON value must be a whole number; the file is damaged")
        return int(self.numbers(mark, 1)[0])

    def text(self) -> str:
        try:
            return self.take(self.size()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise refuse("a UBJSON text must be in UTF-8; the file is damaged") from error

    def members(self, level: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        left = self.size() if self.skip("#") else -1
        while left != 0 and not (left < 0 and self.skip("}")):
            name = self.text()
            if name in found:
                raise refuse(f"{name!r} is there twice")
            found[name] = self.value(self.mark(), level + 1)
            left -= 1
        return found

    def items(self, level: int) -> Any:
        if self.skip("$"):
            mark = self.mark()
            if mark not in _NUMBERS or not self.skip("#"):
                raise refuse("a typed UBJSON array must be of numbers, and have a size; the file is damaged")
            return self.numbers(mark, self.size())
        left = self.size() if self.skip("#") else -1
        found = []
        while left != 0 and not (left < 0 and self.skip("]")):
            found.append(self.value(self.mark(), level + 1))
            left -= 1
        return found

    def skip(self, mark: str) -> bool:
        is_there = self.peek() == mark
        self.at += is_there
        return is_there
