"""Bayesian classifiers and learners."""

from fastens.bayes.conjunctions import ANY, Conjunction, sample_complexity
from fastens.bayes.finite import FiniteHypothesisLearner
from fastens.bayes.posterior import ErrorEstimate, estimate_errors
from fastens.bayes.version_space import VersionSpaceClassifier

__all__ = [
    "ANY",
    "Conjunction",
    "ErrorEstimate",
    "FiniteHypothesisLearner",
    "VersionSpaceClassifier",
    "estimate_errors",
    "sample_complexity",
]
