"""How sure a forest is: spread of its trees, variance by the jackknife, intervals and sets; and proximities."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from fastens.base import BaseFastens, TrainingData
from fastens.conformal.quantiles import ConformalScores
from fastens.conformal.scores import COVERAGE
from fastens.engine.bins.binned import BinnedMatrix
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.leaf_rows import LeafRows
from fastens.engine.trees.walks import Walker
from fastens.engine.whole import as_copies
from fastens.forests.out_of_bag import OutOfBag, permuted_losses
from fastens.tree_model.permutation import importance_bunch

Array = NDArray[np.float64]
PREFIX = "uncertainty."
_SCORES = PREFIX + "scores."
# Numbers of the products of bags and predictions that are in memory at a time.
_BLOCK_VALUES = 1 << 22


class ForestUncertainty(BaseFastens):
    """What any forest says of its own uncertainty."""

    _out_of_bag: OutOfBag | None = None
    _scores: ConformalScores
    if TYPE_CHECKING:
        _ensemble: Any
        _bootstrap: Any
        _seed: int
        _bags: Any
        _each_tree: Any
        _leaves: Any
        in_bag: Any
        _mean: Any
        _tree_predictions: Any

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
        said = iter(self._tree_predictions(X))
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

    # Out of bag --------------------------------------------------

    def _set_out_of_bag(self, matrix: BinnedMatrix, data: TrainingData, n_rows: int) -> None:
        self._out_of_bag = OutOfBag.measure(self, matrix, data, n_rows)

    def _measured(self) -> OutOfBag:
        """What was measured out of bag; AttributeError, so that there are no such attributes, where nothing was."""
        self._check_fitted()
        if self._out_of_bag is None:
            raise AttributeError("there are out-of-bag predictions only where fit had oob_score=True")
        return self._out_of_bag

    @property
    def oob_score_(self) -> float:
        """Score out of bag."""
        return self._measured().score

    @property
    def oob_scores_(self) -> Array:
        """Score of each tree on the rows out of its bag, (n_estimators,)."""
        return self._measured().tree_scores

    @property
    def oob_error_curve_(self) -> Array:
        """Mean loss out of bag after each tree, (n_estimators,)."""
        return self._measured().error_curve

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
            grown = list(pool.map(lambda t: permuted_losses(self, t, walker, data), range(self._ensemble.n_trees)))
        return importance_bunch(np.array(grown).T)

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

    # Conformal prediction --------------------------------------------------

    def _conformal(self, coverage: float) -> ConformalScores:
        """The scores of the training rows, each by the trees that have not seen it."""
        COVERAGE.check("coverage", coverage)
        self._measured()
        if not len(self._scores.values):
            raise ValueError(
                "max_samples must leave rows out of bags, which tell how far predictions are off; all rows are in all "
                "bags. Whole numbers in sample_weight are draws: divide them by a number, or set max_samples."
            )
        return self._scores

    def _oob_arrays(self) -> dict[str, np.ndarray]:
        return {} if self._out_of_bag is None else self._out_of_bag.to_arrays() | self._scores.to_arrays(_SCORES)

    def _restore_oob(self, arrays: dict[str, np.ndarray]) -> None:
        self._out_of_bag = OutOfBag.from_arrays(arrays, self._ensemble.n_outputs)
        if self._out_of_bag is not None:
            self._scores = ConformalScores.from_arrays(_SCORES, arrays)


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


def of_rows(weight: Array | None, rows: NDArray[np.bool_]) -> Array | None:
    """The weights of some rows, as numbers of copies."""
    return None if weight is None else as_copies(weight[rows])
