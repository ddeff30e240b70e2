"""Sums over all prunings, against naming every one of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from fastens.engine.grow.growth import cut
from fastens.posterior import averages as kernel
from fastens.posterior.averaging import Prunings, depths
from reference import prunings as twin
from reference.pruning import random_tree


def random_case(seed):
    """A small tree, evidence of its nodes and prior probabilities of its splits; and all prunings."""
    rng = np.random.default_rng(seed)
    left_child = random_tree(rng, int(rng.integers(1, 8))).left_child
    log_evidence = rng.normal(-20, 3, len(left_child))
    # Parts of a node are about as probable as the node, so that both are likely to be chosen.
    split_prior = rng.uniform(0.05, 0.95, len(left_child))
    for node in np.flatnonzero(left_child)[::-1]:
        log_evidence[node] = log_evidence[left_child[node] : left_child[node] + 2].sum() + rng.normal()
    found, logs = twin.log_joints(left_child, log_evidence, split_prior)
    return rng, Prunings(left_child, log_evidence, split_prior), found, logs


@pytest.mark.parametrize("seed", range(60))
def test_evidence_and_posterior(seed):
    _, prunings, found, logs = random_case(seed)
    np.testing.assert_allclose(prunings.log_evidence[0], logsumexp(logs), rtol=1e-13)
    posterior = np.exp(logs - logsumexp(logs))
    for node in range(len(prunings.left_child)):
        reached = sum(w for w, p in zip(posterior, found, strict=True) if node in p.leaves | p.splits)
        stops = sum(w for w, p in zip(posterior, found, strict=True) if node in p.leaves)
        np.testing.assert_allclose([prunings.reach[node], prunings.stop[node]], [reached, stops], atol=1e-13)


@pytest.mark.parametrize("seed", range(60))
def test_best_pruning(seed):
    _, prunings, found, logs = random_case(seed)
    np.testing.assert_allclose(prunings.map_log_joint, logs.max(), rtol=1e-13)
    is_leaf = prunings.map_leaves()
    reached = np.unique(prunings.nodes_of(is_leaf)[prunings.left_child == 0])
    assert set(reached.tolist()) == found[int(logs.argmax())].leaves


def test_the_smaller_of_equal_prunings_is_best():
    tree = np.array([1, 0, 0], dtype=np.int32)
    prunings = Prunings(tree, np.log([0.25, 0.5, 0.5]), np.full(3, 0.5))
    assert prunings.map_leaves().tolist() == [True, True, True]


@pytest.mark.parametrize("seed", range(60))
def test_average(seed):
    rng, prunings, found, logs = random_case(seed)
    posterior = np.exp(logs - logsumexp(logs))
    values = rng.random((2, len(prunings.left_child)))
    averaged = prunings.average(values)
    for leaf in np.flatnonzero(prunings.left_child == 0):
        way = twin.way_to(prunings.left_child, int(leaf))
        said = [next(values[:, node] for node in way if node in p.leaves) for p in found]
        np.testing.assert_allclose(averaged[:, leaf], posterior @ np.array(said), rtol=1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_shape(seed):
    rng, prunings, found, logs = random_case(seed)
    log_posterior = logs - logsumexp(logs)
    posterior = np.exp(log_posterior)
    np.testing.assert_allclose(prunings.expected_leaves(), posterior @ [len(p.leaves) for p in found], rtol=1e-12)
    np.testing.assert_allclose(prunings.entropy(), -posterior @ log_posterior, rtol=1e-11, atol=1e-12)
    feature = np.where(prunings.left_child > 0, rng.integers(0, 3, len(prunings.left_child)), -1).astype(np.int32)
    used = [posterior @ [any(feature[node] == j for node in p.splits) for p in found] for j in range(4)]
    np.testing.assert_allclose(prunings.use_of_features(feature, 4), used, atol=1e-12)


@pytest.mark.parametrize("seed", [1, 5, 8])
def test_draws_follow_the_posterior(seed):
    rng, prunings, found, logs = random_case(seed)
    posterior = dict(zip((p.leaves for p in found), np.exp(logs - logsumexp(logs)), strict=True))
    n, seen = 4000, dict.fromkeys(posterior, 0)
    leaves = np.flatnonzero(prunings.left_child == 0)
    for _ in range(n):
        seen[frozenset(prunings.nodes_of(prunings.draw_leaves(rng))[leaves].tolist())] += 1
    for pruning, count in seen.items():
        p = posterior[pruning]
        assert abs(count / n - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-12
    # A row's own pruning: the leaf it ends in.
    drawn = prunings.draw_nodes(np.repeat(leaves[-1], n), rng)
    for node in twin.way_to(prunings.left_child, int(leaves[-1])):
        p = prunings.stop[node]
        assert abs(np.mean(drawn == node) - p) < 5 * np.sqrt(p * (1 - p) / n) + 1e-12


def test_certain_splits_have_no_uncertainty():
    tree = np.array([1, 0, 0], dtype=np.int32)
    for log_evidence in ([-1000.0, -1.0, -1.0], [-1.0, -1000.0, -1.0]):
        prunings = Prunings(tree, np.array(log_evidence), np.full(3, 0.5))
        assert prunings.split[0] in (0.0, 1.0)
        assert prunings.entropy() == 0.0


def test_tree_that_ends_at_some_nodes():
    tree = random_tree(np.random.default_rng(3), 9)
    is_leaf = np.zeros(tree.n_nodes, dtype=bool)
    assert cut(tree, is_leaf).n_nodes == tree.n_nodes
    is_leaf[tree.left_child[0]] = True
    smaller = cut(tree, is_leaf)
    assert smaller.value[smaller.left_child[0]] == tree.value[tree.left_child[0]]
    assert smaller.left_child[smaller.left_child[0]] == 0
    is_leaf[0] = True
    assert cut(tree, is_leaf).n_nodes == 1


def test_depths():
    left_child = np.array([1, 0, 3, 0, 5, 0, 0], dtype=np.int32)
    assert depths(left_child).tolist() == [0, 1, 1, 2, 2, 3, 3]
    assert kernel.parents_and_depths(left_child)[0].tolist() == [-1, 0, 0, 2, 2, 4, 4]
