"""Trees averaged over their prunings: against every pruning by itself, and as estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

import fastens
from fastens import BayesTreeClassifier, BayesTreeRegressor, DecisionTreeClassifier, estimate_errors
from fastens.base import TrainingData
from fastens.posterior.leaf_priors import ClassPrior
from reference import prunings as twin
from reference.sklearn_checks import parametrize_with_checks

CLASSES = [BayesTreeClassifier(evidence="honest", splitter="random", class_weight="balanced")]
NUMBERS = [BayesTreeRegressor(evidence="honest"), BayesTreeRegressor(criterion="poisson")]


@parametrize_with_checks(CLASSES + NUMBERS)
def test_sklearn_check(check):
    check()


@pytest.fixture
def iris():
    X, y = load_iris(return_X_y=True)
    flipped = np.random.default_rng(0).random(len(y)) < 0.1
    return X, np.where(flipped, (y + 1) % 3, y)


def every_pruning(model, log_evidence):
    trees = model._ensemble
    cost = 1 - np.exp(model._prunings._terms[1])
    return twin.log_joints(trees.left_child, log_evidence, cost)


@pytest.mark.parametrize("split_prior", ["search", "strict", "features", 0.5, (0.95, 2.0)])
def test_classifier_equals_all_prunings(split_prior, iris):
    X, y = iris
    model = BayesTreeClassifier(0.4, split_prior=split_prior, max_leaf_nodes=6, temperature=1.5).fit(X, y)
    leaf = model.apply(X)
    below = np.array([[node in twin.way_to(model._ensemble.left_child, int(k)) for node in range(11)] for k in leaf])
    counts = np.array([np.bincount(y[rows], minlength=3) for rows in below.T]).T.astype(float)
    prior = ClassPrior(0.4, (3,))
    found, logs = every_pruning(model, prior.log_evidence(counts) / 1.5)
    np.testing.assert_allclose(model.log_evidence_, logsumexp(logs), rtol=1e-12)
    np.testing.assert_allclose(model.map_log_joint_, logs.max(), rtol=1e-12)
    posterior = np.exp(logs - logsumexp(logs))
    shares = prior.values(counts).T
    said = np.array([[shares[next(i for i in np.flatnonzero(row) if i in p.leaves)] for row in below] for p in found])
    np.testing.assert_allclose(model.predict_proba(X), np.tensordot(posterior, said, 1), rtol=1e-12)
    best = said[int(logs.argmax())]
    np.testing.assert_allclose(model._map_proba(X), best, rtol=1e-13)
    np.testing.assert_allclose(model.map_estimator_.predict_proba(X), best, rtol=1e-13)
    np.testing.assert_array_equal(model.predict(X, mode="map"), best.argmax(axis=1))
    assert model.map_estimator_.get_n_leaves() == len(found[int(logs.argmax())].leaves)
    votes = np.tensordot(posterior, np.eye(3)[said.argmax(axis=2)], 1)
    np.testing.assert_allclose(model._vote_share(X), votes, atol=1e-11)


@pytest.mark.slow
def test_samples(iris):
    X, y = iris
    model = BayesTreeClassifier(max_leaf_nodes=8, random_state=0).fit(X, y)
    trees = model.sample_posterior(400)
    assert {type(tree) for tree in trees} == {DecisionTreeClassifier}
    said = np.array([tree.predict_proba(X) for tree in trees])
    error = np.abs(said.mean(axis=0) - model.predict_proba(X))
    assert (error <= 5 * said.std(axis=0) / 20 + 1e-9).all()
    inside = model.predict_proba_interval(X, 0.8)
    covered = (inside[..., 0] <= said) & (said <= inside[..., 1])
    assert abs(covered.mean() - 0.8) < 0.03
    n_leaves = [tree.get_n_leaves() for tree in trees]
    assert abs(np.mean(n_leaves) - model.expected_n_leaves_) < 5 * np.std(n_leaves) / 20
    fixed = model.sample_posterior(3, random_state=1, draw_values=False)
    assert len({tuple(tree.predict_proba(X[:5]).ravel()) for tree in fixed}) <= 3
    again = model.sample_posterior(2, random_state=5)[1].predict_proba(X)
    np.testing.assert_array_equal(again, model.sample_posterior(2, random_state=5)[1].predict_proba(X))


def test_gibbs_errs_at_most_twice_as_often(iris):
    X, y = iris
    model = BayesTreeClassifier(max_leaf_nodes=12, split_prior=0.5).fit(X, y)
    rng = np.random.default_rng(0)
    drawn = np.mean([model.predict(X, mode="gibbs", random_state=rng)[:, None] == range(3) for _ in range(600)], axis=0)
    votes = model._vote_share(X)
    assert (np.abs(drawn - votes) < 5 * np.sqrt(votes * (1 - votes) / 600) + 1e-9).all()
    expected = estimate_errors(model, X)
    assert expected.bayes <= expected.gibbs <= 2 * expected.bayes


def test_regressor_equals_all_prunings():
    X, y = load_diabetes(return_X_y=True)
    model = BayesTreeRegressor(max_leaf_nodes=7).fit(X, y)
    left_child, leaf = model._ensemble.left_child, model.apply(X)
    below = np.array([[node in twin.way_to(left_child, int(k)) for node in range(13)] for k in leaf])
    prior = model._leaf_prior
    statistics = np.stack([prior.statistics(y[rows]).sum(axis=1) for rows in below.T], axis=1)
    found, logs = every_pruning(model, prior.log_evidence(statistics))
    posterior = np.exp(logs - logsumexp(logs))
    np.testing.assert_allclose(model.log_evidence_, logsumexp(logs), rtol=1e-11)
    means = prior.values(statistics)[0]
    said = np.array([[means[next(i for i in np.flatnonzero(row) if i in p.leaves)] for row in below] for p in found])
    np.testing.assert_allclose(model.predict(X), posterior @ said, rtol=1e-10)
    np.testing.assert_allclose(model.predict(X, mode="map"), said[int(logs.argmax())], rtol=1e-10)
    np.testing.assert_allclose(model.map_estimator_.predict(X), said[int(logs.argmax())], rtol=1e-10)


@pytest.mark.slow
def test_temperatures_next_to_zero_leave_the_best_pruning(rng):
    X = rng.normal(size=(300, 2))
    y = 1e5 * (X[:, 0] > 0) + rng.normal(size=300)
    one, other = (BayesTreeRegressor(temperature=temperature).fit(X, y) for temperature in (1e-300, 1e-6))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert len(np.unique(one.predict(X))) > 1


@pytest.mark.parametrize("seed", [2, 23, 36])
def test_averages_of_shares_are_shares(seed):
    rng = np.random.default_rng(seed)
    X, y, weight = rng.normal(size=(100, 1)), rng.integers(0, 2, 100), np.where(np.arange(100) == 50, 1e30, 1.0)
    model = BayesTreeClassifier(split_prior=0.5, splitter="random", random_state=0).fit(X, y, weight)
    assert model.predict_proba(X).min() >= 0


def test_intervals_of_one_number():
    X, y = np.zeros((3, 1)), np.full(3, 7.0)
    model = BayesTreeRegressor(prior_scale=1e-300).fit(X, y, sample_weight=[1, 1, 1e9])
    with np.errstate(invalid="raise", divide="raise", over="raise"):
        np.testing.assert_allclose(model.predict_interval(X), np.full((3, 2), 7.0))


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e-150])
def test_counts_next_to_zero(rng, scale):
    X = rng.normal(size=(60, 2))
    model = BayesTreeRegressor(criterion="poisson").fit(X, np.arange(60) % 2 * scale)
    assert 0 <= model.predict(X).max() < 1e-100
    np.testing.assert_array_equal(model.predict_interval(X), np.zeros((60, 2)))
    assert np.isfinite(model.predict_mean_interval(X)).all()


@pytest.mark.parametrize("criterion", ["squared_error", "poisson"])
def test_intervals_hold_what_they_should(criterion, rng):
    X = rng.random((4000, 3))
    mean = 4.0 + 8.0 * (X[:, 0] > 0.5)
    y = rng.poisson(mean) if criterion == "poisson" else rng.normal(mean, 2.0)
    model = BayesTreeRegressor(criterion=criterion, split_prior="strict", min_samples_leaf=20).fit(X[:2000], y[:2000])
    low, high = model.predict_interval(X[2000:], 0.8).T
    assert 0.75 < np.mean((low <= y[2000:]) & (y[2000:] <= high)) < (0.9 if criterion == "poisson" else 0.84)
    low, high = model.predict_mean_interval(X[2000:], 0.999).T
    assert np.mean((low <= mean[2000:]) & (mean[2000:] <= high)) > 0.95
    assert (high - low).mean() < 3.0
    drawn = np.array([tree.predict(X[:50]) for tree in model.sample_posterior(400, 0)])
    low, high = model.predict_mean_interval(X[:50], 0.8).T
    assert abs(np.mean((low <= drawn) & (drawn <= high)) - 0.8) < 0.04


MODELS = [
    BayesTreeClassifier(random_state=0),
    BayesTreeClassifier(evidence="honest", random_state=0),
    BayesTreeRegressor(random_state=0),
    BayesTreeRegressor(criterion="poisson", evidence="honest", random_state=0),
]


def said(model, X):
    return model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_are_repetition_in_any_order(model, iris, rng):
    X, y = iris
    weight = rng.integers(0, 4, len(y))
    repeated = rng.permutation(np.repeat(np.arange(len(y)), weight))
    a = model.__class__(**model.get_params()).fit(X, y, weight)
    b = model.__class__(**model.get_params()).fit(X[repeated], y[repeated])
    np.testing.assert_allclose(said(a, X), said(b, X), rtol=1e-12)
    np.testing.assert_allclose(a.log_evidence_, b.log_evidence_, rtol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_saved_and_pickled(model, iris, tmp_path):
    X, y = iris
    model.fit(X, y)
    model.save(tmp_path / "tree.fastens")
    for same in (fastens.load(tmp_path / "tree.fastens"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(said(same, X), said(model, X))
        assert same.log_evidence_ == model.log_evidence_
        np.testing.assert_array_equal(said(same.reweight(split_prior=0.3), X), said(same.fit(X, y), X))


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_another_prior_is_as_if_fitted_with_it(model, iris):
    X, y = iris
    given = {"split_prior": (0.9, 1.0), "temperature": 3.0}
    given |= {"alpha": 2.0} if hasattr(model, "alpha") else {"prior_weight": 3.0}
    changed = model.__class__(**model.get_params()).fit(X, y).reweight(**given)
    fitted = model.__class__(**model.get_params() | given).fit(X, y)
    np.testing.assert_array_equal(said(changed, X), said(fitted, X))
    assert changed.log_evidence_ == fitted.log_evidence_
    assert changed.get_params() == fitted.get_params()


def test_prior_counts_the_splits_of_the_node_itself():
    """Of 20 and 3 thresholds and a constant column, the right node has 4 and 3 left."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(21).repeat(20), rng.integers(0, 4, 420), np.zeros(420)])
    y = (X[:, 0] >= 16) * (1 + (X[:, 0] >= 18) * (rng.random(420) < 0.9))
    model = BayesTreeClassifier(max_depth=2).fit(X, y)
    assert model._ensemble.feature.tolist()[:3] == [0, -1, 0]
    np.testing.assert_array_equal(model._n_splits, [2 * 20, 1, 2 * 4, 1, 1])
    prior = model._prunings._terms[2]
    np.testing.assert_allclose(np.exp(prior[[0, 2]]), [5 / 45, 5 / 13])


def test_file_whose_numbers_of_splits_do_not_fit(iris, tmp_path):
    model = BayesTreeClassifier().fit(*iris)
    model._n_splits = model._n_splits[1:]
    model.save(tmp_path / "tree.fastens")
    with pytest.raises(ValueError, match="the numbers of splits and the tree do not match"):
        fastens.load(tmp_path / "tree.fastens")


def test_reweight_refuses_options_outside_the_prior(iris):
    model = BayesTreeClassifier().fit(*iris)
    with pytest.raises(ValueError, match="reweight must be among alpha, split_prior, temperature; got 'max_depth'"):
        model.reweight(max_depth=3)
    with pytest.raises(ValueError, match=r"alpha must be None or a number greater than 0; got -1"):
        model.reweight(alpha=-1)
    with pytest.raises(ValueError, match="split_prior must be one of 'search', 'strict', 'features' or a number"):
        BayesTreeClassifier(split_prior=1.0).fit(*iris)


def test_default_prior_goes_with_the_splits_and_the_leaves(iris):
    X, y = iris
    weight = np.where(y == 0, 4.0, 1.0)
    model = BayesTreeClassifier(max_depth=3).fit(X, y, weight)
    shares = np.bincount(y, weight) / weight.sum()
    n_thresholds = sum(len(np.unique(column)) - 1 for column in X.T)
    n_rows = np.log(n_thresholds) * np.sqrt(model.get_n_leaves() / weight.sum())
    np.testing.assert_allclose(model._leaf_prior.alpha, n_rows * (1 / 6 + shares / 2), rtol=1e-5)
    before = model._leaf_prior
    model.partial_fit(X[y == 1], y[y == 1])
    assert model._leaf_prior == before


@pytest.mark.parametrize("kind", [int, float])
def test_counts_of_the_tree_match_its_rows(kind, iris):
    X, y = iris
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 4, len(y)).astype(np.float64) if kind is int else rng.random(len(y))
    model = BayesTreeClassifier().fit(X, y, weight)
    weight = weight if kind is int else weight / weight.mean()
    assert (model._stored_statistics(model._ensemble.tree(0), weight) is not None) == (kind is int)
    np.testing.assert_array_equal(model._node_statistics, model._sum_statistics(TrainingData(X, y, weight), y, weight))


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]], ids=str)
def test_more_rows_for_the_same_tree(model, iris):
    X, y = iris
    whole = model.__class__(**model.get_params()).fit(X, y)
    twice = model.__class__(**model.get_params()).partial_fit(X, y)
    np.testing.assert_array_equal(said(whole, X), said(twice, X))
    twice.partial_fit(X, y)
    assert twice.get_n_leaves() == whole.get_n_leaves()
    np.testing.assert_allclose(twice._node_statistics, 2 * whole._node_statistics)
    three = model.__class__(**model.get_params()).fit(X, y)
    three.partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    np.testing.assert_allclose(said(three, X), said(twice, X), rtol=1e-10)


@pytest.mark.parametrize(("first", "then"), [("squared_error", "poisson"), ("poisson", "squared_error")])
def test_statistics_match_the_criterion_of_fit(first, then):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.poisson(2.0, 40)
    model = BayesTreeRegressor(criterion=first).fit(X, y)
    expected = model.predict_interval(X), model.log_evidence_
    model.set_params(criterion=then)
    np.testing.assert_array_equal(model.predict_interval(X), expected[0])
    assert model.log_evidence_ == expected[1]
    with pytest.raises(ValueError, match="criterion must be the same as in fit for partial_fit"):
        model.partial_fit(X, y)


def test_more_rows_must_have_known_classes(iris):
    X, y = iris
    model = BayesTreeClassifier().fit(X[y < 2], y[y < 2])
    with pytest.raises(ValueError, match="y must hold the classes seen in fit; it holds 2"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must be the same as in the first call"):
        model.partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])


def test_honest_evidence_matches_other_rows(iris):
    X, y = iris
    model = BayesTreeClassifier(evidence="honest", random_state=3).fit(X, y)
    n_grown, n_counted = model._ensemble.weight[0], model._node_statistics[:, 0].sum()
    assert n_grown + n_counted == len(y)
    assert 50 < n_counted < 100


def test_missing_values_categories_and_weights_of_classes():
    rng = np.random.default_rng(1)
    colour = rng.choice(["red", "green", "blue"], 400)
    size = rng.normal(size=400)
    y = np.where((colour == "red") ^ (rng.random(400) < 0.1), "yes", "no")
    X = pd.DataFrame({"colour": pd.Categorical(colour), "size": np.where(rng.random(400) < 0.2, np.nan, size)})
    model = BayesTreeClassifier().fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.feature_probabilities_[0] > 0.999
    assert model.feature_probabilities_[1] < 0.5
    heavy = BayesTreeClassifier(class_weight={"yes": 5.0, "no": 1.0}).fit(X, y)
    weighted = BayesTreeClassifier().fit(X, y, np.where(y == "yes", 5.0, 1.0))
    np.testing.assert_array_equal(heavy.predict_proba(X), weighted.predict_proba(X))
    assert "colour" in model.map_estimator_.to_text()


def test_prediction_matches_a_tree(iris):
    X, y = iris
    model = BayesTreeClassifier().fit(X, y)
    parts = model.predict_contributions(X)
    np.testing.assert_allclose(parts.sum(axis=-1), model.predict_proba(X), atol=1e-9)


def test_less_log_loss_than_the_whole_tree():
    X, y = load_breast_cancer(return_X_y=True)
    found = {}
    for name, model in {"average": BayesTreeClassifier(), "half": BayesTreeClassifier(split_prior=0.5)}.items():
        found[name] = log_loss(y[1::2], model.fit(X[::2], y[::2]).predict_proba(X[1::2]))
    tree = DecisionTreeClassifier(random_state=0).fit(X[::2], y[::2])
    assert found["average"] < found["half"] < log_loss(y[1::2], tree.predict_proba(X[1::2]))


def test_no_monotone_constraints():
    with pytest.raises(TypeError, match="monotonic_cst"):
        BayesTreeClassifier(monotonic_cst=[1, 0])


def test_invalid_use_before_and_after_fit_raises(iris):
    with pytest.raises(NotFittedError):
        BayesTreeClassifier().predict_proba_interval(iris[0])
    model = BayesTreeClassifier().fit(*iris)
    for n in (0, -1, 1.5):
        with pytest.raises(ValueError, match=f"n must be a whole number of at least 1; got {n}"):
            model.sample_posterior(n)


def test_honest_tree_without_evidence_says_what_the_prior_says():
    model = BayesTreeClassifier(evidence="honest").fit([[0.0], [0.0], [1.0], [1.0]], [0, 0, 0, 1])
    assert np.isfinite(model.predict_proba([[0.0], [1.0]])).all()
    alone = BayesTreeClassifier(evidence="honest", random_state=0).fit([[0.0], [1.0]], [0, 1])
    assert np.isfinite(alone.log_evidence_)


def test_trees_of_posteriors_have_no_path_of_costs():
    assert hasattr(DecisionTreeClassifier(), "cost_complexity_pruning_path")
    assert not hasattr(BayesTreeClassifier(), "cost_complexity_pruning_path")


@pytest.mark.parametrize("far", [2.0**36, -(2.0**40)])
def test_targets_far_from_0_are_pruned_as_those_near_it(far, rng):
    X = np.round(rng.normal(size=(500, 2)) * 8) / 8
    y = np.round((X[:, 0] + rng.normal(size=500)) * 2**10) / 2**10
    near, model = BayesTreeRegressor().fit(X, y), BayesTreeRegressor().fit(X, y + far)
    assert model.log_evidence_ == pytest.approx(near.log_evidence_, rel=1e-6)
    np.testing.assert_allclose(model.predict(X) - far, near.predict(X), atol=1e-3)
