"""Trees and forests of every kind, and targets for them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fastens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

CLASSIFIERS = [DecisionTreeClassifier, RandomForestClassifier, ExtraTreesClassifier]
REGRESSORS = [DecisionTreeRegressor, RandomForestRegressor, ExtraTreesRegressor]
FORESTS = [RandomForestClassifier, ExtraTreesClassifier, RandomForestRegressor, ExtraTreesRegressor]
KINDS = CLASSIFIERS + REGRESSORS
TARGETS = ["binary", "classes", "class targets", "numbers", "number targets"]


def make(kind, **parameters):
    """A small model of a kind."""
    if kind in FORESTS:
        parameters = {"n_estimators": 8, **parameters}
    return kind(**{"random_state": 1, **parameters})


def make_table(rng, n_rows=200):
    """Numbers with missing values, and categories."""
    return pd.DataFrame(
        {
            "a": np.where(rng.random(n_rows) < 0.1, np.nan, rng.standard_normal(n_rows)),
            "b": rng.integers(0, 6, n_rows).astype(float),
            "c": pd.Categorical(rng.choice(["red", "green", "blue", None], n_rows)),
            "d": rng.standard_normal(n_rows),
        }
    )


def make_targets(X, rng):
    """A target of each of `TARGETS`."""
    signal = np.nan_to_num(X["a"]) + (X["c"] == "red") * 2.0 + 0.3 * X["b"] + 0.2 * rng.standard_normal(len(X))
    several = np.digitize(signal, np.quantile(signal, [0.3, 0.6]))
    names = np.array(["low", "middle", "high"])
    return {
        "binary": (signal > signal.median()).to_numpy(),
        "classes": names[several],
        "class targets": np.column_stack([several, signal > 1]),
        "numbers": signal.to_numpy(),
        "number targets": np.column_stack([signal, -signal, X["d"]]),
    }


def kinds_for(target):
    """The kinds of models that a target is for."""
    return REGRESSORS if "number" in target else CLASSIFIERS


CASES = [(kind, target) for target in TARGETS for kind in kinds_for(target)]


def outputs(model, X):
    """What a model says of rows: probabilities of all classes of all targets, or numbers."""
    if not hasattr(model, "predict_proba"):
        return model.predict(X).reshape(X.shape[0], -1)
    found = model.predict_proba(X)
    return np.column_stack(found) if isinstance(found, list) else found
