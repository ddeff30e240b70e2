"""Constraints on the columns of X as limits of growth on the columns that trees see."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.grow.constraints import Columns, count_of, feature_chances, interaction_groups, monotone_signs
from fastens.options import Categories
from fastens.parameters import NONE, Rule, read_with
from fastens.saving import plain_parameter

# The parameters of trees that an `estimator` given in their place has of its own.
OF_OWN_TREES = dict.fromkeys(("max_depth", "max_bins"), read_with("estimator", None))
CONSTRAINTS = ("monotonic_cst", "interaction_cst")
# What a fit that goes on must not change.
_KEPT = (*CONSTRAINTS, "feature_weights", "max_bins", "categorical_features", "categories")
CATEGORIES = NONE | Rule(
    "Categories with an encoding, missing and unseen alone",
    lambda value: isinstance(value, Categories) and value == Categories(value.encoding, value.missing, value.unseen),
)


def check_no_constraints(model: Any) -> None:
    """Raise ValueError for constraints beside an `estimator`, which knows nothing of them."""
    for name in CONSTRAINTS if model.estimator is not None else ():
        if getattr(model, name) is not None:
            raise ValueError(f"{name} must be None with an estimator, which has its own; got {getattr(model, name)!r}.")


def monotone_columns(model: Any) -> NDArray[np.int8] | None:
    """1 where predictions must not fall with a column, -1 where they must not rise, else 0; None: no constraint."""
    signs = monotone_signs(getattr(model, "monotonic_cst", None), _columns(model), model._encoder.is_categorical)
    if signs is None:
        return None
    for column, _ in model._encoder.date_parts:
        if signs[column]:
            raise ValueError(
                f"monotonic_cst must be 0 for dates of a BinnedTable, which are split into parts; column "
                f"{model._encoder.texts[column]!r} is one. Pass the table itself."
            )
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


def column_chances(model: Any, *, up: bool = False) -> NDArray[np.float64] | None:
    """The chances of columns where some are drawn; ValueError where all are, so that they would not matter.

    `up`: shares of columns are rounded up.
    """
    chances = feature_chances(model.feature_weights, _columns(model))
    if chances is None:
        return None
    n_features = len(model._column_of)
    wanted = [getattr(model, name, None) for name in ("max_features", "max_features_per_tree")]
    if 0 < chances.min() < chances.max() and min(count_of(each, n_features, up=up) for each in wanted) == n_features:
        raise ValueError(
            f"feature_weights are chances of columns that are drawn, and max_features={wanted[0]!r} draws none of the "
            f"{n_features}; set it below, or weights of 0 for columns to leave out; got {model.feature_weights!r}."
        )
    return chances[model._column_of]


def obeyed(model: Any) -> dict[str, Any]:
    """What all trees of a fitted model obey of the columns, by parameter; equal values are the same rule."""
    columns = _columns(model)
    signs = monotone_signs(getattr(model, "monotonic_cst", None), columns, model._encoder.is_categorical)
    on_path, groups = interaction_groups(getattr(model, "interaction_cst", None), columns)
    chances = feature_chances(getattr(model, "feature_weights", None), columns)
    return {
        "monotonic_cst": None if signs is None else signs.tolist(),
        "interaction_cst": (on_path, None if groups is None else sorted(groups[groups.any(axis=1)].tolist())),
        "feature_weights": [] if chances is None else np.flatnonzero(chances == 0).tolist(),  # columns in no tree
    }


def check_same_rules(model: Any) -> None:
    """Raise ValueError where a fit with warm_start=True would add trees that obey or see other rules of the columns."""
    last = copy(model)
    vars(last).update(getattr(model, "_parameters_before", {}))
    given = {name: (getattr(last, name), getattr(model, name)) for name in _KEPT if hasattr(model, name)}
    if "categories" in given:
        of_last, of_now = last._category_options().encoding, model._category_options().encoding
        given["categories.encoding"] = of_last, of_now
        del given["categories"]
    rules = obeyed(last), obeyed(model)
    for name, (was, now) in given.items():
        one, other = (own[name] for own in rules) if name in rules[0] else map(plain_parameter, (was, now))
        if one != other:
            raise ValueError(
                f"{name} must be as in the last fit, {was!r}, with warm_start=True, because the trees of that fit "
                f"stay; got {now!r}. Use warm_start=False to grow all trees anew."
            )


def _columns(model: Any) -> Columns:
    encoder = model._encoder
    return Columns(model.n_features_in_, encoder.names)
