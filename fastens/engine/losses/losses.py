"""Losses: link, initial prediction, gradients, hessians and leaf values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

import fastens.engine.losses.gradients as kernels
from fastens.engine.comm import LOCAL, Comm, floats_of_bits, is_any, max_floats, ordered_bits, sum_ints, sum_over
from fastens.engine.elementary import log, log1p
from fastens.engine.threads import threads_for
from fastens.engine.whole import are_whole

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

_N_BYTES = 8
_SIGN = np.uint64(1 << 63)
# As in gradients.pyx: limbs of sums, the unit of what is clipped, and the least limit.
_LIMB = 31
_MASK = np.int64((1 << _LIMB) - 1)
_FIXED_ONE = 2.0**61
_SMALLEST_LIMIT = 1e-280


def smallest_reaching(comm: Comm, values: Array, weights: Whole, group: NDArray[np.intp], needed: Array) -> Array:
    """Return for each group its smallest value with at least the needed weight at or below it, over all ranks.

    Parameters
    ----------
    comm : Comm
        The ranks.
    values : float64 array of shape (n_rows,)
        Those of this rank's rows.
    weights : int64 array of shape (n_rows,)
        Not negative.
    group : intp array of shape (n_rows,)
        The group of each row.
    needed : float64 array of shape (n_groups,)
        More than 0, and no more than the group has.
    """
    keys = ordered_bits(values).view(np.uint64) ^ _SIGN
    found = np.zeros(len(needed), dtype=np.uint64)
    below = np.zeros(len(needed), dtype=np.int64)
    for place in range(_N_BYTES):
        byte = (keys >> np.uint64(8 * (_N_BYTES - 1 - place))).astype(np.intp) & 0xFF
        of_bytes = np.zeros((len(needed), 256), dtype=np.int64)
        np.add.at(of_bytes, (group, byte), weights)
        upto = below[:, None] + np.cumsum(sum_over(comm, of_bytes), axis=1)
        chosen = (upto >= needed[:, None]).argmax(axis=1)
        before = np.take_along_axis(upto, np.maximum(chosen - 1, 0)[:, None], axis=1)[:, 0]
        below = np.where(chosen > 0, before, below)
        found = (found << np.uint64(8)) | chosen.astype(np.uint64)
        kept = byte == chosen[group]
        keys, weights, group = keys[kept], weights[kept], group[kept]
    return floats_of_bits((found ^ _SIGN).view(np.int64))


def leaf_quantiles(
    comm: Comm, residuals: Array, weights: Whole, leaf_starts: Whole, level: float, limit: float
) -> Array:
    """Return what the kernel `leaf_values` finds for the rows of all ranks; leaves are the same on each."""
    n_leaves = len(leaf_starts) - 1
    leaf = np.repeat(np.arange(n_leaves), np.diff(leaf_starts))
    totals = np.zeros((2, n_leaves), dtype=np.int64)
    np.add.at(totals[0], leaf, weights)
    totals[1] = np.diff(leaf_starts)
    comm.sum(totals)
    is_light, n_rows = totals[0] == 0, totals[1]
    # Where all weights are 0, the least value.
    equal = np.where(is_light[leaf], 1, weights)
    needed = np.where(is_light, 1.0, level * totals[0])
    values = smallest_reaching(comm, residuals, equal, leaf, needed)
    if limit > _SMALLEST_LIMIT:
        values = values + _clipped_means(comm, residuals - values[leaf], weights, leaf, (totals[0], limit))
    return np.where(n_rows > 0, values, 0.0)


def _clipped_means(
    comm: Comm, differences: Array, weights: Whole, leaf: NDArray[np.intp], of_leaves: tuple[Whole, float]
) -> Array:
    """Weighted means of differences clipped to a limit."""
    totals, limit = of_leaves
    whole = np.rint(np.clip(differences, -limit, limit) * (_FIXED_ONE / limit)).astype(np.int64)
    high, low = weights * (whole >> _LIMB), weights * (whole & _MASK)
    limbs = np.zeros((3, len(totals)), dtype=np.int64)
    np.add.at(limbs[2], leaf, high >> _LIMB)
    np.add.at(limbs[1], leaf, (high & _MASK) + (low >> _LIMB))
    np.add.at(limbs[0], leaf, low & _MASK)
    comm.sum(limbs)
    for k in range(2):
        limbs[k + 1] += limbs[k] >> _LIMB
        limbs[k] &= _MASK
    rest = ((limbs[1] << _LIMB) + limbs[0]).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Array = np.ldexp(limbs[2] + np.ldexp(rest, -2 * _LIMB), 1) * limit / totals
    return means


Floats = NDArray[np.float32]

# Raw predictions worth a thread: some 10 us of work, several times the cost of a parallel region. Measured: 0.4 ns each
# for losses of the residual, 2 to 3 ns for those that need exp.
_GRAIN_RESIDUAL = 1 << 15
_GRAIN_EXP = 1 << 12
# Two to this power is still a number.
_MOST_SHIFT = 1000


def _weight_scale(weights: Array | None, comm: Comm = LOCAL) -> float:
    """A power of two that makes weights whole numbers below 2**31 once rounded; 1 where they are so already."""
    if weights is None:
        return 1.0
    (largest,) = max_floats(comm, float(weights.max(initial=0.0)))
    if largest < 2.0**31 and not is_any(comm, not are_whole(weights)):
        return 1.0
    return math.ldexp(1.0, min(30 - math.frexp(largest)[1], _MOST_SHIFT))


def weighted_mean(values: Array, weights: Array | None = None, comm: Comm = LOCAL) -> float:
    """Mean of `values`, summed exactly after rounding to 2**-61 of the largest, weights to 2**-30 of the largest."""
    largest = _largest(values, comm)
    if not math.isfinite(largest):
        return largest
    exponent = 61 - math.frexp(largest)[1]
    if exponent > _MOST_SHIFT:
        return math.ldexp(weighted_mean(np.ldexp(values, _MOST_SHIFT // 2), weights, comm), -(_MOST_SHIFT // 2))
    scale, weight_scale = math.ldexp(1.0, exponent), _weight_scale(weights, comm)
    sums = kernels.weighted_sum(values, weights, scale, weight_scale) if values.size else (0, 0)
    total, weight = sum_ints(comm, *sums)
    return math.ldexp(total / weight, -exponent)


def exact_sum(values: Array, comm: Comm = LOCAL) -> float:
    """Sum of `values` between 2**-900 and 2**900, exact after rounding to 2**-61 of the largest."""
    exponent = 61 - math.frexp(_largest(values, comm))[1]
    sums = kernels.weighted_sum(values, None, math.ldexp(1.0, exponent), 1.0) if values.size else (0, 0)
    return math.ldexp(sum_ints(comm, *sums)[0], -exponent)


def _largest(values: Array, comm: Comm) -> float:
    return max_floats(comm, kernels.largest_magnitude(values) if values.size else 0.0)[0]


def weighted_quantile(values: Array, level: float, weights: Array | None = None, comm: Comm = LOCAL) -> float:
    """The smallest value that has at least the share `level` of the weight at or below it."""
    starts = np.array([0, values.size], dtype=np.int64)
    whole = whole_weights(weights, values.size, comm)
    if comm.size > 1:
        return float(leaf_quantiles(comm, values, whole, starts, level, 0.0)[0])
    out = np.empty(1)
    kernels.leaf_values(values.copy(), whole, starts, level, 0.0, out, 1)
    return float(out[0])


def whole_weights(weights: Array | None, n_rows: int, comm: Comm) -> NDArray[np.int64]:
    """Weights as whole numbers below 2**31: rounded to 2**-30 of the largest, unless they are so already.

    None above 0 is rounded to 0: a leaf may have no other rows.
    """
    if weights is None:
        return np.ones(n_rows, dtype=np.int64)
    return np.maximum(np.rint(weights * _weight_scale(weights, comm)).astype(np.int64), weights > 0)


class Loss:
    """What boosting needs to know about a loss.

    Throughout, `y` is float64 (the class index in classification) and `raw`, the raw prediction, float64 of shape
    (n_outputs, n_rows), C order. A Loss belongs to one fit.

    Attributes
    ----------
    name : str
        The value of the estimator's parameter `loss`.
    n_outputs : int
        Raw predictions per row, and trees per round.
    constant_hessian : bool
        The hessian is 1 in every row.
    renews_leaves : bool
        Leaf values come from `leaf_values`, not from sums of gradients.
    by_rows : bool
        It is a mean over rows, so that some of them tell it for all.
    has_levels : bool
        Raw predictions are several levels of one target.
    has_log_odds : bool
        Raw predictions are log odds, which have a scale of their own, by a log loss.
    noise_l2 : float
        The default L2 is so many times a power of the noise, where raw predictions have a scale of their own; 0: it is
        a number.
    noise_power : float
        That power.
    noise_unit : float
        The root of the noise is in this unit: 1, or its own of the best constant where raw predictions have no scale.
    tail : float
        The share of the rows on the side of a raw prediction that has fewer: a level, or what it lacks of 1.
    bounds : pair of numbers
        Between which targets lie.
    comm : Comm
        The ranks.
    """

    name = ""
    constant_hessian = False
    renews_leaves = False
    by_rows = True
    has_levels = False
    has_log_odds = False
    noise_l2, noise_power = 0.0, 0.5
    noise_unit = 1.0
    tail = 0.5
    bounds = (-math.inf, math.inf)
    comm: Comm = LOCAL
    _kernel = ""
    _grain = _GRAIN_EXP
    # Where leaves are renewed: the quantile of the residuals, and the limit at which the mean of the rest is cut.
    _leaf_level = 0.5
    _leaf_limit = 0.0

    def __init__(self, n_outputs: int = 1, parameter: float = 0.0) -> None:
        self.n_outputs = n_outputs
        self._parameter = parameter
        self._code = kernels.LOSS_CODES[self._kernel or self.name]

    @property
    def measures_noise(self) -> bool:
        """Whether the variance of gradients, over the mean hessian, falls to that of the noise."""
        return not self.renews_leaves

    def join(self, comm: Comm) -> None:
        """Reduce over the rows of all ranks from here on."""
        self.comm = comm

    def _range(self, y: Array) -> tuple[float, float]:
        """The smallest and the largest target."""
        low, high = max_floats(self.comm, -float(y.min(initial=math.inf)), float(y.max(initial=-math.inf)))
        return -low, high

    def check_target(self, y: Array) -> None:
        """Raise ValueError where the loss is not defined for `y`."""

    def check_start(self, y: Array) -> None:
        """Raise ValueError where no constant has the least loss."""

    def check_measured(self) -> None:
        """Raise ValueError where the loss of a row is not known."""

    def magnitude(self, y: Array) -> float:
        """What raw predictions are hardly much larger than."""
        return max_floats(self.comm, float(np.abs(y).max(initial=0.0)))[0]

    def of_output(self, output: int) -> Loss:
        """The loss that the leaves of one output's trees are renewed by."""
        return self

    def residuals(self, y: Array, raw: Array, output: int) -> Array:
        """What leaves are renewed from: the target less one raw prediction."""
        return y - raw[output]

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The constant raw prediction of least loss, shape (n_outputs,)."""
        raise NotImplementedError

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Renew what the loss learns from the residuals; call it before the gradients of each round."""

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the first and second derivatives by `raw`, unweighted, both (n_outputs, n_rows).

        Where `constant_hessian`, `hessians` is left as it is and may be None.
        """
        n_threads = threads_for(raw.size, n_threads, self._grain)
        kernels.gradients(self._code, self._parameter, y, raw, gradients, hessians, n_threads)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """The same in double precision, where the loss has a formula for that."""
        found = np.ones((2, *raw.shape), dtype=np.float32)
        self.gradients(y, raw, found[0], found[1])
        return found[0].astype(np.float64), found[1].astype(np.float64)

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Weighted mean of the rows' losses."""
        return weighted_mean(self._losses_of(y, raw, n_threads), sample_weight, self.comm)

    def row_losses(self, y: Array, raw: Array) -> Array:
        """The loss of each row, where there is one raw prediction; both (n_rows,)."""
        return self._losses_of(y, raw[None])

    def _losses_of(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        out = np.empty(y.size)
        kernels.row_losses(self._code, self._parameter, y, raw, out, threads_for(raw.size, n_threads, self._grain))
        return out

    def predict(self, raw: Array) -> Array:
        """From raw predictions of shape (n_rows, n_outputs) to means, quantiles or probabilities."""
        return raw[:, 0]

    def deviation(self, mean: Array) -> Array:
        """What the standard deviation of targets with such means is proportional to."""
        return np.ones_like(mean)

    def damped(self, steps: Array) -> Array:
        """Newton steps of leaves, cut to the minimum of the loss where they lead far beyond it."""
        return steps

    def leaf_values(
        self,
        residuals: Array,
        leaf_starts: NDArray[np.int64],
        sample_weight: Array | None = None,
        n_threads: int = 1,
    ) -> Array:
        """Value of each leaf from the residuals `y - raw` of its rows, sorted by leaf; reorders `residuals`.

        The rows of leaf `i` are those from `leaf_starts[i]` to `leaf_starts[i + 1]`.
        """
        out = np.empty(leaf_starts.size - 1)
        weights = whole_weights(sample_weight, residuals.size, self.comm)
        if self.comm.size > 1:
            return leaf_quantiles(self.comm, residuals, weights, leaf_starts, self._leaf_level, self._leaf_limit)
        n_threads = threads_for(residuals.size, n_threads, _GRAIN_EXP)
        kernels.leaf_values(residuals, weights, leaf_starts, self._leaf_level, self._leaf_limit, out, n_threads)
        return out


class SquaredError(Loss):
    """(y - raw)**2 / 2: the mean."""

    name = "squared_error"
    constant_hessian = True
    _grain = _GRAIN_RESIDUAL

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The mean."""
        return np.array([weighted_mean(y, sample_weight, self.comm)])

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Prediction less target, and 1."""
        return raw - y, np.ones_like(raw)


class Quantile(Loss):
    """Pinball loss: `level` of the rows fall at or below the prediction."""

    name = "quantile"
    constant_hessian = True
    _grain = _GRAIN_RESIDUAL
    renews_leaves = True

    def __init__(self, level: float) -> None:
        super().__init__(parameter=level)
        self._leaf_level, self.tail = level, min(level, 1 - level)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The quantile."""
        return np.array([weighted_quantile(y, self._leaf_level, sample_weight, self.comm)])


class AbsoluteError(Quantile):
    """abs(y - raw): the median."""

    name = "absolute_error"

    def __init__(self) -> None:
        super().__init__(0.5)


class Huber(Loss):
    """Squares up to the limit d, d (abs(y - raw) - d/2) beyond it.

    d is renewed each round: the quantile `alpha` of the absolute residuals (Friedman 2001, section 4.4).
    """

    name = "huber"
    constant_hessian = True
    _grain = _GRAIN_RESIDUAL
    renews_leaves = True

    def __init__(self, alpha: float = 0.9) -> None:
        super().__init__()
        self._alpha = alpha

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The median."""
        start = np.array([weighted_quantile(y, 0.5, sample_weight, self.comm)])
        self.start_round(y, np.broadcast_to(start[:, None], (1, y.size)), sample_weight)
        return start

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Renew the limit; where most residuals are 0, the largest one."""
        distances = np.abs(y - raw[0])
        limit = weighted_quantile(distances, self._alpha, sample_weight, self.comm)
        self._parameter = limit or max_floats(self.comm, float(distances.max(initial=0.0)))[0]
        self._leaf_limit = self._parameter


class LogLinkLoss(Loss):
    """A loss of exp(raw), the mean; the variance is proportional to a power of it."""

    bounds = (0.0, math.inf)
    variance_power = 1.0
    noise_l2, noise_power = 30.0, 1.0  # so that the unit of the target is of no account

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The logarithm of the mean."""
        mean = weighted_mean(y, sample_weight, self.comm)
        if mean == 0:  # rows of little weight, rounded to none, may be all that are not 0
            assert sample_weight is not None
            mean = exact_sum(y * sample_weight, self.comm) / exact_sum(sample_weight, self.comm)
        return np.array([log(mean)])

    def predict(self, raw: Array) -> Array:
        """The mean, exp(raw)."""
        out = np.empty(raw.shape[0])
        kernels.means_of_log(np.ascontiguousarray(raw[:, 0]), out)
        return out

    def deviation(self, mean: Array) -> Array:
        """Of the distribution with that variance."""
        return np.maximum(mean, np.finfo(float).tiny) ** (self.variance_power / 2)


class Poisson(LogLinkLoss):
    """exp(raw) - y raw."""

    name = "poisson"

    def check_target(self, y: Array) -> None:
        """Counts or rates, none negative."""
        least = self._range(y)[0]
        if least < 0:
            raise ValueError(f"y must not be negative for loss='poisson'; its smallest value is {least}.")

    def check_start(self, y: Array) -> None:
        """Not all 0."""
        if self._range(y)[1] == 0:
            raise ValueError("y must have a positive sum for loss='poisson'; all its values are 0.")

    def damped(self, steps: Array) -> Array:
        """A leaf's loss is least at log(sum of y / sum of exp(raw)), the logarithm of 1 + its Newton step."""
        return np.where(steps > 0, log1p(np.maximum(steps, 0)), steps)


class Gamma(LogLinkLoss):
    """raw + y exp(-raw)."""

    name = "gamma"
    variance_power = 2.0

    def check_target(self, y: Array) -> None:
        """Only positive values."""
        least = self._range(y)[0]
        if least <= 0:
            raise ValueError(f"y must be positive for loss='gamma'; its smallest value is {least}.")

    def damped(self, steps: Array) -> Array:
        """A leaf's loss is least at the logarithm of the mean of y exp(-raw), -log(1 - its Newton step)."""
        return np.where(steps < 0, -log1p(np.maximum(-steps, 0)), steps)


class _LogLoss(Loss):
    # Odds times e**10, with a learning rate of 0.1 times e in one round; ordinary leaves move a few units. Where p is
    # near 0 or 1, p (1 - p) vanishes, and the step for a few surprising rows would be thousands of times too long.
    max_step = 10.0
    has_log_odds = True
    noise_l2 = 3.0

    def damped(self, steps: Array) -> Array:
        """Steps of at most `max_step`."""
        return np.minimum(np.maximum(steps, -self.max_step), self.max_step)

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """P - 1 in the class, p outside; and p (1 - p), for more than two classes times K / (K - 1)."""
        share = np.ascontiguousarray(self.predict(np.ascontiguousarray(raw.T)).T)
        if self.n_outputs == 1:
            return share[1:] - y, share[1:] * share[:1]
        is_own = y == np.arange(self.n_outputs)[:, None]
        return share - is_own, self.n_outputs / (self.n_outputs - 1) * share * (1 - share)


class BinaryLogLoss(_LogLoss):
    """log(1 + exp(raw)) - y raw, raw the log odds of class 1."""

    name = "log_loss"
    _kernel = "binary_log_loss"

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The log odds."""
        return np.array([log_odds(y, sample_weight, self.comm)])

    def predict(self, raw: Array) -> Array:
        """Probabilities of both classes."""
        out = np.empty((raw.size, 2))
        kernels.binary_probabilities(raw.reshape(-1), out)
        return out


class MulticlassLogLoss(_LogLoss):
    """log(sum over k of exp(raw_k)) - raw_y: one raw prediction per class.

    The hessian of each class is K / (K - 1) p (1 - p), which makes up for the classes' moving together (Friedman 2001,
    equation 34).
    """

    name = "log_loss"
    _kernel = "multiclass_log_loss"

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """The logarithms of the classes' shares."""
        shares = _class_weights(y, sample_weight, self.n_outputs, self.comm)
        total = sum(shares)
        return log([share / total for share in shares])

    def predict(self, raw: Array) -> Array:
        """Probabilities of the classes."""
        out = np.empty(raw.shape)
        kernels.class_probabilities(np.ascontiguousarray(raw), out)
        return out


def log_odds(y: Array, weights: Array | None, comm: Comm) -> float:
    """The logarithm of the weight of class 1 over that of class 0."""
    shares = _class_weights(y, weights, 2, comm)
    return float(log(shares[1] / shares[0]))


def _class_weights(y: Array, weights: Array | None, n_classes: int, comm: Comm) -> list[int]:
    out = np.zeros(n_classes, dtype=np.int64)
    kernels.class_weights(y, weights, _weight_scale(weights, comm), out)
    comm.sum(out)
    return np.maximum(out, 1).tolist()  # a class of little weight is rounded to no less than a unit
