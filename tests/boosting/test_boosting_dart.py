"""DART, and new values for old leaves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.boosting.rounds import Dropout
from fastens.monitoring.callbacks import Checkpoint
from fastens.params.options import Dart, Growth
from reference.models import LOSSES, make_model, make_target, outputs
from reference.sklearn_checks import parametrize_with_checks

DART = {"boosting": Dart(rate_drop=0.3, skip_drop=0.2), "random_state": 0}


@pytest.mark.slow
def test_which_rounds_are_left_out():
    dropout = Dropout(Dart(0.2, 0.3, None), 0.1, 7)
    drawn = [dropout.draw(index).rounds for index in range(2000)]
    assert drawn[0] == []
    assert all(dropped == sorted(set(dropped)) and max(dropped, default=-1) < i for i, dropped in enumerate(drawn))
    assert abs(np.mean([not dropped for dropped in drawn[300:]]) - 0.3) < 0.04
    share = [len(dropped) / (300 + i) for i, dropped in enumerate(drawn[300:]) if dropped]
    assert abs(np.mean(share) - 0.2) < 0.01
    few = [Dropout(Dart(0.2, 0.3, 3), 0.1, 7).draw(index).rounds for index in range(2000)]
    assert max(map(len, few)) == 3
    assert all(set(some) <= set(dropped) for some, dropped in zip(few, drawn, strict=True))


def test_factors_of_the_paper():
    every = {"rate_drop": 1.0, "skip_drop": 0.0}
    assert Dropout(Dart(**every), 1.0, 0).draw(3) == ([0, 1, 2], 1 / 4, 3 / 4)
    assert Dropout(Dart(**every, normalize="forest"), 1.0, 0).draw(3) == ([0, 1, 2], 1 / 2, 1 / 2)
    assert Dropout(Dart(**every), 0.1, 0).draw(0) == ([], 1.0, 1.0)


def test_a_naive_twin(X, rng):
    """Squared error with stumps: every round on its own, without any incremental sum."""
    y = make_target("squared_error", X, rng)
    rate, n = 0.4, 12
    options = {"max_leaf_nodes": 4, "max_features": 1.0}
    model = GradientBoostingRegressor(n_estimators=n, learning_rate=rate, **options, **DART).fit(X, y)
    dropout, parts = Dropout(Dart(0.3, 0.2), rate, model._seed), []
    for index in range(n):
        dropped, new, old = dropout.draw(index)
        kept = y.mean() + sum((part for i, part in enumerate(parts) if i not in dropped), np.zeros(400))
        tree = GradientBoostingRegressor(n_estimators=1, learning_rate=1.0, **options).fit(X, y, init_score=kept)
        for i in dropped:
            parts[i] = parts[i] * old
        parts.append(rate * new * tree.predict(X))
    np.testing.assert_allclose(model.predict(X), y.mean() + sum(parts), atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_more_rounds_later_are_all_at_once(loss, X, rng, tmp_path):
    y = make_target(loss, X, rng)
    at_once = make_model(loss, n_estimators=30, **DART).fit(X, y)
    model = make_model(loss, n_estimators=11, warm_start=True, **DART).fit(X, y)
    model.save(tmp_path / "model")
    resumed = make_model(loss, n_estimators=30, **DART).fit(X, y, resume=tmp_path / "model")
    model.set_params(n_estimators=30).fit(X, y)
    for other in (model, resumed):
        np.testing.assert_array_equal(outputs(other, X), outputs(at_once, X))
        np.testing.assert_array_equal(
            other.evals_result_["training"]["loss"], at_once.evals_result_["training"]["loss"]
        )
    threads = make_model(loss, **{**DART, "n_estimators": 30, "n_jobs": 3}).fit(X, y)
    np.testing.assert_array_equal(outputs(threads, X), outputs(at_once, X))


def test_the_best_round_is_kept_as_it_was(X, rng):
    y = make_target("binary", X, rng)
    data = {"X_val": X[250:], "y_val": y[250:]}
    options = {"n_estimators": 200, "learning_rate": 0.5, **DART}
    model = GradientBoostingClassifier(**options).fit(X[:250], y[:250], **data)
    assert model.n_estimators_ < len(model.evals_result_["validation"]["loss"])
    p = model.predict_proba(X[250:])[:, 1]
    loss = -np.mean(np.where(y[250:] == 1, np.log(p), np.log1p(-p)))
    assert math.isclose(loss, model.evals_result_["validation"]["loss"].min(), rel_tol=1e-9)


@pytest.mark.slow
def test_a_fit_that_stopped_early_goes_on_from_its_best_round(rng, tmp_path):
    """Also where fewer of its trees, as they have become, would do better, or another metric decides."""
    X = rng.normal(size=(160, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=160)
    rows = {"X_val": X[120:], "y_val": y[120:]}
    n_fewer = 0
    for seed in range(6):
        options = {"learning_rate": 1.0, "max_leaf_nodes": 4, "n_iter_no_change": 4, "random_state": seed}
        options["boosting"] = Dart(rate_drop=0.5, skip_drop=0.0)
        at_once = GradientBoostingRegressor(n_estimators=30, **options).fit(X[:120], y[:120], **rows)
        warm = GradientBoostingRegressor(n_estimators=12, warm_start=True, **options).fit(X[:120], y[:120], **rows)
        errors = [np.mean((found - y[120:]) ** 2) for found in warm.staged_predict(X[120:])]
        n_fewer += np.argmin(errors) + 1 < warm.n_estimators_
        warm.set_params(n_estimators=30).fit(X[:120], y[:120], **rows)
        assert warm._ensemble.n_trees == warm.n_estimators_ == at_once.n_estimators_
        np.testing.assert_array_equal(warm.predict(X), at_once.predict(X))
        metrics = ["loss", "explained_variance"]
        path = tmp_path / "model"
        options |= {"n_iter_no_change": 30, "early_stopping": True, "eval_metric": metrics}
        first = GradientBoostingRegressor(n_estimators=20, callbacks=[Checkpoint(path, 20)], **options)
        first.fit(X[:120], y[:120], **rows)
        options["eval_metric"] = metrics[::-1]
        other = GradientBoostingRegressor(n_estimators=25, **options).fit(X[:120], y[:120], resume=path, **rows)
        assert other._ensemble.n_trees == other.n_estimators_
    assert n_fewer


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "linear_leaves", "targets", "classes"])
@pytest.mark.parametrize("best_is_before", [True, False])
def test_a_checkpoint_keeps_the_best_round(kind, best_is_before, X, rng, tmp_path):
    """Also where rounds after it have changed its trees before the checkpoint was written."""
    y = make_target("multiclass" if kind == "classes" else "squared_error", X, rng)
    if best_is_before:
        y = rng.permutation(y)  # only noise to learn
    y = np.column_stack([y, -y]) if kind == "targets" else y
    make = GradientBoostingClassifier if kind == "classes" else GradientBoostingRegressor
    options = {"n_iter_no_change": 200, "learning_rate": 0.8 if best_is_before else 0.05, "max_features": 1.0, **DART}
    options |= {"linear_leaves": True} if kind == "linear_leaves" else {"growth": Growth(rows_per_threshold=None)}
    rows = {"X_val": X[250:], "y_val": y[250:]}
    at_once = make(n_estimators=60, **options).fit(X[:250], y[:250], **rows)
    path = tmp_path / "model"
    stopped = make(n_estimators=43, callbacks=[Checkpoint(path, 20)], **options).fit(X[:250], y[:250], **rows)
    assert (at_once.n_estimators_ < 40) == best_is_before
    checkpoint = fastens.load(path)
    assert checkpoint.n_estimators_ == 40
    resumed = make(n_estimators=60, **options).fit(X[:250], y[:250], resume=path, **rows)
    checkpoint.set_params(n_estimators=60, warm_start=True).fit(X[:250], y[:250], **rows)
    for other in (resumed, checkpoint):
        assert other.n_estimators_ == at_once.n_estimators_
        np.testing.assert_array_equal(
            other.evals_result_["validation"]["loss"], at_once.evals_result_["validation"]["loss"]
        )
        np.testing.assert_array_equal(other.predict(X), at_once.predict(X))
        np.testing.assert_array_equal(other.predict_contributions(X), at_once.predict_contributions(X))
    for finished in (stopped, resumed, checkpoint):
        finished.save(tmp_path / "finished")
        assert (tmp_path / "finished").stat().st_size < 2.5 * path.stat().st_size
        assert fastens.load(tmp_path / "finished")._best_trees is None


@pytest.mark.parametrize(
    ("name", "value"), [("rate_drop", 0.6), ("skip_drop", 0.9), ("max_drop", 1), ("normalize", "forest")]
)
def test_every_parameter_acts(name, value, X, rng):
    y = make_target("squared_error", X, rng)
    base = GradientBoostingRegressor(n_estimators=30, **DART).fit(X, y)
    other = clone(base).set_params(**{f"boosting__{name}": value}).fit(X, y)
    plain = GradientBoostingRegressor(n_estimators=30).fit(X, y)
    assert not np.array_equal(base.predict(X), other.predict(X))
    assert not np.array_equal(base.predict(X), plain.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boosting": "darts"}, "boosting must be 'gbdt' or 'dart' or Dart; got 'darts'"),
        ({"boosting": Dart(rate_drop=1.1)}, "boosting.rate_drop must be a number"),
        ({"boosting": Dart(skip_drop=-0.1)}, "boosting.skip_drop must be a number"),
        ({"boosting": Dart(max_drop=0)}, "boosting.max_drop must be a whole number"),
        ({"boosting": Dart(normalize="all")}, "boosting.normalize must be 'tree' or 'forest'"),
        ({"oob_score": True, "subsample": 0.5}, "oob_score must be False with boosting='dart'"),
    ],
)
def test_errors(options, message, X, rng):
    with pytest.raises(ValueError, match=message):
        GradientBoostingRegressor(**{**DART, **options}).fit(X, make_target("squared_error", X, rng))


# New values for old leaves --------------------------------------------------


@pytest.mark.parametrize("l2", [0.5, None])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_same_rows_give_the_same_leaves(loss, l2, X, rng):
    y = make_target(loss, X, rng)
    weight = rng.integers(1, 3, 400)
    model = make_model(loss, min_samples_leaf=5, l2_regularization=l2).fit(X, y, weight)
    before = outputs(model, X)
    again = model.refit_leaves(X, y, decay_rate=0.0, sample_weight=weight)
    np.testing.assert_allclose(outputs(again, X), before, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs(model.refit_leaves(X, y, decay_rate=1.0), X), before)
    np.testing.assert_array_equal(outputs(model, X), before)


@pytest.mark.parametrize("linear_leaves", [False, True])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "squared_error"])
def test_new_values_have_the_longest_steps_of_growth(loss, linear_leaves, X, rng):
    y = make_target(loss, X, rng)
    options = {"growth": Growth(max_delta_step=0.1), "linear_leaves": linear_leaves}
    model = GradientBoostingRegressor(loss, n_estimators=5, **options).fit(X, y)
    again = model.refit_leaves(X, y, decay_rate=0.0)
    np.testing.assert_allclose(outputs(again, X), outputs(model, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_new_values_know_the_weights_of_classes(n_targets, X, rng):
    y = (X[:, :n_targets] + rng.normal(size=(400, n_targets)) > 1).astype(int)
    y = y[:, 0] if n_targets == 1 else y
    for weights in ({0: 1, 1: 5}, "balanced"):
        given = [weights] * n_targets if n_targets > 1 and isinstance(weights, dict) else weights
        model = GradientBoostingClassifier(n_estimators=10, class_weight=given, l2_regularization=0.5).fit(X, y)
        again = model.refit_leaves(X, y, decay_rate=0.0)
        np.testing.assert_allclose(again._raw(X), model._raw(X), rtol=1e-5, atol=1e-6)


def test_leaves_move_with_the_data(X, rng, tmp_path):
    y = make_target("squared_error", X, rng)
    model = GradientBoostingRegressor(n_estimators=50).fit(X[:200], y[:200])
    errors = []
    for decay in (1.0, 0.5, 0.0):
        moved = model.refit_leaves(X[200:], y[200:] + 3, decay_rate=decay)
        errors.append(np.abs(moved.predict(X[200:]) - y[200:] - 3).mean())
    assert errors[0] > errors[1] > errors[2]
    moved.save(tmp_path / "moved")
    np.testing.assert_array_equal(fastens.load(tmp_path / "moved").predict(X), moved.predict(X))
    with pytest.raises(ValueError, match="decay_rate must be a number at least 0 and at most 1; got 2"):
        model.refit_leaves(X, y, decay_rate=2)


def test_leaves_without_rows_keep_their_values(X, rng):
    y = make_target("squared_error", X, rng)
    model = GradientBoostingRegressor(n_estimators=1, max_leaf_nodes=2).fit(X, y)
    leaf = model.apply(X)[:, 0]
    rows = leaf == leaf[0]
    moved = model.refit_leaves(X[rows], y[rows] + 5, decay_rate=0.0)
    np.testing.assert_array_equal(moved.predict(X[~rows]), model.predict(X[~rows]))
    assert moved.predict(X[rows])[0] > model.predict(X[rows])[0] + 0.4


@parametrize_with_checks(
    [
        GradientBoostingClassifier(boosting=Dart(rate_drop=0.3, skip_drop=0.0), n_estimators=20),
        GradientBoostingRegressor(boosting=Dart(normalize="forest"), n_estimators=20, min_samples_leaf=1),
    ]
)
def test_sklearn_check(check):
    check()
