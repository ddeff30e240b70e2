"""Single trees and forests: predicting, pickling, importances."""

from __future__ import annotations

import pickle

import fastens
from benchmarks.common import Benchmark
from benchmarks.datasets import generated

KINDS = ["DecisionTreeClassifier", "RandomForestClassifier", "ExtraTreesClassifier"]


def make(kind: str, n_threads: int = 2) -> fastens.RandomForestClassifier:
    parameters = {} if "Decision" in kind else {"n_estimators": 20}
    return getattr(fastens, kind)(random_state=0, n_jobs=n_threads, **parameters)


class ForestPredict(Benchmark):
    param_names = ["kind", "n_rows"]
    params = [KINDS, [1, 100, 50_000]]

    def setup(self, kind: str, n_rows: int) -> None:
        table = generated(50_000, 28)
        self.model = make(kind).fit(table.X, table.y)
        self.X = table.X[:n_rows]

    def time_predict_proba(self, *_: object) -> None:
        self.model.predict_proba(self.X)

    def track_pickle_bytes(self, *_: object) -> int:
        return len(pickle.dumps(self.model))


class ForestImportance(Benchmark):
    def setup(self) -> None:
        self.table = generated(10_000, 28)
        self.model = make("RandomForestClassifier").fit(self.table.X, self.table.y)

    def time_permutation(self) -> None:
        self.model.permutation_importance(self.table.X, self.table.y, random_state=0)

    def time_out_of_bag(self) -> None:
        self.model.oob_permutation_importance(self.table.X, self.table.y)
