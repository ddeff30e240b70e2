"""Prior probabilities of splits, and how many splits a node chose from."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from fastens.posterior.averaging import (
    NodeSearch,
    TableSearch,
    count_candidate_splits,
    split_probability,
    thresholds_of_features,
)

CODES = np.array([2, 3, 12, 102])  # no threshold at all, 1, 10 and 100 of them
THRESHOLDS = thresholds_of_features(CODES)


def nodes(feature, weight, left_child=None, *, is_set=False):
    """What a prior looks at in a tree."""
    n = len(feature)
    return SimpleNamespace(
        n_nodes=n,
        feature=np.asarray(feature, dtype=np.int32),
        weight=np.full(n, weight),
        left_child=np.zeros(n, dtype=np.int32) if left_child is None else left_child,
        category_set=np.full(n, 0 if is_set else -1, dtype=np.int32),
    )


@pytest.mark.parametrize("weight", [1.0, 2.0, 5.5, 50.0, 1000.0])
def test_number_of_splits(weight):
    of_features = np.array([max(1.0, min(n, weight - 1)) for n in (1, 10, 100)])
    tree = nodes([1, 2, 3], weight)
    for looked_at, n in ((None, 3), (2, 2), (4, 3)):
        cost = TableSearch(THRESHOLDS, looked_at, random_thresholds=False)
        np.testing.assert_allclose(cost.n_splits(tree), n * of_features)
        cost = TableSearch(THRESHOLDS, looked_at, random_thresholds=True)
        np.testing.assert_allclose(cost.n_splits(tree), n)


@pytest.mark.parametrize("n_categories", [2, 3, 5])
def test_number_of_sets_of_categories(n_categories):
    cost = TableSearch(thresholds_of_features(np.array([n_categories + 1])), None, random_thresholds=False)
    sets = [s for s in itertools.product([0, 1], repeat=n_categories) if 0 < sum(s) < n_categories]
    assert cost.n_splits(nodes([0], 1000.0, is_set=True)) == len(sets) / 2  # a set and the rest are the same split
    assert cost.n_splits(nodes([0], 2.0, is_set=True)) == 1


def test_number_of_splits_by_node():
    tree = nodes([1, 2, 3, -1], 1000.0)
    tree.n_usable, tree.n_groups = np.array([4, 2, 3, 0]), np.array([2, 12, 5, 0])
    for looked_at, usable in ((None, [3, 2, 3, 1]), (2, [2, 2, 2, 1])):
        found = count_candidate_splits(tree, 3, looked_at, random_thresholds=False)
        np.testing.assert_array_equal(found, np.array(usable) * [1, 11, 4, 1])
        np.testing.assert_array_equal(count_candidate_splits(tree, 3, looked_at, random_thresholds=True), usable)
    tree.category_set[:] = 0
    np.testing.assert_array_equal(
        count_candidate_splits(tree, 3, None, random_thresholds=False), [3, 2 * 2047, 3 * 15, 1]
    )
    own = NodeSearch(found, 3)
    np.testing.assert_allclose(split_probability("search", tree, own), 5 / (5 + found))
    np.testing.assert_allclose(split_probability("strict", tree, own), 0.5 / found)
    assert split_probability("features", tree, own) == 1 / 6


def test_many_categories_have_a_prior():
    cost = TableSearch(np.array([60_000.0]), None, random_thresholds=False)
    assert 0 < split_probability("strict", nodes([0], 1e6, is_set=True), cost)[0] < 1e-200


def test_priors_of_all_splits_add_up_to_a_half():
    """A node of many rows: each of its splits by "strict", which is a probability over them."""
    cost = TableSearch(THRESHOLDS, None, random_thresholds=False)
    features = np.repeat(np.arange(4), THRESHOLDS.astype(int))
    each = split_probability("strict", nodes(features, 1000.0), cost)
    np.testing.assert_allclose(np.sum(each), 0.5)


def test_priors():
    cost = TableSearch(THRESHOLDS, None, random_thresholds=False)
    left_child = np.array([1, 0, 3, 0, 5, 0, 0], dtype=np.int32)
    tree = nodes([3, -1, 2, -1, 1, -1, -1], 1000.0, left_child)
    priors = ("strict", "search", "features", 0.3, (0.95, 2.0))
    found = {prior: split_probability(prior, tree, cost) for prior in priors}
    np.testing.assert_allclose(found["strict"][[0, 2, 4]], [1 / 600, 1 / 60, 1 / 6])
    np.testing.assert_allclose(found["search"][[0, 2, 4]], [6 / 306, 6 / 36, 6 / 9])
    assert (found["features"], found[0.3]) == (1 / 6, 0.3)
    np.testing.assert_allclose(found[0.95, 2.0][[0, 2, 4]], [0.95, 0.95 / 4, 0.95 / 9])


def test_table_without_thresholds():
    cost = TableSearch(np.zeros(2), None, random_thresholds=False)
    for prior, expected in (("strict", 0.5), ("search", 6 / 7), ("features", 0.5)):
        np.testing.assert_allclose(split_probability(prior, nodes([-1], 10.0), cost), expected)
