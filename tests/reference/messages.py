"""Ranks that are threads of one process and send each other messages, in an order that the network chooses."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

from fastens.distributed.reduction import Mailbox, RanksComm


class Messages:
    """The transport of one rank; a message may overtake those before it."""

    def __init__(self, boxes: list[Mailbox], rank: int) -> None:
        self._boxes, self.rank, self.size = boxes, rank, len(boxes)
        self._late: list[tuple[int, Any, Any]] = []
        self._random = random.Random(rank)

    def send(self, rank: int, tag: Any, payload: Any) -> None:
        self._late.append((rank, tag, payload))
        self._random.shuffle(self._late)
        while self._late and self._random.random() < 0.7:
            self._deliver()

    def _deliver(self) -> None:
        rank, tag, payload = self._late.pop()
        self._boxes[rank].put(self.rank, tag, payload)

    def flush(self) -> None:
        while self._late:
            self._deliver()

    def receive(self, rank: int, tag: Any) -> Any:
        self.flush()
        return self._boxes[self.rank].take(rank, tag)


def by_messages(size: int, work: Callable[[RanksComm], Any], patience: float = 60.0) -> list[Any]:
    """What `work` returns on each rank; the first error of one."""
    boxes = [Mailbox(patience) for _ in range(size)]
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            messages = Messages(boxes, rank)
            results[rank] = work(RanksComm(messages))
            messages.flush()
        except BaseException as error:
            errors.append(error)
            for box in boxes:
                box.close(f"rank {rank} has failed")

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
