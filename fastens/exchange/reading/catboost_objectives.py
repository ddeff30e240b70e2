"""What CatBoost's loss functions are here: an estimator, its loss and classes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastens.exchange.reading.checks import number
from fastens.exchange.reading.records import CLASSIFIER, RANKER, REGRESSOR, SURVIVAL, refuse
from fastens.options import TweedieLoss

# Those without a counterpart predict raw values, by a loss of the same kind of prediction.
_NUMBERS = {
    "RMSE": "squared_error",
    "MultiRMSE": "squared_error",
    "MultiRMSEWithMissingValues": "squared_error",
    "MAE": "absolute_error",
    "MAPE": "absolute_error",
    "Lq": "squared_error",
    "Huber": "huber",
    "LogCosh": "log_cosh",
    "LogLinQuantile": "squared_error",
    "Poisson": "poisson",
    "RMSPE": "squared_error",
    "RMSEWithUncertainty": "squared_error",  # the mean, and the logarithm of the standard deviation
    "MultiCrossEntropy": "cross_entropy",
    "PythonUserDefinedPerObject": "squared_error",
}
_CLASSES = ("CrossEntropy", "Logloss", "MultiClass", "MultiClassOneVsAll", "MultiLogloss")
_LEVELS = {"Quantile": "quantile", "MultiQuantile": "quantile", "Expectile": "expectile"}
_RANKING = (
    "LambdaMart",
    "PairLogit",
    "PairLogitPairwise",
    "QueryCrossEntropy",
    "QueryRMSE",
    "QuerySoftMax",
    "StochasticFilter",
    "StochasticRank",
    "YetiRank",
    "YetiRankPairwise",
)


@dataclass(frozen=True)
class Objective:
    """A loss function: the class of the estimator, its parameters, targets, classes and further attributes."""

    estimator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    n_targets: int = 1
    classes: Any = None
    fitted: dict[str, Any] = field(default_factory=dict)


def objective_of(info: dict[str, Any], n_outputs: int) -> Objective:
    """Return what the loss function of a model is here.

    Parameters
    ----------
    info : dict
        The file's `model_info`.
    n_outputs : int
        Raw predictions of a row.
    """
    parameters = info.get("params") or {}
    function = parameters.get("loss_function") if isinstance(parameters, dict) else None
    function = function if isinstance(function, dict) else {}
    kind, options = str(function.get("type", "RMSE")), function.get("params") or {}
    class_params = info.get("class_params") or {}
    if kind in _CLASSES or (class_params and kind not in _NUMBERS):
        return _classes(kind, class_params, n_outputs)
    found = _numbers(kind, options, n_outputs)
    if found is None:
        raise refuse(f"the loss function {kind[:60]!r} cannot be read")
    return found


def _numbers(kind: str, options: dict[str, Any], n_outputs: int) -> Objective | None:
    """Objectives of numbers, survival and ranking."""
    if kind in _LEVELS:
        levels = [number(level, "alpha") for level in str(options.get("alpha", "0.5")).split(",")]
        return Objective(REGRESSOR, {"loss": _LEVELS[kind], "quantile": levels[0] if len(levels) == 1 else levels})
    if kind == "Tweedie":
        return Objective(REGRESSOR, {"loss": TweedieLoss(variance_power=number(options.get("variance_power"), kind))})
    if kind in _NUMBERS:
        return Objective(REGRESSOR, {"loss": _NUMBERS[kind]}, n_targets=n_outputs)
    if kind == "Cox":
        no_hazard = {"event_times_": np.zeros(0), "cumulative_hazard_": np.zeros(0)}
        return Objective(SURVIVAL, {"loss": "cox"}, fitted=no_hazard)
    return Objective(RANKER) if kind in _RANKING else None


def _classes(kind: str, info: dict[str, Any], n_outputs: int) -> Objective:
    if kind == "MultiLogloss":
        return Objective(CLASSIFIER, n_targets=n_outputs, classes=[np.arange(2)] * n_outputs)
    n_classes = 2 if n_outputs == 1 else n_outputs
    names = info.get("class_names") or list(range(n_classes))
    if kind == "CrossEntropy" and not info.get("class_names"):
        return Objective(REGRESSOR, {"loss": "cross_entropy"})
    if not isinstance(names, list) or len(names) != n_classes or len(set(map(str, names))) != n_classes:
        raise refuse(f"class_names must be {n_classes} different names; got {str(names)[:60]}")
    loss = "one_vs_rest" if kind == "MultiClassOneVsAll" else "log_loss"
    return Objective(CLASSIFIER, {"loss": loss}, classes=np.array(names))
