"""Stacking: models trained on the out-of-fold predictions of other models (Wolpert 1992)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from fastens.base import BaseClassifier, BaseFastens, BaseRegressor
from fastens.combining.base_stacking import STACKING_RULES, BaseStacking
from fastens.combining.defaults import default_classifiers, default_regressors
from fastens.combining.members import NamedMembers
from fastens.combining.responses import METHODS, class_response, label_places, number_response
from fastens.parameters import one_of

Array = NDArray[np.float64]


def _final_has(method: str) -> Any:
    """Whether the final estimator has a method."""

    def check(self: BaseStacking) -> bool:
        final = self.final_estimator_ if hasattr(self, "final_estimator_") else self._final_template()
        return hasattr(final, method)

    return available_if(check)


class StackingClassifier(BaseClassifier, BaseStacking):
    """Stacking for classification: a final estimator learns from the members' out-of-fold predictions.

    Each training row is predicted by models fitted without it, so that the final estimator learns from unbiased
    predictions. The folds may come from any of scikit-learn's splitters. Rows without a prediction, such as the first
    ones of a time series split, are left out of later levels; where a row is in several test parts, its predictions are
    averaged. Members of this package that are fitted on the same rows share their encoding and binning.

    Parameters
    ----------
    estimators : list of (name, estimator), optional
        The members, of this package or any other with scikit-learn's interface; "drop" in place of an estimator leaves
        it out. Default: gradient boosting, a random forest and extremely randomised trees.
    final_estimator : estimator, "linear", "boosting" or None, default=None
        What combines the predictions. "linear": logistic regression on log-odds; "boosting": gradient boosting. None:
        "linear", and "boosting" with `passthrough`.
    levels : list of lists of (name, estimator), optional
        In place of `estimators`: the members of each level, trained on the out-of-fold predictions of the one before.
    cv : int, splitter, list of (train, test) or "prefit", optional
        The folds; default: 5, stratified. "prefit": the members are fitted already, on other rows than these.
    stack_method : {"auto", "predict_proba", "decision_function", "predict"}, default="auto"
        The members' method to use; "auto": the first of these that a member has.
    passthrough : bool, default=False
        Later levels and the final estimator get the columns of X too (cascade).
    inputs_from : {"last", "all"}, default="last"
        Whose predictions later levels and the final estimator get: those of the level before, or of all levels before.
        With "all", `passthrough` and one member in each level, every model gets the columns and the predictions of all
        models before it (cascade stacking).
    refit : bool, default=False
        False: the models of the folds are kept, and their predictions averaged. True: each member is fitted on all rows
        besides, and that model alone predicts, as in scikit-learn: a longer `fit`, a shorter `predict`, and in our
        measurements a slightly larger loss.
    columns : dict of str to columns, optional
        For members of the first level, by name: the columns they see, as names, numbers or a mask (multi-view).
    warm_start : bool, default=False
        Members that an earlier `fit` of the same rows has finished, and whose parameters are the same, are kept.
    random_state : int, RandomState or None, default=None
        Seeds the members whose own random_state is None.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it. Small fits run side by side with a thread each, large ones of ours
        one after another with all threads.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    final_estimator_ : estimator
        The fitted final estimator.
    estimators_, named_estimators_ : list, Bunch
        The fitted members: a list of models for each, or one model with `refit=True` or one fold.
    oof_predictions_ : dict of str to array of shape (n_samples, n_outputs)
        Each member's predictions for the training rows, by models that have not seen them; NaN where there are none.
    n_features_in_, feature_names_in_
        Number of columns, and their names where they have some.

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

    _parameter_rules: ClassVar = {**STACKING_RULES, "stack_method": one_of("auto", *METHODS)}

    def __init__(
        self,
        estimators: NamedMembers | None = None,
        final_estimator: Any = None,
        *,
        levels: list[NamedMembers] | None = None,
        cv: Any = None,
        stack_method: str = "auto",
        passthrough: bool = False,
        inputs_from: str = "last",
        refit: bool = False,
        columns: Mapping[str, Any] | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.final_estimator = final_estimator
        self.levels = levels
        self.cv = cv
        self.stack_method = stack_method
        self.passthrough = passthrough
        self.inputs_from = inputs_from
        self.refit = refit
        self.columns = columns
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _default_members(self) -> NamedMembers:
        return default_classifiers()

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,)."""
        table = self.transform(X)
        found = self.final_estimator_.predict(table)
        if isinstance(self.final_estimator_, BaseFastens):
            return found
        return self.classes_[label_places("final_estimator", found, self._labels_of_final(), table.shape[0])]

    @_final_has("predict_proba")
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, shape (n_samples, n_classes)."""
        return self._of_final(X, "predict_proba")

    @_final_has("decision_function")
    def decision_function(self, X: ArrayLike) -> Array:
        """Return the final estimator's decision function."""
        found = self._of_final(X, "decision_function")
        return found[:, 0] if found.shape[1] == 1 else found

    def _of_final(self, X: Any, method: str) -> Array:
        table, labels = self.transform(X), self._labels_of_final()
        return class_response("final_estimator", self.final_estimator_, table, method, labels)

    def _labels_of_final(self) -> NDArray[Any]:
        """The classes as the final estimator knows them."""
        return self.classes_ if isinstance(self.final_estimator_, BaseFastens) else np.arange(len(self.classes_))


class StackingRegressor(BaseRegressor, BaseStacking):
    """Stacking for regression: a final estimator learns from the members' out-of-fold predictions.

    See `StackingClassifier` for how rows, folds and members are handled.

    Parameters
    ----------
    estimators : list of (name, estimator), optional
        The members, of this package or any other with scikit-learn's interface; "drop" in place of an estimator leaves
        it out. Default: gradient boosting, a random forest and extremely randomised trees.
    final_estimator : estimator, "linear", "boosting" or None, default=None
        What combines the predictions. "linear": ridge regression; "boosting": gradient boosting. None: "linear", and
        "boosting" with `passthrough`.
    levels : list of lists of (name, estimator), optional
        In place of `estimators`: the members of each level, trained on the out-of-fold predictions of the one before.
    cv : int, splitter, list of (train, test) or "prefit", optional
        The folds; default: 5. "prefit": the members are fitted already, on other rows than these.
    passthrough : bool, default=False
        Later levels and the final estimator get the columns of X too (cascade).
    inputs_from : {"last", "all"}, default="last"
        Whose predictions later levels and the final estimator get: those of the level before, or of all levels before.
        With "all", `passthrough` and one member in each level, every model gets the columns and the predictions of all
        models before it (cascade stacking).
    refit : bool, default=False
        False: the models of the folds are kept, and their predictions averaged. True: each member is fitted on all rows
        besides, and that model alone predicts, as in scikit-learn.
    columns : dict of str to columns, optional
        For members of the first level, by name: the columns they see, as names, numbers or a mask (multi-view).
    warm_start : bool, default=False
        Members that an earlier `fit` of the same rows has finished, and whose parameters are the same, are kept.
    random_state : int, RandomState or None, default=None
        Seeds the members whose own random_state is None.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.

    Attributes
    ----------
    final_estimator_ : estimator
        The fitted final estimator.
    estimators_, named_estimators_ : list, Bunch
        The fitted members: a list of models for each, or one model with `refit=True` or one fold.
    oof_predictions_ : dict of str to array of shape (n_samples, 1)
        Each member's predictions for the training rows, by models that have not seen them; NaN where there are none.
    n_features_in_, feature_names_in_
        Number of columns, and their names where they have some.

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

    def __init__(
        self,
        estimators: NamedMembers | None = None,
        final_estimator: Any = None,
        *,
        levels: list[NamedMembers] | None = None,
        cv: Any = None,
        passthrough: bool = False,
        inputs_from: str = "last",
        refit: bool = False,
        columns: Mapping[str, Any] | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimators = estimators
        self.final_estimator = final_estimator
        self.levels = levels
        self.cv = cv
        self.passthrough = passthrough
        self.inputs_from = inputs_from
        self.refit = refit
        self.columns = columns
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _default_members(self) -> NamedMembers:
        return default_regressors()

    def _response_method(self) -> str:
        return "predict"

    def predict(self, X: ArrayLike) -> Array:
        """Return the prediction of each row, shape (n_samples,)."""
        table = self.transform(X)
        return number_response("final_estimator", self.final_estimator_, table)[:, 0]
