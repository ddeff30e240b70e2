"""Walks of chosen rows against the naive twin."""

from __future__ import annotations

import numpy as np
import pytest
from fastens.engine.predict.walk import Walker

from fastens.engine.bins.binning import learn_binning
from fastens.engine.trees.trees import TreeEnsemble
from reference import predict as random_trees
from reference import walk as twin

N_ROWS = 60


@pytest.fixture(params=[8, 1000], ids="max_bins={}".format)
def rows(request):
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [rng.normal(size=600), rng.exponential(size=600), rng.integers(0, 40, 600), rng.normal(size=600)]
    )
    X[rng.random(X.shape) < 0.1] = np.nan
    binning = learn_binning(X, None, request.param, np.array([False, False, True, False]))
    return binning, binning.transform(X[:N_ROWS])


def make_trees(binning, rng, n_values=1, dtype=np.float32):
    trees = [random_trees.random_tree(rng, binning, n, n_values, dtype) for n in (1, 2, 9, 40)]
    return TreeEnsemble.from_trees(trees, [0] * len(trees), [0.0] * n_values, binning)


@pytest.mark.parametrize("n_values", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_rows_left_out(rows, n_values, dtype, rng):
    binning, matrix = rows
    trees = make_trees(binning, rng, n_values, dtype)
    counts = rng.integers(0, 3, (trees.n_trees, N_ROWS)).astype(float)
    expected = twin.left_out(trees, matrix.columns, counts)
    for n_threads in (1, 3):
        walker = Walker(trees, matrix)
        sums, n_trees = np.zeros((N_ROWS, n_values)), np.zeros(N_ROWS, dtype=np.int32)
        for t in range(trees.n_trees):
            value = trees.value[trees.node_offsets[t] : trees.node_offsets[t + 1]]
            walker.add_left_out(t, value, counts[t], sums, n_trees, n_threads)
        np.testing.assert_array_equal(sums, expected[0])
        np.testing.assert_array_equal(n_trees, expected[1])


@pytest.fixture(params=[None, np.array([0, 1, 1, 0])], ids=["each its own column", "columns of two"])
def column_of(request):
    return request.param


def columns_or_features(column_of):
    return np.arange(4) if column_of is None else column_of


@pytest.mark.parametrize("is_class", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_permuted_rows(rows, column_of, is_class, weighted, rng):
    binning, matrix = rows
    trees = make_trees(binning, rng)
    y = rng.integers(0, 3, (N_ROWS, 2)).astype(float)
    weight = rng.random(N_ROWS) if weighted else None
    weights = np.ones(N_ROWS) if weight is None else weight
    chosen = np.sort(rng.choice(N_ROWS, 40, replace=False)).astype(np.uint32)
    pairs = np.stack([chosen, rng.permutation(chosen)])
    walker = Walker(trees, matrix, column_of)
    for t in range(trees.n_trees):
        answers = rng.integers(0, 3, (trees.node_offsets[t + 1] - trees.node_offsets[t], 2)).astype(float)

        def loss(row, node, answers=answers):
            miss = y[row] - answers[node]
            return weights[row] * ((miss != 0).sum() if is_class else (miss**2).sum())

        expected = twin.permuted_losses(trees, t, matrix.columns, pairs, loss, columns_or_features(column_of))
        found = np.ones(len(expected))
        walker.permuted_losses(t, pairs, weight, y, answers, is_class, found)
        np.testing.assert_allclose(found - 1, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_values", [1, 2])
def test_changes_of_permuted_rows(rows, column_of, n_values, rng):
    binning, matrix = rows
    trees = make_trees(binning, rng, n_values)
    others = rng.permutation(N_ROWS).astype(np.uint32)
    expected = twin.permuted_changes(trees, matrix.columns, others, 5, 50, columns_or_features(column_of))
    walker = Walker(trees, matrix, column_of)
    found = walker.permuted_changes(trees.value, others, 5, 50, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(walker.permuted_changes(trees.value, others, 5, 50, 3), found)
