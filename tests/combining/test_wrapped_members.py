"""Members that wrap models of scikit-learn: searches, stacks, votes, frozen models and targets transformed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_iris
from sklearn.ensemble import StackingClassifier as OtherStack
from sklearn.ensemble import VotingClassifier as OtherVote
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastens import (
    BaggingClassifier,
    BayesOptimalClassifier,
    CascadeForestClassifier,
    ConformalClassifier,
    DecisionTreeClassifier,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
    WeightedMajorityClassifier,
)
from fastens.combining.responses import MemberError

X, Y = load_iris(return_X_y=True)
X, Y = X[::2], np.array(["setosa", "versicolor", "virginica"])[Y[::2]]
WEIGHT = np.arange(len(Y)) % 3


def ensembles(member):
    named = [("member", member), ("tree", DecisionTreeClassifier(max_depth=2))]
    return [
        VotingClassifier(named),
        VotingClassifier(named, voting="soft"),
        StackingClassifier(named, cv=2),
        WeightedMajorityClassifier(named),
        BayesOptimalClassifier(named, cv=2),
        CascadeForestClassifier(named, max_layers=1, cv=2, random_state=0),
        BaggingClassifier(member, n_estimators=2, random_state=0),
        ConformalClassifier(member, cv=2),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [lambda stack: stack, make_pipeline])
def test_stacks_of_scikit_learn_know_their_methods_once_they_are_fitted(wrap):
    for model in ensembles(wrap(OtherStack([("nb", GaussianNB())], cv=2))):
        assert model.fit(X, Y).score(X, Y) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrap", [lambda frozen: frozen, lambda frozen: make_pipeline("passthrough", frozen), CalibratedClassifierCV]
)
def test_frozen_members_answer_with_their_own_labels(wrap):
    frozen = FrozenEstimator(GaussianNB().fit(X, Y))
    for model in ensembles(wrap(frozen)):
        assert model.fit(X, Y, sample_weight=WEIGHT).score(X, Y) > 0.9
    bag = BaggingClassifier(wrap(frozen), n_estimators=2, random_state=0).fit(X, Y)
    assert np.mean(bag.predict(X) == frozen.predict(X)) > 0.9


def test_frozen_members_do_not_learn_batch_by_batch():
    frozen = FrozenEstimator(GaussianNB().fit(X, Y))
    wanted = frozen.predict_proba(X)
    model = WeightedMajorityClassifier([("frozen", frozen), ("nb", GaussianNB())])
    model.partial_fit(X[::2], Y[::2], classes=np.unique(Y)).partial_fit(X[1::2], Y[1::2])
    assert_array_equal(frozen.predict_proba(X), wanted)
    assert model.named_estimators_["frozen"] is frozen


@pytest.mark.parametrize(
    "member",
    [
        GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9]}, cv=2),
        make_pipeline(StandardScaler(), make_pipeline("passthrough", GaussianNB())),
        GridSearchCV(make_pipeline(StandardScaler(), GaussianNB()), {}, cv=2),
        OtherVote([("nb", GaussianNB())], voting="soft"),
    ],
)
def test_weights_reach_what_a_member_wraps(member):
    model = VotingClassifier([("member", member)], voting="soft").fit(X, Y, sample_weight=WEIGHT)
    alone = GaussianNB().fit(X, Y, sample_weight=WEIGHT)
    assert_allclose(model.predict_proba(X), alone.predict_proba(X), atol=1e-6)


def test_weights_reach_the_regressor_of_a_transformed_target():
    member = TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1)
    model = VotingRegressor([("member", member)]).fit(X[:, :3], X[:, 3], sample_weight=WEIGHT)
    alone = Ridge().fit(X[:, :3], np.log1p(X[:, 3]), sample_weight=WEIGHT)
    assert_allclose(model.predict(X[:, :3]), np.expm1(alone.predict(X[:, :3])))


@pytest.mark.parametrize(
    ("member", "error"),
    [
        (GridSearchCV(KNeighborsClassifier(), {}, cv=2), TypeError),
        (make_pipeline(StandardScaler(), KNeighborsClassifier()), TypeError),
        (OtherVote([("knn", KNeighborsClassifier()), ("line", LogisticRegression())]), MemberError),
    ],
)
def test_wrappers_of_models_without_weights_are_named(member, error):
    with pytest.raises(error, match=r"ember 'wrapped'.*sample.weight"):
        VotingClassifier([("wrapped", member)]).fit(X, Y, sample_weight=WEIGHT)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrap",
    [
        lambda member: member,
        lambda member: make_pipeline(StandardScaler(), member),
        lambda member: GridSearchCV(LogisticRegression(), {"class_weight": [member.class_weight]}, cv=2),
    ],
)
@pytest.mark.parametrize("labels", [Y, np.unique(Y, return_inverse=True)[1] + 1])
def test_class_weights_of_members_are_by_label(wrap, labels):
    """Weights of places would be errors with texts, and those of the next class with 1, 2, 3."""
    weights = {np.unique(labels)[1]: 1e4}
    for model in ensembles(wrap(LogisticRegression(class_weight=weights))):
        model.fit(X, labels)
    member = wrap(LogisticRegression(class_weight=weights))
    assert_array_equal(VotingClassifier([("a", member)]).fit(X, labels).predict(X), member.fit(X, labels).predict(X))
    stack = StackingClassifier([("nb", GaussianNB())], member, cv=2).fit(X, labels)
    assert_array_equal(stack.predict(X), stack.final_estimator_.predict(stack.transform(X)))
    assert stack.predict_proba(X).argmax(axis=1).tolist().count(1) > (labels == np.unique(labels)[1]).sum()


@pytest.mark.parametrize("several", [False, True])
def test_positive_labels_of_scorers_of_members_are_labels(several):
    """With places, all scores of a search are missing."""
    labels = np.where(Y == "setosa", "yes", "no")
    scorer = make_scorer(f1_score, pos_label="yes")
    scorers = {"scoring": {"f1": scorer, "all": "accuracy"}, "refit": "f1"} if several else {"scoring": scorer}
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, error_score="raise", **scorers)
    model = VotingClassifier([("a", search)]).fit(X, labels)
    assert_array_equal(model.predict(X), search.fit(X, labels).predict(X))
