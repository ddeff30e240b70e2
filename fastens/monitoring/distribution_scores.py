"""Scores of predicted distributions: negative log likelihood and continuous ranked probability score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from fastens.params.rules import PROBABILITY, whole

Array = NDArray[np.float64]

# Nodes of the integrals on either side of the target.
_N_NODES = 64
# Above this count, the steps of a discrete distribution are so small that it is integrated like a continuous one.
_MAX_SUMMED = 2_000
_NEGLIGIBLE = 1e-7
_SMALLEST_TAIL = 1e-16


def negative_log_likelihood(y: ArrayLike, dist: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean negative log likelihood of targets under predicted distributions; lower is better.

    Parameters
    ----------
    y : array of shape (n_samples,)
        Targets.
    dist : frozen distribution of scipy.stats
        Distributions of the targets, as `GradientBoostingRegressor.predict_dist` returns them.
    sample_weight : array of shape (n_samples,), optional
        Sample weights. If None, all weights are 1.

    Returns
    -------
    float

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from fastens import negative_log_likelihood
    >>> round(negative_log_likelihood([0.0, 1.0], norm([0.0, 1.0], 1.0)), 4)
    0.9189
    """
    y = np.asarray(y, dtype=np.float64)
    return _mean(-(dist.logpmf(y) if _is_discrete(dist) else dist.logpdf(y)), sample_weight)


def crps(y: ArrayLike, dist: Any, sample_weight: ArrayLike | None = None) -> float:
    """Return the mean continuous ranked probability score of predicted distributions; lower is better.

    The score of a row is the integral of (F(x) - 1[x >= y])**2 over x, where F is the predicted distribution function.
    It has the unit of the target, and for a point prediction it is the absolute error (Gneiting & Raftery 2007).

    Parameters
    ----------
    y : array of shape (n_samples,)
        Targets.
    dist : frozen distribution of scipy.stats
        Distributions of the targets, as `GradientBoostingRegressor.predict_dist` returns them.
    sample_weight : array of shape (n_samples,), optional
        Sample weights. If None, all weights are 1.

    Returns
    -------
    float

    Examples
    --------
    >>> from scipy.stats import norm
    >>> from fastens import crps
    >>> round(crps([0.0, 1.0], norm([0.0, 1.0], 1.0)), 4)
    0.2337
    """
    y = np.asarray(y, dtype=np.float64)
    if getattr(dist.dist, "name", None) == "norm":
        from scipy.special import ndtr

        z = (y - dist.mean()) / dist.std()
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        scores = z * (2 * ndtr(z) - 1) + 2 * density - 1 / math.sqrt(math.pi)
        return _mean(dist.std() * scores, sample_weight)
    if _is_discrete(dist):
        largest = max(float(np.max(dist.ppf(1 - _NEGLIGIBLE), initial=0.0)), float(y.max(initial=0.0)))
        if largest <= _MAX_SUMMED:
            counts = np.arange(largest + 1)
            return _mean(sum((dist.cdf(np.full(y.shape, k)) - (k >= y)) ** 2 for k in counts), sample_weight)
    return _mean(_integrals(y, dist), sample_weight)


def _integrals(y: Array, dist: Any) -> Array:
    """Return the CRPS of each row as twice the pinball loss, integrated over the quantile levels on each side of y."""
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    below, total = np.clip(dist.cdf(y), 0.0, 1.0), np.zeros(y.shape)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        # The nodes are concentrated at both ends, where quantiles may be unbounded.
        tail, of_tail = node**3 * (10 - 15 * node + 6 * node**2), weight * 30 * (node * (1 - node)) ** 2
        for share, quantile in ((below, dist.ppf(below * tail)), (1 - below, dist.isf((1 - below) * tail))):
            # Discrete distributions of scipy.stats have infinite quantiles beyond the precision of a float.
            away = np.where(share * tail > _SMALLEST_TAIL, np.abs(y - quantile), 0.0)
            total += of_tail * 2 * share * share * tail * away
    return total


def _is_discrete(dist: Any) -> bool:
    """Return True if a frozen distribution of scipy.stats has probabilities of single values."""
    return hasattr(dist.dist, "pmf")


def _mean(values: Array, sample_weight: ArrayLike | None) -> float:
    """Return the mean of the values as a float, weighted unless `sample_weight` is None."""
    return float(np.average(values, weights=None if sample_weight is None else np.asarray(sample_weight)))


def quantiles_of(dist: Any, quantiles: Any) -> Array:
    """Return quantiles of frozen distributions, (n_rows, n_quantiles).

    Raises ValueError unless `quantiles` holds numbers between 0 and 1.
    """
    levels = np.atleast_1d(np.asarray(quantiles, dtype=object))
    if levels.ndim != 1 or not all(map(PROBABILITY.holds, levels)):
        raise ValueError(f"quantiles must hold numbers between 0 and 1; got {quantiles!r}.")
    with np.errstate(over="ignore"):
        return np.column_stack([np.asarray(dist.ppf(float(level)), dtype=np.float64) for level in levels])


def draws_of(dist: Any, n_draws: int, random_state: Any) -> Array:
    """Return random draws from frozen distributions, (n_rows, n_draws); raise ValueError unless `n_draws` >= 1."""
    whole(1).check("n_draws", n_draws)
    n_rows = len(dist.ppf(0.5))
    drawn = dist.rvs(size=(n_draws, n_rows), random_state=check_random_state(random_state))
    return np.ascontiguousarray(drawn.T, dtype=np.float64)
