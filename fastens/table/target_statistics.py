"""Categorical columns as numbers: the mean target of each category (Micci-Barreca 2001).

What a row is trained on must not know its own target, or the trees would learn to read it there. So a training row gets
the mean of other rows: those of the other folds, or those before it in a random order (Prokhorenkova et al. 2018,
"CatBoost: unbiased boosting with categorical features"). Rows to predict for get the mean of all training rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.parts import MappedRows, column_of
from fastens.engine.rows.sampling import random_stream
from fastens.engine.whole import as_copies
from fastens.table.category_means import category_sums, means_of_other_folds, ordered_means

Array = NDArray[np.float64]

METHODS = ("target", "ordered")
# Each row then knows the targets of 90 % of its category, nearly as many as a row to predict for.
N_FOLDS = 10


@dataclass(frozen=True)
class _Smoothing:
    """What the mean of a category is pulled towards, and with the weight of how many rows."""

    mean: float
    prior: float


def _smoothing(sums: Array) -> _Smoothing:
    """The prior by the variance between the categories' means and within categories (Efron & Morris 1975).

    Both are estimated as in a one-way analysis of variance with unequal groups; `sums` are those of `category_sums`.
    """
    total, square, weight, _ = sums[sums[:, 2] > 0].T
    all_rows = weight.sum()
    mean = total.sum() / all_rows
    n_groups = len(weight)
    if all_rows <= n_groups or n_groups < 2:
        return _Smoothing(mean, max(all_rows, 1.0))
    within = max((square - total * total / weight).sum(), 0.0) / (all_rows - n_groups)
    between = (weight * (total / weight - mean) ** 2).sum() / (n_groups - 1)
    group_size = (all_rows - (weight * weight).sum() / all_rows) / (n_groups - 1)
    variance = (between - within) / group_size
    if variance * all_rows <= within:
        return _Smoothing(mean, all_rows)
    return _Smoothing(mean, within / variance)


class TargetStatistics:
    """Smoothed means of targets by category, for some columns of a table and one target or several.

    The first target's means take the place of the column; those of further targets are columns at the end.

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
    >>> from fastens.table.target_statistics import TargetStatistics
    >>> X, y = np.repeat([[0.0], [1.0]], 50, axis=0), np.repeat([0.0, 1.0], 50)
    >>> statistics, encoded = TargetStatistics.learn(X, y[None], None, [0], "target", seed=0)
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
        targets: Array,
        weights: Array | None,
        columns: Sequence[int],
        method: str,
        seed: int,
    ) -> tuple[TargetStatistics, Any]:
        """Learn from training rows, and encode them, each from other rows than itself.

        Parameters
        ----------
        X : row source of shape (n_rows, n_features)
            The columns to encode hold positions of categories, NaN where missing.
        targets : float64 array of shape (n_targets, n_rows)
            What to take the means of.
        weights : float64 array of shape (n_rows,) or None
            Positive. In the means of all rows a whole-number weight equals copies of the row; the other rows behind a
            row's own mean are drawn by row.
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
        weights = as_copies(weights)
        encoded = np.empty((len(targets), len(columns), X.shape[0]))
        means, fill = [], np.empty((len(columns), len(targets)))
        for place, column in enumerate(columns):
            values = column_of(X, column)
            of_targets = []
            for k, target in enumerate(targets):
                sums = np.zeros((int(np.fmax.reduce(values, initial=-1)) + 1, 4))
                category_sums(values, target, weights, sums)
                smoothing = _smoothing(sums) if len(sums) else _Smoothing(0.0, 1.0)
                of_targets.append(_means(sums, smoothing))
                fill[place, k] = np.nan if np.isnan(values).any() else smoothing.mean
                encoded[k, place] = _of_other_rows(values, target, weights, smoothing, method, seed)
            means.append(np.column_stack(of_targets))
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
    with np.errstate(invalid="ignore"):
        means = (total + smoothing.prior * smoothing.mean) / (weight + smoothing.prior)
    return np.where(weight > 0, means, np.nan)


def _of_other_rows(
    values: NDArray[np.floating], target: Array, weights: Array | None, smoothing: _Smoothing, method: str, seed: int
) -> Array:
    """For each row the smoothed mean of its category among other rows."""
    out = np.empty(len(values))
    n_categories = int(np.fmax.reduce(values, initial=-1)) + 1
    draw = random_stream(seed, 0)
    if method == "ordered":
        order = draw.permutation(len(values))
        room = np.zeros((n_categories, 2))
        ordered_means(values, target, weights, order, smoothing.mean, smoothing.prior, room, out)
    else:
        fold = draw.integers(0, N_FOLDS, len(values), dtype=np.uint8)
        folds = np.zeros((n_categories, N_FOLDS, 4))
        means_of_other_folds(values, target, weights, fold, smoothing.mean, smoothing.prior, folds, out)
    return out
