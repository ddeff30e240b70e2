"""AdaBoost: weak classifiers, each fitted to rows reweighted by earlier errors (Freund & Schapire 1997)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from fastens.adaboost.additive import AdditiveVotes
from fastens.adaboost.voting_rounds import WeakTrees, earlier_vote, start_voting, voting_run
from fastens.adaboost.weak_learners import (
    VOTING,
    DrawnRows,
    Estimators,
    Vote,
    VotingRun,
    check_weak,
    class_indices,
    match_sparse_format,
    models_to_arrays,
    restore_models,
    tree_values,
    weighted_importances,
)
from fastens.base import Capabilities, TrainingData
from fastens.boosting.boosted_trees import BoostedTrees
from fastens.boosting.fit_arguments import (
    GivenValidation,
    check_duplicates,
    check_validated,
    drawn_rows,
    holds_out,
    subset,
)
from fastens.boosting.parameters import AUTO, SPLITS, STOPS, prepared
from fastens.boosting.rounds import BoostingParameters, OnRound, Rounds
from fastens.engine.grow.growth import GrowthParameters
from fastens.engine.grow.stumps import head, joined
from fastens.engine.losses.column_losses import ExponentialLoss
from fastens.engine.losses.losses import BinaryLogLoss, Loss, MulticlassLogLoss
from fastens.engine.losses.numeric_losses import OneClass
from fastens.engine.parts import in_memory
from fastens.engine.threads import resolve_n_jobs
from fastens.forests.bags import draw_seed
from fastens.modelfile.saving import Arrays, Saved, SavedParts, attributes
from fastens.monitoring.callbacks import announce
from fastens.monitoring.metrics import Evaluations
from fastens.params.estimator import with_parameters
from fastens.params.options import Categories, TextChoice
from fastens.params.rules import ANYTHING, ESTIMATOR, FLAG, NONE, RANDOM_STATE, one_of, parameter, requires, whole
from fastens.params.types import ColumnChoice, ColumnGroups, PerColumn, RandomState
from fastens.rollback import keep_partial
from fastens.table.training_data import WEIGHT_TYPE
from fastens.tree_model.tree_model import (
    CATEGORIES,
    OF_OWN_TREES,
    check_no_constraints,
    check_same_rules,
    monotone_columns,
    path_rules,
)

Array = NDArray[np.float64]

# Limit of LogitBoost's working responses: Friedman, Hastie & Tibshirani (2000), section 4.4, recommend 2 to 4.
_LOGIT_STEP = 4.0
_DEPTH, _VOTES = OF_OWN_TREES["max_depth"], requires("algorithm", *VOTING)
RULES = BoostedTrees._parameter_rules


@with_parameters
class AdaBoostClassifier(AdditiveVotes):
    """AdaBoost classifier on decision stumps, shallow trees or any other classifier.

    Each round fits a weak classifier to the weighted rows, measures its weighted error e, and increases the weights of
    the misclassified rows. With K classes, the classifier votes with weight
    ``learning_rate * (log((1 - e) / e) + log(K - 1))``; "m1" omits log(K - 1). The raw prediction of a class is the sum
    of its votes. For binary targets, it is the difference of the two sums, an estimate of the log odds.

    Parameters
    ----------
    estimator : classifier, optional
        Base estimator. If None, stumps or trees of depth `max_depth` are boosted. These, and a `DecisionTreeClassifier`
        of fastens, are grown on rows that are binned once for all rounds. A classifier whose `fit` has no
        `sample_weight` is fitted to rows drawn with replacement, as with ``resample=True``. Base estimators receive
        numeric arrays in which categories are replaced by their indices. fastens estimators still treat these columns
        as categorical, unless they are nested in a meta-estimator such as bagging or voting.
    n_estimators : int, default=50
        Maximum number of rounds. Boosting ends early with a classifier that makes no error, which gets weight 1.
        Without `restart`, it also ends before a classifier that does not beat chance; if this is the first one, it is
        kept with a warning.
    learning_rate : float, default=1.0
        Shrinkage of every vote. Smaller values need more rounds.
    algorithm : {"discrete", "m1", "real", "gentle", "logit"}, default="discrete"
        "discrete" is SAMME, which votes for classes (Zhu et al. 2009). "m1" is AdaBoost.M1 (Freund & Schapire 1997); it
        equals "discrete" for binary targets, and with more classes requires a weighted error below 1/2 instead of
        1 - 1/K. "real" is SAMME.R, which votes with log probabilities of the classes in each cell: a leaf, or with
        `estimator` the rows with the same predicted class. "gentle" takes Newton steps on the exponential loss, and
        "logit" (LogitBoost) on the log loss. Both fit a regression tree for each class, or a single tree for binary
        targets, and do not support `estimator`, `resample`, `restart` and `warm_start`.
    resample : bool, default=False
        If True, fit each round to rows drawn with replacement with probabilities proportional to their current weights.
        The number of draws is the number of rows.
    restart : bool or "auto", default="auto"
        If True, a classifier that does not beat chance is discarded and boosting continues from the initial
        weights, at most ten times in a row. If False, boosting ends. "auto" means True if rows are drawn.
    max_depth : int, default=1
        Maximum depth of the trees. A depth of 1 gives stumps.
    criterion : {"gini", "entropy", "error"}, default="gini"
        Function that measures the quality of a split. "error" minimises the weighted error and is only available for
        stumps. "gentle" and "logit" ignore it and minimise the squared error of their Newton steps.
    early_stopping : bool or "auto", default="auto"
        If True, stop when the validation loss no longer improves, and keep the rounds up to the best one. The loss is
        the exponential loss, or the log loss for "logit". "auto" means True if X_val is passed to `fit`.
    monotonic_cst : array of -1, 0, 1 or dict by name, default=None
        Monotonic constraint of each feature: the probability of the second class must not decrease (1) or not increase
        (-1) with the feature; 0 means no constraint. Only for binary targets. Set the constraints of an `estimator` on
        the estimator itself.
    warm_start : bool, default=False
        If True, `fit` keeps the existing rounds and adds new ones up to `n_estimators`. The result is identical to
        fitting all rounds at once.
    verbose : int, default=0
        Number of rounds between log messages with the losses, as in gradient boosting; 0 disables them.
    random_state : int, RandomState or None, default=None
        Seed for drawing rows and for the validation split. Results do not depend on `n_jobs`. An `estimator` whose
        random_state is None is seeded with the index of the round.
    {parameters}

    Attributes
    ----------
    {attributes}
    n_estimators_ : int
        Number of rounds of the model.
    estimator_weights_, estimator_errors_ : arrays of shape (n_estimators_,)
        Weight and weighted error of each weak classifier. Only for "discrete", "m1" and "real".
    restarted_ : bool array of shape (n_estimators_,)
        True for classifiers that were fitted to the initial weights after a restart.
    estimators_ : sequence
        The weak classifiers. Trees grown by fastens are created when they are accessed, and their leaves predict the
        class that they vote for. Not available for "gentle" and "logit".
    estimators_samples_ : list of int32 arrays
        Indices of the rows that each round was fitted to, repeated as often as they were drawn. Only if rows are drawn.
        A fitted model stores one byte for each row and round for them; saved files do not contain them.
    evals_result_ : dict of dicts of arrays
        Loss after each round, ``evals_result_["training"]["loss"]``, and of the validation rows, if there are any,
        ``evals_result_["validation"]["loss"]``. For binary targets, the mean of exp(-y F / 2), where F is the log odds;
        for K classes, the mean of exp(all votes / K - votes for the true class); for "logit", the log loss. The losses
        refer to the whole ensemble, regardless of restarts.

    References
    ----------
    Freund & Schapire (1997), "A decision-theoretic generalization of on-line learning and an application to boosting",
    figures 2 and 3 (AdaBoost.M1); Bauer & Kohavi (1999), "An empirical comparison of voting classification algorithms",
    figure 2 (restarts); Zhu, Zou, Rosset & Hastie (2009), "Multi-class AdaBoost", algorithms 2 and 4; Friedman, Hastie
    & Tibshirani (2000), "Additive logistic regression", algorithms 2 to 4.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import AdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    estimator: BaseEstimator | None = parameter(ESTIMATOR | NONE, default=None, needs=_VOTES, kw_only=False)
    n_estimators: int = parameter(RULES["n_estimators"], default=50)
    learning_rate: float = parameter(RULES["learning_rate"], default=1.0)
    algorithm: str = parameter(one_of(*VOTING, "gentle", "logit"), default="discrete")
    resample: bool = parameter(FLAG, default=False, needs=_VOTES)
    restart: bool | str = parameter(AUTO, default="auto", needs=_VOTES)
    max_depth: int = parameter(whole(1, 30), default=1, needs=_DEPTH)
    criterion: str = parameter(one_of("gini", "entropy", "error"), default="gini", needs=(*_DEPTH, *_VOTES))
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(RULES["max_bins"], default=255, needs=_DEPTH)
    early_stopping: bool | str = parameter(AUTO, default="auto")
    validation_fraction: float = parameter(RULES["validation_fraction"], default=0.1, needs=SPLITS)
    n_iter_no_change: int = parameter(RULES["n_iter_no_change"], default=10, needs=STOPS)
    tol: float = parameter(RULES["tol"], default=1e-7, needs=STOPS)
    monotonic_cst: PerColumn = parameter(ANYTHING, default=None)
    interaction_cst: ColumnGroups = parameter(ANYTHING, default=None)
    categorical_features: ColumnChoice = parameter(ANYTHING, default="from_dtype")
    text_features: TextChoice = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    warm_start: bool = parameter(FLAG, default=False, needs=_VOTES)
    verbose: int = parameter(RULES["verbose"], default=0)
    random_state: RandomState = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _docs: ClassVar = BoostedTrees._docs
    _capabilities = Capabilities(supports_distributed_fit=True)
    _holds = "rounds"
    _drawn: DrawnRows | None = field(init=False, default=None)
    # Called after each round with the round index, the maximum number of rounds and the losses.
    _on_round: OnRound | None = field(init=False, default=None)

    def _validate_combinations(self) -> None:
        """Raise ValueError if `criterion`, constraints and `max_depth` conflict, or `estimator` is unsuitable."""
        if self.criterion == "error" and self.max_depth > 1:
            raise ValueError(f"criterion must be 'gini' or 'entropy' with max_depth={self.max_depth}; got 'error'.")
        if self.criterion == "error" and self.monotonic_cst is not None:
            raise ValueError("criterion must be 'gini' or 'entropy' with monotonic_cst; got 'error'.")
        check_no_constraints(self)
        if self.estimator is not None:
            check_weak(self.estimator, wants_classifier=True)

    @property
    def _votes(self) -> bool:
        return self._algorithm in VOTING

    @property
    def _algorithm(self) -> str:
        """Algorithm of the last fit, or of the current one during `fit`."""
        return str(self._as_fitted().algorithm)

    @property
    def estimators_(self) -> Sequence[Any]:
        """Fitted weak classifiers."""
        self._check_fitted()
        if not self._votes:
            raise AttributeError(f"AdaBoost has no weak classifiers with algorithm={self._algorithm!r}")
        return vars(self).get("_models") or WeakTrees(self)

    @property
    def estimators_samples_(self) -> list[NDArray[np.int32]]:
        """Row indices that each round was fitted to, repeated as drawn; only with `resample`, not in loaded models."""
        self._check_fitted()
        return DrawnRows.samples_of(self)

    def _member_parameters(self) -> dict[str, Any]:
        """Return the parameters of `estimators_` by name, with criterion "gini" for "error"."""
        parameters = super()._member_parameters() if self.estimator is None else self.estimator.get_params()
        return parameters | ({"criterion": "gini"} if parameters["criterion"] == "error" else {})

    def __len__(self) -> int:
        """Return the number of rounds."""
        self._check_fitted()
        return self.n_estimators_

    def __getitem__(self, index: Any) -> Any:
        """Return a weak classifier of `estimators_`, or a list of weak classifiers for a slice."""
        return self.estimators_[index]

    # Fit --------------------------------------------------

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
    ) -> AdaBoostClassifier:
        """Fit the model to a training set.

        Parameters
        ----------
        {X}
        y : array of shape (n_samples,)
            Class labels.
        {sample_weight}
        X_val, y_val : table and array, optional
            Validation set, whose loss is recorded in `evals_result_`. It is used for early stopping unless
            `early_stopping` is False. If None and `early_stopping` is True, a fraction of X is held out.

        Returns
        -------
        self
        """
        validation_input = GivenValidation(X_val, y_val)
        self._check_parameters()
        self._check_ignored_parameters()
        before = self._encoder_state() if self.warm_start and hasattr(self, "n_estimators_") else None
        if before is not None:
            check_same_rules(self)
        data = self._learn_data(X, y, sample_weight, validation_input.n_rows)
        data = data if self.estimator is None else match_sparse_format(data, X)
        n_earlier = self._n_rounds_to_keep(before)
        validation = validation_input.read(self)
        if validation is None and holds_out(self):
            check_duplicates(self, data)
            seed = data.comm.allgather(draw_seed(self.random_state))[0]
            data, validation = (subset(data, rows) for rows in drawn_rows(self, data, seed))
        check_validated(self, validation)
        self._restored()
        run = start_voting(self, data, validation, n_earlier) if self._votes else self._start_newton(data, validation)
        run.history.decides = self.early_stopping is not False
        try:
            run.run(self._on_round or _loss_logger(self.verbose))
        except KeyboardInterrupt as interrupt:
            if run.n_rounds:  # after Ctrl-C, the completed rounds are kept as a fitted model
                self._finish(run, n_earlier, data.rows)
                keep_partial(self, interrupt)
            raise
        self._finish(run, n_earlier, data.rows)
        return self

    def _n_rounds_to_keep(self, before: dict[str, Any] | None) -> int:
        """Return the number of rounds that a warm start keeps; otherwise delete the last fit, and return 0.

        `before` is the encoder state of the last fit, None unless this is a warm start. Raise ValueError if the columns
        and classes differ, or `n_estimators` is lower.
        """
        if before is None:
            for name in ("_ensemble", "_models", "_values"):
                self.__dict__.pop(name, None)
            return 0
        if before != self._encoder_state():
            raise ValueError(
                "X and y must have the columns, categories and classes of the last fit with "
                "warm_start=True. Use warm_start=False to fit from scratch."
            )
        if self.n_estimators < self.n_estimators_:
            raise ValueError(
                f"n_estimators must be at least {self.n_estimators_}, the number of rounds of the last fit, "
                f"with warm_start=True; got {self.n_estimators}."
            )
        return self.n_estimators_

    def _finish(self, run: Rounds | VotingRun, n_earlier: int, rows: NDArray[np.intp] | None) -> None:
        """Set the fitted attributes from the rounds up to the best one; the first `n_earlier` are from the last fit.

        `rows` holds the indices of the training rows among the rows passed to `fit`, None for all.
        """
        n_rounds, self._drawn = run.best_round, None
        if isinstance(run, VotingRun):
            votes = run.votes[:n_rounds]
            self._keep_votes(votes, min(n_earlier, n_rounds), run.learner)
            self.estimator_weights_ = np.array([vote.weight for vote in votes])
            self.estimator_errors_ = np.array([vote.error for vote in votes])
            self.restarted_ = np.array([vote.restarted for vote in votes])
            self._drawn = DrawnRows.of([vote.drawn for vote in votes], rows, run.order)
        else:
            self._ensemble = run.ensemble(n_rounds)
            self._send_unseen()
        self.n_estimators_, self.evals_result_ = n_rounds, run.history.evaluations(None)

    def _keep_votes(self, votes: Sequence[Vote], n_earlier: int, learner: Any) -> None:
        """Store the trees of the votes, or other libraries' estimators; the first `n_earlier` are from the last fit.

        `learner` is the object that fitted them.
        """
        if isinstance(learner, Estimators):
            self._models, self._values = [vote.weak.model for vote in votes], [vote.values for vote in votes]
            return
        parts = [head(self._ensemble, n_earlier)] if n_earlier else []
        parts += [learner.ensemble(votes[n_earlier:])] if len(votes) > n_earlier else []
        self._ensemble = parts[0] if len(parts) == 1 else joined(*parts)
        self._send_unseen()

    # Newton steps --------------------------------------------------

    def _growth_parameters(self) -> GrowthParameters:
        """Return the growth parameters of the regression trees of "logit" and "gentle"."""
        return GrowthParameters(
            max_leaf_nodes=2**self.max_depth if self.max_depth <= 10 else None,
            max_depth=self.max_depth,
            min_samples_leaf=1,
            min_child_weight=0.0,
            category_l2=0.0,
            category_smoothing=0.0,
            monotone=monotone_columns(self),
            **path_rules(self),
        )

    def _start_newton(self, data: TrainingData, validation: TrainingData | None) -> Rounds:
        """Return the training loop of "logit" or "gentle" before its first round; `validation` may be None."""
        rules = BoostingParameters(
            n_rounds=self.n_estimators,
            learning_rate=self.learning_rate,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            seed=0,
            n_threads=resolve_n_jobs(self.n_jobs),
        )
        rounds = prepared(self, data, rules).rounds(self, rules)
        if validation is not None:
            self._loss.check_measured()
            rounds.validate_on(self._apply_statistics(validation))
        return rounds

    def _get_loss(self) -> Loss:
        """Return a new loss for `algorithm` and the number of classes, which also turns votes into probabilities."""
        n_classes = len(self.classes_)
        if n_classes == 1:
            return OneClass(self.algorithm)
        if self._algorithm == "gentle":
            return ExponentialLoss(n_classes)
        loss = BinaryLogLoss() if n_classes == 2 else MulticlassLogLoss(n_classes)
        loss.max_step = _LOGIT_STEP
        return loss

    # Saving --------------------------------------------------

    def _vote_arrays(self) -> Arrays:
        """Return the fitted estimators, their votes and the recorded losses as arrays to save."""
        values = {"values": np.array(self._values)} if "_models" in vars(self) else {}
        return models_to_arrays(self) | values | self.evals_result_.to_arrays()

    def _restore_votes(self, arrays: Arrays) -> None:
        """Set the fitted estimators, their votes and the recorded losses from saved arrays."""
        self.evals_result_ = Evaluations.from_arrays(arrays)
        if restore_models(self, arrays):
            self._values = list(arrays["values"])
            self._restored()

    _may_lack_trees = True
    _saved: ClassVar[SavedParts] = (
        "n_estimators_",
        attributes("estimator_weights_", "estimator_errors_", "restarted_", when=lambda model: model._votes),
        Saved(_vote_arrays, _restore_votes),
    )

    def _n_outputs(self) -> int:
        """Return the number of raw predictions for each row."""
        return self._loss.n_outputs

    def _restored(self) -> None:
        """Set a new loss object, after the other fitted attributes have been restored from a file."""
        self._loss = self._get_loss()

    # Predict --------------------------------------------------

    def _raw(self, X: Any) -> Array:
        """Return the raw predictions, (n_samples, n_outputs)."""
        if vars(self).get("_models") is None:
            return super()._raw(X)
        *_, raw = self._staged_raw(X)
        return raw

    def _staged_raw(self, X: Any) -> Iterator[Array]:
        """Yield the raw predictions, (n_samples, n_outputs), after each round."""
        X = self._check_table(X)
        if vars(self).get("_models") is None:
            return self._ensemble.staged_raw(X, resolve_n_jobs(self.n_jobs))
        return self._staged_sums(in_memory(X))

    def _staged_sums(self, X: Any) -> Iterator[Array]:
        """Yield the summed votes of estimators that are not trees, (n_samples, n_outputs), after each round."""
        raw = np.zeros((X.shape[0], self._n_outputs()))
        for model, values in zip(self._models, self._values, strict=True):
            raw = raw + tree_values(values)[class_indices(model, self.classes_, X)]
            yield raw

    def staged_weights(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Iterator[Array]:
        """Yield the normalised row weights at the start of each round.

        The rounds are replayed, so only one array of weights is in memory at a time. `restarted_` marks the rounds that
        started from the initial weights.

        Parameters
        ----------
        X, y, sample_weight
            The training set as passed to `fit`. For other rows, the weights are computed as if `fit` had seen them.

        Yields
        ------
        array of shape (n_samples,)
            Weights that sum to 1, for each of the `n_estimators_` rounds.

        Raises
        ------
        ValueError
            If `algorithm` is "gentle" or "logit", which do not vote.
        """
        self._check_fitted()
        if not self._votes:
            rule = f"algorithm must be one of {', '.join(map(repr, VOTING))} to have round weights"
            raise ValueError(f"{rule}; got {self._algorithm!r}.")
        data = self._check_validation(X, y, sample_weight)
        row_weights = np.zeros(data.n_given)
        fitted = self._as_fitted()
        run = voting_run(fitted, fitted._learn_same_statistics(data, 0), data.y.astype(np.uint16), None)
        for index in range(self.n_estimators_):
            vote = earlier_vote(self, index, run.learner)
            if vote.restarted:
                run.restart()
            row_weights[slice(None) if data.rows is None else data.rows] = run.weights.shares
            yield row_weights.copy()
            run.add(vote)

    @property
    def feature_importances_(self) -> Array:
        """Importances averaged over the weak classifiers by their weights, normalised to sum to 1, (n_features,)."""
        self._check_fitted()
        if not self._votes:
            return super().feature_importances_
        return weighted_importances(self)

    def _part_importances(self) -> Array:
        """Return the importance of each of `feature_parts_`, (n_parts,), averaged by the weights of the classifiers."""
        return weighted_importances(self, parts=True) if self._votes else super()._part_importances()


def _loss_logger(verbose: int) -> OnRound | None:
    """Return a callback that logs the losses every `verbose` rounds, or None if `verbose` is 0."""
    if not verbose:
        return None

    def report(index: int, n_rounds: int, train: float, validation: float | None) -> None:
        if (index + 1) % int(verbose) == 0 or index + 1 == n_rounds:
            also = "" if validation is None else f", validation loss {validation:.6g}"
            announce(f"[{index + 1}/{n_rounds}] training loss {train:.6g}{also}")

    return report
