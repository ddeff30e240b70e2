"""Random streams, bootstrap samples, copies of rows, and sparse rows for the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from fastens.engine.limits import check_count, check_shape
from fastens.engine.parts import RowSource, as_floats, own_parts, stored_values
from fastens.engine.rows.draws import Urns, hash_rows, hash_stored, sum_duplicates
from fastens.engine.threads import cached_property, threads_for
from fastens.engine.whole import are_copies


class SparseColumns(NamedTuple):
    """The stored values of a sparse matrix in column-major order; the rows of each column are ascending.

    Attributes
    ----------
    values : float32 or float64 array of shape (n_stored,)
        The values.
    rows : int32 array of shape (n_stored,)
        Row index of each value.
    starts : int64 array of shape (n_columns + 1,)
        Offset of the first value of each column.
    """

    values: NDArray[np.floating]
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def columns_of(X: Any) -> SparseColumns:
    """Return the columns of a numeric sparse matrix as floats, without implicit zeros; duplicate entries are summed.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from fastens.engine.rows.sampling import columns_of
    >>> columns_of(csr_matrix(([1.0, 2.0, 3.0], [1, 1, 0], [0, 3]), shape=(1, 2)))
    SparseColumns(values=array([3., 3.]), rows=array([0, 0], dtype=int32), starts=array([0, 1, 2]))
    """
    check_shape(X)
    # The conversion from CSR to CSC keeps the order of duplicates, so they are summed in the order of `toarray`.
    by_column = X.tocsr().tocsc()
    values, rows = as_floats(by_column.data), by_column.indices.astype(np.int32, copy=False)
    starts = by_column.indptr.astype(np.int64)
    if not X.has_canonical_format:
        n = sum_duplicates(values, rows, starts)
        values, rows = values[:n], rows[:n]
    return SparseColumns(values, rows, starts)


def canonical(X: Any) -> Any:
    """Return a CSR matrix in canonical format (sorted indices, no duplicates), without a copy if it already is."""
    if X.format == "csr" and X.has_canonical_format:
        return X
    values, rows, starts = columns_of(X)
    by_row = scipy.sparse.csc_matrix((values, rows, starts), shape=X.shape).tocsr()
    by_row.has_canonical_format = True
    return by_row


def hash_table(X: Any, out: NDArray[np.uint64], n_threads: int = 1) -> None:
    """Write a hash of each row's content, which is identical for dense and sparse representations of the row.

    Parameters
    ----------
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        The rows.
    out : uint64 array of shape (n_rows,)
        Output array for the hashes.
    n_threads : int
        Maximum number of threads.
    """
    if stored_values(X) is None:
        hash_rows(X, out, n_threads)
    elif X.shape[0]:
        check_shape(X)
        rows = canonical(X)
        hash_stored(as_floats(rows.data), rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int64), out)


Array = NDArray[np.float64]
PREFIX = "bootstrap."
# Number of values that keep a thread busy for a few tens of microseconds.
_HASH_GRAIN = 20_000
_SORTED_AT_ONCE = 1 << 16


def random_stream(seed: int, index: int) -> np.random.Generator:
    """Return the generator of stream `index`; all streams are independent (Philox, Salmon et al. 2011)."""
    return np.random.Generator(np.random.Philox(key=[seed, index]))


def stream_seeds(seed: int, first: int, last: int, purpose: int = 0) -> NDArray[np.uint64]:
    """Return the seeds of items `first` to `last` - 1 by the splitmix64 mixer; each depends only on its index.

    Parameters
    ----------
    seed : int
        Seed of the whole sequence.
    first, last : int
        Range of indices.
    purpose : int
        Different purposes get different seeds.
    """
    key = np.array([(seed << 8) + purpose], dtype=np.uint64)
    numbers = np.arange(first, last, dtype=np.uint64)
    return mixed(mixed(key) + (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def _cumulate(weight: Array) -> Array:
    """Return cumulative weights, scaled by a power of two so that sums neither overflow nor become subnormal."""
    return np.cumsum(np.ldexp(weight, -np.frexp(weight.max())[1]))


def _is_cumulated(array: np.ndarray, offsets: NDArray[np.int64]) -> bool:
    """Return True if `array` holds finite cumulative weights in each stratum, each with a positive total.

    `offsets` holds the start of each stratum and the end of the last one.
    """
    if array.dtype != np.float64 or array.shape != (offsets[-1],) or not np.isfinite(array).all():
        return False
    return all(part[0] >= 0 and part[-1] > 0 and (np.diff(part) >= 0).all() for part in np.split(array, offsets[1:-1]))


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the hash of each number by the splitmix64 mixer (Steele, Lea & Flood 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def content_hashes(X: Any, y: Array, n_threads: int = 1) -> NDArray[np.uint64]:
    """Return a hash of each row's values and targets, which defines an order independent of the table's row order.

    Parameters
    ----------
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        The rows.
    y : float64 array of shape (n_rows,) or (n_rows, n_targets)
        Targets of the rows.
    n_threads : int
        Number of threads.
    """
    n_threads = threads_for(X.shape[0] * X.shape[1], n_threads, _HASH_GRAIN)
    of_targets = np.empty(X.shape[0], dtype=np.uint64)
    of_values = X.hashes() if isinstance(X, RowSource) else None
    if of_values is None:
        of_values = np.empty(X.shape[0], dtype=np.uint64)
        for start, part in own_parts(X):
            hash_table(part, of_values[start : start + part.shape[0]], n_threads)
    targets = y[:, None] if y.ndim == 1 else y
    hash_rows(targets, of_targets, n_threads)
    return of_values + of_targets * np.uint64(0x9E3779B97F4A7C15)


def hash_order(hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the indices that sort hashes stably; many hashes are sorted in parts so that Ctrl-C is handled."""
    check_count("X", "rows", len(hashes), advice="Train on a sample of them.")
    if len(hashes) <= _SORTED_AT_ONCE:
        return np.argsort(hashes, kind="stable")
    first_bits = (hashes >> np.uint64(48)).astype(np.uint16)
    order = np.argsort(first_bits, kind="stable")
    ends = np.cumsum(np.bincount(first_bits >> np.uint16(8), minlength=1 << 8))[:-1]
    for part in np.split(order, ends):
        part[:] = part[np.argsort(hashes[part], kind="stable")]
    return order


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Sampling with replacement, with probabilities proportional to row weights.

    Each draw selects a position in the cumulative weights of the rows. The rows are sorted by their content (see
    `content_hashes`), so that the order of the table does not matter, and a row of weight 2 is equivalent to two rows.
    The cost grows with the number of draws or the number of rows, whichever is smaller.

    Attributes
    ----------
    order : uint32 array of shape (n_rows,)
        Row indices, one stratum after another.
    cumulated : float64 array of shape (n_rows,) or None
        Cumulative weights of the rows within each stratum, times a power of two. If None, all weights are 1.
    offsets : int64 array of shape (n_strata + 1,)
        Offset of each stratum in `order`.
    draws : int64 array of shape (n_strata + 1,)
        Cumulative number of draws, starting from 0.
    """

    order: NDArray[np.uint32]
    cumulated: Array | None
    offsets: NDArray[np.int64]
    draws: NDArray[np.int64]

    @classmethod
    def plan(
        cls,
        hashes: NDArray[np.uint64],
        weight: Array | None,
        n_draws: NDArray[np.int64],
        stratum: NDArray[np.intp] | None = None,
    ) -> Bootstrap:
        """Sort the rows for sampling.

        Parameters
        ----------
        hashes : uint64 array of shape (n_rows,)
            Hashes that the rows are sorted by.
        weight : float64 array of shape (n_rows,) or None
            Positive weights. If None, all weights are 1.
        n_draws : int64 array of shape (n_strata,)
            Number of draws from each stratum.
        stratum : integer array of shape (n_rows,) or None
            Stratum of each row. If None, there is only one stratum.
        """
        order, sizes = hash_order(hashes), np.array([len(hashes)], dtype=np.int64)
        if stratum is not None:
            sizes = np.bincount(stratum)
            order = order[np.argsort(stratum[order].astype(np.min_scalar_type(len(sizes))), kind="stable")]
        offsets = np.append(0, np.cumsum(sizes))
        cumulated = None
        if weight is not None:
            cumulated = np.concatenate([_cumulate(part) for part in np.split(weight[order], offsets[1:-1])])
        return cls(order.astype(np.uint32), cumulated, offsets, np.append(0, np.cumsum(n_draws, dtype=np.int64)))

    def is_order_of(self, hashes: NDArray[np.uint64]) -> bool:
        """Return True if this bootstrap's order sorts rows with these hashes within the strata, as `plan` does."""
        ordered = hashes[self.order]
        falls = np.flatnonzero(ordered[1:] < ordered[:-1]) + 1
        return bool(np.isin(falls, self.offsets).all())

    def counts(self, seeds: NDArray[np.uint64], n_threads: int = 1) -> Array:
        """Return the number of times each row is drawn in the sample of each seed, shape (n_seeds, n_rows)."""
        drawn, counts = np.zeros((len(seeds), len(self.order))), np.empty((len(seeds), len(self.order)))
        self._urns.fill(seeds, drawn, counts, n_threads)
        return counts

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the state as plain arrays by name, for `from_arrays`; the names have a prefix."""
        names = ("order", "cumulated", "offsets", "draws")
        return {PREFIX + name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Bootstrap:
        """Create a bootstrap from the output of `to_arrays`; raise ValueError if it is invalid."""
        order, offsets, draws = (arrays[PREFIX + name] for name in ("order", "offsets", "draws"))
        cumulated = arrays.get(PREFIX + "cumulated")
        n_rows = len(order)
        is_sound = (
            order.dtype == np.uint32
            and offsets.dtype == draws.dtype == np.int64
            and order.ndim == offsets.ndim == draws.ndim == 1
            and len(offsets) == len(draws) > 1
            and (order < n_rows).all()  # otherwise, the counts in the next line could exhaust the memory
            and (np.bincount(order, minlength=n_rows) == 1).all()
            and offsets[0] == draws[0] == 0
            and offsets[-1] == n_rows
            and (offsets[1:] > offsets[:-1]).all()  # differences of large integers would overflow
            and (draws[1:] >= draws[:-1]).all()
        )
        if not is_sound or not (cumulated is None or _is_cumulated(cumulated, offsets)):
            raise ValueError("the arrays do not describe a bootstrap")
        return cls(order, cumulated, offsets, draws)

    @cached_property
    def _urns(self) -> Urns:
        return Urns(self.order, self.cumulated, self.offsets, self.draws)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.copy().items() if name != "_urns"}


# Maximum number of materialized copies if there are fewer rows than that, about 80 MB of row indices.
MAX_COPIED_ROWS = 10_000_000
# Beyond this number of copies, the number of draws per row is sampled directly instead of individual copies.
MAX_DRAWN_ONE_BY_ONE = 1 << 24


def repeated(rows: NDArray[np.intp], counts: NDArray[Any], why: str) -> NDArray[np.intp]:
    """Return row indices, each repeated as often as its count.

    Parameters
    ----------
    rows : intp array
        Row indices.
    counts : array of the same length
        Integer counts.
    why : str
        Reason for making copies, used in the error message.

    Raises
    ------
    ValueError
        If there would be more than ten million copies and more copies than rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.rows.sampling import repeated
    >>> repeated(np.array([5, 7]), np.array([2.0, 1.0]), "the example is small")
    array([5, 5, 7])
    """
    total = float(counts.sum())
    if total > max(MAX_COPIED_ROWS, len(rows)):
        raise ValueError(
            f"sample_weight must sum to at most {MAX_COPIED_ROWS} if rows have to be copied ({why}); got "
            f"{total:.15g}. Use weight_type='importance' or smaller weights."
        )
    return np.repeat(rows, counts.astype(np.intp))


@dataclass(frozen=True, eq=False)
class Subsample:
    """Draws of row copies without replacement.

    Copies are sorted by content so that neither the table's order nor the origin of a copy matters.

    Attributes
    ----------
    order : integer array of shape (n_rows,)
        Row indices, with equal rows next to each other.
    of_rows : int64 array of shape (n_rows,)
        Number of copies of each row in this order.
    is_last : bool array of shape (n_rows,)
        True if the next row in this order is different.
    are_weights : bool
        True if the weights count as copies. Otherwise, each row has one copy and keeps its weight.
    n_drawn : int
        Number of copies to draw.
    """

    order: NDArray[np.intp]
    of_rows: NDArray[np.int64]
    is_last: NDArray[np.bool_]
    are_weights: bool
    n_drawn: int

    @classmethod
    def plan(cls, hashes: NDArray[np.uint64], weight: Array | None, n_drawn: int = 0) -> Subsample:
        """Plan draws from the copies that the weights count, or from the rows if the weights do not count copies.

        Parameters
        ----------
        hashes : uint64 array of shape (n_rows,)
            Hashes of the rows; equal rows must have equal hashes (see `content_hashes`).
        weight : array of shape (n_rows,) or None
            Positive weights. If None, all weights are 1.
        n_drawn : int
            Number of copies to draw.
        """
        counts = are_copies(weight)
        order = np.argsort(weight, kind="stable") if weight is not None else np.arange(len(hashes))
        order = order[hash_order(hashes[order])]
        of_rows = weight[order].astype(np.int64) if weight is not None and counts else np.ones(len(order), np.int64)
        ordered = hashes[order]
        return cls(order, of_rows, np.append(ordered[1:] != ordered[:-1], True), counts, n_drawn)

    @property
    def total(self) -> int:
        """Total number of copies."""
        return int(self.of_rows.sum())

    def draw(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Return the number of drawn copies of each row, int64 of shape (n_rows,)."""
        total, upto, drawn = self.total, np.cumsum(self.of_rows), np.empty(len(self.order), np.int64)
        if total <= MAX_DRAWN_ONE_BY_ONE:
            chosen = random.choice(total, self.n_drawn, replace=False)
            drawn[self.order] = np.bincount(np.searchsorted(upto, chosen, "right"), minlength=len(upto))
        else:
            of_contents = self._draw_distinct(upto[self.is_last], self.n_drawn, random)
            drawn[self.order] = self._spread_copies(of_contents, upto)
        return drawn

    def counts(self, seeds: NDArray[np.uint64], n_threads: int = 1) -> Array:
        """Return the number of drawn copies of each row for each seed, shape (n_seeds, n_rows)."""
        return np.array([self.draw(random_stream(seed, 0)) for seed in seeds.tolist()], dtype=np.float64)

    @staticmethod
    def _draw_distinct(upto: NDArray[np.int64], n_drawn: int, random: np.random.Generator) -> list[int]:
        """Return the number of drawn copies of each distinct row, given cumulative counts of copies.

        The counts, `upto`, have one entry for each distinct row, and n_drawn is the total number of draws. The numbers
        are hypergeometric draws. For more than 10^9 copies, binomial draws replace them because they hardly differ.
        """
        drawn, left, before = [], n_drawn, 0
        total = int(upto[-1])
        for end in upto.tolist():
            size, rest = end - before, total - end
            if size + rest < 10**9:
                count = int(random.hypergeometric(size, rest, left))
            else:
                count = int(random.binomial(min(size, left), max(size, left) / (size + rest)))
                count = min(max(count, left - rest), size, left)
            drawn.append(count)
            left, before = left - count, end
        return drawn

    def _spread_copies(self, of_contents: list[int], upto: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of drawn copies of each sorted row, given the number `of_contents` for each distinct row.

        A distinct row's copies go to its equal rows in order; `upto` holds the rows' cumulative numbers of copies.
        """
        content = np.append(0, np.cumsum(self.is_last)[:-1])
        first = np.append(0, upto[self.is_last])[content]
        return np.clip(np.asarray(of_contents)[content] - (upto - self.of_rows - first), 0, self.of_rows)
