"""Pruning: the weakest links one by one, and scikit-learn's path."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, make_regression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fastens.engine.grow.growth import prune, pruning_path
from fastens.engine.trees.trees import TreeEnsemble
from reference import pruning as twin
from reference.sklearn_trees import ensemble_of

MODELS = [
    (DecisionTreeClassifier(random_state=0), load_breast_cancer),
    (DecisionTreeClassifier(criterion="entropy", random_state=0), load_breast_cancer),
    (DecisionTreeClassifier(min_samples_leaf=5, max_depth=6, random_state=0), load_breast_cancer),
    (DecisionTreeRegressor(random_state=0, max_leaf_nodes=60), load_diabetes),
]


def fitted(model, load):
    X, y = load(return_X_y=True)
    return X, model.fit(X, y), ensemble_of([model])


@pytest.mark.parametrize(("model", "load"), MODELS)
def test_path_matches_scikit_learn(model, load):
    _, _, trees = fitted(model, load)
    expected = model.cost_complexity_pruning_path(*load(return_X_y=True))
    alphas, impurities = pruning_path(trees.tree(0), expected.impurities[0])
    np.testing.assert_allclose(alphas, expected.ccp_alphas, rtol=1e-6, atol=1e-12 * expected.impurities[-1])
    np.testing.assert_allclose(impurities, expected.impurities, rtol=1e-6, atol=1e-12 * expected.impurities[-1])


@pytest.mark.parametrize(("model", "load"), MODELS)
def test_pruned_trees_predict_as_scikit_learn(model, load):
    X, _, trees = fitted(model, load)
    alphas, _ = pruning_path(trees.tree(0))
    for alpha in (0.0, *(alphas[1:] + alphas[:-1])[::7] / 2, 2 * alphas[-1]):
        peer = type(model)(**model.get_params() | {"ccp_alpha": alpha}).fit(X, load(return_X_y=True)[1])
        expected = ensemble_of([peer])
        pruned = TreeEnsemble.from_trees([prune(trees.tree(0), alpha)], [0], np.zeros(1), trees.binning)
        assert pruned.n_leaves[0] == peer.get_n_leaves()
        np.testing.assert_array_equal(pruned.predict_raw(X), expected.predict_raw(X))
        np.testing.assert_array_equal(pruned.n_samples, expected.n_samples)


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_twin(seed):
    rng = np.random.default_rng(seed)
    tree = twin.random_tree(rng, int(rng.integers(1, 60)))
    alphas, impurities = pruning_path(tree, 0.25)
    expected_alphas, expected_impurities = twin.pruning_path(tree, 0.25)
    np.testing.assert_allclose(alphas, expected_alphas, rtol=1e-9)
    np.testing.assert_allclose(impurities, expected_impurities, rtol=1e-9)
    for alpha in rng.uniform(0, alphas[-1] + 0.1, size=5):
        assert prune(tree, alpha).n_leaves == twin.n_leaves_after(tree, alpha)


def test_subtrees_are_nested_and_best():
    X, y = make_regression(3000, 5, noise=50, random_state=0)
    tree = ensemble_of([DecisionTreeRegressor(random_state=0).fit(X, y)]).tree(0)
    alphas, impurities = pruning_path(tree)
    assert (np.diff(alphas) >= 0).all()
    assert (np.diff(impurities) >= 0).all()
    sizes = [prune(tree, alpha).n_leaves for alpha in alphas[::100]]
    assert sizes == sorted(sizes, reverse=True)
    assert prune(tree, alphas[-1]).n_nodes == 1


@pytest.mark.slow
def test_large_trees_are_fast():
    tree = twin.random_tree(np.random.default_rng(0), 100_000)
    start = time.perf_counter()
    alphas, _ = pruning_path(tree)
    assert time.perf_counter() - start < 2
    assert prune(tree, alphas[len(alphas) // 2]).n_leaves < 100_000
