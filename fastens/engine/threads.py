"""How many threads to use: the only place that asks."""

from __future__ import annotations

import functools
import numbers
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

import joblib
from threadpoolctl import ThreadpoolController

from fastens.engine.team import forget_helpers

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helpers)

# More than a kernel's int may hold are as many as it may.
_MOST_THREADS = 2**31 - 1


class _Limit(threading.local):
    n_threads: int | None = None


_limit = _Limit()


@contextmanager
def limited_threads(n_threads: int | None) -> Iterator[None]:
    """Within it, in this thread of Python, no more than `n_threads` are used, whatever `n_jobs` says; None: no limit.

    For those who run several fits at once, or pass on a limit of their own.
    """
    outer = _limit.n_threads
    limits = [limit for limit in (outer, n_threads) if limit is not None]
    _limit.n_threads = min(limits, default=None)
    try:
        yield
    finally:
        _limit.n_threads = outer


@functools.cache
def _cpu_count() -> int:
    """Physical cores this process may use: affinity and container limits count."""
    return joblib.cpu_count(only_physical_cores=True)


def thread_limit() -> int | None:
    """The least limit of `limited_threads` here, which a new thread of Python does not have by itself; None: none."""
    return _limit.n_threads


@functools.cache
def _openmp_runtimes() -> list[Any]:
    """Those of other libraries (scikit-learn has one): limits that are set for them hold here too."""
    return ThreadpoolController().select(user_api="openmp").lib_controllers


def _default_n_threads() -> int:
    limits = [runtime.num_threads for runtime in _openmp_runtimes()]
    if limits and os.environ.get("OMP_NUM_THREADS"):
        return min(limits)
    return min(*limits, _cpu_count()) if limits else _cpu_count()


def resolve_n_jobs(n_jobs: Any = None) -> int:
    """Turn the parameter `n_jobs` into a number of threads.

    Parameters
    ----------
    n_jobs : int or None
        None: OMP_NUM_THREADS where it is set, otherwise the physical cores this process may use; limits set by
        threadpoolctl for OpenMP hold in both cases. Negative: counted back from that number, -1 is all of them.
        Positive: as given.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> from fastens.engine.threads import resolve_n_jobs
    >>> resolve_n_jobs(1)
    1
    """
    if n_jobs is not None and (type(n_jobs) is bool or not isinstance(n_jobs, numbers.Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0; got {n_jobs!r}.")
    if _limit.n_threads == 1:
        return 1
    count = _default_n_threads() if n_jobs is None else min(int(n_jobs), _MOST_THREADS)
    if count < 0:
        count = max(1, _default_n_threads() + 1 + count)
    return count if _limit.n_threads is None else min(count, _limit.n_threads)


def threads_for(work: float, n_threads: int, grain: float) -> int:
    """Choose threads for an amount of work: at most `n_threads`, and none with less than `grain` to do.

    To call another thread costs some microseconds: the caller's `grain` is the work that takes longer.
    """
    if n_threads <= 1 or work < 2 * grain:
        return 1
    return min(n_threads, int(work // grain))


class ThreadPool(ThreadPoolExecutor):
    """Threads for work that none of the rest of it waits for.

    Once the main thread of Python has ended, there are no more of them: the thread that hands in work does it.
    """

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Let another thread call a function, in a context like this one: NumPy's errors, for one, are as here."""
        try:
            return super().submit(copy_context().run, function, *args, **kwargs)
        except RuntimeError as error:
            if "interpreter shutdown" not in str(error):
                raise
        done = Future[Any]()
        try:
            done.set_result(function(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def in_threads(function: Callable[[Any], None], items: Sequence[Any], n_threads: int) -> None:
    """Call a function, which gives the interpreter's lock away for most of its time, for each item.

    The first error in the items' order is raised. After Ctrl-C, the items that are begun are not waited for.
    """
    n_others = min(n_threads, len(items)) - 1
    if n_others < 1:
        for item in items:
            function(item)
        return
    waiting = deque(enumerate(items))
    errors: dict[int, Exception] = {}
    pool = ThreadPool(n_others, "fastens")
    try:
        others = [pool.submit(_do_items, function, waiting, errors) for _ in range(n_others)]
        _do_items(function, waiting, errors)
        wait(others)
    finally:
        waiting.clear()
        pool.shutdown(wait=False)
    if errors:
        raise _taken_from(errors)


def _taken_from(errors: dict[int, Exception]) -> Exception:
    """The first of them, which are kept no longer: one that is raised holds the frames that hold them."""
    first = errors[min(errors)]
    errors.clear()
    return first


def _do_items(function: Callable[[Any], None], waiting: deque[tuple[int, Any]], errors: dict[int, Exception]) -> None:
    """One thread's share: until there are no more, or one fails."""
    while waiting:
        try:
            index, item = waiting.popleft()
        except IndexError:  # another thread was faster
            return
        try:
            function(item)
        except Exception as error:
            errors[index] = error
            waiting.clear()
