"""Gradient boosting: trees that one after another correct the sum of those before (Friedman 2001)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fastens.boosting.boosted_classifier import BoostedClassifier
from fastens.boosting.boosted_regressor import BoostedRegressor
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.parameters import NEEDS, RULES
from fastens.boosting.several_targets import loss_of_targets
from fastens.engine.losses.loss_names import (
    CLASSIFICATION,
    REGRESSION,
    LossOptions,
    classification_loss,
    is_custom,
    regression_loss,
)
from fastens.engine.losses.losses import Loss
from fastens.parameters import ANYTHING, NONE, Rule, one_of, read_with, real

CUSTOM = Rule("a function or object that gives derivatives", is_custom)
SPLIT_CRITERIA = one_of("newton", "squared_error")
LEVEL = real(0, 1, open_low=True, open_high=True)
LEVELS = Rule(
    "a list of such numbers",
    lambda value: isinstance(value, list | tuple | np.ndarray) and len(value) > 0 and all(map(LEVEL.holds, value)),
)


class GradientBoostingClassifier(BoostedClassifier, BoostedTrees):
    """Gradient boosting for classification.

    Each round fits one tree per raw prediction (one for two classes, one per class otherwise) to the gradients of the
    log loss, and adds it with Newton leaf values, sum(r) / (sum(p (1 - p)) + l2_regularization), times the learning
    rate. With several targets, y of shape (n_samples, n_targets), it is one tree whose leaves have a value for each raw
    prediction of all of them; with linear leaves still one per raw prediction.

    Parameters
    ----------
    loss : {"log_loss", "exponential"}, callable or object, default="log_loss"
        The loss to lower. For two classes also the exponential loss. Or a function of (y, raw) that returns gradients
        and hessians, y being the numbers of the classes, 0, 1, ..., or an object with that as its method `derivatives`
        (and `start`, `loss` and `predict`, the probabilities, all optional). For two classes `raw` and what is returned
        have the shape (n_samples,), and the probability is that of the second; otherwise (n_samples, n_classes).
    split_criterion : {"newton", "squared_error"}, default="newton"
        What trees are chosen by. "newton": the second-order gain (Chen & Guestrin 2016). "squared_error": that of the
        negative gradients, r, as if all hessians were 1, so that `min_child_weight` counts rows; leaves are the same
        Newton steps, but not cut where they are long (see `max_delta_step`), and there is no penalty of splits unless
        it is given (Friedman 2001, algorithms 5 and 6). Not with linear leaves.
    {parameters}
    class_weight : dict or "balanced", optional
        Weights of the classes, multiplied with `sample_weight`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,), or list of such with several targets
        The labels, sorted.
    n_outputs_ : int
        Number of targets.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_estimators_, n_iter_ : int
        Rounds kept.
    best_iteration_ : int
        The same: with early stopping the round of the best validation.
    train_score_, validation_score_ : arrays
        After each round, the loss of at most 4000 evenly spaced training rows, and what the validation rows, if any,
        are measured by.
    validation_scores_ : dict of arrays
        All of `eval_metric` after each round, by name.
    oob_improvement_ : array of shape (n_rounds,)
        With oob_score=True: by how much each round lowered the loss of the rows that it left out.
    oob_decision_function_ : array of shape (n_samples, n_classes)
        And the probabilities of each row by the rounds that left it out, which stand for all; those of several targets
        one beside the other.
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

    _takes_parts = True
    _parameter_rules: ClassVar = {
        **RULES,
        "loss": one_of(*CLASSIFICATION) | CUSTOM,
        "split_criterion": SPLIT_CRITERIA,
        "class_weight": ANYTHING,
    }

    def __init__(
        self,
        loss: Any = "log_loss",
        *,
        split_criterion: str = "newton",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        min_gain_to_split: float = 0.0,
        split_penalty: float | None = None,
        l2_regularization: float = 1.0,
        max_bins: int = 255,
        max_features: int | float | str | None = 1.0,
        max_features_per_tree: int | float | str | None = 1.0,
        feature_weights: Any = None,
        subsample: float = 1.0,
        boosting: str = "gbdt",
        rate_drop: float = 0.1,
        skip_drop: float = 0.5,
        max_drop: int | None = 50,
        dart_normalize: str = "tree",
        sampling: str = "uniform",
        top_rate: float = 0.2,
        other_rate: float = 0.1,
        mvs_lambda: float | None = None,
        min_weight_leaf: float = 0.0,
        validation_fraction: float = 0.1,
        early_stopping: bool | str = "auto",
        validation: Any = None,
        eval_metric: Any = "loss",
        refit: bool = False,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        path_smooth: float = 0.0,
        max_delta_step: float | None = None,
        linear_leaves: bool = False,
        linear_l2: float = 10.0,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        one_hot_max_size: int = 2,
        min_samples_category: int | None = None,
        max_categories_per_split: int | None = None,
        category_smoothing: float = 5.0,
        category_l2: float = 3.0,
        oob_score: bool = False,
        callbacks: Any = None,
        warm_start: bool = False,
        checkpoint_path: Any = None,
        checkpoint_every: int = 10,
        verbose: int | bool | str = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
        class_weight: Any = None,
    ) -> None:
        self._keep_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not (isinstance(self.loss, str) and self.loss == "exponential")
        return tags

    def _get_loss(self) -> Loss:
        return loss_of_targets(
            self, [classification_loss(self.loss, len(classes)) for classes in self._classes_of_targets()]
        )


class GradientBoostingRegressor(BoostedRegressor, BoostedTrees):
    """Gradient boosting for regression.

    Each round fits a tree to the gradients of the loss and adds it, times the learning rate. Leaf values are Newton
    steps; for the absolute error, quantile and Huber losses, which have no useful curvature, they are found from the
    residuals. With several targets, y of shape (n_samples, n_targets), a leaf has a value for each of them; with linear
    leaves each target has trees of its own.

    Parameters
    ----------
    loss : str, callable or object, default="squared_error"
        The loss to lower: "squared_error", "absolute_error", "quantile" (or "pinball"), "expectile", "huber",
        "log_cosh"; "poisson", "gamma" and "tweedie" with a log link; "cross_entropy" for a y of probabilities; or a
        function of (y, raw) that returns gradients and hessians, or an object with that as its method `derivatives`
        (and `start`, `loss` and `predict`, all optional).
    quantile : float or list of float, optional
        The level to predict with loss="quantile" or "expectile". With several ascending levels there is a column of
        predictions for each, and they never cross; with several targets predictions have the shape (n_samples,
        n_targets, n_quantiles).
    alpha : float, default=0.9
        With loss="huber": the quantile of the absolute residuals beyond which they count linearly.
    tweedie_variance_power : float, default=1.5
        With loss="tweedie": the variance is proportional to the mean to this power, between 1 and 2.
    split_criterion : {"newton", "squared_error"}, default="newton"
        What trees are chosen by. "newton": the second-order gain (Chen & Guestrin 2016). "squared_error": that of the
        negative gradients, r, as if all hessians were 1, so that `min_child_weight` counts rows; leaves are the same
        Newton steps, but not cut where they are long (see `max_delta_step`), and there is no penalty of splits unless
        it is given (Friedman 2001, algorithms 5 and 6). Not with linear leaves.
    {parameters}

    Attributes
    ----------
    n_outputs_ : int
        Number of targets.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_estimators_, n_iter_ : int
        Rounds kept.
    best_iteration_ : int
        The same: with early stopping the round of the best validation.
    train_score_, validation_score_ : arrays
        After each round, the loss of at most 4000 evenly spaced training rows, and what the validation rows, if any,
        are measured by.
    validation_scores_ : dict of arrays
        All of `eval_metric` after each round, by name.
    oob_improvement_ : array of shape (n_rounds,)
        With oob_score=True: by how much each round lowered the loss of the rows that it left out.
    oob_prediction_ : array of the shape of predictions
        And the prediction of each row by the rounds that left it out, which stand for all.
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

    _takes_parts = True
    _parameter_rules: ClassVar = {
        **RULES,
        "loss": one_of(*REGRESSION) | CUSTOM,
        "split_criterion": SPLIT_CRITERIA,
        "quantile": LEVEL | LEVELS | NONE,
        "alpha": LEVEL,
        "tweedie_variance_power": real(1, 2, open_low=True, open_high=True),
    }
    _parameter_needs: ClassVar = {
        **NEEDS,
        "quantile": read_with("loss", "quantile", "pinball", "expectile"),
        "alpha": read_with("loss", "huber"),
        "tweedie_variance_power": read_with("loss", "tweedie"),
    }

    def __init__(
        self,
        loss: Any = "squared_error",
        *,
        quantile: Any = None,
        alpha: float = 0.9,
        tweedie_variance_power: float = 1.5,
        split_criterion: str = "newton",
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        min_child_weight: float = 1e-3,
        min_gain_to_split: float = 0.0,
        split_penalty: float | None = None,
        l2_regularization: float = 1.0,
        max_bins: int = 255,
        max_features: int | float | str | None = 1.0,
        max_features_per_tree: int | float | str | None = 1.0,
        feature_weights: Any = None,
        subsample: float = 1.0,
        boosting: str = "gbdt",
        rate_drop: float = 0.1,
        skip_drop: float = 0.5,
        max_drop: int | None = 50,
        dart_normalize: str = "tree",
        sampling: str = "uniform",
        top_rate: float = 0.2,
        other_rate: float = 0.1,
        mvs_lambda: float | None = None,
        min_weight_leaf: float = 0.0,
        validation_fraction: float = 0.1,
        early_stopping: bool | str = "auto",
        validation: Any = None,
        eval_metric: Any = "loss",
        refit: bool = False,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        path_smooth: float = 0.0,
        max_delta_step: float | None = None,
        linear_leaves: bool = False,
        linear_l2: float = 10.0,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        one_hot_max_size: int = 2,
        min_samples_category: int | None = None,
        max_categories_per_split: int | None = None,
        category_smoothing: float = 5.0,
        category_l2: float = 3.0,
        oob_score: bool = False,
        callbacks: Any = None,
        warm_start: bool = False,
        checkpoint_path: Any = None,
        checkpoint_every: int = 10,
        verbose: int | bool | str = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = isinstance(self.loss, str) and self.loss in ("poisson", "gamma", "tweedie")
        return tags

    def _get_loss(self) -> Loss:
        options = LossOptions(self.quantile, self.alpha, self.tweedie_variance_power)
        return loss_of_targets(self, [regression_loss(self.loss, options) for _ in range(self._n_targets)])
