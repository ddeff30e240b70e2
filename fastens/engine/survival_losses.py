"""Losses of times that may be known only within bounds: Cox's partial likelihood, accelerated failure times.

The target has two columns, the bounds of the time: equal where it was observed, an upper one of infinity where the row
was lost sight of before (censored on the right).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_ndtr

from fastens.engine.kernels.survival import hazard_sums, ordered_pairs, risk_sums
from fastens.engine.losses import Loss, weighted_mean
from fastens.engine.numeric_losses import NumericLoss, exp

Array = NDArray[np.float64]

# Standardised distances beyond it would make single rows outweigh all others together.
MOST_DISTANCE = 30.0
NARROW = 1e-5  # between standardised bounds: closer ones leave too few digits of their difference
MAX_STEPS = 200  # of the search for a starting value
MAX_STEP = 10.0  # of a leaf: e**10 times the hazard, or the time


def events(y: Array) -> NDArray[np.bool_]:
    """Whose time was observed."""
    return y[:, 0] == y[:, 1]


# Cox --------------------------------------------------


class Cox(Loss):
    """Minus the partial log likelihood per row, raw being the logarithm of the hazard ratio (Cox 1972).

    Times that are equal are treated as in Breslow (1974). In place of the second derivative, p (1 - p) summed over the
    events that a row was at risk for, stands p summed, which bounds it whatever other rows move along.
    """

    name = "cox"
    by_rows = False

    def __init__(self) -> None:
        self.n_outputs = 1
        self._weight: Array | None = None

    def check_target(self, y: Array) -> None:
        """Events and rows censored on the right, at least one event."""
        known = events(y)
        if not (known | np.isinf(y[:, 1])).all():
            raise ValueError("y must hold events and rows censored on the right, no intervals, for loss='cox'.")
        if not known.any():
            raise ValueError("y must hold at least one event for loss='cox'; all rows are censored.")

    def magnitude(self, y: Array) -> float:
        """Raw predictions are logarithms."""
        return 1.0

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """0: only differences count."""
        return np.zeros(1)

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Remember the weights: each row's gradient depends on all of them."""
        self._weight = sample_weight

    def gradients(
        self,
        y: Array,
        raw: Array,
        gradients: NDArray[np.float32],
        hessians: NDArray[np.float32] | None,
        n_threads: int = 1,
    ) -> None:
        """Write the derivatives by the raw predictions, divided by the weights."""
        assert hessians is not None
        risk = _risk(raw[0])
        expected = risk * cumulative_hazard(y, risk, self._weight)
        gradients[0], hessians[0] = expected - events(y), expected

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Minus the partial log likelihood, divided by the weight of all rows."""
        order, time, weight = _ordered(y, sample_weight)
        at_risk = np.empty(len(y))
        risk_sums(order, time, weight, _risk(raw[0]), at_risk)
        of_rows = np.where(events(y), np.log(at_risk) - (raw[0] - raw[0].max()), 0.0)
        return weighted_mean(of_rows, sample_weight)

    def damped(self, steps: Array) -> Array:
        """Steps of at most `MAX_STEP`."""
        return np.clip(steps, -MAX_STEP, MAX_STEP)


def _risk(raw: Array) -> Array:
    """Hazard ratios to the largest of them."""
    return exp(raw - raw.max())


def _ordered(y: Array, weight: Array | None) -> tuple[NDArray[np.int64], Array, Array]:
    """The rows by descending time, their times and their weights."""
    time = np.ascontiguousarray(y[:, 0])
    order = np.argsort(-time, kind="stable").astype(np.int64)
    return order, time, np.ones(len(y)) if weight is None else weight


def cumulative_hazard(y: Array, risk: Array, weight: Array | None) -> Array:
    """Breslow's estimate at each row's time, for a row of risk 1.

    Parameters
    ----------
    y : float64 array of shape (n_rows, 2)
        Bounds of the times.
    risk : float64 array of shape (n_rows,)
        Hazard ratios.
    weight : float64 array of shape (n_rows,) or None
        Positive weights.
    """
    order, time, weight = _ordered(y, weight)
    at_risk, out = np.empty(len(y)), np.empty(len(y))
    risk_sums(order, time, weight, risk, at_risk)
    hazard_sums(order, time, weight, events(y) / at_risk, out)
    return out


# Accelerated failure times --------------------------------------------------


class Distribution:
    """A distribution of standardised errors, by logarithms so that tails keep their digits."""

    def log_density(self, z: Array) -> Array:
        """Logarithm of the density."""
        raise NotImplementedError

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """First and second derivative of the log density."""
        raise NotImplementedError

    def log_below(self, z: Array) -> Array:
        """Logarithm of the probability of at most z."""
        raise NotImplementedError

    def log_above(self, z: Array) -> Array:
        """Logarithm of the probability of more than z."""
        raise NotImplementedError


class Normal(Distribution):
    """The normal distribution."""

    def log_density(self, z: Array) -> Array:
        """As the class says."""
        return -(z**2) / 2 - math.log(2 * math.pi) / 2

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """As the class says."""
        return -z, np.full_like(z, -1.0)

    def log_below(self, z: Array) -> Array:
        """As the class says."""
        return log_ndtr(z)

    def log_above(self, z: Array) -> Array:
        """As the class says."""
        return log_ndtr(-z)


class Logistic(Distribution):
    """The logistic distribution."""

    def log_density(self, z: Array) -> Array:
        """As the class says."""
        return log_expit(z) + log_expit(-z)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """As the class says."""
        return 1 - 2 * expit(z), -2 * expit(z) * expit(-z)

    def log_below(self, z: Array) -> Array:
        """As the class says."""
        return log_expit(z)

    def log_above(self, z: Array) -> Array:
        """As the class says."""
        return log_expit(-z)


class Extreme(Distribution):
    """The extreme value distribution of minima, that of the logarithm of Weibull times."""

    def log_density(self, z: Array) -> Array:
        """As the class says."""
        return z - np.exp(z)

    def slopes(self, z: Array) -> tuple[Array, Array]:
        """As the class says."""
        return 1 - np.exp(z), -np.exp(z)

    def log_below(self, z: Array) -> Array:
        """As the class says."""
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(-np.exp(z)))

    def log_above(self, z: Array) -> Array:
        """As the class says."""
        return -np.exp(z)


DISTRIBUTIONS: dict[str, Distribution] = {"normal": Normal(), "logistic": Logistic(), "extreme": Extreme()}


@dataclass(frozen=True)
class _Derivatives:
    loss: Array
    first: Array
    second: Array


class AFT(NumericLoss):
    """Minus the log likelihood of log(time) = raw + scale * error, whatever is known of the time.

    An observed time counts with its density, bounds with the probability between them (Barnwal, Cho & Hocking 2020).
    """

    name = "aft"

    def __init__(self, distribution: str, scale: float) -> None:
        super().__init__()
        self._distribution, self._scale = DISTRIBUTIONS[distribution], scale

    def check_target(self, y: Array) -> None:
        """Positive times, some of which have bounds."""
        known = y[events(y), 0]
        if known.size and known.min() <= 0:
            raise ValueError(f"y must hold positive times for loss='aft'; the smallest is {known.min()}.")
        if np.isinf(y[:, 1]).all() or (y[:, 0] <= 0).all():
            raise ValueError("y must hold at least one event or one bound from each side for loss='aft'.")

    def magnitude(self, y: Array) -> float:
        """Raw predictions are logarithms."""
        return 1.0

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The constant of least loss, by Newton's method: the loss is convex."""
        with np.errstate(divide="ignore"):
            logs = np.log(y)
        nearest = np.where(np.isfinite(logs[:, 0]), logs[:, 0], np.where(np.isfinite(logs[:, 1]), logs[:, 1], 0.0))
        raw = weighted_mean(nearest, sample_weight)
        for _ in range(MAX_STEPS):
            first, second = self.derivatives(y, np.full(len(y), raw))
            step = weighted_mean(first, sample_weight) / max(weighted_mean(second, sample_weight), 1e-12)
            raw -= min(max(step, -self._scale), self._scale)
            if abs(step) <= 1e-10 * self._scale:
                break
        return np.array([raw])

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """By the raw predictions."""
        found = self._of_rows(y, raw)
        return found.first, np.maximum(found.second, 1e-16)

    def row_losses(self, y: Array, raw: Array) -> Array:
        """As the class says."""
        return self._of_rows(y, raw).loss

    def damped(self, steps: Array) -> Array:
        """Steps of at most `MAX_STEP`."""
        return np.clip(steps, -MAX_STEP, MAX_STEP)

    def predict_survival(self, raw: Array, times: Array) -> Array:
        """The probability of more than each of the times, shape (n_rows, n_times)."""
        with np.errstate(divide="ignore"):
            return np.exp(self._distribution.log_above((np.log(times) - raw[:, None]) / self._scale))

    def _of_rows(self, y: Array, raw: Array) -> _Derivatives:
        with np.errstate(divide="ignore"):
            low, high = ((np.log(bound) - raw) / self._scale for bound in y.T)
        exact, between = self._exact(low), self._between(low, high)
        known = events(y)
        loss = np.where(known, exact.loss, between.loss)
        loss[known] += np.log(self._scale * y[known, 0])
        first = np.where(known, exact.first, between.first) / self._scale
        return _Derivatives(loss, first, np.where(known, exact.second, between.second) / self._scale**2)

    def _exact(self, z: Array) -> _Derivatives:
        """By -z, of minus the log density."""
        z = np.clip(z, -MOST_DISTANCE, MOST_DISTANCE)
        slope, curvature = self._distribution.slopes(z)
        return _Derivatives(-self._distribution.log_density(z), slope, -curvature)

    def _between(self, low: Array, high: Array) -> _Derivatives:
        """By -z, of minus the logarithm of the probability between two bounds."""
        open_low, open_high = low == -np.inf, high == np.inf
        with np.errstate(invalid="ignore"):
            width, middle = high - low, self._exact((low + high) / 2)
        low, high = (np.clip(z, -MOST_DISTANCE, MOST_DISTANCE) for z in (low, high))
        mass = self._log_mass(low, high, open_low, open_high)
        at_low, at_high = (
            np.where(is_open, 0.0, np.exp(self._distribution.log_density(z) - mass))
            for z, is_open in ((low, open_low), (high, open_high))
        )
        first = at_high - at_low
        bend = at_high * self._distribution.slopes(high)[0] - at_low * self._distribution.slopes(low)[0]
        # Bounds with hardly a difference left are as good as a point between them.
        point = (high - low < NARROW) & ~open_low & ~open_high
        loss = np.where(point, middle.loss - np.log(np.where(point & (width > 0), width, 1.0)), -mass)
        second = np.where(point, middle.second, first**2 - bend)
        return _Derivatives(loss, np.where(point, middle.first, first), second)

    def _log_mass(self, low: Array, high: Array, open_low: NDArray[np.bool_], open_high: NDArray[np.bool_]) -> Array:
        """Logarithm of the probability between bounds, from the side where it has more digits."""
        below, above = self._distribution.log_below, self._distribution.log_above
        from_below = _log_difference(below(high), below(low))
        from_above = _log_difference(above(low), above(high))
        mass = np.where(low > 0, from_above, from_below)
        mass = np.where(open_low, below(high), mass)
        mass = np.where(open_high, above(low), mass)
        return np.where(open_low & open_high, 0.0, mass)


def _log_difference(larger: Array, smaller: Array) -> Array:
    """log(exp(larger) - exp(smaller)); where they are equal, as if there were one last digit between them."""
    with np.errstate(invalid="ignore"):
        ratio = np.nan_to_num(smaller - larger, nan=0.0)
    return larger + np.log(-np.expm1(np.minimum(ratio, -1e-15)))


# Concordance --------------------------------------------------


def concordance(y: Array, later: Array, weight: Array | None = None) -> float:
    """Harrell's share of the pairs known to be in an order that the prediction has in it, ties counting one half.

    Parameters
    ----------
    y : float64 array of shape (n_rows, 2)
        Bounds of the times; a row lost sight of at a time is later than an event at that time.
    later : float64 array of shape (n_rows,)
        Predictions, larger for later.
    weight : float64 array of shape (n_rows,), optional
        Weights of the rows; those of a pair are multiplied.
    """
    weight = np.ones(len(y)) if weight is None else weight
    values, rank = np.unique(later, return_inverse=True)
    rank = rank.astype(np.int64) + 1
    low, high, is_open = y[:, 0], y[:, 1], ~events(y)
    last_first = np.lexsort((~is_open, -low))
    before = np.flatnonzero(np.isfinite(high))
    before = before[np.argsort(-high[before], kind="stable")]
    n_later = _n_at_least(low[is_open], high[before], "left") + _n_at_least(low[~is_open], high[before], "right")
    out, tree = np.zeros(3), np.zeros(len(values) + 1)
    ordered_pairs(rank[last_first], weight[last_first], n_later, rank[before], weight[before], tree, out)
    wrong, tied, right = out.tolist()
    total = wrong + tied + right
    if total == 0:
        raise ValueError("y must hold two rows whose order is known; there are none, so there is no concordance.")
    return (right + tied / 2) / total


def _n_at_least(values: Array, limits: Array, side: str) -> NDArray[np.int64]:
    """How many values are not below each limit ("left"), or above it ("right")."""
    return (len(values) - np.searchsorted(np.sort(values), limits, side=side)).astype(np.int64)  # type: ignore[call-overload]
