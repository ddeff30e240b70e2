"""Random streams, bootstrap samples, copies of rows, and sparse rows for the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse import issparse

from fastens.cached import cached_property
from fastens.engine.limits import check_count, check_shape
from fastens.engine.parts import as_floats, is_coded, parts_of
from fastens.engine.rows.draws import Urns, hash_rows, hash_stored, sum_duplicates
from fastens.engine.threads import threads_for
from fastens.engine.whole import are_copies


class Columns(NamedTuple):
    """The stored values of a sparse matrix, one column after another; in each, rows ascend.

    Attributes
    ----------
    values : float32 or float64 array of shape (n_stored,)
        The values.
    rows : int32 array of shape (n_stored,)
        Their rows.
    starts : int64 array of shape (n_columns + 1,)
        Where each column begins.
    """

    values: NDArray[np.floating]
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]


def columns_of(X: Any) -> Columns:
    """Return the columns of a sparse matrix of numbers as floats; values stored for the same place are added up.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from fastens.engine.rows.sampling import columns_of
    >>> columns_of(csr_matrix(([1.0, 2.0, 3.0], [1, 1, 0], [0, 3]), shape=(1, 2)))
    Columns(values=array([3., 3.]), rows=array([0, 0], dtype=int32), starts=array([0, 1, 2]))
    """
    check_shape(X)
    # From rows to columns scipy keeps the order of what is stored for one place: it is added up as in `toarray`.
    by_column = X.tocsr().tocsc()
    values, rows = as_floats(by_column.data), by_column.indices.astype(np.int32, copy=False)
    starts = by_column.indptr.astype(np.int64)
    if not X.has_canonical_format:
        n = sum_duplicates(values, rows, starts)
        values, rows = values[:n], rows[:n]
    return Columns(values, rows, starts)


def canonical(X: Any) -> Any:
    """Return a CSR matrix whose rows store each place once, in the order of the columns; itself where it is one."""
    if X.format == "csr" and X.has_canonical_format:
        return X
    values, rows, starts = columns_of(X)
    by_row = scipy.sparse.csc_matrix((values, rows, starts), shape=X.shape).tocsr()
    by_row.has_canonical_format = True
    return by_row


def hash_table(X: Any, out: NDArray[np.uint64], n_threads: int = 1) -> None:
    """Write a hash of each row's content: the same for an array and for a sparse matrix of these rows.

    Parameters
    ----------
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        The rows.
    out : uint64 array of shape (n_rows,)
        Gets the hashes.
    n_threads : int
        How many threads there may be.
    """
    if not scipy.sparse.issparse(X):
        hash_rows(X, out, n_threads)
    elif X.shape[0]:
        check_shape(X)
        rows = canonical(X)
        hash_stored(as_floats(rows.data), rows.indices.astype(np.int32, copy=False), rows.indptr.astype(np.int64), out)


Array = NDArray[np.float64]
PREFIX = "bootstrap."
# Values that keep a thread busy for some tens of microseconds.
_HASH_GRAIN = 20_000
_SORTED_AT_ONCE = 1 << 16


def random_stream(seed: int, index: int) -> np.random.Generator:
    """Return the generator of stream number `index`; streams are independent (Philox, Salmon et al. 2011)."""
    return np.random.Generator(np.random.Philox(key=[seed, index]))


def stream_seeds(seed: int, first: int, last: int, purpose: int = 0) -> NDArray[np.uint64]:
    """Return seeds for things number `first` to `last` - 1, by the mixer of splitmix64; none depends on the others.

    Parameters
    ----------
    seed : int
        Of the whole.
    first, last : int
        The range of numbers.
    purpose : int
        Seeds for another purpose are others.
    """
    key = np.array([(seed << 8) + purpose], dtype=np.uint64)
    numbers = np.arange(first, last, dtype=np.uint64)
    return mixed(mixed(key) + (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def checked_seed(seed: Any) -> int:
    """A seed that a file holds; ValueError for one that no fit draws."""
    if not isinstance(seed, int | np.integer) or not 0 <= seed < np.iinfo(np.int32).max:
        raise ValueError(f"the seed of the fit is malformed: {seed!r}")
    return int(seed)


def _cumulated(weight: Array) -> Array:
    """Weights cumulated, after a power of two has made the largest about 1: no sum overflows or is subnormal."""
    return np.cumsum(np.ldexp(weight, -np.frexp(weight.max())[1]))


def _is_cumulated(array: np.ndarray, offsets: NDArray[np.int64]) -> bool:
    if array.dtype != np.float64 or array.shape != (offsets[-1],) or not np.isfinite(array).all():
        return False
    return all(part[0] >= 0 and part[-1] > 0 and (np.diff(part) >= 0).all() for part in np.split(array, offsets[1:-1]))


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return other bits for each number, by the mixer of splitmix64 (Steele, Lea & Flood 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def content_hashes(X: Any, y: Array, n_threads: int = 1) -> NDArray[np.uint64]:
    """Return a hash of each row's values and targets, which puts rows in an order that is theirs, not the table's.

    Parameters
    ----------
    X : float32 or float64 array, or a sparse matrix, of shape (n_rows, n_features)
        The rows.
    y : float64 array of shape (n_rows,) or (n_rows, n_targets)
        Their targets.
    n_threads : int
        Number of threads.
    """
    n_threads = threads_for(X.shape[0] * X.shape[1], n_threads, _HASH_GRAIN)
    of_values = X.hashes() if is_coded(X) else np.empty(X.shape[0], dtype=np.uint64)
    of_targets = np.empty(X.shape[0], dtype=np.uint64)
    for start, part in () if is_coded(X) else [(0, X)] if issparse(X) else parts_of(X):
        hash_table(part, of_values[start : start + part.shape[0]], n_threads)
    targets = y[:, None] if y.ndim == 1 else y
    hash_rows(targets, of_targets, n_threads)
    return of_values + of_targets * np.uint64(0x9E3779B97F4A7C15)


def hash_order(hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return the stable order of hashes; many are sorted in parts by their first bits, so that Ctrl-C is seen."""
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
    """Draws with replacement, with chances in proportion to the rows' weights.

    A draw falls on a place in the cumulated weights of the rows, which stand in an order of their own (see
    `content_hashes`), so that the order of the table does not matter, and a row of weight 2 is the same as two rows.
    The time goes with the number of draws, or with that of the rows where they are fewer.

    Attributes
    ----------
    order : uint32 array of shape (n_rows,)
        The rows, one stratum after another.
    cumulated : float64 array of shape (n_rows,) or None
        Their weights, cumulated within each stratum, times a power of two; None where all are 1.
    offsets : int64 array of shape (n_strata + 1,)
        Where the strata begin in `order`.
    draws : int64 array of shape (n_strata + 1,)
        The numbers of draws, cumulated from 0.
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
        """Put the rows in order.

        Parameters
        ----------
        hashes : uint64 array of shape (n_rows,)
            What orders the rows.
        weight : float64 array of shape (n_rows,) or None
            Positive.
        n_draws : int64 array of shape (n_strata,)
            How many draws each stratum has.
        stratum : integer array of shape (n_rows,) or None
            The stratum of each row; None for one stratum.
        """
        order, sizes = hash_order(hashes), np.array([len(hashes)], dtype=np.int64)
        if stratum is not None:
            sizes = np.bincount(stratum)
            order = order[np.argsort(stratum[order].astype(np.min_scalar_type(len(sizes))), kind="stable")]
        offsets = np.append(0, np.cumsum(sizes))
        cumulated = None
        if weight is not None:
            cumulated = np.concatenate([_cumulated(part) for part in np.split(weight[order], offsets[1:-1])])
        return cls(order.astype(np.uint32), cumulated, offsets, np.append(0, np.cumsum(n_draws, dtype=np.int64)))

    def is_order_of(self, hashes: NDArray[np.uint64]) -> bool:
        """Return whether rows of these hashes can be those of `plan`, in their order."""
        ordered = hashes[self.order]
        falls = np.flatnonzero(ordered[1:] < ordered[:-1]) + 1
        return bool(np.isin(falls, self.offsets).all())

    def counts(self, seeds: NDArray[np.uint64], n_threads: int = 1) -> Array:
        """Return how often each row is drawn in the sample of each seed, shape (n_seeds, n_rows)."""
        drawn, counts = np.zeros((len(seeds), len(self.order))), np.empty((len(seeds), len(self.order)))
        self._urns.fill(seeds, drawn, counts, n_threads)
        return counts

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the state as plain arrays under names with a prefix."""
        names = ("order", "cumulated", "offsets", "draws")
        return {PREFIX + name: getattr(self, name) for name in names if getattr(self, name) is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Bootstrap:
        """Make a bootstrap from what `to_arrays` returned; ValueError for anything that is not such a state."""
        order, offsets, draws = (arrays[PREFIX + name] for name in ("order", "offsets", "draws"))
        cumulated = arrays.get(PREFIX + "cumulated")
        n_rows = len(order)
        is_sound = (
            order.dtype == np.uint32
            and offsets.dtype == draws.dtype == np.int64
            and order.ndim == offsets.ndim == draws.ndim == 1
            and len(offsets) == len(draws) > 1
            and (order < n_rows).all()  # or the counts of the next line take all memory
            and (np.bincount(order, minlength=n_rows) == 1).all()
            and offsets[0] == draws[0] == 0
            and offsets[-1] == n_rows
            and (offsets[1:] > offsets[:-1]).all()  # differences of large numbers overflow
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


# Copies that are made where there are not as many rows: some 80 MB of row numbers.
MOST_MADE = 10_000_000
# Of more copies than this, how many a row gives is drawn, and not which.
MOST_DRAWN_ONE_BY_ONE = 1 << 24


def repeated(rows: NDArray[np.intp], counts: NDArray[Any], why: str) -> NDArray[np.intp]:
    """Return rows, each as often as it counts.

    Parameters
    ----------
    rows : intp array
        Which rows.
    counts : array of the same length
        Whole numbers.
    why : str
        For the error: why copies are made.

    Raises
    ------
    ValueError
        Where that would be more than ten million, and more than there are rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.rows.sampling import repeated
    >>> repeated(np.array([5, 7]), np.array([2.0, 1.0]), "the example is small")
    array([5, 5, 7])
    """
    total = float(counts.sum())
    if total > max(MOST_MADE, len(rows)):
        raise ValueError(
            f"sample_weight must stand for at most {MOST_MADE} copies of rows where they have to be made: {why}; "
            f"got {total:.15g}. Use weight_type='importance', or smaller weights."
        )
    return np.repeat(rows, counts.astype(np.intp))


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of rows in an order of their own: the table's order, and which row is whose copy, do not matter.

    Attributes
    ----------
    order : integer array of shape (n_rows,)
        The rows, equal ones side by side.
    of_rows : int64 array of shape (n_rows,)
        In that order: how many copies each has.
    is_last : bool array of shape (n_rows,)
        In that order: whether the next row is another one.
    are_weights : bool
        Whether weights are numbers of copies; otherwise each row is there once, with its weight.
    """

    order: NDArray[np.intp]
    of_rows: NDArray[np.int64]
    is_last: NDArray[np.bool_]
    are_weights: bool

    @classmethod
    def of(cls, hashes: NDArray[np.uint64], weight: Array | None) -> Copies:
        """As many as each row's weight says; where weights are no numbers of copies, one of each row.

        Parameters
        ----------
        hashes : uint64 array of shape (n_rows,)
            Those of equal rows are equal; see `content_hashes`.
        weight : array of shape (n_rows,) or None
            Positive.
        """
        counts = are_copies(weight)
        order = np.argsort(weight, kind="stable") if weight is not None else np.arange(len(hashes))
        order = order[hash_order(hashes[order])]
        of_rows = weight[order].astype(np.int64) if weight is not None and counts else np.ones(len(order), np.int64)
        ordered = hashes[order]
        return cls(order, of_rows, np.append(ordered[1:] != ordered[:-1], True), counts)

    @property
    def total(self) -> int:
        """How many there are."""
        return int(self.of_rows.sum())

    def draw(self, n_drawn: int, random: np.random.Generator) -> NDArray[np.int64]:
        """How many copies of each row are among `n_drawn` of them."""
        found = np.empty(len(self.order), np.int64)
        found[self.order] = self._drawn(n_drawn, random)
        return found

    def _drawn(self, n_drawn: int, random: np.random.Generator) -> NDArray[np.int64]:
        total = self.total
        upto = np.cumsum(self.of_rows)
        if total <= MOST_DRAWN_ONE_BY_ONE:
            chosen = random.choice(total, n_drawn, replace=False)
            return np.bincount(np.searchsorted(upto, chosen, "right"), minlength=len(upto))
        return self._spread(self._of_contents(upto[self.is_last], n_drawn, random), upto)

    @staticmethod
    def _of_contents(upto: NDArray[np.int64], n_drawn: int, random: np.random.Generator) -> list[int]:
        """How many copies of each distinct row, of so many upto each, are drawn.

        One hypergeometric number after another; of more than 10^9 copies binomial ones, which then hardly differ.
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

    def _spread(self, of_contents: list[int], upto: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of each distinct row from its rows in their order."""
        content = np.append(0, np.cumsum(self.is_last)[:-1])
        first = np.append(0, upto[self.is_last])[content]
        return np.clip(np.asarray(of_contents)[content] - (upto - self.of_rows - first), 0, self.of_rows)
