"""A fit on a Dask cluster, as the process of the user leads it.

It hands out seats and partitions, hears of the rounds, keeps the last checkpoint, and begins anew from there with the
workers that are left where one is lost. All sums of a fit are exact, so the model is the same to the bit.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Future, KilledWorker, default_client, futures_of
from distributed.comm import CommClosedError

from fastens.distributed import dask_worker as remote
from fastens.distributed.dask_table import DaskTable, FitProgress, blocks, placed, split
from fastens.distributed.rank_fit import BY_ROW, FitTask, bare, fitted_state
from fastens.distributed.reduction import RankLostError
from fastens.storage import load_model

# Attempts in a row that bring no new checkpoint.
_MOST_ATTEMPTS = 8
_POLL_SECONDS = 1.0
# What ranks raise, or their tasks, where a worker was lost.
_LOST = (RankLostError, KilledWorker, CommClosedError, asyncio.CancelledError)


class ClusterLostError(RuntimeError):
    """The cluster has no workers, or no scheduler, any more; the model is that of the last checkpoint."""


def fit_on_dask(model: Any, X: Any, given: dict[str, Any]) -> Any:
    """Train on a Dask collection; return the model.

    Parameters
    ----------
    model : estimator
        One that trains on several ranks.
    X : DaskTable or collection
        The table.
    given : dict
        The other arguments of `fit`.

    Raises
    ------
    ClusterLostError
        Where no worker is left to go on with.
    ValueError
        For an estimator that needs all rows on one machine, and for arguments that break their rules.
    """
    if not model._takes_parts:
        raise ValueError(f"X must be a table in memory for {type(model).__name__}; got a Dask collection.")
    table = X if isinstance(X, DaskTable) else DaskTable(X)
    client = _client_of(table)
    resume = given.pop("resume", None)
    parts = split(table.table, given)
    by_row = {name for names in BY_ROW.values() for name in names} | {"X_val"}
    divided = {name for tables in parts.values() for name in tables[0]}
    arguments = {name: value for name, value in given.items() if not (name in by_row and name in divided)}
    fit = _Fit(model, table, client, parts)
    with model._announcing() if hasattr(model, "_announcing") else nullcontext([]) as callbacks:
        fit.callbacks = callbacks
        content = None if resume is None else Path(resume).read_bytes()
        found = fit.run(FitTask(bare(model), arguments, content, table.checkpoint_every, bool(callbacks)))
    _take(model, found)
    return model


def _client_of(table: DaskTable) -> Client:
    if table.client is None:
        try:
            client = default_client()
        except ValueError as error:
            raise ValueError(
                "X is a Dask collection, and there is no cluster: make a distributed.Client first, or give one as "
                "fastens.distributed.DaskTable(X, client=...)."
            ) from error
    else:
        client = table.client
    if client.asynchronous:
        raise ValueError("client must not be asynchronous: fit waits for the cluster.")
    return client


def _take(model: Any, found: dict[str, Any]) -> None:
    """Give an estimator what a fit has set, and nothing of an earlier one."""
    for name in fitted_state(model):
        delattr(model, name)
    vars(model).update(found)


@dataclass
class _Attempt:
    """One attempt at a fit: who has which seat, and what is known of them."""

    key: remote.Key
    addresses: list[str]
    futures: list[Future] = field(default_factory=list)
    lost: str | None = None  # why it cannot go on


class _Fit:
    """A fit that goes on until it has a model."""

    callbacks: Sequence[Callable[[Any], Any]] = ()

    def __init__(self, model: Any, table: DaskTable, client: Client, parts: dict[str, list[dict[str, Any]]]) -> None:
        self._model, self._table, self._client, self._parts = model, table, client, parts
        self._name = secrets.token_hex(8)
        self._checkpoint: bytes | None = None
        self._silent: set[str] = set()  # workers that do not answer

    def run(self, task: FitTask) -> dict[str, Any]:
        """Return what the model has learned."""
        left, number = _MOST_ATTEMPTS, 0
        try:
            while True:
                try:
                    return self._attempt(task, number)
                except RankLostError as error:
                    number, left = number + 1, left - 1
                    if self._checkpoint is not None and self._checkpoint is not task.checkpoint:
                        task, left = replace(task, checkpoint=self._checkpoint), _MOST_ATTEMPTS
                    if not left:
                        raise ClusterLostError(f"workers were lost {_MOST_ATTEMPTS} times in a row: {error}") from error
        except (ClusterLostError, KeyboardInterrupt) as error:
            self._go_back(error)
            raise

    def _go_back(self, error: BaseException) -> None:
        """Leave the model as it was at the last checkpoint."""
        if self._checkpoint is None:
            error.add_note("There was no checkpoint yet.")
            return
        with tempfile.TemporaryDirectory(prefix="fastens-") as folder:
            path = Path(folder) / "model"
            path.write_bytes(self._checkpoint)
            found = load_model(path, {type(self._model).__name__: type(self._model)})
        _take(self._model, fitted_state(found))
        error.add_note(
            f"The model has the {self._model.n_estimators_} rounds of the last checkpoint: save it, and fit with "
            "resume=PATH to go on from there."
        )

    # One attempt --------------------------------------------------

    def _attempt(self, task: FitTask, number: int) -> dict[str, Any]:
        workers = self._workers()
        owned = blocks(len(self._parts["X"]), min(len(workers), len(self._parts["X"])))
        attempt = _Attempt((self._name, number), placed(owned, self._holders(), workers))
        try:
            self._open(attempt, task)
            attempt.futures = self._submit(attempt, owned)
            with self._kept_alive(attempt):
                return self._follow(attempt)
        finally:
            self._close(attempt)

    def _workers(self) -> list[str]:
        """The workers that may train; waits for the first of them."""
        ends = time.monotonic() + self._table.patience
        while True:
            found = sorted(self._known() - self._silent)
            if self._table.workers is not None:
                found = [address for address in found if address in self._table.workers]
            if found:
                return found
            if time.monotonic() > ends:
                raise ClusterLostError(f"the cluster has had no workers for {self._table.patience:g} seconds.")
            time.sleep(0.2)

    def _known(self) -> set[str]:
        """The workers that the scheduler knows."""
        return set(self._sync(_addresses, self._client))

    def _sync(self, function: Any, *args: Any, longer: float = 0.0) -> Any:
        """Call a coroutine function on the client's loop; ClusterLostError where the scheduler does not answer.

        It may take longer than the patience by so many seconds.
        """
        try:
            return self._client.sync(function, *args, callback_timeout=self._table.patience + longer)
        except OSError as error:
            raise ClusterLostError(f"the scheduler does not answer: {error!r}") from error

    def _holders(self) -> dict[int, list[str]]:
        """The workers that have partitions of a persisted table."""
        futures = {future.key: future for future in futures_of(self._table.table)}
        held = self._sync(_holders, self._client, list(futures.values())) if futures else {}
        return {number: held.get(key, []) for number, key in enumerate(futures)}

    def _open(self, attempt: _Attempt, task: FitTask) -> None:
        seats = [
            remote.Seat(attempt.key, rank, attempt.addresses, self._table.patience)
            for rank in range(len(attempt.addresses))
        ]
        opened = [(address, seat, task) for address, seat in zip(attempt.addresses, seats, strict=True)]
        answers = dict(zip(attempt.addresses, self._on_each(remote.open_session, opened), strict=True))
        silent = {address: answer for address, answer in answers.items() if isinstance(answer, OSError)}
        self._silent.update(silent)
        for answer in answers.values():
            if isinstance(answer, BaseException) and not isinstance(answer, OSError):
                raise answer
        for address, answer in silent.items():
            raise RankLostError(f"{address} does not answer: {answer!r}")

    def _close(self, attempt: _Attempt) -> None:
        for future in attempt.futures:
            with suppress(Exception):
                future.cancel()
        with suppress(Exception):
            # To connect to a worker that is gone would take all of the limit.
            there = self._known() - self._silent
            calls = [(address, attempt.key) for address in attempt.addresses if address in there]
            self._on_each(remote.close_session, calls, 5.0)

    def _on_each(self, function: Any, calls: Sequence[tuple[Any, ...]], seconds: float | None = None) -> list[Any]:
        """Call a function on workers, the first of each call's arguments; return what they return or raise."""
        limit = self._table.patience if seconds is None else seconds
        # The limit of each call comes first: a worker that has stopped is no lost scheduler.
        found: list[Any] = self._sync(_on_each, self._client, function, calls, limit, longer=limit)
        return found

    def _submit(self, attempt: _Attempt, owned: Sequence[range]) -> list[Future]:
        """Send the partitions to their workers, and let these train once they have them."""
        ranks = []
        take, train, nothing = (
            dask.delayed(function, pure=False)
            for function in (remote.take_partition, remote.train_rank, remote.without_rows)
        )
        shares = {"X": owned, "X_val": blocks(len(self._parts.get("X_val", [])), len(attempt.addresses))}
        for rank, address in enumerate(attempt.addresses):
            # A rank without rows to validate on must know their columns.
            contents = {
                name: {number: found[number] for number in shares[name][rank]} or {0: nothing(found[0])}
                for name, found in self._parts.items()
            }
            with dask.annotate(workers=[address], allow_other_workers=False, retries=0):
                own = [take(attempt.key, name, *pair) for name, found in contents.items() for pair in found.items()]
                ranks.append(train(attempt.key, own))
        return list(self._client.compute(ranks, optimize_graph=False))

    # While it runs --------------------------------------------------

    @contextmanager
    def _kept_alive(self, attempt: _Attempt) -> Iterator[None]:
        """Within it, workers hear that the fit is wanted, and those that do not answer are found."""
        loop: Any = self._client.loop
        keeper = asyncio.run_coroutine_threadsafe(self._keep(attempt), loop.asyncio_loop)
        try:
            yield
        finally:
            keeper.cancel()

    async def _keep(self, attempt: _Attempt) -> None:
        patience = self._table.patience
        while attempt.lost is None:
            try:
                known = set(await asyncio.wait_for(_addresses(self._client), patience))
            except OSError as error:
                attempt.lost = f"the scheduler does not answer: {error!r}"
                return
            gone = [address for address in attempt.addresses if address not in known]
            if gone:
                attempt.lost = f"workers have left: {', '.join(gone)}"
                return
            calls = [(address, attempt.key) for address in attempt.addresses]
            found = await _on_each(self._client, remote.renew_session, calls, patience / 2)
            for address, answer in zip(attempt.addresses, found, strict=True):
                if isinstance(answer, BaseException):
                    attempt.lost = f"{address} does not answer: {answer!r}"
                    if isinstance(answer, TimeoutError):
                        self._silent.add(address)
            await asyncio.sleep(min(1.0, patience / 6))

    def _follow(self, attempt: _Attempt) -> dict[str, Any]:
        """Hear of the rounds until the first rank has ended."""
        first = attempt.futures[0]
        while True:
            for kind, content in self._events(attempt):
                self._hear(attempt, kind, content)
            if first.status == "finished":
                try:
                    found: dict[str, Any] = first.result(timeout=self._table.patience)
                except OSError as error:
                    raise RankLostError(f"{attempt.addresses[0]} does not hand over the model: {error!r}") from error
                return found
            _raise_failed(attempt)

    def _events(self, attempt: _Attempt) -> list[tuple[str, Any]]:
        found = self._on_first(attempt, remote.next_events, _POLL_SECONDS)
        if isinstance(found, BaseException):
            time.sleep(0.1)  # the keeper finds out why
            return []
        return list(found)

    def _on_first(self, attempt: _Attempt, function: Any, *args: Any) -> Any:
        """Call a function on the worker of the first rank; what it returns or raises, also as soon as all is lost."""
        calls = [(attempt.addresses[0], attempt.key, *args)]
        loop: Any = self._client.loop
        called = _on_each(self._client, function, calls, self._table.patience)
        future = asyncio.run_coroutine_threadsafe(called, loop.asyncio_loop)
        while attempt.lost is None:
            if wait([future], timeout=0.2).done:
                return future.result()[0]
        future.cancel()
        return RankLostError(attempt.lost)

    def _hear(self, attempt: _Attempt, kind: str, content: Any) -> None:
        if kind == "round":
            if getattr(self._model, "_on_round", None) is not None:
                self._model._on_round(*content[:4])
            if self._table.on_progress is not None:
                index, n_rounds, train, validation, *sent = content
                progress = FitProgress(index + 1, n_rounds, train, validation, len(attempt.addresses), *sent)
                self._table.on_progress(progress)
        elif kind == "checkpoint":
            self._checkpoint = content
        elif kind == "callbacks":
            self._answer(attempt, self._call_back(attempt, content))

    def _answer(self, attempt: _Attempt, value: Any) -> None:
        self._on_first(attempt, remote.give_answer, value)

    def _call_back(self, attempt: _Attempt, env: Any) -> Any:
        """Call the callbacks; return whether one wants to stop, or its exception."""

        def fetched() -> Any:
            self._answer(attempt, "model")
            while True:
                for kind, content in self._events(attempt):
                    if kind == "model":
                        _take(self._model, content)
                        return self._model
                    self._hear(attempt, kind, content)
                _raise_failed(attempt)

        env = replace(env, params=self._model.get_params(deep=False), _model=fetched)
        try:
            answers = [bool(callback(env)) for callback in self.callbacks]
            return any(answers)
        except RankLostError:
            raise
        except Exception as error:
            fetched()
            return error


def _raise_failed(attempt: _Attempt) -> None:
    """Raise the error of a rank: that of the fit itself before those of ranks that were lost."""
    errors = [future.exception(timeout=10) for future in attempt.futures if future.status in ("error", "cancelled")]
    for error in errors:
        if not isinstance(error, _LOST):
            raise error
    if attempt.lost is not None or errors:
        raise RankLostError(attempt.lost or str(errors[0]))


async def _addresses(client: Client) -> list[str]:
    return list(await client.scheduler.ncores(workers=None))


async def _holders(client: Client, futures: list[Future]) -> dict[Any, list[str]]:
    found = await client.scheduler.who_has(keys=[future.key for future in futures])
    return {key: list(addresses) for key, addresses in found.items()}


async def _on_each(client: Client, function: Any, calls: Sequence[tuple[Any, ...]], seconds: float) -> list[Any]:
    """Call a function on workers, all at once; what it returns or raises on each, or TimeoutError."""

    async def call(address: str, *args: Any) -> Any:
        found = await asyncio.wait_for(client._run(function, *args, workers=[address]), seconds)
        return found[address]

    return await asyncio.gather(*(call(*each) for each in calls), return_exceptions=True)
