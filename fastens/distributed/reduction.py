"""Sums, maxima and gathering over ranks that can only send messages to each other.

Ranks exchange with partners of a hypercube: small arrays as a whole at each of its dimensions, large ones by halves,
so that each number is sent about twice, however many ranks there are, and in few bytes. The ranks beyond a power of two
hand their numbers to a partner below it, and get the result from there.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastens.distributed.narrowing import narrowed, widen
from fastens.engine.comm import Comm

Numbers = NDArray[np.int64]
Tag = tuple[int, int]

# Larger arrays are halved: below, a message costs more than its bytes.
_HALVED_BYTES = 1 << 16


class RankLostError(RuntimeError):
    """A rank does not answer any more: the fit can go on without it, from its last checkpoint."""


class Transport(Protocol):
    """What carries messages between the ranks of a fit."""

    rank: int
    size: int

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank, without waiting for it."""

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for what a rank has sent by this tag; RankLostError where it will not come."""

    def flush(self) -> None:
        """Wait until what was sent is on its way: nothing more may be called for long."""


class RanksComm(Comm):
    """Communication of a rank with the others of its fit, by messages.

    Attributes
    ----------
    n_exchanges : int
        How often the ranks have exchanged something.
    n_bytes : int
        How many bytes this rank has sent.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.rank, self.size = transport.rank, transport.size
        self.sums_travel = self.size == 2
        self.n_exchanges = self.n_bytes = self._n_travelling = 0

    def sum(self, *arrays: Numbers) -> None:
        """Add up arrays over the ranks, in place."""
        self._reduce("sum", arrays)

    def begin_sum(self, *arrays: Numbers) -> Callable[[], None]:
        """Begin to do so; return what waits for the sums, which is to be called in the order of the beginnings.

        Between two ranks a sum is one message each way, which travels by itself; others are made at the end.
        """
        if not self.sums_travel:
            return super().begin_sum(*arrays)
        self.n_exchanges += 1
        self._n_travelling += 1
        partner, tag = 1 - self.rank, (self.n_exchanges, 1)
        self._put(partner, tag, self._written(arrays))

        def finish() -> None:
            self._take(self._transport.receive(partner, tag), arrays, "sum")
            self._n_travelling -= 1
            if self._n_travelling == 0:
                self._transport.flush()

        return finish

    def max(self, *arrays: Numbers) -> None:
        """Replace arrays by their elementwise maxima over the ranks."""
        self._reduce("max", arrays)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order: anything that can be pickled."""
        if self.size == 1:
            return [value]
        own = [(self.rank, pickle.dumps(value, protocol=5))]

        def put(received: list[Any]) -> None:
            own[:] = received

        with self._exchanging():
            self._over_cube(lambda: list(own), own.extend, put)
        found = dict(own)
        return [value if rank == self.rank else pickle.loads(found[rank]) for rank in range(self.size)]

    def exchange(self, values: list[Any]) -> list[Any]:
        """Give each rank its value; return what the ranks have for this one, in their order."""
        found = list(values)
        others = [rank for rank in range(self.size) if rank != self.rank]
        with self._exchanging():
            for rank in others:
                self._send(rank, [(self.rank, pickle.dumps(values[rank], protocol=5))])
            for rank in others:
                found[rank] = pickle.loads(self._receive(rank)[0][1])
        return found

    def _reduce(self, how: str, arrays: Sequence[Numbers]) -> None:
        if self.size == 1:
            return
        own = [np.ascontiguousarray(array) for array in arrays]
        with self._exchanging():
            if self.size == 2 or sum(array.nbytes for array in own) <= _HALVED_BYTES:
                self._over_cube(
                    lambda: self._written(own),
                    lambda message: self._take(message, own, how),
                    lambda message: self._take(message, own, "set"),
                )
            else:
                self._by_halves(own, how)
        for array, contiguous in zip(arrays, own, strict=True):
            if array is not contiguous:
                array[...] = contiguous.reshape(array.shape)

    # On the cube --------------------------------------------------

    @property
    def _n_inner(self) -> int:
        """Ranks of the largest hypercube among them."""
        return 1 << (self.size.bit_length() - 1)

    def _over_cube(
        self, written: Callable[[], Any], combine: Callable[[Any], None], put: Callable[[Any], None]
    ) -> None:
        """Combine the values of all ranks, in any order: what is there now is `written`, all of it is `put`."""
        outer = self._outer_partner()
        if self.rank >= self._n_inner:
            self._send(outer, written())
            put(self._receive(outer))
            return
        if outer is not None:
            combine(self._receive(outer))
        for partner in self._partners():
            self._send(partner, written())
            combine(self._receive(partner))
        if outer is not None:
            self._send(outer, written())

    def _by_halves(self, arrays: Sequence[Numbers], how: str) -> None:
        """Combine arrays over the ranks, in place: each rank does so for its part, then all hand out theirs."""
        # Numbers of a column, which are about as large, lie side by side.
        numbers = np.concatenate([array.ravel(order="F") for array in arrays])
        outer = self._outer_partner()
        if self.rank >= self._n_inner:
            self._send(outer, self._written([numbers]))
            self._take(self._receive(outer), [numbers], "set")
        else:
            if outer is not None:
                self._take(self._receive(outer), [numbers], how)
            self._halve(numbers, how)
            if outer is not None:
                self._send(outer, self._written([numbers]))
        start = 0
        for array in arrays:
            array[...] = numbers[start : start + array.size].reshape(array.shape, order="F")
            start += array.size

    def _halve(self, numbers: Numbers, how: str) -> None:
        """The same among the ranks of the cube."""
        first, last = 0, len(numbers)
        given_away = []
        for partner in self._partners():
            middle = (first + last) // 2
            kept, sent = slice(first, middle), slice(middle, last)
            if partner < self.rank:
                kept, sent = sent, kept
            self._send(partner, self._written([numbers[sent]]))
            self._take(self._receive(partner), [numbers[kept]], how)
            given_away.append((partner, sent))
            first, last = kept.start, kept.stop
        for partner, sent in reversed(given_away):
            # The partner has added what it was sent, and so sends what belongs there.
            self._send(partner, self._written([numbers[first:last]]))
            self._take(self._receive(partner), [numbers[sent]], "set")
            first, last = min(first, sent.start), max(last, sent.stop)

    def _outer_partner(self) -> int | None:
        n_inner = self._n_inner
        if self.rank >= n_inner:
            return self.rank - n_inner
        return self.rank + n_inner if self.rank + n_inner < self.size else None

    def _partners(self) -> Iterator[int]:
        distance = self._n_inner >> 1
        while distance:
            yield self.rank ^ distance
            distance >>= 1

    # Messages --------------------------------------------------

    @contextmanager
    def _exchanging(self) -> Iterator[None]:
        self.n_exchanges += 1
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()
        yield
        self._transport.flush()

    def _send(self, rank: Any, payload: Any) -> None:
        self._sent[rank] += 1
        self._put(rank, (self.n_exchanges, self._sent[rank]), payload)

    def _put(self, rank: int, tag: Tag, payload: Any) -> None:
        if isinstance(payload, np.ndarray):
            self.n_bytes += payload.nbytes
        else:
            self.n_bytes += sum(len(content) for _, content in payload)
        self._transport.send(rank, tag, payload)

    def _receive(self, rank: Any) -> Any:
        self._received[rank] += 1
        return self._transport.receive(rank, (self.n_exchanges, self._received[rank]))

    def _written(self, arrays: Sequence[Numbers]) -> NDArray[Any]:
        """Numbers as they are sent: a copy, which nobody changes meanwhile."""
        return narrowed(arrays)

    def _take(self, message: NDArray[Any], arrays: Sequence[Numbers], how: str) -> None:
        """Combine arrays with the numbers of a message, in place."""
        widen(message, arrays, how)
