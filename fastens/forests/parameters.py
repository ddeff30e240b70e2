"""The parameters that single trees and forests share, their rules and descriptions, and the limits of growth."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from fastens.checked_parameters import with_parameters
from fastens.engine.forest.forests import TreeRules
from fastens.engine.grow.constraints import count_of
from fastens.options import Categories
from fastens.parameters import ANYTHING, NONE, Rule, instance, one_of, real, whole
from fastens.tree_model.column_rules import CONSTRAINTS, column_chances, monotone_columns, path_rules

_PART = real(0, 1, open_low=True)
SHARE = Rule(
    "a share above 0 and at most 1", lambda value: not isinstance(value, numbers.Integral) and _PART.holds(value)
)
CATEGORIES = NONE | Rule(
    "Categories with an encoding and missing alone",
    lambda value: isinstance(value, Categories) and value == Categories(value.encoding, value.missing),
)
RANDOM_STATE = whole(0, 2**32 - 1) | instance(np.random.RandomState, "a numpy.random.RandomState") | NONE
# Of trees that are not pruned, nor constrained to be monotonic.
TREE_RULES: dict[str, Rule] = {
    "max_depth": whole(1) | NONE,
    "max_leaf_nodes": whole(2) | NONE,
    "min_samples_split": whole(2) | SHARE,
    "min_samples_leaf": whole(1) | real(0, 1, open_low=True, open_high=True),
    "min_weight_fraction_leaf": real(0, 0.5),
    "min_impurity_decrease": real(0),
    "max_features": whole(1) | SHARE | one_of("sqrt", "log2", None),
    "interaction_cst": CONSTRAINTS["interaction_cst"],
    "feature_weights": ANYTHING,
    "max_bins": whole(2, 65_535),
    "categorical_features": ANYTHING,
    "random_state": RANDOM_STATE,
    "n_jobs": ANYTHING,
}
RULES = {**TREE_RULES, **CONSTRAINTS, "ccp_alpha": real(0), "categories": CATEGORIES}
CLASS_RULES = {"criterion": one_of("gini", "entropy", "log_loss"), "class_weight": ANYTHING}
NUMBER_RULES = {"criterion": one_of("squared_error", "absolute_error", "poisson")}
SPLITTER = {"splitter": one_of("best", "random")}


@with_parameters
class TreeParameters:
    """The parameters that single trees and forests share."""

    criterion: str = "squared_error"
    max_depth: int | None = None
    min_samples_split: int | float = 2
    min_samples_leaf: int | float = 1
    min_weight_fraction_leaf: float = 0.0
    max_features: int | float | str | None = None
    max_leaf_nodes: int | None = None
    min_impurity_decrease: float = 0.0
    interaction_cst: Any = None
    feature_weights: Any = None
    categorical_features: Any = "from_dtype"
    max_bins: int = 255
    random_state: Any = None
    n_jobs: int | None = None


def tree_rules(model: Any, n_rows: int, total_weight: float) -> TreeRules:
    """The limits of growth that the parameters of a model set, for rows of a given total weight."""
    signs = monotone_columns(model)
    if signs is not None and model._n_outputs() > 1:
        raise ValueError(f"monotonic_cst must be None with several targets; got {model.monotonic_cst!r}.")
    return TreeRules(
        criterion=model.criterion,
        max_depth=model.max_depth,
        max_leaf_nodes=model.max_leaf_nodes,
        min_samples_split=max(2, _count(model.min_samples_split, n_rows)),
        min_samples_leaf=_count(model.min_samples_leaf, n_rows),
        min_weight_leaf=model.min_weight_fraction_leaf * total_weight,
        min_impurity_decrease=model.min_impurity_decrease,
        features_per_split=features_per_split(model),
        random_thresholds=model._has_random_thresholds,
        monotone=signs,
        feature_weights=column_chances(model),
        **path_rules(model),
    )


def features_per_split(model: Any) -> int | None:
    """The number of features drawn for each split; None for all."""
    n_features = len(model._column_of)
    count = count_of(model.max_features, n_features)
    return None if count == n_features else count


def _count(wanted: Any, n_rows: int) -> int:
    """A number of rows, or the number that a share of them is."""
    return int(wanted) if isinstance(wanted, numbers.Integral) else max(1, math.ceil(wanted * n_rows))
