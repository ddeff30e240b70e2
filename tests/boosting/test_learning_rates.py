"""A learning rate for each round: lists, functions, warm starts, saved models and refits."""

from __future__ import annotations

import numpy as np
import pytest

import fastens
from fastens import EarlyStopping, GradientBoostingClassifier, GradientBoostingRegressor

N = 300


@pytest.fixture
def data(rng):
    X = rng.normal(size=(N, 4))
    return X, X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=N)


def test_equal_rates_are_one_rate(data):
    X, y = data
    expected = GradientBoostingRegressor(n_estimators=20, learning_rate=0.2).fit(X, y).predict(X)
    for rates in ([0.2] * 20, (0.2,) * 30, np.full(20, 0.2), lambda index: 0.2):
        found = GradientBoostingRegressor(n_estimators=20, learning_rate=rates).fit(X, y).predict(X)
        np.testing.assert_array_equal(found, expected)


def test_each_round_is_shrunk_by_its_rate(data):
    """Rounds from the first to any one are a fit with the rates so far; a rate scales the leaves of its round."""
    X, y = data
    rates = [0.5 / (1 + k) for k in range(12)]
    model = GradientBoostingRegressor(n_estimators=12, learning_rate=rates).fit(X, y)
    stages = [np.full(N, model._ensemble.baseline[0]), *model.staged_predict(X)]
    for k in (0, 3, 11):
        one = GradientBoostingRegressor(n_estimators=k + 1, learning_rate=[*rates[:k], 2 * rates[k]]).fit(X, y)
        np.testing.assert_allclose(one.predict(X) - stages[k], 2 * (stages[k + 1] - stages[k]), rtol=1e-9, atol=1e-12)


def test_warm_starts_files_and_refits(data, tmp_path):
    X, y = data
    model = GradientBoostingRegressor(n_estimators=15, learning_rate=lambda k: 0.3 * 0.9**k).fit(X, y)
    later = GradientBoostingRegressor(n_estimators=5, learning_rate=lambda k: 0.3 * 0.9**k, warm_start=True).fit(X, y)
    later.set_params(n_estimators=15).fit(X, y)
    np.testing.assert_array_equal(later.predict(X), model.predict(X))
    model.save(tmp_path / "model")
    loaded = fastens.load(tmp_path / "model")
    assert loaded.learning_rate == pytest.approx([0.3 * 0.9**k for k in range(15)])
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    again = model.refit_leaves(X, y, decay_rate=0.0)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-4, atol=1e-4)


def test_classes_have_rates_too(data):
    X, y = data
    labels = np.digitize(y, [-1, 1])
    model = GradientBoostingClassifier(n_estimators=10, learning_rate=np.linspace(0.3, 0.1, 10).tolist()).fit(X, labels)
    assert model.score(X, labels) > 0.8


def test_errors(data):
    X, y = data
    for rates, rule in (
        ([0.1] * 4, r"learning_rate must have one number for each of the.*got 4\."),
        (lambda k: 0.1 - 0.05 * k, r"learning_rate must return positive numbers; got 0.0 for round 2"),
        ([0.1, -1.0], "learning_rate must be"),
        (np.full((5, 1), 0.1), "learning_rate must be"),
        (np.array(0.1), "learning_rate must be"),
    ):
        with pytest.raises(ValueError, match=rule):
            GradientBoostingRegressor(n_estimators=5, learning_rate=rates).fit(X, y)
    for other in ({"boosting": "dart"}, {"early_stopping": EarlyStopping(folds=3)}):
        with pytest.raises(ValueError, match="learning_rate must be a single number with"):
            GradientBoostingRegressor(n_estimators=5, learning_rate=[0.1] * 5, **other).fit(X, y)
