"""What the gradient boosting estimators can do besides: sampling, callbacks, continuing, offsets, refitting."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import cleandoc
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from fastens.base import TrainingData
from fastens.boosting.base_boosting import taken
from fastens.boosting.continuing import Earlier, checked_checkpoint
from fastens.boosting.dart import DartRun
from fastens.boosting.leaf_refitting import RefitsLeaves
from fastens.boosting.linear_rounds import LinearDartRun, LinearRun, check_linear_leaves
from fastens.boosting.offsets import checked_offset
from fastens.boosting.parameters import NEEDS, PARAMETERS
from fastens.boosting.rounds import BoostingRules, BoostingRun, Start
from fastens.boosting.rules import boosting_rules, check_together, draws_features, growth_rules, row_sampling
from fastens.boosting.watching import RoundWatch
from fastens.engine.bins.binning import Binning
from fastens.engine.grow.growth import GrowthRules
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.trees.trees import TreeEnsemble
from fastens.monitoring.callbacks import Announcer, progress_bar
from fastens.monitoring.metrics import LOSS, Metrics, OwnMetric
from fastens.monitoring.sklearn_callbacks import CallbackSupportMixin, with_callbacks
from fastens.parameters import Need
from fastens.tree_model.saving import tree_arrays, trees_among

Array = NDArray[np.float64]
_BEST = "best."
# What only fitting needs, and a file cannot hold.
_OF_FITTING: dict[str, Any] = {"callbacks": None, "validation": None, "checkpoint_path": None}


class BoostedTrees(CallbackSupportMixin, RefitsLeaves):
    """Gradient boosting with all that its rounds can do."""

    _parameter_needs: ClassVar[Mapping[str, tuple[Need, ...]]] = NEEDS
    validation_scores_: dict[str, Array]
    _seed: int
    _earlier: Earlier | None = None
    _metrics: Metrics | None = None
    # Of a model that is not trained to the end: the trees as they were at the best round, where later ones change them.
    _best_trees: TreeEnsemble | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Say in the docstring what all these estimators have as parameters."""
        super().__init_subclass__(**kwargs)
        if cls.__doc__:  # Python may run without docstrings; from 3.13 on they come without the indentation
            cls.__doc__ = cleandoc(cls.__doc__).replace("{parameters}", cleandoc(PARAMETERS))

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        *,
        sample_weight_val: ArrayLike | None = None,
        init_score: ArrayLike | None = None,
        init_score_val: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> BoostedTrees:
        """Train.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix. NaN and None are missing values.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out.
        X_val, y_val : table and array, optional
            Rows to validate on, in place of a part of X; used where `early_stopping` is not False.
        sample_weight_val : array, optional
            Weights of the rows of X_val in what they are measured by.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions (log odds in classification) to start from, in place of the constant of least loss. The
            model predicts what comes on top; give those of new rows to `predict`.
        init_score_val : array, optional
            The same for X_val.
        groups : array of shape (n_samples,), optional
            For the splitter given as `validation`.
        resume : path, optional
            A file that `checkpoint_path` left: go on from there, with the same rows, to the model that one fit without
            a stop makes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For parameters and data that break their rules.
        """
        self._check_parameters()
        self._check_all_read()
        if (init_score_val is not None) != (init_score is not None and X_val is not None):
            raise ValueError("init_score_val must be given where init_score and X_val are, and only there.")
        if sample_weight_val is not None and X_val is None:
            raise ValueError("sample_weight_val are weights of X_val, which must be given with them; got None.")
        if X_val is not None and self.validation is not None:
            raise ValueError("validation must be None where X_val is given: it chooses rows of X to validate on.")
        self._check_groups(groups, y)
        self._earlier = self._find_earlier(resume)
        try:
            data = self._learn_data(X, y, sample_weight)
            if self._earlier is not None:
                self._earlier.check_door(self._encoder_state(), self._get_loss())
            data = self._with_offset(data, init_score, y)
            splits = X_val is None and y_val is None and self.early_stopping != "auto"
            self._seed = self._choose_seed(data.y, splits=splits)
            held_out = self._split_rows(data, groups) if X_val is None and y_val is None else None
            if held_out is None:
                training, validation = self._split_validation(data, X_val, y_val, sample_weight_val)
            else:
                training, validation = (taken(data, rows) for rows in held_out)
            self._check_validated(validation)
            if self.refit and held_out is None:
                raise ValueError("refit must be False with X_val, beside which all rows of X are trained on; got True.")
            if X_val is not None and validation is not None:
                validation = self._with_offset(validation, init_score_val, y_val)
            self._fit_rounds(training, validation)
            if self.refit and held_out is not None:
                self._fit_again(data)
        finally:
            self.__dict__.pop("_earlier", None)
            self.__dict__.pop("_metrics", None)
        return self

    # Before the rounds --------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_together(self)

    def _check_groups(self, groups: Any, y: Any) -> None:
        """Raise ValueError for groups that nobody reads, and for the wrong number of them."""
        if groups is None:
            return
        if self.validation is None:
            raise ValueError("validation must be the splitter that groups are for, where fit gets groups; got None.")
        if np.shape(groups) != np.shape(y)[:1]:
            raise ValueError(
                f"groups must have one for each of the {np.shape(y)[0]} rows; got shape {np.shape(groups)}."
            )

    def _find_earlier(self, resume: Any) -> Earlier | None:
        """What to go on from: a checkpoint, or the last fit."""
        if resume is not None:
            return Earlier.of(checked_checkpoint(resume, self))
        if not self.warm_start or not hasattr(self, "_ensemble"):
            return None
        if self.n_estimators < self.n_estimators_:
            raise ValueError(
                f"n_estimators must be at least {self.n_estimators_}, the rounds of the last fit, with "
                f"warm_start=True; got {self.n_estimators}."
            )
        loss = self._get_loss().name
        if loss != self._loss.name:
            raise ValueError(
                f"loss must be as in the last fit, {self._loss.name!r}, with warm_start=True; got {loss!r}."
            )
        if self._ensemble.has_constant_leaves == self.linear_leaves:
            raise ValueError(
                f"linear_leaves must be as in the last fit, {not self.linear_leaves}, with warm_start=True; "
                f"got {self.linear_leaves}."
            )
        return Earlier.of(self)

    def _with_offset(self, data: TrainingData, init_score: Any, y: Any) -> TrainingData:
        """The rows with raw predictions to start from, given one for each of `y`."""
        if init_score is None:
            return data
        offset = checked_offset(init_score, len(y), self._get_loss().n_outputs)
        return data._replace(offset=np.ascontiguousarray(offset.T if data.rows is None else offset.T[:, data.rows]))

    def _split_rows(self, data: TrainingData, groups: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
        """Rows to train and to validate on by the splitter's last split, or at random; None for no validation."""
        if self.validation is None:
            if isinstance(self.early_stopping, str) or not self.early_stopping:
                return None
            return self._hold_out_rows(data, self._seed)
        if not self.early_stopping:
            raise ValueError("validation is for early stopping; early_stopping must not be False with it.")
        if groups is not None:
            groups = np.asarray(groups)[slice(None) if data.rows is None else data.rows]
        *_, (train, validation) = self.validation.split(np.empty((len(data.y), 0)), self._told_target(data.y), groups)
        return np.sort(train), np.sort(validation)

    def _choose_seed(self, y: Array, *, splits: bool) -> int:
        """A number for all that is random; 0 where nothing is, and that of the fit that this one continues."""
        if self._earlier is not None:
            return self._earlier.seed
        draws = row_sampling(self).draws or draws_features(self) or self._columns_of_statistics(y)[1]
        if not (splits or self.boosting == "dart" or draws):
            return 0
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _growth_rules(self) -> GrowthRules:
        return growth_rules(self)

    def _boosting_rules(self, n_threads: int) -> BoostingRules:
        return boosting_rules(self, self._seed, n_threads)

    def _new_run(self, binning: Binning, data: TrainingData, rules: BoostingRules, start: Start) -> BoostingRun:
        kind: type[BoostingRun] = BoostingRun if rules.dart is None else DartRun
        if rules.linear_l2 is not None:
            check_linear_leaves(self, self._loss)
            kind = LinearRun if rules.dart is None else LinearDartRun
        return kind(binning, data, self._loss, self._growth_rules(), rules, start)

    def _told_target(self, y: Array) -> Array:
        """What there is to say of rows besides their columns: for splitters, and for draws that follow from content."""
        return y

    def _start(self, data: TrainingData, rules: BoostingRules) -> Start:
        hashes = content_hashes(data.X, self._told_target(data.y), rules.n_threads) if rules.sampling.draws else None
        return Start(hashes, None if self._earlier is None else self._earlier.ensemble.baseline)

    def _learn_binning(self, data: TrainingData, n_threads: int) -> Binning:
        if self._earlier is None:
            return super()._learn_binning(data, n_threads)
        self._check_same_statistics(self._earlier.statistics)
        return self._earlier.ensemble.binning

    def _watch(self, run: BoostingRun, codes: NDArray[np.unsignedinteger], validation: TrainingData) -> None:
        labels = self._labels_of_targets(validation.y)
        metrics = [self.eval_metric] if isinstance(self.eval_metric, str) else self.eval_metric
        if LOSS in (metrics if isinstance(metrics, list | tuple) else [metrics]):
            self._loss.check_measured()
        run.validate_on(codes, validation)
        assert run.validation is not None
        self._metrics = Metrics(self.eval_metric, self, run.validation.rows, run.loss, labels)
        run.validation.measure = self._metrics.measure
        run.history.rises = self._metrics.rises[self._metrics.names[0]]

    # The rounds --------------------------------------------------

    def _fit_rounds(self, training: TrainingData, validation: TrainingData | None) -> None:
        run = self._start_run(training, validation)
        if self._earlier is not None:
            self._earlier.give_to(run, self._metrics)
        n_given = len(training.y) if training.rows is None else int(training.rows.max()) + 1
        with self._watching(run) as watch:
            try:
                run.run(watch)
            except BaseException as error:
                # What has been grown before Ctrl-C, or before a callback failed, is a model.
                if isinstance(error, KeyboardInterrupt) or (watch is not None and watch.failed):
                    self._finish(run)
                raise
        self._finish(run)
        if watch is not None:
            watch.finish()
        if run.out_of_bag is not None:
            self._keep_out_of_bag(run, training, n_given)

    @contextmanager
    def _watching(self, run: BoostingRun) -> Iterator[RoundWatch | None]:
        """What is to be called after each round, if anything."""
        callbacks: list[Callable[..., Any]] = list(self.callbacks or [])
        watch = RoundWatch(self, run, self._metrics, callbacks)
        if self.verbose == "bar":
            with progress_bar() as advance:
                callbacks.append(advance)
                yield watch
            return
        if self.verbose:
            callbacks.append(Announcer(int(self.verbose)))
        yield watch if watch.is_needed else None

    def _fit_again(self, data: TrainingData) -> None:
        """Fit to all rows for the best number of rounds; what was measured stays."""
        run = self._start_run(data, None)
        run.rules = replace(run.rules, n_rounds=self.n_estimators_)
        run.run()
        self._keep(run, run.n_rounds)

    def _finish(self, run: BoostingRun, n_rounds: int | None = None) -> None:
        super()._finish(run, n_rounds)
        self.best_iteration_ = self.n_estimators_
        scores = {} if self._metrics is None else self._metrics.scores
        self.validation_scores_ = {name: np.array(values) for name, values in scores.items()}
        for name in ("oob_improvement_", "oob_prediction_", "oob_decision_function_", "_best_trees"):
            self.__dict__.pop(name, None)
        if n_rounds is not None and run.changes_trees and run.history.validation:
            self._best_trees = run.ensemble(run.best_round)

    def _keep(self, run: BoostingRun, n_rounds: int) -> None:
        super()._keep(run, n_rounds)

    def _keep_out_of_bag(self, run: BoostingRun, data: TrainingData, n_given: int) -> None:
        """Keep what the rounds said of rows that they left out."""
        assert run.out_of_bag is not None
        self.oob_improvement_ = np.array(run.out_of_bag.improvement)
        raw = np.ascontiguousarray(run.out_of_bag_raw().T)
        name = "predict_proba" if hasattr(self, "predict_proba") else "predict"
        found = self._answers_from_raw(name, raw)
        if isinstance(found, list):
            found = np.concatenate(found, axis=1)
        attribute = "oob_decision_function_" if name == "predict_proba" else "oob_prediction_"
        if data.rows is not None:
            spread = np.full((n_given, *found.shape[1:]), np.nan)
            spread[data.rows] = found
            found = spread
        setattr(self, attribute, found)

    def _leaves_changed(self, data: TrainingData, decay: float) -> None:
        super()._leaves_changed(data, decay)
        self.__dict__.pop("_best_trees", None)

    # Saving --------------------------------------------------

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "best_iteration_", "_seed")

    def _saved_parameters(self) -> dict[str, Any]:
        parameters = super()._saved_parameters() | _OF_FITTING
        metrics = parameters["eval_metric"]
        given = metrics if isinstance(metrics, list | tuple) else [metrics]
        return parameters if all(isinstance(each, str) for each in given) else parameters | {"eval_metric": LOSS}

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        scores = {f"scores.{name}": values for name, values in self.validation_scores_.items()}
        out_of_bag = {f"fitted.{name}": getattr(self, name) for name in self._out_of_bag_names()}
        best = {} if self._best_trees is None else tree_arrays(self._best_trees, _BEST)
        return super()._fitted_arrays() | scores | out_of_bag | best

    def _out_of_bag_names(self) -> list[str]:
        names = ("oob_improvement_", "oob_prediction_", "oob_decision_function_")
        return [name for name in names if name in self.__dict__]

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        self.validation_scores_ = {
            name.removeprefix("scores."): array for name, array in arrays.items() if name.startswith("scores.")
        }
        if any(name.startswith(_BEST) for name in arrays):
            self._best_trees = trees_among(arrays, _BEST)
        for name in ("oob_improvement_", "oob_prediction_", "oob_decision_function_"):
            if f"fitted.{name}" in arrays:
                setattr(self, name, arrays[f"fitted.{name}"])

    # Answers --------------------------------------------------

    def _answers_from_raw(self, name: str, raw: Array) -> Any:
        """What the method of that name returns for raw predictions of shape (n_samples, n_outputs)."""
        return self._loss.predict(raw)

    def _labels_of_targets(self, y: Array) -> NDArray[Any]:
        """Targets as the user gave them."""
        return y

    def _own_metric(self, name: str) -> OwnMetric | None:
        """The metric of that name that only this kind of estimator has, larger being better."""
        return None

    def _raw_from(self, X: Any, init_score: Any) -> Array:
        """Raw predictions on top of given ones."""
        raw = self._raw(X)
        return raw if init_score is None else raw + checked_offset(init_score, *raw.shape)

    def _staged_raw_from(self, X: Any, init_score: Any) -> Iterator[Array]:
        """The same after each round."""
        for raw in self._staged_raw(X):
            yield raw if init_score is None else raw + checked_offset(init_score, *raw.shape)
