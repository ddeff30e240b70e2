"""Scores of rows not seen: against their definitions, and the coverage that follows from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastens.engine.conformal import ConformalScores, upper_ends
from fastens.ensemble.conformal_scores import (
    COVERAGE,
    Errors,
    SetScore,
    intervals,
    middle_column,
    nearest_columns,
    sets,
)
from reference import conformal as naive

COVERAGES = st.sampled_from([0.07, 0.5, 0.8, 0.9, 0.95, 0.99])


def make_folds(seed, n_folds):
    rng = np.random.default_rng(seed)
    folds = []
    for _ in range(n_folds):
        n_rows = rng.integers(1, 25)
        folds.append((np.round(rng.normal(size=n_rows), rng.integers(0, 4)), rng.integers(0, 4, n_rows).astype(float)))
    folds[0] = folds[0][0], np.maximum(folds[0][1], 1.0)
    return rng, folds


@given(seed=st.integers(0, 10_000), n_folds=st.integers(1, 6), coverage=COVERAGES)
def test_ends_are_those_of_all_sums_in_order(seed, n_folds, coverage):
    rng, folds = make_folds(seed, n_folds)
    parts = [ConformalScores.of(*fold) for fold in folds]
    centers, scales = rng.normal(scale=3, size=(7, n_folds)), rng.exponential(size=(7, n_folds)) + 0.1
    scores = [naive.repeated(*fold) for fold in folds]
    expected = [naive.upper_end(scores, centers[i], scales[i], coverage) for i in range(7)]
    for n_threads in (1, 3):
        np.testing.assert_array_equal(upper_ends(parts, centers, scales, coverage, n_threads), expected)


@given(seed=st.integers(0, 10_000), n_folds=st.integers(1, 6), coverage=COVERAGES)
def test_sets_hold_the_classes_that_are_not_too_strange(seed, n_folds, coverage):
    rng, folds = make_folds(seed, n_folds)
    candidates = np.round(rng.normal(size=(n_folds, 5, 3)), 1)
    found = sets([ConformalScores.of(*fold) for fold in folds], list(candidates), coverage)
    scores = [naive.repeated(*fold) for fold in folds]
    for row in range(5):
        for k in range(3):
            assert found[row, k] == naive.in_set(scores, candidates[:, row, k], coverage)


@pytest.mark.parametrize("name", ["lac", "aps", "raps"])
def test_scores_of_classes(rng, name):
    probability = np.round(rng.dirichlet(np.ones(6), size=40), 1)  # with ties
    found = SetScore(name, 0.05, 2).of(probability)
    expected = [naive.set_scores(name, row.tolist(), 0.05, 2) for row in probability]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    label = rng.integers(0, 6, 40).astype(float)
    np.testing.assert_array_equal(
        SetScore(name, 0.05, 2).of_labels(probability, label), found[range(40), label.astype(int)]
    )


@pytest.mark.parametrize("n_rows", [1, 5, 9, 10, 19, 100, 999])
@pytest.mark.parametrize("coverage", [0.07, 0.5, 0.8, 0.9, 0.95])
def test_quantile_is_the_smallest_that_covers(n_rows, coverage):
    """Of n + 1 rows in random order, each as likely to be the new one, exactly enough are covered."""
    found = ConformalScores.of(np.arange(n_rows, dtype=float)).quantile(coverage)
    covered = 1.0 if math.isinf(found) else (found + 1) / (n_rows + 1)
    assert covered >= coverage - 1e-9
    assert covered < coverage + 1 / (n_rows + 1) + 1e-9


def test_too_few_rows_promise_nothing():
    part = ConformalScores.of(np.arange(8.0))
    assert upper_ends([part, part], np.zeros((3, 2)), np.ones((3, 2)), 0.95).tolist() == [math.inf] * 3
    assert sets([part], [np.full((1, 2), 100.0)], 0.9).all()
    assert ConformalScores.of(np.arange(9.0)).quantile(0.9) == 8.0


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


def test_ends_that_pass_each_other_meet():
    said = np.array([[0.0, 10.0]] * 30)
    errors = Errors.of(said, np.full(30, 5.0), np.ones(30), None)  # all targets are 5 units inside
    found = intervals([errors.scores((0, 1))], [np.array([[0.0, 10.0], [4.0, 6.0]])], [np.ones(2)], (0, 1), 0.9, 1)
    np.testing.assert_array_equal(found, [[5.0, 5.0], [5.0, 5.0]])


@pytest.mark.parametrize(
    ("levels", "n_columns", "coverage", "expected"),
    [
        (None, 1, 0.9, (0, 0)),
        (None, 3, 0.5, (0, 2)),
        ([0.05, 0.25, 0.5, 0.75, 0.95], 5, 0.9, (0, 4)),
        ([0.05, 0.25, 0.5, 0.75, 0.95], 5, 0.5, (1, 3)),
        ([0.05, 0.25, 0.5, 0.75, 0.95], 5, 0.7, (0, 4)),  # 0.15 is as near to 0.05 as to 0.25: the outer ones
        ([0.1, 0.9], 2, 0.99, (0, 1)),
    ],
)
def test_columns_nearest_to_the_ends(levels, n_columns, coverage, expected):
    assert nearest_columns(levels, n_columns, coverage) == expected


def test_column_nearest_to_the_median():
    assert middle_column([0.1, 0.4, 0.9], 3) == 1
    assert middle_column(None, 3) == 1
    assert middle_column(None, 1) == 0


def test_what_is_not_a_number_ends():
    parts = [ConformalScores.of(np.arange(20.0)), ConformalScores.of(np.arange(30.0))]
    centers = np.array([[np.nan, 0.0], [0.0, np.nan], [np.nan, np.nan], [0.0, 0.0]])
    assert upper_ends(parts, centers, np.ones((4, 2)), 0.5)[3] == 12.0


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, "most", None, float("nan")])
def test_coverage_must_be_a_share(coverage):
    with pytest.raises(ValueError, match="coverage must be a number greater than 0 and less than 1; got"):
        COVERAGE.check("coverage", coverage)
