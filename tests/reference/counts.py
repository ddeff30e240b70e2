"""Counts, codes and moments by class, the plain way: the specification of fastens.bayes.kernels."""

from __future__ import annotations

from itertools import combinations

import numpy as np


def class_counts(codes, y, n_codes, n_classes, weights):
    """Sum of weights by class and (column, code), columns one after another."""
    starts = np.concatenate([[0], np.cumsum(n_codes)])
    out = np.zeros((n_classes, starts[-1]))
    for column, row_codes in enumerate(codes):
        for code, label, weight in zip(row_codes, y, weights, strict=True):
            out[label, starts[column] + code] += weight
    return out


def pair_counts(codes, y, n_codes, n_classes, weights):
    """Sum of weights by class and two (column, code)."""
    starts = np.concatenate([[0], np.cumsum(n_codes)])[:-1]
    out = np.zeros((n_classes, sum(n_codes), sum(n_codes)))
    for row in range(codes.shape[1]):
        cells = starts + codes[:, row]
        for one in cells:
            for other in cells:
                out[y[row], one, other] += weights[row]
    return out


def triple_counts(codes, y, sizes, n_classes, weights):
    """Sum of weights by class and the cells of columns i < j < k where all three are known (code p + 1: position p)."""
    starts = np.concatenate([[0], np.cumsum(sizes)])[:-1] - 1
    out = np.zeros((n_classes, *3 * (sum(sizes),)))
    for row in range(codes.shape[1]):
        known = np.flatnonzero(codes[:, row])
        for cells in combinations(starts[known] + codes[known, row], 3):
            out[(y[row], *cells)] += weights[row]
    return out


def encode(X, n_categories):
    """Codes by columns: 0 missing, 1 + position, 1 + n_categories for anything else."""
    codes = np.empty(X.T.shape, dtype=np.int64)
    for row, values in enumerate(X.tolist()):
        for column, value in enumerate(values):
            if np.isnan(value):
                codes[column, row] = 0
            elif 0 <= value < n_categories[column] and value == int(value):
                codes[column, row] = int(value) + 1
            else:
                codes[column, row] = n_categories[column] + 1
    return codes


def moments(X, y, n_classes, weights):
    """Weight, mean and weighted squared deviations of the known values, by class and column."""
    shape = (n_classes, X.shape[1])
    weight, mean, squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for label in range(n_classes):
        for column in range(X.shape[1]):
            chosen = (y == label) & ~np.isnan(X[:, column])
            x, w = X[chosen, column].astype(float), weights[chosen]
            weight[label, column] = w.sum()
            if w.sum() > 0:
                mean[label, column] = np.average(x, weights=w)
                squares[label, column] = (w * (x - mean[label, column]) ** 2).sum()
    return weight, mean, squares
