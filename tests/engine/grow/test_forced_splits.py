"""Trees with forced first splits: compared with the naive implementation, and invariant where they must be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fastens.engine.grow.growth import GrowthParameters, TreeGrower
from reference.grown import assert_same_tree, bin_rows, make_rows
from reference.growth import NaiveGrower
from reference.joint_growth import NaiveJointGrower

# Feature, last code on the left, first word of the set on the left, and the forced splits of the children.
NUMERIC = np.array([[2, 20, -1, 1, 2], [0, 30, -1, -1, -1], [2, 25, -1, 3, -1], [3, 9, -1, -1, -1]], np.int32)
# A set of categories, then a threshold that leaves a side of its parent empty, with a split below that is omitted too.
SETS = np.array(
    [[1, 0, 1, 1, 3], [3, 10, -1, 2, 4], [3, 15, -1, -1, -1], [2, 8, -1, -1, -1], [3, 12, -1, 2, -1]], np.int32
)
WORDS = np.array([0, 0b10110101010], np.uint32)
RULES = GrowthParameters(max_leaf_nodes=9, min_samples_leaf=5, l2_regularization=0.5)
CASES = {
    "numbers": (NUMERIC, RULES),
    "categories": (SETS, RULES),
    "levels": (NUMERIC, replace(RULES, max_leaf_nodes=None, max_depth=3)),
    "pruned": (NUMERIC, replace(RULES, split_penalty=20.0)),
    "small sides": (NUMERIC, replace(RULES, min_samples_leaf=35)),
    "light sides": (SETS, replace(RULES, min_child_weight=20.0)),
    "gains": (NUMERIC, replace(RULES, min_gain_to_split=1e6)),
    "few leaves": (NUMERIC, replace(RULES, max_leaf_nodes=3)),
    "drawn thresholds": (SETS, replace(RULES, rows_per_threshold=20)),
}


def grown(case, n_rows=240, n_outputs=1, weight=None, n_threads=1):
    splits, rules = CASES[case]
    parts = [make_rows(n_rows, seed=seed) for seed in range(n_outputs)]
    X = parts[0][0]
    X[:, 1] -= np.nanmin(X[:, 1])
    gradients, hessians = (np.stack([part[k] for part in parts]) for k in (1, 2))
    if n_outputs == 1:
        gradients, hessians = gradients[0], hessians[0]
    matrix = bin_rows(X, weight, max_bins=40, categorical=(1,) if splits is SETS else ())
    rules = replace(rules, forced_splits=(splits, WORDS))
    own = matrix if n_outputs == 1 else matrix.with_payloads(n_outputs)
    tree = TreeGrower(own, rules, weight, n_threads=n_threads).grow(gradients, hessians)
    kind = NaiveGrower if n_outputs == 1 else NaiveJointGrower
    twin = kind(matrix.columns, matrix.n_codes, matrix.is_categorical, rules)
    return tree, lambda: twin.grow(gradients, hessians, weight)


@pytest.mark.parametrize(("n_outputs", "weighted"), [(1, False), (2, True)])
@pytest.mark.parametrize("case", [case for case in CASES if case != "levels"])
def test_trees_match_the_reference(case, weighted, n_outputs):
    weight = np.random.default_rng(1).integers(1, 4, 240).astype(np.float64) if weighted else None
    tree, twin = grown(case, n_outputs=n_outputs, weight=weight)
    nodes = twin()
    assert tree.n_nodes == len(nodes)
    for index, node in enumerate(nodes):
        assert tree.n_samples[index] == node["copies"]
        np.testing.assert_allclose(tree.value[index], node["value"], rtol=1e-6, atol=1e-9)
        if "children" in node:
            assert tree.feature[index] == node["split"]["feature"]
            assert tree.gain[index] == pytest.approx(node["split"]["gain"], rel=1e-6, abs=1e-6)
            assert tree.left_child[index] == node["children"][0]


def test_cases_are_what_they_say():
    """Which of the forced splits are made follows from the features and codes of the first nodes."""
    first = {case: grown(case)[0] for case in CASES}
    for case in ("numbers", "levels", "pruned", "gains", "few leaves"):
        assert (first[case].feature[0], first[case].bin_threshold[0]) == (2, 20)
    assert first["numbers"].bin_threshold[[1, 2]].tolist() == [30, 25]
    assert first["few leaves"].n_leaves == 3
    assert first["gains"].n_leaves == 5  # only forced splits
    assert first["pruned"].n_leaves >= 5 > first["few leaves"].n_leaves
    assert first["levels"].feature[[1, 2]].tolist() == [0, 2]
    assert first["categories"].category_words[0] & 0x7FE == WORDS[1] & 0x7FE
    assert first["categories"].bin_threshold[1] == 10


@pytest.mark.parametrize("case", CASES)
def test_threads_and_copies_do_not_change_trees(case):
    weight = np.tile([1.0, 2.0], 120)
    tree, _ = grown(case, weight=weight)
    assert_same_tree(tree, grown(case, weight=weight, n_threads=4)[0])
    large = grown(case, 6000)[0]
    assert_same_tree(large, grown(case, 6000, n_threads=4)[0])
