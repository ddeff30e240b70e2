"""What becomes of raw predictions: links and classes, by loss."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.engine.losses.column_losses import ColumnLosses
from fastens.engine.losses.exponential import ExponentialLoss
from fastens.engine.losses.least_squares import LeastSquares
from fastens.engine.losses.losses import BinaryLogLoss, LogLinkLoss, Loss, MulticlassLogLoss
from fastens.engine.losses.numeric_losses import CrossEntropy, CustomClassLoss, CustomLoss, Exponential, SeveralLevels


class CannotHoldError(Exception):
    """What a format cannot hold; `export` completes the sentence, and raises ValueError."""


class Target(NamedTuple):
    """What some of the raw predictions become.

    Attributes
    ----------
    outputs : slice
        Which raw predictions.
    link : str
        "identity", "exp", "sigmoid" (of log odds), "softmax", "one vs rest" (sigmoids scaled to sum to 1), "shares" (of
        the second of two classes, or of each), "sorted" (levels in ascending order) or "anomaly" (of path lengths).
    classes : array or None
        The labels; None for numbers.
    parameters : tuple of float
        "anomaly": the mean path length and the offset of the decision.
    """

    outputs: slice
    link: str
    classes: NDArray[Any] | None
    parameters: tuple[float, ...] = ()


def targets_of(model: Any) -> tuple[list[Target], float]:
    """Return the targets of a model, and what its raw predictions are multiplied by for their links to hold."""
    if model._combination == "path length":
        parameters = (float(model._mean_path_length()), float(model.offset_))
        return [Target(slice(0, 1), "anomaly", None, parameters)], 1.0
    if model._combination not in ("sum", "mean"):
        raise CannotHoldError(f"the {model._combination} of trees")
    classes = getattr(model, "classes_", None)
    loss = getattr(model, "_loss", None)
    by_target: list[Any] = classes if isinstance(classes, list) else [classes]
    if loss is None:
        if not is_classifier(model):
            return [Target(slice(0, model._n_outputs()), "identity", None)], 1.0
        widths = [len(own) for own in by_target]
        if sum(widths) != model._n_outputs():  # of two classes the share of the second alone
            widths = [1 if width == 2 else width for width in widths]
        ends = np.cumsum(widths)
        return [
            Target(slice(end - width, end), "shares", own)
            for end, width, own in zip(ends.tolist(), widths, by_target, strict=True)
        ], 1.0
    losses = loss.parts if isinstance(loss, ColumnLosses) else [loss]
    if len(by_target) < len(losses):
        by_target = [None] * len(losses)
    ends = np.cumsum([part.n_outputs for part in losses]).tolist()
    links = [_link(part) for part in losses]
    if loss is not losses[0] and classes is None and len({*links}) == 1 and links[0][0] != "sorted":
        return [Target(slice(0, loss.n_outputs), links[0][0], None)], 1.0
    targets = [
        Target(slice(end - part.n_outputs, end), link, own)
        for end, part, (link, _), own in zip(ends, losses, links, by_target, strict=True)
    ]
    return targets, links[0][1]


def _link(loss: Loss) -> tuple[str, float]:
    """The link of a loss, and the factor that it needs: by what makes predictions of raw ones."""
    if isinstance(loss, LeastSquares):
        return _link(loss._base)
    if isinstance(loss, CustomLoss):
        if hasattr(loss._source, "predict"):
            raise CannotHoldError("a loss of the user's own with a method `predict`")
        of_classes = "sigmoid" if loss.n_outputs == 1 else "softmax"
        return (of_classes if isinstance(loss, CustomClassLoss) else "identity"), 1.0
    if isinstance(loss, ExponentialLoss):
        return ("sigmoid" if loss.n_outputs == 1 else "one vs rest"), 1.0
    found = _LINKS.get(type(loss).predict)
    if found is None:
        raise CannotHoldError(f"the predictions of loss={loss.name!r}")
    return found


_LINKS: dict[Any, tuple[str, float]] = {
    Loss.predict: ("identity", 1.0),
    LogLinkLoss.predict: ("exp", 1.0),
    BinaryLogLoss.predict: ("sigmoid", 1.0),
    CrossEntropy.predict: ("sigmoid", 1.0),
    Exponential.predict: ("sigmoid", 2.0),
    MulticlassLogLoss.predict: ("softmax", 1.0),
    SeveralLevels.predict: ("sorted", 1.0),
}
