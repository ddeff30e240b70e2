"""Bagging: copies of one estimator fitted on bootstrap samples, with averaged predictions (Breiman 1996)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import field, replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from fastens.base import BaseClassifier, BaseRegressor, Capabilities
from fastens.combining.folds import (
    ExplainedRows,
    FittedMember,
    GivenRows,
    MemberData,
    MemberSpec,
    Part,
    fit_member,
    members_from_arrays,
    members_to_arrays,
)
from fastens.combining.members import BaseOneEstimator
from fastens.combining.responses import (
    VERBOSE,
    OneClassClassifier,
    check_metadata,
    ensemble_request,
    is_all_ours,
    is_fitted_on_labels,
    resolve_method,
    run_tasks,
    seconds_since,
    with_seed,
)
from fastens.engine.grow.growth import count_of
from fastens.engine.rows.sampling import Bootstrap, Subsample, content_hashes, repeated, stream_seeds
from fastens.engine.threads import resolve_n_jobs
from fastens.forests.bags import (
    GROWING,
    NOT_ALIKE,
    Bags,
    Strata,
    check_continued,
    check_no_bags_needed,
    check_seed,
    draw_seed,
    draws_match,
    n_drawn,
    plan_draws,
    rows_in_bags,
)
from fastens.forests.out_of_bag import IN_ALL_BAGS, NEVER_OUT, deviations
from fastens.forests.parameters import NUMBER_OF_FEATURES, STRATIFIED, check_same_drawing
from fastens.forests.random_forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.modelfile.saving import Arrays, Saved, SavedParts, attributes
from fastens.monitoring.callbacks import announce
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, ESTIMATOR, FLAG, FUNCTION, NONE, RANDOM_STATE, one_of, parameter, real, whole
from fastens.params.types import Drawing, RandomState
from fastens.table.opening import as_given
from fastens.table.parts import as_numbers, take_columns
from fastens.table.training_data import WEIGHT_TYPE, warn_of_duplicates
from fastens.tree_model.saving import SavedEnsemble
from fastens.warn import warn

Array = NDArray[np.float64]

# The forest that grows bags of each kind of tree, the parameters passed to it, and the fitted attributes it returns.
FORESTS: dict[tuple[type, str], Callable[[], Any]] = {
    (DecisionTreeClassifier, "best"): RandomForestClassifier,
    (DecisionTreeClassifier, "random"): ExtraTreesClassifier,
    (DecisionTreeRegressor, "best"): RandomForestRegressor,
    (DecisionTreeRegressor, "random"): ExtraTreesRegressor,
}
OF_BAGS = (
    *("n_estimators", "bootstrap", "max_samples", "oob_score", "weight_type"),
    *("warm_start", "voting", "random_state", "n_jobs"),
)
# Methods that route metadata to the members.
CALLERS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
OUT_OF_BAG = ("oob_score_", "oob_scores_", "_oob_mean")
LEARNED = "n_features_in_", "feature_names_in_", "classes_", "_encoder", "_n_plain_features", "_n_targets", *OUT_OF_BAG
_MEMBERS = "members."
# Name of the only member if fastens trees are grown together; members that are fitted one by one are numbered.
_FOREST = "forest"
# Number of bins of the default trees, as in forests.
MAX_BINS = 255


def _members_are_trees(model: Any) -> bool:
    """Return True if the fitted members are fastens trees."""
    return isinstance(model._as_fitted()._template(), DecisionTreeClassifier | DecisionTreeRegressor)


@with_parameters
class BaseBagging(BaseOneEstimator):
    """Base class of ensembles of copies of one estimator, each fitted on a bag of rows and columns.

    Parameters
    ----------
    n_estimators : int
        Number of members.
    max_samples : int, float or None
        Number or fraction of rows drawn for each member. If None, it is the number of rows of X.
    max_features : int, float, "sqrt", "log2" or None
        Number or fraction of columns drawn for each member. If None, or a number above the number of columns, all
        columns are used.
    bootstrap : bool
        If True, draw rows with replacement, with probabilities proportional to their weights.
    bootstrap_features : bool
        If True, draw columns with replacement; a column drawn twice counts once.
    sampling : {"auto", "weights", "rows"}
        How a member receives its bag. "weights" passes each row once, with the number of its draws as weight. "rows"
        passes each row as often as it was drawn; more than ten million copies, which large weights may cause, raise
        ValueError. "auto" uses weights if the estimator's `fit` accepts them.
    warm_start : bool
        If True, `fit` adds members to the existing ones; with the same rows, the result equals fitting all members at
        once. If the rows or the sampling have changed, ``oob_score=False`` is required and the bags are unavailable.
    verbose : int or bool
        If True or above 0, the duration of each member's fit is logged. fastens decision trees are grown together, so
        nothing is logged for them.
    random_state : int, RandomState or None
        Determines the bags and seeds the members.
    n_jobs : int or None
        Number of threads; the result does not depend on it.

    Attributes
    ----------
    oob_score_ : float
        Score of the mean out-of-bag responses, if `oob_score` is set.
    oob_scores_ : array of shape (n_estimators,)
        Score of each member on the rows outside its bag, if `oob_score` is set; NaN if there are none.
    """

    estimator: BaseEstimator | None = parameter(ESTIMATOR | NONE, default=None, kw_only=False)
    n_estimators: int = parameter(whole(1), default=10, kw_only=False)
    max_samples: int | float | None = parameter(whole(1) | real(0, open_low=True) | NONE, default=None)
    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=None)
    bootstrap: Drawing = parameter(FLAG, default=True)
    bootstrap_features: bool = parameter(FLAG, default=False)
    sampling: str = parameter(one_of("auto", "weights", "rows"), default="auto")
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    oob_score: bool | Callable[..., float] = parameter(FLAG | FUNCTION, default=False)
    warm_start: bool = parameter(FLAG, default=False)
    verbose: int | bool = parameter(VERBOSE, default=False)
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = SavedEnsemble._docs | described(__doc__)
    _is_weighted_sum = True
    oob_score_: float = field(init=False)
    oob_scores_: Array = field(init=False)
    _members: list[FittedMember] = field(init=False)
    _bags: Bags | None = field(init=False, default=None)
    # True if all bags are drawn from the same rows in the same way, including after a warm start.
    _drawn_alike: bool = field(init=False, default=True)
    # Number of columns drawn for each tree of the forest, which a warm start may change.
    _n_columns_of_trees: Any = field(init=False, default=())

    @property
    def _forest(self) -> Any:
        """The fitted forest that grew all bags together; None if the members were fitted one by one."""
        members = getattr(self, "_members", [])
        return members[0].models[0] if members and members[0].name == _FOREST else None

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **metadata: Any) -> BaseBagging:
        """Fit a copy of the estimator on each bag.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NumPy array, pandas, polars or Arrow table, SciPy sparse matrix, or any table that the estimator accepts.
        {y}
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows. With `bootstrap`, rows are drawn with probabilities proportional to their weights, so a
            weight of 2 is equivalent to a duplicated row.
        **metadata
            Passed to the members if scikit-learn's metadata routing is enabled.

        Returns
        -------
        self
        """
        self._check_parameters()
        if self.oob_score and not self.bootstrap:
            raise ValueError("oob_score must be False without bootstrap, because every bag has all rows; got True.")
        kept = self._members if self.warm_start and self.__sklearn_is_fitted__() else []
        before = self._bags if kept else None
        if kept:
            self._check_same_kind()
        if (forest := self._forest_for_trees()) is not None:
            check_metadata(self, metadata, accepted=("sample_weight",))
            return self._fit_forest(forest, X, y, sample_weight)
        if kept:
            check_continued(self.n_estimators, len(kept), "members")
            X = self._check_table(X)
        data, given_rows = self._start_members(X, y, {"sample_weight": sample_weight, **metadata})
        self._rows = given_rows.rows
        if not kept:
            self._seed = draw_seed(self.random_state)
        draws, n_features = self._plan(data), self.n_features_in_
        n_wanted = count_of(self.max_features, n_features)
        self._drawn_alike = not kept or (self._drawn_alike and (before is None or draws_match(before.draws, draws)))
        if not self._drawn_alike:
            check_no_bags_needed(self)
        self._bags = Bags(self._seed, draws, n_features, n_wanted, with_replacement=self.bootstrap_features)
        self._members = kept + self._fit_members(data, self._bags, len(kept))
        for name in (*OUT_OF_BAG, "_n_columns_of_trees"):
            self.__dict__.pop(name, None)
        if self.oob_score:
            numbers = as_numbers(data.X)
            warn_of_duplicates(content_hashes(numbers, data.y), numbers, data.y)
            mean, self.oob_scores_ = self._out_of_bag_means(data)
            if not (has_prediction := ~np.isnan(mean[:, 0])).all():
                warn(IN_ALL_BAGS if has_prediction.any() else NEVER_OUT)
            left_out = data.take(np.flatnonzero(has_prediction))
            self.oob_score_ = self._oob_score(mean[has_prediction], left_out) if has_prediction.any() else np.nan
            self._oob_mean = given_rows.scatter(mean)
        return self

    @property
    def _capabilities(self) -> Capabilities:  # type: ignore[override]
        """Return what fits support: distributed and out-of-core fits only if a forest can grow the bags."""
        try:
            is_forest = self._forest_class() is not None
        except ValueError:  # an invalid parameter: `fit` reports it, but `dir` must not raise
            is_forest = True
        return Capabilities(supports_distributed_fit=is_forest, supports_out_of_core=is_forest)

    def _memory_model(self) -> Any:
        """Return the model whose memory use is estimated: the forest that grows the bags, or else this bagging."""
        forest = self._forest_for_trees()
        return self if forest is None else forest

    def _forest_class(self) -> Callable[[], Any] | None:
        """Return the class of forest that can grow bags with these parameters; None for members fitted one by one."""
        self._check_parameters()
        if self.bootstrap_features or self.sampling == "rows" or (self.max_samples is not None and not self.bootstrap):
            return None
        template = self._template()
        return FORESTS.get((type(template), getattr(template, "splitter", "")))

    def _check_same_kind(self) -> None:
        """Raise ValueError if tree class, response method or sampling differ from members that a warm start keeps."""
        forest = self._forest
        if self._forest_class() is not (None if forest is None else type(forest)):
            raise ValueError(
                "estimator must be of the same kind as in the last fit with warm_start=True (a tree of fastens with "
                "the same splitter, or another model), and bootstrap, bootstrap_features, max_samples and sampling "
                "must not change how the trees are grown. Use warm_start=False to fit from scratch."
            )
        if forest is None and (method := self._members[0].method) != self._response_method:
            raise ValueError(
                f"estimator and voting must be such that members use {method}, as in the last fit with warm_start=True."
            )
        if forest is None and self._bags is not None:
            check_same_drawing(self.bootstrap, self._bags.draws if isinstance(self._bags.draws, Bootstrap) else None)

    def _forest_for_trees(self) -> Any:
        """Return the forest that grows these bags, reused in a warm start; None if members are fitted separately."""
        make, template = self._forest_class(), self._template()
        if make is None:
            return None
        forest = copy(self._forest) if self.warm_start and self._forest is not None else make()
        forest_params = forest.get_params(deep=False)
        tree_params = {name: value for name, value in template.get_params(deep=False).items() if name in forest_params}
        bag_params = {name: getattr(self, name) for name in OF_BAGS if name in forest_params and hasattr(self, name)}
        return forest.set_params(
            **{"averaging": None, **tree_params, **bag_params, "max_features_per_tree": self.max_features}
        )

    def _fit_forest(self, forest: Any, X: Any, y: Any, sample_weight: Any) -> BaseBagging:
        """Fit the forest of all bags, and set this estimator's fitted attributes from it."""
        self._check_target_given(y)
        # The table is opened here so that errors name the bagging estimator instead of the forest.
        X = as_given(X, type(self).__name__, self._comm.size == 1)
        with forest._using_comm(self._comm):
            forest.fit(X, self._read_target(y), sample_weight)
        learned, kept = vars(forest), self._n_columns_of_trees if self.warm_start else ()
        n_columns = [forest._bags().features_per_tree] * (self.n_estimators - len(kept))
        self._n_columns_of_trees = np.array([*kept, *n_columns], dtype=np.int64)
        for name in (*LEARNED, "_bags", "_rows", "_drawn_alike"):
            self.__dict__.pop(name, None)
        self.__dict__.update({name: learned[name] for name in LEARNED if name in learned})
        method = "predict_proba" if is_classifier(self) else "predict"
        spec = MemberSpec(_FOREST, self._template(), None, method, n_outputs=None)
        self._members = [spec.fitted([forest], learned.get("classes_"), uses_labels=True)]
        if (measured := forest._out_of_bag) is not None:
            self.oob_score_, self.oob_scores_ = measured.score, measured.tree_scores
            self._oob_mean = _as_columns(forest._targets.parts(measured.mean)[0])
        return self

    def _plan(self, data: MemberData) -> Bootstrap | Subsample | None:
        """Return how bags are drawn, None if all have all rows; raise ValueError if `max_samples` is too large."""
        weight, wanted = data.sample_weight, self.max_samples
        if not self.bootstrap and (wanted is None or (not isinstance(wanted, int | np.integer) and wanted >= 1)):
            return None
        hashes = content_hashes(as_numbers(data.X), data.y)
        if self.bootstrap:
            strata = None if data.classes is None else Strata.of(self.bootstrap, data.y, data.classes)
            return plan_draws(wanted, hashes, weight, strata=strata)
        copies = Subsample.plan(hashes, weight)
        if (n_wanted := n_drawn(wanted, copies.total)) > copies.total:
            raise ValueError(f"max_samples must be at most the {copies.total} rows without bootstrap; got {wanted}.")
        return replace(copies, n_drawn=n_wanted)

    def _fit_members(self, data: MemberData, bags: Bags, first: int) -> list[FittedMember]:
        """Return the new members `first` .. n_estimators - 1, each fitted on its bag; the fits run in parallel."""
        spec = self._member_spec(data)
        data = data.with_fixed_dtypes() if is_all_ours(spec.estimator) else data
        fitted_members: dict[int, FittedMember] = {}

        def job(number: int) -> None:
            fitted_members[number] = self._fit_one(spec, data, bags, number)

        numbers = range(first, self.n_estimators)
        run_tasks([], [[partial(job, number)] for number in numbers], resolve_n_jobs(self.n_jobs))
        return [fitted_members[number] for number in numbers]

    def _member_spec(self, data: MemberData) -> MemberSpec:
        """Return the specification that all members share: the estimator and the method of its responses."""
        template = self._template()
        method = resolve_method("estimator", template, self._response_method, data.classes is not None)
        return MemberSpec("estimator", template, None, method, n_outputs=self._n_targets)

    def _fit_one(self, spec: MemberSpec, data: MemberData, bags: Bags, number: int) -> FittedMember:
        """Return member `number`, fitted on its bag."""
        columns = None if (drawn := bags.features(number)) is None else drawn.tolist()
        bag = _with_routed_weight(self._bag(spec, data, bags, number), spec)
        model = with_seed(spec.estimator, int(stream_seeds(self._seed, number, number + 1, GROWING)[0] % 2**31))
        if bag.classes is not None and len(np.unique(bag.y)) == 1:
            model, bag = OneClassClassifier(), replace(bag, routed=None)
        spec = replace(spec, estimator=model, columns=columns)
        began = time.perf_counter()
        fitted = fit_member(spec, bag, take_columns(bag.X, columns))
        if self.verbose:
            announce(f"[{type(self).__name__}] member {number + 1} of {self.n_estimators}: {seconds_since(began)}")
        return replace(spec, name=str(number)).fitted([fitted], data.classes, is_fitted_on_labels(fitted))

    def _bag(self, spec: MemberSpec, data: MemberData, bags: Bags, number: int) -> MemberData:
        """Return bag `number` of `data`: each drawn row once with its count as weight, or as copies, by `sampling`."""
        if bags.draws is None:
            return data
        counts = bags.counts(number, number + 1)[0].astype(np.int64)
        as_weights = self.sampling == "weights" or (
            self.sampling == "auto" and has_fit_parameter(spec.estimator, "sample_weight")
        )
        rows = np.flatnonzero(counts)
        if not as_weights:
            rows = repeated(
                rows, counts[rows], f"{type(spec.estimator).__name__} does not support weights, so rows are copied"
            )
        bag = data.take(rows)
        if isinstance(bags.draws, Subsample) and not bags.draws.are_weights:
            return bag  # drawn with equal probabilities, so weights are unchanged
        weight = counts[rows].astype(np.float64) if as_weights else None
        return replace(bag, sample_weight=weight, weight_unit=None)

    def _route(self, metadata: dict[str, Any], rows: GivenRows) -> dict[str, dict[str, Any]] | None:
        """Return each member's metadata for `fit`, without sample weights; None if routing is disabled."""
        # Weights determine the bags; members receive the weights of their bag.
        return super()._route({name: value for name, value in metadata.items() if name != "sample_weight"}, rows)

    # Out of bag --------------------------------------------------

    def _out_of_bag_means(self, data: MemberData) -> tuple[Array, Array]:
        """Return mean out-of-bag responses, (n_rows, n_outputs), and each member's score; NaN without such rows."""
        scores = np.full(len(self._members), np.nan)
        total, n_members = None, np.zeros((data.n_rows, 1))
        for number, member in enumerate(self._members):
            rows = np.flatnonzero(self.in_bag(number) == 0)
            if len(rows) == 0:
                continue
            left_out = data.take(rows)
            response = member.respond(left_out.X)
            scores[number] = self._oob_score(response, left_out)
            total = np.zeros((data.n_rows, response.shape[1])) if total is None else total
            total[rows] += response
            n_members[rows] += 1
        if total is None:
            return np.full((data.n_rows, 1), np.nan), scores
        with np.errstate(invalid="ignore"):
            return np.where(n_members > 0, total / n_members, np.nan), scores

    def in_bag(self, member: int) -> NDArray[np.int64]:
        """Return how often bag `member` has each training row of nonzero weight; raise ValueError if it is unknown."""
        whole(0, len(self) - 1).check("member", member)
        if (forest := self._forest) is not None:
            return forest.in_bag(member)
        if self._bags is None or self._bags.draws is None:
            raise ValueError(
                "in_bag needs bags that fit has drawn; here every bag has all rows, or the model "
                "was loaded from a file."
            )
        if not self._drawn_alike:
            raise ValueError(NOT_ALIKE)
        return self._bags.counts(member, member + 1)[0].astype(np.int64)

    def _oob_score(self, mean: Array, data: MemberData) -> float:
        """Return the out-of-bag score of these mean responses, by the metric of `oob_score`; subclasses override it."""
        raise NotImplementedError

    def _oob_values(self) -> Array:
        """Return the mean out-of-bag responses, (n_rows, n_outputs); raise AttributeError without oob_score=True."""
        self._check_fitted()
        if not hasattr(self, "_oob_mean"):
            raise AttributeError("out-of-bag predictions require oob_score=True in fit. Set it and fit again.")
        return self._oob_mean

    # Predict --------------------------------------------------

    def _routed_options(self, caller: str, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return metadata routed to the method that `caller` calls; raise TypeError for any if routing is disabled."""
        self._check_fitted()
        check_metadata(self, metadata, caller)
        return getattr(process_routing(self, caller, **metadata).estimator, self._method_of(caller)) if metadata else {}

    def _method_of(self, caller: str) -> str:
        """Return the members' method for the ensemble's method `caller`: decision_function, or the default method."""
        return caller if caller == "decision_function" else self._response_method

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata that `fit`, `predict` and the other methods route to the members."""
        callers = [name for name in CALLERS if hasattr(type(self), name)]
        mapping = MethodMapping().add(caller="fit", callee="fit")
        for caller in callers:
            mapping.add(caller=caller, callee=self._method_of(caller))
        router = MetadataRouter(owner=self).add_self_request(ensemble_request(self))
        return router.add(estimator=self._template(), method_mapping=mapping)

    def _mean(self, X: Any, method: str | None = None, options: dict[str, Any] | None = None) -> Array:
        """Return the mean response over the members, (n_rows, n_outputs), by their default method or `method`."""
        X = self._check_table(X)
        responses = (member.respond(X, method, options) for member in self._members)
        total = next(responses).copy()
        for response in responses:
            total += response
        return total / len(self._members)

    def _member_std(self, X: Any) -> Array:
        """Return the standard deviation of the responses over the members or trees, (n_rows, n_outputs)."""
        X, forest = self._check_table(X), self._forest
        if forest is None:
            return deviations([member.respond(X)] for member in self._members)[0]
        each = forest._each_tree(X, forest._predicting_trees())
        return deviations([_as_columns(forest._targets.parts(values)[0])] for values in each)[0]

    def _explained_parts(self, rows: ExplainedRows) -> tuple[list[Part], float]:
        """Return the members' models with equal weights for explanations, and 0; raise ValueError for hard votes."""
        if self._members[0].method == "predict" and self._members[0].classes is not None:
            raise ValueError(
                "voting must be 'soft' to explain a bag of several trees, because hard votes are not sums of trees."
            )
        return [part for member in self._members for part in member.parts(1 / len(self._members))], 0.0

    @available_if(_members_are_trees)
    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the leaf that each row falls into in each tree, (n_samples, n_estimators).

        Only available if the members are fastens trees. A member whose bag has rows of only one class has one leaf, 0.
        """
        X, forest = self._check_table(X), self._forest
        if forest is not None:
            return forest.apply(X)
        return np.stack([_leaves(member, X) for member in self._members], axis=1)

    @property
    def estimators_(self) -> Sequence[Any]:
        """The fitted members."""
        self._check_fitted()
        forest = self._forest
        return [member.models[0] for member in self._members] if forest is None else forest.estimators_

    @property
    def estimator_(self) -> Any:
        """The estimator that the members are copies of."""
        self._check_fitted()
        return self._template()

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        """Return a member of `estimators_`, or a list of members for a slice."""
        return self.estimators_[index]

    @property
    def estimators_samples_(self) -> list[NDArray[np.int32]]:
        """Row indices of each member's bag, repeated as drawn; not available for loaded models."""
        self._check_fitted()
        if (forest := self._forest) is not None:
            return forest.estimators_samples_
        if self._bags is None:
            raise AttributeError(
                "estimators_samples_ needs bags that fit has drawn; this model was loaded from a file."
            )
        if not self._drawn_alike:
            raise AttributeError(NOT_ALIKE)
        return rows_in_bags(self._bags, len(self), self._rows)

    @property
    def estimators_features_(self) -> list[NDArray[np.intp]]:
        """Column indices of each member; fastens trees receive the whole table and use only these columns."""
        self._check_fitted()
        every = np.arange(self.n_features_in_)
        if (forest := self._forest) is not None:
            bags, numbers = forest._bags(), enumerate(self._n_columns_of_trees)
            drawn = (replace(bags, features_per_tree=int(number)).features(tree) for tree, number in numbers)
            return [every if columns is None else columns.astype(np.intp) for columns in drawn]
        return [every if member.columns is None else np.array(member.columns) for member in self._members]

    def export(self, path: str | os.PathLike[str] | None = None, *, format: str, **options: Any) -> Any:  # noqa: A002
        """Export bagged trees to another format, or to a file, in the same way as `RandomForestClassifier.export`.

        Parameters
        ----------
        path, format, **options
            See `RandomForestClassifier.export`.

        Raises
        ------
        ValueError
            If the members are not fastens trees, or the format cannot represent the model.
        """
        self._check_fitted()
        return import_module("fastens.exchange.export").export(self._forest or self, path, format, options)

    # Saving --------------------------------------------------

    def _restore_members(self, arrays: Arrays) -> None:
        """Set the members from saved arrays; raise ValueError if the columns per tree do not fit the forest."""
        self._members = members_from_arrays(_MEMBERS, arrays, getattr(self, "classes_", None), self._n_targets)
        if (forest := self._forest) is not None:
            bags, n_trees = forest._bags(), len(forest.estimators_)
            n_columns = np.array(arrays.get("_n_columns_of_trees", [bags.features_per_tree] * n_trees), dtype=np.int64)
            are_possible = ((n_columns >= 1) & (n_columns <= bags.n_features)).all()
            if n_columns.shape != (n_trees,) or not are_possible:
                raise ValueError("the numbers of columns do not match the trees")
            self._n_columns_of_trees = n_columns

    _saved: ClassVar[SavedParts] = (
        attributes("_seed", "_drawn_alike", "_n_columns_of_trees", *OUT_OF_BAG, key="{}"),
        Saved(lambda model: members_to_arrays(_MEMBERS, model._members), _restore_members, check_seed),
    )


def _leaves(member: FittedMember, X: Any) -> NDArray[np.int32]:
    """Return the leaf index of each row in a member that is a fastens tree; all 0 if its bag had only one class."""
    model = member.models[0]
    if isinstance(model, OneClassClassifier):
        return np.zeros(X.shape[0], dtype=np.int32)
    return model.apply(take_columns(X, member.columns))


def _as_columns(response: NDArray[Any]) -> NDArray[Any]:
    """Return a response as a two-dimensional array with one column for each output."""
    return response.reshape(len(response), -1)


def _with_routed_weight(bag: MemberData, spec: MemberSpec) -> MemberData:
    """Return the bag with its weights added to the routed metadata; unchanged without routing or weights."""
    weight = bag.weight_for(spec.estimator)
    if bag.routed is None or weight is None:
        return bag
    return replace(bag, routed={spec.name: {**bag.routed[spec.name], "sample_weight": weight}})


def _averages_decision_functions(model: Any) -> bool:
    """Return True if the bagging averages responses and its estimator has a `decision_function`."""
    fitted = model._as_fitted()
    return fitted.voting == "soft" and hasattr(fitted._template(), "decision_function")


@with_parameters
class BaggingClassifier(BaseClassifier, BaseBagging):
    """Bagging for classification.

    Copies of an estimator are fitted on bags, which are bootstrap samples of the rows and optionally of the columns.
    The class with the highest average probability, or the most votes, is predicted. Bags of fastens decision trees are
    grown by the forest engine, which bins the table once for all of them.

    Parameters
    ----------
    estimator : classifier, default=None
        The estimator to copy, from fastens or any library with scikit-learn's interface. If None, a decision tree with
        255 bins.
    {parameters}
    bootstrap : bool, "stratified", "balanced", float or dict, default=True
        If True, draw rows with replacement, with probabilities proportional to their weights. "stratified" draws from
        each class as many rows as the class has; "balanced" draws from each class as many rows as the smallest class
        has. A float between 0 and 1 is the ratio of the smallest class to the largest one in a bag. A dict has the
        number of draws of each class, or as a float a multiple of the size of the class.
    voting : {"soft", "hard"}, default="soft"
        "soft" averages the members' probabilities; "hard" counts votes. Members without probabilities always vote.
    oob_score : bool or function, default=False
        If True, each row is predicted by the members whose bags do not contain it, and these predictions are scored by
        accuracy. A function of targets and predictions is used as the score instead.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman (1996), "Bagging predictors"; Ho (1998), "The random subspace method for constructing decision forests".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import BaggingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BaggingClassifier(n_estimators=50, oob_score=True, random_state=0).fit(X, y)
    >>> model.oob_score_ > 0.93
    True
    """

    bootstrap: Drawing = parameter(STRATIFIED, default=True)
    voting: str = parameter(one_of("soft", "hard"), default="soft")

    @property
    def _known_classes(self) -> Any:
        """The classes of the members that a warm start keeps."""
        return self.classes_ if self.warm_start and hasattr(self, "_members") else None

    def _template(self) -> Any:
        """Return the estimator to copy, by default a decision tree."""
        return DecisionTreeClassifier(max_bins=MAX_BINS) if self.estimator is None else self.estimator

    @property
    def _response_method(self) -> str:  # type: ignore[override]
        """The method of the members that produces responses."""
        return "predict_proba" if self.voting == "soft" and hasattr(self._template(), "predict_proba") else "predict"

    def _oob_score(self, mean: Array, data: MemberData) -> float:
        """Return the out-of-bag accuracy of these mean responses, or the score of the callable `oob_score`."""
        predicted = mean.argmax(axis=1)
        if callable(self.oob_score):
            return float(self.oob_score(self.classes_[data.y.astype(np.intp)], self.classes_[predicted]))
        return float(np.average(predicted == data.y, weights=data.sample_weight))

    @property
    def oob_decision_function_(self) -> Array:
        """Mean out-of-bag response for each training row, if `oob_score` is set; NaN for rows in every bag."""
        return self._oob_values()

    def predict(self, X: ArrayLike, **metadata: Any) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,); ties go to the first class.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        **metadata
            Passed to the members' method if scikit-learn's metadata routing is enabled. All prediction methods accept
            it.
        """
        best = self._shares(X, "predict", metadata).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the members' mean probabilities, or vote shares, shape (n_samples, n_classes)."""
        return self._shares(X, "predict_proba", metadata)

    def predict_log_proba(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self._shares(X, "predict_log_proba", metadata))

    def _shares(self, X: Any, caller: str, metadata: dict[str, Any]) -> Array:
        """Return the members' mean probabilities or vote shares, (n_rows, n_classes), with routed metadata."""
        return self._mean(X, options=self._routed_options(caller, metadata))

    @available_if(_averages_decision_functions)
    def decision_function(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the members' mean decision function, (n_samples,), or one column for each of three or more classes.

        Raises
        ------
        ValueError
            If a member's bag had rows of only one class.
        """
        options = self._routed_options("decision_function", metadata)
        if any(isinstance(member.models[0], OneClassClassifier) for member in self._members):
            raise ValueError("decision_function needs at least two classes in every bag. Use predict_proba instead.")
        decisions = self._mean(X, "decision_function", options)
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def predict_std(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' probabilities or votes, shape (n_samples, n_classes)."""
        return self._member_std(X)


@with_parameters
class BaggingRegressor(BaseRegressor, BaseBagging):
    """Bagging for regression.

    Copies of an estimator are fitted on bags, which are bootstrap samples of the rows and optionally of the columns,
    and their predictions are averaged. Bags of fastens decision trees are grown by the forest engine, which bins the
    table once for all of them. If y has several columns, each is a target, and the members must support several
    targets.

    Parameters
    ----------
    estimator : regressor, default=None
        The estimator to copy, from fastens or any library with scikit-learn's interface. If None, a decision tree with
        255 bins.
    {parameters}
    oob_score : bool or function, default=False
        If True, each row is predicted by the members whose bags do not contain it, and these predictions are scored by
        R2. A function of targets and predictions is used as the score instead.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman (1996), "Bagging predictors".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from fastens import BaggingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BaggingRegressor(Ridge(alpha=0.1), max_features=0.5, random_state=0).fit(X, y)
    >>> model.predict_std(X).shape
    (442,)
    """

    _takes_several_targets = True
    _saved: ClassVar[SavedParts] = ("_n_targets",)
    _response_method = "predict"

    def _template(self) -> Any:
        """Return the estimator to copy, by default a decision tree."""
        return DecisionTreeRegressor(max_bins=MAX_BINS) if self.estimator is None else self.estimator

    def _learn_target(self, y: NDArray[Any]) -> Array:
        """Check the target and return it; raise ValueError if a warm start changes the number of targets."""
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if self.warm_start and hasattr(self, "_members") and n_targets != self._n_targets:
            raise ValueError(
                "y must have the same number of targets as in the last fit with warm_start=True, "
                f"{self._n_targets}; got {n_targets}."
            )
        return super()._learn_target(y)

    def _oob_score(self, mean: Array, data: MemberData) -> float:
        """Return the out-of-bag R2 of these mean predictions, or the score of the callable `oob_score`."""
        from sklearn.metrics import r2_score

        predicted = self._squeeze_targets(mean)
        if callable(self.oob_score):
            return float(self.oob_score(data.y, predicted))
        return float(r2_score(data.y, predicted, sample_weight=data.sample_weight))

    @property
    def oob_prediction_(self) -> Array:
        """Mean out-of-bag prediction for each training row, if `oob_score` is set; NaN for rows in every bag."""
        return self._squeeze_targets(self._oob_values())

    def predict(self, X: ArrayLike, **metadata: Any) -> Array:
        """Return the mean of the members' predictions, shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        **metadata
            Passed to the members' `predict` if scikit-learn's metadata routing is enabled.
        """
        return self._squeeze_targets(self._mean(X, options=self._routed_options("predict", metadata)))

    def predict_std(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the members' predictions, with the shape of `predict`."""
        return self._squeeze_targets(self._member_std(X))
