"""Losses with array formulas: built-in losses that do not need their own kernels, and user-defined losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastens.engine.losses.gradients as kernels
from fastens.engine.comm import gathered
from fastens.engine.elementary import log, log1p
from fastens.engine.losses.losses import (
    LOGIT,
    NO_LINK,
    SOFTMAX,
    BinaryLogLoss,
    Floats,
    Link,
    LogLinkLoss,
    Loss,
    binary_probabilities,
    exact_sum,
    log_odds,
    weighted_mean,
    weighted_quantile,
)

Array = NDArray[np.float64]
BLOCK = 1 << 14  # number of rows evaluated at a time, so that temporaries stay in the cache
MAX_STEPS = 200  # maximum number of iterations for the starting value
_SMALL = 0.02  # below this difference, log(cosh) is computed from a short series


def exp(x: Array) -> Array:
    """Return exp(x), identical on every machine; x is clipped at 707."""
    out = np.empty(x.size)
    kernels.means_of_log(np.ascontiguousarray(x), out)
    return out


class NumericLoss(Loss):
    """Base class of losses with one raw prediction whose derivatives are array formulas."""

    def __init__(self, parameter: float = 0.0) -> None:
        self._parameter = parameter

    def derivatives(self, y: Array, raw: Array) -> tuple[Any, Any]:
        """Return gradients and hessians of rows, both of shape (n_rows,) like `y` and `raw`."""
        raise NotImplementedError

    def losses(self, y: Array, raw: Any) -> Array:
        """Return the loss of each row; `y`, `raw` and the result have shape (n_rows,)."""
        raise NotImplementedError

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write derivatives to `gradients` and, unless None or constant, to `hessians`, both of shape (1, n_rows)."""
        for start in range(0, len(y), BLOCK):
            rows = slice(start, start + BLOCK)
            gradients[0, rows], second = self.derivatives(y[rows], raw[0, rows])
            if hessians is not None and not self.constant_hessian:
                hessians[0, rows] = second

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return the loss of each row, shape (n_rows,), for raw predictions of shape (1, n_rows)."""
        return self.losses(y, raw[0])

    def _fixed_point(self, y: Array, weight: Array | None, factor: Callable[[Array], Array], start: float) -> Array:
        """Return the c, shape (1,), that is the mean of y with weights weight * factor(c - y), found from `start`."""
        for _ in range(MAX_STEPS):
            factors = factor(start - y)
            away = y - start
            step = weighted_mean(factors * away, weight, self.comm) / weighted_mean(factors, weight, self.comm)
            before, start = start, start + step
            # The tolerance depends on both scales because targets may be far from 0 relative to their spread.
            if abs(step) <= 1e-12 * min(abs(start), self.magnitude(away)) or start == before:
                break
        return np.array([start])


class Tweedie(NumericLoss, LogLinkLoss):
    """Tweedie loss y exp((1-p) raw) / (p-1) + exp((2-p) raw) / (2-p), variance mean**p, 1 < p < 2 (Jorgensen 1987)."""

    name = "tweedie"

    def __init__(self, power: float = 1.5) -> None:
        super().__init__(power)
        self.variance_power = power

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets are nonnegative."""
        low, high = self._range(y)
        if low < 0:
            raise ValueError(f"y must be non-negative for loss='tweedie'; got values from {low} to {high}.")

    def check_start(self, y: Array) -> None:
        """Raise ValueError if all targets are 0."""
        if self._range(y)[1] == 0:
            raise ValueError("y must have at least one positive value for loss='tweedie'; all its values are 0.")

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients and hessians of rows, both of shape (n_rows,)."""
        p = self._parameter
        falling, rising = y * exp((1 - p) * raw), exp((2 - p) * raw)
        return rising - falling, (p - 1) * falling + (2 - p) * rising

    def losses(self, y: Array, raw: Array) -> Array:
        """Return the loss of each row, shape (n_rows,)."""
        p = self._parameter
        return y * exp((1 - p) * raw) / (p - 1) + exp((2 - p) * raw) / (2 - p)

    def damped(self, steps: Array) -> Array:
        """Return the step to the exact minimum of a leaf's loss for each Newton step of a leaf."""
        p = self._parameter
        tiny = np.finfo(np.float64).tiny
        up, down = 1 + (2 - p) * steps, 1 - (p - 1) * steps
        return log(np.maximum(up, tiny)) - log(np.maximum(down, tiny))


class LogCosh(NumericLoss):
    """Log-cosh loss log(cosh(raw - y)): squared error near 0, absolute error far away.

    Its gradient is tanh(raw - y), similar to the Huber loss with a limit of 1. Its second derivative vanishes far from
    0, as for the absolute error. Therefore, trees are fitted to the gradients only, and the value of a leaf is the
    median of its residuals plus the mean of the remainders clipped at 1 (Friedman 2001, section 4.4). If residuals are
    large because of the target's unit, the loss behaves like the absolute error.

    Parameters
    ----------
    by_newton : bool, default=False
        If True, use hessians instead of renewed leaf values, as linear leaves require. The hessians are tanh(d) / d,
        the curvature of the parabola that touches the loss from above, so that every step decreases the loss (as in
        iteratively reweighted least squares).
    """

    name = "log_cosh"

    def __init__(self, by_newton: bool = False) -> None:
        super().__init__()
        self.constant_hessian = self.renews_leaves = not by_newton
        self._leaf_limit = 1.0

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the constant with the lowest loss, shape (1,), found by iteratively reweighted means."""
        median = weighted_quantile(y, 0.5, sample_weight, self.comm)
        return self._fixed_point(y, sample_weight, self._curvature, median)

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Reduce the clipping limit of leaf values if all residuals are small, so that they stay precise."""
        self._leaf_limit = min(1.0, 2 * self.magnitude(y - raw[0]))

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return tanh(d) and tanh(d) / d for d = raw - y, both of shape (n_rows,)."""
        return _tanh(raw - y), self._curvature(raw - y)

    def losses(self, y: Array, raw: Array) -> Array:
        """Return log(cosh(raw - y)) of each row, shape (n_rows,)."""
        distance = np.abs(raw - y)
        large = distance + log1p(exp(-2 * distance)) - math.log(2)
        # These terms cancel at small distances, where the series is accurate to 1 part in 10**12.
        square = np.minimum(distance, _SMALL) ** 2
        series = square * (0.5 - square * (1 / 12 - square * (1 / 45 - square * (17 / 2520))))
        return np.where(distance < _SMALL, series, large)

    def _curvature(self, difference: Array) -> Array:
        """Return tanh(d) / d for differences d, and its limit 1 for d = 0."""
        small = np.abs(difference) < 1e-4
        parabola = 1 - np.where(small, difference, 0) ** 2 / 3
        return np.where(small, parabola, _tanh(difference) / np.where(small, 1, difference))


class Expectile(NumericLoss):
    """Squared error weighted by `level` for targets above the prediction, 1 - level below (Newey & Powell 1987)."""

    name = "expectile"
    noise_l2 = 20.0
    _unit: float | None = None

    @property
    def noise_unit(self) -> float:  # type: ignore[override]
        """Square root of the noise of the best constant, which makes the L2 independent of the target's unit."""
        return self._unit or 1.0

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """In the first round, set the noise unit to sqrt(mean(gradient**2) / mean(hessian)) at the best constant."""
        if self._unit is None:
            away = y - self.start(y, sample_weight)
            largest, side = self.magnitude(away), self._side_weights(-away)
            squares = (side * (away / (largest or 1.0))) ** 2
            noise = weighted_mean(squares, sample_weight, self.comm) / weighted_mean(side, sample_weight, self.comm)
            self._unit = largest * math.sqrt(noise)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the weighted expectile of the targets, shape (1,)."""
        return self._fixed_point(y, sample_weight, self._side_weights, weighted_mean(y, sample_weight, self.comm))

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients w (raw - y) and hessians w, where w is the level if y is above raw, otherwise 1 - level."""
        side = self._side_weights(raw - y)
        return side * (raw - y), side

    def losses(self, y: Array, raw: Array) -> Array:
        """Return w (raw - y)**2 / 2 of each row, where w is the level if y is above raw, otherwise 1 - level."""
        return self._side_weights(raw - y) * (raw - y) ** 2 / 2

    def _side_weights(self, difference: Array) -> Array:
        """Return the weight of each row from raw - y: the level if the difference is negative, otherwise 1 - level."""
        return np.where(difference < 0, self._parameter, 1 - self._parameter)


def _doubled_log_odds_probabilities(raw: Array) -> Array:
    """Return the probabilities of both classes, shape (n_rows, 2), for raw predictions that are half the log odds."""
    return binary_probabilities(2 * raw)


class Exponential(NumericLoss):
    """Exponential loss of AdaBoost, exp(-raw) for class 1 and exp(raw) for class 0; raw is half the log odds."""

    name = "exponential"
    link = Link("sigmoid", _doubled_log_odds_probabilities, 2.0)
    has_log_odds = True
    noise_l2, noise_power = 10.0, 1.0  # hessians grow with the loss, so the L2 penalty must grow as well

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return half the log odds of class 1 by total weights, shape (1,)."""
        return np.array([log_odds(y, sample_weight, self.comm) / 2])

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients and hessians of rows, both of shape (n_rows,)."""
        sign = 2 * y - 1
        value = exp(-sign * raw)
        return -sign * value, value

    def losses(self, y: Array, raw: Array) -> Array:
        """Return exp(-raw) for rows of class 1 and exp(raw) for rows of class 0."""
        return exp((1 - 2 * y) * raw)

    def damped(self, steps: Array) -> Array:
        """Return artanh of each leaf's Newton step, the exact minimum: half the log odds of its weights."""
        limit = math.tanh(5.0)  # the odds change by at most e**10 in one round, as with the log loss
        steps = np.clip(steps, -limit, limit)
        return 0.5 * (log1p(steps) - log1p(-steps))


def _probability_of_class_1(raw: Array) -> Array:
    """Return the sigmoid of the log odds `raw`, shape (n_rows, 1), as an array of shape (n_rows,)."""
    return binary_probabilities(raw)[:, 1]


class CrossEntropy(BinaryLogLoss):
    """Cross entropy of targets that are probabilities between 0 and 1."""

    name = "cross_entropy"
    bounds = (0.0, 1.0)
    link = Link("sigmoid", _probability_of_class_1)
    reads_bytes = False

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets of all ranks are in [0, 1]."""
        low, high = self._range(y)
        if low < 0 or high > 1:
            raise ValueError(f"y must lie between 0 and 1 for loss={self.name!r}; got values from {low} to {high}.")

    def check_start(self, y: Array) -> None:
        """Raise ValueError if all targets are 0 or all are 1."""
        low, high = self._range(y)
        if low == high in (0, 1):
            raise ValueError(f"y must not be all 0 or all 1 for loss={self.name!r}; all its values are {low}.")

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the log odds of the weighted mean target, shape (1,)."""
        mean = weighted_mean(y, sample_weight, self.comm)
        if mean in (0, 1):  # rounding may lose rows with tiny weights, or targets that are very close to 1
            weight = np.ones(len(y)) if sample_weight is None else sample_weight
            return np.array([log(exact_sum(y * weight, self.comm) / exact_sum((1 - y) * weight, self.comm))])
        return np.array([log(mean / (1 - mean))])


class CustomLoss(Loss):
    """User-defined loss: a function of (y, raw) that returns gradients and hessians, or an object with `derivatives`.

    The function receives all rows at once, or the rows of one rank in distributed fits. The derivatives of a row must
    not depend on other rows. `raw` has shape (n_rows,), or (n_rows, n_outputs) if there are several outputs.

    Parameters
    ----------
    source : callable, or object with `derivatives(y, raw)`
        Objects may also define `start(y, sample_weight)`, the initial raw prediction (default: 0); `loss(y, raw)`, the
        loss of each row (required for early stopping); and `predict(raw)`, the inverse link.
    n_outputs : int, default=1
        Number of raw predictions per row.
    """

    name = "custom"
    # True if the source predicts the probability of the second of two classes.
    _is_binary: bool = False

    def __init__(self, source: Any, n_outputs: int = 1) -> None:
        self.n_outputs = n_outputs
        self._source = source
        if hasattr(source, "predict"):
            self.link = NO_LINK
        self._derivatives: Callable[[Array, Array], Any] = getattr(source, "derivatives", source)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the user-defined initial raw predictions for the rows of all ranks, (n_outputs,); zeros if undefined.

        Raises ValueError unless the user returns n_outputs finite numbers.
        """
        if not hasattr(self._source, "start"):
            return np.zeros(self.n_outputs)
        y, sample_weight = gathered(self.comm, [y, sample_weight])
        start = self._source.start(_read_only(y), None if sample_weight is None else _read_only(sample_weight))
        constants = _as_floats(start, "loss.start")
        if constants.shape != ((self.n_outputs,) if self.n_outputs > 1 else ()) or not np.isfinite(constants).all():
            wanted = "a finite number" if self.n_outputs == 1 else f"{self.n_outputs} finite numbers"
            raise ValueError(f"loss.start must return {wanted}; got {start!r}.")
        return constants.reshape(-1)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the user-defined derivatives of all rows, from one call, to `gradients` and `hessians`."""
        assert hessians is not None
        derivatives = self.derivatives(y, self._source_shape(raw.T))
        gradients[:], hessians[:] = (part.T.reshape(raw.shape) for part in derivatives)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return both user-defined derivatives, shape (n_outputs, n_rows), in the precision that the user returns."""
        first, second = self.derivatives(y, self._source_shape(raw.T))
        return first.T.reshape(raw.shape), second.T.reshape(raw.shape)

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return the user-defined loss of each row, (n_rows,), for raw predictions (n_outputs, n_rows)."""
        return self.losses(y, self._source_shape(raw.T))

    def _source_shape(self, raw: Array) -> Array:
        """Return raw predictions (n_rows, n_outputs) in the shape for the user: (n_rows,) if there is one output."""
        return np.ascontiguousarray(raw) if self.n_outputs > 1 else raw[:, 0]

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return the user-defined gradients and hessians, of the shape of `raw`.

        Raises ValueError unless the user returns two finite arrays of this shape, with hessians of at least 0.
        """
        if len(y) == 0:
            return raw, raw
        derivatives = self._derivatives(_read_only(y), _read_only(raw))
        if not isinstance(derivatives, tuple) or len(derivatives) != 2:
            raise ValueError(f"loss must return a tuple of gradients and hessians; got {type(derivatives).__name__}.")
        gradients, hessians = (_as_floats(part, "loss") for part in derivatives)
        for name, part in (("gradients", gradients), ("hessians", hessians)):
            if part.shape != raw.shape:
                raise ValueError(f"loss must return {name} of shape {raw.shape}; got {part.shape}.")
            if not np.isfinite(part).all():
                raise ValueError(f"loss must return finite {name}; got {part[~np.isfinite(part)][0]}.")
        if hessians.min() < 0:
            raise ValueError(f"loss must return hessians of at least 0; got {hessians.min()}.")
        return gradients, hessians

    def check_measured(self, y: Array | None = None) -> None:
        """Raise ValueError if the user-defined loss does not have a method `loss`; `y` is ignored."""
        if not hasattr(self._source, "loss"):
            raise ValueError(
                "loss must have a method loss(y, raw) for early stopping and explanations of the loss; "
                f"{self._source!r} has none."
            )

    def losses(self, y: Array, raw: Array) -> Array:
        """Return the user-defined losses of rows, shape (n_rows,), or NaN if the user's object has no method `loss`."""
        if not hasattr(self._source, "loss") or len(y) == 0:
            return np.full(y.shape, np.nan)
        return _as_floats_of_shape(y.shape, self._source.loss(_read_only(y), _read_only(raw)), "loss.loss")

    def predict(self, raw: Array) -> Array:
        """Return the predictions for raw predictions (n_rows, n_outputs), by the user's `predict` or else the link."""
        if not hasattr(self._source, "predict"):
            return self.link.inverse(raw)
        source_raw = self._source_shape(raw)
        predictions = _as_floats_of_shape(source_raw.shape, self._source.predict(source_raw.copy()), "loss.predict")
        return np.column_stack([1 - predictions, predictions]) if self._is_binary else predictions


def _probabilities_of_one(raw: Array) -> Array:
    """Return a probability of 1 for the single class of each row, shape (n_rows, 1)."""
    return np.ones((len(raw), 1))


class OneClass(Loss):
    """Loss of a target with a single class: the loss is 0, the probability is 1, and all leaf values are 0."""

    link = Link("", _probabilities_of_one)

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return 0, shape (1,), because there is no other class."""
        return np.zeros(1)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write gradients of 0 and hessians of 1."""
        gradients[:] = 0
        if hessians is not None:
            hessians[:] = 1

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return a loss of 0 for each row."""
        return np.zeros(len(y))


class CustomClassLoss(CustomLoss):
    """User-defined loss for classification, where y holds class indices; raw predictions are log odds by default.

    Binary problems have one raw prediction; multiclass problems have one per class.

    Parameters
    ----------
    source : callable, or object with `derivatives(y, raw)`
        See `CustomLoss`. `predict` returns the probability of the second class if there are two classes, otherwise the
        probabilities of all classes.
    n_classes : int, default=2
        Number of classes.
    """

    def __init__(self, source: Any, n_classes: int = 2) -> None:
        super().__init__(source, 1 if n_classes == 2 else n_classes)
        self._is_binary = n_classes == 2
        if not hasattr(source, "predict"):
            self.link = LOGIT if self._is_binary else SOFTMAX


def _as_floats_of_shape(shape: tuple[int, ...], result: Any, name: str) -> Array:
    """Return the user function `name`'s result as a contiguous float64 array; raise ValueError for other shapes."""
    numbers = _as_floats(result, name)
    if numbers.shape != shape:
        raise ValueError(f"{name} must return an array of shape {shape}; got {numbers.shape}.")
    return np.ascontiguousarray(numbers)


def _as_floats(result: Any, name: str) -> Array:
    """Return the result of the user's function `name` as float64; raise ValueError unless it holds real numbers."""
    try:
        array = np.asarray(result)
        if array.dtype.kind == "c":
            raise TypeError(f"got {array.dtype}")  # NumPy would drop the imaginary parts
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must return numbers: {error}") from error


def _read_only(array: Array) -> Array:
    """Return a read-only view of an array for a user's function, which must not modify the values."""
    view = array.view()
    view.flags.writeable = False
    return view


def _tanh(x: Array) -> Array:
    """Return tanh(x), identical on every machine."""
    value = exp(-2 * np.abs(x))
    large = np.copysign((1 - value) / (1 + value), x)
    small = np.clip(x, -1e-3, 1e-3)
    return np.where(x == small, x - x * (small * small / 3), large)
