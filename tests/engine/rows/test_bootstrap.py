"""Draws with replacement against the naive twin."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from fastens.engine.rows.sampling import Bootstrap
from reference import bootstrap as twin

SEEDS = np.array([0, 1, 2**63 + 5, 2**64 - 1], dtype=np.uint64)
WEIGHTS = {
    "none": lambda rng, n: None,
    "whole": lambda rng, n: rng.integers(1, 5, n).astype(float),
    "any": lambda rng, n: rng.random(n) + 1e-9,
    "one of all": lambda rng, n: np.where(np.arange(n) == n // 3, 1e300, 5e-324),
    "far apart": lambda rng, n: np.where(rng.random(n) < 0.1, 1e9, 1e-9),
}


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("n_strata", [1, 3])
@pytest.mark.parametrize("n_rows", [4, 97, 400])
def test_equals_the_twin(weights, n_strata, n_rows, rng):
    weight = WEIGHTS[weights](rng, n_rows)
    stratum = np.append(np.arange(n_strata), rng.integers(0, n_strata, n_rows - n_strata))
    n_draws = rng.integers(0, 5 * n_rows, n_strata)
    plan = Bootstrap.plan(rng.integers(0, 2**63, n_rows).astype(np.uint64), weight, n_draws, stratum)
    found = plan.counts(SEEDS)
    ones = np.ones(n_rows) if weight is None else weight
    for i, seed in enumerate(SEEDS.tolist()):
        expected = twin.counts(plan.order.tolist(), ones, plan.offsets.tolist(), plan.draws.tolist(), seed)
        np.testing.assert_array_equal(found[i], expected)
        np.testing.assert_array_equal(np.bincount(stratum, found[i], n_strata), n_draws)
    np.testing.assert_array_equal(plan.counts(SEEDS, n_threads=3), found)


def test_chances_are_in_proportion_to_weights(rng):
    weight = np.array([1.0, 2, 3, 4])
    plan = Bootstrap.plan(np.arange(4, dtype=np.uint64), weight, np.array([10_000]))
    shares = plan.counts(np.arange(20, dtype=np.uint64)).mean(axis=0) / 10_000
    np.testing.assert_allclose(shares, weight / 10, atol=0.004)


def test_samples_of_different_seeds_are_independent():
    plan = Bootstrap.plan(np.arange(200, dtype=np.uint64), None, np.array([200]))
    counts = plan.counts(np.arange(300, dtype=np.uint64))
    assert abs((counts == 0).mean() - (1 - 1 / 200) ** 200) < 0.005
    correlation = np.corrcoef(counts)[np.triu_indices(300, 1)]
    assert abs(correlation.mean()) < 0.005
    assert correlation.std() == pytest.approx(200**-0.5, rel=0.1)


def plan_of(weight, n_draws):
    return Bootstrap.plan(np.arange(len(weight), dtype=np.uint64), np.asarray(weight, float), np.array([n_draws]))


@pytest.mark.slow
@pytest.mark.parametrize("n_draws", [50, 3_000, 10**7, 10**15])
def test_counts_are_multinomial(n_draws):
    """Pearson's statistic of each sample has the chi-square distribution: its mean and variance say so."""
    chances = np.array([1.0, 3, 0.5, 7, 2, 2, 0.01, 5])
    chances /= chances.sum()
    if n_draws < 1_000:
        chances = np.full(8, 0.125)
    counts = plan_of(chances, n_draws).counts(np.arange(20_000, dtype=np.uint64))
    assert (counts.sum(axis=1) == n_draws).all()
    z = (counts - n_draws * chances) / np.sqrt(n_draws * chances * (1 - chances))
    assert np.abs(z.mean(axis=0)).max() < 4.5 / np.sqrt(20_000)
    np.testing.assert_allclose(z.var(axis=0), 1, atol=0.2 if n_draws < 10_000 else 0.06)
    expected = -np.sqrt(np.outer(chances, chances) / np.outer(1 - chances, 1 - chances))
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(np.corrcoef(z.T), expected, atol=0.035)
    if n_draws < 10_000:
        return
    pearson = (z**2 * (1 - chances)).sum(axis=1)
    observed = np.histogram(pearson, chi2.ppf(np.linspace(0, 1, 21), 7))[0]
    assert chisquare(observed).pvalue > 1e-3


def test_copies_are_the_same_as_weights_where_parts_are_split(rng):
    """Parts of [0, 1) begin and end inside rows, at their ends, and between copies of a row."""
    weight = np.concatenate([rng.integers(1, 4, 60), [3_000, 1, 1, 2_048], rng.integers(1, 200, 20)])
    rows = np.repeat(np.arange(len(weight)), weight)
    whole = plan_of(weight, weight.sum()).counts(SEEDS)
    copies = Bootstrap.plan(rows.astype(np.uint64), None, np.array([weight.sum()])).counts(SEEDS)
    for of_rows, of_copies in zip(whole, copies, strict=True):
        np.testing.assert_array_equal(of_rows, np.bincount(rows, of_copies))


def test_time_follows_rows_not_draws(rng):
    weight = rng.integers(1, 10**11, 5_000)
    plan, seeds = plan_of(weight, weight.sum()), np.arange(5, dtype=np.uint64)
    start = time.perf_counter()
    counts = plan.counts(seeds)
    assert time.perf_counter() - start < 2  # some 0.06 s; one by one it would take a week
    assert (counts.sum(axis=1) == weight.sum()).all()
    np.testing.assert_allclose((counts - weight).std(axis=1) / np.sqrt(weight.mean()), 1, atol=0.1)
