"""Bit arrays of sets against going through the sets."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.bayes.concepts.hitting import count_passing_by_size, draw_sets, mark_subsets, write_subset_weights

from reference import hitting as naive


@pytest.fixture(params=[0, 1, 3, 5, 6, 7, 9])
def family(request, rng):
    """A closed family of failing sets over so many attributes; places beyond the last set fail."""
    n = request.param
    bits = np.zeros(1 << max(0, n - 6), dtype=np.uint64)
    if n < 6:
        bits[0] = np.uint64(2**64 - (1 << (1 << n)))
    for top in rng.integers(0, max(1, (1 << n) - 1), 3 if n > 1 else 0).tolist():
        bits[top >> 6] |= np.uint64(1 << (top & 63))
    expected = naive.mark_subsets(bits, n)
    mark_subsets(bits, n)
    return n, bits, expected


def test_closure(family):
    n, bits, expected = family
    assert set(range(1 << n)) - set(naive.passing(bits, n)) == expected


def test_large_closure_in_blocks(rng):
    """More words than fit a block: the same as passes over everything with NumPy."""
    n = 20
    bits = np.zeros(1 << (n - 6), dtype=np.uint64)
    tops = rng.integers(0, 1 << n, 50)
    marks = np.zeros(1 << n, dtype=bool)
    marks[tops] = True
    np.bitwise_or.at(bits, tops >> 6, np.uint64(1) << (tops & 63).astype(np.uint64))
    for j in range(n):
        view = marks.reshape(-1, 2, 1 << j)
        view[:, 0] |= view[:, 1]
    mark_subsets(bits, n)
    np.testing.assert_array_equal(np.unpackbits(bits.view(np.uint8), bitorder="little").astype(bool), marks)


def test_counts_by_size(family):
    n, bits, _ = family
    found = np.zeros(n + 7, dtype=np.int64)
    count_passing_by_size(bits, found)
    sizes = [place.bit_count() for place in naive.passing(bits, n)]
    np.testing.assert_array_equal(found, np.bincount(np.array(sizes, dtype=np.intp), minlength=n + 7))


def test_weights_of_subsets(family, rng):
    n, bits, _ = family
    weight = rng.random(n + 7)
    masks = rng.integers(0, 1 << n, 12).astype(np.uint64)
    found = np.empty(12)
    write_subset_weights(bits, masks, weight, found)
    sets = naive.passing(bits, n)
    expected = [sum(weight[s.bit_count()] for s in sets if s & mask == s) for mask in masks.tolist()]
    np.testing.assert_allclose(found, expected)


def test_draws(family, rng):
    n, bits, _ = family
    weight = rng.random(n + 7)
    total = sum(weight[s.bit_count()] for s in naive.passing(bits, n))
    targets = np.sort(rng.random(20)) * total
    found = np.empty(20, dtype=np.uint64)
    draw_sets(bits, weight, targets, found)
    assert found.tolist() == [naive.draw(bits, n, weight, target) for target in targets]
    beyond = np.empty(1, dtype=np.uint64)
    draw_sets(bits, weight, np.array([total * 2]), beyond)
    assert beyond[0] == naive.passing(bits, n)[-1]
