"""Many threads that fit, predict, save and load at once: each result must be the one of a thread alone.

    python tools/stress_threads.py [--threads N] [--seconds N]

Meant for Python without the GIL (3.13t, 3.14t, with PYTHON_GIL=0) and for builds under the thread sanitizer. Some
models are shared by all threads, others are fitted anew by each.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
import warnings
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
        self.n_done = 0

    def fitted(self, name: str) -> Any:
        """A new model."""
        model = getattr(fastens, name)(**MODELS[name])
        return model.fit(np.floor(self.X) if "Cat" in name or "TAN" in name else self.X, self.y)

    def compare(self, name: str, what: str, model: Any) -> None:
        """Its predictions are those of the model that was fitted alone."""
        X = np.floor(self.X) if "Cat" in name or "TAN" in name else self.X
        if not np.array_equal(model.predict(X), self.alone[name].predict(X)):
            self.wrong.append(f"{name}: {what}")

    def work(self, index: int, end: float) -> None:
        """One thread: anything, in any order."""
        chance = random.Random(index)
        while time.monotonic() < end:
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
            self.n_done += 1


def main() -> int:
    """Run the threads; 1 if one saw something else."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        stress = Stress(Path(folder))
        end = time.monotonic() + arguments.seconds
        threads = [threading.Thread(target=stress.work, args=(i, end)) for i in range(arguments.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(
        f"{arguments.threads} threads, GIL {'on' if lock else 'off'}: {stress.n_done} jobs, {len(stress.wrong)} wrong"
    )
    print(*sorted(set(stress.wrong))[:20], sep="\n")
    return bool(stress.wrong)


if __name__ == "__main__":
    sys.exit(main())
