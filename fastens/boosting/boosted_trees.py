"""Base class of the gradient boosting estimators: `fit`, and the methods that all kinds of targets share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from fastens.base import TrainingData
from fastens.boosting.calibration import PREFIX as CALIBRATION
from fastens.boosting.continuing import continue_rounds, find_earlier, learned_data, refitted
from fastens.boosting.fit_arguments import (
    EvalSet,
    GivenValidation,
    check_arguments,
    check_validated,
    checked_offset,
    named_sets,
    offset_to_score,
    record_sets,
    split_rows,
    subset,
)
from fastens.boosting.folds import announcing, end_of_time, fit_folds, watching
from fastens.boosting.parameters import (
    AUTO,
    CALLBACKS,
    L2_OTHERWISE,
    NUMBER_OF_FEATURES,
    RATE,
    RATES,
    SPLITS,
    STOPS,
    boosting_parameters,
    draws_splits,
    growth_parameters,
    learning_rates,
    prepared,
    row_sampling,
    validate_combinations,
)
from fastens.boosting.rounds import Rounds
from fastens.boosting.row_sampling import hashes_of_queries, out_of_bag_attributes
from fastens.engine.grow.growth import GrowthParameters
from fastens.engine.losses.column_losses import ColumnLosses, LeastSquares
from fastens.engine.losses.losses import Loss
from fastens.engine.parts import origin, release
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import on_used_columns
from fastens.engine.trees.trees import TreeEnsemble
from fastens.modelfile.saving import Arrays, Saved, SavedParts, attributes
from fastens.monitoring.callbacks import CallbackSupportMixin, score_of
from fastens.monitoring.metrics import LOSS, METRICS, Evaluations, Metrics, OwnMetric, ScoredRows
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.options import Categories, Dart, EarlyStopping, Goss, Growth, LinearLeaves, Mvs, TextChoice, record
from fastens.params.rules import ANYTHING, FLAG, NONE, RANDOM_STATE, Rule, one_of, parameter, real, whole
from fastens.params.types import Callbacks, ColumnChoice, ColumnGroups, LearningRate, Metric, PerColumn, RandomState
from fastens.rollback import keep_on_interrupt, keep_partial
from fastens.table.training_data import WEIGHT_TYPE
from fastens.tree_model.saving import BINS, slice_rounds, tree_arrays, trees_from_arrays
from fastens.tree_model.tree_model import TreeModel

Array = NDArray[np.float64]
_BEST = "best."
_OUT_OF_BAG = ("oob_improvement_", "oob_prediction_", "oob_decision_function_")


@with_parameters
class BoostedTrees(CallbackSupportMixin, TreeModel):
    """Gradient boosting, in which each round grows trees on the gradients after the earlier rounds.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied by `sample_weight`, but not for X_val. If None, all classes have weight 1.
    n_estimators : int
        Maximum number of boosting rounds. Early stopping may keep fewer.
    learning_rate : float, list of float or callable
        Factor that shrinks every leaf value, also called shrinkage, eta, nu or lambda. Smaller values need more rounds.
        A list has a factor for each round; a callable takes the index of a round, from 0, and returns its factor.
    max_leaf_nodes : int or None
        Maximum number of leaves of a tree, which grows best-first. If None, trees grow level by level, without a limit.
    max_depth : int or None
        Maximum number of splits between the root and a leaf. If None, the depth is not limited.
    min_samples_leaf : int or None
        Minimum number of rows in a leaf. Integer weights count as copies; a row with a fractional weight counts as one
        row. If None, 5, or 10 for distributions, or 20 with linear leaves and with losses that do not estimate the
        dispersion (see `split_penalty`). For quantiles below 0.1 or above 0.9, this default grows until two rows of a
        leaf are expected beyond the quantile (200 rows for 0.99), up to a fifth of the rows that the tree is grown on.
    l2_regularization : float or None
        L2 regularization of leaf values, added to the sum of hessians of a leaf. If the mean sample weight is below 1,
        it is multiplied by that mean. If None, 1 for most losses; 3 times the square root of the noise before the tree
        for log losses; 30 times the noise for losses with a log link, for Cox and for AFT, and 10 times the noise for
        "exponential", both up to a fifth of the sum of all hessians; for expectiles, 20 times the square root of the
        ratio of the noise to the noise of the best constant. The noise is the ratio of squared gradients to hessians.
    split_penalty : float or None
        Penalty per split for minimal cost-complexity pruning. Larger values prune more, and 0 keeps all splits. The
        unit is the variance of the gradients within the leaves divided by the mean hessian; 2 is Akaike's criterion
        with an estimated dispersion (Burnham & Anderson 2002, section 2.5). If None, 3, or 0 for losses that do not
        estimate the dispersion: absolute error, quantile, Huber and ranking losses.
    max_features : int, float, "sqrt", "log2" or None
        Number of features drawn for each split, or their fraction, which is rounded up. If None, or a number above the
        number of features, all features are used.
    max_features_per_tree : int, float, "sqrt", "log2" or None
        Number of features drawn for each tree, or their fraction, which is rounded up. `max_features` draws from these
        features. If None, or a number above the number of features, all features are used.
    subsample : float
        Expected fraction of the rows drawn for each round. Values below 1 give stochastic gradient boosting.
    sampling : "uniform", "goss", "mvs", Goss or Mvs
        Row sampling method. "uniform": all rows have the same probability. "goss": rows with large gradients are used
        and the others are sampled (see `Goss`). "mvs": the probability of a row grows with its gradient (see `Mvs`).
    boosting : "gbdt", "dart" or Dart
        Boosting method. "gbdt": each round corrects the errors of all earlier trees. "dart": each round drops some of
        the earlier trees, so that no small group of trees dominates (see `Dart`).
    linear_leaves : bool or LinearLeaves
        If True, leaves are linear models of the numeric features on their paths (see `LinearLeaves`). They require a
        loss with a hessian.
    growth : Growth or None
        Rarely needed settings for growing trees, such as `Growth(min_child_weight=1.0)`. If None, `Growth()` is used.
    monotonic_cst : array of shape (n_features,), dict by name, or None
        Monotonicity constraints: 1 if predictions must not decrease with the feature, -1 if they must not increase, and
        0 for no constraint. Categorical features must be ordered, such as ordered pandas categoricals. For three or
        more classes, pass an array of shape (n_classes, n_features) or a dict of constraints by class; they apply to
        the scores of `decision_function`, and to probabilities with loss="one_vs_rest".
    categories : Categories or None
        Handling of categorical columns, such as `Categories(encoding="partition")`. If None, `Categories()` is used.
    early_stopping : bool, "auto" or EarlyStopping
        If True, stop when the validation loss no longer decreases and keep the rounds up to its minimum. "auto" stops
        early only if `fit` gets X_val. If False, all rounds are kept, and X_val is only recorded. `EarlyStopping`
        chooses the validation rows.
    eval_metric : str, callable or list of these
        Metrics of the validation set and of `eval_set`, recorded in `evals_result_`. Each is "loss", the name of a
        scikit-learn scorer, a scorer, or a function of (y, predictions) that returns either a number, where smaller is
        better, or a tuple (name, number, True if larger is better). The first metric decides when to stop. y holds the
        labels that `fit` got; predictions of classes are probabilities, for two classes of the positive class
        `classes_[1]`. scikit-learn's ``..._score`` functions, such as `r2_score`, are maximised.
    validation_fraction : float
        Fraction of the rows held out for validation if early_stopping=True and `fit` does not get X_val.
    n_iter_no_change : int
        Patience: number of rounds without improvement after which training stops.
    tol : float
        Minimum decrease of the validation loss that counts as an improvement. It is relative to the first validation
        loss if that is below 1, except for log losses and for metrics other than the loss.
    oob_score : bool
        If True, predict each row with the rounds that did not draw it. This requires row sampling.
    callbacks : list of callables or None
        Callables that are called after each round with a `CallbackEnv`. A callback that returns True or raises
        `StopTraining` stops the training.
    warm_start : bool
        If True, `fit` continues the last fit up to `n_estimators` rounds, with the result of training all at once.
    verbose : int or "bar"
        Number of rounds between messages to the logger "fastens"; 0 disables them. "bar" shows a progress bar (rich).
    random_state : int, RandomState or None
        Seed for drawing rows, features and thresholds. If None, only fits that draw no rows are reproducible.

    Attributes
    ----------
    n_estimators_ : int
        Number of rounds of the model; with early stopping, the number of rounds with the best validation metric.
    evals_result_ : dict of dicts of arrays
        Values after each round, by set of rows and by metric, such as ``evals_result_["validation"]["loss"]``.
        ``evals_result_.larger_is_better[metric]`` is True for metrics that are maximised. "training" has the loss of at
        most 4000 evenly spaced rows; "validation" and the sets of `eval_set` have each `eval_metric`.
    oob_improvement_ : array of shape (n_rounds,)
        If oob_score=True, the decrease of the loss in each round on the rows that the round did not draw.
    oob_prediction_ : array of the shape of predictions
        If oob_score=True, the out-of-bag prediction of each row: the sum over the rounds that did not draw the row,
        scaled up to all rounds of the model.
    """

    n_estimators: int = parameter(whole(1), default=100)
    learning_rate: LearningRate = parameter(RATE | RATES, default=0.1)
    max_leaf_nodes: int | None = parameter(whole(2) | NONE, default=31)
    max_depth: int | None = parameter(whole(1) | NONE, default=None)
    min_samples_leaf: int | None = parameter(whole(1) | NONE, default=None)
    l2_regularization: float | None = parameter(real(0) | NONE, default=None)
    split_penalty: float | None = parameter(real(0) | NONE, default=None)
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(BINS, default=255)
    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=0.6)
    max_features_per_tree: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=1.0)
    feature_weights: PerColumn = parameter(ANYTHING, default=None)
    subsample: float = parameter(real(0, 1, open_low=True), default=1.0)
    sampling: str | Goss | Mvs = parameter(one_of("uniform", "goss", "mvs") | record(Goss, Mvs), default="uniform")
    boosting: str | Dart = parameter(one_of("gbdt", "dart") | record(Dart), default="gbdt")
    linear_leaves: bool | LinearLeaves = parameter(FLAG | record(LinearLeaves), default=False)
    growth: Growth | None = parameter(NONE | record(Growth), default=None)
    monotonic_cst: PerColumn = parameter(ANYTHING, default=None)
    interaction_cst: ColumnGroups = parameter(ANYTHING, default=None)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    text_features: TextChoice = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(NONE | record(Categories), default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    early_stopping: bool | str | EarlyStopping = parameter(AUTO | record(EarlyStopping), default="auto")
    eval_metric: Metric | Sequence[Metric] = parameter(ANYTHING, default="loss")
    validation_fraction: float = parameter(real(0, 1, open_low=True, open_high=True), default=0.1, needs=SPLITS)
    n_iter_no_change: int = parameter(whole(1), default=10, needs=STOPS)
    tol: float = parameter(real(0), default=1e-7, needs=STOPS)
    oob_score: bool = parameter(FLAG, default=False)
    callbacks: Callbacks = parameter(CALLBACKS | NONE, default=None)
    warm_start: bool = parameter(FLAG, default=False)
    verbose: int | bool | str = parameter(whole(0) | FLAG | one_of("bar"), default=0)
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = TreeModel._docs | described(__doc__)
    _holds = "boosting"
    # Type of the result of `conformalize`; None for estimators without that method.
    _calibration_type: ClassVar[Any] = None
    # True if the splits may minimise the squared error of the negative gradients.
    _has_squared_error_splits: ClassVar[bool] = False
    _metrics_rule: ClassVar[Rule] = METRICS
    # Column of the encoded targets with the query of each row. Splits keep the rows of a query together.
    _query_column: ClassVar[int | None] = None
    # Function that returns the strata of random splits of encoded targets that have no classes, or None.
    _strata_of: ClassVar[Callable[[Array], NDArray[Any] | None] | None] = None

    n_estimators_: int = field(init=False)
    evals_result_: Evaluations = field(init=False)
    oob_improvement_: Array = field(init=False)
    _seed: int = field(init=False)
    _n_targets: int = field(init=False, default=1)
    # Result of `conformalize`, which a new fit or new leaf values invalidate.
    _calibration: Any = field(init=False, default=None)
    # Trees at the best round of a partially trained model, if later rounds have rescaled them (DART).
    _best_trees: TreeEnsemble | None = field(init=False, default=None)
    # Called after each round with the round index, the maximum number of rounds and the losses.
    _on_round: Any = field(init=False, default=None)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        init_score: ArrayLike | None = None,
        init_score_val: ArrayLike | None = None,
        eval_set: EvalSet | None = None,
        groups: ArrayLike | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> BoostedTrees:
        """Fit the model.

        Parameters
        ----------
        {X}
        y : array of shape (n_samples,) or (n_samples, n_targets), or the name of a column
            Targets.
        {sample_weight}
        X_val, y_val : table and array, optional
            Validation set, whose metrics are recorded in `evals_result_`. It is used for early stopping unless
            `early_stopping` is False. If None and early stopping is on, a fraction of X is held out.
        sample_weight_val : array, optional
            Sample weights of the validation set, which its metrics use.
        init_score : array of shape (n_samples,) or (n_samples, n_outputs), optional
            Raw predictions to start from (log odds in classification) instead of the constant with the lowest loss.
            They are not part of the model: pass the raw predictions of new rows to `predict`.
        init_score_val : array, optional
            Raw predictions to start from for X_val.
        eval_set : dict or list of (X, y) or (X, y, sample_weight), optional
            Further rows whose metrics are recorded in `evals_result_` and do not affect the fit. The keys of a dict are
            the names of the sets; the sets of a list are named "eval_0", "eval_1" and so on.
        groups : array of shape (n_samples,), optional
            Groups for the `EarlyStopping.validation` splitter.
        resume : path, optional
            File of a `Checkpoint` from which training on the same rows continues, with the same resulting model.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If parameters or data are invalid.
        """
        start = time.monotonic()
        self._check_parameters()
        self._check_ignored_parameters()
        validation_input = GivenValidation(X_val, y_val, sample_weight_val, init_score_val)
        check_arguments(self, init_score, groups, validation_input)
        others = named_sets(self, eval_set)
        earlier = find_earlier(self, resume)
        data = learned_data(self, earlier, (X, y, sample_weight), validation_input.n_rows)
        data = self._with_offset(data, init_score)
        splits = (
            self.early_stopping not in (False, "auto")
            and not validation_input.is_given
            and self._stopping.validation is None
        )
        self._seed = self._choose_seed(data.y, earlier, splits=splits)
        if self._stopping.folds is not None:
            fit_folds(self, data, start)
            return self
        training, validation = self._split(data, validation_input, groups)
        check_validated(self, validation, is_recorded=bool(others))
        rounds = self._start_rounds(training, validation, earlier)
        record_sets(self, rounds, others)
        # The rounds hold narrower targets, so others need no memory while trees grow.
        training, again = training._replace(y=rounds.train.y), data if self._stopping.refit else None
        del data
        if earlier is not None:
            continue_rounds(rounds, earlier, resumes=resume is not None)
        with watching(self, rounds) as watch:
            try:
                rounds.run(watch, end_of_time(self._stopping, start))
            except BaseException as error:
                # The rounds before Ctrl-C, or before a callback failed, are kept as a fitted model.
                if isinstance(error, KeyboardInterrupt) or (watch is not None and watch.failed):
                    self._finish(rounds)
                    if training.comm.size == 1:
                        self.__dict__.update(out_of_bag_attributes(self, rounds.out_of_bag, training))
                    keep_partial(self, error)
                raise
            self._finish(rounds)
        self.__dict__.update(out_of_bag_attributes(self, rounds.out_of_bag, training))
        if again is not None:
            with keep_on_interrupt(self):
                self._fit_again(again, start, rounds.shifts)
        return self

    # Before the rounds --------------------------------------------------

    def _get_loss(self) -> Loss:
        """Return a new loss object for the parameters, and for the learned targets; subclasses override it."""
        raise NotImplementedError

    def _growth_parameters(self) -> GrowthParameters:
        """Return the parameters of tree growth."""
        return growth_parameters(self)

    def _validate_combinations(self) -> None:
        """Raise ValueError for an invalid `eval_metric`, and for parameters that exclude each other."""
        self._metrics_rule.check("eval_metric", self.eval_metric)
        validate_combinations(self)

    @property
    def _stopping(self) -> EarlyStopping:
        return self._options("early_stopping") or EarlyStopping()

    def _with_offset(self, data: TrainingData, init_score: Any) -> TrainingData:
        """Return the rows with `init_score`, checked, as their offset; it has an entry for each row passed to `fit`."""
        if init_score is None:
            return data
        offset = checked_offset(init_score, data.n_given, self._get_loss().n_outputs, data.rows)
        return data._replace(offset=np.ascontiguousarray(offset.T))

    def _choose_seed(self, y: Array, earlier: Any, *, splits: bool) -> int:
        """Return the seed of all draws, which a continued fit takes over from the fitted estimator `earlier`.

        The seed is 0 if nothing is drawn, or if only features and thresholds are drawn and `random_state` is None, so
        that default fits are deterministic. `splits` is True if validation rows or folds are drawn from X.
        """
        if earlier is not None:
            return earlier._seed
        draws = [row_sampling(self).draws, draws_splits(self) and self.random_state is not None]
        if not (splits or self._options("boosting") is not None or any(draws) or self._columns_of_statistics()[1]):
            return 0
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return int(self._comm.allgather(seed)[0])

    def _split(
        self, data: TrainingData, validation_input: GivenValidation, groups: Any
    ) -> tuple[TrainingData, TrainingData | None]:
        """Return the training set and the validation set; the latter is None without validation.

        Validation rows are the passed ones, or are held out from `data`. Raise ValueError if `early_stopping.refit` is
        True and no rows are held out.
        """
        held_out = None if validation_input.is_given else split_rows(self, data, groups)
        training, validation = data, validation_input.read(self)
        if held_out is not None:
            training, validation = (subset(data, rows) for rows in held_out)
        if self._stopping.refit and held_out is None:
            raise ValueError(
                "refit must be False with X_val, because the model already trains on all rows of X; got True."
            )
        if validation_input.is_given and validation is not None:
            validation = self._with_offset(validation, validation_input.init_score)
        return training, validation

    def _row_hashes(self, data: TrainingData, n_threads: int) -> NDArray[np.uint64]:
        """Return the hash of each row from which its random numbers derive; equal hashes are drawn together."""
        hashes = content_hashes(data.X, self._target_for_hashing(data.y), n_threads)
        return hashes_of_queries(hashes, data.y) if self.sampling == "queries" else hashes

    def _target_for_hashing(self, y: Array) -> Array:
        """Return the target that identifies rows in addition to their features, for splitters and content hashes.

        Query indices and weights are left out, so that a repeated row or query is drawn like its weighted original.
        """
        return y if self._query_column is None else np.ascontiguousarray(y[:, : self._query_column])

    def _start_rounds(self, training: TrainingData, validation: TrainingData | None, earlier: Any) -> Rounds:
        """Bin the training rows, set the loss and validation rows, and return the loop before its first round.

        With the continued fit `earlier`, its bins, baseline and state of the loss are used; its trees are not added.
        """
        self._loss = self._get_loss()
        rules = boosting_parameters(self, self._seed, resolve_n_jobs(self.n_jobs))
        inputs = prepared(self, training, rules, earlier)
        is_read_again = self._stopping.refit or rules.linear_l2 is not None
        if not is_read_again and (validation is None or origin(validation.X) is not origin(training.X)):
            release(training.X)
        rounds = inputs.rounds(self, rules)
        if validation is not None:
            if not is_read_again:
                release(validation.X)
            self._measure_validation(rounds, self._apply_statistics(validation))
        if earlier is not None:
            self._continue_loss(rounds, earlier)
        return rounds

    def _continue_loss(self, rounds: Rounds, earlier: Any) -> None:
        """Copy the state of the loss from the continued fit `earlier`; by default, losses have no state to copy."""

    def _measure_validation(self, rounds: Rounds, validation: TrainingData) -> None:
        """Make the rounds evaluate `eval_metric` on the validation set after each round."""
        rounds.validate_on(validation)
        assert rounds.validation is not None
        rounds.measure_by(self._metrics(rounds, rounds.validation), decides=self.early_stopping is not False)

    def _metrics(self, rounds: Rounds, rows: ScoredRows) -> Metrics:
        """Return the metrics of `eval_metric` on `rows`, whose raw predictions `rounds` updates in place."""
        metric = self.eval_metric
        if LOSS in (metric if isinstance(metric, list | tuple) else [metric]):
            self._loss.check_measured(rows.y)
        return Metrics(metric, self, rows, rounds.loss, self._labels_of_targets(rows.y))

    def _announcing(self) -> AbstractContextManager[list[Any]]:
        """Return a context manager that yields the functions to call after each round, such as callbacks."""
        return announcing(self)

    # After the rounds --------------------------------------------------

    def _fit_again(self, data: TrainingData, start: float, shifts: dict[int, Array]) -> None:
        """Fit to the training and validation rows, `data`, for `n_estimators_` rounds; recorded scores are kept.

        `start` is the `time.monotonic` at which `fit` began. `shifts` holds, by round index, the values added to all
        leaves, which only a fit with validation rows can determine.
        """
        rounds = self._start_rounds(data, None, None)
        rounds.shifts = shifts
        rounds.rules = replace(rounds.rules, n_rounds=self.n_estimators_)
        rounds.run(None, end_of_time(self._stopping, start, is_last=True))
        self.n_estimators_ = rounds.n_rounds
        self._keep_rounds(rounds, rounds.n_rounds)

    def _finish(self, rounds: Rounds, n_rounds: int | None = None) -> None:
        """Set the fitted attributes from the first `n_rounds` rounds; None means all rounds up to the best one."""
        is_partial = n_rounds is not None
        n_rounds = rounds.best_round if n_rounds is None else n_rounds
        self._keep_rounds(rounds, n_rounds)
        self.n_estimators_, self.evals_result_ = n_rounds, rounds.evaluations()
        self._delete(*_OUT_OF_BAG, "_best_trees")
        if is_partial:
            self._best_trees = rounds.best_trees()

    def _keep_rounds(self, rounds: Rounds, n_rounds: int) -> None:
        """Set the trees and other attributes of the first `n_rounds` rounds, and a new loss object without row data."""
        self._restored()
        self._ensemble = rounds.ensemble(n_rounds)
        self._send_unseen()
        self._delete("_calibration")
        self._learn_from_rounds(rounds, n_rounds)

    def _learn_from_rounds(self, rounds: Rounds, n_rounds: int) -> None:
        """Set a subclass's attributes that depend on the rows after `n_rounds` rounds; by default, there are none."""

    def _delete(self, *names: str) -> None:
        """Delete the named attributes, if they are set."""
        for name in names:
            self.__dict__.pop(name, None)

    def refit_leaves(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        decay_rate: float = 0.9,
        init_score: ArrayLike | None = None,
    ) -> Self:
        """Return a copy of the model with leaf values updated on new rows; the model itself is unchanged.

        Use it when the target has drifted, the structure of the trees is still valid, and there are at least hundreds
        of new rows. New leaf values are regularised as in `fit`, so a small number of rows can increase the loss.

        Parameters
        ----------
        X, y : table and array
            New rows with the columns and classes of the training set.
        decay_rate : float, default=0.9
            Weight of the old leaf values, between 0 and 1. A leaf value becomes decay_rate * old + (1 - decay_rate) *
            new, where the new value is the one that a boosting round on the new rows would give, without `path_smooth`.
            Leaves without new rows keep their values, unless `monotonic_cst` requires a change.
        sample_weight, init_score : arrays of shape (n_samples,), optional
            Sample weights, and initial raw predictions (n_samples, n_outputs) as in `fit`.

        Raises
        ------
        ValueError
            If decay_rate is not between 0 and 1, or the rows do not match the model.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from fastens import GradientBoostingRegressor
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = GradientBoostingRegressor(n_estimators=30).fit(X[:200], y[:200])
        >>> later = model.refit_leaves(X[200:400], y[200:400] + 50)
        >>> bool(later.predict(X[400:]).mean() > model.predict(X[400:]).mean())
        True
        """
        model, data = refitted(self, (X, y, sample_weight, init_score), decay_rate)
        model._delete("_best_trees", "_calibration")
        model._update_after_refit(data, decay_rate)
        return model

    def __getitem__(self, rounds: slice) -> Any:
        """Return a fitted model with a slice of the rounds, such as ``model[:50]``, and the same initial constant."""
        self._check_fitted()
        if not isinstance(rounds, slice):
            raise TypeError(f"rounds must be a slice, such as model[:50]; got {rounds!r}.")
        return slice_rounds(self, rounds)

    def _update_after_refit(self, data: TrainingData, decay: float) -> None:
        """Update attributes that depend on the leaf values, from the rows passed to `refit_leaves`; by default, none.

        `decay` is the weight of the old values.
        """

    # Saving --------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        """Return the parameters to save; callables and splitters are replaced by values that can be saved."""
        metric = self.eval_metric  # callables and splitters cannot be saved
        is_plain = all(isinstance(each, str) for each in (metric if isinstance(metric, list | tuple) else [metric]))
        replacements: dict[str, Any] = {"callbacks": None, "eval_metric": metric if is_plain else LOSS}
        if callable(self.learning_rate):  # functions cannot be saved
            rates = learning_rates(self)
            replacements["learning_rate"] = list(rates) if isinstance(rates, tuple) else rates
        if isinstance(self.early_stopping, EarlyStopping):
            replacements["early_stopping"] = self.early_stopping.replaced({"validation": None})
        return {name: replacements.get(name, value) for name, value in super()._saved_parameters().items()}

    def _round_arrays(self) -> Arrays:
        """Return the recorded scores, the trees at DART's best round and the calibration as arrays to save."""
        scores = self.evals_result_.to_arrays()
        best = {} if self._best_trees is None else tree_arrays(self._best_trees, _BEST)
        calibration = {} if self._calibration is None else self._calibration.to_arrays()
        return scores | best | calibration

    def _restore_rounds(self, arrays: Arrays) -> None:
        """Set the attributes that `_round_arrays` saved."""
        self.evals_result_ = Evaluations.from_arrays(arrays)
        if any(name.startswith(_BEST) for name in arrays):
            self._best_trees = trees_from_arrays(arrays, _BEST)
        if self._calibration_type is not None and any(name.startswith(CALIBRATION) for name in arrays):
            self._calibration = self._calibration_type.from_arrays(arrays, self._n_targets)

    _saved: ClassVar[SavedParts] = (
        *("n_estimators_", "_seed"),
        attributes("_n_targets", when=lambda model: model._takes_several_targets),
        Saved(_round_arrays, _restore_rounds),
        attributes(*_OUT_OF_BAG),
    )

    def _n_outputs(self) -> int:
        """Return the number of raw predictions for each row."""
        return self._loss.n_outputs

    def _restored(self) -> None:
        """Set a new loss object, after the other fitted attributes have been restored from a file."""
        self._loss = self._as_fitted()._get_loss()

    # Targets --------------------------------------------------

    def _learn_target(self, y: NDArray[Any]) -> Array:
        """Return the encoded training target; subclasses that learn from it, such as its classes, override this."""
        return self._encode_target(y)

    def _encode_target(self, y: NDArray[Any]) -> Array:
        """Return the target encoded in the way that the loss reads it; by default, it is unchanged."""
        return y

    def _joined_losses(self, parts: Sequence[Loss]) -> Loss:
        """Return one loss from the loss of each target, wrapped if `growth.split_criterion` is "squared_error"."""
        if self._options("growth").split_criterion == "squared_error":
            l2 = L2_OTHERWISE if self.l2_regularization is None else self.l2_regularization
            fitted: list[Any] = [part if part.renews_leaves else LeastSquares(part, l2) for part in parts]
            parts = fitted
        return parts[0] if len(parts) == 1 else ColumnLosses(parts)

    def _labels_of_targets(self, y: Array) -> NDArray[Any]:
        """Return targets in the form in which the user passed them, such as class labels, from encoded targets."""
        return y

    # Predict --------------------------------------------------

    def staged_predict(self, X: ArrayLike, *, init_score: ArrayLike | None = None) -> Iterator[NDArray[Any]]:
        """Yield the predictions after each round, each in the form that `predict` returns."""
        for raw in self._staged_raw_from(X, init_score):
            yield self._response("predict", raw)

    def staged_score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, init_score: ArrayLike | None = None
    ) -> Iterator[float]:
        """Yield the score after each round."""
        for predicted in self.staged_predict(X, init_score=offset_to_score(init_score, sample_weight)):
            yield self._score_of(y, predicted, sample_weight)

    def _score_of(self, y: Any, predicted: Array, sample_weight: Any) -> float:
        """Return the score of the predictions `predicted` for the targets y, computed as in `score`."""
        return score_of(self, y, predicted, sample_weight)

    def _response(self, method: str, raw: Array) -> Any:
        """Return the result of the public method `method`, such as "predict", for raw predictions.

        `raw` has shape (n_rows, n_outputs).
        """
        return self._loss.predict(raw)

    def _own_metric(self, name: str, loss: Loss) -> OwnMetric | None:
        """Return the function of scored rows for the metric `name`, None by default; larger values are better."""
        return None

    def _raw_from(self, X: Any, init_score: Any) -> Array:
        """Return raw predictions, (n_samples, n_outputs), plus `init_score` if it is not None."""
        raw = self._raw(X)
        return raw if init_score is None else raw + checked_offset(init_score, *raw.shape)

    def _staged_raw_from(self, X: Any, init_score: Any) -> Iterator[Array]:
        """Yield the raw predictions, (n_samples, n_outputs), after each round, plus `init_score` if passed."""
        X = self._check_table(X)
        trees, rows = on_used_columns(self._ensemble, X)
        for raw in trees.staged_raw(rows, resolve_n_jobs(self.n_jobs)):
            yield raw if init_score is None else raw + checked_offset(init_score, *raw.shape)
