"""Small boosting models of every loss, and targets for them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor, HuberLoss

LOSSES = {
    "squared_error": {},
    "absolute_error": {},
    "quantile": {"quantile": 0.8},
    "huber": {"loss": HuberLoss(alpha=0.8)},
    "poisson": {},
    "gamma": {},
    "binary": {},
    "multiclass": {},
}


def same_python():
    """A Python that imports the fastens under test: a checkout that it starts in counts only if that is built."""
    return [sys.executable, "-P"] if "site-packages" in Path(fastens.__file__).parts else [sys.executable]


def make_model(loss, **parameters):
    parameters = {"n_estimators": 8, "n_jobs": 1, **parameters}
    if loss in ("binary", "multiclass"):
        return GradientBoostingClassifier(**parameters)
    return GradientBoostingRegressor(**{"loss": loss, **LOSSES[loss], **parameters})


def make_target(loss, X, rng):
    """A target that suits the loss, and depends on the first columns."""
    signal_ = np.nan_to_num(X[:, 0]) + np.abs(np.nan_to_num(X[:, 1]))
    noisy = signal_ + 0.3 * rng.standard_normal(len(X))
    if loss == "binary":
        return (noisy > np.median(noisy)).astype(int)
    if loss == "multiclass":
        return np.digitize(noisy, np.quantile(noisy, [0.3, 0.6]))
    if loss == "poisson":
        return rng.poisson(np.exp(0.5 * signal_)).astype(float)
    if loss == "gamma":
        return np.exp(0.5 * noisy)
    return noisy


def outputs(model, X):
    """All that a model says about rows."""
    if hasattr(model, "predict_proba"):
        return np.column_stack([model.predict_proba(X), model.decision_function(X), model.predict(X)])
    return model.predict(X)[:, None]
