"""Intervals and sets from scores of rows not seen, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastens.conformal.scores import (
    COVERAGE,
    ConformalScores,
    HeldOut,
    SetScore,
    intervals,
    middle_column,
    nearest_columns,
    needed_weight,
    sets,
    upper_ends,
)
from reference import conformal as naive

COVERAGES = st.sampled_from([0.07, 0.5, 0.8, 0.9, 0.95, 0.99])


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), n_folds=st.integers(1, 6), coverage=COVERAGES)
def test_sets_hold_the_classes_that_are_not_too_strange(seed, n_folds, coverage):
    rng, folds = naive.make_folds(seed, n_folds)
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


def test_too_few_rows_promise_nothing():
    part = ConformalScores.of(np.arange(8.0))
    assert (
        upper_ends([part, part], np.zeros((3, 2)), np.ones((3, 2)), needed_weight([part, part], 0.95)).tolist()
        == [math.inf] * 3
    )
    assert sets([part], [np.full((1, 2), 100.0)], 0.9).all()
    assert ConformalScores.of(np.arange(9.0)).quantile(0.9) == 8.0


def test_ends_that_pass_each_other_meet():
    said = np.array([[0.0, 10.0]] * 30)
    errors = HeldOut.errors(said, np.full(30, 5.0), np.ones(30), None)  # all targets are 5 units inside
    found = intervals([errors.scores((0, 1))], [np.array([[0.0, 10.0], [4.0, 6.0]])], [np.ones(2)], 0.9, 1)
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


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, "most", None, float("nan")])
def test_coverage_must_be_a_share(coverage):
    with pytest.raises(ValueError, match="coverage must be a number greater than 0 and less than 1; got"):
        COVERAGE.check("coverage", coverage)
