"""What is searched: published spaces, by kind of model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.engine.elementary import exp, log
from fastens.forests.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from fastens.forests.forest_classifier import RandomForestClassifier
from fastens.forests.forest_regressor import RandomForestRegressor

Draw = Callable[[np.random.Generator], Any]
BOOSTING, EXTRA_TREES = "boosting", "extra-trees"


def uniform(low: float, high: float) -> Draw:
    """Any number between two."""
    return lambda generator: float(generator.uniform(low, high))


def log_uniform(low: float, high: float) -> Draw:
    """Any number between two, each order of magnitude alike."""
    return lambda generator: float(exp(generator.uniform(log(low), log(high))))


def log_whole(low: int, high: int) -> Draw:
    """The same for whole numbers."""
    return lambda generator: int(exp(generator.uniform(log(low), log(high + 1))))


@dataclass(frozen=True)
class Space:
    """A kind of model: its estimators, its share of the draws, what all of its models have, and what is drawn."""

    classifier: Callable[..., Any]
    regressor: Callable[..., Any]
    share: float
    fixed: Mapping[str, Any]
    drawn: Mapping[str, Draw]


# LightGBM's and forests' spaces of TabArena (Erickson et al. 2025), as far as fastens has the parameters.
_OF_FORESTS = {
    "max_features": uniform(0.4, 1.0),
    "max_samples": uniform(0.5, 1.0),
    "min_impurity_decrease": log_uniform(1e-5, 1e-3),
}
SPACES = {
    BOOSTING: Space(
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        4.0,
        {},
        {
            "learning_rate": log_uniform(5e-3, 0.1),
            "max_features_per_tree": uniform(0.4, 1.0),
            "subsample": uniform(0.7, 1.0),
            "max_leaf_nodes": log_whole(2, 200),
            "min_samples_leaf": log_whole(1, 64),
            "l2_regularization": log_uniform(1e-5, 2.0),
            "categories__min_samples": log_whole(2, 100),
            "categories__l2": log_uniform(5e-3, 2.0),
            "categories__smoothing": log_uniform(1e-3, 100.0),
            "categories__one_hot_max_size": log_whole(8, 100),
        },
    ),
    "forest": Space(RandomForestClassifier, RandomForestRegressor, 1.0, {}, _OF_FORESTS),
    EXTRA_TREES: Space(ExtraTreesClassifier, ExtraTreesRegressor, 1.0, {"bootstrap": True}, _OF_FORESTS),
}


def drawn(index: int, families: tuple[str, ...], random_state: int) -> tuple[str, dict[str, Any]]:
    """The kind and the parameters of a trial: first each kind with its defaults, then at random.

    A trial depends on its index alone, so that a search that is taken up again goes on as it would have.
    """
    if index < len(families):
        return families[index], {}
    generator = np.random.default_rng([random_state, index])
    shares = np.array([SPACES[name].share for name in families])
    family = families[int(generator.choice(len(families), p=shares / shares.sum()))]
    space = SPACES[family]
    return family, {**space.fixed, **{name: draw(generator) for name, draw in space.drawn.items()}}
