"""Losses: starting values, leaf values and the exactness of weights."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import minimize_scalar

from fastens.engine.losses.loss_names import REGRESSION, classification_loss, regression_loss
from fastens.engine.losses.losses import (
    BinaryLogLoss,
    Huber,
    MulticlassLogLoss,
    weighted_mean,
    weighted_quantile,
)
from fastens.engine.losses.numeric_losses import CrossEntropy, CustomLoss, LogCosh
from reference import losses as naive

MAKE = {name: lambda name=name: regression_loss(name, 0.3) for name in REGRESSION} | {
    "quantiles": lambda: regression_loss("quantile", [0.1, 0.5, 0.8]),
    "expectiles": lambda: regression_loss("expectile", [0.1, 0.5, 0.8]),
    "log_loss": lambda: classification_loss("log_loss", 2),
    "multiclass": lambda: classification_loss("log_loss", 4),
    "exponential": lambda: classification_loss("exponential", 2),
    "ordinal": lambda: classification_loss("ordinal", 4),
}
OF_CLASSES = {"log_loss", "exponential", "ordinal"}


def n_classes_of(loss):
    return max(2, loss.n_outputs + (loss.name == "ordinal"))


@pytest.fixture(params=MAKE)
def loss(request):
    return MAKE[request.param]()


def sample(loss, n_rows, rng):
    """A target, weights and raw predictions."""
    if loss.name in OF_CLASSES:
        y = rng.integers(0, n_classes_of(loss), n_rows).astype(np.float64)
    elif loss.name.startswith("cross_entropy") or loss.name == "beta":
        y = rng.random(n_rows)
    elif loss.name in ("negative_binomial", "zero_inflated_poisson"):
        y = rng.poisson(2.0 * rng.exponential(size=n_rows)).astype(np.float64)
    else:
        y = rng.exponential(size=n_rows)
    raw = rng.standard_normal((loss.n_outputs, n_rows))
    raw[2:] = np.abs(raw[2:]) if loss.name == "student_t" else raw[2:]  # at least one degree of freedom
    return y, rng.integers(1, 5, n_rows).astype(np.float64), raw


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
        if loss.name in ("quantile", "expectile"):
            slope *= loss.n_outputs  # the loss is the mean over the levels
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
    if loss.renews_leaves and loss.n_outputs == 1:
        residuals = y - raw[0]
        starts, sizes = np.array([0, 50, 50, 200]), np.add.reduceat(weight, [0, 50])
        many = np.repeat(residuals, weight.astype(int))
        many_starts = np.array([0, sizes[0], sizes[0], sizes.sum()], dtype=np.int64)
        np.testing.assert_array_equal(
            loss.leaf_values(residuals.copy(), starts, weight), loss.leaf_values(many, many_starts, n_threads=2)
        )


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
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
    y, weight, raw = sample(MAKE["huber"](), 100, rng)
    loss = Huber(0.8)
    loss.start_round(y, raw, weight)
    residuals = y - raw[0]
    limit = naive.weighted_quantile(np.abs(residuals), 0.8, weight)
    value = loss.leaf_values(residuals.copy(), np.array([0, 100]), weight)[0]
    assert value == pytest.approx(naive.huber_leaf_value(residuals, limit, weight), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-15, 0.1, 1.0, 1e6])
def test_leaves_of_log_cosh(rng, scale):
    """The median, and the mean of the rest cut at 1: where residuals are small numbers, the mean, with all digits."""
    y, weight, raw = sample(MAKE["log_cosh"](), 100, rng)
    loss, residuals = MAKE["log_cosh"](), scale * (y - raw[0])
    loss.start_round(residuals, np.zeros_like(raw), weight)
    value = loss.leaf_values(residuals.copy(), np.array([0, 100]), weight)[0]
    assert value == pytest.approx(naive.huber_leaf_value(residuals, 1.0, weight), rel=1e-9)
    if scale < 0.1:
        assert value == pytest.approx(np.average(residuals, weights=weight), rel=1e-9)


def test_leaves_of_rows_of_next_to_no_weight_have_values():
    loss = MAKE["huber"]()
    y = np.array([0.0, 1.0, 5.0, 1.0, 2.0, 3.0])
    weight = np.array([1.0, 1.0, 1.0, 1e-12, 1e-12, 1e-12])
    loss.start(y, weight)
    starts = np.array([0, 3, 6])
    np.testing.assert_allclose(loss.leaf_values(y.copy(), starts, weight)[1], 2.0)
    absolute = MAKE["absolute_error"]()
    np.testing.assert_array_equal(absolute.leaf_values(y.copy(), starts, weight), [1.0, 2.0])


def test_huber_learns_where_most_residuals_are_zero():
    y = np.zeros(100)
    y[0] = 7.0
    loss = MAKE["huber"]()
    raw = np.zeros((1, 100))
    loss.start_round(y, raw)
    g = np.empty((1, 100), np.float32)
    loss.gradients(y, raw, g, None)
    assert g[0, 0] == -7


def test_predictions_are_on_the_scale_of_the_target(loss, rng):
    y, _, raw = sample(loss, 30, rng)
    out = loss.predict(np.ascontiguousarray(raw.T))
    if loss.name in OF_CLASSES:
        assert out.shape == (30, n_classes_of(loss))
        np.testing.assert_allclose(out.sum(axis=1), 1)
        start = loss.predict(np.repeat(loss.start(y)[None], 30, axis=0))
        np.testing.assert_allclose(start[0], np.bincount(y.astype(int)) / y.size)
    else:
        assert out.shape == ((30, loss.n_outputs) if loss.has_levels else (30,))
    for row in range(3):
        np.testing.assert_array_equal(loss.predict(np.ascontiguousarray(raw.T[row : row + 1]))[0], out[row])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: regression_loss("quantile"), "quantile must be between 0 and 1 .* got None"),
        (lambda: regression_loss("quantile", 1.0), "quantile must be between 0 and 1 .* got 1.0"),
        (
            lambda: regression_loss("expectile", [0.1, 0.1]),
            "quantile must list ascending levels for loss=",
        ),
        (lambda: regression_loss("quantile", [0.5, 0.1]), "quantile must list ascending levels for loss="),
        (lambda: regression_loss("quantile", []), "quantile must list ascending levels for loss="),
        (
            lambda: classification_loss("exponential", 3),
            "Only binary classification is supported with loss=",
        ),
    ],
)
def test_errors_of_options(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("poisson", [1.0, -2.0], "y must not be negative for loss='poisson'.*-2.0"),
        ("poisson", [0.0, 0.0], "positive sum for loss='poisson'"),
        ("gamma", [1.0, 0.0], "y must be positive for loss='gamma'.*0.0"),
        ("tweedie", [1.0, -2.0], "y must be non-negative for loss='tweedie'; got values from"),
        ("tweedie", [0.0, 0.0], "y must have at least one positive value for loss='tweedie'; all its"),
        ("cross_entropy", [0.5, 1.5], "between 0 and 1 for loss='cross_entropy'; got values from 0.5 to 1.5"),
        ("cross_entropy", [1.0, 1.0], "must not be all 0 or all 1"),
    ],
)
def test_errors_of_targets(name, y, message):
    loss, checks = MAKE[name](), ("check_target", "check_start")
    with pytest.raises(ValueError, match=message):
        _ = [getattr(loss, check)(np.array(y)) for check in checks]


@pytest.mark.parametrize("name", ["tweedie", "exponential"])
def test_damped_steps_end_where_the_leaf_has_the_least_loss(name, rng):
    loss = MAKE[name]()
    y, _, _ = sample(loss, 40, rng)
    raw = rng.standard_normal((1, 40))
    g, h = np.ones((2, 1, 40), np.float32)
    loss.gradients(y, raw, g, h)
    step = loss.damped(np.array([-g.sum() / h.sum()]))[0]
    best = minimize_scalar(lambda shift: loss.loss(y, raw + shift), bracket=(step - 0.5, step + 0.5))
    assert step == pytest.approx(best.x, abs=1e-4)


def test_newton_steps_of_log_cosh_never_go_up(rng):
    """Its own curvature vanishes for outliers, and would throw leaves of them far away."""
    loss = LogCosh(by_newton=True)
    y, raw = np.array([300.0, 310.0, -5.0]), np.zeros((1, 3))
    for _ in range(50):
        before = loss.loss(y, raw)
        g, h = np.ones((2, 1, 3), np.float32)
        loss.gradients(y, raw, g, h)
        raw = raw - g.sum() / h.sum()
        assert loss.loss(y, raw) <= before + 1e-9
    assert 290 < raw[0, 0] < 310


@pytest.mark.parametrize("difference", [1e-12, 1e-8, 1e-5, 1e-3, 0.019, 0.021, 0.5])
def test_log_cosh_of_small_targets(difference):
    """Differences of numbers near 1 would leave it no digits."""
    loss, y = MAKE["log_cosh"](), np.array([0.0, 0.0])
    raw = np.array([difference, -difference])
    np.testing.assert_allclose(loss.derivatives(y, raw)[0], np.tanh(raw), rtol=1e-12)
    exact = np.log1p(2 * np.sinh(raw / 2) ** 2)
    np.testing.assert_allclose(loss.row_losses(y, raw), exact, rtol=1e-11)


@pytest.mark.parametrize("name", ["log_cosh", "expectile"])
def test_starting_values_of_targets_far_from_0(name, rng):
    y = np.round(rng.exponential(size=200) * 2**20) / 2**20
    near, (far,) = MAKE[name]().start(y), MAKE[name]().start(y + 2.0**32)
    assert far - 2.0**32 == pytest.approx(near, abs=2e-6)


@pytest.mark.parametrize(("heavy", "light"), [(0.0, 1.0), (0.0, 0.5), (1.0, 0.0), (1.0, 0.5)])
def test_shares_of_little_weight_keep_the_start_of_cross_entropy_finite(heavy, light):
    y, weight = np.array([heavy, light]), np.array([2.0**40, 1.0])
    (start,) = MAKE["cross_entropy"]().start(y, weight)
    assert start == pytest.approx(np.log((y @ weight) / ((1 - y) @ weight)), rel=1e-12)
    assert np.isfinite(MAKE["cross_entropy"]().start(np.array([1.0] * 9 + [1 - 2.0**-53]))).all()


def squares(y, raw):
    return raw - y, np.ones_like(y)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda y, raw: raw, "must return a tuple of gradients and hessians; got ndarray"),
        (lambda y, raw: (raw[:1], raw), "gradients of shape .*; got .1"),
        (lambda y, raw: (raw, raw * np.nan), "finite hessians; got nan"),
        (lambda y, raw: (raw, raw - 1), "hessians of at least 0; got -1"),
    ],
)
def test_errors_of_custom_losses(found, message):
    with pytest.raises(ValueError, match=message):
        CustomLoss(found).derivatives(np.zeros(3), np.zeros(3))


def test_a_custom_loss_that_says_everything():
    class Everything:
        derivatives = staticmethod(squares)

        def start(self, y, sample_weight):
            return float(np.average(y, weights=sample_weight))

        def loss(self, y, raw):
            return (y - raw) ** 2

        def predict(self, raw):
            return raw + 1

    loss = CustomLoss(Everything())
    y = np.array([1.0, 2.0, 6.0])
    assert loss.start(y) == 3
    assert loss.loss(y, np.zeros((1, 3))) == pytest.approx(41 / 3)
    np.testing.assert_array_equal(loss.predict(np.zeros((2, 1))), [1, 1])
    plain = CustomLoss(squares)
    assert plain.start(y) == 0
    assert np.isnan(plain.loss(y, np.zeros((1, 3))))


@pytest.mark.parametrize("n_classes", [2, 3, 256, 257])
def test_labels_in_bytes_give_the_same_derivatives_and_losses(n_classes, rng):
    loss = BinaryLogLoss() if n_classes == 2 else MulticlassLogLoss(n_classes)
    y, raw = rng.integers(n_classes, size=2100).astype(float), rng.normal(size=(loss.n_outputs, 2100))
    y[0] = n_classes - 1
    assert loss.narrowed(y).dtype == (np.uint8 if n_classes <= 256 else np.float64)
    found = [np.empty((2, *raw.shape), np.float32) for _ in range(2)]
    for targets, (g, h) in zip((y, loss.narrowed(y)), found, strict=True):
        loss.gradients(targets, raw, g, h, 2)
    np.testing.assert_array_equal(*found)
    assert loss.loss(y, raw) == loss.loss(loss.narrowed(y), raw)
    assert CrossEntropy().narrowed(y) is y
