"""Warnings that point to the line of the caller."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import sklearn

# Frames in these folders are skipped: a user who fits through a pipeline or a search is still the caller.
_INSIDE = tuple(os.path.join(os.path.dirname(os.path.abspath(file)), "") for file in (__file__, sklearn.__file__))


Relay = Callable[[str, type[Warning]], object]
_RELAY: ContextVar[Relay | None] = ContextVar("fastens_relay", default=None)


@contextmanager
def relayed(relay: Relay) -> Iterator[None]:
    """Within the context, pass warnings of `warn` to `relay(message, category)` instead of issuing them."""
    token = _RELAY.set(relay)
    try:
        yield
    finally:
        _RELAY.reset(token)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the innermost line outside fastens and scikit-learn."""
    relay = _RELAY.get()
    if relay is not None:
        relay(message, category)
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
