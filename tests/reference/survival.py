"""Naive twins of the survival kernels: the formulas, row by row."""

from __future__ import annotations

import numpy as np
from scipy import stats

DISTRIBUTIONS = {"normal": stats.norm, "logistic": stats.logistic, "extreme": stats.gumbel_l}


def cox_loss(y, raw, weight):
    """Minus the partial log likelihood with Breslow's ties."""
    time, total = y[:, 0], 0.0
    for i in np.flatnonzero(y[:, 0] == y[:, 1]):
        at_risk = time >= time[i]
        total -= weight[i] * (raw[i] - np.log((weight * np.exp(raw))[at_risk].sum()))
    return total


def cumulative_hazard(y, raw, weight, at):
    """Breslow's estimate at each time of `at`."""
    time, event = y[:, 0], y[:, 0] == y[:, 1]
    jumps = [weight[i] / (weight * np.exp(raw))[time >= time[i]].sum() if event[i] else 0.0 for i in range(len(y))]
    return np.array([sum(jump for jump, t in zip(jumps, time, strict=True) if t <= moment) for moment in at])


def aft_losses(y, raw, distribution, scale):
    """Minus the log likelihood of each row."""
    found = DISTRIBUTIONS[distribution]
    with np.errstate(divide="ignore"):
        low, high = (np.log(y) - raw[:, None]).T / scale
    density = found.logpdf(low) - np.log(scale * np.maximum(y[:, 0], 1e-300))
    between = np.where(low > 0, found.sf(low) - found.sf(high), found.cdf(high) - found.cdf(low))
    return -np.where(y[:, 0] == y[:, 1], density, np.log(np.maximum(between, 1e-300)))


def concordance(y, later, weight):
    """Over all pairs."""
    right = total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            censored_then = y[j, 0] == y[i, 1] and y[j, 1] > y[j, 0]
            if np.isfinite(y[i, 1]) and (y[i, 1] < y[j, 0] or censored_then):
                pair = weight[i] * weight[j]
                total += pair
                right += pair * ((later[i] < later[j]) + (later[i] == later[j]) / 2)
    return right / total
