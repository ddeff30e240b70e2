"""Fit estimators on Dask with every number of workers and of partitions, and compare the saved models by their hash.

    python tools/cluster_matrix.py
    python tools/cluster_matrix.py --workers 2 7 --partitions 13 --models trees --placements 3

Partitions lie on workers drawn at random before each fit, and have lengths drawn at random, some of them 0. Any model
that is not that of one machine, to the byte, is printed, and the script ends with 1.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import fastens
from fastens.distributed import DaskTable

SMALL = {"n_estimators": 4, "random_state": 1}
MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "boosting": (lambda: fastens.GradientBoostingRegressor(subsample=0.7, **SMALL), "number"),
    "boosting of medians": (lambda: fastens.GradientBoostingRegressor("absolute_error", **SMALL), "number"),
    "boosting of classes": (lambda: fastens.GradientBoostingClassifier(early_stopping=True, **SMALL), "class"),
    "trees": (lambda: fastens.DecisionTreeClassifier(random_state=1), "class"),
    "forest": (lambda: fastens.RandomForestRegressor(categorical_features=[3], **SMALL), "number"),
    "extra trees": (lambda: fastens.ExtraTreesClassifier(**SMALL), "class"),
    "prunings": (fastens.BayesTreeClassifier, "class"),
    "all trees": (lambda: fastens.ExactTreeAverageClassifier(5), "class"),
    "isolation": (lambda: fastens.IsolationForest(**SMALL), "number"),
    "bags": (lambda: fastens.BaggingClassifier(**SMALL), "class"),
    "adaboost": (lambda: fastens.AdaBoostClassifier(n_estimators=4), "class"),
    "adaboost of numbers": (lambda: fastens.AdaBoostRegressor(**SMALL), "number"),
    "gaussian": (fastens.GaussianNB, "class"),
    "tan": (fastens.TANClassifier, "class"),
    "aode": (fastens.AODEClassifier, "class"),
    "network": (lambda: fastens.BayesianNetwork("tan", max_bins=4), "class"),
}


def make_rows(n_rows: int = 2000) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """A table with missing values, and its targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    X[:, 3] = rng.integers(0, 9, n_rows)
    number = X[:, 0] + X[:, 3] % 3 + rng.normal(size=n_rows)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, {"number": number, "class": np.digitize(number, [0.5, 2.0])}


def digest(model: Any) -> str:
    """A hash of the saved model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def spread(client: Client, array: np.ndarray, ends: list[int], workers: list[str]) -> list[Any]:
    """Partitions of an array, each on its worker."""
    parts = zip(np.split(array, ends), workers, strict=True)
    return [client.scatter(part, workers=[worker], direct=True, hash=False) for part, worker in parts]


def main() -> None:
    """Fit, hash, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 3, 4, 7])
    parser.add_argument("--partitions", type=int, nargs="*", default=[1, 2, 5, 13])
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--placements", type=int, default=1)
    parser.add_argument("--threads", action="store_true", help="workers are threads of this process")
    options = parser.parse_args()
    X, targets = make_rows()
    draw, n_fits, n_wrong, start = random.Random(0), 0, 0, time.monotonic()
    setup = {"threads_per_worker": 1, "processes": not options.threads, "dashboard_address": None}
    with LocalCluster(n_workers=max(options.workers), memory_limit=0, **setup) as cluster, Client(cluster) as client:
        everyone = sorted(client.nthreads())
        for name in options.models:
            make, kind = MODELS[name]
            y, expected = targets[kind], digest(make().fit(X, targets[kind]))
            for n_workers in options.workers:
                for n_parts in [n for n in options.partitions for _ in range(options.placements)]:
                    ends = sorted(draw.choices(range(len(y) + 1), k=n_parts - 1))
                    homes = draw.choices(everyone, k=n_parts)
                    chosen = draw.sample(everyone, n_workers)
                    table = DaskTable(spread(client, X, ends, homes), client=client, workers=chosen)
                    found = digest(make().fit(table, spread(client, y, ends, homes)))
                    n_fits += 1
                    if found != expected:
                        n_wrong += 1
                        print(f"{name}: another model with {n_workers} workers and rows that end at {ends}")
            print(f"{name:20} {n_fits} fits, {n_wrong} other models, {time.monotonic() - start:.0f} s", flush=True)
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()
