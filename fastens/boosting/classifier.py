"""Gradient boosting of classes (Friedman 2001): labels, probabilities, sets of classes, after each round too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from fastens.base import BaseClassifier
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.calibration import CONFORMITY, SetCalibration, calibration_of
from fastens.boosting.fit_arguments import predicted_to_score
from fastens.boosting.rules import CUSTOM, plain, with_quality
from fastens.conformal.scores import COVERAGE
from fastens.engine.losses.column_losses import ColumnLosses
from fastens.engine.losses.loss_names import (
    CLASSIFICATION,
    classification_loss,
)
from fastens.engine.losses.losses import Loss
from fastens.monitoring.callbacks import score_of
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, one_of, parameter
from fastens.table.labels import columns_of_labels

Array = NDArray[np.float64]


def _has_one_target(model: Any) -> bool:
    """Several targets have no decision function, as scikit-learn's classifiers with lists of probabilities."""
    if isinstance(getattr(model, "classes_", None), list):
        raise AttributeError("decision_function is there for a single target; several have predict_proba.")
    return True


@with_parameters
class GradientBoostingClassifier(BaseClassifier, BoostedTrees):
    """Gradient boosting for classification.

    Each round fits one tree per raw prediction (one for two classes, one per class otherwise) to the gradients of the
    log loss, and adds it with Newton leaf values, sum(r) / (sum(p (1 - p)) + l2_regularization), times the learning
    rate. With several targets, y of shape (n_samples, n_targets), it is one tree whose leaves have a value for each raw
    prediction of all of them; with linear leaves still one per raw prediction.

    Parameters
    ----------
    loss : {"log_loss", "exponential", "one_vs_rest"}, callable or object, default="log_loss"
        The loss to lower. For two classes also the exponential loss; "one_vs_rest" is the log loss of each class
        against all others, whose probabilities do not add up to 1. Or a function of (y, raw) that returns gradients
        and hessians, y being the numbers of the classes, 0, 1, ..., or an object with that as its method `derivatives`
        (and `start`, `loss` and `predict`, the probabilities, all optional). For two classes `raw` and what is returned
        have the shape (n_samples,), and the probability is that of the second; otherwise (n_samples, n_classes).
    {parameters}

    Attributes
    ----------
    classes_ : array of shape (n_classes,), or list of such with several targets
        The labels, sorted.
    {attributes}
    oob_decision_function_ : array of shape (n_samples, n_classes)
        With oob_score=True: the probabilities of each row by the rounds that left it out, which stand for all; those of
        several targets one beside the other.

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

    loss: Any = parameter(one_of(*CLASSIFICATION) | CUSTOM, default="log_loss", kw_only=False)
    class_weight: Any = parameter(ANYTHING, default=None)

    # With them, rows of up to 64 copies have weights that sums hold exactly.
    _factor_bits = 24
    _takes_parts = _takes_several_targets = True
    plain = classmethod(plain)
    with_quality = classmethod(with_quality)
    _calibration_type: ClassVar[Any] = SetCalibration
    # Within a fit: the classes of the one that it continues.
    _earlier_classes: Any = field(init=False, default=None)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not (isinstance(self.loss, str) and self.loss == "exponential")
        return tags

    def _get_loss(self) -> Loss:
        return self._joined_losses([classification_loss(self.loss, len(each)) for each in self._classes_of_targets()])

    # Targets --------------------------------------------------

    def _learn_target(self, y: NDArray[Any]) -> Array:
        if self._earlier_classes is None:
            return super()._learn_target(y)
        # Rows that a fit goes on with may lack classes, and have labels of another type.
        self.classes_ = self._earlier_classes
        return self._encode_target(y)

    def _classes_of_targets(self) -> list[NDArray[Any]]:
        return self.classes_ if isinstance(self.classes_, list) else [self.classes_]

    def _labels_of_targets(self, y: Array) -> NDArray[Any]:
        index = y.astype(np.intp)
        if not isinstance(self.classes_, list):
            return self.classes_[index]
        return columns_of_labels(classes[k] for classes, k in zip(self.classes_, index.T, strict=True))

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike, init_score: ArrayLike | None = None) -> NDArray[Any]:
        """Return the most probable class of each row, the first of equals: (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.
        """
        return self._response("predict", self._raw_from(X, init_score))

    def predict_proba(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Any:
        """Return the probability of each class, shape (n_samples, n_classes); a list of such with several targets.

        Parameters
        ----------
        X, init_score
            As for `predict`.
        """
        return self._response("predict_proba", self._raw_from(X, init_score))

    @available_if(_has_one_target)
    def decision_function(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Array:
        """Return raw predictions: log odds of the second class, or a column of scores per class if there are more.

        Parameters
        ----------
        X, init_score
            As for `predict`.
        """
        return self._response("decision_function", self._raw_from(X, init_score))

    def staged_predict_proba(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Iterator[Any]:
        """Yield the probabilities after each round."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._response("predict_proba", raw)

    @available_if(_has_one_target)
    def staged_decision_function(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Iterator[Array]:
        """Yield the decision function after each round."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._response("decision_function", raw)

    def _response(self, method: str, raw: Array) -> Any:
        if method == "predict":
            return self._labels_of(raw)
        if method == "predict_proba":
            return self._loss.predict(raw)
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def _labels_of(self, raw: Array) -> NDArray[Any]:
        if not isinstance(self._loss, ColumnLosses):
            return most_probable(raw, self.classes_)
        pairs = zip(self._loss.split(raw), self.classes_, strict=True)
        return columns_of_labels(most_probable(own, classes) for own, classes in pairs)

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, init_score: ArrayLike | None = None
    ) -> float:
        """Return the share of rows whose class is predicted, with several targets the classes of all of them.

        Parameters
        ----------
        X, y, sample_weight
            Rows, their classes and weights.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            As in `predict`.
        """
        return score_of(self, y, predicted_to_score(self, X, init_score, sample_weight), sample_weight)

    # Calibrate --------------------------------------------------

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        conformity: str = "lac",
        init_score: ArrayLike | None = None,
    ) -> Any:
        """Learn how far probabilities err, for `predict_set`; the probabilities stay as they are.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows that `fit` has not seen, neither to train on nor to validate on.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Their classes.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out; weights with fractions are scaled
            to a mean of 1.
        conformity : {"lac", "aps", "raps"}, default="lac"
            How classes come into sets: those of a probability above one limit for all rows, which gives the smallest
            sets; or the most probable ones until enough probability is together, which gives larger sets to harder
            rows, and never an empty one; or that with a penalty for each place after the second. See
            `ConformalClassifier`.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        self
        """
        CONFORMITY.check("conformity", conformity)
        self._calibration = SetCalibration.learn(self, (X, y, sample_weight), init_score, conformity)
        return self

    def predict_set(self, X: ArrayLike, coverage: float = 0.9, init_score: ArrayLike | None = None) -> Any:
        """Return, for each row, a set of classes that holds the right one with a given probability.

        Split-conformal sets from the rows given to `calibrate`. The probability is at least `coverage`, whatever the
        model and the distribution, over new rows and rows to calibrate on that are exchangeable; it is not promised for
        each row, or each class, by itself. With several targets it is that of each of them.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Probability that a new row's class is in its set.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        bool array of shape (n_samples, n_classes), with several targets a list of them
            With conformity="lac" a set is empty where no class is probable enough.

        Raises
        ------
        NotFittedError
            Before `calibrate`.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from fastens import GradientBoostingClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = GradientBoostingClassifier(n_estimators=20).fit(X[::3], y[::3]).calibrate(X[1::3], y[1::3])
        >>> sets = model.predict_set(X[2::3])
        >>> round(float(sets[range(len(sets)), y[2::3]].mean()), 1)
        0.9
        """
        COVERAGE.check("coverage", coverage)
        return calibration_of(self, "predict_set", "ConformalClassifier").predict(self, X, init_score, coverage)


def most_probable(raw: Array, classes: NDArray[Any]) -> NDArray[Any]:
    """The label of each row, the first of equals, from one raw prediction (of two classes) or one per class."""
    if raw.shape[1] == 1:
        return classes[(raw[:, 0] > 0).astype(np.intp) % len(classes)]  # a member of an ensemble may know one class
    return classes[raw.argmax(axis=1)]
