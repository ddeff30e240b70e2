"""A fit that fails, at the door or at its end, leaves the model of the fit before, in every Bayesian estimator."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from fastens import (
    AODEClassifier,
    BayesianNetwork,
    BayesOptimalClassifier,
    BayesTreeClassifier,
    BayesTreeRegressor,
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    ExactTreeAverageClassifier,
    GaussianNB,
    GibbsClassifier,
    MAPClassifier,
    MaximumLikelihoodClassifier,
    MixedNB,
    MultinomialNB,
    TANClassifier,
    TextClassifier,
    VersionSpaceClassifier,
)
from fastens.rollback import keeps_model

MODELS = [
    AODEClassifier(),
    BayesOptimalClassifier(),
    BayesTreeClassifier(),
    BayesTreeRegressor(),
    BayesianNetwork("tan"),
    BernoulliNB(),
    CategoricalNB(),
    ComplementNB(),
    ExactTreeAverageClassifier(),
    GaussianNB(),
    GibbsClassifier(random_state=0),
    MAPClassifier(),
    MaximumLikelihoodClassifier(),
    MixedNB(),
    MultinomialNB(),
    TANClassifier(),
    VersionSpaceClassifier(),
]
X = np.array([[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]] * 10)
Y = np.array([1, 1, 0, 0] * 10)
BAD = [
    (X, [0, 1], None),
    (X, np.full(len(X), np.nan), None),
    (X, [[1], [0, 1]], None),
    (X, None, None),
    (X[:, :2], ["a", "b"] * 19, None),
    (X[:0], Y[:0], None),
    (X, Y, np.full(len(X), -1.0)),
    (X[:, :2], Y, "heavy"),
    ([[{}], [{}]], [0, 1], None),
]


def name_of(model):
    return type(model).__name__


@pytest.mark.parametrize("model", MODELS, ids=name_of)
def test_a_failed_fit_changes_nothing(model):
    model = copy.deepcopy(model).fit(X, Y)
    rows = X[:4]
    before = model.predict(rows)
    for bad_X, bad_y, weight in BAD:
        learners = [model.fit, *([model.partial_fit] if hasattr(model, "partial_fit") else [])]
        for learn in learners:
            if bad_y is None and isinstance(model, BayesianNetwork):
                continue  # without a class: a fit
            with pytest.raises((ValueError, TypeError)):
                learn(bad_X, bad_y, sample_weight=weight)
            assert model.n_features_in_ == 3
            np.testing.assert_array_equal(model.predict(rows), before)


def test_a_failed_fit_of_texts_changes_nothing():
    texts, labels = ["win a prize", "lunch at noon"], ["spam", "ham"]
    model = TextClassifier().fit(texts, labels)
    for bad_X, bad_y in ((["a", "b"], labels), (texts, ["spam"]), (texts, ["spam", None]), ([1, 2], labels)):
        with pytest.raises(ValueError, match=r"must |contains NaN"):
            model.fit(bad_X, bad_y)
        assert model.predict(texts).tolist() == labels


@pytest.mark.parametrize("model", [BayesTreeClassifier(), VersionSpaceClassifier()], ids=name_of)
def test_a_wrong_list_of_classes_adds_no_rows(model):
    model = copy.deepcopy(model).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="classes must be"):
        model.partial_fit(X, 1 - Y, classes=[0, 1, 2])
    np.testing.assert_array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("wrong", [{"noise": 9}, {"positive": "maybe"}, {"prior": "x"}, {"categories": [[0]]}])
def test_a_wrong_parameter_of_a_version_space_changes_no_answer(wrong):
    model = VersionSpaceClassifier().fit(X, Y)
    before = model.predict_proba(X), list(model.members())
    with pytest.raises(ValueError, match=next(iter(wrong))):
        model.set_params(**wrong).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), before[0])
    assert list(model.members()) == before[1]


def test_an_interrupted_fit_changes_nothing():
    class Model:
        @keeps_model
        def fit(self):
            self.old, self.new = 2, True
            raise KeyboardInterrupt

    model = Model()
    model.old = 1
    with pytest.raises(KeyboardInterrupt):
        model.fit()
    assert vars(model) == {"old": 1}
