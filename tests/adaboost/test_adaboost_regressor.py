"""AdaBoost.R2 against the paper written naively, and its edge cases."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import AdaBoostRegressor as PeerAdaBoost
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor

from fastens import AdaBoostRegressor
from reference.adaboost import drucker


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True)


@pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
@pytest.mark.parametrize("learning_rate", [1.0, 0.4])
def test_results_match_the_paper(diabetes, loss, learning_rate):
    X, y = diabetes[0][:, :3], diabetes[1]
    tree = DecisionTreeRegressor(max_depth=3, random_state=0)
    errors, medians = drucker(lambda w: tree.fit(X, y, w).predict(X), y, 8, loss, learning_rate)
    model = AdaBoostRegressor(tree, n_estimators=8, resample=False, loss=loss, learning_rate=learning_rate).fit(X, y)
    np.testing.assert_allclose(model.estimator_errors_, errors, rtol=1e-6)
    np.testing.assert_allclose(model.predict(X), medians, rtol=1e-6)


@pytest.mark.parametrize("loss", ["linear", "square", "exponential"])
def test_our_trees_are_as_good(diabetes, loss):
    X, y = diabetes
    ours = AdaBoostRegressor(loss=loss, random_state=0).fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    peer = PeerAdaBoost(loss=loss, random_state=0, estimator=DecisionTreeRegressor(max_depth=3))
    assert ours > peer.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) - 0.06


def test_stages_end_in_the_prediction(diabetes):
    X, y = diabetes
    for estimator in (None, KNeighborsRegressor()):
        model = AdaBoostRegressor(estimator, n_estimators=6, random_state=0).fit(X, y)
        stages = list(model.staged_predict(X))
        assert len(stages) == model.n_estimators_
        assert np.array_equal(stages[-1], model.predict(X))
        assert list(model.staged_score(X, y))[-1] == model.score(X, y)


def test_the_median_matches_the_trees(diabetes):
    X, y = diabetes
    model = AdaBoostRegressor(n_estimators=9, random_state=0).fit(X, y)
    predictions = model._ensemble.value[model._ensemble.apply(X) + model._ensemble.node_offsets[:-1], 0]
    for row, median in zip(predictions[:50], model.predict(X[:50]), strict=True):
        below = model.estimator_weights_[row <= median].sum()
        strictly = model.estimator_weights_[row < median].sum()
        half = 0.5 * model.estimator_weights_.sum()
        assert strictly < half <= below * (1 + 1e-9)


def test_a_perfect_first_regressor_is_all_there_is():
    model = AdaBoostRegressor(resample=False).fit([[0.0], [1.0], [2.0]], [5.0, 6.0, 9.0])
    assert model.n_estimators_ == 1
    assert model.estimator_weights_.tolist() == [1.0]
    np.testing.assert_allclose(model.predict([[0.0], [2.0]]), [5, 9])


def test_a_first_regressor_of_large_loss_is_kept():
    # Constant columns: all rows are one half of the range away.
    model = AdaBoostRegressor(resample=False).fit(np.zeros((4, 1)), [0.0, 0.0, 1.0, 1.0])
    assert model.n_estimators_ == 1
    assert model.estimator_weights_.tolist() == [1.0]
    np.testing.assert_allclose(model.predict([[0.0]]), [0.5])


@pytest.mark.parametrize("resample", [False, True])
def test_integer_weights_threads_and_order(diabetes, resample, rng):
    X, y = diabetes
    weight = rng.integers(0, 4, len(y))
    model = AdaBoostRegressor(n_estimators=12, resample=resample, random_state=0, n_jobs=1).fit(X, y, weight)
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    again = AdaBoostRegressor(n_estimators=12, resample=resample, random_state=0, n_jobs=3).fit(X[rows], y[rows])
    assert np.array_equal(model.predict(X), again.predict(X))
    assert np.array_equal(model.estimator_weights_, again.estimator_weights_)
    assert np.array_equal(model.feature_importances_, again.feature_importances_)


def test_large_offsets_lose_nothing(diabetes):
    X, y = diabetes
    model = AdaBoostRegressor(n_estimators=5, resample=False).fit(X, y)
    far = AdaBoostRegressor(n_estimators=5, resample=False).fit(X, y + 2.0**30)
    np.testing.assert_allclose(far.predict(X) - 2.0**30, model.predict(X), atol=1e-3)
