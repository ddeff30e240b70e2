"""What a Dask worker does for a fit: it takes partitions, exchanges messages with other workers, and trains one rank.

Messages go over the connections that the workers have anyway, so that they pass wherever the cluster works: no port is
opened. A rank trains in a thread of the worker's pool and has left its slot there (`secede`): fits that run at once do
not wait for each other.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributed import get_worker, secede
from distributed.protocol import to_serialize

from fastens.distributed.mailbox import Mailbox
from fastens.distributed.rank_fit import FitTask, Watcher, fit_rank, fitted_state
from fastens.distributed.reduction import RankLostError, RanksComm, Tag
from fastens.engine.threads import limited_threads

_HANDLER = "fastens_message"
_EXTENSION = "fastens"
Key = tuple[str, int]  # a fit, and its attempt


@dataclass(frozen=True)
class Seat:
    """The place of a worker in a fit.

    Attributes
    ----------
    key : (str, int)
        The fit, and which attempt at it this is.
    rank : int
        The worker's rank.
    addresses : list of str
        Those of the workers of all ranks.
    patience : float
        Seconds that may pass without the driver.
    """

    key: Key
    rank: int
    addresses: Sequence[str]
    patience: float


class Session(Watcher):
    """A rank on its worker: its partitions, its messages, and what the driver is to be told."""

    def __init__(self, worker: Any, seat: Seat, task: FitTask) -> None:
        self.worker, self.seat, self.task = worker, seat, task
        self.rank, self.size = seat.rank, len(seat.addresses)
        self.mailbox = Mailbox(seat.patience)
        self.tables: dict[str, dict[int, Any]] = defaultdict(dict)
        self._loop = asyncio.get_running_loop()
        self._outgoing: dict[int, asyncio.Queue[Any]] = {}
        self._senders: list[asyncio.Task[None]] = []
        self._events: deque[tuple[str, Any]] = deque()
        self._has_events = asyncio.Event()
        self._answers: deque[Any] = deque()
        self._answered = threading.Condition()

    # Messages --------------------------------------------------

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank, without waiting for it."""
        self._loop.call_soon_threadsafe(self._send, rank, tag, payload)

    def _send(self, rank: int, tag: Tag, payload: Any) -> None:
        if rank not in self._outgoing:
            self._outgoing[rank] = asyncio.Queue()
            self._senders.append(self._loop.create_task(self._send_all(rank)))
        self._outgoing[rank].put_nowait((tag, payload))

    async def _send_all(self, rank: int) -> None:
        """Send what there is for a rank, on a connection of its own and without answers, until the session closes."""
        address, patience = self.seat.addresses[rank], self.seat.patience
        comm = None
        try:
            comm = await asyncio.wait_for(self.worker.rpc.connect(address), patience)
            while True:
                tag, payload = await self._outgoing[rank].get()
                message = {"key": self.seat.key, "sender": self.rank, "tag": tag, "payload": to_serialize(payload)}
                await asyncio.wait_for(comm.write({"op": _HANDLER, "reply": False, **message}), patience)
        except Exception as error:
            self.mailbox.close(f"{address} cannot be reached: {error!r}")
        finally:
            if comm is not None:
                self.worker.rpc.reuse(address, comm)

    def close(self, reason: str) -> None:
        """End all that still runs."""
        self.mailbox.close(reason)
        for sender in self._senders:
            sender.cancel()

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for what a rank has sent by this tag."""
        return self.mailbox.take(rank, tag)

    # The driver --------------------------------------------------

    def report(self, kind: str, content: Any) -> None:
        """Keep something for the driver; of checkpoints the last."""
        self._loop.call_soon_threadsafe(self._keep, kind, content)

    def _keep(self, kind: str, content: Any) -> None:
        if kind == "checkpoint":
            self._events = deque(event for event in self._events if event[0] != kind)
        self._events.append((kind, content))
        self._has_events.set()

    def ask(self, kind: str, content: Any) -> Any:
        """Wait for the driver's answer."""
        self.report(kind, content)
        with self._answered:
            while not self._answers:
                self.mailbox.check()
                self._answered.wait(1.0)
            return self._answers.popleft()

    def answer(self, value: Any) -> None:
        """Take an answer of the driver."""
        with self._answered:
            self._answers.append(value)
            self._answered.notify_all()

    async def events(self, seconds: float) -> list[tuple[str, Any]]:
        """What there is to be told, as soon as there is anything, or after so long."""
        try:
            await asyncio.wait_for(self._has_events.wait(), seconds)
        except TimeoutError:
            return []
        found = list(self._events)
        self._events.clear()
        self._has_events.clear()
        return found


# On the event loop of a worker --------------------------------------------------


def _sessions(worker: Any) -> dict[Key, Session]:
    """The fits that a worker takes part in."""
    if _EXTENSION not in worker.extensions:
        sessions: dict[Key, Session] = {}
        worker.extensions[_EXTENSION] = sessions

        async def take(key: Sequence[Any], sender: int, tag: Sequence[int], payload: Any) -> None:
            session = sessions.get((key[0], key[1]))
            if session is not None:  # else the message is late: the fit has begun anew, or ended
                session.mailbox.put(sender, (tag[0], tag[1]), payload)

        worker.handlers[_HANDLER] = take
    found: dict[Key, Session] = worker.extensions[_EXTENSION]
    return found


async def open_session(seat: Seat, task: FitTask, dask_worker: Any) -> None:
    """Begin to take messages and partitions; an earlier attempt at the same fit ends."""
    sessions = _sessions(dask_worker)
    for key in [key for key in sessions if key[0] == seat.key[0]]:
        sessions.pop(key).close("the fit has begun anew")
    sessions[seat.key] = Session(dask_worker, seat, task)


async def close_session(key: Key, dask_worker: Any) -> None:
    """End what is still running, and forget all of it."""
    session = _sessions(dask_worker).pop(key, None)
    if session is not None:
        session.close("the fit has ended")


async def renew_session(key: Key, dask_worker: Any) -> None:
    """Let a fit go on; KeyError where there is none."""
    _sessions(dask_worker)[key].mailbox.renew()


async def next_events(key: Key, seconds: float, dask_worker: Any) -> list[tuple[str, Any]]:
    """What the first rank has to tell, as soon as there is anything, or after so long."""
    session = _sessions(dask_worker).get(key)
    return [] if session is None else await session.events(seconds)


async def give_answer(key: Key, value: Any, dask_worker: Any) -> None:
    """Hand an answer to the first rank."""
    session = _sessions(dask_worker).get(key)
    if session is not None:
        session.answer(value)


# Tasks --------------------------------------------------


def take_partition(key: Key, table: str, number: int, contents: dict[str, Any]) -> int:
    """Put a partition where its rank finds it; return its number of rows.

    Dask forgets it then: there is no second copy.
    """
    counts = {name: value.shape[0] if hasattr(value, "shape") else len(value) for name, value in contents.items()}
    n_rows = counts[table]
    for name, count in counts.items():
        if count != n_rows:
            raise ValueError(
                f"{name} must have as many rows as {table} in each partition; in partition {number} it has {count} "
                f"for {n_rows}."
            )
    session = _session_of(key)
    session.tables[table][number] = contents
    return int(n_rows)


def without_rows(contents: dict[str, Any]) -> dict[str, Any]:
    """Return a partition without its rows."""
    return {name: values[:0] for name, values in contents.items()}


def train_rank(key: Key, n_rows: Sequence[int]) -> Any:
    """Train once all partitions are there; return what the first rank has learned, and None on others."""
    secede()
    worker, session = get_worker(), _session_of(key)
    tables = {name: [found[number] for number in sorted(found)] for name, found in session.tables.items()}
    session.tables.clear()
    try:
        with limited_threads(worker.state.nthreads):
            model = fit_rank(session.task, RanksComm(session), tables, session)
    finally:
        session.report("end", None)
    return fitted_state(model) if session.rank == 0 else None


def _session_of(key: Key) -> Session:
    session = _sessions(get_worker()).get(key)
    if session is None:
        raise RankLostError("the fit has ended on this worker")
    return session
