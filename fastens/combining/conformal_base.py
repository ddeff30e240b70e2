"""Base class of conformal estimators: held-out rows, calibration groups, updates and model files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier

from fastens.base import Capabilities
from fastens.combining.folds import (
    ExplainedRows,
    FittedMember,
    Fold,
    GivenRows,
    MemberData,
    MemberSpec,
    Part,
    make_folds,
    members_from_arrays,
    members_to_arrays,
)
from fastens.combining.members import BaseOneEstimator
from fastens.combining.responses import added, place_columns, positions_of_classes
from fastens.conformal.scores import COVERAGE, Conditions, HeldOut, RowConditions, adapted_coverage, nearest_columns
from fastens.engine.rows.sampling import Subsample, content_hashes, random_stream
from fastens.forests.bags import draw_seed
from fastens.forests.out_of_bag import LEVELS
from fastens.modelfile.saving import Arrays, Saved, SavedParts
from fastens.monitoring.callbacks import levels_of, predicts_distribution
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, ESTIMATOR, FLAG, NONE, RANDOM_STATE, parameter, real
from fastens.params.types import Coverage, Folds, RandomState
from fastens.table.opening import as_given
from fastens.table.parts import as_numbers
from fastens.table.training_data import WEIGHT_TYPE, check_same_rows, warn_of_duplicates

Array = NDArray[np.float64]

_MEMBERS, _FOLD, _N_PARTS, _ADAPTED = "members.", "fold", "n_parts", "adapted"
OUT_OF_BAG = "oob"
STEP = real(0, 1)


@with_parameters
class BaseConformal(BaseOneEstimator):
    """Base class of estimators calibrated with conformal scores of held-out rows.

    Parameters
    ----------
    cv : int, splitter, list of (train, test), "prefit", "oob" or None
        How rows are held out for calibration. If None, `calibration_fraction` of the rows is held out, independent of
        the order of the table; a row of weight 2 counts as two rows. If a number, that many folds are used. A
        scikit-learn splitter must not hold out a row twice, and must not split by time as `TimeSeriesSplit` does.
        "prefit" means that the estimator is already fitted, and `fit` receives rows that it was not trained on. "oob"
        calibrates a forest or a bagging estimator on its out-of-bag predictions.
    random_state : int, RandomState or None
        Determines the held-out rows, and seeds an estimator whose `random_state` is None.

    Attributes
    ----------
    estimators_ : list
        The fitted estimators: one, or one for each fold.
    """

    _capabilities = Capabilities(supports_out_of_core=False, predicts_row_sources=False)
    _docs: ClassVar[Docs] = BaseOneEstimator._docs | described(__doc__)
    _learned: ClassVar[str] = "_parts"
    _is_weighted_sum = True

    estimator: BaseEstimator | None = parameter(ESTIMATOR | NONE, default=None, kw_only=False)
    cv: Folds = parameter(ANYTHING, default=None)
    calibration_fraction: float = parameter(real(0, 1, open_low=True, open_high=True), default=0.2)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    # Forest that predicts the errors of held-out rows; None if all intervals are calibrated in the same way.
    _error_forest: Any = field(init=False, default=None)

    # Fit --------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        group: ArrayLike | str | None = None,
        likelihood_ratio: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        **metadata: Any,
    ) -> Self:
        """Fit the estimator and calibrate it on held-out rows.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Any table that the estimator accepts.
        {y}
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, for the estimator and the calibration. A weight of 2 is equivalent to a duplicated row,
            and a weight of 0 to a removed row.
        groups : array of shape (n_samples,), optional
            Groups of rows that belong together, such as the rows of one person. All rows of a group are held out
            together.
        group : array of shape (n_samples,) or str, optional
            Calibration groups: the coverage holds within each of them (Mondrian conformal prediction). An array, or the
            name of a column of X, which remains a feature. Missing values form one group.
        likelihood_ratio : array of shape (n_samples,), optional
            Density of the rows to predict divided by the density of these rows, up to a common factor, at each row. It
            weights the calibration rows, but not the training rows, for new rows under a covariate shift.
        X_val, y_val : table and array, optional
            Validation set, for an estimator with early stopping whose `fit` accepts one.
        **metadata
            Metadata that the estimator requests, if scikit-learn's metadata routing is enabled.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the data are invalid; MemberError, a subclass, if the estimator cannot be fitted or used.
        TypeError
            If weights are passed and the `fit` of the estimator does not accept them.
        """
        fit_arguments = {"sample_weight": sample_weight, "groups": groups, "X_val": X_val, "y_val": y_val, **metadata}
        self.__dict__.pop(self._learned, None)
        data, rows = self._start_members(X, y, fit_arguments)
        self._conditions, conditions = Conditions.learn(X, rows.n_given, group, likelihood_ratio)
        self._adapted: dict[float, list[float]] = {}
        self._fit_calibrated(data, rows, conditions.take(rows.rows))
        return self

    def _fit_calibrated(self, data: MemberData, rows: GivenRows, conditions: RowConditions) -> None:
        """Fit the estimator on all rows (out of bag) or on training folds, and store the scores of held-out rows.

        `conditions` holds the calibration groups and likelihood ratios of the rows.
        """
        if self._is_out_of_bag:
            member, responses, predicted_rows = self._fit_bags(data)
            folds = [(np.arange(0), predicted_rows)]
        else:
            data, folds = self._calibration_folds(data, rows)
            member, responses = self._fit_copies(data, folds)
        of_folds = [
            self._calibrate(model, responses[test], data.take(test), conditions.take(test))
            for model, (_, test) in zip(member.models, folds, strict=True)
        ]
        self._parts = list(map(list, zip(*of_folds, strict=True)))  # for each target, its held-out rows in each fold
        self._member = member

    @property
    def _is_out_of_bag(self) -> bool:
        return isinstance(self.cv, str) and self.cv == OUT_OF_BAG

    def _fit_bags(self, data: MemberData) -> tuple[FittedMember, Array, NDArray[np.intp]]:
        """Return the estimator fitted on all rows, its out-of-bag responses, and the indices of rows that have one.

        Raises ValueError if there are groups, or if no row is out of bag.
        """
        if data.groups is not None:
            raise ValueError(
                "groups must be None with cv='oob', because bootstrap samples split groups. Pass a group splitter as "
                "cv, such as GroupKFold()."
            )
        spec = self._seeded_spec(clone(self._template()).set_params(oob_score=True))
        (member,), _ = self._fit_level([spec], data, [])
        model = member.models[0]
        if is_classifier(self):
            positions = positions_of_classes("estimator", np.asarray(model.classes_), cast(Any, self.classes_))
            responses = place_columns(np.asarray(model.oob_decision_function_), positions, len(self.classes_), 0.0)
        else:
            responses = np.asarray(model.oob_prediction_).reshape(data.n_rows, -1)
        predicted_rows = np.flatnonzero(~np.isnan(responses).any(axis=1))
        if not len(predicted_rows):
            raise ValueError("estimator must leave rows out of its bags with cv='oob'; all rows are in all bags.")
        return member, responses, predicted_rows

    def _calibration_folds(self, data: MemberData, rows: GivenRows) -> tuple[MemberData, list[Fold]]:
        """Return the data, which subclasses may change, and its folds; if prefit, one fold holds out all rows."""
        if self._is_prefit:
            return data, [(np.arange(0), np.arange(data.n_rows))]
        return data, [self._split(data)] if self.cv is None and data.groups is None else self._folds(data, rows)

    def _fit_copies(self, data: MemberData, folds: list[Fold]) -> tuple[FittedMember, Array]:
        """Return a fitted copy of the estimator for each fold, as one member, and the responses for held-out rows."""
        (member,), (responses,) = self._fit_level([self._seeded_spec(self._template())], data, folds, refit=False)
        return member, responses

    def _seeded_spec(self, estimator: Any) -> MemberSpec:
        """Return the specification of a seeded copy, which responds with quantiles if it predicts distributions."""
        spec = self._spec("estimator", estimator, self._seed_source(), 0, is_classifier(self))
        method = "_calibrated_quantiles" if predicts_distribution(estimator) else spec.method
        return replace(spec, n_outputs=None, method=method)

    def _validate_combinations(self) -> None:
        """Raise ValueError if cv="oob" is set for an estimator without out-of-bag predictions."""
        super()._validate_combinations()
        # Out-of-bag predictions of boosting depend on rounds that were trained on the row, and omit the other rounds.
        if self._is_out_of_bag and not {"bootstrap", "oob_score"} <= self._template().get_params().keys():
            raise ValueError(
                "cv must not be 'oob' for an estimator without the parameters bootstrap and oob_score; got "
                f"{type(self._template()).__name__}. Use a forest or a bagging estimator, or a number of folds."
            )

    def _folds(self, data: MemberData, rows: GivenRows) -> list[Fold]:
        """Return the folds; raise ValueError if a row is held out twice or all test sets follow their training set."""
        folds = make_folds(self._splitter() if self.cv is None else self.cv, data, rows)
        held_out = np.concatenate([test for _, test in folds])
        if _draws_several_splits(self.cv) or len(np.unique(held_out)) < len(held_out):
            raise ValueError(
                f"cv must not hold out a row more than once; got {self.cv!r}. Use a number of folds or KFold, "
                "which hold out each row once."
            )
        if len(folds) > 1 and all(train.max(initial=-1) < test.min(initial=data.n_rows) for train, test in folds):
            raise ValueError(
                "cv must not hold out only rows that follow the training rows, because coverage is guaranteed for "
                f"exchangeable rows; got {self.cv!r}. Use a number of folds if the order of the rows has no meaning. "
                "For time series, hold out the last rows, as in cv=[(train, test)], or use cv='oob', and call "
                "update(X, y) with each new target."
            )
        return folds

    def _split(self, data: MemberData) -> Fold:
        """Return the indices of training and held-out rows, which are drawn with probabilities independent of weights.

        Raises ValueError if `calibration_fraction` leaves no training row.
        """
        n_held_out = math.ceil(self.calibration_fraction * data.n_rows)
        if n_held_out == data.n_rows:
            raise ValueError(
                f"calibration_fraction must leave at least one training row; got {self.calibration_fraction} "
                f"with n_samples = {data.n_rows}."
            )
        numbers = as_numbers(data.X)
        hashes = content_hashes(numbers, data.y)
        warn_of_duplicates(hashes, numbers, data.y)
        is_held_out = Subsample.plan(hashes, None, n_held_out).draw(random_stream(draw_seed(self.random_state), 0)) > 0
        return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)

    def _splitter(self) -> Any:
        """Return the splitter that is used if `cv` is None and there are groups; it holds out whole groups."""
        from sklearn.model_selection import GroupShuffleSplit

        return GroupShuffleSplit(1, test_size=self.calibration_fraction, random_state=draw_seed(self.random_state))

    def _routed_splitter(self) -> Any:
        """Return the splitter whose metadata request is read: `cv`, or a group splitter if it is None."""
        from sklearn.model_selection import GroupShuffleSplit

        return GroupShuffleSplit() if self.cv is None else self.cv

    def _calibrate(self, model: Any, responses: Array, data: MemberData, conditions: RowConditions) -> list[HeldOut]:
        """Return one `HeldOut` of nonconformity scores per target, from a model's `responses` for held-out rows."""
        raise NotImplementedError

    # Update --------------------------------------------------

    def update(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        coverage: Coverage = 0.9,
        step: float = 0.005,
        slides: bool = True,
        group: ArrayLike | str | None = None,
    ) -> Self:
        """Return a model that is recalibrated by the next rows of a time series; this model is unchanged.

        Each row for which the interval or set did not contain the target widens the next ones, and every other row
        narrows them slightly (adaptive conformal inference). The new rows also replace the oldest calibration rows, as
        in EnbPI if ``cv="oob"``. The estimator is not fitted again. Over T rows that are passed in order, one call for
        each prediction, the observed coverage differs from `coverage` by at most 1 / (T `step`) + 1 / T for any
        sequence of targets.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            New rows, in the order of time.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Their targets.
        coverage : float or list of float, default=0.9
            The coverages to adapt, which later predictions must request.
        step : float, default=0.005
            Step size. Larger values adapt faster to drift and vary more. If 0, only the calibration rows change.
        slides : bool, default=True
            If True, the new rows replace as many of the first calibration rows, in the order of `fit`.
        group : array of shape (n_samples,) or str, optional
            Calibration group of each row, if `fit` received them as an array.

        Returns
        -------
        ConformalRegressor or ConformalClassifier

        Raises
        ------
        ValueError
            If several folds, likelihood ratios, or the out-of-bag errors of the forest that method="auto" fits, were
            used for calibration.

        References
        ----------
        I. Gibbs, E. Candes (2021). Adaptive conformal inference under distribution shift. NeurIPS 34. C. Xu, Y. Xie
        (2021). Conformal prediction interval for dynamic time-series. ICML.
        """
        self._check_fitted()
        self._check_can_update()
        STEP.check("step", step)
        FLAG.check("slides", slides)
        coverages = np.atleast_1d(np.asarray(coverage, dtype=object)).tolist()
        for each in coverages:
            COVERAGE.check("coverage", each)
        target = self._encode_target(self._read_target(y))
        table = as_given(X, type(self).__name__)
        check_same_rows(table.shape[0], len(target))
        rows = self._conditions.of_rows(table, len(target), group, None)
        if rows.group is not None and (rows.group < 0).any():
            raise ValueError(
                "group must contain only groups that were present in fit; got a new group. Fit again to add groups."
            )
        updated, new = copy(self), self._new_scores(table, target, rows)
        updated._adapted = self._adapted | {
            each: [
                adapted_coverage(
                    level, each, step, *_weight_below(held_out_folds[0], fresh, self._scored_columns(fresh, each))
                )
                for level, held_out_folds, fresh in zip(self._levels_for(each), self._parts, new, strict=True)
            ]
            for each in coverages
        }
        if slides:
            updated._parts = [
                [held_out_folds[0].slid(fresh)] for held_out_folds, fresh in zip(self._parts, new, strict=True)
            ]
        return updated

    def _check_can_update(self) -> None:
        """Raise ValueError if folds, likelihood ratios or a forest's out-of-bag errors make updates impossible."""
        if any(len(held_out_folds) > 1 for held_out_folds in self._parts):
            raise ValueError(
                f"cv must hold out a single set of rows to update the model; got several folds from {self.cv!r}. Use "
                "cv=[(train, test)] with the last rows as test, or cv='oob'."
            )
        if self._conditions.has_ratios:
            raise ValueError(
                "likelihood_ratio must be None in fit to update the model, which adapts to a covariate shift itself."
            )
        if self._error_forest is not None and self.cv is not None:
            raise ValueError(
                "method must be 'constant' or 'cqr' to update the model; got 'auto', which does not keep its "
                "calibration rows in order of time."
            )

    def _new_scores(self, X: Any, y: Array, rows: RowConditions) -> list[HeldOut]:
        """Return the nonconformity scores of new rows with known targets, one `HeldOut` for each target."""
        raise NotImplementedError

    def _scored_columns(self, new: HeldOut, coverage: float) -> tuple[int, int] | None:
        """Return the indices of the quantile columns nearest to the ends of the interval; None for classifiers."""
        if is_classifier(self):
            return None
        levels = LEVELS if self._error_forest is not None else levels_of(self._member.models[0])
        return nearest_columns(levels, new.values.shape[1], coverage)

    def _levels_for(self, coverage: Any) -> list[float]:
        """Return the adapted coverage for each target, which is `coverage` before the first update."""
        return self._adapted.get(float(coverage), [coverage] * len(self._parts))

    # Predict --------------------------------------------------

    def _responses(self, X: Any) -> list[Array]:
        """Return each model's response for new rows, (n_samples, n_outputs) each."""
        self._check_fitted()
        X = self._check_table(X)
        return [self._member.respond_with(model, X) for model in self._member.models]

    def _explained_parts(self, rows: ExplainedRows) -> tuple[list[Part], float]:
        """Return the fitted models for explanations, with weights that sum to 1, and a constant of 0."""
        return self._member.parts(1.0), 0.0

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimators: one, or one for each fold."""
        self._check_fitted()
        return list(self._member.models)

    # Saving --------------------------------------------------

    def _calibration_arrays(self) -> Arrays:
        """Return the members, calibration scores and adapted coverages as arrays to save."""
        n_parts = np.array([len(self._parts), len(self._parts[0])])
        arrays = members_to_arrays(_MEMBERS, [self._member]) | {_N_PARTS: n_parts} | self._conditions.to_arrays("")
        for target, parts in enumerate(self._parts):
            for number, part in enumerate(parts):
                arrays |= part.to_arrays(f"{_FOLD}{target}.{number}.")
        if self._adapted:
            arrays[_ADAPTED] = np.array([[each, *levels] for each, levels in self._adapted.items()])
        return arrays

    def _restore_calibration(self, arrays: Arrays) -> None:
        """Set members, calibration scores and adapted coverages from saved arrays; raise ValueError if malformed."""
        (self._member,) = members_from_arrays(_MEMBERS, arrays, getattr(self, "classes_", None), None)
        self._conditions = Conditions.from_arrays("", arrays)
        n_targets, n_folds = arrays[_N_PARTS].tolist()
        self._parts = [
            [HeldOut.from_arrays(f"{_FOLD}{target}.{number}.", arrays) for number in range(n_folds)]
            for target in range(n_targets)
        ]
        if any(
            (part.group is None) != (self._conditions.labels is None)
            for held_out_folds in self._parts
            for part in held_out_folds
        ):
            raise ValueError("the calibration groups are malformed")
        adapted = arrays.get(_ADAPTED, np.empty((0, n_targets + 1)))
        if adapted.ndim != 2 or adapted.shape[1] != n_targets + 1:
            raise ValueError("the adapted coverages are malformed")
        self._adapted = {row[0]: row[1:] for row in adapted.tolist()}

    def _check_calibration(self, arrays: Arrays) -> None:
        """Raise ValueError if the restored calibrations do not match the models in number."""
        n_calibrated = len(self._member.models) if self._error_forest is None else 1
        if not self._parts or len(self._parts[0]) != n_calibrated:
            raise ValueError("the number of calibrations does not match the number of models")

    _saved: ClassVar[SavedParts] = (Saved(_calibration_arrays, _restore_calibration, _check_calibration),)


def _weight_below(calibration: HeldOut, new: HeldOut, columns: tuple[int, int] | None) -> tuple[Array, Array]:
    """Return, for each new row, the weight of lower scores in its group and class, and the total weight of these.

    The total includes the new row's weight. `columns` are the indices of the lower and upper quantiles in the scores of
    regressors; None for classifiers.
    """
    raw, below, total = new.raw(columns), np.empty(len(new.weight)), np.empty(len(new.weight))
    groups, labels = ([None] * len(raw) if each is None else each.tolist() for each in (new.group, new.label))
    for row, (group, label) in enumerate(zip(groups, labels, strict=True)):
        scores = calibration.scores(columns, group, label)
        below[row], total[row] = scores.weight_below(raw[row : row + 1])[0], scores.total + new.weight[row]
    return below, total


def _draws_several_splits(cv: Any) -> bool:
    """Return True if a splitter draws several independent splits, whose test sets may overlap."""
    from sklearn.model_selection import BaseShuffleSplit

    return isinstance(cv, BaseShuffleSplit) and cv.get_n_splits() > 1


def mean_response(responses: Sequence[Array]) -> Array:
    """Return the mean of the models' responses, with the shape of one response."""
    return added(responses) / len(responses)


def effective_weights(data: MemberData, conditions: RowConditions) -> Array:
    """Return the weight of each held-out row, times its likelihood ratio if there are ratios."""
    return data.weight if conditions.ratio is None else data.weight * conditions.ratio
