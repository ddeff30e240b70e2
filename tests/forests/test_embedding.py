"""Leaves of trees as features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix, issparse
from sklearn.datasets import load_breast_cancer, make_circles
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import fastens
from fastens import GradientBoostingClassifier, RandomForestClassifier, RandomTreesEmbedding
from reference.sklearn_checks import parametrize_with_checks


@parametrize_with_checks([RandomTreesEmbedding(10, max_leaf_nodes=8, sparse_output=False)])
def test_sklearn_check(check):
    check()


def test_makes_circles_linear():
    X, y = make_circles(2000, factor=0.5, noise=0.1, random_state=0)
    model = make_pipeline(RandomTreesEmbedding(50, random_state=0), LogisticRegression())
    assert LogisticRegression().fit(X[::2], y[::2]).score(X[1::2], y[1::2]) < 0.6
    assert model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.95


def test_one_column_of_each_tree_is_set(rng):
    X = rng.standard_normal((300, 4))
    model = RandomTreesEmbedding(20, max_depth=3, random_state=0)
    found = model.fit_transform(X)
    assert issparse(found)
    names = model.get_feature_names_out()
    tree = np.array([int(name.split("_")[1]) for name in names])
    np.testing.assert_array_equal(found @ (tree[:, None] == np.arange(20)), np.ones((300, 20)))
    assert len(set(names)) == found.shape[1] <= 20 * 2**3
    np.testing.assert_array_equal(model.set_params(sparse_output=False).transform(X), found.toarray())


@pytest.mark.parametrize(
    ("name", "value", "most"), [("max_depth", 2, 4), ("max_leaf_nodes", 3, 3), ("min_samples_leaf", 20, 15)]
)
def test_limits_of_trees(rng, name, value, most):
    X = rng.standard_normal((300, 4))
    small = RandomTreesEmbedding(10, random_state=0, **{name: value}).fit_transform(X)
    assert 10 < small.shape[1] <= 10 * most


def test_missing_values_categories_and_sparse_rows(rng):
    frame = pd.DataFrame({"a": rng.standard_normal(200), "b": pd.Categorical(rng.choice(list("xyz"), 200))})
    frame.loc[::5, "a"] = np.nan
    assert RandomTreesEmbedding(5, random_state=0).fit_transform(frame).shape[0] == 200
    X = np.where(rng.random((200, 5)) < 0.7, 0, rng.standard_normal((200, 5)))
    dense, sparse = (RandomTreesEmbedding(5, random_state=0).fit_transform(rows) for rows in (X, csr_matrix(X)))
    np.testing.assert_array_equal(dense.toarray(), sparse.toarray())


def test_same_for_any_threads_weights_are_repetition_and_saved(rng, tmp_path):
    X = rng.standard_normal((200, 4))
    weight = rng.integers(0, 3, 200)
    one, two = (RandomTreesEmbedding(10, random_state=3, n_jobs=n).fit(X, sample_weight=weight) for n in (1, 2))
    repeated = RandomTreesEmbedding(10, random_state=3).fit(np.repeat(X, weight, axis=0))
    one.save(tmp_path / "model.fastens")
    expected = one.transform(X).toarray()
    for same in (two, repeated, fastens.load(tmp_path / "model.fastens")):
        np.testing.assert_array_equal(same.transform(X).toarray(), expected)


@pytest.mark.parametrize("model", [GradientBoostingClassifier(n_estimators=10), RandomForestClassifier(10)])
def test_leaves_of_trained_trees(model):
    X, y = load_breast_cancer(return_X_y=True)
    features = model.fit(X[::2], y[::2]).leaf_features(X)
    assert features.shape[0] == len(X)
    np.testing.assert_array_equal(features.sum(axis=1), np.full((len(X), 1), 10))
    assert LogisticRegression(max_iter=1000).fit(features[::2], y[::2]).score(features[1::2], y[1::2]) > 0.9
