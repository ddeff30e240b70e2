"""Rows of weight 0 are as if they were not there, also where they alone have a category, a text or a class."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone

import fastens
from fastens import BayesianNetwork, BinnedTable, GradientBoostingClassifier, IsolationForest, TableSource
from fastens.table.parts import present_part, present_table
from fastens.table.training_data import TrainingData

N_ROWS = 80
MODELS = {
    "AdaBoostClassifier": {"n_estimators": 3},
    "BaggingClassifier": {"n_estimators": 3, "random_state": 0},
    "BayesTreeClassifier": {},
    "DecisionStumpClassifier": {},
    "DecisionTreeClassifier": {"splitter": "random", "random_state": 0},
    "ExtraTreesClassifier": {"n_estimators": 3, "random_state": 0},
    "GradientBoostingClassifier": {"n_estimators": 3, "subsample": 0.5, "random_state": 0},
    "IsolationForest": {"n_estimators": 3, "contamination": 0.1, "random_state": 0},
    "MixedNB": {},
    "RandomForestClassifier": {"n_estimators": 3, "random_state": 0},
    "RandomTreesEmbedding": {"n_estimators": 3, "random_state": 0},
}


@pytest.fixture
def rows(rng):
    """A frame, labels and weights; texts among the numbers, some categories and a class have weight 0 only."""
    weight = rng.integers(0, 3, N_ROWS).astype(float)
    colour, number = rng.choice(list("bdf"), N_ROWS).astype(object), rng.normal(size=N_ROWS).round(1).astype(object)
    label = np.where((number > 0) | (colour == "b"), "yes", "no").astype(object)
    absent = weight == 0
    colour[absent], number[absent] = rng.choice(list("ace"), absent.sum()), "none"
    label[absent] = "maybe"
    return pd.DataFrame({"colour": colour, "number": number}), label, weight


def _present(rows):
    X, label, weight = rows
    there = weight > 0
    return X[there].astype({"number": float}), label[there], weight[there]


def _said(model, X):
    found = next(
        getattr(model, name) for name in ("predict_proba", "score_samples", "transform") if hasattr(model, name)
    )
    found = found(X)
    return found.toarray() if sparse.issparse(found) else found


@pytest.mark.parametrize("name", MODELS)
def test_rows_without_weight_teach_no_category(name, rows):
    X, _, _ = present = _present(rows)
    model, alone = getattr(fastens, name)(**MODELS[name]), getattr(fastens, name)(**MODELS[name])
    model.fit(rows[0], rows[1], sample_weight=rows[2])
    alone.fit(*present[:2], sample_weight=present[2])
    np.testing.assert_array_equal(_said(model, X), _said(alone, X))


@pytest.mark.parametrize("kind", [lambda X: X.to_numpy(), lambda X: X.to_numpy().tolist()])
def test_rows_without_weight_are_ignored_in_any_kind_of_table(kind, rows):
    X, label, weight = _present(rows)
    model = GradientBoostingClassifier(n_estimators=3).fit(kind(rows[0]), rows[1], sample_weight=rows[2])
    alone = GradientBoostingClassifier(n_estimators=3).fit(kind(X), label, sample_weight=weight)
    assert model._encoder.to_state() == alone._encoder.to_state()
    np.testing.assert_array_equal(model.predict_proba(kind(X)), alone.predict_proba(kind(X)))


@pytest.mark.parametrize("kind", ["stream", "Source", "BinnedTable"])
def test_rows_without_weight_are_ignored_in_batches(kind, rows):
    _, label, weight = rows
    X = rows[0].assign(number=np.where(weight > 0, rows[0]["number"], 0.0).astype(float))
    table = pa.Table.from_pandas(X, preserve_index=False)
    kinds = {
        "stream": lambda: (lambda: table.to_reader(7), label, weight),
        "Source": lambda: (TableSource(X, max_memory="500MB"), label, weight),
        "BinnedTable": lambda: (BinnedTable.from_source(table, label.astype(str), weight),),
    }
    model = GradientBoostingClassifier(n_estimators=3).fit(*kinds[kind]())
    there, label, weight = _present(rows)
    alone = GradientBoostingClassifier(n_estimators=3).fit(there, label, sample_weight=weight)
    assert model._encoder.categories == alone._encoder.categories
    np.testing.assert_array_equal(model.predict_proba(there), alone.predict_proba(there))


def test_rows_to_validate_on_and_to_go_on_with(rows):
    X, label, weight = _present(rows)
    model = GradientBoostingClassifier(n_estimators=3, early_stopping=True, warm_start=True)
    model.fit(X, label, weight, X_val=rows[0], y_val=rows[1], sample_weight_val=rows[2])
    alone = clone(model).fit(X, label, weight, X_val=X, y_val=label, sample_weight_val=weight)
    np.testing.assert_array_equal(model.evals_result_["validation"]["loss"], alone.evals_result_["validation"]["loss"])
    model.set_params(n_estimators=4, early_stopping=False).fit(*rows)
    assert model._encoder.categories == [["b", "d", "f"], None]


def test_without_targets(rows):
    X, _, weight = _present(rows)
    model = BayesianNetwork([]).fit(rows[0][["colour"]], sample_weight=rows[2])
    assert model.states_ == BayesianNetwork([]).fit(X[["colour"]], sample_weight=weight).states_
    model = IsolationForest(3, random_state=0, contamination=0.2)
    found = model.fit(rows[0], sample_weight=rows[2]).offset_
    assert found == model.fit(X, sample_weight=weight).offset_


class Wrapped:
    """A table that is known only by the array it becomes."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values


@pytest.mark.parametrize("kind", [np.asarray, pd.Series, list, Wrapped, lambda values: sparse.csc_array([values]).T])
def test_rows_that_are_taken(kind):
    X = kind([1.0, 2.0, 3.0, 4.0])
    X = X if not isinstance(X, pd.Series) else X.set_axis([9, 9, 7, 5])
    found, weight = present_part(X, [0.0, 1.0, 0.0, 2.0])
    found = found.toarray() if sparse.issparse(found) else found
    assert (np.ravel(found).tolist(), weight.tolist()) == ([2.0, 4.0], [1.0, 2.0])


def test_other_numbers_of_rows_stay_unchanged():
    data = TrainingData.of_target(np.arange(3), [0.0, 1.0, 1.0])
    X = np.zeros((2, 1))
    assert present_table(X, data)[0] is X
    with pytest.raises(ValueError, match="same number of rows; got 2 and 3"):
        fastens.DecisionTreeRegressor().fit(X, np.arange(3), [0.0, 1.0, 1.0])


@pytest.mark.parametrize("name", ["GradientBoostingClassifier", "GradientBoostingRegressor"])
def test_rows_to_calibrate_on(name, rows):
    X, label, weight = _present(rows)
    given = rows[1]
    if name == "GradientBoostingRegressor":
        label, given = X["number"].to_numpy(), np.where(rows[2] > 0, rows[0]["number"], np.nan).astype(float)
    model = getattr(fastens, name)(n_estimators=2).fit(X, label)
    start = np.arange(float(N_ROWS)) / N_ROWS
    sets = [
        model.conformalize(*each, init_score=of_each).predict_set(X)
        if hasattr(model, "predict_set")
        else model.conformalize(*each, init_score=of_each).predict_interval(X)
        for each, of_each in (((rows[0], given, rows[2]), start), ((X, label, weight), start[rows[2] > 0]))
    ]
    np.testing.assert_array_equal(*sets)


def test_rows_that_voters_learn_from(rows):
    X, label, weight = _present(rows)
    model = fastens.WeightedMajorityClassifier([("tree", fastens.DecisionTreeClassifier(max_depth=1))])
    other = clone(model).partial_fit(X, label).partial_fit(X, label, sample_weight=weight)
    model.partial_fit(X, label).partial_fit(*rows[:2], sample_weight=rows[2])
    assert model.n_seen_ == other.n_seen_ == weight.sum()


@pytest.mark.parametrize("name", ["DecisionTreeRegressor", "GradientBoostingRegressor", "VotingRegressor"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e9])
def test_targets_that_are_not_scored(name, wrong, rng):
    X, y, weight = rng.normal(size=(40, 2)), rng.normal(size=40), np.arange(40) % 3
    tree = fastens.DecisionTreeRegressor(max_depth=2)
    model = getattr(fastens, name)(*[[("tree", tree)]] * (name == "VotingRegressor")).fit(X, y)
    present, given = weight > 0, np.where(weight > 0, y, wrong)
    expected = model.score(X[present], y[present], sample_weight=weight[present])
    assert model.score(X, given, sample_weight=weight) == expected
    assert model.score(X, pd.Series(given, index=np.arange(40)[::-1]), sample_weight=weight) == expected


@pytest.mark.parametrize("wrong", [None, np.nan, "a class that fit has not seen"])
def test_classes_that_are_not_scored(wrong, rng):
    X, y, weight = rng.normal(size=(40, 2)), rng.integers(0, 3, 40), np.arange(40) % 3
    model = fastens.DecisionTreeClassifier(max_depth=2).fit(X, y)
    given = np.where(weight > 0, y.astype(object), wrong)
    assert model.score(X, given, sample_weight=weight) == model.score(X, y, sample_weight=weight)
