# This stub is also read at run time. It lists the public names, each of which is imported on first use.

from fastens.bayes.concepts.conjunctions import ANY as ANY
from fastens.bayes.concepts.conjunctions import Conjunction as Conjunction
from fastens.bayes.concepts.conjunctions import all_conjunctions as all_conjunctions
from fastens.bayes.concepts.conjunctions import brute_force_map as brute_force_map
from fastens.bayes.concepts.conjunctions import sample_complexity as sample_complexity
from fastens.bayes.concepts.version_space import VersionSpaceClassifier as VersionSpaceClassifier
from fastens.bayes.hypotheses.combination import BayesOptimalClassifier as BayesOptimalClassifier
from fastens.bayes.hypotheses.combination import GibbsClassifier as GibbsClassifier
from fastens.bayes.hypotheses.combination import MAPClassifier as MAPClassifier
from fastens.bayes.hypotheses.combination import MaximumLikelihoodClassifier as MaximumLikelihoodClassifier
from fastens.bayes.hypotheses.finite import FiniteHypothesisLearner as FiniteHypothesisLearner
from fastens.bayes.naive.mixed import CategoricalNB as CategoricalNB
from fastens.bayes.naive.mixed import MixedNB as MixedNB
from fastens.bayes.naive.naive_bayes import BernoulliNB as BernoulliNB
from fastens.bayes.naive.naive_bayes import ComplementNB as ComplementNB
from fastens.bayes.naive.naive_bayes import GaussianNB as GaussianNB
from fastens.bayes.naive.naive_bayes import MultinomialNB as MultinomialNB
from fastens.bayes.naive.one_dependence import AODEClassifier as AODEClassifier
from fastens.bayes.naive.one_dependence import TANClassifier as TANClassifier
from fastens.bayes.naive.text import TextClassifier as TextClassifier
from fastens.bayes.networks.network import BayesianNetwork as BayesianNetwork
from fastens.bayes.posterior import ErrorEstimate as ErrorEstimate
from fastens.bayes.posterior import estimate_errors as estimate_errors
from fastens.bayes.trees.bayes_tree import BayesTreeClassifier as BayesTreeClassifier
from fastens.bayes.trees.bayes_tree import BayesTreeRegressor as BayesTreeRegressor
from fastens.bayes.trees.tree_average import ExactTreeAverageClassifier as ExactTreeAverageClassifier
