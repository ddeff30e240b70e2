"""How many threads: limits of the environment and of threadpoolctl."""

from __future__ import annotations

import gc
import weakref

import pytest
from threadpoolctl import threadpool_limits

from fastens.engine import threads


def test_a_positive_number_is_taken_as_given():
    assert threads.resolve_n_jobs(3) == 3
    assert threads.resolve_n_jobs(10**12) == 2**31 - 1  # the largest int of a kernel


def test_negative_counts_back_from_all():
    everything = threads.resolve_n_jobs()
    assert threads.resolve_n_jobs(-1) == everything >= 1
    assert threads.resolve_n_jobs(-1000) == 1


@pytest.mark.parametrize("bad", [0, 1.5, "2", True])
def test_errors(bad):
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0; got"):
        threads.resolve_n_jobs(bad)


def test_runtime_limits_hold(monkeypatch):
    pytest.importorskip("sklearn.utils._openmp_helpers")  # which loads a runtime
    threads._openmp_runtimes.cache_clear()  # tests before this one may have looked when there was none
    with threadpool_limits(1, user_api="openmp"):
        assert threads.resolve_n_jobs() == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        assert threads.resolve_n_jobs() == 1


def test_threads_follow_the_work():
    assert threads.threads_for(100, 8, grain=100) == 1
    assert threads.threads_for(350, 8, grain=100) == 3
    assert threads.threads_for(1e9, 8, grain=100) == 8
    assert threads.threads_for(1e9, 1, grain=100) == 1


class _Rows:
    """What a frame holds while its function fails."""


@pytest.mark.parametrize("n_threads", [1, 2])
def test_errors_that_were_handled_hold_nothing(n_threads):
    gc.collect()
    gc.disable()
    try:
        rows = _Rows()
        freed = weakref.ref(rows)

        def fail(_, rows=rows):
            raise ValueError("no")

        with pytest.raises(ValueError, match="no") as raised:
            threads.in_threads(fail, range(4), n_threads)
        del rows, fail, raised
        assert freed() is None
    finally:
        gc.enable()
