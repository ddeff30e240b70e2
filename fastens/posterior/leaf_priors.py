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


def _max_safe_rows(log_range: Array) -> int:
    """Return the largest number of rows for which the evidence of a node is in the range of float64.

    `log_range[n]` is an upper bound of the absolute log evidence of n rows.
    """
    return int(np.searchsorted(log_range > _LARGEST_LOG, True)) - 1


@cache
def _log_gammas(alpha: float, step: float = 1.0) -> Array:
    """Return a read-only table of the log gamma of alpha, alpha + step, alpha + 2 step, ..., shape (_TABLE,)."""
    table = gammaln(alpha + step * np.arange(_TABLE))
    table.flags.writeable = False
    return table


@cache
def _max_safe_class_rows(alpha: float, n_classes: tuple[int, ...], max_split: float) -> int:
    """Return the largest number of rows for which the evidence of a node is in the range of float64.

    The prior is a symmetric Dirichlet prior with pseudo-count `alpha`. `n_classes` has the number of classes of each
    target, and `max_split` is the largest prior split probability.
    """

    def largest(first: float, signs: Array) -> Array:
        """Return the running maximum of the signed logarithms of products of 0, 1, ... factors."""
        logs = np.concatenate([[0.0], np.cumsum(log((first + np.arange(_MAX_TABLED_ROWS)) / _SCALE))])
        return np.maximum.accumulate(np.max(np.multiply.outer(signs, logs), axis=0))

    # In the worst case, the product of one class is large and all others are small.
    both, small = np.array([-1.0, 1.0]), np.array([-1.0])
    rows = np.arange(_MAX_TABLED_ROWS + 1)
    most = np.full(len(rows), -log1p(-max_split))
    for n in n_classes:
        by_rows = rows * log(_SCALE) + np.minimum(rows, n) * max(-log(alpha), 0.0)
        most += largest(n * alpha, both) + largest(alpha, both) + np.minimum(n * largest(alpha, small), by_rows)
    return _max_safe_rows(most)


@cache
def _products(first: float, n: int) -> Array:
    """Return first (first + 1) ... (first + i - 1) / scale^i for i = 0, 1, ..., n, shape (n + 1,)."""
    return np.concatenate([[1.0], np.cumprod((first + np.arange(n)) / _SCALE)])


@cache
def _inverse_products(first: float, n: int) -> Array:
    """Return the inverses of `_products(first, n)`, shape (n + 1,)."""
    return 1 / _products(first, n)


@dataclass(frozen=True)
class ClassPrior:
    """Dirichlet prior of the class probabilities of each target; the statistics are the weights of the classes."""

    alpha: float | tuple[float, ...]  # pseudo-count of each class; a tuple only with a single target
    n_classes: tuple[int, ...]  # number of classes of each target

    def statistics(self, y: Array) -> Array:
        """Return the one-hot encoding of the class codes `y` of each target, shape (sum of n_classes, n_rows)."""
        columns = y.reshape(len(y), -1).T
        return np.concatenate(
            [(column == np.arange(n)[:, None]) for column, n in zip(columns, self.n_classes, strict=True)]
        ).astype(np.float64)

    def _split_targets(self, statistics: Array) -> list[Array]:
        """Split statistics into one array of class weights, (n_classes, n_nodes), for each target."""
        return np.split(statistics, np.cumsum(self.n_classes)[:-1])

    def log_evidence(self, statistics: Array) -> Array:
        """Return the log marginal likelihood of the classes of the rows of each node, shape (n_nodes,)."""
        parts = [
            dirichlet_evidence(counts, self._alphas(len(counts)), *self._log_gamma_tables(len(counts)))
            for counts in self._split_targets(np.ascontiguousarray(statistics))
        ]
        return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)

    def _alphas(self, n_classes: int) -> Array:
        """Return the pseudo-count of each class of a target, shape (n_classes,)."""
        return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), n_classes)

    def _log_gamma_tables(self, n_classes: int) -> tuple[Array, Array]:
        """Return the log gammas of alpha_k + i, (n_classes, n_entries), and of the sum of alphas + i, (n_entries,).

        alpha_k is the pseudo-count of class k of a target with `n_classes` classes, and i is 0, 1, ..., n_entries - 1.
        """
        if isinstance(self.alpha, tuple):
            steps = np.arange(_SMALL_TABLE)
            return gammaln(np.array(self.alpha)[:, None] + steps), gammaln(sum_in_order(self.alpha) + steps)
        of_one = np.broadcast_to(_log_gammas(self.alpha), (n_classes, _TABLE))
        return of_one, _log_gammas(n_classes * self.alpha)

    def values(self, statistics: Array) -> Array:
        """Return the posterior mean probabilities of each node, (n_values, n_nodes), as trees store them.

        Binary targets have the probability of the second class, other targets the probability of each class.
        """
        return self._to_tree_values([self._mean_probabilities(counts) for counts in self._split_targets(statistics)])

    def _mean_probabilities(self, counts: Array) -> Array:
        """Return the posterior mean class probabilities of a target from its class counts, (n_classes, n_nodes)."""
        alphas = self._alphas(len(counts))
        return (counts + alphas[:, None]) * (1.0 / sum(counts, start=sum_in_order(alphas)))

    def posterior(self, nodes: Nodes, leaves: NDArray[np.number], split: Array) -> NodePosterior | None:
        """Return the posterior of all nodes from the class counts of the leaves, or None if it has no fast path.

        `leaves` has the shape (sum of n_classes, n_leaves), and `split` the prior split probability of each node. The
        fast path needs counts of an unsigned integer type, fewer than 2^31 rows, a scalar `alpha`, and at least two
        classes of each target.
        """
        if leaves.dtype.kind != "u" or isinstance(self.alpha, tuple) or min(self.n_classes) == 1:
            return None
        if leaves.sum(dtype=np.float64) >= _MAX_ROWS:
            return None
        alpha, n_classes = self.alpha, self.n_classes
        max_rows = _max_safe_class_rows(alpha, n_classes, float(split.max()))
        tables = (
            _products(alpha, max_rows),
            [_inverse_products(n * alpha, max_rows) for n in n_classes],
            _log_gammas(alpha),
            [_log_gammas(n * alpha) for n in n_classes],
        )
        leaves = np.ascontiguousarray(leaves, dtype=np.uint32 if leaves.dtype.itemsize == 8 else leaves.dtype)
        return NodePosterior(*class_posterior(nodes, leaves, list(n_classes), alpha, tables, split))

    @staticmethod
    def _to_tree_values(parts: list[Array]) -> Array:
        """Join class probabilities of all targets; binary targets keep the second class, single classes become 0."""
        # Trees hold the probability of the second class, which is 0 for a single class, or of each of several classes.
        return np.concatenate([part[1:] if len(part) == 2 else part * (len(part) > 1) for part in parts])

    def draw(self, statistics: Array, random: np.random.Generator) -> Array:
        """Draw class probabilities of each node from the posterior, shape (n_values, n_nodes), as trees store them."""
        parts = self._split_targets(statistics)
        gammas = [random.standard_gamma(counts + self._alphas(len(counts))[:, None]) for counts in parts]
        # With small parameters, all gamma variates may underflow to 0.
        return self._to_tree_values(
            [np.maximum(part, 1e-300) / np.maximum(part, 1e-300).sum(axis=0) for part in gammas]
        )

    def cdf(self, statistics: Array, x: Array, column: int, *, of_target: bool = False) -> Array:
        """Return P(probability of class `column` <= x) in each node under its posterior; `of_target` has no effect."""
        return betainc(*self._beta_parameters(statistics, column), x)

    def quantile(self, statistics: Array, level: float, column: int, *, of_target: bool = False) -> Array:
        """Return the posterior quantile of class `column`'s probability in each node; `of_target` has no effect."""
        return betaincinv(*self._beta_parameters(statistics, column), level)

    def _beta_parameters(self, counts: Array, column: int) -> tuple[Array, Array]:
        """Return both parameters of the beta posterior of the probability of class `column`, shape (n_nodes,) each.

        `counts` holds the class counts of a single target, (n_classes, n_nodes).
        """
        alphas = self._alphas(len(counts))
        first, total = counts[column] + alphas[column], counts.sum(axis=0) + alphas.sum()
        scale = np.minimum(1.0, _MANY / total)
        # The limit keeps parameters positive if alpha is tiny, or is rounded away because there are very many rows.
        least = np.finfo(np.float64).tiny
        return np.maximum(first * scale, least), np.maximum((total - first) * scale, least)


@cache
def _log_factors(shape: float, weight: float) -> Array:
    """Return the log of the factor of the evidence that depends on the number of rows n only, for all n < _TABLE.

    It is log gamma(shape + n / 2) - log gamma(shape) + log(weight / (weight + n)) / 2.
    """
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
        """Return 1, z and z^2 of each row, shape (1 + 2 * n_targets, n_rows), where z is target minus `location`."""
        z = y.reshape(len(y), -1).T - self.location[:, None]
        return np.concatenate([np.ones((1, len(y))), z, z * z])

    def _posterior_parameters(self, statistics: Array) -> tuple[Array, Array, Array, Array]:
        """Return weight (n_nodes,), mean (n_targets, n_nodes), shape (n_nodes,), and rate (n_targets, n_nodes).

        They are the parameters of the normal-inverse-gamma posterior; the mean is relative to `location`.
        """
        n_targets = len(self.location)
        total, first, second = statistics[0], statistics[1 : 1 + n_targets], statistics[1 + n_targets :]
        weight = self.weight + total
        mean = first / weight
        squares = np.maximum(second - first * mean, 0.0)
        return weight, mean, self.shape + total / 2, self._rate[:, None] + squares / 2

    @property
    def _rate(self) -> Array:
        """Return the rate of the prior of each target, shape (n_targets,), always greater than 0."""
        # Constant targets get a small variance that still exceeds their rounding errors.
        variance = np.maximum(self.variance, self.location**2 * 1e-28)
        rate = self.shape * self.scale * np.where(variance > 0, np.maximum(variance, 1e-200), 1e-20)
        return np.maximum(rate, np.finfo(np.float64).tiny)

    def log_evidence(self, statistics: Array) -> Array:
        """Return the log marginal likelihood of the targets of the rows of each node, shape (n_nodes,)."""
        weight, _, shape, rate = self._posterior_parameters(statistics)
        n_rows = np.minimum(statistics[0], _TABLE).astype(np.intp)
        is_known = (n_rows == statistics[0]).all() and n_rows.max(initial=0) < _TABLE
        of_shape = _log_gammas(self.shape, 0.5)[n_rows] if is_known else gammaln(shape)
        common = of_shape - gammaln(self.shape) + 0.5 * log(self.weight / weight)
        common -= 0.5 * log(2 * np.pi) * statistics[0]
        return np.sum(common + self.shape * log(self._rate)[:, None] - shape * log(rate), axis=0)

    def values(self, statistics: Array) -> Array:
        """Return the posterior mean of each target in each node, shape (n_targets, n_nodes)."""
        return self.location[:, None] + self._posterior_parameters(statistics)[1]

    def posterior(self, nodes: Nodes, leaves: NDArray[np.number], split: Array) -> NodePosterior | None:
        """Return the posterior of all nodes from the sums of the leaves, or None if it has no fast path.

        `leaves` has the shape (1 + 2 * n_targets, n_leaves), and `split` the prior split probability of each node. The
        fast path needs leaves with integer weights whose total is below 2^31.
        """
        total, n_targets = leaves[0], len(self.location)
        if not are_whole(total) or total.sum(dtype=np.float64) >= _MAX_ROWS:
            return None
        rows, rate = np.arange(_MAX_TABLED_ROWS), self._rate
        squares = (leaves[1 + n_targets :] / total).max(axis=1).astype(np.float64)
        log_factors = _log_factors(self.shape, self.weight)
        logs = log_factors[:_MAX_TABLED_ROWS]
        most = np.abs(logs) + (self.shape + rows / 2) * log1p(0.5 * rows * (squares / rate)[:, None])
        max_rows = _max_safe_rows(most.sum(axis=0) - log1p(-float(split.max())))
        leaves = np.ascontiguousarray(leaves, dtype=leaves.dtype if leaves.dtype.kind == "f" else np.float64)
        factors = exp(logs[: max_rows + 1])
        weight = (self.weight, self.shape)
        arrays = number_posterior(nodes, leaves, self.location, rate, weight, factors, log_factors, split)
        return NodePosterior(*arrays)

    def draw(self, statistics: Array, random: np.random.Generator) -> Array:
        """Draw the means of the targets in each node from the posterior, shape (n_targets, n_nodes)."""
        weight, mean, shape, rate = self._posterior_parameters(statistics)
        variance = rate / random.standard_gamma(np.broadcast_to(shape, rate.shape))
        return self.location[:, None] + mean + np.sqrt(variance / weight) * random.standard_normal(mean.shape)

    def cdf(self, statistics: Array, x: Array, column: int, *, of_target: bool = False) -> Array:
        """Return P(mean of target `column` <= x) of each node or, if `of_target`, P(new target <= x) (Student's t)."""
        freedom, middle, width = self._student_parameters(statistics, column, of_target)
        with np.errstate(over="ignore"):  # the width may be close to 0
            return stdtr(freedom, (x - middle) / width)

    def quantile(self, statistics: Array, level: float, column: int, *, of_target: bool = False) -> Array:
        """Return the quantile of the mean of target `column` in each node or, if `of_target`, of a new target."""
        freedom, middle, width = self._student_parameters(statistics, column, of_target)
        return middle + width * stdtrit(freedom, level)

    def _student_parameters(self, statistics: Array, column: int, of_target: bool) -> tuple[Array, Array, Array]:
        """Return degrees of freedom, centre and scale of a Student's t distribution by node, shape (n_nodes,) each.

        It is the posterior of the mean of target `column` or, if `of_target` is True, the distribution of a new target.
        """
        weight, mean, shape, rate = self._posterior_parameters(statistics)
        variance = rate[column] / shape * (1 / weight + of_target)
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
        """Return 1, y and log y! of each row, shape (2 + n_targets, n_rows); log y! is summed over targets."""
        columns = y.reshape(len(y), -1).T
        factorials = gammaln(columns + 1).sum(axis=0)
        return np.concatenate([np.ones((1, len(y))), columns, factorials[None]])

    @property
    def _shape(self) -> Array:
        """Shape of each target's prior; the lower limit keeps the prior proper if the rate rounds to 0."""
        return np.maximum(self.weight * self.rate, _MIN_SHAPE)

    def _posterior_parameters(self, statistics: Array) -> tuple[Array, Array]:
        """Return the shapes (n_targets, n_nodes) and the rate parameters (n_nodes,) of the gamma posterior."""
        return self._shape[:, None] + statistics[1:-1], self.weight + statistics[0]

    def log_evidence(self, statistics: Array) -> Array:
        """Return the log marginal likelihood of the counts of the rows of each node, shape (n_nodes,)."""
        shape, weight = self._posterior_parameters(statistics)
        before = self._shape
        at_start = before * log(self.weight) - gammaln(before)
        return np.sum(at_start[:, None] + gammaln(shape) - shape * log(weight), axis=0) - statistics[-1]

    def values(self, statistics: Array) -> Array:
        """Return the posterior mean rate of each target in each node, shape (n_targets, n_nodes)."""
        shape, weight = self._posterior_parameters(statistics)
        return shape / weight

    def posterior(self, nodes: Nodes, leaves: NDArray[np.number], split: Array) -> NodePosterior | None:
        """Return None: there is no fast path, because counts are not bounded."""
        return None

    def draw(self, statistics: Array, random: np.random.Generator) -> Array:
        """Draw the rates of the targets in each node from the posterior, shape (n_targets, n_nodes)."""
        shape, weight = self._posterior_parameters(statistics)
        return random.standard_gamma(shape) / weight

    def cdf(self, statistics: Array, x: Array, column: int, *, of_target: bool = False) -> Array:
        """Return P(rate of target `column` <= x) of each node (gamma) or, if `of_target`, P(new count <= x)."""
        shape, weight = self._posterior_parameters(statistics)
        if not of_target:
            return gammainc(shape[column], weight * np.maximum(x, 0))
        mean, deviation = self._count_moments(shape[column], weight)
        count, bounded = np.floor(np.maximum(x, 0)), np.minimum(weight, _MANY)
        of_small_means = betaincc(count + 1, np.minimum(mean, _MANY) * bounded, 1 / (1 + bounded))
        return np.where(x < 0, 0.0, np.where(mean < _MANY, of_small_means, ndtr((x - mean) / deviation)))

    def quantile(self, statistics: Array, level: float, column: int, *, of_target: bool = False) -> Array:
        """Return the quantile of the rate of target `column` in each node or, if `of_target`, of a new count."""
        shape, weight = self._posterior_parameters(statistics)
        quantiles = gammaincinv(shape[column], level) / weight
        if not of_target:
            return quantiles
        mean, deviation = self._count_moments(shape[column], weight)
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
    def _count_moments(shape: Array, weight: Array) -> tuple[Array, Array]:
        """Return the mean and standard deviation of a new count whose rate is gamma(`shape`, `weight`) distributed."""
        mean = shape / weight
        return mean, np.sqrt(mean) * np.sqrt(1 + 1 / weight)


LeafPrior = ClassPrior | NumberPrior | RatePrior
