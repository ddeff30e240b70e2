"""Compare fits and predictions on a machine with other work: one thread and two, 0, 1 and 2 cores kept busy.

python asv_benchmarks/compare_busy.py                               all of it, some ten minutes on two cores
python asv_benchmarks/compare_busy.py --busy 1 --workloads boosting-small AdaBoost --repeats 9

Each figure is the median of rounds in which every library and number of threads has its turn. The last columns say how
many times as long fastens takes with two threads as with one: less than 1 where the second thread helps, more where it
is waited for.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.ensemble import AdaBoostClassifier as PeerAdaBoost
from sklearn.ensemble import RandomForestClassifier as PeerForest

from benchmarks.datasets import Table, generated
from benchmarks.peer_models import PEERS, Settings
from comparison.measure import interleaved
from comparison.report import machine, table
from fastens import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier

Calls = dict[str, Callable[[], Any]]
BOOSTING = ("fastens", "LightGBM", "XGBoost depthwise", "HistGradientBoosting")
N_JOBS = (1, 2)


@contextmanager
def busy_cores(n: int) -> Iterator[None]:
    """Within it, so many processes compute without end."""
    processes = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def boosting(n_rows: int, n_features: int, n_trees: int) -> Calls:
    data = generated(n_rows, n_features)
    settings = {n_jobs: Settings(n_threads=n_jobs, n_trees=n_trees) for n_jobs in N_JOBS}
    peers = [peer for peer in PEERS if peer.name in BOOSTING and peer.is_installed()]
    return {
        f"{peer.name}, {n_jobs}": (lambda peer=peer, n_jobs=n_jobs: peer.fit(data.X, data.y, settings[n_jobs]))
        for peer in peers
        for n_jobs in N_JOBS
    }


def fits(ours: Callable[[int], Any], theirs: Callable[[int], Any], data: Table) -> Calls:
    """Fits of estimators made for a number of threads; scikit-learn's boosting has only one."""
    calls: Calls = {f"fastens, {n}": (lambda n=n: ours(n).fit(data.X, data.y)) for n in N_JOBS}
    return calls | {f"scikit-learn, {n}": (lambda n=n: theirs(n).fit(data.X, data.y)) for n in N_JOBS}


def adaboost() -> Calls:
    calls = fits(
        lambda n: AdaBoostClassifier(n_estimators=50, n_jobs=n),
        lambda n: PeerAdaBoost(n_estimators=1),
        generated(100_000, 28),
    )
    del calls["scikit-learn, 2"]  # it has one thread
    calls["scikit-learn, 1 stump"] = calls.pop("scikit-learn, 1")
    return calls


def forest() -> Calls:
    return fits(
        lambda n: RandomForestClassifier(n_estimators=10, random_state=0, n_jobs=n),
        lambda n: PeerForest(n_estimators=10, random_state=0, n_jobs=n),
        generated(20_000, 20),
    )


def asked(method: str, n_rows: int) -> Calls:
    """Calls of a method of a boosted model of 100 trees."""
    data = generated(20_000, 20)
    models = {n: GradientBoostingClassifier(n_jobs=n, early_stopping=False).fit(data.X, data.y) for n in N_JOBS}
    return {f"fastens, {n}": (lambda n=n: getattr(models[n], method)(data.X[:n_rows])) for n in N_JOBS}


WORKLOADS: dict[str, Callable[[], Calls]] = {
    "boosting": lambda: boosting(100_000, 28, 20),
    "boosting-small": lambda: boosting(5000, 10, 50),
    "AdaBoost": adaboost,
    "forest": forest,
    "predictions": lambda: asked("predict_proba", 20_000),
    "contributions": lambda: asked("predict_contributions", 1000),
}


def measured(workload: str, busy: list[int], repeats: int) -> list[list[str]]:
    """A row for each library and number of threads: milliseconds by number of busy cores; then two threads over one."""
    calls = WORKLOADS[workload]()
    for call in calls.values():
        call()  # loads the library and starts its threads
    medians = []
    for n in busy:
        with busy_cores(n):
            values = interleaved(calls, repeats, 1e3)
        medians.append({name: statistics.median(values[name]) for name in calls})
    rows = [[workload, name, *(f"{of_all[name]:.1f} ms" for of_all in medians)] for name in calls]
    return [*rows, [workload, "**fastens, 2 over 1**", *(f"{m['fastens, 2'] / m['fastens, 1']:.2f}" for m in medians)]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--busy", nargs="+", type=int, default=[0, 1, 2], help="cores kept busy (default 0 1 2)")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each timing (default 5)")
    args = parser.parse_args()
    rows = [["workload", "library, threads", *(f"{n} busy" for n in args.busy)]]
    for workload in args.workloads:
        rows += measured(workload, args.busy, args.repeats)
    print(machine(), table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
