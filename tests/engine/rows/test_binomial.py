"""Heads among fair coins against the naive twin, and against the distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chisquare, norm

from fastens.engine.rows import draws as binomial
from fastens.engine.rows.sampling import stream_seeds
from reference import binomial as twin


def heads(n, n_times):
    out = np.empty(n_times, dtype=np.int64)
    binomial.heads(stream_seeds(3, 0, n_times), n, out)
    return out


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000, 1024, 1025, 5000, 10**6 + 1, 2**40, 2**53 - 1, 2**53])
def test_equals_the_twin(n):
    assert heads(n, 300).tolist() == [twin.heads(seed, n) for seed in stream_seeds(3, 0, 300).tolist()]


@pytest.mark.parametrize("n", [1, 2, 70, 1024, 1025, 1026, 20_000])
def test_counts_have_the_chances_of_the_binomial_distribution(n):
    n_times = 200_000
    found = heads(n, n_times)
    cuts = np.unique(binom.ppf(np.linspace(0, 1, 102)[1:-1], n, 0.5))
    chances = np.diff(np.concatenate([[0.0], binom.cdf(cuts, n, 0.5), [1.0]]))
    kept = chances > 0
    observed = np.bincount(np.searchsorted(cuts, found), minlength=len(chances))
    assert (observed[~kept] == 0).all()
    assert chisquare(observed[kept], n_times * chances[kept]).pvalue > 1e-3


@pytest.mark.parametrize("n", [10**9, 10**9 + 1, 2**53 - 1, 2**53])
def test_counts_of_many_coins_are_normal(n):
    n_times = 100_000
    standard = 2 * (heads(n, n_times) - n / 2) / np.sqrt(n)
    observed = np.histogram(standard, np.concatenate([[-np.inf], norm.ppf(np.linspace(0, 1, 101)[1:-1]), [np.inf]]))[0]
    assert chisquare(observed).pvalue > 1e-3
    assert abs(standard.mean()) < 4 / np.sqrt(n_times)
    assert standard.var() == pytest.approx(1, abs=6 * np.sqrt(2 / n_times))
