"""The coordinator of a fit on any kind of cluster, which runs in the user's process.

It receives the events of the fit, keeps the last checkpoint and restarts from it if a worker is lost. All sums of a fit
are exact, so a restart does not change the model: the result is bit-identical.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastens.distributed.rank_fit import (
    BY_ROW,
    FitProgress,
    FitTask,
    SpreadTable,
    as_file,
    fitted_state,
    silent_copy,
)
from fastens.distributed.reduction import RankLostError
from fastens.distributed.session import Event
from fastens.modelfile.storage import load_model
from fastens.table.opening import are_texts
from fastens.table.sources import refuse
from fastens.warn import warn

# The maximum number of consecutive attempts without a new checkpoint.
_MAX_ATTEMPTS = 8
# The polling interval for the model after the first rank has reported the end of training.
_END_SECONDS = 0.005


class ClusterLostError(RuntimeError):
    """Error raised if the cluster has lost its workers or scheduler; the model keeps the last checkpoint."""


class TasksCancelledError(RankLostError):
    """Error raised if the scheduler has cancelled tasks of the fit; the message gives the scheduler's reason."""


class WorkerGroup:
    """The workers of one attempt at a fit.

    Attributes
    ----------
    n_ranks : int
        The number of ranks.
    lost : str or None
        The reason why the attempt cannot continue. None while it can.
    last_received : int
        The number of the last event that was received.
    """

    n_ranks: int
    lost: str | None = None
    last_received: int = 0

    def renew(self) -> None:
        """Extend the deadline at which each worker gives up the fit; raise RankLostError if one does not respond."""
        raise NotImplementedError

    def events(self, last_received: int) -> list[Event]:
        """Return rank 0's events with numbers above `last_received`; wait up to about a second if there are none."""
        raise NotImplementedError

    def answer(self, number: int, value: Any) -> None:
        """Send `value` to rank 0 as the answer to the question that it asked in event `number`."""
        raise NotImplementedError

    def result(self) -> dict[str, Any] | None:
        """Return the fitted attributes of the first rank, by name, or None during training.

        Raises the error of any rank. Errors of the fit itself take precedence over RankLostError.
        """
        raise NotImplementedError


Start = Callable[[FitTask], AbstractContextManager[WorkerGroup]]


def run_coordinator(
    model: Any, table: SpreadTable, parts_by_table: Mapping[str, Any], fit_params: dict[str, Any], start: Start
) -> Any:
    """Train on a cluster and return the model.

    Parameters
    ----------
    model : estimator
        An estimator that supports training on several ranks.
    table : SpreadTable
        The table with the settings for the use of the cluster.
    parts_by_table : dict
        The partitions of "X" and "X_val", each with the table and its per-row arguments.
    fit_params : dict
        The arguments of `fit` other than X.
    start : function
        Starts a task on the workers and returns a context manager. It yields the workers and releases them on exit.

    Raises
    ------
    ClusterLostError
        If no workers are left to continue with.
    ValueError
        If arguments are invalid. The functions of each kind of cluster call `check_before_reading` before they
        partition a table, so most errors are raised there.
    """
    resume = fit_params.pop("resume", None)
    by_row = {name for names in BY_ROW.values() for name in names} | {"X_val"}
    has_parts = {name for tables in parts_by_table.values() for name in tables[0]}
    arguments = {name: value for name, value in fit_params.items() if not (name in by_row and name in has_parts)}
    coordinator = _Coordinator(model, table, start)
    with model._announcing() if hasattr(model, "_announcing") else nullcontext([]) as callbacks:
        coordinator.callbacks = callbacks
        content = None if resume is None else Path(resume).read_bytes()
        task = FitTask(silent_copy(model), arguments, content, table.checkpoint_every, bool(callbacks))
        state = coordinator.run(task)
    _replace_fitted_state(model, state)
    return model


def check_before_reading(model: Any, X: Any, fit_params: Mapping[str, Any]) -> None:
    """Raise ValueError for mistakes that can be detected before any partition is read.

    These are estimators that need all rows on one machine, invalid parameters, and names of columns that a table does
    not have. The early check raises them once instead of on each rank.
    """
    if not model._capabilities.supports_distributed_fit:
        raise ValueError(f"{refuse('X', X, f'{type(model).__name__}.fit')}")
    model._check_parameters()
    model._check_ignored_parameters()
    if fit_params.get("eval_set") is not None:
        raise ValueError("eval_set must be None in distributed fits. Pass X_val and y_val instead.")
    for name, table in (("X", X), ("X_val", fit_params.get("X_val"))):
        columns = getattr(getattr(table, "table", table), "columns", None)
        if columns is None or callable(columns):
            continue  # arrays have no column names, and the names of delayed partitions are unknown
        for argument in BY_ROW[name]:
            value: Any = fit_params.get(argument)
            for column in [value] if isinstance(value, str) else value if are_texts(value) else ():
                if column not in list(columns):
                    raise ValueError(
                        f"{argument} must name a column of {name}; got {column!r}, and the columns are {list(columns)}."
                    )


def _replace_fitted_state(model: Any, state: dict[str, Any]) -> None:
    """Replace the fitted attributes of an estimator in place by those in `state`, a dict by attribute name."""
    for name in fitted_state(model):
        delattr(model, name)
    vars(model).update(state)


class _Coordinator:
    """Coordinator that starts a fit, and restarts it after losses until it succeeds."""

    callbacks: Sequence[Callable[[Any], Any]] = ()
    _question = 0  # number of the question for whose answer the first rank is waiting

    def __init__(self, model: Any, table: SpreadTable, start: Start) -> None:
        self._model, self._table, self._start = model, table, start
        self._checkpoint: bytes | None = None

    def run(self, task: FitTask) -> dict[str, Any]:
        """Run the fit, restart it from the last checkpoint after losses; return the fitted attributes by name."""
        left = _MAX_ATTEMPTS
        try:
            while True:
                try:
                    with self._start(task) as group, self._renewing(group):
                        return self._handle_events_until_end(group)
                except RankLostError as error:
                    # Dask may cancel tasks once because of a restart; if it cancels them twice, it would keep doing so.
                    left = min(left - 1, 1) if isinstance(error, TasksCancelledError) else left - 1
                    if self._checkpoint is not None and self._checkpoint is not task.checkpoint:
                        task, left = replace(task, checkpoint=self._checkpoint), _MAX_ATTEMPTS
                    if left <= 0:
                        raise ClusterLostError(f"the fit was restarted but made no progress: {error}") from error
        except (ClusterLostError, KeyboardInterrupt) as error:
            self._restore_checkpoint(error)
            raise

    def _restore_checkpoint(self, error: BaseException) -> None:
        """Give the model the state of the last checkpoint, if there is one; add a note that says so to `error`."""
        if self._checkpoint is None:
            error.add_note("There was no checkpoint yet.")
            return
        kind = type(self._model)
        with as_file(self._checkpoint) as path:
            restored = load_model(path, {kind.__name__: kind}.get, kind.__name__)
        _replace_fitted_state(self._model, fitted_state(restored))
        error.add_note(
            f"The model has the {self._model.n_estimators_} rounds of the last checkpoint. Save it, and fit "
            "with resume=PATH to continue from there."
        )

    @contextmanager
    def _renewing(self, group: WorkerGroup) -> Iterator[None]:
        """Renew the workers' deadlines in a background thread within the context; set `group.lost` on failure."""
        ended = threading.Event()

        def keep() -> None:
            while group.lost is None and not ended.wait(min(1.0, self._table.patience / 6)):
                try:
                    group.renew()
                except Exception as error:
                    group.lost = str(error)

        threading.Thread(target=keep, daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    # While it runs --------------------------------------------------

    def _handle_events_until_end(self, group: WorkerGroup) -> dict[str, Any]:
        """Handle events until the first rank has finished, and return its fitted attributes by name."""
        has_ended = False
        while True:
            for event in self._new_events(group):
                has_ended |= event.kind == "end"
                self._handle_event(group, event)
            state = group.result()
            while has_ended and state is None:  # no more events will come
                time.sleep(_END_SECONDS)
                state = group.result()
            if state is not None:
                for event in () if has_ended else self._new_events(group):
                    self._handle_event(group, event)
                return state

    def _new_events(self, group: WorkerGroup) -> list[Event]:
        """Wait up to about a second for events of the first rank; return those that have not been handled yet."""
        events = [event for event in group.events(group.last_received) if event.number > group.last_received]
        group.last_received = events[-1].number if events else group.last_received
        return events

    def _handle_event(self, group: WorkerGroup, event: Event) -> None:
        """Handle one event: report a round, store a checkpoint, repeat a warning or call the callbacks."""
        number, kind, content = event
        if kind == "round":
            if getattr(self._model, "_on_round", None) is not None:
                self._model._on_round(*content[:4])
            if self._table.on_progress is not None:
                index, n_rounds, train, validation, *sent = content
                self._table.on_progress(FitProgress(index + 1, n_rounds, train, validation, group.n_ranks, *sent))
        elif kind == "checkpoint":
            self._checkpoint = content
        elif kind == "warning":
            warn(*content)
        elif kind == "callbacks":
            self._question = number
            answer = self._call_callbacks(group, content)
            group.answer(self._question, answer)

    def _call_callbacks(self, group: WorkerGroup, env: Any) -> Any:
        """Call the callbacks with a round's `env`; return True if one requests to stop, or a raised exception."""

        def fetch_model() -> Any:
            group.answer(self._question, "model")
            while True:
                for event in self._new_events(group):
                    if event.kind == "model":  # the rank asks its question again, together with the model
                        self._question = event.number
                        _replace_fitted_state(self._model, event.content)
                        return self._model
                    self._handle_event(group, event)
                group.result()  # raises if a rank has failed

        env = replace(env, params=self._model.get_params(deep=False), _model=fetch_model)
        try:
            answers = [bool(callback(env)) for callback in self.callbacks]
            return any(answers)
        except RankLostError:
            raise
        except Exception as error:
            fetch_model()
            return error
