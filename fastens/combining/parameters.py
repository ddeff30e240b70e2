"""What ensembles of any estimators share: their parameters, and what `fit` is given besides rows and targets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted

from fastens.base import BaseFastens
from fastens.docstrings import WEIGHT_TYPE_DOCS, entries
from fastens.engine.whole import are_copies
from fastens.foreign_names import hint
from fastens.parameters import ANYTHING, FLAG, NONE, Rule, instance, one_of, whole
from fastens.table.columns.vectors import unmasked
from fastens.table.sample_weights import AUTO, FREQUENCY, IMPORTANCE
from fastens.tree_model.docs import DOCS as TREE_DOCS

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
