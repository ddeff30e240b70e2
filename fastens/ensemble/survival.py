"""Survival: gradient boosting for times that may be censored."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import column_or_1d

from fastens.base import check_weights
from fastens.engine.losses import Loss
from fastens.engine.survival_losses import AFT, DISTRIBUTIONS, Cox, concordance, cumulative_hazard, events
from fastens.engine.trees import add_tree_to_raw
from fastens.ensemble.base_boosting import BaseGradientBoosting
from fastens.ensemble.boosting_parameters import RULES
from fastens.ensemble.rounds import BoostingRun
from fastens.parameters import one_of, real
from fastens.tables import is_frame, table_from_frame

Array = NDArray[np.float64]


class GradientBoostingSurvival(BaseGradientBoosting):
    """Gradient boosting for times that may be censored: Cox's proportional hazards, or accelerated failure times.

    Parameters
    ----------
    loss : {"cox", "aft"}, default="cox"
        "cox": the partial likelihood, times that are equal as in Breslow; `predict` gives the logarithm of the hazard
        ratio. "aft": log(time) = prediction + scale * error; `predict` gives the prediction. It takes rows censored
        on the left or known within an interval, too.
    distribution : {"normal", "logistic", "extreme"}, default="normal"
        With loss="aft": that of the error. "extreme" makes the times Weibull.
    scale : float, default=1.0
        With loss="aft": the factor of the error.
    {parameters}

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    event_times_, cumulative_hazard_ : arrays of shape (n_times,)
        With loss="cox": the times of events, and Breslow's estimate of the baseline hazard up to each.
    n_estimators_, n_iter_ : int
        Rounds kept.
    train_score_, validation_score_ : arrays
        Loss after each round: on the training rows, and on the validation rows, if any.
    feature_importances_, feature_split_counts_ : arrays of shape (n_features_in_,)
        Share of the total gain, and number of splits.

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

    _parameter_rules: ClassVar = {
        **RULES,
        "loss": one_of("cox", "aft"),
        "distribution": one_of(*DISTRIBUTIONS),
        "scale": real(0, open_low=True),
    }

    def __init__(
        self,
        loss: str = "cox",
        *,
        distribution: str = "normal",
        scale: float = 1.0,
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
        category_smoothing: float = 5.0,
        category_l2: float = 3.0,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.target_tags.required = True
        return tags

    # The target --------------------------------------------------

    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Bounds of the times, (n_rows, 2)."""
        bounds = read_times(y)
        if len(bounds) != n_rows:
            raise ValueError(f"X and y must have the same number of rows; got {n_rows} and {len(bounds)}.")
        return bounds

    def _learn_target(self, y: NDArray[Any]) -> Array:
        return y

    def _encode_target(self, y: NDArray[Any]) -> Array:
        return y

    def _learn_statistics(self, data: Any, seed: int) -> Any:
        # Categories are told apart by how much sooner or later than all rows theirs are: the first step of boosting.
        loss, slopes = self._get_loss(), np.empty((2, 1, len(data.y)), dtype=np.float32)
        raw = np.repeat(loss.start(data.y, data.sample_weight)[:, None], len(data.y), axis=1)
        loss.start_round(data.y, raw, data.sample_weight)
        loss.gradients(data.y, raw, slopes[0], slopes[1])
        encoded = super()._learn_statistics(data._replace(y=-slopes[0, 0].astype(np.float64)), seed)
        return encoded._replace(y=data.y)

    # Fit --------------------------------------------------

    def _get_loss(self) -> Loss:
        return Cox() if self.loss == "cox" else AFT(self.distribution, self.scale)

    def _finish(self, run: BoostingRun) -> None:
        super()._finish(run)
        for name in ("event_times_", "cumulative_hazard_"):
            self.__dict__.pop(name, None)
        if self.loss == "cox":
            self._learn_baseline(run)

    def _learn_baseline(self, run: BoostingRun) -> None:
        """Breslow's estimate by the trees that are kept."""
        y, trees = run.train.y, self._ensemble
        raw = np.full(len(y), trees.baseline[0])
        for number in range(trees.n_trees):
            add_tree_to_raw(run.matrix.columns, trees.tree(number), raw, run.rules.n_threads)
        # Relative to the highest risk, so that none overflows.
        hazard = cumulative_hazard(y, np.exp(raw - raw.max()), run.train.weight) * np.exp(-raw.max())
        known = events(y)
        self.event_times_, first = np.unique(y[known, 0], return_index=True)
        self.cumulative_hazard_ = hazard[known][first]

    def _fitted_names(self) -> tuple[str, ...]:
        baseline = ("event_times_", "cumulative_hazard_") if self.loss == "cox" else ()
        return (*super()._fitted_names(), *baseline)

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike) -> Array:
        """Return the logarithm of the hazard ratio ("cox") or the expected log time ("aft"), shape (n_samples,)."""
        return self._raw(X)[:, 0]

    def predict_survival_function(self, X: ArrayLike, times: ArrayLike) -> Array:
        """Return the probability that nothing has happened by each of the times.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        times : array of shape (n_times,)
            Times, none negative.

        Returns
        -------
        array of shape (n_samples, n_times)
            With loss="cox", exp(-H(time) * hazard ratio), H being Breslow's estimate of the baseline's cumulative
            hazard, a step function that is constant after the last event.
        """
        at = np.atleast_1d(np.asarray(times, dtype=np.float64))
        if at.ndim != 1 or not (at >= 0).all():
            raise ValueError(f"times must hold numbers that are not negative; got {times!r}.")
        raw = self.predict(X)
        if isinstance(self._loss, AFT):
            return self._loss.predict_survival(raw, at)
        upto = np.concatenate([[0.0], self.cumulative_hazard_])
        hazard = upto[np.searchsorted(self.event_times_, at, side="right")]
        return np.exp(-np.exp(raw)[:, None] * hazard)

    def score(self, X: ArrayLike, y: Any, sample_weight: ArrayLike | None = None) -> float:
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
        """
        predicted = self.predict(X)
        bounds = self._read_target(y, len(predicted))
        weight = check_weights(sample_weight, len(predicted))
        return concordance(bounds, -predicted if self.loss == "cox" else predicted, weight)


# Times --------------------------------------------------


def read_times(y: Any) -> Array:
    """Bounds of times, from any way to give them, (n_rows, 2); equal where the time was observed.

    Parameters
    ----------
    y : structured array, table or array
        A structured array or a table with a boolean column for events, and one of times; or with columns "event" and
        "time", or "lower" and "upper"; an array of two columns, the bounds; or a vector of times that were all
        observed.
    """
    if is_frame(y):
        table = table_from_frame(y)
        return _from_columns({str(name): np.asarray(y[name]) for name in table.names or []})
    array = np.asarray(y)
    if array.dtype.names:
        return _from_columns({name: array[name] for name in array.dtype.names})
    if array.ndim == 2 and array.shape[1] == 2:
        return _checked(_floats(array))
    time = _floats(column_or_1d(array, warn=True))
    return _checked(np.column_stack([time, time]))


def _from_columns(columns: dict[str, NDArray[Any]]) -> Array:
    names = sorted(columns)
    if names == ["lower", "upper"]:
        return _checked(np.column_stack([_floats(columns["lower"]), _floats(columns["upper"])]))
    flags = [name for name, values in columns.items() if values.dtype == bool]
    event = "event" if names == ["event", "time"] else flags[0] if len(flags) == 1 else None
    if len(names) != 2 or event is None:
        raise ValueError(
            "y must have a boolean column for events and one of times, or columns 'event' and 'time', or 'lower' and "
            f"'upper'; got the columns {list(columns)}."
        )
    happened, time = _floats(columns[event]), _floats(columns[next(name for name in names if name != event)])
    if not np.isin(happened, (0, 1)).all():
        raise ValueError(f"y must hold 0 or 1, or True or False, in its column {event!r} of events.")
    return _checked(np.column_stack([time, np.where(happened == 1, time, np.inf)]))


def _floats(values: NDArray[Any]) -> Array:
    if values.dtype.kind in "cUSmM":
        raise ValueError(f"y must hold real numbers; it holds {values.dtype}.")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y must hold real numbers: {error}") from error


def _checked(bounds: Array) -> Array:
    """Bounds that make sense; a lower one below 0 is 0."""
    low, high = np.maximum(bounds[:, 0], 0.0), bounds[:, 1]
    if np.isnan(bounds).any() or np.isinf(low).any():
        raise ValueError("Input y contains " + ("NaN." if np.isnan(bounds).any() else "infinity."))
    wrong = np.flatnonzero((high < low) | (high < 0))
    if len(wrong):
        found = bounds[wrong[0]].tolist()
        raise ValueError(f"y must hold times that are not negative, lower bounds first; got {found} in row {wrong[0]}.")
    return np.column_stack([low, high])
