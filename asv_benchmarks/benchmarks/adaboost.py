"""AdaBoost: the stump kernel, whole fits on large and small tables, predictions; time, peak memory and error."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Benchmark
from benchmarks.datasets import generated
from fastens import AdaBoostClassifier, AdaBoostRegressor
from fastens.adaboost.weak_learners import RoundWeights
from fastens.engine.bins.binning import learn_binning
from fastens.engine.grow.stumps import StumpLearner


class OneStump(Benchmark):
    """One round's parts, bins made."""

    param_names = ["n_rows", "n_classes", "n_threads"]
    params = [[1000, 100_000], [2, 10], [1, 2]]

    def setup(self, n_rows: int, n_classes: int, n_threads: int) -> None:
        X = generated(n_rows, 28).X
        classes = (np.arange(n_rows) % n_classes).astype(np.uint16)
        binning = learn_binning(X)
        self.learner = StumpLearner(binning, binning.codes(X), classes, n_classes, "gini", n_threads)
        self.weights = RoundWeights(classes, None, n_threads)
        self.steps = np.full((int(binning.n_codes[0]), n_classes), 1e-6)

    def time_find(self, *_: int) -> None:
        self.learner.fit(self.weights.whole)

    def time_reweight(self, *_: int) -> None:
        self.weights.advance(self.learner.codes[0], self.steps)


class Fit(Benchmark):
    param_names = ["n_rows", "options"]
    params = [[1000, 100_000], ["discrete", "real", "gentle", "logit", "resample", "depth 3"]]

    def setup(self, n_rows: int, options: str) -> None:
        self.table, self.held_out = generated(n_rows, 28), generated(20_000, 28, seed=1)
        chosen = {"resample": {"resample": True, "random_state": 0}, "depth 3": {"max_depth": 3}}
        self.model = AdaBoostClassifier(**chosen.get(options, {"algorithm": options}))

    def time_fit(self, *_: object) -> None:
        self.model.fit(self.table.X, self.table.y)

    def peakmem_fit(self, *_: object) -> None:
        self.model.fit(self.table.X, self.table.y)

    def track_held_out_error(self, *_: object) -> float:
        return 1 - self.model.fit(self.table.X, self.table.y).score(self.held_out.X, self.held_out.y)


class FitRegressor(Benchmark):
    param_names = ["n_rows"]
    params = [[1000, 100_000]]

    def setup(self, n_rows: int) -> None:
        self.table = generated(n_rows, 28, regression=True)

    def time_fit(self, *_: int) -> None:
        AdaBoostRegressor(n_estimators=20).fit(self.table.X, self.table.y)


class Predict(Benchmark):
    param_names = ["n_rows"]
    params = [[1, 1000, 200_000]]

    def setup(self, n_rows: int) -> None:
        table = generated(20_000, 28)
        self.model = AdaBoostClassifier().fit(table.X, table.y)
        self.X = generated(n_rows, 28, seed=1).X

    def time_predict(self, *_: int) -> None:
        self.model.predict(self.X)

    def time_predict_proba(self, *_: int) -> None:
        self.model.predict_proba(self.X)
