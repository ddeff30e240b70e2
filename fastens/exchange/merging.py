"""Merging of several fitted models into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.folds import interleave_by_round
from fastens.boosting.rounds import scaled_tree
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.exchange.foreign import HASHED
from fastens.exchange.from_model import without_fit
from fastens.forests.base_forest import BaseForest
from fastens.forests.random_splits import IsolationForest
from fastens.modelfile.saving import plain_parameter
from fastens.table.columns.numbers import numbers_in
from fastens.tree_model.saving import recode_to_common_binning
from fastens.tree_model.tree_model import column_constraints

# Parameters of boosted models on which predictions depend, in addition to trees and classes.
_OF_LOSS = ("loss", "quantile")
# Learned attributes that must be equal in all models, by their names in error messages.
_LEARNED = {
    "classes": "classes_",
    "number of targets": "_n_targets",
    "form of class probabilities": "_has_all_shares",
    "rows for each tree": "max_samples_",
    "offset_": "offset_",
}
# Attributes of the encoders of imported models.
_CONVENTIONS = ("conventions", "missing_number", "absent_is_missing")
# Parameters of forests that do not apply to a merged forest: bags are not merged, and the leaves already hold averages
# over prunings.
_OF_BAGS = {"bootstrap": False, "max_samples": None, "averaging": None, "oob_score": False}


def merge_models(models: Sequence[Any], weights: ArrayLike | None = None) -> Any:
    """Merge several fitted models into one: the mean of boosted models, or a forest of all trees.

    The models may have been trained on different rows and may have seen different categories. The merged model has the
    parameters of the first model. It can be saved, exported, explained and continued with ``warm_start=True`` like any
    other model.

    Parameters
    ----------
    models : sequence of fitted models
        Gradient boosting models, random forests, extra trees or isolation forests. All must be of the same class, with
        the same columns, classes and loss.
    weights : array of shape (n_models,), optional
        Weights of boosted models in the mean of raw predictions; models with larger weights contribute more. Weights
        must be at least 0 and not all 0. If None, all models have equal weights. It must be None for forests, because
        each tree of a merged forest counts the same.

    Returns
    -------
    A fitted model
        A model whose raw predictions are the mean of the models' raw predictions, up to rounding. The boosting rounds
        of the models alternate, so ``merged[:n]`` contains the first rounds of each model. Evaluation histories,
        out-of-bag scores and calibrations are not merged.

    Raises
    ------
    TypeError
        If a model cannot be merged, or the models belong to different classes.
    ValueError
        If the models differ in a parameter or attribute that must be equal, which the message names; if
        ``loss="cox"``, because each model has its own baseline hazard; if only some models have linear leaves; or if
        the models encode categories by different target statistics.

    See Also
    --------
    VotingRegressor : Averages the predictions of estimators of any kind.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor, merge_models
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> parts = [GradientBoostingRegressor(n_estimators=20).fit(X[rows::2], y[rows::2]) for rows in (0, 1)]
    >>> merged = merge_models(parts)
    >>> mean = (parts[0].predict(X) + parts[1].predict(X)) / 2
    >>> bool(abs(merged.predict(X) - mean).max() < 1e-9)
    True
    """
    if not isinstance(models, Iterable):
        raise TypeError(f"models must be a sequence of fitted models; got {models!r}.")
    fitted = list(models)
    _check_classes(fitted)
    for model in fitted:
        model._check_fitted()
    fitted = [model._as_fitted() for model in fitted]
    first = fitted[0]
    if hasattr(first, "cumulative_hazard_"):
        raise ValueError("loss must not be 'cox', because each model has its own baseline hazard.")
    for number, model in enumerate(fitted[1:], 1):
        _check_mergeable(first, model, f"models[{number}]")
    shares = _normalised_weights(weights, len(fitted), boosted=isinstance(first, BoostedTrees))
    encoder = first._encoder
    for model in fitted[1:]:
        encoder = encoder.joined(model._encoder.categories)
    ensembles = recode_to_common_binning(fitted, encoder)
    merged = _mean_of_ensembles(ensembles, shares) if isinstance(first, BoostedTrees) else _all_trees(ensembles)
    return _merged_estimator(first, merged, encoder)


def _check_classes(models: list[Any]) -> None:
    """Raise ValueError for no models, and TypeError unless all are boosting models or forests of one class."""
    if not models:
        raise ValueError("models must contain at least one model; got an empty sequence.")
    for number, model in enumerate(models):
        if not isinstance(model, BoostedTrees | BaseForest | IsolationForest):
            raise TypeError(
                f"models[{number}] must be a gradient boosting model or a forest of fastens; got "
                f"{type(model).__name__}."
            )
        if type(model) is not type(models[0]):
            raise TypeError(
                f"models[{number}] must be of the same class as models[0], {type(models[0]).__name__}; got "
                f"{type(model).__name__}."
            )


def _check_mergeable(first: Any, model: Any, name: str) -> None:
    """Raise ValueError if `model`, named `name` in the message, differs from `first` so that merging is impossible."""
    pairs: dict[str, tuple[Any, ...]] = {
        "names of columns": (first._encoder.names, model._encoder.names),
        "number of columns": (first.n_features_in_, model.n_features_in_),
    }
    both = first, model
    pairs["categorical columns"] = tuple(np.flatnonzero(each._encoder.is_categorical).tolist() for each in both)
    encoders = [each._encoder for each in both]
    pairs["ordered categories"] = tuple(
        {column: each.categories[column] for column in each.ordered} for each in encoders
    )
    for what in ("missing_is_category", "date_parts", "repeated", *_CONVENTIONS):
        pairs[what] = tuple(plain_parameter(getattr(each._encoder, what, None)) for each in both)
    pairs["terms of texts and lengths of lists"] = tuple(
        [(column, expanded.to_state()) for column, expanded in each._encoder.expanded.items()] for each in both
    )
    for what in _OF_LOSS:
        pairs[what] = tuple(plain_parameter(getattr(each, what, None)) for each in both)
    for what, attribute in _LEARNED.items():
        pairs[what] = tuple(_as_lists(getattr(each, attribute, None)) for each in both)
    pairs["linear_leaves"] = tuple(not each._ensemble.has_constant_leaves for each in both)
    pairs["trees in a round"] = tuple(each._ensemble.trees_per_round for each in both)
    for what, (expected, other) in pairs.items():
        if expected != other:
            raise ValueError(f"{name} must have the same {what} as models[0], {expected!r}; got {other!r}.")
    rules, others = column_constraints(first), column_constraints(model)
    if differing := [what for what in rules if rules[what] != others[what]]:
        what = differing[0]
        raise ValueError(
            f"{name} must have the same {what} as models[0], {getattr(first, what)!r}, because the merged "
            f"model keeps it; got {getattr(model, what)!r}. Fit all models with the same {what}."
        )
    _check_encodings(first, model, name)


def _check_encodings(first: Any, model: Any, name: str) -> None:
    """Raise ValueError if `model`, named `name` in the message, encodes categories differently from `first`."""
    expected, other = first._statistics_arrays(), model._statistics_arrays()
    is_same = expected.keys() == other.keys() and all(
        np.array_equal(expected[key], other[key], equal_nan=True) for key in expected
    )
    if not is_same or (expected and first._encoder.categories != model._encoder.categories):
        raise ValueError(
            f"{name} must have the same target statistics as models[0], but these depend on the training rows. Fit "
            "the models with categories=Categories(encoding='partition'), which uses no target statistics."
        )
    if HASHED in getattr(first._encoder, "conventions", {}).values() and (
        first._encoder.categories != model._encoder.categories
    ):
        raise ValueError(f"{name} must have the same categories as models[0], because only their hashes are known.")
    same_kinds = first._ensemble.binning.is_categorical == model._ensemble.binning.is_categorical
    if not same_kinds.all():
        raise ValueError(
            f"{name} must split each column the same way as models[0], by thresholds or by category sets; "
            f"column {int(first._column_of[np.flatnonzero(~same_kinds)[0]])} differs."
        )


def _as_lists(learned: Any) -> Any:
    """Return an attribute with arrays, also nested ones, converted to lists, so that two can be compared."""
    return [_as_lists(each) for each in learned] if isinstance(learned, list | np.ndarray) else plain_parameter(learned)


def _normalised_weights(weights: ArrayLike | None, n_models: int, *, boosted: bool) -> NDArray[np.float64]:
    """Return the models' weights, divided by their sum; equal weights if None.

    Raises ValueError for invalid weights, and for any weights unless the models are `boosted`.
    """
    if weights is None:
        return np.full(n_models, 1 / n_models)
    if not boosted:
        raise ValueError(f"weights must be None for forests, because each tree has the same weight; got {weights!r}.")
    shares = numbers_in(weights, "weights")
    if shares.shape != (n_models,) or not np.isfinite(shares).all() or (shares < 0).any() or not shares.any():
        raise ValueError(
            f"weights must be {n_models} finite, non-negative numbers that are not all zero, one for each "
            f"model; got {weights!r}."
        )
    return shares / shares.sum()


def _mean_of_ensembles(ensembles: list[TreeEnsemble], shares: NDArray[np.float64]) -> TreeEnsemble:
    """Return an ensemble whose raw prediction is the weighted mean of the ensembles' raw predictions."""
    first, per_round = ensembles[0], ensembles[0].trees_per_round
    trees = [_scaled_trees(each, share) for each, share in zip(ensembles, shares.tolist(), strict=True)]
    outputs = interleave_by_round([each.tree_output.tolist() for each in ensembles], per_round)
    baseline = shares @ np.stack([each.baseline for each in ensembles])
    return type(first).from_trees(interleave_by_round(trees, per_round), outputs, baseline, first.binning)


def _scaled_trees(trees: TreeEnsemble, share: float) -> list[Tree]:
    """Return the trees with leaf values multiplied by `share`, in double precision."""
    in_double = (replace(tree, value=tree.value.astype(np.float64)) for tree in trees.separate_trees())
    return [scaled_tree(tree, share, None) for tree in in_double]


def _all_trees(ensembles: list[TreeEnsemble]) -> TreeEnsemble:
    """Return an ensemble with the trees of all ensembles in order, and the baseline and bins of the first one."""
    first = ensembles[0]
    trees = [tree for each in ensembles for tree in each.separate_trees()]
    outputs = np.concatenate([each.tree_output for each in ensembles])
    return type(first).from_trees(trees, outputs, first.baseline, first.binning)


def _merged_estimator(first: Any, merged: TreeEnsemble, encoder: Any) -> Any:
    """Return a fitted model with the parameters of the first model and the merged trees."""
    kind, n_rounds = type(first), merged.n_trees // merged.trees_per_round
    changes = _OF_BAGS if isinstance(first, BaseForest) else {"oob_score": False}
    changes = {name: value for name, value in changes.items() if name in first._parameter_rules}
    # The constructor of a subclass may have fewer parameters.
    model = kind(**first.get_params(deep=False))
    vars(model).update(changes | {"n_estimators": n_rounds})
    names = [name for name in (*_LEARNED.values(), "_statistics") if name in vars(first)]
    vars(model).update(without_fit(kind, n_rounds) | {name: vars(first)[name] for name in names})
    model._encoder, model._ensemble = encoder, merged
    model._set_columns()
    model._restored()
    return model
