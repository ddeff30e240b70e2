"""Run fits one after another with all threads, or in parallel with one thread each, never both levels at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import closing
from itertools import count
from operator import itemgetter

from sklearn import config_context, get_config

from fastens.engine.sharing import shared_work
from fastens.engine.threads import ThreadPool, limited_threads
from fastens.library_threads import limited_libraries

Task = Callable[[], None]


def seconds_since(began: float) -> str:
    """How long ago a reading of `time.perf_counter` was, for a log."""
    return f"{time.perf_counter() - began:.2f} s"


def run_tasks(alone: list[list[Task]], side_by_side: list[list[Task]], n_threads: int) -> None:
    """Run tasks; one that fails stops the rest. Of several that fail side by side, the first in order is raised.

    Tasks of a list share work. The lists of `alone` run one after another, each task with all threads. Those of
    `side_by_side` run in as many threads at once, each with one thread of its own: a thread takes one list after
    another, and when all are taken helps with those of another thread.
    """
    with limited_threads(n_threads), closing(_Queue(alone)) as queue:
        queue.work()
    n_tasks = sum(map(len, side_by_side))
    if not n_tasks:
        return
    with closing(_Queue(side_by_side)) as queue:
        if n_threads == 1 or n_tasks == 1:
            # A single task may use all threads, if it is one of ours; other libraries' results may depend on their
            # number.
            with limited_threads(n_threads), limited_libraries(blas=1, openmp=n_threads):
                queue.work()
            return
        with limited_libraries(blas=1):
            _run_pool(queue, min(n_threads, n_tasks))


class _Queue:
    """Lists of tasks; several threads may work on them."""

    def __init__(self, lists: list[list[Task]]) -> None:
        numbers = count()
        self._fresh = deque(deque(zip(numbers, tasks, strict=False)) for tasks in lists if tasks)
        self._begun: list[deque[tuple[int, Task]]] = []
        self._lock = threading.Lock()
        self.failures: list[tuple[int, BaseException]] = []

    def work(self) -> None:
        """Run tasks until there are no more."""
        while (begun := self._begin()) is not None:
            tasks, first = begun
            with shared_work():
                self._run(*first)
                while (taken := self._next(tasks)) is not None:
                    self._run(*taken)

    def close(self) -> None:
        """Forget the failures: an error that is raised holds the frames it came through, and these hold the queue."""
        self.failures.clear()

    def stop(self) -> None:
        """No more tasks are begun."""
        with self._lock:
            for tasks in (*self._fresh, *self._begun):
                tasks.clear()

    def _begin(self) -> tuple[deque[tuple[int, Task]], tuple[int, Task]] | None:
        """A list of tasks and the first of them."""
        with self._lock:
            if self._fresh:
                self._begun.append(self._fresh.popleft())
                tasks = self._begun[-1]
            else:
                tasks = max(self._begun, key=len, default=deque())
            return (tasks, tasks.popleft()) if tasks else None

    def _next(self, tasks: deque[tuple[int, Task]]) -> tuple[int, Task] | None:
        with self._lock:
            return tasks.popleft() if tasks else None

    def _run(self, number: int, task: Task) -> None:
        try:
            task()
        except BaseException as error:
            self.failures.append((number, error))
            raise


def _run_pool(queue: _Queue, n_workers: int) -> None:
    configuration = get_config()  # of scikit-learn, which each thread has its own of

    def work() -> None:
        # OpenMP and some BLAS count threads by the thread that starts them: this holds for the worker alone.
        with config_context(**configuration), limited_threads(1), limited_libraries(blas=1, openmp=1):
            try:
                queue.work()
            except BaseException:
                queue.stop()
                raise

    pool = ThreadPool(n_workers, "fastens")
    try:
        futures = [pool.submit(work) for _ in range(n_workers)]
        wait(futures, return_when=FIRST_EXCEPTION)
    except BaseException:
        # After Ctrl-C, do not wait for the running fits.
        queue.stop()
        pool.shutdown(wait=False)
        raise
    pool.shutdown()
    if queue.failures:
        futures.clear()  # they hold the errors too
        raise min(queue.failures, key=itemgetter(0))[1]
    while futures:
        futures.pop().result()
