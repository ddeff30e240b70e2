"""Errors of predictions that depend on the row, learned by a forest from rows held out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.combining.folds import Fold, GivenRows, MemberData, make_folds
from fastens.engine.rows.sampling import content_hashes
from fastens.forests.forest_regressor import RandomForestRegressor
from fastens.forests.tree_errors import LEVELS
from fastens.table.parts import as_numbers, beside, take_rows
from fastens.table.sample_weights import IMPORTANCE

Array = NDArray[np.float64]

N_FOLDS = 5
# Binary digits of an error that count; numbers of more steps than this have no digits to leave out.
_DIGITS, _MOST_STEPS = 30, 2.0**52
_COLUMN = "conformalregressor_prediction"


def inner_folds(data: MemberData) -> list[Fold]:
    """Folds of about the same size: of groups where there are some, else of rows, the same ones together."""
    from sklearn.model_selection import GroupKFold

    if data.groups is not None:
        n_folds = min(N_FOLDS, len(np.unique(data.groups)))
        return (
            make_folds(GroupKFold(n_folds), data, GivenRows(np.arange(data.n_rows), data.n_rows)) if n_folds > 1 else []
        )
    fold = content_hashes(as_numbers(data.X), data.y) % np.uint64(N_FOLDS)
    found = [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in np.unique(fold)]
    return found if len(found) > 1 else []


def fit_error_forest(data: MemberData, predicted: Array, seed: int, n_jobs: int | None) -> RandomForestRegressor:
    """A forest of the errors of held-out predictions, (n_rows, 1), by the columns and the prediction.

    Rows without a prediction, NaN, are left out.
    """
    part = data.take(np.flatnonzero(~np.isnan(predicted[:, 0])))
    predicted = predicted[~np.isnan(predicted[:, 0])]
    table, error = _table(predicted, part.X), part.y - predicted[:, 0]
    # A row given twice is one row of weight 2, or it would be out of a bag that holds its copy. Whatever the weights,
    # there are as many draws as rows, which leave some out.
    _, rows, copy_of = np.unique(content_hashes(as_numbers(table), error), return_index=True, return_inverse=True)
    weight = np.bincount(copy_of, part.weight)
    forest = RandomForestRegressor(oob_score=True, weight_type=IMPORTANCE, random_state=seed, n_jobs=n_jobs)
    return forest.fit(take_rows(table, rows), error[rows], weight)


def without_last_digits(predicted: Array, y: Array) -> Array:
    """Predictions, (n_rows, 1), to a billionth of the largest error.

    What other libraries predict depends, in the last digit, on copies of rows and on how the table lies in memory; the
    bags of a forest depend on every digit.
    """
    largest = np.nanmax(np.abs(y[:, None] - predicted))
    step = np.ldexp(float(largest > 0), int(np.frexp(largest)[1]) - _DIGITS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(np.abs(predicted) < step * _MOST_STEPS, np.rint(predicted / step) * step, predicted)


def local_quantiles(forest: RandomForestRegressor, X: Any, predicted: Array) -> Array:
    """Quantiles of the targets of rows with these predictions, (n_rows, 1), at the forest's LEVELS."""
    return predicted + forest.predict_quantiles(_table(predicted, X), LEVELS)


def _table(predicted: Array, X: Any) -> Any:
    return beside(predicted, [_COLUMN], X)
