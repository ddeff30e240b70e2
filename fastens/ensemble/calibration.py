"""Intervals and sets of boosted trees, calibrated on rows that training has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from fastens.base import TrainingData, check_weights
from fastens.engine.threads import resolve_n_jobs
from fastens.ensemble.boosted_trees import BoostedTrees
from fastens.ensemble.conformal_scores import (
    COVERAGE,
    SET_SCORES,
    Errors,
    SetScore,
    SetScores,
    intervals,
    nearest_columns,
    sets,
)
from fastens.ensemble.rounds import BoostingRun
from fastens.parameters import one_of

Array = NDArray[np.float64]

_PREFIX = "calibration."
_CONFORMITY = one_of(*SET_SCORES)


class CalibratedTrees(BoostedTrees):
    """Boosted trees that are told how far they err by rows they have not seen."""

    # What such rows have told; a further fit, or new leaf values, forget it.
    _calibration: Any = None

    def _keep(self, run: BoostingRun, n_rounds: int) -> None:
        super()._keep(run, n_rounds)
        self.__dict__.pop("_calibration", None)

    def _leaves_changed(self, data: TrainingData, decay: float) -> None:
        super()._leaves_changed(data, decay)
        self.__dict__.pop("_calibration", None)

    def _labels_to_calibrate(self, y: Any, n_rows: int) -> Array:
        self._check_fitted()
        target = self._read_target(y, n_rows)
        if target.ndim > 1:
            raise ValueError(f"calibrate must be used with one target; y has {target.shape[1]}.")
        return self._encode_target(target)

    def _calibrated(self, method: str, wrapper: str) -> Any:
        """What the rows have told; NotFittedError where there were none."""
        self._check_fitted()
        if self._calibration is None:
            raise NotFittedError(
                f"{method} needs rows that fit has not seen: give them to calibrate(X, y) first, or fit a {wrapper}"
                f"({type(self).__name__}(...)), which keeps some of its rows for that."
            )
        return self._calibration

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        if any(name.startswith(_PREFIX) for name in arrays):
            self._restore_calibration(arrays)

    def _restore_calibration(self, arrays: dict[str, np.ndarray]) -> None:
        raise NotImplementedError


class CalibratedIntervals(CalibratedTrees):
    """What boosting of numbers adds: intervals."""

    _calibration: Errors | None = None

    if TYPE_CHECKING:
        predict: Any

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        init_score: ArrayLike | None = None,
    ) -> Any:
        """Learn how far predictions err, for `predict_interval`; predictions stay as they are.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows that `fit` has not seen, neither to train on nor to validate on. For a coverage of 0.9 at least 9;
            with n of them the coverage of one model varies by about sqrt(0.9 * 0.1 / n).
        y : array of shape (n_samples,)
            Their targets.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        self
        """
        said = self._said(X, init_score)
        target, weight = self._labels_to_calibrate(y, len(said)), check_weights(sample_weight, len(said))
        self._calibration = Errors.of(said, target, self._loss.deviation(said[:, 0]), weight)
        return self

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9, init_score: ArrayLike | None = None) -> Array:
        """Return an interval for each row that holds its target with a given probability.

        Split-conformal intervals from the errors on the rows given to `calibrate`. With several quantiles, those
        nearest to (1 - coverage) / 2 and (1 + coverage) / 2, both moved outwards (or inwards) by the same amount, so
        that intervals are as wide as each row needs (conformalised quantile regression). Otherwise the prediction plus
        and minus a quantile of the errors; with loss="poisson", "gamma" or "tweedie" these are in proportion to the
        loss's standard deviation.

        The probability is at least `coverage`, whatever the model and the distribution, over new rows and rows to
        calibrate on that are exchangeable, such as draws of one population; it is not promised for each row by itself.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Probability that a new row's target is in its interval.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends; infinite where there were too few rows to calibrate on.

        Raises
        ------
        NotFittedError
            Before `calibrate`.

        References
        ----------
        V. Vovk, A. Gammerman, G. Shafer (2005). Algorithmic learning in a random world. Y. Romano, E. Patterson, E.
        Candes (2019). Conformalized quantile regression. NeurIPS 32.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GradientBoostingRegressor("quantile", quantile=[0.1, 0.5, 0.9], n_estimators=50)
        >>> low, high = model.fit(X[:200], y[:200]).calibrate(X[200:320], y[200:320]).predict_interval(X[320:], 0.8).T
        >>> bool(0.7 < ((low <= y[320:]) & (y[320:] <= high)).mean() < 0.9)
        True
        """
        COVERAGE.check("coverage", coverage)
        errors = self._calibrated("predict_interval", "ConformalRegressor")
        said = self._said(X, init_score)
        columns = nearest_columns(levels_of(self), said.shape[1], coverage)
        scale = self._loss.deviation(said[:, 0])
        n_threads = resolve_n_jobs(self.n_jobs)
        found = intervals([errors.scores(columns)], [said], [scale], columns, coverage, n_threads)
        return np.clip(found, *self._loss.bounds)

    def _said(self, X: Any, init_score: Any) -> Array:
        """Predictions, always with a column for each quantile."""
        said = self.predict(X, init_score)
        return said.reshape(len(said), -1)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        own = {} if self._calibration is None else self._calibration.to_arrays(_PREFIX)
        return super()._fitted_arrays() | own

    def _restore_calibration(self, arrays: dict[str, np.ndarray]) -> None:
        self._calibration = Errors.from_arrays(_PREFIX, arrays)


class CalibratedSets(CalibratedTrees):
    """What boosting of classes adds: sets of classes."""

    _calibration: tuple[SetScore, SetScores] | None = None

    if TYPE_CHECKING:
        predict_proba: Any

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        conformity: str = "lac",
        init_score: ArrayLike | None = None,
    ) -> Any:
        """Learn how far probabilities err, for `predict_set`; the probabilities stay as they are.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows that `fit` has not seen, neither to train on nor to validate on.
        y : array of shape (n_samples,)
            Their classes.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out.
        conformity : {"lac", "aps", "raps"}, default="lac"
            How classes come into sets: those of a probability above one limit for all rows, which gives the smallest
            sets; or the most probable ones until enough probability is together, which gives larger sets to harder
            rows, and never an empty one; or that with a penalty for each place after the second. See
            `ConformalClassifier`.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        self
        """
        _CONFORMITY.check("conformity", conformity)
        probability = self.predict_proba(X, init_score)
        if isinstance(probability, list):
            raise ValueError(f"calibrate must be used with one target; this model has {len(probability)}.")
        target, weight = self._labels_to_calibrate(y, len(probability)), check_weights(sample_weight, len(probability))
        score = SetScore(conformity)
        self._calibration = score, SetScores.of(score.of_labels(probability, target), weight)
        return self

    def predict_set(
        self, X: ArrayLike, coverage: float = 0.9, init_score: ArrayLike | None = None
    ) -> NDArray[np.bool_]:
        """Return, for each row, a set of classes that holds the right one with a given probability.

        Split-conformal sets from the rows given to `calibrate`. The probability is at least `coverage`, whatever the
        model and the distribution, over new rows and rows to calibrate on that are exchangeable; it is not promised for
        each row, or each class, by itself.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Probability that a new row's class is in its set.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions that are added.

        Returns
        -------
        bool array of shape (n_samples, n_classes)
            With conformity="lac" a set is empty where no class is probable enough.

        Raises
        ------
        NotFittedError
            Before `calibrate`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from fastens import GradientBoostingClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = GradientBoostingClassifier(n_estimators=20).fit(X[::3], y[::3]).calibrate(X[1::3], y[1::3])
        >>> sets = model.predict_set(X[2::3])
        >>> bool(sets[range(50), y[2::3]].mean() >= 0.86)
        True
        """
        COVERAGE.check("coverage", coverage)
        score, known = self._calibrated("predict_set", "ConformalClassifier")
        return sets([known], [score.of(self.predict_proba(X, init_score))], coverage)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        if self._calibration is None:
            return super()._fitted_arrays()
        score, known = self._calibration
        name = {f"{_PREFIX}conformity": np.array(SET_SCORES.index(score.name))}
        return super()._fitted_arrays() | name | known.to_arrays(_PREFIX)

    def _restore_calibration(self, arrays: dict[str, np.ndarray]) -> None:
        name = SET_SCORES[int(arrays[f"{_PREFIX}conformity"])]
        self._calibration = SetScore(name), SetScores.from_arrays(_PREFIX, arrays)


def levels_of(model: Any) -> list[float] | None:
    """The levels of the quantiles that an estimator predicts, where it has them as its parameter `quantile`."""
    levels = getattr(model, "quantile", None)
    return None if levels is None or np.ndim(levels) != 1 else list(levels)
