"""The spaces that libraries are tuned in: those of TabArena (Erickson et al. 2025), as far as parameters exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fastens.tuning.tune import BOOSTING, log_uniform, log_whole, uniform
from fastens.tuning.tune import SPACES as OURS

Draw = Callable[[np.random.Generator], Any]


def choice(*values: Any) -> Draw:
    """One of some values."""
    return lambda generator: values[int(generator.integers(len(values)))]


SPACES: dict[str, dict[str, Draw]] = {
    "fastens": dict(OURS[BOOSTING].drawn),
    "LightGBM": {
        "learning_rate": log_uniform(5e-3, 0.1),
        "feature_fraction": uniform(0.4, 1.0),
        "bagging_fraction": uniform(0.7, 1.0),
        "bagging_freq": choice(1),
        "num_leaves": log_whole(2, 200),
        "min_data_in_leaf": log_whole(1, 64),
        "extra_trees": choice(False, True),
        "min_data_per_group": log_whole(2, 100),
        "cat_l2": log_uniform(5e-3, 2.0),
        "cat_smooth": log_uniform(1e-3, 100.0),
        "max_cat_to_onehot": log_whole(8, 100),
        "lambda_l1": uniform(1e-5, 1.0),
        "lambda_l2": uniform(1e-5, 2.0),
    },
    "XGBoost": {
        "learning_rate": log_uniform(5e-3, 0.1),
        "max_depth": log_whole(4, 10),
        "min_child_weight": log_uniform(1e-3, 5.0),
        "subsample": uniform(0.6, 1.0),
        "colsample_bylevel": uniform(0.6, 1.0),
        "colsample_bynode": uniform(0.6, 1.0),
        "reg_alpha": log_uniform(1e-4, 5.0),
        "reg_lambda": log_uniform(1e-4, 5.0),
        "grow_policy": choice("depthwise", "lossguide"),
        "max_cat_to_onehot": log_whole(8, 100),
        "max_leaves": log_whole(8, 1024),
    },
    "CatBoost": {
        "learning_rate": log_uniform(5e-3, 0.1),
        "bootstrap_type": choice("Bernoulli"),
        "subsample": uniform(0.7, 1.0),
        "grow_policy": choice("SymmetricTree", "Depthwise"),
        "depth": log_whole(4, 8),
        "colsample_bylevel": uniform(0.85, 1.0),
        "l2_leaf_reg": log_uniform(1e-4, 5.0),
        "leaf_estimation_iterations": log_whole(1, 20),
        "one_hot_max_size": log_whole(8, 100),
        "model_size_reg": log_uniform(0.1, 1.5),
        "max_ctr_complexity": log_whole(2, 5),
        "boosting_type": choice("Plain"),
        "max_bin": choice(254),
    },
    "HistGradientBoosting": {
        "learning_rate": log_uniform(5e-3, 0.1),
        "max_leaf_nodes": log_whole(2, 200),
        "min_samples_leaf": log_whole(1, 64),
        "max_features": uniform(0.4, 1.0),
        "l2_regularization": log_uniform(1e-4, 5.0),
    },
    # Not in TabArena: that of its own pages on tuning.
    "YDF": {
        "shrinkage": choice(0.02, 0.05, 0.1, 0.15),
        "growing_strategy": choice("LOCAL", "BEST_FIRST_GLOBAL"),
        "max_depth": choice(3, 4, 5, 6, 8),
        "max_num_nodes": choice(16, 32, 64, 128, 256),
        "min_examples": choice(2, 5, 7, 10),
        "num_candidate_attributes_ratio": choice(0.2, 0.5, 0.9, 1.0),
        "categorical_algorithm": choice("CART", "RANDOM"),
    },
}


def drawn(library: str, index: int) -> dict[str, Any]:
    """The parameters of a configuration: the defaults first, then at random."""
    if index == 0:
        return {}
    generator = np.random.default_rng([sum(map(ord, library)), index])
    return {name: draw(generator) for name, draw in SPACES[library].items()}
