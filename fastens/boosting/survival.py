"""Survival: gradient boosting for times that may be censored."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.fit_arguments import drawn_rows, predicted_to_score, with_offset
from fastens.boosting.folds import fold_rows
from fastens.boosting.rounds import Rounds
from fastens.boosting.times import check_no_events, checked_times, read_times
from fastens.checked_parameters import with_parameters
from fastens.engine.comm import gathered, is_any
from fastens.engine.elementary import exp
from fastens.engine.losses.losses import Loss
from fastens.engine.losses.survival_losses import AFT, Cox, concordance, cumulative_hazard, events, hazard_ratios
from fastens.engine.trees.used_columns import raw_of_rows
from fastens.foreign_names import CONCORDANCES
from fastens.monitoring.metrics import LOSS, OwnMetric, metrics_rule
from fastens.options import AFTLoss, record
from fastens.parameters import one_of, parameter
from fastens.table.columns.vectors import unmasked
from fastens.table.sample_weights import rows_to_score
from fastens.table.training_data import check_same_rows

Array = NDArray[np.float64]
# Of a hazard, so that products are numbers.
_LARGEST_LOG = 700.0


@with_parameters
class GradientBoostingSurvival(BoostedTrees):
    """Gradient boosting for times that may be censored: Cox's proportional hazards, or accelerated failure times.

    `fit` takes y as a table or a structured array with the columns "event" (True where the event was observed) and
    "time", whatever the loss. Rows known within bounds have the columns "lower" and "upper", or are an array of two
    columns without names; a vector holds times that were all observed.

    `eval_metric` takes "loss", "concordance" (see `score`), and functions of (y, predictions), y being the bounds of
    the times.

    Parameters
    ----------
    loss : "cox", "aft" or AFTLoss, default="cox"
        "cox": the partial likelihood, times that are equal as in Breslow; `predict` gives the logarithm of the hazard
        ratio. "aft": log(time) = prediction + scale * error; `predict` gives the prediction. It takes rows censored
        on the left or known within an interval, too.
    {parameters}

    Attributes
    ----------
    {attributes}
    event_times_, cumulative_hazard_ : arrays of shape (n_times,)
        With loss="cox": the times of events, and Breslow's estimate of the baseline hazard up to each.

    References
    ----------
    Cox (1972), "Regression models and life-tables"; Breslow (1974), "Covariance analysis of censored survival data";
    Barnwal, Cho & Hocking (2020), "Survival regression with accelerated failure time model in XGBoost".

    Examples
    --------
    >>> import numpy as np
    >>> from fastens import GradientBoostingSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> time, lost = rng.exponential(np.exp(-X[:, 0])), rng.exponential(size=500)
    >>> y = np.rec.fromarrays([time <= lost, np.minimum(time, lost)], names="event,time")
    >>> model = GradientBoostingSurvival(n_estimators=30).fit(X, y)
    >>> model.score(X, y) > 0.7
    True
    >>> model.predict_survival_function(X[:2], times=[0.5, 1.0]).shape
    (2, 2)
    """

    _takes_parts = True
    # Of two targets that are columns of X: events and times, or bounds.
    _learns_names_of_targets = True
    _metrics_rule: ClassVar = metrics_rule("'concordance'", lambda name: name == "concordance", CONCORDANCES)

    loss: str | AFTLoss = parameter(one_of("cox", "aft") | record(AFTLoss), default="cox", kw_only=False)
    oob_prediction_: Array = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = tags.target_tags.required = True
        return tags

    # The target --------------------------------------------------

    def _learn_data(self, X: Any, y: Any, sample_weight: Any, n_validation: int = 0) -> TrainingData:
        check_no_events(y, sample_weight)
        return super()._learn_data(X, y, sample_weight, n_validation)

    def _check_validation(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        check_no_events(y, sample_weight)
        return super()._check_validation(X, y, sample_weight)

    def _read_target(self, y: Any) -> NDArray[Any]:
        """Return the bounds of the times and the numbers of the rows, (n_rows, 3)."""
        self._check_target_given(y)
        bounds = read_times(y)
        return np.column_stack([bounds, np.arange(len(bounds))])

    def _encode_target(self, y: NDArray[Any]) -> Array:
        """Return the bounds of the rows that have a weight, (n_rows, 2)."""
        return checked_times(y[:, :2], y[:, 2])

    def _learn_statistics(self, data: Any, seed: int) -> Any:
        # Target statistics of categories are means of the negative gradients before the first round.
        loss, slopes = self._get_loss(), np.empty((2, 1, len(data.y)), dtype=np.float32)
        loss.join(data.comm)
        start = loss.start(data.y, data.sample_weight)[:, None]
        raw = np.repeat(start, len(data.y), axis=1) if data.offset is None else data.offset
        loss.start_round(data.y, raw, data.sample_weight)
        loss.gradients(data.y, raw, slopes[0], slopes[1])
        encoded = super()._learn_statistics(data._replace(y=-slopes[0, 0].astype(np.float64)), seed)
        return encoded._replace(y=data.y)

    # Fit --------------------------------------------------

    def _hold_out_rows(self, data: TrainingData, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Of observed times and of others the same share, if both are on both sides."""
        (y,) = gathered(data.comm, [data.y])
        known, n_held_out = events(y), math.ceil(self.validation_fraction * len(y))
        smallest = min(int(known.sum()), int((~known).sum()), n_held_out, len(y) - n_held_out)
        return drawn_rows(self, data, seed, known if smallest > 1 else None)

    def _fold_rows(
        self, data: TrainingData, n_folds: int, seed: int
    ) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Of observed times and of others the same share in each fold."""
        known = events(gathered(data.comm, [data.y])[0])
        return fold_rows(self, data, n_folds, seed, None if known.all() else known)

    def _measure_validation(self, rounds: Rounds, validation: TrainingData) -> None:
        metric = self._stopping.eval_metric
        is_needed = self.loss == "cox" and LOSS in (metric if isinstance(metric, list | tuple) else [metric])
        if is_needed and not is_any(validation.comm, bool(events(validation.y).any())):
            raise ValueError(
                "Rows to validate on, given or held out, must hold at least one event for loss='cox'; all "
                f"{len(validation.y)} are censored."
            )
        super()._measure_validation(rounds, validation)

    def _get_loss(self) -> Loss:
        options = self._options("loss")
        return Cox() if options is None else AFT(options.distribution, options.scale)

    @property
    def _is_cox(self) -> bool:
        return bool(self._as_fitted().loss == "cox")

    def _own_metric(self, name: str, loss: Loss) -> OwnMetric:
        return lambda rows: self._score_of_raw(*gathered(self._comm, [rows.raw.T, rows.y, rows.weight]))

    def _keep(self, rounds: Rounds, n_rounds: int) -> None:
        super()._keep(rounds, n_rounds)
        self._forget("event_times_", "cumulative_hazard_")
        if self.loss == "cox":
            rows = rounds.rows_after(n_rounds)
            found = gathered(self._comm, [rows.y, rows.raw[0], rows.weight])
            self.event_times_, self.cumulative_hazard_ = _breslow(*found)

    def __getitem__(self, rounds: slice) -> Any:
        """Return a fitted model with some of the rounds; with loss="cox" and not all of them, without a baseline.

        The baseline hazard is that of all rounds; ``refit_leaves(X, y, decay_rate=1.0)`` learns that of the others.
        """
        part = super().__getitem__(rounds)
        if self._is_cox and part.n_estimators_ < self._ensemble.n_trees:
            part.event_times_ = part.cumulative_hazard_ = np.zeros(0)
        return part

    def _leaves_changed(self, data: TrainingData, decay: float) -> None:
        super()._leaves_changed(data, decay)
        if self._is_cox:
            raw = raw_of_rows(self._ensemble, data.X)[:, 0] + (0.0 if data.offset is None else data.offset[0])
            times, hazard = _breslow(data.y, raw, data.sample_weight)
            both = np.union1d(self.event_times_, times)
            old, new = _step(both, self.event_times_, self.cumulative_hazard_), _step(both, times, hazard)
            decay = decay if len(self.event_times_) else 0.0  # slices and models of other libraries have none
            self.event_times_, self.cumulative_hazard_ = both, decay * old + (1 - decay) * new

    def _fitted_names(self) -> tuple[str, ...]:
        baseline = ("event_times_", "cumulative_hazard_") if self._is_cox else ()
        return (*super()._fitted_names(), *baseline)

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike, init_score: ArrayLike | None = None) -> Array:
        """Return the logarithm of the hazard ratio ("cox") or the location of the log time ("aft"), shape (n_samples,).

        The location is the expected log time, but of the distribution "extreme", whose mean is 0.577 `scale` lower.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        init_score : array of shape (n_samples,), optional
            Predictions that are added.
        """
        return self._response("predict", self._raw_from(X, init_score))

    def predict_survival_function(self, X: ArrayLike, times: ArrayLike, init_score: ArrayLike | None = None) -> Array:
        """Return the probability that nothing has happened by each of the times.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        times : array of shape (n_times,)
            Times, none negative.
        init_score : array of shape (n_samples,), optional
            Predictions that are added.

        Returns
        -------
        array of shape (n_samples, n_times)
            With loss="cox", exp(-H(time) * hazard ratio), H being Breslow's estimate of the baseline's cumulative
            hazard, a step function that is constant after the last event.
        """
        at = np.atleast_1d(unmasked(times, "times"))
        if at.ndim != 1 or at.dtype.kind not in "biuf" or not (at >= 0).all():
            raise ValueError(f"times must hold numbers that are not negative; got {times!r}.")
        at = at.astype(np.float64)
        raw = with_offset(self.predict, X, init_score)
        if isinstance(self._loss, AFT):
            return self._loss.predict_survival(raw, at)
        if not len(self.event_times_):
            raise ValueError(
                "predict_survival_function must have the baseline hazard of fit, and this model has none: it has some "
                "of the rounds of another, or comes from another library; refit_leaves(X, y, decay_rate=1.0) learns it "
                "and keeps the leaves."
            )
        hazard = _step(at, self.event_times_, self.cumulative_hazard_)
        with np.errstate(over="ignore"):
            return exp(-exp(np.minimum(raw, _LARGEST_LOG))[:, None] * hazard)

    def score(
        self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None, *, init_score: ArrayLike | None = None
    ) -> float:
        """Return Harrell's index of concordance.

        The share of the pairs of rows of which one is known to be later that the predictions put in that order; ties of
        predictions count one half.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        y : array or table
            Times, as in `fit`.
        sample_weight : array of shape (n_samples,), optional
            Weights; those of a pair are multiplied.
        init_score : array of shape (n_samples,), optional
            As in `predict`.
        """
        return self._score_of(y, predicted_to_score(self, X, init_score, sample_weight), sample_weight)

    def _score_of(self, y: Any, predicted: Array, sample_weight: Any) -> float:
        check_no_events(y, sample_weight)
        y = self._read_target(y)
        check_same_rows(len(predicted), len(y))
        y, predicted, weight = rows_to_score(y, predicted, sample_weight)
        return self._score_of_raw(predicted[:, None], self._encode_target(y), weight)

    def _score_of_raw(self, raw: Array, y: Array, weight: Array | None) -> float:
        return concordance(y, -raw[:, 0] if self._is_cox else raw[:, 0], weight)


def _breslow(y: Array, raw: Array, weight: Array | None) -> tuple[Array, Array]:
    """The times of events, and Breslow's estimate of the baseline's cumulative hazard up to each."""
    # Relative to the highest risk, and bounded, so that none overflows.
    scale = exp(np.clip(-raw.max(), -_LARGEST_LOG, _LARGEST_LOG))
    with np.errstate(over="ignore"):
        hazard = np.minimum(cumulative_hazard(y, hazard_ratios(raw), weight) * scale, exp(_LARGEST_LOG))
    known = events(y)
    times, first = np.unique(y[known, 0], return_index=True)
    return times, hazard[known][first]


def _step(at: Array, times: Array, values: Array) -> Array:
    """A step function that starts at 0 and takes the values from the times on."""
    return np.concatenate([[0.0], values])[np.searchsorted(times, at, side="right")]
