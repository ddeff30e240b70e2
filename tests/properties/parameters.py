"""Values for the parameters of an estimator, valid and not, found by its own rules."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import Any

import fastens
from fastens.params import options

ESTIMATORS = [name for name in fastens.__all__ if hasattr(getattr(fastens, name), "fit")]
# The others take hypotheses or documents in place of a table.
TABLES = [name for name in ESTIMATORS if name not in {"FiniteHypothesisLearner", "TextClassifier"}]

# What keeps a trial short.
QUICK: dict[str, Any] = {"n_estimators": 5, "max_layers": 2, "random_state": 0, "n_jobs": 1, "max_iter": 20, "cv": 2}
# What only makes it long, or writes files.
LEFT_OUT = {*QUICK, "verbose", "warm_start"}

VALUES: list[Any] = [
    None, True, False, 0, 1, 2, 3, 5, 17, 255, 0.0, 0.01, 0.3, 0.5, 0.9, 1.0, 1.5, 3.0, 1e6, 1e-300, 1e300, "auto",
    [0], [1], [0.5, 0.9], (1, 2),
]  # fmt: skip
BY_NAME: dict[str, list[Any]] = {
    "averaging": [None, "posterior", options.PosteriorAverage("oob", split_prior="search", temperature=2.0)],
    "boosting": ["gbdt", "dart", options.Dart(rate_drop=0.5, skip_drop=0.0)],
    "categorical_features": [None, "from_dtype", [0], ["c0"], [True]],
    "categories": [None, options.Categories("partition"), options.Categories("ordered", "category", smoothing=0.0)],
    "class_weight": [None, "balanced", {0: 2.0, 1: 1.0}],
    "cv": [None, 2, 3],
    "early_stopping": [False, True, "auto", options.EarlyStopping(refit=True)],
    "feature_weights": [None, [1.0, 0.5], {"c0": 2.0}],
    "growth": [
        None,
        options.Growth(min_child_weight=0.0, path_smooth=3.0),
        options.Growth(min_gain_to_split=0.3, min_weight_leaf=1.5, max_delta_step=0.5),
        options.Growth(forced_splits={"feature": 0, "threshold": 0.5, "right": {"feature": 0, "threshold": 2}}),
    ],
    "interaction_cst": [None, "no_interactions", "pairwise", [[0]]],
    "monotonic_cst": [None, [1, 0], {"c0": -1}],
    "prior": [None, "uniform", [0.5, 0.5]],
}
WRONG: list[Any] = [-1, -0.5, float("nan"), float("inf"), "no such thing", [], {}, object(), 2**80, -(2**80)]


@cache
def values_for(estimator: str) -> dict[str, list[Any]]:
    """For each parameter the values that its rule takes."""
    rules = getattr(fastens, estimator)._parameter_rules
    found = {}
    for name in inspect.signature(getattr(fastens, estimator)).parameters:
        if name in LEFT_OUT:
            continue
        rule = rules.get(name)
        if name in BY_NAME:
            found[name] = BY_NAME[name]
        elif rule is not None and rule.text != "anything":
            words = re.findall(r"'([^']*)'", rule.text)
            found[name] = [value for value in [*VALUES, *words] if rule.holds(value)]
    return {name: values for name, values in found.items() if values}


@cache
def wrong_values_for(estimator: str) -> dict[str, list[Any]]:
    """For each parameter values that break its rule."""
    rules = getattr(fastens, estimator)._parameter_rules
    found = {name: [value for value in WRONG if not rule.holds(value)] for name, rule in rules.items()}
    return {name: values for name, values in found.items() if values}


def quick_parameters(estimator: str) -> dict[str, Any]:
    """Those of `QUICK` that it has, and members that have them."""
    kind = getattr(fastens, estimator)
    found = _quick(kind)
    if estimator.startswith("Conformal"):
        found["estimator"] = _quickly(kind()._template())
    elif {"estimators", "random_state"} <= set(inspect.signature(kind).parameters):
        found["estimators"] = [(name, _quickly(member)) for name, member in kind()._default_members()]
    return found


def _quick(kind: type) -> dict[str, Any]:
    names = inspect.signature(kind).parameters
    return {name: value for name, value in QUICK.items() if name in names}


def _quickly(member: Any) -> Any:
    return member.set_params(**_quick(type(member)))
