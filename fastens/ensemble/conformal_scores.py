"""Conformal prediction: scores of rows that a model has not seen, and what follows from them for new rows.

A score says how strange a row is to a model. A new row is stranger than the share `coverage` of n rows that it is
exchangeable with, it being one of n + 1, only with probability 1 - coverage: so the answers that are to be expected are
those whose score is at most the ceil(coverage (n + 1))-th smallest (Vovk et al. 2005).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.parameters import real

Array = NDArray[np.float64]

COVERAGE = real(0, 1, open_low=True, open_high=True)
# Products of coverages and numbers of rows are whole numbers only nearly: 0.07 * 100 is more than 7.
_SLACK = 1e-9
# Halvings of an interval that leave nothing of it in double precision.
_HALVINGS = 64


@dataclass(frozen=True, eq=False)
class ConformalScores:
    """The scores of rows to calibrate on.

    Attributes
    ----------
    values : array of shape (n_scores,)
        The scores, ascending.
    upto : array of shape (n_scores + 1,)
        The weight of the rows before each; last, that of all.
    """

    values: Array
    upto: Array

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
        """The smallest score with at least so much weight at or below it; infinity where there is not so much."""
        found = int(np.searchsorted(self.upto[1:], weight))
        return float(self.values[found]) if found < len(self.values) else math.inf

    def quantile(self, coverage: float) -> float:
        """What the score of a new row is at most, with probability `coverage`."""
        return self.place(needed_weight([self], coverage))

    def weight_upto(self, scores: Array) -> Array:
        """The weight of the rows whose score is at most each of these."""
        return self.upto[np.searchsorted(self.values, scores, side="right")]

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
        if values.ndim != 1 or upto.shape != (len(values) + 1,) or (np.diff(upto) <= 0).any():
            raise ValueError("the scores to calibrate by are malformed")
        return cls(values, upto)


def needed_weight(parts: Sequence[ConformalScores], coverage: float) -> float:
    """How much of the weight of all parts is to lie at or below a score; the new row counts 1.

    Raises
    ------
    ValueError
        If `coverage` is not between 0 and 1.
    """
    COVERAGE.check("coverage", coverage)
    return coverage * (sum(part.total for part in parts) + 1.0) * (1.0 - _SLACK)


def upper_ends(parts: Sequence[ConformalScores], centers: Array, scales: Array, coverage: float) -> Array:
    """Upper ends of intervals around what the models of several folds say of new rows (CV+, Barber et al. 2021).

    Of the sums of center and scale times score, over the rows of all folds, each with its fold's center and scale, the
    conformal quantile. With one fold that is center + scale * quantile (split conformal).

    Parameters
    ----------
    parts : sequence of ConformalScores
        The scores of each fold's rows by the model that has not seen them.
    centers, scales : arrays of shape (n_folds, n_samples)
        What each fold's model says of the new rows.
    coverage : float
        Probability to be held.
    """
    needed = needed_weight(parts, coverage)
    total = sum(part.total for part in parts)
    if needed > total:
        return np.full(centers.shape[1], math.inf)
    some = [number for number, part in enumerate(parts) if part.total]
    parts, centers, scales = [parts[number] for number in some], centers[some], scales[some]
    # Where each fold has its share of the weight all have it, so that the end lies among the folds' own.
    own = np.array([[part.place(needed / total * part.total)] for part in parts])
    ends = centers + scales * own
    low, high = ends.min(axis=0), ends.max(axis=0)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        if not ((low < middle) & (middle < high)).any():
            break
        weight = sum(
            part.weight_upto((middle - center) / scale)
            for part, center, scale in zip(parts, centers, scales, strict=True)
        )
        reached = weight >= needed
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


# Intervals --------------------------------------------------


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of what was predicted for rows to calibrate on.

    Attributes
    ----------
    above : array of shape (n_rows, n_columns)
        What was predicted less the target, in units of what deviations are to be proportional to.
    weight : array of shape (n_rows,)
        Weights of the rows.
    """

    above: Array
    weight: Array

    @classmethod
    def of(cls, said: Array, y: Array, scale: Array, weight: Array | None) -> Errors:
        """From predictions of shape (n_rows, n_columns)."""
        return cls((said - y[:, None]) / scale[:, None], np.ones(len(y)) if weight is None else weight)

    def scores(self, columns: tuple[int, int]) -> ConformalScores:
        """How far outside of two columns targets lie, negative where they lie inside (Romano et al. 2019).

        With one column that is both ends, the distance from it.
        """
        low, high = columns
        return ConformalScores.of(np.maximum(self.above[:, low], -self.above[:, high]), self.weight)

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
    said: Sequence[Array],
    scales: Sequence[Array],
    columns: tuple[int, int],
    coverage: float,
) -> Array:
    """Intervals of new rows, (n_samples, 2), from what each fold's model says of them, (n_samples, n_columns) each."""
    low, high = (np.stack([part[:, column] for part in said]) for column in columns)
    stacked = np.stack(scales)
    ends = np.column_stack([-upper_ends(parts, -low, stacked, coverage), upper_ends(parts, high, stacked, coverage)])
    # Where quantiles were far too wide for the coverage the ends may pass each other.
    crossed = ends[:, 0] > ends[:, 1]
    ends[crossed] = ends[crossed].mean(axis=1, keepdims=True)
    return ends


# Sets --------------------------------------------------


@dataclass(frozen=True)
class SetScore:
    """How strange each class is to a model, from its probabilities.

    Attributes
    ----------
    name : "lac", "aps" or "raps"
        1 - the probability of the class (Sadinle et al. 2019); the probability of all classes before it, in falling
        order (Romano et al. 2020, without the random part); the same and a penalty for late places (Angelopoulos et al.
        2021).
    penalty : float
        With "raps": added for each place after the free ones.
    free_places : int
        Places without a penalty.
    """

    name: str = "lac"
    penalty: float = 0.01
    free_places: int = 2

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


def sets(parts: Sequence[ConformalScores], scores: Sequence[Array], coverage: float) -> NDArray[np.bool_]:
    """Which classes are in the sets of new rows, from the scores that each fold gives them (Romano et al. 2020)."""
    needed = needed_weight(parts, coverage)
    weight = sum(part.weight_below(found) for part, found in zip(parts, scores, strict=True))
    return np.asarray(weight < needed)
