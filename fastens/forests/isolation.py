"""Isolation forest: rows that few random splits isolate are outliers (Liu, Ting & Zhou 2008)."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from fastens.engine.comm import Comm, is_any, sum_ints
from fastens.engine.elementary import exp, log
from fastens.engine.forest.forests import TreeRules
from fastens.engine.grow.growth import count_of
from fastens.engine.losses.losses import weighted_quantile, whole_weights
from fastens.engine.rows.sampling import Bootstrap, Copies
from fastens.engine.trees.contributions import depths
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import Bags, Subsample, n_drawn
from fastens.forests.parameters import NUMBER_OF_FEATURES
from fastens.forests.random_splits import RandomSplits
from fastens.params.estimator import with_parameters
from fastens.params.rules import FLAG, one_of, parameter, real, whole
from fastens.tree_model.explanations import explain
from fastens.warn import warn

Array = NDArray[np.float64]
EULER = 0.5772156649015329
# Path length in trees of one row instead of 0, so that the score is one half, as without any splits.
LONE_ROW = 1.0
# Tolerance for rounding in the product of a fraction and a number of rows: 0.07 * 100 is more than 7.
_SLACK = 1e-9


@with_parameters
class IsolationForest(OutlierMixin, RandomSplits):
    """Isolation forest for outlier detection.

    Each tree is grown on a small sample of the rows by random splits on random columns, until every row is isolated or
    the tree reaches the depth of a balanced tree. Rows that are isolated by few splits are outliers. The anomaly score
    of a row is 2 to the power of -d / c, where d is its mean depth and c is the mean depth of a leaf in a random binary
    search tree on as many rows.

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
        number. If None, each tree may use all columns.
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

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> IsolationForest:
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
        X, weight = self._grow_at_random(X, sample_weight)
        lengths = _path_lengths(self._ensemble)
        self._ensemble = self._ensemble.with_values(lengths if self.max_samples_ > 1 else lengths + LONE_ROW)
        self.offset_ = -0.5
        if not isinstance(self.contamination, str):
            self.offset_ = _threshold(self.score_samples(X), self.contamination * (1.0 - _SLACK), weight, self._comm)
        return self

    def _bags(self, seed: int, hashes: NDArray[np.uint64], weight: Array | None) -> Bags:
        copies, n_features = Copies.of(hashes, weight), len(self._column_of)
        wanted = 256 if isinstance(self.max_samples, str) else n_drawn(self.max_samples, copies.total)
        if wanted > copies.total and not isinstance(self.max_samples, str):
            warn(f"max_samples={wanted} is more than the {copies.total} rows: each tree is given as many as there are.")
        n_drawn_before = self.max_samples_ if self._continues() else None
        self.max_samples_ = min(wanted, copies.total)
        if n_drawn_before not in (None, self.max_samples_):
            raise ValueError(
                f"max_samples must stand for the {n_drawn_before} rows that each tree of the last fit was given, with "
                f"warm_start=True; got {self.max_samples!r}, {self.max_samples_} rows."
            )
        n_chosen = count_of(self.max_features, n_features)
        if self.bootstrap:
            return Bags(seed, Bootstrap.plan(hashes, weight, np.array([self.max_samples_])), n_features, n_chosen)
        return Bags(seed, Subsample(copies, self.max_samples_), n_features, n_chosen)

    def _max_depth(self) -> int:
        return max(1, math.ceil(math.log2(max(self.max_samples_, 2))))

    def _rules(self, n_rows: int, total_weight: float) -> TreeRules:
        return TreeRules(
            criterion="squared_error", max_depth=self._max_depth(), features_per_split=1, random_thresholds=True
        )

    def _of_members(self) -> dict[str, Any]:
        return super()._of_members() | {"max_depth": self._max_depth()}

    def fit_predict(self, X: ArrayLike, y: Any = None, **more: Any) -> NDArray[np.int64]:
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

        Returns
        -------
        shap.Explanation, or Explanation if shap is not installed
        """
        self._check_fitted()
        one_of("raw", "probability").check("output", output)
        return explain(self, X, background, output, interactions=interactions, parts=parts, y=None)

    def _contribution_scale(self) -> float:
        return 1 / self._ensemble.n_trees

    def _inverse_link(self, raw: Array) -> Array:
        return -exp(-math.log(2) * raw / self._mean_path_length())

    def _mean_path_length(self) -> float:
        """Return the expected depth of a row in a random tree, by which scores are normalised."""
        # Rounded like the leaf values, so that rows that no split isolates score exactly one half.
        depth = mean_depth(np.array([self.max_samples_])).astype(self._ensemble.value.dtype)
        return float(depth[0]) or LONE_ROW

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the score minus the threshold, which is negative for outliers, shape (n_samples,)."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return -1 for outliers and 1 for inliers, shape (n_samples,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _fitted_names(self) -> tuple[str, ...]:
        return ("offset_", "max_samples_")


def _threshold(scores: Array, share: float, weight: Array | None, comm: Comm) -> float:
    """Return the threshold with a given fraction of the scores below it.

    At most one row more than this fraction is below the threshold. If ties would exceed it, the tied rows are above.
    """
    last = weighted_quantile(scores, share, weight, comm)
    counts = whole_weights(weight, len(scores), comm)
    n_rows, total, n_below = sum_ints(comm, len(scores), int(counts.sum()), int(counts[scores <= last].sum()))
    are_copies = weight is None or not is_any(comm, bool((counts != weight).any()))
    row = 1.0 if are_copies else total / n_rows
    return float(np.nextafter(last, 0.0)) if n_below < share * total + row else last


def mean_depth(n: NDArray[Any]) -> Array:
    """Return the mean depth of a leaf in a random binary search tree on n rows (Liu 2008, eq. 1)."""
    n = n.astype(np.float64)
    harmonic = log(np.maximum(n - 1, 1)) + EULER
    return np.where(n > 2, 2 * harmonic - 2 * (n - 1) / np.maximum(n, 1), np.where(n == 2, 1.0, 0.0))


def _path_lengths(trees: TreeEnsemble) -> NDArray[np.float32]:
    """Return the depth of each node plus the expected depth of its rows in a random tree below it."""
    return (depths(trees) + mean_depth(trees.weight))[:, None].astype(np.float32)
