"""Workloads of compare_scale.py, each run in a process of its own.

python -m comparison.scale_workloads WORKLOAD LIBRARY FOLDER N_THREADS prints, as JSON, the seconds, those of the
processor, the peak of the memory that the process took above what it held before (its pages of files left out, and with
them), and how many rows there are. Linux only: memory is read from /proc.
"""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from comparison.generated_tables import dense, tfidf
from comparison.peak_memory import memory
from comparison.scale_files import N_COLUMNS, count_rows, in_one_array
from comparison.scale_fits import (
    lightgbm_fit,
    lightgbm_of_files,
    lightgbm_of_table,
    lightgbm_predictor,
    our_command,
    our_model,
    our_predictor,
    ours_of_files,
    reader_of,
    xgboost_fit,
    xgboost_of_files,
    xgboost_predictor,
)

CEILING = "fastens, "
COMMAND = "fastens predict"
LIBRARIES = {
    "memory": ["fastens", "LightGBM", "XGBoost"],
    "parquet": [
        "fastens",
        "fastens, files",
        "LightGBM",
        "LightGBM, Arrow table",
        "XGBoost",
        "XGBoost, pages on disk",
    ],
    "predict": ["reading", "fastens", COMMAND, "LightGBM", "XGBoost"],
    "tf-idf": ["fastens", "LightGBM", "XGBoost"],
    "wide": ["fastens", "LightGBM", "XGBoost"],
}
OF_FILES = ("memory", "parquet", "predict")
_SECONDS_BETWEEN_LOOKS = 0.005


def prepared(workload: str, library: str, folder: Path, n_threads: int) -> tuple[Callable[[], Any], int]:
    """What is measured, with its input in memory where that is no part of it; and how many rows there are."""
    if workload == "parquet":
        ceiling = library.removeprefix(CEILING) if library.startswith(CEILING) else None
        calls: dict[str, Callable[..., Any]] = {
            "LightGBM": lightgbm_of_files,
            "LightGBM, Arrow table": lightgbm_of_table,
            "XGBoost": partial(xgboost_of_files, on_disk=False),
            "XGBoost, pages on disk": partial(xgboost_of_files, on_disk=True),
        }
        return partial(calls.get(library, partial(ours_of_files, ceiling=ceiling)), folder, n_threads), count_rows(
            folder
        )
    if workload == "predict":
        if library == "reading":
            return reader_of(folder), count_rows(folder)
        predictors = {
            "fastens": our_predictor,
            COMMAND: our_command,
            "LightGBM": lightgbm_predictor,
            "XGBoost": xgboost_predictor,
        }
        return predictors[library](folder, n_threads), count_rows(folder)
    X, y = {"memory": partial(in_one_array, folder), "tf-idf": tfidf, "wide": dense}[workload]()
    fits: dict[str, Callable[[], Any]] = {
        "fastens": lambda: our_model(n_threads).fit(X, y),
        "LightGBM": lambda: lightgbm_fit(X, y, n_threads),
        "XGBoost": lambda: xgboost_fit(X, y, n_threads),
    }
    return fits[library], X.shape[0]


def warm_up(library: str, n_threads: int) -> None:
    """Load the library and start its threads."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, N_COLUMNS), dtype=np.float32)
    y = (X[:, 0] > 0).astype(np.float32)
    if library == COMMAND:
        return
    if library.startswith("fastens"):
        our_model(n_threads).fit(X, y)
    elif library != "reading":
        (lightgbm_fit if library.startswith("LightGBM") else xgboost_fit)(X, y, n_threads)


def measured(call: Callable[[], Any]) -> dict[str, float]:
    """Seconds, and the peak of memory above that before, without and with pages of files, or all of a child."""
    before, own_before = memory("VmRSS"), memory("RssAnon")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    peak, done = [own_before], threading.Event()

    def look() -> None:
        while not done.wait(_SECONDS_BETWEEN_LOOKS):
            peak[0] = max(peak[0], memory("RssAnon"))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    before_children = children.ru_utime + children.ru_stime
    start, of_processor = time.perf_counter(), time.process_time()
    call()
    seconds, of_processor = time.perf_counter() - start, time.process_time() - of_processor
    done.set()
    watcher.join()
    own, whole = max(0, peak[0] - own_before), max(0, memory("VmHWM") - before)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    of_processor += children.ru_utime + children.ru_stime - before_children
    of_child = 1024 * children.ru_maxrss
    return {"seconds": seconds, "processor": of_processor, "own": max(own, of_child), "whole": max(whole, of_child)}


if __name__ == "__main__":
    name, chosen, path, threads = sys.argv[1:]
    warm_up(chosen, int(threads))
    function, rows = prepared(name, chosen, Path(path), int(threads))
    print(json.dumps(measured(function) | {"rows": rows}))
