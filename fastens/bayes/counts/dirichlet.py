"""Dirichlet estimates of probabilities from counts, mutual information, and Chow-Liu trees (1968)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastens.bayes.counts.counting import offsets_of
from fastens.engine.elementary import exp, gammaln, log, xlogy
from fastens.params.rules import Rule, one_of, real

Array = NDArray[np.float64]
SMOOTHINGS = ("laplace", "m", "kt", "bdeu", "none")


def _is_pseudo_counts(value: Any) -> bool:
    """Return True if the value is a list, tuple or one-dimensional array of finite numbers >= 0."""
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    array = np.asarray(value)
    return array.ndim == 1 and array.dtype.kind in "iuf" and bool(np.isfinite(array).all() and (array >= 0).all())


SMOOTHING_RULES = {
    "smoothing": one_of(*SMOOTHINGS),
    "alpha": real(0) | Rule("an array with one such number for each column", _is_pseudo_counts),
    "m": real(0, open_low=True),
    "ess": real(0, open_low=True),
}


@dataclass(frozen=True)
class Smoothing:
    """Pseudo-counts of the cells of a group.

    "laplace" uses `alpha` for each cell, "m" divides `m` among the cells, "kt" uses 1/2, "bdeu" divides `ess` among the
    cells of all classes, and "none" uses 0.
    """

    kind: str
    alpha: Any = 1.0
    m: float = 1.0
    ess: float = 1.0

    def of_groups(self, n_cells: NDArray[np.int64], n_classes: int | NDArray[np.int64]) -> Array:
        """Return the pseudo-count of each cell of each group, (n_groups,), from the numbers of cells and of classes."""
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
    """Consecutive groups of cells and the pseudo-count of every cell."""

    sizes: NDArray[np.int64]  # number of cells of each group; groups may be empty
    pseudo: Array  # pseudo-count of every cell

    def sums(self, values: Array) -> Array:
        """Return the sum of the cells of each group, (n_rows, n_groups), for values of shape (n_rows, n_cells)."""
        out = np.zeros((len(values), len(self.sizes)))
        filled = np.flatnonzero(self.sizes)
        if filled.size:
            starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])[filled]
            out[:, filled] = np.add.reduceat(values, starts, axis=1)
        return out

    def spread(self, values: Array) -> Array:
        """Repeat the value of each group for all of its cells, along the last axis."""
        return np.repeat(values, self.sizes, axis=-1)

    def normalise(self, mass: Array) -> Array:
        """Return `mass`, (n_rows, n_cells), divided by the sum of its group; groups without mass become uniform."""
        sums = self.sums(mass)
        if (sums > 0).all():
            return mass / self.spread(sums)
        total = self.spread(sums)
        equal = self.spread(1.0 / np.maximum(self.sizes, 1))
        return np.divide(mass, total, out=np.broadcast_to(equal, mass.shape).copy(), where=total > 0)

    def estimate(self, counts: Array, mode: str) -> Array:
        """Return the probability of each cell in its group, (n_rows, n_cells).

        The `mode` is "bayes" for posterior means, "map" for posterior modes, and "ml" for relative frequencies.
        """
        if mode == "ml":
            return self.normalise(counts)
        return self.normalise(counts + self.pseudo if mode == "bayes" else np.maximum(counts + self.pseudo - 1, 0))

    def unseen(self, counts: Array, mode: str) -> Array:
        """Return the probability of an unseen cell with count 0 of each group, (n_rows, n_groups); 0 for "ml"."""
        prior = self.sums(np.broadcast_to(self.pseudo * (mode != "ml"), counts.shape))
        total = (self.sums(counts) + prior) * np.maximum(self.sizes, 1)
        return np.divide(prior, total, out=np.zeros(total.shape), where=total > 0)

    def draw(self, counts: Array, rng: np.random.Generator) -> Array:
        """Draw the cell probabilities for each row of counts from the posterior, shape (n_rows, n_cells)."""
        shape = counts + self.pseudo
        mass = rng.standard_gamma(shape)
        is_lost = (self.sums(mass) == 0) & (self.sums(shape) > 0)
        if is_lost.any():
            mass = np.where(self.spread(is_lost), self._small_gammas(shape, rng), mass)
        return self.normalise(mass)

    def _small_gammas(self, shape: Array, rng: np.random.Generator) -> Array:
        """Draw gamma variates divided by the maximum of their group, because small parameters underflow in float64.

        A gamma(a) variate is a gamma(a + 1) variate times U^(1 / a) with a uniform U.
        """
        logs = np.full(shape.shape, -np.inf)
        np.divide(-rng.standard_exponential(shape.shape), shape, out=logs, where=shape > 0)
        logs += log(rng.standard_gamma(shape + 1))
        filled = self.sizes > 0
        peaks = np.zeros((len(shape), len(self.sizes)))
        peaks[:, filled] = np.maximum.reduceat(logs, (np.cumsum(self.sizes) - self.sizes)[filled], axis=1)
        return exp(logs - np.maximum(self.spread(peaks), np.finfo(np.float64).min))

    def log_evidence(self, counts: Array) -> Array:
        """Return the log probability of the sequence of counted values for each row and group.

        Parameters are integrated out, so every pseudo-count must be greater than 0.
        """
        cells = self.sums(gammaln(counts + self.pseudo) - gammaln(self.pseudo))
        prior = self.sums(np.broadcast_to(self.pseudo, counts.shape))
        total = prior + self.sums(counts)
        whole = np.zeros(total.shape)
        filled = self.sizes > 0
        whole[:, filled] = gammaln(prior[:, filled]) - gammaln(total[:, filled])
        return cells + whole


ROOT = -1  # parent of a column without a parent


def mutual_information(pairs: NDArray[Any], sizes: NDArray[np.int64]) -> Array:
    """Return the mutual information of all pairs of columns given the class, in nats: (n_features, n_features).

    I(X; Z | C) = sum over c, x, z of p(c, x, z) log[ p(x, z | c) / (p(x | c) p(z | c)) ], for each pair over the rows
    in which both are known (FGG 1997, section 4.1). The diagonal is the entropy of the column given the class. `pairs`
    are the counts of `pair_counts` without missing values.
    """
    total, gain = np.zeros((len(sizes), len(sizes))), np.zeros((len(sizes), len(sizes)))
    for counts in pairs:
        by_row, by_column = _block_sums(counts, sizes, axis=1), _block_sums(counts, sizes, axis=0)
        joint = _block_sums(by_row, sizes, axis=0)
        gain = gain + (
            _block_sums(_block_sums(xlogy(counts, counts), sizes, axis=0), sizes, axis=1)
            - _block_sums(xlogy(by_row, by_row), sizes, axis=0)
            - _block_sums(xlogy(by_column, by_column), sizes, axis=1)
            + xlogy(joint, joint)
        )
        total = total + joint
    information = np.divide(gain, total, out=np.zeros(total.shape), where=total > 0)
    lower = np.tril(np.maximum(information, 0))
    return lower + np.tril(lower, -1).T


def class_information(singles: NDArray[Any], sizes: NDArray[np.int64]) -> Array:
    """Return the mutual information of each column and the class, in nats, over rows in which the column is known.

    `singles` are the counts of `class_counts` without missing values.
    """
    of_cells = singles.sum(axis=0)
    of_classes = _block_sums(singles, sizes, axis=1)
    total = of_classes.sum(axis=0)
    gain = (
        _block_sums(xlogy(singles, singles).sum(axis=0), sizes, axis=0)
        - _block_sums(xlogy(of_cells, of_cells), sizes, axis=0)
        - xlogy(of_classes, of_classes).sum(axis=0)
        + xlogy(total, total)
    )
    return np.maximum(np.divide(gain, total, out=np.zeros(len(sizes)), where=total > 0), 0)


def _block_sums(values: NDArray[Any], sizes: NDArray[np.int64], axis: int) -> NDArray[Any]:
    """Return the sums over the `sizes` cells of each column along an axis, which then has one entry per column."""
    shape = (*values.shape[:axis], len(sizes), *values.shape[axis + 1 :])
    sums = np.zeros(shape, dtype=values.dtype)
    filled = np.flatnonzero(sizes)
    if filled.size:
        part = np.add.reduceat(values, offsets_of(sizes)[filled], axis=axis)
        sums[(slice(None),) * axis + (filled,)] = part
    return sums


def maximum_spanning_tree(weights: Array, root: int = 0) -> NDArray[np.int64]:
    """Return the maximum spanning tree over all columns as the parent of each column, -1 for the root.

    Uses Prim's algorithm in O(n_features^2). Ties go to the edge to the first column, from the column reached first.
    Edges of weight 0 are included, so the result is a single tree.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.bayes.counts.dirichlet import maximum_spanning_tree
    >>> maximum_spanning_tree(np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0.0]]), root=2).tolist()
    [1, 2, -1]
    """
    n_features = len(weights)
    parents = np.full(n_features, ROOT, dtype=np.int64)
    best, nearest = np.full(n_features, -np.inf), np.full(n_features, root, dtype=np.int64)
    is_out = np.ones(n_features, dtype=bool)
    newest = root
    for _ in range(n_features - 1):
        is_out[newest] = False
        is_better = is_out & (weights[newest] > best)
        best[is_better], nearest[is_better] = weights[newest, is_better], newest
        newest = int(np.where(is_out, best, -np.inf).argmax())
        parents[newest] = nearest[newest]
    return parents
