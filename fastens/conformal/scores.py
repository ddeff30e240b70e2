"""Nonconformity scores of held-out rows, their quantiles, and the resulting intervals and sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.conformal.fold_quantiles import upper_ends as upper_ends_of_folds
from fastens.engine.elementary import sum_in_order
from fastens.engine.threads import threads_for
from fastens.params.rules import real

Array = NDArray[np.float64]

# Products of coverages and numbers of rows are whole numbers only nearly: 0.07 * 100 is more than 7.
_SLACK = 1e-9
# Rows that keep a thread busy for some 50 us.
_GRAIN = 50


@dataclass(frozen=True, eq=False)
class ConformalScores:
    """The scores of rows to calibrate on."""

    values: Array  # ascending
    upto: Array  # the weight of the rows before each; last, that of all

    @classmethod
    def of(cls, scores: Array, weight: Array | None = None) -> ConformalScores:
        """From scores in any order; a row of weight 2 is two rows, one of weight 0 none."""
        weight = np.ones(len(scores)) if weight is None else weight
        rows = np.flatnonzero(weight)
        rows = rows[np.argsort(scores[rows], kind="stable")]
        return cls(scores[rows], np.concatenate([[0.0], np.cumsum(weight[rows])]))

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.upto[-1])

    def place(self, weight: float) -> float:
        """The smallest score with at least this weight at or below it; infinity where there is less in all."""
        found = int(np.searchsorted(self.upto[1:], weight))
        return float(self.values[found]) if found < len(self.values) else math.inf

    def quantile(self, coverage: float) -> float:
        """The bound of a new row's score that holds with probability `coverage`."""
        return self.place(needed_weight([self], coverage))

    def weight_below(self, scores: Array) -> Array:
        """The weight of the rows whose score is smaller than each of these."""
        return self.upto[np.searchsorted(self.values, scores, side="left")]

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """As arrays whose names start with `prefix`."""
        return {f"{prefix}values": self.values, f"{prefix}upto": self.upto}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> ConformalScores:
        """From what `to_arrays` gave; ValueError for anything else."""
        values, upto = arrays[f"{prefix}values"], arrays[f"{prefix}upto"]
        if values.ndim != 1 or upto.shape != (len(values) + 1,) or not (np.diff(upto) > 0).all():
            raise ValueError("the scores to calibrate by are malformed")
        return cls(values, upto)


def needed_weight(parts: Sequence[ConformalScores], coverage: float) -> float:
    """The weight of all parts that must lie at or below a score; the new row counts 1."""
    return coverage * (sum_in_order(part.total for part in parts) + 1.0) * (1.0 - _SLACK)


def upper_ends(
    parts: Sequence[ConformalScores], centers: Array, scales: Array, coverage: float, n_threads: int = 1
) -> Array:
    """Upper ends of intervals around the predictions of several folds' models (CV+, Barber et al. 2021).

    Of the sums of center and scale times score, over the rows of all folds, each with its fold's center and scale, the
    conformal quantile. With one fold that is center + scale * quantile (split conformal). `centers` and `scales` are
    those of each fold's model for the new rows, (n_samples, n_folds).
    """
    values, upto = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "upto"))
    starts = np.cumsum([0, *(len(part.values) for part in parts)], dtype=np.int64)
    out = np.empty(len(centers))
    n_threads = threads_for(len(out), n_threads, _GRAIN)
    centers, scales = np.ascontiguousarray(centers), np.ascontiguousarray(scales)
    upper_ends_of_folds(values, upto, starts, centers, scales, needed_weight(parts, coverage), out, n_threads)
    return out


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
