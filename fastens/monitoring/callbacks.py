"""Callbacks of boosting: their record, a progress bar, log messages, Optuna's pruning."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fastens.parameters import whole
from fastens.storage import save_model

logger = logging.getLogger("fastens")


class StopTraining(Exception):  # noqa: N818 - no error, as StopIteration is none
    """Raised by a callback to end the training; the rounds so far are the model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor, StopTraining
    >>> def at_most_five(env):
    ...     if env.iteration == 4:
    ...         raise StopTraining
    >>> X, y = load_diabetes(return_X_y=True)
    >>> GradientBoostingRegressor(callbacks=[at_most_five]).fit(X, y).n_iter_
    5
    """


class Evaluation(NamedTuple):
    """A number that a round was measured by, with the names of LightGBM's `EvalResult`."""

    dataset_name: str
    metric_name: str
    metric_value: float
    maximize: bool

    @property
    def metric_std_dev(self) -> None:
        """None: no mean over folds."""
        return None

    def is_cv_result(self) -> bool:
        """False: no mean over folds."""
        return False


@dataclass(frozen=True)
class CallbackEnv:
    """The argument of a callback, with the names of LightGBM's.

    Attributes
    ----------
    params : dict
        The parameters of the estimator.
    iteration : int
        The round just finished, counted from 0.
    begin_iteration, end_iteration : int
        The first round of this fit, and the one after the last.
    evaluation_result_list : list of (dataset_name, metric_name, metric_value, maximize)
        The training loss, under "training"; with rows to validate on also what was measured there, under "validation".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor
    >>> rounds = []
    >>> model = GradientBoostingRegressor(n_estimators=3, callbacks=[lambda env: rounds.append(env.iteration)])
    >>> _ = model.fit(*load_diabetes(return_X_y=True))
    >>> rounds
    [0, 1, 2]
    """

    params: dict[str, Any]
    iteration: int
    begin_iteration: int
    end_iteration: int
    evaluation_result_list: list[Evaluation]
    _model: Callable[[], Any] = field(repr=False)

    @property
    def model(self) -> Any:
        """The estimator, fitted with the rounds so far. Built on access, which takes time; after the fit, as it is."""
        return self._model()


Callback = Callable[[CallbackEnv], Any]


class Checkpoint:
    """A callback that saves the model every so many rounds; ``fit(..., resume=path)`` goes on from the file.

    Where a fit is on several ranks, the first of them writes, and all go on from the file.

    Parameters
    ----------
    path : path
        The file, in a folder that is there. Each save replaces it as a whole.
    every : int, default=10
        Rounds between saves.

    Raises
    ------
    ValueError
        For a folder that is not there.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import Checkpoint, GradientBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.fastens"
    ...     first = GradientBoostingRegressor(n_estimators=20, callbacks=[Checkpoint(path)]).fit(X, y)
    ...     more = GradientBoostingRegressor(n_estimators=30).fit(X, y, resume=path)
    >>> more.n_iter_
    30
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 10) -> None:
        whole(1).check("every", every)
        if not Path(path).absolute().parent.is_dir():
            raise ValueError(f"path must be in a folder that is there; got {os.fspath(path)!r}.")
        self.path, self.every = path, every

    def __call__(self, env: CallbackEnv) -> None:
        """Save the model after the rounds that are due."""
        if (env.iteration + 1) % self.every:
            return
        model = env.model
        if model._comm.rank == 0:
            save_model(self.path, model)


class OptunaPruning:
    """A callback that reports the validation score after each round to an Optuna trial, and prunes the trial.

    A trial takes each round once: of `EarlyStopping(folds=...)` the first fold is reported, and the first fit of the
    copies that `cross_val_score` and ensembles make. `cross_val_score` prunes a trial with error_score="raise" alone.

    Parameters
    ----------
    trial : optuna.Trial
        The trial. Whatever has its methods `report` and `should_prune` will do.
    metric : str, optional
        The metric to report; default: the first one measured on the rows to validate on.

    Raises
    ------
    ValueError
        From `fit`, after the first round: without rows to validate on, for a metric that was not measured, and if the
        study maximizes a metric where smaller values are better, or the other way round.
    optuna.TrialPruned
        From `fit`, where the trial is to be pruned.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, OptunaPruning
    >>> def objective(trial):
    ...     model = GradientBoostingRegressor(callbacks=[OptunaPruning(trial)], early_stopping=True)
    ...     return min(model.fit(X, y).validation_score_)
    """

    def __init__(self, trial: Any, metric: str | None = None) -> None:
        self.trial, self.metric = trial, metric
        self._last, self._is_over = -1, False

    def __deepcopy__(self, memo: dict[int, Any]) -> OptunaPruning:
        """Return itself: what a copy of the study is told is lost."""
        return self

    def __call__(self, env: CallbackEnv) -> None:
        """Report, and prune."""
        measured = [each for each in env.evaluation_result_list if each.dataset_name == "validation"]
        found = [each for each in measured if self.metric in (None, each.metric_name)]
        if not measured:
            raise ValueError("OptunaPruning needs rows to validate on: give X_val and y_val, or early_stopping=True.")
        if not found:
            names = [each.metric_name for each in measured]
            raise ValueError(f"metric must be one measured on rows to validate on, {names}; got {self.metric!r}.")
        # Copies that are fitted at once are told by their threads.
        is_first = vars(self).setdefault("_thread", threading.get_ident()) == threading.get_ident()
        self._is_over = self._is_over or (is_first and env.iteration <= self._last)
        if self._is_over or not is_first:
            return
        if self._last < 0:
            self._check_direction(found[0])
        self._last = env.iteration
        self.trial.report(found[0].metric_value, step=env.iteration)
        if self.trial.should_prune():
            import optuna

            raise optuna.TrialPruned(f"pruned after round {env.iteration + 1}")

    def _check_direction(self, measured: Evaluation) -> None:
        """Raise ValueError if the study would prune the better trials, because it ranks them the other way round."""
        study = getattr(self.trial, "study", None)  # trials with fixed parameters belong to no study
        direction = "minimize" if study is None else study.direction.name.lower()
        wanted = "maximize" if measured.maximize else "minimize"
        if study is None or direction == wanted:
            return
        better, other, example = "smaller", "larger", "'r2' or 'accuracy'"
        if measured.maximize:
            better, other, example = "larger", "smaller", "'loss'"
        raise ValueError(
            f"metric must have the direction of the study, which is to {direction}; got {measured.metric_name!r}, "
            f"where {better} is better. Create the study with direction={wanted!r} and return this metric from the "
            f"objective, or choose a metric where {other} is better by EarlyStopping(eval_metric=...), such as "
            f"{example}. A function states its direction by returning (name, value, larger_is_better)."
        )


# Progress --------------------------------------------------


class _Console(logging.Handler):
    """Standard output, wherever that leads at the moment; what its encoding lacks shows as question marks."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stdout is not None:  # as it is in programs of Windows without a console
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            sys.stdout.write(self.format(record).encode(encoding, "replace").decode(encoding) + "\n")


def announce(message: str) -> None:
    """Log a message; to standard output where logging is not set up."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        logger.addHandler(_Console())
    logger.info(message)


def losses_text(evaluations: Sequence[Evaluation]) -> str:
    """Numbers of a round for the user to read."""
    return ", ".join(f"{each.dataset_name} {each.metric_name} {each.metric_value:.6g}" for each in evaluations)


class Announcer:
    """A callback that logs the losses every so many rounds."""

    def __init__(self, every: int) -> None:
        self.every = every

    def __call__(self, env: CallbackEnv) -> None:
        """Log, after every so many rounds and the last."""
        number = env.iteration + 1
        if number % self.every == 0 or number == env.end_iteration:
            announce(f"[{number}/{env.end_iteration}] {losses_text(env.evaluation_result_list)}")


@contextmanager
def progress_bar() -> Iterator[Callback]:
    """A bar while the context lasts, its value a callback that moves it; a tenth of the rounds logged without rich."""
    try:
        from rich import progress
    except ImportError:
        yield lambda env: Announcer(max(1, env.end_iteration // 10))(env)
        return
    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TextColumn("{task.fields[losses]}"))
    with progress.Progress("boosting", *columns, progress.TimeRemainingColumn()) as bar:
        task = bar.add_task("boosting", total=None, losses="")

        def advance(env: CallbackEnv) -> None:
            losses = losses_text(env.evaluation_result_list)
            bar.update(task, completed=env.iteration + 1, total=env.end_iteration, losses=losses)

        yield advance
