"""Decision stumps: the split, its side for missing values, categories."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fastens import AdaBoostClassifier, DecisionStumpClassifier, DecisionStumpRegressor


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
def test_classifier_as_a_tree_of_depth_one(criterion, rng):
    X, y = load_iris(return_X_y=True)
    X = X[:, [0, 1, 3]]
    weight = rng.random(len(y))
    ours = DecisionStumpClassifier(criterion).fit(X, y, weight)
    peer = DecisionTreeClassifier(criterion=criterion, max_depth=1).fit(X, y, weight)
    assert ours.feature_ == peer.tree_.feature[0]
    assert ours.threshold_ == pytest.approx(peer.tree_.threshold[0])
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), rtol=1e-9)


def test_regressor_as_a_tree_of_depth_one(rng):
    X, y = load_diabetes(return_X_y=True)
    weight = rng.random(len(y))
    ours = DecisionStumpRegressor().fit(X, y, weight)
    peer = DecisionTreeRegressor(max_depth=1).fit(X, y, weight)
    assert ours.feature_ == peer.tree_.feature[0]
    assert ours.threshold_ == pytest.approx(peer.tree_.threshold[0])
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=1e-4)
    assert ours.feature_importances_.tolist() == [float(f == ours.feature_) for f in range(10)]


@pytest.mark.parametrize("stump", [DecisionStumpClassifier(), DecisionStumpRegressor()], ids=str)
def test_missing_values_take_the_better_side(stump):
    X = np.array([[np.nan], [np.nan], [0.0], [1.0], [5.0], [6.0]])
    stump.fit(X, [1, 1, 1, 1, 0, 0])
    assert stump.missing_left_
    assert stump.threshold_ == 3
    stump.fit(X, [1, 1, 0, 0, 0, 0])
    np.testing.assert_allclose(stump.predict([[np.nan], [100.0], [-100.0]]), [1, 0, 0], atol=1e-6)


@pytest.mark.parametrize("stump", [DecisionStumpClassifier(), DecisionStumpRegressor()], ids=str)
def test_categories(stump):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"letter": pd.Categorical(list("abcdabcd"))})
    stump.fit(X, [0, 1, 0, 1, 0, 1, 0, 1])
    assert sorted(stump.categories_left_) in (["a", "c"], ["b", "d"])
    assert np.isnan(stump.threshold_)
    np.testing.assert_allclose(stump.predict(X), [0, 1, 0, 1, 0, 1, 0, 1], atol=1e-6)


def test_nothing_to_split_on():
    stump = DecisionStumpClassifier().fit(np.zeros((3, 2)), ["a", "b", "b"])
    assert stump.feature_ == -1
    assert stump.predict([[5.0, 5.0]]).tolist() == ["b"]
    assert stump.feature_importances_.tolist() == [0, 0]


def test_balanced_classes():
    X = np.array([[0.0], [0.0], [0.0], [0.0], [1.0]])
    stump = DecisionStumpClassifier(class_weight="balanced").fit(X, [0, 0, 0, 1, 1])
    np.testing.assert_allclose(stump.predict_proba([[0.0]]), [[2 / 3, 1 / 3]], rtol=1e-9)


def test_more_classes_than_have_numbers():
    y = np.arange(2**16 + 1)
    X = (y % 2)[:, None].astype(float)
    shares = DecisionStumpClassifier().fit(X[:-1], y[:-1]).predict_proba([[1.0]])[0]
    np.testing.assert_array_equal(shares, y[:-1] % 2 / 2**15)
    for model in (DecisionStumpClassifier(), AdaBoostClassifier()):
        with pytest.raises(ValueError, match="y must hold at most 65536 classes; it holds 65537"):
            model.fit(X, y)
