"""Walks of chosen rows through chosen trees, and of rows some of whose values are others'."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastens.engine.predict.walk import Walker

if TYPE_CHECKING:
    from fastens.engine.bins.binned import BinnedMatrix
    from fastens.engine.trees.trees import TreeEnsemble

__all__ = ["Shuffled", "Walker"]

Array = NDArray[np.float64]
# Numbers that the changes of a block of rows may be.
_BLOCK_VALUES = 1 << 22


class Shuffled:
    """Predictions of trees for rows that get, column by column, the value of another row.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    matrix : BinnedMatrix
        The rows, binned by the binning of the trees.
    column_of : array of shape (n_features,)
        For each feature, the column that it is made of.
    n_threads : int
        Number of threads.
    """

    def __init__(
        self, trees: TreeEnsemble, matrix: BinnedMatrix, column_of: NDArray[np.integer], n_threads: int
    ) -> None:
        self._walker, self._trees, self._n_threads = Walker(trees, matrix, column_of), trees, n_threads
        self._raw = np.zeros((matrix.n_rows, trees.n_outputs))
        nowhere, n_trees = np.zeros(matrix.n_rows), np.zeros(matrix.n_rows, dtype=np.int32)
        for t, (first, last) in enumerate(zip(trees.node_offsets[:-1], trees.node_offsets[1:], strict=True)):
            self._walker.add_left_out(t, trees.value[first:last], nowhere, self._raw, n_trees, n_threads)
        self._block = max(1, _BLOCK_VALUES // (matrix.n_features * trees.n_outputs))

    def blocks(self, others: NDArray[np.uint32]) -> Iterator[tuple[slice, Array, Array]]:
        """For blocks of rows: which, their mean values, and those with each column taken from `others`."""
        for first in range(0, len(others), self._block):
            last = min(first + self._block, len(others))
            changes = self._walker.permuted_changes(self._trees.value, others, first, last, self._n_threads)
            raw, n_trees = self._raw[first:last], self._trees.n_trees
            yield slice(first, last), raw / n_trees, (raw + changes) / n_trees
