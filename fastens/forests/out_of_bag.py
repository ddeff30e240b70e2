"""Out-of-bag predictions, scores, importances and intervals of forests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from fastens.base import TrainingData
from fastens.conformal.scores import ConformalScores, HeldOut, intervals, nearest_columns
from fastens.engine.bins.binning import AnyMatrix
from fastens.engine.comm import first_row, gathered
from fastens.engine.losses.losses import weighted_quantile
from fastens.engine.rows.sampling import content_hashes, random_stream, stream_seeds
from fastens.engine.threads import ThreadPool, resolve_n_jobs, threads_for
from fastens.engine.trees.contributions import LeftOut, PermutedLosses
from fastens.engine.trees.leaf_values import LeafRows
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import PERMUTING
from fastens.params.rules import naming_table
from fastens.tree_model.explanations import importance_bunch
from fastens.warn import warn

Array = NDArray[np.float64]
# Maximum number of bag counts, and of their products with predictions, in memory.
_BLOCK_VALUES = 1 << 22
# Number of predictions per matrix product. It is constant so that the results of a row do not depend on other rows.
_AT_ONCE = 64


def deviations(predictions: Iterator[Sequence[NDArray[np.floating]]]) -> list[Array]:
    """Return the standard deviations over trees of the arrays that `predictions` yields for each tree."""
    first = next(predictions)
    means, squares = [part.astype(np.float64) for part in first], [np.zeros(part.shape) for part in first]
    n = 1
    for n, parts in enumerate(predictions, 2):
        for i, predicted in enumerate(parts):
            distance = predicted - means[i]
            means[i] += distance / n
            squares[i] += distance * (predicted - means[i])
    return [np.sqrt(each / n) for each in squares]


def jackknife_variances(
    trees: TreeEnsemble, leaves: NDArray[np.int32], bags: Iterator[NDArray[np.int64]], n_draws: float
) -> Array:
    """Return the infinitesimal jackknife variance of predictions, (n_samples, n_outputs): see `predict_variance`.

    `leaves` has the leaf of each row in each tree, (n_samples, n_trees), and `bags` yields for each tree how often each
    training row was drawn. `n_draws` is the number of draws in a bag.
    """
    n_trees, (n_samples, _) = trees.n_trees, leaves.shape
    first_bag = next(bags)
    drawn = np.empty((n_trees, len(first_bag)), dtype=np.float32)
    for tree, bag in enumerate(chain([first_bag], bags)):
        drawn[tree] = bag
    variances = np.empty((n_samples, trees.n_outputs))
    step = max(1, _BLOCK_VALUES // (n_trees * trees.n_outputs))
    for first in range(0, n_samples, step):
        block = slice(first, first + step)
        predicted = trees.value[trees.node_offsets[:-1, None] + leaves[block].T]
        variances[block] = _variances(predicted, drawn, n_draws)
    return variances


def _variances(predicted: NDArray[np.floating], drawn: NDArray[np.float32], n_draws: float) -> Array:
    """Return the jackknife variances, (n_samples, n_outputs), of predictions (n_trees, n_samples, n_outputs).

    `drawn` holds how often each tree drew each training row, (n_trees, n_rows), and `n_draws` is the sum for a tree.
    """
    n_trees, n_samples, n_outputs = predicted.shape
    columns = predicted.reshape(n_trees, -1)
    column_variances = np.empty(columns.shape[1])
    part = np.zeros((n_trees, _AT_ONCE))
    for first in range(0, columns.shape[1], _AT_ONCE):
        n_columns = min(_AT_ONCE, columns.shape[1] - first)
        part[:, :n_columns] = columns[:, first : first + n_columns]
        part -= part.mean(axis=0)
        variances = _squared_covariances(part, drawn) - n_draws / n_trees**2 * (part**2).sum(axis=0)
        column_variances[first : first + n_columns] = variances[:n_columns]
    return np.maximum(column_variances, 0.0).reshape(n_samples, n_outputs)


def _squared_covariances(predicted: Array, drawn: NDArray[np.float32]) -> Array:
    """Return, for each column of predictions, the sum over training rows of its squared covariance with their draws.

    The covariance is over the trees, the rows of both `predicted`, whose columns have mean 0, and `drawn`.
    """
    n_trees, n_predicted = predicted.shape
    total = np.zeros(n_predicted)
    step = max(1, _BLOCK_VALUES // max(n_predicted, n_trees))
    for first in range(0, drawn.shape[1], step):
        part = drawn[:, first : first + step].astype(np.float64)
        part -= part.mean(axis=0)
        total += ((part.T @ predicted / n_trees) ** 2).sum(axis=0)
    return total


def proximities(forest: Any, X: ArrayLike, others: ArrayLike | None, n_neighbors: int | None) -> csr_matrix:
    """Return the fraction of trees in which rows of X and `others` (X if None) share a leaf, (n_samples, n_others).

    If `n_neighbors` is not None, only this number of the largest fractions of each row is kept.
    """
    leaf = np.ascontiguousarray(forest._leaves(X))
    with naming_table("others"):
        other_leaf = leaf if others is None else np.ascontiguousarray(forest._leaves(others))
    members = np.arange(len(other_leaf), dtype=np.uint32)
    rows = LeafRows.group(forest._ensemble.node_offsets, other_leaf, members)
    return rows.proximity(leaf, len(members), n_neighbors, resolve_n_jobs(forest.n_jobs))


# Levels (1 - c) / 2 and (1 + c) / 2 for coverages c = .5 to .99. Other coverages start from the nearest levels.
LEVELS = (0.005, 0.025, 0.05, 0.1, 0.25, 0.75, 0.9, 0.95, 0.975, 0.995)
# Maximum number of calibration rows: with 20 000 rows, the coverage has a standard deviation of .002.
MAX_ROWS = 20_000
# Relative rounding error of the interval ends, by the item size of the leaf values: even if all trees predict the same
# value, their mean may differ from it by rounding. Leaf values are float64 if targets have a large offset relative to
# their range.
_ROUNDING = {4: 2.0**-21, 8: 2.0**-44}


@dataclass(frozen=True, eq=False)
class TargetQuantiles:
    """Quantiles of new targets, estimated from the predictions of the trees as the average of two estimates.

    The first estimate is the quantile of the trees' predictions, as in a quantile forest whose leaves keep one row each
    (Meinshausen 2006). It follows the shape of the noise, but mistakes variation of the function within a leaf for
    noise. The second one is the mean of the predictions plus their standard deviation times the quantile of the
    standardised out-of-bag errors (Johansson et al. 2014), which has the same shape for all rows. If `has_one_spread`
    is True, it also has the same width for all rows, because standard deviations do not obey monotonic constraints;
    both estimates are then monotonic in the trees' predictions.
    """

    floor: float  # added to the standard deviations
    scaled: ConformalScores  # out-of-bag errors: (target - mean) / (standard deviation + floor)
    has_one_spread: bool = False

    @classmethod
    def learn(
        cls, values: NDArray[np.floating], y: Array, weight: Array | None, *, has_one_spread: bool = False
    ) -> TargetQuantiles:
        """Return the estimator of quantiles, learned from out-of-bag predictions and targets of training rows.

        `values` holds each tree's predictions, (n_rows, n_trees), which are NaN for rows in the tree's bag.
        """
        mean, spread = _mean_and_spread(values)
        floor = weighted_quantile(spread, 0.5, weight) or 1.0
        scale = floor if has_one_spread else spread + floor
        return cls(floor, ConformalScores.of((y - mean) / scale, weight), has_one_spread)

    def predict(self, values: NDArray[np.floating], levels: Sequence[float] | Array) -> Array:
        """Return quantiles of new targets, (n_rows, n_levels), from each tree's predictions, (n_rows, n_trees)."""
        mean, spread = _mean_and_spread(values)
        steps = np.array([self.scaled.score_at_weight(level * self.scaled.total) for level in levels])
        scale = np.full(len(mean), self.floor) if self.has_one_spread else spread + self.floor
        by_errors = mean[:, None] + scale[:, None] * steps
        return 0.5 * by_errors + 0.5 * quantiles_of_trees(values, levels)


@dataclass(frozen=True, eq=False)
class TreeErrors:
    """Errors of the estimated quantiles on out-of-bag rows."""

    quantiles: TargetQuantiles
    errors: HeldOut  # errors of the quantiles at LEVELS

    @classmethod
    def learn(
        cls, values: NDArray[np.floating], y: Array, weight: Array | None, *, has_one_spread: bool = False
    ) -> TreeErrors | None:
        """Return the errors of estimated quantiles on the out-of-bag rows; None if there are zero rows.

        `values` holds each tree's predictions, (n_rows, n_trees), which are NaN for rows in the tree's bag.
        """
        if not len(y):
            return None
        quantiles = TargetQuantiles.learn(values, y, weight, has_one_spread=has_one_spread)
        return cls(quantiles, HeldOut.errors(quantiles.predict(values, LEVELS), y, np.ones(len(y)), weight))

    def intervals(self, values: NDArray[np.floating], coverage: float, n_threads: int) -> Array:
        """Return intervals, (n_rows, 2), from each tree's predictions, (n_rows, n_trees).

        The ends are the two quantiles of LEVELS nearest to the coverage, shifted to reach it on the out-of-bag rows.
        """
        columns = nearest_columns(LEVELS, len(LEVELS), coverage)
        ends = self.quantiles.predict(values, [LEVELS[column] for column in columns])
        # With monotonic constraints, the rounding margin of each end depends on that end only, so that it stays
        # monotonic.
        largest = np.abs(ends) if self.quantiles.has_one_spread else np.abs(ends).max(axis=1, keepdims=True)
        rounding = _ROUNDING[values.itemsize] * largest
        scores, one = self.errors.scores(columns), np.ones(len(ends))
        shifted_ends = intervals([scores], [ends], [one], coverage, n_threads)
        return shifted_ends + rounding * [-1.0, 1.0]

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the errors and quantile estimator as arrays for `from_arrays`, whose names start with `prefix`."""
        arrays = {f"{prefix}floor": np.array(self.quantiles.floor)}
        arrays |= {f"{prefix}one_spread": np.array(True)} if self.quantiles.has_one_spread else {}
        return arrays | self.quantiles.scaled.to_arrays(f"{prefix}scaled.") | self.errors.to_arrays(f"{prefix}errors.")

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> TreeErrors:
        """Return the errors from the arrays of `to_arrays`; raise ValueError if the arrays are malformed."""
        floor, errors = float(arrays[f"{prefix}floor"]), HeldOut.from_arrays(f"{prefix}errors.", arrays)
        if errors.values.shape[1] != len(LEVELS) or not floor > 0:
            raise ValueError("the out-of-bag errors are malformed")
        scaled = ConformalScores.from_arrays(f"{prefix}scaled.", arrays)
        return cls(TargetQuantiles(floor, scaled, f"{prefix}one_spread" in arrays), errors)


def quantiles_of_trees(values: NDArray[np.floating], levels: Sequence[float] | Array) -> Array:
    """Return quantiles of the values in each row of `values`, (n_rows, n_levels), ignoring NaN.

    Level p is at position p (k + 1) of the k sorted values (Weibull's definition), so that a new draw is below it with
    probability p for any number of trees.
    """
    ordered = np.sort(values, axis=1).astype(np.float64)  # NaN values are sorted last
    n_values = np.count_nonzero(~np.isnan(ordered), axis=1)[:, None]
    position = np.clip(np.asarray(levels) * (n_values + 1) - 1, 0, n_values - 1)
    low = position.astype(np.intp)
    share = position - low
    below, above = (np.take_along_axis(ordered, at, axis=1) for at in (low, np.minimum(low + 1, n_values - 1)))
    return below + share * (above - below)


def _mean_and_spread(values: NDArray[np.floating]) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each row of `values`, both (n_rows,), ignoring NaN."""
    return np.nanmean(values, axis=1, dtype=np.float64), np.nanstd(values, axis=1, dtype=np.float64)


_PREFIX = "out_of_bag."
_OF_CLASSES, _OF_NUMBERS = "uncertainty.scores.", "uncertainty.errors."
# Rows per thread, which take tens of microseconds to traverse a tree.
_GRAIN = 500
IN_ALL_BAGS = "Some rows are in all bags and have no out-of-bag prediction. Use more trees."
NEVER_OUT = (
    "All rows are in all bags, so oob_score_ is NaN: the draws per row are too many. Set "
    "weight_type='importance', which draws as many rows as the table has, or lower max_samples."
)


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """Out-of-bag predictions and errors of a forest (Breiman 2001, section 3.1)."""

    mean: Array  # out-of-bag prediction of each row of `fit`, (n_rows, n_outputs); NaN for rows in all bags
    score: float
    tree_scores: Array  # (n_trees,)
    error_curve: Array  # mean loss after each tree, (n_trees,)
    conformity: ConformalScores | TreeErrors | None  # out-of-bag errors for calibration; TreeErrors in regression

    @classmethod
    def measure(cls, forest: Any, matrix: AnyMatrix, data: TrainingData) -> OutOfBag:
        """Return the out-of-bag predictions, errors and scores of a forest that has just been grown.

        `matrix` holds this rank's binned rows, and `data` the targets of all ranks. Warn if rows are in all bags.
        """
        sums, n_trees, errors, scores = _sum_left_out(forest, matrix, data)
        has_prediction = n_trees > 0
        if not has_prediction.all():
            warn(IN_ALL_BAGS if has_prediction.any() else NEVER_OUT)
        mean = np.divide(sums, n_trees[:, None], out=np.full_like(sums, np.nan), where=has_prediction[:, None])
        of_known = _select_rows(data, has_prediction)
        score = _oob_score(forest, mean[has_prediction], of_known) if has_prediction.any() else np.nan
        conformity = None
        if data.y.ndim == 1 and has_prediction.any():
            conformity = forest._conformity(matrix, mean, data.y, has_prediction, of_known.sample_weight)
        if data.rows is not None:
            spread = np.full((data.n_given, mean.shape[1]), np.nan)
            spread[data.rows] = mean
            mean = spread
        return cls(mean, score, scores, errors, conformity)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the predictions, scores, error curve and calibration errors as arrays for `from_arrays`."""
        fields = {"mean": self.mean, "errors": self.error_curve, "score": self.score, "scores": self.tree_scores}
        arrays = {_PREFIX + name: np.asarray(array) for name, array in fields.items()}
        if self.conformity is not None:
            arrays |= self.conformity.to_arrays(_OF_NUMBERS if isinstance(self.conformity, TreeErrors) else _OF_CLASSES)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], n_outputs: int) -> OutOfBag | None:
        """Return the results from the arrays of `to_arrays`, or None without them; raise ValueError if malformed."""
        if _PREFIX + "mean" not in arrays:
            return None
        mean, score, scores, errors = (arrays[_PREFIX + name] for name in ("mean", "score", "scores", "errors"))
        if mean.ndim != 2 or mean.shape[1] != n_outputs:
            raise ValueError("the out-of-bag predictions and the trees do not match")
        kinds: dict[str, Any] = {_OF_NUMBERS: TreeErrors, _OF_CLASSES: ConformalScores}
        prefixes = [prefix for prefix in kinds if any(name.startswith(prefix) for name in arrays)]
        conformity = kinds[prefixes[0]].from_arrays(prefixes[0], arrays) if prefixes else None
        return cls(mean, float(score), scores, errors, conformity)

    def measured_conformity(self) -> Any:
        """Return the out-of-bag errors that calibrate intervals or sets; raise ValueError without such errors."""
        if self.conformity is None:
            raise ValueError(
                "max_samples must leave rows out of bags to measure prediction errors; all rows are in all bags. Lower "
                "max_samples, or set weight_type='importance', which draws as many rows as the table has."
            )
        return self.conformity


def _sum_left_out(forest: Any, matrix: AnyMatrix, data: TrainingData) -> tuple[Array, NDArray[np.int32], Array, Array]:
    """Return each row's sum of out-of-bag leaf values and number of trees, and each tree's error and score.

    A tree's error is the mean out-of-bag loss of all trees up to it; its score is for the tree alone. `data` holds the
    targets of all ranks, and `matrix` holds the rows of this rank.
    """
    trees, bags, y = forest._predicting_trees(), forest._bags(), data.y.reshape(len(data.y), -1)
    targets = forest._targets
    n_threads = threads_for(len(y), resolve_n_jobs(forest.n_jobs), _GRAIN)
    left = LeftOut(trees, matrix, n_threads)
    sums, n_trees = np.zeros((len(y), trees.n_outputs)), np.zeros(len(y), dtype=np.int32)
    first, _ = first_row(matrix.comm, matrix.n_rows)
    local_rows, of_own = slice(first, first + matrix.n_rows), np.zeros(matrix.n_rows, dtype=np.int32)
    weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    losses, (errors, scores) = np.zeros(len(y)), np.full((2, trees.n_trees), np.nan)
    for t in range(trees.n_trees):
        counts = bags.counts(t, t + 1)[0]
        [predicted] = gathered(matrix.comm, [left.predict(t, counts[local_rows], of_own)])
        sums += predicted
        left_out = counts == 0
        n_trees += left_out
        rows = np.flatnonzero(left_out)
        if len(rows):
            scores[t] = _oob_score(forest, predicted[rows], _select_rows(data, left_out))
        losses[rows] = weight[rows] * targets.losses(targets.predictions(sums[rows] / n_trees[rows, None]), y[rows])
        total = weight[n_trees > 0].sum()
        errors[t] = losses.sum() / total if total > 0 else np.nan
    return sums, n_trees, errors, scores


def _oob_score(forest: Any, mean: Array, data: TrainingData) -> float:
    """Return the score of mean leaf values, (n_rows, n_values): accuracy, R2 or the forest's callable `oob_score`."""
    targets = forest._targets
    predictions, y = targets.predictions(mean), data.y.reshape(len(data.y), -1)
    if callable(forest.oob_score):
        return forest.oob_score(targets.decode(y), targets.decode(predictions))
    weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    return 1.0 - float(np.average(targets.score_loss(y, weight)(predictions, y), weights=weight))


def permutation_importance(forest: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Bunch:
    """Return the increase of each tree's out-of-bag error when a feature is permuted, as `oob_permutation_importance`.

    Raise ValueError without bootstrap, or unless X, y and weights are the rows of `fit` in their order.
    """
    forest._check_fitted()
    if forest._bootstrap is None:
        raise ValueError("bootstrap must be True in fit for out-of-bag rows; it was False.")
    checked_data = forest._check_validation(X, y, sample_weight)
    data = forest._learn_same_statistics(checked_data, forest._seed)
    if len(data.y) != len(forest._bootstrap.order):
        raise ValueError(
            f"X must hold the {len(forest._bootstrap.order)} rows of fit that have a positive weight; got "
            f"{len(data.y)} such rows."
        )
    trees, n_threads = forest._ensemble, resolve_n_jobs(forest.n_jobs)
    if not forest._bootstrap.is_order_of(content_hashes(checked_data.X, checked_data.y, n_threads)):
        raise ValueError("X and y must hold the rows of fit in the same order; got other rows or another order.")
    losses = PermutedLosses(trees, data.X, forest._column_of, n_threads)
    with ThreadPool(n_threads) as pool:
        grown = list(pool.map(lambda t: _permuted_losses(forest, t, losses, data), range(trees.n_trees)))
    return importance_bunch(np.array(grown).T)


def _permuted_losses(forest: Any, t: int, losses: PermutedLosses, data: TrainingData) -> Array:
    """Return the increase of tree t's mean out-of-bag loss when each feature is permuted, (n_features,).

    `losses` evaluates the permuted rows of `data`. The result is NaN if all rows are in the bag.
    """
    rows = np.flatnonzero(forest.in_bag(t) == 0).astype(np.uint32)
    if len(rows) == 0:
        return np.full(forest.n_features_in_, np.nan)
    shuffle = random_stream(int(stream_seeds(forest._seed, t, t + 1, PERMUTING)[0]), 0)
    offsets, y = forest._ensemble.node_offsets, data.y.reshape(len(data.y), -1)
    predictions = forest._targets.predictions(forest._ensemble.value[offsets[t] : offsets[t + 1]]).astype(np.float64)
    weight = data.sample_weight
    pairs = np.stack([rows, shuffle.permutation(rows)])
    growth = losses.of_tree(t, pairs, weight, y, predictions, is_class=hasattr(forest, "classes_"))
    return growth / (len(rows) if weight is None else weight[rows].sum())


def _select_rows(data: TrainingData, chosen: NDArray[np.bool_]) -> TrainingData:
    """Return the targets and weights of the rows in the mask `chosen`, without their table."""
    weight = None if data.sample_weight is None else data.sample_weight[chosen]
    return TrainingData(None, data.y[chosen], weight)
