"""Compare fastens with the linear model of statsmodels on real tables with ordered classes: log loss and error.

python asv_benchmarks/compare_ordinal.py                       three tables; requires statsmodels
python asv_benchmarks/compare_ordinal.py --splits 5 --rows 500

The error is the mean distance, in classes, between the predicted median and the true class.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.datasets import data_folder
from compare_intervals import read
from fastens import GradientBoostingClassifier

CAR = ["unacc", "acc", "good", "vgood"]


def grades(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The columns as numbers, and the positions of the classes in their order."""
    if name == "car":
        table = pd.read_parquet(data_folder() / "car.parquet")
        (target,) = [column for column in table if set(table[column]) == set(CAR)]
        return pd.get_dummies(table.drop(columns=target), drop_first=True, dtype=float), table[target].map(
            CAR.index
        ).to_numpy()
    X, y = read(name)
    if name == "abalone":
        y = np.digitize(y, [7, 9, 11, 14])  # rings
    return X, np.unique(y, return_inverse=True)[1]


def boosting(loss: str) -> Callable[[pd.DataFrame, np.ndarray, argparse.Namespace], Callable]:
    def fit(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Callable[[pd.DataFrame], np.ndarray]:
        model = GradientBoostingClassifier(loss, early_stopping=True, random_state=0, n_jobs=args.threads)
        return model.fit(X, y).predict_proba

    return fit


def linear(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Callable[[pd.DataFrame], np.ndarray]:
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    X = X.loc[:, X.std() > 0]
    mean, scale = X.mean(), X.std()
    model = OrderedModel(y, (X - mean) / scale, distr="logit").fit(method="bfgs", disp=False)
    return lambda new: np.asarray(model.predict((new[X.columns] - mean) / scale))


WAYS = {
    "fastens, ordinal": boosting("ordinal"),
    "fastens, log_loss": boosting("log_loss"),
    "statsmodels, OrderedModel": linear,
}


def measure(way: Callable, X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> tuple[float, float, float]:
    """Return the log loss, the error and the seconds, averaged over the splits."""
    found = []
    for seed in range(args.splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order[: args.rows + args.test_rows], [min(args.rows, int(0.7 * len(y)))])
        start = time.perf_counter()
        p = way(X.iloc[train], y[train], args)(X.iloc[test])
        seconds = time.perf_counter() - start
        likelihood = np.maximum(p[np.arange(len(test)), y[test]], 1e-12)
        median = (np.cumsum(p, axis=1) < 0.5).sum(axis=1)
        found.append([-np.log(likelihood).mean(), np.abs(median - y[test]).mean(), seconds])
    return tuple(np.mean(found, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3, help="random splits (default 3)")
    parser.add_argument("--rows", type=int, default=1500, help="training rows, at most 70 %% (default 1500)")
    parser.add_argument("--test-rows", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print("| table | classes | model | log loss | error | seconds |\n" + "| --- " * 6 + "|")
    for name in ("abalone", "car", "wine_quality"):
        X, y = grades(name)
        # Classes that a training set may lack are merged with their neighbours.
        y = np.clip(y, *np.flatnonzero(np.bincount(y) >= 0.01 * len(y))[[0, -1]])
        y -= y.min()
        for way, fit in WAYS.items():
            loss, error, seconds = measure(fit, X, y, args)
            print(f"| {name} | {y.max() + 1} | {way} | {loss:.3f} | {error:.3f} | {seconds:.2f} |", flush=True)


if __name__ == "__main__":
    main()
