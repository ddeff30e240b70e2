"""Base of the Bayesian trees: one tree, the statistics of its nodes, and the average over its prunings."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.bayes.posterior import generator
from fastens.cached import cached_property
from fastens.checked_parameters import with_parameters
from fastens.docstrings import entries
from fastens.engine.comm import gathered
from fastens.engine.grow.pruning import cut
from fastens.engine.rows.sampling import content_hashes, mixed
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.leaf_sums import leaf_sums
from fastens.engine.trees.trees import SearchedTree, Tree, TreeEnsemble
from fastens.engine.trees.unpack import sum_up
from fastens.forests.bags import draw_seed
from fastens.forests.forest_members import single_tree
from fastens.forests.parameters import features_per_split
from fastens.forests.tree import BaseDecisionTree
from fastens.parameters import POSITIVE, SPLIT_PRIOR, one_of, parameter, real, whole
from fastens.posterior.averaging import PruningPrior
from fastens.posterior.leaf_priors import ClassPrior, LeafPrior
from fastens.posterior.prunings import Prunings
from fastens.posterior.split_priors import NodeSearch, n_splits_of, n_splittable, thresholds_of_features
from fastens.rollback import keeps_model
from fastens.table.training_data import AllRows

Array = NDArray[np.float64]
TRAIN, HONEST = "train", "honest"
_MOST_COPIES = 2.0**32

POSTERIOR_DOCS = entries("""\
split_prior : {"search", "strict", "features"}, float or pair
    Prior probability that a node splits. "strict" is 1 / (2 M), M being the number of splits that the node was
    given the best of: the prior of the particular split. "search" has odds of 5 to M, as many of these are nearly
    the same; "features" is 1 / (2 F) for F features; a number is the same for all nodes, and a pair (a, b) stands
    for a (1 + depth)^-b. M is the number of features that are not constant in the node above, times the thresholds
    that part the node's own rows.
evidence : {"train", "honest"}
    The rows of the likelihood: all, or, with "honest", the half that the tree was not grown on. Only then is the
    posterior that of a tree fixed beforehand; with "train" the prior must pay for the search.
temperature : float
    The likelihood is raised to the power of 1 / temperature.
""")


@with_parameters
class BaseBayesTree(BaseDecisionTree):
    """The average over all prunings of one grown tree."""

    split_prior: Any = parameter(SPLIT_PRIOR, default="search")
    evidence: str = parameter(one_of(TRAIN, HONEST), default="train")
    temperature: float = parameter(POSITIVE, default=1.0)

    _takes_several_targets = False
    _compares_weights = True
    _with_search = True
    # What `reweight` may change, besides the prior of the leaves.
    _PRIOR: ClassVar[tuple[str, ...]] = ("split_prior", "temperature")

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Grow the tree, and average over its prunings.

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
        # Of each node: see `SearchCost`.
        self._n_splits = self._count_splits(tree)
        self._keep_tree(tree, binning, matrix, data)
        everyone = data.of_all_ranks()
        self._learn_leaf_prior(data)
        self._node_statistics = self._evidence(data, everyone)
        self._average()
        return self

    def _count_splits(self, tree: Tree) -> Array:
        assert isinstance(tree, SearchedTree)
        n_features, n_drawn = n_splittable(self._n_thresholds), features_per_split(self)
        return n_splits_of(tree, n_features, n_drawn, random_thresholds=self._has_random_thresholds)

    def _evidence(self, data: TrainingData, everyone: AllRows) -> Array:
        """The statistics of all nodes from the rows that are evidence, (n_statistics, n_nodes)."""
        weight = everyone.sample_weight
        if self.evidence == HONEST:
            weight = np.where(self._grows(data), 0.0, _or_ones(everyone))
            return self._count(data, everyone.y, weight)
        grown = self._grown_statistics(self._ensemble.tree(0), weight)
        return self._count(data, everyone.y, weight) if grown is None else grown

    def _grown_statistics(self, tree: Tree, weight: Array | None) -> Array | None:
        """The statistics of all nodes from those stored in the tree, if these are exact."""
        return None

    def _add_rows(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Count more rows in the leaves of the tree there is, if there is one."""
        if not hasattr(self, "_ensemble"):
            self.fit(X, y, sample_weight)
            return
        self._check_parameters()
        data = self._check_validation(X, y, sample_weight)
        weight = self._combine_weights(data.y, data.sample_weight)
        self._node_statistics = self._node_statistics + self._count(data, data.y, weight)
        self._average()

    def _grows(self, data: TrainingData) -> NDArray[np.bool_]:
        """Which rows, of all ranks, an honest tree is grown on, about half; copies of a row go the same way."""
        [hashes] = gathered(data.comm, [content_hashes(data.X, data.y, resolve_n_jobs(self.n_jobs))])
        grows = mixed(hashes ^ np.uint64(self._honest_seed)) >> np.uint64(63) == 0
        return grows if grows.any() else ~grows

    def _growing_weight(self, data: TrainingData, everyone: AllRows) -> Array | None:
        if self.evidence == TRAIN:
            return everyone.sample_weight
        self._honest_seed = data.comm.gather(draw_seed(self.random_state))[0]
        return np.where(self._grows(data), _or_ones(everyone), 0.0)

    def _count(self, data: TrainingData, y: Array, weight: Array | None) -> Array:
        """The statistics of all nodes, (n_statistics, n_nodes); targets and weights are those of all ranks."""
        [leaf] = gathered(data.comm, [self._leaves_of(data.X)[:, 0].astype(np.intp)])
        left_child, offsets = self._ensemble.left_child, self._ensemble.node_offsets
        found = []
        total = float(len(y) if weight is None else weight.sum())
        for column in self._leaf_prior.statistics(y):
            of_nodes = leaf_sums(leaf, _in_steps(column, total), weight, len(left_child))
            sum_up(offsets, left_child, of_nodes)
            found.append(of_nodes)
        return np.stack(found)

    def _learn_leaf_prior(self, data: TrainingData) -> None:
        """What the prior of the leaves takes from the targets."""

    @property
    def _leaf_prior(self) -> LeafPrior:
        raise NotImplementedError

    def _average(self) -> None:
        """Put the average over all prunings into the leaves."""
        self.__dict__.pop("_prunings", None)
        averaged = self._prunings.average(self._leaf_prior.values(self._node_statistics))
        self._ensemble = self._ensemble.with_values(np.ascontiguousarray(averaged.T))

    @cached_property
    def _prunings(self) -> Prunings:
        cost = NodeSearch(self._n_splits, n_splittable(self._n_thresholds))
        fitted = self._as_fitted()
        prior = PruningPrior(self._leaf_prior, fitted.split_prior, cost, fitted.temperature)
        return prior.posterior(self._ensemble.tree(0), self._node_statistics)

    @keeps_model
    def reweight(self, **prior: Any) -> Any:
        """Take another prior, without growing or counting anew: the model is as if it had been fitted with it.

        Parameters
        ----------
        **prior
            New values of the parameters of the prior: of the leaves', `split_prior` and `temperature`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For other parameters, or values that break their rules.
        """
        self._check_fitted()
        others = [name for name in prior if name not in self._PRIOR]
        if others:
            raise ValueError(f"reweight takes {', '.join(self._PRIOR)}; got {others[0]!r}.")
        for name, value in prior.items():
            self._parameter_rules[name].check(name, value)
        self.set_params(**prior)
        self._parameters_of_fit = {name: old for name, old in self._parameters_of_fit.items() if name not in prior}
        self._average()
        return self

    # Posterior --------------------------------------------------

    @property
    def log_evidence_(self) -> float:
        """Log of the probability (of numbers, the density) of the targets, over all prunings and leaf values."""
        self._check_fitted()
        return float(self._prunings.log_evidence[0])

    @property
    def expected_n_leaves_(self) -> float:
        """The expected number of leaves, over all prunings; `get_n_leaves()` is that of the whole tree."""
        self._check_fitted()
        return self._prunings.expected_leaves()

    @property
    def entropy_(self) -> float:
        """How uncertain the pruning is, in nats; 0 where one has all the probability."""
        self._check_fitted()
        return self._prunings.entropy()

    @property
    def feature_probabilities_(self) -> Array:
        """The posterior probability that the tree splits on each feature at all, (n_features,)."""
        self._check_fitted()
        feature = self._ensemble.feature
        column = np.where(feature < 0, -1, self._column_of[feature]).astype(feature.dtype)
        return self._prunings.use_of_features(column, self.n_features_in_)

    @property
    def map_estimator_(self) -> Any:
        """The most probable pruning, as a decision tree whose leaves predict their posterior means."""
        self._check_fitted()
        return self._pruned(self._prunings.map_leaves(), self._leaf_prior.values(self._node_statistics))

    @property
    def map_log_joint_(self) -> float:
        """Log of its joint probability with the targets; minus `log_evidence_`, that of its posterior probability."""
        self._check_fitted()
        return self._prunings.map_log_joint

    def sample_posterior(self, n: int = 1, random_state: Any = None, *, draw_values: bool = True) -> list[Any]:
        """Draw decision trees from the posterior, independently and exactly.

        Parameters
        ----------
        n : int, default=1
            How many.
        random_state : int, RandomState, Generator or None, default=None
            None takes the estimator's.
        draw_values : bool, default=True
            Draw what the leaves predict too; otherwise they predict their posterior means.

        Returns
        -------
        list of DecisionTreeClassifier or DecisionTreeRegressor

        Raises
        ------
        ValueError
            If `n` is not a whole number of at least 1.
        """
        self._check_fitted()
        whole(1).check("n", n)
        random = generator(self.random_state if random_state is None else random_state)
        prior, statistics = self._leaf_prior, self._node_statistics
        trees = []
        for _ in range(n):
            leaves = self._prunings.draw_leaves(random)
            values = prior.draw(statistics, random) if draw_values else prior.values(statistics)
            trees.append(self._pruned(leaves, values))
        return trees

    def _pruned(self, is_leaf: NDArray[np.bool_], values: Array) -> Any:
        trees = self._ensemble.with_values(np.ascontiguousarray(values.T))
        tree = cut(trees.tree(0), is_leaf)
        return single_tree(self, TreeEnsemble.from_trees([tree], [0], trees.baseline, trees.binning))

    def _leaf_values(self, nodes: NDArray[np.integer]) -> Array:
        """The posterior means of nodes as leaves, (n, n_values)."""
        return self._leaf_prior.values(self._node_statistics)[:, nodes].T

    def _map_values(self, X: Any) -> Array:
        """Predictions of the most probable pruning, (n_samples, n_values)."""
        return self._leaf_values(self._prunings.nodes_of(self._prunings.map_leaves())[self.apply(X)])

    def _gibbs_values(self, X: Any, random: np.random.Generator) -> Array:
        """Predictions of a pruning drawn anew for each row, (n_samples, n_values)."""
        return self._leaf_values(self._prunings.draw_nodes(self.apply(X), random))

    def _ancestor_weights(self, leaves: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.integer], Array]:
        """For each leaf, the nodes that may be leaves in its place: whose place, the node, and its probability."""
        place, node = np.arange(len(leaves)), leaves
        places, nodes = [place], [node]
        while len(place):
            node = self._prunings.parent[node]
            place, node = place[node >= 0], node[node >= 0]
            places.append(place)
            nodes.append(node)
        place, node = np.concatenate(places), np.concatenate(nodes)
        weight = self._prunings.stop[node]
        matters = weight > 1e-12
        return place[matters], node[matters], weight[matters]

    def _quantiles(self, X: Any, levels: Array, column: int, *, of_target: bool = False) -> Array:
        """Quantiles of the posterior of a value, or of a new target, for each row, (n_samples, n_levels)."""
        leaves, row = np.unique(self.apply(X), return_inverse=True)
        place, node, weight = self._ancestor_weights(leaves)
        statistics, prior = self._node_statistics[:, node], self._leaf_prior
        found = np.empty((len(leaves), len(levels)))
        for j, level in enumerate(levels.tolist()):
            ends = prior.quantile(statistics, level, column, of_target=of_target)
            low, high = np.full(len(leaves), np.inf), np.full(len(leaves), -np.inf)
            np.minimum.at(low, place, ends)
            np.maximum.at(high, place, ends)
            for _ in range(_HALVINGS):
                middle = low + (high - low) / 2
                below = prior.cdf(statistics, middle[place], column, of_target=of_target)
                enough = np.bincount(place, weight * below, len(leaves)) >= level
                high, low = np.where(enough, middle, high), np.where(enough, low, middle)
            found[:, j] = high
        return found[row.ravel()]

    # Saving --------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_prunings"}

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "_n_thresholds")

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return super()._fitted_arrays() | {"node_statistics": self._node_statistics, "n_splits": self._n_splits}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        statistics = arrays["node_statistics"]
        n_nodes, expected = len(self._ensemble.left_child), len(self._leaf_prior.statistics(np.zeros(1)))
        if statistics.shape != (expected, n_nodes) or not np.isfinite(statistics).all():
            raise ValueError("the statistics and the tree do not fit together")
        # Weights of the rows of each class, or of all rows.
        weights = statistics if isinstance(self._leaf_prior, ClassPrior) else statistics[:1]
        if (weights < 0).any():
            raise ValueError("the statistics of the nodes are malformed")
        n_splits = arrays["n_splits"]
        if n_splits.shape != (n_nodes,) or not (n_splits >= 1).all():
            raise ValueError("the numbers of splits and the tree do not fit together")
        self._node_statistics, self._n_splits = statistics.astype(np.float64), n_splits.astype(np.float64)


def _or_ones(data: AllRows) -> Array:
    """The weights of rows."""
    return np.ones(data.n_rows) if data.sample_weight is None else data.sample_weight


def _in_steps(numbers: Array, total_weight: float) -> Array:
    """Numbers rounded to steps so coarse that sums of them are exact: then a weight is the same as repetition.

    More copies than `_MOST_COPIES` nobody repeats, and the steps would be those of few bits.
    """
    fraction, exponent = math.frexp(max(np.abs(numbers).max() * min(total_weight, _MOST_COPIES), 1e-290))
    step = math.ldexp(1.0, exponent - (fraction == 0.5) - 52)
    return np.rint(numbers / step) * step


# Of an interval that holds a quantile; then it is exact to float64 but for very long tails.
_HALVINGS = 60


def interval_levels(coverage: Any) -> Array:
    """The levels of the two ends of an interval that leaves as much out on both sides."""
    real(0, 1, open_low=True, open_high=True).check("coverage", coverage)
    return np.array([(1 - coverage) / 2, (1 + coverage) / 2])
