"""Every parameter of boosting does something, and says so where its value is wrong."""

from __future__ import annotations

import inspect
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import TimeSeriesSplit

import fastens
from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.monitoring.callbacks import Checkpoint
from fastens.params.options import SHORT_FORMS, Categories, Dart, Goss, Growth
from reference.public_estimators import OneQueryRanker

RULES = BoostedTrees._parameter_rules

DART = {"boosting": Dart(rate_drop=0.5, skip_drop=0.2)}
STOPS = {"early_stopping": True, "n_estimators": 150, "learning_rate": 0.5}
LINEAR = {"linear_leaves": True}
PARTS = {"categories": Categories(encoding="partition")}
# For each parameter: other parameters that it needs, and two values whose models differ.
EFFECTS = {
    "n_estimators": ({}, 5, 6),
    "learning_rate": ({}, 0.1, 0.2),
    "max_leaf_nodes": ({}, 31, 4),
    "max_depth": ({}, None, 2),
    "min_samples_leaf": ({}, 20, 5),
    "growth": ({}, None, Growth(min_weight_leaf=90.0)),
    "growth__split_criterion": ({"loss": "expectile", "quantile": 0.7}, "newton", "squared_error"),
    "growth__min_child_weight": ({}, 1e-3, 50.0),
    "growth__min_gain_to_split": ({}, 0.0, 20.0),
    "growth__rows_per_threshold": ({}, None, 500),
    "split_penalty": ({}, None, 20.0),
    "l2_regularization": ({}, 1.0, 10.0),
    "linear_leaves": ({}, False, True),
    "linear_leaves__l2": (LINEAR, 1.0, 100.0),
    "max_bins": ({}, 255, 8),
    "max_features": ({}, 1.0, 2),
    "max_features_per_tree": ({}, 1.0, 2),
    "feature_weights": ({"max_features": 2}, None, [1, 0, 0, 1, 1]),
    "subsample": ({}, 1.0, 0.5),
    "boosting": ({"n_estimators": 40}, "gbdt", "dart"),
    "boosting__rate_drop": (DART, 0.5, 0.2),
    "boosting__skip_drop": (DART, 0.2, 0.9),
    "boosting__max_drop": (DART, 50, 1),
    "boosting__normalize": (DART, "tree", "forest"),
    "sampling": ({"subsample": 0.5}, "uniform", "mvs"),
    "sampling__top_rate": ({"sampling": "goss"}, 0.2, 0.4),
    "sampling__other_rate": ({"sampling": "goss"}, 0.1, 0.3),
    "sampling__regularization": ({"sampling": "mvs", "subsample": 0.5}, None, 9.0),
    "growth__min_weight_leaf": ({}, 0.0, 60.0),
    "validation_fraction": (STOPS, 0.1, 0.4),
    "early_stopping": (STOPS, True, False),
    "early_stopping__validation": (STOPS, None, TimeSeriesSplit(3)),
    "eval_metric": (STOPS, "loss", "neg_median_absolute_error"),
    "early_stopping__refit": (STOPS, False, True),
    "early_stopping__folds": (STOPS, None, 3),
    "early_stopping__time_limit": (STOPS, None, 1e-9),
    "n_iter_no_change": (STOPS, 10, 1),
    "tol": (STOPS, 1e-7, 1.0),
    "monotonic_cst": ({}, None, [1, 0, -1, 0, 0]),
    "interaction_cst": ({}, None, "no_interactions"),
    "growth__path_smooth": ({}, 0.0, 10.0),
    "growth__max_delta_step": ({}, None, 0.1),
    "growth__forced_splits": ({}, None, {"feature": 0, "threshold": 0.3}),
    "categorical_features": ({}, "from_dtype", ["whole", "kind"]),
    "categories": ({}, None, Categories(encoding="ordered")),
    "categories__encoding": ({}, "partition", "ordered"),
    "categories__missing": (PARTS, "missing", "category"),
    "categories__one_hot_max_size": (PARTS, 2, 30),
    "categories__min_samples": (PARTS, None, 2),
    "categories__max_per_split": (PARTS, None, 1),
    "categories__smoothing": (PARTS, 5.0, 500.0),
    "categories__l2": (PARTS, 3.0, 500.0),
    "random_state": ({"subsample": 0.5}, 0, 1),
}
# What they do is tested where it is at home, or below.
ELSEWHERE = {
    "early_stopping__select_pruning",
    "oob_score",
    "callbacks",
    "warm_start",
    "verbose",
    "n_jobs",
    "weight_type",
    "text_features",  # tests/table/columns/test_expanded.py
    "categories__unseen",  # of rows with categories that fit has not seen: tests/engine/trees/test_unseen.py
}
# For each parameter, a value that breaks its rule.
WRONG = {
    "n_estimators": 0,
    "learning_rate": 0,
    "max_leaf_nodes": 1,
    "max_depth": 0,
    "min_samples_leaf": 0,
    "growth": "fast",
    "growth__split_criterion": "gini",
    "growth__min_child_weight": -1.0,
    "growth__min_gain_to_split": -1.0,
    "growth__rows_per_threshold": 0,
    "split_penalty": -1.0,
    "l2_regularization": -1.0,
    "linear_leaves": 1,
    "linear_leaves__l2": -1.0,
    "max_bins": 1,
    "text_features": ["no such column"],
    "max_features": 0,
    "max_features_per_tree": 1.5,
    "feature_weights": [1.0, -2.0, 1.0, 1.0, 1.0],
    "subsample": 0.0,
    "boosting": "darts",
    "boosting__rate_drop": 1.5,
    "boosting__skip_drop": -0.5,
    "boosting__max_drop": 0,
    "boosting__normalize": "all",
    "sampling": "some",
    "sampling__top_rate": 1.0,
    "sampling__other_rate": 0.0,
    "sampling__regularization": -1.0,
    "growth__min_weight_leaf": -1.0,
    "validation_fraction": 1.0,
    "early_stopping": "yes",
    "early_stopping__validation": 5,
    "eval_metric": "nonsense",
    "early_stopping__refit": 1,
    "early_stopping__folds": 1,
    "early_stopping__select_pruning": 1,
    "early_stopping__time_limit": 0,
    "n_iter_no_change": 0,
    "tol": -1.0,
    "monotonic_cst": [1, 0],
    "interaction_cst": "none",
    "growth__path_smooth": -1.0,
    "growth__max_delta_step": 0.0,
    "growth__forced_splits": {"feature": 0},
    "categorical_features": ["nonsense"],
    "categories": "partition",
    "categories__encoding": "codes",
    "categories__missing": "drop",
    "categories__one_hot_max_size": 256,
    "categories__min_samples": 0,
    "categories__max_per_split": 0,
    "categories__smoothing": -1.0,
    "categories__l2": -1.0,
    "categories__unseen": "left",
    "oob_score": "yes",
    "callbacks": [1],
    "warm_start": 1,
    "verbose": "loud",
    "weight_type": "copies",
    "random_state": -1,
    "n_jobs": 0,
}
# Short forms that have the options of a parameter.
SHORT = {
    "boosting": "dart",
    "sampling": "goss",
    "early_stopping": True,
    "linear_leaves": True,
    "sampling__regularization": {"sampling": "mvs", "subsample": 0.5},
}
CLASSES = [GradientBoostingClassifier, GradientBoostingRegressor, OneQueryRanker, GradientBoostingSurvival]


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
    records = {name: record for name in RULES for record in SHORT_FORMS.get(name, {}).values()}
    options = {f"sampling__{option}" for option in Goss().get_params()}
    options |= {f"{name}__{option}" for name, record in records.items() for option in record.get_params()}
    assert EFFECTS.keys() | ELSEWHERE == WRONG.keys() == RULES.keys() | options
    for kind in CLASSES:
        assert RULES.keys() <= inspect.signature(kind).parameters.keys()
        assert all(name in (inspect.getdoc(kind) or "") for name in RULES)


@pytest.mark.slow
@pytest.mark.parametrize("name", EFFECTS)
def test_it_acts(name, table):
    X, y = table
    others, *values = EFFECTS[name]
    models = [
        GradientBoostingRegressor(**{"n_estimators": 10, "random_state": 0, **others}).set_params(**{name: value})
        for value in values
    ]
    for model in models:
        model.fit(X, y)
    # One category is not that of training.
    other = X.assign(kind=X["kind"].astype(object).where(X.index > 20, "unseen"))
    curves = [model.evals_result_.get("validation", {}).values() for model in models]
    told = [[*model.predict(other), *np.ravel(list(of_model))] for model, of_model in zip(models, curves, strict=True)]
    assert told[0] != told[1]


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", CLASSES)
def test_a_wrong_value_is_named(kind, name, table):
    X, y = table
    target = (y > 0).astype(int) if kind in (GradientBoostingClassifier, OneQueryRanker) else np.exp(y / 9)
    parameter, _, option = name.partition("__")
    model = kind(**(SHORT.get(name) or {parameter: SHORT.get(parameter)}) if option else {})
    with pytest.raises(ValueError, match=rf"^{name.replace('__', '.')} must ") as error:
        model.set_params(**{name: WRONG[name]}).fit(X, target)
    shown = WRONG[name] if not isinstance(WRONG[name], list) else WRONG[name][0]
    assert "got" in str(error.value)
    assert name in ("feature_weights", "monotonic_cst") or repr(shown) in str(error.value)


def test_threads_have_no_effect_on_the_model(table):
    X, y = table
    one, four = (GradientBoostingRegressor(n_jobs=n, n_estimators=10).fit(X, y) for n in (1, 4))
    np.testing.assert_array_equal(one.predict(X), four.predict(X))


def test_checkpoints_are_written_every_n_rounds(table, tmp_path):
    X, y = table
    seen = []
    path = tmp_path / "model"

    def look(env):
        seen.append(fastens.load(path).n_estimators_ if path.exists() else 0)

    GradientBoostingRegressor(n_estimators=7, callbacks=[Checkpoint(path, 3), look], oob_score=True, subsample=0.5).fit(
        X, y
    )
    assert seen == [0, 0, 3, 3, 3, 6, 6]


@pytest.mark.parametrize("kind", CLASSES)
def test_messages_are_printed_every_n_rounds(kind, table, caplog):
    X, y = table
    target = (y > 0).astype(int) if kind in (GradientBoostingClassifier, OneQueryRanker) else np.exp(y / 9)
    with caplog.at_level("INFO", logger="fastens"):
        kind(n_estimators=5, verbose=2).fit(X, target)
    assert [message.split("]")[0] for message in caplog.messages] == ["[2/5", "[4/5", "[5/5"]


def test_penalties_of_splits_follow_the_loss(rng):
    """3 where gradients tell the noise, 0 where they do not; and less overfitting of labels that are chance."""
    X, y = rng.normal(size=(600, 5)), rng.normal(size=600)
    of_numbers = {"squared_error": 3.0, "poisson": 3.0, "log_cosh": 3.0, "absolute_error": 0.0, "huber": 0.0}
    for (loss, same), several in product(of_numbers.items(), [False, True]):
        target = np.floor(np.abs(3 * y))
        target = np.column_stack([target, target[::-1]]) if several else target
        rows = 5 if same else 20
        given = GradientBoostingRegressor(loss, split_penalty=same, min_samples_leaf=rows, n_estimators=5).fit(
            X, target
        )
        unsaid = GradientBoostingRegressor(loss, n_estimators=5).fit(X, target)
        np.testing.assert_array_equal(unsaid.predict(X), given.predict(X))
    labels = rng.integers(0, 2, 600)
    losses = [
        log_loss(labels[300:], model.fit(X[:300], labels[:300]).predict_proba(X[300:]))
        for model in (GradientBoostingClassifier(split_penalty=penalty) for penalty in (0.0, None, 20.0))
    ]
    assert losses[0] > losses[1] > losses[2]


def test_functions_of_one_name_return_names_of_their_own():
    def power(exponent, name=None):
        return lambda y, predicted: (name or f"power {exponent}", np.mean(np.abs(y - predicted) ** exponent), False)

    X = np.arange(40.0)[:, None]
    options = {"n_estimators": 3, "random_state": 0}
    options["early_stopping"] = True
    model = GradientBoostingRegressor(eval_metric=[power(1), power(2)], **options).fit(X, X[:, 0])
    assert list(model.evals_result_["validation"]) == ["power 1", "power 2"]
    metrics = [power(1, "same"), power(2, "same")]
    with pytest.raises(ValueError, match=r"eval_metric must be metrics with unique names.*got \['same', 'same'\]"):
        GradientBoostingRegressor(eval_metric=metrics, **options).fit(X, X[:, 0])
