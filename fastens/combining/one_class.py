"""A constant classifier, for training rows of a single class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier
from fastens.saving import SavedEstimator
from fastens.table.labels import encode_labels
from fastens.table.memory_limits import MemoryNeeds, TableShape, needs_without_files

Array = NDArray[np.float64]


class OneClassClassifier(BaseClassifier, SavedEstimator):
    """Predicts the only class of its training rows, which many classifiers do not accept.

    Attributes
    ----------
    classes_ : array of shape (1,)
        The class.

    Examples
    --------
    >>> from fastens.combining.one_class import OneClassClassifier
    >>> OneClassClassifier().fit([[1.0], [2.0]], ["a", "a"]).predict([[3.0]]).tolist()
    ['a']
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> OneClassClassifier:
        """Learn the class."""
        self._start_fit(X, y, sample_weight)
        return self

    def _learn_target(self, y: NDArray[Any]) -> Array:
        self.classes_, index = encode_labels(y)
        return index

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return needs_without_files(shape, self, 0, 0)

    def predict_proba(self, X: Any) -> Array:
        """Return 1 for each row, shape (n_samples, 1)."""
        # Of any table, without a check of its columns.
        return np.ones((X.shape[0] if hasattr(X, "shape") else len(X), 1))

    def decision_function(self, X: Any) -> Array:
        """Return 0 for each row, shape (n_samples,)."""
        return np.zeros(len(self.predict_proba(X)))
