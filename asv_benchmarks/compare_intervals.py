"""Interval scores and coverage of default prediction intervals on real tables, against other libraries'.

python asv_benchmarks/compare_intervals.py                       all tables of numbers of the data folder
python asv_benchmarks/compare_intervals.py --tables abalone --splits 5

The score (Gneiting & Raftery 2007, eq. 43) is the width plus 2 / (1 - coverage) times how far targets lie outside; it
is printed relative to quantile-forest's. Libraries are at their defaults but for coverage and threads.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.datasets import data_folder
from fastens import ConformalRegressor, RandomForestRegressor

TABLES = {
    "abalone": "rings",
    "appliances_energy": "Appliances",
    "bike_sharing_hour": "cnt",
    "boston_housing": "medv",
    "california_housing": "median_house_value",
    "concrete": "strength",
    "cps1988": "wage",
    "diamonds": "price",
    "energy_efficiency": "heating_load",
    "pol": "y",
    "power_plant": "PE",
    "reg_ailerons": "goal",
    "reg_autompg": "class",
    "reg_cpu_act": "usr",
    "reg_elevators": "Goal",
    "skillcraft": "y",
    "wine_quality": "quality",
    "yacht": "resistance",
}
# Columns that are parts of the target, or name the row.
LEFT_OUT = ("casual", "registered", "dteday", "instant", "date", "split")
Interval = Callable[[pd.DataFrame], np.ndarray]


def conformal(**options: object) -> Callable:
    def fit(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Interval:
        model = ConformalRegressor(random_state=args.seed, n_jobs=args.threads, **options).fit(X, y)
        return lambda new: model.predict_interval(new, args.coverage)

    return fit


def forest(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Interval:
    model = RandomForestRegressor(oob_score=True, random_state=args.seed, n_jobs=args.threads).fit(X, y)
    return lambda new: model.predict_interval(new, args.coverage)


def quantile_forest(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Interval:
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(random_state=args.seed, n_jobs=args.threads).fit(X.to_numpy(), y)
    return lambda new: model.predict(new.to_numpy(), quantiles=tails(args))


def mapie(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Interval:
    from mapie.regression import CrossConformalRegressor
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = CrossConformalRegressor(HistGradientBoostingRegressor(), confidence_level=args.coverage, cv=5)
    model.fit_conformalize(X.to_numpy(), y)
    return lambda new: model.predict_interval(new.to_numpy())[1][:, :, 0]


def mapie_quantiles(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Interval:
    from lightgbm import LGBMRegressor
    from mapie.regression import ConformalizedQuantileRegressor

    last = len(y) - len(y) // 5
    member = LGBMRegressor(objective="quantile", alpha=0.5, n_jobs=args.threads, verbose=-1)
    model = ConformalizedQuantileRegressor(member, confidence_level=args.coverage).fit(X[:last].to_numpy(), y[:last])
    model.conformalize(X[last:].to_numpy(), y[last:])
    return lambda new: model.predict_interval(new.to_numpy())[1][:, :, 0]


def catboost(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Interval:
    from catboost import CatBoostRegressor

    loss = f"MultiQuantile:alpha={tails(args)[0]:.4g},{tails(args)[1]:.4g}"
    model = CatBoostRegressor(loss_function=loss, thread_count=args.threads, verbose=0, allow_writing_files=False)
    return model.fit(X.to_numpy(), y).predict


def ngboost(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Interval:
    from ngboost import NGBRegressor

    model = NGBRegressor(random_state=args.seed, verbose=False).fit(X.to_numpy(), y)
    return lambda new: np.column_stack(model.pred_dist(new.to_numpy()).interval(args.coverage))


WAYS = {
    "fastens ConformalRegressor": conformal(),
    "fastens ConformalRegressor, cv=5": conformal(cv=5),
    "fastens ConformalRegressor, constant": conformal(method="constant"),
    "fastens RandomForestRegressor": forest,
    "quantile-forest": quantile_forest,
    "MAPIE, CV+ of HistGradientBoosting": mapie,
    "MAPIE, quantiles of LightGBM": mapie_quantiles,
    "CatBoost, MultiQuantile": catboost,
    "NGBoost": ngboost,
}
BASE = "quantile-forest"


def tails(args: argparse.Namespace) -> list[float]:
    return [(1 - args.coverage) / 2, (1 + args.coverage) / 2]


def read(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers alone, text as its codes and medians for missing values, so that every library gets the same."""
    folder = data_folder()
    if folder is None:
        raise FileNotFoundError("no real tables: set FASTENS_DATA to a folder of Parquet files")
    table = pd.read_parquet(folder / f"{name}.parquet").dropna(subset=[TABLES[name]])
    X = table.drop(columns=[column for column in (TABLES[name], *LEFT_OUT) if column in table])
    text = {c: pd.factorize(X[c], sort=True)[0] for c in X if not pd.api.types.is_numeric_dtype(X[c].dtype)}
    X = X.assign(**text).astype(float)
    return X.fillna(X.median()), table[TABLES[name]].astype(float).to_numpy()


def measure(way: Callable, X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> tuple[float, float, float]:
    """Mean interval score, coverage and seconds over the splits."""
    found = []
    for seed in range(args.splits):
        args.seed = seed
        order = np.random.default_rng(args.seed).permutation(len(y))
        train, test = np.split(order[: args.rows + args.test_rows], [min(args.rows, int(0.7 * len(y)))])
        start = time.perf_counter()
        interval = way(X.iloc[train].reset_index(drop=True), y[train], args)
        low, high = interval(X.iloc[test].reset_index(drop=True)).T
        seconds = time.perf_counter() - start
        outside = np.maximum(low - y[test], 0) + np.maximum(y[test] - high, 0)
        found.append([(high - low + 2 / (1 - args.coverage) * outside).mean(), (outside == 0).mean(), seconds])
    return tuple(np.mean(found, axis=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="NAME")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY")
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1500, help="to fit to, at most 70 %% of the table")
    parser.add_argument("--test-rows", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    ways = {name: WAYS[name] for name in dict.fromkeys([BASE, *args.ways])}
    results: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ways}
    for table in args.tables:
        X, y = read(table)
        found = {name: measure(way, X, y, args) for name, way in ways.items()}
        told = [f"{name} {score / found[BASE][0]:.3f} ({covered:.3f})" for name, (score, covered, _) in found.items()]
        print(f"{table}: {'; '.join(told)}", flush=True)
        for name, (score, covered, seconds) in found.items():
            results[name].append((score / found[BASE][0], covered, seconds))
    print("\n| | score over quantile-forest's | coverage | coverage range | seconds |\n| --- | --- | --- | --- | --- |")
    for name, rows in results.items():
        scores, covered, seconds = np.array(rows).T
        spread = f"{covered.min():.3f} to {covered.max():.3f}"
        mean = np.exp(np.log(scores).mean())
        print(f"| {name} | {mean:.3f} | {covered.mean():.3f} | {spread} | {np.median(seconds):.2f} |")


if __name__ == "__main__":
    main()
