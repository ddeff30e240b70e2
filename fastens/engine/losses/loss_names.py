"""Losses by the names that estimators use."""

from __future__ import annotations

from collections.abc import Callable
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
    OneClass,
    SeveralLevels,
    Tweedie,
)
from fastens.engine.losses.other_links import CrossEntropyLambda, OneVsRest, RootSquaredError


def loss_of_levels(kind: Callable[[float], Loss], name: str, levels: Any) -> Loss:
    """One quantile or expectile, or several at once."""
    if levels is None or isinstance(levels, float | np.floating):
        return kind(checked_level(levels, name))
    if len(levels) == 0 or any(a >= b for a, b in pairwise(levels)):
        raise ValueError(f"quantile must hold ascending levels for loss={name!r}; got {list(levels)!r}.")
    return SeveralLevels([kind(checked_level(level, name)) for level in levels])


def checked_level(level: Any, name: str) -> float:
    """A number between 0 and 1."""
    if not isinstance(level, float | np.floating) or not 0 < level < 1:
        raise ValueError(f"quantile must be between 0 and 1 for loss={name!r}; got {level!r}.")
    return float(level)


# With the level, or the levels, of those that have some.
REGRESSION: dict[str, Callable[[Any], Loss]] = {
    "squared_error": lambda level: SquaredError(),
    "absolute_error": lambda level: AbsoluteError(),
    "quantile": lambda level: loss_of_levels(Quantile, "quantile", level),
    "pinball": lambda level: loss_of_levels(Quantile, "quantile", level),
    "huber": lambda level: Huber(),
    "log_cosh": lambda level: LogCosh(),
    "expectile": lambda level: loss_of_levels(Expectile, "expectile", level),
    "poisson": lambda level: Poisson(),
    "gamma": lambda level: Gamma(),
    "tweedie": lambda level: Tweedie(),
    "cross_entropy": lambda level: CrossEntropy(),
    "cross_entropy_lambda": lambda level: CrossEntropyLambda(),
    "squared_error_of_root": lambda level: RootSquaredError(),
}
CLASSIFICATION = ("log_loss", "exponential", "one_vs_rest")


def regression_loss(loss: Any, level: Any = None) -> Loss:
    """Make a loss for numbers.

    Parameters
    ----------
    loss : str, callable or object with `derivatives`
        A name among `REGRESSION`, or a user's own loss (see `CustomLoss`).
    level : float or list of float, optional
        For "quantile" and "expectile": the level, between 0 and 1, or several.
    """
    return REGRESSION[loss](level) if isinstance(loss, str) else CustomLoss(loss)


def classification_loss(loss: Any, n_classes: int) -> Loss:
    """Make a loss for classes.

    Parameters
    ----------
    loss : str, callable or object with `derivatives`
        "log_loss"; "exponential", for two classes; "one_vs_rest"; or a user's own loss (see `CustomClassLoss`).
    n_classes : int
        How many classes there are.
    """
    if n_classes == 1:
        return OneClass(loss if isinstance(loss, str) else "custom")
    if loss == "log_loss":
        return BinaryLogLoss() if n_classes == 2 else MulticlassLogLoss(n_classes)
    if loss == "one_vs_rest":
        return OneVsRest(n_classes)
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
    return not isinstance(loss, type) and (callable(loss) or callable(getattr(loss, "derivatives", None)))
