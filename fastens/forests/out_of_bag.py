"""What the trees say of rows that they were not grown on: predictions, score, error after each tree, importance."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch

from fastens.base import BaseFastens, TrainingData
from fastens.engine.bins.binned import BinnedMatrix
from fastens.engine.rows.sampling import random_stream, stream_seeds
from fastens.engine.threads import resolve_n_jobs, threads_for
from fastens.engine.trees.walks import Walker
from fastens.forests.bags import PERMUTING
from fastens.tree_model.permutation import importance_bunch
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


class OutOfBag(BaseFastens):
    """Out-of-bag estimates of a forest (Breiman 2001, section 3.1 and 10)."""

    if TYPE_CHECKING:
        _ensemble: Any
        _bootstrap: Any
        _seed: int
        _bags: Any
        _predicting_trees: Any
        _answers: Any
        _losses: Any
        _score_loss: Any
        _as_given: Any

    _oob_mean: Array
    oob_score_: float
    oob_scores_: Array
    oob_error_curve_: Array

    def _set_out_of_bag(self, matrix: BinnedMatrix, data: TrainingData, n_rows: int) -> None:
        """Predict every training row by the trees whose bags do not have it."""
        sums, n_trees, self.oob_error_curve_, self.oob_scores_ = self._sum_left_out(matrix, data)
        known = n_trees > 0
        if not known.all():
            warn(IN_ALL_BAGS if known.any() else NEVER_OUT)
        mean = np.divide(sums, n_trees[:, None], out=np.full_like(sums, np.nan), where=known[:, None])
        self.oob_score_ = self._oob_score(mean[known], _taken(data, known)) if known.any() else np.nan
        if data.rows is not None:
            spread = np.full((n_rows, mean.shape[1]), np.nan)
            spread[data.rows] = mean
            mean = spread
        self._oob_mean = mean

    def _sum_left_out(self, matrix: BinnedMatrix, data: TrainingData) -> tuple[Array, NDArray[np.int32], Array, Array]:
        """Sums of leaf values out of bag, how many trees are in them, the mean loss after each tree, its own score."""
        trees, bags, y = self._predicting_trees(), self._bags(), data.y.reshape(len(data.y), -1)
        n_threads = threads_for(len(y), resolve_n_jobs(self.n_jobs), _GRAIN)
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
                scores[t] = self._oob_score(said[rows], _taken(data, left_out))
            losses[rows] = weight[rows] * self._losses(self._answers(sums[rows] / n_trees[rows, None]), y[rows])
            total = weight[n_trees > 0].sum()
            errors[t] = losses.sum() / total if total > 0 else np.nan
        return sums, n_trees, errors, scores

    def _oob_score(self, mean: Array, data: TrainingData) -> float:
        answers, y = self._answers(mean), data.y.reshape(len(data.y), -1)
        if callable(self.oob_score):
            return self.oob_score(self._as_given(y), self._as_given(answers))
        weight = np.ones(len(y)) if data.sample_weight is None else data.sample_weight
        return 1.0 - float(np.average(self._score_loss(y, weight)(answers, y), weights=weight))

    def _oob_values(self) -> Array:
        self._check_fitted()
        if not hasattr(self, "_oob_mean"):
            raise AttributeError("there are out-of-bag predictions only where fit had oob_score=True")
        return self._oob_mean

    # Importance --------------------------------------------------

    def oob_permutation_importance(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Bunch:
        """Return by how much each tree's out-of-bag error grows when the values of a feature are permuted.

        The rows that a tree was not grown on go through it with the values of one feature shuffled among them; only the
        parts of their ways that meet the feature are walked again. For classes the error is the share of rows that the
        tree gets wrong, for numbers the mean squared error (the sum over several targets).

        Parameters
        ----------
        X, y, sample_weight
            The rows of `fit`.

        Returns
        -------
        Bunch
            ``importances_mean`` of shape (n_features,): the mean over the trees; ``importances_std``: the standard
            deviation between trees; ``importances_standard_error``: that of the mean; ``importances`` of shape
            (n_features, n_estimators).

        References
        ----------
        Breiman (2001), "Random forests", section 10.
        """
        data = self._rows_of_fit(X, y, sample_weight)
        matrix = self._ensemble.binning.transform(data.X, resolve_n_jobs(self.n_jobs))
        walker = Walker(self._ensemble, matrix, self._column_of)
        with ThreadPoolExecutor(resolve_n_jobs(self.n_jobs)) as pool:
            grown = list(pool.map(lambda t: self._permuted_loss(t, walker, data), range(self._ensemble.n_trees)))
        return importance_bunch(np.array(grown).T)

    def _permuted_loss(self, t: int, walker: Walker, data: TrainingData) -> Array:
        """Growth of the mean loss of tree t out of bag, for each feature."""
        rows = np.flatnonzero(self._bags().counts(t, t + 1)[0] == 0).astype(np.uint32)
        if len(rows) == 0:
            return np.full(self.n_features_in_, np.nan)
        shuffle = random_stream(int(stream_seeds(self._seed, t, t + 1, PERMUTING)[0]), 0)
        offsets, y = self._ensemble.node_offsets, data.y.reshape(len(data.y), -1)
        answers = self._answers(self._ensemble.value[offsets[t] : offsets[t + 1]]).astype(np.float64)
        weight = data.sample_weight
        pairs = np.stack([rows, shuffle.permutation(rows)])
        growth = walker.permuted_losses(t, pairs, weight, y, answers, hasattr(self, "classes_"))
        return growth / (len(rows) if weight is None else weight[rows].sum())

    def _rows_of_fit(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Check that these can be the rows of `fit`."""
        self._check_fitted()
        if self._bootstrap is None:
            raise ValueError("bootstrap must not be False: without it no row is out of a bag.")
        data = self._learn_same_statistics(self._check_validation(X, y, sample_weight), self._seed)
        if len(data.y) != len(self._bootstrap.order):
            raise ValueError(
                f"X must hold the rows of fit, {len(self._bootstrap.order)} with a weight above 0; got {len(data.y)}."
            )
        return data

    # Saving --------------------------------------------------

    def _oob_arrays(self) -> dict[str, np.ndarray]:
        if not hasattr(self, "_oob_mean"):
            return {}
        found = {"mean": self._oob_mean, "errors": self.oob_error_curve_, "score": np.float64(self.oob_score_)}
        found["scores"] = self.oob_scores_
        return {_PREFIX + name: np.asarray(array) for name, array in found.items()}

    def _restore_oob(self, arrays: dict[str, np.ndarray]) -> None:
        if _PREFIX + "mean" in arrays:
            self._oob_mean, self.oob_error_curve_ = arrays[_PREFIX + "mean"], arrays[_PREFIX + "errors"]
            self.oob_score_ = float(arrays[_PREFIX + "score"])
            self.oob_scores_ = arrays[_PREFIX + "scores"]
            if self._oob_mean.ndim != 2 or self._oob_mean.shape[1] != self._ensemble.n_outputs:
                raise ValueError("the out-of-bag predictions and the trees do not fit together")


def _taken(data: TrainingData, chosen: NDArray[np.bool_]) -> TrainingData:
    weight = None if data.sample_weight is None else data.sample_weight[chosen]
    return TrainingData(None, data.y[chosen], weight)
