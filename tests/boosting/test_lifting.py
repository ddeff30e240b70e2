"""Limits of trees are lifted where rows held out are predicted better without them, and nowhere else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import fastens
from fastens import GradientBoostingClassifier, GradientBoostingRanker, GradientBoostingRegressor
from fastens.base import TrainingData
from fastens.boosting import lifting
from fastens.boosting.lifting import HeldOut, rate_of_round
from fastens.engine.grow.growth import GrowthRules

FREE = {"min_samples_leaf": 1, "split_penalty": 0.0}
L2 = {"l2_regularization": 1.0}
# Learning rates of .1 add up to 1.5 before the round of this index.
ASKED = 15


@pytest.fixture(scope="module")
def games():
    """Every game of three moves on six squares, and who won it, by a rule without noise."""
    moves = np.array(list(itertools.product(range(3), repeat=6)), dtype=np.float64)
    return moves, (moves[:, 0] == moves[:, 1]) | (moves[:, 2] == 1) & (moves[:, 3] == 2)


@pytest.fixture
def noise(rng):
    X = rng.normal(size=(700, 5))
    return X, X[:, 0] + rng.normal(size=700) > 0


def continued_without_limits(model, X, y, n_rounds, **options):
    """A fitted model's rounds up to so many, by hand: thrice as long for half as many as had limits, then as before."""
    n_limited = model.n_estimators_
    model.set_params(warm_start=True, min_samples_category=1, **FREE, **options)
    for rate, until in ((0.1 + (3 * 0.1 - 0.1), min(n_limited + n_limited // 2, n_rounds)), (0.1, n_rounds)):
        model.set_params(learning_rate=rate, n_estimators=until).fit(X, y)
    return model


def equal(games, *pairs):
    """In how many of the pairs two squares are the same."""
    return sum((games[0][:, i] == games[0][:, j]).astype(float) for i, j in pairs)


def said(model, X):
    """What a model of any target says."""
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))


# What is asked --------------------------------------------------


def favours(held_out, free, limited):
    """Whether steps that gain so much on each row are favoured over others."""
    n_rows = len(free)
    gradients, hessians = np.ones((1, n_rows)), np.zeros((1, n_rows))
    return held_out.favour(lambda rows: -free[None], lambda rows: -limited[None], gradients, hessians)


def test_gains_are_to_the_second_order(rng):
    steps, gradients, hessians = rng.normal(size=(3, 2, 40))
    gained = lifting._gains(steps, gradients, hessians)
    for i in range(40):
        each = [-(gradients[k, i] * steps[k, i] + hessians[k, i] * steps[k, i] ** 2 / 2) for k in range(2)]
        assert gained[i] == pytest.approx(sum(each), rel=1e-12)


def test_steps_are_found_from_the_other_parts(rng):
    part = rng.integers(0, 3, 60)
    asked = []

    def best(rows):
        asked.append(rows)
        return -np.ones((1, 60))

    assert HeldOut(part, None).favour(best, lambda rows: np.zeros((1, 60)), np.ones((1, 60)), np.ones((1, 60)))
    for k, rows in enumerate(asked):
        np.testing.assert_array_equal(rows, np.flatnonzero(part != k))


def test_gains_must_be_greater_and_no_losses_and_no_chance(rng):
    held_out = HeldOut(np.arange(100) % 5, None)
    before = rng.normal(size=100)
    scatter = rng.normal(size=100)
    scatter = (scatter - scatter.mean()) / scatter.std()
    # By so many standard errors, of 1 / 10.
    assert favours(held_out, before + 5 + scatter + 0.31, before + 5) is True
    assert favours(held_out, before + 5 + scatter + 0.29, before + 5) is None
    assert favours(held_out, before + 5 + scatter + 0.11, before + 5) is None
    assert favours(held_out, before + 5 + scatter + 0.09, before + 5) is False
    assert favours(held_out, scatter - 0.29, scatter - 5) is True
    assert favours(held_out, scatter - 0.31, scatter - 5) is False
    assert favours(held_out, before, before) is False


def test_no_more_is_asked_without_hope():
    part = np.repeat(np.arange(5), 10)
    held_out, asked = HeldOut(part, None), []
    gradients, hessians = np.ones((1, 50)), np.zeros((1, 50))
    # The first part is for free steps, the second against them, and all others would be for them.
    free = np.where(part == 1, 2.0, -1.0)[None]

    def limited(rows):
        asked.append(rows)
        return np.zeros((1, 50))

    assert not held_out.favour(lambda rows: free, limited, gradients, hessians)
    assert len(asked) == 2
    asked.clear()
    assert held_out.favour(lambda rows: free * (part != 1) - (part == 1), limited, gradients, hessians)
    assert len(asked) == 5


@pytest.mark.parametrize("by", [0.3, 44.0])
def test_whole_weights_are_copies_and_fractions_have_no_scale(by, rng):
    # All in parts that come to the same verdict.
    more = np.repeat(rng.normal(0.12, 1, size=200), 2)
    part, nothing = np.arange(400) % 2, np.zeros(400)
    weight = np.repeat(rng.integers(1, 6, 200), 2)
    spread, spread_part = np.repeat(more, weight), np.repeat(part, weight)
    for bar in np.linspace(-0.1, 0.1, 41):
        copied = favours(HeldOut(spread_part, None), spread + bar, np.zeros(len(spread)))
        assert favours(HeldOut(part, weight.astype(float)), more + bar, nothing) == copied
        shares = (HeldOut(part, weight / 7.5 * factor) for factor in (1, by))
        assert len({favours(held_out, more + bar, nothing) for held_out in shares}) == 1


@pytest.mark.parametrize(
    ("weight", "least"), [(None, 0.1), (np.array([3.0, 1.0]), 0.1), (np.array([0.5, 0.3]), 0.04)], ids=str
)
def test_leaves_of_a_row_have_a_penalty(weight, least):
    held_out = HeldOut(np.arange(2), weight)
    for given in (0.0, 0.05, 2.0):
        steadied = held_out.steadied(GrowthRules(l2_regularization=given)).l2_regularization
        assert steadied == pytest.approx(max(given, least))


def test_parts_follow_from_what_rows_are(rng):
    X, y = rng.integers(0, 4, (300, 3)).astype(float), rng.integers(0, 2, 300).astype(float)
    part = HeldOut.of(TrainingData(X, y, None), 1)._part
    order = rng.permutation(300)
    np.testing.assert_array_equal(HeldOut.of(TrainingData(X[order], y[order], None), 1)._part, part[order])
    for row in np.unique(np.c_[X, y], axis=0):
        assert len(set(part[(np.c_[X, y] == row).all(axis=1)])) == 1
    assert set(part) == set(range(10))


@pytest.mark.parametrize(("n_rows", "n_parts"), [(999, 10), (1000, 5), (5_000, 5), (5_001, None)])
def test_few_rows_are_held_out_in_more_parts_and_many_are_not_asked(n_rows, n_parts, rng):
    X, y = rng.normal(size=(n_rows, 1)), np.zeros(n_rows)
    held_out = HeldOut.of(TrainingData(X, y, None), 1)
    assert held_out is None if n_parts is None else set(held_out._part) == set(range(n_parts))
    # Copies count.
    weight = np.full(n_rows // 2, 2.0)
    weight[-1] += n_rows % 2
    copied = HeldOut.of(TrainingData(X[: n_rows // 2], y[: n_rows // 2], weight), 1)
    assert (copied is None) == (held_out is None)


def test_rows_that_are_all_the_same_are_not_asked():
    X, y = np.ones((50, 2)), np.ones(50)
    assert HeldOut.of(TrainingData(X, y, None), 1) is None
    assert not GradientBoostingRegressor(lift_limits=True).fit(X, y).limits_lifted_


# What comes of it --------------------------------------------------


def test_limits_are_lifted_without_noise(games):
    X, X_test, y, y_test = train_test_split(*games, random_state=0)
    model, limited = (GradientBoostingClassifier(lift_limits=lifts, **L2).fit(X, y) for lifts in (None, False))
    assert model.limits_lifted_
    assert not limited.limits_lifted_
    assert log_loss(y_test, model.predict_proba(X_test)) < 0.7 * log_loss(y_test, limited.predict_proba(X_test))
    fewest = model.to_dataframe().query("feature.isna()").groupby("tree")["n_samples"].min()
    assert fewest[:ASKED].min() >= 5 > fewest[ASKED:].min()
    np.testing.assert_array_equal(model.train_score_[:ASKED], limited.train_score_[:ASKED])
    assert model.train_score_[ASKED] != limited.train_score_[ASKED]


def test_rounds_after_are_those_of_a_free_model(games):
    """The same rounds, made by hand: limited ones, then free ones."""
    X, y = games
    by_hand = GradientBoostingClassifier(n_estimators=ASKED, **L2).fit(X, y)
    continued_without_limits(by_hand, X, y, 60)
    model = GradientBoostingClassifier(n_estimators=60, **L2).fit(X, y)
    assert model.limits_lifted_
    np.testing.assert_array_equal(model.predict_proba(X), by_hand.predict_proba(X))


@pytest.mark.parametrize(
    ("learning_rate", "n_limited", "longer", "n_longer"),
    [(0.1, 15, 0.3, 7), (0.1, 30, 0.3, 15), (0.02, 75, 0.06, 37), (0.4, 4, 1.0, 2), (0.5, 3, 1.0, 3), (1.0, 2, 1.0, 9)],
)
def test_what_limits_held_back_is_made_up(learning_rate, n_limited, longer, n_longer):
    """By steps of at most a whole one; those of `learning_rate` 1 are whole already."""
    rates = [rate_of_round(index, n_limited, learning_rate) for index in range(n_limited + 200)]
    expected = np.full(len(rates), learning_rate)
    expected[n_limited : n_limited + n_longer] = longer
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    extra = sum(rates) - learning_rate * len(rates)
    assert extra == 0 or -1e-9 <= n_limited * learning_rate - extra < longer - learning_rate + 1e-9


def test_no_limits_no_longer_steps():
    assert {rate_of_round(index, 50, 0.1) for index in range(50)} == {0.1}


def test_leaves_are_refitted_by_the_rates_of_their_rounds(games):
    X, y = games[0], equal(games, (0, 1)) + 2 * equal(games, (2, 3))
    model = GradientBoostingRegressor(n_estimators=30, **L2).fit(X, y)
    assert model.limits_lifted_
    np.testing.assert_allclose(model.refit_leaves(X, y, decay_rate=0.0).predict(X), model.predict(X), atol=1e-5)


def test_constraints_stay_where_categories_have_columns_of_their_own(games):
    X, y = games[0], equal(games, (0, 1)) + (games[0][:, 2] == 2)
    encoded = {"categorical_encoding": "target", "categorical_features": [2], "interaction_cst": [[0, 1, 2], [3, 4, 5]]}
    model, by_hand = (GradientBoostingClassifier(n_estimators=n, random_state=0, **encoded) for n in (30, ASKED))
    assert model.fit(X, y).limits_lifted_
    continued_without_limits(by_hand.fit(X, y), X, y, 30, l2_regularization=0.1)
    np.testing.assert_array_equal(model.predict_proba(X), by_hand.predict_proba(X))


def test_it_is_asked_again_in_doubt(games):
    """Of few rows it is less clear, but clearer when more is learned."""
    X, X_test, y, y_test = train_test_split(*games, train_size=200, random_state=1)
    model, limited = (GradientBoostingClassifier(lift_limits=lifts, **L2).fit(X, y) for lifts in (None, False))
    assert model.limits_lifted_
    np.testing.assert_array_equal(model.train_score_[: 2 * ASKED], limited.train_score_[: 2 * ASKED])
    assert model.train_score_[2 * ASKED] != limited.train_score_[2 * ASKED]
    assert log_loss(y_test, model.predict_proba(X_test)) < 0.5 * log_loss(y_test, limited.predict_proba(X_test))


@pytest.mark.parametrize(
    ("answers", "lifted_at"), [((True,), 15), ((None, True), 30), ((None, None, True), 60), ((None, False), None)]
)
def test_it_is_asked_until_there_is_an_answer(answers, lifted_at, games, monkeypatch):
    """The same rounds by hand, and a model that is continued, which asks anew."""
    X, y = games

    def fit(model, n_rounds):
        left = iter(answers)
        monkeypatch.setattr(HeldOut, "favour", lambda *_: next(left))
        return model.set_params(n_estimators=n_rounds).fit(X, y)

    model = fit(GradientBoostingClassifier(**L2), 80)
    by_hand = GradientBoostingClassifier(n_estimators=lifted_at or 80, lift_limits=False, **L2).fit(X, y)
    if lifted_at:
        continued_without_limits(by_hand, X, y, 80)
    np.testing.assert_array_equal(model.predict_proba(X), by_hand.predict_proba(X))
    assert model.limits_lifted_ == (lifted_at is not None)
    for first in (20, 45):
        parts = fit(GradientBoostingClassifier(warm_start=True, **L2), first)
        assert parts.limits_lifted_ == (lifted_at is not None and first > lifted_at)
        np.testing.assert_array_equal(fit(parts, 80).predict_proba(X), model.predict_proba(X))


def test_limits_stay_with_noise(noise):
    model, limited = (GradientBoostingClassifier(lift_limits=lifts).fit(*noise) for lifts in (None, False))
    assert not model.limits_lifted_
    np.testing.assert_array_equal(model.predict_proba(noise[0]), limited.predict_proba(noise[0]))


@pytest.mark.parametrize("given", [{"min_samples_leaf": 19}, {"split_penalty": 2.0}])
def test_limits_that_were_given_stay_unless_said(given, games):
    assert not GradientBoostingClassifier(**given, **L2).fit(*games).limits_lifted_
    assert GradientBoostingClassifier(lift_limits=True, **given, **L2).fit(*games).limits_lifted_


@pytest.mark.parametrize(("learning_rate", "asked"), [(0.1, 15), (0.5, 3), (1.0, 2), (0.4, 4)])
def test_when_to_ask_follows_from_the_learning_rate(learning_rate, asked, games):
    for n_rounds in (asked, asked + 1):
        model = GradientBoostingClassifier(n_estimators=n_rounds, learning_rate=learning_rate).fit(*games)
        assert model.limits_lifted_ == (n_rounds > asked)


@pytest.mark.parametrize("target", ["numbers", "classes", "several numbers", "several labels"])
@pytest.mark.parametrize("options", [{}, {"subsample": 0.7}, {"max_features": 0.5}, {"sampling": "goss"}], ids=str)
def test_models_are_the_same_for_threads_and_when_continued(target, options, games):
    X, won = games
    y = {
        "numbers": equal(games, (0, 1)) + 2 * equal(games, (2, 3)),
        "classes": equal(games, (0, 1)) + 2 * equal(games, (2, 3)),
        "several numbers": np.c_[equal(games, (0, 1), (2, 3)) > 1, equal(games, (3, 4), (4, 5)) > 1].astype(float),
        "several labels": np.c_[won, equal(games, (4, 5))],
    }[target]
    kind = GradientBoostingRegressor if "numbers" in target else GradientBoostingClassifier
    options = {"random_state": 0, "n_estimators": 40, **L2, **options}
    model, threads = (kind(n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 3))
    assert model.limits_lifted_
    np.testing.assert_array_equal(said(threads, X), said(model, X))
    for first in (10, 30):
        parts = kind(warm_start=True, **{**options, "n_estimators": first}).fit(X, y)
        parts.set_params(n_estimators=40).fit(X, y)
        assert parts.limits_lifted_
        np.testing.assert_array_equal(said(parts, X), said(model, X))


def test_a_checkpoint_goes_on_without_limits(games, tmp_path):
    path = tmp_path / "checkpoint"
    options = {"n_estimators": 40, "checkpoint_path": path, "checkpoint_every": 20}

    def stop(env):
        if env.iteration == 29:
            raise RuntimeError("power is gone")

    with pytest.raises(RuntimeError, match="power"):
        GradientBoostingClassifier(callbacks=[stop], **options).fit(*games)
    resumed = GradientBoostingClassifier(**options).fit(*games)
    at_once = GradientBoostingClassifier(n_estimators=40).fit(*games)
    assert resumed.limits_lifted_
    np.testing.assert_array_equal(resumed.predict_proba(games[0]), at_once.predict_proba(games[0]))


def test_a_weight_is_as_many_rows(games, rng):
    X, y = games
    weight = rng.integers(1, 4, len(X))
    # The count of rows is no weight: it would limit the rounds before.
    options = {"n_estimators": 30, "min_samples_leaf": 1, "split_penalty": 500.0, "lift_limits": True, **L2}
    weighted = GradientBoostingClassifier(**options).fit(X, y, sample_weight=weight)
    repeated = GradientBoostingClassifier(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.limits_lifted_
    assert repeated.limits_lifted_
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_early_stopping_says_of_the_rounds_that_are_kept(games):
    X, y = games
    other = GradientBoostingClassifier(n_estimators=60).fit(X, y, X_val=X, y_val=~y)
    assert other.n_estimators_ < ASKED
    assert not other.limits_lifted_
    kept = GradientBoostingClassifier(n_estimators=60).fit(X, y, X_val=X, y_val=y)
    assert kept.n_estimators_ > ASKED
    assert kept.limits_lifted_


def test_free_leaves_take_no_giant_steps(games):
    """A row that is wrong among rows that are sure: its gradient is 1, its hessian next to nothing."""
    X, y = games
    y = y.copy()
    y[364] = ~y[364]
    model, reckless = (GradientBoostingClassifier(n_estimators=300, **given).fit(X, y) for given in ({}, FREE))
    assert model.limits_lifted_
    largest, reckless_one = (np.abs(each.decision_function(X)).max() for each in (model, reckless))
    assert 1.5 * largest < reckless_one


def test_saving_keeps_what_was_asked(games, tmp_path):
    model = GradientBoostingClassifier(n_estimators=20).fit(*games)
    model.save(tmp_path / "model.fastens")
    loaded = fastens.load(tmp_path / "model.fastens")
    assert loaded.limits_lifted_ is True
    refitted, expected = (each.refit_leaves(*games) for each in (loaded, model))
    np.testing.assert_array_equal(refitted.predict_proba(games[0]), expected.predict_proba(games[0]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"boosting": "dart"}, "boosting='dart'"),
        ({"linear_leaves": True}, "linear_leaves=True"),
        ({"loss": "absolute_error"}, "a loss whose gradients do not tell the noise"),
    ],
)
def test_what_cannot_be_asked_is_an_error(options, words, games):
    X, y = games[0], equal(games, (0, 1), (2, 3))
    with pytest.raises(ValueError, match=f"lift_limits must be None or False with {words}; got True"):
        GradientBoostingRegressor(lift_limits=True, **options).fit(X, y)
    assert not GradientBoostingRegressor(n_estimators=20, **options).fit(X, y).limits_lifted_


def test_rankings_are_not_asked(games):
    X, y = games
    ranker = GradientBoostingRanker(n_estimators=20).fit(X, y, group=np.full(81, 9))
    assert not ranker.limits_lifted_
