"""Code shared by the conformal regressor and classifier."""

from __future__ import annotations

import math
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from fastens.checked_parameters import with_parameters
from fastens.combining.explaining import Part, Rows
from fastens.combining.folds import (
    FittedMember,
    Fold,
    GivenRows,
    MemberData,
    make_folds,
    members_from_arrays,
    members_to_arrays,
)
from fastens.combining.local_errors import N_FOLDS
from fastens.combining.members import BaseOneEstimator
from fastens.combining.memory import Fits, n_folds_of
from fastens.combining.parameters import COMMON_RULES, DOCS
from fastens.conformal.scores import Errors, SetScores
from fastens.docstrings import Docs, entries
from fastens.engine.rows.copies import Copies
from fastens.engine.rows.sampling import content_hashes, random_stream
from fastens.engine.threads import resolve_n_jobs
from fastens.parameters import ESTIMATOR, NONE, parameter, real
from fastens.table.memory_limits import TableShape
from fastens.table.parts import as_numbers
from fastens.table.sample_weights import WEIGHT_TYPE
from fastens.table.training_data import warn_of_duplicates

Array = NDArray[np.float64]

_MEMBERS, _FOLD, _N_PARTS = "members.", "fold", "n_parts"

CONFORMAL_DOCS = entries("""\
cv : int, splitter, list of (train, test), "prefit" or None
    None: hold out `calibration_fraction` of the rows, the same in any order of the table; a row of weight 2 is two
    rows. A number: that many folds; or a splitter of scikit-learn that holds no row out twice and does not depend on
    the order of the rows in time, as `TimeSeriesSplit` does. "prefit": the estimator is fitted, and `fit` gets rows
    that it has not seen.
random_state : int, RandomState or None
    Draws the rows to hold out, and seeds an estimator whose own random_state is None.
estimators_ : list
    The fitted estimators: one, or that of each fold.
""")


@with_parameters
class BaseConformal(BaseOneEstimator):
    """An estimator, or copies of it fitted on folds, with conformal scores of rows not trained on."""

    _fits_sources = False
    _reads_parts = False
    _parameter_rules: ClassVar = {
        **COMMON_RULES,
        "estimator": ESTIMATOR | NONE,
        "calibration_fraction": real(0, 1, open_low=True, open_high=True),
    }
    _docs: ClassVar[Docs] = {**DOCS, **CONFORMAL_DOCS}
    _learned: ClassVar[str] = "_parts"

    estimator: Any = field(default=None, kw_only=False)
    cv: Any = None
    calibration_fraction: float = 0.2
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: Any = None
    n_jobs: int | None = None

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

    def _planned_fits(self, shape: TableShape) -> Fits:
        n_folds = N_FOLDS if self.cv is None else n_folds_of(self.cv)
        return Fits([("estimator", self._template())], n_folds, n_folds, resolve_n_jobs(self.n_jobs))

    def _parted(self, data: MemberData, rows: GivenRows) -> tuple[MemberData, list[Fold]]:
        """The rows, and which of them are to be held out from which others; all from none of a fitted estimator."""
        if self._is_prefit:
            return data, [(np.arange(0), np.arange(data.n_rows))]
        return data, [self._split(data)] if self.cv is None and data.groups is None else self._folds(data, rows)

    def _fit_copies(self, data: MemberData, folds: list[Fold]) -> tuple[FittedMember, Array]:
        """The estimator fitted for each fold, and its responses for the rows held out."""
        spec = replace(
            self._spec("estimator", self._template(), self._seed_source(), 0, is_classifier(self)), multi_output=True
        )
        (member,), (responses,) = self._fit_level([spec], data, folds, refit=False)
        return member, responses

    def _folds(self, data: MemberData, rows: GivenRows) -> list[Fold]:
        """Training rows and rows held out: no row twice, and not always those that come after the training rows."""
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
        """The rows to train on and those held out, drawn by row: none has a part of its weight in both."""
        n_held_out = math.ceil(self.calibration_fraction * data.n_rows)
        if n_held_out == data.n_rows:
            raise ValueError(
                f"calibration_fraction must leave rows to train on; got {self.calibration_fraction} with "
                f"n_samples = {data.n_rows}."
            )
        numbers = as_numbers(data.X)
        hashes = content_hashes(numbers, data.y)
        warn_of_duplicates(hashes, numbers, data.y)
        is_held_out = Copies.of(hashes, None).draw(n_held_out, random_stream(self._draw_seed(), 0)) > 0
        return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _splitter(self) -> Any:
        from sklearn.model_selection import GroupShuffleSplit

        return GroupShuffleSplit(1, test_size=self.calibration_fraction, random_state=self._draw_seed())

    def _routed_splitter(self) -> Any:
        from sklearn.model_selection import GroupShuffleSplit

        return GroupShuffleSplit() if self.cv is None else self.cv

    def _calibrate(self, model: Any, responses: Array, y: Array, weight: Array) -> Any:
        """Conformal scores of held-out rows."""
        raise NotImplementedError

    # Predict --------------------------------------------------

    def _responses(self, X: Any) -> list[Array]:
        """Each model's response for new rows, (n_samples, n_outputs) each."""
        self._check_fitted()
        X = self._check_table(X)
        return [self._member.respond_with(model, X) for model in self._member.models]

    def _explained_parts(self, rows: Rows) -> tuple[list[Part], float]:
        return self._member.parts(1.0), 0.0

    @property
    def estimators_(self) -> list[Any]:
        """The fitted estimators: one, or that of each fold."""
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
        """How many predictions of a row are calibrated, each by a part of its own."""
        return len(self._member.models)


def _is_drawn_anew(cv: Any) -> bool:
    """True if a splitter draws several splits independently, which by chance may not overlap."""
    from sklearn.model_selection import BaseShuffleSplit

    return isinstance(cv, BaseShuffleSplit) and cv.get_n_splits() > 1
