"""Information of columns, spanning trees and one-dependence models, the plain way."""

from __future__ import annotations

from itertools import product
from math import log


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
