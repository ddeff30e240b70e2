"""New values for the leaves of a boosted model, from new rows."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.boosting.leaves import damping
from fastens.engine.grow.growth import RowWeights, leaves_within_limits
from fastens.engine.linear.linear_leaves import LeafModels, LinearEnsemble, LinearLeaves, LinearTree
from fastens.engine.linear.linear_limits import lines_within_limits
from fastens.engine.losses.losses import Loss
from fastens.engine.parts import as_array, map_parts
from fastens.engine.trees.leaf_sums import leaf_sums
from fastens.engine.trees.trees import TreeEnsemble
from fastens.engine.trees.used_columns import on_used_columns
from fastens.parameters import real

Array = NDArray[np.float64]
_DECAY = real(0, 1)


def refitted(model: Any, given: tuple[Any, Any, Any, Any], decay_rate: float) -> tuple[Any, TrainingData]:
    """A copy of a boosted model with the same trees, whose leaf values lean towards new rows; and these, encoded.

    Given are the table, its targets, weights and raw predictions to add to.
    """
    X, y, sample_weight, init_score = given
    model._check_fitted()
    _DECAY.check("decay_rate", decay_rate)
    fitted = model._as_fitted()
    if fitted._stopping.folds is not None:
        raise ValueError("early_stopping.folds must be None to refit leaves: trees of a mean do not follow each other.")
    data = model._check_validation(X, y, sample_weight)
    data = data.weighted(fitted._combine_weights(data.y, data.sample_weight))
    data = fitted._with_offset(data, init_score)
    loss = fitted._get_loss()
    loss.check_target(data.y)
    kind = LinearRefit if isinstance(model._ensemble, LinearEnsemble) else LeafRefit
    data = model._apply_statistics(data)
    renewed = copy(model)
    renewed._ensemble = kind(fitted, loss, data, decay_rate).run()
    return renewed, data


class LeafRefit:
    """Gives the leaves of an ensemble values that keep the share `decay` of the old ones, tree after tree."""

    def __init__(self, model: Any, loss: Loss, data: TrainingData, decay: float) -> None:
        self.ensemble, self.loss, self.decay = model._ensemble, loss, decay
        self.learning_rate = model.learning_rate
        self.weights = RowWeights.of(data.sample_weight, len(data.y), own=data.own_weight)
        self.rules = model._growth_rules().in_units(self.weights.unit)
        self.most = np.inf if self.rules.max_delta_step is None else self.rules.max_delta_step
        trees, rows = on_used_columns(self.ensemble, data.X)
        self.leaves = map_parts(trees.apply, rows).astype(np.intp)
        self.y, self.weight = data.y, data.sample_weight
        self.raw = np.repeat(self.ensemble.baseline[:, None], len(self.leaves), axis=1)
        if data.offset is not None:
            self.raw += data.offset
        self.derivatives = np.empty((2, *self.raw.shape), dtype=np.float32)
        self.value = np.array(self.ensemble.value, dtype=np.float64)

    def run(self) -> TreeEnsemble:
        """Return the same trees with new values."""
        for tree in range(self.ensemble.n_trees):
            if tree % self.ensemble.trees_per_round == 0:
                self._start_round()
            self._renew(tree, slice(*self.ensemble.node_offsets[tree : tree + 2]))
        return self._finished()

    def _start_round(self) -> None:
        self.derivatives[1] = 1.0
        self.loss.start_round(self.y, self.raw, self.weight)
        self.loss.gradients(self.y, self.raw, self.derivatives[0], self.derivatives[1])

    def _renew(self, tree: int, nodes: slice) -> None:
        """Change the values of a tree's nodes, and add it to the raw predictions."""
        leaf, first = self.leaves[:, tree], self.ensemble.tree_output[tree]
        outputs = range(first, first + self.value.shape[1])
        for column, output in enumerate(outputs):
            old = self.value[nodes, column]
            new = self._new_values(leaf, len(old), output)
            new = np.where(np.isnan(new), old, new)
            new = leaves_within_limits(self.ensemble.tree(tree), new, self.rules, self.learning_rate)
            self.value[nodes, column] = np.where(new == old, old, self.decay * old + (1 - self.decay) * new)
        for column, output in enumerate(outputs):
            self._add(tree, self.value[nodes, column], output)

    def _new_values(self, leaf: NDArray[np.intp], n_nodes: int, output: int) -> Array:
        """The values that a round on the new rows would give the nodes of a tree; NaN where there are no rows."""
        loss = self.loss.of_output(output)
        if self.loss.renews_leaves:
            order, nodes, starts = _by_leaf(leaf)
            residuals = self.loss.residuals(self.y, self.raw, output)[order]
            weight = None if self.weight is None else self.weight[order]
            values = np.full(n_nodes, np.nan)
            values[nodes] = loss.leaf_values(residuals, starts, weight)
            return self.learning_rate * values
        step = self._newton_steps(leaf, n_nodes, output)
        damped = np.clip(loss.damped(np.nan_to_num(step)), -self.most, self.most)
        return self.learning_rate * np.where(np.isnan(step), np.nan, damped)

    def _l2(self, output: int) -> float:
        """The L2 of the leaves of an output where it follows the noise, as growth finds it."""
        gradients, hessians = self.derivatives[:, output].astype(np.float64)
        squares = gradients**2
        if self.weights.factors is not None:
            squares *= self.weights.factors * (self.weights.n_copies / self.weights.total)
        everywhere = np.zeros(len(squares), dtype=np.intp)
        square, hessian = (float(self._sums(everywhere, part, 1)[0]) for part in (squares, hessians))
        root = math.sqrt(square / hessian) if hessian > 0 else 0.0
        return self.rules.l2_of_noise(root / self.loss.of_output(output).noise_unit, hessian)

    def _newton_steps(self, leaf: NDArray[np.intp], n_nodes: int, output: int) -> Array:
        """Newton steps before they are damped, cut and shrunk."""
        gradient, hessian = (self._sums(leaf, part[output], n_nodes) for part in self.derivatives)
        l2 = self._l2(output) if self.rules.noise_l2 > 0 else self.rules.l2_regularization
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(hessian > 0, -gradient / (hessian + l2), np.nan)

    def _sums(self, leaf: NDArray[np.intp], values: np.ndarray, n_nodes: int) -> Array:
        """The weighted sums of each leaf's values."""
        return leaf_sums(leaf, values, self.weights.factors, n_nodes, self.weights.copies)

    def _add(self, tree: int, values: Array, output: int) -> None:
        self.raw[output] += values[self.leaves[:, tree]]

    def _finished(self) -> TreeEnsemble:
        return self.ensemble.with_values(self.value)


class LinearRefit(LeafRefit):
    """The same where leaves have linear models, which keep the same share."""

    def __init__(self, model: Any, loss: Loss, data: TrainingData, decay: float) -> None:
        super().__init__(model, loss, data, decay)
        self.X, l2 = as_array(data.X), model._options("linear_leaves").l2 * self.weights.unit
        is_categorical = self.ensemble.binning.is_categorical
        self.models = LeafModels(self.X, is_categorical, self.weights, l2, 1, self.rules.monotone)
        self.trees, self.linear = self.ensemble.separate_trees(), list[LinearLeaves]()

    def _add(self, tree: int, values: Array, output: int) -> None:
        old, leaf, loss = self.trees[tree], self.leaves[:, tree], self.loss.of_output(output)
        assert isinstance(old, LinearTree)
        order, nodes, starts = _by_leaf(leaf)
        step = self._newton_steps(leaf, old.n_nodes, output)
        rate = self.learning_rate * damping(loss, np.nan_to_num(step))
        kept = np.where(np.isnan(step), 1.0, self.decay)
        leaves = nodes, order.astype(np.uint32), starts
        new = self.models.fit(old, leaves, self.derivatives[0, output], self.derivatives[1, output], (1 - kept) * rate)
        renewed = replace(old, value=values[:, None], linear=old.linear.times(kept).plus(new))
        most = self.learning_rate * self.most
        linear = lines_within_limits(renewed, renewed.linear, self.rules.monotone, most)
        replace(renewed, linear=linear).add(self.X, leaf, self.raw[output])
        self.linear.append(linear)

    def _finished(self) -> TreeEnsemble:
        return LinearEnsemble(super()._finished(), LinearLeaves.join(self.linear))


def _by_leaf(leaf: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """The rows in the order of their leaves, the leaves that have rows, and where each one's rows start and end."""
    order = np.argsort(leaf, kind="stable")
    nodes, starts = np.unique(leaf[order], return_index=True)
    return order, nodes, np.append(starts, len(leaf)).astype(np.int64)
