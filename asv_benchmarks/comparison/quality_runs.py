"""Runs of a comparison of losses, each a line of a file: a run that is there is not made again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from benchmarks.datasets import Table
from benchmarks.peer_models import loss
from comparison.category_tables import Library, settings_for

TEST_SHARE = 0.25
N_BINS = 15
Run = dict[str, Any]
# Makes a model of training rows and answers for test rows; and the seconds of both.
Answer = Callable[[Table, np.ndarray, np.ndarray, int], tuple[np.ndarray, float, float]]
KEY = ("table", "rows", "split", "library", "how")


class RunFile:
    """Lines of JSON; those of an earlier call are read."""

    def __init__(self, path: Path) -> None:
        self.path, self.runs = path, list[Run]()
        if path.exists():
            self.runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        self._known = {self._key(run) for run in self.runs}
        self._n_read = len(self.runs)

    @staticmethod
    def _key(run: Run) -> tuple[Any, ...]:
        return tuple(run[name] for name in KEY)

    def has(self, **key: Any) -> bool:
        return self._key(key) in self._known

    def append(self, run: Run) -> None:
        self.runs.append(run)
        self._known.add(self._key(run))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run) + "\n")

    def chosen(self, **values: Iterable[Any]) -> list[Run]:
        """The runs whose entries are among those given."""
        wanted = {name: set(among) for name, among in values.items()}
        return [run for run in self.runs if all(run[name] in among for name, among in wanted.items())]

    def told_kept(self, runs: list[Run]) -> str:
        """How many of some runs were made by an earlier call; nothing where none was."""
        earlier = {self._key(run) for run in self.runs[: self._n_read]}
        n_kept = sum(self._key(run) in earlier for run in runs)
        return f"{n_kept} of {len(runs)} fits were reused from an earlier run." if n_kept else ""


def split_rows(table: Table, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows, of each class the same share."""
    stratify = None if table.is_regression else table.y
    train, test = train_test_split(np.arange(table.y.size), test_size=TEST_SHARE, random_state=split, stratify=stratify)
    return train, test


def at_defaults(library: Library) -> Answer:
    """A fit as it is, and its predictions; seconds are of the processor, as other work would lengthen the clock's."""

    def answer(table: Table, train: np.ndarray, test: np.ndarray, n_threads: int) -> tuple[np.ndarray, float, float]:
        settings = settings_for(table, n_threads)
        start = time.process_time()
        model = library.fit(table.X.iloc[train], table.y[train], settings)
        middle = time.process_time()
        predicted = library.predict(model, table.X.iloc[test], settings)
        return predicted, middle - start, time.process_time() - middle

    return answer


def run(table: Table, split: int, n_threads: int, answer: Answer) -> Run:
    """What one split gives, or what error the library stops with."""
    train, test = split_rows(table, split)
    try:
        predicted, fit_seconds, predict_seconds = answer(table, train, test, n_threads)
    except Exception as error:  # any library may refuse a table
        return {"error": f"{type(error).__name__}: {error}"[:200]}
    found = measured(table, table.y[test], predicted, float(np.std(table.y[train])))
    return found | {"fit_seconds": fit_seconds, "predict_seconds": predict_seconds}


def measured(table: Table, y: np.ndarray, predicted: np.ndarray, spread: float) -> dict[str, float]:
    """Log loss, AUC and calibration error of classes; of numbers the root mean squared error over their spread."""
    if table.is_regression:
        return {"loss": float(np.sqrt(loss(y, predicted, regression=True)) / spread)}
    chances = np.asarray(predicted, dtype=np.float64)
    chances = chances / np.maximum(chances.sum(axis=1, keepdims=True), 1e-15)
    return {"loss": loss(y, chances, regression=False), "auc": auc(y, chances), "ece": calibration_error(y, chances)}


def auc(y: np.ndarray, chances: np.ndarray) -> float:
    """The area under the curve, of several classes the mean of each against all others."""
    columns = [1] if chances.shape[1] == 2 else [k for k in range(chances.shape[1]) if (y == k).any()]
    return float(np.mean([roc_auc_score(y == k, chances[:, k]) for k in columns]))


def calibration_error(y: np.ndarray, chances: np.ndarray) -> float:
    """By how much the chance of the most probable class differs from how often it is right.

    Over 15 bins of as many rows: expected calibration error with adaptive bins (Nixon et al. 2019).
    """
    top, is_right = chances.max(axis=1), chances.argmax(axis=1) == y
    order = np.argsort(top, kind="stable")
    parts = np.array_split(order, min(N_BINS, max(1, len(y) // 20)))
    return float(sum(len(part) * abs(top[part].mean() - is_right[part].mean()) for part in parts) / len(y))
