"""Code shared by the stacking classifier and regressor: levels of members, each fitted on the predictions before it."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import joblib
import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, clone, is_classifier
from sklearn.utils import check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, get_routing_for_object, process_routing
from sklearn.utils.validation import _check_feature_names_in

from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.checked_parameters import with_parameters
from fastens.combining.folds import (
    FittedMember,
    Fold,
    FoldFit,
    GivenRows,
    LevelPlan,
    MemberData,
    MemberSpec,
    fit_level,
    fit_member,
    known_rows,
    restrict_folds,
)
from fastens.combining.levels import BaseLevels
from fastens.combining.members import is_dropped
from fastens.combining.memory import Fits, responses_of
from fastens.combining.one_class import OneClassClassifier
from fastens.combining.parameters import (
    DOCS,
    LEVEL_RULES,
    LEVELS,
    RULES,
    VERBOSE,
    NamedMembers,
    check_kind,
    routing_enabled,
    seeded,
)
from fastens.combining.responses import MemberError
from fastens.combining.stackers import LogisticStacker, RidgeStacker
from fastens.docstrings import Docs, entries
from fastens.engine.threads import resolve_n_jobs
from fastens.parameters import FLAG, NONE, Rule, one_of, parameter
from fastens.rollback import leave
from fastens.saving import nested_arrays, nested_model
from fastens.table.answers import transforms_streams
from fastens.table.frames import is_frame
from fastens.table.memory_limits import TableShape
from fastens.table.parts import free_names, in_one
from fastens.table.sample_weights import WEIGHT_TYPE

Array = NDArray[np.float64]
_FINAL = "final_estimator"

STACKERS = ("linear", "boosting")
STACKING_DOCS = entries("""\
cv : int, splitter, list of (train, test), "prefit" or None
    The folds; None: 5, stratified for classes of one target. "prefit": the members are fitted already, on other rows.
random_state : int, RandomState or None
    Seeds the members, and the final estimator, whose own random_state is None.
""")

FoldFits = dict[tuple[str, int], FoldFit]


@dataclass
class FitProgress:
    """The state of a running fit."""

    data: MemberData
    options: Any  # cv and refit, which also determine the folds
    folds: list[Fold]
    levels: list[tuple[list[MemberSpec], MemberData, FoldFits]] = field(default_factory=list)

    def finished(self) -> FinishedFits:
        """The finished fits, with hashes in place of the rows."""
        rows = _hash_rows(self.data)
        levels = [
            (rows if data is self.data else _hash_rows(data), _hash_members(specs), fold_fits)
            for specs, data, fold_fits in self.levels
        ]
        return FinishedFits(_hash([rows, self.options]), self.folds, levels)

    def describe(self) -> str:
        """The finished fits by member, for an error."""
        names = [name for _, _, fold_fits in self.levels for name, _ in fold_fits]
        return ", ".join(f"{name} ({names.count(name)} fits)" for name in dict.fromkeys(names)) or "none"


@dataclass
class FinishedFits:
    """What `warm_start` keeps from one fit to the next: fitted members, and hashes of their data and parameters."""

    rows: str
    folds: list[Fold]
    levels: list[tuple[str, dict[str, str], FoldFits]]

    def folds_for(self, data: MemberData, options: Any) -> list[Fold] | None:
        """The folds, if these are the same rows: random folds are not drawn again."""
        return self.folds if _hash([_hash_rows(data), options]) == self.rows else None

    def fits_for(self, depth: int, specs: list[MemberSpec], data: MemberData) -> FoldFits:
        """The finished fits of a level whose members and data are unchanged."""
        if depth >= len(self.levels) or self.levels[depth][0] != _hash_rows(data):
            return {}
        _, before, fold_fits = self.levels[depth]
        now = _hash_members(specs)
        return {key: piece for key, piece in fold_fits.items() if before.get(key[0]) == now.get(key[0])}


def _hash_rows(data: MemberData) -> str:
    weight = data.sample_weight, data.weight_unit
    return _hash([data.X, data.y, data.classes, weight, data.groups, data.validation, data.routed])


def _hash_members(specs: list[MemberSpec]) -> dict[str, str]:
    return {spec.name: _hash([spec.estimator, spec.columns, spec.method]) for spec in specs}


def _hash(value: Any) -> str:
    """A hash of the content; for what cannot be pickled, such as a local class, a unique one.

    It is made after Ctrl-C too, so it must be quick: processors have instructions for SHA-1.
    """
    try:
        return str(joblib.hash(value, hash_name="sha1"))
    except (pickle.PicklingError, AttributeError, TypeError):
        return uuid.uuid4().hex


@transforms_streams
@with_parameters
class BaseStacking(TransformerMixin, BaseLevels):
    """What the classifier and the regressor share."""

    _parameter_rules: ClassVar = {
        **RULES,
        **LEVEL_RULES,
        "final_estimator": Rule("an estimator", lambda value: hasattr(value, "fit") and not isinstance(value, type))
        | one_of(*STACKERS)
        | NONE,
        "levels": LEVELS | NONE,
        "passthrough": FLAG,
        "warm_start": FLAG,
        "verbose": VERBOSE,
    }
    _learned: ClassVar[str] = "final_estimator_"
    _docs: ClassVar[Docs] = {**DOCS, **STACKING_DOCS}

    estimators: NamedMembers | None = field(default=None, kw_only=False)
    final_estimator: Any = field(default=None, kw_only=False)
    levels: list[NamedMembers] | None = None
    cv: Any = None
    passthrough: bool = False
    inputs_from: str = "last"
    refit: bool = False
    columns: Mapping[str, Any] | None = None
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    warm_start: bool = False
    verbose: int | bool = False
    random_state: Any = None
    n_jobs: int | None = None

    final_estimator_: Any = field(init=False)
    oof_predictions_: dict[str, Array] = field(init=False)

    @property
    def stack_method_(self) -> list[str]:
        """The method of each member that is used."""
        self._check_fitted()
        return [member.method for members in self._fitted_levels for member in members]

    def _levels(self) -> list[NamedMembers]:
        if self.levels is None:
            return super()._levels()
        if self.estimators is not None:
            raise ValueError("estimators must be None where levels are given.")
        return [[(name, member) for name, member in level if not is_dropped(member)] for level in self.levels]

    # Fit --------------------------------------------------

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Train the members out of fold, and the final estimator on what they predict.

        After a MemberError the members finished before it are kept, for a `fit` of the same rows with `warm_start`.
        """
        specs = self._specs()
        self.__dict__.pop("oof_predictions_", None)
        self._finished: FinishedFits | None = getattr(self, "_finished", None)
        progress = self._start_progress(data, rows)
        try:
            self._fit_levels(specs, progress, rows)
        except BaseException as error:
            if isinstance(error, MemberError):
                error.args = (f"{error} Kept for a fit of the same rows with warm_start=True: {progress.describe()}.",)
            self._finished = progress.finished()
            leave(self, error, "_finished")
            raise
        self._finished = progress.finished() if self.warm_start else None

    def _planned_fits(self, shape: TableShape) -> Fits:
        fits = super()._planned_fits(shape)
        n_columns = len(fits.members) * responses_of(self, shape)
        of_final = shape._replace(n_columns=n_columns, n_stored=None, kind="array", value_bytes=8, n_values=None)
        if not self.passthrough:
            return fits._replace(further=(("final_estimator", self._final_template(), of_final),))
        of_final = of_final._replace(n_columns=n_columns + shape.n_columns)
        return fits._replace(n_columns=n_columns, further=(("final_estimator", self._final_template(), of_final),))

    def _start_progress(self, data: MemberData, given: GivenRows) -> FitProgress:
        """The folds; with `warm_start`, those of the previous fit on the same rows."""
        if self._is_prefit:
            return FitProgress(data, None, [])
        options = [self.cv, self.refit]
        folds = self._finished.folds_for(data, options) if self.warm_start and self._finished else None
        if folds is None:
            self._finished = None
            folds = self._folds(data, given)
        return FitProgress(data, options, folds)

    def _fit_levels(self, specs: list[list[MemberSpec]], progress: FitProgress, given: GivenRows) -> None:
        """Fit level after level on the rows that have predictions so far, then the final estimator."""
        first = data = progress.data
        folds = progress.folds
        levels: list[list[FittedMember]] = []
        metas: list[Array] = []
        out_of_fold: dict[str, Array] = {}
        for level in specs:
            members, responses = self._resume_level(level, data, folds, progress)
            levels.append(members)
            for spec, found in zip(level, responses, strict=True):
                out_of_fold[spec.name] = given.scatter(found)
            metas.append(self._meta(responses))
            known = known_rows(responses)
            if not known.all():
                kept = np.flatnonzero(known)
                folds, first = restrict_folds(folds, known), first.take(kept)
                given, metas = GivenRows(given.rows[kept], given.n_given), [meta[kept] for meta in metas]
            validation = None if first.validation is None else self._level_table(levels, first.validation[0])
            data = first.with_table(self._next_table(levels, metas, first.X), validation)
        self._fit_final(data)
        self._fitted_levels, self.oof_predictions_ = levels, out_of_fold

    def _resume_level(
        self, specs: list[MemberSpec], data: MemberData, folds: list[Fold], progress: FitProgress
    ) -> tuple[list[FittedMember], list[Array]]:
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
        seeds = None if self.random_state is None else check_random_state(self.random_state)
        estimator = seeded(self._final_template(), seeds)
        check_kind("final_estimator", estimator, is_classifier(self))
        if isinstance(data.classes, np.ndarray) and len(data.classes) == 1:
            estimator = OneClassClassifier()
        # Without requests of its own it gets the weights, as in scikit-learn.
        is_routed = data.routed is not None and _FINAL in data.routed
        data = data if is_routed else replace(data, routed=None)
        self.final_estimator_ = fit_member(MemberSpec(_FINAL, estimator, None, "predict"), data, data.X)

    def _final_template(self) -> Any:
        """The final estimator, not fitted: by default linear on predictions alone, boosting where columns come too."""
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
        """Return which metadata `fit` passes on to which member, and `predict` to the final estimator.

        `fit` does too where the final estimator has a request for its `fit`.
        """
        mapping = MethodMapping().add(caller="predict", callee="predict")
        if _FINAL in self._routed_names():
            mapping.add(caller="fit", callee="fit")
        return super().get_metadata_routing().add(final_estimator=self._final_template(), method_mapping=mapping)

    def _routed_names(self) -> list[str]:
        requests = getattr(getattr(get_routing_for_object(self._final_template()), "fit", None), "requests", {})
        return super()._routed_names() + ([] if {*requests.values()} <= {None, False} else [_FINAL])

    def _passed_on(self, options: dict[str, Any]) -> dict[str, Any]:
        """Arguments of the final estimator's `predict`: all, or those that scikit-learn's metadata routing gives it."""
        if not options or not routing_enabled():
            return options
        return process_routing(self, "predict", **options).final_estimator.predict

    # Tables of predictions --------------------------------------------------

    def transform(self, X: ArrayLike) -> Any:
        """Return what the final estimator gets: predictions of levels, and the columns with `passthrough`."""
        table = in_one(self._final_table(X))
        if _get_output_config("transform", self)["dense"] == "pandas" and is_frame(table):
            return nw.from_native(table, eager_only=True).to_pandas()  # pandas itself does not know other frames' types
        return table

    def _final_table(self, X: Any) -> Any:
        """The same, whatever kind of table `set_output` wants."""
        self._check_fitted()
        return self._as_fitted()._level_table(self._fitted_levels, self._check_table(X))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`."""
        self._check_fitted()
        fitted = self._as_fitted()
        columns = _check_feature_names_in(self, input_features, generate_names=fitted.passthrough)
        beside = list(columns) if fitted.passthrough else []
        names = free_names(fitted._meta_names(self._fitted_levels), beside)
        return np.asarray([*names, *beside], dtype=object)

    # Saving --------------------------------------------------

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        arrays = nested_arrays("final.", self.final_estimator_, "The final estimator")
        arrays |= self._level_arrays()
        return arrays | {f"oof.{name}": found for name, found in self.oof_predictions_.items()}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._restore_levels(arrays)
        self.final_estimator_ = nested_model("final.", arrays, "The final estimator")
        self.oof_predictions_ = {n.removeprefix("oof."): a for n, a in arrays.items() if n.startswith("oof.")}
