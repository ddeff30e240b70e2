"""The values of bins, and random thresholds between them by their distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import chisquare

from fastens.engine.bins.bin_values import values_of_bins
from fastens.engine.bins.binning import learn_binning
from fastens.engine.forest.forests import ForestGrower, ForestParameters, TreeSample, class_target, number_target
from reference.forest_growth import random_bits, random_split
from reference.forest_growth import values_of_bins as naive_values

LARGEST = np.finfo(np.float64).max
COLUMNS = {
    "an outlier": [*range(10), 1000.0],
    "an outlier below": [-1000.0, *range(10)],
    "two": [0.0, 5.0],
    "minus infinity": [-np.inf, *range(10)],
    "both infinities": [-np.inf, 3.0, np.inf],
    "an overflowing range": [-1.7e308, 0.0, 1.7e308],
    "subnormals": np.arange(6) * 1e-315,
    "close to each other": 1e9 + np.arange(7.0),
}


def cuts(column, n_draws, kind="numbers", rows=None):
    """How often the first cut of a column is behind each of its distinct values."""
    column = np.asarray(column, dtype=np.float64)
    rows = np.ones(len(column)) if rows is None else rows
    y = np.arange(len(column))
    target = number_target(y) if kind == "numbers" else class_target(y % 2 if kind == "two classes" else y, [2])
    if kind == "more classes":
        target = class_target(y, [len(y)])
    matrix = learn_binning(column[:, None]).transform(column[:, None])
    criterion = "squared_error" if kind == "numbers" else "gini"
    rules = ForestParameters(criterion, random_thresholds=True, max_depth=1)
    grower = ForestGrower(matrix, target, rules, X=column[:, None])
    trees = grower.grow([TreeSample(rows, None, seed) for seed in range(n_draws)])
    return np.bincount([tree.bin_threshold[0] - 1 for tree in trees], minlength=len(column) - 1)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("max_bins", [20, 1000])
def test_values_match_the_reference(rng, max_bins, dtype, n_threads):
    X = rng.normal(size=(700, 5)).astype(dtype)
    X[:, 1], X[:, 2], X[::3, 3] = np.round(X[:, 1]), np.nan, np.nan
    X[0, 0], X[1, 0] = -np.inf, np.inf
    binning = learn_binning(X, max_bins=max_bins)
    matrix = binning.transform(X)
    found = values_of_bins(matrix, X, n_threads)
    for f in (0, 1, 3, 4):
        np.testing.assert_array_equal(found[f], naive_values(matrix.columns[f], X[:, f], binning.n_codes[f]))
    assert not np.isnan(found[2][1:]).any()
    X = np.nan_to_num(X)
    matrix = learn_binning(X, max_bins=max_bins).transform(X)
    for dense, of_sparse in zip(values_of_bins(matrix, X), values_of_bins(matrix, sparse.csr_matrix(X)), strict=True):
        np.testing.assert_array_equal(dense, of_sparse)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "two classes", "more classes"])
@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_thresholds_are_uniform_over_the_range(column, kind):
    """Each cut is as frequent as its gap is wide, to the distribution (Geurts, Ernst & Wehenkel 2006)."""
    values = np.clip(column, -LARGEST, LARGEST)
    gaps = np.diff(values / 4)
    gaps = np.diff(values) if not gaps.any() else gaps
    counts = cuts(column, 4000, kind)
    assert counts.sum() == 4000
    expected = 4000 * (gaps / gaps.sum())
    likely = expected >= 5
    assert counts[~likely].sum() <= max(10, 4 * expected[~likely].sum())
    if likely.sum() > 1:
        share = expected[likely] / expected[likely].sum()
        assert chisquare(counts[likely], counts[likely].sum() * share).pvalue > 1e-3


EXTREMES = {
    **COLUMNS,
    "one value": [3.0] * 7,
    "only infinities": [-np.inf, np.inf, np.inf, -np.inf],
    "infinite and missing": [np.nan, -np.inf, np.nan, 1.0, np.inf, 2.0],
    "largest and infinite": [LARGEST, np.inf, -LARGEST, -np.inf, 0.0],
    "smallest": [0.0, 5e-324, -5e-324, 1e-323, 1.5e-323],
}


@pytest.mark.parametrize("kind", ["numbers", "two classes", "more classes"])
@pytest.mark.parametrize("column", EXTREMES.values(), ids=EXTREMES)
def test_random_trees_match_the_reference(column, kind):
    """Every threshold, and the side of missing values, down to the leaves."""
    x = np.repeat(np.asarray(column, dtype=np.float64), 3)
    y = np.arange(len(x)) * 7 % 11
    target = {
        "numbers": lambda: number_target(y.astype(np.float64)),
        "two classes": lambda: class_target(y % 2, [2]),
        "more classes": lambda: class_target(y % 4, [4]),
    }[kind]()
    matrix = learn_binning(x[:, None]).transform(x[:, None])
    rules = ForestParameters("squared_error" if kind == "numbers" else "gini", random_thresholds=True)
    trees = ForestGrower(matrix, target, rules, X=x[:, None]).grow([TreeSample(None, None, s) for s in range(20)])
    codes, values = matrix.columns[0].astype(np.int64), naive_values(matrix.columns[0], x, matrix.n_codes[0])
    for seed, tree in enumerate(trees):
        rows, keys = {0: np.arange(len(x))}, {0: seed}
        for node in range(tree.n_nodes):
            here = codes[rows[node]]
            if tree.feature[node] < 0:
                assert len(set(here.tolist())) == 1 or len(np.unique(target.y[rows[node]])) == 1
                continue
            is_left, last = random_split(values, here, 0, keys[node])
            if last is not None:
                assert tree.bin_threshold[node] == last
            assert 0 < is_left.sum() < len(here)
            for side, chosen in enumerate((is_left, ~is_left)):
                child = tree.left_child[node] + side
                rows[child], keys[child] = rows[node][chosen], random_bits(keys[node], side)
                assert tree.n_samples[child] == chosen.sum()


@pytest.mark.parametrize("column", [[0.0, 5e-324], [-0.0, 5e-324, 1e-323], [LARGEST, np.inf], [-np.inf, -LARGEST, 0.0]])
def test_no_side_is_empty_where_nothing_lies_between(column):
    assert cuts(column, 500)[: len(column) - 1].sum() == 500


@pytest.mark.parametrize("kind", ["numbers", "two classes"])
def test_thresholds_span_the_range_of_the_node_not_of_the_column(kind):
    """Beside infinite values, those that are left are drawn between as if they were alone."""
    column = np.array([-np.inf, *range(10), 1e300])
    alone = cuts(column[1:-1], 3000, kind)
    counts = cuts(column, 3000, kind, rows=(np.abs(column) < 1e9).astype(np.float64))
    assert counts[0] == counts[10] == 0
    assert chisquare(counts[1:10], np.full(9, 3000 / 9)).pvalue > 1e-3
    assert chisquare(alone, np.full(9, 3000 / 9)).pvalue > 1e-3


@pytest.mark.slow
def test_wide_bins_are_cut_to_the_width_of_a_bin(rng):
    """With many values in a bin, thresholds are uniform between the middles of the outer bins."""
    x = rng.lognormal(size=(3000, 1))
    binning = learn_binning(x, max_bins=20)
    matrix = binning.transform(x)
    rules = ForestParameters("squared_error", random_thresholds=True, max_depth=1)
    trees = ForestGrower(matrix, number_target(x), rules, X=x).grow([TreeSample(None, None, s) for s in range(4000)])
    middles = naive_values(matrix.columns[0], x[:, 0], binning.n_codes[0])[1:]
    gaps = np.diff(middles)
    counts = np.bincount([tree.bin_threshold[0] - 1 for tree in trees], minlength=len(gaps))
    assert chisquare(counts, 4000 * gaps / gaps.sum()).pvalue > 1e-3
    assert (np.diff(binning.thresholds[0]) > 0).all()
    assert ((middles[:-1] < binning.thresholds[0]) & (binning.thresholds[0] < middles[1:])).all()
