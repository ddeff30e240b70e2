"""Likelihoods that are averages of models in which one column, or two, are parents of all others (AODE, A2DE)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.codes import add_entries
from fastens.bayes.counts.counting import offsets_of
from fastens.bayes.counts.dirichlet import Groups
from fastens.bayes.naive.dependence import average_parents
from fastens.bayes.naive.likelihoods import GRAIN, Array, Batch
from fastens.bayes.naive.pair_likelihoods import PairLikelihood
from fastens.bayes.naive.triples import TripleLayout, check_triples, triple_counts
from fastens.engine.elementary import log
from fastens.engine.threads import threads_for

# Rows that a thread scores at a time. A model of two parents has a larger part of the table, which more rows must use.
SINGLE_ROWS, PAIR_ROWS = 256, 4096


class Average(NamedTuple):
    """Models, as `fastens.bayes.naive.dependence.average_parents` has them."""

    models: NDArray[np.int64]
    place: NDArray[np.int64]
    table: Array
    n_rows: int  # to score at a time

    def write(self, codes: NDArray[Any], offsets: NDArray[np.int64], out: Array, n_threads: int) -> NDArray[np.intp]:
        """Write the log of the models' mean to `out`; return the rows that no model applies to, which stay."""
        if not len(self.table):
            return np.arange(len(out))
        n_threads = threads_for(codes.size * len(self.models) * out.shape[1], n_threads, GRAIN)
        averaged, totals = np.full(out.shape, -np.inf), np.zeros(out.shape)
        n_parents = np.zeros(len(out), dtype=np.int32)
        scores = np.empty((n_threads, self.n_rows * out.shape[1]))
        places = np.empty((n_threads, self.n_rows), dtype=np.int64)
        given = self.models, self.place, self.table
        average_parents(codes, offsets, *given, averaged, totals, n_parents, scores, places)
        applies = n_parents > 0
        out[applies] = averaged[applies] - log(n_parents[applies])[:, None]
        return np.flatnonzero(~applies)


class OneDependenceLikelihood(PairLikelihood):
    """The average of the models in which one column is the parent of all others (Webb, Boughton & Wang 2005).

    A row's parents are the columns whose value there came in at least `min_count` rows of `fit`. A row without any has
    the probability that naive Bayes gives it.
    """

    def __init__(self, *arguments: Any, min_count: float = 1.0) -> None:
        super().__init__(*arguments)
        self.min_count = min_count

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """See Likelihood: the posterior means, in every mode."""
        singles, offsets = self.singles(), offsets_of(self.sizes + 2)
        self.by_class = self._logs(self.groups(), singles[:, None])[0]
        chosen = np.flatnonzero(singles.sum(axis=0) >= self.min_count)
        known = self._known_cells()[chosen]
        table = self._logs(Groups(self.sizes, self._pseudo_of_pairs()[chosen]), self.counts[:, chosen])
        table[np.arange(len(known)), known] = self._log_joint(singles, self.sizes, self.smoothing.alpha)[chosen]
        place = np.full(offsets[-1], -1, dtype=np.int64)
        place[known] = np.arange(len(known))
        columns = np.arange(len(self.sizes))
        models = np.column_stack([columns, np.full_like(columns, -1), offsets[:-1], np.ones_like(columns)])
        self.by_one = Average(models, place, table, SINGLE_ROWS)

    def _known_cells(self) -> NDArray[np.int64]:
        """Where the categories are among the codes of all columns."""
        return np.arange(self.sizes.sum()) + np.repeat(2 * np.arange(len(self.sizes)) + 1, self.sizes)

    def _logs(self, groups: Groups, counts: NDArray[Any]) -> Array:
        """Log probabilities of all columns' codes, and classes, from counts by class, parents and cell."""
        offsets, known = offsets_of(self.sizes + 2), self._known_cells()
        table = np.zeros((counts.shape[1], offsets[-1], len(counts)))
        for index, found in enumerate(counts):
            table[:, known, index] = log(groups.estimate(found, "bayes"))
            if self.unseen == "smooth":
                table[:, offsets[1:] - 1, index] = log(groups.unseen(found, "bayes"))
        return table

    def _log_joint(self, counts: NDArray[Any], sizes: NDArray[np.int64], alpha: Any) -> Array:
        """Log P(class, value of the parents), by value and class, from counts of the values of each set of parents."""
        size = np.repeat(sizes, sizes) * len(counts)
        pseudo = np.repeat(replace(self.smoothing, alpha=alpha).of_groups(len(counts) * sizes, 1), sizes)
        groups = Groups(sizes, pseudo)
        total = groups.spread(groups.sums(counts).sum(axis=0)) + pseudo * size
        return log(
            np.divide(counts + pseudo, total, out=np.zeros(counts.shape), where=total > 0)
        ).T  # by value, as tables are

    def _pseudo_of_pairs(self) -> Array:
        """Pseudo-counts of the categories of a column, by category of the parent."""
        by_parent = [self._pseudo_given(max(size, 1)) for size in self.sizes.tolist()]
        return np.repeat(by_parent, self.sizes, axis=0)

    def _pseudo_given(self, n_values: int) -> Array:
        """Pseudo-counts of all cells, where the parents have so many values."""
        return np.repeat(self.smoothing.of_groups(self.sizes, len(self.counts) * n_values), self.sizes)

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        """See Likelihood. `out` comes with the prior of the classes, which only rows without parents need."""
        self._write_average(self.codes(X, n_threads), out, n_threads)

    def _write_average(self, codes: NDArray[Any], out: Array, n_threads: int) -> None:
        offsets = offsets_of(self.sizes + 2)
        orphans = self.by_one.write(codes, offsets, out, n_threads)
        if orphans.size:
            plain = np.ascontiguousarray(out[orphans])
            add_entries(np.ascontiguousarray(codes[:, orphans]), offsets, self.by_class, plain, n_threads)
            out[orphans] = plain

    def check(self, n_classes: int, n_features: int) -> None:
        super().check(n_classes, n_features)
        self.estimate("bayes")


class TwoDependenceLikelihood(OneDependenceLikelihood):
    """The average of the models in which two columns are parents of all others (Webb et al. 2012).

    Two columns are parents of a row where their values came together in at least `min_count` rows of `fit`. A row
    without any has the average over single parents.
    """

    statistics: ClassVar[tuple[str, ...]] = ("counts", "triples")

    def count(self, batch: Batch) -> None:
        check_triples(self.sizes, batch.n_classes, batch.names)
        super().count(batch)

    def _count_codes(self, codes: NDArray[Any], batch: Batch) -> None:
        check_triples(self.sizes, batch.n_classes, batch.names)  # known now, if not before
        super()._count_codes(codes, batch)
        self.triples = triple_counts(batch.coded(codes), self.sizes, batch.n_classes)

    def add(self, other: Any) -> None:
        if not isinstance(other, TwoDependenceLikelihood):
            raise ValueError(
                "order must be 2 from the first rows on, or in both models; some were counted with order 1."
            )
        super().add(other)
        self.triples = self.triples + other.triples

    def widen(self, sizes: NDArray[np.int64], places: dict[int, NDArray[np.intp]] | None = None) -> None:
        old, targets = self.sizes, self._targets(places)
        super().widen(sizes, places)
        if self.sizes is not old:
            self.triples = TripleLayout(old).moved(self.triples, targets, TripleLayout(sizes))

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        super().estimate(mode, rng)
        layout = TripleLayout(self.sizes)
        cells = [self._pair_cells(pair.one, pair.other) for pair in layout.pairs]
        counts = np.concatenate([self.counts[:, :0, 0], *(self.counts[:, one, other] for one, other in cells)], axis=1)
        joint = self._log_joint(counts, layout.heights, self._alpha_of_pairs(layout))
        is_parent = counts.sum(axis=0) >= self.min_count
        table = np.empty((int(is_parent.sum()), int((self.sizes + 2).sum()), len(counts)))
        padded = np.array([(self.sizes[pair.one] + 2) * (self.sizes[pair.other] + 2) for pair in layout.pairs])
        starts, firsts = offsets_of(padded.astype(np.int64)), offsets_of(layout.heights)
        place = np.full(starts[-1], -1, dtype=np.int64)
        models = np.zeros((len(layout.pairs), 4), dtype=np.int64)
        known, n_filled = self._known_cells(), 0
        for index, (pair, (one, other)) in enumerate(zip(layout.pairs, cells, strict=True)):
            chosen = np.flatnonzero(is_parent[firsts[index] : firsts[index + 1]])
            groups = Groups(self.sizes, self._pseudo_given(max(int(layout.heights[index]), 1)))
            part = self._logs(groups, layout.expanded(self.triples, pair)[:, chosen])
            rows = np.arange(len(chosen))
            part[rows, known[one[chosen]]] = joint[firsts[index] + chosen]
            part[rows, known[other[chosen]]] = 0
            table[n_filled : n_filled + len(chosen)] = part
            width = self.sizes[pair.other] + 2
            models[index] = pair.one, pair.other, starts[index], width
            codes = np.divmod(chosen, self.sizes[pair.other])
            place[starts[index] + (codes[0] + 1) * width + codes[1] + 1] = n_filled + rows
            n_filled += len(chosen)
        self.by_two = Average(models, place, table, PAIR_ROWS)

    def _pair_cells(self, one: int, other: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The cells of either column in each combination of their values."""
        offsets = offsets_of(self.sizes)
        first, second = np.indices((self.sizes[one], self.sizes[other]))
        return offsets[one] + first.ravel(), offsets[other] + second.ravel()

    def _alpha_of_pairs(self, layout: TripleLayout) -> Any:
        """That of a pair's values: the mean of the two columns'."""
        alpha = np.broadcast_to(np.asarray(self.smoothing.alpha, dtype=np.float64), self.sizes.shape)
        return np.array([(alpha[pair.one] + alpha[pair.other]) / 2 for pair in layout.pairs])

    def _write_average(self, codes: NDArray[Any], out: Array, n_threads: int) -> None:
        left = self.by_two.write(codes, offsets_of(self.sizes + 2), out, n_threads)
        if left.size:
            plain = np.ascontiguousarray(out[left])
            super()._write_average(np.ascontiguousarray(codes[:, left]), plain, n_threads)
            out[left] = plain

    def check(self, n_classes: int, n_features: int) -> None:
        triples = self.triples
        if triples.shape != (n_classes, TripleLayout(self.sizes).n_cells):
            raise ValueError("the counts of triples are malformed")
        if not np.isfinite(triples).all() or (triples < 0).any():
            raise ValueError("the counts of triples are malformed")
        super().check(n_classes, n_features)
