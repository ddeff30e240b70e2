"""What fastens.distributed.narrowing writes."""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK, TAIL = 256, 8


def pack_ints(arrays: list[Any]) -> Any:
    """The message of some arrays: of each block of a column its least number, a width, and as many bytes of each."""
    found = []
    for array in arrays:
        for first in range(0, len(array), BLOCK):
            for column in array[first : first + BLOCK].reshape(-1, array[0].size).T:
                least = int(column.min())
                width = -(-(int(column.max()) - least).bit_length() // 8)
                digits = b"".join((int(number) - least).to_bytes(width, "little") for number in column)
                found.append(least.to_bytes(8, "little", signed=True) + bytes([width]) + digits)
    return np.frombuffer(b"".join([*found, bytes(TAIL)]), np.uint8)
