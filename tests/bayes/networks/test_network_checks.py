"""The Bayesian network as scikit-learn uses it: its own checks, with no expected failure, and scores."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold, cross_val_score

from fastens import BayesianNetwork
from reference.sklearn_checks import parametrize_with_checks

MODELS = [
    BayesianNetwork("tan"),
    BayesianNetwork("kdb"),
    BayesianNetwork("pc"),
    BayesianNetwork("chow-liu", smoothing="bdeu"),
    BayesianNetwork(max_bins=5),
    BayesianNetwork(continuous_features="from_dtype"),
]


@parametrize_with_checks(MODELS)
def test_sklearn_check(check):
    check()


def test_scores_of_networks_without_a_class_are_mean_log_probabilities():
    X = np.random.default_rng(0).integers(0, 3, (60, 3))
    model = BayesianNetwork("chow-liu").fit(X)
    assert model.score(X) == model.score_samples(X).mean()
    assert model.score(X, sample_weight=np.arange(60) % 2) == pytest.approx(model.score(X[1::2]))
    scores = cross_val_score(BayesianNetwork("chow-liu"), X, cv=3)
    assert scores.tolist() == [BayesianNetwork("chow-liu").fit(X[a]).score(X[b]) for a, b in KFold(3).split(X)]
    certain = BayesianNetwork({1: 0}, smoothing="none").fit([[0, 0], [1, 1]])
    assert certain.score([[0, 0], [0, 1]], sample_weight=[1, 0]) == pytest.approx(np.log(0.5))
    assert certain.score([[0, 0], [0, 1]]) == -np.inf
    with pytest.raises(ValueError, match=r"y must be None, because the network has no class\."):
        model.score(X, X[:, 0])
    with pytest.raises(ValueError, match="BayesianNetwork with a class requires y to be passed"):
        model.fit(X, X[:, 0]).score(X)
