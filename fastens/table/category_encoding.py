"""The part of the estimator base that replaces categories by target statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.options import Categories
from fastens.table.encoder import InputEncoder
from fastens.table.target_statistics import METHODS, TargetStatistics

# With Categories(encoding="auto"), columns of more categories are encoded by target statistics.
MOST_PARTITIONED = 32


class EncodesCategories:
    """An estimator that encodes categories by its `Categories`; by default they stay as they are.

    `fit` gives its training rows to `_learn_statistics`, and its validation rows to `_apply_statistics`.
    """

    n_features_in_: int
    _encoder: InputEncoder
    _statistics: TargetStatistics | None = None

    def _category_options(self) -> Categories:
        """How trees see categories."""
        return Categories(encoding="partition")

    def _learn_statistics(self, data: Any, seed: int) -> Any:
        """Encode TrainingData, each row from other rows than itself."""
        self._statistics = None
        method, columns = self._columns_of_statistics(data.y)
        if not columns:
            return data
        targets = _targets(data.y, self._n_classes_of(data.y))
        self._statistics, X = TargetStatistics.learn(data.X, targets, data.sample_weight, columns, method, seed)
        return data._replace(X=X)

    def _columns_of_statistics(self, y: NDArray[np.float64]) -> tuple[str, list[int]]:
        """How categories are encoded by the target, and the columns where they are."""
        method = self._category_options().encoding
        sizes = [0 if found is None else len(found) for found in self._encoder.categories]
        if method == "auto":
            fewest = MOST_PARTITIONED + 1 if self._n_classes_of(y) <= 2 else np.inf
            return "target", [column for column, size in enumerate(sizes) if size >= fewest]
        return method, np.flatnonzero(sizes).tolist() if method in METHODS else []

    def _n_classes_of(self, y: NDArray[np.float64]) -> int:
        return len(getattr(self, "classes_", ())) if y.ndim == 1 else 0

    def _learn_same_statistics(self, data: Any, seed: int) -> Any:
        """Encode the rows of an earlier fit again; ValueError where they give other statistics."""
        before = self._statistics_arrays()
        encoded = self._learn_statistics(data, seed)
        self._check_same_statistics(before)
        return encoded

    def _check_same_statistics(self, before: dict[str, NDArray[Any]]) -> None:
        """Raise ValueError unless categories are encoded as in the fit that is continued."""
        now = self._statistics_arrays()
        if before.keys() != now.keys() or any(
            not np.array_equal(now[name], old, equal_nan=True) for name, old in before.items()
        ):
            raise ValueError(
                "X and y must be those of the fit that this one continues, as they give the categories their numbers."
            )

    def _apply_statistics(self, data: Any) -> Any:
        """Encode TrainingData to validate on."""
        return data if self._statistics is None else data._replace(X=self._statistics.transform(data.X))

    @property
    def _is_categorical(self) -> NDArray[np.bool_]:
        """Which columns of the encoded table hold categories."""
        kinds = self._encoder.is_categorical
        if self._statistics is None:
            return np.append(kinds, np.zeros(len(self._encoder.repeated), dtype=bool))
        kinds[self._statistics.columns] = False
        return np.append(kinds, np.zeros(len(self._column_of) - len(kinds), dtype=bool))

    @property
    def _column_of(self) -> NDArray[np.intp]:
        """The column of X that each column of the encoded table is derived from."""
        n_features = self.n_features_in_
        if self._statistics is not None:
            return self._statistics.column_of(n_features)
        return np.append(np.arange(n_features), np.array(self._encoder.repeated, dtype=np.intp))

    def _by_columns(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Sums over the columns of X of values of the encoded table's columns."""
        return np.bincount(self._column_of, values, self.n_features_in_).astype(np.float64)

    def _statistics_arrays(self) -> dict[str, NDArray[Any]]:
        """For saving."""
        return {} if self._statistics is None else self._statistics.to_arrays()

    def _restore_statistics(self, arrays: dict[str, NDArray[Any]]) -> None:
        """From what `_statistics_arrays` gave; ValueError for anything else."""
        if arrays:
            self._statistics = TargetStatistics.from_arrays(arrays)
            kinds = self._encoder.is_categorical
            if any(not 0 <= column < len(kinds) or not kinds[column] for column in self._statistics.columns):
                raise ValueError("the statistics of the categories and the columns do not fit together")


def _targets(y: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """What to take means of, (n_targets, n_rows): three or more classes each, or the columns of y."""
    targets = y == np.arange(n_classes)[:, None] if n_classes > 2 else np.atleast_2d(y.T)
    return np.ascontiguousarray(targets, dtype=np.float64)
