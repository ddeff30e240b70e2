"""What LightGBM's objectives are here: an estimator, its loss, and the scale of raw predictions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastens.exchange.reading.records import CLASSIFIER, RANKER, REGRESSOR, refuse
from fastens.options import TweedieLoss


@dataclass(frozen=True)
class Objective:
    """An objective.

    Attributes
    ----------
    estimator : str
        The class of the estimator.
    parameters : dict
        Its parameters.
    classes : array or None
        Its classes.
    n_outputs : int
        Raw predictions of a row.
    scale : float
        What leaf values are multiplied by.
    """

    estimator: str
    parameters: dict[str, Any] = field(default_factory=dict)
    classes: Any = None
    n_outputs: int = 1
    scale: float = 1.0


# Losses of the same kind of prediction. What is not here has no counterpart, and predicts raw values by another loss.
_NUMBERS: dict[str, Any] = {
    "regression": "squared_error",
    "regression_l2": "squared_error",
    "regression_l1": "absolute_error",
    "mape": "absolute_error",
    "huber": "huber",
    "fair": "log_cosh",
    "poisson": "poisson",
    "gamma": "gamma",
    "cross_entropy": "cross_entropy",
    "cross_entropy_lambda": "cross_entropy_lambda",
}


def objective_of(text: str, per_round: int) -> Objective:
    """Return what an objective, as a model's header has it, is here.

    Parameters
    ----------
    text : str
        Such as ``"binary sigmoid:1"``; "" for an objective of the user's own.
    per_round : int
        Trees in a round.
    """
    name, *given = text.split(" ")
    options = dict(word.partition(":")[::2] for word in given)
    if "sqrt" in options:  # reg_sqrt of any objective of the kind of "regression"
        return Objective(REGRESSOR, {"loss": "squared_error_of_root"})
    if name in _NUMBERS:
        return Objective(REGRESSOR, {"loss": _NUMBERS[name]})
    if name == "quantile":
        return Objective(REGRESSOR, {"loss": "quantile", "quantile": _number(options.get("alpha", "0.9"))})
    if name == "tweedie":
        return Objective(REGRESSOR, {"loss": _tweedie(_number(options.get("tweedie_variance_power", "1.5")))})
    if name == "binary":
        return Objective(CLASSIFIER, classes=np.arange(2), scale=_number(options.get("sigmoid", "1")))
    return _several_or_ranking(name, text, options, per_round)


def _tweedie(power: float) -> Any:
    return TweedieLoss(variance_power=power) if 1 < power < 2 else "gamma" if power == 2 else "poisson"


def _several_or_ranking(name: str, text: str, options: Mapping[str, str], per_round: int) -> Objective:
    if name in ("multiclass", "multiclassova"):
        if options.get("num_class") != str(per_round):
            raise refuse(f"num_class must be the {per_round} trees in a round; got {options.get('num_class')!r}")
        loss, scale = ("log_loss", 1.0)
        if name == "multiclassova":
            loss, scale = "one_vs_rest", _number(options.get("sigmoid", "1"))
        return Objective(CLASSIFIER, {"loss": loss}, np.arange(per_round), per_round, scale)
    if name in ("lambdarank", "rank_xendcg"):
        return Objective(RANKER)
    if name in ("", "custom", "none"):
        return Objective(REGRESSOR, {"loss": "squared_error"}, n_outputs=per_round)
    raise refuse(f"the objective {text[:60]!r} is none that LightGBM has")


def _number(text: str) -> float:
    if not re.fullmatch(r"[0-9.eE+-]{1,30}", text):
        raise refuse(f"an option of the objective must be a number; got {text[:40]!r}")
    try:
        found = float(text)
    except ValueError as error:
        raise refuse(f"an option of the objective must be a number; got {text!r}") from error
    if not found > 0:
        raise refuse(f"an option of the objective must be positive; got {text!r}")
    return found
