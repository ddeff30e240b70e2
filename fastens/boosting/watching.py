"""What happens after each round of boosting: callbacks are called."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fastens.monitoring.callbacks import Announcer, CallbackEnv, Evaluation, StopTraining, progress_bar
from fastens.monitoring.sklearn_callbacks import Tasks, tear_down_callbacks
from fastens.options import EarlyStopping

if TYPE_CHECKING:
    from fastens.boosting.rounds import Rounds


# Of the time, what the rounds may take that tell how many there are to be: as many on all rows take slightly longer.
_SHARE_BEFORE_REFIT = 0.45


class RoundWatch:
    """Called after each round of a model: calls the callbacks."""

    def __init__(self, model: Any, run: Rounds, callbacks: Sequence[Callable[[CallbackEnv], Any]]) -> None:
        self._model, self._callbacks = model, callbacks
        self._run: Rounds | None = run
        self._begin = run.n_rounds
        self._tasks = Tasks(model, run.rules.n_rounds - self._begin)
        self.failed = False  # whether a callback raised an exception

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to call."""
        model = self._model
        return bool(self._callbacks or self._tasks.are_watched or model._on_round)

    def __call__(self, index: int, n_rounds: int, train: float, validation: float | None) -> bool:
        """Call all of them; whether to stop."""
        model = self._model
        if model._on_round is not None:
            model._on_round(index, n_rounds, train, validation)
        env = CallbackEnv(
            model.get_params(deep=False), index, self._begin, n_rounds, self._measured(train), self._partial
        )
        self.failed = True
        try:
            stops = [bool(callback(env)) for callback in self._callbacks]
            stop = self._tasks.end_round(self._partial) or any(stops)
        except Exception as error:
            # LightGBM's `early_stopping` raises an exception of its own, which knows the best round.
            if not (isinstance(error, StopTraining) or hasattr(error, "best_iteration")):
                raise
            stop = True
        self.failed = False
        return stop

    def finish(self) -> None:
        """The fit is over."""
        self._tasks.end()

    def let_go(self) -> None:
        """Hold the rows no longer, and leave the model as it is: callbacks may keep their records for long."""
        self._run, self._callbacks = None, ()

    def _measured(self, train: float) -> list[Evaluation]:
        found = [Evaluation("training", "loss", train, False)]
        metrics = None if self._run is None else self._run.metrics
        if metrics is not None:
            rises = metrics.rises
            found += [Evaluation("validation", n, s[-1], rises[n]) for n, s in metrics.scores.items()]
        return found

    def _partial(self) -> Any:
        """The estimator with the rounds so far; after the fit, as it is."""
        if self._run is not None:
            self._model._finish(self._run, self._run.n_rounds)
        return self._model


class Deadline:
    """Called after each round: calls what is to be called, and ends the rounds once a moment has come."""

    def __init__(self, moment: float, then: RoundWatch | None) -> None:
        self._moment, self._then = moment, then

    def __call__(self, index: int, n_rounds: int, train: float, validation: float | None) -> bool:
        """Whether to stop."""
        stops = self._then is not None and self._then(index, n_rounds, train, validation)
        return stops or time.monotonic() >= self._moment


def within_limit(stopping: EarlyStopping, start: float, then: RoundWatch | None, *, is_last: bool = False) -> Any:
    """What is called after each round of a fit from `start` on, if anything; `is_last`: of training on all rows."""
    limit = stopping.time_limit
    if limit is None:
        return then
    return Deadline(start + limit * (_SHARE_BEFORE_REFIT if stopping.refit and not is_last else 1.0), then)


@contextmanager
def announcing(model: Any) -> Iterator[list[Callable[..., Any]]]:
    """The callbacks of a model, and what shows its progress; a progress bar ends with the context."""
    callbacks: list[Callable[..., Any]] = list(model.callbacks or [])
    if model.verbose == "bar":
        with progress_bar() as advance:
            yield [*callbacks, advance]
    else:
        yield [*callbacks, Announcer(int(model.verbose))] if model.verbose else callbacks


@contextmanager
def watching(model: Any, run: Rounds) -> Iterator[RoundWatch | None]:
    """What is to be called after each round, if anything; callbacks and a progress bar end with the context."""
    try:
        with announcing(model) as callbacks:
            watch = RoundWatch(model, run, callbacks)
            try:
                yield watch if watch.is_needed else None
                watch.finish()
            finally:
                watch.let_go()
    finally:
        tear_down_callbacks(model)
