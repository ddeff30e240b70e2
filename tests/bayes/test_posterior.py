"""Errors of the Bayes-optimal answer and of Gibbs: what is no model, no label, no weight."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from fastens import (
    BayesianNetwork,
    BayesOptimalClassifier,
    BernoulliNB,
    CategoricalNB,
    ExactTreeAverageClassifier,
    GaussianNB,
    MultinomialNB,
    TANClassifier,
    VersionSpaceClassifier,
    estimate_errors,
)

X = np.array([[0, 1], [1, 1], [0, 0], [1, 0]])
Y = np.array(["yes", "yes", "no", "no"])


def fitted():
    return VersionSpaceClassifier().fit(X, Y)


@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        (["yes", "maybe", "no", "no"], None, "y must hold the classes seen in fit; it holds 'maybe'"),
        ([1, 1, 0, 0], None, "y must hold the classes seen in fit"),
        (["yes"], None, "X and y must have the same number of rows; got 4 and 1"),
        ([["yes", "no"]] * 4, None, "1d array"),
        (["yes", None, "no", "no"], None, "y contains NaN"),
        (Y, [1, 1, 1, -1], "sample_weight must be finite and non-negative; got -1"),
        (None, [1, 1, 1, np.nan], "sample_weight must be finite"),
        (None, [0, 0, 0, 0], r"sample_weight must have at least one positive weight; all of them are zero\."),
        (None, [1, 1], "sample_weight must have one weight for each of the 4 rows"),
    ],
)
def test_errors(y, weight, message):
    with pytest.raises(ValueError, match=message):
        estimate_errors(fitted(), X, y, weight)


@pytest.mark.parametrize("model", [LogisticRegression(), 3, VersionSpaceClassifier, None])
def test_other_models(model):
    with pytest.raises(ValueError, match="model must be a fitted Bayesian classifier"):
        estimate_errors(model, X, Y)


def test_models_that_are_not_fitted():
    with pytest.raises(NotFittedError):
        estimate_errors(VersionSpaceClassifier(), X)


def test_weights_are_copies_and_order_does_not_matter():
    model, y = fitted(), np.array(["yes", "no", "no", "no"])
    found = estimate_errors(model, X, y, [1, 3, 0, 1])
    assert found == estimate_errors(model, X[[0, 1, 1, 1, 3]], y[[0, 1, 1, 1, 3]])
    assert found == estimate_errors(model, X, ["yes", "no", "a class that fit has not seen", "no"], [1, 3, 0, 1])
    assert found.bayes == 3 / 5


@pytest.mark.parametrize("sure", [False, True])
def test_how_much_more_often_gibbs_errs(sure):
    """Of two constant classifiers one is nearly sure; the other, barely for the other class, breaks the bound of 2."""
    priors = {"nearly sure": [0.99, 0.01], "barely": [0.49, 0.51]}
    members = [(name, GaussianNB(priors=prior).fit([[0], [1]] * 2, [0, 0, 1, 1])) for name, prior in priors.items()]
    model = BayesOptimalClassifier(members, cv="prefit", noise=0.1 if sure else None).fit([[0.5]] * 4, [0, 0, 0, 0])
    found, most = estimate_errors(model, [[0.5]]), model.predict_proba([[0.5]]).max()
    assert found.ratio <= (2 if sure else 1 + 2 * most)
    assert sure or found.ratio > 2.3


def test_rows_of_no_weight_do_not_shift_the_labels():
    counts = np.array([[3, 0], [2, 1], [0, 4], [1, 5]])
    for model in (MultinomialNB(), BernoulliNB()):
        model.fit(counts, Y)
        alone = model.log_likelihood(counts[1:], Y[1:], [2, 1, 1])
        for of_first in (Y[0], "maybe"):  # a class that fit has not seen
            labels = np.append([of_first], Y[1:])
            assert model.log_likelihood(counts, labels, [0, 2, 1, 1]) == pytest.approx(alone, abs=1e-12)
        with pytest.raises(ValueError, match="sample_weight must be finite and non-negative"):
            model.log_likelihood(counts, Y, [1, 1, 1, -1])


@pytest.mark.parametrize("n", [-1, 1.5, "a", None])
def test_numbers_of_draws(n):
    network = BayesianNetwork("tan").fit(X, Y)
    draws = [
        network.sample,
        network.sample_posterior,
        fitted().sample_posterior,
        ExactTreeAverageClassifier().fit(X, Y).sample_posterior,
    ]
    for draw in draws:
        with pytest.raises(ValueError, match=f"n must be a whole number of at least 0; got {n!r}"):
            draw(n)
    assert network.sample(0).shape == (0, 3)


@pytest.mark.parametrize("model", [BernoulliNB, CategoricalNB, TANClassifier, VersionSpaceClassifier])
@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ([], "classes must hold at least (1 class|2 classes)"),
        (["yes"], "y must hold the classes seen in fit; it holds 'no'|classes must hold at least 2 classes"),
        ("yes", "classes must be a list of labels; got 'yes'"),
        (3, "classes must be a list of labels; got 3"),
        ([None, "yes"], r"classes must be a list of labels; got \[None, 'yes'\]"),
        ([np.nan, 1], "classes must be a list of labels"),
        ([{}, "yes"], "classes must be a list of labels"),
        (["maybe", "no"], "must hold the classes|those of the first"),
    ],
)
def test_classes_of_parts(model, classes, message):
    with pytest.raises(ValueError, match=message):
        model().partial_fit(X, Y, classes=classes)
    with pytest.raises(ValueError, match="classes must "):
        model().fit(X, Y).partial_fit(X, Y, classes=classes)


@pytest.mark.parametrize("other", [None, 3, BernoulliNB, LogisticRegression(), MultinomialNB()])
def test_models_that_cannot_be_merged_raise(other):
    with pytest.raises(ValueError, match="other must be a fitted BernoulliNB; got "):
        BernoulliNB().fit(X, Y).merge(other)
    with pytest.raises(NotFittedError):
        BernoulliNB().fit(X, Y).merge(BernoulliNB())
