"""Bayesian classifiers and learners."""

from fastens.bayes.combination import BayesOptimalClassifier, GibbsClassifier, MAPClassifier, MLClassifier
from fastens.bayes.concepts.conjunctions import ANY, Conjunction, sample_complexity
from fastens.bayes.concepts.version_space import VersionSpaceClassifier
from fastens.bayes.finite import FiniteHypothesisLearner
from fastens.bayes.networks.network import BayesianNetwork
from fastens.bayes.posterior import ErrorEstimate, estimate_errors
from fastens.bayes.trees.tree_average import ExactTreeAverageClassifier

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
