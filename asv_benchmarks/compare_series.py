"""Compare intervals for a time series, one step ahead, with MAPIE: coverage and width.

python asv_benchmarks/compare_series.py                       the energy use of a house every ten minutes

Both calibrate 30 bagged linear regressions on their out-of-bag errors. "adaptive" is adaptive conformal inference with
a step of 0.02, and "window" is EnbPI, which replaces the oldest errors.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LinearRegression

from compare_intervals import read
from fastens import BaggingRegressor, ConformalRegressor

N_LAGS, N_MEMBERS, STEP = 6, 30, 0.02
Ends = tuple[float, float]
Online = Callable[[np.ndarray, float], Ends]  # returns the interval of a row and then learns its target


def fastens_online(X: np.ndarray, y: np.ndarray, coverage: float, step: float) -> Online:
    bags = BaggingRegressor(LinearRegression(), N_MEMBERS, random_state=0)
    model = ConformalRegressor(bags, cv="oob", method="constant").fit(X, y)

    def one(row: np.ndarray, target: float) -> Ends:
        nonlocal model
        low, high = model.predict_interval(row[None], coverage)[0]
        model = model.update(row[None], [target], coverage=coverage, step=step)
        return low, high

    return one


def mapie_online(X: np.ndarray, y: np.ndarray, coverage: float, step: float) -> Online:
    from mapie.regression import TimeSeriesRegressor
    from mapie.subsample import Subsample

    cv = Subsample(n_resamplings=N_MEMBERS, replace=True, random_state=0)
    method = "aci" if step else "enbpi"
    model = TimeSeriesRegressor(LinearRegression(), method=method, cv=cv, agg_function="mean").fit(X, y)

    def one(row: np.ndarray, target: float) -> Ends:
        _, ends = model.predict(row[None], ensemble=True, confidence_level=coverage, allow_infinite_bounds=True)
        if step:
            model.adapt_conformal_inference(row[None], np.array([target]), step, coverage, ensemble=True)
        else:
            model.update(row[None], np.array([target]), ensemble=True)
        return ends[0, 0, 0], ends[0, 1, 0]

    return one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--rows", type=int, default=1000, help="training rows (default 1000)")
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    _, use = read("appliances_energy")
    use = use[: args.rows + args.steps + N_LAGS]
    X = np.lib.stride_tricks.sliding_window_view(use, N_LAGS)[:-1]
    y = use[N_LAGS:]
    print(
        "| method | library | coverage | in the worst 100 steps | mean width | CPU ms per step |\n" + "| --- " * 6 + "|"
    )
    for method, step in (("adaptive", STEP), ("window", 0.0)):
        for library, way in (("fastens", fastens_online), ("MAPIE", mapie_online)):
            online = way(X[: args.rows], y[: args.rows], args.coverage, step)
            start = time.process_time()
            rows = range(args.rows, len(y))
            low, high = np.array([online(X[row], y[row]) for row in rows]).T
            milliseconds = 1000 * (time.process_time() - start) / len(rows)
            covered = (low <= y[args.rows :]) & (y[args.rows :] <= high)
            worst = min(covered[first : first + 100].mean() for first in range(len(covered) - 99))
            width = (high - low)[np.isfinite(high - low)].mean()
            print(f"| {method} | {library} | {covered.mean():.3f} | {worst:.2f} | {width:.1f} | {milliseconds:.2f} |")


if __name__ == "__main__":
    main()
