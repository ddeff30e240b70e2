"""Concordance and time of fastens and XGBoost on censored times, matched settings: repeated splits, several tables.

python asv_benchmarks/compare_survival.py
python asv_benchmarks/compare_survival.py --rows 72000 --rounds 100 --leaves 31 --seeds 3 --tables weibull intervals
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.datasets import data_folder
from fastens import AFTLoss, GradientBoostingSurvival, Growth
from fastens.engine.losses.ranking_loss import concordance

LOSSES = (("cox", "normal"), ("aft", "normal"), ("aft", "logistic"), ("aft", "extreme"))
Times = tuple[np.ndarray, np.ndarray]


def weibull(args: argparse.Namespace, seed: int) -> Times:
    """Weibull times with interactions, a third of them censored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(args.rows, 10))
    centre = np.sin(2 * X[:, 0]) - 0.7 * X[:, 1] * (X[:, 2] > 0) + 0.3 * X[:, 3]
    happened, lost = np.exp(centre) * rng.weibull(1.5, args.rows), rng.exponential(2.5, args.rows)
    return X, np.column_stack([np.minimum(happened, lost), np.where(happened <= lost, happened, np.inf)])


def intervals(args: argparse.Namespace, seed: int) -> Times:
    """The same, but three in ten rows known within an interval and one in ten censored on the left."""
    X, y = weibull(args, seed)
    kind = np.random.default_rng(seed).random(args.rows)
    low, high = y.T.copy()
    between, before = kind < 0.3, kind > 0.9
    high[between], high[before] = 1.5 * low[between], low[before]
    low[before] = 0.0
    return X, np.column_stack([low, high])


def churn(args: argparse.Namespace, seed: int) -> Times:
    """IBM's customers: months until they left, censored for those who are still there."""
    import pandas as pd

    table = pd.read_parquet(data_folder() / "telco_churn.parquet")
    table = table[pd.to_numeric(table["tenure"]) > 0]
    months = pd.to_numeric(table["tenure"]).to_numpy(float)
    left = table["Churn"].astype(str).isin(["Yes", "1", "True"]).to_numpy()
    given_away = ["tenure", "Churn", "TotalCharges"]  # total charges are months times the price of one
    X = table.drop(columns=[name for name in given_away if name in table])
    X = X.apply(lambda column: column if column.dtype.kind in "iuf" else column.astype("category").cat.codes)
    return X.to_numpy(float), np.column_stack([months, np.where(left, months, np.inf)])


TABLES: dict[str, Callable[[argparse.Namespace, int], Times]] = {
    "weibull": weibull,
    "intervals": intervals,
    "churn": churn,
}


def fastens(loss: str, distribution: str, args: argparse.Namespace) -> Callable:
    model = GradientBoostingSurvival(
        "cox" if loss == "cox" else AFTLoss(distribution, args.scale), n_estimators=args.rounds, n_jobs=args.threads,
        max_leaf_nodes=args.leaves, min_samples_leaf=1, l2_regularization=1.0,
        growth=Growth(min_child_weight=args.child_weight),
        early_stopping=False,
    )  # fmt: skip

    def fit(X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        fitted, sign = model.fit(X, y), -1 if loss == "cox" else 1
        return lambda rows: sign * fitted.predict(rows)

    return fit


def xgboost(loss: str, distribution: str, args: argparse.Namespace) -> Callable:
    import xgboost as xgb

    settings = {
        "objective": f"survival:{loss}", "max_leaves": args.leaves, "max_depth": 0, "grow_policy": "lossguide",
        "eta": 0.1, "max_bin": 256, "lambda": 0.0, "min_child_weight": args.child_weight, "nthread": args.threads,
    }  # fmt: skip
    if loss == "aft":
        settings |= {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": args.scale}

    def fit(X: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        data = xgb.DMatrix(X, nthread=args.threads)
        if loss == "cox":
            data.set_label(np.where(np.isinf(y[:, 1]), -y[:, 0], y[:, 0]))
        else:
            data.set_float_info("label_lower_bound", y[:, 0])
            data.set_float_info("label_upper_bound", y[:, 1])
        model, sign = xgb.train(settings, data, args.rounds), -1 if loss == "cox" else 1
        return lambda rows: sign * model.predict(xgb.DMatrix(rows), output_margin=True).astype(float)

    return fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4000, help="of the generated table (default 4000)")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--leaves", type=int, default=8)
    parser.add_argument("--child-weight", type=float, default=5.0, help="smallest sum of hessians (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the error of accelerated failure times")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=["weibull", "churn"])
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(
        "| rows | loss | fastens | XGBoost | difference | standard error of the difference | "
        "seconds, fastens and XGBoost |\n|" + "---|" * 7
    )
    for name in args.tables:
        table = TABLES[name]
        for loss, distribution in LOSSES[1:] if table is intervals else LOSSES:
            found, seconds = [], np.empty((args.seeds, 2))
            for seed in range(args.seeds):
                X, y = table(args, seed)
                train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed)
                scores = []
                for number, library in enumerate((fastens, xgboost)):
                    start = time.perf_counter()
                    predict = library(loss, distribution, args)(X[train], y[train])
                    seconds[seed, number] = time.perf_counter() - start
                    scores.append(concordance(y[test], predict(X[test])))
                found.append(scores)
            own, other = np.mean(found, axis=0)
            error = np.std(np.diff(found, axis=1), ddof=1) / np.sqrt(args.seeds)
            model = loss if loss == "cox" else f"{loss}, {distribution}"
            times = "{:.3f}, {:.3f}".format(*np.median(seconds, axis=0))
            cells = f"{own:.4f} | {other:.4f} | {own - other:+.4f} | {error:.4f} | {times}"
            print(f"| {name} | {model} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
