"""The parameters that single trees and forests share, their rules and descriptions, and the limits of growth."""

from __future__ import annotations

import math
import numbers
from typing import Any

from fastens.checked_parameters import with_parameters
from fastens.engine.forest.forests import TreeRules
from fastens.engine.grow.constraints import count_of
from fastens.parameters import ANYTHING, NONE, RANDOM_STATE, Rule, one_of, parameter, real, whole
from fastens.table.sample_weights import WEIGHT_TYPE
from fastens.tree_model.column_rules import column_chances, monotone_columns, path_rules
from fastens.warn import warn

_PART = real(0, 1, open_low=True)
SHARE = Rule(
    "a share above 0 and at most 1", lambda value: not isinstance(value, numbers.Integral) and _PART.holds(value)
)
NUMBER_OF_FEATURES = whole(1) | SHARE | one_of("sqrt", "log2", None)
MIN_SAMPLES_SPLIT, MIN_WEIGHT = whole(2) | SHARE, real(0, 0.5)
MIN_SAMPLES_LEAF = whole(1) | real(0, 1, open_low=True, open_high=True)
CLASS_CRITERION = one_of("gini", "entropy", "log_loss")
# scikit-learn has retired its other name for the squared error.
_FRIEDMAN = "friedman_mse"
NUMBER_CRITERION = one_of("squared_error", "absolute_error", "poisson", _FRIEDMAN)


@with_parameters
class TreeParameters:
    """The parameters that single trees and forests share."""

    criterion: str = parameter(NUMBER_CRITERION, default="squared_error")
    max_depth: int | None = parameter(whole(1) | NONE, default=None)
    min_samples_split: int | float = parameter(MIN_SAMPLES_SPLIT, default=2)
    min_samples_leaf: int | float = parameter(MIN_SAMPLES_LEAF, default=1)
    min_weight_fraction_leaf: float = parameter(MIN_WEIGHT, default=0.0)
    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=None)
    max_leaf_nodes: int | None = parameter(whole(2) | NONE, default=None)
    min_impurity_decrease: float = parameter(real(0), default=0.0)
    interaction_cst: Any = parameter(ANYTHING, default=None)
    feature_weights: Any = parameter(ANYTHING, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    categorical_features: Any = parameter(ANYTHING, default="from_dtype")
    max_bins: int = parameter(whole(2, 65_535), default=255)
    random_state: Any = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)


def takes_equals_at_random(tree: Any) -> bool:
    """Whether a single tree takes any of equal splits: with a seed, and a number or share of features to draw."""
    return tree._has_random_thresholds or (tree.random_state is not None and tree.max_features is not None)


def tree_rules(model: Any, n_rows: int, total_weight: float, *, in_random_order: bool) -> TreeRules:
    """The limits of growth that the parameters of a model set, for rows of a given total weight.

    `in_random_order`: features are drawn also where all are looked at, so that any of equal splits may be taken.
    """
    signs = monotone_columns(model)
    if signs is not None and model._n_outputs() > 1:
        raise ValueError(f"monotonic_cst must be None with several targets; got {model.monotonic_cst!r}.")
    drawn = features_per_split(model)
    return TreeRules(
        criterion=criterion_of(model),
        max_depth=model.max_depth,
        max_leaf_nodes=model.max_leaf_nodes,
        min_samples_split=max(2, n_of_rows(model.min_samples_split, n_rows)),
        min_samples_leaf=n_of_rows(model.min_samples_leaf, n_rows),
        min_weight_leaf=model.min_weight_fraction_leaf * total_weight,
        min_impurity_decrease=model.min_impurity_decrease,
        features_per_split=len(model._column_of) if drawn is None and in_random_order else drawn,
        random_thresholds=model._has_random_thresholds,
        monotone=signs,
        feature_weights=column_chances(model),
        **path_rules(model),
    )


def criterion_of(model: Any) -> str:
    """The criterion that trees are grown by."""
    if model.criterion != _FRIEDMAN:
        return model.criterion
    warn("criterion='friedman_mse' is 'squared_error', which takes its place in scikit-learn too.", FutureWarning)
    return "squared_error"


def features_per_split(model: Any) -> int | None:
    """The number of features drawn for each split; None for all."""
    n_features = len(model._column_of)
    count = count_of(model.max_features, n_features)
    return None if count == n_features else count


def n_of_rows(wanted: Any, n_rows: int) -> int:
    """A number of rows, or the number that a share of them is."""
    return int(wanted) if isinstance(wanted, numbers.Integral) else max(1, math.ceil(wanted * n_rows))


def check_drawing(bootstrap: Any, max_samples: Any, oob_score: Any) -> None:
    """Raise ValueError for parameters that only make sense where rows are drawn."""
    if bootstrap:
        return
    if max_samples is not None:
        raise ValueError(f"max_samples must be None without bootstrap; got {max_samples!r}.")
    if oob_score:
        raise ValueError("oob_score must be False without bootstrap, which leaves no row out of a bag; got True.")


def check_same_drawing(bootstrap: Any, of_last_fit: Any) -> None:
    """Raise ValueError where trees on drawn rows and trees on all would make one forest."""
    if bool(bootstrap) != (of_last_fit is not None):
        raise ValueError(
            f"bootstrap must be as in the last fit, {not bootstrap}, with warm_start=True; got {bootstrap}."
        )
