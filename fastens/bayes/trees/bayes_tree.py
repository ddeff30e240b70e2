"""Decision trees averaged over all their prunings (Buntine 1992; Willems, Shtarkov & Tjalkens 1995)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.bayes.naive.likelihoods import sums_by_class
from fastens.bayes.posterior import PosteriorMixin, generator
from fastens.bayes.trees.base_bayes_tree import POSTERIOR_DOCS, BaseBayesTree, interval_levels
from fastens.checked_parameters import with_parameters
from fastens.docstrings import Docs, entries
from fastens.engine.comm import gathered
from fastens.engine.elementary import log
from fastens.engine.trees.trees import Tree
from fastens.engine.whole import are_copies
from fastens.forests.base_trees import TreesClassifier, TreesRegressor
from fastens.forests.docstrings import CLASS_DOCS, DOCS
from fastens.forests.parameters import CLASS_CRITERION
from fastens.parameters import ANYTHING, NONE, POSITIVE, one_of, parameter, whole
from fastens.posterior.averaging import MOST_COUNTED, class_statistics, nodes_of, of_all_nodes
from fastens.posterior.leaf_priors import ClassPrior, NumberPrior, RatePrior, location_and_variance
from fastens.rollback import keeps_model
from fastens.table.labels import check_classes

Array = NDArray[np.float64]
MODES = ("bayes", "map", "gibbs")
_FEWEST_ROWS = 0.05

CLASS_PRIOR_DOCS = POSTERIOR_DOCS | entries("""\
alpha : float or None
    Parameter of the Dirichlet prior of a leaf's class probabilities: so many rows of each class are there
    beforehand. None: ln S (L / n)^(1/2) rows in all, half of them the same for all classes, half by their shares of
    all weights. S is the number of thresholds of all features: the more there were to choose from, the purer are
    leaves by chance. L leaves part n rows: few leaves do where there is little noise.
class_weight : dict, "balanced" or None
    Factors of the rows' weights by class.
""")
NUMBER_PRIOR_DOCS = POSTERIOR_DOCS | entries("""\
prior_weight : float
    How many rows the prior mean of a leaf, which is the mean of all targets, is worth.
prior_shape : float
    Shape of the inverse gamma prior of a leaf's variance: it is worth twice as many rows.
prior_scale : float
    The prior variance of a leaf's targets, as a share of the variance of all.
criterion : {"squared_error", "poisson"}
    What a split lowers, and the model of a leaf.
""")


@with_parameters
class BayesTreeClassifier(PosteriorMixin, TreesClassifier, BaseBayesTree):
    """A decision tree for classification, averaged over all its prunings.

    One tree is grown; then each of its prunings, of which there may be 10^1000, votes with its posterior probability.
    One pass over the nodes gives the average, which is put into the leaves: predicting costs what it costs with any
    tree. In place of a pruning parameter that is searched for by cross-validation there is a prior.

    {parameters and attributes}

    References
    ----------
    Buntine (1992), "Learning classification trees", Statistics and Computing 2; Willems, Shtarkov & Tjalkens (1995),
    "The context-tree weighting method", IEEE Transactions on Information Theory 41.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.metrics import log_loss
    >>> from fastens import BayesTreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesTreeClassifier().fit(X[::2], y[::2])
    >>> log_loss(y[1::2], model.predict_proba(X[1::2])) < 0.4
    True
    >>> model.expected_n_leaves_ < model.get_n_leaves()
    True
    """

    alpha: float | None = parameter(NONE | POSITIVE, default=None, kw_only=False)
    criterion: str = parameter(CLASS_CRITERION, default="entropy")
    class_weight: Any = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = CLASS_DOCS | CLASS_PRIOR_DOCS
    _PRIOR = ("alpha", *BaseBayesTree._PRIOR)
    _modes = MODES

    def _learn_leaf_prior(self, data: TrainingData) -> None:
        n_classes = len(self.classes_)
        weight = sums_by_class(data.y.astype(np.intp), data.sample_weight, n_classes, data.comm)
        # So coarse that the rounding of sums in another order does not show; so is `noise`.
        self._class_shares = np.rint(weight / weight.sum() * 2**20) / 2**20
        noise = min(float(np.float32(self._ensemble.n_leaves[0] / weight.sum())), 1.0)
        n_rows = log(max(self._n_thresholds.sum(), 1.0)) * np.sqrt(noise)
        self._prior_rows = max(float(n_rows), _FEWEST_ROWS)

    @property
    def _leaf_prior(self) -> ClassPrior:
        n_classes, alpha = len(self.classes_), self._as_fitted().alpha
        if alpha is not None:
            return ClassPrior(alpha, (n_classes,))
        return ClassPrior(tuple((self._prior_rows / 2 * (1 / n_classes + self._class_shares)).tolist()), (n_classes,))

    def _grown_statistics(self, tree: Tree, weight: Array | None) -> Array | None:
        is_known = float(tree.weight[0]) < MOST_COUNTED and are_copies(weight)
        return of_all_nodes(tree, class_statistics(tree, nodes_of(tree).leaf, self._leaf_prior)) if is_known else None

    @keeps_model
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Add rows to the leaves of the tree there is, and average again; the first call is `fit`.

        The structure stays, and so do the classes, the columns' categories and what the prior takes from the rows, all
        of the first call. So the model is not that of one `fit` to all rows, which would grow another tree. The
        "balanced" class weights of added rows are those of these rows alone.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array, optional
            Checked to be those of the first call.

        Returns
        -------
        self
        """
        self._add_rows(X, y, sample_weight)
        if classes is not None:
            check_classes(classes, self.classes_)
        return self

    def _map_proba(self, X: ArrayLike) -> Array:
        return self._targets.probabilities(self._map_values(X))

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        return self._targets.probabilities(self._gibbs_values(X, random))

    def _vote_share(self, X: ArrayLike) -> Array:
        leaves, row = np.unique(self.apply(X), return_inverse=True)
        place, node, weight = self._ancestor_weights(leaves)
        votes = np.zeros((len(leaves), len(self.classes_)))
        np.add.at(votes, (place, self._targets.probabilities(self._leaf_values(node)).argmax(axis=1)), weight)
        return votes[row.ravel()]

    def predict_proba_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return credible intervals of the classes' probabilities: exact quantiles of their posterior.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Posterior probability that a class's probability is in its interval; both sides leave out as much.

        Returns
        -------
        array of shape (n_samples, n_classes, 2)
        """
        self._check_fitted()
        levels = interval_levels(coverage)
        return np.stack([self._quantiles(X, levels, k) for k in range(len(self.classes_))], axis=1)

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "_class_shares", "_prior_rows")

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        shares = self._class_shares
        if shares.shape != (len(self.classes_),) or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError("the shares and the classes do not fit together")
        if not 0 < self._prior_rows < np.inf:
            raise ValueError("the prior's rows are no positive number")
        super()._restore_fitted(arrays)


@with_parameters
class BayesTreeRegressor(TreesRegressor, BaseBayesTree):
    """A decision tree for regression, averaged over all its prunings.

    One tree is grown; then each of its prunings votes with its posterior probability. The targets of a leaf are normal
    with mean and variance of its own (criterion="squared_error"), or Poisson counts with a rate of its own ("poisson").

    {parameters and attributes}

    References
    ----------
    Buntine (1992), "Learning classification trees", Statistics and Computing 2; Chipman, George & McCulloch (1998),
    "Bayesian CART model search", JASA 93 (the leaves' prior).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import BayesTreeRegressor, DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesTreeRegressor().fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > DecisionTreeRegressor().fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    True
    >>> model.predict_interval(X[:3]).shape
    (3, 2)
    """

    prior_weight: float = parameter(POSITIVE, default=1.0)
    prior_shape: float = parameter(POSITIVE, default=4.0)
    prior_scale: float = parameter(POSITIVE, default=0.1)
    criterion: str = parameter(one_of("squared_error", "poisson"), default="squared_error")
    max_bins: int = parameter(whole(2, 65_535), default=65_535)

    _docs: ClassVar[Docs] = DOCS | NUMBER_PRIOR_DOCS
    _PRIOR = ("prior_weight", "prior_shape", "prior_scale", *BaseBayesTree._PRIOR)
    _value_dtype = np.float64

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Small counts may as well be chance: scikit-learn's checks expect them to be learned by heart.
        tags.regressor_tags.poor_score = self.criterion == "poisson"
        return tags

    def _learn_leaf_prior(self, data: TrainingData) -> None:
        self._location, self._variance = location_and_variance(*gathered(data.comm, [data.y, data.sample_weight]))

    @property
    def _leaf_prior(self) -> NumberPrior | RatePrior:
        fitted = self._as_fitted()
        if fitted.criterion == "poisson":
            return RatePrior(self._location, fitted.prior_weight)
        of_leaves = (float(value) for value in (fitted.prior_weight, fitted.prior_shape, fitted.prior_scale))
        return NumberPrior(self._location, self._variance, *of_leaves)

    @keeps_model
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Add rows to the leaves of the tree there is, and average again; the first call is `fit`.

        The structure stays, and so do the columns' categories and the prior, those of the first call. So the model is
        not that of one `fit` to all rows, which would grow another tree.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For rows that do not fit the first ones, or where `criterion` has changed.
        """
        if hasattr(self, "_location") and self.criterion != self._as_fitted().criterion:
            raise ValueError(f"criterion must be as in fit for partial_fit; got {self.criterion!r}.")
        self._add_rows(X, y, sample_weight)
        return self

    def predict(self, X: ArrayLike, mode: str = "bayes", random_state: Any = None) -> NDArray[np.floating]:
        """Return the predicted number of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        mode : {"bayes", "map", "gibbs"}, default="bayes"
            Who answers: all prunings by their posterior, the most probable one, or for each row one drawn from the
            posterior.
        random_state : int, RandomState, Generator or None, default=None
            For mode="gibbs"; None takes the estimator's.

        Returns
        -------
        array of shape (n_samples,)
        """
        one_of(*MODES).check("mode", mode)
        if mode == "bayes":
            return super().predict(X)
        if mode == "map":
            return self._map_values(X)[:, 0]
        return self._gibbs_values(X, generator(self.random_state if random_state is None else random_state))[:, 0]

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return for each row an interval that holds its target: exact quantiles of the posterior predictive.

        They are those of a mixture, over the nodes on the row's way, of Student's t (of counts, negative binomial)
        distributions.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Posterior probability that the target is in its interval; both sides leave out as much.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.
        """
        return self._quantiles(X, interval_levels(coverage), 0, of_target=True)

    def predict_mean_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return for each row a credible interval of the mean of its targets: exact quantiles of the posterior.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Posterior probability that the mean is in its interval; both sides leave out as much.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.
        """
        return self._quantiles(X, interval_levels(coverage), 0)

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "_location", "_variance")

    def _restored(self) -> None:
        if not np.shape(self._location) == np.shape(self._variance) == (self._ensemble.n_outputs,):
            raise ValueError("the trees and the targets do not fit together")
