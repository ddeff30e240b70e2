"""Mergeable summaries of rows for learning bin edges: quantile sketches and distinct values."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from fastens.engine.bins.sketch import collect_values, cut_columns, kth_distinct
from fastens.engine.comm import Comm
from fastens.engine.parts import CONVERTED_BLOCK, ConvertedRows, RowSource, as_array, own_parts, parts_of, stored_values
from fastens.engine.rows.sampling import SparseColumns, canonical, columns_of, hash_table
from fastens.engine.threads import threads_for

# Number of hash table slots processed at a time.
_BLOCK = 1 << 20
# Number of rows that are copied to columns at a time, so that they stay in the cache.
_GATHERED_ROWS = 1 << 10


class DistinctValues:
    """The distinct values of each feature over all rows so far, tracked until there are more than a limit.

    Parameters
    ----------
    is_left_out : bool array of shape (n_features,)
        True for features that are not tracked.
    limit : int
        Maximum number of distinct values per feature.

    Attributes
    ----------
    is_over : bool array of shape (n_features,)
        True for features that are not tracked or have too many distinct values.
    values : float64 array
        Distinct values of the other features in ascending order, one feature after another.
    starts : int64 array of shape (n_features + 1,)
        Offset of each feature in `values`.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.row_sketch import DistinctValues
    >>> distinct = DistinctValues(np.array([False, False]), limit=2)
    >>> distinct.note(np.array([[1.0, 2.0], [1.0, 3.0], [np.nan, 4.0]]))
    >>> distinct.values, distinct.is_over
    (array([1.]), array([False,  True]))
    """

    def __init__(self, is_left_out: np.ndarray, limit: int) -> None:
        self.is_over, self.limit = is_left_out.copy(), limit
        self.values, self.starts = np.zeros(0), np.zeros(len(is_left_out) + 1, dtype=np.int64)

    def note(self, X: Any, n_threads: int = 1) -> None:
        """Add the values of all rows of an array or a sparse matrix to the distinct values of each feature."""
        if self.is_over.all():
            return
        if stored_values(X) is not None:
            values, counts = cut_columns(*columns_of(X), None, X.shape[0], self.limit, True, n_threads)
            self.is_over |= counts < 0
            if len(self.values) == 0 and not self.is_over[counts > 0].any():
                self.values, self.starts = values, np.append(0, np.cumsum(np.maximum(counts, 0), dtype=np.int64))
            else:
                self._add(np.repeat(np.arange(X.shape[1]), np.maximum(counts, 0)), values)
            return
        n_slots = 1 << (self.limit + 1).bit_length()
        block = max(1, _BLOCK // n_slots)
        for start in range(0, X.shape[1], block):
            self._add_block(X[:, start : start + block], start, n_slots, n_threads)

    def _add_block(self, X: np.ndarray, start: int, n_slots: int, n_threads: int) -> None:
        """Add the values of a block of columns, the first of which is feature `start`, with n_slots hash slots each."""
        is_over = self.is_over[start : start + X.shape[1]]
        if is_over.all():
            return
        n_distinct = np.zeros((n_threads, X.shape[1]), dtype=np.int32)
        n_distinct[:, is_over] = self.limit + 1
        slots = np.full((n_threads, X.shape[1], n_slots), np.nan)
        collect_values(X, slots.view(np.uint64), n_distinct, self.limit)
        is_over |= n_distinct.max(axis=0) > self.limit
        slots[:, is_over] = np.nan
        _, features, _ = filled = np.nonzero(~np.isnan(slots))
        self._add(start + features, slots[filled])

    def merge(self, other: DistinctValues) -> None:
        """Add the values of another instance for the same features."""
        self.is_over |= other.is_over
        self._add(np.repeat(np.arange(len(other.is_over)), np.diff(other.starts)), other.values)

    def of_columns(self, first: int, end: int) -> DistinctValues:
        """Return the distinct values of the features first .. end - 1."""
        part = DistinctValues(self.is_over[first:end], self.limit)
        begin, last = self.starts[first], self.starts[end]
        part.values, part.starts = self.values[begin:last], self.starts[first : end + 1] - begin
        return part

    def _add(self, features: np.ndarray, values: np.ndarray) -> None:
        """Merge values, given with the feature index of each in any order, into the sorted distinct values."""
        features = np.concatenate([np.repeat(np.arange(len(self.is_over)), np.diff(self.starts)), features])
        values = np.concatenate([self.values, values])
        order = np.lexsort((values, features))
        features, values = features[order], values[order]
        is_new = np.ones(len(values), dtype=bool)
        is_new[1:] = (features[1:] != features[:-1]) | (values[1:] != values[:-1])
        counts = np.bincount(features[is_new], minlength=len(self.is_over))
        self.is_over |= counts > self.limit
        is_new &= ~self.is_over[features]
        self.values = values[is_new]
        self.starts = np.append(0, np.cumsum(np.bincount(features[is_new], minlength=len(self.is_over))))


# Number of rows that a sketch keeps: 100 000 (each of 255 bins is then accurate to within 5 %), more for few features
# or many bins, fewer for very many features.
_SAMPLE_ROWS = 100_000
_MIN_SAMPLE_VALUES = 1 << 21
_MAX_SAMPLE_VALUES = 1 << 25
_ROWS_PER_BIN = 20
# Factor by which the number of rows may exceed the sample size before the surplus is dropped.
_SLACK = 1.5
_NO_BOUND = 2**64 - 1
# Number of values that keep a thread busy for some tens of microseconds.
_BIN_GRAIN = 20_000
_SORT_GRAIN = 5_000


def default_sample(n_features: int, max_bins: int) -> int:
    """Return the default number of distinct rows that a sketch of this many features and bins keeps."""
    n_features = max(n_features, 1)
    rows = max(min(_SAMPLE_ROWS, _MAX_SAMPLE_VALUES // n_features), _MIN_SAMPLE_VALUES // n_features)
    return max(rows, _ROWS_PER_BIN * max_bins)


@dataclass
class _SketchRows:
    """Rows held by a sketch: values, integer weights (None if all are equal), and hashes once it is sampling."""

    values: Any  # an array, a CSR matrix in canonical format, or rows of another type that are converted on demand
    weights: np.ndarray | None
    hashes: np.ndarray

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.values.shape[0]

    @property
    def is_sparse(self) -> bool:
        """True if the rows are a sparse matrix."""
        return stored_values(self.values) is not None


def _concatenate_rows(parts: list[Any]) -> Any:
    """Return the rows of all parts in order: an array, or a CSR matrix if a part is sparse."""
    if not any(map(scipy.sparse.issparse, parts)):
        return parts[0] if len(parts) == 1 else np.concatenate(list(map(as_array, parts)))
    return parts[0] if len(parts) == 1 else scipy.sparse.csr_matrix(scipy.sparse.vstack(parts, format="csr"))


def _select_columns(values: Any, chosen: Any) -> Any:
    """Return the columns at these indices or of this slice as an array of shape (n_columns, n_rows)."""
    return values.columns(chosen) if isinstance(values, ConvertedRows) else values.T[chosen]


def _sum_category_weights(column: np.ndarray, weights: np.ndarray | None, one: int) -> np.ndarray:
    """Return the weights (`one` each if None) summed by category position, up to the last one that occurs."""
    is_known = ~np.isnan(column)
    categories = column[is_known].astype(np.intp)
    if weights is None:
        return np.bincount(categories) * one
    totals = np.zeros(categories.max(initial=-1) + 1, np.int64)
    np.add.at(totals, categories, weights[is_known])
    return totals


class RowSketch:
    """Mergeable summary of rows for learning bins; merged sketches of parts equal the sketch of the whole table.

    Weights are rounded to integer multiples of `weight_unit`, so that sums do not depend on the order of the rows. If
    there are at most `n_sample` rows, all are kept. Otherwise, the sketch keeps the rows whose content hash (in the
    order of the columns) is among the `n_sample` smallest. Either all copies of a row are kept or none, so weights
    count as copies. The distinct values of numeric features are tracked over all rows until there are more than
    `max_bins`, so features with few values are never sampled. The weights of categories are tracked over all rows, too.

    Parameters
    ----------
    n_features : int
        Number of features.
    max_bins : int or int array of shape (n_features,)
        Maximum number of bins per feature, without the code of missing values.
    is_categorical : bool array of shape (n_features,) or None
        True for columns with category positions. If None, all columns are numeric.
    n_sample : int or None
        Number of distinct rows to keep. If None, it is chosen by `default_sample`.
    weight_unit : float
        A power of two. Weights are rounded to at least one unit, and their sum must be below 2**63 units.
    n_threads : int
        Maximum number of threads.
    """

    def __init__(
        self,
        n_features: int,
        max_bins: int | np.ndarray = 255,
        is_categorical: np.ndarray | None = None,
        n_sample: int | None = None,
        weight_unit: float = 2.0**-24,
        n_threads: int = 1,
    ) -> None:
        self.n_features = n_features
        self.max_bins = max_bins
        most = int(np.max(max_bins, initial=2))
        self.is_categorical = np.zeros(n_features, bool) if is_categorical is None else np.asarray(is_categorical, bool)
        self.n_sample = default_sample(n_features, most) if n_sample is None else n_sample
        self.weight_unit = weight_unit
        self.n_threads = n_threads
        self._wanted: np.ndarray | None = None  # mask of the features to cut; None for all
        self._rows: list[_SketchRows] = []
        # Once there are too many rows: the largest hash that is kept, and the distinct values over all rows.
        self._is_sampled = False
        self._bound = np.uint64(_NO_BOUND)
        self._distinct = DistinctValues(self.is_categorical, most)
        self._category_weights = dict.fromkeys(np.flatnonzero(self.is_categorical).tolist(), np.zeros(0, np.int64))

    def update(self, X: Any, sample_weight: np.ndarray | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
            Rows to add. Rows that are kept are copied.
        sample_weight : array of shape (n_rows,) or None
            Positive weights. If None, all weights are 1.
        """
        self.add(X, sample_weight)
        for rows in self._rows:
            if isinstance(X, np.ndarray) and np.may_share_memory(rows.values, X):
                rows.values = rows.values.copy()

    def merge(self, other: RowSketch) -> None:
        """Add the rows of another sketch that was created with the same parameters."""
        for f, weights in other._category_weights.items():
            self._add_category_weights(f, weights)
        if not other._is_sampled:
            for rows in other._rows:
                self._keep(rows)
            return
        self._start_sampling()
        bounds = self._bound, other._bound
        self._bound = min(bounds)
        self._rows = [
            rows if bound == self._bound else self._select(rows)
            for bound, held in zip(bounds, (self._rows, other._rows), strict=True)
            for rows in held
        ]
        self._distinct.merge(other._distinct)
        self._drop_surplus(_SLACK)

    def of_columns(self, first: int, end: int) -> RowSketch:
        """Return the sketch of columns first .. end - 1, to be merged only with sketches of the same columns."""
        part = copy(self)
        part.is_categorical = self.is_categorical[first:end]
        if isinstance(self.max_bins, np.ndarray):
            part.max_bins = self.max_bins[first:end]
        part.n_features = end - first
        part._rows = [replace(rows, values=_select_columns(rows.values, slice(first, end)).T) for rows in self._rows]
        part._distinct = self._distinct.of_columns(first, end)
        category_weights = self._category_weights.items()
        part._category_weights = {f - first: weights for f, weights in category_weights if first <= f < end}
        return part

    def keep_as_whole(self, comm: Comm) -> None:
        """Keep only the rows of this rank that one sketch of the rows of all ranks would keep."""
        held = comm.allgather((self._is_sampled, sum(rows.n for rows in self._rows)))
        if not any(is_sampled for is_sampled, _ in held) and sum(n for _, n in held) <= self.n_sample:
            return
        self._start_sampling()
        if self._rows:
            self._drop_surplus(1.0)
        self._bound = min(comm.allgather(self._bound))
        self._bound = np.uint64(self._bound_of_all_ranks(comm))
        self._rows = [self._select(rows) for rows in self._rows]

    def _bound_of_all_ranks(self, comm: Comm) -> int:
        """Return the largest hash that a sketch of all ranks' rows keeps; each rank examines one range of hashes."""
        hashes = np.unique(np.concatenate([np.zeros(0, np.uint64), *(rows.hashes for rows in self._rows)]))
        limit = int(self._bound)
        ends = np.array([limit // comm.size * rank for rank in range(1, comm.size)], dtype=np.uint64)
        hashes = hashes[hashes <= self._bound]
        in_range = np.unique(np.concatenate(comm.alltoall(np.split(hashes, np.searchsorted(hashes, ends)))))
        counts = comm.allgather(len(in_range))
        position = self.n_sample - 1 - sum(counts[: comm.rank])
        of_ranks = comm.allgather(int(in_range[position]) if 0 <= position < len(in_range) else limit)
        return min(of_ranks)

    def holds_all(self) -> bool:
        """Return True if all rows so far are held as one dense array, without sampling or categorical features."""
        is_dense = not any(rows.is_sparse for rows in self._rows)
        return is_dense and len(self._rows) == 1 and not self._is_sampled and not self._category_weights

    def bins(self, codes: np.ndarray | None = None) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
        """Return the thresholds and category codes of all rows so far, in the format of `Binning`.

        Parameters
        ----------
        codes : uint16 array of shape (n_features, n_rows), optional
            Output array for the codes of non-missing values. It requires `holds_all()` and an integer `max_bins`.
        """
        if isinstance(self.max_bins, np.ndarray):
            return self._bins_by_limit(self.max_bins)
        thresholds = [np.zeros(0)] * self.n_features
        to_cut = ~self.is_categorical if self._wanted is None else ~self.is_categorical & self._wanted
        if self._is_sampled:
            self._drop_surplus(1.0)
            few = to_cut & ~self._distinct.is_over & (np.diff(self._distinct.starts) <= self.max_bins)
            to_cut &= ~few
            self._store_thresholds(thresholds, np.flatnonzero(few), self._cut_distinct(few))
        features = np.flatnonzero(to_cut)
        self._store_thresholds(thresholds, features, self._cut_held(features, codes))
        of_categories: list[np.ndarray | None] = [None] * self.n_features
        for f, of_column in self._category_codes().items():
            of_categories[f] = of_column
        return thresholds, of_categories

    def _bins_by_limit(self, limits: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray | None]]:
        """Return the bins like `bins`, with a maximum number of bins for each feature, `limits`.

        Features with equal limits are cut together.
        """
        thresholds = [np.zeros(0)] * self.n_features
        of_categories: list[np.ndarray | None] = [None] * self.n_features
        for limit in np.unique(limits).tolist():
            part = copy(self)
            part.max_bins, part._wanted = limit, limits == limit
            part_thresholds, codes = part.bins()
            for feature in np.flatnonzero(part._wanted).tolist():
                thresholds[feature], of_categories[feature] = part_thresholds[feature], codes[feature]
        return thresholds, of_categories

    # Adding rows

    def add(self, X: Any, sample_weight: np.ndarray | None) -> None:
        """Add rows that must not change until the sketch is finished; see `update` for the parameters."""
        weights = None
        if sample_weight is not None:
            weights = np.maximum(np.rint(np.asarray(sample_weight, np.float64) / self.weight_unit), 1).astype(np.int64)
        rows = _SketchRows(X, weights, np.zeros(0, np.uint64))
        if rows.is_sparse and not self._category_weights:
            self._keep(replace(rows, values=canonical(X)))
            return
        stays, is_whole = isinstance(X, RowSource) and X.stays, isinstance(X, ConvertedRows)
        categorical = list(self._category_weights)
        for start, values in parts_of(X) if categorical or not is_whole else ():
            of_rows = None if weights is None else weights[start : start + len(values)]
            one = self._one if of_rows is None else 1
            for f in categorical:
                self._add_category_weights(f, _sum_category_weights(values[:, f], of_rows, one))
            if not is_whole and not self.is_categorical.all():
                self._keep(_SketchRows(values, of_rows, np.zeros(0, np.uint64)), stays)
        if is_whole and not self.is_categorical.all():
            self._keep(rows)
        if stays and self._is_sampled:
            self._lower_bound(_SLACK)
            self._release_dropped_rows()

    def _keep(self, rows: _SketchRows, stays: bool = False) -> None:
        """Hold new rows, all of them or, if there are too many, after sampling; see `_sample` for `stays`."""
        if not self._is_sampled:
            if sum(held.n for held in self._rows) + rows.n <= self.n_sample:
                self._rows.append(rows)
                return
            self._start_sampling(stays)
        self._sample(rows, stays)

    def _start_sampling(self, stays: bool = False) -> None:
        """Begin to keep only the rows with the smallest hashes, unless already begun; see `_sample` for `stays`."""
        if not self._is_sampled:
            held, self._rows, self._is_sampled = self._rows, [], True
            for rows in held:
                self._sample(rows, stays)

    def _sample(self, rows: _SketchRows, stays: bool) -> None:
        """Add the values of new rows to the distinct values, and hold the rows with hashes up to the bound.

        If `stays`, the rows stay in memory anyway, so all are held for now instead of copies of some.
        """
        hashes = np.empty(rows.n, dtype=np.uint64)
        for start, values in own_parts(rows.values):
            self._distinct.note(values, self._n_threads_for(values.size, _BIN_GRAIN))
            hash_table(values, hashes[start : start + values.shape[0]], self._n_threads_for(values.size, _BIN_GRAIN))
        self._rows.append(_SketchRows(rows.values, rows.weights, hashes))
        if stays:
            return
        self._drop_surplus(_SLACK)
        if self._rows[-1].values is rows.values:
            self._rows[-1] = self._select(self._rows[-1])

    def _drop_surplus(self, slack: float) -> None:
        """If over slack * n_sample rows are held, lower the hash bound to n_sample rows and release other rows."""
        if self._lower_bound(slack):
            self._release_dropped_rows()

    def _lower_bound(self, slack: float) -> bool:
        """If over slack * n_sample rows are held, lower the bound to the n_sample-th distinct hash, and return True."""
        n = sum(int(np.count_nonzero(rows.hashes <= self._bound)) for rows in self._rows)
        if n <= slack * self.n_sample:
            return False
        # If few rows are copies, slightly more than this share of the smallest hashes contains enough distinct ones.
        guess = np.uint64(int(self._bound) * min(int(1.05 * self.n_sample), n) // n)
        for limit in (guess, self._bound):
            candidates = np.concatenate([rows.hashes[rows.hashes <= limit] for rows in self._rows])
            bound = kth_distinct(candidates, np.empty_like(candidates), self.n_sample)
            if bound is not None:
                self._bound = np.uint64(bound)
                break
        return True

    def _release_dropped_rows(self) -> None:
        """Copy the held rows with hashes up to the bound, so that the memory of other rows is released."""
        self._rows = [self._select(rows) for rows in self._rows]
        if sum(rows.n for rows in self._rows) > _SLACK * self.n_sample:
            values = _concatenate_rows([rows.values for rows in self._rows])
            hashes = np.concatenate([rows.hashes for rows in self._rows])
            self._rows = [self._select(_SketchRows(values, self._held_weights(), hashes))]

    def _select(self, rows: _SketchRows) -> _SketchRows:
        """Return copies of the rows with hashes up to the bound; many equal rows are merged, with added weights."""
        kept = np.flatnonzero(rows.hashes <= self._bound)
        weights = None if rows.weights is None else rows.weights[kept]
        if len(kept) > _SLACK * self.n_sample:
            order = np.argsort(rows.hashes[kept], kind="stable")
            ordered = rows.hashes[kept[order]]
            first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
            weights = np.full(len(kept), self._one) if weights is None else weights
            weights = np.add.reduceat(weights[order], first)
            kept = kept[order[first]]
        if rows.is_sparse or isinstance(rows.values, ConvertedRows):
            return _SketchRows(rows.values[kept], weights, rows.hashes[kept])
        columns = np.empty((self.n_features, len(kept)), dtype=rows.values.dtype)
        for start in range(0, len(kept), _GATHERED_ROWS):
            columns[:, start : start + _GATHERED_ROWS] = rows.values[kept[start : start + _GATHERED_ROWS]].T
        return _SketchRows(columns.T, weights, rows.hashes[kept])

    def _add_category_weights(self, f: int, weights: np.ndarray) -> None:
        """Add weights, indexed by category, to the category weights of feature f."""
        old_weights = self._category_weights[f]
        if len(old_weights):
            few, many = sorted((old_weights, weights), key=len)
            weights = many.copy()
            weights[: len(few)] += few
        self._category_weights[f] = weights

    # Finishing

    @property
    def _one(self) -> int:
        """Weight of an unweighted row in units."""
        return max(1, round(1 / self.weight_unit))

    def _n_threads_for(self, n_values: int, grain: int) -> int:
        """Return the number of threads, at most self.n_threads, that get at least `grain` of n_values values each."""
        return threads_for(n_values, self.n_threads, grain)

    def _held_weights(self) -> np.ndarray | None:
        """Return the int64 weights of all rows held, in weight units, or None if no rows have weights."""
        if all(rows.weights is None for rows in self._rows):
            return None
        return np.concatenate(
            [np.full(rows.n, self._one) if rows.weights is None else rows.weights for rows in self._rows]
        )

    @staticmethod
    def _store_thresholds(thresholds: list[np.ndarray], features: np.ndarray, cuts: list[np.ndarray]) -> None:
        """Set thresholds[f] to the thresholds of f in `cuts`, one array for each of the features at these indices."""
        if len(features) == len(thresholds):
            thresholds[:] = cuts
            return
        for f, limits in zip(features.tolist(), cuts, strict=True):
            thresholds[f] = limits

    def _cut_distinct(self, few: np.ndarray) -> list[np.ndarray]:
        """Return thresholds between all distinct values over all rows, for each feature in the mask `few`."""
        values, starts = self._distinct.values, self._distinct.starts
        return self._cut_stored(SparseColumns(values, np.zeros(0, np.int32), starts), None, 0, few)

    def _cut_held(self, features: np.ndarray, codes: np.ndarray | None) -> list[np.ndarray]:
        """Return the thresholds of the features at these indices by the held rows; write codes unless None."""
        if not self._rows or len(features) == 0:
            return [np.zeros(0)] * len(features)
        weights = self._held_weights()
        if any(rows.is_sparse for rows in self._rows):
            joined = _concatenate_rows([rows.values for rows in self._rows])
            total = joined.shape[0] if weights is None else int(weights.sum())
            wanted = np.zeros(self.n_features, dtype=bool)
            wanted[features] = True
            return self._cut_stored(columns_of(joined), weights, total, wanted)
        most = CONVERTED_BLOCK if any(isinstance(rows.values, ConvertedRows) for rows in self._rows) else _BLOCK
        block = max(1, most // sum(rows.n for rows in self._rows))
        thresholds = []
        for start in range(0, len(features), block):
            of_block = features[start : start + block]
            # Adjacent columns can be sliced without a copy.
            is_run = of_block[-1] - of_block[0] == len(of_block) - 1
            selection = slice(of_block[0], of_block[-1] + 1) if is_run else of_block
            columns = [_select_columns(rows.values, selection) for rows in self._rows]
            joined = np.concatenate(columns, axis=1) if len(columns) > 1 else columns[0]
            thresholds += self._cut_dense(joined, weights, None if codes is None else codes[start : start + block])
        return thresholds

    def _cut_dense(
        self, columns: np.ndarray, weights: np.ndarray | None, codes: np.ndarray | None = None
    ) -> list[np.ndarray]:
        """Return the thresholds of dense columns, (n_columns, n_rows), and write their codes to `codes` unless None.

        `weights` holds the rows' weights in units, or None if all are equal.
        """
        n_features, n = columns.shape
        values = SparseColumns(columns.ravel(), np.zeros(0, np.int32), n * np.arange(n_features + 1, dtype=np.int64))
        return self._cut_stored(values, weights, 0, np.ones(n_features, bool), codes)

    def _cut_stored(
        self,
        columns: SparseColumns,
        weights: np.ndarray | None,
        total: int,
        wanted: np.ndarray,
        codes: np.ndarray | None = None,
    ) -> list[np.ndarray]:
        """Return the thresholds of the columns in the mask `wanted`, and write codes to `codes` unless None.

        `weights` are weights of rows. Implicit zeros weigh `total` minus the weight of the stored values.
        """
        n_threads = self._n_threads_for(len(columns.values), _SORT_GRAIN)
        flat_codes = None if codes is None else codes.reshape(-1)
        limits, n_found = cut_columns(*columns, weights, total, self.max_bins, False, n_threads, flat_codes)
        ends = np.cumsum(n_found, dtype=np.int64)
        chosen = np.flatnonzero(wanted)
        first, last = (ends - n_found)[chosen].tolist(), ends[chosen].tolist()
        return [limits[begin:end] for begin, end in zip(first, last, strict=True)]

    def _category_codes(self) -> dict[int, np.ndarray]:
        """Return by categorical feature the code of each category, in order of falling weight from 1.

        The rarest categories share the last code; categories that do not occur have code 0.
        """
        weights = np.concatenate([np.zeros(0, np.int64), *self._category_weights.values()])
        ends = np.cumsum([0, *map(len, self._category_weights.values())])
        sizes = np.diff(ends)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        rank = np.arange(1, len(weights) + 1) - np.repeat(ends[:-1], sizes)
        codes = np.empty(len(weights), dtype=np.uint16)
        codes[np.lexsort((-weights, owner))] = np.minimum(rank, self.max_bins)
        codes[weights == 0] = 0
        return {f: codes[a:b] for f, a, b in zip(self._category_weights, ends[:-1], ends[1:], strict=True)}
