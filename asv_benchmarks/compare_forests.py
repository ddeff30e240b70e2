"""Compare forests, extra trees, single trees and bags with their peers, and write peers.md, peers.png, peers.json.

python asv_benchmarks/compare_forests.py                            every workload, some 40 minutes on 2 idle cores
python asv_benchmarks/compare_forests.py --workloads forest --peers fastens oneDAL --repeats 1 --scale 0.2

Runs of the libraries are interleaved, the figures are medians; beside each workload stands the quality on other rows
(area under the ROC curve, or accuracy), the mean of as many seeds as there are repeats.
"""

from __future__ import annotations

import argparse
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks.datasets import data_folder, generated
from benchmarks.forest_models import FOREST_PEERS, ForestPeer, ForestSettings
from comparison import report
from comparison.generated_tables import tfidf
from comparison.measure import Goal, Result, Values, interleaved, median_of_calls
from comparison.peak_memory import memory

HERE = Path(__file__).resolve().parent
N_COLUMNS = 28


@dataclass
class Options:
    peers: list[ForestPeer]
    repeats: int = 5
    scale: float = 1.0
    n_threads: int = 2
    models: dict[str, object] = field(default_factory=dict)

    def rows(self, n_rows: int) -> int:
        return max(1000, int(n_rows * self.scale))

    def of_kind(self, kind: str, without: tuple[str, ...] = ()) -> list[ForestPeer]:
        return [peer for peer in self.peers if kind in peer.kinds and peer.name not in without]


def fits(
    options: Options,
    title: str,
    tables: tuple[np.ndarray, ...],
    settings: ForestSettings,
    goals: list[Goal],
    without: tuple[str, ...] = (),
) -> list[Result]:
    """Seconds of fits, a new seed in each round, and the quality on other rows."""
    X, y, X_test, y_test = tables
    peers = options.of_kind(settings.kind, without)
    seconds: Values = {peer.name: [] for peer in peers}
    quality: Values = {peer.name: [] for peer in peers}
    for seed in range(options.repeats):
        for peer in peers:
            model = peer.make(replace(settings, seed=seed, n_threads=options.n_threads))
            start = time.perf_counter()
            model.fit(X, y)
            seconds[peer.name].append(time.perf_counter() - start)
            quality[peer.name].append(score(y_test, model.predict_proba(X_test)))
    labels = [f"seed {seed}" for seed in range(options.repeats)]
    measure = "accuracy" if y.max() > 1 else "AUC"
    return [Result(title, "s", seconds, goals), Result(f"{measure}: {title}", measure, quality, [], labels)]


def score(y: np.ndarray, shares: np.ndarray) -> float:
    if shares.shape[1] > 2:
        return float(np.mean(np.argmax(shares, axis=1) == y))
    return float(roc_auc_score(y, shares[:, 1]))


def table(n_rows: int) -> tuple[np.ndarray, ...]:
    train, test = generated(n_rows, N_COLUMNS), generated(20_000, N_COLUMNS, seed=1)
    return train.X, train.y, test.X, test.y


def mid_size(kind: str, n_trees: int, goals: list[Goal]) -> Callable[[Options], list[Result]]:
    def run(options: Options) -> list[Result]:
        n_rows = options.rows(100_000)
        title = f"{kind}, {n_trees} tree(s), {n_rows:,} x {N_COLUMNS}"
        return fits(options, title, table(n_rows), ForestSettings(kind, n_trees), goals)

    return run


def large(options: Options) -> list[Result]:
    n_rows = options.rows(1_000_000)
    title = f"forest, 20 trees, min_samples_leaf 20, {n_rows:,} x {N_COLUMNS}"
    settings = ForestSettings("forest", 20, 20)
    return fits(options, title, table(n_rows), settings, [Goal(1.7, 2.5, "oneDAL")], ("scikit-learn",))


def pixels(options: Options) -> list[Result]:
    folder = data_folder()
    if folder is None:
        return []
    frame = pd.read_parquet(folder / "mnist.parquet").sample(frac=min(1.0, options.scale), random_state=0)
    is_test = (frame["split"] == "test").to_numpy()
    y = frame["label"].to_numpy(np.int64)
    X = np.ascontiguousarray(frame.drop(columns=["label", "split"]), dtype=np.float32)
    tables = X[~is_test], y[~is_test], X[is_test], y[is_test]
    title = f"forest, 100 trees, pixels, {len(tables[1]):,} x 784"
    return fits(options, title, tables, ForestSettings("forest", 100), [Goal(1, 2, "oneDAL")])


def entropy(options: Options) -> list[Result]:
    n_rows = options.rows(100_000)
    settings = ForestSettings("forest", 20, criterion="entropy")
    title = f"forest, 20 trees, entropy, {n_rows:,} x {N_COLUMNS}"
    return fits(options, title, table(n_rows), settings, [], ("oneDAL", "XGBoost rf"))


def several_classes(name: str, n_trees: int) -> Callable[[Options], list[Result]]:
    """Forest, extra trees and a single tree on a real table; every fifth row is for the accuracy."""

    def run(options: Options) -> list[Result]:
        folder = data_folder()
        if folder is None:
            return []
        frame = pd.read_parquet(folder / f"{name}.parquet")
        frame = frame.sample(n=min(options.rows(100_000), len(frame)), random_state=0)
        y = pd.factorize(frame.iloc[:, -1], sort=True)[0]
        X = frame.iloc[:, :-1].to_numpy(np.float32)
        test = np.arange(len(y)) % 5 == 0
        results = []
        for kind in ("forest", "extra trees", "tree"):
            trees = 1 if kind == "tree" else n_trees
            title = f"{kind}, {trees} tree(s), {name}, {y.max() + 1} classes, {(~test).sum():,} rows"
            settings = ForestSettings(kind, n_trees)
            results += fits(options, title, (X[~test], y[~test], X[test], y[test]), settings, [], ("XGBoost rf",))
        return results

    return run


def small(options: Options) -> list[Result]:
    data = generated(1000, 10)
    peers, settings = options.of_kind("forest"), ForestSettings(n_threads=options.n_threads)
    calls = {peer.name: (lambda peer=peer: peer.make(settings).fit(data.X, data.y)) for peer in peers}
    for call in calls.values():
        call()
    models = {peer.name: peer.make(settings).fit(data.X, data.y) for peer in peers}
    rows: Values = {name: [] for name in models}
    for _ in range(options.repeats):
        for name, model in models.items():
            rows[name].append(1e6 * median_of_calls(lambda model=model: model.predict_proba(data.X[:1]), 50))
    fitting = interleaved(calls, 4 * options.repeats, 1e3)
    return [
        Result("fit 1,000 x 10, 100 trees", "ms", fitting, [Goal(20, 10)]),
        Result("predict_proba of one row, 100 trees", "us", rows, [Goal(60, 20)]),
    ]


def predictions(options: Options) -> list[Result]:
    train, test = generated(options.rows(100_000), N_COLUMNS), generated(options.rows(200_000), N_COLUMNS, seed=1)
    settings = ForestSettings(n_threads=options.n_threads)
    models = {peer.name: peer.make(settings).fit(train.X, train.y) for peer in options.of_kind("forest")}
    calls = {name: (lambda model=model: model.predict_proba(test.X)) for name, model in models.items()}
    for call in calls.values():
        call()
    sizes = {
        name: [len(pickle.dumps(model)) / 2**20]
        for name, model in models.items()
        if name in {"fastens", "scikit-learn"}
    }
    return [
        Result(
            f"predict {len(test.y):,} rows, 100 deep trees",
            "s",
            interleaved(calls, options.repeats),
            [Goal(2, 4, "oneDAL")],
        ),
        Result("pickle of 100 deep trees", "MiB", sizes, [Goal(4, 5, "scikit-learn")]),
    ]


def sparse_predictions(options: Options) -> list[Result]:
    """Predictions for TF-IDF, compared with the libraries that accept sparse rows."""
    X, y = tfidf(options.rows(18_846))
    settings = ForestSettings(n_threads=options.n_threads)
    models = {peer.name: peer.make(settings).fit(X, y) for peer in options.of_kind("forest", ("oneDAL",))}
    calls = {name: (lambda model=model: model.predict_proba(X)) for name, model in models.items()}
    for call in calls.values():
        call()
    title = f"predict {X.shape[0]:,} sparse rows of {X.shape[1]:,} columns, 100 deep trees"
    return [Result(title, "s", interleaved(calls, options.repeats), [Goal(1, 2, "scikit-learn")])]


def peak_memory(options: Options) -> list[Result]:
    data = generated(options.rows(100_000), N_COLUMNS)
    values: Values = {}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder, "table.npz"), X=data.X, y=data.y)
        for peer in options.of_kind("forest"):
            command = [sys.executable, __file__, "--peak", peer.name, folder]
            done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)
            values[peer.name] = [float(done.stdout.split()[-1])]
    goals = [Goal(3, 4, "scikit-learn")]
    return [Result(f"peak memory above the input, forest, {len(data.y):,} x {N_COLUMNS}", "MiB", values, goals)]


def print_peak(name: str, folder: str) -> None:
    """Fit one library in this process and print the MiB it took above the input."""
    data = np.load(Path(folder, "table.npz"))
    X, y = data["X"], data["y"]
    peer = next(peer for peer in FOREST_PEERS if peer.name == name)
    peer.make(ForestSettings(n_trees=2)).fit(X[:2000], y[:2000])
    before = memory("VmRSS")
    model = peer.make(ForestSettings()).fit(X, y)
    print(max(0, memory("VmHWM") - before) / 2**20 if model is not None else 0)


WORKLOADS: dict[str, Callable[[Options], list[Result]]] = {
    "forest": mid_size("forest", 100, [Goal(10, 15, "scikit-learn"), Goal(1.7, 2.5, "oneDAL")]),
    "extra-trees": mid_size("extra trees", 100, [Goal(4, 8, "scikit-learn")]),
    "tree": mid_size("tree", 1, [Goal(10, 20, "scikit-learn")]),
    "bagging": mid_size("bagging", 20, [Goal(10, 20, "scikit-learn")]),
    "large": large,
    "pixels": pixels,
    "letter": several_classes("letter", 100),
    "covertype": several_classes("covertype", 20),
    "entropy": entropy,
    "small": small,
    "predict": predictions,
    "sparse": sparse_predictions,
    "memory": peak_memory,
}


def arguments() -> argparse.Namespace:
    names = [peer.name for peer in FOREST_PEERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--peers", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--repeats", type=int, default=5, help="rounds, each with a seed of its own (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows (default 1)")
    parser.add_argument("--threads", type=int, default=2, help="threads of every library (default 2)")
    parser.add_argument("--output", type=Path, default=HERE / "results_forests", help="folder to write to")
    parser.add_argument("--peak", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    if args.peak:
        print_peak(*args.peak)
        return
    peers = [peer for peer in FOREST_PEERS if peer.name in args.peers and peer.is_installed()]
    options = Options(peers, args.repeats, args.scale, args.threads)
    results: list[Result] = []
    for name in args.workloads:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results += WORKLOADS[name](options)
        report.write(results, "python asv_benchmarks/compare_forests.py " + " ".join(sys.argv[1:]), args.output)
    print((args.output / "peers.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
