"""Conditional linear Gaussian networks by enumeration: one multivariate normal for each cell of discrete variables."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.stats import multivariate_normal


def components(network):
    """Yield (cell, probability, mean, covariance) for all values of the discrete variables, whose moments are 0."""
    n = len(network.names)
    for cell in product(*map(range, network.sizes)):
        p = 1.0
        for family, table in zip(network.families, network.tables, strict=True):
            p *= table[tuple(cell[v] for v in family)]
        # x = b + A x + noise, so x = (I - A)^-1 (b + noise)
        slopes, intercept, noise = np.zeros((n, n)), np.zeros(n), np.zeros(n)
        for v, regressions in network.regressions.items():
            found = regressions[tuple(cell[u] for u in network.families[v])]
            numbers = [u for u in network.parents[v] if u in network.continuous]
            intercept[v], slopes[v, numbers], noise[v] = found[0], found[1:-1], found[-1]
        inverse = np.linalg.inv(np.eye(n) - slopes)
        yield cell, p, inverse @ intercept, inverse @ np.diag(noise) @ inverse.T


def given(network, evidence):
    """Yield each cell, its joint density with the evidence, and the mean and covariance of the rest.

    Evidence on a continuous variable is a float, or a number and the standard deviation of its noise; on a discrete
    variable a position, or likelihoods of all values.
    """
    numbers = [v for v in evidence if v in network.continuous]
    observed = [evidence[v] if isinstance(evidence[v], tuple) else (evidence[v], 0.0) for v in numbers]
    value, noise = np.array(observed).reshape(-1, 2).T
    rest = [v for v in sorted(network.continuous) if v not in numbers or isinstance(evidence[v], tuple)]
    for cell, prior, mean, covariance in components(network):
        p = np.longdouble(prior)
        for v in set(evidence) - set(numbers):
            p = p * (evidence[v][cell[v]] if isinstance(evidence[v], np.ndarray) else cell[v] == evidence[v])
        centre, spread = mean[rest], covariance[np.ix_(rest, rest)]
        if numbers:
            across, within = covariance[np.ix_(rest, numbers)], covariance[np.ix_(numbers, numbers)] + np.diag(noise**2)
            p = p * np.exp(np.longdouble(multivariate_normal(mean[numbers], within).logpdf(value)))
            weights = np.linalg.solve(within, across.T).T
            centre = centre + weights @ (value - mean[numbers])
            spread = spread - weights @ across.T
        yield cell, p, dict(zip(rest, centre, strict=True)), (rest, spread)


def query(network, variables, evidence):
    """P(discrete variables | evidence) and the density of the evidence."""
    out = np.zeros([network.sizes[v] for v in variables], dtype=np.longdouble)
    for cell, p, _, _ in given(network, evidence):
        out[tuple(cell[v] for v in variables)] += p
    return (out / out.sum()).astype(np.float64), out.sum()


def moments(network, variables, evidence):
    """Mean and covariance of continuous variables given evidence."""
    total, first, second = 0.0, 0.0, 0.0
    for _, p, mean, (rest, spread) in given(network, evidence):
        at = [rest.index(v) for v in variables]
        centre = np.array([mean[v] for v in variables])
        total, first = total + p, first + p * centre
        second = second + p * (spread[np.ix_(at, at)] + np.outer(centre, centre))
    mean = first / total
    return mean.astype(np.float64), (second / total - np.outer(mean, mean)).astype(np.float64)
