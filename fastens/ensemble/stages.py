"""Scores after each round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, d2_pinball_score, r2_score


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
    """A regressor of which several quantiles may be asked for, scored by what they save of the pinball loss."""

    if TYPE_CHECKING:
        _loss: Any

    def _score_of(self, y: Any, predicted: Any, sample_weight: Any) -> float:
        levels = levels_of(self)
        if levels is None or self._loss.name != "quantile":
            return super()._score_of(y, predicted, sample_weight)
        return quantiles_score(y, predicted, levels, sample_weight)

    def _score_of_raw(self, raw: Any, y: Any, weight: Any) -> float:
        return self._score_of(y, self._loss.predict(raw), weight)


def levels_of(model: Any) -> list[float] | None:
    """The levels of the quantiles that an estimator predicts, where it has them as its parameter `quantile`."""
    levels = getattr(model, "quantile", None)
    return None if levels is None or np.ndim(levels) != 1 else list(levels)


def quantiles_score(y: ArrayLike, predicted: Any, levels: Sequence[float], sample_weight: ArrayLike | None) -> float:
    """The mean of the share of the pinball loss that several quantiles, of all targets, save (Koenker & Machado 1999).

    Parameters
    ----------
    y : array of shape (n_samples,) or (n_samples, n_targets)
        Targets.
    predicted : array of shape (n_samples, n_levels) or (n_samples, n_targets, n_levels)
        Their quantiles.
    levels : sequence of float
        Of the last axis.
    sample_weight : array of shape (n_samples,) or None
        Weights of the rows.
    """
    columns = zip(np.moveaxis(predicted, -1, 0), levels, strict=True)
    saved = [d2_pinball_score(y, column, alpha=level, sample_weight=sample_weight) for column, level in columns]
    return sum(saved) / len(saved)
