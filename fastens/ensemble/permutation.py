"""Permutation importance of trees: no copy of the table, and only what a shuffled value changes is walked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch, check_random_state

from fastens.base import BaseFastens
from fastens.engine.threads import resolve_n_jobs, threads_for
from fastens.engine.walks import Shuffled

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
        trees, y = self._predicting_trees(), data.y.reshape(len(data.y), -1)
        matrix = trees.binning.transform(data.X, resolve_n_jobs(self.n_jobs))
        shuffled = Shuffled(trees, matrix, threads_for(len(y), resolve_n_jobs(self.n_jobs), _GRAIN))
        weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
        loss = self._score_loss(y, weight)
        generator = check_random_state(random_state)
        growth = np.zeros((self.n_features_in_, n_repeats))
        for repeat in range(n_repeats):
            others = generator.permutation(len(y)).astype(np.uint32)
            for rows, mean, means in shuffled.blocks(others):
                before = weight[rows] @ loss(self._answers(mean), y[rows])
                after = [weight[rows] @ loss(self._answers(changed), y[rows]) for changed in means]
                growth[:, repeat] += np.array(after) - before
        return importance_bunch(growth / weight.sum())


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
