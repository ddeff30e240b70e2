"""What a Dask worker does for a fit: it takes partitions, exchanges messages with other workers, and trains one rank.

Messages go over the connections that the workers have anyway, so that they pass wherever the cluster works: no port is
opened. A rank trains in a thread of the worker's pool and has left its slot there (`secede`): fits that run at once do
not wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributed import get_worker, secede
from distributed.protocol import to_serialize

from fastens.distributed.rank_fit import FitTask
from fastens.distributed.reduction import RankLostError, Tag
from fastens.distributed.session import Event, Session

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


class WorkerSession(Session):
    """A rank on a Dask worker."""

    def __init__(self, worker: Any, seat: Seat, task: FitTask) -> None:
        super().__init__(seat.rank, len(seat.addresses), seat.patience, task)
        self.seat, self._worker = seat, worker
        self._loop = asyncio.get_running_loop()
        self._outgoing: dict[int, asyncio.Queue[Any]] = {}
        self._senders: list[asyncio.Task[None]] = []

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
            comm = await asyncio.wait_for(self._worker.rpc.connect(address), patience)
            while True:
                tag, payload = await self._outgoing[rank].get()
                message = {"key": self.seat.key, "sender": self.rank, "tag": tag, "payload": to_serialize(payload)}
                await asyncio.wait_for(comm.write({"op": _HANDLER, "reply": False, **message}), patience)
        except Exception as error:
            self.mailbox.close(f"{address} cannot be reached: {error!r}")
        finally:
            if comm is not None:
                self._worker.rpc.reuse(address, comm)

    def close(self, reason: str) -> None:
        """End all that still runs."""
        self.mailbox.close(reason)
        for sender in self._senders:
            sender.cancel()


# On the event loop of a worker --------------------------------------------------


def _sessions(worker: Any) -> dict[Key, WorkerSession]:
    """The fits that a worker takes part in."""
    if _EXTENSION not in worker.extensions:
        sessions: dict[Key, WorkerSession] = {}
        worker.extensions[_EXTENSION] = sessions

        async def take(key: Sequence[Any], sender: int, tag: Sequence[int], payload: Any) -> None:
            session = sessions.get((key[0], key[1]))
            if session is not None:  # else the message is late: the fit has begun anew, or ended
                session.mailbox.put(sender, (tag[0], tag[1]), payload)

        worker.handlers[_HANDLER] = take
    found: dict[Key, WorkerSession] = worker.extensions[_EXTENSION]
    return found


async def open_session(seat: Seat, task: FitTask, dask_worker: Any) -> None:
    """Begin to take messages and partitions; an earlier attempt at the same fit ends."""
    sessions = _sessions(dask_worker)
    for key in [key for key in sessions if key[0] == seat.key[0]]:
        sessions.pop(key).close("the fit has begun anew")
    sessions[seat.key] = WorkerSession(dask_worker, seat, task)


async def close_session(key: Key, dask_worker: Any) -> None:
    """End what is still running, and forget all of it."""
    session = _sessions(dask_worker).pop(key, None)
    if session is not None:
        session.close("the fit has ended")


async def renew_session(key: Key, dask_worker: Any) -> None:
    """Let a fit go on; KeyError where there is none."""
    _sessions(dask_worker)[key].mailbox.renew()


async def next_events(key: Key, heard: int, seconds: float, dask_worker: Any) -> list[Event]:
    """What the first rank has to tell, as soon as there is anything, or after so long."""
    session = _sessions(dask_worker).get(key)
    return [] if session is None else await asyncio.to_thread(session.events, heard, seconds)


async def give_answer(key: Key, number: int, value: Any, dask_worker: Any) -> None:
    """Hand an answer to the first rank."""
    session = _sessions(dask_worker).get(key)
    if session is not None:
        session.answer(number, value)


# Tasks --------------------------------------------------


def take_partition(key: Key, table: str, number: int, names: Sequence[str], *values: Any) -> int:
    """Put a partition where its rank finds it; return its number of rows.

    Dask forgets it then: there is no second copy.
    """
    return _session_of(key).take(table, number, dict(zip(names, values, strict=True)))


def train_rank(key: Key, *n_rows: int) -> Any:
    """Train once all partitions are there; return what the first rank has learned, and None on others."""
    secede()
    return _session_of(key).train(get_worker().state.nthreads)


def _session_of(key: Key) -> WorkerSession:
    session = _sessions(get_worker()).get(key)
    if session is None:
        raise RankLostError("the fit has ended on this worker")
    return session
