"""Reductions by messages: each rank gets what a sum, a maximum or a list over all of them is."""

from __future__ import annotations

import time

import numpy as np
import pytest

from fastens.distributed.reduction import Mailbox, RankLostError
from reference.messages import by_messages

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 13)
LENGTHS = [(0,), (1,), (3, 4), (20_001,), (9000, 1, 5000)]  # some of which are halved


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_sums_and_maxima(lengths, size):
    def arrays_of(rank):
        rng = np.random.default_rng(rank)
        return [rng.integers(-(2**55), 2**55, length) for length in lengths]

    def work(comm):
        sums, largest = arrays_of(comm.rank), arrays_of(comm.rank)
        comm.allreduce_sum(*sums)
        comm.allreduce_max(*largest)
        return sums, largest

    of_ranks = list(zip(*map(arrays_of, range(size)), strict=True))
    for sums, largest in by_messages(size, work):
        for found, parts in zip(sums, of_ranks, strict=True):
            np.testing.assert_array_equal(found, np.sum(parts, axis=0))
        for found, parts in zip(largest, of_ranks, strict=True):
            np.testing.assert_array_equal(found, np.max(parts, axis=0))


@pytest.mark.parametrize("size", SIZES)
def test_sums_that_travel(size):
    """Several may have begun; they end in their order."""

    def work(comm):
        arrays = [np.full((n, 3), comm.rank + n, dtype=np.int64) for n in (1, 30_000, 7, 2)]
        first, *others = [comm.begin_allreduce_sum(array) for array in arrays[:3]]
        first()
        for finish in [*others, comm.begin_allreduce_sum(arrays[3])]:
            finish()
        comm.allreduce_sum(arrays[0])
        return [np.unique(array).tolist() for array in arrays]

    of_ranks = size * (size - 1) // 2
    for found in by_messages(size, work):
        assert found == [[size * (of_ranks + size)], *([of_ranks + size * n] for n in (30_000, 7, 2))]


@pytest.mark.parametrize("size", SIZES)
def test_values_of_all_ranks_in_their_order(size):
    def work(comm):
        shape = np.arange(6).reshape(2, 3) * comm.rank
        comm.allreduce_sum(shape[:, ::2])  # of any strides
        return comm.allgather({"rank": comm.rank, "array": shape}), comm.allgather(None)

    for values, nothing in by_messages(size, work):
        assert [value["rank"] for value in values] == list(range(size))
        assert nothing == [None] * size
        for rank, value in enumerate(values):
            expected = np.arange(6).reshape(2, 3) * rank
            expected[:, ::2] = np.arange(6).reshape(2, 3)[:, ::2] * (size * (size - 1) // 2)
            np.testing.assert_array_equal(value["array"], expected)


@pytest.mark.parametrize("size", SIZES)
def test_values_for_each_rank(size):
    def work(comm):
        found = comm.alltoall([(comm.rank, rank, bytes(1000)) for rank in range(size)])
        return [(sender, receiver) for sender, receiver, _ in found], comm.n_bytes

    for rank, (found, n_bytes) in enumerate(by_messages(size, work)):
        assert found == [(sender, rank) for sender in range(size)]
        assert (size - 1) * 1000 <= n_bytes <= (size - 1) * 1100


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_a_large_sum_sends_each_number_less_than_twice(size):
    def work(comm):
        comm.allreduce_sum(np.ones(32_768, dtype=np.int64))
        return comm.n_bytes

    assert max(by_messages(size, work)) <= 2 * 32_768 * 8 * (size - 1) / size + 8 * size


def test_a_rank_that_is_lost_ends_the_waiting_of_all():
    def fail_on_one(comm):
        comm.allreduce_sum(np.zeros(3, dtype=np.int64))
        if comm.rank == 1:
            raise ValueError("rank 1 stops")
        comm.allreduce_sum(np.zeros(3, dtype=np.int64))

    with pytest.raises(ValueError, match="rank 1 stops"):
        by_messages(3, fail_on_one)


@pytest.mark.slow
def test_waiting_ends_with_the_patience():
    box, start = Mailbox(0.3), time.monotonic()
    with pytest.raises(RankLostError, match="the process that started the fit has not responded for"):
        box.take(1, (0, 0))
    assert time.monotonic() - start < 10
    box.put(1, (0, 0), "late")
    assert box.take(1, (0, 0)) == "late"
    box.close("no more")
    box.close("a later reason")
    with pytest.raises(RankLostError, match="no more"):
        box.take(1, (0, 0))
