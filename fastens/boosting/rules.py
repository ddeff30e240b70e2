"""From the parameters of boosting and encoded rows to rounds: which parameters exclude each other, rules, bins."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.boosting.rounds import BoostingRules, Rounds
from fastens.boosting.row_sampling import RowSampling
from fastens.engine.bins.binning import Binning, learn_binning
from fastens.engine.grow.constraints import count_of
from fastens.engine.grow.growth import GrowthRules
from fastens.engine.losses.losses import Loss
from fastens.engine.rows.sampling import content_hashes
from fastens.monitoring.callbacks import Checkpoint
from fastens.options import Goss, Mvs
from fastens.tree_model.column_rules import column_chances, monotone_columns, path_rules

# Chosen together: docs/defaults.md. Where noise can be measured, pruning by it stands in for leaves of many rows; but
# linear models in the leaves need these.
SPLIT_PENALTY = 3.0
FEWEST_ROWS, FEWEST_ROWS_OTHERWISE = 5, 20
ROWS_IN_TAIL = 2.0  # of quantiles: 20 rows for levels from 0.1 to 0.9
# For tables without noise, where a mean of models chooses.
LESS_PRUNED: dict[str, Any] = {"min_samples_leaf": 2, "split_penalty": 1.0}
L2_OTHERWISE = 1.0  # where it does not follow the noise
# Of classes; numbers lose by few thresholds: docs/defaults.md.
ROWS_PER_THRESHOLD = 100
# Of what means by category are of, so that no sum of squares overflows.
_LARGEST_SLOPE = 1e30


def growth_rules(model: Any) -> GrowthRules:
    """The limits of trees, with constraints on columns of X translated to the columns that trees see."""
    per_tree = count_of(model.max_features_per_tree, len(model._column_of), up=True)
    growth, categories = model._options("growth"), model._options("categories")
    min_samples_leaf, (l2, noise_l2) = fewest_rows(model), _l2(model)
    return GrowthRules(
        max_leaf_nodes=model.max_leaf_nodes,
        max_depth=model.max_depth,
        min_samples_leaf=min_samples_leaf,
        min_samples_tail=ROWS_IN_TAIL if model.min_samples_leaf is None and model._loss.name == "quantile" else 0.0,
        min_child_weight=growth.min_child_weight,
        min_weight_leaf=growth.min_weight_leaf,
        min_gain_to_split=growth.min_gain_to_split,
        split_penalty=_split_penalty(model),
        l2_regularization=l2,
        noise_l2=noise_l2,
        noise_power=model._loss.noise_power,
        features_per_split=count_of(model.max_features, per_tree, up=True),
        features_per_tree=per_tree,
        rows_per_threshold=_rows_per_threshold(model, model._loss),
        feature_weights=column_chances(model, up=True),
        monotone=monotone_columns(model),
        **path_rules(model),
        path_smooth=growth.path_smooth,
        max_delta_step=growth.max_delta_step,
        category_l2=categories.l2,
        category_smoothing=categories.smoothing,
        min_samples_category=categories.min_samples or min(10, min_samples_leaf),
        max_categories_per_split=categories.max_per_split,
        one_hot_max_size=categories.one_hot_max_size,
    )


def _l2(model: Any) -> tuple[float, float]:
    """The L2, and what is added to it times a power of the noise."""
    if model.l2_regularization is not None:
        return model.l2_regularization, 0.0
    of_noise = model._loss.noise_l2
    return (0.0 if of_noise else L2_OTHERWISE), of_noise


def _rows_per_threshold(model: Any, loss: Loss) -> int | None:
    """For how many of its rows a node draws a threshold; None where it looks at all."""
    given = model._options("growth").rows_per_threshold
    if given != "auto":
        return given
    return ROWS_PER_THRESHOLD if loss.has_log_odds and not model.linear_leaves else None


def _split_penalty(model: Any) -> float:
    if model.split_penalty is not None:
        return model.split_penalty
    return SPLIT_PENALTY if model._loss.measures_noise else 0.0


def fewest_rows(model: Any) -> int:
    """The fewest rows of a leaf."""
    if model.min_samples_leaf is not None:
        return model.min_samples_leaf
    return FEWEST_ROWS if _prunes_by_noise(model) else FEWEST_ROWS_OTHERWISE


def _prunes_by_noise(model: Any) -> bool:
    return model._loss.measures_noise and not model.linear_leaves


def less_pruned(model: Any) -> Any:
    """The model with smaller leaves and more splits; None where it is not to choose, or has nothing to choose."""
    is_given = any(getattr(model, name) is not None for name in LESS_PRUNED)
    if is_given or not model._stopping.choose_pruning or not _prunes_by_noise(model):
        return None
    other = copy(model)
    vars(other).update(LESS_PRUNED)
    return other


def _goes_on_apart(model: Any) -> bool:
    """Whether a fit continues a model of several outputs that has trees for each, as other libraries' models may."""
    trees = getattr(model, "_ensemble", None) if model.warm_start else None
    return trees is not None and trees.value.shape[1] < trees.n_outputs


def boosting_rules(model: Any, seed: int, n_threads: int) -> BoostingRules:
    """What the rounds do besides growing trees."""
    linear = model._options("linear_leaves")
    return BoostingRules(
        n_rounds=model.n_estimators,
        learning_rate=model.learning_rate,
        n_iter_no_change=model.n_iter_no_change,
        tol=model.tol,
        seed=seed,
        n_threads=n_threads,
        sampling=row_sampling(model),
        out_of_bag=model.oob_score,
        dart=model._options("boosting"),
        linear_l2=None if linear is None else linear.l2,
        jointly=model._n_targets > 1 and linear is None and not _goes_on_apart(model),
    )


def row_sampling(model: Any) -> RowSampling:
    """Which rows a round's trees are grown on."""
    return RowSampling(model.subsample, model._options("sampling"))


def draws_splits(model: Any) -> bool:
    """Whether trees or nodes see only some of the features, or some of the thresholds."""
    if _rows_per_threshold(model, model._get_loss()) is not None:
        return True
    n_features = model.n_features_in_
    wanted = (model.max_features_per_tree, model.max_features)
    return min(count_of(given, n_features, up=True) for given in wanted) < n_features


def _check_called_after(callbacks: Iterable[Any]) -> None:
    """Raise ValueError for callbacks of LightGBM that want to change what a round will do."""
    for callback in callbacks:
        if getattr(callback, "before_iteration", False):
            raise ValueError(
                "callbacks must be such as are called after a round, not before it as LightGBM's reset_parameter is: "
                f"parameters stay as they are during fit, and change with warm_start=True; got {callback!r}."
            )


def check_together(model: Any) -> None:
    """Raise ValueError for parameters that exclude each other."""
    _check_called_after(model.callbacks or ())
    if model._options("growth").split_criterion == "squared_error" and (
        model.linear_leaves or not hasattr(model, "plain")
    ):
        found = "linear_leaves" if model.linear_leaves else f"a {type(model).__name__}"
        raise ValueError(f"growth.split_criterion must be 'newton' with {found}; got 'squared_error'.")
    sampling = model._options("sampling")
    if isinstance(sampling, Goss) and model.subsample != 1:
        rule = "subsample must be 1 with sampling='goss', which has top_rate and other_rate"
        raise ValueError(f"{rule}; got {model.subsample}.")
    if isinstance(sampling, Mvs) and model.subsample == 1:
        raise ValueError("subsample must be below 1 with sampling='mvs': the share of the rows to draw; got 1.")
    if model.oob_score and model._options("boosting") is not None:
        raise ValueError("oob_score must be False with boosting='dart', whose rounds leave out trees.")
    check_folds(model)
    if model.oob_score and not row_sampling(model).draws:
        raise ValueError("oob_score must be False where every round sees all rows; set subsample below 1.")


def check_folds(model: Any) -> None:
    """Raise ValueError for what does not go with the mean of folds' models."""
    stopping = model._stopping
    if stopping.folds is None:
        if stopping.choose_pruning:
            raise ValueError("early_stopping.choose_pruning must be False without early_stopping.folds; got True.")
        return
    for name, none, given in (
        ("early_stopping.validation", None, stopping.validation),
        ("early_stopping.refit", False, stopping.refit),
        ("warm_start", False, model.warm_start),
        ("oob_score", False, model.oob_score),
    ):
        if given is not none:
            raise ValueError(f"{name} must be {none} with early_stopping.folds, whose model is a mean; got {given!r}.")
    if any(isinstance(callback, Checkpoint) for callback in model.callbacks or ()):
        raise ValueError(
            "callbacks must hold no Checkpoint with early_stopping.folds, whose model is a mean: none could be resumed."
        )


class Prepared(NamedTuple):
    """Encoded rows with what all rounds on them share."""

    data: TrainingData
    binning: Binning
    hashes: NDArray[np.uint64] | None  # of the rows, where they are drawn
    baseline: NDArray[np.float64] | None = None  # of the fit that this one continues

    def rounds(self, model: Any, rules: BoostingRules) -> Rounds:
        """Prepare the rounds of a fit on the rows."""
        growth = model._growth_rules()
        return Rounds(self.binning, self.data, model._loss, growth, rules, hashes=self.hashes, baseline=self.baseline)


def prepared(model: Any, data: TrainingData, rules: BoostingRules, earlier: Any = None) -> Prepared:
    """Encode categories and learn the bins; `earlier` is the fitted estimator that is continued."""
    loss, comm = model._loss, data.comm
    loss.join(comm)
    loss.check_target(data.y)
    if earlier is None:
        loss.check_start(data.y)
    hashes = None
    if rules.sampling.draws:
        hashes = content_hashes(data.X, model._target_for_hashing(data.y), rules.n_threads)
    if earlier is not None and earlier._statistics is None and model._category_options().encoding == "auto":
        model._statistics = None  # also where there are many categories by now
    else:
        data = data._replace(X=model._learn_statistics(_beside_offset(loss, data), rules.seed).X)
    if earlier is None:
        is_categorical = model._is_categorical
        binning = learn_binning(data.X, data.sample_weight, model.max_bins, is_categorical, rules.n_threads, comm)
    else:
        model._check_same_statistics(earlier._statistics_arrays())
        binning = earlier._ensemble.binning
    if rules.linear_l2 is not None and loss.renews_leaves:
        raise ValueError(
            "loss must have a hessian with linear_leaves=True, such as 'squared_error' has, or 'expectile' and "
            f"'log_cosh'; got {model.loss!r}."
        )
    if loss.n_outputs > 1 and data.y.ndim == 2:
        data = data._replace(y=np.asfortranarray(data.y))  # losses read the targets one by one
    return Prepared(data, binning, hashes, None if earlier is None else earlier._ensemble.baseline)


def _beside_offset(loss: Loss, data: TrainingData) -> TrainingData:
    """The rows with what means by category are of: where one raw prediction is given to start from, what it lacks.

    That is the Newton step of each row, weighted by its hessian: for counts the share by which a category has more of
    them than expected.
    """
    if data.offset is None or data.y.ndim > 1 or loss.n_outputs > 1:
        return data
    if loss.renews_leaves:
        return data._replace(y=loss.residuals(data.y, data.offset, 0))
    slopes = np.ones((2, 1, len(data.y)), dtype=np.float32)
    loss.start_round(data.y, data.offset, data.sample_weight)
    loss.gradients(data.y, data.offset, slopes[0], slopes[1])
    slope = np.clip(slopes[0, 0].astype(np.float64), -_LARGEST_SLOPE, _LARGEST_SLOPE)
    hessian = np.clip(slopes[1, 0].astype(np.float64), 1 / _LARGEST_SLOPE, _LARGEST_SLOPE)
    weight = hessian if data.sample_weight is None else hessian * data.sample_weight
    own = data.sample_weight if data.own_weight is None else data.own_weight
    return data._replace(y=-slope / hessian, sample_weight=weight, own_weight=own)
