"""Single trees (CART; Breiman, Friedman, Olshen & Stone 1984)."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.utils import Bunch

from fastens.base import TrainingData
from fastens.checked_parameters import with_parameters
from fastens.docstrings import Docs
from fastens.engine.bins.binning import Binning
from fastens.engine.bins.sparse_binned import AnyMatrix, learned_and_binned
from fastens.engine.comm import gathered
from fastens.engine.elementary import log2, xlogy
from fastens.engine.forest.forests import ForestGrower, TreeSample
from fastens.engine.grow.constraints import count_of
from fastens.engine.grow.pruning import prune, pruning_path
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.midpoints import cut_half_way
from fastens.engine.trees.paths import decision_path
from fastens.engine.trees.trees import SearchedTree, Tree, TreeEnsemble
from fastens.forests.bags import OwnRows, growth_seed
from fastens.forests.base_trees import TreesClassifier, TreesRegressor
from fastens.forests.docstrings import CLASS_DOCS, TREE_CLASS_DOCS
from fastens.forests.impurities import node_impurities
from fastens.forests.parameters import (
    CLASS_CRITERION,
    NUMBER_CRITERION,
    TreeParameters,
    takes_equals_at_random,
    tree_rules,
)
from fastens.forests.sklearn_tree import SklearnTree
from fastens.forests.whole_weights import rescaled, weight_to_grow
from fastens.options import Categories
from fastens.parameters import ANYTHING, RANDOM_STATE, one_of, parameter, real, whole
from fastens.table.training_data import AllRows
from fastens.tree_model.column_rules import CATEGORIES
from fastens.tree_model.tree_model import TreeModel

Array = NDArray[np.float64]
_IMPURITIES = "impurities"


@with_parameters
class BaseDecisionTree(TreeParameters, TreeModel):
    """What single trees share: growing the one tree, and its shape."""

    splitter: str = parameter(one_of("best", "random"), default="best")
    random_state: Any = parameter(RANDOM_STATE | whole(0, 2**64 - 1), default=None)

    _takes_several_targets = True
    _takes_parts = True
    _combination = "mean"
    # Whether growth returns what splits were chosen from.
    _with_search = False

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BaseDecisionTree:
        """Train.

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
        """Make this the tree, with the best thresholds half-way between the values of neighbouring rows."""
        if not self._has_random_thresholds:
            tree, binning = cut_half_way(tree, matrix, data.X, binning, resolve_n_jobs(self.n_jobs))
        self._ensemble = TreeEnsemble.from_trees([tree], [0], np.zeros(self._n_outputs()), binning)
        self._send_unseen()
        self._measure(data)

    def _measure(self, data: TrainingData) -> None:
        """Keep what the nodes' values do not tell of the training rows."""

    def _grow(self, X: Any, y: Any, sample_weight: Any) -> tuple[Tree, Binning, AnyMatrix, TrainingData]:
        """The tree before it is pruned, and what it was grown on."""
        data = self._start_fit(X, y, sample_weight)
        self._n_targets = 1 if data.y.ndim == 1 else data.y.shape[1]
        seed = data.comm.gather(growth_seed(self.random_state))[0]
        data = self._learn_statistics(data, seed)
        n_threads = resolve_n_jobs(self.n_jobs)
        kinds, comm = self._is_categorical, data.comm
        binning, matrix = learned_and_binned(data.X, data.sample_weight, self.max_bins, kinds, n_threads, comm)
        everyone = data.of_all_ranks()
        weight, scale = weight_to_grow(self, self._growing_weight(data, everyone))
        own = OwnRows.of(comm, len(data.y))
        n_rows = everyone.n_rows if weight is None else int(np.count_nonzero(weight))
        total = float(n_rows if weight is None else weight.sum())
        rules = tree_rules(self, n_rows, total, in_random_order=takes_equals_at_random(self))
        kind = SearchedTree if self._with_search else Tree
        grower = ForestGrower(matrix, self._targets.to_grow(data.y, comm), rules, n_threads, X=data.X, kind=kind)
        sample = TreeSample(weight, None, seed)
        [tree] = grower.grow([sample if own is None else own.sample(sample)])
        return rescaled(tree, scale), binning, matrix, data

    def _growing_weight(self, data: TrainingData, everyone: AllRows) -> Array | None:
        """The weights, of the rows of all ranks, that the tree is grown with."""
        return everyone.sample_weight

    @property
    def _has_random_thresholds(self) -> bool:
        return self.splitter == "random"

    def _mean(self, X: Any) -> Array:
        """The values of leaves, (n_samples, n_values)."""
        return self._raw(X)

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the number of the leaf that each row falls into, (n_samples,)."""
        return self._leaves(X)[:, 0]

    def decision_path(self, X: ArrayLike) -> csr_matrix:
        """Return the nodes that each row visits: a CSR matrix of shape (n_samples, n_nodes) of ones."""
        rows = self._check_table(X)
        return decision_path(self._ensemble, rows, resolve_n_jobs(self.n_jobs))[0]

    def get_depth(self) -> int:
        """Return the number of splits between the root and the deepest leaf."""
        self._check_fitted()
        return int(self._ensemble.max_depth[0])

    def get_n_leaves(self) -> int:
        """Return the number of leaves."""
        self._check_fitted()
        return int(self._ensemble.n_leaves[0])

    @property
    def tree_(self) -> SklearnTree:
        """The arrays of the tree under scikit-learn's names."""
        self._check_fitted()
        return SklearnTree(self)

    @property
    def max_features_(self) -> int:
        """Number of features that are tried at each split."""
        self._check_fitted()
        return count_of(self._as_fitted().max_features, len(self._column_of))

    def _n_outputs(self) -> int:
        return self._targets.n_values

    def _fitted_names(self) -> tuple[str, ...]:
        return ("_n_targets",)


class _PrunedByCost(BaseDecisionTree):
    """A tree that is pruned where a branch lowers the impurity by little."""

    def cost_complexity_pruning_path(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Bunch:
        """Return the values of `ccp_alpha` at which the tree of these rows loses a branch; the model stays as it is.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.

        Returns
        -------
        Bunch
            ``ccp_alphas``, ascending from 0, and ``impurities``, those of the leaves that then remain.
        """
        model = clone(self)
        tree, _, _, data = model._grow(X, y, sample_weight)
        root = model._impurity(data.y.reshape(len(data.y), -1), data.sample_weight, tree.value[0])
        leaves = root - tree.gain.sum(dtype=np.float64) / np.float64(tree.weight[0])
        ccp_alphas, impurities = pruning_path(tree, max(leaves, 0.0))
        return Bunch(ccp_alphas=ccp_alphas, impurities=impurities)

    def _impurity(self, y: Array, weight: Array | None, root: NDArray[np.floating]) -> float:
        """The criterion of all rows together, the mean over the targets; `root` is the value of the root."""
        raise NotImplementedError


@with_parameters
class DecisionTreeClassifier(TreesClassifier, _PrunedByCost):
    """A decision tree for classification.

    The tree splits the rows in two again and again, each time where that lowers the impurity of the classes most; a
    leaf predicts the shares of the classes of its rows.

    {parameters and attributes}

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
    class_weight: Any = parameter(ANYTHING, default=None)
    ccp_alpha: float = parameter(real(0), default=0.0)
    monotonic_cst: Any = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)
    max_bins: int = parameter(whole(2, 65_535), default=65_535)

    _docs: ClassVar[Docs] = CLASS_DOCS | TREE_CLASS_DOCS

    def _impurity(self, y: Array, weight: Array | None, root: NDArray[np.floating]) -> float:
        found = []
        for column in y.T:
            share = np.bincount(column.astype(np.intp), weight)
            share = share[share > 0] / share.sum()
            found.append(1 - share @ share if self.criterion == "gini" else -(share @ log2(share)))
        return float(np.mean(found))


@with_parameters
class DecisionTreeRegressor(TreesRegressor, _PrunedByCost):
    """A decision tree for regression.

    The tree splits the rows in two again and again, each time where that lowers the criterion most; a leaf predicts the
    mean or the median of its rows.

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
    monotonic_cst: Any = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)
    max_bins: int = parameter(whole(2, 65_535), default=65_535)

    _value_dtype: ClassVar[Any] = np.float64

    # The impurity of each node; None of trees that were not grown here by themselves.
    _impurities: Array | None = field(init=False, default=None)

    def _measure(self, data: TrainingData) -> None:
        everyone = data.of_all_ranks()
        [leaf] = gathered(data.comm, [self._leaves_of(data.X)[:, 0]])
        y = everyone.y.reshape(everyone.n_rows, -1)
        self._impurities = node_impurities(self._ensemble, leaf, y, everyone.sample_weight, self.criterion)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        found = super()._fitted_arrays()
        return found if self._impurities is None else found | {_IMPURITIES: self._impurities}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        found = arrays.get(_IMPURITIES)
        if found is not None and (found.dtype != np.float64 or found.shape != self._ensemble.feature.shape):
            raise ValueError("the impurities and the nodes do not fit together")
        self._impurities = found

    def _impurity(self, y: Array, weight: Array | None, root: NDArray[np.floating]) -> float:
        if self.criterion == "poisson":
            losses = xlogy(y, y / root)
        else:
            losses = np.abs(y - root) if self.criterion == "absolute_error" else (y - root) ** 2
        return float(np.average(losses, axis=0, weights=weight).mean())
