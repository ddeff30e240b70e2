"""Averaging a grown tree with the evidence of small nodes as it is, and by logarithms throughout."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target, number_target
from fastens.engine.trees.trees import MeasuredTree, Tree
from fastens.posterior.averaging import (
    PruningPrior,
    TableSearch,
    TreeAverager,
    class_statistics,
    compact,
    node_statistics,
    nodes_of,
    number_statistics,
)
from fastens.posterior.leaf_priors import ClassPrior, NumberPrior

N_ROWS = 3000
COST = TableSearch(np.full(6, 50.0), None, random_thresholds=False)
SPLITS = [0.5, 0.03, 1 - 1e-9, (0.95, 1.0), "search"]


def grown(target, rng, weight=None, **rules):
    X = rng.normal(size=(N_ROWS, 6)).round(1)
    grower = ForestGrower(
        learn_binning(X).transform(X),
        target,
        ForestParameters(**rules),
        kind=MeasuredTree if target.n_classes is None else Tree,
    )
    return X, grower.grow([TreeSample(weight, None, 0)])[0]


def by_logarithms(prior, tree, leaves):
    statistics = node_statistics(tree, leaves)
    return prior.posterior(tree, statistics).average(prior.leaves.values(statistics)).T


@pytest.mark.parametrize("n_classes", [(2,), (3,), (2, 4)])
@pytest.mark.parametrize("alpha", [0.01, 1.5, 1e-30])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_classes(n_classes, alpha, split, rng):
    y = np.column_stack([np.minimum(rng.geometric(0.6, N_ROWS) - 1, n - 1) for n in n_classes])
    weight = rng.integers(0, 3, N_ROWS).astype(float)
    weight[:5] = 90_000  # more rows than log gammas are known of
    _, tree = grown(class_target(y, n_classes), rng, weight, min_samples_leaf=2)
    prior = PruningPrior(ClassPrior(alpha, n_classes), split, COST)
    averager = TreeAverager(prior, None)
    found = averager.average(0, tree, 1.0, None)
    [leaves] = averager.statistics(0, 1)
    assert leaves.dtype == np.uint32
    np.testing.assert_array_equal(leaves, class_statistics(tree, nodes_of(tree).leaf, prior.leaves))
    np.testing.assert_allclose(found.value, by_logarithms(prior, tree, leaves), rtol=1e-6, atol=1e-12)
    sums = [weight[column == k].sum() for column, n in zip(y.T, n_classes, strict=True) for k in range(n)]
    np.testing.assert_array_equal(leaves.sum(axis=1), sums)
    wide = replace(tree, value=tree.value.astype(np.float64))
    quick = prior._average_with_tables(wide, nodes_of(wide), leaves)
    np.testing.assert_allclose(quick, by_logarithms(prior, wide, leaves), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("shape", [1.0, 1.5, 0.77])
@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_numbers(n_targets, shape, split, rng):
    y = rng.normal(5, 1, (N_ROWS, n_targets)) + rng.integers(0, 2, N_ROWS)[:, None] * 3
    y[0] = 1e4
    weight = rng.integers(0, 3, N_ROWS).astype(float)
    _, tree = grown(number_target(y, np.float64), rng, weight, min_samples_leaf=2)
    prior = PruningPrior(NumberPrior(y.mean(axis=0), y.var(axis=0), 0.02, shape, 0.02), split, COST)
    leaves = number_statistics(tree, nodes_of(tree).leaf, prior.leaves)
    quick = prior._average_with_tables(tree, nodes_of(tree), leaves)
    np.testing.assert_allclose(quick, by_logarithms(prior, tree, leaves), rtol=1e-9)


@pytest.mark.parametrize("whole", [True, False])
def test_squares_of_grown_trees(whole, rng):
    y = rng.normal(1e3, 1, (N_ROWS, 2)) * [1.0, 1e-3]
    weight = rng.integers(0, 3, N_ROWS) * (1.0 if whole else 0.37)
    X, tree = grown(number_target(y), rng, weight, max_depth=5)
    codes = learn_binning(X).transform(X).columns
    for node, rows in rows_of_nodes(tree, codes).items():
        if tree.left_child[node]:
            assert (tree.squares[node] == 0).all()
            continue
        w = weight[rows]
        mean = np.average(y[rows], axis=0, weights=w)
        expected = (w[:, None] * (y[rows] - mean) ** 2).sum(axis=0)
        np.testing.assert_allclose(
            tree.squares[node] / y.var(axis=0), expected / y.var(axis=0), rtol=1e-9 if whole else 1e-4, atol=1e-6
        )


def rows_of_nodes(tree, codes):
    """The rows of each node, by walking."""
    found = {0: np.arange(codes.shape[1])}
    for node in np.flatnonzero(tree.left_child):
        rows, left = found[node], int(tree.left_child[node])
        code = codes[tree.feature[node], rows]
        goes_left = np.where(code == 0, tree.missing_left[node] > 0, code <= tree.bin_threshold[node])
        found[left], found[left + 1] = rows[goes_left], rows[~goes_left]
    return found


def test_weights_that_are_not_counts_take_logarithms(rng):
    y = rng.integers(0, 2, N_ROWS)
    _, tree = grown(class_target(y, [2]), rng, rng.random(N_ROWS))
    prior = PruningPrior(ClassPrior(0.1, (2,)), 0.3, COST)
    averager = TreeAverager(prior, None)
    found = averager.average(0, tree, 1.0, None)
    [leaves] = averager.statistics(0, 1)
    assert leaves.dtype == np.float32
    assert prior._average_with_tables(tree, nodes_of(tree), leaves) is None
    np.testing.assert_array_equal(found.value, by_logarithms(prior, tree, leaves).astype(np.float32))


@pytest.mark.parametrize("unit", [1e-40, 1e-3, 1e30])
def test_numbers_of_any_size_are_kept(unit, rng):
    y = rng.normal(0, unit, N_ROWS)
    _, tree = grown(number_target(y, np.float64), rng, min_samples_leaf=2)
    prior = NumberPrior(np.zeros(1), np.array([y.var()]), 0.02, 1.0, 0.02)
    found = number_statistics(tree, nodes_of(tree).leaf, prior)
    np.testing.assert_allclose(compact(found), found, rtol=1e-6)


def test_as_many_rows_as_32_bits_do_not_count(rng):
    y = rng.normal(size=N_ROWS)
    weight = np.full(N_ROWS, 2.0**19)
    weight[0] += 2.0**31 - weight.sum()
    _, tree = grown(number_target(y, np.float64), rng, weight, max_depth=1)
    prior = PruningPrior(NumberPrior(np.zeros(1), np.array([1.0]), 0.02, 1.0, 0.02), 0.5, COST)
    leaves = number_statistics(tree, nodes_of(tree).leaf, prior.leaves)
    averaged = prior.averaged(tree, nodes_of(tree), [leaves])
    np.testing.assert_allclose(averaged, by_logarithms(prior, tree, leaves), rtol=1e-9)
