"""Constraints on features, given by name or position, as the arrays that growers read."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.names import are_positions, have_numbers, plain_name

# Different features on a path, by scikit-learn's names.
PATH_WORDS = {"no_interactions": 1, "pairwise": 2}


class Columns:
    """The columns that constraints refer to.

    Parameters
    ----------
    n_features : int
        How many there are.
    names : sequence of names or None
        Their names, as `plain_name` has them. Where any of them is a number, numbers are names, not positions.
    """

    def __init__(self, n_features: int, names: Sequence[Any] | None = None) -> None:
        self.n_features = n_features
        self.names = None if names is None else list(names)
        self._place = {name: place for place, name in enumerate(self.names or ())}
        self._takes_positions = not have_numbers(self.names) or are_positions(self.names)

    def is_name(self, item: Any) -> bool:
        """Whether a value is the name of a column."""
        return isinstance(item, Hashable) and plain_name(item) in self._place

    def position(self, parameter: str, item: Any) -> int:
        """Where a column stands that is named, or given by its position."""
        if self.is_name(item):
            return self._place[plain_name(item)]
        is_whole = isinstance(item, numbers.Integral) and not isinstance(item, bool | np.bool_)
        if isinstance(item, str) or not self._takes_positions:
            known = f"the columns are {self.names}" if self.names else "X has no column names"
            raise ValueError(f"{parameter} must name columns of X; got {item!r}, and {known}.")
        if not is_whole or not 0 <= item < self.n_features:
            raise ValueError(f"{parameter} must hold column indices from 0 to {self.n_features - 1}; got {item!r}.")
        return int(item)

    def values(self, parameter: str, given: Any, default: float) -> NDArray[np.float64]:
        """One number for each column: from an array, or from a dict of some columns."""
        out = np.full(self.n_features, default)
        if isinstance(given, Mapping):
            for item, value in given.items():
                out[self.position(parameter, item)] = _number(parameter, value)
            return out
        found = [given] if isinstance(given, str) else np.asarray(given, dtype=object).ravel().tolist()
        if len(found) != self.n_features:
            raise ValueError(
                f"{parameter} must have a value for each of the {self.n_features} columns, or be a dict of some; "
                f"got {given!r}."
            )
        return np.array([_number(parameter, value) for value in found])


def _number(parameter: str, value: Any) -> float:
    if isinstance(value, str | bytes) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(f"{parameter} must hold finite numbers; got {value!r}.")
    return float(value)


def count_of(wanted: float | str | None, n_features: int, *, up: bool = False) -> int:
    """How many features a number of them means, a share of all (rounded down or up), "sqrt", "log2" or None (all)."""
    if wanted is None:
        return n_features
    if isinstance(wanted, str):
        return max(1, int(math.sqrt(n_features) if wanted == "sqrt" else math.log2(n_features)))
    if isinstance(wanted, numbers.Integral):
        return min(int(wanted), n_features)
    return math.ceil(wanted * n_features) if up else max(1, int(wanted * n_features))


def monotone_signs(given: Any, columns: Columns, is_categorical: NDArray[np.bool_]) -> NDArray[np.int8] | None:
    """Read `monotonic_cst`: 1, -1 or 0 for each column; None where there is no constraint."""
    if given is None:
        return None
    signs = columns.values("monotonic_cst", given, 0)
    for sign in signs:
        if sign not in (-1, 0, 1):
            raise ValueError(f"monotonic_cst must hold 1, -1 or 0 for each column; got {sign:g}.")
    bound = np.flatnonzero((signs != 0) & is_categorical)
    if bound.size:
        name = repr(columns.names[bound[0]]) if columns.names else str(bound[0])
        raise ValueError(f"monotonic_cst must be 0 for categorical columns, which have no order; column {name} is one.")
    return signs.astype(np.int8) if signs.any() else None


def feature_chances(given: Any, columns: Columns) -> NDArray[np.float64] | None:
    """Read `feature_weights`: chances of being drawn, 1 for the columns that a dict leaves out."""
    if given is None:
        return None
    weights = columns.values("feature_weights", given, 1.0)
    if weights.min() < 0 or not weights.any():
        bad = weights.min() if weights.min() < 0 else 0.0
        raise ValueError(f"feature_weights must not be negative, and not all of them 0; got {bad:g}.")
    return weights / weights.max()


def interaction_groups(given: Any, columns: Columns) -> tuple[int | None, NDArray[np.uint8] | None]:
    """Read `interaction_cst`: the most features on a path, or the groups, (n_groups, n_features), that hold a path.

    Columns that no group names are one more group, as in scikit-learn.
    """
    if given is None:
        return None, None
    if isinstance(given, str):
        if given not in PATH_WORDS:
            raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {given!r}.")
        return PATH_WORDS[given], None
    if not isinstance(given, Sequence) or any(isinstance(group, str | Mapping) for group in given):
        raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {given!r}.")
    groups = np.zeros((len(given) + 1, columns.n_features), dtype=np.uint8)
    for row, group in zip(groups, given, strict=False):
        if not isinstance(group, Sequence | set | frozenset | np.ndarray):
            raise ValueError(f"interaction_cst must be {_INTERACTION_TEXT}; got {given!r}.")
        row[[columns.position("interaction_cst", item) for item in group]] = 1
    groups[-1] = ~groups.any(axis=0)
    return None, groups


_INTERACTION_TEXT = "'no_interactions', 'pairwise', None or a list of groups of columns"
