"""Trees that are grown without a target, by random splits of random columns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastens.base import BaseFastens
from fastens.checked_parameters import with_parameters
from fastens.docstrings import Docs, entries
from fastens.engine.bins.binning import learn_binning
from fastens.engine.bins.sparse_binned import binned
from fastens.engine.comm import gathered
from fastens.engine.forest.forests import ForestGrower, TreeRules, number_target
from fastens.engine.rows.sampling import checked_seed, content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.tree_store import TreeStore
from fastens.forests.bags import Bags, OwnRows, Samples, check_continued, draw_seed
from fastens.forests.forest_members import Members
from fastens.parameters import ANYTHING, FLAG, RANDOM_STATE, parameter, whole
from fastens.table.memory_limits import FitNeeds
from fastens.table.present_rows import present_part
from fastens.table.sample_weights import WEIGHT_TYPE, check_weights, unless_ones
from fastens.tree_model.column_rules import check_same_rules
from fastens.tree_model.docs import DOCS as TREE_DOCS
from fastens.tree_model.saving import SavedEnsemble

Array = NDArray[np.float64]
_SEED = "seed"

DOCS = TREE_DOCS | entries("""\
n_estimators : int
    Number of trees.
warm_start : bool
    `fit` adds trees to those there are, up to `n_estimators`: given the same rows, the same trees as all at once.
""")


@with_parameters
class RandomSplits(SavedEnsemble, BaseFastens):
    """Trees of random splits."""

    n_estimators: int = parameter(whole(1), default=100, kw_only=False)
    categorical_features: Any = parameter(ANYTHING, default="from_dtype")
    max_bins: int = parameter(whole(2, 65_535), default=255)
    weight_type: str = parameter(WEIGHT_TYPE, default="auto")
    warm_start: bool = parameter(FLAG, default=False)
    random_state: Any = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = DOCS
    _takes_parts = True

    def _grow_at_random(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        """Grow the trees; return the rows that have a weight, as they were given, and these weights; None for ones."""
        self._check_parameters()
        continues = self._continues()
        if continues:
            check_continued(self.n_estimators, self._ensemble.n_trees, "trees")
            check_same_rules(self)
        comm = self._comm
        self._check_ranks()
        needs = FitNeeds.of(self, weighted=sample_weight is not None)
        X, sample_weight = present_part(X, sample_weight, comm)
        table = self._encode_table(X) if continues else self._learn_table(X, needs)
        if continues and (limits := getattr(table, "limits", None)) is not None:
            table.place = needs.place(limits, table)
        weight = check_weights(sample_weight, table.shape[0], comm)
        weight = unless_ones(self._weights_to_count(weight, is_fit=True), comm)
        n_threads = resolve_n_jobs(self.n_jobs)
        if not continues or not hasattr(self, "_seed"):  # models of other libraries have no seed of ours
            self._seed: int = comm.gather(draw_seed(self.random_state))[0]
        self._warn_of_pooled()
        is_categorical = self._is_categorical
        known = self._ensemble.binning if continues else None
        binning = known or learn_binning(table, weight, self.max_bins, is_categorical, n_threads, comm)
        store = TreeStore(binning, 1, self.n_estimators)
        if continues:
            store.keep(self._ensemble)
        hashes = content_hashes(table, np.zeros(table.shape[0]), n_threads)
        own, (all_hashes, all_weights) = OwnRows.of(comm, len(hashes)), gathered(comm, [hashes, weight])
        bags = self._bags(self._seed, all_hashes, all_weights)
        given = all_weights if bags.draws is None else None
        samples = Samples(bags, given, store.n_trees, self.n_estimators, own)
        # Targets that differ between rows: no node is pure, so that all is left to the random splits.
        target = number_target((hashes / 2.0**64)[:, None], comm=comm)
        matrix = binned(binning, table, n_threads, comm)
        total = float(len(all_hashes) if all_weights is None else all_weights.sum())
        grower = ForestGrower(matrix, target, self._rules(len(all_hashes), total), n_threads, X=table)
        grower.grow_into(store.add, samples, store.n_trees)
        self._ensemble = store.ensemble()
        return X, weight

    def _continues(self) -> bool:
        """Whether trees are added to those of the last fit."""
        return self.warm_start and hasattr(self, "_ensemble")

    def _bags(self, seed: int, hashes: NDArray[np.uint64], weight: Array | None) -> Bags:
        """What each tree is grown on, given the rows' hashes and weights: all rows and columns."""
        n_features = len(self._column_of)
        return Bags(seed, None, n_features, n_features)

    def _rules(self, n_rows: int, total_weight: float) -> TreeRules:
        """How far trees are grown on so many rows."""
        raise NotImplementedError

    def _of_members(self) -> dict[str, Any]:
        """The parameters that trees by themselves have."""
        return self._every_parameter() | {"splitter": "random", "max_features": 1}

    @property
    def estimators_(self) -> Members:
        """The trees, each as a regression tree of its own that is made when asked for."""
        self._check_fitted()
        return Members(self)

    def __len__(self) -> int:
        """The number of trees."""
        return len(self.estimators_)

    def __getitem__(self, index: Any) -> Any:
        """A tree, or a list of those of a slice, as `estimators_` has them."""
        return self.estimators_[index]

    def apply(self, X: ArrayLike) -> NDArray[np.int32]:
        """Return the number of the leaf that each row falls into in each tree, (n_samples, n_estimators)."""
        return self._leaves(X)

    def _fitted_arrays(self) -> dict[str, np.ndarray]:
        return super()._fitted_arrays() | ({_SEED: np.array(self._seed)} if hasattr(self, "_seed") else {})

    def _restore_fitted(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_fitted(arrays)
        if _SEED in arrays:
            self._seed = checked_seed(arrays[_SEED].item())

    def _n_outputs(self) -> int:
        return 1
