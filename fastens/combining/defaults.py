"""The members of an ensemble where none are given."""

from __future__ import annotations

from typing import Any

from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.forests.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from fastens.forests.forest_classifier import RandomForestClassifier
from fastens.forests.forest_regressor import RandomForestRegressor
from fastens.options import Growth

Members = list[tuple[str, Any]]

# Boosting that bounds the weight of its leaves, not their rows, so that weights mean repetition.
BOOSTING: dict[str, Any] = {"min_samples_leaf": 1, "growth": Growth(min_child_weight=5.0)}


def default_classifiers() -> Members:
    """Three kinds of trees that err differently."""
    return [
        ("boosting", GradientBoostingClassifier(**BOOSTING)),
        ("random_forest", RandomForestClassifier()),
        ("extra_trees", ExtraTreesClassifier()),
    ]


def default_regressors() -> Members:
    """Three kinds of trees that err differently."""
    return [
        ("boosting", GradientBoostingRegressor(**BOOSTING)),
        ("random_forest", RandomForestRegressor()),
        ("extra_trees", ExtraTreesRegressor()),
    ]


def default_classifier_forests() -> Members:
    """The forests of a cascade's layer: two of each kind, as in the paper."""
    random = [(f"random_forest_{number}", RandomForestClassifier()) for number in (1, 2)]
    return random + [(f"extra_trees_{number}", ExtraTreesClassifier()) for number in (1, 2)]


def default_regressor_forests() -> Members:
    """The forests of a cascade's layer: two of each kind, as in the paper."""
    random = [(f"random_forest_{number}", RandomForestRegressor()) for number in (1, 2)]
    return random + [(f"extra_trees_{number}", ExtraTreesRegressor()) for number in (1, 2)]
