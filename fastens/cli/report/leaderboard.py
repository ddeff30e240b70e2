"""Cross-validation of many models on the same folds: scores with their standard errors, times and sizes."""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fastens.cli.models.model_files import probabilities
from fastens.cli.report.scores import Scores, Truth, constant_prediction, score, score_constant
from fastens.cli.table.errors import first_line
from fastens.cli.table.task import Rows, Task
from fastens.table.shuffled_folds import shuffled_folds

CONSTANT = "constant prediction"
HIGHER_IS_BETTER = ("AUC", "accuracy", "R²")


@dataclass
class Entry:
    """One model of the leaderboard: what each fold gave."""

    name: str
    scores: list[Scores] = field(default_factory=list)
    fit_seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)
    n_predicted: int = 0
    n_bytes: int = 0
    failure: str | None = None

    def mean(self, name: str) -> float:
        """The mean of a score over the folds that have it."""
        return float(np.mean(values)) if len(values := self._known(name)) else math.nan

    def _known(self, name: str) -> NDArray[np.float64]:
        values = np.array([scores[name] for scores in self.scores])
        return values[np.isfinite(values)] if np.isfinite(values).any() else values

    def error(self, name: str) -> float:
        """The standard error of that mean."""
        values = self._known(name)
        return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan

    @property
    def fit_time(self) -> float:
        """Median seconds of a fit."""
        return float(np.median(self.fit_seconds)) if self.fit_seconds else math.nan

    @property
    def microseconds_per_row(self) -> float:
        """Mean time of a prediction."""
        return 1e6 * sum(self.predict_seconds) / self.n_predicted if self.n_predicted else math.nan


def fold_rows(task: Task, n_folds: int, random_state: int) -> list[tuple[NDArray, NDArray]]:
    """Rows to train on and to test on: by time or group, or shuffled, every class in the same share."""
    if task.order is not None:
        return task.order.folds(n_folds, random_state)
    # Classes of fewer rows than folds are absent from some folds, which the scores allow for.
    return shuffled_folds(task.rows.y, n_folds, random_state, stratified=task.is_classification)


def cross_validate(
    name: str, model: Any, task: Task, folds: list[tuple[NDArray, NDArray]], on_fold: Callable[[], None]
) -> Entry:
    """Fit and score a model on every fold; a model that fails is an entry with the error."""
    entry = Entry(name)
    for train, test in folds:
        try:
            _one_fold(entry, clone(model), _take(task.rows, train), _take(task.rows, test), task)
        except Exception as error:
            # An error of one model must not hide the results of the others.
            return Entry(name, failure=first_line(error))
        on_fold()
    return entry


def constant_entry(task: Task, folds: list[tuple[NDArray, NDArray]]) -> Entry:
    """What the best constant prediction of each fold gives."""
    entry = Entry(CONSTANT)
    classes = np.unique(task.rows.y) if task.is_classification else None
    for train, test in folds:
        rows, held_out = _take(task.rows, train), _take(task.rows, test)
        constant = constant_prediction(rows.y, rows.weight, classes)
        entry.scores.append(score_constant(constant, Truth(held_out.y, held_out.weight, classes, None)))
    return entry


def best_scores(entries: list[Entry]) -> Scores:
    """The best mean of each score over all models."""
    done = [entry for entry in entries if entry.scores]
    best = {name: max if name.startswith(HIGHER_IS_BETTER) else min for name in (done[0].scores[0] if done else {})}
    return {name: choose(entry.mean(name) for entry in done) for name, choose in best.items()}


def ranked(entries: list[Entry]) -> list[Entry]:
    """Best first, by the first score; failures last."""
    done = [entry for entry in entries if entry.scores]
    name = next(iter(done[0].scores[0])) if done else ""
    sign = -1 if name.startswith(HIGHER_IS_BETTER) else 1
    return sorted(done, key=lambda entry: sign * entry.mean(name)) + [entry for entry in entries if not entry.scores]


def _one_fold(entry: Entry, model: Any, rows: Rows, held_out: Rows, task: Task) -> None:
    weight = {} if rows.weight is None else {"sample_weight": rows.weight}
    start = time.perf_counter()
    model.fit(rows.X, rows.y, **weight)
    entry.fit_seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    predicted = probabilities(model, held_out.X) if task.is_classification else model.predict(held_out.X)
    entry.predict_seconds.append(time.perf_counter() - start)
    entry.n_predicted += len(held_out.y)
    entry.n_bytes = len(pickle.dumps(model))
    classes = np.unique(task.rows.y) if task.is_classification else None
    if classes is not None:
        predicted = _all_classes(predicted, model.classes_, classes)
    entry.scores.append(score(predicted, Truth(held_out.y, held_out.weight, classes, None)))


def _all_classes(probabilities: NDArray, known: NDArray, classes: NDArray) -> NDArray:
    """Columns for all classes, also those that a fold lacked."""
    out = np.zeros((len(probabilities), len(classes)))
    out[:, np.searchsorted(classes, known)] = probabilities
    return out


def _take(rows: Rows, index: NDArray) -> Rows:
    weight = None if rows.weight is None else rows.weight[index]
    return Rows(rows.X.take(index), rows.y[index], weight)
