"""Continuing earlier fits (warm starts, checkpoints) and refitting leaf values on new rows."""

from __future__ import annotations

import math
import os
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.parameters import learning_rates
from fastens.boosting.rounds import Rounds, damping, rate_of_round
from fastens.engine.grow.growth import RowWeights, leaves_within_limits
from fastens.engine.linear.linear_leaves import (
    LeafModels,
    LinearEnsemble,
    LinearLeafTerms,
    LinearTree,
    lines_within_limits,
)
from fastens.engine.losses.column_losses import losses_of_targets
from fastens.engine.losses.losses import Loss
from fastens.engine.parts import as_array, map_parts
from fastens.engine.trees.contributions import on_used_columns
from fastens.engine.trees.leaf_values import leaf_sums
from fastens.engine.trees.trees import TreeEnsemble
from fastens.modelfile.saving import plain_parameter
from fastens.modelfile.storage import load_model
from fastens.params.rules import real
from fastens.table.parts import present_table
from fastens.table.training_data import TrainingData
from fastens.tree_model.saving import extend_categories
from fastens.tree_model.tree_model import check_same_rules

# Parameters that may differ when a fit is resumed, because they do not change the rounds before the checkpoint.
_MAY_DIFFER = {
    "n_estimators", "n_jobs", "verbose", "random_state", "warm_start", "callbacks", "early_stopping", "eval_metric",
    "n_iter_no_change", "tol",
}  # fmt: skip


def find_earlier(model: Any, resume: Any) -> Any:
    """Return the fitted estimator that `fit` continues: a checkpoint or a copy of the last fit; None for a new fit.

    `resume` is None or the path of the checkpoint. Raise ValueError if the model's parameters do not allow to continue.
    """
    if resume is not None and model._stopping.folds is not None:
        raise ValueError(
            "resume must be None with early_stopping.folds, because an average of models cannot be resumed."
        )
    if resume is not None and not isinstance(resume, str | os.PathLike):
        raise ValueError(
            f"resume must be the path of a file that a Checkpoint wrote; got {resume!r}. Use warm_start=True to "
            "continue the last fit of this estimator."
        )
    if resume is not None:
        return checked_checkpoint(resume, model)
    if not model.warm_start or not hasattr(model, "_ensemble"):
        return None
    if model._stopping.refit:
        raise ValueError(
            "early_stopping.refit must be False to continue the last fit with warm_start=True, because its "
            "trees have seen the validation rows; got True."
        )
    if model.n_estimators < model.n_estimators_:
        raise ValueError(
            f"n_estimators must be at least {model.n_estimators_}, the number of rounds of the last fit, with "
            f"warm_start=True; got {model.n_estimators}."
        )
    loss = model._get_loss().name
    if loss != model._loss.name:
        raise ValueError(
            f"loss must be the same as in the last fit, {model._loss.name!r}, with warm_start=True; got {loss!r}."
        )
    if model._ensemble.has_constant_leaves == bool(model.linear_leaves):
        raise ValueError(
            f"linear_leaves must be the same as in the last fit, {not model.linear_leaves}, with "
            f"warm_start=True; got {model.linear_leaves}."
        )
    was = "category" if model._encoder.missing_is_category else "missing"
    if model._category_options().missing != was:
        raise ValueError(
            f"categories.missing must be the same as in the last fit, {was!r}, with warm_start=True; got "
            f"{model._category_options().missing!r}."
        )
    check_same_rules(model)
    return copy(model)


def learned_data(model: Any, earlier: Any, rows: tuple[Any, Any, Any], n_validation: int) -> TrainingData:
    """Learn the columns, classes and number of targets, and return the encoded rows; `rows` is (X, y, sample_weight).

    If the fit continues `earlier`, the rows are encoded as there, and have to match its targets. `n_validation` is the
    number of rows passed as X_val.
    """
    model._known_classes = getattr(earlier, "classes_", None)
    try:
        data: TrainingData = model._learn_data(*rows, n_validation)
    finally:
        del model._known_classes
    if model._takes_several_targets:
        model._n_targets = 1 if data.y.ndim == 1 else data.y.shape[1]
    if earlier is not None:
        data = _read_as_earlier(model, earlier, rows[0], data)
        _check_same_targets(earlier, model)
    return data


def checked_checkpoint(path: str | os.PathLike[str], model: Any) -> Any:
    """Return the model loaded from a checkpoint; raise ValueError unless `model` has the same parameters.

    Parameters that do not affect the rounds may differ, and `n_estimators` may be larger.
    """
    checkpoint = load_model(path, {type(model).__name__: type(model)}.get, type(model).__name__)
    theirs, ours = checkpoint.get_params(deep=False), model.get_params(deep=False)
    for name in ours.keys() - _MAY_DIFFER:
        if plain_parameter(theirs[name]) != plain_parameter(ours[name]):
            raise ValueError(
                f"{name} must be the same as in {os.fspath(path)}, {theirs[name]!r}, to resume; got {ours[name]!r}."
            )
    if model.n_estimators < checkpoint.n_estimators_:
        raise ValueError(
            f"n_estimators must be at least {checkpoint.n_estimators_}, the number of rounds in {os.fspath(path)}; "
            f"got {model.n_estimators}."
        )
    return checkpoint


def _read_as_earlier(model: Any, earlier: Any, X: Any, data: TrainingData) -> TrainingData:
    """Encode the rows with the columns and categories of the earlier fit, extended by the new categories.

    Columns are matched as in prediction: by name, even if they are empty or have another type. New categories get codes
    after the known ones, and the earlier trees are extended to handle them.

    Parameters
    ----------
    model, earlier : BoostedTrees
        The estimator, which has learned the columns of the new rows, and the fit that it continues.
    X : table
        The new rows.
    data : TrainingData
        The new rows as encoded by the estimator.
    """
    old, new = earlier._encoder, model._encoder
    if old.to_state() == new.to_state():
        return data
    categories = new.categories
    if old.names is not None and new.names is not None:
        by_name = dict(zip(new.names, new.categories, strict=True))
        categories = [by_name.get(name) for name in old.names]
    elif len(categories) != len(old.categories):  # the encoding below raises the error
        categories = [None] * len(old.categories)
    old = earlier._encoder = old.named(categories)
    model._encoder = old.joined(categories)
    if model._encoder.categories != old.categories:
        for name in ("_ensemble", "_best_trees"):
            if getattr(earlier, name) is not None:
                setattr(earlier, name, extend_categories(earlier, getattr(earlier, name), model._encoder))
        earlier._encoder = model._encoder
    model._set_columns()
    X, data = present_table(X, data)
    return data.with_table(model._encode_table(X))


def _check_same_targets(earlier: Any, model: Any) -> None:
    """Raise ValueError unless the new rows have as many targets, and raw predictions per row, as the fit `earlier`."""
    loss, n_outputs = model._get_loss(), earlier._ensemble.n_outputs
    if loss.n_outputs != n_outputs:
        raise ValueError(
            f"y must give {n_outputs} raw predictions for each row, as in the fit that this one continues; "
            f"got {loss.n_outputs}. Use warm_start=False to fit from scratch."
        )
    n_earlier, n_targets = len(losses_of_targets(earlier._loss)), len(losses_of_targets(loss))
    if n_targets != n_earlier:
        raise ValueError(
            f"y must have {n_earlier} targets, as in the fit that this one continues; got "
            f"{n_targets}. Use warm_start=False to fit from scratch."
        )


def continue_rounds(run: Rounds, earlier: Any, *, resumes: bool) -> None:
    """Add the trees of the fit `earlier` to the new training loop `run`, and evaluate each of their rounds again.

    With DART, recorded scores are copied, because trees have been rescaled since. Out-of-bag predictions require the
    rows and draws of the earlier fit. Raise ValueError if they differ in a warm start; `resumes` is True for a
    checkpoint, for which they are assumed to be equal.
    """
    trees = earlier._ensemble.separate_trees()
    if run.leaves.n_trees > earlier._ensemble.trees_per_round:
        # Imported trees may have a value for each output, while this fit grows one tree per output.
        outputs = range(run.leaves.n_trees)
        trees = [replace(tree, value=tree.value[:, k : k + 1].copy()) for tree in trees for k in outputs]
    run.continue_from(trees)
    if run.out_of_bag is not None and not resumes:
        earlier_record = getattr(earlier, "oob_improvement_", np.zeros(0))[: run.n_rounds]
        if not np.array_equal(run.out_of_bag.improvement, earlier_record, equal_nan=True):
            raise ValueError(
                "oob_score must be False with warm_start=True unless the last fit had oob_score=True and drew "
                "the same rows in each round; got True."
            )
    if run.dropout is None:
        return
    # DART has rescaled the trees since their rounds, so their scores cannot be computed again.
    earlier_record, n_rounds = earlier.evals_result_, run.n_rounds
    metrics, scores = run.metrics, earlier_record.get("validation", {})
    run.history.train[:] = earlier_record["training"]["loss"][:n_rounds].tolist()
    for name, each in run.others.items():
        each.continue_from({metric: values[:n_rounds] for metric, values in earlier_record.get(name, {}).items()})
    if metrics is not None and all(len(scores.get(name, ())) >= n_rounds for name in metrics.names):
        metrics.continue_from({name: scores[name][:n_rounds] for name in metrics.names})
        run.history.validation[:] = metrics.scores[metrics.names[0]]
        best = earlier._ensemble if earlier._best_trees is None else earlier._best_trees
        # With another metric, another round may be best, and DART may have rescaled the trees of that round since.
        is_known = best.n_trees == run.history.best_round * run.leaves.n_trees
        run.dropout.best = best.separate_trees() if is_known else list(run.trees)


Array = NDArray[np.float64]
_DECAY = real(0, 1)


def refitted(model: Any, rows: tuple[Any, Any, Any, Any], decay_rate: float) -> tuple[Any, TrainingData]:
    """Return a copy of a boosted model with leaf values updated on new rows, and the encoded rows.

    `rows` holds the table, its targets, its sample weights and its initial raw predictions. `decay_rate` is the weight
    of the old leaf values. Raise ValueError for an average of fold models.
    """
    X, y, sample_weight, init_score = rows
    model._check_fitted()
    _DECAY.check("decay_rate", decay_rate)
    fitted = model._as_fitted()
    if fitted._stopping.folds is not None:
        raise ValueError(
            "early_stopping.folds must have been None in fit for refit_leaves, because the trees "
            "of averaged models do not form one sequence of rounds."
        )
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
    """Refit of the leaf values of an ensemble, tree by tree, with weight `decay` for the old values."""

    def __init__(self, model: Any, loss: Loss, data: TrainingData, decay: float) -> None:
        self.ensemble, self.loss, self.decay = model._ensemble, loss, decay
        self.learning_rate, self._rates = 0.0, learning_rates(model)
        self.weights = RowWeights.of(data.sample_weight, len(data.y), weight_before_classes=data.weight_before_classes)
        self.rules = model._growth_parameters().in_units(self.weights.unit)
        self.max_step = np.inf if self.rules.max_delta_step is None else self.rules.max_delta_step
        trees, rows = on_used_columns(self.ensemble, data.X)
        self.leaves = map_parts(trees.apply, rows).astype(np.intp)
        self.y, self.weight = data.y, data.sample_weight
        self.raw = np.repeat(self.ensemble.baseline[:, None], len(self.leaves), axis=1)
        if data.offset is not None:
            self.raw += data.offset
        self.derivatives = np.empty((2, *self.raw.shape), dtype=np.float32)
        self.value = np.array(self.ensemble.value, dtype=np.float64)

    def run(self) -> TreeEnsemble:
        """Return the ensemble with leaf values refitted to the new rows, tree after tree."""
        for tree in range(self.ensemble.n_trees):
            if tree % self.ensemble.trees_per_round == 0:
                self.learning_rate = rate_of_round(self._rates, tree // self.ensemble.trees_per_round)
                self._start_round()
            self._update_tree(tree, slice(*self.ensemble.node_offsets[tree : tree + 2]))
        return self._updated_ensemble()

    def _start_round(self) -> None:
        """Set the gradients and hessians of the new rows at the current raw predictions."""
        self.derivatives[1] = 1.0
        self.loss.start_round(self.y, self.raw, self.weight)
        self.loss.gradients(self.y, self.raw, self.derivatives[0], self.derivatives[1])

    def _update_tree(self, tree: int, nodes: slice) -> None:
        """Update the values of a tree's nodes, the slice `nodes` of all nodes, and add it to the raw predictions."""
        leaf, first = self.leaves[:, tree], self.ensemble.tree_output[tree]
        outputs = range(first, first + self.value.shape[1])
        for column, output in enumerate(outputs):
            old = self.value[nodes, column]
            new = self._new_values(leaf, len(old), output)
            new = np.where(np.isnan(new), old, new)
            new = leaves_within_limits(self.ensemble.tree(tree), new, self.rules.of_output(output), self.learning_rate)
            self.value[nodes, column] = np.where(new == old, old, self.decay * old + (1 - self.decay) * new)
        for column, output in enumerate(outputs):
            self._add_tree(tree, self.value[nodes, column], output)

    def _new_values(self, leaf: NDArray[np.intp], n_nodes: int, output: int) -> Array:
        """Return the node values, (n_nodes,), that a round on the new rows would give; NaN for nodes without rows.

        `leaf` holds the node index of each row's leaf, and `output` is the index of the raw prediction.
        """
        loss = self.loss.of_output(output)
        if self.loss.renews_leaves:
            order, nodes, starts = _sort_by_leaf(leaf)
            residuals = self.loss.residuals(self.y, self.raw, output)[order]
            weight = None if self.weight is None else self.weight[order]
            values = np.full(n_nodes, np.nan)
            values[nodes] = loss.leaf_values(residuals, starts, weight)
            return self.learning_rate * values
        step = self._newton_steps(leaf, n_nodes, output)
        damped = np.clip(loss.damped(np.nan_to_num(step)), -self.max_step, self.max_step)
        return self.learning_rate * np.where(np.isnan(step), np.nan, damped)

    def _l2_of_noise(self, output: int) -> float:
        """Return the L2 penalty of an output, which grows with the noise of its gradients on the new rows."""
        gradients, hessians = self.derivatives[:, output].astype(np.float64)
        squares = gradients**2
        if self.weights.factors is not None:
            squares *= self.weights.factors * (self.weights.n_copies / self.weights.total)
        everywhere = np.zeros(len(squares), dtype=np.intp)
        square, hessian = (float(self._node_sums(everywhere, part, 1)[0]) for part in (squares, hessians))
        root = math.sqrt(square / hessian) if hessian > 0 else 0.0
        return self.rules.l2_of_noise(root / self.loss.of_output(output).noise_unit, hessian)

    def _newton_steps(self, leaf: NDArray[np.intp], n_nodes: int, output: int) -> Array:
        """Return each node's Newton step, (n_nodes,), before damping, clipping and shrinkage; NaN without rows.

        `leaf` holds the node index of each row's leaf, and `output` is the index of the raw prediction.
        """
        gradient, hessian = (self._node_sums(leaf, part[output], n_nodes) for part in self.derivatives)
        l2 = self._l2_of_noise(output) if self.rules.noise_l2 > 0 else self.rules.l2_regularization
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(hessian > 0, -gradient / (hessian + l2), np.nan)

    def _node_sums(self, leaf: NDArray[np.intp], values: np.ndarray, n_nodes: int) -> Array:
        """Return the weighted sum of the rows' `values` in each node, (n_nodes,); `leaf` is each row's node index."""
        return leaf_sums(leaf, values, self.weights.factors, n_nodes, self.weights.copies)

    def _add_tree(self, tree: int, values: Array, output: int) -> None:
        """Add node values `values` of tree `tree` to the new rows' raw predictions of an output."""
        self.raw[output] += values[self.leaves[:, tree]]

    def _updated_ensemble(self) -> TreeEnsemble:
        """Return the ensemble with the updated node values."""
        return self.ensemble.with_values(self.value)


class LinearRefit(LeafRefit):
    """Refit of linear leaves, whose linear models also keep the weight `decay`."""

    def __init__(self, model: Any, loss: Loss, data: TrainingData, decay: float) -> None:
        super().__init__(model, loss, data, decay)
        self.X, l2 = as_array(data.X), model._options("linear_leaves").l2 * self.weights.unit
        is_categorical = self.ensemble.binning.is_categorical
        self.models = LeafModels(self.X, is_categorical, self.weights, l2, 1)
        self.trees, self.linear = self.ensemble.separate_trees(), list[LinearLeafTerms]()

    def _add_tree(self, tree: int, values: Array, output: int) -> None:
        """Refit the linear models of the leaves of tree `tree`, and add the tree to the raw predictions of an output.

        `values` holds the new node values, to which the linear models are added.
        """
        old, leaf, loss = self.trees[tree], self.leaves[:, tree], self.loss.of_output(output)
        self.models.monotone = self.rules.of_output(output).monotone
        assert isinstance(old, LinearTree)
        order, nodes, starts = _sort_by_leaf(leaf)
        step = self._newton_steps(leaf, old.n_nodes, output)
        rate = self.learning_rate * damping(loss, np.nan_to_num(step))
        kept = np.where(np.isnan(step), 1.0, self.decay)
        leaves = nodes, order.astype(np.uint32), starts
        new = self.models.fit(old, leaves, self.derivatives[0, output], self.derivatives[1, output], (1 - kept) * rate)
        renewed = replace(old, value=values[:, None], linear=old.linear.times(kept).plus(new))
        max_value = self.learning_rate * self.max_step
        linear = lines_within_limits(renewed, renewed.linear, self.models.monotone, max_value)
        replace(renewed, linear=linear).add(self.X, leaf, self.raw[output])
        self.linear.append(linear)

    def _updated_ensemble(self) -> TreeEnsemble:
        """Return the ensemble with the updated node values and linear models."""
        return LinearEnsemble(super()._updated_ensemble(), LinearLeafTerms.join(self.linear))


def _sort_by_leaf(leaf: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """Return the row indices sorted by leaf, the leaves that have rows, and the offset of each leaf's first row.

    `leaf` holds the node index of each row's leaf. A last offset is the number of rows.
    """
    order = np.argsort(leaf, kind="stable")
    nodes, starts = np.unique(leaf[order], return_index=True)
    return order, nodes, np.append(starts, len(leaf)).astype(np.int64)
