"""Conjugate priors of leaves: evidence, predictions and their uncertainty from sufficient statistics.

Statistics are arrays of shape (n_statistics, n_nodes). They are additive: the statistics of a node are the sums over
its leaves, and the statistics of further rows are added to the existing ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betaincinv, gammainc, gammaincinv, ndtr, ndtri, stdtr, stdtrit

from fastens.engine.elementary import exp, gammaln, log, log1p, sum_in_order
from fastens.engine.whole import are_whole
from fastens.posterior.averages import class_posterior, dirichlet_evidence, number_posterior

Array = NDArray[np.float64]
# Number of entries of the tables of log gamma: 512 kB, and nearly all nodes have fewer rows.
_TABLE = 1 << 16
# Number of entries of tables that are only used by a single model.
_SMALL_TABLE = 256
# Nodes with at most this many rows may store the evidence itself instead of its logarithm, if the magnitude of the
# logarithm stays below the second number.
_MAX_TABLED_ROWS, _LARGEST_LOG = 1024, 600.0
# A power of two, so that scaling is exact.
_SCALE = 64.0
# Nodes count rows in 32 bits, so there must be fewer rows than this.
_MAX_ROWS = 2.0**31
# Larger weights or counts make no difference in float64, and SciPy returns NaN or 1 for much larger ones.
_MANY = 2.0**50
# Lower limits that keep degenerate distributions proper.
_MIN_SHAPE = _MIN_WIDTH = 1e-300


class Nodes(NamedTuple):
    """Inner nodes, their left children, and leaves of a tree, each in ascending order."""

    inner: NDArray[np.int32]
    left_child: NDArray[np.int32]
    leaf: NDArray[np.int32]


class NodePosterior(NamedTuple):
    """Posterior of all nodes: see `average_over_prunings`."""

    split: Array  # posterior probability that an inner node splits if it is reached, (n_inner,)
    values: Array  # posterior means, (n_nodes, n_values)
    work: Array  # workspace, (n_nodes,)


def _few(log_range: Array) -> int:
    """Return the maximum number of rows whose evidence is safe from overflow, given bounds of its logarithm by rows."""
    return int(np.searchsorted(log_range > _LARGEST_LOG, True)) - 1


@cache
def _log_gammas(alpha: float, step: float = 1.0) -> Array:
    table = gammaln(alpha + step * np.arange(_TABLE))
    table.flags.writeable = False
    return table


@cache
def _few_of_classes(alpha: float, n_classes: tuple[int, ...], most_split: float) -> int:
    def largest(first: float, signs: Array) -> Array:
        """Return the running maximum of the signed logarithms of products of 0, 1, ... factors."""
        logs = np.concatenate([[0.0], np.cumsum(log((first + np.arange(_MAX_TABLED_ROWS)) / _SCALE))])
        return np.maximum.accumulate(np.max(np.multiply.outer(signs, logs), axis=0))

    # In the worst case, the product of one class is large and all others are small.
    both, small = np.array([-1.0, 1.0]), np.array([-1.0])
    rows = np.arange(_MAX_TABLED_ROWS + 1)
    most = np.full(len(rows), -log1p(-most_split))
    for n in n_classes:
        by_rows = rows * log(_SCALE) + np.minimum(rows, n) * max(-log(alpha), 0.0)
        most += largest(n * alpha, both) + largest(alpha, both) + np.minimum(n * largest(alpha, small), by_rows)
    return _few(most)


@cache
def _products(first: float, n: int) -> Array:
    """Return the products of 0, 1, ..., n factors first, first + 1, ..., each scaled down to delay overflow."""
    return np.concatenate([[1.0], np.cumprod((first + np.arange(n)) / _SCALE)])


@cache
def _inverse_products(first: float, n: int) -> Array:
    return 1 / _products(first, n)


@dataclass(frozen=True)
class ClassPrior:
    """Dirichlet prior of the class probabilities of each target; the statistics are the weights of the classes."""

    alpha: float | tuple[float, ...]  # pseudo-count of each class; a tuple only with a single target
    n_classes: tuple[int, ...]  # number of classes of each target

    def statistics(self, y: Array) -> Array:
        """Return the one-hot encoding of each row's class."""
        columns = y.reshape(len(y), -1).T
        return np.concatenate(
            [(column == np.arange(n)[:, None]) for column, n in zip(columns, self.n_classes, strict=True)]
        ).astype(np.float64)

    def _by_target(self, statistics: Array) -> list[Array]:
        return np.split(statistics, np.cumsum(self.n_classes)[:-1])

    def log_evidence(self, statistics: Array) -> Array:
        """Return the log marginal likelihood of the classes of each node's rows in sequence (Buntine 1992, eq. 1)."""
        parts = [
            dirichlet_evidence(counts, self._alphas(len(counts)), *self._tables(len(counts)))
            for counts in self._by_target(np.ascontiguousarray(statistics))
        ]
        return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)

    def _alphas(self, n_classes: int) -> Array:
        return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), n_classes)

    def _tables(self, n_classes: int) -> tuple[Array, Array]:
        """Return tables of the log gamma of each alpha plus 0, 1, ... and of their sum plus 0, 1, ..."""
        if isinstance(self.alpha, tuple):
            steps = np.arange(_SMALL_TABLE)
            return gammaln(np.array(self.alpha)[:, None] + steps), gammaln(sum_in_order(self.alpha) + steps)
        of_one = np.broadcast_to(_log_gammas(self.alpha), (n_classes, _TABLE))
        return of_one, _log_gammas(n_classes * self.alpha)

    def values(self, statistics: Array) -> Array:
        """Return the posterior mean probabilities, in the layout of tree values."""
        return self._as_values([self._shares(counts) for counts in self._by_target(statistics)])

    def _shares(self, counts: Array) -> Array:
        alphas = self._alphas(len(counts))
        return (counts + alphas[:, None]) * (1.0 / sum(counts, start=sum_in_order(alphas)))

    def posterior(self, nodes: Nodes, leaves: NDArray[np.number], split: Array) -> NodePosterior | None:
        """Return the posterior by tables of products and of log gammas, given the prior split probabilities of nodes.

        This fast path needs integer weights, a number of rows that fits 32 bits, and equal alphas of all classes;
        otherwise it returns None.
        """
        if leaves.dtype.kind != "u" or isinstance(self.alpha, tuple) or min(self.n_classes) == 1:
            return None
        if leaves.sum(dtype=np.float64) >= _MAX_ROWS:
            return None
        alpha, n_classes = self.alpha, self.n_classes
        few = _few_of_classes(alpha, n_classes, float(split.max()))
        tables = (
            _products(alpha, few),
            [_inverse_products(n * alpha, few) for n in n_classes],
            _log_gammas(alpha),
            [_log_gammas(n * alpha) for n in n_classes],
        )
        leaves = np.ascontiguousarray(leaves, dtype=np.uint32 if leaves.dtype.itemsize == 8 else leaves.dtype)
        return NodePosterior(*class_posterior(nodes, leaves, list(n_classes), alpha, tables, split))

    @staticmethod
    def _as_values(parts: list[Array]) -> Array:
        # Trees hold the probability of the second class, which is 0 for a single class, or of each of several classes.
        return np.concatenate([part[1:] if len(part) == 2 else part * (len(part) > 1) for part in parts])

    def draw(self, statistics: Array, random: np.random.Generator) -> Array:
        """Draw probabilities from the posterior."""
        parts = self._by_target(statistics)
        gammas = [random.standard_gamma(counts + self._alphas(len(counts))[:, None]) for counts in parts]
        # With small parameters, all gamma variates may underflow to 0.
        return self._as_values([np.maximum(part, 1e-300) / np.maximum(part, 1e-300).sum(axis=0) for part in gammas])

    def cdf(self, statistics: Array, x: Array, column: int, *, of_target: bool = False) -> Array:
        """Return the posterior (beta) distribution function of a class's probability."""
        return betainc(*self._beta(statistics, column), x)

    def quantile(self, statistics: Array, level: float, column: int, *, of_target: bool = False) -> Array:
        """Return the posterior (beta) quantile of a class's probability."""
        return betaincinv(*self._beta(statistics, column), level)

    def _beta(self, counts: Array, column: int) -> tuple[Array, Array]:
        """Return the parameters of the beta posterior of one class's probability."""
        alphas = self._alphas(len(counts))
        first, total = counts[column] + alphas[column], counts.sum(axis=0) + alphas.sum()
        scale = np.minimum(1.0, _MANY / total)
        # The limit keeps parameters positive if alpha is tiny, or is rounded away because there are very many rows.
        least = np.finfo(np.float64).tiny
        return np.maximum(first * scale, least), np.maximum((total - first) * scale, least)


@cache
def _log_factors(shape: float, weight: float) -> Array:
    """Return the log factors of the evidence of 0, 1, ... numbers that do not depend on their values."""
    return _log_gammas(shape, 0.5) - gammaln(shape) + 0.5 * log(weight / (weight + np.arange(_TABLE)))


@dataclass(frozen=True)
class NumberPrior:
    """Normal-inverse-gamma prior of mean and variance; the statistics are the sums of weights times 1, z and z^2.

    Here z is the target minus `location`; z and z^2 have a row for each target.
    """

    location: Array  # prior mean of each target
    variance: Array  # variance of each target, the unit of `scale`
    weight: float  # weight of the prior mean in rows (kappa)
    shape: float  # weight of the prior variance in pairs of rows (a)
    scale: float  # prior variance (b / a) in units of `variance`

    def statistics(self, y: Array) -> Array:
        """Return 1, z and z^2 of each row."""
        z = y.reshape(len(y), -1).T - self.location[:, None]
        return np.concatenate([np.ones((1, len(y))), z, z * z])

    def _posterior(self, statistics: Array) -> tuple[Array, Array, Array, Array]:
        """Return the posterior's weight and shape, (n_nodes,), and mean and rate, (n_targets, n_nodes).

        The order is weight, mean, shape, rate.
        """
        n_targets = len(self.location)
        total, first, second = statistics[0], statistics[1 : 1 + n_targets], statistics[1 + n_targets :]
        worth = self.weight + total
        mean = first / worth
        squares = np.maximum(second - first * mean, 0.0)
        return worth, mean, self.shape + total / 2, self._rate[:, None] + squares / 2

    @property
    def _rate(self) -> Array:
        # Constant targets get a small variance that still exceeds their rounding errors.
        variance = np.maximum(self.variance, self.location**2 * 1e-28)
        rate = self.shape * self.scale * np.where(variance > 0, np.maximum(variance, 1e-200), 1e-20)
        return np.maximum(rate, np.finfo(np.float64).tiny)

    def log_evidence(self, statistics: Array) -> Array:
        """Return the log marginal likelihood of each node's targets, a product of Student's t predictive densities."""
        worth, _, shape, rate = self._posterior(statistics)
        n_rows = np.minimum(statistics[0], _TABLE).astype(np.intp)
        is_known = (n_rows == statistics[0]).all() and n_rows.max(initial=0) < _TABLE
        of_shape = _log_gammas(self.shape, 0.5)[n_rows] if is_known else gammaln(shape)
        common = of_shape - gammaln(self.shape) + 0.5 * log(self.weight / worth)
        common -= 0.5 * log(2 * np.pi) * statistics[0]
        return np.sum(common + self.shape * log(self._rate)[:, None] - shape * log(rate), axis=0)

    def values(self, statistics: Array) -> Array:
        """Return the posterior means."""
        return self.location[:, None] + self._posterior(statistics)[1]

    def posterior(self, nodes: Nodes, leaves: NDArray[np.number], split: Array) -> NodePosterior | None:
        """Return the posterior by a table of all factors that do not depend on the sum of squares."""
        total, n_targets = leaves[0], len(self.location)
        if not are_whole(total) or total.sum(dtype=np.float64) >= _MAX_ROWS:
            return None
        rows, rate = np.arange(_MAX_TABLED_ROWS), self._rate
        squares = (leaves[1 + n_targets :] / total).max(axis=1).astype(np.float64)
        log_factors = _log_factors(self.shape, self.weight)
        logs = log_factors[:_MAX_TABLED_ROWS]
        most = np.abs(logs) + (self.shape + rows / 2) * log1p(0.5 * rows * (squares / rate)[:, None])
        few = _few(most.sum(axis=0) - log1p(-float(split.max())))
        leaves = np.ascontiguousarray(leaves, dtype=leaves.dtype if leaves.dtype.kind == "f" else np.float64)
        factors = exp(logs[: few + 1])
        worth = (self.weight, self.shape)
        arrays = number_posterior(nodes, leaves, self.location, rate, worth, factors, log_factors, split)
        return NodePosterior(*arrays)

    def draw(self, statistics: Array, random: np.random.Generator) -> Array:
        """Draw means from the posterior."""
        worth, mean, shape, rate = self._posterior(statistics)
        variance = rate / random.standard_gamma(np.broadcast_to(shape, rate.shape))
        return self.location[:, None] + mean + np.sqrt(variance / worth) * random.standard_normal(mean.shape)

    def cdf(self, statistics: Array, x: Array, column: int, *, of_target: bool = False) -> Array:
        """Return the posterior (Student's t) distribution function of the mean, or of a new target."""
        freedom, middle, width = self._student(statistics, column, of_target)
        with np.errstate(over="ignore"):  # the width may be close to 0
            return stdtr(freedom, (x - middle) / width)

    def quantile(self, statistics: Array, level: float, column: int, *, of_target: bool = False) -> Array:
        """Return the posterior (Student's t) quantile of the mean, or of a new target."""
        freedom, middle, width = self._student(statistics, column, of_target)
        return middle + width * stdtrit(freedom, level)

    def _student(self, statistics: Array, column: int, of_target: bool) -> tuple[Array, Array, Array]:
        """Return degrees of freedom, centre and scale of the Student's t posterior of the mean, or of a new target."""
        worth, mean, shape, rate = self._posterior(statistics)
        variance = rate[column] / shape * (1 / worth + of_target)
        return 2 * shape, self.location[column] + mean[column], np.maximum(np.sqrt(variance), _MIN_WIDTH)


def location_and_variance(y: Array, weight: Array | None) -> tuple[Array, Array]:
    """Return mean and variance of each target, rounded to about six digits to be independent of the summation order."""
    columns = y.reshape(len(y), -1)
    mean = np.average(columns, axis=0, weights=weight)
    variance = np.average((columns - mean) ** 2, axis=0, weights=weight)
    fraction, exponent = np.frexp(variance)
    step = np.ldexp(1.0, (np.frexp(np.maximum(variance, 1e-300))[1] - 1) // 2 - 20)
    return np.rint(mean / step) * step, np.ldexp(np.rint(np.ldexp(fraction, 24)), exponent - 24)


@dataclass(frozen=True)
class RatePrior:
    """Gamma prior of the rate of Poisson counts; the statistics are sums of weights times 1, y and log y!.

    The sums of y have a row for each target.
    """

    rate: Array  # prior mean of each target
    weight: float  # weight of the prior in rows

    def statistics(self, y: Array) -> Array:
        """Return 1, y and log y! of each row."""
        columns = y.reshape(len(y), -1).T
        factorials = gammaln(columns + 1).sum(axis=0)
        return np.concatenate([np.ones((1, len(y))), columns, factorials[None]])

    @property
    def _shape(self) -> Array:
        """Shape of each target's prior; the lower limit keeps the prior proper if the rate rounds to 0."""
        return np.maximum(self.weight * self.rate, _MIN_SHAPE)

    def _posterior(self, statistics: Array) -> tuple[Array, Array]:
        return self._shape[:, None] + statistics[1:-1], self.weight + statistics[0]

    def log_evidence(self, statistics: Array) -> Array:
        """Return the log marginal likelihood of each node's counts."""
        shape, worth = self._posterior(statistics)
        before = self._shape
        at_start = before * log(self.weight) - gammaln(before)
        return np.sum(at_start[:, None] + gammaln(shape) - shape * log(worth), axis=0) - statistics[-1]

    def values(self, statistics: Array) -> Array:
        """Return the posterior mean rates."""
        shape, worth = self._posterior(statistics)
        return shape / worth

    def posterior(self, nodes: Nodes, leaves: NDArray[np.number], split: Array) -> NodePosterior | None:
        """Return None: there is no fast path, because counts are not bounded."""
        return None

    def draw(self, statistics: Array, random: np.random.Generator) -> Array:
        """Draw rates from the posterior."""
        shape, worth = self._posterior(statistics)
        return random.standard_gamma(shape) / worth

    def cdf(self, statistics: Array, x: Array, column: int, *, of_target: bool = False) -> Array:
        """Return the gamma distribution function of the rate, or the negative binomial one of a new count."""
        shape, worth = self._posterior(statistics)
        if not of_target:
            return gammainc(shape[column], worth * np.maximum(x, 0))
        mean, deviation = self._of_count(shape[column], worth)
        count, bounded = np.floor(np.maximum(x, 0)), np.minimum(worth, _MANY)
        of_few = betaincc(count + 1, np.minimum(mean, _MANY) * bounded, 1 / (1 + bounded))
        return np.where(x < 0, 0.0, np.where(mean < _MANY, of_few, ndtr((x - mean) / deviation)))

    def quantile(self, statistics: Array, level: float, column: int, *, of_target: bool = False) -> Array:
        """Return the gamma quantile of the rate, or the negative binomial quantile of a new count."""
        shape, worth = self._posterior(statistics)
        quantiles = gammaincinv(shape[column], level) / worth
        if not of_target:
            return quantiles
        mean, deviation = self._of_count(shape[column], worth)
        # Find the smallest count whose distribution function reaches the level, by doubling and then bisection.
        high = np.ceil(np.minimum(quantiles, _MANY)) + 1
        while (short := (mean < _MANY) & (self.cdf(statistics, high, column, of_target=True) < level)).any():
            high[short] *= 2
        low = np.full_like(high, -1.0)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            enough = self.cdf(statistics, middle, column, of_target=True) >= level
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        return np.where(mean < _MANY, high, mean + deviation * ndtri(level))

    @staticmethod
    def _of_count(shape: Array, worth: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of a new count, for the normal approximation at large means."""
        mean = shape / worth
        return mean, np.sqrt(mean) * np.sqrt(1 + 1 / worth)


LeafPrior = ClassPrior | NumberPrior | RatePrior
