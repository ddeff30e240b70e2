"""Category positions to codes, and sums of the table entries they choose."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.bayes.counts.counts import encode_positions
from scipy import sparse

from fastens.bayes.counts.counting import encode, encode_all, offsets_of
from fastens.bayes.naive.likelihoods import add_columns
from reference import counts as plain


def make_positions(rng, n_rows=700):
    X = rng.integers(-1, 8, (n_rows, 4)).astype(np.float64)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.05] = 2.5
    X[0, 0], X[1, 1] = np.inf, -np.inf
    return X


@pytest.mark.parametrize("kind", ["C", "F", "float32", "reversed", "read-only"])
def test_codes_match_the_reference(rng, kind):
    X = make_positions(rng)
    X = {"F": np.asfortranarray, "float32": np.float32, "reversed": lambda X: X[::-1, ::-1]}.get(kind, np.copy)(X)
    X.flags.writeable = kind != "read-only"
    n_categories = np.array([3, 8, 5, 1])
    found = encode(X, n_categories, n_threads=2)
    np.testing.assert_array_equal(found.codes, plain.encode(X, n_categories))
    whole = np.where(np.isfinite(X) & (np.rint(X) == X), X, -1)
    np.testing.assert_array_equal(found.largest, np.maximum(whole.max(axis=0), -1))
    np.testing.assert_array_equal(found.faults, [3, 3, 3, 3])


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, bool])
def test_whole_numbers(rng, dtype):
    X = rng.integers(0, 2, (50, 3)).astype(dtype)
    found = encode_all(X)
    np.testing.assert_array_equal(found.codes, X.T.astype(int) + 1)
    assert not found.faults.any()


def test_negative_whole_numbers_are_a_fault():
    found = encode_all(np.array([[0, -3], [1, 4]]))
    assert found.faults.tolist() == [0, 1]
    assert found.largest.tolist() == [1, 4]


@pytest.mark.parametrize(
    ("largest", "dtype"), [(253, np.uint8), (254, np.uint16), (65_533, np.uint16), (70_000, np.uint32)]
)
def test_codes_are_as_wide_as_need_be(largest, dtype):
    found = encode_all(np.array([[0.0], [np.nan], [largest]]))
    assert found.codes.dtype == dtype
    assert found.codes.tolist() == [[1, 0, largest + 1]]


def test_sparse_rows_match_the_array(rng):
    X = rng.integers(0, 3, (5000, 3)).astype(float)
    np.testing.assert_array_equal(encode_all(sparse.csr_matrix(X)).codes, encode_all(X).codes)


def test_threads_change_nothing(rng):
    X = make_positions(rng, 3001)
    limits = np.array([3, 8, 5, 1])
    results = []
    for n_threads in (1, 3):
        codes = np.zeros((4, len(X)), np.uint8)
        largest, faults = np.full((3, 4), -1), np.zeros((3, 4), np.uint8)
        encode_positions(X, limits, codes, largest, faults, n_threads)
        results.append((codes, largest, faults))
    for one, many in zip(*results, strict=True):
        np.testing.assert_array_equal(one, many)


def test_sums_of_entries(rng):
    sizes = np.array([2, 4, 3])
    codes = (rng.random((3, 2500)) * sizes[:, None]).astype(np.uint8)
    table = rng.standard_normal((9, 2))
    offsets = offsets_of(sizes)
    expected = sum(table[offsets[j] + codes[j]] for j in range(3))
    for n_threads in (1, 3):
        out = np.zeros((2500, 2))
        add_columns(codes, sizes, table, out, n_threads)
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-15)
