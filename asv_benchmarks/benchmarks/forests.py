"""Growing the trees of forests, through the engine's door, and whole forests: time, peak memory and held-out AUC."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.common import Benchmark
from benchmarks.datasets import generated
from benchmarks.forest_models import FOREST_PEERS, ForestSettings
from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target, number_target

N_ROWS = 50_000
N_FEATURES = 28
RULES = {
    "forest": ForestParameters(features_per_split=5),
    "entropy": ForestParameters("entropy", features_per_split=5),
    "extra trees": ForestParameters(features_per_split=5, random_thresholds=True),
    "all features": ForestParameters(),
    "100 leaves": ForestParameters(max_leaf_nodes=100),
    "numbers": ForestParameters("squared_error", features_per_split=9),
}


class GrowTrees(Benchmark):
    """Two trees on bootstrap samples."""

    param_names = ["rules", "n_threads"]
    params = [list(RULES), [1, 2]]

    def setup(self, rules: str, n_threads: int) -> None:
        data = generated(N_ROWS, N_FEATURES, regression=rules == "numbers")
        target = number_target(data.y) if rules == "numbers" else class_target(data.y, [2])
        self.grower = ForestGrower(learn_binning(data.X).transform(data.X), target, RULES[rules], n_threads, X=data.X)
        rng = np.random.default_rng(0)
        bags = [np.bincount(rng.integers(0, N_ROWS, N_ROWS), minlength=N_ROWS).astype(float) for _ in range(2)]
        self.samples = [TreeSample(bag, None, seed) for seed, bag in enumerate(bags)]

    def time_grow(self, rules: str, n_threads: int) -> None:
        self.grower.grow(self.samples)

    def time_grow_one(self, rules: str, n_threads: int) -> None:
        self.grower.grow(self.samples[:1])


class Forests(Benchmark):
    param_names = ["kind", "n_rows"]
    params = [["forest", "extra trees", "bagging"], [1000, N_ROWS]]

    def setup(self, kind: str, n_rows: int) -> None:
        self.data, self.other = generated(n_rows, N_FEATURES), generated(10_000, N_FEATURES, seed=1)
        self.settings = ForestSettings(kind, n_trees=20)

    def fit(self) -> object:
        return FOREST_PEERS[0].make(self.settings).fit(self.data.X, self.data.y)

    def time_fit(self, kind: str, n_rows: int) -> None:
        self.fit()

    def peakmem_fit(self, kind: str, n_rows: int) -> None:
        self.fit()

    def track_auc(self, kind: str, n_rows: int) -> float:
        return float(roc_auc_score(self.other.y, self.fit().predict_proba(self.other.X)[:, 1]))
