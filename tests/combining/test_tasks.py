"""Tasks side by side: each is run once, threads help each other, and the first error ends the rest."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest
import sklearn
from threadpoolctl import threadpool_info, threadpool_limits

from fastens.combining.responses import run_tasks
from fastens.engine.threads import resolve_n_jobs


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_each_task_is_run_once(n_threads):
    done = []
    lists = [[lambda place=(i, j): done.append(place) for j in range(i)] for i in range(5)]
    run_tasks([[lambda: done.append("alone")]], lists, n_threads)
    assert done[0] == "alone"
    assert sorted(done[1:]) == [(i, j) for i in range(5) for j in range(i)]


def test_a_thread_without_a_list_of_its_own_helps():
    meet = threading.Barrier(2, timeout=10)  # passed only by two tasks of the list at once
    run_tasks([], [[meet.wait, meet.wait]], 2)


def test_side_by_side_each_has_one_thread():
    found = []
    run_tasks([], [[lambda: found.append(resolve_n_jobs(4))]] * 3, 2)
    assert found == [1, 1, 1]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_first_error_ends_the_rest(n_threads):
    done = []

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_tasks([], [[fail, *[lambda: done.append(1)] * 1000]], n_threads)
    assert len(done) < 1000


def test_the_first_of_several_failures_in_order_is_raised():
    meet = threading.Barrier(2, timeout=10)

    def first():
        meet.wait()
        time.sleep(0.05)  # fails after the second
        raise ValueError("first")

    def second():
        meet.wait()
        raise ValueError("second")

    with pytest.raises(ValueError, match="first"):
        run_tasks([], [[first], [second]], 2)


class _Rows:
    """What a frame holds while its function fails."""


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("alone", [True, False])
def test_errors_that_were_handled_hold_nothing(n_threads, alone):
    gc.collect()
    gc.disable()
    try:
        rows = _Rows()
        freed = weakref.ref(rows)

        def fail(rows=rows):
            raise ValueError("no")

        lists = [[fail], [fail]]
        with pytest.raises(ValueError, match="no") as raised:
            run_tasks(lists if alone else [], [] if alone else lists, n_threads)
        del rows, fail, lists, raised
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("ends_first", [0, 1])
def test_fits_at_once_leave_the_threads_of_blas_as_they_were(n_threads, ends_first):
    np.linalg.inv(np.eye(2))  # loads a library that has threads
    within, may_end = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]
    found = []

    def fit(i):
        within[i].set()
        assert may_end[i].wait(10)
        found.append(blas_threads())

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
    fits = [threading.Thread(target=run_tasks, args=([], [[lambda i=i: fit(i)] * 2], n_threads)) for i in (0, 1)]
    with threadpool_limits(2, user_api="blas"):
        for i in (0, 1):
            fits[i].start()
            assert within[i].wait(10)
        for i in (ends_first, 1 - ends_first):
            may_end[i].set()
            fits[i].join()
        assert blas_threads() == before
    assert {n for each in found for n in each} <= {1}
    assert len(found) == 4


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_tasks_see_the_settings_of_their_caller(n_threads):
    found = []

    def look():
        found.append((sklearn.get_config()["transform_output"], np.geterr()["under"]))

    with sklearn.config_context(transform_output="pandas"), np.errstate(under="raise"):
        run_tasks([], [[look, look]] * 2, n_threads)
    assert found == [("pandas", "raise")] * 4
