"""What all estimators that grow trees in rounds share: start, rounds, finish, and what the trees say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from fastens.base import TrainingData
from fastens.boosting.parameters import OF_VALIDATION
from fastens.boosting.rounds import BoostingRules, BoostingRun, OnRound, Start
from fastens.checked_parameters import constructor_defaults
from fastens.engine.bins.binning import Binning, learn_binning
from fastens.engine.grow.growth import GrowthRules
from fastens.engine.losses.losses import Loss
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.trees import TreeEnsemble
from fastens.monitoring.callbacks import announce
from fastens.tree_model.tree_model import TreeModel

Array = NDArray[np.float64]


class BaseGradientBoosting(TreeModel):
    """Trees grown in rounds, each on what the ones before left."""

    _ensemble: TreeEnsemble
    _on_round: OnRound | None = None

    def _get_loss(self) -> Loss:
        raise NotImplementedError

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> BaseGradientBoosting:
        """Train.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix. NaN and None are missing values.
        y : array of shape (n_samples,)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out.
        X_val, y_val : table and array, optional
            Rows to validate on, in place of a part of X; used where `early_stopping` is not False.

        Returns
        -------
        self
        """
        data = self._start_fit(X, y, sample_weight)
        training, validation = self._split_validation(data, X_val, y_val)
        self._check_validated(validation)
        run = self._start_run(training, validation)
        try:
            run.run(self._on_round or self._announcer())
        except KeyboardInterrupt:
            # What has been grown so far is a model.
            self._finish(run)
            raise
        self._finish(run)
        return self

    def _split_validation(
        self, data: TrainingData, X_val: Any, y_val: Any, sample_weight_val: Any = None
    ) -> tuple[TrainingData, TrainingData | None]:
        """Decide what to validate on, if anything."""
        if (X_val is None) != (y_val is None):
            given, missing = ("y_val", "X_val") if X_val is None else ("X_val", "y_val")
            raise ValueError(f"X_val and y_val must be given together; got {given} without {missing}.")
        if X_val is not None:
            if not self.early_stopping:
                raise ValueError("X_val and y_val are for early stopping; early_stopping must not be False with them.")
            try:
                return data, self._check_validation(X_val, y_val, sample_weight_val)
            except ValueError as error:
                raise ValueError(f"X_val and y_val must be as X and y: {error}") from error
        if isinstance(self.early_stopping, str) or not self.early_stopping:
            return data, None
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        train, validation = (taken(data, rows) for rows in self._hold_out_rows(data, seed))
        return train, validation

    def _check_validated(self, validation: TrainingData | None) -> None:
        """Raise ValueError, or warn, for parameters that are read with rows to validate on, where there are none."""
        known = constructor_defaults(self)
        for name in OF_VALIDATION if validation is None else ():
            if name in known and not self._is_default(name):
                self._not_read(
                    name,
                    f"{name} is read with rows to validate on, and must be {known[name]!r} without: give X_val and "
                    f"y_val, or early_stopping=True; got {getattr(self, name)!r}.",
                )

    def _hold_out_rows(self, data: TrainingData, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to train on and rows to validate on, drawn by class."""
        rows = np.arange(len(data.y))
        stratify = data.y if hasattr(self, "classes_") and data.y.ndim == 1 else None
        try:
            parts = train_test_split(rows, test_size=self.validation_fraction, stratify=stratify, random_state=seed)
        except ValueError as error:
            rule = "validation_fraction must give rows of every class to train on and to validate on"
            raise ValueError(f"{rule}; got {self.validation_fraction} of {len(rows)} rows: {error}") from error
        train, validation = map(np.sort, parts)
        return train, validation

    def _start_run(self, data: TrainingData, validation: TrainingData | None) -> BoostingRun:
        """Bin the rows and prepare the rounds."""
        loss = self._loss = self._get_loss()
        rules = self._boosting_rules(resolve_n_jobs(self.n_jobs))
        loss.check_target(data.y)
        start = self._start(data, rules)
        data = self._learn_statistics(data, rules.seed)
        binning = self._learn_binning(data, rules.n_threads)
        run = self._new_run(binning, data, rules, start)
        if validation is not None:
            validation = self._apply_statistics(validation)
            self._watch(run, binning.codes(validation.X, rules.n_threads), validation)
        return run

    def _start(self, data: TrainingData, rules: BoostingRules) -> Start:
        """What the rounds begin with."""
        return Start()

    def _learn_binning(self, data: TrainingData, n_threads: int) -> Binning:
        return learn_binning(data.X, data.sample_weight, self.max_bins, self._is_categorical, n_threads)

    def _new_run(self, binning: Binning, data: TrainingData, rules: BoostingRules, start: Start) -> BoostingRun:
        return BoostingRun(binning, data, self._loss, self._growth_rules(), rules, start)

    def _watch(self, run: BoostingRun, codes: NDArray[np.unsignedinteger], validation: TrainingData) -> None:
        """Let the run measure rows to validate on."""
        self._loss.check_measured()
        run.validate_on(codes, validation)

    def _growth_rules(self) -> GrowthRules:
        raise NotImplementedError

    def _boosting_rules(self, n_threads: int) -> BoostingRules:
        raise NotImplementedError

    def _announcer(self) -> OnRound | None:
        """Log the losses every `verbose` rounds."""
        if not self.verbose:
            return None

        def report(index: int, n_rounds: int, train: float, validation: float | None) -> None:
            if (index + 1) % int(self.verbose) == 0 or index + 1 == n_rounds:
                also = "" if validation is None else f", validation loss {validation:.6g}"
                announce(f"[{index + 1}/{n_rounds}] training loss {train:.6g}{also}")

        return report

    def _finish(self, run: BoostingRun, n_rounds: int | None = None) -> None:
        """Keep some rounds, by default those up to the best one, and what was learned on the way."""
        n_rounds = run.best_round if n_rounds is None else n_rounds
        self._restored()
        self._keep(run, n_rounds)
        self.n_estimators_ = self.n_iter_ = n_rounds
        self.train_score_ = np.array(run.history.train)
        self.validation_score_ = np.array(run.history.validation)

    def _keep(self, run: BoostingRun, n_rounds: int) -> None:
        """Keep the trees of some rounds."""
        self._ensemble = run.ensemble(n_rounds)

    def _fitted_names(self) -> tuple[str, ...]:
        return ("n_estimators_", "n_iter_", "train_score_", "validation_score_")

    def _n_outputs(self) -> int:
        return self._loss.n_outputs

    def _restored(self) -> None:
        self._loss = self._get_loss()

    # Predict --------------------------------------------------

    def _staged_raw(self, X: Any) -> Iterator[Array]:
        X = self._check_table(X)
        return self._ensemble.staged_raw(X, resolve_n_jobs(self.n_jobs))

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the leaf that each row falls into.

        Returns
        -------
        int32 array of shape (n_samples, n_estimators)
            Node numbers within the trees; (n_samples, n_estimators, n_trees) where a round has several trees, one for
            each class, quantile, or target with linear leaves.
        """
        leaves, per_round = self._leaves(X), self._ensemble.trees_per_round
        return leaves if per_round == 1 else leaves.reshape(len(leaves), -1, per_round)

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the gain of all splits, shape (n_features,)."""
        self._check_fitted()
        gain = self._by_column("gain")
        return gain / gain.sum() if gain.sum() > 0 else gain

    @property
    def feature_split_counts_(self) -> NDArray[np.int64]:
        """Number of splits on each feature, shape (n_features,)."""
        self._check_fitted()
        return self._by_column("split").astype(np.int64)

    def _by_column(self, kind: str) -> Array:
        """Importances of the columns of X."""
        weights = self._ensemble.feature_importances(kind)
        return self._by_columns(weights)


def taken(data: TrainingData, rows: NDArray[np.intp]) -> TrainingData:
    """Some of the rows."""
    weight = None if data.sample_weight is None else data.sample_weight[rows]
    given = rows if data.rows is None else data.rows[rows]
    offset = None if data.offset is None else np.ascontiguousarray(data.offset[:, rows])
    return TrainingData(data.X[rows], data.y[rows], weight, given, offset)
