"""No method that predicts or looks into a fitted model leaves anything in its pickle."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fastens
from reference.public_estimators import make, table_for

MODELS = {
    "boosting": lambda X, y: fastens.GradientBoostingRegressor(n_estimators=2).fit(X, y).conformalize(X, y),
    "forest": lambda X, y: fastens.RandomForestRegressor(20, oob_score=True, random_state=0).fit(X, y),
    "conformal": lambda X, y: fastens.ConformalRegressor(fastens.DecisionTreeRegressor(max_depth=2), cv=2).fit(X, y),
}


@pytest.mark.parametrize("kind", MODELS)
def test_intervals_keep_no_scores(kind):
    X, y = table_for("RandomForestRegressor")
    model = MODELS[kind](X, y)
    before = pickle.dumps(model)
    wanted = model.predict_interval(X, 0.8)
    assert pickle.dumps(model) == before
    np.testing.assert_array_equal(pickle.loads(before).predict_interval(X, 0.8), wanted)


def test_networks_keep_no_figures():
    X, y = table_for("BayesianNetwork")
    model = make("BayesianNetwork").fit(X, y)
    before = pickle.dumps(model)
    model.predict(X)
    model.aic(X, y)
    model.sample(2)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("stops", [True, fastens.EarlyStopping(folds=2), fastens.EarlyStopping(refit=True)])
def test_records_of_rounds_cannot_change_the_fitted_model(stops):
    """Nor do they keep what the fit has worked with."""
    X, y = table_for("GradientBoostingRegressor")
    records = Records()
    model = fastens.GradientBoostingRegressor(
        n_estimators=20, learning_rate=0.9, early_stopping=stops, callbacks=[records], random_state=0
    ).fit(X, y)
    wanted = model.predict(X)
    assert model.n_estimators_ < 20 * (1 if stops is True else 2)
    for record in records.kept:
        np.testing.assert_array_equal(record.model.predict(X), wanted)
    np.testing.assert_array_equal(model.predict(X), wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), wanted)


class Records:
    def __init__(self):
        self.kept = []

    def __call__(self, record):
        self.kept.append(record)
