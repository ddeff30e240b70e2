"""Likelihoods from the counts of every two columns; that of trees, in which a column depends on one other column."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.chow_liu import ROOT, class_information, maximum_spanning_tree, mutual_information
from fastens.bayes.counts.column_bins import Limits, as_floats
from fastens.bayes.counts.counting import check_pairs, encode_all, offsets_of, pair_counts, without_missing
from fastens.bayes.counts.dirichlet import Groups, Smoothing
from fastens.bayes.naive.dependence import add_families
from fastens.bayes.naive.likelihoods import GRAIN, Array, Batch, CellLikelihood
from fastens.engine.bins.binning import Binning
from fastens.engine.elementary import log
from fastens.engine.threads import threads_for
from fastens.table.at_sight import AtSight


class PairLikelihood(CellLikelihood):
    """Counts of the categories of every two columns; columns of numbers have bins, at `limits`, as categories."""

    statistics: ClassVar[tuple[str, ...]] = ("counts",)
    tables: ClassVar[tuple[str, ...]] = ()

    def __init__(self, smoothing: Smoothing, limits: Limits, sizes: NDArray[np.int64], unseen: str = "ignore") -> None:
        super().__init__(smoothing)
        self.limits = limits
        self.sizes = sizes
        self.unseen = unseen

    def codes(self, X: Any, n_threads: int = 1) -> NDArray[Any]:
        # One category more than there are: numbers have no code for it, but every column room.
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
        check_pairs(self.sizes + 1, batch.n_classes)
        is_known = not isinstance(batch.X, AtSight) or batch.X.is_known
        codes = [self._codes_of(block, is_known=is_known) for block in batch.blocks()]
        self._count_codes(codes[0] if len(codes) == 1 else np.concatenate(codes, axis=1), batch)

    def _codes_of(self, block: Batch, *, is_known: bool) -> NDArray[Any]:
        if is_known:
            return self.codes(block.X, block.n_threads)
        found = encode_all(block.X, block.n_threads)  # categories alone, of which some may be new
        self.sizes = np.maximum(self.sizes, found.largest + 1)
        return found.codes

    def _count_codes(self, codes: NDArray[Any], batch: Batch) -> None:
        counts = pair_counts(batch.coded(codes), self.sizes + 1, batch.n_classes)
        self.counts = without_missing(counts, self.sizes + 1)

    def _move_cells(self, sources: NDArray[np.intp], targets: NDArray[np.intp], n_cells: int) -> None:
        counts = np.zeros((len(self.counts), n_cells, n_cells), dtype=self.counts.dtype)
        counts[:, targets[:, None], targets] = self.counts[:, sources[:, None], sources]
        self.counts = counts

    def singles(self) -> NDArray[Any]:
        """Counts by class and category."""
        return np.diagonal(self.counts, axis1=1, axis2=2)

    def check(self, n_classes: int, n_features: int) -> None:
        counts, n_cells = self.counts, self.sizes.sum()
        if counts.shape != (n_classes, n_cells, n_cells) or not np.isfinite(counts).all() or (counts < 0).any():
            raise ValueError("the counts are malformed")


class TreeLikelihood(PairLikelihood):
    """Each column depends on the class and its parent in a tree of all columns (Friedman, Geiger & Goldszmidt 1997).

    Where the parent is missing, or of a category never seen, the column depends on the class alone.
    """

    tables: ClassVar[tuple[str, ...]] = ("parents", "log_prob")

    def __init__(self, *arguments: Any, root: int | None = None) -> None:
        super().__init__(*arguments)
        self.root = root
        self.parents: Any = None

    def estimate(self, mode: str, rng: np.random.Generator | None = None) -> None:
        """See Likelihood: the tree is the same in every mode."""
        self.parents = self._learn_tree()
        blocks = [self._family_table(column, mode, rng) for column in range(len(self.sizes))]
        self.log_prob = np.concatenate([np.zeros((0, len(self.counts))), *blocks])

    def _learn_tree(self) -> NDArray[np.int64]:
        information = mutual_information(self.counts, self.sizes)
        root = self.root
        if root is None:
            root = int(class_information(self.singles(), self.sizes).argmax())
        return maximum_spanning_tree(information, root)

    def _family_table(self, column: int, mode: str, rng: np.random.Generator | None) -> Array:
        """Log probabilities of a column by the codes of its parent, its own codes, and the class."""
        n_classes, size = len(self.counts), int(self.sizes[column])
        cells = self._cells(column)
        n_parent = self._parent_sizes()[column]
        table = np.zeros((n_classes, n_parent + 2 * (self.parents[column] >= 0) or 1, size + 2))
        table[:, :, 1:] = self._estimated(self.singles()[:, cells], column, n_classes, mode, rng)[:, None]
        if n_parent:
            known = self._estimated(self._family_counts(column), column, n_classes * n_parent, mode, rng)
            table[:, 1:-1, 1:] = known.reshape(n_classes, n_parent, size + 1)
        return table.reshape(n_classes, -1).T

    def _estimated(
        self, counts: Array, column: int, n_groups: int, mode: str, rng: np.random.Generator | None
    ) -> Array:
        """Log probabilities of a column's categories, and of one never seen, in each row of counts."""
        groups = self._groups_of(column, n_groups)
        known = groups.estimate(counts, mode) if rng is None else groups.draw(counts, rng)
        unseen = groups.unseen(counts, mode) if self.unseen == "smooth" else np.ones((len(counts), 1))
        return log(np.hstack([known, unseen]))

    def _groups_of(self, column: int, n_groups: int) -> Groups:
        pseudo = self.smoothing.of_groups(self.sizes, n_groups)[column]
        return Groups(self.sizes[column : column + 1], np.full(self.sizes[column], pseudo))

    def _cells(self, column: int) -> slice:
        return slice(*offsets_of(self.sizes)[column : column + 2])

    def _parent_sizes(self) -> NDArray[np.int64]:
        """Categories of each column's parent; 0 for the root."""
        return np.where(self.parents == ROOT, 0, self.sizes[self.parents])

    def _family_counts(self, column: int) -> NDArray[Any]:
        """Counts by class and category of the parent, and category of the column."""
        counts = self.counts[:, self._cells(int(self.parents[column])), self._cells(column)]
        return counts.reshape(counts.shape[0] * counts.shape[1], counts.shape[2])

    def add_log_likelihood(self, X: Any, out: Array, n_threads: int) -> None:
        codes = self.codes(X, n_threads)
        n_threads = threads_for(codes.size * out.shape[1], n_threads, GRAIN)
        add_families(codes, self.parents, self.sizes + 2, self._starts(), self.log_prob, out, n_threads)

    def _starts(self) -> NDArray[np.int64]:
        heights = np.where(self.parents == ROOT, 1, self.sizes[self.parents] + 2)
        return offsets_of(heights * (self.sizes + 2))

    def n_parameters(self) -> int:
        per_group = len(self.counts) * np.maximum(self.sizes - 1, 0)
        return int((per_group * np.maximum(self._parent_sizes(), 1)).sum())

    def log_evidence(self) -> float | None:
        """See Likelihood: of the tree, over the rows in which the column and its parent are known."""
        total = 0.0
        for column, parent in enumerate(self.parents.tolist()):
            counts = self.singles()[:, self._cells(column)] if parent == ROOT else self._family_counts(column)
            groups = self._groups_of(column, max(len(counts), 1))
            if (groups.pseudo <= 0).any():
                return None
            total += float(groups.log_evidence(counts).sum())
        return total

    def check(self, n_classes: int, n_features: int) -> None:
        super().check(n_classes, n_features)
        parents, log_prob = self.parents, self.log_prob
        if parents.dtype != np.int64 or parents.shape != (n_features,):
            raise ValueError("the tree is malformed")
        if (parents < ROOT).any() or (parents >= n_features).any():
            raise ValueError("the tree is malformed")
        if log_prob.shape != (self._starts()[-1], n_classes) or not (log_prob <= 0).all():
            raise ValueError("the log probabilities are malformed")
