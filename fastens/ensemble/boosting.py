"""Gradient boosting: trees that one after another correct the sum of those before (Friedman 2001)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseRegressor
from fastens.engine.loss_names import (
    CLASSIFICATION,
    REGRESSION,
    LossOptions,
    classification_loss,
    is_custom,
    regression_loss,
)
from fastens.engine.losses import Loss
from fastens.ensemble.base_boosting import BaseGradientBoosting
from fastens.ensemble.boosting_parameters import RULES
from fastens.ensemble.raw_classifier import RawClassifier
from fastens.parameters import ANYTHING, NONE, Rule, instance, one_of, real

Array = NDArray[np.float64]
CUSTOM = Rule("a function or object that gives derivatives", is_custom)
LEVEL = real(0, 1, open_low=True, open_high=True)
LEVELS = instance((list, tuple, np.ndarray), "a list of such numbers")


class GradientBoostingClassifier(RawClassifier, BaseGradientBoosting):
    """Gradient boosting for classification.

    Each round fits one tree per raw prediction (one for two classes, one per class otherwise) to the gradients of the
    log loss, and adds it with Newton leaf values, sum(r) / (sum(p (1 - p)) + l2_regularization), times the learning
    rate.

    Parameters
    ----------
    loss : {"log_loss", "exponential"}, callable or object, default="log_loss"
        The loss to lower. For two classes also the exponential loss, or a function of (y, raw) that returns gradients
        and hessians, y being 0 or 1, or an object with that as its method `derivatives` (and `start`, `loss` and
        `predict`, the probability of the second class, all optional).
    {parameters}
    class_weight : dict or "balanced", optional
        Weights of the classes, multiplied with `sample_weight`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_estimators_, n_iter_ : int
        Rounds kept.
    train_score_, validation_score_ : arrays
        Loss after each round: on at most 10 000 evenly spaced training rows, and on the validation rows, if any.
    feature_importances_, feature_split_counts_ : arrays of shape (n_features_in_,)
        Share of the total gain, and number of splits.

    References
    ----------
    Friedman (2001), "Greedy function approximation: a gradient boosting machine"; Chen & Guestrin (2016), "XGBoost: a
    scalable tree boosting system", eq. 5-7.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import GradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = GradientBoostingClassifier(n_estimators=50).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_rules: ClassVar = {**RULES, "loss": one_of(*CLASSIFICATION) | CUSTOM, "class_weight": ANYTHING}

    def __init__(
        self,
        loss: Any = "log_loss",
        *,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        min_gain_to_split: float = 0.0,
        l2_regularization: float = 0.0,
        max_bins: int = 255,
        max_features: int | float = 1.0,
        max_features_per_tree: int | float = 1.0,
        feature_weights: Any = None,
        subsample: float = 1.0,
        min_weight_leaf: float = 0.0,
        validation_fraction: float = 0.1,
        early_stopping: bool | str = "auto",
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        path_smooth: float = 0.0,
        max_delta_step: float | None = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        one_hot_max_size: int = 2,
        min_samples_category: int | None = None,
        max_categories_per_split: int | None = None,
        category_smoothing: float = 10.0,
        category_l2: float = 3.0,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
        class_weight: Any = None,
    ) -> None:
        self.loss = loss
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.min_gain_to_split = min_gain_to_split
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.max_features = max_features
        self.max_features_per_tree = max_features_per_tree
        self.feature_weights = feature_weights
        self.subsample = subsample
        self.min_weight_leaf = min_weight_leaf
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.path_smooth = path_smooth
        self.max_delta_step = max_delta_step
        self.categorical_features = categorical_features
        self.categorical_encoding = categorical_encoding
        self.categorical_missing = categorical_missing
        self.one_hot_max_size = one_hot_max_size
        self.min_samples_category = min_samples_category
        self.max_categories_per_split = max_categories_per_split
        self.category_smoothing = category_smoothing
        self.category_l2 = category_l2
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = isinstance(self.loss, str) and self.loss == "log_loss"
        return tags

    def _get_loss(self) -> Loss:
        return classification_loss(self.loss, len(self.classes_))


class GradientBoostingRegressor(BaseRegressor, BaseGradientBoosting):
    """Gradient boosting for regression.

    Each round fits a tree to the gradients of the loss and adds it, times the learning rate. Leaf values are Newton
    steps; for the absolute error, quantile and Huber losses, which have no useful curvature, they are found from the
    residuals.

    Parameters
    ----------
    loss : str, callable or object, default="squared_error"
        The loss to lower: "squared_error", "absolute_error", "quantile" (or "pinball"), "expectile", "huber",
        "log_cosh"; "poisson", "gamma" and "tweedie" with a log link; "cross_entropy" for a y of probabilities; or a
        function of (y, raw) that returns gradients and hessians, or an object with that as its method `derivatives`
        (and `start`, `loss` and `predict`, all optional).
    quantile : float or list of float, optional
        The level to predict with loss="quantile" or "expectile". With several ascending levels of "quantile" there is a
        column of predictions for each, and they never cross.
    alpha : float, default=0.9
        With loss="huber": the quantile of the absolute residuals beyond which they count linearly.
    tweedie_variance_power : float, default=1.5
        With loss="tweedie": the variance is proportional to the mean to this power, between 1 and 2.
    {parameters}

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_estimators_, n_iter_ : int
        Rounds kept.
    train_score_, validation_score_ : arrays
        Loss after each round: on at most 10 000 evenly spaced training rows, and on the validation rows, if any.
    feature_importances_, feature_split_counts_ : arrays of shape (n_features_in_,)
        Share of the total gain, and number of splits.

    References
    ----------
    Friedman (2001), "Greedy function approximation: a gradient boosting machine"; Chen & Guestrin (2016), "XGBoost: a
    scalable tree boosting system", eq. 5-7.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = GradientBoostingRegressor(n_estimators=50).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    """

    _parameter_rules: ClassVar = {
        **RULES,
        "loss": one_of(*REGRESSION) | CUSTOM,
        "quantile": LEVEL | LEVELS | NONE,
        "alpha": LEVEL,
        "tweedie_variance_power": real(1, 2, open_low=True, open_high=True),
    }

    def __init__(
        self,
        loss: Any = "squared_error",
        *,
        quantile: Any = None,
        alpha: float = 0.9,
        tweedie_variance_power: float = 1.5,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        min_gain_to_split: float = 0.0,
        l2_regularization: float = 0.0,
        max_bins: int = 255,
        max_features: int | float = 1.0,
        max_features_per_tree: int | float = 1.0,
        feature_weights: Any = None,
        subsample: float = 1.0,
        min_weight_leaf: float = 0.0,
        validation_fraction: float = 0.1,
        early_stopping: bool | str = "auto",
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        path_smooth: float = 0.0,
        max_delta_step: float | None = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        one_hot_max_size: int = 2,
        min_samples_category: int | None = None,
        max_categories_per_split: int | None = None,
        category_smoothing: float = 10.0,
        category_l2: float = 3.0,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.quantile = quantile
        self.alpha = alpha
        self.tweedie_variance_power = tweedie_variance_power
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.min_child_weight = min_child_weight
        self.min_gain_to_split = min_gain_to_split
        self.l2_regularization = l2_regularization
        self.max_bins = max_bins
        self.max_features = max_features
        self.max_features_per_tree = max_features_per_tree
        self.feature_weights = feature_weights
        self.subsample = subsample
        self.min_weight_leaf = min_weight_leaf
        self.validation_fraction = validation_fraction
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.path_smooth = path_smooth
        self.max_delta_step = max_delta_step
        self.categorical_features = categorical_features
        self.categorical_encoding = categorical_encoding
        self.categorical_missing = categorical_missing
        self.one_hot_max_size = one_hot_max_size
        self.min_samples_category = min_samples_category
        self.max_categories_per_split = max_categories_per_split
        self.category_smoothing = category_smoothing
        self.category_l2 = category_l2
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _get_loss(self) -> Loss:
        return regression_loss(self.loss, LossOptions(self.quantile, self.alpha, self.tweedie_variance_power))

    def predict(self, X: ArrayLike) -> Array:
        """Return the predicted mean or quantile of each row, shape (n_samples,)."""
        raw = self._raw(X)
        return self._loss.predict(raw)

    def staged_predict(self, X: ArrayLike) -> Iterator[Array]:
        """Yield the predictions after each round."""
        for raw in self._staged_raw(X):
            yield self._loss.predict(raw)
