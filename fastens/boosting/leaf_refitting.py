"""New values for the leaves of a boosted model, from new rows."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.boosting.leaves import damping
from fastens.engine.grow.growth import GrowthRules, leaves_within_limits
from fastens.engine.linear.linear_leaves import LeafModels, LinearEnsemble, LinearLeaves, LinearTree
from fastens.engine.linear.linear_limits import lines_within_limits
from fastens.engine.losses.losses import Loss
from fastens.engine.parts import as_array, map_parts
from fastens.engine.trees.leaf_sums import leaf_sums
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.parameters import real

Array = NDArray[np.float64]
_DECAY = real(0, 1)


def refitted(model: Any, X: Any, y: Any, decay_rate: float, sample_weight: Any) -> tuple[Any, TrainingData]:
    """A copy of a boosted model with the same trees, whose leaf values lean towards new rows; and these, encoded."""
    model._check_fitted()
    _DECAY.check("decay_rate", decay_rate)
    data = model._check_validation(X, y, sample_weight)
    loss = model._get_loss()
    loss.check_target(data.y)
    data = model._apply_statistics(data)
    step = LeafStep(loss, model.learning_rate, model._growth_rules().for_weights(data.sample_weight))
    trees, model = model._ensemble, copy(model)
    if isinstance(trees, LinearEnsemble):
        model._ensemble = LinearRefit(trees, data, step, decay_rate, model._options("linear_leaves").l2).run()
    else:
        model._ensemble = LeafRefit(trees, data, step, decay_rate).run()
    return model, data


class LeafStep:
    """The values that a round on some rows would give the leaves of a tree."""

    def __init__(self, loss: Loss, learning_rate: float, rules: GrowthRules) -> None:
        self.loss, self.rules, self._learning_rate = loss, rules, learning_rate

    def rate(self, steps: Array, output: int) -> Array:
        """What each step is multiplied by."""
        return self._learning_rate * damping(self.loss.of_output(output), steps)

    def values(self, leaf: NDArray[np.intp], n_nodes: int, output: int, state: State) -> Array:
        """One for each node, NaN where there are no rows."""
        if self.loss.renews_leaves:
            return self._learning_rate * self._renewed(leaf, n_nodes, output, state)
        step = self.newton(leaf, n_nodes, output, state)
        damped = self.loss.of_output(output).damped(np.nan_to_num(step))
        return self._learning_rate * np.where(np.isnan(step), np.nan, damped)

    def newton(self, leaf: NDArray[np.intp], n_nodes: int, output: int, state: State) -> Array:
        """Newton steps, before they are damped and shrunk."""
        gradient, hessian = (leaf_sums(leaf, part[output], state.weight, n_nodes) for part in state.derivatives)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(hessian > 0, -gradient / (hessian + self.rules.l2_regularization), np.nan)

    def within_limits(self, tree: Tree, values: Array) -> Array:
        """Values of all leaves of a tree, as monotone and as small as growth would have made them."""
        return leaves_within_limits(tree, values, self.rules, self._learning_rate)

    def lines_within_limits(self, tree: LinearTree) -> LinearTree:
        """A tree whose lines keep to the limits of its values."""
        step = self.rules.max_delta_step
        most = np.inf if step is None else self._learning_rate * step
        return replace(tree, linear=lines_within_limits(tree, tree.linear, self.rules.monotone, most))

    def _renewed(self, leaf: NDArray[np.intp], n_nodes: int, output: int, state: State) -> Array:
        order = np.argsort(leaf, kind="stable")
        nodes, starts = np.unique(leaf[order], return_index=True)
        residuals = self.loss.residuals(state.y, state.raw, output)[order]
        weight = None if state.weight is None else state.weight[order]
        out = np.full(n_nodes, np.nan)
        loss = self.loss.of_output(output)
        out[nodes] = loss.leaf_values(residuals, np.append(starts, len(leaf)).astype(np.int64), weight)
        return out


class State:
    """Rows with their raw predictions and derivatives before a round."""

    def __init__(self, data: TrainingData, raw: Array) -> None:
        self.y, self.weight, self.raw = data.y, data.sample_weight, raw
        self.derivatives = np.empty((2, *raw.shape), dtype=np.float32)

    def start_round(self, loss: Loss) -> None:
        """Renew the derivatives."""
        self.derivatives[1] = 1.0
        loss.start_round(self.y, self.raw, self.weight)
        loss.gradients(self.y, self.raw, self.derivatives[0], self.derivatives[1])


class LeafRefit:
    """Gives the leaves of an ensemble values that keep the share `decay` of the old ones, tree after tree."""

    def __init__(self, ensemble: TreeEnsemble, data: TrainingData, step: LeafStep, decay: float) -> None:
        self.ensemble, self.step, self.decay = ensemble, step, decay
        self.leaves = map_parts(ensemble.apply, data.X).astype(np.intp)
        self.state = State(data, np.repeat(ensemble.baseline[:, None], len(self.leaves), axis=1))
        self.value = np.array(ensemble.value, dtype=np.float64)

    def run(self) -> TreeEnsemble:
        """Return the same trees with new values."""
        for tree in range(self.ensemble.n_trees):
            if tree % self.ensemble.trees_per_round == 0:
                self.state.start_round(self.step.loss)
            first, last = self.ensemble.node_offsets[tree : tree + 2]
            self._renew(tree, slice(first, last))
        return self._finished()

    def _renew(self, tree: int, nodes: slice) -> None:
        """Change the values of a tree's nodes, and add it to the raw predictions."""
        leaf, first = self.leaves[:, tree], self.ensemble.tree_output[tree]
        outputs = range(first, first + self.value.shape[1])
        for column, output in enumerate(outputs):
            new = self.step.values(leaf, nodes.stop - nodes.start, output, self.state)
            old = self.value[nodes, column]
            new = self.step.within_limits(self.ensemble.tree(tree), np.where(np.isnan(new), old, new))
            self.value[nodes, column] = np.where(new == old, old, self.decay * old + (1 - self.decay) * new)
        for column, output in enumerate(outputs):
            self._add(tree, self.value[nodes, column], output)

    def _add(self, tree: int, values: Array, output: int) -> None:
        self.state.raw[output] += values[self.leaves[:, tree]]

    def _finished(self) -> TreeEnsemble:
        return self.ensemble.with_values(self.value)


class LinearRefit(LeafRefit):
    """The same where leaves have linear models, which keep the same share."""

    def __init__(self, ensemble: LinearEnsemble, data: TrainingData, step: LeafStep, decay: float, l2: float) -> None:
        super().__init__(ensemble, data, step, decay)
        self.X = as_array(data.X)
        is_categorical, weight, monotone = ensemble.binning.is_categorical, data.sample_weight, step.rules.monotone
        self.models = LeafModels(self.X, is_categorical, weight, l2, 1, monotone)
        self.trees, self.linear = ensemble.separate_trees(), list[LinearLeaves]()

    def _add(self, tree: int, values: Array, output: int) -> None:
        old, leaf = self.trees[tree], self.leaves[:, tree]
        assert isinstance(old, LinearTree)
        gradients, hessians = (part[output] for part in self.state.derivatives)
        rows = np.argsort(leaf, kind="stable").astype(np.uint32)
        nodes, starts = np.unique(leaf[rows], return_index=True)
        leaves = nodes, rows, np.append(starts, len(rows)).astype(np.int64)
        step = self.step.newton(leaf, old.n_nodes, output, self.state)
        rate = self.step.rate(np.nan_to_num(step), output)
        kept = np.where(np.isnan(step), 1.0, self.decay)
        new = self.models.fit(old, leaves, gradients, hessians, (1 - kept) * rate)
        renewed = replace(old, value=values[:, None], linear=old.linear.times(kept).plus(new))
        renewed = self.step.lines_within_limits(renewed)
        renewed.add(self.X, leaf, self.state.raw[output])
        self.linear.append(renewed.linear)

    def _finished(self) -> TreeEnsemble:
        trees = super()._finished()
        return LinearEnsemble(trees, LinearLeaves.join(self.linear))
