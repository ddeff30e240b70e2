"""What the parameters of trees say of columns, as rules of growth on the columns that trees see."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.constraints import Columns, feature_chances, interaction_groups, monotone_signs
from fastens.parameters import ANYTHING, Rule

CONSTRAINTS: dict[str, Rule] = {"monotonic_cst": ANYTHING, "interaction_cst": ANYTHING}


def check_no_constraints(model: Any) -> None:
    """Raise ValueError for constraints beside an `estimator`, which knows nothing of them."""
    for name in CONSTRAINTS if model.estimator is not None else ():
        if getattr(model, name) is not None:
            raise ValueError(f"{name} must be None with an estimator, which has its own; got {getattr(model, name)!r}.")


def monotone_columns(model: Any) -> NDArray[np.int8] | None:
    """1 where the prediction must not fall with a column, -1 where it must not rise, 0 elsewhere; None: no such column.

    Raises
    ------
    ValueError
        With more than two classes.
    """
    signs = monotone_signs(model.monotonic_cst, _columns(model), model._encoder.is_categorical)
    if signs is None:
        return None
    classes = getattr(model, "classes_", [])
    if max(map(len, classes if isinstance(classes, list) else [classes]), default=0) > 2:
        raise ValueError("monotonic_cst must be None with more than two classes: each class has scores of its own.")
    return signs[model._column_of]


def path_rules(model: Any) -> dict[str, Any]:
    """Which columns may stand on one path, as rules of both engines."""
    max_on_path, groups = interaction_groups(model.interaction_cst, _columns(model))
    return {
        "max_features_on_path": max_on_path,
        "feature_groups": None if groups is None else groups[:, model._column_of],
    }


def column_chances(model: Any) -> NDArray[np.float64] | None:
    """The chances of columns where some are drawn."""
    chances = feature_chances(model.feature_weights, _columns(model))
    return None if chances is None else chances[model._column_of]


def _columns(model: Any) -> Columns:
    encoder = model._encoder
    return Columns(model.n_features_in_, encoder.names, only_by_name=encoder.has_date_parts)
