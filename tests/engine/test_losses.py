"""Losses: starting values, leaf values and the exactness of weights."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize_scalar

from fastens.engine.losses import LOSS_NAMES, get_loss, weighted_mean, weighted_quantile
from reference import losses as naive

MAKE = {name: {"name": name} for name in LOSS_NAMES} | {
    "quantile": {"name": "quantile", "quantile": 0.3},
    "log_loss": {"name": "log_loss", "n_classes": 2},
    "multiclass": {"name": "log_loss", "n_classes": 4},
}


@pytest.fixture(params=MAKE)
def loss(request):
    return get_loss(**MAKE[request.param])


def sample(loss, n_rows, rng):
    """A target, weights and raw predictions."""
    if loss.name == "log_loss":
        y = rng.integers(0, max(2, loss.n_outputs), n_rows).astype(np.float64)
    else:
        y = rng.exponential(size=n_rows)
    return y, rng.integers(1, 5, n_rows).astype(np.float64), rng.standard_normal((loss.n_outputs, n_rows))


def test_start_has_the_least_loss(loss, rng):
    if loss.name == "huber":
        pytest.skip("starts from the median (Friedman 2001)")
    y, weight, _ = sample(loss, 300, rng)
    start = loss.start(y, weight)
    assert start.shape == (loss.n_outputs,)

    def total(shift, output):
        raw = np.repeat(start[:, None], y.size, axis=1)
        raw[output] += shift
        return loss.loss(y, raw, weight)

    for output in range(loss.n_outputs):
        best = minimize_scalar(total, bracket=(-0.1, 0.1), args=(output,))
        assert total(0.0, output) <= best.fun + 1e-12


def test_gradients_are_the_slope_of_the_loss(loss, rng):
    y, _, raw = sample(loss, 50, rng)
    loss.start(y)
    g, h = np.ones((2, loss.n_outputs, 50), np.float32)
    loss.gradients(y, raw, g, h)
    step = 1e-6
    for output in range(loss.n_outputs):
        up, down = raw.copy(), raw.copy()
        up[output] += step
        down[output] -= step
        slope = (loss.loss(y, up) - loss.loss(y, down)) / (2 * step)
        assert slope == pytest.approx(g[output].mean(), rel=1e-4, abs=1e-6)


def test_weights_are_repetition_to_the_bit(loss, rng):
    y, weight, raw = sample(loss, 200, rng)
    rows = rng.permutation(np.repeat(np.arange(200), weight.astype(int)))
    many_raw = np.ascontiguousarray(raw[:, rows])
    np.testing.assert_array_equal(loss.start(y, weight), loss.start(y[rows]))
    loss.start_round(y, raw, weight)
    weighted = loss.loss(y, raw, weight)
    loss.start_round(y[rows], many_raw)
    assert weighted == loss.loss(y[rows], many_raw)
    if loss.renews_leaves:
        residuals = y - raw[0]
        starts, sizes = np.array([0, 50, 50, 200]), np.add.reduceat(weight, [0, 50])
        many = np.repeat(residuals, weight.astype(int))
        many_starts = np.array([0, sizes[0], sizes[0], sizes.sum()], dtype=np.int64)
        np.testing.assert_array_equal(
            loss.leaf_values(residuals.copy(), starts, weight), loss.leaf_values(many, many_starts, n_threads=2)
        )


@settings(max_examples=60, deadline=None)
@given(
    values=hnp.arrays(np.float64, 20, elements=st.floats(-1e6, 1e6)),
    weights=hnp.arrays(np.float64, 20, elements=st.floats(1e-6, 1e6)),
    level=st.floats(0.05, 0.95),
    seed=st.integers(0, 99),
)
def test_means_and_quantiles_ignore_the_order(values, weights, level, seed):
    order = np.random.default_rng(seed).permutation(20)
    mean = weighted_mean(values, weights)
    assert mean == weighted_mean(values[order], weights[order])
    assert mean == pytest.approx(naive.weighted_mean(values, weights), abs=1e-7 * np.abs(values).max() + 1e-300)
    assert weighted_quantile(values, level, weights) == weighted_quantile(values[order], level, weights[order])


@pytest.mark.parametrize("scale", [1e-240, 1.0, 1e300])
def test_mean_at_any_scale(scale):
    values = np.array([1.0, 2.0, 6.0]) * scale
    assert weighted_mean(values) == 3 * scale
    assert weighted_mean(values, np.array([2.0, 1.0, 0.0]) * 1e-200) == pytest.approx(4 / 3 * scale, rel=1e-8)
    assert weighted_mean(np.array([np.inf, 1.0])) == np.inf


def test_mean_of_plain_numbers_is_exact(rng):
    values = rng.standard_normal(1000)
    weights = rng.integers(1, 100, 1000).astype(float)
    assert weighted_mean(values, weights) == pytest.approx(naive.weighted_mean(values, weights), rel=1e-15)
    assert weighted_mean(np.arange(11.0)) == 5


def test_huber_leaves(rng):
    y, weight, raw = sample(get_loss("huber"), 100, rng)
    loss = get_loss("huber", alpha=0.8)
    loss.start_round(y, raw, weight)
    residuals = y - raw[0]
    limit = naive.weighted_quantile(np.abs(residuals), 0.8, weight)
    value = loss.leaf_values(residuals.copy(), np.array([0, 100]), weight)[0]
    assert value == pytest.approx(naive.huber_leaf_value(residuals, limit, weight), rel=1e-9)


def test_huber_learns_where_most_residuals_are_zero():
    y = np.zeros(100)
    y[0] = 7.0
    loss = get_loss("huber")
    raw = np.zeros((1, 100))
    loss.start_round(y, raw)
    g = np.empty((1, 100), np.float32)
    loss.gradients(y, raw, g, None)
    assert g[0, 0] == -7


def test_predictions_are_on_the_scale_of_the_target(loss, rng):
    y, _, raw = sample(loss, 30, rng)
    out = loss.predict(np.ascontiguousarray(raw.T))
    if loss.name == "log_loss":
        assert out.shape == (30, max(2, loss.n_outputs))
        np.testing.assert_allclose(out.sum(axis=1), 1)
        start = loss.predict(np.repeat(loss.start(y)[None], 30, axis=0))
        np.testing.assert_allclose(start[0], np.bincount(y.astype(int)) / y.size)
    else:
        assert out.shape == (30,)
    for row in range(3):
        np.testing.assert_array_equal(loss.predict(np.ascontiguousarray(raw.T[row : row + 1]))[0], out[row])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "hinge"}, "loss must be one of squared_error, .*; got 'hinge'"),
        ({"name": "quantile"}, "quantile must be between 0 and 1 .* got None"),
        ({"name": "quantile", "quantile": 1.0}, "quantile must be between 0 and 1 .* got 1.0"),
        ({"name": "log_loss", "n_classes": 1}, "n_classes must be at least 2 .* got 1"),
    ],
)
def test_errors_of_get_loss(arguments, message):
    with pytest.raises(ValueError, match=message):
        get_loss(**arguments)


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("poisson", [1.0, -2.0], "y must not be negative for loss='poisson'.*-2.0"),
        ("poisson", [0.0, 0.0], "positive sum for loss='poisson'"),
        ("gamma", [1.0, 0.0], "y must be positive for loss='gamma'.*0.0"),
    ],
)
def test_errors_of_targets(name, y, message):
    with pytest.raises(ValueError, match=message):
        get_loss(name).check_target(np.array(y))
