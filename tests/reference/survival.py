"""Naive twins of the survival kernels: the formulas, row by row."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.special import erfcx, expit

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


def standardised(y, raw, scale):
    """Both bounds, less the prediction, in units of the scale."""
    with np.errstate(divide="ignore"):
        return (np.log(y) - raw[:, None]).T / scale


def log_mass(found, low, high):
    """Logarithm of the probability between bounds, from the side where it has more digits."""
    right = low > 0
    large = np.where(right, found.logsf(low), found.logcdf(high))
    small = np.where(right, found.logsf(high), found.logcdf(low))
    with np.errstate(divide="ignore", invalid="ignore"):
        mass = large + np.log1p(-np.exp(small - large))
    return np.select([low == -np.inf, high == np.inf], [found.logcdf(high), found.logsf(low)], mass)


def aft_losses(y, raw, distribution, scale):
    """Minus the log likelihood of each row."""
    found, (low, high) = DISTRIBUTIONS[distribution], standardised(y, raw, scale)
    density = found.logpdf(low) - np.log(scale * np.maximum(y[:, 0], 1e-300))
    return -np.where(y[:, 0] == y[:, 1], density, log_mass(found, low, high))


def slopes(distribution, z):
    """First and second derivative of the log density."""
    if distribution == "normal":
        return -z, np.full_like(z, -1.0)
    if distribution == "logistic":
        return expit(-z) - expit(z), -2 * expit(z) * expit(-z)
    return -np.expm1(z), -np.exp(z)


def right_tail(distribution, z):
    """First and second derivative of -log P(> z), where densities and probabilities themselves have no digits left."""
    if distribution == "extreme":
        return np.exp(z), np.exp(z)
    if distribution == "logistic":
        return expit(z), expit(z) * expit(-z)
    hazard = np.sqrt(2 / np.pi) / erfcx(z / np.sqrt(2))
    return hazard, hazard * (hazard - z)


def left_tail(distribution, z):
    """First and second derivative of -log P(< z)."""
    if distribution != "extreme":
        slope, bend = right_tail(distribution, -z)
        return -slope, bend
    with np.errstate(over="ignore"):
        d = np.exp(z)
        slope = d / np.expm1(d)
    bend = np.where(d < 1e-3, slope * (d / 2 + d**2 / 12), slope * (slope - 1 + d))
    return -slope, bend


def aft_derivatives(y, raw, distribution, scale):
    """First and second derivative of each row's loss: from densities and probabilities at both bounds."""
    found, (low, high) = DISTRIBUTIONS[distribution], standardised(y, raw, scale)
    known = y[:, 0] == y[:, 1]
    mass, first, bend = np.where(known, 0.0, log_mass(found, low, high)), 0.0, 0.0
    for z, sign in ((low, -1), (high, 1)):
        finite = np.isfinite(z)
        at = np.where(finite, z, 0.0)
        share = np.where(finite, sign * np.exp(np.minimum(found.logpdf(at) - mass, 700)), 0.0)
        first, bend = first + share, bend + share * slopes(distribution, at)[0]
    point = slopes(distribution, np.where(known, low, 0.0))
    second = np.where(known, -point[1], first**2 - bend)
    return np.where(known, point[0], first) / scale, second / scale**2


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
