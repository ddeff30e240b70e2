"""Class-conditional likelihoods of numeric, binary, count and categorical columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import (
    MAX_CATEGORIES,
    LabelledCodes,
    add_class_counts,
    empty_counts,
    encode,
    encode_all,
    offsets_of,
    without_missing,
)
from fastens.bayes.counts.dirichlet import ROOT, Groups, Smoothing
from fastens.bayes.naive.moments import add_families, add_gaussian, add_moments, add_products, add_sparse_sums
from fastens.engine.comm import LOCAL, Comm, chain_reduce, chain_sum, sum_over
from fastens.engine.elementary import exp, log, log1p, logaddexp
from fastens.engine.parts import RowSource, dense_blocks, parts_of, stored_values
from fastens.engine.threads import threads_for
from fastens.table.columns.numbers import FLOATS
from fastens.table.tables import row_blocks

Array = NDArray[np.float64]
GRAIN = 100_000  # minimum number of table entries per thread


class Batch(NamedTuple):
    """Rows of one process to count."""

    X: Any  # array, CSR matrix, or a row source of arrays
    y: NDArray[np.int32]
    weight: Array | None
    n_classes: int
    n_threads: int
    names: list[str] | None  # names of the columns
    comm: Comm = LOCAL

    def label_codes(self, codes: NDArray[Any]) -> LabelledCodes:
        """Return codes of the columns, (n_columns, n_rows), with the labels and weights of the rows, for counting."""
        return LabelledCodes(codes, self.y, self.weight, self.n_threads, self.comm)

    def select_rows(self, rows: slice, X: Any) -> Batch:
        """Return a batch with the labels and weights of a slice of the rows, and `X` as the table of these rows."""
        return self._replace(X=X, y=self.y[rows], weight=None if self.weight is None else self.weight[rows])

    @property
    def is_sparse(self) -> bool:
        """True if the rows of this process are a sparse matrix."""
        return stored_values(self.X) is not None

    def blocks(self) -> Iterator[Batch]:
        """Yield the parts of a table that is read in parts; an in-memory table is one block."""
        if not isinstance(self.X, RowSource):
            yield self
            return
        for start, part in parts_of(self.X):
            yield self.select_rows(slice(start, start + part.shape[0]), part)

    def equal_blocks(self, n_rows: int) -> Iterator[Batch]:
        """Yield dense blocks of `n_rows` rows, aligned to the first row of the whole table.

        Each process yields the blocks that begin in its rows. It receives the rest of its last block from the
        processes after it.
        """
        n_before, tails = self._exchange_split_blocks(n_rows) if self.comm.size > 1 else (0, [])
        waiting: Batch | None = None
        for first, X in dense_blocks(self.X[n_before:] if n_before else self.X, n_rows):
            if waiting is not None:
                yield waiting
            waiting = self.select_rows(slice(n_before + first, n_before + first + len(X)), X)
        if waiting is not None and not tails:
            yield waiting
        elif waiting is not None:
            tables, labels, weights = zip((waiting.X, waiting.y, waiting.weight), *tails, strict=True)
            weight = None if self.weight is None else np.concatenate(weights)
            yield waiting._replace(X=np.concatenate(tables), y=np.concatenate(labels), weight=weight)

    def _exchange_split_blocks(self, n_rows: int) -> tuple[int, list[Any]]:
        """Send leading rows whose block begins in another process there; return their number and the rows received."""
        comm = self.comm
        ends = np.cumsum(comm.allgather(len(self.y)))
        first = int(ends[comm.rank]) - len(self.y)
        n_before = min(-first % n_rows, len(self.y))
        sent: list[Any] = [None] * comm.size
        if n_before:
            (_, X), *_ = dense_blocks(self.X[:n_before], n_before)
            owner = int(np.searchsorted(ends, first // n_rows * n_rows, side="right"))
            sent[owner] = (X, *self.select_rows(slice(n_before), X)[1:3])
        return n_before, [part for part in comm.alltoall(sent) if part is not None]


def sums_by_class(y: NDArray[Any], weight: Array | None, n_classes: int, comm: Comm) -> Array:
    """Return the number of rows of each class over all processes, or the sum of their weights."""
    if weight is None:
        return sum_over(comm, np.bincount(y, minlength=n_classes)).astype(np.float64)
    return chain_sum(comm, np.zeros(n_classes), lambda sums: np.add.at(sums, y, weight))


class NotPositionsError(ValueError):
    """Raised if columns that should hold category positions hold other numbers."""

    def __init__(self, columns: NDArray[np.intp], name: str) -> None:
        super().__init__(
            f"Column {name} must hold category indices, integers from 0 to {MAX_CATEGORIES - 1}, as in the "
            "first rows; it holds other numbers."
        )
        self.columns = columns


class Likelihood:
    """Base class of likelihoods; if `columns` is None, all columns are used."""

    statistics: ClassVar[tuple[str, ...]]
    per_column: ClassVar[tuple[str, ...]] = ()  # statistics that have no class axis
    tables: ClassVar[tuple[str, ...]]
    unseen: str = "ignore"  # policy for categories that were not seen in fit

    def __init__(self, columns: NDArray[np.intp] | None = None) -> None:
        self.columns = columns

    def select(self, X: Any) -> Any:
        """Return the columns of this likelihood; C-ordered arrays are copied in blocks to handle KeyboardInterrupt."""
        if self.columns is None:
            return X
        if not (isinstance(X, np.ndarray) and X.flags.c_contiguous):
            return X[:, self.columns]
        selected = np.empty((len(X), len(self.columns)), X.dtype)
        for rows in row_blocks(*selected.shape):
            np.take(X[rows], self.columns, axis=1, out=selected[rows], mode="clip")  # "raise" would buffer `out`
        return selected

    def n_columns(self, X: Any) -> int:
        """Return the number of columns of the table `X` that this likelihood uses."""
        return X.shape[1] if self.columns is None else len(self.columns)

    def column_name(self, names: list[str] | None, index: int) -> str:
        """Return the name, or the index, of the column at position `index` of this likelihood, for messages."""
        column = index if self.columns is None else int(self.columns[index])
        return repr(names[column]) if names else str(column)

    def count(self, batch: Batch) -> None:
        """Set the statistics from the rows of a batch, over all processes."""
        raise NotImplementedError

    def set_sums(self, sums: Array, known_weight: Array, names: list[str] | None) -> None:
        """Set the statistics from column sums and weights of known rows by class; errors use the column `names`."""
        raise NotImplementedError

    def add(self, other: Any) -> None:
        """Add the statistics of another likelihood with identical classes and categories."""
        raise NotImplementedError

    def expand_classes(self, new_positions: NDArray[np.intp], n_classes: int) -> None:
        """Expand the statistics to `n_classes` classes; class i moves to position `new_positions[i]`."""
        for name in self.statistics:
            old = getattr(self, name)
            if name not in self.per_column:
                new = np.zeros((n_classes, *old.shape[1:]), dtype=old.dtype)
                new[new_positions] = old
                setattr(self, name, new)

    def reorder_categories(self, old: list[Any], new: list[Any]) -> None:
        """Move the statistics from the `old` categories of each column to the `new` lists, which contain them."""

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Set the tables from the statistics: a "bayes", "map" or "ml" estimate, or a posterior draw by `rng`."""
        raise NotImplementedError

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Add log P(columns of row i | class c) to `out[i, c]` for the rows of a table."""
        raise NotImplementedError

    def n_parameters(self) -> int:
        """Return the number of free parameters."""
        raise NotImplementedError

    def log_evidence(self) -> float | None:
        """Return log P(columns | classes) with parameters integrated out, or None if the prior is improper."""
        return None

    def first_unseen(self, X: Any) -> tuple[int, int] | None:
        """Return (row, column) of the first value with a category not seen in fit, or None if there is none."""
        return None

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if statistics and tables read from a file are inconsistent."""
        raise NotImplementedError


class DirichletLikelihood(Likelihood):
    """Likelihood with counts of cells; each group of cells has a Dirichlet prior."""

    statistics: ClassVar[tuple[str, ...]] = ("counts", "sizes")
    per_column: ClassVar[tuple[str, ...]] = ("sizes",)
    tables: ClassVar[tuple[str, ...]] = ("log_prob",)

    def __init__(self, smoothing: Smoothing, columns: NDArray[np.intp] | None = None) -> None:
        super().__init__(columns)
        self.smoothing = smoothing
        self.counts: Any = None
        self.sizes: Any = None
        self.log_prob: Any = None

    def pseudo_counts(self) -> Array:
        """Return the pseudo-count of each cell, shape (n_cells,)."""
        return np.repeat(self.smoothing.of_groups(self.sizes, len(self.counts)), self.sizes)

    def groups(self) -> Groups:
        """Return the groups of cells that have one Dirichlet prior each."""
        return Groups(self.sizes, self.pseudo_counts())

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Set the log probability of each cell by class: an estimate by `mode`, or a posterior draw by `rng`."""
        self.log_prob = log(self._probabilities(mode, rng))

    def _probabilities(self, mode: str, rng: np.random.Generator | None) -> Array:
        """Return the probability of each cell by class, estimated by `mode` or drawn from the posterior by `rng`."""
        groups = self.groups()
        return groups.estimate(self.counts, mode) if rng is None else groups.draw(self.counts, rng)

    def n_parameters(self) -> int:
        """Return the number of free parameters: cells minus one for each class and column."""
        return int(len(self.counts) * np.maximum(self.sizes - 1, 0).sum())

    def log_evidence(self) -> float | None:
        """Return the log evidence of the counts, or None if a pseudo-count is 0."""
        groups = self.groups()
        return float(groups.log_evidence(self.counts).sum()) if (groups.pseudo > 0).all() else None

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the counts or log probabilities read from a file are inconsistent."""
        sizes, counts = self.sizes, self.counts
        if sizes.dtype != np.int64 or sizes.ndim != 1 or (sizes < 0).any() or (sizes > MAX_CATEGORIES).any():
            raise ValueError("the numbers of categories are malformed")
        if counts.shape != (n_classes, sizes.sum()) or not np.isfinite(counts).all() or (counts < 0).any():
            raise ValueError("the counts are malformed")
        if self.log_prob.shape != counts.shape or not (self.log_prob <= 0).all():
            raise ValueError("the log probabilities are malformed")


class CellLikelihood(DirichletLikelihood):
    """Likelihood with counts by category, which can be widened for new categories."""

    def add(self, other: Any) -> None:
        """Add the counts of another likelihood; both are expanded to the larger number of categories."""
        sizes = np.maximum(self.sizes, other.sizes)
        self.expand_categories(sizes)
        other.expand_categories(sizes)
        self.counts = self.counts + other.counts

    def expand_categories(
        self, sizes: NDArray[np.int64], new_positions: dict[int, NDArray[np.intp]] | None = None
    ) -> None:
        """Expand to `sizes[j]` categories of column j; its counts move to `new_positions[j]`, if present, or stay."""
        if new_positions is None and np.array_equal(sizes, self.sizes):
            return
        old, new = offsets_of(self.sizes), offsets_of(sizes)
        sources, targets = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        for index, positions in enumerate(self._new_positions(new_positions)):
            sources.append(old[index] + np.arange(len(positions)))
            targets.append(new[index] + positions)
        self._move_cells(np.concatenate(sources), np.concatenate(targets), int(new[-1]))
        self.sizes = sizes

    def _new_positions(self, new_positions: dict[int, NDArray[np.intp]] | None) -> list[NDArray[np.intp]]:
        """Return the new position of each category, by column, with unchanged positions for columns not in the dict."""
        return [
            (new_positions or {}).get(index, np.arange(size))[:size] for index, size in enumerate(self.sizes.tolist())
        ]

    def _move_cells(self, sources: NDArray[np.intp], targets: NDArray[np.intp], n_cells: int) -> None:
        """Move the cells `sources` of all classes to the positions `targets` in a table of `n_cells` cells."""
        counts = np.zeros((len(self.counts), n_cells), dtype=self.counts.dtype)
        counts[:, targets] = self.counts[:, sources]
        self.counts = counts

    def reorder_categories(self, old: list[Any], new: list[Any]) -> None:
        """Move the counts from the `old` categories of each column to the `new` lists, which contain them."""
        columns = range(len(self.sizes)) if self.columns is None else self.columns.tolist()
        sizes, new_positions = self.sizes.copy(), {}
        for index, column in enumerate(columns):
            if old[column] is not None:
                order = {value: position for position, value in enumerate(new[column])}
                new_positions[index] = np.array([order[value] for value in old[column]], dtype=np.intp)
                sizes[index] = max(sizes[index], len(new[column]))
        if new_positions:
            self.expand_categories(sizes, new_positions)

    def codes(self, X: Any, n_threads: int = 1) -> NDArray[Any]:
        """Return codes of shape (n_columns, n_rows): 0 if missing, k + 1 for category k, or the next code if unseen."""
        raise NotImplementedError

    def first_unseen(self, X: Any) -> tuple[int, int] | None:
        """Return the row and column indices of a category not seen in fit, or None if there is none."""
        columns, rows = np.nonzero(self.codes(X) == (self.sizes + 1)[:, None])
        if not rows.size:
            return None
        column = int(columns[0])
        return int(rows[0]), column if self.columns is None else int(self.columns[column])


class CategoricalLikelihood(CellLikelihood):
    """Likelihood of categorical columns, whose category probabilities depend on the class.

    `feature_prior` is the prior probability that a column depends on the class. If it is set, the tables are averages
    over all subsets of the columns (Dash & Cooper 2004).
    """

    tables = ("log_prob", "log_unseen", "feature_posterior")

    def __init__(
        self,
        smoothing: Smoothing,
        columns: NDArray[np.intp] | None = None,
        *,
        unseen: str = "ignore",
        minimum: Any = None,
        feature_prior: float | None = None,
    ) -> None:
        super().__init__(smoothing, columns)
        self.unseen = unseen
        self.minimum = minimum
        self.feature_prior = feature_prior
        self.log_unseen: Any = None
        self.feature_posterior: Any = None

    def positions(self, X: Any) -> Any:
        """Return the columns of this likelihood; `X` holds category positions, NaN if missing."""
        return self.select(X)

    def count(self, batch: Batch) -> None:
        """Set the counts from category positions; raise NotPositionsError for columns with other numbers."""
        n_columns = self.n_columns(batch.X)
        sizes = np.broadcast_to(0 if self.minimum is None else self.minimum, n_columns).astype(np.int64) + 1
        state = sizes, empty_counts(sizes, batch.n_classes, batch.weight), np.zeros(n_columns, dtype=np.int64)
        if batch.weight is None:
            sizes, _, faults = self._count_blocks(batch, state)
            batch.comm.allreduce_max(largest := sizes.copy(), faults)
            self.expand_categories(largest)
            self.counts = sum_over(batch.comm, self.counts)
        else:
            self.sizes, self.counts, faults = chain_reduce(batch.comm, state, partial(self._count_blocks, batch))
        faulty = np.flatnonzero(faults)
        if faulty.size:
            raise NotPositionsError(faulty, self.column_name(batch.names, int(faulty[0])))
        self.counts = without_missing(self.counts, self.sizes)
        self.sizes = self.sizes - 1

    def _count_blocks(self, batch: Batch, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        """Add the rows of this process to `state`, which is (sizes, counts, faults), and return the new state.

        Sizes and counts grow with new categories, and the first cell of each column counts missing values. Faults
        are nonzero for columns that hold numbers other than category positions.
        """
        self.sizes, self.counts, faults = state
        for block in batch.blocks():
            coded = encode_all(self.positions(block.X), batch.n_threads)
            faults = faults | (coded.faults > 0) | (coded.largest >= MAX_CATEGORIES)
            if not faults.any():
                self.expand_categories(np.maximum(self.sizes, coded.largest + 2))
                add_class_counts(block.label_codes(coded.codes), self.sizes, self.counts)
        return self.sizes, self.counts, faults

    # Estimates --------------------------------------------------

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Set `log_prob`, `log_unseen` and `feature_posterior`: an estimate by `mode`, or a posterior draw by `rng`."""
        groups = self.groups()
        depends = self._probabilities(mode, rng)
        unseen = groups.unseen(self.counts, mode)
        self.feature_posterior = np.ones(len(self.sizes))
        if self.feature_prior is not None:
            of_all, total = self._class_free_groups()
            self.feature_posterior = exp(-logaddexp(0, -self._log_odds_of_dependence()))
            share = self._weight_of_dependence(mode, rng)
            alike = of_all.estimate(total, mode) if rng is None else of_all.draw(total, rng)
            depends = _interpolate(groups.spread(share), depends, alike)
            unseen = _interpolate(share, unseen, of_all.unseen(total, mode))
        self.log_prob = log(depends)
        self.log_unseen = log(unseen) if self.unseen == "smooth" else np.zeros((len(self.counts), len(self.sizes)))

    def _class_free_groups(self) -> tuple[Groups, NDArray[Any]]:
        """Return the Dirichlet groups and counts of the model in which no column depends on the class."""
        pseudo = np.repeat(self.smoothing.of_groups(self.sizes, 1), self.sizes)
        return Groups(self.sizes, pseudo), self.counts.sum(axis=0, keepdims=True)

    def _log_odds_of_dependence(self) -> Array:
        """Return the posterior log odds that each column depends on the class, shape (n_columns,)."""
        assert self.feature_prior is not None
        of_all, total = self._class_free_groups()
        odds = log(self.feature_prior) - log1p(-self.feature_prior)
        return odds + self.groups().log_evidence(self.counts).sum(axis=0) - of_all.log_evidence(total)[0]

    def _weight_of_dependence(self, mode: str, rng: np.random.Generator | None) -> Array:
        """Return by column the weight of tables that depend on the class: an estimate by `mode`, or a draw, 0 or 1."""
        # Weight of the hypothesis that the column depends on the class: its posterior, its mode or a draw.
        posterior = self.feature_posterior
        if rng is not None:
            return (rng.random(len(posterior)) < posterior).astype(np.float64)
        return {"bayes": posterior, "map": posterior > 0.5, "ml": np.ones(len(posterior))}[mode].astype(np.float64)

    def log_evidence(self) -> float | None:
        """Return the log evidence, or None if a pseudo-count is 0; `feature_prior` averages over dependent columns."""
        plain = super().log_evidence()
        if plain is None or self.feature_prior is None:
            return plain
        of_all, total = self._class_free_groups()
        alike = log1p(-self.feature_prior) + of_all.log_evidence(total)[0]
        return float((alike + logaddexp(0, self._log_odds_of_dependence())).sum())

    # Prediction --------------------------------------------------

    def codes(self, X: Any, n_threads: int = 1) -> NDArray[Any]:
        """Return codes of shape (n_columns, n_rows): 0 if missing, k + 1 for category k, or the next code if unseen."""
        return encode(self.positions(X), self.sizes, n_threads).codes

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Add log P(categories of row i | class c) to `out[i, c]`."""
        add_columns(self.codes(X, n_threads), self.sizes + 2, self._code_table(), out, n_threads)

    def _code_table(self) -> Array:
        """Return the log probability of each code of each column by class, shape (total number of codes, n_classes)."""
        # For each column: 0 for missing values, then the categories, then one entry for unseen categories.
        offsets = offsets_of(self.sizes + 2)
        table = np.zeros((offsets[-1], len(self.counts)))
        is_known = np.ones(len(table), dtype=bool)
        is_known[offsets[:-1]] = is_known[offsets[1:] - 1] = False
        table[is_known] = self.log_prob.T
        table[offsets[1:] - 1] = self.log_unseen.T
        return table

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the arrays read from a file are inconsistent."""
        super().check(n_classes, n_features)
        if len(self.sizes) != n_features or self.log_unseen.shape != (n_classes, n_features):
            raise ValueError("the numbers of categories do not match the columns")
        if not (self.log_unseen <= 0).all() or self.feature_posterior.shape != (n_features,):
            raise ValueError("the log probabilities are malformed")


def add_columns(codes: NDArray[Any], n_codes: NDArray[np.int64], table: Array, out: Array, n_threads: int) -> None:
    """Add to `out[i]` the table rows of the codes of row i; column j has the next `n_codes[j]` rows of the table."""
    n_threads = threads_for(codes.size * out.shape[1], n_threads, GRAIN)
    add_families(codes, np.full_like(n_codes, ROOT), n_codes, offsets_of(n_codes), table, out, n_threads)


def _interpolate(share: Array, one: Array, other: Array) -> Array:
    """Return the weighted mean of two arrays; `share` is the weight of `one`."""
    return share * one + (1 - share) * other


# Maximum number of rows, and of values, whose moments are computed at a time.
_MOMENT_ROWS, _MOMENT_VALUES = 1 << 14, 1 << 22
# Twice this variance times 2 pi is still finite.
_MAX_VARIANCE = float(np.finfo(np.float64).max) / 16
IMPOSSIBLE = -1e300  # replaces minus infinity because 0 * -inf is NaN


def _as_floats(X: NDArray[Any]) -> NDArray[Any]:
    """Return a float32 or float64 array unchanged, and any other array as float64."""
    return X if X.dtype in FLOATS else X.astype(np.float64)


def _float_blocks(X: Any) -> Iterable[tuple[int, NDArray[Any]]]:
    """Return pairs of a first row index and a block of floats; a float array is one block and is not copied."""
    return [(0, X)] if isinstance(X, np.ndarray) and X.dtype in FLOATS else dense_blocks(X)


def _add_csr_sums(X: Any, data: Array, batch: Batch, out: Array) -> None:
    """Add weighted sums of `data`, which replaces the stored items of the CSR matrix `X`, by class to `out`."""
    if data.size:
        indptr = X.indptr.astype(X.indices.dtype, copy=False)
        add_sparse_sums(data.astype(np.float64, copy=False), X.indices, indptr, batch.y, batch.weight, out)


class BernoulliLikelihood(CategoricalLikelihood):
    """Likelihood of binary columns, which are 1 if the value is above `threshold`."""

    def __init__(self, smoothing: Smoothing, columns: NDArray[np.intp] | None = None, *, threshold: Any = 0.0) -> None:
        super().__init__(smoothing, columns, minimum=2)
        # A float64 scalar, so that lower-precision values are compared without rounding the threshold.
        self.threshold = np.float64(0.0 if threshold is None else threshold)

    def positions(self, X: Any) -> NDArray[np.float32]:
        """Return 1.0 for values above the threshold, 0.0 for others and NaN for missing values."""
        X = self.select(X)
        X = X if isinstance(X, np.ndarray) else X.toarray()
        positions = np.greater(X, self.threshold).astype(np.float32)
        if X.dtype.kind == "f":
            positions[np.isnan(X)] = np.nan
        return positions

    def count(self, batch: Batch) -> None:
        """Set the counts of values above the threshold and others; raise ValueError for sparse rows if it is < 0."""
        if not any(batch.comm.allgather(batch.is_sparse)):
            super().count(batch)
            return
        if self.threshold < 0:
            raise ValueError(f"binarize must be at least 0 for a sparse X; got {float(self.threshold)!r}.")
        n_columns = self.n_columns(batch.X)

        def add(sums: Array) -> None:
            for block in batch.blocks():
                X = self.select(block.X)
                _add_csr_sums(X, np.isnan(X.data), block, sums[0])
                _add_csr_sums(X, X.data > self.threshold, block, sums[1])

        missing, yes = chain_sum(batch.comm, np.zeros((2, batch.n_classes, n_columns)), add)
        self.set_sums(yes, sums_by_class(batch.y, batch.weight, batch.n_classes, batch.comm)[:, None] - missing)

    def set_sums(self, sums: Array, known_weight: Array, names: list[str] | None = None) -> None:
        """Set the counts by class from the numbers of values above the threshold, `sums`, and of known values."""
        self.sizes = np.full(sums.shape[1], 2, dtype=np.int64)
        self.counts = np.stack([known_weight - sums, sums], axis=2).reshape(len(sums), -1)

    def add(self, other: Any) -> None:
        """Add the counts of another likelihood; raise ValueError if its threshold differs."""
        if other.threshold != self.threshold:
            raise ValueError(
                "binarize must be the same in all calls of partial_fit and in models that are merged; got "
                f"{float(self.threshold)!r} and {float(other.threshold)!r}."
            )
        super().add(other)

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Add log P(row i | class c) to `out[i, c]`; sparse rows stay sparse unless a probability is 0."""
        selected = self.select(X)
        if isinstance(selected, np.ndarray):
            super().add_log_likelihood(X, out, n_threads)
        elif np.isfinite(self.log_prob).all():
            self._add_sparse(selected, out)
        else:
            for first, block in dense_blocks(X):
                super().add_log_likelihood(block, out[first : first + len(block)], n_threads)

    def _add_sparse(self, X: Any, out: Array) -> None:
        """Add log P(row i | class c) of a CSR matrix to `out[i, c]`; all probabilities must be positive."""
        no, yes = self.log_prob[:, ::2].T, self.log_prob[:, 1::2].T
        is_yes = X.copy()
        is_yes.data = (X.data > self.threshold).astype(np.float64)
        out += no.sum(axis=0) + is_yes @ (yes - no)
        if np.isnan(X.data).any():
            is_missing = X.copy()
            is_missing.data = np.isnan(X.data).astype(np.float64)
            out -= is_missing @ no


class MultinomialLikelihood(DirichletLikelihood):
    """Multinomial likelihood of event counts."""

    def pseudo_counts(self) -> Array:
        """Return the pseudo-count of each event, shape (n_events,)."""
        pseudo = self.smoothing.of_groups(np.repeat(self.sizes, self.sizes), len(self.counts))
        return np.ascontiguousarray(pseudo)

    def count(self, batch: Batch) -> None:
        """Set the sums of each event by class; raise ValueError for negative or infinite counts."""
        total = np.zeros((batch.n_classes, self.n_columns(batch.X)))

        def add(sums: Array) -> None:
            for block in batch.blocks():
                X = self.select(block.X)
                self._check_counts(X, batch.names)
                for first, part in _float_blocks(X) if isinstance(X, np.ndarray) else ():
                    rows, n_threads = slice(first, first + len(part)), threads_for(part.size, batch.n_threads, GRAIN)
                    selected = block.select_rows(rows, part)
                    add_moments(part, selected.y, selected.weight, None, total, sums, n_threads)
                if not isinstance(X, np.ndarray):
                    _add_csr_sums(X, np.nan_to_num(X.data), block, sums)

        self.set_sums(chain_sum(batch.comm, np.zeros_like(total), add), total, batch.names)

    def set_sums(self, sums: Array, known_weight: Array, names: list[str] | None) -> None:
        """Set the counts of events by class; raise ValueError if they overflow. `known_weight` is not needed."""
        self.counts, self.sizes = sums, np.array([sums.shape[1]], dtype=np.int64)
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(self.counts.sum())
        if not is_finite:
            column = self.column_name(names, int(self.counts.max(axis=0).argmax()))
            raise ValueError(
                f"Columns of counts must have finite sums; column {column} has values that are too large. Scale it."
            )

    def _check_counts(self, X: Any, names: list[str] | None) -> None:
        """Raise ValueError if a table has negative or infinite values."""
        data = X if isinstance(X, np.ndarray) else X.data
        if not data.size or (np.nanmin(data, initial=0) >= 0 and not np.isinf(data).any()):
            return
        bad = X if isinstance(X, np.ndarray) else X.toarray()
        row, column = (int(indices[0]) for indices in np.nonzero((bad < 0) | np.isinf(bad)))
        raise ValueError(
            "Negative values in data passed to columns of counts, or infinite values: column "
            f"{self.column_name(names, column)} must hold finite numbers of at least 0; got {bad[row, column]}."
        )

    def add(self, other: MultinomialLikelihood) -> None:
        """Add the counts of events of another likelihood."""
        self.counts = self.counts + other.counts

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Add the sum of event counts times log probabilities of row i in class c to `out[i, c]`."""
        table = np.maximum(self.log_prob, IMPOSSIBLE).T
        for first, block in _filled_blocks(self.select(X)):
            scores = _clipped_product(block, table, n_threads)
            scores[scores < IMPOSSIBLE / 1e10] = -np.inf
            out[first : first + len(scores)] += scores

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if arrays read from a file are malformed, or their number of events is not `n_features`."""
        super().check(n_classes, n_features)
        if self.sizes.tolist() != [n_features]:
            raise ValueError("the numbers of events do not match the columns")


def _filled_blocks(X: Any) -> Any:
    """Yield pairs of a first row index and a block of floats, missing values set to 0; a CSR matrix is one block."""
    if isinstance(X, np.ndarray):
        for first, block in dense_blocks(X):
            numbers = block.astype(np.float64, copy=False)
            yield first, numbers if np.isfinite(numbers).all() else np.nan_to_num(numbers, nan=0.0)
        return
    if np.isnan(X.data).any():
        X = X.copy()
        X.data = np.nan_to_num(X.data, nan=0.0)
    yield 0, X


def _clipped_product(counts: Any, table: Array, n_threads: int) -> Array:
    """Return the matrix product of counts and a table, with infinities clipped to finite numbers."""
    if isinstance(counts, np.ndarray):
        scores = np.zeros((len(counts), table.shape[1]))
        n_threads = threads_for(counts.size * table.shape[1], n_threads, GRAIN)
        add_products(np.ascontiguousarray(counts), np.ascontiguousarray(table), scores, n_threads)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = counts @ table
    return np.nan_to_num(scores, copy=False, nan=0.0, posinf=-IMPOSSIBLE, neginf=IMPOSSIBLE)


class ComplementLikelihood(MultinomialLikelihood):
    """Complement likelihood of event counts: each class is scored by all others (Rennie et al. 2003, section 3.1)."""

    tables = ("log_prob", "weights")

    def __init__(self, smoothing: Smoothing, columns: NDArray[np.intp] | None = None, *, norm: bool = False) -> None:
        super().__init__(smoothing, columns)
        self.norm = norm
        self.weights: Any = None

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Set the weights of the events by class from the counts in all other classes; `rng` is ignored."""
        others = self.counts.sum(axis=0) - self.counts
        shares = self.groups().estimate(np.maximum(others, 0), mode)
        self.log_prob = log(shares)
        finite = np.maximum(self.log_prob, IMPOSSIBLE)
        total = finite.sum(axis=1, keepdims=True)
        # If there is only one event, the total is 0, and the event carries no information.
        self.weights = np.divide(finite, total, out=np.zeros_like(finite), where=total < 0) if self.norm else -finite

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Add the score of row i in class c, which is not a log probability, to `out[i, c]`."""
        for first, block in _filled_blocks(self.select(X)):
            scores = _clipped_product(block, self.weights.T, n_threads)
            out[first : first + len(scores)] += scores

    def log_evidence(self) -> None:
        """Return None: complement scores have no evidence."""
        return

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the weights read from a file are malformed."""
        super().check(n_classes, n_features)
        if self.weights.shape != self.counts.shape or not np.isfinite(self.weights).all():
            raise ValueError("the weights are malformed")


class GaussianLikelihood(Likelihood):
    """Gaussian likelihood with a mean and a variance for each class and column."""

    statistics = ("weight", "mean", "squares")
    tables = ("theta", "var")

    def __init__(self, var_smoothing: float, columns: NDArray[np.intp] | None = None) -> None:
        super().__init__(columns)
        self.var_smoothing = var_smoothing
        self.weight: Any = None
        self.mean: Any = None
        self.squares: Any = None
        self.theta: Any = None
        self.var: Any = None

    def count(self, batch: Batch) -> None:
        """Set the moments of each column by class; raise ValueError if a variance is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._count_blocks(batch)
            variances = self._pooled_moments()[1]
        if not np.isfinite(variances).all():
            column = self.column_name(batch.names, int(np.argmin(np.isfinite(variances))))
            raise ValueError(f"Column {column} must have a finite variance; its values are too large. Scale it.")

    def _count_blocks(self, batch: Batch) -> None:
        """Set the moments from sums over fixed blocks of rows, so that they do not depend on how the table is read."""
        block_rows = max(1, min(_MOMENT_ROWS, _MOMENT_VALUES // max(1, batch.X.shape[1])))
        parts: list[GaussianLikelihood] = []
        for block in batch.equal_blocks(block_rows):
            parts.append(GaussianLikelihood(self.var_smoothing, self.columns))
            parts[-1]._count_block(block)

        def add(sums: Array) -> None:
            self.weight, self.mean, self.squares = sums
            for part in parts:
                self.add(part)
            sums[...] = self.weight, self.mean, self.squares

        sums = chain_sum(batch.comm, np.zeros((3, batch.n_classes, self.n_columns(batch.X))), add)
        self.weight, self.mean, self.squares = sums

    def _count_block(self, batch: Batch) -> None:
        """Set the moments by class from one block of dense rows."""
        X = _as_floats(self.select(batch.X))
        self._check_finite(X, batch.names)
        self.weight, total, self.squares = np.zeros((3, batch.n_classes, X.shape[1]))
        n_threads = threads_for(X.size, batch.n_threads, GRAIN)
        add_moments(X, batch.y, batch.weight, None, self.weight, total, n_threads)
        self.mean = total / np.where(self.weight > 0, self.weight, 1)
        add_moments(X, batch.y, batch.weight, self.mean, self.weight, self.squares, n_threads)

    def _check_finite(self, X: NDArray[Any], names: list[str] | None) -> None:
        """Raise ValueError, naming a column, if the block has infinite values."""
        if np.isinf(X).any():
            column = int(np.nonzero(np.isinf(X))[1][0])
            raise ValueError(
                f"Input X contains infinity: column {self.column_name(names, column)} must hold finite numbers."
            )

    def add(self, other: GaussianLikelihood) -> None:
        """Merge the moments of another likelihood into this one (Chan, Golub & LeVeque 1979, eq. 2.1)."""
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros(weight.shape), where=weight > 0)
        gap = other.mean - self.mean
        self.squares = self.squares + other.squares + gap * gap * self.weight * share
        self.mean = self.mean + gap * share
        self.weight = weight

    def _pooled_moments(self) -> tuple[Array, Array]:
        """Return the mean and the variance of each column over all classes."""
        # Mean and variance of each column over all classes.
        weight = self.weight.sum(axis=0)
        weight = np.where(weight > 0, weight, 1)
        mean = (self.weight * self.mean).sum(axis=0) / weight
        squares = self.squares.sum(axis=0) + (self.weight * (self.mean - mean) ** 2).sum(axis=0)
        return mean, squares / weight

    @property
    def epsilon(self) -> float:
        """Value added to all variances."""
        return min(float(self.var_smoothing) * float(self._pooled_moments()[1].max(initial=0)), _MAX_VARIANCE)

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Set means and variances by class: maximum likelihood for every `mode`, or a posterior draw by `rng`."""
        pooled_mean, pooled_var = self._pooled_moments()
        is_known = self.weight > 0
        mean = np.where(is_known, self.mean, pooled_mean)
        var = np.where(is_known, self.squares / np.where(is_known, self.weight, 1), pooled_var)
        if rng is not None:
            freedom = np.maximum(self.weight - 1, 0)
            chi2 = 2 * rng.standard_gamma(freedom / 2)
            var = np.divide(self.squares, chi2, out=var.copy(), where=chi2 > 0)
            mean = mean + rng.standard_normal(mean.shape) * np.sqrt(var / np.maximum(self.weight, 1))
        self.theta = mean
        self.var = np.maximum(np.minimum(var, _MAX_VARIANCE) + self.epsilon, np.finfo(np.float64).tiny)

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Add the log density of the known values of row i in class c to `out[i, c]`."""
        table = np.stack([self.theta.T, 0.5 / self.var.T, -0.5 * log(2 * np.pi * self.var.T)], axis=1)
        for first, block in _float_blocks(X):
            selected = _as_floats(self.select(block))
            work = selected.size * out.shape[1]
            rows = out[first : first + len(selected)]
            add_gaussian(selected, np.ascontiguousarray(table), rows, threads_for(work, n_threads, GRAIN))

    def n_parameters(self) -> int:
        """Return the number of free parameters, a mean and a variance for each column and class."""
        return 2 * self.weight.size

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the moments read from a file are malformed."""
        arrays = (self.weight, self.mean, self.squares, self.theta, self.var)
        if any(array.shape != (n_classes, n_features) or not np.isfinite(array).all() for array in arrays):
            raise ValueError("the moments are malformed")
        if (self.weight < 0).any() or (self.squares < 0).any() or not (self.var > 0).all():
            raise ValueError("the moments are malformed")
