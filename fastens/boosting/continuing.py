"""Fits that go on from where an earlier one stopped: in memory, or in a file."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from fastens.boosting.rounds import Rounds
from fastens.engine.losses.column_losses import losses_of_targets
from fastens.saving import plain_parameter
from fastens.storage import load_model
from fastens.table.present_rows import present_table
from fastens.table.training_data import TrainingData
from fastens.tree_model.column_rules import check_same_rules
from fastens.tree_model.joining import knowing_more

# What may differ between a fit that stopped and the one that goes on: nothing of it changes the rounds before.
_MAY_DIFFER = {
    "n_estimators", "n_jobs", "verbose", "random_state", "warm_start", "callbacks", "early_stopping",
    "n_iter_no_change", "tol",
}  # fmt: skip


def find_earlier(model: Any, resume: Any) -> Any:
    """The fitted estimator that `fit` continues: a checkpoint, or a copy of the last fit; None to start anew."""
    if resume is not None and model._stopping.folds is not None:
        raise ValueError("resume must be None with early_stopping.folds, whose model is a mean.")
    if resume is not None:
        return checked_checkpoint(resume, model)
    if not model.warm_start or not hasattr(model, "_ensemble"):
        return None
    if model._stopping.refit:
        raise ValueError(
            "early_stopping.refit must be False to go on from the last fit with warm_start=True, whose trees have seen "
            "the rows to validate on; got True."
        )
    if model.n_estimators < model.n_estimators_:
        raise ValueError(
            f"n_estimators must be at least {model.n_estimators_}, the rounds of the last fit, with "
            f"warm_start=True; got {model.n_estimators}."
        )
    loss = model._get_loss().name
    if loss != model._loss.name:
        raise ValueError(f"loss must be as in the last fit, {model._loss.name!r}, with warm_start=True; got {loss!r}.")
    if model._ensemble.has_constant_leaves == bool(model.linear_leaves):
        raise ValueError(
            f"linear_leaves must be as in the last fit, {not model.linear_leaves}, with warm_start=True; "
            f"got {model.linear_leaves}."
        )
    was = "category" if model._encoder.missing_is_category else "missing"
    if model._category_options().missing != was:
        raise ValueError(
            f"categories.missing must be as in the last fit, {was!r}, with warm_start=True; "
            f"got {model._category_options().missing!r}."
        )
    check_same_rules(model)
    return copy(model)


def learned_data(model: Any, earlier: Any, given: tuple[Any, Any, Any], n_validation: int) -> TrainingData:
    """X, y and weights as the estimator learns them: by columns and classes of the fit that it continues, if any."""
    model._earlier_classes = getattr(earlier, "classes_", None)
    try:
        data: TrainingData = model._learn_data(*given, n_validation)
    finally:
        del model._earlier_classes
    if model._takes_several_targets:
        model._n_targets = 1 if data.y.ndim == 1 else data.y.shape[1]
    if earlier is not None:
        data = _read_as_earlier(model, earlier, given[0], data)
        _check_same_targets(earlier, model)
    return data


def checked_checkpoint(path: str | os.PathLike[str], model: Any) -> Any:
    """The fitted estimator in a file, which must be one of these parameters."""
    found = load_model(path, {type(model).__name__: type(model)}.get, type(model).__name__)
    theirs, ours = found.get_params(deep=False), model.get_params(deep=False)
    for name in ours.keys() - _MAY_DIFFER:
        if plain_parameter(theirs[name]) != plain_parameter(ours[name]):
            raise ValueError(
                f"{name} must be as in {os.fspath(path)}, {theirs[name]!r}, to resume; got {ours[name]!r}."
            )
    if model.n_estimators < found.n_estimators_:
        raise ValueError(
            f"n_estimators must be at least {found.n_estimators_}, the rounds in {os.fspath(path)}; "
            f"got {model.n_estimators}."
        )
    return found


def _read_as_earlier(model: Any, earlier: Any, X: Any, data: TrainingData) -> TrainingData:
    """The rows by the columns and categories of the fit that is continued, and by those categories that are new.

    Columns are found and read as for a prediction: by name, without a value or written in another type. The earlier
    trees get to know the new categories, which come after their own.

    Parameters
    ----------
    model, earlier : BoostedTrees
        The estimator, which has learned the columns of the new rows, and the fit that it continues.
    X : table
        The new rows.
    data : TrainingData
        The same, as the estimator has learned them.
    """
    old, new = earlier._encoder, model._encoder
    if old.to_state() == new.to_state() and not old.hashed:
        return data
    found = new.categories
    if old.names is not None and new.names is not None:
        by_name = dict(zip(new.names, new.categories, strict=True))
        found = [by_name.get(name) for name in old.names]
    elif len(found) != len(old.categories):  # which is an error below
        found = [None] * len(old.categories)
    if old.hashed:
        old = earlier._encoder = old.named(found)
    model._encoder = old.joined(found)
    if model._encoder.categories != old.categories:
        for name in ("_ensemble", "_best_trees"):
            if getattr(earlier, name) is not None:
                setattr(earlier, name, knowing_more(earlier, getattr(earlier, name), model._encoder))
        earlier._encoder = model._encoder
    model._set_columns()
    X, data = present_table(X, data)
    return data.with_table(model._encode_table(X))


def _check_same_targets(earlier: Any, model: Any) -> None:
    """Raise ValueError unless the rows have the targets of the earlier fit."""
    loss, n_outputs = model._get_loss(), earlier._ensemble.n_outputs
    if loss.n_outputs != n_outputs:
        raise ValueError(
            f"y must give the {n_outputs} raw predictions a row of the fit that this one continues; "
            f"it gives {loss.n_outputs}."
        )
    n_earlier, n_targets = len(losses_of_targets(earlier._loss)), len(losses_of_targets(loss))
    if n_targets != n_earlier:
        raise ValueError(f"y must have the {n_earlier} targets of the fit that this one continues; it has {n_targets}.")


def continue_rounds(run: Rounds, earlier: Any, *, resumes: bool) -> None:
    """Let a run begin after the rounds of an earlier fit, which are measured again; of DART, they keep their scores.

    Out of bag, that needs the rows and the draws of the earlier fit, as those who resume promise them.
    """
    trees = earlier._ensemble.separate_trees()
    if run.leaves.n_trees > earlier._ensemble.trees_per_round:
        # Trees of other libraries' models may have a value for each output where those grown here have one.
        outputs = range(run.leaves.n_trees)
        trees = [replace(tree, value=tree.value[:, k : k + 1].copy()) for tree in trees for k in outputs]
    run.continue_from(trees)
    if run.out_of_bag is not None and not resumes:
        known = getattr(earlier, "oob_improvement_", np.zeros(0))[: run.n_rounds]
        if not np.array_equal(run.out_of_bag.improvement, known, equal_nan=True):
            raise ValueError(
                "oob_score must be False with warm_start=True unless the last fit had it, and drew the same rows in "
                "each round; got True."
            )
    if run.dropout is None:
        return
    # The trees have changed since their rounds.
    metrics, scores, n_rounds = run.metrics, earlier.validation_scores_, run.n_rounds
    run.history.train[:] = earlier.train_score_[:n_rounds].tolist()
    if metrics is not None and all(len(scores.get(name, ())) >= n_rounds for name in metrics.names):
        metrics.continue_from({name: scores[name][:n_rounds] for name in metrics.names})
        run.history.validation[:] = metrics.scores[metrics.names[0]]
        best = earlier._ensemble if earlier._best_trees is None else earlier._best_trees
        # Another metric may have another best round, whose trees are not known as they were.
        is_known = best.n_trees == run.history.best_round * run.leaves.n_trees
        run.dropout.best = best.separate_trees() if is_known else list(run.trees)
