"""The rounds of AdaBoost whose classifiers vote: fit, go on, replay, keep, and sum the votes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from fastens.adaboost.weak_learners import (
    BinnedRows,
    Estimators,
    Stumps,
    Trees,
    class_indices,
    class_values,
    limited,
    models_from_arrays,
    models_to_arrays,
    takes_weights,
    tree_importances,
    tree_values,
)
from fastens.adaboost.weak_rounds import Vote, VotingRules, VotingRun, Weak
from fastens.base import TrainingData
from fastens.boosting.base_boosting import BaseGradientBoosting
from fastens.boosting.raw_classifier import RawClassifier
from fastens.boosting.rounds import BoostingRun
from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import TreeRules, class_target
from fastens.engine.grow.stumps import StumpLearner, head, joined
from fastens.engine.parts import in_memory
from fastens.engine.threads import resolve_n_jobs
from fastens.forests.tree import DecisionTreeClassifier
from fastens.tree_model.column_rules import monotone_columns, path_rules

Array = NDArray[np.float64]
# The algorithms whose rounds are votes, and not Newton steps.
VOTING = ("discrete", "m1", "real")

# What is more than a rule of growth, and what such rules may need to know of the columns.
_NOT_OF_GROWTH = (
    "class_weight",
    "ccp_alpha",
    "categorical_features",
    "categorical_encoding",
    "categorical_missing",
    "min_weight_fraction_leaf",
)
_COLUMNS = ("n_features_in_", "feature_names_in_", "classes_", "_encoder", "_n_plain_features", "_statistics")


class VotingRounds(RawClassifier, BaseGradientBoosting):
    """A classifier whose rounds are votes where `algorithm` is one of `VOTING`."""

    if TYPE_CHECKING:
        estimator: Any
        n_estimators: int
        learning_rate: float
        algorithm: str
        resample: bool
        restart: bool | str
        max_depth: int
        criterion: str
        max_bins: int
        warm_start: bool
        n_iter_no_change: int
        tol: float
        random_state: Any
        n_jobs: int | None

    @property
    def _votes(self) -> bool:
        return self.algorithm in VOTING

    # Fit --------------------------------------------------

    def _start_fit(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        before = self._encoder_state() if self.warm_start and hasattr(self, "n_estimators_") else None
        data = super()._start_fit(X, y, sample_weight)
        if before is None:
            for name in ("_ensemble", "estimators_", "_values"):
                self.__dict__.pop(name, None)
        elif before != self._encoder_state():
            raise ValueError("warm_start=True must be given the columns, categories and classes of the last fit.")
        elif self.n_estimators < self.n_estimators_:
            raise ValueError(
                f"n_estimators must be at least {self.n_estimators_}, the rounds of the last fit, with "
                f"warm_start=True; got {self.n_estimators}."
            )
        self._n_earlier = 0 if before is None else self.n_estimators_
        return data

    def _start_run(self, data: TrainingData, validation: TrainingData | None) -> Any:
        if not self._votes:
            return super()._start_run(data, validation)
        classes = data.y.astype(np.uint16)
        data = self._learn_same_statistics(data, 0) if self._n_earlier else self._learn_statistics(data, 0)
        if validation is not None:
            validation = self._apply_statistics(validation)
        run = self._voting_run(data, classes, None if validation is None else validation.X)
        if validation is not None:
            run.validate_on(validation.y.astype(np.uint16), validation.sample_weight)
        for index in range(self._n_earlier):
            run.add(self._earlier_vote(index, run.learner))
        return run

    def _voting_run(self, data: TrainingData, classes: NDArray[np.uint16], X_val: Any) -> VotingRun:
        learner = self._learner(data, classes, X_val)
        return VotingRun(learner, classes, data.sample_weight, self._voting_rules())

    def _learner(self, data: TrainingData, classes: NDArray[np.uint16], X_val: Any) -> Estimators | Stumps | Trees:
        """What fits the weak classifiers: rows are binned here, once for all rounds."""
        n_classes, n_threads = len(self.classes_), resolve_n_jobs(self.n_jobs)
        own_rules = self._own_rules(data)
        if self.estimator is not None and own_rules is None:
            return Estimators(self.estimator, self.classes_, in_memory(data.X), classes, in_memory(X_val))
        if "_ensemble" in vars(self):
            binning = self._ensemble.binning
        else:
            max_bins = self.max_bins if self.estimator is None else self.estimator.max_bins
            binning = learn_binning(data.X, data.sample_weight, max_bins, self._is_categorical, n_threads)
        elsewhere = None if X_val is None else binning.codes(X_val, n_threads)
        rules = own_rules or TreeRules(
            self.criterion, max_depth=self.max_depth, monotone=monotone_columns(self), **path_rules(self)
        )
        if own_rules is None and rules.monotone is None and self.max_depth == 1:
            rows = BinnedRows(binning, binning.codes(data.X, n_threads), elsewhere, n_threads)
            finder = StumpLearner(binning, rows.columns, classes, n_classes, self.criterion, n_threads)
            return Stumps(rows, finder)
        matrix = binning.transform(data.X, n_threads)
        rows = BinnedRows(binning, matrix.columns, elsewhere, n_threads)
        return Trees(rows, matrix, class_target(classes, [n_classes]), limited(rules, len(classes)), n_threads)

    def _own_rules(self, data: TrainingData) -> TreeRules | None:
        """The rules of our own trees, which are then grown on rows that are binned once; None for other estimators."""
        if type(self.estimator) is not DecisionTreeClassifier:
            return None
        given, plain = self.estimator.get_params(), DecisionTreeClassifier().get_params()
        if any(given[name] != plain[name] for name in _NOT_OF_GROWTH):
            return None
        template = clone(self.estimator)
        template._check_parameters()
        vars(template).update({name: vars(self)[name] for name in _COLUMNS if name in vars(self)})
        return template._tree_rules(len(data.y), float(len(data.y)))

    def _earlier_vote(self, index: int, learner: Any) -> Vote:
        """A round of the last fit, on the learner's rows."""
        is_real, weight = self.algorithm == "real", self.estimator_weights_[index]
        if isinstance(learner, Estimators):
            weak, values = learner.again(self.estimators_[index]), self._values[index]
        else:
            tree = self._ensemble.tree(index)
            codes, elsewhere = learner.rows.nodes(tree)
            weak = Weak(tree, codes, elsewhere, None, np.zeros(0, np.intp), None)
            values = class_values(np.array(tree.value), is_real)
            # No row is in an inner node: let it be no larger than a leaf.
            values[tree.left_child > 0] = values[-1]
        return Vote(weak, values, weight, self.estimator_errors_[index], bool(self.restarted_[index]))

    def _voting_rules(self) -> VotingRules:
        resample = self.resample or not (self.estimator is None or takes_weights(self.estimator))
        return VotingRules(
            n_classes=len(self.classes_),
            n_rounds=self.n_estimators,
            is_real=self.algorithm == "real",
            learning_rate=self.learning_rate,
            is_m1=self.algorithm == "m1",
            resample=resample,
            restarts=resample if isinstance(self.restart, str) else bool(self.restart),
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)) if resample else 0,
            n_threads=resolve_n_jobs(self.n_jobs),
        )

    def _finish(self, run: BoostingRun | VotingRun, n_rounds: int | None = None) -> None:
        if isinstance(run, BoostingRun):
            super()._finish(run, n_rounds)
            return
        self._restored()
        votes = run.votes[: run.best_round]
        self._keep_votes(votes[self._n_earlier :], min(self._n_earlier, len(votes)), run.learner)
        self.n_estimators_ = self.n_iter_ = len(votes)
        self.estimator_weights_ = np.array([vote.weight for vote in votes])
        self.estimator_errors_ = np.array([vote.error for vote in votes])
        self.restarted_ = np.array([vote.restarted for vote in votes])
        self.train_score_ = np.array(run.history.train)
        self.validation_score_ = np.array(run.history.validation)

    def _keep_votes(self, votes: Sequence[Vote], n_earlier: int, learner: Any) -> None:
        """Put new votes behind the first of those that are there."""
        if isinstance(learner, Estimators):
            self.estimators_ = [*getattr(self, "estimators_", [])[:n_earlier], *(vote.weak.model for vote in votes)]
            self._values = [*getattr(self, "_values", [])[:n_earlier], *(vote.values for vote in votes)]
            return
        parts = [head(self._ensemble, n_earlier)] if n_earlier else []
        parts += [learner.ensemble(votes)] if votes else []
        self._ensemble = parts[0] if len(parts) == 1 else joined(*parts)

    def staged_weights(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Iterator[Array]:
        """Yield the distribution over the rows that each round began with: weights that sum to 1.

        The rounds are gone through again, so that no more than one distribution is in memory. `restarted_` tells the
        rounds that began again from the first one.

        Parameters
        ----------
        X, y, sample_weight
            The rows of `fit`. For others it is what the rounds would have made of them.

        Yields
        ------
        array of shape (n_samples,)
            One for each of the `n_estimators_` rounds.

        Raises
        ------
        ValueError
            For "gentle" and "logit", whose rounds are no votes.
        """
        self._check_fitted()
        if not self._votes:
            rule = f"algorithm must be one of {', '.join(map(repr, VOTING))} for weights of rounds"
            raise ValueError(f"{rule}; got {self.algorithm!r}.")
        data = self._check_validation(X, y, sample_weight)
        given, learned = np.zeros(np.shape(y)[0]), self._statistics
        try:
            run = self._voting_run(self._learn_same_statistics(data, 0), data.y.astype(np.uint16), None)
        finally:
            self._statistics = learned
        for index in range(self.n_estimators_):
            vote = self._earlier_vote(index, run.learner)
            if vote.restarted:
                run.restart()
            given[slice(None) if data.rows is None else data.rows] = run.weights.shares
            yield given.copy()
            run.add(vote)

    def _fitted_names(self) -> tuple[str, ...]:
        names = ("estimator_weights_", "estimator_errors_", "restarted_") if self._votes else ()
        return (*super()._fitted_names(), *names)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        if getattr(self, "estimators_", None) is None:
            return super()._fitted_arrays()
        return models_to_arrays(self.estimators_) | {"values": np.array(self._values)}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        models = models_from_arrays(arrays)
        if not models:
            super()._restore_fitted(arrays)
            return
        self.estimators_, self._values = models, list(arrays["values"])
        self._restored()

    # Predict --------------------------------------------------

    def _raw(self, X: Any) -> Array:
        if getattr(self, "estimators_", None) is None:
            return super()._raw(X)
        *_, raw = self._staged_raw(X)
        return raw

    def _staged_raw(self, X: Any) -> Iterator[Array]:
        if getattr(self, "estimators_", None) is None:
            return super()._staged_raw(X)
        return self._staged_sums(in_memory(self._check_table(X)))

    def _staged_sums(self, X: Any) -> Iterator[Array]:
        """Sum the votes of foreign estimators."""
        raw = np.zeros((X.shape[0], self._n_outputs()))
        for model, values in zip(self.estimators_, self._values, strict=True):
            raw = raw + tree_values(values)[class_indices(model, self.classes_, X)]
            yield raw

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the gain of the weak classifiers, each weighted as it votes, shape (n_features,)."""
        self._check_fitted()
        if not self._votes:
            return super().feature_importances_
        if getattr(self, "estimators_", None) is not None:
            importances = np.array([model.feature_importances_ for model in self.estimators_])
        else:
            importances = tree_importances(self._ensemble)
        total = self._by_columns(self.estimator_weights_ @ importances)
        return total / total.sum() if total.sum() > 0 else total
