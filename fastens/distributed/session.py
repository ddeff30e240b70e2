"""The state of a rank on its worker: its partitions, its messages, and its events for the coordinator."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from fastens.distributed.rank_fit import FitTask, Partition, Parts, Watcher, fit_rank, fitted_state
from fastens.distributed.reduction import Mailbox, RanksComm, Tag
from fastens.engine.threads import limited_threads

# Events of these kinds are batched over this many seconds, because delivering one costs several processes milliseconds.
_TOGETHER = 0.5
_PATIENT = ("round", "checkpoint")


class Event(NamedTuple):
    """An event that a rank reports to the coordinator."""

    number: int
    kind: str
    content: Any


class Session(Watcher):
    """Base class of the state that a worker keeps for a fit; subclasses implement the sending of messages.

    Parameters
    ----------
    rank, size : int
        The rank and the number of ranks.
    patience : float
        The number of seconds to wait for a coordinator that does not respond.
    task : FitTask
        The task to fit.
    """

    def __init__(self, rank: int, size: int, patience: float, task: FitTask) -> None:
        self.rank, self.size, self.task = rank, size, task
        self.mailbox = Mailbox(patience)
        self._tables: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        self._events: list[Event] = []
        self._n_events, self._last_delivery = 0, -math.inf
        self._answers: dict[int, Any] = {}
        self._changed = threading.Condition()

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or a picklable value to a rank, without waiting for it; implemented by subclasses."""
        raise NotImplementedError

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for the message with this tag from a rank and return it."""
        return self.mailbox.take(rank, tag)

    def flush(self) -> None:
        """Wait until all messages are sent; in this base class, there is nothing to wait for."""

    # Coordinator --------------------------------------------------

    def report(self, kind: str, content: Any) -> int:
        """Queue an event for the coordinator and return its number; a new checkpoint replaces an unsent one."""
        with self._changed:
            self._n_events += 1
            if kind == "checkpoint":
                self._events = [event for event in self._events if event.kind != kind]
            self._events.append(Event(self._n_events, kind, content))
            self._changed.notify_all()
            return self._n_events

    def ask(self, kind: str, content: Any) -> Any:
        """Ask the coordinator a question; return its answer, or raise RankLostError if the fit ends meanwhile."""
        number = self.report(kind, content)
        with self._changed:
            while number not in self._answers:
                self.mailbox.check()
                self._changed.wait(1.0)
            return self._answers.pop(number)

    def answer(self, number: int, value: Any) -> None:
        """Store the answer to question `number` for the waiting `ask`; a repeated call does no harm."""
        with self._changed:
            self._answers[number] = value
            self._changed.notify_all()

    def events(self, last_received: int, seconds: float) -> list[Event]:
        """Return pending events, waiting up to `seconds` for one; rounds are returned a few times a second.

        Events up to the number `last_received` have arrived and are dropped. All others are returned again, because the
        result of an earlier call may have been lost.
        """
        with self._changed:
            self._events = [event for event in self._events if event.number > last_received]
            self._changed.wait_for(lambda: self._events, seconds)
            since = time.monotonic() - self._last_delivery
            longest = min(seconds, max(0.0, _TOGETHER - since))
            self._changed.wait_for(lambda: any(event.kind not in _PATIENT for event in self._events), longest)
            if self._events:
                self._last_delivery = time.monotonic()
            return list(self._events)

    # The fit --------------------------------------------------

    def store_partition(self, table: str, number: int, contents: Mapping[str, Any]) -> int:
        """Store partition `number` of table "X" or "X_val" until training, and return its number of rows.

        `contents` are the table and its per-row arguments by name. Raises ValueError if their row counts differ.
        """
        counts = {name: value.shape[0] if hasattr(value, "shape") else len(value) for name, value in contents.items()}
        n_rows = counts[table]
        for name, count in counts.items():
            if count != n_rows:
                raise ValueError(
                    f"{name} must have the same number of rows as {table} in each partition; got {count} and "
                    f"{n_rows} rows in partition {number}."
                )
        self._tables[table][number] = contents
        return int(n_rows)

    def train(self, n_threads: int) -> Any:
        """Train on the stored partitions, which are then released; return the fitted state on rank 0, else None."""
        tables: dict[str, Parts] = {
            name: [Partition(number, partitions[number]) for number in sorted(partitions)]
            for name, partitions in self._tables.items()
        }
        self._tables.clear()
        try:
            with limited_threads(n_threads):
                model = fit_rank(self.task, RanksComm(self), tables, self)
        finally:
            self.report("end", None)
        return fitted_state(model) if self.rank == 0 else None
