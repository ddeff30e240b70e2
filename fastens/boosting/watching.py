"""What happens after each round of boosting: callbacks are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fastens.monitoring.callbacks import CallbackEnv, Evaluation, StopTraining
from fastens.monitoring.sklearn_callbacks import Tasks

if TYPE_CHECKING:
    from fastens.boosting.rounds import BoostingRun
    from fastens.monitoring.metrics import Metrics


class RoundWatch:
    """Called after each round.

    Parameters
    ----------
    model : estimator
        The one in training.
    run : BoostingRun
        Its rounds.
    metrics : Metrics or None
        What rows to validate on are measured by.
    callbacks : sequence of callables
        Whom to tell.

    Attributes
    ----------
    failed : bool
        Whether a callback raised an exception.
    """

    def __init__(
        self, model: Any, run: BoostingRun, metrics: Metrics | None, callbacks: Sequence[Callable[[CallbackEnv], Any]]
    ) -> None:
        self._model, self._run, self._metrics, self._callbacks = model, run, metrics, callbacks
        self._begin = run.n_rounds
        self._tasks = Tasks(model, run.rules.n_rounds - self._begin)
        self.failed = False

    @property
    def is_needed(self) -> bool:
        """Whether anyone wants to be told."""
        model = self._model
        return bool(self._callbacks or self._tasks.are_watched or model._on_round)

    def __call__(self, index: int, n_rounds: int, train: float, validation: float | None) -> bool:
        """Tell all; whether to stop."""
        model = self._model
        if model._on_round is not None:
            model._on_round(index, n_rounds, train, validation)
        env = CallbackEnv(
            model.get_params(deep=False), index, self._begin, n_rounds, self._measured(train), self._partial
        )
        self.failed = True
        try:
            answers = [bool(callback(env)) for callback in self._callbacks]
            stop = self._tasks.end_round(self._partial) or any(answers)
        except Exception as error:
            # LightGBM's `early_stopping` has an exception of its own to say so, which knows the best round.
            if not (isinstance(error, StopTraining) or hasattr(error, "best_iteration")):
                raise
            stop = True
        self.failed = False
        return stop

    def finish(self) -> None:
        """The fit is over."""
        self._tasks.end()

    def _measured(self, train: float) -> list[Evaluation]:
        found = [Evaluation("training", "loss", train, False)]
        if self._metrics is not None:
            rises = self._metrics.rises
            found += [Evaluation("validation", n, s[-1], rises[n]) for n, s in self._metrics.scores.items()]
        return found

    def _partial(self) -> Any:
        """The estimator with the rounds so far."""
        self._model._finish(self._run, self._run.n_rounds)
        return self._model
