"""Scores after each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, d2_pinball_score, r2_score

from fastens.engine.numeric_losses import Expectile


class StagedScore:
    """An estimator whose predictions after each round can be scored."""

    def _score_of(self: Any, y: Any, predicted: Any, sample_weight: Any) -> float:
        """Accuracy or R2."""
        measure = accuracy_score if is_classifier(self) else r2_score
        return float(measure(y, predicted, sample_weight=sample_weight))

    def staged_score(self: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Iterator[float]:
        """Yield what `score` returns after each round.

        Parameters
        ----------
        X, y, sample_weight
            Rows, their targets and weights.
        """
        for predicted in self.staged_predict(X):
            yield self._score_of(y, predicted, sample_weight)


class QuantilesScore(StagedScore):
    """A regressor of which several quantiles or expectiles may be asked for, scored by what they save of their loss."""

    if TYPE_CHECKING:
        _loss: Any

    def _score_of(self, y: Any, predicted: Any, sample_weight: Any) -> float:
        levels = levels_of(self)
        if levels is None or self._loss.name not in ("quantile", "expectile"):
            return super()._score_of(y, predicted, sample_weight)
        measure = d2_pinball_score if self._loss.name == "quantile" else d2_expectile_score
        columns = zip(np.moveaxis(predicted, -1, 0), levels, strict=True)
        return float(np.mean([measure(y, own, alpha=level, sample_weight=sample_weight) for own, level in columns]))

    def _score_of_raw(self, raw: Any, y: Any, weight: Any) -> float:
        return self._score_of(y, self._loss.predict(raw), weight)


def levels_of(model: Any) -> list[float] | None:
    """The levels of the quantiles that an estimator predicts, where it has them as its parameter `quantile`."""
    levels = getattr(model, "quantile", None)
    return None if levels is None or np.ndim(levels) != 1 else list(levels)


def d2_expectile_score(
    y: ArrayLike, predicted: ArrayLike, *, alpha: float, sample_weight: ArrayLike | None = None
) -> float:
    """The share of the squares, weighted as of an expectile, that predictions save over the constant of least loss.

    Of several targets the mean. It is what `sklearn.metrics.d2_pinball_score` is for quantiles: 1 for a perfect
    prediction, 0 for that constant.

    Parameters
    ----------
    y, predicted : arrays of shape (n_samples,) or (n_samples, n_targets)
        Targets, and their expectiles.
    alpha : float
        The level.
    sample_weight : array of shape (n_samples,) or None
        Weights of the rows.
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
