"""Gradient boosting for survival analysis: reading of censored times, and the estimator."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from fastens.base import Capabilities, TrainingData
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.fit_arguments import predicted_to_score, with_offset
from fastens.boosting.rounds import Rounds
from fastens.engine.comm import gathered
from fastens.engine.elementary import exp
from fastens.engine.losses.losses import Loss
from fastens.engine.losses.ranking_loss import AFT, Cox, concordance, cumulative_hazard, events, hazard_ratios
from fastens.engine.trees.contributions import raw_of_rows
from fastens.modelfile.saving import SavedParts, attributes
from fastens.monitoring.distribution_scores import draws_of, quantiles_of
from fastens.monitoring.metrics import OwnMetric, metrics_rule
from fastens.params.estimator import with_parameters
from fastens.params.foreign_names import CONCORDANCES
from fastens.params.options import AFTLoss, record
from fastens.params.rules import one_of, parameter
from fastens.params.types import RandomState
from fastens.table.columns.numbers import unmasked
from fastens.table.tables import is_frame, table_over
from fastens.table.training_data import check_same_rows, rows_to_score
from fastens.warn import warn

Array = NDArray[np.float64]

# The only format of events that both losses accept.
_EVENTS = "Name events and times: pass a structured array or a table with the columns 'event' and 'time'."


def read_times(y: Any) -> Array:
    """Return the bounds of the times, (n_rows, 2), from any form of y that `fit` accepts.

    Observed times have equal bounds. Raise ValueError for other forms.
    """
    if str(getattr(y, "dtype", "")).startswith("Struct"):  # a polars Series of structs
        y = y.struct.unnest()
    if (names := table_over(y).names) is not None:
        return _from_columns({str(name): np.asarray(y[name]) for name in names})
    if type(y).__name__ == "RecordBatch":
        return _from_columns({name: np.asarray(y.column(name)) for name in y.schema.names})
    array = unmasked(y, "y")
    if array.dtype.names:
        return _from_columns({name: array[name] for name in array.dtype.names})
    if array.ndim == 2 and array.shape[1] == 2:
        _check_no_flags(y, array)
        return _checked_bounds(_as_floats(array))
    if array.ndim == 2 and array.shape[1] > 2:
        raise ValueError(f"y must have one column, or two for bounds; got {array.shape[1]}.")
    column = column_or_1d(array, warn=True)
    if column.dtype == bool or (column.dtype == object and any(isinstance(each, bool | np.bool_) for each in column)):
        raise ValueError(
            f"y must hold times, with events in a separate column if there are any; got only True or False. {_EVENTS}"
        )
    time = _as_floats(column)
    return np.column_stack([time, time])


def _check_no_flags(y: Any, bounds: NDArray[Any]) -> None:
    """Raise ValueError if y, two unnamed columns, holds booleans, which are 1 and 0 in `bounds`, its array."""
    if isinstance(y, np.ndarray) and bounds.dtype != object:
        return
    pairs = np.asarray(y, dtype=object)
    if pairs.ndim == 2 and any(isinstance(value, bool | np.bool_) for value in pairs.ravel()):
        raise ValueError(
            f"y must hold lower and upper bounds if its columns have no names; got True or False. {_EVENTS}"
        )


def _checked_bounds(bounds: Array) -> Array:
    """Return the two columns `bounds`; raise ValueError if one of them, both unnamed, may hold events.

    Bounds with an infinite value, or with two equal columns, cannot be events and times.
    """
    flags = np.isin(bounds, (0, 1)).all(axis=0)
    if not flags.any() or np.isinf(bounds).any() or np.array_equal(bounds[:, 0], bounds[:, 1]):
        return bounds
    raise ValueError(
        "y must hold lower and upper bounds if its columns have no names; got only 0 and 1 in column "
        f"{int(flags.argmax())}, so the column may hold events. {_EVENTS} If these are bounds, name them 'lower' and "
        "'upper'."
    )


def _from_columns(columns: dict[str, NDArray[Any]]) -> Array:
    """Return the bounds of the times, (n_rows, 2), from named columns: events and times, or lower and upper bounds.

    Raise ValueError for other names, or an event that is not 0 or 1.
    """
    names = sorted(columns)
    if names == ["lower", "upper"]:
        return np.column_stack([_as_floats(columns["lower"]), _as_floats(columns["upper"])])
    flags = [name for name, values in columns.items() if values.dtype == bool]
    event = "event" if names == ["event", "time"] else flags[0] if len(flags) == 1 else None
    if len(names) != 2 or event is None:
        raise ValueError(
            "y must have a boolean column of events and a column of times, or columns 'event' and 'time', or "
            f"'lower' and 'upper'; got the columns {list(columns)}."
        )
    happened, time = _as_floats(columns[event]), _as_floats(columns[next(name for name in names if name != event)])
    wrong = np.flatnonzero(~np.isin(happened, (0, 1)) & ~np.isnan(happened))
    if len(wrong):
        raise ValueError(
            f"y must hold only 0 and 1, or True and False, in its event column {event!r}; got "
            f"{happened[wrong[0]]:g} in row {wrong[0]}."
        )
    return np.column_stack([time, np.where(happened == 0, np.inf, np.where(happened == 1, time, np.nan))])


def _as_floats(values: NDArray[Any]) -> Array:
    """Return the values as float64; raise ValueError for values that are not numbers."""
    if values.dtype.kind in "cUSmM":
        raise ValueError(f"y must hold real numbers; it holds {values.dtype}.")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold real numbers: {error}") from error


def check_no_events(y: Any, sample_weight: Any) -> None:
    """Detect events passed as `sample_weight` with a vector of times: raise for booleans, warn for zeros and ones."""
    if sample_weight is None or y is None or is_frame(y):
        return
    weight, times = unmasked(sample_weight, "sample_weight"), unmasked(y, "y")
    if times.dtype.names or times.shape[1:] not in ((), (1,)):
        return
    if weight.dtype == bool:
        raise ValueError(f"sample_weight must hold numbers if y holds only times; got booleans. {_EVENTS}")
    if weight.shape == times.shape[:1] and np.isin(weight, (0, 1)).all() and np.ptp(weight) == 1:
        warn(f"sample_weight holds only 0 and 1; rows of weight 0 are left out. If these are events: {_EVENTS}")


def checked_times(bounds: Array, rows: Array) -> Array:
    """Return the bounds with negative lower bounds raised to 0; raise ValueError if they are NaN or not ordered.

    `rows` holds row indices for the error.
    """
    low, high = np.maximum(bounds[:, 0], 0.0), bounds[:, 1]
    if np.isnan(bounds).any() or np.isinf(low).any():
        raise ValueError("Input y contains " + ("NaN." if np.isnan(bounds).any() else "infinity."))
    wrong = np.flatnonzero((high < low) | (high < 0))
    if len(wrong):
        row_bounds, row = bounds[wrong[0]].tolist(), int(rows[wrong[0]])
        raise ValueError(
            f"y must hold non-negative times, with lower bounds at most the upper bounds; got {row_bounds} in row "
            f"{row}. {_EVENTS}"
        )
    return np.column_stack([low, high])


# Maximum absolute log hazard, so that products do not overflow.
_LARGEST_LOG = 700.0


@with_parameters
class GradientBoostingSurvival(BoostedTrees):
    """Gradient boosting for survival analysis: Cox proportional hazards or accelerated failure time.

    For both losses, `fit` accepts y as a table or a structured array with the columns "event" (True if the event was
    observed, False if the time is right-censored) and "time". Interval-censored times have the columns "lower" and
    "upper", or are an array of two unnamed columns. A vector holds times that were all observed.

    `eval_metric` accepts "loss", "concordance" (see `score`) and functions of (y, predictions), where y holds the lower
    and upper bounds of the times.

    Parameters
    ----------
    loss : "cox", "aft" or AFTLoss, default="cox"
        Loss to minimise. "cox": the negative partial log-likelihood, with Breslow's method for ties; `predict` returns
        the log hazard ratio. "aft": the accelerated failure time model log(time) = prediction + scale * error, which
        also supports left- and interval-censored rows; `predict` returns the location of the log time.
    {parameters}

    Attributes
    ----------
    {attributes}
    event_times_, cumulative_hazard_ : arrays of shape (n_times,)
        If loss="cox", the event times and Breslow's estimate of the cumulative baseline hazard at each of them.

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

    _capabilities = Capabilities(supports_distributed_fit=True)
    # `y` may name two columns of X: events and times, or the bounds of the times.
    _learns_names_of_targets = True
    _metrics_rule: ClassVar = metrics_rule("'concordance'", lambda name: name == "concordance", CONCORDANCES)

    loss: str | AFTLoss = parameter(one_of("cox", "aft") | record(AFTLoss), default="cox", kw_only=False)
    oob_prediction_: Array = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = tags.target_tags.required = True
        return tags

    # The target --------------------------------------------------

    @staticmethod
    def _strata_of(y: Array) -> NDArray[np.bool_] | None:  # type: ignore[override]
        """Return a mask of the observed times, by which validation splits are stratified; None if all were observed."""
        is_observed = events(y)
        return None if is_observed.all() else is_observed

    def _read_data(self, y: Any, sample_weight: Any) -> TrainingData:
        """Return targets and weights of rows with weight; raise ValueError or warn if the weights may be events."""
        check_no_events(y, sample_weight)
        return super()._read_data(y, sample_weight)

    def _read_target(self, y: Any) -> NDArray[Any]:
        """Return the bounds of the times and each row's index as columns, (n_rows, 3)."""
        self._check_target_given(y)
        bounds = read_times(y)
        return np.column_stack([bounds, np.arange(len(bounds))])

    def _encode_target(self, y: NDArray[Any]) -> Array:
        """Return the checked bounds of the times, (n_rows, 2), from the columns of `_read_target`."""
        return checked_times(y[:, :2], y[:, 2])

    # Fit --------------------------------------------------

    def _get_loss(self) -> Loss:
        """Return the loss: Cox's partial likelihood, or accelerated failure time."""
        options = self._options("loss")
        return Cox() if options is None else AFT(options.distribution, options.scale)

    @property
    def _is_cox(self) -> bool:
        return bool(self._as_fitted().loss == "cox")

    def _own_metric(self, name: str, loss: Loss) -> OwnMetric:
        """Return the function that computes the concordance index of scored rows; `name` and `loss` are ignored."""
        return lambda rows: self._score_of_raw(*gathered(self._comm, [rows.raw.T, rows.y, rows.weight]))

    def _learn_from_rounds(self, rounds: Rounds, n_rounds: int) -> None:
        """Set a Cox model's baseline hazard from the training rows after `n_rounds` rounds; else delete it."""
        self._delete("event_times_", "cumulative_hazard_")
        if self.loss == "cox":
            rows = rounds.rows_after(n_rounds)
            gathered_rows = gathered(self._comm, [rows.y, rows.raw[0], rows.weight])
            self.event_times_, self.cumulative_hazard_ = _breslow(*gathered_rows)

    def __getitem__(self, rounds: slice) -> Any:
        """Return a fitted model with some of the rounds, without a baseline hazard if loss="cox".

        The baseline hazard is estimated for all rounds, so only a slice with all of them keeps it. Call
        ``refit_leaves(X, y, decay_rate=1.0)`` on the slice to estimate its baseline hazard.
        """
        part = super().__getitem__(rounds)
        if self._is_cox and part.n_estimators_ < self._ensemble.n_trees:
            part.event_times_ = part.cumulative_hazard_ = np.zeros(0)
        return part

    def _update_after_refit(self, data: TrainingData, decay: float) -> None:
        """Set a Cox model's baseline hazard to a mean of the old one, with weight `decay`, and one of the new rows."""
        if self._is_cox:
            raw = raw_of_rows(self._ensemble, data.X)[:, 0] + (0.0 if data.offset is None else data.offset[0])
            times, hazard = _breslow(data.y, raw, data.sample_weight)
            both = np.union1d(self.event_times_, times)
            old, new = _step_values(both, self.event_times_, self.cumulative_hazard_), _step_values(both, times, hazard)
            decay = decay if len(self.event_times_) else 0.0  # slices and imported models do not have a baseline
            self.event_times_, self.cumulative_hazard_ = both, decay * old + (1 - decay) * new

    _saved: ClassVar[SavedParts] = (attributes("event_times_", "cumulative_hazard_", when=lambda model: model._is_cox),)

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Array:
        """Return the log hazard ratio ("cox") or the location of the log time ("aft") of each row.

        The location is the expected log time, except for the distribution "extreme", where the expected log time is
        0.577 * `scale` lower.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        init_score : array of shape (n_samples,), optional
            Predictions to add to the model's predictions.
        """
        return self._response("predict", self._raw_from(X, init_score))

    def predict_dist(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Any:
        """Return the predicted distribution of each row's time; requires loss="aft".

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        init_score : array of shape (n_samples,), optional
            Predictions to add to the model's predictions.

        Returns
        -------
        frozen distribution of scipy.stats
            Lognormal, log-logistic or Weibull, by the `distribution` of AFTLoss, with a scale parameter for each row.
            The shape is given by the `scale` of AFTLoss and is the same for all rows.

        Raises
        ------
        ValueError
            If the loss is "cox", which has no distribution of times.

        Examples
        --------
        >>> import numpy as np
        >>> from fastens import AFTLoss, GradientBoostingSurvival
        >>> rng = np.random.default_rng(0)
        >>> X = rng.random((200, 2))
        >>> times = np.exp(2 * X[:, 0]) * rng.weibull(2.0, 200)
        >>> model = GradientBoostingSurvival(AFTLoss("extreme", scale=0.5), n_estimators=20).fit(X, times)
        >>> model.predict_dist(X[:3]).median().shape
        (3,)
        """
        self._check_fitted()
        if self._is_cox:
            raise ValueError("loss must be 'aft' for distributions of times; got 'cox'. Use predict_survival_function.")
        return self._loss.frozen(self._raw_from(X, init_score))

    def predict_quantiles(
        self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95), *, init_score: ArrayLike | None = None
    ) -> Array:
        """Return quantiles of the predicted distribution of each row's time; requires loss="aft".

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        quantiles : array of numbers between 0 and 1, default=(0.05, 0.5, 0.95)
            Quantile levels.
        init_score : array of shape (n_samples,), optional
            Predictions to add to the model's predictions.

        Returns
        -------
        array of shape (n_samples, n_quantiles)

        Raises
        ------
        ValueError
            If the loss is "cox", or a level is not between 0 and 1.
        """
        return quantiles_of(self.predict_dist(X, init_score=init_score), quantiles)

    def sample(
        self, X: ArrayLike, n_draws: int = 1, *, random_state: RandomState = None, init_score: ArrayLike | None = None
    ) -> Array:
        """Draw random times from the predicted distribution of each row; requires loss="aft".

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        n_draws : int, default=1
            Number of draws for each row.
        random_state : int, RandomState or None, default=None
            Seed of the draws.
        init_score : array of shape (n_samples,), optional
            Predictions to add to the model's predictions.

        Returns
        -------
        array of shape (n_samples, n_draws)

        Raises
        ------
        ValueError
            If the loss is "cox", or `n_draws` is not a positive integer.
        """
        return draws_of(self.predict_dist(X, init_score=init_score), n_draws, random_state)

    def predict_survival_function(
        self, X: ArrayLike, times: ArrayLike, *, init_score: ArrayLike | None = None
    ) -> Array:
        """Return the probability of surviving beyond each of the times.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        times : array of shape (n_times,)
            Non-negative times.
        init_score : array of shape (n_samples,), optional
            Predictions to add to the model's predictions.

        Returns
        -------
        array of shape (n_samples, n_times)
            Survival probabilities. With loss="cox" they are exp(-H(time) * hazard ratio), where H is Breslow's estimate
            of the cumulative baseline hazard, a step function that is constant after the last event.
        """
        at = np.atleast_1d(unmasked(times, "times"))
        if at.ndim != 1 or at.dtype.kind not in "biuf" or not (at >= 0).all():
            raise ValueError(f"times must hold non-negative numbers; got {times!r}.")
        at = at.astype(np.float64)
        raw = with_offset(self.predict, X, init_score)
        if isinstance(self._loss, AFT):
            return self._loss.predict_survival(raw, at)
        if not len(self.event_times_):
            raise ValueError(
                "predict_survival_function needs the baseline hazard from fit, which this model does not "
                "have: it is a slice of another model, or was imported from another library. Call "
                "refit_leaves(X, y, decay_rate=1.0), which estimates the baseline hazard and keeps the leaves."
            )
        hazard = _step_values(at, self.event_times_, self.cumulative_hazard_)
        with np.errstate(over="ignore"):
            return exp(-exp(np.minimum(raw, _LARGEST_LOG))[:, None] * hazard)

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, init_score: ArrayLike | None = None
    ) -> float:
        """Return Harrell's concordance index.

        This is the fraction of comparable pairs, in which one time is known to be later than the other, that the
        predictions rank correctly. Tied predictions count as one half.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        y : array or table
            Times, as in `fit`.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. The weight of a pair is the product of the weights of its rows.
        init_score : array of shape (n_samples,), optional
            As in `predict`.
        """
        return self._score_of(y, predicted_to_score(self, X, init_score, sample_weight), sample_weight)

    def _score_of(self, y: Any, predicted: Array, sample_weight: Any) -> float:
        """Return the concordance index of predictions, without rows of weight 0."""
        check_no_events(y, sample_weight)
        y = self._read_target(y)
        check_same_rows(len(predicted), len(y))
        y, predicted, weight = rows_to_score(y, predicted, sample_weight)
        return self._score_of_raw(predicted[:, None], self._encode_target(y), weight)

    def _score_of_raw(self, raw: Array, y: Array, weight: Array | None) -> float:
        """Return the concordance index of raw predictions, (n_rows, 1)."""
        return concordance(y, -raw[:, 0] if self._is_cox else raw[:, 0], weight)


def _breslow(y: Array, raw: Array, weight: Array | None) -> tuple[Array, Array]:
    """Return sorted event times, and Breslow's cumulative baseline hazard at each; `raw` holds log hazard ratios."""
    # Hazards are relative to the highest risk and bounded, so that they do not overflow.
    scale = exp(np.clip(-raw.max(), -_LARGEST_LOG, _LARGEST_LOG))
    with np.errstate(over="ignore"):
        hazard = np.minimum(cumulative_hazard(y, hazard_ratios(raw), weight) * scale, exp(_LARGEST_LOG))
    is_observed = events(y)
    times, first = np.unique(y[is_observed, 0], return_index=True)
    return times, hazard[is_observed][first]


def _step_values(at: Array, times: Array, values: Array) -> Array:
    """Return values at the points `at` of the step function that is 0 before `times` and has `values` from them on."""
    return np.concatenate([[0.0], values])[np.searchsorted(times, at, side="right")]
