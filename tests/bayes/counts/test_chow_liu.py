"""Information of pairs of columns, and trees of the greatest information."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.bayes.counts.counting import LabelledCodes, class_counts, encode, pair_counts, without_missing
from fastens.bayes.counts.dirichlet import class_information, maximum_spanning_tree, mutual_information
from reference import dependence as plain


def information_of(X, y, n_classes, weights=None):
    X = np.asarray(X, dtype=float)
    sizes = np.nanmax(X, axis=0, initial=-1).astype(np.int64) + 1
    codes = encode(X, sizes).codes
    counts = [
        without_missing(count(LabelledCodes(codes, y, weights), sizes + 1, n_classes), sizes + 1)
        for count in (pair_counts, class_counts)
    ]
    return mutual_information(counts[0], sizes), class_information(counts[1], sizes)


@pytest.mark.parametrize("n_classes", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_information_matches_the_reference(rng, n_classes, weighted):
    X = rng.integers(0, 3, (150, 4)).astype(float)
    X[:, 2] = (X[:, 0] + X[:, 1]) // 2
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.nan  # nothing is known of it
    y = rng.integers(0, n_classes, 150).astype(np.int32)
    weights = rng.integers(1, 4, 150).astype(float) if weighted else None
    ones = np.ones(150) if weights is None else weights
    found, with_class = information_of(X, y, n_classes, weights)
    columns = np.where(np.isnan(X), -1, X).astype(int).T
    for i in range(3):
        for j in range(3):
            expected = plain.mutual_information(columns[i], columns[j], y, ones)
            assert found[i, j] == pytest.approx(expected, abs=1e-13)
        expected = plain.mutual_information(columns[i], y, np.zeros(150, int), ones)
        assert with_class[i] == pytest.approx(expected, abs=1e-13)
    assert not found[3].any()
    assert not found[:, 3].any()
    np.testing.assert_array_equal(found, found.T)


def test_information_of_car(load_table):
    # Nats, from the oracle table of bnclassify's data; and the tree that they make
    table = load_table("car")
    names = [name for name in table.columns if name != "class"]
    X = np.column_stack([np.unique(table[name].astype(str), return_inverse=True)[1] for name in names])
    y = np.unique(table["class"].astype(str), return_inverse=True)[1].astype(np.int32)
    found, with_class = information_of(X, y, 4)
    place = {name: index for index, name in enumerate(names)}
    expected = {
        ("buying", "maint"): 0.07199921,
        ("persons", "safety"): 0.031963,
        ("lug_boot", "safety"): 0.025431,
        ("buying", "safety"): 0.011647,
        ("buying", "persons"): 0.006191,
        ("doors", "lug_boot"): 0.00554,
        ("maint", "safety"): 0.006396,
        ("maint", "persons"): 0.004944,
    }
    for (one, other), value in expected.items():
        assert found[place[one], place[other]] == pytest.approx(value, abs=5e-7)
    assert found[place["buying"], place["maint"]] == pytest.approx(0.07199921, abs=5e-9)
    of_class = {"safety": 0.181732, "persons": 0.152259, "buying": 0.066853, "maint": 0.051088, "doors": 0.003109}
    for name, value in of_class.items():
        assert with_class[place[name]] == pytest.approx(value, abs=5e-7)
    assert with_class[place["lug_boot"]] == pytest.approx(0.0208, abs=5e-5)
    tree = maximum_spanning_tree(found, root=int(with_class.argmax()))
    edges = {frozenset(edge) for edge in list(expected)[:4]} | {frozenset(("doors", "lug_boot"))}
    assert {frozenset(names[index] for index in edge) for edge in plain.rooted_edges(tree)} == edges
    assert tree[place["safety"]] == -1


def test_the_tree_is_the_best_of_all(rng):
    for _ in range(20):
        weights = rng.random((5, 5))
        weights += weights.T
        best = max(plain.spanning_trees(5), key=lambda tree: plain.tree_weight(tree, weights))
        found = maximum_spanning_tree(weights)
        np.testing.assert_array_equal(found, best)
        for root in range(1, 5):
            moved = maximum_spanning_tree(weights, root)
            assert moved[root] == -1
            assert plain.rooted_edges(moved) == plain.rooted_edges(found)


def test_equal_weights_give_the_first_tree_and_one_column_none():
    assert maximum_spanning_tree(np.zeros((4, 4)), 1).tolist() == [1, -1, 1, 1]
    assert maximum_spanning_tree(np.zeros((1, 1))).tolist() == [-1]


def test_pairs_have_a_limit():
    codes = np.zeros((2, 3), np.uint16)
    with pytest.raises(ValueError, match=r"pair counts, \(categories of all columns\)\^2 x classes"):
        pair_counts(LabelledCodes(codes, np.zeros(3, np.int32)), np.array([9000, 9000]), 2)
