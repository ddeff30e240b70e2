"""Run fits one after another with all threads, or in parallel with one thread each, never both levels at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from threadpoolctl import ThreadpoolController

from fastens.engine.sharing import shared_work
from fastens.engine.threads import limited_threads

Task = Callable[[], None]


def seconds_since(began: float) -> str:
    """How long ago a reading of `time.perf_counter` was, for a log."""
    return f"{time.perf_counter() - began:.2f} s"


def run_tasks(alone: list[list[Task]], side_by_side: list[list[Task]], n_threads: int) -> None:
    """Run tasks; the first that fails stops the rest.

    Tasks of a list share work. The lists of `alone` run one after another, each task with all threads. Those of
    `side_by_side` run in as many threads at once, each with one thread of its own: a thread takes one list after
    another, and when all are taken helps with those of another thread.
    """
    with limited_threads(n_threads):
        _Queue(alone).work()
    n_tasks = sum(map(len, side_by_side))
    if not n_tasks:
        return
    libraries = ThreadpoolController()
    queue = _Queue(side_by_side)
    if n_threads == 1 or n_tasks == 1:
        # A single task may use all threads, if it is one of ours; other libraries' results may depend on their number.
        with limited_threads(n_threads), libraries.limit(limits={"blas": 1, "openmp": n_threads}):
            queue.work()
        return
    with libraries.limit(limits=1, user_api="blas"):
        _run_pool(queue, min(n_threads, n_tasks), libraries)


class _Queue:
    """Lists of tasks; several threads may work on them."""

    def __init__(self, lists: list[list[Task]]) -> None:
        self._fresh = deque(map(deque, lists))
        self._begun: list[deque[Task]] = []
        self._lock = threading.Lock()

    def work(self) -> None:
        """Run tasks until there are no more."""
        while (tasks := self._next()) is not None:
            with shared_work():
                while tasks:
                    try:
                        task = tasks.popleft()
                    except IndexError:  # another thread was faster
                        break
                    task()

    def stop(self) -> None:
        """No more tasks are begun."""
        with self._lock:
            for tasks in (*self._fresh, *self._begun):
                tasks.clear()

    def _next(self) -> deque[Task] | None:
        with self._lock:
            if self._fresh:
                self._begun.append(self._fresh.popleft())
                return self._begun[-1]
            longest = max(self._begun, key=len, default=None)
            return longest if longest else None


def _run_pool(queue: _Queue, n_workers: int, libraries: ThreadpoolController) -> None:
    def work() -> None:
        # OpenMP counts threads by the thread that starts them: this holds for the worker alone, and ends with it.
        libraries.limit(limits=1, user_api="openmp")
        try:
            with limited_threads(1):
                queue.work()
        except BaseException:
            queue.stop()
            raise

    pool = ThreadPoolExecutor(n_workers, "fastens")
    try:
        futures = [pool.submit(work) for _ in range(n_workers)]
        wait(futures, return_when=FIRST_EXCEPTION)
    except BaseException:
        # After Ctrl-C, do not wait for the running fits.
        queue.stop()
        pool.shutdown(wait=False)
        raise
    pool.shutdown()
    for future in futures:
        future.result()
