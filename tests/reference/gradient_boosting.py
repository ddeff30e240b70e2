"""Gradient boosting in its plain form, naively: residuals, a tree of least squares on them, leaves, shrinkage.

Regression and binary classification are those of lecture notes; several classes are Friedman (2001), algorithm 6, that
starts at the logarithms of the classes' shares. Trees are functions of X; `max_depth` is all that limits them.
"""

from __future__ import annotations

import numpy as np


def regression(X, y, n_rounds, rate, max_depth):
    """Squared errors: start at the mean of y, residuals y - F, a leaf is the mean of its residuals."""
    start, trees, F = y.mean(), [], np.full(len(y), y.mean())
    for _ in range(n_rounds):
        r = y - F
        tree = least_squares_tree(X, r, lambda rows, r=r: r[rows].mean(), max_depth)
        trees.append(tree)
        F = F + rate * tree(X)
    return lambda X: start + rate * sum(tree(X) for tree in trees)


def binary(X, y, n_rounds, rate, max_depth):
    """Log loss, y of 0 and 1: start at the log odds, residuals y - p, a leaf is sum(r) / sum(p (1 - p))."""
    start = np.log((y == 1).sum() / (y == 0).sum())
    trees, F = [], np.full(len(y), start)
    for _ in range(n_rounds):
        p = 1 / (1 + np.exp(-F))
        r = y - p
        tree = least_squares_tree(X, r, lambda rows, r=r, p=p: r[rows].sum() / (p * (1 - p))[rows].sum(), max_depth)
        trees.append(tree)
        F = F + rate * tree(X)
    return lambda X: start + rate * sum(tree(X) for tree in trees)


def multiclass(X, y, n_classes, n_rounds, rate, max_depth):
    """Log loss, y of 0 to K - 1: a tree for each class, a leaf is (K - 1) / K sum(r) / sum(abs(r) (1 - abs(r)))."""
    start = np.log(np.bincount(y) / len(y))
    rounds, F = [], np.tile(start, (len(y), 1))
    for _ in range(n_rounds):
        p = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
        trees = []
        for k in range(n_classes):
            r = (y == k) - p[:, k]

            def leaf(rows, r=r):
                size = np.abs(r[rows])
                return (n_classes - 1) / n_classes * r[rows].sum() / (size * (1 - size)).sum()

            trees.append(least_squares_tree(X, r, leaf, max_depth))
        rounds.append(trees)
        F = F + rate * np.column_stack([tree(X) for tree in trees])
    return lambda X: start + rate * sum(np.column_stack([tree(X) for tree in trees]) for trees in rounds)


def least_squares_tree(X, r, leaf, depth):
    """The regression tree of r, thresholds half-way between values; `leaf(rows)` gives the value of a leaf's rows."""

    def grown(rows, depth):
        split = best_split(X[rows], r[rows]) if depth > 0 else None
        if split is None:
            value = leaf(rows)
            return lambda X: np.full(len(X), value)
        feature, threshold = split
        left = X[rows, feature] <= threshold
        sides = grown(rows[left], depth - 1), grown(rows[~left], depth - 1)
        return lambda X: np.where(X[:, feature] <= threshold, sides[0](X), sides[1](X))

    return grown(np.arange(len(r)), depth)


def best_split(X, r):
    """The split that lowers the squared error most; None where none does."""
    best, found = 1e-9, None
    for feature in range(X.shape[1]):
        values = np.unique(X[:, feature])
        for threshold in (values[:-1] + values[1:]) / 2:
            left = X[:, feature] <= threshold
            parts = r[left], r[~left]
            gain = ((r - r.mean()) ** 2).sum() - sum(((part - part.mean()) ** 2).sum() for part in parts)
            if gain > best:
                best, found = gain, (feature, threshold)
    return found
