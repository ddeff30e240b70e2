"""`fastens.tune`: the best of many models that can be tried in a time."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.metrics import get_scorer_names
from sklearn.utils import assert_all_finite, column_or_1d

from fastens.engine.parts import is_coded
from fastens.parameters import FUNCTION, NONE, Rule, declared, instance, one_of, parameter, real, whole
from fastens.table.arrays import check_places, checked_array
from fastens.table.columns.vectors import numbers_in, unmasked
from fastens.table.labels import learn_labels
from fastens.table.opening import split_columns
from fastens.table.parts import settled, take_rows
from fastens.table.sample_weights import WEIGHT_TYPE, check_weights, weights_to_count
from fastens.table.sources import is_source
from fastens.table.spread import in_memory_only
from fastens.tuning.search import CLASSIFICATION, LOSS, Data, Deadline, TimeIsUpError, fold_rows, run_trial
from fastens.tuning.spaces import BOOSTING, EXTRA_TREES, SPACES, drawn
from fastens.tuning.state import SearchFile, Trial, fingerprint

TASKS = (CLASSIFICATION, "regression")
FAMILIES = Rule(
    f"a tuple of {', '.join(map(repr, SPACES))}",
    lambda value: isinstance(value, tuple) and len(value) > 0 and set(value) <= set(SPACES),
)
METRIC = replace(
    one_of(LOSS, *get_scorer_names()),
    text=f"{LOSS!r} or the name of a scorer of scikit-learn (sklearn.metrics.get_scorer_names() lists them)",
)
PAIRS = Rule(
    "a list of pairs of row numbers, those to fit on and those to judge by",
    lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(len(pair) == 2 for pair in value),
)
PATH = Rule("a path", lambda value: isinstance(value, str | os.PathLike))
# Time kept for the last fit: as long as those of the best trial's folds, and as much again as they differ by.
REFIT_FACTOR = 1.5
# Until a trial is done: the share of the time after which a model is fitted as it is.
FIRST_SHARE = 0.5
# How a search ended.
BY_TIME, BY_TRIALS, BY_INTERRUPT = "time", "trials", "interrupt"


@dataclass(frozen=True)
class RandomSearch:
    """How `tune` searches.

    Parameters
    ----------
    families : tuple of {"boosting", "forest", "extra-trees"}, default=all of them
        The kinds of models. Each is tried with its defaults first; then two draws in three are boosting.
    metric : str, default="loss"
        What models are judged by: the log loss or the root mean squared error, or the name of a scorer of scikit-learn.
    n_folds : int, default=5
        Folds of the cross-validation, the same for all models.
    folds : sequence of pairs of int arrays or None, default=None
        The rows to fit on and those to judge by, fold by fold, as the splitters of scikit-learn yield them: by time, or
        by group. If None, `n_folds` folds are drawn at random, with the same share of each class.
    n_trials : int or None, default=None
        Most models, those of an earlier search from `state` included.
    n_iter_no_change : int, default=50
        Rounds without progress on the rows of a fold after which boosting stops.
    state : path or None, default=None
        A file that keeps every trial. If it is there, of the same rows and settings, the search goes on from it.
    random_state : int, default=0
        Seed of folds, draws and models.
    weight_type : {"auto", "frequency", "importance"}, default="auto"
        What `sample_weight` means: see the parameter of the estimators.
    n_jobs : int or None, default=None
        Threads of each fit. None: all.
    on_trial : function or None, default=None
        Called with the list of trials after each.

    Raises
    ------
    ValueError
        For an option that breaks its rule.

    Examples
    --------
    >>> from fastens import RandomSearch
    >>> RandomSearch(families=("boosting",), n_trials=20).n_folds
    5
    """

    families: tuple[str, ...] = parameter(FAMILIES, default=tuple(SPACES))
    metric: str = parameter(METRIC, default=LOSS)
    n_folds: int = parameter(whole(2), default=5)
    folds: Sequence[tuple[Any, Any]] | None = parameter(PAIRS | NONE, default=None)
    n_trials: int | None = parameter(whole(1) | NONE, default=None)
    n_iter_no_change: int = parameter(whole(1), default=50)
    state: str | os.PathLike[str] | None = parameter(PATH | NONE, default=None)
    random_state: int = parameter(whole(0, 2**32 - 1), default=0)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    n_jobs: int | None = parameter(whole(-(2**31)) | NONE, default=None)
    on_trial: Callable[[list[Trial]], Any] | None = parameter(FUNCTION | NONE, default=None)

    def __post_init__(self) -> None:
        for name, rule in declared(self, "rule").items():
            rule.check(name, getattr(self, name))


@dataclass(frozen=True)
class Tuned:
    """What `tune` returns.

    Attributes
    ----------
    best_estimator : estimator
        The best model, fitted on all rows.
    best : Trial or None
        Its trial; None where the time was too short for any, and the model is boosting with its defaults.
    trials : list of Trial
        All models in the order in which they were tried.
    stopped_by : {"time", "trials", "interrupt"}
        Why the search ended.
    seconds : float
        The time of it all.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import fastens
    >>> search = fastens.RandomSearch(families=("forest",), n_trials=1, n_folds=2)
    >>> found = fastens.tune(*load_diabetes(return_X_y=True), "regression", time_limit=60, search=search)
    >>> found.stopped_by, found.best.family
    ('trials', 'forest')
    """

    best_estimator: Any
    best: Trial | None
    trials: list[Trial]
    stopped_by: str
    seconds: float

    @property
    def leaderboard(self) -> list[Trial]:
        """The models that were fitted on all folds, best first."""
        return ranked(self.trials)


def ranked(trials: list[Trial]) -> list[Trial]:
    """The trials that are complete, best first."""
    return sorted((trial for trial in trials if trial.is_complete), key=lambda trial: trial.loss)


@in_memory_only
def tune(
    X: Any,
    y: Any,
    task: str,
    *,
    sample_weight: Any = None,
    time_limit: float = 600.0,
    search: RandomSearch | None = None,
) -> Tuned:
    """Try models at random for a time, and return the best, fitted on all rows.

    Kinds of models and their parameters are drawn from the spaces of TabArena. All are judged on the same folds;
    boosting stops early by the rows of each fold that are held out, and is then fitted with the mean number of rounds.
    A model that is worse than half of the others after some folds is given up. Ctrl-C ends the search, not the call:
    the best model so far is fitted; a second one ends the call too.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        An array, a data frame, an Arrow table, or a `BinnedTable`, which is read and binned no more; of one without
        values, `search.families` must leave out "extra-trees".
    y : array of shape (n_samples,), or the name of a column
        Classes, or numbers; None for those of a `BinnedTable`, as for `sample_weight`.
    task : {"classification", "regression"}
        What y is.
    sample_weight : array of shape (n_samples,), or the name of a column, optional
        Weights of the rows.
    time_limit : float, default=600
        Seconds for everything, the last fit included.
    search : RandomSearch, optional
        What is searched and how, and the file that keeps the trials.

    Returns
    -------
    Tuned
        The model, the trials, and why the search ended.

    Raises
    ------
    ValueError
        If a parameter or the table breaks a rule; if `search.state` is the file of another search.

    References
    ----------
    Erickson et al. (2025), TabArena: a living benchmark for machine learning on tabular data.

    Golovin et al. (2017), Google Vizier: a service for black-box optimization (the median stopping rule).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import fastens
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = fastens.RandomSearch(n_trials=4, n_folds=3)
    >>> found = fastens.tune(X, y, "regression", time_limit=60, search=search)
    >>> len(found.trials), found.best_estimator.predict(X[:2]).shape
    (4, (2,))
    """
    start = time.monotonic()
    one_of(*TASKS).check("task", task)
    real(0, open_low=True).check("time_limit", time_limit)
    search = RandomSearch() if search is None else search
    instance(RandomSearch, "a RandomSearch or None").check("search", search)
    data = _data(X, y, task, sample_weight, search)
    if len(data.y) < 2:
        raise ValueError(f"X must have 2 rows or more, to fit on and to judge by; got {len(data.y)}.")
    folds = _folds(data, search)
    given = [] if search.folds is None else [zlib.crc32(rows.tobytes()) for pair in folds for rows in pair]
    judged_by = given or len(folds)
    settings = [search.families, search.metric, judged_by, search.n_iter_no_change, search.random_state, task]
    file = SearchFile(search.state, fingerprint(data.X, data.y, data.weight, {"settings": settings}))
    stopped_by = _search(data, search, file, folds, (start, time_limit))
    best = next(iter(ranked(file.trials)), None)
    model = _fitted(data, best, start + time_limit)
    return Tuned(model, best, file.trials, stopped_by, time.monotonic() - start)


def _data(X: Any, y: Any, task: str, sample_weight: Any, search: RandomSearch) -> Data:
    if isinstance(X, list | tuple | np.ndarray | memoryview) and not is_source(X):
        X = checked_array(X, "tune")
    check_places(X)
    X = X.tocsr() if issparse(X) else X  # whose rows can be taken
    if not hasattr(X, "shape") or is_source(X):
        raise ValueError(
            "X must be a table in memory, or a BinnedTable, which can be of a table in files; got "
            f"{type(X).__name__}: {str(X)[:100]!r}."
        )
    if is_coded(X) and not X.options.keep_values and EXTRA_TREES in search.families:
        raise ValueError(
            f"search.families must leave out {EXTRA_TREES!r} where X is a BinnedTable made with keep_values=False; got "
            f"{search.families}."
        )
    if isinstance(y, str) or isinstance(sample_weight, str) or is_coded(X):
        X, y, sample_weight = split_columns(X, y=y, sample_weight=sample_weight)
    if y is None:
        raise ValueError("tune requires y to be passed, but the target y is None.")
    y = column_or_1d(unmasked(y, "y"))
    if X.shape[0] != len(y):
        raise ValueError(f"X and y must have the same rows; got {X.shape[0]} and {len(y)}.")
    weight = check_weights(sample_weight, len(y))
    X = settled(X)
    if weight is not None and not weight.all():  # rows without weight are in no fold
        kept = np.flatnonzero(weight)
        X, y, weight = take_rows(X, kept), y[kept], weight[kept]
    weight = weights_to_count(weight, search.weight_type)
    return Data(
        X, _target(y, task), weight, task, search.metric, search.n_iter_no_change, search.random_state, search.n_jobs
    )


def _target(y: NDArray[Any], task: str) -> NDArray[Any]:
    if task != CLASSIFICATION:
        numbers = numbers_in(y, "y", "real numbers")
        assert_all_finite(numbers, input_name="y")
        return numbers
    classes, index = learn_labels(y)  # or the error says what is wrong with them
    # scikit-learn takes no numbers among objects.
    return classes[index.astype(np.intp)] if y.dtype.kind == "O" and classes.dtype.kind != "U" else y


def _folds(data: Data, search: RandomSearch) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The rows to fit on and to judge by."""
    if search.folds is None:
        whole(2, len(data.y)).check("n_folds", search.n_folds)
        return fold_rows(data, search.n_folds)
    folds = [(np.asarray(train), np.asarray(test)) for train, test in search.folds]
    for rows in (rows for pair in folds for rows in pair):
        if rows.dtype.kind not in "iu" or not len(rows) or rows.min() < 0 or rows.max() >= len(data.y):
            raise ValueError(f"folds must hold row numbers from 0 to {len(data.y) - 1}, at least one in each part.")
    return folds


def _search(data: Data, search: RandomSearch, file: SearchFile, folds: list[Any], clock: tuple[float, float]) -> str:
    """Try models until the time that is left is that of the last fit; why it ended."""
    start, limit = clock
    index = 1 + max((trial.index for trial in file.trials), default=-1)
    try:
        while search.n_trials is None or len(file.trials) < search.n_trials:
            moment = start + limit - _reserve(file.trials, len(folds), limit)
            if time.monotonic() >= moment:
                return BY_TIME
            family, params = drawn(index, search.families, search.random_state)
            trial = Trial(index, family, params)
            index += 1
            try:
                file.append(run_trial(trial, data, folds, file.trials, moment))
            except TimeIsUpError:
                if family == BOOSTING or time.monotonic() >= moment:
                    return BY_TIME
                continue  # a forest that is too large for the time
            if search.on_trial is not None:
                search.on_trial(file.trials)
    except KeyboardInterrupt:
        if not ranked(file.trials):
            raise
        return BY_INTERRUPT
    return BY_TRIALS


def _reserve(trials: list[Trial], n_folds: int, limit: float) -> float:
    """Seconds for the last fit: that of the best trial, on all rows."""
    best = next(iter(ranked(trials)), None)
    if best is None:
        return FIRST_SHARE * limit
    return REFIT_FACTOR * best.seconds / max(n_folds - 1, 1)


def _fitted(data: Data, best: Trial | None, moment: float) -> Any:
    """The best model on all rows; boosting with the mean number of rounds, and no longer than until the moment."""
    rows = data.rows(np.arange(len(data.y)))
    if best is None:
        return _boosted(data.model(BOOSTING, {}), rows, moment)
    model = data.model(best.family, best.params)
    if best.family != BOOSTING:
        return model.fit(**rows)
    n_rounds = max(1, round(float(np.mean(best.n_estimators))))
    return _boosted(model.set_params(n_estimators=n_rounds, early_stopping=False), rows, moment)


def _boosted(model: Any, rows: dict[str, Any], moment: float) -> Any:
    """A model of as many rounds as there is time for, one at least."""
    model.set_params(callbacks=[Deadline(moment)]).fit(**rows)
    return model.set_params(callbacks=None)
