"""The short form of trees: small, exact, and refused where it is no longer that of trees."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from fastens.engine.bins.binning import learn_binning
from fastens.engine.trees.packing import pack, unpack
from fastens.engine.trees.trees import ENSEMBLE_DTYPES, TreeEnsemble
from reference import predict as twin
from reference.sklearn_trees import ensemble_of


def make_binning(max_bins=255):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=3000), rng.integers(40, size=3000), rng.exponential(size=3000)])
    return learn_binning(X, None, max_bins, np.array([False, True, False]), 1)


def with_sums(tree, weight):
    """The same tree with counts and weights of inner nodes that are the sums of those of their leaves."""
    n_samples, weight = tree.n_samples.copy(), weight.copy()
    for node in np.flatnonzero(tree.left_child)[::-1]:
        children = tree.left_child[node] + np.arange(2)
        n_samples[node], weight[node] = n_samples[children].sum(), weight[children].sum()
    return replace(tree, n_samples=n_samples, weight=weight)


def forest(kind, dtype=np.float64):
    rng = np.random.default_rng(1)
    binning = make_binning()
    trees = [twin.random_tree(rng, binning, n, 2, np.float32) for n in (40, 1, 300, 7)]
    if kind != "no sums":
        weights = {"counts": "n_samples", "whole": "weight", "any": "weight"}[kind]
        trees = [
            with_sums(tree, getattr(tree, weights) * (1.0 if kind != "whole" else 0) + 3.0 * (kind == "whole"))
            for tree in trees
        ]
    trees = [replace(tree, weight=tree.weight.astype(dtype)) for tree in trees]
    return TreeEnsemble.from_trees(trees, np.zeros(4, np.int32), np.zeros(2), binning)


def assert_same(one, other):
    for name in ENSEMBLE_DTYPES:
        assert getattr(one, name).dtype == getattr(other, name).dtype, name
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["no sums", "counts", "whole", "any"])
def test_all_comes_back(kind, dtype):
    trees = forest(kind, dtype)
    packed = pack(trees)
    assert_same(TreeEnsemble(trees.binning, **unpack(packed, trees.binning)), trees)
    assert len(packed["weight"]) == {"no sums": 692, "counts": 0, "whole": 348, "any": len(packed["weight"])}[kind]
    assert len(packed["n_samples"]) == (692 if kind == "no sums" else 348)


def test_no_trees():
    trees = TreeEnsemble.from_trees([], [], [0.5], make_binning())
    again = pickle.loads(pickle.dumps(trees))
    assert_same(again, trees)
    assert again.predict_raw(np.zeros((3, 3))).tolist() == [[0.5]] * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "data"), [(RandomForestClassifier, make_classification), (RandomForestRegressor, make_regression)]
)
def test_a_quarter_of_scikit_learn(model, data):
    X, y = data(2000, 10, random_state=0)
    forest = model(10, random_state=0, n_jobs=1).fit(X, y)
    trees = ensemble_of(forest.estimators_)
    assert len(trees.feature) == sum(tree.tree_.node_count for tree in forest.estimators_)
    assert len(pickle.dumps(trees)) <= len(pickle.dumps(forest)) / 4
    again = pickle.loads(pickle.dumps(trees))
    np.testing.assert_array_equal(again.predict_raw(X), trees.predict_raw(X))
    np.testing.assert_array_equal(again.apply(X), trees.apply(X))
    np.testing.assert_array_equal(again.threshold, trees.threshold)
    for name, array in trees.to_arrays().items():
        assert again.to_arrays()[name].dtype == array.dtype, name
        np.testing.assert_array_equal(again.to_arrays()[name], array)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("is_leaf", lambda a: ~a),
        ("is_leaf", lambda a: a[:-1]),
        ("pair", lambda a: a + 1),
        ("pair", lambda a: a[::-1]),
        ("pair", lambda a: a.astype(np.uint64) + 2**40),
        ("feature", lambda a: a + 3),
        ("feature", lambda a: a[:-1]),
        ("bin_threshold", lambda a: a.astype(np.uint16) + 255),
        ("missing_left", lambda a: a[:-1]),
        ("category_set", lambda a: np.array([1])),
        ("category_words", lambda a: a[:-1]),
        ("value", lambda a: a[:-1]),
        ("value", lambda a: a[:, 0]),
        ("value", lambda a: a[:, :0]),
        ("gain", lambda a: a[1:]),
        ("n_samples", lambda a: a[1:]),
        ("weight", lambda a: a[1:]),
        ("weight", lambda a: a.astype(str)),
        ("node_offsets", lambda a: a[:-1]),
        ("node_offsets", lambda a: a - 1),
        ("node_offsets", lambda a: a[:0]),
        ("tree_output", lambda a: a + 2),
        ("baseline", lambda a: a[:0]),
        ("baseline", lambda a: a[None]),
        ("wide", lambda a: a[:1]),
    ],
)
def test_invalid_ensembles_raise(name, change):
    arrays = forest("no sums").to_arrays()
    with pytest.raises(ValueError, match="does not describe trees"):
        TreeEnsemble.from_arrays(arrays | {name: change(arrays[name])})
    with pytest.raises(ValueError, match=name):
        TreeEnsemble.from_arrays({key: array for key, array in arrays.items() if key != name})
