"""What trees and forests are compared on. A workload is a function from Options to Results, entered in WORKLOADS."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sklearn.ensemble
import sklearn.tree
from xgboost import XGBRFClassifier

import fastens
from benchmarks.datasets import Table, data_folder, generated, real
from comparison.measure import Goal, Result, interleaved, median_of_calls

Makers = dict[str, Callable[[], Any]]
SKLEARN = "scikit-learn"
ONEDAL = "oneDAL"


@dataclass(frozen=True)
class Options:
    """How much to measure: rounds of each timing, share of the rows of generated tables, threads."""

    repeats: int = 5
    scale: float = 1.0
    n_threads: int = 2

    def table(self, n_rows: int) -> Table:
        return generated(max(1000, int(n_rows * self.scale)), 28)


class OneDAL:
    """Intel's random forest (histograms), by its own interface: that of scikit-learn follows old versions only."""

    def __init__(
        self, n_estimators: int = 100, min_samples_leaf: int = 1, n_jobs: int = 2, random_state: int = 0
    ) -> None:
        self.n_estimators, self.min_samples_leaf = n_estimators, min_samples_leaf
        self.n_jobs, self.random_state = n_jobs, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> OneDAL:
        # Its part for scikit-learn does not import with a newer one.
        sys.modules.setdefault("daal4py.sklearn", types.ModuleType("daal4py.sklearn"))
        self.library = importlib.import_module("daal4py")
        self.library.daalinit(self.n_jobs)
        training = self.library.decision_forest_classification_training(
            nClasses=2,
            fptype="float",
            method="hist",
            nTrees=self.n_estimators,
            featuresPerNode=int(X.shape[1] ** 0.5),
            minObservationsInLeafNode=self.min_samples_leaf,
            bootstrap=True,
            engine=self.library.engines_mt2203(seed=self.random_state, fptype="float"),
        )
        self.model = training.compute(X, y[:, None].astype(np.float32)).model
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        self.library.daalinit(self.n_jobs)
        prediction = self.library.decision_forest_classification_prediction(
            nClasses=2, fptype="float", resultsToEvaluate="computeClassProbabilities", votingMethod="unweighted"
        )
        return prediction.compute(X, self.model).probabilities

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)


def makers(name: str, options: Options, **parameters: Any) -> Makers:
    """What makes the estimator of this name, by library."""
    given = {"n_jobs": options.n_threads, "random_state": 0, **parameters}
    found: Makers = {
        "fastens": partial(getattr(fastens, name), **given),
        SKLEARN: partial(getattr(sklearn.ensemble, name), **given),
    }
    if name == "RandomForestClassifier" and importlib.util.find_spec("daal4py") is not None:
        found[ONEDAL] = partial(OneDAL, **given)
    return found


def fit_times(calls: Makers, table: Table, repeats: int) -> dict[str, list[float]]:
    for make in calls.values():
        make().fit(table.X[:500], table.y[:500])  # loads the library and starts its threads
    fits = {library: (lambda make=make: make().fit(table.X, table.y)) for library, make in calls.items()}
    return interleaved(fits, repeats)


def accuracies(calls: Makers, table: Table) -> dict[str, list[float]]:
    """Accuracy on the second half of a table of forests of three seeds, trained on the first."""
    half = len(table.y) // 2
    values = {}
    for library, make in calls.items():
        models = [make(random_state=seed).fit(table.X[:half], table.y[:half]) for seed in range(3)]
        values[library] = [float(np.mean(model.predict(table.X[half:]) == table.y[half:])) for model in models]
    return values


def forest(options: Options) -> list[Result]:
    """100 trees grown to the end, the square root of the features for each split, 100 000 x 28."""
    table, calls = options.table(100_000), makers("RandomForestClassifier", options)
    with_xgboost = calls | {
        "XGBoost rf": partial(
            XGBRFClassifier, n_estimators=100, max_depth=20, colsample_bynode=28**-0.5, n_jobs=options.n_threads
        )
    }
    goals = [Goal(10, 15, SKLEARN), Goal(1.7, 2.5, ONEDAL)]
    return [
        Result("forest, 100 full trees, 100 000 x 28", "s", fit_times(with_xgboost, table, options.repeats), goals),
        Result("the same: accuracy on as many new rows", "", accuracies(calls, options.table(200_000))),
    ]


def extra_trees(options: Options) -> list[Result]:
    """Extremely randomised trees on the same rows."""
    table, calls = options.table(100_000), makers("ExtraTreesClassifier", options)
    goals = [Goal(4, 8, SKLEARN)]
    return [
        Result("extra trees, 100 full trees, 100 000 x 28", "s", fit_times(calls, table, options.repeats), goals),
        Result("the same: accuracy on as many new rows", "", accuracies(calls, options.table(200_000))),
    ]


def large_forest(options: Options) -> list[Result]:
    """20 trees of leaves of at least 20 rows, 1 000 000 x 28."""
    table = options.table(1_000_000)
    calls = makers("RandomForestClassifier", options, n_estimators=20, min_samples_leaf=20)
    goals = [Goal(1.7, 2.5, ONEDAL)]
    return [Result("forest, 20 trees, 1 000 000 x 28", "s", fit_times(calls, table, options.repeats), goals)]


def one_tree(options: Options) -> list[Result]:
    """One tree grown to the end, all features."""
    table = options.table(100_000)
    calls: Makers = {
        "fastens": partial(fastens.DecisionTreeClassifier, n_jobs=options.n_threads),
        "fastens, 255 bins": partial(fastens.DecisionTreeClassifier, max_bins=255, n_jobs=options.n_threads),
        SKLEARN: sklearn.tree.DecisionTreeClassifier,
    }
    goals = [Goal(10, 20, SKLEARN)]
    return [Result("one full tree, 100 000 x 28", "s", fit_times(calls, table, options.repeats), goals)]


def predict(options: Options) -> list[Result]:
    """200 000 rows through 100 deep trees; pickles of the forests."""
    table, new = options.table(100_000), options.table(200_000)
    calls = makers("RandomForestClassifier", options)
    models = {library: make().fit(table.X, table.y) for library, make in calls.items()}
    predictions = {library: (lambda model=model: model.predict_proba(new.X)) for library, model in models.items()}
    sizes = {library: [len(pickle.dumps(model)) / 2**20] for library, model in models.items() if library != ONEDAL}
    return [
        Result("predict 200 000 rows", "s", interleaved(predictions, options.repeats), [Goal(2, 4, ONEDAL)]),
        Result("pickle", "MiB", sizes, [Goal(4, 4, SKLEARN)]),
    ]


def small(options: Options) -> list[Result]:
    """1 000 x 10: fit 100 trees, predict one row."""
    table = generated(1000, 10)
    calls = makers("RandomForestClassifier", options)
    models = {library: make().fit(table.X, table.y) for library, make in calls.items()}
    row = table.X[:1]
    rows = {library: [1e6 * median_of_calls(lambda m=model: m.predict(row), 50)] for library, model in models.items()}
    fits = {name: [1e3 * t for t in times] for name, times in fit_times(calls, table, 4 * options.repeats).items()}
    return [
        Result("fit 1 000 x 10, 100 trees", "ms", fits, [Goal(20, 10)]),
        Result("predict one row", "us", rows, [Goal(60, 20)]),
    ]


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
            if library != ONEDAL
        }
        results.append(Result(f"score on {name}", "", values))
    return results


WORKLOADS = {
    "forest": forest,
    "extra-trees": extra_trees,
    "large-forest": large_forest,
    "one-tree": one_tree,
    "predict": predict,
    "small": small,
    "importance": importance,
    "real-tables": real_tables,
}
