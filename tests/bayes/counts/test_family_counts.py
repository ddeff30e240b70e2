"""Counts of families and sums of their table entries."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.bayes.counts import counting as module
from fastens.bayes.counts.counting import CODE_DTYPES, CodedRows, add_family_logs, complete_columns, family_counts
from reference import families as plain

FAMILIES = [(0,), (1, 0), (3, 2, 0, 1), (2, 4), (4,)]


def make_codes(rng, dtype=np.uint8, n_rows=5000):
    sizes = np.array([2, 3, 5, 4, 1])
    codes = (rng.random((5, n_rows)) * (sizes[:, None] + 1)).astype(dtype)
    codes[:4, rng.random(n_rows) < 0.7] = 1
    codes[2, rng.random(n_rows) < 0.05] = 6  # no position
    return codes, sizes


@pytest.mark.parametrize("dtype", CODE_DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_match_the_reference(rng, dtype, weighted):
    codes, sizes = make_codes(rng, dtype)
    weights = rng.random(codes.shape[1]) if weighted else None
    found = family_counts(CodedRows(codes, sizes, weights), FAMILIES)
    expected = plain.family_counts(codes, sizes, FAMILIES, np.ones(codes.shape[1]) if weights is None else weights)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == (np.float64 if weighted else np.int64)
        np.testing.assert_array_equal(one, other)  # the same sums in the same order


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [3, 40, 300])
def test_counts_where_nothing_is_missing(rng, weighted, size):
    # Few cells are counted side by side, up to 2^16 in 16 bits.
    sizes = np.array([size, 2, 5])
    codes = (1 + rng.random((3, 4099)) * sizes[:, None]).astype(CODE_DTYPES[size > 250])
    weights = rng.random(codes.shape[1]) if weighted else None
    families = [(0,), (0, 1), (2, 0, 1), (1, 2)]
    found = family_counts(CodedRows(codes, sizes, weights), families)
    expected = plain.family_counts(codes, sizes, families, np.ones(codes.shape[1]) if weights is None else weights)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("sizes", [[2, 3, 5, 4, 1, 2, 7], [2, 300, 5, 40, 1, 2, 7], [1] * 7])
def test_families_counted_together(rng, monkeypatch, sizes, n_threads):
    monkeypatch.setattr(module, "JOIN_GRAIN", 0)
    sizes = np.array(sizes)
    codes = (1 + rng.random((7, 500)) * sizes[:, None]).astype(CODE_DTYPES[int(sizes.max() > 250)])
    families = [(0,), (1, 0), (3, 2, 0, 1), (2, 4), (4,), (6, 5, 4), (5,), (2, 1), (5, 6), (3, 1), (6,)]
    holed = codes.copy()
    holed[2, 7] = 0  # what is missing in one family must not be missed in others
    for some in (codes, holed):
        expected = plain.family_counts(some, sizes, families, np.full(some.shape[1], 200))
        many = np.tile(some, 200)  # more rows than 16 bits count
        for one, other in zip(family_counts(CodedRows(many, sizes, None, n_threads), families), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_which_columns_are_complete():
    codes = np.array([[1, 2, 1], [1, 0, 2], [1, 3, 2], [2, 2, 2]], dtype=np.uint16)
    assert complete_columns(codes, np.array([2, 2, 2, 3])).tolist() == [1, 0, 0, 1]
    assert complete_columns(codes[:, :0], np.array([2, 2, 2, 3])).tolist() == [1, 1, 1, 1]


def test_cells_beyond_16_bits(rng):
    sizes = np.array([250, 300])
    codes = np.stack([rng.integers(1, 251, 3000), rng.integers(1, 301, 3000)]).astype(np.uint16)
    expected = plain.family_counts(codes, sizes, [(0, 1)], np.ones(3000))
    np.testing.assert_array_equal(family_counts(CodedRows(codes, sizes, None), [(0, 1)])[0], expected[0])


def test_sums_of_entries_match_the_reference(rng):
    codes, sizes = make_codes(rng)
    families = [*FAMILIES, ()]
    tables = [rng.standard_normal((*sizes[list(family)], 3)) for family in families]
    out = np.zeros((codes.shape[1], 3))
    add_family_logs(codes, sizes, families, tables, out)
    np.testing.assert_allclose(out, plain.family_logs(codes, sizes, families, tables, 3), rtol=0, atol=1e-14)


@pytest.mark.slow
def test_threads_change_nothing(rng):
    codes, sizes = make_codes(rng, n_rows=500_000)
    weights = rng.random(codes.shape[1])
    tables = [rng.standard_normal((*sizes[list(family)], 2)) for family in FAMILIES]
    results = []
    for n_threads in (1, 3):
        out = np.zeros((codes.shape[1], 2))
        add_family_logs(codes, sizes, FAMILIES, tables, out, n_threads)
        results.append([*family_counts(CodedRows(codes, sizes, weights, n_threads), FAMILIES), out])
    for one, many in zip(*results, strict=True):
        np.testing.assert_array_equal(one, many)


def test_no_rows():
    codes, sizes = np.zeros((2, 0), np.uint8), np.array([2, 3])
    assert family_counts(CodedRows(codes, sizes, None), [(0, 1)])[0].tolist() == [[0, 0, 0], [0, 0, 0]]
    add_family_logs(codes, sizes, [(0, 1)], [np.zeros((2, 3, 1))], np.zeros((0, 1)))
