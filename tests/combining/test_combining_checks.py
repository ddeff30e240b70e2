"""scikit-learn's own checks of the ensembles of other estimators, with no expected failure."""

from __future__ import annotations

from fastens import (
    CascadeForestClassifier,
    CascadeForestRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
    WeightedMajorityClassifier,
)
from reference.sklearn_checks import parametrize_with_checks

CLASSIFIERS = [
    ("a", GradientBoostingClassifier(n_estimators=4, min_samples_leaf=1)),
    ("b", GradientBoostingClassifier(n_estimators=3, min_samples_leaf=1, learning_rate=0.3)),
]
REGRESSORS = [
    ("a", GradientBoostingRegressor(n_estimators=4, min_samples_leaf=1)),
    ("b", GradientBoostingRegressor(n_estimators=3, min_samples_leaf=1, learning_rate=0.3)),
]


@parametrize_with_checks(
    [
        StackingClassifier(CLASSIFIERS, cv=3),
        StackingRegressor(REGRESSORS, cv=3),
        CascadeForestClassifier(CLASSIFIERS, max_layers=2),
        CascadeForestRegressor(REGRESSORS, max_layers=2),
        VotingClassifier(CLASSIFIERS),
        VotingClassifier(CLASSIFIERS, voting="soft", weights="selection", cv=3),
        VotingRegressor(REGRESSORS, weights="nnls", cv=3),
        WeightedMajorityClassifier(CLASSIFIERS, cv=3),
        WeightedMajorityClassifier(CLASSIFIERS, cv=3, algorithm="hedge", weighting="covariance"),
    ]
)
def test_sklearn_check(check):
    check()
