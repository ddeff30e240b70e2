"""Forests whose trees are averaged over all their prunings, by a prior that may be changed after the fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.base import BaseFastens, TrainingData
from fastens.engine.bins.binned import BinnedMatrix
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.trees import Tree, TreeEnsemble
from fastens.forests.bags import Samples, multiplied
from fastens.parameters import DECLINE, PROBABILITY, Rule, instance, one_of, real
from fastens.posterior.averaging import PruningPrior, TreeAverager, TreeRows, nodes_of, of_all_nodes, together
from fastens.posterior.leaf_priors import ClassPrior, NumberPrior, RatePrior, location_and_variance
from fastens.posterior.prunings import Prunings
from fastens.posterior.split_priors import NAMES, TableSearch, thresholds_of_features

Array = NDArray[np.float64]
POSTERIOR, TRAIN, OUT_OF_BAG = "posterior", "train", "oob"
_PREFIX = "averaging."
_POSITIVE = real(0, open_low=True)

AVERAGING = one_of(None, POSTERIOR) | instance(Mapping, "a dict of the prior's parameters")
SPLIT_PRIOR = one_of(*NAMES) | PROBABILITY | DECLINE
OPTIONS = {"evidence": one_of(TRAIN, OUT_OF_BAG), "split_prior": SPLIT_PRIOR, "temperature": _POSITIVE}
CLASS_OPTIONS = {**OPTIONS, "alpha": _POSITIVE}
NUMBER_OPTIONS = {**OPTIONS, "prior_weight": _POSITIVE, "prior_shape": _POSITIVE, "prior_scale": _POSITIVE}
# Chosen on other tables than those reported: see docs/posterior.md.
DEFAULTS = {"evidence": TRAIN, "split_prior": 0.2, "temperature": 1.0}
CLASS_DEFAULTS = {**DEFAULTS, "alpha": 0.01}
NUMBER_DEFAULTS = {**DEFAULTS, "split_prior": 0.5, "prior_weight": 0.02, "prior_shape": 1.0, "prior_scale": 0.02}


class PosteriorAveraging(BaseFastens):
    """What `averaging="posterior"` adds to a forest: leaf values over all prunings, and what another prior needs."""

    averaging: Any
    _averaging_rules: ClassVar[Mapping[str, Rule]]
    _averaging_defaults: ClassVar[Mapping[str, Any]]
    _n_thresholds: Array
    # Of the leaves of all trees, one after another, for the rows they learn from: see `together`.
    _leaf_statistics: list[NDArray[Any]]
    if TYPE_CHECKING:
        _ensemble: Any
        _bootstrap: Any
        _features_per_split: Any
        _has_random_thresholds: Any
        _row_factors: Any

    # Options --------------------------------------------------

    def _averaging_options(self) -> dict[str, Any]:
        given = self.averaging if isinstance(self.averaging, Mapping) else {}
        return {**self._averaging_defaults, **given}

    def _check_averaging(self) -> None:
        """Raise ValueError for options that are none, or do not fit the other parameters."""
        if self.averaging is None:
            return
        options = self._averaging_options()
        for name, value in options.items():
            if name not in self._averaging_rules:
                known = ", ".join(self._averaging_rules)
                raise ValueError(f"averaging must be a dict with keys among {known}; got {name!r}.")
            self._averaging_rules[name].check(f"averaging[{name!r}]", value)
        if getattr(self, "monotonic_cst", None) is not None:
            raise ValueError(
                "averaging must be None with monotonic_cst: averages over prunings need not keep to it; "
                f"got {self.averaging!r}."
            )
        if self.criterion == "absolute_error":
            raise ValueError(
                "averaging must be None with criterion='absolute_error', which is no likelihood; "
                f"got {self.averaging!r}."
            )
        if options["evidence"] == OUT_OF_BAG and (self.oob_score or not self.bootstrap):
            wrong = "with oob_score, whose rows it would use up" if self.oob_score else "without bootstrap"
            raise ValueError(f"averaging['evidence'] must be 'train' {wrong}; got 'oob'.")

    def _leaf_prior(self, options: Mapping[str, Any]) -> ClassPrior | NumberPrior | RatePrior:
        raise NotImplementedError

    def _pruning_prior(self) -> PruningPrior:
        options = self._averaging_options()
        cost = TableSearch(self._n_thresholds, self._features_per_split(), self._has_random_thresholds())
        return PruningPrior(self._leaf_prior(options), options["split_prior"], cost, options["temperature"])

    # Fit --------------------------------------------------

    def _learn_averaging(self, data: TrainingData, matrix: BinnedMatrix) -> None:
        """What the priors take from the table."""
        self._n_thresholds = thresholds_of_features(matrix.n_codes)
        self._leaf_statistics = []

    def _make_averager(self, data: TrainingData, matrix: BinnedMatrix, *, goes_on: bool) -> TreeAverager | None:
        if self.averaging is None:
            self.__dict__.pop("_leaf_statistics", None)
            return None
        if not goes_on:
            self._learn_averaging(data, matrix)
        elif not hasattr(self, "_leaf_statistics"):
            raise ValueError(
                "averaging must be None with warm_start, as it was for the trees that there are; "
                f"got {self.averaging!r}."
            )
        prior = self._pruning_prior()
        uses_rest = self._averaging_options()["evidence"] == OUT_OF_BAG
        return TreeAverager(prior, TreeRows(matrix, prior.leaves.statistics(data.y)) if uses_rest else None)

    def _finisher(
        self, averager: TreeAverager | None, data: TrainingData, samples: Samples, first: int
    ) -> Callable[[int, Tree], Tree]:
        """What is done to a grown tree of a number, `samples` being those of the trees from `first` on."""
        if averager is None:
            return lambda number, tree: tree
        uses_rest = self._averaging_options()["evidence"] == OUT_OF_BAG
        weight_of_rest = self._weigher_of_rows_left_out(data) if uses_rest else lambda drawn: None

        def average(number: int, tree: Tree) -> Tree:
            drawn = samples[number - first].weight if averager.needs_rows else None
            return averager.average(number, tree, self._rows_per_weight(tree), drawn, weight_of_rest(drawn))

        return average

    def _weigher_of_rows_left_out(self, data: TrainingData) -> Callable[[Any], Array]:
        """A function of a tree's weights: those of the rows that it has not seen, nor any copy of them.

        The weights of all rows add up to the number of draws.
        """
        weight = multiplied(data.sample_weight, self._row_factors(data))
        weight = np.ones(len(data.y)) if weight is None else weight
        weight = weight * (self._bootstrap.draws[-1] / weight.sum())
        hashes = content_hashes(data.X, data.y, resolve_n_jobs(self.n_jobs))
        content = np.unique(hashes, return_inverse=True)[1].ravel()
        return lambda drawn: np.where(np.bincount(content, drawn)[content] > 0, 0.0, weight)

    def _rows_per_weight(self, tree: Tree) -> float:
        """What a tree's weights are multiplied with to be numbers of rows."""
        return 1.0

    def _keep_statistics(self, averager: TreeAverager | None, first: int) -> None:
        if averager is not None:
            new = averager.statistics(first, self._ensemble.n_trees)
            old = self._leaf_statistics
            self._leaf_statistics = (
                [np.concatenate(pair, axis=1) for pair in zip(old, new, strict=True)] if old else new
            )

    # Another prior --------------------------------------------------

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
        if not hasattr(self, "_leaf_statistics"):
            raise ValueError("averaging must not be None in fit: the trees are not averaged over their prunings.")
        before = self.averaging
        if "evidence" in prior:
            raise ValueError(f"reweight must not change evidence, which needs the rows; got {prior['evidence']!r}.")
        self.averaging = {**(before if isinstance(before, Mapping) else {}), **prior}
        try:
            self._check_averaging()
        except ValueError:
            self.averaging = before
            raise
        pruning_prior = self._pruning_prior()
        values = [
            pruning_prior.averaged(tree, nodes_of(tree), leaves) for tree, leaves in self._trees_with_statistics()
        ]
        self._ensemble = self._ensemble.with_values(np.concatenate(values))
        for name in ("_oob_mean", "oob_score_", "oob_scores_", "oob_error_curve_"):
            self.__dict__.pop(name, None)
        return self

    def _trees_with_statistics(self) -> Iterator[tuple[Tree, list[NDArray[Any]]]]:
        """Each tree with the statistics of its leaves: see `PruningPrior.averaged`."""
        # The forest itself stays as small as it is.
        trees = TreeEnsemble.from_packed(self._ensemble.packed(), self._ensemble.binning)
        last_leaf = np.cumsum(trees.n_leaves)
        for t in range(trees.n_trees):
            tree, leaves = trees.tree(t), slice(last_leaf[t] - trees.n_leaves[t], last_leaf[t])
            yield tree, [part[:, leaves] for part in self._leaf_statistics]

    def _posteriors(self) -> Iterator[Prunings]:
        self._check_fitted()
        if not hasattr(self, "_leaf_statistics"):
            raise AttributeError("there is a posterior of prunings only where averaging was not None in fit")
        prior = self._pruning_prior()
        return (
            prior.posterior(tree, *together([of_all_nodes(tree, part) for part in leaves]))
            for tree, leaves in self._trees_with_statistics()
        )

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

    def _averaging_arrays(self) -> dict[str, np.ndarray]:
        if not hasattr(self, "_leaf_statistics"):
            return {}
        found = {f"{_PREFIX}leaves.{i}": part for i, part in enumerate(self._leaf_statistics)}
        return found | {_PREFIX + "n_thresholds": self._n_thresholds}

    def _restore_averaging(self, arrays: dict[str, np.ndarray]) -> None:
        if _PREFIX + "n_thresholds" not in arrays:
            return
        self._n_thresholds = arrays[_PREFIX + "n_thresholds"]
        names = [name for name in (f"{_PREFIX}leaves.{i}" for i in range(2)) if name in arrays]
        self._leaf_statistics = [arrays[name] for name in names]
        n_leaves, n_rows = int(self._ensemble.n_leaves.sum()), len(self._example_statistics())
        sound = all(part.shape == (n_rows, n_leaves) and np.isfinite(part).all() for part in self._leaf_statistics)
        if not self._leaf_statistics or not sound:
            raise ValueError("the leaves' statistics and the trees do not fit together")

    def _example_statistics(self) -> Array:
        """The statistics of one row."""
        raise NotImplementedError


class ClassAveraging(PosteriorAveraging):
    """What it adds to a forest of classes."""

    _averaging_rules: ClassVar = CLASS_OPTIONS
    _averaging_defaults: ClassVar = CLASS_DEFAULTS
    if TYPE_CHECKING:
        _classes_of_targets: Any
        _weighs_bags: Any

    def _leaf_prior(self, options: Mapping[str, Any]) -> ClassPrior:
        return ClassPrior(options["alpha"], tuple(len(classes) for classes in self._classes_of_targets()))

    def _rows_per_weight(self, tree: Tree) -> float:
        reweighted = self._bootstrap is not None and self.class_weight is not None and self._weighs_bags()
        return float(self._bootstrap.draws[-1] / tree.weight[0]) if reweighted else 1.0

    def _example_statistics(self) -> Array:
        targets = self._classes_of_targets()
        return self._leaf_prior(self._averaging_options()).statistics(np.zeros((1, len(targets))))


class NumberAveraging(PosteriorAveraging):
    """What it adds to a forest of numbers."""

    _averaging_rules: ClassVar = NUMBER_OPTIONS
    _averaging_defaults: ClassVar = NUMBER_DEFAULTS
    # Of the targets.
    _location: Array
    _variance: Array

    def _learn_averaging(self, data: TrainingData, matrix: BinnedMatrix) -> None:
        super()._learn_averaging(data, matrix)
        self._location, self._variance = location_and_variance(data.y, data.sample_weight)

    def _leaf_prior(self, options: Mapping[str, Any]) -> NumberPrior | RatePrior:
        if self.criterion == "poisson":
            return RatePrior(self._location, options["prior_weight"])
        shape, scale = options["prior_shape"], options["prior_scale"]
        return NumberPrior(self._location, self._variance, options["prior_weight"], shape, scale)

    def _averaging_arrays(self) -> dict[str, np.ndarray]:
        found = super()._averaging_arrays()
        return found | ({_PREFIX + "location": self._location, _PREFIX + "variance": self._variance} if found else {})

    def _restore_averaging(self, arrays: dict[str, np.ndarray]) -> None:
        if _PREFIX + "location" in arrays:
            self._location, self._variance = arrays[_PREFIX + "location"], arrays[_PREFIX + "variance"]
        super()._restore_averaging(arrays)

    def _example_statistics(self) -> Array:
        return self._leaf_prior(self._averaging_options()).statistics(np.zeros((1, len(self._location))))
