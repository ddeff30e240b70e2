"""Fits one after another with all threads, or side by side with one thread each: never both levels at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from threadpoolctl import threadpool_limits

from fastens.engine.threads import limited_threads

Task = Callable[[], None]


def run_tasks(alone: list[Task], side_by_side: list[Task], n_threads: int) -> None:
    """Run tasks; the first that fails stops the rest.

    Parameters
    ----------
    alone : list of callables
        Run one after another, each with all threads.
    side_by_side : list of callables
        Run in as many threads at once, each with one thread of its own.
    n_threads : int
        How many.
    """
    with limited_threads(n_threads):
        for task in alone:
            task()
    if not side_by_side:
        return
    if n_threads == 1 or len(side_by_side) == 1:
        # A single task may use all threads, if it is one of ours; other libraries' results may depend on their number.
        with limited_threads(n_threads), threadpool_limits({"blas": 1, "openmp": n_threads}):
            for task in side_by_side:
                task()
        return
    with threadpool_limits(1, user_api="blas"):
        _run_pool(side_by_side, min(n_threads, len(side_by_side)))


def _run_pool(tasks: list[Task], n_workers: int) -> None:
    pool = ThreadPoolExecutor(n_workers, "fastens", initializer=_one_openmp_thread)
    try:
        futures = [pool.submit(_run_limited, task) for task in tasks]
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future.done() and not future.cancelled() and future.exception() is not None:
                raise future.exception()  # type: ignore[misc]
    except Exception:
        pool.shutdown(cancel_futures=True)
        raise
    except BaseException:
        # Whoever pressed Ctrl-C does not want to wait for the fits that are under way.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _run_limited(task: Task) -> None:
    with limited_threads(1):
        task()


def _one_openmp_thread() -> None:
    # OpenMP counts threads by the thread that starts them: this holds for the worker alone, and ends with it.
    threadpool_limits(1, user_api="openmp")
