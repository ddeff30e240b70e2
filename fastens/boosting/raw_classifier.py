"""Classifiers that sum raw predictions: from sums to probabilities and labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier
from fastens.engine.losses.losses import Loss
from fastens.monitoring.stages import StagedScore

Array = NDArray[np.float64]


class RawClassifier(StagedScore, BaseClassifier):
    """A classifier with raw predictions (one for two classes, otherwise one per class) and a loss that reads them."""

    _loss: Loss

    if TYPE_CHECKING:

        def _raw(self, X: Any) -> Array: ...

        def _staged_raw(self, X: Any) -> Iterator[Array]: ...

    def decision_function(self, X: ArrayLike) -> Array:
        """Return raw predictions: log odds of the second class, or a column of scores per class if there are more."""
        raw = self._raw(X)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def staged_decision_function(self, X: ArrayLike) -> Iterator[Array]:
        """Yield the decision function after each round."""
        for raw in self._staged_raw(X):
            yield raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, shape (n_samples, n_classes)."""
        raw = self._raw(X)
        return self._loss.predict(raw)

    def staged_predict_proba(self, X: ArrayLike) -> Iterator[Array]:
        """Yield the probabilities after each round."""
        for raw in self._staged_raw(X):
            yield self._loss.predict(raw)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, the first of equals, shape (n_samples,)."""
        return self._labels_of(self._raw(X))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows whose class is predicted, with several targets the classes of all of them.

        Parameters
        ----------
        X, y, sample_weight
            Rows, their classes and weights.
        """
        return self._score_of(y, self.predict(X), sample_weight)

    def staged_predict(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Yield the predicted classes after each round."""
        for raw in self._staged_raw(X):
            yield self._labels_of(raw)

    def _labels_of(self, raw: Array) -> NDArray[Any]:
        return most_probable(raw, self.classes_)


def most_probable(raw: Array, classes: NDArray[Any]) -> NDArray[Any]:
    """The label of each row, the first of equals, from one raw prediction (of two classes) or one per class."""
    if raw.shape[1] == 1:
        return np.where(raw[:, 0] > 0, classes[1:], classes[:1])
    return classes[raw.argmax(axis=1)]
