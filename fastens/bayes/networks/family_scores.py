"""How well a set of parents explains a variable: the local scores that structures are searched by, each found once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import offsets_of
from fastens.bayes.counts.families import Array, CodedRows, family_counts, n_cells
from fastens.engine.elementary import gammaln, log, xlogy

SCORES = ("bic", "aic", "bdeu", "k2")
DENSE_CELLS = 1 << 16  # larger tables are counted by the combinations that come
BATCH_CELLS = 1 << 22

Candidate = tuple[int, tuple[int, ...]]  # a variable and its parents, in ascending order
Addition = tuple[Candidate, int]  # one of the parents


class FamilyScores:
    """Local scores of families on coded rows, the larger the better; the score of a network is their sum.

    bic, aic: log likelihood less log(n) / 2, or 1, for each free parameter (Schwarz 1978; Akaike 1974). bdeu, k2: log
    evidence under Dirichlet priors with `ess` / (r q) or 1 for each of the r q cells (Heckerman, Geiger & Chickering
    1995, eq. 28; Cooper & Herskovits 1992, eq. 12).

    Where values are missing, a family's counts are those of the rows in which it is known. What a parent adds is judged
    on the rows in which the family with it is known: scores of other rows differ by chance, and by more than parents
    add. A parent that no row shows beside the variable adds -infinity: nothing speaks for it.
    """

    def __init__(self, rows: CodedRows, score: str = "bic", ess: float = 1.0) -> None:
        self.rows, self.sizes, self.n_rows = rows, rows.sizes, rows.n_copies()
        self._per_parameter = {"bic": 0.5 * log(max(self.n_rows, 1.0)), "aic": 1.0}.get(score)
        self._ess = ess if score == "bdeu" else None
        self._found: dict[Candidate, float] = {}
        self._added: dict[Addition, float] = {}
        self._is_complete = all(rows.comm.gather(bool(rows.codes.all())))

    def bound(self, candidate: Candidate) -> float:
        """No score of this family can be larger; infinite where values are missing."""
        if not self._is_complete:
            return np.inf
        if self._per_parameter is None:
            return 0.0
        child, parents = candidate
        return -self._per_parameter * n_cells(parents, self.sizes.tolist()) * (int(self.sizes[child]) - 1)

    def of(self, candidates: Iterable[Candidate]) -> list[float]:
        """The scores of families; those not seen before are counted together."""
        candidates = list(candidates)
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self._found]
        for batch, counts in self._counted(new):
            found, _ = self._of_counts(batch, counts)
            self._found.update(zip(batch, found.tolist(), strict=True))
        return [self._found[candidate] for candidate in candidates]

    def added(self, additions: Iterable[Addition]) -> list[float]:
        """What one of the parents of a family adds to its score, for each of some families and one of their parents."""
        additions = list(additions)
        if self._is_complete:
            scores = self.of(candidate for candidate, _ in additions)
            others = self.of(_without(*addition) for addition in additions)
            return [score - other for score, other in zip(scores, others, strict=True)]
        new = [addition for addition in dict.fromkeys(additions) if addition not in self._added]
        first = 0
        for batch, counts in self._counted([candidate for candidate, _ in new]):
            own = new[first : first + len(batch)]
            first += len(batch)
            fewer = [self._counts_without(*addition, table) for addition, table in zip(own, counts, strict=True)]
            found, n_known = self._of_counts(batch, counts)
            found -= self._of_counts([_without(*addition) for addition in own], fewer)[0]
            found[n_known == 0] = -np.inf
            self._added.update(zip(own, found.tolist(), strict=True))
        return [self._added[addition] for addition in additions]

    def _counted(self, candidates: list[Candidate]) -> Iterator[tuple[list[Candidate], list[NDArray[Any]]]]:
        """Families and their counts, in batches: tables with an axis for each variable, large ones by combinations."""
        sizes = self.sizes.tolist()
        batch: list[Candidate] = []
        waiting = 0
        for candidate in candidates:
            cells = n_cells(candidate[1], sizes) * sizes[candidate[0]]
            if batch and (cells > DENSE_CELLS or waiting + cells > BATCH_CELLS):
                yield batch, self._dense_counts(batch)
                batch, waiting = [], 0
            if cells > DENSE_CELLS:
                yield [candidate], [self._sparse_counts(candidate)]
            else:
                batch.append(candidate)
                waiting += cells
        if batch:
            yield batch, self._dense_counts(batch)

    def _dense_counts(self, batch: list[Candidate]) -> list[NDArray[Any]]:
        return list(family_counts(self.rows, [(*parents, child) for child, parents in batch]))

    def _counts_without(self, candidate: Candidate, parent: int, counts: NDArray[Any]) -> NDArray[Any]:
        """Counts of a family without one of its parents, in the rows in which that is known too."""
        if counts.ndim == len(candidate[1]) + 1:
            summed: NDArray[Any] = counts.sum(axis=candidate[1].index(parent))
            return summed
        return self._sparse_counts(_without(candidate, parent), parent)

    def _sparse_counts(self, candidate: Candidate, *known_too: int) -> Array:
        """Counts by the combinations of the parents' values that come, and the child's value."""
        child, parents = candidate
        self.rows = self.rows.of_all_ranks()  # combinations are numbered over all of them
        codes, weights = self.rows.codes, self.rows.weights
        known = (codes[[*parents, child, *known_too]] > 0).all(axis=0)
        if not known.any():
            return np.zeros((1, int(self.sizes[child])))
        combination = np.zeros(int(known.sum()), dtype=np.int64)
        for parent in parents:
            # Numbered anew after each parent: the product of all sizes need not fit an integer.
            keys = combination * self.sizes[parent] + codes[parent][known]
            combination = np.unique(keys, return_inverse=True)[1].ravel()
        n_combinations, size = int(combination.max()) + 1, int(self.sizes[child])
        weights = None if weights is None else weights[known]
        cells = combination * size + codes[child][known] - 1
        return np.bincount(cells, weights, minlength=n_combinations * size).reshape(-1, size).astype(np.float64)

    def _of_counts(self, batch: list[Candidate], counts: Sequence[NDArray[Any]]) -> tuple[Array, Array]:
        """The scores of families, and their rows, by their counts; combinations that never come may be left out."""
        sizes = self.sizes.tolist()
        n_values = self.sizes[[child for child, _ in batch]]
        n_combinations = np.array([n_cells(parents, sizes) for _, parents in batch], dtype=np.float64)
        n_rows = np.array([found.size for found in counts]) // n_values  # of the tables given
        flat = np.concatenate([found.ravel() for found in counts]).astype(np.float64)
        cells, rows = offsets_of(n_rows * n_values)[:-1], offsets_of(n_rows)[:-1]
        total = np.add.reduceat(flat, cells)
        of_parents = np.add.reduceat(flat, offsets_of(np.repeat(n_values, n_rows))[:-1])
        if self._per_parameter is not None:
            found = np.add.reduceat(xlogy(flat, flat), cells) - np.add.reduceat(xlogy(of_parents, of_parents), rows)
            found -= self._per_parameter * n_combinations * (n_values - 1)
        else:
            pseudo = np.ones(len(batch)) if self._ess is None else self._ess / (n_values * n_combinations)
            of_cells, of_rows = np.repeat(pseudo, n_rows * n_values), np.repeat(pseudo * n_values, n_rows)
            found = np.add.reduceat(gammaln(flat + of_cells) - gammaln(of_cells), cells)
            found += np.add.reduceat(gammaln(of_rows) - gammaln(of_rows + of_parents), rows)
        return found, total


def _without(candidate: Candidate, parent: int) -> Candidate:
    child, parents = candidate
    return child, tuple([other for other in parents if other != parent])
