"""Sets of codes as bits, and which codes of a node's feature go left, against Python's sets."""

from __future__ import annotations

import numpy as np
import pytest

from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, number_target
from fastens.engine.trees.trees import TreeEnsemble, codes_left, set_of
from reference.forest_growth import rows_of_nodes


@pytest.mark.parametrize("n_codes", [None, 1, 31, 32, 33, 300])
def test_bits_match_the_codes(rng, n_codes):
    codes = np.flatnonzero(rng.random(n_codes or 70) < 0.4)
    words = set_of(codes, n_codes)
    n = codes.max(initial=0) + 1 if n_codes is None else n_codes
    assert len(words) == -(-n // 32)
    assert {32 * w + b for w, word in enumerate(words.tolist()) for b in range(32) if word >> b & 1} == set(
        codes.tolist()
    )


def test_codes_go_left_as_rows_do(rng):
    X = np.column_stack([rng.integers(0, 50, 600), np.where(rng.random(600) < 0.1, np.nan, rng.normal(size=600))])
    y = np.sin(X[:, 0] * 7) + np.nan_to_num(X[:, 1], nan=2.0)
    binning = learn_binning(X, None, 255, np.array([True, False]))
    matrix = binning.transform(X)
    grower = ForestGrower(matrix, number_target(y), ForestParameters("squared_error", max_depth=4))
    [tree] = grower.grow([TreeSample(None, None, 0)])
    assert {True, False} == set((tree.category_set[tree.left_child > 0] >= 0).tolist())
    trees = TreeEnsemble.from_trees([tree], [0], np.zeros(1), binning)
    rows, _ = rows_of_nodes(tree, matrix.columns, np.arange(600))
    for node in np.flatnonzero(tree.left_child > 0):
        codes = matrix.columns[tree.feature[node], rows[node]].astype(np.int64)
        left = np.isin(rows[node], rows[tree.left_child[node]])
        np.testing.assert_array_equal(codes_left(trees, node, codes), left)
