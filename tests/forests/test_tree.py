"""Single trees against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import tree as peers

import fastens
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
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)
    assert np.isclose(ours.predict(new), theirs.predict(new), rtol=1e-9).mean() > 0.999


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


# Pruning --------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["gini", "entropy", "squared_error", "absolute_error", "poisson"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_pruning_is_scikit_learns(criterion, n_targets, rows):
    X, y, weight = rows[0][:300], rows[1][:300], rows[3][:300]
    is_class = criterion in ("gini", "entropy")
    y = np.digitize(y, [5, 20]) if is_class else np.exp(y / 20)
    y = y if n_targets == 1 else np.column_stack([y, y[::-1]])
    kind = "DecisionTreeClassifier" if is_class else "DecisionTreeRegressor"
    ours = getattr(fastens, kind)(criterion=criterion, max_depth=4)
    theirs = getattr(peers, kind)(criterion=criterion, max_depth=4, random_state=0)
    found = ours.cost_complexity_pruning_path(X, y, weight)
    expected = theirs.cost_complexity_pruning_path(X, y, weight)
    np.testing.assert_allclose(found.ccp_alphas, expected.ccp_alphas, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.impurities, expected.impurities, rtol=1e-4, atol=1e-6)
    assert not hasattr(ours, "classes_")
    for ccp_alpha in (expected.ccp_alphas[:-1] + expected.ccp_alphas[1:]) / 2:
        ours.set_params(ccp_alpha=ccp_alpha).fit(X, y, weight)
        theirs.set_params(ccp_alpha=ccp_alpha).fit(X, y, weight)
        assert ours.get_n_leaves() == theirs.get_n_leaves()
        # Two features may part the rows of a small node alike: then new rows may go other ways.
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)


def test_forests_are_pruned_too(rows):
    X, y, _, _ = rows
    full = fastens.RandomForestRegressor(5, random_state=0).fit(X, y)
    pruned = fastens.RandomForestRegressor(5, random_state=0, ccp_alpha=1.0).fit(X, y)
    for one, other in zip(full.estimators_, pruned.estimators_, strict=True):
        assert 1 < other.get_n_leaves() < one.get_n_leaves()


# Shape --------------------------------------------------


def test_paths(rows):
    X, y, new, _ = rows
    tree = DecisionTreeRegressor(max_depth=4).fit(X, y)
    path = tree.decision_path(new)
    assert path.shape == (len(new), tree._ensemble.node_offsets[-1])
    np.testing.assert_array_equal(path[np.arange(len(new)), tree.apply(new)], 1)
    assert path.sum(axis=1).max() == tree.get_depth() + 1
    forest = fastens.RandomForestRegressor(3, max_depth=4, random_state=0).fit(X, y)
    paths, starts = forest.decision_path(new)
    for t, member in enumerate(forest.estimators_):
        of_tree = paths[:, starts[t] : starts[t + 1]]
        np.testing.assert_array_equal(of_tree.toarray(), member.decision_path(new).toarray())


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_contributions_add_up(n_classes, rows):
    X, y, new, _ = rows
    if n_classes == 0:
        forest = fastens.RandomForestRegressor(5, max_depth=6, random_state=0).fit(X, y)
        expected = forest.predict(new[:50])
    else:
        classes = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
        forest = fastens.ExtraTreesClassifier(5, max_depth=6, random_state=0).fit(X, classes)
        expected = forest.predict_proba(new[:50])
        expected = expected[:, 1] if n_classes == 2 else expected
    np.testing.assert_allclose(forest.predict_contributions(new[:50]).sum(axis=-1), expected, rtol=1e-6, atol=1e-7)


def test_text(rows):
    X, y, _, _ = rows
    tree = DecisionTreeClassifier(max_depth=2).fit(X, np.where(y > 10, "high", "low"))
    text = tree.to_text()
    assert "high" in text or "low" in text
    assert len(tree.to_dataframe()) == tree.get_n_leaves() * 2 - 1


# Weights --------------------------------------------------


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.1, 1: 2.3, 2: 0.7}])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("DecisionTreeClassifier", {"ccp_alpha": 0.001, "max_depth": 5}),
        ("DecisionTreeClassifier", {"criterion": "entropy", "max_depth": 3}),
        ("RandomForestClassifier", {"n_estimators": 2, "bootstrap": False, "max_depth": 3, "random_state": 0}),
        ("BayesTreeClassifier", {}),
        ("ExactTreeAverageClassifier", {"max_questions": 4}),
    ],
)
def test_integer_weights_are_copies_with_class_weights(name, parameters, class_weight, rng):
    X, weight = rng.normal(size=(60, 3)).round(1), rng.integers(0, 4, 60).astype(float)
    y = np.digitize(X[:, 0] + rng.normal(size=60), [-0.5, 0.5])
    rows = np.repeat(np.arange(60), weight.astype(int))
    model = getattr(fastens, name)(class_weight=class_weight, **parameters)
    found = model.fit(X, y, sample_weight=weight).predict_proba(X)
    np.testing.assert_array_equal(found, model.fit(X[rows], y[rows]).predict_proba(X))


def test_nodes_have_the_weights_of_classes(rng):
    y = np.repeat([0, 1], [30, 10])
    tree = DecisionTreeClassifier(class_weight="balanced", max_depth=2).fit(rng.normal(size=(40, 2)), y)
    np.testing.assert_allclose(tree._ensemble.weight[0], 40, rtol=1e-3)
    assert tree._ensemble.gain[0] < 40
