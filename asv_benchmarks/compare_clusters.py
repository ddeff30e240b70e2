"""Compare fits of boosted trees on a Dask cluster of this machine: fastens, xgboost.dask, lightgbm.dask.

python asv_benchmarks/compare_clusters.py                                  5 million rows of 28 columns, 50 trees
python asv_benchmarks/compare_clusters.py --rows 2e5 --trees 10 --repeats 1

Workers are processes of one thread, and hold the table, as arrays of float32, before the clock starts. Each fit has a
process and a cluster of its own; libraries and numbers of workers take turns. "plain" is a fit in one thread without a
cluster. Memory is the peak of a worker above what it held before the table, for each of its rows. The efficiency is the
time of one worker over that of all, times their number. For fastens, the time and the bytes sent per tree are means of
the trees after the first. With more workers than processors, their threads take turns. Linux only: memory is read from
/proc.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from comparison.measure import ROOT
from comparison.peak_memory import memory
from comparison.report import machine, table
from comparison.scale_fits import N_LEAVES, xgboost_parameters

N_COLUMNS, CHUNK = 28, 250_000
PLAIN = "plain"
HEADER = ["library", "workers", "seconds", "minimum seconds", "memory per row", "efficiency", "ms per tree"]
HEADER += ["bytes per tree and worker"]


def rows_of(seed: int, n_rows: int) -> np.ndarray:
    """The features of a partition, and its class in the last column."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_COLUMNS + 1), dtype=np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) - X[:, 4] ** 2 / 2
    X[:, -1] = score + X[:, -1] > 0.3
    return X


def sizes(n_rows: int, n_workers: int) -> list[int]:
    """Of the partitions, of which each worker gets as many."""
    n_parts = -(-n_rows // (CHUNK * n_workers)) * n_workers
    return np.diff(np.linspace(0, n_rows, n_parts + 1).astype(int)).tolist()


def our_model(n_trees: int) -> Any:
    from fastens import GradientBoostingClassifier

    return GradientBoostingClassifier(n_estimators=n_trees, max_leaf_nodes=N_LEAVES)


def our_fit(client: Any, X: Any, y: Any, n_trees: int) -> dict[str, Any]:
    from fastens.distributed import DaskTable

    sent: list[tuple[float, int]] = []
    table = DaskTable(X, client=client, on_progress=lambda now: sent.append((time.perf_counter(), now.n_bytes)))
    our_model(n_trees).fit(table, y)
    (first, few), (last, many) = sent[0], sent[-1]
    return {"tree": (last - first) / (n_trees - 1), "sent": (many - few) / (n_trees - 1)}


def xgboost_fit(client: Any, X: Any, y: Any, n_trees: int) -> dict[str, Any]:
    from xgboost import dask as xgb

    matrix = xgb.DaskQuantileDMatrix(client, X, y)
    xgb.train(client, xgboost_parameters(1), matrix, num_boost_round=n_trees)
    return {}


def lightgbm_fit(client: Any, X: Any, y: Any, n_trees: int) -> dict[str, Any]:
    import lightgbm as lgb

    lgb.DaskLGBMClassifier(client=client, n_estimators=n_trees, num_leaves=N_LEAVES, verbose=-1).fit(X, y)
    return {}


FITS: dict[str, Callable[..., dict[str, Any]]] = {
    "fastens": our_fit,
    "xgboost.dask": xgboost_fit,
    "lightgbm.dask": lightgbm_fit,
}


def on_cluster(library: str, n_workers: int, n_rows: int, n_trees: int) -> dict[str, Any]:
    """Measure a fit; the cluster has done a small one before."""
    import dask.array as da
    from dask import delayed
    from distributed import Client, LocalCluster, wait

    setup = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0, "silence_logs": logging.ERROR}
    with LocalCluster(n_workers=n_workers, **setup) as cluster, Client(cluster) as client:

        def collections(lengths: list[int]) -> tuple[Any, Any]:
            workers = sorted(client.nthreads())
            places = np.arange(len(lengths)) * len(workers) // len(lengths)
            parts = [
                client.submit(rows_of, seed, length, workers=[workers[place]], pure=False)
                for seed, (length, place) in enumerate(zip(lengths, places, strict=True))
            ]
            arrays = [
                da.from_delayed(delayed(part), (n, N_COLUMNS + 1), dtype=np.float32)
                for part, n in zip(parts, lengths, strict=True)
            ]
            whole = da.concatenate(arrays)
            X, y = client.persist([whole[:, :-1], whole[:, -1]])
            wait([X, y])
            return X, y

        FITS[library](client, *collections([2000] * n_workers), 2)
        before = client.run(partial(memory, "VmRSS"))
        client.run(lambda: Path("/proc/self/clear_refs").write_text("5", encoding="ascii"))
        X, y = collections(sizes(n_rows, n_workers))
        start = time.perf_counter()
        found = FITS[library](client, X, y, n_trees)
        seconds = time.perf_counter() - start
        peaks = client.run(partial(memory, "VmHWM"))
    own = max(peaks[address] - before[address] for address in peaks)
    return {"seconds": seconds, "memory": own * n_workers / n_rows, **found}


def plain(n_rows: int, n_trees: int) -> dict[str, Any]:
    """Measure a fit of fastens in this process, in one thread."""
    our_model(2).set_params(n_jobs=1).fit(rows_of(0, 2000)[:, :-1], np.arange(2000) % 2)
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    whole = np.empty((n_rows, N_COLUMNS + 1), dtype=np.float32)
    ends = np.cumsum([0, *sizes(n_rows, 1)])
    for seed, (first, last) in enumerate(pairwise(ends)):
        whole[first:last] = rows_of(seed, last - first)
    X, y = whole[:, :-1], whole[:, -1]
    start = time.perf_counter()
    our_model(n_trees).set_params(n_jobs=1).fit(X, y)
    return {"seconds": time.perf_counter() - start, "memory": (memory("VmHWM") - before) / n_rows}


def run(kind: str, n_workers: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure in a process of its own; a failure is a result."""
    numbers = [str(number) for number in (n_workers, options.rows, options.trees)]
    command = [sys.executable, __file__, "--one", kind, *numbers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{kind} with {n_workers} workers failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def one(kind: str, n_workers: int, n_rows: int, n_trees: int) -> dict[str, Any]:
    """What a process measures."""
    return plain(n_rows, n_trees) if kind == PLAIN else on_cluster(kind, n_workers, n_rows, n_trees)


Found = dict[Any, list[dict[str, Any]]]


def median(found: Found, kind: str, n_workers: int, name: str) -> float:
    """Of what all repeats have measured."""
    return statistics.median(each[name] for each in found[kind, n_workers])


def row(kind: str, n_workers: int, found: Found) -> list[str]:
    seconds, mem = (median(found, kind, n_workers, name) for name in ("seconds", "memory"))
    efficiency = ""
    if (kind, 1) in found and kind != PLAIN:
        efficiency = f"{median(found, kind, 1, 'seconds') / (n_workers * seconds):.0%}"
    of_tree = ["", ""]
    if kind == "fastens":
        tree, sent = (median(found, kind, n_workers, name) for name in ("tree", "sent"))
        of_tree = [f"{1e3 * tree:.0f}", f"{sent:,.0f}"]
    least = min(each["seconds"] for each in found[kind, n_workers])
    cells = [f"{seconds:.1f}", f"{least:.1f}", f"{mem:.0f} B", efficiency, *of_tree]
    return [kind if kind != PLAIN else "fastens without a cluster", str(n_workers), *cells]


def in_words(found: Found) -> str:
    """What Dask costs with one worker, and how much faster than its peers fastens is with most workers."""
    said = []
    if ("fastens", 1) in found:
        more = median(found, "fastens", 1, "seconds") / median(found, PLAIN, 1, "seconds") - 1
        than = "more" if more > 0 else "less"
        said.append(f"With one worker, a fit on Dask takes {abs(more):.0%} {than} time than a fit without a cluster.")
    ratios: dict[str, list[str]] = {}
    for library, n_workers in found:
        if library in FITS and library != "fastens" and ("fastens", n_workers) in found:
            times = median(found, library, n_workers, "seconds") / median(found, "fastens", n_workers, "seconds")
            ratios.setdefault(library, []).append(f"{times:.1f} with {n_workers} worker{'s' * (n_workers > 1)}")
    for library, values in ratios.items():
        said.append(f"The time of {library} relative to fastens is {' and '.join(values)}.")
    return " ".join(said)


def main() -> None:
    """Measure in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=5_000_000)
    parser.add_argument("--trees", type=int, default=50)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--libraries", nargs="+", default=list(FITS), choices=list(FITS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], *map(int, options.one[1:]))))
        return
    runs = [(library, n) for library in options.libraries for n in options.workers]
    if "fastens" in options.libraries:
        runs.append((PLAIN, 1))
    found: Found = {key: [] for key in runs}
    for _ in range(options.repeats):
        for key in runs:
            found[key].append(run(*key, options))
            print(*key, found[key][-1], file=sys.stderr, flush=True)
    rows = [row(*key, found) for key in runs]
    print(machine(), table([HEADER, *rows]), in_words(found), sep="\n\n")


if __name__ == "__main__":
    main()
