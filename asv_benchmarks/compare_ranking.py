"""NDCG at 10 of fastens, LightGBM and XGBoost on matched settings: repeated folds of whole queries.

python asv_benchmarks/compare_ranking.py                            LightGBM's example table, in FASTENS_DATA
python asv_benchmarks/compare_ranking.py --rounds 50 --repeats 2 --libraries fastens LightGBM
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.model_selection import GroupKFold

from benchmarks.datasets import data_folder
from fastens import GradientBoostingRanker
from fastens.engine.losses.ranking_loss import Queries

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, argparse.Namespace], Callable[[np.ndarray], np.ndarray]]


def fastens(X: np.ndarray, y: np.ndarray, qid: np.ndarray, args: argparse.Namespace) -> Callable:
    model = GradientBoostingRanker(n_estimators=args.rounds, max_leaf_nodes=args.leaves, n_jobs=args.threads)
    return model.fit(X, y, qid=qid).predict


def lightgbm(X: np.ndarray, y: np.ndarray, qid: np.ndarray, args: argparse.Namespace) -> Callable:
    from lightgbm import LGBMRanker

    model = LGBMRanker(n_estimators=args.rounds, num_leaves=args.leaves, n_jobs=args.threads, verbose=-1)
    return model.fit(X, y, group=np.unique(qid, return_counts=True)[1]).predict


def xgboost(X: np.ndarray, y: np.ndarray, qid: np.ndarray, args: argparse.Namespace) -> Callable:
    from xgboost import XGBRanker

    # Rows of at least 1e-3 of hessian, as the others; best-first to the same number of leaves.
    model = XGBRanker(
        n_estimators=args.rounds, max_leaves=args.leaves, max_depth=0, grow_policy="lossguide", learning_rate=0.1,
        reg_lambda=0.0, min_child_weight=1e-3, n_jobs=args.threads, objective="rank:ndcg",
        lambdarank_pair_method="topk", lambdarank_num_pair_per_sample=30,
    )  # fmt: skip
    return model.fit(X, y, qid=qid).predict


LIBRARIES: dict[str, Fit] = {"fastens": fastens, "LightGBM": lightgbm, "XGBoost": xgboost}


def read() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, relevance and query, sorted by query."""
    import pandas as pd

    table = pd.read_parquet(data_folder() / "rank_lightgbm.parquet").sort_values("qid", kind="stable")
    features = [name for name in table if name not in ("relevance", "qid", "split")]
    return table[features].to_numpy(float), table["relevance"].to_numpy(), table["qid"].to_numpy()


def ndcg(y: np.ndarray, qid: np.ndarray, scores: np.ndarray) -> float:
    target = np.column_stack([y, np.unique(qid, return_inverse=True)[1], np.ones(len(y))])
    return float(Queries(target, "exponential").ndcg(scores.astype(float), 10).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--repeats", type=int, default=3, help="of five folds (default 3)")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    X, y, qid = read()
    print(
        "| library | NDCG@10 | difference to the first | standard error of the difference | seconds per fit |\n"
        "|---|---:|---:|---:|---:|"
    )
    found: dict[str, list[float]] = {}
    for name in args.libraries:
        scores, seconds = [], []
        for seed in range(args.repeats):
            for train, test in GroupKFold(5, shuffle=True, random_state=seed).split(X, groups=qid):
                start = time.perf_counter()
                predict = LIBRARIES[name](X[train], y[train], qid[train], args)
                seconds.append(time.perf_counter() - start)
                scores.append(ndcg(y[test], qid[test], predict(X[test])))
        found[name] = scores
        differences = np.subtract(scores, found[args.libraries[0]])
        error = differences.std(ddof=1) / np.sqrt(len(differences))
        cells = f"{np.mean(scores):.4f} | {differences.mean():+.4f} | {error:.4f} | {np.median(seconds):.2f}"
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
