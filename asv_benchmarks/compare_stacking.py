"""Compare stacking with its members and with scikit-learn's, on real tables: loss, ranks, time and peak memory.

python asv_benchmarks/compare_stacking.py                              ten tables, some 10 minutes on 2 idle cores
python asv_benchmarks/compare_stacking.py --tables credit_g --rows 500 --no-memory

The tables are Parquet files in FASTENS_DATA, or ../shared/data beside the checkout. Each table is split once into
training rows (2/3) and test rows; losses are log loss, or root mean squared error over the target's spread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import StackingClassifier as PeerClassifier
from sklearn.ensemble import StackingRegressor as PeerRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, root_mean_squared_error
from sklearn.model_selection import train_test_split

import fastens
from comparison.peak_memory import memory
from comparison.report import machine, table

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("FASTENS_DATA", HERE.parents[1] / "shared" / "data"))
TABLES = {
    "credit_g": "class",
    "diabetes": "class",
    "mlc_churn": "churn",
    "magic_telescope": None,
    "eeg_eye_state": "eye_state",
    "mlbench_satellite": "classes",
    "oml_mozilla4": "target",
    "concrete": "strength",
    "cps1988": "wage",
    "diamonds": "price",
}
REGRESSION = ("concrete", "cps1988", "diamonds")
Models = dict[str, Callable[[], Any]]


def read(name: str, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    table = pd.read_parquet(DATA / f"{name}.parquet")
    target = TABLES[name] or table.columns[-1]
    table = table[table[target].notna()]
    if len(table) > n_rows:
        table = table.sample(n_rows, random_state=0)
    y = table.pop(target)
    return table.reset_index(drop=True), (
        y.to_numpy(float) if name in REGRESSION else y.astype(str).to_numpy(dtype=object)
    )


def members(is_regression: bool) -> list[tuple[str, Any]]:
    kind = "Regressor" if is_regression else "Classifier"
    return [
        ("boosting", getattr(fastens, f"GradientBoosting{kind}")()),
        ("forest", getattr(fastens, f"RandomForest{kind}")(random_state=0)),
        ("extra_trees", getattr(fastens, f"ExtraTrees{kind}")(random_state=0)),
    ]


def models(is_regression: bool) -> Models:
    """The members alone, scikit-learn's stack of them, ours with the same settings, and ours as it comes."""
    peer, own = (
        (PeerRegressor, fastens.StackingRegressor) if is_regression else (PeerClassifier, fastens.StackingClassifier)
    )
    final = Ridge() if is_regression else LogisticRegression(max_iter=1000)
    found: Models = {name: lambda member=member: member for name, member in members(is_regression)}
    return found | {
        "scikit-learn": lambda: peer(members(is_regression), final, cv=5),
        "same settings": lambda: own(members(is_regression), final, cv=5, refit=True),
        "refit": lambda: own(members(is_regression), cv=5, refit=True),
        "fold models": lambda: own(members(is_regression), cv=5, refit=False),
    }


def loss(model: Any, X: pd.DataFrame, y: np.ndarray) -> float:
    if hasattr(model, "predict_proba"):
        return float(log_loss(y, model.predict_proba(X), labels=model.classes_))
    return float(root_mean_squared_error(y, model.predict(X)) / y.std())


def split(name: str, n_rows: int) -> Any:
    X, y = read(name, n_rows)
    return train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=None if name in REGRESSION else y)


def measure(name: str, n_rows: int, repeats: int) -> list[dict[str, Any]]:
    """Losses of all models, and the shortest of a few times, the models taking turns."""
    X, X_test, y, y_test = split(name, n_rows)
    found: dict[str, dict[str, Any]] = {}
    for _ in range(repeats):
        for label, make in models(name in REGRESSION).items():
            wall, cpu = time.perf_counter(), time.process_time()
            model = make().fit(X, y)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            row = found.setdefault(label, {"table": name, "model": label, "seconds": wall, "cpu": cpu})
            row["seconds"], row["cpu"] = min(row["seconds"], wall), min(row["cpu"], cpu)
            row["loss"] = loss(model, X_test, y_test)
    return list(found.values())


def peak_memory(name: str, label: str, n_rows: int) -> float:
    """Peak of a process that fits one model, in MiB."""
    command = [sys.executable, __file__, "--peak", name, label, "--rows", str(n_rows)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def print_peak(name: str, label: str, n_rows: int) -> None:
    X, _, y, _ = split(name, n_rows)
    models(name in REGRESSION)[label]().fit(X, y)
    # Not ru_maxrss, which a process inherits from the one that starts it.
    print(memory("VmHWM") / 2**20)


def report(rows: list[dict[str, Any]]) -> str:
    found = pd.DataFrame(rows)
    losses = found.pivot(index="table", columns="model", values="loss")[found["model"].unique()]
    single = ["boosting", "forest", "extra_trees"]
    judged = losses.assign(**{"best member": losses[single].min(axis=1)})
    judged.loc["mean rank"] = judged.drop(columns=single).rank(axis=1).mean()
    parts = ["# Loss on the test rows", table(cells(judged, 4))]
    for value, name in (("seconds", "Training time"), ("cpu", "CPU time of training")):
        times = found.pivot(index="table", columns="model", values=value)
        share = times[["same settings", "refit", "fold models"]].div(times["scikit-learn"], axis=0)
        share.loc["geometric mean"] = np.exp(np.log(share).mean())
        parts += [f"# {name} as a fraction of scikit-learn's", table(cells(share, 2))]
    return "\n\n".join(parts)


def cells(values: pd.DataFrame, digits: int) -> list[list[str]]:
    told = [[str(name), *("" if np.isnan(x) else f"{x:.{digits}f}" for x in row)] for name, row in values.iterrows()]
    return [[values.index.name, *map(str, values.columns)], *told]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="NAME")
    parser.add_argument("--rows", type=int, default=6000, help="most rows of a table (default 6000)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each timing (default 3)")
    parser.add_argument("--no-memory", action="store_true", help="leave the peak memory out")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "stacking.json")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    if args.peak:
        print_peak(*args.peak, args.rows)
        return
    rows: list[dict[str, Any]] = []
    for name in args.tables:
        print(f"{name} ...", file=sys.stderr, flush=True)
        rows += measure(name, args.rows, args.repeats)
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(rows, indent=1))
    print(machine(), report(rows), sep="\n\n")
    if not args.no_memory:
        name = args.tables[-1]
        peaks = {label: peak_memory(name, label, args.rows) for label in models(name in REGRESSION)}
        print(
            f"\n# Peak memory on {name}\n",
            table([["", "MiB"], *([name, f"{peak:.0f}"] for name, peak in peaks.items())]),
            sep="\n",
        )


if __name__ == "__main__":
    main()
