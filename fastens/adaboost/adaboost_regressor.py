"""AdaBoost.R2: a weighted median of regressors fitted to rows reweighted by earlier errors (Drucker 1997)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from fastens.adaboost.voting_rounds import WeakTrees
from fastens.adaboost.weak_learners import (
    BinnedRows,
    DrawnRows,
    RoundWeights,
    Trees,
    check_single_rank,
    check_weak,
    compact_counts,
    content_order,
    draws_rows,
    fitted_copy,
    match_sparse_format,
    models_to_arrays,
    restore_models,
    weighted_importances,
    with_categorical_columns,
)
from fastens.base import BaseRegressor, Capabilities, TrainingData
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.combining.responses import number_response
from fastens.engine.bins.binning import binned, learn_binning
from fastens.engine.comm import max_floats
from fastens.engine.elementary import exp, log
from fastens.engine.forest.forests import ForestParameters, number_target
from fastens.engine.losses.losses import weighted_mean
from fastens.engine.parts import as_array, in_memory, map_parts
from fastens.engine.rows.sampling import stream_seeds
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.leaf_values import TreeMedian
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import draw_seed
from fastens.modelfile.saving import Arrays, Saved, SavedParts
from fastens.monitoring.callbacks import staged_scores
from fastens.params.estimator import with_parameters
from fastens.params.options import Categories, TextChoice
from fastens.params.rules import ANYTHING, ESTIMATOR, FLAG, NONE, RANDOM_STATE, one_of, parameter, whole
from fastens.params.types import ColumnChoice, ColumnGroups, PerColumn, RandomState
from fastens.table.training_data import WEIGHT_TYPE
from fastens.tree_model.saving import SavedEnsemble, bins_of_features
from fastens.tree_model.tree_model import CATEGORIES, OF_OWN_TREES, check_no_constraints, monotone_columns, path_rules

Array = NDArray[np.float64]

RULES, _DEPTH = BoostedTrees._parameter_rules, OF_OWN_TREES["max_depth"]


@with_parameters
class AdaBoostRegressor(SavedEnsemble, BaseRegressor):
    """AdaBoost.R2 regressor on regression trees or any other regressor.

    Each round fits a regressor to the weighted rows and measures the loss L of each row, scaled so that the largest
    error is at most 1. With the weighted mean loss m and b = m / (1 - m), the weights are multiplied by b^(1 - L), so
    that rows with small errors count less. The prediction is the median of the regressors' predictions, weighted by
    log(1 / b).

    Parameters
    ----------
    estimator : regressor, optional
        Base estimator. If None, trees of depth `max_depth` are boosted, which are grown on rows that are binned once
        for all rounds. A regressor whose `fit` has no `sample_weight` is always fitted to rows drawn with replacement.
        Base estimators receive numeric arrays in which categories are replaced by their indices. fastens estimators
        still treat these columns as categorical, unless they are nested in a meta-estimator such as bagging or voting.
    n_estimators : int, default=50
        Maximum number of rounds. Boosting ends early with a regressor that makes no error, which gets weight 1. It also
        ends before a regressor whose mean loss is 1/2 or more; if this is the first one, it is kept.
    learning_rate : float, default=1.0
        Shrinkage: the exponent of b and the factor of the regressors' weights. Smaller values need more rounds.
    loss : {"linear", "square", "exponential"}, default="linear"
        Loss of a row: r, r^2 or 1 - exp(-r), where r is the absolute error divided by the largest absolute error.
    resample : bool, default=True
        If True, fit each round to rows drawn with replacement with probabilities proportional to their current weights,
        as in the paper. The number of draws is the number of rows. If False, fit to all rows with their weights.
    max_depth : int, default=3
        Maximum depth of the trees.
    monotonic_cst : array of -1, 0, 1 or dict by name, default=None
        Monotonic constraint of each feature: the prediction must not decrease (1) or not increase (-1) with the
        feature; 0 means no constraint. Set the constraints of an `estimator` on the estimator itself.
    random_state : int, RandomState or None, default=None
        Seed for drawing rows. Results do not depend on `n_jobs`. An `estimator` whose random_state is None is seeded
        with the index of the round.
    {parameters}

    Attributes
    ----------
    {attributes}
    n_estimators_ : int
        Number of rounds of the model.
    estimator_weights_, estimator_errors_ : arrays of shape (n_estimators_,)
        Weight and weighted mean loss of each regressor.
    estimators_ : sequence
        The fitted regressors. Trees grown by fastens are created when they are accessed.
    estimators_samples_ : list of int32 arrays
        Indices of the rows that each round was fitted to, repeated as often as they were drawn. Only if rows are drawn.
        A fitted model stores one byte for each row and round for them; saved files do not contain them.

    References
    ----------
    Drucker (1997), "Improving regressors using boosting techniques", ICML, section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import AdaBoostRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AdaBoostRegressor(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    """

    _combination = "weighted median"
    estimator: BaseEstimator | None = parameter(ESTIMATOR | NONE, default=None, kw_only=False)
    n_estimators: int = parameter(RULES["n_estimators"], default=50)
    learning_rate: float = parameter(RULES["learning_rate"], default=1.0)
    loss: str = parameter(one_of("linear", "square", "exponential"), default="linear")
    resample: bool = parameter(FLAG, default=True)
    max_depth: int = parameter(whole(1, 30), default=3, needs=_DEPTH)
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(RULES["max_bins"], default=255, needs=_DEPTH)
    monotonic_cst: PerColumn = parameter(ANYTHING, default=None)
    interaction_cst: ColumnGroups = parameter(ANYTHING, default=None)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    text_features: TextChoice = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _capabilities = Capabilities(supports_distributed_fit=True)

    _holds = "rounds"
    _drawn: DrawnRows | None = field(init=False, default=None)

    def _validate_combinations(self) -> None:
        """Raise ValueError for constraints with an `estimator`, or if the estimator is not a regressor of tables."""
        check_no_constraints(self)
        if self.estimator is not None:
            check_weak(self.estimator, wants_classifier=False)

    @property
    def estimators_(self) -> Sequence[Any]:
        """Fitted regressors."""
        self._check_fitted()
        return vars(self).get("_models") or WeakTrees(self)

    @property
    def estimators_samples_(self) -> list[NDArray[np.int32]]:
        """Row indices that each round was fitted to, repeated as drawn; only with `resample`, not in loaded models."""
        self._check_fitted()
        return DrawnRows.samples_of(self)

    def __len__(self) -> int:
        """Return the number of regressors."""
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        """Return a regressor of `estimators_`, or a list of regressors for a slice."""
        return self.estimators_[index]

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> AdaBoostRegressor:
        """Fit the model to a training set.

        Parameters
        ----------
        {X}
        {y}
        sample_weight : array of shape (n_samples,), optional
            Initial weights of the rows. A weight of 2 is equivalent to repeating the row, and a weight of 0 to leaving
            it out.

        Returns
        -------
        self
        """
        data = self._learn_statistics(self._start_fit(X, y, sample_weight), 0)
        data = data if self.estimator is None else match_sparse_format(data, X)
        for name in ("_ensemble", "_models"):
            self.__dict__.pop(name, None)
        learner = self._make_learner(data)
        classes = np.zeros(len(data.y), np.uint16)
        weights = RoundWeights(classes, data.sample_weight, resolve_n_jobs(self.n_jobs), data.comm)
        fitted: list[Any] = []
        votes: list[tuple[float, float]] = []
        all_drawn: list[Any] = []
        order = content_order(learner.content(), classes, self._comm) if draws_rows(self) else None
        seed = 0 if order is None else self._comm.allgather(draw_seed(self.random_state))[0]
        for index in count():
            drawn = None if order is None else weights.draw(order, stream_seeds(seed, index, index + 1))
            model, prediction = learner.fit(weights, drawn, index)
            weight, error, steps = self._weigh_regressor(np.abs(data.y - prediction), weights)
            if weight == 0 and fitted:
                break
            fitted.append(model)
            all_drawn.append(compact_counts(drawn, self._comm))
            votes.append((weight or 1.0, error))
            if steps is None or len(fitted) == self.n_estimators:
                break
            weights.add(steps)
        self._finish(learner, fitted, votes)
        self._drawn = DrawnRows.of(all_drawn, data.rows, order)
        return self

    def _make_learner(self, data: TrainingData) -> _TreeRegressors | _Regressors:
        """Return the object that fits the regressor of each round; rows are binned here, once for all rounds."""
        comm = data.comm
        if self.estimator is not None:
            check_single_rank(self.estimator, comm)
            return _Regressors(with_categorical_columns(self.estimator, self._is_categorical), data)
        n_threads = resolve_n_jobs(self.n_jobs)
        max_bins = bins_of_features(self)
        binning = learn_binning(data.X, data.sample_weight, max_bins, self._is_categorical, n_threads, comm)
        matrix = binned(binning, data.X, n_threads, comm)
        rows = BinnedRows(binning, matrix.columns, None, n_threads)
        center = weighted_mean(data.y, data.sample_weight, comm)
        rules = ForestParameters(
            "squared_error", max_depth=self.max_depth, monotone=monotone_columns(self), **path_rules(self)
        )
        target = number_target(data.y - center, comm=comm)
        return _TreeRegressors(Trees(rows, matrix, target, rules, n_threads), center)

    def _weigh_regressor(self, error: Array, weights: RoundWeights) -> tuple[float, float, Array | None]:
        """Return a regressor's weight, its mean loss and each row's step of the log weight.

        `error` holds the absolute error of each row. The steps are None if boosting must end, because the regressor is
        perfect or has a mean loss of at least 0.5, which gives a weight of 0.
        """
        (largest,) = max_floats(self._comm, float(error.max(initial=0.0)))
        if largest == 0:
            return 1.0, 0.0, None
        loss = error / largest
        if self.loss == "square":
            loss = loss**2
        elif self.loss == "exponential":
            loss = 1 - exp(-loss)
        mean = weights.mean(loss)
        if mean <= 0:
            return 1.0, 0.0, None
        if mean >= 0.5:
            return 0.0, mean, None
        log_b = float(log(mean / (1 - mean)))
        return -self.learning_rate * log_b, mean, self.learning_rate * log_b * (1 - loss)

    def _finish(self, learner: Any, fitted: list[Any], votes: list[tuple[float, float]]) -> None:
        """Set the fitted attributes from the fitted regressors and their (weight, mean loss) pairs, `votes`."""
        self.n_estimators_ = len(fitted)
        self.estimator_weights_, self.estimator_errors_ = np.array(votes).T.copy()
        if self.estimator is not None:
            self._models = fitted
            return
        self._ensemble = learner.ensemble(fitted)
        self._send_unseen()
        self._restored()

    def _check_weights(self, arrays: Arrays) -> None:
        """Set the estimators from saved arrays; raise ValueError unless each has a weight, and all are valid."""
        n_estimators = len(self._models) if restore_models(self, arrays) else self._ensemble.n_trees
        weights = self.estimator_weights_
        if self.n_estimators_ != n_estimators or np.shape(weights) != (n_estimators,):
            raise ValueError("the weights and the regressors do not match")
        if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
            raise ValueError("the weights of the regressors are malformed")

    _may_lack_trees = True
    _saved: ClassVar[SavedParts] = (
        *("n_estimators_", "estimator_weights_", "estimator_errors_"),
        Saved(models_to_arrays, finish=_check_weights),
    )

    def _shown_trees(self) -> TreeEnsemble:
        """Return the trees; raise ValueError if the regressors are other estimators."""
        self._check_fitted()
        if "_models" in vars(self):
            raise ValueError(f"estimator must be None for methods that read the trees; got {self.estimator!r}.")
        return self._ensemble

    def _restored(self) -> None:
        """Set the object that computes weighted medians of trees, after the other attributes have been restored."""
        self._median = TreeMedian(self._ensemble, self.estimator_weights_)

    # Predict --------------------------------------------------

    def predict(self, X: ArrayLike) -> Array:
        """Return the weighted median of the regressors' predictions, shape (n_samples,)."""
        table = self._check_table(X)
        if "_models" in vars(self):
            return self._medians(in_memory(table), [self.n_estimators_])[0]
        n_threads = resolve_n_jobs(self.n_jobs)
        return map_parts(lambda part: self._median.predict(part, n_threads), table)

    def staged_predict(self, X: ArrayLike) -> Iterator[Array]:
        """Yield the predictions after each round."""
        table = self._check_table(X)
        if "_models" in vars(self):
            yield from self._medians(in_memory(table), range(1, self.n_estimators_ + 1))
            return
        n_threads = resolve_n_jobs(self.n_jobs)
        leaves = map_parts(lambda part: self._ensemble.apply(part, n_threads), table)
        for n_trees in range(1, self.n_estimators_ + 1):
            yield self._median.of_leaves(leaves, n_threads, n_trees)

    def staged_score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Iterator[float]:
        """Yield the score after each round.

        Parameters
        ----------
        X, y, sample_weight
            Rows, targets and weights, as for `score`.
        """
        return staged_scores(self, X, y, sample_weight)

    def explain(self, X: ArrayLike, *given: Any, **options: Any) -> Any:
        """Raise ValueError, because a weighted median of trees has no Shapley values that can be computed tree by tree.

        Parameters
        ----------
        X, *given, **options
            Ignored; present for compatibility with `explain` of other models.

        Returns
        -------
        None
            Never returns.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(
            "predictions must be sums of trees to be explained, but AdaBoostRegressor predicts weighted "
            "medians. Explain the regressors in estimators_, or use sklearn.inspection.permutation_importance."
        )

    def _medians(self, X: Any, rounds: Any) -> list[Array]:
        """Return the weighted median, (n_samples,), of the first n estimators' predictions, for each n in `rounds`."""
        predictions = np.hstack([number_response("estimator", model, X) for model in self._models])
        medians = []
        for n in rounds:
            order = np.argsort(predictions[:, :n], axis=1, kind="stable")
            below = np.cumsum(self.estimator_weights_[:n][order], axis=1)
            position = (below >= (0.5 - 1e-12) * below[:, -1:]).argmax(axis=1)
            medians.append(predictions[np.arange(len(order)), order[np.arange(len(order)), position]])
        return medians

    @property
    def feature_importances_(self) -> Array:
        """Importances averaged over the regressors by their weights, normalised to sum to 1, shape (n_features,)."""
        self._check_fitted()
        return weighted_importances(self)


class _TreeRegressors:
    """Learner that fits trees and predicts the training rows."""

    def __init__(self, trees: Trees, center: float) -> None:
        self._trees, self._center = trees, center

    def content(self) -> Iterator[NDArray[Any]]:
        """Yield the columns of bin codes and then the targets, by which rows are identified for drawing."""
        columns = self._trees.columns
        yield from (columns[feature].astype(np.float64) for feature in range(columns.shape[0]))
        yield from self._trees.target.y.T

    def fit(self, weights: RoundWeights, drawn: NDArray[np.int64] | None, index: int) -> tuple[Any, Array]:
        """Return the tree of round `index` and its predictions for all training rows, (n_rows,).

        It is fitted to `weights`, or to rows repeated as often as drawn if `drawn` is not None.
        """
        tree = self._trees.grow(weights, drawn, index)
        value = tree.value[:, 0].astype(np.float64) + self._center
        return tree, value[self._trees.rows.nodes(tree)[0]]

    def ensemble(self, trees: list[Any]) -> TreeEnsemble:
        """Return the trees as an ensemble, with the mean target, which they are fitted without, added to all values."""
        return self._trees.with_values(trees, [tree.value.astype(np.float64) + self._center for tree in trees])


class _Regressors:
    """Learner that fits clones of any regressor and predicts the training rows."""

    def __init__(self, estimator: Any, data: TrainingData) -> None:
        self._estimator, self._data = estimator, data._replace(X=in_memory(data.X))

    def content(self) -> NDArray[Any]:
        """Return the columns of the table and then the target as rows of an array, by which rows are identified."""
        return np.vstack([as_array(self._data.X).T.astype(np.float64), self._data.y[None]])

    def fit(self, weights: RoundWeights, drawn: NDArray[np.int64] | None, index: int) -> tuple[Any, Array]:
        """Return a clone fitted in round `index`, and its predictions for all training rows, (n_rows,).

        It is fitted to `weights`, or to rows repeated as often as drawn if `drawn` is not None.
        """
        whole = weights.whole if drawn is None else drawn, weights.n_copies
        model = fitted_copy(self._estimator, self._data.X, self._data.y, whole, index)
        return model, number_response("estimator", model, self._data.X)[:, 0]
