"""Parameters shared by ensembles of arbitrary estimators, and validation of their members' predictions."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import closing
from functools import reduce
from inspect import Parameter, signature
from itertools import count
from numbers import Integral
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from fastens.base import BaseClassifier, BaseFastens
from fastens.engine.comm import shared_work
from fastens.engine.threads import ThreadPool, limited_threads
from fastens.engine.whole import are_copies
from fastens.library_threads import limited_libraries
from fastens.modelfile.saving import SavedEstimator
from fastens.params.foreign_names import hint
from fastens.params.rules import FLAG, NONE, Rule, instance, one_of, whole
from fastens.table.columns.numbers import unmasked
from fastens.table.training_data import AUTO, FREQUENCY, IMPORTANCE

NamedMembers = list[tuple[str, Any]]
PREFIT = "prefit"
LAST, ALL = "last", "all"


def _is_named(item: Any) -> bool:
    """Return True if an item is a (name, estimator) pair."""
    return isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)


MEMBERS = Rule(
    "a list of (name, estimator) pairs",
    lambda value: isinstance(value, list | tuple) and all(_is_named(item) for item in value),
)
LEVELS = Rule(
    "a list of levels, each a list of (name, estimator) pairs",
    lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(MEMBERS.holds(item) for item in value),
)
COLUMNS = instance(Mapping, "a dict that maps names of members to columns") | NONE
# For estimators that do not accept cv="prefit".
CV = (
    Rule(
        "a number of folds, 'content', a splitter or a list of (train, test)",
        lambda value: (
            (
                isinstance(value, Integral)
                or callable(getattr(value, "split", None))
                or (isinstance(value, Iterable) and not isinstance(value, bytes))
            )
            and (not isinstance(value, str) or value == "content")
        ),
    )
    | NONE
)
VERBOSE = FLAG | whole(0)
INPUTS = one_of(LAST, ALL)


KNOWN_METADATA = ("sample_weight", "groups", "X_val", "y_val")


def check_metadata(
    owner: Any, metadata: Mapping[str, Any], method: str = "fit", accepted: Collection[str] = KNOWN_METADATA
) -> None:
    """Raise TypeError for arguments of a method that are not in `accepted`, unless metadata routing is enabled.

    Only `fit` accepts arguments without routing; for other methods, all arguments are unknown.
    """
    unknown = [] if routing_enabled() else sorted(set(metadata).difference(accepted if method == "fit" else ()))
    if unknown:
        where, name = f"{type(owner).__name__}.{method}()", unknown[0]
        help_ = hint(name, accepted, owner.get_params(deep=False)) if method == "fit" else ""
        raise TypeError(f"{where} got an unexpected keyword argument {name!r}.{help_}")


def check_prefit(members: Iterable[tuple[str, Any]]) -> None:
    """Raise NotFittedError for the first of the (name, estimator) pairs that is not fitted."""
    for name, member in members:
        shown = repr(name).replace("%", "%%")  # the message is used as a format string
        check_is_fitted(member, msg=f"Member {shown} must be fitted already; this %(name)s is not fitted yet.")


def groups_of_rows(groups: Any, rows: NDArray[np.intp], n_rows: int) -> NDArray[Any] | None:
    """Return the groups of the rows with these indices, None without groups.

    Raises ValueError unless there is one group for each of the `n_rows` rows.
    """
    if groups is None:
        return None
    group_labels = unmasked(groups, "groups")
    if group_labels.shape != (n_rows,):
        raise ValueError(f"groups must have one label for each of the {n_rows} rows; got shape {group_labels.shape}.")
    return group_labels[rows]


def metadata_of_rows(metadata: Mapping[str, Any], rows: NDArray[np.intp], n_rows: int) -> dict[str, Any]:
    """Return the metadata of the rows with these indices; only values with `n_rows` entries are subset."""
    return {
        key: _select_rows(value, rows) if key not in ("X_val", "y_val") and _is_by_row(value, n_rows) else value
        for key, value in metadata.items()
    }


def _is_by_row(value: Any, n_rows: int) -> bool:
    """Return True if a metadata value has one entry for each row."""
    if hasattr(value, "shape"):
        return bool(value.shape[:1] == (n_rows,))
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping) and len(value) == n_rows


def _select_rows(value: Any, rows: NDArray[np.intp]) -> Any:
    """Return the rows of an array or sparse matrix with these indices."""
    return value.tocsr()[rows] if issparse(value) else np.asarray(value)[rows]


def ensemble_request(owner: Any, *, reads_validation_rows: bool = False) -> MetadataRequest:
    """Return an ensemble's request: metadata of `score` by `set_score_request`, and optionally X_val and y_val."""
    request = MetadataRequest(owner=owner)
    for name, alias in owner._get_metadata_request().score.requests.items():
        if alias is not None:
            request.score.add_request(param=name, alias=alias)
    for name in ("X_val", "y_val") if reads_validation_rows else ():
        request.fit.add_request(param=name, alias=True)
    return request


def routing_enabled() -> bool:
    """Return True if scikit-learn's metadata routing is enabled."""
    return bool(get_config().get("enable_metadata_routing", False))


def tags_of(member: Any) -> Any:
    """Return the scikit-learn tags of an estimator; None for classes, text and objects without tags."""
    if not hasattr(member, "fit"):
        return None
    try:
        return get_tags(member)
    except (AttributeError, TypeError):
        return None


def nested_estimators(member: Any) -> Iterator[Any]:
    """Yield a member, then the last step of each pipeline and the estimator of each wrapper nested in it."""
    while hasattr(member, "fit"):
        yield member
        member = member.steps[-1][1] if isinstance(member, Pipeline) else getattr(member, "estimator", None)


def check_kind(what: str, member: Any, wants_classifier: bool) -> None:
    """Raise ValueError unless a member is a classifier, or a regressor if `wants_classifier` is False.

    `what` is its name in the message. Estimators that predict but have no estimator type are accepted.
    """
    kind = "classifier" if wants_classifier else "regressor"
    tags = tags_of(member)
    # An estimator that predicts but has no estimator type is accepted for either; fastens rankers and survival models
    # are not.
    is_either = tags is not None and tags.estimator_type is None and hasattr(member, "predict")
    fastens_layers = (each for each in nested_estimators(member) if isinstance(each, BaseFastens)) if is_either else ()
    is_either &= all(get_tags(each).estimator_type is not None for each in fastens_layers)
    if is_either or (tags is not None and tags.estimator_type == kind):
        return
    needs_tags = tags is None and hasattr(member, "fit")
    advice = f", an instance of a class with scikit-learn's {kind.title()}Mixin and BaseEstimator"
    raise ValueError(f"{what} must be a {kind}{advice if needs_tags else ''}; got {member!r}.")


def seeded(member: Any, seeds: np.random.RandomState | None) -> Any:
    """Return a copy with an integer seed for each random_state that is None; the member itself if `seeds` is None."""
    if seeds is None or not hasattr(member, "get_params"):
        return member
    drawn = drawn_seeds(member, seeds, lambda value: value is None)
    return clone(member).set_params(**drawn) if drawn else member


def names_of_weight_types(member: Any) -> dict[str, str]:
    """Return {name: value} of all `weight_type` parameters of a member and its nested estimators."""
    parameters = member.get_params(deep=True) if hasattr(member, "get_params") else {}
    return {name: value for name, value in parameters.items() if name.split("__")[-1] == "weight_type"}


def with_weight_type(member: Any, weight: NDArray[np.float64]) -> Any:
    """Set each `weight_type` of "auto" to frequency weights if all weights are integers, else importance weights.

    The member is changed in place and returned.
    """
    names = [name for name, value in names_of_weight_types(member).items() if value == AUTO]
    decided = FREQUENCY if are_copies(weight) else IMPORTANCE
    return member.set_params(**dict.fromkeys(names, decided)) if names else member


def drawn_seeds(
    member: Any, seeds: np.random.RandomState, is_drawn: Callable[[Any], bool] = lambda value: True
) -> dict[str, int]:
    """Return {parameter: drawn seed} for each random_state parameter of a member, also of nested estimators.

    `is_drawn` receives the parameter's value and selects the parameters, by default all.
    """
    all_parameters = member.get_params(deep=True)
    names = [
        name
        for name in sorted(all_parameters)
        if name.split("__")[-1] == "random_state" and is_drawn(all_parameters[name])
    ]
    return {name: int(seeds.randint(np.iinfo(np.int32).max)) for name in names}


Array = NDArray[np.float64]
Options = Mapping[str, Any]

WEIGHT = "sample_weight"
METHODS = ("predict_proba", "decision_function", "predict")
# Names of the class weight parameters of scikit-learn and LightGBM, and of CatBoost.
_CLASS_WEIGHTS = ("class_weight", "class_weights")
# Parameters that hold the candidate values of scikit-learn's searches.
_SEARCHED = ("param_grid", "param_distributions")
# Probabilities may be float16, or rounded individually.
_SUM_TOLERANCE = 1e-2
# Sums of weights with a smaller relative difference are treated as equal.
_ROUNDING = 1e-9


class MemberError(ValueError):
    """Raised if a member of an ensemble could not be fitted, or its response is malformed."""


def with_seed(member: Any, seed: int) -> Any:
    """Return a copy whose random_state parameters, also of nested estimators, are seeds drawn with `seed`."""
    drawn = drawn_seeds(member, np.random.RandomState(seed))
    return clone(member).set_params(**drawn) if drawn else clone(member)


def resolve_method(name: str, member: Any, wanted: str, is_classification: bool, remedy: str = "") -> str:
    """Return the name of the method that produces a member's responses; `wanted` may be "auto".

    Regressors always use `predict`. Raises ValueError, with the advice `remedy`, if a classifier lacks the method.
    """
    if not is_classification:
        return "predict"
    # scikit-learn's stacking with the default final estimator, also in a pipeline, has these methods only once fitted.
    instance_or_class: Any = member if hasattr(member, "predict") else type(member)
    for method in METHODS if wanted == "auto" else (wanted,):
        if hasattr(instance_or_class, method):
            return method
    needed = f"one of the methods {', '.join(METHODS)}" if wanted == "auto" else f"the method {wanted}"
    raise ValueError(f"Member {name!r} must have {needed}; {type(member).__name__} does not.{remedy}")


def is_all_ours(member: Any, methods: Sequence[str] = ("fit", *METHODS)) -> bool:
    """Return True for fastens estimators whose methods of these names are not overridden by a user's subclass."""
    implementations = (getattr(type(member), name, None) for name in methods)
    return isinstance(member, BaseFastens) and all(
        method is None or str(getattr(method, "__module__", "")).startswith("fastens.") for method in implementations
    )


def is_fitted_on_labels(member: Any) -> bool:
    """Return True if a classifier is fitted on labels instead of class indices.

    This applies to fastens classifiers, frozen models and classifiers with parameters that refer to labels.
    """
    return isinstance(member, BaseFastens) or _is_frozen(member) or _refers_to_labels(member)


def _refers_to_labels(member: Any) -> bool:
    """Return True if a parameter of a classifier, of a wrapped estimator or of a search grid refers to labels."""
    parameters = member.get_params() if hasattr(member, "get_params") else {}
    return any(_is_by_label(name.rpartition("__")[2], value) for name, value in parameters.items())


def _is_by_label(name: str, value: Any) -> bool:
    """Return True if a parameter's value refers to class labels, such as a positive label or class weights."""
    if name == "pos_label":
        return value is not None
    if name == "scoring":
        scorers = value.values() if isinstance(value, Mapping) else [value]
        return any(getattr(scorer, "_kwargs", {}).get("pos_label") is not None for scorer in scorers)
    several = value if isinstance(value, list | tuple) else [value]
    dicts = [each for each in several if isinstance(each, Mapping)]
    if name in _SEARCHED:
        tried = [(parameter.rpartition("__")[2], values) for grid in dicts for parameter, values in grid.items()]
        return any(
            _is_by_label(parameter, each)
            for parameter, candidates in tried
            if isinstance(candidates, list | tuple)
            for each in candidates
        )
    return name in _CLASS_WEIGHTS and len(dicts) > 0


def _is_frozen(member: Any) -> bool:
    """Return True if a model, the last step of its pipeline or the estimator in a wrapper is frozen."""
    return any(isinstance(each, FrozenEstimator) for each in nested_estimators(member))


def weight_name(member: Any) -> str | None:
    """Return the name of the sample weights in a member's `fit`, also for wrapped estimators; None if unsupported."""
    if has_fit_parameter(member, WEIGHT) or isinstance(member, FrozenEstimator):
        return WEIGHT
    if isinstance(member, Pipeline):
        step, last = member.steps[-1]
        last_weight_name = weight_name(last)
        return None if last_weight_name is None else f"{step}__{last_weight_name}"
    if not _accepts_any_argument(member):
        return None
    if isinstance(getattr(member, "estimators", None), list | tuple):  # scikit-learn's voting and stacking
        return WEIGHT
    wrapped = getattr(member, "estimator", getattr(member, "regressor", None))
    return None if wrapped is None else weight_name(wrapped)


def _accepts_any_argument(member: Any) -> bool:
    """Return True if `fit` accepts arbitrary keyword arguments, as scikit-learn's searches and other wrappers do."""
    return any(each.kind is Parameter.VAR_KEYWORD for each in signature(member.fit).parameters.values())


def added(parts: Iterable[Array]) -> Array:
    """Return the sum of arrays, added one after another: the order of NumPy's sum depends on the number of rows."""
    return reduce(np.add, parts)


def with_ties(votes: Array) -> Array:
    """Return vote totals, (n_rows, n_classes), in which totals within rounding of the maximum equal it exactly."""
    most = votes.max(axis=1, keepdims=True)
    return np.where(votes >= most * (1 - _ROUNDING), most, votes)


def check_labels_known(what: str, predicted: NDArray[Any], labels: NDArray[Any]) -> None:
    """Raise MemberError, which names the member by `what`, for the first predicted label not in `labels`."""
    label_set = set(labels.tolist())
    for label in predicted.tolist():
        if label not in label_set:
            are_indices = np.array_equal(labels, np.arange(len(labels)))
            hint = ", the indices of the classes in classes_, which the member is fitted to" if are_indices else ""
            raise MemberError(f"{what} must predict labels among {labels.tolist()}{hint}; got {label!r}.")


def label_indices(what: str, response: Any, labels: NDArray[Any], n_rows: int) -> NDArray[np.intp]:
    """Return the index in `labels` of each predicted label, (n_rows,); `what` names the model in errors.

    Raises MemberError for unknown labels, and unless there is one label for each row.
    """
    predicted = np.asarray(response)
    _check_rows(what, predicted, n_rows, "one label for each row")
    predicted = predicted.reshape(n_rows)
    same = predicted[:, None] == labels
    if not same.any(axis=1).all():
        check_labels_known(what, predicted, labels)
    return same.argmax(axis=1)


def positions_of_classes(what: str, classes: NDArray[Any], labels: NDArray[Any]) -> list[int]:
    """Return the positions in `labels` of a classifier's `classes`; raise MemberError for unknown classes.

    `what` is the classifier's name in the message.
    """
    check_labels_known(what, classes, labels)
    position_of = {label: position for position, label in enumerate(labels.tolist())}
    return [position_of[label] for label in classes.tolist()]


def class_response(
    what: str, model: Any, X: Any, method: str, labels: NDArray[Any], options: Options | None = None
) -> Array:
    """Return a classifier's response for each class in `labels`; unseen classes get the lowest value.

    `what` is the classifier's name in errors and `options` are further arguments of the method. The shape is (n_rows,
    n_classes), or (n_rows, 1) for the decision function of two classes. Raises MemberError for an unknown label, an
    unexpected shape, or values that are not probabilities.
    """
    response, n_rows = getattr(model, method)(X, **(options or {})), X.shape[0]
    if method == "predict":
        return (label_indices(what, response, labels, n_rows)[:, None] == np.arange(len(labels))).astype(np.float64)
    columns = positions_of_classes(what, labels_with_columns(what, model), labels)
    values = numbers_of(what, response)
    if method == "decision_function" and values.size == n_rows and len(columns) == 1:
        values = values.reshape(n_rows, 1)
    if method == "decision_function" and values.size == n_rows and len(columns) == 2:
        values = values.reshape(n_rows, 1) * (1 if columns[0] < columns[1] else -1)
        if len(labels) == 2:
            return values
        values, columns = np.hstack([-values, values]), sorted(columns)
    if values.shape != (n_rows, len(columns)):
        raise MemberError(
            f"{what} must return a column for each of its {len(columns)} classes; its {method} returned the "
            f"shape {values.shape} for {n_rows} rows."
        )
    if not is_all_ours(model):
        _check_values(what, values, method)
    lowest = values.min() if method == "decision_function" and values.size else 0.0
    return place_columns(values, columns, len(labels), lowest)


def place_columns(values: Array, columns: list[int], n_labels: int, lowest: float) -> Array:
    """Return (n_rows, n_labels) with column k of `values` at the position `columns[k]`, and elsewhere `lowest`."""
    if columns == list(range(n_labels)):
        return values
    out = np.full((len(values), n_labels), lowest)
    out[:, columns] = values
    return out


def labels_with_columns(what: str, model: Any) -> NDArray[Any]:
    """Return the labels of a fitted classifier's response columns; raise MemberError if it has no `classes_`."""
    if not hasattr(model, "classes_"):
        raise MemberError(f"{what} must have classes_, the labels of its columns; {type(model).__name__} does not.")
    return np.asarray(model.classes_)


def number_response(
    what: str, model: Any, X: Any, n_outputs: int | None = 1, options: Options | None = None, *, method: str = "predict"
) -> Array:
    """Return a regressor's checked response, (n_rows, n_outputs); any number of outputs if `n_outputs` is None.

    `what` is the regressor's name in errors and `options` are further arguments of the method. Raises MemberError for
    an unexpected shape, and for values that are not finite numbers.
    """
    values, n_rows = numbers_of(what, getattr(model, method)(X, **(options or {}))), X.shape[0]
    if n_outputs == 1 or values.ndim < 2 or len(values) != n_rows:
        _check_rows(what, values, n_rows, "one number for each row")
    if n_outputs not in (1, None) and values.shape != (n_rows, n_outputs):
        raise MemberError(
            f"{what} must return {n_outputs} numbers for each row, one for each target; got the shape {values.shape} "
            f"for {n_rows} rows."
        )
    if not is_all_ours(model):
        _check_values(what, values, "predict")
    return values.reshape(n_rows, -1)


def _check_rows(what: str, response: NDArray[Any], n_rows: int, needed: str) -> None:
    """Raise MemberError unless the response has one value for each row; `needed` describes the expected values."""
    if response.shape not in ((n_rows,), (n_rows, 1)):
        raise MemberError(f"{what} must return {needed}; got the shape {response.shape} for {n_rows} rows.")


def numbers_of(what: str, response: Any) -> Array:
    """Return a response as a float64 array of equal shape; raise MemberError, naming `what`, if it is not numeric."""
    try:
        return np.asarray(response, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MemberError(f"{what} must return numbers: {error}.") from error


def _check_values(what: str, values: Array, method: str) -> None:
    """Raise MemberError for values that are not finite and, if `method` is predict_proba, invalid probabilities."""
    finite = np.isfinite(values)
    if not finite.all():
        raise MemberError(f"{what} must return finite numbers; got {values[~finite][0]} from its {method}.")
    if method != "predict_proba" or not values.size:
        return
    if values.min() < -_SUM_TOLERANCE:
        raise MemberError(f"{what} must return non-negative probabilities; got {values.min()}.")
    sums = values.sum(axis=1)
    worst = np.abs(sums - 1).argmax()
    if abs(sums[worst] - 1) > _SUM_TOLERANCE:
        raise MemberError(f"{what} must return probabilities that sum to 1; got {values[worst].tolist()}.")


# Labels of several members --------------------------------------------------


def joint_classes(classes: Any, index: Array, members: NamedMembers, target: int | None = None) -> tuple[Any, Array]:
    """Return the union of `classes` and the classes of fitted members, and each row's class index in the union.

    `index` holds each row's index in `classes`. With several targets, `classes` and the union are lists, and `target`
    is the index of the target whose classes are read from the members.
    """
    if isinstance(classes, list):
        of_targets = enumerate(zip(classes, index.T, strict=True))
        unions = [
            joint_classes(target_classes, column, members, target_index)
            for target_index, (target_classes, column) in of_targets
        ]
        return [joint for joint, _ in unions], np.column_stack([column for _, column in unions])
    joint = joined_labels([("y", classes), *labels_of_members(members, target)])
    return joint, np.searchsorted(joint, classes[index.astype(np.intp)]).astype(np.float64)


def labels_of_members(members: NamedMembers, target: int | None = None) -> list[tuple[str, NDArray[Any]]]:
    """Return the classes of the fitted members that have `classes_`, with the members' names for error messages.

    If the members have several targets, `target` is the index of one of them.
    """
    named = [(name, member.classes_) for name, member in members if hasattr(member, "classes_")]
    if target is not None:
        named = [(name, labels[target]) for name, labels in named if isinstance(labels, list) and len(labels) > target]
    return [(f"Member {name!r}", np.array(np.asarray(labels).tolist())) for name, labels in named]


def joined_labels(parts: list[tuple[str, NDArray[Any]]]) -> NDArray[Any]:
    """Return the sorted union of the labels of (name, labels) pairs.

    Raises ValueError, which has the names, if some labels are text and some are not.
    """
    what, first = parts[0]
    for other, labels in parts[1:]:
        first_labels, other_labels = first.tolist(), labels.tolist()
        if isinstance(other_labels[0], str) != isinstance(first_labels[0], str):
            raise ValueError(
                f"{other} must have classes of the same type as {what}, {first_labels}; got {other_labels[0]!r}."
            )
    return np.unique(np.concatenate([labels for _, labels in parts]))


Task = Callable[[], None]


def seconds_since(began: float) -> str:
    """Return the time since a reading of `time.perf_counter`, formatted for a log."""
    return f"{time.perf_counter() - began:.2f} s"


def run_tasks(sequential: list[list[Task]], parallel: list[list[Task]], n_threads: int) -> None:
    """Run tasks of the lists in `sequential`, then those in `parallel`; a failure stops the remaining tasks.

    Tasks of a list share work. The lists of `sequential` run one after another, each task with all threads. The lists
    of `parallel` run side by side with one thread each: a thread takes one list after another, and helps with the lists
    of other threads when none are left. If several tasks fail in parallel, the error of the first in order is raised.
    """
    with limited_threads(n_threads), closing(_Queue(sequential)) as queue:
        queue.work()
    n_tasks = sum(map(len, parallel))
    if not n_tasks:
        return
    with closing(_Queue(parallel)) as queue:
        if n_threads == 1 or n_tasks == 1:
            # A single task may use all threads if it is a fastens estimator; results of other libraries may depend on
            # the number of threads.
            with limited_threads(n_threads), limited_libraries(blas=1, openmp=n_threads):
                queue.work()
            return
        with limited_libraries(blas=1):
            _run_pool(queue, min(n_threads, n_tasks))


class _Queue:
    """Queue of lists of tasks that several threads process."""

    def __init__(self, lists: list[list[Task]]) -> None:
        numbers = count()
        self._fresh = deque(deque(zip(numbers, tasks, strict=False)) for tasks in lists if tasks)
        self._begun: list[deque[tuple[int, Task]]] = []
        self._lock = threading.Lock()
        self.failures: list[tuple[int, BaseException]] = []

    def work(self) -> None:
        """Run tasks in the calling thread until none are left."""
        while (begun := self._begin()) is not None:
            tasks, first = begun
            with shared_work():
                self._run_task(*first)
                while (taken := self._next(tasks)) is not None:
                    self._run_task(*taken)

    def close(self) -> None:
        """Drop the stored failures: raised errors keep their frames alive, and these frames keep the queue alive."""
        self.failures.clear()

    def stop(self) -> None:
        """Discard the tasks that have not started."""
        with self._lock:
            for tasks in (*self._fresh, *self._begun):
                tasks.clear()

    def _begin(self) -> tuple[deque[tuple[int, Task]], tuple[int, Task]] | None:
        """Return the list of tasks to work on and its first numbered task, removed; None if no tasks are left.

        It is a list that no thread has begun or, if there is none, the longest of the others.
        """
        with self._lock:
            if self._fresh:
                self._begun.append(self._fresh.popleft())
                tasks = self._begun[-1]
            else:
                tasks = max(self._begun, key=len, default=deque())
            return (tasks, tasks.popleft()) if tasks else None

    def _next(self, tasks: deque[tuple[int, Task]]) -> tuple[int, Task] | None:
        """Remove and return the next numbered task of a list, or return None if it is empty."""
        with self._lock:
            return tasks.popleft() if tasks else None

    def _run_task(self, number: int, task: Task) -> None:
        """Run a task; store an error with the task's number before raising it again."""
        try:
            task()
        except BaseException as error:
            self.failures.append((number, error))
            raise


def _run_pool(queue: _Queue, n_workers: int) -> None:
    """Run the queue's tasks in `n_workers` threads; raise the error of the first failed task in task order."""
    configuration = get_config()  # scikit-learn's configuration is thread-local

    def work() -> None:
        # OpenMP and some BLAS libraries keep the number of threads by calling thread, so this affects only the worker.
        with config_context(**configuration), limited_threads(1), limited_libraries(blas=1, openmp=1):
            try:
                queue.work()
            except BaseException:
                queue.stop()
                raise

    pool = ThreadPool(n_workers)
    try:
        futures = [pool.submit(work) for _ in range(n_workers)]
        wait(futures, return_when=FIRST_EXCEPTION)
    except BaseException:
        # After Ctrl-C, do not wait for the running fits.
        queue.stop()
        pool.shutdown(wait=False)
        raise
    pool.shutdown()
    if queue.failures:
        futures.clear()  # futures hold references to the errors
        raise min(queue.failures, key=itemgetter(0))[1]
    while futures:
        futures.pop().result()


class OneClassClassifier(BaseClassifier, SavedEstimator):
    """Classifier that predicts the only class of its training rows, which many classifiers do not accept.

    Attributes
    ----------
    classes_ : array of shape (1,)
        The only class.

    Examples
    --------
    >>> from fastens.combining.responses import OneClassClassifier
    >>> OneClassClassifier().fit([[1.0], [2.0]], ["a", "a"]).predict([[3.0]]).tolist()
    ['a']
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> OneClassClassifier:
        """Store the only class of `y`."""
        self._start_fit(X, y, sample_weight)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return 1 for each row, shape (n_samples, 1)."""
        # Any table is accepted, without a check of its columns.
        return np.ones((X.shape[0] if hasattr(X, "shape") else len(X), 1))

    def decision_function(self, X: Any) -> Array:
        """Return 0 for each row, shape (n_samples,)."""
        return np.zeros(len(self.predict_proba(X)))
