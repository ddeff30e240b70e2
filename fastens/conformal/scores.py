"""Conformal intervals from errors, and conformal sets from probabilities, of held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.conformal.quantiles import ConformalScores, needed_weight, upper_ends
from fastens.parameters import real

Array = NDArray[np.float64]

COVERAGE = real(0, 1, open_low=True, open_high=True)

# Intervals --------------------------------------------------


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of the predictions for held-out rows."""

    above: Array  # (n_rows, n_columns): prediction minus target, divided by the row's scale
    weight: Array
    _known: dict[tuple[int, int], ConformalScores] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, predicted: Array, y: Array, scale: Array, weight: Array | None) -> Errors:
        """From predictions of shape (n_rows, n_columns)."""
        return cls((predicted - y[:, None]) / scale[:, None], np.ones(len(y)) if weight is None else weight)

    def scores(self, columns: tuple[int, int]) -> ConformalScores:
        """How far outside of two columns targets lie, negative where they lie inside (Romano et al. 2019).

        With one column that is both ends, the distance from it.
        """
        if columns not in self._known:
            low, high = columns
            outside = np.maximum(self.above[:, low], -self.above[:, high])
            self._known[columns] = ConformalScores.of(outside, self.weight)
        return self._known[columns]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """As arrays whose names start with `prefix`."""
        return {f"{prefix}above": self.above, f"{prefix}weight": self.weight}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Errors:
        """From what `to_arrays` gave; ValueError for anything else."""
        above, weight = arrays[f"{prefix}above"], arrays[f"{prefix}weight"]
        if above.ndim != 2 or above.shape[1] < 1 or weight.shape != (len(above),) or not (weight >= 0).all():
            raise ValueError("the errors to calibrate by are malformed")
        return cls(above, weight)


def nearest_columns(levels: Sequence[float] | None, n_columns: int, coverage: float) -> tuple[int, int]:
    """Which columns of predicted quantiles are nearest to the ends of an interval; the outer ones of unknown levels."""
    if levels is None or len(levels) != n_columns:
        return 0, n_columns - 1
    given = np.asarray(levels, dtype=np.float64)
    # Of levels as near as each other, or nearly so, the outer one.
    distance_low = np.abs(given - (1 - coverage) / 2).round(9)
    distance_high = np.abs(given - (1 + coverage) / 2).round(9)
    return int(distance_low.argmin()), n_columns - 1 - int(distance_high[::-1].argmin())


def middle_column(levels: Sequence[float] | None, n_columns: int) -> int:
    """Which column of predicted quantiles is nearest to the median; the middle one of unknown levels."""
    return n_columns // 2 if levels is None or len(levels) != n_columns else nearest_columns(levels, n_columns, 0.0)[0]


def intervals(
    parts: Sequence[ConformalScores],
    predicted: Sequence[Array],
    scales: Sequence[Array],
    columns: tuple[int, int],
    coverage: float,
    n_threads: int,
) -> Array:
    """Intervals of new rows, (n_samples, 2), from each fold's predictions, (n_samples, n_columns) each."""
    low, high = (np.column_stack([part[:, column] for part in predicted]) for column in columns)
    stacked = np.column_stack(scales)
    lower, upper = (upper_ends(parts, center, stacked, coverage, n_threads) for center in (-low, high))
    ends = np.column_stack([-lower, upper])
    # The ends may cross where the quantiles were far too wide for the coverage.
    crossed = ends[:, 0] > ends[:, 1]
    ends[crossed] = ends[crossed].mean(axis=1, keepdims=True)
    return ends


# Sets --------------------------------------------------


@dataclass(frozen=True)
class SetScore:
    """Nonconformity of each class, from predicted probabilities.

    "lac": 1 - the probability of the class (Sadinle et al. 2019). "aps": the cumulative probability of the classes
    ranked before it (Romano et al. 2020, without randomisation). "raps": the same with a penalty on rank (Angelopoulos
    et al. 2021).
    """

    name: str = "lac"  # "lac", "aps" or "raps"
    penalty: float = 0.01  # with "raps": added for each rank after the free ones
    free_places: int = 2  # number of ranks without a penalty

    def of(self, probability: Array) -> Array:
        """Scores of all classes, of the shape of `probability`, (n_samples, n_classes)."""
        if self.name == "lac":
            return 1.0 - probability
        order = np.argsort(-probability, axis=1, kind="stable")
        falling = np.take_along_axis(probability, order, axis=1)
        before = np.cumsum(falling, axis=1) - falling
        if self.name == "raps":
            before += self.penalty * np.maximum(0, np.arange(1, before.shape[1] + 1) - self.free_places)
        found = np.empty_like(before)
        np.put_along_axis(found, order, before, axis=1)
        return found

    def of_labels(self, probability: Array, label: Array) -> Array:
        """Scores of the classes with these numbers, one for each row."""
        return self.of(probability)[np.arange(len(label)), label.astype(np.intp)]


SET_SCORES = ("lac", "aps", "raps")


@dataclass(frozen=True, eq=False)
class SetScores:
    """The scores of the true classes of held-out rows."""

    groups: list[ConformalScores]  # one for all rows, or one for the rows of each class

    @classmethod
    def of(cls, scores: Array, weight: Array | None = None) -> SetScores:
        """From the scores of all rows together."""
        return cls([ConformalScores.of(scores, weight)])

    @classmethod
    def by_class(cls, scores: Array, weight: Array, label: Array, n_classes: int) -> SetScores:
        """From the scores of rows whose classes have these numbers."""
        return cls([ConformalScores.of(scores[label == k], weight[label == k]) for k in range(n_classes)])

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """As arrays whose names start with `prefix`."""
        found: dict[str, NDArray[Any]] = {f"{prefix}groups": np.array(len(self.groups))}
        for number, group in enumerate(self.groups):
            found |= group.to_arrays(f"{prefix}{number}.")
        return found

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> SetScores:
        """From what `to_arrays` gave; ValueError for anything else."""
        numbers = range(int(arrays[f"{prefix}groups"]))
        return cls([ConformalScores.from_arrays(f"{prefix}{number}.", arrays) for number in numbers])


def sets(parts: Sequence[SetScores], scores: Sequence[Array], coverage: float) -> NDArray[np.bool_]:
    """Which classes are in the sets of new rows, from each fold's scores (Romano et al. 2020)."""
    out = np.empty(scores[0].shape, dtype=bool)
    n_groups = len(parts[0].groups)
    for number in range(n_groups):
        classes = slice(None) if n_groups == 1 else slice(number, number + 1)
        group = [part.groups[number] for part in parts]
        below = [part.weight_below(found[:, classes]) for part, found in zip(group, scores, strict=True)]
        out[:, classes] = sum(below) < needed_weight(group, coverage)
    return out
