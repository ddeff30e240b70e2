"""What the parameters of boosting say to the engine, and which of them do not go together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastens.boosting.dart import DartRules
from fastens.boosting.rounds import BoostingRules
from fastens.boosting.row_sampling import RowSampling
from fastens.engine.grow.constraints import count_of
from fastens.engine.grow.growth import GrowthRules
from fastens.monitoring.metrics import LOSS
from fastens.tree_model.column_rules import column_chances, monotone_columns, path_rules

if TYPE_CHECKING:
    from fastens.base import TrainingData

AKAIKE = 2.0


def growth_rules(model: Any) -> GrowthRules:
    """The limits of trees, with constraints on columns of X said of the columns that trees see."""
    per_tree = count_of(model.max_features_per_tree, len(model._column_of))
    return GrowthRules(
        max_leaf_nodes=model.max_leaf_nodes,
        max_depth=model.max_depth,
        min_samples_leaf=model.min_samples_leaf,
        min_child_weight=model.min_child_weight,
        min_weight_leaf=model.min_weight_leaf,
        min_gain_to_split=model.min_gain_to_split,
        split_penalty=_split_penalty(model),
        l2_regularization=model.l2_regularization,
        features_per_split=count_of(model.max_features, per_tree),
        features_per_tree=per_tree,
        feature_weights=column_chances(model),
        monotone=monotone_columns(model),
        **path_rules(model),
        path_smooth=model.path_smooth,
        max_delta_step=model.max_delta_step,
        category_l2=model.category_l2,
        category_smoothing=model.category_smoothing,
        min_samples_category=model.min_samples_category or min(10, model.min_samples_leaf),
        max_categories_per_split=model.max_categories_per_split,
        one_hot_max_size=model.one_hot_max_size,
    )


def _split_penalty(model: Any) -> float:
    if model.split_penalty is not None:
        return model.split_penalty
    return AKAIKE if model._loss.measures_noise else 0.0


def boosting_rules(model: Any, seed: int, n_threads: int) -> BoostingRules:
    """What the rounds do besides growing trees."""
    dart = DartRules(model.rate_drop, model.skip_drop, model.max_drop, model.dart_normalize)
    return BoostingRules(
        n_rounds=model.n_estimators,
        learning_rate=model.learning_rate,
        n_iter_no_change=model.n_iter_no_change,
        tol=model.tol,
        seed=seed,
        n_threads=n_threads,
        sampling=row_sampling(model),
        out_of_bag=model.oob_score,
        dart=dart if model.boosting == "dart" else None,
        linear_l2=model.linear_l2 if model.linear_leaves else None,
        jointly=model._n_targets > 1 and not model.linear_leaves,
    )


def _fits_residuals(model: Any) -> bool:
    """Whether trees are fitted by least squares; the ranker and survival have no such parameter."""
    return getattr(model, "split_criterion", "newton") == "squared_error"


def row_sampling(model: Any) -> RowSampling:
    """Which rows a round's trees are grown on."""
    return RowSampling(model.sampling, model.subsample, model.top_rate, model.other_rate, model.mvs_lambda)


def draws_features(model: Any) -> bool:
    """Whether trees or nodes see only some of the features."""
    n_features = model.n_features_in_
    return min(count_of(given, n_features) for given in (model.max_features_per_tree, model.max_features)) < n_features


def check_parts(model: Any, data: TrainingData, rules: BoostingRules) -> None:
    """Raise ValueError, on all ranks, for what cannot be trained on several; `data` are the rows of one."""
    obstacles = {
        "linear leaves": rules.linear_l2 is not None,
        "oob_score=True": rules.out_of_bag,
        "checkpoints": model.checkpoint_path is not None,
        "a splitter as validation": model.validation is not None,
        f"eval_metric={model.eval_metric!r}": model.eval_metric not in (LOSS, [LOSS]),
        "several targets": data.y.ndim > 1,
        "categories encoded by their targets": bool(model._columns_of_statistics(data.y)[1]),
    }
    found = [name for name, is_there in obstacles.items() if is_there]
    if found:
        raise ValueError(f"Trees are trained on one rank with {' and '.join(found)}; got {data.comm.size} ranks.")
    if 0 in (sizes := data.comm.gather(len(data.y))):
        raise ValueError(f"Every rank must have rows to train on; rank {sizes.index(0)} has none.")


def _check_called_after(callbacks: Iterable[Any]) -> None:
    """Raise ValueError for callbacks of LightGBM that want to change what a round will do."""
    for callback in callbacks:
        if getattr(callback, "before_iteration", False):
            raise ValueError(
                "callbacks must be such as are called after a round, not before it as LightGBM's reset_parameter is: "
                f"parameters stay as they are during fit, and change with warm_start=True; got {callback!r}."
            )


def check_together(model: Any) -> None:
    """Raise ValueError for parameters that do not go together."""
    _check_called_after(model.callbacks or ())
    if model.linear_leaves and _fits_residuals(model):
        raise ValueError("split_criterion must be 'newton' with linear_leaves=True; got 'squared_error'.")
    if model.sampling == "goss":
        if model.subsample != 1:
            rule = "subsample must be 1 with sampling='goss', which has top_rate and other_rate"
            raise ValueError(f"{rule}; got {model.subsample}.")
        if model.top_rate + model.other_rate > 1:
            raise ValueError(f"top_rate + other_rate must be at most 1; got {model.top_rate} + {model.other_rate}.")
    if model.sampling == "mvs" and model.subsample == 1:
        raise ValueError("subsample must be below 1 with sampling='mvs': the share of the rows to draw; got 1.")
    if model.checkpoint_path is not None and not Path(model.checkpoint_path).absolute().parent.is_dir():
        raise ValueError(f"checkpoint_path must be in a folder that is there; got {str(model.checkpoint_path)!r}.")
    if model.oob_score and model.boosting == "dart":
        raise ValueError("oob_score must be False with boosting='dart', whose rounds leave out trees.")
    if model.oob_score and not row_sampling(model).draws:
        raise ValueError("oob_score must be False where every round sees all rows; set subsample below 1.")
