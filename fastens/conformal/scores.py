"""Nonconformity scores of held-out rows, their quantiles, and the resulting intervals and sets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fastens.conformal.fold_quantiles import upper_ends as upper_ends_of_folds
from fastens.engine.elementary import sum_in_order
from fastens.engine.threads import threads_for
from fastens.params.rules import real

Array = NDArray[np.float64]

# Relative tolerance for rounding in the product of a coverage and a number of rows: 0.07 * 100 is more than 7.
_SLACK = 1e-9
# Minimum number of rows per thread, about 50 us of work.
_GRAIN = 50


@dataclass(frozen=True, eq=False)
class ConformalScores:
    """Sorted nonconformity scores of calibration rows."""

    values: Array  # scores in ascending order
    upto: Array  # total weight of the rows before each score, followed by the weight of all rows

    @classmethod
    def of(cls, scores: Array, weight: Array | None = None) -> ConformalScores:
        """Create from unsorted scores; a weight of 2 counts as two rows, and rows of weight 0 are ignored."""
        weight = np.ones(len(scores)) if weight is None else weight
        rows = np.flatnonzero(weight)
        rows = rows[np.argsort(scores[rows], kind="stable")]
        return cls(scores[rows], np.concatenate([[0.0], np.cumsum(weight[rows])]))

    @property
    def total(self) -> float:
        """Total weight of all rows."""
        return float(self.upto[-1])

    def place(self, weight: float) -> float:
        """Return the smallest score with at least this weight at or below it, or infinity if the total is smaller."""
        found = int(np.searchsorted(self.upto[1:], weight))
        return float(self.values[found]) if found < len(self.values) else math.inf

    def quantile(self, coverage: float) -> float:
        """Return the upper bound of a new row's score that holds with probability `coverage`."""
        return self.place(needed_weight([self], coverage))

    def weight_below(self, scores: Array) -> Array:
        """Return the total weight of the rows below each of the given scores."""
        return self.upto[np.searchsorted(self.values, scores, side="left")]

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the state as arrays whose names start with `prefix`."""
        return {f"{prefix}values": self.values, f"{prefix}upto": self.upto}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> ConformalScores:
        """Restore the state from `to_arrays`; raise ValueError if the arrays are malformed."""
        values, upto = arrays[f"{prefix}values"], arrays[f"{prefix}upto"]
        if values.ndim != 1 or upto.shape != (len(values) + 1,) or not (np.diff(upto) > 0).all():
            raise ValueError("the scores to calibrate by are malformed")
        return cls(values, upto)


def needed_weight(parts: Sequence[ConformalScores], coverage: float) -> float:
    """Return the weight of all parts that must be at or below the conformal quantile; the new row counts as 1."""
    return coverage * (sum_in_order(part.total for part in parts) + 1.0) * (1.0 - _SLACK)


def upper_ends(
    parts: Sequence[ConformalScores], centers: Array, scales: Array, coverage: float, n_threads: int = 1
) -> Array:
    """Return the upper ends of prediction intervals from the models of several folds (CV+, Barber et al. 2021).

    The end is the conformal quantile of center + scale * score over the rows of all folds, where each row uses the
    center and the scale of its fold. With one fold, it is center + scale * quantile (split conformal). `centers` and
    `scales` have a column for each fold's model, (n_samples, n_folds).
    """
    values, upto = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "upto"))
    starts = np.cumsum([0, *(len(part.values) for part in parts)], dtype=np.int64)
    out = np.empty(len(centers))
    n_threads = threads_for(len(out), n_threads, _GRAIN)
    centers, scales = np.ascontiguousarray(centers), np.ascontiguousarray(scales)
    upper_ends_of_folds(values, upto, starts, centers, scales, needed_weight(parts, coverage), out, n_threads)
    return out


COVERAGE = real(0, 1, open_low=True, open_high=True)
_Method = TypeVar("_Method", bound=Callable[..., Any])


def at_each_coverage(method: _Method) -> _Method:
    """Decorate a prediction method whose third argument is `coverage`, so that this may be a list.

    The results of the coverages are then stacked along a new last axis.
    """

    @wraps(method)
    def answer(self: Any, X: Any, coverage: Any = 0.9, *args: Any, **kwargs: Any) -> Any:
        return _stacked(lambda each: method(self, X, each, *args, **kwargs), coverage)

    return cast(_Method, answer)


def _stacked(method: Callable[[float], Any], coverage: Any) -> Any:
    """Return the result of a method for one coverage, or the results for several, stacked along a new last axis."""
    if not isinstance(coverage, list | tuple | np.ndarray) or np.ndim(coverage) != 1:
        COVERAGE.check("coverage", coverage)
        return method(coverage)
    if len(coverage) == 0:
        raise ValueError("coverage must hold at least one number; got an empty list.")
    for each in coverage:
        COVERAGE.check("coverage", each)
    found = list(map(method, coverage))
    if isinstance(found[0], list):  # one array for each target
        return [np.stack(of_target, axis=-1) for of_target in zip(*found, strict=True)]
    return np.stack(found, axis=-1)


# Intervals --------------------------------------------------


@dataclass(frozen=True, eq=False)
class Errors:
    """Prediction errors of held-out rows."""

    above: Array  # prediction minus target, divided by the row's scale, (n_rows, n_columns)
    weight: Array
    _known: dict[tuple[int, int], ConformalScores] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, predicted: Array, y: Array, scale: Array, weight: Array | None) -> Errors:
        """Create from predictions of shape (n_rows, n_columns)."""
        return cls((predicted - y[:, None]) / scale[:, None], np.ones(len(y)) if weight is None else weight)

    def scores(self, columns: tuple[int, int]) -> ConformalScores:
        """Return the signed distances of targets from the interval between two columns (Romano et al. 2019).

        They are negative inside the interval. If both ends are the same column, they are the absolute errors.
        """
        if columns not in self._known:
            low, high = columns
            outside = np.maximum(self.above[:, low], -self.above[:, high])
            self._known[columns] = ConformalScores.of(outside, self.weight)
        return self._known[columns]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the state as arrays whose names start with `prefix`."""
        return {f"{prefix}above": self.above, f"{prefix}weight": self.weight}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Errors:
        """Restore the state from `to_arrays`; raise ValueError if the arrays are malformed."""
        above, weight = arrays[f"{prefix}above"], arrays[f"{prefix}weight"]
        if above.ndim != 2 or above.shape[1] < 1 or weight.shape != (len(above),) or not (weight >= 0).all():
            raise ValueError("the errors to calibrate by are malformed")
        return cls(above, weight)


def nearest_columns(levels: Sequence[float] | None, n_columns: int, coverage: float) -> tuple[int, int]:
    """Return the two columns of predicted quantiles that are nearest to the ends of an interval.

    If the levels are unknown, they are the first and the last column.
    """
    if levels is None or len(levels) != n_columns:
        return 0, n_columns - 1
    given = np.asarray(levels, dtype=np.float64)
    # Rounding turns nearly equal distances into ties, which go to the outer level.
    distance_low = np.abs(given - (1 - coverage) / 2).round(9)
    distance_high = np.abs(given - (1 + coverage) / 2).round(9)
    return int(distance_low.argmin()), n_columns - 1 - int(distance_high[::-1].argmin())


def middle_column(levels: Sequence[float] | None, n_columns: int) -> int:
    """Return the column of predicted quantiles nearest to the median, or the middle one if the levels are unknown."""
    return n_columns // 2 if levels is None or len(levels) != n_columns else nearest_columns(levels, n_columns, 0.0)[0]


def intervals(
    parts: Sequence[ConformalScores],
    predicted: Sequence[Array],
    scales: Sequence[Array],
    columns: tuple[int, int],
    coverage: float,
    n_threads: int,
) -> Array:
    """Return intervals of new rows, (n_samples, 2), from the predictions of each fold, (n_samples, n_columns)."""
    low, high = (np.column_stack([part[:, column] for part in predicted]) for column in columns)
    stacked = np.column_stack(scales)
    lower, upper = (upper_ends(parts, center, stacked, coverage, n_threads) for center in (-low, high))
    ends = np.column_stack([-lower, upper])
    # The ends may cross if the predicted quantiles were far too wide for the coverage.
    crossed = ends[:, 0] > ends[:, 1]
    ends[crossed] = ends[crossed].mean(axis=1, keepdims=True)
    return ends


# Sets --------------------------------------------------


@dataclass(frozen=True)
class SetScore:
    """Nonconformity score of each class, from predicted probabilities.

    "lac" is 1 minus the probability of the class (Sadinle et al. 2019). "aps" is the cumulative probability of the
    classes ranked before it (Romano et al. 2020, without randomisation). "raps" adds a penalty on the rank to "aps"
    (Angelopoulos et al. 2021).
    """

    name: str = "lac"  # "lac", "aps" or "raps"
    penalty: float = 0.01  # with "raps", the penalty for each rank after those without a penalty
    free_places: int = 2  # number of ranks without a penalty

    def of(self, probability: Array) -> Array:
        """Return the scores of all classes, (n_samples, n_classes)."""
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
        """Return the score of the given class index of each row."""
        return self.of(probability)[np.arange(len(label)), label.astype(np.intp)]


SET_SCORES = ("lac", "aps", "raps")


@dataclass(frozen=True, eq=False)
class SetScores:
    """Scores of the true classes of held-out rows."""

    groups: list[ConformalScores]  # one for all rows, or one for the rows of each class

    @classmethod
    def of(cls, scores: Array, weight: Array | None = None) -> SetScores:
        """Create a single group from the scores of all rows."""
        return cls([ConformalScores.of(scores, weight)])

    @classmethod
    def by_class(cls, scores: Array, weight: Array, label: Array, n_classes: int) -> SetScores:
        """Create a group for each class from the scores and the class indices of rows."""
        return cls([ConformalScores.of(scores[label == k], weight[label == k]) for k in range(n_classes)])

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the state as arrays whose names start with `prefix`."""
        found: dict[str, NDArray[Any]] = {f"{prefix}groups": np.array(len(self.groups))}
        for number, group in enumerate(self.groups):
            found |= group.to_arrays(f"{prefix}{number}.")
        return found

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> SetScores:
        """Restore the state from `to_arrays`; raise ValueError if the arrays are malformed."""
        numbers = range(int(arrays[f"{prefix}groups"]))
        return cls([ConformalScores.from_arrays(f"{prefix}{number}.", arrays) for number in numbers])


def sets(parts: Sequence[SetScores], scores: Sequence[Array], coverage: float) -> NDArray[np.bool_]:
    """Return a mask of the classes in the prediction sets of new rows, from each fold's scores (Romano et al. 2020)."""
    out = np.empty(scores[0].shape, dtype=bool)
    n_groups = len(parts[0].groups)
    for number in range(n_groups):
        classes = slice(None) if n_groups == 1 else slice(number, number + 1)
        group = [part.groups[number] for part in parts]
        below = [part.weight_below(found[:, classes]) for part, found in zip(group, scores, strict=True)]
        out[:, classes] = sum(below) < needed_weight(group, coverage)
    return out
