"""Walks of chosen rows through chosen trees, and of rows some of whose values are others'."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse

from fastens.engine.predict.walk import Walker
from fastens.engine.trees.leaf_sums import leaves_of_rows
from fastens.engine.trees.used_columns import narrowed

if TYPE_CHECKING:
    from fastens.engine.bins.binned import BinnedMatrix
    from fastens.engine.bins.sparse_binned import AnyMatrix
    from fastens.engine.trees.trees import TreeEnsemble

__all__ = ["LeftOut", "PermutedLosses", "Shuffled", "Walker"]

Array = NDArray[np.float64]
# Numbers that the changes of a block of rows may be.
_BLOCK_VALUES = 1 << 22


class LeftOut:
    """Predictions of one tree for the rows that it was not grown on.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    matrix : BinnedMatrix or SparseMatrix
        The rows, binned by the binning of the trees.
    n_threads : int
        Number of threads.
    """

    def __init__(self, trees: TreeEnsemble, matrix: AnyMatrix, n_threads: int) -> None:
        self._trees, self._matrix, self._n_threads = trees, matrix, n_threads
        self._walker = None if matrix.is_sparse else Walker(trees, matrix)

    def predict(self, t: int, counts: Array, n_trees: NDArray[np.int32]) -> Array:
        """Return the values of tree t for rows that count 0, 0 for others, (n_rows, n_outputs); add 1 to `n_trees`."""
        first, last = self._trees.node_offsets[t : t + 2]
        values, found = self._trees.value[first:last], np.zeros((len(counts), self._trees.n_outputs))
        if self._walker is not None:
            self._walker.add_left_out(t, values, counts, found, n_trees, self._n_threads)
            return found
        left_out = counts == 0
        found[left_out] = values[leaves_of_rows(self._matrix.columns, self._trees.tree(t), self._n_threads)[left_out]]
        n_trees += left_out
        return found


class PermutedLosses:
    """How the losses of one tree grow with the values of other rows, one column at a time.

    Of a sparse table, only the columns that the tree splits on are made dense, of some rows at a time.

    Parameters
    ----------
    trees : TreeEnsemble
        The trees.
    X : row source
        The rows.
    column_of : array of shape (n_features,)
        For each feature, the column that it is made of.
    n_threads : int
        Number of threads.
    """

    def __init__(self, trees: TreeEnsemble, X: Any, column_of: NDArray[np.integer], n_threads: int) -> None:
        self._trees, self._column_of = trees, column_of
        self._stored: csr_matrix | None = csr_matrix(X) if issparse(X) else None
        self._walker = None if issparse(X) else Walker(trees, trees.binning.transform(X, n_threads), column_of)

    def of_tree(
        self, t: int, pairs: NDArray[np.uint32], weight: Array | None, y: Array, answers: Array, *, is_class: bool
    ) -> Array:
        """Return the growth of the sum of weighted losses for each column.

        Parameters
        ----------
        t : int
            The tree.
        pairs : uint32 array of shape (2, n)
            Rows and, for each, the row whose value it gets.
        weight : float64 array of shape (n_rows,) or None
            Weights of the rows.
        y : float64 array of shape (n_rows, n_targets)
            Targets of the rows.
        answers : float64 array of shape (n_nodes, n_targets)
            What the tree answers at its nodes.
        is_class : bool
            Whether targets are numbers of classes.
        """
        growth = np.zeros(max(self._column_of) + 1)
        if self._walker is not None:
            self._walker.permuted_losses(t, pairs, weight, y, answers, is_class, growth)
            return growth
        assert self._stored is not None
        trees = self._trees
        columns, narrow = narrowed(trees.from_trees([trees.tree(t)], [0], trees.baseline, trees.binning))
        stored, block = self._stored[:, columns], max(1, _BLOCK_VALUES // len(columns))
        for first in range(0, pairs.shape[1], block):
            rows, others = pairs[:, first : first + block]
            matrix = narrow.binning.transform(stored[np.concatenate([rows, others])])
            own = np.arange(2 * len(rows), dtype=np.uint32).reshape(2, -1)
            of_rows = None if weight is None else weight[rows]
            walker = Walker(narrow, matrix, self._column_of[columns])
            walker.permuted_losses(0, own, of_rows, y[rows], answers, is_class, growth)
        return growth


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
