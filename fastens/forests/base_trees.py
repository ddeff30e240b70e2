"""What single trees and forests predict: classes or numbers from mean leaf values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseClassifier, BaseRegressor
from fastens.docstrings import Docs
from fastens.forests.docstrings import CLASS_DOCS, DOCS
from fastens.forests.targets import ClassTargets, NumberTargets, check_counts

_ALL_SHARES = "has_all_shares"


class TreesClassifier(BaseClassifier):
    """Trees whose values are shares of classes."""

    _has_class_shares: ClassVar[bool] = True
    _has_all_shares: bool = False
    _factor_bits = 14  # which the weights of rows of growth have too
    _docs: ClassVar[Docs] = CLASS_DOCS
    if TYPE_CHECKING:
        _mean: Any

    @property
    def _targets(self) -> ClassTargets:
        return ClassTargets(self.classes_, self._has_all_shares)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return super()._fitted_arrays() | ({_ALL_SHARES: np.array(True)} if self._has_all_shares else {})

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        if _ALL_SHARES in arrays:
            self._has_all_shares = True
        super()._restore_fitted(arrays)
        _check_values(self)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, the first of equals: (n_samples,) or (n_samples, n_targets)."""
        mean, targets = self._mean(X), self._targets
        return targets.decoded(targets.answers(mean))

    def predict_proba(self, X: ArrayLike) -> Any:
        """Return the probability of each class, (n_samples, n_classes); a list of such with several targets."""
        mean = self._mean(X)
        return self._targets.probabilities(mean)


class TreesRegressor(BaseRegressor):
    """Trees whose values are numbers, one for each target."""

    _docs: ClassVar[Docs] = DOCS
    _value_dtype: ClassVar[Any] = np.float32
    if TYPE_CHECKING:
        criterion: str
        _mean: Any
        _n_targets: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.criterion == "poisson"
        return tags

    def _check_ranks(self) -> None:
        super()._check_ranks()
        if self._comm.size > 1 and self.criterion == "absolute_error":
            raise ValueError(
                "criterion must not be 'absolute_error' where rows are on several ranks, as medians are no sums; "
                f"got {self._comm.size} ranks."
            )

    def _learn_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        return self._numbers(y, needs_some=True)

    def _numbers(self, y: NDArray[Any], *, needs_some: bool) -> NDArray[np.float64]:
        y = super()._encode_target(y)
        return check_counts(y, self._comm, needs_some=needs_some) if self._as_fitted().criterion == "poisson" else y

    def _encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if n_targets != self._n_targets:
            raise ValueError(f"y must have as many targets as in fit, {self._n_targets}; got {n_targets}.")
        return self._numbers(y, needs_some=False)  # there may be none in the rows that a fit goes on with

    @property
    def _targets(self) -> NumberTargets:
        return NumberTargets(self._n_targets, self._value_dtype)

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        _check_values(self)

    def predict(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the predicted number of each row, (n_samples,) or (n_samples, n_targets)."""
        mean = self._mean(X)
        return mean[:, 0] if self._n_targets == 1 else mean


def _check_values(model: Any) -> None:
    """Raise ValueError unless each tree has a value for every output."""
    if model._ensemble.value.shape[1] != model._ensemble.n_outputs:
        raise ValueError("the values of the trees and the targets do not fit together")
