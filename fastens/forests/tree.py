"""Single trees (CART; Breiman et al. 1984), their targets and leaf values, and trees of ensembles as estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier
from sklearn.utils import Bunch

from fastens.base import BaseClassifier, BaseRegressor, Capabilities, TrainingData
from fastens.engine.bins.binning import AnyMatrix, Binning, learn_and_bin
from fastens.engine.comm import LOCAL, Comm, gathered, max_floats
from fastens.engine.elementary import log2, xlogy
from fastens.engine.forest.forests import ForestGrower, TreeSample, TreeTarget, class_target, number_target
from fastens.engine.grow.growth import count_of, prune, pruning_path
from fastens.engine.rows.sampling import stream_seeds
from fastens.engine.threads import cached_property, resolve_n_jobs
from fastens.engine.trees.contributions import decision_path
from fastens.engine.trees.leaf_values import cut_half_way
from fastens.engine.trees.trees import SearchedTree, Tree, TreeEnsemble
from fastens.forests.bags import GROWING, LocalRows, growth_seed
from fastens.forests.parameters import (
    CLASS_CRITERION,
    NUMBER_CRITERION,
    TreeParameters,
    breaks_ties_at_random,
    forest_parameters,
    node_impurities,
)
from fastens.forests.posterior_averaging import AVERAGING, ClassAveraging, RandomSplitClassAveraging
from fastens.modelfile.saving import Arrays, Saved, SavedParts, attributes
from fastens.params.docstrings import Docs, described
from fastens.params.estimator import with_parameters
from fastens.params.options import Categories, PosteriorAverage
from fastens.params.rules import ANYTHING, RANDOM_STATE, one_of, parameter, real, whole
from fastens.params.types import ClassWeight, PerColumn, RandomState
from fastens.table.training_data import AllRows, labels_of
from fastens.tree_model.saving import BINS, bins_of_features
from fastens.tree_model.tree_model import CATEGORIES, TreeModel

Array = NDArray[np.float64]
Values = NDArray[np.floating]
Loss = Callable[[Array, Array], Array]


class ClassTargets(NamedTuple):
    """Classification targets.

    For each target, a leaf stores the probability of the second class if there are two classes, and of each class if
    there are more. A target with a single class is stored as the probability of a second class, which is 0.
    """

    classes: Any  # sorted labels; with several targets, a list of arrays
    has_all: bool = False  # True for models of other libraries: all classes have a value, which is not normalised

    @property
    def of_targets(self) -> list[NDArray[Any]]:
        """Labels of each target."""
        return self.classes if isinstance(self.classes, list) else [self.classes]

    @property
    def counts(self) -> list[int]:
        """Number of classes of each target."""
        return [len(classes) for classes in self.of_targets]

    @property
    def widths(self) -> list[int]:
        """Number of leaf values of each target."""
        return [1 if count < 3 and not self.has_all else count for count in self.counts]

    @property
    def n_values(self) -> int:
        """Number of values in a leaf."""
        return sum(self.widths)

    def leaf_values(self, grown: Values) -> Values:
        """Return leaf values of all classes if `has_all`; the engine grows only one value for two classes."""
        if not self.has_all:
            return grown
        parts = np.split(grown, np.cumsum(self._replace(has_all=False).widths)[:-1], axis=1)
        pairs = zip(parts, self.counts, strict=True)
        return np.hstack([part if count > 2 else _all_probabilities(part)[:, :count] for part, count in pairs])

    def growth_target(self, y: Array, comm: Comm = LOCAL) -> TreeTarget:
        """Return the class indices `y` as the target of tree growth; `comm` is not used."""
        return class_target(y, [max(count, 2) for count in self.counts])

    def by_target(self, mean: Values) -> list[Values]:
        """Return the columns of mean leaf values for each target, an array (n_rows, n_columns) for each."""
        return np.split(mean, np.cumsum(self.widths)[:-1], axis=1) if isinstance(self.classes, list) else [mean]

    def predictions(self, mean: Values) -> Array:
        """Return the index of the most probable class as a float, (n_rows, n_targets), from mean leaf values."""
        pairs = zip(self.by_target(mean), self.counts, strict=True)
        return np.column_stack([_most_probable(part, count) for part, count in pairs]).astype(np.float64)

    def decode(self, predictions: Array) -> NDArray[Any]:
        """Return the labels for predicted class indices (n_rows, n_targets), in the shape of y."""
        return labels_of(predictions if isinstance(self.classes, list) else predictions[:, 0], self.classes)

    def probabilities(self, mean: Values) -> Any:
        """Return class probabilities, (n_rows, n_classes), from mean leaf values; a list with several targets."""
        parts = self.parts(mean)
        return parts if isinstance(self.classes, list) else parts[0]

    def parts(self, mean: Values) -> list[Any]:
        """Return each target's class probabilities, (n_rows, n_classes), from mean leaf values, as a list."""
        parts = self.by_target(mean)
        if self.has_all:
            return parts
        return [_all_probabilities(part)[:, :count] for part, count in zip(parts, self.counts, strict=True)]

    def votes(self, value: Values) -> Values:
        """Return leaf values turned into votes: 1 for the most probable class, the first in a tie, else 0."""
        parts = []
        for part, answer in zip(self.by_target(value), self.predictions(value).T, strict=True):
            classes = np.arange(part.shape[1]) if part.shape[1] > 1 else np.ones(1)
            parts.append(answer[:, None] == classes)
        return np.concatenate(parts, axis=1).astype(value.dtype)

    def losses(self, predictions: Array, y: Array) -> Array:
        """Return, for each row, the fraction of targets whose predicted class index is wrong."""
        return (predictions != y).mean(axis=1)

    def score_loss(self, y: Array, weight: Array) -> Loss:
        """Return a function from predictions and targets to losses of rows, whose mean is 1 - accuracy."""
        return lambda predictions, y: (predictions != y).any(axis=1)


class NumberTargets(NamedTuple):
    """Regression targets: a leaf stores one number for each target."""

    n_values: int
    dtype: Any = np.float32  # dtype of the leaf values

    def leaf_values(self, grown: Values) -> Values:
        """Return the leaf values unchanged, because they are the predicted numbers."""
        return grown

    def growth_target(self, y: Array, comm: Comm = LOCAL) -> TreeTarget:
        """Return the target numbers `y` as the target of tree growth, with sums over the ranks of `comm`."""
        return number_target(y, self.dtype, comm)

    def predictions(self, mean: Values) -> Values:
        """Return the predicted numbers, (n_rows, n_targets), which are the mean leaf values."""
        return mean

    def decode(self, predictions: Values) -> Values:
        """Return predicted numbers (n_rows, n_targets) in the shape of y, (n_rows,) for a single target."""
        return predictions[:, 0] if self.n_values == 1 else predictions

    def parts(self, mean: Values) -> list[Values]:
        """Return a list whose only item is the mean leaf values in the shape of y."""
        return [self.decode(mean)]

    def losses(self, predictions: Array, y: Array) -> Array:
        """Return the squared error of each row, averaged over the targets."""
        return ((predictions - y) ** 2).mean(axis=1)

    def score_loss(self, y: Array, weight: Array) -> Loss:
        """Return a function from predictions and targets to losses of rows with the mean 1 - R2 on `y`."""
        variance = np.average((y - np.average(y, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
        variance[variance == 0] = 1.0
        return lambda predictions, y: ((predictions - y) ** 2 / variance).mean(axis=1)


def check_counts(y: Array, comm: Comm = LOCAL, *, needs_some: bool = True) -> Array:
    """Return `y` unchanged, a target for criterion="poisson"; raise ValueError if a value is negative.

    With `needs_some`, their sum over all ranks must also be positive.
    """
    minus_lowest, *largest = max_floats(comm, -y.min(initial=np.inf), *np.atleast_1d(y.max(axis=0, initial=-np.inf)))
    lowest, smallest_sum = -minus_lowest, min(largest)  # a sum of non-negative numbers is positive if its maximum is
    if lowest < 0 or (needs_some and smallest_sum <= 0):
        raise ValueError(
            "y must be non-negative and have a positive sum with criterion='poisson'; got "
            f"{'a value' if lowest < 0 else 'a sum'} of {lowest if lowest < 0 else smallest_sum}."
        )
    return y


def _most_probable(values: Values, n_classes: int) -> NDArray[Any]:
    """Return the index of each row's most probable class, the first one in a tie, from one target's leaf values.

    For two classes, `values` may have a single column, the probability of the second class.
    """
    return (values[:, 0] > 0.5) & (n_classes > 1) if values.shape[1] == 1 else values.argmax(axis=1)


def _all_probabilities(values: Values) -> Array:
    """Return all classes' probabilities, from the second class's probability or from unnormalised shares."""
    if values.shape[1] > 1:
        return values / values.sum(axis=1, keepdims=True, dtype=np.float64)
    shares = np.empty((len(values), 2))
    shares[:, 1] = values[:, 0]
    np.subtract(1.0, shares[:, 1], out=shares[:, 0])
    return shares


_ALL_SHARES = "has_all_shares"


def _check_values(model: Any, arrays: Arrays) -> None:
    """Raise ValueError unless the nodes of restored trees have a value for each output; `arrays` are not used."""
    if model._ensemble.value.shape[1] != model._ensemble.n_outputs:
        raise ValueError("the values of the trees and the targets do not match")


class TreesClassifier(BaseClassifier):
    """Mixin of classifiers whose leaf values are class probabilities.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss"}
        Function that measures the quality of a split. "entropy" and "log_loss" are equivalent.
    bootstrap : bool, "stratified", "balanced", float or dict
        If True, grow each tree on rows drawn with replacement, with probabilities proportional to their weights. The
        number of draws is the number of rows, or the sum of the weights if all weights are integers. "stratified" draws
        from each class as many rows as the class has; "balanced" draws from each class as many rows as the smallest
        class has (Chen, Liaw & Breiman 2004). A float between 0 and 1 is the ratio of the smallest class to the largest
        one in a bag: larger classes are drawn less often, so 1 balances all classes. A dict maps classes to their
        number of draws: an integer is a count, and a float is a multiple of the class size. Other classes get as many
        draws as they have rows.
    voting : {"soft", "hard"}
        How the trees are combined: "soft" averages their class probabilities, "hard" counts one vote per tree.
    class_weight : dict, list of dicts, "balanced", "balanced_subsample" or None
        Weights of the classes, multiplied with `sample_weight`. With `bootstrap`, they multiply the probability that a
        row is drawn. "balanced" weights classes inversely to their frequency; "balanced_subsample" does so within each
        bag. For several targets, pass a list with one dict per target. If None, all classes have weight 1.
    averaging : "auto", "posterior", PosteriorAverage or None
        If "posterior", average each tree over all its prunings (see `BayesTreeClassifier`). The pure leaves of full
        trees then do not predict probabilities of 0 and 1, which lowers the log loss; prediction cost is unchanged.
        "auto" is "posterior" without `monotonic_cst`, and None with it. `PosteriorAverage` sets the prior and the rows
        used as evidence. If None, leaves predict the class frequencies of their rows, as in scikit-learn.
    monotonic_cst : array of -1, 0, 1 or dict by name
        Monotonic constraint of each feature: the probability of the second class must not decrease (1) or not increase
        (-1) with the feature; 0 means no constraint. Only for binary targets.
    """

    _has_class_shares: ClassVar[bool] = True
    _has_all_shares: bool = False
    _factor_bits = 14  # the precision that growth uses for row weights
    _docs: ClassVar[Docs] = TreeParameters._docs | described(__doc__)
    if TYPE_CHECKING:
        _mean: Any

    def _restore_shares(self, arrays: Arrays) -> None:
        """Set, from saved arrays, if leaves hold the probabilities of both classes of a binary target."""
        self._has_all_shares = _ALL_SHARES in arrays

    _saved: ClassVar[SavedParts] = (
        Saved(
            lambda model: {_ALL_SHARES: np.array(True)} if model._has_all_shares else {}, _restore_shares, _check_values
        ),
    )

    @property
    def _targets(self) -> ClassTargets:
        return ClassTargets(self.classes_, self._has_all_shares)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of each row, (n_samples,) or (n_samples, n_targets).

        Ties are resolved in favour of the first class.
        """
        mean, targets = self._mean(X), self._targets
        return targets.decode(targets.predictions(mean))

    def predict_proba(self, X: ArrayLike) -> Any:
        """Return class probabilities, (n_samples, n_classes); with several targets, a list of arrays."""
        mean = self._mean(X)
        return self._targets.probabilities(mean)


class TreesRegressor(BaseRegressor):
    """Mixin of regressors whose leaf values are numbers, one for each target."""

    _docs: ClassVar[Docs] = TreeParameters._docs
    _value_dtype: ClassVar[Any] = np.float32
    _saved: ClassVar[SavedParts] = (Saved(finish=_check_values),)
    if TYPE_CHECKING:
        criterion: str
        _mean: Any
        _n_targets: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.criterion == "poisson"
        return tags

    def _check_ranks(self) -> None:
        """Raise ValueError for criteria that a fit on several ranks does not support."""
        super()._check_ranks()
        if self._comm.size > 1 and self.criterion == "absolute_error":
            raise ValueError(
                "criterion must not be 'absolute_error' in distributed fits, because medians cannot be summed "
                f"over ranks; got {self._comm.size} ranks."
            )

    def _learn_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the checked training target; raise ValueError for "poisson" if a value is negative or the sum is 0."""
        return self._checked_counts(super()._learn_target(y), needs_some=True)

    def _encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the checked target; raise ValueError if the criterion is "poisson" and a value is negative."""
        # A warm start may add rows with counts of 0.
        return self._checked_counts(super()._encode_target(y), needs_some=False)

    def _checked_counts(self, y: NDArray[np.float64], *, needs_some: bool) -> NDArray[np.float64]:
        """Return the target unchanged; if the criterion is "poisson", raise ValueError as `check_counts` does."""
        is_poisson = self._as_fitted().criterion == "poisson"
        return check_counts(y, self._comm, needs_some=needs_some) if is_poisson else y

    @property
    def _targets(self) -> NumberTargets:
        return NumberTargets(self._n_targets, self._value_dtype)

    def predict(self, X: ArrayLike) -> NDArray[np.floating]:
        """Return the predictions, (n_samples,) or (n_samples, n_targets)."""
        mean = self._mean(X)
        return mean[:, 0] if self._n_targets == 1 else mean


NO_NODE, NO_FEATURE = -1, -2


class SklearnTree:
    """Array representation of a fitted tree under scikit-learn's names.

    Each array has one entry per node. Node 0 is the root, and parents precede their children.

    Parameters
    ----------
    model : fitted decision tree
        Estimator that holds the tree.
    """

    def __init__(self, model: Any) -> None:
        self._model = model._snapshot()
        self._trees = model._ensemble
        self.n_outputs = model.n_outputs_
        self.n_features = model.n_features_in_
        counts = getattr(model, "n_classes_", 1)
        self.n_classes = np.broadcast_to(counts, self.n_outputs).astype(np.intp)
        self.max_n_classes = int(self.n_classes.max())
        self.node_count = self.capacity = len(self._trees.feature)
        self.n_leaves = int(self._trees.n_leaves[0])
        self.max_depth = int(self._trees.max_depth[0])

    @cached_property
    def _is_leaf(self) -> NDArray[np.bool_]:
        return self._trees.feature < 0

    @cached_property
    def children_left(self) -> NDArray[np.int64]:
        """Index of each node's left child, -1 at leaves."""
        return np.where(self._is_leaf, NO_NODE, self._trees.left_child).astype(np.int64)

    @cached_property
    def children_right(self) -> NDArray[np.int64]:
        """Index of each node's right child, -1 at leaves."""
        return np.where(self._is_leaf, NO_NODE, self._trees.left_child.astype(np.int64) + 1)

    @cached_property
    def feature(self) -> NDArray[np.int64]:
        """Feature that each node splits on, -2 at leaves."""
        columns = self._model._column_of[np.maximum(self._trees.feature, 0)]
        return np.where(self._is_leaf, NO_FEATURE, columns).astype(np.int64)

    @cached_property
    def threshold(self) -> NDArray[np.float64]:
        """Threshold of each split: values at or below it go left; -2 at leaves, NaN at categorical splits."""
        return np.where(self._is_leaf, float(NO_FEATURE), self._trees.threshold)

    @cached_property
    def missing_go_to_left(self) -> NDArray[np.uint8]:
        """1 if missing values go left, otherwise 0."""
        trees = self._trees
        of_sets = trees.category_words[np.maximum(trees.category_set, 0)] & 1 if len(trees.category_words) else 0
        return np.where(trees.category_set < 0, trees.missing_left, of_sets).astype(np.uint8)

    @cached_property
    def n_node_samples(self) -> NDArray[np.int64]:
        """Number of training rows in each node."""
        return self._trees.n_samples.astype(np.int64)

    @cached_property
    def weighted_n_node_samples(self) -> NDArray[np.float64]:
        """Sum of the weights of the training rows in each node."""
        return self._trees.weight.astype(np.float64)

    @cached_property
    def value(self) -> NDArray[np.float64]:
        """Class probabilities, or predicted numbers, of each target: (node_count, n_outputs, max_n_classes)."""
        if not hasattr(self._model, "classes_"):
            return self._trees.value.astype(np.float64)[:, :, None]
        shares = self._model._targets.probabilities(self._trees.value)
        values = np.zeros((self.node_count, self.n_outputs, self.max_n_classes))
        for target, target_shares in enumerate(shares if isinstance(shares, list) else [shares]):
            values[:, target, : target_shares.shape[1]] = target_shares
        return values

    @cached_property
    def impurity(self) -> NDArray[np.float64]:
        """Impurity of each node.

        For regression trees taken from forests or other libraries, it is the total decrease by the splits below the
        node, which is 0 at leaves.
        """
        if hasattr(self._model, "classes_"):
            shares = self.value
            if self._model.criterion == "gini":
                return (1 - (shares**2).sum(axis=2)).mean(axis=1)
            return -(shares * log2(np.where(shares > 0, shares, 1.0))).sum(axis=2).mean(axis=1)
        if getattr(self._model, "_impurities", None) is not None:
            return self._model._impurities
        total = self._trees.gain.astype(np.float64)
        for node in np.flatnonzero(~self._is_leaf)[::-1].tolist():
            left = self._trees.left_child[node]
            total[node] += total[left] + total[left + 1]
        return total / self.weighted_n_node_samples

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the value of the leaf that each row falls into.

        The shape is (n_samples, n_outputs, max_n_classes), or (n_samples, max_n_classes) with one target.
        """
        values = self.value[self.apply(X)]
        return values[:, 0] if self.n_outputs == 1 else values

    def apply(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the index of the leaf that each row falls into, (n_samples,)."""
        return self._model.apply(X).astype(np.int64)

    def decision_path(self, X: ArrayLike) -> csr_matrix:
        """Return a CSR matrix of shape (n_samples, node_count) that is 1 where a row visits a node."""
        return self._model.decision_path(X)

    def compute_feature_importances(self, normalize: bool = True) -> NDArray[np.float64]:
        """Return the decrease in impurity by each feature, normalised to sum to 1 if `normalize` is True."""
        importances = np.zeros(self.n_features)
        inner = ~self._is_leaf
        np.add.at(importances, self.feature[inner], self._trees.gain[inner] / self._trees.weight[0])
        return importances / importances.sum() if normalize and importances.any() else importances

    def __getstate__(self) -> dict[str, Any]:
        return {"_model": self._model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_model"])  # type: ignore[misc]


_IMPURITIES = "impurities"


@with_parameters
class BaseDecisionTree(TreeParameters, TreeModel):
    """Base class of single decision trees."""

    splitter: str = parameter(one_of("best", "random"), default="best")
    random_state: RandomState = parameter(RANDOM_STATE | whole(0, 2**64 - 1), default=None)

    _takes_several_targets = True
    _capabilities = Capabilities(supports_distributed_fit=True)
    _combination = "mean"
    # If True, growth also returns the number of candidate splits in each node.
    _with_search = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BaseDecisionTree:
        """Fit the tree to a training set.

        Parameters
        ----------
        {X}
        y : array of shape (n_samples,) or (n_samples, n_targets), or the name of a column
            Targets.
        {sample_weight}

        Returns
        -------
        self
        """
        tree, binning, matrix, data = self._grow(X, y, sample_weight)
        self._keep_tree(prune(tree, self.ccp_alpha), binning, matrix, data)
        return self

    def _keep_tree(self, tree: Tree, binning: Binning, matrix: AnyMatrix, data: TrainingData) -> None:
        """Store the grown tree as the model; `matrix` and `data` are the binned and the encoded training rows.

        Unless thresholds are random, they are moved to the midpoints of adjacent training values.
        """
        if not self._has_random_thresholds:
            tree, binning = cut_half_way(tree, matrix, data.X, binning, resolve_n_jobs(self.n_jobs))
        self._ensemble = TreeEnsemble.from_trees([tree], [0], np.zeros(self._n_outputs()), binning)
        self._send_unseen()
        self._measure(data)

    def _measure(self, data: TrainingData) -> None:
        """Store statistics of the training rows that do not follow from the node values; by default, nothing."""

    def _grow(self, X: Any, y: Any, sample_weight: Any) -> tuple[Tree, Binning, AnyMatrix, TrainingData]:
        """Return the unpruned tree, and the binning, binned rows and encoded rows that it was grown on.

        Learn the columns, the target and target encoding of the training set first.
        """
        data = self._start_fit(X, y, sample_weight)
        self._n_targets = 1 if data.y.ndim == 1 else data.y.shape[1]
        seed = data.comm.allgather(growth_seed(self.random_state))[0]
        data = self._learn_statistics(data, seed)
        n_threads = resolve_n_jobs(self.n_jobs)
        kinds, comm = self._is_categorical, data.comm
        binning, matrix = learn_and_bin(data.X, data.sample_weight, bins_of_features(self), kinds, n_threads, comm)
        all_rows = data.of_all_ranks()
        weight, local_rows = self._growing_weight(data, all_rows), LocalRows.of(comm, len(data.y))
        n_rows = all_rows.n_rows if weight is None else int(np.count_nonzero(weight))
        total = float(n_rows if weight is None else weight.sum())
        rules = forest_parameters(self, n_rows, total, in_random_order=breaks_ties_at_random(self))
        kind = SearchedTree if self._with_search else Tree
        grower = ForestGrower(matrix, self._targets.growth_target(data.y, comm), rules, n_threads, X=data.X, kind=kind)
        sample = TreeSample(weight, None, seed)
        [tree] = grower.grow([sample if local_rows is None else local_rows.sample(sample)])
        return tree, binning, matrix, data

    def _growing_weight(self, data: TrainingData, all_rows: AllRows) -> Array | None:
        """Return the weights of all ranks' rows, `all_rows`, that the tree is grown with; None if all are 1."""
        return all_rows.sample_weight

    @property
    def _has_random_thresholds(self) -> bool:
        return self.splitter == "random"

    def _mean(self, X: Any) -> Array:
        """Return the leaf values for the rows of the table X, (n_samples, n_values)."""
        return self._raw(X)

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the index of the leaf that each row falls into, (n_samples,)."""
        return self._leaves(X)[:, 0]

    def decision_path(self, X: ArrayLike) -> csr_matrix:
        """Return a CSR matrix of shape (n_samples, n_nodes) that is 1 where a row visits a node."""
        rows = self._check_table(X)
        return decision_path(self._ensemble, rows, resolve_n_jobs(self.n_jobs))[0]

    def get_depth(self) -> int:
        """Return the depth of the tree: the number of splits between the root and the deepest leaf."""
        self._check_fitted()
        return int(self._ensemble.max_depth[0])

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        self._check_fitted()
        return int(self._ensemble.n_leaves[0])

    @property
    def tree_(self) -> SklearnTree:
        """Arrays of the tree under scikit-learn's names."""
        self._check_fitted()
        return SklearnTree(self)

    @property
    def max_features_(self) -> int:
        """Number of features that are evaluated at each split."""
        self._check_fitted()
        return count_of(self._as_fitted().max_features, len(self._column_of))

    def _n_outputs(self) -> int:
        """Return the number of values of a leaf."""
        return self._targets.n_values

    _saved: ClassVar[SavedParts] = ("_n_targets",)


class _PrunedByCost(BaseDecisionTree):
    """Base class of trees with minimal cost-complexity pruning."""

    def cost_complexity_pruning_path(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Bunch:
        """Compute the pruning path of minimal cost-complexity pruning on a training set.

        The model itself is not changed.

        Parameters
        ----------
        X, y, sample_weight
            Training set, as for `fit`.

        Returns
        -------
        Bunch
            ``ccp_alphas``: the values of `ccp_alpha` at which a branch is pruned, in ascending order from 0.
            ``impurities``: the total impurity of the remaining leaves at each value.
        """
        model = clone(self)
        tree, _, _, data = model._grow(X, y, sample_weight)
        root = model._impurity(data.y.reshape(len(data.y), -1), data.sample_weight, tree.value[0])
        leaves = root - tree.gain.sum(dtype=np.float64) / np.float64(tree.weight[0])
        ccp_alphas, impurities = pruning_path(tree, max(leaves, 0.0))
        return Bunch(ccp_alphas=ccp_alphas, impurities=impurities)

    def _impurity(self, y: Array, weight: Array | None, root: NDArray[np.floating]) -> float:
        """Return the impurity of all rows, averaged over targets; `root` holds the values of the root."""
        raise NotImplementedError


@with_parameters
class DecisionTreeClassifier(TreesClassifier, _PrunedByCost):
    """Decision tree for classification.

    The tree splits the rows recursively in two, each time at the split with the largest decrease in impurity. A leaf
    predicts the class frequencies of its rows.

    Parameters
    ----------
    {parameters}
    averaging : "posterior", PosteriorAverage or None, default=None
        If "posterior", average the tree over all its prunings, as random forests do by default. `PosteriorAverage` sets
        the prior; its evidence must be "train". If None, leaves predict the class frequencies of their rows.
    class_weight : dict, list of dicts, "balanced" or None, default=None
        Weights of the classes, multiplied with `sample_weight`. "balanced" weights classes inversely to their
        frequency. For several targets, pass a list with one dict per target. If None, all classes have weight 1.

    Attributes
    ----------
    {attributes}

    References
    ----------
    Breiman, Friedman, Olshen & Stone (1984), "Classification and regression trees".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import DecisionTreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = DecisionTreeClassifier(max_depth=4).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    criterion: str = parameter(CLASS_CRITERION, default="gini", kw_only=False)
    class_weight: ClassWeight = parameter(ANYTHING, default=None)
    averaging: str | PosteriorAverage | None = parameter(AVERAGING, default=None)
    ccp_alpha: float = parameter(real(0), default=0.0)
    monotonic_cst: PerColumn = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(BINS, default=65_535)

    @property
    def _compares_weights(self) -> bool:  # type: ignore[override]
        return self.averaging is not None

    def _validate_combinations(self) -> None:
        """Raise ValueError for options of `averaging` that are incompatible with other parameters."""
        if self.averaging is not None:
            ClassAveraging.check(self)

    def _keep_tree(self, tree: Tree, binning: Binning, matrix: AnyMatrix, data: TrainingData) -> None:
        """Store the grown tree as the model, averaged over its prunings if `averaging` is set."""
        if self.averaging is not None:
            kind = RandomSplitClassAveraging if self._has_random_thresholds else ClassAveraging
            averaging = kind(self, data, matrix)
            scale = averaging.rows_per_weight(self, tree)
            tree = averaging.averager(self, data, matrix).average(0, tree, scale, None)
        super()._keep_tree(tree, binning, matrix, data)

    def _impurity(self, y: Array, weight: Array | None, root: NDArray[np.floating]) -> float:
        """Return the gini impurity or entropy of all rows, averaged over the targets; `root` is not used."""
        impurities = []
        for column in y.T:
            share = np.bincount(column.astype(np.intp), weight)
            share = share[share > 0] / share.sum()
            impurities.append(1 - share @ share if self.criterion == "gini" else -(share @ log2(share)))
        return float(np.mean(impurities))


@with_parameters
class DecisionTreeRegressor(TreesRegressor, _PrunedByCost):
    """Decision tree for regression.

    The tree splits the rows recursively in two, each time at the split with the largest decrease of the criterion. A
    leaf predicts the mean or the median of its rows.

    {parameters and attributes}

    References
    ----------
    Breiman, Friedman, Olshen & Stone (1984), "Classification and regression trees".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import DecisionTreeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = DecisionTreeRegressor(min_samples_leaf=40).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    """

    criterion: str = parameter(NUMBER_CRITERION, default="squared_error", kw_only=False)
    ccp_alpha: float = parameter(real(0), default=0.0)
    monotonic_cst: PerColumn = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)
    max_bins: int | ArrayLike | Mapping[Any, int] = parameter(BINS, default=65_535)

    _value_dtype: ClassVar[Any] = np.float64

    # Impurity of each node; None for trees taken from forests or other libraries.
    _impurities: Array | None = field(init=False, default=None)

    def _measure(self, data: TrainingData) -> None:
        """Store the impurity of each node on the training rows of all ranks."""
        all_rows = data.of_all_ranks()
        [leaf] = gathered(data.comm, [self._leaves_of(data.X)[:, 0]])
        y = all_rows.y.reshape(all_rows.n_rows, -1)
        self._impurities = node_impurities(self._ensemble, leaf, y, all_rows.sample_weight, self.criterion)

    def _check_impurities(self, arrays: Arrays) -> None:
        """Raise ValueError if the restored impurities do not match the nodes; `arrays` are not used."""
        impurities = self._impurities
        if impurities is not None and (
            impurities.dtype != np.float64 or impurities.shape != self._ensemble.feature.shape
        ):
            raise ValueError("the impurities and the nodes do not match")

    _saved: ClassVar[SavedParts] = (attributes("_impurities", key=_IMPURITIES), Saved(finish=_check_impurities))

    def _impurity(self, y: Array, weight: Array | None, root: NDArray[np.floating]) -> float:
        """Return the mean loss of all rows about the root's values `root`, by `criterion`, averaged over targets."""
        if self.criterion == "poisson":
            losses = xlogy(y, y / root)
        else:
            losses = np.abs(y - root) if self.criterion == "absolute_error" else (y - root) ** 2
        return float(np.average(losses, axis=0, weights=weight).mean())


_LEARNED = (
    "n_features_in_",
    "feature_names_in_",
    "classes_",
    "_encoder",
    "_statistics",
    "_n_plain_features",
    "_n_targets",
    "_has_all_shares",
)


class Members(Sequence[Any]):
    """Sequence of the trees of a forest as estimators, which are created on access and share the forest's memory."""

    def __init__(self, forest: Any) -> None:
        self._forest = forest._snapshot()

    def __len__(self) -> int:
        return self._forest._ensemble.n_trees

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        selected = range(len(self))[index]
        return [self._member(t) for t in selected] if isinstance(selected, range) else self._member(selected)

    def _member(self, t: int) -> Any:
        """Return tree number `t` of the forest as a fitted decision tree, whose clone can be fitted to its bag."""
        model, trees = self._forest, self._forest._ensemble
        tree = single_tree(model, TreeEnsemble.from_trees([trees.tree(t)], [0], trees.baseline, trees.binning))
        if hasattr(model, "_seed"):
            tree.random_state = int(stream_seeds(model._seed, t, t + 1, GROWING)[0])
            # A forest draws features even if it evaluates all of them; a single tree does so for 1.0 but not for None.
            tree.max_features = 1.0 if tree.max_features is None else tree.max_features
        return tree


def template(model: Any) -> Any:
    """Return an unfitted decision tree with the parameters of a fitted forest's trees."""
    kind: Any = DecisionTreeClassifier if is_classifier(model) else DecisionTreeRegressor
    parameters = model._as_fitted()._member_parameters()
    return kind(**{name: parameters[name] for name in kind().get_params() if name in parameters})


def single_tree(model: Any, trees: TreeEnsemble) -> Any:
    """Return a fitted decision tree that predicts with `trees`, with the parameters and table schema of `model`."""
    estimator = template(model)
    vars(estimator).update({name: vars(model)[name] for name in _LEARNED if name in vars(model)})
    estimator._ensemble = trees
    return estimator
