"""The theory of ensembles against simulation, enumeration and the lecture's numbers."""

from __future__ import annotations

from itertools import product

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from fastens.inspection import theory

mpl.use("Agg")


def test_three_experts_of_the_lecture():
    assert theory.majority_error(3, 0.3) == pytest.approx(0.216)


@pytest.mark.parametrize(
    ("n_voters", "error", "wrong"),
    [(5, 0.3, 0.16308), (11, 0.3, 0.0782247910), (21, 0.3, 0.0263899407), (25, 0.35, 0.0604449136)],
)
def test_majorities_of_independent_voters(n_voters, error, wrong):
    assert theory.majority_error(n_voters, error) == pytest.approx(wrong, abs=5.1e-11)


@pytest.mark.parametrize("ties", ["half", "wrong", "right"])
def test_majority_by_enumeration(ties):
    errors = [0.1, 0.3, 0.45, 0.6]
    total = 0.0
    for wrong in product([0, 1], repeat=4):
        chance = np.prod([e if w else 1 - e for e, w in zip(errors, wrong, strict=True)])
        total += chance * {True: 1.0, False: 0.0}[sum(wrong) > 2] + chance * theory.TIES[ties] * (sum(wrong) == 2)
    assert theory.majority_error(4, errors, ties=ties) == pytest.approx(total)


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.7, 1.0])
def test_correlated_mistakes_have_the_error_and_the_correlation(correlation):
    n, p = 7, 0.3
    chances = theory.mistakes_distribution(n, p, correlation)
    count = np.arange(n + 1)
    mean = chances @ count
    variance = chances @ count**2 - mean**2
    assert chances.sum() == pytest.approx(1)
    assert mean == pytest.approx(n * p)
    assert variance == pytest.approx(n * p * (1 - p) * (1 + (n - 1) * correlation))


def test_average_variance_by_simulation(rng):
    covariance = 2.0 * (0.3 * np.ones((5, 5)) + 0.7 * np.eye(5))
    drawn = rng.multivariate_normal(np.zeros(5), covariance, 200_000).mean(axis=1)
    assert theory.average_variance(2.0, 5, 0.3) == pytest.approx(drawn.var(), rel=0.02)


def test_oob_share_by_simulation(rng):
    missed = [1 - len(np.unique(rng.integers(0, 20, 20))) / 20 for _ in range(4000)]
    assert theory.oob_share(20) == pytest.approx(np.mean(missed), abs=0.005)
    np.testing.assert_allclose(theory.oob_share([1, 2, 4]), [0, 0.25, 0.31640625])


def test_diversity_measures(rng):
    y = rng.integers(0, 3, 200)
    a, b = (np.where(rng.random(200) < 0.7, y, rng.integers(0, 3, 200)) for _ in range(2))
    right_a, right_b = a == y, b == y
    n11, n00 = (right_a & right_b).mean(), (~right_a & ~right_b).mean()
    n10, n01 = (right_a & ~right_b).mean(), (~right_a & right_b).mean()
    assert theory.disagreement(right_a, right_b) == pytest.approx(n10 + n01)
    assert theory.q_statistic(right_a, right_b) == pytest.approx((n11 * n00 - n01 * n10) / (n11 * n00 + n01 * n10))
    assert theory.double_fault(right_a, right_b) == pytest.approx(n00)
    assert theory.error_correlation(right_a, right_b) == pytest.approx(np.corrcoef(right_a, right_b)[0, 1])
    assert theory.kappa(a, b) == pytest.approx(cohen_kappa_score(a, b))
    table = theory.diversity({"a": a, "b": b}, y, "kappa")
    assert table[0, 1] == table[1, 0] == pytest.approx(cohen_kappa_score(a, b))


def test_ambiguity_decomposition(rng):
    y, found, weights = rng.normal(size=50), rng.normal(size=(4, 50)), rng.random(4)
    parts = theory.ambiguity_decomposition(found, y, weights)
    assert parts["ensemble_error"] == pytest.approx(parts["average_error"] - parts["ambiguity"])
    average = weights @ found / weights.sum()
    assert parts["ensemble_error"] == pytest.approx(np.mean((average - y) ** 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.majority_error(0, 0.3), "n_voters must be a whole number of at least 1; got 0"),
        (lambda: theory.majority_error(3, 1.3), "error must be from 0 to 1; got 1.3"),
        (lambda: theory.majority_error(3, [0.1, 0.2]), "error must be a number, or 3 of them"),
        (lambda: theory.majority_error(3, [0.1] * 3, 0.5), "correlation must be 0 where"),
        (lambda: theory.majority_error(3, 0.1, ties="lost"), "ties must be one of"),
        (lambda: theory.average_variance(1.0, 3, -0.9), "correlation must be from -0.5 to 1"),
        (lambda: theory.oob_share(0), "n_rows must be at least 1"),
        (lambda: theory.disagreement([True], [True, False]), "both voters must have the same rows"),
        (lambda: theory.diversity({"a": [1]}, [1], "spread"), "measure must be one of"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_plots(rng):
    y = rng.integers(0, 2, 100)
    votes = {name: np.where(rng.random(100) < 0.8, y, 1 - y) for name in "abc"}
    assert len(theory.plot_majority_error(correlations=(0, 0.5)).lines) == 3
    assert len(theory.plot_average_variance(correlations=(0, 0.5)).lines) == 4
    assert theory.plot_oob_share().get_xscale() == "log"
    assert len(theory.plot_diversity(votes, y).texts) == 9
    assert len(theory.plot_kappa_error(votes, y).lines) == 3
    mpl.pyplot.close("all")
