"""Naive Bayes: the counting kernels through their doors, fits and predictions."""

from __future__ import annotations

import numpy as np

import fastens
from benchmarks.common import Benchmark
from fastens.bayes.counts.counting import LabelledCodes, class_counts, encode_all, pair_counts

N_ROWS = 200_000
THREADS = [1, 2]


def categories(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 20, (N_ROWS, n_features)), rng.integers(0, 2, N_ROWS)


class Counting(Benchmark):
    param_names = ["weighted", "n_threads"]
    params = [[False, True], THREADS]

    def setup(self, weighted: bool, n_threads: int) -> None:
        self.X, y = categories(30)
        self.y = y.astype(np.int32)
        self.codes, largest, _ = encode_all(self.X)
        self.n_codes = largest + 2
        self.weight = np.random.default_rng(1).random(N_ROWS) if weighted else None

    def time_codes(self, weighted: bool, n_threads: int) -> None:
        encode_all(self.X, n_threads)

    def time_class_counts(self, weighted: bool, n_threads: int) -> None:
        class_counts(LabelledCodes(self.codes, self.y, self.weight, n_threads), self.n_codes, 2)

    def time_pair_counts(self, weighted: bool, n_threads: int) -> None:
        pair_counts(LabelledCodes(self.codes, self.y, self.weight, n_threads), self.n_codes, 2)


class NaiveBayes(Benchmark):
    param_names = ["model"]
    params = [
        [
            "AODEClassifier",
            "BernoulliNB",
            "CategoricalNB",
            "ComplementNB",
            "GaussianNB",
            "MixedNB",
            "MultinomialNB",
            "TANClassifier",
        ]
    ]

    def setup(self, name: str) -> None:
        self.X, self.y = categories(20)
        self.model = getattr(fastens, name)().fit(self.X, self.y)

    def time_fit(self, _: str) -> None:
        self.model.fit(self.X, self.y)

    def time_predict_proba(self, _: str) -> None:
        self.model.predict_proba(self.X)

    def peakmem_fit(self, _: str) -> None:
        self.model.fit(self.X, self.y)
