"""Forests of fully grown trees after training: prediction, size, pruning."""

from __future__ import annotations

import pickle

from benchmarks.common import Benchmark
from benchmarks.datasets import generated
from fastens import RandomForestClassifier
from fastens.engine.grow.growth import pruning_path


class DeepForest(Benchmark):
    """100 trees of some 2 900 leaves; thresholds of 255 or up to 65 535 bins are codes of one byte or two."""

    param_names = ["max_bins", "n_threads"]
    params = [[255, 65_535], [1, 2]]

    def setup(self, max_bins: int, n_threads: int) -> None:
        table = generated(20_000, 28)
        self.X = generated(50_000, 28, seed=1).X
        self.model = RandomForestClassifier(100, max_bins=max_bins, n_jobs=n_threads, random_state=0)
        self.model.fit(table.X, table.y)
        self.trees = self.model._ensemble
        self.trees.compiled  # noqa: B018
        self.tree = self.trees.tree(0)

    def time_predict(self, max_bins: int, n_threads: int) -> None:
        self.trees.predict_raw(self.X, n_threads)

    def time_apply(self, max_bins: int, n_threads: int) -> None:
        self.trees.apply(self.X[:10_000], n_threads)

    def time_predict_one_row(self, max_bins: int, n_threads: int) -> None:
        self.trees.predict_raw(self.X[:1], 1)

    def peakmem_predict(self, max_bins: int, n_threads: int) -> None:
        self.trees.predict_raw(self.X, n_threads)

    def time_pickle(self, max_bins: int, n_threads: int) -> None:
        pickle.loads(pickle.dumps(self.trees))

    def time_pruning_path(self, max_bins: int, n_threads: int) -> None:
        pruning_path(self.tree)

    def track_bytes_per_node(self, max_bins: int, n_threads: int) -> float:
        return len(pickle.dumps(self.trees)) / len(self.trees.feature)
