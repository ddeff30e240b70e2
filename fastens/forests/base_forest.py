"""What all forests share: bags, growth, predictions of the trees one by one or together, and their uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from fastens.engine.bins.sparse_binned import AnyMatrix, binned, learned_and_binned
from fastens.engine.comm import LOCAL, gathered
from fastens.engine.forest.forests import ForestGrower
from fastens.engine.grow.growth import count_of, prune
from fastens.engine.parts import let_go
from fastens.engine.rows.sampling import Bootstrap, checked_seed, content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import decision_path
from fastens.engine.trees.tree_store import TreeStore
from fastens.engine.trees.trees import MeasuredTree, Tree
from fastens.forests.bags import Bags, OwnRows, Reweight, Samples, Weighting, check_continued, draw_seed, plan_draws
from fastens.forests.out_of_bag import OutOfBag, deviations, jackknife_variances, permutation_importance, proximities
from fastens.forests.parameters import (
    NUMBER_OF_FEATURES,
    TreeParameters,
    check_drawing,
    check_same_drawing,
    rescaled,
    tree_rules,
    weight_to_grow,
)
from fastens.forests.posterior_averaging import AVERAGING, Averaging
from fastens.forests.random_splits import NOT_ALIKE, Members, mean_importances, rows_in_bags, rows_of_bags, template
from fastens.inspection.plotting import COUNT, check_position
from fastens.params.estimator import with_parameters
from fastens.params.options import Categories
from fastens.params.rules import ANYTHING, FLAG, FUNCTION, NONE, parameter, real, whole
from fastens.posterior.averaging import Prunings, TreeAverager
from fastens.table.training_data import AllRows, TrainingData, multiplied, warn_of_duplicates
from fastens.tree_model.tree_model import CATEGORIES, TreeModel, check_same_rules, column_chances

Array = NDArray[np.float64]
_KEPT_ROWS = "kept_rows"


@with_parameters
class BaseForest(TreeParameters, TreeModel):
    """Trees on bags of the rows, whose mean is the prediction."""

    n_estimators: int = parameter(whole(1), default=100, kw_only=False)
    max_features_per_tree: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=None)
    bootstrap: Any = parameter(FLAG, default=True)
    max_samples: int | float | None = parameter(whole(1) | real(0, open_low=True) | NONE, default=None)
    oob_score: bool | Callable[..., float] = parameter(FLAG | FUNCTION, default=False)
    warm_start: bool = parameter(FLAG, default=False)
    averaging: Any = parameter(AVERAGING, default=None)
    ccp_alpha: float = parameter(real(0), default=0.0)
    monotonic_cst: Any = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)

    _combination = "mean"
    _takes_several_targets = True
    _takes_parts = True
    # The places in `fit` of the rows that have a weight; None for all. No rows: not all trees were grown by `fit`.
    _kept_rows: NDArray[np.intp] | None = field(init=False, default=None)
    _has_random_thresholds: ClassVar[bool] = False
    _averaging_kind: ClassVar[type[Averaging]]

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BaseForest:
        """Train.

        Parameters
        ----------
        {X}
        y : array of shape (n_samples,) or (n_samples, n_targets), or the name of a column
            Targets.
        sample_weight : array of shape (n_samples,), optional
            A weight of 2 is the same as the row given twice, 0 as the row left out. With bootstrap, weights are the
            chances to be drawn.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_drawing(self.bootstrap, self.max_samples, self.oob_score)
        self._averaging_kind.check(self)
        continues = self._continues()
        data = self._check_validation(X, y, sample_weight) if continues else self._start_forest(X, y, sample_weight)
        everyone = data.of_all_ranks()
        with self._over(LOCAL):  # what follows from the targets of all ranks, each finds by itself
            return self._fit_bags(data, everyone, continues=continues)

    def _fit_bags(self, data: TrainingData, everyone: AllRows, *, continues: bool) -> BaseForest:
        """Train on this rank's rows."""
        n_threads = resolve_n_jobs(self.n_jobs)
        before = (self._bootstrap, self._kept_rows) if continues else None
        weight = self._plan_bags(data, everyone, n_threads)
        self._kept_rows = everyone.rows if before is None else rows_of_bags(self, everyone, *before)
        data = (self._learn_same_statistics if continues else self._learn_statistics)(data, self._seed)
        if continues:
            binning = self._ensemble.binning
            matrix = binned(binning, data.X, n_threads, data.comm)
        else:
            kinds = self._is_categorical
            if not (self._has_random_thresholds or self.averaging or getattr(self, "keep_leaves", False)):
                let_go(data.X, n_passes=2)  # to learn bins, and to bin
            binning, matrix = learned_and_binned(data.X, data.sample_weight, self.max_bins, kinds, n_threads, data.comm)
        averager = self._make_averager(everyone, matrix, continues=continues)
        store = TreeStore(binning, self._n_outputs(), self.n_estimators)
        if continues:
            store.keep(self._ensemble)
        first = store.n_trees
        self._grow(store, (data, everyone), matrix, weight, averager)
        self._ensemble = store.ensemble()
        self._send_unseen()
        self._keep_statistics(averager, first)
        self._out_of_bag = OutOfBag.measure(self, matrix, everyone.with_targets()) if self.oob_score else None
        self._keep_leaf_rows(data, everyone)
        return self

    def _continues(self) -> bool:
        """Whether trees are added to those of the last fit."""
        if not self.warm_start or not hasattr(self, "_ensemble"):
            return False
        check_continued(self.n_estimators, self._ensemble.n_trees, "trees")
        check_same_drawing(self.bootstrap, self._bootstrap)
        check_same_rules(self)
        return True

    def _start_forest(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        self.__dict__.pop("_ensemble", None)
        self._out_of_bag = None
        data = self._start_fit(X, y, sample_weight)
        self._n_targets = 1 if data.y.ndim == 1 else data.y.shape[1]
        self._seed: int = data.comm.gather(draw_seed(self.random_state))[0]
        return data

    def _plan_bags(self, data: TrainingData, everyone: AllRows, n_threads: int) -> Weighting:
        """Plan how rows are drawn; return the rows' weights or, of drawn rows, the function from counts to weights."""
        self._bootstrap: Bootstrap | None = None
        factors, weight = self._row_factors(everyone), everyone.sample_weight
        if not self.bootstrap:
            return multiplied(weight, factors)
        [hashes] = gathered(data.comm, [content_hashes(data.X, data.y, n_threads)])
        if self.oob_score:
            is_here = data.comm.size == 1
            warn_of_duplicates(hashes, data.X if is_here else None, everyone.y)
        self._bootstrap = plan_draws(self.max_samples, hashes, weight, factors, self._strata(everyone))
        return self._reweighting(everyone)

    def _keep_leaf_rows(self, data: TrainingData, everyone: AllRows) -> None:
        """Store the rows of each leaf, where predictions need them."""

    def _row_factors(self, data: AllRows) -> Array | None:
        """Factors of the weights of rows, by their classes."""
        return None

    def _reweighting(self, data: AllRows) -> Reweight | None:
        return None

    def _strata(self, data: AllRows) -> tuple[NDArray[np.intp], bool] | None:
        """The stratum of each row, and whether as many rows are drawn from each; None where all rows are one."""
        return None

    def _bags(self) -> Bags:
        n, fitted = len(self._column_of), self._as_fitted()
        return Bags(self._seed, self._bootstrap, n, count_of(fitted.max_features_per_tree, n), column_chances(fitted))

    def _grow(
        self,
        store: TreeStore,
        data: tuple[TrainingData, AllRows],
        matrix: AnyMatrix,
        weight: Weighting,
        averager: TreeAverager | None,
    ) -> None:
        """Add trees to those of the store; the data are this rank's, and all ranks'."""
        here, everyone = data
        n_threads, n_rows, bags = resolve_n_jobs(self.n_jobs), everyone.n_rows, self._bags()
        kind = MeasuredTree if averager is not None and averager.needs_squares else Tree
        grown, scale = weight_to_grow(self, weight)
        rules = tree_rules(self, n_rows, Samples(bags, grown, 0, 1).total_weight(n_rows), in_random_order=True)
        target, own = self._targets.to_grow(here.y, here.comm), OwnRows.of(here.comm, len(here.y))
        grower = ForestGrower(matrix, target, rules, n_threads, X=here.X, kind=kind)
        samples = Samples(bags, weight, store.n_trees, self.n_estimators, own)
        finish: Callable[[int, Tree], Tree] = lambda number, tree: tree  # noqa: E731
        if averager is not None and self._averaging is not None:
            finish = self._averaging.finisher(self, averager, here, samples, store.n_trees)

        def take(number: int, tree: Tree) -> None:
            tree = finish(number, prune(rescaled(tree, scale), self.ccp_alpha))
            store.add(number, replace(tree, value=self._targets.of_leaves(tree.value)))

        grower.grow_into(take, Samples(bags, grown, store.n_trees, self.n_estimators, own), store.n_trees)

    def _make_averager(self, data: AllRows, matrix: AnyMatrix, *, continues: bool) -> TreeAverager | None:
        if continues:
            self._averaging_kind.check_same(self, self._averaging)
        else:
            is_averaged = self.averaging is not None
            self._averaging: Averaging | None = self._averaging_kind(self, data, matrix) if is_averaged else None
        return None if self._averaging is None else self._averaging.averager(self, data, matrix)

    def _keep_statistics(self, averager: TreeAverager | None, first: int) -> None:
        if averager is not None and self._averaging is not None:
            self._averaging = self._averaging.with_more(averager.statistics(first, self._ensemble.n_trees))

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
            Without bootstrap, or where a warm start went on with other rows or another way of drawing.
        """
        self._check_fitted()
        if self._bootstrap is None:
            raise ValueError("bootstrap must not be False: there are bags of drawn rows only with it.")
        if self._kept_rows is not None and not len(self._kept_rows):
            raise ValueError(NOT_ALIKE)
        tree = check_position("tree", tree, len(self))
        return self._bags().counts(tree, tree + 1)[0].astype(np.int64)

    # Predict --------------------------------------------------

    def _mean(self, X: Any) -> Array:
        """The mean over the trees of the leaves' values, (n_samples, n_values)."""
        raw = self._raw(X)
        raw /= self._ensemble.n_trees
        return raw

    def _contribution_scale(self) -> float:
        return 1 / self._ensemble.n_trees

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in the decrease of impurity, the mean over the trees, shape (n_features,)."""
        self._check_fitted()
        return mean_importances(self._ensemble, self._column_of, self.n_features_in_)

    def _part_importances(self) -> Array:
        n_parts = len(self._column_of)
        return mean_importances(self._ensemble, np.arange(n_parts), n_parts)

    @property
    def estimators_(self) -> Members:
        """The trees, each as an estimator of its own that is made when asked for.

        Its `random_state` is the seed that it was grown with: a copy that is fitted on its bag grows like it.
        """
        self._check_fitted()
        return Members(self)

    @property
    def estimator(self) -> Any:
        """A single tree with the parameters of the forest, not fitted."""
        return template(self)

    @property
    def estimators_samples_(self) -> list[NDArray[np.int32]]:
        """The rows of each tree's bag, by their places in `fit`, each as often as it was drawn."""
        self._check_fitted()
        if self._kept_rows is not None and not len(self._kept_rows):
            raise AttributeError("estimators_samples_ is known only of trees that this model's fit grew, on one table")
        n_rows = int(self._ensemble.n_samples[0]) if self._bootstrap is None else len(self._bootstrap.order)
        rows = np.arange(n_rows) if self._kept_rows is None else self._kept_rows
        return rows_in_bags(self._bags(), len(self), rows)

    def __len__(self) -> int:
        """The number of trees."""
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        """A tree, or a list of those of a slice, as `estimators_` has them."""
        return self.estimators_[index]

    def _each_tree(self, X: Any) -> Iterator[NDArray[np.floating]]:
        """The values of one tree after the other, each (n_samples, n_values)."""
        leaves, trees = self._leaves(X), self._ensemble
        return (trees.value[first + leaves[:, tree]] for tree, first in enumerate(trees.node_offsets[:-1].tolist()))

    def predict_all(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Yield the classes or numbers that each tree predicts, one tree after the other."""
        each, targets = self._each_tree(X), self._targets
        return (targets.decoded(targets.answers(values)) for values in each)

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
        rows = self._check_table(X)
        return decision_path(self._ensemble, rows, resolve_n_jobs(self.n_jobs))

    # Uncertainty --------------------------------------------------

    def predict_spread(self, X: ArrayLike) -> Any:
        """Return the standard deviation of the trees' predictions.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples,) for numbers, (n_samples, n_classes) for probabilities; an axis more, or a list, with
        several targets
        """
        each = self._each_tree(X)
        spread = deviations(map(self._targets.parts, each))
        return spread if len(spread) > 1 else spread[0]

    def predict_variance(self, X: ArrayLike) -> Array:
        """Return the variance of the prediction over training sets, by the infinitesimal jackknife.

        It is that of the mean over infinitely many trees: the covariance of the number of times each training row is
        drawn with what the trees predict, squared and summed, less what the finite number of trees adds; never below 0.
        Several times as many trees as rows of training keep its own noise small. It sees what each row adds by itself,
        and is too low where leaves hold few rows: by a third or more at the defaults, hardly with a `max_samples` of a
        fifth of the rows. A row of weight 2 is one observation here, which is drawn more often, and not two.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
            For two classes, the variance of the probability of the second; for more, of each; targets side by side.

        Raises
        ------
        ValueError
            Without bootstrap.

        References
        ----------
        S. Wager, T. Hastie, B. Efron (2014). Confidence intervals for random forests: the jackknife and the
        infinitesimal jackknife. JMLR 15, eq. 5 and 7.
        """
        self._check_fitted()
        if self._bootstrap is None:
            raise ValueError("bootstrap must not be False: the variance follows from which rows were drawn.")
        leaves, bags = self._leaves(X), (self.in_bag(tree) for tree in range(self._ensemble.n_trees))
        found = jackknife_variances(self._ensemble, leaves, bags, float(self._bootstrap.draws[-1]))
        return found[:, 0] if found.shape[1] == 1 else found

    def proximity(self, X: ArrayLike, others: ArrayLike | None = None, *, n_neighbors: int | None = None) -> csr_matrix:
        """Return in what share of the trees two rows fall into the same leaf (Breiman 2001).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows.
        others : table of shape (n_others, n_features), optional
            Rows to compare them with; X itself by default.
        n_neighbors : int, optional
            Keep only so many of the largest proximities of each row; all that are not 0 by default.

        Returns
        -------
        CSR matrix of shape (n_samples, n_others), each row's largest proximities first
        """
        (COUNT | NONE).check("n_neighbors", n_neighbors)
        return proximities(self, X, others, n_neighbors)

    # Out of bag --------------------------------------------------

    def _measured(self) -> OutOfBag:
        """What was measured out of bag; AttributeError, so that there are no such attributes, where nothing was."""
        self._check_fitted()
        if self._out_of_bag is None:
            raise AttributeError("there are out-of-bag predictions only where fit had oob_score=True")
        return self._out_of_bag

    @property
    def oob_score_(self) -> float:
        """Score out of bag, with `oob_score`."""
        return self._measured().score

    @property
    def oob_scores_(self) -> Array:
        """Score of each tree on the rows out of its bag, (n_estimators,), with `oob_score`; NaN without such rows."""
        return self._measured().tree_scores

    @property
    def oob_error_curve_(self) -> Array:
        """Share of rows wrong, or mean squared error, out of bag after each tree, (n_estimators,), with `oob_score`."""
        return self._measured().error_curve

    def oob_permutation_importance(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Bunch:
        """Return by how much each tree's out-of-bag error grows when the values of a feature are permuted.

        The rows that a tree was not grown on go through it with the values of one feature shuffled among them; only the
        parts of their ways that meet the feature are walked again. For classes the error is the share of rows that the
        tree gets wrong, for numbers the mean squared error (the sum over several targets).

        Parameters
        ----------
        X, y, sample_weight
            The rows of `fit`, in their order.

        Returns
        -------
        Bunch
            ``importances_mean`` of shape (n_features,): the mean over the trees; ``importances_std``: the standard
            deviation between trees; ``importances_standard_error``: that of the mean; ``importances`` of shape
            (n_features, n_estimators).

        References
        ----------
        Breiman (2001), "Random forests", section 10.
        """
        return permutation_importance(self._as_fitted(), X, y, sample_weight)

    # Averages over prunings --------------------------------------------------

    def reweight(self, **prior: Any) -> Any:
        """Average over the prunings by another prior, without growing: as if the forest had been fitted with it.

        What was measured out of bag is forgotten.

        Parameters
        ----------
        **prior
            New values of options of `PosteriorAverage`, but for `evidence`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where `averaging` was None in `fit`, or for other options, or values that break their rules.
        """
        self._check_fitted()
        if self._averaging is None:
            raise ValueError("averaging must not be None in fit: the trees are not averaged over their prunings.")
        self._averaging.reweight(self, prior)
        return self

    def _posteriors(self) -> Iterator[Prunings]:
        self._check_fitted()
        if self._averaging is None:
            raise AttributeError("there is a posterior of prunings only where averaging was not None in fit")
        return self._averaging.posteriors(self._as_fitted())

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

    def _n_outputs(self) -> int:
        return self._targets.n_values

    def _fitted_names(self) -> tuple[str, ...]:
        return ("_n_targets", "_seed")

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        found = super()._fitted_arrays()
        for part in (self._bootstrap, self._averaging, self._out_of_bag):
            found |= {} if part is None else part.to_arrays()
        return found if self._kept_rows is None else found | {_KEPT_ROWS: self._kept_rows}

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        self._seed = checked_seed(self._seed)
        self._bootstrap = Bootstrap.from_arrays(arrays) if self.bootstrap else None
        self._out_of_bag = OutOfBag.from_arrays(arrays, self._ensemble.n_outputs)
        self._averaging = self._averaging_kind.from_arrays(self, arrays)
        self._kept_rows = arrays.get(_KEPT_ROWS)
