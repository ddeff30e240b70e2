"""The trees of a round grow side by side where there are several: threads meet once a round, not at every node."""

from __future__ import annotations

from queue import SimpleQueue

from fastens.boosting.leaves import ConstantLeaves
from fastens.boosting.round import Round
from fastens.engine.bins.sparse_binned import AnyMatrix
from fastens.engine.threads import ThreadPool
from fastens.engine.trees.trees import Tree

# Codes of the rows: with fewer, handing trees to threads takes longer than growing them; with more, threads can share
# a tree as well.
_LEAST_CODES = 1 << 15
_ENOUGH_FOR_ONE_TREE = 1 << 20
# Rows whose codes cost what a search for splits costs, where there are so many.
_ROWS_PER_SEARCH = 1 << 12


class SideBySide:
    """Threads that each grow whole trees, one for each output in every round."""

    def __init__(self, leaves: ConstantLeaves) -> None:
        self._leaves, matrix, n_trees = leaves, leaves.problem.matrix, leaves.n_trees
        self._n_workers = min(leaves.problem.n_threads, n_trees)
        self._free: SimpleQueue[ConstantLeaves] = SimpleQueue()
        for own in (matrix, *(matrix.beside() for _ in range(1, self._n_workers))):
            self._free.put(leaves.on_one_thread(own))
        # Whether the kernels have threads of their own, on which what is left when all have as many trees grows. On few
        # rows they have none: those of OpenMP spin for a while after their work, in the way of these.
        self.needs_others = _n_codes(matrix) >= _ENOUGH_FOR_ONE_TREE
        self._n_apart = n_trees - (n_trees % self._n_workers if self.needs_others else 0)

    @classmethod
    def of(cls, leaves: ConstantLeaves) -> SideBySide | None:
        """Return threads, or None where they had better share each tree."""
        problem, n_trees = leaves.problem, leaves.n_trees
        # Leaves are renewed from what the outputs before have become; ranks exchange one tree after another.
        if not leaves.grow_apart or problem.loss.renews_leaves or problem.matrix.comm.size > 1:
            return None
        n_codes, n_threads = _n_codes(problem.matrix), problem.n_threads
        if min(n_threads, n_trees) == 1 or n_codes < _LEAST_CODES:
            return None
        return cls(leaves) if n_trees >= n_threads or n_codes < _ENOUGH_FOR_ONE_TREE else None

    def grow(self, this: Round) -> list[Tree]:
        """Grow the trees of a round, and add them to the raw predictions."""

        def grow_one(number: int) -> Tree:
            worker = self._free.get()
            try:
                return worker.grow(this, number)
            finally:
                self._free.put(worker)

        trees = list(self._pool.map(grow_one, range(self._n_apart)))
        return trees + [self._leaves.grow(this, number) for number in range(self._n_apart, self._leaves.n_trees)]

    def __enter__(self) -> None:
        self._pool = ThreadPool(self._n_workers)

    def __exit__(self, *of_exception: object) -> None:
        """End the threads, after the trees that they are at."""
        self._pool.shutdown(cancel_futures=True)


def _n_codes(matrix: AnyMatrix) -> int:
    """Codes that a tree counts for its root, or as many as its search costs: each node looks at every feature."""
    return max(matrix.n_rows * matrix.codes_per_row, min(matrix.n_rows, _ROWS_PER_SEARCH) * matrix.n_features)
