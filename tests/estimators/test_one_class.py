"""Every classifier takes a target of one class, whose probability is 1; the smallest tables are validated on, too."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.svm import LinearSVC

import fastens
from reference.public_estimators import CLASSES, REQUIRED, make, shrink_default_members, table_for

X = np.random.default_rng(0).normal(size=(40, 3))
ONE = np.array(["a"] * 40)
OTHER = {"VersionSpaceClassifier", "BayesianNetwork", "FiniteHypothesisLearner"}  # without a class, or of two
KINDS = [name for name in CLASSES if name not in REQUIRED and name not in OTHER and is_classifier(make(name))]


@pytest.mark.parametrize("name", KINDS)
def test_the_only_class_has_the_probability_1(name, monkeypatch, tmp_path):
    shrink_default_members(monkeypatch, 3)
    model, table = make(name), table_for(name)[0]
    y = ["a"] * len(table)
    model.fit(table, y)
    assert model.predict(table).tolist() == y
    assert model.score(table, y) == 1
    model.save(tmp_path / "model")
    for each in (model, fastens.load(tmp_path / "model")):
        assert each.classes_.tolist() == ["a"]
        if hasattr(each, "predict_proba"):
            np.testing.assert_array_equal(each.predict_proba(table), np.ones((len(y), 1)))
            np.testing.assert_array_equal(each.predict_log_proba(table), np.zeros((len(y), 1)))
        if hasattr(each, "decision_function"):
            assert np.shape(each.decision_function(table)) == (len(y),)
    for staged in ("staged_predict", "staged_predict_proba", "staged_score"):
        if hasattr(model, staged):
            last = list(getattr(model, staged)(*([table, y] if staged == "staged_score" else [table])))[-1]
            assert np.all(last == ("a" if staged == "staged_predict" else 1))
    if "format" in inspect.signature(getattr(model, "export", lambda: None)).parameters:
        with pytest.raises(ValueError, match="cannot represent a target with a single class"):
            model.export(format="sql")


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "exponential"},
        {"loss": "one_vs_rest", "class_weight": "balanced"},
        {"loss": lambda y, raw: (raw - y, np.ones_like(raw))},
        {"boosting": "dart", "linear_leaves": True},
        {"sampling": "goss", "early_stopping": True},
        {"early_stopping": fastens.EarlyStopping(folds=3)},
    ],
    ids=["exponential", "one_vs_rest", "custom", "dart", "goss", "folds"],
)
def test_boosting_of_one_class(parameters):
    model = fastens.GradientBoostingClassifier(n_estimators=4, random_state=0, **parameters).fit(X, ONE)
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((40, 1)))
    assert not model.predict_contributions(X).any()
    if "early_stopping" not in parameters and "boosting" not in parameters:
        assert (model.conformalize(X, ONE).predict_set(X) == [[True]]).all()
        assert model.refit_leaves(X, ONE).predict(X).tolist() == ONE.tolist()


@pytest.mark.parametrize("algorithm", ["discrete", "m1", "real", "gentle", "logit"])
@pytest.mark.parametrize("stops", [False, True])
def test_adaboost_of_one_class(algorithm, stops):
    model = fastens.AdaBoostClassifier(n_estimators=3, algorithm=algorithm, early_stopping=stops).fit(X, ONE)
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((40, 1)))


@pytest.mark.parametrize("member", [LogisticRegression(), LinearSVC(), fastens.DecisionTreeClassifier(max_depth=2)])
def test_members_that_refuse_one_class(member, tmp_path):
    members = [("one", member), ("two", fastens.GaussianNB())]
    models = [
        fastens.AdaBoostClassifier(member, algorithm="m1", n_estimators=2),
        fastens.BaggingClassifier(member, n_estimators=2),
        fastens.StackingClassifier(members),
        fastens.StackingClassifier(members, final_estimator=LogisticRegression()),
        fastens.VotingClassifier(members),
        fastens.MAPClassifier(members, noise=0.1),
    ]
    for model in models:
        assert model.fit(X, ONE).predict(X).tolist() == ONE.tolist()
        model.save(tmp_path / "model", allow_pickle=True)
        assert fastens.load(tmp_path / "model", allow_pickle=True).predict(X).tolist() == ONE.tolist()


@pytest.mark.parametrize("kind", [fastens.GradientBoostingClassifier, fastens.AdaBoostClassifier, fastens.GaussianNB])
def test_one_of_several_targets_may_have_one_class(kind):
    y = np.column_stack([ONE, np.where(X[:, 0] > 0, "u", "v")])
    found = MultiOutputClassifier(kind()).fit(X, y).predict(X)
    assert (found[:, 0] == "a").all()
    assert set(found[:, 1]) == {"u", "v"}
    if kind is fastens.GradientBoostingClassifier:
        model = kind(n_estimators=5).fit(X, y)
        assert (model.predict(X)[:, 0] == "a").all()
        assert [each.shape for each in model.predict_proba(X)] == [(40, 1), (40, 2)]


def test_a_concept_needs_both_classes():
    with pytest.raises(ValueError, match="y must hold at least 2 classes"):
        fastens.VersionSpaceClassifier().fit([[0, 1], [1, 1]], [True, True])


@pytest.mark.parametrize("kind", [fastens.GradientBoostingClassifier, fastens.AdaBoostClassifier])
def test_early_stopping_on_few_rows_and_rare_classes(kind):
    """Each class of two rows or more is on both sides; a single row is trained on."""
    for y in ([0, 0, 1], [0, 1] * 2, np.arange(20) % 3, np.arange(20) % 7, np.repeat([0, 1, 2], [18, 1, 1])):
        model = kind(n_estimators=3, early_stopping=True, random_state=0).fit(X[: len(y)], y)
        assert len(model.evals_result_["validation"]["loss"]) > 0
        assert model.classes_.tolist() == sorted(set(y))
    with pytest.raises(ValueError, match="Use early_stopping=False, or pass X_val and y_val"):
        kind(early_stopping=True).fit(X[:2], [0, 1])


@pytest.mark.parametrize("name", ["BernoulliNB", "CategoricalNB", "GaussianNB", "TANClassifier"])
def test_partial_fit_of_one_class(name):
    X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    model = getattr(fastens, name)().partial_fit(X, [0, 0, 0], classes=[0])
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((3, 1)))
    with pytest.raises(ValueError, match="y must hold the classes seen in fit; it holds 1"):
        model.partial_fit(X, [0, 0, 1])
