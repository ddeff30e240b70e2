"""Linear models in leaves by least squares: no range, no rounding, no Cholesky."""

from __future__ import annotations

import numpy as np


def slopes_of_leaf(X, gradients, hessians, weights, l2):
    """Slopes of complete rows, by the features' means and standard deviations there, and the means."""
    complete = np.isfinite(X).all(axis=1)
    X, g, h = X[complete].astype(float), gradients[complete] * weights[complete], hessians[complete] * weights[complete]
    if len(X) == 0 or h.sum() == 0:
        return np.zeros(X.shape[1]), np.zeros(X.shape[1])
    mean = np.average(X, axis=0, weights=h)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=h))
    varies = scale > 0
    Z = (X[:, varies] - mean[varies]) / scale[varies]
    # Ridge as rows that ask for slopes of 0.
    A = np.vstack([np.sqrt(h)[:, None] * Z, np.sqrt(l2) * np.eye(Z.shape[1])])
    b = np.append(np.divide(-g, np.sqrt(h), out=np.zeros(len(h)), where=h > 0), np.zeros(Z.shape[1]))
    slopes = np.zeros(X.shape[1])
    slopes[varies] = np.linalg.lstsq(A, b, rcond=None)[0] / scale[varies]
    return slopes, mean


def predict(X, leaves, value, terms):
    """What a tree says to rows: `terms` are (features, slopes, smallest, largest values, at means) of each node."""
    out = np.empty(len(X))
    for i, leaf in enumerate(leaves):
        features, slopes, lower, upper, at_means = terms[leaf]
        x = X[i, features]
        line = value[leaf] + np.sum(np.clip(x, lower, upper) * slopes - at_means)
        out[i] = line if np.isfinite(x).all() else value[leaf]
    return out
