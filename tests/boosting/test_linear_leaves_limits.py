"""Linear leaves within limits: monotone predictions, and steps that are not too large."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.params.options import Dart, Growth, LinearLeaves
from reference.sklearn_checks import parametrize_with_checks

LINEAR = {"linear_leaves": True}
SIGNS = [1, -1, 0, 0]
KINDS = {
    "plain": {},
    "subsample": {"subsample": 0.6, "random_state": 0},
    "goss": {"sampling": "goss", "random_state": 0},
    "dart": {"boosting": Dart(rate_drop=0.3, skip_drop=0.2), "random_state": 0},
    "path": {"growth": Growth(path_smooth=5.0, max_delta_step=0.4)},
}


def made(rng, n_rows):
    """A target that rises and falls with all columns, and misses values of the last two."""
    X = rng.normal(size=(n_rows, 4))
    y = 2 * X[:, 0] - X[:, 1] + np.sin(3 * X[:, 0]) + X[:, 1] ** 2 / 2 + X[:, 0] * X[:, 2] + rng.normal(size=n_rows)
    X[rng.random(n_rows) < 0.1, 3] = np.nan
    X[rng.random(n_rows) < 0.1, 0] = np.nan
    return X, y


def worst_step(model, X, signs=SIGNS):
    """The smallest step in the right direction along a constrained column, over rows with all else as it is."""
    answer = model.decision_function if hasattr(model, "decision_function") else model.predict
    steps = [0.0]
    for column in np.flatnonzero(signs):
        lines = np.repeat(X[:40, None], 50, axis=1)
        lines[:, :, column] = np.linspace(-4, 4, 50)
        found = answer(lines.reshape(-1, X.shape[1])).reshape(40, 50, -1)
        steps.append((signs[column] * np.diff(found, axis=1)).min())
    return min(steps)


@parametrize_with_checks(
    [
        GradientBoostingClassifier(**LINEAR, growth=Growth(max_delta_step=0.5), n_estimators=20),
        GradientBoostingRegressor(**LINEAR, growth=Growth(max_delta_step=10.0), n_estimators=20),
    ]
)
def test_sklearn_check(check):
    check()


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**16),
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4),
    kind=st.sampled_from(sorted(KINDS)),
    loss=st.sampled_from(["squared_error", "poisson", "log_loss", "targets"]),
    linear_l2=st.sampled_from([0.0, 10.0]),
)
@settings(max_examples=20, deadline=None)
def test_predictions_are_monotone(seed, signs, kind, loss, linear_l2):
    X, y = made(np.random.default_rng(seed), 200)
    options = {"n_estimators": 10, "learning_rate": 0.5, "min_samples_leaf": 5, "monotonic_cst": signs}
    options |= {"linear_leaves": LinearLeaves(l2=linear_l2), **KINDS[kind]}
    if loss == "log_loss":
        model = GradientBoostingClassifier(**options).fit(X, y > 0)
    elif loss == "targets":
        model = GradientBoostingRegressor(**options).fit(X, np.column_stack([y, -y]))
    else:
        model = GradientBoostingRegressor(loss, **options).fit(X, np.exp(y / 4) if loss == "poisson" else y)
    assert worst_step(model, X, signs) >= -1e-12


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_constraint_has_something_to_do_and_leaves_lines(kind, rng):
    (X, y), (X_new, y_new) = made(rng, 600), made(rng, 600)
    model = GradientBoostingRegressor(monotonic_cst=SIGNS, **LINEAR, **KINDS[kind]).fit(X, y)
    free = GradientBoostingRegressor(**LINEAR, **KINDS[kind]).fit(X, y)
    assert worst_step(model, X_new) >= 0
    assert worst_step(free, X_new) < -1e-2
    slopes, features = model._ensemble.linear.slopes, model._ensemble.linear.features
    assert (slopes[features == 0] > 0).all()
    assert (slopes[features == 1] < 0).all()
    assert (slopes[features == 2] != 0).any()
    moved = model.refit_leaves(X_new, -y_new, decay_rate=0.3)
    assert worst_step(moved, X_new) >= 0
    assert not np.allclose(moved.predict(X), model.predict(X))


def test_monotone_lines_fit_a_slope_better_than_stairs(rng):
    X = rng.uniform(-1, 1, size=(600, 2))
    y = 3 * X[:, 0] + X[:, 1]
    model = GradientBoostingRegressor(monotonic_cst=[1, 0])
    stairs, lines = (clone(model).set_params(linear_leaves=linear).fit(X[:300], y[:300]) for linear in (False, True))
    assert worst_step(lines, X, [1, 0]) >= 0
    assert 1 - lines.score(X[300:], y[300:]) < 0.8 * (1 - stairs.score(X[300:], y[300:]))


def test_no_row_is_moved_further_than_max_delta_step(rng):
    X, y = made(rng, 500)
    model = GradientBoostingRegressor(
        **LINEAR, learning_rate=0.5, growth=Growth(max_delta_step=0.4), n_estimators=10
    ).fit(X, y)
    raw = np.array([model._ensemble.baseline[0] + np.zeros(500), *model.staged_predict(X)])
    assert np.abs(np.diff(raw, axis=0)).max() <= 0.5 * 0.4 * (1 + 1e-12)
    free = GradientBoostingRegressor(**LINEAR, learning_rate=0.5, n_estimators=10).fit(X, y)
    assert np.abs(free.predict(X) - free._ensemble.baseline[0]).max() > 0.5 * 0.4 * 10
    wide = GradientBoostingRegressor(
        **LINEAR, learning_rate=0.5, growth=Growth(max_delta_step=1e9), n_estimators=10
    ).fit(X, y)
    np.testing.assert_allclose(wide.predict(X), free.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_threads_files_and_weights(kind, rng, tmp_path):
    X, y = made(rng, 400)
    model = GradientBoostingRegressor(n_estimators=12, monotonic_cst=SIGNS, **LINEAR, **KINDS[kind])
    at_once = clone(model).fit(X, y)
    first = clone(model).set_params(n_estimators=5, warm_start=True).fit(X, y)
    first.save(tmp_path / "model")
    np.testing.assert_array_equal(fastens.load(tmp_path / "model").predict(X), first.predict(X))
    resumed = clone(model).fit(X, y, resume=tmp_path / "model")
    later = first.set_params(n_estimators=12).fit(X, y)
    threads = clone(model).set_params(n_jobs=3).fit(X, y)
    for other in (resumed, later, threads):
        np.testing.assert_array_equal(other.predict(X), at_once.predict(X))
        np.testing.assert_array_equal(
            other.evals_result_["training"]["loss"], at_once.evals_result_["training"]["loss"]
        )
    if kind in ("plain", "path", "dart"):
        times = rng.integers(0, 3, 400)
        model = clone(model).set_params(min_samples_leaf=1, growth=Growth(min_weight_leaf=5.0))
        weighted = clone(model).fit(X, y, times)
        repeated = clone(model).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9, atol=1e-12)
