"""Leaves of random trees as features (Moosmann, Triggs & Jurie 2006; Geurts, Ernst & Wehenkel 2006)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from fastens.engine.forest.forests import TreeRules
from fastens.forests.parameters import MIN_SAMPLES_LEAF, MIN_SAMPLES_SPLIT, MIN_WEIGHT, n_of_rows
from fastens.forests.random_splits import RandomSplits
from fastens.params.estimator import with_parameters
from fastens.params.rules import FLAG, NONE, parameter, whole
from fastens.table.answers import transforms_streams

Array = NDArray[np.float64]


@transforms_streams
@with_parameters
class RandomTreesEmbedding(TransformerMixin, RandomSplits):
    """Unsupervised embedding of rows by the leaves of trees with random splits.

    Each row is one-hot encoded by the leaves that it falls into. The trees are grown without a target. A linear model
    on this embedding is piecewise constant over the boxes of the leaves. For the leaves of supervised trees, use the
    method `leaf_features` of any tree model.

    Thresholds are drawn uniformly between the minimum and the maximum of the column in the node, and then moved to the
    midpoint between the two adjacent training values, or between the two adjacent bins if the column has more than
    `max_bins` distinct values. Infinite values are treated as the largest finite number.

    Parameters
    ----------
    {parameters}
    max_depth : int or None, default=5
        Maximum depth of a tree. Deeper trees give more and smaller leaves. If None, depth is not limited.
    min_samples_split : int or float, default=2
        Minimum number of rows in a node that may be split. A float is a fraction of the training rows.
    min_samples_leaf : int or float, default=1
        Minimum number of rows in a leaf. A float is a fraction of the training rows.
    min_weight_fraction_leaf : float, default=0.0
        Minimum fraction of the total sample weight in a leaf.
    max_leaf_nodes : int or None, default=None
        Maximum number of leaves of a tree. If None, the number of leaves is not limited.
    sparse_output : bool, default=True
        If True, `transform` returns a sparse matrix, otherwise a dense array.

    Attributes
    ----------
    {attributes}

    References
    ----------
    F. Moosmann, B. Triggs, F. Jurie (2006). Fast discriminative visual codebooks using randomized clustering forests.
    NIPS.

    Examples
    --------
    >>> from fastens import RandomTreesEmbedding
    >>> model = RandomTreesEmbedding(5, max_depth=1, random_state=0).fit([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]])
    >>> model.transform([[0, 0], [3, 0]]).toarray().sum(axis=1)
    array([5., 5.])
    """

    _combination = "leaves"
    max_depth: int | None = parameter(whole(1) | NONE, default=5)
    min_samples_split: int | float = parameter(MIN_SAMPLES_SPLIT, default=2)
    min_samples_leaf: int | float = parameter(MIN_SAMPLES_LEAF, default=1)
    min_weight_fraction_leaf: float = parameter(MIN_WEIGHT, default=0.0)
    max_leaf_nodes: int | None = parameter(whole(2) | NONE, default=None)
    sparse_output: bool = parameter(FLAG, default=True)

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> RandomTreesEmbedding:
        """Grow the trees.

        Parameters
        ----------
        {X}
        y : ignored
            Accepted for compatibility with pipelines.
        {sample_weight}

        Returns
        -------
        self
        """
        self._grow_at_random(X, sample_weight)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Any:
        """Grow the trees and return the embedding of the training rows."""
        return self.fit(X, y, sample_weight).transform(X)

    def transform(self, X: ArrayLike) -> csr_matrix | Array:
        """Return a column for each leaf of each tree that is 1 if the row falls into the leaf, and 0 otherwise.

        Returns
        -------
        CSR matrix of shape (n_samples, n_leaves)
            A dense array if ``sparse_output=False``.
        """
        features = self.leaf_features(X)
        return features if self.sparse_output else features.toarray()

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return "randomtreesembedding_<tree>_<node>" for each column of `transform`."""
        self._check_fitted()
        _check_feature_names_in(self, input_features, generate_names=False)
        trees = self._ensemble
        leaf = np.flatnonzero(trees.left_child == 0)
        tree = np.searchsorted(trees.node_offsets, leaf, side="right") - 1
        node = leaf - trees.node_offsets[tree]
        pairs = zip(tree.tolist(), node.tolist(), strict=True)
        return np.array([f"randomtreesembedding_{t}_{n}" for t, n in pairs], dtype=object)

    def _rules(self, n_rows: int, total_weight: float) -> TreeRules:
        return TreeRules(
            criterion="squared_error",
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_split=max(2, n_of_rows(self.min_samples_split, n_rows)),
            min_samples_leaf=n_of_rows(self.min_samples_leaf, n_rows),
            min_weight_leaf=self.min_weight_fraction_leaf * total_weight,
            features_per_split=1,
            random_thresholds=True,
        )
