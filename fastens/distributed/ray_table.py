"""Training tables on a Ray cluster, whose partitions are objects in Ray's object store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastens.distributed.rank_fit import FitProgress, SpreadTable, is_collection_on, tables_in, zip_partitions
from fastens.params.rules import real, whole

RAY_EXTRA = "tables on a Ray cluster need Ray, which is not installed: pip install fastens[ray]"
_KINDS = "a ray.data.Dataset or a list of object references to partitions"


class RayTable(SpreadTable):
    """A training table on a Ray cluster, with settings for the use of the cluster.

    Parameters
    ----------
    table : ray.data.Dataset or list of ray.ObjectRef
        The table that is passed to `fit` as X: a dataset, or references to partitions, which are dataframes, arrays or
        sparse matrices.
    n_actors : int, optional
        The number of actors that train, one rank each. Fewer actors are started if there are fewer partitions or not
        enough CPUs. If None, one actor is started per node.
    cpus_per_actor : float, optional
        The number of CPUs that each actor reserves, which is also its number of threads. If None, the CPUs of the
        cluster are divided by the number of actors, with at least 1 CPU per actor.
    checkpoint_every : int, default=10
        The number of boosting rounds between checkpoints, which are sent to this process. If an actor is lost, the fit
        resumes from the last checkpoint. Larger values send less data, but a lost actor costs more rounds.
    patience : float, default=60.0
        Timeout in seconds, at least 1. It limits how long the fit waits for an actor that does not respond, how long
        the actors wait for a driver that does not respond, and how long the fit waits for free CPUs.
    on_progress : function, optional
        Called with a `FitProgress` after each boosting round.

    Raises
    ------
    ValueError
        If `table` is not a table on Ray, or a parameter is out of range.

    Examples
    --------
    Pass the table to `fit` like any other table, ``model.fit(RayTable(dataset, n_actors=4), "rent")``:

    >>> from fastens.distributed import RayTable
    >>> RayTable([[1.0, 2.0]])
    Traceback (most recent call last):
        ...
    ValueError: table must be a ray.data.Dataset or a list of object references to partitions; got list.
    """

    _fastens_cluster = "ray"

    def __init__(
        self,
        table: Any,
        *,
        n_actors: int | None = None,
        cpus_per_actor: float | None = None,
        checkpoint_every: int = 10,
        patience: float = 60.0,
        on_progress: Callable[[FitProgress], None] | None = None,
    ) -> None:
        if not is_on_ray(table):
            raise ValueError(f"table must be {_KINDS}; got {type(table).__name__}.")
        if n_actors is not None:
            whole(1).check("n_actors", n_actors)
        if cpus_per_actor is not None:
            real(0, open_low=True).check("cpus_per_actor", cpus_per_actor)
        super().__init__(table, checkpoint_every, patience, on_progress)
        self.n_actors, self.cpus_per_actor = n_actors, cpus_per_actor


def is_on_ray(X: Any) -> bool:
    """Return True for a Ray dataset or a list of object references that is not wrapped in a RayTable."""
    return is_collection_on("ray", X)


def split_on_ray(X: Any, fit_params: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the partitions of "X" and, if given, "X_val", each as a dict of the table and its per-row arguments.

    Parameters
    ----------
    X : dataset or list of references
        The training table.
    fit_params : dict
        The other arguments of `fit`.

    Raises
    ------
    ValueError
        If targets, weights or other per-row arguments are not partitioned like their table.
    """
    tables = {}
    for name, table, by_row in tables_in(X, fit_params, is_on_ray, _KINDS):
        for other, values in by_row.items():
            if not is_on_ray(values) or not isinstance(values, list | tuple):
                raise ValueError(
                    f"{other} must name a column of {name} or be a list of object references; "
                    f"got {type(values).__name__}."
                )
        references = table if isinstance(table, list | tuple) else table.to_arrow_refs()
        tables[name] = zip_partitions({name: references, **by_row}, name)
    return tables
