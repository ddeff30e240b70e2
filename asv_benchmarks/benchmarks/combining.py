"""Stacking and voting of our own members: time, peak memory and held-out loss, the folds' models kept or refitted."""

from __future__ import annotations

from typing import Any

from sklearn.metrics import log_loss

import fastens
from benchmarks.common import Benchmark
from benchmarks.datasets import Table, generated


def members() -> list[tuple[str, Any]]:
    return [
        ("boosting", fastens.GradientBoostingClassifier(n_estimators=30)),
        ("forest", fastens.RandomForestClassifier(30, random_state=0)),
        ("extra_trees", fastens.ExtraTreesClassifier(30, random_state=0)),
    ]


MODELS = {
    "stack": lambda n_jobs: fastens.StackingClassifier(members(), n_jobs=n_jobs),
    "stack_refit": lambda n_jobs: fastens.StackingClassifier(members(), refit=True, n_jobs=n_jobs),
    "voting": lambda n_jobs: fastens.VotingClassifier(members(), voting="soft", n_jobs=n_jobs),
    "largest_member": lambda n_jobs: members()[1][1].set_params(n_jobs=n_jobs),
}


class Combining(Benchmark):
    """fit and predict."""

    param_names = ["model", "n_rows", "n_threads"]
    params = [list(MODELS), [2_000, 50_000], [1, 2]]

    def setup(self, model: str, n_rows: int, n_threads: int) -> None:
        self.table = self.make(n_rows, seed=0)
        self.held_out = self.make(10_000, seed=1)
        self.model = MODELS[model](n_threads).fit(self.table.X, self.table.y)

    def make(self, n_rows: int, seed: int) -> Table:
        return generated(n_rows, 28, regression=False, seed=seed)

    def time_fit(self, model: str, _: int, n_threads: int) -> None:
        MODELS[model](n_threads).fit(self.table.X, self.table.y)

    def peakmem_fit(self, model: str, _: int, n_threads: int) -> None:
        MODELS[model](n_threads).fit(self.table.X, self.table.y)

    def time_predict(self, *_: Any) -> None:
        self.model.predict_proba(self.held_out.X)

    def track_held_out_loss(self, *_: Any) -> float:
        return float(log_loss(self.held_out.y, self.model.predict_proba(self.held_out.X)))
