"""Detection of tables that are distributed over a cluster, and dispatch to their handlers.

`fastens.distributed` registers a handler for each kind of cluster on import. It is imported on the first use of such a
table, so users of tables in memory never pay for the import.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from functools import wraps
from importlib import import_module
from inspect import isfunction, signature
from typing import Any, TypeVar, cast

import numpy as np

# Handler of a call of `fit`, `score` or a prediction method, with the method, the model, X and the other arguments.
Handler = Callable[[Callable[..., Any], Any, Any, dict[str, Any]], Any]
Function = TypeVar("Function", bound=Callable[..., Any])
_HANDLERS: dict[str, Handler] = {}
# The module that registers the handlers.
_WING = "fastens.distributed.clusters"
# Classes whose methods already reject such tables.
_GUARDED: weakref.WeakSet[type] = weakref.WeakSet()
# Parameters of public methods and functions that take tables.
_TABLES = ("X", "X_val", "X_test", "background", "others", "outcomes", "table", "source")
_REMEDIES = {
    "dask": "Pass {name}.compute(), or a sample of its rows; {name}.map_partitions calls a function for each "
    "partition.",
    "ray": "Pass {name}.to_pandas(), or call it for batches, such as with {name}.map_batches(lambda batch: ..., "
    "batch_format='pyarrow').",
    "references": "Call it for one partition at a time, such as ray.get({name}[0]).",
}


def register_cluster(kind: str, handler: Handler) -> None:
    """Register the handler for tables of a kind of cluster, "dask" or "ray"."""
    _HANDLERS[kind] = handler


def cluster_of(X: Any) -> str | None:
    """Return the kind of cluster that a table is distributed over, "dask" or "ray", or None for any other table.

    The check does not import anything, because a Dask table can exist only if Dask has been imported.

    Examples
    --------
    >>> from fastens.table.spread import cluster_of
    >>> cluster_of([[1.0], [2.0]]) is None
    True
    """
    kind: Any = type(X)
    if kind is np.ndarray:
        return None
    if issubclass(kind, list | tuple):
        found = cluster_of(X[0]) if X else None
        return found if found and all(cluster_of(part) == found for part in X) else None
    if hasattr(kind, "__dask_graph__") or kind.__module__ == "distributed.client":
        return "dask"
    # Ray assigns references to the module "ray" or "ray._raylet", which depends on its version.
    is_reference = kind.__name__ in ("ObjectRef", "ClientObjectRef") and kind.__module__.split(".")[0] == "ray"
    if is_reference or kind.__module__ == "ray.data.dataset":
        return "ray"
    return getattr(kind, "_fastens_cluster", None)


def call_on_cluster(method: Callable[..., Any], model: Any, X: Any, given: dict[str, Any]) -> Any:
    """Return the result of a method for a table that is distributed over a cluster."""
    if not _HANDLERS:
        import_module(_WING)
    return _HANDLERS[cluster_of(X) or ""](method, model, X, given)


def refuse(name: str, X: Any, owner: str) -> TypeError:
    """Return the TypeError for passing a table of a cluster as a parameter that does not support it."""
    kind = cluster_of(X) or ""
    is_list = isinstance(X, list | tuple)
    remedy = _REMEDIES["references" if is_list and kind == "ray" else kind].format(name=name)
    got = f"a list of {kind.title()} {type(X[0]).__name__}" if is_list else f"a {kind.title()} {type(X).__name__}"
    return TypeError(f"{name} must be a table in memory for {owner}; got {got}. {remedy}")


def other_arguments(
    method: Callable[..., Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Return all arguments except X by name; raise TypeError with a hint for unknown names."""
    model._check_names(method, kwargs)
    signature(method).bind(model, *args, **kwargs)  # raises TypeError for missing or repeated arguments
    names = [*signature(method).parameters][1:]
    return {name: value for name, value in (dict(zip(names, args, strict=False)) | kwargs).items() if name != "X"}


def in_memory_only(function: Function) -> Function:
    """Decorate a public function to reject tables of a cluster; return it unchanged if it does not take tables."""
    tables = tables_among([*signature(function).parameters])
    if not tables:
        return function

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        check_in_memory_only(function, tables, args, kwargs)
        return function(*args, **kwargs)

    return cast("Function", call)


def refuse_clusters(cls: type, answered: Collection[str]) -> None:
    """Make all public methods of a class reject tables of a cluster, except the methods in `answered`."""
    for owner in cls.__mro__:
        if owner in _GUARDED or not owner.__module__.startswith("fastens."):
            continue
        _GUARDED.add(owner)
        for name, method in list(vars(owner).items()):
            function = getattr(method, "fn", method)  # the function inside scikit-learn's `available_if`
            if not isfunction(function) or name.startswith("_") or name in answered:
                continue
            if function is method:
                setattr(owner, name, in_memory_only(function))
            else:
                method.fn = in_memory_only(function)


def tables_among(names: list[str]) -> list[tuple[int, str]]:
    """Return the positions and names of the parameters that take tables."""
    return [(place, name) for place, name in enumerate(names) if name in _TABLES]


def check_in_memory_only(
    function: Callable[..., Any], tables: list[tuple[int, str]], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raise TypeError if one of the arguments that take tables is a table of a cluster."""
    for place, name in tables:
        given = args[place] if place < len(args) else kwargs.get(name)
        if given is not None and cluster_of(given) is not None:
            method, has_owner = function.__name__, bool(args) and hasattr(args[0], function.__name__)
            kind = "" if not has_owner else args[0].__name__ if isinstance(args[0], type) else type(args[0]).__name__
            raise refuse(name, given, kind if method == "__init__" else f"{kind}.{method}".lstrip("."))
