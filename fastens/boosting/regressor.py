"""Gradient boosting of numbers (Friedman 2001): values, quantiles, intervals, after each round too."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseRegressor
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.calibration import IntervalCalibration, calibration_of
from fastens.boosting.fit_arguments import predicted_to_score
from fastens.boosting.rules import CUSTOM, plain, with_quality
from fastens.conformal.scores import COVERAGE
from fastens.engine.losses.loss_names import (
    REGRESSION,
    regression_loss,
)
from fastens.engine.losses.losses import Huber, Loss
from fastens.engine.losses.numeric_losses import LogCosh, Tweedie
from fastens.monitoring.callbacks import levels_of, score_of
from fastens.params.estimator import with_parameters
from fastens.params.options import HuberLoss, TweedieLoss, record
from fastens.params.rules import NONE, Rule, one_of, parameter, read_with, real

LEVEL = real(0, 1, open_low=True, open_high=True)
LEVELS = Rule(
    "a list of such numbers",
    lambda value: (
        isinstance(value, list | tuple | np.ndarray)
        and np.ndim(value) == 1
        and len(value) > 0
        and all(map(LEVEL.holds, value))
    ),
)
Array = NDArray[np.float64]


@with_parameters
class GradientBoostingRegressor(BaseRegressor, BoostedTrees):
    """Gradient boosting for regression.

    Each round fits a tree to the gradients of the loss and adds it, times the learning rate. Leaf values are Newton
    steps; for the absolute error, quantile, Huber and log-cosh losses, which have no useful curvature, they are found
    from the residuals. With several targets, y of shape (n_samples, n_targets), a leaf has a value for each of them;
    with linear leaves each target has trees of its own.

    Parameters
    ----------
    loss : str, record, callable or object, default="squared_error"
        The loss to lower: "squared_error", "absolute_error", "quantile" (or "pinball"), "expectile", "huber" or a
        `HuberLoss`, "log_cosh"; "poisson", "gamma" and "tweedie" or a `TweedieLoss` with a log link; "cross_entropy"
        for a y of probabilities, "cross_entropy_lambda" for one whose predictions are -log(1 - probability);
        "squared_error_of_root" for the squared error of sign(y) sqrt(abs(y)); or a function of (y, raw) that returns
        gradients and hessians, or an object with that as its method `derivatives` (and `start`, `loss` and `predict`,
        all optional).
    quantile : float or list of float, optional
        The level to predict with loss="quantile" or "expectile". With several ascending levels there is a column of
        predictions for each, and they never cross; with several targets predictions have the shape (n_samples,
        n_targets, n_quantiles).
    {parameters}

    Attributes
    ----------
    {attributes}

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
    >>> model.score(X[1::2], y[1::2]) > 0.2
    True
    """

    loss: Any = parameter(
        one_of(*REGRESSION) | record(HuberLoss, TweedieLoss) | CUSTOM, default="squared_error", kw_only=False
    )
    quantile: Any = parameter(
        LEVEL | LEVELS | NONE, default=None, needs=read_with("loss", "quantile", "pinball", "expectile")
    )
    oob_prediction_: Array = field(init=False)

    _takes_parts = _takes_several_targets = True
    plain = classmethod(plain)
    with_quality = classmethod(with_quality)
    _calibration_type: ClassVar[Any] = IntervalCalibration

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = isinstance(self.loss, TweedieLoss) or (
            isinstance(self.loss, str) and self.loss in ("poisson", "gamma", "tweedie")
        )
        return tags

    def _get_loss(self) -> Loss:
        return self._joined_losses([self._loss_of_target() for _ in range(self._n_targets)])

    def _loss_of_target(self) -> Loss:
        options = self._options("loss")
        if isinstance(options, HuberLoss):
            return Huber(options.alpha)
        if isinstance(options, TweedieLoss):
            return Tweedie(options.variance_power)
        loss = regression_loss(self.loss, self.quantile)
        return LogCosh(by_newton=True) if self.linear_leaves and isinstance(loss, LogCosh) else loss

    # Targets --------------------------------------------------

    def _learn_target(self, y: NDArray[Any]) -> Array:
        return super()._encode_target(y)

    def _encode_target(self, y: NDArray[Any]) -> Array:
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if n_targets != self._n_targets:
            raise ValueError(f"y must have as many targets as in fit, {self._n_targets}; got {n_targets}.")
        return super()._encode_target(y)

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Array:
        """Return the predicted mean, quantile or expectile of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added; of several quantiles of several targets, those of the first target first,
            or of the shape of the predictions.

        Returns
        -------
        array of shape (n_samples,)
            With several targets (n_samples, n_targets), with several quantiles (n_samples, n_quantiles), and with both
            (n_samples, n_targets, n_quantiles).
        """
        return self._response("predict", self._raw_from(X, init_score))

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, init_score: ArrayLike | None = None
    ) -> float:
        """Return R2, with several targets their mean; with several quantiles the mean of their D2, over all targets.

        The D2 of a quantile is the share of the pinball loss that it saves, over the constant one of the same rows
        (`sklearn.metrics.d2_pinball_score`): 1 for a perfect prediction, 0 for that constant. That of an expectile is
        the same of its loss.

        Parameters
        ----------
        X, y, sample_weight
            Rows, their targets and weights.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            As in `predict`.
        """
        return score_of(self, y, predicted_to_score(self, X, init_score, sample_weight), sample_weight)

    @property
    def _predicted_levels(self) -> list[float] | None:
        """The levels that predictions have an axis for, if they have one."""
        return levels_of(self) if self._loss.name in ("quantile", "expectile") else None

    def _score_of_raw(self, raw: Array, y: Array, weight: Array) -> float:
        return score_of(self, y, self._loss.predict(raw), weight)

    # Calibrate --------------------------------------------------

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
    ) -> Any:
        """Learn how far predictions err, for `predict_interval`; predictions stay as they are.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows that `fit` has not seen, neither to train on nor to validate on. For a coverage of 0.9 at least 9;
            with n of them the coverage of one model varies by about sqrt(0.9 * 0.1 / n).
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out; weights with fractions are scaled
            to a mean of 1.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        self
        """
        self._calibration = IntervalCalibration.learn(self, (X, y, sample_weight), init_score)
        return self

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9, init_score: ArrayLike | None = None) -> Array:
        """Return an interval for each row that holds its target with a given probability.

        Split-conformal intervals from the errors on the rows given to `calibrate`. With several quantiles, those
        nearest to (1 - coverage) / 2 and (1 + coverage) / 2, both moved outwards (or inwards) by the same amount, so
        that intervals are as wide as each row needs (conformalised quantile regression). Otherwise the prediction plus
        and minus a quantile of the errors; with loss="poisson", "gamma" or "tweedie" these are in proportion to the
        loss's standard deviation.

        The probability is at least `coverage`, whatever the model and the distribution, over new rows and rows to
        calibrate on that are exchangeable, such as draws of one population; it is not promised for each row by itself.
        With several targets it is that of each by itself; a coverage of 1 - (1 - c) / n_targets holds all of a row's
        with the probability c.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Probability that a new row's target is in its interval.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        array of shape (n_samples, 2), with several targets (n_samples, n_targets, 2)
            Lower and upper ends; infinite where there were too few rows to calibrate on.

        Raises
        ------
        NotFittedError
            Before `calibrate`.

        References
        ----------
        V. Vovk, A. Gammerman, G. Shafer (2005). Algorithmic learning in a random world. Y. Romano, E. Patterson, E.
        Candes (2019). Conformalized quantile regression. NeurIPS 32.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GradientBoostingRegressor("quantile", quantile=[0.1, 0.5, 0.9], n_estimators=50)
        >>> low, high = model.fit(X[:200], y[:200]).calibrate(X[200:320], y[200:320]).predict_interval(X[320:], 0.8).T
        >>> bool(0.7 < ((low <= y[320:]) & (y[320:] <= high)).mean() < 0.9)
        True
        """
        COVERAGE.check("coverage", coverage)
        return calibration_of(self, "predict_interval", "ConformalRegressor").predict(self, X, init_score, coverage)
