"""The kinds of models that the command line offers, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import fastens
from fastens.cli.table.errors import CommandError
from fastens.cli.table.target import CLASSIFICATION

DEFAULT = "boosting"
TEXT = "text"


@dataclass(frozen=True)
class Family:
    """A kind of model."""

    title: str
    classifier: Callable[..., Any] | None
    regressor: Callable[..., Any] | None
    unit: str = "rounds"  # what `n_estimators` counts
    is_composed: bool = False  # made of other families, whose time it takes
    is_special: bool = False  # compared with others only by name

    def estimator(self, task: str) -> Callable[..., Any] | None:
        """The class for a task."""
        return self.classifier if task == CLASSIFICATION else self.regressor


FAMILIES = {
    "boosting": Family("gradient boosting", fastens.GradientBoostingClassifier, fastens.GradientBoostingRegressor),
    "forest": Family("random forest", fastens.RandomForestClassifier, fastens.RandomForestRegressor, "trees"),
    "extra-trees": Family("extra trees", fastens.ExtraTreesClassifier, fastens.ExtraTreesRegressor, "trees"),
    "tree": Family("single tree", fastens.DecisionTreeClassifier, fastens.DecisionTreeRegressor),
    "bayes-tree": Family(
        "single tree, averaged over all its prunings", fastens.BayesTreeClassifier, fastens.BayesTreeRegressor
    ),
    "exact-trees": Family("all trees on a few questions", fastens.ExactTreeAverageClassifier, None),
    "bagging": Family("bagged trees", fastens.BaggingClassifier, fastens.BaggingRegressor, "members"),
    "adaboost": Family("AdaBoost", fastens.AdaBoostClassifier, fastens.AdaBoostRegressor),
    "naive-bayes": Family("naive Bayes, each column of its own kind", fastens.MixedNB, None),
    "tan": Family("naive Bayes with a tree of the columns", fastens.TANClassifier, None),
    "aode": Family("naive Bayes averaged over a further parent", fastens.AODEClassifier, None),
    "network": Family("Bayesian network", partial(fastens.BayesianNetwork, max_bins=8), None),
    "voting": Family(
        "average of several models",
        # Soft: the commands report probabilities.
        partial(fastens.VotingClassifier, voting="soft"),
        fastens.VotingRegressor,
        is_composed=True,
    ),
    "stacking": Family(
        "a model of the predictions of others", fastens.StackingClassifier, fastens.StackingRegressor, is_composed=True
    ),
    "bayes-optimal": Family(
        "several models, by their posterior", fastens.BayesOptimalClassifier, None, is_composed=True
    ),
    "cascade": Family(
        "layers of forests", fastens.CascadeForestClassifier, fastens.CascadeForestRegressor, is_composed=True
    ),
    "weighted-majority": Family(
        "several models that vote, by their mistakes", fastens.WeightedMajorityClassifier, None, is_composed=True
    ),
    "gibbs": Family(
        "one of several models for each row, by their posterior", fastens.GibbsClassifier, None, is_composed=True
    ),
    "map": Family("the most probable of several models", fastens.MAPClassifier, None, is_composed=True),
    "ml": Family("the most likely of several models", fastens.MLClassifier, None, is_composed=True),
    "conformal": Family(
        "boosting with sets and intervals that hold",
        fastens.ConformalClassifier,
        fastens.ConformalRegressor,
        is_composed=True,
    ),
    "stump": Family(
        "a tree of one split", fastens.DecisionStumpClassifier, fastens.DecisionStumpRegressor, is_special=True
    ),
    "version-space": Family(
        "conjunctions of values, by their posterior",
        # Without noise one wrong label leaves no conjunction.
        partial(fastens.VersionSpaceClassifier, noise=0.1),
        None,
        is_special=True,
    ),
    "gaussian-nb": Family("naive Bayes of numbers, Gaussian", fastens.GaussianNB, None, is_special=True),
    "categorical-nb": Family("naive Bayes of categories", fastens.CategoricalNB, None, is_special=True),
    "bernoulli-nb": Family("naive Bayes for binary columns", fastens.BernoulliNB, None, is_special=True),
    "multinomial-nb": Family("naive Bayes of counts", fastens.MultinomialNB, None, is_special=True),
    "complement-nb": Family("naive Bayes of counts, for rare classes", fastens.ComplementNB, None, is_special=True),
    TEXT: Family("naive Bayes on the words of a text", fastens.TextClassifier, None),
}

# The estimators that a table with a target is not enough for, by what they are asked for as, and what to do.
ELSEWHERE: dict[str, tuple[type, str]] = {
    "ranker": (
        fastens.GradientBoostingRanker,
        "ranking needs the query of each row; in Python: fastens.GradientBoostingRanker().fit(X, y, qid=queries)",
    ),
    "survival": (
        fastens.GradientBoostingSurvival,
        "survival needs times, and which of them are censored; in Python: "
        "fastens.GradientBoostingSurvival().fit(X, times)",
    ),
    "isolation-forest": (
        fastens.IsolationForest,
        "anomalies have no target; in Python: fastens.IsolationForest().fit_predict(X)",
    ),
    "embedding": (
        fastens.RandomTreesEmbedding,
        "an embedding has no target; in Python: fastens.RandomTreesEmbedding().fit_transform(X)",
    ),
    "hypotheses": (
        fastens.FiniteHypothesisLearner,
        "hypotheses are given by their likelihoods; in Python: fastens.FiniteHypothesisLearner(likelihoods).fit(data)",
    ),
}


def known_family(name: str) -> str:
    """The name, if it is that of a family; else a CommandError with what to do."""
    if name in ELSEWHERE:
        raise CommandError(f"--model {name}: {ELSEWHERE[name][1]}")
    if name not in FAMILIES:
        raise CommandError(f"--model {name}: there is no such kind; there are {', '.join(FAMILIES)}")
    return name


def families(task: str) -> dict[str, Callable[..., Any]]:
    """The classes that learn a task from the columns of a table, by the names of their families."""
    classes = {name: family.estimator(task) for name, family in FAMILIES.items() if name != TEXT}
    return {name: estimator for name, estimator in classes.items() if estimator is not None}


def quick_families(task: str) -> list[str]:
    """The names of those that do not take the time of several others."""
    return [name for name in families(task) if not FAMILIES[name].is_composed and not FAMILIES[name].is_special]


def estimator_class(name: str, task: str) -> Callable[..., Any]:
    """The class of a family for a task."""
    estimator = FAMILIES[name].estimator(task)
    if estimator is None:
        raise CommandError(f"--model {name} does not do {task}; these do: {', '.join(families(task))}")
    return estimator
