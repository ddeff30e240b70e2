"""Optuna's trials: what they are told of rounds, and how they prune a fit."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import mean_squared_error, r2_score
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
    np.testing.assert_array_equal([value for _, value in trial.reported], model.evals_result_["validation"]["loss"])
    with pytest.raises(ValueError, match="eval_metric must be one of the metrics of the fit"):
        GradientBoostingRegressor(callbacks=[OptunaPruning(trial, "r2")]).fit(X, y, X_val=X, y_val=y)
    with pytest.raises(ValueError, match=r"OptunaPruning needs a validation set\. Pass X_val and y_val, or set"):
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


def scaled_r2(y, predicted):
    return "scaled_r2", 1 - float(((y - predicted) ** 2).mean() / y.var()), True


@pytest.mark.parametrize(
    ("metric", "wrong", "right"),
    [
        ("loss", "maximize", "minimize"),
        ("r2", "minimize", "maximize"),
        ("neg_mean_squared_error", "minimize", "maximize"),
        (scaled_r2, "minimize", "maximize"),
        (r2_score, "minimize", "maximize"),
        (mean_squared_error, "maximize", "minimize"),
    ],
)
def test_a_study_of_the_other_direction_is_an_error(X, y, metric, wrong, right):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def fit(direction):
        trial = optuna.create_study(direction=direction).ask()
        options = {"early_stopping": True, "eval_metric": metric, "callbacks": [OptunaPruning(trial)]}
        return GradientBoostingRegressor(n_estimators=3, **options).fit(X, y)

    fit(right)
    with pytest.raises(
        ValueError,
        match=rf"must have the direction of the study \({wrong}\); got .*Create the study with direction='{right}'",
    ):
        fit(wrong)


@pytest.mark.parametrize(("metric", "direction"), [("loss", "minimize"), ("r2", "maximize")])
def test_the_worse_trial_is_pruned_in_both_directions(X, y, metric, direction):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rates = {0: 0.3, 1: 0.001, 2: 0.4}

    def objective(trial):
        model = GradientBoostingRegressor(
            n_estimators=8,
            learning_rate=rates[trial.number],
            early_stopping=True,
            eval_metric=metric,
            n_iter_no_change=8,
            callbacks=[OptunaPruning(trial)],
            random_state=0,
        )
        return model.fit(X, y).evals_result_["validation"][metric][-1]

    pruner = optuna.pruners.MedianPruner(n_startup_trials=1, n_warmup_steps=3)
    study = optuna.create_study(direction=direction, pruner=pruner)
    study.optimize(objective, n_trials=3)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]


def test_scores_of_scikit_learn_given_as_functions_are_maximized(X, y):
    options = {"early_stopping": True, "eval_metric": [r2_score, "loss"], "n_iter_no_change": 5}
    model = GradientBoostingRegressor(n_estimators=40, **options).fit(X, y)
    assert model.n_estimators_ > 5
    assert model.evals_result_["validation"]["r2_score"].argmax() == model.evals_result_["validation"]["loss"].argmin()
