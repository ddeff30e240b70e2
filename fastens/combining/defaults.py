"""The members of an ensemble where none are given."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import has_fit_parameter

from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.combining.parameters import KNOWN_METADATA, NamedMembers, routing_enabled
from fastens.forests.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from fastens.forests.forest_classifier import RandomForestClassifier
from fastens.forests.forest_regressor import RandomForestRegressor
from fastens.options import Growth

# Boosting that bounds the weight of its leaves, not their rows, so that weights mean repetition.
BOOSTING: dict[str, Any] = {"min_samples_leaf": 1, "growth": Growth(min_child_weight=5.0)}


def default_members(is_classification: bool) -> NamedMembers:
    """Three kinds of trees whose errors differ."""
    boosting: Any = GradientBoostingClassifier if is_classification else GradientBoostingRegressor
    forests = ((name, requesting(kind())) for name, kind in _forests(is_classification))
    return [("boosting", requesting(boosting(**BOOSTING))), *forests]


def default_forests(is_classification: bool) -> NamedMembers:
    """The forests of a cascade's layer: two of each kind, as in the paper."""
    return [(f"{name}_{number}", requesting(kind())) for name, kind in _forests(is_classification) for number in (1, 2)]


def requesting(member: Any) -> Any:
    """A member that nobody could set requests of: it gets weights and validation rows with metadata routing on too."""
    if routing_enabled():
        taken = [name for name in sorted(KNOWN_METADATA) if has_fit_parameter(member, name)]
        member.set_fit_request(**{name: name != "groups" for name in taken})
    return member


def _forests(is_classification: bool) -> list[tuple[str, Any]]:
    if is_classification:
        return [("random_forest", RandomForestClassifier), ("extra_trees", ExtraTreesClassifier)]
    return [("random_forest", RandomForestRegressor), ("extra_trees", ExtraTreesRegressor)]
