"""Predictions node by node, as the arrays of an ensemble define them, and random ensembles to try them on."""

from __future__ import annotations

import numpy as np

from fastens.engine.trees.trees import Tree, TreeEnsemble


def goes_left(ensemble, node, code):
    """Whether rows with a code go left at a node, counted over all trees."""
    first_word = ensemble.category_set[node]
    if first_word >= 0:
        return int(ensemble.category_words[first_word + code // 32]) >> (code % 32) & 1 == 1
    if code == 0:
        return bool(ensemble.missing_left[node])
    return code <= ensemble.bin_threshold[node]


def find_leaf(ensemble, tree, codes):
    """The leaf of one row (a code for each feature) in one tree, counted inside the tree."""
    root = ensemble.node_offsets[tree]
    node = 0
    while ensemble.left_child[root + node]:
        left = goes_left(ensemble, root + node, int(codes[ensemble.feature[root + node]]))
        node = int(ensemble.left_child[root + node]) + (not left)
    return node


def apply(ensemble, codes):
    """The leaves of rows, whose codes are (n_features, n_rows)."""
    leaves = [[find_leaf(ensemble, tree, row) for tree in range(ensemble.n_trees)] for row in codes.T]
    return np.array(leaves, dtype=np.int32).reshape(codes.shape[1], ensemble.n_trees)


def predict_raw(ensemble, codes, n_trees=None):
    """The baseline plus the leaves' values, added tree by tree."""
    leaves = apply(ensemble, codes)
    raw = np.tile(ensemble.baseline, (codes.shape[1], 1))
    for tree in range(ensemble.n_trees if n_trees is None else n_trees):
        value = ensemble.value[ensemble.node_offsets[tree] + leaves[:, tree]]
        columns = ensemble.tree_output[tree] + np.arange(value.shape[1])
        raw[:, columns] += value
    return raw


def random_tree(rng, binning, n_leaves, n_values=1, dtype=np.float64):
    """A tree of random splits, useless ones (everything to one side) among them; leaves are split in random order."""
    n_nodes = 2 * n_leaves - 1
    left_child = np.zeros(n_nodes, dtype=np.int32)
    leaves = [0]
    for first_child in range(1, n_nodes, 2):
        left_child[leaves.pop(rng.integers(len(leaves)))] = first_child
        leaves += [first_child, first_child + 1]
    inner = left_child > 0
    feature = np.where(inner, rng.integers(binning.n_features, size=n_nodes), -1).astype(np.int32)
    n_codes = np.asarray(binning.n_codes)[feature]
    is_categorical = inner & np.asarray(binning.is_categorical)[feature]
    n_words = np.where(is_categorical, (n_codes + 31) // 32, 0)
    category_words = rng.integers(2**32, size=n_words.sum(), dtype=np.uint32)
    is_numeric = inner & ~is_categorical
    return Tree(
        feature=feature,
        bin_threshold=np.where(is_numeric, rng.integers(n_codes), 0).astype(np.uint16),
        missing_left=(is_numeric & (rng.random(n_nodes) < 0.5)).astype(np.uint8),
        category_set=np.where(is_categorical, np.cumsum(n_words) - n_words, -1).astype(np.int32),
        category_words=category_words,
        left_child=left_child,
        value=rng.normal(size=(n_nodes, n_values)).astype(dtype),
        gain=np.where(inner, rng.random(n_nodes), 0),
        n_samples=rng.integers(1, 100, size=n_nodes),
        weight=rng.random(n_nodes),
    )


def random_ensemble(rng, binning, n_leaves, n_outputs=1):
    """An ensemble of random trees with the given numbers of leaves, each for one of the outputs."""
    trees = [random_tree(rng, binning, n) for n in n_leaves]
    return TreeEnsemble.from_trees(trees, rng.integers(n_outputs, size=len(trees)), rng.normal(size=n_outputs), binning)


def random_forest(rng, binning, n_leaves, n_outputs=1):
    """An ensemble of random trees, each with a float32 value for all outputs."""
    trees = [random_tree(rng, binning, n, n_outputs, np.float32) for n in n_leaves]
    return TreeEnsemble.from_trees(trees, np.zeros(len(trees), np.int32), np.zeros(n_outputs), binning)
