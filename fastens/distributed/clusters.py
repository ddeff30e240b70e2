"""Dispatch of estimator methods to clusters; each cluster's code is imported when its first table is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastens.distributed.dask_table import EXTRA
from fastens.distributed.ray_table import RAY_EXTRA
from fastens.table.sources import refuse, register_cluster


def _call_on_dask(method: Callable[..., Any], model: Any, X: Any, arguments: dict[str, Any]) -> Any:
    """Run `fit`, `score` or a prediction method of `model` on a Dask collection; predictions are lazy."""
    try:
        from fastens.distributed.dask_fit import fit_on_dask
        from fastens.distributed.dask_predict import predict_on_dask, score_on_dask
    except ModuleNotFoundError as error:
        raise ImportError(EXTRA) from error
    if method.__name__ == "fit":
        return fit_on_dask(model, X, arguments)
    if method.__name__ == "score":
        return score_on_dask(model, method, X, arguments)
    return predict_on_dask(model, method.__name__, X, arguments)


def _call_on_ray(method: Callable[..., Any], model: Any, X: Any, arguments: dict[str, Any]) -> Any:
    """Run `fit` on a table of a Ray cluster and return the model; raise the error of `refuse` for other methods."""
    if method.__name__ != "fit":
        raise refuse("X", X, f"{type(model).__name__}.{method.__name__}")
    try:
        from fastens.distributed.ray_fit import fit_on_ray
    except ModuleNotFoundError as error:
        raise ImportError(RAY_EXTRA) from error
    return fit_on_ray(model, X, arguments)


register_cluster("dask", _call_on_dask)
register_cluster("ray", _call_on_ray)
