"""Boosting for several targets at once: one tree a round, with a value for each raw prediction in every leaf."""

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
# Parameters that are for trees of one value a leaf, and the values that say so.
_NEUTRAL = {"linear_leaves": False}


class SeveralTargets(BoostedTrees):
    """Boosted trees whose y may have several columns."""

    _n_targets: int

    @property
    def _takes_several_targets(self) -> bool:
        return all(getattr(self, name) is neutral for name, neutral in _NEUTRAL.items())

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        self._check_fitted()
        return self._n_targets

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "_n_targets")

    def _read_target(self, y: Any, n_rows: int) -> NDArray[Any]:
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            for name, neutral in _NEUTRAL.items():
                if getattr(self, name) is not neutral:
                    raise ValueError(f"{name} must be {neutral} with several targets; got {getattr(self, name)!r}.")
        return super()._read_target(y, n_rows)

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
        kind = JointRun if rules.dart is None else JointDartRun
        return kind(binning, data, self._loss, self._growth_rules(), rules, start)
