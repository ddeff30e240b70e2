"""Voting: votes, averages, weights given and learned."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestClassifier as PeerForest
from sklearn.ensemble import VotingClassifier as PeerVoting
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupKFold, PredefinedSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRegressor, VotingClassifier, VotingRegressor
from fastens.combining.folds import MemberData, content_folds
from fastens.combining.member_weights import OutOfFold, learn_weights, margin_weights
from fastens.engine.threads import resolve_n_jobs


def members():
    return [
        ("boosting", GradientBoostingClassifier(n_estimators=5)),
        ("bayes", GaussianNB()),
        ("tree", DecisionTreeClassifier(max_depth=3, random_state=0)),
    ]


@pytest.fixture(scope="module")
def table():
    return make_classification(300, 8, n_informative=5, n_classes=3, random_state=0)


@pytest.mark.parametrize("weights", [None, [2.0, 1.0, 0.5]])
@pytest.mark.parametrize("voting", ["hard", "soft"])
def test_same_as_scikit_learn(table, voting, weights):
    X, y = table
    model = VotingClassifier(members(), voting=voting, weights=weights).fit(X, y)
    peer = PeerVoting(members(), voting=voting, weights=weights).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))
    np.testing.assert_allclose(model.transform(X), peer.transform(X))
    assert model.get_feature_names_out().tolist() == peer.get_feature_names_out().tolist()
    if voting == "soft":
        np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X))
    else:
        assert not hasattr(model, "predict_proba")


class Says(GaussianNB):
    """Says the same of every row."""

    def __init__(self, label=None):
        super().__init__()
        self.label = label

    def predict(self, X):
        return np.full(len(X), self.label)


def test_ties_are_broken_by_class_order():
    X, y = np.zeros((6, 1)) + np.arange(6)[:, None], np.array([0, 1, 2, 0, 1, 2])
    tied = VotingClassifier([("a", Says(2)), ("b", Says(1)), ("c", Says(2)), ("d", Says(1))]).fit(X, y)
    assert (tied.predict(X) == 1).all()
    tied.set_params(class_weights={2: 1.5}).fit(X, y)
    assert (tied.predict(X) == 2).all()
    tied.set_params(class_weights=None, weights=[[0, 0, 1], [0, 2.5, 0], [1, 1, 1], [0.1, 0, 0]]).fit(X, y)
    assert (tied.predict(X) == 1).all()


def test_ties_of_fractional_weights():
    """0.1 + 0.2 is as much as 0.3, whatever rounding makes of the sum."""
    X, y = np.arange(4.0)[:, None], [0, 1, 0, 1]
    tied = VotingClassifier([("a", Says(1)), ("b", Says(1)), ("c", Says(0))], weights=[0.1, 0.2, 0.3]).fit(X, y)
    assert (tied.predict(X) == 0).all()


def test_weights_by_class_are_the_notes_formula(table):
    X, y = table
    by_class = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, 3.0], [1.0, 1.0, 1.0]])
    w_c = [1.0, 0.5, 2.0]
    model = VotingClassifier(members(), voting="soft", weights=by_class, class_weights=w_c).fit(X, y)
    shares = np.stack([member.predict_proba(X) for member in model.estimators_])
    expected = (by_class[:, None, :] * shares).sum(axis=0) * w_c
    np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))
    np.testing.assert_allclose(model.predict_proba(X), expected / expected.sum(axis=1, keepdims=True))


def test_prefit_members_are_not_fitted_again(table):
    X, y = table
    fitted = [(name, member.fit(X[:200], y[:200])) for name, member in members()]
    model = VotingClassifier(fitted, voting="soft", prefit=True).fit(X[200:], y[200:])
    assert [a is b for a, (_, b) in zip(model.estimators_, fitted, strict=True)] == [True] * 3
    np.testing.assert_allclose(model.predict_proba(X), np.mean([m.predict_proba(X) for _, m in fitted], axis=0))
    two = VotingClassifier(fitted, voting="soft", prefit=True).fit(X[y < 2], y[y < 2])
    assert two.classes_.tolist() == [0, 1, 2]
    with pytest.raises(NotFittedError):
        VotingClassifier(members(), prefit=True).fit(X, y)


class Watch(GaussianNB):
    """Notes in which thread it is fitted, and how many threads it may use."""

    seen: list = []

    def fit(self, X, y, sample_weight=None):
        Watch.seen.append((threading.get_ident(), resolve_n_jobs(None)))
        threading.Event().wait(0.05)
        return super().fit(X, y, sample_weight)


def test_one_level_of_threads(table):
    X, y = table
    Watch.seen = []
    VotingClassifier([(f"m{i}", Watch()) for i in range(4)], n_jobs=2).fit(X, y)
    assert len({thread for thread, _ in Watch.seen}) == 2
    assert {n_threads for _, n_threads in Watch.seen} == {1}


def test_members_see_their_columns(table):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = VotingClassifier(members(), columns={"bayes": ["b", "a"], "tree": [True] * 4 + [False] * 4}).fit(frame, y)
    assert model.named_estimators_["bayes"].feature_names_in_.tolist() == ["b", "a"]
    assert model.named_estimators_["tree"].n_features_in_ == 4


def test_spread_and_member_range():
    X, y = make_regression(100, 4, noise=10, random_state=0)
    lines = [("a", LinearRegression()), ("b", DecisionTreeRegressor(max_depth=2)), ("c", DecisionTreeRegressor())]
    model = VotingRegressor(lines, weights=[1, 2, 1]).fit(X, y)
    said = np.stack([member.predict(X) for member in model.estimators_])
    np.testing.assert_allclose(model.predict(X), np.average(said, axis=0, weights=[1, 2, 1]))
    spread = np.sqrt(np.average((said - model.predict(X)) ** 2, axis=0, weights=[1, 2, 1]))
    np.testing.assert_allclose(model.predict_std(X), spread)
    whole = model.predict_member_range(X, share=1.0)
    np.testing.assert_array_equal(whole, np.stack([said.min(axis=0), said.max(axis=0)], axis=1))
    inner = model.predict_member_range(X, share=0.4)
    np.testing.assert_array_equal(inner, np.sort(said[[0, 1, 1, 2]], axis=0)[[1, 2]].T)
    assert (inner[:, 0] >= whole[:, 0]).all()
    assert (inner[:, 1] <= whole[:, 1]).all()
    for share in (2, "0.9", True):
        with pytest.raises(ValueError, match=rf"share must be .*got {share!r}"):
            model.predict_member_range(X, share=share)


def test_members_promise_no_coverage():
    """Members that agree on a wrong answer have a narrow range, which is not called an interval."""
    X, y = make_regression(100, 4, noise=10, random_state=0)
    lines = [(name, LinearRegression()) for name in "ab"]
    model = VotingRegressor(lines).fit(X, y)
    low, high = model.predict_member_range(X, share=0.9).T
    assert ((low <= y) & (y <= high)).mean() < 0.1
    with pytest.raises(AttributeError, match=r"Use predict_member_range\(X, share\), or ConformalRegressor"):
        model.predict_interval(X)
    with pytest.raises(AttributeError, match=r"Use the conformal estimators: ConformalRegressor"):
        fastens.BaggingRegressor().predict_interval(X)


def test_a_range_leaves_out_as_many_members_on_both_sides():
    X, y = np.zeros((3, 1)), np.arange(3.0)
    says = [(f"m{value}", DummyRegressor(strategy="constant", constant=value)) for value in range(10)]
    model = VotingRegressor(says).fit(X, y)
    assert model.predict_member_range(X[:1], 0.8).tolist() == [[1, 8]]  # (1 - 0.8) / 2 is a little less than 0.1
    assert model.predict_member_range(X[:1], 0.6).tolist() == [[2, 7]]


# Learned weights --------------------------------------------------


@pytest.fixture
def judged(rng):
    target = rng.normal(size=(200, 1)) + 5
    responses = np.stack([target + rng.normal(scale=s, size=(200, 1)) + b for s, b in ((0.5, 0), (1, 0.1), (2, 0))])
    return OutOfFold(responses, target, rng.uniform(0.5, 2, 200), False)


def shares_of(rng, n_rows=300):
    y = rng.integers(0, 3, n_rows)
    target = np.eye(3)[y]
    shares = []
    for skill in (3.0, 1.5, 0.0):
        raw = np.exp(rng.normal(size=(n_rows, 3)) + skill * target)
        shares.append(raw / raw.sum(axis=1, keepdims=True))
    return OutOfFold(np.stack(shares), target, np.ones(n_rows), True)


def best_on_simplex(loss, n):
    constraint = {"type": "eq", "fun": lambda w: w.sum() - 1}
    return minimize(loss, np.full(n, 1 / n), bounds=[(0, 1)] * n, constraints=constraint, tol=1e-12).x


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_nnls_weights_are_the_best_average(judged, rng, kind):
    judged = judged if kind == "numbers" else shares_of(rng)

    def loss(w):
        error = np.tensordot(w, judged.responses, 1) - judged.target
        return (judged.weight[:, None] * error**2).sum() / judged.weight.sum()

    found = learn_weights("nnls", judged)
    assert loss(found) <= loss(best_on_simplex(loss, 3)) + 1e-9
    assert found.sum() == pytest.approx(1)


def test_likelihood_weights_are_the_most_likely_mixture(rng):
    judged = shares_of(rng)
    density = (judged.responses * judged.target).sum(axis=2)
    found = learn_weights("likelihood", judged)
    loss = lambda w: -np.log(w @ density).mean()  # noqa: E731
    assert loss(found) <= loss(best_on_simplex(loss, 3)) + 1e-7
    assert learn_weights("likelihood", OutOfFold(*judged[:2], judged.weight * 3, True)) == pytest.approx(found)


def test_likelihood_weights_of_numbers_favour_the_better(judged):
    found = learn_weights("likelihood", judged)
    assert found[0] > found[1] > found[2]


def test_selection_is_greedy_with_replacement(rng):
    judged = shares_of(rng)
    found = learn_weights("selection", judged)

    def loss(average):
        return -np.log((average * judged.target).sum(axis=1)).mean()

    counts, best = np.zeros(3), (np.inf, None)
    for _ in range(50):
        tried = [loss(np.tensordot(counts + one, judged.responses, 1) / (counts.sum() + 1)) for one in np.eye(3)]
        counts = counts + np.eye(3)[int(np.argmin(tried))]
        best = min(best, (min(tried), tuple(counts)))
    np.testing.assert_allclose(found, np.array(best[1]) / sum(best[1]))


def guarded(judged):
    """The weights by the formula of positive-part James-Stein, with rows repeated."""
    greedy, rows = learn_weights("selection", judged), judged.weight.astype(int)
    row_losses = lambda average: -np.log(np.repeat((average * judged.target).sum(axis=1), rows))  # noqa: E731
    gains = row_losses(judged.responses[0]) - row_losses(np.tensordot(greedy, judged.responses, 1))
    z = gains.mean() / max(gains.std() / np.sqrt(len(gains)), 1e-300)
    factor = max(0, 1 - 1 / z**2) if z > 0 else 0
    return factor * greedy + (1 - factor) * np.eye(len(greedy))[0], factor


@pytest.mark.parametrize("n_rows", [20, 60, 300])
def test_guarded_selection_shrinks_towards_the_first_member(rng, n_rows):
    judged = shares_of(rng)
    first = slice(n_rows)
    few = OutOfFold(judged.responses[:, first], judged.target[first], rng.integers(1, 4, n_rows) * 1.0, True)
    expected, factor = guarded(few)
    assert 0 <= factor < 1
    np.testing.assert_allclose(learn_weights("guarded_selection", few), expected)
    same = OutOfFold(np.stack([few.responses[0]] * 3), *few[1:])
    np.testing.assert_array_equal(learn_weights("guarded_selection", same), [1, 0, 0])


@pytest.mark.parametrize("weights", ["nnls", "likelihood", "selection", "guarded_selection"])
def test_learned_weights_leave_noise_out(weights):
    X, y = make_regression(300, 6, noise=10.0, random_state=0)
    noise = DecisionTreeRegressor(max_features=1, splitter="random", random_state=0)
    members = [("line", LinearRegression()), ("noise", noise), ("boosting", GradientBoostingRegressor(n_estimators=20))]
    model = VotingRegressor(members, weights=weights).fit(X[::2], y[::2])
    assert model.weights_[0] > 0.8
    equal = VotingRegressor(members).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > equal.score(X[1::2], y[1::2])


def test_margin_weights_go_down_for_correlated_voters(rng):
    right = np.where(rng.random((4, 4000)) < 0.7, 1.0, -1.0)
    right[1] = right[0]  # says what the first says
    right[3] = np.where(rng.random(4000) < 0.9, 1.0, -1.0)
    found = margin_weights(right, np.ones(4000), 0.0)
    assert found[0] + found[1] == pytest.approx(found[2], rel=0.15)
    assert found[3] > 2 * found[2]


# Input --------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weights": [1, 2]}, r"weights must have the shape \(3,\)"),
        ({"weights": [1, -1, 1]}, "weights must be finite, non-negative and not all zero"),
        ({"weights": "best"}, "weights must be one of 'nnls'"),
        ({"weights": {"forest": 1}}, "weights must name members; got 'forest'"),
        ({"class_weights": {"x": 1}}, "class_weights must name classes of y; got 'x'"),
        ({"class_weights": [1, 1]}, "finite, non-negative numbers that are not all zero"),
        ({"class_weights": ["x", 1, 1]}, r"finite, non-negative numbers that are not all zero.*got \['x', 1, 1\]"),
        ({"class_weights": [1, None, 1]}, "finite, non-negative numbers that are not all zero"),
        ({"class_weights": [[1], [1], [1]]}, "finite, non-negative numbers that are not all zero"),
        ({"class_weights": [1, float("nan"), 1]}, "finite, non-negative numbers that are not all zero"),
        ({"class_weights": [0, 0, 0]}, "finite, non-negative numbers that are not all zero"),
        ({"class_weights": {0: "x"}}, r"finite, non-negative numbers that are not all zero.*got \['x', 1\.0, 1\.0\]"),
        ({"class_weights": "abc"}, "finite, non-negative numbers that are not all zero.*got 'abc'"),
        ({"class_weights": 2.0}, r"finite, non-negative numbers that are not all zero.*got 2\.0"),
        ({"weights": ["x", 1, 1]}, r"weights must be numbers; got \['x', 1, 1\]"),
        ({"voting": "loud"}, "voting must be 'hard' or 'soft'"),
    ],
)
def test_bad_input_is_named(table, parameters, message):
    with pytest.raises(ValueError, match=message):
        VotingClassifier(members(), **parameters).fit(*table)


def test_weights_by_name_and_dropped_members(table):
    X, y = table
    model = VotingClassifier(members(), weights={"bayes": 0.0}, voting="soft").fit(X, y)
    assert model.weights_.tolist() == [1, 0, 1]
    model.set_params(weights=[1, 2, 3], bayes="drop").fit(X, y)
    assert model.weights_.tolist() == [1, 3]
    model.set_params(weights={"bayes": 2.0, "boosting": 4.0}, columns={"bayes": [0], "boosting": [0]}).fit(X, y)
    assert model.weights_.tolist() == [4, 1]
    assert model.named_estimators_["boosting"].n_features_in_ == 1


def test_file_and_pickle(table, tmp_path):
    X, y = table
    boosters = [(name, GradientBoostingClassifier(n_estimators=n)) for name, n in (("a", 3), ("b", 6))]
    model = VotingClassifier(boosters, voting="soft", weights="likelihood", class_weights=[1, 2, 1]).fit(X, y)
    model.save(tmp_path / "model")
    for same in (fastens.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(same.predict_proba(X), model.predict_proba(X))
    with pytest.raises(TypeError, match="Member 'bayes'"):
        VotingClassifier(members()).fit(X, y).save(tmp_path / "other")


def test_logistic_members_and_weights_of_rows(table):
    X, y = table
    weight = np.where(np.arange(len(y)) < 150, 1.0, 0.0)
    model = VotingClassifier([("a", LogisticRegression())], voting="soft").fit(X, y, sample_weight=weight)
    alone = LogisticRegression().fit(X[:150], y[:150])
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize("groups", [np.arange(9), np.arange(300), np.zeros((150, 1)), "person"])
@pytest.mark.parametrize("weight", [None, np.arange(150) % 2])
def test_groups_are_one_for_each_row(table, groups, weight):
    X, y = (part[:150] for part in table)
    model = VotingClassifier([("tree", DecisionTreeClassifier())], weights="nnls", cv=GroupKFold(2))
    with pytest.raises(ValueError, match=r"groups must have one label for each of the.*got shape"):
        model.fit(X, y, weight, groups=groups)


@pytest.mark.parametrize("weights", [None, [1.0], "nnls"])
@pytest.mark.parametrize("cv", [object(), 2.5, "five"])
def test_invalid_cv_raises(table, weights, cv):
    model = VotingClassifier([("tree", DecisionTreeClassifier())], weights=weights, cv=cv)
    with pytest.raises(ValueError, match="cv must be a number of folds, 'content', a splitter or a list of"):
        model.fit(*table)


def test_predefined_folds_count_the_rows_that_were_given(table):
    X, y = table
    folds, weight = np.arange(len(y)) % 3, np.arange(len(y)) % 5 > 0
    model = VotingClassifier(members(), voting="soft", weights="nnls", cv=PredefinedSplit(folds))
    given = model.fit(X, y, sample_weight=weight).weights_
    kept = model.set_params(cv=PredefinedSplit(folds[weight])).fit(X[weight], y[weight]).weights_
    np.testing.assert_array_equal(given, kept)


def test_members_are_asked_for_their_tags_a_few_times_each(table):
    asked = 0

    class Asked(GaussianNB):
        def __sklearn_tags__(self):
            nonlocal asked
            asked += 1
            return super().__sklearn_tags__()

    n = 30
    VotingClassifier([(f"m{k}", Asked()) for k in range(n)]).fit(*table)
    assert asked < 15 * n


# The ensemble of with_quality("best") --------------------------------------------------


@pytest.mark.slow
def test_the_best_ensemble(tmp_path):
    X, y = make_regression(150, 4, noise=20.0, random_state=0)
    model = GradientBoostingRegressor.with_quality("best", max_bins=63, random_state=0, n_jobs=1)
    assert [member.max_bins for _, member in model.estimators] == [63] * 5
    model.fit(X, y)
    assert isinstance(model, VotingRegressor)
    assert [type(one) for one in model.estimators_] == [type(one) for _, one in model.estimators]
    assert model.weights_.sum() == pytest.approx(1)
    model.save(tmp_path / "best.fastens")
    again = fastens.load(tmp_path / "best.fastens")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.losses_, model.losses_)
    explained = model.explain(X[:5])
    np.testing.assert_allclose(explained.values.sum(axis=1) + explained.base_values, model.predict(X[:5]), rtol=1e-5)
    order = np.random.default_rng(0).permutation(150)
    np.testing.assert_allclose(clone(model).fit(X[order], y[order]).predict(X), model.predict(X), rtol=1e-9)


@pytest.mark.slow
def test_the_best_ensemble_is_not_worse_than_the_defaults_out_of_fold(table):
    X, y = table
    model = GradientBoostingClassifier.with_quality("best", random_state=0, n_jobs=1)
    assert (model.voting, model.refit) == ("soft", True)
    model.set_params(refit=False).fit(X, y)
    found = np.zeros((len(y), 3))
    data = MemberData(X, y.astype(float), model.classes_, None)
    for number, (_, test) in enumerate(content_folds(data, 5)):
        parts = [models[number].predict_proba(X[test]) for models in model.estimators_]
        found[test] = np.tensordot(model.weights_, parts, 1)
    loss = -np.log(found[np.arange(len(y)), y]).mean()
    assert loss <= model.losses_[0] + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "n_folds", "n_refits"),
    [(40, [4] * 5, 5), (14, [4] * 3, 1), (10.5, [4, 4], 1), (5.9, [4], 1), (5, [4], 0), (2, [2], 0), (0.01, [1], 0)],
)
def test_members_are_fitted_within_the_time(limit, n_folds, n_refits, monkeypatch):
    """On a clock that moves on by one second in each fit, each of the five members takes four, and one on all rows."""
    now = [0.0]
    monkeypatch.setattr("fastens.combining.voting.time.monotonic", lambda: now[0])
    fit_level = VotingRegressor._fit_level

    def fit(self, *args, **given):
        now[0] += 1.0
        return fit_level(self, *args, **given)

    monkeypatch.setattr(VotingRegressor, "_fit_level", fit)
    X, y = make_regression(60, 3, noise=20.0, random_state=0)
    model = GradientBoostingRegressor.with_quality("best", time_limit=limit, random_state=0, n_jobs=1).fit(X, y)
    is_used = model.weights_ > 0
    assert len(is_used) == len(n_folds)
    refitted = np.argsort(-model.weights_, kind="stable")[: min(n_refits, is_used.sum())]
    assert [len(member.models) for member in model._members] == [
        1 if place in refitted or not is_used[place] else n for place, n in enumerate(n_folds)
    ]
    assert all(each.get_params().get("callbacks") is None for member in model._members for each in member.models)
    assert now[0] <= max(limit, 1)


def test_folds_by_content(rng):
    X = rng.normal(size=(50, 2))
    X, y = np.repeat(X, 2, axis=0), np.repeat(np.arange(50) % 3, 2).astype(float)
    folds = content_folds(MemberData(X, y, np.arange(3), None), 5)
    fold = np.zeros(100, dtype=int)
    for number, (train, test) in enumerate(folds):
        assert sorted([*train, *test]) == list(range(100))
        fold[test] = number
    np.testing.assert_array_equal(fold[::2], fold[1::2])
    assert all(np.ptp(np.bincount(fold[y == k])) <= 2 for k in range(3))
    order = rng.permutation(100)
    for (_, test), (_, other) in zip(
        folds, content_folds(MemberData(X[order], y[order], np.arange(3), None), 5), strict=True
    ):
        assert sorted(order[other]) == list(test)
    with pytest.raises(ValueError, match="X must hold at least two different rows, or rows of two groups, to be"):
        VotingRegressor(weights="nnls", cv="content").fit(np.ones((9, 1)), np.ones(9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"refit": False}, "refit must be True unless weights are learned"),
        ({"time_limit": 1}, "time_limit must be None unless weights are learned"),
    ],
)
def test_limits_of_learned_weights(table, options, message):
    with pytest.raises(ValueError, match=message):
        VotingClassifier(members(), **options).fit(*table)


@pytest.mark.parametrize("weights", [None, [1, 3], "nnls", "likelihood", "selection", "guarded_selection"], ids=str)
def test_several_targets(weights, rng, tmp_path):
    X = rng.normal(size=(150, 3))
    Y = np.column_stack([X[:, 0] + 0.1 * rng.normal(size=150), 3 * X[:, 1] ** 2])
    members = [("line", LinearRegression()), ("forest", fastens.RandomForestRegressor(5, random_state=0))]
    model = VotingRegressor(members, weights=weights).fit(X, Y)
    responses = np.stack([member.predict(X) for member in model.estimators_])
    weight = (model.weights_ / model.weights_.sum())[:, None, None]
    np.testing.assert_allclose(model.predict(X), (weight * responses).sum(axis=0))
    spread = np.sqrt((weight * (responses - model.predict(X)) ** 2).sum(axis=0))
    np.testing.assert_allclose(model.predict_std(X), spread)
    assert model.predict_member_range(X).shape == (150, 2, 2)
    assert model.transform(X).shape == (150, len(model.get_feature_names_out())) == (150, 4)
    assert model.score(X, Y) > 0.3
    model.save(tmp_path / "model", allow_pickle=True)
    np.testing.assert_array_equal(fastens.load(tmp_path / "model", allow_pickle=True).predict(X), model.predict(X))
    with pytest.raises(ValueError, match="explain supports only one target"):
        model.explain(X)


# Classes of several targets --------------------------------------------------


@pytest.fixture(scope="module")
def labels(table):
    X, y = table
    return X, np.column_stack([np.where(X[:, 0] > 0, "yes", "no"), np.array(["a", "b", "c"])[y]])


def forests_of_labels():
    kinds = fastens.RandomForestClassifier, PeerForest
    return [(kind.__module__.partition(".")[0], kind(8, max_depth=4, random_state=0)) for kind in kinds]


@pytest.mark.parametrize("weights", [None, [1, 3], {"sklearn": 0.5}, "nnls", "likelihood", "selection"], ids=str)
def test_classes_of_several_targets(weights, labels, tmp_path):
    X, Y = labels
    weight = np.arange(len(Y)) % 3 + 1.0
    cv = {"cv": [(np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(150, 300))]}
    model = VotingClassifier(forests_of_labels(), voting="soft", weights=weights, **cv).fit(X, Y, weight)
    assert [own.tolist() for own in model.classes_] == [["no", "yes"], ["a", "b", "c"]]
    shares = model.weights_ / model.weights_.sum()
    each = [member.predict_proba(X) for member in model.estimators_]
    proba = model.predict_proba(X)
    for target, found in enumerate(proba):
        means = sum(share * own[target] for share, own in zip(shares, each, strict=True))
        np.testing.assert_allclose(found, means, atol=1e-12)
        np.testing.assert_array_equal(model.predict(X)[:, target], model.classes_[target][means.argmax(axis=1)])
        responses = np.stack([own[target] for own in each])
        spread = np.sqrt(np.einsum("m,mnk->nk", shares, (responses - means) ** 2))
        np.testing.assert_allclose(model.predict_std(X)[target], spread, atol=1e-7)
    assert [part.shape for part in model.predict_member_range(X)] == [(300, 2, 2), (300, 3, 2)]
    assert model.transform(X).shape == (300, 10) == (300, len(model.get_feature_names_out()))
    np.testing.assert_allclose(model.transform(X), np.hstack([part for own in each for part in own]), atol=1e-12)
    assert (model.predict(X) == Y).mean() > 0.8
    model.save(tmp_path / "model", allow_pickle=True)
    again = fastens.load(tmp_path / "model", allow_pickle=True)
    np.testing.assert_array_equal(again.predict_proba(X)[1], proba[1])
    with pytest.raises(ValueError, match="explain supports only one target"):
        model.explain(X)


def out_of_fold_truths(X, Y, weight):
    """Return the members' out-of-fold probabilities of the true labels, (n_members, n_targets * n_rows)."""
    truths = []
    for _, member in forests_of_labels():
        found = np.empty(Y.shape)
        for test in (np.arange(150), np.arange(150, 300)):
            train = np.setdiff1d(np.arange(300), test)
            fitted = clone(member).fit(X[train], Y[train], sample_weight=weight[train])
            for target, (proba, known) in enumerate(zip(fitted.predict_proba(X[test]), fitted.classes_, strict=True)):
                found[test, target] = proba[np.arange(len(test)), np.searchsorted(known, Y[test, target])]
        truths.append(np.maximum(found, 1e-15).T.ravel())
    return np.stack(truths)


def test_weights_of_several_targets_minimise_the_mean_loss(labels):
    X, Y = labels
    weight = np.arange(len(Y)) % 3 + 1.0
    halves = [(np.arange(150, 300), np.arange(150)), (np.arange(150), np.arange(150, 300))]
    model = VotingClassifier(forests_of_labels(), voting="soft", weights="likelihood", cv=halves).fit(X, Y, weight)
    truth, of_rows = out_of_fold_truths(X, Y, weight), np.tile(weight, 2)
    np.testing.assert_allclose(model.losses_, -np.average(np.log(truth), axis=1, weights=of_rows))

    def loss(share):
        return -np.average(np.log(share * truth[0] + (1 - share) * truth[1]), weights=of_rows)

    grid = np.linspace(0, 1, 1001)
    assert abs(model.weights_[0] - grid[np.argmin([loss(share) for share in grid])]) < 2e-3


def test_hard_votes_of_several_targets(labels):
    X, Y = labels
    votes = [*forests_of_labels(), ("near", KNeighborsClassifier(3))]
    model = VotingClassifier(votes, class_weights=[None, {"b": 0.0}]).fit(X, Y)
    pairs = zip(model.classes_, model.estimators_[0].predict(X).T, strict=True)
    np.testing.assert_array_equal(model.transform(X)[:, :2].T, [np.searchsorted(own, column) for own, column in pairs])
    assert model.transform(X).shape == (300, 6) == (300, len(model.get_feature_names_out()))
    plain = VotingClassifier(votes).fit(X, Y)
    for target in range(2):
        index = plain.transform(X)[:, target::2]
        counts = np.stack([(index == k).sum(axis=1) for k in range(len(plain.classes_[target]))], axis=1)
        np.testing.assert_array_equal(plain.predict(X)[:, target], plain.classes_[target][counts.argmax(axis=1)])
    assert "b" not in model.predict(X)[:, 1]
    np.testing.assert_array_equal(model.predict(X)[:, 0], plain.predict(X)[:, 0])


def test_prefit_members_of_several_targets(labels):
    X, Y = labels
    fitted = [(name, member.fit(X, Y)) for name, member in forests_of_labels()]
    few = Y[:, 1] != "c"
    model = VotingClassifier(fitted, voting="soft", prefit=True, weights="nnls").fit(X[few], Y[few])
    assert [own.tolist() for own in model.classes_] == [["no", "yes"], ["a", "b", "c"]]
    assert (model.predict(X) == Y).mean() > 0.8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"class_weights": {"a": 2}},
            "class_weights must be None or a list with an array, dict or None for each of the 2",
        ),
        (
            {"class_weights": [None]},
            "class_weights must be None or a list with an array, dict or None for each of the 2",
        ),
        ({"class_weights": [None, {"d": 1}]}, "class_weights must name classes of y; got 'd'"),
        ({"weights": np.ones((2, 3))}, r"weights must have the shape \(2,\); got \(2, 3\)"),
    ],
)
def test_limits_of_several_targets(labels, options, message):
    with pytest.raises(ValueError, match=message):
        VotingClassifier(forests_of_labels(), **options).fit(*labels)


@pytest.mark.slow
def test_the_best_ensemble_of_several_targets(labels):
    X, Y = labels
    model = GradientBoostingClassifier.with_quality("best", time_limit=5, random_state=0).fit(X, Y)
    assert [part.shape for part in model.predict_proba(X)] == [(300, 2), (300, 3)]
