"""Rounds that grow one tree for several targets, with a value for each raw prediction in every leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.dart import DartRun
from fastens.boosting.rounds import BoostingRun
from fastens.boosting.row_sampling import RowSample
from fastens.engine.grow.growth import GrowthRules
from fastens.engine.trees.leaf_sums import leaves_of_rows
from fastens.engine.trees.trees import Tree

if TYPE_CHECKING:
    from fastens.engine.losses.losses import Loss

_ALL = slice(None)


class JointRun(BoostingRun):
    """Rounds of one tree each, whose splits gain most for the sum of all outputs' losses."""

    def _prepare_growing(self, growth: GrowthRules) -> None:
        self.matrix = self.matrix.with_payloads(self.loss.n_outputs)
        self._grower = self._new_grower(growth)

    @property
    def _trees_per_round(self) -> int:
        return 1

    def _derivatives(
        self, output: int | slice, sample: RowSample | None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return super()._derivatives(_ALL, sample)

    def _loss_of(self, output: int) -> Loss:
        return self.loss

    def _renewed(self, tree: Tree, output: int, sample: RowSample | None, column: int = 0) -> Tree:
        for each in range(self.loss.n_outputs):
            tree = super()._renewed(tree, each, sample, column=each)
        return tree

    def _add(self, tree: Tree, output: int, *, is_last_grown: bool = False) -> None:
        if is_last_grown:
            self._grower.add_values(tree.value, self.train.raw)
        else:
            self.train.raw += tree.value.T[:, leaves_of_rows(self.matrix.columns, tree, self.rules.n_threads)]
        if self.validation is not None:
            leaf = leaves_of_rows(self.validation.codes, tree, self.rules.n_threads)
            self.validation.rows.raw += tree.value.T[:, leaf]


class JointDartRun(DartRun, JointRun):
    """The same with DART: what a round leaves out are earlier trees with all their values."""
