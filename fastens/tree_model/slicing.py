"""Models of some of the rounds of a fitted one."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray


def of_rounds(model: Any, chosen: slice) -> Any:
    """Return a fitted model with some of the rounds, on top of the same constant; it shares no trees that change.

    Parameters
    ----------
    model : BoostedTrees
        A fitted model.
    chosen : slice
        Which rounds; at least one.
    """
    trees = model._ensemble
    per_round = trees.trees_per_round
    rounds = np.arange(trees.n_trees // per_round)[chosen]
    if not len(rounds):
        raise ValueError(f"a slice must leave at least one of the {trees.n_trees // per_round} rounds; got {chosen}.")
    kept = (rounds[:, None] * per_round + np.arange(per_round)).ravel()
    separate = trees.separate_trees()
    part = copy(model)
    part._forget("_best_trees", "_calibration", "oob_improvement_", "oob_prediction_", "oob_decision_function_")
    part._ensemble = type(trees).from_trees(
        [separate[number] for number in kept.tolist()], trees.tree_output[kept], trees.baseline, trees.binning
    )
    part.n_estimators = part.n_estimators_ = part.n_iter_ = part.best_iteration_ = len(rounds)
    part.train_score_, part.validation_score_ = _of(model.train_score_, rounds), _of(model.validation_score_, rounds)
    part.validation_scores_ = {name: _of(scores, rounds) for name, scores in model.validation_scores_.items()}
    part._restored()
    return part


def _of(scores: NDArray[np.float64], rounds: NDArray[np.intp]) -> NDArray[np.float64]:
    """The scores of rounds, as far as they were measured."""
    return scores[rounds[rounds < len(scores)]]
