"""Forests whose trees are averaged over all their prunings, by a prior that may be changed after the fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.base import TrainingData
from fastens.engine.bins.sparse_binned import AnyMatrix
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
    nodes_of,
    of_all_nodes,
    thresholds_of_features,
    together,
)
from fastens.posterior.leaf_priors import ClassPrior, NumberPrior, RatePrior, location_and_variance
from fastens.table.training_data import AllRows, multiplied

Array = NDArray[np.float64]
OUT_OF_BAG = "oob"
_PREFIX = "averaging."
POISSON = "poisson"

AVERAGING = one_of(None, "posterior") | record(PosteriorAverage)
_DEFAULTS = PosteriorAverage()


class Averaging:
    """What averaging a forest's trees over their prunings needs after the fit, for another prior."""

    # The default, chosen on other tables than docs/measured/posterior.md reports, and options that are not read.
    split_prior: ClassVar[float]
    of_others: ClassVar[tuple[str, ...]]
    n_thresholds: Array
    # Of the leaves of all trees, one after another, for the rows they learn from: see `together`.
    leaf_statistics: list[NDArray[Any]]

    def __init__(self, forest: Any, data: AllRows, matrix: AnyMatrix) -> None:
        self.n_thresholds = thresholds_of_features(matrix.n_codes)
        self.leaf_statistics = []

    @classmethod
    def check_read(cls, options: PosteriorAverage) -> None:
        """Raise ValueError for options that only forests of the other kind of target read."""
        for name in cls.of_others:
            value, default = getattr(options, name), getattr(_DEFAULTS, name)
            if value != default:
                raise ValueError(f"averaging.{name} must be {default!r}: it is not read here; got {value!r}.")

    @classmethod
    def check(cls, forest: Any) -> None:
        """Raise ValueError for options that are none, or do not fit the forest's other parameters."""
        if forest.averaging is None:
            return
        options = forest._options("averaging")
        cls.check_read(options)
        if getattr(forest, "monotonic_cst", None) is not None:
            raise ValueError(
                "averaging must be None with monotonic_cst: averages over prunings need not keep to it; "
                f"got {forest.averaging!r}."
            )
        if forest.criterion == "absolute_error":
            raise ValueError(
                "averaging must be None with criterion='absolute_error', which is no likelihood; "
                f"got {forest.averaging!r}."
            )
        if options.evidence == OUT_OF_BAG and (forest.oob_score or not forest.bootstrap):
            wrong = "with oob_score, whose rows it would use up" if forest.oob_score else "without bootstrap"
            raise ValueError(f"averaging.evidence must be 'train' {wrong}; got 'oob'.")

    @classmethod
    def check_same(cls, forest: Any, earlier: Averaging | None) -> None:
        """Raise ValueError for options that a fit with warm_start must not change."""
        if earlier is None or forest.averaging is None:
            if earlier is not None or forest.averaging is not None:
                rule = "None" if earlier is None else "given"
                raise ValueError(
                    f"averaging must be {rule} with warm_start, as for the first trees; got {forest.averaging!r}."
                )
            return
        evidence = OUT_OF_BAG if len(earlier.leaf_statistics) > 1 else "train"
        if (given := forest._options("averaging").evidence) != evidence:
            raise ValueError(
                f"averaging.evidence must be {evidence!r} with warm_start, as for the first trees; got {given!r}."
            )
        earlier._check_same_likelihood(forest)

    def _check_same_likelihood(self, forest: Any) -> None:
        """Raise ValueError where the leaves' statistics would be of two kinds."""

    def leaf_prior(self, forest: Any) -> ClassPrior | NumberPrior | RatePrior:
        """The prior of a leaf's distribution."""
        raise NotImplementedError

    def rows_per_weight(self, forest: Any, tree: Tree) -> float:
        """What a tree's weights are multiplied with to be numbers of rows."""
        return 1.0

    def pruning_prior(self, forest: Any) -> PruningPrior:
        """The prior of a tree's prunings."""
        options = forest._options("averaging")
        split_prior = self.split_prior if options.split_prior is None else options.split_prior
        cost = TableSearch(self.n_thresholds, features_per_split(forest), forest._has_random_thresholds)
        return PruningPrior(self.leaf_prior(forest), split_prior, cost, options.temperature)

    # Fit --------------------------------------------------

    def averager(self, forest: Any, data: AllRows, matrix: AnyMatrix) -> TreeAverager:
        """What averages each tree as it is grown."""
        prior = self.pruning_prior(forest)
        uses_rest = forest._options("averaging").evidence == OUT_OF_BAG
        if uses_rest and matrix.comm.size > 1:
            raise ValueError(
                "averaging.evidence must be 'train' where rows are on several ranks; "
                f"got 'oob', and {matrix.comm.size} ranks."
            )
        return TreeAverager(prior, TreeRows(matrix, prior.leaves.statistics(data.y)) if uses_rest else None)

    def finisher(
        self, forest: Any, averager: TreeAverager, data: TrainingData, samples: Samples, first: int
    ) -> Callable[[int, Tree], Tree]:
        """What is done to a grown tree of a number, `samples` being those of the trees from `first` on."""
        uses_rest = forest._options("averaging").evidence == OUT_OF_BAG
        weight_of_rest = _weigher_of_rows_left_out(forest, data) if uses_rest else lambda drawn: None

        def average(number: int, tree: Tree) -> Tree:
            drawn = samples[number - first].weight if averager.needs_rows else None
            return averager.average(number, tree, self.rows_per_weight(forest, tree), drawn, weight_of_rest(drawn))

        return average

    def with_more(self, new: list[NDArray[Any]]) -> Averaging:
        """The same with the statistics of more trees' leaves; none where there are no more trees."""
        old, more = self.leaf_statistics, copy(self)
        if new:
            more.leaf_statistics = [np.concatenate(pair, axis=1) for pair in zip(old, new, strict=True)] if old else new
        return more

    # Another prior --------------------------------------------------

    def reweight(self, forest: Any, prior: Mapping[str, Any]) -> None:
        """Average the trees of a fitted forest by a prior with some other values."""
        fitted = forest._as_fitted()
        fitted.averaging = forest.averaging = self.replaced(fitted, prior)
        forest._parameters_of_fit = {k: old for k, old in forest._parameters_of_fit.items() if k != "averaging"}
        forest._ensemble = forest._ensemble.with_values(self.node_values(fitted))
        forest._out_of_bag = None

    def replaced(self, forest: Any, prior: Mapping[str, Any]) -> PosteriorAverage:
        """The options of a forest with some other values; ValueError where they break their rules."""
        if "evidence" in prior:
            raise ValueError(f"reweight must not change evidence, which needs the rows; got {prior['evidence']!r}.")
        options: PosteriorAverage = forest._options("averaging").replaced(prior)
        options.check("averaging")
        self.check_read(options)
        return options

    def trees_with_statistics(self, ensemble: TreeEnsemble) -> Iterator[tuple[Tree, list[NDArray[Any]]]]:
        """Each tree with the statistics of its leaves: see `PruningPrior.averaged`."""
        # The forest itself stays as small as it is.
        trees = TreeEnsemble.from_packed(ensemble.packed(), ensemble.binning)
        last_leaf = np.cumsum(trees.n_leaves)
        for t in range(trees.n_trees):
            tree, leaves = trees.tree(t), slice(last_leaf[t] - trees.n_leaves[t], last_leaf[t])
            yield tree, [part[:, leaves] for part in self.leaf_statistics]

    def node_values(self, forest: Any) -> NDArray[Any]:
        """The values of all trees' nodes by the forest's present prior."""
        prior = self.pruning_prior(forest)
        trees = self.trees_with_statistics(forest._ensemble)
        return np.concatenate([prior.averaged(tree, nodes_of(tree), leaves) for tree, leaves in trees])

    def posteriors(self, forest: Any) -> Iterator[Prunings]:
        """The posterior of each tree's prunings."""
        prior = self.pruning_prior(forest)
        for tree, leaves in self.trees_with_statistics(forest._ensemble):
            yield prior.posterior(tree, *together([of_all_nodes(tree, part) for part in leaves]))

    # Saving --------------------------------------------------

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays from which `from_arrays` restores this."""
        found = {f"{_PREFIX}leaves.{i}": part for i, part in enumerate(self.leaf_statistics)}
        return found | {_PREFIX + "n_thresholds": self.n_thresholds}

    @classmethod
    def from_arrays(cls, forest: Any, arrays: Mapping[str, np.ndarray]) -> Averaging | None:
        """Restore what `to_arrays` saved for a forest; None where that was not averaged."""
        if _PREFIX + "n_thresholds" not in arrays:
            return None
        new = cls.__new__(cls)
        new.n_thresholds = arrays[_PREFIX + "n_thresholds"]
        if not _are_numbers(new.n_thresholds, forest._ensemble.binning.n_features):
            raise ValueError("the numbers of thresholds and the columns do not fit together")
        names = [name for name in (f"{_PREFIX}leaves.{i}" for i in range(2)) if name in arrays]
        new.leaf_statistics = [arrays[name] for name in names]
        new._restore(forest, arrays)
        n_leaves = int(forest._ensemble.n_leaves.sum())
        n_rows = len(new.leaf_prior(forest).statistics(np.zeros((1, forest._n_targets))))
        sound = all(part.shape == (n_rows, n_leaves) and np.isfinite(part).all() for part in new.leaf_statistics)
        if not new.leaf_statistics or not sound:
            raise ValueError("the leaves' statistics and the trees do not fit together")
        if any((cls.weights_among(part) < 0).any() for part in new.leaf_statistics):
            raise ValueError("the leaves' statistics are malformed")
        return new

    @staticmethod
    def weights_among(statistics: NDArray[Any]) -> NDArray[Any]:
        """Those of the statistics that are weights of rows: of all, or of each class."""
        return statistics[:1]

    def _restore(self, forest: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """What only classes or numbers have."""


class ClassAveraging(Averaging):
    """Averaging for a forest of classes."""

    split_prior: ClassVar = 0.2
    of_others: ClassVar = ("prior_weight", "prior_shape", "prior_scale")

    def leaf_prior(self, forest: Any) -> ClassPrior:
        """A Dirichlet prior of the classes' shares."""
        return ClassPrior(forest._options("averaging").alpha, tuple(forest._targets.counts))

    @staticmethod
    def weights_among(statistics: NDArray[Any]) -> NDArray[Any]:
        """All of them."""
        return statistics

    def rows_per_weight(self, forest: Any, tree: Tree) -> float:
        """As many as are drawn, where the rows of a bag are weighted by class."""
        reweighted = forest._bootstrap is not None and forest.class_weight is not None and forest._weighs_bags()
        return float(forest._bootstrap.draws[-1] / tree.weight[0]) if reweighted else 1.0


class NumberAveraging(Averaging):
    """Averaging for a forest of numbers."""

    split_prior: ClassVar = 0.5
    of_others: ClassVar = ("alpha",)
    # Of the targets.
    location: Array
    variance: Array
    # Whether the statistics are those of Poisson counts; the forest's criterion may be another by now.
    is_of_counts: bool

    def __init__(self, forest: Any, data: AllRows, matrix: AnyMatrix) -> None:
        super().__init__(forest, data, matrix)
        self.location, self.variance = location_and_variance(data.y, data.sample_weight)
        self.is_of_counts = forest.criterion == POISSON

    def _check_same_likelihood(self, forest: Any) -> None:
        if (forest.criterion == POISSON) != self.is_of_counts:
            rule = "be" if self.is_of_counts else "not be"
            raise ValueError(
                f"criterion must {rule} 'poisson' with averaging and warm_start, as for the first trees; "
                f"got {forest.criterion!r}."
            )

    def leaf_prior(self, forest: Any) -> NumberPrior | RatePrior:
        """A prior of the mean and the variance, or of the rate of counts."""
        options = forest._options("averaging")
        if self.is_of_counts:
            return RatePrior(self.location, options.prior_weight)
        return NumberPrior(self.location, self.variance, options.prior_weight, options.prior_shape, options.prior_scale)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Arrays from which `from_arrays` restores this."""
        own = {"location": self.location, "variance": self.variance, "is_of_counts": np.array(self.is_of_counts)}
        return super().to_arrays() | {_PREFIX + name: array for name, array in own.items()}

    def _restore(self, forest: Any, arrays: Mapping[str, np.ndarray]) -> None:
        self.location, self.variance = arrays[_PREFIX + "location"], arrays[_PREFIX + "variance"]
        n_targets = forest._n_targets
        if not (_are_numbers(np.abs(self.location), n_targets) and _are_numbers(self.variance, n_targets)):
            raise ValueError("the location and the variance do not fit the targets")
        self.is_of_counts = bool(arrays[_PREFIX + "is_of_counts"].item())


def _are_numbers(array: np.ndarray, n: int) -> bool:
    """Whether these are so many finite numbers, none below 0, as float64."""
    return array.dtype == np.float64 and array.shape == (n,) and bool(((array >= 0) & (array < np.inf)).all())


def _weigher_of_rows_left_out(forest: Any, data: TrainingData) -> Callable[[Any], Array]:
    """A function of a tree's weights: those of the rows that it has not seen, nor any copy of them.

    The weights of all rows add up to the number of draws.
    """
    weight = multiplied(data.sample_weight, forest._row_factors(data))
    weight = np.ones(len(data.y)) if weight is None else weight
    weight = weight * (forest._bootstrap.draws[-1] / weight.sum())
    hashes = content_hashes(data.X, data.y, resolve_n_jobs(forest.n_jobs))
    content = np.unique(hashes, return_inverse=True)[1].ravel()
    return lambda drawn: np.where(np.bincount(content, drawn)[content] > 0, 0.0, weight)
