"""Targets: encoding of class labels, and checks of labels and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, shared
from fastens.engine.whole import are_whole
from fastens.table.arrays import dense
from fastens.table.columns.copy_blocks import map_codes
from fastens.table.columns.factorize import factorize, is_missing, plain_value
from fastens.table.columns.numbers import unmasked


def _check_labels(y: NDArray[Any]) -> None:
    """Raise ValueError if an array that is not of objects does not hold labels."""
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise ValueError("Input y contains " + ("NaN." if np.isnan(y).any() else "infinity."))
        if not are_whole(y):
            raise ValueError(
                "Unknown label type: continuous. A classifier needs classes; y holds numbers that are not whole, "
                "which are a target for a regressor."
            )
    elif y.dtype.kind not in "biuU":
        raise ValueError(f"Unknown label type: y holds {y.dtype}; labels must be strings, whole numbers or booleans.")


def _labels_of_objects(values: list[Any]) -> NDArray[Any]:
    """Return objects that are all strings, or all numbers, as an array of that type."""
    if any(is_missing(value) for value in values):
        raise ValueError("Input y contains NaN.")
    values = [plain_value(value) for value in values]
    if all(isinstance(value, str) for value in values):
        cut = next((value for value in values if value.endswith("\0")), None)
        if cut is not None:
            raise ValueError(f"y must hold labels that do not end in NUL, which strings of NumPy lose; got {cut!r}.")
        return np.array(values, dtype=np.str_)
    array = _without_longdouble(np.array(values))
    if array.dtype.kind == "O" and all(type(value) is int for value in values):
        wide = max(values, key=abs)
        raise ValueError(f"y must hold labels that are integers of 64 bits; got {wide}. Pass the labels as strings.")
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        kinds = sorted({type(value).__name__ for value in values})
        raise _mixed_labels(kinds)
    if array.dtype.kind == "f" and all(type(value) is int and 0 <= value < 2**64 for value in values):
        return np.array(values, dtype=np.uint64)
    _check_labels(array)
    changed = next((value for value, kept in zip(values, array.tolist(), strict=True) if value != kept), None)
    if changed is not None:
        raise ValueError(f"y must hold labels that one type of numbers holds; got {changed!r} beside others.")
    return array


def _mixed_labels(kinds: list[str], name: str = "y") -> ValueError:
    return ValueError(
        f"Unknown label type: {name} holds {', '.join(kinds)}; labels must be all strings or all numbers."
    )


def _without_longdouble(y: NDArray[Any]) -> NDArray[Any]:
    """Return the labels as a type that can be saved, with long doubles as float64."""
    return y.astype(np.float64) if y.dtype.kind == "f" and y.dtype.itemsize > 8 else y


def labels_to_score(y: Any) -> Any:
    """Return labels in a form that scikit-learn's metrics accept, with an object column as its actual type."""
    array = unmasked(y, "y")
    if array.dtype.kind != "O" or array.ndim == 0 or array.size > len(array):
        return array
    return _labels_of_objects(array.ravel().tolist())


def share_right(y: Any, predicted: NDArray[Any], *, sample_weight: Any = None) -> float:
    """Return the accuracy, or the subset accuracy if there are several targets.

    `sklearn.metrics.accuracy_score` supports several targets only if each of them is binary.
    """
    from sklearn.metrics import accuracy_score

    if predicted.ndim == 1:
        return float(accuracy_score(labels_to_score(y), predicted, sample_weight=sample_weight))
    y = unmasked(dense(y), "y")
    if y.shape != predicted.shape:
        raise ValueError(f"y must have the shape {predicted.shape} of the predictions; got {y.shape}.")
    if y.dtype.kind in "fO" and any(map(is_missing, y.ravel().tolist())):
        raise ValueError("Input y contains NaN.")
    if predicted.dtype.kind == "U" and y.dtype.kind != "U":
        y = np.array(y.tolist(), dtype=np.str_)
    return float(np.average((y == predicted).all(axis=1), weights=sample_weight))


def _distinct_labels(y: NDArray[Any]) -> tuple[NDArray[np.integer], list[Any], NDArray[Any]]:
    """Return the index of each row's label in a list, that list, and an array of its labels that are not None."""
    if y.dtype.kind != "O":
        y = _without_longdouble(y)
        _check_labels(y)
        codes, values, _ = factorize(y)
        return codes, values, np.array([value for value in values if value is not None], dtype=y.dtype)
    try:
        codes, values, _ = factorize(y)
    except TypeError:  # the label is not hashable
        codes, values = np.arange(y.size), y.tolist()
    return codes, values, _labels_of_objects([None] if codes.size and codes.min() < 0 else values)


@shared
def learn_labels(
    y: NDArray[Any], comm: Comm = LOCAL, fewest: int = 2, name: str = "y"
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the classes of a target, of which there must be at least `fewest`, and the class index of each row."""
    classes, index = encode_labels(y)
    if comm.size > 1:
        of_ranks = [found for found in comm.allgather(classes) if found.size]
        if len({found.dtype.kind == "U" for found in of_ranks}) > 1:
            kinds = sorted({type(value).__name__ for found in of_ranks for value in found.tolist()})
            raise _mixed_labels(kinds, name)
        own, classes = classes, np.unique(np.concatenate(of_ranks or [classes]))
        if classes.size > own.size:  # the classes of this rank are a subset
            index = np.searchsorted(classes, own).astype(np.float64)[index.astype(np.intp)]
    if classes.size < fewest:
        raise ValueError(f"{name} must hold at least 2 classes; it holds 1 class, {classes.tolist()[0]!r}.")
    return classes, index


def index_of_labels(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return the index of each row's label among the classes that were learned in `fit`."""
    found, index = encode_labels(y)
    position = {label: place for place, label in enumerate(classes.tolist())}
    unseen = [label for label in found.tolist() if label not in position]
    if unseen:
        raise ValueError(f"y must hold the classes seen in fit; it holds {unseen[0]!r}.")
    table = np.array([position[label] for label in found.tolist()], dtype=np.float64)
    return table[index.astype(np.intp)]


def columns_of_labels(columns: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return the labels as one column per target, as objects if strings and numbers are mixed."""
    found = list(columns)
    if len({column.dtype.kind == "U" for column in found}) > 1:
        found = [column.astype(object) for column in found]
    return np.column_stack(found)


def encode_labels(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the sorted distinct labels of `y`, and the index of each row's label."""
    codes, values, labels = _distinct_labels(y)
    found = labels.tolist()
    classes = sorted(set(found))
    position = {label: place for place, label in enumerate(classes)}
    table = np.zeros(len(values) + 1)
    table[[index for index, value in enumerate(values, 1) if value is not None]] = [position[label] for label in found]
    index = np.empty(y.size)
    map_codes(codes, table, index)
    return np.array(classes, dtype=labels.dtype), index


def read_classes(classes: Any, min_classes: int = 1) -> NDArray[Any]:
    """Return the labels that the user passes as `classes`, sorted; raise ValueError if they are invalid or too few."""
    try:
        given = unmasked(classes, "classes")
        labels = encode_labels(np.atleast_1d(given).ravel())[0]
    except (TypeError, ValueError) as error:
        raise ValueError(f"classes must be a list of labels; got {classes!r}. {error}") from error
    if given.ndim == 0:
        raise ValueError(f"classes must be a list of labels; got {classes!r}.")
    if labels.size < min_classes:
        n_classes = "1 class" if min_classes == 1 else f"{min_classes} classes"
        raise ValueError(f"classes must hold at least {n_classes}; got {labels.tolist()}.")
    return labels


def check_classes(classes: Any, known: NDArray[Any]) -> None:
    """Raise ValueError if the labels passed for further rows differ from the labels of the first rows."""
    labels = read_classes(classes)
    if not np.array_equal(labels, known):
        raise ValueError(f"classes must be those of the first rows, {known.tolist()}; got {labels.tolist()}.")


# Gradients are float32, and sums of squares must not overflow.
LARGEST_TARGET = 1e30


def check_magnitude(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return finite targets unchanged; raise ValueError if one is too large to train on.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.labels import check_magnitude
    >>> check_magnitude(np.array([1.0, -1e308]))
    Traceback (most recent call last):
    ValueError: y must lie between -1e+30 and 1e+30; it holds -1e+308. Divide it by a constant.
    """
    if y.size and max(y.max(), -y.min()) > LARGEST_TARGET:
        found = y.flat[np.abs(y).argmax()]
        raise ValueError(
            f"y must lie between {-LARGEST_TARGET:g} and {LARGEST_TARGET:g}; it holds {found:g}. "
            "Divide it by a constant."
        )
    return y
