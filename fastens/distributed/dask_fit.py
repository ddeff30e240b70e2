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
from fastens.distributed.dask_table import DaskTable, copy_for_attempt, split_on_dask
from fastens.distributed.rank_fit import FitTask, assign_workers, split_evenly
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
    client, parts = _find_client(table), split_on_dask(table.table, fit_params)
    return run_coordinator(model, table, parts, fit_params, _Cluster(client, table, parts).start_group)


def _find_client(table: DaskTable) -> Client:
    """Return the table's client or the default client; raise ValueError if there is none or it is asynchronous."""
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
    def start_group(self, task: FitTask) -> Iterator[WorkerGroup]:
        """Send partitions to workers, start one attempt at training, and yield its workers; clean up afterwards."""
        group = _DaskWorkerGroup(self, (self._name, self._n_attempts), [])
        self._n_attempts += 1
        try:
            workers = self._wait_for_workers()
            parts_by_rank = split_evenly(len(self._parts["X"]), min(len(workers), len(self._parts["X"])))
            group.assign_ranks([workers[k] for k in assign_workers(parts_by_rank, self._partition_holders(), workers)])
            self._open_sessions(group, task)
            group.futures = self._submit(group, parts_by_rank)
            yield group
        except Exception as error:
            if self.is_open or isinstance(error, ClusterLostError):
                raise
            # The exception depends on what the fit was doing; Dask also raises AttributeError and its own
            # CancelledError here.
            raise ClusterLostError(f"the client or its cluster was closed during the fit: {error!r}") from error
        finally:
            if self.is_open:
                self._close_sessions(group)

    @property
    def is_open(self) -> bool:
        """False once the client was closed or has lost its scheduler."""
        return self.client.status not in ("closing", "closed")

    def registered_workers(self) -> set[str]:
        """Return the addresses of the workers that are registered with the scheduler."""
        return set(self.sync(_worker_addresses, self.client))

    def sync(self, function: Any, *args: Any, extra_seconds: float = 0.0) -> Any:
        """Call a coroutine function on the client's event loop; raise ClusterLostError on failure or timeout.

        The timeout is the patience plus `extra_seconds` seconds.
        """
        try:
            return self.client.sync(function, *args, callback_timeout=self.table.patience + extra_seconds)
        except OSError as error:
            raise ClusterLostError(f"the scheduler does not answer: {error!r}") from error

    def call_workers(self, function: Any, calls: Sequence[tuple[Any, ...]], seconds: float | None = None) -> list[Any]:
        """Call a function with each tuple (worker address, *arguments); return the results or exceptions in order."""
        limit = self.table.patience if seconds is None else seconds
        # Each call must time out before `sync` does, because a hanging worker does not mean that the scheduler is lost.
        answers: list[Any] = self.sync(_call_workers, self.client, function, calls, limit, extra_seconds=limit)
        return answers

    def _wait_for_workers(self) -> list[str]:
        """Return the sorted addresses of usable workers; raise ClusterLostError if there are none for too long."""
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

    def _partition_holders(self) -> dict[int, list[str]]:
        """Return, by partition index, the addresses of workers that hold the partition in memory; {} if none do."""
        futures = {future.key: future for future in futures_of(self.table.table)}
        held = self.sync(_key_holders, self.client, list(futures.values())) if futures else {}
        return {number: held.get(key, []) for number, key in enumerate(futures)}

    def _open_sessions(self, group: _DaskWorkerGroup, task: FitTask) -> None:
        """Open a session for each rank on its worker; raise RankLostError, and mark the worker, on no response."""
        opened = [
            (address, remote.RankSettings(group.key, rank, group.addresses, self.table.patience), task)
            for rank, address in enumerate(group.addresses)
        ]
        answers = dict(zip(group.addresses, self.call_workers(remote.open_session, opened), strict=True))
        silent = {address: answer for address, answer in answers.items() if isinstance(answer, OSError)}
        self.silent.update(silent)
        for answer in answers.values():
            if isinstance(answer, BaseException) and not isinstance(answer, OSError):
                raise answer
        for address, answer in silent.items():
            raise RankLostError(f"{address} does not answer: {answer!r}")

    def _close_sessions(self, group: _DaskWorkerGroup) -> None:
        """Cancel the tasks of an attempt and close its sessions on the workers, ignoring errors."""
        for future in [*group.futures, *group.taken.values()]:
            with suppress(Exception):
                future.cancel()
        with suppress(Exception):
            # Connecting to a worker that is gone would use up the whole time limit.
            there = self.registered_workers() - self.silent
            calls = [(address, group.key) for address in group.addresses if address in there]
            self.call_workers(remote.close_session, calls, 5.0)

    def _submit(self, group: _DaskWorkerGroup, parts_by_rank: Sequence[range]) -> list[Future]:
        """Submit tasks that store `parts_by_rank` on the ranks' workers and train; return the training futures."""
        ranks: list[Any] = []
        taken: dict[Any, Any] = {}
        take, train = (dask.delayed(function, pure=False) for function in (remote.store_partition, remote.train_rank))
        shares = {"X": parts_by_rank, "X_val": split_evenly(len(self._parts.get("X_val", [])), len(group.addresses))}
        for rank, address in enumerate(group.addresses):
            contents = {
                (name, number): {
                    each: copy_for_attempt(value, address, group.key) for each, value in partitions[number].items()
                }
                for name, partitions in self._parts.items()
                for number in shares[name][rank]
            }
            for name, partitions in self._parts.items():
                if not shares[name][rank]:  # a rank without validation rows must still know their columns
                    contents[name, 0] = {each: value[:0] for each, value in partitions[0].items()}
            with dask.annotate(workers=[address], allow_other_workers=False, retries=0):
                tasks = {key: take(group.key, *key, [*content], *content.values()) for key, content in contents.items()}
                ranks.append(train(group.key, *tasks.values()))
            taken |= tasks
        futures = list(self.client.compute([*ranks, *taken.values()], optimize_graph=False))
        group.taken = dict(zip(taken, futures[len(ranks) :], strict=True))
        return futures[: len(ranks)]


class _DaskWorkerGroup(WorkerGroup):
    """The workers of one attempt at a fit, one per rank."""

    def __init__(self, cluster: _Cluster, key: remote.Key, addresses: list[str]) -> None:
        self._cluster, self.key = cluster, key
        self.futures: list[Future] = []
        self.taken: dict[tuple[str, int], Future] = {}  # by table name and partition index
        self.assign_ranks(addresses)

    def assign_ranks(self, addresses: list[str]) -> None:
        """Set the workers of this attempt: rank k runs on the worker at `addresses[k]`."""
        self.addresses, self.n_ranks = addresses, len(addresses)

    def renew(self) -> None:
        """Extend the deadline at which each worker gives up; raise RankLostError if one is silent or has left."""
        connected = self._cluster.registered_workers()
        gone = [address for address in self.addresses if address not in connected]
        if gone:
            raise RankLostError(f"workers have left the cluster: {', '.join(gone)}")
        calls = [(address, self.key) for address in self.addresses]
        answers = self._cluster.call_workers(remote.renew_session, calls, self._cluster.table.patience / 2)
        for address, answer in zip(self.addresses, answers, strict=True):
            if isinstance(answer, TimeoutError):
                self._cluster.silent.add(address)
            if isinstance(answer, BaseException):
                raise RankLostError(f"{address} does not answer: {answer!r}")

    def events(self, last_received: int) -> list[Event]:
        """Return rank 0's events with numbers above `last_received`; wait up to about a second; [] on failure."""
        answer = self._call_first_rank(remote.next_events, last_received, _POLL_SECONDS)
        if isinstance(answer, BaseException):
            time.sleep(0.1)  # `renew` detects the cause
            return []
        return list(answer)

    def answer(self, number: int, value: Any) -> None:
        """Send the answer to question `number` to rank 0; retry until it arrives or the fit is lost."""
        while isinstance(self._call_first_rank(remote.store_answer, number, value), BaseException):
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
        errors = [_task_error(future) for future in ended]
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

    def _call_first_rank(self, function: Any, *args: Any) -> Any:
        """Call function(key, *args) on rank 0's worker; return the result or exception, RankLostError on loss."""
        client, calls = self._cluster.client, [(self.addresses[0], self.key, *args)]
        called = _call_workers(client, function, calls, self._cluster.table.patience)
        loop: Any = client.loop
        future = asyncio.run_coroutine_threadsafe(called, loop.asyncio_loop)
        while self.lost is None and self._cluster.is_open:
            if wait([future], timeout=0.2).done:
                return future.result()[0]
        future.cancel()
        return RankLostError(self.lost or "the client is closed")


def _task_error(future: Future) -> BaseException:
    """Return the exception of a task that failed, was cancelled or was lost, with Dask's reason for the latter two."""
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


async def _worker_addresses(client: Client) -> list[str]:
    """Return the addresses of all workers that the scheduler knows."""
    return list(await client.scheduler.ncores(workers=None))


async def _key_holders(client: Client, futures: list[Future]) -> dict[Any, list[str]]:
    """Return the addresses of the workers that hold the result of each future, by the future's key."""
    holders = await client.scheduler.who_has(keys=[future.key for future in futures])
    return {key: list(addresses) for key, addresses in holders.items()}


async def _call_workers(client: Client, function: Any, calls: Sequence[tuple[Any, ...]], seconds: float) -> list[Any]:
    """Call `function` concurrently for each (address, *arguments); return results or exceptions, in the same order."""

    async def call(address: str, *args: Any) -> Any:
        by_address = await asyncio.wait_for(client._run(function, *args, workers=[address]), seconds)
        return by_address[address]

    return await asyncio.gather(*(call(*each) for each in calls), return_exceptions=True)
