"""scikit-learn's own checks of every public estimator with its default parameters, with no expected failure."""

from __future__ import annotations

import pytest

from reference.public_estimators import CLASSES, REQUIRED, make, shrink_default_members
from reference.sklearn_checks import parametrize_with_checks

# Default members are ensembles, fitted several times: here of fewer trees, and not as often.
WITH_MEMBERS = {
    "BayesOptimalClassifier",
    "CascadeForestClassifier",
    "CascadeForestRegressor",
    "ConformalClassifier",
    "ConformalRegressor",
    "GibbsClassifier",
    "MAPClassifier",
    "MaximumLikelihoodClassifier",
    "StackingClassifier",
    "StackingRegressor",
    "VotingClassifier",
    "VotingRegressor",
    "WeightedMajorityClassifier",
}
BY_DEFAULT = sorted(CLASSES.keys() - REQUIRED.keys())
# One of each family.
QUICK = {"AdaBoostClassifier", "GaussianNB", "GradientBoostingRegressor", "IsolationForest", "RandomForestClassifier"}


@parametrize_with_checks([make(name) for name in BY_DEFAULT if name not in WITH_MEMBERS], quick=QUICK)
def test_sklearn_check(check):
    check()


@pytest.fixture
def few_trees(monkeypatch):
    shrink_default_members(monkeypatch, 3)


@parametrize_with_checks([make(name) for name in BY_DEFAULT if name in WITH_MEMBERS])
def test_sklearn_check_with_default_members(check, few_trees):
    check()
