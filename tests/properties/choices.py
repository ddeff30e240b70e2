"""Choices made by bytes, so that a fuzzer of bytes can make them."""

from __future__ import annotations

from typing import Any


class Choices:
    """Whole numbers read from bytes; zeros after their end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def below(self, n: int) -> int:
        """A number from 0 to n - 1."""
        size = max(1, (n - 1).bit_length() + 7 >> 3)
        part = self._data[self._place : self._place + size]
        self._place += size
        return int.from_bytes(part, "little") % n

    def of(self, values: Any) -> Any:
        """One of several."""
        return values[self.below(len(values))]
