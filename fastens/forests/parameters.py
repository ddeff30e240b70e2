"""Parameters, docstrings and growth limits that single trees and forests share."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.engine.elementary import xlogy
from fastens.engine.forest.forests import ForestParameters
from fastens.engine.grow.growth import count_of
from fastens.engine.trees.contributions import parents
from fastens.engine.trees.trees import TreeEnsemble
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.options import TextChoice
from fastens.params.rules import ANYTHING, FLAG, NONE, RANDOM_STATE, Rule, one_of, parameter, real, whole
from fastens.params.types import ColumnChoice, ColumnGroups, PerColumn, RandomState
from fastens.table.training_data import WEIGHT_TYPE
from fastens.tree_model.saving import BINS, SavedEnsemble
from fastens.tree_model.tree_model import column_chances, monotone_columns, path_rules
from fastens.warn import warn

_PART = real(0, 1, open_low=True)
SHARE = Rule(
    "a fraction above 0 and at most 1", lambda value: not isinstance(value, numbers.Integral) and _PART.holds(value)
)
# Ways in which the bags of a classifier draw rows.
_OF_CLASS = whole(1) | real(0, open_low=True)
STRATIFIED = (
    FLAG
    | one_of("stratified", "balanced")
    | real(0, 1, open_low=True)
    | Rule(
        "a dict of positive numbers by class",
        lambda value: isinstance(value, Mapping) and bool(value) and all(map(_OF_CLASS.holds, value.values())),
    )
)
NUMBER_OF_FEATURES = whole(1) | SHARE | one_of("sqrt", "log2", None)
MIN_SAMPLES_SPLIT, MIN_WEIGHT = whole(2) | SHARE, real(0, 0.5)
MIN_SAMPLES_LEAF = whole(1) | real(0, 1, open_low=True, open_high=True)
CLASS_CRITERION = one_of("gini", "entropy", "log_loss")
# scikit-learn has removed "friedman_mse", which was another name for the squared error.
_FRIEDMAN = "friedman_mse"
NUMBER_CRITERION = one_of("squared_error", "absolute_error", "poisson", _FRIEDMAN)


@with_parameters
class TreeParameters:
    """Parameters shared by single trees and forests.

    Parameters
    ----------
    n_estimators : int
        Number of trees. More trees reduce the variance of the predictions at a proportional cost in time and memory.
    splitter : {"best", "random"}
        How the threshold of each candidate feature is chosen: "best" takes the threshold with the highest gain,
        "random" draws a threshold at random, as extra trees do.
    max_depth : int or None
        Maximum depth of a tree. Deeper trees fit the training set more closely and may overfit. If None, depth is not
        limited.
    min_samples_split : int or float
        Minimum number of rows in a node that may be split. A float is a fraction of the training rows.
    min_samples_leaf : int or float
        Minimum number of rows in a leaf, regardless of their weights. A float is a fraction of the training rows.
        Larger values regularise more.
    min_weight_fraction_leaf : float
        Minimum fraction of the total sample weight in a leaf.
    max_features : int, float, "sqrt", "log2" or None
        Number of features that are drawn at random as candidates for each split. A float is a fraction of the features;
        "sqrt" and "log2" apply to their number. If None, or a number above the number of features, all features are
        evaluated. Features that are constant in the node do not count. Smaller values make the trees of a forest less
        correlated.
    max_leaf_nodes : int or None
        Maximum number of leaves of a tree, which is then grown best-first. If None, there is no limit.
    min_impurity_decrease : float
        Minimum decrease in impurity of a split, weighted by the node's fraction of the total sample weight.
    max_features_per_tree : int, float, "sqrt", "log2" or None
        Number of features that are drawn once for each tree; `max_features` then draws from these. A float is a
        fraction of the features; "sqrt" and "log2" apply to their number. If None, or a number above the number of
        features, each tree may use all features.
    max_samples : int, float or None
        Number of rows drawn for each tree if `bootstrap` is used. A float is a fraction of the default number of draws.
        If None, the default number is drawn; see `bootstrap`.
    oob_score : bool or function
        If True, predict each training row by the trees whose bags do not contain it, and score these out-of-bag
        predictions as `score` does. A function of the targets and the predictions replaces that score.
    warm_start : bool
        If True, `fit` keeps the existing trees and adds new ones until there are `n_estimators`. With the same rows,
        the result is identical to fitting all trees at once. If the rows or the sampling change, `oob_score` and
        `keep_leaves` must be False, and the bags are no longer available.
    keep_leaves : bool
        If True, store the training targets of every leaf, so that `predict_quantiles` uses their full distribution.
    ccp_alpha : float
        Complexity parameter of minimal cost-complexity pruning (Breiman et al. 1984). Subtrees that lower the impurity
        by less than this value per leaf are pruned, so larger values give smaller trees.
    criterion : {"squared_error", "absolute_error", "poisson"}
        Function that measures the quality of a split. Leaves predict the mean, or with "absolute_error" the weighted
        median. "friedman_mse", from scikit-learn before 1.11, means "squared_error".
    bootstrap : bool
        If True, grow each tree on rows drawn with replacement, with probabilities proportional to their weights. The
        number of draws is the number of rows, or the sum of the weights if all weights are integers.
    averaging : "posterior", PosteriorAverage or None
        If "posterior", average each tree over all its prunings (see `BayesTreeRegressor`); prediction cost is
        unchanged. `PosteriorAverage` sets the prior and the rows used as evidence. If None, trees are not averaged.
    monotonic_cst : array of -1, 0, 1 or dict by name
        Monotonic constraint of each feature: the prediction must not decrease (1) or not increase (-1) with the
        feature; 0 means no constraint.

    Attributes
    ----------
    classes_ : array of shape (n_classes,), or list of arrays
        Sorted class labels. With several targets, a list with the labels of each target.
    """

    _docs: ClassVar[Docs] = SavedEnsemble._docs | described(__doc__)

    criterion: str = parameter(NUMBER_CRITERION, default="squared_error")
    max_depth: int | None = parameter(whole(1) | NONE, default=None)
    min_samples_split: int | float = parameter(MIN_SAMPLES_SPLIT, default=2)
    min_samples_leaf: int | float = parameter(MIN_SAMPLES_LEAF, default=1)
    min_weight_fraction_leaf: float = parameter(MIN_WEIGHT, default=0.0)
    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=None)
    max_leaf_nodes: int | None = parameter(whole(2) | NONE, default=None)
    min_impurity_decrease: float = parameter(real(0), default=0.0)
    interaction_cst: ColumnGroups = parameter(ANYTHING, default=None)
    feature_weights: PerColumn = parameter(ANYTHING, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    text_features: TextChoice = parameter(ANYTHING, default=None)
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(BINS, default=255)
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)


def breaks_ties_at_random(tree: Any) -> bool:
    """Return True if a single tree breaks ties between equal splits at random.

    This is the case with random thresholds, and if both `random_state` and `max_features` are set.
    """
    return tree._has_random_thresholds or (tree.random_state is not None and tree.max_features is not None)


def forest_parameters(model: Any, n_rows: int, total_weight: float, *, in_random_order: bool) -> ForestParameters:
    """Return the growth limits from a model's parameters, for a number of rows and their total weight.

    If `in_random_order` is True, features are drawn even if all of them are evaluated, so that ties between equal
    splits are broken at random. Raise ValueError for monotonic constraints with several targets.
    """
    signs = monotone_columns(model)
    if signs is not None and model._n_outputs() > 1:
        raise ValueError(f"monotonic_cst must be None with several targets; got {model.monotonic_cst!r}.")
    drawn = features_per_split(model)
    return ForestParameters(
        criterion=criterion_of(model),
        max_depth=model.max_depth,
        max_leaf_nodes=model.max_leaf_nodes,
        min_samples_split=max(2, row_count(model.min_samples_split, n_rows)),
        min_samples_leaf=row_count(model.min_samples_leaf, n_rows),
        min_weight_leaf=model.min_weight_fraction_leaf * total_weight,
        min_impurity_decrease=model.min_impurity_decrease,
        features_per_split=len(model._column_of) if drawn is None and in_random_order else drawn,
        random_thresholds=model._has_random_thresholds,
        monotone=signs,
        feature_weights=column_chances(model),
        **path_rules(model),
    )


def criterion_of(model: Any) -> str:
    """Return the model's split criterion; "friedman_mse" is replaced by "squared_error", with a FutureWarning."""
    if model.criterion != _FRIEDMAN:
        return model.criterion
    warn(
        "criterion='friedman_mse' is deprecated because it is equivalent to 'squared_error', as in scikit-learn. Use "
        "'squared_error'.",
        FutureWarning,
    )
    return "squared_error"


def features_per_split(model: Any) -> int | None:
    """Return the number of features drawn for each split from `max_features`, or None for all features."""
    n_features = len(model._column_of)
    count = count_of(model.max_features, n_features)
    return None if count == n_features else count


def row_count(number: Any, n_rows: int) -> int:
    """Return `number` if it is an integer, otherwise this fraction of `n_rows`, rounded up and at least 1."""
    return int(number) if isinstance(number, numbers.Integral) else max(1, math.ceil(number * n_rows))


def check_drawing(bootstrap: Any, max_samples: Any, oob_score: Any) -> None:
    """Raise ValueError if `bootstrap` is False but `max_samples` or `oob_score`, which need it, is set."""
    if bootstrap:
        return
    if max_samples is not None:
        raise ValueError(f"max_samples must be None without bootstrap; got {max_samples!r}.")
    if oob_score:
        raise ValueError("oob_score must be False without bootstrap, because every tree uses all rows; got True.")


def check_same_drawing(bootstrap: Any, last_draws: Any) -> None:
    """Raise ValueError if a warm start would mix trees grown with and without bootstrap sampling.

    `last_draws` is the plan of draws of the last fit, or None without bootstrap.
    """
    if bool(bootstrap) != (last_draws is not None):
        raise ValueError(
            f"bootstrap must be the same as in the last fit, {not bootstrap}, with warm_start=True; got {bootstrap}."
        )


Array = NDArray[np.float64]


def node_impurities(
    tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array | None, criterion: str
) -> Array:
    """Return each node's impurity by `criterion`, (n_nodes,), averaged over targets.

    `leaf` is the node index of each row's leaf, and `y` has shape (n_rows, n_targets).
    """
    weight = np.ones(len(y)) if weight is None else weight
    of_targets = (
        _absolute_impurities(tree, leaf, target, weight, tree.value[:, target_index].astype(np.float64))
        if criterion == "absolute_error"
        else _mean_impurities(tree, leaf, target, weight, criterion == "poisson")
        for target_index, target in enumerate(y.T)
    )
    return np.mean(list(of_targets), axis=0)


def _absolute_impurities(tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array, value: Array) -> Array:
    """Return each node's mean absolute difference of targets from the node's entry in `value`, (n_nodes,).

    `leaf` is the node index of each row's leaf.
    """
    parent, n_nodes = parents(tree), len(value)
    node = leaf.astype(np.intp)
    loss, total = np.zeros((2, n_nodes))
    while len(node):
        loss += np.bincount(node, weight * np.abs(y - value[node]), n_nodes)
        total += np.bincount(node, weight, n_nodes)
        node = parent[node]
        below = node >= 0
        node, y, weight = node[below], y[below], weight[below]
    return loss / total


def _mean_impurities(tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array, is_poisson: bool) -> Array:
    """Return each node's mean squared error, or Poisson deviance, about its mean target, (n_nodes,).

    `leaf` is the node index of each row's leaf. The loss of a node is the sum of its children's losses about their own
    means, plus the loss of these means about the node's mean.
    """
    n_nodes = len(tree.feature)
    total, sums = np.bincount(leaf, weight, n_nodes), np.bincount(leaf, weight * y, n_nodes)
    mean = np.divide(sums, total, out=np.zeros(n_nodes), where=total > 0)
    loss = np.bincount(leaf, weight * _losses_about_mean(y, mean[leaf], is_poisson), n_nodes)
    for nodes in reversed(_inner_levels(tree)):
        left = tree.left_child[nodes]
        right = left + 1
        total[nodes], sums[nodes] = total[left] + total[right], sums[left] + sums[right]
        mean[nodes] = sums[nodes] / total[nodes]
        for below in (left, right):
            loss[nodes] += loss[below] + total[below] * _losses_about_mean(mean[below], mean[nodes], is_poisson)
    return np.maximum(loss / total, 0.0)


def _inner_levels(tree: TreeEnsemble) -> list[NDArray[np.integer]]:
    """Return the indices of the nodes with children, an array for each depth, starting with the root."""
    levels: list[NDArray[np.integer]] = []
    nodes: NDArray[np.integer] = np.zeros(1, dtype=np.intp)
    while len(inner := nodes[tree.left_child[nodes] > 0]):
        levels.append(inner)
        left = tree.left_child[inner]
        nodes = np.concatenate([left, left + 1])
    return levels


def _losses_about_mean(y: Array, mean: Array, is_poisson: bool) -> Array:
    """Return each target's squared difference from its mean, or its term y log(y / mean) of the Poisson deviance."""
    return xlogy(y, np.divide(y, mean, out=np.ones_like(mean), where=mean > 0)) if is_poisson else (y - mean) ** 2


def gain_shares(trees: TreeEnsemble, column_of: NDArray[np.intp], n_features: int, floor: float | None = None) -> Array:
    """Return each feature's fraction of the total gain of each tree, (n_trees, n_features).

    `column_of` holds the feature index for each feature of the trees. If `floor` is not None, splits with a lower gain
    count as if they had this gain.
    """
    tree, inner = np.repeat(np.arange(trees.n_trees), np.diff(trees.node_offsets)), trees.feature >= 0
    gain = trees.gain[inner] if floor is None else np.maximum(trees.gain[inner], floor)
    gains = np.zeros((trees.n_trees, n_features))
    np.add.at(gains, (tree[inner], column_of[trees.feature[inner]]), gain)
    total = gains.sum(axis=1, keepdims=True)
    return np.divide(gains, total, out=np.zeros_like(gains), where=total > 0)
