"""Work on a table that several models need is done once."""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

_NOT_COUNTED = {"n_threads", "owner"}
Function = TypeVar("Function", bound=Callable[..., Any])


class _State(threading.local):
    # What was made so far, by what it was made from; None where nothing is shared. Other threads share nothing with
    # this one: a binned matrix has one grower at a time.
    made: dict[Hashable, tuple[Any, Any]] | None = None


_state = _State()


@contextmanager
def shared_work() -> Iterator[None]:
    """Within it, in this thread, functions marked by `shared` give the same object for the same arguments.

    What they were given must not be changed meanwhile. A context within another one uses that of the outer.
    """
    if _state.made is not None:
        yield
        return
    _state.made = {}
    try:
        yield
    finally:
        _state.made = None


def shared(function: Function) -> Function:
    """Mark a function whose result follows from its arguments, and is never changed by those who get it.

    Its arguments are compared by value where they are short, by identity where they are tables or other objects. An
    argument named `n_threads` does not count, nor does one named `owner`, which words errors.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if _state.made is None:
            return function(*args, **kwargs)
        given = dict(zip(function.__code__.co_varnames, args, strict=False)) | kwargs
        counted = sorted(given.keys() - _NOT_COUNTED)
        key = (function.__qualname__, *((name, _key(given[name])) for name in counted))
        if key not in _state.made:
            # The arguments are kept with the result, so that nothing else can take their identity.
            _state.made[key] = (function(*args, **kwargs), (args, kwargs))
        return _state.made[key][0]

    return wrapper  # type: ignore[return-value]


def _key(value: Any) -> Hashable:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return (value.dtype.str, hashlib.blake2b(value.tobytes()).digest())
    if value is None or isinstance(value, bool | int | float | str):
        return (type(value), value)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    return id(value)
