"""Losses given by formulas over whole arrays: those of the library that need no loop of their own, and users' own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastens.engine.losses.gradients as kernels
from fastens.engine.comm import Comm, gathered
from fastens.engine.elementary import log, log1p, sum_in_order
from fastens.engine.losses.losses import (
    BinaryLogLoss,
    Floats,
    LogLinkLoss,
    Loss,
    MulticlassLogLoss,
    exact_sum,
    log_odds,
    weighted_mean,
    weighted_quantile,
)

Array = NDArray[np.float64]
BLOCK = 1 << 14  # rows whose formulas are evaluated at a time, so that what they make stays in the cache
MAX_STEPS = 200  # of the search for a starting value
_SMALL = 0.02  # differences whose log(cosh) has a series of few terms


def exp(x: Array) -> Array:
    """exp(x), the same on every machine; x is cut at 707."""
    out = np.empty(x.size)
    kernels.means_of_log(np.ascontiguousarray(x), out)
    return out


class NumericLoss(Loss):
    """A loss with one raw prediction, whose derivatives are formulas over arrays."""

    def __init__(self, parameter: float = 0.0) -> None:
        self.n_outputs = 1
        self._parameter = parameter

    def derivatives(self, y: Array, raw: Array) -> tuple[Any, Any]:
        """First and second derivative of each row's loss."""
        raise NotImplementedError

    def row_losses(self, y: Array, raw: Array) -> Array:
        """The loss of each row."""
        raise NotImplementedError

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the first and second derivatives by `raw`, block by block."""
        for start in range(0, len(y), BLOCK):
            rows = slice(start, start + BLOCK)
            gradients[0, rows], second = self.derivatives(y[rows], raw[0, rows])
            if hessians is not None:
                hessians[0, rows] = second

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Weighted mean of the rows' losses."""
        return weighted_mean(self.row_losses(y, raw[0]), sample_weight, self.comm)

    def _reweighted_mean(self, y: Array, weight: Array | None, factor: Callable[[Array], Array], start: float) -> Array:
        """The fixed point of c = mean of y weighted by factor(c - y)."""
        for _ in range(MAX_STEPS):
            factors = factor(start - y)
            away = y - start
            step = weighted_mean(factors * away, weight, self.comm) / weighted_mean(factors, weight, self.comm)
            before, start = start, start + step
            # Targets may be far from 0, beside what they differ by.
            if abs(step) <= 1e-12 * min(abs(start), self.magnitude(away)) or start == before:
                break
        return np.array([start])


class Tweedie(NumericLoss, LogLinkLoss):
    """y exp((1-p) raw) / (p-1) + exp((2-p) raw) / (2-p): a variance of mean**p, 1 < p < 2 (Jorgensen 1987)."""

    name = "tweedie"

    def __init__(self, power: float = 1.5) -> None:
        super().__init__(power)
        self.variance_power = power

    def check_target(self, y: Array) -> None:
        """None negative."""
        least, most = self._range(y)
        if least < 0:
            raise ValueError(f"y must be at least 0 for loss='tweedie'; it goes from {least} to {most}.")

    def check_start(self, y: Array) -> None:
        """Not all 0."""
        if self._range(y)[1] == 0:
            raise ValueError("y must be somewhere positive for loss='tweedie'; all its values are 0.")

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """As the class says."""
        p = self._parameter
        falling, rising = y * exp((1 - p) * raw), exp((2 - p) * raw)
        return rising - falling, (p - 1) * falling + (2 - p) * rising

    def row_losses(self, y: Array, raw: Array) -> Array:
        """As the class says."""
        p = self._parameter
        return y * exp((1 - p) * raw) / (p - 1) + exp((2 - p) * raw) / (2 - p)

    def damped(self, steps: Array) -> Array:
        """A leaf's loss is least at log(A / B), A and B the sums of both terms, which follow from its Newton step."""
        p = self._parameter
        tiny = np.finfo(np.float64).tiny
        up, down = 1 + (2 - p) * steps, 1 - (p - 1) * steps
        return log(np.maximum(up, tiny)) - log(np.maximum(down, tiny))


class LogCosh(NumericLoss):
    """log(cosh(raw - y)): squares near 0, absolute errors far away.

    Its slope is tanh(raw - y), nearly that of Huber's loss with a limit of 1. Its second derivative vanishes far away,
    as that of absolute errors does: so trees are fitted to slopes alone, and a leaf is the median of its residuals and
    the mean of the rest cut at 1 (Friedman 2001, section 4.4). Targets in a small unit, whose residuals are large
    numbers, are learned as by absolute errors.

    Parameters
    ----------
    by_newton : bool, default=False
        Have hessians in place of leaf values, as linear leaves need: those of the parabola which touches the loss from
        above, tanh(d) / d, by which every step goes down (as in iteratively reweighted least squares).
    """

    name = "log_cosh"

    def __init__(self, by_newton: bool = False) -> None:
        super().__init__()
        self.constant_hessian = self.renews_leaves = not by_newton
        self._leaf_limit = 1.0

    @property
    def measures_noise(self) -> bool:
        """The variance of slopes, which are differences where these are small, falls to that of the noise."""
        return True

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The constant of least loss."""
        median = weighted_quantile(y, 0.5, sample_weight, self.comm)
        return self._reweighted_mean(y, sample_weight, self._curvature, median)

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Where no residual of a leaf is cut, let means have the digits of small residuals."""
        self._leaf_limit = min(1.0, 2 * self.magnitude(y - raw[0]))

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the slopes, and where they are needed the curvatures."""
        super().gradients(y, raw, gradients, None if self.constant_hessian else hessians, n_threads)

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Slope, and the curvature of the touching parabola."""
        return _tanh(raw - y), self._curvature(raw - y)

    def row_losses(self, y: Array, raw: Array) -> Array:
        """As the class says."""
        distance = np.abs(raw - y)
        large = distance + log1p(exp(-2 * distance)) - math.log(2)
        # Where these cancel, the series, to a part in 10**12.
        square = np.minimum(distance, _SMALL) ** 2
        series = square * (0.5 - square * (1 / 12 - square * (1 / 45 - square * (17 / 2520))))
        return np.where(distance < _SMALL, series, large)

    def _curvature(self, difference: Array) -> Array:
        small = np.abs(difference) < 1e-4
        parabola = 1 - np.where(small, difference, 0) ** 2 / 3
        return np.where(small, parabola, _tanh(difference) / np.where(small, 1, difference))


class Expectile(NumericLoss):
    """Squares that weigh `level` where y is above the prediction, 1 - level below (Newey & Powell 1987)."""

    name = "expectile"
    noise_l2 = 20.0
    _unit: float | None = None

    @property
    def noise_unit(self) -> float:  # type: ignore[override]
        """The root of the noise of the best constant: the unit of the target is of no account."""
        return self._unit or 1.0

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Measure the noise of the best constant before the first round."""
        if self._unit is None:
            away = y - self.start(y, sample_weight)
            largest, side = self.magnitude(away), self._side(-away)
            squares = (side * (away / (largest or 1.0))) ** 2
            noise = weighted_mean(squares, sample_weight, self.comm) / weighted_mean(side, sample_weight, self.comm)
            self._unit = largest * math.sqrt(noise)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The expectile."""
        return self._reweighted_mean(y, sample_weight, self._side, weighted_mean(y, sample_weight, self.comm))

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Of half the squares."""
        side = self._side(raw - y)
        return side * (raw - y), side

    def row_losses(self, y: Array, raw: Array) -> Array:
        """Half the squares."""
        return self._side(raw - y) * (raw - y) ** 2 / 2

    def _side(self, difference: Array) -> Array:
        return np.where(difference < 0, self._parameter, 1 - self._parameter)


class Exponential(NumericLoss):
    """exp(-raw) for class 1 and exp(raw) for class 0: AdaBoost's loss; raw is half the log odds (Friedman 2000)."""

    name = "exponential"
    has_log_odds = True
    noise_l2, noise_power = 10.0, 1.0  # hessians grow with the loss, and so must the L2

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Half the log odds."""
        return np.array([log_odds(y, sample_weight, self.comm) / 2])

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """As the class says."""
        sign = 2 * y - 1
        value = exp(-sign * raw)
        return -sign * value, value

    def row_losses(self, y: Array, raw: Array) -> Array:
        """As the class says."""
        return exp((1 - 2 * y) * raw)

    def predict(self, raw: Array) -> Array:
        """Probabilities of both classes."""
        return BinaryLogLoss().predict(2 * raw)

    def damped(self, steps: Array) -> Array:
        """A leaf's loss is least at half the log odds of its weights, which is artanh of its Newton step."""
        limit = math.tanh(5.0)  # odds of e**10 in one round, as with the log loss
        steps = np.clip(steps, -limit, limit)
        return 0.5 * (log1p(steps) - log1p(-steps))


class CrossEntropy(BinaryLogLoss):
    """The log loss of a share: y is a probability itself, between 0 and 1."""

    name = "cross_entropy"
    bounds = (0.0, 1.0)

    def check_target(self, y: Array) -> None:
        """Shares."""
        least, most = self._range(y)
        if least < 0 or most > 1:
            raise ValueError(f"y must be from 0 to 1 for loss={self.name!r}; it goes from {least} to {most}.")

    def check_start(self, y: Array) -> None:
        """Not all of them 0 or all 1."""
        least, most = self._range(y)
        if least == most in (0, 1):
            raise ValueError(f"y must not be all 0 or all 1 for loss={self.name!r}; all its values are {least}.")

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The log odds of the mean."""
        mean = weighted_mean(y, sample_weight, self.comm)
        if mean in (0, 1):  # but for rows of little weight, rounded to none, or shares next to 1
            weight = np.ones(len(y)) if sample_weight is None else sample_weight
            return np.array([log(exact_sum(y * weight, self.comm) / exact_sum((1 - y) * weight, self.comm))])
        return np.array([log(mean / (1 - mean))])

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Those of the log loss."""
        return BinaryLogLoss().exact_derivatives(y, raw)

    def predict(self, raw: Array) -> Array:
        """The expected share."""
        return super().predict(raw)[:, 1]


class SeveralLevels(Loss):
    """Several quantiles or expectiles, a raw prediction for each; predictions are sorted, so that they never cross.

    Sorting makes them no worse, and keeps them monotone where each is (Chernozhukov, Fernandez-Val & Galichon 2010,
    "Quantile and probability curves without crossing").

    Parameters
    ----------
    parts : sequence of Loss
        The losses of the levels, ascending.
    """

    has_levels = True

    def __init__(self, parts: Sequence[Loss]) -> None:
        self._parts = list(parts)
        self.n_outputs = len(self._parts)
        self.name = parts[0].name
        self.constant_hessian, self.renews_leaves = parts[0].constant_hessian, parts[0].renews_leaves
        self.noise_l2, self.noise_power = parts[0].noise_l2, parts[0].noise_power

    def join(self, comm: Comm) -> None:
        """Reduce over the rows of all ranks from here on."""
        super().join(comm)
        for part in self._parts:
            part.join(comm)

    def of_output(self, output: int) -> Loss:
        """The loss of one level."""
        return self._parts[output]

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The quantiles or expectiles."""
        return np.concatenate([part.start(y, sample_weight) for part in self._parts])

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Renew what the levels learn from their residuals."""
        for k, part in enumerate(self._parts):
            part.start_round(y, raw[k : k + 1], sample_weight)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Those of each level."""
        for k, part in enumerate(self._parts):
            own = slice(k, k + 1)
            part.gradients(y, raw[own], gradients[own], None if hessians is None else hessians[own], n_threads)

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """The mean over the levels."""
        losses = (part.loss(y, raw[k : k + 1], sample_weight, n_threads) for k, part in enumerate(self._parts))
        return sum_in_order(losses) / self.n_outputs

    def row_losses(self, y: Array, raw: Array) -> Array:
        """The loss of each row, where there is one level."""
        return self._parts[0].row_losses(y, raw)

    def predict(self, raw: Array) -> Array:
        """The levels of each row, ascending, shape (n_rows, n_levels)."""
        return np.sort(raw, axis=1)


class CustomLoss(NumericLoss):
    """A user's loss: a function of (y, raw) that returns gradients and hessians, or an object with such a method.

    It is given all rows at once, or on several ranks those of one, and must not make a row's derivatives depend on the
    others; `raw` has the shape (n_rows,), or (n_rows, n_outputs) where there are several.

    Parameters
    ----------
    source : callable, or object with `derivatives(y, raw)`
        May also have `start(y, sample_weight)`, the first raw prediction (default: 0); `loss(y, raw)`, the loss of each
        row (early stopping needs it); `predict(raw)`, the inverse link.
    n_outputs : int, default=1
        Raw predictions per row.
    """

    name = "custom"

    def __init__(self, source: Any, n_outputs: int = 1) -> None:
        super().__init__()
        self.n_outputs = n_outputs
        self._source = source
        self._derivatives: Callable[[Array, Array], Any] = getattr(source, "derivatives", source)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """What the source says of the rows of all ranks, or 0."""
        if not hasattr(self._source, "start"):
            return np.zeros(self.n_outputs)
        y, sample_weight = gathered(self.comm, [y, sample_weight])
        start = self._source.start(_unchangeable(y), None if sample_weight is None else _unchangeable(sample_weight))
        found = _numbers(start, "loss.start")
        if found.shape != ((self.n_outputs,) if self.n_outputs > 1 else ()) or not np.isfinite(found).all():
            wanted = "a finite number" if self.n_outputs == 1 else f"{self.n_outputs} finite numbers"
            raise ValueError(f"loss.start must return {wanted}; got {start!r}.")
        return found.reshape(-1)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the first and second derivatives by `raw`, found for all rows at once."""
        assert hessians is not None
        found = self.derivatives(y, self._as_given(raw.T))
        gradients[:], hessians[:] = (part.T.reshape(raw.shape) for part in found)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """The same as the source gives them."""
        first, second = self.derivatives(y, self._as_given(raw.T))
        return first.T.reshape(raw.shape), second.T.reshape(raw.shape)

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Weighted mean of the rows' losses."""
        return weighted_mean(self.row_losses(y, self._as_given(raw.T)), sample_weight, self.comm)

    def _as_given(self, raw: Array) -> Array:
        """Raw predictions of shape (n_rows, n_outputs) as the source gets them."""
        return np.ascontiguousarray(raw) if self.n_outputs > 1 else raw[:, 0]

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """What the source says, checked: arrays of finite numbers, hessians not negative. None are asked of no rows."""
        if len(y) == 0:
            return raw, raw
        found = self._derivatives(_unchangeable(y), _unchangeable(raw))
        if not isinstance(found, tuple) or len(found) != 2:
            raise ValueError(f"loss must return a tuple of gradients and hessians; got {type(found).__name__}.")
        gradients, hessians = (_numbers(part, "loss") for part in found)
        for name, part in (("gradients", gradients), ("hessians", hessians)):
            if part.shape != raw.shape:
                raise ValueError(f"loss must return {name} of shape {raw.shape}; got {part.shape}.")
            if not np.isfinite(part).all():
                raise ValueError(f"loss must return finite {name}; got {part[~np.isfinite(part)][0]}.")
        if hessians.min() < 0:
            raise ValueError(f"loss must return hessians of at least 0; got {hessians.min()}.")
        return gradients, hessians

    def check_measured(self) -> None:
        """The source says how large it is."""
        if not hasattr(self._source, "loss"):
            raise ValueError(
                f"loss must have a method `loss`, for early stopping and to explain it; {self._source!r} has none."
            )

    def row_losses(self, y: Array, raw: Array) -> Array:
        """What the source says; not a number where it says nothing."""
        if not hasattr(self._source, "loss") or len(y) == 0:
            return np.full(y.shape, np.nan)
        return _of_shape(y.shape, self._source.loss(_unchangeable(y), _unchangeable(raw)), "loss.loss")

    def predict(self, raw: Array) -> Array:
        """What the source says, or the raw prediction."""
        given = self._as_given(raw)
        if not hasattr(self._source, "predict"):
            return given
        return _of_shape(given.shape, self._source.predict(given.copy()), "loss.predict")


class OneClass(Loss):
    """The loss of a target of one class, whose probability is 1: it is 0, and its trees are constants of 0."""

    n_outputs = 1

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """0: there is no other class."""
        return np.zeros(1)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write gradients of 0."""
        gradients[:] = 0
        if hessians is not None:
            hessians[:] = 1

    def _losses_of(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        return np.zeros(len(y))

    def predict(self, raw: Array) -> Array:
        """The probability of the class, shape (n_rows, 1)."""
        return np.ones((len(raw), 1))


class CustomClassLoss(CustomLoss):
    """A user's loss for classes, y being their numbers; raw predictions are log odds unless it says otherwise.

    Two classes have one raw prediction, three or more have one each.

    Parameters
    ----------
    source : callable, or object with `derivatives(y, raw)`
        As for `CustomLoss`; `predict` returns the probability of the second of two classes, or those of all.
    n_classes : int, default=2
        How many classes there are.
    """

    def __init__(self, source: Any, n_classes: int = 2) -> None:
        super().__init__(source, 1 if n_classes == 2 else n_classes)

    def predict(self, raw: Array) -> Array:
        """Probabilities of the classes."""
        if not hasattr(self._source, "predict"):
            known = BinaryLogLoss() if self.n_outputs == 1 else MulticlassLogLoss(self.n_outputs)
            return known.predict(raw)
        found = super().predict(raw)
        return found if self.n_outputs > 1 else np.column_stack([1 - found, found])


def _of_shape(shape: tuple[int, ...], found: Any, name: str) -> Array:
    """What a user's function has returned, which must be numbers of this shape."""
    numbers = _numbers(found, name)
    if numbers.shape != shape:
        raise ValueError(f"{name} must return an array of shape {shape}; got {numbers.shape}.")
    return np.ascontiguousarray(numbers)


def _numbers(found: Any, name: str) -> Array:
    """What a user's function has returned as real numbers."""
    try:
        array = np.asarray(found)
        if array.dtype.kind == "c":
            raise TypeError(f"got {array.dtype}")  # NumPy would leave out the imaginary parts
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must return numbers: {error}") from error


def _unchangeable(array: Array) -> Array:
    """The same numbers for a user's function, which must not write over them."""
    view = array.view()
    view.flags.writeable = False
    return view


def _tanh(x: Array) -> Array:
    value = exp(-2 * np.abs(x))
    large = np.copysign((1 - value) / (1 + value), x)
    small = np.clip(x, -1e-3, 1e-3)
    return np.where(x == small, x - x * (small * small / 3), large)
