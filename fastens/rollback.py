"""Transactional fits: a fit that fails restores the previously fitted model."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

Learn = TypeVar("Learn", bound=Callable[..., Any])


# The models that are being fitted, by id: the thread that fits the model, and its outermost context.
_fitting_thread: dict[int, tuple[int, object]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fitting_thread.clear)


# By the id of a model, the error that ends its fit and the names of the attributes to keep (all of them if empty).
_kept_by_error: dict[int, tuple[BaseException, tuple[str, ...]]] = {}


@contextmanager
def _exclusive_fit(model: Any) -> Iterator[None]:
    """Raise RuntimeError if another thread fits this model; otherwise prevent other fits within the context."""
    owner = threading.get_ident(), object()
    try:
        if _fitting_thread.setdefault(id(model), owner)[0] != owner[0]:
            raise RuntimeError(
                f"This {type(model).__name__} is being fitted in another thread. Fit a separate clone in each thread."
            )
        yield
    finally:
        if _fitting_thread.get(id(model)) is owner:
            del _fitting_thread[id(model)]
            _kept_by_error.pop(id(model), None)


@contextmanager
def restore_on_error(model: Any, *, fits: bool = False) -> Iterator[None]:
    """Restore the attributes of a model if an error occurs, unless `keep_partial` was called.

    The block must not modify existing arrays in place. With ``fits=True``, the block is a fit, which reads the current
    parameters. Raises RuntimeError if another thread is fitting the model.
    """
    with _exclusive_fit(model):
        before = dict(vars(model))
        if fits:
            # A fit that continues training compares its parameters with these.
            vars(model)["_parameters_before"] = vars(model).pop("_parameters_of_fit", {})
            vars(model).pop("metadata_", None)  # it belongs to the previous model
        try:
            yield
        except BaseException as error:
            last, names = _kept_by_error.get(id(model), (None, ()))
            if last is not error or names:
                before |= {name: vars(model)[name] for name in names if last is error}
                vars(model).clear()
                vars(model).update(before)
            raise
        finally:
            if fits:
                vars(model).pop("_parameters_before", None)


def keep_partial(model: Any, error: BaseException, *names: str) -> None:
    """Make `restore_on_error` keep the model, or only these attributes, when `error` ends its fit."""
    if id(model) in _fitting_thread:
        _kept_by_error[id(model)] = error, names


@contextmanager
def keep_on_interrupt(model: Any) -> Iterator[None]:
    """Undo the block's changes to the model after KeyboardInterrupt; the enclosing fit keeps all earlier ones."""
    try:
        with restore_on_error(model):
            yield
    except KeyboardInterrupt as error:
        keep_partial(model, error)
        raise


def keeps_model(learn: Learn) -> Learn:
    """Decorate a method `learn` that updates the model; if it raises, all attributes are restored."""

    @wraps(learn)
    def learn_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        with restore_on_error(self, fits=learn.__name__ == "fit"):
            return learn(self, *args, **kwargs)

    return learn_or_restore  # type: ignore[return-value]
