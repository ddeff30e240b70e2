"""Reading one item ahead of the work on those before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastens.engine.threads import limited_threads, thread_limit

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

    with ThreadPoolExecutor(1, "fastens") as thread:
        coming = thread.submit(following)
        while (item := coming.result()) is not None:
            coming = thread.submit(following)
            yield item
