"""Conformal prediction around any estimator: intervals for regression, sets for classification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from fastens.base import BaseClassifier, BaseRegressor, Capabilities
from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.combining.folds import (
    FittedMember,
    Fold,
    GivenRows,
    MemberData,
    Part,
    Rows,
    make_folds,
    members_from_arrays,
    members_to_arrays,
)
from fastens.combining.members import BOOSTING, BaseOneEstimator, requesting
from fastens.combining.responses import COMMON_RULES, DOCS, added, is_all_ours, joint_classes
from fastens.conformal.scores import (
    COVERAGE,
    SET_SCORES,
    Errors,
    SetScore,
    SetScores,
    at_each_coverage,
    intervals,
    middle_column,
    nearest_columns,
    sets,
)
from fastens.engine.rows.sampling import Subsample, content_hashes, random_stream
from fastens.engine.threads import resolve_n_jobs
from fastens.forests.out_of_bag import LEVELS
from fastens.forests.random_forest import RandomForestRegressor
from fastens.monitoring.callbacks import levels_of, predicts_distribution
from fastens.params.docstrings import Docs, entries
from fastens.params.estimator import with_parameters
from fastens.params.rules import ESTIMATOR, FLAG, NONE, Rule, one_of, parameter, real, whole
from fastens.table.parts import as_numbers, hstack, take_rows
from fastens.table.training_data import IMPORTANCE, WEIGHT_TYPE, learn_labels, warn_of_duplicates

Array = NDArray[np.float64]

N_FOLDS = 5
# Number of significant binary digits of an error; predictions with more than _MAX_STEPS steps are not rounded.
_DIGITS, _MAX_STEPS = 30, 2.0**52
_COLUMN = "conformalregressor_prediction"


def content_folds(data: MemberData) -> list[Fold]:
    """Return folds of similar size: group folds if there are groups, else folds that keep duplicates together."""
    from sklearn.model_selection import GroupKFold

    if data.groups is not None:
        n_folds = min(N_FOLDS, len(np.unique(data.groups)))
        return (
            make_folds(GroupKFold(n_folds), data, GivenRows(np.arange(data.n_rows), data.n_rows)) if n_folds > 1 else []
        )
    fold = content_hashes(as_numbers(data.X), data.y) % np.uint64(N_FOLDS)
    found = [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in np.unique(fold)]
    return found if len(found) > 1 else []


def fit_error_forest(data: MemberData, predicted: Array, seed: int, n_jobs: int | None) -> RandomForestRegressor:
    """Return a forest that predicts held-out errors, (n_rows, 1), from the columns and the prediction.

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
    """Round predictions, (n_rows, 1), to a billionth of the largest error.

    The last digits of other libraries' predictions depend on copies of rows and on the memory layout of the table, and
    the bags of a forest depend on every digit.
    """
    largest = np.nanmax(np.abs(y[:, None] - predicted))
    step = np.ldexp(float(largest > 0), int(np.frexp(largest)[1]) - _DIGITS)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(np.abs(predicted) < step * _MAX_STEPS, np.rint(predicted / step) * step, predicted)


def local_quantiles(forest: RandomForestRegressor, X: Any, predicted: Array) -> Array:
    """Return quantiles of the targets, at the forest's LEVELS, for rows with these predictions, (n_rows, 1)."""
    return predicted + forest.predict_quantiles(_table(predicted, X), LEVELS)


def _table(predicted: Array, X: Any) -> Any:
    return hstack(predicted, [_COLUMN], X)


_MEMBERS, _FOLD, _N_PARTS = "members.", "fold", "n_parts"

CONFORMAL_DOCS = entries("""\
cv : int, splitter, list of (train, test), "prefit" or None
    How rows are held out for calibration. If None, `calibration_fraction` of the rows is held out, independently of the
    order of the table; a row of weight 2 counts as two rows. If a number, that many folds are used. A scikit-learn
    splitter must not hold out a row twice, and must not split by time as `TimeSeriesSplit` does. "prefit" means that
    the estimator is already fitted, and `fit` receives rows that it was not trained on.
random_state : int, RandomState or None
    Determines the held-out rows, and seeds an estimator whose `random_state` is None.
estimators_ : list
    The fitted estimators: one, or one for each fold.
""")


@with_parameters
class BaseConformal(BaseOneEstimator):
    """Base class of estimators calibrated with conformal scores of held-out rows."""

    _capabilities = Capabilities(supports_out_of_core=False, predicts_row_sources=False)
    _docs: ClassVar[Docs] = {**DOCS, **CONFORMAL_DOCS}
    _learned: ClassVar[str] = "_parts"

    estimator: Any = parameter(ESTIMATOR | NONE, default=None, kw_only=False)
    cv: Any = parameter(COMMON_RULES["cv"], default=None)
    calibration_fraction: float = parameter(real(0, 1, open_low=True, open_high=True), default=0.2)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: Any = parameter(COMMON_RULES["random_state"], default=None)
    n_jobs: int | None = parameter(COMMON_RULES["n_jobs"], default=None)

    # Fit --------------------------------------------------

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        """Fit the estimator on some rows, or on each training fold, and calibrate on the held-out rows."""
        data, folds = self._parted(data, rows)
        member, responses = self._fit_copies(data, folds)
        self._parts = [
            self._calibrate(model, responses[test], data.y[test], data.weight[test])
            for model, (_, test) in zip(member.models, folds, strict=True)
        ]
        self._member = member

    def _parted(self, data: MemberData, rows: GivenRows) -> tuple[MemberData, list[Fold]]:
        """Return the rows and the folds; a prefit estimator has one fold that holds out all rows."""
        if self._is_prefit:
            return data, [(np.arange(0), np.arange(data.n_rows))]
        return data, [self._split(data)] if self.cv is None and data.groups is None else self._folds(data, rows)

    def _fit_copies(self, data: MemberData, folds: list[Fold]) -> tuple[FittedMember, Array]:
        """Return the estimator fitted for each fold, and its responses for the held-out rows."""
        spec = self._spec("estimator", self._template(), self._seed_source(), 0, is_classifier(self))
        spec = replace(spec, multi_output=True, method=self._method_of(self._template()) or spec.method)
        (member,), (responses,) = self._fit_level([spec], data, folds, refit=False)
        return member, responses

    def _folds(self, data: MemberData, rows: GivenRows) -> list[Fold]:
        """Return the folds; raise ValueError if a row is held out twice or all test sets follow their training set."""
        folds = make_folds(self._splitter() if self.cv is None else self.cv, data, rows)
        held_out = np.concatenate([test for _, test in folds])
        if _is_drawn_anew(self.cv) or len(np.unique(held_out)) < len(held_out):
            raise ValueError(
                f"cv must hold no row out more than once; got {self.cv!r}. Use a number of folds, or KFold, which hold "
                "each row out once."
            )
        if len(folds) > 1 and all(train.max(initial=-1) < test.min(initial=data.n_rows) for train, test in folds):
            raise ValueError(
                "cv must not hold out only rows that follow the training rows, because coverage is guaranteed for "
                f"exchangeable rows; got {self.cv!r}. Use a number of folds where the order of the rows has no "
                "meaning; no split gives the guarantee where they drift with time."
            )
        return folds

    def _split(self, data: MemberData) -> Fold:
        """Return training and held-out rows, drawn by row so that no row's weight is divided between them."""
        n_held_out = math.ceil(self.calibration_fraction * data.n_rows)
        if n_held_out == data.n_rows:
            raise ValueError(
                f"calibration_fraction must leave rows to train on; got {self.calibration_fraction} with "
                f"n_samples = {data.n_rows}."
            )
        numbers = as_numbers(data.X)
        hashes = content_hashes(numbers, data.y)
        warn_of_duplicates(hashes, numbers, data.y)
        is_held_out = Subsample.plan(hashes, None, n_held_out).draw(random_stream(self._draw_seed(), 0)) > 0
        return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _splitter(self) -> Any:
        from sklearn.model_selection import GroupShuffleSplit

        return GroupShuffleSplit(1, test_size=self.calibration_fraction, random_state=self._draw_seed())

    def _routed_splitter(self) -> Any:
        from sklearn.model_selection import GroupShuffleSplit

        return GroupShuffleSplit() if self.cv is None else self.cv

    def _method_of(self, estimator: Any) -> str | None:
        """Return the method of an estimator whose responses are calibrated; None for the usual one."""
        return None

    def _calibrate(self, model: Any, responses: Array, y: Array, weight: Array) -> Any:
        """Return the conformal scores of held-out rows."""
        raise NotImplementedError

    # Predict --------------------------------------------------

    def _responses(self, X: Any) -> list[Array]:
        """Return each model's response for new rows, (n_samples, n_outputs) each."""
        self._check_fitted()
        X = self._check_table(X)
        return [self._member.respond_with(model, X) for model in self._member.models]

    def _explained_parts(self, rows: Rows) -> tuple[list[Part], float]:
        return self._member.parts(1.0), 0.0

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimators: one, or one for each fold."""
        self._check_fitted()
        return list(self._member.models)

    # Saving --------------------------------------------------

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        found = members_to_arrays(_MEMBERS, [self._member]) | {_N_PARTS: np.array(len(self._parts))}
        for number, part in enumerate(self._parts):
            found |= part.to_arrays(f"{_FOLD}{number}.")
        return found

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        (member,) = members_from_arrays(_MEMBERS, arrays, getattr(self, "classes_", None))
        self._member = replace(member, multi_output=True)
        kind = SetScores if is_classifier(self) else Errors
        self._parts = [kind.from_arrays(f"{_FOLD}{number}.", arrays) for number in range(int(arrays[_N_PARTS]))]
        if not self._parts or len(self._parts) != self._n_predictions():
            raise ValueError("the parts that it is calibrated by and the models do not fit together")

    def _n_predictions(self) -> int:
        """Return the number of separately calibrated predictions of a row."""
        return len(self._member.models)


def _is_drawn_anew(cv: Any) -> bool:
    """Return True if a splitter draws several independent splits, which may overlap."""
    from sklearn.model_selection import BaseShuffleSplit

    return isinstance(cv, BaseShuffleSplit) and cv.get_n_splits() > 1


# With fewer rows, all intervals have the same width.
MIN_ROWS = 20
_FOREST = "forest."
_MONOTONE = ("monotonic_cst", "monotone_constraints")


def _are_levels(value: Any) -> bool:
    if np.ndim(value) != 1 or not all(map(COVERAGE.holds, value)):
        return False
    return len(value) > 1 and all(low < high for low, high in pairwise(value))


QUANTILES = Rule("two or more ascending numbers between 0 and 1", _are_levels)


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

    method: str = parameter(one_of("auto", "constant", "cqr"), default="auto")
    quantiles: Any = parameter(QUANTILES, default=(0.05, 0.5, 0.95))

    def _template(self) -> Any:
        estimator = requesting(GradientBoostingRegressor(**BOOSTING)) if self.estimator is None else self.estimator
        if self.method != "cqr" or self._is_prefit or not isinstance(estimator, GradientBoostingRegressor):
            return estimator
        return clone(estimator).set_params(loss="quantile", quantile=[float(level) for level in self.quantiles])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.method == "cqr" and not isinstance(self._template(), GradientBoostingRegressor):
            raise ValueError(
                "method must be 'auto' or 'constant' where the estimator is not a GradientBoostingRegressor, which can "
                f"predict several quantiles; got {self.method!r} with {self.estimator!r}."
            )
        if self.method == "cqr" and self._is_prefit and levels_of(self.estimator) is None:
            raise ValueError(
                "method must be 'auto' or 'constant' with cv='prefit' where the estimator does not predict several "
                f"quantiles; got {self.method!r}."
            )

    def _fit_data(self, data: MemberData, rows: GivenRows) -> None:
        self._error_forest: RandomForestRegressor | None = None
        is_local = self.method == "auto" and levels_of(self._template()) is None and data.n_rows >= MIN_ROWS
        # Rows of a group have similar errors, so out-of-bag rows would leak the errors of rows in the bag.
        is_local &= self.cv is None or data.groups is None
        # Widths that vary by row would violate the monotone constraints.
        is_local &= not _is_monotone(self._template())
        if not (is_local and self._fit_local(data, rows)):
            super()._fit_data(data, rows)

    def _fit_local(self, data: MemberData, rows: GivenRows) -> bool:
        """Fit the estimator on folds, and a forest on the errors; return False if predictions have several columns."""
        train, folds = self._parted(replace(data, narrows=is_all_ours(self._template())), rows)
        held_out = None
        if self.cv is None:
            ((chosen, others),) = folds
            held_out, train = train.take(others), train.take(chosen)
            folds = content_folds(train)
            if not folds:
                return False
        member, responses = self._fit_copies(train, folds)
        if responses.shape[1] > 1:
            return False
        if not is_all_ours(self._template()):
            responses = without_last_digits(responses, train.y)
        forest = fit_error_forest(train, responses, self._draw_seed(), self.n_jobs)
        if held_out is None:
            errors = forest._measured().measured_conformity().errors
        else:
            columns = local_quantiles(forest, held_out.X, member.respond(held_out.X))
            errors = Errors.of(columns, held_out.y, np.ones(held_out.n_rows), held_out.weight)
        self._parts, self._member, self._error_forest = [errors], member, forest
        return True

    def _method_of(self, estimator: Any) -> str | None:
        return "_calibrated_quantiles" if predicts_distribution(estimator) else None

    def _calibrate(self, model: Any, responses: Array, y: Array, weight: Array) -> Errors:
        return Errors.of(responses, y, _deviation(model, responses), weight)

    def predict(self, X: ArrayLike) -> Array:
        """Return the prediction, or the quantile nearest to 0.5, of each row, averaged over the folds' models.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples,)
        """
        predicted = _mean(self._responses(X))
        return predicted[:, middle_column(levels_of(self._member.models[0]), predicted.shape[1])]

    @at_each_coverage
    def predict_interval(self, X: ArrayLike, coverage: Any = 0.9) -> Array:
        """Return an interval for each row that contains its target with a given probability.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability that a new row's target lies in its interval, over rows and training sets. Larger values give
            wider intervals.
            A list adds a last axis with the result of each coverage.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends. They are infinite if there are too few calibration rows: at least
            coverage / (1 - coverage) are needed, which is 9 for 0.9.
        """
        predicted = self._responses(X)
        if self._error_forest is None:
            levels: Sequence[float] | None = levels_of(self._member.models[0])
            scales = [_deviation(model, found) for model, found in zip(self._member.models, predicted, strict=True)]
        else:
            levels = LEVELS
            predicted = [local_quantiles(self._error_forest, self._check_table(X), _mean(predicted))]
            scales = [np.ones(len(predicted[0]))]
        columns = nearest_columns(levels, predicted[0].shape[1], coverage)
        parts = [part.scores(columns) for part in self._parts]
        found = intervals(parts, predicted, scales, columns, coverage, resolve_n_jobs(self.n_jobs))
        loss = _loss(self._member.models[0])
        return found if loss is None else np.clip(found, *loss.bounds)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        found = super()._fitted_arrays()
        return (
            found
            if self._error_forest is None
            else found | members_to_arrays(_FOREST, [_as_member(self._error_forest)])
        )

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        self._error_forest = None
        if any(name.startswith(_FOREST) for name in arrays):
            (member,) = members_from_arrays(_FOREST, arrays, None)
            self._error_forest = member.kept
        super()._restore_fitted(arrays)

    def _n_predictions(self) -> int:
        return super()._n_predictions() if self._error_forest is None else 1


def _as_member(forest: RandomForestRegressor) -> FittedMember:
    return FittedMember("errors", None, "predict", [forest], None, uses_labels=False)


def _is_monotone(estimator: Any) -> bool:
    """Return True if an estimator or a nested one has monotone constraints, by any library's parameter name."""
    given = [value for name, value in estimator.get_params().items() if name.split("__")[-1] in _MONOTONE]
    return any(value is not None and np.size(value) > 0 for value in given)


def _mean(responses: Sequence[Array]) -> Array:
    return added(responses) / len(responses)


def _loss(model: Any) -> Any:
    return model._loss if isinstance(model, GradientBoostingRegressor) else None


def _deviation(model: Any, responses: Array) -> Array:
    """Return the scale of a model's errors for each row, given by its loss; 1 for models without a loss."""
    loss = _loss(model)
    return np.ones(len(responses)) if loss is None else loss.deviation(responses)


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
        return requesting(GradientBoostingClassifier(**BOOSTING)) if self.estimator is None else self.estimator

    def _learn_target(self, y: NDArray[Any]) -> Array:
        if not self._is_prefit:
            return super()._learn_target(y)
        # The classes come from the fitted estimator, because calibration rows need not contain all of them.
        self.classes_, index = joint_classes(*learn_labels(y, self._comm, fewest=1), self._levels()[0])
        return index

    def _score(self) -> SetScore:
        fitted = self._as_fitted()
        return SetScore(fitted.conformity, fitted.raps_penalty, fitted.raps_places)

    def _calibrate(self, model: Any, responses: Array, y: Array, weight: Array) -> SetScores:
        scores = self._score().of_labels(responses, y)
        if self.by_class:
            return SetScores.by_class(scores, weight, y, len(self.classes_))
        return SetScores.of(scores, weight)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of each class, shape (n_samples, n_classes), averaged over the folds' models."""
        return _mean(self._responses(X))

    @at_each_coverage
    def predict_set(self, X: ArrayLike, coverage: Any = 0.9) -> NDArray[np.bool_]:
        """Return a set of classes for each row that contains its class with a given probability.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability that a new row's class is in its set, over rows and training sets. Larger values give larger
            sets.
            A list adds a last axis with the result of each coverage.

        Returns
        -------
        bool array of shape (n_samples, n_classes)
        """
        scores = [self._score().of(found) for found in self._responses(X)]
        return sets(self._parts, scores, coverage)

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        n_groups = len(self.classes_) if self.by_class else 1
        if any(len(part.groups) != n_groups for part in self._parts):
            raise ValueError("the scores to calibrate by and the classes do not fit together")
