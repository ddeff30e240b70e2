"""Trees of scikit-learn as ours: the same splits, values and counts."""

from __future__ import annotations

import numpy as np

from fastens.engine.bins.binning import Binning
from fastens.engine.trees.trees import Tree, TreeEnsemble


def order_of(tree):
    """For each node its place with children side by side, left subtrees first."""
    place = np.zeros(tree.node_count, dtype=np.int64)
    free, waiting = 1, [0]
    while waiting:
        node = waiting.pop()
        left, right = tree.children_left[node], tree.children_right[node]
        if left >= 0:
            place[left], place[right] = free, free + 1
            free += 2
            waiting += [right, left]
    return place


def tree_of(tree, thresholds):
    """One tree, with thresholds as places among those of the features."""
    place = order_of(tree)
    nodes = np.argsort(place)
    inner = tree.children_left[nodes] >= 0
    feature = np.where(inner, tree.feature[nodes], -1)
    code = [
        1 + np.searchsorted(thresholds[f], tree.threshold[n]) if f >= 0 else 0
        for f, n in zip(feature, nodes, strict=True)
    ]
    left = np.where(inner, place[tree.children_left[nodes]], 0)
    weight = tree.weighted_n_node_samples[nodes]
    impurity = weight * tree.impurity[nodes]
    value = tree.value[nodes][:, 0, :]
    return Tree(
        feature=feature.astype(np.int32),
        bin_threshold=np.array(code, dtype=np.uint16),
        missing_left=np.zeros(len(nodes), np.uint8),
        category_set=np.full(len(nodes), -1, np.int32),
        category_words=np.empty(0, np.uint32),
        left_child=left.astype(np.int32),
        value=(value[:, 1:] if value.shape[1] == 2 else value).astype(np.float32),
        gain=np.where(inner, impurity - impurity[left] - impurity[np.where(inner, left + 1, 0)], 0),
        n_samples=tree.n_node_samples[nodes].astype(np.int32),
        weight=weight,
    )


def ensemble_of(estimators):
    """Trees of one target, binary classes or numbers, put together; values of two classes are the share of class 1."""
    trees = [estimator.tree_ for estimator in estimators]
    pairs = np.concatenate([np.column_stack([tree.feature, tree.threshold]) for tree in trees])
    thresholds = [np.unique(pairs[pairs[:, 0] == f, 1]) for f in range(trees[0].n_features)]
    ours = [tree_of(tree, thresholds) for tree in trees]
    n_values = ours[0].value.shape[1]
    return TreeEnsemble.from_trees(
        ours, np.zeros(len(ours), np.int32), np.zeros(n_values), Binning(thresholds, [None] * len(thresholds))
    )
