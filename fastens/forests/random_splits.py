"""Trees that are grown without a target, by random splits of random columns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fastens.base import BaseFastens
from fastens.checked_parameters import with_parameters
from fastens.docstrings import Docs, entries
from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, TreeRules, number_target
from fastens.engine.rows.sampling import content_hashes
from fastens.engine.threads import resolve_n_jobs
from fastens.engine.trees.trees import TreeEnsemble
from fastens.forests.bags import Bags, Samples, draw_seed
from fastens.parameters import ANYTHING, RANDOM_STATE, parameter, whole
from fastens.table.opening import in_parts, place_within_limits
from fastens.table.sample_weights import check_weights
from fastens.tree_model.docs import DOCS as TREE_DOCS
from fastens.tree_model.saving import SavedEnsemble

Array = NDArray[np.float64]

DOCS = TREE_DOCS | entries("""\
n_estimators : int
    Number of trees.
""")


@with_parameters
class RandomSplits(SavedEnsemble, BaseFastens):
    """Trees of random splits."""

    n_estimators: int = parameter(whole(1), default=100, kw_only=False)
    categorical_features: Any = parameter(ANYTHING, default="from_dtype")
    max_bins: int = parameter(whole(2, 65_535), default=255)
    random_state: Any = parameter(RANDOM_STATE, default=None)
    n_jobs: int | None = parameter(ANYTHING, default=None)

    _docs: ClassVar[Docs] = DOCS

    def _grow_at_random(self, X: Any, sample_weight: Any) -> tuple[NDArray[np.intp] | None, Array | None]:
        """Grow the trees; return which rows have a weight, and these weights; None for all of them, and for ones."""
        self._check_parameters()
        X = in_parts(X)
        place_within_limits(X, self)
        table = self._learn_placed(X)
        weight = check_weights(sample_weight, table.shape[0])
        kept = None if weight is None else np.flatnonzero(weight)
        if weight is not None:
            table, weight = table[kept], weight[kept]
        n_threads = resolve_n_jobs(self.n_jobs)
        seed = draw_seed(self.random_state)
        binning = learn_binning(table, weight, self.max_bins, self._encoder.is_categorical, n_threads)
        hashes = content_hashes(table, np.zeros(table.shape[0]), n_threads)
        bags = self._bags(seed, hashes, weight)
        samples = Samples(bags, weight if bags.draws is None else None, 0, self.n_estimators)
        # Targets that differ between rows: no node is pure, so that all is left to the random splits.
        target = number_target((hashes / 2.0**64)[:, None])
        matrix = binning.transform(table, n_threads)
        trees = ForestGrower(matrix, target, self._rules(), n_threads, X=table).grow(samples)
        self._ensemble = TreeEnsemble.from_trees(trees, [0] * self.n_estimators, [0.0], binning)
        return kept, weight

    def _bags(self, seed: int, hashes: NDArray[np.uint64], weight: Array | None) -> Bags:
        """What each tree is grown on, given the rows' hashes and weights: all rows and columns."""
        return Bags(seed, None, self.n_features_in_, self.n_features_in_)

    def _rules(self) -> TreeRules:
        """How far trees are grown."""
        raise NotImplementedError

    def _n_outputs(self) -> int:
        return 1
