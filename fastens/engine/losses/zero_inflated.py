"""The zero-inflated Poisson distribution with the interface of scipy.stats, which lacks it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


class _ZeroInflatedPoisson(stats.rv_discrete):
    def _argcheck(self, mu: Array, zeros: Array) -> Any:
        """Return True where the parameters are valid: the Poisson mean `mu`, and the probability of excess `zeros`."""
        return (mu >= 0) & (zeros >= 0) & (zeros <= 1)

    def _pmf(self, k: Array, mu: Array, zeros: Array) -> Array:
        """Return the probability of the counts `k`."""
        return (k == 0) * zeros + (1 - zeros) * stats.poisson.pmf(k, mu)

    def _logpmf(self, k: Array, mu: Array, zeros: Array) -> Array:
        """Return the logarithm of the probability of the counts `k`."""
        with np.errstate(divide="ignore"):
            counts = np.log1p(-zeros) + stats.poisson.logpmf(k, mu)
            return np.where(k == 0, np.logaddexp(np.log(zeros), counts), counts)

    def _cdf(self, x: Array, mu: Array, zeros: Array) -> Array:
        """Return the probability that the count is at most `x`."""
        return np.where(x < 0, 0.0, zeros + (1 - zeros) * stats.poisson.cdf(x, mu))

    def _sf(self, x: Array, mu: Array, zeros: Array) -> Array:
        """Return the probability that the count is above `x`."""
        return np.where(x < 0, 1.0, (1 - zeros) * stats.poisson.sf(x, mu))

    def _ppf(self, q: Array, mu: Array, zeros: Array) -> Array:
        """Return the smallest counts whose cumulative probability is at least `q`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = (q - zeros) / (1 - zeros)
        return np.where(q <= zeros, 0.0, stats.poisson.ppf(np.clip(rest, 0.0, 1.0), mu).clip(0))

    def _stats(self, mu: Array, zeros: Array) -> tuple[Array, Array, None, None]:
        """Return the mean and the variance of the counts; scipy derives skewness and kurtosis from the moments."""
        mean = (1 - zeros) * mu
        return mean, mean * (1 + zeros * mu), None, None

    def _rvs(self, mu: Array, zeros: Array, size: Any = None, random_state: Any = None) -> Array:
        """Draw random counts of shape `size` with the generator `random_state`."""
        is_count = random_state.random_sample(size) >= zeros
        return np.where(is_count, random_state.poisson(mu, size), 0)


zero_inflated_poisson = _ZeroInflatedPoisson(name="zero_inflated_poisson", shapes="mu, zeros")
