"""Workloads of forests' quality: functions from Options to Results, entered in WORKLOADS."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sklearn.ensemble

import fastens
from benchmarks.datasets import Table, data_folder, generated, real
from comparison.measure import Goal, Result, interleaved

Makers = dict[str, Callable[[], Any]]
SKLEARN = "scikit-learn"


@dataclass(frozen=True)
class Options:
    """How much to measure: rounds of each timing, share of the rows of generated tables, threads."""

    repeats: int = 5
    scale: float = 1.0
    n_threads: int = 2

    def table(self, n_rows: int) -> Table:
        return generated(max(1000, int(n_rows * self.scale)), 28)


def makers(name: str, options: Options) -> Makers:
    """What makes the estimator of this name, by library."""
    given = {"n_jobs": options.n_threads, "random_state": 0}
    return {
        "fastens": partial(getattr(fastens, name), **given),
        SKLEARN: partial(getattr(sklearn.ensemble, name), **given),
    }


def importance(options: Options) -> list[Result]:
    """Permutation importance of a forest, five shuffles, on 20 000 rows."""
    table = options.table(20_000)
    model = fastens.RandomForestClassifier(n_jobs=options.n_threads, random_state=0).fit(table.X, table.y)
    peer = sklearn.ensemble.RandomForestClassifier(n_jobs=options.n_threads, random_state=0).fit(table.X, table.y)
    slow = importlib.import_module("sklearn.inspection").permutation_importance
    calls = {
        "fastens": lambda: model.permutation_importance(table.X, table.y, random_state=0),
        "fastens, out of bag": lambda: model.oob_permutation_importance(table.X, table.y),
        SKLEARN: lambda: slow(peer, table.X, table.y, random_state=0),
    }
    return [Result("permutation importance, 20 000 rows", "s", interleaved(calls, 1), [Goal(10, 20, SKLEARN)])]


def real_tables(options: Options) -> list[Result]:
    """Accuracy, or R2, on the second half of real tables."""
    if data_folder() is None:
        return []
    results = []
    for name in ("magic_telescope", "electricity", "california_housing", "diamonds"):
        table = real(name)
        X = table.X.apply(lambda column: column.cat.codes if column.dtype == "category" else column).to_numpy(float)
        chosen = np.random.default_rng(0).permutation(len(table.y))[:10_000]
        kind = "RandomForestRegressor" if table.is_regression else "RandomForestClassifier"
        calls, train, test = makers(kind, options), chosen[::2], chosen[1::2]
        values = {
            library: [
                make(random_state=seed).fit(X[train], table.y[train]).score(X[test], table.y[test]) for seed in range(5)
            ]
            for library, make in calls.items()
        }
        results.append(Result(f"score on {name}", "", values))
    return results


WORKLOADS = {"importance": importance, "real-tables": real_tables}
