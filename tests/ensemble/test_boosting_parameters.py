"""Every parameter of every boosting estimator: it acts on the model, and a wrong value is named with its rule."""

from __future__ import annotations

import inspect
import math
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupShuffleSplit

import fastens
from fastens import (
    GradientBoostingClassifier,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    GradientBoostingSurvival,
)

KINDS = [GradientBoostingClassifier, GradientBoostingRegressor, GradientBoostingRanker, GradientBoostingSurvival]
QUICK = {"n_estimators": 6, "min_samples_leaf": 5, "random_state": 0}
N_ROWS = 600
QUERY = np.repeat(np.arange(30), 20)


@pytest.fixture(scope="module")
def table():
    """Numbers, with some missing, few categories, one that is missing at times, many categories; and a score."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(N_ROWS, 3)), columns=list("abc"))
    X["few"] = np.round(rng.uniform(0, 4, N_ROWS))
    few, many = rng.integers(0, 8, N_ROWS), rng.integers(0, 90, N_ROWS)
    X["kind"] = pd.Categorical(np.array(list("tuvwxyz") + [None], dtype=object)[few])
    X["site"] = pd.Categorical([f"site {number}" for number in many])
    score = X["a"] - X["b"] * (X["c"] > 0) + 0.3 * (X["few"] % 2) + np.array([1, -1, 3, 2, -2, 0.5, 0, 0.2])[few]
    score = score + rng.normal(size=90)[many] + 0.5 * rng.normal(size=N_ROWS)
    X.loc[rng.random(N_ROWS) < 0.1, "c"] = np.nan
    return X, score.to_numpy()


def target(kind, score):
    if kind is GradientBoostingClassifier:
        return (score > 0.5).astype(int)
    if kind is GradientBoostingRanker:
        return np.digitize(score, [0, 1.5, 3])
    return np.exp(score / 3)


def fit(kind, table, **options):
    X, score = table
    more = {"qid": QUERY} if kind is GradientBoostingRanker else {}
    return kind(**{**QUICK, **options}).fit(X, target(kind, score), groups=QUERY, **more)


def answers(model, X):
    """Raw predictions, also of a category never seen, and the number of rounds that were run, kept or not."""
    unseen = X.assign(kind="unseen")
    return np.concatenate([model._raw(X)[:, 0], model._raw(unseen)[:, 0], [len(model.train_score_)]])


# Parameters that act on predictions: what goes with them, and another value --------------------------------------

STOPS = {"early_stopping": True, "n_estimators": 150, "learning_rate": 0.5, "n_iter_no_change": 5}
DART = {"boosting": "dart", "skip_drop": 0.0, "rate_drop": 0.5}
EFFECTS = {
    "n_estimators": ({}, 3),
    "learning_rate": ({}, 0.3),
    "max_leaf_nodes": ({}, 4),
    "max_depth": ({}, 2),
    "min_samples_leaf": ({}, 60),
    "min_child_weight": ({}, 40.0),
    "min_gain_to_split": ({}, 5.0),
    "l2_regularization": ({}, 10.0),
    "max_bins": ({}, 8),
    "max_features": ({}, 1),
    "max_features_per_tree": ({}, 0.3),
    "feature_weights": ({"max_features": 1}, {"a": 0, "site": 5}),
    "subsample": ({}, 0.5),
    "boosting": ({"skip_drop": 0.0}, "dart"),
    "rate_drop": (DART, 0.9),
    "skip_drop": (DART, 0.9),
    "max_drop": ({**DART, "rate_drop": 0.9}, 1),
    "dart_normalize": (DART, "forest"),
    "sampling": ({}, "goss"),
    "top_rate": ({"sampling": "goss"}, 0.5),
    "other_rate": ({"sampling": "goss"}, 0.4),
    "mvs_lambda": ({"sampling": "mvs", "subsample": 0.5}, 100.0),
    "min_weight_leaf": ({}, 60.0),
    "validation_fraction": (STOPS, 0.5),
    "early_stopping": (STOPS, False),
    "validation": (STOPS, GroupShuffleSplit(1, test_size=0.5, random_state=1)),
    "refit": (STOPS, True),
    "n_iter_no_change": ({**STOPS, "learning_rate": 1.5}, 1),
    "tol": (STOPS, 10.0),
    "monotonic_cst": ({}, {"a": -1}),
    "interaction_cst": ({}, "no_interactions"),
    "path_smooth": ({}, 10.0),
    "max_delta_step": ({}, 0.01),
    "linear_leaves": ({}, True),
    "linear_l2": ({"linear_leaves": True}, 100.0),
    "categorical_features": ({}, ["few", "kind", "site"]),
    "categorical_encoding": ({}, "ordered"),
    "categorical_missing": ({}, "category"),
    "one_hot_max_size": ({}, 10),
    "min_samples_category": ({}, 70),
    "max_categories_per_split": ({}, 1),
    "category_smoothing": ({"categorical_encoding": "partition", "min_samples_category": 1}, 1000.0),
    "category_l2": ({}, 1000.0),
    "random_state": ({"subsample": 0.5}, 1),
}
# Parameters of one estimator alone, in the same words.
OWN_EFFECTS = {
    GradientBoostingClassifier: {"loss": ({}, "exponential"), "class_weight": ({}, "balanced")},
    GradientBoostingRegressor: {
        "loss": ({}, "absolute_error"),
        "quantile": ({"loss": "quantile", "quantile": 0.5}, 0.7),
        "alpha": ({"loss": "huber"}, 0.5),
        "tweedie_variance_power": ({"loss": "tweedie"}, 1.9),
    },
    GradientBoostingRanker: {
        "ndcg_at": (STOPS, 1),
        "truncation_level": ({}, 1),
        "label_gain": ({}, "linear"),
        "normalize": ({}, False),
    },
    GradientBoostingSurvival: {
        "loss": ({}, "aft"),
        "distribution": ({"loss": "aft"}, "extreme"),
        "scale": ({"loss": "aft"}, 3.0),
    },
}
# Parameters that act on what is kept or told beside the predictions; each has a test of its own below.
BESIDE = {"eval_metric", "oob_score", "callbacks", "warm_start", "checkpoint_path", "checkpoint_every"} | {
    "verbose",
    "n_jobs",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_tested(kind):
    known = set(inspect.signature(kind).parameters)
    assert known == set(EFFECTS) | set(OWN_EFFECTS[kind]) | BESIDE
    assert known - {"categorical_features", "feature_weights"} <= set(WRONG) | set(OWN_WRONG[kind]) | {"n_jobs"}


@pytest.mark.parametrize("name", EFFECTS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_acts(kind, name, table):
    base, value = EFFECTS[name]
    before, after = fit(kind, table, **base), fit(kind, table, **{**base, name: value})
    assert not np.array_equal(answers(before, table[0]), answers(after, table[0]))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in OWN_EFFECTS[kind]])
def test_it_acts_on_its_estimator(kind, name, table):
    base, value = OWN_EFFECTS[kind][name]
    before, after = fit(kind, table, **base), fit(kind, table, **{**base, name: value})
    assert not np.array_equal(answers(before, table[0]), answers(after, table[0]))


@pytest.mark.parametrize("more", [{}, {"boosting": "dart", "rate_drop": 0.5}, {"sampling": "goss"}], ids=str)
@pytest.mark.parametrize("kind", [GradientBoostingRanker, GradientBoostingSurvival])
def test_order_is_kept(kind, more, table):
    """Every row's prediction falls with a and rises with b, against and along what the target does."""
    model = fit(kind, table, monotonic_cst={"a": -1, "b": 1}, n_estimators=12, max_leaf_nodes=None, max_depth=6, **more)
    for name, sign in (("a", -1), ("b", 1)):
        at = [model.predict(table[0].assign(**{name: value})) for value in np.linspace(-3, 3, 40)]
        assert (sign * np.diff(at, axis=0) >= -1e-12).all()


def mean_distance(y, said):
    return float(np.mean(said) - np.mean(y))


@pytest.mark.parametrize("kind", KINDS)
def test_metrics_are_told_by_name(kind, table):
    model = fit(kind, table, **STOPS, eval_metric=["loss", mean_distance])
    assert set(model.validation_scores_) == {"loss", "mean_distance"}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_left_out_are_told(kind, table):
    model = fit(kind, table, subsample=0.5, oob_score=True)
    assert len(model.oob_improvement_) == 6
    assert not hasattr(fit(kind, table, subsample=0.5), "oob_improvement_")


@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_and_callbacks(kind, table, tmp_path):
    path, found = tmp_path / "model", []
    fit(kind, table, checkpoint_path=path, checkpoint_every=4, callbacks=[lambda env: found.append(path.exists())])
    assert len(found) == 6
    assert not any(found[:3])
    assert found[-1]
    assert fastens.load(path).n_estimators_ == 4


@pytest.mark.parametrize("kind", KINDS)
def test_going_on(kind, table):
    X, score = table
    more = {"qid": QUERY} if kind is GradientBoostingRanker else {}
    rounds = []
    model = kind(**{**QUICK, "n_estimators": 2}, warm_start=True, callbacks=[lambda env: rounds.append(env.iteration)])
    model.fit(X, target(kind, score), **more)
    model.set_params(n_estimators=6).fit(X, target(kind, score), **more)
    assert rounds == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(answers(model, X), answers(fit(kind, table), X))


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_are_told_in_the_log(kind, table, caplog):
    with caplog.at_level("INFO", logger="fastens"):
        fit(kind, table, verbose=2)
    assert [line.split()[0] for line in caplog.messages] == ["[2/6]", "[4/6]", "[6/6]"]


@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_matter(kind, table):
    one, three = (answers(fit(kind, table, n_jobs=n, subsample=0.7), table[0]) for n in (1, 3))
    np.testing.assert_array_equal(one, three)


# Wrong values --------------------------------------------------

WRONG = {
    "n_estimators": [0, 1.5, True],
    "learning_rate": [0, math.nan, "0.1"],
    "max_leaf_nodes": [1],
    "max_depth": [0],
    "min_samples_leaf": [0, 0.1],
    "min_child_weight": [-1],
    "min_gain_to_split": [-0.5],
    "l2_regularization": [math.inf],
    "max_bins": [1, 65_536],
    "max_features": [0, 1.5, "sqrt"],
    "max_features_per_tree": [0, 1.5],
    "feature_weights": [[-1, 1, 1, 1], {"q": 1}],
    "subsample": [0.0, 2],
    "boosting": ["darts"],
    "rate_drop": [1.1],
    "skip_drop": [-0.1],
    "max_drop": [0],
    "dart_normalize": ["all"],
    "sampling": ["some"],
    "top_rate": [1.0],
    "other_rate": [0.0],
    "mvs_lambda": [-1.0],
    "min_weight_leaf": [None],
    "validation_fraction": [0, 1.0],
    "early_stopping": ["yes"],
    "validation": [5],
    "eval_metric": [3],
    "refit": [1],
    "n_iter_no_change": [0],
    "tol": [-1e-9],
    "monotonic_cst": [[1], [3, 0, 0, 0]],
    "interaction_cst": ["all", [[0, 9]]],
    "path_smooth": [-1],
    "max_delta_step": [0, "big"],
    "linear_leaves": ["yes"],
    "linear_l2": [-1],
    "categorical_features": ["color", [7]],
    "categorical_encoding": ["one-hot"],
    "categorical_missing": ["drop"],
    "one_hot_max_size": [-1],
    "min_samples_category": [0],
    "max_categories_per_split": [0],
    "category_smoothing": [-0.5],
    "category_l2": [None],
    "oob_score": ["yes"],
    "callbacks": [[1]],
    "warm_start": ["yes"],
    "checkpoint_path": [3],
    "checkpoint_every": [0],
    "verbose": [-1, "loud"],
    "random_state": ["seed", -1],
    "n_jobs": [0, 1.0],
}
OWN_WRONG = {
    GradientBoostingClassifier: {"loss": ["squared_error"], "class_weight": ["equal", {0: -1}]},
    GradientBoostingRegressor: {
        "loss": ["log_loss"],
        "quantile": [1, "half"],
        "alpha": [0, 1.0],
        "tweedie_variance_power": [1.0, 2],
    },
    GradientBoostingRanker: {
        "ndcg_at": [0, 2.5],
        "truncation_level": [0],
        "label_gain": ["cubic"],
        "normalize": [1],
    },
    GradientBoostingSurvival: {"loss": ["hazard"], "distribution": ["cauchy"], "scale": [0, -1.0]},
}


def refuses(kind, name, value):
    """The error names the parameter first, then its rule, then what was given."""
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.raises(ValueError, match=rf"^{name} must .+") as error:
        kind(**{name: value}).fit(X, np.arange(60) % 2 + (kind is GradientBoostingSurvival))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_values_are_named(kind, name, value):
    message = refuses(kind, name, value)
    shown = value[0] if isinstance(value, list) and len(value) == 1 else value
    if not isinstance(shown, list | dict):
        assert re.search(rf"; got .*{re.escape(repr(shown).strip('[]'))}", message), message


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(kind, name, value) for kind in KINDS for name, values in OWN_WRONG[kind].items() for value in values],
)
def test_wrong_values_of_one_estimator_are_named(kind, name, value):
    assert "got " in refuses(kind, name, value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "quantile"}, "quantile must be between 0 and 1 for loss='quantile'; got None"),
        ({"loss": "expectile"}, "quantile must be between 0 and 1 for loss='expectile'; got None"),
        ({"loss": "expectile", "quantile": [0.1, 0.9]}, "quantile must be between 0 and 1 for loss='expectile'; got"),
        ({"loss": "quantile", "quantile": [0.5, 2.0]}, "quantile must be between 0 and 1 for loss='quantile'; got 2.0"),
        ({"loss": "quantile", "quantile": []}, "quantile must hold ascending levels for loss='quantile'; got []"),
        ({"loss": "quantile", "quantile": [0.5, 0.5]}, "quantile must hold ascending levels for loss='quantile'; got"),
    ],
)
def test_losses_that_need_a_level(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        GradientBoostingRegressor(**options).fit(np.zeros((4, 1)), np.arange(4.0))
