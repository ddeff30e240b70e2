"""The libraries that fastens is measured against, on matched settings.

Everyone gets the same number of trees, leaves, bins and threads, the same learning rate and L2 penalty, no sampling
and no early stopping. What remains different is each library's own: how it grows, what it rounds, which type it
computes in. Each goes through its scikit-learn interface, so that binning and checks are part of the time.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

L2 = 1.0
LEARNING_RATE = 0.1
MAX_BINS = 255


@dataclass(frozen=True)
class Settings:
    """What all libraries are told."""

    n_threads: int = 1
    n_leaves: int = 31
    n_trees: int = 100
    regression: bool = False
    min_samples_leaf: int = 20


@dataclass(frozen=True)
class Peer:
    """A library: how to make its estimator, and how to tell it the number of threads besides."""

    name: str
    module: str
    make: Callable[[Settings], Any]
    limits: Callable[[int], AbstractContextManager[Any]] = lambda n_threads: nullcontext()
    threads_argument: str | None = None

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None

    def fit(self, X: Any, y: np.ndarray, settings: Settings) -> Any:
        model = self.make(settings)
        with self.limits(settings.n_threads):
            return model.fit(X, y)

    def predict(self, model: Any, X: Any, settings: Settings) -> np.ndarray:
        """Probabilities of the classes, or the predicted numbers."""
        with self.limits(settings.n_threads):
            return self.predictor(model, settings)(X)

    def predictor(self, model: Any, settings: Settings) -> Callable[[Any], np.ndarray]:
        """Return the function that predicts with `n_threads` threads; call it within `limits`."""
        method = model.predict if settings.regression else model.predict_proba
        return partial(method, **{self.threads_argument: settings.n_threads}) if self.threads_argument else method


def of_task(module: str, stem: str, settings: Settings) -> Any:
    """`<stem>Classifier` or `<stem>Regressor` of a module that is imported now."""
    return getattr(importlib.import_module(module), stem + ("Regressor" if settings.regression else "Classifier"))


def make_fastens(settings: Settings) -> Any:
    return of_task("fastens", "GradientBoosting", settings)(
        n_estimators=settings.n_trees,
        learning_rate=LEARNING_RATE,
        max_leaf_nodes=settings.n_leaves,
        min_samples_leaf=settings.min_samples_leaf,
        l2_regularization=L2,
        split_penalty=2.0,
        max_features=1.0,
        max_bins=MAX_BINS,
        n_jobs=settings.n_threads,
        random_state=0,
    ).set_params(growth__min_child_weight=0.0)


def make_lightgbm(settings: Settings, **options: Any) -> Any:
    return of_task("lightgbm", "LGBM", settings)(
        n_estimators=settings.n_trees,
        learning_rate=LEARNING_RATE,
        num_leaves=settings.n_leaves,
        min_child_samples=settings.min_samples_leaf,
        min_child_weight=0.0,
        reg_lambda=L2,
        max_bin=MAX_BINS,
        min_data_in_bin=1,
        n_jobs=settings.n_threads,
        random_state=0,
        verbose=-1,
        **options,
    )


def make_lightgbm_quantised(settings: Settings) -> Any:
    return make_lightgbm(settings, use_quantized_grad=True)


def make_xgboost(settings: Settings, **options: Any) -> Any:
    return of_task("xgboost", "XGB", settings)(
        n_estimators=settings.n_trees,
        learning_rate=LEARNING_RATE,
        tree_method="hist",
        reg_lambda=L2,
        min_child_weight=settings.min_samples_leaf if settings.regression else 0,
        max_bin=MAX_BINS,
        enable_categorical=True,
        n_jobs=settings.n_threads,
        random_state=0,
        **options,
    )


def make_xgboost_depthwise(settings: Settings) -> Any:
    return make_xgboost(settings, grow_policy="depthwise", max_depth=depth_of(settings))


def make_xgboost_lossguide(settings: Settings) -> Any:
    return make_xgboost(settings, grow_policy="lossguide", max_depth=0, max_leaves=settings.n_leaves)


def make_histogram_boosting(settings: Settings) -> Any:
    return of_task("sklearn.ensemble", "HistGradientBoosting", settings)(
        max_iter=settings.n_trees,
        learning_rate=LEARNING_RATE,
        max_leaf_nodes=settings.n_leaves,
        min_samples_leaf=settings.min_samples_leaf,
        l2_regularization=L2,
        max_bins=MAX_BINS,
        early_stopping=False,
        random_state=0,
    )


def make_catboost(settings: Settings, **options: Any) -> Any:
    return of_task("catboost", "CatBoost", settings)(
        iterations=settings.n_trees,
        learning_rate=LEARNING_RATE,
        l2_leaf_reg=L2,
        border_count=MAX_BINS,
        bootstrap_type="No",
        random_strength=0,
        boosting_type="Plain",
        leaf_estimation_iterations=1,
        thread_count=settings.n_threads,
        random_seed=0,
        allow_writing_files=False,
        verbose=False,
        **options,
    )


def make_catboost_lossguide(settings: Settings) -> Any:
    leaves = {"max_leaves": settings.n_leaves, "min_data_in_leaf": settings.min_samples_leaf, "depth": 16}
    return make_catboost(settings, grow_policy="Lossguide", **leaves)


def make_catboost_symmetric(settings: Settings) -> Any:
    return make_catboost(settings, grow_policy="SymmetricTree", depth=depth_of(settings))


def make_bonsai(settings: Settings) -> Any:
    parameters = {
        "tree.lambda_l2": L2,
        "tree.min_child_hess": 0.0,
        "tree.min_data_in_leaf": settings.min_samples_leaf,
        "bin_mapper.min_data_in_bin": 1,
    }
    return of_task("bonsai", "Bonsai", settings)(
        n_iters=settings.n_trees,
        learning_rate=LEARNING_RATE,
        max_leaves=settings.n_leaves,
        max_depth=64,
        max_bin=MAX_BINS,
        n_threads=settings.n_threads,
        params=parameters,
    )


def depth_of(settings: Settings) -> int:
    """The depth whose full tree has about as many leaves."""
    return math.ceil(math.log2(settings.n_leaves))


def openmp_limit(n_threads: int) -> AbstractContextManager[Any]:
    return threadpool_limits(n_threads, user_api="openmp")


class OneDalModel:
    """LightGBM's trees, predicted by oneDAL."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def fit(self, X: Any, y: np.ndarray) -> OneDalModel:
        # Its patches of scikit-learn, which are not used here, fail to import with scikit-learn 1.9.
        sys.modules.setdefault("daal4py.sklearn", types.ModuleType("daal4py.sklearn"))
        import daal4py

        daal4py.daalinit(self.settings.n_threads)
        self.model_ = daal4py.mb.convert_model(make_lightgbm(self.settings).fit(X, y).booster_)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict_proba(X)


PREDICTS_ONLY = Peer("oneDAL", "daal4py", OneDalModel)

PEERS = [
    Peer("fastens", "fastens", make_fastens),
    Peer("LightGBM", "lightgbm", make_lightgbm, threads_argument="num_threads"),
    Peer("LightGBM quantised", "lightgbm", make_lightgbm_quantised, threads_argument="num_threads"),
    Peer("XGBoost depthwise", "xgboost", make_xgboost_depthwise),
    Peer("XGBoost lossguide", "xgboost", make_xgboost_lossguide),
    Peer("HistGradientBoosting", "sklearn", make_histogram_boosting, limits=openmp_limit),
    Peer("CatBoost lossguide", "catboost", make_catboost_lossguide, threads_argument="thread_count"),
    Peer("CatBoost symmetric", "catboost", make_catboost_symmetric, threads_argument="thread_count"),
    Peer("bonsai-gbt", "bonsai", make_bonsai),
    PREDICTS_ONLY,
]


def loss(y: np.ndarray, prediction: np.ndarray, *, regression: bool) -> float:
    """Mean squared error, or log loss of the probabilities."""
    if regression:
        return float(np.mean((y - np.ravel(prediction)) ** 2))
    shares = np.asarray(prediction, dtype=np.float64)[np.arange(y.size), y]
    return float(-np.mean(np.log(np.maximum(shares, 1e-15))))
