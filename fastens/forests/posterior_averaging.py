"""Posterior averages of a forest's trees over all their prunings; the prior can be changed after the fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.engine.bins.binning import AnyMatrix
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.forests.bags import Samples
from fastens.forests.parameters import features_per_split
from fastens.params.options import PosteriorAverage, record
from fastens.params.rules import one_of
from fastens.posterior.averaging import (
    PruningPrior,
    Prunings,
    TableSearch,
    TreeAverager,
    TreeRows,
    combine_row_sets,
    node_statistics,
    nodes_of,
    thresholds_of_features,
)
from fastens.posterior.leaf_priors import ClassPrior, NumberPrior, RatePrior, location_and_variance
from fastens.table.training_data import AllRows, multiplied

Array = NDArray[np.float64]
OUT_OF_BAG = "oob"
_PREFIX = "averaging."
POISSON = "poisson"

AUTO, POSTERIOR = "auto", "posterior"
AVERAGING = one_of(None, POSTERIOR) | record(PosteriorAverage)
CLASS_AVERAGING = one_of(AUTO) | AVERAGING
_DEFAULTS = PosteriorAverage()


class Averaging:
    """State that is needed to average a forest's trees over their prunings under another prior."""

    # The default split prior, chosen on tables that docs/measured/posterior.md does not report on.
    split_prior: ClassVar[float]
    # Options of `PosteriorAverage` that are only read for the other kind of target.
    of_others: ClassVar[tuple[str, ...]]
    n_thresholds: Array
    # Statistics of the leaves of all trees, concatenated, for each set of rows: see `combine_row_sets`.
    leaf_statistics: list[NDArray[Any]]

    def __init__(self, forest: Any, data: AllRows | TrainingData, matrix: AnyMatrix) -> None:
        self.n_thresholds = thresholds_of_features(matrix.n_codes)
        self.leaf_statistics = []

    @classmethod
    def check_read(cls, options: PosteriorAverage) -> None:
        """Raise ValueError for changed options that are read only in classification, or only in regression."""
        for name in cls.of_others:
            value, default = getattr(options, name), getattr(_DEFAULTS, name)
            if value != default:
                raise ValueError(
                    f"averaging.{name} must be {default!r}, because this model does not use it; got {value!r}."
                )

    @classmethod
    def check(cls, forest: Any) -> None:
        """Raise ValueError if options of the forest's `averaging` are invalid or conflict with other parameters."""
        options = forest._options("averaging")
        cls.check_read(options)
        if getattr(forest, "monotonic_cst", None) is not None:
            raise ValueError(
                "averaging must be None with monotonic_cst, because averages over prunings can violate the "
                f"constraints; got {forest.averaging!r}."
            )
        if forest.criterion == "absolute_error":
            raise ValueError(
                "averaging must be None with criterion='absolute_error', because it has no likelihood; got "
                f"{forest.averaging!r}."
            )
        uses_rest = getattr(forest, "oob_score", False)
        if options.evidence == OUT_OF_BAG and (uses_rest or not getattr(forest, "bootstrap", False)):
            wrong = "with oob_score, because both use the out-of-bag rows" if uses_rest else "without bootstrap"
            raise ValueError(f"averaging.evidence must be 'train' {wrong}; got 'oob'.")

    @classmethod
    def check_same(cls, forest: Any, earlier: Averaging | None) -> None:
        """Raise ValueError if a warm start changes whether trees are averaged, or the evidence or likelihood.

        `earlier` is the averaging of the last fit, or None.
        """
        if earlier is None or not forest._is_averaged:
            if earlier is not None or forest._is_averaged:
                rule = "None" if earlier is None else "set"
                raise ValueError(
                    f"averaging must be {rule} with warm_start, as it was for the first trees; got "
                    f"{forest.averaging!r}."
                )
            return
        evidence = OUT_OF_BAG if len(earlier.leaf_statistics) > 1 else "train"
        if (new_evidence := forest._options("averaging").evidence) != evidence:
            raise ValueError(
                f"averaging.evidence must be {evidence!r} with warm_start, as it was for the first trees; got "
                f"{new_evidence!r}."
            )
        earlier._check_same_likelihood(forest)

    def _check_same_likelihood(self, forest: Any) -> None:
        """Raise ValueError if a warm start's criterion has other leaf statistics; by default, it has the same ones."""

    def leaf_prior(self, forest: Any) -> ClassPrior | NumberPrior | RatePrior:
        """Return the prior of the distribution of targets in a leaf, with the parameters of the forest."""
        raise NotImplementedError

    def rows_per_weight(self, forest: Any, tree: Tree) -> float:
        """Return the factor that scales a tree's weights to numbers of rows, 1 by default."""
        return 1.0

    def pruning_prior(self, forest: Any) -> PruningPrior:
        """Return the prior over a tree's prunings, by the options of the forest's `averaging`."""
        options = forest._options("averaging")
        split_prior = self.split_prior if options.split_prior is None else options.split_prior
        cost = TableSearch(self.n_thresholds, features_per_split(forest), forest._has_random_thresholds)
        return PruningPrior(self.leaf_prior(forest), split_prior, cost, options.temperature)

    # Fit --------------------------------------------------

    def averager(self, forest: Any, data: AllRows | TrainingData, matrix: AnyMatrix) -> TreeAverager:
        """Return the object that averages each grown tree over its prunings, and collects leaf statistics.

        Out-of-bag evidence reads the rows of `data` and `matrix`; raise ValueError if they are on several ranks.
        """
        prior = self.pruning_prior(forest)
        uses_rest = forest._options("averaging").evidence == OUT_OF_BAG
        if uses_rest and matrix.comm.size > 1:
            raise ValueError(
                f"averaging.evidence must be 'train' in distributed fits; got 'oob' with {matrix.comm.size} ranks."
            )
        return TreeAverager(prior, TreeRows(matrix, prior.leaves.statistics(data.y)) if uses_rest else None)

    def finisher(
        self, forest: Any, averager: TreeAverager, data: TrainingData, samples: Samples, first: int
    ) -> Callable[[int, Tree], Tree]:
        """Return a function from a tree's index and the grown tree to the averaged tree.

        `samples` holds the bags of the trees from index `first` on.
        """
        uses_rest = forest._options("averaging").evidence == OUT_OF_BAG
        weight_of_rest = _left_out_weighting(forest, data) if uses_rest else lambda drawn: None

        def average(number: int, tree: Tree) -> Tree:
            drawn = samples[number - first].weight if averager.needs_rows else None
            return averager.average(number, tree, self.rows_per_weight(forest, tree), drawn, weight_of_rest(drawn))

        return average

    def with_appended(self, new: list[NDArray[Any]]) -> Averaging:
        """Return a copy with the leaf statistics `new` of more trees, an array for each set of rows, appended."""
        old, more = self.leaf_statistics, copy(self)
        if new:
            more.leaf_statistics = [np.concatenate(pair, axis=1) for pair in zip(old, new, strict=True)] if old else new
        return more

    # Another prior --------------------------------------------------

    def reweight(self, forest: Any, prior: Mapping[str, Any]) -> None:
        """Average the trees of a fitted forest again, in place, with the options in `prior` changed."""
        fitted = forest._as_fitted()
        fitted.averaging = forest.averaging = self.replaced(fitted, prior)
        forest._parameters_of_fit = {k: old for k, old in forest._parameters_of_fit.items() if k != "averaging"}
        forest._ensemble = forest._ensemble.with_values(self.node_values(fitted))
        forest._out_of_bag = None

    def replaced(self, forest: Any, prior: Mapping[str, Any]) -> PosteriorAverage:
        """Return the forest's averaging options with the values in `prior` changed; raise ValueError if invalid."""
        if "evidence" in prior:
            raise ValueError(
                "evidence must not be passed to reweight, because changing it requires the training rows; got "
                f"{prior['evidence']!r}."
            )
        options: PosteriorAverage = forest._options("averaging").replaced(prior)
        options.check("averaging")
        self.check_read(options)
        return options

    def trees_with_statistics(self, ensemble: TreeEnsemble) -> Iterator[tuple[Tree, list[NDArray[Any]]]]:
        """Yield each tree of `ensemble` with its leaf statistics, an array (n_statistics, n_leaves) per set of rows."""
        # A copy is unpacked, so that the forest itself stays packed.
        trees = TreeEnsemble.from_packed(ensemble.packed(), ensemble.binning)
        last_leaf = np.cumsum(trees.n_leaves)
        for t in range(trees.n_trees):
            tree, leaves = trees.tree(t), slice(last_leaf[t] - trees.n_leaves[t], last_leaf[t])
            yield tree, [part[:, leaves] for part in self.leaf_statistics]

    def node_values(self, forest: Any) -> NDArray[Any]:
        """Return the averaged values of all nodes of all trees under the prior of the forest's options."""
        prior = self.pruning_prior(forest)
        trees = self.trees_with_statistics(forest._ensemble)
        return np.concatenate([prior.averaged(tree, nodes_of(tree), leaves) for tree, leaves in trees])

    def posteriors(self, forest: Any) -> Iterator[Prunings]:
        """Yield the posterior over each tree's prunings under the prior of the forest's options."""
        prior = self.pruning_prior(forest)
        for tree, leaves in self.trees_with_statistics(forest._ensemble):
            yield prior.posterior(tree, *combine_row_sets([node_statistics(tree, part) for part in leaves]))

    # Saving --------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the leaf statistics and other state as arrays for `from_arrays`."""
        arrays = {f"{_PREFIX}leaves.{i}": part for i, part in enumerate(self.leaf_statistics)}
        return arrays | {_PREFIX + "n_thresholds": self.n_thresholds}

    @classmethod
    def from_arrays(cls, forest: Any, arrays: Mapping[str, np.ndarray]) -> Averaging | None:
        """Return the averaging from the arrays of `to_arrays`, or None if the forest was not averaged.

        Raise ValueError if the arrays are malformed or do not match the trees.
        """
        if _PREFIX + "n_thresholds" not in arrays:
            return None
        new = cls.__new__(cls)
        new.n_thresholds = arrays[_PREFIX + "n_thresholds"]
        if not _are_non_negative(new.n_thresholds, forest._ensemble.binning.n_features):
            raise ValueError("the numbers of thresholds and the columns do not match")
        names = [name for name in (f"{_PREFIX}leaves.{i}" for i in range(2)) if name in arrays]
        new.leaf_statistics = [arrays[name] for name in names]
        new._restore(forest, arrays)
        n_leaves = int(forest._ensemble.n_leaves.sum())
        n_rows = len(new.leaf_prior(forest).statistics(np.zeros((1, forest._n_targets))))
        sound = all(part.shape == (n_rows, n_leaves) and np.isfinite(part).all() for part in new.leaf_statistics)
        if not new.leaf_statistics or not sound:
            raise ValueError("the leaves' statistics and the trees do not match")
        if any((cls.row_weights_in(part) < 0).any() for part in new.leaf_statistics):
            raise ValueError("the leaves' statistics are malformed")
        return new

    @staticmethod
    def row_weights_in(statistics: NDArray[Any]) -> NDArray[Any]:
        """Return the part of the leaf statistics that holds weights of rows: here the total weight, (1, n_leaves)."""
        return statistics[:1]

    def _restore(self, forest: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the state that only subclasses have from saved arrays; by default, there is nothing to set."""


class ClassAveraging(Averaging):
    """Averaging of classification forests."""

    split_prior: ClassVar = 0.2
    of_others: ClassVar = ("prior_weight", "prior_shape", "prior_scale")

    def leaf_prior(self, forest: Any) -> ClassPrior:
        """Return the Dirichlet prior of the class probabilities of each target."""
        return ClassPrior(forest._options("averaging").alpha, tuple(forest._targets.counts))

    @staticmethod
    def row_weights_in(statistics: NDArray[Any]) -> NDArray[Any]:
        """Return all leaf statistics, because they are the weights of the classes."""
        return statistics

    def rows_per_weight(self, forest: Any, tree: Tree) -> float:
        """Return draws per unit of weight if bags are weighted by class, else 1; raise ValueError on overflow."""
        if not np.isfinite(tree.weight[0]):  # trees hold weights as float32
            raise ValueError(
                "sample_weight times class_weight must sum to at most 3.4e38 with averaging; got "
                f"{tree.weight[0]}. Scale the weights down, or pass averaging=None."
            )
        bootstrap: Any = getattr(forest, "_bootstrap", None)  # single trees do not draw rows
        reweighted = bootstrap is not None and forest.class_weight is not None and forest._weighs_bags()
        return float(bootstrap.draws[-1] / tree.weight[0]) if reweighted else 1.0


class RandomSplitClassAveraging(ClassAveraging):
    """Averaging of extra-trees classifiers, whose splits near the root separate the classes less."""

    split_prior: ClassVar = 0.5


class NumberAveraging(Averaging):
    """Averaging of regression forests."""

    split_prior: ClassVar = 0.5
    of_others: ClassVar = ("alpha",)
    # Mean and variance of the targets.
    location: Array
    variance: Array
    # True if the statistics are for Poisson counts; stored because the forest's criterion may have been changed since.
    is_of_counts: bool

    def __init__(self, forest: Any, data: AllRows | TrainingData, matrix: AnyMatrix) -> None:
        super().__init__(forest, data, matrix)
        self.location, self.variance = location_and_variance(data.y, data.sample_weight)
        self.is_of_counts = forest.criterion == POISSON

    def _check_same_likelihood(self, forest: Any) -> None:
        """Raise ValueError if a warm start changes the criterion to or from "poisson"."""
        if (forest.criterion == POISSON) != self.is_of_counts:
            rule = "be" if self.is_of_counts else "not be"
            raise ValueError(
                f"criterion must {rule} 'poisson' with averaging and warm_start, as it was for the first "
                f"trees; got {forest.criterion!r}."
            )

    def leaf_prior(self, forest: Any) -> NumberPrior | RatePrior:
        """Return the prior of each target's mean and variance, or of the rate of counts with criterion="poisson"."""
        options = forest._options("averaging")
        if self.is_of_counts:
            return RatePrior(self.location, options.prior_weight)
        return NumberPrior(self.location, self.variance, options.prior_weight, options.prior_shape, options.prior_scale)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the leaf statistics, and the mean and variance of the targets, as arrays for `from_arrays`."""
        fields = {"location": self.location, "variance": self.variance, "is_of_counts": np.array(self.is_of_counts)}
        return super().to_arrays() | {_PREFIX + name: array for name, array in fields.items()}

    def _restore(self, forest: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the mean and variance of the targets from saved arrays; raise ValueError if they are malformed."""
        self.location, self.variance = arrays[_PREFIX + "location"], arrays[_PREFIX + "variance"]
        n_targets = forest._n_targets
        if not (_are_non_negative(np.abs(self.location), n_targets) and _are_non_negative(self.variance, n_targets)):
            raise ValueError("the location and the variance do not match the targets")
        self.is_of_counts = bool(arrays[_PREFIX + "is_of_counts"].item())


def _are_non_negative(array: np.ndarray, n: int) -> bool:
    """Return True if `array` is a vector of `n` finite, non-negative float64 values."""
    return array.dtype == np.float64 and array.shape == (n,) and bool(((array >= 0) & (array < np.inf)).all())


def _left_out_weighting(forest: Any, data: TrainingData) -> Callable[[Any], Array]:
    """Return a function from a tree's row weights to the weights of its out-of-bag rows, (n_rows,).

    Drawn rows, and rows equal to them, get 0. The weights of all rows, drawn ones included, sum to the number of draws.
    """
    weight = multiplied(data.sample_weight, forest._class_weighting(data)[0])
    weight = np.ones(len(data.y)) if weight is None else weight
    weight = weight * (forest._bootstrap.draws[-1] / weight.sum())
    hashes = content_hashes(data.X, data.y, resolve_n_jobs(forest.n_jobs))
    content = np.unique(hashes, return_inverse=True)[1].ravel()
    return lambda drawn: np.where(np.bincount(content, drawn)[content] > 0, 0.0, weight)
