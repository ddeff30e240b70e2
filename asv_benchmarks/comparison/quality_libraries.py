"""Every library as it comes: nothing is set but threads, seeds, silence, and which columns have categories."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from benchmarks.peer_models import Settings, of_task
from comparison.category_tables import CatBoost, HistogramBoosting, Library, is_category


def as_it_comes(module: str, stem: str, threads: str | None = "n_jobs", **options: Any) -> Callable[[Settings], Any]:
    """What makes a library's estimator with its defaults, on so many threads."""

    def make(settings: Settings) -> Any:
        own = {threads: settings.n_threads} if threads else {}
        return of_task(module, stem, settings)(**own, **options)

    return make


class Encoded(Library):
    """An estimator of numbers only: categories are their codes, missing values -1."""

    def table(self, X: pd.DataFrame) -> pd.DataFrame:
        columns = {
            name: X[name].cat.codes if kind else X[name] for name, kind in zip(X.columns, is_category(X), strict=True)
        }
        return pd.DataFrame(columns).astype(np.float64).fillna(-1.0)


class Unthreaded(HistogramBoosting):
    """Threads are OpenMP's, not a parameter."""

    def fit(self, X: pd.DataFrame, y: np.ndarray, settings: Settings) -> Any:
        with threadpool_limits(settings.n_threads, user_api="openmp"):
            return super().fit(X, y, settings)


TARGET = "target of this table"


class Ydf(Library):
    """YDF learns from a frame with the target as a column."""

    def fit(
        self,
        X: pd.DataFrame,
        y: np.ndarray,
        settings: Settings,
        held_out: tuple[pd.DataFrame, np.ndarray] | None = None,
    ) -> Any:
        ydf = importlib.import_module("ydf")
        task = ydf.Task.REGRESSION if settings.regression else ydf.Task.CLASSIFICATION
        ydf.verbose(0)
        learner = ydf.GradientBoostedTreesLearner(TARGET, task=task, num_threads=settings.n_threads, **self.options)
        valid = None if held_out is None else self.table(held_out[0]).assign(**{TARGET: held_out[1]})
        return learner.train(self.table(X).assign(**{TARGET: y}), valid=valid)

    def predict(self, model: Any, X: pd.DataFrame, settings: Settings) -> np.ndarray:
        found = np.asarray(model.predict(self.table(X)))
        if settings.regression:
            return found
        chances = np.column_stack([1 - found, found]) if found.ndim == 1 else found
        order = np.argsort([int(label) for label in model.label_classes()])
        return chances[:, order]

    def table(self, X: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                str(name): X[name].astype(object) if kind else X[name].astype(np.float64)
                for name, kind in zip(X.columns, is_category(X), strict=True)
            }
        )


class Bonsai(Encoded):
    """bonsai-gbt encodes categories by ordered target statistics, except for several classes: these get the codes."""

    def fit(self, X: pd.DataFrame, y: np.ndarray, settings: Settings) -> Any:
        columns = np.flatnonzero(is_category(X)).tolist()
        table, encoder = self.table(X).to_numpy(), None
        if columns and (settings.regression or len(np.unique(y)) == 2):
            encoder = importlib.import_module("bonsai").OrderedTargetEncoder(columns)
            table = encoder.fit_transform(table, y)
        return encoder, self.make(settings).set_params(**self.options).fit(table, y)

    def predict(self, model: Any, X: pd.DataFrame, settings: Settings) -> np.ndarray:
        encoder, fitted = model
        table = self.table(X).to_numpy()
        table = table if encoder is None else encoder.transform(table)
        return fitted.predict(table) if settings.regression else fitted.predict_proba(table)


def _boosting() -> list[Library]:
    fastens = partial(as_it_comes, "fastens", random_state=0)
    return [
        Library("fastens", fastens("GradientBoosting")),
        Library("LightGBM", as_it_comes("lightgbm", "LGBM", verbose=-1, random_state=0)),
        Library("XGBoost", as_it_comes("xgboost", "XGB", enable_categorical=True, random_state=0)),
        CatBoost(
            "CatBoost",
            as_it_comes("catboost", "CatBoost", "thread_count", verbose=0, allow_writing_files=False, random_seed=0),
        ),
        Unthreaded(
            "HistGradientBoosting", as_it_comes("sklearn.ensemble", "HistGradientBoosting", None, random_state=0)
        ),
        Ydf("YDF", None),
        Bonsai("bonsai-gbt", as_it_comes("bonsai", "Bonsai", "n_threads")),
        Library("perpetual", as_it_comes("perpetual", "Perpetual", "num_threads")),
        # Rounds and rate are never matched, because this name is not in OF_ROUNDS.
        CatBoost(
            "CatBoost's own defaults",
            as_it_comes("catboost", "CatBoost", "thread_count", verbose=0, allow_writing_files=False, random_seed=0),
        ),
    ]


def at_best(seconds: float | None, name: str = "best") -> Library:
    """Return `with_quality("best")` of fastens, with a time limit in seconds if there is one."""

    def make(settings: Settings) -> Any:
        kind = of_task("fastens", "GradientBoosting", settings)
        return kind.with_quality("best", time_limit=seconds, random_state=0, n_jobs=settings.n_threads)

    return Library(name, make)


def _others() -> list[Library]:
    ours = partial(as_it_comes, "fastens")
    theirs = partial(as_it_comes, "sklearn.ensemble", random_state=0)
    return [
        at_best(None, "fastens best"),
        Library("fastens forest", ours("RandomForest", random_state=0)),
        Encoded("scikit-learn forest", theirs("RandomForest")),
        Library("fastens extra trees", ours("ExtraTrees", random_state=0)),
        Encoded("scikit-learn extra trees", theirs("ExtraTrees")),
        Library("fastens AdaBoost", ours("AdaBoost", random_state=0)),
        Encoded("scikit-learn AdaBoost", theirs("AdaBoost", None)),
        Library("fastens Bayesian tree", ours("BayesTree", None)),
        Library("fastens naive Bayes", lambda settings: importlib.import_module("fastens").MixedNB()),
        Encoded(
            "scikit-learn naive Bayes", lambda settings: importlib.import_module("sklearn.naive_bayes").GaussianNB()
        ),
    ]


BOOSTING = [each.name for each in _boosting()]
LIBRARIES = {each.name: each for each in (*_boosting(), *_others())}
PEERS = ("LightGBM", "XGBoost", "CatBoost", "bonsai-gbt", "CatBoost's own defaults")
# The names of rounds and rate, for comparisons with the same number of rounds.
OF_ROUNDS = {
    "fastens": ("n_estimators", "learning_rate"),
    "LightGBM": ("n_estimators", "learning_rate"),
    "XGBoost": ("n_estimators", "learning_rate"),
    "CatBoost": ("iterations", "learning_rate"),
    "HistGradientBoosting": ("max_iter", "learning_rate"),
    "YDF": ("num_trees", "shrinkage"),
    "bonsai-gbt": ("n_iters", "learning_rate"),
}
# What has no form for numbers.
OF_CLASSES_ONLY = {"fastens naive Bayes", "scikit-learn naive Bayes"}
_MODULES = {
    "LightGBM": "lightgbm",
    "XGBoost": "xgboost",
    "CatBoost": "catboost",
    "CatBoost's own defaults": "catboost",
    "YDF": "ydf",
    "bonsai-gbt": "bonsai",
    "perpetual": "perpetual",
}


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(_MODULES.get(name, "sklearn")) is not None


def with_options(library: Library, name: str, **options: Any) -> Library:
    """The same library with some parameters set."""
    changed = type(library)(name, library.make)
    changed.kind = library.kind
    changed.options = {**library.options, **options}
    return changed


def with_rounds(library: Library, n_rounds: int, rate: float = 0.1) -> Library:
    """The same library with so many rounds at that rate, otherwise as it comes."""
    if library.kind not in OF_ROUNDS:
        return library
    rounds, rates = OF_ROUNDS[library.kind]
    return with_options(library, library.name, **{rounds: n_rounds, rates: rate})
