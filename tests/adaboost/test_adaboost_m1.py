"""AdaBoost.M1 and the lecture notes with three and more classes: weights of every round, restarts, bounds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier as PeerTree

import fastens
from fastens import AdaBoostClassifier, DecisionTreeClassifier
from fastens.adaboost.weak_learners import MAX_RESTARTS, RoundWeights, content_order
from fastens.engine.rows.sampling import stream_seeds
from reference.adaboost import adaboost_m1, naive_stump, notes_with_restarts

N_ROUNDS = 40


@pytest.fixture
def three(rng):
    """Rows of three classes that a stump gets mostly right at first, and hardly later on."""
    X = rng.normal(size=(90, 3))
    return X, np.digitize(X[:, 0] + 0.7 * rng.normal(size=90), [-0.9, 0.9])


def weights_of(model, X, y):
    return list(model.staged_weights(X, y))


def check_rounds(model, X, y, notes):
    weights, errors, votes = notes
    assert model.n_estimators_ == len(errors) > 1
    for ours, theirs in zip(weights_of(model, X, y), weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    np.testing.assert_allclose(model.estimator_errors_, errors, rtol=1e-8)
    np.testing.assert_allclose(model.decision_function(X), votes, rtol=1e-8, atol=1e-10)


def test_stumps(three):
    X, y = three
    model = AdaBoostClassifier(algorithm="m1", n_estimators=N_ROUNDS).fit(X, y)
    check_rounds(model, X, y, adaboost_m1(naive_stump(X, y, np.arange(3)), y, 3, N_ROUNDS))
    assert model.n_estimators_ < AdaBoostClassifier(n_estimators=N_ROUNDS).fit(X, y).n_estimators_


@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=2)], ids=str)
def test_trees(three, estimator):
    X, y = three
    model = AdaBoostClassifier(estimator, algorithm="m1", max_depth=1 if estimator else 2, n_estimators=6).fit(X, y)
    trees = PeerTree(max_depth=2, random_state=0)
    notes = adaboost_m1(lambda p: trees.fit(X, y, p).predict(X), y, 3, 6)
    check_rounds(model, X, y, notes)


@pytest.mark.slow
@pytest.mark.parametrize("labels", [np.array(["high", "low", "mid"]), np.arange(3)], ids=["text", "numbers"])
def test_any_estimator(labels):
    X, y = load_iris(return_X_y=True)
    estimator = LogisticRegression(C=0.01, max_iter=1000)
    model = AdaBoostClassifier(estimator, algorithm="m1", n_estimators=4).fit(X, labels[y])

    def learn(p):
        return estimator.fit(X, y, p * len(y)).predict(X)

    check_rounds(model, X, labels[y], adaboost_m1(learn, y, 3, 4))


def test_the_same_as_discrete_for_two_classes():
    X, y = make_classification(300, 5, flip_y=0.2, random_state=1)
    discrete, m1 = (AdaBoostClassifier(n_estimators=20, algorithm=name).fit(X, y) for name in ("discrete", "m1"))
    assert np.array_equal(discrete.decision_function(X), m1.decision_function(X))


def test_it_stops_where_samme_goes_on(rng):
    X = rng.normal(size=(300, 2))
    y = (4 * rng.random(300)).astype(int)
    with pytest.warns(UserWarning, match=r"the first weak classifier is not better than chance \(weighted error"):
        model = AdaBoostClassifier(algorithm="m1").fit(X, y)
    assert model.n_estimators_ == 1
    assert model.estimator_errors_[0] > 0.5
    assert AdaBoostClassifier().fit(X, y).n_estimators_ > 1


# Restarts --------------------------------------------------


def drawing(X, y, learn, seed):
    """Third notes: a classifier learned on a sample with replacement from P_c; draws are those of the package."""
    stream_seed = int(np.random.RandomState(seed).randint(np.iinfo(np.int32).max))
    weights = RoundWeights(y.astype(np.uint16))
    values = np.array([np.unique(column, return_inverse=True)[1] + 1 for column in X.T])

    def draw_and_learn(p, c, attempt):
        weights.whole = np.rint(p * 2.0**50).astype(np.int64)
        weights.total = int(weights.whole.sum())
        index = c * (MAX_RESTARTS + 1) + attempt
        seeds = stream_seeds(stream_seed, index, index + 1)
        return learn(weights.draw(content_order(values, y), seeds).astype(np.float64))

    return draw_and_learn


@pytest.mark.slow
def test_third_notes_draw_and_start_again(rng):
    X = rng.normal(size=(80, 3))
    y = np.where(rng.random(80) < 0.4, rng.integers(0, 3, 80), np.digitize(X[:, 0], [-0.5, 0.8]))
    learn = drawing(X, y, naive_stump(X, y, np.arange(3)), seed=3)
    weights, errors, restarted, votes = notes_with_restarts(learn, y, 3, 15, MAX_RESTARTS)
    assert any(restarted)
    model = AdaBoostClassifier(algorithm="m1", resample=True, n_estimators=15, random_state=3).fit(X, y)
    assert model.restarted_.tolist() == list(restarted)
    check_rounds(model, X, y, (weights, errors, 2 * votes))


def test_restarts_without_drawing(three):
    X, y = three
    model = AdaBoostClassifier(algorithm="m1", restart=True, n_estimators=30).fit(X, y)
    stopped = AdaBoostClassifier(algorithm="m1", n_estimators=30).fit(X, y)
    again = stopped.n_estimators_
    assert model.n_estimators_ == 30 > again
    assert np.flatnonzero(model.restarted_).tolist() == list(range(again, 30, again))
    rounds = weights_of(model, X, y)
    np.testing.assert_array_equal(rounds[again], rounds[0])
    np.testing.assert_array_equal(rounds[again + 1], rounds[1])


def test_sampling_may_end_instead_of_a_restart(rng):
    X, y = rng.integers(0, 2, (60, 2)).astype(float), rng.integers(0, 2, 60)
    options = {"n_estimators": 60, "resample": True, "random_state": 0}
    assert AdaBoostClassifier(**options).fit(X, y).restarted_.any()
    ended = AdaBoostClassifier(**options, restart=False).fit(X, y)
    assert ended.n_estimators_ < 60
    assert not ended.restarted_.any()


@pytest.mark.parametrize("algorithm", ["discrete", "m1", "real"])
def test_the_loss_counts_the_rounds_before_a_restart(rng, algorithm):
    X = rng.integers(0, 2, (60, 3)).astype(float)
    y = np.where(rng.random(60) < 0.7, rng.integers(0, 2, 60), X[:, 0].astype(int))
    model = AdaBoostClassifier(algorithm=algorithm, resample=True, n_estimators=40, random_state=0).fit(X, y)
    losses = [np.exp(-np.where(y == 1, 0.5, -0.5) * F).mean() for F in model.staged_decision_function(X)]
    np.testing.assert_allclose(model.evals_result_["training"]["loss"], losses, rtol=1e-9)
    errors = [(label != y).mean() for label in model.staged_predict(X)]
    assert (model.training_error_bound() >= np.array(errors) - 1e-12).all()
    if algorithm != "real":
        assert model.restarted_.any()


@pytest.mark.parametrize("options", [{}, {"resample": True, "random_state": 1}, {"restart": True}], ids=str)
@pytest.mark.parametrize("algorithm", ["discrete", "m1"])
def test_the_bound_holds_for_several_classes(three, options, algorithm):
    X, y = three
    model = AdaBoostClassifier(algorithm=algorithm, n_estimators=40, **options).fit(X, y)
    errors = np.array([(label != y).mean() for label in model.staged_predict(X)])
    assert (model.training_error_bound() >= errors - 1e-12).all()
    halves = 0.5 * model.estimator_weights_
    right = np.array(list(_right_by_round(model, X, y)))
    exact = np.exp(np.cumsum(np.where(right, -halves[:, None], halves[:, None]), axis=0)).mean(axis=1)
    np.testing.assert_allclose(model.training_error_bound(), exact, rtol=1e-7)


def _right_by_round(model, X, y):
    """Whether each round's own vote is for the class of each row."""
    before = np.zeros((len(y), 3))
    for votes in model.staged_decision_function(X):
        yield (votes - before).argmax(axis=1) == y
        before = votes


# The weights of every round --------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"algorithm": "real"}, {"algorithm": "m1", "max_depth": 2}, {"estimator": KNeighborsClassifier(5)}],
    ids=str,
)
def test_weights_are_those_that_the_errors_were_measured_with(three, options):
    X, y = three
    weight = np.arange(90) % 3.0
    model = AdaBoostClassifier(n_estimators=8, random_state=0, **options).fit(X, y, weight)
    stages = list(model.staged_weights(X, y, weight))
    assert len(stages) == model.n_estimators_
    np.testing.assert_allclose(stages[0], weight / weight.sum(), rtol=1e-12)
    for stage in stages:
        assert stage.sum() == pytest.approx(1, abs=1e-9)
        assert (stage[weight == 0] == 0).all()
    if options.get("algorithm") != "real":
        first = next(iter(model.staged_predict(X)))
        assert stages[0][first != y].sum() == pytest.approx(model.estimator_errors_[0])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("estimator", [None, DecisionTreeClassifier(max_depth=2), PeerTree(max_depth=1)], ids=str)
def test_errors_of_drawn_rounds_match_the_classes_voted_for(estimator, seed):
    """The rows drawn may say another class of a leaf than all rows by their weights, which its vote follows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 3, 50)
    model = AdaBoostClassifier(estimator, algorithm="real", n_estimators=8, resample=True, random_state=0).fit(X, y)
    rounds = zip(model.estimators_, weights_of(model, X, y), strict=True)
    errors = [weight[weak.predict(X) != y].sum() for weak, weight in rounds]
    np.testing.assert_allclose(model.estimator_errors_, errors, rtol=1e-8)


def test_weights_after_saving_and_of_categories(rng, tmp_path):
    pd = pytest.importorskip("pandas")
    letters = rng.choice([f"c{number}" for number in range(60)], 400)
    table = pd.DataFrame({"letter": pd.Categorical(letters), "number": rng.normal(size=400)})
    y = (np.char.replace(letters.astype(str), "c", "").astype(int) + 10 * rng.normal(size=400) > 30).astype(int)
    model = AdaBoostClassifier(n_estimators=5).fit(table, y)
    model.save(tmp_path / "model.fastens")
    loaded = fastens.load(tmp_path / "model.fastens")
    before = loaded.predict_proba(table)
    for ours, theirs in zip(model.staged_weights(table, y), loaded.staged_weights(table, y), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="X and y must be the same as in the fit that this one continues"):
        list(loaded.staged_weights(table[:200], y[:200]))
    np.testing.assert_array_equal(loaded.predict_proba(table), before)
    np.testing.assert_array_equal(loaded.restarted_, model.restarted_)


def test_newton_steps_have_no_votes_and_no_restarts(three):
    X, y = three
    model = AdaBoostClassifier(algorithm="gentle", n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match=r"algorithm must be one of 'discrete', 'm1', 'real'.*got 'gentle'"):
        list(model.staged_weights(X, y))
    with pytest.raises(ValueError, match=r"restart must be 'auto' with algorithm='logit', .* got True"):
        AdaBoostClassifier(algorithm="logit", restart=True).fit(X, y)
