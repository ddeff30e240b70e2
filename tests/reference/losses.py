"""Naive twins of the loss kernels: the formulas, row by row, in NumPy and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np


def loss_of_rows(name, y, raw, parameter=0.0):
    """The loss of each row; `raw` is (n_outputs, n_rows)."""
    residual = y - raw[0]
    distance = np.abs(residual)
    limited = parameter * (distance - parameter / 2)
    formulas = {
        "squared_error": lambda: residual**2 / 2,
        "absolute_error": lambda: distance,
        "quantile": lambda: np.where(residual > 0, parameter, parameter - 1) * residual,
        "huber": lambda: np.where(distance <= parameter, residual**2 / 2, limited),
        "poisson": lambda: np.exp(raw[0]) - y * raw[0],
        "gamma": lambda: raw[0] + y * np.exp(-raw[0]),
        "binary_log_loss": lambda: np.logaddexp(0, raw[0]) - y * raw[0],
        "multiclass_log_loss": lambda: np.logaddexp.reduce(raw, axis=0) - raw[y.astype(int), np.arange(y.size)],
    }
    return formulas[name]()


def derivatives(name, y, raw, parameter=0.0):
    """First and second derivatives by `raw`, both (n_outputs, n_rows)."""
    residual = y - raw
    one = np.ones_like(raw)
    slopes = np.where(residual > 0, -parameter, np.where(residual < 0, 1 - parameter, 0.0))
    p = softmax(raw) if name == "multiclass_log_loss" else 1 / (1 + np.exp(-raw))
    formulas = {
        "squared_error": lambda: (-residual, one),
        "absolute_error": lambda: (-np.sign(residual), one),
        "quantile": lambda: (slopes, one),
        "huber": lambda: (np.clip(-residual, -parameter, parameter), one),
        "poisson": lambda: (np.exp(raw) - y, np.exp(raw)),
        "gamma": lambda: (1 - y * np.exp(-raw), y * np.exp(-raw)),
        "binary_log_loss": lambda: (p - y, p * (1 - p)),
        "multiclass_log_loss": lambda: (
            p - (np.arange(len(raw))[:, None] == y),
            len(raw) / (len(raw) - 1) * p * (1 - p),
        ),
    }
    return formulas[name]()


def softmax(raw):
    """Probabilities over the first axis."""
    e = np.exp(raw - raw.max(axis=0))
    return e / e.sum(axis=0)


def weighted_quantile(values, level, weights=None):
    """The smallest value with at least `level` of the weight at or below it."""
    weights = np.ones(len(values)) if weights is None else weights
    order = np.argsort(values)
    reached = np.cumsum([Fraction(w) for w in weights[order]])
    enough = reached.astype(float) >= level * float(reached[-1])
    return values[order][np.argmax(enough)]


def weighted_mean(values, weights=None):
    """The exact mean, rounded once."""
    weights = np.ones(len(values)) if weights is None else weights
    total = sum(Fraction(value) * Fraction(weight) for value, weight in zip(values, weights, strict=True))
    return float(total / sum(map(Fraction, weights)))


def huber_leaf_value(residuals, limit, weights):
    """Median, and the mean of what remains, clipped to the limit (Friedman 2001, algorithm 4)."""
    median = weighted_quantile(residuals, 0.5, weights)
    return median + np.average(np.clip(residuals - median, -limit, limit), weights=weights)
