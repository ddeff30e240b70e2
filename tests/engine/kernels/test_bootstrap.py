"""Draws with replacement against the naive twin."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.sampling import Bootstrap
from reference import bootstrap as twin

SEEDS = np.array([0, 1, 2**63 + 5, 2**64 - 1], dtype=np.uint64)
WEIGHTS = {
    "none": lambda rng, n: None,
    "whole": lambda rng, n: rng.integers(1, 5, n).astype(float),
    "any": lambda rng, n: rng.random(n) + 1e-9,
    "far apart": lambda rng, n: np.where(rng.random(n) < 0.1, 1e9, 1e-9),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("n_strata", [1, 3])
@pytest.mark.parametrize("n_rows", [4, 97])
def test_equals_the_twin(weights, n_strata, n_rows, rng):
    weight = WEIGHTS[weights](rng, n_rows)
    stratum = np.append(np.arange(n_strata), rng.integers(0, n_strata, n_rows - n_strata))
    n_draws = rng.integers(0, 2 * n_rows, n_strata)
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
