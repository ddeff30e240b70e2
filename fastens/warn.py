"""Warnings that blame the caller's own line."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import sklearn

# Frames of these folders are passed over: a user who fits through a pipeline or a search is still the caller.
_INSIDE = tuple(os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in (__file__, sklearn.__file__))


Relay = Callable[[str, type[Warning]], object]
_RELAY: ContextVar[Relay | None] = ContextVar("fastens_relay", default=None)


@contextmanager
def relayed(relay: Relay) -> Iterator[None]:
    """Within it, warnings of this thread go to a function: the caller's own line is in another process."""
    token = _RELAY.set(relay)
    try:
        yield
    finally:
        _RELAY.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn; the line named is the innermost one outside fastens and scikit-learn."""
    relay = _RELAY.get()
    if relay is not None:
        relay(message, category)
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
