"""Fits made of bytes: hostile columns, targets, weights, parameters; the same trees by twins and other libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn import tree as sklearn_tree
from sklearn.base import is_classifier

import fastens
from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from properties.choices import Choices
from properties.parameters import TABLES, quick_parameters, values_for, wrong_values_for
from properties.tables import FORMS, LABELS, NUMBERS, OTHERS, TARGETS, WEIGHTS
from properties.trial import Case, refuse, run
from reference.grown import bin_rows
from reference.growth import NaiveGrower


def check_fit(choices: Choices, folder: Path) -> None:
    """Any estimator on any table: a model, or an error that helps."""
    estimator = choices.of(TABLES)
    values = values_for(estimator)
    drawn = [choices.of(sorted(values)) for _ in range(choices.below(4))]
    targets = LABELS if is_classifier(getattr(fastens, estimator)()) else TARGETS
    run(
        Case(
            estimator,
            choices.of((40, 1, 2, 3, 10, 100)),
            tuple(choices.of([*NUMBERS, *OTHERS]) for _ in range(1 + choices.below(4))),
            choices.of(FORMS),
            choices.of(sorted(targets)),
            choices.of([None, *sorted(WEIGHTS)]),
            quick_parameters(estimator) | {name: choices.of(values[name]) for name in drawn},
            choices.below(256),
        )
    )


def check_parameter(choices: Choices, folder: Path) -> None:
    """A value that breaks a parameter's rule is named, with the parameter."""
    estimator = choices.of(TABLES)
    wrong = wrong_values_for(estimator)
    parameter = choices.of(sorted(wrong))
    refuse((estimator, parameter, choices.of(wrong[parameter])))


# The same trees ------------------------------------------


def _numbers(choices: Choices, n_rows: int) -> np.ndarray:
    """A table of hostile numbers."""
    rng = np.random.default_rng(choices.below(65_536))
    columns = [NUMBERS[choices.of(sorted(NUMBERS))](rng, n_rows) for _ in range(1 + choices.below(4))]
    return np.column_stack(columns)


def check_twin(choices: Choices, folder: Path) -> None:
    """The first split is the one of the naive twin, or as good."""
    n_rows = choices.of((2, 3, 17, 40, 90))
    X = _numbers(choices, n_rows)
    rng = np.random.default_rng(choices.below(256))
    is_categorical = [k for k in range(X.shape[1]) if choices.below(4) == 0]
    with np.errstate(all="ignore"):
        codes = np.where(np.isfinite(X), np.abs(X) % 7, np.nan)
    X[:, is_categorical] = np.floor(codes[:, is_categorical])
    matrix = bin_rows(X, max_bins=choices.of((255, 2, 16, 1000)), categorical=is_categorical)
    scale = choices.of((1.0, 1e-6, 1e6))
    gradients = (scale * rng.choice([rng.normal(size=n_rows), rng.integers(-2, 3, n_rows)])).astype(np.float32)
    hessians = rng.uniform(0.1, 1.1, n_rows).astype(np.float32)
    weights = choices.of((None, rng.integers(1, 4, n_rows) * 1.0, rng.integers(1, 2000, n_rows) * 1.0))
    rules = GrowthParameters(
        max_leaf_nodes=2, min_samples_leaf=choices.of((1, 5)), l2_regularization=choices.of((0.0, 0.5, 1e6))
    )
    tree = TreeGrower(matrix, rules, weights).grow(gradients, hessians)
    split = NaiveGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules).grow(
        gradients, hessians, weights
    )[0]["split"]
    # Less than this is the rounding of sums.
    noise = 1e-6 * float((gradients.astype(float) ** 2 * (1 if weights is None else weights)).sum())
    gain, wanted = (float(tree.gain[0]) if tree.n_nodes > 1 else 0.0), (0.0 if split is None else split["gain"])
    assert abs(gain - wanted) <= noise + 1e-5 * wanted, (gain, wanted)


def _same(model: Any, theirs: np.ndarray, X: np.ndarray, rtol: float = 1e-9) -> None:
    ours = model.predict_proba(X) if is_classifier(model) else model.predict(X)
    ours = ours[:, 1] if ours.ndim == 2 and theirs.ndim == 1 else ours
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)


def check_scikit_learn(choices: Choices, folder: Path) -> None:
    """scikit-learn's trees, read, predict what they do; a stump of ours explains as much as theirs."""
    X = _numbers(choices, choices.of((3, 10, 40, 90)))
    X = np.clip(X, -1e30, 1e30).astype(np.float32)  # what they compute with
    rng = np.random.default_rng(choices.below(256))
    y = choices.of((rng.normal(size=len(X)), rng.integers(0, 3, len(X)), np.round(np.nan_to_num(X[:, 0]) % 5)))
    given = {"max_depth": choices.of((None, 1, 3)), "random_state": 0}
    if choices.below(2):
        theirs = sklearn_tree.DecisionTreeClassifier(**given).fit(X, np.round(y))
        _same(fastens.from_model(theirs), theirs.predict_proba(X), X)
        return
    theirs = sklearn_tree.DecisionTreeRegressor(**given).fit(X, y)
    _same(fastens.from_model(theirs), theirs.predict(X), X)
    if given["max_depth"] == 1 and not np.isnan(X).any():
        # Values that are nearer to each other are one value to scikit-learn.
        if any((np.diff(np.unique(column)) <= 1e-6).any() for column in X.T.astype(float)):
            return
        ours = fastens.DecisionTreeRegressor(max_depth=1, max_bins=1000).fit(X, y)
        errors = [((model.predict(X) - y) ** 2).sum() for model in (ours, theirs)]
        assert errors[0] <= errors[1] + 1e-5 * ((y - y.mean()) ** 2).sum(), errors


def check_lightgbm(choices: Choices, folder: Path) -> None:
    """A model of LightGBM, read, predicts what it does, on the rows of the fit and on others."""
    import lightgbm

    X = np.clip(_numbers(choices, choices.of((20, 40, 90))), -1e300, 1e300)
    rng = np.random.default_rng(choices.below(256))
    y = rng.normal(size=len(X)) + np.nan_to_num(X[:, 0], posinf=3, neginf=-3).clip(-5, 5)
    objective = choices.of(("regression", "binary", "multiclass", "quantile", "poisson"))
    targets = {"binary": y > 0, "multiclass": np.digitize(y, [-0.5, 0.5]), "poisson": np.floor(np.abs(y))}
    is_linear = choices.below(4) == 0 and objective in {"regression", "binary"}
    parameters = {
        "objective": objective,
        "num_leaves": choices.of((31, 2, 4)),
        "min_data_in_leaf": choices.of((1, 5)),
        "min_data_in_bin": 1,
        "use_missing": choices.below(4) > 0,
        "zero_as_missing": choices.below(4) == 0 and not is_linear,
        "linear_tree": is_linear,
        "num_class": 3 if objective == "multiclass" else 1,
        "num_threads": 1,
        "verbose": -1,
    }
    data = lightgbm.Dataset(X, targets.get(objective, y))
    booster = lightgbm.train(parameters, data, 1 + choices.below(4))
    if not np.isfinite(booster.predict(X, raw_score=True)).all():
        return  # such leaves are refused
    model = fastens.from_model(booster)
    others = X[rng.integers(0, len(X), 30)]
    others = np.where(rng.random(others.shape) < 0.3, rng.choice([np.nan, 0.0, -0.0, 1e-36, 7.0], others.shape), others)
    for rows in (X, others):
        _same(model, booster.predict(rows, num_threads=1), rows)


FITS = {
    "fit": check_fit,
    "parameter": check_parameter,
    "twin": check_twin,
    "scikit-learn": check_scikit_learn,
    "lightgbm": check_lightgbm,
}
