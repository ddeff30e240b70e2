"""What the Bayesian models are compared on. A workload is a function from Options to Results, entered in WORKLOADS."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import sklearn.naive_bayes as scikit_learn
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline

import fastens
from comparison.measure import Goal, Result, Values, interleaved
from fastens.bayes.counts.counting import LabelledCodes, encode_all, pair_counts
from fastens.engine.threads import resolve_n_jobs

DATA = Path(os.environ.get("FASTENS_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
TEXT_TABLES = ("text_sms_spam", "text_rt_polarity")


@dataclass(frozen=True)
class Options:
    """How much to measure: rounds of each timing, and the share of the rows of generated tables."""

    repeats: int = 5
    scale: float = 1.0


def categories(options: Options, n_features: int = 20, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """A table of whole numbers, 20 categories a column, of a million rows at scale 1."""
    rng = np.random.default_rng(0)
    n_rows = int(1_000_000 * options.scale)
    return rng.integers(0, 20, (n_rows, n_features)), rng.integers(0, n_classes, n_rows)


def fit_and_predict(name: str, X: np.ndarray, y: np.ndarray, options: Options) -> tuple[Values, Values]:
    """Seconds of the fit and of predict_proba of a classifier that both libraries have by that name."""
    ours, theirs = getattr(fastens, name), getattr(scikit_learn, name)
    fits = interleaved(
        {"fastens": lambda: ours().fit(X, y), "scikit-learn": lambda: theirs().fit(X, y)}, options.repeats
    )
    models = {"fastens": ours().fit(X, y), "scikit-learn": theirs().fit(X, y)}
    calls = {library: (lambda model=model: model.predict_proba(X)) for library, model in models.items()}
    return fits, interleaved(calls, options.repeats)


def categorical(options: Options) -> list[Result]:
    """CategoricalNB on 1 M x 20 columns of 20 categories, 2 and 5 classes."""
    results = []
    for n_classes in (2, 5):
        fits, predictions = fit_and_predict("CategoricalNB", *categories(options, n_classes=n_classes), options)
        goal = [Goal(10, 20, "scikit-learn")]
        results.append(Result(f"CategoricalNB.fit, {n_classes} classes", "s", fits, goal))
        results.append(Result(f"CategoricalNB.predict_proba, {n_classes} classes", "s", predictions))
    return results


def gaussian(options: Options) -> list[Result]:
    """GaussianNB on 1 M x 20 columns of numbers."""
    X, y = categories(options)
    fits, predictions = fit_and_predict("GaussianNB", X + np.random.default_rng(1).random(X.shape), y, options)
    return [Result("GaussianNB.fit", "s", fits), Result("GaussianNB.predict_proba", "s", predictions)]


def pairs(options: Options) -> list[Result]:
    """Counts of every pair of 30 columns of 20 categories by class, 1 M rows: what AODE and TAN learn from."""
    X, y = categories(options, n_features=30)
    labels, n_threads = y.astype(np.int32), resolve_n_jobs()

    def count() -> None:
        found = encode_all(X, n_threads)
        pair_counts(LabelledCodes(found.codes, labels, n_threads=n_threads), found.largest + 2, 2)

    return [Result("codes and pair_counts, 30 columns", "s", interleaved({"fastens": count}, options.repeats))]


def text(options: Options) -> list[Result]:
    """Accuracy of TextClassifier, mean of 5-fold cross-validation repeated with other folds."""
    results = []
    for name in TEXT_TABLES:
        table = pd.read_parquet(DATA / f"{name}.parquet")
        X, y = table["text"].to_numpy(), table["label"].astype(str).to_numpy()
        models = {
            "fastens": fastens.TextClassifier(),
            "scikit-learn": make_pipeline(CountVectorizer(), scikit_learn.MultinomialNB()),
            "fastens, words and pairs": fastens.TextClassifier(ngram_range=(1, 2)),
            "fastens, English stems": fastens.TextClassifier(stemmer="english"),
        }
        values: Values = {library: [] for library in models}
        for seed in range(options.repeats):
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            for library, model in models.items():
                values[library].append(cross_val_score(model, X, y, cv=folds).mean())
        labels = [f"folds {seed}" for seed in range(options.repeats)]
        results.append(Result(f"{name}, accuracy", "", values, labels=labels))
    return results


WORKLOADS: dict[str, Callable[[Options], list[Result]]] = {
    "categorical": categorical,
    "gaussian": gaussian,
    "pairs": pairs,
    "text": text,
}
