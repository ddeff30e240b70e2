"""NDCG at 10 of fastens, LightGBM and XGBoost on matched settings: repeated folds of whole queries.

python asv_benchmarks/compare_ranking.py                            LightGBM's example table, in FASTENS_DATA
python asv_benchmarks/compare_ranking.py --rounds 50 --repeats 2 --libraries fastens LightGBM
python asv_benchmarks/compare_ranking.py --clicks --rounds 30 --leaves 15 --repeats 1 --threads 1

With --clicks, the models are fitted to simulated clicks on lists sorted by a weak ranker, without and with the
positions of the rows. They are evaluated by the true relevance of the test queries, which the fits do not use.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import data_folder
from fastens import GradientBoostingRanker
from fastens.engine.losses.ranking_loss import Queries

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]  # columns, targets, queries, positions from 1
Fit = Callable[[Rows, argparse.Namespace], Callable[[np.ndarray], np.ndarray]]
Split = tuple[Rows, tuple[np.ndarray, np.ndarray, np.ndarray]]  # training rows, test rows without positions
SHOWN = 5  # lists that the weak ranker shows for each query of LightGBM's table
JUDGED = 20  # queries whose relevance the weak ranker was fitted to
GENERATED = 2000  # queries of a generated table, half of them for testing


def fastens(rows: Rows, args: argparse.Namespace) -> Callable:
    X, y, qid, position = rows
    model = GradientBoostingRanker(n_estimators=args.rounds, max_leaf_nodes=args.leaves, n_jobs=args.threads)
    return model.fit(X, y, qid=qid, position=position).predict


def lightgbm(rows: Rows, args: argparse.Namespace) -> Callable:
    from lightgbm import Dataset, train

    X, y, qid, position = rows
    parameters = {
        "objective": "lambdarank", "num_leaves": args.leaves, "num_threads": args.threads, "verbose": -1,
    }  # fmt: skip
    data = Dataset(X, y, group=np.unique(qid, return_counts=True)[1], position=position)
    return train(parameters, data, args.rounds).predict


def xgboost(rows: Rows, args: argparse.Namespace) -> Callable:
    from xgboost import XGBRanker

    # As in the other libraries, leaves have a hessian of at least 1e-3, and growth is best-first up to the same number
    # of leaves. The rows of a query have the order in which they were shown.
    X, y, qid, position = rows
    model = XGBRanker(
        n_estimators=args.rounds, max_leaves=args.leaves, max_depth=0, grow_policy="lossguide", learning_rate=0.1,
        reg_lambda=0.0, min_child_weight=1e-3, n_jobs=args.threads, objective="rank:ndcg",
        lambdarank_pair_method="topk", lambdarank_num_pair_per_sample=30, lambdarank_unbiased=position is not None,
    )  # fmt: skip
    return model.fit(X, y, qid=qid).predict


LIBRARIES: dict[str, Fit] = {"fastens": fastens, "LightGBM": lightgbm, "XGBoost": xgboost}


def read() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, relevance and query, sorted by query."""
    import pandas as pd

    table = pd.read_parquet(data_folder() / "rank_lightgbm.parquet").sort_values("qid", kind="stable")
    features = [name for name in table if name not in ("relevance", "qid", "split")]
    return table[features].to_numpy(float), table["relevance"].to_numpy(), table["qid"].to_numpy()


def generated(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, relevance and query of a generated table with 15 rows in each query."""
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(15 * GENERATED, 20)), np.repeat(np.arange(GENERATED), 15)
    utility = X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) + 0.5 * rng.normal(size=len(X))
    return X, np.digitize(utility, np.quantile(utility, [0.5, 0.75, 0.9, 0.97])), qid


def clicks(X: np.ndarray, y: np.ndarray, qid: np.ndarray, n_shown: int, seed: int) -> Rows:
    """Simulate clicks on lists that are sorted for each query by a weak linear ranker with some noise.

    A row at position k is seen with probability 1 / k, and a row that is seen is clicked with a probability from 0.05
    for relevance 0 to 1 for relevance 4.
    """
    rng, sizes = np.random.default_rng(seed), np.unique(qid, return_counts=True)[1]
    known = np.isin(qid, rng.choice(np.unique(qid), JUDGED, replace=False))
    weak = make_pipeline(StandardScaler(), Ridge(100.0)).fit(X[known], y[known]).predict(X)
    position = np.concatenate([np.arange(1, size + 1) for size in sizes])
    parts = []
    for shown in range(n_shown):
        rows = np.lexsort((-weak - 0.5 * weak.std() * rng.normal(size=len(y)), qid))
        clicked = rng.random(len(y)) < (0.05 + 0.95 * y[rows] / 4) / position
        parts.append(
            (X[rows], clicked.astype(int), np.repeat(np.arange(len(sizes)), sizes) + shown * len(sizes), position)
        )
    X, y, qid, position = map(np.concatenate, zip(*parts, strict=True))
    return X, y, qid, position


def folds(repeats: int) -> Iterator[Split]:
    """LightGBM's table in folds of whole queries, with relevance as the target."""
    X, y, qid = read()
    for seed in range(repeats):
        for train, test in GroupKFold(5, shuffle=True, random_state=seed).split(X, groups=qid):
            yield (X[train], y[train], qid[train], None), (X[test], y[test], qid[test])


def tables(args: argparse.Namespace) -> dict[str, list[Split]]:
    """The tables to compare the models on, by heading."""
    if not args.clicks:
        return {"": list(folds(args.repeats))}
    ours = {"LightGBM's example table": [(clicks(*rows[:3], SHOWN, 0), test) for rows, test in folds(args.repeats)]}
    made = []
    for X, y, qid in map(generated, range(5 * args.repeats)):
        train, test = 2 * qid < GENERATED, 2 * qid >= GENERATED
        made.append((clicks(X[train], y[train], qid[train], 1, 0), (X[test], y[test], qid[test])))
    return ours | {f"Generated tables of {GENERATED // 2} queries": made}


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
    parser.add_argument("--clicks", action="store_true", help="fit to simulated clicks, without and with positions")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    kinds = ["", ", with position"] if args.clicks else [""]
    for heading, splits in tables(args).items():
        print(f"\n## {heading}\n" * bool(heading))
        print(
            "| library | NDCG@10 | difference to the first | standard error of the difference | seconds per fit |\n"
            "|---|---:|---:|---:|---:|"
        )
        first: list[float] = []
        for name, kind in [(name, kind) for name in args.libraries for kind in kinds]:
            scores, seconds = [], []
            for rows, (X, y, qid) in splits:
                start = time.perf_counter()
                predict = LIBRARIES[name](rows if kind else (*rows[:3], None), args)
                seconds.append(time.perf_counter() - start)
                scores.append(ndcg(y, qid, predict(X)))
            first = first or scores
            differences = np.subtract(scores, first)
            error = differences.std(ddof=1) / np.sqrt(len(differences))
            cells = f"{np.mean(scores):.4f} | {differences.mean():+.4f} | {error:.4f} | {np.median(seconds):.2f}"
            print(f"| {name}{kind} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
