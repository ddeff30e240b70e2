"""Bagging: one estimator fitted on many bootstrap samples, their predictions averaged (Breiman 1996)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from fastens.base import BaseClassifier, BaseRegressor
from fastens.checked_parameters import with_parameters
from fastens.combining.base_bagging import BaseBagging
from fastens.combining.explaining import Part, Rows
from fastens.combining.folds import MemberData
from fastens.combining.one_class import OneClassClassifier
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.parameters import one_of, parameter, whole

Array = NDArray[np.float64]
# Of the trees that are the default: what forests have.
MAX_BINS = 255


def _members_decide(model: Any) -> bool:
    """Whether the members have decision functions, and the bagging predicts by means."""
    fitted = model._as_fitted()
    return fitted.voting == "soft" and hasattr(fitted._template(), "decision_function")


@with_parameters
class BaggingClassifier(BaseClassifier, BaseBagging):
    """Bagging for classification.

    Copies of an estimator are fitted on bags, bootstrap samples of the rows and perhaps of the columns; the class with
    the highest average probability, or most votes, is predicted. Bags of our decision trees are grown by the engine of
    our forests: the table is binned once for all of them.

    Parameters
    ----------
    estimator : classifier, default=None
        What to copy, of this package or any other with scikit-learn's interface. None: a decision tree on 255 bins.
    {parameters}
    voting : {"soft", "hard"}, default="soft"
        Average the members' probabilities, or count votes. Members without probabilities vote.
    oob_score : bool or function, default=False
        Predict each row by the members whose bags do not have it, and score that: by accuracy, or by a function of
        targets and predictions.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman (1996), "Bagging predictors"; Ho (1998), "The random subspace method for constructing decision forests".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import BaggingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BaggingClassifier(n_estimators=50, oob_score=True, random_state=0).fit(X, y)
    >>> model.oob_score_ > 0.93
    True
    """

    voting: str = parameter(one_of("soft", "hard"), default="soft")

    def _learn_target(self, y: NDArray[Any]) -> Array:
        # The members that a warm start keeps know these classes.
        continues = self.warm_start and hasattr(self, "_members")
        return self._encode_target(y) if continues else super()._learn_target(y)

    def _template(self) -> Any:
        return DecisionTreeClassifier(max_bins=MAX_BINS) if self.estimator is None else self.estimator

    def _response_method(self) -> str:
        return "predict_proba" if self.voting == "soft" and hasattr(self._template(), "predict_proba") else "predict"

    def _tree_responses(self, X: Any) -> Iterator[Array]:
        soft = self._as_fitted().voting == "soft"
        for values in self._forest._each_tree(X):
            shares = self._forest._targets.probabilities(values)
            yield shares if soft else np.eye(shares.shape[1])[shares.argmax(axis=1)]

    def _oob_score(self, mean: Array, data: MemberData) -> float:
        found = mean.argmax(axis=1)
        if callable(self.oob_score):
            return float(self.oob_score(self.classes_[data.y.astype(np.intp)], self.classes_[found]))
        return float(np.average(found == data.y, weights=data.sample_weight))

    @property
    def oob_decision_function_(self) -> Array:
        """The mean out-of-bag response for each training row, with `oob_score`; NaN for rows in every bag."""
        return self._forest.oob_decision_function_ if self._forest is not None else self._oob_values()

    def predict(self, X: ArrayLike, **metadata: Any) -> NDArray[Any]:
        """Return the class of each row, the first of equals, shape (n_samples,).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        **metadata
            With scikit-learn's metadata routing, passed on to the members' method; also in the methods below.
        """
        best = self._shares(X, "predict", metadata).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the mean of the members' probabilities, or the shares of their votes, (n_samples, n_classes)."""
        return self._shares(X, "predict_proba", metadata)

    def predict_log_proba(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self._shares(X, "predict_log_proba", metadata))

    def _shares(self, X: Any, caller: str, metadata: dict[str, Any]) -> Array:
        options = self._passed_on(caller, metadata)
        if self._forest is not None:
            return self._forest.predict_proba(self._check_table(X))
        return self._mean(X, options=options)

    @available_if(_members_decide)
    def decision_function(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the mean of the members' decision functions: (n_samples,), or a column for each of several classes.

        Raises
        ------
        ValueError
            Where a member's bag had rows of one class only.
        """
        options = self._passed_on("decision_function", metadata)
        if any(isinstance(member.models[0], OneClassClassifier) for member in self._members):
            raise ValueError("decision_function must not be used where a bag has one class; predict_proba can be.")
        found = self._mean(X, "decision_function", options)
        return found[:, 0] if found.shape[1] == 1 else found

    def predict_spread(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' probabilities, or votes, (n_samples, n_classes)."""
        return self._spread(X)


@with_parameters
class BaggingRegressor(BaseRegressor, BaseBagging):
    """Bagging for regression.

    Copies of an estimator are fitted on bags, bootstrap samples of the rows and perhaps of the columns, and their
    predictions averaged. Bags of our decision trees are grown by the engine of our forests: the table is binned once
    for all of them. A y of several columns is as many targets, for members that take several.

    Parameters
    ----------
    estimator : regressor, default=None
        What to copy, of this package or any other with scikit-learn's interface. None: a decision tree on 255 bins.
    {parameters}
    oob_score : bool or function, default=False
        Predict each row by the members whose bags do not have it, and score that: by R2, or by a function of targets
        and predictions.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman (1996), "Bagging predictors".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from fastens import BaggingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BaggingRegressor(Ridge(alpha=0.1), max_features=0.5, random_state=0).fit(X, y)
    >>> model.predict_spread(X).shape
    (442,)
    """

    _takes_several_targets = True
    _n_targets: int = field(init=False, default=1)

    def _template(self) -> Any:
        return DecisionTreeRegressor(max_bins=MAX_BINS) if self.estimator is None else self.estimator

    def _response_method(self) -> str:
        return "predict"

    def _tree_responses(self, X: Any) -> Iterator[Array]:
        return (values.astype(np.float64) for values in self._forest._each_tree(X))

    def _learn_target(self, y: NDArray[Any]) -> Array:
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if self.warm_start and hasattr(self, "_members") and n_targets != self._n_targets:
            raise ValueError(
                f"y must have as many targets as in the last fit with warm_start=True, {self._n_targets}; "
                f"got {n_targets}."
            )
        self._n_targets = n_targets
        return super()._learn_target(y)

    def _fit_forest(self, X: Any, y: Any, sample_weight: Any) -> BaseBagging:
        super()._fit_forest(X, y, sample_weight)
        self._n_targets = self._forest._n_targets
        return self

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        whole(1).check("the number of targets", self._n_targets)
        if self._forest is None:
            self._members = [replace(member, multi_output=self._n_targets > 1) for member in self._members]

    def _of_targets(self, found: Array) -> Array:
        """A vector for one target, else a column for each."""
        return found[:, 0] if self._n_targets == 1 else found

    def _explained_parts(self, rows: Rows) -> tuple[list[Part], float]:
        if self._n_targets > 1:
            raise ValueError(f"bags must predict one target to be explained, not {self._n_targets}; explain members.")
        return super()._explained_parts(rows)

    def _oob_score(self, mean: Array, data: MemberData) -> float:
        from sklearn.metrics import r2_score

        predicted = self._of_targets(mean)
        if callable(self.oob_score):
            return float(self.oob_score(data.y, predicted))
        return float(r2_score(data.y, predicted, sample_weight=data.sample_weight))

    @property
    def oob_prediction_(self) -> Array:
        """The mean out-of-bag prediction for each training row, with `oob_score`; NaN for rows in every bag."""
        return self._forest.oob_prediction_ if self._forest is not None else self._of_targets(self._oob_values())

    def predict(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the mean of the members' predictions, shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        **metadata
            With scikit-learn's metadata routing, passed on to the members' `predict`.
        """
        options = self._passed_on("predict", metadata)
        if self._forest is not None:
            return self._forest.predict(self._check_table(X))
        return self._of_targets(self._mean(X, options=options))

    def predict_spread(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' predictions, of the shape of `predict`."""
        return self._of_targets(self._spread(X))
