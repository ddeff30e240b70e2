"""Each kernel through the engine's door: bins, gradients, one tree, score update, prediction.

The tree is measured as a whole and by its parts: a stump is the root's histogram, a search of its splits and one
partition; what a further leaf costs is the difference to trees of 31 and 255 leaves.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from benchmarks.common import Benchmark
from benchmarks.datasets import generated
from fastens.engine.bins.binning import bundled, learn_binning, without_bundles
from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from fastens.engine.losses.loss_names import REGRESSION, classification_loss, regression_loss
from fastens.engine.trees.trees import TreeEnsemble

N_ROWS = 200_000
N_FEATURES = 28
THREADS = [1, 2]


class Bins(Benchmark):
    param_names = ["dtype", "max_bins", "n_threads"]
    params = [["float32", "float64"], [255, 1023], THREADS]

    def setup(self, dtype: str, max_bins: int, n_threads: int) -> None:
        self.X = generated(N_ROWS, N_FEATURES).X.astype(dtype)
        self.binning = learn_binning(self.X, max_bins=max_bins)

    def time_learn(self, dtype: str, max_bins: int, n_threads: int) -> None:
        learn_binning(self.X, max_bins=max_bins, n_threads=n_threads)

    def time_transform(self, dtype: str, max_bins: int, n_threads: int) -> None:
        self.binning.transform(self.X, n_threads)

    def peakmem_transform(self, dtype: str, max_bins: int, n_threads: int) -> None:
        self.binning.transform(self.X, n_threads)

    def time_codes(self, dtype: str, max_bins: int, n_threads: int) -> None:
        self.binning.codes(self.X, n_threads)


class Losses(Benchmark):
    param_names = ["loss", "n_threads"]
    params = [[*REGRESSION, "log_loss", "exponential"], THREADS]

    def setup(self, name: str, n_threads: int) -> None:
        rng = np.random.default_rng(0)
        self.loss = regression_loss(name, 0.8) if name in REGRESSION else classification_loss(name, 2)
        self.y = rng.integers(0, 2, N_ROWS).astype(np.float64) + (name == "gamma")
        self.raw = rng.standard_normal((1, N_ROWS))
        self.gradients = np.empty((1, N_ROWS), dtype=np.float32)
        self.hessians = np.ones((1, N_ROWS), dtype=np.float32)
        self.loss.start_round(self.y, self.raw)

    def time_gradients(self, name: str, n_threads: int) -> None:
        self.loss.gradients(self.y, self.raw, self.gradients, self.hessians, n_threads)

    def time_loss(self, name: str, n_threads: int) -> None:
        self.loss.loss(self.y, self.raw)

    def time_start(self, name: str, n_threads: int) -> None:
        self.loss.start(self.y)


class Trees(Benchmark):
    param_names = ["n_leaves", "n_threads"]
    params = [[2, 31, 255], THREADS]

    def setup(self, n_leaves: int, n_threads: int) -> None:
        table = generated(N_ROWS, N_FEATURES)
        self.X = table.X
        self.binning = learn_binning(table.X)
        self.gradients = (0.5 - table.y).astype(np.float32)
        self.hessians = np.full(N_ROWS, 0.25, dtype=np.float32)
        rules = GrowthParameters(max_leaf_nodes=n_leaves)
        self.grower = TreeGrower(self.binning.transform(table.X), rules, n_threads=n_threads)
        self.tree = self.grower.grow(self.gradients, self.hessians)
        self.ensemble = TreeEnsemble.from_trees([self.tree] * 100, [0] * 100, np.zeros(1), self.binning)
        self.raw = np.zeros(N_ROWS)

    def time_grow(self, n_leaves: int, n_threads: int) -> None:
        self.grower.grow(self.gradients, self.hessians)

    def time_update_scores(self, n_leaves: int, n_threads: int) -> None:
        self.grower.add_values(self.tree.value, self.raw)

    def time_predict_100_trees(self, n_leaves: int, n_threads: int) -> None:
        self.ensemble.predict_raw(self.X, n_threads)

    def time_predict_one_row(self, n_leaves: int, n_threads: int) -> None:
        self.ensemble.predict_raw(self.X[:1], 1)


class Bundles(Benchmark):
    """What bundles gain on one-hot columns: a tree with and without them, which are the same to the bit."""

    param_names = ["bundles", "n_threads"]
    params = [[True, False], THREADS]

    def setup(self, bundles: bool, n_threads: int) -> None:
        rng = np.random.default_rng(0)
        level = rng.integers(0, 20, (N_ROWS, 10))
        X = (level[:, :, None] == np.arange(20)).reshape(N_ROWS, -1).astype(np.float32)
        self.matrix = learn_binning(X).transform(X)
        self.gradients = (level.sum(axis=1) % 7 - rng.normal(3, 1, N_ROWS)).astype(np.float32)
        self.hessians = np.ones(N_ROWS, dtype=np.float32)
        with nullcontext() if bundles else without_bundles():
            self.grower = TreeGrower(bundled(self.matrix), GrowthParameters(), n_threads=n_threads)

    def time_bundle(self, bundles: bool, n_threads: int) -> None:
        if bundles:
            bundled(self.matrix, n_threads=n_threads)

    def time_grow(self, bundles: bool, n_threads: int) -> None:
        self.grower.grow(self.gradients, self.hessians)
