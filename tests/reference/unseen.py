"""Which way unseen categories take, the obvious way: recursive, one feature after another."""

from __future__ import annotations

import numpy as np


def mean_below(trees, node, first):
    """The mean value of the leaves below a node, weighted by their training rows."""
    if trees.left_child[node] == 0:
        return trees.value[node].astype(np.float64)
    children = first + trees.left_child[node] + np.arange(2)
    weight = trees.weight[children].astype(np.float64)
    return np.average([mean_below(trees, child, first) for child in children], axis=0, weights=weight)


def sides_of_unseen(trees):
    """For each node that splits categories, whether unseen ones go left."""
    sides = {
        node: bool(trees.category_words[trees.category_set[node]] & 1)
        for node in np.flatnonzero(trees.category_set >= 0)
    }
    for feature in np.unique(trees.feature[(trees.category_set >= 0) & (trees.missing_left > 0)]):
        error = np.zeros(trees.n_outputs)
        for tree, first in enumerate(trees.node_offsets[:-1]):
            nodes = np.arange(first, trees.node_offsets[tree + 1])
            of_feature = nodes[(trees.feature[nodes] == feature) & (trees.category_set[nodes] >= 0)]
            columns = trees.tree_output[tree] + np.arange(trees.value.shape[1])
            share = {first: 1.0}
            for node in nodes:  # parents come before their children
                if trees.left_child[node] == 0:
                    continue
                children = first + trees.left_child[node] + np.arange(2)
                if node not in of_feature:
                    weight = trees.weight[children].astype(np.float64)
                    share |= dict(zip(children, share[node] * weight / weight.sum(), strict=True))
                    continue
                mean = mean_below(trees, node, first)
                after = [error[columns] + share[node] * (mean_below(trees, child, first) - mean) for child in children]
                if trees.missing_left[node] and share[node] > 0:
                    left, right = ((each**2).sum() for each in after)
                    is_left = trees.weight[children[0]] >= trees.weight[children[1]] if left == right else left < right
                    sides[node] = bool(is_left)
                error[columns] = after[0 if sides[node] else 1]
                share[children[0]], share[children[1]] = share[node] * sides[node], share[node] * (not sides[node])
    return sides
