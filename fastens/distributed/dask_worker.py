"""The Dask worker's side of a fit: receives partitions, exchanges messages with other workers and trains one rank.

Messages use connections between the existing addresses of the workers. No port is opened, so messages pass wherever the
cluster works. The training thread takes over plain TCP connections; all others, such as TLS connections, stay with the
event loop. A rank trains in a thread of the worker's pool and gives up its slot there (`secede`), so concurrent fits do
not block each other.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributed import get_worker, secede
from distributed.comm import CommClosedError
from distributed.protocol import to_serialize

from fastens.distributed.rank_fit import FitTask
from fastens.distributed.reduction import RankLostError, Sockets, Tag
from fastens.distributed.session import Event, Session

_MESSAGE, _CONNECTION = "fastens_message", "fastens_connection"
# Reserved tags: they announce how messages from a rank arrive, and how messages to a rank are sent.
_FIRST, _CONNECTED = (0, 0), (0, 1)
_EXTENSION = "fastens"
Key = tuple[str, int]  # the fit and the number of the attempt


@dataclass(frozen=True)
class RankSettings:
    """The place of a worker in a fit.

    Attributes
    ----------
    key : (str, int)
        The fit and the number of the attempt.
    rank : int
        The rank of the worker.
    addresses : list of str
        The addresses of the workers of all ranks.
    patience : float
        The number of seconds to wait for a client that does not respond.
    """

    key: Key
    rank: int
    addresses: Sequence[str]
    patience: float


class WorkerSession(Session):
    """A rank on a Dask worker."""

    def __init__(self, worker: Any, settings: RankSettings, task: FitTask) -> None:
        super().__init__(settings.rank, len(settings.addresses), settings.patience, task)
        self.settings, self._worker = settings, worker
        self._loop = asyncio.get_running_loop()
        self.sockets = Sockets(self.mailbox.check)
        # True for ranks that messages are sent to, and received from, over sockets.
        self._sends_by_socket: dict[int, bool] = {}
        self._receives_by_socket: dict[int, bool] = {}
        self._outgoing: dict[int, asyncio.Queue[Any]] = {}
        self._senders: list[asyncio.Task[None]] = []

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or a picklable value to a rank, without waiting; the first call connects to it."""
        if rank not in self._sends_by_socket:
            asyncio.run_coroutine_threadsafe(self._connect(rank), self._loop)
            self._sends_by_socket[rank] = self.mailbox.take(rank, _CONNECTED)
        if self._sends_by_socket[rank]:
            self.sockets.send(rank, tag, payload)
        else:
            self._loop.call_soon_threadsafe(self._outgoing[rank].put_nowait, (tag, payload))

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for the message with this tag from a rank and return its payload."""
        if rank not in self._receives_by_socket:
            self._receives_by_socket[rank] = self.mailbox.take(rank, _FIRST)
        return self.sockets.receive(rank, tag) if self._receives_by_socket[rank] else self.mailbox.take(rank, tag)

    def flush(self) -> None:
        """Wait until all messages have been handed to the operating system."""
        self.sockets.flush()

    async def _connect(self, rank: int) -> None:
        """Connect to a rank: keep a socket or start `_send_all`, and report which to `mailbox`; close it on failure."""
        address, patience = self.settings.addresses[rank], self.settings.patience
        opening = {"op": _CONNECTION, "reply": False, "key": self.settings.key, "sender": self.rank}
        try:
            comm = await asyncio.wait_for(self._worker.rpc.connect(address), patience)
            try:
                await asyncio.wait_for(comm.write(opening), patience)
                is_taken = await asyncio.wait_for(comm.read(), patience)
                if is_taken:
                    self.sockets.add_outgoing(rank, _detach_socket(comm))
                else:
                    self._outgoing[rank] = asyncio.Queue()
                    self._senders.append(self._loop.create_task(self._send_all(rank)))
            finally:
                self._worker.rpc.reuse(address, comm)
            self.mailbox.put(rank, _CONNECTED, is_taken)
        except Exception as error:
            self.mailbox.close(f"{address} cannot be reached: {error!r}")

    async def _send_all(self, rank: int) -> None:
        """Send queued messages to a rank over a separate connection, without replies, until the session closes."""
        address, patience = self.settings.addresses[rank], self.settings.patience
        comm = None
        try:
            comm = await asyncio.wait_for(self._worker.rpc.connect(address), patience)
            while True:
                tag, payload = await self._outgoing[rank].get()
                message = {"key": self.settings.key, "sender": self.rank, "tag": tag, "payload": to_serialize(payload)}
                await asyncio.wait_for(comm.write({"op": _MESSAGE, "reply": False, **message}), patience)
        except Exception as error:
            self.mailbox.close(f"{address} cannot be reached: {error!r}")
        finally:
            if comm is not None:
                self._worker.rpc.reuse(address, comm)

    def close(self, reason: str) -> None:
        """Make all waiting calls raise RankLostError with this reason, and stop sending."""
        self.mailbox.close(reason)
        self.sockets.shut_down()
        for sender in self._senders:
            sender.cancel()


def _detach_socket(comm: Any) -> socket.socket:
    """Return a connection's socket, detached from the event loop; raise CommClosedError if data is still unsent."""
    if comm.closed() or comm.stream.writing():
        raise CommClosedError(f"{comm} is still in use")
    duplicate: socket.socket = comm.stream.socket.dup()
    comm.abort()
    return duplicate


# On the event loop of a worker --------------------------------------------------


def _sessions(worker: Any) -> dict[Key, WorkerSession]:
    """Return the sessions of a worker by key; the first call also registers the handlers of incoming messages."""
    if _EXTENSION not in worker.extensions:
        sessions: dict[Key, WorkerSession] = {}
        worker.extensions[_EXTENSION] = sessions

        async def take(key: Sequence[Any], sender: int, tag: Sequence[int], payload: Any) -> None:
            session = sessions.get((key[0], key[1]))
            if session is not None:  # otherwise the message is late: the fit has restarted or ended
                session.mailbox.put(sender, (tag[0], tag[1]), payload)

        async def connect(comm: Any, key: Sequence[Any], sender: int) -> None:
            session = sessions.get((key[0], key[1]))
            if session is None:
                comm.abort()
                return
            is_taken = hasattr(comm, "stream") and not isinstance(comm.stream.socket, ssl.SSLSocket)
            await comm.write(is_taken)
            if is_taken:  # before the event loop can read more from the socket
                session.sockets.add_incoming(sender, _detach_socket(comm))
            session.mailbox.put(sender, _FIRST, is_taken)

        worker.handlers |= {_MESSAGE: take, _CONNECTION: connect}
    registered: dict[Key, WorkerSession] = worker.extensions[_EXTENSION]
    return registered


async def open_session(settings: RankSettings, task: FitTask, dask_worker: Any) -> None:
    """Open the session of a rank on this worker, and close the sessions of earlier attempts at the same fit."""
    sessions = _sessions(dask_worker)
    for key in [key for key in sessions if key[0] == settings.key[0]]:
        sessions.pop(key).close("the fit was restarted")
    sessions[settings.key] = WorkerSession(dask_worker, settings, task)


async def close_session(key: Key, dask_worker: Any) -> None:
    """Make all waiting calls of the session with this key fail, and discard it; do nothing if there is none."""
    session = _sessions(dask_worker).pop(key, None)
    if session is not None:
        session.close("the fit has ended")


async def renew_session(key: Key, dask_worker: Any) -> None:
    """Extend the deadline at which a session gives up its fit; raise KeyError for an unknown session."""
    _sessions(dask_worker)[key].mailbox.renew()


async def next_events(key: Key, last_received: int, seconds: float, dask_worker: Any) -> list[Event]:
    """Return `Session.events` of the session with this key, or [] if it has been closed."""
    session = _sessions(dask_worker).get(key)
    return [] if session is None else await asyncio.to_thread(session.events, last_received, seconds)


async def store_answer(key: Key, number: int, value: Any, dask_worker: Any) -> None:
    """Pass the answer to question `number` to the session with this key; do nothing if it has been closed."""
    session = _sessions(dask_worker).get(key)
    if session is not None:
        session.answer(number, value)


# Tasks --------------------------------------------------


def store_partition(key: Key, table: str, number: int, names: Sequence[str], *values: Any) -> int:
    """Store partition `number` of a table in the session with this key; return its number of rows.

    `values` are the table and its per-row arguments, called `names`. Dask then
    releases its own reference, so memory holds one copy only.
    """
    return _find_session(key).store_partition(table, number, dict(zip(names, values, strict=True)))


def train_rank(key: Key, *n_rows: int) -> Any:
    """Train the rank of a session; Dask passes `n_rows` after loading. Return rank 0's fitted state, else None."""
    secede()
    return _find_session(key).train(get_worker().state.nthreads)


def _find_session(key: Key) -> WorkerSession:
    """Return this worker's session with a key; raise RankLostError if it has been closed."""
    session = _sessions(get_worker()).get(key)
    if session is None:
        raise RankLostError("the fit has ended on this worker")
    return session
