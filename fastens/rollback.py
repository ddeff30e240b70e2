"""Learning as a whole or not at all: a fit that fails leaves the model of the fit before."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Learn = TypeVar("Learn", bound=Callable[..., Any])


def keeps_model(learn: Learn) -> Learn:
    """A method that learns, so that where it raises the estimator is as before; for methods that alter no old array."""

    @wraps(learn)
    def learn_or_restore(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return learn(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return learn_or_restore  # type: ignore[return-value]
