"""Limits on the threads of BLAS and OpenMP while several fits run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@lru_cache(maxsize=1)
def _find_libraries(n_modules: int) -> ThreadpoolController:
    """Return the controller of the loaded thread libraries.

    A search takes about 5 ms, so it is repeated only if `n_modules`, the number of imported modules, has changed,
    because new modules may load libraries.
    """
    return ThreadpoolController()


@contextmanager
def limited_libraries(**max_threads: int) -> Iterator[None]:
    """Limit threads by API within the context, such as ``blas=1, openmp=4``; process-wide limits become 1."""
    libraries = _find_libraries(len(sys.modules))
    shared = [each for each in libraries.lib_controllers if getattr(each, "threading_layer", "openmp") == "pthreads"]
    unshared = libraries.select(filepath=[each.filepath for each in libraries.lib_controllers if each not in shared])
    with _one_thread.limit(shared), unshared.limit(limits=max_threads):
        yield


class _OneThread:
    """Single-thread limit of libraries whose number of threads is process-wide; the last fit to end restores it.

    If each concurrent fit set and reset the number by itself, one fit could restore the limit of another.
    """

    def __init__(self) -> None:
        self._n_within = 0
        self._before: dict[str, tuple[Any, int]] = {}
        self.reset_lock()

    def reset_lock(self) -> None:
        """Create a new lock, because in a forked child the old one may be held by a thread that no longer exists."""
        self._lock = threading.Lock()

    @contextmanager
    def limit(self, libraries: list[Any]) -> Iterator[None]:
        """Limit each of these threadpoolctl libraries to one thread; the last concurrent context restores all."""
        with self._lock:
            self._n_within += 1
            for library in libraries:
                if library.filepath not in self._before:
                    self._before[library.filepath] = library, library.num_threads
                    _set_threads(library, 1)
        try:
            yield
        finally:
            with self._lock:
                self._n_within -= 1
                if not self._n_within:
                    for library, n_threads in self._before.values():
                        _set_threads(library, n_threads)
                    self._before.clear()


def _set_threads(library: Any, n_threads: int) -> None:
    """Set the number of threads of a library.

    Since threadpoolctl 3.8, only the first thread that sets the number may change it, unless its control is cleared.
    """
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(n_threads)
    release(force=True)


_one_thread = _OneThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread.reset_lock)
