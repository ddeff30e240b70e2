"""The impurity of each node of a regression tree: the mean loss of its rows about their own mean or median."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.elementary import xlogy
from fastens.engine.trees.paths import parents
from fastens.engine.trees.trees import TreeEnsemble

Array = NDArray[np.float64]


def node_impurities(
    tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array | None, criterion: str
) -> Array:
    """Return the impurity of each node, the mean over the targets, (n_nodes,).

    Parameters
    ----------
    tree : TreeEnsemble
        One tree.
    leaf : integer array of shape (n_rows,)
        The leaf that each training row falls into.
    y : float64 array of shape (n_rows, n_targets)
        Targets.
    weight : float64 array of shape (n_rows,) or None
        Weights of the rows, None for ones.
    criterion : {"squared_error", "absolute_error", "poisson"}
        The mean squared difference from the mean, the mean absolute one from the node's value (a median), or the mean
        of y * log(y / mean).
    """
    weight = np.ones(len(y)) if weight is None else weight
    of_targets = (
        _about_values(tree, leaf, target, weight, tree.value[:, place].astype(np.float64))
        if criterion == "absolute_error"
        else _about_means(tree, leaf, target, weight, criterion == "poisson")
        for place, target in enumerate(y.T)
    )
    return np.mean(list(of_targets), axis=0)


def _about_values(tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array, value: Array) -> Array:
    """Each row goes up from its leaf to the root, and counts in every node on its way."""
    parent, n_nodes = parents(tree), len(value)
    node = leaf.astype(np.intp)
    loss, total = np.zeros((2, n_nodes))
    while len(node):
        loss += np.bincount(node, weight * np.abs(y - value[node]), n_nodes)
        total += np.bincount(node, weight, n_nodes)
        node = parent[node]
        below = node >= 0
        node, y, weight = node[below], y[below], weight[below]
    return loss / total


def _about_means(tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array, is_poisson: bool) -> Array:
    """From the leaves up: the losses of two nodes about their means, and of the means about that of both."""
    n_nodes = len(tree.feature)
    total, sums = np.bincount(leaf, weight, n_nodes), np.bincount(leaf, weight * y, n_nodes)
    mean = np.divide(sums, total, out=np.zeros(n_nodes), where=total > 0)
    loss = np.bincount(leaf, weight * _loss(y, mean[leaf], is_poisson), n_nodes)
    for nodes in reversed(_inner_levels(tree)):
        left = tree.left_child[nodes]
        right = left + 1
        total[nodes], sums[nodes] = total[left] + total[right], sums[left] + sums[right]
        mean[nodes] = sums[nodes] / total[nodes]
        for below in (left, right):
            loss[nodes] += loss[below] + total[below] * _loss(mean[below], mean[nodes], is_poisson)
    return np.maximum(loss / total, 0.0)


def _inner_levels(tree: TreeEnsemble) -> list[NDArray[np.integer]]:
    """The inner nodes of each depth, from the root on."""
    levels: list[NDArray[np.integer]] = []
    nodes: NDArray[np.integer] = np.zeros(1, dtype=np.intp)
    while len(inner := nodes[tree.left_child[nodes] > 0]):
        levels.append(inner)
        left = tree.left_child[inner]
        nodes = np.concatenate([left, left + 1])
    return levels


def _loss(y: Array, mean: Array, is_poisson: bool) -> Array:
    return xlogy(y, np.divide(y, mean, out=np.ones_like(mean), where=mean > 0)) if is_poisson else (y - mean) ** 2
