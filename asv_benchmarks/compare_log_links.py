"""Deviances of counts, amounts and claims, by losses of the logarithm of a mean, of all libraries as they come.

python asv_benchmarks/compare_log_links.py                       1000 and 5000 rows of each table
python asv_benchmarks/compare_log_links.py --rows 20000 --seeds 2 --tables pg15_claims
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any, NamedTuple

import numpy as np
from catboost import CatBoostRegressor
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_tweedie_deviance
from sklearn.model_selection import train_test_split
from xgboost import XGBRegressor

from benchmarks.datasets import Table
from benchmarks.peer_models import Settings
from compare_categories import TABLES
from comparison.category_tables import CatBoost, HistogramBoosting, Library, Task, read
from comparison.report import table
from fastens import GradientBoostingRegressor

BODILY = "pg15_claims, bodily"  # the same rows with another target
TASKS = TABLES | {BODILY: Task("Numtpbi", is_class=False, left_out=("Numtppd", "Indtppd", "Indtpbi"))}
# How the variance of the target grows with its mean.
POWERS = {"poisson": 1.0, "tweedie": 1.5, "gamma": 2.0}
LOSSES = {
    "abalone": ["poisson"],
    "ames_housing": ["gamma"],
    "bike_sharing_hour": ["poisson"],
    "california_housing": ["gamma"],
    "cps1988": ["gamma"],
    "diamonds": ["gamma"],
    "fremtpl2_freq": ["poisson", "tweedie"],
    "metro_traffic": ["poisson"],
    "pg15_claims": ["poisson", "tweedie"],
    BODILY: ["poisson", "tweedie"],
}
# Of the predicted means, relative to the mean of all rows: a library may predict 0, of which deviances are infinite.
MIN_MEAN = 1e-6


class Peer(NamedTuple):
    """A library, and how it names a loss; None where it does not have it."""

    library: Library
    names: dict[str, dict[str, Any]]


def peers(n_threads: int) -> list[Peer]:
    """The libraries as they come, but for the loss, the seed and the threads."""
    given = {"random_state": 0, "n_jobs": n_threads}
    ours = {name: {"loss": name} for name in POWERS}
    return [
        Peer(Library("fastens", lambda _: GradientBoostingRegressor(**given)), ours),
        Peer(Library("fastens, an L2 of 1", lambda _: GradientBoostingRegressor(l2_regularization=1.0, **given)), ours),
        Peer(
            Library("LightGBM", lambda _: LGBMRegressor(verbose=-1, **given)),
            {name: {"objective": name} for name in POWERS},
        ),
        Peer(
            Library("XGBoost", lambda _: XGBRegressor(enable_categorical=True, **given)),
            {
                "poisson": {"objective": "count:poisson"},
                "tweedie": {"objective": "reg:tweedie"},
                "gamma": {"objective": "reg:gamma"},
            },
        ),
        Peer(
            HistogramBoosting(
                "HistGradientBoosting",
                lambda _: HistGradientBoostingRegressor(random_state=0, categorical_features="from_dtype"),
            ),
            {name: {"loss": name} for name in ("poisson", "gamma")},
        ),
        Peer(
            CatBoost(
                "CatBoost", lambda _: CatBoostRegressor(random_seed=0, thread_count=n_threads, logging_level="Silent")
            ),
            {
                "poisson": {"objective": "Poisson"},
                "tweedie": {"objective": "Tweedie:variance_power=1.5"},
            },
        ),
    ]


def deviance(peer: Peer, loss: str, data: Table, n_rows: int, n_seeds: int) -> float:
    """The mean over splits; targets of the gamma loss are in units of their mean."""
    if loss not in peer.names:
        return np.nan
    settings, found = Settings(regression=True), []
    make = peer.library.make
    library = type(peer.library)(peer.library.name, lambda _: make(_).set_params(**peer.names[loss]))
    for seed in range(n_seeds):
        rows = np.arange(data.y.size)
        train, test = train_test_split(rows, train_size=min(n_rows, int(0.75 * rows.size)), random_state=seed)
        unit = data.y[train].mean() if loss == "gamma" else 1.0
        predicted = library.fit_predict(data.X.iloc[train], data.y[train] / unit, data.X.iloc[test], settings)
        least = MIN_MEAN * data.y[train].mean() / unit
        found.append(mean_tweedie_deviance(data.y[test] / unit, np.maximum(predicted, least), power=POWERS[loss]))
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=list(LOSSES), default=list(LOSSES), metavar="NAME")
    parser.add_argument("--rows", nargs="+", type=int, default=[1000, 5000], help="training rows")
    parser.add_argument("--seeds", type=int, default=4, help="splits into training and test rows (default 4)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    all_peers = peers(args.threads)
    for n_rows in args.rows:
        print(f"\n### {n_rows} rows\n")
        lines, ratios = [["table", "loss", *(peer.library.name for peer in all_peers)]], []
        for name in args.tables:
            data = read(name.partition(",")[0], TASKS[name], most_rows=100_000)
            for loss in LOSSES[name]:
                found = [deviance(peer, loss, data, n_rows, args.seeds) for peer in all_peers]
                ratios.append(np.array(found) / found[0])
                lines.append([name, loss, *("" if np.isnan(value) else f"{value:.4g}" for value in found)])
        means = np.exp(np.nanmean(np.log(ratios), axis=0))
        lines.append(["over fastens, geometric mean", "", *(f"{mean:.3f}" for mean in means)])
        print(table(lines), flush=True)


if __name__ == "__main__":
    main()
