"""Every public estimator at its default parameters, with a small table that it can be fitted to."""

from __future__ import annotations

import inspect

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris

import fastens
from fastens.combining import cascade, members

CLASSES = {
    name: kind
    for name in fastens.__all__
    if inspect.isclass(kind := getattr(fastens, name)) and issubclass(kind, BaseEstimator)
}
# Likelihoods have no default: the first and the last bag of candies.
REQUIRED = {"FiniteHypothesisLearner": ([[1.0, 0.0], [0.5, 0.5]],)}
ON_COUNTS = ("BernoulliNB", "CategoricalNB", "ComplementNB", "MultinomialNB", "AODEClassifier", "TANClassifier")


class OneQueryRanker(fastens.GradientBoostingRanker):
    # Tests of all estimators give only X and y, so that all rows belong to one query.
    __doc__ = fastens.GradientBoostingRanker.__doc__

    def fit(self, X, y, sample_weight=None, **given):
        return super().fit(X, y, sample_weight, **_of_one_query(y, given))

    def score(self, X, y, sample_weight=None, **given):
        return super().score(X, y, sample_weight, **_of_one_query(y, given))

    def staged_score(self, X, y, sample_weight=None, **given):
        return super().staged_score(X, y, sample_weight, **_of_one_query(y, given))


OneQueryRanker.__name__ = "GradientBoostingRanker"  # by which a file is loaded again
CLASSES["GradientBoostingRanker"] = OneQueryRanker


def _of_one_query(y, given):
    """The arguments with the queries of the rows, where there are none."""
    named = {name for name in given if name.removesuffix("_val") in ("qid", "group")}
    missing = {} if {"qid", "group"} & named else {"qid": np.zeros(np.asarray(y).size)}
    if given.get("y_val") is not None and not {"qid_val", "group_val"} & named:
        missing["qid_val"] = np.zeros(np.size(given["y_val"]))
    return given | missing


def make(name, **parameters):
    """The estimator of a name."""
    return CLASSES[name](*REQUIRED.get(name, ()), **parameters)


def shrink_default_members(monkeypatch, n_estimators, n_folds=2):
    """Let the ensembles that ensembles are made of by default have fewer trees, and be fitted on fewer folds."""
    for kind in (members.BaseMembers, cascade.BaseCascade):
        monkeypatch.setattr(kind, "_default_cv", n_folds)
    # The default of conformal estimators: fewer rounds do not learn enough for scikit-learn's checks.
    monkeypatch.setitem(members.BOOSTING, "n_estimators", max(n_estimators, 10))
    for module, function in ((members, "default_members"), (cascade, "default_forests")):
        make_members = getattr(module, function)

        def made(*task, make_members=make_members):
            return [(name, member.set_params(n_estimators=n_estimators)) for name, member in make_members(*task)]

        monkeypatch.setattr(module, function, made)


def table_for(name):
    """The arguments of its `fit`."""
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    special = {
        "GradientBoostingSurvival": (X, np.column_stack([y + 1.0, y + 1.0])),
        "VersionSpaceClassifier": ((X.mean(axis=0) < X).astype(int), y == 1),
        "FiniteHypothesisLearner": (np.array([0, 1, 1]),),
        "TextClassifier": (["good film", "bad film", "good music", "bad music"] * 3, [1, 0, 1, 0] * 3),
    }
    return special.get(name, (np.floor(X) if name in ON_COUNTS else X, y))
