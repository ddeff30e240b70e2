"""What the trees say of rows that they were not grown on: predictions, score, error after each tree, importance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.engine.bins.binned import BinnedMatrix
from fastens.engine.rows.sampling import random_stream, stream_seeds
from fastens.engine.threads import resolve_n_jobs, threads_for
from fastens.engine.trees.walks import Walker
from fastens.forests.bags import PERMUTING
from fastens.warn import warn

Array = NDArray[np.float64]
_PREFIX = "out_of_bag."
# Rows whose walks through a tree take some tens of microseconds.
_GRAIN = 500
IN_ALL_BAGS = "Some rows are in all bags and have no out-of-bag prediction; more trees would leave each out of some."
NEVER_OUT = (
    "All rows are in all bags, and oob_score_ is NaN: there are many draws for each row. Whole numbers in "
    "sample_weight are draws; as shares they are chances, and a smaller max_samples draws less."
)


@dataclass(frozen=True, eq=False)
class OutOfBag:
    """What the trees of a forest predict for rows that are not in their bags (Breiman 2001, section 3.1).

    Attributes
    ----------
    mean : float64 array of shape (n_rows, n_outputs)
        For each row of `fit` the mean of those trees; NaN where there are none.
    score : float
        The score of these predictions.
    tree_scores, error_curve : float64 arrays of shape (n_trees,)
        The score of each tree by itself, and the mean loss after each tree.
    """

    mean: Array
    score: float
    tree_scores: Array
    error_curve: Array

    @classmethod
    def measure(cls, forest: Any, matrix: BinnedMatrix, data: TrainingData, n_rows: int) -> OutOfBag:
        """Predict every training row by the trees whose bags do not have it."""
        sums, n_trees, errors, scores = _sum_left_out(forest, matrix, data)
        known = n_trees > 0
        if not known.all():
            warn(IN_ALL_BAGS if known.any() else NEVER_OUT)
        mean = np.divide(sums, n_trees[:, None], out=np.full_like(sums, np.nan), where=known[:, None])
        score = _score(forest, mean[known], _taken(data, known)) if known.any() else np.nan
        if data.rows is not None:
            spread = np.full((n_rows, mean.shape[1]), np.nan)
            spread[data.rows] = mean
            mean = spread
        return cls(mean, score, scores, errors)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays from which `from_arrays` restores this."""
        found = {"mean": self.mean, "errors": self.error_curve, "score": np.float64(self.score)}
        return {_PREFIX + name: np.asarray(array) for name, array in (found | {"scores": self.tree_scores}).items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], n_outputs: int) -> OutOfBag | None:
        """Restore what `to_arrays` saved; None where nothing was measured."""
        if _PREFIX + "mean" not in arrays:
            return None
        mean, score, scores, errors = (arrays[_PREFIX + name] for name in ("mean", "score", "scores", "errors"))
        if mean.ndim != 2 or mean.shape[1] != n_outputs:
            raise ValueError("the out-of-bag predictions and the trees do not fit together")
        return cls(mean, float(score), scores, errors)


def _sum_left_out(
    forest: Any, matrix: BinnedMatrix, data: TrainingData
) -> tuple[Array, NDArray[np.int32], Array, Array]:
    """Sums of leaf values out of bag, how many trees are in them, the mean loss after each tree, its own score."""
    trees, bags, y = forest._predicting_trees(), forest._bags(), data.y.reshape(len(data.y), -1)
    n_threads = threads_for(len(y), resolve_n_jobs(forest.n_jobs), _GRAIN)
    walker, offsets = Walker(trees, matrix), trees.node_offsets
    sums, n_trees = np.zeros((len(y), trees.n_outputs)), np.zeros(len(y), dtype=np.int32)
    weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    losses, (errors, scores) = np.zeros(len(y)), np.full((2, trees.n_trees), np.nan)
    for t in range(trees.n_trees):
        counts, said = bags.counts(t, t + 1)[0], np.zeros_like(sums)
        walker.add_left_out(t, trees.value[offsets[t] : offsets[t + 1]], counts, said, n_trees, n_threads)
        sums += said
        left_out = counts == 0
        rows = np.flatnonzero(left_out)
        if len(rows):
            scores[t] = _score(forest, said[rows], _taken(data, left_out))
        losses[rows] = weight[rows] * forest._losses(forest._answers(sums[rows] / n_trees[rows, None]), y[rows])
        total = weight[n_trees > 0].sum()
        errors[t] = losses.sum() / total if total > 0 else np.nan
    return sums, n_trees, errors, scores


def _score(forest: Any, mean: Array, data: TrainingData) -> float:
    answers, y = forest._answers(mean), data.y.reshape(len(data.y), -1)
    if callable(forest.oob_score):
        return forest.oob_score(forest._as_given(y), forest._as_given(answers))
    weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
    return 1.0 - float(np.average(forest._score_loss(y, weight)(answers, y), weights=weight))


def permuted_losses(forest: Any, t: int, walker: Walker, data: TrainingData) -> Array:
    """Growth of the mean loss of tree t out of bag, for each feature."""
    rows = np.flatnonzero(forest._bags().counts(t, t + 1)[0] == 0).astype(np.uint32)
    if len(rows) == 0:
        return np.full(forest.n_features_in_, np.nan)
    shuffle = random_stream(int(stream_seeds(forest._seed, t, t + 1, PERMUTING)[0]), 0)
    offsets, y = forest._ensemble.node_offsets, data.y.reshape(len(data.y), -1)
    answers = forest._answers(forest._ensemble.value[offsets[t] : offsets[t + 1]]).astype(np.float64)
    weight = data.sample_weight
    pairs = np.stack([rows, shuffle.permutation(rows)])
    growth = walker.permuted_losses(t, pairs, weight, y, answers, hasattr(forest, "classes_"))
    return growth / (len(rows) if weight is None else weight[rows].sum())


def _taken(data: TrainingData, chosen: NDArray[np.bool_]) -> TrainingData:
    weight = None if data.sample_weight is None else data.sample_weight[chosen]
    return TrainingData(None, data.y[chosen], weight)
