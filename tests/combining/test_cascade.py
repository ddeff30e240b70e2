"""Deep forests: layers out of fold, as many as help."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import KFold, TimeSeriesSplit

import fastens
from fastens import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
    WeightedMajorityClassifier,
)


@pytest.fixture(scope="module")
def table():
    return make_classification(400, 10, n_informative=6, n_classes=3, random_state=0)


def forests():
    return [("forest", RandomForestClassifier(15)), ("extra", ExtraTreesClassifier(15))]


def test_layers_stop_when_the_loss_stops_falling(table):
    X, y = table
    model = CascadeForestClassifier(forests(), random_state=0).fit(X, y)
    losses = model.validation_losses_
    assert model.n_layers_ == int(np.argmin(losses)) + 1
    assert len(losses) in (model.n_layers_ + 1, model.max_layers)
    assert len(model.estimators_) == model.n_layers_


@pytest.mark.slow
def test_a_layer_gets_the_columns_and_honest_predictions(table):
    X, y = table
    model = CascadeForestClassifier(forests(), max_layers=2, n_iter_no_change=2, cv=KFold(4), random_state=0).fit(X, y)
    first, second = (model._fitted_levels + [None])[:2]
    shares = np.hstack([member.respond(X) for member in first])
    if second is not None:
        assert second[0].models[0].n_features_in_ == 10 + 6
        table = np.hstack([shares, X])
        expected = np.mean([member.respond(table) for member in second], axis=0)
        np.testing.assert_allclose(model.predict_proba(X), expected)
    # Out of fold, a forest that knows its rows by heart is no better than on new rows.
    assert 0.1 < model.validation_losses_[0] < 0.7


@pytest.mark.slow
def test_shuffled_labels_give_chance(table):
    X, y = table
    model = CascadeForestClassifier(forests(), random_state=0).fit(X, np.random.default_rng(0).permutation(y))
    assert model.validation_losses_[0] > 0.6  # the Brier score of three even classes is 2/3


def test_validation_rows(table):
    X, y = table
    model = CascadeForestClassifier(forests(), random_state=0).fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    shares = model.predict_proba(X[300:])
    brier = ((shares - np.eye(3)[y[300:]]) ** 2).sum(axis=1).mean()
    assert min(model.validation_losses_) == pytest.approx(brier)


@pytest.mark.slow
def test_random_state_fixes_the_result_for_any_threads(table):
    X, y = table
    one, two = (
        CascadeForestClassifier(forests(), max_layers=2, random_state=1, n_jobs=n).fit(X, y).predict_proba(X)
        for n in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_regression_file_and_pickle(tmp_path):
    X, y = make_regression(300, 8, n_informative=5, noise=5.0, random_state=0)
    members = [("forest", RandomForestRegressor(20)), ("extra", ExtraTreesRegressor(20))]
    model = CascadeForestRegressor(members, random_state=0).fit(X[:200], y[:200])
    single = RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > single.score(X[200:], y[200:])
    model.save(tmp_path / "model")
    for same in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(same.predict(X), model.predict(X))
        assert same.validation_losses_ == model.validation_losses_


def test_every_row_needs_a_prediction(table):
    with pytest.raises(ValueError, match=r"cv must place every row in a test set; some rows are in no test set\."):
        CascadeForestClassifier(forests(), cv=TimeSeriesSplit(3)).fit(*table)


def test_default_forests(table):
    X, y = table
    model = CascadeForestClassifier(max_layers=1, cv=2, random_state=0).fit(X[:100], y[:100])
    assert len(model.estimators_[0]) == 8


@pytest.mark.parametrize("kind", [CascadeForestClassifier, VotingClassifier, WeightedMajorityClassifier])
def test_folds_that_are_none(kind, rng):
    X, members = rng.normal(size=(30, 2)), [("tree", DecisionTreeClassifier(max_depth=1))]
    y = (X[:, 0] > 0).astype(int)
    with pytest.raises(
        ValueError, match=r"cv must be a number of folds, 'content', a splitter or a list of .* got 'prefit'"
    ):
        kind([("tree", DecisionTreeClassifier().fit(X, y))], cv="prefit").fit(X, y)
    model = kind(members, cv=KFold(3).split(X), **{"weights": "nnls"} if kind is VotingClassifier else {}).fit(X, y)
    with pytest.raises(
        ValueError, match=r"cv must yield folds with test rows; got none\. An iterator is exhausted after one fit"
    ):
        model.fit(X, y)


def test_several_targets(rng, tmp_path):
    X = rng.normal(size=(150, 3))
    Y = np.column_stack([X[:, 0] + 0.1 * rng.normal(size=150), 3 * X[:, 1] ** 2])
    forest = [("forest", fastens.RandomForestRegressor(5, random_state=0))]
    model = fastens.CascadeForestRegressor(forest, max_layers=2, cv=3, tol=0.0).fit(X, Y, X_val=X[:50], y_val=Y[:50])
    first = np.mean([member.predict(X[:50]) for member in model.estimators_[0]], axis=0)
    assert model.validation_losses_[0] == pytest.approx(((first - Y[:50]) ** 2).sum(axis=1).mean())
    assert model.predict(X).shape == (150, 2)
    assert model.score(X, Y) > 0.5
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(X), model.predict(X))
