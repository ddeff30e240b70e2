"""Where tables of clusters come in: `fit`, `score` and what predicts go to the cluster with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from fastens.distributed.dask_table import EXTRA, DaskTable, is_collection


def is_spread(X: Any) -> bool:
    """Whether a table is spread over a cluster."""
    return isinstance(X, DaskTable) or is_collection(X)


def on_clusters(method: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` or `score` that takes tables that are spread over a cluster too; any other method as it is."""
    if method.__name__ not in ("fit", "score") or [*signature(method).parameters][1:2] != ["X"]:
        return method

    @wraps(method)
    def on_any(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_spread(kwargs["X"] if "X" in kwargs else args[0] if args else None):
            return _on_cluster(method, **signature(method).bind(self, *args, **kwargs).arguments)
        return method(self, *args, **kwargs)

    return on_any


def _on_cluster(method: Callable[..., Any], self: Any, X: Any, **given: Any) -> Any:
    try:
        from fastens.distributed.dask_fit import fit_on_dask
        from fastens.distributed.dask_predict import score_on_dask
    except ModuleNotFoundError as error:
        raise ImportError(EXTRA) from error
    return fit_on_dask(self, X, given) if method.__name__ == "fit" else score_on_dask(self, method, X, given)


def answer_on_clusters(model: Any, method: str, X: Any, given: dict[str, Any]) -> Any:
    """Return what a method that predicts answers for a table that is spread over a cluster."""
    try:
        from fastens.distributed.dask_predict import answer_on_dask
    except ModuleNotFoundError as error:
        raise ImportError(EXTRA) from error
    return answer_on_dask(model, method, X, given)
