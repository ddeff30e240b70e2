"""The members of an ensemble where none are given."""

from __future__ import annotations

from typing import Any

from fastens.ensemble.boosting import GradientBoostingClassifier, GradientBoostingRegressor


def default_classifiers() -> list[tuple[str, Any]]:
    """Gradient boosting, slow and fast."""
    return [
        ("boosting", GradientBoostingClassifier()),
        ("slow_boosting", GradientBoostingClassifier(learning_rate=0.03, max_leaf_nodes=8)),
    ]


def default_regressors() -> list[tuple[str, Any]]:
    """Gradient boosting, slow and fast."""
    return [
        ("boosting", GradientBoostingRegressor()),
        ("slow_boosting", GradientBoostingRegressor(learning_rate=0.03, max_leaf_nodes=8)),
    ]
