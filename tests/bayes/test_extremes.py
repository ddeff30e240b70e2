"""Numbers at the end of the range of floats: a model without NaN, or an error that names the column."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from fastens import (
    AODEClassifier,
    BayesianNetwork,
    BayesTreeClassifier,
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    ExactTreeAverageClassifier,
    GaussianNB,
    MixedNB,
    MultinomialNB,
    TANClassifier,
    VersionSpaceClassifier,
)

MODELS = [
    AODEClassifier,
    BayesTreeClassifier,
    BayesianNetwork,
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    ExactTreeAverageClassifier,
    GaussianNB,
    MixedNB,
    MultinomialNB,
    TANClassifier,
    VersionSpaceClassifier,
]
X = np.array([[0.0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]] * 5)
Y = np.array(["no", "yes", "no", "yes"] * 5)


def proba_or_error(model, table):
    try:
        return model.fit(table, Y).predict_proba(table)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("value", [np.inf, -np.inf, 1.7e308, -1.7e308, 1e160, 5e-324, -1.0, 0.5, 1e15])
def test_one_number(model, value):
    table = X.copy()
    table[0, 1] = value
    fitted = model().fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert np.isfinite(fitted.predict_proba(table)).all()
        found = proba_or_error(model(), table)
    assert "olumn 1" in found if isinstance(found, str) else np.isfinite(found).all()


@pytest.mark.parametrize("model", [GaussianNB, MultinomialNB, ComplementNB])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
def test_sums_that_overflow(model, make):
    table = X.copy()
    table[:, 2] = np.array([0, 1.5e308, 1.7e308, 0] * 5)
    with pytest.raises(ValueError, match=r"olumn 2 .*values (that )?are too large\. Scale it\."):
        model().fit(make(table), Y)


@pytest.mark.parametrize("prior", [["a", "b"], "ab", 3, {"no": 1}, [[0.5, 0.5]]])
def test_priors_are_numbers(prior):
    with pytest.raises(ValueError, match="priors must be None or an array of probabilities, one for each class; got"):
        GaussianNB(priors=prior).fit(X, Y)
    with pytest.raises(ValueError, match="class_prior must be None or an array of probabilities"):
        BernoulliNB(class_prior=prior).fit(X, Y)


@pytest.mark.parametrize("minimum", [10**9, [10**9, 1, 1], [-1, 1, 1], [1, 2], [2.5] * 3, ["a"] * 3])
def test_numbers_of_categories(minimum):
    with pytest.raises(ValueError, match="min_categories must "):
        CategoricalNB(min_categories=minimum).fit(X, Y)


def test_thresholds_and_roots():
    with pytest.raises(ValueError, match="binarize must be a finite number or None; got 'a'"):
        BernoulliNB(binarize="a").fit(X, Y)
    with pytest.raises(ValueError, match=r"root must be a column of X.*got 7"):
        TANClassifier(root=7).fit(X, Y)
