"""Numbers in few bytes: any come back, and small ones take little."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.distributed.narrowing import narrowed, widened

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 5000])
@pytest.mark.parametrize("top", [1, 2**7, 2**8, 2**31, 2**62])
def test_any_numbers_come_back(n, top):
    numbers = np.random.default_rng(n).integers(-top, top, n)
    np.testing.assert_array_equal(widened(narrowed(numbers)), numbers)


@pytest.mark.parametrize("ends", [(LOWEST, HIGHEST), (0, HIGHEST), (LOWEST, 0), (HIGHEST, HIGHEST), (LOWEST, LOWEST)])
def test_the_largest_numbers_come_back(ends):
    numbers = np.array([*ends, ends[0], ends[1]] * 100)
    found = widened(narrowed(numbers))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, numbers)


@pytest.mark.parametrize("width", range(9))
def test_numbers_take_as_many_bytes_as_they_lie_apart(width):
    apart = 2 ** (8 * width) - 1
    numbers = np.full(25_600, LOWEST // 2)
    numbers[::256] += min(apart, HIGHEST)
    assert len(narrowed(numbers)) == 8 + 100 * 9 + 25_600 * width
