"""What members offer: labels they know, weights they take, responses, checked and in the order of the classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from fastens.base import BaseFastens
from fastens.combining.parameters import NamedMembers, layers_of

Array = NDArray[np.float64]
Options = Mapping[str, Any]

WEIGHT = "sample_weight"
METHODS = ("predict_proba", "decision_function", "predict")
# What scikit-learn and LightGBM, and CatBoost, call the weights of classes.
_CLASS_WEIGHTS = ("class_weight", "class_weights")
# Where searches of scikit-learn have the values that they try.
_SEARCHED = ("param_grid", "param_distributions")
# Probabilities may be float16, or have been rounded one by one.
_SUM_TOLERANCE = 1e-2
# Sums of weights that differ by less, relatively, are equal but for rounding.
_ROUNDING = 1e-9


class MemberError(ValueError):
    """A member of an ensemble could not be fitted, or its response is malformed."""


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


def is_all_ours(member: Any, methods: Sequence[str] = ("fit", *METHODS)) -> bool:
    """Whether a member is of ours, and of no derived class with methods of its own, of which nothing is known."""
    found = (getattr(type(member), name, None) for name in methods)
    return isinstance(member, BaseFastens) and all(
        method is None or str(getattr(method, "__module__", "")).startswith("fastens.") for method in found
    )


def knows_labels(member: Any) -> bool:
    """Whether a classifier knows the labels: ours, what was fitted before, and what has parameters that name labels.

    Others learn the places of classes.
    """
    return isinstance(member, BaseFastens) or _is_frozen(member) or _names_labels(member)


def _names_labels(member: Any) -> bool:
    """Whether a parameter of a classifier, of what it wraps or of what a search tries, is by label."""
    given = member.get_params() if hasattr(member, "get_params") else {}
    return any(_is_by_label(name.rpartition("__")[2], value) for name, value in given.items())


def _is_by_label(name: str, value: Any) -> bool:
    """Whether a parameter has labels: the positive one, of scorers too, or dicts of weights, one or for each target."""
    if name == "pos_label":
        return value is not None
    if name == "scoring":
        scorers = value.values() if isinstance(value, Mapping) else [value]
        return any(getattr(scorer, "_kwargs", {}).get("pos_label") is not None for scorer in scorers)
    several = value if isinstance(value, list | tuple) else [value]
    dicts = [each for each in several if isinstance(each, Mapping)]
    if name in _SEARCHED:
        tried = [(own.rpartition("__")[2], values) for grid in dicts for own, values in grid.items()]
        return any(_is_by_label(own, each) for own, found in tried if isinstance(found, list | tuple) for each in found)
    return name in _CLASS_WEIGHTS and len(dicts) > 0


def _is_frozen(member: Any) -> bool:
    """Whether a model was fitted before, or what is last in a pipeline, or what a wrapper such as calibration holds."""
    return any(isinstance(each, FrozenEstimator) for each in layers_of(member))


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


def added(parts: Iterable[Array]) -> Array:
    """The sum of what members say, one after another: NumPy's sums depend on how many rows there are."""
    return reduce(np.add, parts)


def with_ties(votes: Array) -> Array:
    """Votes of the classes; those as many as the most, up to rounding, are so exactly, and the first class wins."""
    most = votes.max(axis=1, keepdims=True)
    return np.where(votes >= most * (1 - _ROUNDING), most, votes)


def check_labels_known(what: str, found: NDArray[Any], labels: NDArray[Any]) -> None:
    """Raise MemberError for the first label that is not in `labels`."""
    known = set(labels.tolist())
    for label in found.tolist():
        if label not in known:
            places = np.array_equal(labels, np.arange(len(labels)))
            hint = ", the places of the classes in classes_, which it is fitted to" if places else ""
            raise MemberError(f"{what} must predict labels among {labels.tolist()}{hint}; got {label!r}.")


def label_places(what: str, response: Any, labels: NDArray[Any], n_rows: int) -> NDArray[np.intp]:
    """The index in `labels` of each predicted label."""
    found = np.asarray(response)
    _check_rows(what, found, n_rows, "one label for each row")
    found = found.reshape(n_rows)
    same = found[:, None] == labels
    if not same.any(axis=1).all():
        check_labels_known(what, found, labels)
    return same.argmax(axis=1)


def places_of_classes(what: str, known: NDArray[Any], labels: NDArray[Any]) -> list[int]:
    """The places in `labels` of the classes that a classifier has columns for."""
    check_labels_known(what, known, labels)
    place = {label: position for position, label in enumerate(labels.tolist())}
    return [place[label] for label in known.tolist()]


def class_response(
    what: str, model: Any, X: Any, method: str, labels: NDArray[Any], options: Options | None = None
) -> Array:
    """A classifier's response for each class in `labels`; classes it has not seen get the lowest value.

    `what` is the classifier's name in errors, `options` are further arguments of the method. The shape is (n_rows,
    n_classes), or (n_rows, 1) for a decision between two classes. MemberError for an unknown label, a response of
    another shape, or values that are no probabilities.
    """
    response, n_rows = getattr(model, method)(X, **(options or {})), X.shape[0]
    if method == "predict":
        return (label_places(what, response, labels, n_rows)[:, None] == np.arange(len(labels))).astype(np.float64)
    columns = places_of_classes(what, known_labels(what, model), labels)
    found = numbers_of(what, response)
    if method == "decision_function" and found.size == n_rows and len(columns) == 1:
        found = found.reshape(n_rows, 1)
    if method == "decision_function" and found.size == n_rows and len(columns) == 2:
        found = found.reshape(n_rows, 1) * (1 if columns[0] < columns[1] else -1)
        if len(labels) == 2:
            return found
        found, columns = np.hstack([-found, found]), sorted(columns)
    if found.shape != (n_rows, len(columns)):
        raise MemberError(
            f"{what} must give a column for each of its {len(columns)} classes; its {method} has the shape "
            f"{found.shape} for {n_rows} rows."
        )
    if not is_all_ours(model):
        _check_values(what, found, method)
    lowest = found.min() if method == "decision_function" and found.size else 0.0
    return in_order(found, columns, len(labels), lowest)


def in_order(found: Array, columns: list[int], n_labels: int, lowest: float) -> Array:
    """Columns at their places among those of all classes; `lowest` in the others."""
    if columns == list(range(n_labels)):
        return found
    out = np.full((len(found), n_labels), lowest)
    out[:, columns] = found
    return out


def known_labels(what: str, model: Any) -> NDArray[Any]:
    """The labels that a fitted classifier has columns for."""
    if not hasattr(model, "classes_"):
        raise MemberError(f"{what} must have classes_, the labels of its columns; {type(model).__name__} has none.")
    return np.asarray(model.classes_)


def number_response(what: str, model: Any, X: Any, several: bool = False, options: Options | None = None) -> Array:
    """A regressor's predictions, (n_rows, 1), or with `several` a column for each output."""
    found, n_rows = numbers_of(what, model.predict(X, **(options or {}))), X.shape[0]
    if not (several and found.ndim == 2 and len(found) == n_rows):
        _check_rows(what, found, n_rows, "one number for each row")
    if not is_all_ours(model):
        _check_values(what, found, "predict")
    return found.reshape(n_rows, -1)


def _check_rows(what: str, found: NDArray[Any], n_rows: int, needed: str) -> None:
    if found.shape not in ((n_rows,), (n_rows, 1)):
        raise MemberError(f"{what} must give {needed}; got the shape {found.shape} for {n_rows} rows.")


def numbers_of(what: str, response: Any) -> Array:
    """A response as numbers; MemberError for anything else."""
    try:
        return np.asarray(response, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MemberError(f"{what} must give numbers: {error}") from error


def _check_values(what: str, found: Array, method: str) -> None:
    """Raise MemberError for numbers that are not finite, and for probabilities that are none."""
    finite = np.isfinite(found)
    if not finite.all():
        raise MemberError(f"{what} must give finite numbers; got {found[~finite][0]} from its {method}.")
    if method != "predict_proba" or not found.size:
        return
    if found.min() < -_SUM_TOLERANCE:
        raise MemberError(f"{what} must give probabilities of at least 0; got {found.min()}.")
    sums = found.sum(axis=1)
    worst = np.abs(sums - 1).argmax()
    if abs(sums[worst] - 1) > _SUM_TOLERANCE:
        raise MemberError(f"{what} must give probabilities that sum to 1; got {found[worst].tolist()}.")


# Labels of several members --------------------------------------------------


def joint_classes(classes: NDArray[Any], index: Array, members: NamedMembers) -> tuple[NDArray[Any], Array]:
    """The union of these classes and those of fitted members, and each row's index in it."""
    joint = joined_labels([("y", classes), *labels_of_members(members)])
    return joint, np.searchsorted(joint, classes[index.astype(np.intp)]).astype(np.float64)


def labels_of_members(members: NamedMembers) -> list[tuple[str, NDArray[Any]]]:
    """The classes of the fitted members that have `classes_`, each with the member's name for an error."""
    known = [(name, member.classes_) for name, member in members if hasattr(member, "classes_")]
    return [(f"Member {name!r}", np.array(np.asarray(labels).tolist())) for name, labels in known]


def joined_labels(parts: list[tuple[str, NDArray[Any]]]) -> NDArray[Any]:
    """All labels, sorted; ValueError where some are text and some are not."""
    what, first = parts[0]
    for other, labels in parts[1:]:
        known, found = first.tolist(), labels.tolist()
        if isinstance(found[0], str) != isinstance(known[0], str):
            raise ValueError(f"{other} must know classes of the type of those of {what}, {known}; got {found[0]!r}.")
    return np.unique(np.concatenate([labels for _, labels in parts]))
