"""Numbers in few bytes: any come back, as they are, added or where they are larger, and small ones take little."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.distributed.narrowing import pack_ints, unpack_ints

from reference import narrowing as reference

LOWEST, HIGHEST = -(2**63), 2**63 - 1


def check(*arrays):
    message = pack_ints(arrays)
    np.testing.assert_array_equal(message, reference.pack_ints(arrays))
    others = [np.random.default_rng(1).integers(-9, 9, array.shape) for array in arrays]
    for how, combined in (("set", lambda old, new: new), ("sum", np.add), ("max", np.maximum)):
        found = [other.copy() for other in others]
        unpack_ints(message, found, how)
        for own, other, array in zip(found, others, arrays, strict=True):
            np.testing.assert_array_equal(own, combined(other, array))
    return message


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000])
@pytest.mark.parametrize("top", [1, 2**7, 2**8, 2**31, 2**62])
def test_any_numbers_come_back(n, top):
    numbers = np.random.default_rng(n).integers(-top, top, 3 * n)
    check(numbers)
    check(numbers[:n], numbers[n:].reshape(n, 2), numbers.reshape(n, 3))


def test_numbers_of_more_axes_come_back():
    numbers = np.random.default_rng(0).integers(LOWEST, HIGHEST, (2, 30, 9))
    check(numbers, numbers.reshape(2, 5, 6, 9), numbers[:0])


@pytest.mark.parametrize("ends", [(LOWEST, HIGHEST), (0, HIGHEST), (LOWEST, 0), (HIGHEST, HIGHEST), (LOWEST, LOWEST)])
def test_the_largest_numbers_come_back(ends):
    with np.errstate(over="ignore"):
        check(np.array([*ends, ends[0], ends[1]] * 100))


@pytest.mark.parametrize("width", range(9))
def test_numbers_take_as_many_bytes_as_they_lie_apart(width):
    numbers = np.full((256, 10), LOWEST // 2)
    numbers[7] += min(2 ** (8 * width) - 1, HIGHEST)
    assert len(check(numbers)) == 8 + 10 * 9 + 2560 * width


@pytest.mark.parametrize("n", [0, 299, 301, 600])
def test_a_message_of_other_numbers_is_refused(n):
    message = pack_ints([np.arange(300)])
    with pytest.raises(ValueError, match=f"message must hold {n} numbers; its {len(message)} bytes hold others"):
        unpack_ints(message, [np.zeros(n, dtype=np.int64)], "sum")
    with pytest.raises(ValueError, match="message must hold 300 numbers; its 3 bytes"):
        unpack_ints(message[:3], [np.zeros(300, dtype=np.int64)], "sum")
