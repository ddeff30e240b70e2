"""scikit-learn's own checks of the Bayesian network, with no expected failure."""

from __future__ import annotations

from fastens import BayesianNetwork
from reference.sklearn_checks import parametrize_with_checks

MODELS = [
    BayesianNetwork("tan"),
    BayesianNetwork("kdb"),
    BayesianNetwork("chow-liu", smoothing="bdeu"),
    BayesianNetwork(max_bins=5),
]


@parametrize_with_checks(MODELS)
def test_sklearn_check(estimator, check):
    check(estimator)
