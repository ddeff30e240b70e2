"""scikit-learn's own checks of the naive Bayes classifiers, with no expected failure."""

from __future__ import annotations

from fastens import CategoricalNB, MultinomialNB
from reference.sklearn_checks import parametrize_with_checks

MODELS = [
    CategoricalNB(feature_prior=0.5, smoothing="bdeu"),
    MultinomialNB(smoothing="kt"),
]


@parametrize_with_checks(MODELS)
def test_sklearn_check(check):
    check()
