"""Optuna's trials: what they are told of rounds, and how they prune a fit."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from fastens import BaggingRegressor, EarlyStopping, GradientBoostingRegressor, OptunaPruning


class Trial:
    """What Optuna's trials do."""

    def __init__(self, limit):
        self.limit, self.reported = limit, []

    def report(self, value, step):
        self.reported.append((step, value))

    def should_prune(self):
        return len(self.reported) == self.limit


def test_pruning_of_trials(X, y, monkeypatch):
    class TrialPruned(Exception):  # noqa: N818
        pass

    monkeypatch.setitem(sys.modules, "optuna", types.SimpleNamespace(TrialPruned=TrialPruned))
    trial = Trial(4)
    model = GradientBoostingRegressor(callbacks=[OptunaPruning(trial)])
    with pytest.raises(TrialPruned):
        model.fit(X, y, X_val=X, y_val=y)
    assert [step for step, _ in trial.reported] == [0, 1, 2, 3]
    np.testing.assert_array_equal([value for _, value in trial.reported], model.validation_score_)
    with pytest.raises(ValueError, match="metric must be one measured on rows to validate on"):
        GradientBoostingRegressor(callbacks=[OptunaPruning(trial, "r2")]).fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match="OptunaPruning needs rows to validate on"):
        GradientBoostingRegressor(callbacks=[OptunaPruning(trial)]).fit(X, y)
    of_folds = Trial(0)
    options = {"n_estimators": 5, "early_stopping": EarlyStopping(folds=2)}
    GradientBoostingRegressor(callbacks=[OptunaPruning(of_folds)], **options).fit(X, y)
    assert [step for step, _ in of_folds.reported] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "fit",
    [
        lambda model, X, y: clone(model).fit(X, y),
        lambda model, X, y: cross_val_score(model, X, y, cv=2),
        lambda model, X, y: BaggingRegressor(model, n_estimators=2).fit(X, y),
    ],
)
def test_copies_tell_the_trial_itself(fit, X, y):
    trial = Trial(0)
    fit(GradientBoostingRegressor(n_estimators=3, early_stopping=True, callbacks=[OptunaPruning(trial)]), X, y)
    assert [step for step, _ in trial.reported] == [0, 1, 2]
