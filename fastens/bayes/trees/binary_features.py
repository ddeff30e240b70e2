"""Binary features of columns (questions with the answer yes or no), selected greedily by information gain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.engine.elementary import log

Floats = NDArray[np.floating]
MOST_CATEGORIES = 64  # of a column that have a feature each; the most frequent ones


class BinaryFeatures(NamedTuple):
    """Whether the value of a column is at most a number, equal to a category, or missing."""

    column: NDArray[np.int64]
    kind: NDArray[np.int64]  # AT_MOST, EQUAL or MISSING
    value: NDArray[np.float64]

    def answers(self, X: Floats) -> NDArray[np.int64]:
        """The features of each row, 1 or 0; a missing value is neither at most nor equal to anything."""
        found = np.empty((len(X), len(self.column)), dtype=np.int64)
        for i, (column, kind, value) in enumerate(zip(*self, strict=True)):
            x = X[:, column]
            found[:, i] = np.isnan(x) if kind == MISSING else x <= value if kind == AT_MOST else x == value
        return found

    def take(self, places: list[int]) -> BinaryFeatures:
        """Some of them."""
        return BinaryFeatures(self.column[places], self.kind[places], self.value[places])


AT_MOST, EQUAL, MISSING = 0, 1, 2


def candidate_features(
    X: Floats, is_categorical: NDArray[np.bool_], weight: NDArray[np.float64], n_thresholds: int
) -> BinaryFeatures:
    """All features: at most `n_thresholds` of each column of numbers, at weighted quantiles."""
    found: list[tuple[int, int, float]] = []
    for column in range(X.shape[1]):
        x = X[:, column]
        is_there = ~np.isnan(x)
        values, index = np.unique(x[is_there], return_inverse=True)
        totals: NDArray[Any] = np.bincount(index, weights=weight[is_there], minlength=len(values))
        if is_categorical[column]:
            heaviest = (
                np.argsort(-totals, kind="stable")[:MOST_CATEGORIES] if len(values) > 2 else range(len(values) - 1)
            )
            found += [(column, EQUAL, float(values[place])) for place in sorted(heaviest)]
        else:
            found += [(column, AT_MOST, value) for value in _thresholds(values, totals, n_thresholds)]
        if not is_there.all() and is_there.any():
            found.append((column, MISSING, 0.0))
    # Where all columns are constant, one constant feature.
    columns, kinds, numbers = zip(*(found or [(0, MISSING, 0.0)]), strict=True)
    return BinaryFeatures(np.array(columns, np.int64), np.array(kinds, np.int64), np.array(numbers, np.float64))


def _thresholds(values: Floats, totals: NDArray[np.float64], most: int) -> list[float]:
    """Numbers between neighbouring values: all of them, or the nearest to quantiles of the weight."""
    places = np.arange(len(values) - 1)
    if len(places) > most:
        shares = np.cumsum(totals) * (most + 1) / totals.sum()
        wanted = np.searchsorted(shares, np.arange(1, most + 1))
        places = np.unique(np.minimum(wanted, len(values) - 2))
    low, high = values[places].astype(np.float64), values[places + 1].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        middle = low / 2 + high / 2
    # Infinite values, and neighbours with nothing between them: the lower one divides as well.
    return np.where((middle >= low) & (middle < high), middle, low).tolist()


def select_features(
    answers: NDArray[np.int64], classes: NDArray[np.int64], weight: NDArray[np.float64], most: int
) -> list[int]:
    """Greedy forward selection: each feature lowers the entropy of the class given all selected ones by the most."""
    chosen: list[int] = []
    n_classes = int(classes.max()) + 1
    cell = np.zeros(len(answers), dtype=np.int64)
    while len(chosen) < min(most, answers.shape[1]):
        scores = np.array(
            [_entropy((2 * cell + answer) * n_classes + classes, weight, n_classes) for answer in answers.T]
        )
        scores[chosen] = np.inf
        best = int(scores.argmin())
        cell = np.unique(2 * cell + answers[:, best], return_inverse=True)[1]
        chosen.append(best)
    return chosen


def _entropy(cell_and_class: NDArray[np.int64], weight: NDArray[np.float64], n_classes: int) -> float:
    """Weighted entropy of the class given the cell."""
    n = -(-(int(cell_and_class.max()) + 1) // n_classes) * n_classes
    counts: NDArray[Any] = np.bincount(cell_and_class, weights=weight, minlength=n).reshape(-1, n_classes)
    totals = counts.sum(axis=1)
    return float(_n_log_n(totals).sum() - _n_log_n(counts).sum())


def _n_log_n(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x * log(np.where(x > 0, x, 1.0))
