"""What members answer: labels that are unknown, answers of a wrong shape, and what are no probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from fastens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    BayesOptimalClassifier,
    CascadeForestClassifier,
    CascadeForestRegressor,
    ConformalClassifier,
    ConformalRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GibbsClassifier,
    GradientBoostingRegressor,
    MAPClassifier,
    MaximumLikelihoodClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
    WeightedMajorityClassifier,
)
from fastens.combining.responses import MemberError, class_response, label_indices, number_response

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]


class Answers(ClassifierMixin, BaseEstimator):
    """A classifier written by hand that gives the answers it was made with."""

    def __init__(self, answer=None, classes=None):
        self.answer = answer
        self.classes = classes

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        return self

    def predict(self, X):
        return np.resize(np.asarray(self.answer), len(X))


class Shares(Answers):
    """The same with probabilities."""

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X):
        return np.tile(np.asarray(self.answer, dtype=float), (len(X), 1))


class Numbers(RegressorMixin, BaseEstimator):
    """A regressor that gives the answers it was made with."""

    def __init__(self, answer=0.0, n_missing=0):
        self.answer = answer
        self.n_missing = n_missing

    def fit(self, X, y, sample_weight=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.resize(np.asarray(self.answer), len(X) - self.n_missing)


def members(member):
    return [("bayes", GaussianNB()), ("rule", member)]


# By name: an ensemble with a member, and what errors call that member.
VOTES = {
    "voting": lambda member: VotingClassifier(members(member)),
    "stacking": lambda member: StackingClassifier(members(member), stack_method="predict", cv=3),
    "weighted majority": lambda member: WeightedMajorityClassifier(members(member), cv=3),
    "Bayes-optimal": lambda member: BayesOptimalClassifier(members(member), noise=0.1, cv=3),
    "MAP": lambda member: MAPClassifier(members(member), noise=0.1, cv=3),
    "ML": lambda member: MaximumLikelihoodClassifier(members(member), noise=0.1, cv=3),
    "Gibbs": lambda member: GibbsClassifier(members(member), noise=0.1, cv=3, random_state=0),
    "bagging": lambda member: BaggingClassifier(member, 2, voting="hard", oob_score=True, random_state=0),
    "AdaBoost": lambda member: AdaBoostClassifier(member, n_estimators=2),
}
SHARES = {
    "voting": lambda member: VotingClassifier(members(member), voting="soft"),
    "stacking": lambda member: StackingClassifier(members(member), cv=3),
    "hedge": lambda member: WeightedMajorityClassifier(members(member), algorithm="hedge", cv=3),
    "Bayes-optimal": lambda member: BayesOptimalClassifier(members(member), cv=3),
    "MAP": lambda member: MAPClassifier(members(member), cv=3),
    "bagging": lambda member: BaggingClassifier(member, 2, random_state=0),
    "cascade": lambda member: CascadeForestClassifier(members(member), max_layers=1),
    "conformal": lambda member: ConformalClassifier(member, random_state=0),
}
NUMBERS = {
    "voting": lambda member: VotingRegressor([("line", Ridge()), ("rule", member)]),
    "stacking": lambda member: StackingRegressor([("line", Ridge()), ("rule", member)], cv=3),
    "bagging": lambda member: BaggingRegressor(member, 2, random_state=0),
    "cascade": lambda member: CascadeForestRegressor([("line", Ridge()), ("rule", member)], max_layers=1),
    "conformal": lambda member: ConformalRegressor(member, random_state=0),
    "AdaBoost": lambda member: AdaBoostRegressor(member, n_estimators=2, random_state=0),
}
WHO = r"(Member '(rule|estimator|0)'|estimator)"


# Labels --------------------------------------------------


@pytest.mark.parametrize("label", ["maybe", 7, np.nan, None, -1])
@pytest.mark.parametrize("name", VOTES)
def test_a_label_unknown_to_the_ensemble(name, label):
    answer = np.array([label], dtype=object if label is None else None)
    with pytest.raises(ValueError, match=rf"{WHO} must predict labels among .*got '?{label}'?"):
        VOTES[name](Answers(answer)).fit(X, NAMES).predict(X)


@pytest.mark.parametrize("name", SHARES)
def test_columns_of_an_unknown_class(name):
    member = Shares([0.2, 0.3, 0.5], classes=[0, 1, 5])
    with pytest.raises(ValueError, match=rf"{WHO} must predict labels among \[0, 1, 2\].*got 5"):
        SHARES[name](member).fit(X, NAMES).predict(X)


PREFIT = [
    lambda model: VotingClassifier([("rule", model)], prefit=True),
    lambda model: VotingClassifier([("rule", model)], prefit=True, voting="soft"),
    lambda model: WeightedMajorityClassifier([("rule", model)], prefit=True),
    lambda model: BayesOptimalClassifier([("rule", model)], cv="prefit"),
    lambda model: ConformalClassifier(model, cv="prefit"),
    lambda model: StackingClassifier([("rule", model)], cv="prefit"),
]


@pytest.fixture(scope="module")
def of_numbers():
    return LogisticRegression(max_iter=1000).fit(X, Y)


@pytest.fixture(scope="module")
def of_names():
    return LogisticRegression(max_iter=1000).fit(X, NAMES)


@pytest.mark.parametrize("make", PREFIT)
def test_prefit_members_that_know_other_labels(make, of_numbers):
    """Text is no number: labels of the other type are an error, and not one more class."""
    with pytest.raises(ValueError, match=r"(Member '(rule|estimator)' must|the classes seen in fit).*(0|'setosa')"):
        make(of_numbers).fit(X, NAMES)


@pytest.mark.parametrize("make", PREFIT[:5])
def test_prefit_members_that_know_more_classes(make, of_names):
    two = Y < 2
    model = make(of_names).fit(X[two], NAMES[two])
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert np.mean(model.predict(X) == NAMES) > 0.95


def test_a_prefit_stack_cannot_learn_a_class_without_rows(of_names):
    two = Y < 2
    with pytest.raises(ValueError, match=r"Member 'rule' must predict labels among .*got 'virginica'"):
        StackingClassifier([("rule", of_names)], cv="prefit").fit(X[two], NAMES[two])


def test_a_prefit_rule_without_classes_votes():
    class Rule(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.where(X[:, 3] < 0.8, "setosa", np.where(X[:, 3] < 1.7, "versicolor", "virginica"))

        def __sklearn_is_fitted__(self):
            return True

    for model in (
        VotingClassifier([("rule", Rule())], prefit=True),
        BayesOptimalClassifier([("rule", Rule())], noise=0.1, cv="prefit"),
    ):
        np.testing.assert_array_equal(model.fit(X, NAMES).predict(X), Rule().predict(X))
    with pytest.raises(ValueError, match=r"Member 'rule' must have the method predict_proba"):
        VotingClassifier([("rule", Rule())], voting="soft", prefit=True).fit(X, NAMES)
    with pytest.raises(NotFittedError, match="Member '50 % bayes' must be fitted already; this GaussianNB is not"):
        VotingClassifier([("rule", Rule()), ("50 % bayes", GaussianNB())], prefit=True).fit(X, NAMES)


def test_a_final_estimator_that_answers_an_unknown_label():
    model = StackingClassifier([("bayes", GaussianNB())], Answers(["maybe"])).fit(X, NAMES)
    with pytest.raises(ValueError, match=r"final_estimator must predict labels among .*got 'maybe'"):
        model.predict(X)


# Probabilities --------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5, np.nan, 0.5], "finite numbers; got nan"),
        ([0.5, np.inf, 0.5], "finite numbers; got inf"),
        ([0.7, 0.8, -0.5], r"must return non-negative probabilities.*got -0\.5"),
        ([0.9, 0.9, 0.9], r"probabilities that sum to 1; got \[0\.9, 0\.9, 0\.9\]"),
        ([0.0, 0.0, 0.0], "probabilities that sum to 1"),
        ([0.5, 0.5], "must return a column for each of its"),
    ],
)
@pytest.mark.parametrize("name", SHARES)
def test_invalid_probabilities_raise(name, answer, message):
    with pytest.raises(ValueError, match=rf"{WHO} .*{message}"):
        SHARES[name](Shares(answer)).fit(X, NAMES).predict(X)


@pytest.mark.parametrize("name", SHARES)
def test_columns_in_another_order(name):
    """Columns go by the member's classes_, in whatever order, and not by their places."""

    class Reversed(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            super().fit(X, y, sample_weight)
            self.classes_ = self.classes_[::-1]
            return self

        def predict_proba(self, X):
            return super().predict_proba(X)[:, ::-1]

        def predict(self, X):
            return self.classes_[self.predict_proba(X).argmax(axis=1)]

    Reversed.__name__ = "GaussianNB"
    same, other = (SHARES[name](member).fit(X, NAMES) for member in (GaussianNB(), Reversed()))
    np.testing.assert_array_equal(same.predict_proba(X), other.predict_proba(X))


def test_classes_that_a_member_has_not_seen_have_no_probability():
    shares = class_response("Member 'a'", GaussianNB().fit(X[50:], Y[50:]), X, "predict_proba", np.arange(3))
    assert (shares[:, 0] == 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize(("known", "sign"), [([0, 1], 1), ([1, 0], -1)])
def test_a_decision_between_two_of_two_classes(known, sign):
    model = SVC().fit(X[:100], Y[:100])
    found = class_response("a", model, X[:100], "decision_function", np.array(known)[::sign])
    np.testing.assert_array_equal(found[:, 0], model.decision_function(X[:100]))
    model.classes_ = np.array([1, 0])
    np.testing.assert_array_equal(
        class_response("a", model, X[:100], "decision_function", np.arange(2))[:, 0], -model.decision_function(X[:100])
    )


def test_a_decision_between_two_of_three_classes():
    model = SVC().fit(X[50:], Y[50:])
    found, decision = class_response("a", model, X, "decision_function", np.arange(3)), model.decision_function(X)
    np.testing.assert_array_equal(found[:, 1:], np.column_stack([-decision, decision]))
    assert (found[:, 0] == found.min()).all()


def test_columns_of_pairs_of_classes():
    four = np.arange(len(X)) % 4
    with pytest.raises(MemberError, match="must return a column for each of its"):
        class_response(
            "Member 'a'", SVC(decision_function_shape="ovo").fit(X, four), X, "decision_function", np.arange(4)
        )


def test_probabilities_without_classes():
    class Nameless(Shares):
        def fit(self, X, y, sample_weight=None):
            return self

        def __sklearn_is_fitted__(self):
            return True

    with pytest.raises(ValueError, match="must have classes_, the labels of its columns"):
        VotingClassifier(members(Nameless([0.2, 0.3, 0.5])), voting="soft").fit(X, NAMES).predict(X)


def test_labels_in_a_column_are_labels():
    np.testing.assert_array_equal(label_indices("a", Y[:, None], np.arange(3), len(Y)), Y)
    with pytest.raises(MemberError, match=r"one label for each row; got the shape \(149,\) for 150 rows"):
        label_indices("a", Y[1:], np.arange(3), len(Y))


# Numbers --------------------------------------------------


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (Numbers(np.nan), "must return finite numbers.*got nan from its predict"),
        (Numbers(np.inf), "must return finite numbers.*got inf"),
        (Numbers("much"), "must return numbers: could not convert string"),
        (Numbers(n_missing=1), r"must return one number for each row; got the shape \(\d+,\)"),
    ],
)
@pytest.mark.parametrize("name", NUMBERS)
def test_invalid_predictions_raise(name, member, message):
    with pytest.raises(ValueError, match=f"{WHO} {message}"):
        NUMBERS[name](member).fit(X, X[:, 0]).predict(X)


@pytest.mark.parametrize("name", sorted(NUMBERS.keys() - {"conformal"}))
def test_several_numbers_for_a_row(name):
    member = GradientBoostingRegressor(loss="quantile", quantile=[0.1, 0.9], n_estimators=2)
    with pytest.raises(ValueError, match=rf"{WHO} must return one number for each row; got the shape \(\d+, 2\)"):
        NUMBERS[name](member).fit(X, X[:, 0]).predict(X)


def test_several_numbers_where_they_are_wanted():
    member = GradientBoostingRegressor(loss="quantile", quantile=[0.1, 0.9], n_estimators=2).fit(X, X[:, 0])
    assert number_response("a", member, X, None).shape == (150, 2)


# Kinds --------------------------------------------------


class Untagged:
    """Has the methods of an estimator, but is none of scikit-learn's."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def get_params(self, deep=True):
        return {}

    def set_params(self):
        return self


@pytest.mark.parametrize("wrong", [Ridge(), KMeans(), Untagged(), LogisticRegression])
@pytest.mark.parametrize("name", sorted(VOTES.keys() | SHARES.keys()))
def test_a_classifier_is_wanted(name, wrong):
    make = VOTES.get(name) or SHARES[name]
    with pytest.raises(ValueError, match=r"(Member 'rule'|estimator) must be (a classifier|an estimator)"):
        make(wrong).fit(X, NAMES)


@pytest.mark.parametrize("wrong", [LogisticRegression(), KMeans(), Untagged(), Ridge])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_regressor_is_wanted(name, wrong):
    with pytest.raises(ValueError, match=r"(Member 'rule'|estimator) must be (a regressor|an estimator)"):
        NUMBERS[name](wrong).fit(X, X[:, 0])


# Rows to validate on --------------------------------------------------


@pytest.mark.parametrize(
    ("y_val", "message"),
    [
        (["rose"] * 3, "it holds 'rose'"),
        (["setosa"] * 2, "must have the same number of rows; got 3 and 2"),
        ([0, 1, 2], "it holds 0"),
    ],
)
@pytest.mark.parametrize("name", ["voting", "stacking", "Bayes-optimal"])
def test_labels_to_validate_on_match_y(name, y_val, message):
    """Members of other libraries are given places of classes: an unknown label must not get the place of another."""
    with pytest.raises(ValueError, match=f"X_val and y_val must have the same form as X and y: .*{message}"):
        SHARES[name](GaussianNB()).fit(X, NAMES, X_val=X[:3], y_val=y_val)
    with pytest.raises(ValueError, match="X_val and y_val must have the same form as X and y"):
        SHARES[name](GaussianNB()).fit(X, NAMES, X_val=X[:3, :2], y_val=NAMES[:3])


@pytest.mark.parametrize("name", SHARES)
def test_a_missing_label_is_not_a_class_where_rows_are_left_out(name):
    labels, weight = [*NAMES[:-1].tolist(), np.nan], np.arange(len(Y)) > 0
    with pytest.raises(ValueError, match="Input y contains NaN"):
        SHARES[name](GaussianNB()).fit(X, labels, sample_weight=weight)


def test_prefit_members_with_numbers_as_objects():
    rule = Answers([2], classes=np.array([0, 1, 2], dtype=object)).fit(X, Y)
    vote = VotingClassifier([("rule", rule)], prefit=True).fit(X, Y)
    assert vote.classes_.dtype == Y.dtype
    assert (vote.predict(X) == 2).all()


@pytest.mark.parametrize(
    "ensemble", [BaggingClassifier, StackingClassifier, VotingClassifier, WeightedMajorityClassifier]
)
def test_frozen_members_know_labels(ensemble):
    """A member that was fitted beforehand answers with the labels of its fit, not with places among them."""
    X, y = load_iris(return_X_y=True)
    labels = np.array(["setosa", "versicolor", "virginica"])[y]
    frozen = FrozenEstimator(GaussianNB().fit(X, labels))
    model = ensemble(frozen if ensemble is BaggingClassifier else [("nb", frozen)]).fit(X, labels)
    assert model.score(X, labels) > 0.9


@pytest.mark.parametrize("n_members", [3, 5, 9])
@pytest.mark.parametrize("kind", ["stack", "vote", "conformal"])
def test_a_row_alone_is_what_it_is_among_others(kind, n_members):
    trees = [(f"{i}", DecisionTreeRegressor(max_depth=2, splitter="random", random_state=i)) for i in range(n_members)]
    if kind == "stack":
        model = StackingRegressor(trees, cv=3)
    elif kind == "vote":
        model = VotingRegressor(trees)
    else:
        model = ConformalRegressor(trees[0][1], cv=n_members, method="constant")
    model.fit(X, X[:, 0] * Y)
    np.testing.assert_array_equal(np.concatenate([model.predict(X[i : i + 1]) for i in range(150)]), model.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("y", [Y, Y > 0, np.column_stack([Y, Y > 0])], ids=["three", "two", "several targets"])
def test_stacked_classes_of_a_row_alone(y):
    trees = [(f"{i}", DecisionTreeClassifier(max_depth=2, splitter="random", random_state=i)) for i in range(5)]
    model = StackingClassifier(trees, cv=3).fit(X, y)
    alone, among = [model.predict_proba(row) for row in np.split(X, 150)], model.predict_proba(X)
    found = [np.concatenate(own) for own in zip(*alone, strict=True)] if y.ndim > 1 else [np.concatenate(alone)]
    for own, expected in zip(found, among if y.ndim > 1 else [among], strict=True):
        np.testing.assert_array_equal(own, expected)


@pytest.mark.slow
@pytest.mark.parametrize("passthrough", [False, True])
@pytest.mark.parametrize("y", [NAMES, Y > 0, Y.astype(float)], ids=["classes", "two", "numbers"])
def test_stacks_answer_a_row_alone_as_among_others(y, passthrough):
    kind = StackingRegressor if y.dtype == float else StackingClassifier
    inner = GradientBoostingRegressor(n_estimators=3) if y.dtype == float else GaussianNB()
    model = kind([("one", inner), ("two", clone(inner))], passthrough=passthrough).fit(X, y)
    answer = model.predict if y.dtype == float else model.predict_proba
    np.testing.assert_array_equal(np.concatenate([answer(row[None]) for row in X]), answer(X))
