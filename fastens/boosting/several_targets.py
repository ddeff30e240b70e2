"""The losses of several targets at once, and gradient boosting in its plain form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from fastens.engine.losses.column_losses import ColumnLosses
from fastens.engine.losses.least_squares import LeastSquares
from fastens.engine.losses.losses import Loss

# Gradient boosting without what was added to it since: every split that helps, nothing that shrinks or smooths.
PLAIN: dict[str, Any] = {
    "split_criterion": "squared_error",
    "max_leaf_nodes": None,
    "max_depth": 3,
    "min_samples_leaf": 1,
    "min_child_weight": 0.0,
    "l2_regularization": 0.0,
    "split_penalty": 0.0,
    "categorical_encoding": "partition",
    "category_smoothing": 0.0,
    "category_l2": 0.0,
}


def check_n_targets(model: Any, y: NDArray[Any]) -> None:
    """Raise ValueError unless `y` has as many targets as in fit."""
    n_targets = 1 if y.ndim == 1 else y.shape[1]
    if n_targets != model._n_targets:
        raise ValueError(f"y must have as many targets as in fit, {model._n_targets}; got {n_targets}.")


def loss_of_targets(model: Any, parts: Sequence[Loss]) -> Loss:
    """The loss of all targets, given that of each."""
    if model.split_criterion == "squared_error":
        l2 = model.l2_regularization
        parts = [part if part.renews_leaves else LeastSquares(part, l2) for part in parts]
    return parts[0] if len(parts) == 1 else ColumnLosses(parts)
