"""What is compared: each workload is a function from Options to Results."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier as PeerForest
from sklearn.model_selection import train_test_split

import fastens
from benchmarks.datasets import REAL_TABLES, Table, generated, real
from benchmarks.peer_models import PREDICTS_ONLY, Peer, Settings, loss, make_fastens, make_lightgbm
from comparison.generated_tables import tfidf
from comparison.measure import ROOT, Goal, Result, Values, interleaved, median_of_calls, peak_memory

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
    table, settings = generated(1000, 28), Settings()
    more_rounds = Options(options.peers, 4 * options.repeats)
    values = time_fits(more_rounds, table, settings, unit=1e3)
    goals = faster(("bonsai-gbt", 2.5, 3), (BASELINE, 5, 6))
    return [Result(f"fit 1,000 x 28, {N_TREES} trees, 31 leaves, 1 thread", "ms", values, goals)]


def time_fits(options: Options, table: Table, settings: Settings, unit: float = 1.0) -> dict[str, list[float]]:
    for peer in options.fitting:
        peer.fit(table.X[:2000], table.y[:2000], settings)  # loads the library and starts its threads
    calls = {peer.name: (lambda peer=peer: peer.fit(table.X, table.y, settings)) for peer in options.fitting}
    return interleaved(calls, options.repeats, unit)


def predict(options: Options, n_threads: int, n_leaves: int, kind: Any, goals: list[Goal]) -> list[Result]:
    table = generated(options.rows(200_000), 28)
    settings, rows = Settings(n_threads=n_threads, n_leaves=n_leaves), table.X.astype(kind)
    calls = {}
    # daal4py 2024.7 crashes the process while it converts trees of 255 leaves.
    peers = options.predicting if n_leaves <= 31 else [peer for peer in options.predicting if peer is not PREDICTS_ONLY]
    for peer in peers:
        model = peer.fit(table.X, table.y, settings)
        calls[peer.name] = lambda peer=peer, model=model: peer.predict(model, rows, settings)
        calls[peer.name]()
    values = interleaved(calls, 2 * options.repeats, 1e9 / table.y.size / N_TREES)
    title = f"predict {table.y.size:,} {rows.dtype} rows, {N_TREES} trees of {n_leaves} leaves, {plural(n_threads)}"
    return [Result(title, "ns per row and tree", values, goals)]


def single_row(options: Options) -> list[Result]:
    """Time the probabilities of one row of an array and of a frame, in one thread."""
    table, settings = generated(20_000, 28), Settings()
    frame = pd.DataFrame(table.X, columns=[f"x{index}" for index in range(28)])
    times: dict[str, Values] = {"array": {}, "frame": {}}
    models = {peer: [peer.fit(X, table.y, settings) for X in (table.X, frame)] for peer in options.predicting}
    for _ in range(options.repeats):
        for peer, fitted in models.items():
            for kind, model, row in zip(times, fitted, (table.X[:1], frame[:1]), strict=True):
                if kind == "frame" and peer is PREDICTS_ONLY:
                    continue
                with peer.limits(settings.n_threads):
                    call = partial(peer.predictor(model, settings), row)
                    times[kind].setdefault(peer.name, []).append(1e6 * median_of_calls(call, 200))
    shares = {
        name: [a / b for a, b in zip(each, times["array"][name], strict=True)] for name, each in times["frame"].items()
    }
    title = f"predict_proba of one row, {N_TREES} trees of 31 leaves, 1 thread"
    return [
        Result(title, "us", times["array"], [Goal(30, 15)]),
        Result("one row of a frame over one row of an array", "", shares, [Goal(5, 3)]),
    ]


def memory(options: Options) -> list[Result]:
    table = generated(options.rows(5_000_000), 28)
    n_rows = len(table.X)
    values = {peer.name: [peak_memory(peer.name, table.X, table.y, 2) * 2**20 / n_rows] for peer in options.fitting}
    return [Result(f"peak memory of fit above the input, {n_rows:,} x 28", "bytes per row", values, [Goal(65, 55)])]


def wide_fit(options: Options) -> list[Result]:
    """Time fits of `compare_wide.py`, with and without the start of the process and the generation of the table."""
    fits: Values = {}
    processes: Values = {}
    for _ in range(options.repeats):
        for peer in options.peers:
            if peer.name in ("fastens", BASELINE):
                command = [sys.executable, str(ROOT / "compare_wide.py"), "--measure", peer.name.lower(), "tfidf"]
                start = time.perf_counter()
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                processes.setdefault(peer.name, []).append(time.perf_counter() - start)
                fits.setdefault(peer.name, []).append(float(done.stdout.split()[-6]))
    title = "fit TF-IDF 18,846 x 50,000, 20 trees, 2 threads"
    return [
        Result(title, "s", fits),
        Result(f"{title}, with the start of the process and the table", "s", processes, faster((BASELINE, 2, 3))),
    ]


def wide_forest(options: Options) -> list[Result]:
    """Time predictions of forests for TF-IDF in one thread; each library predicts with its own forest."""
    X, y = tfidf(options.rows(5000))
    models = {
        "fastens": fastens.RandomForestClassifier(20, random_state=0, n_jobs=1),
        "scikit-learn": PeerForest(20, random_state=0, n_jobs=1),
    }
    calls = {name: partial(model.fit(X, y).predict_proba, X) for name, model in models.items()}
    values = interleaved(calls, 2 * options.repeats, 1e3)
    title = f"predict TF-IDF {X.shape[0]:,} x 50,000, 20 trees of a forest, 1 thread"
    return [Result(title, "ms", values, faster(("scikit-learn", 1, 2)))]


def second_thread(options: Options, method: str, n_rows: int, n_leaves: int, goal: Goal) -> list[Result]:
    """Time a call in one thread and in two."""
    table = generated(50_000, 28)
    rows = generated(options.rows(n_rows), 28, seed=1).X
    one, two = (make_fastens(Settings(n, n_leaves)).fit(table.X, table.y) for n in (1, 2))
    calls = {"fastens": partial(getattr(two, method), rows), ONE_THREAD: partial(getattr(one, method), rows)}
    for call in calls.values():
        call()
    values = interleaved(calls, 3 * options.repeats, 1e3)
    title = f"{method} of {len(rows):,} rows, {N_TREES} trees of {n_leaves} leaves, 2 threads"
    return [Result(title, "ms", values, [goal])]


def busy(options: Options) -> list[Result]:
    """Time AdaBoost in two threads while one core is busy, relative to one thread on an idle machine."""
    from compare_busy import adaboost, busy_cores

    calls = adaboost()
    two, one = calls["fastens, 2"], calls["fastens, 1"]
    shares = []
    for _ in range(options.repeats):
        idle = interleaved({"fastens": one}, 3)["fastens"]
        with busy_cores(1):
            shares.append(statistics.median(interleaved({"fastens": two}, 3)["fastens"]) / statistics.median(idle))
    title = "AdaBoost, two threads with one core busy over one thread with none"
    return [Result(title, "", {"fastens": shares}, [Goal(1.15, 1.0)])]


def reading(options: Options) -> list[Result]:
    """Time `from_model` for a Booster, which first writes its text, and for the text file."""
    table = generated(20_000, 28)
    booster = make_lightgbm(Settings(n_threads=2, n_trees=1000)).fit(table.X, table.y).booster_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        booster.save_model(path)
        calls = {
            kind: partial(fastens.from_model, model) for kind, model in (("Booster", booster), ("text file", path))
        }
        values = interleaved(calls, 3 * options.repeats, 1e3)
    title = "from_model, LightGBM's 1,000 trees of 31 leaves"
    return [Result(f"{title}, {kind}", "ms", {"fastens": each}, [Goal(60, 30)]) for kind, each in values.items()]


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


SYMMETRIC = "CatBoost symmetric"
ONE_THREAD = "fastens, 1 thread"
WORKLOADS: dict[str, Callable[[Options], list[Result]]] = {
    "fit-31": lambda o: fit_large(
        o, 2, 31, faster(("bonsai-gbt", 2.2, 2.5), (BASELINE, 3.3, 3.6), ("LightGBM quantised", 2.9, 3.2))
    ),
    "fit-31-1": lambda o: fit_large(o, 1, 31, []),
    "fit-255": lambda o: fit_large(o, 2, 255, faster((BASELINE, 3.7, 4))),
    "fit-small": fit_small,
    "predict-31": lambda o: predict(o, 2, 31, np.float32, faster((SYMMETRIC, 2.6, 4))),
    "predict-31-double": lambda o: predict(o, 2, 31, np.float64, faster((SYMMETRIC, 2.6, 4))),
    "predict-31-1": lambda o: predict(o, 1, 31, np.float32, []),
    "predict-255": lambda o: predict(o, 2, 255, np.float32, faster((SYMMETRIC, 1, 1.5))),
    "predict-thread": lambda o: second_thread(o, "predict_proba", 200_000, 31, Goal(1.9, 1.9, ONE_THREAD)),
    "single-row": single_row,
    "memory": memory,
    "fit-wide": wide_fit,
    "forest-wide": wide_forest,
    "adaboost-busy": busy,
    "contributions-thread": lambda o: second_thread(o, "predict_contributions", 2000, 31, Goal(1.8, 1.9, ONE_THREAD)),
    "from-model": reading,
    "loss": real_tables,
}
