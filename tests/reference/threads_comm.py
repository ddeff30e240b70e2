"""Ranks that are threads of one process: what every other `Comm` must do."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from fastens.engine.comm import Comm

TIMEOUT = 120


class Hub:
    """Where threads meet. Ranks that call different things, or not as many, fail; they do not hang."""

    def __init__(self, size: int, timeout: float = TIMEOUT) -> None:
        self.size = size
        self._barrier = threading.Barrier(size, timeout=timeout)
        self._posted: list[Any] = [None] * size
        self.n_exchanges = self.n_bytes = 0

    def exchange(self, rank: int, kind: str, value: Any) -> list[Any]:
        self._posted[rank] = (kind, value)
        self._barrier.wait()
        found = list(self._posted)
        if rank == 0:
            self.n_exchanges += 1
            self.n_bytes += sum(part.nbytes for part in value) if kind != "gather" else 0
        self._barrier.wait()
        kinds = [kind for kind, _ in found]
        if len(set(kinds)) > 1:
            raise AssertionError(f"ranks are out of step: {kinds}")
        return [value for _, value in found]

    def abort(self) -> None:
        self._barrier.abort()


class ThreadsComm(Comm):
    """One rank of a hub."""

    def __init__(self, hub: Hub, rank: int) -> None:
        self._hub, self.rank, self.size = hub, rank, hub.size

    def allreduce_sum(self, *arrays: Any) -> None:
        self._reduce("sum", np.add, arrays)

    def allreduce_max(self, *arrays: Any) -> None:
        self._reduce("max", np.maximum, arrays)

    def allgather(self, value: Any) -> list[Any]:
        return self._hub.exchange(self.rank, "gather", pickle.loads(pickle.dumps(value)))  # no rank sees it change

    def _reduce(self, kind: str, combined: Any, arrays: tuple[Any, ...]) -> None:
        for array in arrays:
            assert array.dtype == np.int64, array.dtype
        parts = self._hub.exchange(self.rank, kind, [array.copy() for array in arrays])
        for array, *own in zip(arrays, *parts, strict=True):
            assert len({part.shape for part in own}) == 1, [part.shape for part in own]
            # In an order of this rank's own: nothing may depend on it.
            first, *others = np.roll(np.arange(self.size), self.rank).tolist()
            array[...] = own[first]
            for other in others:
                combined(array, own[other], out=array)


def on_ranks(size: int, work: Callable[[ThreadsComm], Any], timeout: float = TIMEOUT) -> list[Any]:
    """What `work` returns on each rank; the first error of a rank that is not about another one's."""
    hub = Hub(size, timeout)
    results: list[Any] = [None] * size
    errors: list[BaseException | None] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadsComm(hub, rank))
        except BaseException as error:
            errors[rank] = error
            hub.abort()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raised = [error for error in errors if error is not None]
    if raised:
        raise next((error for error in raised if not isinstance(error, threading.BrokenBarrierError)), raised[0])
    return results
