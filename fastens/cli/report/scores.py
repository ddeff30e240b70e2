"""How good predictions are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import metrics

from fastens.cli.table.errors import listed

Scores = dict[str, float]
DEVIANCES: dict[str, Callable[..., float]] = {
    "poisson": metrics.mean_poisson_deviance,
    "gamma": metrics.mean_gamma_deviance,
}
# Losses that are about the middle of what may come, not its mean.
MEDIAN_LOSSES = ("absolute_error", "quantile", "pinball")


@dataclass(frozen=True)
class Truth:
    """The true values of some rows; for classes also all classes in order, for numbers also the loss minimised."""

    y: NDArray
    weight: NDArray | None
    classes: NDArray | None
    loss: str | None

    @property
    def codes(self) -> NDArray[np.intp]:
        """Where the true classes stand among all classes."""
        assert self.classes is not None
        return np.searchsorted(self.classes, self.y)

    @property
    def loss_name(self) -> str:
        """The score that a model of this loss is judged by; lower is better."""
        if self.classes is not None:
            return "log loss"
        return "MAE" if self.loss in MEDIAN_LOSSES else "RMSE"

    def take(self, rows: NDArray) -> Truth:
        """Some of the rows."""
        return Truth(self.y[rows], None if self.weight is None else self.weight[rows], self.classes, self.loss)


def constant_prediction(y: NDArray, weight: NDArray | None, classes: NDArray | None) -> NDArray[np.float64]:
    """The best prediction that knows no column: the share of each class, or the mean."""
    if classes is None:
        return np.array([np.average(y, weights=weight)])
    return np.array([np.average(y == label, weights=weight) for label in classes])


def score(predicted: NDArray, truth: Truth) -> Scores:
    """Scores by name: of probabilities, one column per class, where there are classes; else of predicted values."""
    if truth.classes is None:
        return _regression_scores(predicted, truth)
    return _classification_scores(predicted, truth.codes, truth.weight)


def row_losses(predicted: NDArray, truth: Truth) -> NDArray[np.float64]:
    """Each row's part in the score that `Truth.loss_name` names; that of the RMSE is squared."""
    if truth.classes is not None:
        return _log_losses(predicted, truth.codes)
    error = np.abs(predicted - truth.y)
    return error if truth.loss_name == "MAE" else error**2


def mean_loss(predicted: NDArray, truth: Truth) -> float:
    """The score that `Truth.loss_name` names."""
    mean = float(np.average(row_losses(predicted, truth), weights=truth.weight))
    return mean**0.5 if truth.loss_name == "RMSE" else mean


def score_constant(constant: NDArray, truth: Truth) -> Scores:
    """The scores of the same prediction for every row."""
    n_rows = len(truth.y)
    return score(np.full(n_rows, constant[0]) if truth.classes is None else np.tile(constant, (n_rows, 1)), truth)


def _classification_scores(probabilities: NDArray, codes: NDArray, weight: NDArray | None) -> Scores:
    labels = np.arange(probabilities.shape[1])
    name = "AUC" if len(labels) == 2 else "AUC (one against the rest)"
    return {
        "log loss": float(np.average(_log_losses(probabilities, codes), weights=weight)),
        name: _area_under_curve(probabilities, codes, weight),
        "accuracy": float(np.average(probabilities.argmax(axis=1) == codes, weights=weight)),
    }


def _log_losses(probabilities: NDArray, codes: NDArray) -> NDArray[np.float64]:
    return -np.log(np.clip(probabilities[np.arange(len(codes)), codes], np.finfo(np.float64).eps, None))


def _area_under_curve(probabilities: NDArray, codes: NDArray, weight: NDArray | None) -> float:
    """The mean area under the curves of the classes that have rows; not a number where only one has any."""
    n_classes = probabilities.shape[1]
    present = np.unique(codes)
    if len(present) < 2:
        return float("nan")
    compared = [1] if n_classes == 2 else present
    areas = [metrics.roc_auc_score(codes == k, probabilities[:, k], sample_weight=weight) for k in compared]
    return float(np.mean(areas))


def area_notes(truth: Truth) -> list[str]:
    """Why there is no AUC, or which classes it leaves out."""
    if truth.classes is None:
        return []
    present = np.unique(truth.codes)
    if len(present) < 2:
        only = listed([str(truth.classes[k]) for k in present])
        return [f"There is no AUC, as all rows scored are of one class, {only}."]
    absent = [str(label) for label in np.delete(truth.classes, present)]
    if not absent:
        return []
    return [f"The AUC is the mean of the classes that have rows among those scored; these have none: {listed(absent)}."]


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
    is_defined = np.all(predicted > 0) and np.all(y > 0 if truth.loss == "gamma" else y >= 0)
    if deviance is not None and is_defined:
        scores = {f"{truth.loss} deviance": float(deviance(y, predicted, sample_weight=weight)), **scores}
    return scores
