"""Threads: their number by `n_jobs`, environment variables and limits, and attributes that threads compute lazily."""

from __future__ import annotations

import functools
import numbers
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, Self, TypeVar, overload

import joblib
from threadpoolctl import ThreadpoolController

from fastens.engine.thread_pool import forget_helpers

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helpers)

T = TypeVar("T")

# Kernels take the number of threads as a C int, so larger values of `n_jobs` are clipped to this.
_MAX_THREADS = 2**31 - 1


class _Limit(threading.local):
    n_threads: int | None = None


_limit = _Limit()


@contextmanager
def limited_threads(n_threads: int | None) -> Iterator[None]:
    """Use at most `n_threads` threads inside the context and the current Python thread, whatever `n_jobs` is.

    If None, the context adds no limit. Use it to run several fits concurrently or to pass on a limit.
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
    """Return the number of physical cores that this process may use, given its CPU affinity and container limits."""
    return joblib.cpu_count(only_physical_cores=True)


def thread_limit() -> int | None:
    """Return the active limit of `limited_threads` in this thread, or None. New Python threads do not inherit it."""
    return _limit.n_threads


@functools.cache
def _openmp_runtimes() -> list[Any]:
    """Return the OpenMP runtimes of other libraries such as scikit-learn; fastens respects the limits set for them."""
    return ThreadpoolController().select(user_api="openmp").lib_controllers


def _default_n_threads() -> int:
    """Return the number of threads for `n_jobs=None`: by OMP_NUM_THREADS, OpenMP limits and physical cores."""
    limits = [runtime.num_threads for runtime in _openmp_runtimes()]
    if limits and os.environ.get("OMP_NUM_THREADS"):
        return min(limits)
    return min(*limits, _cpu_count()) if limits else _cpu_count()


def resolve_n_jobs(n_jobs: Any = None) -> int:
    """Resolve the parameter `n_jobs` to a number of threads.

    Parameters
    ----------
    n_jobs : int or None
        If None, OMP_NUM_THREADS is used if it is set, and otherwise the number of physical cores that this process may
        use. Limits that threadpoolctl sets for OpenMP apply in both cases. Negative values count back from this number,
        so -1 uses all of them. Positive values are used unchanged.

    Returns
    -------
    int
        The number of threads, at least 1.

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
    count = _default_n_threads() if n_jobs is None else min(int(n_jobs), _MAX_THREADS)
    if count < 0:
        count = max(1, _default_n_threads() + 1 + count)
    return count if _limit.n_threads is None else min(count, _limit.n_threads)


def threads_for(work: float, n_threads: int, grain: float) -> int:
    """Choose the number of threads: at most `n_threads`, each with at least `grain` units of work.

    Waking another thread costs some microseconds, so callers choose a `grain` that takes longer.
    """
    if n_threads <= 1 or work < 2 * grain:
        return 1
    return min(n_threads, int(work // grain))


class ThreadPool(ThreadPoolExecutor):
    """The thread pool of all Python work.

    Parameters
    ----------
    n_threads : int
        Number of threads.
    is_concurrent : bool, default=False
        True if the functions wait for each other, so that each of them needs a thread of its own. Otherwise, `submit`
        runs a function in the calling thread if no new threads can start because the main Python thread has ended.
    """

    def __init__(self, n_threads: int, *, is_concurrent: bool = False) -> None:
        super().__init__(n_threads, "fastens")
        self._is_concurrent = is_concurrent

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in another thread with a copy of the current context; return the future of its result."""
        try:
            return super().submit(copy_context().run, function, *args, **kwargs)
        except RuntimeError as error:
            if self._is_concurrent or "interpreter shutdown" not in str(error):
                raise
        done = Future[Any]()
        try:
            done.set_result(function(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def in_threads(function: Callable[[Any], None], items: Sequence[Any], n_threads: int) -> None:
    """Call a function for each item in several threads; the function should release the GIL most of the time.

    If several calls fail, the error of the first item in order is raised. After Ctrl-C, calls that have already started
    are not waited for. If the system cannot start more threads, the running ones do all the work.
    """
    n_others = min(n_threads, len(items)) - 1
    if n_others < 1:
        for item in items:
            function(item)
        return
    waiting = deque(enumerate(items))
    errors: dict[int, Exception] = {}
    others: list[Future[Any]] = []
    pool = ThreadPool(n_others)
    try:
        with suppress(RuntimeError):
            while len(others) < n_others:
                others.append(pool.submit(_run_items, function, waiting, errors))
        _run_items(function, waiting, errors)
        wait(others)
    finally:
        waiting.clear()
        pool.shutdown(wait=False)
    if errors:
        raise _pop_first_error(errors)


def _pop_first_error(errors: dict[int, Exception]) -> Exception:
    """Return the error of the first item and clear the dict, to avoid a reference cycle by the traceback."""
    first = errors[min(errors)]
    errors.clear()
    return first


def _run_items(function: Callable[[Any], None], waiting: deque[tuple[int, Any]], errors: dict[int, Exception]) -> None:
    """Call the function for waiting (index, item) pairs until none are left or a call fails; store errors by index."""
    while waiting:
        try:
            index, item = waiting.popleft()
        except IndexError:  # another thread took the last item
            return
        try:
            function(item)
        except Exception as error:
            errors[index] = error
            waiting.clear()


class cached_property(functools.cached_property[T]):  # noqa: N801
    """Lock-free `functools.cached_property`, as in Python 3.12 and later.

    In Python 3.11, all threads wait for the one that is computing, even on different objects, and a process that is
    forked at that moment deadlocks because the lock is never released. Here, concurrent threads may each compute the
    value, and all of them return the value that was stored first.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        assert self.attrname is not None
        memo = instance.__dict__
        return memo[self.attrname] if self.attrname in memo else memo.setdefault(self.attrname, self.func(instance))
