"""Tables on a Ray cluster: their partitions, which are objects in its store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastens.distributed.rank_fit import FitProgress, SpreadTable, joined_parts, tables_in
from fastens.params.rules import real, whole
from fastens.table.spread import cluster_of

RAY_EXTRA = "tables on a Ray cluster need Ray, which is not installed: pip install fastens[ray]"
_KINDS = "a ray.data.Dataset or a list of object references to partitions"


class RayTable(SpreadTable):
    """A table on a Ray cluster to fit on, with how the cluster is used.

    Parameters
    ----------
    table : ray.data.Dataset or list of ray.ObjectRef
        What `fit` takes as X: a dataset, or references to partitions (frames, arrays, sparse matrices).
    n_actors : int, optional
        The processes that train, one rank each; default: one for each node. Fewer where there are fewer partitions, or
        not as many CPUs.
    cpus_per_actor : float, optional
        The CPUs that each reserves, and its threads; default: those of the cluster divided by the actors, at least 1.
    checkpoint_every : int, default=10
        Rounds of boosting after which a checkpoint goes to this process; the fit goes on from the last one where an
        actor is lost.
    patience : float, default=60.0
        Seconds: an actor that does not answer for so long is given up; actors give up a fit whose driver is silent for
        so long; and so long is waited for CPUs.
    on_progress : function, optional
        Called with a `FitProgress` after each round of boosting.

    Raises
    ------
    ValueError
        For a table of another kind, and parameters that break their rules.

    Examples
    --------
    The table is given to `fit` as any other, ``model.fit(RayTable(dataset, n_actors=4), "rent")``:

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
    """True for a dataset of Ray and for a list of references to its objects."""
    return cluster_of(X) == "ray" and not isinstance(X, SpreadTable)


def split_on_ray(X: Any, given: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the partitions of "X", and of "X_val" where it is given, each with what belongs to its rows.

    Parameters
    ----------
    X : dataset or list of references
        The table to fit on.
    given : dict
        The other arguments of `fit`.

    Raises
    ------
    ValueError
        For targets, weights and the like that are not divided as their table is.
    """
    found = {}
    for name, table, by_row in tables_in(X, given, is_on_ray, _KINDS):
        for other, values in by_row.items():
            if not is_on_ray(values) or not isinstance(values, list | tuple):
                raise ValueError(
                    f"{other} must name a column of {name} or be a list of object references; "
                    f"got {type(values).__name__}."
                )
        found[name] = joined_parts({name: _references(table), **by_row}, name)
    return found


def _references(table: Any) -> Sequence[Any]:
    return table if isinstance(table, list | tuple) else table.to_arrow_refs()
