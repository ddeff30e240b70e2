"""Intervals and sets of boosted trees, calibrated on rows that training has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError

from fastens.base import TrainingData
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.rounds import BoostingRun
from fastens.conformal.scores import (
    COVERAGE,
    SET_SCORES,
    Errors,
    SetScore,
    SetScores,
    intervals,
    nearest_columns,
    sets,
)
from fastens.engine.losses.column_losses import losses_of_targets
from fastens.engine.losses.losses import Loss
from fastens.engine.threads import resolve_n_jobs
from fastens.monitoring.stages import levels_of
from fastens.parameters import one_of
from fastens.table.sample_weights import check_weights

Array = NDArray[np.float64]

_PREFIX = "calibration."
_CONFORMITY = one_of(*SET_SCORES)


class CalibratedTrees(BoostedTrees):
    """Boosted trees that are told how far they err by rows they have not seen."""

    # What such rows have told of each target; a further fit, or new leaf values, forget it.
    _calibration: Any = None
    _n_targets: int

    def _keep(self, run: BoostingRun, n_rounds: int) -> None:
        super()._keep(run, n_rounds)
        self.__dict__.pop("_calibration", None)

    def _leaves_changed(self, data: TrainingData, decay: float) -> None:
        super()._leaves_changed(data, decay)
        self.__dict__.pop("_calibration", None)

    def _columns_to_calibrate(self, y: Any, n_rows: int) -> list[Array]:
        """The targets, one after the other."""
        target = self._encode_target(self._read_target(y, n_rows))
        return list(target.reshape(n_rows, -1).T)

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

    _calibration: list[Errors] | None = None

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
        y : array of shape (n_samples,) or (n_samples, n_targets)
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
        targets, weight = self._columns_to_calibrate(y, len(said[0])), check_weights(sample_weight, len(said[0]))
        self._calibration = [
            Errors.of(own, target, loss.deviation(own[:, 0]), weight)
            for own, target, loss in zip(said, targets, losses_of_targets(self._loss), strict=True)
        ]
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
        With several targets it is that of each by itself; a coverage of 1 - (1 - c) / n_targets holds all of a row's
        with the probability c.

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
        array of shape (n_samples, 2), with several targets (n_samples, n_targets, 2)
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
        parts = zip(errors, self._said(X, init_score), losses_of_targets(self._loss), strict=True)
        found = [self._intervals_of(own, said, loss, coverage) for own, said, loss in parts]
        return found[0] if len(found) == 1 else np.stack(found, axis=1)

    def _intervals_of(self, errors: Errors, said: Array, loss: Loss, coverage: float) -> Array:
        columns = nearest_columns(levels_of(self), said.shape[1], coverage)
        scale, n_threads = loss.deviation(said[:, 0]), resolve_n_jobs(self.n_jobs)
        found = intervals([errors.scores(columns)], [said], [scale], columns, coverage, n_threads)
        return np.clip(found, *loss.bounds)

    def _said(self, X: Any, init_score: Any) -> list[Array]:
        """Predictions for each target, always with a column for each quantile."""
        said = self.predict(X, init_score)
        return list(np.ascontiguousarray(said.reshape(len(said), self._n_targets, -1).swapaxes(0, 1)))

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        found = super()._fitted_arrays()
        for target, errors in enumerate(self._calibration or ()):
            found |= errors.to_arrays(f"{_PREFIX}{target}.")
        return found

    def _restore_calibration(self, arrays: dict[str, np.ndarray]) -> None:
        self._calibration = [Errors.from_arrays(f"{_PREFIX}{t}.", arrays) for t in range(self._n_targets)]


class CalibratedSets(CalibratedTrees):
    """What boosting of classes adds: sets of classes."""

    _calibration: tuple[SetScore, list[SetScores]] | None = None

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
        y : array of shape (n_samples,) or (n_samples, n_targets)
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
        probabilities, score = self._probabilities_of(X, init_score), SetScore(conformity)
        n_rows = len(probabilities[0])
        targets, weight = self._columns_to_calibrate(y, n_rows), check_weights(sample_weight, n_rows)
        known = [
            SetScores.of(score.of_labels(own, target), weight)
            for own, target in zip(probabilities, targets, strict=True)
        ]
        self._calibration = score, known
        return self

    def _probabilities_of(self, X: Any, init_score: Any) -> list[Array]:
        """The probabilities of the classes of each target."""
        found = self.predict_proba(X, init_score)
        return found if isinstance(found, list) else [found]

    def predict_set(self, X: ArrayLike, coverage: float = 0.9, init_score: ArrayLike | None = None) -> Any:
        """Return, for each row, a set of classes that holds the right one with a given probability.

        Split-conformal sets from the rows given to `calibrate`. The probability is at least `coverage`, whatever the
        model and the distribution, over new rows and rows to calibrate on that are exchangeable; it is not promised for
        each row, or each class, by itself. With several targets it is that of each of them.

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
        bool array of shape (n_samples, n_classes), with several targets a list of them
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
        parts = zip(known, self._probabilities_of(X, init_score), strict=True)
        found = [sets([own], [score.of(probability)], coverage) for own, probability in parts]
        return found if len(found) > 1 else found[0]

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        if self._calibration is None:
            return super()._fitted_arrays()
        score, known = self._calibration
        found = super()._fitted_arrays() | {f"{_PREFIX}conformity": np.array(SET_SCORES.index(score.name))}
        for target, scores in enumerate(known):
            found |= scores.to_arrays(f"{_PREFIX}{target}.")
        return found

    def _restore_calibration(self, arrays: dict[str, np.ndarray]) -> None:
        name = SET_SCORES[int(arrays[f"{_PREFIX}conformity"])]
        known = [SetScores.from_arrays(f"{_PREFIX}{t}.", arrays) for t in range(self._n_targets)]
        self._calibration = SetScore(name), known
