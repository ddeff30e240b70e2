"""scikit-learn's own checks of the ensembles of other estimators, with no expected failure."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from fastens import GradientBoostingClassifier, GradientBoostingRegressor, StackingClassifier, StackingRegressor

CLASSIFIERS = [
    ("a", GradientBoostingClassifier(n_estimators=8, min_samples_leaf=1)),
    ("b", GradientBoostingClassifier(n_estimators=5, min_samples_leaf=1, learning_rate=0.3)),
]
REGRESSORS = [
    ("a", GradientBoostingRegressor(n_estimators=8, min_samples_leaf=1)),
    ("b", GradientBoostingRegressor(n_estimators=5, min_samples_leaf=1, learning_rate=0.3)),
]


@parametrize_with_checks([StackingClassifier(CLASSIFIERS, cv=3), StackingRegressor(REGRESSORS, cv=3)])
def test_sklearn_check(estimator, check):
    check(estimator)
