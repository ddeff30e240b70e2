"""Conversion of trees to predictors of scikit-learn's histogram gradient boosting."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

from fastens.engine.trees.tree_store import set_of
from fastens.exchange.writing.view import CannotHoldError, Column, FlatTree

_WORDS = 8  # of 32 bits each


def predictors(
    trees: list[FlatTree], columns: list[Column], order: list[tuple[int, NDArray[np.intp]]]
) -> list[TreePredictor]:
    """Return the predictor of each tree.

    Parameters
    ----------
    trees : list of FlatTree
        Trees with one value each.
    columns : list of Column
        The columns of X.
    order : list of pairs
        The position of each column among the columns of the predictors, and the codes of its categories.
    """
    place = np.array([own for own, _ in order], dtype=np.intp)
    return [_predictor(tree, columns, place, [codes for _, codes in order]) for tree in trees]


def _predictor(tree: FlatTree, columns: list[Column], place: NDArray[np.intp], codes: list[Any]) -> TreePredictor:
    is_leaf = tree.is_leaf
    nodes = np.zeros(len(is_leaf), dtype=PREDICTOR_RECORD_DTYPE)
    left, right = (np.where(is_leaf, 0, child) for child in (tree.left, tree.right))
    for name, found in {
        "value": tree.value[:, 0],
        "count": tree.n_samples,
        "feature_idx": np.where(is_leaf, 0, place[tree.feature]),
        "num_threshold": np.where(np.isnan(tree.threshold), 0.0, tree.threshold),
        "missing_go_to_left": tree.missing_left,
        "left": left,
        "right": right,
        "gain": tree.gain,
        "is_leaf": is_leaf,
    }.items():
        nodes[name] = found
    for node in np.flatnonzero(~is_leaf).tolist():
        nodes["depth"][[left[node], right[node]]] = nodes["depth"][node] + 1
    sets = np.zeros((len(tree.members), _WORDS), dtype=np.uint32)
    for number, (node, members) in enumerate(tree.members.items()):
        column = int(tree.feature[node])
        if tree.missing_left[node]:
            name = columns[column].name
            raise CannotHoldError(f"missing values of {name!r} on another side than categories never seen")
        found = codes[column][members]
        sets[number] = set_of(found, 32 * _WORDS)
        nodes["is_categorical"][node], nodes["bitset_idx"][node] = 1, number
    return TreePredictor(nodes, np.zeros_like(sets), sets)
