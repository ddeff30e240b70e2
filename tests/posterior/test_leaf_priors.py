"""Priors of leaves: evidence is the product of predictions one row after the other; moments and quantiles by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

from fastens.posterior.leaf_priors import ClassPrior, NumberPrior, RatePrior
from reference import prunings as twin

NUMBERS = NumberPrior(np.array([3.0]), np.array([2.5]), 0.7, 1.3, 0.4)
RATES = RatePrior(np.array([2.2]), 0.6)


def summed(prior, y, weight=None):
    """The statistics of one node."""
    columns = prior.statistics(np.asarray(y, dtype=np.float64))
    return (columns if weight is None else columns * weight).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("alpha", [0.5, 1.0, 0.07])
def test_classes_one_after_the_other(n_classes, alpha, rng):
    prior = ClassPrior(alpha, (n_classes,))
    y = rng.integers(0, n_classes, 50)
    found = prior.log_evidence(summed(prior, y))
    np.testing.assert_allclose(found, twin.dirichlet_sequence(y, alpha, n_classes), rtol=1e-12)


def test_classes_with_an_alpha_of_their_own(rng):
    alphas = (0.6, 0.3, 0.1)
    prior = ClassPrior(alphas, (3,))
    y = rng.integers(0, 3, 700)  # more rows of a class, and in all, than the tables have
    np.testing.assert_allclose(prior.log_evidence(summed(prior, y)), twin.dirichlet_sequence(y, alphas, 3), rtol=1e-12)
    counts = summed(prior, y)
    expected = (counts + np.array(alphas)[:, None]) / (len(y) + 1)
    np.testing.assert_allclose(prior.values(counts), expected, rtol=1e-14)
    beta = stats.beta(expected[2, 0] * (len(y) + 1), (1 - expected[2, 0]) * (len(y) + 1))
    np.testing.assert_allclose(prior.quantile(counts, 0.1, 2), beta.ppf(0.1), rtol=1e-10)
    drawn = np.mean([prior.draw(counts, rng) for _ in range(2000)], axis=0)
    np.testing.assert_allclose(drawn, expected, atol=5 * beta.std() / np.sqrt(2000) * 2)


def test_classes_of_several_targets_are_independent(rng):
    y = np.column_stack([rng.integers(0, 3, 40), rng.integers(0, 2, 40)])
    both = ClassPrior(0.5, (3, 2))
    parts = [ClassPrior(0.5, (n,)) for n in (3, 2)]
    expected = sum(prior.log_evidence(summed(prior, column)) for prior, column in zip(parts, y.T, strict=True))
    np.testing.assert_allclose(both.log_evidence(summed(both, y)), expected, rtol=1e-14)
    values = [prior.values(summed(prior, column)) for prior, column in zip(parts, y.T, strict=True)]
    np.testing.assert_allclose(both.values(summed(both, y)), np.concatenate(values), rtol=1e-14)


def test_weights_of_classes_may_be_fractions_and_large():
    prior = ClassPrior(0.5, (2,))
    counts = np.array([[0.25, 3.0, 70_000.5, 1e6], [1.5, 0.0, 2.0, 3e6]])
    expected = betaln(*(counts + 0.5)) - betaln(0.5, 0.5)
    np.testing.assert_allclose(prior.log_evidence(counts), expected, rtol=1e-12)


def test_numbers_one_after_the_other(rng):
    y = rng.normal(2, 3, 30)
    total = 0.0
    for i, value in enumerate(y):
        freedom, middle, width = NUMBERS._student_parameters(summed(NUMBERS, y[:i]) if i else np.zeros((3, 1)), 0, True)
        total += stats.t.logpdf(value, freedom[0], middle[0], width[0])
    np.testing.assert_allclose(NUMBERS.log_evidence(summed(NUMBERS, y)), total, rtol=1e-12)


def test_numbers_by_the_formula(rng):
    """kn = k0 + n, an = a0 + n / 2, bn = b0 + SS / 2 + k0 n (mean - m0)^2 / (2 kn)."""
    y, weight = rng.normal(5, 1, 12), rng.integers(1, 4, 12).astype(np.float64)
    n, mean = weight.sum(), np.average(y, weights=weight)
    squares = (weight * (y - mean) ** 2).sum()
    m0, k0, a0, b0 = 3.0, 0.7, 1.3, 1.3 * 0.4 * 2.5
    kn, an = k0 + n, a0 + n / 2
    bn = b0 + squares / 2 + k0 * n * (mean - m0) ** 2 / (2 * kn)
    expected = gammaln(an) - gammaln(a0) + a0 * np.log(b0) - an * np.log(bn)
    expected += 0.5 * (np.log(k0) - np.log(kn)) - n / 2 * np.log(2 * np.pi)
    node = summed(NUMBERS, y, weight)
    np.testing.assert_allclose(NUMBERS.log_evidence(node), expected, rtol=1e-12)
    np.testing.assert_allclose(NUMBERS.values(node), (k0 * m0 + n * mean) / kn, rtol=1e-14)
    freedom, middle, width = NUMBERS._student_parameters(node, 0, True)
    np.testing.assert_allclose(freedom, 2 * an)
    np.testing.assert_allclose(middle, (k0 * m0 + n * mean) / kn)
    np.testing.assert_allclose(width**2, bn * (kn + 1) / (an * kn), rtol=1e-13)
    repeated = summed(NUMBERS, np.repeat(y, weight.astype(int)))
    np.testing.assert_allclose(repeated, node, rtol=1e-12)


def test_counts_by_the_formula(rng):
    """log f = a log b - lgam(a) + lgam(a + S) - (a + S) log(b + E) - sum log y!."""
    y = rng.poisson(3, 20).astype(np.float64)
    a, b, s, e = 0.6 * 2.2, 0.6, y.sum(), 20
    expected = a * np.log(b) - gammaln(a) + gammaln(a + s) - (a + s) * np.log(b + e) - gammaln(y + 1).sum()
    node = summed(RATES, y)
    np.testing.assert_allclose(RATES.log_evidence(node), expected, rtol=1e-13)
    np.testing.assert_allclose(RATES.values(node), (a + s) / (b + e), rtol=1e-14)
    one_by_one = sum(stats.nbinom.logpmf(value, a + y[:i].sum(), (b + i) / (b + i + 1)) for i, value in enumerate(y))
    np.testing.assert_allclose(expected, one_by_one, rtol=1e-11)


@pytest.mark.parametrize("of_target", [False, True])
@pytest.mark.parametrize(
    ("prior", "y"), [(ClassPrior(0.5, (3,)), [0, 1, 1, 2, 1]), (NUMBERS, [1.0, 4.0, 2.5]), (RATES, [3, 0, 5, 1])]
)
def test_quantiles_undo_distribution_functions(prior, y, of_target):
    node = np.column_stack([summed(prior, y), 3 * summed(prior, y)])
    for level in (0.01, 0.3, 0.5, 0.99):
        x = prior.quantile(node, level, 0, of_target=of_target)
        found = prior.cdf(node, x, 0, of_target=of_target)
        if prior is RATES and of_target:
            assert (found >= level).all()
            assert (prior.cdf(node, x - 1, 0, of_target=True) < level).all()
        else:
            np.testing.assert_allclose(found, level, rtol=1e-9)


@pytest.mark.parametrize(("prior", "y"), [(ClassPrior(0.5, (2,)), [0, 1, 1]), (NUMBERS, [1.0, 4.0]), (RATES, [3, 0])])
def test_draws_have_the_posterior_mean_and_distribution(prior, y, rng):
    node = np.repeat(summed(prior, y), 4000, axis=1)
    drawn = prior.draw(node, rng)[0]
    column = 1 if isinstance(prior, ClassPrior) else 0
    assert stats.kstest(prior.cdf(node, drawn, column), "uniform").pvalue > 1e-3


def test_targets_that_are_all_the_same_have_evidence():
    prior = NumberPrior(np.array([5.0]), np.array([0.0]), 1.0, 1.0, 0.1)
    assert np.isfinite(prior.log_evidence(summed(prior, [5.0, 5.0]))).all()


@pytest.mark.parametrize("n_rows", [1e13, 1e16, 1e20, 1e300])
def test_shares_of_very_many_rows_are_nearly_known(n_rows):
    prior = ClassPrior(0.5, (2,))
    counts = np.array([[1.0, 0.0, 1e-100, 0.5], [0.0, 1.0, 1.0, 0.5]]) * n_rows
    for column in range(2):
        for level in (0.05, 0.95):
            found = prior.quantile(counts, level, column)
            np.testing.assert_allclose(found, counts[column] / n_rows, atol=1e-6)
            assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(prior.cdf(counts, np.array([0.9, 0.1, 0.1, 0.6]), 0), [0, 1, 1, 1], atol=1e-12)


@pytest.mark.parametrize("n_rows", [1.0, 1e13, 1e17, 1e300])
def test_counts_of_many_rows_are_poisson(n_rows):
    for mean in (0.02, 3.0, 1e6):
        statistics = np.array([[n_rows], [n_rows * mean], [0.0]])
        prior = RatePrior(np.array([mean]), 1e4)
        for level in (0.05, 0.5, 0.95):
            found = prior.quantile(statistics, level, 0, of_target=True)
            np.testing.assert_allclose(found, stats.poisson(mean).ppf(level), rtol=1e-4)
        at = np.array([np.floor(mean)])
        np.testing.assert_allclose(
            prior.cdf(statistics, at, 0, of_target=True), stats.poisson(mean).cdf(at), rtol=1e-3 * max(1, mean / 1e4)
        )


@pytest.mark.slow
@pytest.mark.parametrize("mean", [1e12, 3e15, 1e18, 1e29])
def test_large_counts_are_normal(mean):
    statistics, prior = np.array([[50.0], [50.0 * mean], [0.0]]), RatePrior(np.array([mean]), 1.0)
    deviation = np.sqrt(mean * (1 + 1 / 51))
    for level in (0.05, 0.95):
        found = prior.quantile(statistics, level, 0, of_target=True)
        np.testing.assert_allclose(
            (found - mean) / deviation, stats.norm.ppf(level), atol=max(1e-5, mean / deviation * 1e-15)
        )


def test_new_targets_where_nearly_all_is_known():
    prior = NumberPrior(np.array([3.0]), np.array([2.5]), 0.7, 1e300, 0.4)
    node = summed(prior, [1.0, 4.0], np.array([[1e300, 1e300]]))
    width = np.diff([prior.quantile(node, level, 0, of_target=True)[0] for level in (0.05, 0.95)])
    rate = prior._posterior_parameters(node)[3][0] / prior._posterior_parameters(node)[2]
    np.testing.assert_allclose(width, 2 * stats.norm.ppf(0.95) * np.sqrt(rate), rtol=1e-6)
