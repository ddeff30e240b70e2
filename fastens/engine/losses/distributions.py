"""Losses that predict a distribution: the negative log likelihood with a raw prediction for each of its parameters.

All parameters are boosted together. The gradient of a parameter is exact, and its hessian is the Fisher information, so
that a leaf's Newton step is its natural gradient (Duan et al. 2020, "NGBoost"). Nearly all of the distributions are
parametrized so that the information matrix is diagonal or almost diagonal, which makes the steps independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import is_any, max_floats
from fastens.engine.elementary import betaln, digamma, exp, expit, gammaln, log, log1p, trigamma
from fastens.engine.losses.losses import NO_LINK, Floats, Loss, class_weights, weighted_mean
from fastens.engine.losses.numeric_losses import BLOCK

Array = NDArray[np.float64]

# Quantiles that conformal intervals start from; they are symmetric and include the bounds of all commonly used
# intervals.
_HALF = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225, 0.25, 0.3, 0.35, 0.4, 0.45)
QUANTILE_LEVELS = [*_HALF, 0.5, *(1 - level for level in reversed(_HALF))]

_MAX_STEPS = 500  # maximum number of iterations for the starting values
_MAX_STEP = 1.0  # maximum Newton step of parameters on a logarithmic scale: a factor of e in one leaf
_LOG_2PI_HALF = 0.5 * math.log(2 * math.pi)
_MEAN_OF_LOG = 0.42278433509846714  # digamma(2)
# Mean of abs(z) ** 1.5 for a standard normal z. Outliers count less in this moment than in a variance, which a single
# validation row can dominate, and more than in a mean absolute error.
_POWER_OF_NORMAL = 2**0.75 * math.gamma(1.25) / math.sqrt(math.pi)
_MAX_Z = 20.0  # maximum of the logarithm in exponentials of exponentials


class Distribution(Loss):
    """Base class of negative log likelihoods; `raw` has a row for each parameter.

    Attributes
    ----------
    limits : sequence of pairs of numbers
        Range of each raw prediction. Gradients that lead out of it are 0, and values beyond it are clipped.
    """

    noise_l2, noise_power = 5.0, 1.0
    has_distribution = True
    link = NO_LINK
    largest_raw: float | None = 10.0
    # True if the first raw prediction has the unit of the target, or of its logarithm.
    _has_location: ClassVar[bool] = False
    limits: Sequence[tuple[float, float]]
    _unit: float | None = None

    def __init__(self) -> None:
        self.n_outputs = len(self.limits)
        self._outputs = [_ParameterLoss(self, output) for output in range(self.n_outputs)]

    # Formulas of a distribution --------------------------------------------------

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return the gradients of the row losses by the raw predictions, and the diagonal of the Fisher information.

        Both are sequences with one item per raw prediction; `raw` holds one array of shape (n_rows,) for each.
        """
        raise NotImplementedError

    def moments_start(self, mean: float, deviation: float) -> list[float]:
        """Return raw predictions with about this mean and deviation, where the search for the best constants starts."""
        raise NotImplementedError

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log density of each row, from one array of raw predictions per parameter."""
        raise NotImplementedError

    def mean(self, raw: Sequence[Array]) -> Array:
        """Return the mean of each row's distribution, from one array of raw predictions per parameter."""
        raise NotImplementedError

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return the distributions of the rows as a frozen distribution of scipy.stats with array parameters."""
        raise NotImplementedError

    # What is common --------------------------------------------------

    def _clipped(self, raw: Array) -> list[Array]:
        """Return one array per parameter: raw predictions of shape (n_outputs, n_rows) clipped to `limits`."""
        return [np.clip(row, low, high) for row, (low, high) in zip(raw, self.limits, strict=True)]

    def of_output(self, output: int) -> Loss:
        """Return the loss object that holds the maximum step and the noise unit of one parameter."""
        return self._outputs[output]

    def start_round(self, y: Array, raw: Array, sample_weight: Array | None = None) -> None:
        """In the first round, if there is a location, set its unit to the scale of the best constant distribution."""
        if self._has_location and self._unit is None:
            self._unit = math.exp(self.start(y, sample_weight)[1])

    def derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients and Fisher information of shape (n_outputs, n_rows)."""
        with np.errstate(over="ignore", invalid="ignore"):
            first, second = self.slopes(y, self._clipped(raw))
        out = np.empty((2, *raw.shape))
        for k, (low, high) in enumerate(self.limits):
            leaves = ((raw[k] >= high) & (first[k] < 0)) | ((raw[k] <= low) & (first[k] > 0))
            out[0, k], out[1, k] = np.where(leaves, 0.0, first[k]), second[k]
        if self._unit is not None:
            # The unit makes the Fisher information of a location dimensionless, as the limits of leaves require.
            out[:, 0] *= self._unit**2
        return out[0], out[1]

    def exact_derivatives(self, y: Array, raw: Array) -> tuple[Array, Array]:
        """Return gradients and Fisher information in double precision, both of shape (n_outputs, n_rows)."""
        return self.derivatives(y, raw)

    def gradients(self, y: Array, raw: Array, gradients: Floats, hessians: Floats | None, n_threads: int = 1) -> None:
        """Write the gradients and the Fisher information, both of shape (n_outputs, n_rows), block by block."""
        assert hessians is not None
        for start in range(0, len(y), BLOCK):
            rows = slice(start, start + BLOCK)
            gradients[:, rows], hessians[:, rows] = self.derivatives(y[rows], raw[:, rows])

    def _compute_row_losses(self, y: Array, raw: Array, n_threads: int = 1) -> Array:
        """Return the loss of each row, shape (n_rows,), for raw predictions of shape (n_outputs, n_rows)."""
        with np.errstate(over="ignore"):
            blocks = [slice(start, start + BLOCK) for start in range(0, len(y), BLOCK)]
            return np.concatenate(
                [np.zeros(0), *(self.losses(y[rows], self._clipped(raw[:, rows])) for rows in blocks)]
            )

    def predict(self, raw: Array) -> Array:
        """Return the mean of each row, shape (n_rows,), for raw predictions of shape (n_rows, n_outputs)."""
        with np.errstate(over="ignore"):
            return self.mean(self._clipped(raw.T))

    def frozen(self, raw: Array) -> Any:
        """Return frozen scipy.stats distributions of the rows, for raw predictions of shape (n_rows, n_outputs)."""
        return self.scipy_distribution(self._clipped(raw.T))

    def deviation(self, predicted: Array) -> Array:
        """Return the last minus the first column of `predicted`, quantiles by ascending level; 1 where this is 0."""
        width = predicted[:, -1] - predicted[:, 0]
        return np.where(width > 0, width, 1.0)

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the constants with the highest likelihood, shape (n_outputs,), found by Fisher scoring."""
        values = self._transformed_targets(y)
        mean = weighted_mean(values, sample_weight, self.comm)
        (largest,) = max_floats(self.comm, float(np.abs(values - mean).max(initial=0.0)))
        spread = largest or 1.0
        variance = weighted_mean(((values - mean) / spread) ** 2, sample_weight, self.comm)
        smallest = max(1e-9 * abs(mean), 1e-150)  # for constant targets
        constants = np.array(self.moments_start(mean, max(largest * math.sqrt(variance), smallest)))
        constants = np.array(self._clipped(constants))
        unit, self._unit = self._unit, None
        loss, step = self._loss_of_constants(y, constants, sample_weight), np.full(self.n_outputs, np.inf)
        for _ in range(_MAX_STEPS):
            first, second = self.derivatives(y, _constants_for_rows(constants, y))
            for k in range(self.n_outputs):
                slope, curvature = (weighted_mean(part[k], sample_weight, self.comm) for part in (first, second))
                step[k] = -slope / curvature if curvature > 0 else 0.0
            size = 1.0 if self._has_location else _MAX_STEP / max(_MAX_STEP, float(np.abs(step).max()))
            while size > 1e-3:
                trial = np.array(self._clipped(constants + size * step))
                value = self._loss_of_constants(y, trial, sample_weight)
                if value < loss:
                    break
                size /= 2
            else:
                break
            constants, loss = trial, value
        self._unit = unit
        return constants

    def _loss_of_constants(self, y: Array, constants: Array, sample_weight: Array | None) -> float:
        """Return the weighted mean loss if all rows have these raw predictions, shape (n_outputs,)."""
        return self.loss(y, _constants_for_rows(constants, y), sample_weight)

    def _transformed_targets(self, y: Array) -> Array:
        """Return y on the scale of the location, here unchanged; its moments start the search for constants."""
        return y

    def _check_targets(self, y: Array, rule: str, is_right: NDArray[np.bool_]) -> None:
        """Raise ValueError that y must `rule`, such as "be positive", unless `is_right` is True on all ranks."""
        if is_any(self.comm, not is_right.all()):
            low, high = self._range(y)
            raise ValueError(f"y must {rule} for loss={self.name!r}; got values from {low} to {high}.")


def _constants_for_rows(constants: Array, y: Array) -> Array:
    """Return raw predictions of shape (n_outputs, n_rows) that repeat the constants for each row of y."""
    return np.broadcast_to(constants[:, None], (len(constants), len(y)))


class _ParameterLoss(Loss):
    """Damping and noise of one parameter of a distribution."""

    def __init__(self, whole: Distribution, output: int) -> None:
        self._whole, self._is_location = whole, output == 0 and whole._has_location
        self.name, self.max_step = whole.name, math.inf if self._is_location else _MAX_STEP

    @property
    def noise_unit(self) -> float:  # type: ignore[override]
        """Square root of the noise of the best constant for a location, and 1 for other parameters."""
        return (self._whole._unit or 1.0) if self._is_location else 1.0


# Distributions with a location and a scale --------------------------------------------------

_ANY = (-1e308, 1e308)
_LOG_SCALE = (-340.0, 340.0)


class _LocationScale(Distribution):
    """Base class of distributions with the location raw[0] and the scale exp(raw[1])."""

    limits: Sequence[tuple[float, float]] = (_ANY, _LOG_SCALE)
    largest_raw = None
    _has_location = True


class Normal(_LocationScale):
    """Normal distribution with mean raw[0] and standard deviation exp(raw[1])."""

    name = "normal"

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        precision = exp(-raw[1])
        z = (y - raw[0]) * precision
        return (-z * precision, 1 - z * z), (precision * precision, 2.0)

    def log_dispersion(self, y: Array, raw: Array, sample_weight: Array | None = None) -> Array | None:
        """Return (0, s), where exp(s) is a robust estimate of the ratio of errors to predicted standard deviations."""
        location, log_scale = self._clipped(raw)
        with np.errstate(over="ignore"):
            z = np.abs(y - location) * exp(-log_scale)
            power = weighted_mean(z * np.sqrt(z), sample_weight, self.comm)
        step = float(log(power / _POWER_OF_NORMAL)) / 1.5
        return np.array([0.0, np.clip(step, -_MAX_STEP, _MAX_STEP)])

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log density of each row, from one array of raw predictions per parameter."""
        z = (y - raw[0]) * exp(-raw[1])
        return _LOG_2PI_HALF + raw[1] + 0.5 * z * z

    def moments_start(self, mean: float, deviation: float) -> list[float]:
        """Return the mean and the logarithm of the standard deviation as raw predictions."""
        return [mean, float(log(deviation))]

    def mean(self, raw: Sequence[Array]) -> Array:
        """Return the mean of each row's distribution, which is raw[0]."""
        return raw[0]

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen scipy.stats.norm of all rows, from one array of raw predictions per parameter."""
        from scipy import stats

        return stats.norm(raw[0], exp(raw[1]))


class LogNormal(Normal):
    """Distribution of positive targets whose logarithm is normal with mean raw[0] and deviation exp(raw[1])."""

    name = "lognormal"
    bounds = (0.0, math.inf)

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets are positive."""
        self._check_targets(y, "be positive", y > 0)

    def magnitude(self, y: Array) -> float:
        """Return the largest absolute log target, as an approximate bound of the absolute raw predictions."""
        return super().magnitude(log(y))

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        return super().slopes(log(y), raw)

    def log_dispersion(self, y: Array, raw: Array, sample_weight: Array | None = None) -> Array | None:
        """Return (0, s), where exp(s) estimates the ratio of errors of log targets to predicted standard deviations."""
        return super().log_dispersion(log(y), raw, sample_weight)

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log density of each row, from one array of raw predictions per parameter."""
        logs = log(y)
        return super().losses(logs, raw) + logs

    def _transformed_targets(self, y: Array) -> Array:
        """Return log(y), the scale of the location; its moments start the search for constants."""
        return log(y)

    def mean(self, raw: Sequence[Array]) -> Array:
        """Return the mean of each row's distribution, exp(raw[0] + exp(2 raw[1]) / 2), at most e**700."""
        return exp(np.minimum(raw[0] + 0.5 * exp(2 * raw[1]), 700.0))

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen scipy.stats.lognorm of all rows, from one array of raw predictions per parameter."""
        from scipy import stats

        return stats.lognorm(exp(raw[1]), 0.0, exp(raw[0]))


class StudentT(_LocationScale):
    """Student's t distribution with location raw[0], scale exp(raw[1]) and exp(raw[2]) degrees of freedom."""

    name = "student_t"
    limits = (_ANY, _LOG_SCALE, (0.0, 5.0))

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        precision, df = exp(-raw[1]), exp(raw[2])
        z = (y - raw[0]) * precision
        share = (df + 1) / (df + z * z)
        of_df = digamma(0.5 * df) - digamma(0.5 * (df + 1)) + 1 / df + log1p(z * z / df) - share * z * z / df
        information = 0.25 * (trigamma(0.5 * df) - trigamma(0.5 * (df + 1))) - (df + 5) / (2 * df * (df + 1) * (df + 3))
        return (
            (-share * z * precision, 1 - share * z * z, 0.5 * df * of_df),
            ((df + 1) / (df + 3) * precision * precision, 2 * df / (df + 3), np.maximum(df * df * information, 1e-6)),
        )

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log density of each row, from one array of raw predictions per parameter."""
        df = exp(raw[2])
        z = (y - raw[0]) * exp(-raw[1])
        return raw[1] + betaln(0.5, 0.5 * df) + 0.5 * raw[2] + 0.5 * (df + 1) * log1p(z * z / df)

    def moments_start(self, mean: float, deviation: float) -> list[float]:
        """Return the raw predictions for this mean and standard deviation with ten degrees of freedom."""
        return [mean, float(log(deviation * math.sqrt(0.8))), math.log(10)]

    def mean(self, raw: Sequence[Array]) -> Array:
        """Return the location raw[0] of each row, which is the mean if there is more than one degree of freedom."""
        return raw[0]

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen scipy.stats.t of all rows, from one array of raw predictions per parameter."""
        from scipy import stats

        return stats.t(exp(raw[2]), raw[0], exp(raw[1]))


# Positive targets --------------------------------------------------

_LOG_MEAN = (-700.0, 700.0)
_LOG_SHAPE = (-9.0, 9.0)


class _LogMean(Distribution):
    """Base class of distributions with the mean exp(raw[0]) and another positive parameter exp(raw[1])."""

    limits = (_LOG_MEAN, _LOG_SHAPE)
    bounds = (0.0, math.inf)

    def mean(self, raw: Sequence[Array]) -> Array:
        """Return the mean of each row's distribution, exp(raw[0])."""
        return exp(raw[0])


class _Positive(_LogMean):
    # The shape at which the search starts is this power of mean / deviation.
    _shape_power: ClassVar[float] = 2.0

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets are positive."""
        self._check_targets(y, "be positive", y > 0)

    def moments_start(self, mean: float, deviation: float) -> list[float]:
        """Return the logarithm of the mean, and of an approximate shape for this mean and standard deviation."""
        return [float(log(mean)), self._shape_power * float(log(mean / deviation))]


class GammaDistribution(_Positive):
    """Gamma distribution with mean exp(raw[0]) and shape exp(raw[1])."""

    name = "gamma_dist"

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        shape, ratio = exp(raw[1]), y * exp(-raw[0])
        of_shape = digamma(shape) - raw[1] - 1 + raw[0] - log(y) + ratio
        return (shape * (1 - ratio), shape * of_shape), (shape, shape * (shape * trigamma(shape) - 1))

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log density of each row, from one array of raw predictions per parameter."""
        shape, logs = exp(raw[1]), log(y)
        return gammaln(shape) + shape * (raw[0] - raw[1] - logs + y * exp(-raw[0])) + logs

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen scipy.stats.gamma of all rows, from one array of raw predictions per parameter."""
        from scipy import stats

        return stats.gamma(exp(raw[1]), 0.0, exp(raw[0] - raw[1]))


class Weibull(_Positive):
    """Weibull distribution with mean exp(raw[0]) and shape exp(raw[1])."""

    name = "weibull"
    # The mean of a constant target is too low by 0.6 / shape, which is 9e-9 at the limit.
    limits = (_LOG_MEAN, (-4.0, 18.0))
    _shape_power = 1.086  # Justus et al. (1978)

    def _log_scale(self, raw: Sequence[Array], shape: Array) -> Array:
        """Return the logarithm of the Weibull scale of each row, from the log mean raw[0] and the shape."""
        return raw[0] - gammaln(1 + 1 / shape)

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        shape = exp(raw[1])
        z = shape * (log(y) - self._log_scale(raw, shape))
        away, shift = 1 - exp(np.minimum(z, _MAX_Z)), digamma(1 + 1 / shape)
        information = math.pi**2 / 6 + (shift - _MEAN_OF_LOG) ** 2
        return (shape * away, away * (shift - z) - 1), (shape * shape, information)

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log density of each row, from one array of raw predictions per parameter."""
        shape, logs = exp(raw[1]), log(y)
        z = shape * (logs - self._log_scale(raw, shape))
        # Beyond its limit, the exponential is continued by its tangent, so that the derivatives are exact.
        rest = np.maximum(z - _MAX_Z, 0.0)
        return exp(np.minimum(z, _MAX_Z)) * (1 + rest) - z + logs - raw[1]

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen scipy.stats.weibull_min of all rows, from one array of raw predictions per parameter."""
        from scipy import stats

        shape = exp(raw[1])
        return stats.weibull_min(shape, 0.0, exp(self._log_scale(raw, shape)))


class BetaDistribution(Distribution):
    """Beta distribution with the mean expit(raw[0]) and a + b = exp(raw[1])."""

    name = "beta"
    limits = ((-30.0, 30.0), (-9.0, 14.0))
    bounds = (0.0, 1.0)

    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets are above 0 and below 1."""
        self._check_targets(y, "be above 0 and below 1", (y > 0) & (y < 1))

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        high, low, total = expit(raw[0]), expit(-raw[0]), exp(raw[1])
        a, b, log_high, log_low = high * total, low * total, log(y), log1p(-y)
        side = total * high * low
        of_a, of_b = digamma(a) - log_high, digamma(b) - log_low
        curve_a, curve_b = trigamma(a), trigamma(b)
        of_total = high * high * curve_a + low * low * curve_b - trigamma(total)
        return (
            (side * (of_a - of_b), total * (high * of_a + low * of_b - digamma(total))),
            (side * side * (curve_a + curve_b), total * total * np.maximum(of_total, 0.0)),
        )

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log density of each row, from one array of raw predictions per parameter."""
        total = exp(raw[1])
        a, b = expit(raw[0]) * total, expit(-raw[0]) * total
        return betaln(a, b) - (a - 1) * log(y) - (b - 1) * log1p(-y)

    def moments_start(self, mean: float, deviation: float) -> list[float]:
        """Return the raw predictions of the distribution with this mean and standard deviation."""
        odds = mean * (1 - mean)
        return [float(log(mean / (1 - mean))), float(log(max(odds / deviation**2 - 1, 0.1)))]

    def mean(self, raw: Sequence[Array]) -> Array:
        """Return the mean of each row's distribution, expit(raw[0])."""
        return expit(raw[0])

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen scipy.stats.beta of all rows, from one array of raw predictions per parameter."""
        from scipy import stats

        total = exp(raw[1])
        return stats.beta(expit(raw[0]) * total, expit(-raw[0]) * total)


# Counts --------------------------------------------------


class _Counts(_LogMean):
    def check_target(self, y: Array) -> None:
        """Raise ValueError unless all targets are nonnegative integers."""
        self._check_targets(y, "hold non-negative integers", (y >= 0) & (y == np.floor(y)))

    def check_start(self, y: Array) -> None:
        """Raise ValueError if all targets are 0."""
        if self._range(y)[1] == 0:
            raise ValueError(f"y must have a positive sum for loss={self.name!r}; all its values are 0.")


class NegativeBinomial(_Counts):
    """Negative binomial distribution with mean exp(raw[0]) and variance mean + mean**2 / exp(raw[1])."""

    name = "negative_binomial"

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal.

        The information of the size has no closed form. The approximation is exact for small and for large means, and
        within 15 percent between them.
        """
        mean, size = exp(raw[0]), exp(raw[1])
        share = size / (size + mean)
        of_size = digamma(size) - digamma(y + size) + log1p(mean / size) + (y - mean) / (size + mean)
        limit = size * (size * trigamma(size) - 1)
        ratio = mean / (mean + np.sqrt(2 * size * (size + 1) * limit))
        return (share * (mean - y), size * of_size), (share * mean, limit * ratio * ratio)

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log probability of each row, from one array of raw predictions per parameter."""
        mean, size = exp(raw[0]), exp(raw[1])
        counts = np.maximum(y, 1.0)
        of_counts = log(counts) + betaln(counts, size) + counts * log1p(exp(raw[1] - raw[0]))
        return size * log1p(mean / size) + np.where(y > 0, of_counts, 0.0)

    def moments_start(self, mean: float, deviation: float) -> list[float]:
        """Return the raw predictions of the distribution with this mean and standard deviation."""
        return [float(log(mean)), float(log(mean / max(deviation**2 / mean - 1, 0.1)))]

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen scipy.stats.nbinom of all rows, from one array of raw predictions per parameter."""
        from scipy import stats

        return stats.nbinom(exp(raw[1]), expit(raw[1] - raw[0]))


class ZeroInflatedPoisson(_Counts):
    """Poisson distribution with mean exp(raw[0]), replaced by 0 with the probability 1 - expit(raw[1])."""

    name = "zero_inflated_poisson"
    limits = (_LOG_MEAN, (-9.0, 5.0))

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        mean, share, rest = exp(raw[0]), expit(raw[1]), expit(-raw[1])
        none = exp(-mean)
        zero = rest + share * none
        is_zero = y == 0
        of_mean = np.where(is_zero, share * none / zero * mean, mean - y)
        of_share = np.where(is_zero, share * rest * (1 - none) / zero, -rest)
        return (of_mean, of_share), (
            share * mean * (1 - mean * none * rest / zero),
            rest * rest * share * (1 - none) / zero,
        )

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log probability of each row, from one array of raw predictions per parameter."""
        mean, share = exp(raw[0]), expit(raw[1])
        of_counts = mean - y * raw[0] + gammaln(y + 1) - log(share)
        return np.where(y == 0, -log(expit(-raw[1]) + share * exp(-mean)), of_counts)

    def moments_start(self, mean: float, deviation: float) -> list[float]:
        """Return the raw predictions of the distribution with this mean and standard deviation."""
        poisson = max(mean + deviation**2 / mean - 1, 1.1 * mean)
        return [float(log(poisson)), float(log(mean / (poisson - mean)))]

    def mean(self, raw: Sequence[Array]) -> Array:
        """Return the mean of each row's count, including the excess zeros."""
        return exp(raw[0]) * expit(raw[1])

    def scipy_distribution(self, raw: Sequence[Array]) -> Any:
        """Return a frozen zero-inflated Poisson distribution with the interface of scipy.stats."""
        from fastens.engine.losses.zero_inflated import zero_inflated_poisson

        return zero_inflated_poisson(exp(raw[0]), expit(-raw[1]))


# Ordered classes --------------------------------------------------


class Ordinal(Distribution):
    """Log loss of ordered classes in a cumulative link model; y holds class indices (McCullagh 1980).

    The log odds of a class above 0 are raw[0], and the log odds of a class above k are lower by exp(raw[1]) + ... +
    exp(raw[k]), so that they fall with k by construction. All gaps are boosted, too.

    Parameters
    ----------
    n_classes : int
        Number of classes, at least 3.
    """

    name = "ordinal"
    has_distribution = False
    has_log_odds = True
    noise_l2, noise_power = 3.0, 0.5  # as for other log losses

    def __init__(self, n_classes: int) -> None:
        self.limits = [(-30.0, 30.0), *[(-7.0, 4.0)] * (n_classes - 2)]
        super().__init__()

    def start(self, y: Array, sample_weight: Array | None = None) -> Array:
        """Return the raw predictions, shape (n_outputs,), whose class probabilities are the class priors."""
        weights = class_weights(y, sample_weight, self.n_outputs + 1, self.comm)
        odds = [sum(weights[k:]) / sum(weights[:k]) for k in range(1, len(weights))]
        gaps = [odds[k - 1] / odds[k] for k in range(1, len(odds))]
        return np.array(self._clipped(np.array([log(odds[0]), *log(log(gaps))])))

    def _log_odds_and_gaps(self, raw: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Return lists of arrays (n_rows,): log odds of a class above each threshold, and the gaps between them."""
        gaps = [exp(row) for row in raw[1:]]
        odds = [raw[0]]
        for gap in gaps:
            odds.append(odds[-1] - gap)
        return odds, gaps

    def _log_probabilities(self, raw: Sequence[Array]) -> list[Array]:
        """Return one array (n_rows,) per class: the logarithm of its probability, computed without cancellation."""
        odds, gaps = self._log_odds_and_gaps(raw)
        above, below = ([_log_expit(sign * row) for row in odds] for sign in (1, -1))
        between = [above[k] + below[k + 1] + log(-_expm1_of_negative(gap)) for k, gap in enumerate(gaps)]
        return [below[0], *between, above[-1]]

    def slopes(self, y: Array, raw: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Any]]:
        """Return two sequences, one item per raw prediction: gradients, and the Fisher information's diagonal."""
        odds, gaps = self._log_odds_and_gaps(raw)
        shares, n_classes = [exp(row) for row in self._log_probabilities(raw)], len(odds) + 1
        above = [np.ones_like(raw[0]), *(expit(row) for row in odds), np.zeros_like(raw[0])]
        # Derivatives of the log probability of each class, by raw[0] and by the logarithms of the gaps.
        of_level = [1 - above[k] - above[k + 1] for k in range(n_classes)]
        first, second = [], []
        for output in range(n_classes - 1):
            total, derivative = np.zeros_like(raw[0]), np.zeros_like(raw[0])
            for k in range(n_classes):
                if output == 0:
                    slope = of_level[k]
                elif k < output:
                    continue
                elif k == output:
                    fall = exp(-gaps[output - 1])
                    slope = gaps[output - 1] * (above[k + 1] + fall / -_expm1_of_negative(gaps[output - 1]))
                else:
                    slope = -gaps[output - 1] * of_level[k]
                total += shares[k] * slope * slope
                derivative -= np.where(y == k, slope, 0.0)
            first.append(derivative)
            second.append(total)
        return first, second

    def losses(self, y: Array, raw: Sequence[Array]) -> Array:
        """Return the negative log probability of each row's class, from one array of raw predictions per parameter."""
        return -np.choose(y.astype(np.intp), np.stack(self._log_probabilities(raw)))

    def decision(self, raw: Array) -> Array:
        """Return the logarithms of the class probabilities, shape (n_rows, n_classes)."""
        return np.column_stack(self._log_probabilities(self._clipped(raw.T)))

    def predict(self, raw: Array) -> Array:
        """Return the class probabilities, shape (n_rows, n_classes), for raw predictions (n_rows, n_outputs)."""
        shares = exp(self.decision(raw))
        return shares / shares.sum(axis=1, keepdims=True)


def _log_expit(x: Array) -> Array:
    """Return log(1 / (1 + exp(-x))) without overflow."""
    return np.minimum(x, 0.0) - log1p(exp(-np.abs(x)))


def _expm1_of_negative(gap: Array) -> Array:
    """Return exp(-gap) - 1, from a short series for small gaps."""
    small = np.minimum(gap, 1e-2)
    series = -small * (1 - small / 2 * (1 - small / 3 * (1 - small / 4 * (1 - small / 5))))
    return np.where(gap < 1e-2, series, exp(-gap) - 1)
