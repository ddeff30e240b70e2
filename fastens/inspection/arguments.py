"""Checks of arguments: numbers, labels and booleans, in arrays of one length."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.parameters import NONE, Rule, whole
from fastens.table.columns.factorize import is_missing
from fastens.table.columns.vectors import numbers_in, unmasked

POSITION = whole(0)
COUNT = whole(1)
DEPTH = whole(0) | NONE
DECIMALS = whole(0, 17)


def as_numbers(name: str, values: Any, ndim: int = 1) -> NDArray[np.float64]:
    """Finite numbers, at least one, in an array of `ndim` axes; ValueError names the argument otherwise."""
    found = numbers_in(values, name)
    _check_shape(name, found, ndim)
    if not np.isfinite(found).all():
        wrong = found[~np.isfinite(found)][0]
        raise ValueError(f"{name} must hold finite numbers; it holds {wrong}.")
    return found


def as_labels(name: str, values: Any) -> NDArray[Any]:
    """Labels of rows, none missing, at least one; parameters as for `as_numbers`."""
    found = _as_array(name, values)
    _check_shape(name, found, 1)
    missing = [row for row, value in enumerate(found.tolist()) if is_missing(value)]
    if missing:
        raise ValueError(f"{name} must hold labels without missing values; row {missing[0]} holds {found[missing[0]]}.")
    return found


def as_truths(name: str, values: Any) -> NDArray[np.bool_]:
    """Truth values, at least one: booleans, or the numbers 0 and 1; parameters as for `as_numbers`."""
    found = _as_array(name, values)
    _check_shape(name, found, 1)
    wrong = [value for value in found.tolist() if isinstance(value, str | bytes) or value not in (0, 1)]
    if wrong:
        raise ValueError(f"{name} must hold True and False, or 1 and 0; it holds {wrong[0]!r}.")
    return found.astype(bool)


def _as_array(name: str, values: Any) -> NDArray[Any]:
    if isinstance(values, list | tuple):
        try:
            return np.asarray(values)
        except ValueError as error:  # rows of different lengths
            raise ValueError(f"{name} must have one value for each row; {error}.") from error
    return unmasked(values, name)


def _check_shape(name: str, found: NDArray[Any], ndim: int) -> None:
    if found.ndim != ndim or found.size == 0:
        raise ValueError(f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'} and a value; got {found.shape}.")


def check_same_rows(**arrays: NDArray[Any]) -> None:
    """Raise ValueError unless all arrays, given by the names of the arguments, have as many rows as the first."""
    (first, values), *others = arrays.items()
    for name, other in others:
        if len(other) != len(values):
            raise ValueError(
                f"{first} and {name} must have the same number of rows; got {len(values)} and {len(other)}."
            )


def check_same_kind(name: str, values: NDArray[Any], other_name: str, other: NDArray[Any]) -> None:
    """Raise ValueError where one of two arguments holds texts and the other numbers."""
    kinds = [{isinstance(value, str | bytes) for value in np.unique(found).tolist()} for found in (values, other)]
    if len(kinds[0]) == len(kinds[1]) == 1 and kinds[0] != kinds[1]:
        raise ValueError(
            f"{name} and {other_name} must hold labels of one kind; got {values.tolist()[0]!r} and "
            f"{other.tolist()[0]!r}."
        )


def check_position(name: str, value: Any, length: int) -> int:
    """Check a position among `length` things; `name` is that of the argument."""
    whole(0, length - 1).check(name, value)
    return int(value)


def each(rule: Rule) -> Rule:
    """A rule for several values, at least one: each keeps a rule."""

    def holds(values: Any) -> bool:
        return np.ndim(values) == 1 and len(values) > 0 and all(map(rule.holds, values))

    return Rule(f"a sequence of at least one, each {rule.text}", holds)
