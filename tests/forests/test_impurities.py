"""The impurities of nodes beside those of each node's rows by themselves, and scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.tree
from numpy.testing import assert_allclose, assert_array_equal

import fastens
from fastens import DecisionTreeRegressor, RandomForestRegressor

CRITERIA = ("squared_error", "absolute_error", "poisson")


def naive_impurities(tree, X, y, weight, criterion):
    """The mean loss of the rows that visit each node, about their mean or the node's value."""
    visits = tree.decision_path(X).toarray().astype(bool)
    found = np.zeros(tree.node_count)
    for node, rows in enumerate(visits.T):
        w, own = weight[rows], y[rows]
        for target, values in enumerate(own.T):
            if criterion == "absolute_error":
                losses = np.abs(values - tree.value[node, target, 0])
            else:
                mean = np.average(values, weights=w)
                share = np.where(values > 0, values / (mean or 1.0), 1.0)
                losses = (values - mean) ** 2 if criterion == "squared_error" else values * np.log(share)
            found[node] += np.average(losses, weights=w) / y.shape[1]
    return found


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.poisson(np.exp(np.nan_to_num(X[:, :2]))).astype(float)
    return X, y, rng.integers(1, 4, 300).astype(float)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("depth", [1, 4, None])
def test_impurities_match_the_rows(criterion, depth):
    X, y, w = rows()
    tree = DecisionTreeRegressor(criterion=criterion, max_depth=depth).fit(X, y, w).tree_
    assert_allclose(tree.impurity, naive_impurities(tree, X, y, w, criterion), atol=1e-12)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_impurities_match_scikit_learn(criterion):
    X, y, w = rows(1)
    X = np.nan_to_num(X)
    options = {"criterion": criterion, "max_depth": 4, "random_state": 0}
    ours = DecisionTreeRegressor(**options).fit(X, y[:, 0], w).tree_
    theirs = sklearn.tree.DecisionTreeRegressor(**options).fit(X, y[:, 0], w).tree_
    assert ours.node_count == theirs.node_count
    assert_allclose(np.sort(ours.impurity), np.sort(theirs.impurity), atol=1e-12)


def test_impurities_of_far_targets_are_exact():
    X, y = np.arange(4.0)[:, None], np.array([1e9, 1e9, 1e9 + 1, 1e9 + 1])
    assert_array_equal(DecisionTreeRegressor().fit(X, y).tree_.impurity, [0.25, 0.0, 0.0])


def test_impurities_follow_pruning_and_files(tmp_path):
    X, y, w = rows(2)
    model = DecisionTreeRegressor(ccp_alpha=0.05).fit(X, y[:, 0], w)
    assert len(model.tree_.impurity) == model.tree_.node_count < 300
    model.save(tmp_path / "tree.fastens")
    assert_array_equal(fastens.load(tmp_path / "tree.fastens").tree_.impurity, model.tree_.impurity)


def test_trees_of_forests_have_what_splits_take():
    X, y, _ = rows(3)
    tree = RandomForestRegressor(2, random_state=0).fit(X, y[:, 0])[0].tree_
    assert (tree.impurity[tree.children_left < 0] == 0).all()
    assert tree.impurity[0] > 0
