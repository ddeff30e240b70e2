"""Version spaces and averages over all trees: time, memory and, where there is one, the score."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Benchmark
from fastens import ExactTreeAverageClassifier, VersionSpaceClassifier


def concept_table(n_rows: int, n_attributes: int) -> tuple[np.ndarray, np.ndarray]:
    """Binary rows, of which the first alone is positive: every attribute stays constrained, the hardest case."""
    X = np.random.default_rng(0).integers(0, 2, (n_rows, n_attributes))
    X[0] = 1
    y = np.arange(n_rows) == 0
    y[1:] = X[1:].all(axis=1)
    return X, y


def tree_table(n_rows: int, n_questions: int) -> tuple[np.ndarray, np.ndarray]:
    """Binary columns, and whether the first two differ, with some labels wrong."""
    random = np.random.default_rng(0)
    X = random.integers(0, 2, (n_rows, n_questions))
    return X, X[:, 0] ^ X[:, 1] ^ (random.random(n_rows) < 0.1)


class VersionSpace(Benchmark):
    param_names = ["n_attributes"]
    params = [[15, 25, 30]]

    def setup(self, n_attributes: int) -> None:
        self.X, self.y = concept_table(1000, n_attributes)
        self.model = VersionSpaceClassifier().fit(self.X, self.y)

    def time_fit_and_count(self, n_attributes: int) -> None:
        VersionSpaceClassifier().fit(self.X, self.y).n_hypotheses_  # noqa: B018

    def time_predict_proba(self, n_attributes: int) -> None:
        self.model.predict_proba(self.X)

    def time_sample(self, n_attributes: int) -> None:
        self.model.sample_posterior(100, 0)

    def peakmem_fit_and_count(self, n_attributes: int) -> None:
        VersionSpaceClassifier().fit(self.X, self.y).n_hypotheses_  # noqa: B018


class AllTrees(Benchmark):
    param_names = ["n_questions"]
    params = [[8, 10, 12, 14]]

    def setup(self, n_questions: int) -> None:
        self.X, self.y = tree_table(20_000, n_questions)
        self.model = ExactTreeAverageClassifier(n_questions).fit(self.X, self.y)

    def time_fit(self, n_questions: int) -> None:
        ExactTreeAverageClassifier(n_questions).fit(self.X, self.y)

    def time_predict_proba(self, n_questions: int) -> None:
        self.model.predict_proba(self.X)

    def time_map_tree(self, n_questions: int) -> None:
        self.model.map_estimator_  # noqa: B018

    def peakmem_fit(self, n_questions: int) -> None:
        ExactTreeAverageClassifier(n_questions).fit(self.X, self.y)

    def track_score(self, n_questions: int) -> float:
        return float(self.model.score(self.X, self.y))
