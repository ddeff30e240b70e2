"""The theory of ensembles against simulation, enumeration and the lecture's numbers."""

from __future__ import annotations

from itertools import product

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from fastens.inspection import diversity as theory

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


@pytest.mark.parametrize("correlation", [1e-300, 1e-16, 1e-12, 1e-9])
@pytest.mark.parametrize("n", [5, 51])
def test_next_to_no_correlation_changes_next_to_nothing(n, correlation):
    expected = theory.mistakes_distribution(n, 0.3)
    np.testing.assert_allclose(theory.mistakes_distribution(n, 0.3, correlation), expected, rtol=1e-4, atol=1e-12)


def test_no_average_has_a_negative_variance():
    assert min(theory.average_variance(1.0, k, -1 / (k - 1)) for k in range(2, 100)) == 0.0


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
        (lambda: theory.majority_error(3, [0.1, 0.2]), "error must be a number or a list of"),
        (
            lambda: theory.majority_error(3, [0.1] * 3, 0.5),
            r"correlation must be 0 if error lists a different value for each voter\.",
        ),
        (lambda: theory.majority_error(3, 0.1, ties="lost"), "ties must be one of"),
        (lambda: theory.average_variance(1.0, 3, -0.9), "correlation must be from -0.5 to 1"),
        (lambda: theory.oob_share(0), "n_rows must be an integer of at least 1"),
        (
            lambda: theory.disagreement([True], [True, False]),
            "first and second must have the same number of rows; got 1 and 2",
        ),
        (lambda: theory.diversity({"a": [1]}, [1], "spread"), "measure must be one of"),
        (lambda: theory.majority_error(3, np.nan), "error must hold finite numbers; it holds nan"),
        (lambda: theory.majority_error(3, "few"), "error must hold numbers"),
        (
            lambda: theory.majority_error(3, 0.1, np.nan),
            "correlation must be a number at least 0 and at most 1; got nan",
        ),
        (lambda: theory.average_variance(-1.0, 3), "variance must be a number at least 0; got -1.0"),
        (lambda: theory.average_variance(np.nan, 3), "variance must be a number at least 0; got nan"),
        (lambda: theory.average_variance(np.inf, 3), "variance must be a number at least 0; got inf"),
        (lambda: theory.average_variance(1.0, 2.5), "n_members must be a whole number of at least 1; got 2.5"),
        (lambda: theory.average_variance(1.0, 3, np.nan), "correlation must be from -0.5 to 1 for 3 members; got nan"),
        (lambda: theory.oob_share(2.5), r"n_rows must be an integer of at least 1; got 2\.5"),
        (lambda: theory.oob_share([3, np.inf]), "n_rows must hold finite numbers; it holds inf"),
        (lambda: theory.oob_share([]), "n_rows must have 1 axis and a value"),
        (lambda: theory.disagreement(["yes", "no"], ["no", "no"]), "first must hold True and False, or 1 and 0"),
        (lambda: theory.q_statistic([True, False], [0.5, 1]), "second must hold True and False, or 1 and 0"),
        (lambda: theory.double_fault([True], [np.nan]), "second must hold True and False, or 1 and 0"),
        (lambda: theory.error_correlation([], []), "first must have 1 axis and a value"),
        (lambda: theory.kappa(["a"], ["a", "b"]), "first and second must have the same number of rows; got 1 and 2"),
        (lambda: theory.kappa(["a", None], ["a", "b"]), "first must hold labels without missing.*row 1 holds None"),
        (lambda: theory.kappa([1, 2], ["1", "2"]), "first and second must hold labels of one type; got 1 and '1'"),
        (lambda: theory.ambiguity_decomposition([[1.0, np.nan]], [1.0, 2.0]), "predictions must hold finite numbers"),
        (lambda: theory.ambiguity_decomposition([[1.0]], [1.0, 2.0]), r"got \(1, 1\) and \(2,\)"),
        (
            lambda: theory.ambiguity_decomposition([[1.0]], [1.0], [0.0]),
            "weights must have a non-negative number for each of the",
        ),
        (
            lambda: theory.ambiguity_decomposition([[1.0]] * 2, [1.0], [2, -1]),
            "weights must have a non-negative number for each of the",
        ),
        (lambda: theory.diversity({"a": [1]}, [1, 0]), r"y and predictions\['a'\] must have the same.*got 2 and 1"),
        (lambda: theory.diversity({"a": [1, np.nan]}, [1, 0]), r"predictions\['a'\] must hold labels without missing"),
        (lambda: theory.diversity({"a": [1, 0]}, ["1", "0"]), "must hold labels of one type"),
        (lambda: theory.diversity({"a": [1.2, 2]}, [0.5, 2]), "y must hold labels"),
        (lambda: theory.diversity({}, [1]), "predictions must be a non-empty dict that maps members to labels"),
        (
            lambda: theory.diversity([[1, 0]], [1, 0]),
            "predictions must be a non-empty dict that maps members to labels",
        ),
        (lambda: theory.plot_kappa_error({"a": [1]}, [1]), "predictions must have at least two members"),
        (lambda: theory.plot_kappa_error({"a": [1], "b": [1]}, [1, 0]), "must have the same number of rows"),
        (lambda: theory.plot_majority_error(n_voters=0), "n_voters must be a whole number of at least 1; got 0"),
        (lambda: theory.plot_majority_error(correlations=()), "correlations must be a sequence of at least one"),
        (lambda: theory.plot_average_variance(-1.0), "variance must be a number at least 0; got -1.0"),
        (lambda: theory.plot_oob_share(np.nan), "n_rows must be a whole number of at least 1; got nan"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_one_label_in_two_rows_is_not_spread_over_all_rows():
    with pytest.raises(ValueError, match="same number of rows"):
        theory.diversity({"a": [1, 0, 1], "b": [1]}, [1, 0, 1])
    with pytest.raises(ValueError, match="same number of rows"):
        theory.diversity({"a": [1, 0, 1], "b": [1, 1, 1]}, [1])


def test_weights_of_members_may_be_large_or_small():
    parts = [theory.ambiguity_decomposition([[1.0], [3.0]], [2.0], [w, w]) for w in (1.0, 1e308, 1e-308)]
    assert parts[0] == parts[1] == parts[2] == {"ensemble_error": 0.0, "average_error": 1.0, "ambiguity": 1.0}


def test_plots(rng):
    y = rng.integers(0, 2, 100)
    votes = {name: np.where(rng.random(100) < 0.8, y, 1 - y) for name in "abc"}
    assert len(theory.plot_majority_error(correlations=(0, 0.5)).lines) == 3
    assert len(theory.plot_average_variance(correlations=(0, 0.5)).lines) == 4
    assert theory.plot_oob_share().get_xscale() == "log"
    assert len(theory.plot_diversity(votes, y).texts) == 9
    assert len(theory.plot_kappa_error(votes, y).lines) == 3
    mpl.pyplot.close("all")
