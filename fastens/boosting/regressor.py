"""Gradient boosting for regression (Friedman 2001): values, quantiles, prediction intervals, staged predictions."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from fastens.base import BaseRegressor, Capabilities
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.calibration import IntervalCalibration, RowArguments, calibration_of
from fastens.boosting.fit_arguments import predicted_to_score
from fastens.boosting.parameters import CUSTOM, textbook, with_quality
from fastens.conformal.scores import at_each_coverage
from fastens.engine.losses.column_losses import ColumnLosses, losses_of_targets
from fastens.engine.losses.distributions import QUANTILE_LEVELS
from fastens.engine.losses.loss_names import REGRESSION, distribution_of, regression_loss
from fastens.engine.losses.losses import Huber, Loss
from fastens.engine.losses.numeric_losses import LogCosh, Tweedie
from fastens.monitoring.callbacks import levels_of, score_of
from fastens.monitoring.distribution_scores import crps, draws_of, quantiles_of
from fastens.monitoring.metrics import NEG_CRPS, REGRESSION_METRICS, OwnMetric, ScoredRows
from fastens.params.estimator import with_parameters
from fastens.params.options import HuberLoss, TweedieLoss, record
from fastens.params.rules import NONE, Rule, one_of, parameter, real, requires
from fastens.params.types import Coverage, LossChoice, RandomState

# Losses that do not accept negative targets.
_POSITIVE = (
    *("poisson", "gamma", "tweedie", "lognormal", "gamma_dist", "weibull"),
    *("beta", "negative_binomial", "zero_inflated_poisson"),
)
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
    steps. The absolute error, quantile, Huber and log-cosh losses do not have a useful curvature, so their leaf values
    are computed from the residuals instead. With several targets, y of shape (n_samples, n_targets), each leaf has a
    value per target; with linear leaves, each target has trees of its own.

    Parameters
    ----------
    loss : str, record, callable or object, default="squared_error"
        Loss to minimise: "squared_error", "absolute_error", "quantile" (or "pinball"), "expectile", "huber" (or a
        `HuberLoss`) or "log_cosh". "poisson", "gamma" and "tweedie" (or a `TweedieLoss`) have a log link.
        "cross_entropy" is for targets that are probabilities; "cross_entropy_lambda" is its variant that predicts
        -log(1 - probability). "squared_error_of_root" is the squared error of sign(y) sqrt(abs(y)). "normal",
        "lognormal", "student_t", "gamma_dist", "weibull", "beta", "negative_binomial" and "zero_inflated_poisson"
        predict all parameters of that distribution, with separate trees for each parameter; `predict_dist` returns the
        distribution, and `predict` its mean. A callable takes (y, raw) and returns gradients and hessians. An object
        has such a method named `derivatives`, and optionally `start`, `loss` and `predict`.
    quantile : float or list of float, optional
        Level to predict with loss="quantile" or "expectile". A list of ascending levels gives one column of predictions
        per level, and predicted quantiles never cross. With several targets, predictions then have the shape
        (n_samples, n_targets, n_quantiles).
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

    loss: LossChoice = parameter(
        one_of(*REGRESSION) | record(HuberLoss, TweedieLoss) | CUSTOM, default="squared_error", kw_only=False
    )
    quantile: Coverage = parameter(
        LEVEL | LEVELS | NONE, default=None, needs=requires("loss", "quantile", "pinball", "expectile")
    )
    oob_prediction_: Array = field(init=False)

    _capabilities = Capabilities(supports_distributed_fit=True)
    _takes_several_targets = True
    _has_squared_error_splits = True
    textbook = classmethod(textbook)
    with_quality = classmethod(with_quality)
    _calibration_type: ClassVar[Any] = IntervalCalibration
    _metrics_rule: ClassVar[Rule] = REGRESSION_METRICS

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = isinstance(self.loss, TweedieLoss) or (
            isinstance(self.loss, str) and self.loss in _POSITIVE
        )
        return tags

    def _get_loss(self) -> Loss:
        """Return the loss of all targets, with a part for each target if there are several."""
        return self._joined_losses([self._loss_of_target() for _ in range(self._n_targets)])

    def _loss_of_target(self) -> Loss:
        """Return the loss of a single target that the parameters `loss` and `quantile` describe."""
        options = self._options("loss")
        if isinstance(options, HuberLoss):
            return Huber(options.alpha)
        if isinstance(options, TweedieLoss):
            return Tweedie(options.variance_power)
        loss = regression_loss(self.loss, self.quantile)
        return LogCosh(by_newton=True) if self.linear_leaves and isinstance(loss, LogCosh) else loss

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Array:
        """Return the predicted mean, quantile or expectile of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions. For several quantiles of several targets, the columns
            are ordered by target, then by quantile; an array with the shape of the predictions is accepted too.

        Returns
        -------
        array of shape (n_samples,)
            Predictions. With several targets the shape is (n_samples, n_targets), with several quantiles (n_samples,
            n_quantiles), and with both (n_samples, n_targets, n_quantiles).
        """
        return self._response("predict", self._raw_from(X, init_score))

    def predict_dist(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Any:
        """Return the predicted distribution of each row's target.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        init_score : array of shape (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions.

        Returns
        -------
        frozen distribution of scipy.stats
            Its parameters are arrays of shape (n_samples,), so that methods such as `mean`, `std`, `cdf`, `ppf` and
            `logpdf` (`logpmf` for counts) return a value for each row. With several targets, a list of distributions.

        Raises
        ------
        ValueError
            If the loss does not predict a distribution.

        References
        ----------
        T. Duan et al. (2020). NGBoost: natural gradient boosting for probabilistic prediction. ICML.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor, crps
        >>> X, y = load_diabetes(return_X_y=True)
        >>> dist = GradientBoostingRegressor("normal", n_estimators=50).fit(X[::2], y[::2]).predict_dist(X[1::2])
        >>> dist.std().shape
        (221,)
        >>> crps(y[1::2], dist) < 40
        True
        """
        distributions = self._distributions(self._raw_from(X, init_score))
        return distributions[0] if len(distributions) == 1 else distributions

    def _distributions(self, raw: Array) -> list[Any]:
        """Return each target's frozen distribution, with an entry per row, for raw predictions (n_rows, n_outputs)."""
        parts = self._loss.split(raw) if isinstance(self._loss, ColumnLosses) else [np.ascontiguousarray(raw)]
        return [distribution_of(loss, part) for loss, part in zip(losses_of_targets(self._loss), parts, strict=True)]

    def predict_quantiles(
        self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95), *, init_score: ArrayLike | None = None
    ) -> Array:
        """Return quantiles of the predicted distribution of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        quantiles : array of numbers between 0 and 1, default=(0.05, 0.5, 0.95)
            Quantile levels.
        init_score : array of shape (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions.

        Returns
        -------
        array of shape (n_samples, n_quantiles), with several targets (n_samples, n_targets, n_quantiles)

        Raises
        ------
        ValueError
            If the loss does not predict a distribution, or a level is not between 0 and 1.
        """
        dist = self.predict_dist(X, init_score=init_score)
        if isinstance(dist, list):
            return np.stack([quantiles_of(target_dist, quantiles) for target_dist in dist], axis=1)
        return quantiles_of(dist, quantiles)

    def _calibrated_quantiles(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Array:
        """Return the predicted distribution's quantiles at QUANTILE_LEVELS, from which calibrated intervals start."""
        return self.predict_quantiles(X, QUANTILE_LEVELS, init_score=init_score)

    def sample(
        self, X: ArrayLike, n_draws: int = 1, *, random_state: RandomState = None, init_score: ArrayLike | None = None
    ) -> Array:
        """Return random draws from the predicted distribution of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        n_draws : int, default=1
            Number of draws for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        init_score : array of shape (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions.

        Returns
        -------
        array of shape (n_samples, n_draws), with several targets (n_samples, n_targets, n_draws)

        Raises
        ------
        ValueError
            If the loss does not predict a distribution, or `n_draws` is not a positive integer.
        """
        dist, generator = self.predict_dist(X, init_score=init_score), check_random_state(random_state)
        if isinstance(dist, list):
            return np.stack([draws_of(target_dist, n_draws, generator) for target_dist in dist], axis=1)
        return draws_of(dist, n_draws, generator)

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, init_score: ArrayLike | None = None
    ) -> float:
        """Return R2, or the mean D2 if the model predicts several quantiles; averaged over targets.

        The D2 of a quantile is the fraction of the pinball loss explained, relative to the constant quantile of the
        given rows (`sklearn.metrics.d2_pinball_score`). It is 1 for perfect predictions and 0 for that constant. The D2
        of an expectile is defined in the same way with its own loss.

        Parameters
        ----------
        X, y, sample_weight
            Rows with their targets and weights.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            As in `predict`.
        """
        return score_of(self, y, predicted_to_score(self, X, init_score, sample_weight), sample_weight)

    @property
    def _predicted_levels(self) -> list[float] | None:
        """The levels along the last axis of predictions, or None for other losses."""
        return levels_of(self) if self._loss.name in ("quantile", "expectile") else None

    def _own_metric(self, name: str, loss: Loss) -> OwnMetric | None:
        """Return the function from scored rows to the negative CRPS if `name` is "neg_crps", otherwise None."""
        if name != NEG_CRPS:
            return None

        def score(rows: ScoredRows) -> float:
            by_target = zip(np.atleast_2d(rows.y.T), self._distributions(rows.raw.T), strict=True)
            return -float(np.mean([crps(y, dist, rows.weight) for y, dist in by_target]))

        return score

    def _score_of_raw(self, raw: Array, y: Array, weight: Array) -> float:
        """Return the result of `score` (R2 or mean D2) for raw predictions, (n_rows, n_outputs)."""
        return score_of(self, y, self._loss.predict(raw), weight)

    # Calibrate --------------------------------------------------

    def conformalize(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
        group: ArrayLike | str | None = None,
        likelihood_ratio: ArrayLike | None = None,
    ) -> Self:
        """Calibrate the intervals of `predict_interval` on held-out rows; predictions are unchanged.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Calibration set: rows that `fit` has used neither for training nor for validation. A coverage of 0.9 needs
            at least 9 rows; with n rows, the coverage of a single model varies by about sqrt(0.9 * 0.1 / n).
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets of the calibration set.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. Integer weights count as copies, and rows of weight 0 are ignored; fractional weights are
            scaled to a mean of 1.
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
        self._calibration = IntervalCalibration.learn(
            self, RowArguments(X, init_score, group, likelihood_ratio), y, sample_weight
        )
        return self

    @at_each_coverage
    def predict_interval(
        self,
        X: ArrayLike,
        coverage: Coverage = 0.9,
        *,
        init_score: ArrayLike | None = None,
        group: ArrayLike | str | None = None,
        likelihood_ratio: ArrayLike | None = None,
    ) -> Array:
        """Return, for each row, an interval that contains its target with a given probability.

        The intervals are split-conformal and use the errors on the rows passed to `conformalize`. With several
        quantiles, they span the quantiles nearest to (1 - coverage) / 2 and (1 + coverage) / 2, both moved outwards (or
        inwards) by the same amount, so that their width adapts to each row (conformalized quantile regression). A loss
        that predicts a distribution uses its quantiles in the same way, moved in proportion to the width of the
        distribution; without `conformalize`, the intervals are its quantiles. Otherwise they are the prediction plus
        and minus a quantile of the absolute errors. With loss="poisson", "gamma" or "tweedie" the errors are scaled by
        the standard deviation that the loss implies.

        If calibration rows and new rows are exchangeable, such as draws from one population, the marginal coverage is
        at least `coverage` for any model and any distribution. It is not guaranteed conditional on a row. With several
        targets, it holds for each target separately; pass a coverage of 1 - (1 - c) / n_targets to cover all targets of
        a row with probability c.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability that the interval of a new row contains its target. Larger values give wider intervals.
            A list adds a last axis with the result of each coverage.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions to add to the model's raw predictions.
        group, likelihood_ratio : arrays of shape (n_samples,), optional
            Groups and likelihood ratios of the rows; required if `conformalize` received arrays of them.
            Intervals of new groups, and of groups with too few calibration rows, are infinite.

        Returns
        -------
        array of shape (n_samples, 2), with several targets (n_samples, n_targets, 2)
            Lower and upper bounds, which are infinite if there were too few calibration rows.

        Raises
        ------
        NotFittedError
            If `conformalize` has not been called and the loss does not predict a distribution.

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
        >>> model = model.fit(X[:200], y[:200]).conformalize(X[200:320], y[200:320])
        >>> low, high = model.predict_interval(X[320:], 0.8).T
        >>> bool(0.7 < ((low <= y[320:]) & (y[320:] <= high)).mean() < 0.9)
        True
        """
        self._check_fitted()
        if self._calibration is None and self._loss.has_distribution and group is likelihood_ratio is None:
            share = cast(float, coverage)
            return self.predict_quantiles(X, [(1 - share) / 2, (1 + share) / 2], init_score=init_score)
        rows = RowArguments(X, init_score, group, likelihood_ratio)
        return calibration_of(self, "predict_interval", "ConformalRegressor").predict(self, rows, coverage)
