"""Attributes that are computed when first asked for."""

from __future__ import annotations

import functools
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: N801
    """functools' own as it is from Python 3.12 on: without a lock.

    Before, all threads waited for one that was computing, whatever the object; and a process forked at that moment
    waited for ever, for a thread that it does not have. Threads that ask at once all compute, and all get the first
    value kept.
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
