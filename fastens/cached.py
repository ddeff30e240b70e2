"""Attributes that are computed on first access."""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: N801
    """Lock-free `functools.cached_property`, as in Python 3.12 and later.

    In Python 3.11, all threads wait for the one that is computing, even on different objects, and a process that is
    forked at that moment deadlocks because the lock is never released. Here, concurrent threads may each compute the
    value, and all of them return the value that was stored first.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        assert self.attrname is not None
        kept = instance.__dict__
        return kept[self.attrname] if self.attrname in kept else kept.setdefault(self.attrname, self.func(instance))
