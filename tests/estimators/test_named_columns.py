"""Targets, weights and queries by the names of columns: every estimator learns what it learns of arrays."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fastens import (
    BaggingClassifier,
    BayesianNetwork,
    BayesTreeClassifier,
    CategoricalNB,
    DecisionTreeClassifier,
    GaussianNB,
    GradientBoostingRanker,
    GradientBoostingRegressor,
    IsolationForest,
    TableSource,
    TuningConfig,
    bias_variance_decomposition,
    estimate_errors,
    tune,
)
from reference.public_estimators import CLASSES, make, shrink_default_members, table_for

NOT_BY_NAME = {"BayesianNetwork", "FiniteHypothesisLearner", "GradientBoostingSurvival", "TextClassifier"}
CASES = [
    (name, method)
    for name, kind in CLASSES.items()
    for method in ("fit", "partial_fit")
    if name not in NOT_BY_NAME and "y" in inspect.signature(getattr(kind, method, lambda: None)).parameters
]


@pytest.fixture(autouse=True)
def few_trees(monkeypatch):
    shrink_default_members(monkeypatch, 3)


def quick(name):
    known = inspect.signature(CLASSES[name]).parameters
    given = {"n_estimators": 3, "max_layers": 1, "random_state": 0, "n_jobs": 1}
    return make(name, **{key: value for key, value in given.items() if key in known})


def said(model, X):
    method = next(m for m in ("predict_proba", "score_samples", "predict", "transform") if hasattr(model, m))
    found = getattr(model, method)(X)
    return found.toarray() if hasattr(found, "toarray") else found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), CASES)
def test_names_are_their_columns(name, method):
    X, y = table_for(name)[:2]
    X, weight = pd.DataFrame(X).add_prefix("x"), np.arange(len(y)) % 3
    takes = inspect.signature(getattr(CLASSES[name], method)).parameters
    more = {"classes": np.unique(y)} if "classes" in takes else {}
    more |= {"group": [len(X)]} if name == "GradientBoostingRanker" else {}
    arrays = {"y": y} | ({"sample_weight": weight} if "sample_weight" in takes else {})
    frame = X.assign(**arrays)
    one = getattr(quick(name), method)(X, **arrays, **more)
    other = getattr(quick(name), method)(frame, **{key: key for key in arrays}, **more)
    assert other.feature_names_in_.tolist() == X.columns.tolist()
    np.testing.assert_array_equal(said(other, X), said(one, X))
    if hasattr(one, "score") and not more and "y" in inspect.signature(one.score).parameters:
        assert other.score(frame.drop(columns="sample_weight", errors="ignore"), "y") == one.score(X, y)


def test_rows_to_validate_on_and_queries():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    frame["q"], frame["y"] = np.repeat(np.arange(20), 10), np.clip(np.round(frame["a"] + 1), 0, 3).astype(int)
    X, other = frame[["a", "b"]], frame.rename(columns={"y": "target"})
    model = GradientBoostingRanker(n_estimators=4, early_stopping=True).fit(
        frame, "y", qid="q", X_val=other, y_val="target", qid_val="q"
    )
    arrays = GradientBoostingRanker(n_estimators=4, early_stopping=True).fit(
        X, frame["y"], qid=frame["q"], X_val=X, y_val=frame["y"], qid_val=frame["q"]
    )
    np.testing.assert_array_equal(model.predict(X), arrays.predict(X))
    assert list(model.staged_score(frame, "y", qid="q")) == list(arrays.staged_score(X, frame["y"], qid=frame["q"]))


@pytest.mark.parametrize("wrapped", [lambda table: table, TableSource])
@pytest.mark.parametrize("others", [[0, 1], ["a", ("b", 2)], [None, "b"]])
def test_names_next_to_names_that_are_not_strings(wrapped, others):
    X = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(X).set_axis(pd.Index(others, tupleize_cols=False), axis=1).assign(target=X[:, 0])
    make = GradientBoostingRegressor(n_estimators=2, random_state=0)
    expected = make.fit(X, X[:, 0]).predict(X)
    model = make.fit(wrapped(frame), "target")
    np.testing.assert_array_equal(model.predict(X), expected)
    assert model.score(frame, "target") == model.score(X, X[:, 0])


def test_functions_take_names_of_columns():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    X = frame.copy()
    y, weight = (X["a"] > 0).astype(int).to_numpy(), np.arange(40) % 3
    frame["label"], frame["weight"] = y, weight
    search = TuningConfig(families=("forest",), n_trials=1, n_folds=2)
    named = tune(frame, "label", "classification", sample_weight="weight", search=search)
    assert named.best_estimator_.feature_names_in_.tolist() == ["a", "b"]
    assert named.best.loss == tune(X, y, "classification", sample_weight=weight, search=search).best.loss
    model = BayesTreeClassifier().fit(X, y)
    assert estimate_errors(model, frame, "label", "weight") == estimate_errors(model, X, y, weight)
    tree, frame = DecisionTreeClassifier(random_state=0), frame[["a", "b", "label"]]
    options = {"n_rounds": 2, "random_state": 0}
    held_out = bias_variance_decomposition(tree, frame, "label", **options)
    assert held_out.loss == bias_variance_decomposition(tree, X, y, **options).loss
    own = bias_variance_decomposition(tree, frame, "label", X_test=frame, y_test="label", **options)
    assert own.loss == bias_variance_decomposition(tree, X, y, X_test=X, y_test=y, **options).loss


@pytest.mark.parametrize("model", [CategoricalNB(), GaussianNB(), BayesianNetwork("tan")], ids=str)
@pytest.mark.parametrize("wrapped", [lambda X: X, lambda X: TableSource(pl.from_pandas(X))])
def test_likelihoods_take_names_of_columns(model, wrapped):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, (30, 2)), columns=["a", "b"])
    y, weight = rng.integers(0, 2, 30), np.arange(30) % 3
    frame = wrapped(X.assign(label=y, weight=weight))
    model.fit(X, y)
    for name in ("score_samples", "log_likelihood", "aic", "bic"):
        np.testing.assert_allclose(getattr(model, name)(frame, "label"), getattr(model, name)(X, y))
    assert model.log_likelihood(frame, "label", "weight") == pytest.approx(model.log_likelihood(X, y, weight))


def test_outliers_are_not_found_by_the_column_that_y_names():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"])
    model = IsolationForest(5, random_state=0)
    expected = model.fit_predict(X)
    np.testing.assert_array_equal(model.fit_predict(X.assign(label=np.arange(30)), "label"), expected)
    assert model.n_features_in_ == 2


def test_names_in_a_table_of_equal_names():
    frame = pd.DataFrame(np.ones((9, 3)), columns=["a", "a", "target"])
    with pytest.raises(ValueError, match="unique column names; got 'a' more than once"):
        GradientBoostingRegressor().fit(frame, "target")


def test_invalid_input_raises():
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [0, 1, 0]})
    with pytest.raises(ValueError, match="y must name a column of X; got 'c'"):
        BaggingClassifier().fit(frame, "c")
    with pytest.raises(ValueError, match="y must be an array if X has no column names; got 'b'"):
        BaggingClassifier().fit(frame.to_numpy(), "b")
    for model in (BaggingClassifier(), GradientBoostingRegressor()):
        with pytest.raises(ValueError, match=r"0 feature\(s\) .* all columns of X are y or sample_weight"):
            model.fit(frame, "b", sample_weight="a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
        GradientBoostingRegressor().fit(frame, "b", weight="a")
    with pytest.raises(TypeError, match="positional argument"):
        GradientBoostingRegressor().fit(frame, "b", None, None, None, "more")
