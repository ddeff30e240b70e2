"""Distributions: likelihoods, means and information against scipy.stats, and the score of predicted distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats
from scipy.optimize import minimize

from fastens import crps, negative_log_likelihood
from fastens.engine.losses.loss_names import DISTRIBUTIONS, classification_loss, regression_loss
from fastens.engine.losses.zero_inflated import zero_inflated_poisson
from fastens.monitoring.distribution_scores import _integrals

# Raw predictions of one row, and a draw of targets with about these parameters.
CASES = {
    "normal": ([5.0, 1.1], lambda rng, n: rng.normal(5, 3, n)),
    "lognormal": ([1.0, -0.7], lambda rng, n: rng.lognormal(1, 0.5, n)),
    "student_t": ([3.0, 0.7, 1.4], lambda rng, n: 3 + 2 * rng.standard_t(4, n)),
    "gamma_dist": ([2.0, 0.9], lambda rng, n: rng.gamma(2.5, 3, n)),
    "weibull": ([1.3, 0.5], lambda rng, n: 4 * rng.weibull(1.7, n)),
    "beta": ([-0.9, 2.0], lambda rng, n: rng.beta(2, 5, n)),
    "negative_binomial": ([1.9, 1.1], lambda rng, n: rng.negative_binomial(3, 0.3, n).astype(float)),
    "zero_inflated_poisson": ([1.1, 0.4], lambda rng, n: rng.poisson(3, n) * (rng.random(n) < 0.6) * 1.0),
}
SPREAD = 0.4


def test_every_distribution_has_a_case():
    assert set(CASES) == set(DISTRIBUTIONS)


@pytest.fixture(params=CASES)
def case(request, rng):
    raw, draw = CASES[request.param]
    y = draw(rng, 600)
    return regression_loss(request.param), y, np.array(raw)[:, None] + SPREAD * rng.normal(size=(len(raw), len(y)))


def test_likelihood_and_mean_match_scipy(case):
    loss, y, raw = case
    dist = loss.frozen(np.ascontiguousarray(raw.T))
    expected = dist.logpmf(y) if hasattr(dist.dist, "pmf") else dist.logpdf(y)
    np.testing.assert_allclose(loss._compute_row_losses(y, raw), -expected, rtol=1e-10, atol=1e-12)
    assert negative_log_likelihood(y, dist) == pytest.approx(loss.loss(y, raw))
    np.testing.assert_allclose(loss.predict(np.ascontiguousarray(raw.T)), dist.mean(), rtol=1e-12)


def test_gradients_are_slopes_of_every_row(case):
    loss, y, raw = case
    first, _ = loss.derivatives(y, raw)
    for k in range(loss.n_outputs):
        step = np.zeros((loss.n_outputs, 1))
        step[k] = 1e-6
        slope = (loss._compute_row_losses(y, raw + step) - loss._compute_row_losses(y, raw - step)) / 2e-6
        np.testing.assert_allclose(first[k], slope, rtol=1e-5, atol=1e-6)


def test_hessians_are_the_expected_squared_gradients(case):
    loss, _, _ = case
    constants = np.array(CASES[loss.name][0])
    n = 200_000
    y = np.asarray(loss.frozen(constants[None]).rvs(size=n, random_state=1), dtype=np.float64)
    first, second = loss.derivatives(y, np.broadcast_to(constants[:, None], (len(constants), n)))
    tolerance = 0.15 if loss.name == "negative_binomial" else 0.03
    np.testing.assert_allclose((first**2).mean(axis=1), second.mean(axis=1), rtol=tolerance)
    assert np.abs(first.mean(axis=1) / np.sqrt(second.mean(axis=1))).max() < 0.02


@pytest.mark.parametrize("size", [0.3, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("mean", [0.05, 0.5, 2.0, 10.0, 100.0])
def test_information_of_the_size_is_not_too_low(mean, size):
    """Summed over all counts, it is 1 to 2 times the expected square: steps are never too long."""
    loss, dist = regression_loss("negative_binomial"), stats.nbinom(size, size / (size + mean))
    counts = np.arange(dist.ppf(1 - 1e-10) + 2)
    raw = np.repeat(np.log([[mean], [size]]), len(counts), axis=1)
    first, second = loss.derivatives(counts, raw)
    assert 0.99 < second[1, 0] / (dist.pmf(counts) * first[1] ** 2).sum() < 2


def test_start_has_the_highest_likelihood(case):
    loss, y, _ = case
    start = loss.start(y)

    def total(constants):
        return loss.loss(y, np.repeat(np.asarray(constants)[:, None], len(y), axis=1))

    best = minimize(total, start + 0.05, method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-13, "maxiter": 5000})
    assert total(start) <= best.fun + 1e-10


def test_ordered_classes_are_a_cumulative_link_model(rng):
    """Probabilities are differences of falling logistic functions, and hessians are expected squared gradients."""
    loss, raw = classification_loss("ordinal", 5), rng.normal(size=(4, 300))
    odds = raw[0] - np.vstack([np.zeros(300), np.cumsum(np.exp(raw[1:]), axis=0)])
    above = np.vstack([np.ones(300), special.expit(odds), np.zeros(300)])
    probability = loss.predict(np.ascontiguousarray(raw.T))
    np.testing.assert_allclose(probability, -np.diff(above, axis=0).T, rtol=1e-9)
    expected = np.zeros((4, 300))
    for k in range(5):
        first, second = loss.derivatives(np.full(300, float(k)), raw)
        expected += probability[:, k] * first**2
        np.testing.assert_allclose(
            loss._compute_row_losses(np.full(300, float(k)), raw), -np.log(probability[:, k]), rtol=1e-9
        )
    np.testing.assert_allclose(second, expected, rtol=1e-9)
    far = np.array([[30.0, -30.0], [-7.0, 4.0], [-7.0, 4.0], [-7.0, 4.0]])
    for k in range(5):
        assert np.isfinite(loss._compute_row_losses(np.full(2, float(k)), far)).all()


def test_dispersion_of_errors(rng):
    y, weight = np.exp(2 + 3 * rng.normal(size=4000)), rng.integers(0, 3, 4000).astype(float)
    raw = np.stack([np.full(4000, 2.0), np.log(rng.uniform(1, 2, 4000))])
    power = stats.norm().expect(lambda z: np.abs(z) ** 1.5)
    z = np.abs(np.log(y) - 2) / np.exp(raw[1])
    expected = np.log(np.average(z**1.5, weights=weight) / power) / 1.5
    for name, target in (("lognormal", y), ("normal", np.log(y))):
        found = regression_loss(name).log_dispersion(target, raw, weight)
        np.testing.assert_allclose(found, [0, expected], rtol=1e-9)
    assert regression_loss("normal").log_dispersion(raw[0], raw).tolist() == [0, -1]
    assert regression_loss("student_t").log_dispersion(y, np.zeros((3, 4000))) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal", "student_t"])
def test_constant_targets_have_a_start(name):
    for value in (2.0, 0.0, -1e20):
        start = regression_loss(name).start(np.full(10, value))
        assert start[0] == pytest.approx(value)
        assert np.isfinite(start).all()


@pytest.mark.parametrize(
    ("name", "y", "rule"),
    [
        ("lognormal", [0.0, 1.0], "be positive"),
        ("gamma_dist", [-1.0, 1.0], "be positive"),
        ("weibull", [0.0, 1.0], "be positive"),
        ("beta", [0.0, 0.5], "be above 0 and below 1"),
        ("negative_binomial", [0.5, 1.0], "hold non-negative integers"),
        ("zero_inflated_poisson", [-1.0, 1.0], "hold non-negative integers"),
    ],
)
def test_wrong_targets(name, y, rule):
    with pytest.raises(ValueError, match=f"y must {rule} for loss='{name}'; got values from"):
        regression_loss(name).check_target(np.array(y))


def test_zero_inflated_poisson_is_consistent():
    dist = zero_inflated_poisson(np.array([0.5, 4.0]), np.array([0.3, 0.6]))
    counts = np.arange(60)[:, None]
    mass = dist.pmf(counts)
    np.testing.assert_allclose(mass.sum(axis=0), 1)
    np.testing.assert_allclose(np.log(mass), dist.logpmf(counts))
    np.testing.assert_allclose(mass.cumsum(axis=0), dist.cdf(counts))
    np.testing.assert_allclose((counts * mass).sum(axis=0), dist.mean())
    np.testing.assert_allclose(((counts - dist.mean()) ** 2 * mass).sum(axis=0), dist.var())
    for level in (0.1, 0.5, 0.9, 0.999):
        quantile = dist.ppf(level)
        assert (dist.cdf(quantile) >= level).all()
        assert ((quantile == 0) | (dist.cdf(quantile - 1) < level)).all()
    draws = dist.rvs(size=(20_000, 2), random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), dist.mean(), rtol=0.05)


@pytest.mark.parametrize(
    ("dist", "y"),
    [
        (stats.norm([1.0], 2.0), 2.0),
        (stats.t(5.0, [1.0], 2.0), 4.0),
        (stats.gamma(0.7, 0, [3.0]), 0.1),
        (stats.lognorm(1.5, 0, [2.0]), 9.0),
        (stats.beta([2.0], 5.0), 0.4),
    ],
)
def test_crps_is_the_integral_of_its_definition(dist, y):
    low, high = (float(end[0]) for end in dist.support())
    expected = integrate.quad(lambda x: dist.cdf(x)[0] ** 2, low, y)[0]
    expected += integrate.quad(lambda x: dist.sf(x)[0] ** 2, y, high)[0]
    assert crps([y], dist) == pytest.approx(expected, rel=1e-6)
    assert _integrals(np.array([y]), dist)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("df", [1.5, 3.0, 30.0])
@pytest.mark.parametrize("z", [0.0, 2.0, 40.0])
def test_crps_of_heavy_tails(df, z):
    """The closed form of Jordan, Krueger & Lerch (2019)."""
    t = stats.t(df)
    expected = z * (2 * t.cdf(z) - 1) + 2 * t.pdf(z) * (df + z * z) / (df - 1)
    expected -= 2 * np.sqrt(df) / (df - 1) * special.beta(0.5, df - 0.5) / special.beta(0.5, df / 2) ** 2
    assert crps([7 + 2 * z], stats.t(df, [7.0], 2.0)) == pytest.approx(2 * expected, rel=1e-5)


def test_crps_of_counts_is_the_mean_absolute_error_less_half_the_mean_difference(rng):
    dist, y = stats.nbinom(3, [0.3, 0.5]), np.array([2.0, 9.0])
    first, second = dist.rvs(size=(2, 200_000, 2), random_state=0)
    expected = np.abs(first - y).mean(axis=0) - 0.5 * np.abs(first - second).mean(axis=0)
    weight = [1.0, 3.0]
    assert crps(y, dist, weight) == pytest.approx(np.average(expected, weights=weight), rel=0.01)
    counts, y = np.arange(8_000), 3_350.0  # only 1e-10 of the mass is above y
    exact = np.sum((stats.poisson(3_000).cdf(counts) - (counts >= y)) ** 2)
    assert crps([y], stats.poisson([3_000.0])) == pytest.approx(exact, rel=1e-3)
    many = stats.poisson(np.array([50_000.0]))  # too many counts to sum: nearly normal
    assert crps([50_300.0], many) == pytest.approx(crps([50_300.0], stats.norm([50_000.0], np.sqrt(50_000))), rel=0.01)
