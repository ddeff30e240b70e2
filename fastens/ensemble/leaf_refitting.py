"""New values for the leaves of a boosted model, from new rows."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.engine.leaf_sums import leaf_sums
from fastens.engine.losses import Loss
from fastens.engine.trees import TreeEnsemble
from fastens.ensemble.base_boosting import BaseGradientBoosting
from fastens.parameters import real

Array = NDArray[np.float64]
_DECAY = real(0, 1)


class RefitsLeaves(BaseGradientBoosting):
    """A boosted model that can move with the data without growing new trees."""

    def refit_leaves(
        self, X: ArrayLike, y: ArrayLike, decay_rate: float = 0.9, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Return a model with the same trees whose leaf values lean towards new rows; this one stays as it is.

        Parameters
        ----------
        X, y : table and array
            New rows with the columns, and classes, of training.
        decay_rate : float, default=0.9
            How much of the old value a leaf keeps: it becomes decay_rate * old + (1 - decay_rate) * new, where the new
            value is what a round of boosting on the new rows would give it. Leaves without new rows keep theirs.
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows.

        Raises
        ------
        ValueError
            If decay_rate is not from 0 to 1, or the rows do not fit the model.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GradientBoostingRegressor(n_estimators=30).fit(X[:200], y[:200])
        >>> later = model.refit_leaves(X[200:400], y[200:400] + 50)
        >>> bool(later.predict(X[400:]).mean() > model.predict(X[400:]).mean())
        True
        """
        self._check_fitted()
        _DECAY.check("decay_rate", decay_rate)
        data = self._check_validation(X, y, sample_weight)
        loss = self._get_loss()
        loss.check_target(data.y)
        data = self._apply_statistics(data)
        step = _LeafStep(loss, self.learning_rate, self.l2_regularization)
        model = copy(self)
        model._ensemble = refitted(self._ensemble, data, step, decay_rate)
        model._leaves_changed(data, decay_rate)
        return model

    def _leaves_changed(self, data: TrainingData, decay: float) -> None:
        """Let what follows from the leaves lean towards new rows, which are encoded."""


class _LeafStep:
    """The values that a round on some rows would give the leaves of a tree."""

    def __init__(self, loss: Loss, learning_rate: float, l2: float) -> None:
        self.loss, self._learning_rate, self._l2 = loss, learning_rate, l2

    def values(self, leaf: NDArray[np.intp], n_nodes: int, output: int, state: _State) -> Array:
        """One for each node, NaN where there are no rows."""
        if self.loss.renews_leaves:
            return self._learning_rate * self._renewed(leaf, n_nodes, output, state)
        gradient, hessian = (leaf_sums(leaf, part[output], state.weight, n_nodes) for part in state.derivatives)
        with np.errstate(invalid="ignore", divide="ignore"):
            step = np.where(hessian > 0, -gradient / (hessian + self._l2), np.nan)
        damped = self.loss.of_output(output).damped(np.nan_to_num(step))
        return self._learning_rate * np.where(np.isnan(step), np.nan, damped)

    def _renewed(self, leaf: NDArray[np.intp], n_nodes: int, output: int, state: _State) -> Array:
        order = np.argsort(leaf, kind="stable")
        nodes, starts = np.unique(leaf[order], return_index=True)
        residuals = self.loss.residuals(state.y, state.raw, output)[order]
        weight = None if state.weight is None else state.weight[order]
        out = np.full(n_nodes, np.nan)
        loss = self.loss.of_output(output)
        out[nodes] = loss.leaf_values(residuals, np.append(starts, len(leaf)).astype(np.int64), weight)
        return out


class _State:
    """Rows with their raw predictions and derivatives before a round."""

    def __init__(self, data: TrainingData, raw: Array) -> None:
        self.y, self.weight, self.raw = data.y, data.sample_weight, raw
        self.derivatives = np.empty((2, *raw.shape), dtype=np.float32)

    def start_round(self, loss: Loss) -> None:
        self.derivatives[1] = 1.0
        loss.start_round(self.y, self.raw, self.weight)
        loss.gradients(self.y, self.raw, self.derivatives[0], self.derivatives[1])


def refitted(ensemble: TreeEnsemble, data: TrainingData, step: _LeafStep, decay: float) -> TreeEnsemble:
    """The same trees with values that keep the share `decay` of the old ones."""
    X = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
    leaves = ensemble.apply(X).astype(np.intp)
    state = _State(data, np.repeat(ensemble.baseline[:, None], len(leaves), axis=1))
    value = np.array(ensemble.value, dtype=np.float64)
    width = value.shape[1]
    for tree, first in enumerate(ensemble.node_offsets[:-1]):
        if tree % ensemble.trees_per_round == 0:
            state.start_round(step.loss)
        leaf, nodes = leaves[:, tree], slice(first, ensemble.node_offsets[tree + 1])
        for column in range(width):
            output = ensemble.tree_output[tree] + column
            new = step.values(leaf, nodes.stop - nodes.start, output, state)
            old = value[nodes, column]
            value[nodes, column] = np.where(np.isnan(new), old, decay * old + (1 - decay) * new)
        for column in range(width):
            state.raw[ensemble.tree_output[tree] + column] += value[nodes, column][leaf]
    return ensemble.with_values(value)
