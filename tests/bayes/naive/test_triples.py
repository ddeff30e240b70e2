"""Counts of three columns: as the twin has them, whatever the threads, in more categories, and by pairs."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.bayes.counts.counting import CODE_DTYPES, LabelledCodes
from fastens.bayes.naive.one_dependence import TripleLayout, check_triples, triple_counts
from reference import counts as plain

SIZES = np.array([3, 2, 1, 4, 2])


def make_codes(rng, dtype=np.uint8, n_rows=300):
    codes = (rng.random((5, n_rows)) * (SIZES + 1)[:, None]).astype(dtype)
    return codes, rng.integers(0, 3, n_rows).astype(np.int32)


def by_cells(layout, counts):
    """Counts by class and three cells, from their blocks."""
    n_cells = layout.offsets[-1]
    out = np.zeros((len(counts), n_cells, n_cells, n_cells))
    for pair in layout.pairs:
        one, other = (slice(layout.offsets[j], layout.offsets[j + 1]) for j in pair[:2])
        out[:, one, other, layout.offsets[pair.other + 1] :] = layout.block(counts, pair)
    return out


@pytest.mark.parametrize("dtype", CODE_DTYPES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_match_the_reference(rng, dtype, weighted):
    codes, y = make_codes(rng, dtype)
    weights = rng.integers(0, 5, 300) / 4 if weighted else None
    found = triple_counts(LabelledCodes(codes, y, weights), SIZES, 3)
    assert found.dtype == (np.float64 if weighted else np.int64)
    expected = plain.triple_counts(codes, y, SIZES, 3, np.ones(300) if weights is None else weights)
    np.testing.assert_array_equal(by_cells(TripleLayout(SIZES), found), expected)
    assert expected.any()


@pytest.mark.parametrize("weighted", [False, True])
def test_threads_change_nothing(rng, weighted):
    codes, y = make_codes(rng, n_rows=20_000)
    weights = rng.random(20_000) if weighted else None
    one = triple_counts(LabelledCodes(codes, y, weights), SIZES, 3)
    np.testing.assert_array_equal(one, triple_counts(LabelledCodes(codes, y, weights, 4), SIZES, 3))


def test_counts_of_a_pair_with_all_columns(rng):
    codes, y = make_codes(rng)
    layout, counts = TripleLayout(SIZES), triple_counts(LabelledCodes(codes, y), SIZES, 3)
    whole = plain.triple_counts(codes, y, SIZES, 3, np.ones(300))
    whole = sum(whole.transpose(0, *order) for order in [(1, 2, 3), (1, 3, 2), (2, 3, 1)])  # the pair first, in order
    whole = np.where(np.arange(12)[:, None, None] < np.arange(12)[:, None], whole, 0)
    for pair in layout.pairs:
        one, other = (slice(layout.offsets[j], layout.offsets[j + 1]) for j in pair[:2])
        found = layout.expand_pair(counts, pair)
        np.testing.assert_array_equal(found, whole[:, one, other].reshape(found.shape))


def test_counts_in_more_categories(rng):
    codes, y = make_codes(rng)
    places = [rng.permutation(size + 1)[:size] for size in SIZES]
    moved = np.array(
        [np.concatenate([[0], found + 1])[row] for found, row in zip(places, codes, strict=True)], dtype=np.uint8
    )
    wider = TripleLayout(SIZES + 1)
    found = TripleLayout(SIZES).move_categories(triple_counts(LabelledCodes(codes, y), SIZES, 3), places, wider)
    np.testing.assert_array_equal(found, triple_counts(LabelledCodes(moved, y), SIZES + 1, 3))


@pytest.mark.parametrize("n_columns", [0, 1, 2])
def test_few_columns(n_columns):
    sizes = np.full(n_columns, 2)
    codes = np.ones((n_columns, 4), dtype=np.uint8)
    assert triple_counts(LabelledCodes(codes, np.zeros(4, dtype=np.int32)), sizes, 2).shape == (2, 0)


def test_too_many_are_refused():
    sizes = np.array([8, 900, 8, 1200])
    with pytest.raises(ValueError, match=r"are 'd' \(1200\), 'b' \(900\), 'a' \(8\)\."):
        check_triples(sizes, 2, ["a", "b", "c", "d"])
    with pytest.raises(ValueError, match=r"are 3 \(1200\), 1 \(900\), 0 \(8\)"):
        check_triples(sizes, 2, None)
    check_triples(np.array([8] * 30), 2, None)
