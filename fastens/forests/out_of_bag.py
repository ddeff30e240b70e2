"""Trees on rows that they were not grown on: predictions, score, error after each tree, conformity, importance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from fastens.base import TrainingData
from fastens.conformal.quantiles import ConformalScores
from fastens.engine.bins.sparse_binned import AnyMatrix
from fastens.engine.comm import first_row, gathered
from fastens.engine.rows.sampling import content_hashes, random_stream, stream_seeds
from fastens.engine.threads import ThreadPool, resolve_n_jobs, threads_for
from fastens.engine.trees.walks import LeftOut, PermutedLosses
from fastens.forests.bags import PERMUTING
from fastens.forests.tree_errors import TreeErrors
from fastens.tree_model.permutation import importance_bunch
from fastens.warn import warn

Array = NDArray[np.float64]
_PREFIX = "out_of_bag."
_OF_CLASSES, _OF_NUMBERS = "uncertainty.scores.", "uncertainty.errors."
# Rows whose walks through a tree take some tens of microseconds.
_GRAIN = 500
IN_ALL_BAGS = "Some rows are in all bags and have no out-of-bag prediction; more trees would leave each out of some."
NEVER_OUT = (
    "All rows are in all bags, and oob_score_ is NaN: there are many draws for each row. With "
    "weight_type='importance' there are as many draws as rows, and a smaller max_samples draws less."
)


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """What the trees of a forest predict for rows that are not in their bags (Breiman 2001, section 3.1)."""

    mean: Array  # for each row of `fit`, (n_rows, n_outputs); NaN where there are no such trees
    score: float
    tree_scores: Array  # (n_trees,)
    error_curve: Array  # the mean loss after each tree, (n_trees,)
    conformity: ConformalScores | TreeErrors | None  # how far predictions are off; of numbers TreeErrors

    @classmethod
    def measure(cls, forest: Any, matrix: AnyMatrix, data: TrainingData) -> OutOfBag:
        """Predict every training row by the trees whose bags do not have it."""
        sums, n_trees, errors, scores = _sum_left_out(forest, matrix, data)
        known = n_trees > 0
        if not known.all():
            warn(IN_ALL_BAGS if known.any() else NEVER_OUT)
        mean = np.divide(sums, n_trees[:, None], out=np.full_like(sums, np.nan), where=known[:, None])
        of_known = _taken(data, known)
        score = _score(forest, mean[known], of_known) if known.any() else np.nan
        conformity = None
        if data.y.ndim == 1 and known.any():
            conformity = forest._conformity(matrix, mean, data.y, known, of_known.sample_weight)
        if data.rows is not None:
            spread = np.full((data.n_given, mean.shape[1]), np.nan)
            spread[data.rows] = mean
            mean = spread
        return cls(mean, score, scores, errors, conformity)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays from which `from_arrays` restores this."""
        found = {"mean": self.mean, "errors": self.error_curve, "score": self.score, "scores": self.tree_scores}
        arrays = {_PREFIX + name: np.asarray(array) for name, array in found.items()}
        if self.conformity is not None:
            arrays |= self.conformity.to_arrays(_OF_NUMBERS if isinstance(self.conformity, TreeErrors) else _OF_CLASSES)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], n_outputs: int) -> OutOfBag | None:
        """Restore what `to_arrays` saved; None where nothing was measured."""
        if _PREFIX + "mean" not in arrays:
            return None
        mean, score, scores, errors = (arrays[_PREFIX + name] for name in ("mean", "score", "scores", "errors"))
        if mean.ndim != 2 or mean.shape[1] != n_outputs:
            raise ValueError("the out-of-bag predictions and the trees do not fit together")
        kinds: dict[str, Any] = {_OF_NUMBERS: TreeErrors, _OF_CLASSES: ConformalScores}
        found = [prefix for prefix in kinds if any(name.startswith(prefix) for name in arrays)]
        conformity = kinds[found[0]].from_arrays(found[0], arrays) if found else None
        return cls(mean, float(score), scores, errors, conformity)

    def measured_conformity(self) -> Any:
        """What calibrates intervals or sets; ValueError where no row was out of a bag."""
        if self.conformity is None:
            raise ValueError(
                "max_samples must leave rows out of bags, to measure how far predictions are off; all rows are in all "
                "bags. Set max_samples, or weight_type='importance' for as many draws as rows."
            )
        return self.conformity


def _sum_left_out(forest: Any, matrix: AnyMatrix, data: TrainingData) -> tuple[Array, NDArray[np.int32], Array, Array]:
    """Sums of leaf values out of bag, how many trees are in them, the mean loss after each tree, its own score.

    `data` are the targets of all ranks, the matrix has the rows of this one.
    """
    trees, bags, y = forest._predicting_trees(), forest._bags(), data.y.reshape(len(data.y), -1)
    targets = forest._targets
    n_threads = threads_for(len(y), resolve_n_jobs(forest.n_jobs), _GRAIN)
    left = LeftOut(trees, matrix, n_threads)
    sums, n_trees = np.zeros((len(y), trees.n_outputs)), np.zeros(len(y), dtype=np.int32)
    first, _ = first_row(matrix.comm, matrix.n_rows)
    own, of_own = slice(first, first + matrix.n_rows), np.zeros(matrix.n_rows, dtype=np.int32)
    weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    losses, (errors, scores) = np.zeros(len(y)), np.full((2, trees.n_trees), np.nan)
    for t in range(trees.n_trees):
        counts = bags.counts(t, t + 1)[0]
        [predicted] = gathered(matrix.comm, [left.predict(t, counts[own], of_own)])
        sums += predicted
        left_out = counts == 0
        n_trees += left_out
        rows = np.flatnonzero(left_out)
        if len(rows):
            scores[t] = _score(forest, predicted[rows], _taken(data, left_out))
        losses[rows] = weight[rows] * targets.losses(targets.answers(sums[rows] / n_trees[rows, None]), y[rows])
        total = weight[n_trees > 0].sum()
        errors[t] = losses.sum() / total if total > 0 else np.nan
    return sums, n_trees, errors, scores


def _score(forest: Any, mean: Array, data: TrainingData) -> float:
    targets = forest._targets
    answers, y = targets.answers(mean), data.y.reshape(len(data.y), -1)
    if callable(forest.oob_score):
        return forest.oob_score(targets.decoded(y), targets.decoded(answers))
    weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    return 1.0 - float(np.average(targets.score_loss(y, weight)(answers, y), weights=weight))


def permutation_importance(forest: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Bunch:
    """The growth of each tree's error on rows out of its bag when a feature is permuted, given the rows of `fit`."""
    forest._check_fitted()
    if forest._bootstrap is None:
        raise ValueError("bootstrap must not be False: without it no row is out of a bag.")
    given = forest._check_validation(X, y, sample_weight)
    data = forest._learn_same_statistics(given, forest._seed)
    if len(data.y) != len(forest._bootstrap.order):
        raise ValueError(
            f"X must hold the rows of fit, {len(forest._bootstrap.order)} with a weight above 0; got {len(data.y)}."
        )
    trees, n_threads = forest._ensemble, resolve_n_jobs(forest.n_jobs)
    if not forest._bootstrap.is_order_of(content_hashes(given.X, given.y, n_threads)):
        raise ValueError("X and y must hold the rows of fit, in their order; got others, or another order.")
    losses = PermutedLosses(trees, data.X, forest._column_of, n_threads)
    with ThreadPool(n_threads) as pool:
        grown = list(pool.map(lambda t: _permuted_losses(forest, t, losses, data), range(trees.n_trees)))
    return importance_bunch(np.array(grown).T)


def _permuted_losses(forest: Any, t: int, losses: PermutedLosses, data: TrainingData) -> Array:
    """Growth of the mean loss of tree t out of bag, for each feature."""
    rows = np.flatnonzero(forest.in_bag(t) == 0).astype(np.uint32)
    if len(rows) == 0:
        return np.full(forest.n_features_in_, np.nan)
    shuffle = random_stream(int(stream_seeds(forest._seed, t, t + 1, PERMUTING)[0]), 0)
    offsets, y = forest._ensemble.node_offsets, data.y.reshape(len(data.y), -1)
    answers = forest._targets.answers(forest._ensemble.value[offsets[t] : offsets[t + 1]]).astype(np.float64)
    weight = data.sample_weight
    pairs = np.stack([rows, shuffle.permutation(rows)])
    growth = losses.of_tree(t, pairs, weight, y, answers, is_class=hasattr(forest, "classes_"))
    return growth / (len(rows) if weight is None else weight[rows].sum())


def _taken(data: TrainingData, chosen: NDArray[np.bool_]) -> TrainingData:
    weight = None if data.sample_weight is None else data.sample_weight[chosen]
    return TrainingData(None, data.y[chosen], weight)
