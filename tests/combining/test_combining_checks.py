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
    ("a", GradientBoostingClassifier(n_estimators=2, min_samples_leaf=1, learning_rate=0.5)),
    ("b", GradientBoostingClassifier(n_estimators=1, min_samples_leaf=1, learning_rate=0.9)),
]
REGRESSORS = [
    ("a", GradientBoostingRegressor(n_estimators=2, min_samples_leaf=1, learning_rate=0.5)),
    ("b", GradientBoostingRegressor(n_estimators=1, min_samples_leaf=1, learning_rate=0.9)),
]


@parametrize_with_checks(
    [
        StackingClassifier(CLASSIFIERS, cv=2),
        StackingRegressor(REGRESSORS, cv=2),
        CascadeForestClassifier(CLASSIFIERS, max_layers=2, cv=2),
        CascadeForestRegressor(REGRESSORS, max_layers=2, cv=2),
        VotingClassifier(CLASSIFIERS),
        VotingClassifier(CLASSIFIERS, voting="soft", weights="selection", cv=2),
        VotingRegressor(REGRESSORS, weights="nnls", cv=2),
        WeightedMajorityClassifier(CLASSIFIERS, cv=2),
        WeightedMajorityClassifier(CLASSIFIERS, cv=2, algorithm="hedge", weighting="covariance"),
    ]
)
def test_sklearn_check(check):
    check()
