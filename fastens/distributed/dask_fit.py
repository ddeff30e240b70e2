"""Training on a Dask cluster: assigns ranks and partitions to workers, and detects lost workers."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, default_client, futures_of
from distributed.comm import CommClosedError

from fastens.distributed import dask_worker as remote
from fastens.distributed.coordinator import (
    ClusterLostError,
    TasksCancelledError,
    WorkerGroup,
    check_before_reading,
    run_coordinator,
)
from fastens.distributed.dask_table import DaskTable, own_value, split
from fastens.distributed.rank_fit import FitTask, blocks, placed
from fastens.distributed.reduction import RankLostError
from fastens.distributed.session import Event

_POLL_SECONDS = 1.0
# Errors of ranks and of their tasks that mean that a worker was lost.
_LOST = (RankLostError, KilledWorker, CommClosedError, asyncio.CancelledError)
Parts = Mapping[str, Sequence[Mapping[str, Any]]]


def fit_on_dask(model: Any, X: Any, fit_params: dict[str, Any]) -> Any:
    """Train on a Dask collection and return the model; see `run_coordinator` for the errors raised."""
    check_before_reading(model, X, fit_params)
    table = DaskTable.of(X)
    client, parts = _client_of(table), split(table.table, fit_params)
    return run_coordinator(model, table, parts, fit_params, _Cluster(client, table, parts).crew)


def _client_of(table: DaskTable) -> Client:
    if table.client is None:
        try:
            client = default_client()
        except ValueError as error:
            raise ValueError(
                "X is a Dask collection, but there is no Dask client. Create a distributed.Client first, or "
                "pass one as fastens.distributed.DaskTable(X, client=...)."
            ) from error
    else:
        client = table.client
    if client.asynchronous:
        raise ValueError("client must not be asynchronous, because fit blocks until the cluster is done.")
    return client


class _Cluster:
    """The workers that are available to a fit, across all its attempts."""

    def __init__(self, client: Client, table: DaskTable, parts: Parts) -> None:
        self.client, self.table, self._parts = client, table, parts
        self._name, self._n_attempts = secrets.token_hex(8), 0
        self.silent: set[str] = set()  # workers that do not respond

    @contextmanager
    def crew(self, task: FitTask) -> Iterator[WorkerGroup]:
        """Start a new attempt: send the partitions to the workers and start training."""
        crew = _DaskWorkerGroup(self, (self._name, self._n_attempts), [])
        self._n_attempts += 1
        try:
            workers = self._workers()
            owned = blocks(len(self._parts["X"]), min(len(workers), len(self._parts["X"])))
            crew.seat([workers[k] for k in placed(owned, self._holders(), workers)])
            self._open(crew, task)
            crew.futures = self._submit(crew, owned)
            yield crew
        except Exception as error:
            if self.is_open or isinstance(error, ClusterLostError):
                raise
            # The exception depends on what the fit was doing; Dask also raises AttributeError and its own
            # CancelledError here.
            raise ClusterLostError(f"the client or its cluster was closed during the fit: {error!r}") from error
        finally:
            if self.is_open:
                self._close(crew)

    @property
    def is_open(self) -> bool:
        """False once the client was closed or has lost its scheduler."""
        return self.client.status not in ("closing", "closed")

    def registered_workers(self) -> set[str]:
        """Return the addresses of the workers that are registered with the scheduler."""
        return set(self.sync(_addresses, self.client))

    def sync(self, function: Any, *args: Any, longer: float = 0.0) -> Any:
        """Call a coroutine function on the client's event loop; raise ClusterLostError on failure or timeout.

        The timeout is the patience plus `longer` seconds.
        """
        try:
            return self.client.sync(function, *args, callback_timeout=self.table.patience + longer)
        except OSError as error:
            raise ClusterLostError(f"the scheduler does not answer: {error!r}") from error

    def on_each(self, function: Any, calls: Sequence[tuple[Any, ...]], seconds: float | None = None) -> list[Any]:
        """Call a function on workers, each the first argument of a call; return the results or exceptions."""
        limit = self.table.patience if seconds is None else seconds
        # Each call must time out before `sync` does, because a hanging worker does not mean that the scheduler is lost.
        answers: list[Any] = self.sync(_on_each, self.client, function, calls, limit, longer=limit)
        return answers

    def _workers(self) -> list[str]:
        """Return the workers that may train, after waiting for at least one."""
        ends = time.monotonic() + self.table.patience
        while True:
            addresses = sorted(self.registered_workers() - self.silent)
            if self.table.workers is not None:
                addresses = [address for address in addresses if address in self.table.workers]
            if addresses:
                return addresses
            if time.monotonic() > ends:
                raise ClusterLostError(f"the cluster has had no workers for {self.table.patience:g} seconds.")
            time.sleep(0.2)

    def _holders(self) -> dict[int, list[str]]:
        """Return the workers that hold each partition of a persisted table."""
        futures = {future.key: future for future in futures_of(self.table.table)}
        held = self.sync(_holders, self.client, list(futures.values())) if futures else {}
        return {number: held.get(key, []) for number, key in enumerate(futures)}

    def _open(self, crew: _DaskWorkerGroup, task: FitTask) -> None:
        seats = [
            remote.Seat(crew.key, rank, crew.addresses, self.table.patience) for rank in range(len(crew.addresses))
        ]
        opened = [(address, seat, task) for address, seat in zip(crew.addresses, seats, strict=True)]
        answers = dict(zip(crew.addresses, self.on_each(remote.open_session, opened), strict=True))
        silent = {address: answer for address, answer in answers.items() if isinstance(answer, OSError)}
        self.silent.update(silent)
        for answer in answers.values():
            if isinstance(answer, BaseException) and not isinstance(answer, OSError):
                raise answer
        for address, answer in silent.items():
            raise RankLostError(f"{address} does not answer: {answer!r}")

    def _close(self, crew: _DaskWorkerGroup) -> None:
        for future in [*crew.futures, *crew.taken.values()]:
            with suppress(Exception):
                future.cancel()
        with suppress(Exception):
            # Connecting to a worker that is gone would use up the whole time limit.
            there = self.registered_workers() - self.silent
            calls = [(address, crew.key) for address in crew.addresses if address in there]
            self.on_each(remote.close_session, calls, 5.0)

    def _submit(self, crew: _DaskWorkerGroup, owned: Sequence[range]) -> list[Future]:
        """Submit tasks that send the partitions to their workers and then train."""
        ranks: list[Any] = []
        taken: dict[Any, Any] = {}
        take, train = (dask.delayed(function, pure=False) for function in (remote.take_partition, remote.train_rank))
        shares = {"X": owned, "X_val": blocks(len(self._parts.get("X_val", [])), len(crew.addresses))}
        for rank, address in enumerate(crew.addresses):
            contents = {
                (name, number): {
                    each: own_value(value, address, crew.key) for each, value in partitions[number].items()
                }
                for name, partitions in self._parts.items()
                for number in shares[name][rank]
            }
            for name, partitions in self._parts.items():
                if not shares[name][rank]:  # a rank without validation rows must still know their columns
                    contents[name, 0] = {each: value[:0] for each, value in partitions[0].items()}
            with dask.annotate(workers=[address], allow_other_workers=False, retries=0):
                tasks = {key: take(crew.key, *key, [*content], *content.values()) for key, content in contents.items()}
                ranks.append(train(crew.key, *tasks.values()))
            taken |= tasks
        futures = list(self.client.compute([*ranks, *taken.values()], optimize_graph=False))
        crew.taken = dict(zip(taken, futures[len(ranks) :], strict=True))
        return futures[: len(ranks)]


class _DaskWorkerGroup(WorkerGroup):
    """The workers of one attempt at a fit, one per rank."""

    def __init__(self, cluster: _Cluster, key: remote.Key, addresses: list[str]) -> None:
        self._cluster, self.key = cluster, key
        self.futures: list[Future] = []
        self.taken: dict[tuple[str, int], Future] = {}  # by table name and partition index
        self.seat(addresses)

    def seat(self, addresses: list[str]) -> None:
        """Assign the workers at these addresses to the ranks."""
        self.addresses, self.n_ranks = addresses, len(addresses)

    def renew(self) -> None:
        """Renew the fit on all workers; raise RankLostError if one does not respond or has left."""
        connected = self._cluster.registered_workers()
        gone = [address for address in self.addresses if address not in connected]
        if gone:
            raise RankLostError(f"workers have left the cluster: {', '.join(gone)}")
        calls = [(address, self.key) for address in self.addresses]
        answers = self._cluster.on_each(remote.renew_session, calls, self._cluster.table.patience / 2)
        for address, answer in zip(self.addresses, answers, strict=True):
            if isinstance(answer, TimeoutError):
                self._cluster.silent.add(address)
            if isinstance(answer, BaseException):
                raise RankLostError(f"{address} does not answer: {answer!r}")

    def events(self, heard: int) -> list[Event]:
        """Return the events of the first rank after number `heard`, waiting up to about a second for one."""
        answer = self._on_first(remote.next_events, heard, _POLL_SECONDS)
        if isinstance(answer, BaseException):
            time.sleep(0.1)  # `renew` detects the cause
            return []
        return list(answer)

    def answer(self, number: int, value: Any) -> None:
        """Send the answer to a question to the first rank."""
        while isinstance(self._on_first(remote.give_answer, number, value), BaseException):
            if self.lost is not None or not self._cluster.is_open:
                return
            time.sleep(0.1)

    def result(self) -> dict[str, Any] | None:
        """Return the fitted state of the first rank, or None during training; raise the error of any rank."""
        first = self.futures[0]
        if first.status == "finished":
            try:
                state: dict[str, Any] = first.result(timeout=self._cluster.table.patience)
            except OSError as error:
                raise RankLostError(f"{self.addresses[0]} did not return the model: {error!r}") from error
            return state
        ended = [future for future in self.futures if future.status in ("error", "cancelled", "lost")]
        errors = [_error_of(future) for future in ended]
        for raised in errors:
            if not isinstance(raised, _LOST):
                failed = [key for key, future in self.taken.items() if future.status == "error"]
                for table, number in failed[:1]:  # the partition could not be computed
                    raised.add_note(f"This is in partition {number} of {table}.")
                raise raised
        for raised in errors:
            if isinstance(raised, TasksCancelledError):
                raise raised
        if self.lost is not None or errors:
            raise RankLostError(self.lost or str(errors[0]))
        return None

    def _on_first(self, function: Any, *args: Any) -> Any:
        """Call a function on the first rank's worker; return its result or exception, or stop if the fit is lost."""
        client, calls = self._cluster.client, [(self.addresses[0], self.key, *args)]
        called = _on_each(client, function, calls, self._cluster.table.patience)
        loop: Any = client.loop
        future = asyncio.run_coroutine_threadsafe(called, loop.asyncio_loop)
        while self.lost is None and self._cluster.is_open:
            if wait([future], timeout=0.2).done:
                return future.result()[0]
        future.cancel()
        return RankLostError(self.lost or "the client is closed")


def _error_of(future: Future) -> BaseException:
    """Return the error of an unfinished task; for a cancelled task, with Dask's reason."""
    if future.status == "error":
        reason: BaseException = future.exception(timeout=10)
        return reason
    try:
        reason = future.exception(timeout=10) or RankLostError(f"its task is {future.status}")
    except Exception as error:  # Dask raises for cancelled tasks
        reason = error
    except asyncio.CancelledError as error:
        reason = error
    return TasksCancelledError(f"Dask reports that the tasks of the fit are {future.status}: {reason}")


async def _addresses(client: Client) -> list[str]:
    return list(await client.scheduler.ncores(workers=None))


async def _holders(client: Client, futures: list[Future]) -> dict[Any, list[str]]:
    holders = await client.scheduler.who_has(keys=[future.key for future in futures])
    return {key: list(addresses) for key, addresses in holders.items()}


async def _on_each(client: Client, function: Any, calls: Sequence[tuple[Any, ...]], seconds: float) -> list[Any]:
    """Call a function on workers concurrently; return the result or exception of each, maybe TimeoutError."""

    async def call(address: str, *args: Any) -> Any:
        by_address = await asyncio.wait_for(client._run(function, *args, workers=[address]), seconds)
        return by_address[address]

    return await asyncio.gather(*(call(*each) for each in calls), return_exceptions=True)
