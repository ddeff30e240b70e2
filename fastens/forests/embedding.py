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
    """Rows as the leaves that they fall into, in trees of random splits.

    The trees are grown without a target. A linear model on their leaves, one column each, is a model of as many boxes.
    For the leaves of trees that have learned from a target, see the method `leaf_features` of every model of trees.

    A threshold is drawn uniformly between the smallest and the largest value of a column in the node, and cuts half-way
    between the two neighbouring values of the training rows (or bins, of a column with more than `max_bins` values).
    Infinite values count as the largest finite numbers.

    Parameters
    ----------
    {parameters}
    max_depth : int or None, default=5
        Most splits between the root and a leaf; None for no limit.
    min_samples_split : int or float, default=2
        Fewest rows, or smallest share of them, that a node may be split with.
    min_samples_leaf : int or float, default=1
        Fewest rows, or smallest share of them, in a leaf.
    min_weight_fraction_leaf : float, default=0.0
        Smallest share of all weights in a leaf.
    max_leaf_nodes : int or None, default=None
        Most leaves of a tree.
    sparse_output : bool, default=True
        Whether `transform` returns a sparse matrix, or an array.

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
            There for pipelines.
        {sample_weight}

        Returns
        -------
        self
        """
        self._grow_at_random(X, sample_weight)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Any:
        """Grow the trees, and return the leaves of the same rows as `transform` does."""
        return self.fit(X, y, sample_weight).transform(X)

    def transform(self, X: ArrayLike) -> csr_matrix | Array:
        """Return a column for each leaf of each tree, 1 where a row falls into it.

        Returns
        -------
        CSR matrix of shape (n_samples, n_leaves)
            An array with ``sparse_output=False``.
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
