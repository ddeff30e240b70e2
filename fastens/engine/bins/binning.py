"""Learn each feature's bins from data (in one go, or merged from parts) and turn values into codes.

A code is 0 for a missing value or a category never seen. For a numeric feature it is 1 plus the number of thresholds
below the value, so ``x <= thresholds[c - 1]`` is the same as ``code <= c``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from fastens.engine.bins.binned import BinnedMatrix, make_matrix, record_stride
from fastens.engine.bins.bins import BinTable, bin_matrix, copy_to_records
from fastens.engine.bins.sketch import count_categories, cut_columns, kth_distinct, note_values
from fastens.engine.comm import LOCAL, Comm, max_floats
from fastens.engine.parts import is_coded, parts_of
from fastens.engine.places import MEMORY, place_of
from fastens.engine.rows.gather import gather_columns, hash_rows
from fastens.engine.sharing import shared
from fastens.engine.threads import threads_for


class Binning:
    """Thresholds and category codes of all features: plain arrays.

    Parameters
    ----------
    thresholds : list of float64 arrays
        Ascending; empty for a categorical feature.
    category_codes : list of uint16 arrays or None
        The code of each category by its position, 0 for one never seen; None for a numeric feature.
    """

    thresholds: list[np.ndarray]
    category_codes: list[np.ndarray | None]
    is_categorical: np.ndarray
    n_codes: np.ndarray
    code_dtype: np.dtype

    def __init__(self, thresholds: list[np.ndarray], category_codes: list[np.ndarray | None]) -> None:
        self.thresholds = thresholds
        self.category_codes = category_codes
        self.is_categorical = np.array([codes is not None for codes in category_codes], dtype=bool)
        self.n_codes = np.array(
            [
                len(limits) + 2 if codes is None else int(codes.max(initial=1)) + 1
                for limits, codes in zip(thresholds, category_codes, strict=True)
            ],
            dtype=np.int32,
        )
        self.code_dtype = np.dtype(np.uint8 if self.n_codes.max(initial=0) <= 256 else np.uint16)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.thresholds)

    @cached_property
    def table(self) -> BinTable:
        """The search tables of the kernels."""
        return BinTable(self.thresholds, self.category_codes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "table"}

    def codes(self, X: Any, n_threads: int = 1) -> np.ndarray:
        """Return the codes of X, shape (n_features, n_rows), in C order."""
        if is_coded(X):
            return X.codes(self)
        columns = place_of(X).zeros((self.n_features, X.shape[0]), self.code_dtype)
        self.fill(X, columns, None, 0, n_threads)
        return columns

    @shared
    def transform(self, X: Any, n_threads: int = 1) -> BinnedMatrix:
        """Return X binned for training: the codes by column and by row."""
        if is_coded(X):
            return self.matrix_of(X.codes(self), X.records())
        place, n_rows, n_bytes = place_of(X), X.shape[0], self.n_features * self.code_dtype.itemsize
        columns = place.zeros((self.n_features, n_rows), self.code_dtype)
        matrix = self.matrix_of(
            columns, place.zeros((n_rows, record_stride(n_bytes)), np.uint8) if place.is_file else None
        )
        self.fill(X, matrix.columns, matrix.records, 0, n_threads)
        return matrix

    def matrix_of(self, columns: np.ndarray, records: np.ndarray | None = None) -> BinnedMatrix:
        """Return the binned rows of which these are the codes by column; those by row may be filled in later."""
        return make_matrix(columns, self.n_codes, self.is_categorical, self.thresholds, records)

    def fill(self, X: Any, columns: np.ndarray, records: np.ndarray | None, first_row: int, n_threads: int) -> None:
        """Write the codes of X, whose rows are first_row and on, by column, and by row unless None."""
        for start, part in parts_of(X):
            n_near = threads_for(part.size, n_threads, _BIN_GRAIN)
            bin_matrix(self.table, part, columns, records, first_row + start, n_near)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as a few arrays, for saving."""
        codes = [np.zeros(0, np.uint16) if codes is None else codes for codes in self.category_codes]
        return {
            "thresholds": np.concatenate([np.zeros(0), *self.thresholds]),
            "n_thresholds": np.array([len(limits) for limits in self.thresholds], dtype=np.int64),
            "category_codes": np.concatenate([np.zeros(0, np.uint16), *codes]),
            "n_categories": np.array([len(part) for part in codes], dtype=np.int64),
            "is_categorical": self.is_categorical,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Binning:
        """Rebuild a binning from `to_arrays()`."""
        thresholds = list(np.split(arrays["thresholds"], np.cumsum(arrays["n_thresholds"])[:-1]))
        codes = np.split(arrays["category_codes"], np.cumsum(arrays["n_categories"])[:-1])
        kinds = arrays["is_categorical"]
        return cls(thresholds, [part if kind else None for part, kind in zip(codes, kinds, strict=True)])


# Rows that a sketch keeps: 100 000 (a bin of 255 then holds its share to within 5 %), more where there are few features
# or many bins, fewer where there are very many features.
_SAMPLE_ROWS = 100_000
_LEAST_SAMPLE_VALUES = 1 << 21
_MOST_SAMPLE_VALUES = 1 << 25
_ROWS_PER_BIN = 20
# How many times as many rows as needed may be held before the surplus is dropped.
_SLACK = 1.5
_NO_BOUND = 2**64 - 1
# Values, or slots, that are worked on at a time.
_BLOCK = 1 << 20
# Values that keep a thread busy for some tens of microseconds.
_BIN_GRAIN = 20_000
_SORT_GRAIN = 5_000
# Most bins whose codes are bytes.
BYTE_BINS = 255


def default_sample(n_features: int, max_bins: int) -> int:
    """Return how many rows a sketch keeps."""
    n_features = max(n_features, 1)
    rows = max(min(_SAMPLE_ROWS, _MOST_SAMPLE_VALUES // n_features), _LEAST_SAMPLE_VALUES // n_features)
    return max(rows, _ROWS_PER_BIN * max_bins)


@dataclass
class _Rows:
    """Rows that a sketch holds: values by row and feature, whole weights (None: all alike), hashes once it samples."""

    values: np.ndarray
    weights: np.ndarray | None
    hashes: np.ndarray


class BinningSketch:
    """What must be known of the rows so far to learn their bins; sketches of parts merge to the sketch of the whole.

    Weights are rounded to whole multiples of `weight_unit`, so that sums do not depend on the order of the rows. Up to
    `n_sample` rows all are kept; of more rows, those whose content (in this order of the columns) has one of the
    `n_sample` smallest hashes. All copies of a row are kept or none, so weights mean repetition. The distinct values of
    a numeric feature are followed over all rows until there are more than `max_bins`, so few values are never sampled;
    so are the weights of categories.

    Parameters
    ----------
    n_features : int
        Number of columns.
    max_bins : int
        Most bins of a feature, not counting the code of missing values.
    is_categorical : bool array of shape (n_features,) or None
        Which columns hold positions of categories.
    n_sample : int or None
        How many distinct rows to keep.
    weight_unit : float
        A power of two; no weight counts as less than one unit, and all together must be below 2**63 units.
    n_threads : int
        Most threads to use.
    """

    def __init__(
        self,
        n_features: int,
        max_bins: int = 255,
        is_categorical: np.ndarray | None = None,
        n_sample: int | None = None,
        weight_unit: float = 2.0**-24,
        n_threads: int = 1,
    ) -> None:
        self.n_features = n_features
        self.max_bins = max_bins
        self.is_categorical = np.zeros(n_features, bool) if is_categorical is None else np.asarray(is_categorical, bool)
        self.n_sample = default_sample(n_features, max_bins) if n_sample is None else n_sample
        self.weight_unit = weight_unit
        self.n_threads = n_threads
        self._rows: list[_Rows] = []
        # When there were too many rows: the largest hash kept, and the distinct values (None: too many) of all rows.
        self._is_sampled = False
        self._bound = np.uint64(_NO_BOUND)
        nothing = np.zeros(0)
        self._distinct: list[np.ndarray | None] = [None if kind else nothing for kind in self.is_categorical.tolist()]
        self._category_weights = dict.fromkeys(np.flatnonzero(self.is_categorical).tolist(), np.zeros(0, np.int64))

    def update(self, X: Any, sample_weight: np.ndarray | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
            Rows that are kept are copied.
        sample_weight : array of shape (n_rows,) or None
            Positive.
        """
        self._add(X, sample_weight)
        for rows in self._rows:
            if isinstance(X, np.ndarray) and np.may_share_memory(rows.values, X):
                rows.values = rows.values.copy()

    def merge(self, other: BinningSketch) -> None:
        """Add the rows of another sketch, made with the same parameters."""
        for f, weights in other._category_weights.items():
            self._add_category_weights(f, weights)
        if not other._is_sampled:
            for rows in other._rows:
                self._keep(rows)
            return
        self._start_sampling()
        self._bound = min(self._bound, other._bound)
        self._rows = [self._select(rows) for rows in self._rows + other._rows]
        for f, values in enumerate(other._distinct):
            self._add_distinct(f, values)
        self._drop_surplus(_SLACK)

    def holds_all(self) -> bool:
        """Whether all rows so far are held, as one array of numbers."""
        return len(self._rows) == 1 and not self._is_sampled and not self._category_weights

    def finish(self, codes: np.ndarray | None = None) -> Binning:
        """Return the bins of all rows so far.

        Parameters
        ----------
        codes : uint16 array of shape (n_features, n_rows), optional
            Gets the codes of the rows, where `holds_all()`, but for missing values.
        """
        thresholds = [np.zeros(0)] * self.n_features
        to_cut = ~self.is_categorical
        if self._is_sampled:
            self._drop_surplus(1.0)
            for f, values in enumerate(self._distinct):
                if values is not None:
                    to_cut[f] = False
                    thresholds[f] = self._cut(values[None, :], None)[0] if len(values) else values
        features = np.flatnonzero(to_cut)
        for f, limits in zip(features.tolist(), self._cut_held(features, codes), strict=True):
            thresholds[f] = limits
        of_categories: list[np.ndarray | None] = [None] * self.n_features
        for f, found in self._category_codes().items():
            of_categories[f] = found
        return Binning(thresholds, of_categories)

    # Taking rows in

    def _add(self, X: Any, sample_weight: np.ndarray | None) -> None:
        weights = None
        if sample_weight is not None:
            weights = np.maximum(np.rint(np.asarray(sample_weight, np.float64) / self.weight_unit), 1).astype(np.int64)
        for start, values in parts_of(X):
            of_rows = None if weights is None else weights[start : start + len(values)]
            known, one = list(self._category_weights), self._one if of_rows is None else 1
            for f, totals in zip(known, count_categories(values, known, of_rows, one), strict=True):
                self._add_category_weights(f, totals)
            if not self.is_categorical.all():
                self._keep(_Rows(values, of_rows, np.zeros(0, np.uint64)))

    def _keep(self, rows: _Rows) -> None:
        if not self._is_sampled:
            if sum(len(held.values) for held in self._rows) + len(rows.values) <= self.n_sample:
                self._rows.append(rows)
                return
            self._start_sampling()
        self._sample(rows)

    def _start_sampling(self) -> None:
        if not self._is_sampled:
            held, self._rows, self._is_sampled = self._rows, [], True
            for rows in held:
                self._sample(rows)

    def _sample(self, rows: _Rows) -> None:
        """Note the values of new rows, and keep those with small hashes."""
        self._note_distinct(rows.values)
        hashes = np.empty(len(rows.values), dtype=np.uint64)
        hash_rows(rows.values, hashes, self._threads(rows.values.size, _BIN_GRAIN))
        self._rows.append(_Rows(rows.values, rows.weights, hashes))
        self._drop_surplus(_SLACK)
        if self._rows[-1].values is rows.values:
            self._rows[-1] = self._select(self._rows[-1])

    def _drop_surplus(self, slack: float) -> None:
        """Lower the bound, and join copies of rows, if many more are held than needed."""
        hashes = np.concatenate([rows.hashes for rows in self._rows])
        hashes = hashes[hashes <= self._bound]
        if len(hashes) <= slack * self.n_sample:
            return
        # Where few rows are copies, a little more than this share of the smallest hashes has enough distinct ones.
        guess = np.uint64(int(self._bound) * min(int(1.05 * self.n_sample), len(hashes)) // len(hashes))
        for limit in (guess, self._bound):
            candidates = hashes[hashes <= limit]
            found = kth_distinct(candidates, np.empty_like(candidates), self.n_sample)
            if found is not None:
                self._bound = np.uint64(found)
                break
        self._rows = [self._select(rows) for rows in self._rows]
        if sum(len(rows.values) for rows in self._rows) > _SLACK * self.n_sample:
            values = np.concatenate([rows.values for rows in self._rows])
            hashes = np.concatenate([rows.hashes for rows in self._rows])
            self._rows = [self._select(_Rows(values, self._held_weights(), hashes))]

    def _select(self, rows: _Rows) -> _Rows:
        """Copy the rows with hashes up to the bound; where many are alike, one of them with their joint weight."""
        kept = np.flatnonzero(rows.hashes <= self._bound)
        weights = None if rows.weights is None else rows.weights[kept]
        if len(kept) > _SLACK * self.n_sample:
            order = np.argsort(rows.hashes[kept], kind="stable")
            ordered = rows.hashes[kept[order]]
            first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
            weights = np.full(len(kept), self._one) if weights is None else weights
            weights = np.add.reduceat(weights[order], first)
            kept = kept[order[first]]
        columns = np.empty((self.n_features, len(kept)), dtype=rows.values.dtype)
        gather_columns(rows.values, kept, columns, self._threads(columns.size, _BIN_GRAIN))
        return _Rows(columns.T, weights, rows.hashes[kept])

    def _note_distinct(self, values: np.ndarray) -> None:
        limit = self.max_bins
        n_slots = 1 << (limit + 1).bit_length()
        n_threads = self._threads(values.size, _BIN_GRAIN)
        block = max(1, _BLOCK // n_slots)
        for start in range(0, self.n_features, block):
            part = range(start, min(start + block, self.n_features))
            n_distinct = np.zeros((n_threads, len(part)), dtype=np.int32)
            n_distinct[:, [self._distinct[f] is None for f in part]] = limit + 1
            if n_distinct.min() > limit:
                continue
            slots = np.full((n_threads, len(part), n_slots), np.nan)
            note_values(values[:, start : part.stop], slots.view(np.uint64), n_distinct, limit)
            for i, f in enumerate(part):
                found = slots[:, i]
                self._add_distinct(f, None if n_distinct[:, i].max() > limit else found[~np.isnan(found)])

    def _add_distinct(self, f: int, values: np.ndarray | None) -> None:
        if (known := self._distinct[f]) is not None:
            known = None if values is None else np.unique(np.concatenate([known, values]))
            self._distinct[f] = None if known is None or len(known) > self.max_bins else known

    def _add_category_weights(self, f: int, weights: np.ndarray) -> None:
        known = self._category_weights[f]
        if len(known):
            few, many = sorted((known, weights), key=len)
            weights = many.copy()
            weights[: len(few)] += few
        self._category_weights[f] = weights

    # Finishing

    @property
    def _one(self) -> int:
        """The weight of a row without weight, in units."""
        return max(1, round(1 / self.weight_unit))

    def _threads(self, n_values: int, grain: int) -> int:
        return threads_for(n_values, self.n_threads, grain)

    def _held_weights(self) -> np.ndarray | None:
        if all(rows.weights is None for rows in self._rows):
            return None
        return np.concatenate(
            [np.full(len(rows.values), self._one) if rows.weights is None else rows.weights for rows in self._rows]
        )

    def _cut_held(self, features: np.ndarray, codes: np.ndarray | None) -> list[np.ndarray]:
        """Thresholds of some features from the rows held, and of all features their codes."""
        if not self._rows or len(features) == 0:
            return [np.zeros(0)] * len(features)
        weights = self._held_weights()
        block = max(1, _BLOCK // sum(len(rows.values) for rows in self._rows))
        thresholds = []
        for start in range(0, len(features), block):
            of_block = features[start : start + block]
            # Columns side by side need not be copied.
            is_run = of_block[-1] - of_block[0] == len(of_block) - 1
            place = slice(of_block[0], of_block[-1] + 1) if is_run else of_block
            columns = [rows.values.T[place] for rows in self._rows]
            joined = np.concatenate(columns, axis=1) if len(columns) > 1 else columns[0]
            thresholds += self._cut(joined, weights, None if codes is None else codes[start : start + block])
        return thresholds

    def _cut(
        self, columns: np.ndarray, weights: np.ndarray | None, codes: np.ndarray | None = None
    ) -> list[np.ndarray]:
        n_features, n = columns.shape
        room = np.empty((min(self._threads(columns.size, _SORT_GRAIN), n_features), 4 * n), dtype=np.int64)
        thresholds = np.empty((n_features, min(self.max_bins, n)))
        n_thresholds = np.empty(n_features, dtype=np.int32)
        cut_columns(np.ascontiguousarray(columns), weights, self.max_bins, room, thresholds, n_thresholds, codes)
        return [limits[:n].copy() for limits, n in zip(thresholds, n_thresholds, strict=True)]

    def _category_codes(self) -> dict[int, np.ndarray]:
        """Codes by weight; the rarest categories of a feature share one where there are more than bins."""
        weights = np.concatenate([np.zeros(0, np.int64), *self._category_weights.values()])
        ends = np.cumsum([0, *map(len, self._category_weights.values())])
        sizes = np.diff(ends)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        rank = np.arange(1, len(weights) + 1) - np.repeat(ends[:-1], sizes)
        codes = np.empty(len(weights), dtype=np.uint16)
        codes[np.lexsort((-weights, owner))] = np.minimum(rank, self.max_bins)
        codes[weights == 0] = 0
        return {f: codes[a:b] for f, a, b in zip(self._category_weights, ends[:-1], ends[1:], strict=True)}


@shared
def learn_binning(
    X: Any,
    sample_weight: np.ndarray | None = None,
    max_bins: int = 255,
    is_categorical: np.ndarray | None = None,
    n_threads: int = 1,
    comm: Comm = LOCAL,
) -> Binning:
    """Learn the bins of X.

    Parameters
    ----------
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        NaN is missing; categorical columns hold positions of categories.
    sample_weight : array of shape (n_rows,) or None
        Positive; a whole number means as many copies of the row.
    max_bins : int
        Most bins of a feature, up to 65 535, not counting the code of missing values.
    is_categorical : bool array of shape (n_features,) or None
        Which columns are categorical.
    n_threads : int
        Most threads to use; the result does not depend on it.
    comm : Comm
        The ranks that X is divided among; all get the bins of the whole table.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_binning
    >>> binning = learn_binning(np.array([[1.0], [2.0], [2.0], [4.0]]))
    >>> binning.thresholds[0]
    array([1.5, 3. ])
    >>> binning.codes(np.array([[0.0], [3.5], [np.nan]]))
    array([[1, 3, 0]], dtype=uint8)
    """
    if is_coded(X):
        return X.learned(max_bins)
    return _sketch_of(X, sample_weight, max_bins, is_categorical, n_threads, comm).finish()


@shared
def learn_and_bin(
    X: Any,
    sample_weight: np.ndarray | None = None,
    max_bins: int = 255,
    is_categorical: np.ndarray | None = None,
    n_threads: int = 1,
) -> tuple[Binning, BinnedMatrix]:
    """Return `learn_binning` and its `transform` of the same rows; with many bins, the sort that finds them has both.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.bins.binning import learn_and_bin
    >>> binning, matrix = learn_and_bin(np.array([[1.0], [2.0], [2.0], [4.0]]), max_bins=1000)
    >>> matrix.columns
    array([[1, 2, 2, 3]], dtype=uint8)
    """
    if max_bins <= BYTE_BINS or is_coded(X):
        binning = learn_binning(X, sample_weight, max_bins, is_categorical, n_threads)
        return binning, binning.transform(X, n_threads)
    sketch = _sketch_of(X, sample_weight, max_bins, is_categorical, n_threads)
    if not sketch.holds_all() or place_of(X).is_file:
        binning = sketch.finish()
        return binning, binning.transform(X, n_threads)
    codes = MEMORY.zeros((X.shape[1], X.shape[0]), np.uint16)
    binning = sketch.finish(codes)
    if binning.code_dtype != codes.dtype:
        return binning, binning.transform(X, n_threads)
    matrix = binning.matrix_of(codes)
    copy_to_records(codes, matrix.records, threads_for(codes.size, n_threads, _BIN_GRAIN))
    return binning, matrix


def _sketch_of(
    X: Any, sample_weight: Any, max_bins: int, is_categorical: Any, n_threads: int, comm: Comm = LOCAL
) -> BinningSketch:
    unit = 1.0
    if sample_weight is not None:
        # As fine as the sum of all weights in 63 bits allows: whole numbers stay exact.
        (largest,) = max_floats(comm, float(np.max(sample_weight)))
        bits = math.frexp(largest)[1] + sum(comm.gather(X.shape[0])).bit_length()
        unit = math.ldexp(1.0, bits - 62)
    empty = partial(BinningSketch, X.shape[1], max_bins, is_categorical, weight_unit=unit, n_threads=n_threads)
    sketch = empty()
    sketch._add(X, sample_weight)
    whole = sketch if comm.size == 1 else empty()
    for part in comm.gather(sketch) if comm.size > 1 else ():
        whole.merge(part)
    return whole
