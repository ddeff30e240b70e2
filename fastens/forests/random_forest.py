"""Random forests (Breiman 2001) and extremely randomised trees (Geurts, Ernst & Wehenkel 2006)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import TrainingData
from fastens.conformal.scores import ConformalScores, SetScore, at_each_coverage, sets
from fastens.engine.bins.binning import AnyMatrix
from fastens.engine.comm import first_row, gathered
from fastens.engine.parts import map_parts
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.contributions import LeftOut, on_used_columns
from fastens.engine.trees.leaf_values import LeafRows
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import Reweight
from fastens.forests.base_forest import BaseForest
from fastens.forests.out_of_bag import MAX_ROWS, TreeErrors, quantiles_of_trees
from fastens.forests.parameters import CLASS_CRITERION, NUMBER_OF_FEATURES, STRATIFIED
from fastens.forests.posterior_averaging import (
    AUTO,
    CLASS_AVERAGING,
    ClassAveraging,
    NumberAveraging,
    RandomSplitClassAveraging,
)
from fastens.forests.tree import TreesClassifier, TreesRegressor
from fastens.modelfile.saving import Arrays, Saved, SavedParts, attributes
from fastens.params.estimator import with_parameters
from fastens.params.options import PosteriorAverage
from fastens.params.rules import FLAG, instance, one_of, parameter
from fastens.params.types import ClassWeight, Coverage, Drawing
from fastens.table.columns.numbers import numbers_in
from fastens.table.training_data import AllRows, as_multiples
from fastens.tree_model.tree_model import monotone_columns

Array = NDArray[np.float64]
CLASS_WEIGHT = (
    one_of("balanced", "balanced_subsample", None)
    | instance(Mapping, "a dict of weights by class")
    | instance(list, "a list of such dicts")
)


@with_parameters
class RandomForestClassifier(TreesClassifier, BaseForest):
    """Random forest for classification.

    Each tree is grown on a bootstrap sample of the rows and evaluates a random subset of the features at each split.
    The class probabilities of the trees are averaged; each tree is itself averaged over its prunings (see `averaging`).

    {parameters and attributes}

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RandomForestClassifier(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> model.oob_score_ > 0.9
    True
    """

    criterion: str = parameter(CLASS_CRITERION, default="gini")
    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default="sqrt")
    bootstrap: Drawing = parameter(STRATIFIED, default=True)
    averaging: str | PosteriorAverage | None = parameter(CLASS_AVERAGING, default=AUTO)
    voting: str = parameter(one_of("soft", "hard"), default="soft")
    class_weight: ClassWeight = parameter(CLASS_WEIGHT, default=None)

    _averaging_kind: ClassVar = ClassAveraging

    def _combine_weights(self, y: Array, weight: Array | None) -> Array | None:
        """Return the sample weights without class weights, which change the probabilities of being drawn instead."""
        return weight  # Class weights multiply the drawing probabilities instead: see `_weigh_classes`.

    def _weighs_bags(self) -> bool:
        """Return True if class weights apply to the drawn rows of each bag, not to the probabilities of being drawn."""
        by_bag = isinstance(self.class_weight, str) and self.class_weight == "balanced_subsample"
        return bool(self.bootstrap) and (by_bag or not FLAG.holds(self.bootstrap))

    def _member_parameters(self) -> dict[str, Any]:
        """Return the parameters of `estimators_` by name; class weights that bags already reflect are left out."""
        # With bootstrap, the bag already reflects the class weights, so a single tree must not apply them again.
        parameters = super()._member_parameters()
        if isinstance(self.class_weight, str):
            parameters["class_weight"] = "balanced"
        return parameters | ({"class_weight": None} if self.bootstrap and not self._weighs_bags() else {})

    def _weigh_classes(self, data: AllRows) -> tuple[Array | None, Reweight | None]:
        """Return class weights as (a factor for each row, None) or (None, a function from bag counts to weights)."""
        class_weight = "balanced" if isinstance(self.class_weight, str) else self.class_weight
        if not self._weighs_bags():
            factors = self._class_factors(class_weight, data.y, data.sample_weight)
            return factors if self.bootstrap else as_multiples(factors, data.sample_weight, self._factor_bits), None

        # Factors are scaled to integers, the smallest with eight bits, so that weights stay equivalent to repetition.
        y = data.y
        smallest = self._class_factors(class_weight, y, data.sample_weight).min()
        unit = math.ldexp(1.0, max(0, 9 - math.frexp(smallest)[1]))

        def reweight(counts: Array) -> Array:
            drawn = counts > 0
            factors = self._class_factors(class_weight, y[drawn], counts[drawn])
            weight = np.zeros_like(counts)
            weight[drawn] = counts[drawn] * np.maximum(np.rint(factors * unit), 1.0)
            return weight

        return None, reweight

    def _predicting_trees(self) -> TreeEnsemble:
        """Return the trees whose values are averaged: class probabilities, or votes with hard voting."""
        if self._as_fitted().voting == "soft":
            return self._ensemble
        notes = self._ensemble.notes
        if "votes" not in notes:
            notes["votes"] = self._ensemble.with_values(self._targets.votes(self._ensemble.value))
        return notes["votes"]

    def predict_proba_all(self, X: ArrayLike) -> Iterator[Any]:
        """Yield the class probabilities of each tree, (n_samples, n_classes), or lists with several targets."""
        for values in self._each_tree(X):
            yield self._targets.probabilities(values)

    @property
    def oob_decision_function_(self) -> Any:
        """Out-of-bag class probabilities, (n_samples, n_classes); NaN for rows in all bags. Requires `oob_score`.

        With several targets, the shape is (n_samples, n_classes, n_targets) if they all have the same number of
        classes; otherwise it is a list with an array for each target.
        """
        probabilities = self._targets.probabilities(self._oob_results().mean)
        return (
            np.dstack(probabilities)
            if isinstance(probabilities, list) and len(set(self._targets.counts)) == 1
            else probabilities
        )

    # Uncertainty --------------------------------------------------

    def _conformity(
        self, matrix: AnyMatrix, mean: Array, y: Array, has_prediction: NDArray[np.bool_], weight: Array | None
    ) -> ConformalScores:
        """Return the conformity scores of the true classes of rows with out-of-bag predictions.

        `mean` holds the out-of-bag means of leaf values of all rows, `has_prediction` is a mask of rows, and `weight`
        has an entry for each row in it.
        """
        probabilities = self._targets.probabilities(mean[has_prediction])
        return ConformalScores.of(SetScore().of_labels(probabilities, y[has_prediction]), weight)

    @at_each_coverage
    def predict_set(self, X: ArrayLike, coverage: Coverage = 0.9) -> NDArray[np.bool_]:
        """Return a prediction set for each row that contains the true class with a given probability.

        The sets are conformal (Johansson et al. 2014): a class is in the set if its probability is at least 1 - q,
        where q is the `coverage` quantile, with the finite-sample correction, of 1 minus the out-of-bag probability of
        the true class. Requires ``oob_score=True`` and a single target.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability, over rows and training sets, that the set of a new row contains its class. Larger values give
            larger sets.
            A list adds a last axis with the result of each coverage.

        Returns
        -------
        bool array of shape (n_samples, n_classes)
            True if the class is in the set of the row.

        Raises
        ------
        ValueError
            If the model was fitted without ``oob_score=True`` or on several targets.
        """
        self._check_fitted()
        if isinstance(self.classes_, list):
            raise ValueError("y must have had one target in fit for predict_set; this forest has several.")
        if self._out_of_bag is None:
            raise ValueError("oob_score must be True in fit for predict_set; it was False.")
        scores = self._oob_results().measured_conformity()
        return sets([scores], [SetScore().of(self.predict_proba(X))], cast(float, coverage))


_LEAF_VALUES = "uncertainty.leaf_values"
# Maximum number of per-tree predictions in memory.
_BLOCK_VALUES = 1 << 22
# With these parameters, the rows of a leaf are a single row, have equal targets, or have equal features.
_NO_LIMITS = {
    "min_samples_leaf": 1,
    "min_samples_split": 2,
    "max_depth": None,
    "max_leaf_nodes": None,
    "min_weight_fraction_leaf": 0.0,
    "min_impurity_decrease": 0.0,
    "ccp_alpha": 0.0,
    "averaging": None,
    "monotonic_cst": None,
    "interaction_cst": None,
}


@with_parameters
class RandomForestRegressor(TreesRegressor, BaseForest):
    """Random forest for regression.

    Each tree is grown on a bootstrap sample of the rows and can evaluate a random subset of the features at each split.
    The predictions of the trees are averaged.

    {parameters and attributes}

    References
    ----------
    Breiman (2001), "Random forests".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import RandomForestRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RandomForestRegressor(oob_score=True, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    >>> model.oob_score_ > 0.3
    True
    """

    max_features: int | float | str | None = parameter(NUMBER_OF_FEATURES, default=1.0)
    keep_leaves: bool = parameter(FLAG, default=False)

    _averaging_kind: ClassVar = NumberAveraging

    @property
    def oob_prediction_(self) -> NDArray[np.floating]:
        """Out-of-bag predictions, in the shape of `predict`; NaN for rows in all bags. Requires `oob_score`."""
        return self._targets.decode(self._oob_results().mean)

    # Uncertainty --------------------------------------------------

    def _conformity(
        self, matrix: AnyMatrix, mean: Array, y: Array, has_prediction: NDArray[np.bool_], weight: Array | None
    ) -> TreeErrors | None:
        """Return the out-of-bag errors of rows with out-of-bag predictions; None if there are zero rows.

        A sample that depends only on the contents of rows is used if there are more than MAX_ROWS. `mean` holds the
        out-of-bag means of all rows, `has_prediction` is a mask of rows, and `weight` has an entry for each row in it.
        """
        order = content_hashes(mean[has_prediction], y[has_prediction])
        chosen = (
            order <= np.partition(order, MAX_ROWS)[MAX_ROWS] if len(order) > MAX_ROWS else np.ones(len(order), bool)
        )
        values = self._left_out_values(matrix, np.flatnonzero(has_prediction)[chosen])
        weight = None if weight is None else weight[chosen]
        return TreeErrors.learn(
            values, y[has_prediction][chosen], weight, has_one_spread=monotone_columns(self) is not None
        )

    def _left_out_values(self, matrix: AnyMatrix, rows: NDArray[np.intp]) -> NDArray[np.floating]:
        """Return each tree's predictions for its out-of-bag rows, NaN for rows in its bag, (n_rows, n_trees).

        `rows` are row indices among the rows of all ranks, and `matrix` holds the rows of this rank.
        """
        trees, bags = self._ensemble, self._bags()
        left = LeftOut(trees, matrix, resolve_n_jobs(self.n_jobs))
        first, _ = first_row(matrix.comm, matrix.n_rows)
        rows = rows[(rows >= first) & (rows < first + matrix.n_rows)] - first
        predictions = np.full((len(rows), trees.n_trees), np.nan, dtype=trees.value.dtype)
        for t in range(trees.n_trees):
            counts = bags.counts(t, t + 1)[0][first : first + matrix.n_rows]
            predicted = left.predict(t, counts, np.zeros(len(counts), dtype=np.int32))
            left_out = counts[rows] == 0
            predictions[left_out, t] = predicted[rows[left_out], 0]
        return gathered(matrix.comm, [predictions])[0]

    def _blocks_of_values(self, X: ArrayLike) -> Iterator[NDArray[np.floating]]:
        """Yield each tree's predictions for successive blocks of the rows of X, (n_block_rows, n_trees)."""
        trees, leaves = self._ensemble, self._leaves(X)
        step = max(1, _BLOCK_VALUES // trees.n_trees)
        for first in range(0, len(leaves), step):
            yield trees.value[trees.node_offsets[:-1] + leaves[first : first + step], 0]

    @at_each_coverage
    def predict_interval(self, X: ArrayLike, coverage: Coverage = 0.9) -> Array:
        """Return a prediction interval for each row that contains its target with a given probability.

        The ends are quantiles of the target estimated from the predictions of the trees (see `predict_quantiles`),
        shifted so that the intervals have the requested coverage on the out-of-bag predictions of the training set
        (conformalised quantile regression, Romano et al. 2019). Requires ``oob_score=True`` and a single target. Both
        ends obey `monotonic_cst`.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        coverage : float or list of float, default=0.9
            Probability, over rows and training sets, that the interval of a new row contains its target. Larger values
            give wider intervals.
            A list adds a last axis with the result of each coverage.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.

        Raises
        ------
        ValueError
            If the model was fitted without ``oob_score=True`` or on several targets.

        References
        ----------
        Y. Romano, E. Patterson, E. Candes (2019). Conformalized quantile regression. NeurIPS 32.
        """
        self._check_fitted()
        if self._n_targets > 1:
            raise ValueError("y must have had one target in fit for predict_interval; this forest has several.")
        if self._out_of_bag is None:
            raise ValueError("oob_score must be True in fit for predict_interval; it was False.")
        errors, n_threads = self._oob_results().measured_conformity(), resolve_n_jobs(self.n_jobs)
        return np.concatenate([errors.intervals(part, coverage, n_threads) for part in self._blocks_of_values(X)])

    # Quantiles --------------------------------------------------

    def _keep_leaf_rows(self, data: TrainingData, all_rows: AllRows) -> None:
        """Store the targets of the training rows in each leaf, for quantiles; raise ValueError with `monotonic_cst`."""
        if monotone_columns(self) is not None:
            raise ValueError(
                "keep_leaves must be False with monotonic_cst, because only the means of the leaves satisfy "
                "the constraints; got True. Use oob_score=True instead: its quantiles satisfy the constraints."
            )
        # Each rank stands for a target, or for the targets of a row: see `_targets_of_leaves`.
        self._leaf_values, rank = np.unique(all_rows.y, return_inverse=True, axis=None if all_rows.y.ndim == 1 else 0)
        weight = np.ones(all_rows.n_rows) if all_rows.sample_weight is None else all_rows.sample_weight
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])  # small weights could underflow in float32
        weight_in: Callable[[int], Any] = self.in_bag if self._bootstrap is not None else lambda tree: weight
        trees, rows = on_used_columns(self._ensemble, data.X)
        [leaf] = gathered(data.comm, [map_parts(trees.apply, rows)])
        targets = rank.ravel().astype(np.uint32)
        self._leaf_rows = LeafRows.group(self._ensemble.node_offsets, leaf, targets, weight_in)

    def predict_quantiles(self, X: ArrayLike, quantiles: ArrayLike = (0.05, 0.5, 0.95)) -> Array:
        """Return conditional quantiles of the target for each row.

        With ``keep_leaves=True``, they are the quantiles of the training targets in the leaves of the row (Meinshausen
        2006). All trees have equal weight, and so do all draws within a leaf.

        Otherwise, they are estimated from the predictions of the trees. With ``oob_score=True``, they are the average
        of two estimates: the quantiles of the tree predictions, and their mean plus their standard deviation times a
        quantile of the standardised out-of-bag errors. With `monotonic_cst`, all rows share one standard deviation so
        that the quantiles obey the constraint. Without out-of-bag errors, only the first estimate is available, and it
        requires fully grown trees, as with the default settings.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows to predict.
        quantiles : array of numbers from 0 to 1, default=(0.05, 0.5, 0.95)
            Quantile levels.

        Returns
        -------
        array of shape (n_samples, n_quantiles), with several targets (n_samples, n_targets, n_quantiles)
            With ``keep_leaves=True``, a quantile is the smallest target whose cumulative weight reaches the level.

        Raises
        ------
        ValueError
            If the model was fitted on several targets without ``keep_leaves=True``, or if growth was limited and
            neither ``keep_leaves`` nor ``oob_score`` was True in `fit`.

        References
        ----------
        N. Meinshausen (2006). Quantile regression forests. JMLR 7.
        """
        self._check_fitted()
        levels = np.atleast_1d(numbers_in(quantiles, "quantiles"))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(f"quantiles must hold numbers from 0 to 1; got {quantiles!r}.")
        if not hasattr(self, "_leaf_rows"):
            if self._n_targets > 1:
                raise ValueError(
                    "keep_leaves must have been True in fit for quantiles of several targets; it was False."
                )
            return np.concatenate([self._quantiles_of(part, levels) for part in self._blocks_of_values(X)])
        leaf = np.ascontiguousarray(self._leaves(X))
        n_threads = resolve_n_jobs(self.n_jobs)
        target_quantiles = [
            rows.quantiles(leaf, values, levels, n_threads) for rows, values in self._targets_of_leaves()
        ]
        return target_quantiles[0] if self._leaf_values.ndim == 1 else np.stack(target_quantiles, axis=1)

    def _targets_of_leaves(self) -> Iterator[tuple[LeafRows, Array]]:
        """Yield, by target, the rank of each training row's target in its leaves, and the sorted distinct targets."""
        if self._leaf_values.ndim == 1:
            yield self._leaf_rows, self._leaf_values
            return
        for column in self._leaf_values.T:
            values, rank = np.unique(column, return_inverse=True)
            yield replace(self._leaf_rows, members=rank.astype(np.uint32)[self._leaf_rows.members]), values

    def _quantiles_of(self, values: NDArray[np.floating], levels: Array) -> Array:
        """Return target quantiles, (n_rows, n_levels), from each tree's predictions in `values`, (n_rows, n_trees).

        Raise ValueError if growth was limited and out-of-bag errors were not measured.
        """
        if self._out_of_bag is not None:
            return self._out_of_bag.measured_conformity().quantiles.predict(values, levels)
        fitted = self._as_fitted()
        for name, value in _NO_LIMITS.items():
            fitted_value = getattr(fitted, name)
            if fitted_value is not None if value is None else fitted_value != value:
                raise ValueError(
                    f"{name} must be {value!r} for predict_quantiles if keep_leaves and oob_score were False "
                    f"in fit; got {fitted_value!r}. Fit with keep_leaves=True or oob_score=True, because a single "
                    "value per leaf does not describe a distribution."
                )
        return quantiles_of_trees(values, levels)

    def _restore_leaf_rows(self, arrays: Arrays) -> None:
        """Set the targets of the training rows in each leaf from saved arrays, if `keep_leaves` was True."""
        if _LEAF_VALUES in arrays:
            self._leaf_rows = LeafRows.from_arrays(arrays, self._ensemble.node_offsets, len(self._leaf_values))

    _saved: ClassVar[SavedParts] = (
        Saved(
            lambda model: model._leaf_rows.to_arrays() if hasattr(model, "_leaf_rows") else {},
            finish=_restore_leaf_rows,
        ),
        attributes("_leaf_values", key=_LEAF_VALUES),
    )


@with_parameters
class ExtraTreesClassifier(RandomForestClassifier):
    """Extremely randomised trees for classification.

    Each split evaluates a random subset of the features with one random threshold per feature, and takes the best of
    them. By default, the trees are grown on all rows. Their class probabilities are averaged; each tree is itself
    averaged over its prunings (see `averaging`).

    Thresholds are drawn uniformly between the minimum and the maximum of the feature in the node, and then moved to the
    midpoint between the two adjacent training values, or between the two adjacent bins if the feature has more than
    `max_bins` distinct values. Infinite values are treated as the largest finite number.

    {parameters and attributes}

    References
    ----------
    Geurts, Ernst & Wehenkel (2006), "Extremely randomized trees".

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from fastens import ExtraTreesClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ExtraTreesClassifier(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    """

    bootstrap: Drawing = parameter(STRATIFIED, default=False)

    _averaging_kind: ClassVar = RandomSplitClassAveraging
    _has_random_thresholds = True


@with_parameters
class ExtraTreesRegressor(RandomForestRegressor):
    """Extremely randomised trees for regression.

    Each split evaluates one random threshold for each feature, or for a random subset of them, and takes the best of
    them. The trees are grown on all rows by default, and their predictions are averaged.

    Thresholds are drawn uniformly between the minimum and the maximum of the feature in the node, and then moved to the
    midpoint between the two adjacent training values, or between the two adjacent bins if the feature has more than
    `max_bins` distinct values. Infinite values are treated as the largest finite number.

    {parameters and attributes}

    References
    ----------
    Geurts, Ernst & Wehenkel (2006), "Extremely randomized trees".

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from fastens import ExtraTreesRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ExtraTreesRegressor(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.3
    True
    """

    bootstrap: bool | str = parameter(FLAG, default=False)

    _has_random_thresholds = True
