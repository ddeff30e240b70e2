"""Conformal calibration of boosted trees on held-out rows: errors for regression, scores for classification."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from fastens.boosting.fit_arguments import with_offset
from fastens.conformal.scores import (
    SET_SCORES,
    Conditions,
    FoldQuantiles,
    HeldOut,
    RowConditions,
    SetScore,
    calibrated_sets,
)
from fastens.engine.losses.column_losses import losses_of_targets
from fastens.engine.threads import resolve_n_jobs
from fastens.monitoring.callbacks import levels_of, predicts_distribution
from fastens.params.rules import one_of
from fastens.table.columns.numbers import unmasked
from fastens.table.opening import split_columns
from fastens.table.parts import drop_zero_weight_rows
from fastens.table.training_data import check_same_rows, check_weights, weights_to_count

Array = NDArray[np.float64]

PREFIX = "calibration."
CONFORMITY = one_of(*SET_SCORES)


class RowArguments(NamedTuple):
    """A table, and the arguments of `conformalize` or of a prediction method that hold a value for each row."""

    X: Any
    init_score: Any = None
    group: Any = None
    likelihood_ratio: Any = None

    def split(self, model: Any, column: str | None = None) -> RowArguments:
        """Return the rows with the values of the group column, if `group`, or else `column`, names a column of X.

        X then keeps this column only if it is a feature of the model. Without a name, the rows are unchanged.
        """
        group = column if self.group is None else self.group
        if not isinstance(group, str):
            return self
        rest, group_values = split_columns(self.X, group=group)
        is_feature = group in getattr(model, "feature_names_in_", ())
        return self._replace(X=self.X if is_feature else rest, group=group_values)


@dataclass(frozen=True)
class IntervalCalibration:
    """Calibration errors of a regressor, for each target."""

    errors: list[HeldOut]
    conditions: Conditions

    @classmethod
    def learn(cls, model: Any, rows: RowArguments, y: Any, sample_weight: Any) -> IntervalCalibration:
        """Return the scaled errors of a fitted model's predictions on held-out rows, with targets `y` and weights."""
        rows, y, sample_weight, conditions, held = _checked_rows(model, rows, y, sample_weight)
        predicted = _predicted_targets(model, rows.X, rows.init_score)
        n_rows = len(predicted[0])
        targets, weight = _encoded_targets(model, y, n_rows), _effective_weights(model, sample_weight, held, n_rows)
        parts = zip(predicted, targets, losses_of_targets(model._loss), strict=True)
        errors = [
            HeldOut.errors(predictions, target, loss.deviation(predictions), weight, group=held.group)
            for predictions, target, loss in parts
        ]
        return cls(errors, conditions)

    def predict(self, model: Any, rows: RowArguments, coverage: float) -> Array:
        """Return intervals that contain new targets with probability `coverage`, (n_rows, 2).

        With several targets, the shape is (n_rows, n_targets, 2).
        """
        rows = rows.split(model, self.conditions.column)
        predicted, levels = _predicted_targets(model, rows.X, rows.init_score), levels_of(model)
        new = self.conditions.of_rows(rows.X, len(predicted[0]), rows.group, rows.likelihood_ratio)
        intervals, n_threads = [], resolve_n_jobs(model.n_jobs)
        for errors, predictions, loss in zip(self.errors, predicted, losses_of_targets(model._loss), strict=True):
            quantiles = FoldQuantiles([predictions], [loss.deviation(predictions)], levels)
            ends = quantiles.intervals([errors], self.conditions, new, (coverage, coverage), n_threads)
            intervals.append(np.clip(ends, *loss.bounds))
        return intervals[0] if len(intervals) == 1 else np.stack(intervals, axis=1)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the errors, the group labels and other conditions as arrays to save."""
        arrays: dict[str, np.ndarray] = self.conditions.to_arrays(PREFIX)
        for target, errors in enumerate(self.errors):
            arrays |= errors.to_arrays(f"{PREFIX}{target}.")
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_targets: int) -> IntervalCalibration:
        """Return the calibration from the arrays of `to_arrays`; raise ValueError if they are malformed."""
        return cls(*_read_held_out(arrays, n_targets))


@dataclass(frozen=True)
class SetCalibration:
    """Conformity scores of the probabilities of a classifier, for each target."""

    score: SetScore
    held_out: list[HeldOut]
    conditions: Conditions

    @classmethod
    def learn(cls, model: Any, rows: RowArguments, y: Any, sample_weight: Any, conformity: str) -> SetCalibration:
        """Return the conformity scores of kind `conformity`, such as "aps", of a fitted classifier on held-out rows."""
        rows, y, sample_weight, conditions, held = _checked_rows(model, rows, y, sample_weight)
        probabilities, score = _predicted_probabilities(model, rows.X, rows.init_score), SetScore(conformity)
        n_rows = len(probabilities[0])
        targets, weight = _encoded_targets(model, y, n_rows), _effective_weights(model, sample_weight, held, n_rows)
        pairs = zip(probabilities, targets, strict=True)
        held_out_scores = [
            HeldOut(score.of_labels(probability, target)[:, None], weight, held.group) for probability, target in pairs
        ]
        return cls(score, held_out_scores, conditions)

    def predict(self, model: Any, rows: RowArguments, coverage: float) -> Any:
        """Return masks of the classes in each row's prediction set, (n_rows, n_classes); a list with several targets.

        The sets contain the true class with probability `coverage`.
        """
        rows = rows.split(model, self.conditions.column)
        probabilities = _predicted_probabilities(model, rows.X, rows.init_score)
        new = self.conditions.of_rows(rows.X, len(probabilities[0]), rows.group, rows.likelihood_ratio)
        prediction_sets = [
            calibrated_sets([scores], [self.score.of(probability)], self.conditions, new, (coverage, coverage))
            for scores, probability in zip(self.held_out, probabilities, strict=True)
        ]
        return prediction_sets if len(prediction_sets) > 1 else prediction_sets[0]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the held-out scores, their type, and the calibration's groups or covariate shift as arrays to save."""
        arrays = {f"{PREFIX}conformity": np.array(SET_SCORES.index(self.score.name))}
        for target, scores in enumerate(self.held_out):
            arrays |= scores.to_arrays(f"{PREFIX}{target}.")
        return arrays | self.conditions.to_arrays(PREFIX)

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], n_targets: int) -> SetCalibration:
        """Return the calibration from the arrays of `to_arrays`; raise ValueError if they are malformed."""
        held_out_scores, conditions = _read_held_out(arrays, n_targets)
        if any(held.label is not None or held.values.shape[1] != 1 for held in held_out_scores):
            raise ValueError("the calibration scores are malformed")
        return cls(SetScore(SET_SCORES[int(arrays[f"{PREFIX}conformity"])]), held_out_scores, conditions)


def _read_held_out(arrays: dict[str, np.ndarray], n_targets: int) -> tuple[list[HeldOut], Conditions]:
    """Return each target's held-out scores, and what calibration is conditional on, from saved arrays.

    Raise ValueError if the arrays are malformed.
    """
    conditions = Conditions.from_arrays(PREFIX, arrays)
    held_out = [HeldOut.from_arrays(f"{PREFIX}{target}.", arrays) for target in range(n_targets)]
    if any((held.group is None) != (conditions.labels is None) for held in held_out):
        raise ValueError("the groups to calibrate by are malformed")
    return held_out, conditions


def _checked_rows(
    model: Any, rows: RowArguments, y: Any, sample_weight: Any
) -> tuple[RowArguments, Any, Any, Conditions, RowConditions]:
    """Return the arguments of `conformalize` without rows of weight 0, and the conditions of the calibration.

    The result has the rows, their targets and weights, the conditions of the model's calibration (group labels and
    column, and whether there are likelihood ratios), and each row's group and likelihood ratio.
    """
    model._check_target_given(y)
    column, rows = rows.group if isinstance(rows.group, str) else None, rows.split(model)
    of_rows = {}
    for name in ("init_score", "group", "likelihood_ratio"):
        if (value := getattr(rows, name)) is not None:
            of_rows[name], *_ = drop_zero_weight_rows(unmasked(value, name), y, sample_weight)
    X, y, sample_weight = drop_zero_weight_rows(rows.X, y, sample_weight)
    conditions, held = Conditions.learn(X, len(y), of_rows.get("group"), of_rows.get("likelihood_ratio"))
    rows = RowArguments(X, of_rows.get("init_score"))
    return rows, y, sample_weight, replace(conditions, column=column), held


def _effective_weights(model: Any, sample_weight: Any, held: RowConditions, n_rows: int) -> Array:
    """Return row weights times the likelihood ratios in `held`, (n_rows,).

    The weights have a mean of 1, unless they are numbers of copies by the model's `weight_type`.
    """
    weight = check_weights(sample_weight, n_rows)
    counted = weights_to_count(weight, model.weight_type, has_unit_mean=True, is_fit=False)
    ratio = np.ones(n_rows) if held.ratio is None else held.ratio
    return ratio if counted is None else counted * ratio


def calibration_of(model: Any, method: str, wrapper: str) -> Any:
    """Return a fitted model's calibration; raise NotFittedError if `conformalize` was not called.

    The error says that `method` needs it, and that the class named `wrapper` calibrates by itself.
    """
    model._check_fitted()
    if model._calibration is None:
        raise NotFittedError(
            f"{method} requires a model that was calibrated on rows that were not used in fit. Call conformalize(X, "
            f"y) with such rows first, or fit a {wrapper}({type(model).__name__}(...)), which holds out "
            "calibration rows itself."
        )
    return model._calibration


def _encoded_targets(model: Any, y: Any, n_rows: int) -> list[Array]:
    """Return the encoded targets, an array (n_rows,) for each target; raise ValueError unless y has `n_rows` rows."""
    target = model._encode_target(model._read_target(y))
    check_same_rows(n_rows, len(target))
    return list(target.reshape(n_rows, -1).T)


def _predicted_targets(model: Any, X: Any, init_score: Any) -> list[Array]:
    """Return each target's predictions, (n_rows, n_quantiles); a distribution is replaced by its quantiles."""
    method = model._calibrated_quantiles if predicts_distribution(model) else model.predict
    predicted = with_offset(method, X, init_score)
    return list(np.ascontiguousarray(predicted.reshape(len(predicted), model._n_targets, -1).swapaxes(0, 1)))


def _predicted_probabilities(model: Any, X: Any, init_score: Any) -> list[Array]:
    """Return the class probabilities of each target, an array (n_rows, n_classes) for each."""
    probabilities = with_offset(model.predict_proba, X, init_score)
    return probabilities if isinstance(probabilities, list) else [probabilities]
