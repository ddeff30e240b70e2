"""What it pays to tune: one parameter of boosting at a time, its value chosen by cross-validation on real tables.

python asv_benchmarks/compare_tuning.py                           the tables that defaults may be chosen on
python asv_benchmarks/compare_tuning.py --tables credit_g car --rows 1000 --parameters max_leaf_nodes subsample

For each table and split, each value is judged by three folds of the training rows; the best one, or the default where
nothing is better, is fitted to all of them and scored on the test rows. Losses are log loss, and root mean squared
error over the target's spread; ratios to the default's are of both plus 0.01, so that the tables without noise, whose
losses are near 0, do not decide alone.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold

from benchmarks.datasets import Table
from comparison.category_tables import read
from comparison.quality_runs import measured, split_rows
from comparison.quality_tables import DEVELOPMENT, TABLES
from comparison.report import machine, table
from fastens import GradientBoostingClassifier, GradientBoostingRegressor

SHIFT, N_FOLDS = 0.01, 3
Options = dict[str, Any]


def values(name: str, *tried: Any) -> list[Options]:
    return [{name: value} for value in tried]


PARAMETERS: dict[str, list[Options]] = {
    "n_estimators, learning_rate": [
        {"n_estimators": n, "learning_rate": rate} for n, rate in ((40, 0.1), (300, 0.1), (300, 0.03))
    ],
    "max_leaf_nodes": values("max_leaf_nodes", 2, 4, 8, 100),
    "min_samples_leaf": values("min_samples_leaf", 1, 20, 50),
    "max_features": values("max_features", 0.25, 0.4, 1.0),
    "max_features_per_tree": values("max_features_per_tree", 0.25, 0.5, 0.75),
    "subsample": values("subsample", 0.5, 0.7, 0.9),
    "l2_regularization": values("l2_regularization", 0.01, 0.1, 10),
    "split_penalty": values("split_penalty", 0, 2, 5),
    "linear_leaves": values("linear_leaves", True),
}


def predictions(data: Table, options: Options, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    if data.is_regression:
        model = GradientBoostingRegressor(random_state=0, n_jobs=1, **options)
        return model.fit(data.X.iloc[train], data.y[train]).predict(data.X.iloc[test])
    model = GradientBoostingClassifier(random_state=0, n_jobs=1, **options).fit(data.X.iloc[train], data.y[train])
    chances = np.zeros((len(test), data.n_classes))
    chances[:, model.classes_] = model.predict_proba(data.X.iloc[test])
    return chances


def loss(data: Table, options: Options, train: np.ndarray, test: np.ndarray) -> float:
    predicted = predictions(data, options, train, test)
    if data.is_regression:
        return measured(data, data.y[test], predicted, float(np.std(data.y[train])))["loss"]
    shares = predicted[np.arange(len(test)), data.y[test]]
    return float(-np.mean(np.log(np.maximum(shares, 1e-15))))


def ratios(data: Table, split: int, parameters: list[str]) -> dict[str, float]:
    """For each parameter the loss on the test rows of the value chosen, over that of the default."""
    train, test = split_rows(data, split)
    kind: type[BaseCrossValidator] = KFold if data.is_regression else StratifiedKFold
    folds = list(kind(N_FOLDS, shuffle=True, random_state=0).split(data.X.iloc[train], data.y[train]))

    def judged(options: Options) -> tuple[float, float]:
        inner = np.mean([loss(data, options, train[fit], train[held]) for fit, held in folds])
        return float(inner), loss(data, options, train, test)

    default = judged({})
    tried = {name: [default, *map(judged, PARAMETERS[name])] for name in parameters}
    tried["the best of all"] = [each for group in tried.values() for each in group]
    return {name: (min(group)[1] + SHIFT) / (default[1] + SHIFT) for name, group in tried.items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(DEVELOPMENT), choices=TABLES, metavar="NAME")
    parser.add_argument("--parameters", nargs="+", default=list(PARAMETERS), choices=PARAMETERS, metavar="NAME")
    parser.add_argument("--rows", type=int, default=2000, help="most rows of a table (default 2000)")
    parser.add_argument("--splits", type=int, default=1)
    return parser.parse_args()


def row(name: str, found: np.ndarray) -> list[str]:
    better, worse = int((found < 0.99).sum()), int((found > 1.01).sum())
    tried = ", ".join(" and ".join(map(str, each.values())) for each in PARAMETERS.get(name, []))
    return [name, tried, f"{np.exp(np.log(found).mean()):.3f}", str(better), str(worse), f"{found.min():.2f}"]


def main() -> None:
    args = arguments()
    warnings.filterwarnings("ignore")
    found: dict[str, list[float]] = {}
    for name in args.tables:
        print(name, file=sys.stderr, flush=True)
        data = read(name, TABLES[name], args.rows)
        for split in range(args.splits):
            for parameter, ratio in ratios(data, split, args.parameters).items():
                found.setdefault(parameter, []).append(ratio)
    head = [
        "tuned parameters",
        "values tried",
        "loss over the default",
        "tables 1 % better",
        "tables 1 % worse",
        "best ratio",
    ]
    print(machine(), f"{len(args.tables)} tables, splits: {args.splits}", sep="\n\n", end="\n\n")
    print(table([head, *(row(name, np.array(each)) for name, each in found.items())]))


if __name__ == "__main__":
    main()
