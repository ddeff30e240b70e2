"""How well a set of parents explains a variable: the local scores that structures are searched by, each found once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from fastens.bayes.dirichlet import Groups, Smoothing
from fastens.bayes.families import Array, family_counts, n_cells

SCORES = ("bic", "aic", "bdeu", "k2")
DENSE_CELLS = 1 << 16  # larger tables are counted by the combinations that come
BATCH_CELLS = 1 << 22

Candidate = tuple[int, tuple[int, ...]]  # a variable and its parents, in ascending order


class FamilyScores:
    """Scores of families on one table of codes, the larger the better; a network's score is their sum.

    bic, aic: log likelihood less log(n) / 2, or 1, for each free parameter (Schwarz 1978; Akaike 1974). bdeu, k2: log
    evidence under Dirichlet priors with `ess` / (r q) or 1 for each of the r q cells (Heckerman, Geiger & Chickering
    1995, eq. 28; Cooper & Herskovits 1992, eq. 12).

    Where values are missing, a family's counts are those of the rows in which it is known, scaled up to all rows (Balov
    2013).

    Parameters
    ----------
    codes : array of uint8, uint16 or uint32, shape (n_variables, n_rows)
        0 for a missing value, p + 1 for position p.
    sizes : array of int64, shape (n_variables,)
        Number of values of each variable.
    weights : array of float64, shape (n_rows,), optional
        Weights of the rows.
    score : {"bic", "aic", "bdeu", "k2"}, default="bic"
        Which score.
    ess : float, default=1.0
        Equivalent sample size of bdeu.
    n_threads : int, default=1
        Threads; the scores do not depend on it.
    """

    def __init__(
        self,
        codes: NDArray[Any],
        sizes: NDArray[np.int64],
        weights: Array | None = None,
        score: str = "bic",
        ess: float = 1.0,
        n_threads: int = 1,
    ) -> None:
        self.codes, self.sizes, self.weights, self.n_threads = codes, sizes, weights, n_threads
        self.n_rows = float(codes.shape[1] if weights is None else weights.sum())
        self._per_parameter = {"bic": 0.5 * math.log(max(self.n_rows, 1.0)), "aic": 1.0}.get(score)
        self._smoothing = Smoothing("bdeu", ess=ess) if score == "bdeu" else Smoothing("laplace", alpha=1.0)
        self._found: dict[Candidate, float] = {}

    def bound(self, candidate: Candidate) -> float:
        """No score of this family can be larger."""
        if self._per_parameter is None:
            return 0.0
        child, parents = candidate
        return -self._per_parameter * n_cells(parents, self.sizes.tolist()) * (int(self.sizes[child]) - 1)

    def of(self, candidates: Iterable[Candidate]) -> list[float]:
        """The scores of families; those not seen before are counted together."""
        candidates = list(candidates)
        new = [candidate for candidate in dict.fromkeys(candidates) if candidate not in self._found]
        sizes = self.sizes.tolist()
        batch: list[Candidate] = []
        waiting = 0
        for candidate in new:
            cells = n_cells(candidate[1], sizes) * sizes[candidate[0]]
            if cells > DENSE_CELLS:
                self._found[candidate] = self._score(candidate, self._sparse_counts(candidate))
                continue
            if waiting + cells > BATCH_CELLS:
                self._score_batch(batch)
                batch, waiting = [], 0
            batch.append(candidate)
            waiting += cells
        self._score_batch(batch)
        return [self._found[candidate] for candidate in candidates]

    def _score_batch(self, batch: list[Candidate]) -> None:
        families = [(*parents, child) for child, parents in batch]
        found = family_counts(self.codes, self.sizes, families, self.weights, self.n_threads)
        for candidate, counts in zip(batch, found, strict=True):
            self._found[candidate] = self._score(candidate, counts.reshape(-1, counts.shape[-1]).astype(np.float64))

    def _sparse_counts(self, candidate: Candidate) -> Array:
        """Counts by the combinations of the parents' values that come, and the child's value."""
        child, parents = candidate
        known = (self.codes[[*parents, child]] > 0).all(axis=0)
        if not known.any():
            return np.zeros((1, int(self.sizes[child])))
        combination = np.zeros(int(known.sum()), dtype=np.int64)
        for parent in parents:
            # Numbered anew after each parent: the product of all sizes need not fit an integer.
            keys = combination * self.sizes[parent] + self.codes[parent][known]
            combination = np.unique(keys, return_inverse=True)[1].ravel()
        n_combinations, size = int(combination.max()) + 1, int(self.sizes[child])
        weights = None if self.weights is None else self.weights[known]
        cells = combination * size + self.codes[child][known] - 1
        return np.bincount(cells, weights, minlength=n_combinations * size).reshape(-1, size).astype(np.float64)

    def _score(self, candidate: Candidate, counts: Array) -> float:
        total = counts.sum()
        if total > 0:
            counts = counts * (self.n_rows / total)
        if self._per_parameter is not None:
            of_parents = counts.sum(axis=1)
            return float(xlogy(counts, counts).sum() - xlogy(of_parents, of_parents).sum()) + self.bound(candidate)
        child, parents = candidate
        size = np.array([self.sizes[child]])
        pseudo = self._smoothing.of_groups(size, n_cells(parents, self.sizes.tolist()))
        return float(Groups(size, np.repeat(pseudo, size)).log_evidence(counts).sum())
