"""What XGBoost's objectives are here: an estimator, its loss and classes, and the link of base_score."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.exchange.reading.checks import number, whole_number
from fastens.exchange.reading.records import CLASSIFIER, RANKER, REGRESSOR, SURVIVAL, refuse
from fastens.options import AFTLoss, TweedieLoss

# Those without a counterpart predict raw values, by a loss of the same kind of prediction.
_NUMBERS = {
    "reg:squarederror": "squared_error",
    "reg:linear": "squared_error",
    "reg:squaredlogerror": "squared_error",
    "reg:pseudohubererror": "huber",
    "reg:absoluteerror": "absolute_error",
    "reg:logistic": "cross_entropy",
    "count:poisson": "poisson",
    "reg:gamma": "gamma",
}
_TWO_CLASSES = ("binary:logistic", "binary:logitraw", "binary:hinge")
_RANKING = ("rank:pairwise", "rank:ndcg", "rank:map")
_LOGIT = ("binary:logistic", "reg:logistic")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")


@dataclass(frozen=True)
class Objective:
    """An objective.

    Attributes
    ----------
    name : str
        XGBoost's name.
    estimator : str
        The class of the estimator.
    parameters : dict
        Its parameters.
    n_outputs, n_targets : int
        Raw predictions of a row; targets.
    classes : array or list of arrays, or None
        Its classes.
    fitted : dict
        More attributes of the estimator.
    """

    name: str
    estimator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    n_outputs: int = 1
    n_targets: int = 1
    classes: Any = None
    fitted: dict[str, Any] = field(default_factory=dict)

    def margin(self, score: NDArray[np.float32]) -> NDArray[np.float32]:
        """Raw predictions of base scores, in float32 as XGBoost computes them."""
        one = np.float32(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.name in _LOGIT:
                return -np.log(one / score - one)
            return np.log(score) if self.name in _LOG else score

    def has_vectors(self, trees: list[Any]) -> bool:
        """Whether trees have a value for each output."""
        return bool(trees) and trees[0].get("tree_param", {}).get("size_leaf_vector", "1") not in ("0", "1")


def objective_of(objective: dict[str, Any], settings: dict[str, Any]) -> Objective:
    """Return what an objective is here.

    Parameters
    ----------
    objective : dict
        The record of a file, with its name and options.
    settings : dict
        The file's `learner_model_param`.
    """
    name = str(objective.get("name"))
    n_targets = max(1, whole_number(settings.get("num_target", "1"), "num_target"))
    n_classes = whole_number(settings.get("num_class", "0"), "num_class")
    if name in _NUMBERS or name == "reg:tweedie":
        loss = _tweedie(objective) if name == "reg:tweedie" else _NUMBERS[name]
        return Objective(name, REGRESSOR, {"loss": loss}, n_targets, n_targets)
    if name in ("reg:quantileerror", "reg:expectileerror"):
        return _levels(name, objective, n_targets)
    if name in _TWO_CLASSES:
        classes: Any = np.arange(2) if n_targets == 1 else [np.arange(2)] * n_targets
        return Objective(name, CLASSIFIER, {}, n_targets, n_targets, classes)
    if name in ("multi:softprob", "multi:softmax") and n_classes > 1 and n_targets == 1:
        return Objective(name, CLASSIFIER, {}, n_classes, classes=np.arange(n_classes))
    if name in _RANKING:
        return Objective(name, RANKER)
    return _survival(name, objective)


def _survival(name: str, objective: dict[str, Any]) -> Objective:
    if name == "survival:cox":
        fitted = {"event_times_": np.zeros(0), "cumulative_hazard_": np.zeros(0)}
        return Objective(name, SURVIVAL, {"loss": "cox"}, fitted=fitted)
    if name == "survival:aft":
        options = objective.get("aft_loss_param", {})
        kind = options.get("aft_loss_distribution", "normal")
        if kind not in ("normal", "logistic", "extreme"):
            raise refuse(f"the distribution of survival:aft must be one that XGBoost has; got {str(kind)[:40]!r}")
        scale = number(options.get("aft_loss_distribution_scale", "1"), "aft_loss_distribution_scale")
        return Objective(name, SURVIVAL, {"loss": AFTLoss(distribution=kind, scale=scale)})
    raise refuse(f"the objective {name[:60]!r} is none that XGBoost has, or does not fit the number of classes")


def _tweedie(objective: dict[str, Any]) -> Any:
    options = objective.get("tweedie_regression_param", {})
    power = number(options.get("tweedie_variance_power", "1.5"), "tweedie_variance_power")
    return TweedieLoss(variance_power=power) if 1 < power < 2 else "poisson"


def _levels(name: str, objective: dict[str, Any], n_targets: int) -> Objective:
    """Quantiles or expectiles, one or several."""
    kind = name.removeprefix("reg:").removesuffix("error")
    options = objective.get(f"{kind}_loss_param") or {}
    text = str(options.get(f"{kind}_alpha", "[]")).replace("(", "[").replace(")", "]")
    try:
        given = json.loads(text)
    except ValueError as error:
        raise refuse(f"{kind}_alpha must be a list of numbers; got {text[:40]!r}") from error
    levels = [number(level, f"{kind}_alpha") for level in (given if isinstance(given, list) else [given])]
    if not levels or any(not 0 < level < 1 for level in levels):
        raise refuse(f"{kind}_alpha must hold levels between 0 and 1; got {text[:40]!r}")
    if n_targets not in (1, len(levels)):
        raise refuse(f"{kind}_alpha must have {n_targets} levels; got {text[:40]!r}")
    return Objective(
        name, REGRESSOR, {"loss": kind, "quantile": levels[0] if len(levels) == 1 else levels}, len(levels)
    )
