"""Bayesian classifiers and learners."""

from fastens.bayes.concepts.conjunctions import ANY, Conjunction, sample_complexity
from fastens.bayes.concepts.version_space import VersionSpaceClassifier
from fastens.bayes.hypotheses.combination import BayesOptimalClassifier, GibbsClassifier, MAPClassifier, MLClassifier
from fastens.bayes.hypotheses.finite import FiniteHypothesisLearner
from fastens.bayes.naive.mixed import CategoricalNB, MixedNB
from fastens.bayes.naive.naive_bayes import BernoulliNB, ComplementNB, GaussianNB, MultinomialNB
from fastens.bayes.naive.one_dependence import AODEClassifier, TANClassifier
from fastens.bayes.naive.text import TextClassifier
from fastens.bayes.networks.network import BayesianNetwork
from fastens.bayes.posterior import ErrorEstimate, estimate_errors
from fastens.bayes.trees.bayes_tree import BayesTreeClassifier, BayesTreeRegressor
from fastens.bayes.trees.tree_average import ExactTreeAverageClassifier

__all__ = [
    "ANY",
    "AODEClassifier",
    "BayesOptimalClassifier",
    "BayesTreeClassifier",
    "BayesTreeRegressor",
    "BayesianNetwork",
    "BernoulliNB",
    "CategoricalNB",
    "ComplementNB",
    "Conjunction",
    "ErrorEstimate",
    "ExactTreeAverageClassifier",
    "FiniteHypothesisLearner",
    "GaussianNB",
    "GibbsClassifier",
    "MAPClassifier",
    "MLClassifier",
    "MixedNB",
    "MultinomialNB",
    "TANClassifier",
    "TextClassifier",
    "VersionSpaceClassifier",
    "estimate_errors",
    "sample_complexity",
]
