"""Stacking: models trained on the out-of-fold predictions of other models (Wolpert 1992)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from fastens.base import BaseClassifier, BaseFastens, BaseRegressor
from fastens.checked_parameters import with_parameters
from fastens.combining.base_stacking import BaseStacking
from fastens.combining.explaining import Part, Rows
from fastens.combining.responses import METHODS, added, class_response, knows_labels, label_places, number_response
from fastens.combining.several_targets import labels_of, predicted_places, probabilities, several_response
from fastens.combining.stackers import RidgeStacker
from fastens.parameters import one_of

Array = NDArray[np.float64]


def _final_has(method: str) -> Any:
    """Of a method that there is where the final estimator has it."""

    def check(self: BaseStacking) -> bool:
        getattr(self.final_estimator_ if hasattr(self, "final_estimator_") else self._final_template(), method)
        return True

    return available_if(check)


@with_parameters
class StackingClassifier(BaseClassifier, BaseStacking):
    """Stacking for classification: a final estimator learns from the members' out-of-fold predictions.

    Each training row is predicted by models fitted without it, so that the final estimator learns from unbiased
    predictions. The folds may come from any of scikit-learn's splitters. Rows without a prediction, such as the first
    ones of a time series split, are left out of later levels; where a row is in several test parts, its predictions are
    averaged. Members of this package that are fitted on the same rows share their encoding and binning.

    A y of several columns is as many targets, for members and a final estimator that take several; the default one is a
    model for each target.

    {parameters and attributes}

    References
    ----------
    Wolpert (1992), "Stacked generalization"; Breiman (1996), "Stacked regressions"; Ting & Witten (1999), "Issues in
    stacked generalization".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from fastens import GradientBoostingClassifier, StackingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> members = [("boosting", GradientBoostingClassifier(n_estimators=20)), ("bayes", GaussianNB())]
    >>> model = StackingClassifier(members).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_rules: ClassVar = {**BaseStacking._parameter_rules, "stack_method": one_of("auto", *METHODS)}

    stack_method: str = "auto"
    _takes_several_targets = True

    def _response_method(self) -> str:
        return self.stack_method

    def predict(self, X: ArrayLike, **options: Any) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        **options
            Arguments of the final estimator's `predict`.
        """
        table = self._final_table(X)
        found = self.final_estimator_.predict(table, **self._passed_on(options))
        if isinstance(self.final_estimator_, BaseFastens):
            return found
        places = predicted_places if isinstance(self.classes_, list) else label_places
        return labels_of(places("final_estimator", found, self._labels_of_final(), table.shape[0]), self.classes_)

    @_final_has("predict_proba")
    def predict_proba(self, X: ArrayLike) -> Any:
        """Return the probability of each class, shape (n_samples, n_classes); a list of such with several targets."""
        self._check_fitted()
        if isinstance(self.classes_, list):
            return probabilities(
                "final_estimator", self.final_estimator_, self._final_table(X), self._labels_of_final()
            )
        return self._of_final(X, "predict_proba")

    @_final_has("decision_function")
    def decision_function(self, X: ArrayLike) -> Array:
        """Return the final estimator's decision function."""
        found = self._of_final(X, "decision_function")
        return found[:, 0] if found.shape[1] == 1 else found

    def _of_final(self, X: Any, method: str) -> Array:
        table, labels = self._final_table(X), self._labels_of_final()
        if isinstance(labels, list):
            return several_response("final_estimator", self.final_estimator_, table, method, labels)
        return class_response("final_estimator", self.final_estimator_, table, method, labels)

    def _labels_of_final(self) -> Any:
        """The classes as the final estimator knows them."""
        if knows_labels(self.final_estimator_):
            return self.classes_
        if isinstance(self.classes_, list):
            return [np.arange(len(own)) for own in self.classes_]
        return np.arange(len(self.classes_))


@with_parameters
class StackingRegressor(BaseRegressor, BaseStacking):
    """Stacking for regression: a final estimator learns from the members' out-of-fold predictions.

    See `StackingClassifier` for how rows, folds and members are handled.

    {parameters and attributes}

    References
    ----------
    Wolpert (1992), "Stacked generalization"; Breiman (1996), "Stacked regressions".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from fastens import GradientBoostingRegressor, StackingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> members = [("boosting", GradientBoostingRegressor(n_estimators=20)), ("line", LinearRegression())]
    >>> model = StackingRegressor(members).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.4
    True
    """

    def _response_method(self) -> str:
        return "predict"

    def _explained_parts(self, rows: Rows) -> tuple[list[Part], float]:
        """The members, times what the final estimator changes by with each; it must be linear."""
        members, *deeper = self._fitted_levels
        if deeper or self._as_fitted().passthrough:
            raise ValueError("a stack must have one level, and no passthrough, to be explained; explain members.")
        table = self._final_table(rows.X)
        predicted = number_response("final_estimator", self.final_estimator_, table)[:, 0]
        for slopes, constant in _lines(self.final_estimator_, table):
            line = table @ slopes + constant
            if np.allclose(line, predicted, rtol=1e-9, atol=1e-9 * np.abs(predicted).max()):
                break
        else:
            raise ValueError(
                f"final_estimator must be linear for a stack to be explained; {self.final_estimator_!r} is not. "
                "Explain members."
            )
        pairs = zip(members, slopes.tolist(), strict=True)
        return [part for member, slope in pairs for part in member.parts(slope)], constant

    def predict(self, X: ArrayLike, **options: Any) -> Any:
        """Return the prediction of each row, shape (n_samples,).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        **options
            Arguments of the final estimator's `predict`, such as ``return_std=True``; then what it returns.
        """
        table = self._final_table(X)
        if options:
            return self.final_estimator_.predict(table, **self._passed_on(options))
        return number_response("final_estimator", self.final_estimator_, table)[:, 0]


def _lines(estimator: Any, table: Array) -> Iterator[tuple[Array, float]]:
    """What may be the slopes and the constant of a linear regressor: its coefficients, or differences at the rows.

    With the coefficients, what a row's prediction is made of depends on that row alone.
    """
    n_members = table.shape[1]
    slopes, constant = np.ravel(getattr(estimator, "coef_", ())), np.ravel(getattr(estimator, "intercept_", ()))
    if slopes.shape == (n_members,) and constant.shape == (1,):
        if isinstance(estimator, RidgeStacker):
            slopes = slopes / estimator.scale_
            constant = constant - added(slopes * estimator.center_)
        yield slopes, float(constant[0])
    corners = np.vstack([np.zeros(n_members), np.eye(n_members)]) + table.mean(axis=0)
    heights = number_response("final_estimator", estimator, corners)[:, 0]
    yield heights[1:] - heights[0], float(heights[0] - (heights[1:] - heights[0]) @ corners[0])
