"""Categorical columns as numbers: the mean target of each category (Micci-Barreca 2001).

What a row is trained on must not know its own target, or the trees would learn to read it there. So a training row gets
the mean of other rows: those of the other folds, or those before it in a random order (Prokhorenkova et al. 2018,
"CatBoost: unbiased boosting with categorical features"). Rows to predict for get the mean of all training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import LOCAL, Comm, first_row, in_turn, is_any, max_floats, of_whole
from fastens.engine.losses.losses import exact_sum
from fastens.engine.parts import MappedRows, parts_of
from fastens.engine.rows.sampling import random_stream
from fastens.engine.whole import are_copies, are_whole
from fastens.table.category_means import category_sums, fold_sums, means_of_other_folds, ordered_means

Array = NDArray[np.float64]

METHODS = ("target", "ordered")
# Each row then knows the targets of 90 % of its category, nearly as many as a row to predict for.
N_FOLDS = 10
_STANDARD_ERRORS = 2.0
# Targets so many times half their range from 0 would leave squares, and tables of float32, too few digits of it.
_FAR = 64.0


@dataclass(frozen=True)
class _Smoothing:
    """What the mean of a category is pulled towards, and with the weight of how many rows; infinity: it is that."""

    mean: float
    prior: float


def _smoothing(sums: Array) -> _Smoothing:
    """The prior by the variance between the categories' means and within categories (Efron & Morris 1975).

    Both are estimated as in a one-way analysis of variance with unequal groups; `sums` are those of `category_sums`.
    Categories of one row know nothing of the variance within, so it comes from the others. The prior is infinite, and
    the column constant, unless the ratio of the two mean squares exceeds 1 by more than `_STANDARD_ERRORS`: a column
    of nearly as many categories as rows would otherwise pass noise for what its categories have in common.
    """
    total, square, weight, _ = sums[sums[:, 2] > 0].T
    all_rows = weight.sum()
    mean = total.sum() / all_rows
    n_groups = len(weight)
    if all_rows <= n_groups or n_groups < 2:
        return _Smoothing(mean, np.inf)
    within = max((square - total * total / weight).sum(), 0.0) / (all_rows - n_groups)
    between = (weight * (total / weight - mean) ** 2).sum() / (n_groups - 1)
    group_size = (all_rows - (weight * weight).sum() / all_rows) / (n_groups - 1)
    error = np.sqrt(2.0 / (n_groups - 1) + 2.0 / (all_rows - n_groups))  # of the ratio, if categories do not matter
    # Where one category has nearly all weight, others are too light to tell the variance between categories by.
    if group_size <= 0 or between <= within * (1.0 + _STANDARD_ERRORS * error):
        return _Smoothing(mean, np.inf)
    return _Smoothing(mean, within * group_size / (between - within))


@dataclass(frozen=True)
class Targets:
    """What the means of categories are of: the targets of one rank's rows.

    Floats are added up in the order of the table's rows, or in a random order of them, on any number of ranks.

    Attributes
    ----------
    values : float64 array of shape (n_targets, n_rows)
        The targets.
    weights : float64 array of shape (n_rows,) or None
        Positive. In the means of all rows a whole-number weight equals copies of the row; the other rows behind a row's
        own mean are drawn by row.
    comm : Comm
        The ranks.
    own_weights : float64 array of shape (n_rows,) or None
        The weights without those of classes, where both are given.
    """

    values: Array
    weights: Array | None = None
    comm: Comm = LOCAL
    own_weights: Array | None = None

    def scaled(self) -> Targets:
        """The same with weights that are not whole scaled to a mean of 1, over copies where those of rows are whole."""
        weights, own, comm = self.weights, self.own_weights, self.comm
        if weights is None:
            return self
        if own is None or is_any(comm, not are_whole(own)) or not is_any(comm, not are_whole(weights)):
            is_scaled = is_any(comm, not are_copies(weights))
            return (
                replace(self, weights=of_whole(comm, lambda each: each / each.mean(), weights)) if is_scaled else self
            )
        return replace(self, weights=weights * (exact_sum(own, comm) / exact_sum(weights, comm)))

    def near_0(self) -> Targets:
        """The same less the middle of their range, where that is far from 0; no target is rounded by it."""
        highest, minus_lowest = self.values.max(axis=1, initial=-np.inf), -self.values.min(axis=1, initial=np.inf)
        high, minus_low = np.split(np.array(max_floats(self.comm, *highest, *minus_lowest)) / 2, 2)
        middle, half_range = high - minus_low, high + minus_low
        centre = np.where(np.abs(middle) / _FAR > half_range, middle, 0.0)
        return replace(self, values=self.values - centre[:, None]) if centre.any() else self

    def sums(self, column: Array) -> Array:
        """The sums of `category_sums` over all ranks, (n_targets, n_categories, 4)."""
        n_categories = np.array([int(np.fmax.reduce(column, initial=-1)) + 1], dtype=np.int64)
        self.comm.max(n_categories)

        def add(sums: Array) -> None:
            for target, own in zip(self.values, sums, strict=True):
                category_sums(column, target, self.weights, own)

        return in_turn(self.comm, np.zeros((len(self.values), n_categories[0], 4)), add)

    def of_other_folds(self, column: Array, sums: Array, smoothing: Sequence[_Smoothing], seed: int) -> Array:
        """For each row the smoothed means of its category in the other folds, (n_targets, n_rows)."""
        first, n_rows = first_row(self.comm, len(column))
        fold = random_stream(seed, 0).integers(0, N_FOLDS, n_rows, dtype=np.uint8)[first : first + len(column)]

        def add(sums: Array) -> None:
            for target, own in zip(self.values, sums, strict=True):
                fold_sums(column, target, self.weights, fold, own)

        of_folds = in_turn(self.comm, np.zeros((*sums.shape[:2], N_FOLDS, 2)), add)
        out = np.empty(self.values.shape)
        for own, prior, of_rows in zip(of_folds, smoothing, out, strict=True):
            means_of_other_folds(column, fold, own, prior.mean, prior.prior, of_rows)
        return out

    def ordered(self, column: Array, sums: Array, smoothing: Sequence[_Smoothing], seed: int) -> Array:
        """For each row the smoothed means of its category among the rows before it in a random order."""

        def of_all(column: Array, targets: Array, weights: Array | None) -> Array:
            order = random_stream(seed, 0).permutation(len(column))
            out = np.empty(targets.shape)
            for target, prior, of_rows in zip(targets, smoothing, out, strict=True):
                room = np.zeros((sums.shape[1], 2))
                ordered_means(column, target, weights, order, prior.mean, prior.prior, room, of_rows)
            return out

        return of_whole(self.comm, of_all, column, self.values, self.weights)


class TargetStatistics:
    """Smoothed means of targets by category, for some columns of a table and one target or several.

    The first target's means take the place of the column; those of further targets are columns at the end. Targets far
    from 0 are less what they have in common: see `Targets.near_0`.

    Parameters
    ----------
    columns : sequence of int
        The columns that are encoded.
    means : sequence of float64 arrays of shape (n_categories, n_targets)
        For each of them, the means by position of the category; NaN for one that had no row.
    fill : float64 array of shape (n_columns, n_targets)
        What a missing or unseen category gets: NaN where the column had missing values, else the mean of all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.table.target_statistics import Targets, TargetStatistics
    >>> X, y = np.repeat([[0.0], [1.0]], 50, axis=0), np.repeat([0.0, 1.0], 50)
    >>> statistics, encoded = TargetStatistics.learn(X, Targets(y[None]), [0], "target", seed=0)
    >>> bool(np.array_equal(encoded[:, 0], y)), statistics.transform(np.array([[1.0], [np.nan]])).ravel()
    (True, array([1. , 0.5]))
    """

    def __init__(self, columns: Sequence[int], means: Sequence[Array], fill: Array) -> None:
        self.columns = [int(column) for column in columns]
        self.means = list(means)
        self.fill = np.asarray(fill, dtype=np.float64)

    @property
    def n_targets(self) -> int:
        """Columns that each encoded one becomes."""
        return self.fill.shape[1]

    def column_of(self, n_features: int) -> NDArray[np.intp]:
        """The column of the table that each column of the encoded table is derived from."""
        return np.concatenate([np.arange(n_features), np.repeat(self.columns, self.n_targets - 1)]).astype(np.intp)

    @classmethod
    def learn(
        cls,
        X: Any,
        targets: Targets,
        columns: Sequence[int],
        method: str,
        seed: int,
    ) -> tuple[TargetStatistics, Any]:
        """Learn from training rows, which are read once, and encode them, each from other rows than itself.

        Parameters
        ----------
        X : row source of shape (n_rows, n_features)
            The columns to encode hold positions of categories, NaN where missing.
        targets : Targets
            Those of these rows. The statistics are of the rows of all ranks.
        columns : sequence of int
            The columns to encode.
        method : "target" or "ordered"
            From the rows of the other folds, or from those before in a random order.
        seed : int
            Of the folds, or the order.

        Returns
        -------
        TargetStatistics, row source of shape (n_rows, n_features + (n_targets - 1) * n_columns)
        """
        targets, n_targets = targets.near_0().scaled(), len(targets.values)
        encoded = np.empty((n_targets, len(columns), X.shape[0]))
        for start, part in parts_of(X):
            encoded[0, :, start : start + len(part)] = part[:, columns].T
        means, fill = [], np.empty((len(columns), n_targets))
        for place in range(len(columns)):
            column = encoded[0, place].copy()
            sums = targets.sums(column)
            smoothing = [_smoothing(own) if len(own) else _Smoothing(0.0, 1.0) for own in sums]
            means.append(np.column_stack(list(map(_means, sums, smoothing))))
            has_missing = is_any(targets.comm, bool(np.isnan(column).any()))
            fill[place] = np.nan if has_missing else [own.mean for own in smoothing]
            of_others = targets.ordered if method == "ordered" else targets.of_other_folds
            encoded[:, place] = of_others(column, sums, smoothing, seed)
        statistics = cls(columns, means, fill)
        return statistics, statistics._put(X, encoded)

    def transform(self, X: Any) -> Any:
        """Encode rows to predict for."""
        if not isinstance(X, np.ndarray):
            return MappedRows(X, lambda _, part: self.transform(part), len(self.column_of(X.shape[1])))
        encoded = np.empty((self.n_targets, len(self.columns), len(X)))
        for place, (column, means, fill) in enumerate(zip(self.columns, self.means, self.fill, strict=True)):
            values = X[:, column]
            known = np.flatnonzero(values < len(means))  # NaN is not
            found = np.repeat(fill[:, None], len(X), axis=1)
            of_known = means[values[known].astype(np.intp)].T
            found[:, known] = np.where(np.isnan(of_known), fill[:, None], of_known)
            encoded[:, place] = found
        return self._put(X, encoded)

    def _put(self, X: Any, encoded: Array) -> Any:
        n_rows, n_features = X.shape
        if not isinstance(X, np.ndarray):
            return MappedRows(
                X,
                lambda start, part: self._put(part, encoded[:, :, start : start + len(part)]),
                len(self.column_of(n_features)),
            )
        n_more = (self.n_targets - 1) * len(self.columns)
        out = np.empty((n_rows, n_features + n_more), dtype=X.dtype, order="F")
        out[:, :n_features] = X
        out[:, self.columns] = encoded[0].T
        # The further targets of a column stand together, in the order of `column_of`.
        out[:, n_features:] = encoded[1:].transpose(2, 1, 0).reshape(n_rows, n_more)
        return out

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as a few arrays, for saving."""
        return {
            "columns": np.array(self.columns, dtype=np.int64),
            "means": np.concatenate([means.ravel() for means in self.means]),
            "n_categories": np.array([len(means) for means in self.means], dtype=np.int64),
            "fill": self.fill,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> TargetStatistics:
        """Rebuild from `to_arrays()`; ValueError for anything else."""
        columns, n_categories, fill = arrays["columns"], arrays["n_categories"], arrays["fill"]
        fits = fill.ndim == 2 and len(columns) == len(n_categories) == len(fill) and (n_categories >= 0).all()
        if not fits or arrays["means"].size != n_categories.sum() * fill.shape[1] or columns.dtype.kind != "i":
            raise ValueError("the statistics of the categories are malformed")
        parts = np.split(arrays["means"], np.cumsum(n_categories * fill.shape[1])[:-1])
        return cls(columns.tolist(), [part.reshape(-1, fill.shape[1]) for part in parts], fill)


def _means(sums: Array, smoothing: _Smoothing) -> Array:
    """The smoothed mean of each category; NaN where it has no row."""
    total, weight = sums[:, 0], sums[:, 2]
    if np.isinf(smoothing.prior):
        return np.where(weight > 0, smoothing.mean, np.nan)
    with np.errstate(invalid="ignore"):
        means = (total + smoothing.prior * smoothing.mean) / (weight + smoothing.prior)
    return np.where(weight > 0, means, np.nan)
