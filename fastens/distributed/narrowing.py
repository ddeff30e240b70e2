"""Whole numbers in as few bytes as they need: sums of histograms are small beside the words that hold them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
# Numbers that have a least one, and a width, in common.
_BLOCK = 256
# The width of a block by how far its numbers lie apart: below the first limit 0 bytes, and so on.
_LIMITS = np.array([1, *(1 << 8 * width for width in range(1, 8))], dtype=np.uint64)


def narrowed(numbers: Numbers) -> NDArray[np.uint8]:
    """Return bytes that hold numbers, of which blocks are written by their distances from the least.

    Examples
    --------
    >>> import numpy as np
    >>> numbers = 10**12 + np.arange(1024)
    >>> len(narrowed(numbers)), bool((widened(narrowed(numbers)) == numbers).all())
    (1068, True)
    """
    n_blocks = -(-len(numbers) // _BLOCK)
    blocks = np.pad(numbers, (0, n_blocks * _BLOCK - len(numbers)), mode="edge").reshape(n_blocks, _BLOCK)
    least = blocks.min(axis=1)
    apart = (blocks - least[:, None]).view(np.uint64)  # modulo 2**64, so that any numbers are as far apart as they are
    widths = np.searchsorted(_LIMITS, apart.max(axis=1), side="right").astype(np.uint8)
    digits = apart.astype("<u8", copy=False).view(np.uint8).reshape(n_blocks, _BLOCK, 8)
    head = np.array([len(numbers)], dtype="<i8"), least.astype("<i8", copy=False)
    found = [*(array.view(np.uint8) for array in head), widths]
    found += [digits[widths == width, :, :width].ravel() for width in range(1, 9)]
    return np.concatenate(found)


def widened(message: NDArray[np.uint8]) -> Numbers:
    """Return the numbers that bytes of `narrowed` hold."""
    n_numbers = int(message[:8].view("<i8")[0])
    n_blocks = -(-n_numbers // _BLOCK)
    starts = np.cumsum([8, 8 * n_blocks, n_blocks])
    least, widths, rest = message[8 : starts[1]].view("<i8"), message[starts[1] : starts[2]], message[starts[2] :]
    digits = np.zeros((n_blocks, _BLOCK, 8), dtype=np.uint8)
    for width in range(1, 9):
        chosen = widths == width
        size = int(np.count_nonzero(chosen)) * _BLOCK * width
        digits[chosen, :, :width] = rest[:size].reshape(-1, _BLOCK, width)
        rest = rest[size:]
    found: Numbers = digits.view("<u8")[..., 0].astype(np.int64) + least[:, None]
    return found.ravel()[:n_numbers]
