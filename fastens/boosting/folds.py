"""Boosting on cross-validation folds with early stopping, and the callbacks after each round."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.boosting.fit_arguments import RowNumbers, check_duplicates, local_split, subset
from fastens.boosting.parameters import Prepared, boosting_parameters, less_pruned, prepared
from fastens.boosting.rounds import BoostingParameters, Rounds, scaled_tree
from fastens.engine.bins.bin_values import BinnedSource
from fastens.engine.comm import gathered, is_any
from fastens.engine.parts import holds_dense_values
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import raw_of_rows
from fastens.engine.trees.trees import TreeEnsemble
from fastens.monitoring.callbacks import (
    Announcer,
    CallbackEnv,
    Evaluation,
    StopTraining,
    Tasks,
    progress_bar,
    tear_down_callbacks,
)
from fastens.monitoring.metrics import Evaluations, History, ScoredRows
from fastens.params.options import EarlyStopping
from fastens.rollback import keep_partial
from fastens.table.training_data import shuffled_folds

# Fraction of the time limit for the rounds before a refit. It is below one half because the same number of rounds takes
# slightly longer on all rows.
_SHARE_BEFORE_REFIT = 0.45


class RoundWatch:
    """The function called after each round of a model, which calls the callbacks."""

    def __init__(self, model: Any, run: Rounds, callbacks: Sequence[Callable[[CallbackEnv], Any]]) -> None:
        self._model, self._callbacks = model, callbacks
        self._run: Rounds | None = run
        self._begin = run.n_rounds
        self._tasks = Tasks(model, run.rules.n_rounds - self._begin)
        self.failed = False  # True if a callback raised an exception

    @property
    def is_needed(self) -> bool:
        """True if there are callbacks or progress reports to call after each round."""
        model = self._model
        return bool(self._callbacks or self._tasks.are_watched or model._on_round)

    def __call__(self, index: int, n_rounds: int, train: float, validation: float | None) -> bool:
        """Call all callbacks, and return True to stop the training."""
        model = self._model
        if model._on_round is not None:
            model._on_round(index, n_rounds, train, validation)
        env = CallbackEnv(
            model.get_params(deep=False), index, self._begin, n_rounds, self._latest_evaluations(train), self._partial
        )
        self.failed = True
        try:
            stops = [bool(callback(env)) for callback in self._callbacks]
            stop = self._tasks.end_round(self._partial) or any(stops)
        except Exception as error:
            # LightGBM's `early_stopping` raises its own exception, which has the attribute `best_iteration`.
            if not (isinstance(error, StopTraining) or hasattr(error, "best_iteration")):
                raise
            stop = True
        self.failed = False
        return stop

    def finish(self) -> None:
        """Tell progress reports that the fit has ended."""
        self._tasks.end()

    def release(self) -> None:
        """Drop the rows and callbacks, so that a `CallbackEnv` that a callback keeps no longer changes the model."""
        self._run, self._callbacks = None, ()

    def _latest_evaluations(self, train: float) -> list[Evaluation]:
        """Return the latest value of each metric on each set of rows; `train` is the training loss."""
        evaluations = [Evaluation("training", "loss", train, False)]
        metrics = None if self._run is None else self._run.metrics
        sets = {} if metrics is None else {"validation": metrics}
        sets |= {} if self._run is None else self._run.others
        return evaluations + [
            Evaluation(name, metric, scores[-1], each.rises[metric])
            for name, each in sets.items()
            for metric, scores in each.scores.items()
        ]

    def _partial(self) -> Any:
        """Return the estimator fitted with the rounds so far; after the fit, the estimator unchanged."""
        if self._run is not None:
            self._model._finish(self._run, self._run.n_rounds)
        return self._model


def end_of_time(stopping: EarlyStopping, start: float, *, is_last: bool = False) -> float:
    """Return the `time.monotonic` after which no round starts; infinity without a time limit.

    `start` is when `fit` began. If a refit follows, only a fraction of the time limit is used, unless `is_last` is
    True, for the refit itself.
    """
    if stopping.time_limit is None:
        return math.inf
    return start + stopping.time_limit * (_SHARE_BEFORE_REFIT if stopping.refit and not is_last else 1.0)


@contextmanager
def announcing(model: Any) -> Iterator[list[Callable[..., Any]]]:
    """Yield the functions to call after each round, such as callbacks; a progress bar ends with the context."""
    callbacks: list[Callable[..., Any]] = list(model.callbacks or [])
    if model.verbose == "bar":
        with progress_bar() as advance:
            yield [*callbacks, advance]
    else:
        yield [*callbacks, Announcer(int(model.verbose))] if model.verbose else callbacks


@contextmanager
def watching(model: Any, run: Rounds) -> Iterator[RoundWatch | None]:
    """Yield the function to call after each round of `run`, or None if there is nothing to call.

    Callbacks and the progress bar are closed with the context.
    """
    try:
        with announcing(model) as callbacks:
            watch = RoundWatch(model, run, callbacks)
            try:
                yield watch if watch.is_needed else None
                watch.finish()
            finally:
                watch.release()
    finally:
        tear_down_callbacks(model)


# Fraction of the time limit that is reserved for combining the trees.
_RESERVE = 0.03
# Number of rounds from which the total time is estimated, and the maximum fraction of a fold's time that they may use.
_PROBE, _PROBE_SHARE = 10, 0.1
# If there is not enough time for all rounds, the learning rate is raised, up to a maximum, so that rounds times rate is
# as large as for 100 rounds at 0.1.
_ENOUGH, _MAX_RATE = 10.0, 0.2


def fold_rows(model: Any, data: TrainingData) -> list[tuple[RowNumbers, RowNumbers]]:
    """Return this rank's training and early-stopping row indices of each fold, stratified by class or strata.

    The only row of a class is in the training set of all folds, and the rows of a query share a fold. Raise ValueError
    if there are more folds than rows, rows of the largest class, or queries.
    """
    from sklearn.model_selection import GroupKFold

    (y,) = gathered(data.comm, [data.y])
    n_folds, seed = model._stopping.folds, model._seed
    if model._query_column is not None:
        queries = y[:, model._query_column]
        n_queries = len(np.unique(queries))
        if n_queries < n_folds:
            raise ValueError(f"early_stopping.folds must be at most {n_queries}, the number of queries; got {n_folds}.")
        splitter = GroupKFold(n_folds, shuffle=True, random_state=seed)
        return [local_split(data, parts) for parts in splitter.split(queries, groups=queries)]
    strata = None if model._strata_of is None else model._strata_of(y)
    has_classes = hasattr(model, "classes_") and y.ndim == 1
    fewest, alone = len(y), np.zeros(len(y), dtype=bool)
    if has_classes:
        sizes = np.bincount(y.astype(np.intp))
        fewest, alone = int(sizes.max()), sizes[y.astype(np.intp)] == 1
    if fewest < n_folds:
        what = "number of rows of the most frequent class" if has_classes else "rows"
        raise ValueError(f"early_stopping.folds must be at most {fewest}, the {what}; got {n_folds}.")
    rows = np.arange(len(y))
    parts = shuffled_folds(y if strata is None else strata, n_folds, seed, stratified=has_classes or strata is not None)
    held_out = [test[~alone[test]] for _, test in parts]
    return [local_split(data, (np.setdiff1d(rows, test, assume_unique=True), test)) for test in held_out]


class FoldedRounds(NamedTuple):
    """The rounds of all folds as one model, with the interface of `Rounds`."""

    parts: Sequence[Rounds]
    data: TrainingData  # the rows of all folds

    @property
    def best_round(self) -> int:
        """The total number of rounds that all folds keep."""
        return sum(part.best_round for part in self.parts)

    @property
    def history(self) -> History:
        """The mean losses after each round; folds that ended earlier count with their last loss."""
        histories = [part.history for part in self.parts]
        return History(
            _mean_curve([each.train for each in histories]), _mean_curve([each.validation for each in histories])
        )

    @property
    def loss(self) -> float:
        """The mean of the best held-out losses of the folds."""
        return float(np.mean([part.history.best_loss for part in self.parts]))

    def evaluations(self) -> Evaluations:
        """Return the recorded scores by set, metric and round, each the mean over the folds."""
        of_folds = [part.evaluations() for part in self.parts]
        first = of_folds[0]
        sets = {
            name: {each: _mean_curve([one[name][each].tolist() for one in of_folds]) for each in curves}
            for name, curves in first.items()
        }
        return Evaluations(sets, first.larger_is_better)

    def ensemble(self, n_rounds: int) -> TreeEnsemble:
        """Return the mean model of all folds: the first rounds of all folds, then their second rounds.

        `n_rounds` is `best_round`, the total number of rounds of all folds.
        """
        per_round, share = self.parts[0].leaves.n_trees, 1 / len(self.parts)
        kept = [part.kept_trees(part.best_round)[: part.best_round * per_round] for part in self.parts]
        scaled = [[scaled_tree(tree, share, None) for tree in fold_trees] for fold_trees in kept]
        trees = interleave_by_round(scaled, per_round)
        first = self.parts[0]
        baseline = np.mean([part.baseline for part in self.parts], axis=0)
        outputs = np.tile(np.arange(per_round), n_rounds)
        return first.leaves.ensemble_type.from_trees(trees, outputs, baseline, first.binning)

    def rows_after(self, n_rounds: int) -> ScoredRows:
        """Return the rows of all folds with the raw predictions of the mean model; `n_rounds` is as for `ensemble`."""
        data, n_threads = self.data, self.parts[0].rules.n_threads
        raw = np.ascontiguousarray(raw_of_rows(self.ensemble(n_rounds), data.X, n_threads).T)
        return ScoredRows(data.y, data.sample_weight, raw if data.offset is None else raw + data.offset)


def interleave_by_round(models: Sequence[Sequence[Any]], per_round: int) -> list[Any]:
    """Return one list of the models' items, of which each round has `per_round`, ordered by round and then by model."""
    firsts = range(0, max(map(len, models)), per_round)
    return [each for first in firsts for model in models for each in model[first : first + per_round]]


def _mean_curve(series: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of curves of different lengths; shorter curves are continued with their last value."""
    longest = max(map(len, series))
    return list(np.mean([[*each, *each[-1:] * (longest - len(each))] for each in map(list, series)], axis=0))


class FoldedFit:
    """Sequential fits of all folds, each within its share of the time limit."""

    def __init__(self, model: Any, data: TrainingData, moment: float) -> None:
        self._model, self._moment = model, moment
        check_duplicates(model, data)
        self._rows = fold_rows(model, data)
        self._rules = boosting_parameters(model, model._seed, resolve_n_jobs(model.n_jobs))
        model._loss = model._get_loss()
        self._prepared = _replace_by_codes(prepared(model, data, self._rules), self._rules)
        self.done: list[Rounds] = []
        self._watch: RoundWatch | None = None  # monitors the rounds of the latest fold

    def run(self) -> None:
        """Fit all folds, and again with less pruning if `select_pruning` applies and there is enough time."""
        start, other = time.monotonic(), less_pruned(self._model)
        self._run_folds(self.done)
        now = time.monotonic()
        if other is None or is_any(self._model._comm, self._moment - now < now - start):
            return
        self._model, rounds = other, list[Rounds]()
        self._run_folds(rounds)
        if self._join_folds(rounds).loss < self._join_folds(self.done).loss:
            self.done = rounds

    @property
    def rounds(self) -> FoldedRounds:
        """The rounds of the folds that have completed at least one."""
        return self._join_folds([rounds for rounds in self.done if rounds.n_rounds])

    def _join_folds(self, parts: Sequence[Rounds]) -> FoldedRounds:
        """Return the training loops of some folds as one model."""
        return FoldedRounds(parts, self._prepared.data)

    @property
    def callback_failed(self) -> bool:
        """True if a callback has raised an exception."""
        return self._watch is not None and self._watch.failed

    def finish(self, model: Any) -> None:
        """Set the fitted attributes of `model` to the mean of the folds that have completed at least one round."""
        model._finish(self.rounds)

    def _run_folds(self, done: list[Rounds]) -> None:
        """Fit each fold within its share of the remaining time, and append its training loop to the list `done`."""
        for number, parts in enumerate(self._rows):
            now = time.monotonic()
            end = now + (self._moment - now) / (len(self._rows) - number)
            rounds = self._start_fold(number, parts)
            if number == 0 and np.isfinite(end):
                rounds = self._probe_time(rounds, parts, now, end)
            done.append(rounds)
            self._run_rounds(rounds, end)

    def _start_fold(self, number: int, parts: tuple[RowNumbers, RowNumbers]) -> Rounds:
        """Return the loop of fold `number` before its first round; `parts` has training and held-out row indices."""
        model, inputs = self._model, self._prepared
        model._loss = model._get_loss()
        training, held_out = (subset(inputs.data, rows) for rows in parts)
        model._loss.join(training.comm)
        model._loss.check_target(training.y)
        model._loss.check_start(training.y)
        hashes = None if inputs.hashes is None else inputs.hashes[parts[0]]
        rules = replace(self._rules, seed=(self._rules.seed + number) % 2**31)
        rounds = inputs._replace(data=training, hashes=hashes).rounds(model, rules)
        model._measure_validation(rounds, held_out)
        return rounds

    def _run_rounds(self, rounds: Rounds, end: float) -> None:
        """Run the rounds of a fold, with callbacks after each round, until the `time.monotonic` `end`."""
        with watching(self._model, rounds) as self._watch:
            rounds.run(self._watch, end)

    def _probe_time(self, rounds: Rounds, parts: tuple[RowNumbers, RowNumbers], start: float, end: float) -> Rounds:
        """Run the first rounds of the first fold, and return a training loop that can finish in time.

        This is `rounds`, or, if the time from `start` to `end` is too short for all rounds, a new loop with a higher
        learning rate. `parts` are the fold's training and held-out row indices.
        """
        n_rounds, started = rounds.rules.n_rounds, time.monotonic()
        rounds.rules = replace(rounds.rules, n_rounds=min(_PROBE, n_rounds))
        rounds.run(None, started + _PROBE_SHARE * (end - start))
        seconds = (time.monotonic() - started) / max(rounds.n_rounds, 1)
        rounds.rules = replace(rounds.rules, n_rounds=n_rounds)
        possible = min(max(end - time.monotonic(), 0.0) / max(seconds, 1e-9), n_rounds)
        possible = min(self._model._comm.allgather(possible))  # all ranks must choose the same rate
        rate = min(_MAX_RATE, _ENOUGH / max(possible, 1.0))
        learning_rate = self._rules.learning_rate
        if possible >= n_rounds or isinstance(learning_rate, tuple) or rate <= learning_rate:
            return rounds
        self._rules = replace(self._rules, learning_rate=rate)
        return self._start_fold(0, parts)


def _replace_by_codes(inputs: Prepared, rules: BoostingParameters) -> Prepared:
    """Return the inputs with bin codes for feature values if X is dense; linear leaves need the values."""
    X = inputs.data.X
    if rules.linear_l2 is not None or not holds_dense_values(X):
        return inputs
    codes: NDArray[Any] = inputs.binning.codes(X, rules.n_threads)
    return inputs._replace(data=inputs.data._replace(X=BinnedSource(inputs.binning, codes)))


def fit_folds(model: Any, data: TrainingData, start: float) -> None:
    """Fit the mean of the fold models; after Ctrl-C or an error in a callback, the model is the mean so far.

    `start` is the `time.monotonic` at which `fit` began, from which the time limit counts.
    """
    limit = model._stopping.time_limit
    folded = FoldedFit(model, data, np.inf if limit is None else start + (1 - _RESERVE) * limit)
    try:
        folded.run()
    except BaseException as error:
        if folded.rounds.parts and (isinstance(error, KeyboardInterrupt) or folded.callback_failed):
            folded.finish(model)
            keep_partial(model, error)
        raise
    folded.finish(model)
