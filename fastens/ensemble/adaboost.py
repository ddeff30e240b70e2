"""AdaBoost: weak classifiers on weights that follow the mistakes of those before (Freund & Schapire 1997)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state

from fastens.base import TrainingData
from fastens.engine.binning import learn_binning
from fastens.engine.exponential import ExponentialLoss
from fastens.engine.forests import TreeRules, class_target
from fastens.engine.growth import GrowthRules
from fastens.engine.losses import BinaryLogLoss, Loss, MulticlassLogLoss
from fastens.engine.stumps import StumpLearner, head, joined
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees import TreeEnsemble
from fastens.ensemble.additive import AdditiveVotes
from fastens.ensemble.base_boosting import BaseGradientBoosting
from fastens.ensemble.boosting_parameters import RULES
from fastens.ensemble.column_rules import CONSTRAINTS, check_no_constraints, monotone_columns, path_rules
from fastens.ensemble.kinds import check_kind
from fastens.ensemble.raw_classifier import RawClassifier
from fastens.ensemble.rounds import BoostingRules, BoostingRun
from fastens.ensemble.tree import DecisionTreeClassifier
from fastens.ensemble.weak_learners import (
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
    tree_values,
)
from fastens.ensemble.weak_rounds import Vote, VotingRules, VotingRun, Weak
from fastens.parameters import ESTIMATOR, FLAG, NONE, one_of, whole

Array = NDArray[np.float64]

# Where LogitBoost cuts its working responses: Friedman, Hastie & Tibshirani (2000), section 4.4, take 2 to 4.
_LOGIT_STEP = 4.0
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
_SHARED = (
    "n_estimators",
    "learning_rate",
    "max_bins",
    "validation_fraction",
    "early_stopping",
    "n_iter_no_change",
    "tol",
    "categorical_features",
    "categorical_encoding",
    "categorical_missing",
    "verbose",
    "random_state",
    "n_jobs",
)


class AdaBoostClassifier(AdditiveVotes, RawClassifier, BaseGradientBoosting):
    """AdaBoost on decision stumps, shallow trees, or any other classifier.

    Each round fits a weak classifier to weighted rows, measures its weighted error e, and multiplies the weights of the
    rows it gets wrong. It votes with the weight ``learning_rate * (log((1 - e) / e) + log(K - 1))`` for K classes. The
    raw prediction of a class is the sum of its votes; for two classes, the difference, an estimate of the log odds.

    Parameters
    ----------
    estimator : classifier, optional
        What to boost; default: stumps, or trees of `max_depth`. These, and a `DecisionTreeClassifier` of ours, grow on
        rows that are binned once for all rounds. A classifier whose `fit` takes no weights is fitted to rows drawn from
        the distribution, as with ``resample=True``.
    n_estimators : int, default=50
        Most rounds. Boosting ends earlier with a classifier without error (which gets the weight 1), and before one
        that is no better than chance (the first such is kept, with a warning).
    learning_rate : float, default=1.0
        Factor of every vote.
    algorithm : {"discrete", "real", "gentle", "logit"}, default="discrete"
        "discrete": votes for classes (SAMME; Zhu et al. 2009). "real": votes with the logarithms of the class
        probabilities of each cell (SAMME.R): a leaf, or with `estimator` the rows for which it predicts a class.
        "gentle": Newton steps on the exponential loss. "logit": LogitBoost, Newton steps on the log loss. The latter
        two fit a regression tree per class (one for two classes), and take no `estimator`, `resample` or `warm_start`.
    resample : bool, default=False
        Fit each round to as many rows as there are, drawn from the distribution; start again from the first
        distribution where the error is no better than chance.
    max_depth : int, default=1
        Depth of the trees; 1 is a stump.
    criterion : {"gini", "entropy", "error"}, default="gini"
        What splits lower: an impurity, or ("error", stumps only) the weighted error itself; "gentle" and "logit" lower
        the squared error of their steps.
    max_bins : int, default=255
        Most bins of a feature; a feature with no more distinct values keeps every one of them.
    early_stopping : bool or "auto", default="auto"
        Stop when the validation loss (exponential; "logit": log loss) no longer falls, and keep the rounds up to its
        lowest point. "auto": where `fit` gets X_val.
    validation_fraction : float, default=0.1
        Share of the rows kept for validation where early_stopping=True and `fit` gets no X_val.
    n_iter_no_change : int, default=10
        Rounds without improvement before stopping.
    tol : float, default=1e-7
        What counts as an improvement of the validation loss.
    monotonic_cst : array of -1, 0, 1 or dict by name, default=None
        Features with which the probability of the second of two classes must not fall (1) or rise (-1).
    interaction_cst : "no_interactions", "pairwise", list of groups of names or indices, or None, default=None
        Which features may stand together on a path through a tree: one alone, any two, or those of one group. Features
        in no group are one more group. An `estimator` has its own constraints.
    categorical_features : "from_dtype", list of names or indices, mask, or None, default="from_dtype"
        Columns whose values are categories. "from_dtype": categories, enums, strings and booleans of a data frame.
    categorical_encoding : {"auto", "partition", "target", "ordered"}, default="auto"
        What trees see of a categorical column: its categories, to split them into two sets ("partition"), or for each
        row the mean target of its category among other rows ("target", "ordered": Prokhorenkova et al. 2018). "auto":
        "target" for columns of more than 32 categories, unless there are three or more classes.
    categorical_missing : {"missing", "category"}, default="missing"
        Whether a missing value in a categorical column is missing, or a category of its own.
    warm_start : bool, default=False
        Keep the rounds of the last `fit` and add those up to `n_estimators`, as if fitted at once.
    verbose : int, default=0
        Print the losses every so many rounds.
    random_state : int, RandomState or None, default=None
        Fixes the rows drawn and the validation rows; the model does not depend on `n_jobs`.
    n_jobs : int or None, default=None
        Threads: None for OMP_NUM_THREADS or the available cores, -1 for all of them.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of shape (n_features_in_,)
        Their names, where they have some.
    n_estimators_, n_iter_ : int
        Rounds kept.
    estimator_weights_, estimator_errors_ : arrays of shape (n_estimators_,)
        Weight and weighted error of each weak classifier ("discrete", "real").
    estimators_ : list
        The weak classifiers, where `estimator` is given and none of our trees.
    train_score_, validation_score_ : arrays
        Loss after each round: the mean of exp(-y F / 2) for two classes, F being the log odds; for K of them, of
        exp(all votes / K - votes for the row's class); "logit": log loss.
    feature_importances_ : array of shape (n_features_in_,)
        Share of each feature in the trees' gain, each tree weighted as it votes.

    References
    ----------
    Freund & Schapire (1997), "A decision-theoretic generalization of on-line learning and an application to boosting",
    figure 2; Zhu, Zou, Rosset & Hastie (2009), "Multi-class AdaBoost", algorithms 2 and 4; Friedman, Hastie &
    Tibshirani (2000), "Additive logistic regression", algorithms 2 to 4.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import AdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    _parameter_rules: ClassVar = {
        **{name: RULES[name] for name in _SHARED},
        "estimator": ESTIMATOR | NONE,
        "algorithm": one_of("discrete", "real", "gentle", "logit"),
        "resample": FLAG,
        "max_depth": whole(1, 30),
        **CONSTRAINTS,
        "criterion": one_of("gini", "entropy", "error"),
        "warm_start": FLAG,
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        learning_rate: float = 1.0,
        algorithm: str = "discrete",
        resample: bool = False,
        max_depth: int = 1,
        criterion: str = "gini",
        max_bins: int = 255,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-7,
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        categorical_features: Any = "from_dtype",
        categorical_encoding: str = "auto",
        categorical_missing: str = "missing",
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.algorithm = algorithm
        self.resample = resample
        self.max_depth = max_depth
        self.criterion = criterion
        self.max_bins = max_bins
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.categorical_features = categorical_features
        self.categorical_encoding = categorical_encoding
        self.categorical_missing = categorical_missing
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def _votes(self) -> bool:
        """Whether rounds are votes, and not Newton steps."""
        return self.algorithm in ("discrete", "real")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.criterion == "error" and self.max_depth > 1:
            raise ValueError(f"criterion must be 'gini' or 'entropy' with max_depth={self.max_depth}; got 'error'.")
        if self.criterion == "error" and self.monotonic_cst is not None:
            raise ValueError("criterion must be 'gini' or 'entropy' with monotonic_cst; got 'error'.")
        check_no_constraints(self)
        if self.estimator is not None:
            check_kind("estimator", self.estimator, wants_classifier=True)
        if not self._votes:
            for name, default in (("estimator", None), ("resample", False), ("warm_start", False)):
                value = getattr(self, name)
                if value is not default:
                    raise ValueError(f"{name} must be {default} with algorithm={self.algorithm!r}; got {value!r}.")

    # Fit --------------------------------------------------

    def _start_fit(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        before = self._door_state() if self.warm_start and hasattr(self, "n_estimators_") else None
        data = super()._start_fit(X, y, sample_weight)
        if before is None:
            for name in ("_ensemble", "estimators_", "_values"):
                self.__dict__.pop(name, None)
        elif before != self._door_state():
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
        learner = self._learner(data, classes, None if validation is None else validation.X)
        run = VotingRun(learner, classes, data.sample_weight, self._voting_rules())
        if validation is not None:
            run.validate_on(validation.y.astype(np.uint16), validation.sample_weight)
        for index in range(self._n_earlier):
            run.add(self._earlier_vote(index, learner))
        return run

    def _learner(self, data: TrainingData, classes: NDArray[np.uint16], X_val: Any) -> Estimators | Stumps | Trees:
        """What fits the weak classifiers: rows are binned here, once for all rounds."""
        n_classes, n_threads = len(self.classes_), resolve_n_jobs(self.n_jobs)
        own_rules = self._own_rules(data)
        if self.estimator is not None and own_rules is None:
            return Estimators(self.estimator, self.classes_, data.X, classes, X_val)
        if self._n_earlier:
            binning = self._ensemble.binning
        else:
            max_bins = self.max_bins if self.estimator is None else self.estimator.max_bins
            binning = learn_binning(data.X, data.sample_weight, max_bins, self._is_categorical, n_threads)
        elsewhere = None if X_val is None else binning.codes(X_val, n_threads)
        rules = own_rules or TreeRules(
            self.criterion, self.max_depth, monotonic=monotone_columns(self), **path_rules(self)
        )
        if own_rules is None and rules.monotonic is None and self.max_depth == 1:
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
        """A round of the last fit, for `warm_start`."""
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
        return Vote(weak, values, weight, self.estimator_errors_[index], bool(self._restarts[index]))

    def _voting_rules(self) -> VotingRules:
        resample = self.resample or not (self.estimator is None or takes_weights(self.estimator))
        return VotingRules(
            n_classes=len(self.classes_),
            n_rounds=self.n_estimators,
            is_real=self.algorithm == "real",
            learning_rate=self.learning_rate,
            resample=resample,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)) if resample else 0,
            n_threads=resolve_n_jobs(self.n_jobs),
        )

    def _growth_rules(self) -> GrowthRules:
        return GrowthRules(
            max_leaf_nodes=2**self.max_depth if self.max_depth <= 10 else None,
            max_depth=self.max_depth,
            min_samples_leaf=1,
            min_child_weight=0.0,
            category_l2=0.0,
            category_smoothing=0.0,
            monotone=monotone_columns(self),
            **path_rules(self),
        )

    def _boosting_rules(self, n_threads: int) -> BoostingRules:
        return BoostingRules(
            n_rounds=self.n_estimators,
            learning_rate=self.learning_rate,
            n_iter_no_change=self.n_iter_no_change,
            tol=self.tol,
            seed=0,
            n_threads=n_threads,
        )

    def _get_loss(self) -> Loss:
        n_classes = len(self.classes_)
        if self.algorithm == "gentle":
            return ExponentialLoss(n_classes)
        loss = BinaryLogLoss() if n_classes == 2 else MulticlassLogLoss(n_classes)
        loss.max_step = _LOGIT_STEP
        return loss

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
        self._restarts = np.array([vote.restarted for vote in votes])
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

    def _fitted_names(self) -> tuple[str, ...]:
        names = ("estimator_weights_", "estimator_errors_", "_restarts") if self._votes else ()
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
        return self._staged_sums(self._check_table(X))

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


def tree_importances(ensemble: TreeEnsemble) -> Array:
    """Share of each feature in the gain of each tree, shape (n_trees, n_features)."""
    gains = np.zeros((ensemble.n_trees, ensemble.binning.n_features))
    tree = np.repeat(np.arange(ensemble.n_trees), np.diff(ensemble.node_offsets))
    inner = ensemble.feature >= 0
    # A split without gain on the way to better ones, or alone, is a split all the same.
    gain = np.maximum(ensemble.gain[inner], np.finfo(float).tiny)
    np.add.at(gains, (tree[inner], ensemble.feature[inner]), gain)
    total = gains.sum(axis=1, keepdims=True)
    return np.divide(gains, total, out=gains, where=total > 0)
