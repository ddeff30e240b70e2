"""The libraries that forests, extra trees, single trees and bags are measured against, on matched settings."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_BINS = 255


@dataclass(frozen=True)
class ForestSettings:
    """What all libraries are told."""

    kind: str = "forest"  # or "extra trees", "tree", "bagging"
    n_trees: int = 100
    min_samples_leaf: int = 1
    n_threads: int = 2
    seed: int = 0
    criterion: str = "gini"  # of fastens and scikit-learn, which have others


@dataclass(frozen=True)
class ForestPeer:
    """A library and the estimators it has."""

    name: str
    module: str
    make: Callable[[ForestSettings], Any]
    kinds: tuple[str, ...] = ("forest", "extra trees", "tree", "bagging")

    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.module) is not None


def with_sklearn_names(ensemble: Any, tree: Any, settings: ForestSettings, **options: Any) -> Any:
    """The estimator of a library that names things as scikit-learn does."""
    shared: dict[str, Any] = {"random_state": settings.seed, "min_samples_leaf": settings.min_samples_leaf}
    if settings.kind != "bagging":
        shared["criterion"] = settings.criterion
    if settings.kind == "tree":
        return tree.DecisionTreeClassifier(**shared, **options)
    jobs = {"n_estimators": settings.n_trees, "n_jobs": settings.n_threads}
    if settings.kind == "bagging":
        member = tree.DecisionTreeClassifier(min_samples_leaf=settings.min_samples_leaf)
        return ensemble.BaggingClassifier(member, random_state=settings.seed, **jobs)
    stem = "RandomForest" if settings.kind == "forest" else "ExtraTrees"
    return getattr(ensemble, stem + "Classifier")(**shared, **jobs, **options)


def make_fastens(settings: ForestSettings) -> Any:
    import fastens

    options = {"n_jobs": settings.n_threads} if settings.kind == "tree" else {}
    return with_sklearn_names(fastens, fastens, settings, **options)


def make_sklearn(settings: ForestSettings) -> Any:
    import sklearn.ensemble
    import sklearn.tree

    return with_sklearn_names(sklearn.ensemble, sklearn.tree, settings)


def make_xgboost(settings: ForestSettings) -> Any:
    from xgboost import XGBRFClassifier

    return XGBRFClassifier(
        n_estimators=settings.n_trees,
        tree_method="hist",
        grow_policy="depthwise",
        max_depth=20,
        max_bin=MAX_BINS,
        colsample_bynode=0.19,
        subsample=0.632,
        reg_lambda=0.0,
        min_child_weight=0.25 * settings.min_samples_leaf,
        n_jobs=settings.n_threads,
        random_state=settings.seed,
    )


class OneDalForest:
    """oneDAL's own forest, through daal4py's plain interface: its patches do not know scikit-learn 1.9."""

    def __init__(self, settings: ForestSettings) -> None:
        self.settings = settings

    def fit(self, X: np.ndarray, y: np.ndarray) -> OneDalForest:
        sys.modules.setdefault("daal4py.sklearn", types.ModuleType("daal4py.sklearn"))
        import daal4py

        settings = self.settings
        is_forest = settings.kind == "forest"
        self.daal4py, self.n_classes = daal4py, int(y.max()) + 1
        daal4py.daalinit(settings.n_threads)
        training = daal4py.decision_forest_classification_training(
            nClasses=self.n_classes,
            nTrees=settings.n_trees,
            featuresPerNode=max(1, int(np.sqrt(X.shape[1]))),
            observationsPerTreeFraction=1.0,
            bootstrap=is_forest,
            method="hist",
            splitter="best" if is_forest else "random",
            maxBins=MAX_BINS,
            minObservationsInLeafNode=settings.min_samples_leaf,
            engine=daal4py.engines_mt2203(seed=settings.seed + 1),
        )
        self.model = training.compute(X, y.reshape(-1, 1).astype(X.dtype)).model
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        prediction = self.daal4py.decision_forest_classification_prediction(
            nClasses=self.n_classes, votingMethod="unweighted", resultsToEvaluate="computeClassProbabilities"
        )
        return prediction.compute(X, self.model).probabilities


FOREST_PEERS = [
    ForestPeer("fastens", "fastens", make_fastens),
    ForestPeer("scikit-learn", "sklearn", make_sklearn),
    ForestPeer("oneDAL", "daal4py", OneDalForest, ("forest", "extra trees")),
    ForestPeer("XGBoost rf", "xgboost", make_xgboost, ("forest",)),
]
