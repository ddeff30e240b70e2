"""Raw predictions to start from, at fit and at predict; and a classifier's methods with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

Array = NDArray[np.float64]


def checked_offset(init_score: Any, n_rows: int, n_outputs: int) -> Array:
    """`init_score` as a float64 array of shape (n_rows, n_outputs); ValueError for anything else.

    Quantiles of several targets may have an axis for each.
    """
    try:
        offset = np.asarray(init_score, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"init_score must hold numbers: {error}") from error
    shape = offset.shape
    if offset.ndim in (1, 3):
        offset = offset.reshape(len(offset), math.prod(shape[1:]))
    if offset.shape != (n_rows, n_outputs):
        wanted = f"({n_rows},)" if n_outputs == 1 else f"({n_rows}, {n_outputs})"
        raise ValueError(f"init_score must have the shape {wanted}; got {shape}.")
    if not np.isfinite(offset).all():
        raise ValueError(f"init_score must be finite; got {offset[~np.isfinite(offset)][0]}.")
    return offset


def _has_one_target(model: Any) -> bool:
    """Several targets have no decision function, as scikit-learn's classifiers with lists of probabilities."""
    if isinstance(getattr(model, "classes_", None), list):
        raise AttributeError("decision_function is there for a single target; several have predict_proba.")
    return True


class OffsetClassifier:
    """The methods of a classifier that adds `init_score`, raw predictions of shape (n_samples,) or with n_outputs."""

    if TYPE_CHECKING:

        def _answers_from_raw(self, name: str, raw: Array) -> Any: ...

        def _raw_from(self, X: Any, init_score: Any) -> Array: ...

        def _staged_raw_from(self, X: Any, init_score: Any) -> Iterator[Array]: ...

    def predict(self, X: ArrayLike, init_score: ArrayLike | None = None) -> NDArray[Any]:
        """Return the most probable class of each row, the first of equals: (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.
        """
        return self._answers_from_raw("predict", self._raw_from(X, init_score))

    def predict_proba(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Any:
        """Return the probability of each class, shape (n_samples, n_classes); a list of such with several targets.

        Parameters
        ----------
        X, init_score
            As for `predict`.
        """
        return self._answers_from_raw("predict_proba", self._raw_from(X, init_score))

    @available_if(_has_one_target)
    def decision_function(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Array:
        """Return raw predictions: log odds of the second class, or a column of scores per class if there are more.

        Parameters
        ----------
        X, init_score
            As for `predict`.
        """
        return self._answers_from_raw("decision_function", self._raw_from(X, init_score))

    def staged_predict(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Iterator[NDArray[Any]]:
        """Yield the predicted classes after each round."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._answers_from_raw("predict", raw)

    def staged_predict_proba(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Iterator[Any]:
        """Yield the probabilities after each round."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._answers_from_raw("predict_proba", raw)

    @available_if(_has_one_target)
    def staged_decision_function(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Iterator[Array]:
        """Yield the decision function after each round."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._answers_from_raw("decision_function", raw)
