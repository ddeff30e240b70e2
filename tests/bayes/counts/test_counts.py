"""Counts by class of codes and of pairs of codes."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.bayes.counts.counts import count_cells

from fastens.bayes.counts.counting import CODE_DTYPES, LabelledCodes, class_counts, pair_counts
from reference import counts as plain


def make_codes(rng, dtype=np.uint8, n_rows=5000, n_features=5):
    n_codes = rng.integers(2, 7, n_features)
    codes = (rng.random((n_features, n_rows)) * n_codes[:, None]).astype(dtype)
    return codes, rng.integers(0, 3, n_rows).astype(np.int32), n_codes


@pytest.mark.parametrize("dtype", CODE_DTYPES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_match_the_reference(rng, dtype, weighted):
    codes, y, n_codes = make_codes(rng, dtype, n_rows=300)
    weights = rng.integers(0, 5, 300) / 4 if weighted else None
    ones = np.ones(300) if weights is None else weights
    found = class_counts(LabelledCodes(codes, y, weights), n_codes, 3)
    assert found.dtype == (np.float64 if weighted else np.int64)
    np.testing.assert_array_equal(found, plain.class_counts(codes, y, n_codes, 3, ones))
    pairs = pair_counts(LabelledCodes(codes, y, weights), n_codes, 3)
    np.testing.assert_array_equal(pairs, plain.pair_counts(codes, y, n_codes, 3, ones))


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_change_nothing(rng, weighted):
    codes, y, n_codes = make_codes(rng)
    weights = rng.random(codes.shape[1]) if weighted else None
    offsets = np.concatenate([[0], np.cumsum(n_codes)])
    dtype = np.float64 if weighted else np.int64
    for order, n_cells in ((1, offsets[-1]), (2, offsets[-1] ** 2)):
        one, many = np.zeros((3, n_cells), dtype), np.zeros((3, n_cells), dtype)
        count_cells(codes, y, weights, offsets, None, one, order, 1)
        count_cells(codes, y, weights, offsets, None, many, order, 4)
        np.testing.assert_array_equal(one, many)
        assert one.any()


def test_a_wide_code_and_no_rows():
    codes = np.array([[70_000]], dtype=np.uint32)
    counts = class_counts(LabelledCodes(codes, np.array([1], dtype=np.int32)), np.array([70_001]), 2)
    assert counts[1, 70_000] == counts.sum() == 1
    empty = class_counts(LabelledCodes(np.empty((2, 0), np.uint8), np.empty(0, np.int32)), np.array([2, 3]), 2)
    assert empty.shape == (2, 5)
    assert not empty.any()
