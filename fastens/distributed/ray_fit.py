"""Training on a Ray cluster: each rank is an actor, and messages are calls of actor methods.

Ray transports the messages, so no port is opened. Actors live for one attempt at a fit. If an actor is lost, all actors
are stopped, and new actors start from the last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from fastens.distributed.coordinator import ClusterLostError, WorkerGroup, check_before_reading, run_coordinator
from fastens.distributed.rank_fit import FitTask, assign_workers, split_evenly
from fastens.distributed.ray_table import RayTable, split_on_ray
from fastens.distributed.reduction import RankLostError, Tag
from fastens.distributed.session import Event, Session

_POLL_SECONDS = 1.0
# The number of threads of each concurrency group, so that an actor responds to calls during training.
_GROUPS = {"train": 1, "receive": 1, "lead": 3}
Parts = Mapping[str, Sequence[Mapping[str, Any]]]


def fit_on_ray(model: Any, X: Any, fit_params: dict[str, Any]) -> Any:
    """Train on a table of a Ray cluster and return the model; see `run_coordinator` for the errors raised."""
    check_before_reading(model, X, fit_params)
    table = RayTable.of(X)
    parts = split_on_ray(table.table, fit_params)
    return run_coordinator(model, table, parts, fit_params, lambda task: _start_group(table, parts, task))


# The workers --------------------------------------------------


class _Rank(Session):
    """An actor that receives partitions, exchanges messages with the other actors and trains one rank."""

    def __init__(self, patience: float, task: FitTask) -> None:
        super().__init__(0, 1, patience, task)

    def node(self) -> str:
        """Return the identifier of the Ray node on which this actor runs."""
        return str(ray.get_runtime_context().get_node_id())

    def set_rank(self, rank: int, actors: Sequence[Any]) -> None:
        """Make this actor the given rank; `actors` lists the actors of all ranks in order."""
        self.rank, self.size, self._actors = rank, len(actors), actors

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or a picklable value to the actor of another rank, without waiting for it."""
        _call(self._actors[rank], "put", self.rank, tag, payload, concurrency_group="receive")

    def put(self, rank: int, tag: Tag, payload: Any) -> None:
        """Store a message that another rank has sent to this one."""
        self.mailbox.put(rank, tag, payload)

    def renew(self) -> None:
        """Extend the deadline at which this actor gives up the fit."""
        self.mailbox.renew()

    def load(self, key: tuple[str, int], has_rows: bool, names: Sequence[str], *values: Any) -> int:
        """Store partition `key` (table name, index), or only its columns if not `has_rows`; return the row count."""
        contents = dict(zip(names, values if has_rows else [each[:0] for each in values], strict=True))
        return self.store_partition(*key, contents)


def _call(actor: Any, method: str, *args: Any, concurrency_group: str = "lead") -> Any:
    """Call an actor's method without waiting and return a reference; raise ClusterLostError if Ray was shut down."""
    if not ray.is_initialized():  # calling Ray would start another cluster
        raise ClusterLostError("Ray was shut down during the fit.")
    return getattr(actor, method).options(concurrency_group=concurrency_group).remote(*args)


@ray.remote
def _compute_objects(*values: Any) -> None:
    """Do nothing; as a task that depends on objects, it makes Ray compute them."""


# The coordinator --------------------------------------------------


@contextmanager
def _start_group(table: RayTable, parts: Parts, task: FitTask) -> Iterator[WorkerGroup]:
    """Start actors, load their partitions, start one attempt at training, and yield the group; kill actors at exit."""
    # Partitions, including partitions of a lost node, must be computed before actors reserve the CPUs that this needs.
    _fetch([_compute_objects.remote(*part.values()) for partitions in parts.values() for part in partitions])
    n_actors, n_cpus = _choose_actors(table, len(parts["X"]))
    options: dict[str, Any] = {"num_cpus": n_cpus, "scheduling_strategy": "SPREAD", "concurrency_groups": _GROUPS}
    kind = ray.remote(**options)(_Rank)
    cluster = _cluster_id()
    started: list[Any] = [kind.remote(table.patience, task) for _ in range(n_actors)]
    try:
        nodes = _wait_for_actors(started, table.patience, n_cpus)
        parts_by_rank = split_evenly(len(parts["X"]), len(nodes))
        order = assign_workers(parts_by_rank, _partition_holders(parts["X"]), list(nodes.values()))
        actors = [list(nodes)[k] for k in order]
        _fetch([_call(actor, "set_rank", rank, actors) for rank, actor in enumerate(actors)], table.patience)
        _load(actors, parts_by_rank, parts, table.patience)
        n_threads = max(1, int(n_cpus))
        yield _RayWorkerGroup(
            actors, [_call(actor, "train", n_threads, concurrency_group="train") for actor in actors], table.patience
        )
    except Exception as error:
        if isinstance(error, ClusterLostError) or _cluster_id() == cluster:
            raise
        # The exception depends on what the fit was doing.
        raise ClusterLostError(f"Ray was shut down during the fit: {error!r}") from error
    finally:
        for actor in started if _cluster_id() == cluster else ():
            with suppress(RayError):  # the cluster may be lost, too
                ray.kill(actor)


def _cluster_id() -> str | None:
    """Return an identifier of the cluster that this process is connected to, or None if there is none."""
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else None


def _choose_actors(table: RayTable, n_parts: int) -> tuple[int, float]:
    """Return (number of actors to start, CPUs of each), at most one actor for each of the `n_parts` partitions."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    n_cpus = sum(node["Resources"]["CPU"] for node in nodes)
    n_actors = min(table.n_actors or len(nodes), n_parts)
    each = table.cpus_per_actor or max(1, n_cpus // max(1, n_actors))
    return max(1, min(n_actors, int(n_cpus // each))), each


def _wait_for_actors(actors: Sequence[Any], patience: float, n_cpus: float) -> dict[Any, str]:
    """Return {actor: node} of actors that start within `patience` seconds; raise ClusterLostError if none does."""
    calls = {_call(actor, "node"): actor for actor in actors}
    started, _ = ray.wait(list(calls), num_returns=len(calls), timeout=patience)
    nodes, why = {}, f"no actor got {n_cpus:g} CPUs within {patience:g} seconds"
    for call in started:
        try:
            nodes[calls[call]] = _fetch(call)
        except RankLostError as error:
            why = str(error)
    if not nodes:
        raise ClusterLostError(f"no actor could be started: {why}.")
    return nodes


def _partition_holders(parts: Sequence[Mapping[str, Any]]) -> dict[int, list[str]]:
    """Return {partition index: node ids that hold its X}; {} if locations are unknown, as for Ray Client."""
    references = [part["X"] for part in parts]
    if ray.util.client.ray.is_connected():  # the locations of objects are unknown to remote clients
        return {}
    held = ray.experimental.get_object_locations(references)
    return {number: held[reference]["node_ids"] for number, reference in enumerate(references)}


def _load(actors: Sequence[Any], parts_by_rank: Sequence[range], parts: Parts, patience: float) -> None:
    """Send each rank's partitions to its actor; raise RankLostError if none arrives for `patience` seconds."""
    shares = {"X": parts_by_rank, "X_val": split_evenly(len(parts.get("X_val", [])), len(actors))}
    pending = []
    for rank, actor in enumerate(actors):
        for name, partitions in parts.items():
            # A rank without validation rows must still know their columns.
            for number in shares[name][rank] or [0]:
                has_rows, part = number in shares[name][rank], partitions[number]
                pending.append(_call(actor, "load", (name, number), has_rows, list(part), *part.values()))
    while pending:
        arrived, pending = ray.wait(pending, timeout=patience)
        if not arrived:
            raise RankLostError(f"no partition has arrived for {patience:g} seconds")
        _fetch(arrived)


class _RayWorkerGroup(WorkerGroup):
    """The actors of one attempt at a fit, one per rank."""

    def __init__(self, actors: Sequence[Any], runs: Sequence[Any], patience: float) -> None:
        self._actors, self._runs, self._patience = actors, list(runs), patience
        self.n_ranks = len(actors)

    def renew(self) -> None:
        """Extend the deadline at which each actor gives up the fit; raise RankLostError if one does not respond."""
        calls = [_call(actor, "renew") for actor in self._actors]
        _, late = ray.wait(calls, num_returns=len(calls), timeout=self._patience / 2)
        if late:
            raise RankLostError(f"actors do not answer: {', '.join(str(calls.index(call)) for call in late)}")
        _fetch(calls)

    def events(self, last_received: int) -> list[Event]:
        """Return rank 0's events with numbers above `last_received`; wait up to about a second; [] after a loss."""
        return self._call_first_rank("events", last_received, _POLL_SECONDS) or []

    def answer(self, number: int, value: Any) -> None:
        """Send `value` to rank 0 as the answer to the question of event `number`."""
        self._call_first_rank("answer", number, value)

    def result(self) -> dict[str, Any] | None:
        """Return the fitted state of the first rank, or None during training; raise the error of any rank."""
        ended, _ = ray.wait(self._runs, num_returns=len(self._runs), timeout=0)
        lost = None if self.lost is None else RankLostError(self.lost)
        for run in ended:
            try:
                _fetch(run)
            except RankLostError as error:
                lost = error
        if lost is not None:
            raise lost
        state: dict[str, Any] | None = _fetch(self._runs[0], self._patience) if self._runs[0] in ended else None
        return state

    def _call_first_rank(self, method: str, *args: Any) -> Any:
        """Call a method of the first rank's actor; return its result, or None if an actor is lost."""
        call = _call(self._actors[0], method, *args)
        while self.lost is None:
            if ray.wait([call], timeout=0.2)[0]:
                try:
                    return _fetch(call)
                except RankLostError:
                    time.sleep(0.1)  # `result` will raise the error
                    return None
        return None


def _fetch(calls: Any, seconds: float | None = None) -> Any:
    """Return the results of object references; raise their exceptions, or RankLostError after a loss or timeout."""
    try:
        return ray.get(calls, timeout=seconds)
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, RayError):
            raise RankLostError(str(cause)) from error
        raise cause from error
    except RayError as error:
        raise RankLostError(str(error)) from error
