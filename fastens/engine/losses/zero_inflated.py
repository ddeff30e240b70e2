"""The zero-inflated Poisson distribution with the interface of scipy.stats, which lacks it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


class _ZeroInflatedPoisson(stats.rv_discrete):
    def _argcheck(self, mu: Array, p_excess: Array) -> Any:
        """Return True where the Poisson mean `mu` is nonnegative and the probability `p_excess` is between 0 and 1."""
        return (mu >= 0) & (p_excess >= 0) & (p_excess <= 1)

    def _pmf(self, k: Array, mu: Array, p_excess: Array) -> Array:
        """Return P(count = k), where counts are 0 with probability `p_excess`, otherwise Poisson with mean `mu`."""
        return (k == 0) * p_excess + (1 - p_excess) * stats.poisson.pmf(k, mu)

    def _logpmf(self, k: Array, mu: Array, p_excess: Array) -> Array:
        """Return log P(count = k), where counts are 0 with probability `p_excess`, otherwise Poisson with mean `mu`."""
        with np.errstate(divide="ignore"):
            counts = np.log1p(-p_excess) + stats.poisson.logpmf(k, mu)
            return np.where(k == 0, np.logaddexp(np.log(p_excess), counts), counts)

    def _cdf(self, x: Array, mu: Array, p_excess: Array) -> Array:
        """Return P(count <= x), where counts are 0 with probability `p_excess`, otherwise Poisson with mean `mu`."""
        return np.where(x < 0, 0.0, p_excess + (1 - p_excess) * stats.poisson.cdf(x, mu))

    def _sf(self, x: Array, mu: Array, p_excess: Array) -> Array:
        """Return P(count > x), where counts are 0 with probability `p_excess`, otherwise Poisson with mean `mu`."""
        return np.where(x < 0, 1.0, (1 - p_excess) * stats.poisson.sf(x, mu))

    def _ppf(self, q: Array, mu: Array, p_excess: Array) -> Array:
        """Return the smallest counts whose cumulative probability is at least `q`, for the parameters of `_cdf`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = (q - p_excess) / (1 - p_excess)
        return np.where(q <= p_excess, 0.0, stats.poisson.ppf(np.clip(rest, 0.0, 1.0), mu).clip(0))

    def _stats(self, mu: Array, p_excess: Array) -> tuple[Array, Array, None, None]:
        """Return mean and variance for parameters `mu` and `p_excess`; None lets scipy derive skewness and kurtosis."""
        mean = (1 - p_excess) * mu
        return mean, mean * (1 + p_excess * mu), None, None

    def _rvs(self, mu: Array, p_excess: Array, size: Any = None, random_state: Any = None) -> Array:
        """Draw counts of shape `size`: 0 with probability `p_excess`, otherwise Poisson with mean `mu`."""
        is_count = random_state.random_sample(size) >= p_excess
        return np.where(is_count, random_state.poisson(mu, size), 0)


zero_inflated_poisson = _ZeroInflatedPoisson(name="zero_inflated_poisson", shapes="mu, p_excess")
