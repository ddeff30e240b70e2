"""Trees with several outputs against their naive twin, and what must not change them."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from reference.grown import ARRAYS, assert_same_tree, bin_rows, make_rows
from reference.growth import assert_in_the_middle
from reference.joint_growth import NaiveJointGrower

RULES = [
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, l2_regularization=0.5),
    GrowthParameters(max_leaf_nodes=31, max_depth=2),
    GrowthParameters(max_leaf_nodes=6, min_child_weight=60.0),
    GrowthParameters(max_leaf_nodes=8, min_gain_to_split=400.0),
    GrowthParameters(max_leaf_nodes=8, min_samples_leaf=150),
    GrowthParameters(max_leaf_nodes=8, min_weight_leaf=300.0, min_samples_leaf=1),
    GrowthParameters(max_leaf_nodes=8, max_features_on_path=1),
    GrowthParameters(max_leaf_nodes=31, min_samples_leaf=5, split_penalty=6.0),
    GrowthParameters(max_leaf_nodes=12, min_samples_leaf=5, rows_per_threshold=100),
]
MONOTONE = [
    GrowthParameters(max_leaf_nodes=8, min_samples_leaf=5, l2_regularization=l2, monotone=np.array(signs, np.int8))
    for l2, signs in [(0.0, [1, 0, -1, 0, 0]), (2.0, [-1, 1, 1, 1, -1])]
]


def make_outputs(n_rows, n_outputs=3, heavy=False):
    parts = [make_rows(n_rows, seed=seed, heavy=heavy and seed == 1) for seed in range(n_outputs)]
    gradients = np.stack([part[1] for part in parts]) * np.float32(10.0) ** np.arange(n_outputs)[:, None]
    return parts[0][0], gradients.astype(np.float32), np.stack([part[2] for part in parts])


def grower_of(matrix, rules, n_outputs, weight=None, **options):
    return TreeGrower(matrix.with_payloads(n_outputs), rules, weight, **options)


def assert_like_twin(tree, nodes, *, values=True):
    assert tree.n_nodes == len(nodes)
    for index, node in enumerate(nodes):
        assert tree.n_samples[index] == node["copies"]
        if values:
            np.testing.assert_allclose(tree.value[index], node["value"], rtol=1e-6, atol=1e-9)
        if "children" in node:
            assert tree.feature[index] == node["split"]["feature"]
            assert tree.gain[index] == pytest.approx(node["split"]["gain"], rel=1e-6)
            assert tree.left_child[index] == node["children"][0]
        else:
            assert tree.feature[index] == -1


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: repr(rules)[:70])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_match_the_reference(rules, weighted):
    X, gradients, hessians = make_outputs(900)
    weight = np.random.default_rng(1).integers(1, 4, 900).astype(np.float64) if weighted else None
    matrix = bin_rows(X, weight, max_bins=60)
    tree = grower_of(matrix, rules, 3, weight).grow(gradients, hessians)
    twin = NaiveJointGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    nodes = twin.grow(gradients, hessians, weight)
    assert_like_twin(tree, nodes)
    sides = [tuple(nodes[k]["rows"] for k in node["children"]) if "children" in node else None for node in nodes]
    assert_in_the_middle(tree, matrix.columns, matrix.n_codes, matrix.thresholds, sides)


def leaves_below(tree, node):
    if tree.left_child[node] == 0:
        return [node]
    return leaves_below(tree, tree.left_child[node]) + leaves_below(tree, tree.left_child[node] + 1)


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "n_rows"), [(MONOTONE[0], 900), (MONOTONE[1], 900), (MONOTONE[1], 40_000)])
def test_every_output_is_monotone(rules, n_rows):
    """Gains are those of the twin, and no leaf on one side of a split on a monotone feature passes one on the other."""
    X, gradients, hessians = make_outputs(n_rows)
    matrix = bin_rows(X, max_bins=30)
    tree = grower_of(matrix, rules, 3).grow(gradients, hessians)
    twin = NaiveJointGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    assert_like_twin(tree, twin.grow(gradients, hessians), values=False)
    bound = np.flatnonzero((tree.feature >= 0) & (rules.monotone[tree.feature] != 0))
    assert len(bound) > 0
    for node in bound:
        left, right = (tree.value[leaves_below(tree, tree.left_child[node] + side)] for side in (0, 1))
        step = rules.monotone[tree.feature[node]] * (right[None] - left[:, None])
        assert step.min() >= 0


CATEGORY_RULES = [
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, min_samples_category=12),
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, one_hot_max_size=15),
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, max_categories_per_split=2, category_l2=0.0),
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, category_smoothing=0.0, category_l2=40.0),
]


@pytest.mark.parametrize(
    ("rules", "n_rows"),
    [
        *((rules, n_rows) for rules in CATEGORY_RULES for n_rows in (60, 900)),
        pytest.param(CATEGORY_RULES[0], 40_000, marks=pytest.mark.slow),
    ],
)
def test_categories_as_in_the_twin(rules, n_rows):
    X, gradients, hessians = make_outputs(n_rows, 2)
    X[:, 4] = np.round(3 * np.abs(X[:, 4]))
    X[:, 3] = np.floor(np.exp2(X[:, 3]))
    matrix = bin_rows(X, max_bins=20, categorical=(1, 3, 4))
    tree = grower_of(matrix, rules, 2).grow(gradients, hessians)
    twin = NaiveJointGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    assert_like_twin(tree, twin.grow(gradients, hessians))


def test_outputs_with_hessians_of_other_scales():
    """Categories in the order of an output whose hessians are all the same; those of the first are nearly all small."""
    X, gradients, hessians = make_outputs(900, 2)
    X[:, 4] = np.arange(900) % 12
    gradients[0] *= 1e-3
    gradients[1] += 40 * np.cos(X[:, 4])
    hessians[0], hessians[1] = 1e-3, 1.0
    hessians[0, :5] = 1.0
    matrix = bin_rows(X, max_bins=20, categorical=(4,))
    tree = grower_of(matrix, CATEGORY_RULES[0], 2).grow(gradients, hessians)
    twin = NaiveJointGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, CATEGORY_RULES[0])
    assert tree.feature[0] == 4
    assert_like_twin(tree, twin.grow(gradients, hessians))


def test_one_output_with_heavy_tails_has_wide_cells():
    X, gradients, hessians = make_outputs(900, heavy=True)
    matrix = bin_rows(X)
    tree = grower_of(matrix, RULES[0], 3).grow(gradients, hessians)
    alone = TreeGrower(bin_rows(X), RULES[0]).grow(gradients[1], hessians[1])
    same = grower_of(matrix, RULES[0], 2).grow(gradients[[1, 1]], hessians[[1, 1]])
    np.testing.assert_array_equal(same.value, np.repeat(alone.value, 2, axis=1))
    assert tree.n_nodes == 19


@pytest.mark.parametrize("n_rows", [300, 40_000])
@pytest.mark.parametrize("max_bins", [255, 1000])
@pytest.mark.parametrize("level_wise", [False, True])
@pytest.mark.parametrize("weights", [None, "whole", "shares"])
def test_equal_outputs_grow_the_tree_of_one(n_rows, max_bins, level_wise, weights, rng):
    X, gradients, hessians = make_rows(n_rows)
    weight = {"whole": rng.integers(1, 20, n_rows) * 1.0, "shares": rng.random(n_rows) + 0.1}.get(weights)
    matrix = bin_rows(X, max_bins=max_bins, categorical=(1,))
    rules = GrowthParameters(max_leaf_nodes=None if level_wise else 20, max_depth=4, l2_regularization=1.0)
    alone = TreeGrower(matrix, rules, weight).grow(gradients, hessians)
    joint = grower_of(matrix, rules, 2, weight, n_threads=2).grow(np.stack([gradients] * 2), np.stack([hessians] * 2))
    for name in ARRAYS:
        expected = getattr(alone, name)
        found = getattr(joint, name)
        np.testing.assert_array_equal(found, np.repeat(expected, 2, axis=1) if name == "value" else expected, name)
    np.testing.assert_allclose(joint.gain, 2 * alone.gain, rtol=1e-9)
    np.testing.assert_allclose(joint.weight, alone.weight, rtol=1e-3)


def test_threads_and_copies_change_nothing(rng):
    X, gradients, hessians = make_outputs(30_000)
    matrix, rules = bin_rows(X), GrowthParameters(max_leaf_nodes=31, features_per_split=3)
    one, four = (grower_of(matrix, rules, 3, n_threads=n).grow(gradients, hessians, seed=5) for n in (1, 4))
    assert_same_tree(one, four)
    times = rng.integers(1, 4, 3000)
    X, gradients, hessians = make_outputs(3000)
    rows = np.repeat(np.arange(3000), times)
    for rules in (RULES[5], GrowthParameters(min_weight_leaf=30.0, min_samples_leaf=1, split_penalty=6.0)):
        weighted = grower_of(bin_rows(X, times.astype(float)), rules, 3, times.astype(float))
        copies = grower_of(bin_rows(X[rows]), rules, 3)
        assert_same_tree(
            weighted.grow(gradients, hessians),
            copies.grow(np.ascontiguousarray(gradients[:, rows]), np.ascontiguousarray(hessians[:, rows])),
        )


@pytest.mark.parametrize("rules", [RULES[0], RULES[-1]])
def test_a_part_of_the_rows_and_values_of_leaves(rules):
    X, gradients, hessians = make_outputs(2000)
    matrix, rows = bin_rows(X), np.arange(0, 2000, 2, dtype=np.uint32)
    grower = grower_of(matrix, rules, 3)
    tree = grower.grow(gradients, hessians, rows)
    assert tree.n_samples[0] == 1000
    raw = np.zeros((3, 2000))
    grower.add_values(tree.value, raw)
    assert not raw[:, 1::2].any()
    nodes, of_leaf, starts = grower.leaves()
    for node, first, last in zip(nodes, starts[:-1], starts[1:], strict=True):
        np.testing.assert_array_equal(raw[:, of_leaf[first:last]], np.repeat(tree.value[[node]].T, last - first, 1))


def test_limits_of_values():
    X, gradients, hessians = make_outputs(900)
    matrix = bin_rows(X)
    tree = grower_of(matrix, GrowthParameters(max_leaf_nodes=8, max_delta_step=0.5), 3).grow(gradients, hessians)
    assert np.abs(tree.value).max() == 0.5
    free = grower_of(matrix, GrowthParameters(max_leaf_nodes=8), 3).grow(gradients, hessians)
    smooth = grower_of(matrix, GrowthParameters(max_leaf_nodes=8, path_smooth=1e9), 3).grow(gradients, hessians)
    np.testing.assert_array_equal(smooth.feature, free.feature)
    np.testing.assert_allclose(smooth.value, np.repeat(free.value[:1], len(free.value), axis=0), rtol=1e-4)


def test_gradients_must_be_finite():
    X, gradients, hessians = make_outputs(100)
    gradients[2, 7] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        grower_of(bin_rows(X), GrowthParameters(), 3).grow(gradients, hessians)
