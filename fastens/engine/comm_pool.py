"""One comm for several threads: what they reduce at the same time goes over the ranks together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fastens.engine.comm import Comm

_Result = TypeVar("_Result")
# Seconds between two looks whether the user pressed Ctrl-C.
_LOOK_EVERY = 0.1


class CommPool:
    """Runs functions side by side that reduce over the same ranks, which run the same functions in the same order.

    When all that still run wait for a reduction, all sums are made by one, and all maxima by another. No more than
    `n_threads` of them work at any time.

    Examples
    --------
    >>> import numpy as np
    >>> from fastens.engine.comm import LOCAL
    >>> from fastens.engine.comm_pool import CommPool
    >>> def add(comm, number):
    ...     total = np.array([number])
    ...     comm.sum(total)
    ...     return int(total[0])
    >>> CommPool(LOCAL, n_threads=1).run(add, [3, 4])
    [3, 4]
    """

    def __init__(self, comm: Comm, n_threads: int) -> None:
        self.comm = comm
        self._may_work = threading.Semaphore(n_threads)
        self._changed = threading.Condition()
        self._n_running = self._n_rounds = 0
        self._waiting: dict[int, tuple[str, Sequence[NDArray[np.int64]]]] = {}
        self._error: BaseException | None = None
        self._results: dict[int, Any] = {}

    def run(self, function: Callable[[Comm, Any], _Result], arguments: Sequence[Any]) -> list[_Result]:
        """Return what the function returns of each argument; it gets a comm of its own with it."""
        self._n_running = len(arguments)
        with ThreadPoolExecutor(max(len(arguments), 1)) as threads:
            try:
                futures = [threads.submit(self._run_one, function, place, of) for place, of in enumerate(arguments)]
                while not all(future.done() for future in futures):
                    with self._changed:
                        self._changed.wait(_LOOK_EVERY)
            except BaseException as error:
                self._fail(error)
                raise
        if self._error is not None:
            raise self._taken_error()
        return [self._results[place] for place in range(len(arguments))]

    def _run_one(self, function: Callable[[Comm, Any], Any], place: int, argument: Any) -> None:
        with self._may_work:
            try:
                self._results[place] = function(_Member(self, place), argument)
            except BaseException as error:
                self._fail(error)
            finally:
                with self._changed:
                    self._n_running -= 1
                    self._reduce_if_all_wait()
                    self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _taken_error(self) -> BaseException:
        """The first error, which is kept no longer: one that is raised holds the frames that hold this."""
        error, self._error = self._error, None
        assert error is not None
        return error

    def reduce(self, place: int, kind: str, arrays: Sequence[NDArray[np.int64]]) -> None:
        """Wait until the others wait, too, and for what the ranks have then."""
        with self._changed:
            n_rounds = self._n_rounds
            self._waiting[place] = kind, arrays
            self._reduce_if_all_wait()
            self._may_work.release()
            while self._n_rounds == n_rounds and self._error is None:
                self._changed.wait()
        self._may_work.acquire()
        if self._error is not None:
            raise self._error

    def _reduce_if_all_wait(self) -> None:
        if self._error is not None or not self._waiting or len(self._waiting) < self._n_running:
            return
        try:
            for kind, reduce in (("max", self.comm.max), ("sum", self.comm.sum)):
                given = [self._waiting[place][1] for place in sorted(self._waiting) if self._waiting[place][0] == kind]
                arrays = [array for of_one in given for array in of_one]
                if arrays:
                    together = np.concatenate([array.ravel() for array in arrays])
                    reduce(together)
                    for array, part in zip(
                        arrays, np.split(together, np.cumsum([a.size for a in arrays])), strict=False
                    ):
                        array[...] = part.reshape(array.shape)
        except BaseException as error:
            self._error = error
        self._waiting.clear()
        self._n_rounds += 1
        self._changed.notify_all()


class _Member(Comm):
    """What one of the functions sees."""

    def __init__(self, pool: CommPool, place: int) -> None:
        self.rank, self.size = pool.comm.rank, pool.comm.size
        self._pool, self._place = pool, place

    def sum(self, *arrays: NDArray[np.int64]) -> None:
        """Add up arrays over the ranks, in place."""
        self._pool.reduce(self._place, "sum", arrays)

    def max(self, *arrays: NDArray[np.int64]) -> None:
        """Replace arrays by their elementwise maxima over the ranks."""
        self._pool.reduce(self._place, "max", arrays)

    def gather(self, value: Any) -> list[Any]:
        """Raise NotImplementedError: only numbers are reduced together."""
        raise NotImplementedError("functions side by side have sums and maxima in common, and nothing else")
