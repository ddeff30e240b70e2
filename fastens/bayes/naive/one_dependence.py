"""Naive Bayes with one or two parents per column: trees (TAN) and averages over parents (AODE, A2DE)."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.bayes.counts.attributes import (
    Limits,
    as_floats,
    learn_limits,
    limits_from_arrays,
    limits_to_arrays,
    sizes_of,
)
from fastens.bayes.counts.counting import Counts, LabelledCodes, check_pairs, offsets_of, pair_counts, without_missing
from fastens.bayes.counts.counts import count_cells
from fastens.bayes.counts.dirichlet import (
    ROOT,
    SMOOTHING_RULES,
    Groups,
    Smoothing,
    class_information,
    maximum_spanning_tree,
    mutual_information,
)
from fastens.bayes.naive.base_naive_bayes import UNSEEN, PosteriorNaiveBayes, SmoothingParameters, make_smoothing
from fastens.bayes.naive.likelihoods import GRAIN, Array, Batch, CellLikelihood, Likelihood, add_columns
from fastens.bayes.naive.mixed import CategoryInput
from fastens.bayes.naive.moments import add_families, average_parents
from fastens.engine.bins.binning import Binning
from fastens.engine.comm import counted
from fastens.engine.elementary import log
from fastens.engine.threads import resolve_n_jobs, threads_for
from fastens.modelfile.saving import Saved, SavedParts
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, NONE, instance, parameter, real, whole
from fastens.params.types import ColumnChoice
from fastens.table.tables import column_positions
from fastens.table.training_data import WEIGHT_TYPE


class PairLikelihood(CellLikelihood):
    """Likelihood with counts for all pairs of columns; numeric columns are binned at `limits`."""

    statistics: ClassVar[tuple[str, ...]] = ("counts",)
    tables: ClassVar[tuple[str, ...]] = ()

    def __init__(self, smoothing: Smoothing, limits: Limits, sizes: NDArray[np.int64], unseen: str = "ignore") -> None:
        super().__init__(smoothing)
        self.limits = limits
        self.sizes = sizes
        self.unseen = unseen

    def codes(self, X: Any, n_threads: int = 1) -> NDArray[Any]:
        """Return the codes of a table, shape (n_columns, n_rows).

        0 is a missing value, k + 1 is category or bin k, and one more than their number is an unseen category.
        """
        # Categorical columns have one extra code for unseen categories; numeric columns never use theirs.
        categories = [
            np.arange(1, size + 2, dtype=np.uint16) if limits is None else None
            for limits, size in zip(self.limits, self.sizes.tolist(), strict=True)
        ]
        limits = [np.zeros(0) if limits is None else limits for limits in self.limits]
        binning = Binning(limits, categories)
        codes = binning.codes(as_floats(X), n_threads)
        if self.unseen != "ignore":
            for index in np.flatnonzero(binning.is_categorical):
                codes[index, X[:, index] < 0] = self.sizes[index] + 1
        return codes

    def count(self, batch: Batch) -> None:
        """Set the counts of all pairs of columns by class; raise ValueError if they would need too much memory."""
        check_pairs(self.sizes + 1, batch.n_classes)
        codes = [self.codes(block.X, block.n_threads) for block in batch.blocks()]
        self._count_codes(codes[0] if len(codes) == 1 else np.concatenate(codes, axis=1), batch)

    def _count_codes(self, codes: NDArray[Any], batch: Batch) -> None:
        """Set the counts of pairs from codes, (n_columns, n_rows), and the labels and weights of `batch`."""
        counts = pair_counts(batch.label_codes(codes), self.sizes + 1, batch.n_classes)
        self.counts = without_missing(counts, self.sizes + 1)

    def _move_cells(self, sources: NDArray[np.intp], targets: NDArray[np.intp], n_cells: int) -> None:
        """Move the cells `sources` to the positions `targets` on both axes of a new table of `n_cells` x `n_cells`."""
        counts = np.zeros((len(self.counts), n_cells, n_cells), dtype=self.counts.dtype)
        counts[:, targets[:, None], targets] = self.counts[:, sources[:, None], sources]
        self.counts = counts

    def column_counts(self) -> NDArray[Any]:
        """Return the counts of the categories of all columns by class, shape (n_classes, n_cells)."""
        return np.diagonal(self.counts, axis1=1, axis2=2)

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the counts read from a file are malformed."""
        counts, n_cells = self.counts, self.sizes.sum()
        if counts.shape != (n_classes, n_cells, n_cells) or not np.isfinite(counts).all() or (counts < 0).any():
            raise ValueError("the counts are malformed")


class TreeLikelihood(PairLikelihood):
    """Likelihood of columns that depend on the class and a parent in a tree (Friedman, Geiger & Goldszmidt 1997).

    If the value of the parent is missing or an unseen category, the column depends only on the class.
    """

    tables: ClassVar[tuple[str, ...]] = ("parents", "log_prob")

    def __init__(self, *arguments: Any, root: int | None = None) -> None:
        super().__init__(*arguments)
        self.root = root
        self.parents: Any = None

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Learn the tree and set the log probabilities: an estimate by `mode`, or a posterior draw by `rng`."""
        self.parents = self._learn_tree()
        blocks = [self._family_table(column, mode, rng) for column in range(len(self.sizes))]
        self.log_prob = np.concatenate([np.zeros((0, len(self.counts))), *blocks])

    def _learn_tree(self) -> NDArray[np.int64]:
        """Return the parent of each column in the tree of maximum conditional mutual information, -1 for the root."""
        information = mutual_information(self.counts, self.sizes)
        root = self.root
        if root is None:
            root = int(class_information(self.column_counts(), self.sizes).argmax())
        return maximum_spanning_tree(information, root)

    def _family_table(self, column: int, mode: str, rng: np.random.Generator | None) -> Array:
        """Return log probabilities for each pair of codes of the parent and of the column, (n_pairs, n_classes).

        They are estimated by `mode`, or drawn from the posterior if `rng` is passed. The code of the column varies
        fastest. A column without a parent has one row for each code.
        """
        n_classes, size = len(self.counts), int(self.sizes[column])
        cells = self._cells(column)
        n_parent_values = self._parent_sizes()[column]
        table = np.zeros((n_classes, n_parent_values + 2 * (self.parents[column] >= 0) or 1, size + 2))
        table[:, :, 1:] = self._log_probabilities(self.column_counts()[:, cells], column, n_classes, mode, rng)[:, None]
        if n_parent_values:
            estimated = self._log_probabilities(
                self._family_counts(column), column, n_classes * n_parent_values, mode, rng
            )
            table[:, 1:-1, 1:] = estimated.reshape(n_classes, n_parent_values, size + 1)
        return table.reshape(n_classes, -1).T

    def _log_probabilities(
        self, counts: Array, column: int, n_groups: int, mode: str, rng: np.random.Generator | None
    ) -> Array:
        """Return the log probabilities of a column's categories and of an unseen one, (n_rows, n_categories + 1).

        `counts` has one row for each of the distributions. `n_groups` is their number, which some kinds of smoothing
        use. They are estimated by `mode`, or drawn from the posterior if `rng` is passed.
        """
        groups = self._column_groups(column, n_groups)
        seen = groups.estimate(counts, mode) if rng is None else groups.draw(counts, rng)
        unseen = groups.unseen(counts, mode) if self.unseen == "smooth" else np.ones((len(counts), 1))
        return log(np.hstack([seen, unseen]))

    def _column_groups(self, column: int, n_groups: int) -> Groups:
        """Return the Dirichlet prior of the categories of one column.

        `n_groups` is the number of distributions of the column, between which smoothing="bdeu" divides its
        pseudo-counts.
        """
        pseudo = self.smoothing.of_groups(self.sizes, n_groups)[column]
        return Groups(self.sizes[column : column + 1], np.full(self.sizes[column], pseudo))

    def _cells(self, column: int) -> slice:
        """Return the slice of the categories of a column among the categories of all columns."""
        return slice(*offsets_of(self.sizes)[column : column + 2])

    def _parent_sizes(self) -> NDArray[np.int64]:
        """Return the number of categories of the parent of each column, 0 for the root."""
        return np.where(self.parents == ROOT, 0, self.sizes[self.parents])

    def _family_counts(self, column: int) -> NDArray[Any]:
        """Return a column's counts by class, parent category and category, the first two on one axis."""
        counts = self.counts[:, self._cells(int(self.parents[column])), self._cells(column)]
        return counts.reshape(counts.shape[0] * counts.shape[1], counts.shape[2])

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Add log P(columns of row i | class c), a product along the tree, to `out[i, c]`."""
        codes = self.codes(X, n_threads)
        n_threads = threads_for(codes.size * out.shape[1], n_threads, GRAIN)
        add_families(codes, self.parents, self.sizes + 2, self._table_offsets(), self.log_prob, out, n_threads)

    def _table_offsets(self) -> NDArray[np.int64]:
        """Return the index of the first row of each column in `log_prob`, followed by the total number of rows."""
        heights = np.where(self.parents == ROOT, 1, self.sizes[self.parents] + 2)
        return offsets_of(heights * (self.sizes + 2))

    def n_parameters(self) -> int:
        """Return the number of free parameters: categories minus one for each class and parent category."""
        per_group = len(self.counts) * np.maximum(self.sizes - 1, 0)
        return int((per_group * np.maximum(self._parent_sizes(), 1)).sum())

    def log_evidence(self) -> float | None:
        """Return the log evidence of the counts given the tree, or None if a pseudo-count is 0.

        Each column counts the rows in which the column and its parent in the tree are known.
        """
        total = 0.0
        for column, parent in enumerate(self.parents.tolist()):
            counts = self.column_counts()[:, self._cells(column)] if parent == ROOT else self._family_counts(column)
            groups = self._column_groups(column, max(len(counts), 1))
            if (groups.pseudo <= 0).any():
                return None
            total += float(groups.log_evidence(counts).sum())
        return total

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the counts, the tree or the log probabilities read from a file are malformed."""
        super().check(n_classes, n_features)
        parents, log_prob = self.parents, self.log_prob
        if parents.dtype != np.int64 or parents.shape != (n_features,):
            raise ValueError("the tree is malformed")
        if (parents < ROOT).any() or (parents >= n_features).any():
            raise ValueError("the tree is malformed")
        if log_prob.shape != (self._table_offsets()[-1], n_classes) or not (log_prob <= 0).all():
            raise ValueError("the log probabilities are malformed")


MAX_TRIPLES = 1 << 28  # limit on the cells of pairs of columns times the cells of columns: 2 GiB
LARGEST = 3  # number of columns that an error message names


class Pair(NamedTuple):
    """Pair of columns and the position of the block of their counts with later columns."""

    one: int
    other: int
    cells: slice


class TripleLayout:
    """Layout of triple counts: consecutive blocks for the pairs of columns i < j.

    A cell is a category of a column. The rows of a block are pairs of cells of i and j, where j varies fastest. The
    columns of a block are the cells of all columns after j.
    """

    def __init__(self, sizes: NDArray[np.int64]) -> None:
        self.sizes = sizes
        self.offsets = offsets_of(sizes)
        columns = list(combinations(range(len(sizes)), 2))
        heights = [int(sizes[one] * sizes[other]) for one, other in columns]
        starts = offsets_of(np.array([h * self.width(j) for h, (_, j) in zip(heights, columns, strict=True)], np.int64))
        self.pairs = [
            Pair(*both, slice(*cells)) for both, cells in zip(columns, pairwise(starts.tolist()), strict=True)
        ]
        self._pairs_of = {pair[:2]: pair for pair in self.pairs}
        self.heights = np.array(heights, dtype=np.int64)
        self.n_cells = int(starts[-1])

    def width(self, column: int) -> int:
        """Return the number of cells of all columns after `column`."""
        return int(self.offsets[-1] - self.offsets[column + 1])

    def block(self, counts: Counts, pair: Pair) -> Counts:
        """Return the block of a pair: counts of its categories with each category of the columns after both.

        The shape is (n_classes, categories of `one`, categories of `other`, cells of the columns after both).
        """
        one, other = self.sizes[pair.one], self.sizes[pair.other]
        return counts[:, pair.cells].reshape(len(counts), one, other, self.width(pair.other))

    def expand_pair(self, counts: Counts, pair: Pair) -> Counts:
        """Return the counts of a pair with the cells of all columns, with zeros for the two columns themselves.

        `counts` has all triple counts. The shape is (n_classes, cells of the pair, cells of all columns).
        """
        one, other, _ = pair
        shape = len(counts), self.sizes[one], self.sizes[other], self.offsets[-1]
        out: Any = np.zeros(shape, dtype=counts.dtype)
        out[..., self.offsets[other + 1] :] = self.block(counts, pair)
        for third in range(other):
            if third != one:
                first = self._pairs_of[min(third, one), max(third, one)]
                part = self.block(counts, first)[..., self._slice_after(first.other, other)]
                axes = (0, 2, 3, 1) if third < one else (0, 1, 3, 2)
                out[..., self.offsets[third] : self.offsets[third + 1]] = part.transpose(axes)
        return out.reshape(len(counts), -1, self.offsets[-1])

    def _slice_after(self, column: int, later: int) -> slice:
        """Return the slice of the cells of column `later` among the cells of all columns after `column`."""
        start = self.offsets[column + 1]
        return slice(self.offsets[later] - start, self.offsets[later + 1] - start)

    def move_categories(self, counts: Counts, new_positions: list[NDArray[np.intp]], wider: TripleLayout) -> Counts:
        """Return counts in the layout `wider`; category k of column j moves to position `new_positions[j][k]`."""
        out: Any = np.zeros((len(counts), wider.n_cells), dtype=counts.dtype)
        for old, new in zip(self.pairs, wider.pairs, strict=True):
            start = wider.offsets[old.other + 1]
            later = [targets + wider.offsets[j] - start for j, targets in enumerate(new_positions) if j > old.other]
            columns = np.concatenate([np.zeros(0, dtype=np.intp), *later])
            target = np.ix_(np.arange(len(counts)), new_positions[old.one], new_positions[old.other], columns)
            wider.block(out, new)[target] = self.block(counts, old)
        return out


def triple_counts(rows: LabelledCodes, sizes: NDArray[np.int64], n_classes: int) -> Counts:
    """Count rows, or sum their weights, by class and the categories of all triples of columns with known values.

    In contrast to `class_counts`, `sizes` are numbers of categories, and cells are in the order of `TripleLayout`.
    """
    layout = TripleLayout(sizes)

    def add(sums: Counts) -> None:
        if rows.codes.size and sums.size:
            pairs = np.array([(pair.one, pair.other, pair.cells.start) for pair in layout.pairs], dtype=np.int64)
            n_threads = threads_for(rows.codes.size * len(rows.codes) ** 2 / 6, rows.n_threads, GRAIN)
            count_cells(rows.codes, rows.y, rows.weights, layout.offsets, pairs, sums, 3, n_threads)

    out = np.zeros((n_classes, layout.n_cells), dtype=np.int64 if rows.weights is None else np.float64)
    counts: Counts = counted(rows.comm, out, add)
    return counts


def check_triples(sizes: NDArray[np.int64], n_classes: int, names: list[str] | None) -> None:
    """Raise ValueError, naming the largest columns, if probabilities given pairs would use too much memory."""
    n_cells, squares = int(sizes.sum()), int((sizes**2).sum())
    n_triples = n_classes * (n_cells**2 - squares) // 2 * n_cells
    if n_triples > MAX_TRIPLES:
        largest = np.argsort(-sizes, kind="stable")[:LARGEST].tolist()
        top = ", ".join(f"{names[column] if names else column!r} ({sizes[column]})" for column in largest)
        raise ValueError(
            f"order must be 1 for more than {MAX_TRIPLES} probabilities, (categories of all pairs of columns) "
            f"x (categories of all columns) x classes; got {n_triples}. Set order=1, lower max_bins, merge "
            f"rare categories or leave out columns; the columns with the most categories are {top}."
        )


# Rows that a thread scores at a time. Models with two parents read a larger part of the table, so more rows share it.
SINGLE_ROWS, PAIR_ROWS = 256, 4096


class Average(NamedTuple):
    """Models to average, in the form that `fastens.bayes.naive.moments.average_parents` expects."""

    models: NDArray[np.int64]
    row_of_codes: NDArray[np.int64]
    table: Array
    n_rows: int  # rows that are scored at a time

    def write_average(
        self, codes: NDArray[Any], offsets: NDArray[np.int64], out: Array, n_threads: int
    ) -> NDArray[np.intp]:
        """Write the log of the mean probability over the models that apply to each row to `out`, (n_rows, n_classes).

        `codes` has the shape (n_columns, n_rows), and `offsets` the first code of each column among all codes. Rows to
        which no model applies are left unchanged, and their indices are returned.
        """
        if not len(self.table):
            return np.arange(len(out))
        n_threads = threads_for(codes.size * len(self.models) * out.shape[1], n_threads, GRAIN)
        averaged, totals = np.full(out.shape, -np.inf), np.zeros(out.shape)
        n_parents = np.zeros(len(out), dtype=np.int32)
        scores = np.empty((n_threads, self.n_rows * out.shape[1]))
        table_rows = np.empty((n_threads, self.n_rows), dtype=np.int64)
        tables = self.models, self.row_of_codes, self.table
        average_parents(codes, offsets, *tables, averaged, totals, n_parents, scores, table_rows)
        applies = n_parents > 0
        out[applies] = averaged[applies] - log(n_parents[applies])[:, None]
        return np.flatnonzero(~applies)


class OneDependenceLikelihood(PairLikelihood):
    """Average of the models in which one column is the parent of all others (Webb, Boughton & Wang 2005).

    A column is a parent for a row if its value occurred in at least `min_count` training rows. Rows without parents
    have the probability of naive Bayes.
    """

    def __init__(self, *arguments: Any, min_count: float = 1.0) -> None:
        super().__init__(*arguments)
        self.min_count = min_count

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Set the tables to posterior means; `mode` and `rng` are ignored."""
        column_counts, offsets = self.column_counts(), offsets_of(self.sizes + 2)
        self.by_class = self._log_table(self.groups(), column_counts[:, None])[0]
        chosen = np.flatnonzero(column_counts.sum(axis=0) >= self.min_count)
        cells = self._known_cells()[chosen]
        table = self._log_table(Groups(self.sizes, self._pseudo_by_parent()[chosen]), self.counts[:, chosen])
        table[np.arange(len(cells)), cells] = self._log_joint(column_counts, self.sizes, self.smoothing.alpha)[chosen]
        table_rows = np.full(offsets[-1], -1, dtype=np.int64)
        table_rows[cells] = np.arange(len(cells))
        columns = np.arange(len(self.sizes))
        models = np.column_stack([columns, np.full_like(columns, -1), offsets[:-1], np.ones_like(columns)])
        self.by_one = Average(models, table_rows, table, SINGLE_ROWS)

    def _known_cells(self) -> NDArray[np.int64]:
        """Return the positions of the categories among the codes of all columns, shape (n_cells,).

        Each column also has a code for missing values, the first, and a code for unseen categories, the last.
        """
        return np.arange(self.sizes.sum()) + np.repeat(2 * np.arange(len(self.sizes)) + 1, self.sizes)

    def _log_table(self, groups: Groups, counts: NDArray[Any]) -> Array:
        """Return log probabilities given the parents, shape (n_parent_values, n_codes of all columns, n_classes).

        `groups` is the Dirichlet prior of the cells of each column, and `counts` has the shape (n_classes,
        n_parent_values, n_cells). Codes of missing values have zeros.
        """
        offsets, cells = offsets_of(self.sizes + 2), self._known_cells()
        table = np.zeros((counts.shape[1], offsets[-1], len(counts)))
        for index, of_class in enumerate(counts):
            table[:, cells, index] = log(groups.estimate(of_class, "bayes"))
            if self.unseen == "smooth":
                table[:, offsets[1:] - 1, index] = log(groups.unseen(of_class, "bayes"))
        return table

    def _log_joint(self, counts: NDArray[Any], sizes: NDArray[np.int64], alpha: Any) -> Array:
        """Return log P(class, parent values), shape (n_cells, n_classes), from their counts, (n_classes, n_cells).

        `sizes` holds the number of joint values of each set of parents, and `alpha` their pseudo-counts.
        """
        size = np.repeat(sizes, sizes) * len(counts)
        pseudo = np.repeat(replace(self.smoothing, alpha=alpha).of_groups(len(counts) * sizes, 1), sizes)
        groups = Groups(sizes, pseudo)
        total = groups.spread(groups.sums(counts).sum(axis=0)) + pseudo * size
        return log(
            np.divide(counts + pseudo, total, out=np.zeros(counts.shape), where=total > 0)
        ).T  # the value is the first axis, as in the tables

    def _pseudo_by_parent(self) -> Array:
        """Return the pseudo-count of each cell for each parent category, shape (n_cells, n_cells)."""
        by_parent = [self._pseudo_counts_of_cells(max(size, 1)) for size in self.sizes.tolist()]
        return np.repeat(by_parent, self.sizes, axis=0)

    def _pseudo_counts_of_cells(self, n_values: int) -> Array:
        """Return the pseudo-count of each cell if the parents have `n_values` joint values, shape (n_cells,)."""
        return np.repeat(self.smoothing.of_groups(self.sizes, len(self.counts) * n_values), self.sizes)

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """Replace `out[i, c]`, the log prior of class c, by the averaged log P(row i, class c)."""
        self._write_average(self.codes(X, n_threads), out, n_threads)

    def _write_average(self, codes: NDArray[Any], out: Array, n_threads: int) -> None:
        """Replace the log priors in `out` by averaged log joint probabilities, (n_rows, n_classes).

        Rows without a parent add the log probabilities of naive Bayes to their priors instead.
        """
        rows_without_parents = self.by_one.write_average(codes, offsets_of(self.sizes + 2), out, n_threads)
        if rows_without_parents.size:
            plain = np.ascontiguousarray(out[rows_without_parents])
            add_columns(
                np.ascontiguousarray(codes[:, rows_without_parents]), self.sizes + 2, self.by_class, plain, n_threads
            )
            out[rows_without_parents] = plain

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the counts read from a file are malformed; compute the tables."""
        super().check(n_classes, n_features)
        self.estimate("bayes")


class TwoDependenceLikelihood(OneDependenceLikelihood):
    """Average of the models in which two columns are the parents of all others (Webb et al. 2012).

    Two columns are parents for a row if their values occurred together in at least `min_count` training rows. Rows
    without such a pair use the average over single parents.
    """

    statistics: ClassVar[tuple[str, ...]] = ("counts", "triples")

    def count(self, batch: Batch) -> None:
        """Set the counts of pairs and triples from a batch; raise ValueError if they would need too much memory."""
        check_triples(self.sizes, batch.n_classes, batch.names)
        super().count(batch)

    def _count_codes(self, codes: NDArray[Any], batch: Batch) -> None:
        """Set the counts of pairs and triples from codes, (n_columns, n_rows), and the labels of `batch`."""
        check_triples(self.sizes, batch.n_classes, batch.names)  # sizes are final only after counting codes
        super()._count_codes(codes, batch)
        self.triples = triple_counts(batch.label_codes(codes), self.sizes, batch.n_classes)

    def add(self, other: Any) -> None:
        """Add the counts of another likelihood; raise ValueError if it has no counts of triples."""
        if not isinstance(other, TwoDependenceLikelihood):
            raise ValueError(
                "order must be 2 in every call of partial_fit and in models that are merged; some rows were "
                "counted with order=1."
            )
        super().add(other)
        self.triples = self.triples + other.triples

    def expand_categories(
        self, sizes: NDArray[np.int64], new_positions: dict[int, NDArray[np.intp]] | None = None
    ) -> None:
        """Expand the counts of pairs and triples to `sizes[j]` categories of each column j.

        The categories of column j move to the positions `new_positions[j]`, or keep their positions if j has none.
        """
        old, targets = self.sizes, self._new_positions(new_positions)
        super().expand_categories(sizes, new_positions)
        if self.sizes is not old:
            self.triples = TripleLayout(old).move_categories(self.triples, targets, TripleLayout(sizes))

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """Set the tables of one and of two parents to posterior means; `mode` and `rng` are ignored."""
        super().estimate(mode, rng)
        layout = TripleLayout(self.sizes)
        cells = [self._pair_cells(pair.one, pair.other) for pair in layout.pairs]
        counts = np.concatenate([self.counts[:, :0, 0], *(self.counts[:, one, other] for one, other in cells)], axis=1)
        joint = self._log_joint(counts, layout.heights, self._alpha_of_pairs(layout))
        is_parent = counts.sum(axis=0) >= self.min_count
        table = np.empty((int(is_parent.sum()), int((self.sizes + 2).sum()), len(counts)))
        padded = np.array([(self.sizes[pair.one] + 2) * (self.sizes[pair.other] + 2) for pair in layout.pairs])
        starts, firsts = offsets_of(padded.astype(np.int64)), offsets_of(layout.heights)
        table_rows = np.full(starts[-1], -1, dtype=np.int64)
        models = np.zeros((len(layout.pairs), 4), dtype=np.int64)
        known_cells, n_filled = self._known_cells(), 0
        for index, (pair, (one, other)) in enumerate(zip(layout.pairs, cells, strict=True)):
            chosen = np.flatnonzero(is_parent[firsts[index] : firsts[index + 1]])
            groups = Groups(self.sizes, self._pseudo_counts_of_cells(max(int(layout.heights[index]), 1)))
            part = self._log_table(groups, layout.expand_pair(self.triples, pair)[:, chosen])
            rows = np.arange(len(chosen))
            part[rows, known_cells[one[chosen]]] = joint[firsts[index] + chosen]
            part[rows, known_cells[other[chosen]]] = 0
            table[n_filled : n_filled + len(chosen)] = part
            width = self.sizes[pair.other] + 2
            models[index] = pair.one, pair.other, starts[index], width
            codes = np.divmod(chosen, self.sizes[pair.other])
            table_rows[starts[index] + (codes[0] + 1) * width + codes[1] + 1] = n_filled + rows
            n_filled += len(chosen)
        self.by_two = Average(models, table_rows, table, PAIR_ROWS)

    def _pair_cells(self, one: int, other: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the cell of `one` and the cell of `other` for each combination of their categories, in two arrays.

        A cell is an index among the categories of all columns; `other` varies fastest.
        """
        offsets = offsets_of(self.sizes)
        first, second = np.indices((self.sizes[one], self.sizes[other]))
        return offsets[one] + first.ravel(), offsets[other] + second.ravel()

    def _alpha_of_pairs(self, layout: TripleLayout) -> Any:
        """Return the `alpha` of each pair of columns, which is the mean of `alpha` of both columns."""
        alpha = np.broadcast_to(np.asarray(self.smoothing.alpha, dtype=np.float64), self.sizes.shape)
        return np.array([(alpha[pair.one] + alpha[pair.other]) / 2 for pair in layout.pairs])

    def _write_average(self, codes: NDArray[Any], out: Array, n_threads: int) -> None:
        """Replace the log priors in `out` by log joint probabilities, averaged over pairs of parents.

        Rows without such a pair use the average over single parents.
        """
        remaining_rows = self.by_two.write_average(codes, offsets_of(self.sizes + 2), out, n_threads)
        if remaining_rows.size:
            plain = np.ascontiguousarray(out[remaining_rows])
            super()._write_average(np.ascontiguousarray(codes[:, remaining_rows]), plain, n_threads)
            out[remaining_rows] = plain

    def check(self, n_classes: int, n_features: int) -> None:
        """Raise ValueError if the counts read from a file are malformed; compute the tables."""
        triples = self.triples
        if triples.shape != (n_classes, TripleLayout(self.sizes).n_cells):
            raise ValueError("the counts of triples are malformed")
        if not np.isfinite(triples).all() or (triples < 0).any():
            raise ValueError("the counts of triples are malformed")
        super().check(n_classes, n_features)


MAX_BINS = whole(1, 65_000)


class _PairModel(CategoryInput):
    """Base class of the models on pair counts; numeric columns are binned at edges learned from the first rows."""

    _poor_score = True
    _compares_weights = True
    max_bins: int
    _limits: Limits

    def _accepts_plain_numbers(self) -> bool:
        """Return True if no column is selected as categorical, so that numeric arrays need no encoding."""
        chosen = self.categorical_features
        return chosen is None or (isinstance(chosen, str) and chosen == "from_dtype")

    def _count_first_rows(self, data: TrainingData) -> list[Likelihood]:
        """Learn the bin edges of the numeric columns from the first rows, and return the counted likelihoods."""
        is_categorical = self._encoder.is_categorical
        if not is_categorical.all():
            data = data._replace(X=as_floats(data.X))
        n_threads = resolve_n_jobs(self.n_jobs)
        self._limits = learn_limits(data.X, data.sample_weight, self.max_bins, is_categorical, n_threads, data.comm)
        return self._count(data)

    def _make_likelihoods(self) -> list[Likelihood]:
        """Return the likelihood of all columns, without counts, in a list."""
        sizes = sizes_of(self._encoder.categories, self._limits)
        return [self._make_likelihood(make_smoothing(self), self._limits, sizes, self.unseen)]

    def _make_likelihood(self, *arguments: Any) -> PairLikelihood:
        """Return the likelihood of the model from (smoothing, bin limits, sizes, unseen)."""
        raise NotImplementedError

    @property
    def n_categories_(self) -> NDArray[np.int64]:
        """Number of categories, or bins, of each column."""
        return self._likelihood.sizes

    @property
    def bin_limits_(self) -> Limits:
        """Upper bin edges of each column except the last edge; None for categorical columns."""
        self._check_fitted()
        return self._limits

    def _check_mergeable(self, other: Any) -> None:
        """Raise ValueError unless the other model has the same columns and bin edges."""
        super()._check_mergeable(other)
        pairs = zip(self._limits, other._limits, strict=True)
        if not all(one is None or np.array_equal(one, another) for one, another in pairs):
            raise ValueError(
                "other must have the same bins for numerical columns. Fit one model, and call "
                "its partial_fit on the other rows."
            )

    def _restore_limits(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the bin edges from the arrays of a model file."""
        self._limits = limits_from_arrays(arrays, self._encoder.is_categorical)

    _saved: ClassVar[SavedParts] = (Saved(lambda model: limits_to_arrays(model._limits), _restore_limits),)


@with_parameters
class TANClassifier(SmoothingParameters, _PairModel, PosteriorNaiveBayes):
    """Tree-augmented naive Bayes (TAN): each column depends on the class and on one parent column in a tree.

    The maximum likelihood tree is a maximum spanning tree of the conditional mutual information between columns given
    the class. `predict_proba` uses the posterior means of the probabilities. Missing values are skipped during both fit
    and prediction: if the value of the parent is missing, the column depends only on the class.

    The statistics are sums over rows, so `partial_fit` and `merge` are equivalent to a single fit to all rows, except
    that bin edges of numeric columns are learned only from the first rows.

    Parameters
    ----------
    {parameters}
    root : int, str or None, default=None
        Index or name of the root column, which depends only on the class. If None, the column with the highest mutual
        information with the class is used.

    Attributes
    ----------
    {attributes}
    log_evidence_ : float
        Log probability of the columns given the classes and the tree, with the parameters integrated out. Each column
        contributes the rows in which both it and its parent are known.

    Raises
    ------
    ValueError
        If a parameter or the data is invalid, or the number of pair counts, (categories of all columns)^2 x classes,
        exceeds 2^28. The message names the cause.

    References
    ----------
    Friedman, Geiger & Goldszmidt (1997), "Bayesian network classifiers", Machine Learning 29, section 4.

    Examples
    --------
    >>> from fastens import TANClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> model = TANClassifier().fit(X, ["same", "same", "other", "other"] * 5)
    >>> model.predict([["b", "b"], ["b", "a"]]).tolist()
    ['same', 'other']
    >>> model.parents_.tolist()
    [-1, 0]
    """

    max_bins: int = parameter(MAX_BINS, default=8)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    unseen: str = parameter(UNSEEN, default="ignore")
    root: int | str | None = parameter(NONE | whole(0) | instance(str, "the name of a column"), default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")

    def _make_likelihood(self, *arguments: Any) -> PairLikelihood:
        """Return a tree likelihood from (smoothing, bin limits, sizes, unseen)."""
        return TreeLikelihood(*arguments, root=self._root_index())

    def _root_index(self) -> int | None:
        """Return the index of the column that `root` names, or None if `root` is None; raise ValueError if unknown."""
        if self.root is None:
            return None
        names = self._encoder.names
        try:
            return column_positions("root", [self.root], names, self.n_features_in_)[0]
        except ValueError:
            available = f"are {names}" if names else f"have the indices 0 to {self.n_features_in_ - 1}"
            raise ValueError(f"root must be a column of X; got {self.root!r}, and the columns {available}.") from None

    @property
    def parents_(self) -> NDArray[np.int64]:
        """Index of the parent column of each column, -1 for the root."""
        return self._likelihood.parents


@with_parameters
class AODEClassifier(_PairModel):
    """Averaged one-dependence estimators (AODE): naive Bayes models in which one column is a parent of all others.

    P(class, row) is the mean over columns i of P(class, x_i) prod_j P(x_j | class, x_i). The variance is low because
    there is no model selection. With `order` 2 (A2DE), it is the mean over pairs of columns i, j of
    P(class, x_i, x_j) prod_k P(x_k | class, x_i, x_j). Missing values are skipped during both fit and prediction.

    The statistics are sums over rows, so `partial_fit` and `merge` are equivalent to a single fit to all rows, except
    that bin edges of numeric columns are learned only from the first rows.

    Parameters
    ----------
    {parameters}
    order : {1, 2}, default=1
        Number of parent columns in each model. 2 has a lower bias, which helps on large tables; time and memory grow
        by a factor of about half the number of columns.
    min_count : float, default=1.0
        Minimum number (or weight) of training rows for a parent. A column, or pair of columns, is used as a parent for
        a row only if its values occurred in at least this many training rows. Rows without a parent pair use the
        average over single columns; rows without any parent are classified by naive Bayes. Webb, Boughton & Wang use
        30.
    smoothing : {"laplace", "m", "kt", "bdeu", "none"}, default="laplace"
        Pseudo-counts of the Dirichlet priors. For each of the r categories of a column, given the class and one of the
        q parent categories, "laplace" uses `alpha`, "m" uses `m` / r, "kt" uses 1/2, "bdeu" uses
        `ess` / (r q n_classes) and "none" uses 0. For each of the q n_classes joint values of class and parents,
        "laplace" uses `alpha` (the mean of both values for two parents), "m" uses `m` / (q n_classes), "kt" uses 1/2,
        "bdeu" uses `ess` / (q n_classes) and "none" uses 0.

    Attributes
    ----------
    {attributes}

    Raises
    ------
    ValueError
        If a parameter or the data is invalid, or the number of pair counts, (categories of all columns)^2 x classes,
        exceeds 2^28. With `order` 2, also if the number of probabilities, (categories of all pairs of columns) x
        (categories of all columns) x classes, exceeds 2^28. The message names the cause.

    References
    ----------
    Webb, Boughton & Wang (2005), "Not so naive Bayes: aggregating one-dependence estimators", Machine
    Learning 58, section 3; Webb, Boughton, Zheng, Ting & Salem (2012), "Learning by extrapolation from marginal to
    full-multivariate probability distributions: decreasingly naive Bayesian classification", Machine Learning 86,
    for order 2.

    Examples
    --------
    >>> from fastens import AODEClassifier
    >>> X = [["a", "a"], ["b", "b"], ["a", "b"], ["b", "a"]] * 5
    >>> model = AODEClassifier().fit(X, ["same", "same", "other", "other"] * 5)
    >>> model.predict([["b", "b"], ["b", "a"]]).tolist()
    ['same', 'other']
    """

    order: int = parameter(whole(1, 2), default=1)
    min_count: float = parameter(real(0), default=1.0)
    alpha: ArrayLike = parameter(SMOOTHING_RULES["alpha"], default=1.0)
    smoothing: str = parameter(SMOOTHING_RULES["smoothing"], default="laplace")
    m: float = parameter(SMOOTHING_RULES["m"], default=1.0)
    ess: float = parameter(SMOOTHING_RULES["ess"], default=1.0)
    max_bins: int = parameter(MAX_BINS, default=8)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    unseen: str = parameter(UNSEEN, default="ignore")
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    n_jobs: int | None = parameter(ANYTHING, default=None)

    def _prior_parameters(self) -> tuple[bool, Any]:
        """Return (True, None): the rows always determine the class priors."""
        return True, None

    def _make_likelihood(self, *arguments: Any) -> PairLikelihood:
        """Return a likelihood of `order` parents from (smoothing, bin limits, sizes, unseen)."""
        kind = OneDependenceLikelihood if self.order == 1 else TwoDependenceLikelihood
        return kind(*arguments, min_count=self.min_count)
