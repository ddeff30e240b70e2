"""Sums, maxima and gathering over ranks that can only send messages to each other.

Ranks exchange with partners of a hypercube: small arrays as a whole at each of its dimensions, large ones by halves,
so that each number is sent about twice, however many ranks there are, and in few bytes. The ranks beyond a power of two
hand their numbers to a partner below it, and get the result from there.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastens.distributed.narrowing import narrowed, widened
from fastens.engine.comm import Comm

Numbers = NDArray[np.int64]
Tag = tuple[int, int]

# Larger arrays are halved: below, a message costs more than its bytes.
_HALVED_BYTES = 1 << 16
# Of larger arrays, numbers are sent in no more bytes than they need.
_NARROWED_BYTES = 1 << 12


class RankLostError(RuntimeError):
    """A rank does not answer any more: the fit can go on without it, from its last checkpoint."""


class Transport(Protocol):
    """What carries messages between the ranks of a fit. Arrays that are sent may be read until the answer to them."""

    rank: int
    size: int

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank, without waiting for it."""

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for what a rank has sent by this tag; RankLostError where it will not come."""


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
        self.n_exchanges = self.n_bytes = 0

    def sum(self, *arrays: Numbers) -> None:
        """Add up arrays over the ranks, in place."""
        self._reduce(np.add, arrays)

    def max(self, *arrays: Numbers) -> None:
        """Replace arrays by their elementwise maxima over the ranks."""
        self._reduce(np.maximum, arrays)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order: anything that can be pickled."""
        if self.size == 1:
            return [value]
        self._begin()
        own = [(self.rank, pickle.dumps(value, protocol=5))]
        found = dict(self._over_cube(own, list.__add__))
        return [value if rank == self.rank else pickle.loads(found[rank]) for rank in range(self.size)]

    def exchange(self, values: list[Any]) -> list[Any]:
        """Give each rank its value; return what the ranks have for this one, in their order."""
        self._begin()
        others = [rank for rank in range(self.size) if rank != self.rank]
        for rank in others:
            self._send(rank, [(self.rank, pickle.dumps(values[rank], protocol=5))])
        found = list(values)
        for rank in others:
            found[rank] = pickle.loads(self._receive(rank)[0][1])
        return found

    def _reduce(self, combined: Callable[..., Numbers], arrays: tuple[Numbers, ...]) -> None:
        if self.size == 1:
            return
        self._begin()
        # A copy, which nobody changes while it is being sent.
        # Numbers of a column, which are about as large, lie side by side.
        numbers = np.concatenate([array.ravel(order="F") for array in arrays])
        if numbers.nbytes <= _HALVED_BYTES or self.size == 2:
            numbers = self._over_cube(numbers, combined)
        else:
            self._by_halves(numbers, combined)
        start = 0
        for array in arrays:
            array[...] = numbers[start : start + array.size].reshape(array.shape, order="F")
            start += array.size

    # On the cube --------------------------------------------------

    @property
    def _n_inner(self) -> int:
        """Ranks of the largest hypercube among them."""
        return 1 << (self.size.bit_length() - 1)

    def _over_cube(self, own: Any, combined: Callable[[Any, Any], Any]) -> Any:
        """Return the values of all ranks combined, in any order."""
        outer = self._outer_partner()
        if self.rank >= self._n_inner:
            self._send(outer, own)
            return self._receive(outer)
        if outer is not None:
            own = combined(own, self._receive(outer))
        for partner in self._partners():
            self._send(partner, own)
            own = combined(own, self._receive(partner))
        if outer is not None:
            self._send(outer, own)
        return own

    def _by_halves(self, numbers: Numbers, combined: Callable[..., Numbers]) -> None:
        """Combine an array over the ranks, in place: each rank does so for its part, then all hand out theirs."""
        outer = self._outer_partner()
        if self.rank >= self._n_inner:
            self._send(outer, numbers)
            numbers[:] = self._receive(outer)
            return
        if outer is not None:
            combined(numbers, self._receive(outer), out=numbers)
        first, last = 0, len(numbers)
        given_away = []
        for partner in self._partners():
            middle = (first + last) // 2
            kept, sent = slice(first, middle), slice(middle, last)
            if partner < self.rank:
                kept, sent = sent, kept
            self._send(partner, numbers[sent])
            combined(numbers[kept], self._receive(partner), out=numbers[kept])
            given_away.append((partner, sent))
            first, last = kept.start, kept.stop
        for partner, sent in reversed(given_away):
            # The partner has added what it was sent, and so sends what belongs there.
            self._send(partner, numbers[first:last])
            numbers[sent] = self._receive(partner)
            first, last = min(first, sent.start), max(last, sent.stop)
        if outer is not None:
            self._send(outer, numbers)

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

    def _begin(self) -> None:
        self.n_exchanges += 1
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()

    def _send(self, rank: Any, payload: Any) -> None:
        if isinstance(payload, np.ndarray):
            payload = self._written(payload)
            self.n_bytes += payload.nbytes
        else:
            self.n_bytes += sum(len(content) for _, content in payload)
        self._sent[rank] += 1
        self._transport.send(rank, (self.n_exchanges, self._sent[rank]), payload)

    def _written(self, numbers: Numbers) -> NDArray[Any]:
        """Numbers as they are sent."""
        return narrowed(numbers) if numbers.nbytes > _NARROWED_BYTES else numbers

    def _receive(self, rank: Any) -> Any:
        self._received[rank] += 1
        found = self._transport.receive(rank, (self.n_exchanges, self._received[rank]))
        return widened(found) if getattr(found, "dtype", None) == np.uint8 else found
