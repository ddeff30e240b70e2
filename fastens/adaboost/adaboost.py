"""AdaBoost: weak classifiers on weights that follow the mistakes of those before (Freund & Schapire 1997)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.adaboost.additive import AdditiveVotes
from fastens.adaboost.voting_rounds import VOTING, VotingRounds
from fastens.boosting.parameters import NEEDS, RULES
from fastens.boosting.rounds import BoostingRules
from fastens.combining.members import check_kind
from fastens.engine.grow.growth import GrowthRules
from fastens.engine.losses.exponential import ExponentialLoss
from fastens.engine.losses.losses import BinaryLogLoss, Loss, MulticlassLogLoss
from fastens.parameters import ESTIMATOR, FLAG, NONE, one_of, read_with, whole
from fastens.tree_model.column_rules import (
    CONSTRAINTS,
    OF_OWN_TREES,
    check_no_constraints,
    monotone_columns,
    path_rules,
)

Array = NDArray[np.float64]

# Where LogitBoost cuts its working responses: Friedman, Hastie & Tibshirani (2000), section 4.4, take 2 to 4.
_LOGIT_STEP = 4.0
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


class AdaBoostClassifier(AdditiveVotes, VotingRounds):
    """AdaBoost on decision stumps, shallow trees, or any other classifier.

    Each round fits a weak classifier to weighted rows, measures its weighted error e, and multiplies the weights of the
    rows it gets wrong. It votes with the weight ``learning_rate * (log((1 - e) / e) + log(K - 1))`` for K classes, as
    "m1" without log(K - 1). The raw prediction of a class is the sum of its votes; for two classes, the difference, an
    estimate of the log odds.

    Parameters
    ----------
    estimator : classifier, optional
        What to boost; default: stumps, or trees of `max_depth`. These, and a `DecisionTreeClassifier` of ours, grow on
        rows that are binned once for all rounds. A classifier whose `fit` takes no weights is fitted to rows drawn from
        the distribution, as with ``resample=True``.
    n_estimators : int, default=50
        Most rounds. Boosting ends earlier with a classifier without error (which gets the weight 1), and, without
        `restart`, before one that is no better than chance (the first such is kept, with a warning).
    learning_rate : float, default=1.0
        Factor of every vote.
    algorithm : {"discrete", "m1", "real", "gentle", "logit"}, default="discrete"
        "discrete": votes for classes (SAMME; Zhu et al. 2009). "m1": AdaBoost.M1 (Freund & Schapire 1997), which is the
        same for two classes; with more, a classifier must have an error below 1/2 in place of 1 - 1/K. "real": votes
        with the logarithms of the class probabilities of each cell (SAMME.R): a leaf, or with `estimator` the rows for
        which it predicts a class. "gentle": Newton steps on the exponential loss. "logit": LogitBoost, Newton steps on
        the log loss. The latter two fit a regression tree per class (one for two classes), and take no `estimator`,
        `resample`, `restart` or `warm_start`.
    resample : bool, default=False
        Fit each round to as many rows as there are, drawn from the distribution.
    restart : bool or "auto", default="auto"
        Where a classifier is no better than chance, leave it out and go on from the first distribution (at most ten
        times in a row), instead of ending. "auto": where rows are drawn.
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
        Weight and weighted error of each weak classifier ("discrete", "m1", "real").
    restarted_ : bool array of shape (n_estimators_,)
        Which of them were fitted to the first distribution because one, left out, was no better than chance.
    estimators_ : list
        The weak classifiers, where `estimator` is given and none of our trees.
    train_score_, validation_score_ : arrays
        Loss after each round: the mean of exp(-y F / 2) for two classes, F being the log odds; for K of them, of
        exp(all votes / K - votes for the row's class); "logit": log loss. Restarts do not change what is counted.
    feature_importances_ : array of shape (n_features_in_,)
        Share of each feature in the trees' gain, each tree weighted as it votes.

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

    _parameter_rules: ClassVar = {
        **{name: RULES[name] for name in _SHARED},
        "estimator": ESTIMATOR | NONE,
        "algorithm": one_of(*VOTING, "gentle", "logit"),
        "resample": FLAG,
        "restart": FLAG | one_of("auto"),
        "max_depth": whole(1, 30),
        **CONSTRAINTS,
        "criterion": one_of("gini", "entropy", "error"),
        "warm_start": FLAG,
    }
    _parameter_needs: ClassVar = {
        **{name: NEEDS[name] for name in _SHARED if name in NEEDS},
        **OF_OWN_TREES,
        "criterion": (*OF_OWN_TREES["max_depth"], *read_with("algorithm", *VOTING)),
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        n_estimators: int = 50,
        learning_rate: float = 1.0,
        algorithm: str = "discrete",
        resample: bool = False,
        restart: bool | str = "auto",
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
        self.restart = restart
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
            for name, default in (
                ("estimator", None),
                ("resample", False),
                ("restart", "auto"),
                ("warm_start", False),
            ):
                value = getattr(self, name)
                if value is not default and value != default:
                    raise ValueError(f"{name} must be {default!r} with algorithm={self.algorithm!r}; got {value!r}.")

    # Newton steps --------------------------------------------------

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
