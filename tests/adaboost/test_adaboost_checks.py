"""scikit-learn's own checks of AdaBoost and the stumps, with no expected failure."""

from __future__ import annotations

from fastens import AdaBoostClassifier, AdaBoostRegressor
from reference.sklearn_checks import parametrize_with_checks

VARIANTS = [
    AdaBoostClassifier(n_estimators=10, algorithm="real"),
    AdaBoostClassifier(n_estimators=10, algorithm="gentle"),
    AdaBoostClassifier(n_estimators=10, algorithm="logit"),
    AdaBoostClassifier(n_estimators=10, resample=True),
    AdaBoostRegressor(n_estimators=10, resample=False),
    AdaBoostClassifier(n_estimators=10, algorithm="real", max_depth=2, interaction_cst="no_interactions"),
]


@parametrize_with_checks(VARIANTS)
def test_sklearn_check(check):
    check()
