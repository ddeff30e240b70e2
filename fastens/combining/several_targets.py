"""Responses of classifiers for several targets: of two classes a column for the second, of more one for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.combining.responses import MemberError, Options, in_order, label_places, numbers_of, places_of_classes
from fastens.table.labels import columns_of_labels

Array = NDArray[np.float64]
Labels = list[NDArray[Any]]


def n_columns(classes: Any) -> int:
    """The number of columns that the response for one target, or for a list of them, has in a later level's table."""
    of_targets = classes if isinstance(classes, list) else [classes]
    return sum(1 if len(own) == 2 else len(own) for own in of_targets)


def labels_of(index: NDArray[Any], classes: Any) -> NDArray[Any]:
    """The labels that indices of classes stand for, (n_rows,) or (n_rows, n_targets)."""
    index = index.astype(np.intp)
    if not isinstance(classes, list):
        return classes[index]
    return columns_of_labels(own[places] for own, places in zip(classes, index.T, strict=True))


def places_in(classes: Any, labels: NDArray[Any]) -> NDArray[np.intp]:
    """The inverse of `labels_of`, of labels that there are."""
    if not isinstance(classes, list):
        return np.searchsorted(classes, labels)
    return np.column_stack([np.searchsorted(own, column) for own, column in zip(classes, labels.T, strict=True)])


def predicted_places(what: str, response: Any, labels: Labels, n_rows: int) -> NDArray[np.intp]:
    """The index in `labels` of each predicted label, (n_rows, n_targets)."""
    found = np.asarray(response)
    if found.shape != (n_rows, len(labels)):
        raise MemberError(f"{what} must give a label for each of {len(labels)} targets; got the shape {found.shape}.")
    columns = zip(found.T, labels, strict=True)
    return np.column_stack([label_places(what, column, own, n_rows) for column, own in columns])


def probabilities(what: str, model: Any, X: Any, labels: Labels, options: Options | None = None) -> list[Array]:
    """The probabilities of each target's classes, from a list of them or from those of the second of two classes."""
    found = model.predict_proba(X, **(options or {}))
    if isinstance(found, list):
        if len(found) != len(labels):
            raise MemberError(f"{what} must give probabilities for {len(labels)} targets; got them for {len(found)}.")
        return [
            in_order(numbers_of(what, part), places_of_classes(what, np.asarray(known), own), len(own), 0.0)
            for part, known, own in zip(found, model.classes_, labels, strict=True)
        ]
    return [np.column_stack([1 - second, second]) for second in _of_two_classes(what, found, labels, X.shape[0]).T]


def several_response(
    what: str, model: Any, X: Any, method: str, labels: Labels, options: Options | None = None
) -> Array:
    """A classifier's response for each target, (n_rows, `n_columns`).

    `what` is the classifier's name in errors, `options` are further arguments of the method. MemberError for labels
    that are not in `labels`, and for a response of another shape.
    """
    if method == "decision_function":
        return _of_two_classes(what, model.decision_function(X, **(options or {})), labels, X.shape[0])
    if method == "predict":
        places = predicted_places(what, model.predict(X, **(options or {})), labels, X.shape[0])
        parts = [np.eye(len(own))[column] for own, column in zip(labels, places.T, strict=True)]
    else:
        parts = probabilities(what, model, X, labels, options)
    return np.hstack([part[:, 1:] if part.shape[1] == 2 else part for part in parts])


def _of_two_classes(what: str, response: Any, labels: Labels, n_rows: int) -> Array:
    """A column for each target, all of which have two classes."""
    found = numbers_of(what, response)
    if found.shape != (n_rows, len(labels)) or any(len(own) != 2 for own in labels):
        sizes = [len(own) for own in labels]
        raise MemberError(f"{what} must give values for targets of {sizes} classes; got the shape {found.shape}.")
    return found
