"""The trees of a round grow side by side where there are several: threads meet once a round, not at every node."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from fastens.boosting.row_sampling import RowSample
from fastens.engine.grow.growth import GrowthRules, TreeGrower
from fastens.engine.trees.trees import Tree

if TYPE_CHECKING:
    from fastens.boosting.rounds import BoostingRun

# Codes of the rows: with fewer, handing trees to threads takes longer than growing them; with more, threads can share
# a tree as well.
_LEAST_CODES = 1 << 15
_ENOUGH_FOR_ONE_TREE = 1 << 20
# Rows whose codes cost what a search for splits costs, where there are so many.
_ROWS_PER_SEARCH = 1 << 12


class SideBySide:
    """Threads that each grow whole trees.

    Parameters
    ----------
    run : BoostingRun
        What needs the trees: one of each output in every round.
    rules : GrowthRules
        Their limits.
    options : dict
        What else a `TreeGrower` is told.

    Attributes
    ----------
    needs_others : bool
        Whether there is work for the threads of the kernels besides.
    """

    def __init__(self, run: BoostingRun, rules: GrowthRules, options: dict[str, Any]) -> None:
        n_workers = min(run.rules.n_threads, run.loss.n_outputs)
        matrices = [run.matrix, *(run.matrix.beside() for _ in range(1, n_workers))]
        options = options | {"sample_weight": run.train.weight, "n_threads": 1}
        self._n_workers = n_workers
        self._free: SimpleQueue[TreeGrower] = SimpleQueue()
        for matrix in matrices:
            self._free.put(TreeGrower(matrix, rules, **options))
        # What is left when all have as many trees grows on all threads together. On few rows there are no other
        # threads: those of OpenMP spin for a while after their work, in the way of these.
        self.needs_others = _n_codes(run) >= _ENOUGH_FOR_ONE_TREE
        self._n_apart = run.loss.n_outputs - (run.loss.n_outputs % n_workers if self.needs_others else 0)

    @classmethod
    def of(cls, run: BoostingRun, rules: GrowthRules, options: dict[str, Any]) -> SideBySide | None:
        """Return the threads of a run, or None where they had better share each tree."""
        n_codes, n_threads, n_trees = _n_codes(run), run.rules.n_threads, run.loss.n_outputs
        if min(n_threads, n_trees) == 1 or n_codes < _LEAST_CODES:
            return None
        return cls(run, rules, options) if n_trees >= n_threads or n_codes < _ENOUGH_FOR_ONE_TREE else None

    def grow(self, run: BoostingRun, sample: RowSample | None, index: int) -> list[Tree]:
        """Grow the trees of a round, and add them to the raw predictions."""

        def grow_one(output: int) -> Tree:
            grower = self._free.get()
            try:
                return run.on_one_thread(grower).grow(output, sample, index)
            finally:
                self._free.put(grower)

        trees = list(self._pool.map(grow_one, range(self._n_apart)))
        return trees + [run.grow(output, sample, index) for output in range(self._n_apart, run.loss.n_outputs)]

    def __enter__(self) -> None:
        self._pool = ThreadPoolExecutor(self._n_workers)

    def __exit__(self, *of_exception: object) -> None:
        """End the threads, after the trees that they are at."""
        self._pool.shutdown(cancel_futures=True)


def _n_codes(run: BoostingRun) -> int:
    """Codes that a tree counts for its root, or as many as its search is worth: each node asks every feature."""
    matrix = run.matrix
    return max(matrix.n_rows * len(matrix.bundles.n_codes), min(matrix.n_rows, _ROWS_PER_SEARCH) * matrix.n_features)
