"""Losses: link, initial prediction, gradients, hessians and leaf values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

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
# As in gradients.pyx: bits per limb of sums, the fixed-point unit of clipped values, and the smallest limit.
_LIMB = 31
_MASK = np.int64((1 << _LIMB) - 1)
_FIXED_ONE = 2.0**61
_SMALLEST_LIMIT = 1e-280


def smallest_reaching(comm: Comm, values: Array, weights: Whole, group: NDArray[np.intp], needed: Array) -> Array:
    """Return for each group the smallest value whose cumulative weight over all ranks reaches the needed weight.

    Parameters
    ----------
    comm : Comm
        Communicator of the ranks.
    values : float64 array of shape (n_rows,)
        Values of this rank's rows.
    weights : int64 array of shape (n_rows,)
        Nonnegative weights.
    group : intp array of shape (n_rows,)
        The group of each row.
    needed : float64 array of shape (n_groups,)
        Cumulative weights to reach, positive and at most the total weight of the group.

    Returns
    -------
    float64 array of shape (n_groups,)
    """
    keys = ordered_bits(values).view(np.uint64) ^ _SIGN
    prefix = np.zeros(len(needed), dtype=np.uint64)
    below = np.zeros(len(needed), dtype=np.int64)
    for byte_index in range(_N_BYTES):
        byte = (keys >> np.uint64(8 * (_N_BYTES - 1 - byte_index))).astype(np.intp) & 0xFF
        of_bytes = np.zeros((len(needed), 256), dtype=np.int64)
        np.add.at(of_bytes, (group, byte), weights)
        upto = below[:, None] + np.cumsum(sum_over(comm, of_bytes), axis=1)
        chosen = (upto >= needed[:, None]).argmax(axis=1)
        before = np.take_along_axis(upto, np.maximum(chosen - 1, 0)[:, None], axis=1)[:, 0]
        below = np.where(chosen > 0, before, below)
        prefix = (prefix << np.uint64(8)) | chosen.astype(np.uint64)
        kept = byte == chosen[group]
        keys, weights, group = keys[kept], weights[kept], group[kept]
    return floats_of_bits((prefix ^ _SIGN).view(np.int64))


def leaf_quantiles(
    comm: Comm, residuals: Array, weights: Whole, leaf_starts: Whole, level: float, limit: float
) -> Array:
    """Return a weighted quantile of the residuals of each leaf over all ranks, which must have the same leaves.

    Rows are sorted by leaf: leaf `i` holds the rows from `leaf_starts[i]` to `leaf_starts[i + 1]`. If `limit` is
    positive, the weighted mean of residual - quantile, each clipped to [-limit, limit], is added. The value of a leaf
    without rows is 0.
    """
    n_leaves = len(leaf_starts) - 1
    leaf = np.repeat(np.arange(n_leaves), np.diff(leaf_starts))
    totals = np.zeros((2, n_leaves), dtype=np.int64)
    np.add.at(totals[0], leaf, weights)
    totals[1] = np.diff(leaf_starts)
    comm.allreduce_sum(totals)
    is_light, n_rows = totals[0] == 0, totals[1]
    # If all weights of a leaf are 0, its smallest value is used.
    equal = np.where(is_light[leaf], 1, weights)
    needed = np.where(is_light, 1.0, level * totals[0])
    values = smallest_reaching(comm, residuals, equal, leaf, needed)
    if limit > _SMALLEST_LIMIT:
        values = values + _clipped_means(comm, residuals - values[leaf], weights, leaf, (totals[0], limit))
    return np.where(n_rows > 0, values, 0.0)


def _clipped_means(
    comm: Comm, differences: Array, weights: Whole, leaf: NDArray[np.intp], totals_and_limit: tuple[Whole, float]
) -> Array:
    """Return the weighted mean of the clipped differences in each leaf, over all ranks, shape (n_leaves,).

    Differences are clipped to [-limit, limit]; `totals_and_limit` holds the total weight of each leaf and the limit.
    """
    totals, limit = totals_and_limit
    whole = np.rint(np.clip(differences, -limit, limit) * (_FIXED_ONE / limit)).astype(np.int64)
    high, low = weights * (whole >> _LIMB), weights * (whole & _MASK)
    limbs = np.zeros((3, len(totals)), dtype=np.int64)
    np.add.at(limbs[2], leaf, high >> _LIMB)
    np.add.at(limbs[1], leaf, (high & _MASK) + (low >> _LIMB))
    np.add.at(limbs[0], leaf, low & _MASK)
    comm.allreduce_sum(limbs)
    for k in range(2):
        limbs[k + 1] += limbs[k] >> _LIMB
        limbs[k] &= _MASK
    rest = ((limbs[1] << _LIMB) + limbs[0]).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Array = np.ldexp(limbs[2] + np.ldexp(rest, -2 * _LIMB), 1) * limit / totals
    return means


Floats = NDArray[np.float32]

# Minimum number of raw predictions for a thread: about 10 us of work, several times the cost of a parallel region.
# Measured: 0.4 ns each for losses of the residual, 2 to 3 ns for losses that need exp.
_GRAIN_RESIDUAL = 1 << 15
_GRAIN_EXP = 1 << 12
# 2.0**1000 is still finite.
_MAX_SHIFT = 1000


def _weight_scale(weights: Array | None, comm: Comm = LOCAL) -> float:
    """Return the power of two by which weights are multiplied before they are rounded to integers below 2**31."""
    if weights is None:
        return 1.0
    (largest,) = max_floats(comm, float(weights.max(initial=0.0)))
    if largest < 2.0**31 and not is_any(comm, not are_whole(weights)):
        return 1.0
    return math.ldexp(1.0, min(30 - math.frexp(largest)[1], _MAX_SHIFT))


def weighted_mean(values: Array, weights: Array | None = None, comm: Comm = LOCAL) -> float:
    """Return the weighted mean of `values`, summed exactly after rounding.

    Values are rounded to 2**-61 of the largest absolute value, and weights to 2**-30 of the largest weight.
    """
    largest = _largest_magnitude(values, comm)
    if not math.isfinite(largest):
        return largest
    exponent = 61 - math.frexp(largest)[1]
    if exponent > _MAX_SHIFT:
        return math.ldexp(weighted_mean(np.ldexp(values, _MAX_SHIFT // 2), weights, comm), -(_MAX_SHIFT // 2))
    scale, weight_scale = math.ldexp(1.0, exponent), _weight_scale(weights, comm)
    sums = kernels.weighted_sum(values, weights, scale, weight_scale) if values.size else (0, 0)
    total, weight = sum_ints(comm, *sums)
    return math.ldexp(total / weight, -exponent)


def exact_sum(values: Array, comm: Comm = LOCAL) -> float:
    """Return the sum of the values over all ranks, each rounded to 2**-61 of the largest absolute value.

    The rounded values are summed exactly. The largest absolute value must be between 2**-900 and 2**900.
    """
    exponent = 61 - math.frexp(_largest_magnitude(values, comm))[1]
    sums = kernels.weighted_sum(values, None, math.ldexp(1.0, exponent), 1.0) if values.size else (0, 0)
    return math.ldexp(sum_ints(comm, *sums)[0], -exponent)


def _largest_magnitude(values: Array, comm: Comm) -> float:
    """Return the largest absolute value over all ranks, or NaN if any value is NaN."""
    return max_floats(comm, kernels.largest_magnitude(values) if values.size else 0.0)[0]


def weighted_quantile(values: Array, level: float, weights: Array | None = None, comm: Comm = LOCAL) -> float:
    """Return the smallest value with at least the share `level` of all ranks' weight at or below it."""
    starts = np.array([0, values.size], dtype=np.int64)
    whole = whole_weights(weights, values.size, comm)
    if comm.size > 1:
        return float(leaf_quantiles(comm, values, whole, starts, level, 0.0)[0])
    out = np.empty(1)
    kernels.leaf_values(values.copy(), whole, starts, level, 0.0, out, 1)
    return float(out[0])


def whole_weights(weights: Array | None, n_rows: int, comm: Comm) -> NDArray[np.int64]:
    """Return integer weights, shape (n_rows,): unchanged if already integers, otherwise scaled to below 2**31.

    Scaling rounds to 2**-30 of the largest weight of all ranks. Positive weights are never rounded to 0, because a leaf
    might not have any other rows. If weights are None, all are 1.
    """
    if weights is None:
        return np.ones(n_rows, dtype=np.int64)
    return np.maximum(np.rint(weights * _weight_scale(weights, comm)).astype(np.int64), weights > 0)


class Link(NamedTuple):
    """A link between raw predictions and predictions.

    Attributes
    ----------
    name : str
        Name of the inverse of the link in exported models; empty if other formats do not have it.
    inverse : callable
        Returns the means, quantiles or probabilities for raw predictions of shape (n_rows, n_outputs).
    factor : float
        Factor that raw predictions are multiplied by before the named function is applied.
    """

    name: str
    inverse: Callable[[Array], Array]
    factor: float = 1.0


def _first_column(raw: Array) -> Array:
    """Return the first column, shape (n_rows,), of raw predictions of shape (n_rows, n_outputs)."""
    return raw[:, 0]


def _exp_of_first_column(raw: Array) -> Array:
    """Return exp(raw), shape (n_rows,), for raw predictions of shape (n_rows, 1)."""
    out = np.empty(raw.shape[0])
    kernels.means_of_log(np.ascontiguousarray(raw[:, 0]), out)
    return out


def binary_probabilities(raw: Array) -> Array:
    """Return the probabilities of both classes, shape (n_rows, 2), for log odds of n_rows elements."""
    out = np.empty((raw.size, 2))
    kernels.binary_probabilities(raw.reshape(-1), out)
    return out


def _class_probabilities(raw: Array) -> Array:
    """Return the softmax of each row of raw predictions, shape (n_rows, n_classes)."""
    out = np.empty(raw.shape)
    kernels.class_probabilities(np.ascontiguousarray(raw), out)
    return out


# For losses that override `predict`.
NO_LINK = Link("", np.asarray)
IDENTITY = Link("identity", _first_column)
LOG = Link("exp", _exp_of_first_column)
LOGIT = Link("sigmoid", binary_probabilities)
SOFTMAX = Link("softmax", _class_probabilities)


class Loss:
    """Base class of losses, which defines everything that boosting needs from a loss.

    Throughout, `y` is float64 (class indices in classification), and `raw` holds the raw predictions as a C-ordered
    float64 array of shape (n_outputs, n_rows). Each fit has its own Loss.

    Attributes
    ----------
    name : str
        Value of the estimator's parameter `loss`.
    n_outputs : int
        Number of raw predictions per row and of trees per round.
    constant_hessian : bool
        True if the hessian of every row is 1.
    renews_leaves : bool
        True if leaf values come from `leaf_values` rather than from sums of gradients.
    by_rows : bool
        True if the loss is a mean over rows, so that it can be estimated from a subset of them.
    has_levels : bool
        True if the raw predictions are several levels of one target.
    has_log_odds : bool
        True if the raw predictions are log odds of a log loss, which have a natural scale.
    noise_l2 : float
        Factor of the default L2, which is this factor times a power of the noise. If 0, the default L2 is a constant.
    noise_power : float
        Exponent of the noise in the default L2.
    noise_unit : float
        Unit of the square root of the noise: 1, or the square root of the noise of the best constant if raw
        predictions do not have a natural scale.
    tail : float
        Smaller share of the rows on either side of a raw prediction: the minimum of the level and 1 - level.
    has_distribution : bool
        True if the raw predictions are all parameters of a distribution, which `frozen` returns.
    bounds : pair of numbers
        Lower and upper bound of the targets.
    link : Link
        Converts raw predictions to predictions. Losses whose predictions depend on the fit override `predict`.
    measures_noise : bool
        True if the variance of the gradients, divided by the mean hessian, decreases to the noise variance.
    max_step : float
        Maximum absolute Newton step of a leaf.
    largest_raw : float or None
        Approximate upper bound of the absolute raw predictions. If None, it is the largest absolute target.
    variance_power : float
        The variance of a row is proportional to this power of its mean.
    has_censored_targets : bool
        True if the targets are bounds of times, which have no mean.
    frozen : method or None
        Returns the distributions of rows, from raw predictions of shape (n_rows, n_outputs), as a frozen distribution
        of scipy.stats. If None, the loss does not predict distributions.
    reads_bytes : bool
        True if the targets are class indices, which the kernels read as bytes, too.
    comm : Comm
        Communicator of the ranks.
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
    has_distribution = False
    bounds = (-math.inf, math.inf)
    link = IDENTITY
    measures_noise = True
    max_step = math.inf
    largest_raw: float | None = None
    variance_power = 0.0
    has_censored_targets = False
    frozen: Any = None
    reads_bytes = False
    comm: Comm = LOCAL
    n_outputs: int = 1
    _grain = _GRAIN_EXP
    # For renewed leaves: the quantile of the residuals, and the clipping limit for the mean of the remainders.
    _leaf_level = 0.5
    _leaf_limit = 0.0

    def join(self, comm: Comm) -> None:
        """Set the communicator of the loss, so that its sums and quantiles run over the rows of all ranks."""
        self.comm = comm

    def _range(self, y: Array) -> tuple[float, float]:
        """Return the smallest and the largest target over all ranks."""
        low, high = max_floats(self.comm, -float(y.min(initial=math.inf)), float(y.max(initial=-math.inf)))
        return -low, high

    def check_target(self, y: Array) -> None:
        """Raise ValueError if the loss is not defined for a target in `y`, for example a negative count."""

    def check_start(self, y: Array) -> None:
        """Raise ValueError if no finite constant minimizes the loss for `y`, for example counts that are all 0."""

    def check_measured(self, y: Array | None = None) -> None:
        """Raise ValueError if row losses are undefined for this loss or, if `y` is passed, for these targets."""

    def magnitude(self, y: Array) -> float:
        """Return an approximate upper bound of the absolute raw predictions for the targets of all ranks."""
        return self.largest_raw or max_floats(self.comm, float(np.abs(y).max(initial=0.0)))[0]

    def of_output(self, output: int) -> Loss:
        """Return the loss object that limits the steps and computes the leaf values of one output's trees."""
        return self

    def residuals(self, y: Array, raw: Array, output: int) -> Array:
        """Return the residuals of one output, from which leaf values are computed: `y - raw[output]`."""
        return y - raw[output]

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the constant raw predictions with the lowest loss, shape (n_outputs,)."""
        raise NotImplementedError

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Update the state that depends on the residuals; call this before computing the gradients of each round."""

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the unweighted first and second derivatives by `raw` to `gradients` and `hessians`.

        All three arrays have shape (n_outputs, n_rows). If `constant_hessian` is True, `hessians` is not modified and
        may be None.
        """
        raise NotImplementedError

    def narrowed(self, y: Array) -> NDArray[Any]:
        """Return the targets as bytes if the kernels of the loss read class indices as bytes, otherwise unchanged."""
        return y.astype(np.uint8) if self.reads_bytes and self.n_outputs <= 256 else y

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients and hessians (n_outputs, n_rows), in double precision if the loss has formulas for it."""
        derivatives = np.ones((2, *raw.shape), dtype=np.float32)
        self.gradients(y, raw, derivatives[0], derivatives[1])
        return derivatives[0].astype(np.float64), derivatives[1].astype(np.float64)

    def loss(self, y: Array, raw: Array, sample_weight: Array | None = None, n_threads: int = 1) -> float:
        """Return the weighted mean loss of the rows."""
        return weighted_mean(self._compute_row_losses(y, raw, n_threads), sample_weight, self.comm)

    def row_losses(self, y: Array, raw: Array) -> Array:
        """Return the loss of each row, for losses with one output; `raw` and the result have shape (n_rows,)."""
        return self._compute_row_losses(y, raw[None])

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return the loss of each row, shape (n_rows,); `raw` has shape (n_outputs, n_rows)."""
        raise NotImplementedError

    def predict(self, raw: Array) -> Array:
        """Return the means, quantiles or probabilities of rows for raw predictions of shape (n_rows, n_outputs)."""
        return self.link.inverse(raw)

    def decision(self, raw: Array) -> Array:
        """Return the scores of the classes, shape (n_rows, n_classes), the largest of which is predicted."""
        return raw

    def deviation(self, predicted: Array) -> Array:
        """Return values proportional to the standard deviation of the rows, from predictions (n_rows, n_columns)."""
        return np.maximum(predicted[:, 0], np.finfo(float).tiny) ** (self.variance_power / 2)

    def log_dispersion(self, y: Array, raw: Array, sample_weight: Array | None = None) -> Array | None:
        """Return the change of each raw prediction, shape (n_outputs,), that makes predicted spreads match the errors.

        Returns None if the loss does not predict the dispersion of the targets.
        """
        return None

    def damped(self, steps: Array) -> Array:
        """Return the Newton steps of leaves, shortened if they would overshoot the minimum of the loss by far."""
        return steps if self.max_step == math.inf else np.minimum(np.maximum(steps, -self.max_step), self.max_step)

    def leaf_values(
        self,
        residuals: Array,
        leaf_starts: NDArray[np.int64],
        sample_weight: Array | None = None,
        n_threads: int = 1,
    ) -> Array:
        """Return the values of leaves, shape (n_leaves,), from the residuals `y - raw` of the rows, sorted by leaf.

        The value is a weighted quantile of the residuals, plus a clipped mean for some losses; see `leaf_quantiles`.
        Leaf `i` contains the rows from `leaf_starts[i]` to `leaf_starts[i + 1]`. `residuals` is reordered.
        """
        out = np.empty(leaf_starts.size - 1)
        weights = whole_weights(sample_weight, residuals.size, self.comm)
        if self.comm.size > 1:
            return leaf_quantiles(self.comm, residuals, weights, leaf_starts, self._leaf_level, self._leaf_limit)
        n_threads = threads_for(residuals.size, n_threads, _GRAIN_EXP)
        kernels.leaf_values(residuals, weights, leaf_starts, self._leaf_level, self._leaf_limit, out, n_threads)
        return out


class KernelLoss(Loss):
    """Base class of losses whose derivatives and values are loops of `gradients.pyx`."""

    _kernel = ""

    def __init__(self, n_outputs: int = 1, parameter: float = 0.0) -> None:
        self.n_outputs = n_outputs
        self._parameter = parameter
        self._code = kernels.LOSS_CODES[self._kernel or self.name]

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the derivatives of rows to `gradients` and `hessians`, (n_outputs, n_rows), with the compiled loop."""
        n_threads = threads_for(raw.size, n_threads, self._grain)
        targets, labels = (None, y) if y.dtype == np.uint8 else (y, None)
        kernels.gradients(self._code, self._parameter, targets, raw, gradients, hessians, n_threads, labels)

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return the loss of each row, shape (n_rows,), with the kernel of the loss."""
        out, n_threads = np.empty(y.size), threads_for(raw.size, n_threads, self._grain)
        targets, labels = (None, y) if y.dtype == np.uint8 else (y, None)
        kernels.row_losses(self._code, self._parameter, targets, raw, out, n_threads, labels)
        return out


class SquaredError(KernelLoss):
    """Squared error (y - raw)**2 / 2, minimized by the mean."""

    name = "squared_error"
    constant_hessian = True
    _grain = _GRAIN_RESIDUAL

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the weighted mean of the targets, shape (1,)."""
        return np.array([weighted_mean(y, sample_weight, self.comm)])

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return the gradients `raw - y` and hessians of 1, both of shape (1, n_rows)."""
        return raw - y, np.ones_like(raw)


class Quantile(KernelLoss):
    """Pinball loss: the share `level` of the rows is at or below the prediction."""

    name = "quantile"
    constant_hessian = True
    _grain = _GRAIN_RESIDUAL
    renews_leaves = True
    measures_noise = False

    def __init__(self, level: float) -> None:
        super().__init__(parameter=level)
        self._leaf_level, self.tail = level, min(level, 1 - level)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the weighted quantile of the targets at the level of the loss, shape (1,)."""
        return np.array([weighted_quantile(y, self._leaf_level, sample_weight, self.comm)])


class AbsoluteError(Quantile):
    """Absolute error abs(y - raw), minimized by the median."""

    name = "absolute_error"

    def __init__(self) -> None:
        super().__init__(0.5)


class Huber(KernelLoss):
    """Huber loss: squared error up to the limit d, and d (abs(y - raw) - d/2) beyond it.

    In each round, d is set to the quantile `alpha` of the absolute residuals (Friedman 2001, section 4.4).
    """

    name = "huber"
    constant_hessian = True
    _grain = _GRAIN_RESIDUAL
    renews_leaves = True
    measures_noise = False

    def __init__(self, alpha: float = 0.9) -> None:
        super().__init__()
        self._alpha = alpha

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the weighted median of the targets, shape (1,), and set the Huber limit from the residuals to it."""
        start = np.array([weighted_quantile(y, 0.5, sample_weight, self.comm)])
        self.start_round(y, np.broadcast_to(start[:, None], (1, y.size)), sample_weight)
        return start

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """Set the limit to the quantile `alpha` of the absolute residuals or, if this is 0, to the largest of them."""
        distances = np.abs(y - raw[0])
        limit = weighted_quantile(distances, self._alpha, sample_weight, self.comm)
        self._parameter = limit or max_floats(self.comm, float(distances.max(initial=0.0)))[0]
        self._leaf_limit = self._parameter


class LogLinkLoss(Loss):
    """Base class of losses with the mean exp(raw) and a variance proportional to a power of the mean."""

    bounds = (0.0, math.inf)
    link = LOG
    variance_power = 1.0
    noise_l2, noise_power = 30.0, 1.0  # makes the default L2 independent of the target's unit

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the logarithm of the weighted mean of the targets, shape (1,)."""
        mean = weighted_mean(y, sample_weight, self.comm)
        if mean == 0:  # all nonzero targets may belong to rows whose tiny weights are rounded to 0
            assert sample_weight is not None
            mean = exact_sum(y * sample_weight, self.comm) / exact_sum(sample_weight, self.comm)
        return np.array([log(mean)])


class Poisson(LogLinkLoss, KernelLoss):
    """Poisson loss exp(raw) - y raw."""

    name = "poisson"

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets are nonnegative."""
        low = self._range(y)[0]
        if low < 0:
            raise ValueError(f"y must not be negative for loss='poisson'; its smallest value is {low}.")

    def check_start(self, y: Array) -> None:
        """Raise ValueError if all targets are 0."""
        if self._range(y)[1] == 0:
            raise ValueError("y must have a positive sum for loss='poisson'; all its values are 0.")

    def frozen(self, raw: Array) -> Any:
        """Return frozen scipy.stats.poisson distributions of the rows, from raw predictions of shape (n_rows, 1)."""
        from scipy import stats

        return stats.poisson(self.predict(raw))

    def damped(self, steps: Array) -> Array:
        """Return Newton steps, positive ones replaced by log(1 + step), the exact minimum of a leaf's loss."""
        return np.where(steps > 0, log1p(np.maximum(steps, 0)), steps)


class Gamma(LogLinkLoss, KernelLoss):
    """Gamma loss raw + y exp(-raw)."""

    name = "gamma"
    variance_power = 2.0

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets are positive."""
        low = self._range(y)[0]
        if low <= 0:
            raise ValueError(f"y must be positive for loss='gamma'; its smallest value is {low}.")

    def damped(self, steps: Array) -> Array:
        """Return Newton steps, negative ones replaced by -log(1 - step), the exact minimum of a leaf's loss."""
        return np.where(steps < 0, -log1p(np.maximum(-steps, 0)), steps)


class _LogLoss(KernelLoss):
    # A leaf changes the odds by a factor of at most e**10, or of e in one round with a learning rate of 0.1; typical
    # steps are a few units. If p is near 0 or 1, p (1 - p) vanishes, and the Newton step for a few surprising rows
    # would be thousands of times too long.
    max_step = 10.0
    has_log_odds = True
    noise_l2 = 3.0
    reads_bytes = True

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients p - y (by class) and hessians p (1 - p), times K / (K - 1) for K > 2 classes."""
        of_classes = LOGIT if self.n_outputs == 1 else SOFTMAX
        share = np.ascontiguousarray(of_classes.inverse(np.ascontiguousarray(raw.T)).T)
        if self.n_outputs == 1:
            return share[1:] - y, share[1:] * share[:1]
        is_own = y == np.arange(self.n_outputs)[:, None]
        return share - is_own, self.n_outputs / (self.n_outputs - 1) * share * (1 - share)


class BinaryLogLoss(_LogLoss):
    """Binary log loss log(1 + exp(raw)) - y raw, where raw is the log odds of class 1."""

    name = "log_loss"
    _kernel = "binary_log_loss"
    link = LOGIT

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the log odds of class 1 by total weights, shape (1,)."""
        return np.array([log_odds(y, sample_weight, self.comm)])


class MulticlassLogLoss(_LogLoss):
    """Multiclass log loss log(sum over k of exp(raw_k)) - raw_y with one raw prediction per class.

    The hessian of each class is K / (K - 1) p (1 - p), which accounts for simultaneous changes of all classes
    (Friedman 2001, equation 34).
    """

    name = "log_loss"
    _kernel = "multiclass_log_loss"
    link = SOFTMAX

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the logarithms of the class priors by total weights, shape (n_classes,)."""
        shares = class_weights(y, sample_weight, self.n_outputs, self.comm)
        total = sum(shares)
        return log([share / total for share in shares])


def log_odds(y: Array, weights: Array | None, comm: Comm) -> float:
    """Return the log of the ratio of the total weights of class 1 and class 0, over all ranks."""
    shares = class_weights(y, weights, 2, comm)
    return float(log(shares[1] / shares[0]))


def class_weights(y: Array, weights: Array | None, n_classes: int, comm: Comm) -> list[int]:
    """Return each class's total weight over all ranks as an integer of at least 1, all scaled by one power of two."""
    out = np.zeros(n_classes, dtype=np.int64)
    kernels.class_weights(y, weights, _weight_scale(weights, comm), out)
    comm.allreduce_sum(out)
    return np.maximum(out, 1).tolist()  # classes of tiny weight are not rounded to 0
