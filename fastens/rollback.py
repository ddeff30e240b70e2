"""Learning as a whole or not at all: a fit that fails leaves the model of the fit before."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

Learn = TypeVar("Learn", bound=Callable[..., Any])


# The models that learn, by their identity: the thread that each does it in, and the outermost context.
_learning: dict[int, tuple[int, object]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_learning.clear)


class _Left:
    """What stays of a model, by the error that ended its fit; where an error is sent to another process, nothing."""

    def __init__(self, model: Any = None, names: tuple[str, ...] = ()) -> None:
        self.model, self.names = model, names

    def __reduce__(self) -> tuple[Any, ...]:
        return _Left, ()


@contextmanager
def _alone(model: Any) -> Iterator[None]:
    """Within it, no other thread may let the model learn: each would work with what the other one has set."""
    own = threading.get_ident(), object()
    try:
        if _learning.setdefault(id(model), own)[0] != own[0]:
            raise RuntimeError(
                f"This {type(model).__name__} is learning in another thread; let each thread fit a clone of its own."
            )
        yield
    finally:
        if _learning.get(id(model)) is own:
            del _learning[id(model)]


@contextmanager
def kept(model: Any, *, fits: bool = False) -> Iterator[None]:
    """Within it, an error makes a model what it was, unless `leave` was called; old arrays must not be altered.

    A model that fits reads its parameters as they are now. RuntimeError where it learns in another thread.
    """
    with _alone(model):
        yield from _kept(model, fits)


def _kept(model: Any, fits: bool) -> Iterator[None]:
    before = dict(vars(model))
    if fits:
        # A fit that goes on compares its parameters with these.
        vars(model)["_parameters_before"] = vars(model).pop("_parameters_of_fit", {})
        vars(model).pop("metadata_", None)  # it is of the model before
    try:
        yield
    except BaseException as error:
        left = getattr(error, "left", _Left())
        if left.model is not model or left.names:
            before |= {name: vars(model)[name] for name in left.names if left.model is model}
            vars(model).clear()
            vars(model).update(before)
        raise
    finally:
        if fits:
            vars(model).pop("_parameters_before", None)


def leave(model: Any, error: BaseException, *names: str) -> None:
    """Let a model, or these attributes of it, stay where an error ends its fit: what has been learned is of use."""
    error.left = _Left(model, names)  # type: ignore[attr-defined]


@contextmanager
def left_by_interrupts(model: Any) -> Iterator[None]:
    """Within it, Ctrl-C makes a model what it was, and lets it stay so: it has been learned, and was to be bettered."""
    try:
        with kept(model):
            yield
    except KeyboardInterrupt as error:
        leave(model, error)
        raise


def keeps_model(learn: Learn) -> Learn:
    """A method that learns, other than `fit`, so that where it raises the estimator is as before."""

    @wraps(learn)
    def learn_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        with kept(self, fits=learn.__name__ == "fit"):
            return learn(self, *args, **kwargs)

    return learn_or_restore  # type: ignore[return-value]
