"""Binary features of columns (questions with the answer yes or no), selected greedily by information gain."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.memory import MOST_QUESTIONS
from fastens.engine.comm import LOCAL, Comm, in_turn, max_floats
from fastens.engine.elementary import log
from fastens.engine.parts import parts_of

Floats = NDArray[np.float64]
# Sums that ranks hand on at a time.
_COUNTED = 1 << 20


class BinaryFeatures(NamedTuple):
    """Whether the value of a column is at most a number, equal to a category, or missing."""

    column: NDArray[np.int64]
    kind: NDArray[np.int64]  # AT_MOST, EQUAL or MISSING
    value: NDArray[np.float64]

    def answers(self, X: NDArray[np.floating]) -> NDArray[np.int64]:
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
    X: Any, is_categorical: NDArray[np.bool_], weight: Floats, n_thresholds: int, comm: Comm = LOCAL
) -> BinaryFeatures:
    """All features: at most `n_thresholds` of each column of numbers, at weighted quantiles.

    X is a row source with the rows of this rank; all ranks find the features of the whole table.
    """
    found: list[tuple[int, int, float]] = []
    columns = _distinct_values(X, comm)
    totals = np.split(_totals(X, columns, weight, comm), np.cumsum([len(values) for values in columns]))
    has_missing = np.zeros(X.shape[1], dtype=np.int64)
    for _, part in parts_of(X):
        has_missing |= np.isnan(part).any(axis=0)
    comm.max(has_missing)
    for column, (values, of_values) in enumerate(zip(columns, totals, strict=False)):
        if is_categorical[column]:
            heaviest = (
                np.argsort(-of_values, kind="stable")[:MOST_QUESTIONS] if len(values) > 2 else range(len(values) - 1)
            )
            found += [(column, EQUAL, float(values[place])) for place in sorted(heaviest)]
        else:
            found += [(column, AT_MOST, value) for value in _thresholds(values, of_values, n_thresholds)]
        if has_missing[column] and len(values):
            found.append((column, MISSING, 0.0))
    # Where all columns are constant, one constant feature.
    chosen, kinds, numbers = zip(*(found or [(0, MISSING, 0.0)]), strict=True)
    return BinaryFeatures(np.array(chosen, np.int64), np.array(kinds, np.int64), np.array(numbers, np.float64))


def _distinct_values(X: Any, comm: Comm) -> list[NDArray[np.floating]]:
    """The values of each column on all ranks, ascending, without those that are missing."""
    own: list[NDArray[np.floating]] = [np.empty(0) for _ in range(X.shape[1])]
    for _, part in parts_of(X):
        for column, values in enumerate(part.T):
            new = np.unique(values[~np.isnan(values)])
            own[column] = np.union1d(own[column], new) if len(own[column]) else new
    return [np.unique(np.concatenate(of_ranks)) for of_ranks in zip(*comm.gather(own), strict=True)]


def _totals(X: Any, columns: list[NDArray[np.floating]], weight: Floats, comm: Comm) -> Floats:
    """The weights of the columns' values, one column after another."""
    starts = np.cumsum([0, *map(len, columns)])

    def add(sums: Floats) -> None:
        for first, part in parts_of(X):
            for column, values in enumerate(part.T):
                there = np.flatnonzero(~np.isnan(values))
                places = starts[column] + np.searchsorted(columns[column], values[there])
                np.add.at(sums, places, weight[first + there])

    return in_turn(comm, np.zeros(starts[-1]), add)


def _thresholds(values: NDArray[np.floating], totals: Floats, most: int) -> list[float]:
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
    answers: NDArray[np.uint8], classes: NDArray[np.int64], weight: Floats, most: int, comm: Comm = LOCAL
) -> list[int]:
    """Greedy forward selection: each feature lowers the entropy of the class given all selected ones by the most."""
    chosen: list[int] = []
    n_classes = 1 + int(max_floats(comm, float(classes.max(initial=0)))[0])
    cell, n_cells = np.zeros(len(answers), dtype=np.int64), 1
    while len(chosen) < min(most, answers.shape[1]):
        scores = np.array(
            [
                _entropy(counts, n_classes)
                for counts in _counts(answers, cell * 2 * n_classes + classes, (2 * n_cells, n_classes), weight, comm)
            ]
        )
        scores[chosen] = np.inf
        best = int(scores.argmin())
        below = 2 * cell + answers[:, best]
        cells = np.unique(np.concatenate(comm.gather(np.unique(below))))
        cell, n_cells = np.searchsorted(cells, below), len(cells)
        chosen.append(best)
    return chosen


def _counts(
    answers: NDArray[np.uint8], cell: NDArray[np.int64], shape: tuple[int, int], weight: Floats, comm: Comm
) -> Iterator[Floats]:
    """Yield for each feature the weights of all ranks' rows by cell and class, where rows without it have `cell`."""
    step = max(1, _COUNTED // math.prod(shape))
    for first in range(0, answers.shape[1], step):
        block = answers.T[first : first + step]

        def add(sums: Floats, block: NDArray[np.uint8] = block) -> None:
            for of_feature, answer in zip(sums, block, strict=True):
                np.add.at(of_feature, cell + answer.astype(np.int64) * shape[1], weight)

        yield from in_turn(comm, np.zeros((len(block), math.prod(shape))), add)


def _entropy(counts: Floats, n_classes: int) -> float:
    """Weighted entropy of the class given the cell, from the weights by cell and class."""
    n = -(-(int(np.flatnonzero(counts)[-1]) + 1) // n_classes) * n_classes
    of_cells = counts[:n].reshape(-1, n_classes)
    return float(_n_log_n(of_cells.sum(axis=1)).sum() - _n_log_n(of_cells).sum())


def _n_log_n(x: Floats) -> Floats:
    return x * log(np.where(x > 0, x, 1.0))
