"""Losses by the names that estimators use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fastens.engine.losses.losses import (
    AbsoluteError,
    BinaryLogLoss,
    Gamma,
    Huber,
    Loss,
    MulticlassLogLoss,
    Poisson,
    Quantile,
    SquaredError,
)
from fastens.engine.losses.numeric_losses import (
    CrossEntropy,
    CustomClassLoss,
    CustomLoss,
    Expectile,
    Exponential,
    LogCosh,
    SeveralLevels,
    Tweedie,
)


@dataclass(frozen=True)
class LossOptions:
    """What some losses need to know.

    Attributes
    ----------
    quantile : float or sequence of float, optional
        For "quantile" and "expectile": the level, between 0 and 1, or several.
    alpha : float, default=0.9
        For "huber": the share of the rows that count as no outliers.
    tweedie_variance_power : float, default=1.5
        For "tweedie": the power p of the mean that the variance grows with, between 1 and 2.
    """

    quantile: float | Sequence[float] | None = None
    alpha: float = 0.9
    tweedie_variance_power: float = 1.5


def loss_of_levels(kind: Callable[[float], Loss], name: str, levels: Any) -> Loss:
    """One quantile or expectile, or several at once."""
    if levels is None or isinstance(levels, float | np.floating):
        return kind(checked_level(levels, name))
    if len(levels) == 0 or any(a >= b for a, b in pairwise(levels)):
        raise ValueError(f"quantile must hold ascending levels for loss={name!r}; got {list(levels)!r}.")
    return SeveralLevels([kind(checked_level(level, name)) for level in levels])


def quantile_loss(options: LossOptions) -> Loss:
    """One quantile, or several at once."""
    return loss_of_levels(Quantile, "quantile", options.quantile)


def checked_level(level: Any, name: str) -> float:
    """A number between 0 and 1."""
    if not isinstance(level, float | np.floating) or not 0 < level < 1:
        raise ValueError(f"quantile must be between 0 and 1 for loss={name!r}; got {level!r}.")
    return float(level)


REGRESSION: dict[str, Callable[[LossOptions], Loss]] = {
    "squared_error": lambda options: SquaredError(),
    "absolute_error": lambda options: AbsoluteError(),
    "quantile": quantile_loss,
    "pinball": quantile_loss,
    "huber": lambda options: Huber(options.alpha),
    "log_cosh": lambda options: LogCosh(),
    "expectile": lambda options: loss_of_levels(Expectile, "expectile", options.quantile),
    "poisson": lambda options: Poisson(),
    "gamma": lambda options: Gamma(),
    "tweedie": lambda options: Tweedie(options.tweedie_variance_power),
    "cross_entropy": lambda options: CrossEntropy(),
}
CLASSIFICATION = ("log_loss", "exponential")


def regression_loss(loss: Any, options: LossOptions) -> Loss:
    """Make a loss for numbers.

    Parameters
    ----------
    loss : str, callable or object with `derivatives`
        A name among `REGRESSION`, or a user's own loss (see `CustomLoss`).
    options : LossOptions
        What the loss needs to know.
    """
    return REGRESSION[loss](options) if isinstance(loss, str) else CustomLoss(loss)


def classification_loss(loss: Any, n_classes: int) -> Loss:
    """Make a loss for classes.

    Parameters
    ----------
    loss : str, callable or object with `derivatives`
        "log_loss"; "exponential", for two classes; or a user's own loss (see `CustomClassLoss`).
    n_classes : int
        How many classes there are.
    """
    if loss == "log_loss":
        return BinaryLogLoss() if n_classes == 2 else MulticlassLogLoss(n_classes)
    if not isinstance(loss, str):
        return CustomClassLoss(loss, n_classes)
    if n_classes > 2:
        raise ValueError(
            f"Only binary classification is supported with loss={loss!r}, and y holds {n_classes} classes; "
            "use loss='log_loss' for more than two."
        )
    return Exponential()


def is_custom(loss: Any) -> bool:
    """Whether this is a loss of the user's own."""
    return callable(loss) or callable(getattr(loss, "derivatives", None))
