"""Boosting for several targets at once: one tree a round, with a value for each raw prediction in every leaf.

Linear leaves are those of one raw prediction, which has trees of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.joint_rounds import JointDartRun, JointRun
from fastens.boosting.rounds import BoostingRules, BoostingRun, Start
from fastens.engine.bins.binning import Binning
from fastens.engine.losses.column_losses import ColumnLosses
from fastens.engine.losses.least_squares import LeastSquares
from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]


# Gradient boosting without what was added to it since: every split that helps, nothing that shrinks or smooths.
PLAIN: dict[str, Any] = {
    "split_criterion": "squared_error",
    "max_leaf_nodes": None,
    "max_depth": 3,
    "min_samples_leaf": 1,
    "min_child_weight": 0.0,
    "l2_regularization": 0.0,
    "split_penalty": 0.0,
    "categorical_encoding": "partition",
    "category_smoothing": 0.0,
    "category_l2": 0.0,
}


class SeveralTargets(BoostedTrees):
    """Boosted trees whose y may have several columns."""

    _takes_several_targets = True
    _n_targets: int

    if TYPE_CHECKING:
        split_criterion: str
        l2_regularization: float

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        self._check_fitted()
        return self._n_targets

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "_n_targets")

    def _learn_target(self, y: NDArray[Any]) -> Array:
        self._n_targets = 1 if y.ndim == 1 else y.shape[1]
        return super()._learn_target(y)

    def _encode_target(self, y: NDArray[Any]) -> Array:
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if n_targets != self._n_targets:
            raise ValueError(f"y must have as many targets as in fit, {self._n_targets}; got {n_targets}.")
        return super()._encode_target(y)

    @classmethod
    def plain(cls, **parameters: Any) -> Self:
        """Make an estimator of gradient boosting in its plain form, that of lecture notes (Friedman 2001).

        Regression starts at the mean of y, and leaves are means of the residuals; classification at the log odds, and
        leaves are sum(r) / sum(p (1 - p)) over their rows. All trees are fitted to the residuals by least squares, with
        every split that lowers the squared error, down to `max_depth`, and shrunk by `learning_rate`.

        Parameters
        ----------
        **parameters
            Any parameters of the class, in place of those that make it plain (`PLAIN`), such as ``max_depth=3``.

        Returns
        -------
        An estimator, not fitted.

        Examples
        --------
        >>> from fastens import GradientBoostingRegressor
        >>> model = GradientBoostingRegressor.plain(n_estimators=2, learning_rate=0.5, max_depth=1)
        >>> model.fit([[1.0], [2.0], [3.0], [4.0]], [1.0, 1.0, 3.0, 3.0]).predict([[1.0], [4.0]])
        array([1.25, 2.75])
        """
        return cls(**(PLAIN | parameters))

    def _loss_of(self, parts: Sequence[Loss]) -> Loss:
        """The loss of all targets, given that of each."""
        if self.split_criterion == "squared_error":
            l2 = self.l2_regularization
            parts = [part if part.renews_leaves else LeastSquares(part, l2) for part in parts]
        return parts[0] if len(parts) == 1 else ColumnLosses(parts)

    def _new_run(self, binning: Binning, data: TrainingData, rules: BoostingRules, start: Start) -> BoostingRun:
        if self._n_targets == 1:
            return super()._new_run(binning, data, rules, start)
        data = data._replace(y=np.asfortranarray(data.y))  # losses read the targets one by one
        if rules.linear_l2 is not None:  # slopes are of one target, and so are the trees
            return super()._new_run(binning, data, rules, start)
        kind = JointRun if rules.dart is None else JointDartRun
        return kind(binning, data, self._loss, self._growth_rules(), rules, start)
