"""Compare losses and times on texts: fastens and CatBoost read the words, other models get TF-IDF weights.

python asv_benchmarks/compare_texts.py                      two tables of FASTENS_DATA, one of them also with ratings
python asv_benchmarks/compare_texts.py --seeds 5 --rounds 300 --libraries "fastens" "TF-IDF, LightGBM"

CatBoost and LightGBM have their default parameters except for the number of rounds and a learning rate of 0.1. TF-IDF
weights are computed for the 10 000 most frequent words. The second table has the texts of the first and a column of
noisy ratings.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.datasets import data_folder
from fastens import GradientBoostingClassifier

N_TERMS, TEXT, NOISE = 10_000, "text", 2.0
Fit = Callable[[pd.DataFrame, np.ndarray, argparse.Namespace], Callable[[pd.DataFrame], np.ndarray]]


def tables() -> Iterator[tuple[str, pd.DataFrame, np.ndarray]]:
    """Names, columns and classes of the tables."""
    for name, positive in (("text_rt_polarity", "pos"), ("text_sms_spam", "spam")):
        table = pd.read_parquet(data_folder() / f"{name}.parquet")
        X, y = table[[TEXT]].astype(object), (table["label"].astype(str) == positive).to_numpy().astype(int)
        yield name, X, y
        if name == "text_rt_polarity":
            yield f"{name} and ratings", X.assign(rating=np.random.default_rng(0).normal(y, NOISE).round(1)), y


def fastens(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Callable:
    model = GradientBoostingClassifier(n_estimators=args.rounds, n_jobs=args.threads, text_features=[TEXT])
    return model.fit(X, y).predict_proba


def catboost(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Callable:
    from catboost import CatBoostClassifier

    options: dict[str, Any] = {"allow_writing_files": False, "verbose": 0, "thread_count": args.threads}
    model = CatBoostClassifier(args.rounds, learning_rate=0.1, text_features=[TEXT], random_seed=0, **options)
    return model.fit(X, y).predict_proba


def by_hand(make: Callable[[argparse.Namespace], Any]) -> Fit:
    """A model of TF-IDF weights and the other columns."""

    def fit(X: pd.DataFrame, y: np.ndarray, args: argparse.Namespace) -> Callable:
        words = TfidfVectorizer(max_features=N_TERMS).fit(X[TEXT])

        def encoded(X: pd.DataFrame) -> sparse.csr_matrix:
            others = sparse.csr_matrix(X.drop(columns=TEXT).to_numpy(float))
            return sparse.csr_matrix(sparse.hstack([words.transform(X[TEXT]), others]))

        model = make(args).fit(encoded(X), y)
        return lambda X: model.predict_proba(encoded(X))

    return fit


def lightgbm(args: argparse.Namespace) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=args.rounds, n_jobs=args.threads, verbose=-1)


LIBRARIES: dict[str, Fit] = {
    "fastens": fastens,
    "CatBoost": catboost,
    "TF-IDF, fastens": by_hand(lambda args: GradientBoostingClassifier(n_estimators=args.rounds, n_jobs=args.threads)),
    "TF-IDF, LightGBM": by_hand(lightgbm),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", choices=list(LIBRARIES), default=list(LIBRARIES))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1, help="splits into training and test rows (default 1)")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    print(
        "| table | library | log loss | AUC | CPU seconds to fit | CPU seconds to predict |\n"
        "|---|---|---:|---:|---:|---:|"
    )
    for table, X, y in tables():
        for name in args.libraries:
            found = []
            for seed in range(args.seeds):
                train, test = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
                times = [time.process_time()]
                predict = LIBRARIES[name](X.iloc[train], y[train], args)
                times.append(time.process_time())
                p = predict(X.iloc[test])[:, 1]
                times.append(time.process_time())
                found.append([log_loss(y[test], p), roc_auc_score(y[test], p), *np.diff(times)])
            loss, auc, fit, prediction = np.mean(found, axis=0)
            print(f"| {table} | {name} | {loss:.4f} | {auc:.4f} | {fit:.2f} | {prediction:.2f} |", flush=True)


if __name__ == "__main__":
    main()
