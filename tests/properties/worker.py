"""A process that runs trials, with limits on time and memory, and that may die without taking the tests with it."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MAX_SECONDS = 120.0
MAX_MEMORY = 2 * 2**30


class Worker:
    """Runs functions of one argument in another process, which is started anew where it dies or hangs."""

    def __init__(self, max_seconds: float = MAX_SECONDS) -> None:
        self._max_seconds = max_seconds
        self._process: Any = None
        self._connection: Any = None

    def call(self, function: Any, argument: Any) -> Any:
        """What the function returns; AssertionError where it raised, hung, or took the process with it."""
        if self._process is None or not self._process.is_alive():
            self._start()
        self._connection.send((function, argument))
        if not self._connection.poll(self._max_seconds):
            self.stop()
            raise AssertionError(f"took more than {self._max_seconds} s")
        try:
            succeeded, value = self._connection.recv()
        except EOFError:
            self._process.join()
            raise AssertionError(f"the interpreter ended with exit code {self._process.exitcode}") from None
        if not succeeded:
            raise AssertionError(value)
        return value

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()


def serve(connection: Connection) -> None:
    """Answer calls until the other side is gone."""
    import properties.trial  # noqa: F401 - before memory is limited

    limit_memory()
    while True:
        try:
            function, argument = connection.recv()
        except EOFError:
            return
        connection.send(_answer(function, argument))


def _answer(function: Any, argument: Any) -> tuple[bool, Any]:
    try:
        return True, function(argument)
    except Exception as error:  # whatever it is, the other side tells it
        frames = _frames(error)
        return False, f"{type(error).__name__}: {error}\n{frames}"


def _frames(error: BaseException) -> str:
    import traceback

    return "".join(traceback.format_tb(error.__traceback__)[-4:])


def limit_memory() -> None:
    """Limit memory that can be written to what is taken now and `MAX_MEMORY` more, where the system can."""
    if not sys.platform.startswith("linux"):
        return
    import resource

    taken = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (taken + MAX_MEMORY, taken + MAX_MEMORY))
