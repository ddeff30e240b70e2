"""The trees of a forest: as estimators of their own, and how much each feature counts in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from fastens.engine.rows.copies import repeated
from fastens.engine.rows.sampling import Bootstrap, stream_seeds
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import GROWING, Bags, check_no_bags_needed, draw_alike
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.table.training_data import AllRows

_LEARNED = (
    "n_features_in_",
    "feature_names_in_",
    "classes_",
    "_encoder",
    "_statistics",
    "_n_plain_features",
    "_n_targets",
    "_has_all_shares",
)

NOT_ALIKE = "The bags are not known: a warm start went on with other rows, or drew them in another way."


class Members(Sequence[Any]):
    """The trees of a forest, each made when it is read; they share the forest's memory."""

    def __init__(self, forest: Any) -> None:
        self._forest = forest._as_it_is()

    def __len__(self) -> int:
        return self._forest._ensemble.n_trees

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        places = range(len(self))[index]
        return [self._member(t) for t in places] if isinstance(places, range) else self._member(places)

    def _member(self, t: int) -> Any:
        model, trees = self._forest, self._forest._ensemble
        tree = single_tree(model, TreeEnsemble.from_trees([trees.tree(t)], [0], trees.baseline, trees.binning))
        if hasattr(model, "_seed"):
            tree.random_state = int(stream_seeds(model._seed, t, t + 1, GROWING)[0])
            tree.max_features = 1.0 if tree.max_features is None else tree.max_features  # a forest draws all, too
        return tree


def template(model: Any) -> Any:
    """A single tree, not fitted, with the parameters of a model of trees."""
    kind: Any = DecisionTreeClassifier if is_classifier(model) else DecisionTreeRegressor
    given = model._as_fitted()._of_members()
    return kind(**{name: given[name] for name in kind().get_params() if name in given})


def single_tree(model: Any, trees: TreeEnsemble) -> Any:
    """An estimator of one tree, with the parameters of a model and what it learned of the table."""
    estimator = template(model)
    vars(estimator).update({name: vars(model)[name] for name in _LEARNED if name in vars(model)})
    estimator._ensemble = trees
    return estimator


def rows_in_bags(bags: Bags, n_members: int, rows: NDArray[np.intp]) -> list[NDArray[np.int32]]:
    """The rows of each bag, each as often as it was drawn; `rows` are the places of those with a weight in `fit`."""
    if bags.draws is None:
        return [rows.astype(np.int32) for _ in range(n_members)]
    why = "estimators_samples_ holds a row as often as it was drawn"
    counts = (bags.counts(member, member + 1)[0] for member in range(n_members))
    return [repeated(rows, of_rows, why).astype(np.int32) for of_rows in counts]


def rows_of_bags(forest: Any, data: AllRows, draws: Bootstrap | None, rows: Any) -> NDArray[np.intp] | None:
    """The rows with a weight; none where the bags of the trees that a warm start keeps are not drawn as those now.

    Parameters
    ----------
    forest : BaseForest
        With the trees of the last fit, and the bootstrap of this one.
    data : AllRows
        The rows of this fit.
    draws, rows
        The bootstrap of the last fit, and its rows with a weight.
    """
    as_many = draws is not None or data.n_rows == forest._ensemble.n_samples[0]
    same_rows = rows is data.rows or (rows is not None and data.rows is not None and np.array_equal(rows, data.rows))
    if as_many and same_rows and draw_alike(draws, forest._bootstrap):
        return data.rows
    if draws is not None:
        check_no_bags_needed(forest)
    return np.zeros(0, dtype=np.intp)


def mean_importances(trees: TreeEnsemble, column_of: NDArray[np.intp], n_features: int) -> NDArray[np.float64]:
    """Share of each feature in the decrease of impurity, the mean over the trees."""
    tree = np.repeat(np.arange(trees.n_trees), np.diff(trees.node_offsets))
    inner = trees.feature >= 0
    cell = tree[inner] * n_features + column_of[trees.feature[inner]]
    gain = np.zeros((trees.n_trees, n_features))
    np.add.at(gain.ravel(), cell, trees.gain[inner])
    total = gain.sum(axis=1, keepdims=True)
    share = np.divide(gain, total, out=np.zeros_like(gain), where=total > 0).mean(axis=0)
    return share / share.sum() if share.any() else share
