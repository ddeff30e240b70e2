"""Coverage and size of the sets of classes of the package on real tables, over several splits.

python asv_benchmarks/compare_coverage.py                           tables in FASTENS_DATA
python asv_benchmarks/compare_coverage.py --coverage 0.8 --splits 20 --rows 2000 --workloads adult letter
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.datasets import data_folder
from fastens import (
    ConformalClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)

CLASSES = {
    "adult": "income",
    "credit_g": "class",
    "letter": "class",
    "mlbench_satellite": "classes",
    "oml_first_order_theorem_proving": "target",
}
Answer = Callable[[pd.DataFrame], np.ndarray]
Fit = Callable[[pd.DataFrame, np.ndarray, argparse.Namespace], Answer]


def sets(conformity: str, cv: int | None) -> Fit:
    def fit(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Answer:
        member = GradientBoostingClassifier(n_estimators=args.rounds, n_jobs=args.threads)
        model = ConformalClassifier(member, conformity=conformity, cv=cv, random_state=0).fit(X, y)
        return lambda new: with_all_classes(model.predict_set(new, args.coverage), model.classes_, args)

    return fit


def forest_sets(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Answer:
    model = RandomForestClassifier(200, oob_score=True, random_state=0, n_jobs=args.threads).fit(X, y)
    return lambda new: with_all_classes(model.predict_set(new, args.coverage), model.classes_, args)


def with_all_classes(found: np.ndarray, classes: np.ndarray, args: argparse.Namespace) -> np.ndarray:
    """Columns for classes that were not among the rows to fit, too."""
    out = np.zeros((len(found), args.n_classes), dtype=bool)
    out[:, classes] = found
    return out


SETS: dict[str, Fit] = {
    "boosting, lac, 20 % held out": sets("lac", None),
    "boosting, lac, 5 folds": sets("lac", 5),
    "boosting, aps, 20 % held out": sets("aps", None),
    "boosting, raps, 20 % held out": sets("raps", None),
    "forest, lac, out of bag": forest_sets,
}


def read(name: str, target: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows in random order, text as categories."""
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError("no real tables: set FASTENS_DATA to a folder of Parquet files")
    table = pd.read_parquet(folder / f"{name}.parquet").dropna(subset=[target]).sample(frac=1, random_state=0)
    X = table.drop(columns=[column for column in (target, "split") if column in table])
    text = {column: "category" for column in X if not pd.api.types.is_numeric_dtype(X[column].dtype)}
    return X.astype(text), table[target].to_numpy()


def splits(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace):
    for seed in range(args.splits):
        order = np.random.default_rng(seed).permutation(len(y))
        n_train = min(args.rows, len(y) // 2)
        train, test = order[:n_train], order[n_train : n_train + 2 * args.rows]
        yield X.iloc[train], y[train], X.iloc[test], y[test]


def measure(way: Fit, X: pd.DataFrame, y: np.ndarray, judge: Callable, args: argparse.Namespace) -> tuple:
    """Mean coverage with its standard error over the splits, mean size, and median seconds of a fit."""
    covered, size, seconds = [], [], []
    for X_train, y_train, X_test, y_test in splits(X, y, args):
        start = time.perf_counter()
        answer = way(X_train, y_train, args)
        seconds.append(time.perf_counter() - start)
        found = judge(answer(X_test), y_test)
        covered.append(found[0].mean())
        size.append(found[1].mean())
    error = np.std(covered, ddof=1) / np.sqrt(len(covered))
    return np.mean(covered), error, np.mean(size), np.median(seconds)


def judge_set(found: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return found[np.arange(len(y)), y], found.sum(axis=1)


def compare(name: str, args: argparse.Namespace) -> None:
    X, y = read(name, CLASSES[name])
    y = pd.factorize(y, sort=True)[0]
    args.n_classes = int(y.max()) + 1
    for way, fit in SETS.items():
        coverage, error, size, seconds = measure(fit, X, y, judge_set, args)
        print(f"| {name} | {way} | {coverage:.3f} ± {error:.3f} | {size:.2f} | {seconds:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=list(CLASSES), default=list(CLASSES))
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1500, help="to fit to, all that is held out among them")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| rows | method | coverage | mean set size | seconds per fit |\n" + "|---" * 5 + "|")
    for name in args.workloads:
        compare(name, args)


if __name__ == "__main__":
    main()
