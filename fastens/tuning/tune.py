"""`fastens.tune`: search for the best hyperparameters within a time limit."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.metrics import get_scorer_names
from sklearn.utils import assert_all_finite, column_or_1d

from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.combining.responses import with_weight_type
from fastens.engine.elementary import exp, log
from fastens.engine.parts import is_coded
from fastens.forests.random_forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from fastens.modelfile.storage import replacing
from fastens.monitoring.callbacks import Deadline, announce
from fastens.monitoring.metrics import score_by_name
from fastens.params.options import TextChoice, with_hints
from fastens.params.rules import FLAG, FUNCTION, NONE, Rule, declared, instance, one_of, parameter, real, whole
from fastens.table.arrays import check_sparse_indices, checked_array
from fastens.table.columns.numbers import numbers_in, unmasked
from fastens.table.opening import split_columns
from fastens.table.parts import take_rows, with_fixed_dtypes
from fastens.table.sources import in_memory_only, is_source
from fastens.table.training_data import WEIGHT_TYPE, check_weights, learn_labels, shuffled_folds, weights_to_count

if TYPE_CHECKING:
    import pandas as pd

Draw = Callable[[np.random.Generator], Any]
BOOSTING, EXTRA_TREES = "boosting", "extra-trees"


def uniform(low: float, high: float) -> Draw:
    """Return a function of a generator that draws a float uniformly between `low` and `high`."""
    return lambda generator: float(generator.uniform(low, high))


def log_uniform(low: float, high: float) -> Draw:
    """Return a function of a generator that draws a float log-uniformly between `low` and `high`."""
    return lambda generator: float(exp(generator.uniform(log(low), log(high))))


def log_whole(low: int, high: int) -> Draw:
    """Return a function of a generator that draws an integer log-uniformly from `low` to `high`, inclusive."""
    return lambda generator: int(exp(generator.uniform(log(low), log(high + 1))))


@dataclass(frozen=True)
class Space:
    """Search space of a model family: its estimators, share of draws, fixed parameters and drawn parameters."""

    classifier: Callable[..., Any]
    regressor: Callable[..., Any]
    share: float
    fixed: Mapping[str, Any]
    drawn: Mapping[str, Draw]


# TabArena's search spaces of LightGBM and forests (Erickson et al. 2025), for parameters that fastens has.
_OF_FORESTS = {
    "max_features": uniform(0.4, 1.0),
    "max_samples": uniform(0.5, 1.0),
    "min_impurity_decrease": log_uniform(1e-5, 1e-3),
}
SPACES = {
    BOOSTING: Space(
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        4.0,
        {},
        {
            "learning_rate": log_uniform(5e-3, 0.1),
            "max_features_per_tree": uniform(0.4, 1.0),
            "subsample": uniform(0.7, 1.0),
            "max_leaf_nodes": log_whole(2, 200),
            "min_samples_leaf": log_whole(1, 64),
            "l2_regularization": log_uniform(1e-5, 2.0),
            "categories__min_samples": log_whole(2, 100),
            "categories__l2": log_uniform(5e-3, 2.0),
            "categories__smoothing": log_uniform(1e-3, 100.0),
            "categories__one_hot_max_size": log_whole(8, 100),
        },
    ),
    "forest": Space(RandomForestClassifier, RandomForestRegressor, 1.0, {}, _OF_FORESTS),
    EXTRA_TREES: Space(ExtraTreesClassifier, ExtraTreesRegressor, 1.0, {"bootstrap": True}, _OF_FORESTS),
}


def drawn_trial(index: int, families: tuple[str, ...], random_state: int) -> tuple[str, dict[str, Any]]:
    """Return the family and the parameters of a trial: first each family's defaults, then random draws.

    A trial depends only on its index, so a resumed search continues with the same trials.
    """
    if index < len(families):
        return families[index], {}
    generator = np.random.default_rng([random_state, index])
    shares = np.array([SPACES[name].share for name in families])
    family = families[int(generator.choice(len(families), p=shares / shares.sum()))]
    space = SPACES[family]
    return family, {**space.fixed, **{name: draw(generator) for name, draw in space.drawn.items()}}


VERSION = 1


@dataclass(frozen=True)
class Trial:
    """A model that `tune` has evaluated.

    Attributes
    ----------
    index : int
        Index of the trial, starting at 0.
    family : str
        The model family: "boosting", "forest" or "extra-trees".
    params : dict
        The parameters that differ from the defaults.
    losses : list of float
        The loss on each fold. There are fewer losses than folds if the model was pruned for being worse than the
        median.
    n_estimators : list of int
        Number of rounds or trees in each fold.
    seconds : float
        Time of all fits and predictions.
    is_complete : bool
        True if the model was fitted on all folds.

    Examples
    --------
    >>> from fastens import Trial
    >>> Trial(0, "boosting", {"learning_rate": 0.05}, losses=[0.31, 0.29]).is_complete
    False
    """

    index: int
    family: str
    params: dict[str, Any]
    losses: list[float] = field(default_factory=list)
    n_estimators: list[int] = field(default_factory=list)
    seconds: float = 0.0
    is_complete: bool = False

    @property
    def loss(self) -> float:
        """The mean loss over the folds."""
        return float(np.mean(self.losses)) if self.losses else float("inf")

    @property
    def standard_error(self) -> float:
        """The standard error of the mean loss; NaN with fewer than two folds."""
        n_folds = len(self.losses)
        return float(np.std(self.losses, ddof=1) / np.sqrt(n_folds)) if n_folds > 1 else float("nan")


class SearchStateError(ValueError):
    """Raised if a checkpoint file belongs to another search, or is not a checkpoint file."""


def fingerprint(X: Any, y: NDArray, sample_weight: NDArray | None, settings: Mapping[str, Any]) -> str:
    """Return a hash that identifies a search: targets, weights, the table's shape and columns, and settings."""
    hasher = hashlib.sha256(json.dumps([settings, _columns_of(X), len(y)], sort_keys=True).encode())
    for values in (y, sample_weight):
        if values is not None:
            plain = "\0".join(map(str, values)).encode() if values.dtype == object else values.tobytes()
            hasher.update(plain)
    return hasher.hexdigest()


def _columns_of(X: Any) -> list[Any]:
    """Return column names, column types if the table has them, and the null counts of Arrow columns."""
    if hasattr(X, "column_names"):
        columns = zip(X.column_names, X.columns, strict=True)
        return [(name, str(column.type), column.null_count) for name, column in columns]
    names, types = list(map(str, getattr(X, "columns", ()))), list(map(str, getattr(X, "dtypes", ())))
    return [names, types if len(types) == len(names) else []]


class SearchFile:
    """Trials stored in a file, after the trials of an earlier run; kept only in memory if `path` is None."""

    def __init__(self, path: str | os.PathLike[str] | None, of: str) -> None:
        self.path, self.trials = path, list[Trial]()
        if path is None:
            return
        if os.path.exists(path) and os.path.getsize(path):
            self.trials = _read_trials(path, of)
        header = json.dumps({"fastens search": VERSION, "of": of})
        with replacing(path) as unfinished, open(unfinished, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in (header, *map(_line, self.trials)))

    def append(self, trial: Trial) -> None:
        """Append a trial and write it to the file."""
        self.trials.append(trial)
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(_line(trial) + "\n")
                file.flush()
                os.fsync(file.fileno())


def _line(trial: Trial) -> str:
    """Return a trial as JSON, a line of the checkpoint file."""
    return json.dumps(asdict(trial))


def _read_trials(path: str | os.PathLike[str], of: str) -> list[Trial]:
    """Return the trials of a checkpoint file; raise SearchStateError unless its fingerprint is `of`."""
    name = os.fspath(path)
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.read().split("\n")[:-1]  # an incomplete last line is dropped
    try:
        header = json.loads(lines[0])
        is_ours, file_fingerprint = header["fastens search"] == VERSION, header["of"]
    except (IndexError, KeyError, TypeError, ValueError):
        is_ours, file_fingerprint = False, ""
    if not is_ours:
        raise SearchStateError(f"checkpoint must be a new file or the file of an earlier search; {name} is neither.")
    if file_fingerprint != of and any(lines[1:]):  # a search that failed before its first trial is replaced
        raise SearchStateError(
            f"checkpoint must come from a search on the same rows with the same settings; {name} comes from "
            "another search. Choose another file, or remove it."
        )
    try:
        return [Trial(**json.loads(line)) for line in lines[1:]]
    except (TypeError, ValueError) as error:
        raise SearchStateError(f"checkpoint is damaged: {name} has a line that is not a trial.") from error


CLASSIFICATION, REGRESSION, LOSS = "classification", "regression", "loss"
# Maximum number of boosting rounds before early stopping; 1 / PROBE of the trees is grown first to estimate the time.
MAX_ROUNDS, PROBE = 10_000, 10
# Patience of boosting, longer than by default because learning rates are as low as 0.005.
PATIENCE = 50
# A trial is pruned once its mean loss is worse than the median of at least this many other trials on the same folds
# (the median stopping rule of Golovin et al. 2017).
MIN_FOR_MEDIAN = 5


class TimeIsUpError(Exception):
    """Raised if a fit would exceed the time limit."""


@dataclass(frozen=True)
class Data:
    """Rows, targets and weights, with the settings that models are built and scored with."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    task: str
    metric: str
    random_state: int
    n_jobs: int | None
    text_features: Any = None

    def model(self, family: str, params: dict[str, Any]) -> Any:
        """Return an unfitted estimator of a model family for the task, with `params` and the search's settings."""
        space = SPACES[family]
        kind = space.classifier if self.task == CLASSIFICATION else space.regressor
        model = kind(random_state=self.random_state, n_jobs=self.n_jobs, text_features=self.text_features)
        model.set_params(**params)
        return model if self.weight is None else with_weight_type(model, self.weight)

    def rows(self, rows: NDArray[np.intp]) -> dict[str, Any]:
        """Return the rows with these indices as keyword arguments of `fit`."""
        weight = None if self.weight is None else self.weight[rows]
        return {"X": take_rows(self.X, rows), "y": self.y[rows], "sample_weight": weight}

    def loss(self, model: Any, rows: dict[str, Any]) -> float:
        """Return a model's loss on rows from `Data.rows`: log loss, RMSE, or the negated score of the metric."""
        X, y, weight = rows["X"], rows["y"], rows["sample_weight"]
        if self.metric != LOSS:
            return -self._score(model, X, y, weight)
        if self.task != CLASSIFICATION:
            return float(np.sqrt(np.average((model.predict(X) - y) ** 2, weights=weight)))
        indices = np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
        chances = model.predict_proba(X)[np.arange(len(y)), indices]
        chances = np.where(model.classes_[indices] == y, chances, 0.0)  # the training rows of the fold lack the class
        return float(np.average(-np.log(np.clip(chances, np.finfo(float).eps, None)), weights=weight))

    def _score(self, model: Any, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None) -> float:
        """Return the metric of a model's predictions; raise ValueError if the metric fails or is NaN."""
        try:
            score = score_by_name(self.metric, model, X, y, {} if weight is None else {"sample_weight": weight})
        except (AttributeError, TypeError, ValueError) as error:
            weighted = "" if weight is None else " with sample_weight"
            rule = f"eval_metric must be 'loss' or a scorer that supports {self.task} on this table{weighted}"
            raise ValueError(f"{rule}; got {self.metric!r}: {error}") from error
        if np.isnan(score):
            raise ValueError(
                f"eval_metric must be defined on the test rows of each fold; {self.metric!r} is undefined on one."
            )
        return score


def fold_rows(data: Data, n_folds: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return row indices (training, test) of shuffled folds; raise ValueError if classes are too rare to stratify."""
    if data.task != CLASSIFICATION:
        return shuffled_folds(data.y, n_folds, data.random_state, stratified=False)
    if np.unique(data.y, return_counts=True)[1].max() < n_folds:
        raise ValueError(f"y must have a class with at least {n_folds} rows, one for each fold.")
    folds = shuffled_folds(data.y, n_folds, data.random_state, stratified=True)
    if any(np.all(data.y[train] == data.y[train[0]]) for train, _ in folds):
        raise ValueError(
            "y must have at least two classes in the training rows of each fold; one fold has a single class."
        )
    return folds


def run_trial(trial: Trial, data: Data, folds: list[Any], others: list[Trial], moment: float) -> Trial:
    """Return the trial, run on all folds or until pruned against `others`; TimeIsUpError after the time `moment`."""
    losses, rounds = list[float](), list[int]()
    start = time.monotonic()
    for train, test in folds:
        model = data.model(trial.family, trial.params)
        held_out = data.rows(test)
        _fit(model, trial.family, data, (data.rows(train), held_out), Deadline(moment))
        losses.append(data.loss(model, held_out))
        rounds.append(int(getattr(model, "n_estimators_", model.n_estimators)))
        if len(losses) < len(folds) and _is_worse_than_median(losses, others):
            break
    is_complete = len(losses) == len(folds)
    return Trial(trial.index, trial.family, trial.params, losses, rounds, time.monotonic() - start, is_complete)


def _fit(model: Any, family: str, data: Data, parts: tuple[dict[str, Any], dict[str, Any]], deadline: Deadline) -> None:
    """Fit on `parts[0]`, with `parts[1]` for early stopping of boosting; raise TimeIsUpError at the deadline."""
    train, held_out = parts
    if deadline.left <= 0:
        raise TimeIsUpError
    if family != BOOSTING:
        _check_time(model, train, deadline)
        model.fit(**train)
        return
    model.set_params(n_estimators=MAX_ROUNDS, early_stopping=True, n_iter_no_change=PATIENCE, callbacks=[deadline])
    watched = _rows_of_known_classes(held_out, train["y"]) if data.task == CLASSIFICATION else held_out
    model.fit(**train, X_val=watched["X"], y_val=watched["y"], sample_weight_val=watched["sample_weight"])
    if deadline.has_ended:
        raise TimeIsUpError


def _rows_of_known_classes(held_out: dict[str, Any], y: NDArray[Any]) -> dict[str, Any]:
    """Return the held-out rows whose class is in `y`, the training targets; a rare class may be in one fold only."""
    known_rows = np.flatnonzero(np.isin(held_out["y"], y))
    X, labels, weight = held_out["X"], held_out["y"], held_out["sample_weight"]
    weight = None if weight is None else weight[known_rows]
    return {"X": take_rows(X, known_rows), "y": labels[known_rows], "sample_weight": weight}


def _check_time(model: Any, train: dict[str, Any], deadline: Deadline) -> None:
    """Fit a tenth of a forest to estimate the time; raise TimeIsUpError if the whole forest would take too long."""
    n_trees, start = model.n_estimators, time.monotonic()
    model.set_params(n_estimators=max(1, n_trees // PROBE)).fit(**train)
    seconds = (time.monotonic() - start) * n_trees / model.n_estimators
    model.set_params(n_estimators=n_trees)
    if seconds > deadline.left:
        raise TimeIsUpError


def _is_worse_than_median(losses: list[float], others: list[Trial]) -> bool:
    """Return True if a trial's mean loss is above the median of at least five others on as many folds."""
    n = len(losses)
    means = [np.mean(other.losses[:n]) for other in others if len(other.losses) >= n]
    return len(means) >= MIN_FOR_MEDIAN and bool(np.mean(losses) > np.median(means))


TASKS = (CLASSIFICATION, REGRESSION)
FAMILIES = Rule(
    f"a tuple of {', '.join(map(repr, SPACES))}",
    lambda value: isinstance(value, tuple) and len(value) > 0 and set(value) <= set(SPACES),
)
METRIC = replace(
    one_of(LOSS, *get_scorer_names()),
    text=f"{LOSS!r} or the name of a scorer of scikit-learn (sklearn.metrics.get_scorer_names() lists them)",
)
PAIRS = Rule(
    "a list of pairs (training rows, test rows) of row indices",
    lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(len(pair) == 2 for pair in value),
)
PATH = Rule("a path", lambda value: isinstance(value, str | os.PathLike))
# Time reserved for the final fit, relative to its estimate from the best trial, as a margin for variation.
REFIT_FACTOR = 1.5
# Until the first trial is complete, this fraction of the time is reserved for a fit with default parameters.
FIRST_SHARE = 0.5
# Reasons why a search ends.
BY_TIME, BY_TRIALS, BY_INTERRUPT = "time", "trials", "interrupt"


@dataclass(frozen=True)
class TuningConfig:
    """Settings of the random search of `tune`.

    Parameters
    ----------
    families : tuple of {"boosting", "forest", "extra-trees"}, default=all of them
        The model families. Each family is first tried with its defaults; two thirds of the random draws are boosting.
    eval_metric : str, default="loss"
        The metric that ranks models: "loss", which is the log loss or the root mean squared error, or the name of a
        scikit-learn scorer.
    n_folds : int, default=5
        Number of cross-validation folds, the same for all models.
    folds : sequence of pairs of int arrays or None, default=None
        Training and test rows of each fold, as yielded by scikit-learn splitters, for example by time or by group. If
        None, `n_folds` random folds are used, stratified for classification.
    n_trials : int or None, default=None
        Maximum number of models, including models of an earlier search from `checkpoint`. If None, only time limits the
        search.
    checkpoint : path or None, default=None
        File that stores every trial. If it exists and has the same rows and settings, the search continues from it. If
        None, trials are not stored.
    random_state : int, default=0
        Seed of the folds, the draws and the models.
    weight_type : {"auto", "frequency", "importance"}, default="auto"
        Interpretation of `sample_weight`; see the parameter of the estimators.
    n_jobs : int or None, default=None
        Number of threads of each fit. If None, all threads are used.
    text_features : list of names or indices, mask, dict, Texts or None, default=None
        Columns of texts; see the parameter of the estimators. If None, columns of strings are categories.
    callback : function or None, default=None
        Called with the list of trials after each trial.

    Raises
    ------
    ValueError
        If a setting is invalid.

    Examples
    --------
    >>> from fastens import TuningConfig
    >>> TuningConfig(families=("boosting",), n_trials=20).n_folds
    5
    """

    families: tuple[str, ...] = parameter(FAMILIES, default=tuple(SPACES))
    eval_metric: str = parameter(METRIC, default=LOSS)
    n_folds: int = parameter(whole(2), default=5)
    folds: Sequence[tuple[Any, Any]] | None = parameter(PAIRS | NONE, default=None)
    n_trials: int | None = parameter(whole(1) | NONE, default=None)
    checkpoint: str | os.PathLike[str] | None = parameter(PATH | NONE, default=None)
    random_state: int = parameter(whole(0, 2**32 - 1), default=0)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    n_jobs: int | None = parameter(whole(-(2**31)) | NONE, default=None)
    text_features: TextChoice = parameter(Rule("columns of texts", lambda _: True), default=None)
    callback: Callable[[list[Trial]], Any] | None = parameter(FUNCTION | NONE, default=None)

    def __post_init__(self) -> None:
        for name, rule in declared(self, "rule").items():
            rule.check(name, getattr(self, name))


with_hints(TuningConfig)


@dataclass(frozen=True, repr=False)
class TuningResult:
    """Result of `tune`.

    Attributes
    ----------
    best_estimator_ : estimator
        The best model, fitted on all rows.
    best : Trial or None
        Trial of the best model. None if time ran out before any trial was complete; the model is then boosting with its
        defaults.
    trials : list of Trial
        All models in the order in which they were tried.
    best_params_ : dict
        Parameters of the best trial that differ from the defaults of its estimator.
    best_score_ : float
        Mean score of the best trial over the folds: `eval_metric`, or the negated loss. Larger is better. NaN if no
        trial was complete.
    stopped_by : {"time", "trials", "interrupt"}
        The reason why the search ended.
    seconds : float
        Total time.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import fastens
    >>> search = fastens.TuningConfig(families=("forest",), n_trials=1, n_folds=2)
    >>> X, y = load_diabetes(return_X_y=True)
    >>> fastens.tune(X, y, search=search, verbose=0)
    TuningResult(RandomForestRegressor, loss 61.08, 1 trial, stopped by trials)
    """

    best_estimator_: Any
    best: Trial | None
    trials: list[Trial]
    stopped_by: str
    seconds: float

    eval_metric: str = LOSS

    @property
    def best_params_(self) -> dict[str, Any]:
        """Parameters of the best trial that differ from the defaults of its estimator."""
        return {} if self.best is None else dict(self.best.params)

    @property
    def best_score_(self) -> float:
        """Mean score of the best trial over the folds; larger is better."""
        return float("nan") if self.best is None else -self.best.loss

    @property
    def leaderboard(self) -> list[Trial]:
        """The trials that were fitted on all folds, best first."""
        return ranked(self.trials)

    def predict(self, X: ArrayLike) -> Any:
        """Return the predictions of the best model.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        """
        return self.best_estimator_.predict(X)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row per trial, in the order of the search, and a column per parameter."""
        import pandas as pd

        names = list(dict.fromkeys(name for trial in self.trials for name in trial.params))
        sign = 1.0 if self.eval_metric == LOSS else -1.0
        columns: dict[str, list[Any]] = {
            "family": [trial.family for trial in self.trials],
            self.eval_metric: [sign * trial.loss for trial in self.trials],
            "standard_error": [trial.standard_error for trial in self.trials],
            "seconds": [trial.seconds for trial in self.trials],
            "is_complete": [trial.is_complete for trial in self.trials],
            "n_estimators": [float(np.mean(trial.n_estimators or np.nan)) for trial in self.trials],
        }
        columns |= {name: [trial.params.get(name) for trial in self.trials] for name in names}
        return pd.DataFrame(columns, index=[trial.index for trial in self.trials])

    def __repr__(self) -> str:
        n, best = len(self.trials), _score_text(self.best, self.eval_metric)
        what = f"{type(self.best_estimator_).__name__}, {best}, {n} trial{'s' * (n != 1)}"
        return f"{type(self).__name__}({what}, stopped by {self.stopped_by})"


def _score_text(trial: Trial | None, metric: str) -> str:
    """Return the mean score of a trial as text, such as "r2 0.71"; "no complete trial" if None."""
    return f"{metric} {trial.loss if metric == LOSS else -trial.loss:.4g}" if trial else "no complete trial"


def ranked(trials: list[Trial]) -> list[Trial]:
    """Return the complete trials in ascending order of their mean loss."""
    return sorted((trial for trial in trials if trial.is_complete), key=lambda trial: trial.loss)


@in_memory_only
def tune(  # noqa: PLR0913
    X: ArrayLike,
    y: ArrayLike,
    task: str | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    time_limit: float = 60.0,
    search: TuningConfig | None = None,
    verbose: int | bool = 1,
) -> TuningResult:
    """Search models at random within a time limit, and return the best model, fitted on all rows.

    Model families and their parameters are drawn from TabArena's search spaces, and all models are scored on the same
    folds. Boosting uses the held-out rows of each fold for early stopping, and the final fit uses the mean number of
    rounds. A model is pruned after some folds if it is worse than the median of the others. The first Ctrl-C ends the
    search and fits the best model so far; the second one also ends the call.

    Parameters
    ----------
    X : table of shape (n_samples, n_features)
        An array, a data frame, an Arrow table, or a `BinnedTable`, which is not read or binned again. For a
        `BinnedTable` without values, `search.families` must not contain "extra-trees".
    y : array of shape (n_samples,), or the name of a column
        Class labels or numbers. If None, the target of a `BinnedTable` is used; the same holds for `sample_weight`.
    task : {"classification", "regression"} or None, default=None
        The type of the prediction task. If None, it is classification for texts, booleans, two whole numbers and
        integers with at most 10 distinct values, and regression otherwise.
    sample_weight : array of shape (n_samples,), or the name of a column, optional
        Weights of the rows.
    time_limit : float, default=60
        Time limit in seconds, including the final fit.
    search : TuningConfig, optional
        Search settings, including the file that stores the trials. If None, the defaults of `TuningConfig` are used.
    verbose : int, default=1
        If 1, each trial that improves on all earlier trials is logged; if 2, every trial is logged. The messages go to
        the logger "fastens", or to the standard output if logging is not configured. If 0, nothing is logged.

    Returns
    -------
    TuningResult
        The model, the trials, and the reason why the search ended.

    Raises
    ------
    ValueError
        If a parameter or the table is invalid, or if `search.checkpoint` belongs to another search.

    References
    ----------
    Erickson et al. (2025), TabArena: a living benchmark for machine learning on tabular data.

    Golovin et al. (2017), Google Vizier: a service for black-box optimization (the median stopping rule).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import fastens
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = fastens.TuningConfig(n_trials=4, n_folds=3)
    >>> found = fastens.tune(X, y, search=search, verbose=0)
    >>> len(found.trials), found.predict(X[:2]).shape
    (4, (2,))
    """
    start = time.monotonic()
    (one_of(*TASKS) | NONE).check("task", task)
    (whole(0) | FLAG).check("verbose", verbose)
    real(0, open_low=True).check("time_limit", time_limit)
    search = TuningConfig() if search is None else search
    instance(TuningConfig, "a TuningConfig or None").check("search", search)
    data = _checked_data(X, y, task, sample_weight, search)
    if len(data.y) < 2:
        raise ValueError(f"X must have at least 2 rows, one for training and one for testing; got {len(data.y)}.")
    folds = _folds(data, search)
    fold_hashes = [] if search.folds is None else [zlib.crc32(rows.tobytes()) for pair in folds for rows in pair]
    judged_by = fold_hashes or len(folds)
    settings = [search.families, search.eval_metric, judged_by, search.random_state, data.task]
    settings += [] if search.text_features is None else [str(search.text_features)]
    file = SearchFile(search.checkpoint, fingerprint(data.X, data.y, data.weight, {"settings": settings}))
    if verbose:
        announce(f"tune: {data.task} on {len(data.y)} rows, {len(folds)} folds, at most {time_limit:g} s")
        search = replace(search, callback=_logging_callback(search, int(verbose), start))
    stopped_by = _search(data, search, file, folds, (start, time_limit))
    best = next(iter(ranked(file.trials)), None)
    model = _fit_best(data, best, start + time_limit)
    result = TuningResult(model, best, file.trials, stopped_by, time.monotonic() - start, search.eval_metric)
    if verbose:
        announce(f"tune: {result}")
    return result


def _logging_callback(search: TuningConfig, verbose: int, start: float) -> Callable[[list[Trial]], None]:
    """Return a callback that logs the last trial if best or verbose > 1, and then calls the search's callback."""

    def after_trial(trials: list[Trial]) -> None:
        last, is_best = trials[-1], trials[-1] is next(iter(ranked(trials)), None)
        if is_best or verbose > 1:
            score = _score_text(last, search.eval_metric) + (" (best)" if is_best else "")
            announce(f"[{time.monotonic() - start:.0f} s] trial {last.index}, {last.family}: {score}")
        if search.callback is not None:
            search.callback(trials)

    return after_trial


def _checked_data(X: Any, y: Any, task: str | None, sample_weight: Any, search: TuningConfig) -> Data:
    """Check the arguments of `tune`, and return them without rows of weight 0; raise ValueError if invalid."""
    if isinstance(X, list | tuple | np.ndarray | memoryview) and not is_source(X):
        X = checked_array(X, "tune")
    check_sparse_indices(X)
    X = X.tocsr() if issparse(X) else X  # CSR supports taking rows
    if not hasattr(X, "shape") or is_source(X):
        raise ValueError(
            "X must be a table in memory or a BinnedTable; got "
            f"{type(X).__name__}: {str(X)[:100]!r}. For tables in files, pass a BinnedTable."
        )
    is_binned = is_coded(X)
    if is_binned and not X.options.keep_values and EXTRA_TREES in search.families:
        raise ValueError(
            f"search.families must leave out {EXTRA_TREES!r} where X is a BinnedTable made with keep_values=False; got "
            f"{search.families}."
        )
    if isinstance(y, str) or isinstance(sample_weight, str) or is_binned:
        X, y, sample_weight = split_columns(X, y=y, sample_weight=sample_weight)
    if y is None:
        raise ValueError("tune requires y to be passed, but the target y is None.")
    y = column_or_1d(unmasked(y, "y"))
    if X.shape[0] != len(y):
        raise ValueError(f"X and y must have the same number of rows; got {X.shape[0]} and {len(y)}.")
    weight = check_weights(sample_weight, len(y))
    X = with_fixed_dtypes(X)
    if weight is not None and not weight.all():  # rows of zero weight are excluded from the folds
        kept = np.flatnonzero(weight)
        X, y, weight = take_rows(X, kept), y[kept], weight[kept]
    weight = weights_to_count(weight, search.weight_type)
    task = inferred_task(y) if task is None else task
    settings = search.eval_metric, search.random_state, search.n_jobs, search.text_features
    return Data(X, _target(y, task), weight, task, *settings)


# Integers with at most this number of distinct values are classes, as on the command line.
MAX_INTEGER_CLASSES = 10


def inferred_task(y: NDArray[Any]) -> str:
    """Return classification unless y is numeric with fractions, over 2 distinct floats or over 10 distinct integers."""
    if y.dtype.kind not in "iuf":
        return CLASSIFICATION
    most = 2 if y.dtype.kind == "f" else MAX_INTEGER_CLASSES
    distinct = np.unique(y)
    return CLASSIFICATION if len(distinct) <= most and np.array_equal(distinct, np.rint(distinct)) else REGRESSION


def _target(y: NDArray[Any], task: str) -> NDArray[Any]:
    """Return valid targets: finite numbers for regression, or labels; raise ValueError for anything else."""
    if task != CLASSIFICATION:
        numbers = numbers_in(y, "y", "real numbers")
        assert_all_finite(numbers, input_name="y")
        return numbers
    classes, index = learn_labels(y)  # raises for invalid labels
    # scikit-learn does not accept numbers in object arrays.
    return classes[index.astype(np.intp)] if y.dtype.kind == "O" and classes.dtype.kind != "U" else y


def _folds(data: Data, search: TuningConfig) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return row indices (training, test) of `search.folds`, or else of `n_folds` folds; ValueError if invalid."""
    if search.folds is None:
        whole(2, len(data.y)).check("n_folds", search.n_folds)
        return fold_rows(data, search.n_folds)
    folds = [(np.asarray(train), np.asarray(test)) for train, test in search.folds]
    for rows in (rows for pair in folds for rows in pair):
        if rows.dtype.kind not in "iu" or not len(rows) or rows.min() < 0 or rows.max() >= len(data.y):
            raise ValueError(
                f"folds must hold row indices from 0 to {len(data.y) - 1}, with at least one in each part."
            )
    return folds


def _search(data: Data, search: TuningConfig, file: SearchFile, folds: list[Any], clock: tuple[float, float]) -> str:
    """Run trials until time, `n_trials` or Ctrl-C ends the search; return the reason. `clock` is (start, limit)."""
    start, limit = clock
    index = 1 + max((trial.index for trial in file.trials), default=-1)
    try:
        while search.n_trials is None or len(file.trials) < search.n_trials:
            moment = start + limit - _reserve(file.trials, len(folds), limit)
            if time.monotonic() >= moment:
                return BY_TIME
            family, params = drawn_trial(index, search.families, search.random_state)
            trial = Trial(index, family, params)
            index += 1
            try:
                file.append(run_trial(trial, data, folds, file.trials, moment))
            except TimeIsUpError:
                if family == BOOSTING or time.monotonic() >= moment:
                    return BY_TIME
                continue  # the forest would exceed the time limit
            if search.callback is not None:
                search.callback(file.trials)
    except KeyboardInterrupt:
        if not ranked(file.trials):
            raise
        return BY_INTERRUPT
    return BY_TRIALS


def _reserve(trials: list[Trial], n_folds: int, limit: float) -> float:
    """Return the seconds to reserve for the final fit: estimated from the best trial, or else a share of `limit`."""
    best = next(iter(ranked(trials)), None)
    if best is None:
        return FIRST_SHARE * limit
    return REFIT_FACTOR * best.seconds / max(n_folds - 1, 1)


def _fit_best(data: Data, best: Trial | None, moment: float) -> Any:
    """Fit the best trial's model, or default boosting if None, on all rows; boosting stops at the time `moment`."""
    rows = data.rows(np.arange(len(data.y)))
    if best is None:
        return _fit_boosting(data.model(BOOSTING, {}), rows, moment)
    model = data.model(best.family, best.params)
    if best.family != BOOSTING:
        return model.fit(**rows)
    n_rounds = max(1, round(float(np.mean(best.n_estimators))))
    return _fit_boosting(model.set_params(n_estimators=n_rounds, early_stopping=False), rows, moment)


def _fit_boosting(model: Any, rows: dict[str, Any], moment: float) -> Any:
    """Fit a boosting model with as many rounds as the end time `moment` allows, at least one, and return it."""
    model.set_params(callbacks=[Deadline(moment)]).fit(**rows)
    return model.set_params(callbacks=None)
