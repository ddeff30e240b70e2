"""Connections that the thread of a rank writes and reads itself: an event loop would have to wake for each message."""

from __future__ import annotations

import os
import pickle
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from fastens.distributed.reduction import RankLostError, Tag

# Seconds between looks at whether there is still something to wait for.
_LOOK = 0.2
# Seconds in which a thread asks again and again before it sleeps, as to be woken takes long. On two workers with 2
# million rows, a tree took 49.2 ms with 0, 46.3 with 0.0005, 45.6 with 0.001, 46.5 with 0.003 (means of three).
_AWAKE = 1e-3
# A tag, whether an array or something pickled follows, and how many bytes of it.
_HEAD = struct.Struct("<qq?q")
# Bytes of a message for which there is room that stays: new memory costs more than to read into it.
_MOST_KEPT = 1 << 22
# Whether several parts can be sent by one call: not on Windows.
_GATHERS = hasattr(socket.socket, "sendmsg")
# Let other threads run that wait for this core, where there are any.
_give_way = getattr(os, "sched_yield", partial(time.sleep, 0))


class Sockets:
    """The connections of a rank, one from each rank that it hears and one to each that it speaks to.

    Parameters
    ----------
    check : function
        Raises RankLostError where there is nothing to wait for any more.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._incoming: dict[int, socket.socket] = {}
        self._outgoing: dict[int, socket.socket] = {}
        self._unsent: dict[socket.socket, deque[memoryview]] = {}
        self._room = memoryview(bytearray(_HEAD.size))

    def hear(self, rank: int, connection: socket.socket) -> None:
        """Take a connection from a rank."""
        connection.setblocking(False)
        self._incoming[rank] = connection

    def speak_to(self, rank: int, connection: socket.socket) -> None:
        """Take a connection to a rank."""
        connection.setblocking(False)
        self._outgoing[rank] = connection

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank, without waiting for it."""
        is_array = isinstance(payload, np.ndarray)
        body = memoryview(payload if is_array else pickle.dumps(payload, protocol=5)).cast("B")
        head = memoryview(_HEAD.pack(*tag, is_array, len(body)))
        connection = self._outgoing[rank]
        self._unsent.setdefault(connection, deque()).extend((head, body))
        self._push(connection)

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for what a rank has sent by this tag."""
        connection = self._incoming[rank]
        *found, is_array, n_bytes = _HEAD.unpack(self._read(connection, _HEAD.size))
        if tuple(found) != tag:
            raise RankLostError(f"rank {rank} has sent message {tuple(found)} in the place of {tag}")
        body = self._read(connection, n_bytes)
        return np.frombuffer(body, np.uint8) if is_array else pickle.loads(body)

    def flush(self) -> None:
        """Wait until what was sent is on its way."""
        while self._unsent:
            self._wait(None)

    def shut_down(self) -> None:
        """Let all waiting end, here and at the other ranks; called from another thread."""
        for connection in [*self._incoming.values(), *self._outgoing.values()]:
            with suppress(OSError):  # where the other end has done so
                connection.shutdown(socket.SHUT_RDWR)

    def _push(self, connection: socket.socket) -> None:
        """Send as much as the connection takes now."""
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
        """So many bytes, until the next are read; what is unsent goes on its way, as others may wait for it."""
        if len(self._room) < n_bytes <= _MOST_KEPT:
            self._room = memoryview(bytearray(n_bytes))
        left = found = self._room[:n_bytes] if n_bytes <= _MOST_KEPT else memoryview(bytearray(n_bytes))
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
        return found

    def _wait(self, reading: socket.socket | None) -> None:
        """Send what is unsent until there is something to read, or where nothing is to be read, until all is sent."""
        with selectors.DefaultSelector() as selector:
            for connection in self._unsent:
                selector.register(connection, selectors.EVENT_WRITE)
            if reading is not None:
                selector.register(reading, selectors.EVENT_READ)
            while self._unsent or reading is not None:
                ready: Any = {key.fileobj for key, _ in selector.select(_LOOK)}
                if not ready:
                    self._check()
                if reading in ready:
                    return
                for connection in ready:
                    self._push(connection)
                    if connection not in self._unsent:
                        selector.unregister(connection)

    def _fail(self, why: object) -> None:
        self._check()  # which may know better
        raise RankLostError(f"a connection to another rank is lost: {why!r}")
