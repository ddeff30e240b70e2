"""Ctrl-C at random times in fits of many rows: how long until Python has it back, and what is left of it.

    python tools/check_interrupts.py [NAMES ...] [--rows N] [--times N] [--busy]

A second thread sends SIGINT at a time drawn from the length of the fit. The wait is measured until KeyboardInterrupt
is caught; on a machine with other work, --busy measures the processor time of this process, with one thread at work.
After a warm-up the memory in use must not grow. Linux with glibc 2.33 or later.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time
import warnings
from typing import Any

import numpy as np

import fastens

MAX_SECONDS = 0.2
MAX_GROWTH = 1 << 20  # bytes, of all interrupts together


def tables(n_rows: int) -> tuple[Any, Any, Any]:
    """28 columns, numbers and classes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 28), dtype=np.float32)
    numbers = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.standard_normal(n_rows)
    return X, numbers, (numbers > 0).astype(int)


def texts(n_rows: int) -> Any:
    """A column of as many texts as rows, and one of few."""
    rng = np.random.default_rng(0)
    return np.array([[f"text {row}", f"text {row % 5}"] for row in rng.permutation(n_rows)], dtype=object)


_MEMBERS = [
    ("boosting", fastens.GradientBoostingRegressor(n_estimators=10)),
    ("tree", fastens.DecisionTreeRegressor(max_depth=4)),
]
FITS: dict[str, dict[str, Any]] = {
    "GradientBoostingClassifier": {},
    "GradientBoostingRegressor": {"loss": "absolute_error"},
    "RandomForestClassifier": {"n_estimators": 10},
    "ExtraTreesRegressor": {"n_estimators": 2},
    "DecisionTreeClassifier": {},
    "DecisionTreeRegressor": {"criterion": "absolute_error", "max_depth": 3},
    "AdaBoostClassifier": {"n_estimators": 50},
    "AdaBoostRegressor": {"n_estimators": 5},
    "BaggingClassifier": {"n_estimators": 3},
    "IsolationForest": {"random_state": 0},
    "GaussianNB": {},
    "MixedNB": {},
    "TANClassifier": {},
    "AODEClassifier": {},
    "BayesTreeClassifier": {},
    "StackingRegressor": {"estimators": _MEMBERS},
    "VotingRegressor": {"estimators": _MEMBERS},
    "ConformalRegressor": {"estimator": _MEMBERS[0][1]},
    "BayesianNetwork": {},
}


class Interrupt:
    """SIGINT to the main thread after some seconds; as a context, it is called off at the end."""

    def __init__(self, seconds: float, clock: int) -> None:
        self.sent, self._clock = 0.0, clock
        self._timer = threading.Timer(seconds, self._send)

    def _send(self) -> None:
        self.sent = time.clock_gettime(self._clock)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def __enter__(self) -> Interrupt:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()


def wait_of(model: Any, X: Any, y: Any, seconds: float, clock: int) -> float | None:
    """How long an interrupt at this time waits; None if the fit ended before it."""
    interrupt = Interrupt(seconds, clock)
    try:
        with interrupt:
            model.fit(X, y)
        time.sleep(0)
    except KeyboardInterrupt:
        return time.clock_gettime(clock) - interrupt.sent
    return None


class Heap(ctypes.Structure):
    """What glibc's mallinfo2 returns."""

    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = tuple((name, ctypes.c_size_t) for name in names.split())


def memory_in_use() -> int:
    """Bytes that are not given back; more are resident, as the C library keeps what threads have freed for others.

    Threads of the fit that have begun a part end it first.
    """
    for thread in threading.enumerate():
        if thread.name.startswith("fastens"):
            thread.join()
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Heap
    heap = mallinfo()
    return int(heap.uordblks + heap.hblkhd)


def check(name: str, n_times: int, data: tuple[Any, Any, Any], is_busy: bool) -> bool:
    """Interrupt the fits of an estimator; print the waits; whether all went well."""
    X, numbers, classes = data
    kind, n_rows = getattr(fastens, name), len(X)
    parameters = FITS[name] | ({"n_jobs": 1} if is_busy and "n_jobs" in kind().get_params() else {})
    clock = time.CLOCK_PROCESS_CPUTIME_ID if is_busy else time.CLOCK_MONOTONIC
    X = texts(n_rows) if name == "BayesianNetwork" else X
    y = classes if name.endswith(("Classifier", "NB", "Network")) else numbers
    small = kind(**parameters).fit(X[:500], y[:500])
    start = time.perf_counter()
    kind(**parameters).fit(X, y)
    length = time.perf_counter() - start
    waits: list[float] = []
    changed, in_use = 0, memory_in_use()
    for _ in range(n_times):
        expected = small.predict(X[:500])
        found = wait_of(small, X, y, random.uniform(0, length), clock)
        if found is None:
            small = kind(**parameters).fit(X[:500], y[:500])
            continue
        waits.append(found)
        # A usable part of a model is kept where that makes sense; what is there must predict.
        same = np.array_equal(small.predict(X[:500]), expected)
        changed += not same
    small.fit(X[:500], y[:500])  # a stack keeps finished members for a warm start
    kept = memory_in_use() - in_use
    worst = max(waits, default=0.0)
    well = worst <= MAX_SECONDS and kept <= MAX_GROWTH
    middle = sorted(waits)[len(waits) // 2] if waits else 0.0
    print(
        f"{name}: a fit of {n_rows} rows takes {length:.2f} s; {len(waits)} interrupts waited {middle * 1e3:.0f} ms, "
        f"the longest {worst * 1e3:.0f} ms; {changed} left another model; {kept >> 10} KiB more in use"
        f"{'' if well else '  <-- TOO MUCH'}",
        flush=True,
    )
    return well


def main() -> int:
    """Check every fit; 1 if one was too slow or kept memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--busy", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    random.seed(os.getpid())
    data = tables(arguments.rows)
    checks = [check(name, arguments.times, data, arguments.busy) for name in arguments.names or FITS]
    return not all(checks)


if __name__ == "__main__":
    sys.exit(main())
