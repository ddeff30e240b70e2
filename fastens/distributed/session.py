"""A rank where it trains: its partitions, its messages, and what whoever leads the fit is to be told."""

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

# Seconds in which events of these kinds are told together: on its way, one takes milliseconds of several processes.
_TOGETHER = 0.5
_PATIENT = ("round", "checkpoint")


class Event(NamedTuple):
    """What is told of a rank."""

    number: int
    kind: str
    content: Any


class Session(Watcher):
    """The base of what a worker of any cluster keeps for a fit; how messages are sent is the cluster's.

    Parameters
    ----------
    rank, size : int
        The rank, and how many there are.
    patience : float
        Seconds that may pass without whoever leads.
    task : FitTask
        What to fit.
    """

    def __init__(self, rank: int, size: int, patience: float, task: FitTask) -> None:
        self.rank, self.size, self.task = rank, size, task
        self.mailbox = Mailbox(patience)
        self._tables: dict[str, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        self._events: list[Event] = []
        self._n_events, self._told = 0, -math.inf
        self._answers: dict[int, Any] = {}
        self._changed = threading.Condition()

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank, without waiting for it."""
        raise NotImplementedError

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for what a rank has sent by this tag."""
        return self.mailbox.take(rank, tag)

    def flush(self) -> None:
        """Wait until what was sent is on its way."""

    # Who leads --------------------------------------------------

    def report(self, kind: str, content: Any) -> int:
        """Keep something for who leads, of checkpoints the last; return its number."""
        with self._changed:
            self._n_events += 1
            if kind == "checkpoint":
                self._events = [event for event in self._events if event.kind != kind]
            self._events.append(Event(self._n_events, kind, content))
            self._changed.notify_all()
            return self._n_events

    def ask(self, kind: str, content: Any) -> Any:
        """Wait for an answer."""
        number = self.report(kind, content)
        with self._changed:
            while number not in self._answers:
                self.mailbox.check()
                self._changed.wait(1.0)
            return self._answers.pop(number)

    def answer(self, number: int, value: Any) -> None:
        """Take the answer to what has this number, which may come twice."""
        with self._changed:
            self._answers[number] = value
            self._changed.notify_all()

    def events(self, heard: int, seconds: float) -> list[Event]:
        """What there is to be told, as soon as there is anything, or after so long; rounds a few times a second.

        Those up to the number `heard` have arrived. All others are told again: a call may be lost on its way back.
        """
        with self._changed:
            self._events = [event for event in self._events if event.number > heard]
            self._changed.wait_for(lambda: self._events, seconds)
            since = time.monotonic() - self._told
            self._changed.wait_for(self._is_urgent, min(seconds, max(0.0, _TOGETHER - since)))
            if self._events:
                self._told = time.monotonic()
            return list(self._events)

    def _is_urgent(self) -> bool:
        return any(event.kind not in _PATIENT for event in self._events)

    # The fit --------------------------------------------------

    def take(self, table: str, number: int, contents: Mapping[str, Any]) -> int:
        """Keep a partition until the rank trains; return its number of rows."""
        counts = {name: value.shape[0] if hasattr(value, "shape") else len(value) for name, value in contents.items()}
        n_rows = counts[table]
        for name, count in counts.items():
            if count != n_rows:
                raise ValueError(
                    f"{name} must have as many rows as {table} in each partition; in partition {number} it has "
                    f"{count} for {n_rows}."
                )
        self._tables[table][number] = contents
        return int(n_rows)

    def train(self, n_threads: int) -> Any:
        """Train on the partitions; return what the first rank has learned, and None on others."""
        tables: dict[str, Parts] = {
            name: [Partition(number, found[number]) for number in sorted(found)] for name, found in self._tables.items()
        }
        self._tables.clear()
        try:
            with limited_threads(n_threads):
                model = fit_rank(self.task, RanksComm(self), tables, self)
        finally:
            self.report("end", None)
        return fitted_state(model) if self.rank == 0 else None


def without_rows(contents: Mapping[str, Any]) -> dict[str, Any]:
    """Return a partition without its rows."""
    return {name: values[:0] for name, values in contents.items()}
