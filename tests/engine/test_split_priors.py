"""Prior probabilities of splits, and how many splits a node chose from."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.split_priors import SearchCost, split_probability, thresholds_of_features

CODES = np.array([2, 3, 12, 102])  # no threshold at all, 1, 10 and 100 of them
THRESHOLDS = thresholds_of_features(CODES)
FEATURE = np.array([1, 2, 3], dtype=np.int32)


@pytest.mark.parametrize("weight", [1.0, 2.0, 5.5, 50.0, 1000.0])
def test_number_of_splits(weight):
    of_features = np.array([max(1.0, min(n, weight - 1)) for n in (1, 10, 100)])
    weights = np.full(3, weight)
    for looked_at, n in ((None, 3), (2, 2), (4, 3)):
        cost = SearchCost(THRESHOLDS, looked_at, random_thresholds=False)
        np.testing.assert_allclose(cost.n_splits(weights, FEATURE), n * of_features)
        cost = SearchCost(THRESHOLDS, looked_at, random_thresholds=True)
        np.testing.assert_allclose(cost.n_splits(weights, FEATURE), n)


def test_priors_of_all_splits_add_up_to_a_half():
    """A node of many rows: each of its splits by "strict", which is a probability over them."""
    cost = SearchCost(THRESHOLDS, None, random_thresholds=False)
    features = np.repeat(np.arange(4), THRESHOLDS.astype(int)).astype(np.int32)
    each = split_probability("strict", features, features, np.full(len(features), 1000.0), cost)
    np.testing.assert_allclose(np.sum(each), 0.5)


def test_priors():
    cost = SearchCost(THRESHOLDS, None, random_thresholds=False)
    left_child = np.array([1, 0, 3, 0, 5, 0, 0], dtype=np.int32)
    feature = np.array([3, -1, 2, -1, 1, -1, -1], dtype=np.int32)
    weight = np.full(7, 1000.0)
    priors = ("strict", "search", "features", 0.3, (0.95, 2.0))
    found = {prior: split_probability(prior, left_child, feature, weight, cost) for prior in priors}
    np.testing.assert_allclose(found["strict"][[0, 2, 4]], [1 / 600, 1 / 60, 1 / 6])
    np.testing.assert_allclose(found["search"][[0, 2, 4]], 0.5 * np.array([300, 30, 3]) ** (-2 / 3))
    assert (found["features"], found[0.3]) == (1 / 6, 0.3)
    np.testing.assert_allclose(found[0.95, 2.0][[0, 2, 4]], [0.95, 0.95 / 4, 0.95 / 9])


def test_table_without_thresholds():
    cost = SearchCost(np.zeros(2), None, random_thresholds=False)
    for prior in ("strict", "search", "features"):
        found = split_probability(prior, np.zeros(1, np.int32), np.full(1, -1, np.int32), np.array([10.0]), cost)
        np.testing.assert_array_equal(found, 0.5)
