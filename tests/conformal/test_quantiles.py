"""Scores of rows not seen, and ends of intervals over folds: against their definitions, and the coverage they give."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastens.conformal.scores import ConformalScores, needed_weight, upper_ends
from reference import conformal as naive

COVERAGES = st.sampled_from([0.07, 0.5, 0.8, 0.9, 0.95, 0.99])


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), n_folds=st.integers(1, 6), coverage=COVERAGES)
def test_ends_match_all_sums_in_order(seed, n_folds, coverage):
    rng, folds = naive.make_folds(seed, n_folds)
    parts = [ConformalScores.of(*fold) for fold in folds]
    centers, scales = rng.normal(scale=3, size=(7, n_folds)), rng.exponential(size=(7, n_folds)) + 0.1
    scores = [naive.repeated(*fold) for fold in folds]
    expected = [naive.upper_end(scores, centers[i], scales[i], coverage) for i in range(7)]
    for n_threads in (1, 3):
        found = upper_ends(parts, centers, scales, needed_weight(parts, coverage), n_threads)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_folds", [1, 4])
@pytest.mark.parametrize("coverage", [0.07, 0.5, 0.8, 0.9])
def test_ends_under_a_covariate_shift_are_weighted_quantiles(n_folds, coverage):
    rng, folds = naive.make_folds(7, n_folds)
    folds = [(scores, rng.exponential(size=len(scores)) * (weight > 0)) for scores, weight in folds]
    parts = [ConformalScores.of(*fold) for fold in folds]
    centers, scales = rng.normal(scale=3, size=(40, n_folds)), rng.exponential(size=(40, n_folds)) + 0.1
    new = rng.exponential(size=40) * 10.0 ** rng.integers(-2, 3, 40)
    found = upper_ends(parts, centers, scales, needed_weight(parts, coverage, new))
    expected = [naive.weighted_upper_end(folds, *row, coverage) for row in zip(centers, scales, new, strict=True)]
    np.testing.assert_array_equal(found, expected)
    assert np.isinf(found).any() or coverage < 0.5  # the new row has more than its share of the mass
    assert np.isfinite(found).any()


@pytest.mark.parametrize("n_rows", [1, 5, 9, 10, 19, 100, 999])
@pytest.mark.parametrize("coverage", [0.07, 0.5, 0.8, 0.9, 0.95])
def test_quantile_is_the_smallest_that_covers(n_rows, coverage):
    """Of n + 1 rows in random order, each as likely to be the new one, exactly enough are covered."""
    found = ConformalScores.of(np.arange(n_rows, dtype=float)).quantile(coverage)
    covered = 1.0 if math.isinf(found) else (found + 1) / (n_rows + 1)
    assert covered >= coverage - 1e-9
    assert covered < coverage + 1 / (n_rows + 1) + 1e-9


def test_weights_mean_repetition(rng):
    scores, weight = rng.normal(size=50), rng.integers(0, 4, 50).astype(float)
    weighted, many = ConformalScores.of(scores, weight), ConformalScores.of(np.repeat(scores, weight.astype(int)))
    assert weighted.total == many.total
    for coverage in np.linspace(0.01, 0.999, 97):
        assert weighted.quantile(coverage) == many.quantile(coverage)


def test_split_conformal_covers_exactly():
    """Simulated: normal errors, 19 rows to calibrate on; the mean coverage over many draws is 0.9 = 18 / 20."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(4000):
        scores = ConformalScores.of(np.abs(rng.standard_normal(19)))
        covered.append(abs(rng.standard_normal()) <= scores.quantile(0.9))
    assert np.mean(covered) == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / 4000))


def test_the_search_terminates_with_nan():
    parts = [ConformalScores.of(np.arange(20.0)), ConformalScores.of(np.arange(30.0))]
    centers = np.array([[np.nan, 0.0], [0.0, np.nan], [np.nan, np.nan], [0.0, 0.0]])
    assert upper_ends(parts, centers, np.ones((4, 2)), needed_weight(parts, 0.5))[3] == 12.0
