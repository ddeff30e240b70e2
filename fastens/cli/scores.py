"""Which rows to hold out, and how good predictions for them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

Scores = dict[str, float]
DEVIANCES: dict[str, Callable[..., float]] = {
    "poisson": metrics.mean_poisson_deviance,
    "gamma": metrics.mean_gamma_deviance,
}


@dataclass(frozen=True)
class Truth:
    """The true values of some rows; for classes also all classes in order, for numbers also the loss minimised."""

    y: NDArray
    weight: NDArray | None
    classes: NDArray | None
    loss: str | None


def held_out_rows(strata: NDArray, fraction: float, random_state: int) -> NDArray[np.bool_]:
    """Mark a random share of the rows, the same share of every stratum, at least one row of each left unmarked.

    The rows, shuffled inside each stratum, are laid out stratum by stratum; every (1/fraction)-th is taken. So strata
    of any size work, and the number of rows taken is right.
    """
    generator = np.random.default_rng(random_state)
    n_rows = len(strata)
    order = np.lexsort((generator.random(n_rows), strata))
    steps = np.floor(np.arange(n_rows + 1) * fraction + generator.random())
    held_out = np.zeros(n_rows, dtype=bool)
    held_out[order] = np.diff(steps) > 0
    only_held_out = np.setdiff1d(strata, strata[~held_out])
    held_out[np.isin(strata, only_held_out)] = False
    return held_out


def constant_prediction(y: NDArray, weight: NDArray | None, classes: NDArray | None) -> NDArray[np.float64]:
    """The best prediction that knows no column: the share of each class, or the mean."""
    if classes is None:
        return np.array([np.average(y, weights=weight)])
    return np.array([np.average(y == label, weights=weight) for label in classes])


def score(predicted: NDArray, truth: Truth) -> Scores:
    """Scores by name: of probabilities, one column per class, where there are classes; else of predicted values."""
    if truth.classes is None:
        return _regression_scores(predicted, truth)
    return _classification_scores(predicted, np.searchsorted(truth.classes, truth.y), truth.weight)


def score_constant(constant: NDArray, truth: Truth) -> Scores:
    """The scores of the same prediction for every row."""
    n_rows = len(truth.y)
    return score(np.full(n_rows, constant[0]) if truth.classes is None else np.tile(constant, (n_rows, 1)), truth)


def _classification_scores(probabilities: NDArray, codes: NDArray, weight: NDArray | None) -> Scores:
    labels = np.arange(probabilities.shape[1])
    clipped = np.clip(probabilities[np.arange(len(codes)), codes], np.finfo(np.float64).eps, None)
    name = "AUC" if len(labels) == 2 else "AUC (one against the rest)"
    return {
        "log loss": float(np.average(-np.log(clipped), weights=weight)),
        name: _area_under_curve(probabilities, codes, weight),
        "accuracy": float(np.average(probabilities.argmax(axis=1) == codes, weights=weight)),
    }


def _area_under_curve(probabilities: NDArray, codes: NDArray, weight: NDArray | None) -> float:
    """The mean over the classes of the area under each one's curve; not a number where a class is absent."""
    n_classes = probabilities.shape[1]
    if len(np.unique(codes)) < n_classes:
        return float("nan")
    compared = [1] if n_classes == 2 else range(n_classes)
    areas = [metrics.roc_auc_score(codes == k, probabilities[:, k], sample_weight=weight) for k in compared]
    return float(np.mean(areas))


def _regression_scores(predicted: NDArray, truth: Truth) -> Scores:
    y, weight = truth.y, truth.weight
    error = predicted - y
    spread = np.average((y - np.average(y, weights=weight)) ** 2, weights=weight)
    squared = np.average(error**2, weights=weight)
    scores = {
        "RMSE": float(np.sqrt(squared)),
        "MAE": float(np.average(np.abs(error), weights=weight)),
        "R²": float(1 - squared / spread) if spread > 0 else float("nan"),
    }
    deviance = DEVIANCES.get(truth.loss or "")
    if deviance is not None and np.all(predicted > 0):
        scores = {f"{truth.loss} deviance": float(deviance(y, predicted, sample_weight=weight)), **scores}
    return scores
