"""What is compared: each workload is a function from Options to Results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.datasets import REAL_TABLES, Table, generated, real
from benchmarks.peer_models import PREDICTS_ONLY, Peer, Settings, loss
from comparison.measure import Goal, Result, interleaved, median_of_calls, peak_memory

BASELINE = "LightGBM"
N_TREES = 100


@dataclass(frozen=True)
class Options:
    """How much to run: which libraries, how many rounds, and the share of the full number of rows."""

    peers: list[Peer]
    repeats: int = 5
    scale: float = 1.0

    def rows(self, n_rows: int) -> int:
        return max(1000, int(n_rows * self.scale))

    @property
    def fitting(self) -> list[Peer]:
        return [peer for peer in self.peers if peer is not PREDICTS_ONLY]

    @property
    def predicting(self) -> list[Peer]:
        """Without the variants of a library whose trees predict the same way."""
        return [peer for peer in self.peers if peer.name not in {"LightGBM quantised", "XGBoost depthwise"}]


def fit_large(options: Options, n_threads: int, n_leaves: int, goals: list[Goal]) -> list[Result]:
    table = generated(options.rows(1_000_000), 28)
    settings = Settings(n_threads=n_threads, n_leaves=n_leaves)
    title = f"fit {table.y.size:,} x 28, {N_TREES} trees, {n_leaves} leaves, {plural(n_threads)}"
    return [Result(title, "s", time_fits(options, table, settings), goals)]


def fit_small(options: Options) -> list[Result]:
    table, settings = generated(1000, 10), Settings()
    more_rounds = Options(options.peers, 4 * options.repeats)
    values = time_fits(more_rounds, table, settings, unit=1e3)
    return [Result(f"fit 1,000 x 10, {N_TREES} trees, 31 leaves, 1 thread", "ms", values, [Goal(15, 8)])]


def time_fits(options: Options, table: Table, settings: Settings, unit: float = 1.0) -> dict[str, list[float]]:
    for peer in options.fitting:
        peer.fit(table.X[:2000], table.y[:2000], settings)  # loads the library and starts its threads
    calls = {peer.name: (lambda peer=peer: peer.fit(table.X, table.y, settings)) for peer in options.fitting}
    return interleaved(calls, options.repeats, unit)


def predict(options: Options, n_threads: int, n_leaves: int, goals: list[Goal]) -> list[Result]:
    table = generated(options.rows(200_000), 28)
    settings = Settings(n_threads=n_threads, n_leaves=n_leaves)
    calls = {}
    # daal4py 2024.7 crashes the process while it converts trees of 255 leaves.
    peers = options.predicting if n_leaves <= 31 else [peer for peer in options.predicting if peer is not PREDICTS_ONLY]
    for peer in peers:
        model = peer.fit(table.X, table.y, settings)
        calls[peer.name] = lambda peer=peer, model=model: peer.predict(model, table.X, settings)
        calls[peer.name]()
    values = interleaved(calls, 2 * options.repeats, 1e9 / table.y.size / N_TREES)
    title = f"predict {table.y.size:,} rows, {N_TREES} trees of {n_leaves} leaves, {plural(n_threads)}"
    return [Result(title, "ns per row and tree", values, goals)]


def single_row(options: Options) -> list[Result]:
    table, settings = generated(20_000, 28), Settings()
    row = table.X[:1]
    models = {peer: peer.make(settings).fit(table.X, table.y) for peer in options.predicting}
    values: dict[str, list[float]] = {peer.name: [] for peer in models}
    for _ in range(options.repeats):
        for peer, model in models.items():
            values[peer.name].append(1e6 * median_of_calls(lambda model=model: model.predict_proba(row), 200))
    return [Result(f"predict_proba of one row, {N_TREES} trees of 31 leaves", "us", values, [Goal(30, 15)])]


def memory(options: Options) -> list[Result]:
    table = generated(options.rows(1_000_000), 28)
    n_rows, n_columns = table.X.shape
    values = {peer.name: [peak_memory(peer.name, table.X, table.y, 2)] for peer in options.fitting}
    goal = Goal(*[n_rows * (2 * n_columns + per_row) / 2**20 for per_row in (40, 24)])
    return [Result(f"peak memory of fit above the input, {n_rows:,} x 28", "MiB", values, [goal])]


def real_tables(options: Options) -> list[Result]:
    """Held-out loss relative to LightGBM's on ten real tables, mean over three splits, and the seconds of the fits."""
    losses: dict[str, dict[str, float]] = {}
    seconds: dict[str, list[float]] = {}
    # CatBoost takes neither numbers nor missing values as categories.
    peers = [peer for peer in options.fitting if peer.module != "catboost"]
    for name in REAL_TABLES:
        table = real(name)
        found = [held_out(peers, table, seed) for seed in range(3)]
        losses[name] = {peer.name: float(np.mean([one[peer.name][0] for one in found])) for peer in peers}
        for peer in peers:
            # The first fit of all imports the library: the median leaves that out.
            seconds.setdefault(peer.name, []).append(float(np.median([one[peer.name][1] for one in found])))
    tables = list(REAL_TABLES)
    results = [Result("fit ten real tables, 2 threads, mean", "s", seconds, labels=tables)]
    if any(peer.name == BASELINE for peer in peers):
        relative = {peer.name: [losses[name][peer.name] / losses[name][BASELINE] for name in tables] for peer in peers}
        worst = {peer: [max(ratios)] for peer, ratios in relative.items()}
        title = "held-out loss relative to LightGBM's, ten real tables, 3 splits"
        results.insert(0, Result(f"{title}, mean", "", relative, [Goal(1.005, 1.0)], tables))
        results.insert(1, Result(f"{title}, worst table", "", worst, [Goal(1.02, 1.0)]))
    return results


def held_out(peers: list[Peer], table: Table, seed: int) -> dict[str, tuple[float, float]]:
    """Loss on a quarter of the rows and seconds of the fit on the others, by library."""
    settings = Settings(n_threads=2, regression=table.is_regression)
    classes = None if table.is_regression else table.y
    X, X_test, y, y_test = train_test_split(table.X, table.y, test_size=0.25, random_state=seed, stratify=classes)
    found = {}
    for peer in peers:
        fitted = {}
        timed = interleaved({peer.name: lambda peer=peer, fitted=fitted: fitted.update(m=peer.fit(X, y, settings))}, 1)
        prediction = peer.predict(fitted["m"], X_test, settings)
        found[peer.name] = loss(y_test, prediction, regression=table.is_regression), timed[peer.name][0]
    return found


def plural(n_threads: int) -> str:
    return f"{n_threads} thread" + "s" * (n_threads > 1)


def faster(*against: tuple[str, float, float]) -> list[Goal]:
    return [Goal(must, aim, peer) for peer, must, aim in against]


WORKLOADS: dict[str, Callable[[Options], list[Result]]] = {
    "fit-31": lambda o: fit_large(o, 2, 31, faster((BASELINE, 2.2, 3), ("LightGBM quantised", 1.6, 2))),
    "fit-31-1": lambda o: fit_large(o, 1, 31, faster((BASELINE, 2.2, 3))),
    "fit-255": lambda o: fit_large(o, 2, 255, faster((BASELINE, 1.8, 2.5))),
    "fit-small": fit_small,
    "predict-31": lambda o: predict(o, 2, 31, faster((BASELINE, 8, 20), ("oneDAL", 1.5, 3.5))),
    "predict-31-1": lambda o: predict(o, 1, 31, []),
    "predict-255": lambda o: predict(o, 2, 255, faster((BASELINE, 4, 8))),
    "single-row": single_row,
    "memory": memory,
    "loss": real_tables,
}
