"""Where rows go in the trees: the nodes on their way, and the leaves as features of a linear model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from fastens.engine.parts import map_parts
from fastens.engine.trees.trees import TreeEnsemble
from fastens.engine.trees.used_columns import on_used_columns


def parents(trees: TreeEnsemble) -> NDArray[np.int64]:
    """Return the parent of each node, -1 for roots; nodes are counted over all trees.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    """
    parent = np.full(len(trees.left_child), -1, dtype=np.int64)
    inner = np.flatnonzero(trees.left_child)
    left = trees.left_child[inner] + np.repeat(trees.node_offsets[:-1], np.diff(trees.node_offsets))[inner]
    parent[left] = parent[left + 1] = inner
    return parent


def depths(trees: TreeEnsemble) -> NDArray[np.int64]:
    """Return the depth of each node; 0 for roots.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    """
    above = parents(trees)
    depth = (above >= 0).astype(np.int64)
    nodes = np.flatnonzero(depth)
    while len(nodes):  # `depth` counts the steps to `above`, which are twice as many each time
        near = above[nodes]
        depth[nodes] += depth[near]
        above[nodes] = above[near]
        nodes = nodes[above[nodes] >= 0]
    return depth


def decision_path(trees: TreeEnsemble, X: Any, n_threads: int = 1) -> tuple[csr_matrix, NDArray[np.int64]]:
    """Return which nodes each row visits, as scikit-learn's `decision_path` of a forest does.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    X : row source of shape (n_rows, n_features)
        The rows.
    n_threads : int
        How many threads there may be; no matter to the result.

    Returns
    -------
    indicator : CSR matrix of shape (n_rows, n_nodes)
        1 where a row visits a node; nodes are counted over all trees.
    n_nodes_ptr : int64 array of shape (n_trees + 1,)
        The columns ``n_nodes_ptr[t]:n_nodes_ptr[t + 1]`` are the nodes of tree t.
    """
    node = _leaves(trees, X, n_threads)
    length = (depths(trees) + 1)[node]
    end = np.cumsum(length)
    indices = np.empty(int(end[-1]) if len(end) else 0, dtype=np.int64)
    parent = parents(trees)
    # From the leaves up: a path's last place is that of its leaf.
    place = end - 1
    while len(node):
        indices[place] = node
        node = parent[node]
        place, node = place[node >= 0] - 1, node[node >= 0]
    n_rows, n_nodes = X.shape[0], len(parent)
    starts = np.concatenate([[0], length.reshape(n_rows, trees.n_trees).sum(axis=1).cumsum()])
    ones = np.ones(len(indices), dtype=np.int64)
    return csr_matrix((ones, indices, starts), shape=(n_rows, n_nodes)), trees.node_offsets


def leaf_features(trees: TreeEnsemble, leaves: NDArray[np.int32]) -> csr_matrix:
    """Return a column for each leaf of each tree, 1 where a row falls into it.

    The leaves of trees as features of another model, as in Moosmann, Triggs & Jurie (2006).

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    leaves : int32 array of shape (n_rows, n_trees)
        Where the rows fall, as `TreeEnsemble.apply` has it.

    Returns
    -------
    CSR matrix of shape (n_rows, n_leaves)
    """
    number = np.cumsum(trees.left_child == 0) - 1
    columns = number[leaves + trees.node_offsets[:-1]].ravel()
    starts = np.arange(len(leaves) + 1) * trees.n_trees
    return csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(leaves), int(trees.n_leaves.sum())))


def _leaves(trees: TreeEnsemble, X: Any, n_threads: int) -> NDArray[np.int64]:
    """The leaf of each row and tree, row after row, counted over all trees."""
    narrow, rows = on_used_columns(trees, X)
    leaves = map_parts(lambda part: narrow.apply(part, n_threads), rows)
    return (leaves + trees.node_offsets[:-1]).ravel()
