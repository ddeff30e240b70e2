"""What the conformal regressor and classifier share: models that have not seen the rows they are judged by."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fastens.engine.threads import resolve_n_jobs
from fastens.engine.whole import as_copies
from fastens.ensemble.conformal_scores import Errors, SetScores
from fastens.ensemble.folds import FittedMember, Fold, GivenRows, LevelPlan, MemberData, fit_level, make_folds
from fastens.ensemble.members import RULES as MEMBER_RULES
from fastens.ensemble.one_estimator import BaseOneEstimator
from fastens.ensemble.saved_members import members_from_arrays, members_to_arrays
from fastens.parameters import ANYTHING, ESTIMATOR, NONE, real

Array = NDArray[np.float64]

PREFIT = "prefit"
RULES = {
    "estimator": ESTIMATOR | NONE,
    "cv": ANYTHING,
    "calibration_fraction": real(0, 1, open_low=True, open_high=True),
    "random_state": MEMBER_RULES["random_state"],
    "n_jobs": ANYTHING,
}
_MEMBERS, _FOLD = "members.", "fold"


class BaseConformal(BaseOneEstimator):
    """An estimator, or copies of it fitted on folds, with what its answers for rows not seen tell of its errors."""

    _parameter_rules: ClassVar = RULES
    _member: FittedMember
    # Of each fold, or of the rows held out: what the model that has not seen them got wrong.
    _parts: list[Any]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_parts")

    @property
    def _is_prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == PREFIT

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
    ) -> BaseConformal:
        """Fit the estimator on a part of the rows, or on each of several, and learn from the others how far it errs.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Any table that the estimator takes.
        y : array of shape (n_samples,)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            Goes to the estimator, and counts among the rows to calibrate on: a weight of 2 is the same as the row given
            twice, 0 as the row left out.
        groups : array of shape (n_samples,), optional
            For the splitter; with ``cv=None``, rows of a group are either all held out or none.
        X_val, y_val : table and array, optional
            Rows to validate on, for an estimator whose `fit` takes them and that stops early.
        **metadata
            With scikit-learn's metadata routing on: whatever the estimator requests.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a row is held out by two folds, or the estimator cannot be used.
        """
        given = {"sample_weight": sample_weight, "groups": groups, "X_val": X_val, "y_val": y_val, **metadata}
        for name in ("_parts", "_member"):
            self.__dict__.pop(name, None)
        data, rows = self._start_members(X, y, given)
        spec = self._spec("estimator", self._template(), self._seed_source(), 0)
        if self._is_prefit:
            check_is_fitted(spec.estimator)
            member = FittedMember(spec.name, None, spec.method, [spec.estimator], data.classes, True)
            responses, tests = member.respond(data.X), [np.arange(data.n_rows)]
        else:
            folds = self._folds(data, rows)
            (member,), (responses,) = fit_level([spec], data, folds, LevelPlan(False, resolve_n_jobs(self.n_jobs)))
            tests = [test for _, test in folds]
        copies = as_copies(data.sample_weight)
        weight = np.ones(data.n_rows) if copies is None else copies
        self._parts = [
            self._judged(model, responses[test], data.y[test], weight[test])
            for model, test in zip(member.models, tests, strict=True)
        ]
        self._member = member
        return self

    def _folds(self, data: MemberData, rows: GivenRows) -> list[Fold]:
        """Training rows and rows held out; no row is held out twice."""
        folds = make_folds(self._splitter(data) if self.cv is None else self.cv, data, rows)
        held_out = np.concatenate([test for _, test in folds])
        if len(np.unique(held_out)) < len(held_out):
            raise ValueError(f"cv must hold no row out more than once; got {self.cv!r}.")
        return folds

    def _splitter(self, data: MemberData) -> Any:
        kind = ShuffleSplit if data.groups is None else GroupShuffleSplit
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return kind(1, test_size=self.calibration_fraction, random_state=seed)

    def _routed_splitter(self) -> Any:
        return GroupShuffleSplit() if self.cv is None else self.cv

    def _judged(self, model: Any, responses: Array, y: Array, weight: Array) -> Any:
        """What is remembered of rows that a model has not seen."""
        raise NotImplementedError

    # Predict --------------------------------------------------

    def _responses(self, X: Any) -> list[Array]:
        """What each model says of new rows, (n_samples, n_outputs) each."""
        self._check_fitted()
        X = self._check_table(X)
        return [self._member.respond_with(model, X) for model in self._member.models]

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimators: one, or that of each fold."""
        self._check_fitted()
        return list(self._member.models)

    # Saving --------------------------------------------------

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        found = members_to_arrays(_MEMBERS, [self._member])
        for number, part in enumerate(self._parts):
            found |= part.to_arrays(f"{_FOLD}{number}.")
        return found

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        (self._member,) = members_from_arrays(_MEMBERS, arrays, getattr(self, "classes_", None))
        kind = SetScores if is_classifier(self) else Errors
        self._parts = [kind.from_arrays(f"{_FOLD}{number}.", arrays) for number in range(len(self._member.models))]
