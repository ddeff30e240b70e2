"""The raw predictions that rounds keep of their rows are those of the model, whatever grows and drops the trees."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.boosting.rounds import Rounds
from fastens.params.options import Dart, Growth

KINDS = {
    "constant": {},
    "drawn": {"subsample": 0.5, "random_state": 0},
    "goss": {"sampling": "goss", "random_state": 0},
    "linear": {"linear_leaves": True},
    "limited lines": {"linear_leaves": True, "growth": Growth(max_delta_step=0.5)},
    "dart": {"boosting": Dart(skip_drop=0.0, rate_drop=0.5), "random_state": 0},
    "linear dart": {"boosting": Dart(skip_drop=0.0), "linear_leaves": True, "random_state": 0},
    "renewed": {"loss": "absolute_error"},
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    t = X[:, 0] + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=400)
    return X, t


@pytest.fixture
def kept(monkeypatch):
    """The rounds of the last fit, in a list."""
    found, run = [], Rounds.run

    def noting(self, *arguments):
        found[:] = [self]
        run(self, *arguments)

    monkeypatch.setattr(Rounds, "run", noting)
    return found


def check(kept, model, X, n_rounds):
    (rounds,) = kept
    for raw in (rounds.train.raw, rounds.rows_after(n_rounds).raw):
        np.testing.assert_allclose(raw.T, model._ensemble.predict_raw(X), rtol=1e-9, atol=1e-9)
    part = rounds.ensemble(n_rounds).predict_raw(X[:50])
    np.testing.assert_allclose(rounds.validation.raw.T, part, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_numbers(rows, kept, kind, n_targets):
    X, t = rows
    y = t if n_targets == 1 else np.column_stack([t, t**2])
    model = GradientBoostingRegressor(n_estimators=8, **KINDS[kind])
    model.fit(X, y, X_val=X[:50], y_val=y[:50])
    check(kept, model, X, 8)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "renewed"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_classes(rows, kept, kind, n_jobs, monkeypatch):
    monkeypatch.setattr("fastens.boosting.rounds._MIN_CODES", 0)
    X, t = rows
    y = np.digitize(t, [-0.5, 0.5])
    model = GradientBoostingClassifier(n_estimators=8, n_jobs=n_jobs, **KINDS[kind])
    model.fit(X, y, X_val=X[:50], y_val=y[:50])
    check(kept, model, X, 8)


def test_rounds_before_the_last(rows, kept):
    X, t = rows
    model = GradientBoostingRegressor(n_estimators=8, linear_leaves=True).fit(X, t)
    (rounds,) = kept
    fewer = GradientBoostingRegressor(n_estimators=3, linear_leaves=True).fit(X, t)
    np.testing.assert_allclose(rounds.rows_after(3).raw[0], fewer.predict(X), rtol=1e-9, atol=1e-9)
    assert not np.allclose(rounds.rows_after(3).raw[0], model.predict(X))
