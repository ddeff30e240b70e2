"""Workloads of compare_scale.py, each run in a process of its own: large tables in memory and in Parquet files.

python -m comparison.scale_workloads WORKLOAD LIBRARY FOLDER N_THREADS prints the seconds, the peak of the memory that
the process took above what it held before (its pages of files left out, and with them), and how many rows there are.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

import fastens
from comparison.peak_memory import memory

N_COLUMNS, N_TREES, N_LEAVES = 28, 20, 31
GROUP_ROWS = 1 << 18
_SECONDS_BETWEEN_LOOKS = 0.005


def write_files(folder: Path, n_rows: int, rows_per_file: int) -> None:
    """Write Parquet files of float32 columns and a class, block by block."""
    rng = np.random.default_rng(0)
    for number, first in enumerate(range(0, n_rows, rows_per_file)):
        n = min(rows_per_file, n_rows - first)
        X = rng.standard_normal((N_COLUMNS, n), dtype=np.float32)
        signal = X[0] + X[1] * X[2] + np.sin(2 * X[3]) + rng.standard_normal(n, dtype=np.float32)
        columns = {f"x{i}": column for i, column in enumerate(X)} | {"y": (signal > 0).astype(np.int8)}
        pq.write_table(pa.table(columns), folder / f"part{number:04d}.parquet", row_group_size=GROUP_ROWS)


def batches(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows and classes, a row group at a time."""
    for path in sorted(folder.glob("*.parquet")):
        file = pq.ParquetFile(path)
        for number in range(file.num_row_groups):
            table = file.read_row_group(number)
            X = np.column_stack([column.to_numpy() for column in table.columns[:-1]])
            yield X, table.column("y").to_numpy().astype(np.float32)


def in_one_array(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """All rows; each batch is dropped once it is copied."""
    n_rows = sum(pq.ParquetFile(path).metadata.num_rows for path in folder.glob("*.parquet"))
    X, y, first = np.empty((n_rows, N_COLUMNS), np.float32), np.empty(n_rows, np.float32), 0
    for part, labels in batches(folder):
        X[first : first + len(part)], y[first : first + len(part)] = part, labels
        first += len(part)
    return X, y


# How each library fits --------------------------------------------------


def our_model(n_threads: int) -> fastens.GradientBoostingClassifier:
    return fastens.GradientBoostingClassifier(n_estimators=N_TREES, max_leaf_nodes=N_LEAVES, n_jobs=n_threads)


def lightgbm_fit(X: Any, y: Any, n_threads: int, **more: Any) -> None:
    import lightgbm as lgb

    given = {"objective": "binary", "num_leaves": N_LEAVES, "num_threads": n_threads, "verbose": -1} | more
    lgb.train(given, lgb.Dataset(X, y, params=given), num_boost_round=N_TREES)


def xgboost_parameters(n_threads: int) -> dict[str, Any]:
    return {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": N_LEAVES,
        "max_depth": 0,
        "nthread": n_threads,
    }


def xgboost_fit(X: Any, y: Any, n_threads: int) -> None:
    import xgboost as xgb

    matrix = xgb.QuantileDMatrix(X, y, nthread=n_threads)
    xgb.train(xgboost_parameters(n_threads), matrix, num_boost_round=N_TREES)


def xgboost_stream(folder: Path, n_threads: int) -> None:
    import xgboost as xgb

    class Parts(xgb.DataIter):
        """The batches, as XGBoost reads them."""

        def __init__(self) -> None:
            super().__init__()
            self.rows = batches(folder)

        def reset(self) -> None:
            self.rows = batches(folder)

        def next(self, input_data: Callable[..., Any]) -> bool:
            found = next(self.rows, None)
            if found is not None:
                input_data(data=found[0], label=found[1])
            return found is not None

    xgb.train(xgboost_parameters(n_threads), xgb.QuantileDMatrix(Parts(), nthread=n_threads), num_boost_round=N_TREES)


def lightgbm_stream(folder: Path, n_threads: int) -> None:
    lightgbm_fit(*in_one_array(folder), n_threads)


def ours_stream(folder: Path, n_threads: int, *, in_files: bool = False) -> None:
    model, source = our_model(n_threads), str(folder / "*.parquet")
    n_rows = sum(pq.ParquetFile(path).metadata.num_rows for path in folder.glob("*.parquet"))
    needs = fastens.estimate_memory(model, n_rows, N_COLUMNS)
    ceiling = needs.least if in_files else needs.in_memory
    model.fit(fastens.Source(source, max_memory=ceiling, spill_dir=folder), "y")


# Workloads --------------------------------------------------


def prepared(workload: str, library: str, folder: Path, n_threads: int) -> tuple[Callable[[], Any], int]:
    """What is measured, with its input in memory where that is no part of it; and how many rows there are."""
    if workload == "parquet":
        calls: dict[str, Callable[[], Any]] = {
            "fastens": lambda: ours_stream(folder, n_threads),
            "fastens, codes in files": lambda: ours_stream(folder, n_threads, in_files=True),
            "LightGBM": lambda: lightgbm_stream(folder, n_threads),
            "XGBoost": lambda: xgboost_stream(folder, n_threads),
        }
        return calls[library], sum(pq.ParquetFile(path).metadata.num_rows for path in folder.glob("*.parquet"))
    more: dict[str, Any] = {}
    if workload == "memory":
        X, y = in_one_array(folder)
    elif workload == "tf-idf":
        rng = np.random.default_rng(0)
        X = sparse.random(18_846, 50_000, 0.0018, "csr", np.float32, rng)
        y = (np.asarray(X[:, :200].sum(axis=1)).ravel() > 0.15).astype(np.float32)
    else:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((1000, 20_000), dtype=np.float32)
        y = (X[:, 0] + X[:, 1] > 0).astype(np.float32)
    fits: dict[str, Callable[[], Any]] = {
        "fastens": lambda: our_model(n_threads).fit(X, y),
        "LightGBM": lambda: lightgbm_fit(X, y, n_threads, **more),
        "XGBoost": lambda: xgboost_fit(X, y, n_threads),
    }
    return fits[library], X.shape[0]


def warm_up(library: str, n_threads: int) -> None:
    """Load the library and start its threads."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, N_COLUMNS), dtype=np.float32)
    y = (X[:, 0] > 0).astype(np.float32)
    if library.startswith("fastens"):
        our_model(n_threads).fit(X, y)
    else:
        {"LightGBM": lightgbm_fit, "XGBoost": xgboost_fit}[library](X, y, n_threads)


def measured(call: Callable[[], Any]) -> tuple[float, int, int]:
    """Seconds, and the peak of memory above that before, without and with pages of files."""
    before, own_before = memory("VmRSS"), memory("RssAnon")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    peak, done = [own_before], threading.Event()

    def look() -> None:
        while not done.wait(_SECONDS_BETWEEN_LOOKS):
            peak[0] = max(peak[0], memory("RssAnon"))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    return seconds, max(0, peak[0] - own_before), max(0, memory("VmHWM") - before)


if __name__ == "__main__":
    name, chosen, path, threads = sys.argv[1:]
    warm_up(chosen, int(threads))
    function, rows = prepared(name, chosen, Path(path), int(threads))
    print(*measured(function), rows)
