"""Minimal cost-complexity pruning (Breiman, Friedman, Olshen & Stone 1984, section 3.3) of trees as arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.grow.prune import places, weakest_links
from fastens.engine.trees.trees import Tree

_OF_LEAVES = {"left_child": 0, "feature": -1, "bin_threshold": 0, "missing_left": 0, "category_set": -1, "gain": 0}


def pruning_path(tree: Tree, impurity: float = 0.0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the alphas at which the best subtree changes, and the impurities of those subtrees.

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
        The complexity parameter; 0 leaves the tree as it is.
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
    is_inner = tree.left_child > 0
    number, kept = places(np.ascontiguousarray(tree.left_child), (is_leaf | ~is_inner).view(np.uint8))
    ends = (is_leaf & is_inner)[kept].nonzero()[0]
    arrays = {name: array.take(kept, axis=0) for name, array in vars(tree).items() if name != "category_words"}
    arrays["left_child"] = number.take(arrays["left_child"])
    for name, nothing in _OF_LEAVES.items():
        arrays[name][ends] = nothing
    return type(tree)(category_words=tree.category_words, **arrays)


def _links(tree: Tree) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]:
    """Alpha and gain of each node's branch, per unit of weight, and the nodes that are cut by themselves."""
    gain = np.ascontiguousarray(tree.gain, dtype=np.float64) / np.float64(tree.weight[0])
    return weakest_links(np.ascontiguousarray(tree.left_child), gain)
