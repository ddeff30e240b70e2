"""scikit-learn's own checks, with no expected failure."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from fastens import ExactTreeAverageClassifier, VersionSpaceClassifier


@parametrize_with_checks([ExactTreeAverageClassifier(), VersionSpaceClassifier()])
def test_sklearn_check(estimator, check):
    check(estimator)
