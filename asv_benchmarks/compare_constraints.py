"""Time boosting with constraints, with categories, and with several classes beside LightGBM's, interleaved.

python asv_benchmarks/compare_constraints.py                         500 000 rows, some two minutes on 2 idle cores
python asv_benchmarks/compare_constraints.py --workloads monotone-4 --rows 200000
python asv_benchmarks/compare_constraints.py --workloads adult okc --rows 20000 --repeats 9      tables with categories
python asv_benchmarks/compare_constraints.py --workloads car heart_c
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.datasets import data_folder, generated
from benchmarks.peer_models import Settings, make_fastens, make_lightgbm
from comparison.category_tables import read
from comparison.measure import interleaved

N_CATEGORIES = (5, 10, 20, 50, 50, 100, 30)
REAL_TABLES = ["adult", "bank_marketing", "diamonds", "insteval", "mpls_stops", "nycflights13", "okc", "telco_churn"]
SMALL_TABLES = ["car", "cmc", "credit_g", "heart_c", "kr_vs_kp", "tic_tac_toe", "titanic"]


@dataclass
class Workload:
    """A table, and what each library is told besides the settings that they share."""

    title: str
    X: Any
    y: np.ndarray
    fastens: dict[str, Any] = field(default_factory=dict)
    lightgbm: dict[str, Any] = field(default_factory=dict)
    regression: bool = False


def plain(n_rows: int) -> Workload:
    table = generated(n_rows, 28)
    return Workload(f"no constraint, {n_rows:,} x 28", table.X, table.y)


def monotone(signs: dict[int, int], n_rows: int) -> Workload:
    table = generated(n_rows, 28)
    constraints = [signs.get(f, 0) for f in range(28)]
    title = f"{len(signs)} of 28 columns monotone, {n_rows:,} rows"
    told = {"monotone_constraints": constraints}
    return Workload(title, table.X, table.y, {"monotonic_cst": constraints}, told)


def categories(n_rows: int, **options: str) -> Workload:
    """Seven of 21 columns are categories of 5 to 100 values that all matter."""
    table, rng = generated(n_rows, 14), np.random.default_rng(0)
    codes = rng.integers(0, N_CATEGORIES, (n_rows, len(N_CATEGORIES)))
    X = pd.DataFrame(table.X, columns=[f"x{f}" for f in range(14)])
    signal = table.y + rng.logistic(size=n_rows)
    for f, n in enumerate(N_CATEGORIES):
        X[f"c{f}"] = pd.Categorical(codes[:, f])
        signal += 0.5 * rng.standard_normal(n)[codes[:, f]]
    title = f"7 of 21 columns categorical, {n_rows:,} rows{', sets only' if options else ''}"
    return Workload(title, X, (signal > 0.5).astype(int), options, {"cat_smooth": 10.0})


def real_table(name: str, n_rows: int) -> Workload:
    table = read(name, most_rows=n_rows)
    n_categories = sum(isinstance(dtype, pd.CategoricalDtype) for dtype in table.X.dtypes)
    title = f"{name}, {len(table.y):,} x {table.X.shape[1]}, {n_categories} categorical"
    return Workload(title, table.X, table.y, regression=table.is_regression)


def several_classes(n_rows: int) -> Workload:
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError("no real tables: set FASTENS_DATA to a folder of Parquet files")
    frame = pd.read_parquet(folder / "covertype.parquet").sample(n=min(n_rows, 500_000), random_state=0)
    y = pd.factorize(frame.pop("Cover_Type"), sort=True)[0]
    return Workload(f"7 classes, covertype, {len(y):,} x 54", frame.to_numpy(np.float32), y)


WORKLOADS: dict[str, Callable[[int], Workload]] = {
    "plain": plain,
    "monotone-4": lambda n_rows: monotone({2: -1, 7: 1, 10: 1, 12: -1}, n_rows),
    "monotone-28": lambda n_rows: monotone(dict.fromkeys(range(28), 1), n_rows),
    "categories": categories,
    "categories-sets": lambda n_rows: categories(n_rows, categorical_encoding="partition"),
    "classes": several_classes,
    **{name: partial(real_table, name) for name in REAL_TABLES + SMALL_TABLES},
}


def make_with(make: Callable[[Settings], Any], settings: Settings, told: dict[str, Any]) -> Any:
    return make(settings).set_params(**told)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--trees", type=int, default=100, help="rounds (default 100)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fastens", type=json.loads, default={}, metavar="JSON", help="more parameters of fastens")
    args = parser.parse_args()
    shared = Settings(n_threads=args.threads, n_trees=args.trees)
    print("| workload | fastens | LightGBM | times |\n|---|--:|--:|--:|")
    for name in args.workloads:
        work = WORKLOADS[name](args.rows)
        settings = replace(shared, regression=work.regression)
        makers = {
            "fastens": partial(make_with, make_fastens, settings, work.fastens | args.fastens),
            "LightGBM": partial(make_with, make_lightgbm, settings, work.lightgbm),
        }
        for make in makers.values():
            make().fit(work.X[:20_000], work.y[:20_000])
        calls = {library: (lambda make=make, work=work: make().fit(work.X, work.y)) for library, make in makers.items()}
        ours, theirs = (statistics.median(values) for values in interleaved(calls, args.repeats).values())
        print(f"| {work.title} | {ours:.3g} s | {theirs:.3g} s | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
