"""scikit-learn's own checks of every public estimator as it is constructed by default, with no expected failure."""

from __future__ import annotations

import pytest

from fastens.combining import cascade, members
from reference.public_estimators import CLASSES, REQUIRED, make
from reference.sklearn_checks import parametrize_with_checks

# Default members are ensembles, fitted several times: here of fewer trees.
WITH_MEMBERS = {
    "BayesOptimalClassifier",
    "CascadeForestClassifier",
    "CascadeForestRegressor",
    "GibbsClassifier",
    "MAPClassifier",
    "MLClassifier",
    "StackingClassifier",
    "StackingRegressor",
    "WeightedMajorityClassifier",
}
BY_DEFAULT = sorted(CLASSES.keys() - REQUIRED.keys())


@parametrize_with_checks([make(name) for name in BY_DEFAULT if name not in WITH_MEMBERS], slow=False)
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.fixture
def few_trees(monkeypatch):
    for module, function in ((members, "default_members"), (cascade, "default_forests")):
        make_members = getattr(module, function)
        monkeypatch.setattr(module, function, lambda *task, make_members=make_members: fewer(make_members(*task)))


def fewer(named):
    return [(name, member.set_params(n_estimators=40)) for name, member in named]


@parametrize_with_checks([make(name) for name in BY_DEFAULT if name in WITH_MEMBERS])
def test_sklearn_check_with_default_members(estimator, check, few_trees):
    check(estimator)
