"""A fit on a Ray cluster: each rank is an actor, and messages are calls of actors.

Ray moves what these carry, so that no port is opened. Actors last for one attempt at a fit: where one is lost, all are
ended, and others begin from the last checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from fastens.distributed.leading import ClusterLostError, Crew, check_before_reading, lead
from fastens.distributed.rank_fit import FitTask, blocks, placed
from fastens.distributed.ray_table import RayTable, split_on_ray
from fastens.distributed.reduction import RankLostError, Tag
from fastens.distributed.session import Event, Session, without_rows

_POLL_SECONDS = 1.0
# Methods of an actor by the threads that run them: a rank that trains hears and is heard.
_GROUPS = {"train": 1, "receive": 1, "lead": 3}
Parts = Mapping[str, Sequence[Mapping[str, Any]]]


def fit_on_ray(model: Any, X: Any, given: dict[str, Any]) -> Any:
    """Train on a table of a Ray cluster; return the model. The rest is as `lead` says."""
    check_before_reading(model, X, given)
    table = X if isinstance(X, RayTable) else RayTable(X)
    parts = split_on_ray(table.table, given)
    return lead(model, table, parts, given, lambda task: _crew(table, parts, task))


# Processes that train --------------------------------------------------


class _Rank(Session):
    """An actor: it takes partitions, exchanges messages with the other actors, and trains one rank."""

    def __init__(self, patience: float, task: FitTask) -> None:
        super().__init__(0, 1, patience, task)

    def node(self) -> str:
        """The node it is on."""
        return str(ray.get_runtime_context().get_node_id())

    def sit(self, rank: int, actors: Sequence[Any]) -> None:
        """Be a rank of the fit of these actors."""
        self.rank, self.size, self._actors = rank, len(actors), actors

    def send(self, rank: int, tag: Tag, payload: Any) -> None:
        """Send an array or bytes to a rank, without waiting for it."""
        _call(self._actors[rank], "put", self.rank, tag, payload, group="receive")

    def put(self, rank: int, tag: Tag, payload: Any) -> None:
        """Take a message of a rank."""
        self.mailbox.put(rank, tag, payload)

    def renew(self) -> None:
        """Let the fit go on."""
        self.mailbox.renew()

    def load(self, place: tuple[str, int], has_rows: bool, names: Sequence[str], *values: Any) -> int:
        """Keep a partition, or nothing but its columns."""
        contents = dict(zip(names, values, strict=True))
        return self.take(*place, contents if has_rows else without_rows(contents))


def _call(actor: Any, method: str, *args: Any, group: str = "lead") -> Any:
    return getattr(actor, method).options(concurrency_group=group).remote(*args)


@ray.remote
def _touch(*values: Any) -> None:
    """Make values be there."""


# Who leads them --------------------------------------------------


@contextmanager
def _crew(table: RayTable, parts: Parts, task: FitTask) -> Iterator[Crew]:
    """The actors of another attempt, with their partitions, which train."""
    # Before actors reserve the CPUs that computing partitions, or those of a lost node again, needs.
    _get([_touch.remote(*part.values()) for found in parts.values() for part in found])
    n_actors, n_cpus = _numbers(table, len(parts["X"]))
    options = {"num_cpus": n_cpus, "scheduling_strategy": "SPREAD", "concurrency_groups": _GROUPS}
    kind = ray.remote(**options)(_Rank)
    started = [kind.remote(table.patience, task) for _ in range(n_actors)]
    try:
        places = _ready(started, table.patience, n_cpus)
        owned = blocks(len(parts["X"]), len(places))
        actors = [list(places)[place] for place in placed(owned, _holders(parts["X"]), list(places.values()))]
        _get([_call(actor, "sit", rank, actors) for rank, actor in enumerate(actors)], table.patience)
        _load(actors, owned, parts, table.patience)
        n_threads = max(1, int(n_cpus))
        yield _RayCrew(actors, [_call(actor, "train", n_threads, group="train") for actor in actors], table.patience)
    finally:
        for actor in started:
            with suppress(RayError):  # where the cluster is lost, too
                ray.kill(actor)


def _numbers(table: RayTable, n_parts: int) -> tuple[int, float]:
    """How many actors there are to be, and the CPUs of each."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    n_cpus = sum(node["Resources"]["CPU"] for node in nodes)
    n_actors = min(table.n_actors or len(nodes), n_parts)
    each = table.cpus_per_actor or max(1, n_cpus // max(1, n_actors))
    return max(1, min(n_actors, int(n_cpus // each))), each


def _ready(actors: Sequence[Any], patience: float, n_cpus: float) -> dict[Any, str]:
    """The actors that have started, and their nodes."""
    calls = {_call(actor, "node"): actor for actor in actors}
    started, _ = ray.wait(list(calls), num_returns=len(calls), timeout=patience)
    found, why = {}, f"none has got {n_cpus:g} CPUs within {patience:g} seconds"
    for call in started:
        try:
            found[calls[call]] = _get(call)
        except RankLostError as error:
            why = str(error)
    if not found:
        raise ClusterLostError(f"no actor could be started: {why}.")
    return found


def _holders(parts: Sequence[Mapping[str, Any]]) -> dict[int, list[str]]:
    """The nodes that have partitions."""
    references = [part["X"] for part in parts]
    if ray.util.client.ray.is_connected():  # from afar, nothing is known of nodes
        return {}
    held = ray.experimental.get_object_locations(references)
    return {number: held[reference]["node_ids"] for number, reference in enumerate(references)}


def _load(actors: Sequence[Any], owned: Sequence[range], parts: Parts, patience: float) -> None:
    """Give the actors their partitions; RankLostError where none arrives for too long."""
    shares = {"X": owned, "X_val": blocks(len(parts.get("X_val", [])), len(actors))}
    pending = []
    for rank, actor in enumerate(actors):
        for name, found in parts.items():
            # A rank without rows to validate on must know their columns.
            for number in shares[name][rank] or [0]:
                has_rows, part = number in shares[name][rank], found[number]
                pending.append(_call(actor, "load", (name, number), has_rows, list(part), *part.values()))
    while pending:
        arrived, pending = ray.wait(pending, timeout=patience)
        if not arrived:
            raise RankLostError(f"no partition has arrived for {patience:g} seconds")
        _get(arrived)


class _RayCrew(Crew):
    """The actors of an attempt at a fit, by their ranks."""

    def __init__(self, actors: Sequence[Any], runs: Sequence[Any], patience: float) -> None:
        self._actors, self._runs, self._patience = actors, list(runs), patience
        self.n_ranks = len(actors)

    def renew(self) -> None:
        """Let actors hear that the fit is wanted; RankLostError where one does not answer."""
        calls = [_call(actor, "renew") for actor in self._actors]
        _, late = ray.wait(calls, num_returns=len(calls), timeout=self._patience / 2)
        if late:
            raise RankLostError(f"actors do not answer: {', '.join(str(calls.index(call)) for call in late)}")
        _get(calls)

    def events(self, heard: int) -> list[Event]:
        """What the first rank reports after what was heard, as soon as there is anything, or after about a second."""
        return self._of_first("events", heard, _POLL_SECONDS) or []

    def answer(self, number: int, value: Any) -> None:
        """Hand the answer to a question to the first rank."""
        self._of_first("answer", number, value)

    def result(self) -> dict[str, Any] | None:
        """What the first rank has learned; None while it trains; else the error of a rank."""
        ended, _ = ray.wait(self._runs, num_returns=len(self._runs), timeout=0)
        lost = None if self.lost is None else RankLostError(self.lost)
        for run in ended:
            try:
                _get(run)
            except RankLostError as error:
                lost = error
        if self._runs[0] in ended and lost is None:
            found: dict[str, Any] = _get(self._runs[0], self._patience)
            return found
        if lost is not None:
            raise lost
        return None

    def _of_first(self, method: str, *args: Any) -> Any:
        """What a method of the first actor returns; None where that, or another, is lost."""
        call = _call(self._actors[0], method, *args)
        while self.lost is None:
            if ray.wait([call], timeout=0.2)[0]:
                try:
                    return _get(call)
                except RankLostError:
                    time.sleep(0.1)  # `result` says so
                    return None
        return None


def _get(calls: Any, seconds: float | None = None) -> Any:
    """What calls return; what they have raised, and RankLostError where something was lost or takes too long."""
    try:
        return ray.get(calls, timeout=seconds)
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, RayError):
            raise RankLostError(str(cause)) from error
        raise cause from error
    except RayError as error:
        raise RankLostError(str(error)) from error
