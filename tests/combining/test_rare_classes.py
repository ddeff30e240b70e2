"""Classes that some folds have no row of: they have no probability there, or an error says what to do."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.svm import SVC

import fastens
from fastens import (
    BaggingClassifier,
    BayesOptimalClassifier,
    CascadeForestClassifier,
    ConformalClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
    WeightedMajorityClassifier,
)

MEMBERS = [("forest", RandomForestClassifier(5, random_state=0)), ("logistic", LogisticRegression())]
ENSEMBLES = {
    "stacking": StackingClassifier(MEMBERS),
    "stacking, refitted": StackingClassifier(MEMBERS, refit=True),
    "voting": VotingClassifier(MEMBERS, voting="soft", weights="nnls"),
    "weighted majority": WeightedMajorityClassifier(MEMBERS),
    "hedge": WeightedMajorityClassifier(MEMBERS, algorithm="hedge"),
    "Bayes-optimal": BayesOptimalClassifier(MEMBERS),
    "cascade": CascadeForestClassifier([("forest", RandomForestClassifier(5))], max_layers=2, random_state=0),
    "conformal": ConformalClassifier(RandomForestClassifier(5, random_state=0), cv=5),
}
pytestmark = pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")


@pytest.fixture
def X(rng):
    return rng.normal(size=(60, 3))


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["ab", "abc"])
@pytest.mark.parametrize("name", ENSEMBLES)
def test_a_class_of_one_row(name, labels, X):
    """The fold that tests this row is trained without its class."""
    y = np.array(list(labels))[np.append(len(labels) - 1, np.arange(59) % (len(labels) - 1))]
    model = ENSEMBLES[name].fit(X, y)
    assert model.classes_.tolist() == list(labels)
    assert set(model.predict(X)) <= set(labels)
    if hasattr(model, "predict_proba"):
        shares = model.predict_proba(X)
        assert np.isfinite(shares).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize("y", [np.append(1, np.zeros(59, int)), np.append(2, np.arange(59) % 2)])
def test_an_absent_class_has_no_probability(y, X):
    model = StackingClassifier(MEMBERS, cv=KFold(3)).fit(X, y)
    for found in model.oof_predictions_.values():
        assert found[0, y[0]] == 0
        assert found[0].sum() == 1


def test_it_can_be_saved_without_pickles(X, tmp_path):
    y = np.append(1, np.zeros(59, int))
    members = [("forest", RandomForestClassifier(5)), ("boosting", GradientBoostingClassifier(n_estimators=3))]
    model = StackingClassifier(members, random_state=0).fit(X, y)
    model.save(tmp_path / "stack.fastens")
    np.testing.assert_array_equal(fastens.load(tmp_path / "stack.fastens").predict_proba(X), model.predict_proba(X))


def test_bags_of_one_class_can_be_saved_without_pickles(X, tmp_path):
    y = np.append(1, np.zeros(59, int))
    model = BaggingClassifier(GradientBoostingClassifier(n_estimators=2, min_samples_leaf=1), 5, random_state=0).fit(
        X, y
    )
    assert any(len(member.classes_) == 1 for member in model.estimators_)
    model.save(tmp_path / "bags.fastens")
    np.testing.assert_array_equal(fastens.load(tmp_path / "bags.fastens").predict_proba(X), model.predict_proba(X))


def test_a_decision_function_cannot_do_with_one_class(X):
    y = np.append(1, np.zeros(59, int))
    message = r"Member 'svc' failed in fold 0: .* two classes.* lack the class 1. Use stratified folds"
    with pytest.raises(ValueError, match=message):
        StackingClassifier([("svc", SVC())]).fit(X, y)


def test_a_member_that_wants_all_classes(X):
    class Strict(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            if self.classes_.tolist() != [0, 1, 2]:
                raise ValueError("classes must be 0, 1 and 2")
            return self

        def predict(self, X):
            return np.zeros(len(X), int)

    y = np.append("c", np.array(["a", "b"])[np.arange(59) % 2])
    message = r"Member 'strict' failed in fold 0: classes must .* lack the class 'c'. Use stratified folds"
    with pytest.raises(ValueError, match=message):
        StackingClassifier([("strict", Strict())]).fit(X, y)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_more_folds_than_rows_of_any_class(name, X):
    message = r"cannot split the rows: .*Set cv to at most 2, the number of rows of the most frequent class, or"
    with pytest.raises(ValueError, match=message):
        ENSEMBLES[name].fit(X[:20], np.arange(20) // 2)
    with pytest.raises(ValueError, match=r"Merge classes, or use KFold"):
        ENSEMBLES[name].fit(X[:20], np.arange(20))


def test_rows_of_one_class_to_train_on_in_the_only_fold(X):
    folds = [(np.arange(1, 60), np.array([0]))]
    with pytest.raises(ValueError, match=r"Member 'estimator' failed in fold 0: .*lack the class 1. Use stratified"):
        ConformalClassifier(LogisticRegression(), cv=folds).fit(X, np.append(1, np.zeros(59, int)))


def test_one_fold(X):
    with pytest.raises(ValueError, match=r"cv=1 cannot split the rows: .*n_splits=1\.$"):
        StackingClassifier(MEMBERS, cv=1).fit(X, np.arange(60) % 2)
