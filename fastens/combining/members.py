"""Members of ensembles of arbitrary estimators: defaults, parameters, memory, tags and HTML diagrams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import Bunch, check_random_state
from sklearn.utils._repr_html.estimator import _VisualBlock
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from fastens.base import BaseFastens, BaseRegressor
from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.combining.folds import (
    ExplainedRows,
    FittedMember,
    Fold,
    GivenRows,
    LevelPlan,
    MemberData,
    MemberSpec,
    Part,
    explain_sum,
    fit_level,
    make_folds,
)
from fastens.combining.responses import (
    KNOWN_METADATA,
    LEVELS,
    MEMBERS,
    PREFIT,
    NamedMembers,
    check_kind,
    check_metadata,
    check_prefit,
    ensemble_request,
    groups_of_rows,
    metadata_of_rows,
    resolve_method,
    routing_enabled,
    seeded,
    tags_of,
)
from fastens.engine.threads import resolve_n_jobs
from fastens.forests.random_forest import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from fastens.params.docstrings import WEIGHT_TYPE_DOCS, Docs, described
from fastens.params.options import Growth
from fastens.params.rules import naming_table
from fastens.params.types import Folds, RandomState
from fastens.table.arrays import check_sparse_indices
from fastens.table.columns.numbers import unmasked
from fastens.table.encoder import InputEncoder
from fastens.table.opening import as_given, open_table
from fastens.table.parts import take_rows
from fastens.table.tables import column_positions, is_plain
from fastens.table.training_data import check_same_rows, check_weights

# Leaves are bounded by weight instead of by rows, so that integer weights count as copies.
BOOSTING: dict[str, Any] = {"min_samples_leaf": 1, "growth": Growth(min_child_weight=5.0)}


def default_members(is_classification: bool) -> NamedMembers:
    """Return the named default members: three tree ensembles whose errors differ."""
    boosting: Any = GradientBoostingClassifier if is_classification else GradientBoostingRegressor
    of_trees = ((name, with_requests(kind())) for name, kind in forests(is_classification))
    return [("boosting", with_requests(boosting(**BOOSTING))), *of_trees]


def default_forests(is_classification: bool) -> NamedMembers:
    """Return the named forests of a cascade layer: two random forests and two with random splits."""
    return [(f"{name}_{k}", with_requests(kind())) for name, kind in forests(is_classification) for k in (1, 2)]


def with_requests(member: Any) -> Any:
    """Return `member`, which is made to request weights and validation rows if metadata routing is enabled."""
    if routing_enabled():
        taken = [name for name in sorted(KNOWN_METADATA) if has_fit_parameter(member, name)]
        member.set_fit_request(**{name: name != "groups" for name in taken})
    return member


def forests(is_classification: bool) -> list[tuple[str, Any]]:
    """Return the names and classes of random forests and extra trees, for classification or regression."""
    if is_classification:
        return [("random_forest", RandomForestClassifier), ("extra_trees", ExtraTreesClassifier)]
    return [("random_forest", RandomForestRegressor), ("extra_trees", ExtraTreesRegressor)]


Array = NDArray[np.float64]

DROPPED = "drop"


class BaseMembers(BaseFastens):
    """Base class of estimators made of named members.

    Subclasses have the parameters `estimators`, `columns`, `cv`, `n_jobs` and `random_state`, and implement
    `_fit_data`.

    Parameters
    ----------
    estimators : list of (name, estimator) or None
        The members, from fastens or any library with scikit-learn's interface; "drop" instead of an estimator leaves
        the member out. If None, the members are gradient boosting, a random forest and extremely randomised trees.
    final_estimator : estimator, "linear", "boosting" or None
        The estimator that combines the predictions. "linear" is logistic regression on log-odds, or ridge regression
        for regression; "boosting" is gradient boosting. If None, "linear" is used, or "boosting" with `passthrough`.
    levels : list of lists of (name, estimator) or None
        The members of each level, used instead of `estimators`. Each level is trained on the out-of-fold predictions of
        the previous level.
    prior : array of shape (n_members,) or None
        Prior probability of each member, up to a factor. If None, the prior is uniform.
    noise : float, pair of floats or None
        If None, members predict probabilities. If a number, members vote and are wrong with this probability, with
        every other class equally likely; with 0, only members that make no mistakes remain. If a pair (a, b), each
        member has an unknown error probability with the prior Beta(a, b).
    temperature : float
        The likelihood is raised to the power 1 / temperature. Values above 1 reduce its influence.
    prefit : bool
        If True, the members are already fitted. `fit` then only learns the classes, and the weights if they are
        learned.
    cv : int, "content", splitter, list of (train, test) or None
        The folds. If None, 5 folds of consecutive rows are used, stratified for classification with one target.
        "content" draws folds by a hash of the rows: they do not depend on the order of the table, and duplicates share
        a fold. It draws 5 folds, or 4 if weights are learned and ``refit=True``.
    stack_method : {"auto", "predict_proba", "decision_function", "predict"}
        The method of the members to use. "auto" selects the first of these that a member has.
    passthrough : bool
        If True, later levels and the final estimator also receive the columns of X (cascade).
    max_layers : int
        Maximum number of layers.
    n_iter_no_change : int
        Number of layers without improvement after which training stops; the layers up to the best one are kept.
    tol : float
        Minimum decrease of the validation loss that counts as an improvement.
    inputs_from : {"last", "all"}
        Levels whose predictions a later level receives: "last" is the previous level, "all" is all previous levels.
        With "all", the columns of X and one member in each level, every model receives the predictions of all models
        before it (cascade stacking).
    refit : bool
        If False, the models of the folds are kept and their predictions averaged. If True, each member is also fitted
        on all rows and only that model predicts, as in scikit-learn. This makes `fit` slower and `predict` faster.
        Members whose learned weight is 0 are not fitted again and keep the model of one fold.
    columns : dict of str to columns or None
        Columns that each member uses, by member name: column names, indices or a mask. With several levels, this
        applies to the first one.
    warm_start : bool
        If True, members that an earlier `fit` on the same rows has finished are reused if their parameters are
        unchanged.
    verbose : int or bool
        If True or above 0, the duration of each fit of a member is logged to the logger "fastens".
    calibration_fraction : float
        Fraction of the rows, or groups, that are held out if ``cv=None``.
    time_limit : float or None
        Number of seconds after which `fit` starts no further fit of a member, if weights are learned. Members are
        fitted in order. A member that is not finished in time is left out, except that the first member keeps the fits
        that it has completed; boosting stops between rounds. With ``refit=True``, the members with the largest weights
        are fitted on all rows in the remaining time, and the others keep the models of the folds. If None, the time is
        not limited.
    random_state : int, RandomState or None
        Seeds the members whose `random_state` is None.
    n_jobs : int or None
        Number of threads; the result does not depend on it. Small fits run in parallel with one thread each; large fits
        of fastens estimators run one after another with all threads.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The sorted class labels.
    estimators_, named_estimators_ : list, Bunch
        The fitted members; if the models of several folds are kept, a list of models for each member.
    final_estimator_ : estimator
        The fitted final estimator.
    oof_predictions_ : dict of str to array of shape (n_samples, n_outputs)
        Out-of-fold predictions of each member for the training rows; NaN for rows without a prediction.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Column names, if X has any.
    """

    _docs: ClassVar[Docs] = WEIGHT_TYPE_DOCS | described(__doc__)
    _compares_weights = True
    # The attribute that `_fit_data` sets last.
    _learned: ClassVar[str] = "_members"
    _default_cv: ClassVar[int] = 5
    # The members' method that produces responses, or "auto", and advice for the error if a member lacks it.
    _response_method: str = "auto"
    _remedy: str = ""
    # True if predictions are weighted sums of the members' predictions.
    _is_weighted_sum: ClassVar[bool] = False
    # True if members are parameters by their names.
    _names_members: ClassVar[bool] = True
    # Number of targets of a regressor.
    _n_targets: int = 1
    estimators: Any
    levels: Any
    columns: Mapping[str, Any] | None
    cv: Folds
    random_state: RandomState
    n_jobs: int | None
    # If True, the duration of each member's fit is logged. Some subclasses have this as a parameter.
    verbose: Any = False

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._learned)

    # Fit --------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        **metadata: Any,
    ) -> Self:
        """Fit the members and combine them.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Any table that all members accept.
        {y}
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, passed to every member and used wherever rows are counted. A weight of 2 is equivalent
            to a duplicated row, and a weight of 0 to a removed row.
        groups : array of shape (n_samples,), optional
            Groups for the splitter, and for members whose `fit` accepts groups.
        X_val, y_val : table and array, optional
            Validation set, for members with early stopping whose `fit` accepts one.
        **metadata
            Metadata that the members request, if scikit-learn's metadata routing is enabled.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the data are invalid; MemberError, a subclass, if a member cannot be fitted or used.
        TypeError
            If weights are passed and the `fit` of a member does not accept them.
        """
        fit_arguments = {"sample_weight": sample_weight, "groups": groups, "X_val": X_val, "y_val": y_val, **metadata}
        self.__dict__.pop(self._learned, None)
        data, rows = self._start_members(X, y, fit_arguments)
        self._fit_data(data, rows)
        return self

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit the members on the checked rows and combine them; sets the fitted attributes."""
        raise NotImplementedError

    def _squeeze_targets(self, result: Array) -> Array:
        """Return the result without the axis of targets if there is only one."""
        return result[:, 0] if self._n_targets == 1 else result

    def _folds(self, data: MemberData, rows: GivenRows) -> list[Fold]:
        """Return the training and test rows of each fold by `cv`, or by the default splitter."""
        return make_folds(self._default_cv if self.cv is None else self.cv, data, rows)

    def _fit_level(
        self, specs: list[MemberSpec], data: MemberData, folds: list[Fold], refit: bool = True
    ) -> tuple[list[FittedMember], list[Array]]:
        """Return a level's fitted members and their responses for `data`, which are out of fold unless `prefit`.

        With `refit`, members are also fitted on all rows, and these models replace the models of the folds. If
        `prefit`, the passed models respond to the rows of `data`, and `folds` is ignored.
        """
        if self._is_prefit:
            members = self._prefit_members(specs, data)
            return members, [member.respond(data.X) for member in members]
        plan = LevelPlan(refit, resolve_n_jobs(self.n_jobs), verbose=bool(self.verbose))
        return fit_level(specs, data, folds, plan)

    def _prefit_members(self, specs: list[MemberSpec], data: MemberData) -> list[FittedMember]:
        """Return the passed fitted estimators as fitted members, which respond with labels."""
        return [spec.fitted([spec.estimator], data.classes, uses_labels=True) for spec in specs]

    # Explain --------------------------------------------------

    def explain(self, X: ArrayLike, background: ArrayLike | None = None, *, interactions: bool = False) -> Any:
        """Explain predictions, or class probabilities, by Shapley values: weighted sums of the members' values.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to explain.
        background : table of shape (n_background, n_features), optional
            Background rows for interventional values: features absent from a coalition are averaged over these rows. If
            None, values are path-dependent and use the distribution of each member's training rows over its trees; this
            is unavailable for members whose raw predictions are behind a link, such as boosted classifiers.
        interactions : bool, default=False
            If True, split each value into the main effect of the feature and its interactions with the other features.

        Returns
        -------
        shap.Explanation, or Explanation if shap is not installed
            The format of the members' `explain`; with three or more classes, the last axis is the class.

        Raises
        ------
        ValueError
            If predictions are not weighted sums of the members' predictions, or a member cannot be explained.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import ExtraTreesRegressor, GradientBoostingRegressor, VotingRegressor
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> members = [("boosting", GradientBoostingRegressor(n_estimators=20)), ("trees", ExtraTreesRegressor(20))]
        >>> model = VotingRegressor(members).fit(X, y)
        >>> explained = model.explain(X)
        >>> total = explained.base_values + explained.values.sum(axis=1)
        >>> bool(abs(total - model.predict(X)).max() < 1e-9)
        True
        """
        self._check_fitted()
        if self._n_targets > 1 or isinstance(getattr(self, "classes_", None), list):
            raise ValueError("explain supports only one target; this model has several. Explain its estimators_.")
        if not self._is_weighted_sum:
            raise ValueError(
                "predictions must be weighted sums of the members' predictions to be explained; predictions of "
                f"{type(self).__name__} are not. Explain the members, or use sklearn.inspection.permutation_importance."
            )
        with naming_table("background"):
            others = None if background is None else self._check_table(background)
        rows = ExplainedRows(self._check_table(X), others, interactions)
        return explain_sum(self, *self._explained_parts(rows), rows)

    def _explained_parts(self, rows: ExplainedRows) -> tuple[list[Part], float]:
        """Return the weighted models that add up to the ensemble's prediction, and a constant.

        Raises ValueError if the prediction is not such a sum.
        """
        raise NotImplementedError

    # Members as parameters --------------------------------------------------

    def _default_members(self) -> NamedMembers:
        """Return the (name, estimator) pairs that are used if `estimators` is None."""
        return default_members(is_classifier(self))

    def _levels(self) -> list[NamedMembers]:
        """Return the (name, estimator) pairs of each level, without dropped members."""
        named_members = self._default_members() if self.estimators is None else self.estimators
        return [[(name, member) for name, member in named_members if not is_dropped(member)]]

    def _named(self) -> Iterator[tuple[str, Any]]:
        """Yield the (name, estimator) pairs of the parameters `estimators` and `levels`, skipping malformed values."""
        levels: Any = getattr(self, "levels", None)
        for members in [self.estimators, *(levels if LEVELS.holds(levels) else [])]:
            if MEMBERS.holds(members):
                yield from members

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, also members by name, and their parameters as ``name__parameter``."""
        parameters = super().get_params(deep=deep)
        if deep and self._names_members:
            for name, member in self._named():
                parameters[name] = member
                if hasattr(member, "get_params"):
                    parameters.update((f"{name}__{key}", value) for key, value in member.get_params().items())
        return parameters

    def set_params(self, **params: Any) -> Self:
        """Set parameters; members are replaced by name, or dropped with "drop"."""
        if not self._names_members:
            return super().set_params(**params)
        with self._setting():
            for key in ("estimators", "levels"):
                if key in params:
                    setattr(self, key, params.pop(key))
            replaced = {name: params.pop(name) for name, _ in list(self._named()) if name in params}
            if replaced:
                self.estimators = _replace_members(self.estimators, replaced)
                if getattr(self, "levels", None) is not None:
                    self.levels = [_replace_members(members, replaced) for members in self.levels]
        return super().set_params(**params)

    @property
    def named_estimators(self) -> Bunch:
        """The members passed as parameters, by name."""
        return Bunch(**dict(self._named()))

    def _fitted_by_name(self, members: Iterable[FittedMember]) -> Bunch:
        """Return the models of `members` by name, and "drop" for each dropped member, in the parameters' order."""
        fitted = {member.name: member.kept for member in members}
        named = self._as_fitted()._named()
        ordered = {name: member for name, member in named if name in fitted or is_dropped(member)}
        return Bunch(**{**ordered, **fitted})

    def _specs(self) -> list[list[MemberSpec]]:
        """Check the members of each level, and return their specifications with columns, methods and seeded copies.

        Raises ValueError for invalid names, empty levels, and columns of unknown members.
        """
        levels = self._levels()
        names = [name for members in levels for name, _ in members]
        _check_names(names, self.get_params(deep=False))
        if empty := [depth for depth, members in enumerate(levels, 1) if not members]:
            raise ValueError(f"levels must hold at least one estimator each; level {empty[0]} has none.")
        member_names = self._passed_names(names)
        unknown = [name for name in (self.columns or {}) if name not in member_names]
        if unknown:
            raise ValueError(f"columns must name members; got {unknown[0]!r}, and the members are {member_names}.")
        seeds = self._seed_source()
        of_classes = is_classifier(self)  # reads the tags of all members
        return [
            [self._spec(name, member, seeds, depth, of_classes) for name, member in members]
            for depth, members in enumerate(levels)
        ]

    def _passed_names(self, defaults: list[str]) -> list[str]:
        """Return the names of all passed members, including dropped ones; `defaults` if no members were passed."""
        return [name for name, _ in self._named()] or defaults

    def _spec(
        self, name: str, member: Any, seeds: np.random.RandomState | None, depth: int, is_classification: bool
    ) -> MemberSpec:
        """Check one member, and return its specification with columns, response method and seeded copy.

        `depth` is the index of its level, and `seeds` is None if seeds are not set. Raises ValueError for an invalid
        member.
        """
        check_kind(f"Member {name!r}", member, is_classification)
        names = self._encoder.names
        selected_columns = (self.columns or {}).get(name)
        if selected_columns is not None and depth > 0:
            raise ValueError(f"columns must name members of the first level; got {name!r}.")
        columns = (
            None
            if selected_columns is None
            else column_positions("columns", selected_columns, names, self.n_features_in_)
        )
        if columns == []:
            raise ValueError("columns must hold at least one column; got none.")
        method = resolve_method(name, member, self._response_method, is_classification, self._remedy)
        return MemberSpec(name, seeded(member, seeds), columns, method, self._n_targets)

    def _seed_source(self) -> np.random.RandomState | None:
        """Return the generator of the members' seeds, or None if they are not seeded."""
        return None if self.random_state is None or self._is_prefit else check_random_state(self.random_state)

    @property
    def _is_prefit(self) -> bool:
        """True if the members are already fitted."""
        cv = getattr(self, "cv", None)
        return bool(getattr(self, "prefit", False)) or (isinstance(cv, str) and cv == PREFIT)

    # The table --------------------------------------------------

    def _learn_table(self, X: Any) -> Any:
        """Learn the columns of the training table, and return it in the form in which the members receive it."""
        table = open_table(X, type(self).__name__)
        if table.holds_objects:  # errors name the table, not a member
            InputEncoder.fit(table).transform(table)
        self._encoder = InputEncoder(table.names, [None] * len(table))
        self._set_columns()
        return table.as_given(X)

    def _base_estimators(self) -> list[Any]:
        """Return the unfitted members of all levels."""
        return [member for members in self._levels() for _, member in members]

    def _check_table(self, X: Any) -> Any:
        """Check the columns of a table to predict, and return it in a form that all members accept.

        Raises ValueError if the columns differ from the training columns.
        """
        if is_plain(X) and X.shape[1] == self._n_plain_features:
            return X
        self._check_fitted()
        native = self._encoder.matched(X, type(self).__name__).native
        return X if native is nw.to_native(X, pass_through=True) else native

    def _start_members(self, X: Any, y: Any, metadata: dict[str, Any]) -> tuple[MemberData, GivenRows]:
        """Check parameters and data; return the rows of nonzero weight, and their positions among the passed rows.

        `metadata` may contain `sample_weight`, `groups`, `X_val` and `y_val`, and metadata to route to the members.
        """
        self._check_parameters()
        self._check_target_given(y)
        if self._is_prefit:
            check_prefit(pair for members in self._levels() for pair in members)
        if (metadata.get("X_val") is None) != (metadata.get("y_val") is None):
            raise ValueError("X_val and y_val must be passed together.")
        X = as_given(X, type(self).__name__)
        check_sparse_indices(X)
        n_rows = X.shape[0]
        weight = check_weights(metadata.get("sample_weight"), n_rows)
        rows = np.arange(n_rows) if weight is None else np.flatnonzero(weight)
        if len(rows) < n_rows:
            X, y, weight = take_rows(X, rows), _select_target_rows(y, rows, n_rows), weight[rows]  # type: ignore[index]
        given_rows, training_data = GivenRows(rows, n_rows), self._start_fit(X, y, weight)
        if isinstance(self, BaseRegressor):
            self._n_targets = _n_targets(training_data.y)
        X_val, counted = metadata.get("X_val"), training_data.sample_weight
        data = MemberData(
            X=training_data.X,
            y=training_data.y,
            classes=getattr(self, "classes_", None),
            sample_weight=counted,
            groups=groups_of_rows(metadata.get("groups"), *given_rows),
            validation=None if X_val is None else self._check_validation_rows(X_val, metadata["y_val"]),
            routed=self._route(metadata, given_rows),
            weight_unit=None if weight is None else float(weight[0] / (1.0 if counted is None else counted[0])),
        )
        return data, given_rows

    def _check_validation_rows(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Return the validation table and targets; raise ValueError if columns or classes differ from training."""
        try:
            X, y = self._encoder.matched(X, type(self).__name__).native, unmasked(y, "y_val")
            target = self._encode_target(self._read_target(y))
            check_same_rows(X.shape[0], len(target))
        except ValueError as error:
            raise ValueError(f"X_val and y_val must have the same form as X and y: {error}") from error
        return X, y

    def _route(self, metadata: dict[str, Any], rows: GivenRows) -> dict[str, dict[str, Any]] | None:
        """Return the metadata for each member by name, for the rows that are fitted; None if routing is disabled."""
        if not routing_enabled():
            check_metadata(self, metadata)
            return None
        routed = process_routing(self, "fit", **{name: value for name, value in metadata.items() if value is not None})
        member_metadata = {name: dict(routed[name].fit) for name in self._routed_names()}
        return {name: metadata_of_rows(of_member, *rows) for name, of_member in member_metadata.items()}

    # scikit-learn --------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_members = [member_tags for _, member in self._named() if (member_tags := tags_of(member)) is not None]
        tags.input_tags.allow_nan = all(of_member.input_tags.allow_nan for of_member in of_members)
        tags.input_tags.sparse = all(of_member.input_tags.sparse for of_member in of_members)
        return tags

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata that `fit` routes to each member."""
        router = MetadataRouter(owner=self).add_self_request(ensemble_request(self))
        for name, member in (pair for members in self._levels() for pair in members):
            router.add(**{name: member}, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        splitter = self._routed_splitter()
        if hasattr(splitter, "get_metadata_routing"):
            router.add(splitter=splitter, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        return router

    def _routed_names(self) -> list[str]:
        """Return the names of the objects that `fit` may route metadata to."""
        return [name for members in self._levels() for name, _ in members]

    def _routed_splitter(self) -> Any:
        """Return the splitter, which may request metadata."""
        return getattr(self, "cv", None)

    def _sk_visual_block_(self) -> Any:
        """Return the members as blocks of scikit-learn's HTML diagram."""
        blocks = [
            _VisualBlock("parallel", [m for _, m in members], names=[n for n, _ in members], dash_wrapped=False)
            for members in self._levels()
        ]
        final = getattr(self, "final_estimator", None)
        if final is not None and not isinstance(final, str):
            blocks.append(_VisualBlock("parallel", [final], names=["final_estimator"], dash_wrapped=False))
        return blocks[0] if len(blocks) == 1 else _VisualBlock("serial", blocks, dash_wrapped=False)


class BaseOneEstimator(BaseMembers):
    """Base class of estimators made of copies of a single estimator."""

    estimators = None
    columns = None
    estimator: BaseEstimator
    _names_members = False

    def _template(self) -> Any:
        """Return the unfitted estimator that is copied for each fit: the parameter `estimator` or its default."""
        raise NotImplementedError

    def _named(self) -> Iterator[tuple[str, Any]]:
        """Yield the estimator as a (name, estimator) pair, whose scikit-learn tags are read."""
        yield "estimator", self._template()

    def _levels(self) -> list[NamedMembers]:
        """Return one level whose only member is the estimator."""
        return [[("estimator", self._template())]]

    def _validate_combinations(self) -> None:
        """Raise ValueError unless the estimator is a classifier or regressor as required."""
        check_kind("estimator", self._template(), is_classifier(self))


def _n_targets(y: NDArray[Any]) -> int:
    """Return the number of columns of the target, 1 for a vector."""
    return 1 if y.ndim == 1 else y.shape[1]


def is_dropped(member: Any) -> bool:
    """Return True if a member is the string "drop"."""
    return isinstance(member, str) and member == DROPPED


def _replace_members(members: Any, replacements: dict[str, Any]) -> Any:
    """Return the (name, estimator) pairs with the estimators in `replacements` by name; None if `members` is None."""
    return None if members is None else [(name, replacements.get(name, member)) for name, member in members]


def _check_names(names: list[str], parameters: dict[str, Any]) -> None:
    """Raise ValueError unless the names are unique, without "__", and differ from the ensemble's parameters."""
    if not names:
        raise ValueError("estimators must hold at least one estimator that is not dropped; got none.")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"estimators must have unique names; got {name!r} more than once.")
        if "__" in name:
            raise ValueError(f"estimators must have names without '__'; got {name!r}.")
        if name in parameters:
            raise ValueError(
                f"estimators must have names that differ from the parameters of the ensemble; got {name!r}."
            )


def _select_target_rows(y: Any, rows: NDArray[np.intp], n_rows: int) -> Any:
    """Return the targets at the indices `rows`; raise ValueError unless there are `n_rows` targets."""
    y = unmasked(y, "y")
    if y.ndim == 0 or y.shape[0] != n_rows:
        raise ValueError(f"X and y must have the same number of rows; got {n_rows} and {len(y) if y.ndim else 0}.")
    return y[rows]
