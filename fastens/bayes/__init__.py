"""Bayesian classifiers and learners."""

from fastens.bayes.combination import BayesOptimalClassifier, GibbsClassifier, MAPClassifier, MLClassifier
from fastens.bayes.conjunctions import ANY, Conjunction, sample_complexity
from fastens.bayes.finite import FiniteHypothesisLearner
from fastens.bayes.network import BayesianNetwork
from fastens.bayes.posterior import ErrorEstimate, estimate_errors
from fastens.bayes.tree_average import ExactTreeAverageClassifier
from fastens.bayes.version_space import VersionSpaceClassifier

__all__ = [
    "ANY",
    "BayesOptimalClassifier",
    "BayesianNetwork",
    "Conjunction",
    "ErrorEstimate",
    "ExactTreeAverageClassifier",
    "FiniteHypothesisLearner",
    "GibbsClassifier",
    "MAPClassifier",
    "MLClassifier",
    "VersionSpaceClassifier",
    "estimate_errors",
    "sample_complexity",
]
