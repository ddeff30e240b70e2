"""What `random_state` may be wherever something is drawn from a posterior."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import (
    BayesianNetwork,
    BayesOptimalClassifier,
    BayesTreeClassifier,
    ExactTreeAverageClassifier,
    FiniteHypothesisLearner,
    GaussianNB,
    TANClassifier,
    VersionSpaceClassifier,
)

X = np.array([[0, 1], [1, 1], [0, 0], [1, 0]] * 10)
MODELS = {
    "naive Bayes": GaussianNB(),
    "TAN": TANClassifier(),
    "network": BayesianNetwork("chow-liu"),
    "tree": BayesTreeClassifier(),
    "trees": ExactTreeAverageClassifier(),
    "version space": VersionSpaceClassifier(),
    "combination": BayesOptimalClassifier([("a", GaussianNB())]),
}


@pytest.fixture(params=[*MODELS, "hypotheses"])
def model(request):
    if request.param == "hypotheses":
        return FiniteHypothesisLearner([[0.5, 0.5], [0.1, 0.9]], [0.5, 0.5]).fit([0, 1, 1])
    return MODELS[request.param].fit(X, X[:, 0])


@pytest.mark.parametrize("wrong", ["x", -1, 1.5])
def test_errors_name_the_parameter(model, wrong):
    with pytest.raises(ValueError, match=rf"^random_state must be None, .*got {wrong!r}\.$"):
        model.sample_posterior(1, random_state=wrong)


@pytest.mark.parametrize("given", [None, 3, np.random.RandomState(0), np.random.default_rng(0)])
def test_accepted_kinds_of_random_state(model, given):
    assert len(model.sample_posterior(2, random_state=given)) == 2
