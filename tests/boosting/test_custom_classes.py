"""Losses of the user's own for classes, three or more of them included."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.params.options import Growth
from reference.sklearn_checks import parametrize_with_checks

QUICK = {"n_estimators": 20, "min_samples_leaf": 10, "random_state": 0}


def softmax(raw):
    p = np.exp(raw - raw.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


class LogLoss:
    """The log loss of any number of classes, with the hessians of the library."""

    def __repr__(self):
        # Names of tests have it, and must be the same in every process.
        return f"{type(self).__name__}()"

    def derivatives(self, y, raw):
        if raw.ndim == 1:
            p = 1 / (1 + np.exp(-raw))
            return p - y, p * (1 - p)
        p, n_classes = softmax(raw), raw.shape[1]
        return p - np.eye(n_classes)[y.astype(int)], n_classes / (n_classes - 1) * p * (1 - p)

    def loss(self, y, raw):
        if raw.ndim == 1:
            return np.logaddexp(0, raw) - y * raw
        return np.logaddexp.reduce(raw, axis=1) - raw[np.arange(len(y)), y.astype(int)]


class Started(LogLoss):
    """The same from the shares of the classes."""

    def start(self, y, sample_weight):
        share = np.bincount(y.astype(int), sample_weight)
        return np.log(share / share.sum()) if len(share) > 2 else float(np.log(share[1] / share[0]))


@pytest.fixture
def X(rng):
    return rng.normal(size=(500, 4))


# The defaults with a loss that the library does not know.
AS_CUSTOM = {"l2_regularization": 1.0, "growth": Growth(rows_per_threshold=None)}


@pytest.fixture
def y(X, rng):
    return np.array(["low", "middle", "up"])[np.digitize(X[:, 0] + 0.3 * rng.normal(size=500), [-0.7, 0.5])]


@parametrize_with_checks([GradientBoostingClassifier(LogLoss(), n_estimators=20)])
def test_sklearn_check(check):
    check()


@pytest.mark.parametrize("options", [{}, {"subsample": 0.5}, {"boosting": "dart"}, {"linear_leaves": True}], ids=str)
def test_one_that_the_library_has_gives_the_same_model(options, X, y):
    own = GradientBoostingClassifier(Started(), **QUICK, **options).fit(X, y)
    ours = GradientBoostingClassifier(**AS_CUSTOM, **QUICK, **options).fit(X, y)
    np.testing.assert_allclose(own.predict_proba(X), ours.predict_proba(X), atol=1e-5)
    assert (own.predict(X) == ours.predict(X)).mean() > 0.99
    assert own.decision_function(X).shape == (500, 3)
    assert own.predict_contributions(X).shape == (500, 3, 5)
    from_zero = GradientBoostingClassifier(LogLoss(), **QUICK, **options).fit(X, y)
    assert from_zero._ensemble.baseline.tolist() == [0, 0, 0]
    assert not np.allclose(from_zero.predict_proba(X), own.predict_proba(X))


def test_rounds_threads_weights_and_validation(X, y, rng):
    model = GradientBoostingClassifier(Started(), **QUICK)
    at_once = clone(model).fit(X, y)
    later = clone(model).set_params(n_estimators=7, warm_start=True).fit(X, y).set_params(n_estimators=20).fit(X, y)
    threads = clone(model).set_params(n_jobs=3).fit(X, y)
    for other in (later, threads):
        np.testing.assert_array_equal(other.predict_proba(X), at_once.predict_proba(X))
    times = rng.integers(0, 3, 500)
    options = {"min_samples_leaf": 1, "growth": Growth(min_weight_leaf=5.0)}
    weighted = GradientBoostingClassifier(LogLoss(), **{**QUICK, **options}).fit(X, y, times)
    repeated = GradientBoostingClassifier(LogLoss(), **{**QUICK, **options}).fit(
        np.repeat(X, times, axis=0), np.repeat(y, times)
    )
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-9)
    stopped = GradientBoostingClassifier(Started(), **{**QUICK, "n_estimators": 300, "learning_rate": 0.5})
    stopped.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    truth = np.searchsorted(stopped.classes_, y[300:])
    losses = [-np.log(p[np.arange(200), truth]).mean() for p in stopped.staged_predict_proba(X[300:])]
    assert len(stopped.evals_result_["validation"]["loss"]) < 300
    np.testing.assert_allclose(stopped.evals_result_["validation"]["loss"][: len(losses)], losses, rtol=1e-6)


def test_several_targets_of_different_numbers_of_classes(X, y):
    targets = np.column_stack([y, np.where(X[:, 1] > 0, "b", "a")]).astype(object)
    own = GradientBoostingClassifier(Started(), **QUICK).fit(X, targets)
    ours = GradientBoostingClassifier(**AS_CUSTOM, **QUICK).fit(X, targets)
    for each, other in zip(own.predict_proba(X), ours.predict_proba(X), strict=True):
        np.testing.assert_allclose(each, other, atol=1e-5)


def test_all_rows_are_given_at_once(rng):
    """Also where they are many; so a loss may hold something of each row, or of all of them."""
    X, offset = rng.normal(size=(40_000, 2)), rng.normal(size=40_000)
    y = X[:, 0] + offset

    def with_offsets(y, raw):
        assert y.shape == raw.shape == (40_000,)
        return raw + offset - y, np.ones(len(y))

    model = GradientBoostingRegressor(with_offsets, n_estimators=30).fit(X, y)
    np.testing.assert_allclose(
        model.predict(X), GradientBoostingRegressor(n_estimators=30).fit(X, X[:, 0]).predict(X), atol=0.1
    )


def test_probabilities_of_the_users_own(X, y):
    class Sharper(Started):
        def predict(self, raw):
            return 1 / (1 + np.exp(-2 * raw)) if raw.ndim == 1 else softmax(2 * raw)

    plain, sharper = (GradientBoostingClassifier(loss, **QUICK).fit(X, y) for loss in (Started(), Sharper()))
    np.testing.assert_allclose(sharper.predict_proba(X), softmax(2 * plain.decision_function(X)), rtol=1e-9)
    two = GradientBoostingClassifier(Sharper(), **QUICK).fit(X, y == "up")
    np.testing.assert_allclose(two.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * two.decision_function(X))))


class Wrong(LogLoss):
    def __init__(self, **methods):
        self.__dict__.update(methods)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda y, raw: (raw[:, 0], raw), r"loss must return gradients of shape \(500, 3\); got \(500,\)"),
        (lambda y, raw: (raw, np.ones(3)), r"loss must return hessians of shape \(500, 3\); got \(3,\)"),
        (lambda y, raw: (raw * 1j, raw), "loss must return numbers: got complex128"),
        (lambda y, raw: ("a", raw), "loss must return numbers: could not convert string"),
        (lambda y, raw: (raw, raw - 1), "loss must return hessians of at least 0; got -1.0"),
        (Wrong(start=lambda y, weight: 0.0), r"loss.start must return 3 finite numbers; got 0.0"),
        (Wrong(start=lambda y, weight: [0.0, np.inf, 0]), "loss.start must return 3 finite numbers"),
        ("exponential", "Only binary classification is supported with loss='exponential'"),
    ],
)
def test_errors(loss, message, X, y):
    with pytest.raises(ValueError, match=message):
        GradientBoostingClassifier(loss, **QUICK).fit(X, y)


class OfNumbers:
    def __init__(self, **methods):
        self.__dict__.update(methods)

    def derivatives(self, y, raw):
        return raw - y, np.ones(len(y))


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"loss": lambda y, raw: raw.mean()}, r"loss.loss must return an array of shape \(500,\); got \(\)"),
        ({"loss": lambda y, raw: raw[:3]}, r"loss.loss must return an array of shape \(500,\); got \(3,\)"),
        ({"loss": lambda y, raw: "much"}, "loss.loss must return numbers"),
        ({"predict": lambda raw: raw.mean()}, r"loss.predict must return an array of shape \(500,\); got \(\)"),
        ({"predict": lambda raw: raw[:, None]}, r"loss.predict must return an array of shape \(500,\); got \(500, 1\)"),
    ],
)
def test_errors_of_rows(methods, message, X):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(OfNumbers(**methods), **QUICK).fit(X, X[:, 0]).predict(X)


def test_errors_of_probabilities(X, y):
    model = GradientBoostingClassifier(Wrong(predict=lambda raw: raw[:, 0]), **QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"loss.predict must return an array of shape \(500, 3\); got \(500,\)"):
        model.predict_proba(X)
