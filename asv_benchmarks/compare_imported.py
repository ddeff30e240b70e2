"""Compare predictions of LightGBM's models by LightGBM and, read by `from_model`, by fastens; print a Markdown table.

python asv_benchmarks/compare_imported.py                       100,000 rows, 100 and 1000 trees, 2 threads
python asv_benchmarks/compare_imported.py --rows 20000 --trees 100 --repeats 3 --threads 1
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np

import fastens
from benchmarks.datasets import generated
from comparison.measure import interleaved
from comparison.report import table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, help="rows to predict")
    parser.add_argument("--grown-on", type=int, default=50_000, help="rows to train on")
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def microseconds(call: Callable[[], Any], n_calls: int = 2000) -> float:
    """The median time of single calls."""
    call()
    times = []
    for _ in range(n_calls):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1e6 * statistics.median(times)


def measured(n_trees: int, args: argparse.Namespace) -> list[str]:
    """One line of the table for a model of so many trees."""
    given = generated(args.grown_on + args.rows, 28)
    X, y = given.X, given.y
    options = {"objective": "binary", "verbose": -1, "num_leaves": args.leaves, "num_threads": args.threads}
    data = lightgbm.Dataset(X[: args.grown_on], y[: args.grown_on])
    theirs = lightgbm.train(options, data, n_trees)
    start = time.perf_counter()
    ours = fastens.from_model(theirs).set_params(n_jobs=args.threads)
    reading = time.perf_counter() - start
    rows = np.ascontiguousarray(X[args.grown_on :], dtype=np.float64)
    raw = theirs.predict(rows, raw_score=True)
    assert np.array_equal(ours.decision_function(rows), raw), "other predictions"
    calls = {
        "LightGBM": lambda: theirs.predict(rows, raw_score=True, num_threads=args.threads),
        "fastens": lambda: ours.decision_function(rows),
    }
    taken = interleaved(calls, args.repeats)
    seconds = {name: statistics.median(times) for name, times in taken.items()}
    one = rows[:1].copy()
    single = [
        microseconds(lambda: theirs.predict(one, raw_score=True, num_threads=1)),
        microseconds(lambda: ours.decision_function(one)),
    ]
    batch = [seconds["LightGBM"], seconds["fastens"]]
    return [
        str(n_trees),
        *(f"{1e3 * value:.0f}" for value in batch),
        f"{batch[0] / batch[1]:.1f}",
        *(f"{value:.1f}" for value in single),
        f"{1e3 * reading:.0f}",
    ]


def main() -> None:
    args = arguments()
    head = ["trees", "LightGBM ms", "fastens ms", "speed-up", "one row, LightGBM us", "fastens us", "reading ms"]
    print(f"{args.rows:,} rows, {args.leaves} leaves, {args.threads} threads\n")
    print(table([head, *(measured(n_trees, args) for n_trees in args.trees)]))


if __name__ == "__main__":
    main()
