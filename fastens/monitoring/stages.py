"""Scores after each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from fastens.engine.losses.numeric_losses import Expectile
from fastens.table.labels import share_right
from fastens.table.sample_weights import rows_to_score


def score_of(model: Any, y: Any, predicted: Any, sample_weight: Any) -> float:
    """The accuracy of an estimator's predictions, or R2; of several quantiles or expectiles the mean of their D2."""
    from sklearn.metrics import d2_pinball_score, r2_score

    y, predicted, weight = rows_to_score(y, predicted, sample_weight)
    levels = getattr(model, "_predicted_levels", None)
    if levels is None:
        return float((share_right if is_classifier(model) else r2_score)(y, predicted, sample_weight=weight))
    measure = d2_pinball_score if model._loss.name == "quantile" else d2_expectile_score
    columns = zip(np.moveaxis(predicted, -1, 0), levels, strict=True)
    return float(np.mean([measure(y, own, alpha=level, sample_weight=weight) for own, level in columns]))


def staged_scores(model: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Iterator[float]:
    """Yield the score of an estimator's predictions after each round."""
    for predicted in model.staged_predict(X):
        yield score_of(model, y, predicted, sample_weight)


def levels_of(model: Any) -> list[float] | None:
    """The levels of the quantiles that an estimator predicts, where it has them as its parameter `quantile`."""
    of_fit = getattr(model, "_parameters_of_fit", {})
    levels = of_fit.get("quantile", getattr(model, "quantile", None))
    return None if levels is None or np.ndim(levels) != 1 else list(levels)


def d2_expectile_score(
    y: ArrayLike, predicted: ArrayLike, *, alpha: float, sample_weight: ArrayLike | None = None
) -> float:
    """The share of the loss of an expectile of level `alpha` that predictions save over the best constant.

    Of several targets the mean. As `sklearn.metrics.d2_pinball_score` for quantiles: 1 for a perfect prediction, 0 for
    that constant.
    """
    loss, saved = Expectile(alpha), []
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    for target, own in zip(_columns(y), _columns(predicted), strict=True):
        least = loss.loss(target, np.broadcast_to(loss.start(target, weight)[:, None], (1, len(target))), weight)
        left = loss.loss(target, own[None], weight)
        saved.append(1 - left / least if least > 0 else float(left == 0))
    return float(np.mean(saved))


def _columns(values: ArrayLike) -> list[NDArray[np.float64]]:
    array = np.asarray(values, dtype=np.float64)
    return list(np.ascontiguousarray(array.reshape(len(array), -1).T))
