"""What stands for a classifier whose training rows are all of one class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier
from fastens.saving import SavedEstimator
from fastens.table.labels import encode_labels

Array = NDArray[np.float64]


class OneClassClassifier(BaseClassifier, SavedEstimator):
    """Answers with the one class that its rows have: few classifiers take such rows.

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

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return 1 for each row, shape (n_samples, 1)."""
        return np.ones((_n_rows(X), 1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class for each row, shape (n_samples,)."""
        return np.repeat(self.classes_, _n_rows(X))


def _n_rows(X: Any) -> int:
    """The rows of any table; what its columns hold does not matter, even if it would be of no type seen in `fit`."""
    return X.shape[0] if hasattr(X, "shape") else len(X)
