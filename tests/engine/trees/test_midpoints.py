"""Thresholds half-way between the values of a node's rows."""

from __future__ import annotations

import numpy as np
import pytest

from fastens import DecisionTreeRegressor
from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target
from fastens.engine.trees import leaf_values as midpoints
from fastens.engine.trees.leaf_values import leaves_of_rows
from reference.forest_growth import rows_of_nodes


@pytest.mark.parametrize("most_thresholds", [None, 5])
def test_rows_go_the_same_ways(most_thresholds, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=300), rng.integers(0, 9, 300), np.zeros(300), rng.normal(size=300)])
    X[rng.random(X.shape) < 0.1] = np.nan
    binning = learn_binning(X)
    matrix = binning.transform(X)
    [tree] = ForestGrower(matrix, class_target(rng.integers(0, 3, 300), [3]), ForestParameters()).grow(
        [TreeSample(None, None, 0)]
    )
    if most_thresholds is not None:
        monkeypatch.setattr(midpoints, "MAX_CODES", most_thresholds + 2)
    cut, half_way = midpoints.cut_half_way(tree, matrix, X, binning)
    np.testing.assert_array_equal(leaves_of_rows(half_way.codes(X), cut), leaves_of_rows(matrix.columns, tree))
    rows, _ = rows_of_nodes(tree, matrix.columns, np.arange(300))
    used = {f: set() for f in range(4)}
    for node in np.flatnonzero(tree.feature >= 0):
        f = tree.feature[node]
        left, right = X[rows[tree.left_child[node]], f], X[rows[tree.left_child[node] + 1], f]
        if tree.bin_threshold[node] < matrix.n_codes[f] - 1:
            used[f].add((np.nanmax(left) + np.nanmin(right)) / 2)
            threshold = half_way.thresholds[f][cut.bin_threshold[node] - 1]
            assert np.nanmax(left) <= threshold <= np.nanmin(right)
    assert len(used[0]) > 5 > len(used[2])
    for f, limits in enumerate(half_way.thresholds):
        if most_thresholds is None or len(used[f]) <= most_thresholds:
            np.testing.assert_allclose(limits, sorted(used[f]))
        else:
            assert set(limits) <= set(binning.thresholds[f])


def test_an_infinity_is_cut_off_from_all_finite_values():
    largest = np.finfo(np.float64).max
    for x, threshold in [
        ([0.0, 99.0, np.inf], largest),
        ([-np.inf, 0.0, 99.0], -np.inf),
        ([-largest, -np.inf, largest], -np.inf),
        ([-np.inf, np.inf, np.inf], 0.0),
    ]:
        X = np.array(x)[:, None]
        y = (X[:, 0] > threshold).astype(int)
        binning = learn_binning(X)
        matrix = binning.transform(X)
        [tree] = ForestGrower(matrix, class_target(y, [2]), ForestParameters()).grow([TreeSample(None, None, 0)])
        assert midpoints.cut_half_way(tree, matrix, X, binning)[1].thresholds[0].tolist() == [threshold]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_trees_take_finite_values_for_finite(dtype):
    X = np.append(np.arange(100.0), np.inf).astype(dtype)[:, None]
    y = np.append(np.arange(100.0), -1000.0)
    for signed in (X, -X):
        tree = DecisionTreeRegressor().fit(signed, y)
        new = np.sign(signed[1, 0]) * np.array([[99.5], [1e30], [np.inf]], dtype=dtype)
        assert tree.predict(new).tolist() == [99.0, 99.0, -1000.0]
