"""Quantiles, expectiles and log-cosh of all libraries as they come, on tables that their defaults were not chosen on.

python asv_benchmarks/compare_numeric_losses.py                     1000 and 4000 rows of each table
python asv_benchmarks/compare_numeric_losses.py --rows 500 --seeds 4 --tables concrete

Every second table of numbers of DEVELOPMENT and those set aside. Losses are over those of fastens: geometric means over
the tables.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from lightgbm import LGBMRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from benchmarks.datasets import Table
from benchmarks.peer_models import Settings
from comparison.category_tables import HistogramBoosting, Library, read
from comparison.quality_tables import DEVELOPMENT, SET_ASIDE, TABLES
from comparison.report import table
from fastens import GradientBoostingRegressor

NAMES = [name for name, task in DEVELOPMENT.items() if not task.is_class][1::2]
NAMES += [name for name, task in SET_ASIDE.items() if not task.is_class]
MAX_TEST_ROWS = 8000
Array = np.ndarray


def pinball(level: float) -> Callable[[Array], Array]:
    return lambda away: np.maximum(level * away, (level - 1) * away)


def squares(level: float) -> Callable[[Array], Array]:
    return lambda away: np.where(away > 0, level, 1 - level) * away**2


def log_cosh(away: Array) -> Array:
    return np.abs(away) + np.log1p(np.exp(-2 * np.abs(away))) - np.log(2)


class Problem(NamedTuple):
    """What is to be lowered, and how the libraries name it."""

    of_row: Callable[[Array], Array]  # the loss of the target less the prediction
    names: dict[str, dict[str, Any]]  # parameters, by library
    spread: float | None = None  # the standard deviation that targets are given; None for that which they have


def problems() -> dict[str, Problem]:
    """The losses by name, with fastens as it comes, and with the rules of other losses, which these had before."""
    found = {}
    for level in (0.01, 0.05, 0.95, 0.99):
        ours = {"loss": "quantile", "quantile": level}
        names = {
            "fastens": ours,
            "fastens before": ours | {"min_samples_leaf": 20},
            "LightGBM": {"objective": "quantile", "alpha": level},
            "HistGradientBoosting": ours,
        }
        found[f"quantile {level}"] = Problem(pinball(level), names)
    for level in (0.1, 0.5, 0.9, 0.99):
        ours = {"loss": "expectile", "quantile": level}
        names = {
            "fastens": ours,
            "fastens before": ours | {"l2_regularization": 1.0},
        }
        found[f"expectile {level}"] = Problem(squares(level), names)
    names = {
        "fastens": {"loss": "log_cosh"},
        "fastens, absolute error": {"loss": "absolute_error"},
        "LightGBM": {"objective": "huber"},
    }
    for spread in (1.0, 1000.0):
        found[f"log-cosh, spread {spread:g}"] = Problem(log_cosh, names, spread)
    return found


def libraries(n_threads: int) -> list[Library]:
    """The libraries as they come, but for the loss, the seed and the threads."""
    given = {"random_state": 0, "n_jobs": n_threads}
    ours = ("fastens", "fastens before", "fastens, absolute error")
    return [
        *(Library(name, lambda _: GradientBoostingRegressor(**given)) for name in ours),
        Library("LightGBM", lambda _: LGBMRegressor(verbose=-1, **given)),
        HistogramBoosting(
            "HistGradientBoosting",
            lambda _: HistGradientBoostingRegressor(random_state=0, categorical_features="from_dtype"),
        ),
    ]


def mean_loss(library: Library, problem: Problem, data: Table, n_rows: int, n_seeds: int) -> float:
    """The mean over splits; not a number where the library does not have the loss."""
    if library.name not in problem.names:
        return np.nan
    settings, found = Settings(regression=True), []
    kind = type(library)(library.name, lambda _: library.make(_).set_params(**problem.names[library.name]))
    for seed in range(n_seeds):
        rows = np.arange(data.y.size)
        train, test = train_test_split(rows, train_size=min(n_rows, int(0.75 * rows.size)), random_state=seed)
        test, y = test[:MAX_TEST_ROWS], data.y
        if problem.spread is not None:
            y = y * (problem.spread / y[train].std())
        predicted = kind.fit_predict(data.X.iloc[train], y[train], data.X.iloc[test], settings)
        found.append(problem.of_row(y[test] - predicted).mean())
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=NAMES, metavar="NAME")
    parser.add_argument("--rows", nargs="+", type=int, default=[1000, 4000], help="training rows")
    parser.add_argument("--seeds", type=int, default=1, help="splits into training and test rows (default 1)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    all_libraries, all_problems = libraries(args.threads), problems()
    data = {name: read(name, TABLES[name]) for name in args.tables}
    for n_rows in args.rows:
        tables = [one for one in data.values() if 0.75 * one.y.size >= n_rows or n_rows == min(args.rows)]
        print(f"\n### {n_rows} rows, {len(tables)} tables\n")
        lines = [["loss", *(library.name for library in all_libraries[1:])]]
        for name, problem in all_problems.items():
            found = np.array(
                [[mean_loss(each, problem, one, n_rows, args.seeds) for each in all_libraries] for one in tables]
            )
            means = np.exp(np.log(found[:, 1:] / found[:, :1]).mean(axis=0))
            lines.append([name, *("" if np.isnan(mean) else f"{mean:.3f}" for mean in means)])
        print(table(lines), flush=True)


if __name__ == "__main__":
    main()
