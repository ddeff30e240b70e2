"""Sparse and wide tables: seconds, seconds of the processor, and memory above the input, next to the peers'.

python asv_benchmarks/compare_wide.py
python asv_benchmarks/compare_wide.py --tables tfidf --libraries fastens lightgbm --repeats 3

Tables are generated: `tfidf`, 18 846 texts of some 137 of 50 000 words, whose frequencies follow Zipf's law; `million`,
20 000 rows of 20 of a million columns; `dense`, 1000 rows of 20 000 numbers; `frame`, a pandas frame of 5000 rows and
3000 columns, one in ten of categories. Every fit (20 trees of 31 leaves) runs in its own process, and the libraries
take turns. The first figure includes the start of this process and the import of the library, but not the generation of
the table. The workload `sparse` of compare_forests.py measures predictions of forests.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from comparison.generated_tables import dense, frame, million, tfidf
from comparison.peak_memory import memory
from comparison.report import machine, table

N_TREES = 20
PEAK = Path("/proc/self/clear_refs")
LIBRARIES = ("fastens", "lightgbm", "xgboost")


TABLES = {"tfidf": tfidf, "million": million, "dense": dense, "frame": frame}


def make(library: str) -> Any:
    """An estimator with the settings that the libraries share."""
    if library == "fastens":
        from fastens import GradientBoostingClassifier

        return GradientBoostingClassifier(n_estimators=N_TREES, early_stopping=False, n_jobs=2)
    if library == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=N_TREES, n_jobs=2, verbose=-1)
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=N_TREES, n_jobs=2, learning_rate=0.1, grow_policy="lossguide", max_leaves=31, max_depth=0,
        enable_categorical=True,
    )  # fmt: skip


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(library: str, table: str) -> None:
    """Print seconds and CPU seconds of a fit, MB above the input, seconds to predict, accuracy, seconds to generate."""
    model = make(library)
    model.fit(np.arange(400.0).reshape(100, 4), np.arange(100) % 2)  # loads the library and starts its threads
    start = time.perf_counter()
    X, y = TABLES[table]()
    made = time.perf_counter() - start
    if PEAK.exists():
        PEAK.write_text("5")  # forget what making the table took
    before, start, processor = memory("VmRSS"), time.perf_counter(), processor_seconds()
    model.fit(X, y)
    fitted, used = time.perf_counter() - start, processor_seconds() - processor
    above = (memory("VmHWM") - before) / 1e6
    start = time.perf_counter()
    predicted = model.predict(X)
    print(fitted, used, above, time.perf_counter() - start, np.mean(predicted == y), made)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=LIBRARIES)
    parser.add_argument("--repeats", type=int, default=3, help="fits of each, in turns; medians count")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a fit may take")
    parser.add_argument("--measure", nargs=2, metavar=("LIBRARY", "TABLE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(*args.measure)
        return
    rows = [["table", "library", "start and fit, s", "fit, s", "CPU time, s", "memory, MB", "predict, s", "accuracy"]]
    for name in args.tables:
        found: dict[str, list[list[float]]] = {library: [] for library in args.libraries}
        for _ in range(args.repeats):
            for library, values in found.items():
                if not values or np.isfinite(values[-1]).all():
                    values.append(_in_a_process(library, name, args.timeout))
        for library, values in found.items():
            rows.append([name, library, *_told(np.median(values, axis=0), args.timeout)])
    print(machine(), table(rows), sep="\n\n")


def _told(values: np.ndarray, timeout: float) -> list[str]:
    if np.isinf(values[0]):
        return [f"over {timeout:g}", *[""] * 5]
    return [f"{value:.{digits}f}" for value, digits in zip(values, (2, 2, 2, 0, 2, 3), strict=True)]


def _in_a_process(library: str, table: str, timeout: float) -> list[float]:
    """Infinity where it took too long, NaN where it failed."""
    command = [sys.executable, __file__, "--measure", library, table]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(f"{library} on {table}: {error}", file=sys.stderr)
        return [np.inf if isinstance(error, subprocess.TimeoutExpired) else np.nan] * 6
    whole = time.perf_counter() - start
    *values, made = [float(value) for value in done.stdout.split()[-6:]]
    return [whole - made - values[3], *values]


if __name__ == "__main__":
    main()
