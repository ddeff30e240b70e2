"""Base class of forests: bagging, growth, predictions of the forest and of its trees, and their uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from fastens.base import Capabilities
from fastens.engine.bins.binning import AnyMatrix, binned, learn_and_bin
from fastens.engine.comm import LOCAL, gathered
from fastens.engine.forest.forests import ForestGrower
from fastens.engine.grow.growth import count_of, prune
from fastens.engine.parts import release
from fastens.engine.rows.sampling import Bootstrap, content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import decision_path
from fastens.engine.trees.trees import MeasuredTree, Tree, TreeEnsemble, TreeStore
from fastens.forests.bags import (
    NOT_ALIKE,
    Bags,
    LocalRows,
    Reweight,
    Samples,
    Strata,
    Weighting,
    check_continued,
    check_seed,
    draw_seed,
    plan_draws,
    rows_in_bags,
    rows_of_bags,
)
from fastens.forests.out_of_bag import OutOfBag, deviations, jackknife_variances, permutation_importance, proximities
from fastens.forests.parameters import (
    NUMBER_OF_FEATURES,
    TreeParameters,
    check_drawing,
    check_same_drawing,
    forest_parameters,
    gain_shares,
)
from fastens.forests.posterior_averaging import AUTO, AVERAGING, OUT_OF_BAG, POSTERIOR, Averaging
from fastens.forests.tree import Members, template
from fastens.inspection.plotting import COUNT, check_position
from fastens.modelfile.saving import Arrays, Saved, SavedParts, attributes
from fastens.params.estimator import with_parameters
from fastens.params.options import Categories, PosteriorAverage
from fastens.params.rules import ANYTHING, FLAG, FUNCTION, NONE, parameter, real, whole
from fastens.params.types import Drawing, PerColumn
from fastens.posterior.averaging import Prunings, TreeAverager
from fastens.table.training_data import AllRows, TrainingData, multiplied, warn_of_duplicates
from fastens.tree_model.saving import bins_of_features
from fastens.tree_model.tree_model import CATEGORIES, TreeModel, check_same_rules, column_chances

Array = NDArray[np.float64]
_KEPT_ROWS = "kept_rows"


@with_parameters
class BaseForest(TreeParameters, TreeModel):
    """Base class of forests, whose prediction is the mean over trees grown on bags of the rows."""

    n_estimators: int = parameter(whole(1), default=100, kw_only=False)
    max_features_per_tree: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=None)
    bootstrap: Drawing = parameter(FLAG, default=True)
    max_samples: int | float | None = parameter(whole(1) | real(0, open_low=True) | NONE, default=None)
    oob_score: bool | Callable[..., float] = parameter(FLAG | FUNCTION, default=False)
    warm_start: bool = parameter(FLAG, default=False)
    averaging: str | PosteriorAverage | None = parameter(AVERAGING, default=None)
    ccp_alpha: float = parameter(real(0), default=0.0)
    monotonic_cst: PerColumn = parameter(ANYTHING, default=None)
    categories: Categories | None = parameter(CATEGORIES, default=None)

    _combination = "mean"
    _takes_several_targets = True
    _capabilities = Capabilities(supports_distributed_fit=True)
    # Positions in `fit` of the rows with a weight above 0; None for all rows. Empty if the bags cannot be drawn again.
    _kept_rows: NDArray[np.intp] | None = field(init=False, default=None)
    _has_random_thresholds: ClassVar[bool] = False
    _averaging_kind: ClassVar[type[Averaging]]

    # Fit --------------------------------------------------

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> BaseForest:
        """Fit the model to a training set.

        Parameters
        ----------
        {X}
        y : array of shape (n_samples,) or (n_samples, n_targets), or the name of a column
            Targets.
        sample_weight : array of shape (n_samples,), optional
            Sample weights. A weight of 2 is equivalent to repeating the row, and a weight of 0 to leaving it out. With
            `bootstrap`, rows are drawn with probabilities proportional to their weights.

        Returns
        -------
        self
        """
        self._check_parameters()
        check_drawing(self.bootstrap, self.max_samples, self.oob_score)
        if self._is_averaged:
            self._averaging_kind.check(self)
        continues = self._continues()
        data = self._check_validation(X, y, sample_weight) if continues else self._start_forest(X, y, sample_weight)
        all_rows = data.of_all_ranks()
        with self._using_comm(LOCAL):  # each rank has the targets of all ranks, so nothing needs to be reduced
            return self._fit_bags(data, all_rows, continues=continues)

    def _fit_bags(self, data: TrainingData, all_rows: AllRows, *, continues: bool) -> BaseForest:
        """Draw the bags and grow the trees on this rank's rows, `data`, given the targets of all ranks, `all_rows`.

        If `continues` is True, the trees of the last fit are kept.
        """
        n_threads = resolve_n_jobs(self.n_jobs)
        before = (self._bootstrap, self._kept_rows) if continues else None
        weight = self._plan_bags(data, all_rows, n_threads)
        self._kept_rows = all_rows.rows if before is None else rows_of_bags(self, all_rows, *before)
        data = (self._learn_same_statistics if continues else self._learn_statistics)(data, self._seed)
        if continues:
            binning = self._ensemble.binning
            matrix = binned(binning, data.X, n_threads, data.comm)
        else:
            kinds = self._is_categorical
            reads_left_out = self._is_averaged and self._options("averaging").evidence == OUT_OF_BAG
            if not (self._has_random_thresholds or reads_left_out or getattr(self, "keep_leaves", False)):
                release(data.X, n_passes=2)  # one pass learns the bin edges, and another pass bins the rows
            max_bins = bins_of_features(self)
            binning, matrix = learn_and_bin(data.X, data.sample_weight, max_bins, kinds, n_threads, data.comm)
        averager = self._make_averager(all_rows, matrix, continues=continues)
        store = TreeStore(binning, self._n_outputs(), self.n_estimators)
        if continues:
            store.keep(self._ensemble)
        first = store.n_trees
        self._grow(store, (data, all_rows), matrix, weight, averager)
        self._ensemble = store.ensemble()
        self._send_unseen()
        self._keep_statistics(averager, first)
        self._out_of_bag = OutOfBag.measure(self, matrix, all_rows.with_targets()) if self.oob_score else None
        for name in ("_leaf_rows", "_leaf_values"):
            self.__dict__.pop(name, None)
        if getattr(self, "keep_leaves", False):
            self._keep_leaf_rows(data, all_rows)
        return self

    def _continues(self) -> bool:
        """Return True if this fit adds trees to the last fit; raise ValueError if parameters conflict with it."""
        if not self.warm_start or not hasattr(self, "_ensemble"):
            return False
        check_continued(self.n_estimators, self._ensemble.n_trees, "trees")
        check_same_drawing(self.bootstrap, self._bootstrap)
        check_same_rules(self)
        return True

    def _start_forest(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """Learn the columns and targets of a new forest, draw its seed, and return this rank's encoded rows."""
        self.__dict__.pop("_ensemble", None)
        self._out_of_bag = None
        data = self._start_fit(X, y, sample_weight)
        self._n_targets = 1 if data.y.ndim == 1 else data.y.shape[1]
        self._seed: int = data.comm.allgather(draw_seed(self.random_state))[0]
        return data

    def _plan_bags(self, data: TrainingData, all_rows: AllRows, n_threads: int) -> Weighting:
        """Set the plan of draws, and return row weights, or a function from a bag's counts of draws to weights.

        The result is None if all weights are 1, or if the counts of draws are the weights.
        """
        self._bootstrap: Bootstrap | None = None
        weight, (factors, reweighting) = all_rows.sample_weight, self._class_weighting(all_rows)
        if not self.bootstrap:
            return multiplied(weight, factors)
        [hashes] = gathered(data.comm, [content_hashes(data.X, data.y, n_threads)])
        if self.oob_score:
            is_here = data.comm.size == 1
            warn_of_duplicates(hashes, data.X if is_here else None, all_rows.y)
        classes = getattr(self, "classes_", None)
        strata = None if classes is None else Strata.of(self.bootstrap, all_rows.y, classes)
        self._bootstrap = plan_draws(self.max_samples, hashes, weight, factors, strata)
        return reweighting

    def _keep_leaf_rows(self, data: TrainingData, all_rows: AllRows) -> None:
        """Store the targets of the training rows in each leaf, for quantiles; only for regression."""
        raise NotImplementedError

    def _class_weighting(self, data: AllRows) -> tuple[Array | None, Reweight | None]:
        """Return class weights as (a factor for each row, None) or (None, a function from bag counts to weights).

        Both are None without class weights.
        """
        return (None, None) if getattr(self, "class_weight", None) is None else self._weigh_classes(data)

    def _weigh_classes(self, data: AllRows) -> tuple[Array | None, Reweight | None]:
        """Return the class weights in the form of `_class_weighting`; only for classification."""
        raise NotImplementedError

    def _bags(self) -> Bags:
        """Return the bags of all trees, whose rows and features are drawn from the seed when they are accessed."""
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
        """Grow new trees, and add them to `store`, up to `n_estimators`.

        `data` holds this rank's rows and the rows of all ranks, and `matrix` the binned rows of this rank. `weight` is
        the result of `_plan_bags`, and `averager` averages each tree over its prunings, unless it is None.
        """
        here, all_rows = data
        n_threads, n_rows, bags = resolve_n_jobs(self.n_jobs), all_rows.n_rows, self._bags()
        kind = MeasuredTree if averager is not None and averager.needs_squares else Tree
        rules = forest_parameters(self, n_rows, Samples(bags, weight, 0, 1).total_weight(n_rows), in_random_order=True)
        target, local_rows = self._targets.growth_target(here.y, here.comm), LocalRows.of(here.comm, len(here.y))
        grower = ForestGrower(matrix, target, rules, n_threads, X=here.X, kind=kind)
        samples = Samples(bags, weight, store.n_trees, self.n_estimators, local_rows)
        finish: Callable[[int, Tree], Tree] = lambda number, tree: tree  # noqa: E731
        if averager is not None and self._averaging is not None:
            finish = self._averaging.finisher(self, averager, here, samples, store.n_trees)

        def take(number: int, tree: Tree) -> None:
            tree = finish(number, prune(tree, self.ccp_alpha))
            store.add(number, replace(tree, value=self._targets.leaf_values(tree.value)))

        grower.grow_into(take, samples, store.n_trees)

    @property
    def _is_averaged(self) -> bool:
        """True if `fit` averages trees over their prunings; "auto" does so unless there are monotonic constraints."""
        is_auto = isinstance(self.averaging, str) and self.averaging == AUTO
        return self.averaging is not None and not (is_auto and self.monotonic_cst is not None)

    @property
    def _compares_weights(self) -> bool:  # type: ignore[override]
        return self._is_averaged and not self.bootstrap  # drawn rows count as one row each, whatever their weights

    def _member_parameters(self) -> dict[str, Any]:
        """Return the parameters of `estimators_` by name; a single tree does not average by out-of-bag rows."""
        # A single tree has no out-of-bag rows.
        is_same = self._is_averaged and self._options("averaging").evidence != OUT_OF_BAG
        averaging = POSTERIOR if isinstance(self.averaging, str) else self.averaging
        return super()._member_parameters() | {"averaging": averaging if is_same else None}

    def _make_averager(self, data: AllRows, matrix: AnyMatrix, *, continues: bool) -> TreeAverager | None:
        """Return the averager of the new trees over their prunings, or None if the forest does not average.

        If `continues` is True, raise ValueError for options that differ from the last fit.
        """
        if continues:
            self._averaging_kind.check_same(self, self._averaging)
        else:
            self._averaging: Averaging | None = self._averaging_kind(self, data, matrix) if self._is_averaged else None
        return None if self._averaging is None else self._averaging.averager(self, data, matrix)

    def _keep_statistics(self, averager: TreeAverager | None, first: int) -> None:
        """Store the averager's leaf statistics of the trees from index `first` on, unless `averager` is None."""
        if averager is not None and self._averaging is not None:
            self._averaging = self._averaging.with_appended(averager.statistics(first, self._ensemble.n_trees))

    def in_bag(self, tree: int) -> NDArray[np.int64]:
        """Return how often each training row was drawn for a tree.

        Bags are not stored; they are drawn again from the seed of the tree.

        Parameters
        ----------
        tree : int
            Index of the tree.

        Returns
        -------
        int64 array of shape (n_rows,)
            Count for each row of `fit` with a weight above 0.

        Raises
        ------
        ValueError
            If the model was fitted without bootstrap, or if a warm start changed the rows or how they are drawn.
        """
        self._check_fitted()
        if self._bootstrap is None:
            raise ValueError("bootstrap must be True in fit for bags of drawn rows; it was False.")
        if self._kept_rows is not None and not len(self._kept_rows):
            raise ValueError(NOT_ALIKE)
        tree = check_position("tree", tree, len(self))
        return self._bags().counts(tree, tree + 1)[0].astype(np.int64)

    # Predict --------------------------------------------------

    def _mean(self, X: Any) -> Array:
        """Return the mean leaf values over the trees for the rows of the table X, (n_samples, n_values)."""
        raw = self._raw(X)
        raw /= self._ensemble.n_trees
        return raw

    @property
    def feature_importances_(self) -> Array:
        """Mean decrease in impurity of each feature, normalised to sum to 1, shape (n_features,)."""
        self._check_fitted()
        return mean_importances(self._ensemble, self._column_of, self.n_features_in_)

    def _part_importances(self) -> Array:
        """Return the mean decrease in impurity of each of `feature_parts_`, normalised to sum to 1."""
        n_parts = len(self._column_of)
        return mean_importances(self._ensemble, np.arange(n_parts), n_parts)

    @property
    def estimators_(self) -> Members:
        """The fitted trees, each of which is created as a decision tree estimator when it is accessed.

        A clone of a tree that is fitted to the same bag grows the same tree. If the forest averages over prunings, the
        leaves hold the averages. Clones of classification trees are averaged too, unless the evidence is out of bag.
        """
        self._check_fitted()
        return Members(self)

    @property
    def estimator(self) -> Any:
        """Unfitted decision tree with the parameters of the forest."""
        return template(self)

    @property
    def estimators_samples_(self) -> list[NDArray[np.int32]]:
        """Indices of the training rows in the bag of each tree, repeated as often as they were drawn."""
        self._check_fitted()
        if self._kept_rows is not None and not len(self._kept_rows):
            raise AttributeError(
                "estimators_samples_ is available only if fit of this model grew all trees on one table"
            )
        n_rows = int(self._ensemble.n_samples[0]) if self._bootstrap is None else len(self._bootstrap.order)
        rows = np.arange(n_rows) if self._kept_rows is None else self._kept_rows
        return rows_in_bags(self._bags(), len(self), rows)

    def __len__(self) -> int:
        """Return the number of trees."""
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        """Return a tree of `estimators_`, or a list of trees for a slice."""
        return self.estimators_[index]

    def _each_tree(self, X: Any, trees: TreeEnsemble | None = None) -> Iterator[NDArray[np.floating]]:
        """Yield the leaf values of the rows of X, (n_rows, n_values), by tree; `trees` may have other values."""
        leaves, trees = self._leaves(X), trees or self._ensemble
        return (trees.value[first + leaves[:, tree]] for tree, first in enumerate(trees.node_offsets[:-1].tolist()))

    def predict_all(self, X: ArrayLike) -> Iterator[NDArray[Any]]:
        """Yield the predictions of each tree in turn."""
        each, targets = self._each_tree(X), self._targets
        return (targets.decode(targets.predictions(values)) for values in each)

    def decision_path(self, X: ArrayLike) -> tuple[csr_matrix, NDArray[np.int64]]:
        """Return the nodes that each row visits.

        Returns
        -------
        indicator : CSR matrix of shape (n_samples, n_nodes)
            1 if the row visits the node. The columns are the nodes of all trees.
        n_nodes_ptr : array of shape (n_estimators + 1,)
            The columns ``n_nodes_ptr[t]:n_nodes_ptr[t + 1]`` are the nodes of tree t.
        """
        rows = self._check_table(X)
        return decision_path(self._ensemble, rows, resolve_n_jobs(self.n_jobs))

    # Uncertainty --------------------------------------------------

    def predict_std(self, X: ArrayLike) -> Any:
        """Return the standard deviation of the predictions over the trees.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples,) in regression, (n_samples, n_classes) in classification
            With several targets, regressors return an array of shape (n_samples, n_targets) and classifiers a list.
        """
        each = self._each_tree(X)
        spread = deviations(map(self._targets.parts, each))
        return spread if len(spread) > 1 else spread[0]

    def predict_variance(self, X: ArrayLike) -> Array:
        """Return the variance of the prediction over training sets, estimated by the infinitesimal jackknife.

        The estimate is the sum over the training rows of the squared covariance between the number of times the row was
        drawn and the predictions of the trees. It is corrected for the Monte Carlo noise of a finite number of trees
        and clipped at 0. Use several times as many trees as training rows to keep the noise small. The estimate only
        captures first-order effects of single rows, so it is too low if leaves hold few rows: by a third or more with
        the default settings, but only slightly if `max_samples` is a fifth of the rows. A row of weight 2 counts as one
        observation that is drawn more often, not as two.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
            For binary targets, the variance of the probability of the second class; with more classes, one column for
            each class. The columns of several targets are concatenated.

        Raises
        ------
        ValueError
            If the model was fitted without bootstrap.

        References
        ----------
        S. Wager, T. Hastie, B. Efron (2014). Confidence intervals for random forests: the jackknife and the
        infinitesimal jackknife. JMLR 15, eq. 5 and 7.
        """
        self._check_fitted()
        if self._bootstrap is None:
            raise ValueError(
                "bootstrap must be True in fit, because the variance is estimated from the drawn rows; it was False."
            )
        leaves, bags = self._leaves(X), (self.in_bag(tree) for tree in range(self._ensemble.n_trees))
        variances = jackknife_variances(self._ensemble, leaves, bags, float(self._bootstrap.draws[-1]))
        return variances[:, 0] if variances.shape[1] == 1 else variances

    def proximity(self, X: ArrayLike, others: ArrayLike | None = None, *, n_neighbors: int | None = None) -> csr_matrix:
        """Return the proximity of pairs of rows: the fraction of trees in which they share a leaf (Breiman 2001).

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to compare.
        others : table of shape (n_others, n_features), optional
            Rows to compare with. If None, the rows of X are compared with each other.
        n_neighbors : int, optional
            Number of largest proximities to keep for each row. If None, all nonzero proximities are kept.

        Returns
        -------
        CSR matrix of shape (n_samples, n_others)
            The entries of each row are in descending order.
        """
        (COUNT | NONE).check("n_neighbors", n_neighbors)
        return proximities(self, X, others, n_neighbors)

    # Out of bag --------------------------------------------------

    def _oob_results(self) -> OutOfBag:
        """Return the out-of-bag results; raise AttributeError unless the model was fitted with `oob_score=True`."""
        self._check_fitted()
        if self._out_of_bag is None:
            raise AttributeError("out-of-bag predictions require oob_score=True in fit. Set it and fit again.")
        return self._out_of_bag

    @property
    def oob_score_(self) -> float:
        """Score of the out-of-bag predictions. Requires `oob_score`."""
        return self._oob_results().score

    @property
    def oob_scores_(self) -> Array:
        """Out-of-bag score of each tree, (n_estimators,); NaN if its bag has all rows. Requires `oob_score`."""
        return self._oob_results().tree_scores

    @property
    def oob_error_curve_(self) -> Array:
        """Out-of-bag error rate, or mean squared error, after each tree, (n_estimators,). Requires `oob_score`."""
        return self._oob_results().error_curve

    def oob_permutation_importance(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Bunch:
        """Return the increase of each tree's out-of-bag error when the values of a feature are permuted.

        The values of one feature are shuffled among the out-of-bag rows of a tree, which are then predicted by that
        tree. The error is the error rate in classification, and the mean squared error, summed over targets, in
        regression.

        Parameters
        ----------
        X, y, sample_weight
            The training set as passed to `fit`, in the same order.

        Returns
        -------
        Bunch
            ``importances_mean``, ``importances_std`` and ``importances_standard_error`` of shape (n_features,): the
            mean over the trees, the standard deviation between trees and the standard error of the mean.
            ``importances`` of shape (n_features, n_estimators).

        References
        ----------
        Breiman (2001), "Random forests", section 10.
        """
        return permutation_importance(self._as_fitted(), X, y, sample_weight)

    # Averages over prunings --------------------------------------------------

    def reweight(self, **prior: Any) -> Self:
        """Change the prior of the average over prunings without growing the trees again.

        The result is the forest that a fit with this prior would give. Out-of-bag results are discarded.

        Parameters
        ----------
        **prior
            New values of options of `PosteriorAverage`, except `evidence`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `averaging` was None in `fit`, or an option is unknown or invalid.
        """
        self._check_fitted()
        if self._averaging is None:
            raise ValueError(
                "averaging must be set in fit, because only then are trees averaged over their prunings; it was None."
            )
        self._averaging.reweight(self, prior)
        return self

    def _posteriors(self) -> Iterator[Prunings]:
        """Yield the posterior over the prunings of each tree; raise AttributeError without averaging."""
        self._check_fitted()
        if self._averaging is None:
            raise AttributeError("averaging must be set in fit for a posterior of prunings; it was None")
        return self._averaging.posteriors(self._as_fitted())

    @property
    def log_evidence_(self) -> Array:
        """Log marginal likelihood of each tree over all its prunings, (n_estimators,). Requires `averaging`.

        With criterion="poisson" it omits the factorials of the counts, unless the evidence is out of bag.
        """
        return np.array([prunings.log_evidence[0] for prunings in self._posteriors()])

    @property
    def expected_n_leaves_(self) -> Array:
        """Posterior mean of the number of leaves of each tree, (n_estimators,). Requires `averaging`."""
        return np.array([prunings.expected_leaves() for prunings in self._posteriors()])

    # Saving --------------------------------------------------

    def _n_outputs(self) -> int:
        """Return the number of values in each leaf."""
        return self._targets.n_values

    def _bag_arrays(self) -> Arrays:
        """Return the plan of draws, the averaging over prunings and the out-of-bag results as arrays to save."""
        parts = (self._bootstrap, self._averaging, self._out_of_bag)
        return {name: array for part in parts if part is not None for name, array in part.to_arrays().items()}

    def _restore_bags(self, arrays: Arrays) -> None:
        """Set the plan of draws, the averaging and the out-of-bag results from the arrays of `_bag_arrays`."""
        self._bootstrap = Bootstrap.from_arrays(arrays) if self.bootstrap else None
        self._out_of_bag = OutOfBag.from_arrays(arrays, self._ensemble.n_outputs)
        self._averaging = self._averaging_kind.from_arrays(self, arrays)

    _saved: ClassVar[SavedParts] = (
        *("_n_targets", "_seed"),
        Saved(_bag_arrays, finish=_restore_bags),
        attributes("_kept_rows", key=_KEPT_ROWS),
        Saved(finish=check_seed),
    )


def mean_importances(trees: TreeEnsemble, column_of: NDArray[np.intp], n_features: int) -> NDArray[np.float64]:
    """Return the mean decrease in impurity of each feature, normalised to sum to 1, (n_features,).

    `column_of` holds the feature index for each feature of the trees.
    """
    share = gain_shares(trees, column_of, n_features).mean(axis=0)
    return share / share.sum() if share.any() else share
