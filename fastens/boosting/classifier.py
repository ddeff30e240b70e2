"""Gradient boosting for classification (Friedman 2001): labels, probabilities, prediction sets, staged predictions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from fastens.base import BaseClassifier, Capabilities
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.calibration import CONFORMITY, RowArguments, SetCalibration, calibration_of
from fastens.boosting.fit_arguments import predicted_to_score
from fastens.boosting.parameters import CUSTOM, textbook, with_quality
from fastens.conformal.scores import at_each_coverage
from fastens.engine.losses.column_losses import ColumnLosses
from fastens.engine.losses.loss_names import CLASSIFICATION, classification_loss
from fastens.engine.losses.losses import Loss
from fastens.monitoring.callbacks import score_of
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, one_of, parameter
from fastens.params.types import ClassWeight, Coverage, LossChoice
from fastens.table.training_data import columns_of_labels, labels_of

Array = NDArray[np.float64]


def _has_one_target(model: Any) -> bool:
    """Return True for a single target; raise AttributeError for several, as scikit-learn's classifiers do."""
    if isinstance(getattr(model, "classes_", None), list):
        raise AttributeError("decision_function supports only a single target. Use predict_proba for several targets.")
    return True


@with_parameters
class GradientBoostingClassifier(BaseClassifier, BoostedTrees):
    """Gradient boosting for classification.

    Each round fits one tree per raw prediction (one for binary targets, one per class otherwise) to the gradients of
    the log loss. Its leaf values are Newton steps, sum(r) / (sum(p (1 - p)) + l2_regularization), times the learning
    rate. With several targets, y of shape (n_samples, n_targets), each round fits a single tree whose leaves have a
    value for each raw prediction of all targets, unless the leaves are linear.

    Parameters
    ----------
    loss : {"log_loss", "exponential", "one_vs_rest", "ordinal"}, callable or object, default="log_loss"
        Loss to minimise. "log_loss" is the binary or multinomial log loss. "exponential" is the loss of AdaBoost, for
        binary targets only. "one_vs_rest" is the log loss of each class against all others; its probabilities do not
        add up to 1. "ordinal" is the log loss of ordered classes (a cumulative link model); labels must be numbers. A
        callable takes (y, raw), where y holds class indices, and returns gradients and hessians. An object has such a
        method named `derivatives`, and optionally `start`, `loss` and `predict`, which returns probabilities. For
        binary targets, all arrays have the shape (n_samples,), otherwise (n_samples, n_classes).
    {parameters}

    Attributes
    ----------
    classes_ : array of shape (n_classes,), or list of arrays with several targets
        Class labels, sorted.
    {attributes}
    oob_decision_function_ : array of shape (n_samples, n_classes)
        If oob_score=True, the out-of-bag probabilities. The columns of several targets are concatenated.

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

    loss: LossChoice = parameter(one_of(*CLASSIFICATION) | CUSTOM, default="log_loss", kw_only=False)
    class_weight: ClassWeight = parameter(ANYTHING, default=None)

    # 24 bits keep weighted sums exact for rows that stand for up to 64 copies.
    _factor_bits = 24
    _capabilities = Capabilities(supports_distributed_fit=True)
    _takes_several_targets = True
    _has_squared_error_splits = True
    textbook = classmethod(textbook)
    with_quality = classmethod(with_quality)
    _calibration_type: ClassVar[Any] = SetCalibration

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not (isinstance(self.loss, str) and self.loss == "exponential")
        return tags

    def _get_loss(self) -> Loss:
        """Return the classification loss of all targets; raise ValueError for an ordinal loss with text labels."""
        if isinstance(self.loss, str) and self.loss == "ordinal":
            for classes in self._classes_of_targets():
                if classes.dtype.kind not in "biuf":
                    raise ValueError(
                        "y must hold numbers for loss='ordinal', because they define the order of the classes; got "
                        f"labels such as {classes[0]!r}. Encode the labels as 0, 1, 2, ... in their order."
                    )
        return self._joined_losses([classification_loss(self.loss, len(each)) for each in self._classes_of_targets()])

    # Targets --------------------------------------------------

    def _classes_of_targets(self) -> list[NDArray[Any]]:
        """Return the classes of each target, as a list even for one target."""
        return self.classes_ if isinstance(self.classes_, list) else [self.classes_]

    def _labels_of_targets(self, y: Array) -> NDArray[Any]:
        """Return the class labels for encoded targets, which are class indices, (n_rows,) or (n_rows, n_targets)."""
        return labels_of(y, self.classes_)

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> NDArray[Any]:
        """Return the most probable class of each row.

        Ties go to the first class.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions.
        """
        return self._response("predict", self._raw_from(X, init_score))

    def predict_proba(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Any:
        """Return the probability of each class, or a list of such arrays with several targets.

        Parameters
        ----------
        X, init_score
            As for `predict`.
        """
        return self._response("predict_proba", self._raw_from(X, init_score))

    @available_if(_has_one_target)
    def decision_function(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Array:
        """Return raw predictions: the log odds of the second class, or one column per class for three or more classes.

        With loss="ordinal" and three or more classes, they are the logarithms of the probabilities.

        Parameters
        ----------
        X, init_score
            As for `predict`.
        """
        return self._response("decision_function", self._raw_from(X, init_score))

    def staged_predict_proba(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Iterator[Any]:
        """Yield the class probabilities after each round."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._response("predict_proba", raw)

    @available_if(_has_one_target)
    def staged_decision_function(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Iterator[Array]:
        """Yield the decision function after each round."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._response("decision_function", raw)

    def _response(self, method: str, raw: Array) -> Any:
        """Return the result of the public method `method`, such as "predict", for raw predictions.

        `raw` has shape (n_rows, n_outputs).
        """
        if method == "predict":
            return self._labels_of(raw)
        if method == "predict_proba":
            return self._loss.predict(raw)
        scores = self._loss.decision(raw)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _labels_of(self, raw: Array) -> NDArray[Any]:
        """Return each row's most probable label from raw predictions, (n_rows,) or (n_rows, n_targets)."""
        if not isinstance(self._loss, ColumnLosses):
            return most_probable(self._loss.decision(raw), self.classes_)
        targets = zip(self._loss.parts, self._loss.split(raw), self.classes_, strict=True)
        return columns_of_labels(
            most_probable(part.decision(target_raw), classes) for part, target_raw, classes in targets
        )

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, init_score: ArrayLike | None = None
    ) -> float:
        """Return the accuracy; with several targets, a row counts if all of its classes are correct.

        Parameters
        ----------
        X, y, sample_weight, init_score
            Rows with their classes and weights, and raw predictions to add as in `predict`.
        """
        return score_of(self, y, predicted_to_score(self, X, init_score, sample_weight), sample_weight)

    # Calibrate --------------------------------------------------

    def conformalize(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        conformity: str = "lac",
        init_score: ArrayLike | None = None,
        group: ArrayLike | str | None = None,
        likelihood_ratio: ArrayLike | None = None,
    ) -> Self:
        """Calibrate the prediction sets of `predict_set` on held-out rows; probabilities are unchanged.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Calibration set: rows that `fit` has used neither for training nor for validation.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Classes of the calibration set.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. Integer weights count as copies; fractional weights are scaled to a mean of 1.
        conformity : {"lac", "aps", "raps"}, default="lac"
            Conformity score. "lac": all classes whose probability exceeds a common threshold. "aps": the most probable
            classes up to a cumulative probability. "raps": "aps" with a penalty for large sets.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions.
        group : array of shape (n_samples,) or str, optional
            Calibration groups: the coverage holds within each of them (Mondrian conformal prediction). An array, or the
            name of a column of X, which may be a feature. Missing values form one group.
        likelihood_ratio : array of shape (n_samples,), optional
            Under a covariate shift, the density of new rows divided by the density of these rows, up to a factor.

        Returns
        -------
        self
        """
        CONFORMITY.check("conformity", conformity)
        rows = RowArguments(X, init_score, group, likelihood_ratio)
        self._calibration = SetCalibration.learn(self, rows, y, sample_weight, conformity)
        return self

    @at_each_coverage
    def predict_set(
        self,
        X: ArrayLike,
        coverage: Coverage = 0.9,
        *,
        init_score: ArrayLike | None = None,
        group: ArrayLike | str | None = None,
        likelihood_ratio: ArrayLike | None = None,
    ) -> Any:
        """Return, for each row, a set of classes that contains the true class with a given probability.

        The sets are split-conformal and use the rows passed to `conformalize`. If these and the new rows are
        exchangeable, the marginal coverage is at least `coverage`. It is not guaranteed for each row or class.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability that the set of a new row contains its class. A list adds a last axis, one entry per coverage.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions.
        group, likelihood_ratio : arrays of shape (n_samples,), optional
            Groups and likelihood ratios of the rows; required if `conformalize` received arrays of them.
            Sets of new groups, and of groups with too few calibration rows, hold all classes.

        Returns
        -------
        bool array of shape (n_samples, n_classes), with several targets a list of them
            True for the classes in the set of a row. With conformity="lac", sets may be empty.

        Raises
        ------
        NotFittedError
            If `conformalize` has not been called.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from fastens import GradientBoostingClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = GradientBoostingClassifier(n_estimators=20).fit(X[::3], y[::3]).conformalize(X[1::3], y[1::3])
        >>> sets = model.predict_set(X[2::3])
        >>> round(float(sets[range(len(sets)), y[2::3]].mean()), 1)
        0.9
        """
        rows = RowArguments(X, init_score, group, likelihood_ratio)
        return calibration_of(self, "predict_set", "ConformalClassifier").predict(self, rows, coverage)


def most_probable(raw: Array, classes: NDArray[Any]) -> NDArray[Any]:
    """Return each row's label from one target's raw predictions: log odds (n_rows, 1), or one column per class.

    Ties go to the first class.
    """
    if raw.shape[1] == 1:
        return classes[(raw[:, 0] > 0).astype(np.intp) % len(classes)]  # ensemble members may have a single class
    return classes[raw.argmax(axis=1)]
