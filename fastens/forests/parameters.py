"""Parameters, docstrings and growth limits that single trees and forests share."""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.elementary import xlogy
from fastens.engine.forest.forests import TreeRules
from fastens.engine.grow.growth import count_of
from fastens.engine.trees.contributions import parents
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.params.docstrings import entries
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, NONE, RANDOM_STATE, Rule, one_of, parameter, real, whole
from fastens.table.training_data import WEIGHT_TYPE, whole_multiples
from fastens.tree_model.tree_model import DOCS as TREE_DOCS
from fastens.tree_model.tree_model import column_chances, monotone_columns, path_rules
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


DOCS = TREE_DOCS | entries("""\
n_estimators : int
    Number of trees.
splitter : {"best", "random"}
    Take the best threshold of each feature, or one at random, as extra trees draw it.
max_depth : int or None
    Most splits between the root and a leaf.
min_samples_split : int or float
    Fewest rows, or smallest share of them, that a node may be split with.
min_samples_leaf : int or float
    Fewest rows, or smallest share of them, in a leaf, whatever their weights.
min_weight_fraction_leaf : float
    Smallest share of all weights in a leaf.
max_features : int, float, "sqrt", "log2" or None
    How many features, drawn anew for each split, are looked at: a number, a share, or None for all. Those that are
    constant in the node do not count.
max_leaf_nodes : int or None
    Most leaves of a tree, which then grows best-first.
min_impurity_decrease : float
    A split must lower the impurity, times the node's share of the weights, by this much.
max_features_per_tree : int, float, "sqrt", "log2" or None
    How many features, drawn once for each tree, it may use; `max_features` draws among them.
max_samples : int, float or None
    With bootstrap: number of draws, or share of the usual number.
oob_score : bool or function
    Predict each row by the trees whose bags do not have it, and score that: by `score`, or by a function of targets
    and predictions.
warm_start : bool
    `fit` adds trees to those there are, up to `n_estimators`: given the same rows, the same forest as all at once.
    Given other rows, or drawing them in another way, it needs ``oob_score=False``, and the bags are not known.
keep_leaves : bool
    Keep the training targets of every leaf, which `predict_quantiles` needs.
ccp_alpha : float
    Cut back subtrees that lower the impurity by less than this for each of their leaves (minimal cost-complexity
    pruning, Breiman et al. 1984).
criterion : {"squared_error", "absolute_error", "poisson"}
    What a split lowers. Leaves predict the mean, with absolute_error the weighted median. "friedman_mse", of
    scikit-learn before 1.11, is "squared_error".
bootstrap : bool
    Draw the rows of each tree with replacement, as many as there are (the sum of the weights where they are whole
    numbers), with chances in proportion to their weights.
averaging : "posterior", PosteriorAverage or None
    Average each tree over all its prunings (see `BayesTreeRegressor`); predicting costs the same. `PosteriorAverage`
    chooses the prior and the rows that are evidence.
monotonic_cst : array of -1, 0, 1 or dict by name
    Features with which the prediction must not fall (1) or rise (-1).
classes_ : array of shape (n_classes,), or list of arrays
    The labels, sorted, of each target.
""")
# Where classes differ from numbers.
CLASS_DOCS = DOCS | entries("""\
criterion : {"gini", "entropy", "log_loss"}
    What a split lowers; entropy and log_loss are the same.
bootstrap : bool, "stratified" or "balanced"
    Draw the rows of each tree with replacement, as many as there are (the sum of the weights where they are whole
    numbers), with chances in proportion to their weights. "stratified" draws from each class as many as it has;
    "balanced" from each as many as the smallest has (Chen, Liaw & Breiman 2004).
voting : {"soft", "hard"}
    Average the trees' class shares, or count a vote for each tree.
class_weight : dict, list of dicts, "balanced", "balanced_subsample" or None
    Factors of the rows' weights by class; with bootstrap, of their chances to be drawn. "balanced_subsample"
    balances the classes of each bag instead. A list has a dict for each target.
averaging : "posterior", PosteriorAverage or None
    Average each tree over all its prunings (see `BayesTreeClassifier`); predicting costs the same. `PosteriorAverage`
    chooses the prior and the rows that are evidence.
monotonic_cst : array of -1, 0, 1 or dict by name
    Features with which the prediction (the share of the second of two classes) must not fall (1) or rise (-1).
""")
# Of single trees, which draw no rows.
TREE_CLASS_DOCS = entries("""\
class_weight : dict, list of dicts, "balanced" or None
    Factors of the rows' weights by class. A list has a dict for each target.
""")


def weight_to_grow(model: Any, weight: Any) -> tuple[Any, float]:
    """What the trees of an estimator are grown with, and by what its weights are larger than those given.

    Where classes have weights, they are whole numbers if they can be, which growth does not round.
    """
    has_factors = getattr(model, "class_weight", None) is not None and not callable(weight)
    return whole_multiples(weight) if has_factors else (weight, 1.0)


def rescaled(tree: Tree, scale: float) -> Tree:
    """A tree of classes that was grown with weights so many times as large, a power of two, with those given."""
    return tree if scale == 1 else replace(tree, weight=tree.weight / scale, gain=tree.gain / scale)


Array = NDArray[np.float64]


def node_impurities(
    tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array | None, criterion: str
) -> Array:
    """Return the impurity of each node, the mean over the targets, (n_nodes,).

    Parameters
    ----------
    tree : TreeEnsemble
        One tree.
    leaf : integer array of shape (n_rows,)
        The leaf that each training row falls into.
    y : float64 array of shape (n_rows, n_targets)
        Targets.
    weight : float64 array of shape (n_rows,) or None
        Weights of the rows, None for ones.
    criterion : {"squared_error", "absolute_error", "poisson"}
        The mean squared difference from the mean, the mean absolute one from the node's value (a median), or the mean
        of y * log(y / mean).
    """
    weight = np.ones(len(y)) if weight is None else weight
    of_targets = (
        _about_values(tree, leaf, target, weight, tree.value[:, place].astype(np.float64))
        if criterion == "absolute_error"
        else _about_means(tree, leaf, target, weight, criterion == "poisson")
        for place, target in enumerate(y.T)
    )
    return np.mean(list(of_targets), axis=0)


def _about_values(tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array, value: Array) -> Array:
    """Each row goes up from its leaf to the root, and counts in every node on its way."""
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


def _about_means(tree: TreeEnsemble, leaf: NDArray[np.integer], y: Array, weight: Array, is_poisson: bool) -> Array:
    """From the leaves up: the losses of two nodes about their means, and of the means about that of both."""
    n_nodes = len(tree.feature)
    total, sums = np.bincount(leaf, weight, n_nodes), np.bincount(leaf, weight * y, n_nodes)
    mean = np.divide(sums, total, out=np.zeros(n_nodes), where=total > 0)
    loss = np.bincount(leaf, weight * _loss(y, mean[leaf], is_poisson), n_nodes)
    for nodes in reversed(_inner_levels(tree)):
        left = tree.left_child[nodes]
        right = left + 1
        total[nodes], sums[nodes] = total[left] + total[right], sums[left] + sums[right]
        mean[nodes] = sums[nodes] / total[nodes]
        for below in (left, right):
            loss[nodes] += loss[below] + total[below] * _loss(mean[below], mean[nodes], is_poisson)
    return np.maximum(loss / total, 0.0)


def _inner_levels(tree: TreeEnsemble) -> list[NDArray[np.integer]]:
    """The inner nodes of each depth, from the root on."""
    levels: list[NDArray[np.integer]] = []
    nodes: NDArray[np.integer] = np.zeros(1, dtype=np.intp)
    while len(inner := nodes[tree.left_child[nodes] > 0]):
        levels.append(inner)
        left = tree.left_child[inner]
        nodes = np.concatenate([left, left + 1])
    return levels


def _loss(y: Array, mean: Array, is_poisson: bool) -> Array:
    return xlogy(y, np.divide(y, mean, out=np.ones_like(mean), where=mean > 0)) if is_poisson else (y - mean) ** 2
