"""How sure a forest is: spread of its trees, variance by the jackknife, intervals and sets; and proximities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from fastens.base import TrainingData
from fastens.conformal.quantiles import ConformalScores
from fastens.conformal.scores import COVERAGE, SetScore, SetScores, intervals, sets
from fastens.engine.bins.binned import BinnedMatrix
from fastens.engine.losses.losses import weighted_quantile
from fastens.engine.parts import map_parts
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.leaf_rows import LeafRows
from fastens.engine.trees.walks import Walker
from fastens.engine.whole import as_copies
from fastens.forests.out_of_bag import OutOfBag

Array = NDArray[np.float64]
_PREFIX = "uncertainty."
_SCORES = _PREFIX + "scores."
# Numbers of the products of bags and predictions that are in memory at a time.
_BLOCK_VALUES = 1 << 22


class ForestUncertainty(OutOfBag):
    """What any forest says of its own uncertainty."""

    _scores: ConformalScores
    if TYPE_CHECKING:
        _each_tree: Any
        _leaves: Any
        in_bag: Any
        _mean: Any
        _said_by_trees: Any

    def predict_spread(self, X: ArrayLike) -> Any:
        """Return the standard deviation of the trees' predictions.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples,) for numbers, (n_samples, n_classes) for probabilities; an axis more, or a list, with
        several targets
        """
        said = iter(self._said_by_trees(X))
        sums = [_Moments(part) for part in next(said)]
        for parts in said:
            for moments, part in zip(sums, parts, strict=True):
                moments.add(part)
        spread = [moments.deviation() for moments in sums]
        return spread if len(spread) > 1 else spread[0]

    def predict_variance(self, X: ArrayLike) -> Array:
        """Return the variance of the prediction over training sets, by the infinitesimal jackknife.

        It is that of the mean over infinitely many trees: the covariance of the number of times each training row is
        drawn with what the trees predict, squared and summed, less what the finite number of trees adds; never below 0.
        Several times as many trees as rows of training give good estimates.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
            For two classes, the variance of the probability of the second; for more, of each.

        Raises
        ------
        ValueError
            Without bootstrap.

        References
        ----------
        S. Wager, T. Hastie, B. Efron (2014). Confidence intervals for random forests: the jackknife and the
        infinitesimal jackknife. JMLR 15, eq. 5 and 7.
        """
        self._check_fitted()
        if self._bootstrap is None:
            raise ValueError("bootstrap must not be False: the variance follows from which rows were drawn.")
        said = np.stack([values.astype(np.float64) for values in self._each_tree(X)])
        n_trees, n_samples, n_outputs = said.shape
        said -= said.mean(axis=0)
        found = self._squared_covariances(said.reshape(n_trees, -1)).reshape(n_samples, n_outputs)
        n_draws = float(self._bootstrap.draws[-1])
        found -= n_draws / n_trees**2 * (said**2).sum(axis=0)
        np.maximum(found, 0.0, out=found)
        return found[:, 0] if n_outputs == 1 else found

    def _squared_covariances(self, said: Array) -> Array:
        """Sum over the training rows of the squared covariance of their draws with what the trees say."""
        n_trees, n_said = said.shape
        n_rows = len(self._bootstrap.order)
        drawn = np.stack([self.in_bag(tree) for tree in range(n_trees)]).astype(np.float32)
        total = np.zeros(n_said)
        step = max(1, _BLOCK_VALUES // max(n_said, n_trees))
        for first in range(0, n_rows, step):
            part = drawn[:, first : first + step].astype(np.float64)
            part -= part.mean(axis=0)
            total += ((part.T @ said / n_trees) ** 2).sum(axis=0)
        return total

    def proximity(self, X: ArrayLike, others: ArrayLike | None = None, *, n_neighbors: int | None = None) -> csr_matrix:
        """Return in what share of the trees two rows fall into the same leaf (Breiman 2001).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        others : table of shape (n_others, n_features), optional
            Rows to compare them with; X itself by default.
        n_neighbors : int, optional
            Keep only so many of the largest proximities of each row; all that are not 0 by default.

        Returns
        -------
        CSR matrix of shape (n_samples, n_others), each row's largest proximities first
        """
        if n_neighbors is not None and n_neighbors < 1:
            raise ValueError(f"n_neighbors must be a whole number of at least 1 or None; got {n_neighbors!r}.")
        leaf = np.ascontiguousarray(self._leaves(X))
        other_leaf = leaf if others is None else np.ascontiguousarray(self._leaves(others))
        members = np.arange(len(other_leaf), dtype=np.uint32)
        rows = LeafRows.group(self._ensemble.node_offsets, other_leaf, members)
        return rows.proximity(leaf, len(members), n_neighbors, resolve_n_jobs(self.n_jobs))

    # Conformal prediction --------------------------------------------------

    def _conformal(self, coverage: float) -> ConformalScores:
        """The scores of the training rows, each by the trees that have not seen it."""
        COVERAGE.check("coverage", coverage)
        self._oob_values()
        if not len(self._scores.values):
            raise ValueError(
                "max_samples must leave rows out of bags, which tell how far predictions are off; all rows are in all "
                "bags. Whole numbers in sample_weight are draws: divide them by a number, or set max_samples."
            )
        return self._scores

    def _oob_arrays(self) -> dict[str, np.ndarray]:
        found = super()._oob_arrays()
        return found | (self._scores.to_arrays(_SCORES) if found else {})

    def _restore_oob(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_oob(arrays)
        if hasattr(self, "_oob_mean"):
            self._scores = ConformalScores.from_arrays(_SCORES, arrays)


class ClassUncertainty(ForestUncertainty):
    """What a forest of classes adds: sets of classes."""

    if TYPE_CHECKING:
        predict_proba: Any
        _probabilities: Any
        classes_: Any

    def _said_by_trees(self, X: Any) -> Iterator[list[Array]]:
        for values in self._each_tree(X):
            found = self._probabilities(values)
            yield found if isinstance(found, list) else [found]

    def _set_out_of_bag(self, matrix: BinnedMatrix, data: TrainingData, n_rows: int) -> None:
        super()._set_out_of_bag(matrix, data, n_rows)
        if data.y.ndim == 1:
            mean = self._oob_mean if data.rows is None else self._oob_mean[data.rows]
            known = ~np.isnan(mean[:, 0])
            found = SetScore().of_labels(self._probabilities(mean[known]), data.y[known])
            self._scores = ConformalScores.of(found, _of_rows(data.sample_weight, known))
        else:
            self._scores = ConformalScores.of(np.empty(0))

    def predict_set(self, X: ArrayLike, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return, for each row, a set of classes that holds the right one with a given probability.

        Classes whose probability is at least 1 - q are in the set, q being the quantile `coverage`, with its correction
        for the number of rows, of 1 - the out-of-bag probability of the right class (conformal prediction: Johansson et
        al. 2014). Needs ``oob_score=True``; for one target.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Probability that a new row's class is in its set, over rows and training sets.

        Returns
        -------
        bool array of shape (n_samples, n_classes)
        """
        self._check_fitted()
        if isinstance(self.classes_, list):
            raise ValueError("predict_set must be used with one target; this forest has several.")
        return sets([SetScores([self._conformal(coverage)])], [SetScore().of(self.predict_proba(X))], coverage)


class NumberUncertainty(ForestUncertainty):
    """What a forest of numbers adds: intervals and quantiles."""

    keep_leaves: bool
    _leaf_rows: LeafRows
    _leaf_values: Array
    _spread_floor: float

    if TYPE_CHECKING:
        predict: Any
        _numbers: Any
        _n_targets: int

    def _said_by_trees(self, X: Any) -> Iterator[list[Array]]:
        return ([self._numbers(values)] for values in self._each_tree(X))

    def _set_out_of_bag(self, matrix: BinnedMatrix, data: TrainingData, n_rows: int) -> None:
        super()._set_out_of_bag(matrix, data, n_rows)
        mean = (self._oob_mean if data.rows is None else self._oob_mean[data.rows])[:, 0]
        known = ~np.isnan(mean)
        if self._n_targets > 1 or not known.any():
            self._scores, self._spread_floor = ConformalScores.of(np.empty(0)), 1.0
            return
        spread = self._left_out_spread(matrix, mean)[known]
        residual = np.abs(data.y[known] - mean[known])
        weight = _of_rows(data.sample_weight, known)
        self._spread_floor = weighted_quantile(spread, 0.5, weight) or 1.0
        self._scores = ConformalScores.of(residual / (spread + self._spread_floor), weight)

    def _left_out_spread(self, matrix: BinnedMatrix, mean: Array) -> Array:
        """Standard deviation, for each row, of the trees whose bags do not have it."""
        trees, bags, offsets = self._ensemble, self._bags(), self._ensemble.node_offsets
        walker, n_threads = Walker(trees, matrix), resolve_n_jobs(self.n_jobs)
        squares, n_trees = np.zeros((len(mean), 1)), np.zeros(len(mean), dtype=np.int32)
        centre = np.float32(np.nanmean(mean))
        for t in range(trees.n_trees):
            value = (trees.value[offsets[t] : offsets[t + 1]] - centre) ** 2
            walker.add_left_out(t, value, bags.counts(t, t + 1)[0], squares, n_trees, n_threads)
        with np.errstate(invalid="ignore"):
            return np.sqrt(np.maximum(squares[:, 0] / n_trees - (mean - centre) ** 2, 0.0))

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return an interval for each row that holds its target with a given probability.

        The interval is the prediction plus and minus (spread + its median) times q: spread is the standard deviation of
        the trees' predictions, and q the quantile `coverage`, with its correction for the number of rows, of what that
        factor would have had to be for each training row, predicted out of bag (conformal regression with normalised
        errors: Johansson et al. 2014). Needs ``oob_score=True``; for one target.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Probability that a new row's target is in its interval, over rows and training sets.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.

        References
        ----------
        U. Johansson, H. Bostrom, T. Lofstrom, H. Linusson (2014). Regression conformal prediction with random forests.
        Machine Learning 97.
        """
        self._check_fitted()
        if self._n_targets > 1:
            raise ValueError("predict_interval must be used with one target; this forest has several.")
        scores = self._conformal(coverage)
        middle = np.asarray(self.predict(X), dtype=np.float64)[:, None]
        scale = self.predict_spread(X) + self._spread_floor
        return intervals([scores], [middle], [scale], (0, 0), coverage, resolve_n_jobs(self.n_jobs))

    # Quantiles --------------------------------------------------

    def _keep_leaf_rows(self, data: TrainingData) -> None:
        """Remember the training targets of each leaf, if asked to."""
        for name in ("_leaf_rows", "_leaf_values"):
            self.__dict__.pop(name, None)
        if not self.keep_leaves:
            return
        if self._n_targets > 1:
            raise ValueError("keep_leaves must be False with several targets; got True.")
        self._leaf_values, rank = np.unique(data.y, return_inverse=True)
        ones = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
        weight_in = self.in_bag if self._bootstrap is not None else lambda tree: ones
        leaf = map_parts(self._ensemble.apply, data.X)
        self._leaf_rows = LeafRows.group(self._ensemble.node_offsets, leaf, rank.astype(np.uint32), weight_in)

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Array:
        """Return quantiles of the target given each row: those of the training targets in its leaves.

        Needs ``keep_leaves=True``. Every tree counts the same, and so does, in a leaf, every draw of a row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        quantiles : array of numbers from 0 to 1, default=(0.05, 0.5, 0.95)
            Which quantiles.

        Returns
        -------
        array of shape (n_samples, n_quantiles)
            The smallest target with at least so much of the weight at or below it.

        References
        ----------
        N. Meinshausen (2006). Quantile regression forests. JMLR 7.
        """
        self._check_fitted()
        levels = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"quantiles must hold numbers from 0 to 1; got {quantiles!r}.")
        if not hasattr(self, "_leaf_rows"):
            raise ValueError("keep_leaves must be True in fit for predict_quantiles; it was False.")
        leaf = np.ascontiguousarray(self._leaves(X))
        return self._leaf_rows.quantiles(leaf, self._leaf_values, levels, resolve_n_jobs(self.n_jobs))

    def _oob_arrays(self) -> dict[str, np.ndarray]:
        found = super()._oob_arrays()
        if found:
            found[_PREFIX + "spread_floor"] = np.array(self._spread_floor)
        if hasattr(self, "_leaf_rows"):
            found |= self._leaf_rows.to_arrays() | {_PREFIX + "leaf_values": self._leaf_values}
        return found

    def _restore_oob(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_oob(arrays)
        if _PREFIX + "spread_floor" in arrays:
            self._spread_floor = float(arrays[_PREFIX + "spread_floor"])
        if _PREFIX + "leaf_values" in arrays:
            self._leaf_values = arrays[_PREFIX + "leaf_values"]
            n_nodes = len(self._ensemble.feature)
            self._leaf_rows = LeafRows.from_arrays(arrays, n_nodes, len(self._leaf_values))


class _Moments:
    """Mean and squared distances from it, one tree after the other (Welford 1962)."""

    def __init__(self, first: NDArray[np.floating]) -> None:
        self._mean, self._squares, self._n = first.astype(np.float64), np.zeros(first.shape), 1

    def add(self, said: NDArray[np.floating]) -> None:
        """One tree more."""
        self._n += 1
        distance = said - self._mean
        self._mean += distance / self._n
        self._squares += distance * (said - self._mean)

    def deviation(self) -> Array:
        """Standard deviation."""
        return np.sqrt(self._squares / self._n)


def _of_rows(weight: Array | None, rows: NDArray[np.bool_]) -> Array | None:
    return None if weight is None else as_copies(weight[rows])
