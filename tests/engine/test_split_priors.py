"""Prior probabilities of splits, and how many splits a node chose from."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.split_priors import SearchCost, split_probability, thresholds_of_features

CODES = np.array([2, 3, 12, 102])  # no threshold at all, 1, 10 and 100 of them


@pytest.mark.parametrize("weight", [1.0, 2.0, 5.5, 50.0, 1000.0])
def test_number_of_splits(weight):
    expected = sum(min(n, weight - 1) for n in (1, 10, 100))
    cost = SearchCost(thresholds_of_features(CODES), None, random_thresholds=False)
    np.testing.assert_allclose(cost.n_splits(np.array([weight])), max(1.0, expected))
    some = SearchCost(thresholds_of_features(CODES), 2, random_thresholds=False)
    np.testing.assert_allclose(some.n_splits(np.array([weight])), max(1.0, expected * 2 / 3))
    random = SearchCost(thresholds_of_features(CODES), 2, random_thresholds=True)
    np.testing.assert_allclose(random.n_splits(np.array([weight])), 2.0)


def test_priors():
    cost = SearchCost(thresholds_of_features(CODES), None, random_thresholds=False)
    left_child = np.array([1, 0, 3, 0, 5, 0, 0], dtype=np.int32)
    weight = np.full(7, 11.0)
    weight[0] = 1000.0
    found = {
        prior: split_probability(prior, left_child, weight, cost) for prior in ("strict", "search", "features", 0.3)
    }
    np.testing.assert_allclose(found["strict"][:2], [1 / 222, 1 / 42])
    np.testing.assert_allclose(found["search"][:2], [0.5 / np.sqrt(111), 0.5 / np.sqrt(21)])
    np.testing.assert_allclose(found["features"], 1 / 6)
    np.testing.assert_allclose(found[0.3], 0.3)
    np.testing.assert_allclose(split_probability((0.95, 2.0), left_child, weight, cost)[[0, 5]], [0.95, 0.95 / 16])


def test_table_without_thresholds():
    cost = SearchCost(thresholds_of_features(np.array([2, 2])), None, random_thresholds=False)
    for prior in ("strict", "search", "features"):
        np.testing.assert_array_equal(split_probability(prior, np.zeros(1, np.int32), np.array([10.0]), cost), 0.5)
