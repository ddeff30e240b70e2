"""Trees of forests against their specification and scikit-learn's, and what must not change them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target, number_target
from fastens.engine.trees.trees import TREE_DTYPES, SearchedTree
from reference.forest_growth import (
    NaiveForest,
    drawn_features,
    paths_of_nodes,
    random_code,
    rows_of_nodes,
    values_of_bins,
)
from reference.growth import assert_in_the_middle

CLASS_CRITERIA = ["gini", "entropy"]
NUMBER_CRITERIA = ["squared_error", "poisson", "absolute_error"]


def make_rows(n_rows=150, n_features=5, missing=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X[:, 1] = np.round(2 * X[:, 1])
    X[:, 2] = rng.integers(0, 6, n_rows)
    signal = X[:, 0] + np.abs(X[:, 1]) + np.isin(X[:, 2], [1, 4]) + rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    return X, signal


def make_target(signal, kind):
    levels = np.argsort(np.argsort(signal))
    if kind == "two classes":
        return class_target(2 * levels // len(signal), [2])
    if kind == "four classes":
        return class_target(4 * levels // len(signal), [4])
    if kind == "class targets":
        return class_target(np.column_stack([2 * levels // len(signal), np.arange(len(signal)) % 3]), [2, 3])
    if kind == "number targets":
        return number_target(np.column_stack([signal, np.sin(5 * signal)]) + 9.0)
    return number_target(np.maximum(np.round(signal - signal.min(), 2) - 1.0, 0.0))


def bin_rows(X, weight=None, max_bins=255, categorical=()):
    is_categorical = np.isin(np.arange(X.shape[1]), categorical)
    return learn_binning(X, weight, max_bins, is_categorical).transform(X)


def grow_one(matrix, target, rules, weight=None, *, seed=0, features=None, X=None):
    return ForestGrower(matrix, target, rules, X=X).grow([TreeSample(weight, features, seed)])[0]


def check_nodes(tree, matrix, target, rules, weight=None, *, optimal=True, tolerance=1e-6):
    """Every node has the sums of its rows, every split is as good as the best, every leaf has a reason."""
    twin = NaiveForest(matrix, target, rules, weight)
    rows, depth = rows_of_nodes(tree, matrix.columns, np.flatnonzero(twin.weight > 0))
    path = paths_of_nodes(tree)
    scale = twin.impurity(rows[0])
    for node in range(tree.n_nodes):
        here = rows[node]
        assert tree.n_samples[node] == len(here)
        assert tree.weight[node] == pytest.approx(twin.weight[here].sum(), rel=1e-4)
        np.testing.assert_allclose(tree.value[node], twin.value(here), rtol=1e-4, atol=1e-5)
        split = tree.feature[node] >= 0
        if split:
            left = np.isin(here, rows[tree.left_child[node]])[None]
            [gain] = twin.gains(here, left)
            assert tree.gain[node] == pytest.approx(gain, rel=1e-4, abs=tolerance * scale)
            assert twin.are_allowed(here, tree.feature[node], left).all()
            assert twin.may_use(tree.feature[node], path[node])
        assert not split or twin.may_split(here, depth[node])
        if optimal and twin.may_split(here, depth[node]):
            best = twin.best_gain(here, path[node])
            too_small = best < rules.min_impurity_decrease * twin.weight[rows[0]].sum()
            assert split == (best > -np.inf and not too_small)
            if split:
                assert tree.gain[node] == pytest.approx(best, rel=1e-4, abs=tolerance * scale)
    if not rules.random_thresholds:
        sides = [(rows[k], rows[k + 1]) if k > 0 else None for k in tree.left_child]
        assert_in_the_middle(tree, matrix.columns, matrix.n_codes, matrix.thresholds, sides)


CASES = [
    *[(kind, criterion) for kind in ("two classes", "four classes", "class targets") for criterion in CLASS_CRITERIA],
    *[(kind, criterion) for kind in ("numbers", "number targets") for criterion in NUMBER_CRITERIA],
]


@pytest.mark.parametrize(("kind", "criterion"), CASES)
@pytest.mark.parametrize(
    "limits",
    [
        {},
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ({"min_samples_leaf": 4, "max_depth": 4}, {"min_weight_leaf": 9.0})
        ),
    ],
)
def test_every_split_is_the_best(kind, criterion, limits):
    X, signal = make_rows()
    matrix, target = bin_rows(X), make_target(signal, kind)
    weight = np.random.default_rng(1).integers(0, 4, len(X)).astype(np.float64)
    rules = ForestParameters(criterion, **limits)
    tree = grow_one(matrix, target, rules, weight)
    assert tree.n_nodes > 5
    check_nodes(tree, matrix, target, rules, weight)


@pytest.mark.parametrize("random_thresholds", [False, True])
@pytest.mark.parametrize(("kind", "criterion"), CASES)
@pytest.mark.parametrize("categorical", [(), (2, 6)])
def test_searched_splits_match_the_reference(kind, criterion, categorical, random_thresholds):
    X, signal = make_rows(n_features=7)
    X[:, 5], X[:, 6] = 1.0, signal > 0
    matrix, target = bin_rows(X, categorical=categorical), make_target(signal, kind)
    weight = np.random.default_rng(1).integers(0, 4, len(X)).astype(np.float64)
    rules = ForestParameters(criterion, random_thresholds=random_thresholds)
    [tree] = ForestGrower(matrix, target, rules, X=X, kind=SearchedTree).grow([TreeSample(weight, None, 0)])
    assert_same_trees([tree], [grow_one(matrix, target, rules, weight, X=X)])
    rows, _ = rows_of_nodes(tree, matrix.columns, np.flatnonzero(weight > 0))
    above = {int(left) + side: node for node, left in enumerate(tree.left_child) if left for side in (0, 1)}
    for node in range(tree.n_nodes):
        if tree.feature[node] < 0:
            assert tree.n_usable[node] == tree.n_groups[node] == 0
            continue
        known = rows[above[node]] if node else []
        constant = [len(np.unique(codes[known])) == 1 for codes in matrix.columns]
        assert tree.n_usable[node] == 7 - sum(constant)
        if not random_thresholds:
            assert tree.n_groups[node] == len(np.unique(matrix.columns[tree.feature[node], rows[node]]))


@pytest.mark.parametrize("max_bins", [10, 1000])
@pytest.mark.parametrize("n_rows", [2, 3, 40, 300])
def test_nodes_of_any_size(n_rows, max_bins):
    X, signal = make_rows(n_rows, missing=0.05)
    matrix, target, rules = bin_rows(X, max_bins=max_bins), make_target(signal, "two classes"), ForestParameters()
    check_nodes(grow_one(matrix, target, rules), matrix, target, rules)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two classes", "numbers", "four classes"])
def test_weights_of_any_size(kind):
    X, signal = make_rows()
    matrix, target = bin_rows(X), make_target(signal, kind)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    weight[::7] = 0.0
    for factor in (1.0, 1e-9, 1e9):
        rules = ForestParameters("squared_error" if kind == "numbers" else "gini", min_samples_leaf=3)
        tree = grow_one(matrix, target, rules, weight * factor)
        check_nodes(tree, matrix, target, rules, weight * factor, tolerance=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two classes", "four classes"])
def test_entropy_of_weights_that_are_in_no_table(kind):
    """The root takes logarithms, nodes of a weight below 65,536 look them up: both are as good as the best."""
    X, signal = make_rows()
    matrix, target = bin_rows(X, categorical=[2]), make_target(signal, kind)
    weight = np.random.default_rng(1).integers(0, 4000, len(X)).astype(np.float64)
    tree = grow_one(matrix, target, ForestParameters("entropy"), weight)
    assert tree.weight[0] > 65_536 > tree.weight[tree.left_child > 0].min()
    check_nodes(tree, matrix, target, ForestParameters("entropy"), weight, optimal=kind == "two classes")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two classes", "numbers"])
@pytest.mark.parametrize("criterion", ["squares", "entropy or poisson"])
def test_categories(kind, criterion):
    X, signal = make_rows()
    matrix, target = bin_rows(X, categorical=[1, 2] if (X[:, 1] >= 0).all() else [2]), make_target(signal, kind)
    names = {"two classes": CLASS_CRITERIA, "numbers": NUMBER_CRITERIA[:2]}[kind]
    rules = ForestParameters(names[criterion != "squares"], max_depth=4)
    tree = grow_one(matrix, target, rules)
    assert (tree.category_set >= 0).any()
    check_nodes(tree, matrix, target, rules)


@pytest.mark.parametrize(("kind", "criterion"), [("four classes", "gini"), ("numbers", "absolute_error")])
def test_categories_where_no_order_is_known_to_be_best(kind, criterion):
    X, signal = make_rows()
    matrix, target, rules = (
        bin_rows(X, categorical=[2]),
        make_target(signal, kind),
        ForestParameters(criterion, max_depth=4),
    )
    tree = grow_one(matrix, target, rules)
    assert (tree.category_set >= 0).any()
    check_nodes(tree, matrix, target, rules, optimal=False)


def test_classes_without_common_categories_are_split_at_once():
    codes = np.repeat(np.arange(6.0), 20)[:, None]
    y = np.repeat([0, 2, 1, 2, 0, 1], 20)
    tree = grow_one(bin_rows(codes, categorical=[0]), class_target(y, [3]), ForestParameters())
    assert tree.n_leaves == 3


@pytest.mark.parametrize("criterion", ["gini", "squared_error", "absolute_error"])
def test_monotone_constraints(criterion):
    X, signal = make_rows(missing=0.0)
    matrix, target = bin_rows(X), make_target(signal, "two classes" if criterion == "gini" else "numbers")
    rules = ForestParameters(criterion, monotone=np.array([1, -1, 0, 1, 0], np.int8), max_depth=6)
    tree = grow_one(matrix, target, rules)
    check_nodes(tree, matrix, target, rules, optimal=False)
    grid = np.linspace(-3, 3, 50)
    binning = learn_binning(X)
    for feature, sign in ((0, 1), (1, -1), (3, 1)):
        for row in X[:20]:
            line = np.tile(row, (50, 1))
            line[:, feature] = grid
            leaves = leaves_of(tree, binning.codes(line))
            assert (sign * np.diff(tree.value[leaves, 0]) >= -1e-6).all()


GROUPS = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]], np.uint8)
BOUND = {
    "one on a path": {"max_features_on_path": 1},
    "two on a path": {"max_features_on_path": 2},
    "groups": {"feature_groups": GROUPS},
    "features in no group": {"feature_groups": GROUPS[:2]},
    "groups and two on a path": {"feature_groups": GROUPS[:2] + GROUPS[2], "max_features_on_path": 2},
    "weights": {"feature_weights": np.array([1.0, 0.0, 2.0, 0.5, 0.0])},
}


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{}, {"max_leaf_nodes": 12}, {"random_thresholds": True}])
@pytest.mark.parametrize("rules", BOUND.values(), ids=BOUND)
def test_features_bound_by_those_above(rules, limits):
    """Every split is the best of those whose features may stand there."""
    X, signal = make_rows()
    matrix, target = bin_rows(X, categorical=[2]), make_target(signal, "two classes")
    rules = ForestParameters(**rules, **limits)
    tree = grow_one(matrix, target, rules, X=X)
    assert tree.n_nodes > 10
    check_nodes(tree, matrix, target, rules, optimal=not limits)
    drawn = replace(rules, features_per_split=1)
    check_nodes(grow_one(matrix, target, drawn, features=[0, 2, 3, 4], X=X), matrix, target, drawn, optimal=False)


@pytest.mark.parametrize("n_features", [5, 70, 200])
@pytest.mark.parametrize("n_drawn", [1, 4])
def test_weighted_draws_match_the_reference(n_features, n_drawn):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(50, n_features)), np.round(rng.exponential(size=n_features), 1)
    matrix, target = bin_rows(X), number_target(rng.normal(size=50))
    rules = ForestParameters("squared_error", features_per_split=n_drawn, feature_weights=weights, max_depth=1)
    trees = ForestGrower(matrix, target, rules).grow([TreeSample(None, None, seed) for seed in range(150)])
    gains = [
        grow_one(matrix, target, ForestParameters("squared_error", max_depth=1), features=[f]).gain[0]
        for f in range(n_features)
    ]
    for seed, tree in enumerate(trees):
        drawn = drawn_features(weights, min(n_drawn, np.count_nonzero(weights)), seed)
        assert tree.feature[0] in drawn
        assert tree.gain[0] == max(gains[f] for f in drawn)


def leaves_of(tree, codes):
    rows, _ = rows_of_nodes(tree, codes, np.arange(codes.shape[1]))
    leaves = np.empty(codes.shape[1], np.int64)
    for node in np.flatnonzero(tree.feature < 0):
        leaves[rows[node]] = node
    return leaves


@pytest.mark.slow
def test_min_impurity_decrease_and_min_samples_split():
    X, signal = make_rows()
    matrix, target = bin_rows(X), make_target(signal, "numbers")
    rules = ForestParameters("squared_error", min_impurity_decrease=0.02, min_samples_split=20)
    tree = grow_one(matrix, target, rules)
    assert 3 < tree.n_nodes < 60
    check_nodes(tree, matrix, target, rules)


@pytest.mark.parametrize(("kind", "criterion"), [("two classes", "gini"), ("numbers", "absolute_error")])
def test_best_first_splits_the_largest_gains(kind, criterion):
    X, signal = make_rows()
    matrix, target = bin_rows(X), make_target(signal, kind)
    full = grow_one(matrix, target, ForestParameters(criterion, max_leaf_nodes=10**6))
    assert full.n_leaves == grow_one(matrix, target, ForestParameters(criterion)).n_leaves
    rules = ForestParameters(criterion, max_leaf_nodes=8)
    tree = grow_one(matrix, target, rules)
    assert tree.n_leaves == 8
    check_nodes(tree, matrix, target, rules, optimal=False)
    np.testing.assert_array_equal(tree.n_samples, full.n_samples[: tree.n_nodes])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "criterion"), CASES)
@pytest.mark.parametrize("max_bins", [255, 2000])
def test_random_thresholds(kind, criterion, max_bins):
    X, signal = make_rows(400)
    matrix, target = bin_rows(X, max_bins=max_bins, categorical=[2]), make_target(signal, kind)
    rules = ForestParameters(criterion, random_thresholds=True, features_per_split=2, min_samples_leaf=2)
    trees = [grow_one(matrix, target, rules, seed=seed, X=X) for seed in (1, 2)]
    assert trees[0].n_nodes > 20
    assert trees[0].n_nodes != trees[1].n_nodes or (trees[0].feature != trees[1].feature).any()
    check_nodes(trees[0], matrix, target, rules, optimal=False)


def test_random_thresholds_spread_over_the_values_and_not_over_the_rows():
    x = np.concatenate([np.linspace(0, 1, 900), np.linspace(1, 10, 100)])[:, None]
    binning = learn_binning(x)
    rules = ForestParameters("squared_error", random_thresholds=True, max_depth=1)
    grower = ForestGrower(binning.transform(x), number_target(x[:, 0]), rules, X=x)
    cut = [
        binning.thresholds[0][tree.bin_threshold[0] - 1]
        for tree in grower.grow([TreeSample(None, None, s) for s in range(600)])
    ]
    assert np.mean(np.array(cut) < 1.0) == pytest.approx(0.1, abs=0.04)
    assert np.mean(cut) == pytest.approx(5.0, abs=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["two classes", "four classes", "numbers"])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "uniform", "to the left", "few values"])
@pytest.mark.parametrize("max_bins", [255, 3000])
def test_random_thresholds_are_where_the_twin_has_them(kind, shape, max_bins):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 1))
    x = {"lognormal": np.exp(2 * x), "uniform": rng.random(x.shape), "to the left": -np.exp(x)}.get(shape, x)
    x = np.round(x) if shape == "few values" else x
    binning = learn_binning(x, max_bins=max_bins)
    matrix, target = binning.transform(x), make_target(rng.normal(size=len(x)), kind)
    criterion = "squared_error" if kind == "numbers" else "gini"
    grower = ForestGrower(matrix, target, ForestParameters(criterion, random_thresholds=True, max_depth=1), X=x)
    values = values_of_bins(matrix.columns[0], x[:, 0], binning.n_codes[0])
    trees = grower.grow([TreeSample(None, None, seed) for seed in range(200)])
    expected = [random_code(values, matrix.columns[0], 0, seed) for seed in range(200)]
    assert [int(tree.bin_threshold[0]) for tree in trees] == expected
    assert len(set(expected)) > 2


def test_features_are_drawn_evenly_and_constant_ones_do_not_count():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8))
    X[:, [2, 5]] = 1.0
    target, matrix = number_target(rng.normal(size=60)), bin_rows(X)
    grower = ForestGrower(matrix, target, ForestParameters("squared_error", features_per_split=1, max_depth=1))
    roots = [tree.feature[0] for tree in grower.grow([TreeSample(None, None, seed) for seed in range(1200)])]
    counts = np.bincount(roots, minlength=8)
    assert counts[[2, 5]].sum() == 0
    assert (np.abs(counts[[0, 1, 3, 4, 6, 7]] - 200) < 60).all()
    only = grow_one(matrix, target, ForestParameters("squared_error"), features=np.array([1, 6]))
    assert set(only.feature) == {-1, 1, 6}


@pytest.mark.slow
@pytest.mark.parametrize(("n_features", "n_rows"), [(70, 60), (300, 40)])
def test_many_features(n_features, n_rows):
    """More than a cache line of codes a row: large nodes are read by column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    matrix, rules = bin_rows(X), ForestParameters(max_depth=2)
    target = class_target((X[:, 33] + X[:, 65] > 0).astype(int), [2])
    check_nodes(grow_one(matrix, target, rules), matrix, target, rules)
    drawn = grow_one(matrix, target, ForestParameters(features_per_split=5), seed=3)
    check_nodes(drawn, matrix, target, ForestParameters(), optimal=False)


def assert_same_trees(first, second, left_out=()):
    for a, b in zip(first, second, strict=True):
        for name in TREE_DTYPES:
            if name not in left_out:
                np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize(
    "rules",
    [
        ForestParameters(),
        ForestParameters(features_per_split=2),
        ForestParameters("entropy", max_leaf_nodes=50),
        ForestParameters(
            features_per_split=2, feature_groups=GROUPS, feature_weights=np.array([1.0, 2.0, 0.5, 1.0, 0.0])
        ),
    ],
)
@pytest.mark.parametrize("random_thresholds", [False, True])
def test_threads_do_not_matter(rules, random_thresholds):
    X, signal = make_rows(30_000)
    rules = replace(rules, random_thresholds=random_thresholds)
    matrix, target = bin_rows(X, categorical=[2]), make_target(signal, "two classes")
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(np.float64)
    samples = [TreeSample(weight, None, 1), TreeSample(None, np.array([0, 1, 2]), 2), TreeSample(weight, None, 3)]
    alone = [tree for sample in samples for tree in ForestGrower(matrix, target, rules, 3, X=X).grow([sample])]
    one, several = (ForestGrower(matrix, target, rules, n_threads, X=X).grow(samples) for n_threads in (1, 2))
    assert_same_trees(one, several)
    assert_same_trees(one, alone)


@pytest.mark.parametrize(("kind", "criterion"), CASES)
@pytest.mark.parametrize("random_thresholds", [False, True])
def test_weights_mean_repetition(kind, criterion, random_thresholds):
    X, signal = make_rows(300)
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    target = make_target(signal, kind)
    rules = ForestParameters(criterion, features_per_split=3, random_thresholds=random_thresholds)
    binning = learn_binning(X[weight > 0], weight[weight > 0].astype(float))
    kept = np.flatnonzero(weight)
    copies = np.repeat(kept, weight[kept])
    weighted, repeated = (
        grow_one(binning.transform(X[rows]), target._replace(y=target.y[rows]), rules, of_rows, X=X[rows])
        for rows, of_rows in ((kept, weight[kept].astype(np.float64)), (copies, None))
    )
    assert_same_trees([weighted], [repeated], left_out={"n_samples"})


def test_numbers_far_from_zero_and_with_heavy_tails():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    y = np.where(X[:, 0] > 0.3, 1.0, 0.0)
    y[0] = 1e5
    for shift in (0.0, 1e9):
        tree = grow_one(bin_rows(X), number_target(y + shift), ForestParameters("squared_error", max_leaf_nodes=60))
        assert 0 in tree.feature
        assert tree.value[0, 0] == pytest.approx(y.mean() + shift, rel=1e-6)
    assert set(np.unique(tree.value[tree.feature < 0].round(3))) >= {np.float32(1e9)}


def predictions(tree, codes):
    return tree.value[leaves_of(tree, codes)]


@pytest.mark.parametrize("criterion", CLASS_CRITERIA)
@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_class_trees_are_scikit_learns(load, criterion):
    """On data without ties, codes for all values; sum of gains and predictions of the rows themselves."""
    X, y = load(return_X_y=True)
    X = (X * (1 + 1e-4 * np.random.default_rng(0).normal(size=X.shape))).astype(np.float32)
    matrix = bin_rows(X, max_bins=65_535)
    tree = grow_one(matrix, class_target(y, [y.max() + 1]), ForestParameters(criterion))
    other = DecisionTreeClassifier(criterion=criterion, random_state=0).fit(X, y)
    weighted = other.tree_.impurity * other.tree_.weighted_n_node_samples
    assert tree.gain.sum() == pytest.approx(weighted[0], rel=1e-5)
    assert abs(tree.n_nodes - other.tree_.node_count) <= 4
    expected = other.predict_proba(X) if y.max() > 1 else other.predict_proba(X)[:, 1:]
    np.testing.assert_allclose(predictions(tree, matrix.columns), expected, atol=1e-6)


@pytest.mark.parametrize("criterion", NUMBER_CRITERIA[:2])
def test_number_trees_are_scikit_learns(criterion):
    rng = np.random.default_rng(0)
    X, y = load_diabetes(return_X_y=True)
    X, y = (X + 1e-3 * rng.normal(size=X.shape)).astype(np.float32), y + rng.random(len(y))
    binning = learn_binning(X, max_bins=65_535)
    rules = {"max_depth": 5, "min_samples_leaf": 4}
    tree = grow_one(binning.transform(X), number_target(y), ForestParameters(criterion, **rules))
    other = DecisionTreeRegressor(criterion=criterion, random_state=0, **rules).fit(X, y)
    assert tree.n_nodes == other.tree_.node_count
    np.testing.assert_allclose(predictions(tree, binning.codes(X))[:, 0], other.predict(X), rtol=1e-6)


def test_errors_and_stops_come_through_threads():
    X, signal = make_rows()
    grower = ForestGrower(bin_rows(X), make_target(signal, "two classes"), ForestParameters(), 2)

    class Interrupted(list):
        def __getitem__(self, block):
            if block.start >= 3:
                raise KeyboardInterrupt
            return super().__getitem__(block)

    with pytest.raises(KeyboardInterrupt):
        grower.grow(Interrupted([TreeSample(None, None, i) for i in range(50)]))
