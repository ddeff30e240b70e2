"""Reading one item ahead of the work on those before, and once for several readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any, TypeVar

from fastens.engine.parts import RowSource, parts_of
from fastens.engine.threads import ThreadPool, limited_threads, thread_limit

T = TypeVar("T")


def ahead(items: Iterable[T]) -> Iterator[T]:
    """Yield items, none of them None, while another thread makes the next one: one is made ahead, never more.

    For items that are read, or made by what gives the interpreter's lock away for most of its time. The other thread is
    gone when the last item, or an error, has come, and when the iterator is closed.
    """
    rest, limit = iter(items), thread_limit()

    def following() -> T | None:
        with limited_threads(limit):
            return next(rest, None)

    with ThreadPool(1, "fastens") as thread:
        coming = thread.submit(following)
        while (item := coming.result()) is not None:
            coming = thread.submit(following)
            yield item


class _Handed(RowSource):
    """The rows of a table as another thread reads them, once."""

    def __init__(self, source: RowSource, parts: Queue[Any]) -> None:
        self.shape, self.dtype = source.shape, source.dtype
        self.queue, self._is_over = parts, False

    def parts(self) -> Iterator[Any]:
        """Yield the parts that are left."""
        while not self._is_over:
            part = self.queue.get()
            self._is_over = part is None
            if part is not None:
                yield part


def read_together(source: RowSource, readers: list[Callable[[RowSource], None]]) -> None:
    """Call functions that each read a table once, all from one pass over it: each in a thread of its own.

    All of them get each part before any gets the next one. The first error is raised when all have ended.
    """
    if len(readers) == 1:
        readers[0](source)
        return
    limit = thread_limit()
    handed = [_Handed(source, Queue(1)) for _ in readers]

    def run(reader: Callable[[RowSource], None], rows: _Handed) -> None:
        try:
            with limited_threads(limit):
                reader(rows)
        finally:
            for _ in rows.parts():  # what nobody waits for any more
                pass

    with ThreadPoolExecutor(len(readers), "fastens") as threads:
        ended = [threads.submit(run, *pair) for pair in zip(readers, handed, strict=True)]
        try:
            for _, part in parts_of(source):
                for rows in handed:
                    rows.queue.put(part)
        finally:
            for rows in handed:
                rows.queue.put(None)
        for each in ended:
            each.result()
