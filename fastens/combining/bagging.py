"""Bagging: one estimator fitted on many bootstrap samples, their predictions averaged (Breiman 1996)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import r2_score

from fastens.base import BaseClassifier, BaseRegressor
from fastens.combining.base_bagging import RULES, BaseBagging
from fastens.combining.folds import MemberData
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.parameters import one_of

Array = NDArray[np.float64]
# Of the trees that are the default: what forests have.
MAX_BINS = 255


class BaggingClassifier(BaseClassifier, BaseBagging):
    """Bagging for classification.

    Copies of an estimator are fitted on bags, bootstrap samples of the rows and perhaps of the columns; the class with
    the highest average probability, or most votes, is predicted. Bags of our decision trees are grown by the engine of
    our forests: the table is binned once for all of them.

    Parameters
    ----------
    estimator : classifier, default=None
        What to copy, of this package or any other with scikit-learn's interface. None: a decision tree on 255 bins.
    n_estimators : int, default=10
        Number of members.
    max_samples : int, float or None, default=None
        Number of rows drawn for a member, or share of them; None for as many as there are.
    max_features : int, float, "sqrt", "log2" or None, default=None
        Number of columns drawn for a member, or share of them; None for all.
    bootstrap : bool, default=True
        Draw rows with replacement, with chances in proportion to their weights.
    bootstrap_features : bool, default=False
        Draw columns with replacement; one drawn twice counts once.
    sampling : {"auto", "weights", "rows"}, default="auto"
        How a member is given its bag: "weights", each row once with the number of its draws as weight; "rows", as often
        as it was drawn, which large weights may make too often: more than ten million copies are a ValueError. "auto":
        weights where the estimator's `fit` takes some.
    voting : {"soft", "hard"}, default="soft"
        Average the members' probabilities, or count votes. Members without probabilities vote.
    oob_score : bool or function, default=False
        Predict each row by the members whose bags do not have it, and score that: by accuracy, or by a function of
        targets and predictions.
    warm_start : bool, default=False
        `fit` adds members to those there are: given the same rows, the same model as all at once.
    random_state : int, RandomState or None, default=None
        Fixes the bags and seeds the members.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    estimators_, estimators_features_ : sequences
        The fitted members, and the columns of each.
    oob_score_, oob_decision_function_ : float, array of shape (n_samples, n_classes)
        With `oob_score`: the score, and the mean out-of-bag response, NaN for rows in every bag.
    oob_scores_ : array of shape (n_estimators,)
        With `oob_score`: the score of each member on the rows out of its bag; NaN where there are none.
    n_features_in_, feature_names_in_
        Number of columns, and their names where they have some.

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

    _parameter_rules: ClassVar = {**RULES, "voting": one_of("soft", "hard")}

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 10,
        *,
        max_samples: int | float | None = None,
        max_features: int | float | str | None = None,
        bootstrap: bool = True,
        bootstrap_features: bool = False,
        sampling: str = "auto",
        voting: str = "soft",
        oob_score: bool | Callable[..., float] = False,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.bootstrap_features = bootstrap_features
        self.sampling = sampling
        self.voting = voting
        self.oob_score = oob_score
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _template(self) -> Any:
        return DecisionTreeClassifier(max_bins=MAX_BINS) if self.estimator is None else self.estimator

    def _response_method(self) -> str:
        return "predict_proba" if self.voting == "soft" and hasattr(self._template(), "predict_proba") else "predict"

    def _tree_responses(self, X: Any) -> Iterator[Array]:
        for values in self._forest._each_tree(X):
            shares = self._forest._targets.probabilities(values)
            yield shares if self.voting == "soft" else np.eye(shares.shape[1])[shares.argmax(axis=1)]

    def _oob_score(self, mean: Array, data: MemberData) -> float:
        found = mean.argmax(axis=1)
        if callable(self.oob_score):
            return float(self.oob_score(self.classes_[data.y.astype(np.intp)], self.classes_[found]))
        return float(np.average(found == data.y, weights=data.sample_weight))

    @property
    def oob_decision_function_(self) -> Array:
        """The mean out-of-bag response for each training row."""
        return self._forest.oob_decision_function_ if self._forest is not None else self._oob_values()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row, the first of equals, shape (n_samples,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the mean of the members' probabilities, or the shares of their votes, (n_samples, n_classes)."""
        self._check_fitted()
        return self._mean(X) if self._forest is None else self._forest.predict_proba(self._check_table(X))

    def predict_spread(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' probabilities, or votes, (n_samples, n_classes)."""
        return self._spread(X)


class BaggingRegressor(BaseRegressor, BaseBagging):
    """Bagging for regression.

    Copies of an estimator are fitted on bags, bootstrap samples of the rows and perhaps of the columns, and their
    predictions averaged. Bags of our decision trees are grown by the engine of our forests: the table is binned once
    for all of them.

    Parameters
    ----------
    estimator : regressor, default=None
        What to copy, of this package or any other with scikit-learn's interface. None: a decision tree on 255 bins.
    n_estimators : int, default=10
        Number of members.
    max_samples : int, float or None, default=None
        Number of rows drawn for a member, or share of them; None for as many as there are.
    max_features : int, float, "sqrt", "log2" or None, default=None
        Number of columns drawn for a member, or share of them; None for all.
    bootstrap : bool, default=True
        Draw rows with replacement, with chances in proportion to their weights.
    bootstrap_features : bool, default=False
        Draw columns with replacement; one drawn twice counts once.
    sampling : {"auto", "weights", "rows"}, default="auto"
        How a member is given its bag: "weights", each row once with the number of its draws as weight; "rows", as often
        as it was drawn, which large weights may make too often: more than ten million copies are a ValueError. "auto":
        weights where the estimator's `fit` takes some.
    oob_score : bool or function, default=False
        Predict each row by the members whose bags do not have it, and score that: by R2, or by a function of targets
        and predictions.
    warm_start : bool, default=False
        `fit` adds members to those there are: given the same rows, the same model as all at once.
    random_state : int, RandomState or None, default=None
        Fixes the bags and seeds the members.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.

    Attributes
    ----------
    estimators_, estimators_features_ : sequences
        The fitted members, and the columns of each.
    oob_score_, oob_prediction_ : float, array of shape (n_samples,)
        With `oob_score`: the score, and the mean out-of-bag prediction, NaN for rows in every bag.
    oob_scores_ : array of shape (n_estimators,)
        With `oob_score`: the score of each member on the rows out of its bag; NaN where there are none.
    n_features_in_, feature_names_in_
        Number of columns, and their names where they have some.

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

    _parameter_rules: ClassVar = RULES

    def __init__(
        self,
        estimator: Any = None,
        n_estimators: int = 10,
        *,
        max_samples: int | float | None = None,
        max_features: int | float | str | None = None,
        bootstrap: bool = True,
        bootstrap_features: bool = False,
        sampling: str = "auto",
        oob_score: bool | Callable[..., float] = False,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.bootstrap_features = bootstrap_features
        self.sampling = sampling
        self.oob_score = oob_score
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _template(self) -> Any:
        return DecisionTreeRegressor(max_bins=MAX_BINS) if self.estimator is None else self.estimator

    def _response_method(self) -> str:
        return "predict"

    def _tree_responses(self, X: Any) -> Iterator[Array]:
        return (values.astype(np.float64) for values in self._forest._each_tree(X))

    def _oob_score(self, mean: Array, data: MemberData) -> float:
        if callable(self.oob_score):
            return float(self.oob_score(data.y, mean[:, 0]))
        return float(r2_score(data.y, mean[:, 0], sample_weight=data.sample_weight))

    @property
    def oob_prediction_(self) -> Array:
        """The mean out-of-bag prediction for each training row."""
        return self._forest.oob_prediction_ if self._forest is not None else self._oob_values()[:, 0]

    def predict(self, X: ArrayLike) -> Array:
        """Return the mean of the members' predictions, shape (n_samples,)."""
        self._check_fitted()
        return self._mean(X)[:, 0] if self._forest is None else self._forest.predict(self._check_table(X))

    def predict_spread(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' predictions, shape (n_samples,)."""
        return self._spread(X)[:, 0]
