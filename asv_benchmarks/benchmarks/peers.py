"""The peers on matched settings, for asv's history; compare_peers.py interleaves them in one run and prints ratios."""

from __future__ import annotations

from benchmarks.common import Benchmark
from benchmarks.datasets import REAL_TABLES, Table, data_folder, generated, real
from benchmarks.peer_models import PEERS, PREDICTS_ONLY, Peer, Settings, loss


def installed(name: str) -> Peer:
    """The peer of that name; asv leaves the benchmark out where it is not installed."""
    peer = next(peer for peer in PEERS if peer.name == name)
    if not peer.is_installed():
        raise NotImplementedError(f"{name} is not installed")
    return peer


class Fit(Benchmark):
    param_names = ["peer", "table", "n_threads"]
    params = [
        [peer.name for peer in PEERS if peer is not PREDICTS_ONLY],
        ["generated", "california_housing", "magic_telescope"],
        [1, 2],
    ]

    def setup(self, peer: str, table: str, n_threads: int) -> None:
        self.peer = installed(peer)
        self.table = self.load(table)
        if peer.startswith("CatBoost") and table == "california_housing":
            raise NotImplementedError("CatBoost wants categories as text")
        self.settings = Settings(n_threads=n_threads, n_trees=20, regression=self.table.is_regression)

    def load(self, name: str) -> Table:
        if name not in REAL_TABLES:
            return generated(100_000, 28)
        if data_folder() is None:
            raise NotImplementedError("no folder of real tables")
        return real(name)

    def time_fit(self, *_: object) -> None:
        self.peer.fit(self.table.X, self.table.y, self.settings)

    def peakmem_fit(self, *_: object) -> None:
        self.peer.fit(self.table.X, self.table.y, self.settings)

    def track_training_loss(self, *_: object) -> float:
        model = self.peer.fit(self.table.X, self.table.y, self.settings)
        prediction = self.peer.predict(model, self.table.X, self.settings)
        return loss(self.table.y, prediction, regression=self.table.is_regression)


class Predict(Benchmark):
    param_names = ["peer", "n_leaves", "n_threads"]
    params = [[peer.name for peer in PEERS], [31, 255], [1, 2]]

    def setup(self, peer: str, n_leaves: int, n_threads: int) -> None:
        self.peer = installed(peer)
        self.X = generated(50_000, 28).X
        self.settings = Settings(n_threads=n_threads, n_leaves=n_leaves)
        self.model = self.peer.fit(self.X, generated(50_000, 28).y, self.settings)

    def time_predict(self, *_: object) -> None:
        self.peer.predict(self.model, self.X, self.settings)
