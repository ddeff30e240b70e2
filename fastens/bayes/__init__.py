"""Bayesian classifiers and learners."""

from fastens.bayes.finite import FiniteHypothesisLearner
from fastens.bayes.posterior import ErrorEstimate, estimate_errors

__all__ = ["ErrorEstimate", "FiniteHypothesisLearner", "estimate_errors"]
