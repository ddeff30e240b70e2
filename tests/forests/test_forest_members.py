"""The trees of forests by themselves: their number, their places, the rows of their bags, and growing again."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.ensemble
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_classification

import fastens
from fastens import (
    AdaBoostClassifier,
    BaggingClassifier,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    IsolationForest,
    PosteriorAverage,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)

FORESTS = [RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor]
RANDOM_SPLITS = [IsolationForest, RandomTreesEmbedding]
X, y = make_classification(200, n_informative=4, random_state=0)


@pytest.mark.parametrize("kind", [*FORESTS, *RANDOM_SPLITS])
def test_forests_are_sequences_of_trees(kind):
    model = kind(5, random_state=0).fit(X, y)
    assert len(model) == 5
    assert len(model[1:4]) == 3
    assert [tree.random_state for tree in model] == [tree.random_state for tree in model.estimators_]
    assert len({tree.random_state for tree in model}) == 5
    assert_array_equal(np.column_stack([tree.apply(X) for tree in model]), model.apply(X))
    with pytest.raises(IndexError):
        model[5]
    with pytest.raises(ValueError, match="not fitted"):
        len(kind())


@pytest.mark.parametrize("kind", FORESTS)
def test_estimator_is_a_tree_with_the_parameters_of_the_forest(kind):
    tree = kind(max_depth=3).estimator
    assert isinstance(tree, DecisionTreeClassifier if "Classifier" in kind.__name__ else DecisionTreeRegressor)
    assert tree.max_depth == 3
    assert tree.splitter == ("random" if "Extra" in kind.__name__ else "best")


@pytest.mark.parametrize("max_features", [0.5, 1.0])
@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("kind", FORESTS)
def test_a_tree_grows_again_on_its_bag(kind, bootstrap, max_features):
    model = kind(5, max_features=max_features, bootstrap=bootstrap, averaging=None, random_state=0).fit(X, y)
    for tree, rows in zip(model, model.estimators_samples_, strict=True):
        again = clone(tree).fit(X[rows], y[rows])
        assert_array_equal(again.tree_.feature, tree.tree_.feature)
        assert_allclose(again.tree_.value, tree.tree_.value, rtol=1e-6)


@pytest.mark.parametrize("averaging", ["auto", "posterior", PosteriorAverage(alpha=0.3, temperature=2.0)])
@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_an_averaged_tree_is_averaged_again_on_its_bag(kind, bootstrap, averaging, tmp_path):
    model = kind(3, bootstrap=bootstrap, max_features=0.5, averaging=averaging, random_state=0).fit(X, y)
    model.save(tmp_path / "forest")
    for forest in (model, fastens.load(tmp_path / "forest"), model.reweight(alpha=2.0)):
        for tree, rows in zip(forest, model.estimators_samples_, strict=True):
            again = clone(tree).fit(X[rows], y[rows])
            assert_allclose(again.tree_.value, tree.tree_.value, rtol=1e-6)
            assert not np.isin(again.predict_proba(X), [0, 1]).any()


def test_trees_without_the_average_of_their_forest():
    of_rest = RandomForestClassifier(2, averaging=PosteriorAverage(evidence="oob"), random_state=0).fit(X, y)
    constrained = RandomForestClassifier(2, monotonic_cst=[1, *[0] * 19], random_state=0).fit(X, y)
    assert of_rest[0].averaging is None
    assert constrained[0].averaging is None
    assert not hasattr(RandomForestRegressor(2, averaging="posterior").fit(X, y)[0], "averaging")


@pytest.mark.parametrize("splitter", ["best", "random"])
def test_a_single_tree_is_averaged_like_a_forest_of_one(splitter, tmp_path):
    kind = RandomForestClassifier if splitter == "best" else ExtraTreesClassifier
    forest = kind(1, bootstrap=False, max_features=None, averaging="posterior", random_state=0).fit(X, y)
    tree = DecisionTreeClassifier(
        splitter=splitter, averaging="posterior", max_bins=255, max_features=1.0, random_state=forest[0].random_state
    ).fit(X, y)
    assert_allclose(tree.predict_proba(X), forest.predict_proba(X), rtol=1e-6)
    tree.save(tmp_path / "tree")
    assert_array_equal(fastens.load(tmp_path / "tree").predict_proba(X), tree.predict_proba(X))
    bags = BaggingClassifier(tree, 3, random_state=0).fit(X, y)
    assert bags[0].averaging == "posterior"
    assert not np.isin(bags[0].predict_proba(X), [0, 1]).any()
    boosted = AdaBoostClassifier(clone(tree).set_params(max_depth=1), n_estimators=2, algorithm="real").fit(X, y)
    assert boosted[0].averaging == "posterior"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"averaging": "auto"}, "averaging must be"),
        ({"averaging": PosteriorAverage(evidence="oob")}, "averaging.evidence must be 'train' without bootstrap"),
        ({"averaging": PosteriorAverage(prior_shape=2.0)}, "averaging.prior_shape must be 1.0"),
        ({"averaging": "posterior", "monotonic_cst": [1, *[0] * 19]}, "averaging must be None with monotonic_cst"),
    ],
)
def test_averages_that_a_single_tree_does_not_have(parameters, message):
    with pytest.raises(ValueError, match=message):
        DecisionTreeClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize("class_weight", ["balanced", "balanced_subsample", {0: 1, 1: 4}])
@pytest.mark.parametrize("bootstrap", [True, False, "stratified"])
def test_a_tree_grows_again_whatever_the_weights_of_classes(bootstrap, class_weight):
    model = RandomForestClassifier(
        3, bootstrap=bootstrap, class_weight=class_weight, max_depth=1, averaging=None, random_state=0
    )
    model.fit(X[:150], y[:150])
    for tree, rows in zip(model, model.estimators_samples_, strict=True):
        again = clone(tree).fit(X[rows], y[rows])
        assert again.tree_.feature[0] == tree.tree_.feature[0]
        assert_allclose(again.tree_.value, tree.tree_.value, rtol=0.01)


def test_samples_are_places_among_the_rows_given():
    chosen, weight = [*np.flatnonzero(y == 0)[:2], np.flatnonzero(y)[-1]], np.zeros(len(y))
    weight[chosen] = 1, 2, 3
    for bootstrap in (True, False):
        model = RandomForestClassifier(3, bootstrap=bootstrap, random_state=0).fit(X, y, weight)
        for tree, rows in enumerate(model.estimators_samples_):
            assert rows.dtype == np.int32
            assert set(rows.tolist()) <= set(chosen)
            if bootstrap:
                assert_array_equal(np.bincount(rows, minlength=200)[sorted(chosen)], model.in_bag(tree))


@pytest.mark.parametrize("bootstrap", [True, False])
def test_samples_of_a_loaded_forest(bootstrap, tmp_path):
    weight = np.arange(len(y)) % 3
    model = RandomForestClassifier(3, bootstrap=bootstrap, random_state=0).fit(X, y, weight)
    model.save(tmp_path / "forest.fastens")
    again = fastens.load(tmp_path / "forest.fastens")
    assert_array_equal(again.estimators_samples_, model.estimators_samples_)
    assert [tree.random_state for tree in again] == [tree.random_state for tree in model]


@pytest.mark.parametrize("kind", RANDOM_SPLITS)
def test_warm_start_adds_the_same_trees(kind):
    at_once = kind(8, random_state=3).fit(X)
    model = kind(3, random_state=3, warm_start=True).fit(X)
    model.set_params(n_estimators=8).fit(X)
    assert_array_equal(model.apply(X), at_once.apply(X))
    with pytest.warns(UserWarning, match="does not fit new trees"):
        model.fit(X)
    with pytest.raises(ValueError, match="n_estimators must be at least"):
        model.set_params(n_estimators=2).fit(X)
    assert len(model) == 8


@pytest.mark.parametrize("weight", [None, np.tile([1.0, 1.5], 30)])
@pytest.mark.parametrize("bootstrap", ["stratified", "balanced", 1.0, {0: 30, 1: 5}])
def test_warm_starts_draw_nothing_of_classes_that_their_rows_lack(bootstrap, weight, tmp_path):
    X, y = np.arange(90.0)[:, None], np.repeat([0, 1, 2], 30)
    model = RandomForestClassifier(2, bootstrap=bootstrap, averaging=None, warm_start=True, random_state=0).fit(X, y)
    model.set_params(n_estimators=4).fit(X[y != 1], y[y != 1], weight)
    tree = model[3].tree_
    assert tree.weighted_n_node_samples[0] == 60
    assert_array_equal(tree.value[0, 0], [0.5, 0.0, 0.5])
    model.save(tmp_path / "forest.fastens")
    assert_array_equal(fastens.load(tmp_path / "forest.fastens").predict_proba(X), model.predict_proba(X))


def test_an_imported_isolation_forest_grows_on():
    theirs = sklearn.ensemble.IsolationForest(n_estimators=5, max_samples=50, random_state=0).fit(X)
    model = fastens.from_model(theirs)
    before = model.score_samples(X)
    assert_allclose(before, theirs.score_samples(X), rtol=1e-12)
    model.set_params(n_estimators=10, max_samples=50, warm_start=True, random_state=0).fit(X)
    assert len(model) == 10
    assert np.abs(model.score_samples(X) - before).max() < 0.1


def test_embedding_keeps_its_limits():
    def sizes(**limits):
        tree = RandomTreesEmbedding(1, max_depth=None, random_state=0, **limits).fit(X, sample_weight=weight)[0].tree_
        leaves = tree.children_left < 0
        return tree.n_node_samples[~leaves], tree.n_node_samples[leaves], tree.weighted_n_node_samples[leaves]

    weight = np.random.default_rng(0).random(len(X)) + 0.1
    assert sizes(min_samples_split=0.25)[0].min() >= 50
    assert sizes(min_samples_leaf=0.1)[1].min() >= 20
    assert sizes(min_weight_fraction_leaf=0.2)[2].min() >= 0.2 * weight.sum() * (1 - 1e-6)


def test_isolation_by_draws_with_replacement():
    X = np.random.default_rng(0).normal(size=(500, 3))
    X[0] = 8
    model = IsolationForest(50, bootstrap=True, max_samples=100, random_state=0).fit(X)
    assert model.score_samples(X).argmin() == 0
    root = [tree.tree_.n_node_samples[0] for tree in model]
    assert 80 < np.mean(root) < 98  # of 100 draws from 500 rows, 90.7 are expected to be distinct
    assert {tree.tree_.weighted_n_node_samples[0] for tree in model} == {100}
    with pytest.warns(UserWarning, match="max_samples=1000 exceeds the 500 rows"):
        assert IsolationForest(2, max_samples=1000).fit(X).max_samples_ == 500


@pytest.mark.parametrize("shape", [(100, 10), (1, 3), (2, 1), (7, 2)])
def test_equal_rows_are_not_outliers(shape):
    model = IsolationForest(random_state=0).fit(np.ones(shape))
    others = np.random.default_rng(0).normal(size=(20, shape[1]))
    assert_array_equal(model.score_samples(others), -0.5)
    assert_array_equal(model.predict(others), 1)


def test_friedman_mse_is_the_squared_error():
    X, y = load_diabetes(return_X_y=True)
    for kind in (DecisionTreeRegressor, RandomForestRegressor):
        plain = kind(max_depth=4, random_state=0).fit(X, y)
        with pytest.warns(FutureWarning, match="criterion='friedman_mse' is deprecated because it is equivalent"):
            named = kind(max_depth=4, random_state=0, criterion="friedman_mse").fit(X, y)
        assert_array_equal(named.predict(X), plain.predict(X))


def test_oob_decision_function_of_several_targets():
    several = np.column_stack([y, X[:, 0] > 0])
    model = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, several)
    assert model.oob_decision_function_.shape == (200, 2, 2)
    assert_allclose(model.oob_decision_function_.sum(axis=1), 1)
    uneven = np.column_stack([y, np.digitize(X[:, 0], [-0.5, 0.5])])
    found = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, uneven).oob_decision_function_
    assert [part.shape for part in found] == [(200, 2), (200, 3)]
