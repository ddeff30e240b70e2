"""Where tables of clusters come in: `fit`, `score` and what predicts go to the cluster with them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from fastens.distributed.dask_table import EXTRA, DaskTable, is_collection
from fastens.distributed.ray_table import RAY_EXTRA, RayTable, is_on_ray


def is_spread(X: Any) -> bool:
    """Whether a table is spread over a cluster."""
    return isinstance(X, DaskTable) or is_collection(X) or _is_rays(X)


def _is_rays(X: Any) -> bool:
    return isinstance(X, RayTable) or is_on_ray(X)


def on_clusters(method: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` or `score` that takes tables that are spread over a cluster too; any other method as it is."""
    if method.__name__ not in ("fit", "score") or [*signature(method).parameters][1:2] != ["X"]:
        return method

    names = [*signature(method).parameters]

    @wraps(method)
    def on_any(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_spread(kwargs["X"] if "X" in kwargs else args[0] if args else None):
            signature(method).bind(self, *args, **kwargs)  # raises for what it does not take
            return _on_cluster(method, **dict(zip(names, (self, *args), strict=False)), **kwargs)
        return method(self, *args, **kwargs)

    return on_any


def _on_cluster(method: Callable[..., Any], self: Any, X: Any, **given: Any) -> Any:
    if _is_rays(X):
        if method.__name__ != "fit":
            _refuse(method.__name__)
        try:
            from fastens.distributed.ray_fit import fit_on_ray
        except ModuleNotFoundError as error:
            raise ImportError(RAY_EXTRA) from error
        return fit_on_ray(self, X, given)
    try:
        from fastens.distributed.dask_fit import fit_on_dask
        from fastens.distributed.dask_predict import score_on_dask
    except ModuleNotFoundError as error:
        raise ImportError(EXTRA) from error
    return fit_on_dask(self, X, given) if method.__name__ == "fit" else score_on_dask(self, method, X, given)


def answer_on_clusters(model: Any, method: str, X: Any, given: dict[str, Any]) -> Any:
    """Return what a method that predicts answers for a table that is spread over a cluster."""
    if _is_rays(X):
        _refuse(method)
    try:
        from fastens.distributed.dask_predict import answer_on_dask
    except ModuleNotFoundError as error:
        raise ImportError(EXTRA) from error
    return answer_on_dask(model, method, X, given)


def _refuse(method: str) -> None:
    raise TypeError(
        f"{method} takes no tables on a Ray cluster: call it for batches, such as with "
        f"dataset.map_batches(lambda batch: ..., batch_format='pyarrow')."
    )
