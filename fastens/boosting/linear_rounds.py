"""Rounds whose trees have linear models in their leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.dart import DartRun
from fastens.boosting.rounds import BoostingRun
from fastens.engine.linear.linear_leaves import LeafModels, LinearEnsemble, LinearTree
from fastens.engine.linear.linear_limits import lines_within_limits
from fastens.engine.parts import as_array
from fastens.engine.trees.leaf_sums import leaves_of_rows
from fastens.engine.trees.trees import Tree, TreeEnsemble

if TYPE_CHECKING:
    from fastens.base import TrainingData
    from fastens.engine.bins.binning import Binning
    from fastens.engine.losses.losses import Loss

Array = NDArray[np.float64]


def check_linear_leaves(model: Any, loss: Loss) -> None:
    """Raise ValueError for what linear models in leaves cannot do."""
    if loss.renews_leaves:
        raise ValueError(
            "loss must have a hessian with linear_leaves=True, such as 'squared_error' has, or 'expectile' and "
            f"'log_cosh'; got {model.loss!r}."
        )


class LinearRun(BoostingRun):
    """Rounds of trees with linear models in their leaves.

    Splits are chosen as for constant leaves. A leaf's value stays; beside it a ridge regression of the second-order
    objective finds slopes for the features on its path. Where values have limits, lines are made to keep to them.
    """

    _ensemble_type: ClassVar[type[TreeEnsemble]] = LinearEnsemble

    def __init__(self, binning: Binning, data: TrainingData, loss: Loss, *others: Any) -> None:
        super().__init__(binning, data, loss, *others)
        assert self.rules.linear_l2 is not None
        X, weight, is_categorical = as_array(data.X), data.sample_weight, binning.is_categorical
        linear_l2, n_threads = self.rules.linear_l2, self.rules.n_threads
        self._models = LeafModels(X, is_categorical, weight, linear_l2, n_threads, self._growth.monotone)

    def validate_on(self, codes: NDArray[np.unsignedinteger], data: TrainingData) -> None:
        """Watch other rows, given as codes and as they are."""
        self._X_val = as_array(data.X)
        super().validate_on(codes, data)

    def _finished(self, tree: Tree, output: int, gradients: NDArray[np.float32], hessians: NDArray[np.float32]) -> Tree:
        rate = self._rate * damping(self._loss_of(output), tree.value[:, 0])
        finished = super()._finished(tree, output, gradients, hessians)
        linear = self._models.fit(finished, self._grower.leaves(), gradients, hessians, rate)
        if self._has_limits:
            step = self._growth.max_delta_step
            most = np.inf if step is None else self._shrunk(np.array([step]), self._loss_of(output))[0]
            linear = lines_within_limits(finished, linear, self._growth.monotone, most)
        return LinearTree(**vars(finished), linear=linear)

    @property
    def _has_limits(self) -> bool:
        return self._growth.monotone is not None or self._growth.max_delta_step is not None

    def _add(self, tree: Tree, output: int, *, is_last_grown: bool = False) -> None:
        if is_last_grown and not self._has_limits:
            self.train.raw[output] += self._models.said
        else:
            self._add_to(self.matrix.columns, self._models.X, tree, self.train.raw[output])
        if self.validation is not None:
            self._add_to(self.validation.codes, self._X_val, tree, self.validation.rows.raw[output])

    def _add_to(self, codes: NDArray[np.unsignedinteger], X: NDArray[np.floating], tree: Tree, raw: Array) -> None:
        assert isinstance(tree, LinearTree)
        n_threads = self.rules.n_threads
        tree.add(X, leaves_of_rows(codes, tree, n_threads), raw, n_threads)


class LinearDartRun(DartRun, LinearRun):
    """The same with DART: models are scaled with the values beside them.

    What a tree says to a row is rounded to the grid when it is added, so that it leaves no trace when it is taken out.
    """

    def _times(self, tree: Tree, factor: float) -> Tree:
        assert isinstance(tree, LinearTree)
        scaled, linear = super()._times(tree, factor), tree.linear.times(np.full(tree.n_nodes, factor))
        return replace(tree, value=scaled.value, linear=linear)

    def _add(self, tree: Tree, output: int, *, is_last_grown: bool = False) -> None:
        super()._add(tree, output)

    def _add_to(self, codes: NDArray[np.unsignedinteger], X: NDArray[np.floating], tree: Tree, raw: Array) -> None:
        said = np.zeros_like(raw)
        super()._add_to(codes, X, tree, said)
        raw += self._on_grid(said)


def damping(loss: Loss, steps: Array) -> Array:
    """By how much a loss shortens steps: the models of leaves are damped as their values are."""
    return np.divide(loss.damped(steps), steps, out=np.ones_like(steps), where=steps != 0)
