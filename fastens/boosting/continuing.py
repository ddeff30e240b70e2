"""Fits that go on from where an earlier one stopped: in memory, or in a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.boosting.rounds import Rounds
from fastens.engine.losses.column_losses import losses_of_targets
from fastens.engine.losses.losses import Loss
from fastens.engine.trees.trees import TreeEnsemble
from fastens.saving import plain_parameter
from fastens.storage import load_model

Array = NDArray[np.float64]
# What may differ between a fit that stopped and the one that goes on: nothing of it changes the rounds before.
_MAY_DIFFER = {
    "n_estimators", "n_jobs", "verbose", "random_state", "warm_start", "callbacks", "validation", "checkpoint_path",
    "checkpoint_every", "eval_metric", "early_stopping", "n_iter_no_change", "tol", "refit",
}  # fmt: skip


@dataclass(frozen=True)
class Earlier:
    """What an earlier fit left.

    Attributes
    ----------
    ensemble : TreeEnsemble
        Its trees.
    best_trees : TreeEnsemble or None
        What they were at the best round, where later ones have changed them.
    train_score, validation_scores : array and dict of arrays
        What its rounds were measured by.
    seed, n_targets : int
        Of its draws; of its y.
    door, statistics : dict
        What the input encoder learned of the columns.
    """

    ensemble: TreeEnsemble
    best_trees: TreeEnsemble | None
    train_score: Array
    validation_scores: dict[str, Array]
    seed: int
    n_targets: int
    door: dict[str, Any]
    statistics: dict[str, NDArray[Any]]

    @classmethod
    def of(cls, model: Any) -> Earlier:
        """Of a fitted estimator."""
        return cls(
            model._ensemble,
            model._best_trees,
            model.train_score_,
            model.validation_scores_,
            model._seed,
            len(losses_of_targets(model._loss)),
            model._encoder_state(),
            model._statistics_arrays(),
        )

    def check_door(self, door: dict[str, Any], loss: Loss) -> None:
        """Raise ValueError unless the table has the columns, categories, classes and targets that it had."""
        if door != self.door:
            raise ValueError(
                "X and y must have the columns, categories and classes of the fit that this one continues."
            )
        if loss.n_outputs != self.ensemble.n_outputs:
            raise ValueError(
                f"y must give the {self.ensemble.n_outputs} raw predictions a row of the fit that this one continues; "
                f"it gives {loss.n_outputs}."
            )
        n_targets = len(losses_of_targets(loss))
        if n_targets != self.n_targets:
            raise ValueError(
                f"y must have the {self.n_targets} targets of the fit that this one continues; it has {n_targets}."
            )

    def give_to(self, run: Rounds) -> None:
        """Let a run begin after the rounds there are, with their scores where it measures the same."""
        run.continue_from(self.ensemble.separate_trees())
        metrics = run.metrics
        n_rounds = run.n_rounds
        run.history.train[:] = self.train_score[:n_rounds].tolist()
        if metrics is not None and all(len(self.validation_scores.get(name, ())) >= n_rounds for name in metrics.names):
            metrics.continue_from({name: self.validation_scores[name][:n_rounds] for name in metrics.names})
            run.history.validation[:] = metrics.scores[metrics.names[0]]
            if self.best_trees is not None:
                assert run.dropout is not None
                run.dropout.best = self.best_trees.separate_trees()


def find_earlier(model: Any, resume: Any) -> Earlier | None:
    """What `fit` is to continue: a checkpoint, or the last fit."""
    if resume is not None:
        return Earlier.of(checked_checkpoint(resume, model))
    if not model.warm_start or not hasattr(model, "_ensemble"):
        return None
    if model.n_estimators < model.n_estimators_:
        raise ValueError(
            f"n_estimators must be at least {model.n_estimators_}, the rounds of the last fit, with "
            f"warm_start=True; got {model.n_estimators}."
        )
    loss = model._get_loss().name
    if loss != model._loss.name:
        raise ValueError(f"loss must be as in the last fit, {model._loss.name!r}, with warm_start=True; got {loss!r}.")
    if model._ensemble.has_constant_leaves == model.linear_leaves:
        raise ValueError(
            f"linear_leaves must be as in the last fit, {not model.linear_leaves}, with warm_start=True; "
            f"got {model.linear_leaves}."
        )
    return Earlier.of(model)


def checked_checkpoint(path: str | os.PathLike[str], model: Any) -> Any:
    """The fitted estimator in a file, which must be one of these parameters."""
    found = load_model(path, {type(model).__name__: type(model)})
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
