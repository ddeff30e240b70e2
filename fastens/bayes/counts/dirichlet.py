"""Groups of probabilities that sum to one, from counts: estimates, posterior samples and evidence under a Dirichlet.

Counts stand in an array of shape (n_classes, n_cells), in which the cells of one group after another make up the
columns; within a group every cell has the same pseudo-count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.engine.elementary import exp, gammaln, log
from fastens.parameters import Rule, one_of, real

Array = NDArray[np.float64]
SMOOTHINGS = ("laplace", "m", "kt", "bdeu", "none")


def _is_pseudo_counts(value: Any) -> bool:
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    array = np.asarray(value)
    return array.ndim == 1 and array.dtype.kind in "iuf" and bool(np.isfinite(array).all() and (array >= 0).all())


SMOOTHING_RULES = {
    "smoothing": one_of(*SMOOTHINGS),
    "alpha": real(0) | Rule("an array of such numbers, one for each column", _is_pseudo_counts),
    "m": real(0, open_low=True),
    "ess": real(0, open_low=True),
}


@dataclass(frozen=True)
class Smoothing:
    """How many imagined rows every cell of a group starts with.

    laplace: `alpha`; m: `m` rows shared by the cells; kt: 1/2; bdeu: `ess` rows shared by the cells of all classes;
    none: none.
    """

    kind: str
    alpha: Any = 1.0
    m: float = 1.0
    ess: float = 1.0

    def of_groups(self, n_cells: NDArray[np.int64], n_classes: int | NDArray[np.int64]) -> Array:
        """The pseudo-count of a cell of each group, from the groups' numbers of cells."""
        n_cells = np.maximum(n_cells, 1)
        if self.kind == "laplace":
            return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), n_cells.shape)
        if self.kind == "m":
            return self.m / n_cells
        if self.kind == "bdeu":
            return self.ess / (n_cells * n_classes)
        return np.full(n_cells.shape, 0.5 if self.kind == "kt" else 0.0)


@dataclass(frozen=True)
class Groups:
    """Where the groups are, and the pseudo-count of every cell."""

    sizes: NDArray[np.int64]  # cells of each group; an empty group has none
    pseudo: Array  # of every cell

    def sums(self, values: Array) -> Array:
        """Sum of each group of each row of `values`."""
        out = np.zeros((len(values), len(self.sizes)))
        filled = np.flatnonzero(self.sizes)
        if filled.size:
            starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])[filled]
            out[:, filled] = np.add.reduceat(values, starts, axis=1)
        return out

    def spread(self, values: Array) -> Array:
        """A value of each group, to its cells."""
        return np.repeat(values, self.sizes, axis=-1)

    def normalise(self, mass: Array) -> Array:
        """Shares of each group; equal ones where there is nothing."""
        sums = self.sums(mass)
        if (sums > 0).all():
            return mass / self.spread(sums)
        total = self.spread(sums)
        equal = self.spread(1.0 / np.maximum(self.sizes, 1))
        return np.divide(mass, total, out=np.broadcast_to(equal, mass.shape).copy(), where=total > 0)

    def estimate(self, counts: Array, mode: str) -> Array:
        """Probabilities of the cells: "bayes" their posterior mean, "map" the posterior's peak, "ml" the shares."""
        if mode == "ml":
            return self.normalise(counts)
        return self.normalise(counts + self.pseudo if mode == "bayes" else np.maximum(counts + self.pseudo - 1, 0))

    def unseen(self, counts: Array, mode: str) -> Array:
        """Probability of a cell that each group never had, as if it were one of its cells; 0 under "ml"."""
        prior = self.sums(np.broadcast_to(self.pseudo * (mode != "ml"), counts.shape))
        total = (self.sums(counts) + prior) * np.maximum(self.sizes, 1)
        return np.divide(prior, total, out=np.zeros(total.shape), where=total > 0)

    def draw(self, counts: Array, rng: np.random.Generator) -> Array:
        """Probabilities drawn from the posterior."""
        shape = counts + self.pseudo
        mass = rng.standard_gamma(shape)
        is_lost = (self.sums(mass) == 0) & (self.sums(shape) > 0)
        if is_lost.any():
            mass = np.where(self.spread(is_lost), self._small_gammas(shape, rng), mass)
        return self.normalise(mass)

    def _small_gammas(self, shape: Array, rng: np.random.Generator) -> Array:
        """Gamma variates over the largest of their group: of small parameters they may all be 0 in float64.

        One of parameter a is one of a + 1 times the power 1 / a of a uniform number.
        """
        logs = np.full(shape.shape, -np.inf)
        np.divide(-rng.standard_exponential(shape.shape), shape, out=logs, where=shape > 0)
        logs += log(rng.standard_gamma(shape + 1))
        filled = self.sizes > 0
        peaks = np.zeros((len(shape), len(self.sizes)))
        peaks[:, filled] = np.maximum.reduceat(logs, (np.cumsum(self.sizes) - self.sizes)[filled], axis=1)
        return exp(logs - np.maximum(self.spread(peaks), np.finfo(np.float64).min))

    def log_evidence(self, counts: Array) -> Array:
        """Log probability of the counted values one after another, for each row and group; parameters averaged out.

        Every pseudo-count must be greater than 0.
        """
        cells = self.sums(gammaln(counts + self.pseudo) - gammaln(self.pseudo))
        prior = self.sums(np.broadcast_to(self.pseudo, counts.shape))
        total = prior + self.sums(counts)
        whole = np.zeros(total.shape)
        filled = self.sizes > 0
        whole[:, filled] = gammaln(prior[:, filled]) - gammaln(total[:, filled])
        return cells + whole
