"""Small tables and single rows, where set-up costs more than work: the oldest complaint about boosting libraries."""

from __future__ import annotations

from benchmarks.boosting import FASTENS
from benchmarks.common import Benchmark
from benchmarks.datasets import generated
from benchmarks.peer_models import Settings


class SmallFit(Benchmark):
    param_names = ["n_rows", "n_threads"]
    params = [[100, 1000, 10_000], [1, 2]]

    def setup(self, n_rows: int, n_threads: int) -> None:
        self.table = generated(n_rows, 10)
        self.settings = Settings(n_threads=n_threads)

    def time_fit(self, *_: int) -> None:
        FASTENS.fit(self.table.X, self.table.y, self.settings)

    def peakmem_fit(self, *_: int) -> None:
        FASTENS.fit(self.table.X, self.table.y, self.settings)


class SmallPredict(Benchmark):
    param_names = ["n_rows"]
    params = [[1, 10, 100, 1000]]

    def setup(self, n_rows: int) -> None:
        table = generated(10_000, 28)
        self.model = FASTENS.fit(table.X, table.y, Settings())
        self.X = table.X[:n_rows]

    def time_predict(self, *_: int) -> None:
        self.model.predict(self.X)

    def time_predict_proba(self, *_: int) -> None:
        self.model.predict_proba(self.X)
