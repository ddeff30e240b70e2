"""Voting: the members' votes, probabilities or numbers, averaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from fastens.base import BaseClassifier, BaseRegressor
from fastens.checked_parameters import with_parameters
from fastens.combining.base_voting import BaseVoting
from fastens.combining.explaining import Part, Rows
from fastens.combining.responses import added, joint_classes, with_ties
from fastens.parameters import ANYTHING, FLAG, one_of, real
from fastens.table.answers import transforms_streams

Array = NDArray[np.float64]

SOFT = "soft"
_FACTOR = real(0)


def _is_soft(self: VotingClassifier) -> bool:
    if (voting := self._as_fitted().voting) != SOFT:
        raise AttributeError(f"predict_proba is not available when voting={voting!r}")
    return True


@transforms_streams
@with_parameters
class VotingClassifier(BaseClassifier, BaseVoting):
    """Voting for classification: the class with most votes, or with the highest average probability.

    Parameters
    ----------
    {parameters}
    voting : {"hard", "soft"}, default="hard"
        "hard": each member votes for one class; of classes with as many votes, the first in `classes_` wins. "soft":
        the class with the highest weighted average of the members' probabilities.
    weights : array of shape (n_members,) or (n_members, n_classes), dict by name, or str, default=None
        Weights of the members, or of each member's votes for each class. "nnls": those of the smallest squared error;
        "likelihood": those of the most likely mixture; "selection": greedy ensemble selection with replacement; all
        three from out-of-fold predictions, or, with `prefit`, from the predictions for the rows given to `fit`.
    class_weights : array of shape (n_classes,), dict by label, or None, default=None
        Factor of each class's votes or average probability.
    flatten_transform : bool, default=True
        With soft voting `transform` gives (n_samples, n_members * n_classes); else (n_members, n_samples, n_classes).

    Attributes
    ----------
    {attributes}
    weights_ : array of shape (n_members,) or (n_members, n_classes)
        The weights used.

    References
    ----------
    Breiman (1996), "Stacked regressions"; Caruana et al. (2004), "Ensemble selection from libraries of models"; Yao et
    al. (2018), "Using stacking to average Bayesian predictive distributions".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from fastens import GradientBoostingClassifier, VotingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> members = [("boosting", GradientBoostingClassifier(n_estimators=10)), ("bayes", GaussianNB())]
    >>> model = VotingClassifier(members, voting="soft", weights="likelihood").fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_rules: ClassVar = {
        **BaseVoting._parameter_rules,
        "voting": one_of("hard", SOFT),
        "flatten_transform": FLAG,
        "class_weights": ANYTHING,
    }

    voting: str = "hard"
    class_weights: Any = None
    flatten_transform: bool = True

    def _response_method(self) -> str:
        return "predict_proba" if self.voting == SOFT else "predict"

    def _learn_target(self, y: NDArray[Any]) -> Array:
        index = super()._learn_target(y)
        if self.prefit:
            (members,) = self._levels()
            self.classes_, index = joint_classes(self.classes_, index, members)
        self._factors_of_classes = _class_factors(self.class_weights, self.classes_)
        return index

    def _weight_shapes(self, n_members: int) -> list[tuple[int, ...]]:
        return [(n_members,), (n_members, len(self.classes_))]

    def _average(self, responses: Array) -> Array:
        """Weighted sums over the members, (n_samples, n_classes), of which each row sums to 1."""
        weights = self.weights_[:, None, None] if self.weights_.ndim == 1 else self.weights_[:, None, :]
        total = added(responses * weights) * self._factors_of_classes
        sums = total.sum(axis=1, keepdims=True)
        # Where every class with a vote has the factor 0, all classes are equal.
        return np.where(sums > 0, total / np.where(sums > 0, sums, 1.0), 1.0 / total.shape[1])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,)."""
        found = self._average(self._responses(X))
        votes = found if self._as_fitted().voting == SOFT else with_ties(found)
        return self.classes_[votes.argmax(axis=1)]

    @available_if(_is_soft)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the weighted average of the members' probabilities, shape (n_samples, n_classes)."""
        return self._average(self._responses(X))

    def _explained_parts(self, rows: Rows) -> tuple[list[Part], float]:
        if (voting := self._as_fitted().voting) != SOFT:
            raise ValueError(f"voting must be 'soft' for votes to be explained; got {voting!r}.")
        if self.weights_.ndim > 1 or np.ptp(self._factors_of_classes) > 0:
            raise ValueError(
                "weights and class_weights must be the same for all classes to be explained: others make "
                f"probabilities no sums; got weights_ of shape {self.weights_.shape}, factors "
                f"{self._factors_of_classes.tolist()}."
            )
        return super()._explained_parts(rows)

    def predict_spread(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' probabilities, or votes, shape (n_samples, n_classes)."""
        return self._spread(self._responses(X))

    def predict_member_range(self, X: ArrayLike, share: float = 0.9) -> Array:
        """Return the range of the members' probabilities, shape (n_samples, n_classes, 2).

        The range measures how far the members agree. It does not cover the target with a given probability; for
        sets, see `ConformalClassifier`.

        Parameters
        ----------
        X : table
            The rows.
        share : float, default=0.9
            Share of the members, by weight, inside the range.
        """
        return self._member_range(self._responses(X), share)

    def transform(self, X: ArrayLike) -> Array:
        """Return the members' probabilities, or with hard voting their votes as indices of classes."""
        responses, fitted = self._responses(X), self._as_fitted()
        if fitted.voting != SOFT:
            return responses.argmax(axis=2).T
        return np.hstack(list(responses)) if fitted.flatten_transform else responses

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`."""
        self._check_fitted()
        fitted = self._as_fitted()
        if fitted.voting == SOFT and not fitted.flatten_transform:
            raise ValueError("flatten_transform must be True for names of the columns of soft voting; got False.")
        return self._names_out(len(self.classes_) if fitted.voting == SOFT else 1, input_features)

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        self._factors_of_classes = _class_factors(self.class_weights, self.classes_)


@transforms_streams
@with_parameters
class VotingRegressor(BaseRegressor, BaseVoting):
    """Voting for regression: the weighted average of the members' predictions.

    Parameters
    ----------
    {parameters}
    weights : array of shape (n_members,), dict by name, or str, default=None
        Weights of the members. "nnls": those of the smallest squared error; "likelihood": those of the most likely
        mixture of normal distributions around the members' predictions; "selection": greedy ensemble selection with
        replacement; all three from out-of-fold predictions, or, with `prefit`, from the rows given to `fit`.

    Attributes
    ----------
    {attributes}
    weights_ : array of shape (n_members,)
        The weights used.

    References
    ----------
    Breiman (1996), "Stacked regressions"; Caruana et al. (2004), "Ensemble selection from libraries of models"; Yao et
    al. (2018), "Using stacking to average Bayesian predictive distributions".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from fastens import GradientBoostingRegressor, VotingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> members = [("boosting", GradientBoostingRegressor(n_estimators=20)), ("line", LinearRegression())]
    >>> model = VotingRegressor(members, weights="nnls").fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.4
    True
    """

    def predict(self, X: ArrayLike) -> Array:
        """Return the weighted average of the members' predictions, shape (n_samples,)."""
        responses = self._responses(X)[:, :, 0]
        return added(self._member_weights()[:, None] * responses)

    def predict_spread(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' predictions, shape (n_samples,)."""
        return self._spread(self._responses(X))[:, 0]

    def predict_member_range(self, X: ArrayLike, share: float = 0.9) -> Array:
        """Return the range of the members' predictions, shape (n_samples, 2).

        The range measures how far the members agree. It does not cover the target with a given probability; for
        intervals, see `ConformalRegressor`.

        Parameters
        ----------
        X : table
            The rows.
        share : float, default=0.9
            Share of the members, by weight, inside the range.
        """
        return self._member_range(self._responses(X), share)[:, 0]

    def transform(self, X: ArrayLike) -> Array:
        """Return the members' predictions, shape (n_samples, n_members)."""
        return self._responses(X)[:, :, 0].T

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`."""
        return self._names_out(1, input_features)


def _class_factors(given: Any, classes: NDArray[Any]) -> Array:
    """The factor of each class."""
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, Mapping):
        unknown = [label for label in given if label not in classes.tolist()]
        if unknown:
            raise ValueError(f"class_weights must name classes of y; got {unknown[0]!r}, they are {classes.tolist()}.")
        given = [given.get(label, 1.0) for label in classes.tolist()]
    factors = list(given) if np.iterable(given) and not isinstance(given, str) else []
    if len(factors) != len(classes) or not all(map(_FACTOR.holds, factors)) or not any(factors):
        raise ValueError(
            f"class_weights must be {len(classes)} finite numbers, not negative and not all zero; got {given!r}."
        )
    return np.array(factors, dtype=np.float64)
