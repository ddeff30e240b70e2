"""Predictions of trees joined by their weighted median instead of a sum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastens.engine.limits import check_count
from fastens.engine.threads import threads_for
from fastens.engine.trees.median import rank_medians
from fastens.engine.trees.trees import TreeEnsemble

# (row, tree) pairs that are worth a thread.
_GRAIN = 10_000
# Those that are in memory at a time.
_BLOCK_PAIRS = 1 << 20
# Just below one half: the sum of weights is rounded.
_HALF = 0.5 * (1 - 1e-12)


class TreeMedian:
    """The weighted median of the trees' predictions.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Trees of one value a leaf.
    weights : float64 array of shape (n_trees,)
        Positive weights of the trees.
    """

    def __init__(self, ensemble: TreeEnsemble, weights: NDArray[np.float64]) -> None:
        self._ensemble, self._weights = ensemble, weights
        self._values, rank = np.unique(ensemble.value[:, 0], return_inverse=True)
        check_count("The trees", "different values", len(self._values), advice="Grow fewer or smaller trees.")
        self._rank = rank.astype(np.int32)

    def predict(self, X: NDArray[np.floating], n_threads: int = 1, n_trees: int | None = None) -> NDArray[np.float64]:
        """Return the lowest value that trees of half the weight, or more, do not exceed; from the first `n_trees`."""
        n_trees = self._ensemble.n_trees if n_trees is None else n_trees
        step = max(1, _BLOCK_PAIRS // self._ensemble.n_trees)
        if X.shape[0] <= step:  # for a single row, joining blocks takes as long as finding its leaves
            return self.of_leaves(self._ensemble.apply(X, n_threads), n_threads, n_trees)
        blocks = (X[first : first + step] for first in range(0, X.shape[0], step))
        leaves = (self._ensemble.apply(block, n_threads) for block in blocks)
        return np.concatenate([self.of_leaves(of_block, n_threads, n_trees) for of_block in leaves])

    def of_leaves(self, leaves: NDArray[np.int32], n_threads: int, n_trees: int) -> NDArray[np.float64]:
        """The same from the leaves of rows."""
        ranks = np.ascontiguousarray(self._rank[leaves[:, :n_trees] + self._ensemble.node_offsets[:n_trees]])
        weights = np.ascontiguousarray(self._weights[:n_trees])
        out = np.empty(len(leaves), dtype=np.int32)
        n_threads = threads_for(ranks.size, n_threads, _GRAIN)
        rank_medians(ranks, weights, len(self._values), _HALF * weights.sum(), out, n_threads)
        return self._values[out]
