"""From sums of trees with a link, as formats without objectives have them, to estimators."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastens.exchange.reading.records import Columns, ForeignModel, by_round, join_trees, refuse
from fastens.exchange.reading.vectors import with_vectors
from fastens.forests.isolation import mean_depth

_REGRESSOR, _CLASSIFIER = "GradientBoostingRegressor", "GradientBoostingClassifier"
_OF_NUMBERS = {
    "identity": "squared_error",
    "signed_square": "squared_error_of_root",
    "sigmoid": "cross_entropy",
    "exponential": "poisson",
    "logarithm_one_plus_exp": "cross_entropy_lambda",
}
# Links of no class, which treelite gives to the task of two classes all the same.
_OF_NO_CLASS = ("exponential", "logarithm_one_plus_exp", "signed_square")
_MOST_SAMPLES = 1 << 20


@dataclass(frozen=True)
class Outputs:
    """What becomes of the sums of trees.

    Attributes
    ----------
    n_outputs, n_targets : int
        How many sums a row has; targets.
    averages : bool
        Whether sums are divided by the number of trees.
    n_averaged : int
        How many trees means are over; 0 for those of each output.
    baseline : sequence of float
        What is added to the sums.
    is_classifier, is_ranking : bool
        The task.
    link : str
        treelite's name of what is made of them; "isolation" for 2 to the power of minus the mean over `alpha`.
    alpha : float
        The factor of "sigmoid" and "multiclass_ova".
    classes : sequence or None
        Labels; 0, 1, ... by default.
    """

    n_outputs: int
    n_targets: int = 1
    averages: bool = False
    n_averaged: int = 0
    baseline: Sequence[float] = (0.0,)
    is_classifier: bool = False
    is_ranking: bool = False
    link: str = "identity"
    alpha: float = 1.0
    classes: Any = None


def sum_of_trees(
    parts: list[dict[str, Any]], output: Any, columns: Columns, outputs: Outputs, note: dict[str, Any] | None = None
) -> ForeignModel:
    """Return the record of a model.

    Parameters
    ----------
    parts : list of dict
        Trees, as `join_trees` takes them.
    output : array of int
        The sum that each tree of one value adds to.
    columns : Columns
        The columns.
    outputs : Outputs
        What becomes of the sums.
    note : dict, optional
        What `export` noted.
    """
    order = by_round(np.asarray(output, dtype=np.int64), outputs.n_outputs)
    trees = join_trees([parts[index] for index in order], np.asarray(output)[order])
    baseline = np.array(outputs.baseline, dtype=np.float64)
    if len(baseline) not in (1, outputs.n_outputs) or not np.isfinite(baseline).all():
        raise refuse(f"there must be {outputs.n_outputs} finite base scores; got {baseline.tolist()[:8]}")
    baseline = np.broadcast_to(baseline, outputs.n_outputs).copy()
    is_by_output = outputs.n_averaged in (0, len(trees.roots) / outputs.n_outputs)
    if outputs.averages and is_by_output and not baseline.any() and trees.value.shape[1] < outputs.n_outputs:
        trees = with_vectors(trees, outputs.n_outputs) or trees
    found = ForeignModel("", trees, columns, baseline.tolist(), n_targets=outputs.n_targets, note=note)
    is_forest = outputs.averages and not baseline.any() and (trees.value.shape[1] > 1 or outputs.n_outputs == 1)
    if outputs.link == "isolation":
        sizes = range(2, _MOST_SAMPLES)
        place = bisect_left(sizes, outputs.alpha, key=_depth_of)
        nearest = min(sizes[max(place - 1, 0) : place + 1], key=lambda n: abs(_depth_of(n) - outputs.alpha))
        found.estimator, found.fitted = "IsolationForest", {"max_samples_": nearest, "offset_": -0.5}
        return found
    is_classifier = outputs.is_classifier and outputs.link not in _OF_NO_CLASS
    if is_classifier or outputs.link in ("hinge", "softmax", "multiclass_ova", "identity_multiclass"):
        _set_classes(found, outputs, is_forest=is_forest)
    elif is_forest and outputs.link == "identity":
        found.estimator = "RandomForestRegressor"
    elif outputs.link not in _OF_NUMBERS:
        raise refuse(f"the link {outputs.link[:40]!r} cannot be read")
    else:
        found.estimator = "GradientBoostingRanker" if outputs.is_ranking else _REGRESSOR
        found.parameters = {} if outputs.is_ranking else {"loss": _OF_NUMBERS[outputs.link]}
        _scale(found, outputs, outputs.alpha if outputs.link == "sigmoid" else 1.0)
    return found


def _depth_of(n: int) -> float:
    return float(mean_depth(np.array(n)))


def _set_classes(found: ForeignModel, outputs: Outputs, *, is_forest: bool) -> None:
    per_target = outputs.n_outputs // outputs.n_targets
    n_classes = max(2, per_target)
    classes = np.arange(n_classes) if outputs.classes is None else np.asarray(outputs.classes)
    if len(classes) != n_classes or len(set(classes.tolist())) != n_classes:
        raise refuse(f"there must be {n_classes} different labels; got {classes.tolist()[:8]}")
    found.classes = classes if outputs.n_targets == 1 else [classes] * outputs.n_targets
    if outputs.link in ("identity", "identity_multiclass") and (per_target > 1 or is_forest):
        found.estimator, found.fitted = "RandomForestClassifier", {"_has_all_shares": per_target > 1}
        n_trees = len(found.trees.roots)
        if not is_forest and trees_are_one_output(found):
            raise refuse("trees that add to one class each must have a link from scores to probabilities")
        if not outputs.averages:
            found.trees.value = found.trees.value * n_trees
        return
    found.estimator = _CLASSIFIER
    is_several = outputs.link == "multiclass_ova"
    found.parameters = {"loss": "one_vs_rest" if is_several else "log_loss"}
    _scale(found, outputs, outputs.alpha if outputs.link in ("sigmoid", "multiclass_ova") else 1.0)


def trees_are_one_output(found: ForeignModel) -> bool:
    """Whether trees have one value, of several outputs."""
    return found.trees.value.shape[1] == 1 and len(found.baseline) > 1


def _scale(found: ForeignModel, outputs: Outputs, factor: float) -> None:
    """Multiply sums, and divide them by the number of trees where they are means."""
    if not factor > 0:
        raise refuse(f"the factor of the link must be positive; got {factor}")
    found.baseline = [float(value) * factor for value in found.baseline]
    if outputs.averages:
        n_trees = len(found.trees.roots)
        n_own = n_trees if found.trees.value.shape[1] > 1 else n_trees / outputs.n_outputs
        factor /= outputs.n_averaged or n_own
    found.trees.value = found.trees.value * factor
