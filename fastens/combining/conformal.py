"""Conformal prediction around any estimator: intervals for regression, sets for classification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from fastens.base import BaseClassifier, BaseRegressor
from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.combining.conformal_base import BaseConformal, effective_weights, mean_response
from fastens.combining.folds import (
    FittedMember,
    Fold,
    GivenRows,
    MemberData,
    folds_by_number,
    group_folds,
    members_from_arrays,
    members_to_arrays,
)
from fastens.combining.members import BOOSTING, with_requests
from fastens.combining.responses import is_all_ours, joint_classes
from fastens.conformal.scores import (
    COVERAGE,
    SET_SCORES,
    Conditions,
    FoldQuantiles,
    HeldOut,
    RowConditions,
    SetScore,
    at_each_coverage,
    calibrated_sets,
    middle_column,
)
from fastens.engine.losses.column_losses import losses_of_targets
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.forests.bags import draw_seed
from fastens.forests.out_of_bag import LEVELS
from fastens.forests.random_forest import RandomForestRegressor
from fastens.modelfile.saving import Arrays, Saved, SavedParts
from fastens.monitoring.callbacks import levels_of
from fastens.params.estimator import with_parameters
from fastens.params.rules import FLAG, Rule, one_of, parameter, real, whole
from fastens.params.types import Coverage
from fastens.table.parts import as_numbers, hstack, take_rows
from fastens.table.training_data import IMPORTANCE, learn_labels

Array = NDArray[np.float64]

N_FOLDS = 5
# Predictions are rounded to multiples of the largest error divided by 2**_DIGITS, except those of at least _MAX_STEPS
# multiples.
_DIGITS, _MAX_STEPS = 30, 2.0**52
_COLUMN = "conformalregressor_prediction"


def content_folds(data: MemberData) -> list[Fold]:
    """Return folds by a hash of each row, or by `groups` if there are any; empty if all rows share one fold."""
    if data.groups is not None:
        return group_folds(data, N_FOLDS)
    return folds_by_number(content_hashes(as_numbers(data.X), data.y) % np.uint64(N_FOLDS))


def fit_error_forest(data: MemberData, predicted: Array, seed: int, n_jobs: int | None) -> RandomForestRegressor:
    """Return a forest that predicts y minus `predicted`, (n_rows, 1), from the predictions and the columns of X.

    Rows without a prediction (NaN) are left out.
    """
    part = data.take(np.flatnonzero(~np.isnan(predicted[:, 0])))
    predicted = predicted[~np.isnan(predicted[:, 0])]
    table, error = _table(predicted, part.X), part.y - predicted[:, 0]
    # Duplicate rows are merged into one row with the sum of their weights; otherwise a row could be out of bag while
    # its copy is in the bag. The number of draws is the number of rows regardless of the weights, so some rows are left
    # out.
    _, rows, copy_of = np.unique(content_hashes(as_numbers(table), error), return_index=True, return_inverse=True)
    weight = np.bincount(copy_of, part.weight)
    forest = RandomForestRegressor(oob_score=True, weight_type=IMPORTANCE, random_state=seed, n_jobs=n_jobs)
    return forest.fit(take_rows(table, rows), error[rows], weight)


def without_last_digits(predicted: Array, y: Array) -> Array:
    """Return the predictions, (n_rows, 1), rounded to a billionth of the largest error.

    The last digits of other libraries' predictions depend on copies of rows and on the memory layout of the table, and
    the bags of a forest depend on every digit.
    """
    largest = np.nanmax(np.abs(y[:, None] - predicted))
    step = np.ldexp(float(largest > 0), int(np.frexp(largest)[1]) - _DIGITS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(np.abs(predicted) < step * _MAX_STEPS, np.rint(predicted / step) * step, predicted)


def local_quantiles(forest: RandomForestRegressor, X: Any, predicted: Array) -> Array:
    """Return target quantiles at LEVELS, (n_rows, n_levels): `predicted`, (n_rows, 1), plus quantiles of errors."""
    return predicted + forest.predict_quantiles(_table(predicted, X), LEVELS)


def _table(predicted: Array, X: Any) -> Any:
    """Return a table of the predictions, (n_rows, 1), followed by the columns of `X`."""
    return hstack(predicted, [_COLUMN], X)


# With fewer rows, all intervals have the same width.
MIN_ROWS = 20
_FOREST = "forest."
_MONOTONE = ("monotonic_cst", "monotone_constraints")


def _are_levels(value: Any) -> bool:
    """Return True if a value is an increasing sequence of at least two quantile levels between 0 and 1."""
    if np.ndim(value) != 1 or not all(map(COVERAGE.holds, value)):
        return False
    return len(value) > 1 and all(low < high for low, high in pairwise(value))


QUANTILES = Rule("at least two ascending numbers between 0 and 1", _are_levels)


@with_parameters
class ConformalRegressor(BaseRegressor, BaseConformal):
    """Prediction intervals for any regressor that contain the target with a given probability.

    The errors on held-out rows calibrate the intervals. If a single set of rows is held out (split conformal), the
    coverage is guaranteed for any estimator and distribution. With folds, every row is used for training and for
    calibration. The observed coverage is then slightly above `coverage`; the proven bound for method="constant" (CV+)
    is 1 - 2 (1 - coverage), and slightly less with few folds. Both guarantees require new rows that are exchangeable
    with the rows of `fit`: there must be no drift, and `groups` must be passed if rows belong together. Rows of new
    groups reach this coverage only if many groups are held out, as with group folds.

    Parameters
    ----------
    {parameters}
    estimator : regressor or None, default=None
        The regressor, from fastens or any library with scikit-learn's interface. If it predicts several quantiles, one
        column each, or a distribution, the width of the intervals varies by row. If None, gradient boosting is used,
        whose leaves are bounded by weight instead of by rows, so that integer weights count as copies.
    method : {"auto", "constant", "cqr"}, default="auto"
        With "auto", the width of the intervals varies by row. A random forest learns the errors of held-out
        predictions. Its quantiles of the error of a new row, shifted to reach the coverage, give the ends of the
        interval. If a single set of rows is held out, the prediction is the mean over models of five folds of the other
        rows. With "constant", there is one model, or one for each fold, and all intervals have the same width. "auto"
        falls back to "constant" with fewer than 20 rows, with group folds, for an estimator that predicts several
        quantiles or a distribution, and for an estimator with monotone constraints, which both ends then satisfy. "cqr"
        is conformalised quantile regression; the estimator must be fastens gradient boosting, which is fitted with
        loss="quantile" and `quantiles`.
    quantiles : list of float, default=(0.05, 0.5, 0.95)
        Ascending quantile levels for method="cqr". Intervals start from the levels nearest to (1 - coverage) / 2 and
        (1 + coverage) / 2, and `predict` returns the quantile nearest to 0.5.

    Attributes
    ----------
    {attributes}

    References
    ----------
    V. Vovk, A. Gammerman, G. Shafer (2005). Algorithmic learning in a random world. R. Barber, E. Candes, A. Ramdas, R.
    Tibshirani (2021). Predictive inference with the jackknife+. Annals of Statistics 49. Y. Romano, E. Patterson, E.
    Candes (2019). Conformalized quantile regression. NeurIPS 32. B. Lu, J. Hardin (2021). A unified framework for
    random forest prediction error estimation. JMLR 22.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from fastens import ConformalRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ConformalRegressor(Ridge(), cv=10, random_state=0).fit(X[::2], y[::2])
    >>> low, high = model.predict_interval(X[1::2], coverage=0.8).T
    >>> bool(0.75 < ((low <= y[1::2]) & (y[1::2] <= high)).mean() < 0.9)
    True
    """

    _takes_several_targets = True

    method: str = parameter(one_of("auto", "constant", "cqr"), default="auto")
    quantiles: Sequence[float] = parameter(QUANTILES, default=(0.05, 0.5, 0.95))

    def _template(self) -> Any:
        """Return the estimator to copy; with method="cqr", default boosting predicts all `quantiles`."""
        estimator = with_requests(GradientBoostingRegressor(**BOOSTING)) if self.estimator is None else self.estimator
        if self.method != "cqr" or self._is_prefit or not isinstance(estimator, GradientBoostingRegressor):
            return estimator
        return clone(estimator).set_params(loss="quantile", quantile=[float(level) for level in self.quantiles])

    def _validate_combinations(self) -> None:
        """Raise ValueError if method="cqr" is set for an estimator that cannot predict quantiles."""
        super()._validate_combinations()
        if self.method == "cqr" and not isinstance(self._template(), GradientBoostingRegressor):
            raise ValueError(
                "method must be 'auto' or 'constant' unless the estimator is a GradientBoostingRegressor, "
                f"which can predict several quantiles; got {self.method!r} with {self.estimator!r}."
            )
        if self.method == "cqr" and self._is_prefit and levels_of(self.estimator) is None:
            raise ValueError(
                "method must be 'auto' or 'constant' with cv='prefit' unless the estimator predicts several "
                f"quantiles; got {self.method!r}."
            )

    def _fit_calibrated(self, data: MemberData, rows: GivenRows, conditions: RowConditions) -> None:
        """Fit and calibrate with a forest of errors if method="auto" and the data allow it, else as the base class."""
        self._error_forest = None
        is_local = self.method == "auto" and levels_of(self._template()) is None and data.n_rows >= MIN_ROWS
        # Rows of a group have similar errors, so out-of-bag rows would leak the errors of rows in the bag. Out-of-bag
        # errors of the forest of errors have neither groups nor likelihood ratios.
        is_local &= self.cv is None or (data.groups is None and self._conditions == Conditions())
        is_local &= data.y.ndim == 1 and not self._is_out_of_bag
        # Widths that vary by row would violate the monotone constraints.
        is_local &= not _is_monotone(self._template())
        if not (is_local and self._fit_with_error_forest(data, rows, conditions)):
            super()._fit_calibrated(data, rows, conditions)

    def _fit_with_error_forest(self, data: MemberData, rows: GivenRows, conditions: RowConditions) -> bool:
        """Cross-fit the estimator and fit a forest to its errors, for intervals whose width depends on X.

        `conditions` holds calibration groups and likelihood ratios by row. Returns False, without storing anything, if
        there are too few different rows for folds or if predictions have several columns.
        """
        train, folds = self._calibration_folds(replace(data, narrows=is_all_ours(self._template())), rows)
        held_out = None
        if self.cv is None:
            ((chosen, others),) = folds
            held_out, train, conditions = train.take(others), train.take(chosen), conditions.take(others)
            folds = content_folds(train)
            if not folds:
                return False
        member, responses = self._fit_copies(train, folds)
        if responses.shape[1] > 1:
            return False
        if not is_all_ours(self._template()):
            responses = without_last_digits(responses, train.y)
        forest = fit_error_forest(train, responses, draw_seed(self.random_state), self.n_jobs)
        if held_out is None:
            errors = forest._oob_results().measured_conformity().errors
        else:
            columns = local_quantiles(forest, held_out.X, member.respond(held_out.X))
            errors = _errors(columns, held_out, conditions)
        self._parts, self._member, self._error_forest = [[errors]], member, forest
        return True

    def _calibrate(self, model: Any, responses: Array, data: MemberData, conditions: RowConditions) -> list[HeldOut]:
        """Return one `HeldOut` for each target: errors of `responses`, divided by the scales that the loss predicts."""
        targets = data.y.reshape(data.n_rows, -1).T
        columns = _by_target(responses, len(targets))
        scales = _deviations(model, columns)
        pairs = zip(columns, targets, scales, strict=True)
        return [_errors(predicted, replace(data, y=y), conditions, scale) for predicted, y, scale in pairs]

    def predict(self, X: ArrayLike) -> Array:
        """Return the prediction, or the quantile nearest to 0.5, of each row, averaged over the folds' models.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples,), with several targets (n_samples, n_targets)
        """
        predicted = _by_target(mean_response(self._responses(X)), len(self._parts))
        middle = middle_column(levels_of(self._member.models[0]), predicted[0].shape[1])
        predictions = np.column_stack([columns[:, middle] for columns in predicted])
        return predictions if len(self._parts) > 1 else predictions[:, 0]

    @at_each_coverage
    def predict_interval(
        self,
        X: ArrayLike,
        coverage: Coverage = 0.9,
        *,
        group: ArrayLike | str | None = None,
        likelihood_ratio: ArrayLike | None = None,
    ) -> Array:
        """Return an interval for each row that contains its target with a given probability.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability that a new row's target lies in its interval, over rows and training sets. Larger values give
            wider intervals.
            A list adds a last axis with the result of each coverage.
        group : array of shape (n_samples,) or str, optional
            Calibration group of each row, or the column that holds it. Required if `fit` received an array; if `fit`
            received the name of a column, it is read from X. Intervals of new groups, and of groups with too few
            calibration rows, are infinite, and a warning is issued.
        likelihood_ratio : array of shape (n_samples,), optional
            Likelihood ratio of each row, in the units of `fit`. Required if `fit` received ratios.

        Returns
        -------
        array of shape (n_samples, 2), with several targets (n_samples, n_targets, 2)
            Lower and upper ends. They are infinite if there are too few calibration rows: at least
            coverage / (1 - coverage) are needed, which is 9 for 0.9.
        """
        quantiles = self._quantiles(X)
        rows = self._conditions.of_rows(X, len(quantiles[0].predicted[0]), group, likelihood_ratio)
        n_threads, loss = resolve_n_jobs(self.n_jobs), _loss(self._member.models[0])
        losses: Any = [None] * len(quantiles) if loss is None else losses_of_targets(loss)
        intervals = []
        for fold_quantiles, parts, level, loss in zip(
            quantiles, self._parts, self._levels_for(coverage), losses, strict=True
        ):
            ends = fold_quantiles.intervals(parts, self._conditions, rows, (coverage, level), n_threads)
            intervals.append(ends if loss is None else np.clip(ends, *loss.bounds))
        return intervals[0] if len(intervals) == 1 else np.stack(intervals, axis=1)

    def _quantiles(self, X: Any) -> list[FoldQuantiles]:
        """Return the predicted quantiles and error scales of new rows for each target, from the folds' models."""
        responses, models = self._responses(X), self._member.models
        if self._error_forest is not None:
            local = local_quantiles(self._error_forest, self._check_table(X), mean_response(responses))
            return [FoldQuantiles([local], [np.ones(len(local))], LEVELS)]
        predicted = [_by_target(response, len(self._parts)) for response in responses]
        scales = [_deviations(model, columns) for model, columns in zip(models, predicted, strict=True)]
        pairs = zip(zip(*predicted, strict=True), zip(*scales, strict=True), strict=True)
        return [FoldQuantiles(of_folds, scale, levels_of(models[0])) for of_folds, scale in pairs]

    def _new_scores(self, X: Any, y: Array, rows: RowConditions) -> list[HeldOut]:
        """Return the scaled errors of new rows with known targets, one `HeldOut` for each target."""
        targets = y.reshape(len(y), -1).T
        pairs = zip(self._quantiles(X), targets, strict=True)
        return [
            HeldOut.errors(fold_quantiles.predicted[0], y, fold_quantiles.scales[0], None, group=rows.group)
            for fold_quantiles, y in pairs
        ]

    def _forest_arrays(self) -> Arrays:
        """Return the forest of errors as arrays to save; empty if there is none."""
        forest = self._error_forest
        return {} if forest is None else members_to_arrays(_FOREST, [_wrap_as_member(forest)])

    def _restore_forest(self, arrays: Arrays) -> None:
        """Set the forest of errors from saved arrays, if they contain one."""
        if any(name.startswith(_FOREST) for name in arrays):
            (member,) = members_from_arrays(_FOREST, arrays, None)
            self._error_forest = member.kept

    _saved: ClassVar[SavedParts] = ("_n_targets", Saved(_forest_arrays, _restore_forest))


def _wrap_as_member(forest: RandomForestRegressor) -> FittedMember:
    """Return the forest of errors as a fitted member, so that it can be saved like one."""
    return FittedMember("errors", None, "predict", [forest], None, uses_labels=False)


def _is_monotone(estimator: Any) -> bool:
    """Return True if an estimator or a nested one has monotone constraints, by any library's parameter name."""
    constraints = [value for name, value in estimator.get_params().items() if name.split("__")[-1] in _MONOTONE]
    return any(value is not None and np.size(value) > 0 for value in constraints)


def _loss(model: Any) -> Any:
    """Return the loss of a fastens boosting regressor, or None for other models."""
    return model._loss if isinstance(model, GradientBoostingRegressor) else None


def _by_target(responses: Array, n_targets: int) -> list[Array]:
    """Split a response into arrays of (n_rows, n_columns), one for each target, with equal numbers of columns."""
    return list(np.ascontiguousarray(responses.reshape(len(responses), n_targets, -1).swapaxes(0, 1)))


def _deviations(model: Any, columns: list[Array]) -> list[Array]:
    """Return each row's error scale by the model's loss, one array per target; 1 for models without a loss.

    `columns` holds the predictions, one array per target.
    """
    loss = _loss(model)
    if loss is None:
        return [np.ones(len(predicted)) for predicted in columns]
    return [each.deviation(predicted) for each, predicted in zip(losses_of_targets(loss), columns, strict=True)]


def _errors(predicted: Array, data: MemberData, conditions: RowConditions, scale: Array | None = None) -> HeldOut:
    """Return the signed errors of held-out rows, divided by `scale`, 1 if None, with weights and groups."""
    scale = np.ones(data.n_rows) if scale is None else scale
    return HeldOut.errors(predicted, data.y, scale, effective_weights(data, conditions), group=conditions.group)


@with_parameters
class ConformalClassifier(BaseClassifier, BaseConformal):
    """Prediction sets for any classifier with probabilities that contain the class with a given probability.

    The scores of held-out rows calibrate the sets. If a single set of rows is held out (split conformal), the coverage
    is guaranteed for any estimator and distribution. With folds, every row is used for training and for calibration;
    the proven coverage is 1 - 2 (1 - coverage), slightly less with few folds, and the observed coverage is close to
    `coverage`. Both guarantees require new rows that are exchangeable with the rows of `fit`.

    Parameters
    ----------
    {parameters}
    estimator : classifier or None, default=None
        The classifier, from fastens or any library with scikit-learn's interface and `predict_proba`. If None, gradient
        boosting whose leaves are bounded by weight instead of by rows, so that integer weights count as copies.
    conformity : {"lac", "aps", "raps"}, default="lac"
        The conformity score. "lac" includes the classes whose probability exceeds one threshold for all rows; the sets
        are smallest, and some may be empty. "aps" includes the most probable classes up to a cumulative probability;
        sets are larger for harder rows and never empty. "raps" is "aps" with a penalty on rank, which limits long tails
        of improbable classes.
    raps_penalty : float, default=0.01
        With conformity="raps", penalty added to the cumulative probability for each rank after the first `raps_places`.
        Larger values exclude more classes of high rank.
    raps_places : int, default=2
        With conformity="raps", number of ranks without a penalty.
    by_class : bool, default=False
        If True, the coverage holds within each class, including rare classes, and not only over all rows. This requires
        at least coverage / (1 - coverage) held-out rows of each class.

    Attributes
    ----------
    {attributes}

    References
    ----------
    M. Sadinle, J. Lei, L. Wasserman (2019). Least ambiguous set-valued classifiers with bounded error levels. JASA 114.
    Y. Romano, M. Sesia, E. Candes (2020). Classification with valid and adaptive coverage. NeurIPS 33. A. Angelopoulos,
    S. Bates, J. Malik, M. Jordan (2021). Uncertainty sets for image classifiers using conformal prediction. ICLR.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fastens import ConformalClassifier, RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ConformalClassifier(RandomForestClassifier(random_state=0), cv=5).fit(X[::2], y[::2])
    >>> sets = model.predict_set(X[1::2], coverage=0.9)
    >>> bool(sets[range(75), y[1::2]].mean() > 0.85)
    True
    """

    _response_method = "predict_proba"

    conformity: str = parameter(one_of(*SET_SCORES), default="lac")
    raps_penalty: float = parameter(real(0), default=0.01)
    raps_places: int = parameter(whole(0), default=2)
    by_class: bool = parameter(FLAG, default=False)

    def _template(self) -> Any:
        """Return the estimator to copy, by default boosting."""
        return with_requests(GradientBoostingClassifier(**BOOSTING)) if self.estimator is None else self.estimator

    def _learn_target(self, y: NDArray[Any]) -> Array:
        """Learn the classes, also of a prefit estimator, and return each row's class index."""
        if not self._is_prefit:
            return super()._learn_target(y)
        # The classes come from the fitted estimator, because calibration rows need not contain all of them.
        self.classes_, index = joint_classes(*learn_labels(y, self._comm, min_classes=1), self._levels()[0])
        return index

    def _score(self) -> SetScore:
        """Return the score of label sets with this model's conformity measure and penalty."""
        fitted = self._as_fitted()
        return SetScore(fitted.conformity, fitted.raps_penalty, fitted.raps_places)

    def _calibrate(self, model: Any, responses: Array, data: MemberData, conditions: RowConditions) -> list[HeldOut]:
        """Return the scores of the held-out rows' true classes, in a list with one item."""
        return [self._held_out(responses, data.y, effective_weights(data, conditions), conditions.group)]

    def _held_out(self, responses: Array, y: Array, weight: Array, group: NDArray[np.intp] | None) -> HeldOut:
        """Return the scores of the true classes `y` of these responses, by class if `by_class` is set."""
        scores = self._score().of_labels(responses, y)
        return HeldOut(scores[:, None], weight, group, y.astype(np.intp) if self._as_fitted().by_class else None)

    def _new_scores(self, X: Any, y: Array, rows: RowConditions) -> list[HeldOut]:
        """Return the scores of new rows with known classes, in a list with one item."""
        (responses,) = self._responses(X)
        return [self._held_out(responses, y, np.ones(len(y)), rows.group)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, shape (n_samples, n_classes), averaged over the folds' models."""
        return mean_response(self._responses(X))

    @at_each_coverage
    def predict_set(
        self,
        X: ArrayLike,
        coverage: Coverage = 0.9,
        *,
        group: ArrayLike | str | None = None,
        likelihood_ratio: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Return a set of classes for each row that contains its class with a given probability.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability that a new row's class is in its set, over rows and training sets. Larger values give larger
            sets.
            A list adds a last axis with the result of each coverage.
        group : array of shape (n_samples,) or str, optional
            Calibration group of each row, or the column that holds it. Required if `fit` received an array; if `fit`
            received the name of a column, it is read from X. Sets of new groups, and of groups with too few calibration
            rows, hold all classes, and a warning is issued.
        likelihood_ratio : array of shape (n_samples,), optional
            Likelihood ratio of each row, in the units of `fit`. Required if `fit` received ratios.

        Returns
        -------
        bool array of shape (n_samples, n_classes)
        """
        scores = [self._score().of(response) for response in self._responses(X)]
        rows = self._conditions.of_rows(X, len(scores[0]), group, likelihood_ratio)
        coverages = coverage, self._levels_for(coverage)[0]
        return calibrated_sets(self._parts[0], scores, self._conditions, rows, coverages)

    def _check_labels(self, arrays: Arrays) -> None:
        """Raise ValueError if the restored calibration scores do not match the classes."""
        labels = [part.label for part in self._parts[0]]
        are_valid = [np.isin(label, np.arange(len(self.classes_))).all() for label in labels if label is not None]
        if any((label is not None) != self.by_class for label in labels) or not all(are_valid):
            raise ValueError("the calibration scores do not match the classes")

    _saved: ClassVar[SavedParts] = (Saved(finish=_check_labels),)
