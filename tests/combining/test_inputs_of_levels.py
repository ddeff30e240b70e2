"""Cascades whose levels get the predictions of all levels before, against a naive one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import fastens
from fastens import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    RandomForestClassifier,
    StackingClassifier,
    StackingRegressor,
)
from fastens import (
    DecisionTreeRegressor as Tree,
)

CLASSIFIERS = [
    [("tree", DecisionTreeClassifier(max_depth=3, random_state=0))],
    [("bayes", GaussianNB())],
    [("neighbours", KNeighborsClassifier())],
]
REGRESSORS = [
    [("tree", DecisionTreeRegressor(max_depth=3, random_state=0)), ("line", Ridge())],
    [("neighbours", KNeighborsRegressor())],
]


def naive_cascade(levels, final, folds, X, y, X_new):
    """Each model gets the columns and the predictions of all levels before: out of fold, later the folds' mean."""
    is_classifier = hasattr(final, "predict_proba")
    table, new = X, X_new
    for members in levels:
        said, said_of_new = [], []
        for _, member in members:
            out_of_fold, of_new = None, 0
            for train, test in folds:
                model = clone(member).fit(table[train], y[train])
                ask = model.predict_proba if is_classifier else lambda rows, model=model: model.predict(rows)[:, None]
                found = ask(table[test])
                out_of_fold = np.zeros((len(X), found.shape[1])) if out_of_fold is None else out_of_fold
                out_of_fold[test] = found
                of_new = of_new + ask(new) / len(folds)
            first = 1 if is_classifier and out_of_fold.shape[1] == 2 else 0
            said.append(out_of_fold[:, first:])
            said_of_new.append(of_new[:, first:])
        n_columns = X.shape[1]
        table = np.hstack([*said_before(table, n_columns), *said, X])
        new = np.hstack([*said_before(new, n_columns), *said_of_new, X_new])
    model = clone(final).fit(table, y)
    return model.predict_proba(new) if is_classifier else model.predict(new)


def said_before(table, n_columns):
    """What the levels before have put in front of the columns."""
    return [table[:, : table.shape[1] - n_columns]]


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_cascade_stacking_of_classifiers(load):
    X, y = load(return_X_y=True)
    folds = list(KFold(4, shuffle=True, random_state=0).split(X))
    final = LogisticRegression(max_iter=10_000)
    model = StackingClassifier(levels=CLASSIFIERS, final_estimator=final, cv=folds, passthrough=True, inputs_from="all")
    found = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(found, naive_cascade(CLASSIFIERS, final, folds, X, y, X), atol=1e-9)
    last = model.set_params(inputs_from="last").fit(X, y).predict_proba(X)
    assert np.abs(last - found).max() > 1e-3


def test_cascade_stacking_of_regressors():
    X, y = load_diabetes(return_X_y=True)
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    model = StackingRegressor(levels=REGRESSORS, final_estimator=Ridge(), cv=folds, passthrough=True, inputs_from="all")
    found = model.fit(X, y).predict(X)
    np.testing.assert_allclose(found, naive_cascade(REGRESSORS, Ridge(), folds, X, y, X), rtol=1e-9)


def test_without_the_columns_all_predictions_remain():
    X, y = load_iris(return_X_y=True)
    model = StackingClassifier(levels=CLASSIFIERS, cv=3, inputs_from="all").fit(X, y)
    table = model.transform(X)
    assert table.shape == (150, 9)
    stems = ["1_tree", "2_bayes", "3_neighbours"]
    names = [f"stackingclassifier_{stem}{place}" for stem in stems for place in range(3)]
    assert model.get_feature_names_out().tolist() == names
    of_folds = [of_fold.predict_proba(table[:, :6]) for of_fold in model.estimators_[2]]
    np.testing.assert_allclose(table[:, 6:], np.mean(of_folds, axis=0))


def test_levels_in_time_keep_the_rows_that_all_levels_predict():
    X, y = load_diabetes(return_X_y=True)
    model = StackingRegressor(levels=REGRESSORS, cv=TimeSeriesSplit(4), passthrough=True, inputs_from="all").fit(X, y)
    known = ~np.isnan(np.hstack([model.oof_predictions_[name] for name in ("tree", "line", "neighbours")])).any(axis=1)
    assert 0 < known.sum() < len(y)
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_layers_of_a_deep_forest(n_layers):
    X, y = load_iris(return_X_y=True)
    folds = list(KFold(3, shuffle=True, random_state=1).split(X))
    forests = [("forest", RandomForestClassifier(5, random_state=0)), ("tree", DecisionTreeClassifier(random_state=0))]
    model = CascadeForestClassifier(forests, max_layers=n_layers, n_iter_no_change=5, cv=folds, inputs_from="all").fit(
        X, y
    )
    of_layers = [forests] * (model.n_layers_ - 1)
    expected = np.mean(
        [naive_cascade(of_layers, Bagged(member, folds), folds, X, y, X) for _, member in forests], axis=0
    )
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-9)


class Bagged:
    """The last layer: the mean of the models of all folds."""

    def __init__(self, member, folds):
        self.member, self.folds = member, folds

    def get_params(self, deep=True):
        return {"member": self.member, "folds": self.folds}

    def fit(self, table, y):
        self.models = [clone(self.member).fit(table[train], y[train]) for train, _ in self.folds]
        return self

    def predict_proba(self, table):
        return np.mean([model.predict_proba(table) for model in self.models], axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("frame", [False, True])
def test_a_deep_forest_on_validation_rows_and_in_a_file(frame, tmp_path):
    X, y = load_diabetes(return_X_y=True, as_frame=frame)
    later = pd.DataFrame(X).iloc[::2] if frame else X[::2]
    model = CascadeForestRegressor(
        [("tree", Tree(max_depth=4)), ("stub", Tree(max_depth=1))],
        max_layers=4,
        n_iter_no_change=4,
        inputs_from="all",
        random_state=0,
    ).fit(X, y, X_val=later, y_val=y[::2])
    assert model.validation_losses_[model.n_layers_ - 1] == pytest.approx(np.mean((model.predict(later) - y[::2]) ** 2))
    model.save(tmp_path / "cascade.fastens")
    np.testing.assert_array_equal(fastens.load(tmp_path / "cascade.fastens").predict(later), model.predict(later))


@pytest.mark.parametrize(
    "kind", [StackingClassifier, StackingRegressor, CascadeForestClassifier, CascadeForestRegressor]
)
def test_other_inputs_are_refused(kind):
    with pytest.raises(ValueError, match=r"inputs_from must be 'last' or 'all'; got 'first'\."):
        kind(inputs_from="first").fit([[0.0], [1.0]], [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("outer", ["final estimator", "member", "cascade"])
def test_names_that_are_taken_by_columns(outer):
    X, y = load_iris(return_X_y=True, as_frame=True)
    bayes = [("bayes", GaussianNB())]
    if outer == "cascade":
        model = CascadeForestClassifier([("bayes", CascadeForestClassifier(bayes, cv=2, max_layers=2))], cv=2)
    else:
        inner = StackingClassifier(bayes, GaussianNB(), passthrough=True, cv=2)
        given = {"levels": [bayes, [("stack", inner)]]} if outer == "member" else {"estimators": bayes}
        final = GaussianNB() if outer == "member" else inner
        model = StackingClassifier(final_estimator=final, passthrough=True, cv=2, **given)
    expected = clone(model).fit(X.to_numpy(), y).predict_proba(X.to_numpy())
    np.testing.assert_allclose(model.fit(X, y).predict_proba(X), expected, rtol=1e-6, atol=1e-12)


def test_names_that_a_table_has():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.assign(stackingclassifier_bayes0=1.0)
    model = StackingClassifier([("bayes", GaussianNB())], GaussianNB(), passthrough=True, cv=2).fit(X, y)
    names = model.get_feature_names_out().tolist()
    assert names[:2] == ["stackingclassifier_bayes0_", "stackingclassifier_bayes1"]
    assert names[-1] == "stackingclassifier_bayes0"
    assert model.transform(X).columns.tolist() == names
