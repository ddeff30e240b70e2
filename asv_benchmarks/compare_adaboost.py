"""Compare AdaBoost with scikit-learn's, interleaved in one run, and print a Markdown table with the goals.

python asv_benchmarks/compare_adaboost.py                            all but the million rows, some ten minutes
python asv_benchmarks/compare_adaboost.py --workloads fit-1m         500 stumps, 1 M x 28: scikit-learn needs an hour
python asv_benchmarks/compare_adaboost.py --peer-stumps 5 ...        scikit-learn fits 5 stumps; its time is scaled up
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

from sklearn.ensemble import AdaBoostClassifier as PeerAdaBoost

from benchmarks.datasets import generated
from comparison.measure import interleaved, median_of_calls
from fastens import AdaBoostClassifier

# name: rows, columns, stumps, times faster (must, aim).
FITS = {"fit-100k": (100_000, 28, 50, 100, 200), "fit-1m": (1_000_000, 28, 500, 100, 300)}


def fit(name: str, args: argparse.Namespace) -> tuple[str, float, float, str]:
    """Seconds of both; scikit-learn's of fewer stumps scaled up, as its time is the same for each."""
    n_rows, n_features, n_stumps, must, aim = FITS[name]
    table = generated(n_rows, n_features)
    peer_stumps = min(args.peer_stumps or n_stumps, n_stumps)
    calls = {
        "fastens": lambda: AdaBoostClassifier(n_estimators=n_stumps).fit(table.X, table.y),
        "scikit-learn": lambda: PeerAdaBoost(n_estimators=peer_stumps).fit(table.X, table.y),
    }
    calls["fastens"]()
    values = interleaved(calls, args.repeats)
    ours, theirs = (statistics.median(values[library]) for library in calls)
    workload = f"{n_stumps} stumps, {n_rows:,} x {n_features}"
    return workload, ours, theirs * n_stumps / peer_stumps, f"{must}x / {aim}x"


def small(args: argparse.Namespace) -> tuple[str, float, float, str]:
    """50 stumps on 1 000 x 10."""
    table = generated(1000, 10)
    ours = median_of_calls(lambda: AdaBoostClassifier().fit(table.X, table.y), 200)
    theirs = median_of_calls(lambda: PeerAdaBoost().fit(table.X, table.y), max(3, args.repeats))
    return "50 stumps, 1,000 x 10", ours, theirs, "5 ms / 2 ms"


def predict(args: argparse.Namespace) -> tuple[str, float, float, str]:
    """Labels of 200 000 rows by the same number of stumps."""
    training, table = generated(20_000, 28), generated(200_000, 28, seed=1)
    models = {
        "fastens": AdaBoostClassifier().fit(training.X, training.y),
        "scikit-learn": PeerAdaBoost().fit(training.X, training.y),
    }
    calls: dict[str, Callable[[], object]] = {
        name: lambda model=model: model.predict(table.X) for name, model in models.items()
    }
    calls["fastens"]()
    values = interleaved(calls, 3 * args.repeats)
    ours, theirs = (statistics.median(values[name]) for name in calls)
    return "predict 200,000 x 28, 50 stumps", ours, theirs, "20x / 50x"


WORKLOADS: dict[str, Callable[[argparse.Namespace], tuple[str, float, float, str]]] = {
    **{name: lambda args, name=name: fit(name, args) for name in FITS},
    "small": small,
    "predict": predict,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = [name for name in WORKLOADS if name != "fit-1m"]
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=default, metavar="NAME")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each timing (default 3)")
    parser.add_argument("--peer-stumps", type=int, default=None, help="stumps that scikit-learn fits (default: all)")
    args = parser.parse_args()
    print("| workload | fastens | scikit-learn | times | must / aim |")
    print("|---|--:|--:|--:|--:|")
    for name in args.workloads:
        workload, ours, theirs, goal = WORKLOADS[name](args)
        print(
            f"| {workload} | {1e3 * ours:.1f} ms | {1e3 * theirs:.0f} ms | {theirs / ours:.0f} | {goal} |", flush=True
        )


if __name__ == "__main__":
    main()
