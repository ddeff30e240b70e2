"""Where rows go, against scikit-learn and the leaves."""

from __future__ import annotations

from time import process_time
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from fastens.engine.trees.contributions import decision_path, depths, leaf_features, parents
from reference.sklearn_trees import ensemble_of, order_of


@pytest.fixture(scope="module")
def fitted():
    X, y = make_classification(400, 8, random_state=0)
    forest = RandomForestClassifier(5, random_state=0, n_jobs=1).fit(X, y)
    return X.astype(np.float32).astype(np.float64), forest, ensemble_of(forest.estimators_)


def test_decision_path_matches_scikit_learn(fitted):
    X, forest, trees = fitted
    indicator, n_nodes_ptr = decision_path(trees, X[:50], 2)
    expected, expected_ptr = forest.decision_path(X[:50])
    np.testing.assert_array_equal(n_nodes_ptr, expected_ptr)
    # scikit-learn numbers the nodes of a tree in another order.
    place = np.concatenate(
        [first + order_of(tree.tree_) for first, tree in zip(n_nodes_ptr, forest.estimators_, strict=False)]
    )
    np.testing.assert_array_equal(indicator.toarray()[:, place], expected.toarray())
    assert indicator.has_canonical_format
    assert indicator.dtype == expected.dtype


def test_no_rows(fitted):
    X, _, trees = fitted
    indicator, _ = decision_path(trees, X[:0])
    assert indicator.shape == (0, len(trees.feature))
    assert leaf_features(trees, trees.apply(X[:0])).shape == (0, trees.n_leaves.sum())


def test_leaf_features_tell_the_leaves(fitted):
    X, _, trees = fitted
    features = leaf_features(trees, trees.apply(X))
    assert features.shape == (400, trees.n_leaves.sum())
    assert (features.sum(axis=1) == trees.n_trees).all()
    values = trees.value[trees.left_child == 0]
    np.testing.assert_allclose(features @ values, trees.predict_raw(X), rtol=1e-6)


def test_parents_and_depths(fitted):
    _, forest, trees = fitted
    parent, depth = parents(trees), depths(trees)
    assert (parent < 0).sum() == trees.n_trees
    inner = np.flatnonzero(parent >= 0)
    np.testing.assert_array_equal(depth[inner], depth[parent[inner]] + 1)
    np.testing.assert_array_equal(
        np.maximum.reduceat(depth, trees.node_offsets[:-1]), [tree.get_depth() for tree in forest.estimators_]
    )


def test_depths_of_a_chain_take_no_square_of_its_nodes():
    n_splits = 40_000
    left_child = np.zeros(2 * n_splits + 1, dtype=np.int32)
    left_child[np.r_[0, 1 : 2 * n_splits - 1 : 2]] = np.arange(1, 2 * n_splits, 2)
    start = process_time()
    depth = depths(SimpleNamespace(left_child=left_child, node_offsets=np.array([0, len(left_child)])))
    assert process_time() - start < 1.0
    np.testing.assert_array_equal(depth, np.r_[0, np.repeat(np.arange(1, n_splits + 1), 2)])
