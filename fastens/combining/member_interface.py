"""What members offer an ensemble: the method they respond by, the labels they know, and the weights they take."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fastens.base import BaseFastens
from fastens.combining.responses import METHODS

WEIGHT = "sample_weight"


def resolve_method(name: str, member: Any, wanted: str, is_classification: bool, remedy: str = "") -> str:
    """The method whose responses are used; an error ends with the remedy."""
    if not is_classification:
        return "predict"
    # A stack of scikit-learn with its default final estimator, by itself or in a pipeline, has them once it is fitted.
    found: Any = member if hasattr(member, "predict") else type(member)
    for method in METHODS if wanted == "auto" else (wanted,):
        if hasattr(found, method):
            return method
    raise ValueError(f"Member {name!r} must have the method {wanted}; {type(member).__name__} does not.{remedy}")


def knows_labels(member: Any) -> bool:
    """Whether a classifier knows the labels: ours, and what was fitted before. Others learn the places of classes."""
    return isinstance(member, BaseFastens) or _is_frozen(member)


def _is_frozen(member: Any) -> bool:
    """Whether a model was fitted before, or what is last in a pipeline, or what a wrapper such as calibration holds."""
    while not isinstance(member, FrozenEstimator):
        member = member.steps[-1][1] if isinstance(member, Pipeline) else getattr(member, "estimator", None)
        if not hasattr(member, "fit"):
            return False
    return True


def weight_name(member: Any) -> str | None:
    """What `fit` of a member calls the weights of rows, for itself or for what it wraps; None where it takes none."""
    if has_fit_parameter(member, WEIGHT) or isinstance(member, FrozenEstimator):
        return WEIGHT
    if isinstance(member, Pipeline):
        step, last = member.steps[-1]
        found = weight_name(last)
        return None if found is None else f"{step}__{found}"
    if not _passes_on(member):
        return None
    if isinstance(getattr(member, "estimators", None), list | tuple):  # votes and stacks of scikit-learn
        return WEIGHT
    wrapped = getattr(member, "estimator", getattr(member, "regressor", None))
    return None if wrapped is None else weight_name(wrapped)


def _passes_on(member: Any) -> bool:
    """Whether `fit` takes arguments by any name, as searches and other wrappers of scikit-learn do."""
    return any(each.kind is Parameter.VAR_KEYWORD for each in signature(member.fit).parameters.values())
