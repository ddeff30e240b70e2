"""Training on all rows for the best number of rounds: the same model, its time, and what is left by an interrupt."""

from __future__ import annotations

import itertools
import pickle
import time

import numpy as np
import pandas as pd
import pytest

from fastens import GradientBoostingRegressor
from fastens.boosting.rounds import Rounds
from fastens.params.options import EarlyStopping


def test_refit_trains_on_all_rows_for_the_best_number_of_rounds(X, y):
    growing = {"learning_rate": 0.3, "l2_regularization": 0.0, "max_features": 1.0}
    options = {"random_state": 0, "validation_fraction": 0.3, **growing}
    model = GradientBoostingRegressor(early_stopping=EarlyStopping(refit=True), **options).fit(X, y)
    stopped = GradientBoostingRegressor(early_stopping=True, **options).fit(X, y)
    assert model.n_estimators_ == stopped.n_estimators_ < len(model.evals_result_["validation"]["loss"])
    plain = GradientBoostingRegressor(n_estimators=model.n_estimators_, **growing).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    np.testing.assert_array_equal(
        model.evals_result_["validation"]["loss"], stopped.evals_result_["validation"]["loss"]
    )


def test_ctrl_c_while_all_rows_are_trained_on_leaves_the_model_that_stopped(X, y, monkeypatch):
    kind = pd.Categorical(np.arange(400) % 50)
    table = pd.DataFrame({"number": X[:, 0], "kind": kind})  # of many categories, whose numbers follow from the rows
    options = {"random_state": 0, "n_estimators": 10}
    stopped = GradientBoostingRegressor(early_stopping=True, **options).fit(table, y)
    model = GradientBoostingRegressor(early_stopping=EarlyStopping(refit=True), **options).fit(table, -y)
    runs, run = [], Rounds.run

    def interrupted(rounds, *arguments):
        run(rounds, *arguments)
        runs.append(rounds)
        if len(runs) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Rounds, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table, y)
    np.testing.assert_array_equal(model.predict(table), stopped.predict(table))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(table), stopped.predict(table))


def test_training_on_all_rows_keeps_to_the_time(X, y, monkeypatch):
    """By a clock that goes on by 1 each time it is looked at, or later by 10."""
    monkeypatch.setattr(time, "monotonic", itertools.count().__next__)
    stopping = EarlyStopping(refit=True, time_limit=100)
    options = {"n_estimators": 1000, "learning_rate": 1e-3, "max_leaf_nodes": 2, "random_state": 0}
    model = GradientBoostingRegressor(early_stopping=stopping, n_iter_no_change=1000, **options).fit(X, y)
    assert len(model.evals_result_["validation"]["loss"]) == model.n_estimators_ == model._ensemble.n_trees == 45
    steps = itertools.chain([0], 45 * [1], itertools.repeat(10))
    monkeypatch.setattr(time, "monotonic", itertools.accumulate(steps).__next__)
    model.fit(X, y)
    assert (len(model.evals_result_["validation"]["loss"]), model.n_estimators_, model._ensemble.n_trees) == (45, 6, 6)
