"""Single trees against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import tree as peers

from fastens import DecisionTreeClassifier, DecisionTreeRegressor

SETTINGS = [
    {"max_depth": 4},
    {"max_leaf_nodes": 30},
    {"min_samples_leaf": 40},
    {"min_samples_split": 60},
    {"min_impurity_decrease": 0.005},
    {"min_weight_fraction_leaf": 0.02},
]


@pytest.fixture(scope="module")
def rows():
    """Few distinct values; weights and targets that leave no two splits equally good."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 25, (2000, 6)).astype(float)
    y = X[:, 0] * np.sin(X[:, 1]) + X[:, 2] + 3 * rng.standard_normal(2000)
    return X, y, rng.integers(0, 25, (3000, 6)).astype(float), rng.integers(32, 96, 2000) / 64


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
@pytest.mark.parametrize("given", SETTINGS, ids=str)
def test_regression_is_scikit_learns(criterion, given, rows):
    X, y, new, weight = rows
    if criterion == "absolute_error":
        X, y, weight = X[:500], y[:500], weight[:500]
        given = {"max_depth": 3} | given
    y = np.exp(y / 20) if criterion == "poisson" else y
    if "min_impurity_decrease" in given and criterion != "poisson":
        given = given | {"min_impurity_decrease": 0.5}
    ours = DecisionTreeRegressor(criterion=criterion, **given).fit(X, y, weight)
    theirs = peers.DecisionTreeRegressor(criterion=criterion, random_state=0, **given).fit(X, y, weight)
    assert ours.get_n_leaves() == theirs.get_n_leaves()
    assert ours.get_depth() == theirs.get_depth()
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-9)


@pytest.mark.parametrize("criterion", ["gini", "entropy", "log_loss"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("given", SETTINGS, ids=str)
def test_classification_is_scikit_learns(criterion, n_classes, given, rows):
    X, y, new, weight = rows
    y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    ours = DecisionTreeClassifier(criterion=criterion, class_weight={1: 3.0}, **given).fit(X, y, weight)
    theirs = peers.DecisionTreeClassifier(criterion=criterion, class_weight={1: 3.0}, random_state=0, **given)
    theirs.fit(X, y, weight)
    assert ours.get_n_leaves() == theirs.get_n_leaves()
    found, expected = ours.predict_proba(new), theirs.predict_proba(new)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_several_targets_are_scikit_learns(rows):
    X, y, new, _ = rows
    several = np.column_stack([y, X[:, 3] - y])
    ours = DecisionTreeRegressor(max_depth=5).fit(X, several)
    theirs = peers.DecisionTreeRegressor(max_depth=5, random_state=0).fit(X, several)
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new), rtol=1e-9)
    classes = np.column_stack([y > 10, np.digitize(X[:, 3] + y, [5, 25])]).astype(int)
    ours = DecisionTreeClassifier(max_depth=5).fit(X, classes)
    theirs = peers.DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, classes)
    np.testing.assert_array_equal(ours.predict(new), theirs.predict(new))


def test_a_full_tree_knows_its_rows(rng):
    X = rng.standard_normal((3000, 3))
    y = 1.7e9 + rng.standard_normal(3000)
    tree = DecisionTreeRegressor().fit(X, y)
    np.testing.assert_array_equal(tree.predict(X), y)
    assert tree.get_n_leaves() == 3000


def test_numbers_far_from_zero_are_split(rng):
    X = 1.0 + 1e-12 * rng.integers(0, 2, (50, 1))
    y = (X[:, 0] > 1).astype(int)
    assert DecisionTreeClassifier().fit(X, y).score(X, y) == 1
