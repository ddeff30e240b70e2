"""Every parameter of boosting does something, and says so where its value is wrong."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import TimeSeriesSplit

import fastens
from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from fastens.boosting.parameters import RULES

DART = {"boosting": "dart", "rate_drop": 0.5, "skip_drop": 0.2}
STOPS = {"early_stopping": True, "n_estimators": 150, "learning_rate": 0.5}
LINEAR = {"linear_leaves": True}
PARTS = {"categorical_encoding": "partition"}
# For each parameter: other parameters that it needs, and two values whose models differ.
EFFECTS = {
    "n_estimators": ({}, 5, 6),
    "learning_rate": ({}, 0.1, 0.2),
    "max_leaf_nodes": ({}, 31, 4),
    "max_depth": ({}, None, 2),
    "min_samples_leaf": ({}, 20, 5),
    "min_child_weight": ({}, 1e-3, 50.0),
    "min_gain_to_split": ({}, 0.0, 20.0),
    "split_penalty": ({}, None, 20.0),
    "l2_regularization": ({}, 1.0, 10.0),
    "linear_leaves": ({}, False, True),
    "linear_l2": (LINEAR, 1.0, 100.0),
    "max_bins": ({}, 255, 8),
    "max_features": ({}, 1.0, 2),
    "max_features_per_tree": ({}, 1.0, 2),
    "feature_weights": ({"max_features": 2}, None, [1, 0, 0, 1, 1]),
    "subsample": ({}, 1.0, 0.5),
    "boosting": ({"n_estimators": 40}, "gbdt", "dart"),
    "rate_drop": (DART, 0.5, 0.2),
    "skip_drop": (DART, 0.2, 0.9),
    "max_drop": (DART, 50, 1),
    "dart_normalize": (DART, "tree", "forest"),
    "sampling": ({"subsample": 0.5}, "uniform", "mvs"),
    "top_rate": ({"sampling": "goss"}, 0.2, 0.4),
    "other_rate": ({"sampling": "goss"}, 0.1, 0.3),
    "mvs_lambda": ({"sampling": "mvs", "subsample": 0.5}, None, 9.0),
    "min_weight_leaf": ({}, 0.0, 60.0),
    "validation_fraction": (STOPS, 0.1, 0.4),
    "early_stopping": (STOPS, True, False),
    "validation": (STOPS, None, TimeSeriesSplit(3)),
    "eval_metric": (STOPS, "loss", "neg_median_absolute_error"),
    "refit": (STOPS, False, True),
    "n_iter_no_change": (STOPS, 10, 1),
    "tol": (STOPS, 1e-7, 1.0),
    "monotonic_cst": ({}, None, [1, 0, -1, 0, 0]),
    "interaction_cst": ({}, None, "no_interactions"),
    "path_smooth": ({}, 0.0, 10.0),
    "max_delta_step": ({}, None, 0.1),
    "categorical_features": ({}, "from_dtype", ["whole", "kind"]),
    "categorical_encoding": ({}, "partition", "ordered"),
    "categorical_missing": (PARTS, "missing", "category"),
    "one_hot_max_size": (PARTS, 2, 30),
    "min_samples_category": (PARTS, None, 2),
    "max_categories_per_split": (PARTS, None, 1),
    "category_smoothing": (PARTS, 5.0, 500.0),
    "category_l2": (PARTS, 3.0, 500.0),
    "random_state": ({"subsample": 0.5}, 0, 1),
}
# What they do is tested where it is at home, or below.
ELSEWHERE = {"oob_score", "callbacks", "warm_start", "checkpoint_path", "checkpoint_every", "verbose", "n_jobs"}
# For each parameter, a value that breaks its rule.
WRONG = {
    "n_estimators": 0,
    "learning_rate": 0,
    "max_leaf_nodes": 1,
    "max_depth": 0,
    "min_samples_leaf": 0,
    "min_child_weight": -1.0,
    "min_gain_to_split": -1.0,
    "split_penalty": -1.0,
    "l2_regularization": -1.0,
    "linear_leaves": 1,
    "linear_l2": -1.0,
    "max_bins": 1,
    "max_features": 0,
    "max_features_per_tree": 1.5,
    "feature_weights": [1.0, -2.0, 1.0, 1.0, 1.0],
    "subsample": 0.0,
    "boosting": "darts",
    "rate_drop": 1.5,
    "skip_drop": -0.5,
    "max_drop": 0,
    "dart_normalize": "all",
    "sampling": "some",
    "top_rate": 1.0,
    "other_rate": 0.0,
    "mvs_lambda": -1.0,
    "min_weight_leaf": -1.0,
    "validation_fraction": 1.0,
    "early_stopping": "yes",
    "validation": 5,
    "eval_metric": "nonsense",
    "refit": 1,
    "n_iter_no_change": 0,
    "tol": -1.0,
    "monotonic_cst": [1, 0],
    "interaction_cst": "none",
    "path_smooth": -1.0,
    "max_delta_step": 0.0,
    "categorical_features": ["nonsense"],
    "categorical_encoding": "codes",
    "categorical_missing": "drop",
    "one_hot_max_size": 256,
    "min_samples_category": 0,
    "max_categories_per_split": 0,
    "category_smoothing": -1.0,
    "category_l2": -1.0,
    "oob_score": "yes",
    "callbacks": [1],
    "warm_start": 1,
    "checkpoint_path": 3,
    "checkpoint_every": 0,
    "verbose": "loud",
    "random_state": -1,
    "n_jobs": 0,
}
CLASSES = [GradientBoostingClassifier, GradientBoostingRegressor, GradientBoostingRanker, GradientBoostingSurvival]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    place = rng.integers(0, 24, 600)
    kind = pd.Categorical.from_codes(np.where(rng.random(600) < 0.1, -1, place), [f"k{i}" for i in range(24)])
    columns = dict(zip("abc", rng.normal(size=(3, 600)), strict=True))
    X = pd.DataFrame({**columns, "whole": rng.integers(0, 9, 600).astype(float), "kind": kind})
    y = X["a"] + X["b"] * X["c"] + (X["whole"] % 3) + (place % 4) + rng.normal(size=600)
    return X, y.to_numpy()


def test_every_parameter_is_here():
    assert EFFECTS.keys() | ELSEWHERE == WRONG.keys() == RULES.keys()
    for kind in CLASSES:
        assert RULES.keys() <= inspect.signature(kind).parameters.keys()
        assert all(f"{name}" in (kind.__doc__ or "") for name in RULES)


@pytest.mark.parametrize("name", EFFECTS)
def test_it_acts(name, table):
    X, y = table
    others, *values = EFFECTS[name]
    models = [
        GradientBoostingRegressor(**{"n_estimators": 10, "random_state": 0, **others, name: value}).fit(X, y)
        for value in values
    ]
    # One category is not that of training.
    other = X.assign(kind=X["kind"].astype(object).where(X.index > 20, "unseen"))
    told = [[*model.predict(other), *model.validation_score_] for model in models]
    assert told[0] != told[1]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_wrong_value_is_named(kind, name, table):
    X, y = table
    target = (y > 0).astype(int) if kind in (GradientBoostingClassifier, GradientBoostingRanker) else np.exp(y / 9)
    with pytest.raises(ValueError, match=rf"^{name} must ") as error:
        kind(**{name: WRONG[name]}).fit(X, target)
    shown = WRONG[name] if not isinstance(WRONG[name], list) else WRONG[name][0]
    assert "got" in str(error.value)
    assert name in ("feature_weights", "monotonic_cst") or repr(shown) in str(error.value)


def test_threads_have_no_effect_on_the_model(table):
    X, y = table
    one, four = (GradientBoostingRegressor(n_jobs=n, n_estimators=10).fit(X, y) for n in (1, 4))
    np.testing.assert_array_equal(one.predict(X), four.predict(X))


def test_checkpoints_come_every_so_many_rounds(table, tmp_path):
    X, y = table
    seen = []
    path = tmp_path / "model"

    def look(env):
        seen.append(fastens.load(path).n_iter_ if path.exists() else 0)

    GradientBoostingRegressor(
        n_estimators=7, checkpoint_path=path, checkpoint_every=3, callbacks=[look], oob_score=True, subsample=0.5
    ).fit(X, y)
    assert seen == [0, 0, 3, 3, 3, 6, 6]


@pytest.mark.parametrize("kind", CLASSES)
def test_messages_every_so_many_rounds(kind, table, caplog):
    X, y = table
    target = (y > 0).astype(int) if kind in (GradientBoostingClassifier, GradientBoostingRanker) else np.exp(y / 9)
    with caplog.at_level("INFO", logger="fastens"):
        kind(n_estimators=5, verbose=2).fit(X, target)
    assert [message.split("]")[0] for message in caplog.messages] == ["[2/5", "[4/5", "[5/5"]


def test_penalties_of_splits_follow_the_loss(rng):
    """2 where gradients tell the noise, 0 where they do not; and less overfitting of labels that are chance."""
    X, y = rng.normal(size=(600, 5)), rng.normal(size=600)
    for loss, same in [("squared_error", 2.0), ("poisson", 2.0), ("absolute_error", 0.0), ("huber", 0.0)]:
        target = np.floor(np.abs(3 * y))
        given = GradientBoostingRegressor(loss, split_penalty=same, n_estimators=5).fit(X, target)
        unsaid = GradientBoostingRegressor(loss, n_estimators=5).fit(X, target)
        np.testing.assert_array_equal(unsaid.predict(X), given.predict(X))
    labels = rng.integers(0, 2, 600)
    losses = [
        log_loss(labels[300:], model.fit(X[:300], labels[:300]).predict_proba(X[300:]))
        for model in (GradientBoostingClassifier(split_penalty=penalty) for penalty in (0.0, None, 20.0))
    ]
    assert losses[0] > losses[1] > losses[2]
