"""Shapley values of trees by their definition: all subsets of features, the value of a subset by recursion."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np

from reference.predict import goes_left


def leaf_value(ensemble, node, x, known):
    """A leaf's value; where it has a line and the row has its features, the known ones move it from the means."""
    value = ensemble.value[node].astype(np.float64)
    if ensemble.has_constant_leaves:
        return value
    linear = ensemble.linear
    terms = slice(linear.starts[node], linear.starts[node + 1])
    features = linear.features[terms]
    if not np.isfinite(x[features]).all():
        return value
    moves = linear.slopes[terms] * np.clip(x[features], linear.lower[terms], linear.upper[terms])
    return value + np.sum(np.where(np.isin(features, known), moves - linear.at_means[terms], 0.0))


def subset_value(ensemble, tree, codes, known, node=0, x=None):
    """A tree's value for one row of which only some features are known; the others are averaged over by weight."""
    root = ensemble.node_offsets[tree]
    left = int(ensemble.left_child[root + node])
    if not left:
        return leaf_value(ensemble, root + node, x, list(known))
    feature = ensemble.feature[root + node]
    if feature in known:
        child = left + (not goes_left(ensemble, root + node, int(codes[feature])))
        return subset_value(ensemble, tree, codes, known, child, x)
    weight = ensemble.weight[root + left : root + left + 2].astype(np.float64)
    parts = [subset_value(ensemble, tree, codes, known, left + side, x) for side in (0, 1)]
    return (weight[0] * parts[0] + weight[1] * parts[1]) / weight.sum()


def value_of(ensemble, codes, known, x=None):
    """The raw prediction of one row of which only some features are known."""
    raw = ensemble.baseline.copy()
    for tree in range(ensemble.n_trees):
        value = subset_value(ensemble, tree, codes, known, x=x)
        raw[ensemble.tree_output[tree] : ensemble.tree_output[tree] + len(value)] += value
    return raw


def coalitions(n):
    """All subsets of n features."""
    return [s for k in range(n + 1) for s in combinations(range(n), k)]


def shapley_values(value, n):
    """From the worth of each coalition, (n_outputs,): (n_outputs, n + 1), last that of none."""
    out = np.zeros((len(value[()]), n + 1))
    for i in range(n):
        for s, alone in value.items():
            if i not in s:
                weight = factorial(len(s)) * factorial(n - 1 - len(s)) / factorial(n)
                out[:, i] += weight * (value[tuple(sorted((*s, i)))] - alone)
    out[:, n] = value[()]
    return out


def shapley_interactions(value, n):
    """The same of pairs, halved as both orders of a pair have their entry: (n_outputs, n + 1, n + 1)."""
    total = shapley_values(value, n)
    out = np.zeros((len(total), n + 1, n + 1))
    for i in range(n):
        for j in range(n):
            for s, alone in value.items():
                if i == j or i in s or j in s:
                    continue
                weight = factorial(len(s)) * factorial(n - 2 - len(s)) / (2 * factorial(n - 1))
                with_both, with_i, with_j = (tuple(sorted((*s, *add))) for add in ((i, j), (i,), (j,)))
                out[:, i, j] += weight * (value[with_both] - value[with_i] - value[with_j] + alone)
    for i in range(n):
        out[:, i, i] = total[:, i] - out[:, i].sum(axis=1)
    out[:, n, n] = total[:, n]
    return out


def worth(ensemble, codes, x=None):
    """Of one row: the worth of each coalition is the prediction where no more is known than its features."""
    return {s: value_of(ensemble, codes, s, x) for s in coalitions(len(codes))}


def contributions(ensemble, codes, x=None):
    """Path-dependent values of one row."""
    return shapley_values(worth(ensemble, codes, x), len(codes))


def interactions(ensemble, codes, x=None):
    """The same of pairs."""
    return shapley_interactions(worth(ensemble, codes, x), len(codes))


def interventional(ensemble, codes, background, scales=None, of=shapley_values):
    """Against background rows, (n_features, n_rows): the mean of the values against each of them, times its scale."""
    found = 0
    everything = tuple(range(len(codes)))
    scales = np.ones(background.shape[1]) if scales is None else scales
    for other, scale in zip(background.T, scales, strict=True):
        value = {}
        for s in coalitions(len(codes)):
            mixed = other.copy()
            mixed[list(s)] = codes[list(s)]
            value[s] = value_of(ensemble, mixed, everything)
        found = found + scale * of(value, len(codes)) / len(scales)
    return found


def against_rows(predict, row, background, of=shapley_values):
    """Of any model, whose `predict` gives (n_rows,) or (n_rows, n_outputs): against rows, (n_rows, n_features)."""
    value = {}
    for s in coalitions(len(row)):
        mixed = background.copy()
        mixed[:, list(s)] = row[list(s)]
        value[s] = np.atleast_1d(predict(mixed).mean(axis=0))
    return of(value, len(row))
