"""Survival losses against formulas and finite differences."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from fastens.engine.losses.ranking_loss import AFT, DISTRIBUTIONS, Cox, concordance, cumulative_hazard
from reference import survival as naive


def censored(rng, n_rows=60, kinds=2):
    """Bounds of times: events, right-censored, left-censored, intervals; with ties."""
    time = np.ceil(4 * rng.exponential(size=n_rows)) / 2
    kind = rng.integers(0, kinds, n_rows)
    low = np.where(kind == 2, 0.0, time)
    high = np.select([kind == 0, kind == 1, kind == 2], [time, np.inf, time], time + 0.7)
    return np.column_stack([low, high])


def derivatives(loss, y, raw, weight=None):
    out = np.empty((2, 1, len(y)), dtype=np.float32)
    loss.start_round(y, raw[None], weight)
    loss.gradients(y, raw[None], out[0], out[1])
    return out[:, 0].astype(np.float64)


def slopes(function, raw, step=1e-5):
    moves = step * np.eye(len(raw))
    return np.array([(function(raw + move) - function(raw - move)) / (2 * step) for move in moves])


def test_cox_loss_and_gradient(rng):
    y, raw = censored(rng), rng.normal(size=60)
    weight = rng.uniform(0.5, 2, 60)
    assert Cox().loss(y, raw[None], weight) == pytest.approx(naive.cox_loss(y, raw, weight) / weight.sum(), rel=1e-9)
    found, bound = derivatives(Cox(), y, raw, weight)
    np.testing.assert_allclose(
        weight * found, slopes(lambda f: naive.cox_loss(y, f, weight), raw), rtol=1e-4, atol=1e-5
    )
    assert (bound > 0).sum() >= (y[:, 0] == y[:, 1]).sum()


@pytest.mark.slow
def test_second_derivatives_of_cox_bound_the_curvature(rng):
    y, raw = censored(rng, 12), rng.normal(size=12)
    weight = np.ones(12)
    hessian = np.array(
        [
            slopes(lambda f, i=i: slopes(lambda g: naive.cox_loss(y, g, weight), f, 1e-3)[i], raw, 1e-3)
            for i in range(12)
        ]
    )
    _, bound = derivatives(Cox(), y, raw, weight)
    assert np.linalg.eigvalsh(np.diag(bound) - (hessian + hessian.T) / 2).min() > -1e-4


def test_cox_weights_are_repetition(rng):
    y, raw, times = censored(rng), rng.normal(size=60), rng.integers(1, 4, 60)
    found = derivatives(Cox(), y, raw, times.astype(float))
    again = derivatives(Cox(), np.repeat(y, times, axis=0), np.repeat(raw, times))
    np.testing.assert_array_equal(np.repeat(found, times, axis=1), again)


def test_cox_does_not_overflow(rng):
    y = censored(rng)
    found = derivatives(Cox(), y, 2000 * rng.normal(size=60))
    assert np.isfinite(found).all()


def test_cox_orders_each_target_once_and_by_itself(rng, monkeypatch):
    sorted_rows, argsort = [], np.argsort
    monkeypatch.setattr(np, "argsort", lambda *args, **options: sorted_rows.append(1) or argsort(*args, **options))
    loss, raw, targets = Cox(), rng.normal(size=60), [censored(rng) for _ in range(3)]
    for _ in range(2):
        for y in targets:
            np.testing.assert_array_equal(derivatives(loss, y, raw), derivatives(Cox(), y, raw))
            assert loss.loss(y, raw[None]) == Cox().loss(y, raw[None])
    assert len(sorted_rows) == 3 + 2 * 2 * 3  # those of `loss`, and those of the new ones


def test_cox_forgets_targets_that_are_gone_and_can_be_copied(rng):
    loss, raw = Cox(), rng.normal(size=60)
    for _ in range(5):
        y = censored(rng)
        np.testing.assert_array_equal(derivatives(loss, y, raw), derivatives(Cox(), y, raw))
        np.testing.assert_array_equal(derivatives(pickle.loads(pickle.dumps(loss)), y, raw), derivatives(loss, y, raw))
    assert len(loss._orders._cached) == 1


def test_cumulative_hazard(rng):
    y, raw = censored(rng), rng.normal(size=60)
    weight = rng.uniform(0.5, 2, 60)
    expected = naive.cumulative_hazard(y, raw, weight, y[:, 0])
    np.testing.assert_allclose(cumulative_hazard(y, np.exp(raw), weight), expected, rtol=1e-10)


@pytest.mark.parametrize("scale", [0.5, 1.7])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_aft_losses_and_derivatives(rng, distribution, scale):
    y, raw = censored(rng, 200, 4), 0.5 * rng.normal(size=200)
    loss = AFT(distribution, scale)
    np.testing.assert_allclose(
        loss.row_losses(y, raw), naive.aft_losses(y, raw, distribution, scale), rtol=1e-7, atol=1e-13
    )
    step = 1e-6
    first, second = loss.derivatives(y, raw)
    expected = (loss.row_losses(y, raw + step) - loss.row_losses(y, raw - step)) / (2 * step)
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-7)
    expected = (loss.derivatives(y, raw + step)[0] - loss.derivatives(y, raw - step)[0]) / (2 * step)
    np.testing.assert_allclose(second, np.maximum(expected, 1e-16), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(derivatives(loss, y, raw), [first, second], rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_aft_far_away(rng, distribution):
    y = censored(rng, 100, 4)
    for raw in (-60.0, 60.0):
        first, second = AFT(distribution, 1.0).derivatives(y, np.full(100, raw))
        assert np.isfinite(first).all()
        assert np.isfinite(second).all()
        assert (second > 0).all()
        one_sided = np.isinf(y[:, 1]) | (y[:, 0] == 0)
        pulls = first[~one_sided] > 0
        assert pulls.all() if raw > 0 else not pulls.any()


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_aft_starts_at_the_constant_of_least_loss(rng, distribution):
    y, weight = censored(rng, 300, 4), rng.uniform(0.5, 2, 300)
    loss = AFT(distribution, 0.8)
    (start,) = loss.start(y, weight)
    assert np.average(loss.derivatives(y, np.full(300, start))[0], weights=weight) == pytest.approx(0, abs=1e-8)


def test_probability_of_later_times_matches_the_distribution():
    times = np.array([0.0, 0.5, 1.0, 3.0])
    found = AFT("extreme", 0.5).predict_survival(np.array([0.0, 1.0]), times)
    np.testing.assert_allclose(found[0], np.exp(-(times**2)), rtol=1e-12)  # Weibull of shape 1 / scale
    assert (found[1, 1:] > found[0, 1:]).all()


def test_concordance(rng):
    y, weight = censored(rng, 80, 4), rng.integers(1, 4, 80).astype(float)
    later = np.round(y[:, 0] + rng.normal(size=80))
    assert concordance(y, later, weight) == pytest.approx(naive.concordance(y, later, weight), rel=1e-12)
    assert concordance(y, later) == pytest.approx(naive.concordance(y, later, np.ones(80)), rel=1e-12)


def test_concordance_of_censored_alone():
    with pytest.raises(ValueError, match="y must hold at least two rows whose order is known for the"):
        concordance(np.array([[1.0, np.inf], [2.0, np.inf]]), np.zeros(2))
