"""How many threads: limits of the environment and of threadpoolctl."""

from __future__ import annotations

import threading

import pytest
from threadpoolctl import threadpool_limits

from fastens.engine import threads


def test_a_positive_number_is_taken_as_given():
    assert threads.resolve_n_jobs(3) == 3


def test_negative_counts_back_from_all():
    everything = threads.resolve_n_jobs()
    assert threads.resolve_n_jobs(-1) == everything >= 1
    assert threads.resolve_n_jobs(-1000) == 1


@pytest.mark.parametrize("bad", [0, 1.5, "2", True])
def test_errors(bad):
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0; got"):
        threads.resolve_n_jobs(bad)


def test_runtime_limits_hold(monkeypatch):
    with threadpool_limits(1, user_api="openmp"):
        assert threads.resolve_n_jobs() == 1
        monkeypatch.setenv("OMP_NUM_THREADS", "4")
        assert threads.resolve_n_jobs() == 1


def test_threads_follow_the_work():
    assert threads.threads_for(100, 8, grain=100) == 1
    assert threads.threads_for(350, 8, grain=100) == 3
    assert threads.threads_for(1e9, 8, grain=100) == 8
    assert threads.threads_for(1e9, 1, grain=100) == 1


def test_one_item_is_made_ahead_and_no_more():
    made, limits = [], []

    def items():
        for item in range(5):
            limits.append(threads.resolve_n_jobs(8))
            made.append(item)
            yield item
        raise OSError("the line is dead")

    before = threading.active_count()
    with threads.limited_threads(1):
        found = threads.ahead(items())
        for item in range(3):
            assert next(found) == item
            assert len(made) <= item + 2
        found.close()
        assert threading.active_count() == before
        with pytest.raises(OSError, match="the line is dead"):
            list(threads.ahead(items()))
    assert threading.active_count() == before
    assert made == [*range(len(made) - 5), *range(5)]
    assert set(limits) == {1}
    assert list(threads.ahead([])) == []
