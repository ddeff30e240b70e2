"""Minimal cost-complexity pruning (Breiman, Friedman, Olshen & Stone 1984, section 3.3) of trees as arrays."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from fastens.engine.kernels.prune import weakest_links
from fastens.engine.trees import Tree


def pruning_path(tree: Tree, impurity: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the prices of a leaf at which the best subtree changes, and the impurities of those subtrees.

    Parameters
    ----------
    tree : Tree
        A tree whose gains are decreases of impurity times weight.
    impurity : float
        That of the whole tree's leaves: the sum of their shares of the weight times their impurities; 0 where leaves
        are pure.

    Returns
    -------
    ccp_alphas : float64 array
        Ascending; the first is 0, for the tree as it is; at the last only the root remains.
    impurities : float64 array
        Impurity of the leaves that remain.
    """
    alpha, gain, nodes = _links(tree)
    order = np.lexsort((-nodes, alpha[nodes]))
    nodes = nodes[order]
    alphas = np.concatenate([[0.0], alpha[nodes]])
    return alphas, impurity + np.concatenate([[0.0], np.cumsum(gain[nodes])])


def prune(tree: Tree, ccp_alpha: float) -> Tree:
    """Return the smallest subtree with the least impurity plus `ccp_alpha` times the number of leaves.

    Parameters
    ----------
    tree : Tree
        A tree whose gains are decreases of impurity times weight.
    ccp_alpha : float
        The price of a leaf; 0 leaves the tree as it is.
    """
    if ccp_alpha <= 0:
        return tree
    alpha, _, _ = _links(tree)
    return cut(tree, alpha <= ccp_alpha)


def cut(tree: Tree, is_leaf: NDArray[np.bool_]) -> Tree:
    """Return the tree that ends at some nodes.

    Parameters
    ----------
    tree : Tree
        A tree.
    is_leaf : bool array of shape (n_nodes,)
        Whether a node is a leaf, where it is reached; the tree's own leaves are.
    """
    is_leaf = is_leaf | (tree.left_child == 0)
    kept = _reached(tree.left_child, is_leaf)
    ends = is_leaf[kept]
    arrays = {f.name: getattr(tree, f.name)[kept] for f in fields(tree) if f.name != "category_words"}
    number = np.cumsum(kept) - 1
    arrays["left_child"] = number[arrays["left_child"]].astype(np.int32)
    at_leaves = {"left_child": 0, "feature": -1, "bin_threshold": 0, "missing_left": 0, "category_set": -1, "gain": 0}
    for name, nothing in at_leaves.items():
        arrays[name][ends] = nothing
    return replace(tree, **arrays)


def _links(tree: Tree) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
    """Price and gain of each node's branch, per unit of weight, and the nodes that fall by themselves."""
    gain = np.ascontiguousarray(tree.gain, dtype=np.float64) / np.float64(tree.weight[0])
    return weakest_links(np.ascontiguousarray(tree.left_child), gain)


def _reached(left_child: NDArray[np.int32], is_leaf: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The nodes that a row can reach where some nodes are leaves."""
    reached = np.zeros(len(left_child), dtype=bool)
    nodes = np.zeros(1, dtype=np.int64)
    while len(nodes):
        reached[nodes] = True
        left = left_child[nodes[~is_leaf[nodes]]]
        nodes = np.concatenate([left, left + 1])
    return reached
