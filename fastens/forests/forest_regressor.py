"""Random forests of numbers (Breiman 2001): intervals and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.checked_parameters import with_parameters
from fastens.conformal.scores import COVERAGE, intervals
from fastens.engine.bins.binned import BinnedMatrix
from fastens.engine.losses.losses import weighted_quantile
from fastens.engine.parts import map_parts
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.leaf_rows import LeafRows
from fastens.engine.trees.used_columns import on_used_columns
from fastens.engine.trees.walks import Walker
from fastens.forests.base_forest import BaseForest
from fastens.forests.base_trees import TreesRegressor
from fastens.forests.parameters import NUMBER_OF_FEATURES
from fastens.forests.posterior_averaging import NumberAveraging
from fastens.parameters import FLAG, parameter

Array = NDArray[np.float64]
_LEAF_VALUES = "uncertainty.leaf_values"


@with_parameters
class RandomForestRegressor(TreesRegressor, BaseForest):
    """A random forest for regression.

    Each tree is grown on a bootstrap sample of the rows, and may look for each split at some of the features, drawn at
    random. The trees' predictions are averaged.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RandomForestRegressor(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    >>> model.oob_score_ > 0.3
    True
    """

    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=1.0)
    keep_leaves: bool = parameter(FLAG, default=False)

    _averaging_kind: ClassVar = NumberAveraging

    @property
    def oob_prediction_(self) -> NDArray[np.floating]:
        """Predictions out of bag, as `predict` has them, with `oob_score`; NaN for rows in all bags."""
        return self._targets.decoded(self._measured().mean)

    # Uncertainty --------------------------------------------------

    def _conformity(
        self, matrix: BinnedMatrix, mean: Array, y: Array, known: NDArray[np.bool_], weight: Array | None
    ) -> tuple[Array, float]:
        """The scores of rows out of bag, residuals over the spread of the trees, and what is added to the spread."""
        mean = mean[:, 0]
        spread = self._left_out_spread(matrix, mean)[known]
        floor = weighted_quantile(spread, 0.5, weight) or 1.0
        return np.abs(y[known] - mean[known]) / (spread + floor), floor

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
        COVERAGE.check("coverage", coverage)
        measured = self._measured()
        scores = measured.measured_conformity()
        middle = np.asarray(self.predict(X), dtype=np.float64)[:, None]
        scale = self.predict_spread(X) + measured.spread_floor
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
        weight_in: Callable[[int], Any] = self.in_bag if self._bootstrap is not None else lambda tree: ones
        trees, rows = on_used_columns(self._ensemble, data.X)
        leaf = map_parts(trees.apply, rows)
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

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        found = super()._fitted_arrays()
        return (
            found | self._leaf_rows.to_arrays() | {_LEAF_VALUES: self._leaf_values}
            if hasattr(self, "_leaf_rows")
            else found
        )

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        if _LEAF_VALUES in arrays:
            self._leaf_values = arrays[_LEAF_VALUES]
            n_nodes = len(self._ensemble.feature)
            self._leaf_rows = LeafRows.from_arrays(arrays, n_nodes, len(self._leaf_values))
