"""Permutation importance of trees: no copy of the table, and only what a shuffled value changes is walked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch, check_random_state

from fastens.base import BaseFastens, TrainingData
from fastens.engine.parts import column_of, map_parts, with_column
from fastens.engine.threads import resolve_n_jobs, threads_for
from fastens.engine.trees.walks import Shuffled

Array = NDArray[np.float64]
# Rows that are worth a thread: each walks through all trees several times.
_GRAIN = 50


class PermutationImportance(BaseFastens):
    """Permutation importance on any rows."""

    if TYPE_CHECKING:
        _predicting_trees: Any
        _answers: Any
        _score_loss: Any

    def permutation_importance(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        n_repeats: int = 5,
        random_state: Any = None,
    ) -> Bunch:
        """Return by how much `score` falls when the values of a feature are shuffled among the rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows; those that the trees were not grown on tell more.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            Weights in the score.
        n_repeats : int, default=5
            How often to shuffle.
        random_state : int, RandomState or None, default=None
            Of the shuffles.

        Returns
        -------
        Bunch
            ``importances_mean``, ``importances_std`` and ``importances_standard_error`` of shape (n_features,), and
            ``importances`` of shape (n_features, n_repeats).
        """
        self._check_fitted()
        data = self._check_validation(X, y, sample_weight)
        weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        generator = check_random_state(random_state)
        shuffles = [generator.permutation(len(data.y)).astype(np.uint32) for _ in range(n_repeats)]
        return importance_bunch(self._growth_of_loss(data, weight, shuffles) / weight.sum())

    def _growth_of_loss(self, data: TrainingData, weight: Array, shuffles: list[NDArray[np.uint32]]) -> Array:
        """By how much the sum of weighted losses grows with each shuffle of each column, (n_features, n_shuffles)."""
        trees, y = self._predicting_trees(), data.y.reshape(len(data.y), -1)
        n_threads = resolve_n_jobs(self.n_jobs)
        matrix = trees.binning.transform(self._apply_statistics(data).X, n_threads)
        shuffled = Shuffled(trees, matrix, self._column_of, threads_for(len(y), n_threads, _GRAIN))
        loss = self._score_loss(y, weight)
        growth = np.zeros((self.n_features_in_, len(shuffles)))
        for repeat, others in enumerate(shuffles):
            for rows, mean, means in shuffled.blocks(others):
                before = weight[rows] @ loss(self._answers(mean), y[rows])
                after = [weight[rows] @ loss(self._answers(changed), y[rows]) for changed in means]
                growth[:, repeat] += np.array(after) - before
        return growth


class PermutationImportanceOfSums(PermutationImportance):
    """Permutation importance where a loss turns sums over the trees into predictions."""

    if TYPE_CHECKING:
        _ensemble: Any
        _loss: Any
        _column_of: Any

    def _growth_of_loss(self, data: TrainingData, weight: Array, shuffles: list[NDArray[np.uint32]]) -> Array:
        X = data.X
        before = self._weighted_loss(X, data.y, weight)
        growth = np.zeros((self.n_features_in_, len(shuffles)))
        for column in np.unique(self._column_of[self._ensemble.feature[self._ensemble.feature >= 0]]):
            values = column_of(X, column)
            for repeat, others in enumerate(shuffles):
                changed = with_column(X, column, values[others])
                growth[column, repeat] = self._weighted_loss(changed, data.y, weight) - before
        return growth

    def _weighted_loss(self, X: Any, y: Array, weight: Array) -> float:
        """1 - the score of an unencoded table, times the weight."""
        encoded = self._apply_statistics(TrainingData(X, y, None)).X
        n_threads, trees = resolve_n_jobs(self.n_jobs), self._predicting_trees()
        raw = map_parts(lambda part: trees.predict_raw(part, n_threads), encoded)
        return float(weight.sum()) * (1 - self._score_of_raw(raw, y, weight))

    def _score_of_raw(self, raw: Array, y: Array, weight: Array) -> float:
        """What `score` returns for raw predictions and encoded targets: the accuracy, or the mean R squared."""
        predicted = self._loss.predict(raw)
        targets = y.reshape(len(y), -1)
        if hasattr(self, "classes_"):
            parts = predicted if isinstance(predicted, list) else [predicted]
            answers = np.column_stack([part.argmax(axis=1) for part in parts])
            return float(np.average((answers == targets).all(axis=1), weights=weight))
        misses = np.average((predicted.reshape(len(y), -1) - targets) ** 2, axis=0, weights=weight)
        variance = np.average((targets - np.average(targets, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
        return float(1 - np.mean(misses / np.where(variance > 0, variance, 1.0)))


def importance_bunch(importances: Array) -> Bunch:
    """Mean and spread of importances of shape (n_features, n_repeats); NaN does not count."""
    known = ~np.isnan(importances)
    n_known = known.sum(axis=1)
    mean = np.sum(importances, axis=1, where=known) / np.maximum(n_known, 1)
    squares = np.sum((importances - mean[:, None]) ** 2, axis=1, where=known)
    std = np.sqrt(squares / np.maximum(n_known - 1, 1))
    return Bunch(
        importances_mean=mean,
        importances_std=std,
        importances_standard_error=std / np.sqrt(np.maximum(n_known, 1)),
        importances=importances,
    )
