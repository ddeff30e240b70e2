"""Forests of random splits without a target: isolation forests, and leaves of random trees as features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import OutlierMixin, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in

from fastens.base import BaseFastens, Capabilities
from fastens.engine.bins.binning import binned, learn_binning
from fastens.engine.comm import Comm, gathered, is_any, sum_ints
from fastens.engine.elementary import exp, log
from fastens.engine.forest.forests import ForestGrower, ForestParameters, number_target
from fastens.engine.grow.growth import count_of
from fastens.engine.losses.losses import weighted_quantile, whole_weights
from fastens.engine.rows.sampling import Bootstrap, Subsample, content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import depths
from fastens.engine.trees.trees import TreeEnsemble, TreeStore
from fastens.forests.bags import Bags, LocalRows, Samples, check_continued, check_seed, draw_seed, n_drawn
from fastens.forests.parameters import MIN_SAMPLES_LEAF, MIN_SAMPLES_SPLIT, MIN_WEIGHT, NUMBER_OF_FEATURES, row_count
from fastens.forests.tree import Members
from fastens.modelfile.saving import Saved, SavedParts, attributes
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.options import TextChoice
from fastens.params.rules import ANYTHING, FLAG, NONE, RANDOM_STATE, one_of, parameter, real, whole
from fastens.params.types import ColumnChoice, RandomState
from fastens.table.answers import transforms_streams
from fastens.table.parts import present_part
from fastens.table.training_data import WEIGHT_TYPE, check_weights, unless_ones
from fastens.tree_model.explanations import explain
from fastens.tree_model.saving import BINS, SavedEnsemble, bins_of_features
from fastens.tree_model.tree_model import check_same_rules
from fastens.warn import warn

Array = NDArray[np.float64]
_SEED = "seed"


@with_parameters
class RandomSplits(SavedEnsemble, BaseFastens):
    """Base class of forests that are grown by random splits, without a target.

    Parameters
    ----------
    n_estimators : int
        Number of trees. Time and memory are proportional to it.
    warm_start : bool
        If True, `fit` keeps the existing trees and adds new ones until there are `n_estimators`. With the same rows,
        the result is identical to fitting all trees at once.
    """

    n_estimators: int = parameter(whole(1), default=100, kw_only=False)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    text_features: TextChoice = parameter(ANYTHING, default=None)
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(BINS, default=255)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    warm_start: bool = parameter(FLAG, default=False)
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = SavedEnsemble._docs | described(__doc__)
    _capabilities = Capabilities(supports_distributed_fit=True)

    def _grow_random_trees(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        """Grow the trees, and return this rank's rows of nonzero weight and their weights (None if all are 1).

        Check parameters first; a warm start keeps the trees of the last fit.
        """
        self._check_parameters()
        continues = self._continues()
        if continues:
            check_continued(self.n_estimators, self._ensemble.n_trees, "trees")
            check_same_rules(self)
        comm = self._comm
        self._check_ranks()
        X, sample_weight = present_part(X, sample_weight, comm)
        read = self._encode_table if continues else self._learn_table
        table = self._read_within_limit(X, None, read, weighted=sample_weight is not None)
        weight = check_weights(sample_weight, table.shape[0], comm)
        weight = unless_ones(self._weights_to_count(weight, is_fit=True), comm)
        n_threads = resolve_n_jobs(self.n_jobs)
        if not continues or not hasattr(self, "_seed"):  # models imported from other libraries have no seed
            self._seed: int = comm.allgather(draw_seed(self.random_state))[0]
        self._warn_of_pooled()
        is_categorical = self._is_categorical
        earlier_binning = self._ensemble.binning if continues else None
        binning = earlier_binning or learn_binning(
            table, weight, bins_of_features(self), is_categorical, n_threads, comm
        )
        store = TreeStore(binning, 1, self.n_estimators)
        if continues:
            store.keep(self._ensemble)
        hashes = content_hashes(table, np.zeros(table.shape[0]), n_threads)
        local_rows, (all_hashes, all_weights) = LocalRows.of(comm, len(hashes)), gathered(comm, [hashes, weight])
        bags = self._bags(self._seed, all_hashes, all_weights)
        row_weights = all_weights if bags.draws is None else None
        samples = Samples(bags, row_weights, store.n_trees, self.n_estimators, local_rows)
        # Row hashes serve as targets: a node with distinct rows is never pure, so growth stops only at the limits.
        target = number_target((hashes / 2.0**64)[:, None], comm=comm)
        matrix = binned(binning, table, n_threads, comm)
        total = float(len(all_hashes) if all_weights is None else all_weights.sum())
        grower = ForestGrower(matrix, target, self._rules(len(all_hashes), total), n_threads, X=table)
        grower.grow_into(store.add, samples, store.n_trees)
        self._ensemble = store.ensemble()
        return X, weight

    def _continues(self) -> bool:
        """Return True if this fit is a warm start, which adds trees to the trees of the last fit."""
        return self.warm_start and hasattr(self, "_ensemble")

    def _bags(self, seed: int, hashes: NDArray[np.uint64], weight: Array | None) -> Bags:
        """Return the bags of the trees, by default with all rows and columns, drawn from `seed`.

        `hashes` and `weight` hold the content hashes and weights of the rows of all ranks.
        """
        n_features = len(self._column_of)
        return Bags(seed, None, n_features, n_features)

    def _rules(self, n_rows: int, total_weight: float) -> ForestParameters:
        """Return the growth limits for a number of rows and their total weight; subclasses override it."""
        raise NotImplementedError

    def _member_parameters(self) -> dict[str, Any]:
        """Return the parameters of `estimators_` by name: one random split of one random feature."""
        return self._every_parameter() | {"splitter": "random", "max_features": 1}

    @property
    def estimators_(self) -> Members:
        """The fitted trees, each of which is created as a regression tree estimator when it is accessed."""
        self._check_fitted()
        return Members(self)

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the leaf that each row falls into in each tree, (n_samples, n_estimators)."""
        return self._leaves(X)

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        """Return a tree of `estimators_`, or a list of trees for a slice."""
        return self.estimators_[index]

    _saved: ClassVar[SavedParts] = (attributes("_seed", key=_SEED), Saved(finish=check_seed))


EULER = 0.5772156649015329
# Path length in trees of a single row (instead of 0), so that the score is one half, as it is without any splits.
LONE_ROW = 1.0
# Tolerance for rounding in the product of a fraction and a number of rows: 0.07 * 100 is more than 7.
_SLACK = 1e-9


@with_parameters
class IsolationForest(OutlierMixin, RandomSplits):
    """Isolation forest for outlier detection.

    Each tree is grown on a small sample of the rows by random splits on random columns, until every row is isolated or
    the tree reaches the depth of a balanced tree. Rows that are isolated by few splits are outliers. The anomaly score
    of a row is 2 to the power of -d / c, where d is its mean depth and c is the mean depth of a leaf in a random binary
    search tree with the same number of rows.

    Thresholds are drawn uniformly between the minimum and the maximum of the column in the node, and then moved to the
    midpoint between the two adjacent training values, or between the two adjacent bins if the column has more than
    `max_bins` distinct values. Infinite values are treated as the largest finite number.

    Parameters
    ----------
    {parameters}
    max_samples : int, float or "auto", default="auto"
        Number of rows drawn for each tree. A float is a fraction of the training rows, and "auto" draws at most 256
        rows.
    contamination : float or "auto", default="auto"
        Fraction of outliers in the training set, which sets the threshold. Ties in the scores can lower the fraction of
        rows that are flagged. If "auto", rows whose `score_samples` is below -0.5 are outliers.
    max_features : int, float, "sqrt", "log2" or None, default=None
        Number of columns drawn for each tree. A float is a fraction of the columns; "sqrt" and "log2" apply to their
        number. If None, or a number above the number of columns, each tree may use all columns.
    bootstrap : bool, default=False
        If True, draw rows with replacement.

    Attributes
    ----------
    offset_ : float
        Threshold of the scores: ``decision_function`` is ``score_samples - offset_``.
    max_samples_ : int
        Number of rows drawn for each tree.
    {attributes}

    References
    ----------
    F. T. Liu, K. M. Ting, Z.-H. Zhou (2008). Isolation forest. ICDM, eq. 1 and 2.

    Examples
    --------
    >>> from fastens import IsolationForest
    >>> model = IsolationForest(random_state=0).fit([[-1.1], [0.3], [0.5], [100]])
    >>> model.predict([[0.1], [0], [90]])
    array([ 1,  1, -1])
    """

    _combination = "path length"
    _has_class_shares = False
    max_samples: int | float | str = parameter(one_of("auto") | whole(1) | real(0, 1, open_low=True), default="auto")
    contamination: float | str = parameter(one_of("auto") | real(0, 0.5, open_low=True), default="auto")
    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=None)
    bootstrap: bool = parameter(FLAG, default=False)

    max_samples_: int = field(init=False)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> IsolationForest:
        """Grow the trees and set the threshold.

        Parameters
        ----------
        {X}
        y : ignored
            Accepted for compatibility with pipelines.
        sample_weight : array of shape (n_samples,), optional
            Relative probabilities with which rows are drawn. A weight of 2 is equivalent to repeating the row, and a
            weight of 0 to leaving it out.

        Returns
        -------
        self
        """
        X, weight = self._grow_random_trees(X, sample_weight)
        lengths = _path_lengths(self._ensemble)
        self._ensemble = self._ensemble.with_values(lengths if self.max_samples_ > 1 else lengths + LONE_ROW)
        self.offset_ = -0.5
        if not isinstance(self.contamination, str):
            self.offset_ = _outlier_threshold(
                self.score_samples(X), self.contamination * (1.0 - _SLACK), weight, self._comm
            )
        return self

    def _bags(self, seed: int, hashes: NDArray[np.uint64], weight: Array | None) -> Bags:
        """Return the bags of the trees, which draw `max_samples` rows and `max_features` columns each from `seed`.

        Set `max_samples_`; raise ValueError if a warm start changes it. `hashes` and `weight` belong to all ranks'
        rows.
        """
        copies, n_features = Subsample.plan(hashes, weight), len(self._column_of)
        wanted = 256 if isinstance(self.max_samples, str) else n_drawn(self.max_samples, copies.total)
        if wanted > copies.total and not isinstance(self.max_samples, str):
            warn(f"max_samples={wanted} exceeds the {copies.total} rows, so each tree trains on all of them.")
        n_drawn_before = self.max_samples_ if self._continues() else None
        self.max_samples_ = min(wanted, copies.total)
        if n_drawn_before not in (None, self.max_samples_):
            raise ValueError(
                f"max_samples must give {n_drawn_before} rows for each tree, as in the last fit, with "
                f"warm_start=True; got {self.max_samples!r}, {self.max_samples_} rows."
            )
        n_chosen = count_of(self.max_features, n_features)
        if self.bootstrap:
            return Bags(seed, Bootstrap.plan(hashes, weight, np.array([self.max_samples_])), n_features, n_chosen)
        return Bags(seed, replace(copies, n_drawn=self.max_samples_), n_features, n_chosen)

    def _max_depth(self) -> int:
        """Return the maximum depth of trees, the base-2 logarithm of `max_samples_`, rounded up."""
        return max(1, math.ceil(math.log2(max(self.max_samples_, 2))))

    def _rules(self, n_rows: int, total_weight: float) -> ForestParameters:
        """Return the growth limits: random splits of one random feature, up to the maximum depth."""
        return ForestParameters(
            criterion="squared_error", max_depth=self._max_depth(), features_per_split=1, random_thresholds=True
        )

    def _member_parameters(self) -> dict[str, Any]:
        """Return the parameters of `estimators_` by name, with the maximum depth."""
        return super()._member_parameters() | {"max_depth": self._max_depth()}

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **more: Any) -> NDArray[np.int64]:
        """Fit the model and predict which training rows are outliers.

        Parameters
        ----------
        {X}
        y : ignored
            Accepted for compatibility with pipelines.
        **more
            Further arguments of `fit`.

        Returns
        -------
        array of shape (n_samples,)
            -1 for outliers and 1 for inliers.
        """
        return self.fit(X, y, **more).predict(X)

    def score_samples(self, X: ArrayLike) -> Array:
        """Return the negated anomaly score of each row, from -1 (clear outlier) to 0, shape (n_samples,)."""
        self._check_fitted()
        return self._inverse_link(self._raw(X)[:, 0] / self._ensemble.n_trees)

    def explain(
        self,
        X: ArrayLike,
        background: ArrayLike | None = None,
        *,
        output: str = "raw",
        interactions: bool = False,
        parts: bool = False,
        groups: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return Shapley values of the path lengths or scores; see `RandomForestRegressor.explain`.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to explain.
        background : table of shape (n_background, n_features), optional
            Background rows for interventional Shapley values. If None, the values are path-dependent.
        output : {"raw", "probability"}, default="raw"
            Output to explain: "raw" is the mean path length, which is short for outliers. "probability" is the result
            of `score_samples`, and requires background rows.
        interactions : bool, default=False
            If True, return interaction values: the main effect of each feature and its interactions with the others.
        parts : bool, default=False
            If True, return a value for each of `feature_parts_` instead of for each column.
        groups : dict of lists of columns, optional
            Groups of columns by name that are explained together. If None, each column is explained.

        Returns
        -------
        shap.Explanation, or Explanation if shap is not installed
        """
        self._check_fitted()
        one_of("raw", "probability").check("output", output)
        return explain(self, X, background, output, None, interactions=interactions, parts=parts, groups=groups)

    def _contribution_scale(self) -> float:
        """Return the factor that turns a sum of path lengths over the trees into their mean."""
        return 1 / self._ensemble.n_trees

    def _inverse_link(self, raw: Array) -> Array:
        """Return the scores of `score_samples`, from -1 for outliers to 0, for mean path lengths `raw`."""
        return -exp(-math.log(2) * raw / self._mean_path_length())

    def _mean_path_length(self) -> float:
        """Return the expected depth of one of `max_samples_` rows in a random tree, by which scores are normalised."""
        # Rounded like the leaf values, so that rows that no split isolates score exactly one half.
        depth = mean_depth(np.array([self.max_samples_])).astype(self._ensemble.value.dtype)
        return float(depth[0]) or LONE_ROW

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the score minus the threshold, which is negative for outliers, shape (n_samples,)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return -1 for outliers and 1 for inliers, shape (n_samples,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    _saved: ClassVar[SavedParts] = ("offset_", "max_samples_")


def _outlier_threshold(scores: Array, share: float, weight: Array | None, comm: Comm) -> float:
    """Return the threshold below which a fraction `share` of the scores of all ranks lies, weighted by `weight`.

    At most one row more than this fraction is below the threshold. If ties would exceed it, the tied rows are above.
    """
    last = weighted_quantile(scores, share, weight, comm)
    counts = whole_weights(weight, len(scores), comm)
    n_rows, total, n_below = sum_ints(comm, len(scores), int(counts.sum()), int(counts[scores <= last].sum()))
    are_copies = weight is None or not is_any(comm, bool((counts != weight).any()))
    row = 1.0 if are_copies else total / n_rows
    return float(np.nextafter(last, 0.0)) if n_below < share * total + row else last


def mean_depth(n: NDArray[Any]) -> Array:
    """Return the mean depth of a leaf in a random binary search tree on each number of rows `n` (Liu 2008, eq. 1)."""
    n = n.astype(np.float64)
    harmonic = log(np.maximum(n - 1, 1)) + EULER
    return np.where(n > 2, 2 * harmonic - 2 * (n - 1) / np.maximum(n, 1), np.where(n == 2, 1.0, 0.0))


def _path_lengths(trees: TreeEnsemble) -> NDArray[np.float32]:
    """Return each node's depth plus the expected depth of its rows in a random tree below it, (n_nodes, 1)."""
    return (depths(trees) + mean_depth(trees.weight))[:, None].astype(np.float32)


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

    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> RandomTreesEmbedding:
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
        self._grow_random_trees(X, sample_weight)
        return self

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Any:
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

    def _rules(self, n_rows: int, total_weight: float) -> ForestParameters:
        """Return the growth limits that the parameters describe, with random splits of one random feature."""
        return ForestParameters(
            criterion="squared_error",
            max_depth=self.max_depth,
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_split=max(2, row_count(self.min_samples_split, n_rows)),
            min_samples_leaf=row_count(self.min_samples_leaf, n_rows),
            min_weight_leaf=self.min_weight_fraction_leaf * total_weight,
            features_per_split=1,
            random_thresholds=True,
        )
