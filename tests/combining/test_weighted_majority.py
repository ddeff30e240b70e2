"""Weighted majority and Hedge: the updates row by row, their bounds, and weights from errors."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import fastens
from fastens import GradientBoostingClassifier, WeightedMajorityClassifier
from fastens.combining import weighted_majority


def members():
    return [
        ("bayes", GaussianNB()),
        ("stump", DecisionTreeClassifier(max_depth=1)),
        ("tree", DecisionTreeClassifier(max_depth=4, random_state=0)),
    ]


@pytest.fixture(scope="module")
def table():
    return make_classification(500, 8, n_informative=5, n_classes=3, random_state=0)


@pytest.fixture(scope="module")
def experts(table):
    X, y = table
    return [(name, member.fit(X[:100], y[:100])) for name, member in members()]


def row_by_row(experts, X, y, algorithm, beta):
    """The algorithms as they are written."""
    weights, mistakes, lost = np.ones(len(experts)), 0.0, np.zeros(len(experts))
    for row, label in zip(X, y, strict=True):
        if algorithm == "hedge":
            says = np.array([member.predict_proba(row[None])[0] for _, member in experts])
        else:
            says = np.array([np.eye(3)[member.predict(row[None])[0]] for _, member in experts])
        losses = 1 - says[:, label]
        if algorithm == "hedge":
            mistakes += weights @ losses / weights.sum()
        else:
            mistakes += np.argmax(weights @ says) != label
        lost += losses
        weights = weights * beta**losses
    return weights / weights.sum(), mistakes, lost


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["weighted_majority", "hedge"])
@pytest.mark.parametrize("beta", [0.5, 0.9])
def test_online_is_the_algorithm_row_by_row(table, experts, algorithm, beta):
    X, y = table
    model = WeightedMajorityClassifier(experts, prefit=True, algorithm=algorithm, beta=beta)
    for start in (100, 250, 400):
        model.partial_fit(X[start : start + 150], y[start : start + 150], classes=[0, 1, 2])
    weights, mistakes, lost = row_by_row(experts, X[100:], y[100:], algorithm, beta)
    np.testing.assert_allclose(model.weights_, weights, rtol=1e-9)
    np.testing.assert_allclose(model.member_mistakes_, lost)
    assert model.n_mistakes_ == pytest.approx(mistakes)
    assert model.n_seen_ == 400
    assert model.n_mistakes_ <= model.mistake_bound()


class OfColumn(ClassifierMixin, BaseEstimator):
    """Says what a column says."""

    def __init__(self, number=0):
        self.number = number

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict(self, X):
        return self.classes_[X[:, self.number].astype(int)]


@pytest.mark.parametrize("seed", [13, 19])
def test_ties_go_to_the_first_class(seed):
    """With weights that are powers of 1/2 ties are frequent, and rounding must not decide them."""
    rng = np.random.default_rng(seed)
    X, y, cases = rng.integers(0, 2, (60, 6)), rng.integers(0, 2, 60), np.array(list(np.ndindex(*[2] * 6)))
    says = [(f"column {number}", OfColumn(number).fit(X, y)) for number in range(6)]
    model = WeightedMajorityClassifier(says, prefit=True).partial_fit(X, y)
    single = WeightedMajorityClassifier(says, prefit=True)
    lost, mistakes = np.zeros(6, dtype=int), 0
    for row, label in zip(X, y, strict=True):
        single.partial_fit(row[None], [label], classes=[0, 1])
        mistakes += exact_majority(row, lost) != label
        lost += row != label
    assert model.n_mistakes_ == single.n_mistakes_ == mistakes
    assert model.predict(cases).tolist() == [exact_majority(row, lost) for row in cases]


def exact_majority(row, lost):
    """The class of more weight, that of a member being a power of 1/2, in whole numbers."""
    weights = [1 << int(lost.max() - each) for each in lost]
    return int(2 * sum(weight for weight, vote in zip(weights, row, strict=True) if vote) > sum(weights))


def test_bounds_match_the_papers(table, experts):
    X, y = table
    model = WeightedMajorityClassifier(experts, prefit=True, beta=0.5).partial_fit(X[100:], y[100:])
    best = model.member_mistakes_.min()
    assert model.mistake_bound() == pytest.approx((math.log(3) + best * math.log(2)) / math.log(2 / 1.5))
    hedge = WeightedMajorityClassifier(experts, prefit=True, algorithm="hedge").partial_fit(X[100:], y[100:])
    best = hedge.member_mistakes_.min()
    assert hedge.mistake_bound() == pytest.approx((math.log(3) + best * math.log(2)) / 0.5)


class Fixed(GaussianNB):
    """Votes by a column of X: an adversary chooses what experts say."""

    def __init__(self, column=0):
        super().__init__()
        self.column = column

    def predict(self, X):
        return X[:, self.column].astype(int)


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_holds_against_an_adversary(seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 300)
    X = np.where(rng.random((300, 6)) < np.linspace(0.2, 0.7, 6), y[:, None], rng.integers(0, 3, (300, 6))).astype(
        float
    )
    experts = [(f"e{column}", Fixed(column).fit(X, y)) for column in range(6)]
    for beta in (0.1, 0.5, 0.9):
        model = WeightedMajorityClassifier(experts, prefit=True, beta=beta).partial_fit(X, y)
        assert model.member_mistakes_.min() <= model.n_mistakes_ + 300
        assert model.n_mistakes_ <= model.mistake_bound()


@pytest.mark.parametrize("weighting", ["errors", "covariance"])
def test_the_bound_counts_the_weights_of_fit(weighting):
    """The member that `fit` found worse is right from then on: its low weight costs mistakes."""
    y = np.tile([0, 1], 100)
    X = np.column_stack([y, np.where(np.arange(200) < 80, 1 - y, y)]).astype(float)
    rules = [("good", Fixed(0)), ("bad", Fixed(1))]
    model = WeightedMajorityClassifier(rules, weighting=weighting, cv=3).fit(X, y)
    started = model.weights_
    model.partial_fit(np.column_stack([1 - y, y]).astype(float), y)
    assert math.log(2) / math.log(2 / 1.5) < model.n_mistakes_ <= model.mistake_bound()
    assert model.mistake_bound() == pytest.approx(-math.log(started[1]) / math.log(2 / 1.5))


@pytest.mark.parametrize("algorithm", ["weighted_majority", "hedge"])
def test_the_bound_holds_for_rows_of_large_weights(algorithm, tmp_path):
    X, y = np.array([[0, 1], [1, 0]]), np.array([0, 1])
    experts = [(f"column {number}", OfColumn(number).fit(X, y)) for number in range(2)]
    model = WeightedMajorityClassifier(experts, prefit=True, algorithm=algorithm)
    model.partial_fit(X[:1], [1], classes=[0, 1], sample_weight=[10.5])
    assert 0.9 * model.mistake_bound() < model.n_mistakes_ * (2 if algorithm == "hedge" else 1)
    assert model.n_mistakes_ <= model.mistake_bound()
    model.save(tmp_path / "model", allow_pickle=True)
    assert fastens.load(tmp_path / "model", allow_pickle=True).mistake_bound() == model.mistake_bound()


@pytest.mark.parametrize("algorithm", ["weighted_majority", "hedge"])
def test_the_bound_holds_for_weights_from_errors(algorithm):
    """The best member of the stream had no weight at its start."""
    X, y = np.array([[0, 1], [1, 0]] * 3), np.array([0, 1] * 3)
    experts = [(f"column {number}", OfColumn(number).fit(X, y)) for number in range(2)]
    model = WeightedMajorityClassifier(experts, prefit=True, algorithm=algorithm, weighting="errors").fit(X, y)
    model.partial_fit(X, 1 - y)
    assert model.n_mistakes_ == 6
    assert model.mistake_bound() >= 6


def test_integer_weights_count_as_copies(table, experts):
    X, y = table
    weight = np.random.default_rng(0).integers(0, 4, 200)
    rows = np.repeat(np.arange(100, 300), weight)
    weighted = WeightedMajorityClassifier(experts, prefit=True).partial_fit(
        X[100:300], y[100:300], classes=[0, 1, 2], sample_weight=weight
    )
    copied = WeightedMajorityClassifier(experts, prefit=True).partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    assert weighted.n_mistakes_ == copied.n_mistakes_
    np.testing.assert_allclose(weighted.weights_, copied.weights_)


def test_members_that_learn_get_the_weights(table):
    X, y = table
    weight = np.arange(300) % 3
    rows = np.repeat(np.arange(300), weight)
    learners = [("bayes", GaussianNB()), ("line", SGDClassifier(random_state=0, shuffle=False))]

    def taught(weight, *batches):
        model = WeightedMajorityClassifier(learners)
        for batch in batches:
            given = None if weight is None else weight[batch]
            model.partial_fit(X[batch], y[batch], classes=[0, 1, 2], sample_weight=given)
        return model

    weighted = taught(weight, np.arange(100), np.arange(100, 300))
    copied = taught(None, rows[rows < 100], rows[rows >= 100])
    for name in ("theta_", "class_count_"):
        one, other = (getattr(model.named_estimators_["bayes"], name) for model in (weighted, copied))
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(weighted.named_estimators_["line"].coef_, copied.named_estimators_["line"].coef_)
    shared = taught(weight / 4, np.arange(100), np.arange(100, 300)).named_estimators_["bayes"]
    np.testing.assert_allclose(shared.class_count_ * 4, weighted.named_estimators_["bayes"].class_count_)


class Unweighted(GaussianNB):
    def partial_fit(self, X, y, classes=None):
        return super().partial_fit(X, y, classes)


def test_a_batch_that_fails_leaves_the_model(table):
    X, y = table
    model = WeightedMajorityClassifier([("bayes", GaussianNB()), ("copies", Unweighted())])
    model.partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    weights, mistakes, counts = model.weights_, model.n_mistakes_, model.estimators_[0].class_count_.copy()
    with pytest.raises(ValueError, match="sample_weight must hold integers with member"):
        model.partial_fit(X[100:300], y[100:300], sample_weight=np.linspace(0, 1, 200))
    assert (model.n_mistakes_, model.n_seen_) == (mistakes, 0)
    np.testing.assert_array_equal(model.weights_, weights)
    np.testing.assert_array_equal(model.estimators_[0].class_count_, counts)


@pytest.mark.parametrize("algorithm", ["weighted_majority", "hedge"])
def test_many_copies_are_gone_through_in_parts(table, experts, algorithm, monkeypatch):
    X, y = table
    weight = np.arange(400.0) % 4

    def updated():
        model = WeightedMajorityClassifier(experts, prefit=True, algorithm=algorithm, beta=0.9)
        return model.partial_fit(X[100:], y[100:], sample_weight=weight)

    whole = updated()
    monkeypatch.setattr(weighted_majority, "_ROWS_AT_ONCE", 7)
    parts = updated()
    np.testing.assert_allclose(parts.weights_, whole.weights_, rtol=1e-12)
    np.testing.assert_allclose(parts.member_mistakes_, whole.member_mistakes_)
    assert (parts.n_mistakes_, parts.n_seen_) == (pytest.approx(whole.n_mistakes_), whole.n_seen_)


def test_the_first_batch_trains_and_online_members_go_on_learning(table):
    X, y = table
    model = WeightedMajorityClassifier([("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(random_state=0))])
    model.partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert model.n_seen_ == 0
    model.partial_fit(X[100:300], y[100:300])
    assert model.n_seen_ == 200
    online = GaussianNB().fit(X[:300], y[:300])
    np.testing.assert_allclose(model.named_estimators_["bayes"].theta_, online.theta_)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:100], y[:100])
    np.testing.assert_array_equal(model.named_estimators_["tree"].predict(X), tree.predict(X))
    with pytest.raises(ValueError, match="classes must be the same as in the first call"):
        model.partial_fit(X, y, classes=[0, 1])


def test_fit_weighs_by_out_of_fold_errors(table):
    X, y = table
    model = WeightedMajorityClassifier(
        [*members(), ("heart", DecisionTreeClassifier(random_state=0))], weighting="errors"
    )
    model.fit(X, y)
    # A tree that knows its training rows by heart is judged by others.
    assert model.weights_[3] < 0.6
    assert model.weights_.argmin() == 1
    assert model.score(X, y) > 0.7


@pytest.mark.slow
def test_covariance_halves_the_weight_of_twins(table):
    X, y = table
    twins = [("a", GaussianNB()), ("b", GaussianNB()), ("c", LogisticRegression())]
    model = WeightedMajorityClassifier(twins, weighting="covariance", shrinkage=0.01).fit(X, y)
    errors = WeightedMajorityClassifier(twins, weighting="errors").fit(X, y)
    assert model.weights_[:2].sum() < errors.weights_[:2].sum()
    assert model.weights_[0] == pytest.approx(model.weights_[1])


@pytest.mark.parametrize("weighting", ["errors", "covariance"])
def test_weights_that_sum_to_1_weigh_members_by_their_errors_too(table, experts, weighting, rng):
    """Half a row that a member may have got wrong is a row of the mean weight, not one of weight 1."""
    X, y = table
    model = WeightedMajorityClassifier(experts, prefit=True, weighting=weighting)
    weight = rng.random(len(y))
    found = [model.fit(X, y, sample_weight=weight * scale).weights_ for scale in (0.5, 2 / len(y), 2.0**-40)]
    assert np.ptp(found[0]) > 0.05
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-6)


def test_votes_are_shares(table, experts):
    X, y = table
    model = WeightedMajorityClassifier(experts, prefit=True).partial_fit(X[100:], y[100:])
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    votes = np.array([member.predict(X) for _, member in experts])
    np.testing.assert_allclose(shares[:, 1], model.weights_ @ (votes == 1))


def test_file_and_pickle(table, tmp_path):
    X, y = table
    boosters = [(name, GradientBoostingClassifier(n_estimators=n)) for name, n in (("a", 2), ("b", 4))]
    model = WeightedMajorityClassifier(boosters, algorithm="hedge", cv=3).fit(X[:300], y[:300])
    model.save(tmp_path / "model")
    for same in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
        same.partial_fit(X[300:], y[300:])
    assert same.mistake_bound() == model.partial_fit(X[300:], y[300:]).mistake_bound()


def test_more_rows_are_weighed_as_the_first(table, experts):
    X, y = table
    model, same = (WeightedMajorityClassifier(experts, prefit=True).partial_fit(X[:200], y[:200]) for _ in range(2))
    model.set_params(beta=0.9, algorithm="hedge", prefit=False).partial_fit(X[200:], y[200:])
    same.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(model.weights_, same.weights_)
    assert (model.n_mistakes_, model.mistake_bound()) == (same.n_mistakes_, same.mistake_bound())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": 1.0}, "beta must be a number greater than 0 and less than 1"),
        ({"algorithm": "halving"}, "algorithm must be"),
        ({"weighting": "best"}, "weighting must be"),
    ],
)
def test_bad_input_is_named(table, parameters, message):
    with pytest.raises(ValueError, match=message):
        WeightedMajorityClassifier(members(), **parameters).fit(*table)


def test_labels_of_the_first_batch():
    X, y = np.arange(8.0)[:, None], np.arange(8) % 2
    model = WeightedMajorityClassifier([("bayes", GaussianNB())])
    for classes, message in (
        ([], "at least 1 class"),
        ({0: 1}, "be a list of labels"),
        ([0, "a"], "holds int, str"),
    ):
        with pytest.raises(ValueError, match=f"classes must .*{message}"):
            model.partial_fit(X, y, classes=classes)
    model.partial_fit(X, y)
    with pytest.raises(ValueError, match="WeightedMajorityClassifier requires y to be passed"):
        model.partial_fit(X, None)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        WeightedMajorityClassifier([("bayes", GaussianNB())]).partial_fit(X, ["a", "b"] * 4).partial_fit(
            X, ["a"] * 7 + [np.nan]
        )
