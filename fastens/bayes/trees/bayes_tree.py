"""Decision trees that average over all prunings (Buntine 1992; Willems, Shtarkov & Tjalkens 1995)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.bayes.naive.likelihoods import sums_by_class
from fastens.bayes.posterior import PosteriorMixin, generator
from fastens.engine.comm import gathered
from fastens.engine.elementary import log
from fastens.engine.grow.growth import cut
from fastens.engine.rows.sampling import content_hashes, mixed
from fastens.engine.threads import cached_property, resolve_n_jobs
from fastens.engine.trees.leaf_values import leaf_sums
from fastens.engine.trees.neighbours import sum_up
from fastens.engine.trees.trees import SearchedTree, Tree, TreeEnsemble
from fastens.engine.whole import are_copies
from fastens.forests.bags import draw_seed
from fastens.forests.parameters import CLASS_CRITERION, features_per_split
from fastens.forests.tree import BaseDecisionTree, TreesClassifier, TreesRegressor, single_tree
from fastens.modelfile.saving import Saved, SavedParts
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.rules import ANYTHING, NONE, POSITIVE, SPLIT_PRIOR, one_of, parameter, real, whole
from fastens.params.types import ClassWeight, RandomState, SplitPrior
from fastens.posterior.averaging import (
    MAX_COUNTED,
    NodeSearch,
    PruningPrior,
    Prunings,
    class_statistics,
    count_candidate_splits,
    count_splittable_features,
    node_statistics,
    nodes_of,
    thresholds_of_features,
)
from fastens.posterior.leaf_priors import ClassPrior, LeafPrior, NumberPrior, RatePrior, location_and_variance
from fastens.rollback import keeps_model
from fastens.table.training_data import AllRows, check_classes

Array = NDArray[np.float64]
TRAIN, HONEST = "train", "honest"
_MAX_COPIES = 2.0**32


@with_parameters
class BaseBayesTree(BaseDecisionTree):
    """Base class of decision trees that average over all prunings of one grown tree.

    Parameters
    ----------
    split_prior : {"search", "strict", "features"}, float or pair
        Prior probability that a node splits. Larger values favour larger trees. "strict" is 1 / (2 M), where M is the
        number of candidate splits among which the best was selected: it is the prior of one particular split. "search"
        corresponds to odds of 5 to M, because many candidates are nearly identical. "features" is 1 / (2 F) for F
        features. A number applies to all nodes, and a pair (a, b) means a (1 + depth)^-b. M is the number of features
        that are not constant in the parent node, multiplied by the number of thresholds that separate rows of the node.
    evidence : {"train", "honest"}
        Rows that the likelihood uses. "train" uses all rows, so the prior must compensate for the search of splits.
        "honest" grows the tree on half of the rows and uses only the other half for the likelihood, so that the
        evidence is independent of the search.
    temperature : float
        The likelihood is raised to the power of 1 / temperature. Values above 1 move the posterior towards the prior.
    """

    split_prior: SplitPrior = parameter(SPLIT_PRIOR, default="search")
    evidence: str = parameter(one_of(TRAIN, HONEST), default="train")
    temperature: float = parameter(POSITIVE, default=1.0)

    _takes_several_targets = False
    _compares_weights = True
    _with_search = True
    # Parameters that `reweight` accepts, in addition to the leaf prior of a subclass.
    _PRIOR: ClassVar[tuple[str, ...]] = ("split_prior", "temperature")

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Grow the tree and average over its prunings.

        Parameters
        ----------
        {X}
        {y}
        {sample_weight}

        Returns
        -------
        self
        """
        tree, binning, matrix, data = self._grow(X, y, sample_weight)
        self._n_thresholds = thresholds_of_features(matrix.n_codes)
        # Number of candidate splits of each node: see `NodeSearch`.
        self._n_splits = self._count_candidates(tree)
        self._keep_tree(tree, binning, matrix, data)
        all_rows = data.of_all_ranks()
        self._learn_leaf_prior(data)
        self._node_statistics = self._evidence_statistics(data, all_rows)
        self._set_averaged_values()
        return self

    def _count_candidates(self, tree: Tree) -> Array:
        """Return the number of candidate splits of each node of the tree, shape (n_nodes,); 1 at leaves."""
        assert isinstance(tree, SearchedTree)
        n_features, n_drawn = count_splittable_features(self._n_thresholds), features_per_split(self)
        return count_candidate_splits(tree, n_features, n_drawn, random_thresholds=self._has_random_thresholds)

    def _evidence_statistics(self, data: TrainingData, all_rows: AllRows) -> Array:
        """Return the statistics of all nodes over the rows that score prunings, shape (n_statistics, n_nodes).

        If `evidence` is "honest", these are the rows that did not grow the tree.
        """
        weight = all_rows.sample_weight
        if self.evidence == HONEST:
            weight = np.where(self._growing_rows(data), 0.0, _weights_or_ones(all_rows))
            return self._sum_statistics(data, all_rows.y, weight)
        grown = self._stored_statistics(self._ensemble.tree(0), weight)
        return self._sum_statistics(data, all_rows.y, weight) if grown is None else grown

    def _stored_statistics(self, tree: Tree, weight: Array | None) -> Array | None:
        """Return the node statistics, (n_statistics, n_nodes), that the tree stores; None if not exact."""
        return None

    def _add_rows(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Add rows to the leaves of the current tree, or fit if there is none."""
        if not hasattr(self, "_ensemble"):
            self.fit(X, y, sample_weight)
            return
        self._check_parameters()
        data = self._check_validation(X, y, sample_weight)
        weight = self._combine_weights(data.y, data.sample_weight)
        self._node_statistics = self._node_statistics + self._sum_statistics(data, data.y, weight)
        self._set_averaged_values()

    def _growing_rows(self, data: TrainingData) -> NDArray[np.bool_]:
        """Return a mask of the rows of all processes that grow an honest tree: about half; copies stay together."""
        [hashes] = gathered(data.comm, [content_hashes(data.X, data.y, resolve_n_jobs(self.n_jobs))])
        grows = mixed(hashes ^ np.uint64(self._honest_seed)) >> np.uint64(63) == 0
        return grows if grows.any() else ~grows

    def _growing_weight(self, data: TrainingData, all_rows: AllRows) -> Array | None:
        """Return the weights of the rows of all processes that grow the tree, 0 for other rows; None if all are 1."""
        if self.evidence == TRAIN:
            return all_rows.sample_weight
        self._honest_seed = data.comm.allgather(draw_seed(self.random_state))[0]
        return np.where(self._growing_rows(data), _weights_or_ones(all_rows), 0.0)

    def _sum_statistics(self, data: TrainingData, y: Array, weight: Array | None) -> Array:
        """Return the statistics of all nodes, (n_statistics, n_nodes), of rows with targets `y` from all processes."""
        [leaf] = gathered(data.comm, [self._leaves_of(data.X)[:, 0].astype(np.intp)])
        left_child, offsets = self._ensemble.left_child, self._ensemble.node_offsets
        statistics = []
        total = float(len(y) if weight is None else weight.sum())
        for column in self._leaf_prior.statistics(y):
            of_nodes = leaf_sums(leaf, _round_to_exact_sums(column, total), weight, len(left_child))
            sum_up(offsets, left_child, of_nodes)
            statistics.append(of_nodes)
        return np.stack(statistics)

    def _learn_leaf_prior(self, data: TrainingData) -> None:
        """Set the constants of the leaf prior that depend on the targets; the default sets none."""

    @property
    def _leaf_prior(self) -> LeafPrior:
        """Prior of the leaf values."""
        raise NotImplementedError

    def _set_averaged_values(self) -> None:
        """Set the leaf values to their averages over all prunings."""
        self.__dict__.pop("_prunings", None)
        averaged = self._prunings.average(self._leaf_prior.values(self._node_statistics))
        self._ensemble = self._ensemble.with_values(np.ascontiguousarray(averaged.T))

    @cached_property
    def _prunings(self) -> Prunings:
        """Posterior over the prunings of the tree."""
        cost = NodeSearch(self._n_splits, count_splittable_features(self._n_thresholds))
        fitted = self._as_fitted()
        prior = PruningPrior(self._leaf_prior, fitted.split_prior, cost, fitted.temperature)
        return prior.posterior(self._ensemble.tree(0), self._node_statistics)

    @keeps_model
    def reweight(self, **prior: Any) -> Self:
        """Change the prior without growing the tree again; the result equals a fit with the new prior.

        Parameters
        ----------
        **prior
            New values of `split_prior`, `temperature` or the parameters of the leaf prior.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If another parameter is passed or a value is invalid.
        """
        self._check_fitted()
        others = [name for name in prior if name not in self._PRIOR]
        if others:
            raise ValueError(f"parameters of reweight must be among {', '.join(self._PRIOR)}; got {others[0]!r}.")
        for name, value in prior.items():
            self._parameter_rules[name].check(name, value)
        self.set_params(**prior)
        self._parameters_of_fit = {name: old for name, old in self._parameters_of_fit.items() if name not in prior}
        self._set_averaged_values()
        return self

    # Posterior --------------------------------------------------

    @property
    def log_evidence_(self) -> float:
        """Log marginal probability (or density, for regression) of the targets over all prunings and leaf values."""
        self._check_fitted()
        return float(self._prunings.log_evidence[0])

    @property
    def expected_n_leaves_(self) -> float:
        """Posterior mean of the number of leaves over all prunings; `get_n_leaves()` counts the unpruned tree."""
        self._check_fitted()
        return self._prunings.expected_leaves()

    @property
    def entropy_(self) -> float:
        """Entropy of the posterior over prunings, in nats; 0 if one pruning has probability 1."""
        self._check_fitted()
        return self._prunings.entropy()

    @property
    def feature_probabilities_(self) -> Array:
        """Posterior probability that the tree splits on each feature, shape (n_features,)."""
        self._check_fitted()
        feature = self._ensemble.feature
        column = np.where(feature < 0, -1, self._column_of[feature]).astype(feature.dtype)
        return self._prunings.use_of_features(column, self.n_features_in_)

    @property
    def map_estimator_(self) -> Any:
        """Most probable pruning, as a decision tree whose leaves predict their posterior means."""
        self._check_fitted()
        return self._make_pruned_tree(self._prunings.map_leaves(), self._leaf_prior.values(self._node_statistics))

    @property
    def map_log_joint_(self) -> float:
        """Log joint probability of the MAP pruning and the targets; subtract `log_evidence_` for its log posterior."""
        self._check_fitted()
        return self._prunings.map_log_joint

    def sample_posterior(self, n: int = 1, random_state: RandomState = None, *, draw_values: bool = True) -> list[Any]:
        """Draw independent decision trees from the exact posterior.

        Parameters
        ----------
        n : int, default=1
            Number of trees.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws. If None, the `random_state` of the estimator is used.
        draw_values : bool, default=True
            If True, leaf values are drawn as well; otherwise leaves predict their posterior means.

        Returns
        -------
        list of DecisionTreeClassifier or DecisionTreeRegressor

        Raises
        ------
        ValueError
            If `n` is not an integer of at least 1.
        """
        self._check_fitted()
        whole(1).check("n", n)
        random = generator(random_state, self.random_state)
        prior, statistics = self._leaf_prior, self._node_statistics
        trees = []
        for _ in range(n):
            leaves = self._prunings.draw_leaves(random)
            values = prior.draw(statistics, random) if draw_values else prior.values(statistics)
            trees.append(self._make_pruned_tree(leaves, values))
        return trees

    def _make_pruned_tree(self, is_leaf: NDArray[np.bool_], values: Array) -> Any:
        """Return the pruning with leaves `is_leaf`, (n_nodes,), and these values as a decision tree estimator."""
        trees = self._ensemble.with_values(np.ascontiguousarray(values.T))
        tree = cut(trees.tree(0), is_leaf)
        return single_tree(self, TreeEnsemble.from_trees([tree], [0], trees.baseline, trees.binning))

    def _leaf_values(self, nodes: NDArray[np.integer]) -> Array:
        """Return the posterior means of these nodes as leaves, shape (len(nodes), n_values)."""
        return self._leaf_prior.values(self._node_statistics)[:, nodes].T

    def _map_values(self, X: Any) -> Array:
        """Return the predictions of the most probable pruning, shape (n_samples, n_values)."""
        return self._leaf_values(self._prunings.nodes_of(self._prunings.map_leaves())[self.apply(X)])

    def _gibbs_values(self, X: Any, random: np.random.Generator) -> Array:
        """Return predictions of a pruning that is drawn independently for each row, shape (n_samples, n_values)."""
        return self._leaf_values(self._prunings.draw_nodes(self.apply(X), random))

    def _ancestor_weights(self, leaves: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.integer], Array]:
        """Return three arrays of pairs of a leaf and a node on its path that may replace it, shape (n_pairs,).

        They hold the index of the leaf in `leaves`, the node, and the probability that a pruning ends the path at the
        node. Pairs with a negligible probability are left out.
        """
        index, node = np.arange(len(leaves)), leaves
        indices, nodes = [index], [node]
        while len(index):
            node = self._prunings.parent[node]
            index, node = index[node >= 0], node[node >= 0]
            indices.append(index)
            nodes.append(node)
        index, node = np.concatenate(indices), np.concatenate(nodes)
        weight = self._prunings.stop[node]
        matters = weight > 1e-12
        return index[matters], node[matters], weight[matters]

    def _quantiles(self, X: Any, levels: Array, column: int, *, of_target: bool = False) -> Array:
        """Return posterior quantiles at these levels for each row, shape (n_samples, n_levels).

        They are quantiles of value `column` of the row's leaf or, if `of_target`, of a new target.
        """
        leaves, row = np.unique(self.apply(X), return_inverse=True)
        index, node, weight = self._ancestor_weights(leaves)
        statistics, prior = self._node_statistics[:, node], self._leaf_prior
        quantiles = np.empty((len(leaves), len(levels)))
        for j, level in enumerate(levels.tolist()):
            ends = prior.quantile(statistics, level, column, of_target=of_target)
            low, high = np.full(len(leaves), np.inf), np.full(len(leaves), -np.inf)
            np.minimum.at(low, index, ends)
            np.maximum.at(high, index, ends)
            for _ in range(_HALVINGS):
                middle = low + (high - low) / 2
                below = prior.cdf(statistics, middle[index], column, of_target=of_target)
                enough = np.bincount(index, weight * below, len(leaves)) >= level
                high, low = np.where(enough, middle, high), np.where(enough, low, middle)
            quantiles[:, j] = high
        return quantiles[row.ravel()]

    # Saving --------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_prunings"}

    def _node_arrays(self) -> dict[str, np.ndarray]:
        """Return the statistics and numbers of candidate splits of the nodes for the model file."""
        return {"node_statistics": self._node_statistics, "n_splits": self._n_splits}

    def _restore_nodes(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the statistics of the nodes from a model file; raise ValueError if they do not match the tree."""
        statistics = arrays["node_statistics"]
        n_nodes, expected = len(self._ensemble.left_child), len(self._leaf_prior.statistics(np.zeros(1)))
        if statistics.shape != (expected, n_nodes) or not np.isfinite(statistics).all():
            raise ValueError("the statistics and the tree do not match")
        # Row weights of each class, or of all rows for regression.
        weights = statistics if isinstance(self._leaf_prior, ClassPrior) else statistics[:1]
        if (weights < 0).any():
            raise ValueError("the statistics of the nodes are malformed")
        n_splits = arrays["n_splits"]
        if n_splits.shape != (n_nodes,) or not (n_splits >= 1).all():
            raise ValueError("the numbers of splits and the tree do not match")
        self._node_statistics, self._n_splits = statistics.astype(np.float64), n_splits.astype(np.float64)

    _saved: ClassVar[SavedParts] = ("_n_thresholds", Saved(_node_arrays, finish=_restore_nodes))


def _weights_or_ones(data: AllRows) -> Array:
    """Return the weights of the rows, or ones if they have none, shape (n_rows,)."""
    return np.ones(data.n_rows) if data.sample_weight is None else data.sample_weight


def _round_to_exact_sums(numbers: Array, total_weight: float) -> Array:
    """Round numbers to multiples of a step, so that sums with a total weight of `total_weight` are exact.

    Then, integer weights equal repeated rows. The total weight is capped at `_MAX_COPIES` because larger totals would
    leave too few bits of precision.
    """
    fraction, exponent = math.frexp(max(np.abs(numbers).max() * min(total_weight, _MAX_COPIES), 1e-290))
    step = math.ldexp(1.0, exponent - (fraction == 0.5) - 52)
    return np.rint(numbers / step) * step


# Number of bisection steps for a quantile; it reaches float64 precision except for very long tails.
_HALVINGS = 60


def interval_levels(coverage: Any) -> Array:
    """Return the levels (1 - coverage) / 2 and (1 + coverage) / 2; raise ValueError if `coverage` is invalid."""
    real(0, 1, open_low=True, open_high=True).check("coverage", coverage)
    return np.array([(1 - coverage) / 2, (1 + coverage) / 2])


MODES = ("bayes", "map", "gibbs")
_MIN_ROWS = 0.05


@with_parameters
class BayesTreeClassifier(PosteriorMixin, TreesClassifier, BaseBayesTree):
    """Decision tree for classification that averages over all its prunings.

    The fit grows one tree and then averages over its prunings, which may number 10^1000, weighted by their posterior
    probabilities. One pass over the nodes computes the average and stores it in the leaves, so prediction costs the
    same as for a single tree. A prior replaces the pruning parameter that is otherwise tuned by cross-validation.

    Parameters
    ----------
    alpha : float or None, default=None
        Pseudo-count of each class in the Dirichlet prior of the class probabilities of a leaf. Larger values shrink
        leaf probabilities more. If None, the total pseudo-count is ln S (L / n)^(1/2), half of it divided equally among
        the classes and half by class frequency. S is the number of thresholds of all features, because leaves are purer
        by chance if there are more candidates. L is the number of leaves of the tree and n the number of rows; a tree
        has few leaves if there is little noise.
    class_weight : dict, "balanced" or None, default=None
        Factors for the sample weights of each class. "balanced" uses factors inversely proportional to the class
        frequencies. If None, all factors are 1.
    {parameters}

    Attributes
    ----------
    {attributes}

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
    class_weight: ClassWeight = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = TreesClassifier._docs | described(BaseBayesTree.__doc__)
    _PRIOR = ("alpha", *BaseBayesTree._PRIOR)
    _modes = MODES

    def _learn_leaf_prior(self, data: TrainingData) -> None:
        """Set the class shares and the prior weight from the targets of all processes."""
        n_classes = len(self.classes_)
        weight = sums_by_class(data.y.astype(np.intp), data.sample_weight, n_classes, data.comm)
        # Shares and `noise` are rounded so that the summation order does not affect them.
        self._class_shares = np.rint(weight / weight.sum() * 2**20) / 2**20
        noise = min(float(np.float32(self._ensemble.n_leaves[0] / weight.sum())), 1.0)
        n_rows = log(max(self._n_thresholds.sum(), 1.0)) * np.sqrt(noise)
        self._prior_rows = max(float(n_rows), _MIN_ROWS)

    @property
    def _leaf_prior(self) -> ClassPrior:
        """Dirichlet prior of the class probabilities."""
        n_classes, alpha = len(self.classes_), self._as_fitted().alpha
        if alpha is not None:
            return ClassPrior(alpha, (n_classes,))
        return ClassPrior(tuple((self._prior_rows / 2 * (1 / n_classes + self._class_shares)).tolist()), (n_classes,))

    def _stored_statistics(self, tree: Tree, weight: Array | None) -> Array | None:
        """Return the class weights of all nodes, (n_statistics, n_nodes), from the grown tree.

        Return None if they are not exact, because weights are fractions or the total is too large.
        """
        is_known = float(tree.weight[0]) < MAX_COUNTED and are_copies(weight)
        return (
            node_statistics(tree, class_statistics(tree, nodes_of(tree).leaf, self._leaf_prior)) if is_known else None
        )

    @keeps_model
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add rows to the leaves of the current tree and update the average; the first call is a `fit`.

        The tree structure, the classes, the categories of columns and the data-dependent constants of the prior are
        learned only in the first call. Therefore, the result differs from a single `fit` to all rows, which would grow
        a different tree. With class_weight="balanced", the weights of added rows are computed from these rows only.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array, optional
            Class labels, which must equal the classes of the first call.

        Returns
        -------
        self
        """
        self._add_rows(X, y, sample_weight)
        if classes is not None:
            check_classes(classes, self.classes_)
        return self

    def _map_proba(self, X: ArrayLike) -> Array:
        """Return the class probabilities of the most probable pruning, shape (n_samples, n_classes)."""
        return self._targets.probabilities(self._map_values(X))

    def _gibbs_proba(self, X: ArrayLike, random: np.random.Generator) -> Array:
        """Return class probabilities of a pruning drawn for each row, shape (n_samples, n_classes)."""
        return self._targets.probabilities(self._gibbs_values(X, random))

    def _vote_share(self, X: ArrayLike) -> Array:
        """Return the posterior probability of the prunings that vote for each class, (n_samples, n_classes)."""
        leaves, row = np.unique(self.apply(X), return_inverse=True)
        index, node, weight = self._ancestor_weights(leaves)
        votes = np.zeros((len(leaves), len(self.classes_)))
        np.add.at(votes, (index, self._targets.probabilities(self._leaf_values(node)).argmax(axis=1)), weight)
        return votes[row.ravel()]

    def predict_proba_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return credible intervals of class probabilities, which are exact posterior quantiles.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Posterior probability that a class probability is inside its interval. Intervals are central: both tails
            have equal probability.

        Returns
        -------
        array of shape (n_samples, n_classes, 2)
        """
        self._check_fitted()
        levels = interval_levels(coverage)
        return np.stack([self._quantiles(X, levels, k) for k in range(len(self.classes_))], axis=1)

    def _check_prior(self, arrays: dict[str, np.ndarray]) -> None:
        """Raise ValueError if class shares or the prior weight, read from a file, are malformed."""
        shares = self._class_shares
        if shares.shape != (len(self.classes_),) or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError("the shares and the classes do not match")
        if not 0 < self._prior_rows < np.inf:
            raise ValueError("the number of prior rows is not positive")

    _saved: ClassVar[SavedParts] = ("_class_shares", "_prior_rows", Saved(from_arrays=_check_prior))


@with_parameters
class BayesTreeRegressor(TreesRegressor, BaseBayesTree):
    """Decision tree for regression that averages over all its prunings.

    The fit grows one tree and then averages over its prunings, weighted by their posterior probabilities. The targets
    of a leaf are normally distributed with its own mean and variance (criterion="squared_error"), or Poisson counts
    with its own rate ("poisson").

    Parameters
    ----------
    prior_weight : float, default=1.0
        Number of rows that the prior mean of a leaf is worth; the prior mean is the mean of all targets. Larger values
        shrink leaf values more.
    prior_shape : float, default=4.0
        Shape of the inverse gamma prior of the variance of a leaf, which is worth twice as many rows. Larger values
        shrink variances more.
    prior_scale : float, default=0.1
        Prior variance of the targets in a leaf, as a fraction of the variance of all targets.
    criterion : {"squared_error", "poisson"}, default="squared_error"
        Loss that splits minimise and model of the leaves: normal for "squared_error", Poisson for "poisson".
    {parameters}

    Attributes
    ----------
    {attributes}

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

    _docs: ClassVar[Docs] = TreesRegressor._docs | described(BaseBayesTree.__doc__)
    _PRIOR = ("prior_weight", "prior_shape", "prior_scale", *BaseBayesTree._PRIOR)
    _value_dtype = np.float64

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks expect an overfitted model, but the Poisson prior attributes small counts to chance.
        tags.regressor_tags.poor_score = self.criterion == "poisson"
        return tags

    def _learn_leaf_prior(self, data: TrainingData) -> None:
        """Set the location and the variance of the prior from the targets of all processes."""
        self._location, self._variance = location_and_variance(*gathered(data.comm, [data.y, data.sample_weight]))

    @property
    def _leaf_prior(self) -> NumberPrior | RatePrior:
        """Prior of means and variances, or of Poisson rates."""
        fitted = self._as_fitted()
        if fitted.criterion == "poisson":
            return RatePrior(self._location, fitted.prior_weight)
        of_leaves = (float(value) for value in (fitted.prior_weight, fitted.prior_shape, fitted.prior_scale))
        return NumberPrior(self._location, self._variance, *of_leaves)

    @keeps_model
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add rows to the leaves of the current tree and update the average; the first call is a `fit`.

        The tree structure, the categories of columns and the prior are learned only in the first call. Therefore, the
        result differs from a single `fit` to all rows, which would grow a different tree.

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
            If the rows are incompatible with the first call, or `criterion` has changed.
        """
        if hasattr(self, "_location") and self.criterion != self._as_fitted().criterion:
            raise ValueError(f"criterion must be the same as in fit for partial_fit; got {self.criterion!r}.")
        self._add_rows(X, y, sample_weight)
        return self

    def predict(self, X: ArrayLike, mode: str = "bayes", random_state: RandomState = None) -> NDArray[np.floating]:
        """Predict the target of each row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        mode : {"bayes", "map", "gibbs"}, default="bayes"
            Prunings that predict: "bayes" averages over the posterior, "map" uses the most probable pruning, and
            "gibbs" draws one from the posterior for each row.
        random_state : int, RandomState, Generator or None, default=None
            Seed for mode="gibbs". If None, the `random_state` of the estimator is used.

        Returns
        -------
        array of shape (n_samples,)
        """
        one_of(*MODES).check("mode", mode)
        if mode == "bayes":
            return super().predict(X)
        if mode == "map":
            return self._map_values(X)[:, 0]
        return self._gibbs_values(X, generator(random_state, self.random_state))[:, 0]

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return a prediction interval for the target of each row: exact quantiles of the posterior predictive.

        The posterior predictive is a mixture, over the nodes on the path of the row, of Student's t distributions (or
        negative binomial distributions for criterion="poisson").

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Posterior probability that the target is inside its interval. Both tails have equal probability.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.
        """
        return self._quantiles(X, interval_levels(coverage), 0, of_target=True)

    def predict_mean_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return a credible interval for the target mean of each row: exact quantiles of the posterior.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float, default=0.9
            Posterior probability that the mean is inside its interval. Both tails have equal probability.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.
        """
        return self._quantiles(X, interval_levels(coverage), 0)

    _saved: ClassVar[SavedParts] = ("_location", "_variance")

    def _restored(self) -> None:
        """Raise ValueError if the constants of the prior do not match the loaded trees."""
        if not np.shape(self._location) == np.shape(self._variance) == (self._ensemble.n_outputs,):
            raise ValueError("the trees and the targets do not match")
