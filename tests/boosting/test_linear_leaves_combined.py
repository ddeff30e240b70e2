"""Linear leaves together with DART, and with several targets."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import fastens
from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from fastens.boosting.rounds import Dropout
from fastens.params.options import Dart, Growth
from reference.models import make_model, make_target, outputs
from reference.sklearn_checks import parametrize_with_checks

LOSSES = ("squared_error", "poisson", "gamma", "binary", "multiclass")
LINEAR = {"linear_leaves": True}
DART = {"boosting": Dart(rate_drop=0.3, skip_drop=0.2), "random_state": 0}


@pytest.fixture
def X(rng):
    X = rng.standard_normal((400, 4))
    X[rng.random(X.shape) < 0.04] = np.nan
    return X


@pytest.fixture
def Y(X, rng):
    filled = np.nan_to_num(X)
    signals = np.column_stack([filled[:, 0] + filled[:, 1], filled[:, 1] * filled[:, 2], np.abs(filled[:, 0])])
    return signals + 0.1 * rng.standard_normal(signals.shape)


def said_by(model, X):
    """Numbers of the predictions, whatever shape they have."""
    found = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return np.concatenate(found, axis=1) if isinstance(found, list) else found


def assert_same_rounds(model, X, y, tmp_path):
    """At once, later, from a file, and on three threads."""
    at_once = clone(model).fit(X, y)
    first = clone(model).set_params(n_estimators=5, warm_start=True).fit(X, y)
    first.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    np.testing.assert_array_equal(said_by(loaded, X), said_by(first, X))
    np.testing.assert_array_equal(loaded.predict_contributions(X), first.predict_contributions(X))
    resumed = clone(model).fit(X, y, resume=tmp_path / "model")
    later = pickle.loads(pickle.dumps(first)).set_params(n_estimators=model.n_estimators).fit(X, y)
    threads = clone(model).set_params(n_jobs=3).fit(X, y)
    for other in (resumed, later, threads):
        np.testing.assert_array_equal(said_by(other, X), said_by(at_once, X))
        np.testing.assert_array_equal(
            other.evals_result_["training"]["loss"], at_once.evals_result_["training"]["loss"]
        )


# DART --------------------------------------------------


@parametrize_with_checks(
    [
        GradientBoostingClassifier(**LINEAR, boosting=Dart(skip_drop=0.0), n_estimators=20),
        GradientBoostingRegressor(**LINEAR, boosting=Dart(skip_drop=0.0), n_estimators=20),
    ]
)
def test_sklearn_check(check):
    check()


def test_a_naive_twin(X, rng):
    """Squared error: every round on its own, without any incremental sum."""
    y = make_target("squared_error", X, rng)
    rate, n, options = 0.4, 12, {"max_leaf_nodes": 4, "max_features": 1.0, **LINEAR}
    model = GradientBoostingRegressor(n_estimators=n, learning_rate=rate, **options, **DART).fit(X, y)
    dropout, parts = Dropout(Dart(0.3, 0.2), rate, model._seed), []
    for index in range(n):
        dropped, new, old = dropout.draw(index)
        kept = y.mean() + sum((part for i, part in enumerate(parts) if i not in dropped), np.zeros(400))
        tree = GradientBoostingRegressor(n_estimators=1, learning_rate=1.0, **options).fit(X, y, init_score=kept)
        for i in dropped:
            parts[i] = parts[i] * old
        parts.append(rate * new * tree.predict(X))
    np.testing.assert_allclose(model.predict(X), y.mean() + sum(parts), atol=1e-5)
    constant = GradientBoostingRegressor(n_estimators=n, learning_rate=rate, max_leaf_nodes=4, **DART).fit(X, y)
    assert model.score(X, y) > constant.score(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("normalize", ["tree", "forest"])
def test_more_rounds_of_dart_later_are_all_at_once(loss, normalize, X, rng, tmp_path):
    model = make_model(loss, n_estimators=20, **LINEAR, **DART).set_params(boosting__normalize=normalize)
    assert_same_rounds(model, X, make_target(loss, X, rng), tmp_path)


@pytest.mark.parametrize("loss", LOSSES)
def test_dropped_trees_leave_no_trace(loss, X, rng):
    """The loss of the last round, by what was taken out and put back, is that of the predictions."""
    y = make_target(loss, X, rng)
    model = make_model(loss, n_estimators=40, **LINEAR, **DART).fit(X, y)
    raw = np.ascontiguousarray(model._ensemble.predict_raw(X).T)
    encoded = y.astype(float)
    assert model._loss.loss(encoded, raw) == pytest.approx(model.evals_result_["training"]["loss"][-1], rel=1e-10)


def test_the_best_round_of_dart_is_kept_as_it_was(X, rng):
    y = make_target("squared_error", X, rng)
    options = {"n_estimators": 200, "learning_rate": 0.5, **LINEAR, **DART}
    model = GradientBoostingRegressor(**options).fit(X[:250], y[:250], X_val=X[250:], y_val=y[250:])
    assert model.n_estimators_ < len(model.evals_result_["validation"]["loss"])
    loss = np.mean((y[250:] - model.predict(X[250:])) ** 2) / 2
    assert loss == pytest.approx(model.evals_result_["validation"]["loss"].min(), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_copies_with_dart(loss, X, rng):
    y = make_target(loss, X, rng)
    weight = rng.integers(0, 3, len(y))
    model = make_model(loss, min_samples_leaf=1, growth=Growth(min_child_weight=5.0), **LINEAR, **DART)
    weighted = clone(model).fit(X, y, weight)
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    copied = clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(outputs(weighted, X), outputs(copied, X), rtol=1e-9, atol=1e-12)


def test_rankings_and_survival_take_both(rng):
    X = rng.standard_normal((400, 3))
    relevance, qid = np.clip(np.round(X[:, 0] + 1), 0, 4), np.repeat(np.arange(20), 20)
    ranker = GradientBoostingRanker(n_estimators=15, **LINEAR, **DART).fit(X, relevance, qid=qid)
    assert ranker.score(X, relevance, qid=qid) > 0.95
    times = np.exp(X[:, 0] + 0.1 * rng.standard_normal(400))
    survival = GradientBoostingSurvival(n_estimators=15, **LINEAR, **DART).fit(X, times)
    assert survival.score(X, times) > 0.8


# Several targets --------------------------------------------------

KINDS = {
    "plain": {},
    "features": {"max_features_per_tree": 0.5, "random_state": 0},
    "subsample": {"subsample": 0.6, "random_state": 0},
    "goss": {"sampling": "goss", "random_state": 0},
    "dart": DART,
}


OF_SEVERAL_TARGETS = [
    GradientBoostingClassifier(**LINEAR, n_estimators=20),
    GradientBoostingRegressor("log_cosh", **LINEAR, n_estimators=20),
]


@parametrize_with_checks(OF_SEVERAL_TARGETS)
def test_sklearn_check_of_several_targets(check):
    assert all(estimator.__sklearn_tags__().target_tags.multi_output for estimator in OF_SEVERAL_TARGETS)
    check()


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "log_cosh", "cross_entropy"])
def test_each_target_has_the_trees_that_it_has_alone(loss, X, Y):
    Y = np.exp(Y / 4) if loss == "poisson" else 1 / (1 + np.exp(-Y)) if loss == "cross_entropy" else Y
    model = GradientBoostingRegressor(loss, n_estimators=12, max_features=1.0, **LINEAR)
    together = clone(model).fit(X, Y)
    assert together.predict(X).shape == Y.shape
    assert together.apply(X).shape == (400, 12, 3)
    alone = [clone(model).fit(X, column) for column in Y.T]
    np.testing.assert_array_equal(together.predict(X), np.column_stack([each.predict(X) for each in alone]))
    expected = np.stack([each.predict_contributions(X) for each in alone], axis=1)
    np.testing.assert_allclose(together.predict_contributions(X), expected, rtol=1e-9, atol=1e-12)


def test_each_label_has_the_trees_that_it_has_alone(X, Y):
    labels = np.column_stack([Y[:, 0] > 0, np.digitize(Y[:, 1], [-0.5, 0.5])]).astype(int)
    model = GradientBoostingClassifier(n_estimators=12, max_features=1.0, **LINEAR)
    together = clone(model).fit(X, labels)
    assert together.apply(X).shape == (400, 12, 4)
    for probability, column in zip(together.predict_proba(X), labels.T, strict=True):
        np.testing.assert_array_equal(probability, clone(model).fit(X, column).predict_proba(X))


def test_lines_pay_for_targets_that_are_planes(rng):
    X = rng.uniform(-1, 1, (1000, 3))
    Y = X @ np.array([[3.0, -1.0], [-2.0, 2.0], [0.0, 1.0]])
    constant, linear = (
        GradientBoostingRegressor(linear_leaves=leaves, learning_rate=0.3, n_estimators=20, max_features=1.0).fit(
            X[:500], Y[:500]
        )
        for leaves in (False, True)
    )
    assert 1 - linear.score(X[500:], Y[500:]) < 0.2 * (1 - constant.score(X[500:], Y[500:]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_more_rounds_for_all_targets_later_are_all_at_once(kind, X, Y, tmp_path):
    assert_same_rounds(GradientBoostingRegressor(n_estimators=15, **LINEAR, **KINDS[kind]), X, Y, tmp_path)
    labels = np.column_stack([Y[:, 0] > 0, np.digitize(Y[:, 1], [-0.5, 0.5])]).astype(int)
    assert_same_rounds(GradientBoostingClassifier(n_estimators=8, **LINEAR, **KINDS[kind]), X, labels, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "dart"])
def test_weights_of_rows_with_several_targets_are_copies(kind, X, Y, rng):
    weight = rng.integers(0, 3, 400)
    model = GradientBoostingRegressor(min_samples_leaf=1, growth=Growth(min_child_weight=5.0), **LINEAR, **KINDS[kind])
    weighted = clone(model).fit(X, Y, weight)
    copied = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0))
    np.testing.assert_allclose(weighted.predict(X), copied.predict(X), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_new_leaf_values_for_several_targets(X, Y):
    labels = np.column_stack([Y[:, 0] > 0, np.digitize(Y[:, 1], [-0.5, 0.5])]).astype(int)
    for model, y in ((GradientBoostingRegressor(**LINEAR), Y), (GradientBoostingClassifier(**LINEAR), labels)):
        model.set_params(n_estimators=10).fit(X, y)
        before = said_by(model, X)
        np.testing.assert_allclose(said_by(model.refit_leaves(X, y, decay_rate=0.0), X), before, atol=1e-5)
        assert np.abs(said_by(model.refit_leaves(-X, y, decay_rate=0.5), X) - before).mean() > 0.01


def test_validation_of_several_targets(X, Y):
    model = GradientBoostingRegressor(n_estimators=300, learning_rate=0.3, **LINEAR)
    model.fit(X[:300], Y[:300], X_val=X[300:], y_val=Y[300:])
    assert len(model.evals_result_["validation"]["loss"]) < 300
    losses = [np.mean((Y[300:] - said) ** 2) / 2 for said in model.staged_predict(X[300:])]
    np.testing.assert_allclose(losses, model.evals_result_["validation"]["loss"][: model.n_estimators_], rtol=1e-12)
