"""Bounds of nodes, and lines that keep to them."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.bins.binning import learn_binning
from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from fastens.engine.linear.linear_leaves import LeafModels, bounds_of_nodes, lines_within_limits

MONOTONE = np.array([1, -1, 0], dtype=np.int8)


@pytest.fixture
def grown(rng):
    """A tree with values within its limits, and lines without."""
    X = rng.normal(size=(600, 3))
    gradients = (rng.normal(size=600) - 2 * X[:, 0] + X[:, 1] + X[:, 2]).astype(np.float32)
    matrix = learn_binning(X).transform(X)
    grower = TreeGrower(matrix, GrowthParameters(max_leaf_nodes=12, monotone=MONOTONE))
    tree = grower.grow(gradients, np.ones_like(gradients))
    models = LeafModels(X, np.zeros(3, bool), None, 0.0, 1)
    linear = models.fit(tree, grower.leaves(), gradients, np.ones_like(gradients), np.ones(tree.n_nodes))
    return X, tree, grower, gradients, linear


def leaves_below(tree, node):
    left = tree.left_child[node]
    return leaves_below(tree, left) + leaves_below(tree, left + 1) if left else [node]


def naive_bounds(tree, monotone):
    """Every leaf against every constrained split above it."""
    lower, upper = np.full((2, tree.n_nodes), [[-np.inf], [np.inf]])
    for node in np.flatnonzero(tree.left_child):
        left, sign = tree.left_child[node], monotone[tree.feature[node]]
        low, high = leaves_below(tree, left)[:], leaves_below(tree, left + 1)
        if sign < 0:
            low, high = high, low
        if sign:
            cut = (tree.value[low, 0].max() + tree.value[high, 0].min()) / 2
            upper[low], lower[high] = np.minimum(upper[low], cut), np.maximum(lower[high], cut)
    return lower, upper


def test_bounds_match_the_reference(grown):
    _, tree, *_ = grown
    leaves = tree.left_child == 0
    found, expected = bounds_of_nodes(tree, MONOTONE, np.inf), naive_bounds(tree, MONOTONE)
    for ours, naive in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours[leaves], naive[leaves])
    assert np.isfinite(found).sum() > leaves.sum() / 2
    lower, upper = bounds_of_nodes(tree, MONOTONE, 0.25)
    np.testing.assert_array_equal(lower[leaves], np.maximum(expected[0], -0.25)[leaves])
    np.testing.assert_array_equal(upper[leaves], np.minimum(expected[1], 0.25)[leaves])
    lower, upper = bounds_of_nodes(tree, None, 2.0)
    assert set(lower) == {-2.0}
    assert set(upper) == {2.0}


def test_lines_keep_to_the_bounds_and_lose_no_more_than_they_must(grown):
    _, tree, _, _, linear = grown
    bound = lines_within_limits(tree, linear, MONOTONE, np.inf)
    lower, upper = naive_bounds(tree, MONOTONE)
    n_flatter = 0
    for node in np.unique(linear.nodes):
        ours, theirs = (part.part(node, node + 1) for part in (bound, linear))
        ends = np.stack([each * theirs.slopes for each in (theirs.lower, theirs.upper)]) - theirs.at_means
        reach = tree.value[node, 0] + np.array([ends.min(axis=0).sum(), ends.max(axis=0).sum()])
        if len(ours.slopes) == 0:  # the value is at a bound, as far as numbers tell
            n_flatter += 1
            assert min(tree.value[node, 0] - lower[node], upper[node] - tree.value[node, 0]) < 1e-12
            continue
        factor = ours.slopes[0] / theirs.slopes[0]
        np.testing.assert_allclose(ours.slopes, factor * theirs.slopes)
        np.testing.assert_allclose(ours.at_means, factor * theirs.at_means)
        bounded = tree.value[node, 0] + factor * (reach - tree.value[node, 0])
        assert lower[node] <= bounded[0] <= bounded[1] <= upper[node]
        if lower[node] <= reach[0] and reach[1] <= upper[node]:
            assert factor == 1
        else:
            n_flatter += 1
            assert min(bounded[0] - lower[node], upper[node] - bounded[1]) < 1e-8
    assert 0 < n_flatter < len(np.unique(linear.nodes))
    free = lines_within_limits(tree, linear, None, np.inf)
    np.testing.assert_array_equal(free.slopes, linear.slopes)


def test_features_whose_slopes_have_the_wrong_sign_are_left_out(grown):
    """The others are fitted without them, as a least-squares fit of those alone."""
    X, tree, grower, gradients, free = grown
    ones, signs = np.ones_like(gradients), np.array([0, 0, 1], dtype=np.int8)
    models = LeafModels(X, np.zeros(3, bool), None, 0.0, 1, signs)
    linear = models.fit(tree, grower.leaves(), gradients, ones, np.ones(tree.n_nodes))
    assert (free.slopes[free.features == 2] < 0).any()
    assert (linear.slopes[linear.features == 2] >= 0).all()
    nodes, rows, starts = grower.leaves()
    n_left_out = 0
    for node, first, last in zip(nodes, starts[:-1], starts[1:], strict=True):
        ours, theirs, own = linear.part(node, node + 1), free.part(node, node + 1), rows[first:last]
        if set(ours.features) != set(theirs.features):
            n_left_out += 1
            centred = X[own][:, ours.features] - X[own][:, ours.features].mean(axis=0)
            expected = np.linalg.lstsq(centred, -gradients[own] + gradients[own].mean(), rcond=None)[0]
            np.testing.assert_allclose(ours.slopes, expected, atol=1e-5)
        else:
            np.testing.assert_array_equal(ours.slopes, theirs.slopes)
    assert n_left_out > 0
