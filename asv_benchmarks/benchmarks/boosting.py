"""Both estimators: time, peak memory and held-out loss, on one and two threads."""

from __future__ import annotations

from benchmarks.common import Benchmark
from benchmarks.datasets import Table, generated
from benchmarks.peer_models import PEERS, Settings, loss

FASTENS = PEERS[0]


class Estimator(Benchmark):
    """fit and predict of one estimator; what differs is the table."""

    param_names = ["n_rows", "n_leaves", "n_threads"]
    params = [[20_000, 200_000], [31, 255], [1, 2]]
    regression = False

    def setup(self, n_rows: int, n_leaves: int, n_threads: int) -> None:
        self.table = self.make(n_rows, seed=0)
        self.held_out = self.make(20_000, seed=1)
        self.settings = Settings(n_threads=n_threads, n_leaves=n_leaves, n_trees=20, regression=self.regression)
        self.model = FASTENS.fit(self.table.X, self.table.y, self.settings)

    def make(self, n_rows: int, seed: int) -> Table:
        return generated(n_rows, 28, regression=self.regression, seed=seed)

    def time_fit(self, *_: int) -> None:
        FASTENS.fit(self.table.X, self.table.y, self.settings)

    def peakmem_fit(self, *_: int) -> None:
        FASTENS.fit(self.table.X, self.table.y, self.settings)

    def time_predict(self, *_: int) -> None:
        FASTENS.predict(self.model, self.table.X, self.settings)

    def peakmem_predict(self, *_: int) -> None:
        FASTENS.predict(self.model, self.table.X, self.settings)

    def track_held_out_loss(self, *_: int) -> float:
        prediction = FASTENS.predict(self.model, self.held_out.X, self.settings)
        return loss(self.held_out.y, prediction, regression=self.regression)


class Classifier(Estimator):
    pass


class Regressor(Estimator):
    regression = True


del Estimator
