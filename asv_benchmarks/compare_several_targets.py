"""Seconds to fit and R2 of boosting for several targets: fastens, one tree for all of them or one for each, and peers.

python asv_benchmarks/compare_several_targets.py
python asv_benchmarks/compare_several_targets.py --rows 20000 --targets 16 --libraries fastens XGBoost
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.multioutput import MultiOutputRegressor

from fastens import GradientBoostingRegressor


def rows_with_targets(args: argparse.Namespace, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets that share what they depend on: sums of the same interactions with weights of their own, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * args.rows, args.features)).astype(np.float32)
    parts = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] * (X[:, 2] > 0), np.abs(X[:, 3]), X[:, 4] > X[:, 5], X[:, 6]])
    return X, parts @ rng.normal(size=(parts.shape[1], args.targets)) + rng.normal(size=(len(X), args.targets))


def models(args: argparse.Namespace) -> dict[str, Callable[[], object]]:
    """What makes each library's model, with the same settings."""

    def fastens() -> object:
        return GradientBoostingRegressor(
            n_estimators=args.rounds, max_leaf_nodes=31, l2_regularization=1.0, n_jobs=args.threads
        )

    def xgboost(strategy: str) -> object:
        from xgboost import XGBRegressor

        return XGBRegressor(
            n_estimators=args.rounds, learning_rate=0.1, tree_method="hist", grow_policy="lossguide", max_leaves=31,
            max_depth=0, multi_strategy=strategy, n_jobs=args.threads,
        )  # fmt: skip

    def catboost() -> object:
        from catboost import CatBoostRegressor

        return CatBoostRegressor(
            iterations=args.rounds, learning_rate=0.1, depth=5, loss_function="MultiRMSE", l2_leaf_reg=1.0,
            thread_count=args.threads, verbose=False, allow_writing_files=False, boosting_type="Plain",
        )  # fmt: skip

    return {
        "fastens": fastens,
        "fastens, one by one": lambda: MultiOutputRegressor(fastens()),
        "XGBoost": lambda: xgboost("multi_output_tree"),
        "XGBoost, one by one": lambda: xgboost("one_output_per_tree"),
        "CatBoost": catboost,
    }


def main() -> None:
    """Print a row for each library: the median of the seconds, and the mean R2 on as many rows again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in {"rows": 50_000, "features": 20, "targets": 5, "rounds": 50, "seeds": 3, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--libraries", nargs="+")
    args = parser.parse_args()
    known = models(args)
    chosen = args.libraries or list(known)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    for seed in range(args.seeds):
        X, y = rows_with_targets(args, seed)
        train, test = slice(0, args.rows), slice(args.rows, None)
        for name in chosen:
            model = clone(known[name]()) if "CatBoost" not in name else known[name]()
            begin = time.perf_counter()
            model.fit(X[train], y[train])
            seconds = time.perf_counter() - begin
            found[name].append((seconds, r2_score(y[test], model.predict(X[test]))))
    print("| library | s | R2 |\n|---|---:|---:|")
    for name, runs in found.items():
        seconds, scores = zip(*runs, strict=True)
        print(f"| {name} | {np.median(seconds):.2f} | {np.mean(scores):.4f} |")


if __name__ == "__main__":
    main()
