"""What all forests share: bags, growing, and predictions of the trees, one by one or together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix

from fastens.base import TrainingData
from fastens.engine.bins.binned import BinnedMatrix
from fastens.engine.bins.binning import learn_and_bin
from fastens.engine.forest.forests import ForestGrower
from fastens.engine.grow.constraints import count_of
from fastens.engine.grow.pruning import prune
from fastens.engine.rows.sampling import Bootstrap, content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.tree_store import TreeStore
from fastens.engine.trees.trees import MeasuredTree, Tree
from fastens.forests.bags import Bags, DrawingRules, Reweight, Samples, Weighting
from fastens.forests.base_trees import RULES as TREE_RULES
from fastens.forests.base_trees import BaseTrees
from fastens.forests.forest_members import Members
from fastens.forests.forest_uncertainty import ForestUncertainty
from fastens.forests.posterior_averaging import AVERAGING, Averaging
from fastens.parameters import FLAG, FUNCTION, NONE, real, whole
from fastens.posterior.averaging import TreeAverager
from fastens.posterior.prunings import Prunings
from fastens.table.sample_weights import multiplied
from fastens.tree_model.column_rules import column_chances
from fastens.warn import warn

Array = NDArray[np.float64]

RULES = {
    **TREE_RULES,
    "n_estimators": whole(1),
    "max_features_per_tree": TREE_RULES["max_features"],
    "bootstrap": FLAG,
    "max_samples": whole(1) | real(0, open_low=True) | NONE,
    "oob_score": FLAG | FUNCTION,
    "warm_start": FLAG,
    "averaging": AVERAGING,
}


class BaseForest(ForestUncertainty, BaseTrees):
    """Trees on bags of the rows."""

    averaging: Any
    _averaging_kind: ClassVar[type[Averaging]]
    _averaging: Averaging | None = None
    _bootstrap: Bootstrap | None
    _seed: int

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BaseForest:
        """Train.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            NumPy array, pandas, polars or Arrow table, or SciPy sparse matrix; or paths of Parquet or CSV files, a
            stream or a lazy frame, which are read in batches. NaN and None are missing values.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out. With bootstrap, weights are the
            chances to be drawn.

        Returns
        -------
        self
        """
        self._check_parameters()
        self._check_drawing()
        self._averaging_kind.check(self)
        goes_on = self._goes_on()
        data = self._check_validation(X, y, sample_weight) if goes_on else self._start_forest(X, y, sample_weight)
        n_threads = resolve_n_jobs(self.n_jobs)
        weight = self._plan_bags(data, n_threads)
        data = (self._learn_same_statistics if goes_on else self._learn_statistics)(data, self._seed)
        if goes_on:
            binning = self._ensemble.binning
            matrix = binning.transform(data.X, n_threads)
        else:
            is_categorical = self._is_categorical
            binning, matrix = learn_and_bin(data.X, data.sample_weight, self.max_bins, is_categorical, n_threads)
        averager = self._make_averager(data, matrix, goes_on=goes_on)
        store = TreeStore(binning, self._n_outputs(), self.n_estimators)
        if goes_on:
            store.keep(self._ensemble)
        first = store.n_trees
        try:
            self._grow(store, data, matrix, weight, averager)
        finally:
            # Interrupted: what has been grown so far is a forest.
            if store.n_trees:
                self._ensemble = store.ensemble()
                if averager is not None and self._averaging is not None:
                    self._averaging.add(averager.statistics(first, self._ensemble.n_trees))
        if self.oob_score:
            self._set_out_of_bag(matrix, data, data.n_given)
        self._keep_leaf_rows(data)
        return self

    def _check_drawing(self) -> None:
        """Raise ValueError for parameters that do not fit together."""
        if self.bootstrap:
            return
        if self.max_samples is not None:
            raise ValueError(f"max_samples must be None without bootstrap; got {self.max_samples!r}.")
        if self.oob_score:
            raise ValueError("oob_score must be False without bootstrap, which leaves no row out of a bag; got True.")

    def _goes_on(self) -> bool:
        """Whether trees are added to those there are."""
        if not self.warm_start or not hasattr(self, "_ensemble"):
            return False
        n_trees = self._ensemble.n_trees
        if self.n_estimators < n_trees:
            raise ValueError(
                f"n_estimators must be at least the {n_trees} trees that there are, with warm_start=True; "
                f"got {self.n_estimators}."
            )
        if self.n_estimators == n_trees:
            warn("Warm-start fitting without increasing n_estimators does not fit new trees.")
        return True

    def _start_forest(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        self.__dict__.pop("_ensemble", None)
        self._out_of_bag = None
        data = self._start_fit(X, y, sample_weight)
        self._n_targets = 1 if data.y.ndim == 1 else data.y.shape[1]
        self._seed = self._draw_seed()
        return data

    def _plan_bags(self, data: TrainingData, n_threads: int) -> Weighting:
        """Decide how rows are drawn; return the rows' weights or, of rows that are drawn, what makes them of counts."""
        factors = self._row_factors(data)
        if not self.bootstrap:
            self._bootstrap = None
            return multiplied(data.sample_weight, factors)
        rules = DrawingRules(self.bootstrap if isinstance(self.bootstrap, str) else None, self.max_samples)
        hashes = content_hashes(data.X, data.y, n_threads)
        self._bootstrap = rules.plan(hashes, data.sample_weight, factors, self._strata(data.y))
        return self._reweighting(data)

    def _keep_leaf_rows(self, data: TrainingData) -> None:
        """Remember the rows of each leaf, where predictions need them."""

    def _has_random_thresholds(self) -> bool:
        return False

    def _row_factors(self, data: TrainingData) -> Array | None:
        """Factors of the weights of rows, by their classes."""
        return None

    def _reweighting(self, data: TrainingData) -> Reweight | None:
        return None

    def _strata(self, y: Array) -> NDArray[np.intp] | None:
        return None

    def _bags(self) -> Bags:
        n_features = len(self._column_of)
        n_drawn = count_of(self.max_features_per_tree, n_features)
        return Bags(self._seed, self._bootstrap, n_features, n_drawn, column_chances(self))

    def _grow(
        self,
        store: TreeStore,
        data: TrainingData,
        matrix: BinnedMatrix,
        weight: Weighting,
        averager: TreeAverager | None,
    ) -> None:
        """Add trees to those there are."""
        n_threads, n_rows, bags = resolve_n_jobs(self.n_jobs), len(data.y), self._bags()
        of_first = Samples(bags, weight, 0, 1)[0].weight
        total = float(n_rows if of_first is None else of_first.sum())
        kind = MeasuredTree if averager is not None and averager.needs_squares else Tree
        rules = self._tree_rules(n_rows, total)
        grower = ForestGrower(matrix, self._target(data.y), rules, n_threads, X=data.X, kind=kind)
        samples = Samples(bags, weight, store.n_trees, self.n_estimators)
        finish: Callable[[int, Tree], Tree] = lambda number, tree: tree  # noqa: E731
        if averager is not None and self._averaging is not None:
            finish = self._averaging.finisher(self, averager, data, samples, store.n_trees)

        def take(number: int, tree: Tree) -> None:
            store.add(number, finish(number, prune(tree, self.ccp_alpha)))

        grower.grow_into(take, samples, store.n_trees)

    def _make_averager(self, data: TrainingData, matrix: BinnedMatrix, *, goes_on: bool) -> TreeAverager | None:
        if self.averaging is None:
            self._averaging = None
            return None
        if not goes_on:
            self._averaging = self._averaging_kind(data, matrix)
        elif self._averaging is None:
            raise ValueError(
                "averaging must be None with warm_start, as it was for the trees that there are; "
                f"got {self.averaging!r}."
            )
        return self._averaging.averager(self, data, matrix)

    # What was drawn --------------------------------------------------

    def in_bag(self, tree: int) -> NDArray[np.int64]:
        """Return how often each training row was drawn for a tree; nothing is stored, they are drawn again.

        Parameters
        ----------
        tree : int
            Which one.

        Returns
        -------
        int64 array of shape (n_rows,)
            A count for each row of `fit` that had a weight above 0.

        Raises
        ------
        ValueError
            Without bootstrap.
        """
        if self._bootstrap is None:
            raise ValueError("bootstrap must not be False: there are bags of drawn rows only with it.")
        return self._bags().counts(tree, tree + 1)[0].astype(np.int64)

    # The trees one by one --------------------------------------------------

    @property
    def estimators_(self) -> Members:
        """The trees, each as an estimator of its own that is made when asked for."""
        self._check_fitted()
        return Members(self)

    def _each_tree(self, X: Any) -> Iterator[NDArray[np.floating]]:
        """The values of one tree after the other, each (n_samples, n_values)."""
        trees, leaves = self._ensemble, self._leaves(X)
        for tree, first in enumerate(trees.node_offsets[:-1].tolist()):
            yield trees.value[first + leaves[:, tree]]

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the number of the leaf that each row falls into in each tree, (n_samples, n_estimators)."""
        return self._leaves(X)

    def decision_path(self, X: ArrayLike) -> tuple[csr_matrix, NDArray[np.int64]]:
        """Return the nodes that each row visits.

        Returns
        -------
        indicator : CSR matrix of shape (n_samples, n_nodes)
            1 where a row visits a node; nodes are counted over all trees.
        n_nodes_ptr : array of shape (n_estimators + 1,)
            The columns ``n_nodes_ptr[t]:n_nodes_ptr[t + 1]`` are the nodes of tree t.
        """
        return self._paths(X)

    # Averages over prunings --------------------------------------------------

    def reweight(self, **prior: Any) -> Any:
        """Average over the prunings by another prior, without growing: as if the forest had been fitted with it.

        What was measured out of bag is forgotten.

        Parameters
        ----------
        **prior
            New values of keys of `averaging`, but for "evidence".

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where `averaging` was None in `fit`, or for other keys, or values that break their rules.
        """
        self._check_fitted()
        if self._averaging is None:
            raise ValueError("averaging must not be None in fit: the trees are not averaged over their prunings.")
        before = self.averaging
        if "evidence" in prior:
            raise ValueError(f"reweight must not change evidence, which needs the rows; got {prior['evidence']!r}.")
        self.averaging = {**(before if isinstance(before, Mapping) else {}), **prior}
        try:
            self._averaging.check(self)
        except ValueError:
            self.averaging = before
            raise
        self._ensemble = self._ensemble.with_values(self._averaging.node_values(self))
        self._out_of_bag = None
        return self

    def _posteriors(self) -> Iterator[Prunings]:
        self._check_fitted()
        if self._averaging is None:
            raise AttributeError("there is a posterior of prunings only where averaging was not None in fit")
        return self._averaging.posteriors(self)

    @property
    def log_evidence_(self) -> Array:
        """Log of the probability of each tree's rows over all its prunings, (n_estimators,); with `averaging`.

        Of counts (criterion="poisson") without the term of their factorials, unless the evidence is out of bag.
        """
        return np.array([prunings.log_evidence[0] for prunings in self._posteriors()])

    @property
    def expected_n_leaves_(self) -> Array:
        """The expected number of leaves of each tree, over all its prunings, (n_estimators,); with `averaging`."""
        return np.array([prunings.expected_leaves() for prunings in self._posteriors()])

    # Saving --------------------------------------------------

    def _fitted_names(self) -> tuple[str, ...]:
        return (*super()._fitted_names(), "_seed")

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        drawn = {} if self._bootstrap is None else self._bootstrap.to_arrays()
        averaging = {} if self._averaging is None else self._averaging.to_arrays()
        return super()._fitted_arrays() | drawn | self._oob_arrays() | averaging

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        self._bootstrap = Bootstrap.from_arrays(arrays) if self.bootstrap else None
        self._restore_oob(arrays)
        self._averaging = self._averaging_kind.from_arrays(self, arrays)
