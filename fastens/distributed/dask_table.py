"""Dask collections as training tables, and their partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from fastens.distributed.rank_fit import FitProgress, SpreadTable, is_collection_on, tables_in, zip_partitions

EXTRA = "Dask collections need Dask and its scheduler, which are not installed: pip install fastens[dask]"


class DaskTable(SpreadTable):
    """A Dask collection as a training table, with settings for the use of the cluster.

    `fit` also accepts plain Dask collections and then trains on all workers of the current client. Use this class to
    choose the client and the workers, to set the time limits, or to follow the progress of the fit.

    Parameters
    ----------
    table : dask.dataframe.DataFrame, dask.array.Array or list of delayed partitions
        The collection that is passed to `fit` as X.
    client : distributed.Client, optional
        The client of the cluster. If None, the client is `distributed.default_client()`.
    workers : list of str, optional
        Addresses of the workers that may train. Each worker trains one rank. If None, all workers of the cluster may
        train.
    checkpoint_every : int, default=10
        The number of boosting rounds between checkpoints, which are sent to this process. If a worker is lost, the fit
        resumes from the last checkpoint. Larger values send less data, but a lost worker costs more rounds.
    patience : float, default=60.0
        Timeout in seconds, at least 1. It limits how long the fit waits for a worker that does not respond, how long
        the workers wait for a client that does not respond, and how long the fit waits for a first worker.
    on_progress : function, optional
        Called with a `FitProgress` after each boosting round.

    Raises
    ------
    ValueError
        If `table` is not a Dask collection, or a parameter is out of range.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from fastens import GradientBoostingRegressor
    >>> from fastens.distributed import DaskTable
    >>> X = da.random.default_rng(0).random((4000, 3), chunks=(1000, 3))
    >>> with Client(processes=False, n_workers=2, dashboard_address=None) as client:
    ...     model = GradientBoostingRegressor().fit(DaskTable(X, client=client), X[:, 0])
    >>> model.score(X.compute(), X[:, 0].compute()) > 0.99
    True
    """

    _fastens_cluster = "dask"

    def __init__(
        self,
        table: Any,
        *,
        client: Any = None,
        workers: Sequence[str] | None = None,
        checkpoint_every: int = 10,
        patience: float = 60.0,
        on_progress: Callable[[FitProgress], None] | None = None,
    ) -> None:
        if not is_collection(table):
            raise ValueError(
                "table must be a Dask dataframe, a Dask array or a list of delayed partitions; "
                f"got {type(table).__name__}."
            )
        super().__init__(table, checkpoint_every, patience, on_progress)
        self.client, self.workers = client, workers


def is_collection(X: Any) -> bool:
    """Return True for a Dask collection or a list of delayed partitions that is not wrapped in a DaskTable."""
    return is_collection_on("dask", X)


# Partitions --------------------------------------------------


def split_on_dask(X: Any, fit_params: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the partitions of "X" and, if given, "X_val", each as a dict of the table and its per-row arguments.

    Parameters
    ----------
    X : collection
        The training table.
    fit_params : dict
        The other arguments of `fit`.

    Raises
    ------
    ValueError
        If targets, weights or other per-row arguments are not partitioned like their table.
    """
    tables = tables_in(X, fit_params, is_collection, "a Dask collection")
    return {name: partitions(table, by_row, name) for name, table, by_row in tables}


def partitions(table: Any, by_row: Mapping[str, Any], name: str = "X") -> list[dict[str, Any]]:
    """Return the partitions of a collection, each as a dict of the table and its per-row arguments, all delayed.

    Parameters
    ----------
    table : collection
        The table, which is called `name`.
    by_row : dict
        Collections or arrays with one value per row of the table.
    """
    columns = {name: delayed_parts(name, table)}
    columns |= {other: delayed_parts(other, _partition_like(table, values, other)) for other, values in by_row.items()}
    return zip_partitions(columns, name)


def _partition_like(table: Any, values: Any, name: str) -> Any:
    """Return per-row `values` with the partitions of `table`: a collection, or a list of arrays.

    Raises ValueError, which calls the values `name`, if they are not a collection and their parts cannot be determined,
    because the table has unknown partition sizes or another number of rows.
    """
    chunks: Any = getattr(table, "chunks", None)
    lengths: Any = None if chunks is None or np.isnan(chunks[0]).any() else chunks[0]
    if is_collection(values):
        has_lengths = lengths is not None and hasattr(values, "rechunk") and not np.isnan(values.chunks[0]).any()
        return values.rechunk({0: lengths}) if has_lengths and values.shape[0] == sum(lengths) else values
    if lengths is None or len(values) != sum(lengths):
        raise ValueError(
            f"{name} must be a Dask collection with the same partitions as X; got {type(values).__name__}."
        )
    ends = np.cumsum(lengths).tolist()
    array = np.asarray(values)
    return [array[first:last] for first, last in pairwise([0, *ends])]


def delayed_parts(name: str, values: Any) -> list[Any]:
    """Return the partitions of a collection as delayed values; errors call the collection `name`."""
    if isinstance(values, list | tuple):
        from dask import delayed

        return [part if hasattr(type(part), "__dask_graph__") else delayed(part) for part in values]
    if hasattr(values, "rechunk"):
        if values.ndim > 1:
            values = values.rechunk(dict.fromkeys(range(1, values.ndim), -1))
        return list(values.to_delayed().ravel())
    if not hasattr(values, "to_delayed"):
        raise ValueError(
            f"{name} must be a Dask dataframe, a Dask array or a list of delayed partitions; "
            f"got {type(values).__name__}."
        )
    if hasattr(values, "simplify"):
        # Dask optimizes each collection separately and fuses partitions of narrow collections, so y could end up with
        # other partitions than X. Column projections still reach the files because simplification pushes them down.
        return list(values.simplify().to_delayed(optimize_graph=False))
    return list(values.to_delayed())


def copy_for_attempt(value: Any, address: str, attempt: tuple[str, int]) -> Any:
    """Return a copy of a delayed value whose tasks belong to one attempt at a fit, preferably on one worker.

    If attempts shared tasks, a fit could wait for a lost or unresponsive worker to which the tasks of another attempt
    were assigned.
    """
    from dask import annotate
    from dask._task_spec import convert_legacy_graph
    from dask.core import get_dependencies
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
    from distributed import Future

    graph, held, copied, left = dict(value.dask), {}, {}, [value.key]
    while left:
        key = left.pop()
        if isinstance(graph.get(key), Future):
            held[key] = graph[key]
        elif key in graph and key not in copied:  # all other keys are already on the cluster
            copied[key] = graph[key]
            left += get_dependencies(graph, key)
    ending = f"-{attempt[0]}-{attempt[1]}"
    names = {key: (key[0] + ending, *key[1:]) if isinstance(key, tuple) else str(key) + ending for key in copied}
    if value.key not in names:
        return value
    tasks = convert_legacy_graph(copied, all_keys=set(graph))
    with annotate(workers=[address], allow_other_workers=True):
        layer = MaterializedLayer(held | {names[key]: tasks[key].substitute(names, key=names[key]) for key in tasks})
    name: Any = names[value.key]  # Dask's type hints allow only strings as layer names
    return Delayed(name, HighLevelGraph({name: layer}, {name: set()}), layer=name)
