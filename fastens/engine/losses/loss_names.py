"""Losses by the names that estimators and other libraries use."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from fastens.engine.elementary import logaddexp
from fastens.engine.losses.column_losses import JoinedLosses, OneVsRest, SeveralLevels
from fastens.engine.losses.distributions import (
    BetaDistribution,
    GammaDistribution,
    LogNormal,
    NegativeBinomial,
    Normal,
    Ordinal,
    StudentT,
    Weibull,
    ZeroInflatedPoisson,
)
from fastens.engine.losses.losses import (
    AbsoluteError,
    Array,
    BinaryLogLoss,
    Gamma,
    Huber,
    Link,
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
    Tweedie,
)


def _signed_squares(raw: Array) -> Array:
    """Return sign(raw) raw**2, shape (n_rows,), for raw predictions of shape (n_rows, 1)."""
    return np.sign(raw[:, 0]) * raw[:, 0] * raw[:, 0]


class RootSquaredError(JoinedLosses):
    """The squared error of sign(y) sqrt(abs(y)); predictions are sign(raw) raw**2 (LightGBM's `reg_sqrt`)."""

    link = Link("", _signed_squares)

    def __init__(self) -> None:
        super().__init__([SquaredError()])
        self.name = "squared_error_of_root"

    def target_of(self, y: Array, part: int) -> Array:
        """Return sign(y) sqrt(abs(y)), the target of the squared error."""
        return np.sign(y) * np.sqrt(np.abs(y))


def _softplus(raw: Array) -> Array:
    """Return log(1 + exp(raw)), shape (n_rows,), for raw predictions of shape (n_rows, 1)."""
    return logaddexp(0.0, raw[:, 0])


class CrossEntropyLambda(CrossEntropy):
    """The cross entropy of 1 - exp(-m), the logistic function of raw; predictions are m = log(1 + exp(raw))."""

    name = "cross_entropy_lambda"
    link = Link("", _softplus)


def loss_of_levels(make_loss: Callable[[float], Loss], name: str, levels: Any) -> Loss:
    """Return the loss for one level, or one joint loss for several; raise ValueError unless these ascend in (0, 1).

    `make_loss` creates the loss of a level, and `name` is the name of the loss in errors.
    """
    if levels is None or isinstance(levels, float | np.floating):
        return make_loss(validated_level(levels, name))
    if len(levels) == 0 or any(a >= b for a, b in pairwise(levels)):
        raise ValueError(f"quantile must list ascending levels for loss={name!r}; got {list(levels)!r}.")
    return SeveralLevels([make_loss(validated_level(level, name)) for level in levels])


def validated_level(level: Any, name: str) -> float:
    """Return a level as a float; raise ValueError, which names the loss `name`, unless it is a float in (0, 1)."""
    if not isinstance(level, float | np.floating) or not 0 < level < 1:
        raise ValueError(f"quantile must be between 0 and 1 for loss={name!r}; got {level!r}.")
    return float(level)


# Each function takes the level or levels, which only some losses use.
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
    "normal": lambda level: Normal(),
    "lognormal": lambda level: LogNormal(),
    "student_t": lambda level: StudentT(),
    "gamma_dist": lambda level: GammaDistribution(),
    "weibull": lambda level: Weibull(),
    "beta": lambda level: BetaDistribution(),
    "negative_binomial": lambda level: NegativeBinomial(),
    "zero_inflated_poisson": lambda level: ZeroInflatedPoisson(),
}
# Losses that predict all parameters of a distribution.
DISTRIBUTIONS = tuple(name for name, make in REGRESSION.items() if make(0.5).has_distribution)
CLASSIFICATION = ("log_loss", "exponential", "one_vs_rest", "ordinal")


def regression_loss(loss: Any, level: Any = None) -> Loss:
    """Create a loss for regression.

    Parameters
    ----------
    loss : str, callable or object with `derivatives`
        A name in `REGRESSION`, or a user-defined loss (see `CustomLoss`).
    level : float or list of float, optional
        Level or levels between 0 and 1 for "quantile" and "expectile".
    """
    return REGRESSION[loss](level) if isinstance(loss, str) else CustomLoss(loss)


def distribution_of(loss: Loss, raw: Array) -> Any:
    """Return the frozen scipy.stats distributions of rows; raise ValueError if the loss does not predict them."""
    if loss.frozen is None:
        raise ValueError(
            "loss must be one that predicts a distribution, such as 'normal' or 'negative_binomial'; got "
            f"{loss.name!r}."
        )
    return loss.frozen(raw)


def classification_loss(loss: Any, n_classes: int) -> Loss:
    """Create a loss for classification.

    Parameters
    ----------
    loss : str, callable or object with `derivatives`
        "log_loss", "exponential" (only for two classes), "one_vs_rest", "ordinal", or a user-defined loss (see
        `CustomClassLoss`).
    n_classes : int
        Number of classes.
    """
    if n_classes == 1:
        return OneClass(loss if isinstance(loss, str) else "custom")
    if loss == "log_loss":
        return BinaryLogLoss() if n_classes == 2 else MulticlassLogLoss(n_classes)
    if loss == "one_vs_rest":
        return OneVsRest(n_classes)
    if loss == "ordinal":
        return BinaryLogLoss() if n_classes == 2 else Ordinal(n_classes)
    if not isinstance(loss, str):
        return CustomClassLoss(loss, n_classes)
    if n_classes > 2:
        raise ValueError(
            f"Only binary classification is supported with loss={loss!r}; y holds {n_classes} classes. Use "
            "loss='log_loss' for more than two."
        )
    return Exponential()


def is_custom(loss: Any) -> bool:
    """Return True if `loss` is a user-defined loss: a function, or an instance with a method `derivatives`."""
    return not isinstance(loss, type) and (callable(loss) or callable(getattr(loss, "derivatives", None)))
