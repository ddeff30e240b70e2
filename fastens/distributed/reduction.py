"""Collective operations between the processes of a fit, over mailboxes and sockets."""

from __future__ import annotations

import os
import pickle
import selectors
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fastens.distributed.narrowing import pack_ints, unpack_ints
from fastens.engine.comm import Comm

Numbers = NDArray[np.int64]
Tag = tuple[int, int]

# Larger arrays are reduced by recursive halving; for smaller arrays, latency costs more than bandwidth.
_HALVED_BYTES = 1 << 16


class RankLostError(RuntimeError):
    """Error raised if a rank does not respond; the fit can resume from its last checkpoint without that rank."""


class Transport(Protocol):
    """Transport of messages between the ranks of a fit."""

    rank: int
    size: int

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or a picklable value to a rank, without waiting until it is received."""

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for the message with this tag from a rank and return it; raise RankLostError if it cannot arrive."""

    def flush(self) -> None:
        """Wait until all messages are sent, because the next call may come much later."""


class RanksComm(Comm):
    """Communication of a rank with the other ranks of its fit, by point-to-point messages.

    Attributes
    ----------
    n_exchanges : int
        The number of collective operations so far.
    n_bytes : int
        The number of bytes that this rank has sent.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.rank, self.size = transport.rank, transport.size
        self.sums_travel = self.size == 2
        self.n_exchanges = self.n_bytes = self._n_travelling = 0

    def allreduce_sum(self, *arrays: Numbers) -> None:
        """Replace integer arrays, in place, by their elementwise sums over the ranks."""
        self._reduce("sum", arrays)

    def begin_allreduce_sum(self, *arrays: Numbers) -> Callable[[], None]:
        """Start summing arrays over the ranks; return a function that waits for the sums.

        The returned functions must be called in the order of the calls of this method. With two ranks, a sum is one
        message each way, which is sent in the background. With more ranks, the sums are computed at the end.
        """
        if not self.sums_travel:
            return super().begin_allreduce_sum(*arrays)
        self.n_exchanges += 1
        self._n_travelling += 1
        partner, tag = 1 - self.rank, (self.n_exchanges, 1)
        self._put(partner, tag, pack_ints(arrays))

        def finish() -> None:
            unpack_ints(self._transport.receive(partner, tag), arrays, "sum")
            self._n_travelling -= 1
            if self._n_travelling == 0:
                self._transport.flush()

        return finish

    def allreduce_max(self, *arrays: Numbers) -> None:
        """Replace integer arrays, in place, by their elementwise maxima over the ranks."""
        self._reduce("max", arrays)

    def allgather(self, value: Any) -> list[Any]:
        """Return the values of all ranks in rank order; values can be any picklable objects."""
        if self.size == 1:
            return [value]
        messages = [(self.rank, pickle.dumps(value, protocol=5))]

        def put(received: list[Any]) -> None:
            messages[:] = received

        with self._counting_messages():
            self._combine_by_doubling(lambda: list(messages), messages.extend, put)
        by_rank = dict(messages)
        return [value if rank == self.rank else pickle.loads(by_rank[rank]) for rank in range(self.size)]

    def alltoall(self, values: list[Any]) -> list[Any]:
        """Send `values[k]` to each rank k; return the values that the ranks have sent to this one, in rank order."""
        results = list(values)
        others = [rank for rank in range(self.size) if rank != self.rank]
        with self._counting_messages():
            for rank in others:
                self._send(rank, [(self.rank, pickle.dumps(values[rank], protocol=5))])
            for rank in others:
                results[rank] = pickle.loads(self._receive(rank)[0][1])
        return results

    def _reduce(self, operation: str, arrays: Sequence[Numbers]) -> None:
        """Replace arrays, in place, by their elementwise "sum" or "max" (`operation`) over the ranks."""
        if self.size == 1:
            return
        buffers = [np.ascontiguousarray(array) for array in arrays]
        with self._counting_messages():
            if self.size == 2 or sum(array.nbytes for array in buffers) <= _HALVED_BYTES:
                self._combine_by_doubling(
                    lambda: pack_ints(buffers),
                    lambda message: unpack_ints(message, buffers, operation),
                    lambda message: unpack_ints(message, buffers, "set"),
                )
            else:
                self._combine_by_halving(buffers, operation)
        for array, contiguous in zip(arrays, buffers, strict=True):
            if array is not contiguous:
                array[...] = contiguous.reshape(array.shape)

    # Hypercube --------------------------------------------------

    @property
    def _n_inner(self) -> int:
        """Number of ranks in the largest hypercube that the ranks can form."""
        return 1 << (self.size.bit_length() - 1)

    def _combine_by_doubling(
        self, get_partial: Callable[[], Any], combine: Callable[[Any], None], set_result: Callable[[Any], None]
    ) -> None:
        """Combine the values of all ranks in any order, by recursive doubling.

        `get_partial` returns the partial result of this rank as a message, `combine` adds a received message to it, and
        `set_result` replaces it by the final result.
        """
        outer = self._outer_partner()
        if self.rank >= self._n_inner:
            self._send(outer, get_partial())
            set_result(self._receive(outer))
            return
        if outer is not None:
            combine(self._receive(outer))
        for partner in self._partners():
            self._send(partner, get_partial())
            combine(self._receive(partner))
        if outer is not None:
            self._send(outer, get_partial())

    def _combine_by_halving(self, arrays: Sequence[Numbers], operation: str) -> None:
        """Combine large arrays over all ranks by "sum" or "max", in place, by a reduce-scatter and an allgather."""
        # Column order puts the numbers of a column, which have similar magnitudes, next to each other.
        numbers = np.concatenate([array.ravel(order="F") for array in arrays])
        outer = self._outer_partner()
        if self.rank >= self._n_inner:
            self._send(outer, pack_ints([numbers]))
            unpack_ints(self._receive(outer), [numbers], "set")
        else:
            if outer is not None:
                unpack_ints(self._receive(outer), [numbers], operation)
            self._halve(numbers, operation)
            if outer is not None:
                self._send(outer, pack_ints([numbers]))
        start = 0
        for array in arrays:
            array[...] = numbers[start : start + array.size].reshape(array.shape, order="F")
            start += array.size

    def _halve(self, numbers: Numbers, operation: str) -> None:
        """Combine an array over the ranks of the hypercube, in place: each reduces a part, then all exchange parts."""
        first, last = 0, len(numbers)
        sent_parts = []
        for partner in self._partners():
            middle = (first + last) // 2
            kept, sent = slice(first, middle), slice(middle, last)
            if partner < self.rank:
                kept, sent = sent, kept
            self._send(partner, pack_ints([numbers[sent]]))
            unpack_ints(self._receive(partner), [numbers[kept]], operation)
            sent_parts.append((partner, sent))
            first, last = kept.start, kept.stop
        for partner, sent in reversed(sent_parts):
            # The partner has reduced the part that it was sent, and returns the result.
            self._send(partner, pack_ints([numbers[first:last]]))
            unpack_ints(self._receive(partner), [numbers[sent]], "set")
            first, last = min(first, sent.start), max(last, sent.stop)

    def _outer_partner(self) -> int | None:
        """Return the rank paired with this one because one of the two is outside the hypercube; None if unpaired."""
        n_inner = self._n_inner
        if self.rank >= n_inner:
            return self.rank - n_inner
        return self.rank + n_inner if self.rank + n_inner < self.size else None

    def _partners(self) -> Iterator[int]:
        """Yield this rank's neighbours in the hypercube of ranks, the most distant one first."""
        distance = self._n_inner >> 1
        while distance:
            yield self.rank ^ distance
            distance >>= 1

    # Messages --------------------------------------------------

    @contextmanager
    def _counting_messages(self) -> Iterator[None]:
        """Number the messages of one collective operation within the context, and flush them at its end."""
        self.n_exchanges += 1
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()
        yield
        self._transport.flush()

    def _send(self, rank: Any, payload: Any) -> None:
        """Send an array or a list of (rank, bytes) to a rank, tagged with the operation and a message count."""
        self._sent[rank] += 1
        self._put(rank, (self.n_exchanges, self._sent[rank]), payload)

    def _put(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or a list of (rank, bytes) under a tag, and add its size to `n_bytes`."""
        if isinstance(payload, np.ndarray):
            self.n_bytes += payload.nbytes
        else:
            self.n_bytes += sum(len(content) for _, content in payload)
        self._transport.send(rank, tag, payload)

    def _receive(self, rank: Any) -> Any:
        """Return a rank's next message of this operation: an array or a list of (rank, bytes)."""
        self._received[rank] += 1
        return self._transport.receive(rank, (self.n_exchanges, self._received[rank]))


# Seconds between checks of the deadline while no message arrives.
_MAILBOX_LOOK = 1.0


class Mailbox:
    """Mailbox of the messages to one rank. Waiting ends if the coordinator of the fit stops renewing it.

    Parameters
    ----------
    patience : float
        The number of seconds after the last `renew` at which waiting ends.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._messages: dict[tuple[int, Tag], Any] = {}
        self._changed = threading.Condition()
        self._closed: str | None = None
        self.renew()

    def renew(self) -> None:
        """Move the deadline to `patience` seconds from now, because the process that started the fit has responded."""
        self._expires = time.monotonic() + self._patience

    def put(self, rank: int, tag: Tag, payload: Any) -> None:
        """Store a message that a rank has sent to this one, and wake the thread that waits for it."""
        with self._changed:
            self._messages[rank, tag] = payload
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """Make waiting and later calls raise RankLostError with the reason; only the first call's reason counts."""
        with self._changed:
            self._closed = self._closed or reason
            self._messages.clear()
            self._changed.notify_all()

    def take(self, rank: int, tag: Tag) -> Any:
        """Wait for the message with this tag from a rank and remove it; raise RankLostError if the fit has ended."""
        key = rank, tag
        with self._changed:
            while key not in self._messages:
                self.check()
                self._changed.wait(_MAILBOX_LOOK)
            return self._messages.pop(key)

    def check(self) -> None:
        """Raise RankLostError if the mailbox is closed or the deadline has passed."""
        if self._closed is not None:
            raise RankLostError(self._closed)
        if time.monotonic() > self._expires:
            raise RankLostError(f"the process that started the fit has not responded for {self._patience:g} seconds")


# Seconds between checks of whether to stop waiting.
_LOOK = 0.2
# Seconds for which a thread polls before it sleeps, because waking up takes long. On two workers with 2 million rows, a
# tree took 49.2 ms with 0, 46.3 with 0.0005, 45.6 with 0.001 and 46.5 with 0.003 (means of three runs).
_AWAKE = 1e-3
# Message header: the tag, True if an array rather than a pickle follows, and its number of bytes.
_HEAD = struct.Struct("<qq?q")
# The maximum number of bytes of a message that is read into a reusable buffer, because allocation costs more than the
# read.
_MAX_KEPT = 1 << 22
# True if one call can send several buffers; Windows does not support this.
_GATHERS = hasattr(socket.socket, "sendmsg")
# Yields the core to other threads that wait for it.
_give_way = getattr(os, "sched_yield", partial(time.sleep, 0))


class Sockets:
    """Socket connections of a rank: one for each rank it receives from, and one for each rank it sends to.

    Parameters
    ----------
    check : function
        Raises RankLostError if waiting must end.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._incoming: dict[int, socket.socket] = {}
        self._outgoing: dict[int, socket.socket] = {}
        self._unsent: dict[socket.socket, deque[memoryview]] = {}
        self._room = memoryview(bytearray(_HEAD.size))

    def add_incoming(self, rank: int, connection: socket.socket) -> None:
        """Use this connection, made non-blocking, to receive from a rank."""
        connection.setblocking(False)
        self._incoming[rank] = connection

    def add_outgoing(self, rank: int, connection: socket.socket) -> None:
        """Use this connection, made non-blocking, to send to a rank."""
        connection.setblocking(False)
        self._outgoing[rank] = connection

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or a picklable value to a rank, without waiting until it is received."""
        is_array = isinstance(payload, np.ndarray)
        body = memoryview(payload if is_array else pickle.dumps(payload, protocol=5)).cast("B")
        head = memoryview(_HEAD.pack(*tag, is_array, len(body)))
        connection = self._outgoing[rank]
        self._unsent.setdefault(connection, deque()).extend((head, body))
        self._send_pending(connection)

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for the next message from a rank and return it; raise RankLostError if its tag differs."""
        connection = self._incoming[rank]
        *header, is_array, n_bytes = _HEAD.unpack(self._read(connection, _HEAD.size))
        if tuple(header) != tag:
            raise RankLostError(f"rank {rank} sent message {tuple(header)}; expected {tag}")
        body = self._read(connection, n_bytes)
        return np.frombuffer(body, np.uint8) if is_array else pickle.loads(body)

    def flush(self) -> None:
        """Wait until all messages have been handed to the operating system."""
        while self._unsent:
            self._wait(None)

    def shut_down(self) -> None:
        """Shut down all connections, which ends waiting on both sides; it is called from another thread."""
        for connection in [*self._incoming.values(), *self._outgoing.values()]:
            with suppress(OSError):  # the other end may have shut down the connection already
                connection.shutdown(socket.SHUT_RDWR)

    def _send_pending(self, connection: socket.socket) -> None:
        """Send as many pending bytes over a connection as possible without blocking."""
        parts = self._unsent[connection]
        try:
            while parts:
                n_sent = connection.sendmsg(parts) if _GATHERS else connection.send(parts[0])
                while parts and n_sent >= len(parts[0]):
                    n_sent -= len(parts.popleft())
                if n_sent:
                    parts[0] = parts[0][n_sent:]
            del self._unsent[connection]
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(error)

    def _read(self, connection: socket.socket, n_bytes: int) -> memoryview:
        """Read `n_bytes` into a buffer that is valid until the next read.

        Unsent messages are sent meanwhile, because other ranks may wait for them.
        """
        if len(self._room) < n_bytes <= _MAX_KEPT:
            self._room = memoryview(bytearray(n_bytes))
        left = buffer = self._room[:n_bytes] if n_bytes <= _MAX_KEPT else memoryview(bytearray(n_bytes))
        since = time.perf_counter()
        while left:
            try:
                n_read = connection.recv_into(left)
            except BlockingIOError:
                if self._unsent or time.perf_counter() - since > _AWAKE:
                    self._wait(connection)
                    since = time.perf_counter()
                else:
                    _give_way()
                continue
            except OSError as error:
                self._fail(error)
            if not n_read:
                self._fail("it is closed")
            left = left[n_read:]
        return buffer

    def _wait(self, connection_to_read: socket.socket | None) -> None:
        """Send pending messages until `connection_to_read` is readable, or until all are sent if it is None."""
        with selectors.DefaultSelector() as selector:
            for connection in self._unsent:
                selector.register(connection, selectors.EVENT_WRITE)
            if connection_to_read is not None:
                selector.register(connection_to_read, selectors.EVENT_READ)
            while self._unsent or connection_to_read is not None:
                ready: Any = {key.fileobj for key, _ in selector.select(_LOOK)}
                if not ready:
                    self._check()
                if connection_to_read in ready:
                    return
                for connection in ready:
                    self._send_pending(connection)
                    if connection not in self._unsent:
                        selector.unregister(connection)

    def _fail(self, reason: object) -> None:
        """Raise RankLostError because a connection failed, or the error of `check` if the fit has ended anyway."""
        self._check()  # may raise a more specific error
        raise RankLostError(f"a connection to another rank is lost: {reason!r}")
