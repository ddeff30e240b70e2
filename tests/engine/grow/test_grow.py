"""Trees against their naive twin, and what must not change them: threads, weights as copies, order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastens.engine.bins.binning import learn_binning
from fastens.engine.grow.growth import GrowthParameters, TreeGrower, prune
from fastens.engine.losses.losses import AbsoluteError
from reference.grown import assert_same_tree, bin_rows, make_rows
from reference.growth import NaiveGrower, assert_in_the_middle


def assert_like_twin(tree, nodes, rel=1e-6):
    assert tree.n_nodes == len(nodes)
    for index, node in enumerate(nodes):
        assert tree.n_samples[index] == node["copies"]
        assert tree.value[index, 0] == pytest.approx(node["value"], rel=rel, abs=1e-9)
        if "children" in node:
            assert tree.feature[index] == node["split"]["feature"]
            assert tree.gain[index] == pytest.approx(node["split"]["gain"], rel=rel)
            assert tree.left_child[index] == node["children"][0]
        else:
            assert tree.feature[index] == -1


def sides_of(nodes):
    """The rows on the two sides of each node's split, or None."""
    return [tuple(nodes[child]["rows"] for child in node["children"]) if "children" in node else None for node in nodes]


@pytest.mark.parametrize(
    ("n_rows", "max_bins"),
    [
        *[(2, 255), (41, 255), (500, 20), (300, 1000), (2000, 60)],
        *[pytest.param(n_rows, 10, marks=pytest.mark.slow) for n_rows in (40_000, 70_000)],
    ],
)
@pytest.mark.parametrize("categorical", [(), (1, 4)])
def test_trees_match_the_reference(n_rows, max_bins, categorical):
    X, gradients, hessians = make_rows(n_rows)
    X[:, 4] = np.round(3 * np.abs(X[:, 4]))
    matrix = bin_rows(X, max_bins=max_bins, categorical=categorical)
    rules = GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, l2_regularization=0.5)
    tree = TreeGrower(matrix, rules).grow(gradients, hessians)
    twin = NaiveGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    nodes = twin.grow(gradients, hessians)
    assert_like_twin(tree, nodes)
    assert_in_the_middle(tree, matrix.columns, matrix.n_codes, matrix.thresholds, sides_of(nodes))


def test_one_code_of_many_rows_does_not_change_trees():
    """Large nodes have packed cells where no code has more rows than these hold: a constant column's has."""
    X, gradients, hessians = make_rows(60_000)
    rules = GrowthParameters(max_leaf_nodes=20, rows_per_threshold=100)
    packed = TreeGrower(bin_rows(X), rules).grow(gradients, hessians)
    wide = TreeGrower(bin_rows(np.column_stack([X, np.ones(len(X))])), rules).grow(gradients, hessians)
    assert sum(packed.n_samples[packed.left_child > 0] > 16_383) > 2
    assert_same_tree(packed, wide)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rules",
    [
        GrowthParameters(max_leaf_nodes=31, max_depth=2),
        GrowthParameters(max_leaf_nodes=6, min_child_weight=60.0),
        GrowthParameters(max_leaf_nodes=8, min_gain_to_split=40.0),
        GrowthParameters(max_leaf_nodes=31, min_samples_leaf=5, split_penalty=8.0, l2_regularization=0.5),
        GrowthParameters(max_leaf_nodes=8, min_samples_leaf=150),
        GrowthParameters(max_leaf_nodes=8, min_weight_leaf=300.0, min_samples_leaf=1),
    ],
    ids=lambda rules: repr(rules)[:60],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_rules_hold_as_in_the_twin(rules, weighted):
    X, gradients, hessians = make_rows(900, seed=3)
    weight = np.random.default_rng(1).integers(1, 4, 900).astype(np.float64) if weighted else None
    matrix = bin_rows(X, weight, max_bins=60)
    tree = TreeGrower(matrix, rules, weight).grow(gradients, hessians)
    twin = NaiveGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    assert_like_twin(tree, twin.grow(gradients, hessians, weight))


@pytest.mark.slow
@pytest.mark.parametrize("rows_per_threshold", [20, 100, 10**6])
@pytest.mark.parametrize(("n_rows", "max_bins", "weighted"), [(300, 255, False), (900, 60, True), (4000, 60, False)])
def test_thresholds_are_drawn_as_in_the_twin(n_rows, max_bins, weighted, rows_per_threshold):
    X, gradients, hessians = make_rows(n_rows, seed=4)
    weight = np.random.default_rng(1).integers(1, 4, n_rows).astype(np.float64) if weighted else None
    matrix = bin_rows(X, weight, max_bins=max_bins, categorical=(1,))
    rules = GrowthParameters(max_leaf_nodes=12, min_samples_leaf=5, rows_per_threshold=rows_per_threshold)
    twin = NaiveGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    grower = TreeGrower(matrix, rules, weight)
    trees = [grower.grow(gradients, hessians, seed=seed) for seed in (0, 2**63 + 5)]
    assert not np.array_equal(trees[0].bin_threshold, trees[1].bin_threshold)
    for tree, seed in zip(trees, (0, 2**63 + 5), strict=True):
        nodes = twin.grow(gradients, hessians, weight, seed=seed)
        assert_like_twin(tree, nodes)
        assert_in_the_middle(tree, matrix.columns, matrix.n_codes, matrix.thresholds, sides_of(nodes))


CATEGORY_RULES = [
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, min_samples_category=12),
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, one_hot_max_size=15),
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, max_categories_per_split=2, category_l2=0.0),
    GrowthParameters(max_leaf_nodes=10, min_samples_leaf=5, category_smoothing=0.0, category_l2=40.0),
    GrowthParameters(max_leaf_nodes=20, min_samples_leaf=25, one_hot_max_size=8),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "n_rows"),
    [*((rules, n_rows) for rules in CATEGORY_RULES for n_rows in (60, 900)), (CATEGORY_RULES[0], 40_000)],
)
def test_categories_as_in_the_twin(rules, n_rows):
    X, gradients, hessians = make_rows(n_rows, seed=2)
    X[:, 4] = np.round(3 * np.abs(X[:, 4]))
    X[:, 3] = np.floor(np.exp2(X[:, 3]))
    matrix = bin_rows(X, max_bins=20, categorical=(1, 3, 4))
    twin = NaiveGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    assert_like_twin(TreeGrower(matrix, rules).grow(gradients, hessians), twin.grow(gradients, hessians))


def test_rare_categories_go_together():
    """One category of 200 rows, 30 of 5 rows with gradients of their own."""
    column = np.concatenate([np.zeros(200), np.repeat(np.arange(1.0, 31.0), 5)])
    gradients = np.concatenate([np.zeros(200), np.repeat(np.arange(30.0) % 2 * 2 - 1, 5)]).astype(np.float32)
    matrix = bin_rows(column[:, None], categorical=(0,))
    ones = np.ones_like(gradients)
    told_apart = TreeGrower(matrix, GrowthParameters(min_samples_category=1)).grow(gradients, ones)
    pooled = TreeGrower(matrix, GrowthParameters(min_samples_category=6)).grow(gradients, ones)
    assert told_apart.n_leaves > 1
    assert pooled.n_leaves == 1


MONOTONE = np.array([1, -1, 0, 1, 0], dtype=np.int8)
GROUPS = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 1]], dtype=np.uint8)


CONSTRAINED = [
    GrowthParameters(max_leaf_nodes=12, monotone=MONOTONE),
    GrowthParameters(max_leaf_nodes=12, monotone=-MONOTONE, l2_regularization=3.0),
    GrowthParameters(max_leaf_nodes=12, path_smooth=30.0),
    GrowthParameters(max_leaf_nodes=12, max_delta_step=0.4),
    GrowthParameters(max_leaf_nodes=12, max_delta_step=0.4, path_smooth=5.0, monotone=MONOTONE),
    GrowthParameters(max_leaf_nodes=12, feature_groups=GROUPS),
    GrowthParameters(max_leaf_nodes=12, max_features_on_path=1),
    GrowthParameters(max_leaf_nodes=12, max_features_on_path=2),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rules", "n_rows", "categorical"),
    [
        *((rules, 700, categorical) for rules in CONSTRAINED for categorical in ((), (2,))),
        *((CONSTRAINED[place], 30_000, (2,)) for place in (4, 5)),
    ],
)
def test_constraints_as_in_the_twin(rules, n_rows, categorical):
    X, gradients, hessians = make_rows(n_rows, seed=5)
    X[:, 2] = np.round(3 * np.abs(X[:, 2]))
    gradients += np.float32(2) * np.nan_to_num(X[:, 3]).astype(np.float32) ** 2
    matrix = bin_rows(X, max_bins=30, categorical=categorical)
    twin = NaiveGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    assert_like_twin(TreeGrower(matrix, rules).grow(gradients, hessians), twin.grow(gradients, hessians), rel=2e-3)


@pytest.mark.slow
def test_constant_hessians_have_finer_gradients():
    X, gradients, _ = make_rows(2000)
    matrix, rules = bin_rows(X, max_bins=50), GrowthParameters(max_leaf_nodes=20)
    ones = np.ones_like(gradients)
    tree = TreeGrower(matrix, rules, constant_hessian=True).grow(gradients, ones)
    twin = NaiveGrower(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    assert_like_twin(tree, twin.grow(gradients, ones, constant_hessian=True))


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [300, 60_000])
@pytest.mark.parametrize("n_features", [8, 40])
@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("max_leaf_nodes", [31, None])
def test_threads_do_not_matter(n_rows, n_features, heavy, max_leaf_nodes):
    X, gradients, hessians = make_rows(n_rows, n_features=n_features, heavy=heavy)
    rules = GrowthParameters(max_leaf_nodes=max_leaf_nodes, max_depth=8)
    trees = [TreeGrower(bin_rows(X), rules, n_threads=n).grow(gradients, hessians) for n in (1, 2, 3, 7)]
    for tree in trees[1:]:
        assert_same_tree(trees[0], tree)


def test_threads_that_search_small_nodes_of_a_level_side_by_side(rng):
    """Of few columns with few codes: each node is too small for two threads, and a level has many of them."""
    X = rng.integers(0, 12, size=(20_000, 3)).astype(np.float64)
    gradients = rng.normal(size=20_000).astype(np.float32)
    rules = GrowthParameters(max_leaf_nodes=None, max_depth=7, min_samples_leaf=5)
    trees = [TreeGrower(bin_rows(X), rules, n_threads=n).grow(gradients, np.ones_like(gradients)) for n in (1, 3)]
    assert_same_tree(*trees)
    assert trees[0].n_nodes > 200


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n_rows=st.integers(1, 400),
    most=st.sampled_from([1, 3, 40]),
    heavy=st.booleans(),
    leaves=st.sampled_from([8, None]),
    categorical=st.booleans(),
)
def test_weights_are_copies(seed, n_rows, most, heavy, leaves, categorical):
    X, gradients, hessians = make_rows(n_rows, seed=seed, heavy=heavy)
    weight = np.random.default_rng(seed).integers(1, most + 1, n_rows)
    rules = GrowthParameters(max_leaf_nodes=leaves, min_samples_leaf=4, min_samples_category=3, max_depth=6)
    columns = (1,) if categorical else ()
    weighted = TreeGrower(bin_rows(X, weight.astype(float), categorical=columns), rules, weight.astype(float))
    rows = np.repeat(np.arange(n_rows), weight)
    copied = TreeGrower(bin_rows(X[rows], categorical=columns), rules)
    assert_same_tree(weighted.grow(gradients, hessians), copied.grow(gradients[rows], hessians[rows]))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), n_rows=st.integers(2, 20_000))
def test_order_of_rows_does_not_matter(seed, n_rows):
    X, gradients, hessians = make_rows(n_rows, seed=seed)
    order = np.random.default_rng(seed).permutation(n_rows)
    rules = GrowthParameters(max_leaf_nodes=12)
    one = TreeGrower(bin_rows(X), rules).grow(gradients, hessians)
    other = TreeGrower(bin_rows(X[order]), rules).grow(gradients[order], hessians[order])
    assert_same_tree(one, other)


def test_order_of_columns_does_not_matter():
    X, gradients, hessians = make_rows(4000)
    order = np.array([3, 0, 4, 1, 2])
    rules = GrowthParameters(max_leaf_nodes=12)
    one = TreeGrower(bin_rows(X), rules).grow(gradients, hessians)
    other = TreeGrower(bin_rows(X[:, order]), rules).grow(gradients, hessians)
    np.testing.assert_array_equal(one.value, other.value)
    split = other.feature >= 0
    np.testing.assert_array_equal(one.feature[split], order[other.feature[split]])


def test_counts_hold_to_the_row_where_hessians_vary():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(4000, 6))
    gradients = rng.normal(size=4000).astype(np.float32)
    hessians = (10.0 ** rng.uniform(-3, 0, 4000)).astype(np.float32)
    tree = TreeGrower(bin_rows(X), GrowthParameters(max_leaf_nodes=200, min_samples_leaf=17)).grow(gradients, hessians)
    assert tree.n_samples[tree.feature < 0].min() >= 17
    assert tree.n_samples[tree.feature < 0].sum() == 4000


def test_heavy_tails_keep_their_resolution():
    """One gradient 10^6 times the others must not hide the split that the others ask for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2))
    gradients = np.where(X[:, 0] > 0.3, 1.0, -1.0).astype(np.float32)
    X[0, 1], gradients[0] = 100.0, 1e6
    ones = np.ones(5000, dtype=np.float32)
    tree = TreeGrower(bin_rows(X), GrowthParameters(max_leaf_nodes=4, min_samples_leaf=1)).grow(gradients, ones)
    assert 0 in tree.feature


def test_a_sample_of_rows_and_features():
    X, gradients, hessians = make_rows(3000)
    matrix = bin_rows(X)
    rows = np.flatnonzero(np.random.default_rng(1).random(3000) < 0.5).astype(np.uint32)
    some = TreeGrower(matrix, GrowthParameters()).grow(gradients, hessians, rows)
    alone = TreeGrower(
        learn_binning(X, None, 255, np.zeros(5, dtype=bool), 1).transform(X[rows], 1), GrowthParameters()
    ).grow(gradients[rows], hessians[rows])
    np.testing.assert_array_equal(some.feature, alone.feature)
    assert some.n_samples[0] == len(rows)
    grower = TreeGrower(matrix, GrowthParameters(features_per_split=1))
    one, same, other = (grower.grow(gradients, hessians, seed=seed) for seed in (1, 1, 2))
    assert_same_tree(one, same)
    assert one.n_nodes != other.n_nodes or (one.feature != other.feature).any()


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("of_hessian", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_that_are_not_finite(value, of_hessian, weighted):
    X, gradients, hessians = make_rows(100)
    (hessians if of_hessian else gradients)[3] = value
    weight = np.ones(100) if weighted else None
    with pytest.raises(ValueError, match="finite"):
        TreeGrower(bin_rows(X), GrowthParameters(), weight).grow(gradients, hessians)


def test_weights_of_any_size():
    X, gradients, hessians = make_rows(2000)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, 2000)
    trees = [
        TreeGrower(bin_rows(X, weight * factor), GrowthParameters(min_child_weight=0), weight * factor).grow(
            gradients, hessians
        )
        for factor in (1.0, 2.0**-60, 2.0**40)
    ]
    for tree in trees[1:]:
        np.testing.assert_array_equal(tree.feature, trees[0].feature)
        np.testing.assert_allclose(tree.value, trees[0].value, rtol=1e-9)


def test_residuals_renew_leaves():
    X, y, _ = make_rows(1000)
    y = y.astype(np.float64)
    loss = AbsoluteError()
    grower = TreeGrower(bin_rows(X), GrowthParameters(max_leaf_nodes=4), constant_hessian=True)
    tree = grower.grow(np.sign(-y).astype(np.float32), np.ones(1000, dtype=np.float32))
    tree = grower.renew_leaves(tree, loss, y)
    raw = np.zeros(1000)
    grower.add_values(tree.value, raw)
    for value in np.unique(raw):
        residuals = y[raw == value] - value
        assert (residuals <= 0).mean() >= 0.5 >= (residuals < 0).mean()


PENALTY = GrowthParameters(max_leaf_nodes=50, min_samples_leaf=1, min_weight_leaf=20.0, split_penalty=80.0)


def test_rows_of_pruned_trees_are_in_the_leaves_that_are_left():
    X, gradients, hessians = make_rows(3000)
    rows = np.arange(0, 3000, 2, dtype=np.uint32)
    for n_threads in (1, 3):
        grower = TreeGrower(bin_rows(X), PENALTY, n_threads=n_threads)
        tree = grower.grow(gradients, hessians, rows)
        assert 1 < tree.n_leaves < 50
        raw = np.zeros(3000)
        grower.add_values(tree.value, raw)
        assert not raw[1::2].any()
        nodes, of_leaf, starts = grower.leaves()
        np.testing.assert_array_equal(np.sort(nodes), np.flatnonzero(tree.feature < 0))
        np.testing.assert_array_equal(np.sort(of_leaf), rows)
        for node, first, last in zip(nodes, starts[:-1], starts[1:], strict=True):
            assert last - first == tree.n_samples[node]
            assert (raw[of_leaf[first:last]] == tree.value[node, 0]).all()


@pytest.mark.parametrize("penalty", [0.5, 5.0, 50.0, 1e9])
def test_penalties_are_prices_that_trees_are_pruned_at(penalty):
    X, gradients, hessians = make_rows(2000)
    matrix, rules = bin_rows(X), replace(PENALTY, split_penalty=0.0)
    whole = TreeGrower(matrix, rules).grow(gradients, hessians)
    grower = TreeGrower(matrix, replace(rules, split_penalty=penalty))
    found = grower.grow(gradients, hessians)
    price = penalty * grower.dispersion
    assert_same_tree(found, prune(whole, price / whole.weight[0]))
    assert (found.n_nodes == 1) == (penalty == 1e9)


@pytest.mark.parametrize("heavy", [False, True])
def test_penalties_know_copies_but_no_threads_nor_scales(heavy, rng):
    X, gradients, hessians = make_rows(3000, heavy=heavy)
    times = rng.integers(1, 4, 3000)
    rows = np.repeat(np.arange(3000), times)
    copies = TreeGrower(bin_rows(X[rows]), PENALTY).grow(gradients[rows], hessians[rows])
    whole = times.astype(float)
    for n_threads in (1, 3):
        grower = TreeGrower(bin_rows(X, whole), PENALTY, whole, n_threads=n_threads)
        assert_same_tree(grower.grow(gradients, hessians), copies)
    weight = rng.uniform(0.1, 3.0, 3000)
    rules = replace(PENALTY, min_weight_leaf=0.0, min_samples_leaf=30, min_child_weight=0.0)
    trees = [
        TreeGrower(bin_rows(X, factor * weight), rules, factor * weight).grow(gradients, hessians)
        for factor in (1.0, 2.0**-40, 2.0**20)
    ]
    assert 1 < copies.n_leaves < 50
    assert len({tree.n_leaves for tree in trees}) == 1


def test_splits_that_only_lead_to_others_stay(rng):
    """The first split of an exclusive or gains nothing, those below it much; noise alone is not worth a split."""
    X = rng.integers(0, 2, size=(2000, 2)).astype(float)
    y = np.where(X[:, 0] == X[:, 1], 1.0, -1.0) + rng.normal(size=2000)
    ones = np.ones(2000, dtype=np.float32)
    rules = GrowthParameters(max_leaf_nodes=4, split_penalty=2.0)
    grow = TreeGrower(bin_rows(X), rules, constant_hessian=True).grow
    assert grow(-y.astype(np.float32), ones).n_leaves == 4
    noise = rng.normal(size=(2000, 3))
    few = TreeGrower(bin_rows(noise), GrowthParameters(split_penalty=40.0), constant_hessian=True)
    assert few.grow(rng.normal(size=2000).astype(np.float32), ones).n_leaves == 1
