"""Weakest-link pruning as it is defined: find the weakest link, cut it, begin again."""

from __future__ import annotations

import numpy as np

from fastens.engine.trees.trees import Tree


def random_tree(rng, n_leaves):
    """A tree with random gains."""
    n_nodes = 2 * n_leaves - 1
    left_child = np.zeros(n_nodes, dtype=np.int32)
    leaves = [0]
    for first_child in range(1, n_nodes, 2):
        place = rng.integers(len(leaves))
        leaves[place], leaves[-1] = leaves[-1], leaves[place]
        left_child[leaves.pop()] = first_child
        leaves += [first_child, first_child + 1]
    inner = left_child > 0
    return Tree(
        feature=np.where(inner, 0, -1).astype(np.int32),
        bin_threshold=inner.astype(np.uint16),
        missing_left=np.zeros(n_nodes, np.uint8),
        category_set=np.full(n_nodes, -1, np.int32),
        category_words=np.empty(0, np.uint32),
        left_child=left_child,
        value=rng.random((n_nodes, 1)),
        gain=np.where(inner, rng.random(n_nodes), 0),
        n_samples=np.ones(n_nodes, np.int64),
        weight=np.full(n_nodes, 7.0),
    )


def branch(tree, node, cut):
    """Gain and number of the splits of a node's branch, some nodes cut."""
    if node in cut or tree.left_child[node] == 0:
        return 0.0, 0
    left = int(tree.left_child[node])
    parts = [branch(tree, left, cut), branch(tree, left + 1, cut)]
    return tree.gain[node] / tree.weight[0] + parts[0][0] + parts[1][0], 1 + parts[0][1] + parts[1][1]


def alive(tree, cut):
    """The nodes with children."""
    nodes, waiting = [], [0]
    while waiting:
        node = waiting.pop()
        if node not in cut and tree.left_child[node]:
            nodes.append(node)
            waiting += [int(tree.left_child[node]), int(tree.left_child[node]) + 1]
    return nodes


def links(tree):
    """The weakest links one after another: price, gain, node."""
    cut = set()
    while nodes := alive(tree, cut):
        found = []
        for node in nodes:
            gain, n_splits = branch(tree, node, cut)
            found.append((gain / n_splits, gain, node))
        weakest = min(found)
        cut.add(weakest[2])
        yield weakest


def pruning_path(tree, impurity):
    """Prices and impurities."""
    found = list(links(tree))
    alphas = [0.0, *(alpha for alpha, _, _ in found)]
    return alphas, impurity + np.cumsum([0.0, *(gain for _, gain, _ in found)])


def n_leaves_after(tree, ccp_alpha):
    """Leaves of the tree cut at all links up to a price."""
    cut = {node for alpha, _, node in links(tree) if alpha <= ccp_alpha}
    return len(alive(tree, cut)) + 1
