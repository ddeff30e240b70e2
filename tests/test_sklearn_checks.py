"""scikit-learn's own checks of every public estimator as it is constructed by default, with no expected failure."""

from __future__ import annotations

import pytest

from reference.public_estimators import CLASSES, REQUIRED, make
from reference.sklearn_checks import parametrize_with_checks

# Default members are full-sized ensembles, fitted several times: the same checks on small ones are beside each room.
SLOW = {
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


@parametrize_with_checks([make(name) for name in BY_DEFAULT if name not in SLOW])
def test_sklearn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([make(name) for name in BY_DEFAULT if name in SLOW])
def test_sklearn_check_of_large_ones(estimator, check):
    check(estimator)
