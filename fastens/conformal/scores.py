"""Nonconformity scores of held-out rows, their quantiles, and the resulting intervals and sets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from fastens.conformal.fold_quantiles import upper_ends as upper_ends_of_folds
from fastens.engine.elementary import sum_in_order
from fastens.engine.threads import threads_for
from fastens.modelfile.storage import parse_json
from fastens.params.rules import real
from fastens.table.columns.factorize import category_of, factorize, is_missing
from fastens.table.columns.numbers import numbers_in, unmasked
from fastens.table.opening import split_columns
from fastens.warn import warn

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
        """Create from unsorted scores and row weights (1 if None): 2 counts as two rows, and 0 ignores the row."""
        weight = np.ones(len(scores)) if weight is None else weight
        rows = np.flatnonzero(weight)
        rows = rows[np.argsort(scores[rows], kind="stable")]
        return cls(scores[rows], np.concatenate([[0.0], np.cumsum(weight[rows])]))

    @property
    def total(self) -> float:
        """Total weight of all rows."""
        return float(self.upto[-1])

    def score_at_weight(self, weight: float) -> float:
        """Return the smallest score with at least this weight at or below it, or infinity if the total is smaller."""
        position = int(np.searchsorted(self.upto[1:], weight))
        return float(self.values[position]) if position < len(self.values) else math.inf

    def quantile(self, coverage: float) -> float:
        """Return the bound that a new row's score does not exceed with probability `coverage`; it may be infinite."""
        return self.score_at_weight(float(needed_weight([self], coverage)))

    def weight_below(self, scores: Array) -> Array:
        """Return, for each of `scores`, the total weight of the calibration rows whose score is below it."""
        return self.upto[np.searchsorted(self.values, scores, side="left")]

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the state as arrays whose names start with `prefix`."""
        return {f"{prefix}values": self.values, f"{prefix}upto": self.upto}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> ConformalScores:
        """Restore the state from `to_arrays`; raise ValueError if the arrays are malformed."""
        values, upto = arrays[f"{prefix}values"], arrays[f"{prefix}upto"]
        if values.ndim != 1 or upto.shape != (len(values) + 1,) or not (np.diff(upto) > 0).all():
            raise ValueError("the calibration scores are malformed")
        return cls(values, upto)


def needed_weight(parts: Sequence[ConformalScores], coverage: float, new: Any = 1.0) -> Any:
    """Return the total weight of calibration scores that must be at or below the conformal quantile.

    `parts` are the scores of each fold. `new` is the weight of a new row, or of each new row: 1, or its likelihood
    ratio (Tibshirani et al. 2019, eq. 9).
    """
    return coverage * (sum_in_order(part.total for part in parts) + new) * (1.0 - _SLACK)


def upper_ends(
    parts: Sequence[ConformalScores], centers: Array, scales: Array, needed: Any, n_threads: int = 1
) -> Array:
    """Return the upper ends of prediction intervals from the models of several folds (CV+, Barber et al. 2021).

    The end is the conformal quantile of center + scale * score over the rows of all folds, where each row uses the
    center and the scale of its fold. With one fold, it is center + scale * quantile (split conformal). `centers` and
    `scales` have a column for each fold's model, (n_samples, n_folds), and `needed` is from `needed_weight`.
    """
    values, upto = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "upto"))
    starts = np.cumsum([0, *(len(part.values) for part in parts)], dtype=np.int64)
    out = np.empty(len(centers))
    n_threads = threads_for(len(out), n_threads, _GRAIN)
    centers, scales = np.ascontiguousarray(centers), np.ascontiguousarray(scales)
    needed = np.ascontiguousarray(np.broadcast_to(needed, out.shape), dtype=np.float64)
    upper_ends_of_folds(values, upto, starts, centers, scales, needed, out, n_threads)
    return out


COVERAGE = real(0, 1, open_low=True, open_high=True)
_Method = TypeVar("_Method", bound=Callable[..., Any])


def at_each_coverage(method: _Method) -> _Method:
    """Decorate a prediction method with the arguments self, X, `coverage`, so that the coverage may be a list.

    The results of the coverages are then stacked along a new last axis.
    """

    @wraps(method)
    def answer(self: Any, X: Any, coverage: Any = 0.9, *args: Any, **kwargs: Any) -> Any:
        return _call_at_coverages(lambda each: method(self, X, each, *args, **kwargs), coverage)

    return cast(_Method, answer)


def _call_at_coverages(method: Callable[[float], Any], coverage: Any) -> Any:
    """Return ``method(coverage)`` or, for a list of coverages, the results stacked along a new last axis.

    If the method returns a list of arrays, one for each target, these are stacked separately. Raises ValueError if a
    coverage is invalid or the list is empty.
    """
    if not isinstance(coverage, list | tuple | np.ndarray) or np.ndim(coverage) != 1:
        COVERAGE.check("coverage", coverage)
        return method(coverage)
    if len(coverage) == 0:
        raise ValueError("coverage must hold at least one number; got an empty list.")
    for each in coverage:
        COVERAGE.check("coverage", each)
    results = list(map(method, coverage))
    if isinstance(results[0], list):  # one array for each target
        return [np.stack(of_target, axis=-1) for of_target in zip(*results, strict=True)]
    return np.stack(results, axis=-1)


# Held-out rows --------------------------------------------------


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Nonconformity of held-out rows, in the order of the table."""

    values: Array  # (n_rows, n_columns): errors, see `errors`, or one column with the scores of the true classes
    weight: Array
    group: NDArray[np.intp] | None = None  # group index of each row, if each group has its own quantiles
    label: NDArray[np.intp] | None = None  # class index of each row, if each class has its own quantiles
    _cached: dict[Any, ConformalScores] = field(default_factory=dict, repr=False)

    @classmethod
    def errors(cls, predicted: Array, y: Array, scale: Array, weight: Array | None, **by: Any) -> HeldOut:
        """Create from predictions of shape (n_rows, n_columns), whose values are (prediction - y) / scale of the row.

        If `weight` is None, all weights are 1. `by` are the optional fields `group` and `label`.
        """
        return cls((predicted - y[:, None]) / scale[:, None], np.ones(len(y)) if weight is None else weight, **by)

    def raw(self, columns: tuple[int, int] | None = None) -> Array:
        """Return the unsorted score of each row.

        If `columns` is None, it is the score of the row's true class. Otherwise, it is the scaled distance of the
        target from the interval between the predictions in these two columns, which is negative inside the interval
        (Romano et al. 2019). If both are the same column, it is the absolute error.
        """
        if columns is None:
            return self.values[:, 0]
        return np.maximum(self.values[:, columns[0]], -self.values[:, columns[1]])

    def scores(
        self, columns: tuple[int, int] | None = None, group: int | None = None, label: int | None = None
    ) -> ConformalScores:
        """Return the sorted scores of all rows, or of the rows with this group index and this class index.

        `columns` are as in `raw`. The result is cached.
        """
        key = columns, group, label
        if key not in self._cached:
            rows = np.ones(len(self.weight), dtype=bool)
            for codes, wanted in ((self.group, group), (self.label, label)):
                rows &= True if wanted is None else codes == wanted
            self._cached[key] = ConformalScores.of(self.raw(columns)[rows], self.weight[rows])
        return self._cached[key]

    def slid(self, new: HeldOut) -> HeldOut:
        """Return a record of equal length, in which the rows of `new` follow and as many of the oldest are dropped."""
        n_rows = len(self.weight)
        pairs = zip(self._fields().values(), new._fields().values(), strict=True)
        joined: Any = dict(zip(self._fields(), (np.concatenate(pair)[-n_rows:] for pair in pairs), strict=True))
        return HeldOut(**joined)

    def _fields(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the record that are not None, by field name."""
        return {name: value for name, value in vars(self).items() if name != "_cached" and value is not None}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cached": {}}

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the state as arrays whose names start with `prefix`."""
        return {prefix + name: array for name, array in self._fields().items()}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> HeldOut:
        """Restore the state from `to_arrays`; raise ValueError if the arrays are malformed."""
        held_out = cls(*(arrays.get(prefix + name) for name in ("values", "weight", "group", "label")))  # type: ignore[arg-type]
        fields = held_out._fields()
        is_sound = {"values", "weight"} <= fields.keys() and held_out.values.ndim == 2 and held_out.values.shape[1] > 0
        of_rows = [fields[name].ndim == 1 for name in ("weight", "group", "label") if name in fields]
        are_codes = [fields[name].dtype.kind in "iu" for name in ("group", "label") if name in fields]
        if not (is_sound and all(of_rows) and all(are_codes)) or len({len(each) for each in fields.values()}) > 1:
            raise ValueError("the calibration scores are malformed")
        if not (held_out.weight >= 0).all():
            raise ValueError("the weights of the calibration scores are malformed")
        return held_out


@dataclass(frozen=True, eq=False)
class RowConditions:
    """The calibration group of each row, -1 for unknown groups, and its likelihood ratio under a covariate shift."""

    group: NDArray[np.intp] | None = None
    ratio: Array | None = None

    def take(self, rows: NDArray[Any]) -> RowConditions:
        """Return the conditions of the rows with these indices."""
        return RowConditions(*(None if each is None else each[rows] for each in (self.group, self.ratio)))

    def parts(self) -> Iterator[tuple[int | None, Any, Any]]:
        """Yield, for each group, its index, its row indices and their likelihood ratios (1 if there are none).

        Without groups, yield None, a slice of all rows and all ratios.
        """
        ratio = 1.0 if self.ratio is None else self.ratio
        if self.group is None:
            yield None, slice(None), ratio
            return
        for group in np.unique(self.group):
            rows = np.flatnonzero(self.group == group)
            yield int(group), rows, ratio if self.ratio is None else self.ratio[rows]


@dataclass(frozen=True)
class Conditions:
    """What a calibration is conditional on: groups of rows, and likelihood ratios under a covariate shift."""

    labels: list[Any] | None = None  # group labels, None for missing values; None if there are no groups
    column: str | None = None  # column of the table that holds the groups
    has_ratios: bool = False

    @classmethod
    def learn(cls, X: Any, n_rows: int, group: Any, likelihood_ratio: Any) -> tuple[Conditions, RowConditions]:
        """Return the conditions of a calibration on `n_rows` rows, and of each row.

        `group` holds the labels of the rows or names a column of X; None means a single group. Raises ValueError if the
        groups or the ratios are invalid, or all ratios are 0.
        """
        codes, labels = (None, None) if group is None else _index_groups(_group_labels(X, group), n_rows)
        column = group if isinstance(group, str) else None
        rows = RowConditions(codes, _checked_ratio(likelihood_ratio, n_rows))
        if rows.ratio is not None and not rows.ratio.any():
            raise ValueError("likelihood_ratio must have a positive sum; all its values are 0.")
        return cls(labels, column, rows.ratio is not None), rows

    def of_rows(self, X: Any, n_rows: int, group: Any, likelihood_ratio: Any) -> RowConditions:
        """Return the conditions of new rows; groups that the calibration lacks have index -1.

        If `group` is None, the column that held the groups of the calibration is used. Raises ValueError unless groups
        and likelihood ratios are passed exactly if the calibration had them.
        """
        group = self.column if group is None else group
        for name, value, is_needed in (
            ("group", group, self.labels is not None),
            ("likelihood_ratio", likelihood_ratio, self.has_ratios),
        ):
            if is_needed and value is None:
                raise ValueError(f"{name} must be given for new rows, because the calibration used it; got None.")
            if value is not None and not is_needed:
                raise ValueError(f"{name} must be None for new rows, because the calibration did not use it.")
        if self.labels is None:
            return RowConditions(None, _checked_ratio(likelihood_ratio, n_rows))
        codes, labels = _index_groups(_group_labels(X, group), n_rows)
        code_of = {label: code for code, label in enumerate(self.labels)}
        label_codes = np.array([code_of.get(label, -1) for label in labels], dtype=np.intp)
        return RowConditions(label_codes[codes], _checked_ratio(likelihood_ratio, n_rows))

    def by_group(
        self,
        parts: Sequence[HeldOut],
        rows: RowConditions,
        coverage: float,
        answer: Callable[[int | None, Any, Any], Any],
    ) -> Any:
        """Return the results of new rows, which ``answer(group index, row indices, ratios)`` computes for each group.

        Groups with too few rows in `parts`, the held-out rows of each fold, for this coverage have infinite intervals
        or full sets; a warning names the first of them.
        """
        results: Any = None
        small = []
        for group, group_rows, new in rows.parts():
            answered = answer(group, group_rows, new)
            if group is None or rows.group is None or self.labels is None:
                return answered
            results = np.empty((len(rows.group), *answered.shape[1:]), answered.dtype) if results is None else results
            results[group_rows] = answered
            total = sum_in_order(float(part.weight[part.group == group].sum()) for part in parts)
            if total < coverage * (total + np.min(new)) * (1.0 - _SLACK):
                small.append((self.labels[group] if group >= 0 else "a new group", total))
        if small:
            others = f" and {len(small) - 1} more group{'s' * (len(small) > 2)}" if len(small) > 1 else ""
            warn(
                f"group must hold at least {coverage / (1 - coverage):.4g} calibration rows for a coverage of "
                f"{coverage:g}; got {small[0][1]:g} for {small[0][0]!r}{others}. Their intervals are infinite, or sets "
                "hold all classes; merge them with other groups."
            )
        return results

    def to_arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """Return the state as arrays whose names start with `prefix`; none if there are no conditions."""
        if self == Conditions():
            return {}
        content = json.dumps([self.labels, self.column, self.has_ratios]).encode()
        return {f"{prefix}conditions": np.frombuffer(content, dtype=np.uint8)}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Conditions:
        """Restore the state from `to_arrays`; raise ValueError if the arrays are malformed."""
        if f"{prefix}conditions" not in arrays:
            return cls()
        content = parse_json(arrays[f"{prefix}conditions"].tobytes())
        labels, column, has_ratios = content if isinstance(content, list) and len(content) == 3 else ([[]], None, None)
        is_sound = isinstance(labels, list | None) and isinstance(column, str | None) and type(has_ratios) is bool
        if not is_sound or not all(isinstance(label, str | int | float | None) for label in labels or []):
            raise ValueError("the calibration groups are malformed")
        return cls(labels, column, has_ratios)


def _group_labels(X: Any, group: Any) -> Any:
    """Return the group labels: the named column of X if `group` is a string, otherwise `group` itself."""
    return unmasked(split_columns(X, group=group)[1] if isinstance(group, str) else group, "group")


def _index_groups(group: NDArray[Any], n_rows: int) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the index of each row's label in a list of distinct labels, and the list.

    Its last entry is None, for missing values. Raises ValueError unless `group` holds `n_rows` strings or numbers.
    """
    if group.shape != (n_rows,):
        raise ValueError(f"group must have one group for each of the {n_rows} rows; got shape {group.shape}.")
    codes, values, _ = factorize(group)
    labels = [None if is_missing(value) else category_of(value) for value in values]
    label_index = np.array([len(labels) if label is None else code for code, label in enumerate([*labels, None])])
    if bad := [label for label in labels if not isinstance(label, str | int | float | None)]:
        raise ValueError(f"group must hold strings or numbers; got {bad[0]!r} of type {type(bad[0]).__name__}.")
    return label_index[codes].astype(np.intp), [*labels, None]  # the code -1 of a missing value selects the last entry


def _checked_ratio(likelihood_ratio: Any, n_rows: int) -> Array | None:
    """Return the ratios as an array, or None; raise ValueError unless they are `n_rows` finite numbers >= 0."""
    if likelihood_ratio is None:
        return None
    ratios = numbers_in(likelihood_ratio, "likelihood_ratio")
    if ratios.shape != (n_rows,):
        raise ValueError(f"likelihood_ratio must have one number for each of the {n_rows} rows; got {ratios.shape}.")
    if not (np.isfinite(ratios) & (ratios >= 0)).all():
        bad = ratios[~(np.isfinite(ratios) & (ratios >= 0))][0]
        raise ValueError(f"likelihood_ratio must hold finite numbers of at least 0; got {bad}.")
    return ratios


# Intervals --------------------------------------------------


def nearest_columns(levels: Sequence[float] | None, n_columns: int, coverage: float) -> tuple[int, int]:
    """Return the columns of predicted quantiles whose levels are nearest to (1 - coverage) / 2 and (1 + coverage) / 2.

    Ties go to the outer column. If `levels` is None or does not match `n_columns`, return the first and last column.
    """
    if levels is None or len(levels) != n_columns:
        return 0, n_columns - 1
    level_values = np.asarray(levels, dtype=np.float64)
    # Rounding turns nearly equal distances into ties, which go to the outer level.
    distance_low = np.abs(level_values - (1 - coverage) / 2).round(9)
    distance_high = np.abs(level_values - (1 + coverage) / 2).round(9)
    return int(distance_low.argmin()), n_columns - 1 - int(distance_high[::-1].argmin())


def middle_column(levels: Sequence[float] | None, n_columns: int) -> int:
    """Return the column of predicted quantiles nearest to the median, or the middle one if the levels are unknown."""
    return n_columns // 2 if levels is None or len(levels) != n_columns else nearest_columns(levels, n_columns, 0.0)[0]


def intervals(
    parts: Sequence[ConformalScores],
    predicted: Sequence[Array],
    scales: Sequence[Array],
    coverage: float,
    n_threads: int,
    new: Any = 1.0,
) -> Array:
    """Return calibrated intervals of new rows, (n_samples, 2), from the intervals that each fold's model predicts.

    `parts` are the calibration scores, `predicted` the lower and upper ends, (n_samples, 2), and `scales` the scales of
    the new rows, each by fold. `new` is the weight of each new row in `needed_weight`.
    """
    low, high = (np.column_stack([part[:, end] for part in predicted]) for end in (0, 1))
    stacked, needed = np.column_stack(scales), needed_weight(parts, coverage, new)
    lower, upper = (upper_ends(parts, center, stacked, needed, n_threads) for center in (-low, high))
    ends = np.column_stack([-lower, upper])
    # The bounds may cross if the predicted quantiles are far too wide for the coverage.
    crossed = ends[:, 0] > ends[:, 1]
    ends[crossed] = ends[crossed].mean(axis=1, keepdims=True)
    return ends


@dataclass(frozen=True)
class FoldQuantiles:
    """The quantiles, or one prediction, that the model of each fold predicts for some rows."""

    predicted: Sequence[Array]  # (n_rows, n_columns) for each fold
    scales: Sequence[Array]  # scale of the errors of each row
    levels: Sequence[float] | None  # quantile levels of the columns

    def columns(self, coverage: float) -> tuple[int, int]:
        """Return the lower and the upper predicted column that intervals of this coverage start from."""
        return nearest_columns(self.levels, self.predicted[0].shape[1], coverage)

    def intervals(
        self, parts: Sequence[HeldOut], conditions: Conditions, rows: RowConditions, coverages: Any, n_threads: int
    ) -> Array:
        """Return calibrated intervals of the new rows, (n_samples, 2), from the held-out rows `parts` of each fold.

        `coverages` are the requested coverage, which selects the columns, and the coverage to calibrate for, which
        differs from it if it is adapted to new rows.
        """
        requested, adapted = coverages
        columns = self.columns(requested)

        def answer(group: int | None, group_rows: Any, new: Any) -> Array:
            ends = [part[group_rows][:, list(columns)] for part in self.predicted]
            scores = [part.scores(columns, group) for part in parts]
            return intervals(scores, ends, [scale[group_rows] for scale in self.scales], adapted, n_threads, new)

        return conditions.by_group(parts, rows, requested, answer)


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
        """Return the nonconformity scores of all classes, (n_samples, n_classes), from their probabilities."""
        if self.name == "lac":
            return 1.0 - probability
        order = np.argsort(-probability, axis=1, kind="stable")
        falling = np.take_along_axis(probability, order, axis=1)
        before = np.cumsum(falling, axis=1) - falling
        if self.name == "raps":
            before += self.penalty * np.maximum(0, np.arange(1, before.shape[1] + 1) - self.free_places)
        scores = np.empty_like(before)
        np.put_along_axis(scores, order, before, axis=1)
        return scores

    def of_labels(self, probability: Array, label: Array) -> Array:
        """Return the nonconformity score of the class index `label` of each row, shape (n_samples,)."""
        return self.of(probability)[np.arange(len(label)), label.astype(np.intp)]


SET_SCORES = ("lac", "aps", "raps")


def sets(parts: Sequence[ConformalScores], scores: Sequence[Array], coverage: float, new: Any = 1.0) -> Any:
    """Return a mask of the classes in the prediction sets of new rows, (n_samples, n_classes) (Romano et al. 2020).

    `parts` are the calibration scores and `scores` the scores of all classes of the new rows, each by fold. `new` is
    the weight of each new row in `needed_weight`.
    """
    below = [part.weight_below(fold_scores) for part, fold_scores in zip(parts, scores, strict=True)]
    return sum(below) < np.reshape(needed_weight(parts, coverage, new), (-1, 1))


def calibrated_sets(
    parts: Sequence[HeldOut], scores: Sequence[Array], conditions: Conditions, rows: RowConditions, coverages: Any
) -> NDArray[np.bool_]:
    """Return a mask of the classes in the prediction sets of new rows, calibrated by group and, if held out, class.

    `parts` are the held-out rows and `scores` the scores of all classes of the new rows, each by fold. `coverages` are
    the requested coverage and the coverage to calibrate for.
    """
    requested, adapted = coverages

    def answer(group: int | None, group_rows: Any, new: Any) -> Any:
        mine = [fold_scores[group_rows] for fold_scores in scores]
        if parts[0].label is None:
            return sets([part.scores(None, group) for part in parts], mine, adapted, new)
        by_class = (
            sets([part.scores(None, group, k) for part in parts], [each[:, k : k + 1] for each in mine], adapted, new)
            for k in range(mine[0].shape[1])
        )
        return np.hstack(list(by_class))

    return conditions.by_group(parts, rows, requested, answer)


# Sequences --------------------------------------------------


def adapted_coverage(adapted: float, coverage: float, step: float, below: Array, total: Array) -> float:
    """Return the coverage to calibrate for after new rows, in their order (Gibbs & Candes 2021, eq. 2).

    It starts at `adapted`, rises by `step` * `coverage` for each row that its interval or set misses, and falls by
    `step` * (1 - `coverage`) for each row that it contains. `below` is the weight of the calibration rows whose score
    is below the row's, and `total` the weight of all of them and the row.
    """
    for weight_below, of_all in zip(below.tolist(), total.tolist(), strict=True):
        is_missed = weight_below >= adapted * of_all * (1.0 - _SLACK)
        adapted += step * (is_missed - (1.0 - coverage))
    return adapted
