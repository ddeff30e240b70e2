"""A rank where it trains: its partitions, its messages, and what whoever leads the fit is to be told."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from fastens.distributed.mailbox import Mailbox
from fastens.distributed.rank_fit import FitTask, Watcher, fit_rank, fitted_state
from fastens.distributed.reduction import RanksComm, Tag
from fastens.engine.threads import limited_threads


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
        self._events: deque[tuple[str, Any]] = deque()
        self._answers: deque[Any] = deque()
        self._changed = threading.Condition()

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank, without waiting for it."""
        raise NotImplementedError

    def receive(self, rank: int, tag: Tag) -> Any:
        """Wait for what a rank has sent by this tag."""
        return self.mailbox.take(rank, tag)

    # Who leads --------------------------------------------------

    def report(self, kind: str, content: Any) -> None:
        """Keep something for who leads; of checkpoints the last."""
        with self._changed:
            if kind == "checkpoint":
                self._events = deque(event for event in self._events if event[0] != kind)
            self._events.append((kind, content))
            self._changed.notify_all()

    def ask(self, kind: str, content: Any) -> Any:
        """Wait for an answer."""
        self.report(kind, content)
        with self._changed:
            while not self._answers:
                self.mailbox.check()
                self._changed.wait(1.0)
            return self._answers.popleft()

    def answer(self, value: Any) -> None:
        """Take an answer."""
        with self._changed:
            self._answers.append(value)
            self._changed.notify_all()

    def events(self, seconds: float) -> list[tuple[str, Any]]:
        """What there is to be told, as soon as there is anything, or after so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._events, seconds)
            found = list(self._events)
            self._events.clear()
            return found

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
        tables = {name: [found[number] for number in sorted(found)] for name, found in self._tables.items()}
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
