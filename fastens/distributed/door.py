"""Where tables of clusters come in: `fit` on them goes to the cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from fastens.distributed.dask_table import EXTRA, DaskTable, is_collection


def is_spread(X: Any) -> bool:
    """Whether a table is spread over a cluster."""
    return isinstance(X, DaskTable) or is_collection(X)


def fitting_on_clusters(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` that takes tables that are spread over a cluster too."""
    parameters = list(signature(fit).parameters)
    if parameters[1:2] != ["X"]:
        return fit

    @wraps(fit)
    def on_any(self: Any, *args: Any, **kwargs: Any) -> Any:
        X = kwargs["X"] if "X" in kwargs else args[0] if args else None
        if not is_spread(X):
            return fit(self, *args, **kwargs)
        given = signature(fit).bind(self, *args, **kwargs).arguments
        try:
            from fastens.distributed.dask_fit import fit_on_dask
        except ModuleNotFoundError as error:
            raise ImportError(EXTRA) from error
        return fit_on_dask(self, given.pop("X"), {name: each for name, each in given.items() if name != parameters[0]})

    return on_any
