"""Validation metrics of boosting: losses, scikit-learn's scorers and functions, measured after each round."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from fastens.engine.comm import LOCAL, gathered
from fastens.engine.losses.losses import Loss
from fastens.params.foreign_names import SCORERS
from fastens.params.rules import FLAG, Rule

if TYPE_CHECKING:
    from fastens.engine.losses.losses import Loss


Array = NDArray[np.float64]


@dataclass
class ScoredRows:
    """Targets, weights and raw predictions (n_outputs, n_rows) of some rows."""

    y: Array
    weight: Array | None
    raw: Array

    def loss(self, loss: Loss, n_threads: int) -> float:
        """Return the weighted mean of `loss` over the rows, from their raw predictions."""
        return loss.loss(self.y, self.raw, self.weight, n_threads)

    def take(self, rows: Any) -> ScoredRows:
        """Return the rows with these indices or this mask."""
        weight = None if self.weight is None else np.ascontiguousarray(self.weight[rows])
        return ScoredRows(np.ascontiguousarray(self.y[rows]), weight, np.ascontiguousarray(self.raw[:, rows]))


class Evaluations(dict[str, dict[str, Array]]):
    """Curves measured after each round, by set of rows and by metric: the attribute `evals_result_`.

    The sets are "training", "validation" and the names of `eval_set`. `larger_is_better` gives the direction of each
    metric.
    """

    def __init__(self, sets: Mapping[str, Mapping[str, Any]] | None = None, rises: Mapping[str, bool] | None = None):
        curves = {
            name: {each: np.array(values) for each, values in metric_curves.items()}
            for name, metric_curves in (sets or {}).items()
        }
        super().__init__(curves)
        self.larger_is_better = {
            each: bool((rises or {}).get(each, False)) for metric_curves in curves.values() for each in metric_curves
        }

    def __reduce__(self) -> Any:
        return type(self), (dict(self), self.larger_is_better)

    def __repr__(self) -> str:
        texts = []
        for name, metric_curves in self.items():
            metrics = [f"{each} (larger is better)" if self.larger_is_better[each] else each for each in metric_curves]
            n_rounds = max(map(len, metric_curves.values()), default=0)
            texts.append(f"{name!r}: {', '.join(metrics)} of {n_rounds} rounds")
        return f"{type(self).__name__}({'; '.join(texts)})"

    def of_rounds(self, rounds: NDArray[np.intp]) -> Evaluations:
        """Return the curves at these round indices; rounds after the end of a curve are left out."""
        sets = {
            name: {each: values[rounds[rounds < len(values)]] for each, values in metric_curves.items()}
            for name, metric_curves in self.items()
        }
        return Evaluations(sets, self.larger_is_better)

    def to_arrays(self) -> dict[str, Array]:
        """Return the curves as arrays of a model file."""
        rises = self.larger_is_better
        return {
            _EVALS + json.dumps([name, each, rises[each]]): values
            for name, metric_curves in self.items()
            for each, values in metric_curves.items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Evaluations:
        """Return the curves among the arrays of a model file."""
        keys = [key for key in arrays if key.startswith(_EVALS)]
        curves = [(json.loads(key.removeprefix(_EVALS)), arrays[key]) for key in keys]
        sets: dict[str, dict[str, Array]] = {}
        for (name, metric, _), values in curves:
            sets.setdefault(name, {})[metric] = values
        return cls(sets, {metric: rises for (_, metric, rises), _ in curves})


_EVALS = "evals."


@dataclass
class History:
    """Metrics measured after each round."""

    train: list[float] = field(default_factory=list)  # training loss
    validation: list[float] = field(default_factory=list)  # the metric that early stopping uses
    rises: bool = False  # True if larger values of the validation metric are better
    decides: bool = True  # False if the validation metric is only recorded, and never ends the rounds
    # Number of rounds examined, their best loss, and the number of rounds since the best one.
    _progress: tuple[int, float, int] = (0, np.inf, 0)

    @property
    def last_validation(self) -> float | None:
        """The latest validation loss, or None."""
        return self.validation[-1] if self.validation else None

    def rounds_since_best(self, tol: float) -> int:
        """Return the number of rounds since the validation metric last improved by more than `tol`.

        It is 0 if the metric is only recorded and does not decide when to stop.
        """
        seen, best, since = self._progress if self._progress[0] <= len(self.validation) else (0, np.inf, 0)
        for score in self.validation[seen:]:
            loss = -score if self.rises else score
            best, since = (loss, 0) if loss < best - tol else (best, since + 1)
        self._progress = (len(self.validation), best, since)
        return since if self.decides else 0

    def least_improvement(self, tol: float) -> float:
        """Return the minimum improvement of a loss: `tol`, times the first validation loss if that is below 1."""
        return tol * min(1.0, abs(self.validation[0])) if self.validation else tol

    @property
    def best_round(self) -> int:
        """The number of rounds with the best validation metric, at least 1."""
        return int(np.argmin(self._falling)) + 1

    @property
    def has_best(self) -> bool:
        """True if the validation metric decides which rounds are kept."""
        return bool(self.validation) and self.decides

    def evaluations(self, metrics: Metrics | None, others: Mapping[str, Metrics] = MappingProxyType({})) -> Evaluations:
        """Return the curves of the training loss, the validation set and further named sets, `others`.

        `metrics` holds the scores of the validation set; if None, its curve is the loss.
        """
        sets: dict[str, Any] = {"training": {LOSS: self.train}}
        if self.validation:
            sets["validation"] = {LOSS: self.validation} if metrics is None else metrics.scores
        sets |= {name: each.scores for name, each in others.items()}
        rises = next((each.rises for each in (metrics, *others.values()) if each is not None), {})
        return Evaluations(sets, rises)

    @property
    def best_loss(self) -> float:
        """The best validation loss, negated if larger is better; infinite if there is no validation set."""
        return min(self._falling, default=np.inf)

    @property
    def _falling(self) -> list[float]:
        return [-score for score in self.validation] if self.rises else self.validation


LOSS = "loss"


# A metric that an estimator provides by name, such as "ndcg", reduced over all processes; larger is better.
OwnMetric = Callable[[ScoredRows], float]


def metrics_rule(
    words: str, is_name: Callable[[str], bool], elsewhere: Mapping[str, str] = MappingProxyType({})
) -> Rule:
    """Return the rule of `eval_metric`: 'loss', a name for which `is_name` is True, a callable, or a list of these.

    `words` describes the names in the error message, and `elsewhere` maps names of other libraries to valid names.
    """

    def is_metric(value: Any) -> bool:
        return value == LOSS or is_name(value) if isinstance(value, str) else callable(value)

    def holds(value: Any) -> bool:
        if isinstance(value, list | tuple):
            # The names that functions return are known only when they are called.
            names = [metric_name(each) for each in value if isinstance(each, str) or _is_scorer(each)]
            return len(value) > 0 and all(map(is_metric, value)) and len(set(names)) == len(names)
        return is_metric(value)

    return Rule(f"'loss', {words}, a callable, or a list of these with unique names", holds, elsewhere.get)


def _is_scorer_name(name: str) -> bool:
    """Return True for the name of a scikit-learn scorer."""
    from sklearn.metrics import get_scorer_names

    return name in get_scorer_names()


METRICS = metrics_rule("the name of a scorer", _is_scorer_name, SCORERS)
# The negative CRPS of predicted distributions.
NEG_CRPS = "neg_crps"
REGRESSION_METRICS = metrics_rule(
    "the name of a scorer, 'neg_crps'", lambda name: name == NEG_CRPS or _is_scorer_name(name), SCORERS
)


def metric_name(metric: Any) -> str:
    """Return the key of a metric in `evals_result_`: a string itself, or the name of a function.

    Functions that return (name, value, larger_is_better) have the returned name instead.
    """
    if isinstance(metric, str):
        return metric
    function = getattr(metric, "_score_func", metric)
    return getattr(function, "__name__", type(function).__name__)


class FixedPredictions(BaseEstimator):
    """Model with fixed raw predictions, (n_outputs, n_rows), for calls by scorers."""

    def __init__(self, model: Any, raw: Array) -> None:
        self.model, self.raw = model, raw

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> Any:
        """The classes of the model, if it has any."""
        return self.model.classes_

    def predict(self, X: Any) -> Any:
        """Return the predictions, independent of X."""
        return self._from_raw("predict")

    @available_if(lambda fixed: hasattr(fixed.model, "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities, independent of X."""
        return self._from_raw("predict_proba")

    @available_if(lambda fixed: hasattr(fixed.model, "decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the decision function, independent of X."""
        return self._from_raw("decision_function")

    def _from_raw(self, name: str) -> Any:
        """Return what the model's prediction method `name` computes from the raw predictions."""
        return self.model._response(name, np.ascontiguousarray(self.raw.T))


class IndexedClasses(BaseEstimator):
    """Binary classifier with the classes 0 and 1, the second class of the model, as scorers by name expect them."""

    def __init__(self, model: Any) -> None:
        self.model, self.classes_ = model, np.arange(2)

    def __sklearn_tags__(self) -> Any:
        return self.model.__sklearn_tags__()

    def predict(self, X: Any) -> Any:
        """Return 1 for rows in which the model predicts its second class, otherwise 0."""
        return (self.model.predict(X) == self.model.classes_[1]).astype(np.intp)

    @available_if(lambda indexed: hasattr(indexed.model, "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the model."""
        return self.model.predict_proba(X)

    @available_if(lambda indexed: hasattr(indexed.model, "decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the decision function of the model."""
        return self.model.decision_function(X)


def score_by_name(name: str, model: Any, X: Any, y: NDArray[Any], weight: Mapping[str, Any]) -> float:
    """Return the value of the scikit-learn scorer `name`, for which the second of two classes is positive.

    `weight` is {"sample_weight": weights}, or empty without weights.
    """
    from sklearn.metrics import get_scorer

    classes = getattr(model, "classes_", None)
    if isinstance(classes, np.ndarray) and len(classes) == 2 and np.isin(y, classes).all():
        model, y = IndexedClasses(model), (y == classes[1]).astype(np.intp)
    return float(get_scorer(name)(model, X, y, **weight))


class Metrics:
    """Metrics on the same rows, of which the first decides when to stop.

    `eval_metric` is the parameter of the fit, `model` turns raw predictions into predictions, and `labels` are the
    targets as the user passed them. In distributed training, scorers and functions receive the rows of all processes.
    """

    def __init__(self, eval_metric: Any, model: Any, rows: ScoredRows, loss: Loss, labels: NDArray[Any]) -> None:
        self._metrics = list(eval_metric) if isinstance(eval_metric, list | tuple) else [eval_metric]
        self._model, self._rows, self._loss = model, rows, loss
        # The loss is reduced over all processes; only other metrics require gathering the rows.
        self._comm = LOCAL if self._metrics == [LOSS] else loss.comm
        self._labels, self._weight = gathered(self._comm, [labels, rows.weight])
        learned = [self._learn(metric) for metric in self._metrics]
        self.names, self.rises = [name for name, _ in learned], dict(learned)
        if len(self.rises) < len(learned):
            raise ValueError(f"eval_metric must be metrics with unique names; got {self.names}.")
        self.scores: dict[str, list[float]] = {name: [] for name in self.names}

    def _learn(self, metric: Any) -> tuple[str, bool]:
        """Return the name of a metric, and True if larger values are better.

        Functions are called once, because they may return (name, value, larger_is_better).
        """
        if callable(metric) and not _is_scorer(metric):
            result = self._call(metric, self._raw_of_all())
            if isinstance(result, tuple) and len(result) == 3 and isinstance(result[0], str):
                return result[0], bool(result[2])
        return metric_name(metric), _is_scorer(metric) or _is_score(metric)

    @property
    def decide_by_loss(self) -> bool:
        """True if the loss decides when to stop."""
        return isinstance(self._metrics[0], str) and self._metrics[0] == LOSS

    def continue_from(self, scores: Mapping[str, Any]) -> None:
        """Set the scores to earlier scores by metric name; metrics that these lack start empty."""
        for name in self.names:
            self.scores[name] = list(map(float, scores.get(name, [])))

    def measure(self) -> float:
        """Append the values of all metrics to `scores` and return the first; raise ValueError if one is NaN."""
        raw = self._raw_of_all()
        values = [self._number(name, metric, raw) for name, metric in zip(self.names, self._metrics, strict=True)]
        # All processes use the coordinator's values, so that they decide identically even if a user's function is not
        # deterministic.
        for name, value in zip(self.names, self._comm.allgather(values)[0], strict=True):
            if np.isnan(value):
                raise ValueError(f"eval_metric must return numbers; {name!r} returned {value}.")
            self.scores[name].append(value)
        return self.scores[self.names[0]][-1]

    def _raw_of_all(self) -> Array:
        """Return the raw predictions of the rows of all processes."""
        raw: Array = gathered(self._comm, [self._rows.raw], axis=1)[0]
        return raw

    def _value(self, metric: Any, raw: Array) -> float:
        """Return the value of a metric for raw predictions of shape (n_outputs, n_rows)."""
        if metric == LOSS:
            return self._rows.loss(self._loss, 1)
        model_metric = self._model._own_metric(metric, self._loss) if isinstance(metric, str) else None
        if model_metric is not None:
            return float(model_metric(self._rows))
        if not _is_scorer(metric):
            return _number_of(self._call(metric, raw))
        weight = {} if self._weight is None else {"sample_weight": self._weight}
        stand_in, X = FixedPredictions(self._model, raw.copy()), np.empty((len(self._labels), 0))
        if isinstance(metric, str):
            return score_by_name(metric, stand_in, X, self._labels.copy(), weight)
        return float(metric(stand_in, X, self._labels.copy(), **weight))

    def _number(self, name: str, metric: Any, raw: Array) -> float:
        """Return the value of a metric; if it cannot be computed, raise ValueError with the metric's `name`."""
        try:
            return self._value(metric, raw)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"eval_metric must be computable for these targets; {name!r} failed: {error}") from error

    def _call(self, metric: Callable[[Any, Any], Any], raw: Array) -> Any:
        """Call a user's function with copies of targets and predictions, which are probabilities for classification."""
        is_classifier = hasattr(self._model, "predict_proba")
        name = "predict_proba" if is_classifier else "predict"
        predicted = self._model._response(name, np.array(raw.T, order="C"))
        if is_classifier and not isinstance(predicted, list) and predicted.shape[1] == 2:
            predicted = predicted[:, 1]
        return metric(self._labels.copy(), predicted)


def _number_of(result: Any) -> float:
    """Return the number that a user's function returned, alone or in (name, value, larger_is_better).

    Raises ValueError for other tuples.
    """
    if not isinstance(result, tuple):
        return float(result)
    if len(result) != 3 or not isinstance(result[0], str) or not FLAG.holds(result[2]):
        raise ValueError(f"it must return a number or (name, value, larger_is_better); got {result!r}.")
    return float(result[1])


def _is_score(metric: Any) -> bool:
    """Return True for scikit-learn functions named `..._score`, for which larger is better by convention."""
    module, name = getattr(metric, "__module__", None) or "", getattr(metric, "__name__", "")
    return module.startswith("sklearn.metrics.") and name.endswith("_score")


def _is_scorer(metric: Any) -> bool:
    """Return True for scorers of scikit-learn and names of scorers, but not for other functions."""
    return metric != LOSS if isinstance(metric, str) else hasattr(metric, "_score_func") and hasattr(metric, "_sign")
