"""Permutation importance of trees: no copy of the table, and only what a shuffled value changes is walked again."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch, check_random_state

from fastens.base import TrainingData
from fastens.engine.limits import check_count
from fastens.engine.parts import column_of, map_parts, with_column
from fastens.engine.threads import resolve_n_jobs, threads_for
from fastens.engine.trees.walks import Shuffled
from fastens.inspection.arguments import COUNT
from fastens.parameters import RANDOM_STATE

Array = NDArray[np.float64]
Shuffles = list[NDArray[np.uint32]]
# Rows that are worth a thread: each walks through all trees several times.
_GRAIN = 50


def permutation_importance(
    model: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, n_repeats: int, random_state: Any
) -> Bunch:
    """Return by how much a fitted TreeModel's loss grows when the values of a feature are shuffled among the rows."""
    COUNT.check("n_repeats", n_repeats)
    RANDOM_STATE.check("random_state", random_state)
    data = model._check_validation(X, y, sample_weight)
    weight = np.ones(len(data.y)) if data.sample_weight is None else data.sample_weight
    check_count("X", "rows", len(data.y), advice="Pass a sample of them.")
    generator = check_random_state(random_state)
    shuffles = [generator.permutation(len(data.y)).astype(np.uint32) for _ in range(n_repeats)]
    growth = growth_of_score_loss if model._targets is None else growth_of_row_losses
    return importance_bunch(growth(model, data, weight, shuffles) / weight.sum())


def growth_of_row_losses(model: Any, data: TrainingData, weight: Array, shuffles: Shuffles) -> Array:
    """By how much the sum of weighted losses grows with each shuffle of each column, (n_features, n_shuffles).

    Rows whose leaves do not change are not looked at again.
    """
    trees, y = model._predicting_trees(), data.y.reshape(len(data.y), -1)
    n_threads = resolve_n_jobs(model.n_jobs)
    matrix = trees.binning.transform(model._apply_statistics(data).X, n_threads)
    shuffled = Shuffled(trees, matrix, model._column_of, threads_for(len(y), n_threads, _GRAIN))
    targets = model._targets
    loss = targets.score_loss(y, weight)
    growth = np.zeros((model.n_features_in_, len(shuffles)))
    for repeat, others in enumerate(shuffles):
        for rows, mean, means in shuffled.blocks(others):
            before = weight[rows] @ loss(targets.answers(mean), y[rows])
            after = [weight[rows] @ loss(targets.answers(changed), y[rows]) for changed in means]
            growth[:, repeat] += np.array(after) - before
    return growth


def growth_of_score_loss(model: Any, data: TrainingData, weight: Array, shuffles: Shuffles) -> Array:
    """The same of 1 - score, which the model finds from the raw predictions of all rows."""
    trees, n_threads = model._predicting_trees(), resolve_n_jobs(model.n_jobs)

    def weighted_loss(X: Any) -> float:
        encoded = model._apply_statistics(TrainingData(X, data.y, None)).X
        raw = map_parts(lambda part: trees.predict_raw(part, n_threads), encoded)
        return float(weight.sum()) * (1 - model._score_of_raw(raw, data.y, weight))

    before = weighted_loss(data.X)
    growth = np.zeros((model.n_features_in_, len(shuffles)))
    for column in np.unique(model._column_of[model._ensemble.feature[model._ensemble.feature >= 0]]):
        places = np.flatnonzero(model._encoder.column_of == column).tolist()
        values = [column_of(data.X, place) for place in places]
        for repeat, others in enumerate(shuffles):
            changed = data.X
            for place, own in zip(places, values, strict=True):
                changed = with_column(changed, place, own[others])
            growth[column, repeat] = weighted_loss(changed) - before
    return growth


def score_of_predictions(predicted: Any, y: Array, weight: Array, *, of_classes: bool) -> float:
    """The accuracy of probabilities, or the mean R squared of numbers, over encoded targets."""
    targets = y.reshape(len(y), -1)
    if of_classes:
        parts = predicted if isinstance(predicted, list) else [predicted]
        answers = np.column_stack([part.argmax(axis=1) for part in parts])
        return float(np.average((answers == targets).all(axis=1), weights=weight))
    misses = np.average((predicted.reshape(len(y), -1) - targets) ** 2, axis=0, weights=weight)
    variance = np.average((targets - np.average(targets, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    return float(1 - np.mean(misses / np.where(variance > 0, variance, 1.0)))


def importance_bunch(importances: Array) -> Bunch:
    """Mean and spread of importances of shape (n_features, n_repeats); NaN does not count.

    The standard error of the mean of one number is not known, NaN.
    """
    known = ~np.isnan(importances)
    n_known = known.sum(axis=1)
    mean = np.sum(importances, axis=1, where=known) / np.maximum(n_known, 1)
    squares = np.sum((importances - mean[:, None]) ** 2, axis=1, where=known)
    std = np.sqrt(squares / np.maximum(n_known - 1, 1))
    return Bunch(
        importances_mean=mean,
        importances_std=std,
        importances_standard_error=np.where(n_known > 1, std / np.sqrt(np.maximum(n_known, 1)), np.nan),
        importances=importances,
    )
