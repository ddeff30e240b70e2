"""Fast ensembles of trees on tables."""

from __future__ import annotations

import os
from typing import Any

from fastens.adaboost.adaboost import AdaBoostClassifier
from fastens.adaboost.adaboost_regressor import AdaBoostRegressor
from fastens.adaboost.stump import DecisionStumpClassifier, DecisionStumpRegressor
from fastens.bayes import (
    ANY,
    AODEClassifier,
    BayesianNetwork,
    BayesOptimalClassifier,
    BayesTreeClassifier,
    BayesTreeRegressor,
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    Conjunction,
    ExactTreeAverageClassifier,
    FiniteHypothesisLearner,
    GaussianNB,
    GibbsClassifier,
    MAPClassifier,
    MixedNB,
    MLClassifier,
    MultinomialNB,
    TANClassifier,
    TextClassifier,
    VersionSpaceClassifier,
    estimate_errors,
    sample_complexity,
)
from fastens.boosting.classifier import GradientBoostingClassifier
from fastens.boosting.ranker import GradientBoostingRanker
from fastens.boosting.regressor import GradientBoostingRegressor
from fastens.boosting.survival import GradientBoostingSurvival
from fastens.combining.bagging import BaggingClassifier, BaggingRegressor
from fastens.combining.cascade import CascadeForestClassifier, CascadeForestRegressor
from fastens.combining.conformal import ConformalClassifier, ConformalRegressor
from fastens.combining.stacking import StackingClassifier, StackingRegressor
from fastens.combining.voting import VotingClassifier, VotingRegressor
from fastens.combining.weighted_majority import WeightedMajorityClassifier
from fastens.exchange.merging import merge_models
from fastens.exchange.reading.from_model import from_model
from fastens.files import Column, TableFileError, TableSchema, read_table
from fastens.forests.embedding import RandomTreesEmbedding
from fastens.forests.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from fastens.forests.forest_classifier import RandomForestClassifier
from fastens.forests.forest_regressor import RandomForestRegressor
from fastens.forests.isolation import IsolationForest
from fastens.forests.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.inspection.bias_variance import bias_variance_decomposition, plot_bias_variance
from fastens.inspection.contribution_plots import plot_explanation
from fastens.inspection.decision_plot import plot_decision_boundary
from fastens.monitoring.callbacks import CallbackEnv, Checkpoint, OptunaPruning, StopTraining
from fastens.options import (
    AFTLoss,
    Categories,
    Dart,
    EarlyStopping,
    Goss,
    Growth,
    HuberLoss,
    LambdaRankLoss,
    LinearLeaves,
    Mvs,
    PosteriorAverage,
    TweedieLoss,
)
from fastens.storage import ModelFileError, load_model, pickles_allowed
from fastens.table.binned_table import BinnedTable
from fastens.table.memory_limits import MemoryNeeds, estimate_memory
from fastens.table.source import Source
from fastens.tuning.state import Trial
from fastens.tuning.tune import RandomSearch, Tuned, tune

__version__ = "0.1.0"
__all__ = [
    "ANY",
    "AFTLoss",
    "AODEClassifier",
    "AdaBoostClassifier",
    "AdaBoostRegressor",
    "BaggingClassifier",
    "BaggingRegressor",
    "BayesOptimalClassifier",
    "BayesTreeClassifier",
    "BayesTreeRegressor",
    "BayesianNetwork",
    "BernoulliNB",
    "BinnedTable",
    "CallbackEnv",
    "CascadeForestClassifier",
    "CascadeForestRegressor",
    "CategoricalNB",
    "Categories",
    "Checkpoint",
    "Column",
    "ComplementNB",
    "ConformalClassifier",
    "ConformalRegressor",
    "Conjunction",
    "Dart",
    "DecisionStumpClassifier",
    "DecisionStumpRegressor",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "EarlyStopping",
    "ExactTreeAverageClassifier",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "FiniteHypothesisLearner",
    "GaussianNB",
    "GibbsClassifier",
    "Goss",
    "GradientBoostingClassifier",
    "GradientBoostingRanker",
    "GradientBoostingRegressor",
    "GradientBoostingSurvival",
    "Growth",
    "HuberLoss",
    "IsolationForest",
    "LambdaRankLoss",
    "LinearLeaves",
    "MAPClassifier",
    "MLClassifier",
    "MemoryNeeds",
    "MixedNB",
    "ModelFileError",
    "MultinomialNB",
    "Mvs",
    "OptunaPruning",
    "PosteriorAverage",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "RandomSearch",
    "RandomTreesEmbedding",
    "Source",
    "StackingClassifier",
    "StackingRegressor",
    "StopTraining",
    "TANClassifier",
    "TableFileError",
    "TableSchema",
    "TextClassifier",
    "Trial",
    "Tuned",
    "TweedieLoss",
    "VersionSpaceClassifier",
    "VotingClassifier",
    "VotingRegressor",
    "WeightedMajorityClassifier",
    "bias_variance_decomposition",
    "estimate_errors",
    "estimate_memory",
    "from_model",
    "load",
    "merge_models",
    "plot_bias_variance",
    "plot_decision_boundary",
    "plot_explanation",
    "read_table",
    "sample_complexity",
    "tune",
]

_SAVED = {name: globals()[name] for name in __all__ if hasattr(globals().get(name), "_from_state")}


def load(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Any:
    """Read a model that its `save` wrote; runs no code from the file, unless pickles are allowed.

    Parameters
    ----------
    path : str or path
        The file.
    allow_pickle : bool, default=False
        Whether to read members from other libraries that a composed model was saved with as pickles. Reading a pickle
        can run any code: only for files you trust.

    Returns
    -------
    A fitted estimator

    Raises
    ------
    ModelFileError
        If the file is damaged, foreign, or from a later version of fastens, or holds pickles that are not allowed.

    Examples
    --------
    >>> import tempfile, os, fastens
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = fastens.GradientBoostingClassifier(n_estimators=5).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.fastens")
    ...     model.save(path)
    ...     same = fastens.load(path)
    >>> bool((same.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    with pickles_allowed(allow_pickle):
        return load_model(path, _SAVED)
