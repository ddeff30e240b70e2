"""Scores after each round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score


class StagedScore:
    """An estimator whose predictions after each round can be scored."""

    def staged_score(self: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Iterator[float]:
        """Yield what `score` returns, accuracy or R2, after each round.

        Parameters
        ----------
        X, y, sample_weight
            Rows, their targets and weights.
        """
        measure = accuracy_score if is_classifier(self) else r2_score
        for predicted in self.staged_predict(X):
            yield float(measure(y, predicted, sample_weight=sample_weight))
