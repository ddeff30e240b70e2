"""scikit-learn's own checks of TAN, AODE and A2DE, with no expected failure."""

from __future__ import annotations

from fastens import AODEClassifier, TANClassifier
from reference.sklearn_checks import parametrize_with_checks

MODELS = [
    AODEClassifier(order=2),
    AODEClassifier(smoothing="m", unseen="smooth"),
    TANClassifier(root=0),
]


@parametrize_with_checks(MODELS)
def test_sklearn_check(check):
    check()
