"""Information of columns, spanning trees and one-dependence models, the plain way."""

from __future__ import annotations

from itertools import combinations, product
from math import log

import numpy as np


def mutual_information(one, other, y, weights):
    """I(one; other | y) in nats over the rows in which both are known, that is not negative."""
    known = (one >= 0) & (other >= 0)
    one, other, y, weights = one[known], other[known], y[known], weights[known]
    total = weights.sum()
    information = 0.0
    for c, a, b in set(zip(y.tolist(), one.tolist(), other.tolist(), strict=True)):
        of_class = weights[y == c].sum()
        joint = weights[(y == c) & (one == a) & (other == b)].sum()
        apart = weights[(y == c) & (one == a)].sum() * weights[(y == c) & (other == b)].sum()
        if joint > 0:
            information += joint / total * log(joint * of_class / apart)
    return information


def limited_dependence(X, y, k, min_information):
    """Parents of each column besides the class in a k-dependence classifier (Sahami 1996, section 3)."""
    zeros, ones = np.zeros(len(y), int), np.ones(len(y))
    of_class = [mutual_information(column, y, zeros, ones) for column in X.T]
    parents = {}
    for column in sorted(range(X.shape[1]), key=lambda column: -of_class[column]):
        told = {other: mutual_information(X[:, column], X[:, other], y, ones) for other in parents}
        best = sorted(told, key=lambda other: -told[other])[:k]
        parents[column] = {other for other in best if told[other] > min_information}
    return [parents[column] for column in range(X.shape[1])]


def spanning_trees(n):
    """Every tree over n columns as parents towards column 0."""
    for parents in product(range(n), repeat=n - 1):
        tree = (-1, *parents)
        if all(_reaches_root(tree, node) for node in range(n)):
            yield tree


def _reaches_root(tree, node):
    for _ in tree:
        if node == 0:
            return True
        node = tree[node]
    return False


def tree_weight(tree, weights):
    """Sum of the weights of a tree's edges."""
    return sum(weights[node, parent] for node, parent in enumerate(tree) if parent >= 0)


def rooted_edges(parents):
    """The edges without their directions."""
    return {frozenset((node, int(parent))) for node, parent in enumerate(parents) if parent >= 0}


def pseudo_counts(smoothing, size, n_groups, n_classes, parameter):
    """Pseudo-count of a category given the class and parent, of which there are n_groups; and of class and category."""
    if smoothing == "laplace":
        return parameter, parameter
    if smoothing == "m":
        return parameter / size, parameter / (n_classes * size)
    if smoothing == "bdeu":
        return parameter / (size * n_groups), parameter / (n_classes * size)
    return (0.5, 0.5) if smoothing == "kt" else (0.0, 0.0)


def conditional(rows, column, given, table, pseudo):
    """P(column = its value in the row | the values of `given`), over the rows of the table in which all are known."""
    X, weights, sizes = table
    known = X[:, column] >= 0
    for other, value in given:
        known &= X[:, other] == value
    counts = np.bincount(X[known, column], weights[known], minlength=sizes[column])
    total = counts.sum() + pseudo * sizes[column]
    return (counts[rows[column]] + pseudo) / total if total > 0 else 1 / sizes[column]


def tree_joint(row, parents, table, smoothing, parameter):
    """P(class, known values) under TAN; the table's last column is the class."""
    X, weights, sizes = table
    n_classes, last = sizes[-1], X.shape[1] - 1
    joint = np.bincount(X[:, last], weights, minlength=n_classes) / weights.sum()
    for c in range(n_classes):
        for column, parent in enumerate(parents):
            if row[column] >= 0:
                given, n_groups = [(last, c)], n_classes
                if parent >= 0 and row[parent] >= 0:
                    given, n_groups = [*given, (parent, row[parent])], n_classes * sizes[parent]
                pseudo = pseudo_counts(smoothing, sizes[column], n_groups, n_classes, parameter)[0]
                joint[c] *= conditional(row, column, given, table, pseudo)
    return joint


def averaged_joint(row, table, smoothing, parameter, min_count, order=1):
    """P(class, known values) under AODE, or A2DE; the table's last column is the class."""
    X, weights, sizes = table
    n_classes, last = sizes[-1], X.shape[1] - 1
    if order == 0:
        return tree_joint(row, [-1] * last, table, smoothing, parameter)
    joints = []
    for parents in map(list, combinations(range(last), order)):
        n_values = np.prod([sizes[parent] for parent in parents])
        same = (X[:, parents] == row[parents]).all(axis=1)
        if (row[parents] < 0).any() or weights[same].sum() < min_count:
            continue
        known = weights[(X[:, parents] >= 0).all(axis=1)].sum()
        joint = np.zeros(n_classes)
        for c in range(n_classes):
            pseudo = pseudo_counts(smoothing, n_values, n_classes, n_classes, parameter)[1]
            share = (weights[same & (X[:, last] == c)].sum() + pseudo) / (known + pseudo * n_classes * n_values)
            given = [(last, c), *((parent, row[parent]) for parent in parents)]
            for column in range(last):
                if column not in parents and row[column] >= 0:
                    pseudo = pseudo_counts(smoothing, sizes[column], n_classes * n_values, n_classes, parameter)[0]
                    share *= conditional(row, column, given, table, pseudo)
            joint[c] = share
        joints.append(joint)
    return np.mean(joints, axis=0) if joints else averaged_joint(row, table, smoothing, parameter, min_count, order - 1)
