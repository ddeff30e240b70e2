"""Gradient boosting: trees that one after another correct the sum of those before (Friedman 2001)."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from fastens.boosting.boosted_classifier import BoostedClassifier
from fastens.boosting.boosted_regressor import BoostedRegressor
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.parameters import NEEDS, RULES
from fastens.boosting.several_targets import loss_of_targets
from fastens.checked_parameters import with_parameters
from fastens.engine.losses.loss_names import (
    CLASSIFICATION,
    REGRESSION,
    classification_loss,
    is_custom,
    regression_loss,
)
from fastens.engine.losses.losses import Huber, Loss
from fastens.engine.losses.numeric_losses import Tweedie
from fastens.options import HuberLoss, TweedieLoss, record
from fastens.parameters import ANYTHING, NONE, Rule, one_of, read_with, real

CUSTOM = Rule("a function or object that gives derivatives", is_custom)
LEVEL = real(0, 1, open_low=True, open_high=True)
LEVELS = Rule(
    "a list of such numbers",
    lambda value: isinstance(value, list | tuple | np.ndarray) and len(value) > 0 and all(map(LEVEL.holds, value)),
)


@with_parameters
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
        "class_weight": ANYTHING,
    }

    loss: Any = field(default="log_loss", kw_only=False)
    class_weight: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not (isinstance(self.loss, str) and self.loss == "exponential")
        return tags

    def _get_loss(self) -> Loss:
        return loss_of_targets(
            self, [classification_loss(self.loss, len(classes)) for classes in self._classes_of_targets()]
        )


@with_parameters
class GradientBoostingRegressor(BoostedRegressor, BoostedTrees):
    """Gradient boosting for regression.

    Each round fits a tree to the gradients of the loss and adds it, times the learning rate. Leaf values are Newton
    steps; for the absolute error, quantile and Huber losses, which have no useful curvature, they are found from the
    residuals. With several targets, y of shape (n_samples, n_targets), a leaf has a value for each of them; with linear
    leaves each target has trees of its own.

    Parameters
    ----------
    loss : str, record, callable or object, default="squared_error"
        The loss to lower: "squared_error", "absolute_error", "quantile" (or "pinball"), "expectile", "huber" or a
        `HuberLoss`, "log_cosh"; "poisson", "gamma" and "tweedie" or a `TweedieLoss` with a log link; "cross_entropy"
        for a y of probabilities; or a
        function of (y, raw) that returns gradients and hessians, or an object with that as its method `derivatives`
        (and `start`, `loss` and `predict`, all optional).
    quantile : float or list of float, optional
        The level to predict with loss="quantile" or "expectile". With several ascending levels there is a column of
        predictions for each, and they never cross; with several targets predictions have the shape (n_samples,
        n_targets, n_quantiles).
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

    loss: Any = field(default="squared_error", kw_only=False)
    quantile: Any = None

    _takes_parts = True
    _parameter_rules: ClassVar = {
        **RULES,
        "loss": one_of(*REGRESSION) | record(HuberLoss, TweedieLoss) | CUSTOM,
        "quantile": LEVEL | LEVELS | NONE,
    }
    _parameter_needs: ClassVar = {**NEEDS, "quantile": read_with("loss", "quantile", "pinball", "expectile")}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = isinstance(self.loss, TweedieLoss) or (
            isinstance(self.loss, str) and self.loss in ("poisson", "gamma", "tweedie")
        )
        return tags

    def _get_loss(self) -> Loss:
        return loss_of_targets(self, [self._loss_of_target() for _ in range(self._n_targets)])

    def _loss_of_target(self) -> Loss:
        options = self._options("loss")
        if isinstance(options, HuberLoss):
            return Huber(options.alpha)
        if isinstance(options, TweedieLoss):
            return Tweedie(options.variance_power)
        return regression_loss(self.loss, self.quantile)
