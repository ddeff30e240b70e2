"""Where the messages of other ranks wait for a rank, and how long a rank waits for them."""

from __future__ import annotations

import threading
import time
from typing import Any

from fastens.distributed.reduction import RankLostError, Tag

# Seconds between looks at the clock while nothing arrives.
_LOOK = 1.0


class Mailbox:
    """The messages to one rank. It waits as long as whoever started the fit is heard of, and no longer.

    Parameters
    ----------
    patience : float
        Seconds after the last `renew` when waiting ends.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._messages: dict[tuple[int, Tag], Any] = {}
        self._changed = threading.Condition()
        self._closed: str | None = None
        self.renew()

    def renew(self) -> None:
        """Begin a new term: the fit is still wanted."""
        self._expires = time.monotonic() + self._patience

    def put(self, rank: int, tag: Tag, payload: Any) -> None:
        """Take a message of a rank."""
        with self._changed:
            self._messages[rank, tag] = payload
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """End all waiting; the first reason counts."""
        with self._changed:
            self._closed = self._closed or reason
            self._messages.clear()
            self._changed.notify_all()

    def take(self, rank: int, tag: Tag) -> Any:
        """Wait for the message of a rank; RankLostError where the fit has ended."""
        key = rank, tag
        with self._changed:
            while key not in self._messages:
                self.check()
                self._changed.wait(_LOOK)
            return self._messages.pop(key)

    def check(self) -> None:
        """Raise RankLostError where there is nothing to wait for any more."""
        if self._closed is not None:
            raise RankLostError(self._closed)
        if time.monotonic() > self._expires:
            raise RankLostError(f"whoever started the fit has not been heard of for {self._patience:g} seconds")
