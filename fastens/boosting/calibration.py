"""Conformal calibration of boosted trees on held-out rows: errors for regression, scores for classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fastens.boosting.fit_arguments import with_offset
from fastens.conformal.scores import (
    SET_SCORES,
    Errors,
    SetScore,
    SetScores,
    intervals,
    nearest_columns,
    sets,
)
from fastens.engine.losses.column_losses import losses_of_targets
from fastens.engine.losses.losses import Loss
from fastens.engine.threads import resolve_n_jobs
from fastens.monitoring.callbacks import levels_of, predicts_distribution
from fastens.params.rules import one_of
from fastens.table.columns.numbers import unmasked
from fastens.table.parts import drop_zero_weight_rows
from fastens.table.training_data import check_same_rows, check_weights, weights_to_count

Array = NDArray[np.float64]

PREFIX = "calibration."
CONFORMITY = one_of(*SET_SCORES)


@dataclass(frozen=True)
class IntervalCalibration:
    """Calibration errors of a regressor, for each target."""

    errors: list[Errors]

    @classmethod
    def learn(cls, model: Any, rows: tuple[Any, Any, Any], init_score: Any) -> IntervalCalibration:
        """Learn from a table, its targets and weights."""
        X, y, sample_weight, init_score = _present(*rows, init_score)
        predicted = _predicted_targets(model, X, init_score)
        n_rows = len(predicted[0])
        targets, weight = _encoded_targets(model, y, n_rows), _counted(model, sample_weight, n_rows)
        parts = zip(predicted, targets, losses_of_targets(model._loss), strict=True)
        return cls([Errors.of(own, target, loss.deviation(own), weight) for own, target, loss in parts])

    def predict(self, model: Any, X: Any, init_score: Any, coverage: float) -> Array:
        """Return the intervals, (n_rows, 2), or (n_rows, n_targets, 2) with several targets."""
        parts = zip(self.errors, _predicted_targets(model, X, init_score), losses_of_targets(model._loss), strict=True)
        found = [_intervals(model, own, predicted, loss, coverage) for own, predicted, loss in parts]
        return found[0] if len(found) == 1 else np.stack(found, axis=1)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the state as named arrays."""
        found: dict[str, np.ndarray] = {}
        for target, errors in enumerate(self.errors):
            found |= errors.to_arrays(f"{PREFIX}{target}.")
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_targets: int) -> IntervalCalibration:
        """Restore the calibration from the arrays of `to_arrays`."""
        return cls([Errors.from_arrays(f"{PREFIX}{target}.", arrays) for target in range(n_targets)])


@dataclass(frozen=True)
class SetCalibration:
    """Conformity scores of the probabilities of a classifier, for each target."""

    score: SetScore
    known: list[SetScores]

    @classmethod
    def learn(cls, model: Any, rows: tuple[Any, Any, Any], init_score: Any, conformity: str) -> SetCalibration:
        """Learn from a table, its targets and weights."""
        X, y, sample_weight, init_score = _present(*rows, init_score)
        probabilities, score = _predicted_probabilities(model, X, init_score), SetScore(conformity)
        n_rows = len(probabilities[0])
        targets, weight = _encoded_targets(model, y, n_rows), _counted(model, sample_weight, n_rows)
        pairs = zip(probabilities, targets, strict=True)
        return cls(score, [SetScores.of(score.of_labels(own, target), weight) for own, target in pairs])

    def predict(self, model: Any, X: Any, init_score: Any, coverage: float) -> Any:
        """Return the prediction sets as booleans, (n_rows, n_classes), or a list of them with several targets."""
        parts = zip(self.known, _predicted_probabilities(model, X, init_score), strict=True)
        found = [sets([own], [self.score.of(probability)], coverage) for own, probability in parts]
        return found if len(found) > 1 else found[0]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the state as named arrays."""
        found = {f"{PREFIX}conformity": np.array(SET_SCORES.index(self.score.name))}
        for target, scores in enumerate(self.known):
            found |= scores.to_arrays(f"{PREFIX}{target}.")
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_targets: int) -> SetCalibration:
        """Restore the calibration from the arrays of `to_arrays`."""
        name = SET_SCORES[int(arrays[f"{PREFIX}conformity"])]
        known = [SetScores.from_arrays(f"{PREFIX}{target}.", arrays) for target in range(n_targets)]
        if any(len(scores.groups) != 1 for scores in known):
            raise ValueError("the scores to calibrate by are malformed")
        return cls(SetScore(name), known)


def _present(X: Any, y: Any, sample_weight: Any, init_score: Any) -> tuple[Any, Any, Any, Any]:
    """Return the rows with a positive weight."""
    if init_score is not None:
        init_score, *_ = drop_zero_weight_rows(unmasked(init_score, "init_score"), y, sample_weight)
    return *drop_zero_weight_rows(X, y, sample_weight), init_score


def _counted(model: Any, sample_weight: Any, n_rows: int) -> Array | None:
    """Return the weights as `fit` counts them, scaled to a mean of 1 unless they are copies."""
    weight = check_weights(sample_weight, n_rows)
    return weights_to_count(weight, model.weight_type, has_unit_mean=True, is_fit=False)


def calibration_of(model: Any, method: str, wrapper: str) -> Any:
    """Return the calibration of a fitted model; raise NotFittedError if it has none."""
    model._check_fitted()
    if model._calibration is None:
        raise NotFittedError(
            f"{method} needs rows that fit has not seen: give them to conformalize(X, y) first, or fit a {wrapper}"
            f"({type(model).__name__}(...)), which keeps some of its rows for that."
        )
    return model._calibration


def _encoded_targets(model: Any, y: Any, n_rows: int) -> list[Array]:
    """Return the encoded targets as a list with one array per target."""
    target = model._encode_target(model._read_target(y))
    check_same_rows(n_rows, len(target))
    return list(target.reshape(n_rows, -1).T)


def _predicted_targets(model: Any, X: Any, init_score: Any) -> list[Array]:
    """Return the predictions for each target, (n_rows, n_quantiles), even with a single quantile."""
    method = model._calibrated_quantiles if predicts_distribution(model) else model.predict
    predicted = with_offset(method, X, init_score)
    return list(np.ascontiguousarray(predicted.reshape(len(predicted), model._n_targets, -1).swapaxes(0, 1)))


def _predicted_probabilities(model: Any, X: Any, init_score: Any) -> list[Array]:
    """Return the class probabilities for each target."""
    found = with_offset(model.predict_proba, X, init_score)
    return found if isinstance(found, list) else [found]


def _intervals(model: Any, errors: Errors, predicted: Array, loss: Loss, coverage: float) -> Array:
    columns = nearest_columns(levels_of(model), predicted.shape[1], coverage)
    scale, n_threads = loss.deviation(predicted), resolve_n_jobs(model.n_jobs)
    found = intervals([errors.scores(columns)], [predicted], [scale], columns, coverage, n_threads)
    return np.clip(found, *loss.bounds)
