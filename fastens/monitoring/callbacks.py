"""Callbacks of boosting: checkpoints, progress bar, log messages, Optuna pruning and scikit-learn's protocol."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from fastens.engine.losses.distributions import QUANTILE_LEVELS
from fastens.engine.losses.loss_names import DISTRIBUTIONS
from fastens.engine.losses.numeric_losses import Expectile
from fastens.modelfile.storage import save_model
from fastens.params.rules import whole
from fastens.table.training_data import rows_to_score, share_right

logger = logging.getLogger("fastens")


class Deadline:
    """Boosting callback that stops training at a moment of `time.monotonic`, and records that it did."""

    def __init__(self, moment: float) -> None:
        self.moment, self.has_ended = moment, False

    def __call__(self, env: CallbackEnv) -> None:
        """Stop training once the deadline has passed."""
        if time.monotonic() >= self.moment:
            self.has_ended = True
            raise StopTraining

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.moment - time.monotonic()


class StopTraining(Exception):  # noqa: N818 - like StopIteration, it is not an error
    """Raised by a callback to stop training; the model keeps the rounds so far.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import GradientBoostingRegressor, StopTraining
    >>> def at_most_five(env):
    ...     if env.iteration == 4:
    ...         raise StopTraining
    >>> X, y = load_diabetes(return_X_y=True)
    >>> GradientBoostingRegressor(callbacks=[at_most_five]).fit(X, y).n_estimators_
    5
    """


class Evaluation(NamedTuple):
    """Evaluation result of a round, with the field names of LightGBM."""

    dataset_name: str
    metric_name: str
    metric_value: float
    maximize: bool

    @property
    def metric_std_dev(self) -> None:
        """None, because the value is not a mean over folds."""
        return None

    def is_cv_result(self) -> bool:
        """Return False, because the value is not a mean over folds."""
        return False


@dataclass(frozen=True)
class CallbackEnv:
    """Argument of a callback, with the attribute names of LightGBM's `CallbackEnv`.

    Attributes
    ----------
    params : dict
        Parameters of the estimator.
    iteration : int
        Index of the round that has just finished, starting at 0.
    begin_iteration, end_iteration : int
        Index of the first round of this fit, and the index after the last round.
    evaluation_result_list : list of (dataset_name, metric_name, metric_value, maximize)
        The training loss, named "training". With a validation set, also the validation metrics, named "validation".

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
        """The estimator with the rounds so far, which is built on access; after the fit, the final estimator."""
        return self._model()


Callback = Callable[[CallbackEnv], Any]


class Checkpoint:
    """Callback that saves the model periodically; ``fit(..., resume=path)`` continues from the file.

    In distributed training, only the coordinator writes the file, and all processes resume from it.

    Parameters
    ----------
    path : path
        File to write, in an existing folder. Each save replaces the whole file atomically.
    every : int, default=10
        Number of rounds between saves.

    Raises
    ------
    ValueError
        If the folder does not exist.

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
    >>> more.n_estimators_
    30
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 10) -> None:
        whole(1).check("every", every)
        if not Path(path).absolute().parent.is_dir():
            raise ValueError(f"path must be in a folder that exists; got {os.fspath(path)!r}.")
        self.path, self.every = path, every

    def __repr__(self) -> str:
        return f"Checkpoint({os.fspath(self.path)!r}, every={self.every})"

    def __call__(self, env: CallbackEnv) -> None:
        """Save the model every `every` rounds."""
        if (env.iteration + 1) % self.every:
            return
        model = env.model
        if model._comm.rank == 0:
            save_model(self.path, model)


class OptunaPruning:
    """Callback that reports the validation score after each round to an Optuna trial, and prunes the trial.

    A trial accepts each round only once. With `EarlyStopping(folds=...)`, only the first fold is reported, and if
    `cross_val_score` or an ensemble fits copies, only the first fit is reported. `cross_val_score` prunes trials only
    with error_score="raise".

    Parameters
    ----------
    trial : optuna.Trial
        The trial, or any object with the methods `report` and `should_prune`.
    eval_metric : str, optional
        Metric to report. If None, the first metric measured on the validation set is reported.

    Raises
    ------
    ValueError
        Raised by `fit` after the first round if there is no validation set, if the metric was not measured, or if the
        direction of the study does not match the metric.
    optuna.TrialPruned
        Raised by `fit` if the trial should be pruned.

    Examples
    --------
    >>> from fastens import GradientBoostingRegressor, OptunaPruning
    >>> def objective(trial):
    ...     model = GradientBoostingRegressor(callbacks=[OptunaPruning(trial)], early_stopping=True)
    ...     return min(model.fit(X, y).evals_result_["validation"]["loss"])
    """

    def __init__(self, trial: Any, eval_metric: str | None = None) -> None:
        self.trial, self.eval_metric = trial, eval_metric
        self._last, self._is_over = -1, False

    def __deepcopy__(self, memo: dict[int, Any]) -> OptunaPruning:
        """Return itself, because reports to a copy of the study would be lost."""
        return self

    def __repr__(self) -> str:
        return f"OptunaPruning({self.trial!r}{'' if self.eval_metric is None else f', {self.eval_metric!r}'})"

    def __call__(self, env: CallbackEnv) -> None:
        """Report the metric, and prune the trial if necessary."""
        measured = [each for each in env.evaluation_result_list if each.dataset_name == "validation"]
        matches = [each for each in measured if self.eval_metric in (None, each.metric_name)]
        if not measured:
            raise ValueError("OptunaPruning needs a validation set. Pass X_val and y_val, or set early_stopping=True.")
        if not matches:
            names = [each.metric_name for each in measured]
            raise ValueError(f"eval_metric must be one of the metrics of the fit, {names}; got {self.eval_metric!r}.")
        # Copies that are fitted simultaneously are identified by their threads.
        is_first = vars(self).setdefault("_thread", threading.get_ident()) == threading.get_ident()
        self._is_over = self._is_over or (is_first and env.iteration <= self._last)
        if self._is_over or not is_first:
            return
        if self._last < 0:
            self._check_direction(matches[0])
        self._last = env.iteration
        self.trial.report(matches[0].metric_value, step=env.iteration)
        if self.trial.should_prune():
            import optuna

            raise optuna.TrialPruned(f"pruned after round {env.iteration + 1}")

    def _check_direction(self, measured: Evaluation) -> None:
        """Raise ValueError if the study's direction does not match the metric, since better trials would be pruned."""
        study = getattr(self.trial, "study", None)  # trials with fixed parameters belong to no study
        direction = "minimize" if study is None else study.direction.name.lower()
        wanted = "maximize" if measured.maximize else "minimize"
        if study is None or direction == wanted:
            return
        better, other, example = "smaller", "larger", "'r2' or 'accuracy'"
        if measured.maximize:
            better, other, example = "larger", "smaller", "'loss'"
        raise ValueError(
            f"eval_metric must have the direction of the study ({direction}); got {measured.metric_name!r}, "
            f"where {better} is better. Create the study with direction={wanted!r} and return this metric from the "
            f"objective, or choose a metric where {other} is better by eval_metric=..., such as "
            f"{example}. A function states its direction by returning (name, value, larger_is_better)."
        )


# Progress --------------------------------------------------


class _Console(logging.Handler):
    """Handler for the current standard output; characters that its encoding lacks become question marks."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record to standard output; characters that its encoding lacks are replaced."""
        if sys.stdout is not None:  # None in Windows programs without a console
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
            sys.stdout.write(self.format(record).encode(encoding, "replace").decode(encoding) + "\n")


def announce(message: str) -> None:
    """Log a message, to standard output if logging is not configured."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    if not logger.hasHandlers():
        logger.addHandler(_Console())
    logger.info(message)


def losses_text(evaluations: Sequence[Evaluation]) -> str:
    """Return the evaluation results of a round as text, such as "validation loss 0.31, validation r2 0.6"."""
    return ", ".join(f"{each.dataset_name} {each.metric_name} {each.metric_value:.6g}" for each in evaluations)


class Announcer:
    """Callback that logs the losses periodically."""

    def __init__(self, every: int) -> None:
        self.every = every

    def __call__(self, env: CallbackEnv) -> None:
        """Log every `every` rounds, and after the last round."""
        number = env.iteration + 1
        if number % self.every == 0 or number == env.end_iteration:
            announce(f"[{number}/{env.end_iteration}] {losses_text(env.evaluation_result_list)}")


@contextmanager
def progress_bar() -> Iterator[Callback]:
    """Show a progress bar of boosting rounds and yield its callback; without rich, it logs ten times per fit."""
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


try:
    from sklearn.callback import CallbackSupportMixin as _CallbackSupportMixin
    from sklearn.callback import with_callbacks

    class CallbackSupportMixin(_CallbackSupportMixin):
        """scikit-learn's mixin with a short docstring."""

        def set_callbacks(self, *callbacks: object) -> Self:
            """Set callbacks of scikit-learn, such as its progress bars, and return the estimator."""
            return super().set_callbacks(*callbacks)

except ImportError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Placeholder for versions of scikit-learn without callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return the method unchanged."""
        return method


class Tasks:
    """Rounds of a fit, at most `n_rounds`, as tasks of scikit-learn's callbacks."""

    def __init__(self, model: Any, n_rounds: int) -> None:
        self.are_watched = bool(vars(model).get("_skl_callbacks"))
        self._model = model
        if self.are_watched:
            self._fit = model._init_callback_context(max_subtasks=n_rounds)
            self._fit.call_on_fit_task_begin(estimator=model)
            self._n_left = n_rounds
            self._begin_round()

    def _begin_round(self) -> None:
        """Open the context of the next round, and call the callbacks at its beginning."""
        self._round = self._fit.subcontext(task_name="round")
        self._round.call_on_fit_task_begin(estimator=self._model)

    def end_round(self, partial: Callable[[], Any]) -> bool:
        """Call the callbacks after a round, with the model `partial()` so far; return True if one requests to stop."""
        if not self.are_watched:
            return False

        def attributes() -> dict[str, Any]:
            """Return the attributes that make a copy of the estimator ready to predict."""
            parameters = self._model.get_params(deep=False)
            return {name: value for name, value in vars(partial()).items() if name not in parameters}

        self._n_left -= 1
        stop = self._round.call_on_fit_task_end(estimator=self._model, reconstruction_attributes=attributes)
        if self._n_left and not stop:
            self._begin_round()
        return bool(stop)

    def end(self) -> None:
        """Call the callbacks at the end of the fit, after the last round."""
        if self.are_watched:
            self._fit.call_on_fit_task_end(estimator=self._model, reconstruction_attributes=lambda: vars(self._model))


def tear_down_callbacks(model: Any) -> None:
    """Tear down the callbacks that a fit has set up, including after a failed fit."""
    if vars(model).get("_skl_callbacks"):
        with_callbacks(lambda _: None)(model)


def score_of(model: Any, y: Any, predicted: Any, sample_weight: Any) -> float:
    """Return the score of an estimator's predictions: accuracy for classification, R2 for regression.

    For several quantiles or expectiles, the score is the mean D2 over the levels.
    """
    from sklearn.metrics import d2_pinball_score, r2_score

    y, predicted, weight = rows_to_score(y, predicted, sample_weight)
    levels = getattr(model, "_predicted_levels", None)
    if levels is None:
        return float((share_right if is_classifier(model) else r2_score)(y, predicted, sample_weight=weight))
    measure = d2_pinball_score if model._loss.name == "quantile" else d2_expectile_score
    columns = zip(np.moveaxis(predicted, -1, 0), levels, strict=True)
    return float(np.mean([measure(y, column, alpha=level, sample_weight=weight) for column, level in columns]))


def staged_scores(model: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Iterator[float]:
    """Yield the score of an estimator's predictions after each round."""
    for predicted in model.staged_predict(X):
        yield score_of(model, y, predicted, sample_weight)


def levels_of(model: Any) -> list[float] | None:
    """Return the quantile levels that an estimator predicts, or None unless its parameter `quantile` is a list.

    If it predicts a distribution, the levels are `QUANTILE_LEVELS`. After `fit`, the parameters of the fit count.
    """
    of_fit = getattr(model, "_parameters_of_fit", {})
    if predicts_distribution(model):
        return QUANTILE_LEVELS
    levels = of_fit.get("quantile", getattr(model, "quantile", None))
    return None if levels is None or np.ndim(levels) != 1 else list(levels)


def predicts_distribution(model: Any) -> bool:
    """Return True if the loss of an estimator predicts all parameters of a distribution."""
    loss = getattr(model, "_parameters_of_fit", {}).get("loss", getattr(model, "loss", None))
    return isinstance(loss, str) and loss in DISTRIBUTIONS


def d2_expectile_score(
    y: ArrayLike, predicted: ArrayLike, *, alpha: float, sample_weight: ArrayLike | None = None
) -> float:
    """Return the fraction of the expectile loss at level `alpha` that predictions save over the best constant.

    Several targets are averaged. Like `sklearn.metrics.d2_pinball_score` for quantiles, the score is 1 for perfect
    predictions and 0 for the best constant.
    """
    loss, saved = Expectile(alpha), []
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    for target, target_predictions in zip(_columns(y), _columns(predicted), strict=True):
        least = loss.loss(target, np.broadcast_to(loss.start(target, weight)[:, None], (1, len(target))), weight)
        left = loss.loss(target, target_predictions[None], weight)
        saved.append(1 - left / least if least > 0 else float(left == 0))
    return float(np.mean(saved))


def _columns(values: ArrayLike) -> list[NDArray[np.float64]]:
    """Return the columns of an array as contiguous float64 arrays; a one-dimensional array is one column."""
    array = np.asarray(values, dtype=np.float64)
    return list(np.ascontiguousarray(array.reshape(len(array), -1).T))
