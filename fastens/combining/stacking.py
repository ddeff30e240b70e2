"""Stacking: models trained on the out-of-fold predictions of other models (Wolpert 1992)."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import joblib
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.utils import Bunch, check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in

from fastens.base import BaseClassifier, BaseFastens, BaseRegressor
from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.combining.folds import (
    ExplainedRows,
    FittedMember,
    Fold,
    FoldFit,
    GivenRows,
    LevelPlan,
    MemberData,
    MemberSpec,
    Part,
    advice_on_fit,
    check_weights_accepted,
    fit_level,
    fit_member,
    members_from_arrays,
    members_to_arrays,
    n_columns,
    predicted_class_indices,
    probabilities,
    restrict_folds,
    rows_with_responses,
    several_response,
)
from fastens.combining.members import BaseMembers, is_dropped
from fastens.combining.responses import (
    ALL,
    COLUMNS,
    INPUTS,
    LEVELS,
    MEMBERS,
    METHODS,
    VERBOSE,
    MemberError,
    NamedMembers,
    OneClassClassifier,
    added,
    check_kind,
    class_response,
    is_fitted_on_labels,
    label_indices,
    number_response,
    routing_enabled,
    seeded,
)
from fastens.combining.stackers import LogisticStacker, RidgeStacker
from fastens.engine.threads import resolve_n_jobs
from fastens.modelfile.saving import Arrays, Saved, SavedParts, nested_arrays, nested_model
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, FLAG, NONE, RANDOM_STATE, Rule, one_of, parameter
from fastens.params.types import Folds, RandomState
from fastens.rollback import keep_partial
from fastens.table.answers import transforms_streams
from fastens.table.arrays import free_names
from fastens.table.parts import hstack, in_one_array
from fastens.table.tables import is_frame
from fastens.table.training_data import WEIGHT_TYPE, labels_of

Array = NDArray[np.float64]


class BaseLevels(BaseMembers):
    """Base class of ensembles whose members are arranged in levels."""

    # `inputs_from` selects the levels whose predictions a level receives: the previous level or all previous levels. If
    # `passthrough` is True, it also receives the columns of X.
    inputs_from: str
    passthrough: bool
    _fitted_levels: list[list[FittedMember]]

    # Tables of predictions --------------------------------------------------

    def _meta(self, responses: list[Array]) -> Array:
        """Return responses side by side, (n_rows, n_columns); binary targets keep only the second class."""
        is_binary = is_classifier(self) and not isinstance(self.classes_, list) and len(self.classes_) == 2
        return np.hstack(
            [response[:, 1:] if is_binary and response.shape[1] == 2 else response for response in responses]
        )

    def _next_table(self, levels: list[list[FittedMember]], metas: list[Array], X: Any) -> Any:
        """Return the next level's input: columns of the last level or all levels and, with `passthrough`, of X.

        `metas` holds the response columns of each level in `levels`.
        """
        meta = np.hstack(metas) if self.inputs_from == ALL else metas[-1]
        return hstack(meta, self._meta_names(levels), X) if self.passthrough else meta

    def _level_table(self, levels: list[list[FittedMember]], X: Any) -> Any:
        """Return the input of the level after `levels` for new rows, from the responses of their members."""
        table, metas = X, []
        for depth, members in enumerate(levels, 1):
            metas.append(self._meta([member.respond(table) for member in members]))
            table = self._next_table(levels[:depth], metas, X)
        return table

    def _meta_names(self, levels: list[list[FittedMember]]) -> list[str]:
        """Return the column names of the next level's input, with the level as prefix if several levels contribute."""
        prefix = type(self).__name__.lower()
        stems = [f"{prefix}_{depth}" for depth in range(1, len(levels) + 1)] if self.inputs_from == ALL else [prefix]
        names, n_columns = [], self._n_meta()  # reading this number reads the tags of all members
        for stem, members in zip(stems, levels[-len(stems) :], strict=True):
            for member in members:
                names += [f"{stem}_{member.name}{column if n_columns > 1 else ''}" for column in range(n_columns)]
        return names

    def _n_meta(self) -> int:
        """Return the number of columns that each member adds to the next level's input."""
        return n_columns(self.classes_) if is_classifier(self) else self._n_targets

    # Members --------------------------------------------------

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted models by name, lists if the models of the folds are kept; "drop" for dropped members."""
        self._check_fitted()
        return self._fitted_by_name(member for level in self._fitted_levels for member in level)

    @property
    def estimators_(self) -> list[Any]:
        """The fitted models, in the order of the members."""
        self._check_fitted()
        return [member.kept for level in self._fitted_levels for member in level]

    # Saving --------------------------------------------------

    def _level_arrays(self) -> dict[str, np.ndarray]:
        """Return the fitted members of all levels as arrays to save."""
        arrays: dict[str, np.ndarray] = {"n_levels": np.array(len(self._fitted_levels))}
        for depth, members in enumerate(self._fitted_levels):
            arrays |= members_to_arrays(f"level{depth}.", members)
        return arrays

    def _restore_levels(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the fitted members of all levels from saved arrays; raise ValueError if there are none."""
        classes = getattr(self, "classes_", None)
        n_levels = int(arrays["n_levels"])
        if n_levels < 1:
            raise ValueError("it must have at least one level")
        self._fitted_levels = [
            members_from_arrays(f"level{depth}.", arrays, classes, self._n_targets) for depth in range(n_levels)
        ]

    _saved: ClassVar[SavedParts] = (Saved(_level_arrays, _restore_levels),)


_FINAL = "final_estimator"

STACKERS = ("linear", "boosting")

FoldFits = dict[tuple[str, int], FoldFit]


@dataclass
class StackingProgress:
    """The state of a running fit."""

    data: MemberData
    options: Any  # cv and refit, which also determine the folds
    folds: list[Fold]
    levels: list[tuple[list[MemberSpec], MemberData, FoldFits]] = field(default_factory=list)

    def finished(self) -> FinishedFits:
        """Return the finished fits, with hashes instead of the rows."""
        rows = _hash_rows(self.data)
        levels = [
            (rows if data is self.data else _hash_rows(data), _hash_members(specs), fold_fits)
            for specs, data, fold_fits in self.levels
        ]
        return FinishedFits(_hash([rows, self.options]), self.folds, levels)

    def describe(self) -> str:
        """Return a summary of the finished fits by member, for an error message."""
        names = [name for _, _, fold_fits in self.levels for name, _ in fold_fits]
        return ", ".join(f"{name} ({names.count(name)} fits)" for name in dict.fromkeys(names)) or "none"


@dataclass
class FinishedFits:
    """State that `warm_start` keeps between fits: fitted members, and hashes of their data and parameters."""

    rows: str
    folds: list[Fold]
    levels: list[tuple[str, dict[str, str], FoldFits]]

    def folds_for(self, data: MemberData, options: Any) -> list[Fold] | None:
        """Return the stored folds, so that random folds are not drawn again; None if rows or `options` have changed."""
        return self.folds if _hash([_hash_rows(data), options]) == self.rows else None

    def fits_for(self, depth: int, specs: list[MemberSpec], data: MemberData) -> FoldFits:
        """Return the finished fits of the level with index `depth`, by (member name, fold), if its data are unchanged.

        Fits of members that have changed are left out.
        """
        if depth >= len(self.levels) or self.levels[depth][0] != _hash_rows(data):
            return {}
        _, before, fold_fits = self.levels[depth]
        now = _hash_members(specs)
        return {key: piece for key, piece in fold_fits.items() if before.get(key[0]) == now.get(key[0])}


def _hash_rows(data: MemberData) -> str:
    """Return a hash of the table, targets, weights, groups and other data of the rows."""
    weight = data.sample_weight, data.weight_unit
    return _hash([data.X, data.y, data.classes, weight, data.groups, data.validation, data.routed])


def _hash_members(specs: list[MemberSpec]) -> dict[str, str]:
    """Return a hash of each member's estimator, columns and method, by name."""
    return {spec.name: _hash([spec.estimator, spec.columns, spec.method]) for spec in specs}


def _hash(value: Any) -> str:
    """Return a hash of the content, or a unique value if it cannot be pickled, such as a local class.

    Hashes are also computed after Ctrl-C, so they must be fast: processors have instructions for SHA-1.
    """
    try:
        return str(joblib.hash(value, hash_name="sha1"))
    except (pickle.PicklingError, AttributeError, TypeError):
        return uuid.uuid4().hex


def _final_data(data: MemberData) -> MemberData:
    """Return the data for the final estimator, without routed metadata unless some is routed to it."""
    is_routed = data.routed is not None and _FINAL in data.routed
    return data if is_routed else replace(data, routed=None)


@transforms_streams
@with_parameters
class BaseStacking(TransformerMixin, BaseLevels):
    """Base class of the stacking classifier and regressor.

    Parameters
    ----------
    cv : int, splitter, list of (train, test), "prefit" or None
        The folds. If None, 5 folds are used, stratified for classification with one target. "prefit" means that the
        members are already fitted, on other rows.
    random_state : int, RandomState or None
        Seeds the members and the final estimator, if their `random_state` is None.
    """

    _learned: ClassVar[str] = "final_estimator_"
    _docs: ClassVar[Docs] = BaseLevels._docs | described(__doc__)

    estimators: NamedMembers | None = parameter(MEMBERS | NONE, default=None, kw_only=False)
    final_estimator: BaseEstimator | None = parameter(
        Rule("an estimator", lambda value: hasattr(value, "fit") and not isinstance(value, type))
        | one_of(*STACKERS)
        | NONE,
        default=None,
        kw_only=False,
    )
    levels: list[NamedMembers] | None = parameter(LEVELS | NONE, default=None)
    cv: Folds = parameter(ANYTHING, default=None)
    passthrough: bool = parameter(FLAG, default=False)
    inputs_from: str = parameter(INPUTS, default="last")
    refit: bool = parameter(FLAG, default=False)
    columns: Mapping[str, Any] | None = parameter(COLUMNS, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    warm_start: bool = parameter(FLAG, default=False)
    verbose: int | bool = parameter(VERBOSE, default=False)
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    final_estimator_: Any = field(init=False)
    oof_predictions_: dict[str, Array] = field(init=False)

    @property
    def stack_method_(self) -> list[str]:
        """The method of each member that produces its predictions."""
        self._check_fitted()
        return [member.method for members in self._fitted_levels for member in members]

    def _levels(self) -> list[NamedMembers]:
        """Return the (name, estimator) pairs of each level, without dropped members."""
        if self.levels is None:
            return super()._levels()
        if self.estimators is not None:
            raise ValueError("estimators must be None if levels are passed.")
        return [[(name, member) for name, member in level if not is_dropped(member)] for level in self.levels]

    # Fit --------------------------------------------------

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit the members out of fold, and the final estimator on their predictions.

        After an error, finished members are kept, and a `fit` on the same rows with `warm_start` reuses them.
        """
        specs = self._specs()
        self._check_weights_accepted(specs, data)
        self.__dict__.pop("oof_predictions_", None)
        self._finished: FinishedFits | None = getattr(self, "_finished", None)
        progress = self._start_progress(data, rows)
        try:
            self._fit_levels(specs, progress, rows)
        except BaseException as error:
            if isinstance(error, MemberError):
                kept = f"kept for another fit on the same rows with warm_start=True: {progress.describe()}."
                error.args = (f"{error} The fits that were done are {kept}",)
            self._finished = progress.finished()
            keep_partial(self, error, "_finished")
            raise
        self._finished = progress.finished() if self.warm_start else None

    def _check_weights_accepted(self, specs: list[list[MemberSpec]], data: MemberData) -> None:
        """Raise TypeError before the first fit if a member or the final estimator does not support weights."""
        if not self._is_prefit:
            check_weights_accepted([(spec.name, spec.estimator) for level in specs for spec in level], data)
        check_weights_accepted([(_FINAL, self._final_template())], _final_data(data))

    def _start_progress(self, data: MemberData, rows: GivenRows) -> StackingProgress:
        """Return the initial state of a fit: its data, folds, and no finished levels.

        With `warm_start` and unchanged rows, the folds are reused; otherwise finished fits of an earlier call are
        discarded.
        """
        if self._is_prefit:
            return StackingProgress(data, None, [])
        options = [self.cv, self.refit]
        folds = self._finished.folds_for(data, options) if self.warm_start and self._finished else None
        if folds is None:
            self._finished = None
            folds = self._folds(data, rows)
        return StackingProgress(data, options, folds)

    def _fit_levels(self, specs: list[list[MemberSpec]], progress: StackingProgress, rows: GivenRows) -> None:
        """Fit level after level on the rows that have predictions so far, then the final estimator."""
        first = data = progress.data
        folds = progress.folds
        levels: list[list[FittedMember]] = []
        metas: list[Array] = []
        out_of_fold: dict[str, Array] = {}
        for level in specs:
            members, responses = self._resume_level(level, data, folds, progress)
            levels.append(members)
            for spec, response in zip(level, responses, strict=True):
                out_of_fold[spec.name] = rows.scatter(response)
            metas.append(self._meta(responses))
            has_response = rows_with_responses(responses)
            if not has_response.all():
                kept = np.flatnonzero(has_response)
                folds, first = restrict_folds(folds, has_response), first.take(kept)
                rows, metas = GivenRows(rows.rows[kept], rows.n_given), [meta[kept] for meta in metas]
            validation = None if first.validation is None else self._level_table(levels, first.validation[0])
            data = first.with_table(self._next_table(levels, metas, first.X), validation)
        self._fit_final(data)
        self._fitted_levels, self.oof_predictions_ = levels, out_of_fold

    def _resume_level(
        self, specs: list[MemberSpec], data: MemberData, folds: list[Fold], progress: StackingProgress
    ) -> tuple[list[FittedMember], list[Array]]:
        """Fit a level's members, reusing finished fits; return them and their out-of-fold responses.

        The level is added to `progress`. Raises ValueError if `folds` is empty.
        """
        if self._is_prefit:
            return self._fit_level(specs, data, [])
        depth = len(progress.levels)
        if not folds:
            raise ValueError(f"cv must leave rows with predictions for level {depth + 1}; got none.")
        fold_fits = {} if self._finished is None else self._finished.fits_for(depth, specs, data)
        progress.levels.append((specs, data, fold_fits))
        plan = LevelPlan(self.refit, resolve_n_jobs(self.n_jobs), fold_fits, bool(self.verbose))
        return fit_level(specs, data, folds, plan)

    def _fit_final(self, data: MemberData) -> None:
        """Fit the final estimator on the last level's responses, and set `final_estimator_`."""
        seeds = None if self.random_state is None else check_random_state(self.random_state)
        estimator = seeded(self._final_template(), seeds)
        check_kind("final_estimator", estimator, is_classifier(self))
        if isinstance(data.classes, np.ndarray) and len(data.classes) == 1:
            estimator = OneClassClassifier()
        data = _final_data(data)
        try:
            self.final_estimator_ = fit_member(MemberSpec(_FINAL, estimator, None, "predict"), data, data.X)
        except (TypeError, ValueError) as error:
            if data.y.ndim == 1:
                raise
            raise MemberError(f"final_estimator cannot be fitted: {error}{advice_on_fit(data)}") from error

    def _final_template(self) -> Any:
        """Return the unfitted final estimator: by default linear, or boosting with `passthrough`."""
        from sklearn.multioutput import MultiOutputClassifier

        if hasattr(self.final_estimator, "fit"):
            return clone(self.final_estimator)
        wanted = self.final_estimator or ("boosting" if self.passthrough else "linear")
        if wanted == "linear" and isinstance(getattr(self, "classes_", None), list):
            return MultiOutputClassifier(LogisticStacker())
        if wanted == "linear":
            return LogisticStacker() if is_classifier(self) else RidgeStacker()
        return GradientBoostingClassifier() if is_classifier(self) else GradientBoostingRegressor()

    # Predict --------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata that `fit` routes to each member, and `predict` to the final estimator.

        `fit` also routes metadata to the final estimator if it requests any for its `fit`.
        """
        mapping = MethodMapping().add(caller="predict", callee="predict")
        if _FINAL in self._routed_names():
            mapping.add(caller="fit", callee="fit")
        return super().get_metadata_routing().add(final_estimator=self._final_template(), method_mapping=mapping)

    def _routed_names(self) -> list[str]:
        """Return the names of the objects that `fit` routes metadata to, such as the final estimator."""
        requests = getattr(getattr(get_routing_for_object(self._final_template()), "fit", None), "requests", {})
        return super()._routed_names() + ([] if {*requests.values()} <= {None, False} else [_FINAL])

    def _routed_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments for the final estimator's `predict`: all, or the routed ones if routing is enabled."""
        if not options or not routing_enabled():
            return options
        return process_routing(self, "predict", **options).final_estimator.predict

    # Tables of predictions --------------------------------------------------

    def transform(self, X: ArrayLike) -> Any:
        """Return the final estimator's input: the levels' predictions and, with `passthrough`, the columns of X."""
        table = in_one_array(self._final_table(X))
        if _get_output_config("transform", self)["dense"] == "pandas" and is_frame(table):
            return nw.from_native(table, eager_only=True).to_pandas()  # pandas cannot convert other libraries' frames
        return table

    def _final_table(self, X: Any) -> Any:
        """Return the input of the final estimator, independent of the `set_output` configuration."""
        self._check_fitted()
        return self._as_fitted()._level_table(self._fitted_levels, self._check_table(X))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the column names of the output of `transform`."""
        self._check_fitted()
        fitted = self._as_fitted()
        columns = _check_feature_names_in(self, input_features, generate_names=fitted.passthrough)
        beside = list(columns) if fitted.passthrough else []
        names = free_names(fitted._meta_names(self._fitted_levels), beside)
        return np.asarray([*names, *beside], dtype=object)

    # Saving --------------------------------------------------

    def _final_arrays(self) -> Arrays:
        """Return the final estimator and the out-of-fold predictions as arrays to save."""
        arrays = nested_arrays("final.", self.final_estimator_, "The final estimator")
        return arrays | {f"oof.{name}": predictions for name, predictions in self.oof_predictions_.items()}

    def _restore_final(self, arrays: Arrays) -> None:
        """Set the final estimator and the out-of-fold predictions from saved arrays."""
        self.final_estimator_ = nested_model("final.", arrays, "The final estimator")
        self.oof_predictions_ = {n.removeprefix("oof."): a for n, a in arrays.items() if n.startswith("oof.")}

    _saved: ClassVar[SavedParts] = (Saved(_final_arrays, _restore_final),)


def _final_has(method: str) -> Any:
    """Return a decorator for a method that exists only if the final estimator, fitted or not, has `method`."""

    def check(self: BaseStacking) -> bool:
        getattr(self.final_estimator_ if hasattr(self, "final_estimator_") else self._final_template(), method)
        return True

    return available_if(check)


@with_parameters
class StackingClassifier(BaseClassifier, BaseStacking):
    """Stacking for classification: a final estimator learns from the members' out-of-fold predictions.

    Each training row is predicted by models fitted without it, so that the final estimator learns from unbiased
    predictions. The folds may come from any scikit-learn splitter. Rows without a prediction, such as the first rows of
    a time series split, are left out of later levels; if a row is in several test sets, its predictions are averaged.
    fastens members that are fitted on the same rows share encoding and binning.

    If y has several columns, each is a target. The members and the final estimator must support several targets; the
    default final estimator fits one model for each target.

    {parameters and attributes}

    References
    ----------
    Wolpert (1992), "Stacked generalization"; Breiman (1996), "Stacked regressions"; Ting & Witten (1999), "Issues in
    stacked generalization".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from fastens import GradientBoostingClassifier, StackingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> members = [("boosting", GradientBoostingClassifier(n_estimators=20)), ("bayes", GaussianNB())]
    >>> model = StackingClassifier(members).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    stack_method: str = parameter(one_of("auto", *METHODS), default="auto")
    _takes_several_targets = True

    @property
    def _response_method(self) -> str:  # type: ignore[override]
        """The method of the members that produces responses."""
        return self.stack_method

    def predict(self, X: ArrayLike, **options: Any) -> NDArray[Any]:
        """Return the class of each row, shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        **options
            Arguments of the final estimator's `predict`.
        """
        table = self._final_table(X)
        predicted = self.final_estimator_.predict(table, **self._routed_options(options))
        if isinstance(self.final_estimator_, BaseFastens):
            return predicted
        to_indices = predicted_class_indices if isinstance(self.classes_, list) else label_indices
        return labels_of(to_indices("final_estimator", predicted, self._final_labels(), table.shape[0]), self.classes_)

    @_final_has("predict_proba")
    def predict_proba(self, X: ArrayLike) -> Any:
        """Return class probabilities, shape (n_samples, n_classes); with several targets, a list of such arrays."""
        self._check_fitted()
        if isinstance(self.classes_, list):
            return probabilities("final_estimator", self.final_estimator_, self._final_table(X), self._final_labels())
        return self._final_response(X, "predict_proba")

    @_final_has("decision_function")
    def decision_function(self, X: ArrayLike) -> Array:
        """Return the final estimator's decision function."""
        decisions = self._final_response(X, "decision_function")
        return decisions[:, 0] if decisions.shape[1] == 1 else decisions

    def _final_response(self, X: Any, method: str) -> Array:
        """Return the checked response of the final estimator's `method` for the rows of X."""
        table, labels = self._final_table(X), self._final_labels()
        if isinstance(labels, list):
            return several_response("final_estimator", self.final_estimator_, table, method, labels)
        return class_response("final_estimator", self.final_estimator_, table, method, labels)

    def _final_labels(self) -> Any:
        """Return the classes by which the final estimator was fitted: labels, or the indices 0, 1, ...."""
        if is_fitted_on_labels(self.final_estimator_):
            return self.classes_
        if isinstance(self.classes_, list):
            return [np.arange(len(target_classes)) for target_classes in self.classes_]
        return np.arange(len(self.classes_))


@with_parameters
class StackingRegressor(BaseRegressor, BaseStacking):
    """Stacking for regression: a final estimator learns from the members' out-of-fold predictions.

    See `StackingClassifier` for how rows, folds and members are handled.

    If y has several columns, each is a target. The members and the final estimator must support several targets; the
    final estimator receives the predictions of all targets.

    {parameters and attributes}

    References
    ----------
    Wolpert (1992), "Stacked generalization"; Breiman (1996), "Stacked regressions".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> from fastens import GradientBoostingRegressor, StackingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> members = [("boosting", GradientBoostingRegressor(n_estimators=20)), ("line", LinearRegression())]
    >>> model = StackingRegressor(members).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.4
    True
    """

    _takes_several_targets = True
    _is_weighted_sum = True
    _saved: ClassVar[SavedParts] = ("_n_targets",)
    _response_method = "predict"

    def _explained_parts(self, rows: ExplainedRows) -> tuple[list[Part], float]:
        """Return the members, weighted by the slopes of the linear final estimator, and its constant.

        Raises ValueError if the final estimator is not linear, with `passthrough`, or with several levels.
        """
        members, *deeper = self._fitted_levels
        if deeper or self._as_fitted().passthrough:
            raise ValueError(
                "the stack must have one level and passthrough=False to be explained. Explain the members instead."
            )
        table = self._final_table(rows.X)
        predicted = number_response("final_estimator", self.final_estimator_, table)[:, 0]
        for slopes, constant in _linear_candidates(self.final_estimator_, table):
            line = table @ slopes + constant
            if np.allclose(line, predicted, rtol=1e-9, atol=1e-9 * np.abs(predicted).max()):
                break
        else:
            raise ValueError(
                f"final_estimator must be linear for the stack to be explained; got {self.final_estimator_!r}. "
                "Explain the members instead."
            )
        pairs = zip(members, slopes.tolist(), strict=True)
        return [part for member, slope in pairs for part in member.parts(slope)], constant

    def predict(self, X: ArrayLike, **options: Any) -> Any:
        """Return the prediction of each row, shape (n_samples,) or (n_samples, n_targets).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        **options
            Arguments of the final estimator's `predict`, such as ``return_std=True``; the result is then returned
            unchanged.
        """
        table = self._final_table(X)
        if options:
            return self.final_estimator_.predict(table, **self._routed_options(options))
        return self._squeeze_targets(number_response(_FINAL, self.final_estimator_, table, self._n_targets))


def _linear_candidates(estimator: Any, table: Array) -> Iterator[tuple[Array, float]]:
    """Yield (slopes, constant) candidates of a linear regressor: its coefficients, then finite differences.

    `table` is its input, whose column means are the point of the differences. With the coefficients, the explanation of
    a row does not depend on the other rows.
    """
    n_members = table.shape[1]
    slopes, constant = np.ravel(getattr(estimator, "coef_", ())), np.ravel(getattr(estimator, "intercept_", ()))
    if slopes.shape == (n_members,) and constant.shape == (1,):
        if isinstance(estimator, RidgeStacker):
            slopes = slopes / estimator.scale_
            constant = constant - added(slopes * estimator.center_)
        yield slopes, float(constant[0])
    corners = np.vstack([np.zeros(n_members), np.eye(n_members)]) + table.mean(axis=0)
    heights = number_response("final_estimator", estimator, corners)[:, 0]
    yield heights[1:] - heights[0], float(heights[0] - (heights[1:] - heights[0]) @ corners[0])
