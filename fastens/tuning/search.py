"""Trials: models fitted on the same folds, none of them beyond the time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer

from fastens.combining.parameters import with_weight_type
from fastens.monitoring.callbacks import CallbackEnv, StopTraining
from fastens.table.parts import take_rows
from fastens.table.shuffled_folds import shuffled_folds
from fastens.tuning.spaces import BOOSTING, SPACES
from fastens.tuning.state import Trial

CLASSIFICATION = "classification"
LOSS = "loss"
# Rounds of boosting, which early stopping ends; one in so many trees is grown first to see how long all take.
MOST_ROUNDS, PROBE = 10_000, 10
# A trial is given up once its mean loss is worse than the median of so many others on the same folds
# (the median stopping rule of Golovin et al. 2017).
FEWEST_FOR_MEDIAN = 5


class TimeIsUpError(Exception):
    """A fit would have gone beyond the time."""


class Deadline:
    """A callback of boosting that ends the training at a moment, and remembers that it did."""

    def __init__(self, moment: float) -> None:
        self.moment, self.has_ended = moment, False

    def __call__(self, env: CallbackEnv) -> None:
        """End the training once the moment has come."""
        if time.monotonic() >= self.moment:
            self.has_ended = True
            raise StopTraining

    @property
    def left(self) -> float:
        """Seconds until then."""
        return self.moment - time.monotonic()


@dataclass(frozen=True)
class Data:
    """Rows, targets and weights, and how models of them are judged and made."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    task: str
    metric: str
    patience: int
    random_state: int
    n_jobs: int | None

    def model(self, family: str, params: dict[str, Any]) -> Any:
        """The estimator of a trial."""
        space = SPACES[family]
        kind = space.classifier if self.task == CLASSIFICATION else space.regressor
        model = kind(random_state=self.random_state, n_jobs=self.n_jobs).set_params(**params)
        return model if self.weight is None else with_weight_type(model, self.weight)

    def rows(self, rows: NDArray[np.intp]) -> dict[str, Any]:
        """Some rows as arguments of `fit`."""
        weight = None if self.weight is None else self.weight[rows]
        return {"X": take_rows(self.X, rows), "y": self.y[rows], "sample_weight": weight}

    def loss(self, model: Any, rows: dict[str, Any]) -> float:
        """How wrong a model is on rows: log loss, root mean squared error, or a score with its sign turned."""
        X, y, weight = rows["X"], rows["y"], rows["sample_weight"]
        if self.metric != LOSS:
            return -self._score(model, X, y, weight)
        if self.task != CLASSIFICATION:
            return float(np.sqrt(np.average((model.predict(X) - y) ** 2, weights=weight)))
        places = np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
        chances = model.predict_proba(X)[np.arange(len(y)), places]
        chances = np.where(model.classes_[places] == y, chances, 0.0)  # of a class that the fold did not have
        return float(np.average(-np.log(np.clip(chances, np.finfo(float).eps, None)), weights=weight))

    def _score(self, model: Any, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None) -> float:
        try:
            score = float(get_scorer(self.metric)(model, X, y, sample_weight=weight))
        except (AttributeError, TypeError, ValueError) as error:
            weighted = "" if weight is None else " with sample_weight"
            rule = f"metric must be loss or a scorer that can judge {self.task} of this table{weighted}"
            raise ValueError(f"{rule}; got {self.metric!r}: {error}") from error
        if np.isnan(score):
            raise ValueError(f"metric must judge models by the rows of each fold; {self.metric!r} has no value on one.")
        return score


def fold_rows(data: Data, n_folds: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows to fit on and to judge by, the same for every trial; of each class the same share."""
    if data.task != CLASSIFICATION:
        return shuffled_folds(data.y, n_folds, data.random_state, stratified=False)
    if np.unique(data.y, return_counts=True)[1].max() < n_folds:
        raise ValueError(f"y must have a class of {n_folds} rows or more, one for each fold to judge models by.")
    folds = shuffled_folds(data.y, n_folds, data.random_state, stratified=True)
    if any(np.all(data.y[train] == data.y[train[0]]) for train, _ in folds):
        raise ValueError("y must have two classes among the rows that each fold trains on; one has a single class.")
    return folds


def run_trial(trial: Trial, data: Data, folds: list[Any], others: list[Trial], moment: float) -> Trial:
    """Fit a model on every fold, or until it is worse than most; TimeIsUpError once the moment has come."""
    losses, rounds = list[float](), list[int]()
    start = time.monotonic()
    for train, test in folds:
        model = data.model(trial.family, trial.params)
        held_out = data.rows(test)
        _fit(model, trial.family, data, (data.rows(train), held_out), Deadline(moment))
        losses.append(data.loss(model, held_out))
        rounds.append(int(getattr(model, "best_iteration_", model.n_estimators)))
        if len(losses) < len(folds) and _is_worse_than_most(losses, others):
            break
    is_complete = len(losses) == len(folds)
    return Trial(trial.index, trial.family, trial.params, losses, rounds, time.monotonic() - start, is_complete)


def _fit(model: Any, family: str, data: Data, parts: tuple[dict[str, Any], dict[str, Any]], deadline: Deadline) -> None:
    """Fit on the rows of a fold; boosting stops early by the other rows."""
    train, held_out = parts
    if deadline.left <= 0:
        raise TimeIsUpError
    if family != BOOSTING:
        _check_time(model, train, deadline)
        model.fit(**train)
        return
    model.set_params(
        n_estimators=MOST_ROUNDS, early_stopping=True, n_iter_no_change=data.patience, callbacks=[deadline]
    )
    watched = _of_known_classes(held_out, train["y"]) if data.task == CLASSIFICATION else held_out
    model.fit(**train, X_val=watched["X"], y_val=watched["y"], sample_weight_val=watched["sample_weight"])
    if deadline.has_ended:
        raise TimeIsUpError


def _of_known_classes(held_out: dict[str, Any], y: NDArray[Any]) -> dict[str, Any]:
    """The rows whose classes a model can know; a rare class may be in one fold only."""
    known = np.flatnonzero(np.isin(held_out["y"], y))
    weight = held_out["sample_weight"]
    return {
        "X": take_rows(held_out["X"], known),
        "y": held_out["y"][known],
        "sample_weight": None if weight is None else weight[known],
    }


def _check_time(model: Any, train: dict[str, Any], deadline: Deadline) -> None:
    """Grow a tenth of a forest, to see whether all of it can be grown in time."""
    n_trees, start = model.n_estimators, time.monotonic()
    model.set_params(n_estimators=max(1, n_trees // PROBE)).fit(**train)
    seconds = (time.monotonic() - start) * n_trees / model.n_estimators
    model.set_params(n_estimators=n_trees)
    if seconds > deadline.left:
        raise TimeIsUpError


def _is_worse_than_most(losses: list[float], others: list[Trial]) -> bool:
    n = len(losses)
    means = [np.mean(other.losses[:n]) for other in others if len(other.losses) >= n]
    return len(means) >= FEWEST_FOR_MEDIAN and bool(np.mean(losses) > np.median(means))
