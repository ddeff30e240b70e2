"""Voting rounds of AdaBoost, and access to its trees as estimators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from fastens.adaboost.weak_learners import (
    BinnedRows,
    Estimators,
    Stumps,
    Trees,
    Vote,
    VotingRules,
    VotingRun,
    Weak,
    check_single_rank,
    class_values,
    draws_rows,
    encode_classes,
    with_categorical_columns,
)
from fastens.base import TrainingData
from fastens.engine.bins.binning import binned, codes_of, learn_binning
from fastens.engine.comm import Comm, sum_ints
from fastens.engine.forest.forests import ForestParameters, class_target
from fastens.engine.grow.stumps import StumpLearner
from fastens.engine.parts import in_memory
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.forests.bags import draw_seed
from fastens.forests.parameters import breaks_ties_at_random, forest_parameters
from fastens.forests.tree import DecisionTreeClassifier, Members, single_tree
from fastens.tree_model.saving import bins_of_features
from fastens.tree_model.tree_model import monotone_columns, path_rules

# Parameters of a decision tree that the shared grower does not support, so trees that set them are not grown on shared
# bins; and the attributes of the model that the growth parameters depend on.
_NOT_OF_GROWTH = (
    "class_weight",
    "averaging",
    "ccp_alpha",
    "categorical_features",
    "text_features",
    "categories",
    "min_weight_fraction_leaf",
)
_COLUMNS = ("n_features_in_", "feature_names_in_", "classes_", "_encoder", "_n_plain_features", "_statistics")


def start_voting(model: Any, data: TrainingData, validation: TrainingData | None, n_earlier: int) -> VotingRun:
    """Return the state of a fit after the first `n_earlier` rounds of the last fit, replayed on the rows.

    `validation` may be None. Raise ValueError if a warm start changes between trees and other estimators.
    """
    classes = encode_classes(data.y, len(model.classes_))
    data = model._learn_same_statistics(data, 0) if n_earlier else model._learn_statistics(data, 0)
    if validation is not None:
        validation = model._apply_statistics(validation)
    run = voting_run(model, data, classes, None if validation is None else validation.X)
    if n_earlier and isinstance(run.learner, Estimators) != ("_ensemble" not in vars(model)):
        raise ValueError(
            "estimator must be None (or a tree of fastens) in both fits or in neither with warm_start=True; "
            f"got {model.estimator!r}."
        )
    if validation is not None:
        run.validate_on(encode_classes(validation.y, len(model.classes_)), validation.sample_weight)
    drawn = model._drawn
    has_same_rows = drawn is not None and run.order is not None and drawn.order == crc32(run.order.tobytes())
    for index in range(n_earlier):
        vote = earlier_vote(model, index, run.learner)
        run.add(vote._replace(drawn=drawn.counts[index]) if has_same_rows else vote)
    return run


def voting_run(model: Any, data: TrainingData, classes: NDArray[np.uint16], X_val: Any) -> VotingRun:
    """Return the state of a fit before its first round; `X_val` is the encoded validation table or None."""
    learner = _make_learner(model, data, classes, X_val)
    return VotingRun(learner, classes, data.sample_weight, _voting_rules(model, data.comm), data.comm)


def _make_learner(
    model: Any, data: TrainingData, classes: NDArray[np.uint16], X_val: Any
) -> Estimators | Stumps | Trees:
    """Return the object that fits weak classifiers: stumps, trees or clones of `estimator`.

    Rows are binned here, once for all rounds. `X_val` is the encoded validation table or None.
    """
    n_classes, n_threads, comm = len(model.classes_), resolve_n_jobs(model.n_jobs), data.comm
    # With a single class, stumps without a split are sufficient, whereas other estimators may raise an error.
    has_estimator = model.estimator is not None and n_classes > 1
    own_rules = _shared_bin_parameters(model, data) if has_estimator else None
    if has_estimator and own_rules is None:
        check_single_rank(model.estimator, comm)
        estimator = with_categorical_columns(model.estimator, model._is_categorical)
        return Estimators(estimator, model.classes_, in_memory(data.X), classes, in_memory(X_val))
    if "_ensemble" in vars(model):
        binning = model._ensemble.binning
    else:
        max_bins = bins_of_features(model, model.estimator if has_estimator else model)
        binning = learn_binning(data.X, data.sample_weight, max_bins, model._is_categorical, n_threads, comm)
    validation_codes = None if X_val is None else codes_of(binning, X_val, n_threads)
    rules = own_rules or ForestParameters(
        model.criterion, max_depth=model.max_depth, monotone=monotone_columns(model), **path_rules(model)
    )
    if n_classes == 1 or (own_rules is None and rules.monotone is None and model.max_depth == 1):
        rows = BinnedRows(binning, codes_of(binning, data.X, n_threads), validation_codes, n_threads)
        finder = StumpLearner(binning, rows.columns, classes, n_classes, model.criterion, n_threads)
        return Stumps(rows, finder, comm)
    matrix = binned(binning, data.X, n_threads, comm)
    rows = BinnedRows(binning, matrix.columns, validation_codes, n_threads)
    return Trees(rows, matrix, class_target(classes, [n_classes]), rules, n_threads)


def _shared_bin_parameters(model: Any, data: TrainingData) -> ForestParameters | None:
    """Return growth parameters if `estimator` is a DecisionTreeClassifier that can share the bins, else None."""
    if type(model.estimator) is not DecisionTreeClassifier:
        return None
    parameters, plain = model.estimator.get_params(), DecisionTreeClassifier().get_params()
    if any(parameters[name] != plain[name] for name in _NOT_OF_GROWTH):
        return None
    template = clone(model.estimator)
    template._check_parameters()
    vars(template).update({name: vars(model)[name] for name in _COLUMNS if name in vars(model)})
    (n_rows,) = sum_ints(data.comm, len(data.y))
    return forest_parameters(template, n_rows, float(n_rows), in_random_order=breaks_ties_at_random(template))


def earlier_vote(model: Any, index: int, learner: Any) -> Vote:
    """Return the vote of round `index` of the last fit, with its codes of the rows that `learner` holds."""
    is_real, weight = model.algorithm == "real", model.estimator_weights_[index]
    if isinstance(learner, Estimators):
        weak, values = learner.wrap_fitted(model._models[index]), model._values[index]
    else:
        tree = model._ensemble.tree(index)
        codes, validation_codes = learner.rows.nodes(tree)
        weak = Weak(tree, codes, validation_codes, None, np.zeros(0, np.intp), None)
        values = class_values(np.array(tree.value), is_real)
        # The values of inner nodes are not used. They are copied from a leaf so that they are never the only maximum.
        values[tree.left_child > 0] = values[-1]
    return Vote(weak, values, weight, model.estimator_errors_[index], bool(model.restarted_[index]))


def _voting_rules(model: Any, comm: Comm) -> VotingRules:
    """Return the settings of the voting rounds from the model's parameters, with a seed if rows are drawn."""
    resample = draws_rows(model)
    return VotingRules(
        n_classes=len(model.classes_),
        n_rounds=model.n_estimators,
        is_real=model.algorithm == "real",
        learning_rate=model.learning_rate,
        is_m1=model.algorithm == "m1",
        resample=resample,
        restarts=resample if isinstance(model.restart, str) else bool(model.restart),
        n_iter_no_change=model.n_iter_no_change,
        tol=model.tol,
        seed=comm.allgather(draw_seed(model.random_state))[0] if resample else 0,
        n_threads=resolve_n_jobs(model.n_jobs),
    )


class WeakTrees(Members):
    """Sequence of the trees of an AdaBoost model, created on access; leaves predict the class that they vote for."""

    def _member(self, t: int) -> Any:
        """Return tree number `t` as a fitted decision tree that predicts the class it votes for, or its number."""
        model, trees = self._forest, self._forest._ensemble
        tree = trees.tree(t)
        if hasattr(model, "classes_"):
            tree = replace(tree, value=_vote_probabilities(tree))
        made = single_tree(model, TreeEnsemble.from_trees([tree], [0], np.zeros(trees.n_outputs), trees.binning))
        made.random_state = t
        return made


def _vote_probabilities(tree: Tree) -> NDArray[np.float64]:
    """Return each node's class probabilities, (n_nodes, n_classes): 1 for the class with the largest value.

    For two classes, the only column is the probability of the second class.
    """
    if tree.value.shape[1] == 1:
        return (tree.value > 0).astype(np.float64)
    return np.eye(tree.value.shape[1])[tree.value.argmax(axis=1)]
