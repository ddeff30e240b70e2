"""Scores after each round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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


def quantiles_score(y: ArrayLike, predicted: Any, levels: Sequence[float], sample_weight: ArrayLike | None) -> float:
    """The mean over several quantiles of the share of the pinball loss that they save (Koenker & Machado 1999).

    Parameters
    ----------
    y : array of shape (n_samples,)
        Targets.
    predicted : array of shape (n_samples, n_levels)
        Their quantiles.
    levels : sequence of float
        Of the columns.
    sample_weight : array of shape (n_samples,) or None
        Weights of the rows.
    """
    columns = zip(predicted.T, levels, strict=True)
    saved = [d2_pinball_score(y, column, alpha=level, sample_weight=sample_weight) for column, level in columns]
    return sum(saved) / len(saved)
