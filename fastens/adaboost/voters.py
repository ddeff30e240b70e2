"""The trees of an AdaBoost, each as an estimator of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.forests.forest_members import Members, single_tree


class WeakTrees(Members):
    """The trees of an AdaBoost of either kind, each made when it is read; leaves have the class that they vote for."""

    def _member(self, t: int) -> Any:
        model, trees = self._forest, self._forest._ensemble
        tree = trees.tree(t)
        if hasattr(model, "classes_"):
            tree = replace(tree, value=_votes(tree))
        made = single_tree(model, TreeEnsemble.from_trees([tree], [0], np.zeros(trees.n_outputs), trees.binning))
        made.random_state = t
        return made


def _votes(tree: Tree) -> NDArray[np.float64]:
    """All of a node's share for the class with the largest value; of two classes, the share of the second."""
    if tree.value.shape[1] == 1:
        return (tree.value > 0).astype(np.float64)
    return np.eye(tree.value.shape[1])[tree.value.argmax(axis=1)]
