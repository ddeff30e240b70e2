"""Random forests of numbers (Breiman 2001): intervals and quantiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.checked_parameters import with_parameters
from fastens.conformal.scores import COVERAGE
from fastens.engine.bins.sparse_binned import AnyMatrix
from fastens.engine.comm import first_row, gathered
from fastens.engine.parts import map_parts
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.leaf_rows import LeafRows
from fastens.engine.trees.used_columns import on_used_columns
from fastens.engine.trees.walks import LeftOut
from fastens.forests.base_forest import BaseForest
from fastens.forests.base_trees import TreesRegressor
from fastens.forests.parameters import NUMBER_OF_FEATURES
from fastens.forests.posterior_averaging import NumberAveraging
from fastens.forests.tree_errors import MAX_ROWS, TreeErrors, quantiles_of_trees
from fastens.parameters import FLAG, parameter
from fastens.table.columns.vectors import numbers_in
from fastens.table.training_data import AllRows
from fastens.tree_model.column_rules import monotone_columns

Array = NDArray[np.float64]
_LEAF_VALUES = "uncertainty.leaf_values"
# Numbers that the predictions of the trees for a block of rows may be.
_BLOCK_VALUES = 1 << 22
# With these parameters leaves hold one row, or rows of one target or the same features.
_NO_LIMITS = {
    "min_samples_leaf": 1,
    "min_samples_split": 2,
    "max_depth": None,
    "max_leaf_nodes": None,
    "min_weight_fraction_leaf": 0.0,
    "min_impurity_decrease": 0.0,
    "ccp_alpha": 0.0,
    "averaging": None,
    "monotonic_cst": None,
    "interaction_cst": None,
}


@with_parameters
class RandomForestRegressor(TreesRegressor, BaseForest):
    """A random forest for regression.

    Each tree is grown on a bootstrap sample of the rows, and may look for each split at some of the features, drawn at
    random. The trees' predictions are averaged.

    {parameters and attributes}

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
        self, matrix: AnyMatrix, mean: Array, y: Array, known: NDArray[np.bool_], weight: Array | None
    ) -> TreeErrors | None:
        """The errors of rows out of bag; of many rows, those of a part that is drawn by content."""
        order = content_hashes(mean[known], y[known])
        chosen = (
            order <= np.partition(order, MAX_ROWS)[MAX_ROWS] if len(order) > MAX_ROWS else np.ones(len(order), bool)
        )
        values = self._left_out_values(matrix, np.flatnonzero(known)[chosen])
        weight = None if weight is None else weight[chosen]
        return TreeErrors.learn(values, y[known][chosen], weight, has_one_spread=monotone_columns(self) is not None)

    def _left_out_values(self, matrix: AnyMatrix, rows: NDArray[np.intp]) -> NDArray[np.floating]:
        """What each tree predicts for rows that its bag does not have, NaN for those it has, (n_rows, n_trees)."""
        trees, bags = self._ensemble, self._bags()
        left = LeftOut(trees, matrix, resolve_n_jobs(self.n_jobs))
        first, _ = first_row(matrix.comm, matrix.n_rows)
        rows = rows[(rows >= first) & (rows < first + matrix.n_rows)] - first
        found = np.full((len(rows), trees.n_trees), np.nan, dtype=trees.value.dtype)
        for t in range(trees.n_trees):
            counts = bags.counts(t, t + 1)[0][first : first + matrix.n_rows]
            predicted = left.predict(t, counts, np.zeros(len(counts), dtype=np.int32))
            left_out = counts[rows] == 0
            found[left_out, t] = predicted[rows[left_out], 0]
        return gathered(matrix.comm, [found])[0]

    def _blocks_of_values(self, X: ArrayLike) -> Iterator[NDArray[np.floating]]:
        """What each tree predicts for each row, for blocks of rows, (n_rows, n_trees)."""
        trees, leaves = self._ensemble, self._leaves(X)
        step = max(1, _BLOCK_VALUES // trees.n_trees)
        for first in range(0, len(leaves), step):
            yield trees.value[trees.node_offsets[:-1] + leaves[first : first + step], 0]

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return an interval for each row that holds its target with a given probability.

        Its ends are quantiles of the target that follow from the trees' predictions (see `predict_quantiles`), both
        moved by what it takes for the coverage on the training rows, each predicted out of bag (conformalised quantile
        regression: Romano et al. 2019). Needs ``oob_score=True``; for one target. Both ends keep `monotonic_cst`.

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

        Raises
        ------
        ValueError
            Without ``oob_score=True`` in fit, or for several targets.

        References
        ----------
        Y. Romano, E. Patterson, E. Candes (2019). Conformalized quantile regression. NeurIPS 32.
        """
        self._check_fitted()
        if self._n_targets > 1:
            raise ValueError("predict_interval must be used with one target; this forest has several.")
        COVERAGE.check("coverage", coverage)
        if self._out_of_bag is None:
            raise ValueError("oob_score must have been True in fit for predict_interval; it was False.")
        errors, n_threads = self._measured().measured_conformity(), resolve_n_jobs(self.n_jobs)
        return np.concatenate([errors.intervals(part, coverage, n_threads) for part in self._blocks_of_values(X)])

    # Quantiles --------------------------------------------------

    def _keep_leaf_rows(self, data: TrainingData, everyone: AllRows) -> None:
        """Remember the training targets of each leaf, if asked to."""
        for name in ("_leaf_rows", "_leaf_values"):
            self.__dict__.pop(name, None)
        if not self.keep_leaves:
            return
        if self._n_targets > 1:
            raise ValueError("keep_leaves must be False with several targets; got True.")
        if monotone_columns(self) is not None:
            raise ValueError(
                "keep_leaves must be False with monotonic_cst, because the rows of leaves are in order only in their "
                "mean; got True. Use oob_score=True, whose quantiles keep the constraint."
            )
        self._leaf_values, rank = np.unique(everyone.y, return_inverse=True)
        weight = np.ones(everyone.n_rows) if everyone.sample_weight is None else everyone.sample_weight
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])  # the least may be too small for float32
        weight_in: Callable[[int], Any] = self.in_bag if self._bootstrap is not None else lambda tree: weight
        trees, rows = on_used_columns(self._ensemble, data.X)
        [leaf] = gathered(data.comm, [map_parts(trees.apply, rows)])
        self._leaf_rows = LeafRows.group(self._ensemble.node_offsets, leaf, rank.astype(np.uint32), weight_in)

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Array:
        """Return quantiles of the target given each row.

        With ``keep_leaves=True`` those of the training targets in the row's leaves (Meinshausen 2006): every tree
        counts the same, and so does, in a leaf, every draw of a row. Without, they follow from one number a tree, its
        prediction: with ``oob_score=True`` they are the mean of the quantiles of the trees' predictions, and of their
        mean plus their standard deviation times the quantile of the errors out of bag over it; else the former alone,
        for which leaves must not be held together by a limit of growth, as they are not at the defaults. With
        `monotonic_cst` all rows have one standard deviation, so that quantiles keep the constraint.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        quantiles : array of numbers from 0 to 1, default=(0.05, 0.5, 0.95)
            Which quantiles.

        Returns
        -------
        array of shape (n_samples, n_quantiles)
            With ``keep_leaves=True`` the smallest target with at least so much of the weight at or below it.

        Raises
        ------
        ValueError
            For several targets, or where a limit of growth holds rows together in leaves and neither ``keep_leaves``
            nor ``oob_score`` was True in fit.

        References
        ----------
        N. Meinshausen (2006). Quantile regression forests. JMLR 7.
        """
        self._check_fitted()
        levels = np.atleast_1d(numbers_in(quantiles, "quantiles"))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"quantiles must hold numbers from 0 to 1; got {quantiles!r}.")
        if self._n_targets > 1:
            raise ValueError("predict_quantiles must be used with one target; this forest has several.")
        if not hasattr(self, "_leaf_rows"):
            return np.concatenate([self._quantiles_of(part, levels) for part in self._blocks_of_values(X)])
        leaf = np.ascontiguousarray(self._leaves(X))
        return self._leaf_rows.quantiles(leaf, self._leaf_values, levels, resolve_n_jobs(self.n_jobs))

    def _quantiles_of(self, values: NDArray[np.floating], levels: Array) -> Array:
        """Quantiles of targets from what the trees predict."""
        if self._out_of_bag is not None:
            return self._out_of_bag.measured_conformity().quantiles.predict(values, levels)
        fitted = self._as_fitted()
        for name, value in _NO_LIMITS.items():
            given = getattr(fitted, name)
            if given is not None if value is None else given != value:
                raise ValueError(
                    f"{name} must be {value!r} for predict_quantiles where keep_leaves and oob_score were False in "
                    f"fit; got {given!r}: one number a leaf says nothing of how its rows vary."
                )
        return quantiles_of_trees(values, levels)

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
            node_offsets = self._ensemble.node_offsets
            self._leaf_rows = LeafRows.from_arrays(arrays, node_offsets, len(self._leaf_values))
