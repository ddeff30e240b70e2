"""Negative log likelihood, CRPS and seconds of predicted distributions on real tables, next to NGBoost's.

python asv_benchmarks/compare_distributions.py                       ten tables
python asv_benchmarks/compare_distributions.py --tables abalone --splits 5 --losses normal student_t

All models use 20 % of the training rows for early stopping. NGBoost has a learning rate of 0.01 and at most 2000
rounds; its other parameters are the defaults. The differences of the negative log likelihood are in nats per row.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.model_selection import train_test_split

from compare_intervals import TABLES, read
from fastens import GradientBoostingRegressor, crps

NAMES = [
    "abalone",
    "appliances_energy",
    "boston_housing",
    "california_housing",
    "concrete",
    "cps1988",
    "energy_efficiency",
    "power_plant",
    "reg_autompg",
    "wine_quality",
]
LOSSES = ["normal", "lognormal", "student_t"]
LEVELS = (np.arange(9) + 0.5) / 9
Parts = tuple[pd.DataFrame, pd.DataFrame, np.ndarray, np.ndarray]


class Scores(NamedTuple):
    """Means over the splits of a table."""

    nll: float
    crps: float
    pinball: float
    seconds: float


def fastens_model(loss: str) -> Callable[[Parts, argparse.Namespace], Any]:
    def fit(parts: Parts, args: argparse.Namespace) -> Any:
        X, X_val, y, y_val = parts
        model = GradientBoostingRegressor(loss, n_estimators=2000, n_jobs=args.threads, random_state=args.seed)
        model.set_params(**({"eval_metric": "neg_crps"} if args.by_crps else {}))
        return model.fit(X, y, X_val=X_val, y_val=y_val).predict_dist

    return fit


def ngboost_model(loss: str) -> Callable[[Parts, argparse.Namespace], Any]:
    def fit(parts: Parts, args: argparse.Namespace) -> Any:
        from ngboost import NGBRegressor
        from ngboost.distns import LogNormal, Normal, T

        X, X_val, y, y_val = (np.asarray(part) for part in parts)
        dist = {"normal": Normal, "lognormal": LogNormal, "student_t": T}[loss]
        model = NGBRegressor(Dist=dist, n_estimators=2000, random_state=args.seed, verbose=False)
        model.fit(X, y, X_val=X_val, Y_val=y_val, early_stopping_rounds=20)
        return lambda new: frozen(loss, model.pred_dist(np.asarray(new)).params)

    return fit


def frozen(loss: str, params: dict[str, Any]) -> Any:
    """The distributions of NGBoost's parameters."""
    if loss == "lognormal":
        return stats.lognorm(params["s"], 0.0, params["scale"])
    return stats.t(**params) if loss == "student_t" else stats.norm(**params)


def boosted_quantiles(parts: Parts, X_new: pd.DataFrame, y_new: np.ndarray, args: argparse.Namespace) -> Scores:
    """The scores of quantiles that are boosted one by one."""
    X, X_val, y, y_val = parts
    start = time.perf_counter()
    model = GradientBoostingRegressor("quantile", quantile=LEVELS.tolist(), n_jobs=args.threads)
    predicted = model.fit(X, y, X_val=X_val, y_val=y_val).predict(X_new)
    seconds = time.perf_counter() - start
    return Scores(np.nan, np.nan, pinball(y_new, predicted), seconds)


def pinball(y: np.ndarray, quantiles: np.ndarray) -> float:
    """Twice the mean loss of quantiles at LEVELS, an approximation of the CRPS."""
    away = y[:, None] - quantiles
    return 2 * float(np.maximum(LEVELS * away, (LEVELS - 1) * away).mean())


def measure(way: Callable, parts: Parts, X_new: pd.DataFrame, y_new: np.ndarray, args: argparse.Namespace) -> Scores:
    start = time.perf_counter()
    dist = way(parts, args)(X_new)
    seconds = time.perf_counter() - start
    quantiles = np.column_stack([dist.ppf(level) for level in LEVELS])
    return Scores(-float(dist.logpdf(y_new).mean()), crps(y_new, dist), pinball(y_new, quantiles), seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=NAMES, metavar="NAME")
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=["normal"], metavar="LOSS")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--rows", type=int, default=2000, help="to fit to, at most 70 %% of the table")
    parser.add_argument("--test-rows", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ours-only", action="store_true", help="leave NGBoost out")
    parser.add_argument("--by-crps", action="store_true", help="stop fastens early by the CRPS")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for loss in args.losses:
        rows = [of_table(name, loss, args) for name in args.tables]
        print(f"\n### `loss={loss!r}`\n")
        print(
            "| table | fastens NLL | NGBoost NLL | fastens CRPS | NGBoost CRPS | fastens pinball loss | "
            "boosted quantiles, pinball loss | fastens seconds | NGBoost seconds |"
        )
        print("| --- " * 9 + "|")
        for name, (ours, theirs, quantiles) in zip(args.tables, rows, strict=True):
            print(
                f"| {name} | {ours.nll:.3f} | {theirs.nll:.3f} | {ours.crps:.4g} | {theirs.crps:.4g} | "
                f"{ours.pinball:.4g} | {quantiles.pinball:.4g} | {ours.seconds:.2f} | {theirs.seconds:.2f} |"
            )
        ours, theirs, quantiles = (np.array([row[way] for row in rows]) for way in range(3))
        less = (theirs - ours)[:, 0]
        faster, over_theirs, over_quantiles = (
            np.exp(np.log(ratio).mean())
            for ratio in (theirs[:, 3] / ours[:, 3], ours[:, 1] / theirs[:, 1], ours[:, 2] / quantiles[:, 2])
        )
        print(
            f"\nThe negative log likelihood of fastens is {less.mean():.3f} lower on average, and lower on "
            f"{(less > 0).sum()} of {len(less)} tables, in 1/{faster:.0f} of the time. Its CRPS is {over_theirs:.3f} "
            f"times NGBoost's, and the pinball loss of its quantiles at nine levels is {over_quantiles:.3f} times the "
            "loss of quantiles boosted at these levels (geometric means)."
        )


def of_table(name: str, loss: str, args: argparse.Namespace) -> list[Scores]:
    X, y = read(name)
    if loss == "lognormal":
        X, y = X[y > 0], y[y > 0]
    found = []
    for seed in range(args.splits):
        args.seed = seed
        order = np.random.default_rng(args.seed).permutation(len(y))
        train, test = np.split(order[: args.rows + args.test_rows], [min(args.rows, int(0.7 * len(y)))])
        parts = train_test_split(X.iloc[train], y[train], test_size=0.2, random_state=args.seed)
        new = X.iloc[test], y[test]
        ways = [fastens_model(loss), *([] if args.ours_only else [ngboost_model(loss)])]
        scores = [measure(way, parts, *new, args) for way in ways]
        scores += [Scores(*[np.nan] * 4)] * args.ours_only
        found.append([*scores, boosted_quantiles(parts, *new, args)])
    return [Scores(*np.mean([scores[way] for scores in found], axis=0)) for way in range(3)]


if __name__ == "__main__":
    main()
