"""Fast ensembles of trees on tables."""

from __future__ import annotations

import os
from typing import Any

from fastens.bayes.bayes_tree import BayesTreeClassifier, BayesTreeRegressor
from fastens.bayes.combination import BayesOptimalClassifier, GibbsClassifier, MAPClassifier, MLClassifier
from fastens.bayes.conjunctions import ANY, Conjunction, sample_complexity
from fastens.bayes.finite import FiniteHypothesisLearner
from fastens.bayes.mixed import CategoricalNB, MixedNB
from fastens.bayes.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from fastens.bayes.network import BayesianNetwork
from fastens.bayes.one_dependence import AODEClassifier, TANClassifier
from fastens.bayes.posterior import estimate_errors
from fastens.bayes.text import TextClassifier
from fastens.bayes.tree_average import ExactTreeAverageClassifier
from fastens.bayes.version_space import VersionSpaceClassifier
from fastens.ensemble.adaboost import AdaBoostClassifier
from fastens.ensemble.adaboost_regressor import AdaBoostRegressor
from fastens.ensemble.bagging import BaggingClassifier, BaggingRegressor
from fastens.ensemble.boosting import GradientBoostingClassifier, GradientBoostingRegressor
from fastens.ensemble.callbacks import CallbackEnv, OptunaPruning, StopTraining
from fastens.ensemble.cascade import CascadeForestClassifier, CascadeForestRegressor
from fastens.ensemble.conformal import ConformalClassifier, ConformalRegressor
from fastens.ensemble.embedding import RandomTreesEmbedding
from fastens.ensemble.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from fastens.ensemble.forest import RandomForestClassifier, RandomForestRegressor
from fastens.ensemble.isolation import IsolationForest
from fastens.ensemble.ranker import GradientBoostingRanker
from fastens.ensemble.stacking import StackingClassifier, StackingRegressor
from fastens.ensemble.stump import DecisionStumpClassifier, DecisionStumpRegressor
from fastens.ensemble.survival import GradientBoostingSurvival
from fastens.ensemble.tree import DecisionTreeClassifier, DecisionTreeRegressor
from fastens.ensemble.voting import VotingClassifier, VotingRegressor
from fastens.ensemble.weighted_majority import WeightedMajorityClassifier
from fastens.inspection.bias_variance import bias_variance_decomposition, plot_bias_variance
from fastens.inspection.decision_plot import plot_decision_boundary
from fastens.storage import ModelFileError, load_model, pickles_allowed

__version__ = "0.1.0"
__all__ = [
    "ANY",
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
    "CallbackEnv",
    "CascadeForestClassifier",
    "CascadeForestRegressor",
    "CategoricalNB",
    "ComplementNB",
    "ConformalClassifier",
    "ConformalRegressor",
    "Conjunction",
    "DecisionStumpClassifier",
    "DecisionStumpRegressor",
    "DecisionTreeClassifier",
    "DecisionTreeRegressor",
    "ExactTreeAverageClassifier",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "FiniteHypothesisLearner",
    "GaussianNB",
    "GibbsClassifier",
    "GradientBoostingClassifier",
    "GradientBoostingRanker",
    "GradientBoostingRegressor",
    "GradientBoostingSurvival",
    "IsolationForest",
    "MAPClassifier",
    "MLClassifier",
    "MixedNB",
    "ModelFileError",
    "MultinomialNB",
    "OptunaPruning",
    "RandomForestClassifier",
    "RandomForestRegressor",
    "RandomTreesEmbedding",
    "StackingClassifier",
    "StackingRegressor",
    "StopTraining",
    "TANClassifier",
    "TextClassifier",
    "VersionSpaceClassifier",
    "VotingClassifier",
    "VotingRegressor",
    "WeightedMajorityClassifier",
    "bias_variance_decomposition",
    "estimate_errors",
    "load",
    "plot_bias_variance",
    "plot_decision_boundary",
    "sample_complexity",
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
