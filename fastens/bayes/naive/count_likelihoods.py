"""Likelihoods of binary columns, counts and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.dirichlet import Smoothing
from fastens.bayes.naive.likelihoods import (
    Array,
    Batch,
    CategoricalLikelihood,
    DirichletLikelihood,
    Likelihood,
    sums_by_class,
)
from fastens.bayes.naive.moments import add_gaussian, add_moments, add_products, add_sparse_sums
from fastens.engine.comm import in_turn
from fastens.engine.elementary import log
from fastens.engine.parts import dense_blocks
from fastens.engine.threads import threads_for
from fastens.table.columns.numbers import FLOATS

GRAIN = 100_000  # values
# Most rows, and values, whose moments are taken at a time.
_MOMENT_ROWS = 1 << 14
_MOMENT_VALUES = 1 << 22
# Twice as much, times 2 pi, is finite.
_MOST_VARIANCE = float(np.finfo(np.float64).max) / 16
IMPOSSIBLE = -1e300  # a log probability of minus infinity that zero times it is zero


def _as_floats(X: NDArray[Any]) -> NDArray[Any]:
    return X if X.dtype in FLOATS else X.astype(np.float64)


def _float_blocks(X: Any) -> Iterable[tuple[int, NDArray[Any]]]:
    """An array of floats as it is, and blocks of another table: no copy of the whole is made."""
    return [(0, X)] if isinstance(X, np.ndarray) and X.dtype in FLOATS else dense_blocks(X)


def _add_sums(X: Any, data: Array, batch: Batch, out: Array) -> None:
    """Add sums by class and column of `data`, which takes the place of the entries of the CSR matrix X."""
    if data.size:
        indptr = X.indptr.astype(X.indices.dtype, copy=False)
        add_sparse_sums(data.astype(np.float64, copy=False), X.indices, indptr, batch.y, batch.weight, out)


class BernoulliLikelihood(CategoricalLikelihood):
    """Binary columns: whether the value is above `threshold`."""

    def __init__(self, smoothing: Smoothing, columns: NDArray[np.intp] | None = None, *, threshold: Any = 0.0) -> None:
        super().__init__(smoothing, columns, minimum=2)
        # A double: floats of less precision are compared with it as they are.
        self.threshold = np.float64(0.0 if threshold is None else threshold)

    def positions(self, X: Any) -> NDArray[np.float32]:
        """See CategoricalLikelihood: 0 for no, 1 for yes."""
        X = self.select(X)
        X = X if isinstance(X, np.ndarray) else X.toarray()
        positions = np.greater(X, self.threshold).astype(np.float32)
        if X.dtype.kind == "f":
            positions[np.isnan(X)] = np.nan
        return positions

    def count(self, batch: Batch) -> None:
        if not any(batch.comm.gather(batch.is_sparse)):
            super().count(batch)
            return
        if self.threshold < 0:
            raise ValueError(f"binarize must be at least 0 for a sparse X; got {float(self.threshold)!r}.")
        n_columns = self.n_columns(batch.X)

        def add(sums: Array) -> None:
            for block in batch.blocks():
                X = self.select(block.X)
                _add_sums(X, np.isnan(X.data), block, sums[0])
                _add_sums(X, X.data > self.threshold, block, sums[1])

        missing, yes = in_turn(batch.comm, np.zeros((2, batch.n_classes, n_columns)), add)
        self.take_sums(yes, sums_by_class(batch.y, batch.weight, batch.n_classes, batch.comm)[:, None] - missing)

    def take_sums(self, sums: Array, n_known: Array, names: list[str] | None = None) -> None:
        """See Likelihood: the sums are those of rows whose value is above the threshold."""
        self.sizes = np.full(sums.shape[1], 2, dtype=np.int64)
        self.counts = np.stack([n_known - sums, sums], axis=2).reshape(len(sums), -1)

    def add(self, other: Any) -> None:
        if other.threshold != self.threshold:
            raise ValueError(
                f"binarize must be the same for all rows, of partial_fit and in both models that are merged; got "
                f"{float(self.threshold)!r} and {float(other.threshold)!r}."
            )
        super().add(other)

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        selected = self.select(X)
        if isinstance(selected, np.ndarray):
            super().add_log_likelihood(X, out, n_threads)
        elif np.isfinite(self.log_prob).all():
            self._add_sparse(selected, out)
        else:
            for first, block in dense_blocks(X):
                super().add_log_likelihood(block, out[first : first + len(block)], n_threads)

    def _add_sparse(self, X: Any, out: Array) -> None:
        no, yes = self.log_prob[:, ::2].T, self.log_prob[:, 1::2].T
        is_yes = X.copy()
        is_yes.data = (X.data > self.threshold).astype(np.float64)
        out += no.sum(axis=0) + is_yes @ (yes - no)
        if np.isnan(X.data).any():
            is_missing = X.copy()
            is_missing.data = np.isnan(X.data).astype(np.float64)
            out -= is_missing @ no


class MultinomialLikelihood(DirichletLikelihood):
    """Counts of events, multinomial in each class."""

    def pseudo_of_cells(self) -> Array:
        """See DirichletLikelihood; an array of pseudo-counts has one for each event."""
        pseudo = self.smoothing.of_groups(np.repeat(self.sizes, self.sizes), len(self.counts))
        return np.ascontiguousarray(pseudo)

    def count(self, batch: Batch) -> None:
        total = np.zeros((batch.n_classes, self.n_columns(batch.X)))

        def add(sums: Array) -> None:
            for block in batch.blocks():
                X = self.select(block.X)
                self._refuse(X, batch.names)
                for first, part in _float_blocks(X) if isinstance(X, np.ndarray) else ():
                    rows, n_threads = slice(first, first + len(part)), threads_for(part.size, batch.n_threads, GRAIN)
                    taken = block.taken(rows, part)
                    add_moments(part, taken.y, taken.weight, None, total, sums, n_threads)
                if not isinstance(X, np.ndarray):
                    _add_sums(X, np.nan_to_num(X.data), block, sums)

        self.take_sums(in_turn(batch.comm, np.zeros_like(total), add), total, batch.names)

    def take_sums(self, sums: Array, n_known: Array, names: list[str] | None) -> None:
        """See Likelihood."""
        self.counts, self.sizes = sums, np.array([sums.shape[1]], dtype=np.int64)
        with np.errstate(over="ignore"):
            is_finite = np.isfinite(self.counts.sum())
        if not is_finite:
            column = self.column_name(names, int(self.counts.max(axis=0).argmax()))
            raise ValueError(f"Columns of counts must have finite sums; column {column} is too large: scale it.")

    def _refuse(self, X: Any, names: list[str] | None) -> None:
        data = X if isinstance(X, np.ndarray) else X.data
        if not data.size or (np.nanmin(data, initial=0) >= 0 and not np.isinf(data).any()):
            return
        bad = X if isinstance(X, np.ndarray) else X.toarray()
        row, column = (int(found[0]) for found in np.nonzero((bad < 0) | np.isinf(bad)))
        raise ValueError(
            f"Negative values in data passed to columns of counts, or infinite ones: column "
            f"{self.column_name(names, column)} must hold finite numbers of at least 0; got {bad[row, column]}."
        )

    def add(self, other: MultinomialLikelihood) -> None:
        self.counts = self.counts + other.counts

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        table = np.maximum(self.log_prob, IMPOSSIBLE).T
        for first, block in _filled_blocks(self.select(X)):
            scores = _finite_scores(block, table, n_threads)
            scores[scores < IMPOSSIBLE / 1e10] = -np.inf
            out[first : first + len(scores)] += scores

    def check(self, n_classes: int, n_features: int) -> None:
        super().check(n_classes, n_features)
        if self.sizes.tolist() != [n_features]:
            raise ValueError("the numbers of events do not fit the columns")


def _filled_blocks(X: Any) -> Any:
    """Blocks of rows as floats, missing values as 0; a CSR matrix is one block."""
    if isinstance(X, np.ndarray):
        for first, block in dense_blocks(X):
            known = block.astype(np.float64, copy=False)
            yield first, known if np.isfinite(known).all() else np.nan_to_num(known, nan=0.0)
        return
    if np.isnan(X.data).any():
        X = X.copy()
        X.data = np.nan_to_num(X.data, nan=0.0)
    yield 0, X


def _finite_scores(counts: Any, table: Array, n_threads: int) -> Array:
    """Counts times a table; infinite scores of several classes would have no difference."""
    if isinstance(counts, np.ndarray):
        scores = np.zeros((len(counts), table.shape[1]))
        n_threads = threads_for(counts.size * table.shape[1], n_threads, GRAIN)
        add_products(np.ascontiguousarray(counts), np.ascontiguousarray(table), scores, n_threads)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            scores = counts @ table
    return np.nan_to_num(scores, copy=False, nan=0.0, posinf=-IMPOSSIBLE, neginf=IMPOSSIBLE)


class ComplementLikelihood(MultinomialLikelihood):
    """Counts of events, each class scored by the rows of all others (Rennie et al. 2003, section 3.1)."""

    tables = ("log_prob", "weights")

    def __init__(self, smoothing: Smoothing, columns: NDArray[np.intp] | None = None, *, norm: bool = False) -> None:
        super().__init__(smoothing, columns)
        self.norm = norm
        self.weights: Any = None

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        others = self.counts.sum(axis=0) - self.counts
        shares = self.groups().estimate(np.maximum(others, 0), mode)
        self.log_prob = log(shares)
        finite = np.maximum(self.log_prob, IMPOSSIBLE)
        total = finite.sum(axis=1, keepdims=True)
        # A single event carries no information.
        self.weights = np.divide(finite, total, out=np.zeros_like(finite), where=total < 0) if self.norm else -finite

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """See Likelihood; these scores are no log probabilities of rows."""
        for first, block in _filled_blocks(self.select(X)):
            scores = _finite_scores(block, self.weights.T, n_threads)
            out[first : first + len(scores)] += scores

    def log_evidence(self) -> None:
        return

    def check(self, n_classes: int, n_features: int) -> None:
        super().check(n_classes, n_features)
        if self.weights.shape != self.counts.shape or not np.isfinite(self.weights).all():
            raise ValueError("the weights are malformed")


class GaussianLikelihood(Likelihood):
    """Each column is normal in every class, with a mean and a variance of its own."""

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
        with np.errstate(over="ignore", invalid="ignore"):
            self._count_blocks(batch)
            variances = self._pooled()[1]
        if not np.isfinite(variances).all():
            column = self.column_name(batch.names, int(np.argmin(np.isfinite(variances))))
            raise ValueError(f"Column {column} must have a finite variance; its numbers are too large: scale it.")

    def _count_blocks(self, batch: Batch) -> None:
        """Add up the moments of blocks of rows that begin at the same rows however the table is read."""
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

        sums = in_turn(batch.comm, np.zeros((3, batch.n_classes, self.n_columns(batch.X))), add)
        self.weight, self.mean, self.squares = sums

    def _count_block(self, batch: Batch) -> None:
        X = _as_floats(self.select(batch.X))
        self._refuse_infinity(X, batch.names)
        self.weight, total, self.squares = np.zeros((3, batch.n_classes, X.shape[1]))
        n_threads = threads_for(X.size, batch.n_threads, GRAIN)
        add_moments(X, batch.y, batch.weight, None, self.weight, total, n_threads)
        self.mean = total / np.where(self.weight > 0, self.weight, 1)
        add_moments(X, batch.y, batch.weight, self.mean, self.weight, self.squares, n_threads)

    def _refuse_infinity(self, X: NDArray[Any], names: list[str] | None) -> None:
        if np.isinf(X).any():
            column = int(np.nonzero(np.isinf(X))[1][0])
            raise ValueError(
                f"Input X contains infinity: column {self.column_name(names, column)} must hold finite numbers."
            )

    def add(self, other: GaussianLikelihood) -> None:
        """See Likelihood: means and squares as in Chan, Golub & LeVeque (1979), eq. 2.1."""
        weight = self.weight + other.weight
        share = np.divide(other.weight, weight, out=np.zeros(weight.shape), where=weight > 0)
        gap = other.mean - self.mean
        self.squares = self.squares + other.squares + gap * gap * self.weight * share
        self.mean = self.mean + gap * share
        self.weight = weight

    def _pooled(self) -> tuple[Array, Array]:
        # Mean and variance of each column over all classes.
        weight = self.weight.sum(axis=0)
        weight = np.where(weight > 0, weight, 1)
        mean = (self.weight * self.mean).sum(axis=0) / weight
        squares = self.squares.sum(axis=0) + (self.weight * (self.mean - mean) ** 2).sum(axis=0)
        return mean, squares / weight

    @property
    def epsilon(self) -> float:
        """What every variance is made larger by."""
        return min(float(self.var_smoothing) * float(self._pooled()[1].max(initial=0)), _MOST_VARIANCE)

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """See Likelihood: the maximum likelihood in every mode; draws are under the prior 1 / variance."""
        pooled_mean, pooled_var = self._pooled()
        is_known = self.weight > 0
        mean = np.where(is_known, self.mean, pooled_mean)
        var = np.where(is_known, self.squares / np.where(is_known, self.weight, 1), pooled_var)
        if rng is not None:
            freedom = np.maximum(self.weight - 1, 0)
            chi2 = 2 * rng.standard_gamma(freedom / 2)
            var = np.divide(self.squares, chi2, out=var.copy(), where=chi2 > 0)
            mean = mean + rng.standard_normal(mean.shape) * np.sqrt(var / np.maximum(self.weight, 1))
        self.theta = mean
        self.var = np.maximum(np.minimum(var, _MOST_VARIANCE) + self.epsilon, np.finfo(np.float64).tiny)

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        table = np.stack([self.theta.T, 0.5 / self.var.T, -0.5 * log(2 * np.pi * self.var.T)], axis=1)
        for first, block in _float_blocks(X):
            selected = _as_floats(self.select(block))
            work = selected.size * out.shape[1]
            rows = out[first : first + len(selected)]
            add_gaussian(selected, np.ascontiguousarray(table), rows, threads_for(work, n_threads, GRAIN))

    def n_parameters(self) -> int:
        return 2 * self.weight.size

    def check(self, n_classes: int, n_features: int) -> None:
        arrays = (self.weight, self.mean, self.squares, self.theta, self.var)
        if any(array.shape != (n_classes, n_features) or not np.isfinite(array).all() for array in arrays):
            raise ValueError("the moments are malformed")
        if (self.weight < 0).any() or (self.squares < 0).any() or not (self.var > 0).all():
            raise ValueError("the moments are malformed")
