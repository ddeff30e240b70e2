"""Boosting for several targets at once: one tree a round, with a value for each raw prediction in every leaf.

Linear leaves are those of one raw prediction, which has trees of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.engine.binning import Binning
from fastens.engine.column_losses import ColumnLosses
from fastens.engine.losses import Loss
from fastens.ensemble.boosted_trees import BoostedTrees
from fastens.ensemble.joint_rounds import JointDartRun, JointRun
from fastens.ensemble.rounds import BoostingRules, BoostingRun, Start

Array = NDArray[np.float64]


class SeveralTargets(BoostedTrees):
    """Boosted trees whose y may have several columns."""

    _takes_several_targets = True
    _n_targets: int

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

    def _loss_of(self, parts: Sequence[Loss]) -> Loss:
        """The loss of all targets, given that of each."""
        return parts[0] if len(parts) == 1 else ColumnLosses(parts)

    def _new_run(self, binning: Binning, data: TrainingData, rules: BoostingRules, start: Start) -> BoostingRun:
        if self._n_targets == 1:
            return super()._new_run(binning, data, rules, start)
        data = data._replace(y=np.asfortranarray(data.y))  # losses read the targets one by one
        if rules.linear_l2 is not None:  # slopes are of one target, and so are the trees
            return super()._new_run(binning, data, rules, start)
        kind = JointRun if rules.dart is None else JointDartRun
        return kind(binning, data, self._loss, self._growth_rules(), rules, start)
