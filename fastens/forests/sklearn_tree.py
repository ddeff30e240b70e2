"""A fitted tree under the names that scikit-learn's `tree_` has, for code that was written for those."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from fastens.cached import cached_property
from fastens.engine.elementary import log2

NO_NODE, NO_FEATURE = -1, -2


class SklearnTree:
    """The arrays of a fitted tree, one entry for each node: node 0 is the root, parents stand before their children.

    Parameters
    ----------
    model : fitted decision tree
        Whose tree it is.
    """

    def __init__(self, model: Any) -> None:
        self._model = model._as_it_is()
        self._trees = model._ensemble
        self.n_outputs = model.n_outputs_
        self.n_features = model.n_features_in_
        counts = getattr(model, "n_classes_", 1)
        self.n_classes = np.broadcast_to(counts, self.n_outputs).astype(np.intp)
        self.max_n_classes = int(self.n_classes.max())
        self.node_count = self.capacity = len(self._trees.feature)
        self.n_leaves = int(self._trees.n_leaves[0])
        self.max_depth = int(self._trees.max_depth[0])

    @cached_property
    def _is_leaf(self) -> NDArray[np.bool_]:
        return self._trees.feature < 0

    @cached_property
    def children_left(self) -> NDArray[np.int64]:
        """Left children, -1 at leaves."""
        return np.where(self._is_leaf, NO_NODE, self._trees.left_child).astype(np.int64)

    @cached_property
    def children_right(self) -> NDArray[np.int64]:
        """Right children, -1 at leaves."""
        return np.where(self._is_leaf, NO_NODE, self._trees.left_child.astype(np.int64) + 1)

    @cached_property
    def feature(self) -> NDArray[np.int64]:
        """Features of splits, -2 at leaves."""
        columns = self._model._column_of[np.maximum(self._trees.feature, 0)]
        return np.where(self._is_leaf, NO_FEATURE, columns).astype(np.int64)

    @cached_property
    def threshold(self) -> NDArray[np.float64]:
        """Values up to it go left; -2 at leaves, NaN at splits by categories."""
        return np.where(self._is_leaf, float(NO_FEATURE), self._trees.threshold)

    @cached_property
    def missing_go_to_left(self) -> NDArray[np.uint8]:
        """Whether missing values go left."""
        trees = self._trees
        of_sets = trees.category_words[np.maximum(trees.category_set, 0)] & 1 if len(trees.category_words) else 0
        return np.where(trees.category_set < 0, trees.missing_left, of_sets).astype(np.uint8)

    @cached_property
    def n_node_samples(self) -> NDArray[np.int64]:
        """Number of training rows in a node."""
        return self._trees.n_samples.astype(np.int64)

    @cached_property
    def weighted_n_node_samples(self) -> NDArray[np.float64]:
        """Sum of the weights of the training rows in a node."""
        return self._trees.weight.astype(np.float64)

    @cached_property
    def value(self) -> NDArray[np.float64]:
        """Shares of classes, or numbers, of each target: (node_count, n_outputs, max_n_classes)."""
        if not hasattr(self._model, "classes_"):
            return self._trees.value.astype(np.float64)[:, :, None]
        shares = self._model._targets.probabilities(self._trees.value)
        found = np.zeros((self.node_count, self.n_outputs, self.max_n_classes))
        for target, own in enumerate(shares if isinstance(shares, list) else [shares]):
            found[:, target, : own.shape[1]] = own
        return found

    @cached_property
    def impurity(self) -> NDArray[np.float64]:
        """The criterion of the rows in a node.

        Of numbers, in trees of forests and of other libraries: what the splits below take from it, so 0 at leaves.
        """
        if hasattr(self._model, "classes_"):
            shares = self.value
            if self._model.criterion == "gini":
                return (1 - (shares**2).sum(axis=2)).mean(axis=1)
            return -(shares * log2(np.where(shares > 0, shares, 1.0))).sum(axis=2).mean(axis=1)
        if getattr(self._model, "_impurities", None) is not None:
            return self._model._impurities
        total = self._trees.gain.astype(np.float64)
        for node in np.flatnonzero(~self._is_leaf)[::-1].tolist():
            left = self._trees.left_child[node]
            total[node] += total[left] + total[left + 1]
        return total / self.weighted_n_node_samples

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the values of the leaves that rows fall into.

        Shape (n_samples, n_outputs, max_n_classes), without the middle one for one target.
        """
        values = self.value[self.apply(X)]
        return values[:, 0] if self.n_outputs == 1 else values

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the leaf that each row falls into, (n_samples,)."""
        return self._model.apply(X).astype(np.int64)

    def decision_path(self, X: ArrayLike) -> csr_matrix:
        """Return the nodes that each row visits: a CSR matrix of shape (n_samples, node_count) of ones."""
        return self._model.decision_path(X)

    def compute_feature_importances(self, normalize: bool = True) -> NDArray[np.float64]:
        """Return what the splits on each feature take from the impurity, or the shares in that."""
        found = np.zeros(self.n_features)
        inner = ~self._is_leaf
        np.add.at(found, self.feature[inner], self._trees.gain[inner] / self._trees.weight[0])
        return found / found.sum() if normalize and found.any() else found

    def __getstate__(self) -> dict[str, Any]:
        return {"_model": self._model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_model"])  # type: ignore[misc]
