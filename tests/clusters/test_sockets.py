"""Ranks that exchange over sockets: what is too large for these arrives, and no wait is without an end."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from fastens.distributed.reduction import RankLostError, RanksComm, Sockets


class Rank(Sockets):
    """A transport."""

    def __init__(self, rank, size):
        super().__init__(self.look)
        self.rank, self.size, self.n_looks = rank, size, 0

    def look(self):
        self.n_looks += 1
        if self.n_looks > 3:
            raise RankLostError("looked at four times")


def connected(size):
    ranks = [Rank(rank, size) for rank in range(size)]
    for sender in ranks:
        for receiver in ranks:
            if sender is not receiver:
                one, other = socket.socketpair()
                sender.add_outgoing(receiver.rank, one)
                receiver.add_incoming(sender.rank, other)
    return ranks


@pytest.mark.parametrize("size", [2, 3, 4])
def test_messages_larger_than_what_is_buffered(size):
    found = {}

    def work(rank):
        comm = RanksComm(rank)
        numbers = np.random.default_rng(rank.rank).integers(-(2**62) // size, 2**62 // size, 200_000)
        total = numbers.copy()
        comm.allreduce_sum(total)
        found[rank.rank] = (
            numbers,
            total,
            comm.alltoall([bytes([to]) * 3_000_000 for to in range(size)]),
            comm.allgather(7),
        )

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in connected(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = np.sum([numbers for numbers, *_ in found.values()], axis=0)
    for rank in range(size):
        _, total, given, gathered = found[rank]
        np.testing.assert_array_equal(total, expected)
        assert given == [bytes([rank]) * 3_000_000] * size
        assert gathered == [7] * size


def test_sums_that_travel_are_larger_than_what_is_buffered():
    found = {}

    def work(rank):
        comm = RanksComm(rank)
        arrays = [np.arange(200_000) * n * 10**12 for n in (3, 5, 7)]
        for finish in [comm.begin_allreduce_sum(array) for array in arrays]:
            finish()
        found[rank.rank] = arrays

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in connected(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for arrays in (found[0], found[1]):
        for array, n in zip(arrays, (3, 5, 7), strict=True):
            np.testing.assert_array_equal(array, np.arange(200_000) * 2 * n * 10**12)


@pytest.mark.slow
def test_waiting_ends():
    first, second = connected(2)
    with pytest.raises(RankLostError, match="looked at four times"):
        first.receive(1, (1, 1))
    first.n_looks = 0
    first.send(1, (1, 1), np.zeros(1 << 24, dtype=np.uint8))  # which nobody reads
    with pytest.raises(RankLostError, match="looked at four times"):
        first.flush()
    second.shut_down()
    first.n_looks = 0
    with pytest.raises(RankLostError, match="a connection to another rank is lost"):
        first.receive(1, (1, 1))


def test_messages_come_in_their_order():
    first, second = connected(2)
    first.send(1, (1, 1), np.arange(3, dtype=np.uint8))
    with pytest.raises(RankLostError, match=r"rank 0 sent message \(1, 1\); expected \(2, 1\)"):
        second.receive(0, (2, 1))
