"""Shared parameters of ensembles of any estimators, and the checked predictions of their members."""

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
from fastens.params.docstrings import WEIGHT_TYPE_DOCS, entries
from fastens.params.foreign_names import hint
from fastens.params.rules import ANYTHING, FLAG, NONE, Rule, instance, one_of, whole
from fastens.table.columns.numbers import unmasked
from fastens.table.labels import encode_labels
from fastens.table.source import MemoryNeeds, TableShape, needs_without_files
from fastens.table.training_data import AUTO, FREQUENCY, IMPORTANCE
from fastens.tree_model.tree_model import DOCS as TREE_DOCS

NamedMembers = list[tuple[str, Any]]
PREFIT = "prefit"
LAST, ALL = "last", "all"


def _is_named(item: Any) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2 and isinstance(item[0], str)


MEMBERS = Rule(
    "a list of (name, estimator) pairs",
    lambda value: isinstance(value, list | tuple) and all(_is_named(item) for item in value),
)
LEVELS = Rule(
    "a list of lists of (name, estimator) pairs",
    lambda value: isinstance(value, list | tuple) and len(value) > 0 and all(MEMBERS.holds(item) for item in value),
)
# Of every ensemble, of those of named members, and of those whose members may see some of the columns.
COMMON_RULES = {
    "cv": ANYTHING,
    "random_state": whole(0, 2**32 - 1) | instance(np.random.RandomState, "a numpy.random.RandomState") | NONE,
    "n_jobs": ANYTHING,
}
NAMED_RULES = {**COMMON_RULES, "estimators": MEMBERS | NONE}
RULES = {**NAMED_RULES, "columns": instance(Mapping, "a dict of columns by the names of members") | NONE}
# Where "prefit" is no cv.
CV = (
    Rule(
        "a number of folds, a splitter or a list of (train, test)",
        lambda value: (
            (
                isinstance(value, Integral)
                or callable(getattr(value, "split", None))
                or (isinstance(value, Iterable) and not isinstance(value, bytes))
            )
            and not isinstance(value, str)
        ),
    )
    | NONE
)
VERBOSE = FLAG | whole(0)
LEVEL_RULES = {"inputs_from": one_of(LAST, ALL), "refit": FLAG}

DOCS = WEIGHT_TYPE_DOCS | entries("""\
estimators : list of (name, estimator) or None
    The members, of this package or any other with scikit-learn's interface; "drop" in place of an estimator leaves
    it out. None: gradient boosting, a random forest and extremely randomised trees.
final_estimator : estimator, "linear", "boosting" or None
    What combines the predictions. "linear": logistic regression on log-odds, or ridge regression; "boosting": gradient
    boosting. None: "linear", and "boosting" with `passthrough`.
levels : list of lists of (name, estimator) or None
    In place of `estimators`: the members of each level, trained on the out-of-fold predictions of the one before.
prior : array of shape (n_members,) or None
    Probability of each member before any data, up to a factor; None is uniform.
noise : float, pair of floats or None
    None: members predict probabilities. A number: they vote, and are wrong with this probability, each other class
    equally likely; 0 leaves only members that make no mistake. A pair (a, b): an unknown probability for each member,
    with the prior Beta(a, b).
temperature : float
    The likelihood is raised to the power of one over this: above 1 it counts for less.
prefit : bool
    The members are fitted already; `fit` learns the classes, and the weights where they are to be learned.
cv : int, splitter, list of (train, test) or None
    The folds; None: 5, stratified for classes of one target.
stack_method : {"auto", "predict_proba", "decision_function", "predict"}
    The members' method to use; "auto": the first of these that a member has.
passthrough : bool
    Later levels and the final estimator get the columns of X too (cascade).
max_layers : int
    Most layers.
n_iter_no_change : int
    Layers without improvement before stopping; the layers up to the best one are kept.
tol : float
    What counts as an improvement of the validation loss.
inputs_from : {"last", "all"}
    Whose predictions a later level gets: those of the level before, or of all levels before. With "all",
    the columns of X and one member in each level, every model gets the predictions of all models before it (cascade
    stacking).
refit : bool
    False: the models of the folds are kept, and their predictions averaged. True: each member is fitted on all rows
    besides, and that model alone predicts, as in scikit-learn: a longer `fit`, a shorter `predict`, and in our
    measurements a slightly larger loss.
columns : dict of str to columns or None
    By member: the columns it sees, as names, numbers or a mask; of the first level, where there are several.
warm_start : bool
    Members that an earlier `fit` of the same rows has finished, and whose parameters are the same, are kept.
verbose : int or bool
    Log how long each fit of a member took, to the logger "fastens".
calibration_fraction : float
    With cv=None: share of the rows, or groups, held out.
random_state : int, RandomState or None
    Seeds the members whose own random_state is None.
n_jobs : int or None
    Threads; the result does not depend on it. Small fits run side by side with a thread each, large ones of this
    package one after another with all threads.
classes_ : array of shape (n_classes,)
    The labels, sorted.
estimators_, named_estimators_ : list, Bunch
    The fitted members: a list of models for each where those of several folds are kept.
final_estimator_ : estimator
    The fitted final estimator.
oof_predictions_ : dict of str to array of shape (n_samples, n_outputs)
    Each member's predictions for the training rows, by models that have not seen them; NaN where there are none.
n_features_in_ : int
    Number of columns.
feature_names_in_ : array of shape (n_features_in_,)
    Their names, where they have some.
""")
BAGGING_DOCS = TREE_DOCS | entries("""\
n_estimators : int
    Number of members.
max_samples : int, float or None
    Number of rows drawn for a member, or share of them; None for as many as there are.
max_features : int, float, "sqrt", "log2" or None
    Number of columns drawn for a member, or share of them; None for all.
bootstrap : bool
    Draw rows with replacement, with chances in proportion to their weights.
bootstrap_features : bool
    Draw columns with replacement; one drawn twice counts once.
sampling : {"auto", "weights", "rows"}
    How a member is given its bag: "weights", each row once with the number of its draws as weight; "rows", as often as
    it was drawn, which large weights may make too often: more than ten million copies are a ValueError. "auto": weights
    where the estimator's `fit` takes some.
warm_start : bool
    `fit` adds members to those there are: given the same rows, the same model as all at once. Given other rows, or
    drawing them in another way, it needs ``oob_score=False``, and the bags are not known.
verbose : int or bool
    Log how long the fit of each member took; bags of our own trees are grown together, and log nothing.
random_state : int, RandomState or None
    Fixes the bags and seeds the members.
n_jobs : int or None
    Threads; the result does not depend on it.
oob_score_ : float
    With `oob_score`: the score of the mean out-of-bag responses.
oob_scores_ : array of shape (n_estimators,)
    With `oob_score`: the score of each member on the rows out of its bag; NaN where there are none.
""")

KNOWN_METADATA = ("sample_weight", "groups", "X_val", "y_val")


def check_metadata(
    owner: Any, metadata: Mapping[str, Any], method: str = "fit", known: Collection[str] = KNOWN_METADATA
) -> None:
    """Raise TypeError for unknown arguments of a method, unless scikit-learn's metadata routing is on."""
    unknown = [] if routing_enabled() else sorted(set(metadata).difference(known if method == "fit" else ()))
    if unknown:
        where, name = f"{type(owner).__name__}.{method}()", unknown[0]
        help_ = hint(name, known, owner.get_params(deep=False)) if method == "fit" else ""
        raise TypeError(f"{where} got an unexpected keyword argument {name!r}.{help_}")


def check_prefit(members: Iterable[tuple[str, Any]]) -> None:
    """Raise NotFittedError for the first member that is not fitted."""
    for name, member in members:
        shown = repr(name).replace("%", "%%")  # the message is a format
        check_is_fitted(member, msg=f"Member {shown} must be fitted already; this %(name)s is not fitted yet.")


def groups_of_rows(groups: Any, rows: NDArray[np.intp], n_rows: int) -> NDArray[Any] | None:
    """The groups of some of the rows; ValueError where there is not one for each row."""
    if groups is None:
        return None
    found = unmasked(groups, "groups")
    if found.shape != (n_rows,):
        raise ValueError(f"groups must have one for each of the {n_rows} rows; got shape {found.shape}.")
    return found[rows]


def metadata_of_rows(metadata: Mapping[str, Any], rows: NDArray[np.intp], n_rows: int) -> dict[str, Any]:
    """Metadata of some of the rows: what has a value for each row is cut, validation data and the like are not."""
    return {
        key: _rows_of(value, rows) if key not in ("X_val", "y_val") and _is_by_row(value, n_rows) else value
        for key, value in metadata.items()
    }


def _is_by_row(value: Any, n_rows: int) -> bool:
    if hasattr(value, "shape"):
        return bool(value.shape[:1] == (n_rows,))
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping) and len(value) == n_rows


def _rows_of(value: Any, rows: NDArray[np.intp]) -> Any:
    return value.tocsr()[rows] if issparse(value) else np.asarray(value)[rows]


def own_request(owner: Any, *, reads_validation_rows: bool = False) -> MetadataRequest:
    """What an ensemble itself requests: what was asked for by `set_score_request`, and rows to validate on."""
    request = MetadataRequest(owner=owner)
    for name, alias in owner._get_metadata_request().score.requests.items():
        if alias is not None:
            request.score.add_request(param=name, alias=alias)
    for name in ("X_val", "y_val") if reads_validation_rows else ():
        request.fit.add_request(param=name, alias=True)
    return request


def routing_enabled() -> bool:
    """Whether scikit-learn's metadata routing is on."""
    return bool(get_config().get("enable_metadata_routing", False))


def tags_of(member: Any) -> Any:
    """scikit-learn's tags of an estimator; None for what has none: a class, text, an object of a class of its own."""
    if not hasattr(member, "fit"):
        return None
    try:
        return get_tags(member)
    except (AttributeError, TypeError):
        return None


def layers_of(member: Any) -> Iterator[Any]:
    """A member, and in turn what is last in it if it is a pipeline, or what a wrapper such as a search holds."""
    while hasattr(member, "fit"):
        yield member
        member = member.steps[-1][1] if isinstance(member, Pipeline) else getattr(member, "estimator", None)


def check_kind(what: str, member: Any, wants_classifier: bool) -> None:
    """Raise ValueError where a member is no classifier, or no regressor."""
    kind = "classifier" if wants_classifier else "regressor"
    tags = tags_of(member)
    # What predicts, and says nothing of its kind, is what it is used as; but not our rankers and survival models.
    is_either = tags is not None and tags.estimator_type is None and hasattr(member, "predict")
    own = (each for each in layers_of(member) if isinstance(each, BaseFastens)) if is_either else ()
    is_either &= all(get_tags(each).estimator_type is not None for each in own)
    if is_either or (tags is not None and tags.estimator_type == kind):
        return
    needs_tags = tags is None and hasattr(member, "fit")
    advice = f", an instance of a class with scikit-learn's {kind.title()}Mixin and BaseEstimator"
    raise ValueError(f"{what} must be a {kind}{advice if needs_tags else ''}; got {member!r}.")


def seeded(member: Any, seeds: np.random.RandomState | None) -> Any:
    """The member with a seed for each random_state that is None, if there are seeds."""
    if seeds is None or not hasattr(member, "get_params"):
        return member
    drawn = drawn_seeds(member, seeds, lambda value: value is None)
    return clone(member).set_params(**drawn) if drawn else member


def names_of_weight_types(member: Any) -> dict[str, str]:
    """The values of each `weight_type` of a member and of estimators in it, by its name."""
    given = member.get_params(deep=True) if hasattr(member, "get_params") else {}
    return {name: value for name, value in given.items() if name.split("__")[-1] == "weight_type"}


def with_weight_type(member: Any, weight: NDArray[np.float64]) -> Any:
    """The member, which counts the weights that it is given as the ensemble does, unless it was set not to."""
    names = [name for name, value in names_of_weight_types(member).items() if value == AUTO]
    decided = FREQUENCY if are_copies(weight) else IMPORTANCE
    return member.set_params(**dict.fromkeys(names, decided)) if names else member


def drawn_seeds(
    member: Any, seeds: np.random.RandomState, is_drawn: Callable[[Any], bool] = lambda value: True
) -> dict[str, int]:
    """A seed for each random_state of a member and of estimators in it, whose value is to be drawn, by its name."""
    given = member.get_params(deep=True)
    names = [name for name in sorted(given) if name.split("__")[-1] == "random_state" and is_drawn(given[name])]
    return {name: int(seeds.randint(np.iinfo(np.int32).max)) for name in names}


Array = NDArray[np.float64]
Options = Mapping[str, Any]

WEIGHT = "sample_weight"
METHODS = ("predict_proba", "decision_function", "predict")
# What scikit-learn and LightGBM, and CatBoost, call the weights of classes.
_CLASS_WEIGHTS = ("class_weight", "class_weights")
# Where searches of scikit-learn have the values that they try.
_SEARCHED = ("param_grid", "param_distributions")
# Probabilities may be float16, or have been rounded one by one.
_SUM_TOLERANCE = 1e-2
# Sums of weights that differ by less, relatively, are equal but for rounding.
_ROUNDING = 1e-9


class MemberError(ValueError):
    """A member of an ensemble could not be fitted, or its response is malformed."""


def resolve_method(name: str, member: Any, wanted: str, is_classification: bool, remedy: str = "") -> str:
    """The method whose responses are used; an error ends with the remedy."""
    if not is_classification:
        return "predict"
    # A stack of scikit-learn with its default final estimator, by itself or in a pipeline, has them once it is fitted.
    found: Any = member if hasattr(member, "predict") else type(member)
    for method in METHODS if wanted == "auto" else (wanted,):
        if hasattr(found, method):
            return method
    raise ValueError(f"Member {name!r} must have the method {wanted}; {type(member).__name__} does not.{remedy}")


def is_all_ours(member: Any, methods: Sequence[str] = ("fit", *METHODS)) -> bool:
    """Whether a member is of ours, and of no derived class with methods of its own, of which nothing is known."""
    found = (getattr(type(member), name, None) for name in methods)
    return isinstance(member, BaseFastens) and all(
        method is None or str(getattr(method, "__module__", "")).startswith("fastens.") for method in found
    )


def knows_labels(member: Any) -> bool:
    """Whether a classifier knows the labels: ours, what was fitted before, and what has parameters that name labels.

    Others learn the places of classes.
    """
    return isinstance(member, BaseFastens) or _is_frozen(member) or _names_labels(member)


def _names_labels(member: Any) -> bool:
    """Whether a parameter of a classifier, of what it wraps or of what a search tries, is by label."""
    given = member.get_params() if hasattr(member, "get_params") else {}
    return any(_is_by_label(name.rpartition("__")[2], value) for name, value in given.items())


def _is_by_label(name: str, value: Any) -> bool:
    """Whether a parameter has labels: the positive one, of scorers too, or dicts of weights, one or for each target."""
    if name == "pos_label":
        return value is not None
    if name == "scoring":
        scorers = value.values() if isinstance(value, Mapping) else [value]
        return any(getattr(scorer, "_kwargs", {}).get("pos_label") is not None for scorer in scorers)
    several = value if isinstance(value, list | tuple) else [value]
    dicts = [each for each in several if isinstance(each, Mapping)]
    if name in _SEARCHED:
        tried = [(own.rpartition("__")[2], values) for grid in dicts for own, values in grid.items()]
        return any(_is_by_label(own, each) for own, found in tried if isinstance(found, list | tuple) for each in found)
    return name in _CLASS_WEIGHTS and len(dicts) > 0


def _is_frozen(member: Any) -> bool:
    """Whether a model was fitted before, or what is last in a pipeline, or what a wrapper such as calibration holds."""
    return any(isinstance(each, FrozenEstimator) for each in layers_of(member))


def weight_name(member: Any) -> str | None:
    """What `fit` of a member calls the weights of rows, for itself or for what it wraps; None where it takes none."""
    if has_fit_parameter(member, WEIGHT) or isinstance(member, FrozenEstimator):
        return WEIGHT
    if isinstance(member, Pipeline):
        step, last = member.steps[-1]
        found = weight_name(last)
        return None if found is None else f"{step}__{found}"
    if not _passes_on(member):
        return None
    if isinstance(getattr(member, "estimators", None), list | tuple):  # votes and stacks of scikit-learn
        return WEIGHT
    wrapped = getattr(member, "estimator", getattr(member, "regressor", None))
    return None if wrapped is None else weight_name(wrapped)


def _passes_on(member: Any) -> bool:
    """Whether `fit` takes arguments by any name, as searches and other wrappers of scikit-learn do."""
    return any(each.kind is Parameter.VAR_KEYWORD for each in signature(member.fit).parameters.values())


def added(parts: Iterable[Array]) -> Array:
    """The sum of what members say, one after another: NumPy's sums depend on how many rows there are."""
    return reduce(np.add, parts)


def with_ties(votes: Array) -> Array:
    """Votes of the classes; those as many as the most, up to rounding, are so exactly, and the first class wins."""
    most = votes.max(axis=1, keepdims=True)
    return np.where(votes >= most * (1 - _ROUNDING), most, votes)


def check_labels_known(what: str, found: NDArray[Any], labels: NDArray[Any]) -> None:
    """Raise MemberError for the first label that is not in `labels`."""
    known = set(labels.tolist())
    for label in found.tolist():
        if label not in known:
            places = np.array_equal(labels, np.arange(len(labels)))
            hint = ", the places of the classes in classes_, which it is fitted to" if places else ""
            raise MemberError(f"{what} must predict labels among {labels.tolist()}{hint}; got {label!r}.")


def label_places(what: str, response: Any, labels: NDArray[Any], n_rows: int) -> NDArray[np.intp]:
    """The index in `labels` of each predicted label."""
    found = np.asarray(response)
    _check_rows(what, found, n_rows, "one label for each row")
    found = found.reshape(n_rows)
    same = found[:, None] == labels
    if not same.any(axis=1).all():
        check_labels_known(what, found, labels)
    return same.argmax(axis=1)


def places_of_classes(what: str, known: NDArray[Any], labels: NDArray[Any]) -> list[int]:
    """The places in `labels` of the classes that a classifier has columns for."""
    check_labels_known(what, known, labels)
    place = {label: position for position, label in enumerate(labels.tolist())}
    return [place[label] for label in known.tolist()]


def class_response(
    what: str, model: Any, X: Any, method: str, labels: NDArray[Any], options: Options | None = None
) -> Array:
    """A classifier's response for each class in `labels`; classes it has not seen get the lowest value.

    `what` is the classifier's name in errors, `options` are further arguments of the method. The shape is (n_rows,
    n_classes), or (n_rows, 1) for a decision between two classes. MemberError for an unknown label, a response of
    another shape, or values that are no probabilities.
    """
    response, n_rows = getattr(model, method)(X, **(options or {})), X.shape[0]
    if method == "predict":
        return (label_places(what, response, labels, n_rows)[:, None] == np.arange(len(labels))).astype(np.float64)
    columns = places_of_classes(what, known_labels(what, model), labels)
    found = numbers_of(what, response)
    if method == "decision_function" and found.size == n_rows and len(columns) == 1:
        found = found.reshape(n_rows, 1)
    if method == "decision_function" and found.size == n_rows and len(columns) == 2:
        found = found.reshape(n_rows, 1) * (1 if columns[0] < columns[1] else -1)
        if len(labels) == 2:
            return found
        found, columns = np.hstack([-found, found]), sorted(columns)
    if found.shape != (n_rows, len(columns)):
        raise MemberError(
            f"{what} must give a column for each of its {len(columns)} classes; its {method} has the shape "
            f"{found.shape} for {n_rows} rows."
        )
    if not is_all_ours(model):
        _check_values(what, found, method)
    lowest = found.min() if method == "decision_function" and found.size else 0.0
    return in_order(found, columns, len(labels), lowest)


def in_order(found: Array, columns: list[int], n_labels: int, lowest: float) -> Array:
    """Columns at their places among those of all classes; `lowest` in the others."""
    if columns == list(range(n_labels)):
        return found
    out = np.full((len(found), n_labels), lowest)
    out[:, columns] = found
    return out


def known_labels(what: str, model: Any) -> NDArray[Any]:
    """The labels that a fitted classifier has columns for."""
    if not hasattr(model, "classes_"):
        raise MemberError(f"{what} must have classes_, the labels of its columns; {type(model).__name__} has none.")
    return np.asarray(model.classes_)


def number_response(what: str, model: Any, X: Any, several: bool = False, options: Options | None = None) -> Array:
    """A regressor's predictions, (n_rows, 1), or with `several` a column for each output."""
    found, n_rows = numbers_of(what, model.predict(X, **(options or {}))), X.shape[0]
    if not (several and found.ndim == 2 and len(found) == n_rows):
        _check_rows(what, found, n_rows, "one number for each row")
    if not is_all_ours(model):
        _check_values(what, found, "predict")
    return found.reshape(n_rows, -1)


def _check_rows(what: str, found: NDArray[Any], n_rows: int, needed: str) -> None:
    if found.shape not in ((n_rows,), (n_rows, 1)):
        raise MemberError(f"{what} must give {needed}; got the shape {found.shape} for {n_rows} rows.")


def numbers_of(what: str, response: Any) -> Array:
    """A response as numbers; MemberError for anything else."""
    try:
        return np.asarray(response, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MemberError(f"{what} must give numbers: {error}") from error


def _check_values(what: str, found: Array, method: str) -> None:
    """Raise MemberError for numbers that are not finite, and for probabilities that are none."""
    finite = np.isfinite(found)
    if not finite.all():
        raise MemberError(f"{what} must give finite numbers; got {found[~finite][0]} from its {method}.")
    if method != "predict_proba" or not found.size:
        return
    if found.min() < -_SUM_TOLERANCE:
        raise MemberError(f"{what} must give probabilities of at least 0; got {found.min()}.")
    sums = found.sum(axis=1)
    worst = np.abs(sums - 1).argmax()
    if abs(sums[worst] - 1) > _SUM_TOLERANCE:
        raise MemberError(f"{what} must give probabilities that sum to 1; got {found[worst].tolist()}.")


# Labels of several members --------------------------------------------------


def joint_classes(classes: NDArray[Any], index: Array, members: NamedMembers) -> tuple[NDArray[Any], Array]:
    """The union of these classes and those of fitted members, and each row's index in it."""
    joint = joined_labels([("y", classes), *labels_of_members(members)])
    return joint, np.searchsorted(joint, classes[index.astype(np.intp)]).astype(np.float64)


def labels_of_members(members: NamedMembers) -> list[tuple[str, NDArray[Any]]]:
    """The classes of the fitted members that have `classes_`, each with the member's name for an error."""
    known = [(name, member.classes_) for name, member in members if hasattr(member, "classes_")]
    return [(f"Member {name!r}", np.array(np.asarray(labels).tolist())) for name, labels in known]


def joined_labels(parts: list[tuple[str, NDArray[Any]]]) -> NDArray[Any]:
    """All labels, sorted; ValueError where some are text and some are not."""
    what, first = parts[0]
    for other, labels in parts[1:]:
        known, found = first.tolist(), labels.tolist()
        if isinstance(found[0], str) != isinstance(known[0], str):
            raise ValueError(f"{other} must know classes of the type of those of {what}, {known}; got {found[0]!r}.")
    return np.unique(np.concatenate([labels for _, labels in parts]))


Task = Callable[[], None]


def seconds_since(began: float) -> str:
    """How long ago a reading of `time.perf_counter` was, for a log."""
    return f"{time.perf_counter() - began:.2f} s"


def run_tasks(alone: list[list[Task]], side_by_side: list[list[Task]], n_threads: int) -> None:
    """Run tasks; one that fails stops the rest. Of several that fail side by side, the first in order is raised.

    Tasks of a list share work. The lists of `alone` run one after another, each task with all threads. Those of
    `side_by_side` run in as many threads at once, each with one thread of its own: a thread takes one list after
    another, and when all are taken helps with those of another thread.
    """
    with limited_threads(n_threads), closing(_Queue(alone)) as queue:
        queue.work()
    n_tasks = sum(map(len, side_by_side))
    if not n_tasks:
        return
    with closing(_Queue(side_by_side)) as queue:
        if n_threads == 1 or n_tasks == 1:
            # A single task may use all threads, if it is one of ours; other libraries' results may depend on their
            # number.
            with limited_threads(n_threads), limited_libraries(blas=1, openmp=n_threads):
                queue.work()
            return
        with limited_libraries(blas=1):
            _run_pool(queue, min(n_threads, n_tasks))


class _Queue:
    """Lists of tasks; several threads may work on them."""

    def __init__(self, lists: list[list[Task]]) -> None:
        numbers = count()
        self._fresh = deque(deque(zip(numbers, tasks, strict=False)) for tasks in lists if tasks)
        self._begun: list[deque[tuple[int, Task]]] = []
        self._lock = threading.Lock()
        self.failures: list[tuple[int, BaseException]] = []

    def work(self) -> None:
        """Run tasks until there are no more."""
        while (begun := self._begin()) is not None:
            tasks, first = begun
            with shared_work():
                self._run(*first)
                while (taken := self._next(tasks)) is not None:
                    self._run(*taken)

    def close(self) -> None:
        """Forget the failures: an error that is raised holds the frames it came through, and these hold the queue."""
        self.failures.clear()

    def stop(self) -> None:
        """No more tasks are begun."""
        with self._lock:
            for tasks in (*self._fresh, *self._begun):
                tasks.clear()

    def _begin(self) -> tuple[deque[tuple[int, Task]], tuple[int, Task]] | None:
        """A list of tasks and the first of them."""
        with self._lock:
            if self._fresh:
                self._begun.append(self._fresh.popleft())
                tasks = self._begun[-1]
            else:
                tasks = max(self._begun, key=len, default=deque())
            return (tasks, tasks.popleft()) if tasks else None

    def _next(self, tasks: deque[tuple[int, Task]]) -> tuple[int, Task] | None:
        with self._lock:
            return tasks.popleft() if tasks else None

    def _run(self, number: int, task: Task) -> None:
        try:
            task()
        except BaseException as error:
            self.failures.append((number, error))
            raise


def _run_pool(queue: _Queue, n_workers: int) -> None:
    configuration = get_config()  # of scikit-learn, which each thread has its own of

    def work() -> None:
        # OpenMP and some BLAS count threads by the thread that starts them: this holds for the worker alone.
        with config_context(**configuration), limited_threads(1), limited_libraries(blas=1, openmp=1):
            try:
                queue.work()
            except BaseException:
                queue.stop()
                raise

    pool = ThreadPool(n_workers, "fastens")
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
        futures.clear()  # they hold the errors too
        raise min(queue.failures, key=itemgetter(0))[1]
    while futures:
        futures.pop().result()


class OneClassClassifier(BaseClassifier, SavedEstimator):
    """Predicts the only class of its training rows, which many classifiers do not accept.

    Attributes
    ----------
    classes_ : array of shape (1,)
        The class.

    Examples
    --------
    >>> from fastens.combining.responses import OneClassClassifier
    >>> OneClassClassifier().fit([[1.0], [2.0]], ["a", "a"]).predict([[3.0]]).tolist()
    ['a']
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> OneClassClassifier:
        """Learn the class."""
        self._start_fit(X, y, sample_weight)
        return self

    def _learn_target(self, y: NDArray[Any]) -> Array:
        self.classes_, index = encode_labels(y)
        return index

    def _memory_needs(self, shape: TableShape) -> MemoryNeeds:
        return needs_without_files(shape, self, 0, 0)

    def predict_proba(self, X: Any) -> Array:
        """Return 1 for each row, shape (n_samples, 1)."""
        # Of any table, without a check of its columns.
        return np.ones((X.shape[0] if hasattr(X, "shape") else len(X), 1))

    def decision_function(self, X: Any) -> Array:
        """Return 0 for each row, shape (n_samples,)."""
        return np.zeros(len(self.predict_proba(X)))
