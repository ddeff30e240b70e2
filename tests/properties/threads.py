"""Many threads that fit, predict, save and load at once: each result must be the one of a thread alone.

Some models are shared by all threads, others are fitted anew by each.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import fastens

SMALL: dict[str, Any] = {"n_estimators": 5, "random_state": 0}
MODELS: dict[str, dict[str, Any]] = {
    "GradientBoostingClassifier": {**SMALL, "n_jobs": 2},
    "GradientBoostingRegressor": {**SMALL, "linear_leaves": True},
    "RandomForestClassifier": {**SMALL, "n_jobs": 2},
    "ExtraTreesRegressor": SMALL,
    "DecisionTreeClassifier": {},
    "AdaBoostClassifier": {**SMALL, "n_jobs": 2},
    "IsolationForest": SMALL,
    "GaussianNB": {},
    "CategoricalNB": {},
    "TANClassifier": {},
    "BayesTreeClassifier": {"random_state": 0},
    "AODEClassifier": {},
    "MixedNB": {},
    "BaggingClassifier": {"n_estimators": 3, "random_state": 0, "n_jobs": 2},
    "VotingClassifier": {},
}


class Stress:
    """Models that were fitted alone, and what they say."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.X = np.round(rng.random((3000, 6)) * 40) / 8
        self.y = (self.X[:, 0] * self.X[:, 1] > 6).astype(int)
        self.folder = folder
        self.alone = {name: self.fitted(name) for name in MODELS}
        self.wrong: list[str] = []
        self.n_done: list[int] = []

    def fitted(self, name: str) -> Any:
        """A new model."""
        model = getattr(fastens, name)(**MODELS[name])
        return model.fit(np.floor(self.X) if "Cat" in name or "TAN" in name else self.X, self.y)

    def compare(self, name: str, what: str, model: Any) -> None:
        """Its predictions are those of the model that was fitted alone."""
        X = np.floor(self.X) if "Cat" in name or "TAN" in name else self.X
        if not np.array_equal(model.predict(X), self.alone[name].predict(X)):
            self.wrong.append(f"{name}: {what}")

    def work(self, index: int, times: Iterable[Any]) -> None:
        """One thread: anything, in any order, so many times."""
        chance = random.Random(index)
        for _ in times:
            name, what = chance.choice(sorted(MODELS)), chance.choice(("fit", "predict", "save", "fit", "save"))
            try:
                if what == "fit":
                    self.compare(name, what, self.fitted(name))
                elif what == "predict":
                    self.compare(name, what, self.alone[name])
                else:
                    path = self.folder / f"{name}{index % 3}"  # some threads write the same file
                    self.alone[name].save(path, allow_pickle=True)
                    self.compare(name, what, fastens.load(path, allow_pickle=True))
            except Exception as error:
                self.wrong.append(f"{name}: {what}: {type(error).__name__}: {error}")
            self.n_done[index] += 1

    def run(self, times: list[Iterable[Any]]) -> None:
        """A thread for each, side by side."""
        self.n_done = [0] * len(times)
        threads = [threading.Thread(target=self.work, args=each) for each in enumerate(times)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
